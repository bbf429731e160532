/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Feedback between two engines and what follows from it: marks counted and
 * hidden, PACK and FACK, stale, impossible and lost reports, wrap-around. */

#include "sim.h"
#include "tap.h"

/* Counts from 'start' on: through 2^32 in sequence numbers and in both
 * counts. */
static void
test_arithmetic(uint32_t segment, unsigned int n, uint32_t start)
{
    uint64_t total = start, ce = start;
    bool ok_rx = true, ok_fb = true;
    struct sim s;
    unsigned int i;

    sim_init(&s, NULL, NULL);
    s.guest[0].wscale = s.guest[1].wscale = 10;
    sim_connect(&s);
    for (i = 0; i < 2; i++) {
        struct acdc_flow *f = sim_flow(&s, (int) i);

        f->rx_total = f->rx_ce = start;
        acdc_flow_set_tx_total(f, start);
        acdc_flow_in(f)->fb_total = acdc_flow_in(f)->fb_ce = start;
    }
    for (i = 0; i < n; i++) {
        bool mark = i % 3 == 0;
        struct acdc_flow_info fi;

        sim_data(&s, 0, segment, mark);
        total += segment;
        ce += mark ? segment : 0;
        fi = sim_info_of(&s, 1);
        ok_rx &= fi.rx_total == (uint32_t) total && fi.rx_ce == (uint32_t) ce;
        packet_free(sim_ack(&s, 1));
        fi = sim_info_of(&s, 0);
        ok_fb &= fi.fb_total == (uint32_t) total && fi.fb_ce == (uint32_t) ce;
        s.now += SIM_MS;
    }
    printf("# %u segments of %u bytes, from %u on\n", n, segment, start);
    ok(ok_rx, "the receiving side counts");
    ok(ok_fb, "the sending side is told");
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 0, "nothing impossible");
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_STALE), 0, "nothing stale");
    is_u64(sim_counter(&s, 1, ACDC_C_CE_BYTES), ce - start, "marked bytes counted");
    ok(sim_counter(&s, 0, ACDC_C_CUTS_ECN) > 0, "marks cut the window");
    sim_done(&s);
}

/* The guest sees its own codepoint, whatever the network did. */
static void
test_hiding(bool v6)
{
    static const uint8_t guests[] = { ACDC_ECN_NOT_ECT, ACDC_ECN_ECT0,
                                      ACDC_ECN_ECT1, ACDC_ECN_CE };
    static const uint8_t flags[] = {
        ACDC_TCP_ACK, ACDC_TCP_ACK | ACDC_TCP_PSH, ACDC_TCP_ACK | ACDC_TCP_FIN,
        ACDC_TCP_ACK | ACDC_TCP_RST, ACDC_TCP_RST,
        ACDC_TCP_ACK | ACDC_TCP_ECE, ACDC_TCP_ACK | ACDC_TCP_CWR,
    };
    unsigned int g, f, mark, ae;

    for (g = 0; g < 4; g++) {
        for (f = 0; f < sizeof flags; f++) {
            for (mark = 0; mark < 2; mark++) {
                for (ae = 0; ae < 2; ae++) {
                    struct packet *p, *before;
                    struct tcp_spec spec;
                    struct sim s;
                    bool pass = true;

                    sim_init(&s, NULL, NULL);
                    s.v6 = v6;
                    sim_connect(&s);
                    spec = sim_spec(&s, 0, flags[f], f == 1 ? 700 : 0);
                    spec.ecn = guests[g];
                    spec.reserved = (uint8_t) ae;
                    before = packet_make(&spec);
                    p = sim_egress(&s, 0, packet_clone(before));
                    pass &= packet_ecn(p) == (g == 3 ? ACDC_ECN_CE
                                                     : ACDC_ECN_ECT0);
                    pass &= packet_csum_ok(p);
                    if (mark) {
                        packet_set_ecn(p, ACDC_ECN_CE);
                    }
                    p = sim_ingress(&s, 1, p);
                    /* A mark of the guest's own is a mark. */
                    pass &= packet_ecn(p) == (g == 3 ? ACDC_ECN_ECT0
                                                     : guests[g])
                            && packet_reserved(p) == ae && packet_csum_ok(p)
                            && packet_payload_ok(p);
                    /* But for the window nothing else changed. */
                    pass &= p->len == before->len;
                    if (!ok(pass, "v%d, codepoint %u, flags 0x%02x, marked %u,"
                            " AE %u: hidden", v6 ? 6 : 4, guests[g], flags[f],
                            mark, ae)) {
                        f = sizeof flags - 1;
                    }
                    packet_free(p);
                    packet_free(before);
                    sim_done(&s);
                }
            }
        }
    }
}

/* Sends feedback that the test makes up, from the network to guest 0. */
static struct packet *
report(struct sim *s, uint32_t ce, uint32_t total, bool fack)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_ACK, 0);

    opt_feedback(&spec, ACDC_OPT_EXID, ce, total);
    spec.reserved = fack ? ACDC_RES_FACK : 0;
    return sim_ingress(s, 0, packet_make(&spec));
}

static void
test_bad(void)
{
    struct sim s;
    unsigned int i;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1000, false);
    }
    packet_free_list(report(&s, 0, 5000, false));
    is_u64(sim_info_of(&s, 0).fb_total, 5000, "a report is believed");
    packet_free_list(report(&s, 0, 4000, false));
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_STALE), 1, "an older is stale");
    is_u64(sim_info_of(&s, 0).fb_total, 5000, "and ignored");
    packet_free_list(report(&s, 0, 10001, false));
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 1,
           "more than was sent is impossible");
    packet_free_list(report(&s, 1001, 6000, false));
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 2,
           "more marked than total is impossible");
    is_u64(sim_info_of(&s, 0).fb_total, 5000, "both ignored");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 0, "no cut");
    packet_free_list(report(&s, 1000, 6000, false));
    is_u64(sim_info_of(&s, 0).fb_ce, 1000, "a right one is believed again");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 1, "and cuts");
    packet_free_list(report(&s, 0, 6000, false));
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 3,
           "fewer marked than before is impossible");
    sim_done(&s);

    /* An outsider, who does not know the sequence numbers. */
    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1000, false);
    }
    for (i = 0; i < 5; i++) {
        struct sim_guest was = s.guest[1];

        s.guest[1].snd_nxt += i == 0 ? 20000000 : i == 1 ? -20000000u : 0;
        s.guest[1].rcv_nxt += i == 2 ? 1 : i == 3 ? -20000000u : 0;
        packet_free_list(report(&s, 2000, 5000, i % 2));
        s.guest[1] = was;
        is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), i < 4 ? i + 1 : 4,
               "%s", i < 4 ? "far from the connection's present" : "here");
        is_u64(sim_info_of(&s, 0).fb_total, i < 4 ? 0 : 5000, "%sbelieved",
               i < 4 ? "not " : "");
    }
    {
        /* His data does not put the real reports in doubt. */
        struct tcp_spec spec = sim_spec(&s, 1, ACDC_TCP_ACK, 100);

        spec.seq += 1u << 30;
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
        packet_free_list(report(&s, 2000, 6000, false));
        is_u64(sim_info_of(&s, 0).fb_total, 6000, "a report after his data");
    }
    sim_done(&s);

    /* A network that duplicated packets: resync, and then reports count. */
    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1000, false);
    }
    s.guest[1].rcv_nxt -= 5004;         /* Half of it in flight. */
    for (i = 0; i < 4; i++) {
        s.guest[1].rcv_nxt++;
        packet_free_list(report(&s, 0, 11000, false));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 4, "four impossible");
    is_u64(sim_info_of(&s, 0).fb_total, 11000, "then counting starts anew");
    s.guest[1].rcv_nxt += 5000;
    packet_free_list(report(&s, 3000, 16000, false));
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 4,
           "what was in flight is reported");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 1, "and its marks cut");
    sim_done(&s);

    /* Until then it is no silence, however much each acknowledges.  If both
     * ends were taken to be silent neither would speak again. */
    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    packet_free(sim_ack(&s, 1));        /* Opens the whole window. */
    for (i = 1; i <= 3; i++) {
        for (unsigned int k = 0; k < 200; k++) {
            sim_data(&s, 0, 1448, false);
        }
        packet_free_list(report(&s, 0, i * 200 * 1448 + 1000, false));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 3, "three impossible");
    ok(sim_info_of(&s, 0).capable, "but the other end speaks");
    sim_done(&s);
}

/* Small messages, acknowledged on large segments: those have no room for a report,
 * and a FACK waits for two segments' worth of bytes. */
static void
test_small(void)
{
    struct sim s;
    unsigned int i;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    for (i = 0; i < 300; i++) {
        struct tcp_spec spec;

        sim_data(&s, 0, 9, false);
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 1448);
        spec.gso = 1448;
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
        s.now += SIM_MS;
    }
    is_u64(sim_counter(&s, 0, ACDC_C_PACK_RECEIVED), 0, "no report");
    ok(sim_info_of(&s, 0).capable, "300 ACKs of 9 bytes are no silence");
    sim_done(&s);
}

/* The peer goes to a host without AC/DC. */
static void
test_lost(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_tenant_stats stats;
    struct packet *p;
    struct tcp_spec spec;
    struct sim s;
    unsigned int i;

    params.fallback = ACDC_ALG_RENO;
    sim_init(&s, &params, NULL);
    sim_connect(&s);
    ok(sim_info_of(&s, 0).capable, "capable");
    i = sim_lose_reports(&s);
    ok(!sim_info_of(&s, 0).capable && i > 10, "without feedback no longer capable"
       " (after %u segments)", i);
    is_u64(sim_info_of(&s, 0).algorithm, ACDC_ALG_RENO, "the fallback is in force");
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_LOST), 1, "counted");
    acdc_tenant_stats_get(s.acdc[0], SIM_TENANT, &stats);
    ok(!stats.n_capable && stats.n_fallback == 1, "in the tenant's counts");
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 100);
    p = sim_egress(&s, 0, packet_make(&spec));
    ok(!packet_is_ours(p) && !packet_ecn(p), "data is not marked any more");
    packet_free_list(sim_ingress(&s, 1, p));
    s.guest[0].snd_nxt += 100;
    s.guest[1].rcv_nxt += 100;
    packet_free_list(report(&s, 0, 100, false));
    ok(sim_info_of(&s, 0).capable && sim_info_of(&s, 0).algorithm == ACDC_ALG_DCTCP,
       "a believable report brings it back");
    sim_done(&s);
}

/* A FACK sent with data that is sent again must be one that the other guest
 * accepts as a window update. */
static void
test_fack_number(void)
{
    struct tcp_spec first;
    struct acdc_pkt view;
    struct packet *p;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    first = sim_spec(&s, 1, ACDC_TCP_ACK, 1460);
    sim_data(&s, 1, 1460, false);
    sim_data(&s, 1, 1460, false);
    sim_data(&s, 0, 1460, false);
    sim_data(&s, 0, 1460, false);
    p = sim_egress(&s, 1, packet_make(&first));
    ok(packet_count(p) == 2 && packet_is_fack(p) && packet_parse(p, &view)
       && view.seq == s.guest[1].snd_nxt && packet_csum_ok(p),
       "the FACK has SND.NXT");
    ok(packet_parse(p->next, &view) && view.seq == first.seq,
       "the data its own number");
    packet_free_list(p);
    sim_done(&s);
}

/* Data of both directions: PACK where it fits, FACK elsewhere. */
static void
test_fack(void)
{
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    uint32_t ce, total;
    struct packet *p;
    struct sim s;

    sim_init(&s, NULL, NULL);
    s.guest[0].wscale = s.guest[1].wscale = 0;
    sim_connect(&s);
    /* Guest 0 sends; guest 1 answers with data. */
    sim_data(&s, 0, 1460, false);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 100);
    p = sim_egress(&s, 1, packet_make(&spec));
    is_u64(packet_count(p), 1, "a short segment of data");
    ok(packet_feedback(p, &ce, &total) && total == 1460, "is a PACK");
    packet_free_list(p);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 1460);
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(packet_count(p) == 1 && !packet_feedback(p, &ce, &total),
       "nothing new: no feedback with a full segment");
    packet_free_list(p);
    sim_data(&s, 0, 1460, false);
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(packet_count(p) == 1 && !packet_feedback(p, &ce, &total),
       "one segment of news waits");
    packet_free_list(p);
    sim_data(&s, 0, 1460, true);
    p = sim_egress(&s, 1, packet_make(&spec));
    is_u64(packet_count(p), 2, "two, or a mark: a FACK before the segment");
    ok(packet_is_fack(p) && packet_feedback(p, &ce, &total)
       && total == 3 * 1460 && ce == 1460, "with the counts");
    ok(packet_csum_ok(p) && packet_ecn(p) == ACDC_ECN_ECT0,
       "right checksum, ECT(0)");
    ok(!packet_is_fack(p->next) && !packet_feedback(p->next, &ce, &total)
       && packet_payload_ok(p->next), "the segment is as it was");
    {
        struct packet *fack = packet_clone(p);
        uint64_t cuts = sim_counter(&s, 0, ACDC_C_CUTS_ECN);

        p->next->next = NULL;
        packet_free(p->next);
        p->next = NULL;
        packet_free(p);
        /* 3 of 10 segments: the window becomes less than was offered. */
        p = sim_ingress(&s, 0, packet_clone(fack));
        is_u64(packet_count(p), 0, "a FACK that takes away ends here");
        is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), cuts + 1, "and cuts");
        fi = sim_info_of(&s, 0);
        is_u64(fi.fb_total, 3 * 1460, "its counts are taken");
        packet_free(fack);
    }
    sim_done(&s);

    /* One that opens the window becomes a window update. */
    sim_init(&s, NULL, NULL);
    s.guest[0].wscale = s.guest[1].wscale = 0;
    sim_connect(&s);
    for (int i = 0; i < 10; i++) {
        sim_data(&s, 0, 1460, false);
    }
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_feedback(&spec, ACDC_OPT_EXID, 0, 14600);
    spec.reserved = ACDC_RES_FACK;
    p = sim_ingress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "a FACK that opens the window goes on");
    if (p) {
        struct acdc_pkt pkt;

        ok(!packet_is_ours(p) && packet_csum_ok(p) && packet_ecn(p) == 0,
           "as a plain window update");
        packet_parse(p, &pkt);
        is_u64(pkt.ack, s.guest[0].snd_nxt, "of the ACK number it had");
        ok(packet_window(p) > 14600, "and a larger window");
    }
    packet_free_list(p);
    p = sim_ingress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 0, "said again, it is no duplicate ACK");
    is_u64(sim_counter(&s, 0, ACDC_C_WINDOW_UPDATES), 1, "counted once");
    packet_free_list(p);
    sim_done(&s);

    /* One that was overtaken ends here, and what it says of the window has not
     * been said to the guest. */
    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    spec.window = 500;
    opt_feedback(&spec, ACDC_OPT_EXID, 0, 0);
    spec.reserved = ACDC_RES_FACK;
    sim_data(&s, 0, 1460, false);
    sim_data(&s, 0, 1460, false);
    s.guest[1].rcv_nxt -= 1460;
    s.guest[1].window = 0;
    is_u64(sim_ack_window(&s, 1), 0, "the window is closed");
    is_u64(sim_counter(&s, 0, ACDC_C_FACK_RECEIVED), 0, "no FACK yet");
    p = sim_ingress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 0, "an overtaken FACK ends here");
    is_u64(sim_counter(&s, 0, ACDC_C_FACK_RECEIVED), 1, "it was one");
    s.guest[1].window = 500;
    ok(sim_ack_window(&s, 1) > 0, "and the window opens when the guest says so");
    sim_done(&s);

    /* An ACK without room. */
    sim_init(&s, NULL, NULL);
    s.guest[0].timestamps = s.guest[1].timestamps = true;
    sim_connect(&s);
    for (int i = 0; i < 2; i++) {
        sim_data(&s, 0, 1448, true);
    }
    {
        uint32_t edges[] = { 1, 2, 3, 4, 5, 6 };

        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_nop(&spec, 2);
        opt_sack(&spec, 3, edges);
    }
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(packet_count(p) == 2 && packet_is_fack(p) && packet_csum_ok(p),
       "40 bytes of options: the feedback goes in a FACK");
    {
        struct acdc_pkt pkt;

        packet_parse(p, &pkt);
        ok(pkt.opt_flags & ACDC_O_TIMESTAMP, "which has the timestamps");
    }
    p = sim_ingress(&s, 0, p);
    is_u64(sim_info_of(&s, 0).fb_ce, 2896, "and arrives");
    for (struct packet *q = p; q; q = q->next) {
        ok(!packet_is_ours(q) && packet_csum_ok(q), "clean at the guest");
    }
    packet_free_list(p);
    /* This port's MTU has room, but the other end's did not ask for more. */
    acdc_port_set_mtu(s.port[1], 9000);
    for (unsigned int payload = 1436; payload <= 1448; payload += 12) {
        sim_data(&s, 0, 1448, true);
        sim_data(&s, 0, 1448, true);
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, payload);
        p = sim_egress(&s, 1, packet_make(&spec));
        if (payload == 1436) {
            ok(packet_count(p) == 1 && packet_feedback(p, &ce, &total),
               "a PACK makes a full segment");
        } else {
            ok(packet_count(p) == 2 && packet_is_fack(p)
               && !packet_feedback(p->next, &ce, &total),
               "none is made larger");
        }
        packet_free_list(p);
    }
    acdc_port_set_mtu(s.port[1], 1500);
    /* A segment to be split by TSO carries none. */
    sim_data(&s, 0, 1448, true);
    sim_data(&s, 0, 1448, true);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 9000);
    spec.gso = 1448;
    spec.csum_partial = true;
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(packet_count(p) == 2 && packet_is_fack(p)
       && !packet_feedback(p->next, &ce, &total), "TSO: a FACK");
    ok(packet_csum_ok(p) && packet_csum_ok(p->next), "checksums");
    packet_free_list(p);
    sim_done(&s);
}

/* Of a SYN, too, which remains one. */
static void
test_forged_in_syn(void)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    uint32_t ce, total;

    sim_init(&s, NULL, NULL);
    spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
    opt_mss(&spec, 1460);
    opt_feedback(&spec, ACDC_OPT_EXID, 1, 2);
    p = sim_egress(&s, 0, packet_make(&spec));
    is_u64(sim_counter(&s, 0, ACDC_C_FORGED), 1,
           "a SYN with a forged option is counted");
    is_u64(sim_n_flows(&s, 0), 1, "and followed");
    ok(packet_is_ours(p) && !packet_feedback(p, &ce, &total),
       "with the capability and nothing else of ours");
    packet_free_list(p);
    sim_done(&s);
}

/* The network delivers every packet twice, marked or not: alpha is that fraction all
 * the same, and after the first reports none is impossible. */
static void
test_duplicates(void)
{
    enum { MSS = 1000, N = 20000, FLIGHT = 8, TENTH = ACDC_FIX_ONE / 10 };
    uint64_t alpha = 0;
    unsigned int i, k;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    for (i = 0; i < N + FLIGHT; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_ACK, MSS);
        struct packet *p;

        if (i < N) {
            packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
            s.guest[0].snd_nxt += MSS;
        }
        if (i >= FLIGHT) {
            /* The one sent FLIGHT packets ago, as the engine sent it. */
            spec.seq = s.guest[1].rcv_nxt;
            spec.ecn = i % 10 ? ACDC_ECN_ECT0 : ACDC_ECN_CE;
            s.guest[1].rcv_nxt += MSS;
            for (k = 0; k < 2; k++) {
                p = packet_make(&spec);
                packet_free_list(sim_ingress(&s, 1, p));
                packet_free_list(sim_ack(&s, 1));
            }
        }
        s.now += SIM_MS / 10;
        alpha += i >= N / 2 && i < N ? sim_info_of(&s, 0).alpha : 0;
    }
    alpha /= N / 2;
    printf("# alpha %.4f\n", (double) alpha / ACDC_FIX_ONE);
    ok(alpha > TENTH / 2 && alpha < TENTH * 3 / 2, "every packet twice: alpha");
    ok(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD) <= ACDC_FEEDBACK_RESYNC,
       "few impossible reports: %u",
       (unsigned int) sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD));
    sim_done(&s);
}

/* What a guest makes up is removed before it can be believed. */
static void
test_forged(void)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    uint32_t ce, total;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    sim_data(&s, 0, 1000, true);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_feedback(&spec, ACDC_OPT_EXID, 0, 1000);
    opt_nop(&spec, 1);
    opt_feedback(&spec, ACDC_OPT_EXID, 0, 999);         /* Not aligned. */
    opt_capability(&spec, ACDC_OPT_EXID);
    spec.reserved = ACDC_RES_FACK | ACDC_RES_ECN_MASK | 1;
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(packet_feedback(p, &ce, &total) && ce == 1000 && total == 1000,
       "forged feedback is replaced by the truth");
    is_u64(packet_reserved(p), ACDC_RES_ECN_MASK | 1,
           "reserved bits are the engine's, Not-ECT, AE stays");
    ok(packet_csum_ok(p), "checksum");
    is_u64(sim_counter(&s, 1, ACDC_C_FORGED), 1, "counted");
    packet_free_list(sim_ingress(&s, 0, p));
    is_u64(sim_info_of(&s, 0).fb_ce, 1000, "and arrives");
    /* Without a flow as well. */
    acdc_flush(s.acdc[1], NULL, NULL);
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(!packet_is_ours(p) && packet_csum_ok(p), "also without a flow");
    packet_free_list(p);
    /* Another ExID is somebody else's. */
    spec.opts_len = 0;
    spec.reserved = 0;
    opt_feedback(&spec, 0xabcd, 1, 2);
    {
        struct packet *same = packet_make(&spec);

        p = sim_egress(&s, 1, packet_clone(same));
        ok(packet_same(p, same), "an option of another ExID stays");
        packet_free_list(p);
        packet_free(same);
    }
    sim_done(&s);
}

/* To a guest without a flow nothing of ours gets through either. */
static void
test_clean(void)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    int i;

    for (i = 0; i < 2; i++) {
        sim_init(&s, NULL, NULL);
        if (i) {
            sim_remove_acdc(&s, 1);
        }
        sim_connect(&s);
        if (!i) {
            acdc_flush(s.acdc[0], NULL, NULL);
        }
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 100);
        opt_feedback(&spec, ACDC_OPT_EXID, 0, 0);
        spec.reserved = ACDC_ECN_ECT1 << ACDC_RES_ECN_SHIFT;
        spec.ecn = ACDC_ECN_CE;
        p = sim_ingress(&s, 0, packet_make(&spec));
        /* A peer without AC/DC sent those bits itself: the mark stays. */
        ok(packet_count(p) == 1 && !packet_is_ours(p)
           && packet_ecn(p) == (i ? ACDC_ECN_CE : ACDC_ECN_ECT1)
           && packet_csum_ok(p)
           && packet_payload_ok(p), "%s: cleaned",
           i ? "peer not capable" : "no flow");
        packet_free_list(p);
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_feedback(&spec, ACDC_OPT_EXID, 0, 0);
        spec.reserved = ACDC_RES_FACK;
        p = sim_ingress(&s, 0, packet_make(&spec));
        is_u64(packet_count(p), 0, "a FACK ends there");
        packet_free_list(p);
        spec = sim_spec(&s, 1, ACDC_TCP_SYN, 0);
        spec.reserved = ACDC_RES_ECN_MASK | 1;
        p = sim_ingress(&s, 0, packet_make(&spec));
        ok(packet_reserved(p) == 1 && packet_csum_ok(p),
           "reserved bits of a SYN without the capability too");
        packet_free_list(p);
        sim_done(&s);
    }
}

/* A server's clock is a millisecond behind: no timeout, no idle restart. */
static void
test_clock_skew(void)
{
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    sim_data(&s, 0, 1000, false);
    packet_free(sim_ack(&s, 1));
    s.now -= 2 * SIM_MS;
    sim_data(&s, 0, 1000, false);
    is_u64(sim_counter(&s, 0, ACDC_C_IDLE_RESTARTS), 0, "no idle restart");
    s.guest[0].snd_nxt -= 1000;
    s.now -= 2 * SIM_MS;
    sim_data(&s, 0, 1000, false);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "no timeout");
    sim_done(&s);
}

/* A FACK for which there is no memory ends all the same. */
static void
test_fack_without_memory(void)
{
    struct packet *list, *p;
    struct sim s;

    sim_connect_as(&s, NULL);
    sim_data(&s, 0, 1448, true);
    list = sim_on_wire(&s, 1, 1448);
    ok(packet_is_fack(list) && packet_count(list) == 2, "a FACK before data");
    p = list->next;
    list->next = NULL;
    host_fail(HOST_WRITABLE, 1, -1);
    list = sim_ingress(&s, 0, list);
    host_fail(HOST_WRITABLE, 0, 0);
    is_u64(packet_count(list), 0, "the guest does not get it");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MEMORY), 1, "counted");
    packet_free_list(list);
    packet_free_list(p);
    sim_done(&s);
}

int
main(void)
{
    test_arithmetic(1000, 300, 0);
    test_arithmetic(1000, 300, 0xffff0000);
    test_arithmetic(60000, 300, 0xff800000);
    test_arithmetic(1000, 300, 0x7fff0000);
    test_hiding(false);
    test_hiding(true);
    test_bad();
    test_small();
    test_lost();
    test_fack_without_memory();
    test_fack();
    test_fack_number();
    test_duplicates();
    test_forged();
    test_forged_in_syn();
    test_clean();
    test_clock_skew();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
