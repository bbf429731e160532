// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include "acdc-law.h"

static inline const struct acdc_cc *
acdc_cc(const struct acdc_law *l)
{
    static const struct acdc_cc *const algorithms[ACDC_N_ALGS] = {
#define ACDC_ALGORITHM(SYMBOL, NAME, PROPERTIES) \
        [ACDC_ALG_##SYMBOL] = &acdc_cc_##NAME,
#include "acdc-algorithms.h"
#undef ACDC_ALGORITHM
    };

    return algorithms[l->alg];
}

bool
acdc_is_fallback(unsigned int algorithm)
{
    return algorithm == ACDC_ALG_NONE
           || (algorithm < ACDC_N_ALGS
               && acdc_algorithm_has(algorithm, ACDC_CC_FALLBACK));
}

uint32_t
acdc_law_floor(const struct acdc_facts *e)
{
    uint32_t floor = e->params->min_window ? e->params->min_window
                     : e->one_segment ? e->mss : 2 * e->mss;

    return floor > e->mss ? floor : e->mss;
}

void
acdc_law_clamp(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t floor = l->timed_out && !e->params->min_window
                     ? e->mss : acdc_law_floor(e);
    uint32_t cap = acdc_law_cap(e->params, e->mss);

    if (l->wnd < floor) {
        l->wnd = floor;
    }
    if (l->wnd > cap) {
        l->wnd = cap;
    }
}

void
acdc_law_init(struct acdc_law *l, const struct acdc_facts *e,
              enum acdc_algorithm alg)
{
    uint64_t initial = (uint64_t) e->params->initial_window * e->mss;

    memset(l, 0, sizeof *l);
    l->wnd = initial < ACDC_WINDOW_MAX ? (uint32_t) initial : ACDC_WINDOW_MAX;
    l->ssthresh = ACDC_WINDOW_MAX;
    l->slow_start = true;
    acdc_law_switch(l, alg);
    acdc_law_clamp(l, e);
}

void
acdc_law_switch(struct acdc_law *l, enum acdc_algorithm alg)
{
    acdc_law_keep_cut(l);
    l->alg = (unsigned int) alg & 7;
    memset(l->own, 0, sizeof l->own);
    if (acdc_cc(l) && acdc_cc(l)->init) {
        acdc_cc(l)->init(l);
    }
}

void
acdc_law_end_round(struct acdc_law *l, const struct acdc_params *params,
                   uint32_t flight, uint32_t window)
{
    const struct acdc_cc *cc = acdc_cc(l);

    if (cc->round) {
        cc->round(l, params);
    }
    if (cc->pause && !acdc_law_is_limited(l, l->flight_max)) {
        cc->pause(l);
    }
    l->round_left = window;
    l->flight_max = acdc_law_flight(flight);
}

static void
grow(struct acdc_law *l, const struct acdc_facts *e, uint32_t acked)
{
    acked = acdc_law_slow_start(l, acked);
    if (acked && acdc_cc(l)->grow) {
        acdc_cc(l)->grow(l, e, acked);
    } else if (acked) {
        acdc_law_avoid_congestion(l, e->mss, acked);
    }
}

static bool
is_congested(struct acdc_law *l, const struct acdc_facts *e)
{
    return acdc_cc(l)->congested ? acdc_cc(l)->congested(l, e) : e->ce;
}

/* What was measured before is of another path, or of a queue that is gone. */
static void
forget_rtt(struct acdc_law *l)
{
    if (acdc_algorithm_has(l->alg, ACDC_CC_MIN_RTT)) {
        l->min_rtt_us = 0;
    }
}

static ACDC_NOINLINE void
cut(struct acdc_law *l, const struct acdc_facts *e, enum acdc_cause cause)
{
    l->wnd = acdc_cc(l)->cut(l, e, cause);
    l->timed_out = false;
    acdc_law_clamp(l, e);
    acdc_law_avoid(l);
    l->window_left = e->window;
    l->in_cut = true;
}

bool
acdc_law_ack(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t acked = e->acked;
    uint32_t flight;
    bool congested;

    if (!acdc_cc(l)) {
        /* Another algorithm may take over. */
        l->round_left = 0;
        l->in_cut = l->in_loss = false;
        return false;
    }
    if (acked && l->timed_out) {
        /* Not up by as little as a short segment, with which the next would wait
         * for a delayed ACK again. */
        l->timed_out = false;
        acdc_law_clamp(l, e);
    }
    if (acdc_algorithm_has(l->alg, ACDC_CC_MARKS)) {
        acdc_marks_note(l, e->ce, e->total);
    }
    flight = e->snd_nxt - e->snd_una;
    flight = acdc_law_note_ack(l, e->params, acdc_law_flight(flight + acked),
                               e->delivered, flight, e->window);

    /* Asked of every ACK, as an algorithm may learn from it. */
    congested = is_congested(l, e);
    if (congested && l->in_cut && !l->slow_start && l->undo_wnd) {
        l->undo_marked = true;
    }
    if (congested && !l->in_cut) {
        cut(l, e, ACDC_CAUSE_ECN);
        return true;
    }
    if (acked && !l->in_cut && acdc_law_is_limited(l, flight)) {
        grow(l, e, acked);
        acdc_law_clamp(l, e);
    }
    return false;
}

static void
set_alpha(struct acdc_law *l, uint32_t alpha)
{
    if (acdc_algorithm_has(l->alg, ACDC_CC_MARKS)) {
        acdc_marks_set(l, alpha, acdc_marks_ce(l), acdc_marks_total(l));
    }
}

bool
acdc_law_loss(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t wnd = l->wnd / ACDC_UNDO_UNIT;
    uint32_t alpha = acdc_law_alpha(l);
    bool first = l->slow_start && l->ssthresh == ACDC_WINDOW_MAX;
    bool was_cut = l->in_cut;

    if (!acdc_cc(l) || l->in_loss) {
        return false;
    }
    l->in_loss = true;
    set_alpha(l, ACDC_FIX_ONE);
    if (!was_cut) {
        cut(l, e, ACDC_CAUSE_LOSS);
    } else if (l->slow_start) {
        /* A restart from idle; ssthresh has the memory. */
        return false;
    }
    l->undo_wnd = (wnd < 1u << 22 ? wnd : (1u << 22) - 1) & 0x3fffff;
    l->undo_alpha = (alpha * ACDC_UNDO_ALPHA >> ACDC_FIX_SHIFT) & ACDC_UNDO_ALPHA;
    l->undo_slow_start = first;
    l->undo_in_cut = was_cut;
    return !was_cut;
}

bool
acdc_law_undo(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t wnd = l->undo_wnd * ACDC_UNDO_UNIT;
    uint32_t alpha = ((uint32_t) l->undo_alpha << ACDC_FIX_SHIFT) / ACDC_UNDO_ALPHA;
    bool first = l->undo_slow_start, was_cut = l->undo_in_cut;
    bool marked = l->undo_marked;

    if (!l->in_loss || !l->in_cut || l->slow_start || !wnd) {
        return false;
    }
    acdc_law_avoid(l);
    l->in_loss = false;
    l->in_cut = was_cut;
    set_alpha(l, alpha);
    l->wnd = l->wnd > wnd ? l->wnd : wnd;
    if (first) {
        l->slow_start = true;
        l->ssthresh = ACDC_WINDOW_MAX;
    }
    if (marked && !was_cut) {
        cut(l, e, ACDC_CAUSE_ECN);
    }
    acdc_law_clamp(l, e);
    return true;
}

void
acdc_law_timeout(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t floor = 2 * e->mss;

    if (!acdc_cc(l)) {
        return;
    }
    /* Not again for data that the timer sent already: ssthresh remembers what
     * the path took before (RFC 5681 section 3.1). */
    if (!l->timed_out) {
        uint32_t ssthresh = acdc_cc(l)->cut(l, e, ACDC_CAUSE_TIMEOUT);

        l->ssthresh = ssthresh > floor ? ssthresh : floor;
        l->slow_start = true;
    }
    l->wnd = e->mss;
    l->timed_out = true;
    if (!acdc_law_is_held(l) || l->window_left < e->window) {
        l->window_left = e->window;
    }
    l->in_loss = true;
    l->in_cut = false;
    l->flight_max = 0;
    forget_rtt(l);
    acdc_law_clamp(l, e);
}

bool
acdc_law_idle(struct acdc_law *l, const struct acdc_facts *e)
{
    uint64_t restart = (uint64_t) e->params->initial_window * e->mss;
    uint32_t before = l->wnd;
    uint32_t most = before / 4 * 3;

    if (!acdc_cc(l)) {
        return false;
    }
    if (acdc_cc(l)->pause) {
        acdc_cc(l)->pause(l);
    }
    forget_rtt(l);
    if (l->wnd <= restart) {
        return false;
    }
    /* What the path took before is where slow start ends, as Linux's
     * tcp_cwnd_restart() has it. */
    if (!l->slow_start || l->ssthresh < most) {
        l->ssthresh = most;
    }
    l->slow_start = true;
    l->wnd = (uint32_t) restart;
    l->flight_max = 0;
    acdc_law_clamp(l, e);
    return l->wnd < before;
}
