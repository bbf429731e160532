/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* On-Ramp (Liu et al., "Breaking the Transience-Equilibrium Nexus", NSDI 2021): what
 * queues in the network only for a while waits at the edge instead.  Where the one-way
 * delay that timing measures is beyond acdc_params.on_ramp the connection's data pauses,
 * whatever its congestion control is: that is for the equilibrium.  What holds packets is
 * the host's, as for pacing.  No packet waits longer than ACDC_ON_RAMP_MOST_US, and as
 * there is one report for each marked segment, which leaves after the pause, the
 * connection sends between pauses. */

#ifndef ACDC_ONRAMP_H
#define ACDC_ONRAMP_H 1

#include "acdc-private.h"

enum {
    ACDC_ON_RAMP_MOST_US = 10000,
    ACDC_ON_RAMP_BETA = 255,    /* Of acdc_on_ramp.beta: 1. */
    ACDC_ON_RAMP_LEAST_US = 8,  /* Pauses that differ by less say nothing of it. */
};

/* The delay of the marked segment was 'delay_us', and of the one before 'before_us', of a
 * flow with timing and this parameter. */
void acdc_on_ramp(struct acdc_ctx *, struct acdc_flow *,
                  const struct acdc_params *, uint32_t before_us, uint32_t delay_us);
/* When the pause ends, or 'now'; with acdc_flow_in.paused, which is cleared where that
 * is over. */
uint64_t acdc_on_ramp_end(const struct acdc_ctx *, const struct acdc_flow *);
/* The guest sends 'p', with acdc_flow_in.paused. */
void acdc_on_ramp_hold(const struct acdc_ctx *, struct acdc_flow *, struct acdc_pkt *p);

#endif /* acdc-onramp.h */
