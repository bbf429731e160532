// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* The way in: one call for a batch of packets of one port. */

#include "acdc-parse.h"
#include "acdc-table.h"
#include "acdc-tail.h"

static inline void
clear_counters(struct acdc_ctx *ctx)
{
#define CLEAR(SYMBOL) ctx->counters[ACDC_C_##SYMBOL] = 0;
    ACDC_USUAL_COUNTERS(CLEAR)
#undef CLEAR
    ctx->counted = ACDC_COUNTED_USUALLY;
}

/* Only those that were counted: a batch may be one packet. */
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

/* acdc_pkt_parse(), or false with 'verdict' ACDC_DROP. */
static ACDC_ALWAYS_INLINE bool
parse_checked(struct acdc_pkt *p, uint16_t exid)
{
    bool is_tcp = acdc_pkt_parse(p, exid);

    /* Of both at once, which most packets are not. */
    if (p->csum_partial | p->gso) {
        bool partial = p->csum_partial;

        if (acdc_unlikely(!acdc_host_offloads_fit(p))) {
            p->ip_version = 0;
            p->reason = ACDC_C_REFUSED;
            p->verdict = ACDC_DROP;
            return false;
        }
        if (acdc_unlikely(p->csum_partial != partial)) {
            is_tcp = acdc_pkt_parse(p, exid);
        }
    }
    return is_tcp;
}

/* What is not understood, for 'p->reason', and may be TCP: a guest's is dropped if
 * somebody else may understand it. */
static ACDC_NOINLINE void
leave(struct acdc_ctx *ctx, struct acdc_pkt *p, enum acdc_dir dir)
{
    if (dir == ACDC_EGRESS
        && (p->reason == ACDC_C_UNTOUCHED_FRAGMENT
            ? acdc_pkt_hides(p, ctx->exid, ctx->acdc->host & ACDC_HOST_REASSEMBLES)
            : p->reason == ACDC_C_UNTOUCHED_LENGTH && p->gso /* BIG TCP */)) {
        p->reason = ACDC_C_REFUSED;
    }
    if (dir == ACDC_EGRESS && (p->reason == ACDC_C_REFUSED
                               || p->reason == ACDC_C_UNTOUCHED_MEMORY)) {
        p->verdict = ACDC_DROP;
    } else if (p->reason == ACDC_C_REFUSED && p->verdict == ACDC_PASS) {
        p->reason = ACDC_C_UNTOUCHED_NOT_TCP;
    } else if (dir == ACDC_INGRESS) {
        acdc_recall_unseen(ctx, p);
    }
}

/* 'dir' is a constant, so that no packet asks. */
static ACDC_ALWAYS_INLINE void
parse(struct acdc_ctx *ctx, struct acdc_pkt *pkts, unsigned int n,
      enum acdc_dir dir)
{
    uint16_t exid = ctx->exid;
    struct acdc_pkt *p;

    for (p = pkts; p < pkts + n; p++) {
        if (acdc_likely(parse_checked(p, exid))) {
            acdc_table_set_key(ctx, p, dir);
        } else {
            if (p->reason != ACDC_C_UNTOUCHED_NOT_TCP) {
                leave(ctx, p, dir);
            } else if (dir == ACDC_INGRESS && acdc_pkt_is_icmp(p)) {
                acdc_icmp_ingress(ctx, p);
            }
            acdc_table_set_no_key(p);
            acdc_count(ctx, p->reason, 1);
        }
    }
}

static ACDC_ALWAYS_INLINE void
acdc_process_in_line(struct acdc_port *port, enum acdc_dir dir, struct acdc_pkt *pkts,
                     unsigned int n, uint64_t now)
{
    struct acdc_tenant *tenant = acdc_ptr_load(&port->tenant);
    uint32_t slot = acdc_slot();
    struct acdc_ctx ctx ACDC_UNINITIALIZED;
    struct acdc *acdc;

    if (!tenant) {
        if (dir == ACDC_TAIL) {
            acdc_tail_refuse(pkts, n);
        }
        return;
    }
    ctx.acdc = acdc = tenant->acdc;
    ctx.port = port;
    ctx.tenant = tenant;
    ctx.policy = acdc_ptr_load(&tenant->policy);
    ctx.table = acdc_ptr_load(&acdc->table);
    ctx.slot = &tenant->slots[slot];
    ctx.basis = port->basis;
    ctx.dir = dir;
    ctx.port_key = (uint16_t) (port->idx * ACDC_N_KINDS);
    ctx.exid = (uint16_t) acdc_a32_read(&acdc->exid);
    ctx.now = now;
    ctx.timed = NULL;
    ctx.now_ms = (uint32_t) acdc_div64(now, 1000000);
    ctx.seen = acdc_seen(ctx.now_ms);
    ctx.rtt_bucket = ctx.n_rtts = 0;
    if (ACDC_ONE_A_CALL) {
        n = 1;
    } else {
        clear_counters(&ctx);
        ctx.me = ctx.last_holder = (uint8_t) ((slot + 1) * 2);
        ctx.grouping = acdc_a32_read(&ctx.slot->grouping);
    }

    if (dir == ACDC_EGRESS) {
        parse(&ctx, pkts, n, ACDC_EGRESS);
        acdc_egress(&ctx, pkts, n);
    } else if (acdc_unlikely(dir == ACDC_TAIL)) {
        acdc_tail(&ctx, pkts, n);
    } else {
        parse(&ctx, pkts, n, ACDC_INGRESS);
        acdc_ingress(&ctx, pkts, n);
    }
    if (!ACDC_ONE_A_CALL) {
        flush_counters(&ctx);
        if (ctx.n_rtts) {
            acdc_rtt_flush(&ctx);
        }
    }
}

#ifndef ACDC_IN_LINE
void
acdc_process(struct acdc_port *port, enum acdc_dir dir, struct acdc_pkt *pkts,
             unsigned int n, uint64_t now)
{
    acdc_process_in_line(port, dir, pkts, n, now);
}
#endif
