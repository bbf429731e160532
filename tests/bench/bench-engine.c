/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What the engine costs a packet, for tests/bench/engine.
 *
 *     bench-engine [-6] FLOWS BATCH uniform|zipf PICKS ROUNDS [OPERATION]
 *
 * Connects FLOWS guests' connections, then does each operation PICKS times,
 * on connections picked with equal probability or after Zipf's law, in calls
 * of BATCH packets, and all that ROUNDS times, then ends the connections.
 * Prints JSON: nanoseconds a packet of every round, the cost of making packets
 * not counted.  With OPERATION only that one's calls go through
 * measured_call(), for callgrind, and what is after it is left out.
 *
 * The packets are whole and of right lengths, their host is the least there
 * can be: memory from a heap that never gives back, in huge pages where the
 * kernel has them and flows at multiples of 8 bytes as lib/acdc-arena.c has,
 * headroom in front. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/mman.h>

#include "acdc-arena.h"
#include "acdc.h"
#include "checksum.h"

enum { HEADROOM = 64, FRAME = 1600, MSS = 1448, WSCALE = 14 };
enum { HUGE_PAGE = 2 << 20, CHUNK = 64 << 20 };
enum { SWEEP_BUDGET = 128 };   /* As lib/acdc-netdev.c. */

struct buffer {
    uint8_t headroom[HEADROOM];
    uint8_t frame[FRAME];
};

/* The guest's view of a connection. */
struct connection {
    uint32_t sent, acked;       /* Bytes to and from the guest. */
    uint32_t received;
};

enum operation {
    SYN, DATA_EGRESS, ACK_INGRESS, DATA_INGRESS, ACK_EGRESS, MIDSTREAM, UDP,
    N_OPERATIONS
};
static const char *const names[] = {
    "syn", "data-egress", "ack-ingress", "data-ingress", "ack-egress",
    "midstream", "udp",
};

static struct buffer buffers[ACDC_BATCH_MAX];
static uint32_t ip_hlen = ACDC_IP4_HLEN;
static uint64_t fack_drops;

/* The host. ---------------------------------------------------------------- */

void *
acdc_host_alloc(size_t size)
{
    static uint8_t *heap, *end;
    uint8_t *p;

    size = (size + ACDC_CACHE_LINE - 1) & ~(size_t) (ACDC_CACHE_LINE - 1);
    if (size > (size_t) (end - heap)) {
        size_t chunk = size > CHUNK ? size : CHUNK;

        chunk = (chunk + HUGE_PAGE - 1) & ~(size_t) (HUGE_PAGE - 1);
        heap = aligned_alloc(HUGE_PAGE, chunk);
        if (!heap) {
            return NULL;
        }
        madvise(heap, chunk, MADV_HUGEPAGE);
        memset(heap, 0, chunk);
        end = heap + chunk;
    }
    p = heap;
    heap += size;
    return p;
}

void
acdc_host_free(void *p)
{
    (void) p;
}

/* 'n' bytes of the arena. */
static bool
map(void *p, size_t n)
{
    madvise(p, n, MADV_HUGEPAGE);
    if (mprotect(p, n, PROT_READ | PROT_WRITE)) {
        return false;
    }
    memset(p, 0, n);
    return true;
}

struct acdc_flow *
acdc_host_alloc_flow(size_t size, bool v6)
{
    static char *next, *end;
    char *f;

    (void) size;
    if (next == end) {
        next = end ? end : acdc_arena + ACDC_ARENA_ALIGN;
        end = next + CHUNK;
        if (!map(next, CHUNK)
            || (v6 && !map(acdc_arena6(next), ACDC_PARTS(CHUNK, ACDC_FLOW6)))) {
            return NULL;
        }
    }
    f = next;
    next = acdc_arena_next(next);
    return (struct acdc_flow *) (void *) f;
}

void
acdc_host_free_flow(struct acdc_flow *f)
{
    (void) f;
}

void
acdc_host_defer(struct acdc_rcu *r)
{
    (void) r;
}

uint8_t *
acdc_host_push(struct acdc_pkt *p, unsigned int n)
{
    p->data -= n;
    p->len += n;
    p->hlen += n;
    return p->data;
}

uint8_t *
acdc_host_pull(struct acdc_pkt *p, unsigned int n)
{
    p->data += n;
    p->len -= n;
    p->hlen -= n;
    return p->data;
}

bool
acdc_host_linear(struct acdc_pkt *p, unsigned int n)
{
    (void) p;
    (void) n;
    return false;
}

void
acdc_host_trim(struct acdc_pkt *p, unsigned int n)
{
    p->len -= n;
    p->hlen -= n;
}

bool
acdc_host_writable(struct acdc_pkt *p)
{
    (void) p;
    return true;
}

void
acdc_host_set_path(struct acdc_pkt *p, uint32_t hash)
{
    (void) p;
    (void) hash;
}

uint8_t *
acdc_host_inject(struct acdc_pkt *like, unsigned int len)
{
    static uint8_t fack[256];

    (void) like;
    fack_drops++;
    return len <= sizeof fack ? fack : NULL;
}

uint64_t
acdc_host_clock(uint64_t now)
{
    return now;
}

uint32_t
acdc_host_seed(void)
{
    return 0x5eed;
}

/* Packets. ----------------------------------------------------------------- */

struct segment {
    bool to_guest;
    uint8_t flags;
    uint32_t seq, ack;
    uint32_t payload;
    uint8_t ecn;
    uint8_t reserved;
    bool capability;
    bool feedback;
    bool udp;
    uint32_t fb_ce, fb_total;
};

/* Writes the header of 'tcp_len' bytes of TCP or UDP.  The addresses are
 * 10.0.0.1 for the guest and 11.x.y.z for the others, so that any number fits,
 * with IPv6 in the last four bytes of fd00::. */
static void
make_ip(uint8_t *ip, uint32_t i, const struct segment *s, uint32_t tcp_len)
{
    uint32_t guest = 0x0a000001, peer = 0x0b000000 + i / 16;
    uint8_t protocol = s->udp ? 17 : ACDC_IPPROTO_TCP;
    uint32_t from = s->to_guest ? peer : guest;
    uint32_t to = s->to_guest ? guest : peer;

    memset(ip, 0, ip_hlen);
    if (ip_hlen == ACDC_IP6_HLEN) {
        ip[0] = 0x60;
        ip[1] = (uint8_t) (s->ecn << 4);
        acdc_put16(ip + 4, (uint16_t) tcp_len);
        ip[6] = protocol;
        ip[7] = 64;
        ip[8] = ip[24] = 0xfd;
        acdc_put32(ip + 20, from);
        acdc_put32(ip + 36, to);
    } else {
        ip[0] = 0x45;
        ip[1] = s->ecn;
        acdc_put16(ip + 2, (uint16_t) (ip_hlen + tcp_len));
        ip[6] = 0x40;
        ip[8] = 64;
        ip[9] = protocol;
        acdc_put32(ip + 12, from);
        acdc_put32(ip + 16, to);
    }
}

/* Of connection 'i'. */
static void
make(struct acdc_pkt *p, struct buffer *b, uint32_t i,
     const struct segment *s)
{
    uint16_t guest_port = (uint16_t) (1024 + i % 16), peer_port = 80;
    uint8_t *ip = b->frame + ACDC_ETH_HLEN, *tcp = ip + ip_hlen;
    uint8_t *opt = tcp + ACDC_TCP_HLEN;
    uint32_t len;

    acdc_put16(b->frame + 12, ip_hlen == ACDC_IP6_HLEN ? ACDC_ETHERTYPE_IP6
                                                       : ACDC_ETHERTYPE_IP4);
    if (s->capability || s->feedback) {
        opt[0] = ACDC_OPT_KIND;
        opt[1] = s->feedback ? ACDC_OPT_FB_LEN : ACDC_OPT_CAP_LEN;
        acdc_put16(opt + 2, ACDC_OPT_EXID);
        if (s->feedback) {
            acdc_put32(opt + 4, s->fb_ce);
            acdc_put32(opt + 8, s->fb_total);
        } else {
            acdc_put32(opt + 4, (uint32_t) ACDC_OPT_VERSION << 24);
        }
        opt += opt[1];
    }
    if (s->flags & ACDC_TCP_SYN) {
        static const uint8_t syn[] = {
            2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3,
            WSCALE
        };

        memcpy(opt, syn, sizeof syn);
        opt += sizeof syn;
    } else {
        static const uint8_t timestamp[] = {
            1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1
        };

        memcpy(opt, timestamp, sizeof timestamp);
        opt += sizeof timestamp;
    }
    len = (uint32_t) (opt - ip) + s->payload;
    make_ip(ip, i, s, len - ip_hlen);
    acdc_put16(tcp, s->to_guest ? peer_port : guest_port);
    acdc_put16(tcp + 2, s->to_guest ? guest_port : peer_port);
    acdc_put32(tcp + 4, s->seq);
    acdc_put32(tcp + 8, s->ack);
    tcp[12] = (uint8_t) ((opt - tcp) / 4 << 4 | s->reserved);
    tcp[13] = s->flags;
    acdc_put16(tcp + 14, 0xffff);
    acdc_put32(tcp + 16, 0);
    if (s->flags & (ACDC_TCP_SYN | ACDC_TCP_FIN)) {
        /* The engine looks at it: a corrupt one ends nothing. */
        acdc_put16(tcp + 16, tcp_checksum(ip, tcp, (uint32_t) (opt - tcp)));
    }
    acdc_pkt_init(p, b->frame, ACDC_ETH_HLEN + len, ACDC_ETH_HLEN + len);
    p->writable = ACDC_W_YES;   /* As ovs-vswitchd says of most packets. */
}

static const struct segment ack_ect0 = {
    .flags = ACDC_TCP_ACK, .ecn = ACDC_ECN_ECT0,
};

/* What operation 'op' sends next on a connection.  Numbers start at 1 after
 * both SYNs. */
static struct segment
next_segment(enum operation op, struct connection *c, uint32_t turn)
{
    struct segment s = ack_ect0;
    uint32_t ce = turn % 16 == 0;       /* One of 16 is marked. */

    s.to_guest = op == ACK_INGRESS || op == DATA_INGRESS;
    s.seq = s.to_guest ? 1 + c->received : 1 + c->sent;
    s.ack = s.to_guest ? 1 + c->sent : 1 + c->received;
    switch (op) {
    case SYN:
        s.flags = ACDC_TCP_SYN;
        s.ecn = ACDC_ECN_NOT_ECT;
        s.seq = s.ack = 0;
        break;
    case DATA_EGRESS:
        s.ecn = ACDC_ECN_NOT_ECT;
        s.payload = MSS;
        c->sent += MSS;
        break;
    case ACK_INGRESS:
        /* In the order of the data: each acknowledges one segment more. */
        c->acked += MSS;
        s.ack = 1 + c->acked;
        s.feedback = true;
        s.fb_total = c->acked;
        s.fb_ce = c->acked / (16 * MSS) * MSS;
        break;
    case DATA_INGRESS:
        s.payload = MSS;
        s.ecn = ce ? ACDC_ECN_CE : ACDC_ECN_ECT0;
        c->received += MSS;
        break;
    case ACK_EGRESS:
        s.ecn = ACDC_ECN_NOT_ECT;
        break;
    case UDP:
        s.udp = true;
        break;
    case MIDSTREAM:
    case N_OPERATIONS:
        break;
    }
    return s;
}

/* Measuring. --------------------------------------------------------------- */

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static uint64_t clock_cost;
static uint64_t virtual_now = 1000000000;
static int only = -1;

__attribute__((noinline)) void
measured_call(struct acdc_port *port, enum acdc_dir dir,
              struct acdc_pkt *pkts, unsigned int n)
{
    acdc_process(port, dir, pkts, n, virtual_now);
}

/* Returns nanoseconds. */
static uint64_t
call(struct acdc_port *port, enum operation op, bool to_guest,
     struct acdc_pkt *pkts, unsigned int n)
{
    enum acdc_dir dir = to_guest ? ACDC_INGRESS : ACDC_EGRESS;
    uint64_t began, ended;

    virtual_now += 100 * n;
    began = now_ns();
    if (only < 0 || only == (int) op) {
        measured_call(port, dir, pkts, n);
    } else {
        acdc_process(port, dir, pkts, n, virtual_now);
    }
    ended = now_ns();
    return ended - began > clock_cost ? ended - began - clock_cost : 0;
}

static double
run(struct acdc_port *port, enum operation op, struct connection *conns,
    const uint32_t *picks, uint32_t n_picks, uint32_t batch)
{
    struct acdc_pkt pkts[ACDC_BATCH_MAX];
    uint64_t total = 0;
    uint32_t i, k;

    for (i = 0; i + batch <= n_picks; i += batch) {
        for (k = 0; k < batch; k++) {
            uint32_t flow = picks[i + k];
            struct segment s = next_segment(op, &conns[flow], i + k);

            /* MIDSTREAM: connections that nobody saw begin. */
            make(&pkts[k], &buffers[k],
                 op == MIDSTREAM ? flow + (1u << 26) : flow, &s);
        }
        total += call(port, op, op == ACK_INGRESS || op == DATA_INGRESS, pkts,
                      batch);
    }
    return (double) total / i;
}

/* Returns the nanoseconds of the three packets of a handshake. */
static double
set_up(struct acdc_port *port, uint32_t n_flows, struct connection *conns,
       double *syn)
{
    struct acdc_pkt pkts[ACDC_BATCH_MAX];
    uint64_t total = 0, syns = 0;
    uint32_t i, k;

    for (i = 0; i < n_flows; i += k) {
        uint32_t n = n_flows - i < ACDC_BATCH_MAX ? n_flows - i
                                                   : ACDC_BATCH_MAX;
        struct segment s = next_segment(SYN, conns, 0);

        for (k = 0; k < n; k++) {
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        syns += call(port, SYN, false, pkts, n);
        s.to_guest = true;
        s.flags |= ACDC_TCP_ACK;
        s.ack = 1;
        s.capability = true;
        s.ecn = ACDC_ECN_ECT0;
        for (k = 0; k < n; k++) {
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        total += call(port, SYN, true, pkts, n);
        s = next_segment(ACK_EGRESS, conns, 0);
        for (k = 0; k < n; k++) {
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        total += call(port, SYN, false, pkts, n);
        /* Opens the whole window of 1 GB, for what DATA_EGRESS sends before
         * anything is acknowledged: what no peer takes is not followed, and
         * its ACKs are invalid. */
        s = next_segment(ACK_EGRESS, conns, 0);
        s.to_guest = true;
        for (k = 0; k < n; k++) {
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        acdc_process(port, ACDC_INGRESS, pkts, n, virtual_now);
    }
    *syn = (double) syns / n_flows;
    return (double) (total + syns) / n_flows;
}

/* Returns the nanoseconds of the three packets of a connection's end: the
 * guest's FIN, the peer's, and the last ACK. */
static double
tear_down(struct acdc_port *port, uint32_t n_flows, struct connection *conns)
{
    struct acdc_pkt pkts[ACDC_BATCH_MAX];
    uint64_t total = 0;
    uint32_t i, k, n;

    for (i = 0; i < n_flows; i += n) {
        n = n_flows - i < ACDC_BATCH_MAX ? n_flows - i : ACDC_BATCH_MAX;
        for (k = 0; k < n; k++) {
            struct segment s = next_segment(ACK_EGRESS, &conns[i + k], 0);

            s.flags |= ACDC_TCP_FIN;
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        total += call(port, SYN, false, pkts, n);
        for (k = 0; k < n; k++) {
            struct connection *c = &conns[i + k];
            struct segment s = ack_ect0;

            s.to_guest = s.feedback = true;
            s.flags |= ACDC_TCP_FIN;
            s.seq = 1 + c->received;
            s.ack = 2 + c->sent;
            s.fb_total = c->sent;
            s.fb_ce = c->acked / (16 * MSS) * MSS;
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        total += call(port, SYN, true, pkts, n);
        for (k = 0; k < n; k++) {
            struct segment s = next_segment(ACK_EGRESS, &conns[i + k], 0);

            s.seq++;
            s.ack++;
            make(&pkts[k], &buffers[k], i + k, &s);
        }
        total += call(port, SYN, false, pkts, n);
    }
    return (double) total / n_flows;
}

/* Has the sweeper remove all flows, which have ended.  Returns the nanoseconds
 * of each, and those of the longest call: to find them and take them out of
 * the table.  Their memory is the host's to free after a grace period, and
 * this host keeps it. */
static double
sweep(struct acdc *a, uint32_t n_flows, uint64_t *longest)
{
    uint64_t total = 0;
    bool done;

    virtual_now += UINT64_C(60000000000);
    *longest = 0;
    do {
        uint64_t began = now_ns(), took;

        done = acdc_sweep(a, virtual_now, SWEEP_BUDGET);
        took = now_ns() - began;
        total += took;
        *longest = took > *longest ? took : *longest;
    } while (!done);
    return (double) total / n_flows;
}

static uint32_t
random32(void)
{
    static uint64_t x = 88172645463325252u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t) (x >> 32);
}

/* Zipf's law with exponent 1 by the inverse of its continuous form, the
 * ranks scattered over the connections. */
static uint32_t
pick(bool zipf, uint32_t n_flows)
{
    double u = random32() / 4294967296.0;

    if (!zipf) {
        return (uint32_t) (u * n_flows);
    }
    return (uint32_t) ((uint64_t) exp(u * log(n_flows)) * 2654435761u
                       % n_flows);
}

static uint32_t
number(const char *s, uint32_t max)
{
    char *end;
    unsigned long n = strtoul(s, &end, 10);

    if (*end || !n || n > max) {
        fprintf(stderr, "bench-engine: %s: a number from 1 to %u\n", s, max);
        exit(2);
    }
    return (uint32_t) n;
}

int
main(int argc, char **argv)
{
    struct acdc_tenant_config tenant = { .name = "blue" };
    struct acdc_config config = {
        .idle_timeout = ACDC_IDLE_TIMEOUT_DEFAULT, .exid = ACDC_OPT_EXID,
    };
    uint32_t n_flows, batch, n_picks, rounds, i, r;
    struct connection *conns;
    struct acdc_stats stats;
    struct acdc_port *port;
    double syn, handshake, teardown;
    uint64_t longest;
    uint32_t *picks;
    struct acdc *a;
    int op;

    if (argc > 1 && !strcmp(argv[1], "-6")) {
        ip_hlen = ACDC_IP6_HLEN;
        argc--;
        argv++;
    }
    if (argc < 6) {
        fputs("usage: bench-engine [-6] FLOWS BATCH uniform|zipf PICKS ROUNDS "
              "[OPERATION]\n", stderr);
        return 2;
    }
    n_flows = number(argv[1], ACDC_FLOWS_MAX);
    batch = number(argv[2], ACDC_BATCH_MAX);
    n_picks = number(argv[4], 1u << 30);
    rounds = number(argv[5], 1000);
    for (op = 0; argc > 6 && op < N_OPERATIONS; op++) {
        if (!strcmp(argv[6], names[op])) {
            only = op;
        }
    }
    clock_cost = UINT64_MAX;
    for (i = 0; i < 1000; i++) {
        uint64_t began = now_ns(), cost = now_ns() - began;

        clock_cost = cost < clock_cost ? cost : clock_cost;
    }

    config.max_flows = n_flows;
    tenant.params = acdc_params_default;
    tenant.max_half_open = UINT32_MAX;
    conns = calloc(n_flows, sizeof *conns);
    picks = calloc(n_picks, sizeof *picks);
    a = acdc_create(&config);
    if (!conns || !picks || !a || acdc_tenant_set(a, &tenant)
        || !(port = acdc_port_bind(a, 1, "vnet0", "blue", 1500))) {
        fputs("bench-engine: out of memory\n", stderr);
        return 1;
    }
    /* So that nobody waits for the first chunk. */
    acdc_host_alloc_flow(0, ip_hlen != ACDC_IP4_HLEN);
    handshake = set_up(port, n_flows, conns, &syn);
    acdc_stats_get(a, &stats);
    printf("{\"flows\": %u, \"batch\": %u, \"picks\": \"%s\", "
           "\"bytes_per_flow\": %.1f, \"syn_ns\": %.1f, "
           "\"handshake_ns\": %.1f, \"rounds\": [", stats.n_flows, batch,
           argv[3], (double) stats.table_bytes / stats.n_flows, syn,
           handshake);
    for (r = 0; r < rounds; r++) {
        for (i = 0; i < n_picks; i++) {
            picks[i] = pick(!strcmp(argv[3], "zipf"), n_flows);
        }
        for (op = DATA_EGRESS; op < N_OPERATIONS && (only < 0 || op <= only);
             op++) {
            printf("%s\"%s\": %.2f", op > DATA_EGRESS ? ", " : r ? ", {" : "{",
                   names[op],
                   run(port, (enum operation) op, conns, picks, n_picks,
                       batch));
        }
        putchar('}');
        /* So that no round looks like an idle restart or a timeout. */
        virtual_now += 1000;
    }
    {
        struct acdc_tenant_stats t;

        acdc_tenant_stats_get(a, "blue", &t);
        printf("], \"capable\": %u, \"facks\": %llu, ", t.n_capable,
               (unsigned long long) fack_drops);
        if (only < 0) {
            teardown = tear_down(port, n_flows, conns);
            printf("\"teardown_ns\": %.1f, ", teardown);
            printf("\"sweep_ns\": %.1f, ", sweep(a, n_flows, &longest));
            printf("\"sweep_call_ns\": %llu, ", (unsigned long long) longest);
            acdc_stats_get(a, &stats);
            if (stats.n_flows) {
                fprintf(stderr, "bench-engine: %u connections have not ended\n",
                        stats.n_flows);
                return 1;
            }
        }
        /* Again: connections' ends are counted as well. */
        acdc_tenant_stats_get(a, "blue", &t);
        printf("\"counters\": {");
        for (i = 0, r = 0; i < ACDC_N_COUNTERS; i++) {
            if (t.counters[i]) {
                printf("%s\"%s\": %llu", r++ ? ", " : "",
                       acdc_counter_names[i],
                       (unsigned long long) t.counters[i]);
            }
        }
        puts("}}");
        if (t.counters[ACDC_C_ACK_INVALID]) {
            fputs("bench-engine: ACKs of data that the engine did not follow\n",
                  stderr);
            return 1;
        }
    }
    return 0;
}
