/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The handshake through two engines: capability, ECT mark, options, window
 * scale, retransmissions, simultaneous open. */

#include "sim.h"
#include "tap.h"

static bool
all_ok(const struct packet *p)
{
    for (; p; p = p->next) {
        if (!packet_csum_ok(p) || !packet_payload_ok(p)) {
            return false;
        }
    }
    return true;
}

/* SYN, SYN-ACK and ACK of two capable ends. */
static void
test_capable(bool v6, unsigned int vlans, bool partial, unsigned int headroom)
{
    struct acdc_flow_info fi;
    struct acdc_pkt pkt;
    struct sim s;
    int i;

    sim_init(&s, NULL, NULL);
    s.v6 = v6;
    s.vlans = vlans;
    s.csum_partial = partial;
    s.headroom = headroom;
    sim_connect(&s);
    printf("# v%d, %u VLANs, partial checksum %d, headroom %u\n", v6 ? 6 : 4,
           vlans, partial, headroom);
    for (i = 0; i < 2; i++) {
        const char *name = i ? "SYN-ACK" : "SYN";

        packet_parse(s.wire[i], &pkt);
        ok(pkt.opt_flags & ACDC_O_CAPABILITY, "%s carries the capability",
           name);
        is_u64(acdc_pkt_ecn(&pkt), ACDC_ECN_ECT0, "%s is ECT(0)", name);
        ok(!packet_is_ours(s.seen[i]), "guest sees nothing of ours in %s",
           name);
        is_u64(packet_ecn(s.seen[i]), 0, "guest sees its own ECN in %s", name);
        ok(all_ok(s.wire[i]) && all_ok(s.seen[i]), "checksums of %s", name);
    }
    packet_parse(s.wire[2], &pkt);
    ok(pkt.opt_flags & ACDC_O_FEEDBACK, "first ACK is a PACK");
    ok(!packet_is_ours(s.seen[2]) && all_ok(s.seen[2]),
       "which the guest does not see");
    for (i = 0; i < 2; i++) {
        sim_info(&s, i, &fi);
        ok(fi.capable && fi.state == ACDC_FLOW_ESTABLISHED,
           "flow at %d is capable and established", i);
        is_u64(fi.window, 14600, "initial window");
        is_u64(fi.alpha, ACDC_FIX_ONE, "alpha is 1");
        is_u64(fi.algorithm, ACDC_ALG_DCTCP, "dctcp");
        is_u64(fi.ip_version, v6 ? 6 : 4, "IP version");
    }
    sim_done(&s);
}

static void
test_no_peer(void)
{
    int with;

    for (with = 0; with < 2; with++) {
        struct acdc_flow_info fi;
        struct sim s;

        sim_init(&s, NULL, NULL);
        sim_remove_acdc(&s, !with);
        s.guest[0].ecn = s.guest[1].ecn = true;
        s.guest[0].ect = ACDC_ECN_ECT0;
        sim_connect(&s);
        printf("# AC/DC at side %d only\n", with);
        ok(!with == packet_is_ours(s.wire[0]), "capability in SYN");
        ok(!packet_is_ours(s.wire[1]), "none in SYN-ACK");
        ok(!packet_is_ours(s.wire[2]), "no feedback");
        sim_info(&s, with, &fi);
        ok(!fi.capable && fi.algorithm == ACDC_ALG_NONE, "fallback none");
        ok(fi.guest_ecn, "guests' ECN noticed");
        is_u64(sim_counter(&s, with, ACDC_C_FLOWS_FALLBACK), 1, "counted");
        is_u64(packet_window(s.seen[2]), 0xffff, "window untouched");
        is_u64(packet_ecn(s.wire[2]), ACDC_ECN_ECT0, "guest's ECN untouched");
        sim_done(&s);
    }
}


static bool
has_capability(const struct packet *p)
{
    struct acdc_pkt pkt;

    return packet_parse(p, &pkt) && (pkt.opt_flags & ACDC_O_CAPABILITY);
}

static uint8_t
wscale_of(const struct packet *p)
{
    struct acdc_pkt pkt;

    packet_parse(p, &pkt);
    return pkt.wscale;
}

static bool
capable(const struct sim *s, int side)
{
    struct acdc_flow_info fi;

    sim_info(s, side, &fi);
    return fi.capable;
}

/* A guest that is patient. */
static void
wait(struct sim *s)
{
    s->now += ACDC_SYN_PLAIN_MS * SIM_MS;
}

/* A SYN sent again after a while goes without option and mark; whichever SYN and SYN-ACK
 * arrives, both ends agree in the end. */
static void
test_syn_retransmission(void)
{
    struct acdc_flow_info fi;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    ok(has_capability(s.wire[0]), "first SYN offers the capability");
    sim_syn(&s);
    ok(has_capability(s.wire[0]), "second SYN too");
    wait(&s);
    sim_syn(&s);
    ok(!packet_is_ours(s.wire[0]) && !packet_ecn(s.wire[0]),
       "third SYN is plain");
    /* The others arrived, so this is answered with the capability. */
    sim_connect(&s);
    ok(has_capability(s.wire[1]), "SYN-ACK offers the capability");
    ok(capable(&s, 0) && capable(&s, 1), "both ends capable");
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_CREATED), 1, "one flow");
    sim_done(&s);

    /* Only the plain one arrives. */
    sim_init(&s, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        struct packet *p;

        opt_mss(&spec, 1460);
        p = sim_egress(&s, 0, packet_make(&spec));
        packet_free_list(i < 2 ? p : sim_ingress(&s, 1, p));
        wait(&s);
    }
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt + 1;
    sim_synack(&s);
    ok(!has_capability(s.wire[1]), "plain SYN-ACK to a plain SYN");
    ok(!capable(&s, 0) && !capable(&s, 1), "no end is capable");
    sim_done(&s);

    /* SYN-ACK sent three times: the last is plain, but the first arrived. */
    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    sim_synack(&s);
    sim_synack(&s);
    ok(has_capability(s.wire[1]), "second SYN-ACK offers the capability");
    wait(&s);
    sim_synack(&s);
    ok(!has_capability(s.wire[1]), "third SYN-ACK is plain");
    ok(!capable(&s, 1), "the listening end is unsure");
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    s.guest[0].rcv_nxt = s.guest[1].snd_nxt;
    packet_free(sim_ack(&s, 0));
    ok(capable(&s, 0) && capable(&s, 1), "until feedback arrives");
    sim_done(&s);

    /* The SYN comes again after a SYN-ACK without window scale. */
    sim_init(&s, NULL, NULL);
    s.guest[0].wscale = 7;
    s.guest[1].wscale = -1;
    sim_syn(&s);
    sim_synack(&s);
    sim_syn(&s);
    sim_connect(&s);
    sim_info(&s, 1, &fi);
    is_u64(fi.wscale_remote, 0, "no window scale after SYN, SYN-ACK, SYN");
    is_u64(packet_window(s.seen[2]), 14600, "window in bytes");
    ok(fi.capable, "capable");
    sim_done(&s);
}

/* The SYN of guest 0 with 400 bytes. */
static struct tcp_spec
fast_open_syn(const struct sim *s)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_SYN, 400);

    opt_mss(&spec, 1460);
    opt_wscale(&spec, 7);
    return spec;
}

/* TCP Fast Open: the SYN has data, and none when it is sent again.  The other
 * end got the first one and acknowledges the data. */
static void
test_fast_open(bool first_arrives_late)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    sim_init(&s, NULL, NULL);
    spec = fast_open_syn(&s);
    p = sim_egress(&s, 0, packet_make(&spec));
    if (first_arrives_late) {
        sim_syn(&s);
        packet_free_list(sim_ingress(&s, 1, p));
    } else {
        packet_free_list(sim_ingress(&s, 1, p));
        sim_syn(&s);
    }
    s.guest[1].rcv_nxt = spec.seq + 401;
    sim_synack(&s);
    ok(capable(&s, 0) && capable(&s, 1), "the SYN-ACK settles it");
    s.guest[0].snd_nxt += 401;
    s.guest[1].snd_nxt++;
    sim_data(&s, 0, 1000, false);
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_BAD), 0, "and its bytes count");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MIDSTREAM)
           + sim_counter(&s, 1, ACDC_C_UNTOUCHED_MIDSTREAM), 0, "tracked");
    sim_done(&s);
}

/* The same, and the engines of some sides forget the SYN that had data.  A server's
 * engine that did does not follow the connection. */
static void
test_fast_open_forgotten(bool police, bool v6, unsigned int sides)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    int i;

    params.police = police;
    sim_init(&s, &params, &params);
    s.v6 = v6;
    s.guest[0].wscale = s.guest[1].wscale = 7;
    spec = fast_open_syn(&s);
    packet_free_list(sim_send(&s, 0, &spec));
    for (i = 0; i < 2; i++) {
        if (sides & 1u << i) {
            sim_forget(&s, i);
        }
    }
    sim_syn(&s);
    s.guest[1].rcv_nxt = spec.seq + 401;
    sim_synack(&s);
    ok((capable(&s, 0) && capable(&s, 1)) == !(sides & 2),
       "sides %u forget: the SYN-ACK settles it", sides);
    s.guest[0].snd_nxt += 401;
    s.guest[1].snd_nxt++;
    for (i = 0; i < 4; i++) {
        spec = sim_spec(&s, i % 2, ACDC_TCP_ACK, 1000);
        p = sim_send(&s, i % 2, &spec);
        is_u64(packet_count(p), 1, "data arrives");
        packet_free_list(p);
        s.guest[i % 2].snd_nxt += 1000;
        s.guest[!(i % 2)].rcv_nxt += 1000;
        packet_free(sim_ack(&s, !(i % 2)));
    }
    for (i = 0; i < 2; i++) {
        is_u64(sim_counter(&s, i, ACDC_C_FEEDBACK_BAD), 0, "its bytes count");
        is_u64(sim_counter(&s, i, ACDC_C_POLICED_PACKETS), 0, "not policed");
        is_u64(sim_counter(&s, i, ACDC_C_UNTOUCHED_MIDSTREAM), i && (sides & 2), "tracked");
    }
    sim_done(&s);
}

/* A SYN that was sent again just before its guest got the SYN-ACK. */
static void
test_late_syn(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct sim s;

    params.police = true;
    sim_init(&s, &params, &params);
    sim_syn(&s);
    sim_synack(&s);
    sim_syn(&s);
    sim_info(&s, 0, &fi);
    is_u64(fi.state, ACDC_FLOW_ESTABLISHED, "the connection stays");
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1000);
    is_u64(sim_leave(&s, 0, &spec), 1, "and its data is not policed");
    sim_done(&s);
}

static void
test_wscale(void)
{
    static const struct {
        int wscale;
        uint16_t mss;
        uint8_t told;
    } cases[] = {
        { 14, 1460, 10 }, { 11, 1460, 10 }, { 10, 1460, 10 }, { 9, 1460, 9 },
        { 0, 1460, 0 }, { 14, 8960, 13 }, { 14, 536, 9 },
    };
    unsigned int i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct acdc_flow_info fi;
        struct sim s;
        uint8_t told = cases[i].told;
        uint16_t window;

        sim_init(&s, NULL, NULL);
        s.guest[0].wscale = s.guest[1].wscale = cases[i].wscale;
        s.guest[0].mss = s.guest[1].mss = cases[i].mss;
        s.guest[0].window = s.guest[1].window = 40;
        sim_connect(&s);
        is_u64(wscale_of(s.seen[0]), told, "MSS %u, scale %d in SYN",
               cases[i].mss, cases[i].wscale);
        is_u64(wscale_of(s.seen[1]), told, "the same in SYN-ACK");
        ok(all_ok(s.seen[0]) && all_ok(s.seen[1]), "checksums");
        sim_info(&s, 0, &fi);
        window = sim_ack_window(&s, 1);
        if (40u << cases[i].wscale >= fi.window) {
            is_u64(window, (fi.window + (1u << told) - 1) >> told,
                   "window in the scale the guest knows");
        } else {
            is_u64((uint32_t) window << told, 40u << cases[i].wscale,
                   "the peer's own window");
        }
        is_u64(fi.rescaled, told != cases[i].wscale, "rescaled");
        /* Sent again, it says the same. */
        s.guest[1].snd_nxt--;
        sim_synack(&s);
        is_u64(wscale_of(s.seen[1]), told, "the same in a second SYN-ACK");
        sim_done(&s);
    }
}

static uint16_t
mss_of(const struct packet *p)
{
    struct acdc_pkt pkt;

    packet_parse(p, &pkt);
    return pkt.opt_flags & ACDC_O_MSS ? pkt.mss : 0;
}

/* An MSS whose full segments are a whole number of window units. */
static void
test_align_mss(void)
{
    static const struct {
        int wscale;
        uint16_t mss;
        bool timestamps;
        uint16_t told;
    } cases[] = {
        { 7, 1460, true, 1420 }, { 7, 1460, false, 1408 },
        { 7, 8960, true, 8844 }, { 8, 1460, true, 1292 },
        { 3, 70, false, 64 },
        /* Aligned already, or every window can be told. */
        { 7, 1420, true, 1420 }, { 0, 1460, true, 1460 },
        { -1, 1460, true, 1460 },
        /* More than an eighth would be lost; scale 14 is made 10. */
        { 9, 1460, true, 1460 }, { 10, 1460, true, 1460 },
        { 14, 1460, true, 1460 }, { 6, 100, false, 100 },
        /* Nothing worth the name would be left. */
        { 3, 71, true, 71 }, { 7, 20, false, 20 },
        /* No option. */
        { 7, 0, true, 0 },
    };
    struct acdc_params align = acdc_params_default;
    struct acdc_flow_info fi;
    struct sim s;
    unsigned int i;

    align.align_mss = true;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint16_t mss = cases[i].mss, told = cases[i].told;
        int from;

        printf("# scale %d, MSS %u, timestamps %d\n", cases[i].wscale, mss,
               cases[i].timestamps);
        sim_init(&s, &align, &align);
        for (from = 0; from < 2; from++) {
            s.guest[from].wscale = cases[i].wscale;
            s.guest[from].mss = mss;
            s.guest[from].timestamps = cases[i].timestamps;
        }
        sim_syn(&s);
        is_u64(mss_of(s.wire[0]), mss, "SYN as the guest sent it");
        is_u64(mss_of(s.seen[0]), told, "in SYN");
        sim_syn(&s);
        is_u64(mss_of(s.seen[0]), told, "in a second SYN");
        sim_connect(&s);
        is_u64(mss_of(s.seen[1]), told, "in SYN-ACK");
        ok(all_ok(s.seen[0]) && all_ok(s.seen[1]), "checksums");
        for (from = 0; from < 2; from++) {
            uint16_t mine = told ? told : ACDC_MSS_DEFAULT4;

            mine = mine > ACDC_MSS_MIN ? mine : ACDC_MSS_MIN;
            mine -= cases[i].timestamps && mine > ACDC_MSS_MIN + 12 ? 12 : 0;
            sim_info(&s, from, &fi);
            is_u64(fi.mss, mine, "MSS of %d", from);
            is_u64(fi.window, 10u * mine, "initial window of %d", from);
        }

        /* Sent again, they say the same, whatever the policy says now. */
        sim_policy(&s, 0, NULL);
        sim_policy(&s, 1, NULL);
        s.guest[1].snd_nxt--;
        sim_synack(&s);
        is_u64(mss_of(s.seen[1]), told, "the same in a late SYN-ACK");
        {
            struct packet *p = sim_ingress(&s, 1, packet_clone(s.wire[0]));

            is_u64(mss_of(p), told, "the same in a late SYN");
            packet_free(p);
        }
        sim_info(&s, 1, &fi);
        is_u64(fi.window, 10u * fi.mss, "no other window");
        sim_done(&s);
    }

    /* A guest with a smaller MTU sends what fits there. */
    sim_init(&s, &align, &align);
    s.guest[0].mss = 1400;
    s.guest[0].timestamps = s.guest[1].timestamps = true;
    sim_connect(&s);
    is_u64(mss_of(s.seen[1]), 1420, "told 1420");
    sim_info(&s, 0, &fi);
    is_u64(fi.mss, 1388, "sends 1388");
    sim_done(&s);

    /* Timestamps that the server does not want. */
    sim_init(&s, &align, &align);
    s.guest[0].timestamps = true;
    sim_connect(&s);
    is_u64(mss_of(s.seen[0]), 1420, "told 1420");
    sim_info(&s, 1, &fi);
    is_u64(fi.mss, 1420, "sends 1420");
    sim_done(&s);

    /* Two options: guests differ in which they take. */
    sim_init(&s, &align, &align);
    {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        struct packet *p;

        opt_mss(&spec, 1460);
        opt_wscale(&spec, 7);
        opt_nop(&spec, 1);
        opt_mss(&spec, 1460);
        p = sim_send(&s, 0, &spec);
        ok(all_ok(p) && !memcmp(packet_data(p) + 54,
                                "\2\4\x05\x80\3\3\7\1\2\4\x05\x80", 12),
           "both options say 1408");
        packet_free(p);
    }
    sim_done(&s);

    /* Where no window is written, no MSS is. */
    for (i = 0; i < 4; i++) {
        struct acdc_params params = align;

        params.mode = i == 0 ? ACDC_MODE_OBSERVE : ACDC_MODE_ENFORCE;
        params.algorithm = i == 1 ? ACDC_ALG_NONE : ACDC_ALG_DCTCP;
        params.fallback = i == 3 ? ACDC_ALG_RENO : ACDC_ALG_NONE;
        sim_init(&s, NULL, &params);
        if (i >= 2) {
            sim_remove_acdc(&s, 0);
        }
        sim_syn(&s);
        is_u64(mss_of(s.seen[0]), i == 3 ? 1408 : 1460,
               "observe, none, no peer, fallback: %u", i);
        sim_done(&s);
    }
}

/* Both guests connect at once (RFC 9293 section 3.5).  Guest 'scaled' alone
 * has the window scale option; -1: none has it. */
static void
test_simultaneous(bool capable0, bool capable1, bool late, int scaled)
{
    struct packet *p[2];
    struct sim s;
    int i;

    sim_init(&s, NULL, NULL);
    printf("# simultaneous open, AC/DC at 0: %d, at 1: %d, SYN late: %d,"
           " scale of %d\n", capable0, capable1, late, scaled);
    if (!capable0) {
        sim_remove_acdc(&s, 0);
    }
    if (!capable1) {
        sim_remove_acdc(&s, 1);
    }
    for (i = 0; i < 2; i++) {
        struct tcp_spec spec = sim_spec(&s, i, ACDC_TCP_SYN, 0);

        opt_mss(&spec, 1460);
        opt_timestamp(&spec, 1, 0);
        if (i == scaled) {
            opt_wscale(&spec, 8);
        }
        p[i] = packet_make(&spec);
        if (!late || !i) {
            p[i] = sim_egress(&s, i, p[i]);
        }
    }
    /* Late: the SYN of guest 0 passes engine 1 before that of guest 1. */
    p[0] = sim_ingress(&s, 1, p[0]);
    if (late) {
        p[1] = sim_egress(&s, 1, p[1]);
    }
    p[1] = sim_ingress(&s, 0, p[1]);
    for (i = 0; i < 2; i++) {
        ok((!packet_is_ours(p[i]) || !s.acdc[!i]) && all_ok(p[i]),
           "SYN of %d is clean", i);
        packet_free(p[i]);
        s.guest[i].rcv_nxt = s.guest[!i].snd_nxt + 1;
    }
    for (i = 0; i < 2; i++) {
        struct tcp_spec spec = sim_spec(&s, i, ACDC_TCP_SYN | ACDC_TCP_ACK,
                                        0);

        opt_mss(&spec, 1460);
        opt_timestamp(&spec, 1, 0);
        if (i == scaled) {
            opt_wscale(&spec, 8);
        }
        p[i] = sim_egress(&s, i, packet_make(&spec));
    }
    for (i = 0; i < 2; i++) {
        p[i] = sim_ingress(&s, !i, p[i]);
        ok(!packet_is_ours(p[i]) && all_ok(p[i]), "SYN-ACK of %d is clean",
           i);
        packet_free(p[i]);
        s.guest[i].snd_nxt++;
    }
    for (i = 0; i < 2; i++) {
        packet_free(sim_ack(&s, i));
    }
    for (i = 0; i < 2; i++) {
        struct acdc_flow_info fi;

        if (s.acdc[i]) {
            sim_info(&s, i, &fi);
            is_u64(fi.state, ACDC_FLOW_ESTABLISHED, "%d is established", i);
            is_u64(fi.capable, capable0 && capable1, "capable at %d", i);
            is_u64(fi.mss, 1448, "MSS at %d", i);
            is_u64(fi.wscale_local + fi.wscale_remote, 0, "no scaling at %d",
                   i);
            is_u64(sim_counter(&s, i, ACDC_C_FLOWS_CAPABLE)
                   + sim_counter(&s, i, ACDC_C_FLOWS_FALLBACK), 1,
                   "one handshake counted at %d", i);
        }
    }
    sim_done(&s);
}

static void
test_syn_knob(void)
{
    struct acdc_params params = acdc_params_default;
    struct sim s;

    params.ecn_syn = false;
    sim_init(&s, &params, &params);
    sim_connect(&s);
    ok(has_capability(s.wire[0]) && !packet_ecn(s.wire[0]), "SYN not ECT");
    ok(has_capability(s.wire[1]) && !packet_ecn(s.wire[1]), "SYN-ACK not ECT");
    sim_done(&s);

    params = acdc_params_default;
    params.enabled = false;
    sim_init(&s, &params, NULL);
    sim_connect(&s);
    ok(!packet_is_ours(s.wire[0]) && !packet_is_ours(s.wire[1]),
       "disabled: nothing offered");
    ok(sim_counter(&s, 0, ACDC_C_UNTOUCHED_DISABLED) > 0, "counted");
    sim_done(&s);

    /* A SYN of 40 bytes of options has no room. */
    sim_init(&s, NULL, NULL);
    {
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        struct packet *p, *same = NULL;

        opt_mss(&spec, 1460);
        opt_nop(&spec, 36);
        same = packet_make(&spec);
        p = sim_egress(&s, 0, packet_clone(same));
        ok(packet_same(p, same), "a SYN without room is untouched");
        packet_free(p);
        packet_free(same);
    }
    sim_done(&s);
}

/* A corrupt SYN-ACK, which the guest drops, settles nothing. */
static void
test_corrupt(void)
{
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    int i;

    for (i = 0; i < 2; i++) {
        sim_init(&s, NULL, NULL);
        s.guest[0].wscale = s.guest[1].wscale = 7;
        if (i) {
            sim_syn(&s);
        }
        spec = sim_spec(&s, i, ACDC_TCP_SYN | (i ? ACDC_TCP_ACK : 0), 0);
        spec.seq += 1000000;
        spec.bad_csum = true;
        opt_wscale(&spec, 3);
        p = sim_ingress(&s, !i, packet_make(&spec));
        ok(!packet_csum_ok(p), "it stays corrupt");
        packet_free_list(p);
        is_u64(sim_n_flows(&s, !i), (uint64_t) i, "no flow is made of it");
        if (i) {
            sim_synack(&s);
        } else {
            sim_connect(&s);
        }
        sim_info(&s, !i, &fi);
        is_u64(fi.wscale_remote, 7, "the scale of the intact one");
        ok(fi.capable, "and its capability");
        sim_done(&s);
    }
}

int
main(void)
{
    int i;

    for (i = 0; i < 12; i++) {
        test_capable(i & 1, (unsigned int) i / 2 % 3, i >= 6,
                     i % 5 ? 0 : 128);
    }
    test_no_peer();
    test_syn_retransmission();
    test_fast_open(false);
    test_fast_open(true);
    for (i = 0; i < 16; i++) {
        test_fast_open_forgotten(i & 1, i & 2, (unsigned int) i >> 2);
    }
    test_late_syn();
    test_wscale();
    test_align_mss();
    for (i = 0; i < 8; i++) {
        if (i & 3) {
            int scaled;

            for (scaled = -1; scaled < 2; scaled++) {
                test_simultaneous(i & 1, i & 2, i & 4, scaled);
            }
        }
    }
    test_syn_knob();
    test_corrupt();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
