/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A transfer of a simple TCP (go-back-N) both ways through two engines and a
 * network that marks, loses and duplicates, on hosts that lack memory now and
 * then: all bytes arrive, the sender keeps to the window it is told, and is
 * never stranded: with nothing in flight it may send a segment. */

#include "sim.h"
#include "tap.h"

enum { MSS = 1448, BYTES = 1500 * MSS };

struct end {
    uint32_t iss;               /* Of the data. */
    uint32_t una, nxt;          /* Relative to 'iss'. */
    uint32_t edge;              /* Told right edge. */
    uint32_t received;          /* In order, of the other end. */
    bool must_ack;
    bool ordered;               /* Payload was right. */
};

struct run {
    struct sim s;
    struct end end[2];
    uint64_t seed;
    unsigned int loss, mark, dup;       /* Per cent. */
    unsigned int no_memory;             /* Likewise, of packets. */
    bool policing;
    unsigned int peer_scale, scale;     /* The other guest's; as told. */
};

/* For the engine's next packets, for one of what they ask for. */
static void
maybe_no_memory(struct run *r)
{
    unsigned int call;

    for (call = HOST_PUSH; call < HOST_N_CALLS; call++) {
        host_fail((enum host_call) call, tap_chance(&r->seed, r->no_memory), 1);
    }
}

static void
receive(struct run *r, int side, const struct packet *p)
{
    struct end *e = &r->end[side];
    struct acdc_pkt pkt;
    uint32_t acked, seq, edge;

    packet_parse(p, &pkt);
    acked = pkt.ack - e->iss;
    if (acked <= e->nxt || acked <= BYTES) {
        if (acked > e->una && acked < 1u << 31) {
            e->una = acked;
            e->nxt = e->nxt > acked ? e->nxt : acked;
        }
        edge = acked + ((uint32_t) acdc_pkt_window(&pkt) << r->scale);
        if (acked == e->una) {
            e->edge = edge;
        }
    }
    if (pkt.payload) {
        seq = pkt.seq - r->end[!side].iss;
        if (seq == e->received) {
            e->received += pkt.payload;
            e->ordered &= packet_payload_ok(p);
        }
        e->must_ack = true;
    }
}

static void
transmit(struct run *r, int from, uint32_t payload)
{
    struct end *e = &r->end[from];
    struct tcp_spec spec = sim_spec(&r->s, from, ACDC_TCP_ACK, payload);
    struct packet *p, *next;

    spec.seq = e->iss + e->nxt;
    spec.ack = r->end[!from].iss + e->received;
    e->nxt += payload;
    e->must_ack = false;
    maybe_no_memory(r);
    for (p = sim_egress(&r->s, from, packet_make(&spec)); p; p = next) {
        int copies = tap_chance(&r->seed, r->loss) ? 0
                     : tap_chance(&r->seed, r->dup) ? 2 : 1;

        next = p->next;
        p->next = NULL;
        if (packet_ecn(p) == ACDC_ECN_ECT0 && tap_chance(&r->seed, r->mark)) {
            packet_set_ecn(p, ACDC_ECN_CE);
        }
        while (copies--) {
            struct packet *got;

            maybe_no_memory(r);
            got = sim_ingress(&r->s, !from, packet_clone(p));

            if (got) {
                receive(r, !from, got);
            }
            packet_free_list(got);
        }
        packet_free(p);
    }
}

static void
test(struct run *r, const struct acdc_params *params, const char *name)
{
    bool stranded = false, both = tap_random(&r->seed) % 2;
    unsigned int steps, timeouts = 0;
    int i;

    sim_init(&r->s, params, params);
    r->s.guest[0].wscale = r->s.guest[1].wscale = (int) r->peer_scale;
    sim_connect(&r->s);
    for (i = 0; i < 2; i++) {
        r->end[i] = (struct end) { .iss = r->s.guest[i].snd_nxt,
                                   .ordered = true };
        r->end[i].edge = MSS;
    }
    for (steps = 0; steps < 200000; steps++) {
        bool progress = false;

        for (i = 0; i < 2; i++) {
            struct end *e = &r->end[i];
            unsigned int burst = 1 + tap_random(&r->seed) % 4;

            while (burst-- && (!i || both) && e->nxt < BYTES
                   && e->nxt + MSS <= e->edge) {
                transmit(r, i, MSS);
                progress = true;
            }
            if (e->must_ack && !tap_chance(&r->seed, 30)) {
                transmit(r, i, 0);
                progress = true;
            }
        }
        r->s.now += SIM_MS / 10;
        if (r->end[0].una == BYTES && (!both || r->end[1].una == BYTES)) {
            break;
        }
        if (!progress) {
            /* Timers: what was not acknowledged is sent again. */
            timeouts++;
            r->s.now += 250 * SIM_MS;
            for (i = 0; i < 2; i++) {
                struct end *e = &r->end[i];

                if (e->una < BYTES && (!i || both)) {
                    stranded |= e->nxt == e->una && e->edge < e->una + MSS;
                    e->nxt = e->una;
                    transmit(r, i, MSS);
                }
                transmit(r, i, 0);
            }
        }
    }
    ok(r->end[0].una == BYTES && (!both || r->end[1].una == BYTES),
       "%s, loss %u %%, marks %u %%, duplicates %u %%, no memory %u %%, scale"
       " %u, both ways %d: all arrives (%u steps, %u timeouts)", name, r->loss,
       r->mark, r->dup, r->no_memory, r->peer_scale, both, steps, timeouts);
    ok(!stranded, "never stranded");
    ok(r->end[0].ordered && r->end[1].ordered, "payload as it was sent");
    is_u64(sim_counter(&r->s, 0, ACDC_C_POLICED_PACKETS), 0,
           "a guest that keeps to its window is not policed");
    ok(r->dup || !sim_counter(&r->s, 0, ACDC_C_FEEDBACK_BAD),
       "no impossible feedback without duplicates");
    ok(!r->mark || r->no_memory || params->algorithm == ACDC_ALG_NONE
       || sim_counter(&r->s, 0, ACDC_C_CUTS_ECN), "marks cut");
    sim_done(&r->s);
}

/* After a loss that was mended there are small messages, with pauses between them. */
static void
test_pauses(void)
{
    uint32_t lost, edges[2];
    struct tcp_spec spec;
    struct sim s;
    int i;

    sim_connect_as(&s, &acdc_params_default);
    for (i = 0; i < 60; i++) {
        sim_data(&s, 0, 1448, false);
        if (i % 3 == 2) {
            s.now += SIM_MS / 2;
            packet_free_list(sim_ack(&s, 1));
        }
    }
    s.now += 1000 * SIM_MS;
    lost = s.guest[0].snd_nxt;
    sim_lose_data(&s, 1448);
    for (i = 0; i < 2; i++) {
        sim_data(&s, 0, 1448, false);
        s.now += SIM_MS / 2;
        edges[0] = lost + 1448;
        edges[1] = s.guest[0].snd_nxt;
        spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
        spec.ack = lost;
        opt_sack(&spec, 1, edges);
        packet_free_list(sim_send(&s, 1, &spec));
    }
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    spec.seq = lost;
    packet_free_list(sim_send(&s, 0, &spec));
    s.now += SIM_MS / 2;
    packet_free_list(sim_ack(&s, 1));
    for (i = 0; i < 16; i++) {
        s.now += 500 * SIM_MS;
        sim_data(&s, 0, 200, false);
        s.now += SIM_MS / 2;
        packet_free_list(sim_ack(&s, 1));
    }
    ok(sim_info_of(&s, 0).srtt_us < 1000, "pauses are no round-trip time: %u us",
       sim_info_of(&s, 0).srtt_us);
    sim_done(&s);
}

int
main(void)
{
    static const unsigned int percent[][4] = {
        { 0, 0, 0, 0 }, { 0, 10, 0, 0 }, { 0, 100, 0, 0 }, { 2, 0, 0, 0 },
        { 5, 20, 0, 0 }, { 0, 20, 3, 0 }, { 3, 50, 2, 0 }, { 0, 10, 0, 10 },
        { 3, 20, 2, 50 },
    };
    static const unsigned int scales[] = { 0, 7, 14 };
    struct run r = { .seed = tap_seed() };
    unsigned int i, k;

    for (i = 0; i < sizeof percent / sizeof percent[0]; i++) {
        for (k = 0; k < ACDC_N_ALGS * 2; k++) {
            struct acdc_params params = acdc_params_default;

            r.loss = percent[i][0];
            r.mark = percent[i][1];
            r.dup = percent[i][2];
            r.no_memory = percent[i][3];
            /* 14 is made finer in the handshake: to 10. */
            r.peer_scale = scales[(i + k) % 3];
            r.scale = r.peer_scale == 14 ? 10 : r.peer_scale;
            params.algorithm = k % ACDC_N_ALGS;
            params.police = true;
            params.min_window = k >= ACDC_N_ALGS ? 1 : 0;
            params.beta = k >= ACDC_N_ALGS ? ACDC_FIX_ONE / 4 : ACDC_FIX_ONE;
            test(&r, &params, acdc_algorithm_names[params.algorithm]);
        }
    }
    test_pauses();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
