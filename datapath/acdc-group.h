/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

#ifndef ACDC_GROUP_H
#define ACDC_GROUP_H 1

#include "acdc-table.h"

/* Where another thread has packets of the same connections (of their other
 * direction, say), a flow's cache line goes from processor to processor, which
 * takes as long as a packet or several.  With many connections it is fetched
 * ahead as from memory.  With few, both threads have all of them in each batch:
 * what is fetched ahead is taken away again before it is used.  So such a batch
 * is processed flow by flow, and a flow's line is fetched once, only just ahead,
 * and at once as to be written.  One direction goes through the flows in the
 * order opposite to the other's, so that the threads do not run along with each
 * other.
 *
 * Flows are told apart by some bits of their bucket's number: packets of one
 * connection stay in order. */
enum {
    ACDC_N_GROUPS = 64,
    ACDC_GROUPED_MIN = 8,       /* Packets: a batch of fewer stays as it is. */
    ACDC_GROUPED_AHEAD = 7,     /* Packets: about as long as a line takes. */
    ACDC_GROUPING_PAUSE = 64,   /* Batches: after one of many connections. */
};

struct acdc_groups {
    struct acdc_pkt *pkts;
    unsigned int n, n_fetched;
    const struct acdc_flow *fetched;    /* The last one. */
    bool shared;                /* Another thread had one of the flows. */
    uint8_t order[ACDC_BATCH_MAX];
};

/* Sorts the packets of a batch that have their keys, and fetches the
 * first one's flow.  False if they are of too many flows. */
bool acdc_group_sort(struct acdc_groups *, struct acdc_pkt *pkts,
                     unsigned int n, enum acdc_dir dir);
/* The packet to be processed after 'i' others.  Its 'flow' is most likely its
 * own. */
struct acdc_pkt *acdc_group_next(const struct acdc_ctx *, struct acdc_groups *,
                                 unsigned int i);
/* After all of them. */
void acdc_group_end(const struct acdc_ctx *, struct acdc_groups *);

/* Whether 'holder' of a flow's lock was another thread. */
static inline bool
acdc_is_other(const struct acdc_ctx *ctx, uint8_t holder)
{
    return holder && holder != ctx->me;
}

/* Whether a batch that has its keys is to be processed in groups.
 *
 * What is known is in 'grouping' of the thread's slot.  0: other threads have not
 * been seen.  1: they have.  More: they have, and the number of batches until it
 * is worth asking again whether connections are few. */
static ACDC_ALWAYS_INLINE bool
acdc_group(const struct acdc_ctx *ctx, struct acdc_groups *g,
           struct acdc_pkt *pkts, unsigned int n, enum acdc_dir dir)
{
    if (acdc_likely(!ctx->grouping) || n < ACDC_GROUPED_MIN) {
        return false;
    }
    if (ctx->grouping > 1) {
        acdc_a32_set(&ctx->slot->grouping, ctx->grouping - 1);
        return false;
    }
    if (!acdc_group_sort(g, pkts, n, dir)) {
        acdc_a32_set(&ctx->slot->grouping, ACDC_GROUPING_PAUSE);
        return false;
    }
    return true;
}

/* Notes whether another thread had the first flow of a batch that is not processed in
 * groups.  After acdc_table_find(). */
static ACDC_ALWAYS_INLINE void
acdc_note_sharing(const struct acdc_ctx *ctx, const struct acdc_pkt *pkts,
                  unsigned int n)
{
    if (n >= ACDC_GROUPED_MIN
        && acdc_unlikely(acdc_is_other(ctx,
                                       acdc_lock_holder(&pkts->flow->lock)))
        && !ctx->grouping) {
        acdc_a32_set(&ctx->slot->grouping, 1);
    }
}

/* Has the packets of a batch, which have their keys, processed by 'run': those from
 * 'p' to 'end', for each of which it calls acdc_table_find_ahead() before.  All at
 * once, or in groups one by one.  'dir' and 'run' are constants; 'run' is not in
 * line, so that what it has in line is there once for both ways.  A packet that is
 * alone goes neither. */
#if ACDC_ONE_A_CALL
#define ACDC_RUN inline
#else
#define ACDC_RUN ACDC_NOINLINE
#endif
static ACDC_ALWAYS_INLINE void
acdc_table_run(struct acdc_ctx *ctx, struct acdc_pkt *pkts, unsigned int n,
               enum acdc_dir dir,
               void (*run)(struct acdc_ctx *, struct acdc_pkt *p,
                           struct acdc_pkt *end))
{
    struct acdc_groups groups ACDC_UNINITIALIZED;
    unsigned int i;

    if (ACDC_ONE_A_CALL) {
        pkts->flow = acdc_link_follow(pkts->bucket);
        run(ctx, pkts, pkts + 1);
        return;
    }
    if (acdc_likely(!acdc_group(ctx, &groups, pkts, n, dir))) {
        acdc_table_find(ctx, pkts, n, dir);
        acdc_note_sharing(ctx, pkts, n);
        run(ctx, pkts, pkts + n);
        return;
    }
    for (i = 0; i < n; i++) {
        struct acdc_pkt *p = acdc_group_next(ctx, &groups, i);

        run(ctx, p, p + 1);
    }
    acdc_group_end(ctx, &groups);
}

#endif /* acdc-group.h */
