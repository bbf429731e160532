// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-onramp.h"
#include "acdc-pace.h"

/* Takes in what the last pauses did: 'less' us less delay with 'more' us more pause than
 * the time before, smoothed by 1/16. */
static void
note_effect(struct acdc_on_ramp *r, int32_t less, int32_t more)
{
    int32_t beta;

    if (more < 0) {
        less = -less;
        more = -more;
    }
    if (more < ACDC_ON_RAMP_LEAST_US) {
        return;
    }
    less = less < 0 ? 0 : less < more ? less : more;
    beta = less * ACDC_ON_RAMP_BETA / more;
    r->beta = (r->beta * 15u + (uint32_t) beta + 8) / 16 & 255;
}

/* The marked segment left after the last pause, so its delay is already less by what that
 * does.  Without one it would be beta times the pause more, and that must not be beyond
 * the threshold. */
void
acdc_on_ramp(struct acdc_ctx *ctx, struct acdc_flow *f,
             const struct acdc_params *params, uint32_t before_us, uint32_t delay_us)
{
    struct acdc_on_ramp *r = &acdc_flow_more(f)->on_ramp;
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t pause;

    if (!(ctx->acdc->host & ACDC_HOST_HOLDS)) {
        return;
    }
    if (!r->held) {
        r->pause_us = 0;
    }
    note_effect(r, (int32_t) (before_us - delay_us), r->pause_us - r->before_us);
    pause = delay_us + r->beta * r->pause_us / ACDC_ON_RAMP_BETA;
    pause = pause > params->on_ramp ? pause - params->on_ramp : 0;
    if (pause > ACDC_ON_RAMP_MOST_US) {
        pause = ACDC_ON_RAMP_MOST_US;
        ACDC_COUNT(ctx, ON_RAMP_CUT, 1);
    }
    r->before_us = r->pause_us;
    r->pause_us = pause & 0x7fff;
    r->held = false;
    if (!pause) {
        return;
    }
    r->until_us = (acdc_now_us(ctx) + pause) & 0xffffff;
    in->paused = true;
    f->flags |= ACDC_F_TODO;
    ACDC_COUNT(ctx, ON_RAMP_PAUSES, 1);
    ACDC_COUNT(ctx, ON_RAMP_US, pause);
}

uint64_t
acdc_on_ramp_end(const struct acdc_ctx *ctx, const struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t left = (acdc_flow_more(f)->on_ramp.until_us - acdc_now_us(ctx)) & 0xffffff;

    /* What is later than that is in the past. */
    if (left > ACDC_ON_RAMP_MOST_US) {
        left = 0;
    }
    in->paused = left;
    /* For all that waits it is the same time, to the nanosecond: they leave in order. */
    return left ? (acdc_div64(ctx->now, 1000) + left) * 1000 : ctx->now;
}

void
acdc_on_ramp_hold(const struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    uint64_t end = acdc_on_ramp_end(ctx, f);

    if (end > ctx->now && acdc_pkt_end(p) != p->seq) {
        acdc_flow_hold(ctx, f, p, end);
        acdc_flow_more(f)->on_ramp.held = true;
    }
}
