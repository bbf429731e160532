// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-plb.h"
#include "acdc-table.h"

/* Not known to guests, the same for all packets of a flow; differs with 'n'. */
static uint32_t
hash(const struct acdc_ctx *ctx, const struct acdc_flow *f, uint32_t n)
{
    uint64_t key = acdc_flow_addrs(f);

    if (acdc_flow_is_v6(f)) {
        /* As they are, not as the table has them. */
        key = acdc_load64(acdc_flow6(f)->laddr + 8)
              ^ acdc_hash_mix(acdc_load64(acdc_flow6(f)->raddr + 8));
    }
    key = acdc_hash_mix(key ^ ctx->acdc->salt) ^ f->ports;
    return (uint32_t) (acdc_hash_mix(key ^ (uint64_t) n << 32) >> 32);
}

/* Whether it is not time yet. */
static bool
is_suspended(const struct acdc_ctx *ctx, struct acdc_plb *plb)
{
    uint32_t left = (plb->until - ctx->seen) & ACDC_PLB_UNTIL_MASK;

    /* What is longer than it may last is over. */
    plb->suspended = plb->suspended && left
                     && left <= 2 * ACDC_PLB_SUSPEND_MS / ACDC_SEEN_UNIT;
    return plb->suspended;
}

void
acdc_flow_plb_move(struct acdc_ctx *ctx, struct acdc_flow *f)
{
    struct acdc_plb *plb = &acdc_flow_more(f)->plb;

    plb->path = plb->path % ACDC_PLB_PATHS + 1u;
    plb->congested = 0;
    ACDC_COUNT(ctx, REPATHS, 1);
}

void
acdc_flow_plb_round(struct acdc_ctx *ctx, struct acdc_flow *f)
{
    struct acdc_plb *plb = &acdc_flow_more(f)->plb;
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t balance = 2 * in->fb_ce - in->fb_total;
    bool idle = f->snd_nxt == f->snd_una;
    /* Without a report, and in the first round, nothing is known. */
    bool reports = f->flags & ACDC_F_CAPABLE;
    bool known = plb->begun && reports
                 && (balance != plb->balance || !in->silent);
    bool congested = (int32_t) (balance - plb->balance) >= 0;

    plb->balance = balance;
    plb->begun = reports;
    if (!known || !congested) {
        plb->congested = 0;
        return;
    }
    if (plb->congested < ACDC_PLB_ROUNDS) {
        plb->congested++;
    }
    if (plb->congested >= (idle ? ACDC_PLB_IDLE_ROUNDS : ACDC_PLB_ROUNDS)
        && !is_suspended(ctx, plb)) {
        acdc_flow_plb_move(ctx, f);
    }
}

void
acdc_flow_plb_suspend(struct acdc_ctx *ctx, struct acdc_flow *f)
{
    struct acdc_plb *plb = &acdc_flow_more(f)->plb;
    uint32_t random = hash(ctx, f, ctx->now_ms) >> 16;
    uint32_t ms = ACDC_PLB_SUSPEND_MS + (random * ACDC_PLB_SUSPEND_MS >> 16);

    plb->until = (ctx->seen + ms / ACDC_SEEN_UNIT) & ACDC_PLB_UNTIL_MASK;
    plb->suspended = true;
    plb->congested = 0;
    ACDC_COUNT(ctx, PLB_SUSPENDED, 1);
}

void
acdc_flow_plb_send(struct acdc_ctx *ctx, const struct acdc_flow *f,
                   const struct acdc_params *params, struct acdc_pkt *p)
{
    uint32_t path;

    if (!acdc_params_enforce(params)) {
        return;
    }
    path = hash(ctx, f, acdc_flow_more_if_any(f)->plb.path);
    if (p->ip_version == 6) {
        if (!acdc_pkt_make_writable(p)) {
            ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
            return;
        }
        /* The guest may change its own, as Linux does after a timeout. */
        acdc_pkt_change_label(p, path);
    }
    acdc_host_set_path(p, path);
}

void
acdc_flow_plb_send_syn(struct acdc_ctx *ctx, struct acdc_flow *f,
                       const struct acdc_params *params, struct acdc_pkt *p)
{
    if (acdc_likely(!params->plb)) {
        return;
    }
    if (acdc_flow_in(f)->n_syns > 1) {
        acdc_flow_plb_move(ctx, f);
    }
    if (acdc_flow_plb_has_path(f)) {
        acdc_flow_plb_send(ctx, f, params, p);
    }
}
