/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* On-Ramp: when data of a guest pauses, and for how long. */

#include "acdc-onramp.h"
#include "acdc-timing.h"
#include "sim.h"
#include "tap.h"

enum { MSS = 1448, US = 1000, T = 30 };

static void
begin(struct sim *s, enum acdc_algorithm algorithm, bool holds)
{
    struct acdc_params p = acdc_params_default;

    p.on_ramp = T;
    p.algorithm = (uint8_t) algorithm;
    sim_init(s, &p, &p);
    if (holds) {
        acdc_set_host(s->acdc[0], ACDC_HOST_HOLDS);
    }
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    sim_connect(s);
}

/* A segment, which takes 'there' us once it leaves, less 'effect' percent of what it was
 * held, and its ACK, 'back' us.  Returns how long it was held, us. */
static uint64_t
round_trip_after(struct sim *s, uint64_t there, uint32_t effect, uint32_t back)
{
    struct packet *p = sim_on_wire(s, 0, MSS);
    uint64_t held = p->release ? p->release - s->now : 0;

    p->release = 0;
    s->now += held + there * US - held * effect / 100;
    packet_free_list(sim_ingress(s, 1, p));
    s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    p = sim_on_wire(s, 1, 0);
    s->now += (uint64_t) back * US;
    packet_free_list(sim_ingress(s, 0, p));
    return held / US;
}

static uint64_t
round_trip(struct sim *s, uint32_t there, uint32_t back)
{
    return round_trip_after(s, there, 0, back);
}

static void
test_pause(enum acdc_algorithm algorithm)
{
    struct sim s;
    int i;

    begin(&s, algorithm, true);
    for (i = 0; i < 5; i++) {
        is_u64(round_trip(&s, 20, 20), 0, "no queue, no pause");
    }
    is_u64(round_trip(&s, 20 + T, 20), 0, "the delay is at the threshold");
    is_u64(round_trip(&s, 20 + T + 70, 20), 0, "so there was none, nor before this one");
    is_u64(round_trip(&s, 20, 20), 70, "%s: a pause by what is beyond the threshold",
           acdc_algorithm_names[algorithm]);
    is_u64(round_trip(&s, 20, 120), 0, "and then none");
    is_u64(round_trip(&s, 20, 20), 0, "a queue on the way back makes none");
    is_u64(sim_counter(&s, 0, ACDC_C_ON_RAMP_PAUSES), 1, "it is counted");
    is_u64(sim_counter(&s, 0, ACDC_C_ON_RAMP_US), 70, "with its time");
    sim_done(&s);
}

static void
test_bounds(void)
{
    uint64_t worst = 0, held;
    struct packet *p;
    struct sim s;
    int i;

    begin(&s, ACDC_ALG_DCTCP, true);
    round_trip(&s, 20, 20);
    for (i = 0; i < 100; i++) {
        held = round_trip(&s, 50000, 20);
        worst = held > worst ? held : worst;
    }
    is_u64(worst, ACDC_ON_RAMP_MOST_US, "no pause is longer than 10 ms");
    ok(sim_counter(&s, 0, ACDC_C_ON_RAMP_CUT) > 90, "which is counted");

    /* The pause is over, be it for so long that its end comes round. */
    for (i = 1; i < 40; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, MSS);

        s.now += 1677721 * (uint64_t) US;
        p = sim_egress(&s, 0, packet_make(&spec));
        worst = p->release ? p->release - s.now : 0;
        if (i == 1) {
            is_u64(worst, 0, "when it is over data leaves");
        }
        packet_free_list(p);
    }
    ok(worst <= ACDC_ON_RAMP_MOST_US * US, "for good");
    sim_done(&s);
}

/* Of a queue that takes 'queue' us without pauses, and less by 'effect' percent of them:
 * the mean pause of late rounds. */
static uint64_t
settle(uint32_t queue, uint32_t effect)
{
    uint64_t sum = 0;
    struct sim s;
    int i;

    begin(&s, ACDC_ALG_DCTCP, true);
    round_trip(&s, 20, 20);
    for (i = 0; i < 300; i++) {
        uint64_t held = round_trip_after(&s, 20 + queue, effect, 20);

        sum += i >= 200 ? held : 0;
    }
    sim_done(&s);
    return sum / 100;
}

static void
test_corrected(void)
{
    uint64_t pause = settle(400, 100);

    /* By O - T alone it would be half of what is too much. */
    ok(pause > (400 - T) * 5 / 8 && pause <= 400 - T,
       "where pauses drain the queue they take into account that they did: %"PRIu64" us",
       pause);
    is_u64(settle(400, 0), 400 - T, "where others fill it they are no longer than that");
    is_u64(settle(T, 100), 0, "what is below the threshold makes none");
}

/* As round_trip(), but the ACK comes 'guest' us after the data. */
static uint64_t
late_ack(struct sim *s, uint32_t there, uint32_t guest)
{
    struct packet *p = sim_on_wire(s, 0, MSS);
    uint64_t held = p->release ? p->release - s->now : 0;

    p->release = 0;
    s->now += held + there * (uint64_t) US;
    packet_free_list(sim_ingress(s, 1, p));
    s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    s->now += guest * (uint64_t) US;
    p = sim_on_wire(s, 1, 0);
    s->now += 20 * US;
    packet_free_list(sim_ingress(s, 0, p));
    return held / US;
}

/* A guest that its hypervisor does not run for 100 ms, paths that change, reports that are
 * lost: no pause is longer than it has to be, and data goes on. */
static void
test_changes(void)
{
    enum { GUEST = 100000, LONGER = 2000 };
    uint64_t worst = 0, pauses, held;
    struct packet *p;
    struct sim s;
    int i;

    begin(&s, ACDC_ALG_DCTCP, true);
    for (i = 0; i < 10; i++) {
        held = late_ack(&s, 20, i % 2 ? GUEST : 0);
        worst = held > worst ? held : worst;
    }
    is_u64(worst, 0, "a far guest that does not run makes no pause");
    late_ack(&s, 20 + 300, GUEST);
    is_u64(late_ack(&s, 20, 0), 300 - T, "nor a longer one");
    round_trip(&s, 20 + 300, 20);
    s.now += GUEST * (uint64_t) US;
    is_u64(round_trip(&s, 20, 20), 0, "the sending guest's own time is not added");

    /* For so long as the least may be of the path that was. */
    worst = 0;
    s.now += 20000 * SIM_MS;
    round_trip(&s, 20, 20);
    pauses = sim_counter(&s, 0, ACDC_C_ON_RAMP_PAUSES);
    for (i = 0; i < 6000; i++) {
        held = round_trip(&s, 20 + LONGER, 20);
        worst = held > worst ? held : worst;
    }
    ok(worst >= LONGER - T && worst < LONGER * 5 / 4,
       "a path that is longer is a queue, %"PRIu64" us", worst);
    ok(sim_counter(&s, 0, ACDC_C_ON_RAMP_PAUSES) > pauses, "it is counted");
    is_u64(round_trip(&s, 20 + LONGER, 20), 0, "for 16 s at most");
    for (i = 0, worst = 0; i < 100; i++) {
        held = round_trip(&s, 20, 20);
        worst = held > worst ? held : worst;
    }
    is_u64(worst, 0, "one that is shorter makes no pause");
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_CLOCK), 0, "nor is that a clock's doing");

    round_trip(&s, 20 + 300, 20);
    pauses = sim_counter(&s, 0, ACDC_C_REPORTS);
    for (i = 0, worst = 0; i < 100; i++) {
        p = sim_on_wire(&s, 0, MSS);
        held = p->release ? (p->release - s.now) / US : 0;
        worst = i && held > worst ? held : worst;
        s.now += (held + 40) * US;
        packet_free(p);
    }
    is_u64(worst, 0, "where reports are lost there is the pause that was, and no other");
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS), pauses, "as was counted");
    sim_done(&s);
}

/* ACKs, reports and what is no connection's data do not wait. */
static void
test_others(void)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    begin(&s, ACDC_ALG_CUBIC, true);
    round_trip(&s, 20, 20);
    round_trip(&s, 20, 20);
    round_trip(&s, 300, 20);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(p->release, 0, "an ACK does not wait");
    packet_free_list(p);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(p->release - s.now, 250 * US, "a FIN does");
    packet_free_list(p);
    sim_done(&s);
}

/* What waits leaves in the order in which it came. */
static void
test_order(void)
{
    uint64_t release = 0;
    unsigned int i, n = 0, back = 0;
    struct packet *p;
    struct sim s;

    begin(&s, ACDC_ALG_DCTCP, true);
    round_trip(&s, 20, 20);
    round_trip(&s, 500, 20);
    for (i = 0; i < 100; i++) {
        p = sim_on_wire(&s, 0, MSS);
        back += p->release < release;
        n += p->release > s.now;
        release = p->release;
        packet_free(p);
        s.now += 1211;
    }
    is_u64(n, 100, "all wait");
    is_u64(back, 0, "and none leaves before the one before it");
    sim_done(&s);
}

/* What pacing spreads begins where the pause ends. */
static void
test_pace(void)
{
    struct acdc_params params = acdc_params_default;
    uint64_t first = 0, last = 0;
    unsigned int i, back = 0;
    struct sim s;

    begin(&s, ACDC_ALG_DCTCP, true);
    params.on_ramp = T;
    params.pace = true;
    sim_policy(&s, 0, &params);
    for (i = 0; i < 20; i++) {
        round_trip(&s, 20, 20);
    }
    round_trip(&s, 800, 20);
    for (i = 0; i < 20; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, MSS);
        struct packet *p = sim_egress(&s, 0, packet_make(&spec));

        s.guest[0].snd_nxt += MSS;
        back += p->release < last;
        first = first ? first : p->release;
        last = p->release;
        packet_free_list(p);
    }
    is_u64(first - s.now, 750 * US, "with pacing the first of a window waits for the end");
    ok(last > first + 50 * US, "and the last longer, by %"PRIu64" us", (last - first) / US);
    is_u64(back, 0, "in order");
    sim_done(&s);
}

static void
test_off(void)
{
    uint64_t held = 0;
    struct sim s;
    int i;

    begin(&s, ACDC_ALG_DCTCP, false);
    for (i = 0; i < 10; i++) {
        held += round_trip(&s, i > 4 ? 300 : 20, 20);
    }
    is_u64(held, 0, "nothing waits where the host does not hold");
    is_u64(sim_counter(&s, 0, ACDC_C_ON_RAMP_PAUSES), 0, "nor is a pause counted");
    sim_done(&s);

    begin(&s, ACDC_ALG_DCTCP, true);
    for (i = 0; i < 10; i++) {
        round_trip(&s, i > 8 ? 300 : 20, 20);
    }
    sim_policy(&s, 0, &acdc_params_default);
    round_trip(&s, 20, 20);
    is_u64(round_trip(&s, 300, 20), 0, "without the parameter");
    is_u64(round_trip(&s, 20, 20), 0, "there are no more pauses");
    sim_done(&s);
}

int
main(void)
{
    test_pause(ACDC_ALG_NONE);
    test_pause(ACDC_ALG_RENO);
    test_pause(ACDC_ALG_CUBIC);
    test_pause(ACDC_ALG_DCTCP);
    test_bounds();
    test_corrected();
    test_changes();
    test_others();
    test_order();
    test_pace();
    test_off();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
