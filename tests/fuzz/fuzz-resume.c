/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Two pairs of vSwitches with the same guests, the same network and the same time.  Those
 * of one pair forget the connection when the input says so, those of the other never
 * do: what a guest gets is the same but for windows, and once both ends know the connection
 * again so is what the engine has of it. */

#include "program.h"
#include "sim.h"

enum { FORGETS, KNOWS, N_PAIRS };
static struct sim pairs[N_PAIRS];
static bool gone;               /* Both ends had forgotten at the same time. */
static uint32_t edge[N_PAIRS][2];       /* How far each guest was ever allowed to send. */
static uint8_t told[2];         /* Its peer's window scale, as it was told. */

/* What a guest gets of one packet of the other, and whether it is ECT or CE to it. */
struct got {
    uint32_t bytes, end;
    unsigned int ecn;
};

/* What guest 'to' learns of its peer's window. */
static void
may_send(const struct sim *s, int to, const struct acdc_pkt *pkt)
{
    uint32_t to_edge = pkt->ack + ((uint32_t) acdc_pkt_window(pkt) << told[to]);
    uint32_t *own = &edge[s - pairs][to];

    *own = seq_after(to_edge, *own) ? to_edge : *own;
}

static uint32_t
room(int from)
{
    uint32_t most = UINT32_MAX;
    int i;

    for (i = 0; i < N_PAIRS; i++) {
        uint32_t next = pairs[i].guest[from].snd_nxt;
        uint32_t n = seq_after(edge[i][from], next) ? edge[i][from] - next : 0;

        most = n < most ? n : most;
    }
    return most;
}

/* One packet of guest 'from', with what the vSwitch sends before it; 'how' & 1: marked, & 2:
 * lost. */
static struct got
cross(struct sim *s, int from, const struct tcp_spec *spec, unsigned int how)
{
    struct packet *list = sim_egress(s, from, packet_make(spec)), *p;
    struct got got = { 0, 0, 0 };

    CHECK(packet_count(list) >= 1 && packet_count(list) <= 2);
    for (p = list; p; p = p->next) {
        CHECK(packet_csum_ok(p));
        if (how & 1 && packet_ecn(p)) {
            packet_set_ecn(p, ACDC_ECN_CE);
        }
    }
    if (how & 2) {
        packet_free_list(list);
        return got;
    }
    list = sim_ingress(s, !from, list);
    for (p = list; p; p = p->next) {
        struct acdc_pkt pkt;

        CHECK(packet_parse(p, &pkt) && packet_csum_ok(p) && packet_payload_ok(p)
              && !packet_is_ours(p));
        /* Neither scale nor window is ever taken for more than it is. */
        CHECK(acdc_pkt_window(&pkt) <= spec->window);
        CHECK(acdc_pkt_window(&pkt) || !spec->window);
        may_send(s, !from, &pkt);
        if (pkt.payload) {
            got.bytes += pkt.payload;
            got.end = pkt.seq + pkt.payload;
            got.ecn = acdc_pkt_ecn(&pkt);
        }
    }
    packet_free_list(list);
    return got;
}

/* An end has asked as often, and has no answer. */
static bool
asks(uint8_t times)
{
    int side;

    for (side = 0; side < 2; side++) {
        const struct acdc_flow *f = sim_flow(&pairs[FORGETS], side);

        if (f && acdc_flow_is_lost(f) && f->bad_feedback >= times) {
            return true;
        }
    }
    return false;
}

/* An end has forgotten for good. */
static bool
is_unknown(void)
{
    int side;

    for (side = 0; side < 2; side++) {
        const struct acdc_flow *f = sim_flow(&pairs[FORGETS], side);

        if (f && f->state == ACDC_FLOW_UNKNOWN) {
            return true;
        }
    }
    return false;
}

static void
send(int from, uint32_t payload, unsigned int how)
{
    const struct acdc_flow *f = sim_flow(&pairs[FORGETS], from);
    /* One that has fallen back leaves marks to the guest. */
    bool hides = f && !acdc_flow_is_lost(f) && (f->flags & ACDC_F_CAPABLE);
    struct got got[N_PAIRS];
    int i;

    payload = payload < room(from) ? payload : room(from);
    for (i = 0; i < N_PAIRS; i++) {
        struct sim *s = &pairs[i];
        struct tcp_spec spec = sim_spec(s, from, ACDC_TCP_ACK, payload);

        spec.gso = payload > 1448;
        if (how & 4 && !spec.opts_len) {
            /* What came twice (RFC 2883). */
            uint32_t edges[6] = { spec.ack - 60, spec.ack - 50, spec.ack - 40,
                                  spec.ack - 30, spec.ack - 20, spec.ack - 10 };

            opt_nop(&spec, 2);
            opt_sack(&spec, 3, edges);
        }
        got[i] = cross(s, from, &spec, how);
        if (!(how & 2)) {
            s->guest[from].snd_nxt += payload;
            s->guest[!from].rcv_nxt = s->guest[from].snd_nxt;
        }
    }
    CHECK(got[FORGETS].bytes == got[KNOWS].bytes && got[FORGETS].end == got[KNOWS].end);
    if (!(how & 2)) {
        CHECK(got[KNOWS].bytes == payload);
    }
    /* A mark of what nobody noted the codepoint of is the guests' own. */
    CHECK(gone || is_unknown() || (how & 1 && !hides) || got[FORGETS].ecn == got[KNOWS].ecn);
}

static void
pass_time(uint64_t ms)
{
    pairs[FORGETS].now += ms * SIM_MS;
    pairs[KNOWS].now += ms * SIM_MS;
}

static void
operate(void)
{
    struct sim *s = &pairs[FORGETS];
    uint8_t op = byte();
    int side = op >> 7;

    switch (op & 7) {
    case 0: case 1: case 2:
        send(side, 1 + byte() * 12u, op >> 3 & 7);
        break;
    case 3: case 4:
        send(side, 0, op >> 3 & 7);
        break;
    case 5:
        pass_time(byte() % 64u);
        break;
    case 6:
        acdc_flush(s->acdc[side], NULL, NULL);
        host_quiesce();
        break;
    default:
        while (!acdc_sweep(s->acdc[side], s->now, 1000)) {
            continue;
        }
        break;
    }
    gone = gone || (sim_n_flows(s, 0) + sim_n_flows(s, 1) == 0)
           || (sim_flow(s, 0) && acdc_flow_is_lost(sim_flow(s, 0)) && !sim_flow(s, 1))
           || (sim_flow(s, 1) && acdc_flow_is_lost(sim_flow(s, 1)) && !sim_flow(s, 0))
           || (sim_flow(s, 0) && acdc_flow_is_lost(sim_flow(s, 0))
               && sim_flow(s, 1) && acdc_flow_is_lost(sim_flow(s, 1)))
           || is_unknown();
}

/* The guests have connected: what they know of windows, and have of each other. */
static void
begin(void)
{
    int i, side;

    for (side = 0; side < 2; side++) {
        struct acdc_pkt syn;

        CHECK(packet_parse(pairs[KNOWS].seen[!side], &syn));
        told[side] = (syn.opt_flags & ACDC_O_WSCALE) && pairs[KNOWS].guest[side].wscale >= 0
                     ? syn.wscale : 0;
        for (i = 0; i < N_PAIRS; i++) {
            edge[i][side] = pairs[i].guest[side].snd_nxt;
        }
    }
    send(0, 0, 0);
    send(1, 0, 0);
}

/* Both know it, and count the same from here on. */
static void
compare(void)
{
    struct acdc_flow_info before[N_PAIRS][2], after[N_PAIRS][2];
    bool asked = asks(ACDC_QUESTIONS);
    int i, side;

    /* One that has fallen back shows itself once a second, and counts again from the
     * packet on that comes after the answer. */
    for (i = 0; i < 8; i++) {
        send(i & 1, 1000, 0);
        send(!(i & 1), 0, 0);
        pass_time(500);
    }
    if (asked && asks(0)) {
        return;                 /* Of the last question, too, nothing came. */
    }
    for (i = 0; i < N_PAIRS; i++) {
        sim_info(&pairs[i], 0, &before[i][0]);
        sim_info(&pairs[i], 1, &before[i][1]);
    }
    for (i = 0; i < 4; i++) {
        send(i & 1, 1200, i & 2 ? 1 : 0);
        send(!(i & 1), 0, 0);
    }
    for (side = 0; side < 2; side++) {
        const struct acdc_flow_info *a = &after[FORGETS][side], *b = &after[KNOWS][side];
        const struct acdc_flow_info *was = before[FORGETS];

        sim_info(&pairs[FORGETS], side, &after[FORGETS][side]);
        sim_info(&pairs[KNOWS], side, &after[KNOWS][side]);
        CHECK(a->capable && b->capable && a->state == ACDC_FLOW_ESTABLISHED);
        CHECK(a->wscale_local == b->wscale_local && a->wscale_remote == b->wscale_remote);
        CHECK(a->mss == b->mss && a->sack == b->sack && a->guest_ecn == b->guest_ecn);
        CHECK(a->algorithm == b->algorithm && a->rescaled == b->rescaled);
        CHECK(a->snd_una == b->snd_una && a->snd_nxt == b->snd_nxt);
        CHECK(a->fb_total - was[side].fb_total
              == b->fb_total - before[KNOWS][side].fb_total);
        CHECK(a->fb_ce - was[side].fb_ce == b->fb_ce - before[KNOWS][side].fb_ce);
        CHECK(a->rx_total - was[side].rx_total
              == b->rx_total - before[KNOWS][side].rx_total);
    }
    for (side = 0; side < 2; side++) {
        struct acdc_tenant_stats stats;

        CHECK(!acdc_tenant_stats_get(pairs[FORGETS].acdc[side], SIM_TENANT, &stats));
        CHECK(!stats.counters[ACDC_C_POLICED_PACKETS] && !stats.counters[ACDC_C_ACK_OPTIMISTIC]);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct acdc_params params = acdc_params_default;
    uint8_t shape, scales;
    int i, side;

    input = data;
    left = size;
    gone = false;
    sim_max_flows = 8;
    shape = byte();
    scales = byte();
    params.police = shape & 1;
    for (i = 0; i < N_PAIRS; i++) {
        struct sim *s = &pairs[i];

        sim_init(s, &params, &params);
        s->v6 = shape & 2;
        s->vlans = shape >> 2 & 1;
        for (side = 0; side < 2; side++) {
            struct sim_guest *g = &s->guest[side];

            g->wscale = (side ? scales >> 4 : scales & 15) % 15;
            g->wscale = shape & 8 && !side ? -1 : g->wscale;
            g->timestamps = shape & 16;
            g->ecn = shape & 32;
            g->no_sack = shape & 64;
            g->window = 0xffff;
        }
        sim_connect(s);
        s->guest[0].ect = s->guest[1].ect = shape & 32 ? ACDC_ECN_ECT0 : 0;
    }
    begin();
    while (left) {
        operate();
    }
    if (!gone) {
        compare();
    }
    sim_done(&pairs[0]);
    sim_done(&pairs[1]);
    return 0;
}
