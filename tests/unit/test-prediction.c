/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Header prediction: a packet that usual_ack() or usual_data() takes has the
 * effect that it would have step by step, and so has an ACK that
 * acdc_pkt_dress_ack() edits at once.  Two pairs of engines live through the
 * same connection; in one of them all that guest 1 sends has URG set, which
 * means nothing to the engine but that it is not usual.  After each packet the
 * flows are the same to the last bit, and so are packets on the wire and at the
 * guest, URG apart. */

#include "sim.h"
#include "tap.h"

/* To ask these two whether they would take a packet. */
#define acdc_ingress unused_ingress
void unused_ingress(struct acdc_ctx *, struct acdc_pkt *, unsigned int);
#include "../../datapath/acdc-ingress.c"

enum { MSS = 1448, STEPS = 3000, N_DELAYED = 4 };

struct twins {
    struct sim s[2];
    struct packet *delayed[2][N_DELAYED];       /* ACKs to guest 0. */
    uint64_t seed;
    unsigned int n_acks, n_data;        /* Taken by the quick way. */
};

/* All but what they are found by. */
static bool
same_flow(const struct acdc_flow *a, const struct acdc_flow *b)
{
    const size_t from = offsetof(struct acdc_flow, lock);

    return a && b && !memcmp((const char *) a + from, (const char *) b + from,
                             sizeof *a - from)
           && !memcmp(acdc_flow_in(a), acdc_flow_in(b),
                      sizeof(struct acdc_flow_in));
}

static bool
same_counters(const struct twins *t, int side)
{
    struct acdc_tenant_stats stats[2];
    int i;

    for (i = 0; i < 2; i++) {
        memset(&stats[i], 0, sizeof stats[i]);
        acdc_tenant_stats_get(t->s[i].acdc[side], SIM_TENANT, &stats[i]);
    }
    return !memcmp(stats[0].counters, stats[1].counters,
                   sizeof stats[0].counters);
}

/* Takes URG and the TCP checksum out of 'p', a copy. */
static struct packet *
plain(const struct packet *p)
{
    struct packet *copy = packet_clone(p);
    struct acdc_pkt pkt;

    if (packet_parse(copy, &pkt)) {
        acdc_pkt_tcp(&pkt)[13] &= (uint8_t) ~ACDC_TCP_URG;
        acdc_put16(acdc_pkt_tcp(&pkt) + 16, 0);
    }
    return copy;
}

/* 'p' of both, which are freed, got to the guest. */
static bool
same_packets(struct packet *p[2])
{
    bool same = packet_count(p[0]) == packet_count(p[1]);

    if (same && p[0]) {
        struct packet *a = plain(p[0]), *b = plain(p[1]);

        same = packet_same(a, b) && packet_csum_ok(p[0])
               && packet_csum_ok(p[1]);
        packet_free(a);
        packet_free(b);
    }
    packet_free_list(p[0]);
    packet_free_list(p[1]);
    return same;
}

static bool
same_flows(const struct twins *t)
{
    return same_flow(sim_flow(&t->s[0], 0), sim_flow(&t->s[1], 0))
           && same_flow(sim_flow(&t->s[0], 1), sim_flow(&t->s[1], 1));
}

/* What guest 1 sends, on the wire once for each twin. */
static bool
transmit(struct twins *t, const struct tcp_spec *spec, struct packet *wire[2])
{
    struct packet *copies[2];
    int i;

    for (i = 0; i < 2; i++) {
        struct tcp_spec own = *spec;

        if (i) {
            own.flags |= ACDC_TCP_URG;
        }
        wire[i] = sim_egress(&t->s[i], 1, packet_make(&own));
        /* One of several is a FACK, without URG: of same_flows() then. */
        copies[i] = wire[i] && !wire[i]->next ? packet_clone(wire[i]) : NULL;
    }
    return packet_count(wire[0]) == packet_count(wire[1])
           && same_packets(copies) && same_flows(t);
}

/* Whether 'wire', a single packet, would be taken by the quick way.  Asked of
 * copies. */
static bool
is_quick(const struct sim *s, const struct packet *wire)
{
    const struct acdc_flow *flow = sim_flow(s, 0);
    bool v6 = acdc_flow_has_three(flow);
    struct acdc_flow *f = acdc_host_alloc_flow(acdc_flow_size(v6), v6);
    struct acdc_slot_stats stats;
    const struct acdc_params *params;
    struct acdc_ctx ctx;
    struct packet *copy;
    struct acdc_pkt p;
    bool quick;

    memset(&ctx, 0, sizeof ctx);
    memset(&stats, 0, sizeof stats);
    ctx.acdc = s->acdc[0];
    ctx.policy = s->port[0]->tenant->policy;
    ctx.slot = &stats;
    ctx.exid = ACDC_OPT_EXID;
    ctx.now = s->now;
    *f = *flow;
    *acdc_flow_in(f) = *acdc_flow_in(flow);
    params = acdc_flow_params(&ctx, f);
    copy = packet_clone(wire);
    packet_parse(copy, &p);
    p.host = copy;
    quick = is_usual(f)
            && (p.payload ? usual_data(&ctx, f, acdc_flow_in(f), &p)
                          : usual_ack(&ctx, f, acdc_flow_in(f), params, &p));
    packet_free(copy);
    acdc_host_free_flow(f);
    return quick;
}

/* What is on the wire gets to guest 0. */
static bool
deliver(struct twins *t, struct packet *wire[2])
{
    struct packet *got[2];
    bool quick[2] = { false, false };
    unsigned int *n = &t->n_acks;
    int i;

    for (i = 0; i < 2; i++) {
        if (wire[i] && !wire[i]->next) {
            struct acdc_pkt p;

            quick[i] = is_quick(&t->s[i], wire[i]);
            packet_parse(wire[i], &p);
            n = p.payload ? &t->n_data : &t->n_acks;
        }
        got[i] = sim_ingress(&t->s[i], 0, wire[i]);
    }
    *n += quick[0];
    return same_packets(got) && same_flows(t) && !quick[1];
}

/* Payload of a segment, most often a full one. */
static uint32_t
segment_size(struct twins *t)
{
    return tap_chance(&t->seed, 80)
           ? MSS : (uint32_t) (tap_random(&t->seed) % MSS) + 1;
}

/* The network marks what may be marked. */
static void
mark_ce(struct packet *p)
{
    if (packet_ecn(p) != ACDC_ECN_NOT_ECT) {
        packet_set_ecn(p, ACDC_ECN_CE);
    }
}

/* Something on the way puts feedback behind timestamps. */
static void
swap_options(struct packet *p)
{
    struct acdc_pkt pkt;

    if (packet_parse(p, &pkt) && pkt.fb_ofs == ACDC_TCP_HLEN
        && pkt.ts_ofs == pkt.fb_ofs + ACDC_OPT_FB_LEN + 2) {
        uint8_t *opt = acdc_pkt_tcp(&pkt) + ACDC_TCP_HLEN;
        uint8_t feedback[ACDC_OPT_FB_LEN];

        memcpy(feedback, opt, sizeof feedback);
        memmove(opt, opt + sizeof feedback, sizeof feedback);
        memcpy(opt + sizeof feedback, feedback, sizeof feedback);
    }
}

/* Guest 1 acknowledges; the network may delay, lose, mark or repeat that. */
static bool
acknowledge(struct twins *t)
{
    bool delay = tap_chance(&t->seed, 20);
    bool lose = tap_chance(&t->seed, 5);
    bool mark = tap_chance(&t->seed, 10);
    bool again = tap_chance(&t->seed, 5);
    bool sack = tap_chance(&t->seed, 10), swap = tap_chance(&t->seed, 5);
    const struct acdc_flow *f = sim_flow(&t->s[0], 0);
    /* Most often not of all that is in flight: in the middle of a round. */
    uint32_t behind = tap_chance(&t->seed, 80)
                      ? (uint32_t) (tap_random(&t->seed)
                                    % (f->snd_nxt - f->snd_una + 1)) : 0;
    unsigned int place = (unsigned int) (tap_random(&t->seed) % N_DELAYED);
    struct tcp_spec spec = sim_spec(&t->s[0], 1, ACDC_TCP_ACK, 0);
    struct packet *wire[2];
    bool same;
    int i;

    spec.ack -= behind;
    if (sack) {
        uint32_t edges[6];
        unsigned int n = 1 + (unsigned int) (tap_random(&t->seed) % 3), k;

        /* With timestamps and three blocks there is no room for feedback. */
        for (k = 0; k < n; k++) {
            edges[2 * k] = spec.ack + (1 + 6 * k) * MSS;
            edges[2 * k + 1] = edges[2 * k] + 4 * MSS;
        }
        opt_sack(&spec, n, edges);
    }
    same = transmit(t, &spec, wire);
    for (i = 0; i < 2; i++) {
        if (swap && wire[i]) {
            swap_options(wire[i]);
        }
        if (mark && wire[i] && !wire[i]->next) {
            mark_ce(wire[i]);
        }
        if (lose) {
            packet_free_list(wire[i]);
            wire[i] = NULL;
        } else if (delay && wire[i] && !wire[i]->next) {
            struct packet *before = t->delayed[i][place];

            t->delayed[i][place] = wire[i];
            wire[i] = before;
        }
    }
    if (again && wire[0] && !wire[0]->next) {
        struct packet *copies[2] = {
            packet_clone(wire[0]), packet_clone(wire[1])
        };

        same = deliver(t, copies) && same;
    }
    return deliver(t, wire) && same;
}

/* Guest 1 sends data; the network may lose, mark or repeat that. */
static bool
receive_data(struct twins *t, unsigned int marks)
{
    uint32_t n = segment_size(t);
    bool mark = tap_chance(&t->seed, marks), lose = tap_chance(&t->seed, 3);
    bool again = tap_chance(&t->seed, 3);
    struct tcp_spec spec = sim_spec(&t->s[0], 1, ACDC_TCP_ACK, n);
    struct packet *wire[2], *copies[2];
    bool same;
    int i;

    if (tap_chance(&t->seed, 30)) {
        spec.flags |= ACDC_TCP_PSH;
    }
    if (t->s[0].guest[1].ecn && tap_chance(&t->seed, 90)) {
        spec.ecn = ACDC_ECN_ECT0;
    }
    if (tap_chance(&t->seed, 50)) {
        /* Nothing new is acknowledged. */
        spec.ack = sim_flow(&t->s[0], 0)->snd_una;
    } else if (tap_chance(&t->seed, 5)) {
        /* Corrupt: of what was acknowledged before, or not sent. */
        spec.ack += (uint32_t) (tap_random(&t->seed) % (8 * MSS)) - 4 * MSS;
    }
    same = transmit(t, &spec, wire);
    for (i = 0; i < 2; i++) {
        struct packet *p;

        for (p = wire[i]; p && mark; p = p->next) {
            mark_ce(p);
        }
        if (lose) {
            packet_free_list(wire[i]);
            wire[i] = NULL;
            continue;
        }
        copies[i] = again && !wire[i]->next ? packet_clone(wire[i]) : NULL;
        t->s[i].guest[1].snd_nxt += n;
        t->s[i].guest[0].rcv_nxt = t->s[i].guest[1].snd_nxt;
    }
    if (lose) {
        return same;
    }
    same = deliver(t, wire) && same;
    return deliver(t, copies) && same;
}

/* Guest 0 does. */
static void
send_data(struct twins *t, unsigned int marks)
{
    uint32_t n = segment_size(t);
    bool ce = tap_chance(&t->seed, marks), lose = tap_chance(&t->seed, 1);
    bool again = tap_chance(&t->seed, 1);
    int i;

    for (i = 0; i < 2; i++) {
        struct sim *s = &t->s[i];

        if (lose) {
            /* Once; sim_data() sends it again. */
            struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, n);

            packet_free_list(sim_egress(s, 0, packet_make(&spec)));
        }
        if (again) {
            /* Counted twice by the other end, so that feedback is bad. */
            struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_ACK, n);
            struct packet *p = sim_egress(s, 0, packet_make(&spec));

            packet_free_list(sim_ingress(s, 1, packet_clone(p)));
            packet_free_list(sim_ingress(s, 1, p));
            s->guest[0].snd_nxt += n;
            s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
            continue;
        }
        sim_data(s, 0, n, ce);
    }
}

/* Guest 0 sends again what is not acknowledged, as after a timeout. */
static void
retransmit(struct twins *t)
{
    uint32_t una = sim_flow(&t->s[0], 0)->snd_una;
    int i;

    for (i = 0; i < 2; i++) {
        struct tcp_spec spec = sim_spec(&t->s[i], 0, ACDC_TCP_ACK, MSS);

        spec.seq = una;
        packet_free_list(sim_cross(&t->s[i], 0, packet_make(&spec)));
    }
}

static void
life(struct twins *t, const struct acdc_params *params, bool v6, bool ecn,
     bool timestamps, bool csum_partial, unsigned int vlans,
     unsigned int marks, const char *name)
{
    bool same = true;
    unsigned int step;
    int i, k;

    t->n_acks = t->n_data = 0;
    memset(t->delayed, 0, sizeof t->delayed);
    for (i = 0; i < 2; i++) {
        sim_init(&t->s[i], params, params);
        t->s[i].v6 = v6;
        t->s[i].vlans = vlans;
        t->s[i].csum_partial = csum_partial;
        for (k = 0; k < 2; k++) {
            t->s[i].guest[k].ecn = ecn;
            t->s[i].guest[k].timestamps = timestamps;
        }
        sim_connect(&t->s[i]);
    }
    for (step = 0; same && step < STEPS; step++) {
        const struct acdc_flow *f = sim_flow(&t->s[0], 0);
        uint64_t pause = tap_chance(&t->seed, 2) ? 400 : tap_random(&t->seed) % 3;
        struct acdc_params changed = *params;
        bool receiving = step % 400 >= 300;

        if (!receiving && f->snd_nxt - f->snd_una < 40 * MSS
            && tap_chance(&t->seed, 60)) {
            send_data(t, marks);
        } else if (tap_chance(&t->seed, receiving ? 70 : 3)) {
            same = receive_data(t, marks);
        } else if (f->snd_nxt - f->snd_una >= MSS && tap_chance(&t->seed, 3)) {
            retransmit(t);
        } else {
            same = acknowledge(t);
        }
        changed.beta = tap_chance(&t->seed, 50) ? ACDC_FIX_ONE / 2 : ACDC_FIX_ONE;
        for (i = 0; i < 2; i++) {
            t->s[i].now += pause * SIM_MS;
            t->s[i].guest[1].window = step % 500 < 20 ? 9 : 0xffff;
            if (step % 700 == 699) {
                sim_policy(&t->s[i], 0, &changed);
            }
        }
    }
    ok(same, "%s: the same flows and packets, %u ACKs and %u segments", name,
       t->n_acks, t->n_data);
    if (!same) {
        printf("# in step %u of seed %"PRIu64"\n", step, t->seed);
    }
    if (params->small_windows) {
        ok(!t->n_acks && !t->n_data, "%s: all step by step", name);
    } else {
        ok(t->n_acks > STEPS / 20 && t->n_data > STEPS / 20,
           "%s: there were some", name);
    }
    ok(same_counters(t, 0) && same_counters(t, 1), "%s: the same counters",
       name);
    for (i = 0; i < 2; i++) {
        for (k = 0; k < N_DELAYED; k++) {
            packet_free_list(t->delayed[i][k]);
        }
        sim_done(&t->s[i]);
    }
}

int
main(void)
{
    struct twins t = { .seed = tap_seed() };
    struct acdc_params params = acdc_params_default;
    unsigned int marks;

    for (marks = 0; marks <= 40; marks += 8) {
        life(&t, &params, false, false, true, false, 0, marks, "IPv4");
    }
    life(&t, &params, true, false, true, false, 0, 8, "IPv6");
    life(&t, &params, false, false, true, true, 0, 8, "partial checksums");
    life(&t, &params, true, false, true, true, 0, 8, "the same, IPv6");
    life(&t, &params, false, true, true, false, 0, 8, "guests with ECN");
    life(&t, &params, false, false, false, false, 1, 8, "VLAN, no timestamps");
    params.max_window = 9000;
    life(&t, &params, false, false, true, false, 0, 8, "max_window");
    params.min_window = 4 * MSS;
    params.max_window = 0;
    life(&t, &params, false, false, true, false, 0, 30, "min_window");
    params.min_window = 0;
    params.small_windows = true;
    life(&t, &params, false, false, true, false, 0, 30, "small_windows");
    params.small_windows = false;
    params.spread_cuts = !params.spread_cuts;
    life(&t, &params, false, false, true, false, 0, 8, "spread_cuts");
    params.algorithm = ACDC_ALG_RENO;
    life(&t, &params, false, false, true, false, 0, 3, "reno");
    params.algorithm = ACDC_ALG_CUBIC;
    life(&t, &params, false, false, true, false, 0, 3, "cubic");
    return tap_end();
}
