// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Batches that are processed flow by flow, see acdc-group.h. */

#include "acdc-group.h"

bool
acdc_group_sort(struct acdc_groups *g, struct acdc_pkt *pkts, unsigned int n,
                enum acdc_dir dir)
{
    /* The other direction's order is the opposite. */
    unsigned int flip = dir == ACDC_INGRESS ? ACDC_N_GROUPS - 1 : 0;
    uint8_t group[ACDC_BATCH_MAX];
    uint8_t at[ACDC_N_GROUPS] = { 0 };  /* Sizes, then places in 'order'. */
    uint8_t last[ACDC_N_GROUPS];        /* Packets. */
    unsigned int i, n_groups = 0, n_placed = 0;
    uint64_t used = 0;

    for (i = 0; i < n; i++) {
        group[i] = (uint8_t) (((uintptr_t) pkts[i].bucket / sizeof(acdc_link)
                               % ACDC_N_GROUPS) ^ flip);
        used |= (uint64_t) 1 << group[i];
        n_groups += !at[group[i]]++;
        last[group[i]] = (uint8_t) i;
    }
    if (n_groups > n / 2) {
        return false;
    }
    /* What is waited for is on its way the sooner. */
    ACDC_PREFETCH_WRITE(
        acdc_link_follow(pkts[last[acdc_lowest_bit(used)]].bucket));

    /* A counting sort. */
    for (; used; used &= used - 1) {
        unsigned int b = acdc_lowest_bit(used);
        uint8_t size = at[b];

        at[b] = (uint8_t) n_placed;
        n_placed += size;
    }
    for (i = 0; i < n; i++) {
        g->order[at[group[i]]++] = (uint8_t) i;
    }
    g->pkts = pkts;
    g->n = n;
    g->n_fetched = 0;
    g->fetched = NULL;
    g->shared = false;
    return true;
}

struct acdc_pkt *
acdc_group_next(const struct acdc_ctx *ctx, struct acdc_groups *g,
                unsigned int i)
{
    /* Of the packet before. */
    g->shared |= acdc_is_other(ctx, ctx->last_holder);

    while (g->n_fetched < g->n && g->n_fetched <= i + ACDC_GROUPED_AHEAD) {
        struct acdc_pkt *p = &g->pkts[g->order[g->n_fetched++]];

        p->flow = acdc_link_follow(p->bucket);
        if (p->flow != g->fetched) {
            g->fetched = p->flow;
            ACDC_PREFETCH_WRITE(p->flow);
        }
    }
    return &g->pkts[g->order[i]];
}

void
acdc_group_end(const struct acdc_ctx *ctx, struct acdc_groups *g)
{
    g->shared |= acdc_is_other(ctx, ctx->last_holder);
    acdc_a32_set(&ctx->slot->grouping, g->shared);
}
