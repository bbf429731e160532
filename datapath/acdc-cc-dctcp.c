// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* DCTCP (RFC 8257, Linux tcp_dctcp.c) with AC/DC's priority beta. */

#include "acdc-law.h"

static void
dctcp_init(struct acdc_law *l)
{
    l->dctcp.alpha = ACDC_FIX_ONE;
}

/* alpha = (1 - g) * alpha + g * F, F = ce / total (RFC 8257 section 3.3). */
static void
dctcp_round(struct acdc_law *l, const struct acdc_law_env *e,
            uint32_t ce, uint32_t total)
{
    uint64_t f = acdc_div64((uint64_t) ce << ACDC_FIX_SHIFT, total);
    uint64_t g = e->params->gain;

    l->dctcp.alpha = (uint32_t) (((ACDC_FIX_ONE - g) * l->dctcp.alpha + g * f)
                                 >> ACDC_FIX_SHIFT);
}

/* wnd * (1 - (alpha - alpha * beta / 2)) (AC/DC section 3.4, equation 1).
 * With beta 1 that is DCTCP's wnd * (1 - alpha / 2). */
static uint32_t
dctcp_cut(struct acdc_law *l, const struct acdc_law_env *e,
          enum acdc_cause cause)
{
    uint64_t alpha = l->dctcp.alpha;
    uint64_t reduction = alpha - (alpha * e->params->beta
                                  >> (ACDC_FIX_SHIFT + 1));

    if (cause == ACDC_CAUSE_TIMEOUT) {
        return l->wnd / 2;
    }
    return l->wnd - (uint32_t) (l->wnd * reduction >> ACDC_FIX_SHIFT);
}

const struct acdc_cc acdc_cc_dctcp = {
    .name = "dctcp",
    .init = dctcp_init,
    .round = dctcp_round,
    .cut = dctcp_cut,
    .grow = acdc_cc_reno_grow,
};
