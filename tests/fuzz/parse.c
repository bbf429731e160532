/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What the engine's parser makes of packets, for test_agreement.py: reads
 * frames in hexadecimal, one a line, and writes for each the counter that says
 * why it is untouched, or where what is. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-parse.h"

static uint32_t
unhex(const char *text, uint8_t *data)
{
    uint32_t n;
    unsigned int byte;

    for (n = 0; sscanf(text + 2 * n, "%2x", &byte) == 1; n++) {
        data[n] = (uint8_t) byte;
    }
    return n;
}

int
main(void)
{
    static char line[2 * 65600];
    struct acdc_pkt p;

    while (fgets(line, sizeof line, stdin)) {
        size_t size = strcspn(line, "\n") / 2;
        uint8_t *data = malloc(size ? size : 1);    /* Exact, for ASan. */
        uint32_t n;

        if (!data) {
            return 1;
        }
        n = unhex(line, data);
        acdc_pkt_init(&p, data, n, n);
        if (!acdc_pkt_parse(&p, ACDC_OPT_EXID)) {
            printf("%s\n", acdc_counter_names[p.reason]);
        } else {
            printf("ip %u at %u tcp at %u header %u payload %u flags %u "
                   "mss %u wscale %u at %u ts %u sack %u cap %u fb %u has %u\n",
                   p.ip_version, p.l3_ofs, p.l4_ofs, p.tcp_hlen, p.payload,
                   p.tcp_flags, p.opt_flags & ACDC_O_MSS ? p.mss : 0, p.wscale,
                   p.ws_ofs, p.ts_ofs, p.sack_ofs, p.cap_ofs, p.fb_ofs,
                   p.opt_flags & ~(ACDC_O_PLACES | ACDC_O_FLAGS));
        }
        free(data);
    }
    return 0;
}
