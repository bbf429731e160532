/* SPDX-License-Identifier: Apache-2.0 */

/* Two guests for tests/bench/vhost that take no processor to emulate: a DPDK
 * application whose two virtio-user devices are to a switch what two machines'
 * network cards are, the same rings in the same kind of shared memory.
 *
 *     vhost-source EAL-OPTIONS --vdev=net_virtio_user0,... \
 *         --vdev=net_virtio_user1,... -- SLOTS DATA ACKS TSO REPORT
 *
 * Each guest sends the other its side of the connections of tcp-frames.h.  No
 * more than 'window' frames are on their way in either direction, so that no
 * ring overflows, nothing is lost, and what goes through is what the switch
 * takes.  With a window of one a frame finds nothing before it: the time it
 * takes is the switch's latency. */

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "tcp-frames.h"

enum {
    RING = 1024,                /* Of a card. */
    BURST = 32,
    LEAD = 4096,                /* One side before the other, most. */
    SAMPLE = 4096,              /* Frames. */
    N_SAMPLES = 1 << 16,
    LATENCY_NS = 20,            /* A bin. */
    N_LATENCIES = 1 << 13,      /* The last one: that or more. */
};

/* Shared with tests/bench/vhost, which maps the same file. */
struct report {
    /* Set by the other end: */
    _Atomic uint64_t window;    /* Frames on their way in each direction, most,
                                 * at most RING / 2; 0 before it begins. */
    /* Set here.  Counts only grow, and one thread writes them: see add(). */
    _Atomic uint64_t sent, arrived; /* Frames so far, in both directions. */
    _Atomic uint64_t streaming; /* Handshakes are done. */
    _Atomic uint64_t segments;  /* Of a frame with data. */
    _Atomic uint64_t strays;    /* Frames that nobody sent. */
    _Atomic uint64_t n;
    struct {
        uint64_t frames, bytes; /* Arrived so far, in both directions. */
        uint64_t ns;            /* CLOCK_MONOTONIC. */
    } samples[N_SAMPLES];       /* A ring. */
    _Atomic uint64_t latencies[N_LATENCIES];    /* Frames by the time they
                                                 * took. */
};

/* What one guest sends the other.  Nothing overtakes but within a batch of the
 * switch, which has then seen all of it. */
struct way {
    uint16_t port;              /* The sender's. */
    struct visits visits;
    uint64_t sent, arrived;     /* Frames: one that is lost makes others seem to
                                 * arrive late, until 'window' of them are. */
    struct {
        uint64_t visit;         /* Those before it. */
        uint64_t tsc;
    } on_way[RING];
};

static struct way ways[2];
static struct report *report;
static struct rte_mempool *pool;
static bool tso;
static double ns_per_cycle;
static uint64_t frames, bytes, next_sample = SAMPLE;

static void
fail(const char *what, int error)
{
    fprintf(stderr, "vhost-source: %s: %s\n", what, strerror(error));
    exit(EXIT_FAILURE);
}

/* Without the bus lock of an atomic addition. */
static void
add(_Atomic uint64_t *count, uint64_t n)
{
    atomic_store_explicit(
        count, atomic_load_explicit(count, memory_order_relaxed) + n,
        memory_order_relaxed);
}

static void
take_sample(void)
{
    uint64_t n = report->n;
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    report->samples[n % N_SAMPLES].frames = frames;
    report->samples[n % N_SAMPLES].bytes = bytes;
    report->samples[n % N_SAMPLES].ns
        = (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
    report->n = n + 1;
    next_sample = frames + SAMPLE;
}

/* Takes what came along 'way' from its receiver's card. */
static void
receive(struct way *way, uint16_t port)
{
    struct rte_mbuf *mbufs[BURST];
    uint16_t n = rte_eth_rx_burst(port, 0, mbufs, BURST);
    uint64_t now = n ? rte_rdtsc() : 0;

    for (uint16_t i = 0; i < n; i++) {
        uint64_t bin;

        if (way->arrived == way->sent) {
            add(&report->strays, 1);
            continue;
        }
        bin = (uint64_t) ((double) (now - way->on_way[way->arrived % RING].tsc)
                          * ns_per_cycle) / LATENCY_NS;
        add(&report->latencies[RTE_MIN(bin, (uint64_t) N_LATENCIES - 1)], 1);
        way->arrived++;
        frames++;
        bytes += mbufs[i]->pkt_len;
    }
    atomic_store_explicit(&report->arrived, frames, memory_order_relaxed);
    rte_pktmbuf_free_bulk(mbufs, n);
    if (frames >= next_sample) {
        take_sample();
    }
}

/* Headers' lengths, for a card that is to finish checksums and cut segments. */
static void
ask_for_offloads(struct rte_mbuf *m)
{
    m->l2_len = 14;
    m->l3_len = 20;
    m->l4_len = *rte_pktmbuf_mtod_offset(m, const uint8_t *, 14 + 20 + 12)
                >> 4 << 2;
    m->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_CKSUM;
    if (m->pkt_len > FRAME_MAX) {
        m->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
        m->tso_segsz = MSS;
    }
}

/* An ACK's checksum, as the network sends it: of a connection whose guest sent and heard
 * nothing in three ticks, as the switch was stopped in between, the engine believes no
 * other. */
static void
sum_ack(uint8_t *frame)
{
    uint8_t *ip = frame + 14, *tcp = ip + 20;
    uint32_t len = (uint32_t) (ip[2] << 8 | ip[3]) - 20;

    put16(tcp + 16, 0);
    put16(tcp + 16, tcp_checksum(ip, tcp, len));
}

static void
send_some(struct way *way, const struct way *other, int side)
{
    uint64_t on_way = way->sent - way->arrived, window = report->window;
    struct rte_mbuf *mbufs[BURST];
    uint64_t limit, now;
    uint16_t n = 0, max;

    if (on_way >= window) {
        return;
    }
    max = (uint16_t) RTE_MIN(window - on_way, (uint64_t) BURST);
    /* What the switch has dealt with of the other side's. */
    limit = other->arrived == other->sent
            ? other->visits.pos : other->on_way[other->arrived % RING].visit;
    if (way->visits.round < HANDSHAKE) {
        limit += lead(&way->visits);
    } else {
        limit += RTE_MIN(lead(&way->visits), (uint64_t) LEAD);
        atomic_store_explicit(&report->streaming, 1, memory_order_relaxed);
    }
    if (way->visits.pos >= limit
        || rte_pktmbuf_alloc_bulk(pool, mbufs, max)) {
        return;
    }
    now = rte_rdtsc();
    while (n < max && way->visits.pos < limit) {
        uint64_t visit = way->visits.pos, at = (way->sent + n) % RING;
        uint16_t len = next_frame(&way->visits, side,
                                  rte_pktmbuf_mtod(mbufs[n], uint8_t *));

        if (len) {
            mbufs[n]->data_len = len;
            mbufs[n]->pkt_len = len;
            if (tso) {
                ask_for_offloads(mbufs[n]);
            } else if (side == NETWORK && len < FRAME_MIN + 40) {
                sum_ack(rte_pktmbuf_mtod(mbufs[n], uint8_t *));
            }
            way->on_way[at].visit = visit;
            way->on_way[at].tsc = now;
            n++;
        }
    }
    rte_pktmbuf_free_bulk(mbufs + n, max - n);
    if (tso && rte_eth_tx_prepare(way->port, 0, mbufs, n) != n) {
        fail("a card refuses a frame", rte_errno);
    }
    way->sent += n;
    add(&report->sent, n);
    /* There is room: see 'window'. */
    for (uint16_t done = 0; done < n; ) {
        done += rte_eth_tx_burst(way->port, 0, mbufs + done, n - done);
    }
}

static void
start_port(uint16_t port)
{
    struct rte_eth_conf conf = { .rxmode = { .mq_mode = RTE_ETH_MQ_RX_NONE } };
    int error;

    if (tso) {
        conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_TCP_CKSUM
                               | RTE_ETH_TX_OFFLOAD_TCP_TSO;
        conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_TCP_CKSUM
                               | RTE_ETH_RX_OFFLOAD_TCP_LRO;
    }
    if ((error = rte_eth_dev_configure(port, 1, 1, &conf))
        || (error = rte_eth_rx_queue_setup(port, 0, RING, SOCKET_ID_ANY, NULL,
                                           pool))
        || (error = rte_eth_tx_queue_setup(port, 0, RING, SOCKET_ID_ANY, NULL))
        || (error = rte_eth_dev_start(port))) {
        fail("cannot start a card", -error);
    }
}

int
main(int argc, char *argv[])
{
    int used = rte_eal_init(argc, argv), slots, data, acks, fd;

    if (used < 0 || argc - used != 6
        || (slots = atoi(argv[used + 1])) < 1
        || (data = atoi(argv[used + 2])) < 1
        || (acks = atoi(argv[used + 3])) < 1) {
        fputs("vhost-source EAL-OPTIONS -- SLOTS DATA ACKS TSO REPORT\n",
              stderr);
        return 2;
    }
    argv += used;
    tso = atoi(argv[4]);
    init_frames((uint32_t) slots, (uint32_t) data, (uint32_t) acks);
    if (tso) {
        large_frames();
    }
    fd = open(argv[5], O_RDWR);
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                  0);
    if (report == MAP_FAILED) {
        fail(argv[5], errno);
    }
    close(fd);
    report->segments = n_segments;
    ns_per_cycle = 1e9 / (double) rte_get_tsc_hz();

    pool = rte_pktmbuf_pool_create("frames", 8 * RING, 0, 0,
                                   (uint16_t) (RTE_PKTMBUF_HEADROOM
                                               + 54 + 40
                                               + n_segments * MSS),
                                   SOCKET_ID_ANY);
    if (!pool) {
        fail("memory", rte_errno);
    }
    for (int side = GUEST; side <= NETWORK; side++) {
        static const char *const names[] = {
            "net_virtio_user0", "net_virtio_user1"
        };
        int error = rte_eth_dev_get_port_by_name(names[side],
                                                 &ways[side].port);

        if (error) {
            fail(names[side], -error);
        }
        start_port(ways[side].port);
    }
    while (!report->window) {
        usleep(1000);
    }
    for (;;) {
        for (int side = GUEST; side <= NETWORK; side++) {
            receive(&ways[!side], ways[side].port);
            send_some(&ways[side], &ways[!side], side);
        }
    }
}
