// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Flows that go: those whose time has come, and all of a port, a tenant or the
 * engine. */

#include "acdc-table.h"

/* How long a handshake of the tenant may take.  Less once they use half of the
 * quota: else a few hundred SYNs a second from anywhere, which nobody answers,
 * would keep all its connections from being followed.  RCU read section. */
static uint32_t
half_open_limit(const struct acdc_tenant *t)
{
    const struct acdc_policy *policy = acdc_ptr_load(&t->policy);

    return acdc_count_read(&t->n_half_open) > policy->max_half_open / 2
           ? ACDC_HALF_OPEN_SHORT_MS : ACDC_HALF_OPEN_MS;
}

static bool
has_expired(const struct acdc *a, struct acdc_flow *f, uint32_t now_ms,
            bool *closed)
{
    uint32_t limit, idle;

    acdc_lock(&f->lock);
    /* Not by a RST that who got it may have dropped, with the sender silent since. */
    *closed = (f->state == ACDC_FLOW_CLOSED && !acdc_flow_is_live(f))
              || f->state == ACDC_FLOW_UNKNOWN;
    if (*closed) {
        limit = ACDC_LINGER_MS;
    } else if (acdc_flow_in_handshake(f) || acdc_flow_is_lost(f)) {
        limit = half_open_limit(acdc_flow_owner(a, f));
    } else {
        limit = acdc_a32_read(&a->idle_timeout_ms);
    }
    idle = acdc_flow_idle_ms(f, now_ms);
    acdc_flow_forget(f, acdc_ptr_load(&acdc_flow_owner(a, f)->policy), now_ms);
    acdc_unlock(&f->lock);
    return idle >= limit;
}

/* Removes a flow whose time has come; counts it unless it was 'closed'. */
static void
expire(struct acdc *a, struct acdc_flow *f, bool closed)
{
    struct acdc_tenant *t = acdc_flow_owner(a, f);

    acdc_lock(&a->lock);
    if (acdc_flow_remove_locked(a, f) && !closed) {
        /* Under the lock, which keeps the kernel's softirq away: a packet on
         * the same CPU would count in the middle of it, in the same slot. */
        acdc_a64_add(&t->slots[acdc_slot()].counters[ACDC_C_FLOWS_EXPIRED], 1);
    }
    acdc_unlock(&a->lock);
}

/* The flows of one bucket. */
static void
sweep_bucket(struct acdc *a, const acdc_link *bucket, uint32_t now_ms)
{
    struct acdc_flow *f, *next;

    for (f = acdc_link_load(bucket); f; f = next) {
        bool closed;

        next = acdc_link_load(&f->next);
        if (has_expired(a, f, now_ms, &closed)) {
            expire(a, f, closed);
        }
    }
}

/* Buckets that are looked at together, of which a table has a multiple: with few flows
 * they are empty, mostly. */
#define SWEPT_AT_ONCE 8

static inline bool
are_empty(const acdc_link *b)
{
#define LINK(I) (uintptr_t) acdc_ptr_peek(&b[I])
    return !(LINK(0) | LINK(1) | LINK(2) | LINK(3)
             | LINK(4) | LINK(5) | LINK(6) | LINK(7));
#undef LINK
}

bool
acdc_sweep(struct acdc *a, uint64_t now, uint32_t budget)
{
    const struct acdc_table *t = acdc_ptr_load(&a->table);
    uint32_t now_ms = (uint32_t) acdc_div64(now, 1000000);
    uint32_t hand = a->sweep_hand;
    uint32_t end, i;
    bool ahead;

    if (!t) {
        return true;
    }
    /* Where most buckets are empty it takes longer than what it saves. */
    ahead = acdc_count_read(&a->n_flows) > t->mask / 16;
    end = budget < t->mask + 1 - hand ? hand + budget : t->mask + 1;
    for (; hand < end; hand += SWEPT_AT_ONCE) {
        if (are_empty(&t->buckets[hand])) {
            continue;
        }
        for (i = hand; i < hand + SWEPT_AT_ONCE; i++) {
            if (ahead) {
                acdc_table_prefetch(t, i);
            }
            sweep_bucket(a, &t->buckets[i], now_ms);
        }
    }
    a->sweep_hand = hand > t->mask ? 0 : hand;
    return !a->sweep_hand;
}

/* Buckets after which other threads may have the processor. */
#define FLUSHED_AT_ONCE 4096

uint32_t
acdc_table_flush(struct acdc *a, const struct acdc_tenant *tenant,
                 const struct acdc_port *port)
{
    const acdc_count_t *left = port ? &port->n_flows
                               : tenant ? &tenant->n_flows : &a->n_flows;
    const struct acdc_table *t = a->table;
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; t && i <= t->mask && acdc_count_read(left); i++) {
        struct acdc_flow *f, *next;

        if (i && i % FLUSHED_AT_ONCE == 0) {
            acdc_yield();
        }
        acdc_read_lock();
        acdc_table_prefetch(t, i);
        for (f = acdc_link_load(&t->buckets[i]); f; f = next) {
            const struct acdc_port *of = acdc_flow_port(a, f);

            next = acdc_link_load(&f->next);
            if ((!tenant || of->owner == tenant) && (!port || of == port)) {
                n += acdc_flow_remove(a, f);
            }
        }
        acdc_read_unlock();
    }
    return n;
}
