/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

static void
check(bool ok, const char *what)
{
    if (!ok) {
        printf("Bail out! %s\n", what);
        abort();
    }
}

uint32_t sim_max_flows = 1000;

void
sim_policy(struct sim *s, int side, const struct acdc_params *params)
{
    struct acdc_tenant_config tc = {
        .name = SIM_TENANT,
        .params = params ? *params : acdc_params_default,
    };

    check(!acdc_tenant_set(s->acdc[side], &tc), "acdc_tenant_set");
}

void
sim_init(struct sim *s, const struct acdc_params *p0,
         const struct acdc_params *p1)
{
    const struct acdc_config config = {
        .max_flows = sim_max_flows, .idle_timeout = 100, .exid = ACDC_OPT_EXID,
    };
    int i;

    memset(s, 0, sizeof *s);
    /* Neither zero nor far from where 32 bits of milliseconds wrap. */
    s->now = (UINT64_C(0xffffffff) - 200) * SIM_MS;
    for (i = 0; i < 2; i++) {
        struct sim_guest *g = &s->guest[i];

        memcpy(g->addr, i ? "\x0a\0\0\2\0\0\0\0\0\0\0\0\0\0\0\2"
                          : "\x0a\0\0\1\0\0\0\0\0\0\0\0\0\0\0\1", 16);
        g->port = i ? 5001 : 40000;
        g->snd_nxt = i ? 0xfffffff0 : 0x7ffffff0;
        g->window = 0xffff;
        g->syn_window = 0xffff;
        g->mss = 1460;
        g->wscale = 7;
        s->acdc[i] = acdc_create(&config);
        check(s->acdc[i] != NULL, "acdc_create");
        sim_policy(s, i, i ? p1 : p0);
        s->port[i] = acdc_port_bind(s->acdc[i], SIM_PORT_NO, "vnet7",
                                    SIM_TENANT, SIM_MTU);
        check(s->port[i] != NULL, "acdc_port_bind");
    }
}

void
sim_remove_acdc(struct sim *s, int side)
{
    acdc_destroy(s->acdc[side]);
    s->acdc[side] = NULL;
    s->port[side] = NULL;
}

void
sim_done(struct sim *s)
{
    int i;

    for (i = 0; i < 3; i++) {
        packet_free(s->wire[i]);
        packet_free(s->seen[i]);
    }
    acdc_destroy(s->acdc[0]);
    acdc_destroy(s->acdc[1]);
    host_quiesce();
}

struct tcp_spec
sim_spec(const struct sim *s, int side, uint8_t flags, uint32_t payload)
{
    const struct sim_guest *g = &s->guest[side];
    const struct sim_guest *peer = &s->guest[!side];
    struct tcp_spec spec = {
        .v6 = s->v6, .vlans = s->vlans, .csum_partial = s->csum_partial,
        .headroom = s->headroom,
        .sport = g->port, .dport = peer->port,
        .seq = g->snd_nxt, .ack = flags & ACDC_TCP_ACK ? g->rcv_nxt : 0,
        .flags = flags,
        .window = flags & ACDC_TCP_SYN ? g->syn_window : g->window,
        .ecn = flags & ACDC_TCP_SYN ? ACDC_ECN_NOT_ECT : g->ect,
        .payload = payload,
    };

    memcpy(spec.src, g->addr, 16);
    memcpy(spec.dst, peer->addr, 16);
    if (g->timestamps && !(flags & ACDC_TCP_SYN)) {
        opt_nop(&spec, 2);
        opt_timestamp(&spec, (uint32_t) (s->now / SIM_MS), 1);
    }
    return spec;
}

/* RFC 1624, of a byte that is the lower one of its word. */
static void
clear_flags(struct packet *p, uint8_t flags)
{
    struct acdc_pkt pkt;
    uint8_t *tcp, *flag;
    uint32_t sum;

    if (!packet_parse(p, &pkt) || !(pkt.opt_flags & ACDC_O_CAPABILITY)) {
        return;
    }
    tcp = acdc_pkt_tcp(&pkt);
    flag = tcp + pkt.cap_ofs + ACDC_OPT_BODY_OFS + 1;
    check(!(pkt.cap_ofs & 1), "the capability is where options begin");
    sum = (uint16_t) ~acdc_get16(tcp + 16) + 0xffffu - *flag + (*flag & ~(unsigned int) flags);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    acdc_put16(tcp + 16, (uint16_t) ~sum);
    *flag &= (uint8_t) ~flags;
}

struct packet *
sim_egress(struct sim *s, int side, struct packet *p)
{
    host_clock_offset = s->clock[side];
    if (s->port[side]) {
        p = host_process(s->port[side], ACDC_EGRESS, p, s->now);
    }
    if (s->no_flags) {
        struct packet *one;

        for (one = p; one; one = one->next) {
            clear_flags(one, s->no_flags);
        }
    }
    return p;
}

uint64_t
sim_leave(struct sim *s, int side, const struct tcp_spec *spec)
{
    struct packet *p = sim_egress(s, side, packet_make(spec));
    uint64_t n = packet_count(p);

    packet_free_list(p);
    return n;
}

struct packet *
sim_ingress(struct sim *s, int side, struct packet *p)
{
    host_clock_offset = s->clock[side];
    return s->port[side] ? host_process(s->port[side], ACDC_INGRESS, p,
                                        s->now)
                         : p;
}

struct packet *
sim_cross(struct sim *s, int from, struct packet *p)
{
    return sim_ingress(s, !from, sim_egress(s, from, p));
}

struct packet *
sim_send(struct sim *s, int from, const struct tcp_spec *spec)
{
    return sim_cross(s, from, packet_make(spec));
}

static void
syn_options(const struct sim *s, int side, struct tcp_spec *spec)
{
    const struct sim_guest *g = &s->guest[side];

    if (g->mss) {
        opt_mss(spec, g->mss);
    }
    if (!g->no_sack) {
        opt_sack_ok(spec);
    }
    if (g->timestamps) {
        opt_timestamp(spec, 1, 0);
    }
    if (g->wscale >= 0) {
        opt_nop(spec, 1);
        opt_wscale(spec, (uint8_t) g->wscale);
    }
}

/* One packet of the handshake crosses. */
static void
handshake_packet(struct sim *s, int from, const struct tcp_spec *spec, int i)
{
    struct packet *p = sim_egress(s, from, packet_make(spec));

    check(packet_count(p) == 1, "handshake packet lost at egress");
    packet_free(s->wire[i]);
    packet_free(s->seen[i]);
    s->wire[i] = packet_clone(p);
    s->seen[i] = sim_ingress(s, !from, p);
    check(packet_count(s->seen[i]) == 1, "handshake packet lost at ingress");
}

void
sim_syn(struct sim *s)
{
    struct tcp_spec spec = sim_spec(s, 0, ACDC_TCP_SYN, 0);

    if (s->guest[0].ecn) {
        spec.flags |= ACDC_TCP_ECE | ACDC_TCP_CWR;
    }
    syn_options(s, 0, &spec);
    handshake_packet(s, 0, &spec, 0);
    s->guest[1].rcv_nxt = spec.seq + 1;
}

void
sim_synack(struct sim *s)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);

    if (s->guest[0].ecn && s->guest[1].ecn) {
        spec.flags |= ACDC_TCP_ECE;
    }
    syn_options(s, 1, &spec);
    handshake_packet(s, 1, &spec, 1);
    s->guest[0].rcv_nxt = spec.seq + 1;
}

void
sim_connect(struct sim *s)
{
    struct tcp_spec spec;

    sim_syn(s);
    sim_synack(s);
    s->guest[0].snd_nxt++;
    s->guest[1].snd_nxt++;
    s->now += SIM_MS;
    spec = sim_spec(s, 0, ACDC_TCP_ACK, 0);
    handshake_packet(s, 0, &spec, 2);
}

void
sim_data(struct sim *s, int from, uint32_t n, bool ce)
{
    struct tcp_spec spec = sim_spec(s, from, ACDC_TCP_ACK, n);
    struct packet *list = sim_egress(s, from, packet_make(&spec));
    struct packet *p;

    for (p = list; p && ce; p = p->next) {
        packet_set_ecn(p, ACDC_ECN_CE);
    }
    packet_free_list(sim_ingress(s, !from, list));
    s->guest[from].snd_nxt += n;
    s->guest[!from].rcv_nxt = s->guest[from].snd_nxt;
}

struct packet *
sim_ack(struct sim *s, int from)
{
    struct tcp_spec spec = sim_spec(s, from, ACDC_TCP_ACK, 0);

    return sim_send(s, from, &spec);
}

uint16_t
sim_ack_window(struct sim *s, int from)
{
    struct packet *p = sim_ack(s, from);
    uint16_t window;

    check(packet_count(p) == 1, "an ACK was lost");
    window = packet_window(p);
    packet_free(p);
    return window;
}

void
sim_info(const struct sim *s, int side, struct acdc_flow_info *fi)
{
    uint64_t cursor = 0;

    check(acdc_dump(s->acdc[side], &cursor, s->now, fi, 1) == 1, "no flow");
}

unsigned int
sim_n_flows(const struct sim *s, int side)
{
    struct acdc_stats stats;

    acdc_stats_get(s->acdc[side], &stats);
    return stats.n_flows;
}

struct acdc_flow *
sim_flow(const struct sim *s, int side)
{
    const struct acdc_table *t = s->acdc[side]->table;
    uint32_t i;

    for (i = 0; i <= t->mask; i++) {
        if (t->buckets[i]) {
            return acdc_link_load(&t->buckets[i]);
        }
    }
    return NULL;
}

uint64_t
sim_counter(const struct sim *s, int side, enum acdc_counter counter)
{
    struct acdc_tenant_stats stats;

    check(!acdc_tenant_stats_get(s->acdc[side], SIM_TENANT, &stats),
          "acdc_tenant_stats_get");
    return stats.counters[counter];
}

struct acdc_flow_info
sim_info_of(const struct sim *s, int side)
{
    struct acdc_flow_info fi;

    sim_info(s, side, &fi);
    return fi;
}

unsigned int
sim_lose_reports(struct sim *s)
{
    unsigned int i;

    sim_remove_acdc(s, 1);
    for (i = 0; i < 1000 && sim_info_of(s, 0).capable; i++) {
        sim_data(s, 0, 1448, false);
        packet_free_list(sim_ack(s, 1));
        s->now += SIM_MS;
    }
    return i;
}

unsigned int
sim_round_trip(struct sim *s, unsigned int mark_every)
{
    uint32_t window = sim_info_of(s, 0).window;
    unsigned int n;

    for (n = 0; (n + 1) * 1448 <= window; n++) {
        sim_data(s, 0, 1448, mark_every && n % mark_every == 0);
    }
    s->now += SIM_MS;
    packet_free(sim_ack(s, 1));
    return n;
}

void
sim_connect_as(struct sim *s, const struct acdc_params *params)
{
    sim_init(s, params, params);
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    sim_connect(s);
}

void
sim_forget(struct sim *s, int side)
{
    acdc_flush(s->acdc[side], NULL, NULL);
    host_quiesce();
}

struct packet *
sim_on_wire(struct sim *s, int side, uint32_t n)
{
    uint8_t flags = n ? ACDC_TCP_ACK | ACDC_TCP_PSH : ACDC_TCP_ACK;
    struct tcp_spec spec = sim_spec(s, side, flags, n);

    s->guest[side].snd_nxt += n;
    return sim_egress(s, side, packet_make(&spec));
}

void
sim_lose_data(struct sim *s, uint32_t n)
{
    packet_free_list(sim_on_wire(s, 0, n));
}
