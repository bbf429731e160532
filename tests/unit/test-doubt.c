/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What seemed to be lost and was not: the window and alpha are as before.  And what
 * was. */

#include "sim.h"
#include "tap.h"

enum { MSS = 1448, SEGMENTS = 20, NOTHING = -1 };

struct how {
    bool v6, alone, no_sack;    /* 'alone': the other end has no AC/DC. */
};

/* A connection in congestion avoidance, alpha well below 1, of which SEGMENTS are in
 * flight; what it had before. */
struct start {
    uint32_t una, window, alpha;
};

static uint32_t
window(const struct sim *s)
{
    return sim_info_of(s, 0).window;
}

static struct start
begin(struct sim *s, const struct how *how)
{
    struct acdc_params params = acdc_params_default;
    struct start start;
    unsigned int i;

    params.fallback = ACDC_ALG_RENO;
    params.max_window = 100 * MSS;
    sim_init(s, &params, &params);
    if (how->alone) {
        sim_remove_acdc(s, 1);
    }
    s->v6 = how->v6;
    s->guest[0].no_sack = s->guest[1].no_sack = how->no_sack;
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    sim_connect(s);
    for (i = 0; i < 30; i++) {
        sim_round_trip(s, i == 4 ? 1 : 0);
    }
    start.una = s->guest[0].snd_nxt;
    for (i = 0; i < SEGMENTS; i++) {
        sim_data(s, 0, MSS, false);
    }
    start.window = window(s);
    start.alpha = sim_info_of(s, 0).alpha;
    return start;
}

/* Guest 0 sends segment 'i' of those in flight again. */
static void
again(struct sim *s, const struct start *start, int i, bool arrives)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, MSS);
    struct packet *p;

    spec.seq = start->una + (uint32_t) i * MSS;
    p = sim_egress(s, 0, packet_make(&spec));
    packet_free_list(arrives ? sim_ingress(s, 1, p) : p);
}

/* Guest 1 acknowledges 'acked' of the segments, and has a SACK block [from, to) of them
 * first, if 'from' is not NOTHING, and then one of [hole, SEGMENTS). */
static void
ack(struct sim *s, const struct start *start, int acked, int from, int to, int hole)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_ACK, 0);
    const uint32_t una = start->una;
    uint32_t edges[4];
    unsigned int n = 0;

    spec.ack = una + (uint32_t) acked * MSS;
    if (from != NOTHING) {
        edges[n++] = una + (uint32_t) from * MSS;
        edges[n++] = una + (uint32_t) to * MSS;
    }
    if (hole != NOTHING) {
        edges[n++] = una + (uint32_t) hole * MSS;
        edges[n++] = una + SEGMENTS * MSS;
    }
    if (n) {
        opt_sack(&spec, n / 2, edges);
    }
    packet_free_list(sim_send(s, 1, &spec));
}

static void
is_as_before(const struct sim *s, const struct start *start, const char *what)
{
    struct acdc_flow_info fi = sim_info_of(s, 0);

    ok(fi.window >= start->window - 256 && fi.window <= start->window + 2 * MSS,
       "%s: the window is %u as before (%u)", what, fi.window, start->window);
    ok(fi.alpha <= start->alpha && fi.alpha + ACDC_FIX_ONE / 8 >= start->alpha,
       "%s: and alpha %u (%u)", what, fi.alpha, start->alpha);
}

static void
is_cut(const struct sim *s, const struct start *start, const char *what)
{
    ok(window(s) < start->window / 10 * 6, "%s: the window is cut (%u of %u)", what, window(s),
       start->window);
}

/* The first is overtaken, and the guest sends it again. */
static struct start
overtake(struct sim *s, const struct how *how)
{
    struct start start = begin(s, how);

    ack(s, &start, 0, NOTHING, 0, 1);
    is_u64(sim_counter(s, 0, ACDC_C_CUTS_LOSS), 1, "a hole is taken for a loss");
    is_cut(s, &start, "sent again");
    again(s, &start, 0, true);
    return start;
}

static void
test_late(const struct how *how)
{
    struct start start;
    struct sim s;

    printf("# IPv%d, AC/DC at %d end(s)\n", how->v6 ? 6 : 4, how->alone ? 1 : 2);
    start = overtake(&s, how);
    ack(&s, &start, 10, NOTHING, 0, NOTHING);
    is_cut(&s, &start, "the hole is filled, by which of both");
    ack(&s, &start, 10, 0, 1, NOTHING);
    is_as_before(&s, &start, "it came twice");
    ok(!(sim_flow(&s, 0)->flags & ACDC_F_DOUBT), "that is settled");

    /* Two were sent again, one of these was lost. */
    sim_done(&s);
    start = overtake(&s, how);
    again(&s, &start, 1, false);
    ack(&s, &start, 10, 0, 1, NOTHING);
    is_cut(&s, &start, "one of two");
    sim_round_trip(&s, 0);
    sim_round_trip(&s, 0);
    sim_round_trip(&s, 0);
    ok(!(sim_flow(&s, 0)->flags & ACDC_F_DOUBT), "it was lost");
    ack(&s, &start, SEGMENTS, 1, 2, NOTHING);
    is_cut(&s, &start, "what is said later is of no use");
    sim_done(&s);

    /* Without SACK, the other end's counts alone. */
    if (!how->alone) {
        struct how no_sack = *how;

        no_sack.no_sack = true;
        start = begin(&s, &no_sack);
        again(&s, &start, 0, true);
        is_cut(&s, &start, "sent again");
        ack(&s, &start, 10, NOTHING, 0, NOTHING);
        is_cut(&s, &start, "not all is acknowledged");
        ack(&s, &start, SEGMENTS, NOTHING, 0, NOTHING);
        is_as_before(&s, &start, "all arrived");
        sim_done(&s);
        start = begin(&s, &no_sack);
        again(&s, &start, 0, false);
        ack(&s, &start, SEGMENTS, NOTHING, 0, NOTHING);
        is_cut(&s, &start, "one of both did");
        sim_done(&s);
    }
}

/* The timer was early: what is acknowledged was on its way. */
static void
test_timer(const struct how *how)
{
    struct start start;
    struct sim s;

    start = begin(&s, how);
    s.now += 300 * SIM_MS;
    again(&s, &start, 0, true);
    ack(&s, &start, 10, NOTHING, 0, NOTHING);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 1, "taken for a timeout");
    ok(window(&s) <= 12 * MSS, "the window is %u", window(&s));
    ack(&s, &start, 12, 0, 1, NOTHING);
    is_as_before(&s, &start, "it was early");
    sim_done(&s);

    start = begin(&s, how);
    s.now += 300 * SIM_MS;
    again(&s, &start, 0, true);
    ack(&s, &start, 10, 0, 1, NOTHING);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), how->alone, "said at once: no timeout at all");
    is_as_before(&s, &start, "said at once");
    sim_done(&s);

    /* A restart after a pause is of the window that is used. */
    start = begin(&s, how);
    s.now += 300 * SIM_MS;
    again(&s, &start, 0, true);
    ack(&s, &start, SEGMENTS, NOTHING, 0, how->alone ? NOTHING : 19);
    s.now += 1000 * SIM_MS;
    sim_data(&s, 0, MSS, false);
    ack(&s, &start, SEGMENTS, 0, 1, NOTHING);
    ok(window(&s) <= 14480, "after a pause the window is %u", window(&s));
    sim_done(&s);
}

/* A SACK says that a segment behind the hole has arrived.  RACK waits some ticks for what
 * that may only have overtaken; the retransmission timer is later. */
static void
test_rack(const struct how *how, unsigned int ms, unsigned int timeouts)
{
    struct start start;
    struct sim s;

    start = begin(&s, how);
    ack(&s, &start, SEGMENTS - 2, NOTHING, 0, SEGMENTS - 1);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "one segment beyond a hole");
    s.now += ms * SIM_MS;
    again(&s, &start, SEGMENTS - 2, false);
    ack(&s, &start, SEGMENTS, NOTHING, 0, NOTHING);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), timeouts, "sent again after %u ms", ms);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), !timeouts, "a loss");
    is_cut(&s, &start, "lost");
    sim_done(&s);
}

/* However much is lost, that all is acknowledged in the end does not mean that nothing
 * was.  What is sent again after that, and has arrived, is known to have. */
static void
test_much_lost(uint32_t segments, unsigned int ms)
{
    struct acdc_params params = acdc_params_default;
    struct start start = { .una = 0 };
    struct sim s;
    uint32_t i;

    sim_connect_as(&s, &params);
    for (i = 0; i < 9; i++) {
        sim_round_trip(&s, 0);
    }
    start.window = window(&s);
    start.una = s.guest[0].snd_nxt;
    for (i = 0; i < segments; i++) {
        sim_lose_data(&s, MSS);
    }
    s.now += ms * SIM_MS;
    s.guest[0].snd_nxt = start.una;
    for (i = 0; i < segments; i++) {
        sim_data(&s, 0, MSS, false);
        if (i % 4 == 3 || i == segments - 1) {
            s.now += SIM_MS / 10;
            packet_free(sim_ack(&s, 1));
        }
    }
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS) + sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1,
           "%u segments are lost, sent again after %u ms", segments, ms);
    is_cut(&s, &start, "all is acknowledged");
    sim_round_trip(&s, 0);
    sim_round_trip(&s, 0);
    start.una = s.guest[0].snd_nxt;
    start.window = window(&s);
    for (i = 0; i < SEGMENTS; i++) {
        sim_data(&s, 0, MSS, false);
    }
    s.now += 300 * SIM_MS;
    again(&s, &start, 0, true);
    ack(&s, &start, SEGMENTS, NOTHING, 0, NOTHING);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), ms >= 300,
           "sent again though it has arrived");
    sim_done(&s);
}

/* Marks and losses count all the same. */
static void
test_since(void)
{
    static const struct how usual;
    struct start start;
    uint32_t before;
    struct sim s;
    int i;

    start = overtake(&s, &usual);
    ack(&s, &start, SEGMENTS, NOTHING, 0, NOTHING);
    again(&s, &start, 1, true);
    sim_round_trip(&s, 1);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 2, "marks cut");
    before = window(&s);
    ack(&s, &start, SEGMENTS, 0, 2, NOTHING);
    is_u64(window(&s), before, "then the window stays");
    ok(sim_info_of(&s, 0).alpha < ACDC_FIX_ONE / 3 * 2, "alpha does not (%u)",
       sim_info_of(&s, 0).alpha);
    sim_done(&s);

    /* Whoever sends again for nothing, time and again, is not spared of marks. */
    start = begin(&s, &usual);
    for (i = 0; i < 60; i++) {
        ack(&s, &start, SEGMENTS, NOTHING, 0, NOTHING);
        start.una = s.guest[0].snd_nxt;
        before = window(&s) / MSS;
        for (uint32_t k = 0; k < before; k++) {
            sim_data(&s, 0, MSS, true);
        }
        again(&s, &start, 0, true);
        s.now += SIM_MS;
        ack(&s, &start, 1, NOTHING, 0, NOTHING);
        ack(&s, &start, 1, 0, 1, NOTHING);
        packet_free(sim_ack(&s, 1));
    }
    ok(sim_info_of(&s, 0).alpha > ACDC_FIX_ONE / 2, "all but these is marked: alpha %u",
       sim_info_of(&s, 0).alpha);
    ok(window(&s) <= 3 * MSS, "window %u", window(&s));
    sim_done(&s);
}

/* D-SACK of what was not sent again, or more of it, gives no more than there was. */
static void
test_forged(void)
{
    static const struct how usual;
    struct start start;
    uint32_t most;
    struct sim s;
    int i;

    start = begin(&s, &usual);
    most = start.window + (SEGMENTS + 2) * MSS;
    for (i = 0; i < 10; i++) {
        ack(&s, &start, 5, 0, 5, NOTHING);
    }
    ok(window(&s) <= most, "for nothing");
    again(&s, &start, 6, false);
    for (i = 0; i < 10; i++) {
        ack(&s, &start, 7, 0, 5, NOTHING);
    }
    ok(window(&s) <= most, "as much as before, %u of %u", window(&s), most);
    sim_round_trip(&s, 0);
    again(&s, &start, 10, false);
    ack(&s, &start, SEGMENTS, 19, 18, NOTHING);
    ack(&s, &start, SEGMENTS, SEGMENTS, 0, NOTHING);
    sim_done(&s);
}

int
main(void)
{
    static const struct how ways[] = {
        { .v6 = false }, { .v6 = true }, { .alone = true }, { .v6 = true, .alone = true },
    };
    unsigned int i;

    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        test_late(&ways[i]);
        test_timer(&ways[i]);
        test_rack(&ways[i], 20, 0);
        test_rack(&ways[i], 210, 1);
    }
    for (i = 100; i <= 1500; i += 200) {
        test_much_lost(i, 1);
        test_much_lost(i, 300);
    }
    test_since();
    test_forged();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
