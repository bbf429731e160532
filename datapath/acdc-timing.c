// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-timing.h"
#include "acdc-onramp.h"

/* This end's clock at ctx->now, which the other end's reports are compared with. */
static uint32_t
clock_us(const struct acdc_ctx *ctx)
{
    return (uint32_t) acdc_div64(acdc_host_clock(ctx->now), 1000);
}

void
acdc_timing_begin(struct acdc_flow *f)
{
    acdc_flow_more(f)->timing.on = true;
    /* Marked data and reports go step by step. */
    f->flags &= ~(uint32_t) ACDC_F_PLAIN;
}

/* The sending side. ---------------------------------------------------------- */

/* Whether the report of the marked segment may still come, or it has yet to leave. */
static bool
is_awaited(const struct acdc_ctx *ctx, const struct acdc_flow *f,
           const struct acdc_timing *t)
{
    const uint32_t skew = ACDC_RTT_SKEW_US;
    uint32_t rtts = acdc_flow_in(f)->srtt_us8 / 4;      /* Two. */

    return t->marked && ((acdc_now_us(ctx) - t->sent_us + skew) & 0xffffff) < rtts + skew;
}

void
acdc_timing_mark(struct acdc_ctx *ctx, struct acdc_flow *f,
                 const struct acdc_params *params, struct acdc_pkt *p)
{
    struct acdc_timing *t;

    /* First what is at hand. */
    if (!(f->flags & ACDC_F_CAPABLE) || !p->payload || !acdc_params_timing(params)) {
        return;
    }
    t = acdc_flow_timing(f);
    if (!t) {
        return;
    }
    if (t->behind == acdc_timing_mark_of(p->seq)) {
        /* So that its segments are not taken for those of the marked packet before it.
         * What comes after it may be marked, wherever it is. */
        t->behind = (uint8_t) (t->behind + 128);
        return;
    }
    if (is_awaited(ctx, f, t) || !acdc_pkt_make_writable(p)) {
        return;
    }
    acdc_pkt_set_reserved(p, ACDC_RES_FACK);
    t->mark = acdc_timing_mark_of(p->seq);
    t->behind = acdc_timing_mark_of(p->tcp_flags & ACDC_TCP_PSH ? p->seq
                                                                : acdc_pkt_end(p));
    t->sent_us = acdc_now_us(ctx) & 0xffffff;
    t->held = false;
    t->marked = true;
    ACDC_COUNT(ctx, TIMED, 1);
}

void
acdc_timing_hold(const struct acdc_ctx *ctx, struct acdc_flow *f,
                 const struct acdc_pkt *p)
{
    struct acdc_timing *t = acdc_flow_timing(f);

    if (t && (acdc_pkt_reserved(p) & ACDC_RES_FACK)) {
        t->sent_us = (uint32_t) acdc_div64(p->release, 1000) & 0xffffff;
        t->held = p->release > ctx->now;
    }
}

/* 'apart': by how much the peer's clock, when the segment came, was later than ours when
 * it left.  Of that what is beyond the least delay: not less than nothing, and no more
 * than what the round trip is beyond its least, 'beyond'.  What is outside of these the
 * clocks have done (one was set, or they drift apart), or another path: the least is
 * corrected.  So an error lasts no longer than a queue does. */
static uint32_t
queueing(struct acdc_timing *t, uint32_t apart, uint32_t beyond, bool first)
{
    if (first || (int32_t) (apart - t->base) < 0) {
        t->base = apart;
    } else if (apart - t->base > beyond) {
        t->base = apart - beyond;
    }
    return apart - t->base;
}

/* Whether a clock was set since the last report, for certain: the way would be longer than
 * the round trip, 'rtt', or the least one longer than the least round trip. */
static bool
clock_was_set(const struct acdc_timing *t, uint32_t apart, uint32_t rtt)
{
    int32_t more = (int32_t) (apart - t->base);
    uint32_t least = acdc_least_us(&t->least);

    return t->rtt_us && (more > (int32_t) (rtt + ACDC_TIMING_SLACK_US)
                         || (least
                             && more < -(int32_t) (least + ACDC_TIMING_SLACK_US)));
}

bool
acdc_timing_take(struct acdc_ctx *ctx, struct acdc_flow *f,
                 const struct acdc_params *params, const struct acdc_pkt *p)
{
    struct acdc_timing *t = acdc_flow_timing(f);
    uint32_t mark_ago, clock, elapsed, rtt, apart, beyond, before;
    bool first, stated, set;

    if (!t) {
        return false;
    }
    acdc_pkt_get_report(p, &mark_ago, &clock);
    elapsed = acdc_timing_elapsed(acdc_now_us(ctx), t->sent_us);
    rtt = elapsed - (mark_ago & 0xffffff);
    acdc_least_pass(&t->least, ctx->now_ms);
    if (!t->marked || mark_ago >> 24 != t->mark || rtt > elapsed
        || (t->held && rtt < acdc_least_us(&t->least) / 4)) {
        /* The last: it left before its time, as nothing held it. */
        ACDC_COUNT(ctx, REPORTS_IGNORED, 1);
        return false;
    }
    rtt += !rtt;
    t->marked = false;
    first = !t->rtt_us;
    before = t->delay_us;
    apart = clock - (clock_us(ctx) - elapsed);
    set = clock_was_set(t, apart, rtt);
    acdc_least_note(&t->least, rtt);
    t->rtt_us = rtt & 0xffffff;
    beyond = rtt - acdc_least_us(&t->least);
    t->delay_us = queueing(t, apart, beyond, first) & 0xffffff;
    /* All of it, if the clocks are said to be synchronized and may be. */
    stated = acdc_a32_read(&ctx->acdc->clock_synced);
    t->synced = stated && apart + ACDC_TIMING_SLACK_US <= rtt + 2 * ACDC_TIMING_SLACK_US;
    if (set || stated != t->synced) {
        ACDC_COUNT(ctx, REPORTS_CLOCK, 1);
    }
    if (t->synced) {
        t->delay_us = ((int32_t) apart > 0 ? apart : 0) & 0xffffff;
    }
    ACDC_COUNT(ctx, REPORTS, 1);
    if (params->on_ramp && acdc_params_enforce(params)) {
        acdc_on_ramp(ctx, f, params, before, t->delay_us);
    }
    return true;
}

void
acdc_timing_facts(const struct acdc_flow *f, struct acdc_facts *facts)
{
    const struct acdc_timing *t = acdc_flow_timing(f);

    facts->net_rtt_us = t->rtt_us;
    facts->min_net_rtt_us = acdc_least_us(&t->least);
    facts->queue_us = t->delay_us;
    if (t->synced) {
        uint32_t least = (int32_t) t->base > 0 ? t->base : 0;

        facts->owd_us = t->delay_us;
        facts->queue_us = t->delay_us > least ? t->delay_us - least : 0;
    }
}

/* The receiving side. -------------------------------------------------------- */

void
acdc_timing_note(const struct acdc_ctx *ctx, struct acdc_flow *f,
                 const struct acdc_pkt *p)
{
    struct acdc_timing *t = acdc_flow_timing(f);
    struct acdc_flow_in *in = acdc_flow_in(f);
    bool marked = acdc_pkt_reserved(p) & ACDC_RES_FACK, first = !in->in_run;

    in->in_run = marked && !(p->tcp_flags & ACDC_TCP_PSH);
    if (!t || !marked || !first || in->to_report) {
        return;
    }
    t->came_us = acdc_now_us(ctx) & 0xffffff;
    t->came_mark = acdc_timing_mark_of(p->seq);
    in->to_report = true;
    f->flags |= ACDC_F_TODO;
}

bool
acdc_timing_is_due(const struct acdc_ctx *ctx, struct acdc_flow *f)
{
    struct acdc_timing *t = acdc_flow_timing(f);
    struct acdc_flow_in *in = acdc_flow_in(f);

    /* What would look as if it were not long ago is no news any more. */
    if (!t || ((acdc_now_us(ctx) - t->came_us) & 0xffffff) - ACDC_RTT_MOST_US
              < ACDC_RTT_MOST_US - ACDC_RTT_SKEW_US) {
        in->to_report = false;
    }
    return in->to_report;
}

void
acdc_timing_put(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                uint8_t times[8])
{
    const struct acdc_timing *t = acdc_flow_timing(f);
    uint32_t ago = acdc_timing_elapsed(acdc_now_us(ctx), t->came_us);

    acdc_put32(times, (uint32_t) t->came_mark << 24 | ago);
    acdc_put32(times + 4, clock_us(ctx) - ago);
}
