/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What a port recalls beside its flows (acdc-recall.c): for how long, how much, and for
 * whom. */

#include "sim.h"
#include "tap.h"

/* Whether a SYN from guest 0 to that peer goes with the capability. */
static bool
offers(struct sim *s, uint32_t peer)
{
    struct tcp_spec spec;
    struct acdc_pkt pkt;
    struct packet *p;
    bool with;

    s->guest[0].port++;
    memcpy(s->guest[1].addr, &peer, sizeof peer);
    spec = sim_spec(s, 0, ACDC_TCP_SYN, 0);
    p = sim_egress(s, 0, packet_make(&spec));
    with = packet_parse(p, &pkt) && (pkt.opt_flags & ACDC_O_CAPABILITY);
    packet_free_list(p);
    return with;
}

/* The SYN-ACK of the peer, with the capability or without. */
static void
answer(struct sim *s, bool with)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);

    spec.ack = s->guest[0].snd_nxt + 1;
    if (with) {
        opt_capability(&spec, ACDC_OPT_EXID);
    }
    packet_free_list(sim_ingress(s, 0, packet_make(&spec)));
}

/* Through a firewall that drops SYNs with the capability. */
static void
learn(struct sim *s, uint32_t peer)
{
    offers(s, peer);
    s->now += ACDC_SYN_PLAIN_MS * SIM_MS;
    s->guest[0].port--;
    offers(s, peer);
    answer(s, false);
}

static void
begin(struct sim *s, bool v6)
{
    sim_init(s, NULL, NULL);
    sim_remove_acdc(s, 1);
    s->v6 = v6;
}

static void
test_paths(bool v6)
{
    unsigned int i, n = 0;
    struct sim s;

    begin(&s, v6);
    learn(&s, 1000);
    is_u64(sim_counter(&s, 0, ACDC_C_OFFER_PLAIN), 1, "one SYN without");
    ok(!offers(&s, 1000), "the path is known");
    is_u64(sim_counter(&s, 0, ACDC_C_OFFER_SPARED), 1, "counted");
    ok(offers(&s, 1001), "and no other");
    s.now += 9 * 60 * 1000 * SIM_MS;
    ok(!offers(&s, 1000), "for ten minutes");
    s.now += 2 * 60 * 1000 * SIM_MS;
    ok(offers(&s, 1000), "and then asked again");
    answer(&s, true);
    learn(&s, 1000);
    ok(offers(&s, 1000), "one that passed it: a SYN was lost");

    for (i = 0; i < 10000; i++) {
        learn(&s, 2000 + i);
    }
    s.now += SIM_MS;
    for (i = 0; i < 10000; i++) {
        n += !offers(&s, 2000 + i);
    }
    ok(n > 100 && n < 300, "bounded: %u of 10000", n);
    sim_done(&s);
}

/* Another tenant has the port: what its guest did is forgotten. */
static void
test_new_guest(void)
{
    struct acdc_tenant_config tc = { .name = "red",
                                     .params = acdc_params_default };
    struct sim s;

    begin(&s, false);
    learn(&s, 1000);
    acdc_tenant_set(s.acdc[0], &tc);
    s.port[0] = acdc_port_bind(s.acdc[0], SIM_PORT_NO, "vnet7", "red",
                               SIM_MTU);
    ok(offers(&s, 1000), "nothing is known of a new guest's paths");
    sim_done(&s);
}

/* An ACK of guest 1 that is 'ahead' of what came: whether it passes. */
static bool
excused(struct sim *s, uint32_t ahead)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_ACK, 0);
    struct packet *p;
    bool passed;

    spec.ack += ahead;
    p = sim_egress(s, 1, packet_make(&spec));
    passed = p != NULL;
    packet_free_list(p);
    if (passed) {
        s->guest[1].rcv_nxt += ahead;
    }
    return passed;
}

/* A fragment of 'payload' bytes, behind 20 of TCP header, to guest 1.  Its length
 * says 'more' than that. */
static void
fragment(struct sim *s, uint32_t payload, uint16_t more, uint8_t proto)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, payload);
    struct packet *p = packet_make(&spec);
    uint8_t *ip = (uint8_t *) packet_data(p) + 14;

    if (s->v6) {
        acdc_put16(ip + 4, (uint16_t) (acdc_get16(ip + 4) + more));
        ip[6] = ACDC_IPPROTO_FRAGMENT;
        ip[40] = proto;
    } else {
        acdc_put16(ip + 2, (uint16_t) (acdc_get16(ip + 2) + more));
        ip[6] = 0x20;
        ip[9] = proto;
    }
    packet_free_list(sim_ingress(s, 1, p));
}

static void
test_unseen(bool v6)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct sim s;

    params.police = true;
    sim_init(&s, NULL, &params);
    s.v6 = v6;
    sim_connect(&s);
    fragment(&s, 1000, 0, 17);
    ok(!excused(&s, 1000), "a fragment of UDP excuses nothing");
    s.guest[0].addr[v6 ? 15 : 3]++;
    fragment(&s, 1000, 0, ACDC_IPPROTO_TCP);
    s.guest[0].addr[v6 ? 15 : 3]--;
    ok(!excused(&s, 1000), "nor one of another address");
    fragment(&s, 1000, 0, ACDC_IPPROTO_TCP);
    ok(!excused(&s, 1100), "one of the peer no more than it has");
    ok(excused(&s, 900), "but that");
    ok(!excused(&s, 900), "once");
    is_u64(sim_counter(&s, 1, ACDC_C_ACK_EXCUSED), 1, "counted");
    fragment(&s, 1000, 0, ACDC_IPPROTO_TCP);
    s.now += ACDC_UNSEEN_MS * SIM_MS;
    ok(!excused(&s, 900), "for a minute");
    fragment(&s, 1000, 50000, ACDC_IPPROTO_TCP);
    ok(!excused(&s, 1100), "nor what its length claims and did not come");
    s.now += ACDC_UNSEEN_MS * SIM_MS;

    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1000);
    opt_raw(&spec, "\xfe\0\1\1", 4);
    packet_free_list(sim_ingress(&s, 1, packet_make(&spec)));
    is_u64(sim_counter(&s, 1, ACDC_C_UNTOUCHED_OPTIONS), 1, "bad options");
    ok(excused(&s, 1000), "data behind them excuses, too");
    spec = sim_spec(&s, 0, 0, 1000);
    packet_free_list(sim_ingress(&s, 1, packet_make(&spec)));
    is_u64(sim_counter(&s, 1, ACDC_C_UNTOUCHED_FLAGS), 1, "bad flags");
    ok(!excused(&s, 1000), "which no guest takes");
    sim_done(&s);
}

/* SYNs to addresses that the guest has and that it has not. */
static void
test_addresses(bool v6)
{
    struct acdc_tenant_config tc = { .name = SIM_TENANT, .max_half_open = 100,
                                     .params = acdc_params_default };
    struct tcp_spec spec;
    unsigned int i;
    struct sim s;

    begin(&s, v6);
    acdc_tenant_set(s.acdc[0], &tc);
    /* The guest shows its address by an answer, though that was not tracked. */
    spec = sim_spec(&s, 0, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
    for (i = 0; i < 1000; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_SYN, 0);
        spec.dst[v6 ? 15 : 3] ^= 1 + i % 8;
        spec.sport = (uint16_t) (2000 + i);
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
    }
    is_u64(sim_n_flows(&s, 0), 50, "copies have half of the quota");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_FOREIGN), 950, "counted");
    for (i = 0; i < 50; i++) {
        spec = sim_spec(&s, i % 2, ACDC_TCP_SYN, 0);
        *(i % 2 ? &spec.sport : &spec.dport) = (uint16_t) (4000 + i);
        packet_free_list(i % 2 ? sim_ingress(&s, 0, packet_make(&spec))
                               : sim_egress(&s, 0, packet_make(&spec)));
    }
    is_u64(sim_n_flows(&s, 0), 100, "the guest's own the other");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_HALF_OPEN), 0, "none refused");
    sim_done(&s);
}

/* The ACK of a SYN-ACK is lost until that is sent again without the capability, and then the
 * guest that connects has data and nothing to report.  It marks that, so the other end
 * knows that the first SYN-ACK has arrived, and reports. */
static void
test_synack_without(bool v6)
{
    struct sim s;
    unsigned int i;

    sim_init(&s, NULL, NULL);
    s.v6 = v6;
    sim_syn(&s);
    for (i = 0; i < 2; i++) {
        sim_synack(&s);
        s.now += ACDC_SYN_PLAIN_MS * SIM_MS;
    }
    s.guest[0].snd_nxt++;
    s.guest[1].snd_nxt++;
    ok(sim_info_of(&s, 0).capable && !sim_info_of(&s, 1).capable, "one end takes it back");
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1000, i == 2);
        s.now += SIM_MS;
        packet_free_list(sim_ack(&s, 1));
    }
    is_u64(sim_info_of(&s, 0).fb_total, 10000, "data is reported");
    is_u64(sim_info_of(&s, 0).fb_ce, 1000, "and marks");
    sim_data(&s, 1, 1000, true);
    s.now += SIM_MS;
    packet_free_list(sim_ack(&s, 0));
    ok(sim_info_of(&s, 1).capable, "both ends have it");
    is_u64(sim_info_of(&s, 1).fb_ce, 1000, "and marks of the other direction");
    is_u64(sim_counter(&s, 1, ACDC_C_FEEDBACK_BAD), 0, "all are good");
    sim_done(&s);
}

int
main(void)
{
    int v6;

    for (v6 = 0; v6 < 2; v6++) {
        test_paths(v6);
        test_unseen(v6);
        test_addresses(v6);
        test_synack_without(v6);
    }
    test_new_guest();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
