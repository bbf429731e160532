// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* What seems to be lost, and maybe is not.  Duplicate ACKs, data that the guest sends
 * again, and a tail that was probed look the same where the network reorders, a timer
 * is early, or an ACK is late.  The window is cut all the same, but for a probe, and for
 * a timer until the next ACK.  Then nothing was lost
 *
 * - if the hole fills and nothing was sent again;
 * - if all that was sent again came twice, by D-SACK (RFC 2883; RFC 3708, and Linux's
 *   tcp_try_undo_dsack());
 * - if nothing is under way and the other end has counted all, what was sent again too.
 *
 * What was changed is taken back (RFC 4015), see acdc_law_undo().  If nothing of that is
 * heard until two windows of data after what was sent again last were delivered, it was
 * lost. */

#include "acdc-timing.h"

struct acdc_flow_more *
acdc_doubt_begin(struct acdc_flow *f, enum acdc_doubt kind)
{
    struct acdc_flow_more *more = acdc_flow_more(f);

    if (!(f->flags & ACDC_F_DOUBT)) {
        f->flags |= ACDC_F_DOUBT;
        more->doubt_waits = ACDC_DOUBT_NONE;
        more->tail_probed = more->tail_alone = false;
        more->again = 0;
        more->undo.wnd = 0;
    }
    if (kind > more->doubt_waits) {
        more->doubt_waits = kind & 3u;
    }
    more->doubt_left = 2;
    return more;
}

void
acdc_doubt_end(struct acdc_flow *f)
{
    f->flags &= ~(uint32_t) ACDC_F_DOUBT;
}

/* Nothing was lost.  'filled': it was only late. */
static void
acquit(struct acdc_ctx *ctx, struct acdc_flow *f, struct acdc_flow_more *more,
       const struct acdc_facts *facts, bool filled)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (more->tail_probed) {
        ACDC_COUNT(ctx, TAIL_SPURIOUS, 1);
        more->tail_delays += more->tail_alone && more->tail_delays < 3;
        more->tail_prompt = 0;
    }
    if (acdc_law_undo(&in->law, facts)) {
        in->reorders |= filled;
    }
    acdc_doubt_end(f);
}

/* The probe has replaced something: a loss all the same (RFC 8985 section 7.4). */
static void
convict(struct acdc_ctx *ctx, struct acdc_flow *f, const struct acdc_facts *facts)
{
    acdc_flow_in(f)->reorders = false;
    acdc_flow_loss(ctx, f, facts);
}

void
acdc_doubt_settle(struct acdc_ctx *ctx, struct acdc_flow *f,
                  const struct acdc_facts *facts, const struct acdc_pkt *p,
                  const struct acdc_told *told)
{
    struct acdc_flow_more *more = acdc_flow_more(f);
    uint32_t again = more->again;
    /* Where the network sends twice that says nothing. */
    uint32_t twice = f->flags & ACDC_F_DUPLICATES ? 0 : acdc_pkt_came_twice(p);
    bool filled = told->filled && !again;
    /* Of less than a unit of acdc_flow_in.lost the counts say nothing. */
    bool arrived = told->arrived
                   && (!more->tail_probed || again >= ACDC_LOST_UNIT);

    more->again = (again > twice ? again - twice : 0) & 0x7fffff;
    if (arrived || filled || (again && !more->again)) {
        acquit(ctx, f, more, facts, filled);
        return;
    }
    if (more->doubt_waits == ACDC_DOUBT_TIMER && (told->acked || told->loss)) {
        acdc_flow_timeout(ctx, f, facts);
    } else if (more->doubt_waits == ACDC_DOUBT_PROBE && told->acked && told->all
               && acdc_timing_elapsed(acdc_now_us(ctx), more->tail_due)
                  >= facts->srtt_us) {
        /* The probe, too, would have been counted by now. */
        convict(ctx, f, facts);
        more->doubt_left = 1;
    }
    if (told->pass && more->doubt_waits != ACDC_DOUBT_TIMER && !--more->doubt_left) {
        if (more->doubt_waits == ACDC_DOUBT_PROBE) {
            convict(ctx, f, facts);
        }
        if (more->tail_probed && more->tail_alone && more->tail_delays) {
            more->tail_delays--;
        }
        acdc_doubt_end(f);
    }
}
