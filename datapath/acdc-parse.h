/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Reading one packet.  In line, for the one loop over a batch that does it:
 * what most packets have, of all else the beginning. */

#ifndef ACDC_PARSE_H
#define ACDC_PARSE_H 1

#include "acdc-packet.h"

/* These return the counter that says why not, or ACDC_N_COUNTERS.  'exid'
 * selects the options that are ours. */

/* Parses a packet that acdc_pkt_find_usual() does not know. */
enum acdc_counter acdc_pkt_parse_unusual(struct acdc_pkt *p, uint16_t exid);

/* Walks the TCP options from 'ofs' on. */
enum acdc_counter acdc_pkt_parse_options(struct acdc_pkt *p, uint16_t exid,
                                         unsigned int ofs);

/* Sets 'l3_ofs' of what most packets are, TCP over IPv4 with neither VLAN tags
 * nor IP options and with at least the shortest headers at hand.  False if it
 * is something else. */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_find_usual(struct acdc_pkt *p)
{
    uint32_t l3_ofs = p->ethertype ? p->l3_ofs : ACDC_ETH_HLEN;
    const uint8_t *ip = p->data + l3_ofs;

    if (p->hlen < l3_ofs + ACDC_IP4_HLEN + ACDC_TCP_HLEN
        || (p->ethertype ? p->ethertype : acdc_get16(p->data + 12))
           != ACDC_ETHERTYPE_IP4
        || ip[0] != (4 << 4 | ACDC_IP4_HLEN / 4)
        || acdc_get16(ip + 6) & ACDC_IP4_FRAGMENT
        || ip[9] != ACDC_IPPROTO_TCP) {
        return false;
    }
    p->l3_ofs = (uint16_t) l3_ofs;
    return true;
}

/* All options.  First what most segments have and no more: feedback as we
 * write it, timestamps as in RFC 7323 appendix A. */
static ACDC_ALWAYS_INLINE enum acdc_counter
acdc_pkt_parse_usual_options(struct acdc_pkt *p, uint16_t exid,
                             unsigned int tcp_hlen)
{
    const uint8_t *tcp = acdc_pkt_tcp(p);
    unsigned int ofs = ACDC_TCP_HLEN;

    if (ofs + ACDC_OPT_FB_LEN <= tcp_hlen
        && acdc_load32(tcp + ofs) == ACDC_BE32(ACDC_FEEDBACK_WORD | exid)) {
        p->fb_ofs = ACDC_TCP_HLEN;
        p->opt_flags = ACDC_O_FEEDBACK;
        ofs += ACDC_OPT_FB_LEN;
    }
    if (ofs + 2 + ACDC_TCPOPT_TIMESTAMP_LEN <= tcp_hlen
        && acdc_get32(tcp + ofs) == ACDC_TIMESTAMP_ALIGNED) {
        p->ts_ofs = (uint8_t) (ofs + 2);
        p->opt_flags |= ACDC_O_TIMESTAMP;
        ofs += 2 + ACDC_TCPOPT_TIMESTAMP_LEN;
    }
    return acdc_likely(ofs == tcp_hlen) ? ACDC_N_COUNTERS
                                        : acdc_pkt_parse_options(p, exid, ofs);
}

/* Whether a segment of a connection has these: of SYN, FIN and RST at most one
 * makes sense, and one of SYN, ACK and RST is on every segment (RFC 9293
 * section 3.10.7). */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_flags_make_sense(uint8_t tcp_flags)
{
    if (acdc_likely(acdc_tcp_flags_are_plain(tcp_flags))) {
        return true;
    }
    switch (tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_FIN | ACDC_TCP_RST)) {
    case ACDC_TCP_SYN:
    case ACDC_TCP_RST:
        return true;
    case 0:
    case ACDC_TCP_FIN:
        return tcp_flags & ACDC_TCP_ACK;
    default:
        return false;
    }
}

/* Parses TCP behind 'ip_hlen' bytes of an IP packet of 'ip_len' bytes.  'p' has
 * these and the shortest TCP header. */
static ACDC_ALWAYS_INLINE enum acdc_counter
acdc_pkt_parse_tcp(struct acdc_pkt *p, uint16_t exid, unsigned int ip_version,
                   uint32_t ip_hlen, uint32_t ip_len)
{
    uint32_t avail = p->hlen - p->l3_ofs;
    enum acdc_counter why;
    const uint8_t *tcp;
    uint32_t tcp_hlen;

    p->l4_ofs = (uint16_t) (p->l3_ofs + ip_hlen);
    tcp = acdc_pkt_tcp(p);
    tcp_hlen = (tcp[12] >> 4) * 4u;
    /* A frame may be longer than its IP packet (Ethernet padding), not
     * shorter. */
    if (ip_len > p->len - p->l3_ofs || tcp_hlen < ACDC_TCP_HLEN
        || ip_hlen + tcp_hlen > ip_len || ip_hlen + tcp_hlen > avail) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    p->tcp_hlen = (uint8_t) tcp_hlen;
    p->payload = ip_len - ip_hlen - tcp_hlen;
    p->tcp_flags = tcp[13];
    p->seq = acdc_get32(tcp + 4);
    p->ack = acdc_get32(tcp + 8);
    if (acdc_unlikely(!acdc_pkt_flags_make_sense(p->tcp_flags))) {
        return ACDC_C_UNTOUCHED_FLAGS;
    }
    if (tcp_hlen > ACDC_TCP_HLEN) {
        why = acdc_pkt_parse_usual_options(p, exid, tcp_hlen);
        if (acdc_unlikely(why != ACDC_N_COUNTERS)) {
            return why;
        }
    }
    p->ip_version = (uint8_t) ip_version;
    return ACDC_N_COUNTERS;
}

/* Fills in the engine's fields of '*p'.  True if the engine understands the
 * packet as TCP and may edit it; else sets 'ip_version' to 0 and 'reason' to
 * the counter that says why not. */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_parse(struct acdc_pkt *p, uint16_t exid)
{
    enum acdc_counter why;

    p->cleared = 0;
    p->mss = 0;
    why = acdc_likely(acdc_pkt_find_usual(p))
          ? acdc_pkt_parse_tcp(p, exid, 4, ACDC_IP4_HLEN,
                               acdc_get16(acdc_pkt_ip(p) + 2))
          : acdc_pkt_parse_unusual(p, exid);
    if (acdc_unlikely(why != ACDC_N_COUNTERS)) {
        p->ip_version = 0;
        p->reason = (uint8_t) why;
        return false;
    }
    return true;
}

#endif /* acdc-parse.h */
