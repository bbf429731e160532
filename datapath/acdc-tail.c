// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-parse.h"
#include "acdc-table.h"
#include "acdc-tail.h"
#include "acdc-timing.h"

enum {
    ACDC_TAIL_MOST_US = 1000000,        /* A guest's own timer is not later. */
    ACDC_TAIL_EARLY_US = 8,     /* So much before its time a host may ask. */
    ACDC_TAIL_PROMPT = 17,      /* Linux acknowledges 16 at once, then delays. */
};

/* For a single segment, which the other guest's delayed ACK may be for (RFC 8985 section
 * 7.2).  That is not measured: a probe would end it.  But each probe that was of no use
 * makes the next one later, past the 40 ms of Linux first, then past the 200 ms of
 * others, and the third is the last. */
static const uint32_t delays_us[4] = { 0, 50000, 250000, ACDC_TAIL_MOST_US };

static bool
is_alone(const struct acdc_flow *f)
{
    return f->snd_nxt - f->snd_una <= f->mss;
}

/* How long to wait, or 0 for ever. */
static uint32_t
wait_us(const struct acdc_flow *f, const struct acdc_flow_more *more,
        const struct acdc_params *params)
{
    uint32_t rtts = acdc_flow_in(f)->srtt_us8 / 4;      /* Two. */
    uint32_t us = params->tail_probe > rtts ? params->tail_probe : rtts;

    if (is_alone(f)) {
        us += delays_us[more->tail_delays];
    }
    return rtts && us <= ACDC_TAIL_MOST_US ? us : 0;
}

/* Of payload that is segmented later, the last segment; 0 if that cannot be. */
static uint16_t
last_segment(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint32_t segment = acdc_flow_segment(f, p);

    if (p->payload <= segment) {
        return (uint16_t) p->payload;
    }
    return p->csum_partial ? (uint16_t) ((p->payload - 1) % segment + 1) : 0;
}

/* So much later than the first piece of 'p' the last one leaves, if there are several. */
static uint32_t
spread_us(const struct acdc_pkt *p)
{
    if (!p->piece) {
        return 0;
    }
    return (uint32_t) acdc_div64((uint64_t) ((p->payload - 1) / p->piece)
                                 * p->piece_ns, 1000);
}

/* Whether the host may keep one more. */
static bool
has_room(struct acdc_ctx *ctx)
{
    if (acdc_count_read(&ctx->port->n_tails) >= ACDC_TAILS_PORT
        || acdc_count_read(&ctx->acdc->n_tails) >= ACDC_TAILS_MAX) {
        ACDC_COUNT(ctx, TAIL_NO_ROOM, 1);
        return false;
    }
    acdc_count_add(&ctx->port->n_tails, 1);
    acdc_count_add(&ctx->acdc->n_tails, 1);
    return true;
}

/* What was kept before the port was bound anew is not in its count. */
static void
give_back(struct acdc *a, struct acdc_port *port)
{
    if (acdc_count_take(&port->n_tails)) {
        acdc_count_add(&a->n_tails, -1);
    }
}

void
acdc_tail_unbind(struct acdc_port *port)
{
    acdc_count_add(&port->acdc->n_tails, -(int32_t) acdc_count_read(&port->n_tails));
}

void
acdc_tail_refuse(struct acdc_pkt *pkts, unsigned int n)
{
    for (; n; n--) {
        (pkts++)->verdict = ACDC_DROP;
    }
}

void
acdc_tail_lost(struct acdc_port *port)
{
    const struct acdc_tenant *tenant = port->owner;

    acdc_a64_add(&tenant->slots[acdc_slot()].counters[ACDC_C_TAIL_NO_ROOM], 1);
    give_back(port->acdc, port);
}

/* Whether the flow's tail is to be probed, and now. */
static bool
is_probed(const struct acdc_flow *f, const struct acdc_params *params)
{
    const uint32_t flags = ACDC_F_LAW | ACDC_F_CAPABLE | ACDC_F_EDGE;

    return params->tail_probe && acdc_params_enforce(params)
           && (f->flags & flags) == flags
           && (f->state == ACDC_FLOW_ESTABLISHED
               || f->state == ACDC_FLOW_CLOSING)
           && acdc_flow_in(f)->peer_window;
}

/* What is kept needs no probe.  'last': all that was sent.  If it was the last, and is
 * acknowledged in its time, the other guest seems not to delay ACKs. */
static void
note_done(const struct acdc_flow *f, struct acdc_flow_more *more, uint32_t last)
{
    if (more->tail_kept && more->tail_end == last && f->snd_una == last
        && !more->tail_late && !more->tail_delays
        && more->tail_prompt < ACDC_TAIL_PROMPT) {
        more->tail_prompt++;
    }
    more->tail_kept = false;
}

void
acdc_tail_keep(struct acdc_ctx *ctx, struct acdc_flow *f,
               const struct acdc_params *params, struct acdc_pkt *p,
               uint32_t last)
{
    struct acdc_flow_more *more = acdc_flow_more(f);
    uint32_t end = acdc_pkt_end(p);
    uint64_t leaves = p->verdict == ACDC_HOLD ? p->release : ctx->now;
    uint32_t wait = wait_us(f, more, params), units;

    /* Not what the peer will not take, nor a probe of its window. */
    if (!wait || !is_probed(f, params) || !seq_after(end, f->snd_una)
        || seq_after(end, f->snd_nxt) || seq_after(end, f->peer_edge + 1)) {
        return;
    }
    p->keep_len = last_segment(f, p);
    if (!p->keep_len) {
        return;
    }
    if (!has_room(ctx)) {
        p->keep_len = 0;
        return;
    }
    units = (wait + spread_us(p) + ACDC_KEEP_US - 1) / ACDC_KEEP_US;
    units = units < 0xffff ? units : 0xffff;
    p->keep_time = (uint16_t) units;
    note_done(f, more, last);
    more->tail_end = end;
    more->tail_una = f->snd_una;
    more->tail_due = ((uint32_t) acdc_div64(leaves, 1000) + units * ACDC_KEEP_US)
                     & 0xffffff;
    more->tail_kept = true;
    more->tail_late = false;
}

uint32_t
acdc_tail_skip(const struct acdc_pkt *p)
{
    return p->payload - p->keep_len;
}

void
acdc_tail_cut(const struct acdc_pkt *p, uint8_t *data)
{
    /* What is timed is the packet itself. */
    acdc_pkt_edit_tcp(p, data + p->l4_ofs, ACDC_RES_FACK, 0, 0, 0);
    acdc_pkt_cut(p, data, acdc_tail_skip(p), p->keep_len);
}

/* It goes.  The other end will count it, of what the guest sent the timing says
 * nothing any more (Karn's rule), and what it is an answer to is in doubt until what is
 * in flight now and one segment more is delivered (RFC 8985 section 7.4). */
static void
probe(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_flow_more *more,
      const struct acdc_pkt *p)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    ACDC_COUNT(ctx, TAIL_PROBES, 1);
    more->tail_kept = false;
    more->tail_due = acdc_now_us(ctx) & 0xffffff;
    more->tail_delays |= more->tail_late;
    in->tx_beyond += p->payload;
    f->flags &= ~(uint32_t) ACDC_F_RTT_PENDING;
    if (!acdc_doubt_is_timer(f) && !(f->flags & ACDC_F_FIN_GUEST)) {
        acdc_doubt_end(f);
        /* What is lost is not known to the byte.  So little costs no window. */
        acdc_doubt_begin(f, p->payload < ACDC_LOST_UNIT ? ACDC_DOUBT_NONE
                                                        : ACDC_DOUBT_PROBE);
        more->tail_probed = true;
        more->tail_alone = is_alone(f);
    }
    acdc_doubt_note_again(f, p->payload);
    if (!acdc_law_is_held(&in->law)) {
        acdc_flow_time_next(f, f->snd_nxt - f->snd_una);
        more->doubt_left = 1;
    }
}

/* Whether ACKs came since it was kept, or a single segment may wait for a delayed one,
 * as nobody knows yet: how much longer to wait, or 0. */
static uint32_t
put_off_us(const struct acdc_flow *f, struct acdc_flow_more *more,
           const struct acdc_params *params)
{
    if (f->snd_una != more->tail_una) {
        more->tail_una = f->snd_una;
        return wait_us(f, more, params);
    }
    if (is_alone(f) && !more->tail_delays && !more->tail_late
        && more->tail_prompt < ACDC_TAIL_PROMPT) {
        more->tail_late = true;
        more->tail_prompt = 0;
        return delays_us[1];
    }
    return 0;
}

/* What becomes of a kept packet of 'f', whose lock is held. */
static void
decide(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_pkt *p)
{
    struct acdc_flow_more *more = acdc_flow_more_if_any(f);
    const struct acdc_params *params;
    uint32_t wait;

    if (!more || !more->tail_kept || more->tail_end != acdc_pkt_end(p)
        || acdc_timing_elapsed(more->tail_due, acdc_now_us(ctx)) > ACDC_TAIL_EARLY_US) {
        return;                 /* There is a newer one. */
    }
    /* With another policy it would have another mark. */
    params = acdc_policy_params(ctx->policy, f->rule);
    if (!acdc_flow_has_policy(f, ctx->policy) || !is_probed(f, params)
        || !wait_us(f, more, params)
        || !seq_after(more->tail_end, f->snd_una)
        || seq_after(more->tail_end, f->snd_nxt)) {
        note_done(f, more, f->snd_nxt);
        return;
    }
    wait = put_off_us(f, more, params);
    if (wait) {
        more->tail_due = (acdc_now_us(ctx) + wait) & 0xffffff;
        p->release = ctx->now + (uint64_t) wait * 1000;
        p->verdict = ACDC_HOLD;
        return;
    }
    probe(ctx, f, more, p);
    p->verdict = ACDC_PASS;
}

void
acdc_tail(struct acdc_ctx *ctx, struct acdc_pkt *pkts, unsigned int n)
{
    struct acdc_pkt *p;

    ctx->dir = ACDC_EGRESS;
    for (p = pkts; p < pkts + n; p++) {
        struct acdc_flow *f = NULL;

        p->verdict = ACDC_DROP;
        if (acdc_pkt_parse(p, ctx->exid)) {
            acdc_table_set_key(ctx, p, ACDC_EGRESS);
            f = acdc_flow_find(ctx, p);
        }
        if (f) {
            acdc_lock(&f->lock);
            if (!(f->flags & ACDC_F_DEAD)) {
                decide(ctx, f, p);
            }
            acdc_unlock(&f->lock);
        }
        if (p->verdict != ACDC_HOLD) {
            give_back(ctx->acdc, ctx->port);
        }
    }
}
