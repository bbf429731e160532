/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Policing through two engines: data beyond the window, ACKs of what did not arrive,
 * hostile receivers. */

#include "sim.h"
#include "tap.h"

/* The ACK number of a corrupt packet, or of an outsider, offers nothing. */
static void
test_far_ack(bool police, uint32_t far)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_flow_info before, after;
    struct tcp_spec spec;
    struct sim s;

    params.police = police;
    sim_connect_as(&s, &params);
    sim_round_trip(&s, 0);
    params.max_window = 4 * 1448;
    sim_policy(&s, 0, &params);
    packet_free(sim_ack(&s, 1));
    before = sim_info_of(&s, 0);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    spec.ack += far;
    packet_free_list(sim_send(&s, 1, &spec));
    after = sim_info_of(&s, 0);
    is_u64(after.offered, before.offered, "offered after an ACK of +%#x", far);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    is_u64(sim_leave(&s, 0, &spec), 1, "the guest can go on sending");
    is_u64(sim_info_of(&s, 0).in_flight, 1448, "and is followed");
    if (police) {
        spec.seq += 1 << 20;
        is_u64(sim_leave(&s, 0, &spec), 0, "and policed");
    }
    sim_done(&s);
}

/* Nor that of a SYN-ACK sent again, which the guest drops. */
static void
test_far_synack(void)
{
    static const uint32_t far[] = { 0x40000000, 0x7fffffff };
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    unsigned int i;
    struct sim s;

    params.police = true;
    sim_connect_as(&s, &params);
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
        spec.seq--;
        spec.ack += far[i];
        packet_free_list(sim_ingress(&s, 0, packet_make(&spec)));
        packet_free_list(sim_ack(&s, 1));
        spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
        spec.seq += 1 << 20;
        is_u64(sim_leave(&s, 0, &spec), 0, "after a SYN-ACK of +%#x: policed", far[i]);
        spec.seq -= 1 << 20;
        is_u64(sim_leave(&s, 0, &spec), 1, "and what is allowed passes");
    }
    sim_done(&s);
}

static void
test_far_acks(bool police)
{
    static const uint32_t far[] = {
        0x80000000, 0x40000000, 0x7fffffff, 0x90000000, 0x02000000, 0xfd000000,
    };
    unsigned int i;

    for (i = 0; i < sizeof far / sizeof *far; i++) {
        test_far_ack(police, far[i]);
    }
}

static void
test_policing(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct sim s;
    uint32_t edge;

    params.police = true;
    sim_connect_as(&s, &params);
    edge = s.guest[0].snd_nxt + 14480;
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    spec.seq = edge - 1448;
    is_u64(sim_leave(&s, 0, &spec), 1, "data up to the right edge passes");
    spec.seq = edge;
    is_u64(sim_leave(&s, 0, &spec), 1, "one segment of slack");
    spec.seq = edge + 1;
    is_u64(sim_leave(&s, 0, &spec), 0, "beyond, data is dropped");
    is_u64(sim_counter(&s, 0, ACDC_C_POLICED_PACKETS), 1, "counted");
    is_u64(sim_counter(&s, 0, ACDC_C_POLICED_BYTES), 1448, "its bytes too");
    /* A smaller window later takes nothing back. */
    s.guest[1].window = 10;
    is_u64(sim_ack_window(&s, 1), 10, "the peer shrinks its window");
    spec.seq = edge - 1448;
    is_u64(sim_leave(&s, 0, &spec), 1, "what was allowed is never dropped");
    params.police = false;
    sim_policy(&s, 0, &params);
    spec.seq = edge + 100000;
    is_u64(sim_leave(&s, 0, &spec), 1, "not policed");
    sim_done(&s);
}

/* Nor where data goes both ways does a guest that ignores its window get more
 * of it. */
static void
test_policing_both_ways(void)
{
    struct acdc_params params = acdc_params_default;
    uint32_t most = 0;
    struct sim s;
    int i;

    params.police = true;
    params.max_window = 4 * 1448;
    sim_connect_as(&s, &params);
    for (i = 0; i < 100; i++) {
        uint32_t una = s.guest[1].rcv_nxt;
        uint64_t policed = sim_counter(&s, 0, ACDC_C_POLICED_PACKETS);
        struct tcp_spec spec;

        /* All that passes. */
        for (;;) {
            spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
            packet_free_list(sim_send(&s, 0, &spec));
            if (sim_counter(&s, 0, ACDC_C_POLICED_PACKETS) > policed) {
                break;
            }
            s.guest[0].snd_nxt += 1448;
        }
        if (s.guest[0].snd_nxt - una > most) {
            most = s.guest[0].snd_nxt - una;
        }
        /* The peer sends one, and takes one in two rounds. */
        s.now += SIM_MS;
        s.guest[1].rcv_nxt = una + i % 2 * 1448;
        sim_data(&s, 1, 1448, false);
    }
    ok(most <= 6 * 1448, "of data both ways never more than %u bytes pass",
       most);
    sim_done(&s);
}

/* Receivers that want more than their share (Savage et al., 1999). */
static void
test_hostile_receiver(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct packet *p;
    uint32_t whole;
    struct sim s;
    int i;

    /* ACK splitting: growth is by bytes. */
    sim_connect_as(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    packet_free(sim_ack(&s, 1));
    whole = sim_info_of(&s, 0).window;
    sim_done(&s);
    sim_connect_as(&s, &params);
    for (i = 0; i < 10; i++) {
        sim_data(&s, 0, 1448, false);
    }
    s.now += SIM_MS;
    s.guest[1].rcv_nxt -= 14480;
    for (i = 0; i < 1448; i++) {
        s.guest[1].rcv_nxt += 10;
        packet_free_list(sim_ack(&s, 1));
    }
    ok(sim_info_of(&s, 0).window <= whole && sim_info_of(&s, 0).window > 20000,
       "1448 ACKs are worth no more than one");
    sim_done(&s);

    /* Optimistic ACKs: of data on its way. */
    for (i = 0; i < 2; i++) {
        params.police = i;
        sim_connect_as(&s, &params);
        sim_data(&s, 0, 1448, false);
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        is_u64(sim_leave(&s, 1, &spec), 1, "an ACK of what arrived");
        spec.ack++;
        is_u64(sim_leave(&s, 1, &spec), 1, "and of a FIN");
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "not counted");
        spec.ack++;
        is_u64(sim_leave(&s, 1, &spec), !i, "an optimistic ACK %s",
               i ? "is policed" : "passes");
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 1, "counted");
        sim_done(&s);
    }

    /* The same in SACK blocks, which open the window as well. */
    for (i = 0; i < 2; i++) {
        uint32_t edges[2];

        params.police = i;
        sim_connect_as(&s, &params);
        sim_data(&s, 0, 1448, false);
        s.guest[1].rcv_nxt -= 1448;
        edges[0] = s.guest[1].rcv_nxt + 1000;
        edges[1] = s.guest[1].rcv_nxt + 1449;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_sack(&spec, 1, edges);
        is_u64(sim_leave(&s, 1, &spec), 1, "SACK of what arrived, and of a FIN");
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "not counted");
        edges[1]++;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        opt_sack(&spec, 1, edges);
        is_u64(sim_leave(&s, 1, &spec), !i, "an optimistic SACK %s",
               i ? "is policed" : "passes");
        is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 1, "counted");
        sim_done(&s);
    }

    /* An ACK of data that came in fragments is none. */
    params.police = true;
    sim_connect_as(&s, &params);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    p = packet_make(&spec);
    packet_data(p)[14 + 6] = 0x20;      /* More fragments. */
    packet_free_list(sim_ingress(&s, 1, p));
    s.guest[1].rcv_nxt += 1448;
    for (i = 0; i < 2; i++) {
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        is_u64(sim_leave(&s, 1, &spec), 1, "an ACK of fragments, time %d", i);
        s.now += 100000 * SIM_MS;
    }
    is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "an honest ACK");
    s.guest[1].rcv_nxt += 3000;
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    is_u64(sim_leave(&s, 1, &spec), 0, "long after that one is optimistic");
    /* Also when 2^31 ms have passed. */
    s.now += 30 * 86400000ull * SIM_MS;
    is_u64(sim_leave(&s, 1, &spec), 0, "and a month after");
    sim_done(&s);
    params.police = false;

    /* Data for which there was no memory was seen all the same. */
    sim_connect_as(&s, &params);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    p = sim_egress(&s, 0, packet_make(&spec));
    host_fail(HOST_WRITABLE, 1, 1);
    packet_free_list(sim_ingress(&s, 1, p));
    s.guest[1].rcv_nxt += 1448;
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 1, ACDC_C_UNTOUCHED_MEMORY), 1, "no memory");
    is_u64(sim_counter(&s, 1, ACDC_C_ACK_OPTIMISTIC), 0, "an honest ACK");
    sim_done(&s);
}

/* An optimistic ACK behind a RST, or a SYN, which the peer only challenges or does not
 * get. */
static void
test_optimistic_after(uint8_t flags)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct sim s;

    params.police = true;
    sim_connect_as(&s, &params);
    sim_data(&s, 0, 1448, false);
    spec = sim_spec(&s, 1, flags, 0);
    spec.seq += flags & ACDC_TCP_SYN ? 1 << 24 : 0;
    is_u64(sim_leave(&s, 1, &spec), 1, "flags %02x leave", flags);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    is_u64(sim_leave(&s, 1, &spec), 1, "an ACK of what arrived");
    spec.ack += 100000;
    is_u64(sim_leave(&s, 1, &spec), 0, "an optimistic ACK does not");
    sim_done(&s);
}

/* Segments that GRO made a packet of whose length IPv4's header cannot say. */
static struct packet *
make_big(struct sim *s)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, 50 * 1448);
    struct packet *p;

    spec.gso = 1448;
    spec.csum_partial = true;
    p = packet_make(&spec);
    acdc_put16(packet_data(p) + 14 + 4 * s->vlans + 2, 0);
    return p;
}

/* What Linux calls BIG TCP is not understood. */
static void
test_big(unsigned int vlans)
{
    struct acdc_params params = acdc_params_default;
    struct packet *p;
    struct sim s;

    params.police = true;
    sim_init(&s, &params, &params);
    s.vlans = vlans;
    s.guest[0].timestamps = s.guest[1].timestamps = true;
    sim_connect(&s);
    p = sim_egress(&s, 0, make_big(&s));
    is_u64(packet_count(p), 0, "a guest's is not followed, and leaves not");
    is_u64(sim_counter(&s, 0, ACDC_C_REFUSED), 1, "counted");
    packet_free_list(p);

    p = sim_ingress(&s, 1, make_big(&s));
    is_u64(packet_count(p), 1, "a guest gets it");
    packet_free_list(p);
    s.guest[1].rcv_nxt += 50 * 1448;
    p = sim_ack(&s, 1);
    is_u64(packet_count(p), 1, "and may acknowledge it");
    packet_free_list(p);
    sim_done(&s);
}

int
main(void)
{
    test_far_synack();
    test_policing();
    test_policing_both_ways();
    test_far_acks(true);
    test_far_acks(false);
    test_hostile_receiver();
    test_optimistic_after(ACDC_TCP_RST);
    test_optimistic_after(ACDC_TCP_RST | ACDC_TCP_ACK);
    test_optimistic_after(ACDC_TCP_SYN);
    test_big(0);
    test_big(1);
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
