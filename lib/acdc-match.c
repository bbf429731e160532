/* SPDX-License-Identifier: Apache-2.0 */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "acdc-match.h"

struct text {
    const char *s;
    size_t n;
};

static bool
text_is(struct text t, const char *s)
{
    return strlen(s) == t.n && !memcmp(t.s, s, t.n);
}

/* Cuts off and returns what is before 'sep', or all. */
static struct text
text_split(struct text *t, char sep)
{
    const char *end = memchr(t->s, sep, t->n);
    struct text head = { t->s, end ? (size_t) (end - t->s) : t->n };

    t->s += head.n + (end != NULL);
    t->n -= head.n + (end != NULL);
    return head;
}

static struct text
text_trim(struct text t)
{
    while (t.n && t.s[0] == ' ') {
        t.s++;
        t.n--;
    }
    while (t.n && t.s[t.n - 1] == ' ') {
        t.n--;
    }
    return t;
}

/* A decimal number of at most five digits, up to 'max'. */
static bool
parse_number(struct text t, unsigned int max, unsigned int *value)
{
    size_t i;

    *value = 0;
    if (!t.n || t.n > 5) {
        return false;
    }
    for (i = 0; i < t.n; i++) {
        if (t.s[i] < '0' || t.s[i] > '9') {
            return false;
        }
        *value = *value * 10 + (unsigned int) (t.s[i] - '0');
    }
    return *value <= max;
}

static bool
parse_ports(struct text t, uint16_t *min, uint16_t *max)
{
    bool range = memchr(t.s, '-', t.n) != NULL;
    struct text first = text_split(&t, '-');
    unsigned int lo, hi;

    if (!parse_number(first, 65535, &lo)) {
        return false;
    }
    hi = lo;
    if (range && !parse_number(t, 65535, &hi)) {
        return false;
    }
    *min = (uint16_t) lo;
    *max = (uint16_t) hi;
    return lo <= hi;
}

static bool
parse_prefix(struct text t, struct acdc_match *m)
{
    bool has_plen = memchr(t.s, '/', t.n) != NULL;
    struct text addr = text_split(&t, '/');
    char buf[64];
    unsigned int plen, bits, i;
    bool v4;

    if (!addr.n || addr.n >= sizeof buf) {
        return false;
    }
    memcpy(buf, addr.s, addr.n);
    buf[addr.n] = '\0';
    memset(m->remote, 0, sizeof m->remote);
    v4 = inet_pton(AF_INET, buf, m->remote + 12) == 1;
    if (v4) {
        m->remote[10] = m->remote[11] = 0xff;
    } else if (inet_pton(AF_INET6, buf, m->remote) != 1) {
        return false;
    }
    bits = v4 ? 32 : 128;
    plen = bits;
    if (has_plen && !parse_number(t, bits, &plen)) {
        return false;
    }
    plen += 128 - bits;
    m->remote_plen = (uint8_t) plen;
    m->remote_set = true;
    /* 10.1.2.3/8 is most likely a slip of the pen. */
    for (i = plen; i < 128; i++) {
        if (m->remote[i / 8] & 0x80 >> i % 8) {
            return false;
        }
    }
    return true;
}

bool
acdc_match_parse(const char *s, struct acdc_match *m, char *error,
                 size_t error_size)
{
    struct text rest = { s, strlen(s) };
    unsigned int seen = 0;

    memset(m, 0, sizeof *m);
    m->remote_port_max = m->local_port_max = 65535;
    rest = text_trim(rest);
    while (rest.n) {
        struct text value = text_trim(text_split(&rest, ','));
        struct text whole = value;
        struct text key = text_split(&value, '=');
        const char *allowed;
        unsigned int bit;
        bool ok;

        if (text_is(key, "remote")) {
            bit = 1;
            ok = parse_prefix(value, m);
            allowed = "an IPv4 or IPv6 address or prefix without host bits,"
                      " as 10.0.0.0/8 or 2001:db8::/32";
        } else if (text_is(key, "remote_port")) {
            bit = 2;
            ok = parse_ports(value, &m->remote_port_min, &m->remote_port_max);
            allowed = "a port or range in 0-65535, smaller first,"
                      " as 5432 or 8000-8010";
        } else if (text_is(key, "local_port")) {
            bit = 4;
            ok = parse_ports(value, &m->local_port_min, &m->local_port_max);
            allowed = "a port or range in 0-65535, smaller first,"
                      " as 5432 or 8000-8010";
        } else {
            snprintf(error, error_size, "\"%.*s\": unknown key; allowed are "
                     "remote, remote_port and local_port, each as key=value",
                     (int) (whole.n < 100 ? whole.n : 100), whole.s);
            return false;
        }
        if (seen & bit) {
            snprintf(error, error_size, "\"%.*s\": %.*s given twice",
                     (int) (whole.n < 100 ? whole.n : 100), whole.s,
                     (int) key.n, key.s);
            return false;
        }
        seen |= bit;
        if (!ok) {
            snprintf(error, error_size, "\"%.*s\": %.*s must be %s",
                     (int) (whole.n < 100 ? whole.n : 100), whole.s,
                     (int) key.n, key.s, allowed);
            return false;
        }
        if (!rest.n && rest.s[-1] == ',') {
            snprintf(error, error_size, "ends with a comma");
            return false;
        }
    }
    return true;
}
