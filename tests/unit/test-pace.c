/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Pacing: when data of a guest is to leave. */

#include "acdc-pace.h"
#include "sim.h"
#include "tap.h"

enum { MSS = 1448, RTT_US = 800 };

/* A connection in congestion avoidance whose segments are acknowledged after RTT_US,
 * nothing in flight. */
static void
begin(struct sim *s, bool holds)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    unsigned int i, j;

    params.pace = true;
    sim_init(s, &params, NULL);
    if (holds) {
        acdc_set_host(s->acdc[0], ACDC_HOST_HOLDS);
    }
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    s->guest[1].window = 0xffff;
    sim_connect(s);
    for (i = 0; i < 30; i++) {
        sim_info(s, 0, &fi);
        for (j = 0; j < fi.window / MSS; j++) {
            sim_data(s, 0, MSS, i == 2);
        }
        s->now += RTT_US * 1000;
        packet_free_list(sim_ack(s, 1));
    }
}

static uint64_t
release_of(struct sim *s, uint32_t n)
{
    struct packet *p = sim_on_wire(s, 0, n);
    uint64_t release = p->release;

    packet_free_list(p);
    return release;
}

static void
test_off(void)
{
    struct sim s;
    unsigned int i, held = 0;

    begin(&s, false);
    for (i = 0; i < 40; i++) {
        held += release_of(&s, MSS) != 0;
    }
    is_u64(held, 0, "nothing is to wait where the host does not hold");
    is_u64(sim_counter(&s, 0, ACDC_C_PACED), 0, "nothing counted");
    sim_done(&s);
}

static void
test_even(void)
{
    uint64_t release, last = 0, first = 0;
    struct acdc_flow_info fi;
    unsigned int i, n, early = 0, uneven = 0;
    uint64_t gap, paced;
    struct sim s;

    begin(&s, true);
    paced = sim_counter(&s, 0, ACDC_C_PACED);
    sim_info(&s, 0, &fi);
    n = fi.window / MSS;
    gap = (uint64_t) MSS * fi.srtt_us * 1000 * 5 / 6 / fi.window;
    for (i = 0; i < n; i++) {
        release = release_of(&s, MSS);
        if (i < ACDC_PACE_BURST) {
            early += release != 0;
            continue;
        }
        if (i > ACDC_PACE_BURST) {
            uint64_t apart = release - last;

            uneven += apart < gap * 6 / 7 || apart > gap * 8 / 7;
        } else {
            first = release;
        }
        last = release;
    }
    is_u64(early, 0, "the first ten of a flow that was quiet leave at once");
    is_u64(uneven, 0, "the others at 1.2 windows a round-trip time");
    ok(last - first > gap * (n - ACDC_PACE_BURST - 1) * 9 / 10
       && last - first < gap * (n - ACDC_PACE_BURST - 1) * 11 / 10,
       "in the mean that, too");
    is_u64(sim_counter(&s, 0, ACDC_C_PACED) - paced, n - ACDC_PACE_BURST, "counted");
    sim_done(&s);
}

/* What is to be segmented: so many bytes, 'gso' in a segment. */
static struct packet *
send_segments(struct sim *s, uint32_t bytes, uint16_t gso, bool no_df)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, bytes);

    spec.gso = gso;
    spec.csum_partial = true;
    spec.no_df = no_df;
    s->guest[0].snd_nxt += spec.payload;
    return sim_egress(s, 0, packet_make(&spec));
}

/* 'n' segments in one packet. */
static struct packet *
send_gso(struct sim *s, uint32_t n, bool no_df)
{
    return send_segments(s, n * MSS, MSS, no_df);
}

static void
test_pieces(void)
{
    struct acdc_flow_info fi;
    struct packet *p;
    uint64_t gap, release;
    struct sim s;

    begin(&s, true);
    sim_info(&s, 0, &fi);
    gap = (uint64_t) MSS * fi.srtt_us * 1000 * 5 / 6 / fi.window;
    p = send_gso(&s, ACDC_PACE_BURST, false);
    ok(!p->release && !p->piece, "what may leave at once leaves whole");
    packet_free_list(p);
    p = send_gso(&s, 4, false);
    release = p->release;
    ok(gap > ACDC_PACE_PIECE_NS / 2 && release && p->piece == MSS,
       "what is paced leaves in single segments");
    ok(p->piece_ns > gap * 6 / 7 && p->piece_ns < gap * 8 / 7,
       "one in %u ns, of %"PRIu64, p->piece_ns, gap);
    packet_free_list(p);
    p = send_gso(&s, 1, false);
    ok(p->release > release + gap * 7 / 2 && !p->piece, "then the next one");
    packet_free_list(p);
    p = send_gso(&s, 4, true);
    ok(p->release && !p->piece, "what may be fragmented later leaves whole");
    packet_free_list(p);
    p = send_segments(&s, 4 * MSS, MSS - 200, false);
    is_u64(p->piece, MSS - 200, "where a path takes less a piece is of its segments");
    packet_free_list(p);
    sim_done(&s);

    /* Where a segment takes less than ACDC_PACE_PIECE_NS. */
    begin(&s, true);
    acdc_flow_in(sim_flow(&s, 0))->srtt_us8 /= 8;
    packet_free_list(send_gso(&s, ACDC_PACE_BURST, false));
    p = send_gso(&s, 20, false);
    gap = p->piece ? (uint64_t) p->piece_ns * MSS / p->piece : 0;
    ok(p->piece > MSS && p->piece % MSS == 0 && p->piece_ns <= ACDC_PACE_PIECE_NS
       && p->piece_ns + gap > ACDC_PACE_PIECE_NS * 9 / 10,
       "where segments follow each other faster several, here %u", p->piece / MSS);
    packet_free_list(p);
    sim_done(&s);
}

/* The last segment of a packet in pieces leaves with the last of these: from then on its
 * tail probe waits. */
static void
test_tail(void)
{
    struct acdc_params params = acdc_params_default;
    uint64_t leaves, wait;
    struct packet *p;
    struct sim s;

    begin(&s, true);
    acdc_set_host(s.acdc[0], ACDC_HOST_HOLDS | ACDC_HOST_KEEPS);
    packet_free_list(send_gso(&s, ACDC_PACE_BURST, false));
    params.pace = true;
    params.tail_probe = 1;
    sim_policy(&s, 0, &params);
    wait = 2 * (uint64_t) sim_info_of(&s, 0).srtt_us * 1000;
    p = send_gso(&s, 10, false);
    leaves = p->release + 9 * (uint64_t) p->piece_ns;
    ok(p->piece == MSS && p->kept && p->kept_until >= leaves + wait
       && p->kept_until < leaves + wait + 2 * ACDC_KEEP_US * 1000,
       "the tail is probed two round trips after it left, not %"PRIu64" us",
       p->kept ? (p->kept_until - leaves) / 1000 : 0);
    packet_free_list(p);
    sim_done(&s);
}

/* By how much a mark of a segment cuts the window; 'alpha': what it was then, 'window':
 * before. */
static uint32_t
cut(bool holds, uint32_t *alpha, uint32_t *window)
{
    struct acdc_flow_info fi;
    struct sim s;

    begin(&s, holds);
    sim_info(&s, 0, &fi);
    *window = fi.window;
    sim_data(&s, 0, MSS, true);
    s.now += RTT_US * 1000;
    packet_free_list(sim_ack(&s, 1));
    sim_info(&s, 0, &fi);
    *alpha = fi.alpha;
    sim_done(&s);
    return *window - fi.window;
}

/* What is paced is cut half as deep where little is marked, and as deep where half is. */
static void
test_cut(void)
{
    static const struct {
        uint32_t alpha;
        uint32_t paced;         /* What a cut takes, paced and not, parts of ... */
        uint32_t trains;        /* ... the window. */
    } cases[] = {
        { ACDC_FIX_ONE / 8, ACDC_FIX_ONE / 32, ACDC_FIX_ONE / 16 },
        { ACDC_FIX_ONE / 4, ACDC_FIX_ONE / 16, ACDC_FIX_ONE / 8 },
        { ACDC_FIX_ONE * 3 / 8, ACDC_FIX_ONE * 9 / 64, ACDC_FIX_ONE * 3 / 16 },
        { ACDC_FIX_ONE / 2, ACDC_FIX_ONE / 4, ACDC_FIX_ONE / 4 },
        { ACDC_FIX_ONE, ACDC_FIX_ONE / 2, ACDC_FIX_ONE / 2 },
    };
    struct acdc_params params = acdc_params_default;
    struct acdc_facts facts = { .params = &params, .mss = MSS, .ce = MSS, .total = MSS };
    struct acdc_law law;
    uint32_t alpha, window, part, found;
    unsigned int i;

    for (i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        window = 100 * MSS;
        facts.paced = i % 2;
        part = facts.paced ? cases[i / 2].paced : cases[i / 2].trains;
        acdc_law_init(&law, &facts, ACDC_ALG_DCTCP);
        law.slow_start = false;
        law.wnd = window;
        acdc_marks_set(&law, cases[i / 2].alpha, 0, 0);
        acdc_law_ack(&law, &facts);
        is_u64(window - law.wnd, (uint64_t) window * part >> ACDC_FIX_SHIFT,
               "%s, alpha %u, of %u bytes", facts.paced ? "paced" : "in trains",
               cases[i / 2].alpha, window);
    }

    found = cut(false, &alpha, &window);
    part = (uint32_t) ((uint64_t) window * alpha >> (ACDC_FIX_SHIFT + 1));
    ok(found + 1 >= part && found <= part + 1, "in trains %u bytes, of %u", found, part);
    found = cut(true, &alpha, &window);
    part = (uint32_t) ((uint64_t) window * alpha >> (ACDC_FIX_SHIFT + 2));
    ok(part > 0 && found + 1 >= part && found <= part + 1, "paced %u bytes, of %u", found, part);
}

/* A guest that does not heed its window: no more than a round trip. */
static void
test_bound(void)
{
    uint64_t release = 0, last = 0;
    unsigned int i, back = 0;
    struct acdc_flow_info fi;
    struct sim s;

    begin(&s, true);
    sim_info(&s, 0, &fi);
    for (i = 0; i < 5000; i++) {
        s.now++;                /* Times to leave are coarser. */
        release = release_of(&s, MSS);
        back += release < last;
        last = release;
    }
    is_u64(back, 0, "packets stay in order");
    ok(release > s.now && release - s.now < (uint64_t) fi.srtt_us * 1000 * 3 / 2,
       "held for %"PRIu64" us at most", (release - s.now) / 1000);
    sim_done(&s);
}

/* The first segment in flight is sent again while others are held: what follows does
 * not pass those. */
static void
test_retransmission(void)
{
    uint64_t release = 0, last = 0;
    unsigned int i, back = 0;
    struct acdc_flow_info fi;
    struct tcp_spec again;
    struct packet *p;
    struct sim s;

    begin(&s, true);
    sim_info(&s, 0, &fi);
    again = sim_spec(&s, 0, ACDC_TCP_ACK, MSS);
    for (i = 0; i < fi.window / MSS; i++) {
        last = release_of(&s, MSS);
    }
    p = sim_egress(&s, 0, packet_make(&again));
    is_u64(p->release, 0, "what is sent again does not wait");
    packet_free_list(p);
    for (i = 0; i < 5; i++) {
        release = release_of(&s, MSS);
        back += release <= last;
        last = release;
    }
    is_u64(back, 0, "after a retransmission packets stay in order");
    sim_done(&s);
}

/* Each segment of 20 windows is acknowledged RTT_US after it left, or where nothing
 * holds it 20 us after it was sent.  Five are in flight.  Returns the smoothed
 * round-trip time. */
static uint32_t
flow(struct sim *s, bool held)
{
    enum { N = 1000, FLIGHT = 5 };
    uint32_t una = s->guest[0].snd_nxt;
    struct acdc_flow_info fi;
    uint64_t left[N];
    unsigned int i;

    s->guest[1].rcv_nxt = una;
    for (i = 0; i < N; i++) {
        struct packet *p = sim_on_wire(s, 0, MSS);

        left[i] = p->release ? p->release : s->now;
        packet_free_list(sim_ingress(s, 1, p));
        if (i >= FLIGHT) {
            uint64_t then = left[i - FLIGHT] + RTT_US * 1000;

            s->now = held && then > s->now ? then : s->now + 4000;
            s->guest[1].rcv_nxt = una + (i - FLIGHT + 1) * MSS;
            packet_free_list(sim_ack(s, 1));
        }
    }
    sim_info(s, 0, &fi);
    return fi.srtt_us;
}

static void
test_timing(void)
{
    uint32_t srtt_us;
    struct sim s;

    begin(&s, true);
    srtt_us = flow(&s, true);
    ok(srtt_us > RTT_US * 9 / 10 && srtt_us < RTT_US * 11 / 10,
       "the round-trip time begins where a packet leaves: %u us", srtt_us);
    is_u64(sim_counter(&s, 0, ACDC_C_PACED_UNHELD), 0, "packets were held");
    flow(&s, false);
    ok(sim_counter(&s, 0, ACDC_C_PACED_UNHELD) > 0,
       "that nothing holds them is counted");

    /* As after a queue that is gone. */
    acdc_flow_in(sim_flow(&s, 0))->srtt_us8 = RTT_US * 8 * 16;
    flow(&s, true);
    srtt_us = flow(&s, true);
    ok(srtt_us > RTT_US * 9 / 10 && srtt_us < RTT_US * 12 / 10,
       "a time that is much longer is forgotten: %u us", srtt_us);

    /* What is timed from here on is not what was held. */
    sim_policy(&s, 0, &acdc_params_default);
    srtt_us = flow(&s, false);
    ok(srtt_us < RTT_US / 8, "without pacing a shorter time is one: %u us",
       srtt_us);
    sim_done(&s);
}

static void
test_feedback(void)
{
    unsigned int facks = 0, packs = 0, held = 0, i;
    uint32_t ce, total;
    struct packet *p;
    struct sim s;

    begin(&s, true);
    for (i = 0; i < 40; i++) {
        struct packet *list;

        sim_data(&s, 1, MSS, i & 1);
        list = sim_on_wire(&s, 0, MSS / 2);
        for (p = list; p; p = p->next) {
            if (packet_is_fack(p)) {
                facks++;
                held += p->release != 0;
            } else {
                packs += p->release && packet_feedback(p, &ce, &total);
            }
        }
        packet_free_list(list);
    }
    ok(facks > 20, "%u FACKs", facks);
    is_u64(held, 0, "which do not wait");
    is_u64(packs, 0, "and none on what waits");
    sim_done(&s);
}

static void
test_fin(void)
{
    struct tcp_spec spec;
    uint64_t data = 0;
    struct packet *p;
    struct sim s;
    int i;

    begin(&s, true);
    for (i = 0; i < 40; i++) {
        data = release_of(&s, MSS);
    }
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(p->release, 0, "an ACK does not wait");
    packet_free_list(p);
    spec.flags |= ACDC_TCP_FIN;
    p = sim_egress(&s, 0, packet_make(&spec));
    ok(p->release >= data, "a FIN waits for the data before it");
    packet_free_list(p);
    sim_done(&s);
}

/* The longest that data waits which are sent with others in flight. */
static uint64_t
longest_wait(struct sim *s)
{
    uint64_t wait, longest = 0;
    unsigned int i;

    for (i = 0; i < 20; i++) {
        uint64_t release = release_of(s, MSS);

        wait = release > s->now ? release - s->now : 0;
        longest = wait > longest ? wait : longest;
    }
    return longest;
}

/* A time to leave has half a minute before it wraps. */
enum { WRAP_S = 69, STEP_S = 7 };

static void
test_switched_on(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    unsigned int late, i;
    uint64_t wait;
    struct sim s;

    params.pace = true;
    for (late = STEP_S; late <= WRAP_S; late += STEP_S) {
        begin(&s, true);
        sim_policy(&s, 0, &acdc_params_default);
        for (i = 0; i < late; i++) {
            packet_free_list(sim_ack(&s, 0));
            packet_free_list(sim_ack(&s, 1));
            s.now += 1000 * SIM_MS;
        }
        release_of(&s, MSS);
        sim_policy(&s, 0, &params);
        sim_info(&s, 0, &fi);
        wait = longest_wait(&s) / 1000;
        ok(wait > 0 && wait < 2 * fi.srtt_us,
           "on again after %u s, with data in flight: they wait %"PRIu64" us", late,
           wait);
        sim_done(&s);
    }
}

/* While data is in flight the tenant is only observed for a while. */
static void
test_observed(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    unsigned int late, i;
    uint64_t wait;
    struct sim s;

    for (late = STEP_S; late <= WRAP_S; late += STEP_S) {
        begin(&s, true);
        params.pace = true;
        params.mode = ACDC_MODE_OBSERVE;
        sim_policy(&s, 0, &params);
        sim_data(&s, 0, MSS, false);
        for (i = 0; i < late * 10; i++) {
            s.now += 100 * SIM_MS;
            sim_data(&s, 0, MSS, false);
            s.guest[1].rcv_nxt -= MSS;
            packet_free_list(sim_ack(&s, 1));
            s.guest[1].rcv_nxt += MSS;
        }
        params.mode = ACDC_MODE_ENFORCE;
        sim_policy(&s, 0, &params);
        sim_info(&s, 0, &fi);
        wait = longest_wait(&s) / 1000;
        ok(wait > 0 && wait < 2 * fi.srtt_us,
           "enforced again after %u s: data wait %"PRIu64" us", late, wait);
        sim_done(&s);
    }
}

/* The vSwitch of 'side' forgets, and is told by the other one. */
static void
resume(struct sim *s, int side)
{
    struct acdc_flow_info fi;
    unsigned int i, n = 0;

    sim_forget(s, side);
    for (i = 0; i < 4; i++) {
        struct packet *list = sim_on_wire(s, 0, MSS), *p;

        for (p = list; p; p = p->next) {
            n += p->release && packet_is_fack(p);
        }
        packet_free_list(sim_ingress(s, 1, list));
        s->now += RTT_US * 1000;
        s->guest[1].rcv_nxt = s->guest[0].snd_nxt - MSS;
        packet_free_list(sim_ack(s, 1));
    }
    sim_info(s, side, &fi);
    ok(fi.resumed && fi.capable, "%d is told", side);
    is_u64(n, 0, "by packets that do not wait");
}

static void
test_resumed(void)
{
    unsigned int late, i;
    uint64_t wait, paced;
    uint32_t srtt_us;
    struct sim s;

    for (late = 0; late <= WRAP_S; late += STEP_S) {
        begin(&s, true);
        for (i = 0; i < late; i++) {
            sim_data(&s, 0, MSS, false);
            packet_free_list(sim_ack(&s, 1));
            s.now += 1000 * SIM_MS;
        }
        release_of(&s, MSS);
        resume(&s, 0);
        wait = longest_wait(&s) / 1000;
        ok(wait > 0 && wait < 2 * RTT_US, "after %u s: then data wait %"PRIu64" us", late, wait);
        sim_done(&s);
    }

    begin(&s, true);
    resume(&s, 1);
    resume(&s, 0);
    paced = sim_counter(&s, 0, ACDC_C_PACED);
    srtt_us = flow(&s, true);
    ok(srtt_us > RTT_US * 9 / 10 && srtt_us < RTT_US * 11 / 10,
       "the round-trip time is measured again: %u us", srtt_us);
    paced = sim_counter(&s, 0, ACDC_C_PACED) - paced;
    ok(paced > 0, "by it data are paced: %"PRIu64, paced);
    is_u64(sim_counter(&s, 0, ACDC_C_PACED_UNHELD), 0, "packets were held");
    sim_done(&s);
}

int
main(void)
{
    test_off();
    test_even();
    test_pieces();
    test_tail();
    test_cut();
    test_bound();
    test_retransmission();
    test_timing();
    test_feedback();
    test_fin();
    test_switched_on();
    test_observed();
    test_resumed();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
