/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The law through two engines: growth, cuts, loss, timeout, idle; each algorithm. */

#include "sim.h"
#include "tap.h"

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
        sim_round_trip(&s, 0);
        if (i) {
            sim_lose_data(&s, 1448);
            s.guest[0].snd_nxt -= 1448;
            sim_data(&s, 0, 1448, false);
            packet_free(sim_ack(&s, 1));
        }
        before = sim_info_of(&s, 0).window;
        if (lost) {
            sim_lose_data(&s, 1000);
        } else {
            sim_data(&s, 0, 1000, false);
        }
        for (int k = 1; k < copies; k++) {
            s.now += 300 * SIM_MS;
            s.guest[0].snd_nxt -= 1000;
            sim_lose_data(&s, 1000);
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
        fi = sim_info_of(&s, 0);
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
    sim_connect_as(&s, &params);
    for (i = 0; i < 3; i++) {
        told = sim_round_trip(&s, 0);
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
    ok(told << 7 <= sim_info_of(&s, 0).window + 20 * 1448 + 128,
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

    sim_connect_as(&s, &params);
    sim_round_trip(&s, 0);
    before = sim_info_of(&s, 0).window;
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
    ok(sim_info_of(&s, 0).window >= before, "the window stays");

    /* After a timeout a short segment is enough for two, marks or none. */
    sim_lose_data(&s, 500);
    s.now += 300 * SIM_MS;
    s.guest[0].snd_nxt -= 500;
    sim_data(&s, 0, 500, true);
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 1, "a timeout");
    ok(sim_info_of(&s, 0).window >= 2 * 1448, "window %u", sim_info_of(&s, 0).window);
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
    sim_connect_as(&s, &params);
    is_u64(sim_info_of(&s, 0).window, 14480, "initial window of 10 segments");
    is_u64(sim_round_trip(&s, 0), 10, "all of it can be sent");
    is_u64(sim_info_of(&s, 0).window, 28960, "slow start doubles it");
    is_u64(sim_info_of(&s, 0).srtt_us, 1000, "round-trip time");
    /* And not otherwise. */
    for (i = 0; i < 20; i++) {
        sim_data(&s, 0, 1448, false);
        s.now += SIM_MS;
        packet_free(sim_ack(&s, 1));
    }
    ok(sim_info_of(&s, 0).window <= 28960 + 1448,
       "an application-limited flow banks no credit");
    /* A mark: alpha is 1 still, so half. */
    sim_data(&s, 0, 1448, true);
    before = sim_info_of(&s, 0).window;
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 1, "a mark cuts");
    fi = sim_info_of(&s, 0);
    ok(fi.window < before && fi.window == fi.ssthresh, "to ssthresh");
    sim_done(&s);

    /* All marked: alpha stays 1, the window goes to two segments. */
    sim_connect_as(&s, &params);
    for (i = 0; i < 20; i++) {
        sim_round_trip(&s, 1);
    }
    fi = sim_info_of(&s, 0);
    ok(fi.alpha > ACDC_FIX_ONE - 100, "alpha stays 1");
    is_u64(fi.window, 2 * 1448, "floor of two segments");
    sim_done(&s);

    /* beta 0 with alpha 1: straight to the floor. */
    params.beta = 0;
    sim_connect_as(&s, &params);
    sim_round_trip(&s, 1);
    is_u64(sim_info_of(&s, 0).window, 2 * 1448, "beta 0 gives all away");
    sim_done(&s);

    /* Three duplicate ACKs. */
    params = acdc_params_default;
    sim_connect_as(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.guest[1].rcv_nxt -= 9 * 1448;
    packet_free(sim_ack(&s, 1));
    before = sim_info_of(&s, 0).window;
    for (i = 0; i < 3; i++) {
        uint16_t window;

        is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "%d duplicates", i);
        window = sim_ack_window(&s, 1);
        ok(i < 2 || window == (before + 127) >> 7,
           "a duplicate ACK says the same window");
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "the third is a loss");
    is_u64(sim_info_of(&s, 0).alpha, ACDC_FIX_ONE, "alpha is 1");
    is_u64(sim_info_of(&s, 0).window, before / 2, "the window is cut");
    for (i = 0; i < 10; i++) {
        packet_free(sim_ack(&s, 1));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "once");
    sim_done(&s);

    /* SACK, where the segments behind the hole came in one ACK. */
    sim_connect_as(&s, &params);
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
    sim_connect_as(&s, &params);
    sim_round_trip(&s, 0);
    before = sim_info_of(&s, 0).window;
    for (i = 0; i < 5; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    s.guest[0].snd_nxt -= 5 * 1448;
    sim_data(&s, 0, 1448, false);
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 1, "sent again");
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "no timeout");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "loss");
    is_u64(sim_info_of(&s, 0).window, before / 2, "window");
    is_u64(sim_info_of(&s, 0).ssthresh, before / 2, "ssthresh");
    sim_done(&s);

    /* Restart after idle. */
    sim_connect_as(&s, &params);
    for (i = 0; i < 5; i++) {
        sim_round_trip(&s, 0);
    }
    before = sim_info_of(&s, 0).window;
    ok(before > 100000, "grown to %u", before);
    s.now += 1000 * SIM_MS;
    sim_data(&s, 0, 1448, false);
    is_u64(sim_info_of(&s, 0).window, 14480, "idle: initial window again");
    is_u64(sim_counter(&s, 0, ACDC_C_IDLE_RESTARTS), 1, "counted");
    sim_done(&s);

    /* Longer than 2^31 ms, with keep-alives. */
    sim_connect_as(&s, &params);
    for (i = 0; i < 5; i++) {
        sim_round_trip(&s, 0);
    }
    s.now += 30 * 86400000ull * SIM_MS;
    packet_free(sim_ack(&s, 1));
    sim_data(&s, 0, 1448, false);
    is_u64(sim_info_of(&s, 0).window, 14480, "idle for a month: the same");
    sim_done(&s);

    /* max_window and min_window. */
    params.max_window = 50000;
    sim_connect_as(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_round_trip(&s, 0);
    }
    is_u64(sim_info_of(&s, 0).window, 50000, "max_window caps");
    params.max_window = 0;
    params.min_window = 20000;
    sim_policy(&s, 0, &params);
    for (i = 0; i < 30; i++) {
        sim_round_trip(&s, 1);
    }
    is_u64(sim_info_of(&s, 0).window, 20000, "min_window, set on a live flow");
    params.min_window = 1;
    sim_policy(&s, 0, &params);
    for (i = 0; i < 30; i++) {
        sim_round_trip(&s, 1);
    }
    is_u64(sim_info_of(&s, 0).window, 1448, "but never below a segment");
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
        sim_connect_as(&s, &params);
        for (i = 0; i < 400; i++) {
            /* The network marks above 100 kB. */
            sim_round_trip(&s, sim_info_of(&s, 0).window > 100000);
            mean[b] += sim_info_of(&s, 0).window / 400;
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
        uint32_t before, after;
        int i;

        params.algorithm = (uint8_t) alg;
        sim_connect_as(&s, &params);
        is_u64(sim_info_of(&s, 0).algorithm, (unsigned) alg, "%s", name);
        for (i = 0; i < 4; i++) {
            sim_round_trip(&s, 0);
        }
        before = sim_info_of(&s, 0).window;
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
            sim_round_trip(&s, 1);
            after = sim_info_of(&s, 0).window;
            if (alg == ACDC_ALG_DCTCP) {
                ok(after < before && after > before / 2,
                   "dctcp: less than half is cut once alpha has fallen");
            } else if (alg <= ACDC_ALG_SWIFT) {
                is_u64(after, alg == ACDC_ALG_CUBIC ? before * 7ull / 10 : before / 2,
                       "%s: cut by a mark", name);
            } else {
                /* How much a new one cuts and grows is its own. */
                ok(after < before, "%s: cut by a mark", name);
            }
            before = after;
            for (i = 0; i < 50; i++) {
                sim_round_trip(&s, 0);
            }
            after = sim_info_of(&s, 0).window;
            ok(after > before, "%s: congestion avoidance to %u", name, after);
            ok(alg == ACDC_ALG_CUBIC || alg > ACDC_ALG_SWIFT
               || after - before <= 51 * 1448,
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

/* The ACK that begins growth and the next may come by different threads, the clock of one
 * a little behind. */
static void
test_cubic_clock(void)
{
    enum { MSS = 1448 };
    struct acdc_params params = acdc_params_default;
    struct acdc_facts facts = { .params = &params, .mss = MSS, .srtt_us = 1000 };
    struct acdc_law law;
    unsigned int i;

    params.initial_window = 100;
    acdc_law_init(&law, &facts, ACDC_ALG_CUBIC);
    acdc_law_avoid(&law);
    for (i = 0; i < 300; i++) {
        facts.now_ms = i == 1 ? 4999 : 5000;
        facts.snd_una += MSS;
        facts.window = law.wnd;
        facts.snd_nxt = facts.snd_una + law.wnd;
        give_ack(&law, &facts, MSS, 0, MSS);
    }
    ok(law.wnd < 101 * MSS, "a clock that is behind makes no growth: window %u", law.wnd);
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
            is_u64(sim_info_of(&s, 0).algorithm, (unsigned) alg, "fallback %s",
                   acdc_algorithm_names[alg]);
            for (i = 0; i < 3; i++) {
                sim_round_trip(&s, 0);
            }
            before = sim_info_of(&s, 0).window;
            sim_data(&s, 0, 1448, false);
            spec = sim_spec(&s, 1, ACDC_TCP_ACK | ACDC_TCP_ECE, 0);
            packet_free_list(sim_send(&s, 1, &spec));
            is_u64(sim_info_of(&s, 0).window < before, alg && ecn,
                   "ECE cuts if ECN was negotiated (%d)", ecn);
            sim_done(&s);
        }
    }
}

int
main(void)
{
    test_law();
    for (int i = 0; i < 8; i++) {
        test_timeout(i & 1, i & 2, i & 4 ? 2 : 1);
    }
    test_timeout_reported();
    test_sacked();
    test_beta();
    test_spread_cuts();
    test_algorithms();
    test_set_aside();
    test_cubic_clock();
    test_fallback();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
