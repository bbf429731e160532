/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What AC/DC leaves of packets as it is. */

#ifndef UNTOUCHED_H
#define UNTOUCHED_H 1

#include "host.h"
#include "program.h"

enum {
    HEADERS_MAX = 0x10000 + ACDC_TCP_HLEN,
    LIST_MAX = 2 * ACDC_BATCH_MAX,      /* A batch and its FACKs. */
};

/* The next option from '*ofs' on that is the guest's, NULL without one. */
static const uint8_t *
next_option(const struct acdc_pkt *pkt, unsigned int *ofs)
{
    const uint8_t *tcp = acdc_pkt_tcp(pkt);

    while (*ofs < pkt->tcp_hlen && tcp[*ofs] != ACDC_TCPOPT_EOL) {
        const uint8_t *opt = tcp + *ofs;

        if (*opt == ACDC_TCPOPT_NOP) {
            ++*ofs;
            continue;
        }
        *ofs += opt[1];
        if (*opt != ACDC_OPT_KIND || opt[1] < ACDC_OPT_BODY_OFS
            || acdc_get16(opt + ACDC_OPT_EXID_OFS) != ACDC_OPT_EXID) {
            return opt;
        }
    }
    return NULL;
}

/* The guests' options are the same, but that a guest may be told a smaller MSS and another
 * scale. */
static void
check_options(const struct acdc_pkt *was, const struct acdc_pkt *is, bool egress)
{
    unsigned int was_ofs = ACDC_TCP_HLEN, is_ofs = ACDC_TCP_HLEN;

    for (;;) {
        const uint8_t *a = next_option(was, &was_ofs);
        const uint8_t *b = next_option(is, &is_ofs);

        CHECK(!a == !b);
        if (!a) {
            return;
        }
        CHECK(a[0] == b[0] && a[1] == b[1]);
        if (egress || (a[0] != ACDC_TCPOPT_MSS && a[0] != ACDC_TCPOPT_WSCALE)) {
            CHECK(!memcmp(a, b, a[1]));
        } else if (a[0] == ACDC_TCPOPT_MSS) {
            CHECK(acdc_get16(b + 2) <= acdc_get16(a + 2));
        }
    }
}

/* Headers without options, and without what AC/DC may change. */
static void
copy_headers(uint8_t *copy, const struct packet *p, const struct acdc_pkt *pkt, bool egress)
{
    uint8_t *ip = copy + pkt->l3_ofs, *tcp = copy + pkt->l4_ofs;

    memcpy(copy, packet_data(p), pkt->l4_ofs + (size_t) ACDC_TCP_HLEN);
    if (pkt->ip_version == 4) {
        ip[1] &= (uint8_t) ~ACDC_ECN_MASK;
        acdc_put16(ip + 2, 0);
        acdc_put16(ip + 10, 0);
    } else {
        ip[1] &= (uint8_t) ~(ACDC_ECN_MASK << 4);
        acdc_put16(ip + 4, 0);
        if (egress) {
            /* The flow label is the path. */
            ip[1] &= 0xf0;
            acdc_put16(ip + 2, 0);
        }
    }
    if (!egress) {
        acdc_put16(tcp + 14, 0);
    } else if (!pkt->payload && (pkt->tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_FIN | ACDC_TCP_ACK))
                                == ACDC_TCP_ACK) {
        /* Of a guest whose window shrank. */
        acdc_put32(tcp + 4, 0);
    } else {
        /* It may ask for an ACK. */
        tcp[13] |= ACDC_TCP_CWR;
    }
    tcp[12] &= 0xf & ~ACDC_RES_MASK;
    acdc_put16(tcp + 16, 0);
}

/* What must hold of 'p', which was 'before'. */
static void
check_packet(const struct packet *before, const struct packet *p, bool egress)
{
    static uint8_t headers[2][HEADERS_MAX];
    struct acdc_pkt was, is;
    uint32_t more, was_end, is_end;

    if (!packet_parse(before, &was)) {
        CHECK(packet_same(before, p));
        return;
    }
    CHECK(packet_parse(p, &is));
    CHECK(is.l3_ofs == was.l3_ofs && is.l4_ofs == was.l4_ofs && is.payload == was.payload);
    more = (uint32_t) is.tcp_hlen - was.tcp_hlen;
    CHECK(p->len - before->len == more && acdc_pkt_ip_len(&is) - acdc_pkt_ip_len(&was) == more);
    copy_headers(headers[0], before, &was, egress);
    copy_headers(headers[1], p, &is, egress);
    CHECK(!memcmp(headers[0], headers[1], was.l4_ofs + (size_t) ACDC_TCP_HLEN));
    check_options(&was, &is, egress);
    /* Payload, and what is behind the IP packet. */
    was_end = (uint32_t) was.l4_ofs + was.tcp_hlen;
    is_end = (uint32_t) is.l4_ofs + is.tcp_hlen;
    CHECK(!memcmp(packet_data(before) + was_end, packet_data(p) + is_end, p->len - is_end));
    CHECK(packet_csum_ok(before) == packet_csum_ok(p)
          || (p->csum_partial && !packet_csum_ok(before)));
    /* +0 and -0 are one number. */
    CHECK(p->csum_partial || packet_tcp_sum(before) % 0xffff == packet_tcp_sum(p) % 0xffff);
}

/* The packets of a list, and what they were before. */
struct batch {
    struct packet *of[LIST_MAX], *was[LIST_MAX];
    unsigned int n;
};

static void
remember(struct batch *b, struct packet *list)
{
    for (b->n = 0; list; list = list->next) {
        b->was[b->n] = packet_clone(list);
        b->of[b->n++] = list;
    }
}

/* Its place in the batch from 'i' on, or the end. */
static unsigned int
find(const struct batch *b, unsigned int i, const struct packet *p)
{
    while (i < b->n && b->of[i] != p) {
        i++;
    }
    return i;
}

#endif /* untouched.h */
