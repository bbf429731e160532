/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Matches as text. */

#include <stdlib.h>
#include <string.h>

#include "acdc-match.h"
#include "tap.h"

static void
test_parser(void)
{
    static const struct {
        const char *text;
        const char *error;      /* Part of it; NULL: good. */
    } cases[] = {
        { "", NULL },
        { "  ", NULL },
        { "remote=10.0.0.0/8", NULL },
        { "remote=10.0.0.1", NULL },
        { "remote=0.0.0.0/0", NULL },
        { "remote=2001:db8::/32", NULL },
        { "remote=::/0", NULL },
        { "remote=::1", NULL },
        { "remote_port=5432", NULL },
        { "local_port=8000-8010", NULL },
        { "local_port=0-65535", NULL },
        { "remote=10.0.0.0/8,remote_port=5432,local_port=8000-8010", NULL },
        { "local_port=1 , remote=10.0.0.1", NULL },
        { "remote=10.0.0.1/8", "remote" },
        { "remote=10.0.0.0/33", "remote" },
        { "remote=10.0.0/8", "remote" },
        { "remote=::/129", "remote" },
        { "remote=2001:db8::1/32", "remote" },
        { "remote=", "remote" },
        { "remote", "remote" },
        { "remote=1.2.3.4/", "remote" },
        { "remote=/8", "remote" },
        { "remote=example.com", "remote" },
        { "remote_port=65536", "0-65535" },
        { "remote_port=-1", "0-65535" },
        { "remote_port=1-", "0-65535" },
        { "remote_port=2-1", "0-65535" },
        { "remote_port=1-2-3", "0-65535" },
        { "remote_port=0x10", "0-65535" },
        { "remote_port=000001", "0-65535" },
        { "remote_port=1,remote_port=2", "twice" },
        { "port=1", "unknown key" },
        { "REMOTE=10.0.0.1", "unknown key" },
        { ",", "unknown key" },
        { "remote_port=1,,local_port=1", "unknown key" },
        { "remote_port=1,", "comma" },
    };
    struct acdc_match m;
    char error[200];
    unsigned int i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool good;

        error[0] = '\0';
        good = acdc_match_parse(cases[i].text, &m, error, sizeof error);
        ok(good == !cases[i].error
           && (good || strstr(error, cases[i].error)), "\"%s\": %s",
           cases[i].text, error);
    }
    acdc_match_parse("remote=10.1.0.0/16,remote_port=7,local_port=8-9", &m,
                     error, sizeof error);
    ok(m.remote_set && m.remote_plen == 112 && m.remote[10] == 0xff
       && m.remote[12] == 10 && m.remote[13] == 1 && m.remote_port_min == 7
       && m.remote_port_max == 7 && m.local_port_min == 8
       && m.local_port_max == 9, "values");
    /* A buffer of any size for the message. */
    for (i = 0; i < sizeof error; i++) {
        char *small = malloc(i + 1);

        small[i] = 0x55;
        acdc_match_parse("nonsense=1", &m, small, i);
        if (small[i] != 0x55 || (i && !memchr(small, '\0', i))) {
            break;
        }
        free(small);
    }
    is_u64(i, sizeof error, "messages keep to their buffer");
}

int
main(void)
{
    test_parser();
    return tap_end();
}
