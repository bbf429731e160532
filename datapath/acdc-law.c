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
        l->least.us = l->least.before_us = 0;
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

/* What a loss or a timeout is about to change.  Where one was not settled yet both are
 * taken back together: a cut that holds is then of the first one. */
static void
note_undo(const struct acdc_law *l, struct acdc_undo *u)
{
    uint32_t wnd = l->wnd / ACDC_UNDO_UNIT;

    if (!u) {
        return;
    }
    if (!u->wnd) {
        *u = (struct acdc_undo) {
            .slow_start = l->slow_start && l->ssthresh == ACDC_WINDOW_MAX,
        };
    }
    if (u->wnd < wnd) {
        u->wnd = (wnd < 1u << 22 ? wnd : (1u << 22) - 1) & 0x3fffff;
    }
    if (!l->in_loss) {
        u->in_cut = l->in_cut;
    }
}

/* Marks have cut since: the window stays as it is. */
static void
keep_cut(const struct acdc_law *l, struct acdc_undo *u)
{
    if (u && u->wnd) {
        u->wnd = (l->wnd / ACDC_UNDO_UNIT) & 0x3fffff;
        u->slow_start = false;
        u->in_cut = true;
    }
}

/* 'sum' was reported in this round.  If it is over, alpha has 1 - gain of what it was
 * before, and so of what a loss added to it. */
static void
follow_alpha(const struct acdc_law *l, const struct acdc_facts *e, uint32_t sum)
{
    if (e->undo && sum && !acdc_marks_total(l)) {
        e->undo->alpha = ((uint64_t) e->undo->alpha * (ACDC_FIX_ONE - e->params->gain)
                          >> ACDC_FIX_SHIFT) & ACDC_UNDO_ALPHA;
    }
}

bool
acdc_law_ack(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t acked = e->acked;
    uint32_t flight, sum = 0;
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
        sum = acdc_marks_total(l);
    }
    flight = e->snd_nxt - e->snd_una;
    flight = acdc_law_note_ack(l, e->params, acdc_law_flight(flight + acked),
                               e->delivered, flight, e->window);
    follow_alpha(l, e, sum);

    /* Asked of every ACK, as an algorithm may learn from it. */
    congested = is_congested(l, e);
    if (congested && !l->in_cut) {
        cut(l, e, ACDC_CAUSE_ECN);
        keep_cut(l, e->undo);
        return true;
    }
    if (congested && l->in_loss && e->undo) {
        e->undo->marked = true;
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

/* To 1.  By how much is rounded up: taken back, alpha is no more than it was. */
static void
raise_alpha(struct acdc_law *l, struct acdc_undo *u)
{
    if (u && acdc_algorithm_has(l->alg, ACDC_CC_MARKS)) {
        uint32_t by = ACDC_FIX_ONE - acdc_marks_alpha(l);

        by = u->alpha + (by * ACDC_UNDO_ALPHA + ACDC_FIX_ONE - 1) / ACDC_FIX_ONE;
        u->alpha = (by < ACDC_UNDO_ALPHA ? by : ACDC_UNDO_ALPHA) & ACDC_UNDO_ALPHA;
    }
    set_alpha(l, ACDC_FIX_ONE);
}

bool
acdc_law_loss(struct acdc_law *l, const struct acdc_facts *e)
{
    bool was_cut = l->in_cut;

    if (!acdc_cc(l) || l->in_loss) {
        return false;
    }
    note_undo(l, e->undo);
    l->in_loss = true;
    raise_alpha(l, e->undo);
    if (!was_cut) {
        cut(l, e, ACDC_CAUSE_LOSS);
    }
    return !was_cut;
}

bool
acdc_law_undo(struct acdc_law *l, const struct acdc_facts *e)
{
    uint32_t alpha = acdc_law_alpha(l), more, wnd;
    struct acdc_undo *u = e->undo;

    if (!acdc_cc(l) || !u || !u->wnd) {
        return false;
    }
    more = ((uint32_t) u->alpha << ACDC_FIX_SHIFT) / ACDC_UNDO_ALPHA;
    wnd = u->wnd * ACDC_UNDO_UNIT;
    u->wnd = 0;
    set_alpha(l, alpha > more ? alpha - more : 0);
    l->timed_out = false;
    if (l->wnd < wnd) {
        l->wnd = wnd;
        acdc_law_avoid(l);
    }
    if (l->in_loss) {
        l->in_loss = false;
        l->in_cut = u->in_cut;
    }
    if (u->slow_start) {
        l->slow_start = true;
        l->ssthresh = ACDC_WINDOW_MAX;
    }
    if (u->marked && !u->in_cut) {
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
    note_undo(l, e->undo);
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
    if (e->undo) {
        e->undo->wnd = 0;
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
