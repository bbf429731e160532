/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Reading one packet.  In line, for the one loop over a batch that does it:
 * what most packets have, of all else the beginning. */

#ifndef ACDC_PARSE_H
#define ACDC_PARSE_H 1

#include "acdc-packet.h"

/* These return the counter that says why not, or ACDC_N_COUNTERS.  'exid'
 * selects the options that are ours. */

/* Parses what acdc_pkt_is_usual() does not know. */
enum acdc_counter acdc_pkt_parse_unusual(struct acdc_pkt *p, uint16_t exid);

/* Whether fragment 'p' of a guest has an option or bits like ours, so that once it is
 * reassembled they would be believed; or may have them, as part of the TCP header is not
 * there (RFC 1858), and 'reassembled' says that somebody will. */
bool acdc_pkt_hides(struct acdc_pkt *p, uint16_t exid, bool reassembled);

/* Has the first 'n' bytes, of which fewer are linear. */
enum acdc_counter acdc_pkt_need(struct acdc_pkt *p, uint32_t n);

/* Any TCP options. */
enum acdc_counter acdc_pkt_walk_options(struct acdc_pkt *p, uint16_t exid);

/* Whether 'p' is an Ethernet frame without VLAN tags, IPv4 of 'protocol' without IP
 * options and no fragment, with all of that and 'len' bytes at hand. */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_is_plain4(const struct acdc_pkt *p, uint8_t protocol, uint32_t len)
{
    const uint8_t *ip = p->data + ACDC_ETH_HLEN;

    /* Two fields at once: Ethernet type, version and length of the header, then
     * TOS; fragment, then TTL, and protocol. */
    return !(p->ethertype | p->tag_type)
           && p->hlen >= ACDC_ETH_HLEN + ACDC_IP4_HLEN + len
           && (acdc_load32(ip - 2) & ACDC_BE32(0xffffff00u))
              == ACDC_BE32((uint32_t) ACDC_ETHERTYPE_IP4 << 16
                           | (4 << 4 | ACDC_IP4_HLEN / 4) << 8)
           && (acdc_load32(ip + 6)
               & ACDC_BE32((uint32_t) ACDC_IP4_FRAGMENT << 16 | 0xff))
              == ACDC_BE32((uint32_t) protocol);
}

/* What most packets are. */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_is_usual(const struct acdc_pkt *p)
{
    return acdc_pkt_is_plain4(p, ACDC_IPPROTO_TCP, ACDC_TCP_HLEN);
}

static ACDC_ALWAYS_INLINE void
acdc_pkt_set_options(struct acdc_pkt *p, uint16_t opt_flags, uint8_t fb_ofs,
                     uint8_t ts_ofs)
{
    struct acdc_pkt known;

    /* Of constants gcc makes one, and writes that at once. */
    known.options = 0;
    known.opt_flags = opt_flags;
    known.fb_ofs = fb_ofs;
    known.ts_ofs = ts_ofs;
    p->options = known.options;
}

/* The TCP options.  Most segments have timestamps as in RFC 7323 appendix A, or
 * none, and in front of these feedback as we write it, and nothing else. */
static ACDC_ALWAYS_INLINE enum acdc_counter
acdc_pkt_parse_options(struct acdc_pkt *p, uint16_t exid, const uint8_t *tcp,
                       unsigned int tcp_hlen)
{
    enum {
        FB_OFS = ACDC_TCP_HLEN,
        FB_END = FB_OFS + ACDC_OPT_FB_LEN,
        TS_LEN = 2 + ACDC_TCPOPT_TIMESTAMP_LEN,
    };
    uint32_t feedback = ACDC_BE32(ACDC_FEEDBACK_WORD | exid);
    uint32_t timestamps = ACDC_BE32(ACDC_TIMESTAMP_ALIGNED);

    if (tcp_hlen == FB_END + TS_LEN && acdc_load32(tcp + FB_OFS) == feedback
        && acdc_load32(tcp + FB_END) == timestamps) {
        acdc_pkt_set_options(p, ACDC_O_FEEDBACK | ACDC_O_TIMESTAMP, FB_OFS,
                             FB_END + 2);
    } else if (tcp_hlen == ACDC_TCP_HLEN + TS_LEN
               && acdc_load32(tcp + ACDC_TCP_HLEN) == timestamps) {
        acdc_pkt_set_options(p, ACDC_O_TIMESTAMP, 0, ACDC_TCP_HLEN + 2);
    } else if (tcp_hlen == ACDC_TCP_HLEN) {
        acdc_pkt_set_options(p, 0, 0, 0);
    } else if (tcp_hlen == FB_END && acdc_load32(tcp + FB_OFS) == feedback) {
        acdc_pkt_set_options(p, ACDC_O_FEEDBACK, FB_OFS, 0);
    } else {
        return acdc_pkt_walk_options(p, exid);
    }
    return ACDC_N_COUNTERS;
}

/* Whether a segment of a connection has these: of SYN, FIN and RST at most one
 * makes sense, and one of SYN, ACK and RST is on every segment (RFC 9293
 * section 3.10.7). */
static ACDC_ALWAYS_INLINE bool
acdc_tcp_flags_make_sense(uint8_t tcp_flags)
{
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

/* Parses TCP behind 'ip_hlen' bytes of an IP packet of 'ip_len' bytes that begins
 * at 'l3_ofs'.  'p' has these and the shortest TCP header. */
static ACDC_ALWAYS_INLINE enum acdc_counter
acdc_pkt_parse_tcp(struct acdc_pkt *p, uint16_t exid, unsigned int ip_version,
                   uint32_t l3_ofs, uint32_t ip_hlen, uint32_t ip_len)
{
    uint32_t l4_ofs = l3_ofs + ip_hlen;
    const uint8_t *tcp = p->data + l4_ofs;
    uint32_t tcp_hlen = (tcp[12] & 0xf0u) / 4;
    uint32_t payload = ip_len - ip_hlen - tcp_hlen;
    enum acdc_counter why;

    p->l3_ofs = (uint16_t) l3_ofs;
    p->l4_ofs = (uint16_t) l4_ofs;
    /* Compared without a sign, as what is less than nothing is a large number.  A
     * frame may be longer than its IP packet (Ethernet padding), not shorter. */
    if (acdc_unlikely(tcp_hlen - ACDC_TCP_HLEN
                      > p->hlen - l4_ofs - ACDC_TCP_HLEN)) {
        why = tcp_hlen < ACDC_TCP_HLEN ? ACDC_C_UNTOUCHED_LENGTH
                                       : acdc_pkt_need(p, l4_ofs + tcp_hlen);
        return why == ACDC_N_COUNTERS ? acdc_pkt_parse_unusual(p, exid) : why;
    }
    if (payload > p->len - l4_ofs - tcp_hlen) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    p->tcp_hlen = (uint8_t) tcp_hlen;
    p->payload = payload;
    p->tcp_flags = tcp[13];
    p->seq = acdc_get32(tcp + 4);
    p->ack = acdc_get32(tcp + 8);
    why = acdc_pkt_parse_options(p, exid, tcp, tcp_hlen);
    if (acdc_unlikely(!acdc_tcp_flags_are_plain(p->tcp_flags))) {
        if (!acdc_tcp_flags_make_sense(p->tcp_flags)) {
            return ACDC_C_UNTOUCHED_FLAGS;
        }
        p->opt_flags |= ACDC_O_FLAGS;
    }
    if (acdc_unlikely(why != ACDC_N_COUNTERS)) {
        return why;
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

    why = acdc_likely(acdc_pkt_is_usual(p))
          ? acdc_pkt_parse_tcp(p, exid, 4, ACDC_ETH_HLEN, ACDC_IP4_HLEN,
                               acdc_get16(p->data + ACDC_ETH_HLEN + 2))
          : acdc_pkt_parse_unusual(p, exid);
    if (acdc_unlikely(why != ACDC_N_COUNTERS)) {
        p->ip_version = 0;
        p->opt_flags = 0;
        p->reason = (uint8_t) why;
        return false;
    }
    return true;
}

#endif /* acdc-parse.h */
