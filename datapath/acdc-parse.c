// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Reading what acdc-parse.h does not have in line. */

#include "acdc-parse.h"

enum acdc_counter
acdc_pkt_need(struct acdc_pkt *p, uint32_t n)
{
    return n > p->len ? ACDC_C_UNTOUCHED_LENGTH
           : acdc_host_linear(p, n) ? ACDC_N_COUNTERS : ACDC_C_UNTOUCHED_MEMORY;
}

/* The same of any 'n'. */
static ACDC_ALWAYS_INLINE enum acdc_counter
need(struct acdc_pkt *p, uint32_t n)
{
    return acdc_likely(n <= p->hlen) ? ACDC_N_COUNTERS : acdc_pkt_need(p, n);
}

/* Of priority tags (VID 0) switches and receivers think as of none. */
static inline void
note_tag(struct acdc_pkt *p, uint16_t tci)
{
    uint32_t vid = tci & ACDC_VID_MASK;

    if (vid && p->vids <= ACDC_VID_MASK) {
        p->vids = p->vids << 12 | vid;
    }
}

/* Finds the IP header behind Ethernet and VLAN tags.  All of them: whoever takes
 * some off finds the IP header as well. */
static enum acdc_counter
parse_ethernet(struct acdc_pkt *p, uint16_t *ofs, uint16_t *type)
{
    enum acdc_counter why = need(p, ACDC_ETH_HLEN);
    unsigned int n_vlans = p->tag_type ? 1 : 0;

    *ofs = ACDC_ETH_HLEN;
    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    *type = acdc_get16(p->data + 12);
    while (*type == ACDC_ETHERTYPE_VLAN || *type == ACDC_ETHERTYPE_QINQ) {
        if (n_vlans++ == ACDC_MAX_VLANS) {
            return ACDC_C_REFUSED;
        }
        why = need(p, *ofs + (uint32_t) ACDC_VLAN_HLEN);
        if (why != ACDC_N_COUNTERS) {
            return why;
        }
        note_tag(p, acdc_get16(p->data + *ofs));
        *type = acdc_get16(p->data + *ofs + 2);
        *ofs = (uint16_t) (*ofs + ACDC_VLAN_HLEN);
    }
    return ACDC_N_COUNTERS;
}

/* These set '*ip_hlen', with IPv6 extension headers, '*ip_len', and 'l4_ofs', up to
 * where all was read.  They return as need(). */
static inline enum acdc_counter
parse_ip4(struct acdc_pkt *p, uint32_t *ip_hlen, uint32_t *ip_len)
{
    enum acdc_counter why = need(p, p->l3_ofs + (uint32_t) ACDC_IP4_HLEN);
    const uint8_t *ip = acdc_pkt_ip(p);

    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    *ip_hlen = (ip[0] & 0xf) * 4u;
    *ip_len = acdc_get16(ip + 2);
    if (ip[0] >> 4 != 4 || *ip_hlen < ACDC_IP4_HLEN) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    p->l4_ofs = (uint16_t) (p->l3_ofs + *ip_hlen);
    /* BIG TCP has none. */
    why = *ip_len < *ip_hlen ? ACDC_C_UNTOUCHED_LENGTH : need(p, p->l4_ofs);
    ip = acdc_pkt_ip(p);
    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    if (acdc_get16(ip + 6) & ACDC_IP4_FRAGMENT) {
        return ACDC_C_UNTOUCHED_FRAGMENT;
    }
    if (ip[9] != ACDC_IPPROTO_TCP) {
        return ip[9] == ACDC_IPPROTO_ESP || ip[9] == ACDC_IPPROTO_AH
               ? ACDC_C_UNTOUCHED_IPSEC : ACDC_C_UNTOUCHED_NOT_TCP;
    }
    return ACDC_N_COUNTERS;
}

static enum acdc_counter
parse_ip6(struct acdc_pkt *p, uint32_t *ip_hlen, uint32_t *ip_len)
{
    enum acdc_counter why = need(p, p->l3_ofs + (uint32_t) ACDC_IP6_HLEN);
    const uint8_t *ip = acdc_pkt_ip(p);
    uint32_t ofs = ACDC_IP6_HLEN;
    uint8_t next;

    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    if (ip[0] >> 4 != 6) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    *ip_len = ACDC_IP6_HLEN + (uint32_t) acdc_get16(ip + 4);
    next = ip[6];
    p->l4_ofs = (uint16_t) (p->l3_ofs + ofs);
    /* Extension headers in front of TCP (RFC 8200 section 4).  Each takes at
     * least 8 bytes, so this ends. */
    while (next != ACDC_IPPROTO_TCP) {
        switch (next) {
        case ACDC_IPPROTO_HOPOPTS:
        case ACDC_IPPROTO_ROUTING:
        case ACDC_IPPROTO_DSTOPTS:
            why = need(p, p->l4_ofs + 8u);
            if (why != ACDC_N_COUNTERS) {
                return why;
            }
            ip = acdc_pkt_ip(p);
            next = ip[ofs];
            ofs += 8u + ip[ofs + 1] * 8u;
            if (ofs > 0xffffu - p->l3_ofs) {
                return ACDC_C_UNTOUCHED_LENGTH;
            }
            p->l4_ofs = (uint16_t) (p->l3_ofs + ofs);
            if (ofs > *ip_len || p->l4_ofs > p->len) {
                return ACDC_C_UNTOUCHED_LENGTH;
            }
            break;
        case ACDC_IPPROTO_FRAGMENT:
            return ACDC_C_UNTOUCHED_FRAGMENT;
        case ACDC_IPPROTO_ESP:
        case ACDC_IPPROTO_AH:
            return ACDC_C_UNTOUCHED_IPSEC;
        default:
            return ACDC_C_UNTOUCHED_NOT_TCP;
        }
    }
    *ip_hlen = ofs;
    return ACDC_N_COUNTERS;
}

static void
parse_our_option(struct acdc_pkt *p, unsigned int ofs, unsigned int len)
{
    if (len == ACDC_OPT_CAP_LEN && !p->cap_ofs) {
        p->cap_ofs = (uint8_t) ofs;
        p->opt_flags |= ACDC_O_CAPABILITY;
    } else if (len == ACDC_OPT_FB_LEN && !p->fb_ofs) {
        p->fb_ofs = (uint8_t) ofs;
        p->opt_flags |= ACDC_O_FEEDBACK;
    } else if (len == ACDC_OPT_REPORT_LEN && !p->fb_ofs) {
        p->fb_ofs = (uint8_t) ofs;
        p->opt_flags |= ACDC_O_FEEDBACK | ACDC_O_REPORT;
    } else if (len == ACDC_OPT_STATE_LEN && !p->cap_ofs) {
        p->cap_ofs = (uint8_t) ofs;
        p->opt_flags |= ACDC_O_STATE | ACDC_O_OTHER;
    } else {
        p->opt_flags |= ACDC_O_OTHER;
    }
}

static bool
has_right_len(uint8_t kind, unsigned int len)
{
    switch (kind) {
    case ACDC_TCPOPT_MSS:
        return len == 4;
    case ACDC_TCPOPT_WSCALE:
        return len == 3;
    case ACDC_TCPOPT_SACK_OK:
        return len == 2;
    case ACDC_TCPOPT_SACK:
        return (len - 2) % 8 == 0;
    case ACDC_TCPOPT_TIMESTAMP:
        return len == ACDC_TCPOPT_TIMESTAMP_LEN;
    default:
        return true;
    }
}

/* Notes an option that has the right length. */
static void
note_option(struct acdc_pkt *p, unsigned int ofs, unsigned int len,
            uint16_t exid)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + ofs;

    switch (opt[0]) {
    case ACDC_TCPOPT_MSS:
        p->mss = acdc_get16(opt + 2);
        p->opt_flags |= ACDC_O_MSS;
        break;
    case ACDC_TCPOPT_WSCALE:
        p->wscale = opt[2];
        p->ws_ofs = (uint8_t) (ofs + 2);
        p->opt_flags |= ACDC_O_WSCALE;
        break;
    case ACDC_TCPOPT_SACK_OK:
        p->opt_flags |= ACDC_O_SACK_OK;
        break;
    case ACDC_TCPOPT_SACK:
        p->sack_ofs = (uint8_t) ofs;
        p->opt_flags |= ACDC_O_SACK;
        break;
    case ACDC_TCPOPT_TIMESTAMP:
        p->ts_ofs = (uint8_t) ofs;
        p->opt_flags |= ACDC_O_TIMESTAMP;
        break;
    case ACDC_OPT_KIND:
        if (len >= ACDC_OPT_BODY_OFS
            && acdc_get16(opt + ACDC_OPT_EXID_OFS) == exid) {
            parse_our_option(p, ofs, len);
        } else {
            p->opt_flags |= ACDC_O_FOREIGN;
        }
        break;
    default:
        p->opt_flags |= ACDC_O_FOREIGN;
        break;
    }
}

enum acdc_counter
acdc_pkt_walk_options(struct acdc_pkt *p, uint16_t exid)
{
    const uint8_t *tcp = acdc_pkt_tcp(p);
    unsigned int ofs = ACDC_TCP_HLEN;

    p->options = 0;
    p->opt_flags = ACDC_O_PLACES;
    while (ofs < p->tcp_hlen) {
        uint8_t kind = tcp[ofs];
        uint8_t len;

        if (kind == ACDC_TCPOPT_EOL) {
            break;
        }
        if (kind == ACDC_TCPOPT_NOP) {
            ofs++;
            continue;
        }
        if (ofs + 2 > p->tcp_hlen) {
            return ACDC_C_UNTOUCHED_OPTIONS;
        }
        len = tcp[ofs + 1];
        if (len < 2 || ofs + len > p->tcp_hlen || !has_right_len(kind, len)) {
            return ACDC_C_UNTOUCHED_OPTIONS;
        }
        if (kind == ACDC_TCPOPT_MD5 || kind == ACDC_TCPOPT_AO) {
            return ACDC_C_UNTOUCHED_SIGNED;
        }
        note_option(p, ofs, len, exid);
        ofs += len;
    }
    return ACDC_N_COUNTERS;
}

/* Finds the IP header, sets 'l3_ofs' and what parse_ip4() does.  Returns as
 * need(). */
static enum acdc_counter
parse_network(struct acdc_pkt *p, uint32_t *ip_hlen, uint32_t *ip_len)
{
    enum acdc_counter why = ACDC_N_COUNTERS;
    uint16_t type = p->ethertype;

    p->l4_ofs = 0;
    if (p->tag_type) {
        note_tag(p, p->tag_tci);
    }
    if (!type) {
        why = parse_ethernet(p, &p->l3_ofs, &type);
    }
    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    p->l4_ofs = p->l3_ofs;
    if (type != ACDC_ETHERTYPE_IP4 && type != ACDC_ETHERTYPE_IP6) {
        return ACDC_C_UNTOUCHED_NOT_TCP;
    }
    return type == ACDC_ETHERTYPE_IP4 ? parse_ip4(p, ip_hlen, ip_len)
                                      : parse_ip6(p, ip_hlen, ip_len);
}

/* Where TCP begins, or goes on, in a fragment that ends at '*end', and which byte of the
 * whole packet that is; 0 if it has none. */
static uint32_t
find_fragment(struct acdc_pkt *p, uint32_t *ofs, uint32_t *end)
{
    uint32_t start = p->l4_ofs + 8u;
    const uint8_t *ip = acdc_pkt_ip(p);
    const uint8_t *header;

    *ofs = 0;
    *end = start;
    if (ip[0] >> 4 == 4) {
        *ofs = (acdc_get16(ip + 6) & ACDC_IP4_OFFSET) * 8u;
        *end = p->l3_ofs + (uint32_t) acdc_get16(ip + 2);
        return ip[9] == ACDC_IPPROTO_TCP ? p->l4_ofs : 0;
    }
    if (need(p, start) != ACDC_N_COUNTERS) {
        return start;
    }
    ip = acdc_pkt_ip(p);
    header = p->data + p->l4_ofs;
    switch (header[0]) {
    case ACDC_IPPROTO_TCP:
        *ofs = acdc_get16(header + 2) & ACDC_IP6_OFFSET;
        *end = p->l3_ofs + ACDC_IP6_HLEN + (uint32_t) acdc_get16(ip + 4);
        return start;
    case ACDC_IPPROTO_HOPOPTS:
    case ACDC_IPPROTO_ROUTING:
    case ACDC_IPPROTO_DSTOPTS:
    case ACDC_IPPROTO_FRAGMENT:
        /* It may be behind these.  Nobody sends that. */
        return start;
    default:
        return 0;
    }
}

bool
acdc_pkt_hides(struct acdc_pkt *p, uint16_t exid, bool reassembled)
{
    uint32_t ofs, end, start = find_fragment(p, &ofs, &end);
    uint32_t hlen;
    bool ours;

    if (!start || ofs) {
        return start && reassembled && ofs < ACDC_TCP_HLEN_MAX;
    }
    if (start + ACDC_TCP_HLEN > end || start > 0xffff - ACDC_TCP_HLEN_MAX
        || need(p, start + ACDC_TCP_HLEN) != ACDC_N_COUNTERS) {
        return reassembled;
    }
    hlen = (p->data[start + 12] >> 4) * 4u;
    if (hlen < ACDC_TCP_HLEN) {
        return false;
    }
    if (start + hlen > end || need(p, start + hlen) != ACDC_N_COUNTERS) {
        return reassembled;
    }
    p->l4_ofs = (uint16_t) start;
    p->tcp_hlen = (uint8_t) hlen;
    acdc_pkt_walk_options(p, exid);
    ours = acdc_pkt_reserved(p) || (p->opt_flags & ACDC_O_OURS);
    p->tcp_hlen = 0;
    return ours;
}

/* acdc_pkt_is_usual() for IPv6, without extension headers. */
static inline bool
is_usual6(const struct acdc_pkt *p)
{
    const uint8_t *ip = p->data + ACDC_ETH_HLEN;

    return !(p->ethertype | p->tag_type)
           && p->hlen >= ACDC_ETH_HLEN + ACDC_IP6_HLEN + ACDC_TCP_HLEN
           && acdc_get16(ip - 2) == ACDC_ETHERTYPE_IP6
           && ip[0] >> 4 == 6 && ip[6] == ACDC_IPPROTO_TCP;
}

enum acdc_counter
acdc_pkt_parse_unusual(struct acdc_pkt *p, uint16_t exid)
{
    uint32_t ip_hlen, ip_len;
    enum acdc_counter why;
    uint8_t version;

    p->vids = 0;
    if (acdc_likely(is_usual6(p))) {
        const uint8_t *ip = p->data + ACDC_ETH_HLEN;

        p->kind = ACDC_KIND_6;
        return acdc_pkt_parse_tcp(p, exid, 6, ACDC_ETH_HLEN, ACDC_IP6_HLEN,
                                  ACDC_IP6_HLEN + (uint32_t) acdc_get16(ip + 4));
    }
    if (acdc_likely(acdc_pkt_is_plain4(p, ACDC_IPPROTO_UDP, 0)
                    && acdc_get16(p->data + ACDC_ETH_HLEN + 2)
                       >= ACDC_IP4_HLEN)) {
        p->l3_ofs = ACDC_ETH_HLEN;
        p->l4_ofs = ACDC_ETH_HLEN + ACDC_IP4_HLEN;
        return ACDC_C_UNTOUCHED_NOT_TCP;
    }
    why = parse_network(p, &ip_hlen, &ip_len);
    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    why = need(p, p->l3_ofs + ip_hlen + ACDC_TCP_HLEN);
    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    version = acdc_pkt_ip(p)[0] >> 4;
    p->kind = version == 6 ? ACDC_KIND_6 : p->vids ? ACDC_KIND_4_VLAN
                                                   : ACDC_KIND_4;
    return acdc_pkt_parse_tcp(p, exid, version, p->l3_ofs, ip_hlen, ip_len);
}
