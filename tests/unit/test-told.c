/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What a guest is told through two engines: windows, their updates, ACKs with other
 * numbers; observing; policy changed on live flows; what is timed. */

#include "sim.h"
#include "tap.h"

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
    sim_connect_as(&s, &params);
    is_u64(ask(&s, 10, true), 0, "a large window asks for nothing");
    is_u64(sim_info_of(&s, 0).window, 5 * 1448, "cut once");
    ask(&s, 5, true);
    is_u64(sim_info_of(&s, 0).window, 3620, "cut again");
    is_u64(ask(&s, 2, true), 2, "one that a cut leaves below two segments does");
    is_u64(sim_info_of(&s, 0).window, 2 * 1448, "not known yet whether it helps");
    /* The first of each two is acknowledged while the second is in flight; the
     * cut that learns of it comes with the next. */
    for (i = 1; i < 24; i++) {
        ask(&s, 2, true);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_PROMPT), 1, "known");
    is_u64(sim_counter(&s, 0, ACDC_C_SOLICITED), 48, "all counted");
    is_u64(ask(&s, 1, true), 1, "asked further on");
    is_u64(sim_info_of(&s, 0).window, 1448, "floor of one segment");
    for (i = 0; i < 10; i++) {
        is_u64(ask(&s, 1, true), 1, "and so on");
    }
    is_u64(sim_info_of(&s, 0).window, 1448, "no lower");
    /* Another policy. */
    params.small_windows = false;
    sim_policy(&s, 0, &params);
    is_u64(ask(&s, 1, true), 0, "no more");
    is_u64(sim_info_of(&s, 0).window, 2 * 1448, "two segments again");
    params.small_windows = true;
    sim_policy(&s, 0, &params);
    is_u64(ask(&s, 2, true), 2, "what is known stays known");
    ask(&s, 1, true);
    is_u64(sim_info_of(&s, 0).window, 1448, "one segment");
    /* Then one waits for an ACK. */
    s.now += 40 * SIM_MS;
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_DELAYED), 0, "idle is no delay");
    sim_data(&s, 0, 1448, false);
    s.now += 40 * SIM_MS;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_DELAYED), 1, "a delayed ACK");
    ok(sim_info_of(&s, 0).window >= 2 * 1448, "two segments again");
    for (i = 0; i < 50; i++) {
        is_u64(ask(&s, 2, true), 0, "not asked again");
    }
    is_u64(sim_info_of(&s, 0).window, 2 * 1448, "and never below");
    sim_done(&s);

    /* The guest's timer is first. */
    sim_connect_as(&s, &params);
    for (i = 0; i < 30; i++) {
        ask(&s, 2, true);
    }
    is_u64(sim_info_of(&s, 0).window, 1448, "small");
    sim_lose_data(&s, 1448);
    s.now += 20 * SIM_MS;
    s.guest[0].snd_nxt -= 1448;
    sim_lose_data(&s, 1448);
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_DELAYED), 1, "lost or delayed");
    sim_done(&s);

    /* A guest that acknowledges every second segment. */
    sim_connect_as(&s, &params);
    for (i = 0; i < 100; i++) {
        ask(&s, 2, false);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_PROMPT), 0, "delays ACKs");
    is_u64(sim_info_of(&s, 0).window, 2 * 1448, "floor of two segments");
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
        sim_connect_as(&s, &params);
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

/* A guest whose segment of 100 bytes is lost sends that again together with 'more' that it
 * wants to send since, as BSD's TCP does. */
static void
test_again_with_more(uint32_t more, bool early)
{
    struct sim s;
    int i;

    sim_connect_as(&s, NULL);
    for (i = 0; i < 10; i++) {
        sim_round_trip(&s, 0);
    }
    sim_lose_data(&s, 100);
    s.now += (early ? 1 : 300) * SIM_MS;
    s.guest[0].snd_nxt -= 100;
    sim_data(&s, 0, 100 + more, false);
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_info_of(&s, 0).srtt_us, 1000, "%u bytes more: it is not timed", more);
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 1, "it counts as sent again");
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), !early, "by the timer, or not");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "the tail is no other loss");
    sim_done(&s);
}

/* What probes a closed window is part of the first segment once that opens. */
static void
test_probe_with_more(void)
{
    struct sim s;
    int i;

    sim_connect_as(&s, NULL);
    for (i = 0; i < 10; i++) {
        sim_round_trip(&s, 0);
    }
    s.guest[1].window = 0;
    packet_free(sim_ack(&s, 1));
    s.now += 300 * SIM_MS;
    sim_lose_data(&s, 1);
    s.guest[0].snd_nxt--;
    s.now += 300 * SIM_MS;
    s.guest[1].window = 0xffff;
    packet_free(sim_ack(&s, 1));
    s.now += 100 * SIM_MS;
    sim_data(&s, 0, 1448, false);
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 0, "a probe's byte is not sent again");
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "nor is that a timeout");
    ok(sim_info_of(&s, 0).srtt_us < 2000, "nor timed");
    sim_done(&s);
}

static void
send_fin(struct sim *s)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_FIN | ACDC_TCP_ACK, 0);

    packet_free_list(sim_send(s, 0, &spec));
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

    sim_connect_as(&s, &params);
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
    is_u64(sim_info_of(&s, 0).srtt_us, 2000, "until its ACK");
    s.now += SIM_MS;
    sim_data(&s, 0, 1448, false);
    s.now += SIM_MS;
    ack_but(&s, 1448);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 1,
           "the second, under way then, is not");
    s.now += SIM_MS;
    ack_but(&s, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 2, "the third is");
    is_u64(sim_info_of(&s, 0).srtt_us, 2000, "from when it was sent");

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
    send_fin(&s);
    s.now += 300 * SIM_MS;
    send_fin(&s);
    s.guest[1].rcv_nxt++;
    ack_but(&s, 0);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), 3, "nor is a FIN that was sent again");
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
    fi = sim_info_of(&s, 0);
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

    sim_connect_as(&s, &params);
    sim_round_trip(&s, 0);
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
    is_u64(sim_info_of(&s, 0).algorithm, ACDC_ALG_CUBIC, "another algorithm");
    is_u64(sim_info_of(&s, 0).beta, 7, "another beta");
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
    static const uint8_t add_addr[16] = { 30, 16, 0x30, 1, 10, 0, 1, 1 };
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    sim_connect_as(&s, NULL);
    sim_data(&s, 0, 1448, false);
    sim_data(&s, 0, 1448, false);
    s.guest[1].rcv_nxt -= 1448;
    packet_free(sim_ack(&s, 1));
    s.guest[1].window = 0xfff0;
    p = sim_ack(&s, 1);
    is_u64(packet_count(p), 0, "absorbed");
    packet_free_list(p);
    is_u64(sim_counter(&s, 0, ACDC_C_UPDATES_ABSORBED), 1, "counted");
    s.guest[1].window = 0xffe0;
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_raw(&spec, add_addr, sizeof add_addr);
    p = sim_ingress(&s, 0, packet_make(&spec));
    is_u64(packet_count(p), 1, "not with what MPTCP says by it");
    packet_free_list(p);
    s.guest[1].window = 5;
    is_u64(sim_ack_window(&s, 1), 5, "one that closes is not");
    s.guest[1].window = 0;
    is_u64(sim_ack_window(&s, 1), 0, "zero is zero");
    s.guest[1].window = 0xffff;
    ok(sim_ack_window(&s, 1) > 0, "and opens again");
    sim_done(&s);
}

/* An ACK that others have overtaken, as where the network reorders or the peer's data waits
 * for its pace: what it says of the window is of the past, and guests do not take it (RFC
 * 9293 section 3.10.7.4). */
static void
test_overtaken(void)
{
    struct tcp_spec old;
    struct sim s;
    int i;

    sim_connect_as(&s, NULL);
    for (i = 0; i < 5; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    old = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    old.ack -= 4 * 1448;
    old.window = 0;
    ack_but(&s, 3 * 1448);
    packet_free_list(sim_send(&s, 1, &old));
    for (i = 0; i < 3; i++) {
        struct packet *p;

        s.guest[1].rcv_nxt -= 3 * 1448;
        p = sim_ack(&s, 1);
        s.guest[1].rcv_nxt += 3 * 1448;
        is_u64(packet_count(p), 1, "duplicate ACK %d arrives", i);
        packet_free_list(p);
        packet_free_list(sim_send(&s, 1, &old));
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "three are a loss");
    s.now += 300 * SIM_MS;
    s.guest[0].snd_nxt -= 3 * 1448;
    sim_data(&s, 0, 1448, false);
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 1, "and no window is probed");
    sim_done(&s);
}

/* The peer probes the closed window of a guest that has data in flight.  The guest's answer
 * opens it, and the guest counts no probe as a duplicate ACK. */
static void
test_window_probes(void)
{
    struct sim s;
    int i;

    sim_connect_as(&s, NULL);
    sim_data(&s, 1, 1448, false);
    s.guest[0].window = 0;
    packet_free(sim_ack(&s, 0));
    sim_data(&s, 0, 1448, false);
    s.guest[1].rcv_nxt -= 1448;
    for (i = 0; i < 5; i++) {
        struct tcp_spec spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        struct packet *p;

        spec.seq--;
        spec.window = i ? 0xfff0 : 0xffff;
        p = sim_send(&s, 1, &spec);
        is_u64(packet_count(p), 1, "probe %d", i);
        packet_free_list(p);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "nothing is taken for lost");
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

    sim_connect_as(&s, &params);
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
    sim_connect_as(&s, NULL);
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

    sim_connect_as(&s, &params);
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
    for (int scale = -1; scale <= 10; scale++) {
        test_rewriting(scale);
    }
    test_timing();
    test_again_with_more(0, false);
    test_again_with_more(1, false);
    test_again_with_more(1000, false);
    test_again_with_more(1000, true);
    test_probe_with_more();
    test_small_windows();
    test_observe();
    test_live();
    test_updates();
    test_overtaken();
    test_window_probes();
    test_renumbering();
    test_both_ways();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
