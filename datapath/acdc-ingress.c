// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Packets to a guest: marks counted and hidden, feedback taken out and given
 * to the law, the window rewritten.  A guest never sees anything of ours. */

#include "acdc-table.h"

/* The ECN codepoint that the guest is to see, its peer's own one where the
 * other vSwitch noted that.  '*marked': whether the packet was ours to mark and
 * arrived marked. */
static ACDC_ALWAYS_INLINE uint8_t
ecn_for_guest(const struct acdc_pkt *p, bool *marked)
{
    uint8_t codepoint = (acdc_pkt_reserved(p) & ACDC_RES_ECN_MASK)
                        >> ACDC_RES_ECN_SHIFT;
    uint8_t ecn = acdc_pkt_ecn(p);
    bool ours = codepoint != ACDC_ECN_CE;

    *marked = ours && ecn == ACDC_ECN_CE;
    return ours ? codepoint : ecn;
}

/* Takes the guest's own ECN codepoint and clears the reserved bits.  Returns
 * true if the packet was ours to mark and arrived marked. */
static ACDC_ALWAYS_INLINE bool
hide_ecn(struct acdc_pkt *p)
{
    bool marked;
    uint8_t ecn = ecn_for_guest(p, &marked);

    if (acdc_pkt_reserved(p)) {
        acdc_pkt_set_reserved(p, 0);
    }
    if (ecn != acdc_pkt_ecn(p)) {
        acdc_pkt_set_ecn(p, ecn);
    }
    return marked;
}

/* Whether the other end's vSwitch had its hands on the packet.  If not (it was
 * restarted and knows the connection no more), marks are for the guests'
 * own ECN: guests that negotiated it send all new data as ECT (RFC 3168
 * section 6.1), so the vSwitch would have noted that codepoint. */
static bool
is_dressed(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return !(f->flags & ACDC_F_GUEST_ECN) || !p->payload
           || (acdc_pkt_reserved(p) & ACDC_RES_ECN_MASK)
           || seq_before(p->seq, f->rcv_nxt);
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

/* Whether it is of what the guest was seen to send.  'near': is_near(), which
 * one asks once for a packet, as taking its ACK number does not change it. */
static inline bool
is_valid_ack(const struct acdc_flow *f, const struct acdc_pkt *p, bool near)
{
    return near && !seq_after(p->ack, f->snd_nxt);
}

/* Whether the other end of the connection may have sent this now, and not
 * somebody who knows its addresses and ports but not its sequence numbers
 * (RFC 5961 section 5).  Nothing is that late or early: no network holds 16 MB
 * of a connection. */
static inline bool
is_plausible(const struct acdc_flow *f, const struct acdc_pkt *p, bool near)
{
    return seq_plausible(p->seq, f->rcv_nxt) && is_valid_ack(f, p, near);
}

/* What a packet says of what arrived at the other end. */
enum report {
    REPORT_NONE,                /* Nothing, or nothing new. */
    REPORT_BAD,                 /* Nothing to be believed.  But it speaks. */
    REPORT_GOOD,
};

/* What a report adds to the one before; '*d_ce' and '*d_total' stay unless it
 * is REPORT_GOOD. */
static enum report
read_feedback(struct acdc_ctx *ctx, struct acdc_flow *f,
              const struct acdc_pkt *p, uint32_t *d_ce, uint32_t *d_total)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t ce, total, new_ce, new_total;

    acdc_pkt_get_feedback(p, &ce, &total);
    new_total = total - in->fb_total;
    new_ce = ce - in->fb_ce;
    if (seq_after(in->fb_total, total)) {
        /* Overtaken on its way, or a retransmission's. */
        ACDC_COUNT(ctx, FEEDBACK_STALE, 1);
        return REPORT_NONE;
    }
    if (seq_after(total, acdc_flow_tx_total(f)) || new_ce > new_total) {
        ACDC_COUNT(ctx, FEEDBACK_BAD, 1);
        if (f->bad_feedback < ACDC_FEEDBACK_RESYNC - 1) {
            f->bad_feedback++;
            return REPORT_BAD;
        }
        /* Not once but always: the network duplicates packets, and both ends
         * count differently.  Count from here; what is on its way will be
         * reported too. */
        new_total = new_ce = 0;
        acdc_flow_set_tx_total(f, total + (f->snd_nxt - p->ack));
    }
    *d_total = new_total;
    *d_ce = new_ce;
    if (acdc_unlikely(f->bad_feedback)) {
        f->bad_feedback = 0;
    }
    in->fb_total = total;
    in->fb_ce = ce;
    in->silent = 0;
    return REPORT_GOOD;
}

/* The other end does not report any more (its vSwitch was restarted, the
 * guest moved to a host without AC/DC): a mark that nobody returns is a lost
 * congestion signal, so fall back. */
static inline void
note_silence(struct acdc_ctx *ctx, struct acdc_flow *f,
             const struct acdc_params *params, uint32_t acked)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t silent = in->silent + (acked + ACDC_SILENT_UNIT - 1)
                                   / ACDC_SILENT_UNIT;
    uint64_t limit = (4 * (uint64_t) in->law.wnd + 64 * (uint64_t) f->mss)
                     / ACDC_SILENT_UNIT;

    in->silent = (uint16_t) (silent < ACDC_SILENT_MAX ? silent
                                                      : ACDC_SILENT_MAX);
    if (silent > (limit < ACDC_SILENT_MAX ? limit : ACDC_SILENT_MAX)) {
        acdc_flow_set_counted(ctx, f, false);
        acdc_law_switch(&in->law, acdc_flow_algorithm(f, params));
        ACDC_COUNT(ctx, FEEDBACK_LOST, 1);
    }
}

/* Takes the round-trip time if 'ack' ends what is being timed, and has the next
 * timed.  Returns it, us, or 0. */
static ACDC_NOINLINE uint32_t
sample_rtt(struct acdc_ctx *ctx, struct acdc_flow *f,
           const struct acdc_params *params, uint32_t ack)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t rtt, srtt_us8 = in->srtt_us8;
    bool pending = f->flags & ACDC_F_RTT_PENDING;

    if ((pending || acdc_law_is_held(&in->law))
        && !seq_after(ack, in->law.timed_end)) {
        return 0;
    }
    /* The law would do so with this ACK anyway. */
    acdc_law_leave_cut(&in->law, ack);
    acdc_flow_time_next(f);
    if (!pending) {
        return 0;
    }
    rtt = (ctx->now_us - f->rtt_us) & 0xffffff;
    /* Another thread's clock may be a little behind. */
    if (!rtt || rtt > 0xffffff - ACDC_RTT_SKEW_US) {
        rtt = 1;
    }
    if (rtt > ACDC_RTT_MOST_US) {
        return 0;
    }
    if (acdc_unlikely(acdc_flow_is_small(f))
        && rtt > srtt_us8 / 8 + ACDC_DELAYED_ACK_US) {
        acdc_flow_note_delay(ctx, f, params);
    }
    srtt_us8 = srtt_us8 ? srtt_us8 + rtt - srtt_us8 / 8 : rtt * 8;
    in->srtt_us8 = srtt_us8 < 0xffffff ? srtt_us8 : 0xffffff;
    acdc_law_note_rtt(&in->law, rtt);
    ACDC_COUNT(ctx, RTT_SAMPLES, 1);
    acdc_rtt_record(ctx, rtt);
    return rtt;
}

/* Whether the far guest acknowledges at once what solicit_ack() sends.  One that
 * does not acknowledges two segments together, and one alone for a timer's sake
 * or for a while after the handshake: hence many in a row, each with more still in
 * flight. */
static ACDC_NOINLINE void
note_prompt_ack(struct acdc_ctx *ctx, struct acdc_flow *f, uint32_t acked)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (!(f->flags & ACDC_F_SOLICITED) || acdc_flow_is_prompt(f)) {
        return;
    }
    if (acked > f->mss) {
        in->prompt_acks = 0;
    } else if (f->snd_una != f->snd_nxt) {
        in->prompt_acks++;
        if (acdc_flow_is_prompt(f)) {
            ACDC_COUNT(ctx, FLOWS_PROMPT, 1);
        }
    }
}

/* Three duplicate ACKs, or as much beyond the hole in SACK blocks. */
static bool
shows_loss(struct acdc_flow *f, const struct acdc_pkt *p, bool duplicate)
{
    if (duplicate && f->dupacks < ACDC_DUPACKS_MAX) {
        f->dupacks++;
    }
    if (f->dupacks == ACDC_DUPTHRESH) {
        return true;
    }
    if ((p->opt_flags & ACDC_O_SACK) && !(f->flags & ACDC_F_SACK_LOSS)
        && seq_after(acdc_pkt_sack_edge(p, f->snd_una, f->snd_nxt),
                     f->snd_una + ACDC_DUPTHRESH * (uint32_t) f->mss)) {
        f->flags |= ACDC_F_SACK_LOSS;
        return true;
    }
    return false;
}

/* For acdc_flow_in.lost. */
static inline uint16_t
lost_units(uint32_t bytes)
{
    return (uint16_t) (bytes / ACDC_LOST_UNIT);
}

/* What was sent and not received is lost, once nothing is under way.  True if
 * that is more than before, or if it is not known. */
static bool
note_lost(struct acdc_flow *f, const struct acdc_pkt *p, enum report report)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint16_t lost = lost_units(acdc_flow_tx_total(f) - in->fb_total);
    bool more;

    if (report != REPORT_GOOD || p->ack != f->snd_nxt
        || (f->flags & ACDC_F_FIN_GUEST)) {
        return true;
    }
    more = (int16_t) (lost - in->lost) > 0;
    in->lost = lost;
    return more;
}

/* acdc_law_ack(), and what a cut entails. */
static inline void
law_ack(struct acdc_ctx *ctx, struct acdc_flow *f,
        const struct acdc_facts *facts)
{
    if (acdc_law_ack(&acdc_flow_in(f)->law, facts)) {
        acdc_flow_time_next(f);
        ACDC_COUNT(ctx, CUTS_ECN, 1);
    }
}

/* Gives an ACK to the law.  Sets '*duplicate' and '*update' for the window. */
static void
process_ack(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, const struct acdc_pkt *p,
            bool near, bool fack, enum report report, uint32_t d_ce,
            uint32_t d_total, bool *duplicate, bool *update)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    /* A FACK is not the guest's word. */
    bool pure = !p->payload && !(p->tcp_flags & ACDC_TCP_FIN) && !fack;
    uint16_t window = acdc_pkt_window(p);
    uint32_t acked = p->ack - f->snd_una, rtt_us = 0;
    struct acdc_facts facts;
    bool loss, more_lost;

    *duplicate = *update = false;
    if (!is_valid_ack(f, p, near)) {
        ACDC_COUNT(ctx, ACK_INVALID, 1);
        return;
    }
    if (seq_before(p->ack, f->snd_una)) {
        /* Overtaken; its feedback is not. */
        acked = 0;
    } else if (!acked && !(f->flags & ACDC_F_BEHIND) && pure
               && f->snd_nxt != f->snd_una) {
        *duplicate = window == in->peer_window;
        *update = !*duplicate && !(p->opt_flags & ACDC_O_SACK);
    }
    if (acked) {
        f->snd_una = p->ack;
        f->flags |= fack ? ACDC_F_BEHIND : 0;
        if (acdc_unlikely(f->dupacks || (f->flags & ACDC_F_SACK_LOSS))) {
            f->dupacks = 0;
            f->flags &= ~(uint32_t) ACDC_F_SACK_LOSS;
        }
        f->active = (uint16_t) ctx->now_ms;
        if (!(f->flags & ACDC_F_RTT_NEXT)) {
            rtt_us = sample_rtt(ctx, f, params, p->ack);
        }
        if (acdc_unlikely(params->small_windows)) {
            note_prompt_ack(ctx, f, acked);
        }
    }
    if (report != REPORT_GOOD && acked) {
        if (!(f->flags & ACDC_F_CAPABLE)) {
            if (f->flags & ACDC_F_GUEST_ECN) {
                /* No AC/DC at the other end, or observing: what the guests
                 * tell each other. */
                d_total = acked;
                d_ce = p->tcp_flags & ACDC_TCP_ECE ? acked : 0;
            }
        } else if (report == REPORT_NONE) {
            note_silence(ctx, f, params, acked);
        }
    }
    loss = f->snd_nxt != f->snd_una && shows_loss(f, p, *duplicate);
    more_lost = note_lost(f, p, report);
    if (!acked && !d_total && !loss) {
        return;
    }
    acdc_flow_facts(ctx, f, params, &facts);
    if ((f->flags & ACDC_F_DOUBT) && (acked || loss)) {
        f->flags &= ~(uint32_t) ACDC_F_DOUBT;
        if (more_lost) {
            acdc_flow_timeout(ctx, f, &facts);
        }
    }
    if (acked || d_total) {
        facts.acked = acked;
        facts.ce = d_ce;
        facts.total = d_total;
        facts.rtt_us = rtt_us;
        law_ack(ctx, f, &facts);
    }
    if (loss) {
        acdc_flow_loss(ctx, f, &facts);
    }
}

/* The rest of process_ack() where acdc_law_usual_ack() will not do. */
static ACDC_NOINLINE void
give_to_law(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, uint32_t acked, uint32_t ce,
            uint32_t total, uint32_t rtt_us)
{
    struct acdc_facts facts;

    acdc_flow_facts(ctx, f, params, &facts);
    facts.acked = acked;
    facts.ce = ce;
    facts.total = total;
    facts.rtt_us = rtt_us;
    law_ack(ctx, f, &facts);
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

/* Rewrites the window field of 'p', an ACK or SYN to the guest.  'own': what
 * the peer offers, in bytes.  Returns false if the packet is to be dropped, a
 * window update that the guest would take for a duplicate ACK.  'duplicate':
 * it is one in truth. */
static ACDC_ALWAYS_INLINE bool
enforce(struct acdc_ctx *ctx, struct acdc_flow *f, bool enforced,
        struct acdc_pkt *p, uint32_t own, bool near, bool syn, bool duplicate,
        bool update)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    /* The window of a SYN is not scaled (RFC 7323 section 2.2). */
    unsigned int scale = syn ? 0 : f->out_wscale;
    /* As a congestion window is of what is in flight (RFC 6675, "pipe"): else
     * a guest could send nothing new until a hole is filled, and would learn
     * of the loss of what it sends again by its timer alone. */
    uint32_t sacked = p->opt_flags & ACDC_O_SACK
                      ? acdc_pkt_sacked(p, f->snd_una, f->snd_nxt) : 0;
    uint16_t field = window_field(f, in, enforced, own, scale, sacked);

    if (enforced) {
        if (duplicate && in->out_window && own >> scale >= in->out_window) {
            /* A duplicate ACK has the window of the one before (RFC 5681
             * section 2): without SACK the guest counts them.  With SACK it
             * may be larger (RFC 6675 section 2).  Zero is said only where
             * the peer says it. */
            if (!sacked || field < in->out_window) {
                field = in->out_window;
            }
        } else if (update && field == in->out_window) {
            ACDC_COUNT(ctx, UPDATES_ABSORBED, 1);
            return false;
        }
    }
    if (field != acdc_pkt_window(p)) {
        if (acdc_pkt_make_writable(p)) {
            acdc_pkt_set_window(p, field);
        } else {
            ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
            field = acdc_pkt_window(p);         /* This the guest is told. */
        }
    }
    if (acdc_unlikely(!near)) {
        return true;
    }

    in->out_window = syn ? (uint16_t) (field >> f->out_wscale) : field;
    note_offer(ctx, f, in, p->tcp_flags & ACDC_TCP_ACK ? p->ack : f->snd_una,
               (uint32_t) field << scale, own, f->flags & ACDC_F_EDGE);
    return true;
}

/* A FACK ends here, unless it lets the guest send more: then it becomes the
 * window update that it is.  Never a smaller window: with the ACK number the
 * guest knows, Linux would take that for a duplicate ACK. */
static ACDC_NOINLINE void
finish_fack(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, struct acdc_pkt *p, bool near)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint16_t heard_window = in->peer_window, told_window = in->out_window;
    uint32_t right_edge = in->right_edge;
    /* What is acknowledged anew moves the window's end; where the guest was once
     * told a smaller window that may have been there before. */
    uint32_t told_edge = f->flags & ACDC_F_BEHIND
                         ? right_edge
                         : f->snd_una
                           + ((uint32_t) told_window << f->out_wscale);
    uint32_t own = peer_window(f, in, p, near, f->flags & ACDC_F_EDGE);
    uint32_t edge;

    if (!acdc_flow_enforced(f, params) || p->ack != f->snd_una) {
        /* An ACK that says the same window is no duplicate: the guest has not
         * heard of it. */
        in->peer_window = heard_window;
        p->verdict = ACDC_DROP;
        return;
    }
    enforce(ctx, f, true, p, own, near, false, false, false);
    edge = p->ack + ((uint32_t) in->out_window << f->out_wscale);
    if (!seq_after(edge, told_edge)) {
        in->peer_window = heard_window;
        in->out_window = told_window;
        in->right_edge = right_edge;
        p->verdict = ACDC_DROP;
        return;
    }
    f->flags &= ~(uint32_t) ACDC_F_BEHIND;
    ACDC_COUNT(ctx, WINDOW_UPDATES, 1);
}

/* How far the data to the guest reaches.  Not by a packet that is corrupt or
 * of somebody else, who would get anywhere by steps: the guest will drop it. */
static inline void
note_data(struct acdc_flow *f, const struct acdc_pkt *p, bool near)
{
    uint32_t end = acdc_pkt_end(p);

    if (end != p->seq && seq_after(end, f->rcv_nxt)
        && !seq_after(p->seq, f->rcv_nxt + ACDC_PLAUSIBLE)
        && (!(f->flags & ACDC_F_LAW) || near)) {
        f->rcv_nxt = end;
    }
}

/* After a RST that was not believed, of a guest that wants to be forgotten or
 * of an outsider, the peer goes on, be it with a challenge ACK (RFC 5961).  If
 * this was under way and the connection is dead the guest answers with another
 * RST. */
static void
note_alive(const struct acdc_ctx *ctx, struct acdc_flow *f,
           const struct acdc_pkt *p, bool near)
{
    uint32_t fins = f->flags & (ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER);

    if (f->state == ACDC_FLOW_CLOSED && !(p->tcp_flags & ACDC_TCP_RST)
        && fins != (ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER)
        && is_plausible(f, p, near)) {
        acdc_flow_set_state(ctx, f, fins ? ACDC_FLOW_CLOSING
                                         : ACDC_FLOW_ESTABLISHED);
    }
}

/* The window that the guest is told when an ACK could not be edited. */
static ACDC_NOINLINE void
note_told(struct acdc_flow *f, const struct acdc_pkt *p, bool near)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t edge = p->ack + ((uint32_t) acdc_pkt_window(p) << f->out_wscale);

    if ((f->flags & ACDC_F_EDGE) && (p->tcp_flags & ACDC_TCP_ACK) && near) {
        raise_edge(&in->right_edge, edge, true);
    }
}

/* Header prediction (Jacobson, "4BSD TCP header prediction", 1990): what most
 * packets are, ACKs with feedback for new data and data in order, of a flow in
 * the middle of its life.  Has the effect that ingress_stepwise() would have,
 * which asks for each step whether it is due (tests/unit/test-prediction.c
 * holds one against the other). */

/* Of both kinds: what is asked of the flow. */
static ACDC_ALWAYS_INLINE bool
is_usual(const struct acdc_flow *f)
{
    const uint32_t flags = ACDC_F_PLAIN | ACDC_F_OFFERED | ACDC_F_PEER
                           | ACDC_F_CAPABLE | ACDC_F_EDGE | ACDC_F_LAW;

    return (f->flags & (flags | ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER
                        | ACDC_F_DOUBT | ACDC_F_BEHIND
                        | ACDC_F_SACK_LOSS)) == flags
           && f->state == ACDC_FLOW_ESTABLISHED && !f->bad_feedback
           && !f->dupacks;
}

/* The window field for the guest. */
static ACDC_ALWAYS_INLINE uint16_t
usual_window(struct acdc_ctx *ctx, struct acdc_flow *f,
             struct acdc_flow_in *in, const struct acdc_pkt *p)
{
    uint32_t own = peer_window(f, in, p, true, true);
    uint16_t field = window_field(f, in, true, own, f->out_wscale, 0);

    in->out_window = field;
    note_offer(ctx, f, in, p->ack, (uint32_t) field << f->out_wscale, own,
               true);
    return field;
}

/* False, with nothing changed, if 'p' is not such an ACK or may not be
 * written. */
static ACDC_ALWAYS_INLINE bool
usual_ack(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_flow_in *in,
          const struct acdc_params *params, struct acdc_pkt *p)
{
    uint32_t ack = p->ack;
    uint32_t acked = ack - f->snd_una;
    uint32_t flight = f->snd_nxt - f->snd_una;
    uint32_t ce, total, new_ce, new_total, rtt_us = 0;
    uint16_t window;
    uint8_t ecn;
    bool marked;

    if ((p->opt_flags & ~(unsigned int) ACDC_O_TIMESTAMP) != ACDC_O_FEEDBACK
        || (acdc_pkt_reserved(p) & ACDC_RES_FACK)
        || acked - 1 >= flight || flight >= ACDC_WINDOW_MAX
        || !seq_plausible(p->seq, f->rcv_nxt)) {
        return false;
    }
    acdc_pkt_get_feedback(p, &ce, &total);
    new_total = total - in->fb_total;
    new_ce = ce - in->fb_ce;
    if (seq_before(total, in->fb_total)
        || seq_after(total, acdc_flow_tx_total(f))
        || new_ce > new_total || !acdc_pkt_make_writable(p)) {
        return false;
    }

    ACDC_COUNT(ctx, PACK_RECEIVED, 1);
    in->fb_total = total;
    in->fb_ce = ce;
    in->silent = 0;
    f->snd_una = ack;
    f->active = (uint16_t) ctx->now_ms;
    if (!(f->flags & ACDC_F_RTT_NEXT)) {
        rtt_us = sample_rtt(ctx, f, params, ack);
    }
    if (ack == f->snd_nxt) {
        in->lost = lost_units(acdc_flow_tx_total(f) - total);
    }
    if (!acdc_law_usual_ack(&in->law, params, f->mss, ack, f->snd_nxt, acked,
                            flight, new_ce, new_total)) {
        give_to_law(ctx, f, params, acked, new_ce, new_total, rtt_us);
    }
    window = usual_window(ctx, f, in, p);
    ecn = ecn_for_guest(p, &marked);
    if (marked) {
        ACDC_COUNT(ctx, CE_PACKETS, 1);
    }
    if (acdc_unlikely(!acdc_pkt_undress_ack(p, ecn, window))) {
        acdc_pkt_undress_any(p, ctx->exid, ecn, window);
    }
    return true;
}

/* The same for data, where the guest has nothing in flight. */
static ACDC_ALWAYS_INLINE bool
usual_data(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_flow_in *in,
           struct acdc_pkt *p)
{
    uint16_t window;
    uint8_t ecn;
    bool ce;

    if ((p->opt_flags & ~(unsigned int) ACDC_O_TIMESTAMP)
        || p->seq != f->rcv_nxt || p->ack != f->snd_una
        || f->snd_nxt != f->snd_una || !is_dressed(f, p)
        || !acdc_pkt_make_writable(p)) {
        return false;
    }
    ecn = ecn_for_guest(p, &ce);
    count_received(ctx, f, p, ce);
    f->rcv_nxt += p->payload;
    window = usual_window(ctx, f, in, p);
    acdc_pkt_undress(p, ecn, window);
    return true;
}

/* All else. */
static ACDC_NOINLINE void
ingress_stepwise(struct acdc_ctx *ctx, struct acdc_flow *f,
                 const struct acdc_params *params, struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    bool duplicate = false, update = false;
    enum report report = REPORT_NONE;
    uint32_t d_ce = 0, d_total = 0;
    bool fack, near;

    if (acdc_unlikely(!params->enabled)) {
        ACDC_COUNT(ctx, UNTOUCHED_DISABLED, 1);
    }
    if (p->tcp_flags & ACDC_TCP_SYN) {
        if (acdc_synack_ingress(ctx, p, f, params)) {
            enforce(ctx, f, acdc_flow_enforced(f, params), p,
                    acdc_pkt_window(p), is_near(f, p), true, false, false);
        } else {
            ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
        }
        return;
    }

    near = is_near(f, p);
    if ((f->flags & ACDC_F_LAW) && acdc_flow_in_handshake(f)
        && (p->tcp_flags & ACDC_TCP_ACK)
        && seq_after(p->ack, f->snd_una) && !seq_after(p->ack, f->snd_nxt)) {
        acdc_flow_set_state(ctx, f, ACDC_FLOW_ESTABLISHED);
    }
    fack = (p->opt_flags & ACDC_O_FEEDBACK) && !p->payload
           && (acdc_pkt_reserved(p) & ACDC_RES_FACK);
    if ((f->flags & ACDC_F_OFFERED) && (f->flags & ACDC_F_PEER)) {
        if (!acdc_pkt_make_writable(p)) {
            ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
            note_data(f, p, near);
            note_told(f, p, near);
            return;
        }
        if ((p->opt_flags & ACDC_O_FEEDBACK)
            && (!is_plausible(f, p, near) || acdc_flow_in_handshake(f))) {
            ACDC_COUNT(ctx, FEEDBACK_BAD, 1);
        } else if (p->opt_flags & ACDC_O_FEEDBACK) {
            if (fack) {
                ACDC_COUNT(ctx, FACK_RECEIVED, 1);
            } else {
                ACDC_COUNT(ctx, PACK_RECEIVED, 1);
            }
            report = read_feedback(ctx, f, p, &d_ce, &d_total);
            if (report == REPORT_GOOD && !(f->flags & ACDC_F_CAPABLE)) {
                /* It speaks again. */
                acdc_flow_set_counted(ctx, f, true);
                acdc_law_switch(&in->law, acdc_flow_algorithm(f, params));
            }
        }
        /* First, as a processor waits where it copies what it just wrote. */
        acdc_pkt_strip(p, ctx->exid);
        count_received(ctx, f, p, is_dressed(f, p) && hide_ecn(p));
    } else {
        /* Bits that look like ours and are not: the ECN field stays. */
        if (acdc_pkt_reserved(p) && acdc_pkt_make_writable(p)) {
            acdc_pkt_set_reserved(p, 0);
        }
        acdc_pkt_strip(p, ctx->exid);
        if (fack) {
            p->verdict = ACDC_DROP;
            return;
        }
        /* The guest's own marks, for the operator to see. */
        count_received(ctx, f, p, acdc_pkt_ecn(p) == ACDC_ECN_CE);
    }
    note_data(f, p, near);
    if (!(f->flags & ACDC_F_LAW)) {
        acdc_flow_note_end(ctx, f, p);
        p->verdict = fack ? ACDC_DROP : ACDC_PASS;
        return;
    }
    note_alive(ctx, f, p, near);
    if ((p->tcp_flags & ACDC_TCP_ACK) && !(p->tcp_flags & ACDC_TCP_RST)) {
        process_ack(ctx, f, params, p, near, fack, report, d_ce, d_total,
                    &duplicate, &update);
        if (fack) {
            finish_fack(ctx, f, params, p, near);
            return;
        }
        if (!enforce(ctx, f, acdc_flow_enforced(f, params), p,
                     peer_window(f, in, p, near, f->flags & ACDC_F_EDGE), near,
                     false, duplicate, update)) {
            p->verdict = ACDC_DROP;
            return;
        }
        if (p->ack == f->snd_una) {
            f->flags &= ~(uint32_t) ACDC_F_BEHIND;
        }
        if (p->payload && f->snd_nxt != f->snd_una) {
            f->flags |= ACDC_F_BOTH_WAYS;
        }
    }
    acdc_flow_note_end(ctx, f, p);
}

/* No flow: nothing of ours may reach the guest all the same. */
static ACDC_NOINLINE void
ingress_untracked(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    uint8_t reserved = acdc_pkt_reserved(p);

    ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
    if (reserved & ACDC_RES_FACK && p->opt_flags & ACDC_O_FEEDBACK
        && !p->payload) {
        p->verdict = ACDC_DROP;
        return;
    }
    if (reserved && acdc_pkt_make_writable(p)) {
        /* Without a codepoint of the guest in them nobody knows whether the
         * packet was marked by the other vSwitch or by the guest. */
        if (reserved & ACDC_RES_ECN_MASK) {
            hide_ecn(p);
        } else {
            acdc_pkt_set_reserved(p, 0);
        }
    }
    acdc_pkt_strip(p, ctx->exid);
}

static ACDC_ALWAYS_INLINE void
ingress_locked(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    const struct acdc_params *params = acdc_flow_params(ctx, f);
    struct acdc_flow_in *in = acdc_flow_in(f);

    acdc_flow_see(ctx, f);
    ACDC_COUNT(ctx, INGRESS_PACKETS, 1);
    ACDC_COUNT(ctx, INGRESS_BYTES, p->payload);
    if (!is_usual(f)
        || !(p->payload ? usual_data(ctx, f, in, p)
                        : usual_ack(ctx, f, in, params, p))) {
        ingress_stepwise(ctx, f, params, p);
        acdc_pkt_finish(p);
    }
}

static inline void
ingress(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct acdc_flow *f;

    if (acdc_pkt_is_syn(p)) {
        acdc_syn_ingress(ctx, p);
        acdc_pkt_finish(p);
        return;
    }
    f = acdc_flow_lock(ctx, p);
    if (!f) {
        ingress_untracked(ctx, p);
        acdc_pkt_finish(p);
        return;
    }
    ingress_locked(ctx, f, p);
    acdc_flow_unlock(ctx, f);
}

/* See acdc_table_run(). */
static ACDC_NOINLINE void
ingress_run(struct acdc_ctx *ctx, struct acdc_pkt *p, struct acdc_pkt *end)
{
    for (; p < end; p++) {
        acdc_table_find_ahead(ctx, p, end, ACDC_INGRESS);
        if (p->ip_version) {
            ingress(ctx, p);
        }
    }
}

void
acdc_ingress(struct acdc_ctx *ctx, struct acdc_pkt *pkts, unsigned int n)
{
    acdc_table_run(ctx, pkts, n, ACDC_INGRESS, ingress_run);
}
