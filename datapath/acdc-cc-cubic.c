// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* CUBIC (RFC 9438) in integers: windows in bytes, time in milliseconds. */

#include "acdc-law.h"

/* beta_cubic = 0.7 and C = 0.4 (RFC 9438 section 4.6, 5). */
enum { BETA_NUM = 7, BETA_DEN = 10 };

enum {
    W_MAX_UNIT = 8,             /* Bytes. */
    W_MAX_MOST = (1 << 27) - 1, /* Units. */
    K_MOST = (1 << 17) - 1,     /* More than the largest window of segments of
                                 * 400 bytes has after a cut. */
    EPOCH_MASK = (1 << 20) - 1, /* 17 minutes of milliseconds. */
    SKEW_MS = 4000,             /* More than threads' clocks differ. */
    T_MAX = 1 << 19,            /* Of W_cubic(t), ms.  There it is larger than
                                 * any window. */
};

struct cubic {
    uint64_t w_max : 27;        /* Units of W_MAX_UNIT, rounded up. */
    uint64_t k_ms : 17;         /* From the epoch to w_max. */
    uint64_t epoch_ms : 20;     /* Start of the growth since the last cut; 0:
                                 * none yet. */
} ACDC_CC_STATE;

static struct cubic *
state(const struct acdc_law *l)
{
    ACDC_BUILD_ASSERT(sizeof(struct cubic) == sizeof l->own);
    return (struct cubic *) &l->own;
}

/* Bytes. */
static uint32_t
w_max(const struct acdc_law *l)
{
    return (uint32_t) state(l)->w_max * W_MAX_UNIT;
}

static uint32_t
units_of(uint32_t bytes)
{
    uint32_t units = (bytes + W_MAX_UNIT - 1) / W_MAX_UNIT;

    return units < W_MAX_MOST ? units : W_MAX_MOST;
}

static void
set_w_max(struct acdc_law *l, uint32_t bytes)
{
    state(l)->w_max = units_of(bytes);
}

/* The largest x with x^3 <= a, a < 2^60. */
static uint32_t
cube_root(uint64_t a)
{
    uint64_t x = 0;
    int bit;

    for (bit = 19; bit >= 0; bit--) {
        uint64_t y = x | 1ull << bit;

        if (y * y * y <= a) {
            x = y;
        }
    }
    return (uint32_t) x;
}

static uint32_t
cubic_cut(struct acdc_law *l, const struct acdc_facts *e,
          enum acdc_cause cause)
{
    (void) e;
    (void) cause;
    /* Fast convergence, section 4.7: release what newcomers need. */
    set_w_max(l, units_of(l->wnd) < state(l)->w_max
                 ? (uint32_t) ((uint64_t) l->wnd * (BETA_DEN + BETA_NUM)
                               / (2 * BETA_DEN))
                 : l->wnd);
    state(l)->epoch_ms = 0;
    return (uint32_t) ((uint64_t) l->wnd * BETA_NUM / BETA_DEN);
}

/* RFC 9438 section 5.8: growth goes on from where the flow last used its
 * window. */
static void
cubic_pause(struct acdc_law *l)
{
    state(l)->epoch_ms = 0;
}

/* W_cubic(t) = C * (t - K)^3 + W_max, section 4.2, with t in ms: C * t^3 in
 * segments is 4 * t^3 / 10^10. */
static uint64_t
w_cubic(const struct acdc_law *l, uint32_t mss, uint64_t t_ms)
{
    int64_t d = (int64_t) t_ms - (int64_t) state(l)->k_ms;
    uint64_t abs = (uint64_t) (d < 0 ? -d : d);
    /* Millionths of a segment keep the product below 2^64. */
    uint64_t cube = acdc_div64(abs * abs * abs, 2500);
    uint64_t bytes = acdc_div64(acdc_div64(cube, 1000) * mss, 1000);

    if (d < 0) {
        return bytes < w_max(l) ? w_max(l) - bytes : 0;
    }
    return w_max(l) + bytes;
}

static void
set_epoch(struct acdc_law *l, uint32_t ms)
{
    state(l)->epoch_ms = ms & EPOCH_MASK ? ms & EPOCH_MASK : 1;
}

/* Growth begins anew. */
static void
start_epoch(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t k_ms;

    set_epoch(l, e->now_ms);
    if (w_max(l) < l->wnd) {
        set_w_max(l, l->wnd);
    }
    /* K = cbrt((W_max - cwnd) / C), in ms: segments / 0.4 * 10^9. */
    k_ms = w_max(l) <= l->wnd ? 0
           : cube_root(acdc_div64((uint64_t) (w_max(l) - l->wnd) * 2500000,
                                  e->mss) * 1000);
    state(l)->k_ms = k_ms < K_MOST ? k_ms : K_MOST;
}

/* Since the growth began, which it does when there is none.  0 if that is negative:
 * another thread's clock may be a little ahead of ours. */
static uint32_t
time_in_epoch(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t t_ms;

    if (!state(l)->epoch_ms) {
        start_epoch(l, e);
    }
    t_ms = (e->now_ms - (uint32_t) state(l)->epoch_ms) & EPOCH_MASK;
    if (t_ms > EPOCH_MASK - SKEW_MS) {
        t_ms = 0;
    } else if (t_ms > T_MAX) {
        /* Not to come round to zero. */
        set_epoch(l, e->now_ms - T_MAX);
        t_ms = T_MAX;
    }
    return t_ms;
}

static void
cubic_grow(struct acdc_law *l, const struct acdc_facts *e, uint32_t acked)
{
    uint32_t rtt_us = e->srtt_us ? e->srtt_us : 1000;
    uint64_t t_ms = time_in_epoch(l, e);
    uint64_t target, reno;

    target = w_cubic(l, e->mss, t_ms + rtt_us / 1000);

    /* Section 4.3, the Reno-friendly region: in short-RTT networks this is
     * what rules.  W_est grows by 3 * (1 - beta) / (1 + beta) = 9 / 17
     * segments a round-trip time from where the epoch began, W_cubic(0): not
     * from a part of W_max, which fast convergence makes less than that. */
    reno = w_cubic(l, e->mss, 0)
           + acdc_div64(acdc_div64(t_ms * 1000 * 9 * e->mss, 17), rtt_us);
    if (target < reno) {
        target = reno;
    }
    /* Section 4.4: never more than 1.5 windows a round trip, never idle. */
    if (target > l->wnd + (uint64_t) l->wnd / 2) {
        target = l->wnd + (uint64_t) l->wnd / 2;
    }
    if (target > l->wnd) {
        /* A remainder smaller than a byte is kept in ca_bytes, in units of
         * 1 / wnd. */
        uint64_t gain = (target - l->wnd) * acked + l->ca_bytes;

        l->ca_bytes = (uint32_t) (gain - acdc_div64(gain, l->wnd) * l->wnd);
        l->wnd += (uint32_t) acdc_div64(gain, l->wnd);
    }
}

const struct acdc_cc acdc_cc_cubic = {
    .cut = cubic_cut,
    .pause = cubic_pause,
    .grow = cubic_grow,
};
