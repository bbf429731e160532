// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Connections of which a port sees one direction: the guest has two ports in a
 * bond and sends by one of them what it gets by the other, or OpenFlow does so.
 * What cannot be followed must not be policed, nor marked, as nobody would
 * return the marks. */

#include "acdc-private.h"

void
acdc_flow_set_capable(struct acdc_ctx *ctx, struct acdc_flow *f,
                      const struct acdc_params *params, bool capable)
{
    acdc_flow_set_counted(ctx, f, capable);
    acdc_law_switch(&acdc_flow_in(f)->law, acdc_flow_algorithm(f, params));
}

/* Falls back, and no longer polices: without ACDC_F_EDGE.  The edges are near what the
 * network said last, that of the guest where its offer ends. */
static void
become_deaf(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params)
{
    bool capable;

    if (acdc_flow_is_deaf(f)) {
        return;
    }
    ACDC_COUNT(ctx, UNHEARD, 1);
    f->flags &= ~(uint32_t) (ACDC_F_EDGE | ACDC_F_RTT_PENDING);
    f->peer_edge = f->rcv_nxt;
    capable = f->flags & ACDC_F_CAPABLE;
    /* Its law may go by losses already, and hears of none now. */
    acdc_flow_set_capable(ctx, f, params, false);
    if (capable) {
        ACDC_TRACE_FLOW(fallback, ctx, f, ACDC_FALLBACK_UNHEARD,
                        acdc_flow_in(f)->law.wnd);
    }
}

/* Deaf is a flow whose guest sent what wants an answer, or answered what did not come,
 * in three ticks of ACDC_SEEN_UNIT and got nothing by this port: as a rule in spite of
 * two retransmissions.  Who pauses for longer than the first of these do expects
 * nothing. */
void
acdc_flow_note_sent(struct acdc_ctx *ctx, struct acdc_flow *f,
                    const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t pause = (ctx->seen - f->seen) & ACDC_SEEN_MASK;

    if (!(f->flags & ACDC_F_LAW) || acdc_flow_in_handshake(f)
        || f->state == ACDC_FLOW_CLOSED
        || acdc_flow_is_deaf(f)) {
        return;
    }
    if (!(f->flags & ACDC_F_UNHEARD) || pause > ACDC_UNHEARD_PAUSE) {
        f->flags |= ACDC_F_UNHEARD;
        in->unheard = 0;
    } else if (!in->unheard) {
        in->unheard = 1;
    } else {
        become_deaf(ctx, f, params);
    }
}

/* Whether two numbers of a packet are near what the network said last. */
static bool
is_heard_place(const struct acdc_flow *f, uint32_t sent, uint32_t received)
{
    return seq_plausible(sent, acdc_flow_in(f)->right_edge)
           && seq_plausible(received, f->peer_edge);
}

/* What the guest sends as long as nothing is heard is followed, no further than
 * sequence numbers can be compared. */
bool
acdc_flow_follow_deaf(struct acdc_flow *f, const struct acdc_pkt *p,
                      uint32_t end)
{
    if ((p->tcp_flags & ACDC_TCP_ACK) && is_heard_place(f, p->seq, p->ack)) {
        acdc_flow_in(f)->unheard = 1;
    }
    if (!seq_plausible(end, f->snd_nxt)) {
        return false;
    }
    if (seq_after(end - ACDC_PLAUSIBLE, f->snd_una)) {
        f->snd_una = end - ACDC_PLAUSIBLE;
    }
    return true;
}

/* Of a deaf flow it is not known how far both ends are, and it may be wrong what the
 * guest said of it.  A packet from the network is believed, so that a guest cannot remain
 * so, if its numbers are near those of the guest (RFC 5961), or near what the network said
 * before, and the guest was there, too: no outsider's are. */
static bool
is_believed(struct acdc_flow *f, const struct acdc_pkt *p, bool near)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (!acdc_pkt_maybe_intact(p)) {
        return false;
    }
    if ((near && seq_plausible(p->seq, f->rcv_nxt))
        || (in->unheard && is_heard_place(f, p->ack, p->seq))) {
        return true;
    }
    in->unheard = 0;
    in->right_edge = p->ack;
    f->peer_edge = p->seq;
    return false;
}

/* If the other end reports no more either, the flow falls back as any other.  What the
 * guest was offered before it may still send, if it is not far from there by now. */
static void
resume(struct acdc_ctx *ctx, struct acdc_flow *f,
       const struct acdc_params *params, const struct acdc_pkt *p, bool near)
{
    uint32_t tx_total = acdc_flow_tx_total(f);
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (!near || seq_after(p->ack, f->snd_nxt)) {
        f->snd_nxt = p->ack;
    }
    if (!near || seq_after(p->ack, f->snd_una)) {
        f->snd_una = p->ack;
    }
    acdc_flow_set_tx_total(f, tx_total);
    if (!seq_plausible(p->seq, f->rcv_nxt)) {
        f->rcv_nxt = p->seq;
    }
    f->peer_edge = p->ack;
    if (!seq_plausible(in->right_edge, p->ack)) {
        in->right_edge = p->ack + ((uint32_t) acdc_pkt_window(p) << f->peer_wscale);
    }
    f->flags |= ACDC_F_EDGE;
    f->dupacks = 0;
    f->flags &= ~(uint32_t) (ACDC_F_RTT_PENDING | ACDC_F_FIN_GUEST
                             | ACDC_F_FIN_PEER);
    if (acdc_flow_both_showed(f)) {
        in->silent = 0;
        acdc_flow_set_capable(ctx, f, params, true);
    }
}

bool
acdc_flow_hear(struct acdc_ctx *ctx, struct acdc_flow *f,
               const struct acdc_params *params, const struct acdc_pkt *p,
               bool near)
{
    bool ack = p->tcp_flags & ACDC_TCP_ACK;

    if (acdc_flow_is_deaf(f)) {
        if (!ack || !is_believed(f, p, near)) {
            return false;
        }
        resume(ctx, f, params, p, near);
    } else if (!ack || !near) {
        return near;
    }
    f->flags &= ~(uint32_t) ACDC_F_UNHEARD;
    return true;
}

/* The other way round: what is acknowledged here was sent by another port, as
 * nothing was by this one for long and the other end's vSwitch, too, says that it
 * arrived, several times.  Then the ACK tells how far the guest is.  As 'active' stays, so does the
 * next one; and a guest that sends here after such a pause begins anew
 * (acdc_law_idle()). */
bool
acdc_flow_follow_ack(const struct acdc_ctx *ctx, struct acdc_flow *f,
                     const struct acdc_pkt *p)
{
    uint32_t ce, total;

    if (f->state != ACDC_FLOW_ESTABLISHED || !(f->flags & ACDC_F_CAPABLE)
        || !(p->opt_flags & ACDC_O_FEEDBACK) || !seq_after(p->ack, f->snd_nxt)
        || acdc_flow_inactive_ms(f, ctx->now_ms) < ACDC_ELSEWHERE_MS) {
        return false;
    }
    acdc_pkt_get_feedback(p, &ce, &total);
    if (!seq_after(total, acdc_flow_tx_total(f))) {
        return false;
    }
    if (f->bad_feedback < ACDC_FEEDBACK_RESYNC - 1) {
        f->bad_feedback++;
        return false;
    }
    f->snd_nxt = p->ack;
    acdc_flow_set_tx_total(f, total);
    return true;
}
