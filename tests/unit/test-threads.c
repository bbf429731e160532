/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Many threads in one engine: both directions of the same flows and of
 * others, while tenants, rules, ports and the table change, flows are swept
 * and flushed, dumps and statistics read.  What is to be seen here is what the
 * sanitizers see.  And packets of flows that move to another table. */

#include <pthread.h>
#include <stdlib.h>

#include "host.h"
#include "acdc-match.h"
#include "tap.h"

enum { N_WORKERS = 4, N_PORTS = 2, N_FLOWS = 40, N_FEW = 4, N_BATCHES = 4000 };

static struct {
    struct acdc *acdc;
    /* What RCU publishes to the datapath in real hosts. */
    struct acdc_port *_Atomic port[N_PORTS];
    /* Held for reading while in the engine.  Held for writing it is a grace
     * period. */
    pthread_rwlock_t rcu;
    _Atomic uint64_t now;
    _Atomic unsigned int working;
} t = { .rcu = PTHREAD_RWLOCK_INITIALIZER };

struct worker {
    pthread_t thread;
    uint64_t seed;
    uint64_t packets, bad;
};

/* A packet of connection 'i', from guest or network. */
static struct packet *
make(uint64_t *seed, enum acdc_dir dir)
{
    uint32_t r = (uint32_t) tap_random(seed);
    /* For some time few, which are processed in groups. */
    uint32_t i = r % (t.now >> 16 & 1 ? N_FEW : N_FLOWS);
    struct tcp_spec s = { .v6 = i & 1, .window = (uint16_t) (r >> 8) };
    bool egress = dir == ACDC_EGRESS;
    /* Both sides' numbers walk around the same place. */
    uint32_t base = (uint32_t) (t.now / 1000) * 100;

    s.src[0] = s.dst[0] = 10;
    s.src[3] = egress ? 1 : 2;
    s.dst[3] = egress ? 2 : 1;
    s.sport = (uint16_t) (egress ? 1000 + i : 80);
    s.dport = (uint16_t) (egress ? 80 : 1000 + i);
    s.seq = base + (r >> 12) % 3000;
    s.ack = base + (r >> 16) % 3000;
    s.flags = ACDC_TCP_ACK;
    s.ecn = (r >> 20) & 3;
    s.payload = (r >> 22) & 1 ? 0 : 300;
    switch ((r >> 24) % 32) {
    case 0: s.flags = ACDC_TCP_SYN; break;
    case 1: s.flags = ACDC_TCP_SYN | ACDC_TCP_ACK; break;
    case 2: s.flags |= ACDC_TCP_FIN; break;
    case 3: s.flags |= ACDC_TCP_RST; break;
    }
    if (s.flags & ACDC_TCP_SYN) {
        s.payload = 0;
        s.seq = base;
        s.ack = base + 1;
        opt_mss(&s, 1460);
        opt_wscale(&s, 12);
    }
    if (!egress) {
        if (s.flags & ACDC_TCP_SYN) {
            opt_nop(&s, 1);
            opt_capability(&s, ACDC_OPT_EXID);
        } else {
            opt_feedback(&s, ACDC_OPT_EXID, r & 0xff, r & 0xffff);
            s.reserved = (r >> 18) & ACDC_RES_MASK;
        }
    }
    return packet_make(&s);
}

static void *
work(void *worker_)
{
    struct worker *w = worker_;
    unsigned int i;

    for (i = 0; i < N_BATCHES; i++) {
        enum acdc_dir dir = tap_random(&w->seed) % 2 ? ACDC_EGRESS
                                                     : ACDC_INGRESS;
        unsigned int which = tap_random(&w->seed) % N_PORTS;
        unsigned int n = 1 + tap_random(&w->seed) % ACDC_BATCH_MAX;
        struct packet *list = NULL, *p;
        struct acdc_port *port;

        while (n--) {
            p = make(&w->seed, dir);
            p->next = list;
            list = p;
        }
        t.now += 100;
        pthread_rwlock_rdlock(&t.rcu);
        port = t.port[which];
        if (port) {
            list = host_process(port, dir, list, t.now * 1000);
        }
        pthread_rwlock_unlock(&t.rcu);
        for (p = list; p; p = p->next) {
            w->packets++;
            w->bad += !packet_csum_ok(p)
                      || (!packet_is_fack(p) && !packet_payload_ok(p));
        }
        packet_free_list(list);
    }
    t.working--;
    return NULL;
}

static void *
read_all(void *unused)
{
    static struct acdc_flow_info flows[64];

    (void) unused;
    while (t.working) {
        struct acdc_tenant_stats ts;
        struct acdc_port_info pi;
        struct acdc_stats stats;
        struct acdc_config c;
        uint64_t cursor = 0;
        unsigned int i;

        pthread_rwlock_rdlock(&t.rcu);
        while (acdc_dump(t.acdc, &cursor, t.now * 1000, flows, 64)) {
            continue;
        }
        acdc_stats_get(t.acdc, &stats);
        acdc_config_get(t.acdc, &c);
        for (i = 0; !acdc_tenant_stats_nth(t.acdc, i, &ts); i++) {
            continue;
        }
        for (i = 0; !acdc_port_info_nth(t.acdc, i, &pi); i++) {
            continue;
        }
        pthread_rwlock_unlock(&t.rcu);
    }
    return NULL;
}

static void
set_tenant(const char *name, uint64_t *seed)
{
    static const char *const rule[] = { "remote_port=80", "local_port=1-1010",
                                        "remote=10.0.0.0/8" };
    struct acdc_rule rules[3];
    struct acdc_tenant_config tc = { .params = acdc_params_default,
                                     .rules = rules };
    char error[100];

    memcpy(tc.name, name, strlen(name) + 1);
    tc.n_rules = tap_random(seed) % 4;
    for (unsigned int i = 0; i < tc.n_rules; i++) {
        memset(&rules[i], 0, sizeof rules[i]);
        acdc_match_parse(rule[i], &rules[i].match, error, sizeof error);
        rules[i].priority = (uint32_t) tap_random(seed) % 3;
        rules[i].params = acdc_params_default;
        rules[i].params.algorithm = tap_random(seed) % ACDC_N_ALGS;
        rules[i].params.police = tap_random(seed) % 2;
    }
    tc.params.algorithm = tap_random(seed) % ACDC_N_ALGS;
    tc.params.fallback = tap_random(seed) % ACDC_ALG_DCTCP;
    tc.params.mode = tap_random(seed) % ACDC_N_MODES;
    tc.params.enabled = tap_random(seed) % 8;
    acdc_tenant_set(t.acdc, &tc);
}

/* The configuration thread. */
static void
configure(uint64_t *seed)
{
    static const char *const names[] = { "blue", "red" };
    unsigned int which = tap_random(seed) % N_PORTS;
    const char *name = names[tap_random(seed) % 2];
    struct acdc_config c = { .idle_timeout = 1, .exid = ACDC_OPT_EXID };

    switch (tap_random(seed) % 16) {
    case 0:
        t.port[which] = NULL;
        acdc_port_unbind(t.acdc, which);
        break;
    case 1: case 2: case 3:
        t.port[which] = acdc_port_bind(t.acdc, which, "p", name, 1500);
        break;
    case 4:
        for (unsigned int i = 0; i < N_PORTS; i++) {
            t.port[i] = NULL;
        }
        acdc_tenant_del(t.acdc, name);
        for (unsigned int i = 0; i < N_PORTS; i++) {
            t.port[i] = acdc_port_bind(t.acdc, i, "p", names[i], 1500);
        }
        break;
    case 5:
        acdc_flush(t.acdc, tap_random(seed) % 2 ? name : NULL, NULL);
        break;
    case 6:
        c.max_flows = 1 + (uint32_t) (tap_random(seed) % 300);
        acdc_config_set(t.acdc, &c);
        break;
    case 7: case 8: case 9:
        acdc_sweep(t.acdc, t.now * 1000 + 2000000000ull, 16);
        break;
    default:
        set_tenant(name, seed);
        break;
    }
    if (tap_random(seed) % 4 == 0) {
        pthread_rwlock_wrlock(&t.rcu);
        host_quiesce();
        pthread_rwlock_unlock(&t.rcu);
    }
}

/* Flows that move to another table are found at any time. */

enum { N_MOVED = 2000 };

static struct packet *
make_moved(unsigned int i, uint8_t flags)
{
    struct tcp_spec s = { .src = { 10, 0, 0, 1 }, .dst = { 10, 0, 0, 2 },
                          .sport = (uint16_t) (1000 + i), .dport = 80,
                          .flags = flags, .window = 1000 };

    return packet_make(&s);
}

static void *
send_moved(void *worker_)
{
    struct worker *w = worker_;
    unsigned int i;

    for (i = 0; i < 20 * N_BATCHES; i++) {
        struct packet *p = make_moved((unsigned int) tap_random(&w->seed)
                                      % N_MOVED, ACDC_TCP_ACK);

        pthread_rwlock_rdlock(&t.rcu);
        p = host_process(t.port[0], ACDC_EGRESS, p, t.now * 1000);
        pthread_rwlock_unlock(&t.rcu);
        packet_free_list(p);
    }
    t.working--;
    return NULL;
}

static void
test_moving(uint64_t *seed)
{
    struct acdc_config c = { .max_flows = N_MOVED, .idle_timeout = 1000,
                             .exid = ACDC_OPT_EXID };
    struct acdc_tenant_config tc = { .name = "green",
                                     .params = acdc_params_default,
                                     .max_half_open = N_MOVED };
    struct worker workers[N_WORKERS];
    struct acdc_tenant_stats ts;
    uint64_t n_moves = 0;
    int i;

    t.acdc = acdc_create(&c);
    acdc_tenant_set(t.acdc, &tc);
    t.port[0] = acdc_port_bind(t.acdc, 0, "p", "green", 1500);
    for (i = 0; i < N_MOVED; i++) {
        packet_free_list(host_process(t.port[0], ACDC_EGRESS,
                                      make_moved((unsigned int) i,
                                                 ACDC_TCP_SYN),
                                      t.now * 1000));
    }
    t.working = N_WORKERS;
    for (i = 0; i < N_WORKERS; i++) {
        workers[i] = (struct worker) { .seed = tap_random(seed) };
        pthread_create(&workers[i].thread, NULL, send_moved, &workers[i]);
    }
    while (t.working) {
        c.max_flows = N_MOVED << (++n_moves % 4);
        acdc_config_set(t.acdc, &c);
        pthread_rwlock_wrlock(&t.rcu);
        host_quiesce();
        pthread_rwlock_unlock(&t.rcu);
    }
    for (i = 0; i < N_WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    acdc_tenant_stats_get(t.acdc, "green", &ts);
    is_u64(ts.n_flows, N_MOVED, "flows after they moved %"PRIu64" times",
           n_moves);
    is_u64(ts.counters[ACDC_C_UNTOUCHED_MIDSTREAM], 0,
           "none of %"PRIu64" packets missed its flow",
           ts.counters[ACDC_C_EGRESS_PACKETS]);
    acdc_destroy(t.acdc);
    host_quiesce();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
}

int
main(void)
{
    struct worker workers[N_WORKERS];
    uint64_t packets = 0, bad = 0, n_config = 0;
    uint64_t seed = tap_seed();
    struct acdc_stats stats;
    pthread_t reader;
    int i;

    t.acdc = acdc_create(NULL);
    t.now = 1000000;
    set_tenant("blue", &seed);
    set_tenant("red", &seed);
    t.port[0] = acdc_port_bind(t.acdc, 0, "p", "blue", 1500);
    t.port[1] = acdc_port_bind(t.acdc, 1, "p", "red", 1500);
    t.working = N_WORKERS;
    for (i = 0; i < N_WORKERS; i++) {
        workers[i] = (struct worker) { .seed = tap_random(&seed) };
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    pthread_create(&reader, NULL, read_all, NULL);
    while (t.working) {
        configure(&seed);
        n_config++;
    }
    for (i = 0; i < N_WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        packets += workers[i].packets;
        bad += workers[i].bad;
    }
    pthread_join(reader, NULL);
    ok(packets > N_WORKERS * N_BATCHES, "%"PRIu64" packets during %"PRIu64
       " changes of configuration", packets, n_config);
    is_u64(bad, 0, "checksums right, payload untouched");
    acdc_flush(t.acdc, NULL, NULL);
    acdc_stats_get(t.acdc, &stats);
    ok(!stats.n_flows && !stats.n_half_open && !stats.n_closed,
       "every count is back at zero");
    for (unsigned int k = 0;; k++) {
        struct acdc_tenant_stats ts;

        if (acdc_tenant_stats_nth(t.acdc, k, &ts)) {
            break;
        }
        ok(!ts.n_flows && !ts.n_half_open && !ts.n_capable && !ts.n_fallback,
           "tenant %s's too", ts.name);
    }
    acdc_destroy(t.acdc);
    host_quiesce();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    test_moving(&seed);
    return tap_end();
}
