/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Protective load balancing (Qureshi and others, "PLB: congestion signals are simple
 * and effective for network load balancing", SIGCOMM 2022), with the rules of Linux's
 * tcp_plb.c: a connection whose path stays congested goes to another one, which the
 * network chooses by a hash as it did the first.  What a path is the network sees in
 * the outer source port of a tunnel, and without one in the flow label of IPv6. */

#ifndef ACDC_PLB_H
#define ACDC_PLB_H 1

#include "acdc-private.h"

enum {
    ACDC_PLB_ROUNDS = 12,       /* Congested ones in a row, of which at least half of the
                                 * bytes were marked, after which a connection moves, ... */
    ACDC_PLB_IDLE_ROUNDS = 3,   /* ... and where nothing is in flight, so that nothing can
                                 * be reordered. */
    ACDC_PLB_SUSPEND_MS = 60000,        /* So long, to twice as long at random, congestion
                                         * moves no connection that had a timeout: what left
                                         * a broken path is not to go back there. */
    ACDC_PLB_PATHS = 255,       /* And path 0, that of the packets as they are. */
};

/* All of these with the flow's lock, and but for the last only where the parameters have
 * 'plb'. */

/* A round is over. */
void acdc_flow_plb_round(struct acdc_ctx *, struct acdc_flow *);
/* The guest's retransmission timer has expired, or so it seems: to another path.  The
 * packet that tells of it goes there already. */
void acdc_flow_plb_move(struct acdc_ctx *, struct acdc_flow *);
/* It had, and not for nothing. */
void acdc_flow_plb_suspend(struct acdc_ctx *, struct acdc_flow *);
/* Whether the flow has another path than that of the packets as they are. */
static inline bool
acdc_flow_plb_has_path(const struct acdc_flow *f)
{
    const struct acdc_flow_more *more = acdc_flow_more_if_any(f);

    return more && more->plb.path;
}

/* Sends packet 'p' of the guest by that path; before what is made of its headers. */
void acdc_flow_plb_send(struct acdc_ctx *, const struct acdc_flow *,
                        const struct acdc_params *, struct acdc_pkt *p);
/* Likewise a SYN or SYN-ACK, by another path if it was sent before.  Asks for 'plb'. */
void acdc_flow_plb_send_syn(struct acdc_ctx *, struct acdc_flow *,
                            const struct acdc_params *, struct acdc_pkt *p);

#endif /* acdc-plb.h */
