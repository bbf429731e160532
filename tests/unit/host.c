/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "acdc-arena.h"

#ifdef ACDC_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(P, N) ((void) (P), (void) (N))
#define ASAN_UNPOISON_MEMORY_REGION(P, N) ((void) (P), (void) (N))
#endif

static struct {
    pthread_mutex_t mutex;
    struct acdc_rcu *deferred;
} host = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static struct {
    _Atomic int after;          /* 0: do not fail. */
    _Atomic int times;
} failures[HOST_N_CALLS];

static _Atomic int64_t allocated;

void
host_fail(enum host_call call, int n, int times)
{
    failures[call].after = n;
    failures[call].times = times;
}

static bool
fails(enum host_call call)
{
    int n = failures[call].after;

    if (!n) {
        return false;
    }
    if (n > 1) {
        failures[call].after = n - 1;
        return false;
    }
    if (failures[call].times > 0 && !--failures[call].times) {
        failures[call].after = 0;
    }
    return true;
}

void
acdc_host_defer(struct acdc_rcu *r)
{
    pthread_mutex_lock(&host.mutex);
    r->next = host.deferred;
    host.deferred = r;
    pthread_mutex_unlock(&host.mutex);
}

void
host_quiesce(void)
{
    struct acdc_rcu *r, *next;

    pthread_mutex_lock(&host.mutex);
    r = host.deferred;
    host.deferred = NULL;
    pthread_mutex_unlock(&host.mutex);
    for (; r; r = next) {
        next = r->next;
        r->free(r);
    }
}

enum { HEADER = 64 };           /* Of an allocation: its size. */

void *
acdc_host_alloc(size_t size)
{
    uint8_t *p;

    if (fails(HOST_ALLOC)
        || posix_memalign((void **) &p, ACDC_CACHE_LINE, size + HEADER)) {
        return NULL;
    }
    memset(p, 0, size + HEADER);
    memcpy(p, &size, sizeof size);
    allocated += (int64_t) size;
    return p + HEADER;
}

void
acdc_host_free(void *p)
{
    if (p) {
        uint8_t *block = (uint8_t *) p - HEADER;
        size_t size;

        memcpy(&size, block, sizeof size);
        allocated -= (int64_t) size;
        free(block);
    }
}

#ifndef ACDC_ARENA
/* Each on its own, for AddressSanitizer. */
struct acdc_flow *
acdc_host_alloc_flow(size_t size, bool v6)
{
    (void) v6;
    return acdc_host_alloc(size);
}

void
acdc_host_free_flow(struct acdc_flow *f)
{
    acdc_host_free(f);
}
#else
/* In all parts of a flow. */
static void
fill(struct acdc_flow *f, bool v6, int byte)
{
    memset(f, byte, sizeof *f);
    memset(acdc_flow_in(f), byte, sizeof(struct acdc_flow_in));
    if (v6) {
        memset(acdc_flow6(f), byte, sizeof(struct acdc_flow6));
    }
}

struct acdc_flow *
acdc_host_alloc_flow(size_t size, bool v6)
{
    struct acdc_flow *f;

    if (fails(HOST_ALLOC)) {
        return NULL;
    }
    while (!(f = acdc_arena_alloc_flow(size, v6))) {
        acdc_arena_fill(1);
    }
    allocated += (int64_t) size;
    return f;
}

void
acdc_host_free_flow(struct acdc_flow *f)
{
    if (f) {
        bool v6 = acdc_flow_has_three(f);

        allocated -= (int64_t) acdc_flow_size(v6);
        /* What is freed too early is to be seen. */
        fill(f, v6, 0x5a);
        acdc_arena_free_flow(f);
    }
}
#endif

int64_t
host_allocated(void)
{
    return allocated;
}

void
packet_show(struct packet *p, struct acdc_pkt *pkt)
{
    pkt->data = packet_data(p);
    pkt->len = p->len;
    pkt->hlen = p->linear && p->linear < p->len ? p->linear : p->len;
    /* The rest is not linear: the engine must not read it. */
    ASAN_POISON_MEMORY_REGION(pkt->data + pkt->hlen, p->len - pkt->hlen);
}

void
packet_unshow(struct packet *p)
{
    ASAN_UNPOISON_MEMORY_REGION(p->buf, p->headroom + p->len);
}

bool
acdc_host_linear(struct acdc_pkt *pkt, unsigned int n)
{
    struct packet *p = pkt->host;

    if (!p || fails(HOST_LINEAR)) {
        return false;
    }
    if (n > p->len) {
        abort();                /* See the declaration. */
    }
    packet_unshow(p);
    p->linear = n;
    packet_show(p, pkt);
    return true;
}

/* Gives 'p' a buffer of its own with 'headroom'. */
static void
rebuffer(struct packet *p, uint32_t headroom)
{
    uint8_t *buf = xmalloc(headroom + p->len);

    packet_unshow(p);
    memset(buf, 0xa5, headroom);
    memcpy(buf + headroom, packet_data(p), p->len);
    if (!p->shared) {
        free(p->buf);
    }
    p->buf = buf;
    p->headroom = headroom;
    p->shared = false;
}

uint8_t *
acdc_host_push(struct acdc_pkt *pkt, unsigned int n)
{
    struct packet *p = pkt->host;

    if (fails(HOST_PUSH)) {
        return NULL;
    }
    if (p->shared) {
        abort();                /* acdc_host_writable() was not called. */
    }
    if (p->headroom < n) {
        rebuffer(p, p->headroom + n);
    }
    p->headroom -= n;
    p->len += n;
    if (p->linear) {
        p->linear += n;
    }
    packet_show(p, pkt);
    return pkt->data;
}

uint8_t *
acdc_host_pull(struct acdc_pkt *pkt, unsigned int n)
{
    struct packet *p = pkt->host;

    if (fails(HOST_PULL)) {
        return NULL;
    }
    if (p->shared) {
        abort();
    }
    p->headroom += n;
    p->len -= n;
    if (p->linear) {
        p->linear -= n;
    }
    packet_show(p, pkt);
    return pkt->data;
}

void
acdc_host_trim(struct acdc_pkt *pkt, unsigned int n)
{
    struct packet *p = pkt->host;

    if (p->shared || (p->linear && p->linear < p->len) || n > p->len) {
        abort();                /* See the declaration. */
    }
    p->len -= n;
    packet_show(p, pkt);
}

bool
acdc_host_writable(struct acdc_pkt *pkt)
{
    struct packet *p = pkt->host;

    if (fails(HOST_WRITABLE)) {
        return false;
    }
    if (p->shared) {
        rebuffer(p, p->headroom);
        packet_show(p, pkt);
    }
    return true;
}

void
acdc_host_set_path(struct acdc_pkt *pkt, uint32_t hash)
{
    struct packet *p = pkt->host;

    p->path = hash;
}

/* Packets injected before one of a batch. */
struct injected {
    struct packet *list;
};

uint8_t *
acdc_host_inject(struct acdc_pkt *like, unsigned int len)
{
    const struct packet *original = like->host;
    struct injected *injected = like->aux;
    struct packet **tail = &injected->list;
    struct packet *p;

    if (fails(HOST_INJECT)) {
        return NULL;
    }
    p = packet_new(len, 0);
    p->path = original->path;
    memset(packet_data(p), 0x5a, len);
    while (*tail) {
        tail = &(*tail)->next;
    }
    *tail = p;
    return packet_data(p);
}

uint64_t host_clock_offset;

uint64_t
acdc_host_clock(uint64_t now)
{
    return now + host_clock_offset;
}

uint32_t
acdc_host_seed(void)
{
    return 0x5eed;
}

/* What the host keeps of 'p', which leaves. */
static void
keep(struct packet *p, const struct acdc_pkt *pkt, uint64_t now)
{
    uint32_t headers = (uint32_t) pkt->l4_ofs + pkt->tcp_hlen;
    struct packet *kept;

    /* What the other end's host has kept of it. */
    packet_free(p->kept);
    p->kept = NULL;
    if (!pkt->keep_len) {
        return;
    }
    kept = packet_new(headers + pkt->keep_len, 0);
    memcpy(packet_data(kept), packet_data(p), headers);
    memcpy(packet_data(kept) + headers,
           packet_data(p) + headers + acdc_tail_skip(pkt), pkt->keep_len);
    acdc_tail_cut(pkt, packet_data(kept));
    kept->l3_ofs = p->l3_ofs;
    kept->ethertype = p->ethertype;
    kept->csum_partial = pkt->csum_partial;
    p->kept = kept;
    p->kept_until = (pkt->verdict == ACDC_HOLD ? pkt->release : now)
                    + (uint64_t) pkt->keep_time * ACDC_KEEP_US * 1000;
}

struct packet *
host_process(struct acdc_port *port, enum acdc_dir dir, struct packet *list,
             uint64_t now)
{
    struct packet *out = NULL;
    struct packet **tail = &out;

    while (list) {
        struct acdc_pkt pkts[ACDC_BATCH_MAX];
        struct packet *packets[ACDC_BATCH_MAX];
        struct injected injected[ACDC_BATCH_MAX];
        unsigned int n, i;

        for (n = 0; list && n < ACDC_BATCH_MAX; n++) {
            struct packet *p = list;

            list = p->next;
            p->next = NULL;
            packets[n] = p;
            injected[n].list = NULL;
            acdc_pkt_init(&pkts[n], NULL, 0, 0);
            pkts[n].host = p;
            pkts[n].aux = &injected[n];
            pkts[n].l3_ofs = p->l3_ofs;
            pkts[n].ethertype = p->ethertype;
            pkts[n].gso = p->gso;
            pkts[n].csum_partial = p->csum_partial;
            /* Of half of them, by a hash of the time, it is known; unless
             * asking is to fail. */
            if ((now + n) * 0x9e3779b97f4a7c15ull >> 63 && !p->shared
                && !failures[HOST_WRITABLE].after) {
                pkts[n].writable = ACDC_W_YES;
            }
            packet_show(p, &pkts[n]);
        }
        acdc_process(port, dir, pkts, n, now);
        for (i = 0; i < n; i++) {
            struct packet *p = packets[i];

            packet_unshow(p);
            if (pkts[i].data != packet_data(p) || pkts[i].len != p->len) {
                abort();        /* Lost track of the packet. */
            }
            if (pkts[i].ip_version
                && pkts[i].tcp_hlen != (acdc_pkt_tcp(&pkts[i])[12] >> 4) * 4) {
                abort();        /* The kernel's host sums up the headers. */
            }
            for (*tail = injected[i].list; *tail; tail = &(*tail)->next) {
                continue;
            }
            p->release = pkts[i].verdict == ACDC_HOLD ? pkts[i].release : 0;
            p->piece = pkts[i].piece;
            p->piece_ns = pkts[i].piece_ns;
            keep(p, &pkts[i], now);
            if (pkts[i].verdict != ACDC_DROP) {
                *tail = p;
                tail = &p->next;
            } else {
                packet_free(p);
            }
        }
    }
    return out;
}
