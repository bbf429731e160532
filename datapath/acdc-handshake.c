// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* SYN and SYN-ACK, both ways: a flow begins, the two ends show each other the
 * capability, the window scale is read and where too coarse made finer. */

#include "acdc-plb.h"
#include "acdc-table.h"
#include "acdc-timing.h"

/* What the guest or the peer says in its SYN or SYN-ACK. */
static void
note_options(struct acdc_flow *f, const struct acdc_pkt *p, bool guest)
{
    uint16_t mss = p->ip_version == 4 ? ACDC_MSS_DEFAULT4 : ACDC_MSS_DEFAULT6;
    uint8_t wscale = p->wscale < ACDC_WSCALE_MAX ? p->wscale : ACDC_WSCALE_MAX;

    if ((p->opt_flags & ACDC_O_MSS) && p->mss >= ACDC_MSS_MIN) {
        mss = p->mss;
    } else if (p->opt_flags & ACDC_O_MSS) {
        mss = ACDC_MSS_MIN;
    }
    if (!f->mss || mss < f->mss) {
        f->mss = mss;
    }
    /* Of the guest's SYNs and SYN-ACKs the peer may have got any: what one of
     * them had holds. */
    if (!guest) {
        f->flags &= ~(uint32_t) ACDC_F_WSCALE_PEER;
    }
    if (!(p->opt_flags & ACDC_O_SACK_OK)) {
        if (!guest || (p->tcp_flags & ACDC_TCP_ACK)) {
            f->flags &= ~(uint32_t) ACDC_F_SACK;
        }
    } else if (!(p->tcp_flags & ACDC_TCP_ACK)) {
        f->flags |= ACDC_F_SACK;
    }
    if ((p->tcp_flags & (ACDC_TCP_ACK | ACDC_TCP_ECE | ACDC_TCP_CWR))
        == (ACDC_TCP_ECE | ACDC_TCP_CWR)) {
        f->flags |= ACDC_F_ECN_SYN;
    }
    if (!guest) {
        f->flags |= p->opt_flags & ACDC_O_WSCALE ? ACDC_F_WSCALE_PEER : 0;
        f->peer_wscale = f->out_wscale = wscale & 15;
    } else if (p->opt_flags & ACDC_O_WSCALE) {
        acdc_flow_set_guest_wscale(f, wscale);
    }
}

/* Full segments are shorter by the timestamps where both ends agreed on
 * them. */
static void
settle_mss(struct acdc_flow *f, const struct acdc_pkt *synack)
{
    unsigned int timestamps = acdc_pkt_timestamps_len(synack);

    if (f->mss > ACDC_MSS_MIN + timestamps) {
        f->mss = (uint16_t) (f->mss - timestamps);
    }
}

/* Windows are told in units of 1 << scale bytes.  If a full segment is no whole
 * number of them, the window of two segments has room for a bit of a third, and
 * the guest sends it.  So the MSS option to the guest is made smaller by less
 * than a unit: 1460 to 1420, which with timestamps leaves 1408 bytes for 1448,
 * 11 units of 128.  Not if that were more than an eighth. */
static bool
align_mss(struct acdc_pkt *p)
{
    unsigned int timestamps = acdc_pkt_timestamps_len(p);
    unsigned int segment, excess;

    if (!(p->opt_flags & ACDC_O_MSS) || !(p->opt_flags & ACDC_O_WSCALE)
        || p->wscale > ACDC_WSCALE_MAX
        || p->mss < ACDC_MSS_MIN + timestamps) {
        return false;
    }
    segment = p->mss - timestamps;
    excess = segment & ((1u << p->wscale) - 1);
    if (!excess || excess > segment / 8 || segment - excess < ACDC_MSS_MIN
        || !acdc_pkt_make_writable(p)) {
        return false;
    }
    acdc_pkt_set_mss(p, (uint16_t) (p->mss - excess));
    return true;
}

/* In a handshake. */
static enum acdc_algorithm
expected_algorithm(const struct acdc_flow *f, const struct acdc_params *params)
{
    return f->flags & ACDC_F_PEER
           ? (enum acdc_algorithm) params->algorithm
           : acdc_flow_algorithm(f, params);
}

/* Scale and MSS for the guest in the SYN or SYN-ACK of the peer. */
static void
adapt_options(struct acdc_ctx *ctx, struct acdc_flow *f,
              const struct acdc_params *params, struct acdc_pkt *p)
{
    enum acdc_algorithm algorithm = expected_algorithm(f, params);
    bool align = params->align_mss && acdc_params_enforce(params)
                 && algorithm != ACDC_ALG_NONE;

    acdc_wscale_refine(ctx, f, params, p);
    if ((align || (f->flags & ACDC_F_MSS_ALIGNED)) && align_mss(p)) {
        /* Only with the SYN-ACK timestamps are agreed on. */
        unsigned int mss = p->tcp_flags & ACDC_TCP_ACK
                           ? p->mss - acdc_pkt_timestamps_len(p) : p->mss;

        f->mss = (uint16_t) (f->mss < mss ? f->mss : mss);
        f->flags |= ACDC_F_MSS_ALIGNED;
    }
}

/* The same scale and MSS in what the peer sends again. */
static void
repeat_options(const struct acdc_flow *f, struct acdc_pkt *p)
{
    acdc_wscale_repeat(f, p);
    if (f->flags & ACDC_F_MSS_ALIGNED) {
        align_mss(p);
    }
}

/* A guest may send data behind its SYN-ACK at once (TCP Fast Open): the window of
 * the peer's SYN, which is not scaled, is no larger than that of the law, as far
 * as that is known. */
static void
limit_window(struct acdc_ctx *ctx, struct acdc_flow *f,
             const struct acdc_params *params, struct acdc_pkt *p)
{
    enum acdc_algorithm algorithm = expected_algorithm(f, params);
    struct acdc_facts facts;
    struct acdc_law law;

    if (!acdc_params_enforce(params) || algorithm == ACDC_ALG_NONE) {
        return;
    }
    acdc_flow_facts(ctx, f, params, &facts);
    acdc_law_init(&law, &facts, algorithm);
    if (law.wnd < acdc_pkt_window(p) && acdc_pkt_make_writable(p)) {
        acdc_pkt_set_window(p, (uint16_t) law.wnd);
        ACDC_COUNT(ctx, WINDOW_REWRITTEN, 1);
    }
}

/* Why a SYN or SYN-ACK of a guest must go without the capability, or
 * ACDC_N_COUNTERS. */
static enum acdc_counter
why_no_offer(const struct acdc_ctx *ctx, const struct acdc_flow *f,
             const struct acdc_pkt *p)
{
    uint32_t before = acdc_pkt_ip_len(p), after = before + ACDC_OPT_CAP_LEN;

    /* Who gets a SYN may tell of a path that takes no more than that. */
    if (acdc_pkt_room(p) < ACDC_OPT_CAP_LEN
        || acdc_pkt_mtu_len(p) + ACDC_OPT_CAP_LEN > acdc_a32_read(&ctx->port->mtu)
        || (after > ACDC_PATH_MIN && !acdc_path_has_room(ctx, before, after))) {
        return ACDC_C_OFFER_NO_ROOM;
    }
    /* By time: copies cost a guest nothing. */
    if (acdc_flow_in(f)->n_syns > 1
        && acdc_flow_inactive_ms(f, ctx->now_ms) >= ACDC_SYN_PLAIN_MS) {
        return ACDC_C_OFFER_PLAIN;
    }
    if (acdc_pkt_is_syn(p) && acdc_recall_path(ctx, p) == ACDC_PATH_DROPS) {
        return ACDC_C_OFFER_SPARED;
    }
    return ACDC_N_COUNTERS;
}

/* Whether a rule says that the connection is no business of ours.  A tenant whose own
 * algorithm is none still tells other tenants what arrives. */
static bool
is_left_alone(const struct acdc_ctx *ctx, const struct acdc_flow *f,
              const struct acdc_params *params)
{
    return f->rule < ctx->policy->n_rules
           && params->algorithm == ACDC_ALG_NONE
           && params->fallback == ACDC_ALG_NONE;
}

/* Who connects says ACDC_CAP_TIMING where its parameters need that, and the other end
 * says it then, too. */
static uint8_t
capability_flags(const struct acdc_flow *f, const struct acdc_params *params,
                 const struct acdc_pkt *p)
{
    bool syn = acdc_pkt_is_syn(p);
    unsigned int flags = ACDC_CAP_NOT_ECT;

    if (syn || (f->flags & ACDC_F_RESUME)) {
        flags |= ACDC_CAP_RESUME;
    }
    if (syn || ((f->flags & ACDC_F_RESUME) && acdc_wscale_is_finer(f))) {
        flags |= ACDC_CAP_SCALES;
    }
    if (syn ? acdc_params_timing(params) : acdc_flow_timing(f) != NULL) {
        flags |= ACDC_CAP_TIMING;
    }
    return (uint8_t) flags;
}

/* Adds the capability and the ECT mark to a SYN or SYN-ACK of the guest.  True
 * if it did. */
static bool
offer(struct acdc_ctx *ctx, struct acdc_flow *f,
      const struct acdc_params *params, struct acdc_pkt *p)
{
    uint8_t ecn = acdc_pkt_ecn(p);
    uint8_t flags = capability_flags(f, params, p);
    enum acdc_counter why;

    /* The answer to a SYN that has it is for the other direction. */
    if (!acdc_params_enforce(params)
        || (acdc_pkt_is_syn(p) && is_left_alone(ctx, f, params))) {
        return false;
    }
    why = why_no_offer(ctx, f, p);
    if (why != ACDC_N_COUNTERS) {
        f->flags |= ACDC_F_UNOFFERED;
        acdc_count(ctx, why, 1);
        return false;
    }
    if (!acdc_pkt_make_writable(p)
        || !acdc_pkt_add_capability(p, ctx->exid, flags,
                                    !acdc_pkt_is_syn(p) && (flags & ACDC_CAP_SCALES)
                                    ? acdc_wscale_told(f) : 0)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return false;
    }
    f->flags |= ACDC_F_OFFERED;
    acdc_pkt_set_reserved(p, (uint8_t) (ecn << ACDC_RES_ECN_SHIFT));
    if (params->ecn_syn && params->algorithm != ACDC_ALG_NONE
        && ecn != ACDC_ECN_CE) {
        acdc_pkt_set_ecn(p, ACDC_ECN_ECT0);
        ACDC_COUNT(ctx, MARKED_ECT, 1);
    }
    return true;
}

/* Takes capability and mark off a SYN or SYN-ACK for the guest.  Returns
 * ACDC_F_PEER, ACDC_F_NOT_ECT and ACDC_F_RESUME as the other end showed. */
static uint32_t
accept_offer(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    uint32_t capable = 0;
    uint8_t codepoint;

    if (p->opt_flags & ACDC_O_CAPABILITY) {
        const uint8_t *body = acdc_pkt_tcp(p) + p->cap_ofs + ACDC_OPT_BODY_OFS;

        if (body[0] >= ACDC_OPT_VERSION) {
            capable = ACDC_F_PEER;
            capable |= body[1] & ACDC_CAP_NOT_ECT ? ACDC_F_NOT_ECT : 0u;
            capable |= body[1] & ACDC_CAP_RESUME ? ACDC_F_RESUME : 0u;
        }
    }
    if (!acdc_pkt_strip(p, ctx->exid)) {
        ACDC_COUNT(ctx, UNTOUCHED_MEMORY, 1);
        return 0;
    }
    codepoint = (acdc_pkt_reserved(p) & ACDC_RES_ECN_MASK)
                >> ACDC_RES_ECN_SHIFT;
    if (capable) {
        if (acdc_pkt_ecn(p) == ACDC_ECN_CE && codepoint != ACDC_ECN_CE) {
            ACDC_COUNT(ctx, CE_PACKETS, 1);
        }
        acdc_pkt_set_reserved(p, 0);
        if (codepoint != ACDC_ECN_CE) {
            acdc_pkt_set_ecn(p, codepoint);
        }
    } else if (acdc_pkt_reserved(p) && acdc_pkt_make_writable(p)) {
        acdc_pkt_set_reserved(p, 0);
    }
    return capable;
}

/* Puts a flow back to the start for another connection with the same
 * addresses and ports. */
static void
restart(struct acdc_ctx *ctx, struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    acdc_flow_uncount(ctx->tenant, f);
    f->flags = 0;
    in->n_syns = 0;
    f->mss = 0;
    f->dupacks = 0;
    f->bad_feedback = 0;
    in->prompt_acks = 0;
    in->has_more = in->asked = in->to_report = in->paused = in->scales
        = in->in_run = false;
    in->out_window = in->peer_window = 0;
    acdc_flow_set_tx_total(f, 0);
    in->fb_total = in->fb_ce = 0;
    f->rcv_nxt = 0;
    f->rx_total = f->rx_ce = f->rx_pending = 0;
    in->srtt_us8 = 0;
    f->policy_gen = 0;
    f->active = (uint16_t) ctx->now_ms;
    memset(&in->law, 0, sizeof in->law);
    acdc_flow_set_state(ctx, f,
                        ctx->dir == ACDC_EGRESS ? ACDC_FLOW_SYN_SENT
                                                : ACDC_FLOW_SYN_RECEIVED);
    in->irs = 0;
    ACDC_COUNT(ctx, FLOWS_CREATED, 1);
}

/* The guest's SYN or SYN-ACK is timed: its answer gives the first round-trip time
 * (RFC 6298 section 2.2).  Not if it was sent before, Karn's rule. */
static void
time_handshake(const struct acdc_ctx *ctx, struct acdc_flow *f)
{
    f->flags &= ~(uint32_t) (ACDC_F_RTT_PENDING | ACDC_F_RTT_NEXT);
    if (acdc_flow_in(f)->n_syns == 1) {
        f->flags |= ACDC_F_RTT_PENDING;
        f->rtt_us = acdc_now_us(ctx) & 0xffffff;
    } else if (f->flags & ACDC_F_LAW) {
        acdc_flow_time_next(f, 0);
    }
}

/* Whether a SYN is one that belongs to the live connection 'f', sent again. */
static bool
is_syn_again(const struct acdc_ctx *ctx, const struct acdc_flow *f,
             const struct acdc_pkt *p)
{
    if (ctx->dir == ACDC_INGRESS) {
        /* After a RST the same number may begin another one. */
        return f->state != ACDC_FLOW_CLOSED && f->state != ACDC_FLOW_RESET
               && acdc_flow_is_irs(f, p->seq);
    }
    return acdc_flow_in_handshake(f) && acdc_flow_is_iss(f, p->seq);
}

/* The flow that a SYN is of or begins, locked, or NULL.  May be dead. */
static struct acdc_flow *
lock_flow_of_syn(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    enum acdc_counter why = ACDC_N_COUNTERS;
    struct acdc_flow *f = acdc_flow_lookup(ctx, p);
    struct acdc_flow *first = f;

    if (first) {
        acdc_lock(&first->lock);
        if ((first->flags & ACDC_F_DEAD) || !acdc_flow_is_live(first)
            || is_syn_again(ctx, first, p)) {
            return first;
        }
        /* With the number that the connection began with it may have been sent
         * before the guest got the SYN-ACK, or begin another one.  The guest's SYN-ACK
         * may be sent again. */
        if (ctx->dir == ACDC_EGRESS && !acdc_flow_in_handshake(first)
            && !acdc_flow_is_iss(first, p->seq)) {
            acdc_flow_set_state(ctx, first, ACDC_FLOW_RESET);
        }
        acdc_unlock(&first->lock);
        f = acdc_flow_lookup_second(ctx, p, first);
    }
    if (!f) {
        if (ctx->dir == ACDC_INGRESS && !acdc_recall_is_guest(ctx, p)
            && acdc_count_read(&ctx->tenant->n_half_open)
               >= ctx->policy->max_half_open / 2) {
            /* A copy, as of a switch that floods: nobody will answer here. */
            ACDC_COUNT(ctx, UNTOUCHED_FOREIGN, 1);
            return NULL;
        }
        f = acdc_flow_create(ctx, p, first, &why);
        if (!f) {
            acdc_count(ctx, why, 1);
            return NULL;
        }
    }
    acdc_lock(&f->lock);
    return f;
}

/* Guest ports see each packet once, so a SYN of the guest that has options of
 * ours is the guest's forgery; they are gone before we get here. */
void
acdc_syn_egress(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct acdc_flow *f = lock_flow_of_syn(ctx, p);
    uint32_t end = p->seq + 1 + p->payload;
    const struct acdc_params *params;
    struct acdc_flow_in *in;
    uint32_t total;

    acdc_recall_address(ctx, p);
    if (!f) {
        return;
    }
    in = acdc_flow_in(f);
    if (f->flags & ACDC_F_DEAD) {
        acdc_unlock(&f->lock);
        return;
    }
    if (acdc_flow_is_live(f)
        && (f->state != ACDC_FLOW_SYN_SENT || f->snd_una != p->seq)) {
        /* While the guest's SYN-ACK waits for the peer's ACK: that the peer may not
         * get, and this it may. */
        note_options(f, p, true);
        offer(ctx, f, acdc_flow_params(ctx, f), p);
        acdc_unlock(&f->lock);
        return;
    }
    /* A SYN of the peer that the guest has not answered is a simultaneous
     * open (RFC 9293 section 3.5): the SYN-ACKs that follow settle it, whatever
     * else the guest sends meanwhile. */
    if (acdc_flow_in_handshake(f) && f->rcv_nxt) {
        if (f->state == ACDC_FLOW_RESET) {
            acdc_flow_set_state(ctx, f, ACDC_FLOW_SYN_RECEIVED);
        }
    } else if (f->state != ACDC_FLOW_SYN_SENT
               || (in->n_syns && f->snd_una != p->seq)) {
        /* The SYN-ACK may be of an earlier SYN, and not the first one of it. */
        uint32_t kept = f->flags >> ACDC_F_WSCALE_SHIFT << ACDC_F_WSCALE_SHIFT;

        kept = f->state == ACDC_FLOW_SYN_SENT ? kept | ACDC_F_UNOFFERED : 0;
        restart(ctx, f);
        f->flags |= kept;
    }
    acdc_flow_see(ctx, f);
    total = f->snd_una == p->seq ? acdc_flow_tx_total(f) : 0;
    /* Data of TCP Fast Open is not sent again with the SYN, but the SYN-ACK may
     * acknowledge it. */
    if (!in->n_syns || f->snd_una != p->seq || seq_after(end, f->snd_nxt)) {
        f->snd_nxt = end;
    }
    if (in->n_syns < ACDC_SYNS_MAX) {
        in->n_syns++;
    }
    time_handshake(ctx, f);
    f->snd_una = p->seq;
    acdc_flow_set_tx_total(f, total + p->payload);
    note_options(f, p, true);
    params = acdc_flow_params(ctx, f);
    offer(ctx, f, params, p);
    acdc_flow_plb_send_syn(ctx, f, params, p);
    acdc_unlock(&f->lock);
}

/* Of the peer's SYN or SYN-ACK that begins a connection. */
static void
note_peer_syn(struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint32_t end = p->seq + 1 + p->payload;
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (in->irs != p->seq || seq_after(end, f->rcv_nxt)) {
        /* Else it came before, maybe with more data. */
        in->irs = p->seq;
        f->rcv_nxt = end;
        f->rx_total = p->payload;
    }
    note_options(f, p, false);
    in->peer_window = acdc_pkt_window(p);
}

void
acdc_syn_ingress(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    const struct acdc_params *params;
    struct acdc_flow *f;

    /* What a handshake says holds for the whole connection, so it is not taken
     * from a packet that the guest will drop. */
    f = acdc_pkt_maybe_intact(p) ? lock_flow_of_syn(ctx, p) : NULL;
    if (!f) {
        accept_offer(ctx, p);
        return;
    }
    /* The guest's RST for an earlier copy may not have arrived: what that showed stays. */
    if (!(f->flags & ACDC_F_DEAD)
        && (f->state == ACDC_FLOW_CLOSED || acdc_flow_is_lost(f)
            || (f->state == ACDC_FLOW_RESET && !acdc_flow_is_irs(f, p->seq)))
        && !acdc_flow_is_live(f)) {
        restart(ctx, f);
    }
    if (f->flags & (ACDC_F_DEAD | ACDC_F_LAW)) {
        /* Sent again, the guest's answer was lost: what that settled stays.
         * Any other SYN is of neither flow, and nobody can reset their state
         * with a forged one. */
        uint32_t capable = accept_offer(ctx, p);

        if (!(f->flags & ACDC_F_DEAD) && acdc_flow_is_irs(f, p->seq)) {
            acdc_flow_see(ctx, f);
            f->flags |= capable & ~(uint32_t) ACDC_F_RESUME;
            repeat_options(f, p);
            limit_window(ctx, f, acdc_flow_params(ctx, f), p);
        }
        acdc_unlock(&f->lock);
        return;
    }
    acdc_flow_see(ctx, f);
    note_peer_syn(f, p);
    params = acdc_flow_params(ctx, f);
    if (acdc_timing_is_offered(p)) {
        acdc_timing_begin(f);
    }
    if (acdc_pkt_capability_flags(p) & ACDC_CAP_SCALES) {
        acdc_flow_in(f)->scales = true;
    }
    /* Also if this one, sent again, comes without the capability. */
    f->flags |= accept_offer(ctx, p);
    if ((f->flags & ACDC_F_PEER) && acdc_recall_path(ctx, p) != ACDC_PATH_DROPS) {
        acdc_recall_note_path(ctx, p, true);
    }
    adapt_options(ctx, f, params, p);
    limit_window(ctx, f, params, p);
    acdc_flow_in(f)->out_window = acdc_pkt_window(p);
    acdc_unlock(&f->lock);
}

/* The handshake is answered: both ends' capability is known.  Where the SYNs
 * crossed, once for each SYN-ACK. */
static void
settle(struct acdc_ctx *ctx, struct acdc_flow *f,
       const struct acdc_params *params, struct acdc_pkt *synack, bool capable)
{
    bool first = !(f->flags & ACDC_F_LAW);

    if ((f->flags & ACDC_F_ECN_SYN)
        && (synack->tcp_flags & (ACDC_TCP_ECE | ACDC_TCP_CWR))
           == ACDC_TCP_ECE) {
        f->flags |= ACDC_F_GUEST_ECN;
    }
    acdc_flow_set_counted(ctx, f, capable);
    if (!capable && acdc_params_enforce(params) && params->algorithm != ACDC_ALG_NONE
        && acdc_recall_path(ctx, synack) == ACDC_PATH_PASSES) {
        /* The guest may have made the other end take it for another connection. */
        f->flags |= ACDC_F_UNOFFERED;
    }
    if (first) {
        settle_mss(f, synack);
        ACDC_COUNT(ctx, FLOWS_CAPABLE, capable);
        ACDC_COUNT(ctx, FLOWS_FALLBACK, !capable);
        if (!capable) {
            ACDC_TRACE_FLOW(fallback, ctx, f, ACDC_FALLBACK_HANDSHAKE, 0);
        }
    }
    if (ctx->dir == ACDC_INGRESS) {
        adapt_options(ctx, f, params, synack);
    }
    acdc_flow_start_law(ctx, f, params);
}

/* The guest's SYN-ACK goes.  True if it has the capability. */
static bool
answer_offer(struct acdc_ctx *ctx, struct acdc_flow *f, const struct acdc_params *params,
             struct acdc_pkt *p)
{
    bool offered = (f->flags & ACDC_F_PEER) && offer(ctx, f, params, p);

    if ((f->flags & ACDC_F_CAPABLE) && !offered) {
        /* If an earlier one arrives, the other end will tell. */
        f->flags &= ~(uint32_t) ACDC_F_RESUME;
        acdc_flow_set_capable(ctx, f, params, false);
    }
    return offered;
}

/* The SYN-ACK of a guest that listens.  False: not of this connection. */
bool
acdc_synack_egress(struct acdc_ctx *ctx, struct acdc_pkt *p,
                   struct acdc_flow *f, const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t end = p->seq + 1 + p->payload;
    uint8_t wscale = acdc_flow_guest_wscale(f);
    bool first, crossed, offered;

    if (acdc_flow_is_synack_again(f, p, true)) {
        /* Whoever sent SYN may take it for that of a simultaneous open. */
        answer_offer(ctx, f, params, p);
        return true;
    }
    /* A server may take data of a TCP Fast Open SYN (RFC 7413), or some of it. */
    if (!acdc_flow_in_handshake(f) || p->ack - (in->irs + 1) > f->rx_total) {
        return false;
    }
    if (f->state == ACDC_FLOW_RESET) {
        acdc_flow_set_state(ctx, f, ACDC_FLOW_SYN_RECEIVED);
    }
    first = !(f->flags & ACDC_F_LAW) || f->snd_una != p->seq;
    crossed = first && in->n_syns;
    if (first) {
        f->active = (uint16_t) ctx->now_ms;
    }
    /* Where the SYNs crossed, this may have had data that is not sent again. */
    if (!in->n_syns || f->snd_una != p->seq || seq_after(end, f->snd_nxt)) {
        f->snd_una = p->seq;
        f->snd_nxt = end;
        acdc_flow_set_tx_total(f, p->payload);
    }
    if (in->n_syns < ACDC_SYNS_MAX) {
        in->n_syns++;
    }
    note_options(f, p, true);
    /* Of two that differ nobody knows which one the peer got. */
    if (first ? crossed || !acdc_wscale_can_tell(f)
              : wscale != acdc_flow_guest_wscale(f)) {
        f->flags &= ~(uint32_t) ACDC_F_RESUME;
    }
    offered = answer_offer(ctx, f, params, p);
    if (first) {
        settle(ctx, f, params, p, offered);
        /* What the peer's SYN offered, with the guest's own numbers. */
        f->peer_edge = p->seq + 1 + in->peer_window;
        in->right_edge = p->seq + 1 + in->out_window;
        f->flags |= ACDC_F_EDGE;
        f->rx_pending = 0;
    }
    time_handshake(ctx, f);
    return true;
}

/* What a SYN-ACK says of the path: it answers the capability, or it answers nothing
 * before a SYN without. */
static void
note_path(const struct acdc_ctx *ctx, const struct acdc_flow *f,
          const struct acdc_pkt *p)
{
    if (!(f->flags & ACDC_F_OFFERED)) {
        return;
    }
    if (f->flags & ACDC_F_PEER) {
        acdc_recall_note_path(ctx, p, true);
    } else if ((f->flags & ACDC_F_UNOFFERED) && acdc_flow_in(f)->n_syns > 1) {
        acdc_recall_note_path(ctx, p, false);
    }
}

/* As accept_offer(), of the peer's SYN-ACK, which may say what the guests are to be told
 * of window scales. */
static uint32_t
accept_answer(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    bool scales = acdc_pkt_capability_flags(p) & ACDC_CAP_SCALES;
    uint8_t told = scales ? acdc_pkt_tcp(p)[p->cap_ofs + ACDC_OPT_BODY_OFS + 2] : 0;
    uint32_t shown = accept_offer(ctx, p);

    if (scales && (shown & ACDC_F_RESUME) && !acdc_wscale_take(f, told >> 4, told & 15)) {
        shown &= ~(uint32_t) ACDC_F_RESUME;
    }
    return shown;
}

/* The SYN-ACK to a guest that connects.  False: not of this connection. */
bool
acdc_synack_ingress(struct acdc_ctx *ctx, struct acdc_pkt *p,
                    struct acdc_flow *f, const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    uint32_t total;

    if (!acdc_pkt_maybe_intact(p)) {
        accept_offer(ctx, p);
        return false;
    }
    if (acdc_flow_is_synack_again(f, p, false)) {
        /* The guest's ACK was lost. */
        accept_offer(ctx, p);
        repeat_options(f, p);
        return true;
    }
    if (!acdc_flow_in_handshake(f) || !acdc_flow_answers_syn(f, p)) {
        accept_offer(ctx, p);
        return false;
    }
    f->rx_pending = 0;
    note_peer_syn(f, p);
    f->flags &= ~(uint32_t) (ACDC_F_PEER | ACDC_F_NOT_ECT | ACDC_F_RESUME);
    if (acdc_timing_is_offered(p) && (f->flags & ACDC_F_OFFERED) && acdc_params_timing(params)) {
        acdc_timing_begin(f);
    }
    f->flags |= accept_answer(ctx, f, p);
    /* What data of the SYN it does not acknowledge was not taken: the guest sends
     * that with the first of its data (RFC 7413 section 4.2.2).  But it was sent. */
    acdc_flow_take_first_rtt(ctx, f, params);
    total = acdc_flow_tx_total(f);
    if (seq_after(p->ack, f->snd_nxt)) {
        total += p->ack - f->snd_nxt;
    }
    f->snd_una = f->snd_nxt = p->ack;
    acdc_flow_set_tx_total(f, total);
    note_path(ctx, f, p);
    acdc_flow_set_state(ctx, f, ACDC_FLOW_ESTABLISHED);
    /* The other end answers with the capability if a SYN with it arrived,
     * whatever was sent after that. */
    settle(ctx, f, params, p, acdc_flow_both_showed(f));
    in->n_syns = acdc_flow_equals(ctx, f, p) ? 0 : ACDC_OTHER_VLANS;
    f->peer_edge = p->ack + acdc_pkt_window(p);
    in->peer_window = (uint16_t) (acdc_pkt_window(p) >> f->peer_wscale);
    return true;
}
