/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Tail probes: the sender's side of a connection sends its last segment again if
 * nothing acknowledges it, as RFC 8985 section 7 has guests do it, but after what
 * the fabric takes and not after what a guest thinks.
 *
 * A window is lost as a whole or from some segment on, or what is sent again is
 * lost: any segment of what is in flight brings an ACK then.  So the host keeps one
 * a window, and always the last of what the guest has to send, and what it sends
 * again.  The newest counts.  Once it is asked for, and nothing happened meanwhile,
 * it goes, and that once: only the guest's next segment is kept again. */

#ifndef ACDC_TAIL_H
#define ACDC_TAIL_H 1

#include "acdc-private.h"

/* Data of the guest, as for acdc_tail_keep(): one of this window is kept already. */
static inline bool
acdc_tail_has(const struct acdc_flow *f, const struct acdc_pkt *p, uint32_t last)
{
    const struct acdc_flow_more *more = acdc_flow_more_if_any(f);

    return more && more->tail_kept && f->snd_nxt != last
           && !(p->tcp_flags & (ACDC_TCP_PSH | ACDC_TCP_FIN))
           && seq_after(more->tail_end, f->snd_una);
}

/* Data 'p' of the guest, which leaves as it is now, and acdc_tail_has() not.  'last':
 * snd_nxt before it.  Flow's lock held. */
void acdc_tail_keep(struct acdc_ctx *, struct acdc_flow *,
                    const struct acdc_params *, struct acdc_pkt *p,
                    uint32_t last);
/* What was kept and is due, see acdc_pkt.keep_len. */
void acdc_tail(struct acdc_ctx *, struct acdc_pkt *pkts, unsigned int n);

/* Likewise, of a port that is not bound any more. */
void acdc_tail_refuse(struct acdc_pkt *pkts, unsigned int n);
/* The port is about to be freed: the host still keeps something, and will ask nobody,
 * or a new port of this number. */
void acdc_tail_unbind(struct acdc_port *);

/* Flow's lock held. */
static inline void
acdc_tail_note_sack(struct acdc_flow *f, const struct acdc_pkt *p)
{
    struct acdc_flow_more *more = acdc_flow_more_if_any(f);

    if (more && more->tail_kept
        && acdc_pkt_sacks(p, more->tail_end - 1)) {
        more->tail_kept = false;
    }
}

#endif /* acdc-tail.h */
