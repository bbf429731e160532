/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The law: how large a flow's window is.  Pure computation on a few integers,
 * the same in every datapath, in the tests and against the Python model in
 * tests/law.
 *
 * What is common to all algorithms is here: rounds, slow start, one cut in a
 * window of data, floors and caps.  What makes an algorithm is behind struct
 * acdc_cc, one file each. */

#ifndef ACDC_LAW_H
#define ACDC_LAW_H 1

#include "acdc.h"

#define ACDC_WINDOW_MAX (1u << 30)      /* RFC 7323 section 2.3. */

/* Sequence number arithmetic (RFC 9293 section 3.4). */
static inline bool
seq_after(uint32_t a, uint32_t b)
{
    return (int32_t) (a - b) > 0;
}
#define seq_before(A, B) seq_after(B, A)

struct acdc_law {
    uint32_t wnd;               /* Bytes the flow may have in flight. */
    uint8_t alg;                /* enum acdc_algorithm. */
    bool in_cut;
    bool in_loss;
    bool timed_out;             /* And nothing heard since: wnd is below the
                                 * floor. */
    uint32_t ssthresh;          /* Bytes. */
    uint32_t ca_bytes;          /* Acknowledged in congestion avoidance,
                                 * towards the next segment of growth. */
    uint32_t round_end;         /* snd_una at which alpha is updated. */
    uint32_t cut_end;           /* Only while in_cut or in_loss: these hold
                                 * until snd_una passes it. */
    uint32_t round_ce;          /* Feedback of this round, bytes. */
    uint32_t round_total;
    uint32_t flight_max;        /* Most bytes in flight in this round. */
    union {                     /* The algorithm's own. */
        struct {
            uint32_t alpha;     /* Fixed point. */
        } dctcp;
        struct {
            uint32_t w_max;     /* Bytes. */
            uint32_t epoch_ms;  /* Start of the growth since the last cut;
                                 * 0: none yet. */
            uint32_t k_ms;      /* From there to w_max. */
        } cubic;
    };
};

/* What an event of a flow brings. */
struct acdc_law_env {
    const struct acdc_params *params;
    uint32_t mss;               /* Bytes of payload in a full segment. */
    uint32_t snd_una, snd_nxt;  /* After the event. */
    uint32_t now_ms;            /* Any origin, wraps. */
    uint32_t srtt_us;           /* 0: not known. */
    bool one_segment;           /* What is in flight is acknowledged at once,
                                 * be it a single segment. */
    uint32_t salt;              /* Random, not known to the guest, the same in
                                 * all events of a flow. */
};

enum acdc_cause { ACDC_CAUSE_ECN, ACDC_CAUSE_LOSS, ACDC_CAUSE_TIMEOUT };

/* A congestion control algorithm.  See docs: "How to add an algorithm". */
struct acdc_cc {
    const char *name;
    /* Starts the union of struct acdc_law. */
    void (*init)(struct acdc_law *);
    /* At the end of a round with 'total' > 0 bytes reported, 'ce' of them
     * marked.  May be NULL. */
    void (*round)(struct acdc_law *, const struct acdc_params *, uint32_t ce,
                  uint32_t total);
    /* The window, bytes, after congestion of kind 'cause'; the caller applies
     * floor and cap.  For ACDC_CAUSE_TIMEOUT: what ssthresh becomes. */
    uint32_t (*cut)(struct acdc_law *, const struct acdc_law_env *,
                    enum acdc_cause cause);
    /* The flow did not use its window for a round, or begins after a pause:
     * that time must not count as growth.  May be NULL. */
    void (*pause)(struct acdc_law *);
    /* Congestion avoidance for 'acked' bytes. */
    void (*grow)(struct acdc_law *, const struct acdc_law_env *,
                 uint32_t acked);
};

extern const struct acdc_cc acdc_cc_reno, acdc_cc_cubic, acdc_cc_dctcp;

/* acdc_law_avoid_congestion(). */
void acdc_cc_reno_grow(struct acdc_law *, const struct acdc_law_env *,
                       uint32_t acked);

/* A new connection: initial window, slow start, alpha 1. */
void acdc_law_init(struct acdc_law *, const struct acdc_law_env *,
                   enum acdc_algorithm);
/* Switches the algorithm of a live flow; the window stays. */
void acdc_law_switch(struct acdc_law *, enum acdc_algorithm);

/* Whether the flow used the window it had, so that a larger one is earned: an
 * application-limited flow must not bank credit.  Half of it is enough, as in
 * RFC 7661 section 4.1: what is on its way between the guest and its vSwitch
 * is in the guest's flight, not in the one seen here, and with a round-trip
 * time of some 10 us across the network that is a fifth of the window. */
static inline bool
acdc_law_is_limited(const struct acdc_law *l, uint32_t flight)
{
    return l->wnd < 2 * (uint64_t) flight;
}

static inline void
acdc_law_note_flight(struct acdc_law *l, uint32_t flight)
{
    if (flight > l->flight_max) {
        l->flight_max = flight;
    }
}

/* Past 'cut_end' the next mark or loss cuts again. */
static inline void
acdc_law_leave_cut(struct acdc_law *l, uint32_t snd_una)
{
    if ((l->in_cut || l->in_loss) && seq_after(snd_una, l->cut_end)) {
        l->in_cut = l->in_loss = false;
    }
}

/* Slow start.  Returns what is left of 'acked' for congestion avoidance. */
static inline uint32_t
acdc_law_slow_start(struct acdc_law *l, uint32_t acked)
{
    uint32_t step = 0;

    if (l->wnd < l->ssthresh) {
        step = l->ssthresh - l->wnd;
        step = step < acked ? step : acked;
        l->wnd += step;
    }
    return acked - step;
}

/* Congestion avoidance by appropriate byte counting (RFC 3465): one segment a
 * window of acknowledged data. */
static inline void
acdc_law_avoid_congestion(struct acdc_law *l, uint32_t mss, uint32_t acked)
{
    l->ca_bytes += acked;
    while (l->ca_bytes >= l->wnd) {
        l->ca_bytes -= l->wnd;
        l->wnd += mss;
    }
}

/* Largest window that the parameters allow, bytes. */
static inline uint32_t
acdc_law_cap(const struct acdc_params *params, uint32_t mss)
{
    if (acdc_likely(!params->max_window)) {
        return ACDC_WINDOW_MAX;
    }
    /* A cap below one segment would stop the flow. */
    return params->max_window > mss ? params->max_window : mss;
}

/* An ACK that newly acknowledges 'acked' bytes (may be 0) and reports 'total'
 * more bytes received, 'ce' of them marked.  Returns true if it cut the
 * window. */
bool acdc_law_ack(struct acdc_law *, const struct acdc_law_env *,
                  uint32_t acked, uint32_t ce, uint32_t total);

/* A round is over when 'round_end' is acknowledged: what the algorithm learns of
 * it, and the beginning of the next. */
void acdc_law_end_round(struct acdc_law *, const struct acdc_params *,
                        uint32_t snd_una, uint32_t snd_nxt);

/* What every ACK does, whatever becomes of the window: see acdc_law_ack().
 * Returns the most bytes that were in flight in its round, which may be over. */
static inline uint32_t
acdc_law_note_ack(struct acdc_law *l, const struct acdc_params *params,
                  uint32_t snd_una, uint32_t snd_nxt, uint32_t acked,
                  uint32_t ce, uint32_t total)
{
    uint32_t flight;

    acdc_law_note_flight(l, snd_nxt - snd_una + acked);
    flight = l->flight_max;
    l->round_ce += ce;
    l->round_total += total;
    if (acked && !seq_before(snd_una, l->round_end)) {
        acdc_law_end_round(l, params, snd_una, snd_nxt);
    }
    acdc_law_leave_cut(l, snd_una);
    return flight;
}

/* acdc_law_ack() for what most ACKs of a flow of DCTCP are: for new data and
 * without marks.  'params', 'mss', 'snd_una' and 'snd_nxt' as in struct
 * acdc_law_env, which these ACKs do not need whole.  False, with nothing
 * changed, if it is not one of these, and acdc_law_ack() is to be asked. */
static inline bool
acdc_law_usual_ack(struct acdc_law *l, const struct acdc_params *params,
                   uint32_t mss, uint32_t snd_una, uint32_t snd_nxt,
                   uint32_t acked, uint32_t total)
{
    uint32_t flight, cap;

    if (l->alg != ACDC_ALG_DCTCP || l->timed_out) {
        return false;
    }
    flight = acdc_law_note_ack(l, params, snd_una, snd_nxt, acked, 0, total);
    if (!l->in_cut && acdc_law_is_limited(l, flight)) {
        acked = acdc_law_slow_start(l, acked);
        if (acked) {
            acdc_law_avoid_congestion(l, mss, acked);
        }
        cap = acdc_law_cap(params, mss);
        if (l->wnd > cap) {
            l->wnd = cap;
        }
    }
    return true;
}

/* Loss inferred.  True if it cut the window. */
bool acdc_law_loss(struct acdc_law *, const struct acdc_law_env *);
/* The guest's retransmission timer expired. */
void acdc_law_timeout(struct acdc_law *, const struct acdc_law_env *);
/* The guest begins to send after a pause longer than its retransmission
 * timeout (RFC 5681 section 4.1).  True if the window became smaller. */
bool acdc_law_idle(struct acdc_law *, const struct acdc_law_env *);
/* Floor and cap again, after a change of parameters. */
void acdc_law_clamp(struct acdc_law *, const struct acdc_law_env *);

/* Smallest window the law goes to, bytes. */
uint32_t acdc_law_floor(const struct acdc_law_env *);

static inline uint32_t
acdc_law_alpha(const struct acdc_law *l)
{
    return l->alg == ACDC_ALG_DCTCP ? l->dctcp.alpha : 0;
}

#endif /* acdc-law.h */
