/* SPDX-License-Identifier: Apache-2.0 */

/* TCP connections for tests/bench/dpdk, from inside ovs-vswitchd.
 *
 * A library that DPDK loads (-d).  It turns what net_null's ports receive into
 * the packets of many TCP connections: net_null0 is a guest's port, net_null1
 * leads to the network.  Sequence and ACK numbers go on as those of real
 * connections do, handshakes included, and the network's packets carry AC/DC's
 * options as if the other ends had it.  A capture that net_pcap replays
 * (infinite_rx) repeats the same numbers, which to anything that follows
 * connections is a storm of retransmissions, and OVS's mempools are too small
 * for a capture of a million connections.
 *
 * Connections come in pairs, called slots: in one the guest sends the data, in
 * the other the network does.  The slots are visited round after round in a
 * scattered order.  In a cycle of DATA + ACKS visits both ends first send
 * DATA segments, then acknowledge the other's of some cycles ago in ACKS
 * steps.  All numbers follow from the number of the visit, so that nothing is
 * kept for a connection and the source costs the same whatever their number.
 *
 * The guest's port copies each frame in and out, as vhost-user does.  TCP
 * checksums are not right: nothing on the way looks at them. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_DUMP_STATS
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

enum {
    GUEST, NETWORK,             /* The sides. */
    MSS = 1460,
    FRAME_MIN = 60,             /* Without the frame check sequence. */
    FRAME_MAX = 1514,
    WSCALE = 7,
    CE_EVERY = 16,              /* One segment of so many is marked. */
    LAG = 512,                  /* Packets between data and its ACK, least. */
    LEAD = 4096,                /* One side before the other, most. */
    SAMPLE = 4096,              /* Packets. */
    N_SAMPLES = 1 << 16,
};

enum { FIN = 1, SYN = 2, ACK = 16 };
enum { NOT_ECT = 0, ECT0 = 2, CE = 3 };

/* Shared with tests/bench/dpdk, which maps the same file. */
struct sample {
    uint64_t packets;           /* Of this side so far. */
    uint64_t other;             /* Of the other side. */
    uint64_t cpu_ns;            /* Of the thread that polls this side. */
    uint64_t cycles;
};
struct report {
    _Atomic uint64_t go;        /* Set by the other end: begin. */
    _Atomic uint64_t streaming; /* Handshakes are done. */
    _Atomic uint64_t counted;   /* Packets that callgrind's counts are of. */
    struct {
        _Atomic uint64_t n;
        struct sample samples[N_SAMPLES];       /* A ring. */
    } sides[2];
};

struct side {
    uint64_t pos;               /* Visits, of handshakes too. */
    uint64_t sent;              /* Packets. */
    uint64_t next_sample;
    uint32_t round, turn, slot; /* Where 'pos' is. */
    /* Visits whose packets the switch has dealt with. */
    _Atomic uint64_t done __rte_cache_aligned;
    _Atomic uint64_t packets;   /* 'sent', for the other side. */
} __rte_cache_aligned;

static struct side sides[2];
static struct report *report;
static uint32_t n_slots, n_data, n_acks, step, lag;
static uint64_t count_from, count_to;   /* Packets, for callgrind. */
static uint8_t guest_memory[FRAME_MAX];

/* What a connection's end sends. */
struct segment {
    uint32_t seq, ack;
    uint32_t payload;
    uint64_t acked;             /* Bytes, for the feedback. */
    uint8_t flags, ecn;
    bool capability, feedback;
};

static void
put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t) (v >> 8);
    p[1] = (uint8_t) v;
}

static void
put32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

/* 'up': of the connection in which the guest sends the data. */
static void
make_frame(struct rte_mbuf *m, int side, uint32_t slot, bool up,
           const struct segment *s)
{
    uint8_t *eth = rte_pktmbuf_mtod(m, uint8_t *);
    uint8_t *ip = eth + 14, *tcp = ip + 20, *opt = tcp + 20;
    uint32_t guest = 0x0a000001;
    uint32_t peer = (up ? 0x0b000000 : 0x0c000000) + slot / 16;
    uint32_t client = 1024 + slot % 16;
    uint32_t guest_port = up ? client : 80, peer_port = up ? 80 : client;
    uint32_t len, sum = 0;

    if (s->capability || s->feedback) {
        opt[0] = 253;
        opt[1] = s->feedback ? 12 : 8;
        put16(opt + 2, 0xacdc);
        if (s->feedback) {
            put32(opt + 4, (uint32_t) (s->acked / CE_EVERY));
            put32(opt + 8, (uint32_t) s->acked);
        } else {
            put32(opt + 4, 1u << 24);
        }
        opt += opt[1];
    }
    if (s->flags & SYN) {
        static const uint8_t syn[] = {
            2, 4, MSS >> 8, MSS & 0xff, 1, 1, 4, 2, 1, 3, 3, WSCALE
        };

        memcpy(opt, syn, sizeof syn);
        opt += sizeof syn;
    }
    len = (uint32_t) (opt - ip) + s->payload;
    m->data_len = (uint16_t) RTE_MAX(14 + len, (uint32_t) FRAME_MIN);
    m->pkt_len = m->data_len;
    if (side == GUEST) {
        memcpy(opt, guest_memory, m->data_len - (size_t) (opt - eth));
    }

    memset(eth, 0, 12);
    eth[0] = eth[6] = 2;
    eth[side == GUEST ? 5 : 11] = 2;
    eth[side == GUEST ? 11 : 5] = 1;
    put16(eth + 12, 0x0800);
    ip[0] = 0x45;
    ip[1] = s->ecn;
    put16(ip + 2, len);
    put32(ip + 4, 0x4000);
    put32(ip + 8, 64 << 24 | 6 << 16);
    put32(ip + 12, side == GUEST ? guest : peer);
    put32(ip + 16, side == GUEST ? peer : guest);
    for (int i = 0; i < 20; i += 2) {
        sum += (uint32_t) (ip[i] << 8 | ip[i + 1]);
    }
    sum = (sum >> 16) + (sum & 0xffff);
    put16(ip + 10, ~(sum + (sum >> 16)));
    put16(tcp, side == GUEST ? guest_port : peer_port);
    put16(tcp + 2, side == GUEST ? peer_port : guest_port);
    put32(tcp + 4, s->seq);
    put32(tcp + 8, s->ack);
    tcp[12] = (uint8_t) ((opt - tcp) / 4 << 4);
    tcp[13] = s->flags;
    put16(tcp + 14, 0xffff);
    put32(tcp + 16, 0);
}

/* Round 0: SYNs; round 1: SYN-ACKs; round 2: ACKs.  Numbers begin at 0. */
static void
handshake(int side, uint32_t round, bool *up, struct segment *s)
{
    /* Whoever sends the data connects. */
    *up = (side == GUEST) == (round != 1);
    s->flags = round == 0 ? SYN : round == 1 ? SYN | ACK : ACK;
    s->seq = round == 2;
    s->ack = round > 0;
    if (side == NETWORK) {
        s->capability = round < 2;
        s->ecn = ECT0;
    }
}

/* Returns false if there is nothing to send yet. */
static bool
stream(int side, uint32_t slot, uint32_t visit, bool *up, struct segment *s)
{
    uint32_t period = n_data + n_acks;
    uint32_t shift = slot % period;     /* So that not all send data at once. */
    uint32_t missing = RTE_MIN(shift, n_data);  /* In the first cycle. */
    uint32_t phase = (visit + shift) % period;
    uint32_t cycle = (visit + shift) / period;

    s->flags = ACK;
    s->ecn = side == NETWORK ? ECT0 : NOT_ECT;
    if (phase < n_data) {
        uint32_t n = cycle * n_data + phase - missing;

        *up = side == GUEST;
        s->seq = 1 + n * MSS;
        s->ack = 1;
        s->payload = MSS;
        if (side == NETWORK && n % CE_EVERY == 0) {
            s->ecn = CE;
        }
    } else {
        int64_t acked;

        if (visit < lag) {
            return false;
        }
        acked = (int64_t) ((cycle - lag / period) * n_data)
                * MSS - (int64_t) missing * MSS
                + (int64_t) n_data * MSS * (phase - n_data + 1) / n_acks;
        if (acked <= 0) {
            return false;
        }
        *up = side == NETWORK;
        s->seq = 1;
        s->ack = 1 + (uint32_t) acked;
        s->acked = (uint64_t) acked;
        s->feedback = side == NETWORK;
    }
    return true;
}

static void
take_sample(int side)
{
    uint64_t n = report->sides[side].n;
    struct sample *s = &report->sides[side].samples[n % N_SAMPLES];
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    s->packets = sides[side].sent;
    s->other = sides[!side].packets;
    s->cpu_ns = (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
    s->cycles = rte_rdtsc();
    report->sides[side].n = n + 1;
    sides[side].next_sample = sides[side].sent + SAMPLE;

    if (side == GUEST && count_to) {
        static uint64_t began;

        if (!began && s->packets >= count_from) {
            began = s->packets + s->other;
            CALLGRIND_START_INSTRUMENTATION;
        } else if (began && s->packets >= count_to) {
            CALLGRIND_DUMP_STATS;
            CALLGRIND_STOP_INSTRUMENTATION;
            report->counted = s->packets + s->other - began;
            count_to = 0;
        }
    }
}

static uint16_t
receive(uint16_t port __rte_unused, uint16_t queue __rte_unused,
        struct rte_mbuf *mbufs[], uint16_t n_mbufs,
        uint16_t max __rte_unused, void *side_)
{
    int side = side_ == &sides[NETWORK];
    struct side *own = &sides[side], *other = &sides[!side];
    uint64_t limit;
    uint16_t n = 0;

    if (!report->go) {
        rte_pktmbuf_free_bulk(mbufs, n_mbufs);
        return 0;
    }
    /* It polls again, so it has dealt with the last batch. */
    atomic_store_explicit(&own->done, own->pos, memory_order_release);
    atomic_store_explicit(&own->packets, own->sent, memory_order_relaxed);
    if (own->sent >= own->next_sample) {
        take_sample(side);
    }

    limit = atomic_load_explicit(&other->done, memory_order_acquire);
    if (own->round < 3) {
        /* A SYN-ACK after its SYN, and so on. */
        limit += n_slots;
    } else {
        limit += RTE_MIN((uint64_t) lag * n_slots, (uint64_t) LEAD);
        report->streaming = 1;
    }
    while (n < n_mbufs && own->pos < limit) {
        struct segment s = { .seq = 0 };
        bool up;

        if (own->round < 3) {
            handshake(side, own->round, &up, &s);
            make_frame(mbufs[n++], side, own->turn, up, &s);
        } else if (stream(side, own->slot, own->round - 3, &up, &s)) {
            make_frame(mbufs[n++], side, own->slot, up, &s);
        }
        own->pos++;
        own->slot += step;
        if (own->slot >= n_slots) {
            own->slot -= n_slots;
        }
        if (++own->turn == n_slots) {
            own->turn = 0;
            own->round++;
        }
    }
    rte_pktmbuf_free_bulk(mbufs + n, n_mbufs - n);
    own->sent += n;
    return n;
}

/* What vhost-user does to hand frames to a guest. */
static uint16_t
copy_out(uint16_t port __rte_unused, uint16_t queue __rte_unused,
         struct rte_mbuf *mbufs[], uint16_t n, void *arg __rte_unused)
{
    static __thread uint8_t memory[FRAME_MAX];

    for (uint16_t i = 0; i < n; i++) {
        memcpy(memory, rte_pktmbuf_mtod(mbufs[i], void *),
               RTE_MIN(mbufs[i]->data_len, (uint16_t) sizeof memory));
        __asm__ volatile("" : : "r" (memory) : "memory");
    }
    return n;
}

/* Waits until OVS has configured a port. */
static uint16_t
wait_for_port(const char *name, struct rte_eth_dev_info *info)
{
    uint16_t port;

    while (rte_eth_dev_get_port_by_name(name, &port)
           || rte_eth_dev_info_get(port, info) || !info->nb_rx_queues) {
        usleep(1000);
    }
    return port;
}

static void *
attach(void *arg __rte_unused)
{
    static const char *const names[] = { "net_null0", "net_null1" };
    struct rte_eth_dev_info info;

    for (int side = GUEST; side <= NETWORK; side++) {
        uint16_t port = wait_for_port(names[side], &info);

        if (!rte_eth_add_rx_callback(port, 0, receive, &sides[side])) {
            abort();
        }
    }
    /* The number of these changes with that of the threads. */
    while (!report->go) {
        usleep(1000);
    }
    uint16_t port = wait_for_port(names[GUEST], &info);
    for (uint16_t q = 0; q < info.nb_tx_queues; q++) {
        if (!rte_eth_add_tx_callback(port, q, copy_out, NULL)) {
            abort();
        }
    }
    return NULL;
}

static uint32_t
gcd(uint32_t a, uint32_t b)
{
    return b ? gcd(b, a % b) : a;
}

__attribute__((constructor)) static void
begin(void)
{
    const char *config = getenv("ACDC_BENCH");
    unsigned long long from, to;
    char path[256];
    pthread_t thread;
    uint32_t period;
    int fd;

    if (!config
        || sscanf(config, "slots=%u,data=%u,acks=%u,count=%llu-%llu,"
                  "report=%255s", &n_slots, &n_data, &n_acks, &from, &to,
                  path) != 6
        || !n_slots || !n_data || !n_acks
        || (fd = open(path, O_RDWR)) < 0) {
        fputs("tcp-source: bad ACDC_BENCH\n", stderr);
        abort();
    }
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                  0);
    close(fd);
    if (report == MAP_FAILED) {
        abort();
    }
    count_from = from;
    count_to = to;
    period = n_data + n_acks;
    lag = (LAG / n_slots / period + 1) * period;
    /* Near the golden section: neighbours in memory are far apart in time. */
    step = (uint32_t) (n_slots * 0.618);
    while (!step || gcd(step, n_slots) != 1) {
        step++;
    }
    step %= n_slots;
    if (pthread_create(&thread, NULL, attach, NULL)) {
        abort();
    }
    pthread_detach(thread);
}
