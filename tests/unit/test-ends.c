/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* How connections end, and how others begin in their place: RST, FIN, ports used again;
 * of both what cannot be believed. */

#include "sim.h"
#include "tap.h"

static void
rst(struct sim *s, int from, uint32_t seq)
{
    struct tcp_spec spec = sim_spec(s, from, ACDC_TCP_RST | ACDC_TCP_ACK, 0);

    spec.seq = seq;
    packet_free_list(sim_send(s, from, &spec));
}

static void
test_reuse(void)
{
    struct acdc_flow_info fi;
    struct sim s;

    /* Refused, then again with the same ports. */
    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    rst(&s, 1, 0);
    sim_info(&s, 0, &fi);
    is_u64(fi.state, ACDC_FLOW_CLOSED, "refused connection is closed");
    s.guest[0].snd_nxt += 100000;
    sim_connect(&s);
    ok(sim_info_of(&s, 0).capable && sim_info_of(&s, 1).capable, "second attempt is tracked");
    is_u64(sim_n_flows(&s, 0), 1, "in the same flow");
    /* RST, and the same ports with other numbers. */
    rst(&s, 0, s.guest[0].snd_nxt);
    sim_info(&s, 1, &fi);
    is_u64(fi.state, ACDC_FLOW_CLOSED, "reset connection is closed");
    s.guest[0].snd_nxt += 200000;
    s.guest[1].snd_nxt += 300000;
    sim_connect(&s);
    ok(sim_info_of(&s, 0).capable && sim_info_of(&s, 1).capable, "ports used again");
    sim_data(&s, 0, 1000, true);
    packet_free(sim_ack(&s, 1));
    sim_info(&s, 0, &fi);
    ok(fi.fb_total == 1000 && fi.fb_ce == 1000, "feedback starts anew");
    /* Lost in a reboot of guest 0: a new SYN on a live connection. */
    s.guest[0].snd_nxt = 12345;
    sim_syn(&s);
    sim_info(&s, 1, &fi);
    is_u64(fi.state, ACDC_FLOW_ESTABLISHED,
           "a SYN does not disturb the flow at the other end");
    sim_info(&s, 0, &fi);
    is_u64(fi.state, ACDC_FLOW_RESET, "nor where it was sent");
    is_u64(sim_n_flows(&s, 0), 2, "it begins a second one");
    is_u64(sim_n_flows(&s, 1), 2, "at both ends");
    /* Guest 1 was rebooted as well and accepts it. */
    s.guest[1].snd_nxt = 777;
    sim_connect(&s);
    for (int i = 0; i < 2; i++) {
        is_u64(sim_n_flows(&s, i), 1, "the connection it had is gone");
        sim_info(&s, i, &fi);
        ok(fi.state == ACDC_FLOW_ESTABLISHED && fi.capable && !fi.rx_total,
           "and the second one in its place");
    }
    sim_done(&s);

    /* A RST that anybody could send. */
    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    {
        struct tcp_spec spec = sim_spec(&s, 1, ACDC_TCP_RST | ACDC_TCP_ACK, 0);

        spec.ack += 1000;
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
        sim_info(&s, 0, &fi);
        is_u64(fi.state, ACDC_FLOW_SYN_SENT,
               "a RST that does not acknowledge the SYN is not believed");
    }
    sim_done(&s);

    /* A SYN is refused, then the guest that refused connects. */
    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    rst(&s, 1, 0);
    {
        struct sim_guest g = s.guest[0];
        struct acdc *a = s.acdc[0];
        struct acdc_port *port = s.port[0];

        s.guest[0] = s.guest[1];
        s.guest[1] = g;
        s.acdc[0] = s.acdc[1];
        s.acdc[1] = a;
        s.port[0] = s.port[1];
        s.port[1] = port;
    }
    sim_connect(&s);
    sim_info(&s, 0, &fi);
    is_u64(fi.state, ACDC_FLOW_ESTABLISHED, "the other way round");
    ok(sim_info_of(&s, 0).capable && sim_info_of(&s, 1).capable, "and tracked");
    sim_done(&s);
}

/* One packet without data, 'seq' further, past the vSwitch of guest 0. */
static void
pass(struct sim *s, int from, uint8_t flags, uint32_t seq)
{
    struct tcp_spec spec = sim_spec(s, from, flags, 0);
    struct packet *p;

    spec.seq += seq;
    p = packet_make(&spec);
    packet_free_list(from ? sim_ingress(s, 0, p) : sim_egress(s, 0, p));
}

/* A FIN that the other end cannot take closes nothing: of a guest that wants to
 * be forgotten (0) or of an outsider (1), with the true one of the other. */
static void
test_far_fin(int liar)
{
    static const uint32_t far[] = { 0x20000000, 0x80000000, 0xe0000000 };
    struct sim s;
    unsigned int i;

    for (i = 0; i < sizeof far / sizeof *far; i++) {
        sim_init(&s, NULL, NULL);
        sim_connect(&s);
        pass(&s, liar, ACDC_TCP_ACK | ACDC_TCP_FIN, far[i]);
        pass(&s, !liar, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
        s.guest[!liar].snd_nxt++;
        s.guest[liar].rcv_nxt++;
        pass(&s, liar, ACDC_TCP_ACK, 0);
        is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_CLOSING,
               "a FIN of %s at +%#x: half closed",
               liar ? "an outsider" : "the guest", far[i]);
        sim_done(&s);
    }
}

/* A FIN of a packet that was corrupt: the guest does not take it, and its
 * peer goes on. */
static void
test_corrupt_fin(void)
{
    struct tcp_spec spec;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK | ACDC_TCP_FIN, 100);
    packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_CLOSING, "a FIN");
    sim_data(&s, 1, 100, false);
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_CLOSING, "the data again, without it");
    sim_data(&s, 1, 100, false);
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_ESTABLISHED, "more data");
    pass(&s, 0, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
    s.guest[0].snd_nxt++;
    s.guest[1].rcv_nxt++;
    packet_free(sim_ack(&s, 1));
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_CLOSING, "the guest's FIN: half closed");
    sim_done(&s);
}

/* A guest's RST ends only what its peer ends. */
static void
test_guest_resets(void)
{
    struct tcp_spec spec;
    struct sim s;

    /* In SYN-SENT, to what is left of the connection before. */
    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    spec = sim_spec(&s, 0, ACDC_TCP_RST, 0);
    spec.seq -= 100000;
    packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_SYN_SENT, "a RST in SYN-SENT");
    packet_free_list(sim_egress(&s, 1, packet_make(&spec)));
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_SYN_RECEIVED, "one of before the SYN-ACK");
    sim_synack(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_RST, 0);
    spec.seq += 100000;
    packet_free_list(sim_egress(&s, 1, packet_make(&spec)));
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_SYN_RECEIVED, "and one after");
    packet_free(sim_ack(&s, 0));
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_ESTABLISHED, "the guest is connected");
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_ESTABLISHED, "so is its peer");
    ok(sim_info_of(&s, 0).capable && sim_info_of(&s, 1).capable, "and both controlled");

    /* Where the peer is not, and where it has not got to. */
    rst(&s, 0, s.guest[0].snd_nxt + 5000);
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_ESTABLISHED, "a RST beyond what was sent");
    sim_data(&s, 0, 1000, false);
    spec = sim_spec(&s, 0, ACDC_TCP_RST, 0);
    spec.seq -= 500;
    packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_RESET, "one that may be believed");
    packet_free(sim_ack(&s, 1));
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_ESTABLISHED, "a challenge ACK: it was not");
    s.now += 20000 * SIM_MS;
    acdc_sweep(s.acdc[0], s.now, 1000000);
    is_u64(sim_n_flows(&s, 0), 1, "nor is it forgotten");
    rst(&s, 0, s.guest[0].snd_nxt);
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_RESET, "the end");
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_CLOSED, "of both");
    sim_done(&s);
}

/* A connection on the ports of one that both guests lost a moment ago: what follows is
 * not of the earlier one, however near the numbers, and whenever its last RST comes. */
static void
test_same_ports(uint32_t ahead, bool reset, bool late)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    struct tcp_spec spec, old;
    struct sim s;
    int i;

    params.police = true;
    sim_init(&s, &params, &params);
    sim_connect(&s);
    sim_data(&s, 0, 1000, false);
    if (reset) {
        spec = sim_spec(&s, 0, ACDC_TCP_RST | ACDC_TCP_ACK, 0);
        packet_free_list(sim_send(&s, 0, &spec));
    }
    old = sim_spec(&s, 0, ACDC_TCP_RST, 0);
    s.guest[0].snd_nxt += ahead;
    s.guest[1].snd_nxt += ahead;
    sim_syn(&s);
    sim_synack(&s);
    if (late) {
        packet_free_list(sim_send(&s, 0, &old));
    }
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    packet_free_list(sim_ack(&s, 0));
    for (i = 0; i < 4; i++) {
        sim_data(&s, !(i & 1), 1000, false);
        packet_free(sim_ack(&s, i & 1));
    }
    for (i = 0; i < 2; i++) {
        sim_info(&s, i, &fi);
        is_u64(fi.state, ACDC_FLOW_ESTABLISHED, "%u ahead: established", ahead);
        ok(fi.capable, "and capable");
        is_u64(sim_n_flows(&s, i), 1, "one flow");
        is_u64(sim_counter(&s, i, ACDC_C_UNTOUCHED_MIDSTREAM), 0, "tracked");
        is_u64(sim_counter(&s, i, ACDC_C_ACK_OPTIMISTIC), 0, "nor is an ACK too early");
    }
    sim_done(&s);
}

/* SYN and SYN-ACK of another connection on the same ports. */
static void
handshake(struct sim *s, uint32_t isn)
{
    s->guest[0].snd_nxt = isn;
    s->guest[0].rcv_nxt = 0;
    s->guest[1].snd_nxt = 2 * isn;
    sim_syn(s);
    sim_synack(s);
    s->guest[0].snd_nxt++;
    s->guest[1].snd_nxt++;
    s->now += SIM_MS;
}

/* A connection whose ports were used before, and that ends at once: by the peer's RST for
 * the SYN-ACK, with ACK or without, or by its FIN, as the handshake's ACK was lost.  The next
 * one on these ports is followed. */
static void
test_ends_at_once(uint8_t flags)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;
    int i;

    params.police = true;
    sim_init(&s, &params, &params);
    handshake(&s, 1000000);
    rst(&s, 0, s.guest[0].snd_nxt);
    s.now += 20000 * SIM_MS;
    handshake(&s, 300000000);
    spec = sim_spec(&s, 0, flags, 0);
    spec.ack = flags & ACDC_TCP_ACK ? spec.ack : 0;
    packet_free_list(sim_send(&s, 0, &spec));
    s.now += 20000 * SIM_MS;

    s.guest[0].window = 65535;
    s.guest[0].wscale = s.guest[1].wscale = -1;
    handshake(&s, 700000000);
    is_u64(sim_n_flows(&s, 1), 2, "flags %#x: two flows", flags);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
    p = sim_send(&s, 0, &spec);
    is_u64(sim_n_flows(&s, 1), 1, "then one");
    ok(packet_window(p) > 10000, "the third connection's window is %u", packet_window(p));
    packet_free_list(p);
    for (i = 0; i < 3; i++) {
        p = sim_on_wire(&s, 1, 1000);
        is_u64(packet_count(p), 1, "and its data passes");
        packet_free_list(p);
    }
    sim_done(&s);
}

/* A RST that nobody believes while the SYN-ACK is not answered: of an outsider, or of the
 * guest, which the peer does not get.  The connection is as it would be without. */
static void
test_reset_in_handshake(bool outsider, int wscale)
{
    struct tcp_spec spec;
    struct sim s;

    sim_init(&s, NULL, NULL);
    s.guest[1].wscale = wscale;
    sim_syn(&s);
    sim_synack(&s);
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    spec = sim_spec(&s, !outsider, ACDC_TCP_RST, 0);
    if (outsider) {
        spec.seq += 1000;
        packet_free_list(sim_ingress(&s, 1, packet_make(&spec)));
    } else {
        packet_free_list(sim_egress(&s, 1, packet_make(&spec)));
    }
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 0));
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_ESTABLISHED, "after a RST, outsider %d", outsider);
    sim_data(&s, 1, 1000, false);
    is_u64(sim_ack_window(&s, 0), wscale < 0 ? 14600 : (14600 + 127) >> 7,
           "the guest is told the window in the scale that it knows");
    ok(!(sim_flow(&s, 1)->flags & ACDC_F_DUPLICATES), "nothing came twice");
    sim_done(&s);
}

/* The same, or another SYN, and the SYN-ACK is lost: the one that is sent again is as
 * good. */
static void
test_between_synacks(uint8_t flags)
{
    struct tcp_spec spec;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    sim_synack(&s);
    sim_forget(&s, 0);
    spec = sim_spec(&s, 1, flags, 0);
    spec.seq += flags & ACDC_TCP_SYN ? 1 << 20 : 1;
    is_u64(sim_leave(&s, 1, &spec), 1, "flags %#x", flags);
    sim_connect(&s);
    ok(packet_is_ours(s.wire[1]), "the SYN-ACK is sent again with the capability");
    ok(sim_info_of(&s, 0).capable && sim_info_of(&s, 1).capable, "both ends have it");
    sim_done(&s);
}

/* Guest 'who' ends the handshake: both ends have the capability, and marks of its data are
 * reported. */
static void
expect_reports(struct sim *s, int who)
{
    s->guest[0].snd_nxt++;
    s->guest[1].snd_nxt++;
    packet_free_list(sim_ack(s, who));
    ok(sim_info_of(s, 0).capable && sim_info_of(s, 1).capable, "both ends have it");
    sim_data(s, who, 1000, true);
    packet_free_list(sim_ack(s, !who));
    is_u64(sim_info_of(s, who).fb_ce, 1000, "and report");
}

/* A guest whose SYN-ACK does not arrive sends its SYN instead, with the number that the
 * SYN-ACK had: the peer takes that for a simultaneous open.  So it does behind 'another' SYN,
 * which does not arrive either. */
static void
test_syn_behind_synack(bool another)
{
    struct acdc_params params = acdc_params_default;
    struct packet *p;
    struct tcp_spec spec;
    struct sim s;

    params.police = another;
    sim_init(&s, &params, &params);
    sim_syn(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    sim_leave(&s, 1, &spec);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN, 0);
    if (another) {
        spec.seq += 1 << 28;
        sim_leave(&s, 1, &spec);
        spec.seq -= 1 << 28;
    }
    p = sim_egress(&s, 1, packet_make(&spec));
    ok(packet_is_ours(p) && packet_csum_ok(p), "the SYN has the capability");
    packet_free_list(sim_ingress(&s, 0, p));
    s.guest[0].rcv_nxt = spec.seq + 1;
    spec = sim_spec(&s, 0, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    packet_free_list(sim_send(&s, 0, &spec));
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_ESTABLISHED, "the SYN-ACK is the answer");
    expect_reports(&s, 1);
    sim_done(&s);
}

/* A guest that connects sends a SYN-ACK behind its SYN, which answers the peer's: with
 * another number, which the peer only challenges, or with the same instead of an ACK. */
static void
test_synack_behind_syn(uint32_t ahead)
{
    struct tcp_spec spec;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    sim_synack(&s);
    spec = sim_spec(&s, 0, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    spec.seq += ahead;
    packet_free_list(sim_send(&s, 0, &spec));
    expect_reports(&s, 0);
    sim_done(&s);
}

/* A guest resets its connection, which the peer believes, and connects again with the same
 * number: for the peer that is another connection, and so it is for its vSwitch. */
static void
test_same_number(int who)
{
    struct sim s;
    int i;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    sim_data(&s, 0, 1000, false);
    packet_free_list(sim_ack(&s, 1));
    rst(&s, who, s.guest[who].snd_nxt);
    s.guest[0].snd_nxt -= 1001;
    s.guest[1].snd_nxt += 1 << 28;
    s.now += 100 * SIM_MS;
    sim_connect(&s);
    ok(packet_is_ours(s.wire[1]), "reset by %d: the SYN-ACK has the capability", who);
    sim_data(&s, 0, 1000, true);
    packet_free_list(sim_ack(&s, 1));
    for (i = 0; i < 2; i++) {
        ok(sim_info_of(&s, i).capable, "as the connection");
        is_u64(sim_n_flows(&s, i), 1, "the only one");
    }
    is_u64(sim_info_of(&s, 0).fb_ce, 1000, "marks are reported");
    sim_done(&s);
}

/* A guest that connects hides the SYN-ACKs that have the capability behind another SYN, which
 * nobody gets, until one is sent again without: it gains nothing. */
static void
test_hidden_synacks(void)
{
    struct tcp_spec spec;
    struct sim s;
    int i;

    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        spec.seq += i ? 0 : 1 << 28;
        sim_leave(&s, 0, &spec);
        sim_synack(&s);
        s.now += ACDC_SYN_PLAIN_MS * SIM_MS;
    }
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    packet_free_list(sim_ack(&s, 0));
    ok(!sim_info_of(&s, 0).capable, "the one that counts has no capability");
    is_u64(sim_info_of(&s, 0).algorithm, ACDC_ALG_CUBIC, "the fallback none is none");
    sim_done(&s);
}

/* Guest 1 connects from another port by a SYN of which only the copy without the capability
 * arrives: the path seems to drop it. */
static void
hide_capability(struct sim *s)
{
    struct tcp_spec spec;

    s->guest[1].port++;
    spec = sim_spec(s, 1, ACDC_TCP_SYN, 0);
    sim_leave(s, 1, &spec);
    s->now += ACDC_SYN_PLAIN_MS * SIM_MS;
    packet_free_list(sim_send(s, 1, &spec));
    s->guest[0].rcv_nxt = spec.seq + 1;
    spec = sim_spec(s, 0, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    packet_free_list(sim_send(s, 0, &spec));
    is_u64(sim_info_of(s, 1).algorithm, ACDC_ALG_CUBIC, "a SYN without the capability");
    s->guest[0].rcv_nxt = 0;
    s->guest[1].port--;
    sim_forget(s, 0);
    sim_forget(s, 1);
}

/* So many addresses show guest 1 the capability that its port recalls no other. */
static void
show_capability(struct sim *s)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_SYN, 0);
    int i;

    opt_capability(&spec, ACDC_OPT_EXID);
    for (i = 0; i < 4096; i++) {
        spec.src[2] = (uint8_t) (100 + (i >> 8));
        spec.src[3] = (uint8_t) i;
        packet_free_list(sim_ingress(s, 1, packet_make(&spec)));
    }
}

/* A guest refuses a connection by a RST that does not arrive, waits for the peer's SYN without
 * the capability, and answers that: it is as if it had only waited.  Nor does it help if
 * something 'before' or 'meanwhile' keeps its port from recalling the capability. */
static void
test_lost_refusal(void (*before)(struct sim *), void (*meanwhile)(struct sim *))
{
    struct tcp_spec spec;
    struct sim s;

    sim_init(&s, NULL, NULL);
    if (before) {
        before(&s);
    }
    sim_syn(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_RST | ACDC_TCP_ACK, 0);
    spec.seq = 0;
    sim_leave(&s, 1, &spec);
    is_u64(sim_info_of(&s, 1).state, ACDC_FLOW_RESET, "a RST that is lost");
    sim_syn(&s);
    s.now += ACDC_SYN_PLAIN_MS * SIM_MS;
    sim_leave(&s, 1, &spec);
    if (meanwhile) {
        meanwhile(&s);
    }
    sim_connect(&s);
    ok(!packet_is_ours(s.wire[0]), "a SYN without the capability");
    ok(packet_is_ours(s.wire[1]), "and a SYN-ACK with it");
    ok(sim_info_of(&s, 0).capable, "so both ends have it");
    sim_done(&s);
}

/* The guest that gets a SYN tells the sender's port by ICMP of a path that takes no more than
 * that SYN: no such path is, and the next SYN has the capability. */
static void
test_tiny_path(void)
{
    struct packet *icmp;
    uint32_t quoted;
    uint8_t *ip;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    quoted = s.wire[0]->len - 14;
    icmp = packet_new(14 + 28 + quoted, 0);
    memcpy(packet_data(icmp), packet_data(s.wire[0]), 14 + 20);
    ip = packet_data(icmp) + 14;
    acdc_put16(ip + 2, (uint16_t) (28 + quoted));
    ip[9] = ACDC_IPPROTO_ICMP;
    memcpy(ip + 12, s.guest[1].addr, 4);
    memcpy(ip + 16, s.guest[0].addr, 4);
    memset(ip + 20, 0, 8);
    ip[20] = 3;
    ip[21] = 4;
    acdc_put16(ip + 26, (uint16_t) (quoted - 1));
    memcpy(ip + 28, packet_data(s.wire[0]) + 14, quoted);
    icmp->l3_ofs = 14;
    icmp->ethertype = ACDC_ETHERTYPE_IP4;
    packet_free_list(sim_ingress(&s, 0, icmp));
    is_u64(sim_counter(&s, 0, ACDC_C_TOO_BIG), 1, "a path that takes %u bytes", quoted - 1);
    s.guest[0].port++;
    sim_syn(&s);
    ok(packet_is_ours(s.wire[0]), "the next SYN has the capability");
    sim_done(&s);
}

/* The other end's vSwitch does not answer the capability, as where the guest made it believe
 * that the SYN is of another connection.  'before': it did so before. */
static void
test_no_answer(bool before)
{
    struct sim s;

    sim_init(&s, NULL, NULL);
    if (before) {
        sim_connect(&s);
        rst(&s, 0, s.guest[0].snd_nxt);
        s.guest[0].snd_nxt += 1 << 28;
        s.now += 100 * SIM_MS;
    }
    sim_remove_acdc(&s, 1);
    sim_connect(&s);
    ok(!sim_info_of(&s, 0).capable, "without the capability");
    is_u64(sim_info_of(&s, 0).algorithm, before ? ACDC_ALG_CUBIC : ACDC_ALG_NONE,
           before ? "the path has passed it: CUBIC" : "nothing is known of the path: none");
    sim_done(&s);
}

/* What begins while the tenant only observes, or is disabled, has no capability
 * by the operator's will: the fallback is what it says once that changes. */
static void
test_not_meant(bool active, bool observe)
{
    struct acdc_params params = acdc_params_default;
    struct sim s;

    if (observe) {
        params.mode = ACDC_MODE_OBSERVE;
    } else {
        params.enabled = false;
    }
    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    sim_forget(&s, 0);
    sim_forget(&s, 1);
    s.guest[0].snd_nxt += 1 << 28;
    s.guest[1].snd_nxt += 1 << 28;
    sim_policy(&s, !active, &params);
    sim_connect(&s);
    sim_policy(&s, !active, NULL);
    packet_free_list(sim_ack(&s, 0));
    packet_free_list(sim_ack(&s, 1));
    ok(!sim_info_of(&s, !active).capable, "without the capability");
    is_u64(sim_info_of(&s, !active).algorithm, ACDC_ALG_NONE, "the fallback is none");
    sim_done(&s);
}

/* The other end's vSwitch reports no more, as if the guest had made it forget. */
static void
test_silence_is_no_way_out(void)
{
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    sim_lose_reports(&s);
    ok(!sim_info_of(&s, 0).capable, "it falls back");
    is_u64(sim_info_of(&s, 0).algorithm, ACDC_ALG_CUBIC, "to CUBIC");
    sim_done(&s);
}

int
main(void)
{
    int i;

    test_ends_at_once(ACDC_TCP_RST);
    test_ends_at_once(ACDC_TCP_RST | ACDC_TCP_ACK);
    test_ends_at_once(ACDC_TCP_FIN | ACDC_TCP_ACK);
    for (i = 0; i < 8; i++) {
        test_same_ports(i & 1 ? 5000 : 1 << 20, i & 2, i & 4);
    }
    test_reuse();
    test_corrupt_fin();
    test_far_fin(0);
    test_far_fin(1);
    test_guest_resets();
    test_reset_in_handshake(false, 7);
    test_reset_in_handshake(false, -1);
    test_reset_in_handshake(true, 7);
    test_reset_in_handshake(true, -1);
    test_between_synacks(ACDC_TCP_RST);
    test_between_synacks(ACDC_TCP_SYN);
    test_syn_behind_synack(false);
    test_syn_behind_synack(true);
    test_synack_behind_syn(1 << 28);
    test_synack_behind_syn(0);
    test_hidden_synacks();
    test_lost_refusal(NULL, NULL);
    test_lost_refusal(hide_capability, NULL);
    sim_max_flows = 8192;
    test_lost_refusal(NULL, show_capability);
    sim_max_flows = 1000;
    test_tiny_path();
    test_no_answer(false);
    test_no_answer(true);
    for (i = 0; i < 4; i++) {
        test_not_meant(i & 1, i & 2);
    }
    test_silence_is_no_way_out();
    test_same_number(0);
    test_same_number(1);
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
