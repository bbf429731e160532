// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-parse.h"

/* Ones' complement arithmetic (RFC 1071, RFC 1624). ------------------------ */

/* Both halves of an aligned word. */
static inline uint32_t
csum_add32(uint32_t sum, uint32_t word)
{
    return sum + (word >> 16) + (word & 0xffff);
}

static uint32_t
csum_add_bytes(uint32_t sum, const uint8_t *p, unsigned int n)
{
    for (; n >= 4; n -= 4, p += 4) {
        sum = csum_add32(sum, acdc_get32(p));
    }
    if (n >= 2) {
        sum += acdc_get16(p);
        n -= 2;
        p += 2;
    }
    if (n) {
        sum += (uint32_t) *p << 8;
    }
    return sum;
}

/* Writes any byte of the TCP header. */
static void
tcp_put8(struct acdc_pkt *p, unsigned int ofs, uint8_t value)
{
    unsigned int even = ofs & ~1u;
    uint16_t word = acdc_get16(acdc_pkt_tcp(p) + even);

    acdc_pkt_put16(p, even, (uint16_t) (ofs & 1 ? (word & 0xff00) | value
                                                : (word & 0xff) | value << 8));
}

/* Parsing. ----------------------------------------------------------------- */

/* Finds the IP header behind Ethernet and VLAN tags. */
static bool
parse_ethernet(const struct acdc_pkt *p, uint16_t *ofs, uint16_t *type)
{
    unsigned int n_vlans;

    *ofs = ACDC_ETH_HLEN;
    if (p->hlen < ACDC_ETH_HLEN) {
        return false;
    }
    *type = acdc_get16(p->data + 12);
    for (n_vlans = 0; n_vlans < ACDC_MAX_VLANS; n_vlans++) {
        if (*type != ACDC_ETHERTYPE_VLAN && *type != ACDC_ETHERTYPE_QINQ) {
            break;
        }
        if (p->hlen < *ofs + (unsigned int) ACDC_VLAN_HLEN) {
            return false;
        }
        *type = acdc_get16(p->data + *ofs + 2);
        *ofs = (uint16_t) (*ofs + ACDC_VLAN_HLEN);
    }
    return true;
}

/* Sets '*ip_hlen', with IPv6 extension headers, and '*ip_len'.  Returns the
 * counter that says why not, or ACDC_N_COUNTERS. */
static inline enum acdc_counter
parse_ip4(const struct acdc_pkt *p, uint32_t avail, uint32_t *ip_hlen,
          uint32_t *ip_len)
{
    const uint8_t *ip = acdc_pkt_ip(p);

    if (avail < ACDC_IP4_HLEN || ip[0] >> 4 != 4) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    *ip_hlen = (ip[0] & 0xf) * 4u;
    *ip_len = acdc_get16(ip + 2);
    if (*ip_hlen < ACDC_IP4_HLEN || *ip_hlen > avail || *ip_len < *ip_hlen) {
        return ACDC_C_UNTOUCHED_LENGTH;
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
parse_ip6(const struct acdc_pkt *p, uint32_t avail, uint32_t *ip_hlen,
          uint32_t *ip_len)
{
    const uint8_t *ip = acdc_pkt_ip(p);
    uint32_t ofs = ACDC_IP6_HLEN;
    uint8_t next;

    if (avail < ACDC_IP6_HLEN || ip[0] >> 4 != 6) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    *ip_len = ACDC_IP6_HLEN + (uint32_t) acdc_get16(ip + 4);
    next = ip[6];
    /* Extension headers in front of TCP (RFC 8200 section 4).  Each takes at
     * least 8 bytes, so this ends. */
    while (next != ACDC_IPPROTO_TCP) {
        switch (next) {
        case ACDC_IPPROTO_HOPOPTS:
        case ACDC_IPPROTO_ROUTING:
        case ACDC_IPPROTO_DSTOPTS:
            if (avail < ofs + 8) {
                return ACDC_C_UNTOUCHED_LENGTH;
            }
            next = ip[ofs];
            ofs += 8u + ip[ofs + 1] * 8u;
            if (ofs > *ip_len || ofs > avail || ofs > 0xffffu - p->l3_ofs) {
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
    } else {
        p->opt_flags |= ACDC_O_OTHER;
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
        if (len < 2 || ofs + len > p->tcp_hlen) {
            return ACDC_C_UNTOUCHED_OPTIONS;
        }
        switch (kind) {
        case ACDC_TCPOPT_MSS:
            if (len != 4) {
                return ACDC_C_UNTOUCHED_OPTIONS;
            }
            p->mss = acdc_get16(tcp + ofs + 2);
            p->opt_flags |= ACDC_O_MSS;
            break;
        case ACDC_TCPOPT_WSCALE:
            if (len != 3) {
                return ACDC_C_UNTOUCHED_OPTIONS;
            }
            p->wscale = tcp[ofs + 2];
            p->ws_ofs = (uint8_t) (ofs + 2);
            p->opt_flags |= ACDC_O_WSCALE;
            break;
        case ACDC_TCPOPT_SACK_OK:
            if (len != 2) {
                return ACDC_C_UNTOUCHED_OPTIONS;
            }
            p->opt_flags |= ACDC_O_SACK_OK;
            break;
        case ACDC_TCPOPT_SACK:
            if ((len - 2) % 8) {
                return ACDC_C_UNTOUCHED_OPTIONS;
            }
            p->sack_ofs = (uint8_t) ofs;
            p->opt_flags |= ACDC_O_SACK;
            break;
        case ACDC_TCPOPT_TIMESTAMP:
            if (len != ACDC_TCPOPT_TIMESTAMP_LEN) {
                return ACDC_C_UNTOUCHED_OPTIONS;
            }
            p->ts_ofs = (uint8_t) ofs;
            p->opt_flags |= ACDC_O_TIMESTAMP;
            break;
        case ACDC_TCPOPT_MD5:
        case ACDC_TCPOPT_AO:
            return ACDC_C_UNTOUCHED_SIGNED;
        case ACDC_OPT_KIND:
            if (len >= ACDC_OPT_BODY_OFS
                && acdc_get16(tcp + ofs + ACDC_OPT_EXID_OFS) == exid) {
                parse_our_option(p, ofs, len);
            }
            break;
        default:
            break;
        }
        ofs += len;
    }
    return ACDC_N_COUNTERS;
}

/* Finds the IP header, sets 'l3_ofs', '*ip_hlen' and '*ip_len'.  Returns as
 * parse_ip4(). */
static enum acdc_counter
parse_network(struct acdc_pkt *p, uint32_t *ip_hlen, uint32_t *ip_len)
{
    uint16_t type = p->ethertype;
    uint32_t avail;

    if (!type && !parse_ethernet(p, &p->l3_ofs, &type)) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    if (type != ACDC_ETHERTYPE_IP4 && type != ACDC_ETHERTYPE_IP6) {
        return ACDC_C_UNTOUCHED_NOT_TCP;
    }
    if (p->hlen <= p->l3_ofs) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    avail = p->hlen - p->l3_ofs;
    return type == ACDC_ETHERTYPE_IP4 ? parse_ip4(p, avail, ip_hlen, ip_len)
                                      : parse_ip6(p, avail, ip_hlen, ip_len);
}

/* acdc_pkt_is_usual() for IPv6, without extension headers. */
static inline bool
is_usual6(const struct acdc_pkt *p)
{
    const uint8_t *ip = p->data + ACDC_ETH_HLEN;

    return !p->ethertype
           && p->hlen >= ACDC_ETH_HLEN + ACDC_IP6_HLEN + ACDC_TCP_HLEN
           && acdc_get16(ip - 2) == ACDC_ETHERTYPE_IP6
           && ip[0] >> 4 == 6 && ip[6] == ACDC_IPPROTO_TCP;
}

enum acdc_counter
acdc_pkt_parse_unusual(struct acdc_pkt *p, uint16_t exid)
{
    uint32_t ip_hlen, ip_len;
    enum acdc_counter why;

    if (acdc_likely(is_usual6(p))) {
        const uint8_t *ip = p->data + ACDC_ETH_HLEN;

        return acdc_pkt_parse_tcp(p, exid, 6, ACDC_ETH_HLEN, ACDC_IP6_HLEN,
                                  ACDC_IP6_HLEN + (uint32_t) acdc_get16(ip + 4));
    }
    why = parse_network(p, &ip_hlen, &ip_len);
    if (why != ACDC_N_COUNTERS) {
        return why;
    }
    if (p->hlen - p->l3_ofs < ip_hlen + ACDC_TCP_HLEN) {
        return ACDC_C_UNTOUCHED_LENGTH;
    }
    return acdc_pkt_parse_tcp(p, exid, acdc_pkt_ip(p)[0] >> 4, p->l3_ofs,
                              ip_hlen, ip_len);
}

uint32_t
acdc_pkt_sack_edge(const struct acdc_pkt *p, uint32_t una, uint32_t nxt)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->sack_ofs;
    uint32_t edge = una;
    unsigned int i;

    if (!(p->opt_flags & ACDC_O_SACK)) {
        return una;
    }
    for (i = 2; i + 8 <= opt[1]; i += 8) {
        uint32_t right = acdc_get32(opt + i + 4);

        if ((int32_t) (right - edge) > 0 && (int32_t) (nxt - right) >= 0) {
            edge = right;
        }
    }
    return edge;
}

uint32_t
acdc_pkt_sacked(const struct acdc_pkt *p, uint32_t una, uint32_t nxt)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->sack_ofs;
    uint32_t sum = 0, before_left = 0, before_right = 0;
    unsigned int i;

    if (!(p->opt_flags & ACDC_O_SACK)) {
        return 0;
    }
    for (i = 2; i + 8 <= opt[1]; i += 8) {
        uint32_t left = acdc_get32(opt + i) - una;
        uint32_t right = acdc_get32(opt + i + 4) - una;

        if (left < right && right <= nxt - una) {
            sum += right - left;
            if (left <= before_left && before_right <= right) {
                /* What came twice is part of the next block (RFC 2883). */
                sum -= before_right - before_left;
            }
            before_left = left;
            before_right = right;
        }
    }
    return sum < nxt - una ? sum : nxt - una;
}

/* The sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1) for
 * a segment of 'len' bytes, header and payload. */
static uint32_t
csum_pseudo(const struct acdc_pkt *p, uint32_t len)
{
    const uint8_t *ip = acdc_pkt_ip(p);
    uint32_t sum = ACDC_IPPROTO_TCP + (len >> 16) + (len & 0xffff);

    return p->ip_version == 4 ? csum_add_bytes(sum, ip + 12, 8)
                              : csum_add_bytes(sum, ip + 8, 32);
}

bool
acdc_pkt_maybe_intact(const struct acdc_pkt *p)
{
    uint32_t len = p->tcp_hlen + p->payload;

    if (p->csum_partial || p->gso || acdc_pkt_has_ip_options(p)
        || p->l4_ofs + len > p->hlen) {
        return true;
    }
    return acdc_csum_fold(csum_add_bytes(csum_pseudo(p, len),
                                         acdc_pkt_tcp(p), len)) == 0xffff;
}

/* Editing. ----------------------------------------------------------------- */

bool
acdc_pkt_first_write(struct acdc_pkt *p)
{
    if (p->writable == ACDC_W_UNKNOWN) {
        p->edited = acdc_host_writable(p);
        p->writable = p->edited ? ACDC_W_YES : ACDC_W_NO;
    }
    return p->writable == ACDC_W_YES;
}

void
acdc_pkt_set_flags(struct acdc_pkt *p, uint8_t flags)
{
    tcp_put8(p, 13, flags);
    p->tcp_flags = flags;
}

void
acdc_pkt_set_wscale(struct acdc_pkt *p, uint8_t wscale)
{
    tcp_put8(p, p->ws_ofs, wscale);
    p->wscale = wscale;
}

void
acdc_pkt_set_mss(struct acdc_pkt *p, uint16_t mss)
{
    unsigned int ofs = ACDC_TCP_HLEN;

    /* The options were found well-formed by acdc_pkt_parse().  Every one, as
     * receivers differ in which of several they take. */
    while (ofs < p->tcp_hlen) {
        const uint8_t *opt = acdc_pkt_tcp(p) + ofs;

        if (*opt == ACDC_TCPOPT_EOL) {
            break;
        }
        if (*opt == ACDC_TCPOPT_MSS) {
            tcp_put8(p, ofs + 2, (uint8_t) (mss >> 8));
            tcp_put8(p, ofs + 3, (uint8_t) mss);
        }
        ofs += *opt == ACDC_TCPOPT_NOP ? 1u : opt[1];
    }
    p->mss = mss;
}

/* Sets the lengths in the headers of a packet whose TCP header grew by 'delta'
 * bytes, a multiple of 4, and with them both checksums. */
static ACDC_ALWAYS_INLINE void
adjust_lengths(struct acdc_pkt *p, int delta)
{
    uint8_t *ip = acdc_pkt_ip(p);
    uint8_t *tcp = acdc_pkt_tcp(p);

    if (p->ip_version == 4) {
        acdc_put16(ip + 2, (uint16_t) (acdc_get16(ip + 2) + delta));
        p->ip_change += acdc_csum_delta(delta);
    } else {
        acdc_put16(ip + 4, (uint16_t) (acdc_get16(ip + 4) + delta));
    }
    p->tcp_hlen = (uint8_t) (p->tcp_hlen + delta);
    tcp[12] = (uint8_t) (tcp[12] + delta / 4 * 0x10);
    if (!p->csum_partial) {
        /* The length in the pseudo header, and the data offset. */
        p->tcp_change += acdc_csum_delta(delta)
                         + acdc_csum_delta(delta / 4 * 0x1000);
    } else {
        /* The pseudo header alone, and its sum itself, not the complement. */
        acdc_put16(tcp + 16, acdc_csum_fold(acdc_get16(tcp + 16)
                                            + acdc_csum_delta(delta)));
    }
}

static inline void
shift_place(uint8_t *place, unsigned int ofs, int delta)
{
    if (*place >= ofs) {
        *place = (uint8_t) (*place + delta);
    }
}

/* Moves the recorded places of options at or behind 'ofs'. */
static inline void
shift_option_places(struct acdc_pkt *p, unsigned int ofs, int delta)
{
    shift_place(&p->ts_ofs, ofs, delta);
    if (acdc_unlikely(p->opt_flags & ~(unsigned int) ACDC_O_TIMESTAMP)) {
        shift_place(&p->fb_ofs, ofs, delta);
        shift_place(&p->cap_ofs, ofs, delta);
        shift_place(&p->sack_ofs, ofs, delta);
        shift_place(&p->ws_ofs, ofs, delta);
    }
}

/* Makes room for an option of 'len' bytes whose words sum up to 'sum'.
 * Returns its place to be filled, or NULL. */
static ACDC_ALWAYS_INLINE uint8_t *
insert_option(struct acdc_pkt *p, unsigned int len, uint32_t sum)
{
    unsigned int front = p->l4_ofs + (unsigned int) ACDC_TCP_HLEN;
    uint8_t *data;

    if (acdc_pkt_room(p) < len || acdc_pkt_ip_len(p) + len > 0xffff) {
        return NULL;
    }
    data = acdc_host_push(p, len);
    if (!data) {
        return NULL;
    }
    memmove(data, data + len, front);
    if (!p->csum_partial) {
        p->tcp_change += sum;
    }
    adjust_lengths(p, (int) len);
    shift_option_places(p, ACDC_TCP_HLEN, (int) len);
    return data + front;
}

/* The sum of the words of a feedback option. */
static inline uint32_t
feedback_sum(uint16_t exid, uint32_t ce, uint32_t total)
{
    uint32_t sum = csum_add32(0, ACDC_FEEDBACK_WORD | exid);

    return csum_add32(csum_add32(sum, ce), total);
}

static inline void
put_feedback(uint8_t *opt, uint16_t exid, uint32_t ce, uint32_t total)
{
    acdc_put32(opt, ACDC_FEEDBACK_WORD | exid);
    acdc_put32(opt + ACDC_OPT_BODY_OFS, ce);
    acdc_put32(opt + ACDC_OPT_BODY_OFS + 4, total);
}

bool
acdc_pkt_add_capability(struct acdc_pkt *p, uint16_t exid, uint8_t flags)
{
    uint32_t head = ACDC_CAPABILITY_WORD | exid;
    uint32_t body = (uint32_t) ACDC_OPT_VERSION << 24 | (uint32_t) flags << 16;
    uint8_t *opt = insert_option(p, ACDC_OPT_CAP_LEN,
                                 csum_add32(csum_add32(0, head), body));

    if (!opt) {
        return false;
    }
    acdc_put32(opt, head);
    acdc_put32(opt + ACDC_OPT_BODY_OFS, body);
    return true;
}

bool
acdc_pkt_add_feedback(struct acdc_pkt *p, uint16_t exid, uint32_t ce,
                      uint32_t total)
{
    uint8_t *opt = insert_option(p, ACDC_OPT_FB_LEN,
                                 feedback_sum(exid, ce, total));

    if (!opt) {
        return false;
    }
    put_feedback(opt, exid, ce, total);
    return true;
}

/* Makes NOPs of 'len' bytes, 'front' bytes from the beginning of 'p', whose
 * words sum up to 'sum', once what is in front was moved over them in vain. */
static ACDC_NOINLINE void
blank_moved(struct acdc_pkt *p, unsigned int front, unsigned int len,
            uint32_t sum)
{
    memmove(p->data, p->data + len, front);
    memset(p->data + front, ACDC_TCPOPT_NOP, len);
    acdc_tcp_csum_change(p, acdc_csum_fold(sum), acdc_csum_fold(
                             csum_add_bytes(0, p->data + front, len)));
}

/* Removes the option of 'len' bytes at 'ofs' of the TCP header, both multiples
 * of 4, whose words sum up to 'sum'. */
static ACDC_ALWAYS_INLINE void
cut_option(struct acdc_pkt *p, unsigned int ofs, unsigned int len,
           uint32_t sum)
{
    unsigned int front = p->l4_ofs + ofs;

    memmove(p->data + len, p->data, front);
    if (acdc_unlikely(!acdc_host_pull(p, len))) {
        /* The option is gone. */
        blank_moved(p, front, len, sum);
        return;
    }
    acdc_tcp_csum_change(p, acdc_csum_fold(sum), 0);
    adjust_lengths(p, -(int) len);
    shift_option_places(p, ofs, -(int) len);
}

static void
blank_option(struct acdc_pkt *p, unsigned int ofs, unsigned int len)
{
    for (; len; ofs++, len--) {
        tcp_put8(p, ofs, ACDC_TCPOPT_NOP);
    }
}

static ACDC_NOINLINE void
strip_any(struct acdc_pkt *p, uint16_t exid)
{
    unsigned int ofs = ACDC_TCP_HLEN;

    /* The options were found well-formed by acdc_pkt_parse(). */
    while (ofs < p->tcp_hlen) {
        const uint8_t *opt = acdc_pkt_tcp(p) + ofs;
        unsigned int len;

        if (opt[0] == ACDC_TCPOPT_EOL) {
            break;
        }
        if (opt[0] == ACDC_TCPOPT_NOP) {
            ofs++;
            continue;
        }
        len = opt[1];
        if (opt[0] == ACDC_OPT_KIND && len >= ACDC_OPT_BODY_OFS
            && acdc_get16(opt + ACDC_OPT_EXID_OFS) == exid) {
            if (ofs % 4 == 0 && len % 4 == 0) {
                cut_option(p, ofs, len, csum_add_bytes(0, opt, len));
                continue;
            }
            blank_option(p, ofs, len);
        }
        ofs += len;
    }
}

bool
acdc_pkt_do_strip(struct acdc_pkt *p, uint16_t exid)
{
    uint8_t ours = p->opt_flags & ACDC_O_OURS;
    uint8_t fb_ofs = p->fb_ofs;

    if (!acdc_pkt_make_writable(p)) {
        return false;
    }
    p->opt_flags &= (uint16_t) ~ACDC_O_OURS;
    p->fb_ofs = p->cap_ofs = 0;
    if (acdc_likely(ours == ACDC_O_FEEDBACK && fb_ofs == ACDC_TCP_HLEN)) {
        /* As we insert it. */
        const uint8_t *body = acdc_pkt_tcp(p) + fb_ofs + ACDC_OPT_BODY_OFS;

        cut_option(p, ACDC_TCP_HLEN, ACDC_OPT_FB_LEN,
                   feedback_sum(exid, acdc_get32(body), acdc_get32(body + 4)));
    } else {
        strip_any(p, exid);
    }
    return true;
}

void
acdc_pkt_undress_any(struct acdc_pkt *p, uint16_t exid, uint8_t ecn,
                     uint16_t window)
{
    acdc_pkt_strip(p, exid);
    acdc_pkt_finish(p);
    acdc_pkt_undress(p, ecn, window);
}

bool
acdc_pkt_send_fack(struct acdc_pkt *p, uint32_t seq, uint16_t exid,
                   uint32_t ce, uint32_t total, uint8_t ecn, uint8_t reserved)
{
    bool ts = p->opt_flags & ACDC_O_TIMESTAMP;
    unsigned int hlen = ACDC_TCP_HLEN + ACDC_OPT_FB_LEN
                        + acdc_pkt_timestamps_len(p);
    unsigned int front = p->l4_ofs + (unsigned int) ACDC_TCP_HLEN;
    struct acdc_pkt fack;
    uint8_t *tcp, *ip;

    acdc_pkt_init(&fack, NULL, p->l4_ofs + hlen, p->l4_ofs + hlen);
    fack.data = acdc_host_inject(p, fack.len);
    if (!fack.data) {
        return false;
    }
    memcpy(fack.data, p->data, front);
    fack.ip_version = p->ip_version;
    fack.l3_ofs = p->l3_ofs;
    fack.l4_ofs = p->l4_ofs;
    fack.tcp_hlen = (uint8_t) hlen;

    tcp = acdc_pkt_tcp(&fack);
    put_feedback(tcp + ACDC_TCP_HLEN, exid, ce, total);
    if (ts) {
        uint8_t *opt = tcp + ACDC_TCP_HLEN + ACDC_OPT_FB_LEN;

        opt[0] = opt[1] = ACDC_TCPOPT_NOP;
        memcpy(opt + 2, acdc_pkt_tcp(p) + p->ts_ofs,
               ACDC_TCPOPT_TIMESTAMP_LEN);
    }
    acdc_put32(tcp + 4, seq);
    tcp[12] = (uint8_t) ((tcp[12] & ~(0xf0 | ACDC_RES_MASK))
                         | hlen / 4 << 4 | ACDC_RES_FACK | reserved);
    tcp[13] = ACDC_TCP_ACK;
    acdc_put16(tcp + 18, 0);        /* Urgent pointer. */

    ip = acdc_pkt_ip(&fack);
    if (fack.ip_version == 4) {
        acdc_put16(ip + 2, (uint16_t) (fack.len - fack.l3_ofs));
        acdc_put16(ip + 10, 0);
        acdc_put16(ip + 10, (uint16_t) ~acdc_csum_fold(
                       csum_add_bytes(0, ip, fack.l4_ofs - fack.l3_ofs)));
    } else {
        acdc_put16(ip + 4, (uint16_t) (fack.len - fack.l3_ofs
                                       - ACDC_IP6_HLEN));
    }
    acdc_pkt_set_ecn(&fack, ecn);
    acdc_pkt_finish(&fack);
    acdc_put16(tcp + 16, 0);
    acdc_put16(tcp + 16,
               (uint16_t) ~acdc_csum_fold(
                   csum_add_bytes(csum_pseudo(&fack, hlen), tcp, hlen)));
    return true;
}
