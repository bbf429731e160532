// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Window scales (RFC 7323).  A scale that is too coarse for the window of one segment is
 * made finer in what the guest is told.  Where that is so both ends' vSwitches know of it,
 * so that each can say it to the other if that has forgotten the connection
 * (acdc-resume.c). */

#include "acdc-private.h"

/* A guest must be able to express a window of one segment. */
static uint8_t
fine_enough(uint8_t wscale, uint16_t mss)
{
    while (wscale && 1u << wscale > mss) {
        wscale--;
    }
    return wscale;
}

/* What the other guest was told of the scale of this one. */
static uint8_t
told_far(const struct acdc_flow *f)
{
    const struct acdc_flow_more *more = acdc_flow_more_if_any(f);
    uint8_t wscale = acdc_flow_guest_wscale(f);

    return more ? (uint8_t) (wscale - more->timing.far_finer) : wscale;
}

void
acdc_wscale_settle(struct acdc_flow *f)
{
    if (!(f->flags >> ACDC_F_WSCALE_SHIFT) || !(f->flags & ACDC_F_WSCALE_PEER)) {
        f->peer_wscale = f->out_wscale = 0;
        f->flags &= (1u << ACDC_F_WSCALE_SHIFT) - 1;
    }
    f->flags &= ~(uint32_t) ACDC_F_WSCALE_PEER;
}

void
acdc_wscale_refine(struct acdc_ctx *ctx, struct acdc_flow *f,
                   const struct acdc_params *params, struct acdc_pkt *p)
{
    bool dictated = (p->tcp_flags & ACDC_TCP_ACK) && (f->flags & ACDC_F_RESUME);
    uint8_t finer = dictated ? f->out_wscale
                             : fine_enough(f->peer_wscale, f->mss);

    if (!(p->opt_flags & ACDC_O_WSCALE) || finer == f->peer_wscale
        || (!dictated && !acdc_params_enforce(params))
        || !acdc_pkt_make_writable(p)) {
        return;
    }
    acdc_pkt_set_wscale(p, finer);
    f->out_wscale = finer & 15;
    ACDC_COUNT(ctx, RESCALED, 1);
}

void
acdc_wscale_repeat(const struct acdc_flow *f, struct acdc_pkt *p)
{
    if (f->out_wscale != f->peer_wscale && (p->opt_flags & ACDC_O_WSCALE)
        && acdc_pkt_make_writable(p)) {
        acdc_pkt_set_wscale(p, f->out_wscale);
    }
}

bool
acdc_wscale_can_tell(struct acdc_flow *f)
{
    uint8_t wscale = acdc_flow_guest_wscale(f);
    uint8_t told = fine_enough(wscale, f->mss);

    if (!acdc_flow_scales(f)
        || (told == wscale && f->out_wscale == f->peer_wscale)) {
        return true;
    }
    if (!acdc_flow_in(f)->scales) {
        return false;
    }
    if (told != wscale) {
        acdc_flow_more(f)->timing.far_finer = (wscale - told) & 15u;
    }
    return true;
}

uint8_t
acdc_wscale_told(const struct acdc_flow *f)
{
    return (uint8_t) (f->out_wscale << 4 | told_far(f));
}

bool
acdc_wscale_is_finer(const struct acdc_flow *f)
{
    return acdc_flow_scales(f) && (f->out_wscale != f->peer_wscale
                                   || told_far(f) != acdc_flow_guest_wscale(f));
}

bool
acdc_wscale_take(struct acdc_flow *f, uint8_t far, uint8_t near)
{
    uint8_t wscale = acdc_flow_guest_wscale(f);

    if (near > f->peer_wscale || far > wscale) {
        return false;
    }
    f->out_wscale = near & 15;
    if (far != wscale) {
        acdc_flow_more(f)->timing.far_finer = (wscale - far) & 15u;
    }
    return true;
}
