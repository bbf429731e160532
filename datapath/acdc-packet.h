/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What was read of one packet (acdc-parse.h), and editing it.  Every edit keeps
 * IP and TCP checksums as right, or as wrong, as they were (RFC 1624), and never
 * touches payload. */

#ifndef ACDC_PACKET_H
#define ACDC_PACKET_H 1

/* What 'struct acdc_pkt' has for the engine.  Hosts include acdc.h alone, so that
 * it must not come before. */
#define ACDC_PKT_ENGINE                                                       \
    struct {                                                                  \
        union {                                                               \
            uint64_t options;   /* All of them, in one instruction. */        \
            struct {                                                          \
                uint16_t opt_flags;     /* ACDC_O_*. */                       \
                /* Places in the TCP header, 0: none. */                      \
                uint8_t fb_ofs, cap_ofs, sack_ofs, ws_ofs, ts_ofs;            \
                uint8_t wscale;                                               \
            };                                                                \
        };                                                                    \
        uint32_t payload;                                                     \
        uint32_t seq, ack;                                                    \
        uint16_t mss;           /* Only with ACDC_O_MSS. */                   \
        uint8_t tcp_flags;                                                    \
        /* As in struct acdc_flow: be. */                                     \
        uint64_t addrs;                                                       \
        uint32_t ports;                                                       \
        uint32_t vids;          /* VLANs that it is in, but for ACDC_KIND_4: the \
                                 * first two VIDs that are not 0, 12 bits     \
                                 * each. */                                   \
        const acdc_link *bucket;        /* Of acdc_ctx.table. */              \
        struct acdc_flow *flow;         /* See acdc_table_find(). */          \
    };
#ifdef ACDC_H
#error "acdc-packet.h comes before acdc.h"
#endif
#include "acdc.h"
ACDC_STATIC_ASSERT(sizeof(struct acdc_pkt)
                   == offsetof(struct acdc_pkt, opaque) + 8 * sizeof(uint64_t));

/* acdc_pkt.opt_flags: what acdc_pkt_parse() found among the TCP options, and
 * whether the rest of the TCP header was as most are: edits do not note that. */
enum {
    ACDC_O_MSS = 1 << 0,
    ACDC_O_WSCALE = 1 << 1,
    ACDC_O_SACK_OK = 1 << 2,
    ACDC_O_SACK = 1 << 3,
    ACDC_O_TIMESTAMP = 1 << 4,
    ACDC_O_FEEDBACK = 1 << 5,       /* A whole, first one of ours.  For its value
                                     * see acdc_flow_prefetch_in(). */
    ACDC_O_CAPABILITY = 1 << 6,     /* Likewise. */
    ACDC_O_OTHER = 1 << 7,          /* Our ExID, but repeated or malformed. */
    ACDC_O_OURS = ACDC_O_CAPABILITY | ACDC_O_FEEDBACK | ACDC_O_OTHER,
    ACDC_O_PLACES = 1 << 8,         /* Not feedback, timestamps, both or none as
                                     * acdc_pkt_parse_options() knows them. */
    ACDC_O_FLAGS = 1 << 9,          /* Not acdc_tcp_flags_are_plain(). */
    ACDC_O_REPORT = 1 << 11,        /* To a guest, with ACDC_O_FEEDBACK: it is a report.
                                     * From one: there is one to be made. */
    ACDC_O_FOREIGN = 1 << 12,       /* One that is not TCP's own, nor ours. */
    ACDC_O_STATE = 1 << 10,         /* With ACDC_O_OTHER: a whole state, at 'cap_ofs'. */
};

static inline uint8_t *acdc_pkt_ip(const struct acdc_pkt *p)
{
    return p->data + p->l3_ofs;
}

static inline uint8_t *acdc_pkt_tcp(const struct acdc_pkt *p)
{
    return p->data + p->l4_ofs;
}

static inline uint16_t acdc_pkt_window(const struct acdc_pkt *p)
{
    return acdc_get16(acdc_pkt_tcp(p) + 14);
}

static inline uint8_t acdc_pkt_reserved(const struct acdc_pkt *p)
{
    return acdc_pkt_tcp(p)[12] & ACDC_RES_MASK;
}

static inline uint8_t acdc_pkt_ecn(const struct acdc_pkt *p)
{
    const uint8_t *ip = acdc_pkt_ip(p);

    return acdc_likely(p->ip_version == 4) ? ip[1] & ACDC_ECN_MASK
                                           : (ip[1] >> 4) & ACDC_ECN_MASK;
}

/* Whether all that a segment's flags say is ACK, as most segments' do. */
static inline bool acdc_tcp_flags_are_plain(uint8_t tcp_flags)
{
    return (tcp_flags & ~(unsigned int) ACDC_TCP_PSH) == ACDC_TCP_ACK;
}

/* Whether it is a packet of a vSwitch's own, which no guest gets as it is. */
static inline bool acdc_pkt_is_fack(const struct acdc_pkt *p)
{
    return (p->opt_flags & (ACDC_O_FEEDBACK | ACDC_O_STATE)) && !p->payload
           && (acdc_pkt_reserved(p) & ACDC_RES_FACK);
}

/* A packet without payload that says nothing but ACK. */
static inline bool acdc_pkt_is_pure_ack(const struct acdc_pkt *p)
{
    return !p->payload && !(p->tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_FIN
                                            | ACDC_TCP_RST));
}

/* The sequence number after a segment that is no SYN. */
static inline uint32_t acdc_pkt_end(const struct acdc_pkt *p)
{
    return p->seq + p->payload + (p->tcp_flags & ACDC_TCP_FIN ? 1 : 0);
}

/* A SYN and not a SYN-ACK. */
static inline bool acdc_pkt_is_syn(const struct acdc_pkt *p)
{
    return acdc_unlikely(p->opt_flags & ACDC_O_FLAGS)
           && (p->tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_ACK)) == ACDC_TCP_SYN;
}

/* IPv4 options or IPv6 extension headers. */
static inline bool acdc_pkt_has_ip_options(const struct acdc_pkt *p)
{
    return p->l4_ofs - p->l3_ofs != (p->ip_version == 4 ? ACDC_IP4_HLEN
                                                        : ACDC_IP6_HLEN);
}

/* Whether routers may fragment it: IPv4 without DF.  These say nothing of a path that
 * takes less. */
static inline bool acdc_pkt_may_be_fragmented(const struct acdc_pkt *p)
{
    return p->ip_version == 4 && !(acdc_pkt_ip(p)[6] & 0x40);
}

/* Bytes that timestamps take in a segment that has them as this one does. */
static inline unsigned int acdc_pkt_timestamps_len(const struct acdc_pkt *p)
{
    return p->opt_flags & ACDC_O_TIMESTAMP
           ? 2u + ACDC_TCPOPT_TIMESTAMP_LEN : 0u;
}

/* Bytes of the packet that the IP header 'ip' begins, as it says itself. */
static inline uint32_t acdc_ip_len_said(const uint8_t *ip)
{
    return ip[0] >> 4 == 6 ? ACDC_IP6_HLEN + (uint32_t) acdc_get16(ip + 4)
                           : acdc_get16(ip + 2);
}

/* Bytes of the IP packet, as in its header. */
static inline uint32_t acdc_pkt_ip_len(const struct acdc_pkt *p)
{
    return p->l4_ofs - p->l3_ofs + p->tcp_hlen + p->payload;
}

/* What counts against a device's MTU: the IP packet, and VLAN tags but for one
 * of 802.1Q in front, which devices have room for beside it (Linux
 * packet_extra_vlan_len_allowed()). */
static inline uint32_t acdc_pkt_mtu_len(const struct acdc_pkt *p)
{
    uint32_t tags = p->ethertype ? 0 : (uint32_t) p->l3_ofs - ACDC_ETH_HLEN;
    uint16_t first = tags ? acdc_get16(p->data + 12) : 0;

    if (p->tag_type) {
        tags += ACDC_VLAN_HLEN;
        first = p->tag_type;
    }
    if (first == ACDC_ETHERTYPE_VLAN) {
        tags -= ACDC_VLAN_HLEN;
    }
    return acdc_pkt_ip_len(p) + tags;
}

/* Whether the TCP checksum may be right: false only if it was verified and is
 * wrong.  A partial one is made later, with IP options the pseudo header may be
 * of another destination, and not all of the segment may be at hand. */
bool acdc_pkt_maybe_intact(const struct acdc_pkt *p);

/* acdc_pkt_make_writable(), if it is not known yet whether 'p' is. */
bool acdc_pkt_first_write(struct acdc_pkt *p);

/* Makes headers private.  To be called before any of the edits below; false
 * without memory. */
static inline bool
acdc_pkt_make_writable(struct acdc_pkt *p)
{
    return acdc_likely(p->writable == ACDC_W_YES) || acdc_pkt_first_write(p);
}

/* Both halves' sum, with its carry, comes to be in the upper one, as in Linux'
 * csum_fold(). */
static inline uint16_t
acdc_csum_fold(uint32_t sum)
{
    return (uint16_t) ((sum + (sum << 16 | sum >> 16)) >> 16);
}

/* The same for more than both halves of a word: sums of up to 2^32 words. */
static inline uint16_t
acdc_csum_fold64(uint64_t sum)
{
    return acdc_csum_fold((uint32_t) ((sum + (sum << 32 | sum >> 32)) >> 32));
}

/* What a word that grows by 'delta' adds: in ones' complement -n is ~n. */
static inline uint16_t
acdc_csum_delta(int delta)
{
    return (uint16_t) (delta >= 0 ? delta : ~-delta);
}

/* HC' = ~(~HC + ~m + m'), RFC 1624 equation 3, for all words at once.
 * 'change' is of words as they are in memory: a sum of swapped words is the
 * swapped sum (RFC 1071 section 2). */
static inline void
acdc_csum_apply(uint8_t *field, uint32_t change)
{
    uint32_t sum = 0xffffu - acdc_load16(field) + change;

    acdc_store16(field, (uint16_t) ~acdc_csum_fold(sum));
}

/* What replacing the word m by m' adds to a sum: ~m + m', RFC 1624.  In 16 bits
 * ~m is 0xffff - m, which is one instruction. */
static inline uint32_t
acdc_csum_change(uint16_t old, uint16_t new)
{
    return 0xffffu - old + new;
}

/* Replaces a word, both as in memory.  Returns what that changes in sums of
 * such words. */
static inline uint32_t
acdc_csum_replace(uint8_t *field, uint16_t new)
{
    uint16_t old = acdc_load16(field);

    acdc_store16(field, new);
    return acdc_csum_change(old, new);
}

/* What replacing the lower byte of a word changes in such sums. */
static inline uint32_t
acdc_csum_change8(uint8_t old, uint8_t new)
{
    /* A word of 1, in memory, is 256 on most machines. */
    return 0xffffu + ACDC_BE16(1) * ((uint32_t) new - old);
}

/* For a change within the TCP header.  A partial checksum covers the pseudo
 * header only. */
static inline void
acdc_tcp_csum_change(const struct acdc_pkt *p, uint32_t change)
{
    if (!p->csum_partial) {
        acdc_csum_apply(acdc_pkt_tcp(p) + 16, change);
    }
}

/* Writes a 16-bit aligned word of the TCP header. */
static inline void
acdc_pkt_put16(const struct acdc_pkt *p, unsigned int ofs, uint16_t value)
{
    acdc_tcp_csum_change(p, acdc_csum_replace(acdc_pkt_tcp(p) + ofs,
                                              ACDC_BE16(value)));
}

/* In the IP header: 'ecn' as the codepoint, and 'grow' bytes more. */
static ACDC_ALWAYS_INLINE void
acdc_pkt_edit_ip(const struct acdc_pkt *p, uint8_t ecn, int grow)
{
    uint8_t *ip = acdc_pkt_ip(p);

    if (acdc_likely(p->ip_version == 4)) {
        uint8_t old = ip[1];
        uint8_t tos = (uint8_t) ((old & ~ACDC_ECN_MASK) | ecn);
        uint32_t change = acdc_csum_change8(old, tos);

        ip[1] = tos;
        if (grow) {
            acdc_put16(ip + 2, (uint16_t) (acdc_get16(ip + 2) + grow));
            change += ACDC_BE16(acdc_csum_delta(grow));
        }
        acdc_csum_apply(ip + 10, change);
    } else {
        /* IPv6 has no header checksum, and TCP's pseudo header no traffic
         * class (RFC 8200 section 8.1). */
        ip[1] = (uint8_t) ((ip[1] & ~(ACDC_ECN_MASK << 4)) | ecn << 4);
        acdc_put16(ip + 4, (uint16_t) (acdc_get16(ip + 4) + grow));
    }
}

/* In the TCP header, at 'tcp', which the caller has: after each write to the
 * packet it would be read from '*p' again.  'reserved' as those in 'mask', and
 * 'grow' bytes more, a multiple of 4.  'change': what else changed, in words as
 * they are in memory. */
static ACDC_ALWAYS_INLINE void
acdc_pkt_edit_tcp(const struct acdc_pkt *p, uint8_t *tcp, unsigned int mask,
                  uint8_t reserved, int grow, uint32_t change)
{
    uint8_t old = tcp[12];
    uint8_t byte = (uint8_t) (((old & ~mask) | reserved)
                              + grow / 4 * 0x10);
    /* The length in the pseudo header. */
    uint16_t length = ACDC_BE16(acdc_csum_delta(grow));

    tcp[12] = byte;
    change += acdc_csum_change(ACDC_BE16((uint16_t) (old << 8)),
                               ACDC_BE16((uint16_t) (byte << 8)));
    if (acdc_likely(!p->csum_partial)) {
        acdc_csum_apply(tcp + 16, change + length);
    } else if (grow) {
        /* The pseudo header alone, and its sum itself, not the complement. */
        acdc_store16(tcp + 16,
                     acdc_csum_fold((uint32_t) acdc_load16(tcp + 16) + length));
    }
}

static inline void
acdc_pkt_set_ecn(struct acdc_pkt *p, uint8_t codepoint)
{
    acdc_pkt_edit_ip(p, codepoint, 0);
}

/* Another flow label for an IPv6 packet: exclusive or with the last bits of 'bits'.  No
 * checksum covers it. */
static inline void
acdc_pkt_change_label(struct acdc_pkt *p, uint32_t bits)
{
    uint8_t *ip = acdc_pkt_ip(p);

    acdc_put32(ip, acdc_get32(ip) ^ (bits & ACDC_IP6_LABEL_MASK));
}

static inline void
acdc_pkt_set_reserved(struct acdc_pkt *p, uint8_t bits)
{
    acdc_pkt_edit_tcp(p, acdc_pkt_tcp(p), ACDC_RES_MASK, bits, 0, 0);
}

static inline void
acdc_pkt_set_seq(struct acdc_pkt *p, uint32_t seq)
{
    acdc_pkt_put16(p, 4, (uint16_t) (seq >> 16));
    acdc_pkt_put16(p, 6, (uint16_t) seq);
    p->seq = seq;
}

static inline void
acdc_pkt_set_window(struct acdc_pkt *p, uint16_t window)
{
    acdc_pkt_put16(p, 14, window);
}

void acdc_pkt_set_flags(struct acdc_pkt *p, uint8_t flags);
/* The window scale option's shift; only with ACDC_O_WSCALE. */
void acdc_pkt_set_wscale(struct acdc_pkt *p, uint8_t wscale);
/* The MSS option's value, bytes; only with ACDC_O_MSS. */
void acdc_pkt_set_mss(struct acdc_pkt *p, uint16_t mss);

/* A capability, of ACDC_OPT_CAP_LEN bytes; 'last' are its last two. */
static inline void
acdc_put_capability(uint8_t *opt, uint16_t exid, uint8_t flags, uint16_t last)
{
    acdc_put32(opt, ACDC_CAPABILITY_WORD | exid);
    acdc_put32(opt + ACDC_OPT_BODY_OFS,
               (uint32_t) ACDC_OPT_VERSION << 24 | (uint32_t) flags << 16 | last);
}

/* Bytes of options that it has room for. */
static inline unsigned int acdc_pkt_room(const struct acdc_pkt *p)
{
    return ACDC_TCP_HLEN_MAX - p->tcp_hlen;
}
/* Inserts an option of ours, of 'len' bytes, a multiple of 4, as the first TCP option,
 * where a reader finds it at a fixed place and no end-of-list option can hide it.  False
 * without room or memory. */
bool acdc_pkt_add_option(struct acdc_pkt *p, const uint8_t *opt,
                         unsigned int len);
bool acdc_pkt_add_capability(struct acdc_pkt *p, uint16_t exid,
                             uint8_t flags, uint8_t told);
/* The flags of the one that 'p' has; 0: none. */
static inline uint8_t
acdc_pkt_capability_flags(const struct acdc_pkt *p)
{
    return p->opt_flags & ACDC_O_CAPABILITY
           ? acdc_pkt_tcp(p)[p->cap_ofs + ACDC_OPT_BODY_OFS + 1] : 0;
}

/* With ACDC_O_REPORT, which makes it longer. */
static inline void
acdc_pkt_get_report(const struct acdc_pkt *p, uint32_t *mark_ago, uint32_t *clock)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->fb_ofs;

    *mark_ago = acdc_get32(opt + ACDC_OPT_BODY_OFS + 8);
    *clock = acdc_get32(opt + ACDC_OPT_BODY_OFS + 12);
}

/* Only with ACDC_O_FEEDBACK. */
static inline void
acdc_pkt_get_feedback(const struct acdc_pkt *p, uint32_t *ce, uint32_t *total)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->fb_ofs;

    *ce = acdc_get32(opt + ACDC_OPT_BODY_OFS);
    *total = acdc_get32(opt + ACDC_OPT_BODY_OFS + 4);
}

/* Removes every option with our ExID: by shrinking the header where option
 * and place are aligned, else by NOPs.  False if one remains for want of
 * memory. */
bool acdc_pkt_do_strip(struct acdc_pkt *p, uint16_t exid);
static inline bool
acdc_pkt_strip(struct acdc_pkt *p, uint16_t exid)
{
    return !(p->opt_flags & ACDC_O_OURS) || acdc_pkt_do_strip(p, exid);
}

/* Several edits at once.  'p' is writable.  Those of ACKs are the last of their
 * packet: they keep 'tcp_hlen', not what else is noted of options. */

/* What a packet needs on its way from a guest, feedback apart: 'ecn' as the
 * codepoint, 'reserved' as the reserved bits.  Data stays marked. */
static ACDC_ALWAYS_INLINE void
acdc_pkt_dress(struct acdc_pkt *p, uint8_t ecn, uint8_t reserved)
{
    uint8_t *tcp = acdc_pkt_tcp(p);

    acdc_pkt_edit_ip(p, ecn, 0);
    acdc_pkt_edit_tcp(p, tcp, ACDC_RES_ECN_MASK, reserved, 0, 0);
}

/* And on its way to one: no reserved bits, 'ecn' as the codepoint and
 * 'window'. */
static ACDC_ALWAYS_INLINE void
acdc_pkt_undress(struct acdc_pkt *p, uint8_t ecn, uint16_t window)
{
    uint8_t *tcp = acdc_pkt_tcp(p);

    acdc_pkt_edit_ip(p, ecn, 0);
    acdc_pkt_edit_tcp(p, tcp, ACDC_RES_MASK, 0, 0,
                      acdc_csum_replace(tcp + 14, ACDC_BE16(window)));
}

/* Adds feedback and does what acdc_pkt_dress() does, for packets without payload.
 * False, with nothing changed, without room or memory. */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_dress_ack(struct acdc_pkt *p, uint16_t exid, uint32_t ce,
                   uint32_t total, uint8_t ecn, uint8_t reserved)
{
    enum { LEN = ACDC_OPT_FB_LEN };
    const uint32_t words[3] = {
        ACDC_BE32(ACDC_FEEDBACK_WORD | exid), ACDC_BE32(ce), ACDC_BE32(total)
    };
    uint64_t sum = (uint64_t) words[0] + words[1] + words[2];
    uint8_t *tcp;

    if (acdc_pkt_room(p) < LEN || acdc_pkt_ip_len(p) + LEN > 0xffff
        || !acdc_host_push(p, LEN)) {
        return false;
    }
    memmove(p->data, p->data + LEN, p->l4_ofs + (unsigned int) ACDC_TCP_HLEN);
    p->tcp_hlen = (uint8_t) (p->tcp_hlen + LEN);
    tcp = acdc_pkt_tcp(p);
    memcpy(tcp + ACDC_TCP_HLEN, words, LEN);
    acdc_pkt_edit_ip(p, ecn, LEN);
    acdc_pkt_edit_tcp(p, tcp, ACDC_RES_MASK, reserved, LEN, acdc_csum_fold64(sum));
    return true;
}

/* acdc_pkt_strip() and acdc_pkt_undress() of an ACK that has feedback and without
 * ACDC_O_PLACES.  The timestamps behind it move up, fewer bytes than the headers
 * in front.  False, with nothing changed, if something is behind the TCP
 * header. */
static ACDC_ALWAYS_INLINE bool
acdc_pkt_undress_ack(struct acdc_pkt *p, uint8_t ecn, uint16_t window)
{
    enum { LEN = ACDC_OPT_FB_LEN };
    uint8_t *tcp = acdc_pkt_tcp(p);
    uint8_t *opt = tcp + ACDC_TCP_HLEN;
    uint64_t sum = (uint64_t) acdc_load32(opt) + acdc_load32(opt + 4)
                   + acdc_load32(opt + 8);

    if (acdc_unlikely(p->len != p->l4_ofs + (uint32_t) p->tcp_hlen)) {
        return false;
    }
    p->tcp_hlen = (uint8_t) (p->tcp_hlen - LEN);
    acdc_pkt_edit_ip(p, ecn, -LEN);
    acdc_pkt_edit_tcp(p, tcp, ACDC_RES_MASK, 0, -LEN,
                      acdc_csum_change(acdc_csum_fold64(sum), 0)
                      + acdc_csum_replace(tcp + 14, ACDC_BE16(window)));
    if (acdc_likely(p->opt_flags & ACDC_O_TIMESTAMP)) {
        uint64_t first = acdc_load64(opt + LEN);
        uint32_t rest = acdc_load32(opt + LEN + 8);

        memcpy(opt, &first, 8);
        memcpy(opt + 8, &rest, 4);
    }
    acdc_host_trim(p, LEN);
    return true;
}

/* The same, edit by edit. */
void acdc_pkt_undress_any(struct acdc_pkt *p, uint16_t exid, uint8_t ecn,
                          uint16_t window);

/* Highest right edge in the SACK option that lies in (una, nxt], or 'una'. */
uint32_t acdc_pkt_sack_edge(const struct acdc_pkt *p, uint32_t una,
                            uint32_t nxt);
/* Bytes that its first block says have come twice (D-SACK, RFC 2883 section 4): they are
 * acknowledged, or in the next block as well. */
uint32_t acdc_pkt_came_twice(const struct acdc_pkt *p);
/* Whether it says that 'seq' has arrived. */
bool acdc_pkt_sacks(const struct acdc_pkt *p, uint32_t seq);
/* Bytes of (una, nxt] that the SACK option says have arrived. */
uint32_t acdc_pkt_sacked(const struct acdc_pkt *p, uint32_t una,
                         uint32_t nxt);
/* Likewise full segments, or blocks if these are more. */
unsigned int acdc_pkt_sacked_segments(const struct acdc_pkt *p, uint32_t una,
                                      uint32_t nxt, uint32_t mss);

/* Sends, before 'p', a FACK: the headers of 'p', without payload, with the
 * sequence number 'seq', 'len' bytes of options of ours and the timestamps of 'p'.
 * 'reserved': the bits beside ACDC_RES_FACK.  False without memory. */
bool acdc_pkt_send_options(struct acdc_pkt *p, uint32_t seq, const uint8_t *opts,
                           unsigned int len, uint8_t ecn, uint8_t reserved);

#endif /* acdc-packet.h */
