/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A guest that sends what it likes on one connection, with police=true, to an honest
 * peer behind an honest vSwitch, over a path that marks all packets or a fraction.
 * It gains nothing: no data reaches the peer beyond what a window that it was told
 * allows, and in all its round trips the peer gets at most twice what an honest
 * guest's does.
 *
 * A step is a round trip: what the guest sends in it was sent before it heard of any of
 * that.  The guest knows all that the peer has.
 *
 * Some peers close their half meanwhile, and take what comes.
 *
 * The tenant's pacing, tail probes, PLB and On-Ramp are on or off at random.
 *
 * Not here, as the threat model says that they are not stopped: new data in fragments or
 * behind malformed options, and a guest whose connection seems to be heard by another
 * port (acdc-unseen.c), as nothing that it sends for a second arrives.
 *
 * ACDC_TEST_SEQUENCES: how many, 5,000 by default. */

#include "escape.h"
#include "sim.h"
#include "tap.h"

enum {
    STEPS = 40, MSS = 200, SCALE = 2,
    SLACK = 20 * MSS,           /* Of a beginning. */
    N_MARKINGS = 3, N_REFERENCE = 32,
};

enum action {
    FILL, FILL_AGAIN, RELEASE, OVERSHOOT, JUMP, HIDE, HIDE_FAR, RESEND, KEEP_ALIVE, PROBE,
    OPTIMISTIC, STRAY, FRAGMENT, CLOSE, PAUSE, N_ACTIONS
};

static const char *const names[N_ACTIONS] = {
    "fill", "fill", "release", "overshoot", "jump", "hide", "hide-far", "resend",
    "keep-alive", "probe", "optimistic", "stray", "fragment", "close",
    "pause",
};

/* One of how many packets is marked. */
static const unsigned int markings[N_MARKINGS] = { 1, 2, 8 };

/* How a packet of the guest fares.  OLD: the peer drops it, and says so (PAWS, RFC 7323
 * section 5). */
enum fate { ARRIVES, CORRUPT, LOST, OLD, N_FATES };

struct search {
    struct sim s;
    uint64_t random, path_random;
    unsigned int marking;
    struct queue queue;
    uint64_t delay, arrives;    /* Of the path now; when the last packet does. */

    /* The guest. */
    unsigned int weight[N_ACTIONS], weights;
    bool hold;                  /* Leaves out what the peer expects. */
    bool small;                 /* Segments of any size. */
    uint8_t ecns;               /* A set of codepoints. */
    uint8_t scale;              /* As it was told. */
    uint32_t sent, edge;        /* How far it sent; what it was allowed. */

    /* The peer. */
    uint32_t rcv_nxt;
    struct blocks blocks;       /* And what it has behind a hole. */
    unsigned int unacked;
    unsigned int closes;        /* In this step its half. */
    uint64_t got;               /* Bytes, each once. */
    uint32_t beyond;            /* Most that came beyond 'edge'. */
    struct packet *acks, **tail;        /* On their way to the guest. */

    bool unheard;               /* By its own port. */
    uint64_t probes, pauses, moves;     /* What the engine did. */
    char log[STEPS * 4 * 16 + 16];
};

static uint32_t
draw(struct search *x, uint32_t n)
{
    return (uint32_t) (tap_random(&x->random) % n);
}

static void
note(struct search *x, const char *what, int number)
{
    size_t len = strlen(x->log);

    snprintf(x->log + len, sizeof x->log - len, number < 0 ? "%s " : "%s-%d ",
             what, number);
}

/* The peer. ---------------------------------------------------------------- */

/* An ACK of the peer leaves its vSwitch. */
static void
peer_acks(struct search *x)
{
    struct tcp_spec spec;
    uint32_t edges[6];
    unsigned int i, n = x->blocks.n < 3 ? x->blocks.n : 3;

    x->s.guest[1].rcv_nxt = x->rcv_nxt;
    spec = sim_spec(&x->s, 1, ACDC_TCP_ACK, 0);
    for (i = 0; i < n; i++) {
        edges[2 * i] = x->blocks.blocks[i].from;
        edges[2 * i + 1] = x->blocks.blocks[i].to;
    }
    if (n) {
        opt_nop(&spec, 2);
        opt_sack(&spec, n, edges);
    }
    *x->tail = sim_egress(&x->s, 1, packet_make(&spec));
    while (*x->tail) {
        x->tail = &(*x->tail)->next;
    }
    x->unacked = 0;
}

static void
peer_gets_data(struct search *x, uint32_t from, uint32_t to)
{
    if (seq_after(x->rcv_nxt, from)) {
        from = x->rcv_nxt;
    }
    if (!seq_after(to, from)
        || seq_after(to, x->rcv_nxt + (0xffff << SCALE))) {
        peer_acks(x);
        return;
    }
    if (seq_after(to, x->edge + x->beyond)) {
        x->beyond = to - x->edge;
    }
    x->got += blocks_add(&x->blocks, (struct block) { from, to });
    x->rcv_nxt = blocks_take(&x->blocks, x->rcv_nxt);
    if (x->blocks.n || from != x->rcv_nxt - (to - from) || ++x->unacked >= 2) {
        peer_acks(x);
    }
}

/* The guest gets these. */
static void
note_edge(struct search *x, const struct packet *p)
{
    for (; p; p = p->next) {
        struct acdc_pkt pkt;
        uint32_t edge;

        if (packet_parse(p, &pkt)) {
            edge = acdc_get32(acdc_pkt_tcp(&pkt) + 8)
                   + ((uint32_t) acdc_pkt_window(&pkt) << x->scale);
            if (seq_after(edge, x->edge)) {
                x->edge = edge;
            }
        }
    }
}

/* The peer closes its half. */
static void
peer_closes(struct search *x)
{
    struct tcp_spec spec = sim_spec(&x->s, 1, ACDC_TCP_FIN | ACDC_TCP_ACK, 0);
    struct packet *list;

    note(x, "(half)", -1);
    spec.ack = x->rcv_nxt;
    list = sim_cross(&x->s, 1, packet_make(&spec));
    note_edge(x, list);
    packet_free_list(list);
    x->s.guest[1].snd_nxt++;
    x->s.guest[0].rcv_nxt++;
}

/* A packet of the guest.  RFC 9293, 5961. */
static void
peer_gets(struct search *x, const struct packet *p)
{
    const struct sim_guest *g = &x->s.guest[1];
    struct acdc_pkt pkt;

    if (!packet_parse(p, &pkt) || !packet_csum_ok(p)) {
        return;
    }
    if (pkt.tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_RST)) {
        if ((pkt.tcp_flags & ACDC_TCP_SYN)
            || pkt.seq - x->rcv_nxt < 0xffff << SCALE) {
            peer_acks(x);
        }
        return;
    }
    if (!(pkt.tcp_flags & ACDC_TCP_ACK)) {
        return;
    }
    if (seq_after(acdc_get32(acdc_pkt_tcp(&pkt) + 8), g->snd_nxt)) {
        peer_acks(x);
    } else if (pkt.payload) {
        peer_gets_data(x, pkt.seq, pkt.seq + pkt.payload);
    } else if (seq_after(x->rcv_nxt, pkt.seq)) {
        peer_acks(x);
    }
}

/* The guest. --------------------------------------------------------------- */

/* A packet that leaves the guest's host crosses the path. */
static void
cross(struct search *x, struct packet *p, unsigned int fate)
{
    struct acdc_pkt pkt;
    struct packet *out;

    if (packet_parse(p, &pkt) && packet_ecn(p) != ACDC_ECN_NOT_ECT
        && !(tap_random(&x->path_random) % x->marking)) {
        packet_set_ecn(p, ACDC_ECN_CE);
    }
    out = sim_ingress(&x->s, 1, p);
    for (p = out; p; p = p->next) {
        if (fate == OLD) {
            peer_acks(x);
        } else {
            peer_gets(x, p);
        }
    }
    packet_free_list(out);
}

static bool
wait(struct search *x, struct packet *p, uint64_t due, unsigned int fate,
     enum waiting_why why)
{
    return queue_add(&x->queue, (struct waiting) { p, due, fate, why });
}

/* It leaves the host. */
static void
leave(struct search *x, struct packet *p, unsigned int fate)
{
    uint64_t due = x->s.now + x->delay;

    x->arrives = due > x->arrives ? due : x->arrives;
    if (fate == LOST) {
        packet_free(p);
    } else if (x->arrives == x->s.now || !wait(x, p, x->arrives, fate, UNDER_WAY)) {
        cross(x, p, fate);
    }
}

/* What the engine lets pass of the guest's. */
static void
pass_on(struct search *x, struct packet *p, enum fate fate)
{
    struct packet *kept = p->kept;

    p->kept = NULL;
    if (kept && !wait(x, kept, p->kept_until, ARRIVES, KEPT)) {
        acdc_tail_lost(x->s.port[0]);
        packet_free(kept);
    }
    if (!p->release || !wait(x, p, p->release, fate, HELD)) {
        leave(x, p, fate);
    }
}

/* What was to wait until now. */
static void
release(struct search *x)
{
    struct waiting w;

    while (queue_take(&x->queue, x->s.now, &w)) {
        if (w.why == KEPT) {
            host_clock_offset = x->s.clock[0];
            w.p = host_process(x->s.port[0], ACDC_TAIL, w.p, x->s.now);
        }
        if (w.p && w.why == KEPT && w.p->release) {
            wait(x, w.p, w.p->release, w.fate, KEPT);
        } else if (w.p) {
            (w.why == UNDER_WAY ? cross : leave)(x, w.p, w.fate);
        }
    }
}

/* The guest sends. */
static void
send(struct search *x, const struct tcp_spec *spec, enum fate fate, bool fragment)
{
    struct packet *list = packet_make(spec), *p;

    if (fragment && !spec->v6) {
        uint8_t *ip = packet_data(list) + ACDC_ETH_HLEN;

        acdc_put16(ip + 6, 0x2000);
        acdc_put16(ip + 10, (uint16_t) (acdc_get16(ip + 10) + 0x2000));
    }
    list = sim_egress(&x->s, 0, list);
    while (list) {
        p = list;
        list = p->next;
        p->next = NULL;
        pass_on(x, p, fate);
    }
}

static struct tcp_spec
segment(struct search *x, uint8_t flags, uint32_t seq, uint32_t n)
{
    struct tcp_spec spec;
    uint8_t ecn;

    do {
        ecn = (uint8_t) draw(x, 4);
    } while (!(x->ecns >> ecn & 1));
    x->s.guest[0].ect = ecn;
    x->s.guest[0].snd_nxt = seq;
    spec = sim_spec(&x->s, 0, flags, n);
    return spec;
}

static void
send_data(struct search *x, uint32_t seq, uint32_t n, enum fate fate)
{
    struct tcp_spec spec = segment(x, ACDC_TCP_ACK, seq, n);

    spec.bad_csum = fate == CORRUPT;
    send(x, &spec, fate, false);
    if (seq_after(seq + n, x->sent)) {
        x->sent = seq + n;
    }
}

static uint32_t
segment_size(struct search *x)
{
    return x->small && draw(x, 2) ? 1 + draw(x, MSS) : MSS;
}

/* Whether the peer has byte 'seq', and how far on from it. */
static uint32_t
has_to(const struct search *x, uint32_t seq)
{
    return seq_after(x->rcv_nxt, seq) ? x->rcv_nxt : blocks_reach(&x->blocks, seq);
}

/* All that the peer has not got, up to 'to', but what is held back. */
static void
fill(struct search *x, uint32_t to, enum fate fate)
{
    uint32_t seq = x->rcv_nxt + (x->hold ? MSS : 0), n = 0;

    while (seq_after(to, seq) && n++ < 400) {
        uint32_t next = has_to(x, seq), size;

        if (next != seq) {
            seq = next;
            continue;
        }
        size = segment_size(x);
        size = size < to - seq ? size : to - seq;
        send_data(x, seq, size, fate);
        seq += size;
    }
}

/* SYN, SYN-ACK, RST or FIN, which the peer does not get or only challenges. */
static void
stray(struct search *x)
{
    static const uint8_t flags[] = {
        ACDC_TCP_SYN, ACDC_TCP_SYN | ACDC_TCP_ACK, ACDC_TCP_RST,
        ACDC_TCP_RST | ACDC_TCP_ACK, ACDC_TCP_FIN | ACDC_TCP_ACK,
    };
    unsigned int what = draw(x, 5);
    enum fate fate = what == 4 ? CORRUPT + draw(x, 3) : draw(x, N_FATES);
    uint32_t seq = fate == ARRIVES ? x->rcv_nxt + 1 + draw(x, 4000)
                   : draw(x, 2) ? x->rcv_nxt : (uint32_t) tap_random(&x->random);
    struct tcp_spec spec = segment(x, flags[what], seq, 0);

    note(x, "(stray)", (int) (what * N_FATES + fate));
    if (flags[what] & ACDC_TCP_SYN) {
        spec.ecn = 0;
        opt_mss(&spec, MSS);
        opt_wscale(&spec, (uint8_t) draw(x, 15));
    }
    spec.bad_csum = fate == CORRUPT;
    send(x, &spec, fate, false);
}

static void
pass_time(struct search *x, uint64_t ms)
{
    for (; ms; ms -= ms < 1000 ? ms : 1000) {
        x->s.now += (ms < 1000 ? ms : 1000) * SIM_MS;
        release(x);
        acdc_sweep(x->s.acdc[0], x->s.now, 128);
        acdc_sweep(x->s.acdc[1], x->s.now, 128);
    }
}

static void
act_aside(struct search *x, enum action what)
{
    struct tcp_spec spec;
    unsigned int n;

    switch (what) {
    case KEEP_ALIVE:
        send_data(x, x->rcv_nxt - 1, draw(x, 2), ARRIVES);
        break;
    case OPTIMISTIC:
        spec = segment(x, ACDC_TCP_ACK, x->sent, draw(x, 2) ? MSS : 0);
        spec.ack += 1 + draw(x, 100000);
        send(x, &spec, draw(x, N_FATES), false);
        break;
    case STRAY:
        stray(x);
        break;
    case CLOSE:
        spec = segment(x, ACDC_TCP_ACK | ACDC_TCP_FIN, x->sent,
                       draw(x, 2) * draw(x, MSS));
        n = CORRUPT + draw(x, 3);
        spec.bad_csum = n == CORRUPT;
        send(x, &spec, (enum fate) n, false);
        send_data(x, x->sent, draw(x, 2) ? 1 : segment_size(x), ARRIVES);
        break;
    default:
        spec = segment(x, ACDC_TCP_ACK, x->rcv_nxt, MSS);
        send(x, &spec, ARRIVES, true);
        break;
    }
}

static void
act(struct search *x, enum action what)
{
    enum fate fate = draw(x, 3) ? LOST : draw(x, 2) ? CORRUPT : OLD;
    unsigned int i;

    note(x, names[what], -1);
    switch (what) {
    case FILL:
    case FILL_AGAIN:
        fill(x, x->edge, ARRIVES);
        break;
    case RELEASE:
        send_data(x, x->rcv_nxt, segment_size(x), ARRIVES);
        break;
    case OVERSHOOT:
        fill(x, x->edge + draw(x, 40 * MSS), ARRIVES);
        break;
    case JUMP:
        send_data(x, x->edge + draw(x, 0xffff << SCALE), segment_size(x), ARRIVES);
        break;
    case HIDE:
        fill(x, x->edge, fate);
        break;
    case HIDE_FAR:
        send_data(x, x->rcv_nxt + draw(x, 1 << 20), segment_size(x), fate);
        break;
    case RESEND:
        for (i = draw(x, 8); i < 8; i++) {
            send_data(x, x->sent - draw(x, 10 * MSS) - 1, segment_size(x),
                      draw(x, 4) ? ARRIVES : fate);
        }
        break;
    case PROBE:
        send_data(x, x->edge, 1, ARRIVES);
        break;
    case PAUSE:
        break;
    default:
        act_aside(x, what);
        break;
    }
}

/* The ACKs reach the guest. */
static void
hear(struct search *x)
{
    struct packet *list;

    if (x->unacked) {
        peer_acks(x);
    }
    list = sim_ingress(&x->s, 0, x->acks);
    x->acks = NULL;
    x->tail = &x->acks;
    note_edge(x, list);
    packet_free_list(list);
}

static void
half_a_round_trip(struct search *x)
{
    static const uint16_t delays_us[] = { 0, 0, 0, 20, 100, 300 };
    unsigned int i;

    x->delay = delays_us[tap_random(&x->path_random) % 6] * UINT64_C(1000);
    for (i = 0; i < 8; i++) {
        x->s.now += SIM_MS / 16;
        release(x);
    }
}

/* A round trip, and perhaps a pause. */
static void
step(struct search *x)
{
    static const uint16_t pauses[] = { 5, 250, 700, 1500, 4000, 12000, 60000 };
    unsigned int i = 0, n = 1 + draw(x, 3);

    while (n-- && i != PAUSE) {
        unsigned int at = draw(x, x->weights);

        for (i = 0; at >= x->weight[i]; i++) {
            at -= x->weight[i];
        }
        act(x, (enum action) i);
    }
    half_a_round_trip(x);
    hear(x);
    half_a_round_trip(x);
    if (i == PAUSE) {
        pass_time(x, pauses[draw(x, 7)]);
    }
}

/* Begins a connection of 'x' by chance 'random', and the path's by 'path'. */
static void
begin(struct search *x, uint64_t random, uint64_t path, unsigned int marking)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_pkt pkt;
    unsigned int i;

    memset(x, 0, sizeof *x);
    x->random = random;
    x->path_random = path;
    x->marking = marking;
    params.police = true;
    params.pace = random >> 1 & 1;
    params.tail_probe = random >> 2 & 1 ? 200 + 300 * (random >> 5 & 7) : 0;
    params.on_ramp = random >> 3 & 1 ? 1 + 40 * (random >> 8 & 7) : 0;
    params.plb = random >> 4 & 1;
    sim_init(&x->s, &params, &params);
    acdc_set_host(x->s.acdc[0], ACDC_HOST_HOLDS | ACDC_HOST_KEEPS);
    x->s.clock[1] = (random >> 11 & 15) * 12345678;
    x->s.v6 = random & 1;
    for (i = 0; i < 2; i++) {
        struct acdc_config config;

        x->s.guest[i].mss = MSS;
        x->s.guest[i].wscale = SCALE;
        acdc_config_get(x->s.acdc[i], &config);
        config.idle_timeout = ACDC_IDLE_TIMEOUT_DEFAULT;
        acdc_config_set(x->s.acdc[i], &config);
    }
    sim_connect(&x->s);
    packet_parse(x->s.seen[1], &pkt);
    x->scale = pkt.opt_flags & ACDC_O_WSCALE ? pkt.wscale : 0;
    x->rcv_nxt = x->sent = x->s.guest[0].snd_nxt;
    x->edge = x->rcv_nxt + packet_window(x->s.seen[1]);
    x->tail = &x->acks;
}

static void
end(struct search *x)
{
    packet_free_list(x->acks);
    queue_clear(&x->queue);
    sim_done(&x->s);
}

/* Bytes that an honest guest's peer gets, the mean of some. */
static uint64_t
reference(unsigned int marking)
{
    static struct search x;
    uint64_t got = 0;
    unsigned int i, j;

    for (i = 0; i < N_REFERENCE; i++) {
        begin(&x, i, i, marking);
        x.ecns = 1;
        for (j = 0; j < STEPS; j++) {
            fill(&x, x.edge, ARRIVES);
            half_a_round_trip(&x);
            hear(&x);
            half_a_round_trip(&x);
        }
        got += x.got;
        end(&x);
    }
    return got / N_REFERENCE;
}

/* What the engine has counted. */
static void
show(const struct search *x)
{
    struct acdc_tenant_stats stats;
    unsigned int i;

    acdc_tenant_stats_get(x->s.acdc[0], SIM_TENANT, &stats);
    for (i = 0; i < ACDC_N_COUNTERS; i++) {
        if (stats.counters[i]) {
            printf("#  %s %"PRIu64"\n", acdc_counter_names[i], stats.counters[i]);
        }
    }
}

/* The sequence that 'random' is, on a path whose chance is 'path'. */
static void
run(struct search *x, uint64_t random, uint64_t path, unsigned int marking)
{
    unsigned int i;

    begin(x, random, path, marking);
    for (i = 0; i < N_ACTIONS; i++) {
        x->weight[i] = draw(x, 2) ? 1 + draw(x, 8) : 0;
        x->weights += x->weight[i];
    }
    x->weight[FILL]++;
    x->weights++;
    x->closes = draw(x, 2) ? draw(x, STEPS) : STEPS;
    x->hold = draw(x, 3) == 0;
    x->small = draw(x, 3) == 0;
    x->ecns = draw(x, 2) ? 1 : (uint8_t) (1 + draw(x, 15));
    for (i = 0; i < STEPS; i++) {
        if (i == x->closes) {
            peer_closes(x);
        }
        step(x);
    }
    x->unheard = sim_counter(&x->s, 0, ACDC_C_UNHEARD);
    x->probes = sim_counter(&x->s, 0, ACDC_C_TAIL_PROBES);
    x->pauses = sim_counter(&x->s, 0, ACDC_C_ON_RAMP_PAUSES);
    x->moves = sim_counter(&x->s, 0, ACDC_C_REPATHS);
}

/* Whether the guest gains nothing.  Of one path of many it may have been luck. */
static bool
try(struct search *x, uint64_t random, unsigned int marking, uint64_t honest)
{
    uint64_t limit = 2 * honest + SLACK, got = 0;
    unsigned int i;
    bool good;

    run(x, random, random ^ 0x5eed5eed, marking);
    good = x->unheard || (x->beyond <= MSS && x->got <= limit);
    for (i = 0; !good && x->beyond <= MSS && i < N_REFERENCE; i++) {
        end(x);
        run(x, random, i, marking);
        got += x->got;
        good = i == N_REFERENCE - 1 && got / N_REFERENCE <= limit;
    }
    if (!good) {
        printf("# %#x: %u beyond, %"PRIu64" bytes, honest %"PRIu64", 1 in %u marked%s: "
               "%s\n", (unsigned int) (random & 0xffff), x->beyond, x->got, honest, marking,
               x->hold ? ", held back" : "", x->log);
        show(x);
    }
    end(x);
    return good;
}

int
main(void)
{
    const char *sequences = getenv("ACDC_TEST_SEQUENCES");
    unsigned long i, n = sequences ? strtoul(sequences, NULL, 10) : 5000;
    uint64_t honest[N_MARKINGS], seed = tap_seed();
    unsigned long escapes = 0, unheard = 0;
    uint64_t probes = 0, pauses = 0, moves = 0;
    static struct search x;

    for (i = 0; i < N_MARKINGS; i++) {
        honest[i] = reference(markings[i]);
        ok(honest[i] >= STEPS * 2u * MSS, "an honest guest sends %"PRIu64" bytes, "
           "1 packet in %u marked", honest[i], markings[i]);
    }
    for (i = 0; i < n && escapes < 5; i++) {
        escapes += !try(&x, (seed + i) * 2654435761u, markings[i % N_MARKINGS],
                        honest[i % N_MARKINGS]);
        unheard += x.unheard;
        probes += x.probes;
        pauses += x.pauses;
        moves += x.moves;
    }
    is_u64(escapes, 0, "escapes in %lu sequences", i - unheard);
    ok(unheard < i / 25, "besides %lu unheard", unheard);
    ok(probes > i / 10 && pauses > i / 10 && moves > i / 10,
       "with %"PRIu64" tail probes, %"PRIu64" pauses, %"PRIu64" changes of path",
       probes, pauses, moves);
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
