/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Batches that are processed flow by flow, as where another thread has the other
 * direction: the effect is that of packet by packet.  Two engines get the same
 * batches of few connections; in one of them each batch is grouped.  Packets,
 * flows and counters are the same. */

#include <pthread.h>

#include "acdc-group.h"
#include "host.h"
#include "tap.h"

enum { N_ENGINES = 2, MAX_CONNECTIONS = 256, MSS = 1448, STEPS = 4000 };

struct connection {
    uint32_t sent, acked, received;     /* Bytes. */
};

struct test {
    struct acdc *acdc[N_ENGINES];
    struct acdc_port *port[N_ENGINES];
    struct connection c[MAX_CONNECTIONS];
    unsigned int n_connections;
    uint64_t now, seed;
};

static struct tcp_spec
spec(unsigned int i, enum acdc_dir dir, uint8_t flags)
{
    bool egress = dir == ACDC_EGRESS;
    struct tcp_spec s = { .v6 = !(i & 1), .flags = flags, .window = 0xffff };

    s.src[0] = s.dst[0] = 10;
    s.src[3] = egress ? 1 : 2;
    s.dst[3] = egress ? 2 : 1;
    s.sport = (uint16_t) (egress ? 1000 + i : 80);
    s.dport = (uint16_t) (egress ? 80 : 1000 + i);
    return s;
}

static void
add(struct packet **list, const struct tcp_spec *s)
{
    while (*list) {
        list = &(*list)->next;
    }
    *list = packet_make(s);
}

/* Data, ACKs, and what the engine does not expect, of any connection. */
static void
add_some(struct test *t, enum acdc_dir dir, struct packet **list)
{
    uint32_t r = (uint32_t) tap_random(&t->seed);
    unsigned int i = (unsigned int) tap_random(&t->seed) % t->n_connections;
    struct connection *c = &t->c[i];
    struct tcp_spec s = spec(i, dir, ACDC_TCP_ACK);

    s.payload = r & 1 ? MSS : 0;
    s.ecn = (r >> 1) & 3;
    if (dir == ACDC_EGRESS) {
        s.seq = 1001 + c->sent;
        s.ack = 5001 + c->received;
        if (s.payload && !(r >> 3 & 15)) {
            s.seq -= MSS;                       /* Again. */
        } else if (s.payload && c->sent - c->acked < 20 * MSS) {
            c->sent += MSS;
        } else {
            s.payload = 0;
        }
    } else {
        if (r >> 3 & 7) {
            c->acked += (c->sent - c->acked) / MSS / (1 + (r >> 6 & 1)) * MSS;
        }
        s.seq = 5001 + c->received;
        s.ack = 1001 + c->acked;
        c->received += s.payload;
        opt_feedback(&s, ACDC_OPT_EXID, c->acked / 16, c->acked);
        s.reserved = (uint8_t) (r >> 12 & 3 ? 1 << ACDC_RES_ECN_SHIFT
                                            : r >> 14 & ACDC_RES_MASK);
    }
    if (!(r >> 16 & 0x3fff)) {
        s.flags |= r >> 30 & 1 ? ACDC_TCP_FIN : ACDC_TCP_RST;
    }
    add(list, &s);
}

/* A batch through each engine; the second one is told that another thread has
 * such packets.  Frees it.  Whether the same came out. */
static bool
process(struct test *t, enum acdc_dir dir, struct packet *list)
{
    struct packet *out[N_ENGINES];
    struct packet *a, *b;
    bool same;
    int i;

    t->now += 100000;
    for (i = 0; i < N_ENGINES; i++) {
        struct acdc_slot_stats *slot
            = &t->port[i]->tenant->slots[acdc_slot()];
        struct packet *copy = NULL, **tail = &copy;

        for (a = list; a; a = a->next) {
            *tail = packet_clone(a);
            tail = &(*tail)->next;
        }
        acdc_a32_set(&slot->grouping, (uint32_t) i);
        out[i] = host_process(t->port[i], dir, copy, t->now);
    }
    same = packet_count(out[0]) == packet_count(out[1]);
    for (a = out[0], b = out[1]; same && a; a = a->next, b = b->next) {
        same = packet_same(a, b) && packet_csum_ok(a);
    }
    packet_free_list(out[0]);
    packet_free_list(out[1]);
    packet_free_list(list);
    return same;
}

static bool
same_flows(const struct test *t)
{
    static struct acdc_flow_info flows[N_ENGINES][MAX_CONNECTIONS];
    struct acdc_tenant_stats stats[N_ENGINES];
    unsigned int n[N_ENGINES];
    int i;

    memset(flows, 0, sizeof flows);
    memset(stats, 0, sizeof stats);
    for (i = 0; i < N_ENGINES; i++) {
        uint64_t cursor = 0;
        unsigned int got;

        n[i] = 0;
        do {
            got = acdc_dump(t->acdc[i], &cursor, t->now, &flows[i][n[i]],
                            MAX_CONNECTIONS - n[i]);
            n[i] += got;
        } while (got);
        acdc_tenant_stats_get(t->acdc[i], "blue", &stats[i]);
    }
    return n[0] == n[1] && !memcmp(flows[0], flows[1], sizeof flows[0])
           && !memcmp(stats[0].counters, stats[1].counters,
                      sizeof stats[0].counters);
}

/* All connections are made. */
static void
test_init(struct test *t, unsigned int n_connections, uint64_t seed)
{
    static const struct acdc_config config = {
        .max_flows = 1000, .idle_timeout = 100, .exid = ACDC_OPT_EXID,
    };
    struct acdc_tenant_config tenant = {
        .name = "blue", .params = acdc_params_default,
    };
    struct packet *syns = NULL, *answers = NULL;
    unsigned int i;

    memset(t, 0, sizeof *t);
    t->n_connections = n_connections;
    t->seed = seed;
    t->now = UINT64_C(1000000000);
    tenant.max_half_open = 1000;
    for (i = 0; i < N_ENGINES; i++) {
        t->acdc[i] = acdc_create(&config);
        acdc_tenant_set(t->acdc[i], &tenant);
        t->port[i] = acdc_port_bind(t->acdc[i], 7, "vnet7", "blue", 1500);
    }
    for (i = 0; i < n_connections; i++) {
        struct tcp_spec s = spec(i, ACDC_EGRESS, ACDC_TCP_SYN);

        s.seq = 1000;
        opt_mss(&s, MSS + 12);
        opt_wscale(&s, 7);
        add(&syns, &s);
        s = spec(i, ACDC_INGRESS, ACDC_TCP_SYN | ACDC_TCP_ACK);
        s.seq = 5000;
        s.ack = 1001;
        opt_mss(&s, MSS + 12);
        opt_nop(&s, 1);
        opt_wscale(&s, 7);
        opt_capability(&s, ACDC_OPT_EXID);
        add(&answers, &s);
    }
    ok(process(t, ACDC_EGRESS, syns) && process(t, ACDC_INGRESS, answers)
       && same_flows(t), "%u connections made", n_connections);
}

static void
test_done(struct test *t)
{
    int i;

    for (i = 0; i < N_ENGINES; i++) {
        acdc_destroy(t->acdc[i]);
    }
    host_quiesce();
}

static uint32_t
grouping(const struct test *t)
{
    return acdc_a32_read(&t->port[1]->tenant->slots[acdc_slot()].grouping);
}

static uint64_t
counter(const struct test *t, enum acdc_counter c)
{
    struct acdc_tenant_stats stats;

    acdc_tenant_stats_get(t->acdc[1], "blue", &stats);
    return stats.counters[c];
}

static void
test_same(unsigned int n_connections, uint64_t seed)
{
    unsigned int step, n_grouped = 0;
    struct test t;

    test_init(&t, n_connections, seed);
    for (step = 0; step < STEPS; step++) {
        enum acdc_dir dir = tap_random(&t.seed) & 1 ? ACDC_EGRESS
                                                    : ACDC_INGRESS;
        unsigned int n = 1 + tap_random(&t.seed) % ACDC_BATCH_MAX;
        struct packet *list = NULL;

        while (n--) {
            add_some(&t, dir, &list);
        }
        if (!process(&t, dir, list) || !same_flows(&t)) {
            break;
        }
        /* No other thread had one of them, so it is set to 0 after that. */
        n_grouped += !grouping(&t);
    }
    is_u64(step, STEPS, "packets of %u connections: the same in groups",
           n_connections);
    ok(n_grouped > STEPS / 3, "which they were %u times", n_grouped);
    is_u64(counter(&t, ACDC_C_PACK_RECEIVED) && counter(&t, ACDC_C_PACK_SENT),
           1, "with feedback");
    is_u64(counter(&t, ACDC_C_FACK_SENT) && counter(&t, ACDC_C_RETRANSMITS),
           1, "FACKs and retransmissions");
    test_done(&t);
}

/* Order in a batch. */
static void
test_order(uint64_t seed)
{
    static acdc_link buckets[ACDC_N_GROUPS];
    unsigned int rounds, n_few = 0;

    for (rounds = 0; rounds < 2000; rounds++) {
        unsigned int n = ACDC_GROUPED_MIN
                         + tap_random(&seed) % (ACDC_BATCH_MAX
                                                - ACDC_GROUPED_MIN + 1);
        unsigned int n_buckets = 1 + tap_random(&seed) % 12;
        unsigned int n_groups = 0, runs = 1, i;
        bool seen[ACDC_N_GROUPS] = { false };
        bool is_right = true;
        struct acdc_pkt pkts[ACDC_BATCH_MAX];
        struct acdc_groups out, in;
        uint64_t done = 0;

        for (i = 0; i < n; i++) {
            unsigned int b = (unsigned int) tap_random(&seed) % n_buckets * 5;

            pkts[i].bucket = &buckets[b];
            n_groups += !seen[b];
            seen[b] = true;
        }
        if (!acdc_group_sort(&out, pkts, n, ACDC_EGRESS)
            || !acdc_group_sort(&in, pkts, n, ACDC_INGRESS)) {
            if (n_groups <= n / 2) {
                break;
            }
            continue;
        }
        n_few++;
        for (i = 0; i < n; i++) {
            const struct acdc_pkt *p = &pkts[out.order[i]];

            done |= (uint64_t) 1 << out.order[i];
            if (!i) {
                continue;
            }
            if (p->bucket != pkts[out.order[i - 1]].bucket) {
                runs++;
            } else if (out.order[i] < out.order[i - 1]) {
                is_right = false;
            }
            if (pkts[in.order[i]].bucket == pkts[in.order[i - 1]].bucket
                && in.order[i] < in.order[i - 1]) {
                is_right = false;
            }
            if (pkts[in.order[n - 1 - i]].bucket != p->bucket) {
                is_right = false;
            }
        }
        if (!is_right || done != (UINT64_C(1) << n) - 1 || runs != n_groups
            || n_groups > n / 2) {
            break;
        }
    }
    is_u64(rounds, 2000, "each packet once, flow by flow, in order");
    ok(n_few > 500, "of few flows %u times", n_few);
}

/* 'n' packets through the second engine.  Returns 'grouping' of this thread
 * afterwards. */
static uint32_t
this_thread(struct test *t, enum acdc_dir dir, unsigned int n)
{
    struct packet *list = NULL;

    while (n--) {
        add_some(t, dir, &list);
    }
    t->now += 100000;
    packet_free_list(host_process(t->port[1], dir, list, t->now));
    return grouping(t);
}

struct turn {
    struct test *t;
    uint32_t grouping;          /* Afterwards. */
};

static void *
take_turn(void *turn_)
{
    struct turn *turn = turn_;

    turn->grouping = this_thread(turn->t, ACDC_INGRESS, ACDC_BATCH_MAX);
    return NULL;
}

/* A batch to the guests on another thread. */
static uint32_t
other_thread(struct test *t)
{
    struct turn turn = { .t = t };
    pthread_t thread;

    pthread_create(&thread, NULL, take_turn, &turn);
    pthread_join(thread, NULL);
    return turn.grouping;
}

/* How a thread learns that others have its flows. */
static void
test_learning(uint64_t seed)
{
    struct test t;
    uint32_t last;
    int i;

    test_init(&t, 4, seed);
    acdc_a32_set(&t.port[1]->tenant->slots[acdc_slot()].grouping, 0);
    is_u64(this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX), 0, "alone: not grouped");
    is_u64(other_thread(&t), 1, "the second thread learns of the first one");
    is_u64(this_thread(&t, ACDC_EGRESS, ACDC_GROUPED_MIN - 1), 0,
           "of small batches nobody asks");
    other_thread(&t);
    is_u64(this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX), 1,
           "the first of the second");
    other_thread(&t);
    is_u64(this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX), 1,
           "it stays while there are two");
    is_u64(this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX), 0,
           "and is over when there are not");
    test_done(&t);

    test_init(&t, MAX_CONNECTIONS, seed);
    acdc_a32_set(&t.port[1]->tenant->slots[acdc_slot()].grouping, 0);
    last = this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX);
    is_u64(last, 0, "many connections, alone");
    acdc_a32_set(&t.port[1]->tenant->slots[acdc_slot()].grouping, 1);
    last = this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX);
    is_u64(last, ACDC_GROUPING_PAUSE, "many, on two: not for a while");
    for (i = 0; i < ACDC_GROUPING_PAUSE - 1; i++) {
        last = this_thread(&t, ACDC_EGRESS, ACDC_BATCH_MAX);
    }
    is_u64(last, 1, "then it is looked at again");
    test_done(&t);
}

int
main(void)
{
    uint64_t seed = tap_seed();

    test_same(1, seed);
    test_same(3, seed);
    test_same(10, seed);
    test_order(seed);
    test_learning(seed);
    return tap_end();
}
