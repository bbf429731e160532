// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Packets to a guest: marks counted and hidden, feedback taken out and given
 * to the law, the window rewritten.  A guest never sees anything of ours.
 *
 * What most packets are goes the usual way, here; all else goes step by step,
 * acdc-ingress-steps.c. */

#include "acdc-group.h"
#include "acdc-ingress.h"
#include "acdc-table.h"

/* Where acdc_law_usual_ack() will not do.  Twin: tell_law(). */
static ACDC_NOINLINE void
give_to_law(struct acdc_ctx *ctx, struct acdc_flow *f,
            const struct acdc_params *params, uint32_t acked, uint32_t ce,
            uint32_t total, uint32_t rtt_us)
{
    struct acdc_facts facts;

    acdc_flow_facts(ctx, f, params, &facts);
    facts.acked = facts.delivered = acked;
    facts.ce = ce;
    facts.total = total;
    facts.rtt_us = rtt_us;
    law_ack(ctx, f, &facts);
}

/* Header prediction (Jacobson, "4BSD TCP header prediction", 1990): what most
 * packets are, ACKs with feedback for new data and data in order, of a flow in
 * the middle of its life.  Has the effect that acdc_ingress_stepwise()
 * would have, which asks for each step whether it is due: its functions are named
 * here as the twins of what is done, and tests/unit/test-prediction.c holds one
 * against the other. */

/* Whether the flow is one whose packets may go the usual way. */
static ACDC_ALWAYS_INLINE bool
is_usual(const struct acdc_flow *f)
{
    const uint32_t flags = ACDC_F_PLAIN | ACDC_F_OFFERED | ACDC_F_PEER
                           | ACDC_F_CAPABLE | ACDC_F_EDGE | ACDC_F_LAW;

    return (f->flags & (flags | ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER
                        | ACDC_F_DOUBT | ACDC_F_BEHIND | ACDC_F_TODO)) == flags
           && f->state == ACDC_FLOW_ESTABLISHED && !f->bad_feedback
           && !f->dupacks;
}

/* The window field for the guest.  Twin: enforce(). */
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
    uint32_t ce, total, new_ce, new_total, window_of_data, rtt_us = 0;
    uint16_t window;
    uint8_t ecn;

    /* Twins: is_plausible(), and process_ack() for what is no duplicate. */
    if ((p->opt_flags & ~(unsigned int) ACDC_O_TIMESTAMP) != ACDC_O_FEEDBACK
        || (acdc_pkt_reserved(p) & ACDC_RES_FACK)
        || acked - 1 >= flight || flight >= ACDC_WINDOW_MAX
        || !seq_plausible(p->seq, f->rcv_nxt)) {
        return false;
    }
    /* Twin: read_feedback(). */
    acdc_pkt_get_feedback(p, &ce, &total);
    new_total = total - in->fb_total;
    if (new_total >> 31 || seq_after(total, acdc_flow_tx_total(f))) {
        return false;
    }
    new_ce = ce - in->fb_ce;
    if (new_ce > new_total || !acdc_pkt_make_writable(p)) {
        return false;
    }

    ACDC_COUNT(ctx, PACK_RECEIVED, 1);
    in->fb_total = total;
    in->fb_ce = ce;
    in->silent = 0;
    /* Twins: acdc_flow_hear(), take_ack(), bytes_delivered(). */
    f->flags &= ~(uint32_t) ACDC_F_UNHEARD;
    f->snd_una = ack;
    f->active = (uint16_t) ctx->now_ms;
    window_of_data = acdc_flow_allowed(f, flight - acked);
    if (acdc_unlikely(acdc_law_deliver(&in->law, acked))) {
        rtt_us = acdc_flow_sample_rtt(ctx, f, params, window_of_data);
    }
    /* Twin: tell_law(). */
    if (ack == f->snd_nxt) {
        note_lost(f, in);
    }
    if (!acdc_law_usual_ack(&in->law, params, f->mss, acked, flight - acked,
                            window_of_data, new_ce, new_total)) {
        give_to_law(ctx, f, params, acked, new_ce, new_total, rtt_us);
    }
    window = usual_window(ctx, f, in, p);
    /* Twin: undress(). */
    ecn = acdc_pkt_ecn(p);
    if (ecn == ACDC_ECN_CE) {
        ACDC_COUNT(ctx, CE_PACKETS, 1);
    }
    ecn = ecn_for_guest(ctx, f, p, ecn);
    if (acdc_unlikely(!acdc_pkt_undress_ack(p, ecn, window))) {
        acdc_pkt_undress_any(p, ctx->exid, ecn, window);
    }
    return true;
}

/* usual_ack() for data, where the guest has nothing in flight.  Twins: acdc_flow_hear(),
 * undress(), note_data(). */
static ACDC_ALWAYS_INLINE bool
usual_data(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_flow_in *in,
           struct acdc_pkt *p)
{
    uint16_t window;
    uint8_t ecn;

    if ((p->opt_flags & ~(unsigned int) ACDC_O_TIMESTAMP)
        || p->seq != f->rcv_nxt || p->ack != f->snd_una
        || f->snd_nxt != f->snd_una || !acdc_pkt_make_writable(p)) {
        return false;
    }
    ecn = acdc_pkt_ecn(p);
    count_received(ctx, f, p, ecn == ACDC_ECN_CE);
    ecn = ecn_for_guest(ctx, f, p, ecn);
    f->flags &= ~(uint32_t) ACDC_F_UNHEARD;
    f->rcv_nxt += p->payload;
    window = usual_window(ctx, f, in, p);
    acdc_pkt_undress(p, ecn, window);
    return true;
}

/* No flow: nothing of ours may reach the guest all the same. */
static ACDC_NOINLINE void
ingress_untracked(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    ACDC_COUNT(ctx, UNTOUCHED_MIDSTREAM, 1);
    if (acdc_pkt_is_fack(p)) {
        p->verdict = ACDC_DROP;
        return;
    }
    acdc_resume_hide(ctx, p, false);
}

/* False, with nothing done but counting, if 'p' may be of a second flow. */
static ACDC_ALWAYS_INLINE bool
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
        if (acdc_ingress_is_doubtful(f, p)) {
            return false;
        }
        acdc_ingress_stepwise(ctx, f, params, p);
    }
    return true;
}

/* A packet of which that was false, with the lock released. */
static ACDC_NOINLINE void
ingress_doubtful(struct acdc_ctx *ctx, struct acdc_flow *f,
                 struct acdc_pkt *p)
{
    if (!acdc_ingress_second(ctx, f, p)) {
        acdc_lock(&f->lock);
        if (f->flags & ACDC_F_DEAD) {
            ingress_untracked(ctx, p);
        } else {
            const struct acdc_params *params = acdc_flow_params(ctx, f);

            if (!acdc_flow_is_lost(f)
                || acdc_resume_ingress(ctx, f, params, p)) {
                acdc_ingress_stepwise(ctx, f, params, p);
            }
        }
        acdc_unlock(&f->lock);
    }
}

static inline void
ingress(struct acdc_ctx *ctx, struct acdc_pkt *p)
{
    struct acdc_flow *f;
    bool mine;

    if (acdc_pkt_is_syn(p)) {
        acdc_syn_ingress(ctx, p);
        return;
    }
    f = acdc_flow_lock(ctx, p);
    if (!f) {
        if (!acdc_resume_begin(ctx, p)) {
            ingress_untracked(ctx, p);
        }
        return;
    }
    mine = ingress_locked(ctx, f, p);
    acdc_flow_unlock(ctx, f);
    if (acdc_unlikely(!mine)) {
        ingress_doubtful(ctx, f, p);
    }
}

/* See acdc_table_run(). */
static ACDC_RUN void
ingress_run(struct acdc_ctx *ctx, struct acdc_pkt *p, struct acdc_pkt *end)
{
    for (; p < end; p++) {
        acdc_table_find_ahead(ctx, p, end, ACDC_INGRESS);
        if (p->ip_version) {
            ingress(ctx, p);
        }
    }
}

ACDC_DIRECTION void
acdc_ingress(struct acdc_ctx *ctx, struct acdc_pkt *pkts, unsigned int n)
{
    acdc_table_run(ctx, pkts, n, ACDC_INGRESS, ingress_run);
}
