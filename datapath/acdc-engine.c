// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* The way in: one call for a batch of packets of one port. */

#include "acdc-parse.h"
#include "acdc-table.h"

/* Only those that may have grown: a batch may be one packet. */
static void
flush_counters(const struct acdc_ctx *ctx)
{
    uint64_t counted = ctx->counted;

    for (; counted; counted &= counted - 1) {
        unsigned int i = acdc_lowest_bit(counted);

        if (ctx->counters[i]) {
            acdc_a64_add(&ctx->slot->counters[i], ctx->counters[i]);
        }
    }
}

void
acdc_process(struct acdc_port *port, enum acdc_dir dir, struct acdc_pkt *pkts,
             unsigned int n, uint64_t now)
{
    struct acdc_tenant *tenant = acdc_ptr_load(&port->tenant);
    struct acdc_ctx ctx;
    unsigned int i;

    if (!tenant) {
        return;
    }
    if (!ACDC_COUNT_AT_ONCE) {
        ctx.counted = ACDC_COUNTED_USUALLY;
        memset(ctx.counters, 0, sizeof ctx.counters);
    }
    ctx.acdc = tenant->acdc;
    ctx.port = port;
    ctx.tenant = tenant;
    ctx.policy = acdc_ptr_load(&tenant->policy);
    ctx.table = acdc_ptr_load(&ctx.acdc->table);
    ctx.slot = &tenant->slots[acdc_slot()];
    ctx.basis = acdc_hash_basis(ctx.acdc, port->idx);
    ctx.dir = dir;
    ctx.port_key = (uint16_t) (port->idx * 2);
    ctx.exid = (uint16_t) acdc_a32_read(&ctx.acdc->exid);
    ctx.now_us = (uint32_t) acdc_div64(now, 1000);
    ctx.now_ms = (uint32_t) acdc_div64(now, 1000000);
    ctx.seen = acdc_seen(ctx.now_ms);
    ctx.rtt_bucket = ctx.n_rtts = 0;

    for (i = 0; i < n; i++) {
        if (acdc_likely(acdc_pkt_parse(&pkts[i], ctx.exid))) {
            acdc_table_set_key(&ctx, &pkts[i]);
        } else {
            acdc_count(&ctx, pkts[i].reason, 1);
            if (dir == ACDC_INGRESS
                && pkts[i].reason != ACDC_C_UNTOUCHED_NOT_TCP) {
                acdc_a32_set(&port->unseen_ms, ctx.now_ms | 1);
            }
        }
    }
    if (dir == ACDC_EGRESS) {
        acdc_egress(&ctx, pkts, n);
    } else {
        acdc_ingress(&ctx, pkts, n);
    }
    if (!ACDC_COUNT_AT_ONCE) {
        flush_counters(&ctx);
    }
    acdc_rtt_flush(&ctx);
}
