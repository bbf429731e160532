/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* On-Ramp as a shared library for Python (test_onramp.py): one flow, of which reports say
 * delays, and data that the guest sends. */

#include <stdlib.h>

#include "acdc-arena.h"
#include "acdc-onramp.h"

struct driver {
    struct acdc acdc;
    struct acdc_ctx ctx;
    struct acdc_slot_stats slot;
    struct acdc_params params;
    struct acdc_flow *flow;
};

/* Nothing else stays in the library, nor what only that needs. */
#pragma GCC visibility push(default)
struct driver *ramp_new(uint32_t threshold_us, bool holds);
void ramp_free(struct driver *);
void ramp_report(struct driver *, uint32_t now_us, uint32_t before_us, uint32_t delay_us);
uint32_t ramp_send(struct driver *, uint32_t now_us, uint32_t payload);
uint32_t ramp_beta(const struct driver *);
uint32_t ramp_counter(const struct driver *, uint32_t index);
#pragma GCC visibility pop

struct driver *
ramp_new(uint32_t threshold_us, bool holds)
{
    struct driver *d = calloc(1, sizeof *d);

    if (!d) {
        abort();
    }
    while (!(d->flow = acdc_arena_alloc_flow(acdc_flow_size(false), false))) {
        acdc_arena_fill(1);
    }
    *d->flow = (struct acdc_flow) { 0 };
    *acdc_flow_in(d->flow) = (struct acdc_flow_in) { .has_more = true };
    *acdc_flow_more(d->flow) = (struct acdc_flow_more) { .tail_end = 0 };
    d->params.on_ramp = threshold_us;
    d->acdc.host = holds ? ACDC_HOST_HOLDS : 0;
    d->ctx.acdc = &d->acdc;
    d->ctx.slot = &d->slot;
    return d;
}

void
ramp_free(struct driver *d)
{
    acdc_arena_free_flow(d->flow);
    free(d);
}

static void
set_time(struct driver *d, uint32_t now_us)
{
    /* With a part of a microsecond, any. */
    d->ctx.now = now_us * (uint64_t) 1000 + (now_us ^ now_us >> 7) * 7919u % 1000;
}

void
ramp_report(struct driver *d, uint32_t now_us, uint32_t before_us, uint32_t delay_us)
{
    set_time(d, now_us);
    acdc_on_ramp(&d->ctx, d->flow, &d->params, before_us, delay_us);
}

/* Returns for how many nanoseconds it is held, as of the beginning of the microsecond. */
uint32_t
ramp_send(struct driver *d, uint32_t now_us, uint32_t payload)
{
    struct acdc_pkt p = { .payload = payload };

    set_time(d, now_us);
    if (acdc_flow_in(d->flow)->paused) {
        acdc_on_ramp_hold(&d->ctx, d->flow, &p);
    }
    return p.verdict == ACDC_HOLD ? (uint32_t) (p.release - now_us * (uint64_t) 1000) : 0;
}

uint32_t
ramp_beta(const struct driver *d)
{
    return acdc_flow_more(d->flow)->on_ramp.beta;
}

/* 0: pauses, 1: microseconds of these, 2: those that would have been longer. */
uint32_t
ramp_counter(const struct driver *d, uint32_t index)
{
    uint32_t counter = ACDC_C_ON_RAMP_PAUSES + index;

    return counter < 64 ? d->ctx.counters[counter]
                        : (uint32_t) acdc_a64_read(&d->slot.counters[counter]);
}
