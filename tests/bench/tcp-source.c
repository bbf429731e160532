/* SPDX-License-Identifier: Apache-2.0 */

/* TCP connections for tests/bench/dpdk, from inside ovs-vswitchd.
 *
 * A library that DPDK loads (-d).  It turns what net_null's ports receive into
 * packets of tcp-frames.h: net_null0 is a guest's port, net_null1 leads to the
 * network.  A capture that net_pcap replays (infinite_rx) repeats the same
 * sequence numbers, which to anything that follows connections is a storm of
 * retransmissions, and OVS's mempools are too small for a capture of a million
 * connections.
 *
 * Between rounds the network's last ACKs are repeated if these are more than 200 ms old: the
 * process is stopped at times, or waits for a processor, and who sends for half a second and hears
 * nothing would not be followed (datapath/acdc-unseen.c).  A figure is of other packets.
 *
 * The guest's port copies each frame in and out, as vhost-user does. */

#include <pthread.h>
#include <stdatomic.h>
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
#include <rte_prefetch.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_DUMP_STATS
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

#include "../acdc_testlib/dpdk-port.h"
#include "tcp-frames.h"

enum {
    LEAD = 4096,                /* One side before the other, most. */
    SAMPLE = 4096,              /* Packets. */
    N_SAMPLES = 1 << 16,
    MAX_PERIOD = 64,            /* Visits of a cycle. */
};
#define ACK_AGE_NS 2e8

/* Shared with tests/bench/dpdk, which maps the same file. */
struct sample {
    uint64_t packets;           /* Of this side so far. */
    uint64_t other;             /* Of the other side. */
    uint64_t cpu_ns;            /* Of the thread that polls this side... */
    uint64_t idle_ns;           /* ...and what of it this side had nothing. */
    uint64_t cycles;
    uint64_t repeated;          /* Of the network's ACKs. */
};
struct report {
    _Atomic uint64_t go;        /* Set by the other end: begin. */
    _Atomic uint64_t streaming; /* Handshakes are done. */
    _Atomic uint64_t counted;   /* Packets that callgrind's counts are of. */
    _Atomic uint64_t pause_ns;  /* The longest time between two polls of the
                                 * guest's port, of anybody's doing.  The other
                                 * end may set it to 0. */
    _Atomic uint64_t repeated;  /* ACKs so far. */
    struct {
        _Atomic uint64_t n;
        struct sample samples[N_SAMPLES];       /* A ring. */
    } sides[2];
};

/* What its own thread writes all the time, and the others must not share a cache
 * line with, nor a pair of lines: waiting for that is no part of the switch. */
#define APART _Alignas(128)
struct side {
    APART struct visits visits;
    uint64_t idle_ns, idle_since;
    uint64_t sent;              /* Packets. */
    uint64_t next_sample;
    uint64_t other_done;        /* The other side's 'done', as last read. */
    uint64_t polled;            /* Cycles, when last. */
    /* Visits whose packets the switch has dealt with. */
    APART _Atomic uint64_t done;
    _Atomic uint64_t packets;   /* 'sent', for the other side. */
};

static struct side sides[2];
APART static struct report *report;     /* From here on only read. */
static struct {                 /* Of the network's side, see may_repeat(). */
    uint64_t began[MAX_PERIOD]; /* The last rounds, cycles. */
    uint32_t round;             /* The one that began last. */
    uint32_t left;              /* ACKs to be repeated before it goes on. */
} repeats;
static uint64_t count_from, count_to;   /* Packets, for callgrind. */
static uint8_t guest_memory[FRAME_MAX];
static double ns_per_cycle;

static uint64_t
cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void
note_pause(struct side *own)
{
    uint64_t now = rte_rdtsc();

    if (own->polled) {
        uint64_t ns = (uint64_t) ((double) (now - own->polled)
                                  * ns_per_cycle);

        if (ns > report->pause_ns) {
            report->pause_ns = ns;
        }
    }
    own->polled = now;
}

static void
take_sample(int side)
{
    uint64_t n = report->sides[side].n;
    struct sample *s = &report->sides[side].samples[n % N_SAMPLES];

    s->packets = sides[side].sent;
    s->other = sides[!side].packets;
    s->cpu_ns = cpu_ns();
    s->idle_ns = sides[side].idle_ns;
    s->cycles = rte_rdtsc();
    s->repeated = atomic_load_explicit(&report->repeated, memory_order_relaxed);
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

/* Where a side must wait for the other.  It looks where that is only when it must,
 * and lets the line come meanwhile: with threads of their own it comes from another
 * processor, which no network card would have the switch wait for. */
static uint64_t
limit_of(const struct side *own)
{
    const struct visits *v = &own->visits;

    return own->other_done + (v->round < HANDSHAKE ? lead(v)
                              : RTE_MIN(lead(v), (uint64_t) LEAD));
}

static bool
may_go(struct side *own, const struct side *other)
{
    if (own->visits.pos >= limit_of(own)) {
        own->other_done = atomic_load_explicit(&other->done,
                                               memory_order_acquire);
    }
    return own->visits.pos < limit_of(own);
}

/* Whether an ACK of slot '*slot' is to be repeated before the network's side goes on. */
static bool
may_repeat(const struct visits *v, uint32_t *slot)
{
    uint32_t period = n_data + n_acks;

    if (v->round <= HANDSHAKE) {
        return false;
    }
    if (v->round != repeats.round) {
        uint64_t now = rte_rdtsc(), *began = &repeats.began[v->round % period];

        /* Within so many rounds each connection has had an ACK. */
        repeats.left = (double) (now - *began) * ns_per_cycle > ACK_AGE_NS ? n_slots : 0;
        for (uint32_t i = 0; repeats.left && i < period; i++) {
            repeats.began[i] = now;
        }
        *began = now;
        repeats.round = v->round;
    }
    if (!repeats.left) {
        return false;
    }
    *slot = --repeats.left;
    atomic_fetch_add_explicit(&report->repeated, 1, memory_order_relaxed);
    return true;
}

static uint16_t
next_of(struct side *own, int side, uint8_t *frame)
{
    struct visits *v = &own->visits;
    uint32_t slot;

    return side == NETWORK && may_repeat(v, &slot)
           ? repeat_ack(slot, v->round - HANDSHAKE - 1, frame)
           : next_frame(v, side, frame);
}

static uint16_t
receive(uint16_t port __rte_unused, uint16_t queue __rte_unused,
        struct rte_mbuf *mbufs[], uint16_t n_mbufs,
        uint16_t max __rte_unused, void *side_)
{
    int side = side_ == &sides[NETWORK];
    struct side *own = &sides[side], *other = &sides[!side];
    uint16_t n = 0;

    if (!report->go) {
        rte_pktmbuf_free_bulk(mbufs, n_mbufs);
        return 0;
    }
    if (side == GUEST) {
        note_pause(own);
    }
    /* It polls again, so it has dealt with the last batch. */
    atomic_store_explicit(&own->done, own->visits.pos, memory_order_release);
    atomic_store_explicit(&own->packets, own->sent, memory_order_relaxed);
    if (own->sent >= own->next_sample) {
        take_sample(side);
    }

    if (own->visits.round >= HANDSHAKE && !report->streaming) {
        report->streaming = 1;
    }
    if (own->visits.pos + n_mbufs >= limit_of(own)) {
        rte_prefetch0((const void *) &other->done);
    }
    while (n < n_mbufs && may_go(own, other)) {
        uint8_t *frame = rte_pktmbuf_mtod(mbufs[n], uint8_t *);
        uint16_t len = next_of(own, side, frame);

        if (len) {
            if (side == GUEST && len == FRAME_MAX) {
                memcpy(frame + 54, guest_memory + 54, len - 54u);
            }
            mbufs[n]->data_len = len;
            mbufs[n++]->pkt_len = len;
        }
    }
    rte_pktmbuf_free_bulk(mbufs + n, n_mbufs - n);
    own->sent += n;
    if (!n && !own->idle_since) {
        own->idle_since = cpu_ns();
    } else if (n && own->idle_since) {
        own->idle_ns += cpu_ns() - own->idle_since;
        own->idle_since = 0;
    }
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

static void *
attach(void *arg __rte_unused)
{
    static const char *const names[] = { "net_null0", "net_null1" };
    struct rte_eth_dev_info info;

    for (int side = GUEST; side <= NETWORK; side++) {
        uint16_t port = wait_for_port(names[side], &info);

        ns_per_cycle = 1e9 / (double) rte_get_tsc_hz();
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

__attribute__((constructor)) static void
begin(void)
{
    const char *config = getenv("ACDC_BENCH");
    unsigned long long from, to;
    char path[256];
    pthread_t thread;
    uint32_t slots, data, acks;
    int fd;

    if (!config
        || sscanf(config, "slots=%u,data=%u,acks=%u,count=%llu-%llu,"
                  "report=%255s", &slots, &data, &acks, &from, &to,
                  path) != 6
        || !slots || !data || !acks || data + acks > MAX_PERIOD
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
    init_frames(slots, data, acks);
    if (pthread_create(&thread, NULL, attach, NULL)) {
        abort();
    }
    pthread_detach(thread);
}
