// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-pace.h"
#include "acdc-onramp.h"
#include "acdc-timing.h"

/* In ACDC_PACE_NS: so long what follows 'bytes' waits, an eighth more or less at
 * random, as flows of the same pace would else meet in the same order each time. */
static uint32_t
gap(const struct acdc_ctx *ctx, const struct acdc_flow_in *in, uint32_t seq,
    uint32_t bytes)
{
    uint32_t random = (uint32_t) ((seq ^ ctx->acdc->salt) * 0x9e3779b97f4a7c15ull >> 58);
    uint32_t gain = in->law.slow_start ? ACDC_PACE_GAIN_SLOW_START : ACDC_PACE_GAIN;
    /* in->srtt_us8 * 1000 / 8 nanoseconds, a fifth of gain. */
    uint64_t time = (uint64_t) in->srtt_us8 * (125 * 5) * bytes / ACDC_PACE_NS;

    return (uint32_t) (acdc_div64(time, (uint64_t) in->law.wnd * gain)
                       * (224 + random) / 256);
}

/* How many segments may leave at once that 'p' begins, which is the first in
 * flight. */
static uint8_t
burst(const struct acdc_flow *f)
{
    uint32_t window = acdc_flow_in(f)->law.wnd / f->mss;

    return (uint8_t) (window < ACDC_PACE_BURST ? window : ACDC_PACE_BURST);
}

void
acdc_flow_hold(const struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p,
               uint64_t release)
{
    if (p->verdict == ACDC_HOLD && p->release >= release) {
        return;
    }
    p->release = release;
    p->verdict = ACDC_HOLD;
    if (ctx->timed == p) {
        f->rtt_us = (uint32_t) acdc_div64(release, 1000) & 0xffffff;
        acdc_flow_in(f)->timed_held = true;
        acdc_timing_hold(ctx, f, p);
    }
}

/* 'p', which is to be segmented, leaves over 'time', in ACDC_PACE_NS: whether in
 * pieces, of one or more segments of 'mss'.  Segments of two pieces may have the same
 * IPv4 ID, which fragments must not have. */
static bool
cut(struct acdc_pkt *p, uint32_t mss, uint32_t time)
{
    uint32_t most = time ? ACDC_PACE_PIECE_NS / ACDC_PACE_NS * p->payload / time : 65535;
    uint32_t piece = most > mss ? most - most % mss : mss;

    if (piece >= p->payload || piece > 65535 || acdc_pkt_may_be_fragmented(p)) {
        return false;
    }
    p->piece = (uint16_t) piece;
    p->piece_ns = (uint32_t) acdc_div64((uint64_t) time * ACDC_PACE_NS * piece, p->payload);
    return true;
}

/* The longest that data waits, in ACDC_PACE_NS: a guest that does not heed its window
 * would have any number held.  A round-trip time, or with less than two segments the time
 * of three. */
static uint32_t
longest(const struct acdc_ctx *ctx, const struct acdc_flow *f,
        const struct acdc_flow_in *in, uint32_t seq)
{
    return in->law.wnd < 2u * f->mss ? gap(ctx, in, seq, 3u * f->mss)
                                     : in->srtt_us8 * 125 / ACDC_PACE_NS;
}

/* Nothing is said to leave so much later than the longest wait, a second. */
enum { AHEAD = 1000000000 / ACDC_PACE_NS };

void
acdc_flow_pace(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p,
               uint32_t last)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint64_t from = acdc_unlikely(in->paused) ? acdc_on_ramp_end(ctx, f) : ctx->now;
    uint32_t now = (uint32_t) (from / ACDC_PACE_NS);
    uint32_t segments = (p->payload + f->mss - 1) / f->mss;
    uint32_t time = gap(ctx, in, p->seq, p->payload);
    uint32_t most = longest(ctx, f, in, p->seq);
    int32_t wait = (int32_t) (in->next_send - now);
    bool again = !seq_after(acdc_pkt_end(p), last), room;

    if (p->seq == f->snd_una && acdc_pkt_end(p) == f->snd_nxt
        && (in->law.wnd >= 2u * f->mss || wait > 2 * (int64_t) most)) {
        /* Nothing else is in flight: what was said before is over.  Not with less than
         * two segments, where it is so again and again. */
        in->unpaced = burst(f);
        wait = 0;
    }
    /* Of some time ago it looks as if it were far ahead, as it comes round. */
    if (wait <= 0 || in->unpaced || wait > (int64_t) most + AHEAD) {
        in->next_send = now;
        wait = 0;
    }
    room = (uint32_t) wait <= most;
    if (room) {
        in->next_send += time;
    }
    if (in->unpaced && in->unpaced >= segments) {
        in->unpaced = (uint8_t) (in->unpaced - segments);
        return;
    }
    in->unpaced = 0;
    if (again && p->seq == f->snd_una && wait) {
        /* Sent again, and the peer waits for it: it passes what is held. */
        return;
    }
    if ((p->gso && room && cut(p, acdc_flow_segment(f, p), time)) || wait) {
        /* The same for all that have the same 'next_send'. */
        from -= from % ACDC_PACE_NS;
        acdc_flow_hold(ctx, f, p, from + (uint64_t) wait * ACDC_PACE_NS);
        ACDC_COUNT(ctx, PACED, 1);
    }
}
