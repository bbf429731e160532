/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The law and its enforcement through two engines: window rewriting, growth,
 * cuts, loss, timeout, idle; policing; observing; policy changed on live
 * flows; each algorithm. */

#include "sim.h"
#include "tap.h"

static struct acdc_flow_info
info(const struct sim *s, int side)
{
    struct acdc_flow_info fi;

    sim_info(s, side, &fi);
    return fi;
}

/* Guest 0 fills the window, guest 1 acknowledges all, one of
 * 'mark_every' segments marked (0: none).  Returns the segments sent. */
static unsigned int
round_trip(struct sim *s, unsigned int mark_every)
{
    uint32_t window = info(s, 0).window;
    unsigned int n;

    for (n = 0; (n + 1) * 1448 <= window; n++) {
        sim_data(s, 0, 1448, mark_every && n % mark_every == 0);
    }
    s->now += SIM_MS;
    packet_free(sim_ack(s, 1));
    return n;
}

static void
connect(struct sim *s, const struct acdc_params *params)
{
    sim_init(s, params, params);
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    sim_connect(s);
}

/* Guest 0 sends 'n' bytes that the network loses. */
static void
lose_data(struct sim *s, uint32_t n)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, n);

    packet_free_list(sim_egress(s, 0, packet_make(&spec)));
    s->guest[0].snd_nxt += n;
}

/* The guest sends again after a pause, 'copies' times, of which the last
 * arrives.  That it was a timeout is known only if something was 'lost'. */
static void
test_timeout(bool capable, bool lost, int copies)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    uint32_t before;
    int i;

    for (i = 0; i < 2; i++) {
        /* Without, and with something lost before in the connection. */
        struct sim s;

        params.fallback = ACDC_ALG_RENO;
        sim_init(&s, &params, capable ? &params : NULL);
        if (!capable) {
            sim_remove_acdc(&s, 1);
        }
        s.guest[0].timestamps = s.guest[1].timestamps = true;
        sim_connect(&s);
        round_trip(&s, 0);
        if (i) {
            lose_data(&s, 1448);
            s.guest[0].snd_nxt -= 1448;
            sim_data(&s, 0, 1448, false);
            packet_free(sim_ack(&s, 1));
        }
        before = info(&s, 0).window;
        if (lost) {
            lose_data(&s, 1000);
        } else {
            sim_data(&s, 0, 1000, false);
        }
        for (int k = 1; k < copies; k++) {
            s.now += 300 * SIM_MS;
            s.guest[0].snd_nxt -= 1000;
            lose_data(&s, 1000);
        }
        s.now += 300 * SIM_MS;
        s.guest[0].snd_nxt -= 1000;
        sim_data(&s, 0, 1000, false);
        is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS),
               capable ? 0 : (unsigned) copies, "timeouts not yet");
        packet_free(sim_ack(&s, 1));
        is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS),
               capable ? lost || copies > 1 : (unsigned) copies,
               "timeouts, capable %d, lost %d, %d copies", capable, lost,
               copies);
        fi = info(&s, 0);
        if (capable && !lost && copies == 1) {
            ok(fi.window >= before, "window %u, before %u", fi.window, before);
        } else {
            ok(fi.window <= 3 * 1448, "window %u", fi.window);
            is_u64(fi.ssthresh, before / 2, "ssthresh");
        }
        sim_done(&s);
    }
}

/* The window field that guest 0 is told by a duplicate ACK of guest 1, whose
 * SACK option has the segments [from, to) of those in flight; with two blocks
 * the first of these as received twice. */
static uint32_t
told_with_sack(struct sim *s, uint32_t from, uint32_t to, int blocks)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_ACK, 0);
    uint32_t edges[6];
    struct packet *p;
    uint16_t window;
    int i;

    for (i = 0; i < blocks; i++) {
        edges[2 * i] = spec.ack + from * 1448;
        edges[2 * i + 1] = spec.ack + (blocks == 2 && !i ? from + 1 : to) * 1448;
    }
    if (blocks) {
        opt_sack(&spec, (unsigned int) blocks, edges);
    }
    p = sim_send(s, 1, &spec);
    window = packet_window(p);
    packet_free(p);
    return window;
}

/* What SACK says has arrived is not in flight: the window moves on. */
static void
test_sacked(void)
{
    struct acdc_params params = acdc_params_default;
    uint32_t told, i, field;
    struct sim s;

    params.max_window = 20 * 1448;
    connect(&s, &params);
    for (i = 0; i < 3; i++) {
        told = round_trip(&s, 0);
    }
    is_u64(told, 20, "a window of 20 segments is in use");
    for (i = 0; i < 20; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.guest[1].rcv_nxt -= 20 * 1448;
    is_u64(told_with_sack(&s, 1, 2, 1), (21 * 1448 + 127) >> 7,
           "a segment has left the network, another may follow");
    field = (22 * 1448 + 127) >> 7;
    is_u64(told_with_sack(&s, 1, 3, 2), field, "and another, one came twice");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "no loss yet");
    is_u64(told_with_sack(&s, 1, 5, 1), field,
           "after a cut it does not end before what was told");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "a loss");
    ok(told_with_sack(&s, 1, 20, 1) > field,
       "and moves on where more has left than was cut");
    told = told_with_sack(&s, 1, 20, 3);
    ok(told << 7 <= info(&s, 0).window + 20 * 1448 + 128,
       "said three times it is no more than was sent (%u)", told << 7);
    is_u64(told_with_sack(&s, 100, 200, 1), told, "nor what was not sent");
    sim_done(&s);
}

/* The last segment was reported with the ACK of the one before, as the guest's
 * ACK comes later than what its vSwitch has counted. */
static void
test_timeout_reported(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    uint32_t before;
    struct sim s;

    connect(&s, &params);
    round_trip(&s, 0);
    before = info(&s, 0).window;
    sim_data(&s, 0, 1448, false);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    sim_data(&s, 0, 500, false);
    packet_free_list(sim_send(&s, 1, &spec));
    s.now += 300 * SIM_MS;
    s.guest[0].snd_nxt -= 500;
    sim_data(&s, 0, 500, false);
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 1, "a tail sent again");
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "had been reported");
    ok(info(&s, 0).window >= before, "the window stays");

    /* After a timeout a short segment is enough for two, marks or none. */
    lose_data(&s, 500);
    s.now += 300 * SIM_MS;
    s.guest[0].snd_nxt -= 500;
    sim_data(&s, 0, 500, true);
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 1, "a timeout");
    ok(info(&s, 0).window >= 2 * 1448, "window %u", info(&s, 0).window);
    sim_done(&s);
}

static void
test_rewriting(int wscale)
{
    bool never_raised = true, exact = true, csum = true;
    struct acdc_params params = acdc_params_default;
    struct sim s;
    uint32_t raw;

    sim_init(&s, &params, &params);
    s.guest[0].wscale = s.guest[1].wscale = wscale;
    sim_connect(&s);
    for (raw = 0; raw < 0x10000; raw += 97) {
        unsigned int scale = wscale < 0 ? 0 : (unsigned int) wscale;
        uint32_t limit = (14600 + (1u << scale) - 1) >> scale;
        struct packet *p;
        uint16_t told;

        s.guest[1].window = (uint16_t) raw;
        p = sim_ack(&s, 1);
        told = packet_window(p);
        csum &= packet_csum_ok(p);
        never_raised &= told <= raw;
        exact &= told == (raw < limit ? raw : limit);
        packet_free(p);
    }
    ok(never_raised, "scale %d: never raised", wscale);
    ok(exact, "min(own, ceil(wnd >> scale)), and zero only for zero");
    ok(csum, "checksums");
    sim_done(&s);
}

/* Guest 0 sends 'n' segments and guest 1 acknowledges them, 'each' at once or
 * all together, all of them marked.  Returns how many went with CWR. */
static unsigned int
ask(struct sim *s, unsigned int n, bool each)
{
    uint32_t acked = s->guest[1].rcv_nxt;
    unsigned int i, n_cwr = 0;

    for (i = 0; i < n; i++) {
        struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, 1448);
        struct packet *p = sim_egress(s, 0, packet_make(&spec));
        struct acdc_pkt parsed;

        n_cwr += packet_parse(p, &parsed)
                 && (parsed.tcp_flags & ACDC_TCP_CWR);
        packet_set_ecn(p, ACDC_ECN_CE);
        p = sim_ingress(s, 1, p);
        ok(packet_count(p) == 1 && packet_csum_ok(p) && packet_payload_ok(p),
           "arrives whole");
        packet_free(p);
        s->guest[0].snd_nxt += 1448;
    }
    s->now += SIM_MS;
    for (i = each ? 1 : n; i <= n; i++) {
        s->guest[1].rcv_nxt = acked + i * 1448;
        packet_free(sim_ack(s, 1));
    }
    return n_cwr;
}

static void
test_small_windows(void)
{
    struct acdc_params params = acdc_params_default;
    struct sim s;
    int i;

    params.small_windows = true;
    connect(&s, &params);
    is_u64(ask(&s, 10, true), 0, "a large window asks for nothing");
    is_u64(info(&s, 0).window, 5 * 1448, "cut once");
    ask(&s, 5, true);
    is_u64(info(&s, 0).window, 3620, "cut again");
    is_u64(ask(&s, 2, true), 2, "one that a cut leaves below two segments does");
    is_u64(info(&s, 0).window, 2 * 1448, "not known yet whether it helps");
    /* The first of each two is acknowledged while the second is in flight; the
     * cut that learns of it comes with the next. */
    for (i = 1; i < 24; i++) {
        ask(&s, 2, true);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_PROMPT), 1, "known");
    is_u64(sim_counter(&s, 0, ACDC_C_SOLICITED), 48, "all counted");
    is_u64(ask(&s, 1, true), 1, "asked further on");
    is_u64(info(&s, 0).window, 1448, "floor of one segment");
    for (i = 0; i < 10; i++) {
        is_u64(ask(&s, 1, true), 1, "and so on");
    }
    is_u64(info(&s, 0).window, 1448, "no lower");
    /* Another policy. */
    params.small_windows = false;
    sim_policy(&s, 0, &params);
    is_u64(ask(&s, 1, true), 0, "no more");
    is_u64(info(&s, 0).window, 2 * 1448, "two segments again");
    params.small_windows = true;
    sim_policy(&s, 0, &params);
    is_u64(ask(&s, 2, true), 2, "what is known stays known");
    ask(&s, 1, true);
    is_u64(info(&s, 0).window, 1448, "one segment");
    /* Then one waits for an ACK. */
    s.now += 40 * SIM_MS;
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_DELAYED), 0, "idle is no delay");
    sim_data(&s, 0, 1448, false);
    s.now += 40 * SIM_MS;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_DELAYED), 1, "a delayed ACK");
    ok(info(&s, 0).window >= 2 * 1448, "two segments again");
    for (i = 0; i < 50; i++) {
        is_u64(ask(&s, 2, true), 0, "not asked again");
    }
    is_u64(info(&s, 0).window, 2 * 1448, "and never below");
    sim_done(&s);

    /* The guest's timer is first. */
    connect(&s, &params);
    for (i = 0; i < 30; i++) {
        ask(&s, 2, true);
    }
    is_u64(info(&s, 0).window, 1448, "small");
    lose_data(&s, 1448);
    s.now += 20 * SIM_MS;
    s.guest[0].snd_nxt -= 1448;
    lose_data(&s, 1448);
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_DELAYED), 1, "lost or delayed");
    sim_done(&s);

    /* A guest that acknowledges every second segment. */
    connect(&s, &params);
    for (i = 0; i < 100; i++) {
        ask(&s, 2, false);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_PROMPT), 0, "delays ACKs");
    is_u64(info(&s, 0).window, 2 * 1448, "floor of two segments");
    /* Some early ones show nothing. */
    for (i = 0; i < 100; i++) {
        ask(&s, 2, i % 24 != 0);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_PROMPT), 0, "not always");
    sim_done(&s);

    /* By default, and by an observer, nothing is asked. */
    for (i = 0; i < 2; i++) {
        params.small_windows = i;
        params.mode = i ? ACDC_MODE_OBSERVE : ACDC_MODE_ENFORCE;
        connect(&s, &params);
        ask(&s, 10, true);
        ask(&s, 5, true);
        is_u64(ask(&s, 2, true), 0, "no CWR");
        sim_done(&s);
    }
}

/* The other end acknowledges all it got but the last 'n' bytes. */
static void
ack_but(struct sim *s, uint32_t n)
{
    s->guest[1].rcv_nxt -= n;
    packet_free(sim_ack(s, 1));
    s->guest[1].rcv_nxt += n;
}

/* What is timed: the first new data after an ACK that ended the time before, and
 * nothing that was under way then. */
static void
test_timing(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_in before;
    struct acdc_flow *f;
    struct sim s;

    connect(&s, &params);
    f = sim_flow(&s, 0);
    before = *acdc_flow_in(f);
    sim_data(&s, 0, 1448, false);
    s.now += SIM_MS;
    sim_data(&s, 0, 1448, false);
    ok(!memcmp(&before, acdc_flow_in(f), sizeof before),
       "new data does not write what only ACKs need");
    s.now += SIM_MS;
    ack_but(&s, 1448);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 1, "the first was timed");
    is_u64(info(&s, 0).srtt_us, 2000, "until its ACK");
    s.now += SIM_MS;
    sim_data(&s, 0, 1448, false);
    s.now += SIM_MS;
    ack_but(&s, 1448);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 1,
           "the second, under way then, is not");
    s.now += SIM_MS;
    ack_but(&s, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 2, "the third is");
    is_u64(info(&s, 0).srtt_us, 2000, "from when it was sent");

    /* Karn's rule. */
    sim_data(&s, 0, 1448, false);
    s.now += SIM_MS;
    s.guest[0].snd_nxt -= 1448;
    sim_data(&s, 0, 1448, false);
    s.now += SIM_MS;
    ack_but(&s, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 2,
           "what was sent again is not");
    sim_data(&s, 0, 1448, false);
    s.now += 3 * SIM_MS;
    ack_but(&s, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 3, "what follows is");
    sim_done(&s);
}

static void
test_law(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    struct sim s;
    uint32_t before;
    int i;

    /* Slow start while the window is used. */
    connect(&s, &params);
    is_u64(info(&s, 0).window, 14480, "initial window of 10 segments");
    is_u64(round_trip(&s, 0), 10, "all of it can be sent");
    is_u64(info(&s, 0).window, 28960, "slow start doubles it");
    is_u64(info(&s, 0).srtt_us, 1000, "round-trip time");
    /* And not otherwise. */
    for (i = 0; i < 20; i++) {
        sim_data(&s, 0, 1448, false);
        s.now += SIM_MS;
        packet_free(sim_ack(&s, 1));
    }
    ok(info(&s, 0).window <= 28960 + 1448,
       "an application-limited flow banks no credit");
    /* A mark: alpha is 1 still, so half. */
    sim_data(&s, 0, 1448, true);
    before = info(&s, 0).window;
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 1, "a mark cuts");
    fi = info(&s, 0);
    ok(fi.window < before && fi.window == fi.ssthresh, "to ssthresh");
    sim_done(&s);

    /* All marked: alpha stays 1, the window goes to two segments. */
    connect(&s, &params);
    for (i = 0; i < 20; i++) {
        round_trip(&s, 1);
    }
    fi = info(&s, 0);
    ok(fi.alpha > ACDC_FIX_ONE - 100, "alpha stays 1");
    is_u64(fi.window, 2 * 1448, "floor of two segments");
    sim_done(&s);

    /* beta 0 with alpha 1: straight to the floor. */
    params.beta = 0;
    connect(&s, &params);
    round_trip(&s, 1);
    is_u64(info(&s, 0).window, 2 * 1448, "beta 0 gives all away");
    sim_done(&s);

    /* Three duplicate ACKs. */
    params = acdc_params_default;
    connect(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.guest[1].rcv_nxt -= 9 * 1448;
    packet_free(sim_ack(&s, 1));
    before = info(&s, 0).window;
    for (i = 0; i < 3; i++) {
        uint16_t window;

        is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "%d duplicates", i);
        window = sim_ack_window(&s, 1);
        ok(i < 2 || window == (before + 127) >> 7,
           "a duplicate ACK says the same window");
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "the third is a loss");
    is_u64(info(&s, 0).alpha, ACDC_FIX_ONE, "alpha is 1");
    is_u64(info(&s, 0).window, before / 2, "the window is cut");
    for (i = 0; i < 10; i++) {
        packet_free(sim_ack(&s, 1));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "once");
    sim_done(&s);

    /* SACK, where the segments behind the hole came in one ACK. */
    connect(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    {
        struct tcp_spec spec;
        uint32_t edges[2];

        s.guest[1].rcv_nxt -= 10 * 1448;
        edges[0] = s.guest[1].rcv_nxt + 1448;
        edges[1] = s.guest[1].rcv_nxt + 10 * 1448;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_sack(&spec, 1, edges);
        packet_free_list(sim_send(&s, 1, &spec));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "SACK shows a loss");
    sim_done(&s);

    /* The guest sends again at once: loss. */
    connect(&s, &params);
    round_trip(&s, 0);
    before = info(&s, 0).window;
    for (i = 0; i < 5; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    s.guest[0].snd_nxt -= 5 * 1448;
    sim_data(&s, 0, 1448, false);
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 1, "sent again");
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "no timeout");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "loss");
    is_u64(info(&s, 0).window, before / 2, "window");
    is_u64(info(&s, 0).ssthresh, before / 2, "ssthresh");
    sim_done(&s);

    /* Restart after idle. */
    connect(&s, &params);
    for (i = 0; i < 5; i++) {
        round_trip(&s, 0);
    }
    before = info(&s, 0).window;
    ok(before > 100000, "grown to %u", before);
    s.now += 1000 * SIM_MS;
    sim_data(&s, 0, 1448, false);
    is_u64(info(&s, 0).window, 14480, "idle: initial window again");
    is_u64(sim_counter(&s, 0, ACDC_C_IDLE_RESTARTS), 1, "counted");
    sim_done(&s);

    /* Longer than 2^31 ms, with keep-alives. */
    connect(&s, &params);
    for (i = 0; i < 5; i++) {
        round_trip(&s, 0);
    }
    s.now += 30 * 86400000ull * SIM_MS;
    packet_free(sim_ack(&s, 1));
    sim_data(&s, 0, 1448, false);
    is_u64(info(&s, 0).window, 14480, "idle for a month: the same");
    sim_done(&s);

    /* max_window and min_window. */
    params.max_window = 50000;
    connect(&s, &params);
    for (i = 0; i < 10; i++) {
        round_trip(&s, 0);
    }
    is_u64(info(&s, 0).window, 50000, "max_window caps");
    params.max_window = 0;
    params.min_window = 20000;
    sim_policy(&s, 0, &params);
    for (i = 0; i < 30; i++) {
        round_trip(&s, 1);
    }
    is_u64(info(&s, 0).window, 20000, "min_window, set on a live flow");
    params.min_window = 1;
    sim_policy(&s, 0, &params);
    for (i = 0; i < 30; i++) {
        round_trip(&s, 1);
    }
    is_u64(info(&s, 0).window, 1448, "but never below a segment");
    sim_done(&s);
}

/* The window of beta 0.25 is below that of beta 1 under the same marks. */
static void
test_beta(void)
{
    uint32_t mean[2] = { 0, 0 };
    int b, i;

    for (b = 0; b < 2; b++) {
        struct acdc_params params = acdc_params_default;
        struct sim s;

        params.beta = b ? ACDC_FIX_ONE : ACDC_FIX_ONE / 4;
        connect(&s, &params);
        for (i = 0; i < 400; i++) {
            /* The network marks above 100 kB. */
            round_trip(&s, info(&s, 0).window > 100000);
            mean[b] += info(&s, 0).window / 400;
        }
        sim_done(&s);
    }
    ok(mean[0] < mean[1] * 0.97, "beta 0.25: %u bytes, beta 1: %u bytes",
       mean[0], mean[1]);
}

static bool
give_ack(struct acdc_law *law, struct acdc_facts *facts, uint32_t acked,
         uint32_t ce, uint32_t total)
{
    facts->acked = facts->delivered = acked;
    facts->ce = ce;
    facts->total = total;
    acdc_law_deliver(law, acked);
    return acdc_law_ack(law, facts);
}

/* Cuts by chance: as deep and as frequent as told, the same mean. */
static void
test_spread_cuts(void)
{
    static const struct {
        uint32_t alpha, beta;       /* Parts of ACDC_FIX_ONE. */
        uint32_t deep, often;       /* Likewise. */
    } cases[] = {
        { ACDC_FIX_ONE / 8, ACDC_FIX_ONE,       /* 1/16 */
          ACDC_FIX_ONE / 4, ACDC_FIX_ONE / 4 },
        { ACDC_FIX_ONE / 8, 0,                  /* 1/8 */
          ACDC_FIX_ONE / 2, ACDC_FIX_ONE / 4 },
        { ACDC_FIX_ONE / 2, ACDC_FIX_ONE,       /* 1/4 */
          ACDC_FIX_ONE / 2, ACDC_FIX_ONE / 2 },
        { ACDC_FIX_ONE, ACDC_FIX_ONE,           /* 1/2 */
          ACDC_FIX_ONE / 2, ACDC_FIX_ONE },
        { ACDC_FIX_ONE / 4 * 3, 0,              /* 3/4 */
          ACDC_FIX_ONE / 4 * 3, ACDC_FIX_ONE },
        { 0, ACDC_FIX_ONE, 0, 0 },
    };
    enum { N = 10000, WND = 1 << 20, MSS = 1448 };
    struct acdc_params params = acdc_params_default;
    struct acdc_facts facts = { .params = &params, .mss = MSS };
    struct acdc_law law, start;
    unsigned int i, n;

    params.spread_cuts = true;
    params.initial_window = WND / MSS;
    acdc_law_init(&start, &facts, ACDC_ALG_DCTCP);
    start.wnd = WND;
    start.slow_start = false;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t low = WND - (uint32_t) ((uint64_t) WND * cases[i].deep
                                         >> ACDC_FIX_SHIFT);
        unsigned int cuts = 0, run = 0, longest = 0;
        bool exact = true, held = true;

        params.beta = cases[i].beta;
        acdc_marks_set(&start, cases[i].alpha, 0, 0);
        /* Windows of 100 segments of one flow, one behind the other. */
        for (n = 0; n < N; n++) {
            law = start;
            facts.snd_una = n * 100 * MSS;
            facts.snd_nxt = facts.snd_una + 100 * MSS;
            facts.salt = 0x12345678;
            facts.window = 100 * MSS;
            law.round_left = law.window_left = 101 * MSS;
            give_ack(&law, &facts, MSS, MSS, MSS);
            held &= law.in_cut && !law.slow_start;
            exact &= law.wnd == low || law.wnd == WND;
            cuts += law.wnd != WND;
            run = law.wnd == WND ? run + 1 : 0;
            longest = run > longest ? run : longest;
        }
        ok(exact && held, "to %u bytes of 2^20 or not at all, for a window",
           low);
        ok(cuts >= N * (uint64_t) cases[i].often / ACDC_FIX_ONE * 95 / 100
           && cuts <= N * (uint64_t) cases[i].often / ACDC_FIX_ONE * 105 / 100,
           "%u of %u", cuts, N);
        ok(!cases[i].often || longest < 50, "at most %u windows without",
           longest);
    }

    /* Flows that send the same numbers are not cut together. */
    params.beta = ACDC_FIX_ONE;
    acdc_marks_set(&start, ACDC_FIX_ONE / 8, 0, 0);
    facts.snd_una = 0;
    facts.snd_nxt = 100 * MSS;
    for (i = n = 0; n < N; n++) {
        law = start;
        facts.salt = n;
        give_ack(&law, &facts, 0, MSS, MSS);
        i += law.wnd != WND;
    }
    ok(i > N / 4 * 95 / 100 && i < N / 4 * 105 / 100, "%u of %u flows", i, N);

    /* Slow start ends with the first mark, and loss is loss. */
    for (i = n = 0; n < N; n++) {
        law = start;
        law.ssthresh = 2 * WND;
        law.slow_start = true;
        facts.salt = n;
        give_ack(&law, &facts, 0, MSS, MSS);
        i += law.wnd == WND - WND / 16;
        law = start;
        acdc_law_loss(&law, &facts);
        i += law.wnd == WND / 2;
    }
    is_u64(i, 2 * N, "neither slow start nor loss is left to chance");

    /* And by default nothing is. */
    params.spread_cuts = false;
    for (i = n = 0; n < N; n++) {
        law = start;
        facts.salt = n;
        give_ack(&law, &facts, 0, MSS, MSS);
        i += law.wnd == WND - WND / 16;
    }
    is_u64(i, N, "by default every mark cuts");
}

static void
test_algorithms(void)
{
    int alg;

    for (alg = ACDC_ALG_NONE; alg < ACDC_N_ALGS; alg++) {
        struct acdc_params params = acdc_params_default;
        const char *name = acdc_algorithm_names[alg];
        struct sim s;
        uint32_t before;
        int i;

        params.algorithm = (uint8_t) alg;
        connect(&s, &params);
        is_u64(info(&s, 0).algorithm, (unsigned) alg, "%s", name);
        for (i = 0; i < 4; i++) {
            round_trip(&s, 0);
        }
        before = info(&s, 0).window;
        s.guest[1].window = 0x8000;
        if (alg == ACDC_ALG_NONE) {
            struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, 10);
            struct packet *p = sim_egress(&s, 0, packet_make(&spec));

            is_u64(before, 14480, "none does nothing");
            is_u64(packet_ecn(p), 0, "and marks nothing");
            packet_free_list(p);
            is_u64(sim_ack_window(&s, 1), 0x8000, "window untouched");
        } else {
            ok(before >= 200000, "%s: slow start to %u", name, before);
            round_trip(&s, 1);
            if (alg == ACDC_ALG_DCTCP) {
                ok(info(&s, 0).window < before
                   && info(&s, 0).window > before / 2,
                   "dctcp: less than half is cut once alpha has fallen");
            } else {
                is_u64(info(&s, 0).window,
                       alg == ACDC_ALG_CUBIC ? before * 7ull / 10
                                             : before / 2,
                       "%s: cut by a mark", name);
            }
            before = info(&s, 0).window;
            for (i = 0; i < 50; i++) {
                round_trip(&s, 0);
            }
            ok(info(&s, 0).window > before, "%s: congestion avoidance to %u",
               name, info(&s, 0).window);
            ok(alg == ACDC_ALG_CUBIC
               || info(&s, 0).window - before <= 51 * 1448,
               "%s: one segment a round trip", name);
        }
        sim_done(&s);
    }
}

/* An algorithm that is none for a while, in the middle of a cut, cuts again
 * after it, however far the connection went meanwhile. */
static void
test_set_aside(void)
{
    enum { MSS = 1448 };
    static const uint32_t far[] = { 10 * MSS, 0x7fffffff, 0x80000000,
                                    0xc0000000, 0xfffff000 };
    struct acdc_params params = acdc_params_default;
    unsigned int i;

    for (i = 0; i < sizeof far / sizeof far[0]; i++) {
        struct acdc_facts facts = {
            .params = &params, .mss = MSS, .snd_una = 1, .snd_nxt = 1,
        };
        struct acdc_law law;
        uint32_t left;

        acdc_law_init(&law, &facts, ACDC_ALG_DCTCP);
        facts.snd_nxt += 10 * MSS;
        facts.snd_una += MSS;
        facts.window = 9 * MSS;
        ok(give_ack(&law, &facts, MSS, MSS, MSS), "a mark cuts");
        acdc_law_switch(&law, ACDC_ALG_NONE);
        for (left = far[i]; left; left -= left < MSS ? left : MSS) {
            uint32_t acked = left < MSS ? left : MSS;

            facts.snd_una += acked;
            facts.snd_nxt = facts.snd_una + 10 * MSS;
            give_ack(&law, &facts, acked, 0, acked);
        }
        acdc_law_switch(&law, ACDC_ALG_DCTCP);
        facts.snd_una += MSS;
        ok(give_ack(&law, &facts, MSS, MSS, MSS), "and again %u bytes on",
           far[i]);
    }
}

/* The fallback, towards a peer without AC/DC whose guest does ECN. */
static void
test_fallback(void)
{
    int alg, ecn;

    for (alg = ACDC_ALG_NONE; alg < ACDC_ALG_DCTCP; alg++) {
        for (ecn = 0; ecn < 2; ecn++) {
            struct acdc_params params = acdc_params_default;
            struct tcp_spec spec;
            uint32_t before;
            struct sim s;
            int i;

            params.fallback = (uint8_t) alg;
            sim_init(&s, &params, NULL);
            sim_remove_acdc(&s, 1);
            s.guest[0].ecn = s.guest[1].ecn = ecn;
            sim_connect(&s);
            is_u64(info(&s, 0).algorithm, (unsigned) alg, "fallback %s",
                   acdc_algorithm_names[alg]);
            for (i = 0; i < 3; i++) {
                round_trip(&s, 0);
            }
            before = info(&s, 0).window;
            sim_data(&s, 0, 1448, false);
            spec = sim_spec(&s, 1, ACDC_TCP_ACK | ACDC_TCP_ECE, 0);
            packet_free_list(sim_send(&s, 1, &spec));
            is_u64(info(&s, 0).window < before, alg && ecn,
                   "ECE cuts if ECN was negotiated (%d)", ecn);
            sim_done(&s);
        }
    }
}

/* The ACK number of a corrupt packet, or of an outsider, offers nothing. */
static void
test_far_ack(bool police, uint32_t far)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info before, after;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    params.police = police;
    connect(&s, &params);
    round_trip(&s, 0);
    params.max_window = 4 * 1448;
    sim_policy(&s, 0, &params);
    packet_free(sim_ack(&s, 1));
    before = info(&s, 0);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    spec.ack += far;
    packet_free_list(sim_send(&s, 1, &spec));
    after = info(&s, 0);
    is_u64(after.offered, before.offered, "offered after an ACK of +%#x", far);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "the guest can go on sending");
    packet_free_list(p);
    is_u64(info(&s, 0).in_flight, 1448, "and is followed");
    if (police) {
        spec.seq += 1 << 20;
        p = sim_egress(&s, 0, packet_make(&spec));
        is_u64(packet_count(p), 0, "and policed");
        packet_free_list(p);
    }
    sim_done(&s);
}

/* Nor that of a SYN-ACK sent again, which the guest drops. */
static void
test_far_synack(void)
{
    static const uint32_t far[] = { 0x40000000, 0x7fffffff };
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    unsigned int i;
    struct sim s;

    params.police = true;
    connect(&s, &params);
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
        spec.seq--;
        spec.ack += far[i];
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
        packet_free_list(sim_ack(&s, 1));
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
        spec.seq += 1 << 20;
        p = sim_egress(&s, 0, packet_make(&spec));
        is_u64(packet_count(p), 0, "after a SYN-ACK of +%#x: policed", far[i]);
        packet_free_list(p);
        spec.seq -= 1 << 20;
        p = sim_egress(&s, 0, packet_make(&spec));
        is_u64(packet_count(p), 1, "and what is allowed passes");
        packet_free_list(p);
    }
    sim_done(&s);
}

static void
test_far_acks(bool police)
{
    static const uint32_t far[] = {
        0x80000000, 0x40000000, 0x7fffffff, 0x90000000, 0x02000000, 0xfd000000,
    };
    unsigned int i;

    for (i = 0; i < sizeof far / sizeof *far; i++) {
        test_far_ack(police, far[i]);
    }
}

static void
test_policing(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    uint32_t edge;

    params.police = true;
    connect(&s, &params);
    edge = s.guest[0].snd_nxt + 14480;
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    spec.seq = edge - 1448;
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "data up to the right edge passes");
    packet_free_list(p);
    spec.seq = edge;
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "one segment of slack");
    packet_free_list(p);
    spec.seq = edge + 1;
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 0, "beyond, data is dropped");
    packet_free_list(p);
    is_u64(sim_counter(&s, 0, ACDC_C_POLICED_PACKETS), 1, "counted");
    is_u64(sim_counter(&s, 0, ACDC_C_POLICED_BYTES), 1448, "its bytes too");
    /* A smaller window later takes nothing back. */
    s.guest[1].window = 10;
    is_u64(sim_ack_window(&s, 1), 10, "the peer shrinks its window");
    spec.seq = edge - 1448;
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "what was allowed is never dropped");
    packet_free_list(p);
    params.police = false;
    sim_policy(&s, 0, &params);
    spec.seq = edge + 100000;
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "not policed");
    packet_free_list(p);
    sim_done(&s);
}

/* Nor where data goes both ways does a guest that ignores its window get more
 * of it. */
static void
test_policing_both_ways(void)
{
    struct acdc_params params = acdc_params_default;
    uint32_t most = 0;
    struct sim s;
    int i;

    params.police = true;
    params.max_window = 4 * 1448;
    connect(&s, &params);
    for (i = 0; i < 100; i++) {
        uint32_t una = s.guest[1].rcv_nxt;
        uint64_t policed = sim_counter(&s, 0, ACDC_C_POLICED_PACKETS);
        struct tcp_spec spec;

        /* All that passes. */
        for (;;) {
            spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
            packet_free_list(sim_send(&s, 0, &spec));
            if (sim_counter(&s, 0, ACDC_C_POLICED_PACKETS) > policed) {
                break;
            }
            s.guest[0].snd_nxt += 1448;
        }
        if (s.guest[0].snd_nxt - una > most) {
            most = s.guest[0].snd_nxt - una;
        }
        /* The peer sends one, and takes one in two rounds. */
        s.now += SIM_MS;
        s.guest[1].rcv_nxt = una + i % 2 * 1448;
        sim_data(&s, 1, 1448, false);
    }
    ok(most <= 6 * 1448, "of data both ways never more than %u bytes pass",
       most);
    sim_done(&s);
}

/* Receivers that want more than their share (Savage et al., 1999). */
static void
test_hostile_receiver(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    uint32_t whole;
    struct sim s;
    int i;

    /* ACK splitting: growth is by bytes. */
    connect(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 1));
    whole = info(&s, 0).window;
    sim_done(&s);
    connect(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    s.guest[1].rcv_nxt -= 14480;
    for (i = 0; i < 1448; i++) {
        s.guest[1].rcv_nxt += 10;
        packet_free_list(sim_ack(&s, 1));
    }
    ok(info(&s, 0).window <= whole && info(&s, 0).window > 20000,
       "1448 ACKs are worth no more than one");
    sim_done(&s);

    /* Optimistic ACKs: of data on its way. */
    for (i = 0; i < 2; i++) {
        params.police = i;
        connect(&s, &params);
        sim_data(&s, 0, 1448, false);
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        p = sim_egress(&s, 1, packet_make(&spec));
        is_u64(packet_count(p), 1, "an ACK of what arrived");
        packet_free_list(p);
        spec.ack++;
        p = sim_egress(&s, 1, packet_make(&spec));
        is_u64(packet_count(p), 1, "and of a FIN");
        packet_free_list(p);
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "not counted");
        spec.ack++;
        p = sim_egress(&s, 1, packet_make(&spec));
        is_u64(packet_count(p), !i, "an optimistic ACK %s",
               i ? "is policed" : "passes");
        packet_free_list(p);
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 1, "counted");
        sim_done(&s);
    }

    /* The same in SACK blocks, which open the window as well. */
    for (i = 0; i < 2; i++) {
        uint32_t edges[2];

        params.police = i;
        connect(&s, &params);
        sim_data(&s, 0, 1448, false);
        s.guest[1].rcv_nxt -= 1448;
        edges[0] = s.guest[1].rcv_nxt + 1000;
        edges[1] = s.guest[1].rcv_nxt + 1449;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_sack(&spec, 1, edges);
        p = sim_egress(&s, 1, packet_make(&spec));
        is_u64(packet_count(p), 1, "SACK of what arrived, and of a FIN");
        packet_free_list(p);
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "not counted");
        edges[1]++;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_sack(&spec, 1, edges);
        p = sim_egress(&s, 1, packet_make(&spec));
        is_u64(packet_count(p), !i, "an optimistic SACK %s",
               i ? "is policed" : "passes");
        packet_free_list(p);
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 1, "counted");
        sim_done(&s);
    }

    /* An ACK of data that came in fragments is none. */
    params.police = true;
    connect(&s, &params);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    p = packet_make(&spec);
    packet_data(p)[14 + 6] = 0x20;      /* More fragments. */
    packet_free_list(sim_ingress(&s, 1, p));
    s.guest[1].rcv_nxt += 1448;
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        p = sim_egress(&s, 1, packet_make(&spec));
        is_u64(packet_count(p), 1, "an ACK of fragments, time %d", i);
        packet_free_list(p);
        s.now += 100000 * SIM_MS;
    }
    is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "an honest ACK");
    s.guest[1].rcv_nxt += 3000;
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    p = sim_egress(&s, 1, packet_make(&spec));
    is_u64(packet_count(p), 0, "long after that one is optimistic");
    packet_free_list(p);
    /* Also when 2^31 ms have passed. */
    s.now += 30 * 86400000ull * SIM_MS;
    p = sim_egress(&s, 1, packet_make(&spec));
    is_u64(packet_count(p), 0, "and a month after");
    packet_free_list(p);
    sim_done(&s);
    params.police = false;

    /* Data for which there was no memory was seen all the same. */
    connect(&s, &params);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    p = sim_egress(&s, 0, packet_make(&spec));
    host_fail(HOST_WRITABLE, 1, 1);
    packet_free_list(sim_ingress(&s, 1, p));
    s.guest[1].rcv_nxt += 1448;
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 1, ACDC_C_UNTOUCHED_MEMORY), 1, "no memory");
    is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "an honest ACK");
    sim_done(&s);
}

/* Computes and reports, and touches no packet. */
static void
test_observe(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    struct sim s;
    int i;

    params.mode = ACDC_MODE_OBSERVE;
    params.police = true;
    sim_init(&s, &params, &params);
    s.guest[0].ecn = s.guest[1].ecn = true;
    sim_connect(&s);
    ok(!packet_is_ours(s.wire[0]) && !packet_ecn(s.wire[0])
       && !packet_is_ours(s.wire[1]), "no capability, no mark");
    for (i = 0; i < 300; i++) {
        uint8_t flags[] = { ACDC_TCP_ACK, ACDC_TCP_ACK | ACDC_TCP_ECE };
        struct tcp_spec spec = sim_spec(&s, i & 1, flags[i % 7 == 0],
                                        i & 1 ? 0 : 1448);
        struct packet *before, *p;

        spec.window = (uint16_t) (i * 77);
        before = packet_make(&spec);
        p = sim_egress(&s, i & 1, packet_clone(before));
        if (!p || !packet_same(p, before)) {
            ok(false, "packet %d is untouched at egress", i);
            i = 1000;
        }
        p = sim_ingress(&s, !(i & 1), p);
        if (!p || !packet_same(p, before)) {
            ok(false, "packet %d is untouched at ingress", i);
            i = 1000;
        }
        s.guest[i & 1].snd_nxt += spec.payload;
        s.guest[!(i & 1)].rcv_nxt = s.guest[i & 1].snd_nxt;
        s.now += SIM_MS;
        packet_free_list(p);
        packet_free(before);
    }
    is_u64((unsigned) i, 300, "packets are as they were");
    fi = info(&s, 0);
    is_u64(fi.algorithm, ACDC_ALG_DCTCP, "the law runs");
    is_u64(fi.mode, ACDC_MODE_OBSERVE, "and says it observes");
    ok(sim_counter(&s, 0, ACDC_C_CUTS_ECN) > 0, "on the guests' ECE");
    ok(fi.srtt_us > 0, "round-trip times are measured");
    sim_done(&s);
}

/* A change of policy reaches live flows with the next packet. */
static void
test_live(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    connect(&s, &params);
    round_trip(&s, 0);
    ok(sim_ack_window(&s, 1) < 0xffff, "enforced");
    params.enabled = false;
    sim_policy(&s, 0, &params);
    is_u64(sim_ack_window(&s, 1), 0xffff, "disabled: the peer's window");
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 10);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_ecn(p), 0, "and no mark");
    p = sim_ingress(&s, 1, p);
    ok(packet_count(p) == 1 && !packet_is_ours(p) && packet_ecn(p) == 0,
       "the other end still cleans up");
    packet_free_list(p);
    s.guest[0].snd_nxt += 10;
    s.guest[1].rcv_nxt += 10;
    packet_free(sim_ack(&s, 1));
    params.enabled = true;
    params.max_window = 3 * 1448;
    sim_policy(&s, 0, &params);
    is_u64(sim_ack_window(&s, 1), (3 * 1448 + 127) >> 7, "capped at once");
    params.algorithm = ACDC_ALG_CUBIC;
    params.beta = 7;
    sim_policy(&s, 0, &params);
    packet_free(sim_ack(&s, 1));
    is_u64(info(&s, 0).algorithm, ACDC_ALG_CUBIC, "another algorithm");
    is_u64(info(&s, 0).beta, 7, "another beta");
    params.mode = ACDC_MODE_OBSERVE;
    sim_policy(&s, 0, &params);
    is_u64(sim_ack_window(&s, 1), 0xffff, "observed only");
    sim_done(&s);
}

/* A window update of the peer that makes no difference to the guest would
 * look like a duplicate ACK. */
static void
test_updates(void)
{
    struct packet *p;
    struct sim s;

    connect(&s, NULL);
    sim_data(&s, 0, 1448, false);
    sim_data(&s, 0, 1448, false);
    s.guest[1].rcv_nxt -= 1448;
    packet_free(sim_ack(&s, 1));
    s.guest[1].window = 0xfff0;
    p = sim_ack(&s, 1);
    is_u64(packet_count(p), 0, "absorbed");
    packet_free_list(p);
    is_u64(sim_counter(&s, 0, ACDC_C_UPDATES_ABSORBED), 1, "counted");
    s.guest[1].window = 5;
    is_u64(sim_ack_window(&s, 1), 5, "one that closes is not");
    s.guest[1].window = 0;
    is_u64(sim_ack_window(&s, 1), 0, "zero is zero");
    s.guest[1].window = 0xffff;
    ok(sim_ack_window(&s, 1) > 0, "and opens again");
    sim_done(&s);
}

/* What leaves guest 0 for a packet without payload and 'seq', or 0 for nothing:
 * its sequence number. */
static uint32_t
leaves_with(struct sim *s, uint8_t flags, uint32_t seq)
{
    struct tcp_spec spec = sim_spec(s, 0, flags, 0);
    struct packet *p;
    struct acdc_pkt view;
    uint32_t found = 0;

    spec.seq = seq;
    p = sim_egress(s, 0, packet_make(&spec));
    if (packet_count(p) == 1 && packet_csum_ok(p) && packet_parse(p, &view)) {
        found = view.seq;
    }
    packet_free_list(p);
    return found;
}

static void
send_ten(struct sim *s)
{
    int i;

    for (i = 0; i < 10; i++) {
        sim_data(s, 0, 1448, false);
    }
}

/* Guest 1 acknowledges what it has: where the window of guest 0 then ends. */
static uint32_t
told_edge(struct sim *s)
{
    return s->guest[1].rcv_nxt + ((uint32_t) sim_ack_window(s, 1) << 7);
}

/* A guest whose window was made smaller than what it had sent puts the end of
 * that window in its ACKs. */
static void
test_renumbering(void)
{
    struct acdc_params params = acdc_params_default;
    uint32_t una, edge;
    struct sim s;

    connect(&s, &params);
    una = s.guest[0].snd_nxt;
    send_ten(&s);
    is_u64(leaves_with(&s, ACDC_TCP_ACK, una + 100), una + 100,
           "not before any window was made smaller");
    params.max_window = 3 * 1448;
    sim_policy(&s, 0, &params);
    s.guest[1].rcv_nxt = una + 1448;
    edge = told_edge(&s);
    ok(edge - s.guest[0].snd_nxt > 0x80000000, "it has sent more");

    is_u64(leaves_with(&s, ACDC_TCP_ACK, edge), s.guest[0].snd_nxt,
           "an ACK gets the number of what was sent");
    is_u64(leaves_with(&s, ACDC_TCP_ACK | ACDC_TCP_PSH, edge),
           s.guest[0].snd_nxt, "with PSH, too");
    is_u64(sim_counter(&s, 0, ACDC_C_ACK_RENUMBERED), 2, "counted");
    is_u64(leaves_with(&s, ACDC_TCP_ACK, s.guest[0].snd_nxt),
           s.guest[0].snd_nxt, "it has it already");
    is_u64(leaves_with(&s, ACDC_TCP_ACK, una + 1447), una + 1447,
           "a probe stays");
    s.guest[1].window = 20;
    packet_free(sim_ack(&s, 1));
    is_u64(leaves_with(&s, ACDC_TCP_ACK, una + 1448 + 2000),
           una + 1448 + (20 << 7), "no more than the peer's own window");
    s.guest[1].window = 0xffff;
    /* Its guest has not got the last ACK. */
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    packet_free(sim_ack(&s, 1));
    is_u64(leaves_with(&s, ACDC_TCP_ACK, edge), s.guest[0].snd_nxt,
           "also after what was sent was acknowledged");
    is_u64(leaves_with(&s, ACDC_TCP_ACK | ACDC_TCP_FIN, edge), edge,
           "a FIN stays");
    is_u64(leaves_with(&s, ACDC_TCP_RST, edge), edge,
           "a RST that answers a packet stays");
    is_u64(leaves_with(&s, ACDC_TCP_RST | ACDC_TCP_ACK, edge),
           s.guest[0].snd_nxt, "one that aborts does not");
    is_u64(sim_counter(&s, 0, ACDC_C_ACK_RENUMBERED), 5, "counted");
    sim_done(&s);

    /* A window that the peer made smaller itself. */
    connect(&s, NULL);
    una = s.guest[0].snd_nxt;
    send_ten(&s);
    s.guest[1].window = 10;
    s.guest[1].rcv_nxt = una + 1448;
    is_u64(sim_ack_window(&s, 1), 10, "the peer's window");
    is_u64(leaves_with(&s, ACDC_TCP_ACK, una + 1448 + 1280), una + 1448 + 1280,
           "nothing of ours");
    sim_done(&s);
}

/* Where data goes both ways no window ends before what its guest has sent, so
 * that its ACKs keep their numbers whatever becomes of the flow. */
static void
test_both_ways(void)
{
    struct acdc_params params = acdc_params_default;
    uint32_t una, edge;
    struct sim s;

    connect(&s, &params);
    una = s.guest[0].snd_nxt;
    sim_data(&s, 1, 1448, false);
    send_ten(&s);
    params.max_window = 3 * 1448;
    sim_policy(&s, 0, &params);
    s.guest[1].rcv_nxt = una + 1448;
    edge = told_edge(&s);
    is_u64(edge, una + 1448 + ((3 * 1448 + 127) >> 7 << 7),
           "data in turn: the law's window");
    sim_data(&s, 1, 1448, false);
    s.guest[1].rcv_nxt = una + 2 * 1448;
    edge = told_edge(&s);
    ok(edge - s.guest[0].snd_nxt < 128,
       "data at once: what is in flight and nothing new");
    s.guest[1].rcv_nxt = una + 8 * 1448;
    is_u64(sim_ack_window(&s, 1), (3 * 1448 + 127) >> 7,
           "and the law's window as soon as that is larger");
    s.guest[1].window = 20;
    s.guest[1].rcv_nxt = una + 9 * 1448;
    is_u64(sim_ack_window(&s, 1), 20, "never more than the peer's");
    sim_done(&s);
}

int
main(void)
{
    int scale;

    for (scale = -1; scale <= 10; scale++) {
        test_rewriting(scale);
    }
    test_timing();
    test_law();
    test_small_windows();
    for (int i = 0; i < 8; i++) {
        test_timeout(i & 1, i & 2, i & 4 ? 2 : 1);
    }
    test_timeout_reported();
    test_sacked();
    test_beta();
    test_spread_cuts();
    test_algorithms();
    test_set_aside();
    test_fallback();
    test_far_synack();
    test_policing();
    test_policing_both_ways();
    test_far_acks(true);
    test_far_acks(false);
    test_hostile_receiver();
    test_observe();
    test_live();
    test_updates();
    test_renumbering();
    test_both_ways();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
