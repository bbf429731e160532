// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Packets from a guest: forgeries removed, the guest's data followed and
 * policed, feedback about the data it received added, the ECT mark set. */

#include "acdc-group.h"
#include "acdc-onramp.h"
#include "acdc-pace.h"
#include "acdc-plb.h"
#include "acdc-tail.h"
#include "acdc-timing.h"

/* A guest must not be able to forge feedback: what looks like ours goes. */
static bool
strip_forged(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    bool reserved = acdc_pkt_reserved(p);

    if (acdc_likely(!reserved && !(p->opt_flags & ACDC_O_OURS))) {
        return true;
    }
    ACDC_COUNT(ctx, FORGED, 1);
    if (!acdc_pkt_make_writable(p)) {
        return false;
    }
    if (reserved) {
        acdc_pkt_set_reserved(p, 0);
    }
    return acdc_pkt_strip(p, ctx->exid);
}

/* Whether what the guest sends again it sends since its retransmission timer expired, not
 * RACK's for what later segments may only have overtaken. */
static inline bool
is_by_timer(const struct acdc_ctx *ctx, const struct acdc_flow *f,
            const struct acdc_pkt *p)
{
    return !seq_after(p->seq, f->snd_una) && acdc_flow_is_overdue(ctx, f)
           && (!f->dupacks
               || acdc_flow_inactive_ms(f, ctx->now_ms) >= ACDC_RACK_MOST_MS);
}

/* Loss and timeout, inferred from data that the guest sends again.
 *
 * A guest whose least RTO is shorter than its peer's delayed ACK sends last
 * segments again that have arrived: by its timer, or as tail loss probes, and
 * the two look alike.  The next ACK may tell (acdc-doubt.c), and until it
 * comes the window cannot be changed anyway.  Reset for nothing to one segment, it would
 * wait for that delayed ACK again with each segment that follows. */
static void
note_retransmission(struct acdc_ctx *ctx, struct acdc_flow *f,
                    const struct acdc_params *params,
                    const struct acdc_pkt *p, uint32_t end)
{
    struct acdc_facts facts;
    bool timed_out;

    ACDC_COUNT(ctx, RETRANSMITS, 1);
    if (acdc_pkt_ip_len(p) + ACDC_OPT_FB_LEN > ACDC_PATH_MIN) {
        acdc_flow_in(f)->law.callers = true;
    }
    if (acdc_flow_is_small(f)) {
        /* Lost, or waiting for an ACK: two segments can bear both. */
        acdc_flow_note_delay(ctx, f, params);
    }
    timed_out = is_by_timer(ctx, f, p);
    if (acdc_doubt_is_timer(f)) {
        return;
    }
    acdc_flow_facts(ctx, f, params, &facts);
    if (timed_out) {
        if ((f->flags & (ACDC_F_CAPABLE | ACDC_F_FIN_GUEST))
            == ACDC_F_CAPABLE) {
            /* What a probe was for is not known any more. */
            acdc_doubt_begin(f, ACDC_DOUBT_TIMER)->tail_probed = false;
        } else {
            acdc_flow_timeout(ctx, f, &facts);
        }
    } else if (!seq_before(end, f->snd_nxt) && !f->dupacks) {
        /* The tail, and no sign of loss: a tail loss probe (RFC 8985).  Its
         * answer will tell. */
    } else {
        acdc_flow_note_order(f);
        acdc_flow_loss(ctx, f, &facts);
    }
}

/* Drops data that the guest was not allowed to send. */
static ACDC_NOINLINE void
drop_policed(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    ACDC_COUNT(ctx, POLICED_PACKETS, 1);
    ACDC_COUNT(ctx, POLICED_BYTES, p->payload);
    p->verdict = ACDC_DROP;
}

/* Whether data from 'seq' on probes a closed window, as most stacks do with one byte
 * of new data (RFC 9293 section 3.8.6.1): the peer's last window is zero, or it begins
 * where all ends that the peer ever offered. */
static inline bool
is_window_probe(const struct acdc_flow *f, uint32_t seq)
{
    return (f->flags & ACDC_F_EDGE)
           && (!acdc_flow_in(f)->peer_window
               || !seq_before(seq, f->peer_edge));
}

/* Data that the guest sent before, and maybe more.  Of a window probe the answer says
 * nothing of loss, nor of time.  Nor of one whose answer, an open window, was seen here,
 * whether it got to the guest or not: of a byte, and nothing else is in flight. */
static ACDC_NOINLINE void
repeat_data(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, const struct acdc_pkt *p,
            uint32_t end)
{
    f->flags &= ~(uint32_t) ACDC_F_RTT_PENDING;         /* Karn's rule. */
    if (is_window_probe(f, p->seq)
        || (p->payload && p->seq == f->snd_una && f->snd_nxt == p->seq + 1)) {
        return;
    }
    if (acdc_unlikely(params->plb) && is_by_timer(ctx, f, p)) {
        if (acdc_doubt_is_timer(f)) {
            /* Again: it was lost. */
            acdc_flow_plb_suspend(ctx, f);
        }
        acdc_flow_plb_move(ctx, f);
    }
    if (p->payload) {
        note_retransmission(ctx, f, params, p, end);
    }
}

/* The first data after a pause. */
static ACDC_NOINLINE void
restart_idle(struct acdc_ctx *ctx, struct acdc_flow *f,
             const struct acdc_params *params)
{
    struct acdc_facts facts;

    acdc_flow_facts(ctx, f, params, &facts);
    if (acdc_law_idle(&acdc_flow_in(f)->law, &facts)) {
        ACDC_COUNT(ctx, IDLE_RESTARTS, 1);
    }
}

/* Data where all that was sent is acknowledged: nothing is waited for any more. */
static inline void
begin_anew(struct acdc_ctx *ctx, struct acdc_flow *f,
           const struct acdc_params *params)
{
    if (acdc_flow_is_overdue(ctx, f)) {
        restart_idle(ctx, f, params);
    }
    acdc_flow_in(f)->law.window_left = 0;
    if (f->flags & ACDC_F_RTT_PENDING) {
        acdc_flow_time_next(f, 0);
    }
}

/* Data or FIN of the guest, up to 'end', which is not dropped: how far it sent, and
 * what that says. */
static inline void
follow_data(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, struct acdc_pkt *p, uint32_t end)
{
    if (seq_before(p->seq, f->snd_una) && !seq_after(end, f->snd_una)) {
        /* A keep-alive or a very late copy. */
        return;
    }
    if (acdc_unlikely(acdc_flow_is_deaf(f))
        ? !acdc_flow_follow_deaf(f, p, end)
        : seq_after(end, f->peer_edge + f->mss + 1)) {
        /* Beyond what the peer itself can accept: it will not arrive.  A
         * guest cannot move snd_nxt, and with it the end of a cut, as far
         * away as it likes. */
        return;
    }
    if (!seq_after(end, f->snd_nxt)) {
        repeat_data(ctx, f, params, p, end);
    } else {
        if (f->snd_nxt == f->snd_una) {
            begin_anew(ctx, f, params);
        } else if (acdc_unlikely(seq_before(p->seq, f->snd_nxt))) {
            repeat_data(ctx, f, params, p, end);
        }
        if (f->flags & ACDC_F_RTT_NEXT) {
            f->flags ^= ACDC_F_RTT_NEXT;
            if (!acdc_doubt_is_timer(f) && !is_window_probe(f, p->seq)) {
                f->flags |= ACDC_F_RTT_PENDING;
                f->rtt_us = acdc_now_us(ctx) & 0xffffff;
                acdc_flow_in(f)->timed_held = false;
                ctx->timed = p;
                if (acdc_unlikely(acdc_flow_in(f)->has_more)) {
                    acdc_timing_mark(ctx, f, params, p);
                }
            }
        }
        f->snd_nxt = end;
    }
    f->active = (uint16_t) ctx->now_ms;
}

/* Whether data is before all that the peer may still want: of another connection,
 * whose SYN-ACK the guest hid behind another one. */
static bool
is_of_another(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint32_t old = acdc_flow_in_handshake(f) ? 0 : ACDC_PLAUSIBLE;

    return seq_before(p->seq, f->snd_una - old);
}

/* Follows the guest's data.  False: it was dropped. */
static bool
track_data(struct acdc_ctx *ctx, struct acdc_flow *f,
           const struct acdc_params *params, struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t end = acdc_pkt_end(p);
    uint32_t beyond, snd_nxt = f->snd_nxt;

    if (end == p->seq) {
        return true;
    }
    /* What was allowed once is never dropped, nor is the probe of a closed
     * window: one segment of slack. */
    if (params->police && acdc_flow_enforced(f, params) && p->payload
        && (f->flags & ACDC_F_EDGE)
        && (seq_after(p->seq + p->payload, in->right_edge + f->mss)
            || is_of_another(f, p))) {
        drop_policed(ctx, p);
        return false;
    }
    ACDC_COUNT(ctx, EGRESS_BYTES, p->payload);
    follow_data(ctx, f, params, p, end);
    beyond = p->payload - (f->snd_nxt - snd_nxt);
    if (acdc_unlikely(beyond)) {
        in->tx_beyond += beyond;        /* -1: a FIN. */
        if ((int32_t) beyond > 0) {
            acdc_doubt_note_again(f, beyond);
        }
    }
    return true;
}

/* A guest whose window ends before what it has sent puts that end in its ACKs
 * (Linux, tcp_acceptable_seq()).  It is right if the window is the peer's,
 * which takes nothing beyond.  But if it is ours the peer has got all, expects
 * more, and drops an ACK from before that (RFC 9293 section 3.10.7.4): where
 * both ends send data and have such a window, neither hears of anything again.
 * So ACKs get what they would have with the peer's own window.  A probe
 * (keep-alive or of a zero window) is to be answered because it is just before
 * SND.UNA, and stays. */
static void
renumber_ack(struct acdc_ctx *ctx, const struct acdc_flow *f,
             struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint8_t flags = p->tcp_flags & (ACDC_TCP_FIN | ACDC_TCP_ACK);
    uint32_t seq;

    if (!(f->flags & ACDC_F_SHRUNK) || p->payload || flags != ACDC_TCP_ACK
        || !seq_before(p->seq, f->snd_nxt) || p->seq == f->snd_una - 1) {
        return;
    }
    seq = f->snd_una + ((uint32_t) in->peer_window << f->peer_wscale);
    if (seq_after(seq, f->snd_nxt)) {
        seq = f->snd_nxt;
    }
    if (!seq_before(p->seq, seq)) {
        return;
    }
    if (!acdc_pkt_make_writable(p)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    acdc_pkt_set_seq(p, seq);
    ACDC_COUNT(ctx, ACK_RENUMBERED, 1);
}

/* How far the data reaches of which 'p' says that it arrived: the ACK number or
 * the end of a SACK block. */
static uint32_t
acknowledged_to(const struct acdc_pkt *p)
{
    return p->opt_flags & ACDC_O_SACK
           ? acdc_pkt_sack_edge(p, p->ack, p->ack + ACDC_WINDOW_MAX) : p->ack;
}

/* An optimistic ACK (Savage et al., "TCP congestion control with a misbehaving
 * receiver", 1999): its sender wants more than its share of the path to it,
 * before it has anything, and a sender that believes it has no ACK clock.  So
 * with SACK, which opens the window as well. */
static ACDC_ALWAYS_INLINE bool
is_optimistic(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return (p->tcp_flags & ACDC_TCP_ACK)
           && seq_after(acknowledged_to(p),
                        f->rcv_nxt + 1)         /* A FIN not followed. */
           && (f->state == ACDC_FLOW_ESTABLISHED
               || f->state == ACDC_FLOW_CLOSING
               || (f->state == ACDC_FLOW_RESET && (f->flags & ACDC_F_LAW)));
}

/* The first packet in a unit of 'seen'. */
static ACDC_NOINLINE void
see_first(struct acdc_ctx *ctx, struct acdc_flow *f,
          const struct acdc_params *params, const struct acdc_pkt *p)
{
    if (p->payload || is_optimistic(f, p)) {
        acdc_flow_note_sent(ctx, f, params);
    }
    acdc_flow_see(ctx, f);
}

/* What the engine could not follow may have been of this connection: as much of it
 * as came excuses the ACK. */
static ACDC_NOINLINE bool
excuse(struct acdc_ctx *ctx, struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint32_t to = acknowledged_to(p);

    if (acdc_flow_is_deaf(f)) {
        f->rcv_nxt = to;
        return true;
    }
    /* A FIN has no bytes. */
    if (acdc_recall_excuses(ctx, f, to - 1 - f->rcv_nxt)) {
        f->rcv_nxt = to;
        f->flags &= ~(uint32_t) ACDC_F_FIN_PEER;
        ACDC_COUNT(ctx, ACK_EXCUSED, 1);
        return true;
    }
    ACDC_COUNT(ctx, ACK_OPTIMISTIC, 1);
    return false;
}

/* Whether data with 'len' bytes of option is no larger than this port's MTU, than what is known
 * of paths, and than a full segment: the other end, or the path to it, may have a
 * smaller MTU. */
static bool
has_room_on_path(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                 const struct acdc_pkt *p, unsigned int len)
{
    uint32_t full = ACDC_TCP_HLEN + (uint32_t) f->mss
                    + acdc_pkt_timestamps_len(p);

    return !p->gso && p->tcp_hlen + p->payload + len <= full
           && acdc_pkt_mtu_len(p) + len
              <= acdc_a32_read(&ctx->port->mtu)
           && ((!acdc_flow_avoids_pack(f) && !acdc_pkt_may_be_fragmented(p))
               || acdc_pkt_ip_len(p) + len <= ACDC_PATH_MIN)
           && acdc_path_has_room(ctx, acdc_pkt_ip_len(p),
                                 acdc_pkt_ip_len(p) + len);
}

/* Whether 'p' may have to report something: news come with data. */
static inline bool
may_report(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return (p->tcp_flags & (ACDC_TCP_ACK | ACDC_TCP_RST)) == ACDC_TCP_ACK
           && (f->rx_pending || !p->payload);
}

/* Whether 'p' itself has room for 'len' bytes of feedback, and leaves at once. */
static bool
fits(const struct acdc_ctx *ctx, const struct acdc_flow *f, const struct acdc_pkt *p,
     unsigned int len)
{
    return acdc_pkt_room(p) >= len
           && (acdc_pkt_is_pure_ack(p)
               || (p->verdict == ACDC_PASS && has_room_on_path(ctx, f, p, len)));
}

/* Whether feedback is due on 'p', or in a FACK. */
static bool
is_due(const struct acdc_flow *f, const struct acdc_pkt *p, bool fack)
{
    if (acdc_pkt_is_pure_ack(p)) {
        /* It says something about every segment it acknowledges, so its FACK does
         * not wait. */
        return !fack || f->rx_pending;
    }
    return fack ? (f->flags & ACDC_F_RX_NEWS) || f->rx_pending >= 2u * f->mss
                  || f->rx_pending == ACDC_PENDING_MAX
                : f->rx_pending;
}

/* Reports to the sending side what arrived here: on a pure ACK always, on data where it
 * fits, else in a FACK when there is news.  A report of a marked segment goes at once. */
static ACDC_NOINLINE void
add_feedback(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p,
             uint8_t ecn, uint8_t reserved)
{
    bool report = p->opt_flags & ACDC_O_REPORT, fack, sent;
    uint8_t opt[ACDC_OPT_REPORT_LEN];
    unsigned int len;

    /* Source routing: the TCP checksum is over another destination than the header's,
     * and the whole one of a FACK cannot be made. */
    report &= !acdc_pkt_has_ip_options(p) || fits(ctx, f, p, ACDC_OPT_REPORT_LEN);
    len = report ? ACDC_OPT_REPORT_LEN : ACDC_OPT_FB_LEN;
    fack = !fits(ctx, f, p, len);
    if ((fack && acdc_pkt_has_ip_options(p)) || (!report && !is_due(f, p, fack))) {
        return;
    }
    acdc_flow_put_feedback(f, (report ? ACDC_REPORT_WORD : ACDC_FEEDBACK_WORD) | ctx->exid,
                           opt);
    if (report) {
        acdc_timing_put(ctx, f, opt + ACDC_OPT_FB_LEN);
    }
    sent = fack ? acdc_pkt_send_options(p, acdc_flow_ack_number(f, p), opt, len, ecn,
                                        reserved)
                : acdc_pkt_add_option(p, opt, len);
    if (!sent) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    acdc_count(ctx, fack ? ACDC_C_FACK_SENT : ACDC_C_PACK_SENT, 1);
    if (report) {
        acdc_flow_in(f)->to_report = false;
    }
    acdc_flow_note_reported(f);
}

/* Asks the far guest for an ACK of this segment, by CWR: whoever sets it may
 * have no more than one segment's window, so Linux does not delay the ACK (since
 * 4.19; tcp_ecn_accept_cwr()), whether ECN was negotiated or not.  A window below
 * two segments needs that.  Already below four, as one cut may leave half of it
 * and in flight what was sent before.
 *
 * Not where the flag counts something (RFC 9768), for which guests ask as for
 * ECN and get another answer than RFC 3168's.  Nor on what is segmented later,
 * where it would stay on the first segment alone. */
static ACDC_NOINLINE void
solicit_ack(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t ecn = f->flags & (ACDC_F_ECN_SYN | ACDC_F_GUEST_ECN);

    f->flags &= ~(uint32_t) ACDC_F_SOLICITED;
    if (in->law.wnd >= 4u * f->mss || p->gso || in->prompt_acks == ACDC_DELAYS
        || ecn == ACDC_F_ECN_SYN || !acdc_flow_enforced(f, params)) {
        return;
    }
    acdc_pkt_set_flags(p, p->tcp_flags | ACDC_TCP_CWR);
    f->flags |= ACDC_F_SOLICITED;
    ACDC_COUNT(ctx, SOLICITED, 1);
}

/* The reserved bits of a packet that the guest sent with 'ecn', and which is to be
 * marked or not.  What the guest marked CE itself remains a mark, which the other end
 * counts: else no switch could mark it. */
static ACDC_ALWAYS_INLINE uint8_t
reserved_ecn(const struct acdc_flow *f, uint8_t ecn, bool mark)
{
    uint8_t noted = !mark ? ACDC_ECN_CE : ecn == ACDC_ECN_CE ? ACDC_ECN_ECT0 : ecn;

    if (f->flags & ACDC_F_NOT_ECT) {
        noted = noted == ACDC_ECN_CE ? 0 : noted ? noted : ACDC_ECN_CE;
    }
    return (uint8_t) (noted << ACDC_RES_ECN_SHIFT);
}

/* A packet of a connection whose both ends have AC/DC. */
static void
dress(struct acdc_ctx *ctx, struct acdc_flow *f,
      const struct acdc_params *params, struct acdc_pkt *p)
{
    bool mark = acdc_flow_marked(f, params);
    uint8_t ecn = acdc_pkt_ecn(p);
    uint8_t reserved = reserved_ecn(f, ecn, mark);

    if (!acdc_pkt_make_writable(p)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    if (mark && ecn != ACDC_ECN_CE) {
        ecn = ACDC_ECN_ECT0;
        ACDC_COUNT(ctx, MARKED_ECT, 1);
    }
    if (!p->payload && !(p->opt_flags & (ACDC_O_FLAGS | ACDC_O_REPORT))
        && acdc_pkt_dress_ack(p, ctx->exid, f->rx_ce, f->rx_total, ecn,
                              reserved)) {
        ACDC_COUNT(ctx, PACK_SENT, 1);
        acdc_flow_note_reported(f);
        return;
    }
    /* First, as a processor waits where it copies what it just wrote. */
    if (may_report(f, p)) {
        add_feedback(ctx, f, p, ecn, reserved);
    }
    acdc_pkt_dress(p, ecn, reserved);
    if (acdc_unlikely(params->small_windows) && p->payload) {
        solicit_ack(ctx, f, params, p);
    }
}

/* The guest's SYN-ACK, if it is of 'f', whose lock is held. */
static bool
answer(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    const struct acdc_params *params = acdc_flow_params(ctx, f);

    if ((f->flags & ACDC_F_DEAD) || !acdc_synack_egress(ctx, p, f, params)) {
        return false;
    }
    acdc_flow_see(ctx, f);
    ACDC_COUNT(ctx, UNTOUCHED_DISABLED, !params->enabled);
    acdc_flow_plb_send_syn(ctx, f, params, p);
    return true;
}

/* A SYN-ACK of the guest, with the lock of the 'first' flow of its key, which is
 * released.  A guest that has lost that connection, as after a reboot, may
 * answer the SYN that began a second flow. */
static ACDC_NOINLINE void
egress_synack(struct acdc_ctx *ctx, struct acdc_flow *first,
              struct acdc_pkt *p)
{
    bool answered = answer(ctx, first, p);
    struct acdc_flow *second;

    ACDC_COUNT(ctx, EGRESS_PACKETS, 1);
    acdc_flow_unlock(ctx, first);
    acdc_recall_address(ctx, p);
    if (answered) {
        return;
    }
    second = acdc_flow_find_second(ctx, p, first);
    if (second) {
        acdc_lock(&second->lock);
        answered = answer(ctx, second, p);
        acdc_unlock(&second->lock);
    }
    if (!answered) {
        ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
        return;
    }
    acdc_lock(&first->lock);
    if (!(first->flags & ACDC_F_DEAD) && acdc_flow_is_live(first)) {
        acdc_flow_set_state(ctx, first, ACDC_FLOW_RESET);
    }
    acdc_unlock(&first->lock);
}

/* What few packets are: the last ones, and those with which to answer. */
static ACDC_NOINLINE void
egress_rare(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, struct acdc_pkt *p, uint32_t last)
{
    const struct acdc_flow_in *in = acdc_flow_in(f);

    acdc_flow_note_end(ctx, f, p, last);
    if (in->paused) {
        acdc_on_ramp_hold(ctx, f, p);
    }
    if (in->asked) {
        acdc_resume_answer(ctx, f, params, p);
    } else if (in->to_report && acdc_timing_is_due(ctx, f)) {
        p->opt_flags |= ACDC_O_REPORT;
    }
    if (!in->asked && !in->to_report && !in->paused) {
        f->flags &= ~(uint32_t) ACDC_F_TODO;
    }
}

static void
egress_locked(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    const struct acdc_params *params = acdc_flow_params(ctx, f);
    uint32_t last;

    if (acdc_unlikely(f->seen != ctx->seen)) {
        see_first(ctx, f, params, p);
    }
    ACDC_COUNT(ctx, EGRESS_PACKETS, 1);
    if (acdc_unlikely(!params->enabled)) {
        ACDC_COUNT(ctx, UNTOUCHED_DISABLED, 1);
    }
    if (!(f->flags & ACDC_F_LAW)) {
        if (acdc_flow_is_lost(f)) {
            acdc_resume_egress(ctx, f, params, p);
        } else {
            /* The handshake was not answered yet: a RST, or nonsense. */
            acdc_flow_note_end(ctx, f, p, f->snd_nxt);
        }
        return;
    }
    if (is_optimistic(f, p) && !excuse(ctx, f, p)
        && acdc_params_police(params)) {
        p->verdict = ACDC_DROP;
        return;
    }
    last = f->snd_nxt;
    if (!track_data(ctx, f, params, p)) {
        return;
    }
    if (acdc_unlikely(params->pace) && (ctx->acdc->host & ACDC_HOST_HOLDS)
        && acdc_pkt_end(p) != p->seq && acdc_flow_enforced(f, params)) {
        acdc_flow_pace(ctx, f, p, last);
    }
    if (acdc_unlikely(params->plb) && acdc_flow_plb_has_path(f)) {
        acdc_flow_plb_send(ctx, f, params, p);
    }
    renumber_ack(ctx, f, p);
    if (acdc_unlikely(f->state == ACDC_FLOW_CLOSED)) {
        acdc_flow_go_on(ctx, f, p);
    }
    if (acdc_unlikely((p->tcp_flags & (ACDC_TCP_FIN | ACDC_TCP_RST))
                      || (f->flags & (ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER
                                      | ACDC_F_TODO)))) {
        egress_rare(ctx, f, params, p, last);
    }
    if (f->flags & ACDC_F_CAPABLE) {
        dress(ctx, f, params, p);
        if (acdc_unlikely(params->tail_probe) && p->payload
            && (ctx->acdc->host & ACDC_HOST_KEEPS)
            && !acdc_tail_has(f, p, last)) {
            acdc_tail_keep(ctx, f, params, p, last);
        }
    } else if (f->flags & ACDC_F_RESUME) {
        acdc_resume_show(ctx, f, params, p);
    }
}

static inline void
egress(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct acdc_flow *f;

    if (!strip_forged(ctx, p)) {
        /* It cannot be edited and must not pass. */
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        p->verdict = ACDC_DROP;
        return;
    }
    if (acdc_pkt_is_syn(p)) {
        acdc_syn_egress(ctx, p);
        return;
    }
    f = acdc_flow_lock(ctx, p);
    if (!f) {
        acdc_recall_address(ctx, p);
        ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
        return;
    }
    if (acdc_unlikely(p->tcp_flags & ACDC_TCP_SYN)) {
        egress_synack(ctx, f, p);
        return;
    }
    egress_locked(ctx, f, p);
    acdc_flow_unlock(ctx, f);
}

/* See acdc_table_run(). */
static ACDC_RUN void
egress_run(struct acdc_ctx *ctx, struct acdc_pkt *p, struct acdc_pkt *end)
{
    for (; p < end; p++) {
        acdc_table_find_ahead(ctx, p, end, ACDC_EGRESS);
        if (p->ip_version) {
            egress(ctx, p);
        }
    }
}

ACDC_DIRECTION void
acdc_egress(struct acdc_ctx *ctx, struct acdc_pkt *pkts, unsigned int n)
{
    acdc_table_run(ctx, pkts, n, ACDC_EGRESS, egress_run);
}
