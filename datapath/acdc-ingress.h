/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Packets to a guest: the rules that both ways have in line, the usual one
 * (acdc-ingress.c) and the stepwise one (acdc-ingress-steps.c). */

#ifndef ACDC_INGRESS_H
#define ACDC_INGRESS_H 1

#include "acdc-private.h"

/* The codepoint of the guest that sent a packet: what its vSwitch noted in the reserved
 * bits, or 'ecn', which the packet has, if that left it as it was.  '*rewritten': whether
 * the path cleared or rewrote the ECN field; marked, it left as ECT(0) or CE. */
static ACDC_ALWAYS_INLINE uint8_t
senders_ecn(const struct acdc_flow *f, const struct acdc_pkt *p, uint8_t ecn,
            bool *rewritten)
{
    uint8_t noted = (acdc_pkt_reserved(p) & ACDC_RES_ECN_MASK)
                    >> ACDC_RES_ECN_SHIFT;

    *rewritten = false;
    if (noted == (f->flags & ACDC_F_NOT_ECT ? 0 : ACDC_ECN_CE)) {
        return ecn;
    }
    /* Which have this bit both. */
    *rewritten = !(ecn & ACDC_ECN_ECT0) && noted;
    return noted == ACDC_ECN_CE ? ACDC_ECN_NOT_ECT : noted;
}

/* The ECN codepoint that the guest is to see of a packet that came with 'ecn': its
 * peer's own one where the other vSwitch noted that. */
static ACDC_ALWAYS_INLINE uint8_t
ecn_for_guest(struct acdc_ctx *ctx, const struct acdc_flow *f,
              const struct acdc_pkt *p, uint8_t ecn)
{
    bool rewritten;

    ecn = senders_ecn(f, p, ecn, &rewritten);
    if (acdc_unlikely(rewritten)) {
        ACDC_COUNT(ctx, ECN_REWRITTEN, 1);
    }
    return ecn;
}

/* Receiver side: what the next feedback will say. */
static inline void
count_received(struct acdc_ctx *ctx, struct acdc_flow *f,
               const struct acdc_pkt *p, bool ce)
{
    bool was_ce = f->flags & ACDC_F_RX_CE;

    f->rx_total += p->payload;
    if (ce) {
        f->rx_ce += p->payload;
        ACDC_COUNT(ctx, CE_PACKETS, 1);
        ACDC_COUNT(ctx, CE_BYTES, p->payload);
    }
    if (!p->payload) {
        return;
    }
    f->rx_pending = p->payload < (uint32_t) ACDC_PENDING_MAX - f->rx_pending
                    ? (uint16_t) (f->rx_pending + p->payload)
                    : ACDC_PENDING_MAX;
    if (ce != was_ce) {
        f->flags ^= ACDC_F_RX_CE;
        f->flags |= ACDC_F_RX_NEWS;
    }
}

/* What was sent and not received, in units of acdc_flow_in.lost. */
static inline uint32_t
lost_units(const struct acdc_flow *f, const struct acdc_flow_in *in)
{
    return (acdc_flow_tx_total(f) - in->fb_total) / ACDC_LOST_UNIT;
}

/* Nothing is under way, so that is lost.  Of more than the field can say the rest is
 * as if it had never been sent. */
static inline void
note_lost(struct acdc_flow *f, struct acdc_flow_in *in)
{
    if (acdc_unlikely(lost_units(f, in) > ACDC_LOST_MAX)) {
        acdc_flow_set_tx_total(f, in->fb_total + ACDC_LOST_MAX * ACDC_LOST_UNIT);
    }
    in->lost = lost_units(f, in) & ACDC_LOST_MAX;
}

/* acdc_law_ack(), and what a cut entails. */
static inline void
law_ack(struct acdc_ctx *ctx, struct acdc_flow *f,
        const struct acdc_facts *facts)
{
    if (acdc_law_ack(&acdc_flow_in(f)->law, facts)) {
        acdc_flow_time_next(f, facts->window);
        ACDC_COUNT(ctx, CUTS_ECN, 1);
        ACDC_TRACE_LAW(cut, ctx, f);
    }
}

/* Raises '*edge' to 'to'.  'known': it has a value. */
static inline void
raise_edge(uint32_t *edge, uint32_t to, bool known)
{
    /* It is written in any case: as often as not it is raised, which no
     * processor can predict. */
    *edge = !known || seq_after(to, *edge) ? to : *edge;
}

/* The window that the peer offers, bytes; notes how far that reaches. */
static inline uint32_t
peer_window(struct acdc_flow *f, struct acdc_flow_in *in,
            const struct acdc_pkt *p, bool near, bool edge_known)
{
    uint16_t raw = acdc_pkt_window(p);
    uint32_t own = (uint32_t) raw << f->peer_wscale;

    if (acdc_likely(near)) {
        in->peer_window = raw;
        raise_edge(&f->peer_edge, p->ack + own, edge_known);
    }
    return own;
}

/* The window field for the guest: what the peer offers, or the law's window
 * and what of the guest's data has left the network where that is smaller, in
 * the guest's scale.  Never zero unless the peer said zero.
 *
 * Where data goes both ways it ends no earlier than what the guest has sent as
 * it was allowed to, which lets it send no more.  Else the guest's ACKs would
 * have a number that the peer does not accept (renumber_ack()), and if both
 * ends' do and the vSwitches forget the flow, it stands still. */
static ACDC_ALWAYS_INLINE uint16_t
window_field(const struct acdc_flow *f, const struct acdc_flow_in *in,
             bool enforced, uint32_t own, unsigned int scale, uint32_t sacked)
{
    uint32_t field = own >> scale;

    if (enforced) {
        uint64_t limit = (uint64_t) in->law.wnd + sacked;

        if (f->flags & ACDC_F_BOTH_WAYS) {
            /* Not what it sent beyond any window: it would get more and
             * more. */
            uint32_t end = seq_before(f->snd_nxt, in->right_edge)
                           ? f->snd_nxt : in->right_edge;

            if (seq_after(end, f->snd_una) && limit < end - f->snd_una) {
                limit = end - f->snd_una;
            }
        }
        limit = (limit + (1u << scale) - 1) >> scale;
        field = field < limit ? field : (uint32_t) limit;
    }
    if (acdc_unlikely(!field) && own) {
        field = 1;
    }
    return (uint16_t) (field < 0xffff ? field : 0xffff);
}

/* How far the guest may send now: 'offered' bytes from 'ack' on, where the peer
 * offered 'own'.  Counts what is less than that, with a finer scale also the
 * same field; not what the guest will drop (is_near()). */
static inline void
note_offer(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_flow_in *in,
           uint32_t ack, uint32_t offered, uint32_t own, bool edge_known)
{
    uint32_t edge = ack + offered;

    raise_edge(&in->right_edge, edge, edge_known);
    if (!edge_known) {
        f->flags |= ACDC_F_EDGE;
    }
    if (offered < own) {
        ACDC_COUNT(ctx, WINDOW_REWRITTEN, 1);
        /* First the flag: it stays, and can be predicted. */
        if (!(f->flags & ACDC_F_SHRUNK) && seq_before(edge, f->snd_nxt)) {
            f->flags |= ACDC_F_SHRUNK;
        }
    }
}

/* Whether the guest may take this ACK number.  One that is corrupt or of an
 * outsider it drops, and what was offered must not be taken from there: 2^31
 * bytes away comparisons turn round, and all that the guest sends from then on
 * would be beyond it.  No network holds 16 MB of a connection; beyond SND.NXT
 * may be fragments of the guest. */
static inline bool
is_near(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return p->ack - f->snd_una + ACDC_PLAUSIBLE
           <= f->snd_nxt - f->snd_una + 2u * ACDC_PLAUSIBLE;
}

/* acdc-ingress-steps.c; the flow's lock held. */

/* Whether to ask first for a second flow of the same key
 * (acdc_flow_is_live()). */
bool acdc_ingress_is_doubtful(const struct acdc_flow *,
                              const struct acdc_pkt *);
/* What the usual way is not for. */
void acdc_ingress_stepwise(struct acdc_ctx *, struct acdc_flow *,
                           const struct acdc_params *, struct acdc_pkt *);
/* Gives 'p' to the second flow, if it is of that; then 'first' goes.  True if it
 * did or dropped it.  No lock held. */
bool acdc_ingress_second(struct acdc_ctx *, struct acdc_flow *first,
                         struct acdc_pkt *);

#endif /* acdc-ingress.h */
