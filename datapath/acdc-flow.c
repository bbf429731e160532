// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* What both directions do with a flow: which parameters govern it, and when it
 * ends.  The flow's lock is held in all of these. */

#include "acdc-pace.h"
#include "acdc-plb.h"
#include "acdc-tail.h"
#include "acdc-timing.h"

/* Which parameters. -------------------------------------------------------- */

/* Whether it may be the guest's doing that no feedback comes: a SYN into which the
 * capability does not fit, or that it has sent again, or packets that made the other end
 * forget the connection. */
static bool
may_be_deceived(const struct acdc_flow *f)
{
    return (f->flags & ACDC_F_UNOFFERED)
           || (acdc_flow_both_showed(f) && !acdc_flow_is_deaf(f));
}

enum acdc_algorithm
acdc_flow_algorithm(const struct acdc_flow *f, const struct acdc_params *params)
{
    if (!params->enabled) {
        return ACDC_ALG_NONE;
    }
    /* An observer adds no capability, so there is no feedback but what the
     * guests tell each other by ECE. */
    if ((f->flags & ACDC_F_CAPABLE) || params->mode == ACDC_MODE_OBSERVE) {
        return (enum acdc_algorithm) params->algorithm;
    }
    if (params->fallback == ACDC_ALG_NONE && params->algorithm != ACDC_ALG_NONE
        && may_be_deceived(f)) {
        unsigned int alg = ACDC_ALG_NONE;

        while (!acdc_algorithm_has(alg, ACDC_CC_UNOFFERED)) {
            alg++;
        }
        return (enum acdc_algorithm) alg;
    }
    return (enum acdc_algorithm) params->fallback;
}

/* Where 'next_send' is not from this very pace it is a time long past, which would be
 * taken for one to come half of the time. */
static void
begin_pace(const struct acdc_ctx *ctx, struct acdc_flow_in *in,
           const struct acdc_params *params)
{
    if (params->pace && !in->paces) {
        in->next_send = (uint32_t) (ctx->now / ACDC_PACE_NS);
    }
    in->paces = params->pace;
}

const struct acdc_params *
acdc_flow_new_params(const struct acdc_ctx *ctx, struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    const struct acdc_params *params;

    f->policy_gen = ctx->policy->gen;
    f->rule = acdc_policy_match(ctx->policy, f);
    params = acdc_policy_params(ctx->policy, f->rule);
    f->flags &= ~(uint32_t) ACDC_F_PLAIN;
    if (acdc_params_enforce(params) && params->algorithm != ACDC_ALG_NONE
        && !params->small_windows && !acdc_flow_timing(f)) {
        f->flags |= ACDC_F_PLAIN;
    }
    if (f->flags & ACDC_F_LAW) {
        enum acdc_algorithm alg = acdc_flow_algorithm(f, params);
        struct acdc_facts facts;

        begin_pace(ctx, in, params);
        acdc_flow_facts(ctx, f, params, &facts);
        if (alg != in->law.alg) {
            acdc_law_switch(&in->law, alg);
        }
        acdc_law_clamp(&in->law, &facts);
    }
    return params;
}

/* Once it is known whether the other end has AC/DC: when the guest's SYN was
 * answered, or is being answered. */
void
acdc_flow_start_law(const struct acdc_ctx *ctx, struct acdc_flow *f,
                    const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    struct acdc_facts facts;

    acdc_flow_facts(ctx, f, params, &facts);
    acdc_law_init(&in->law, &facts, acdc_flow_algorithm(f, params));
    acdc_flow_time_next(f, 0);
    begin_pace(ctx, in, params);
    f->flags |= ACDC_F_LAW;
}

/* An estimate of the guest's retransmission timeout.  It is at least 4
 * smoothed round-trip times where the variation is small (RFC 6298 has
 * srtt + 4 * rttvar), and above a tail loss probe's 2 (RFC 8985).  Before the first
 * round-trip time it is a second (RFC 6298 section 2.1). */
uint32_t
acdc_flow_rto_ms(const struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t rto = in->srtt_us8 / 2 / 1000;

    if (!in->srtt_us8) {
        return ACDC_RTO_FIRST_MS;
    }
    return rto > ACDC_RTO_MIN_MS ? rto : ACDC_RTO_MIN_MS;
}

void
acdc_flow_note_delay(struct acdc_ctx *ctx, struct acdc_flow *f,
                     const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    struct acdc_facts facts;

    in->prompt_acks = ACDC_DELAYS;
    f->flags &= ~(uint32_t) ACDC_F_SOLICITED;
    ACDC_COUNT(ctx, FLOWS_DELAYED, 1);
    acdc_flow_facts(ctx, f, params, &facts);
    acdc_law_clamp(&in->law, &facts);
}

bool
acdc_flow_take_excess(struct acdc_ctx *ctx, struct acdc_flow *f, uint32_t ack,
                      uint32_t total, uint32_t *new_ce, uint32_t *new_total)
{
    uint32_t excess = total - acdc_flow_tx_total(f);
    /* No more than a window came twice. */
    bool possible = *new_ce <= *new_total && excess <= *new_total
                    && excess <= acdc_flow_in(f)->law.wnd;

    if (!(f->flags & ACDC_F_DUPLICATES) || !possible) {
        ACDC_COUNT(ctx, FEEDBACK_BAD, 1);
        if (f->bad_feedback < ACDC_FEEDBACK_RESYNC - 1) {
            f->bad_feedback++;
            return false;
        }
    }
    if (possible) {
        f->flags |= ACDC_F_DUPLICATES;
    } else {
        *new_ce = *new_total = 0;
    }
    acdc_flow_set_tx_total(f, total + (f->snd_nxt - ack));
    return true;
}

/* Takes the round-trip time of what is timed, which this packet answers. */
static uint32_t
take_rtt(struct acdc_ctx *ctx, struct acdc_flow *f,
         const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t srtt_us8 = in->srtt_us8;
    uint32_t rtt = (acdc_now_us(ctx) - f->rtt_us) & 0xffffff;

    /* Another thread's clock may be a little behind. */
    if (!rtt || rtt > 0xffffff - ACDC_RTT_SKEW_US) {
        rtt = 1;
    }
    if (rtt > ACDC_RTT_MOST_US) {
        return 0;
    }
    if (acdc_unlikely(in->timed_held) && rtt < srtt_us8 / 32) {
        /* It left before its time, as nothing held it.  Or the queue is gone that the
         * usual time is of: then this is so again and again. */
        in->srtt_us8 -= srtt_us8 / 4;
        ACDC_COUNT(ctx, PACED_UNHELD, 1);
        return 0;
    }
    if (acdc_unlikely(acdc_flow_is_small(f))
        && rtt > srtt_us8 / 8 + ACDC_DELAYED_ACK_US) {
        acdc_flow_note_delay(ctx, f, params);
    }
    srtt_us8 = srtt_us8 ? srtt_us8 + rtt - srtt_us8 / 8 : rtt * 8;
    in->srtt_us8 = srtt_us8 < 0xffffff ? srtt_us8 : 0xffffff;
    acdc_law_note_rtt(&in->law, rtt, ctx->now_ms);
    ACDC_COUNT(ctx, RTT_SAMPLES, 1);
    acdc_rtt_record(ctx, rtt);
    return rtt;
}

uint32_t
acdc_flow_sample_rtt(struct acdc_ctx *ctx, struct acdc_flow *f,
                     const struct acdc_params *params, uint32_t window)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    bool pending = f->flags & ACDC_F_RTT_PENDING;

    acdc_flow_time_next(f, window);
    if (acdc_unlikely(params->plb)) {
        acdc_flow_plb_round(ctx, f);
    }
    if (!pending) {
        return 0;
    }
    if (acdc_unlikely(in->prompt_acks == ACDC_PROMPT_UNTIMED)) {
        /* The handshake's round trip was of small packets; this is the first of
         * data. */
        in->prompt_acks = 0;
        in->srtt_us8 = 0;
    }
    return take_rtt(ctx, f, params);
}

void
acdc_flow_take_first_rtt(struct acdc_ctx *ctx, struct acdc_flow *f,
                         const struct acdc_params *params)
{
    /* What took no time at all was not measured. */
    if ((f->flags & ACDC_F_RTT_PENDING)
        && f->rtt_us != (acdc_now_us(ctx) & 0xffffff)) {
        take_rtt(ctx, f, params);
        acdc_flow_in(f)->prompt_acks = ACDC_PROMPT_UNTIMED;
    }
    f->active = (uint16_t) ctx->now_ms;
    acdc_flow_time_next(f, 0);
}

/* An ACK that carries SACK blocks says by them what arrived beyond a hole, and all of
 * it again each time: it counts for as many duplicate ACKs as full segments or blocks
 * that it says (RFC 6675 section 4, IsLost()).  One that says nothing new is no
 * duplicate (section 2), nor what came twice (D-SACK, RFC 2883). */
bool
acdc_flow_shows_loss(const struct acdc_ctx *ctx, struct acdc_flow *f,
                     const struct acdc_pkt *p, bool duplicate, bool pass)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    unsigned int n = f->dupacks + duplicate;

    if (p->opt_flags & ACDC_O_SACK) {
        acdc_tail_note_sack(f, p);
        n = seq_after(acdc_pkt_sack_edge(p, f->snd_una, f->snd_nxt),
                      f->snd_una + ACDC_DUPTHRESH * (uint32_t) f->mss)
            ? ACDC_DUPTHRESH
            : acdc_pkt_sacked_segments(p, f->snd_una, f->snd_nxt, f->mss);
    }
    if (f->dupacks >= ACDC_DUPTHRESH) {
        if (!pass || !in->reorders || ++f->dupacks < ACDC_DUPTHRESH_LATE) {
            return false;
        }
        in->reorders = false;
        return true;
    }
    if (n <= f->dupacks) {
        return false;
    }
    f->dupacks = (n < ACDC_DUPTHRESH ? n : ACDC_DUPTHRESH) & 7;
    /* What arrives shows that the guest's timer has no reason to expire. */
    f->active = (uint16_t) ctx->now_ms;
    return f->dupacks == ACDC_DUPTHRESH && !in->reorders;
}

/* The law was told of a loss or a timeout: what remains in doubt is whether to take that
 * back, if it changed anything. */
static void
cut_in_doubt(struct acdc_flow *f, struct acdc_flow_more *more)
{
    more->doubt_waits = ACDC_DOUBT_NONE;
    if (!more->undo.wnd) {
        acdc_doubt_end(f);
    }
}

void
acdc_flow_loss(struct acdc_ctx *ctx, struct acdc_flow *f,
               const struct acdc_facts *facts)
{
    struct acdc_flow_more *more = acdc_doubt_begin(f, ACDC_DOUBT_NONE);
    struct acdc_facts e = *facts;

    e.undo = &more->undo;
    if (acdc_law_loss(&acdc_flow_in(f)->law, &e)) {
        acdc_flow_time_next(f, facts->window);
        ACDC_COUNT(ctx, CUTS_LOSS, 1);
    }
    ACDC_TRACE_LAW(loss, ctx, f);
    cut_in_doubt(f, more);
}

void
acdc_flow_timeout(struct acdc_ctx *ctx, struct acdc_flow *f,
                  const struct acdc_facts *facts)
{
    struct acdc_flow_more *more = acdc_doubt_begin(f, ACDC_DOUBT_NONE);
    struct acdc_flow_in *in = acdc_flow_in(f);
    struct acdc_facts e = *facts;

    ACDC_COUNT(ctx, TIMEOUTS, 1);
    acdc_flow_note_order(f);
    e.undo = &more->undo;
    acdc_law_timeout(&in->law, &e);
    cut_in_doubt(f, more);
    acdc_flow_time_next(f, facts->window);
    if (acdc_unlikely(facts->params->plb)) {
        acdc_flow_plb_suspend(ctx, f);
    }
    ACDC_TRACE_LAW(timeout, ctx, f);
    f->dupacks = 0;
}

bool
acdc_flow_offer_arrived(struct acdc_flow *f, const struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    /* Its marks say so.  What it reports is known only if that is all. */
    if (!(f->flags & ACDC_F_UNOFFERED) || !(f->flags & ACDC_F_NOT_ECT)
        || !(acdc_pkt_reserved(p) & ACDC_RES_ECN_MASK)
        || acdc_flow_in_handshake(f) || in->fb_total) {
        return false;
    }
    f->flags &= ~(uint32_t) ACDC_F_UNOFFERED;
    in->fb_ce = 0;
    in->silent = in->asked ? in->silent : 0;
    return true;
}

/* Life cycle. -------------------------------------------------------------- */

/* Whether a RST may end the connection at the one that gets it.
 *
 * Of the peer: one that is not in the window, or does not acknowledge the SYN,
 * is not believed by the guest either (RFC 9293 section 3.10.7).
 *
 * Of the guest: it also answers with one what comes of an older connection
 * with the same ports, while its own SYN or SYN-ACK is not answered, and goes
 * on.  Nor is any other believed: it may not arrive (a wrong checksum, a short
 * TTL), for the flow to be forgotten here.  See ACDC_FLOW_RESET. */
static bool
is_valid_reset(const struct acdc_ctx *ctx, const struct acdc_flow *f,
               const struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    bool ack = p->tcp_flags & ACDC_TCP_ACK;

    if (ctx->dir == ACDC_INGRESS) {
        return f->state == ACDC_FLOW_SYN_SENT
               ? ack && p->ack == f->snd_nxt
               : (p->seq - f->rcv_nxt) + 0x10000 < 0x20000;
    }
    if (f->flags & ACDC_F_LAW) {
        /* The SYN-ACK may be sent again. */
        return !acdc_flow_in_handshake(f) && !seq_before(p->seq, f->snd_una)
               && !seq_after(p->seq, f->snd_nxt);
    }
    return f->state == ACDC_FLOW_SYN_RECEIVED && ack
           && seq_after(p->ack, in->irs) && !seq_after(p->ack, f->rcv_nxt);
}

void
acdc_flow_go_on(struct acdc_ctx *ctx, struct acdc_flow *f,
                const struct acdc_pkt *p)
{
    uint32_t fins = f->flags & (ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER);

    if (!(p->tcp_flags & ACDC_TCP_RST) && !acdc_flow_is_over(f)) {
        acdc_flow_set_state(ctx, f, fins ? ACDC_FLOW_CLOSING
                                         : ACDC_FLOW_ESTABLISHED);
    }
}

/* A FIN is a claim until who gets it acknowledges it.  That says nothing if it may as
 * well acknowledge data with the number of the FIN, which a guest sends before or after
 * one that does not arrive: a FIN is none that is not beyond all that was sent, 'last',
 * nor one that data contradicts.  After the acknowledgment such data is a keep-alive
 * with a byte. */
static void
note_fin(const struct acdc_ctx *ctx, struct acdc_flow *f,
         const struct acdc_pkt *p, uint32_t last)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    bool egress = ctx->dir == ACDC_EGRESS;
    uint32_t flag = egress ? ACDC_F_FIN_GUEST : ACDC_F_FIN_PEER;
    uint32_t next = egress ? f->snd_nxt : f->rcv_nxt;
    uint32_t end = p->seq + p->payload;
    bool taken = egress ? f->snd_una == last
                        : (f->flags & flag) && (in->n_syns & ACDC_FIN_TAKEN);

    if (!(f->flags & ACDC_F_FIN_PEER) && !acdc_flow_in_handshake(f)) {
        in->n_syns &= ~(unsigned int) ACDC_RESUMED & 3;
    }
    if ((p->tcp_flags & ACDC_TCP_FIN) && next == end + 1
        && seq_after(next, last) && !acdc_flow_is_deaf(f)) {
        f->flags |= flag;
    } else if (p->payload && !seq_before(end, last + taken)) {
        f->flags &= ~flag;
    }
    if (acdc_flow_in_handshake(f)) {
        return;
    }
    if (egress && (f->flags & ACDC_F_FIN_PEER)
        && (p->tcp_flags & ACDC_TCP_ACK) && p->ack == f->rcv_nxt) {
        in->n_syns |= ACDC_FIN_TAKEN;
    } else if (!(f->flags & ACDC_F_FIN_PEER)) {
        in->n_syns &= ~(unsigned int) ACDC_FIN_TAKEN & 3;
    }
}

void
acdc_flow_do_note_end(struct acdc_ctx *ctx, struct acdc_flow *f,
                      const struct acdc_pkt *p, uint32_t last)
{
    const uint32_t fins = ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER;
    enum acdc_flow_state state = (enum acdc_flow_state) f->state;

    if (p->tcp_flags & ACDC_TCP_RST) {
        if (is_valid_reset(ctx, f, p) && state != ACDC_FLOW_CLOSED) {
            state = ctx->dir == ACDC_EGRESS ? ACDC_FLOW_RESET
                                            : ACDC_FLOW_CLOSED;
        }
    } else if (f->flags & ACDC_F_LAW) {
        uint32_t had = f->flags & fins;

        note_fin(ctx, f, p, last);
        if (acdc_flow_is_over(f)) {
            state = ACDC_FLOW_CLOSED;
        } else if ((f->flags & fins) != had && state != ACDC_FLOW_RESET
                   && !acdc_flow_in_handshake(f)) {
            state = f->flags & fins ? ACDC_FLOW_CLOSING
                                    : ACDC_FLOW_ESTABLISHED;
        }
    }
    if (state != f->state && f->state != ACDC_FLOW_RESET
        && (state == ACDC_FLOW_CLOSED || state == ACDC_FLOW_RESET)) {
        ACDC_COUNT(ctx, FLOWS_CLOSED, 1);
    }
    acdc_flow_set_state(ctx, f, state);
}
