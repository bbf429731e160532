/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Packets: made, parsed, compared. */

#include "host.h"

#include <stdio.h>
#include <stdlib.h>

void *
xmalloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (!p) {
        abort();
    }
    return p;
}

struct packet *
packet_new(uint32_t len, uint32_t headroom)
{
    struct packet *p = xmalloc(sizeof *p);

    memset(p, 0, sizeof *p);
    p->buf = xmalloc(headroom + len);
    memset(p->buf, 0xa5, headroom);
    p->headroom = headroom;
    p->len = len;
    return p;
}

struct packet *
packet_clone(const struct packet *p)
{
    struct packet *clone = packet_new(p->len, p->headroom);
    uint8_t *buf = clone->buf;

    memcpy(packet_data(clone), packet_data(p), p->len);
    *clone = *p;
    clone->buf = buf;
    clone->next = NULL;
    clone->kept = NULL;
    clone->shared = false;
    return clone;
}

struct packet *
packet_clone_list(const struct packet *p)
{
    struct packet *list = NULL, **tail = &list;

    for (; p; p = p->next) {
        *tail = packet_clone(p);
        tail = &(*tail)->next;
    }
    return list;
}

void
packet_free(struct packet *p)
{
    if (p) {
        packet_free(p->kept);
        if (!p->shared) {
            free(p->buf);
        }
        free(p);
    }
}

void
packet_free_list(struct packet *p)
{
    while (p) {
        struct packet *next = p->next;

        packet_free(p);
        p = next;
    }
}

unsigned int
packet_count(const struct packet *p)
{
    unsigned int n;

    for (n = 0; p; p = p->next) {
        n++;
    }
    return n;
}

static uint8_t
payload_byte(uint32_t seq)
{
    return (uint8_t) ((seq * 2654435761u) >> 24);
}

uint32_t
sum_bytes(uint32_t sum, const uint8_t *b, uint32_t n)
{
    uint64_t total = sum;
    uint32_t i;

    for (i = 0; i + 1 < n; i += 2) {
        total += acdc_get16(b + i);
    }
    if (n % 2) {
        total += (uint32_t) b[n - 1] << 8;
    }
    while (total >> 16) {
        total = (total & 0xffff) + (total >> 16);
    }
    return (uint32_t) total;
}

/* Folded sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section
 * 8.1). */
static uint32_t
sum_pseudo(const uint8_t *ip, uint32_t tcp_len)
{
    uint32_t sum = ip[0] >> 4 == 4 ? sum_bytes(0, ip + 12, 8)
                                   : sum_bytes(0, ip + 8, 32);
    uint8_t rest[8] = { (uint8_t) (tcp_len >> 24), (uint8_t) (tcp_len >> 16),
                        (uint8_t) (tcp_len >> 8), (uint8_t) tcp_len,
                        0, 0, 0, ACDC_IPPROTO_TCP };

    return sum_bytes(sum, rest, sizeof rest);
}

struct packet *
packet_make(const struct tcp_spec *s)
{
    unsigned int opts = (s->opts_len + 3) / 4 * 4;
    unsigned int l3 = ACDC_ETH_HLEN + s->vlans * ACDC_VLAN_HLEN;
    unsigned int ip_hlen = (s->v6 ? ACDC_IP6_HLEN : ACDC_IP4_HLEN)
                           + s->ip_opts;
    unsigned int tcp_hlen = ACDC_TCP_HLEN + opts;
    uint32_t tcp_len = tcp_hlen + s->payload;
    struct packet *p = packet_new(l3 + ip_hlen + tcp_len + s->padding,
                                  s->headroom);
    uint8_t *eth = packet_data(p);
    uint8_t *ip = eth + l3;
    uint8_t *tcp = ip + ip_hlen;
    uint16_t csum;
    uint32_t i;

    memset(eth, 0, p->len);
    memcpy(eth, "\x02\0\0\0\0\1\x02\0\0\0\0\2", 12);
    for (i = 0; i < s->vlans; i++) {
        acdc_put16(eth + 12 + 4 * i, s->vlans == 2 && !i
                                     ? ACDC_ETHERTYPE_QINQ
                                     : ACDC_ETHERTYPE_VLAN);
        acdc_put16(eth + 14 + 4 * i, (uint16_t) (100 + i));
    }
    acdc_put16(ip - 2, s->v6 ? ACDC_ETHERTYPE_IP6 : ACDC_ETHERTYPE_IP4);
    if (s->v6) {
        ip[0] = 0x60;
        ip[1] = (uint8_t) (s->ecn << 4 | 0x5);
        acdc_put16(ip + 4, (uint16_t) (s->ip_opts + tcp_len));
        ip[6] = s->ip_opts ? ACDC_IPPROTO_HOPOPTS : ACDC_IPPROTO_TCP;
        ip[7] = 64;
        memcpy(ip + 8, s->src, 16);
        memcpy(ip + 24, s->dst, 16);
        if (s->ip_opts) {
            ip[40] = ACDC_IPPROTO_TCP;
            ip[41] = (uint8_t) (s->ip_opts / 8 - 1);
            ip[42] = 1;         /* PadN. */
            ip[43] = (uint8_t) (s->ip_opts - 4);
        }
    } else {
        ip[0] = (uint8_t) (0x40 | ip_hlen / 4);
        ip[1] = (uint8_t) (0x20 | s->ecn);
        acdc_put16(ip + 2, (uint16_t) (ip_hlen + tcp_len));
        acdc_put16(ip + 4, 0x1234);
        acdc_put16(ip + 6, s->no_df ? 0 : 0x4000);
        ip[8] = 64;
        ip[9] = ACDC_IPPROTO_TCP;
        memcpy(ip + 12, s->src, 4);
        memcpy(ip + 16, s->dst, 4);
        memset(ip + 20, 1, s->ip_opts);
        acdc_put16(ip + 10, (uint16_t) ~sum_bytes(0, ip, ip_hlen));
    }
    acdc_put16(tcp, s->sport);
    acdc_put16(tcp + 2, s->dport);
    acdc_put32(tcp + 4, s->seq);
    acdc_put32(tcp + 8, s->ack);
    tcp[12] = (uint8_t) (tcp_hlen / 4 << 4 | s->reserved);
    tcp[13] = s->flags;
    acdc_put16(tcp + 14, s->window);
    memcpy(tcp + 20, s->opts, s->opts_len);
    for (i = 0; i < s->payload; i++) {
        tcp[tcp_hlen + i] = payload_byte(s->seq + i);
    }
    csum = (uint16_t) sum_pseudo(ip, tcp_len);
    if (!s->csum_partial) {
        csum = (uint16_t) ~sum_bytes(csum, tcp, tcp_len);
    }
    acdc_put16(tcp + 16, s->bad_csum ? (uint16_t) (csum ^ 0x0f31) : csum);
    for (i = 0; i < s->padding; i++) {
        eth[p->len - 1 - i] = 0xee;
    }
    p->gso = s->gso;
    p->csum_partial = s->csum_partial;
    return p;
}

void
opt_raw(struct tcp_spec *s, const void *data, unsigned int n)
{
    if (s->opts_len + n > sizeof s->opts) {
        abort();
    }
    memcpy(s->opts + s->opts_len, data, n);
    s->opts_len += n;
}

void
opt_nop(struct tcp_spec *s, unsigned int n)
{
    while (n--) {
        opt_raw(s, "\1", 1);
    }
}

void
opt_mss(struct tcp_spec *s, uint16_t mss)
{
    uint8_t o[4] = { ACDC_TCPOPT_MSS, 4 };

    acdc_put16(o + 2, mss);
    opt_raw(s, o, sizeof o);
}

void
opt_wscale(struct tcp_spec *s, uint8_t shift)
{
    uint8_t o[3] = { ACDC_TCPOPT_WSCALE, 3, shift };

    opt_raw(s, o, sizeof o);
}

void
opt_sack_ok(struct tcp_spec *s)
{
    static const uint8_t o[2] = { ACDC_TCPOPT_SACK_OK, 2 };

    opt_raw(s, o, sizeof o);
}

void
opt_timestamp(struct tcp_spec *s, uint32_t val, uint32_t ecr)
{
    uint8_t o[10] = { ACDC_TCPOPT_TIMESTAMP, 10 };

    acdc_put32(o + 2, val);
    acdc_put32(o + 6, ecr);
    opt_raw(s, o, sizeof o);
}

void
opt_sack(struct tcp_spec *s, unsigned int n, const uint32_t *edges)
{
    uint8_t o[2 + 4 * 8] = { ACDC_TCPOPT_SACK, (uint8_t) (2 + 8 * n) };
    unsigned int i;

    for (i = 0; i < 2 * n; i++) {
        acdc_put32(o + 2 + 4 * i, edges[i]);
    }
    opt_raw(s, o, 2 + 8 * n);
}

void
opt_capability(struct tcp_spec *s, uint16_t exid)
{
    uint8_t o[8] = { ACDC_OPT_KIND, ACDC_OPT_CAP_LEN, 0, 0,
                     ACDC_OPT_VERSION };

    acdc_put16(o + 2, exid);
    opt_raw(s, o, sizeof o);
}

void
opt_feedback(struct tcp_spec *s, uint16_t exid, uint32_t ce, uint32_t total)
{
    uint8_t o[12] = { ACDC_OPT_KIND, ACDC_OPT_FB_LEN };

    acdc_put16(o + 2, exid);
    acdc_put32(o + 4, ce);
    acdc_put32(o + 8, total);
    opt_raw(s, o, sizeof o);
}

bool
packet_parse(const struct packet *p, struct acdc_pkt *pkt)
{
    acdc_pkt_init(pkt, packet_data(p), p->len, p->len);
    pkt->csum_partial = p->csum_partial;
    return acdc_pkt_parse(pkt, ACDC_OPT_EXID);
}

/* Parses a packet that must be TCP. */
static struct acdc_pkt
parsed(const struct packet *p)
{
    struct acdc_pkt pkt;

    if (!packet_parse(p, &pkt)) {
        fprintf(stderr, "not a TCP packet\n");
        abort();
    }
    return pkt;
}

uint16_t
packet_tcp_sum(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);
    uint32_t len = pkt.tcp_hlen + pkt.payload;

    return (uint16_t) sum_bytes(sum_pseudo(acdc_pkt_ip(&pkt), len),
                                acdc_pkt_tcp(&pkt), len);
}

bool
packet_csum_ok(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);
    const uint8_t *ip = acdc_pkt_ip(&pkt);

    if (pkt.ip_version == 4
        && sum_bytes(0, ip, (ip[0] & 0xf) * 4u) != 0xffff) {
        return false;
    }
    if (p->csum_partial) {
        return acdc_get16(acdc_pkt_tcp(&pkt) + 16)
               == sum_pseudo(ip, pkt.tcp_hlen + pkt.payload);
    }
    return packet_tcp_sum(p) == 0xffff;
}

bool
packet_payload_ok(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);
    const uint8_t *payload = acdc_pkt_tcp(&pkt) + pkt.tcp_hlen;
    uint32_t i;

    for (i = 0; i < pkt.payload; i++) {
        if (payload[i] != payload_byte(pkt.seq + i)) {
            return false;
        }
    }
    return true;
}

bool
packet_same(const struct packet *a, const struct packet *b)
{
    return a->len == b->len
           && !memcmp(packet_data(a), packet_data(b), a->len);
}

uint16_t
packet_window(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);

    return acdc_pkt_window(&pkt);
}

uint8_t
packet_ecn(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);

    return acdc_pkt_ecn(&pkt);
}

void
packet_set_ecn(struct packet *p, uint8_t ecn)
{
    struct acdc_pkt pkt = parsed(p);
    uint8_t *ip = acdc_pkt_ip(&pkt);

    if (pkt.ip_version == 4) {
        unsigned int hlen = (ip[0] & 0xf) * 4u;

        ip[1] = (uint8_t) ((ip[1] & ~3) | ecn);
        acdc_put16(ip + 10, 0);
        acdc_put16(ip + 10, (uint16_t) ~sum_bytes(0, ip, hlen));
    } else {
        ip[1] = (uint8_t) ((ip[1] & ~0x30) | ecn << 4);
    }
}

uint8_t
packet_reserved(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);

    return acdc_pkt_tcp(&pkt)[12] & 0xf;
}

bool
packet_is_ours(const struct packet *p)
{
    struct acdc_pkt pkt = parsed(p);

    return (pkt.opt_flags & (ACDC_O_CAPABILITY | ACDC_O_FEEDBACK
                             | ACDC_O_OTHER)) || acdc_pkt_reserved(&pkt);
}

bool
packet_feedback(const struct packet *p, uint32_t *ce, uint32_t *total)
{
    struct acdc_pkt pkt = parsed(p);

    if (!(pkt.opt_flags & ACDC_O_FEEDBACK)) {
        return false;
    }
    acdc_pkt_get_feedback(&pkt, ce, total);
    return true;
}

bool
packet_is_fack(const struct packet *p)
{
    return packet_reserved(p) & ACDC_RES_FACK;
}
