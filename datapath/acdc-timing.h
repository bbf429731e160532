/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Time on the wire.  About once a round trip the sending side marks a data segment, and
 * the other end's vSwitch reports how long ago that came, and at what time by its own
 * clock.  So the sending side knows the network's round-trip time without the far guest,
 * and by how much the way to it is longer than it can be.
 *
 * Only of connections both of whose ends have said ACDC_CAP_TIMING, which is said where
 * the parameters need it; others have nothing of this. */

#ifndef ACDC_TIMING_H
#define ACDC_TIMING_H 1

#include "acdc-private.h"

enum {
    ACDC_TIMING_SLACK_US = 16,          /* So much synchronized clocks may differ. */
};

/* Whether the parameters need what timing measures. */
static inline bool
acdc_params_timing(const struct acdc_params *params)
{
    return acdc_params_enforce(params)
           && (params->on_ramp
               || acdc_algorithm_has(params->algorithm, ACDC_CC_DELAY));
}

/* Of a flow whose both ends time; else NULL. */
static inline struct acdc_timing *
acdc_flow_timing(const struct acdc_flow *f)
{
    struct acdc_flow_more *more = acdc_flow_more_if_any(f);

    return more && more->timing.on ? &more->timing : NULL;
}

/* What tells a marked segment from those after it, which segmentation offload marks,
 * too. */
static inline uint8_t
acdc_timing_mark_of(uint32_t seq)
{
    return (uint8_t) (seq >> 7);
}

/* Of a difference of such times: another thread's clock may be a little ahead. */
static inline uint32_t
acdc_timing_elapsed(uint32_t now_us, uint32_t since_us)
{
    uint32_t us = (now_us - since_us) & 0xffffff;

    return us <= ACDC_RTT_MOST_US ? us : 0;
}

/* Whether 'p' to the guest has ACDC_CAP_TIMING. */
static inline bool
acdc_timing_is_offered(const struct acdc_pkt *p)
{
    return acdc_pkt_capability_flags(p) & ACDC_CAP_TIMING;
}

/* Both ends have ACDC_CAP_TIMING. */
void acdc_timing_begin(struct acdc_flow *);

/* New data 'p' of the guest, whose round-trip time is measured, too: marks it.  The
 * flow has acdc_flow_more. */
void acdc_timing_mark(struct acdc_ctx *, struct acdc_flow *,
                      const struct acdc_params *, struct acdc_pkt *p);
/* 'p', which may be marked, leaves at 'p->release' only. */
void acdc_timing_hold(const struct acdc_ctx *, struct acdc_flow *,
                      const struct acdc_pkt *p);

/* Data 'p' to the guest, which is plausible.  If it is marked its next packet reports: of
 * several the first, up to PSH or what is not marked, as the others may be of the same one,
 * segmented. */
void acdc_timing_note(const struct acdc_ctx *, struct acdc_flow *,
                      const struct acdc_pkt *p);
/* Whether there is still something to report. */
bool acdc_timing_is_due(const struct acdc_ctx *, struct acdc_flow *);
/* What a report has behind feedback's counts. */
void acdc_timing_put(const struct acdc_ctx *, const struct acdc_flow *,
                     uint8_t times[8]);

/* A report has come with 'p', which is plausible.  What it says for the law; false if
 * that is nothing. */
bool acdc_timing_take(struct acdc_ctx *, struct acdc_flow *,
                      const struct acdc_params *, const struct acdc_pkt *p);
void acdc_timing_facts(const struct acdc_flow *, struct acdc_facts *);

#endif /* acdc-timing.h */
