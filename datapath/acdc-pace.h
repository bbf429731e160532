/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Pacing: data of the guest gets a time to leave, so that a window leaves evenly
 * over the round-trip time.  What holds packets until then is the host's, after
 * "Carousel: Scalable Traffic Shaping at End Hosts" (SIGCOMM 2017) and Linux's
 * earliest departure time. */

#ifndef ACDC_PACE_H
#define ACDC_PACE_H 1

#include "acdc-private.h"

enum {
    ACDC_PACE_NS = 16,          /* Unit of acdc_flow_in.next_send. */
    ACDC_PACE_GAIN = 6,         /* Fifths: the pace is 1.2 windows a round-trip
                                 * time, for the window to be what limits, ... */
    ACDC_PACE_GAIN_SLOW_START = 10,     /* ... and 2 where it doubles. */
    ACDC_PACE_BURST = 10,       /* Segments that leave at once where nothing is in
                                 * flight: what is no longer waits for nothing. */
    ACDC_PACE_PIECE_NS = 8000,  /* What is to be segmented later leaves in pieces
                                 * of no more than so much time. */
};

/* Data or FIN 'p' of the guest leaves not before 'release', and its round-trip time, if
 * it is measured, is so from then on. */
void acdc_flow_hold(const struct acdc_ctx *, struct acdc_flow *, struct acdc_pkt *p,
                    uint64_t release);

/* Gives data or FIN 'p' of the guest, already followed, its time to leave.  If that is
 * later than now, or if it leaves in pieces, 'p' is held.  'last': snd_nxt before it.  Flow's lock
 * held. */
void acdc_flow_pace(struct acdc_ctx *, struct acdc_flow *, struct acdc_pkt *p,
                    uint32_t last);

#endif /* acdc-pace.h */
