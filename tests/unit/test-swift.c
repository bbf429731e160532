/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The algorithm swift through two engines: what reports say of queues, and, where there
 * are none, round-trip times. */

#include "acdc-timing.h"
#include "sim.h"
#include "tap.h"

enum { MSS = 1448, US = 1000, WAY = 200, MOST = 1000 };

/* 'reports': whether there is AC/DC at the other end. */
static void
begin(struct sim *s, bool reports)
{
    struct acdc_params p = acdc_params_default;

    p.algorithm = p.fallback = ACDC_ALG_SWIFT;
    sim_init(s, &p, reports ? &p : NULL);
    if (!reports) {
        sim_remove_acdc(s, 1);
    }
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    sim_syn(s);
    s->now += WAY * US;
    sim_synack(s);
    s->now += WAY * US;
    packet_free(sim_ack(s, 0));
}

/* A window of data, which waits for 'there' us in queues, and its ACKs, for 'back'.
 * Returns the window that follows, bytes. */
static uint32_t
round_trip(struct sim *s, uint32_t there, uint32_t back)
{
    uint32_t n = sim_info_of(s, 0).window / MSS, i;
    struct packet *data[MOST], *acks[MOST];

    n = n < MOST ? n : MOST;
    for (i = 0; i < n; i++) {
        data[i] = sim_on_wire(s, 0, MSS);
    }
    s->now += (uint64_t) (WAY + there) * US;
    for (i = 0; i < n; i++) {
        packet_free_list(sim_ingress(s, 1, data[i]));
        s->guest[1].rcv_nxt += MSS;
        acks[i] = sim_on_wire(s, 1, 0);
    }
    s->now += (uint64_t) (WAY + back) * US;
    for (i = 0; i < n; i++) {
        packet_free_list(sim_ingress(s, 0, acks[i]));
    }
    return sim_info_of(s, 0).window;
}

/* Rounds without a queue, so that what is measured next is of the next round. */
static uint32_t
settle(struct sim *s)
{
    round_trip(s, 0, 0);
    round_trip(s, 0, 0);
    return round_trip(s, 0, 0);
}

static void
test_delay(bool reports)
{
    const char *how = reports ? "reports" : "round-trip times";
    uint32_t before, after, n;
    struct sim s;
    int i;

    begin(&s, reports);
    before = sim_info_of(&s, 0).window;
    for (i = 0; i < 3; i++) {
        after = round_trip(&s, 0, 0);
    }
    ok(after >= 7 * before, "%s: slow start to %u", how, after);
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS) > 2, reports, "%s are told", how);

    round_trip(&s, 400, 0);
    after = round_trip(&s, 0, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 1, "a queue ends it");
    ok(after < 12 * before, "by a cut to %u", after);

    /* Below the target, 25 us and 10 to 30 more. */
    settle(&s);
    before = settle(&s);
    n = (uint32_t) sim_counter(&s, 0, ACDC_C_CUTS_ECN);
    for (i = 0; i < 10; i++) {
        after = round_trip(&s, 30, 0);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), n, "a short queue is none");
    ok(after >= before + 8 * MSS && after <= before + 11 * MSS,
       "a segment a round trip, %u bytes in ten", after - before);

    /* Others are emptied, by half of the window at most. */
    before = settle(&s);
    round_trip(&s, 2000, 0);
    after = round_trip(&s, 0, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), n + 1, "a long one cuts");
    ok(after <= before / 2 + 2 * MSS && after >= before / 2, "by half at most, %u to %u",
       before, after);
    for (i = 0; i < 20; i++) {
        before = settle(&s);
    }
    round_trip(&s, 70, 0);
    after = round_trip(&s, 0, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), n + 2, "one a little too long");
    /* The smoothed round trip is between 400 and 470 us, and has an eighth of it. */
    ok(after <= before - before * 70 / 410 + 2 * MSS
       && after >= before - before * 70 / 400, "by its part, %u to %u", before, after);

    /* Queues on the way back. */
    before = settle(&s);
    for (i = 0; i < 6; i++) {
        after = round_trip(&s, 0, 400);
    }
    is_u64(after > before, reports, "%s tell %s", how,
           reports ? "nothing of the way back" : "of both ways");
    sim_done(&s);
}

/* A queue that stays cuts once a round trip at most, to the floor and not below, and nothing
 * grows while it is there. */
static void
test_held(void)
{
    uint32_t before, after, cuts = 0, n;
    struct sim s;
    int i;

    begin(&s, true);
    settle(&s);
    for (i = 0; i < 20; i++) {
        before = sim_info_of(&s, 0).window;
        n = (uint32_t) sim_counter(&s, 0, ACDC_C_CUTS_ECN);
        after = round_trip(&s, 5000, 0);
        n = (uint32_t) sim_counter(&s, 0, ACDC_C_CUTS_ECN) - n;
        ok(n <= 1, "one cut a round trip");
        ok(!cuts || after <= before, "no growth, %u to %u", before, after);
        cuts += n;
    }
    ok(cuts > 4, "%u cuts", cuts);
    is_u64(after, 2 * MSS, "to two segments");
    for (i = 0; i < 20; i++) {
        after = round_trip(&s, 0, 0);
    }
    ok(after > 12 * MSS, "and up again to %u when it is gone", after);
    sim_done(&s);
}

/* Without reports: the path becomes longer, which is no queue. */
static void
test_longer_path(void)
{
    uint32_t before, after = 0;
    struct sim s;
    int i;

    begin(&s, false);
    before = settle(&s);
    for (i = 0; i < 20; i++) {
        after = round_trip(&s, 50000, 50000);
    }
    ok(after < before, "at first it is taken for one: %u of %u", after, before);
    for (i = 0; i < 250; i++) {
        after = round_trip(&s, 50000, 50000);
    }
    ok(after > before, "but not after 16 s: %u", after);
    sim_done(&s);
}

int
main(void)
{
    test_delay(true);
    test_delay(false);
    test_held();
    test_longer_path();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
