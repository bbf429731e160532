/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Connections that one end's vSwitch forgets, for the tests of acdc-resume.c. */

#ifndef RESUME_H
#define RESUME_H 1

#include "sim.h"

/* What the guests got since the last look, and what was wrong with it. */
struct seen {
    unsigned int packets, ours, bad;
};

static inline void
look(struct seen *seen, struct packet *list)
{
    struct packet *p;

    for (p = list; p; p = p->next) {
        seen->packets++;
        seen->ours += packet_is_ours(p);
        seen->bad += !packet_csum_ok(p) || !packet_payload_ok(p);
    }
    packet_free_list(list);
}

/* Guest 'from' sends, marked in the network if 'ce'; the other one gets it. */
static inline void
send_spec(struct sim *s, int from, const struct tcp_spec *spec, bool ce,
          struct seen *seen)
{
    struct packet *list = sim_egress(s, from, packet_make(spec)), *p;

    for (p = list; p && ce; p = p->next) {
        packet_set_ecn(p, ACDC_ECN_CE);
    }
    look(seen, sim_ingress(s, !from, list));
    s->guest[from].snd_nxt += spec->payload;
    s->guest[!from].rcv_nxt = s->guest[from].snd_nxt;
}

/* One segment of data and its ACK. */
static inline void
exchange(struct sim *s, int from, uint32_t n, bool ce, struct seen *seen)
{
    struct tcp_spec spec = sim_spec(s, from, ACDC_TCP_ACK | ACDC_TCP_PSH, n);

    spec.gso = n > 1460;
    send_spec(s, from, &spec, ce, seen);
    spec = sim_spec(s, !from, ACDC_TCP_ACK, 0);
    send_spec(s, !from, &spec, false, seen);
    s->now += SIM_MS;
}

static inline struct acdc_flow_info
info(const struct sim *s, int side)
{
    struct acdc_flow_info fi;

    memset(&fi, 0, sizeof fi);
    if (sim_n_flows(s, side)) {
        sim_info(s, side, &fi);
    }
    return fi;
}

/* How the connection is. */
struct shape {
    bool v6, timestamps, ecn, partial;
    unsigned int vlans;
    int wscale[2];
    uint32_t segment;           /* Bytes that are sent at once. */
    int from;                   /* Who sends. */
};

static inline void
begin(struct sim *s, const struct shape *shape)
{
    struct seen seen = { 0 };
    int i;

    sim_init(s, NULL, NULL);
    s->v6 = shape->v6;
    s->vlans = shape->vlans;
    s->csum_partial = shape->partial;
    for (i = 0; i < 2; i++) {
        s->guest[i].wscale = shape->wscale[i];
        s->guest[i].timestamps = shape->timestamps;
        s->guest[i].ecn = shape->ecn;
        s->guest[i].window = 9000;
    }
    sim_connect(s);
    if (shape->ecn) {
        s->guest[0].ect = s->guest[1].ect = ACDC_ECN_ECT0;
    }
    for (i = 0; i < 20; i++) {
        exchange(s, shape->from, shape->segment, i % 4 == 3, &seen);
    }
}

static const struct shape usual = { .wscale = { 7, 7 }, .segment = 1000 };

/* What the side that was restarted gets from the other one, whose vSwitch is not there:
 * a PACK of a far end that knows the connection. */
static inline struct packet *
foreign(struct sim *s, uint32_t payload)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_ACK, payload);

    spec.reserved = ACDC_ECN_CE << ACDC_RES_ECN_SHIFT;
    spec.ecn = ACDC_ECN_ECT0;
    opt_feedback(&spec, ACDC_OPT_EXID, 0, 5000);
    return packet_make(&spec);
}

#endif /* resume.h */
