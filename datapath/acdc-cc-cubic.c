// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* CUBIC (RFC 9438) in integers: windows in bytes, time in milliseconds. */

#include "acdc-law.h"

/* beta_cubic = 0.7 and C = 0.4 (RFC 9438 section 4.6, 5). */
enum { BETA_NUM = 7, BETA_DEN = 10 };

static void
cubic_init(struct acdc_law *l)
{
    memset(&l->cubic, 0, sizeof l->cubic);
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
cubic_cut(struct acdc_law *l, const struct acdc_law_env *e,
          enum acdc_cause cause)
{
    (void) e;
    (void) cause;
    /* Fast convergence, section 4.7: release what newcomers need. */
    l->cubic.w_max = l->wnd < l->cubic.w_max
                     ? (uint32_t) ((uint64_t) l->wnd * (BETA_DEN + BETA_NUM)
                                   / (2 * BETA_DEN))
                     : l->wnd;
    l->cubic.epoch_ms = 0;
    return (uint32_t) ((uint64_t) l->wnd * BETA_NUM / BETA_DEN);
}

/* RFC 9438 section 5.8: growth goes on from where the flow last used its
 * window. */
static void
cubic_pause(struct acdc_law *l)
{
    l->cubic.epoch_ms = 0;
}

/* W_cubic(t) = C * (t - K)^3 + W_max, section 4.2, with t in ms: C * t^3 in
 * segments is 4 * t^3 / 10^10. */
static uint64_t
w_cubic(const struct acdc_law *l, uint32_t mss, uint64_t t_ms)
{
    /* Beyond 1000 s the term is larger than any window. */
    int64_t d = (int64_t) (t_ms < 1000000 ? t_ms : 1000000)
                - (int64_t) l->cubic.k_ms;
    uint64_t abs = (uint64_t) (d < 0 ? -d : d);
    /* Millionths of a segment keep the product below 2^64. */
    uint64_t cube = acdc_div64(abs * abs * abs, 2500);
    uint64_t bytes = acdc_div64(acdc_div64(cube, 1000) * mss, 1000);

    if (d < 0) {
        return bytes < l->cubic.w_max ? l->cubic.w_max - bytes : 0;
    }
    return l->cubic.w_max + bytes;
}

static void
cubic_grow(struct acdc_law *l, const struct acdc_law_env *e, uint32_t acked)
{
    uint64_t t_ms, target, reno;
    uint32_t rtt_us = e->srtt_us ? e->srtt_us : 1000;

    if (!l->cubic.epoch_ms) {
        l->cubic.epoch_ms = e->now_ms ? e->now_ms : 1;
        if (l->cubic.w_max < l->wnd) {
            l->cubic.w_max = l->wnd;
        }
        /* K = cbrt((W_max - cwnd) / C), in ms: segments / 0.4 * 10^9. */
        l->cubic.k_ms = cube_root(
            acdc_div64((uint64_t) (l->cubic.w_max - l->wnd) * 2500000,
                       e->mss) * 1000);
    }
    t_ms = (uint32_t) (e->now_ms - l->cubic.epoch_ms);
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
    .name = "cubic",
    .init = cubic_init,
    .cut = cubic_cut,
    .pause = cubic_pause,
    .grow = cubic_grow,
};
