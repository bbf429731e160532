/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Reading and editing packets: what is not understood (DESIGN section 7,
 * rule 1), and every edit of random packets against full computation of the
 * checksums. */

#include "host.h"
#include "tap.h"

static uint64_t seed;

static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (tap_random(&seed) % n);
}

static struct tcp_spec
random_spec(void)
{
    struct tcp_spec s = { 0 };
    unsigned int i;

    s.v6 = rnd(2);
    s.vlans = rnd(3);
    s.ip_opts = rnd(4) ? 0 : 8 * (1 + rnd(4));
    for (i = 0; i < 16; i++) {
        s.src[i] = (uint8_t) rnd(256);
        s.dst[i] = (uint8_t) rnd(256);
    }
    s.sport = (uint16_t) rnd(65536);
    s.dport = (uint16_t) rnd(65536);
    s.seq = (uint32_t) tap_random(&seed);
    s.ack = (uint32_t) tap_random(&seed);
    s.flags = ACDC_TCP_ACK | (rnd(2) ? ACDC_TCP_PSH : 0);
    s.reserved = (uint8_t) rnd(16);
    s.window = (uint16_t) rnd(65536);
    s.ecn = (uint8_t) rnd(4);
    s.payload = rnd(3) ? rnd(200) : 0;
    s.padding = rnd(3) ? 0 : rnd(20);
    s.csum_partial = !rnd(4);
    s.bad_csum = !rnd(4);
    s.headroom = rnd(2) ? rnd(40) : 0;
    while (rnd(4) && s.opts_len < 24) {
        switch (rnd(8)) {
        case 0: opt_nop(&s, 1 + rnd(3)); break;
        case 1: opt_mss(&s, (uint16_t) rnd(65536)); break;
        case 2: opt_wscale(&s, (uint8_t) rnd(256)); break;
        case 3: opt_timestamp(&s, s.seq, s.ack); break;
        case 4: opt_capability(&s, ACDC_OPT_EXID); break;
        case 5: opt_feedback(&s, ACDC_OPT_EXID, s.ack, s.seq); break;
        case 6: opt_feedback(&s, 0x1234, 1, 2); break;
        case 7: opt_raw(&s, "\xfd\x05\xac\xdc\x07", 5); break;
        }
    }
    return s;
}

/* Whether the checksums of 'p' are as wrong or right as they were: 'error' is
 * what was wrong with the TCP sum before. */
static bool
as_right(const struct packet *p, const struct tcp_spec *s, uint16_t error)
{
    if (!s->bad_csum) {
        return packet_csum_ok(p);
    }
    return p->csum_partial || packet_tcp_sum(p) == error;
}

enum edit {
    SET_ECN, SET_RESERVED, SET_WINDOW, SET_WSCALE, ADD_CAPABILITY,
    ADD_FEEDBACK, STRIP, DRESS, UNDRESS, DRESS_ACK, UNDRESS_ACK, N_EDITS
};
static const char *const edit_names[] = {
    "set_ecn", "set_reserved", "set_window", "set_wscale", "add_capability",
    "add_feedback", "strip", "dress", "undress", "dress_ack", "undress_ack",
};

/* A packet with ECN codepoint, reserved bits and window as in the lowest bits
 * of 'ecn', 'reserved' and 'window'. */
static bool
looks(const struct acdc_pkt *pkt, uint32_t ecn, uint32_t reserved,
      uint32_t window)
{
    return acdc_pkt_ecn(pkt) == (ecn & 3)
           && acdc_pkt_reserved(pkt) == (reserved & ACDC_RES_MASK)
           && acdc_pkt_window(pkt) == (uint16_t) window;
}

static bool
add_feedback(struct acdc_pkt *pkt, uint32_t ce, uint32_t total)
{
    struct tcp_spec s = { .opts_len = 0 };

    opt_feedback(&s, ACDC_OPT_EXID, ce, total);
    return acdc_pkt_add_option(pkt, s.opts, s.opts_len);
}

static bool
has_feedback(const struct acdc_pkt *pkt, uint32_t ce, uint32_t total)
{
    uint32_t a, b;

    if (!(pkt->opt_flags & ACDC_O_FEEDBACK)) {
        return false;
    }
    acdc_pkt_get_feedback(pkt, &a, &b);
    return a == ce && b == total;
}

static unsigned int n_cut;

/* One edit.  Returns whether it did what it should. */
static bool
edit(struct acdc_pkt *pkt, enum edit e)
{
    uint32_t a = (uint32_t) tap_random(&seed);
    uint32_t b = (uint32_t) tap_random(&seed);
    uint16_t window = acdc_pkt_window(pkt);
    uint8_t ae = acdc_pkt_tcp(pkt)[12] & 1;

    switch (e) {
    case SET_ECN:
        acdc_pkt_set_ecn(pkt, a & 3);
        return acdc_pkt_ecn(pkt) == (a & 3);
    case SET_RESERVED:
        acdc_pkt_set_reserved(pkt, a & ACDC_RES_MASK);
        return acdc_pkt_reserved(pkt) == (a & ACDC_RES_MASK)
               && (acdc_pkt_tcp(pkt)[12] & 1) == ae;
    case SET_WINDOW:
        acdc_pkt_set_window(pkt, (uint16_t) a);
        return acdc_pkt_window(pkt) == (uint16_t) a;
    case SET_WSCALE:
        if (pkt->opt_flags & ACDC_O_WSCALE) {
            acdc_pkt_set_wscale(pkt, a & 15);
            return acdc_pkt_tcp(pkt)[pkt->ws_ofs] == (a & 15);
        }
        return true;
    case ADD_CAPABILITY:
        if (acdc_pkt_room(pkt) < ACDC_OPT_CAP_LEN) {
            return !acdc_pkt_add_capability(pkt, ACDC_OPT_EXID, 0, 0);
        }
        return acdc_pkt_add_capability(pkt, ACDC_OPT_EXID, a & 0xff, 0)
               && acdc_pkt_parse(pkt, ACDC_OPT_EXID)
               && (pkt->opt_flags & ACDC_O_CAPABILITY)
               && pkt->cap_ofs == ACDC_TCP_HLEN
               && acdc_pkt_tcp(pkt)[pkt->cap_ofs + 5] == (a & 0xff);
    case ADD_FEEDBACK:
        if (acdc_pkt_room(pkt) < ACDC_OPT_FB_LEN) {
            return !add_feedback(pkt, a, b);
        }
        return add_feedback(pkt, a, b)
               && acdc_pkt_parse(pkt, ACDC_OPT_EXID)
               && has_feedback(pkt, a, b);
    case STRIP:
        return acdc_pkt_strip(pkt, ACDC_OPT_EXID)
               && acdc_pkt_parse(pkt, ACDC_OPT_EXID)
               && !(pkt->opt_flags & (ACDC_O_CAPABILITY | ACDC_O_FEEDBACK
                                      | ACDC_O_OTHER));
    case DRESS:
        /* Marked data stays so. */
        b = (b & ~(uint32_t) ACDC_RES_FACK) | (acdc_pkt_reserved(pkt) & ACDC_RES_FACK);
        acdc_pkt_dress(pkt, a & 3, b & ACDC_RES_ECN_MASK);
        return looks(pkt, a, b, window)
               && (acdc_pkt_tcp(pkt)[12] & 1) == ae;
    case UNDRESS:
        acdc_pkt_undress(pkt, a & 3, (uint16_t) b);
        return looks(pkt, a, 0, b) && (acdc_pkt_tcp(pkt)[12] & 1) == ae;
    case DRESS_ACK:
        if (acdc_pkt_room(pkt) < ACDC_OPT_FB_LEN) {
            return !acdc_pkt_dress_ack(pkt, ACDC_OPT_EXID, a, b, 0, 0);
        }
        return acdc_pkt_dress_ack(pkt, ACDC_OPT_EXID, a, b, a & 3,
                                  b & ACDC_RES_MASK)
               && pkt->tcp_hlen == (acdc_pkt_tcp(pkt)[12] >> 4) * 4
               && acdc_pkt_parse(pkt, ACDC_OPT_EXID)
               && has_feedback(pkt, a, b) && looks(pkt, a, b, window)
               && (acdc_pkt_tcp(pkt)[12] & 1) == ae;
    case UNDRESS_ACK:
        /* Only of what has feedback in front, and nothing else of ours. */
        acdc_pkt_strip(pkt, ACDC_OPT_EXID);
        if (acdc_pkt_room(pkt) < ACDC_OPT_FB_LEN) {
            return true;
        }
        add_feedback(pkt, a, b);
        acdc_pkt_parse(pkt, ACDC_OPT_EXID);
        if (!(pkt->opt_flags & ACDC_O_PLACES)
            && acdc_pkt_undress_ack(pkt, a & 3, (uint16_t) b)) {
            n_cut++;
        } else {
            acdc_pkt_undress_any(pkt, ACDC_OPT_EXID, a & 3, (uint16_t) b);
        }
        return pkt->tcp_hlen == (acdc_pkt_tcp(pkt)[12] >> 4) * 4
               && acdc_pkt_parse(pkt, ACDC_OPT_EXID)
               && !(pkt->opt_flags & ACDC_O_OURS) && looks(pkt, a, 0, b)
               && (acdc_pkt_tcp(pkt)[12] & 1) == ae;
    default:
        return false;
    }
}

static void
test_edits(void)
{
    enum { N = 40000 };
    unsigned int done[N_EDITS] = { 0 };
    unsigned int failed_pull = 0;
    int i;

    for (i = 0; i < N; i++) {
        struct tcp_spec s = random_spec();
        struct packet *p = packet_make(&s);
        struct packet *other = NULL;
        struct acdc_pkt pkt;
        unsigned int n = 1 + rnd(5);
        uint16_t error = 0;
        bool pass = true;
        enum edit e = 0;

        if (!rnd(4)) {
            /* Shared with a clone, which must not change. */
            other = packet_clone(p);
            p->shared = true;
        }
        acdc_pkt_init(&pkt, packet_data(p), p->len, p->len);
        pkt.host = p;
        pkt.csum_partial = p->csum_partial;
        if (!acdc_pkt_parse(&pkt, ACDC_OPT_EXID)) {
            ok(false, "random packet %d is understood", i);
            packet_free(p);
            packet_free(other);
            break;
        }
        error = packet_tcp_sum(p);
        {
            uint8_t *old = p->buf;
            bool shared = p->shared;

            pass = acdc_pkt_make_writable(&pkt);
            while (n-- && pass) {
                e = rnd(N_EDITS);
                if ((e == STRIP || e == UNDRESS_ACK) && !rnd(8)) {
                    host_fail(HOST_PULL, 1, -1);
                    failed_pull++;
                }
                pass = edit(&pkt, e);
                host_fail(HOST_PULL, 0, 0);
                pass = pass && pkt.data == packet_data(p)
                       && pkt.len == p->len && as_right(p, &s, error)
                       && packet_payload_ok(p);
                done[e]++;
            }
            if (s.padding && packet_data(p)[p->len - 1] != 0xee) {
                pass = false;
            }
            if (shared) {
                pass &= !memcmp(old + s.headroom, packet_data(other),
                                other->len);
                free(old);
            }
        }
        packet_free(p);
        packet_free(other);
        if (!pass) {
            ok(false, "random packet %d: %s", i, edit_names[e]);
            break;
        }
    }
    ok(i == N, "%d random packets", i);
    for (unsigned int e = 0; e < N_EDITS; e++) {
        ok(done[e] > N / 10, "%s: %u times", edit_names[e], done[e]);
    }
    ok(n_cut > 100, "undress_ack: %u times at once", n_cut);
    ok(failed_pull > 100, "%u times without acdc_host_pull()", failed_pull);
}

/* An insertion that fails leaves the packet as it is. */
static void
test_no_memory(void)
{
    struct tcp_spec s = { .flags = ACDC_TCP_ACK, .payload = 10 };
    struct packet *p, *same;
    struct acdc_pkt pkt;

    opt_capability(&s, ACDC_OPT_EXID);
    p = packet_make(&s);
    same = packet_clone(p);
    packet_parse(p, &pkt);
    pkt.host = p;
    host_fail(HOST_PUSH, 1, -1);
    ok(!add_feedback(&pkt, 1, 2), "no feedback without memory");
    ok(!acdc_pkt_dress_ack(&pkt, ACDC_OPT_EXID, 1, 2, ACDC_ECN_ECT0,
                           ACDC_RES_MASK), "nor on an ACK");
    host_fail(HOST_PUSH, 0, 0);
    ok(packet_same(p, same), "and nothing changed");
    host_fail(HOST_WRITABLE, 1, -1);
    ok(!acdc_pkt_make_writable(&pkt) && !acdc_pkt_strip(&pkt, ACDC_OPT_EXID),
       "not writable: not stripped");
    host_fail(HOST_WRITABLE, 0, 0);
    ok(packet_same(p, same) && !pkt.edited, "and nothing changed");

    packet_parse(p, &pkt);
    pkt.host = p;
    pkt.writable = ACDC_W_NO;
    ok(!acdc_pkt_strip(&pkt, ACDC_OPT_EXID) && packet_same(p, same),
       "said not to be writable: not stripped");
    pkt.writable = ACDC_W_YES;
    host_fail(HOST_WRITABLE, 1, -1);
    ok(acdc_pkt_strip(&pkt, ACDC_OPT_EXID) && !packet_same(p, same),
       "said to be writable: the host is not asked");
    host_fail(HOST_WRITABLE, 0, 0);
    packet_free(p);
    packet_free(same);
}

/* What the parser says of a packet with 'n' bytes at 'ofs' of the IP or TCP
 * header replaced; -1 if it understands it. */
static int
reason(struct packet *p, uint32_t linear)
{
    struct acdc_pkt pkt;
    /* A copy of just what is linear, so that ASan sees what is read. */
    uint8_t *copy = malloc(linear ? linear : p->len);
    int r;

    memcpy(copy, packet_data(p), linear ? linear : p->len);
    acdc_pkt_init(&pkt, copy, p->len, linear ? linear : p->len);
    pkt.l3_ofs = p->l3_ofs;
    pkt.ethertype = p->ethertype;
    r = acdc_pkt_parse(&pkt, ACDC_OPT_EXID) ? -1 : pkt.reason;
    if (r >= 0 && pkt.ip_version) {
        r = -2;
    }
    free(copy);
    return r;
}

/* However little of 'p' is linear, the parser gets what it needs, and no more
 * than headers.  Without memory it says that. */
static void
test_linear(struct packet *p, unsigned int i)
{
    uint32_t need = p->len - 5;
    bool pass = true, fail = true;
    struct acdc_pkt pkt;
    uint32_t len;

    for (len = 1; len < need; len++) {
        p->linear = len;
        acdc_pkt_init(&pkt, packet_data(p), p->len, len);
        pkt.host = p;
        pass &= acdc_pkt_parse(&pkt, ACDC_OPT_EXID) && p->linear == need;
        host_fail(HOST_LINEAR, 1, -1);
        acdc_pkt_init(&pkt, packet_data(p), p->len, len);
        pkt.host = p;
        fail &= !acdc_pkt_parse(&pkt, ACDC_OPT_EXID)
                && pkt.reason == ACDC_C_UNTOUCHED_MEMORY;
        host_fail(HOST_LINEAR, 0, 0);
    }
    p->linear = 0;
    ok(pass, "the host is asked for headers (%u)", i);
    ok(fail, "and has no memory (%u)", i);
}

static void
test_untouched(void)
{
    static const struct {
        const char *name;
        bool v6;
        bool tcp;               /* 'ofs' from the TCP header, else from IP. */
        unsigned int ofs, n;
        const char *bytes;
        int reason;
    } cases[] = {
        { "IPv4", 0, 0, 0, 0, "", -1 },
        { "IPv6", 1, 0, 0, 0, "", -1 },
        { "UDP", 0, 0, 9, 1, "\x11", ACDC_C_UNTOUCHED_NOT_TCP },
        { "ESP", 0, 0, 9, 1, "\x32", ACDC_C_UNTOUCHED_IPSEC },
        { "AH", 0, 0, 9, 1, "\x33", ACDC_C_UNTOUCHED_IPSEC },
        { "UDP over IPv6", 1, 0, 6, 1, "\x11", ACDC_C_UNTOUCHED_NOT_TCP },
        { "ICMPv6", 1, 0, 6, 1, "\x3a", ACDC_C_UNTOUCHED_NOT_TCP },
        { "ESP over IPv6", 1, 0, 6, 1, "\x32", ACDC_C_UNTOUCHED_IPSEC },
        { "AH over IPv6", 1, 0, 6, 1, "\x33", ACDC_C_UNTOUCHED_IPSEC },
        { "fragment header", 1, 0, 6, 1, "\x2c", ACDC_C_UNTOUCHED_FRAGMENT },
        { "more fragments", 0, 0, 6, 2, "\x20\0", ACDC_C_UNTOUCHED_FRAGMENT },
        { "last fragment", 0, 0, 6, 2, "\0\x01", ACDC_C_UNTOUCHED_FRAGMENT },
        { "IP version 5", 0, 0, 0, 1, "\x55", ACDC_C_UNTOUCHED_LENGTH },
        { "IHL 4", 0, 0, 0, 1, "\x44", ACDC_C_UNTOUCHED_LENGTH },
        { "IHL beyond the packet", 0, 0, 0, 1, "\x4f",
          ACDC_C_UNTOUCHED_LENGTH },
        { "IP length 0", 0, 0, 2, 2, "\0\0", ACDC_C_UNTOUCHED_LENGTH },
        { "IP length beyond the packet", 0, 0, 2, 2, "\0\xff",
          ACDC_C_UNTOUCHED_LENGTH },
        { "IP length too short for TCP", 0, 0, 2, 2, "\0\x27",
          ACDC_C_UNTOUCHED_LENGTH },
        { "IPv6 length beyond the packet", 1, 0, 4, 2, "\0\xff",
          ACDC_C_UNTOUCHED_LENGTH },
        { "IPv6 length too short for TCP", 1, 0, 4, 2, "\0\x13",
          ACDC_C_UNTOUCHED_LENGTH },
        { "IPv6 of version 5", 1, 0, 0, 1, "\x50", ACDC_C_UNTOUCHED_LENGTH },
        { "data offset 4 over IPv6", 1, 1, 12, 1, "\x40",
          ACDC_C_UNTOUCHED_LENGTH },
        { "jumbogram", 1, 0, 4, 2, "\0\0", ACDC_C_UNTOUCHED_LENGTH },
        { "data offset 4", 0, 1, 12, 1, "\x40", ACDC_C_UNTOUCHED_LENGTH },
        { "data offset beyond the packet", 0, 1, 12, 1, "\xf0",
          ACDC_C_UNTOUCHED_LENGTH },
        { "no flags", 0, 1, 13, 1, "\0", ACDC_C_UNTOUCHED_FLAGS },
        { "SYN and FIN", 0, 1, 13, 1, "\x03", ACDC_C_UNTOUCHED_FLAGS },
        { "SYN and RST", 0, 1, 13, 1, "\x06", ACDC_C_UNTOUCHED_FLAGS },
        { "FIN and RST", 0, 1, 13, 1, "\x15", ACDC_C_UNTOUCHED_FLAGS },
        { "all flags", 0, 1, 13, 1, "\xff", ACDC_C_UNTOUCHED_FLAGS },
        { "FIN without ACK", 0, 1, 13, 1, "\x01", ACDC_C_UNTOUCHED_FLAGS },
        { "RST without ACK", 0, 1, 13, 1, "\x04", -1 },
        { "SYN", 0, 1, 13, 1, "\x02", -1 },
        { "TCP-MD5", 0, 1, 20, 12, "\x13\x0c\0\0\0\0\0\0\0\0\0\0",
          ACDC_C_UNTOUCHED_SIGNED },
        { "TCP-AO", 1, 1, 20, 12, "\x1d\x0c\0\0\0\0\0\0\0\0\0\0",
          ACDC_C_UNTOUCHED_SIGNED },
        { "option length 0", 0, 1, 20, 2, "\x08\0",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "option length 1", 0, 1, 20, 2, "\xfe\1",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "option beyond the header", 0, 1, 20, 2, "\xfe\x0d",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "option cut off", 0, 1, 20, 12, "\1\1\1\1\1\1\1\1\1\1\1\2",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "MSS of 3 bytes", 0, 1, 20, 3, "\2\3\0", ACDC_C_UNTOUCHED_OPTIONS },
        { "window scale of 4", 0, 1, 20, 4, "\3\4\0\0",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "SACK permitted of 3", 0, 1, 20, 3, "\4\3\0",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "SACK of 9", 0, 1, 20, 9, "\5\x09\0\0\0\0\0\0\0",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "timestamps of 11", 0, 1, 20, 11, "\x08\x0b\0\0\0\0\0\0\0\0\0",
          ACDC_C_UNTOUCHED_OPTIONS },
        { "nonsense behind end of list", 0, 1, 20, 12,
          "\0\x13\x02\2\2\2\2\2\2\2\2\2", -1 },
        { "unknown option", 0, 1, 20, 4, "\xfe\4\0\0", -1 },
    };
    unsigned int i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tcp_spec s = { .v6 = cases[i].v6, .flags = ACDC_TCP_ACK,
                              .payload = 8 };
        struct packet *p;
        unsigned int ip = ACDC_ETH_HLEN;
        unsigned int tcp = ip + (s.v6 ? ACDC_IP6_HLEN : ACDC_IP4_HLEN);

        opt_nop(&s, 12);
        p = packet_make(&s);
        memcpy(packet_data(p) + (cases[i].tcp ? tcp : ip) + cases[i].ofs,
               cases[i].bytes, cases[i].n);
        is_u64((uint64_t) reason(p, 0), (uint64_t) cases[i].reason, "%s",
               cases[i].name);
        packet_free(p);
    }

    /* Cut off anywhere: of any length, or with only that much linear. */
    for (i = 0; i < 10; i++) {
        struct tcp_spec s = { .v6 = i & 1, .flags = ACDC_TCP_ACK,
                              .payload = 5, .ip_opts = i < 4 ? 8 : 0 };
        uint32_t need, len;
        struct packet *p;
        bool pass = true;

        s.vlans = i % 3;
        opt_timestamp(&s, 1, 2);
        p = packet_make(&s);
        need = p->len - 5;
        for (len = 1; len <= p->len; len++) {
            pass &= (reason(p, len) == -1) == (len >= need);
        }
        ok(pass, "headers must be linear (%u)", i);
        len = p->len;
        for (p->len--; p->len; p->len--) {
            pass &= reason(p, 0) >= 0;
        }
        p->len = len;
        ok(pass, "cut off (%u)", i);
        test_linear(p, i);
        packet_free(p);
    }
    {
        struct tcp_spec s = { .flags = ACDC_TCP_ACK };
        struct packet *p = packet_make(&s);

        acdc_put16(packet_data(p) + 12, 0x0806);
        is_u64((uint64_t) reason(p, 0), ACDC_C_UNTOUCHED_NOT_TCP, "ARP");
        p->l3_ofs = ACDC_ETH_HLEN;
        p->ethertype = ACDC_ETHERTYPE_IP4;
        is_u64((uint64_t) reason(p, 0), (uint64_t) -1,
               "the host says where IP begins");
        packet_free(p);
    }
}

/* An ACK with 'ext' bytes of extension headers, a multiple of 8. */
static struct packet *
make_extended(uint32_t ext)
{
    struct packet *p = packet_new(54 + ext + 20, 64);
    uint8_t *ip = packet_data(p) + 14;
    uint32_t ofs;

    memset(packet_data(p), 0, p->len);
    acdc_put16(ip - 2, ACDC_ETHERTYPE_IP6);
    ip[0] = 0x60;
    acdc_put16(ip + 4, (uint16_t) (ext + 20));
    ip[6] = ACDC_IPPROTO_DSTOPTS;
    for (ofs = 40; ofs < 40 + ext; ofs += 2048) {
        uint32_t n = 40 + ext - ofs < 2048 ? 40 + ext - ofs : 2048;

        ip[ofs] = ofs + n == 40 + ext ? ACDC_IPPROTO_TCP
                                      : ACDC_IPPROTO_DSTOPTS;
        ip[ofs + 1] = (uint8_t) (n / 8 - 1);
    }
    ip[40 + ext + 12] = 0x50;
    ip[40 + ext + 13] = ACDC_TCP_ACK;
    return p;
}

static void
test_64k(void)
{
    struct packet *p = make_extended(65528 - 40);
    struct packet *same;
    struct acdc_pkt pkt;
    unsigned int i;

    is_u64((uint64_t) reason(p, 0), ACDC_C_UNTOUCHED_LENGTH,
           "64 KB of extension headers: the offset of TCP does not fit");
    packet_free(p);

    for (i = 0; i < 2; i++) {
        /* An option more, and the IP packet has more than 65535 bytes, or not
         * yet. */
        bool fits = i;

        p = make_extended(fits ? 65456 : 65480);
        same = packet_clone(p);
        ok(packet_parse(p, &pkt), "almost 64 KB are understood");
        pkt.host = p;
        is_u64(acdc_pkt_dress_ack(&pkt, ACDC_OPT_EXID, 1, 2, 0, 0), fits,
               "feedback, if it fits");
        is_u64(packet_same(p, same), !fits, "else nothing changed");
        packet_free(p);
        packet_free(same);
    }
}

static void
test_sack(void)
{
    struct tcp_spec s = { .flags = ACDC_TCP_ACK };
    const uint32_t edges[] = { 0xfffffff0, 0x10, 0x30, 0x40, 0x80, 0x90 };
    struct packet *p;
    struct acdc_pkt pkt;

    opt_sack(&s, 3, edges);
    p = packet_make(&s);
    packet_parse(p, &pkt);
    is_u64(acdc_pkt_sack_edge(&pkt, 0xffffff00, 0x100), 0x90,
           "highest right edge, over the wrap");
    is_u64(acdc_pkt_sack_edge(&pkt, 0xffffff00, 0x50), 0x40,
           "not beyond what was sent");
    is_u64(acdc_pkt_sack_edge(&pkt, 0x200, 0x300), 0x200,
           "D-SACK of old data says nothing");
    packet_free(p);
}

int
main(void)
{
    seed = tap_seed();
    test_edits();
    test_no_memory();
    test_untouched();
    test_64k();
    test_sack();
    return tap_end();
}
