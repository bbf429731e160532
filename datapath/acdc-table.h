/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Finding the flows of a batch, in line: two steps for all of its packets, then
 * those that fetch some packets ahead of the one that is processed. */

#ifndef ACDC_TABLE_H
#define ACDC_TABLE_H 1

#include "acdc-private.h"

/* Hash. -------------------------------------------------------------------- */

/* The finalizer of MurmurHash3 but for its last step, which is for the lower
 * half: of the upper one all bits depend on all of 'h'. */
static inline uint64_t
acdc_hash_mix(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    return h * 0xc4ceb9fe1a85ec53ull;
}

/* Of all hashes for a port, by its 'idx': an odd number that nobody knows, so
 * that nobody can aim at one bucket. */
static inline uint64_t
acdc_hash_basis(const struct acdc *acdc, uint32_t idx)
{
    return acdc_hash_mix((uint64_t) acdc->seed << 32 | idx) | 1;
}

/* Of a connection, which selects its bucket. */
static inline uint32_t
acdc_hash(uint64_t basis, uint32_t ports, uint64_t addrs)
{
    /* Never of 0, which would make it 0. */
    uint64_t h = basis * ((uint64_t) ports + 1);

    return (uint32_t) (acdc_hash_mix(h ^ addrs) >> 32);
}

/* Of what 'addrs' has in IPv6: all but VLANs. */
#define ACDC_ADDRS6 (~(uint64_t) 0xffffff)

/* Of the addresses of an IPv6 packet: what struct acdc_flow has of them. */
uint64_t acdc_hash_addrs6(const struct acdc_ctx *, const struct acdc_pkt *p);

/* Which connection 'p' is of, seen from the guest: its 'addrs' and 'ports', as
 * in struct acdc_flow, and 'bucket', which is fetched. */
static ACDC_ALWAYS_INLINE void
acdc_table_set_key(const struct acdc_ctx *ctx, struct acdc_pkt *p,
                   enum acdc_dir dir)
{
    bool ingress = dir == ACDC_INGRESS;
    uint32_t ports = acdc_load32(acdc_pkt_tcp(p));
    uint64_t addrs;

    ports = ingress ? ports << 16 | ports >> 16 : ports;
    if (acdc_likely(p->ip_version == 4)) {
        addrs = acdc_load64(acdc_pkt_ip(p) + 12);
        addrs = ingress ? addrs << 32 | addrs >> 32 : addrs;
        p->addrs = addrs;
    } else {
        addrs = acdc_hash_addrs6(ctx, p) & ACDC_ADDRS6;
        p->addrs = addrs | p->vids;
    }
    p->ports = ports;
    p->bucket = &ctx->table->buckets[acdc_hash(ctx->basis, ports, addrs)
                                     & ctx->table->mask];
    if (!ACDC_ONE_A_CALL) {
        ACDC_PREFETCH(p->bucket);
    }
}

/* Flows. ------------------------------------------------------------------- */

/* Stands for no flow where that saves a branch which no processor can predict:
 * may be read, leads to no other, and no packet is of it (acdc_port.idx is not
 * 0). */
#ifdef ACDC_ARENA
#define acdc_nil() acdc_link_flow(0)
#else
extern struct acdc_flow acdc_no_flow;   /* In acdc-table.c. */
#define acdc_nil() (&acdc_no_flow)
#endif

static ACDC_ALWAYS_INLINE struct acdc_flow *
acdc_link_follow(const acdc_link *l)
{
#ifdef ACDC_ARENA
    return acdc_link_flow(acdc_ptr_load(l));
#else
    struct acdc_flow *f = acdc_ptr_load(l);

    return f ? f : acdc_nil();
#endif
}

/* Whether 'p' is not of 'f'.  If not, it is most likely: that two connections of
 * one bucket have the same ports is rare. */
static ACDC_ALWAYS_INLINE bool
acdc_flow_differs(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return f->ports != p->ports;
}

/* What a packet needs of a flow's other part, which may begin anywhere in a cache
 * line: as far as the law's window, or with feedback all of it.  'f' is in the
 * cache or acdc_nil(). */
static ACDC_ALWAYS_INLINE void
acdc_flow_prefetch_in(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    const struct acdc_flow_in *in = acdc_flow_in(f);
    uintptr_t last = (uintptr_t) in
                     + offsetof(struct acdc_flow_in, law.round_left) - 1;

    /* As good as '? :', and shorter. */
    ACDC_BUILD_ASSERT(offsetof(struct acdc_flow_in, law.round_left)
                      + ACDC_O_FEEDBACK >= sizeof(struct acdc_flow_in));
    ACDC_PREFETCH(in);
    ACDC_PREFETCH((const void *) (last + (p->opt_flags & ACDC_O_FEEDBACK)));
}

/* For who goes through the buckets and is at 'hand': fetches a flow that it will
 * look at after some more, and returns it, or NULL. */
static inline const struct acdc_flow *
acdc_table_prefetch(const struct acdc_table *t, uint32_t hand)
{
    const struct acdc_flow *f
        = acdc_link_load(&t->buckets[(hand + 16) & t->mask]);

    if (f) {
        ACDC_PREFETCH(f);
    }
    return f;
}

/* A flow comes from memory in steps: its bucket, the first flow of that, which
 * most often is the one, where it is not the second (in a full table for one in
 * five), or the third (for one in thirty).  The first two steps are done for a
 * whole batch, so that its packets wait for memory together.  The others have
 * several cache lines each, and a processor waits for only so many at a time:
 * they are done some packets ahead of the one that is processed. */
enum { ACDC_AHEAD = 8 };

static ACDC_ALWAYS_INLINE void
acdc_table_find_first(struct acdc_pkt *p)
{
    struct acdc_flow *f = acdc_link_follow(p->bucket);

    p->flow = f;
    /* Without asking, a batch takes 2 to 4 ns a packet more at a million flows:
     * a processor loses prefetches that come faster than it can take them. */
    if (f != acdc_nil()) {
        ACDC_PREFETCH(f);
    }
}

/* Arithmetic chooses between the first and the second flow.  gcc would make a branch of
 * '? :', which processors mispredict as often as it is the second.
 *
 * Where other threads have packets of the same connections it fetches the flow
 * as to be written, as its lock will be taken: else its line would come a second
 * time for that, and not ahead.  For one thread alone that took 3 to 5 per
 * cent longer on one of two processors. */
static ACDC_ALWAYS_INLINE void
acdc_table_find_second(const struct acdc_ctx *ctx, struct acdc_pkt *p,
                       enum acdc_dir dir)
{
    struct acdc_flow *f = p->flow;
    const struct acdc_flow *next = acdc_link_follow(&f->next);
    uintptr_t first = (uintptr_t) f, other = (uintptr_t) next;
    uintptr_t differs = acdc_flow_differs(f, p);

    f = (struct acdc_flow *) (first ^ ((first ^ other) & -differs));
    p->flow = f;
    if (acdc_unlikely(ctx->grouping)) {
        ACDC_PREFETCH_WRITE(f);
    } else {
        ACDC_PREFETCH(f);
    }
    if (dir == ACDC_INGRESS) {
        acdc_flow_prefetch_in(f, p);
    }
    if (acdc_unlikely(p->ip_version == 6)) {
        ACDC_PREFETCH(acdc_flow6(f));
    }
}

/* A third flow of a bucket is rare, so that processors predict this branch.  Data of the
 * guest needs the other part of its flow if it is paced, or follows a pause
 * (acdc_flow_is_overdue()). */
static ACDC_ALWAYS_INLINE void
acdc_table_find_third(const struct acdc_ctx *ctx, struct acdc_pkt *p,
                      enum acdc_dir dir)
{
    if (acdc_unlikely(acdc_flow_differs(p->flow, p))) {
        p->flow = acdc_link_follow(&p->flow->next);
        ACDC_PREFETCH(p->flow);
        acdc_flow_prefetch_in(p->flow, p);
    } else if (dir == ACDC_EGRESS && p->payload
               && (ctx->policy->paces
                   || (uint16_t) (ctx->now_ms - acdc_hint(&p->flow->active))
                      >= ACDC_RTO_MIN_MS)) {
        acdc_flow_prefetch_in(p->flow, p);
    }
}

/* For a packet that is of no flow, whatever it is. */
static inline void
acdc_table_set_no_key(struct acdc_pkt *p)
{
    /* As acdc_nil() has them. */
    p->ports = p->payload = 0;
    p->bucket = &acdc_nil()->next;
}

/* Of a batch of packets that have their keys.  Sets 'flow': most likely it is
 * theirs, and by the time it is used in the cache.  The next, to be called with
 * each packet in order before it is processed, goes on. */
static ACDC_ALWAYS_INLINE void
acdc_table_find(const struct acdc_ctx *ctx, struct acdc_pkt *pkts,
                unsigned int n, enum acdc_dir dir)
{
    unsigned int i;

    for (i = 0; i < n; i++) {
        acdc_table_find_first(&pkts[i]);
    }
    for (i = 0; i < n && i < 2 * ACDC_AHEAD; i++) {
        acdc_table_find_second(ctx, &pkts[i], dir);
    }
    for (i = 0; i < n && i < ACDC_AHEAD; i++) {
        acdc_table_find_third(ctx, &pkts[i], dir);
    }
}

static ACDC_ALWAYS_INLINE void
acdc_table_find_ahead(const struct acdc_ctx *ctx, struct acdc_pkt *p,
                      const struct acdc_pkt *end, enum acdc_dir dir)
{
    if (end - p > 2 * ACDC_AHEAD) {
        acdc_table_find_second(ctx, p + 2 * ACDC_AHEAD, dir);
    }
    if (end - p > ACDC_AHEAD) {
        acdc_table_find_third(ctx, p + ACDC_AHEAD, dir);
    }
}

/* Whether 'p' is of 'f'. */
bool acdc_flow_equals3(const struct acdc_ctx *, const struct acdc_flow *f,
                       const struct acdc_pkt *p);
static inline bool
acdc_flow_equals(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                 const struct acdc_pkt *p)
{
    return f->ports == p->ports && acdc_flow_addrs(f) == p->addrs
           && (acdc_likely(p->kind == ACDC_KIND_4)
               ? f->port_key == ctx->port_key : acdc_flow_equals3(ctx, f, p));
}

/* Releases what acdc_flow_lock() took.  acdc_unlock() is for acdc_lock() alone: in the
 * kernel these two turn bottom halves on and off. */
static inline void
acdc_flow_unlock(const struct acdc_ctx *ctx, struct acdc_flow *f)
{
    acdc_unlock_as(&f->lock, ctx->me);
}

/* The flow of a packet for which acdc_table_find() was called, locked, or
 * NULL.  What that found may be dead meanwhile, and another flow in its
 * place. */
static inline struct acdc_flow *
acdc_flow_lock(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct acdc_flow *f = p->flow;

    if (acdc_unlikely(!acdc_flow_equals(ctx, f, p))) {
        f = acdc_flow_find(ctx, p);
    }
    while (f) {
        uint8_t last_holder = acdc_lock_as(&f->lock, ctx->me);

        if (!ACDC_ONE_A_CALL) {
            ctx->last_holder = last_holder;
        }
        if (acdc_likely(!(f->flags & ACDC_F_DEAD))) {
            break;
        }
        acdc_flow_unlock(ctx, f);
        f = acdc_flow_find(ctx, p);
    }
    return f;
}

#endif /* acdc-table.h */
