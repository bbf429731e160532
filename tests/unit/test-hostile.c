/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A hostile tenant "red" on the port beside that of an honest one, "blue": what
 * red or somebody in the network does, blue's connections go on as if it were
 * not there, memory stays within bounds, and a counter tells.  docs/threat-model.rst
 * has the list. */

#include "acdc-private.h"
#include "sim.h"
#include "tap.h"

/* A million addresses; fewer where a packet costs twenty times as much. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { MANY = 20 * 1000 };
#else
enum { MANY = 1000 * 1000 };
#endif
enum { ROUNDS = 40, RED_PORT_NO = 8 };

static struct acdc_port *red;

/* Blue's connection is sim's; red is another port of engine 0. */
static void
setup(struct sim *s, uint32_t max_flows, uint32_t max_half_open,
      const struct acdc_params *params)
{
    struct acdc_tenant_config tc = { .name = "red",
                                     .params = acdc_params_default,
                                     .max_half_open = max_half_open };
    struct acdc_config c;

    sim_init(s, NULL, NULL);
    if (params) {
        tc.params = *params;
    }
    acdc_config_get(s->acdc[0], &c);
    c.max_flows = max_flows;
    acdc_config_set(s->acdc[0], &c);
    acdc_tenant_set(s->acdc[0], &tc);
    red = acdc_port_bind(s->acdc[0], RED_PORT_NO, "vnet8", "red", SIM_MTU);
    sim_connect(s);
}

static uint64_t
red_counter(const struct sim *s, enum acdc_counter counter)
{
    struct acdc_tenant_stats ts;

    acdc_tenant_stats_get(s->acdc[0], "red", &ts);
    return ts.counters[counter];
}

static uint32_t
n_flows(const struct sim *s, const char *tenant)
{
    struct acdc_tenant_stats ts;

    acdc_tenant_stats_get(s->acdc[0], tenant, &ts);
    return ts.n_flows;
}

/* Blue's connection. -------------------------------------------------------- */

/* Blue's flow 'i', as engine 0 sees it. */
static bool
blue_info(const struct sim *s, uint16_t port, struct acdc_flow_info *fi)
{
    uint64_t cursor = 0;

    while (acdc_dump(s->acdc[0], &cursor, s->now, fi, 1)) {
        if (fi->port_no == SIM_PORT_NO && fi->local_port == port) {
            return true;
        }
    }
    return false;
}

/* A round trip of six segments, some marked; the window the guest sees. */
static uint16_t
blue_round(struct sim *s, unsigned int n)
{
    unsigned int i;

    for (i = 0; i < 6; i++) {
        sim_data(s, 0, 1448, n % 7 == 3 && i == 2);
    }
    s->now += SIM_MS;
    return sim_ack_window(s, 1);
}

/* Its windows without any attack. */
static uint16_t undisturbed[ROUNDS];

static void
learn(void)
{
    struct sim s;
    unsigned int n;

    setup(&s, 1000, 0, NULL);
    for (n = 0; n < ROUNDS; n++) {
        undisturbed[n] = blue_round(&s, n);
    }
    sim_done(&s);
}

/* While red does 'attack' between blue's round trips: are blue's windows the
 * same?  And the handshake of a new one, in the middle, as ever? */
static void
witness(struct sim *s, const char *what, uint32_t most_flows,
        void (*attack)(struct sim *, unsigned int round))
{
    int64_t memory = host_allocated();
    bool same = true, bounded = true, tracked;
    struct sim_guest guest[2];
    struct acdc_flow_info fi;
    struct acdc_stats st;
    unsigned int n;

    acdc_stats_get(s->acdc[0], &st);
    memory += (int64_t) (most_flows - st.n_flows) * st.bytes_per_flow4;
    for (n = 0; n < ROUNDS; n++) {
        attack(s, n);
        host_quiesce();
        bounded &= sim_n_flows(s, 0) <= most_flows
                   && host_allocated() <= memory;
        same &= blue_round(s, n) == undisturbed[n];
    }
    memcpy(guest, s->guest, sizeof guest);
    s->guest[0].port++;
    sim_connect(s);
    sim_data(s, 0, 1000, true);
    packet_free_list(sim_ack(s, 1));
    tracked = blue_info(s, s->guest[0].port, &fi);
    ok(tracked && fi.capable && fi.fb_ce == 1000,
       "%s: a new connection is tracked", what);
    memcpy(s->guest, guest, sizeof guest);
    ok(same, "%s: an old one goes on as if nothing were", what);
    ok(bounded, "%s: never more than %u flows, nor memory but for them", what,
       most_flows);
}

/* Red. ---------------------------------------------------------------------- */

static struct tcp_spec
red_spec(uint32_t addr, uint16_t port, uint8_t flags)
{
    struct tcp_spec spec = { .sport = port, .dport = 80, .seq = addr,
                             .flags = flags, .window = 0xffff };

    acdc_put32(spec.src, addr);
    memcpy(spec.dst, "\x0a\0\0\2", 4);
    if (flags & ACDC_TCP_SYN) {
        opt_mss(&spec, 1460);
        opt_nop(&spec, 1);
        opt_wscale(&spec, 7);
    }
    return spec;
}

/* What red sends (true) or is sent. */
static void
red_packet(struct sim *s, bool egress, const struct tcp_spec *spec)
{
    packet_free_list(host_process(red, egress ? ACDC_EGRESS : ACDC_INGRESS,
                                  packet_make(spec), s->now));
}

/* Connection 'i' of red, as far as its other end, an accomplice, takes it. */
static void
red_open(struct sim *s, uint32_t i)
{
    struct tcp_spec syn = red_spec(0x0b000000 + i, 1000, ACDC_TCP_SYN);
    struct tcp_spec synack = red_spec(0, 0, ACDC_TCP_SYN | ACDC_TCP_ACK);
    struct tcp_spec ack = red_spec(0x0b000000 + i, 1000, ACDC_TCP_ACK);
    static uint32_t isn;        /* Of the other end, each another (RFC 6528). */

    isn += 0x12345678;
    synack.seq = isn;
    memcpy(synack.dst, syn.src, 4);
    memcpy(synack.src, syn.dst, 4);
    synack.sport = syn.dport;
    synack.dport = syn.sport;
    synack.ack = ack.seq = syn.seq + 1;
    ack.ack = isn + 1;
    red_packet(s, true, &syn);
    red_packet(s, false, &synack);
    red_packet(s, true, &ack);
}

static bool flood_egress;

static void
syn_flood(struct sim *s, unsigned int round)
{
    unsigned int i;

    for (i = 0; i < MANY / ROUNDS; i++) {
        struct tcp_spec spec = red_spec(round * (MANY / ROUNDS) + i + 1, 1000,
                                        ACDC_TCP_SYN);

        red_packet(s, flood_egress, &spec);
    }
}

static void
test_syn_flood(bool egress)
{
    const char *what = egress ? "SYNs of a guest" : "SYNs to a guest";
    /* To an address that the guest has not used, half of it. */
    uint32_t quota = egress ? ACDC_HALF_OPEN_DEFAULT
                            : ACDC_HALF_OPEN_DEFAULT / 2;
    struct acdc_stats st;
    int64_t before;
    struct sim s;

    flood_egress = egress;
    setup(&s, 100 * 1000, 0, NULL);
    before = host_allocated();
    witness(&s, what, ACDC_HALF_OPEN_DEFAULT + 1, syn_flood);
    acdc_stats_get(s.acdc[0], &st);
    is_u64(st.n_half_open, quota, "%s: the quota", what);
    ok(host_allocated() - before
       <= (int64_t) (st.n_flows + 1) * st.bytes_per_flow4,
       "%s: and no memory beyond it", what);
    is_u64(red_counter(&s, egress ? ACDC_C_UNTOUCHED_HALF_OPEN
                                  : ACDC_C_UNTOUCHED_FOREIGN),
           MANY - quota, "%s: the rest is counted", what);
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_HALF_OPEN), 0,
           "%s: for whom they are", what);
    s.now += (ACDC_HALF_OPEN_MS + 2 * ACDC_SEEN_UNIT) * SIM_MS;
    acdc_sweep(s.acdc[0], s.now, UINT32_MAX);
    is_u64(n_flows(&s, "red"), 0, "%s: and they go", what);
    sim_done(&s);

    /* Without a quota it is the table that limits. */
    setup(&s, 1000, UINT32_MAX, NULL);
    witness(&s, "a table full of SYNs", 1000, syn_flood);
    is_u64(red_counter(&s, ACDC_C_FLOWS_EVICTED), MANY - 999,
           "each takes the place of another");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_TABLE_FULL), 0,
           "and of no one else's");
    sim_done(&s);
}

/* Connections that never close, and none of which is idle. */
static void
open_and_keep(struct sim *s, unsigned int round)
{
    uint32_t i;

    for (i = 0; i < 100; i++) {
        red_open(s, round * 100 + i);
    }
    for (i = 0; i < round * 100; i++) {
        struct tcp_spec ack = red_spec(0x0b000000 + i, 1000, ACDC_TCP_ACK);

        ack.seq++;
        ack.ack = 1;
        red_packet(s, true, &ack);
    }
}

static void
test_never_close(void)
{
    uint32_t hand, i;
    struct sim s;

    setup(&s, 1000, 0, NULL);
    witness(&s, "connections that never close", 1000, open_and_keep);
    ok(red_counter(&s, ACDC_C_UNTOUCHED_TABLE_FULL) >= 2900,
       "what finds no place is counted");
    ok(n_flows(&s, "red") >= 990, "the table is red's (%u flows)",
       n_flows(&s, "red"));
    /* Nor can it keep the table's lock busy with the search for room. */
    hand = s.acdc[0]->evict_hand;
    for (i = 0; i < 1000; i++) {
        red_open(&s, 100000 + i);
    }
    hand = s.acdc[0]->evict_hand - hand;
    ok(hand < 1000, "1000 SYNs, %u buckets looked at", hand);
    sim_done(&s);
}

/* A tenant that has more than its share of the table gets no more of it, of
 * whatever kind what the others have is. */
static void
test_share(void)
{
    static const struct { const char *what; uint8_t end; uint32_t idle_ms; } of[] = {
        { "idle", 0, ACDC_IDLE_EVICT_MS + 2 * ACDC_SEEN_UNIT },
        { "active", 0, 0 },
        { "closed", ACDC_TCP_RST | ACDC_TCP_ACK, 0 },
    };
    enum { LIMIT = 64, BLUE = 10 };
    unsigned int i, k;

    for (k = 0; k < sizeof of / sizeof of[0]; k++) {
        struct sim s;

        setup(&s, LIMIT, 0, NULL);
        for (i = 0; i < BLUE; i++) {
            if (i) {
                s.guest[0].port++;
                sim_connect(&s);
            }
            if (of[k].end) {
                struct tcp_spec rst = sim_spec(&s, 0, of[k].end, 0);

                packet_free_list(sim_send(&s, 0, &rst));
            }
        }
        s.now += of[k].idle_ms * SIM_MS;
        for (i = 0; i < 80; i++) {
            red_open(&s, i);
        }
        is_u64(n_flows(&s, SIM_TENANT), BLUE, "%s connections of blue's stay",
               of[k].what);
        is_u64(n_flows(&s, "red"), LIMIT - BLUE, "red has what is left");
        /* And gives it back: also those of red's that are not idle. */
        for (i = 0; i < LIMIT; i++) {
            s.guest[0].port++;
            sim_connect(&s);
        }
        is_u64(n_flows(&s, SIM_TENANT), LIMIT / 2, "blue gets its share");
        sim_done(&s);
    }
}

static void
open_and_reset(struct sim *s, uint32_t id)
{
    struct tcp_spec rst = red_spec(0x0b000000 + id, 1000, ACDC_TCP_RST);

    red_open(s, id);
    rst.seq++;
    red_packet(s, true, &rst);
}

/* Connections that come and go: each stays for its linger. */
static void
come_and_go(struct sim *s, unsigned int round)
{
    uint32_t i;

    for (i = 0; i < MANY / ROUNDS / 10; i++) {
        open_and_reset(s, round * (MANY / ROUNDS / 10) + i);
    }
}

static void
test_churn(void)
{
    struct sim s;

    setup(&s, 1000, 0, NULL);
    witness(&s, "connections that come and go", 1000, come_and_go);
    is_u64(red_counter(&s, ACDC_C_FLOWS_CLOSED), MANY / 10, "each was closed");
    is_u64(red_counter(&s, ACDC_C_FLOWS_EVICTED), MANY / 10 - 999,
           "and made room for the next");
    sim_done(&s);
}

/* The same ports again while the old connection lingers. */
static void
reuse(struct sim *s, unsigned int round)
{
    uint32_t i;

    (void) round;
    for (i = 0; i < MANY / ROUNDS / 10; i++) {
        open_and_reset(s, 0);
    }
}

static void
test_reuse(void)
{
    struct sim s;

    setup(&s, 1000, 0, NULL);
    witness(&s, "a port used again", 3, reuse);
    is_u64(n_flows(&s, "red"), 1, "one flow");
    is_u64(red_counter(&s, ACDC_C_FLOWS_CREATED), MANY / 10, "all counted");
    sim_done(&s);
}

/* Blue's addresses and ports from red's port. */
static void
spoof(struct sim *s, unsigned int round)
{
    static const uint8_t flags[] = {
        ACDC_TCP_ACK, ACDC_TCP_RST, ACDC_TCP_ACK | ACDC_TCP_FIN,
        ACDC_TCP_SYN, ACDC_TCP_SYN | ACDC_TCP_ACK,
    };
    unsigned int i;

    for (i = 0; i < sizeof flags; i++) {
        struct tcp_spec spec = sim_spec(s, 0, flags[i], round % 2 ? 1000 : 0);

        red_packet(s, true, &spec);
        spec = sim_spec(s, 1, flags[i], 0);
        opt_feedback(&spec, ACDC_OPT_EXID, 1, 1);
        red_packet(s, false, &spec);
    }
}

static void
test_spoofing(void)
{
    struct sim s;

    setup(&s, 1000, 0, NULL);
    witness(&s, "another's addresses", 4, spoof);
    ok(red_counter(&s, ACDC_C_UNTOUCHED_MIDSTREAM) > 0,
       "counted as no connection of red's");
    sim_done(&s);
}

/* A connection's own ends. -------------------------------------------------- */

/* A SYN on a live connection begins it anew, at the vSwitch: the peer knows
 * better and answers with a challenge ACK (RFC 5961).  Until it says
 * otherwise, nothing has been offered. */
static void
test_forged_syn(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct sim s;
    int i;

    for (i = 0; i < 2; i++) {
        params.police = i;
        sim_init(&s, &params, NULL);
        sim_connect(&s);
        spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        spec.seq += 1000000;
        packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
        spec.seq += 100000;
        is_u64(sim_leave(&s, 0, &spec), !i, "after a forged SYN data %s",
               i ? "is policed" : "passes");
        is_u64(sim_counter(&s, 0, ACDC_C_POLICED_PACKETS), (unsigned) i,
               "counted");
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 0);
        is_u64(sim_leave(&s, 0, &spec), 1, "what is no data passes");
        /* The peer takes it after all, as after a reboot of the guest. */
        acdc_flush(s.acdc[1], NULL, NULL);
        s.guest[0].snd_nxt += 1000000;
        s.guest[1].snd_nxt += 3000000;
        sim_connect(&s);
        sim_data(&s, 0, 1448, true);
        packet_free_list(sim_ack(&s, 1));
        sim_info(&s, 0, &fi);
        ok(fi.capable && fi.fb_ce == 1448, "a true one is a new connection");
        is_u64(sim_counter(&s, 0, ACDC_C_POLICED_PACKETS), (unsigned) i,
               "whose data passes");
        sim_done(&s);
    }
}

/* Data far beyond what the peer can take does not move the end of a cut, or
 * of a round of alpha, as far. */
static void
send_far(struct sim *s, unsigned int round)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, 1448);

    spec.seq += 20000000 + (round << 20);
    packet_free_list(sim_egress(s, 0, packet_make(&spec)));
}

static void
test_far_data(void)
{
    struct sim s;

    setup(&s, 1000, 0, NULL);
    witness(&s, "data far away", 2, send_far);
    sim_done(&s);
}

/* Data of an outsider, who does not know the numbers, in steps small enough to
 * be believed one by one. */
static void
test_walk(void)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct sim s;
    uint32_t i;

    params.police = true;
    sim_init(&s, &params, NULL);
    sim_connect(&s);
    for (i = 0; i < 0x90; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 1);
        spec.seq += i << 24;
        spec.ack += 0x12345678;
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
    }
    sim_data(&s, 0, 1448, true);
    is_u64(sim_counter(&s, 0, ACDC_C_ACK_OPTIMISTIC), 0,
           "after an outsider's data the guest's ACKs are no optimistic ones");
    packet_free_list(sim_ack(&s, 1));
    sim_info(&s, 0, &fi);
    is_u64(fi.fb_ce, 1448, "and the peer's report is believed");
    sim_done(&s);
}

/* A receiver that repeats its ACKs. */
static void
test_duplicate_acks(bool sack)
{
    unsigned int arrived = 0;
    struct acdc_flow_info fi;
    uint32_t una, wnd;
    struct sim s;
    int i;

    setup(&s, 1000, 0, NULL);
    for (i = 0; i < ROUNDS; i++) {
        blue_round(&s, 0);
    }
    sim_info(&s, 0, &fi);
    wnd = fi.window;
    una = s.guest[1].rcv_nxt;
    for (i = 0; i < 6; i++) {
        sim_data(&s, 0, 1448, false);
    }
    for (i = 0; i < MANY / 10; i++) {
        struct tcp_spec spec;
        struct packet *p;

        s.guest[1].rcv_nxt = una;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        if (sack) {
            uint32_t edges[2] = { una + 1448, una + 6 * 1448 };

            opt_nop(&spec, 2);
            opt_sack(&spec, 1, edges);
        }
        p = sim_send(&s, 1, &spec);
        arrived += packet_count(p);
        packet_free_list(p);
    }
    is_u64(arrived, MANY / 10, "all duplicate ACKs%s arrive",
           sack ? " with SACK" : "");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "and cut once");
    sim_info(&s, 0, &fi);
    ok(fi.window >= wnd / 2 && fi.window < wnd, "from %u to %u bytes", wnd,
       fi.window);
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    packet_free_list(sim_ack(&s, 1));
    sim_info(&s, 0, &fi);
    is_u64(fi.in_flight, 0, "the connection goes on");
    sim_done(&s);
}

/* A receiver that lies about its window scale. */
static void
test_window_scale(void)
{
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct packet *p;
    uint32_t wnd;
    struct sim s;

    /* Above what RFC 7323 allows. */
    sim_init(&s, NULL, NULL);
    s.guest[1].wscale = 255;
    sim_connect(&s);
    sim_info(&s, 0, &fi);
    is_u64(fi.wscale_remote, 14, "a scale of 255 is 14");
    is_u64(sim_counter(&s, 0, ACDC_C_RESCALED), 1, "and made finer, counted");
    ok(fi.offered <= fi.window + 1460, "the guest is offered %u bytes",
       fi.offered);
    sim_done(&s);

    /* Two options: the last counts, as in Linux. */
    sim_init(&s, NULL, NULL);
    sim_syn(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    opt_wscale(&spec, 3);
    opt_wscale(&spec, 9);
    packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
    sim_info(&s, 0, &fi);
    is_u64(fi.wscale_remote, 9, "of two the last");
    sim_done(&s);

    /* Another one, later. */
    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    sim_info(&s, 0, &fi);
    wnd = fi.window;
    spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    spec.seq--;
    spec.ack = s.guest[0].snd_nxt;
    opt_wscale(&spec, 0);
    packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    opt_nop(&spec, 1);
    opt_wscale(&spec, 0);
    p = sim_ingress(&s, 0, packet_make(&spec));
    is_u64(packet_window(p), (wnd + 127) / 128, "the window is in the old one");
    packet_free_list(p);
    sim_info(&s, 0, &fi);
    is_u64(fi.wscale_remote, 7, "a scale after the handshake is nothing");
    sim_done(&s);
}

int
main(void)
{
    learn();
    test_syn_flood(true);
    test_syn_flood(false);
    test_never_close();
    test_share();
    test_churn();
    test_reuse();
    test_spoofing();
    test_forged_syn();
    test_far_data();
    test_walk();
    test_duplicate_acks(false);
    test_duplicate_acks(true);
    test_window_scale();
    return tap_end();
}
