// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* NewReno's window (RFC 5681), marks taken as loss (RFC 3168). */

#include "acdc-law.h"

static uint32_t
reno_cut(struct acdc_law *l, const struct acdc_facts *e,
         enum acdc_cause cause)
{
    (void) e;
    (void) cause;
    return l->wnd / 2;
}

const struct acdc_cc acdc_cc_reno = {
    .cut = reno_cut,
};
