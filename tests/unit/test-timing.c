/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Time on the wire: marked segments, reports of them, and what these say. */

#include "acdc-timing.h"
#include "sim.h"
#include "tap.h"

enum { MSS = 1448, US = 1000 };

/* Two ends; 'on' of each: whether its parameters need timing. */
static void
begin(struct sim *s, bool on0, bool on1)
{
    struct acdc_params p[2] = { acdc_params_default, acdc_params_default };

    p[0].on_ramp = on0 ? 30 : 0;
    p[1].on_ramp = on1 ? 30 : 0;
    sim_init(s, &p[0], &p[1]);
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    sim_connect(s);
}

static uint8_t
capability(const struct packet *p)
{
    struct acdc_pkt pkt;

    return packet_parse(p, &pkt) && (pkt.opt_flags & ACDC_O_CAPABILITY)
           ? acdc_pkt_tcp(&pkt)[pkt.cap_ofs + ACDC_OPT_BODY_OFS + 1] : 0xff;
}

static bool
is_marked(const struct packet *p)
{
    return packet_reserved(p) & ACDC_RES_FACK;
}

static bool
is_report(const struct packet *p)
{
    struct acdc_pkt pkt;

    return packet_parse(p, &pkt) && (pkt.opt_flags & ACDC_O_REPORT);
}

/* A segment takes 'there' us, stays with guest 1 for 'guest' us, and its ACK takes
 * 'back' us. */
static void
round_trip(struct sim *s, uint32_t there, uint32_t guest, uint32_t back)
{
    struct packet *p = sim_on_wire(s, 0, MSS);

    s->now += (uint64_t) there * US;
    packet_free_list(sim_ingress(s, 1, p));
    s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    s->now += (uint64_t) guest * US;
    p = sim_on_wire(s, 1, 0);
    s->now += (uint64_t) back * US;
    packet_free_list(sim_ingress(s, 0, p));
}

static struct acdc_facts
facts(const struct sim *s)
{
    struct acdc_facts e = { 0 };

    acdc_timing_facts(sim_flow(s, 0), &e);
    return e;
}

static void
test_handshake(void)
{
    const uint8_t old = ACDC_CAP_NOT_ECT | ACDC_CAP_RESUME;
    struct sim s;
    int on0, on1;

    for (on0 = 0; on0 < 2; on0++) {
        for (on1 = 0; on1 < 2; on1++) {
            const uint8_t flags = (uint8_t) (on0 ? old | ACDC_CAP_TIMING : old);

            begin(&s, on0, on1);
            ok(capability(s.wire[0]) == (flags | ACDC_CAP_SCALES)
               && capability(s.wire[1]) == flags,
               "what both ends say where %s need it",
               on0 && on1 ? "both" : on0 ? "who connects does"
               : on1 ? "who listens does" : "none does");
            round_trip(&s, 10, 0, 10);
            round_trip(&s, 10, 0, 10);
            is_u64(sim_counter(&s, 0, ACDC_C_TIMED) != 0, (uint64_t) on0,
                   "then data is marked or not");
            is_u64(acdc_flow_in(sim_flow(&s, 0))->has_more, (uint64_t) on0,
                   "and the flow has what it needs");
            sim_done(&s);
        }
    }
}

/* The other end does not say it. */
static void
test_old_peer(void)
{
    struct acdc_params p = acdc_params_default;
    struct tcp_spec spec;
    struct sim s;

    p.on_ramp = 30;
    sim_init(&s, &p, NULL);
    sim_remove_acdc(&s, 1);
    sim_syn(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    opt_mss(&spec, 1460);
    opt_capability(&spec, ACDC_OPT_EXID);
    spec.opts[spec.opts_len - 3] = ACDC_CAP_NOT_ECT;
    packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    s.guest[0].rcv_nxt = s.guest[1].snd_nxt;
    round_trip(&s, 10, 0, 10);
    round_trip(&s, 10, 0, 10);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMED), 0, "an old peer gets no marked data");
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_CAPABLE), 1, "all else as ever");
    sim_done(&s);
}

static void
test_marks(void)
{
    unsigned int i, n = 0, marked = 0;
    struct packet *p;
    struct sim s;

    begin(&s, true, true);
    round_trip(&s, 10, 0, 10);
    for (i = 0; i < 5; i++) {
        p = sim_on_wire(&s, 0, MSS);
        marked += is_marked(p);
        p = sim_ingress(&s, 1, p);
        n += is_marked(p) || !packet_csum_ok(p);
        packet_free_list(p);
    }
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    is_u64(marked, 1, "one segment of a window is marked");
    is_u64(n, 0, "which the far guest does not see");
    p = sim_on_wire(&s, 1, 0);
    ok(is_report(p) && packet_csum_ok(p), "its next ACK has a report");
    p = sim_ingress(&s, 0, p);
    ok(!packet_is_ours(p) && packet_csum_ok(p), "the guest gets an ACK");
    packet_free_list(p);
    p = sim_on_wire(&s, 1, 0);
    ok(!is_report(p), "the one after that has none");
    packet_free_list(p);
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_IGNORED), 0, "none was ignored");
    sim_done(&s);
}

static void
test_rtt(void)
{
    struct acdc_facts e;
    struct sim s;
    int i;

    begin(&s, true, true);
    for (i = 0; i < 10; i++) {
        round_trip(&s, 20, 40000, 20);
    }
    e = facts(&s);
    is_u64(e.net_rtt_us, 40, "the network's round trip is without the far guest");
    is_u64(e.min_net_rtt_us, 40, "so is the least");
    round_trip(&s, 90, 500, 20);
    e = facts(&s);
    is_u64(e.net_rtt_us, 110, "a longer one");
    is_u64(e.min_net_rtt_us, 40, "which is not the least");
    is_u64(e.queue_us, 70, "of which one way has all");
    is_u64(e.owd_us, 0, "the whole of it is not known");
    round_trip(&s, 20, 500, 90);
    is_u64(facts(&s).queue_us, 0, "what queues on the way back is not on the way there");
    s.now += 17000 * SIM_MS;
    round_trip(&s, 60, 500, 60);
    e = facts(&s);
    is_u64(e.min_net_rtt_us, 120, "after 16 seconds it is forgotten");
    is_u64(e.queue_us, 0, "and the way is what it is now");
    sim_done(&s);
}

/* The least of before, if another path is longer after a rest of any length. */
static void
test_rest(void)
{
    unsigned int minutes;
    struct sim s;

    for (minutes = 1; minutes <= 80; minutes++) {
        begin(&s, true, true);
        round_trip(&s, 20, 500, 20);
        round_trip(&s, 20, 500, 20);
        s.now += minutes * UINT64_C(60000) * SIM_MS;
        round_trip(&s, 60, 500, 60);
        s.now += 17000 * SIM_MS;
        round_trip(&s, 60, 500, 60);
        is_u64(facts(&s).min_net_rtt_us, 120, "forgotten after %u minutes", minutes);
        sim_done(&s);
    }
}

static void
test_synced(void)
{
    struct acdc_config config;
    struct acdc_facts e;
    uint32_t worst = 0;
    struct sim s;
    int i;

    begin(&s, true, true);
    s.clock[0] = s.clock[1] = UINT64_C(1700000000000000000);
    acdc_config_get(s.acdc[0], &config);
    config.clock_synced = true;
    acdc_config_set(s.acdc[0], &config);
    round_trip(&s, 25, 100, 10);
    round_trip(&s, 25, 100, 10);
    e = facts(&s);
    is_u64(e.owd_us, 25, "synchronized clocks tell the one-way delay");
    round_trip(&s, 125, 100, 10);
    e = facts(&s);
    is_u64(e.owd_us, 125, "all of it");
    is_u64(e.queue_us, 100, "and what is beyond the least");
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_CLOCK), 0, "no clock is wrong");

    /* They only say so. */
    s.clock[1] += 5000 * US;
    round_trip(&s, 125, 100, 10);
    e = facts(&s);
    is_u64(e.owd_us, 0, "what cannot be is not taken for a delay");
    is_u64(e.queue_us, 100, "but what the round trip bears out is");
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_CLOCK), 1, "it is counted");

    /* They drift apart, by 50 ppm, until they no longer are. */
    s.clock[1] -= 5000 * US;
    round_trip(&s, 25, 100, 10);
    for (i = 0; i < 2000; i++) {
        s.now += SIM_MS;
        s.clock[1] += SIM_MS / 20000;
        round_trip(&s, 25, 100, 10);
        worst = facts(&s).owd_us > worst ? facts(&s).owd_us : worst;
    }
    ok(worst <= 25 + 10 + 16, "no delay is longer than the round trip: %u us", worst);
    ok(sim_counter(&s, 0, ACDC_C_REPORTS_CLOCK) > 1000, "this is counted, too");
    is_u64(facts(&s).queue_us, 0, "and makes no queue");
    sim_done(&s);
}

/* Clocks that are set, and that drift by 50 ppm. */
static void
test_clocks(void)
{
    uint32_t worst[2] = { 0, 0 }, least = UINT32_MAX;
    struct sim s;
    int i;

    begin(&s, true, true);
    for (i = 0; i < 20; i++) {
        s.clock[1] += i % 4 == 1 ? 3000000000u : i % 4 == 3 ? -1000000000u : 0u;
        round_trip(&s, 20, 100, 20);
        worst[0] = facts(&s).queue_us > worst[0] ? facts(&s).queue_us : worst[0];
    }
    is_u64(worst[0], 0, "a clock that is set makes no delay where there is none");
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_CLOCK), 10, "it is counted");
    for (i = 0; i < 20000; i++) {
        uint32_t queue = i % 5 ? 0 : 100;
        uint64_t before = s.now;

        s.now += SIM_MS;
        round_trip(&s, 20 + queue, 100, 20);
        s.clock[i < 10000] += (s.now - before) / 20000;
        if (queue) {
            least = facts(&s).queue_us < least ? facts(&s).queue_us : least;
        } else {
            worst[1] = facts(&s).queue_us > worst[1] ? facts(&s).queue_us : worst[1];
        }
    }
    is_u64(worst[1], 0, "nor do clocks that drift apart");
    ok(least >= 99, "nor do they hide one: %u us", least);
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_CLOCK), 10, "that is none that was set");
    sim_done(&s);
}

/* A report that comes late, twice, or says what cannot be. */
static void
test_reports(void)
{
    struct packet *p, *again;
    struct acdc_facts e;
    struct sim s;
    uint8_t *opt;

    begin(&s, true, true);
    round_trip(&s, 20, 100, 20);
    round_trip(&s, 20, 100, 20);
    packet_free_list(sim_ingress(&s, 1, sim_on_wire(&s, 0, MSS)));
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    p = sim_on_wire(&s, 1, 0);
    again = packet_clone(p);
    s.now += 40 * US;
    packet_free_list(sim_ingress(&s, 0, p));
    s.now += 5000 * US;
    packet_free_list(sim_ingress(&s, 0, packet_clone(again)));
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_IGNORED), 1, "a replayed report is ignored");
    is_u64(facts(&s).net_rtt_us, 40, "and says nothing");
    packet_free_list(sim_ingress(&s, 1, sim_on_wire(&s, 0, MSS)));
    packet_free_list(sim_ingress(&s, 0, again));
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_IGNORED), 2,
           "so is one of another segment");

    /* Longer ago than it was sent. */
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    p = sim_on_wire(&s, 1, 0);
    opt = packet_data(p) + p->l3_ofs + 14 + 20 + 20;
    ok(is_report(p), "the right one");
    opt[14] = 0x7f;
    s.now += 40 * US;
    packet_free_list(sim_ingress(&s, 0, p));
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_IGNORED), 3, "so are impossible times");
    e = facts(&s);
    is_u64(e.net_rtt_us, 40, "nothing of it is taken");
    sim_done(&s);
}

/* Offload segments one marked packet into several marked ones. */
static void
test_train(void)
{
    struct packet *p[2];
    struct sim s;
    int i;

    begin(&s, true, true);
    round_trip(&s, 20, 100, 20);
    p[0] = sim_on_wire(&s, 0, MSS);
    p[1] = sim_on_wire(&s, 0, MSS);
    ok(is_marked(p[0]) && !is_marked(p[1]), "the first of two is marked");
    packet_data(p[1])[14 + 20 + 12] |= ACDC_RES_FACK;
    for (i = 0; i < 2; i++) {
        s.now += 20 * US;
        packet_free_list(sim_ingress(&s, 1, p[i]));
    }
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    s.now += 5 * US;
    packet_free_list(sim_ingress(&s, 0, sim_on_wire(&s, 1, 0)));
    is_u64(facts(&s).net_rtt_us, 20, "the first one's time is reported");
    sim_done(&s);
}

/* They are acknowledged one by one, and the guest sends such packets one behind another.
 * Nobody takes segments of one for those of another. */
static void
test_large(void)
{
    uint32_t begins, marked = 0;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    int i, n;

    begin(&s, true, true);
    round_trip(&s, 20, 100, 20);
    for (n = 0; n < 200; n++) {
        begins = s.guest[0].snd_nxt;
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 10 * MSS);
        spec.gso = MSS;
        spec.csum_partial = true;
        p = sim_egress(&s, 0, packet_make(&spec));
        marked += is_marked(p);
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, MSS);
        spec.reserved = packet_reserved(p);
        spec.ecn = ACDC_ECN_ECT0;
        packet_free_list(p);
        for (i = 0; i < 10; i++) {
            s.now += 20 * US;
            spec.seq = begins + (uint32_t) i * MSS;
            packet_free_list(sim_ingress(&s, 1, packet_make(&spec)));
            s.guest[1].rcv_nxt = spec.seq + MSS;
            packet_free_list(sim_ingress(&s, 0, sim_on_wire(&s, 1, 0)));
        }
        s.guest[0].snd_nxt = s.guest[1].rcv_nxt;
    }
    ok(marked >= 50, "%u of %d are marked", marked, n);
    is_u64(sim_counter(&s, 0, ACDC_C_REPORTS_IGNORED), 0, "each is reported once");
    is_u64(facts(&s).net_rtt_us, 20, "for its first segment");
    sim_done(&s);
}

/* Sequence numbers whose marks are the same, as of messages of 32 KB, and of segments
 * without PSH: as many reports as marks, and of every second packet one at least. */
static void
test_marks_again(uint32_t payload, uint8_t flags)
{
    struct tcp_spec spec;
    struct sim s;
    int i;

    begin(&s, true, true);
    for (i = 0; i < 100; i++) {
        spec = sim_spec(&s, 0, flags, payload);
        spec.csum_partial = payload > MSS;
        spec.gso = spec.csum_partial ? MSS : 0;
        packet_free_list(sim_send(&s, 0, &spec));
        s.guest[0].snd_nxt += payload;
        s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
        s.now += 100 * US;
        packet_free_list(sim_ack(&s, 1));
    }
    ok(sim_counter(&s, 0, ACDC_C_TIMED) >= 50, "%u bytes: marked", payload);
    ok(sim_counter(&s, 0, ACDC_C_REPORTS) + 1 >= sim_counter(&s, 0, ACDC_C_TIMED),
       "and reported");
    sim_done(&s);
}

/* A marked segment is lost, and the next data comes after a pause. */
static void
test_pause(void)
{
    uint64_t reports;
    struct sim s;
    int i;

    begin(&s, true, true);
    round_trip(&s, 20, 100, 20);
    sim_lose_data(&s, MSS);
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    packet_free_list(sim_ack(&s, 1));
    s.now += 9000000ull * US;
    reports = sim_counter(&s, 0, ACDC_C_REPORTS);
    for (i = 0; i < 4; i++) {
        round_trip(&s, 20, 100, 20);
    }
    ok(sim_counter(&s, 0, ACDC_C_REPORTS) > reports + 1, "it is timed again");
    sim_done(&s);
}

/* What is to leave later leaves at once, as nothing holds it. */
static void
held_round_trip(struct sim *s)
{
    struct packet *p = sim_on_wire(s, 0, MSS);

    acdc_flow_timing(sim_flow(s, 0))->held = true;
    s->now += 20 * US;
    packet_free_list(sim_ingress(s, 1, p));
    s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    packet_free_list(sim_ack(s, 1));
}

static void
test_not_held(void)
{
    struct sim s;
    int i;

    begin(&s, true, true);
    for (i = 0; i < 4; i++) {
        round_trip(&s, 100, 100, 100);
    }
    is_u64(facts(&s).min_net_rtt_us, 200, "the least");
    held_round_trip(&s);
    is_u64(facts(&s).min_net_rtt_us, 200, "is not what was measured of such a segment");
    for (i = 0; i < 3; i++) {
        s.now += ACDC_LEAST_EPOCH_MS * 1000ull * US;
        held_round_trip(&s);
    }
    is_u64(facts(&s).min_net_rtt_us, 20, "but after 16 s");
    sim_done(&s);
}

/* Where the option does not fit, and on data. */
static void
test_facks(void)
{
    const uint32_t edges[6] = { 0xffff, 0x1ffff, 0x2ffff, 0x3ffff, 0x4ffff, 0x5ffff };
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    begin(&s, true, true);
    round_trip(&s, 20, 100, 20);
    packet_free_list(sim_ingress(&s, 1, sim_on_wire(&s, 0, MSS)));
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_nop(&spec, 2);
    opt_sack(&spec, 1, edges);
    p = sim_egress(&s, 1, packet_make(&spec));
    is_u64(packet_count(p), 2, "an ACK with SACK has no room for a report");
    ok(packet_is_fack(p) && is_report(p) && packet_csum_ok(p), "so there is a FACK");
    s.now += 40 * US;
    packet_free_list(sim_ingress(&s, 0, p));
    is_u64(facts(&s).net_rtt_us, 40, "which is taken");

    packet_free_list(sim_ingress(&s, 1, sim_on_wire(&s, 0, MSS)));
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    p = sim_on_wire(&s, 1, MSS);
    ok(packet_count(p) == 2 && packet_is_fack(p) && is_report(p),
       "nor has a full segment");
    packet_free_list(sim_ingress(&s, 0, p));
    s.guest[0].rcv_nxt = s.guest[1].snd_nxt;
    packet_free_list(sim_ack(&s, 0));
    packet_free_list(sim_ingress(&s, 1, sim_on_wire(&s, 0, MSS)));
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    p = sim_on_wire(&s, 1, 100);
    ok(packet_count(p) == 1 && is_report(p) && packet_csum_ok(p),
       "a short one has it");
    p = sim_ingress(&s, 0, p);
    ok(!packet_is_ours(p) && packet_payload_ok(p), "and its guest gets the data");
    packet_free_list(p);
    sim_done(&s);
}

/* The policy ends, and what is measured with it. */
static void
test_policy(void)
{
    uint64_t marks;
    struct sim s;
    int i;

    begin(&s, true, true);
    round_trip(&s, 20, 100, 20);
    round_trip(&s, 20, 100, 20);
    sim_policy(&s, 0, &acdc_params_default);
    marks = sim_counter(&s, 0, ACDC_C_TIMED);
    ok(marks > 0, "marked");
    for (i = 0; i < 5; i++) {
        round_trip(&s, 20, 100, 20);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_TIMED), marks, "without the parameter no more");
    sim_done(&s);
}

/* A report and a marked segment that a guest makes up: nothing of them leaves its host,
 * whatever its tenant has, and whether the connection is known. */
static void
test_forged(void)
{
    enum { ENFORCE, OBSERVE, DISABLED, NONE, UNKNOWN, N_KINDS };
    static const char *const names[N_KINDS] = {
        "enforced", "observed", "disabled", "not controlled", "not known",
    };
    int i;

    for (i = 0; i < N_KINDS; i++) {
        struct acdc_params params = acdc_params_default;
        struct tcp_spec spec;
        struct packet *p;
        struct acdc_pkt pkt;
        unsigned int j;
        struct sim s;

        params.on_ramp = 30;
        sim_init(&s, &params, &params);
        sim_connect(&s);
        sim_data(&s, 0, 1000, false);
        packet_free_list(sim_ack(&s, 1));
        params.mode = i == OBSERVE ? ACDC_MODE_OBSERVE : ACDC_MODE_ENFORCE;
        params.enabled = i != DISABLED;
        params.algorithm = i == NONE ? ACDC_ALG_NONE : ACDC_ALG_DCTCP;
        sim_policy(&s, 1, &params);
        s.guest[1].port += i == UNKNOWN;
        for (j = 0; j < 2; j++) {
            uint8_t report[ACDC_OPT_REPORT_LEN] = {
                ACDC_OPT_KIND, ACDC_OPT_REPORT_LEN, 0xac, 0xdc, 0, 0, 0, 99, 0, 1, 2, 3, 4,
            };

            spec = sim_spec(&s, 1, ACDC_TCP_ACK, 100 * j);
            opt_raw(&spec, report, sizeof report);
            spec.reserved = ACDC_RES_FACK;
            /* The first one of data is marked anyway. */
            sim_flow(&s, 1)->flags &= ~(uint32_t) ACDC_F_RTT_NEXT;
            p = sim_egress(&s, 1, packet_make(&spec));
            packet_parse(p, &pkt);
            ok(packet_count(p) == 1 && !is_report(p) && !is_marked(p)
               && !(pkt.opt_flags & ACDC_O_OTHER) && packet_csum_ok(p),
               "%s: a forged report and mark on %s", names[i], j ? "data" : "an ACK");
            packet_free_list(p);
        }
        is_u64(sim_counter(&s, 1, ACDC_C_FORGED), 2, "counted");
        sim_done(&s);
    }
}

int
main(void)
{
    test_handshake();
    test_old_peer();
    test_marks();
    test_rtt();
    test_rest();
    test_synced();
    test_clocks();
    test_reports();
    test_train();
    test_large();
    test_marks_again(1 << 15, ACDC_TCP_ACK | ACDC_TCP_PSH);
    test_marks_again(1 << 15, ACDC_TCP_ACK);
    test_marks_again(MSS, ACDC_TCP_ACK);
    test_pause();
    test_not_held();
    test_facks();
    test_policy();
    test_forged();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
