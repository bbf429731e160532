/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A guest alone, whose peer is honest, wants its connection to be forgotten or
 * followed wrongly, with police=true.  It sends what the peer does not get (a wrong
 * checksum, a short TTL) or only challenges.  Nothing of it counts. */

#include "sim.h"
#include "tap.h"

enum { MSS = 1460, SCALE = 7 };

static const struct acdc_params *
policing(void)
{
    static struct acdc_params params;

    params = acdc_params_default;
    params.police = true;
    return &params;
}

static void
begin(struct sim *s, bool v6)
{
    sim_init(s, policing(), NULL);
    s->v6 = v6;
    s->guest[0].wscale = s->guest[1].wscale = SCALE;
}

/* Passes engine 0, and nobody gets it. */
static unsigned int
hidden(struct sim *s, const struct tcp_spec *spec)
{
    struct packet *p = sim_egress(s, 0, packet_make(spec));
    unsigned int n = packet_count(p);

    packet_free_list(p);
    return n;
}

/* A packet of the guest, its number 'ahead' of where it is. */
static struct tcp_spec
of_guest(const struct sim *s, uint8_t flags, uint32_t ahead, uint32_t payload)
{
    struct tcp_spec spec = sim_spec(s, 0, flags, payload);

    spec.seq += ahead;
    return spec;
}

static void
wait(struct sim *s, unsigned int seconds)
{
    for (; seconds; seconds--) {
        s->now += 1000 * SIM_MS;
        acdc_sweep(s->acdc[0], s->now, 1 << 20);
    }
}

/* Forty segments from guest 'from' reach the network in part only, the windows
 * that it is told are the law's, and nobody has the connection for another. */
static void
is_controlled(struct sim *s, int from, const char *after)
{
    unsigned int i, n = 0;
    struct packet *p;

    p = sim_ack(s, !from);
    ok((uint32_t) packet_window(p) << SCALE <= 11u * MSS,
       "after %s: window %u", after, (uint32_t) packet_window(p) << SCALE);
    packet_free_list(p);
    for (i = 0; i < 40; i++) {
        struct tcp_spec spec = sim_spec(s, from, ACDC_TCP_ACK, MSS);

        spec.seq += i * MSS;
        p = sim_egress(s, from, packet_make(&spec));
        n += packet_count(p);
        packet_free_list(p);
    }
    ok(n >= 9 && n <= 12, "%u of 40 segments pass", n);
    is_u64(sim_n_flows(s, from), 1, "one flow");
}

/* Of a live connection. */
static void
test_ends(bool v6)
{
    static const struct {
        const char *what;
        uint8_t flags;
        uint32_t ahead;
        bool bad_csum;
        bool challenged;
        unsigned int seconds;
        bool second;            /* A half-open flow, which goes. */
    } ends[] = {
        { "a SYN-ACK", ACDC_TCP_SYN | ACDC_TCP_ACK, 1 << 20, .challenged = true },
        { "a corrupt SYN-ACK", ACDC_TCP_SYN | ACDC_TCP_ACK, 1 << 20,
          .bad_csum = true },
        { "a SYN-ACK and silence", ACDC_TCP_SYN | ACDC_TCP_ACK, 1 << 20,
          .bad_csum = true, .seconds = 90 },
        { "a corrupt RST", ACDC_TCP_RST, 0, .bad_csum = true, .seconds = 11 },
        { "a lost RST", ACDC_TCP_RST | ACDC_TCP_ACK, 0, .seconds = 90 },
        { "a corrupt FIN", ACDC_TCP_FIN | ACDC_TCP_ACK, 0, .bad_csum = true,
          .seconds = 90 },
        { "a SYN", ACDC_TCP_SYN, 1 << 20, .challenged = true, .seconds = 90,
          .second = true },
        { "a corrupt SYN", ACDC_TCP_SYN, 1 << 20, .bad_csum = true,
          .seconds = 90, .second = true },
    };
    unsigned int i;

    for (i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct tcp_spec spec;
        struct sim s;

        begin(&s, v6);
        sim_connect(&s);
        spec = of_guest(&s, ends[i].flags, ends[i].ahead, 0);
        spec.bad_csum = ends[i].bad_csum;
        is_u64(hidden(&s, &spec), 1, "%s passes", ends[i].what);
        is_u64(sim_n_flows(&s, 0), 1u + ends[i].second, "and ends nothing");
        if (ends[i].challenged) {
            packet_free_list(sim_ack(&s, 1));
        }
        wait(&s, ends[i].seconds);
        is_controlled(&s, 0, ends[i].what);
        sim_done(&s);
    }
}

/* A peer that has closed its half, and a FIN that it does not get or drops as too old.
 * Data before, in or behind its place the peer acknowledges, then the guest sends a SYN
 * or nothing. */
static void
test_half_closed(bool v6)
{
    static const struct {
        const char *what;
        uint32_t before, fin, data, payload;    /* Where, and how much there. */
        bool syn;
    } ends[] = {
        { "a FIN that the peer did not get", 0, 0, 0, 0, false },
        { "a byte in its place", 0, 0, 0, 1, true },
        { "data in its place", 0, 0, 0, 3, true },
        { "a byte behind it, and one in its place", 1, 0, 0, 1, true },
        { "data up to a far FIN", 0, 100, 0, 101, true },
        { "data sent before a FIN in its place", 100, 99, 0, 0, true },
        { "silence", 0, 0, 0, 1, false },
    };
    unsigned int i;

    for (i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct tcp_spec spec;
        uint32_t acked;
        struct sim s;

        begin(&s, v6);
        sim_connect(&s);
        spec = sim_spec(&s, 1, ACDC_TCP_FIN | ACDC_TCP_ACK, 0);
        packet_free_list(sim_send(&s, 1, &spec));
        s.guest[1].snd_nxt++;
        s.guest[0].rcv_nxt++;
        spec = of_guest(&s, ACDC_TCP_FIN | ACDC_TCP_ACK, ends[i].fin, 0);
        if (ends[i].before == 1) {
            hidden(&s, &spec);
            spec = of_guest(&s, ACDC_TCP_ACK, 1, 1);
        } else if (ends[i].before) {
            struct tcp_spec data = of_guest(&s, ACDC_TCP_ACK, 0, ends[i].before);

            packet_free_list(sim_send(&s, 0, &data));
        }
        hidden(&s, &spec);
        if (ends[i].payload) {
            spec = of_guest(&s, ACDC_TCP_ACK, ends[i].data, ends[i].payload);
            packet_free_list(sim_send(&s, 0, &spec));
        } else {
            spec = of_guest(&s, ACDC_TCP_ACK, 1, 0);
            hidden(&s, &spec);
        }
        acked = ends[i].payload + ends[i].before;
        s.guest[0].snd_nxt += acked;
        s.guest[1].rcv_nxt += acked;
        packet_free_list(sim_ack(&s, 1));
        if (ends[i].syn) {
            spec = of_guest(&s, ACDC_TCP_SYN, 1 << 20, 0);
            hidden(&s, &spec);
        }
        wait(&s, ends[i].syn ? 1 : 20);
        packet_free_list(sim_ack(&s, 1));
        wait(&s, ends[i].syn ? 90 : 0);
        is_controlled(&s, 0, ends[i].what);
        sim_done(&s);
    }
}

/* A guest that connects, and behind the SYN that the peer gets hides one of another
 * number, or one without a window scale: the window told would be taken for 128
 * times as much. */
static void
test_two_syns(bool v6, int ahead)
{
    struct tcp_spec spec;
    struct sim s;

    begin(&s, v6);
    sim_syn(&s);
    spec = of_guest(&s, ACDC_TCP_SYN, (uint32_t) ahead, 0);
    spec.bad_csum = true;
    opt_mss(&spec, MSS);
    hidden(&s, &spec);
    if (ahead > 0 || ahead < -UINT16_MAX) {
        struct packet *p;

        spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
        opt_mss(&spec, MSS);
        opt_wscale(&spec, SCALE);
        p = sim_send(&s, 1, &spec);
        ok(!p, "a SYN-ACK of another SYN than the last is refused");
        packet_free_list(p);
        is_u64(sim_counter(&s, 0, ACDC_C_SYNACK_REFUSED), 1, "and counted");
    } else {
        sim_synack(&s);
        s.guest[0].snd_nxt++;
        s.guest[1].snd_nxt++;
        packet_free_list(sim_ack(&s, 0));
        is_controlled(&s, 0, "a SYN without scale");
    }
    sim_done(&s);
}

/* The same of one that listens, guest 0 of a connection from guest 1. */
static void
test_two_synacks(bool v6, uint32_t ahead, bool hidden_first)
{
    const uint8_t flags = ACDC_TCP_SYN | ACDC_TCP_ACK;
    struct tcp_spec spec, hide;
    struct sim s;

    begin(&s, v6);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN, 0);
    opt_mss(&spec, MSS);
    opt_wscale(&spec, SCALE);
    packet_free_list(sim_send(&s, 1, &spec));
    s.guest[1].snd_nxt++;
    s.guest[0].rcv_nxt = s.guest[1].snd_nxt;

    hide = of_guest(&s, flags, ahead, 0);
    hide.bad_csum = true;
    opt_mss(&hide, MSS);
    if (hidden_first) {
        hidden(&s, &hide);
    }
    spec = of_guest(&s, flags, 0, 0);
    opt_mss(&spec, MSS);
    opt_wscale(&spec, SCALE);
    packet_free_list(sim_send(&s, 0, &spec));
    if (!hidden_first) {
        hidden(&s, &hide);
    }
    s.guest[0].snd_nxt++;
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    if (ahead && !hidden_first) {
        /* What the peer takes is before all that the engine knows of. */
        spec = of_guest(&s, ACDC_TCP_ACK, 0, MSS);
        is_u64(hidden(&s, &spec), 0, "data of another SYN-ACK is dropped");
        is_u64(sim_counter(&s, 0, ACDC_C_POLICED_PACKETS), 1, "and counted");
    } else {
        is_controlled(&s, 0, "two SYN-ACKs");
    }
    sim_done(&s);
}

/* A connection that the guest refuses, so it says, and accepts. */
static void
test_refusal(bool v6, unsigned int seconds)
{
    struct tcp_spec spec;
    struct sim s;

    begin(&s, v6);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN, 0);
    opt_mss(&spec, MSS);
    opt_wscale(&spec, SCALE);
    packet_free_list(sim_send(&s, 1, &spec));
    s.guest[1].snd_nxt++;
    s.guest[0].rcv_nxt = s.guest[1].snd_nxt;
    spec = of_guest(&s, ACDC_TCP_RST | ACDC_TCP_ACK, 0, 0);
    spec.seq = 0;
    hidden(&s, &spec);
    {
        struct acdc_stats st;

        acdc_stats_get(s.acdc[0], &st);
        is_u64(st.n_half_open, 0, "a refused connection has no quota");
    }
    wait(&s, seconds);
    spec = of_guest(&s, ACDC_TCP_SYN | ACDC_TCP_ACK, 0, 0);
    opt_mss(&spec, MSS);
    opt_wscale(&spec, SCALE);
    packet_free_list(sim_send(&s, 0, &spec));
    s.guest[0].snd_nxt++;
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    is_controlled(&s, 0, "a refusal");
    sim_done(&s);
}

/* A guest that was rebooted, and ports used again: the peer confirms the new
 * connection, in which the old one's window and counts are gone. */
static void
test_begins_anew(bool v6, bool reset)
{
    struct acdc_flow_info fi;
    struct sim s;
    int i;

    begin(&s, v6);
    sim_connect(&s);
    sim_data(&s, 0, MSS, true);
    packet_free_list(sim_ack(&s, 1));
    if (reset) {
        struct tcp_spec spec = of_guest(&s, ACDC_TCP_RST, 0, 0);

        packet_free_list(sim_send(&s, 0, &spec));
    }
    s.guest[0].snd_nxt += 1 << 28;
    s.guest[1].snd_nxt += 1 << 29;
    sim_connect(&s);
    for (i = 0; i < 2; i++) {
        is_u64(sim_n_flows(&s, i), 1, "one flow at %d", i);
        sim_info(&s, i, &fi);
        ok(fi.capable && fi.state == ACDC_FLOW_ESTABLISHED,
           "capable and established");
        is_u64(fi.rx_total + fi.fb_total, 0, "counts from nothing");
    }
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MIDSTREAM), 0, "followed");
    is_controlled(&s, 0, "a new beginning");
    sim_done(&s);
}

/* SYNs of an outsider, or of an old connection, to one that lives: they cost a place
 * of the quota at most. */
static void
test_foreign_syns(void)
{
    struct acdc_flow_info fi;
    unsigned int i;
    struct sim s;

    begin(&s, false);
    sim_connect(&s);
    for (i = 1; i < 100; i++) {
        struct tcp_spec spec = sim_spec(&s, 1, ACDC_TCP_SYN, 0);
        struct packet *p;

        spec.seq += i << 20;
        p = sim_ingress(&s, 0, packet_make(&spec));
        is_u64(packet_count(p), 1, "it passes");
        packet_free_list(p);
        packet_free_list(sim_ack(&s, 0));
    }
    is_u64(sim_n_flows(&s, 0), 2, "a second flow, and no third");
    sim_info(&s, 0, &fi);
    ok(fi.state == ACDC_FLOW_ESTABLISHED && fi.capable, "the first one lives");
    wait(&s, 90);
    is_controlled(&s, 0, "foreign SYNs");
    sim_done(&s);
}

/* SYNs with data (TCP Fast Open) cross, and the SYN-ACKs have none: what a lawful
 * guest sends and acknowledges then is not policed. */
static void
test_crossing_with_data(bool v6)
{
    struct packet *p[2];
    struct tcp_spec spec;
    unsigned int n;
    struct sim s;
    int i;

    begin(&s, v6);
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, i, ACDC_TCP_SYN, 400);
        opt_mss(&spec, MSS);
        opt_wscale(&spec, SCALE);
        p[i] = sim_egress(&s, i, packet_make(&spec));
    }
    for (i = 0; i < 2; i++) {
        packet_free_list(sim_ingress(&s, !i, p[i]));
        s.guest[!i].rcv_nxt = s.guest[i].snd_nxt + 401;
    }
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, i, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
        opt_mss(&spec, MSS);
        opt_wscale(&spec, SCALE);
        p[i] = sim_egress(&s, i, packet_make(&spec));
    }
    for (i = 0; i < 2; i++) {
        packet_free_list(sim_ingress(&s, !i, p[i]));
        s.guest[i].snd_nxt += 401;
    }
    for (n = 0; n < 5; n++) {
        for (i = 0; i < 2; i++) {
            struct packet *ack;

            sim_data(&s, i, 1000, false);
            ack = sim_ack(&s, !i);
            is_u64(packet_count(ack), 1, "the ACK of %d passes", !i);
            packet_free_list(ack);
        }
    }
    is_u64(sim_counter(&s, 0, ACDC_C_ACK_OPTIMISTIC)
           + sim_counter(&s, 0, ACDC_C_POLICED_PACKETS)
           + sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD)
           + sim_counter(&s, 1, ACDC_C_FEEDBACK_BAD), 0, "nothing is wrong");
    sim_done(&s);
}

/* What a server may send before the peer's first ACK (TCP Fast Open): the law's
 * initial window, which it reads in the SYN, sent again as well. */
static void
test_first_flight(uint32_t segments)
{
    struct acdc_params params = *policing();
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    unsigned int i, n = 0;

    params.initial_window = segments;
    sim_init(&s, &params, NULL);
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_SYN, 100);
        opt_mss(&spec, MSS);
        opt_wscale(&spec, SCALE);
        p = sim_send(&s, 1, &spec);
        ok(packet_csum_ok(p), "its checksum");
        is_u64(packet_window(p), segments * MSS, "the window of SYN %u", i);
        packet_free_list(p);
    }
    s.guest[1].snd_nxt += 101;
    s.guest[0].rcv_nxt = s.guest[1].snd_nxt;
    spec = sim_spec(&s, 0, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    opt_mss(&spec, MSS);
    opt_wscale(&spec, SCALE);
    packet_free_list(sim_send(&s, 0, &spec));
    s.guest[0].snd_nxt++;
    for (i = 0; i < 40; i++) {
        spec = of_guest(&s, ACDC_TCP_ACK, i * MSS, MSS);
        n += hidden(&s, &spec);
    }
    is_u64(n, segments + 1, "and what is policed");
    sim_done(&s);
}

/* A RST that the peer drops or only challenges (RFC 5961) arrives, for the peer's
 * vSwitch to forget the connection: with no more feedback the guest's falls back. */
static void
test_reset_of_report(bool v6)
{
    static const struct {
        const char *what;
        uint32_t ahead;
        bool bad_csum, challenged, syn;
        unsigned int seconds;
    } resets[] = {
        { "a RST and silence", 1000, .challenged = true, .seconds = 60 },
        { "an old RST and silence", (uint32_t) -1000, .seconds = 60 },
        { "a corrupt RST and silence", 0, .bad_csum = true, .seconds = 60 },
        { "a RST and a SYN", 1000, .syn = true },
    };
    unsigned int i, j;

    for (i = 0; i < sizeof resets / sizeof *resets; i++) {
        struct acdc_flow_info fi;
        struct tcp_spec spec;
        struct sim s;

        sim_init(&s, policing(), policing());
        s.v6 = v6;
        sim_connect(&s);
        spec = of_guest(&s, ACDC_TCP_RST, resets[i].ahead, 0);
        spec.bad_csum = resets[i].bad_csum;
        packet_free_list(sim_send(&s, 0, &spec));
        if (resets[i].syn) {
            spec = of_guest(&s, ACDC_TCP_SYN, 1 << 20, 0);
            packet_free_list(sim_send(&s, 0, &spec));
        }
        if (resets[i].challenged || resets[i].syn) {
            packet_free_list(sim_ack(&s, 1));
        }
        for (j = 0; j < resets[i].seconds; j++) {
            s.now += 1000 * SIM_MS;
            acdc_sweep(s.acdc[0], s.now, 1 << 20);
            acdc_sweep(s.acdc[1], s.now, 1 << 20);
        }
        sim_data(&s, 0, MSS, true);
        packet_free_list(sim_ack(&s, 1));
        sim_info(&s, 0, &fi);
        ok(fi.capable && fi.fb_total == MSS && fi.fb_ce == MSS,
           "after %s the peer's vSwitch reports", resets[i].what);
        sim_done(&s);
    }
}

/* The peer has closed its half.  A FIN that it drops, as corrupt or too old (PAWS, RFC
 * 7323 section 5), is not the end at its vSwitch either, nor with a RST that it only
 * challenges. */
static void
test_fin_of_report(bool v6, bool corrupt, bool reset)
{
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct sim s;
    unsigned int i;

    sim_init(&s, policing(), policing());
    s.v6 = v6;
    sim_connect(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_FIN | ACDC_TCP_ACK, 0);
    packet_free_list(sim_send(&s, 1, &spec));
    s.guest[1].snd_nxt++;
    s.guest[0].rcv_nxt++;
    packet_free_list(sim_ack(&s, 0));
    spec = of_guest(&s, ACDC_TCP_FIN | ACDC_TCP_ACK, 0, 0);
    spec.bad_csum = corrupt;
    packet_free_list(sim_send(&s, 0, &spec));
    if (reset) {
        spec = of_guest(&s, ACDC_TCP_RST, 1000, 0);
        packet_free_list(sim_send(&s, 0, &spec));
    }
    if (!corrupt) {
        packet_free_list(sim_ack(&s, 1));
        /* As if it were acknowledged. */
        spec = of_guest(&s, ACDC_TCP_ACK, 1, 0);
        packet_free_list(sim_send(&s, 0, &spec));
    }
    for (i = 0; i < 20; i++) {
        s.now += 1000 * SIM_MS;
        acdc_sweep(s.acdc[1], s.now, 1 << 20);
    }
    sim_data(&s, 0, MSS, true);
    packet_free_list(sim_ack(&s, 1));
    sim_info(&s, 0, &fi);
    ok(fi.capable && fi.fb_total == MSS && fi.fb_ce == MSS,
       "after a FIN that the peer dropped its vSwitch reports");
    sim_done(&s);
}

/* Bytes 'from' to 'to' of the TCP segment of 'spec', as a fragment of protocol 'next'. */
static struct packet *
fragment_of(const struct tcp_spec *spec, uint32_t from, uint32_t to, uint8_t next)
{
    struct packet *whole = packet_make(spec), *p;
    uint32_t headers = ACDC_ETH_HLEN + (spec->v6 ? ACDC_IP6_HLEN : ACDC_IP4_HLEN);
    uint8_t *ip;

    p = packet_new(headers + (spec->v6 ? 8 : 0) + to - from, 0);
    memcpy(packet_data(p), packet_data(whole), headers);
    memcpy(packet_data(p) + p->len - (to - from), packet_data(whole) + headers + from,
           to - from);
    packet_free(whole);
    ip = packet_data(p) + ACDC_ETH_HLEN;
    if (spec->v6) {
        acdc_put16(ip + 4, (uint16_t) (8 + to - from));
        ip[6] = ACDC_IPPROTO_FRAGMENT;
        ip[40] = next;
        acdc_put16(ip + 42, (uint16_t) (from | 1));
    } else {
        acdc_put16(ip + 2, (uint16_t) (ACDC_IP4_HLEN + to - from));
        acdc_put16(ip + 6, (uint16_t) (0x2000 | from / 8));
        ip[9] = next;
    }
    return p;
}

/* What somebody reassembles behind the engine has nothing of ours, either. */
static void
test_forged_in_fragments(bool v6, bool reassembles)
{
    enum { ENDS = 40, TCP = ACDC_IPPROTO_TCP, UDP = ACDC_IPPROTO_UDP,
           OPTIONS = ACDC_IPPROTO_DSTOPTS };
    static const struct {
        const char *what;
        uint32_t from, to;
        bool feedback, v6;
        uint8_t next, reserved, passes;         /* Not reassembled, and both. */
    } tries[] = {
        { "an honest one", 0, ENDS, false, false, TCP, 0, 2 },
        { "feedback", 0, ENDS, true, false, TCP, 0, 0 },
        { "the FACK bit", 0, ENDS, false, false, TCP, ACDC_RES_FACK, 0 },
        { "half of an option", 0, 24, true, false, TCP, 0, 1 },
        { "half of a header", 0, 16, false, false, TCP, 0, 1 },
        { "the rest of them", 24, ENDS, true, false, TCP, 0, 1 },
        { "what is behind any header", 64, 80, true, false, TCP, 0, 2 },
        { "UDP", 0, 16, false, false, UDP, 0, 2 },
        { "a header further on", 0, ENDS, true, true, OPTIONS, 0, 1 },
    };
    unsigned int i;
    struct sim s;

    begin(&s, v6);
    if (reassembles) {
        acdc_set_host(s.acdc[0], ACDC_HOST_REASSEMBLES);
    }
    sim_connect(&s);
    for (i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, 100);
        struct packet *p, *before;

        if (tries[i].v6 && !v6) {
            continue;
        }
        spec.reserved = tries[i].reserved;
        if (tries[i].feedback) {
            opt_feedback(&spec, ACDC_OPT_EXID, 0, 100000);
        } else {
            opt_nop(&spec, 12);
        }
        p = fragment_of(&spec, tries[i].from, tries[i].to, tries[i].next);
        before = packet_clone(p);
        p = sim_egress(&s, 0, p);
        ok(p ? tries[i].passes > reassembles && packet_same(p, before)
             : tries[i].passes <= reassembles,
           "IPv%d, a fragment with %s %s", v6 ? 6 : 4, tries[i].what,
           p ? "passes" : "does not");
        packet_free(before);
        packet_free_list(p);
    }
    sim_done(&s);
}

int
main(void)
{
    int v6, i;

    for (v6 = 0; v6 < 2; v6++) {
        test_ends(v6);
        test_two_syns(v6, 1 << 20);
        test_two_syns(v6, 0);
        test_two_syns(v6, -1000);
        test_two_syns(v6, -UINT16_MAX);
        test_two_syns(v6, -UINT16_MAX - 1);
        test_two_synacks(v6, 0, false);
        test_two_synacks(v6, 0, true);
        test_two_synacks(v6, 1 << 20, false);
        test_two_synacks(v6, 1 << 20, true);
        test_refusal(v6, 0);
        test_refusal(v6, 60);
        test_begins_anew(v6, false);
        test_begins_anew(v6, true);
        test_reset_of_report(v6);
        for (i = 0; i < 4; i++) {
            test_fin_of_report(v6, i & 1, i & 2);
        }
        test_half_closed(v6);
        test_forged_in_fragments(v6, false);
        test_forged_in_fragments(v6, true);
    }
    for (v6 = 0; v6 < 2; v6++) {
        test_crossing_with_data(v6);
    }
    test_first_flight(2);
    test_first_flight(10);
    test_foreign_syns();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
