// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* The flow table: hash buckets of singly linked flows, read without locks
 * under RCU, written under one lock.  The number of buckets is fixed by the
 * limit of flows; where that is changed flows move to another table, a few at a
 * time, while packets come in.
 *
 * ovs-vswitchd has cmap and the kernel rhashtable; the engine has to be the
 * same in both. */

#include "acdc-table.h"

#ifndef ACDC_ARENA
struct acdc_flow acdc_no_flow;
#endif

/* acdc_flow.rule. */
ACDC_STATIC_ASSERT(ACDC_RULES_MAX < 1 << 9);
/* See struct acdc_flow.  In the kernel the first two parts are 136 bytes. */
#if defined ACDC_ARENA
ACDC_STATIC_ASSERT(sizeof(struct acdc_flow) == ACDC_FLOW);
ACDC_STATIC_ASSERT(sizeof(struct acdc_flow_in) == ACDC_FLOW);
ACDC_STATIC_ASSERT(sizeof(struct acdc_flow6) == ACDC_FLOW6);
ACDC_STATIC_ASSERT(sizeof(struct acdc_flow_more) == ACDC_MORE);
#elif defined __KERNEL__ && !defined CONFIG_DEBUG_SPINLOCK \
    && !defined CONFIG_DEBUG_LOCK_ALLOC && !defined CONFIG_PREEMPT_RT \
    && defined CONFIG_64BIT
ACDC_STATIC_ASSERT(sizeof(struct acdc_flow) + sizeof(struct acdc_flow_in)
                   == 136);
#endif

/* Twice as many as flows: another flow's cache line on the way to the right one
 * costs more than memory for half of that. */
static uint32_t
buckets_for(uint32_t max_flows)
{
    uint32_t n = 64;

    while (n / 2 < max_flows) {
        n *= 2;
    }
    return n;
}

/* The flow's memory begins with 'next', not with 'rcu'. */
static void
free_flow(struct acdc_rcu *rcu)
{
    char *flow = (char *) rcu - offsetof(struct acdc_flow, rcu);

    acdc_host_free_flow((struct acdc_flow *) (void *) flow);
}

static uint32_t
flow_hash(const struct acdc *a, const struct acdc_flow *f)
{
    return acdc_hash(acdc_hash_basis(a, f->port_key / ACDC_N_KINDS), f->ports,
                     acdc_flow_addrs(f)
                     & (acdc_flow_is_v6(f) ? ACDC_ADDRS6 : ~(uint64_t) 0));
}

/* Moves the flows of one bucket, from the end of its chain: who is on the way
 * along it and meets a flow that is moved now has met all others, and finds this
 * one there or in 'new'.  Table lock held. */
static void
move_bucket(const struct acdc *a, acdc_link *from, struct acdc_table *new)
{
    struct acdc_flow *f, *next;

    while ((f = acdc_link_load(from))) {
        acdc_link *link = from;
        acdc_link *to;

        while ((next = acdc_link_load(&f->next))) {
            link = &f->next;
            f = next;
        }
        to = &new->buckets[flow_hash(a, f) & new->mask];
        acdc_link_store(&f->next, acdc_link_load(to));
        acdc_link_store(to, f);
        acdc_link_store(link, NULL);
    }
}

/* Buckets whose flows are moved under the lock together, for which packets of new
 * connections wait. */
#define MOVED_AT_ONCE 256

static void
move_flows(struct acdc *a, struct acdc_table *old, struct acdc_table *new)
{
    uint32_t i = 0;

    while (i <= old->mask) {
        acdc_lock(&a->lock);
        do {
            acdc_table_prefetch(old, i);
            move_bucket(a, &old->buckets[i], new);
        } while (++i <= old->mask && i % MOVED_AT_ONCE);
        acdc_unlock(&a->lock);
        acdc_yield();
    }
}

/* Makes the table, or one of another size after the limit was changed: a hand
 * that goes round the buckets for a flow to evict must not meet many more empty
 * ones, and the flows that a lower limit leaves alone not be many in each.
 * Configuration thread.  Returns 0 or ENOMEM. */
int
acdc_table_ensure(struct acdc *a)
{
    uint32_t n_flows = acdc_count_read(&a->n_flows);
    uint32_t max_flows = acdc_a32_read(&a->max_flows);
    uint32_t n = buckets_for(n_flows > max_flows ? n_flows : max_flows);
    struct acdc_table *old = a->table;
    struct acdc_table *new;

    if (old && old->mask + 1 == n) {
        return 0;
    }
    new = (acdc_arena_reserve()
           ? acdc_host_alloc(sizeof *new + n * sizeof new->buckets[0]) : NULL);
    if (!new) {
        return ENOMEM;
    }
    new->mask = n - 1;
    new->old = old;
    acdc_lock(&a->lock);
    acdc_ptr_store(&a->table, new);
    a->evict_hand = a->sweep_hand = 0;
    acdc_unlock(&a->lock);
    if (old) {
        move_flows(a, old, new);
        acdc_lock(&a->lock);
        acdc_ptr_store(&new->old, NULL);
        acdc_unlock(&a->lock);
        acdc_defer_free(&old->rcu);
    }
    return 0;
}

/* Hash. -------------------------------------------------------------------- */

/* Local and remote address of an IPv6 packet, seen from the guest. */
static void
addresses6(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
           const uint8_t **local, const uint8_t **remote)
{
    const uint8_t *src = acdc_pkt_ip(p) + 8;
    const uint8_t *dst = src + 16;

    *local = ctx->dir == ACDC_EGRESS ? src : dst;
    *remote = ctx->dir == ACDC_EGRESS ? dst : src;
}

uint64_t
acdc_hash_addrs6(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    const uint8_t *local, *remote;
    uint64_t h;

    addresses6(ctx, p, &local, &remote);
    h = acdc_hash_mix(ctx->basis ^ acdc_load64(local));
    h = acdc_hash_mix(h ^ acdc_load64(local + 8));
    h = acdc_hash_mix(h ^ acdc_load64(remote));
    return acdc_hash_mix(h ^ acdc_load64(remote + 8));
}

/* Lookup. ------------------------------------------------------------------ */

/* Whether the addresses of IPv6 are the same. */
static bool
equal_addresses6(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                 const struct acdc_pkt *p)
{
    const struct acdc_flow6 *f6 = acdc_flow6(f);
    const uint8_t *local, *remote;

    addresses6(ctx, p, &local, &remote);
    return !memcmp(f6->laddr, local, 16) && !memcmp(f6->raddr, remote, 16);
}

/* What struct acdc_flow has in its third part. */
bool
acdc_flow_equals3(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                  const struct acdc_pkt *p)
{
    return f->port_key == (ctx->port_key | p->kind)
           && (p->kind == ACDC_KIND_6 ? equal_addresses6(ctx, f, p)
                                      : acdc_flow6(f)->vids == p->vids);
}

/* Whether 'p' is of 'f' but for VLANs. */
static bool
has_ends(const struct acdc_ctx *ctx, const struct acdc_flow *f,
         const struct acdc_pkt *p)
{
    bool v6 = p->ip_version == 6;

    return f->ports == p->ports
           && f->port_key / ACDC_N_KINDS == ctx->port_key / ACDC_N_KINDS
           && acdc_flow_is_v6(f) == v6
           && (v6 ? equal_addresses6(ctx, f, p)
                  : acdc_flow_addrs(f) == p->addrs);
}

/* Those in other VLANs. */
struct others {
    struct acdc_flow *flows[ACDC_SAME_ENDS];
    unsigned int n;
};

static inline const acdc_link *
bucket_of(const struct acdc_table *t, const struct acdc_ctx *ctx,
          const struct acdc_pkt *p)
{
    uint64_t addrs = p->ip_version == 6 ? p->addrs & ACDC_ADDRS6 : p->addrs;

    return acdc_likely(t == ctx->table)
           ? p->bucket
           : &t->buckets[acdc_hash(ctx->basis, p->ports, addrs) & t->mask];
}

static ACDC_ALWAYS_INLINE struct acdc_flow *
lookup_in(const struct acdc_table *t, const struct acdc_ctx *ctx,
          const struct acdc_pkt *p, const struct acdc_flow *but,
          struct others *others)
{
    struct acdc_flow *f;

    for (f = acdc_link_load(bucket_of(t, ctx, p)); f;
         f = acdc_link_load(&f->next)) {
        if (acdc_unlikely(f == but)) {
            continue;
        }
        if (acdc_flow_equals(ctx, f, p)) {
            return f;
        }
        if (acdc_unlikely(has_ends(ctx, f, p)) && others->n < ACDC_SAME_ENDS) {
            others->flows[others->n++] = f;
        }
    }
    return NULL;
}

static ACDC_ALWAYS_INLINE struct acdc_flow *
lookup(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
       const struct acdc_flow *but, struct others *others)
{
    const struct acdc_table *t, *old;
    struct acdc_flow *f;

    do {
        others->n = 0;
        t = acdc_ptr_load(&ctx->acdc->table);
        old = acdc_ptr_load(&t->old);
        /* First where flows are moved from: one that is not there any more has
         * arrived. */
        f = acdc_unlikely(old) ? lookup_in(old, ctx, p, but, others) : NULL;
        f = f ? f : lookup_in(t, ctx, p, but, others);
        /* Nor is it in 't' if that has become 'old' meanwhile. */
    } while (!f && acdc_unlikely(t != acdc_ptr_load(&ctx->acdc->table)));
    return f;
}

struct acdc_flow *
acdc_flow_lookup(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    struct others others;

    return lookup(ctx, p, NULL, &others);
}

struct acdc_flow *
acdc_flow_lookup_second(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
                        const struct acdc_flow *first)
{
    struct others others;

    return lookup(ctx, p, first, &others);
}

struct acdc_flow *
acdc_flow_find_second(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
                      const struct acdc_flow *first)
{
    struct others others;
    struct acdc_flow *f = lookup(ctx, p, first, &others);

    return f || !others.n ? f : others.flows[0];
}

struct acdc_flow *
acdc_flow_find(const struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct others others;
    struct acdc_flow *f = lookup(ctx, p, NULL, &others);

    if (acdc_likely(f || !others.n)) {
        return f;
    }
    f = others.flows[0];
    if (ctx->dir == ACDC_EGRESS) {
        return p->tcp_flags & ACDC_TCP_RST ? NULL : f;
    }
    if ((p->tcp_flags & ACDC_TCP_SYN) || (acdc_flow_in(f)->n_syns & ACDC_OTHER_VLANS)) {
        return f;
    }
    if (!acdc_pkt_strip(p, ctx->exid)) {
        return NULL;
    }
    if (acdc_pkt_reserved(p)) {
        if (!acdc_pkt_make_writable(p)) {
            return NULL;
        }
        acdc_pkt_set_reserved(p, 0);
    }
    return f;
}

void
acdc_flow_ends(const struct acdc_flow *f, struct acdc_end *local,
               struct acdc_end *remote)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const uint8_t *addrs = (const uint8_t *) f->addrs;
    const uint8_t *ports = (const uint8_t *) &f->ports;

    local->port = acdc_get16(ports);
    remote->port = acdc_get16(ports + 2);
    if (acdc_flow_is_v6(f)) {
        const struct acdc_flow6 *f6 = acdc_flow6(f);

        memcpy(local->addr, f6->laddr, 16);
        memcpy(remote->addr, f6->raddr, 16);
    } else {
        memcpy(local->addr, mapped, 12);
        memcpy(local->addr + 12, addrs, 4);
        memcpy(remote->addr, mapped, 12);
        memcpy(remote->addr + 12, addrs + 4, 4);
    }
}

/* Counts. ------------------------------------------------------------------ */

static void
count_state(struct acdc_tenant *t, enum acdc_flow_state state, int delta)
{
    if (acdc_state_is_unsettled(state)) {
        acdc_count_add(&t->n_half_open, delta);
        acdc_count_add(&t->acdc->n_half_open, delta);
    } else if (state != ACDC_FLOW_ESTABLISHED && state != ACDC_FLOW_CLOSING) {
        acdc_count_add(&t->acdc->n_closed, delta);
    }
}

void
acdc_flow_set_state(const struct acdc_ctx *ctx, struct acdc_flow *f,
                    enum acdc_flow_state state)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (f->state != state) {
        bool handshake = acdc_flow_in_handshake(f);

        ACDC_TRACE_FLOW(flow_state, ctx, f, f->state, state);
        count_state(ctx->tenant, (enum acdc_flow_state) f->state, -1);
        f->state = (unsigned int) state & 7;
        if (handshake && !acdc_flow_in_handshake(f)) {
            acdc_wscale_settle(f);
            /* They share memory with irs. */
            in->silent = in->lost = in->reorders = 0;
            in->n_syns = 0;
        }
        count_state(ctx->tenant, state, 1);
    }
}

void
acdc_flow_uncount(struct acdc_tenant *t, struct acdc_flow *f)
{
    if (f->flags & ACDC_F_LAW) {
        acdc_count_add(f->flags & ACDC_F_CAPABLE ? &t->n_capable
                                                 : &t->n_fallback, -1);
        f->flags &= ~(uint32_t) ACDC_F_CAPABLE;
    }
}

/* Enters the flow as capable or not in its tenant's counts. */
void
acdc_flow_set_counted(const struct acdc_ctx *ctx, struct acdc_flow *f,
                      bool capable)
{
    struct acdc_tenant *t = ctx->tenant;

    acdc_flow_uncount(t, f);
    f->flags |= ACDC_F_LAW | (capable ? ACDC_F_CAPABLE : 0);
    acdc_count_add(capable ? &t->n_capable : &t->n_fallback, 1);
}

/* Removal. ----------------------------------------------------------------- */

static acdc_link *
find_link(const struct acdc *a, const struct acdc_flow *f)
{
    uint32_t hash = flow_hash(a, f);
    struct acdc_table *t;

    for (t = a->table; t; t = t->old) {
        acdc_link *link = &t->buckets[hash & t->mask];
        struct acdc_flow *other;

        while ((other = acdc_link_load(link))) {
            if (other == f) {
                return link;
            }
            link = &other->next;
        }
    }
    return NULL;
}

bool
acdc_flow_remove_locked(struct acdc *a, struct acdc_flow *f)
{
    acdc_link *link = find_link(a, f);
    struct acdc_port *port;
    struct acdc_tenant *t;

    if (!link) {
        return false;
    }
    acdc_link_store(link, acdc_link_load(&f->next));

    port = acdc_flow_port(a, f);
    t = port->owner;
    acdc_lock(&f->lock);
    count_state(t, (enum acdc_flow_state) f->state, -1);
    acdc_flow_uncount(t, f);
    acdc_count_add(&t->n_flows, -1);
    acdc_count_add(&port->n_flows, -1);
    acdc_count_add(&a->n_flows, -1);
    if (acdc_flow_has_three(f)) {
        acdc_count_add(&a->n_flows6, -1);
    }
    f->flags |= ACDC_F_DEAD;
    f->rcu.free = free_flow;
    acdc_unlock(&f->lock);

    acdc_host_defer(&f->rcu);
    return true;
}

bool
acdc_flow_remove(struct acdc *a, struct acdc_flow *f)
{
    bool removed;

    acdc_lock(&a->lock);
    removed = acdc_flow_remove_locked(a, f);
    acdc_unlock(&a->lock);
    return removed;
}

/* Eviction. ---------------------------------------------------------------- */

/* How willingly a flow goes when the table is full, 0: not at all.  Its tenant
 * has more than 'share' flows, what a tenant has of a table that is shared out
 * evenly, or is the one that needs room: nobody takes anything from others that
 * have less.  Then closed go before half-open before idle ones, and active ones
 * to a tenant that has less itself: nobody can keep others out by connections
 * that never close. */
static int
evict_rank(const struct acdc_ctx *ctx, struct acdc_flow *f, uint32_t share)
{
    const struct acdc_tenant *t = acdc_flow_owner(ctx->acdc, f);
    bool above = acdc_count_read(&t->n_flows) > share;
    int rank;

    if (!above && t != ctx->tenant) {
        return 0;
    }
    rank = above && acdc_count_read(&ctx->tenant->n_flows) < share;
    acdc_lock(&f->lock);
    if (f->state == ACDC_FLOW_CLOSED || f->state == ACDC_FLOW_RESET
        || f->state == ACDC_FLOW_UNKNOWN) {
        rank = 4;
    } else if (acdc_flow_in_handshake(f) || acdc_flow_is_lost(f)) {
        rank = 3;
    } else if (acdc_flow_idle_ms(f, ctx->now_ms) >= ACDC_IDLE_EVICT_MS) {
        rank = 2;
    }
    acdc_unlock(&f->lock);
    return rank;
}

/* Removes the best of the flows that a hand going round the table comes by.
 * Table lock held. */
static bool
evict_locked(const struct acdc_ctx *ctx)
{
    struct acdc *a = ctx->acdc;
    /* What moves is all in 'old' at first. */
    struct acdc_table *t = a->table->old ? a->table->old : a->table;
    struct acdc_flow *victim = NULL;
    unsigned int scanned = 0;
    /* The port is bound, so there is a tenant. */
    uint32_t share = acdc_a32_read(&a->max_flows)
                     / acdc_count_read(&a->n_tenants);
    uint32_t n_buckets;
    int best = 0;
    int top = acdc_count_read(&a->n_closed) ? 4
              : acdc_count_read(&a->n_half_open) ? 3 : 2;

    /* A flood of SYNs that find no room must not keep others waiting for the
     * lock: looked for once a millisecond. */
    if (ctx->tenant->no_victim_ms == ctx->now_ms) {
        return false;
    }
    /* Nor must few flows in many buckets, after the limit was lowered. */
    for (n_buckets = 0; n_buckets <= t->mask && scanned < ACDC_EVICT_SCAN
                        && n_buckets < 16 * ACDC_EVICT_SCAN; n_buckets++) {
        struct acdc_flow *f;

        acdc_table_prefetch(t, a->evict_hand);
        for (f = acdc_link_load(&t->buckets[a->evict_hand & t->mask]); f;
             f = acdc_link_load(&f->next)) {
            int rank = evict_rank(ctx, f, share);

            scanned++;
            if (rank > best) {
                best = rank;
                victim = f;
            }
        }
        if (best == top) {
            break;
        }
        a->evict_hand++;
    }
    if (!victim) {
        ctx->tenant->no_victim_ms = ctx->now_ms;
        return false;
    }
    return acdc_flow_remove_locked(a, victim);
}

/* Table lock held. */
static bool
make_room_locked(struct acdc_ctx *ctx)
{
    struct acdc *a = ctx->acdc;

    if (acdc_count_read(&a->n_flows) < acdc_a32_read(&a->max_flows)) {
        return true;
    }
    if (!evict_locked(ctx)) {
        return false;
    }
    ACDC_COUNT(ctx, FLOWS_EVICTED, 1);
    return true;
}

/* Among connections that differ in VLANs only: in place of one that is half-open or
 * closed.  Table lock held. */
static bool
make_room_beside_locked(struct acdc_ctx *ctx, const struct others *others)
{
    unsigned int i;

    for (i = 0; others->n == ACDC_SAME_ENDS && i < others->n; i++) {
        struct acdc_flow *f = others->flows[i];

        if (evict_rank(ctx, f, 0) > 2) {
            ACDC_COUNT(ctx, FLOWS_EVICTED, 1);
            return acdc_flow_remove_locked(ctx->acdc, f);
        }
    }
    return others->n < ACDC_SAME_ENDS;
}

/* Creation. ---------------------------------------------------------------- */

/* The flow that a SYN begins, in no table yet; NULL without memory. */
static struct acdc_flow *
new_flow(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    bool three = p->kind != ACDC_KIND_4;
    struct acdc_flow *f = acdc_host_alloc_flow(acdc_flow_size(three), three);

    if (!f) {
        return NULL;
    }
    acdc_lock_init(&f->lock);
    f->ports = p->ports;
    memcpy(f->addrs, &p->addrs, sizeof f->addrs);
    f->port_key = ctx->port_key | p->kind;
    acdc_flow_see(ctx, f);
    f->active = (uint16_t) ctx->now_ms;
    f->state = !acdc_pkt_is_syn(p) ? ACDC_FLOW_ASKING
               : ctx->dir == ACDC_EGRESS ? ACDC_FLOW_SYN_SENT
                                         : ACDC_FLOW_SYN_RECEIVED;
    if (p->kind == ACDC_KIND_6) {
        struct acdc_flow6 *f6 = acdc_flow6(f);
        const uint8_t *local, *remote;

        addresses6(ctx, p, &local, &remote);
        memcpy(f6->laddr, local, 16);
        memcpy(f6->raddr, remote, 16);
    } else if (three) {
        acdc_flow6(f)->vids = p->vids;
    }
    return f;
}

struct acdc_flow *
acdc_flow_create(struct acdc_ctx *ctx, struct acdc_pkt *p,
                 struct acdc_flow *first, enum acdc_counter *why)
{
    struct acdc *a = ctx->acdc;
    struct acdc_tenant *tenant = ctx->tenant;
    struct acdc_flow *f, *other;
    struct others others;
    acdc_link *link;

    if (acdc_count_read(&tenant->n_half_open) >= ctx->policy->max_half_open) {
        *why = ACDC_C_UNTOUCHED_HALF_OPEN;
        return NULL;
    }
    f = new_flow(ctx, p);
    if (!f) {
        *why = ACDC_C_UNTOUCHED_MEMORY;
        return NULL;
    }

    acdc_lock(&a->lock);
    first = first && find_link(a, first) ? first : NULL;
    other = lookup(ctx, p, first, &others);
    if (other || !make_room_beside_locked(ctx, &others)
        || !acdc_ptr_load(&ctx->port->tenant)
        || !make_room_locked(ctx)) {
        acdc_unlock(&a->lock);
        acdc_host_free_flow(f);
        *why = ACDC_C_UNTOUCHED_TABLE_FULL;
        return other;
    }
    acdc_count_add(&a->n_flows, 1);
    if (acdc_flow_has_three(f)) {
        acdc_count_add(&a->n_flows6, 1);
    }
    acdc_count_add(&tenant->n_flows, 1);
    acdc_count_add(&ctx->port->n_flows, 1);
    count_state(tenant, (enum acdc_flow_state) f->state, 1);
    /* Making room may have taken 'first', too. */
    link = first && find_link(a, first)
           ? &first->next : &a->table->buckets[flow_hash(a, f)
                                               & a->table->mask];
    acdc_link_store(&f->next, acdc_link_load(link));
    acdc_link_store(link, f);
    acdc_unlock(&a->lock);
    ACDC_COUNT(ctx, FLOWS_CREATED, f->state != ACDC_FLOW_ASKING);
    return f;
}
