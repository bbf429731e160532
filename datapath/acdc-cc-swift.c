// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* After Swift (Kumar et al., SIGCOMM 2020), for networks whose switches do not mark: what
 * packets wait in queues is held at a target.
 *
 * A flow knows what the path takes without a queue only once it has seen it empty: that
 * is the least it measured.  (Swift has it from the number of hops.)  So a cut takes away
 * all of the queue instead of four fifths of what is beyond the target: one that never
 * empties would be part of the path for flows that come later, and these would get
 * more than those that were there before. */

#include "acdc-law.h"

enum {
    /* The target.  BASE_US absorbs bursts of a few guests.  The share is larger for
     * smaller windows, RANGE_US at one segment, and falls with the root of the window
     * (section 3.5): with N flows the queue varies with the root of N, and flows that
     * have little grow where others are cut. */
    BASE_US = 25,
    RANGE_US = 100,
    RANGE_SEGMENTS = 100,       /* For larger windows the share stays. */

    /* acdc_law.least.own8. */
    UNREPORTED_MOST = 3,        /* So many round-trip times in a row without a report
                                 * are ignored, as reports get lost.  Without any
                                 * report none is. */
    ABOVE = 4,                  /* The queue was above the target. */
};

/* The largest x with x^2 <= a, a < 2^16. */
static uint32_t
square_root(uint32_t a)
{
    uint32_t x = 0, bit;

    for (bit = 128; bit; bit /= 2) {
        if ((x + bit) * (x + bit) <= a) {
            x += bit;
        }
    }
    return x;
}

static uint32_t
target_us(const struct acdc_law *l, const struct acdc_facts *e)
{
    uint64_t most = (uint64_t) RANGE_SEGMENTS * e->mss;
    uint64_t wnd = l->wnd < most ? l->wnd : most;

    if (wnd < e->mss) {
        /* The MSS has just become larger. */
        wnd = e->mss;
    }
    /* The root of 64 times the segments is 8 times their root. */
    return BASE_US + RANGE_US * 8 / square_root((uint32_t) acdc_div64(64 * wnd, e->mss));
}

/* Whether an ACK tells what packets wait in queues, 'queue_us'. */
static bool
get_queue(const struct acdc_law *l, const struct acdc_facts *e, uint32_t *queue_us)
{
    if (e->net_rtt_us) {
        *queue_us = e->queue_us;
        return true;
    }
    if (l->least.own8 & UNREPORTED_MOST || !e->rtt_us || !e->min_rtt_us) {
        return false;
    }
    *queue_us = e->rtt_us - e->min_rtt_us;
    return true;
}

static bool
swift_congested(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t unreported = l->least.own8 & UNREPORTED_MOST;
    uint32_t above = l->least.own8 & ABOVE;
    uint32_t queue_us;
    bool told = get_queue(l, e, &queue_us);

    if (told) {
        above = queue_us > target_us(l, e) ? ABOVE : 0;
    }
    if (e->net_rtt_us) {
        unreported = UNREPORTED_MOST;
    } else if (e->rtt_us && unreported) {
        unreported--;
    }
    l->least.own8 = (unreported | above) & 0xff;
    return e->ce || (told && above);
}

/* By the queue's part of the round trip, so that it empties, half at most.  Half, too, by a
 * loss or a mark, and in slow start, where the window has doubled since what was measured
 * was sent. */
static uint32_t
swift_cut(struct acdc_law *l, const struct acdc_facts *e, enum acdc_cause cause)
{
    uint32_t half = l->wnd / 2, queue_us;

    if (cause != ACDC_CAUSE_ECN || e->ce || l->slow_start
        || !get_queue(l, e, &queue_us) || queue_us >= e->srtt_us / 2) {
        return half;
    }
    return l->wnd - (uint32_t) acdc_div64((uint64_t) l->wnd * queue_us, e->srtt_us);
}

/* A segment a round trip while the queue is below the target. */
static void
swift_grow(struct acdc_law *l, const struct acdc_facts *e, uint32_t acked)
{
    if (!(l->least.own8 & ABOVE)) {
        acdc_law_avoid_congestion(l, e->mss, acked);
    }
}

const struct acdc_cc acdc_cc_swift = {
    .congested = swift_congested,
    .cut = swift_cut,
    .grow = swift_grow,
};
