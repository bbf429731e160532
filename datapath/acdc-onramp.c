// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-onramp.h"
#include "acdc-pace.h"

void
acdc_on_ramp(struct acdc_ctx *ctx, struct acdc_flow *f,
             const struct acdc_params *params, uint32_t delay_us)
{
    struct acdc_on_ramp *r = &acdc_flow_more(f)->on_ramp;
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t pause;

    if (delay_us <= params->on_ramp || !ctx->acdc->holds) {
        return;
    }
    pause = delay_us - params->on_ramp;
    if (pause > ACDC_ON_RAMP_MOST_US) {
        pause = ACDC_ON_RAMP_MOST_US;
        ACDC_COUNT(ctx, ON_RAMP_CUT, 1);
    }
    r->until_us = (ctx->now_us + pause) & 0xffffff;
    in->paused = true;
    f->flags |= ACDC_F_TODO;
    ACDC_COUNT(ctx, ON_RAMP_PAUSES, 1);
    ACDC_COUNT(ctx, ON_RAMP_US, pause);
}

uint64_t
acdc_on_ramp_end(const struct acdc_ctx *ctx, const struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t left = (acdc_flow_more(f)->on_ramp.until_us - ctx->now_us) & 0xffffff;

    /* What is later than that is in the past. */
    if (left > ACDC_ON_RAMP_MOST_US) {
        left = 0;
    }
    in->paused = left;
    return ctx->now + left * (uint64_t) 1000;
}

void
acdc_on_ramp_hold(const struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    uint64_t end = acdc_on_ramp_end(ctx, f);

    if (end > ctx->now && acdc_pkt_end(p) != p->seq) {
        acdc_flow_hold(ctx, f, p, end);
    }
}
