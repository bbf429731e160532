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

/* 28 bytes, as each flow has one: what is not needed at the same time shares
 * memory, and numbers have as many bits as they need. */
struct acdc_law {
    uint32_t cut_end;           /* While in_cut or in_loss: these hold until
                                 * snd_una passes it.  Else the caller's. */
    uint32_t flight_max : 24;   /* Most in flight in this round, see
                                 * acdc_law_flight(). */
    uint32_t alg : 3;           /* enum acdc_algorithm. */
    uint32_t slow_start : 1;    /* wnd is below ssthresh. */
    uint32_t in_cut : 1;
    uint32_t in_loss : 1;
    uint32_t timed_out : 1;     /* And nothing heard since: wnd is below the
                                 * floor. */
    uint32_t wnd;               /* Bytes the flow may have in flight. */
    uint32_t round_end;         /* snd_una at which alpha is updated. */
    union {
        uint32_t ssthresh;      /* In slow start: bytes. */
        uint32_t ca_bytes;      /* In congestion avoidance: acknowledged
                                 * towards the next segment of growth. */
    };
    union {                     /* The algorithm's own, 8 bytes. */
        acdc_u64_align4 dctcp;  /* See acdc_dctcp_alpha(). */
        struct {
            uint64_t w_max : 27;        /* Units of 8 bytes, rounded up. */
            uint64_t k_ms : 17;         /* From the epoch to w_max. */
            uint64_t epoch_ms : 20;     /* Start of the growth since the last
                                         * cut; 0: none yet. */
        } ACDC_PACKED cubic;
    };
};

/* What is in flight, in units of so many bytes, for which 24 bits are enough: the
 * last of them may be begun. */
#define ACDC_FLIGHT_UNIT 64
static inline uint32_t
acdc_law_flight(uint32_t bytes)
{
    return (bytes < ACDC_WINDOW_MAX ? bytes : ACDC_WINDOW_MAX - 1)
           / ACDC_FLIGHT_UNIT;
}

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
    /* Starts the union of struct acdc_law.  May be NULL. */
    void (*init)(struct acdc_law *);
    /* At the end of a round.  May be NULL. */
    void (*round)(struct acdc_law *, const struct acdc_params *);
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

/* DCTCP's own: alpha, and the feedback of the round, marked bytes and all bytes,
 * 21 bits each, in one number.  A report is one addition to it. */
enum {
    ACDC_DCTCP_BITS = ACDC_FIX_SHIFT + 1,
    ACDC_DCTCP_MASK = (1 << ACDC_DCTCP_BITS) - 1,
};

static inline uint32_t
acdc_dctcp_alpha(const struct acdc_law *l)
{
    return (uint32_t) l->dctcp & ACDC_DCTCP_MASK;
}

static inline uint32_t
acdc_dctcp_ce(const struct acdc_law *l)
{
    return (uint32_t) (l->dctcp >> ACDC_DCTCP_BITS) & ACDC_DCTCP_MASK;
}

static inline uint32_t
acdc_dctcp_total(const struct acdc_law *l)
{
    return (uint32_t) (l->dctcp >> 2 * ACDC_DCTCP_BITS);
}

static inline void
acdc_dctcp_set(struct acdc_law *l, uint32_t alpha, uint32_t ce, uint32_t total)
{
    l->dctcp = (((uint64_t) total << ACDC_DCTCP_BITS) + ce) << ACDC_DCTCP_BITS
               | alpha;
}

/* 'ce' is at most 'total'.  Alpha needs their ratio: where the sums would not
 * fit, what was reported before weighs half as much. */
static inline void
acdc_dctcp_note_report(struct acdc_law *l, uint32_t ce, uint32_t total)
{
    uint64_t sum = l->dctcp + ((((uint64_t) total << ACDC_DCTCP_BITS) + ce)
                               << ACDC_DCTCP_BITS);

    if (acdc_likely(total <= ACDC_DCTCP_MASK && !(sum >> 63))) {
        l->dctcp = sum;
        return;
    }
    total += acdc_dctcp_total(l);
    ce += acdc_dctcp_ce(l);
    for (; total > ACDC_DCTCP_MASK; total /= 2) {
        ce /= 2;
    }
    acdc_dctcp_set(l, acdc_dctcp_alpha(l), ce, total);
}

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
    return l->wnd < 2u * ACDC_FLIGHT_UNIT * (flight + 1);
}


/* Whether 'cut_end' is valid. */
static inline bool
acdc_law_is_held(const struct acdc_law *l)
{
    return l->in_cut || l->in_loss;
}

/* Whether a mark in what acknowledges up to 'snd_una' cuts. */
static inline bool
acdc_law_may_cut(const struct acdc_law *l, uint32_t snd_una)
{
    return !l->in_cut || seq_after(snd_una, l->cut_end);
}

/* Past 'cut_end' the next mark or loss cuts again. */
static inline void
acdc_law_leave_cut(struct acdc_law *l, uint32_t snd_una)
{
    if (acdc_law_is_held(l) && seq_after(snd_una, l->cut_end)) {
        l->in_cut = l->in_loss = false;
    }
}

/* From here on congestion avoidance. */
static inline void
acdc_law_avoid(struct acdc_law *l)
{
    l->slow_start = false;
    l->ca_bytes = 0;
}

/* Slow start.  Returns what is left of 'acked' for congestion avoidance. */
static inline uint32_t
acdc_law_slow_start(struct acdc_law *l, uint32_t acked)
{
    uint32_t step = 0;

    if (l->slow_start) {
        /* A floor may have raised the window beyond. */
        step = l->ssthresh > l->wnd ? l->ssthresh - l->wnd : 0;
        if (step > acked) {
            l->wnd += acked;
            return 0;
        }
        l->wnd += step;
        acdc_law_avoid(l);
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

/* What every ACK does, whatever becomes of the window and once its report is
 * noted: see acdc_law_ack().  'flight', in units, is what was in flight before.
 * Returns the most that was in flight in its round, which may be over. */
static inline uint32_t
acdc_law_note_ack(struct acdc_law *l, const struct acdc_params *params,
                  uint32_t snd_una, uint32_t snd_nxt, uint32_t acked,
                  uint32_t flight)
{
    if (flight > l->flight_max) {
        l->flight_max = flight;
    }
    flight = l->flight_max;
    if (acked && !seq_before(snd_una, l->round_end)) {
        acdc_law_end_round(l, params, snd_una, snd_nxt);
    }
    acdc_law_leave_cut(l, snd_una);
    return flight;
}

/* acdc_law_ack() for what most ACKs of a flow of DCTCP are: for new data, and
 * with no mark for which the window is to be cut.  'params', 'mss', 'snd_una'
 * and 'snd_nxt' as in struct acdc_law_env, which these ACKs do not need whole.
 * False, with nothing changed, if it is not one of these, and acdc_law_ack() is
 * to be asked.
 * 'flight' was in flight before, bytes, less than ACDC_WINDOW_MAX. */
static inline bool
acdc_law_usual_ack(struct acdc_law *l, const struct acdc_params *params,
                   uint32_t mss, uint32_t snd_una, uint32_t snd_nxt,
                   uint32_t acked, uint32_t flight, uint32_t ce, uint32_t total)
{
    uint32_t cap;

    if (l->alg != ACDC_ALG_DCTCP || l->timed_out
        || (ce && acdc_law_may_cut(l, snd_una))) {
        return false;
    }
    acdc_dctcp_note_report(l, ce, total);
    flight = acdc_law_note_ack(l, params, snd_una, snd_nxt, acked,
                               flight / ACDC_FLIGHT_UNIT);
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
    return l->alg == ACDC_ALG_DCTCP ? acdc_dctcp_alpha(l) : 0;
}

/* Bytes.  In congestion avoidance, which does not need it, the window. */
static inline uint32_t
acdc_law_ssthresh(const struct acdc_law *l)
{
    return l->slow_start ? l->ssthresh : l->wnd;
}

#endif /* acdc-law.h */
