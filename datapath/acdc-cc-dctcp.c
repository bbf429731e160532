// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* DCTCP (RFC 8257, Linux tcp_dctcp.c) with AC/DC's priority beta. */

#include "acdc-law.h"

static void
dctcp_init(struct acdc_law *l)
{
    acdc_marks_set(l, ACDC_FIX_ONE, 0, 0);
}

/* alpha = (1 - g) * alpha + g * F, F = ce / total (RFC 8257 section 3.3). */
static void
dctcp_round(struct acdc_law *l, const struct acdc_params *params)
{
    uint64_t ce = acdc_marks_ce(l), total = acdc_marks_total(l);
    uint64_t g = params->gain;
    uint64_t f = 0, alpha;

    if (!total) {
        return;
    }
    if (ce) {
        /* Most rounds have no marks, and a division takes long. */
        f = acdc_div64(ce << ACDC_FIX_SHIFT, total);
    }
    alpha = ((ACDC_FIX_ONE - g) * acdc_marks_alpha(l) + g * f)
            >> ACDC_FIX_SHIFT;
    acdc_marks_set(l, (uint32_t) alpha, 0, 0);
}

/* Random bits for one cut: a guest that does not know 'salt' cannot choose
 * segment sizes that avoid it.  The finalizer of MurmurHash3. */
static uint32_t
random_bits(const struct acdc_facts *e)
{
    uint32_t x = e->snd_nxt ^ e->salt;

    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return (x ^ x >> 16) >> (32 - ACDC_FIX_SHIFT);
}

/* Marks come in short bursts, on whoever sends just then: with cuts at each,
 * flows are marked equally often whatever their windows are, and nothing pulls
 * their shares together (phase effects, Floyd and Jacobson 1992).  So a
 * deeper cut, by up to 4 times 'reduction' and half the window, with the
 * probability that makes the mean the same. */
static uint64_t
spread(const struct acdc_facts *e, uint64_t reduction)
{
    uint64_t half = ACDC_FIX_ONE / 2;
    uint64_t most = reduction > half ? reduction : half;
    uint64_t deep = 4 * reduction < most ? 4 * reduction : most;

    return random_bits(e) * deep < reduction << ACDC_FIX_SHIFT ? deep : 0;
}

/* Of segments that leave evenly some are marked in nearly each round trip, of trains as
 * many, but in few of them, and each such round trip is one cut.  So that a paced flow
 * has its share beside these its cut is half of theirs, but not where half is marked: from
 * a quarter on it is deeper. */
static uint64_t
of_paced(uint64_t reduction, uint64_t alpha)
{
    return alpha >= ACDC_FIX_ONE / 2   ? reduction
           : alpha <= ACDC_FIX_ONE / 4 ? reduction / 2
                                       : reduction * 2 * alpha >> ACDC_FIX_SHIFT;
}

/* wnd * (1 - (alpha - alpha * beta / 2)) (AC/DC section 3.4, equation 1).
 * With beta 1 that is DCTCP's wnd * (1 - alpha / 2). */
static uint32_t
dctcp_cut(struct acdc_law *l, const struct acdc_facts *e,
          enum acdc_cause cause)
{
    uint64_t alpha = acdc_marks_alpha(l);
    uint64_t reduction = alpha - (alpha * e->params->beta
                                  >> (ACDC_FIX_SHIFT + 1));

    if (cause == ACDC_CAUSE_TIMEOUT) {
        return l->wnd / 2;
    }
    if (e->paced && cause == ACDC_CAUSE_ECN && !l->slow_start) {
        reduction = of_paced(reduction, alpha);
    }
    /* Not in slow start, which doubles the window until it is cut. */
    if (e->params->spread_cuts && cause == ACDC_CAUSE_ECN
        && !l->slow_start) {
        reduction = spread(e, reduction);
    }
    return l->wnd - (uint32_t) (l->wnd * reduction >> ACDC_FIX_SHIFT);
}

const struct acdc_cc acdc_cc_dctcp = {
    .init = dctcp_init,
    .round = dctcp_round,
    .cut = dctcp_cut,
};
