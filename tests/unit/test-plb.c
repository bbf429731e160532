/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Protective load balancing: when a connection goes to another path, and what its
 * packets look like there. */

#include "acdc-plb.h"
#include "sim.h"
#include "tap.h"

enum { MSS = 1448 };

static void
begin(struct sim *s, bool v6, bool plb)
{
    struct acdc_params params = acdc_params_default;

    params.plb = plb;
    sim_init(s, &params, &params);
    s->v6 = v6;
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    s->guest[1].window = 0xffff;
    sim_connect(s);
}

/* 'n' segments are acknowledged one by one, of which one of 'mark_every' is marked, and
 * there is always one more in flight, '*on_way', to be freed: a round is over with
 * every other ACK. */
static void
keep_sending(struct sim *s, unsigned int n, unsigned int mark_every,
             struct packet **on_way)
{
    unsigned int i;

    if (!*on_way) {
        *on_way = sim_on_wire(s, 0, MSS);
    }
    for (i = 0; i < n; i++) {
        struct packet *next = sim_on_wire(s, 0, MSS);

        if (i % mark_every == 0) {
            packet_set_ecn(*on_way, ACDC_ECN_CE);
        }
        packet_free_list(sim_ingress(s, 1, *on_way));
        *on_way = next;
        s->guest[1].rcv_nxt = s->guest[0].snd_nxt - MSS;
        s->now += SIM_MS / 20;
        packet_free_list(sim_ack(s, 1));
    }
}

/* The moves of a connection that does so. */
static uint64_t
moves_after(unsigned int n, unsigned int mark_every)
{
    struct packet *on_way = NULL;
    uint64_t moves;
    struct sim s;

    begin(&s, false, true);
    keep_sending(&s, n, mark_every, &on_way);
    moves = sim_counter(&s, 0, ACDC_C_REPATHS);
    packet_free_list(on_way);
    is_u64(sim_info_of(&s, 0).path, moves, "the path's number");
    is_u64(sim_counter(&s, 1, ACDC_C_REPATHS), 0, "the receiver does not move");
    sim_done(&s);
    return moves;
}

static uint64_t
n_moves(const struct sim *s)
{
    return sim_counter(s, 0, ACDC_C_REPATHS);
}

static void
test_busy(void)
{
    is_u64(moves_after(20, 1), 0, "10 congested rounds move no connection that sends");
    is_u64(moves_after(28, 1), 1, "12 do");
    is_u64(moves_after(52, 1), 2, "and 12 more");
    ok(moves_after(200, 2) >= 7, "half of the bytes are enough");
    is_u64(moves_after(200, 3), 0, "a third are not");
}

static void
test_idle(void)
{
    struct sim s;
    unsigned int i;

    begin(&s, false, true);
    for (i = 0; i < 20; i++) {
        sim_round_trip(&s, i % 3 < 2 ? 1 : 0);
    }
    is_u64(n_moves(&s), 0, "two congested rounds in a row move none");
    sim_round_trip(&s, 1);
    is_u64(n_moves(&s), 1, "three one that has nothing in flight");
    for (i = 0; i < 300; i++) {
        sim_round_trip(&s, 1);
    }
    is_u64(n_moves(&s), 101, "each time");
    is_u64(sim_info_of(&s, 0).path, 101, "path");
    for (i = 0; i < 3 * (ACDC_PLB_PATHS - 101 + 1); i++) {
        sim_round_trip(&s, 1);
    }
    is_u64(sim_info_of(&s, 0).path, 1, "after the last path the first, not 0");
    sim_done(&s);
}

static void
test_off(void)
{
    struct acdc_params params = acdc_params_default;
    struct packet *p;
    unsigned int i;
    struct sim s;

    begin(&s, false, false);
    for (i = 0; i < 20; i++) {
        sim_round_trip(&s, 1);
    }
    ok(!acdc_flow_more_if_any(sim_flow(&s, 0)), "off, it takes no memory");
    sim_lose_data(&s, MSS);
    s.now += 50 * SIM_MS;
    s.guest[0].snd_nxt -= MSS;
    sim_data(&s, 0, MSS, false);
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 1, "a timeout");
    is_u64(n_moves(&s), 0, "off, nothing moves");

    params.plb = true;
    sim_policy(&s, 0, &params);
    for (i = 0; i < 5; i++) {
        sim_round_trip(&s, 1);
    }
    ok(sim_info_of(&s, 0).path > 0, "a connection that goes on follows the policy");
    sim_policy(&s, 0, &acdc_params_default);
    is_u64(sim_info_of(&s, 0).path, 0, "both ways");
    p = sim_on_wire(&s, 0, MSS);
    is_u64(p->path, 0, "with its next packet");
    packet_free_list(p);
    sim_done(&s);
}

/* A timeout after 'lost' or, without, of data that has arrived. */
static void
time_out(struct sim *s, bool lost)
{
    struct packet *p;

    if (lost) {
        sim_lose_data(s, MSS);
    } else {
        sim_data(s, 0, MSS, false);
    }
    s->now += 50 * SIM_MS;
    s->guest[0].snd_nxt -= MSS;
    p = sim_on_wire(s, 0, MSS);
    ok(p->path != 0, "what is sent again goes by another path");
    packet_free_list(sim_ingress(s, 1, p));
    s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    s->now += SIM_MS;
    packet_free_list(sim_ack(s, 1));
}

static void
test_timeout(void)
{
    struct sim s;
    unsigned int i;

    begin(&s, false, true);
    sim_round_trip(&s, 0);
    time_out(&s, true);
    is_u64(n_moves(&s), 1, "once");
    is_u64(sim_counter(&s, 0, ACDC_C_PLB_SUSPENDED), 1, "suspended");
    for (i = 0; i < 59; i++) {
        s.now += 1000 * SIM_MS;
        sim_round_trip(&s, 1);
    }
    is_u64(n_moves(&s), 1, "congestion does not move it for 60 s");
    for (i = 0; i < 62; i++) {
        s.now += 1000 * SIM_MS;
        sim_round_trip(&s, 1);
    }
    ok(n_moves(&s) > 1, "but after 120 s at most");
    sim_done(&s);

    begin(&s, false, true);
    sim_round_trip(&s, 0);
    time_out(&s, false);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "nothing was lost");
    is_u64(sim_counter(&s, 0, ACDC_C_PLB_SUSPENDED), 0, "nor is it suspended");
    sim_done(&s);
}

/* All paths are broken for a time, in which the flow is taken for one that gets nothing by
 * this port. */
static void
test_outage(void)
{
    struct sim s;
    unsigned int i;

    begin(&s, false, true);
    sim_round_trip(&s, 0);
    sim_lose_data(&s, MSS);
    for (i = 0; i < 6; i++) {
        s.now += 250 * SIM_MS;
        s.guest[0].snd_nxt -= MSS;
        sim_lose_data(&s, MSS);
    }
    is_u64(n_moves(&s), 6, "each timeout moves it");
    is_u64(sim_counter(&s, 0, ACDC_C_UNHEARD), 1, "no more feedback");
    s.guest[0].snd_nxt -= MSS;
    sim_data(&s, 0, MSS, false);
    packet_free_list(sim_ack(&s, 1));
    for (i = 0; i < 50; i++) {
        s.now += 1000 * SIM_MS;
        sim_round_trip(&s, 1);
    }
    ok(sim_info_of(&s, 0).capable, "feedback again");
    is_u64(n_moves(&s), 6, "congestion does not move it for 60 s");
    sim_done(&s);
}

/* The other end's guest sends full segments, too, whose reports are in packets of their
 * own, one for two of them: rounds end without one. */
static void
test_both_ways(void)
{
    enum { FLIGHT = 4 };
    struct packet *on_way[FLIGHT] = { NULL }, *p;
    struct sim s;
    int i;

    begin(&s, false, true);
    for (i = 0; i < 300; i++) {
        struct packet **oldest = &on_way[i % FLIGHT];

        if (*oldest) {
            for (p = *oldest; p; p = p->next) {
                packet_set_ecn(p, ACDC_ECN_CE);
            }
            packet_free_list(sim_ingress(&s, 1, *oldest));
            s.guest[1].rcv_nxt += MSS;
            s.now += SIM_MS / 50;
            sim_data(&s, 1, MSS, false);
            s.now += SIM_MS / 50;
        }
        *oldest = sim_on_wire(&s, 0, MSS);
    }
    for (i = 0; i < FLIGHT; i++) {
        packet_free_list(on_way[i]);
    }
    ok(n_moves(&s) > 0, "data in both directions moves, too");
    sim_done(&s);
}

/* The path broke with the connection's last packet. */
static void
test_fin(void)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    begin(&s, false, true);
    sim_round_trip(&s, 0);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
    packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
    s.now += 50 * SIM_MS;
    p = sim_egress(&s, 0, packet_make(&spec));
    ok(p->path != 0, "a FIN that is sent again goes by another path");
    packet_free_list(p);
    sim_done(&s);
}

static uint32_t
label(const struct packet *p)
{
    return acdc_get32(packet_data(p) + 14) & ACDC_IP6_LABEL_MASK;
}

static void
test_handshake(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    uint32_t guests;
    struct sim s;
    int side;

    params.plb = true;
    sim_init(&s, &params, &params);
    s.v6 = true;
    for (side = 0; side < 2; side++) {
        if (side) {
            sim_synack(&s);
        } else {
            sim_syn(&s);
        }
        spec = sim_spec(&s, side, ACDC_TCP_SYN | (side ? ACDC_TCP_ACK : 0), 0);
        p = packet_make(&spec);
        guests = label(p);
        ok(!s.wire[side]->path && label(s.wire[side]) == guests,
           "%d: the first one as it is", side);
        s.now += 1000 * SIM_MS;
        p = sim_egress(&s, side, p);
        ok(p->path && label(p) != guests && packet_csum_ok(p),
           "%d: again by another path", side);
        packet_free_list(p);
    }
    sim_done(&s);
}

/* Whether 'p' is 'other' but for the label. */
static bool
same_but_label(const struct packet *p, const struct packet *other)
{
    struct packet *copy = packet_clone(p);
    uint8_t *ip = packet_data(copy) + 14;
    bool same;

    acdc_put32(ip, (acdc_get32(ip) & ~(uint32_t) ACDC_IP6_LABEL_MASK) | label(other));
    same = packet_same(copy, other);
    packet_free(copy);
    return same;
}

/* The same traffic with and without. */
static void
test_packets(bool v6)
{
    unsigned int i, differ = 0, labels = 0, paths = 0, facks = 0;
    uint32_t last_label, last_path = 0;
    struct sim s[2];

    begin(&s[0], v6, false);
    begin(&s[1], v6, true);
    last_label = v6 ? label(s[1].wire[0]) : 0;
    for (i = 0; i < 400; i++) {
        struct packet *p, *q, *plain, *moved;

        sim_round_trip(&s[0], 1);
        sim_round_trip(&s[1], 1);
        /* Data of guest 1, so that there is a report, which does not fit. */
        sim_data(&s[0], 1, 3 * MSS, false);
        sim_data(&s[1], 1, 3 * MSS, false);
        plain = p = sim_on_wire(&s[0], 0, i % 2 ? MSS : 0);
        moved = q = sim_on_wire(&s[1], 0, i % 2 ? MSS : 0);
        facks += packet_count(q) == 2;
        differ += packet_count(p) != packet_count(q);
        for (; p && q; p = p->next, q = q->next) {
            differ += !(v6 ? same_but_label(q, p) : packet_same(q, p));
            differ += !packet_csum_ok(q) || !q->path != !sim_info_of(&s[1], 0).path;
            if (q->path != last_path) {
                paths++;
                last_path = q->path;
            }
            if (v6 && label(q) != last_label) {
                labels++;
                last_label = label(q);
            }
        }
        packet_free_list(sim_ingress(&s[0], 1, plain));
        packet_free_list(sim_ingress(&s[1], 1, moved));
    }
    is_u64(differ, 0, "v%d: nothing else of a packet differs", v6 ? 6 : 4);
    ok(facks > 100, "FACKs go the same way");
    is_u64(paths, n_moves(&s[1]), "each move to another path, that of all packets");
    is_u64(labels, v6 ? paths : 0, "of IPv6 with another label");
    ok(paths > 90, "%u paths", paths);
    sim_done(&s[0]);
    sim_done(&s[1]);
}

/* A second connection with the addresses and ports of one that is over. */
static void
test_again(void)
{
    struct sim s;
    unsigned int i;
    int side;

    begin(&s, false, true);
    for (i = 0; i < 4; i++) {
        sim_round_trip(&s, 1);
    }
    is_u64(sim_info_of(&s, 0).path, 1, "moved");
    for (side = 0; side < 2; side++) {
        struct tcp_spec spec = sim_spec(&s, side, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);

        packet_free_list(sim_send(&s, side, &spec));
        s.guest[!side].rcv_nxt = ++s.guest[side].snd_nxt;
        packet_free_list(sim_ack(&s, !side));
    }
    is_u64(sim_info_of(&s, 0).state, ACDC_FLOW_CLOSED, "closed");
    s.guest[0].snd_nxt += 1u << 25;
    s.guest[1].snd_nxt += 1u << 25;
    sim_connect(&s);
    is_u64(sim_n_flows(&s, 0), 1, "the same flow");
    is_u64(sim_info_of(&s, 0).path, 0, "a new connection begins with path 0");
    sim_done(&s);
}

/* What a connection's packets have on its second path, where the table's seed is 'seed'. */
static void
seen_of_path(uint32_t seed, bool v6, uint32_t *hash, uint32_t *label)
{
    struct packet *p;
    struct sim s;

    begin(&s, v6, true);
    acdc_port_unbind(s.acdc[0], SIM_PORT_NO);
    s.acdc[0]->seed = seed;
    s.port[0] = acdc_port_bind(s.acdc[0], SIM_PORT_NO, "vnet7", SIM_TENANT, SIM_MTU);
    s.guest[0].port++;
    sim_connect(&s);
    sim_data(&s, 0, MSS, false);
    packet_free(sim_ack(&s, 1));
    packet_free_list(sim_on_wire(&s, 0, MSS));
    s.now += 400 * SIM_MS;
    s.guest[0].snd_nxt -= MSS;
    p = sim_on_wire(&s, 0, MSS);
    is_u64(n_moves(&s), 1, "the connection moved");
    *hash = p->path;
    *label = acdc_get32(packet_data(p) + ACDC_ETH_HLEN) & ACDC_IP6_LABEL_MASK;
    packet_free_list(p);
    sim_done(&s);
}

/* Guests see the flow label, others the outer source port: nobody is to learn from them
 * which bucket of the table a connection is in. */
static void
test_secret(bool v6)
{
    uint32_t hash[2], label[2];

    seen_of_path(1, v6, &hash[0], &label[0]);
    seen_of_path(0x98765432, v6, &hash[1], &label[1]);
    ok(hash[0] && hash[0] == hash[1] && label[0] == label[1],
       "IPv%d, a path tells nothing of the table's seed", v6 ? 6 : 4);
}

int
main(void)
{
    test_busy();
    test_idle();
    test_off();
    test_timeout();
    test_both_ways();
    test_outage();
    test_fin();
    test_handshake();
    test_packets(false);
    test_packets(true);
    test_again();
    test_secret(false);
    test_secret(true);
    return tap_end();
}
