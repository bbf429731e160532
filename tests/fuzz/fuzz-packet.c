/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Parser and editor on any bytes: nothing read or written outside what is
 * linear, payload as it was, checksums as right or wrong as they were. */

#include <stdlib.h>

#include "host.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void
edit(struct acdc_pkt *pkt, uint8_t how)
{
    struct tcp_spec spec = { .opts_len = 0 };
    unsigned int value = how / 12;

    switch (how % 12) {
    case 0: acdc_pkt_set_ecn(pkt, value & 3); break;
    case 1: acdc_pkt_set_reserved(pkt, value & ACDC_RES_MASK); break;
    case 2: acdc_pkt_set_window(pkt, (uint16_t) (value * 2113)); break;
    case 3:
        acdc_pkt_add_capability(pkt, ACDC_OPT_EXID, how, 0);
        break;
    case 4:
        opt_feedback(&spec, ACDC_OPT_EXID, value, 1u << 31);
        acdc_pkt_add_option(pkt, spec.opts, spec.opts_len);
        break;
    case 5:
        if (pkt->opt_flags & ACDC_O_WSCALE) {
            acdc_pkt_set_wscale(pkt, value & 15);
        }
        break;
    case 6:
        acdc_pkt_sack_edge(pkt, pkt->ack, pkt->ack + value * 1000);
        break;
    case 7: acdc_pkt_strip(pkt, ACDC_OPT_EXID); break;
    case 8:
        acdc_pkt_dress(pkt, value & 3, value & ACDC_RES_MASK);
        break;
    case 9:
        acdc_pkt_undress(pkt, value & 3, (uint16_t) (value * 2113));
        break;
    case 10:
        acdc_pkt_dress_ack(pkt, ACDC_OPT_EXID, value, 1u << 31, value & 3,
                           value & ACDC_RES_MASK);
        break;
    case 11:
        if ((pkt->opt_flags & (ACDC_O_FEEDBACK | ACDC_O_PLACES))
            == ACDC_O_FEEDBACK
            && !acdc_pkt_undress_ack(pkt, value & 3,
                                     (uint16_t) (value * 2113))) {
            acdc_pkt_undress_any(pkt, ACDC_OPT_EXID, value & 3,
                                 (uint16_t) (value * 2113));
        }
        break;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct packet *p;
    struct acdc_pkt pkt;
    uint8_t *payload;
    uint32_t payload_len;
    uint8_t edits[6];
    uint16_t error;
    uint32_t linear;
    bool partial;
    unsigned int i;

    if (size < sizeof edits + 2 || size > 3000) {
        return 0;
    }
    memcpy(edits, data, sizeof edits);
    partial = data[6] & 1;
    linear = data[6] >> 1;
    data += 7;
    size -= 7;
    p = packet_new((uint32_t) size, edits[0] & 31);
    memcpy(packet_data(p), data, size);
    p->csum_partial = partial;
    p->linear = linear;
    acdc_pkt_init(&pkt, NULL, 0, 0);
    packet_show(p, &pkt);
    pkt.host = p;
    pkt.csum_partial = partial;
    if (!acdc_pkt_parse(&pkt, ACDC_OPT_EXID)) {
        check(!pkt.ip_version && pkt.reason < ACDC_N_COUNTERS);
        packet_unshow(p);
        packet_free(p);
        return 0;
    }
    packet_unshow(p);
    check(pkt.l4_ofs + pkt.tcp_hlen + pkt.payload <= p->len);
    payload_len = p->len - pkt.l4_ofs - pkt.tcp_hlen;
    payload = malloc(payload_len + 1);
    memcpy(payload, acdc_pkt_tcp(&pkt) + pkt.tcp_hlen, payload_len);
    error = packet_tcp_sum(p);
    packet_show(p, &pkt);
    acdc_pkt_make_writable(&pkt);
    for (i = 1; i < sizeof edits; i++) {
        packet_show(p, &pkt);
        edit(&pkt, edits[i]);
        packet_unshow(p);
        check(pkt.data == packet_data(p) && pkt.len == p->len);
        check(p->len - pkt.l4_ofs - pkt.tcp_hlen == payload_len);
        check(!memcmp(payload, acdc_pkt_tcp(&pkt) + pkt.tcp_hlen,
                      payload_len));
        packet_show(p, &pkt);
        check(acdc_pkt_parse(&pkt, ACDC_OPT_EXID));
        packet_unshow(p);
        /* +0 and -0 are one number. */
        check(partial || packet_tcp_sum(p) % 0xffff == error % 0xffff);
    }
    free(payload);
    packet_free(p);
    return 0;
}
