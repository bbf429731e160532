// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* ICMP to a guest about a packet of a connection: it quotes the packet as it left
 * here, and the guest is to find its own. */

#include "acdc-ingress.h"
#include "acdc-parse.h"
#include "acdc-table.h"

enum {
    ICMP_HLEN = 8,
    ICMP4_UNREACH = 3, ICMP4_TOO_BIG = 4,       /* Type, and code of it. */
    ICMP4_EXCEEDED = 11, ICMP4_PROBLEM = 12,
    ICMP6_TOO_BIG = 2, ICMP6_ERROR_MAX = 4,     /* From 1 on. */
    IP4_HLEN_MAX = 60,
    READ_MAX = IP4_HLEN_MAX + ICMP_HLEN + IP4_HLEN_MAX + ACDC_TCP_HLEN_MAX,
    QUOTED_MIN = 8,             /* Bytes of TCP that are quoted (RFC 792). */
    MTU4_OLD = 576,             /* Of a router that does not say (RFC 1191
                                 * section 5). */
    MTU6_MIN = 1280,            /* RFC 8201 section 4. */
};

struct icmp {
    struct acdc_pkt *p;
    uint32_t ip_ofs, ofs;       /* Of the IP header in front, and of ICMP. */
    bool v6, too_big;
    uint32_t mtu;
};

/* Reads what is in front of the quotation.  False if it is no error. */
static bool
read_error(struct icmp *m)
{
    const uint8_t *ip = m->p->data + m->ip_ofs;
    const uint8_t *icmp;

    m->v6 = ip[0] >> 4 == 6;
    m->ofs = m->ip_ofs + (m->v6 ? (uint32_t) ACDC_IP6_HLEN : (ip[0] & 0xfu) * 4);
    if (m->p->hlen < m->ofs + ICMP_HLEN) {
        return false;
    }
    icmp = m->p->data + m->ofs;
    if (m->v6) {
        m->too_big = icmp[0] == ICMP6_TOO_BIG;
        m->mtu = acdc_get32(icmp + 4);
        m->mtu = m->mtu > MTU6_MIN ? m->mtu : MTU6_MIN;
        return icmp[0] && icmp[0] <= ICMP6_ERROR_MAX;
    }
    m->too_big = icmp[0] == ICMP4_UNREACH && icmp[1] == ICMP4_TOO_BIG;
    m->mtu = acdc_get16(icmp + 6);
    m->mtu = m->mtu ? m->mtu : MTU4_OLD;
    return icmp[0] == ICMP4_UNREACH || icmp[0] == ICMP4_EXCEEDED
           || icmp[0] == ICMP4_PROBLEM;
}

/* Has the layers of 'p' be those of the quoted packet, for the edits to be of that.
 * False if it is not TCP, or not enough is there. */
static bool
enter_quotation(const struct icmp *m)
{
    struct acdc_pkt *p = m->p;
    uint32_t l3_ofs = m->ofs + ICMP_HLEN, hlen = ACDC_IP6_HLEN;
    const uint8_t *ip = p->data + l3_ofs, *tcp;
    /* Behind the IP packet there may be padding. */
    uint32_t end = m->ip_ofs + acdc_ip_len_said(p->data + m->ip_ofs);

    if (end > p->hlen) {
        end = p->hlen;
    }
    if (end < l3_ofs + ACDC_IP4_HLEN + QUOTED_MIN
        || ip[0] >> 4 != (m->v6 ? 6 : 4)) {
        return false;
    }
    if (!m->v6) {
        hlen = (ip[0] & 0xfu) * 4;
    }
    if (hlen < ACDC_IP4_HLEN || end < l3_ofs + hlen + QUOTED_MIN
        || ip[m->v6 ? 6 : 9] != ACDC_IPPROTO_TCP
        || (!m->v6 && (acdc_get16(ip + 6) & ACDC_IP4_FRAGMENT))) {
        return false;
    }
    p->l3_ofs = (uint16_t) l3_ofs;
    p->l4_ofs = (uint16_t) (l3_ofs + hlen);
    p->ip_version = m->v6 ? 6 : 4;
    p->kind = m->v6 ? ACDC_KIND_6 : p->vids ? ACDC_KIND_4_VLAN : ACDC_KIND_4;
    tcp = acdc_pkt_tcp(p);
    p->seq = acdc_get32(tcp + 4);
    p->opt_flags = 0;
    p->tcp_hlen = QUOTED_MIN;
    if (end >= p->l4_ofs + (uint32_t) ACDC_TCP_HLEN
        && end >= p->l4_ofs + (tcp[12] & 0xf0u) / 4
        && (tcp[12] & 0xf0u) / 4 >= ACDC_TCP_HLEN) {
        p->tcp_hlen = (uint8_t) ((tcp[12] & 0xf0u) / 4);
    }
    return true;
}

/* Of words, as in memory, from ICMP's header to the end of what is edited, without its
 * checksum. */
static uint16_t
sum_edited(const struct icmp *m)
{
    const struct acdc_pkt *p = m->p;
    uint32_t sum = 0, ofs;

    for (ofs = m->ofs; ofs + 2 <= p->l4_ofs + (uint32_t) p->tcp_hlen; ofs += 2) {
        sum += ofs == m->ofs + 2 ? 0u : acdc_load16(p->data + ofs);
    }
    return acdc_csum_fold(sum);
}

/* The lengths in front, once the quotation has become 'less' bytes shorter. */
static void
shorten(const struct icmp *m, uint32_t less)
{
    uint8_t *ip = m->p->data + m->ip_ofs;
    uint8_t *icmp = m->p->data + m->ofs;
    uint8_t *field = ip + (m->v6 ? 4 : 2);
    uint16_t len = ACDC_BE16((uint16_t) (acdc_get16(field) - less));

    /* Of ICMPv6 it is in the pseudo header. */
    acdc_csum_apply(m->v6 ? icmp + 2 : ip + 10, acdc_csum_replace(field, len));
    if (!m->v6 && icmp[5] >= less / 4) {
        /* The quotation's length in words, if extensions follow (RFC 4884). */
        icmp[5] = (uint8_t) (icmp[5] - less / 4);
    }
}

/* The quoted packet as the guest sent it. */
static void
restore(struct acdc_ctx *ctx, const struct acdc_flow *f, const struct icmp *m)
{
    struct acdc_pkt *p = m->p;
    uint8_t ecn = f->flags & ACDC_F_GUEST_ECN ? acdc_pkt_ecn(p)
                                              : ACDC_ECN_NOT_ECT;
    uint32_t len = p->len;
    uint16_t before;
    bool rewritten;

    if (!acdc_pkt_make_writable(p)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    before = sum_edited(m);
    if (p->tcp_hlen >= ACDC_TCP_HLEN) {
        ecn = senders_ecn(f, p, acdc_pkt_ecn(p), &rewritten);
        acdc_pkt_set_reserved(p, 0);
        if (acdc_pkt_walk_options(p, ctx->exid) == ACDC_N_COUNTERS) {
            acdc_pkt_strip(p, ctx->exid);
        }
    }
    acdc_pkt_set_ecn(p, ecn);
    if (p->len != len) {
        shorten(m, len - p->len);
    }
    acdc_csum_apply(p->data + m->ofs + 2, acdc_csum_change(before, sum_edited(m)));
}

/* What the packet of 'f', whose lock is held, was sent as.  ICMP of what the guest
 * has not in flight it does not believe either (RFC 5927 section 4.1). */
static void
take_error(struct acdc_ctx *ctx, const struct acdc_flow *f,
           const struct icmp *m)
{
    uint32_t len = acdc_ip_len_said(acdc_pkt_ip(m->p));

    if ((f->flags & ACDC_F_DEAD) || !(f->flags & ACDC_F_OFFERED)
        || seq_before(m->p->seq, f->snd_una)
        || seq_after(m->p->seq, f->snd_nxt)) {
        return;
    }
    if (m->too_big && len > m->mtu && m->mtu <= 0xffff) {
        ACDC_COUNT(ctx, TOO_BIG, 1);
        acdc_recall_mtu(ctx, m->mtu);
    }
    restore(ctx, f, m);
}

void
acdc_icmp_ingress(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct icmp m = { .p = p, .ip_ofs = p->l3_ofs };
    uint32_t end = m.ip_ofs + (uint32_t) READ_MAX;
    struct acdc_flow *f;

    end = end < p->len ? end : p->len;
    if (end > p->hlen && !acdc_host_linear(p, end)) {
        return;
    }
    if (read_error(&m) && enter_quotation(&m)) {
        /* The packet was the guest's. */
        ctx->dir = ACDC_EGRESS;
        acdc_table_set_key(ctx, p, ACDC_EGRESS);
        f = acdc_flow_lookup(ctx, p);
        ctx->dir = ACDC_INGRESS;
        if (f) {
            acdc_lock(&f->lock);
            take_error(ctx, f, &m);
            acdc_unlock(&f->lock);
        }
        p->ip_version = 0;
    }
}
