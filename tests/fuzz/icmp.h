/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* ICMP about a packet: made, and what AC/DC leaves of it as it is. */

#ifndef ICMP_H
#define ICMP_H 1

#include "host.h"
#include "program.h"

/* Of ICMP: bytes from its header on as IP says, and the sum of them and of IPv6's pseudo
 * header. */
static uint32_t
icmp_len(const uint8_t *ip)
{
    return ip[0] >> 4 == 6 ? acdc_get16(ip + 4)
                           : (uint32_t) acdc_get16(ip + 2) - (ip[0] & 0xfu) * 4;
}

static uint32_t
icmp_sum(const uint8_t *ip)
{
    uint32_t len = icmp_len(ip);

    if (ip[0] >> 4 == 4) {
        return sum_bytes(0, ip + (ip[0] & 0xf) * 4, len);
    }
    return sum_bytes(sum_bytes(len + ACDC_IPPROTO_ICMP6, ip + 8, 32), ip + ACDC_IP6_HLEN, len);
}

/* The same of ICMP, of whose quotation options and marks may have gone. */
static void
check_icmp(const struct packet *before, const struct packet *p)
{
    struct acdc_pkt pkt;
    const uint8_t *was, *is;
    uint32_t hlen, less = before->len - p->len;

    packet_parse(before, &pkt);
    was = acdc_pkt_ip(&pkt);
    is = packet_data(p) + pkt.l3_ofs;
    hlen = was[0] >> 4 == 6 ? (uint32_t) ACDC_IP6_HLEN : (was[0] & 0xfu) * 4;
    if (packet_same(before, p)) {
        return;
    }
    CHECK(p->len <= before->len && !memcmp(packet_data(before), packet_data(p), pkt.l3_ofs));
    CHECK(icmp_len(was) - icmp_len(is) == less);
    /* Addresses, and what says which segment it was. */
    CHECK(was[0] >> 4 == 6 ? !memcmp(was, is, 4) && !memcmp(was + 6, is + 6, 34)
                           : !memcmp(was, is, 2) && !memcmp(was + 4, is + 4, 6)
                             && !memcmp(was + 12, is + 12, hlen - 12));
    CHECK(was[0] >> 4 == 6 || sum_bytes(0, was, hlen) % 0xffff == sum_bytes(0, is, hlen) % 0xffff);
    CHECK(!memcmp(was + hlen, is + hlen, 2));
    if (hlen + icmp_len(was) <= before->len - pkt.l3_ofs) {
        CHECK(icmp_sum(was) % 0xffff == icmp_sum(is) % 0xffff);
    }
}

/* An IP header back to where 'from' is from, in front of 'len' bytes of it. */
static void
put_ip(uint8_t *ip, const uint8_t *from, bool v6, uint32_t len)
{
    if (v6) {
        ip[0] = 0x60;
        acdc_put16(ip + 4, (uint16_t) (8 + len));
        ip[6] = ACDC_IPPROTO_ICMP6;
        memcpy(ip + 8, from + 24, 16);
        memcpy(ip + 24, from + 8, 16);
    } else {
        ip[0] = 0x45;
        acdc_put16(ip + 2, (uint16_t) (ACDC_IP4_HLEN + 8 + len));
        ip[9] = ACDC_IPPROTO_ICMP;
        memcpy(ip + 12, from + 16, 4);
        memcpy(ip + 16, from + 12, 4);
        acdc_put16(ip + 10, (uint16_t) ~sum_bytes(0, ip, ACDC_IP4_HLEN));
    }
}

/* ICMP, or what looks like it, to the sender of a packet in the network. */
static struct packet *
quote(const struct packet *about, const struct acdc_pkt *pkt)
{
    static const uint8_t kinds4[4] = { 3, 11, 12, 8 }, kinds6[4] = { 2, 1, 3, 128 };
    bool v6 = pkt->ip_version == 6;
    uint8_t how = byte(), at = byte();
    uint32_t l4 = pkt->l3_ofs + (v6 ? (uint32_t) ACDC_IP6_HLEN : (uint32_t) ACDC_IP4_HLEN);
    uint32_t len = about->len - pkt->l3_ofs, padding = how & 4 ? at % 32 : 0;
    const uint8_t *from = packet_data(about) + pkt->l3_ofs;
    struct packet *p;
    uint8_t *ip, *icmp;

    len = how & 8 && at < len ? at : len < 1200 ? len : 1200;
    p = packet_new(l4 + 8 + len + padding, how & 16);
    memset(packet_data(p), 0, p->len);
    memcpy(packet_data(p), packet_data(about), pkt->l3_ofs);
    ip = packet_data(p) + pkt->l3_ofs;
    icmp = packet_data(p) + l4;
    put_ip(ip, from, v6, len);
    icmp[0] = (v6 ? kinds6 : kinds4)[how & 3];
    icmp[1] = !v6 && !(how & 3) ? 4 : 0;
    icmp[5] = how & 32 ? (uint8_t) (len / 4) : 0;
    acdc_put16(icmp + 6, (uint16_t) (1200 + at));
    memcpy(icmp + 8, from, len);
    if (how & 64 && len) {
        icmp[8 + byte() % len] ^= byte();
    }
    acdc_put16(icmp + 2, (uint16_t) ~icmp_sum(ip));
    p->linear = how & 128 ? 1u + byte() : 0;
    return p;
}

#endif /* icmp.h */
