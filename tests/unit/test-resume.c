/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A connection that one end's vSwitch has forgotten is taken up again
 * (acdc-resume.c); what nobody can plant, and what stays as it was. */

#include "resume.h"
#include "tap.h"

enum { QUESTION_OFS = 6, NOBODY = -1 };

/* 'side' forgets; within three round trips all is as it was. */
static void
check_resumed(const struct shape *shape, int side)
{
    struct acdc_flow_info before, after, other;
    struct seen seen = { 0 };
    uint32_t ce, total;
    struct sim s;
    int i;

    begin(&s, shape);
    before = info(&s, side);
    ce = info(&s, !side).rx_ce;
    sim_forget(&s, side);
    for (i = 0; i < 3; i++) {
        exchange(&s, shape->from, shape->segment, false, &seen);
    }
    after = info(&s, side);
    ok(after.resumed && after.capable && after.state == ACDC_FLOW_ESTABLISHED,
       "v%d, %u VLANs, timestamps %d, scales %d %d, %u bytes from %d: %d is resumed",
       shape->v6 ? 6 : 4, shape->vlans, shape->timestamps, shape->wscale[0],
       shape->wscale[1], shape->segment, shape->from, side);
    ok(after.wscale_local == before.wscale_local
       && after.wscale_remote == before.wscale_remote && after.mss == before.mss
       && after.sack == before.sack && after.guest_ecn == before.guest_ecn
       && after.algorithm == before.algorithm && !after.rescaled,
       "with what the handshake settled");
    is_u64(after.mss, before.mss, "MSS");
    ok(seen.ours == 0 && seen.bad == 0 && seen.packets >= 6,
       "guests see nothing of that");
    is_u64(sim_counter(&s, side, ACDC_C_FLOWS_RESUMED), 1, "counted");
    is_u64(info(&s, !side).rx_ce, ce, "no mark is counted twice");
    total = info(&s, shape->from).fb_total;
    ce = info(&s, shape->from).fb_ce;
    exchange(&s, shape->from, shape->segment, true, &seen);
    exchange(&s, shape->from, shape->segment, false, &seen);
    other = info(&s, shape->from);
    is_u64(other.fb_ce - ce, shape->segment, "a mark is reported, once");
    ok(other.fb_total - total >= 2 * shape->segment, "so is what arrives");
    ok(other.capable && info(&s, !shape->from).capable, "both are capable");
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD)
           + sim_counter(&s, 1, ACDC_C_FEEDBACK_BAD), 0, "no report is bad");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS) + sim_counter(&s, 0, ACDC_C_TIMEOUTS)
           + sim_counter(&s, 1, ACDC_C_CUTS_LOSS)
           + sim_counter(&s, 1, ACDC_C_TIMEOUTS), 0, "nothing is taken for lost");
    sim_done(&s);
}

static void
test_resumed(void)
{
    static const struct shape shapes[] = {
        { .wscale = { 7, 7 }, .segment = 1000 },
        { .wscale = { 7, 9 }, .segment = 1460, .from = 1 },
        { .wscale = { 2, 10 }, .segment = 1448, .timestamps = true },
        { .wscale = { 10, 0 }, .segment = 5792, .timestamps = true, .from = 1,
          .partial = true },
        { .wscale = { -1, 7 }, .segment = 400, .v6 = true },
        { .wscale = { -1, -1 }, .segment = 1440, .v6 = true, .vlans = 1,
          .timestamps = true, .ecn = true },
        { .wscale = { 8, 8 }, .segment = 2896, .vlans = 2, .ecn = true, .from = 1 },
    };
    unsigned int i;

    for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_resumed(&shapes[i], 0);
        check_resumed(&shapes[i], 1);
    }
}

/* The window is enforced again, in the right scale, and policing drops nothing that
 * was offered while nobody knew the connection. */
static void
test_window(void)
{
    struct acdc_params params = acdc_params_default;
    struct seen seen = { 0 };
    struct sim s;
    uint32_t wnd;
    unsigned int i;

    params.police = true;
    begin(&s, &usual);
    sim_policy(&s, 0, &params);
    s.guest[1].window = 0xffff;
    sim_forget(&s, 0);
    is_u64(sim_ack_window(&s, 1), 0xffff, "an unknown scale is not guessed");
    /* All that the peer offered is in flight. */
    for (i = 0; i < 400; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1000);

        send_spec(&s, 0, &spec, false, &seen);
    }
    is_u64(seen.packets, 400, "all of it arrives");
    exchange(&s, 0, 1000, false, &seen);
    ok(info(&s, 0).resumed, "resumed");
    wnd = info(&s, 0).window;
    ok(info(&s, 0).offered <= wnd + 127 && wnd < 100000, "the law's window is offered");
    for (i = 0; i < 50; i++) {
        exchange(&s, 0, 1000, false, &seen);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_POLICED_PACKETS), 0, "nothing was policed");
    is_u64(sim_counter(&s, 0, ACDC_C_ACK_OPTIMISTIC), 0, "no ACK was refused");
    sim_done(&s);
}

/* Marks that come before the answer are hidden, and reported with the first report. */
static void
test_marks(void)
{
    struct seen seen = { 0 };
    struct packet *p;
    struct tcp_spec spec;
    struct sim s;
    int i;

    begin(&s, &usual);
    sim_forget(&s, 1);
    for (i = 0; i < 5; i++) {
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1000);
        p = sim_egress(&s, 0, packet_make(&spec));
        packet_set_ecn(p, ACDC_ECN_CE);
        p = sim_ingress(&s, 1, p);
        ok(packet_ecn(p) == 0 && !packet_is_ours(p) && packet_csum_ok(p),
           "mark %d is hidden", i);
        packet_free(p);
        s.guest[0].snd_nxt += 1000;
        s.guest[1].rcv_nxt += 1000;
    }
    is_u64(sim_counter(&s, 1, ACDC_C_CE_BYTES), 10000, "and counted");
    i = (int) info(&s, 0).fb_ce;
    exchange(&s, 0, 1000, false, &seen);
    exchange(&s, 0, 1000, false, &seen);
    exchange(&s, 0, 1000, false, &seen);
    is_u64(info(&s, 0).fb_ce - (uint32_t) i, 5000, "the sender hears of them");
    ok(sim_counter(&s, 0, ACDC_C_CUTS_ECN) >= 2, "and cuts");
    sim_done(&s);
}

/* Both ends have forgotten: nothing happens. */
static void
test_both(void)
{
    struct seen seen = { 0 };
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    int i;

    begin(&s, &usual);
    sim_forget(&s, 0);
    sim_forget(&s, 1);
    for (i = 0; i < 10; i++) {
        exchange(&s, i & 1, 1000, i & 2, &seen);
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
        p = sim_egress(&s, 0, packet_make(&spec));
        ok(!packet_is_ours(p), "packet %d is untouched", i);
        packet_free(p);
    }
    ok(!sim_n_flows(&s, 0) && !sim_n_flows(&s, 1), "no flows");
    ok(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MIDSTREAM) >= 30, "untouched, counted");
    sim_done(&s);
}

static bool
is_question(const struct packet *p, uint16_t *number)
{
    struct acdc_pkt pkt;

    if (!packet_parse(p, &pkt) || !(pkt.opt_flags & ACDC_O_CAPABILITY)) {
        return false;
    }
    *number = acdc_get16(acdc_pkt_tcp(&pkt) + pkt.cap_ofs + QUESTION_OFS);
    return true;
}

/* A peer of the first version, which knows no questions: three, then none. */
static void
test_old_peer(void)
{
    unsigned int n = 0, i;
    struct sim s;
    uint16_t number;

    begin(&s, &usual);
    sim_remove_acdc(&s, 1);
    sim_forget(&s, 0);
    for (i = 0; i < 500; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
        struct packet *p;

        p = sim_ingress(&s, 0, foreign(&s, 100));
        if (packet_is_ours(p)) {
            ok(false, "packet %u is ours", i);
        }
        packet_free(p);
        s.guest[1].snd_nxt += 100;
        s.guest[0].rcv_nxt += 100;
        p = sim_egress(&s, 0, packet_make(&spec));
        n += is_question(p, &number);
        packet_free(p);
        if (i < 15) {
            is_u64(n, 1, "one question within %u ms", i * 10);
        }
        s.now += 10 * SIM_MS;
    }
    is_u64(n, ACDC_QUESTIONS, "at most so many questions");
    is_u64(info(&s, 0).state, ACDC_FLOW_UNKNOWN, "asked in vain");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MIDSTREAM), 1000, "untouched");
    s.now += (ACDC_LINGER_MS + 1000) * SIM_MS;
    while (!acdc_sweep(s.acdc[0], s.now, 1000)) {
    }
    is_u64(sim_n_flows(&s, 0), 0, "then it goes");
    sim_done(&s);
}

/* The same connection's ports used again, while the old one is asked for. */
static void
test_syn(void)
{
    struct shape shape = usual;
    struct sim s;
    int side;

    for (side = 0; side < 2; side++) {
        begin(&s, &shape);
        sim_forget(&s, side);
        packet_free(sim_ack(&s, !side));
        is_u64(info(&s, side).state, ACDC_FLOW_ASKING, "asking");
        sim_forget(&s, !side);
        s.guest[0].snd_nxt += 0x20000000;
        s.guest[1].snd_nxt += 0x20000000;
        sim_connect(&s);
        ok(info(&s, side).capable && !info(&s, side).resumed
           && info(&s, side).state == ACDC_FLOW_ESTABLISHED,
           "another connection with the same ports at %d", side);
        sim_done(&s);
    }
}

/* The option that answers, as side 1 would send it. */
static void
opt_state(struct tcp_spec *spec, uint16_t number)
{
    uint8_t opt[ACDC_OPT_STATE_LEN] = { 0 };

    acdc_put32(opt, ACDC_STATE_WORD | ACDC_OPT_EXID);
    opt[4] = ACDC_STATE_SCALES;
    opt[5] = 7 << 4 | 7;
    acdc_put16(opt + 6, 1460);
    acdc_put16(opt + 8, number);
    opt_raw(spec, opt, sizeof opt);
}

/* An answer that was not sent by the other end does not plant a state. */
static void
test_forged_answer(void)
{
    static const struct {
        const char *what;
        uint16_t number;
        uint32_t seq, ack;
        bool bad_csum, unasked;
    } cases[] = {
        { "another number", 1, 0, 0, false, false },
        { "far from what the guest acknowledged", 0, ACDC_PLAUSIBLE + 5000, 0, false,
          false },
        { "far from what the guest sent", 0, 0, 0u - ACDC_PLAUSIBLE - 1, false, false },
        { "far beyond that", 0, 0, ACDC_PLAUSIBLE, false, false },
        { "a wrong checksum", 0, 0, 0, true, false },
        { "not asked for", 0, 0, 0, false, true },
        { "right", 0, 0, 0, false, false },
    };
    unsigned int i;

    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tcp_spec spec;
        struct packet *p;
        uint16_t number = 0;
        struct sim s;

        begin(&s, &usual);
        sim_remove_acdc(&s, 1);
        sim_forget(&s, 0);
        packet_free(sim_ingress(&s, 0, foreign(&s, 0)));
        if (!cases[i].unasked) {
            spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
            p = sim_egress(&s, 0, packet_make(&spec));
            ok(is_question(p, &number), "a question");
            packet_free(p);
        }
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 100);
        opt_state(&spec, (uint16_t) (number + cases[i].number));
        spec.seq += cases[i].seq;
        spec.ack += cases[i].ack;
        spec.bad_csum = cases[i].bad_csum;
        p = sim_ingress(&s, 0, packet_make(&spec));
        ok(p && !packet_is_ours(p), "%s: taken off", cases[i].what);
        packet_free(p);
        is_u64(info(&s, 0).resumed, !strcmp(cases[i].what, "right"), "%s",
               cases[i].what);
        sim_done(&s);
    }
}

/* A question of an outsider gets no answer, and what a guest says nothing. */
static void
test_forged_question(void)
{
    struct tcp_spec spec;
    struct acdc_pkt pkt;
    struct packet *p;
    struct sim s;
    int i;

    begin(&s, &usual);
    for (i = 0; i < 4; i++) {
        static const uint8_t question[ACDC_OPT_CAP_LEN] = {
            ACDC_OPT_KIND, ACDC_OPT_CAP_LEN, 0xac, 0xdc, 1, ACDC_CAP_RESUME, 1, 2,
        };

        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
        opt_raw(&spec, question, sizeof question);
        spec.seq += i == 1 ? ACDC_PLAUSIBLE : 0;
        spec.ack += i == 2 ? 1 : 0;
        spec.bad_csum = i == 3;
        p = packet_make(&spec);
        if (!i) {
            p = sim_egress(&s, 0, p);
        }
        p = sim_ingress(&s, 1, p);
        ok(p && !packet_is_ours(p), "question %d is taken off", i);
        packet_free(p);
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        p = sim_egress(&s, 1, packet_make(&spec));
        ok(packet_parse(p, &pkt) && !(pkt.opt_flags & ACDC_O_STATE), "no answer");
        packet_free(sim_ingress(&s, 0, p));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FORGED), 1, "the guest's was a forgery");
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_state(&spec, 0);
    p = sim_egress(&s, 1, packet_make(&spec));
    packet_free(p);
    is_u64(sim_counter(&s, 1, ACDC_C_FORGED), 1, "nor does a guest answer");
    sim_done(&s);
}

/* No room for the answer: a FACK, which the guest does not get. */
static void
test_full_options(void)
{
    struct seen seen = { 0 };
    struct tcp_spec spec;
    struct packet *p;
    uint32_t edges[6];
    struct sim s;
    unsigned int i;

    begin(&s, &usual);
    sim_forget(&s, 0);
    packet_free(sim_ack(&s, 1));
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1460);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 2, "a question before a full segment");
    ok(packet_is_fack(p) && packet_csum_ok(p) && !packet_is_ours(p->next),
       "a FACK, and the segment as it was");
    look(&seen, sim_ingress(&s, 1, p));
    is_u64(seen.packets, 1, "the guest gets the segment");
    s.guest[0].snd_nxt += 1460;
    for (i = 0; i < 6; i++) {
        edges[i] = s.guest[0].snd_nxt + (i + 1) * 1460;
    }
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_nop(&spec, 2);
    opt_sack(&spec, 3, edges);
    p = sim_egress(&s, 1, packet_make(&spec));
    is_u64(packet_count(p), 2, "an answer before an ACK with full options");
    seen.packets = 0;
    look(&seen, sim_ingress(&s, 0, p));
    is_u64(seen.packets, 1, "the guest gets the ACK");
    ok(!seen.ours && !seen.bad && info(&s, 0).resumed, "resumed");
    sim_done(&s);
}

/* Outsiders cannot fill the quota of handshakes with connections to be asked for. */
static void
test_quota(void)
{
    struct acdc_tenant_config tc = {
        .name = SIM_TENANT, .params = acdc_params_default, .max_half_open = 20,
    };
    struct acdc_stats stats;
    struct sim s;
    int i;

    sim_init(&s, NULL, NULL);
    acdc_tenant_set(s.acdc[0], &tc);
    for (i = 0; i < 100; i++) {
        s.guest[1].port = (uint16_t) (1000 + i);
        packet_free(sim_ingress(&s, 0, foreign(&s, 100)));
    }
    acdc_stats_get(s.acdc[0], &stats);
    is_u64(stats.n_half_open, 10, "half of it");
    s.guest[1].port = 999;
    sim_connect(&s);
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_CAPABLE), 1, "a handshake has room");
    s.now += (ACDC_HALF_OPEN_MS + 1000) * SIM_MS;
    while (!acdc_sweep(s.acdc[0], s.now, 1000)) {
    }
    acdc_stats_get(s.acdc[0], &stats);
    is_u64(stats.n_half_open, 0, "they go");
    sim_done(&s);
}

/* A switch floods what is for others: their connections are asked for, too, and leave room
 * for those of the guest, whose address is known once it has sent anything. */
static void
test_flooded(void)
{
    struct acdc_tenant_config tc = {
        .name = SIM_TENANT, .params = acdc_params_default, .max_half_open = 20,
    };
    struct seen seen = { 0 };
    struct acdc_stats stats;
    struct sim s;
    uint8_t own;
    int i;

    begin(&s, &usual);
    acdc_tenant_set(s.acdc[0], &tc);
    sim_forget(&s, 0);
    /* As after a restart. */
    acdc_port_unbind(s.acdc[0], SIM_PORT_NO);
    host_quiesce();
    s.port[0] = acdc_port_bind(s.acdc[0], SIM_PORT_NO, "vnet7", SIM_TENANT, SIM_MTU);
    own = s.guest[0].addr[3];
    s.guest[0].addr[3] = (uint8_t) (own + 100);
    for (i = 0; i < 100; i++) {
        s.guest[1].port += 1;
        packet_free(sim_ingress(&s, 0, foreign(&s, 0)));
    }
    s.guest[0].addr[3] = own;
    s.guest[1].port -= 100;
    acdc_stats_get(s.acdc[0], &stats);
    is_u64(stats.n_half_open, 10, "half of the quota is for anybody's");
    for (i = 0; i < 3; i++) {
        exchange(&s, 1, 1000, false, &seen);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_RESUMED), 1, "the guest's own is taken up again");
    for (i = 0; i < 100; i++) {
        s.guest[1].port += 1;
        packet_free(sim_ingress(&s, 0, foreign(&s, 0)));
    }
    acdc_stats_get(s.acdc[0], &stats);
    is_u64(stats.n_half_open, 15, "a quarter remains for handshakes");
    sim_done(&s);
}

/* The guest was where there is no AC/DC, so long that the other end has fallen back, and
 * comes to where there is.  It may be the one that sends or the one that gets data. */
static void
test_back_again(void)
{
    struct seen seen = { 0 };
    struct sim s;
    int from, i;

    for (from = 0; from < 2; from++) {
        struct acdc_port *port;
        uint64_t until;

        begin(&s, &usual);
        port = s.port[0];
        s.port[0] = NULL;
        sim_forget(&s, 0);
        for (i = 0; i < 500; i++) {
            exchange(&s, 1, 1000, false, &seen);
        }
        ok(!info(&s, 1).capable, "it has fallen back");
        is_u64(sim_counter(&s, 1, ACDC_C_FEEDBACK_LOST), 1, "and says so");
        seen.ours = 0;
        for (i = 0; i < 5000; i++) {
            exchange(&s, from, 1000, false, &seen);
        }
        ok(seen.ours >= 4 && seen.ours <= 5, "now and then it shows that it is there: %u in 5 s",
           seen.ours);
        s.port[0] = port;
        seen.ours = 0;
        for (until = s.now + 3000 * SIM_MS; s.now < until;) {
            exchange(&s, from, 1000, false, &seen);
        }
        ok(info(&s, 0).resumed && info(&s, 0).capable && info(&s, 1).capable,
           "both have AC/DC again, data of %d", from);
        is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD)
               + sim_counter(&s, 1, ACDC_C_FEEDBACK_BAD), 0, "no report is bad");
        ok(!seen.ours && !seen.bad, "guests see nothing of that");
        sim_done(&s);
    }
}

/* Either end forgets at random, again and again, while data goes both ways and some of it
 * is lost; nothing else changes. */
static void
test_random(void)
{
    uint64_t random = tap_seed();
    struct seen seen = { 0 };
    unsigned int i, resumed, wrong = 0, lost = 0;
    struct sim s;

    begin(&s, &usual);
    for (i = 0; i < 5000; i++) {
        int from = (int) (tap_random(&random) & 1);
        struct acdc_flow_info fi;

        if (tap_chance(&random, 5)) {
            sim_forget(&s, (int) (tap_random(&random) & 1));
        }
        if (tap_chance(&random, 5)) {
            struct tcp_spec spec = sim_spec(&s, from, ACDC_TCP_ACK, 700);

            packet_free_list(sim_egress(&s, from, packet_make(&spec)));
            lost++;
        } else {
            exchange(&s, from, (uint32_t) (1 + tap_random(&random) % 4000),
                     tap_chance(&random, 10), &seen);
        }
        s.now += tap_random(&random) % 300 * SIM_MS;
        fi = info(&s, from);
        if (fi.resumed && (fi.wscale_local != 7 || fi.wscale_remote != 7
                           || fi.mss != 1460)) {
            wrong++;
        }
        if (!sim_n_flows(&s, 0) && !sim_n_flows(&s, 1)) {
            s.guest[0].snd_nxt += 0x10000000;
            s.guest[1].snd_nxt += 0x10000000;
            sim_connect(&s);
        }
    }
    resumed = (unsigned int) (sim_counter(&s, 0, ACDC_C_FLOWS_RESUMED)
                              + sim_counter(&s, 1, ACDC_C_FLOWS_RESUMED));
    ok(resumed > 50, "%u times resumed, %u segments lost", resumed, lost);
    is_u64(wrong, 0, "none with a wrong scale or MSS");
    ok(!seen.ours && !seen.bad, "guests see nothing of that");
    sim_done(&s);
}

/* A PACK of before it was forgotten comes by another way, later than the question. */
static void
test_late_pack(bool again)
{
    struct packet *late, *question;
    struct sim s;

    begin(&s, &usual);
    sim_data(&s, 0, 1000, false);
    late = sim_on_wire(&s, 1, 0);
    if (again) {
        packet_free_list(sim_ingress(&s, 0, packet_clone(late)));
    }
    sim_forget(&s, 1);
    sim_data(&s, 0, 1000, false);
    question = sim_on_wire(&s, 1, 0);
    packet_free_list(sim_ingress(&s, 0, question));
    packet_free_list(sim_ingress(&s, 0, late));
    packet_free_list(sim_ack(&s, 0));
    ok(info(&s, 1).resumed, "the answer has the question's number");
    sim_done(&s);
}

int
main(void)
{
    test_resumed();
    test_window();
    test_marks();
    test_both();
    test_old_peer();
    test_syn();
    test_forged_answer();
    test_forged_question();
    test_full_options();
    test_quota();
    test_flooded();
    test_back_again();
    test_late_pack(false);
    test_late_pack(true);
    test_random();
    return tap_end();
}
