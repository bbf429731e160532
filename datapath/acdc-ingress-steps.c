// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Packets to a guest, step by step: handshakes, FACKs, loss, silence, closing
 * connections, and all that makes a packet unusual.  The specification of what
 * acdc-ingress.c does in a shorter way for usual packets; that names the step
 * here which is the twin of each of its rules. */

#include "acdc-ingress.h"
#include "acdc-timing.h"

/* What a packet says of what arrived at the other end. */
enum report {
    REPORT_NONE,                /* Nothing, or nothing new. */
    REPORT_BAD,                 /* Nothing to be believed.  But it speaks. */
    REPORT_GOOD,
};

/* A packet on its way, with what the steps find out for those after them. */
struct steps {
    struct acdc_ctx *ctx;
    struct acdc_flow *f;
    struct acdc_flow_in *in;
    const struct acdc_params *params;
    struct acdc_pkt *p;
    uint32_t end;               /* acdc_pkt_end(), but without a corrupt FIN. */
    bool near;                  /* is_near(), which taking its ACK number does
                                 * not change. */
    bool elsewhere;             /* See acdc_flow_follow_ack(). */
    bool fack;                  /* Not the guest's word. */
    bool timed;                 /* A report told the network's delay. */
    enum report report;
    uint32_t ce, total;         /* What the report adds to the one before: marked
                                 * bytes and bytes; 0 unless REPORT_GOOD. */
};

/* What an ACK is to the guest, and a SYN: of this the window that it may be told
 * depends. */
enum {
    IS_SYN = 1 << 0,            /* Its window is not scaled. */
    IS_DUPLICATE = 1 << 1,      /* A duplicate ACK. */
    IS_UPDATE = 1 << 2,         /* A window update, which with the same window
                                 * the guest would take for a duplicate ACK. */
};

/* Whether it is of what the guest was seen to send. */
static inline bool
is_valid_ack(const struct steps *s)
{
    return s->near && !seq_after(s->p->ack, s->f->snd_nxt);
}

/* Whether the other end of the connection may have sent this now, and not
 * somebody who knows its addresses and ports but not its sequence numbers
 * (RFC 5961 section 5).  Nothing is that late or early: no network holds 16 MB
 * of a connection. */
static inline bool
is_plausible(const struct steps *s)
{
    return seq_plausible(s->p->seq, s->f->rcv_nxt) && is_valid_ack(s);
}

static enum report
read_feedback(struct steps *s)
{
    struct acdc_ctx *ctx = s->ctx;
    struct acdc_flow *f = s->f;
    struct acdc_flow_in *in = s->in;
    uint32_t ce, total, new_ce, new_total;

    acdc_pkt_get_feedback(s->p, &ce, &total);
    if (!(f->flags & ACDC_F_CAPABLE)) {
        in->fb_ce = ce;         /* It speaks again. */
    }
    new_total = total - in->fb_total;
    new_ce = ce - in->fb_ce;
    if (seq_after(in->fb_total, total)
        && !seq_after(in->fb_total, acdc_flow_tx_total(f))) {
        /* Overtaken on its way, or a retransmission's. */
        ACDC_COUNT(ctx, FEEDBACK_STALE, 1);
        return REPORT_NONE;
    }
    if ((seq_after(total, acdc_flow_tx_total(f)) || new_ce > new_total)
        && !acdc_flow_take_excess(ctx, f, s->p->ack, total, &new_ce,
                                  &new_total)) {
        return REPORT_BAD;
    }
    s->total = new_total;
    s->ce = new_ce;
    if (acdc_unlikely(f->bad_feedback)) {
        f->bad_feedback = 0;
    }
    in->fb_total = total;
    in->fb_ce = ce;
    in->silent = in->asked ? in->silent : 0;
    return REPORT_GOOD;
}

/* The other end does not report any more (its vSwitch was restarted, the
 * guest moved to a host without AC/DC): a mark that nobody returns is a lost
 * congestion signal, so fall back. */
static void
note_silence(const struct steps *s, uint32_t acked)
{
    struct acdc_flow_in *in = s->in;
    struct acdc_flow *f = s->f;
    uint32_t silent = in->silent + (acked + ACDC_SILENT_UNIT - 1)
                                   / ACDC_SILENT_UNIT;
    uint64_t limit = (4 * (uint64_t) in->law.wnd + 64 * (uint64_t) f->mss)
                     / ACDC_SILENT_UNIT;

    in->silent = (uint16_t) (silent < ACDC_SILENT_MAX ? silent
                                                      : ACDC_SILENT_MAX);
    if (silent > (limit < ACDC_SILENT_MAX ? limit : ACDC_SILENT_MAX)) {
        acdc_flow_set_capable(s->ctx, f, s->params, false);
        in->silent = (uint16_t) s->ctx->seen;
        ACDC_COUNT(s->ctx, FEEDBACK_LOST, 1);
        ACDC_TRACE_FLOW(fallback, s->ctx, f, ACDC_FALLBACK_SILENT,
                        in->law.wnd);
    }
}

/* Whether the far guest acknowledges at once what solicit_ack() sends.  One that
 * does not acknowledges two segments together, and one alone for a timer's sake
 * or for a while after the handshake: hence many in a row, each with more still in
 * flight. */
static void
note_prompt_ack(const struct steps *s, uint32_t acked)
{
    struct acdc_flow_in *in = s->in;
    const struct acdc_flow *f = s->f;

    if (!(f->flags & ACDC_F_SOLICITED) || acdc_flow_is_prompt(f)) {
        return;
    }
    if (acked > f->mss) {
        in->prompt_acks = 0;
    } else if (f->snd_una != f->snd_nxt) {
        in->prompt_acks = in->prompt_acks % ACDC_PROMPT_UNTIMED + 1u;
        if (acdc_flow_is_prompt(f)) {
            ACDC_COUNT(s->ctx, FLOWS_PROMPT, 1);
        }
    }
}

/* Whether no more is lost than before, once nothing is under way. */
static bool
has_arrived(const struct steps *s)
{
    return !(s->f->flags & ACDC_F_DUPLICATES)
           && lost_units(s->f, s->in) <= s->in->lost;
}

/* For data that is acknowledged for the first time. */
static void
take_ack(const struct steps *s, uint32_t acked)
{
    struct acdc_flow *f = s->f;

    f->snd_una = s->p->ack;
    f->flags |= s->fack ? ACDC_F_BEHIND : 0;
    f->dupacks = 0;
    if (acdc_likely(!s->elsewhere)) {
        f->active = (uint16_t) s->ctx->now_ms;
    }
    if (acdc_unlikely(s->params->small_windows)) {
        note_prompt_ack(s, acked);
    }
}

/* Bytes of which this ACK is the first sign that they left the network: what it
 * acknowledges, or while there is a hole what the far switch has counted.  Without
 * that SACK blocks tell, or a duplicate ACK, which is of one segment. */
static uint32_t
bytes_delivered(const struct steps *s, uint32_t acked, bool hole,
                bool duplicate)
{
    const struct acdc_flow *f = s->f;
    const struct acdc_pkt *p = s->p;
    uint32_t una = f->snd_una - acked, from, to;

    if (f->flags & ACDC_F_CAPABLE) {
        return acked && !hole ? acked : s->total;
    }
    from = s->in->delivered_to;
    from = from - una <= f->snd_nxt - una ? from : una;
    to = f->snd_una + acdc_pkt_sacked(p, f->snd_una, f->snd_nxt);
    if (duplicate && !(p->opt_flags & ACDC_O_SACK)) {
        to = from + f->mss;
    }
    to = seq_before(to, f->snd_nxt) ? to : f->snd_nxt;
    to = seq_before(to, from) ? from : to;
    s->in->delivered_to = to;
    return to - from;
}

/* An ACK without a report. */
static void
go_without_report(struct steps *s, uint32_t acked, uint32_t delivered)
{
    if (s->f->flags & ACDC_F_CAPABLE) {
        if (s->report == REPORT_NONE && acked && !s->in->asked) {
            note_silence(s, acked);
        }
    } else if (s->f->flags & ACDC_F_GUEST_ECN) {
        /* No AC/DC at the other end, or observing: what the guests tell each
         * other. */
        s->total = delivered;
        s->ce = s->p->tcp_flags & ACDC_TCP_ECE ? delivered : 0;
    }
}

/* A window of data, without what SACK says has arrived of it. */
static uint32_t
window_of_data(const struct steps *s)
{
    const struct acdc_flow *f = s->f;
    uint32_t window = acdc_flow_window(f, s->params);
    uint32_t pipe = f->snd_nxt - f->snd_una
                    - acdc_pkt_sacked(s->p, f->snd_una, f->snd_nxt);

    return window < pipe ? window : pipe;
}

/* Tells the law what an ACK says. */
static void
tell_law(const struct steps *s, const struct acdc_told *told, uint32_t delivered,
         uint32_t rtt_us)
{
    struct acdc_flow *f = s->f;
    struct acdc_facts facts;

    acdc_flow_facts(s->ctx, f, s->params, &facts);
    facts.window = window_of_data(s);
    if (f->flags & ACDC_F_DOUBT) {
        acdc_doubt_settle(s->ctx, f, &facts, s->p, told);
    }
    /* While it is in doubt it may still be under way. */
    if (told->all && !(f->flags & ACDC_F_DOUBT)) {
        note_lost(f, s->in);
    }
    if (s->timed) {
        acdc_timing_facts(f, &facts);
    }
    if (told->acked || s->total || delivered || s->timed) {
        facts.acked = told->acked;
        facts.delivered = delivered;
        facts.ce = s->ce;
        facts.total = s->total;
        facts.rtt_us = rtt_us;
        law_ack(s->ctx, f, &facts);
    }
    if (told->loss) {
        acdc_flow_loss(s->ctx, f, &facts);
    }
}

/* Takes an ACK.  Returns what it is to the guest (IS_*). */
static unsigned int
process_ack(struct steps *s)
{
    struct acdc_flow *f = s->f;
    const struct acdc_pkt *p = s->p;
    /* What is before all that came probes a closed window, or is a keep-alive: the
     * guest answers it, and takes it for nothing else. */
    bool pure = !p->payload && !(p->tcp_flags & ACDC_TCP_FIN) && !s->fack
                && !seq_before(p->seq, f->rcv_nxt);
    uint32_t acked = p->ack - f->snd_una, delivered, rtt_us = 0;
    unsigned int kind = 0;
    unsigned int hole = f->dupacks;
    struct acdc_told told = { .acked = 0 };

    if (!is_valid_ack(s)) {
        ACDC_COUNT(s->ctx, ACK_INVALID, 1);
        return 0;
    }
    if (seq_before(p->ack, f->snd_una)) {
        /* Overtaken; its feedback is not. */
        acked = 0;
    } else if (!acked && !(f->flags & ACDC_F_BEHIND) && pure
               && f->snd_nxt != f->snd_una) {
        /* Of a closed window it is the answer to a probe. */
        kind = acdc_pkt_window(p) != s->in->peer_window
               ? (p->opt_flags & (ACDC_O_SACK | ACDC_O_FOREIGN) ? 0 : IS_UPDATE)
               : acdc_pkt_window(p) ? IS_DUPLICATE : 0;
    }
    if (acked) {
        take_ack(s, acked);
        told.acked = acked;
        told.filled = hole >= ACDC_DUPTHRESH;
    }
    delivered = bytes_delivered(s, acked, hole, kind & IS_DUPLICATE);
    if (s->report != REPORT_GOOD) {
        go_without_report(s, acked, delivered);
    }
    if (acdc_law_deliver(&s->in->law, delivered)) {
        told.pass = !(f->flags & ACDC_F_RTT_NEXT);
        rtt_us = acdc_flow_sample_rtt(s->ctx, f, s->params,
                                      window_of_data(s));
    }
    told.loss = f->snd_nxt != f->snd_una
                && acdc_flow_shows_loss(s->ctx, f, p, kind & IS_DUPLICATE, told.pass);
    told.all = s->report == REPORT_GOOD && p->ack == f->snd_nxt
               && !(f->flags & ACDC_F_FIN_GUEST);
    told.arrived = told.all && has_arrived(s);
    if (acked || s->total || delivered || told.loss || s->timed || told.all
        || (f->flags & ACDC_F_DOUBT)) {
        tell_law(s, &told, delivered, rtt_us);
    }
    return kind;
}

/* Rewrites the window field of an ACK or SYN to the guest, which 'kind' says
 * (IS_*).  'own': what the peer offers, in bytes.  Returns false if the packet is
 * to be dropped, a window update that the guest would take for a duplicate
 * ACK. */
static bool
enforce(const struct steps *s, uint32_t own, unsigned int kind)
{
    struct acdc_ctx *ctx = s->ctx;
    struct acdc_flow *f = s->f;
    struct acdc_flow_in *in = s->in;
    struct acdc_pkt *p = s->p;
    bool enforced = acdc_flow_enforced(f, s->params);

    /* The window of a SYN is not scaled (RFC 7323 section 2.2). */
    unsigned int scale = kind & IS_SYN ? 0 : f->out_wscale;
    /* As a congestion window is of what is in flight (RFC 6675, "pipe"): else
     * a guest could send nothing new until a hole is filled, and would learn
     * of the loss of what it sends again by its timer alone. */
    uint32_t sacked = p->opt_flags & ACDC_O_SACK
                      ? acdc_pkt_sacked(p, f->snd_una, f->snd_nxt) : 0;
    uint16_t field = window_field(f, in, enforced, own, scale, sacked);

    if (enforced) {
        if ((kind & IS_DUPLICATE) && in->out_window
            && own >> scale >= in->out_window) {
            /* A duplicate ACK has the window of the one before (RFC 5681
             * section 2): without SACK the guest counts them.  With SACK it
             * may be larger (RFC 6675 section 2).  Zero is said only where
             * the peer says it. */
            if (!sacked || field < in->out_window) {
                field = in->out_window;
            }
        } else if ((kind & IS_UPDATE) && field == in->out_window) {
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
    if (!s->near) {
        return true;
    }
    in->out_window = kind & IS_SYN ? (uint16_t) (field >> f->out_wscale) : field;
    note_offer(ctx, f, in, p->tcp_flags & ACDC_TCP_ACK ? p->ack : f->snd_una,
               (uint32_t) field << scale, own, f->flags & ACDC_F_EDGE);
    return true;
}

/* A FACK ends here, unless it lets the guest send more: then it becomes the
 * window update that it is.  Never a smaller window: with the ACK number the
 * guest knows, Linux would take that for a duplicate ACK. */
static void
finish_fack(const struct steps *s)
{
    struct acdc_flow *f = s->f;
    struct acdc_flow_in *in = s->in;
    struct acdc_pkt *p = s->p;
    uint16_t heard_window = in->peer_window, told_window = in->out_window;
    uint32_t right_edge = in->right_edge;
    /* What is acknowledged anew moves the window's end; where the guest was once
     * told a smaller window that may have been there before. */
    uint32_t told_edge = f->flags & ACDC_F_BEHIND
                         ? right_edge
                         : f->snd_una
                           + ((uint32_t) told_window << f->out_wscale);
    uint32_t own = peer_window(f, in, p, s->near, f->flags & ACDC_F_EDGE);
    uint32_t edge;

    if (!acdc_flow_enforced(f, s->params) || p->ack != f->snd_una) {
        /* An ACK that says the same window is no duplicate: the guest has not
         * heard of it. */
        in->peer_window = heard_window;
        p->verdict = ACDC_DROP;
        return;
    }
    enforce(s, own, 0);
    edge = p->ack + ((uint32_t) in->out_window << f->out_wscale);
    if (!seq_after(edge, told_edge)) {
        in->peer_window = heard_window;
        in->out_window = told_window;
        in->right_edge = right_edge;
        p->verdict = ACDC_DROP;
        return;
    }
    f->flags &= ~(uint32_t) ACDC_F_BEHIND;
    ACDC_COUNT(s->ctx, WINDOW_UPDATES, 1);
}

/* How far the data to the guest reaches.  Not by a packet of somebody else, who would
 * get anywhere by steps, nor by a FIN that is corrupt: the guest will drop it. */
static void
note_data(const struct steps *s)
{
    const struct acdc_pkt *p = s->p;
    struct acdc_flow *f = s->f;
    uint32_t end = s->end;

    if (end != p->seq && seq_after(end, f->rcv_nxt)
        && !seq_after(p->seq, f->rcv_nxt + ACDC_PLAUSIBLE)
        && (!(f->flags & ACDC_F_LAW) || s->near)) {
        f->rcv_nxt = end;
    }
}

/* After a RST that was not believed, of a guest that wants to be forgotten or
 * of an outsider, the peer goes on, be it with a challenge ACK (RFC 5961).  If
 * this was under way and the connection is dead the guest answers with another
 * RST. */
static void
note_alive(const struct steps *s)
{
    const struct acdc_flow *f = s->f;

    if ((f->state == ACDC_FLOW_CLOSED || f->state == ACDC_FLOW_RESET)
        && is_plausible(s)) {
        acdc_flow_go_on(s->ctx, s->f, s->p);
    }
}

/* The window that the guest is told when an ACK could not be edited. */
static void
note_told(const struct steps *s)
{
    const struct acdc_flow *f = s->f;
    const struct acdc_pkt *p = s->p;
    uint32_t edge = p->ack + ((uint32_t) acdc_pkt_window(p) << f->out_wscale);

    if ((f->flags & ACDC_F_EDGE) && (p->tcp_flags & ACDC_TCP_ACK) && s->near) {
        raise_edge(&s->in->right_edge, edge, true);
    }
}

/* Takes the guest's own ECN codepoint and clears the reserved bits. */
static void
hide_ecn(struct acdc_ctx *ctx, const struct acdc_flow *f, struct acdc_pkt *p)
{
    uint8_t ecn = ecn_for_guest(ctx, f, p, acdc_pkt_ecn(p));

    if (acdc_pkt_reserved(p)) {
        acdc_pkt_set_reserved(p, 0);
    }
    if (ecn != acdc_pkt_ecn(p)) {
        acdc_pkt_set_ecn(p, ecn);
    }
}

/* Takes off what the other end's vSwitch has put on the packet, and takes the
 * report.  False without memory. */
static bool
undress(struct steps *s)
{
    struct acdc_ctx *ctx = s->ctx;
    struct acdc_flow *f = s->f;
    struct acdc_pkt *p = s->p;

    if (!acdc_pkt_make_writable(p)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        if (s->fack) {
            p->verdict = ACDC_DROP;
        } else {
            note_data(s);
            note_told(s);
        }
        return false;
    }
    if (acdc_unlikely(p->opt_flags & ACDC_O_CAPABILITY)) {
        /* A question, whose FACK knows of no counts. */
        if (is_plausible(s)) {
            acdc_resume_note_question(f, p);
        }
    } else if ((p->opt_flags & ACDC_O_FEEDBACK)
               && (!is_plausible(s) || acdc_flow_in_handshake(f))) {
        ACDC_COUNT(ctx, FEEDBACK_BAD, 1);
    } else if (p->opt_flags & ACDC_O_FEEDBACK) {
        acdc_count(ctx, s->fack ? ACDC_C_FACK_RECEIVED : ACDC_C_PACK_RECEIVED, 1);
        s->report = read_feedback(s);
        s->timed = (p->opt_flags & ACDC_O_REPORT) && acdc_timing_take(ctx, f, s->params, p);
    }
    if (!(f->flags & ACDC_F_CAPABLE)
        && (s->report == REPORT_GOOD || (is_plausible(s) && acdc_flow_offer_arrived(f, p)))) {
        /* It speaks again. */
        acdc_flow_set_capable(ctx, f, s->params, true);
    }
    if (p->payload && is_plausible(s)) {
        acdc_timing_note(ctx, f, p);
    }
    /* First, as a processor waits where it copies what it just wrote. */
    acdc_pkt_strip(p, ctx->exid);
    count_received(ctx, f, p, acdc_pkt_ecn(p) == ACDC_ECN_CE);
    hide_ecn(ctx, f, p);
    return true;
}

/* Bits that look like ours and are not: the ECN field stays.  False if nothing is
 * left of the packet. */
static bool
strip_foreign(const struct steps *s)
{
    struct acdc_pkt *p = s->p;

    if (acdc_pkt_reserved(p) && acdc_pkt_make_writable(p)) {
        acdc_pkt_set_reserved(p, 0);
    }
    acdc_pkt_strip(p, s->ctx->exid);
    if (s->fack) {
        p->verdict = ACDC_DROP;
        return false;
    }
    /* The guest's own marks, for the operator to see. */
    count_received(s->ctx, s->f, p, acdc_pkt_ecn(p) == ACDC_ECN_CE);
    return true;
}

/* A segment with ACK, once the law has begun.  False if it ends here. */
static bool
pass_ack(struct steps *s)
{
    struct acdc_flow *f = s->f;
    struct acdc_pkt *p = s->p;
    uint16_t heard_window = s->in->peer_window, told_window = s->in->out_window;
    unsigned int kind = process_ack(s);

    if (s->fack) {
        finish_fack(s);
        return false;
    }
    if (!enforce(s, peer_window(f, s->in, p, s->near, f->flags & ACDC_F_EDGE),
                 kind)) {
        p->verdict = ACDC_DROP;
        return false;
    }
    if (p->ack == f->snd_una) {
        f->flags &= ~(uint32_t) ACDC_F_BEHIND;
    } else if (seq_before(p->ack, f->snd_una)) {
        /* Overtaken: the guest has a later window (RFC 9293 section 3.10.7.4). */
        s->in->peer_window = heard_window;
        s->in->out_window = told_window;
    }
    if (p->payload && f->snd_nxt != f->snd_una) {
        f->flags |= ACDC_F_BOTH_WAYS;
    }
    return true;
}

/* A SYN-ACK that answers another SYN than the guest's last one.  A guest has one
 * connection at a time, and resets what comes of another.  One that goes on would
 * not be followed: with 'police' it does not get it.  True if it was dropped. */
static bool
refuse_synack(struct acdc_ctx *ctx, const struct acdc_flow *f,
              const struct acdc_params *params, struct acdc_pkt *p)
{
    if (!acdc_flow_in_handshake(f) || !acdc_params_police(params)) {
        return false;
    }
    ACDC_COUNT(ctx, SYNACK_REFUSED, 1);
    p->verdict = ACDC_DROP;
    return true;
}

static void
pass_synack(struct steps *s)
{
    if (acdc_synack_ingress(s->ctx, s->p, s->f, s->params)) {
        s->near = is_near(s->f, s->p);
        enforce(s, acdc_pkt_window(s->p), IS_SYN);
    } else {
        ACDC_COUNT(s->ctx, UNTOUCHED_MIDSTREAM, 1);
        refuse_synack(s->ctx, s->f, s->params, s->p);
    }
}

/* Whether 'p' shows that the peer takes part in the connection that 'f' began:
 * it answers the guest's SYN, or acknowledges its SYN-ACK. */
static bool
confirms(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return acdc_flow_in_handshake(f) && (p->tcp_flags & ACDC_TCP_ACK)
           && (p->tcp_flags & ACDC_TCP_SYN
               ? acdc_flow_answers_syn(f, p)
               : (f->flags & ACDC_F_LAW) && seq_after(p->ack, f->snd_una)
                 && !seq_after(p->ack, f->snd_nxt));
}

ACDC_NOINLINE void
acdc_ingress_stepwise(struct acdc_ctx *ctx, struct acdc_flow *f,
                      const struct acdc_params *params, struct acdc_pkt *p)
{
    struct steps s = {
        .ctx = ctx, .f = f, .in = acdc_flow_in(f), .params = params, .p = p,
        .fack = acdc_pkt_is_fack(p),
        .end = p->seq + p->payload,
    };
    uint32_t last;

    if (acdc_unlikely(!params->enabled)) {
        ACDC_COUNT(ctx, UNTOUCHED_DISABLED, 1);
    }
    if (p->tcp_flags & ACDC_TCP_SYN) {
        pass_synack(&s);
        return;
    }
    s.end += (p->tcp_flags & ACDC_TCP_FIN) && acdc_pkt_maybe_intact(p);
    s.near = is_near(f, p);
    if (f->flags & ACDC_F_UNHEARD) {
        s.near = acdc_flow_hear(ctx, f, params, p, s.near);
    }
    last = f->rcv_nxt;
    s.elsewhere = s.near && acdc_flow_follow_ack(ctx, f, p);
    if (confirms(f, p)) {
        acdc_flow_set_state(ctx, f, ACDC_FLOW_ESTABLISHED);
        acdc_flow_take_first_rtt(ctx, f, params);
    }
    if (!(acdc_flow_both_showed(f) ? undress(&s) : strip_foreign(&s))) {
        return;
    }
    note_data(&s);
    if (!(f->flags & ACDC_F_LAW)) {
        p->verdict = s.fack ? ACDC_DROP : ACDC_PASS;
    } else {
        note_alive(&s);
        if ((p->tcp_flags & (ACDC_TCP_ACK | ACDC_TCP_RST)) == ACDC_TCP_ACK
            && !pass_ack(&s)) {
            return;
        }
    }
    acdc_flow_note_end(ctx, f, p, last);
}

bool
acdc_ingress_is_doubtful(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    if (p->tcp_flags & ACDC_TCP_SYN) {
        return acdc_flow_in_handshake(f) ? !acdc_flow_answers_syn(f, p)
               : acdc_flow_is_live(f) && !acdc_flow_is_synack_again(f, p, false);
    }
    return f->flags & ACDC_F_LAW
           ? f->state == ACDC_FLOW_RESET || f->state == ACDC_FLOW_CLOSED
             || !seq_plausible(p->seq, f->rcv_nxt) || !is_near(f, p)
           : acdc_flow_is_lost(f);
}

/* Whether the peer answers the guest's SYN-ACK by RST instead, see confirms(). */
static bool
refuses(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return acdc_flow_in_handshake(f) && (f->flags & ACDC_F_LAW)
           && (p->tcp_flags & ACDC_TCP_RST) && p->seq == f->rcv_nxt;
}

bool
acdc_ingress_second(struct acdc_ctx *ctx, struct acdc_flow *first,
                    struct acdc_pkt *p)
{
    struct acdc_flow *f = acdc_flow_find_second(ctx, p, first), *gone = NULL;
    bool taken = false;

    if (!f) {
        return false;
    }
    acdc_lock(&f->lock);
    if (!(f->flags & ACDC_F_DEAD)) {
        const struct acdc_params *params = acdc_flow_params(ctx, f);
        bool confirmed = confirms(f, p);

        taken = confirmed || refuses(f, p);
        if (taken) {
            acdc_ingress_stepwise(ctx, f, params, p);
            /* It may have ended at once. */
            gone = !confirmed ? f : acdc_flow_in_handshake(f) ? NULL : first;
        } else if (p->tcp_flags & ACDC_TCP_SYN) {
            taken = refuse_synack(ctx, f, params, p);
        }
        if (taken) {
            acdc_flow_see(ctx, f);
        }
    }
    acdc_unlock(&f->lock);
    if (gone) {
        acdc_flow_remove(ctx->acdc, gone);
    }
    return taken;
}
