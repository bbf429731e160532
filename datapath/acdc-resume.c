// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* A connection whose state is lost at one end is taken up again: its vSwitch was
 * restarted, the guest came from another host, the table was full.  The other end's
 * vSwitch, which still knows it, is asked, and tells.
 *
 * It is asked only once a packet of it has shown what is ours: then it has AC/DC, and
 * knows the connection.  Until it answers nothing is done but hiding and counting
 * marks; a window scale that is not known is never guessed.
 *
 * A flow that asks has in 'snd_nxt' and 'rcv_nxt' how far its guest is, by the guest's own
 * packets: an outsider moves neither.  What it sent before is not known, nor whether it sends
 * again.  The answer must be near (RFC 5961), and have the number of the question. */

#include "acdc-ingress.h"
#include "acdc-timing.h"

/* Of a question: what an outsider does not know. */
static uint16_t
question_number(const struct acdc_ctx *ctx, const struct acdc_flow *f)
{
    return (uint16_t) (acdc_flow_secret(ctx, f) >> 48);
}

/* Where one end has forgotten. ---------------------------------------------- */

void
acdc_resume_hide(struct acdc_ctx *ctx, struct acdc_pkt *p, bool asking)
{
    uint8_t reserved = acdc_pkt_reserved(p);

    if (reserved && acdc_pkt_make_writable(p)) {
        uint8_t noted = (reserved & ACDC_RES_ECN_MASK) >> ACDC_RES_ECN_SHIFT;

        /* Without ECT(0) or ECT(1) in them nobody knows whether the packet was
         * marked by the other vSwitch or by the guest.  One that can be asked has
         * ACDC_CAP_NOT_ECT, too. */
        if (noted == ACDC_ECN_CE && asking) {
            acdc_pkt_set_ecn(p, ACDC_ECN_NOT_ECT);
        } else if (noted != ACDC_ECN_NOT_ECT && noted != ACDC_ECN_CE) {
            acdc_pkt_set_ecn(p, noted);
        }
        acdc_pkt_set_reserved(p, 0);
    }
    acdc_pkt_strip(p, ctx->exid);
}

/* Asks on a packet that goes anyway, or before it.  That one has feedback, too, so that a
 * vSwitch of the first version knows it as a FACK: of nothing, which is older than what
 * was seen. */
static bool
ask(struct acdc_ctx *ctx, const struct acdc_flow *f, struct acdc_pkt *p)
{
    uint8_t opts[ACDC_OPT_FB_LEN + ACDC_OPT_CAP_LEN] = { 0 };
    uint8_t *question = opts + ACDC_OPT_FB_LEN;
    uint32_t len = acdc_pkt_ip_len(p) + ACDC_OPT_CAP_LEN;
    bool fits = acdc_pkt_room(p) >= ACDC_OPT_CAP_LEN && !p->gso
                && (!p->payload
                    || (len <= ACDC_PATH_MIN
                        && acdc_pkt_mtu_len(p) + ACDC_OPT_CAP_LEN
                           <= acdc_a32_read(&ctx->port->mtu)));

    acdc_put32(opts, ACDC_FEEDBACK_WORD | ctx->exid);
    acdc_put_capability(question, ctx->exid,
                        ACDC_CAP_NOT_ECT | ACDC_CAP_RESUME | ACDC_CAP_SCALES,
                        question_number(ctx, f));
    if (fits) {
        return acdc_pkt_make_writable(p)
               && acdc_pkt_add_option(p, question, ACDC_OPT_CAP_LEN);
    }
    /* The other end's vSwitch takes it.  What is not ECT a congested switch drops. */
    return acdc_pkt_send_options(p, p->seq, opts, sizeof opts, ACDC_ECN_ECT0, 0);
}

/* How far the guest is, by its own word. */
static void
follow_guest(struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint32_t end = acdc_pkt_end(p);

    if (!f->bad_feedback || seq_after(end, f->snd_nxt)) {
        f->snd_nxt = end;
    }
    if (!f->bad_feedback || seq_after(p->ack, f->rcv_nxt)) {
        f->rcv_nxt = p->ack;
    }
}

void
acdc_resume_egress(struct acdc_ctx *ctx, struct acdc_flow *f,
                   const struct acdc_params *params, struct acdc_pkt *p)
{
    bool due = !f->bad_feedback || acdc_flow_inactive_ms(f, ctx->now_ms)
                                   >= (uint32_t) ACDC_ASK_MS << 2 * f->bad_feedback;

    ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
    follow_guest(f, p);
    if (f->state != ACDC_FLOW_ASKING) {
        return;
    }
    if ((p->tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_FIN | ACDC_TCP_RST))
        || !acdc_params_enforce(params)
        || (due && f->bad_feedback == ACDC_QUESTIONS)) {
        acdc_flow_set_state(ctx, f, ACDC_FLOW_UNKNOWN);
        return;
    }
    if (!due || acdc_pkt_has_ip_options(p)) {
        return;
    }
    if (!ask(ctx, f, p)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    f->bad_feedback = (f->bad_feedback + 1u) & ACDC_QUESTIONS;
    f->active = (uint16_t) ctx->now_ms;
}

/* Whether there is room to ask.  Copies of what is for others, as of a switch that floods,
 * leave some of it for the guest's own connections, and these for handshakes. */
static bool
has_quota(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    uint32_t most = ctx->policy->max_half_open;

    return acdc_count_read(&ctx->tenant->n_half_open)
           < (acdc_recall_is_guest(ctx, p) ? most - most / 4 : most / 2);
}

bool
acdc_resume_begin(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    uint8_t shown = acdc_pkt_reserved(p) & (ACDC_RES_FACK | ACDC_RES_ECN_MASK);
    enum acdc_counter why;
    struct acdc_flow *f;

    if ((!shown && !(p->opt_flags & ACDC_O_FEEDBACK))
        || (p->tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_FIN | ACDC_TCP_RST))
        || !has_quota(ctx, p)) {
        return false;
    }
    f = acdc_flow_create(ctx, p, NULL, &why);
    if (!f) {
        return false;
    }
    acdc_lock(&f->lock);
    if ((f->flags & ACDC_F_DEAD) || !acdc_flow_is_lost(f)) {
        acdc_unlock(&f->lock);
        return false;
    }
    acdc_resume_ingress(ctx, f, acdc_flow_params(ctx, f), p);
    acdc_unlock(&f->lock);
    return true;
}

/* Scales that the guests were told, which an answer has instead of 'beyond'. */
static bool
is_told(const uint8_t *body)
{
    return (body[0] & (ACDC_STATE_TOLD | ACDC_STATE_SCALES))
           == (ACDC_STATE_TOLD | ACDC_STATE_SCALES);
}

/* Whether the other end may have sent 'p' in answer to a question of 'f'. */
static bool
is_answer(const struct acdc_ctx *ctx, const struct acdc_flow *f,
          const struct acdc_pkt *p)
{
    const uint8_t *body = acdc_pkt_tcp(p) + p->cap_ofs + ACDC_OPT_BODY_OFS;

    return (p->opt_flags & ACDC_O_STATE) && f->bad_feedback
           && (p->tcp_flags & ACDC_TCP_ACK) && acdc_pkt_maybe_intact(p)
           && seq_plausible(p->ack, f->snd_nxt) && seq_plausible(p->seq, f->rcv_nxt)
           && acdc_get16(body + 4) == question_number(ctx, f)
           && body[1] >> 4 <= ACDC_WSCALE_MAX
           && (body[1] & 15) <= ACDC_WSCALE_MAX
           && (!is_told(body) || (body[6] >> 4 <= body[1] >> 4
                                  && (body[6] & 15) <= (body[1] & 15)))
           && acdc_get16(body + 2) >= ACDC_MSS_MIN;
}

/* What the handshake had settled. */
static void
take_handshake(struct acdc_flow *f, const uint8_t *body)
{
    uint8_t said = body[0];
    uint32_t flags = ACDC_F_OFFERED | ACDC_F_PEER | ACDC_F_NOT_ECT | ACDC_F_RESUME
                     | ACDC_F_BEHIND;

    flags |= said & ACDC_STATE_SACK ? ACDC_F_SACK : 0u;
    flags |= said & ACDC_STATE_ECN_SYN ? ACDC_F_ECN_SYN : 0u;
    flags |= said & ACDC_STATE_GUEST_ECN ? ACDC_F_GUEST_ECN : 0u;
    f->flags = (f->flags & (ACDC_F_PLAIN | ACDC_F_RX_CE | ACDC_F_RX_NEWS)) | flags;
    f->peer_wscale = f->out_wscale = 0;
    if (said & ACDC_STATE_SCALES) {
        acdc_flow_set_guest_wscale(f, body[1] >> 4);
        f->peer_wscale = f->out_wscale = body[1] & 15;
    }
    if (is_told(body)) {
        acdc_wscale_take(f, body[6] >> 4, body[6] & 15);
    }
    f->mss = acdc_get16(body + 2);
    if (said & ACDC_STATE_TIMING) {
        acdc_timing_begin(f);
    }
}

/* The answer: from here on the connection is followed.  The law begins as for a new one.
 * Of what the guest may have been offered nothing is known but that it is no more than
 * the peer's own window. */
static void
resume(struct acdc_ctx *ctx, struct acdc_flow *f,
       const struct acdc_params *params, const struct acdc_pkt *p)
{
    const uint8_t *body = acdc_pkt_tcp(p) + p->cap_ofs + ACDC_OPT_BODY_OFS;
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint16_t window = acdc_pkt_window(p);
    uint16_t beyond = is_told(body) ? 0 : acdc_get16(body + 6);

    take_handshake(f, body);
    acdc_flow_set_state(ctx, f, ACDC_FLOW_ESTABLISHED);
    f->bad_feedback = f->dupacks = 0;
    in->n_syns = ACDC_RESUMED;
    f->rx_ce += acdc_get32(body + 8);
    f->rx_total += acdc_get32(body + 12);
    in->fb_ce = acdc_get32(body + 16);
    in->fb_total = acdc_get32(body + 20);
    f->snd_una = p->ack;
    if (seq_before(f->snd_nxt, p->ack + beyond)) {
        f->snd_nxt = p->ack + beyond;
    }
    /* What else of the peer's window is under way nobody knows. */
    acdc_flow_set_tx_total(f, in->fb_total + (f->snd_nxt - p->ack)
                              + ((uint32_t) window << f->peer_wscale));
    if (seq_before(f->rcv_nxt, p->seq)) {
        f->rcv_nxt = p->seq;
    }
    in->peer_window = in->out_window = window;
    f->peer_edge = in->right_edge = p->ack + ((uint32_t) window << f->peer_wscale);
    f->flags |= ACDC_F_EDGE;
    f->active = (uint16_t) ctx->now_ms;
    acdc_flow_set_counted(ctx, f, true);
    acdc_flow_start_law(ctx, f, params);
    ACDC_COUNT(ctx, FLOWS_RESUMED, 1);
}

bool
acdc_resume_ingress(struct acdc_ctx *ctx, struct acdc_flow *f,
                    const struct acdc_params *params, struct acdc_pkt *p)
{
    uint32_t end = acdc_pkt_end(p);

    if (is_answer(ctx, f, p)) {
        resume(ctx, f, params, p);
        return true;
    }
    ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
    if (p->tcp_flags & ACDC_TCP_RST) {
        acdc_flow_set_state(ctx, f, ACDC_FLOW_UNKNOWN);
    }
    if (acdc_pkt_is_fack(p)) {
        p->verdict = ACDC_DROP;
        return false;
    }
    count_received(ctx, f, p, acdc_pkt_ecn(p) == ACDC_ECN_CE);
    /* What the guest may acknowledge by the time of the answer. */
    if (f->bad_feedback && seq_after(end, f->rcv_nxt)
        && end - f->rcv_nxt <= ACDC_PLAUSIBLE && seq_plausible(p->ack, f->snd_nxt)) {
        f->rcv_nxt = end;
    }
    acdc_resume_hide(ctx, p, f->state == ACDC_FLOW_ASKING);
    return false;
}

/* Where the other end knows it. --------------------------------------------- */

/* Whether the other end may be told. */
static bool
can_tell(const struct acdc_flow *f)
{
    const uint32_t capable = ACDC_F_OFFERED | ACDC_F_PEER | ACDC_F_RESUME | ACDC_F_LAW;

    return (f->flags & capable) == capable && f->state == ACDC_FLOW_ESTABLISHED
           && !acdc_flow_is_deaf(f);
}

void
acdc_resume_note_question(struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint8_t flags = acdc_pkt_capability_flags(p);

    if (!(flags & ACDC_CAP_RESUME) || !can_tell(f) || !acdc_pkt_maybe_intact(p)
        || (acdc_wscale_is_finer(f) && !(flags & ACDC_CAP_SCALES))) {
        return;
    }
    f->flags |= ACDC_F_TODO;
    acdc_flow_in(f)->asked = true;
    acdc_flow_in(f)->silent = acdc_get16(acdc_pkt_tcp(p) + p->cap_ofs
                                         + ACDC_OPT_BODY_OFS + 2);
}

static void
put_state(uint8_t *opt, uint16_t exid, const struct acdc_flow *f,
          const struct acdc_pkt *p)
{
    const struct acdc_flow_in *in = acdc_flow_in(f);
    uint8_t *body = opt + ACDC_OPT_BODY_OFS;
    uint32_t beyond = f->rcv_nxt - p->ack;
    unsigned int flags = 0;

    flags |= acdc_flow_scales(f) ? ACDC_STATE_SCALES : 0u;
    flags |= f->flags & ACDC_F_SACK ? ACDC_STATE_SACK : 0u;
    flags |= f->flags & ACDC_F_ECN_SYN ? ACDC_STATE_ECN_SYN : 0u;
    flags |= f->flags & ACDC_F_GUEST_ECN ? ACDC_STATE_GUEST_ECN : 0u;
    flags |= acdc_flow_timing(f) ? ACDC_STATE_TIMING : 0u;
    acdc_put32(opt, ACDC_STATE_WORD | exid);
    body[0] = (uint8_t) flags;
    body[1] = (uint8_t) (f->peer_wscale << 4 | acdc_flow_guest_wscale(f));
    acdc_put16(body + 2, f->mss);
    acdc_put16(body + 4, in->silent);
    if (acdc_wscale_is_finer(f)) {
        body[0] |= ACDC_STATE_TOLD;
        acdc_put16(body + 6, (uint16_t) (acdc_wscale_told(f) << 8));
    } else {
        acdc_put16(body + 6, (uint16_t) (beyond < 0xffff ? beyond : 0));
    }
    acdc_put32(body + 8, in->fb_ce);
    acdc_put32(body + 12, in->fb_total);
    acdc_put32(body + 16, f->rx_ce);
    acdc_put32(body + 20, f->rx_total);
}

/* What was reported last is what the other end counts from, so that nothing is counted
 * twice. */
void
acdc_resume_answer(struct acdc_ctx *ctx, struct acdc_flow *f,
                   const struct acdc_params *params, struct acdc_pkt *p)
{
    uint8_t opt[ACDC_OPT_STATE_LEN];
    bool sent;

    if (f->state != ACDC_FLOW_ESTABLISHED || !acdc_params_enforce(params)) {
        acdc_flow_in(f)->asked = false;
        return;
    }
    if (p->tcp_flags & (ACDC_TCP_SYN | ACDC_TCP_RST)
        || acdc_pkt_has_ip_options(p)) {
        return;
    }
    put_state(opt, ctx->exid, f, p);
    if (acdc_pkt_is_pure_ack(p) && acdc_pkt_room(p) >= sizeof opt) {
        sent = acdc_pkt_make_writable(p)
               && acdc_pkt_add_option(p, opt, sizeof opt);
    } else {
        sent = acdc_pkt_send_options(p, acdc_flow_ack_number(f, p), opt,
                                     sizeof opt, ACDC_ECN_ECT0, 0);
    }
    if (!sent) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    acdc_flow_in(f)->asked = false;
    acdc_flow_note_reported(f);
    acdc_flow_in(f)->silent = f->flags & ACDC_F_CAPABLE ? 0 : (uint16_t) ctx->seen;
}

void
acdc_resume_show(struct acdc_ctx *ctx, struct acdc_flow *f,
                 const struct acdc_params *params, struct acdc_pkt *p)
{
    const uint8_t not_plain = ACDC_TCP_SYN | ACDC_TCP_FIN | ACDC_TCP_RST;
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint16_t now = (uint16_t) ctx->seen;
    uint8_t opt[ACDC_OPT_FB_LEN];
    bool fits = acdc_pkt_is_pure_ack(p) && acdc_pkt_room(p) >= sizeof opt;

    if ((uint16_t) (now - in->silent) < ACDC_SHOW || in->asked || !can_tell(f)
        || !acdc_params_enforce(params)
        || (p->tcp_flags & (not_plain | ACDC_TCP_ACK)) != ACDC_TCP_ACK
        || acdc_pkt_has_ip_options(p)) {
        return;
    }
    acdc_flow_put_feedback(f, ACDC_FEEDBACK_WORD | ctx->exid, opt);
    if (fits ? !acdc_pkt_make_writable(p) || !acdc_pkt_add_option(p, opt, sizeof opt)
             : !acdc_pkt_send_options(p, acdc_flow_ack_number(f, p), opt, sizeof opt,
                                      acdc_pkt_ecn(p), 0)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return;
    }
    in->silent = now;
    acdc_count(ctx, fits ? ACDC_C_PACK_SENT : ACDC_C_FACK_SENT, 1);
    acdc_flow_note_reported(f);
}
