// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-packet.h"

/* Ones' complement arithmetic (RFC 1071, RFC 1624). ------------------------ */

static uint32_t
csum_add_bytes(uint32_t sum, const uint8_t *p, unsigned int n)
{
    for (; n >= 4; n -= 4, p += 4) {
        uint32_t word = acdc_get32(p);

        sum += (word >> 16) + (word & 0xffff);
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

/* Of words as they are in memory. */
static inline uint16_t
csum_bytes(const uint8_t *p, unsigned int n)
{
    return ACDC_BE16(acdc_csum_fold(csum_add_bytes(0, p, n)));
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

/* What was received, and whether it is intact. ----------------------------- */

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

bool
acdc_pkt_sacks(const struct acdc_pkt *p, uint32_t seq)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->sack_ofs;
    unsigned int i;

    for (i = 2; (p->opt_flags & ACDC_O_SACK) && i + 8 <= opt[1]; i += 8) {
        uint32_t left = acdc_get32(opt + i);

        if (seq - left < acdc_get32(opt + i + 4) - left) {
            return true;
        }
    }
    return false;
}

uint32_t
acdc_pkt_came_twice(const struct acdc_pkt *p)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->sack_ofs;
    uint32_t left, len, next_left;

    if (!(p->opt_flags & ACDC_O_SACK) || opt[1] < 10) {
        return 0;
    }
    left = acdc_get32(opt + 2);
    len = acdc_get32(opt + 6) - left;
    if ((int32_t) len <= 0) {
        return 0;
    }
    if ((int32_t) (left - p->ack) < 0) {
        return len;
    }
    if (opt[1] < 18) {
        return 0;
    }
    next_left = acdc_get32(opt + 10);
    return left - next_left + (uint64_t) len <= acdc_get32(opt + 14) - next_left ? len : 0;
}

/* Of (una, nxt], '*n_blocks' blocks. */
static uint32_t
sum_sacked(const struct acdc_pkt *p, uint32_t una, uint32_t nxt,
           unsigned int *n_blocks)
{
    const uint8_t *opt = acdc_pkt_tcp(p) + p->sack_ofs;
    uint32_t sum = 0, before_left = 0, before_right = 0;
    unsigned int i;

    *n_blocks = 0;
    if (!(p->opt_flags & ACDC_O_SACK)) {
        return 0;
    }
    for (i = 2; i + 8 <= opt[1]; i += 8) {
        uint32_t left = acdc_get32(opt + i) - una;
        uint32_t right = acdc_get32(opt + i + 4) - una;

        if (left < right && right <= nxt - una) {
            sum += right - left;
            ++*n_blocks;
            if (before_right && left <= before_left && before_right <= right) {
                /* What came twice is part of the next block (RFC 2883). */
                sum -= before_right - before_left;
                --*n_blocks;
            }
            before_left = left;
            before_right = right;
        }
    }
    return sum < nxt - una ? sum : nxt - una;
}

uint32_t
acdc_pkt_sacked(const struct acdc_pkt *p, uint32_t una, uint32_t nxt)
{
    unsigned int n_blocks;

    return sum_sacked(p, una, nxt, &n_blocks);
}

unsigned int
acdc_pkt_sacked_segments(const struct acdc_pkt *p, uint32_t una, uint32_t nxt,
                         uint32_t mss)
{
    unsigned int n_blocks;
    uint32_t n = sum_sacked(p, una, nxt, &n_blocks) / mss;

    return n > n_blocks ? n : n_blocks;
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

/* The TCP header grew by 'delta' bytes, a multiple of 4, which adds 'change' to its
 * checksum. */
static void
resize_header(struct acdc_pkt *p, int delta, uint32_t change)
{
    p->tcp_hlen = (uint8_t) (p->tcp_hlen + delta);
    acdc_pkt_edit_ip(p, acdc_pkt_ecn(p), delta);
    acdc_pkt_edit_tcp(p, acdc_pkt_tcp(p), 0, 0, delta, change);
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

bool
acdc_pkt_add_capability(struct acdc_pkt *p, uint16_t exid, uint8_t flags,
                        uint8_t told)
{
    uint8_t opt[ACDC_OPT_CAP_LEN];

    acdc_put_capability(opt, exid, flags, (uint16_t) (told << 8));
    return acdc_pkt_add_option(p, opt, sizeof opt);
}

bool
acdc_pkt_add_option(struct acdc_pkt *p, const uint8_t *opt, unsigned int len)
{
    unsigned int front = p->l4_ofs + (unsigned int) ACDC_TCP_HLEN;

    if (acdc_pkt_room(p) < len || acdc_pkt_ip_len(p) + len > 0xffff
        || !acdc_host_push(p, len)) {
        return false;
    }
    memmove(p->data, p->data + len, front);
    memcpy(p->data + front, opt, len);
    resize_header(p, (int) len, csum_bytes(opt, len));
    shift_option_places(p, ACDC_TCP_HLEN, (int) len);
    return true;
}

/* Removes the option of 'len' bytes at 'ofs' of the TCP header, both multiples of
 * 4. */
static void
cut_option(struct acdc_pkt *p, unsigned int ofs, unsigned int len)
{
    unsigned int front = p->l4_ofs + ofs;
    uint32_t change = acdc_csum_change(csum_bytes(p->data + front, len), 0);

    memmove(p->data + len, p->data, front);
    if (acdc_unlikely(!acdc_host_pull(p, len))) {
        /* The option is gone.  NOPs take its place. */
        memmove(p->data, p->data + len, front);
        memset(p->data + front, ACDC_TCPOPT_NOP, len);
        acdc_tcp_csum_change(p, change + csum_bytes(p->data + front, len));
        return;
    }
    resize_header(p, -(int) len, change);
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
                cut_option(p, ofs, len);
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
    unsigned int ours = p->opt_flags & (ACDC_O_OURS | ACDC_O_REPORT);
    uint8_t fb_ofs = p->fb_ofs;

    if (!acdc_pkt_make_writable(p)) {
        return false;
    }
    p->opt_flags &= (uint16_t) ~(ACDC_O_OURS | ACDC_O_STATE | ACDC_O_REPORT);
    p->fb_ofs = p->cap_ofs = 0;
    if (acdc_likely(ours == ACDC_O_FEEDBACK && fb_ofs == ACDC_TCP_HLEN)) {
        /* As we insert it. */
        cut_option(p, ACDC_TCP_HLEN, ACDC_OPT_FB_LEN);
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
    acdc_pkt_undress(p, ecn, window);
}

bool
acdc_pkt_send_options(struct acdc_pkt *p, uint32_t seq, const uint8_t *opts,
                      unsigned int len, uint8_t ecn, uint8_t reserved)
{
    bool ts = p->opt_flags & ACDC_O_TIMESTAMP;
    unsigned int hlen = ACDC_TCP_HLEN + len + acdc_pkt_timestamps_len(p);
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
    memcpy(tcp + ACDC_TCP_HLEN, opts, len);
    if (ts) {
        uint8_t *opt = tcp + ACDC_TCP_HLEN + len;

        opt[0] = opt[1] = ACDC_TCPOPT_NOP;
        memcpy(opt + 2, acdc_pkt_tcp(p) + p->ts_ofs,
               ACDC_TCPOPT_TIMESTAMP_LEN);
    }
    acdc_put32(tcp + 4, seq);
    tcp[12] = (uint8_t) ((tcp[12] & ~(0xf0 | ACDC_RES_MASK))
                         | hlen / 4 << 4 | ACDC_RES_FACK | reserved);
    /* With AE, above, a counter of the guest's (RFC 9768): it would read a jump in
     * a window update that this may become. */
    tcp[13] = (uint8_t) (ACDC_TCP_ACK
                         | (p->tcp_flags & (ACDC_TCP_ECE | ACDC_TCP_CWR)));
    acdc_put16(tcp + 18, 0);        /* Urgent pointer. */

    ip = acdc_pkt_ip(&fack);
    if (fack.ip_version == 4) {
        acdc_put16(ip + 2, (uint16_t) (fack.len - fack.l3_ofs));
        acdc_put16(ip + 10, 0);
        acdc_store16(ip + 10, (uint16_t) ~csum_bytes(
                         ip, fack.l4_ofs - (unsigned int) fack.l3_ofs));
    } else {
        acdc_put16(ip + 4, (uint16_t) (fack.len - fack.l3_ofs
                                       - ACDC_IP6_HLEN));
    }
    acdc_pkt_set_ecn(&fack, ecn);
    acdc_put16(tcp + 16, 0);
    acdc_put16(tcp + 16,
               (uint16_t) ~acdc_csum_fold(
                   csum_add_bytes(csum_pseudo(&fack, hlen), tcp, hlen)));
    return true;
}

void
acdc_pkt_cut(const struct acdc_pkt *p, uint8_t *data, uint32_t from, uint32_t len)
{
    uint8_t *ip = data + p->l3_ofs, *tcp = data + p->l4_ofs;
    uint32_t less = p->payload - len;
    uint16_t change = (uint16_t) ~less;         /* Ones' complement. */

    if (!less) {
        return;
    }
    if (p->ip_version == 4) {
        acdc_put16(ip + 2, (uint16_t) (acdc_get16(ip + 2) - less));
        acdc_csum_apply(ip + 10, ACDC_BE16(change));
    } else {
        acdc_put16(ip + 4, (uint16_t) (acdc_get16(ip + 4) - less));
    }
    acdc_put32(tcp + 4, p->seq + from);
    if (from) {
        tcp[12] &= (uint8_t) ~ACDC_RES_FACK;
        tcp[13] &= (uint8_t) ~ACDC_TCP_CWR;
    }
    if (from + len < p->payload) {
        tcp[13] &= (uint8_t) ~(ACDC_TCP_FIN | ACDC_TCP_PSH);
    }
    /* The sum of the pseudo header, as it is partial. */
    acdc_store16(tcp + 16, acdc_csum_fold((uint32_t) acdc_load16(tcp + 16)
                                          + ACDC_BE16(change)));
}

uint32_t
acdc_pkt_payload(const struct acdc_pkt *p)
{
    return p->payload;
}
