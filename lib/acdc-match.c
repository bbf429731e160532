/* SPDX-License-Identifier: Apache-2.0 */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-match.h"

/* No part that is right is as long; of another one this much is shown. */
#define PART_MAX 100

/* Ends 's' at the first 'sep'.  Returns what is behind it, NULL: there is none. */
static char *
split(char *s, char sep)
{
    char *p = strchr(s, sep);

    if (p) {
        *p++ = '\0';
    }
    return p;
}

/* A decimal number of at most five digits, up to 'max'. */
static bool
parse_number(const char *s, unsigned int max, unsigned int *value)
{
    size_t n = strspn(s, "0123456789");

    if (!n || n > 5 || s[n]) {
        return false;
    }
    *value = (unsigned int) strtoul(s, NULL, 10);
    return *value <= max;
}

static bool
parse_ports(char *s, uint16_t *min, uint16_t *max)
{
    const char *last = split(s, '-');
    unsigned int lo, hi;

    if (!parse_number(s, 65535, &lo)
        || !parse_number(last ? last : s, 65535, &hi)) {
        return false;
    }
    *min = (uint16_t) lo;
    *max = (uint16_t) hi;
    return lo <= hi;
}

static bool
parse_prefix(char *s, struct acdc_match *m)
{
    const char *length = split(s, '/');
    unsigned int bits, plen, i;
    bool v4 = inet_pton(AF_INET, s, m->remote + 12) == 1;

    if (v4) {
        m->remote[10] = m->remote[11] = 0xff;
    } else if (inet_pton(AF_INET6, s, m->remote) != 1) {
        return false;
    }
    bits = v4 ? 32 : 128;
    plen = bits;
    if (length && !parse_number(length, bits, &plen)) {
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

/* Parses KEY=VALUE, of 'n' bytes; '*seen' has a bit for each key that was there. */
static bool
parse_part(const char *s, size_t n, struct acdc_match *m, unsigned int *seen,
           char *error, size_t error_size)
{
    static const char *const keys[] = { "remote", "remote_port", "local_port" };
    int len = n < PART_MAX ? (int) n : PART_MAX;
    char part[PART_MAX + 1], *value;
    unsigned int i;

    while (len && (size_t) len < n && (s[len] & 0xc0) == 0x80) {
        len--;                  /* No character is cut: the database takes none. */
    }
    memcpy(part, s, (size_t) len);
    part[len] = '\0';
    value = split(part, '=');
    value = value ? value : part + len;
    for (i = 0; i < 3 && strcmp(part, keys[i]); i++) {
        continue;
    }
    if (i == 3) {
        snprintf(error, error_size, "\"%.*s\": unknown key; allowed are remote, "
                 "remote_port and local_port, each as key=value", len, s);
        return false;
    }
    if (*seen & 1u << i) {
        snprintf(error, error_size, "\"%.*s\": %s given twice", len, s, keys[i]);
        return false;
    }
    *seen |= 1u << i;
    if (!(i == 0 ? parse_prefix(value, m)
          : i == 1 ? parse_ports(value, &m->remote_port_min, &m->remote_port_max)
          : parse_ports(value, &m->local_port_min, &m->local_port_max))) {
        snprintf(error, error_size, "\"%.*s\": %s must be %s", len, s, keys[i],
                 i ? "a port or range in 0-65535, smaller first, as 5432 or "
                     "8000-8010"
                 : "an IPv4 or IPv6 address or prefix without host bits, as "
                   "10.0.0.0/8 or 2001:db8::/32");
        return false;
    }
    return true;
}

bool
acdc_match_parse(const char *s, struct acdc_match *m, char *error,
                 size_t error_size)
{
    unsigned int seen = 0;

    memset(m, 0, sizeof *m);
    m->remote_port_max = m->local_port_max = 65535;
    s += strspn(s, " ");
    while (*s) {
        size_t whole = strcspn(s, ",");
        size_t n = whole;

        while (n && s[n - 1] == ' ') {
            n--;
        }
        if (!parse_part(s, n, m, &seen, error, error_size)) {
            return false;
        }
        s += whole;
        if (*s == ',') {
            s++;
            s += strspn(s, " ");
            if (!*s) {
                snprintf(error, error_size, "ends with a comma");
                return false;
            }
        }
    }
    return true;
}
