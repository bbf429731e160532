// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* NewReno's window (RFC 5681), marks taken as loss (RFC 3168). */

#include "acdc-law.h"

static uint32_t
reno_cut(struct acdc_law *l, const struct acdc_law_env *e,
         enum acdc_cause cause)
{
    (void) e;
    (void) cause;
    return l->wnd / 2;
}

void
acdc_cc_reno_grow(struct acdc_law *l, const struct acdc_law_env *e,
                  uint32_t acked)
{
    acdc_law_avoid_congestion(l, e->mss, acked);
}

const struct acdc_cc acdc_cc_reno = {
    .name = "reno",
    .cut = reno_cut,
    .grow = acdc_cc_reno_grow,
};
