/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The law: how large a flow's window is.  Pure computation on a few integers,
 * the same in every datapath, in the tests and against the Python model in
 * tests/law.
 *
 * What is common to all algorithms is here: rounds, slow start, one cut in a
 * window of data, floors and caps.  What makes an algorithm is behind struct
 * acdc_cc, one file each; acdc-algorithms.h lists them. */

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

/* What an algorithm is, in acdc-algorithms.h. */
enum {
    ACDC_CC_FALLBACK = 1 << 0,  /* Does without the other vSwitch's feedback. */
    ACDC_CC_MARKS = 1 << 1,     /* Has the law keep acdc_law.marks. */
    ACDC_CC_MIN_RTT = 1 << 2,   /* Has it keep acdc_law.least. */
    ACDC_CC_ABC = 1 << 3,       /* Congestion is marked bytes, growth is RFC
                                 * 3465's: no 'congested' and no 'grow' in its
                                 * struct acdc_cc. */
    ACDC_CC_DELAY = 1 << 5,     /* Has the network's delay measured: acdc_facts.net_rtt_us
                                 * and what follows. */
    ACDC_CC_UNOFFERED = 1 << 4, /* Governs a flow with ACDC_F_UNOFFERED whose
                                 * fallback is none.  One algorithm has it. */
};

/* Whether 'alg', enum acdc_algorithm, has all of 'properties', a constant. */
static ACDC_ALWAYS_INLINE bool
acdc_algorithm_has(unsigned int alg, unsigned int properties)
{
    unsigned int having = 0;

#define ACDC_ALGORITHM(SYMBOL, NAME, PROPERTIES) \
    having |= (unsigned int) (((PROPERTIES) & properties) == properties) \
              << ACDC_ALG_##SYMBOL;
#include "acdc-algorithms.h"
#undef ACDC_ALGORITHM
    return having >> alg & 1;
}

/* The least round-trip time of the last 8 to 16 s, of microseconds in 24 bits. */
enum { ACDC_LEAST_EPOCH_MS = 1 << 13 };
struct acdc_least {
    uint32_t us : 24;           /* Of this epoch; 0: not known. */
    uint32_t epoch : 8;
    uint32_t before_us : 24;    /* Of the one before. */
    uint32_t own8 : 8;          /* Of who has it. */
};

static inline void
acdc_least_pass(struct acdc_least *m, uint32_t now_ms)
{
    uint8_t epoch = (uint8_t) (now_ms / ACDC_LEAST_EPOCH_MS);
    uint8_t passed = (uint8_t) (epoch - m->epoch);

    /* 255 have not passed: another thread's clock is behind. */
    if (passed && passed != 255) {
        m->before_us = passed == 1 ? m->us : 0;
        m->us = 0;
        m->epoch = epoch;
    }
}

/* After acdc_least_pass(). */
static inline void
acdc_least_note(struct acdc_least *m, uint32_t us)
{
    if (!m->us || us < m->us) {
        m->us = us & 0xffffff;
    }
}

/* 0: not known. */
static inline uint32_t
acdc_least_us(const struct acdc_least *m)
{
    return m->before_us && (!m->us || m->before_us < m->us) ? m->before_us : m->us;
}

/* 28 bytes, as each flow has one: what is not needed at the same time shares
 * memory, and numbers have as many bits as they need. */
struct acdc_law {
    uint32_t window_left;       /* Bytes: as soon as more than these are
                                 * delivered, what was in flight is not any more.
                                 * Until then in_cut and in_loss hold, and else
                                 * the caller has a segment timed so, see
                                 * acdc_flow_time_next(). */
    uint32_t flight_max : 24;   /* Most in flight in this round, see
                                 * acdc_law_flight(). */
    uint32_t alg : 3;           /* enum acdc_algorithm. */
    uint32_t slow_start : 1;    /* wnd is below ssthresh. */
    uint32_t in_cut : 1;
    uint32_t in_loss : 1;
    uint32_t timed_out : 1;     /* And nothing heard since: wnd is below the
                                 * floor. */
    uint32_t callers : 1;       /* The caller's: acdc_flow_avoids_pack(). */
    uint32_t wnd;               /* Bytes the flow may have in flight. */
    uint32_t round_left;        /* Bytes: once these are delivered a round is
                                 * over. */
    union {
        uint32_t ssthresh;      /* In slow start: bytes. */
        uint32_t ca_bytes;      /* In congestion avoidance: acknowledged
                                 * towards the next segment of growth. */
    };
    union {                     /* 8 bytes, what the algorithm is: */
        acdc_u64_align4 marks;  /* ACDC_CC_MARKS: see acdc_marks_alpha(). */
        struct acdc_least least;        /* ACDC_CC_MIN_RTT: also not from before the
                                         * flow began to send or its guest's timer
                                         * expired. */
        uint8_t own[8];         /* Neither: the algorithm's own, see
                                 * ACDC_CC_STATE. */
    };
};
ACDC_STATIC_ASSERT(ACDC_N_ALGS <= 8);
ACDC_STATIC_ASSERT(sizeof(struct acdc_law) == 28);

/* Of the struct of 8 bytes that an algorithm has in acdc_law.own. */
#define ACDC_CC_STATE __attribute__((__packed__, __may_alias__))

/* What a loss or a timeout changed, for acdc_law_undo().  4 bytes, which the caller has
 * for as long as it may be taken back. */
struct acdc_undo {
    uint32_t wnd : 22;          /* The window before, in units of ACDC_UNDO_UNIT; 0:
                                 * nothing is to be undone. */
    uint32_t alpha : 7;         /* By so much alpha is higher, in units of 1 /
                                 * ACDC_UNDO_ALPHA. */
    uint32_t slow_start : 1;    /* It was the first one. */
    uint32_t in_cut : 1;        /* Marks had cut, and that held. */
    uint32_t marked : 1;        /* Marks came while the loss held. */
};
#define ACDC_UNDO_UNIT 256
#define ACDC_UNDO_ALPHA 127             /* An alpha of 1. */

/* What is in flight, in units of so many bytes, for which 24 bits are enough: the
 * last of them may be begun. */
#define ACDC_FLIGHT_UNIT 64
static inline uint32_t
acdc_law_flight(uint32_t bytes)
{
    return (bytes < ACDC_WINDOW_MAX ? bytes : ACDC_WINDOW_MAX - 1)
           / ACDC_FLIGHT_UNIT;
}

enum acdc_cause {
    ACDC_CAUSE_ECN,             /* An ACK showed congestion. */
    ACDC_CAUSE_LOSS,
    ACDC_CAUSE_TIMEOUT,
};

/* What the law and its algorithms get to know: of the flow and, where one is
 * given to the law, of an ACK. */
struct acdc_facts {
    const struct acdc_params *params;
    uint32_t mss;               /* Bytes of payload in a full segment. */
    uint32_t snd_una, snd_nxt;  /* After the event. */
    uint32_t window;            /* Bytes, a window of data: what is in flight after
                                 * the event, no more than the window allowed
                                 * before, where it is enforced. */
    uint32_t now_ms;            /* Any origin, wraps. */
    uint32_t srtt_us;           /* 0: not known. */
    uint32_t min_rtt_us;        /* 0: not known, or not ACDC_CC_MIN_RTT. */
    bool one_segment;           /* What is in flight is acknowledged at once,
                                 * be it a single segment. */
    bool paced;                 /* What is sent leaves evenly. */
    uint32_t salt;              /* Random, not known to the guest, the same in
                                 * all events of a flow. */
    struct acdc_undo *undo;     /* Of a loss or a timeout that may be taken back;
                                 * NULL: there is none. */
    /* Of an ACK: */
    uint32_t acked;             /* Bytes that it newly acknowledges. */
    uint32_t delivered;         /* Bytes of which it is the first sign that they
                                 * left the network, acknowledged or not. */
    uint32_t ce, total;         /* Bytes that it newly reports as received,
                                 * 'total', and of these marked, 'ce'. */
    uint32_t rtt_us;            /* Of what it acknowledges; 0: not timed. */
    /* Of an ACK with a report of a marked segment (acdc-timing.h): */
    uint32_t net_rtt_us;        /* The network's round-trip time, without the far
                                 * guest; 0: no report. */
    uint32_t min_net_rtt_us;    /* The least of the last 8 to 16 s. */
    uint32_t queue_us;          /* One-way delay, less the least of that time. */
    uint32_t owd_us;            /* One-way delay; 0: not known, as clocks are not
                                 * synchronized. */
};

/* A congestion control algorithm.  See docs: "How to add an algorithm".  All but
 * 'cut' may be NULL. */
struct acdc_cc {
    /* Starts what struct acdc_law has for the algorithm; NULL: zeros. */
    void (*init)(struct acdc_law *);
    /* Whether an ACK shows congestion; NULL: if it reports marked bytes. */
    bool (*congested)(struct acdc_law *, const struct acdc_facts *);
    /* At the end of a round. */
    void (*round)(struct acdc_law *, const struct acdc_params *);
    /* The window, bytes, after congestion of kind 'cause'; the caller applies
     * floor and cap.  For ACDC_CAUSE_TIMEOUT: what ssthresh becomes. */
    uint32_t (*cut)(struct acdc_law *, const struct acdc_facts *,
                    enum acdc_cause cause);
    /* The flow did not use its window for a round, or begins after a pause:
     * that time must not count as growth. */
    void (*pause)(struct acdc_law *);
    /* Congestion avoidance for 'acked' bytes, at most those of the ACK; NULL:
     * acdc_law_avoid_congestion(). */
    void (*grow)(struct acdc_law *, const struct acdc_facts *,
                 uint32_t acked);
};

#define ACDC_ALGORITHM(SYMBOL, NAME, PROPERTIES) \
    extern const struct acdc_cc acdc_cc_##NAME;
#include "acdc-algorithms.h"
#undef ACDC_ALGORITHM

/* ACDC_CC_MARKS: 'alpha', which is the algorithm's estimate of the fraction of
 * bytes that are marked, and the feedback of the round, marked bytes and all
 * bytes, 21 bits each, in one number.  A report is one addition to it. */
enum {
    ACDC_MARKS_BITS = ACDC_FIX_SHIFT + 1,
    ACDC_MARKS_MASK = (1 << ACDC_MARKS_BITS) - 1,
};

static inline uint32_t
acdc_marks_alpha(const struct acdc_law *l)
{
    return (uint32_t) l->marks & ACDC_MARKS_MASK;
}

static inline uint32_t
acdc_marks_ce(const struct acdc_law *l)
{
    return (uint32_t) (l->marks >> ACDC_MARKS_BITS) & ACDC_MARKS_MASK;
}

static inline uint32_t
acdc_marks_total(const struct acdc_law *l)
{
    return (uint32_t) (l->marks >> 2 * ACDC_MARKS_BITS);
}

static inline void
acdc_marks_set(struct acdc_law *l, uint32_t alpha, uint32_t ce, uint32_t total)
{
    l->marks = (((uint64_t) total << ACDC_MARKS_BITS) + ce) << ACDC_MARKS_BITS
               | alpha;
}

/* 'ce' is at most 'total'.  Alpha needs their ratio: where the sums would not
 * fit, what was reported before weighs half as much. */
static inline void
acdc_marks_note(struct acdc_law *l, uint32_t ce, uint32_t total)
{
    uint64_t sum = l->marks + ((((uint64_t) total << ACDC_MARKS_BITS) + ce)
                               << ACDC_MARKS_BITS);

    if (acdc_likely(total <= ACDC_MARKS_MASK && !(sum >> 63))) {
        l->marks = sum;
        return;
    }
    total += acdc_marks_total(l);
    ce += acdc_marks_ce(l);
    for (; total > ACDC_MARKS_MASK; total /= 2) {
        ce /= 2;
    }
    acdc_marks_set(l, acdc_marks_alpha(l), ce, total);
}

/* A new connection: initial window, slow start. */
void acdc_law_init(struct acdc_law *, const struct acdc_facts *,
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

/* Whether a cut or a loss holds. */
static inline bool
acdc_law_is_held(const struct acdc_law *l)
{
    return l->in_cut || l->in_loss;
}

/* 'delivered' bytes left the network; to be told once for each ACK, before
 * acdc_law_ack().  What holds is over when that is a window of data: not when
 * snd_una gets somewhere, for which a guest could leave a segment out and go on
 * behind it.  True if it is, or if the caller's is. */
static inline bool
acdc_law_deliver(struct acdc_law *l, uint32_t delivered)
{
    int32_t left = (int32_t) (l->window_left - delivered);

    if (acdc_likely(left >= 0)) {
        l->window_left = (uint32_t) left;
        return false;
    }
    l->window_left = 0;
    l->in_cut = l->in_loss = false;
    return true;
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

/* An ACK.  Returns true if it cut the window. */
bool acdc_law_ack(struct acdc_law *, const struct acdc_facts *);

/* A round is over: what the algorithm learns of it, and the beginning of the next,
 * with 'flight' bytes in flight and a window of data of 'window' bytes. */
void acdc_law_end_round(struct acdc_law *, const struct acdc_params *,
                        uint32_t flight, uint32_t window);

/* What every ACK does, whatever becomes of the window and once its report is
 * noted: see acdc_law_ack().  'before', in units, is what was in flight before,
 * the others are as for acdc_law_end_round().  Returns the most that was in flight
 * in its round, which may be over. */
static inline uint32_t
acdc_law_note_ack(struct acdc_law *l, const struct acdc_params *params,
                  uint32_t before, uint32_t delivered, uint32_t flight,
                  uint32_t window)
{
    int32_t left = (int32_t) (l->round_left - delivered);

    if (before > l->flight_max) {
        l->flight_max = before;
    }
    before = l->flight_max;
    if (left > 0) {
        l->round_left = (uint32_t) left;
    } else if (delivered) {
        acdc_law_end_round(l, params, flight, window);
    }
    return before;
}

/* acdc_law_ack() for what most ACKs are where an algorithm has ACDC_CC_MARKS and
 * ACDC_CC_ABC and its window is enforced: for new data, all of it just delivered, and
 * with no mark for which the window is to be cut.  The arguments are as in struct acdc_facts, which these
 * ACKs do not need whole.  False, with nothing changed, if it is not one of these,
 * and acdc_law_ack() is to be asked.
 * 'flight' is in flight after it, bytes, with 'acked' less than
 * ACDC_WINDOW_MAX. */
static inline bool
acdc_law_usual_ack(struct acdc_law *l, const struct acdc_params *params,
                   uint32_t mss, uint32_t acked, uint32_t flight,
                   uint32_t window, uint32_t ce, uint32_t total)
{
    uint32_t most, cap;

    if (!acdc_algorithm_has(l->alg, ACDC_CC_MARKS | ACDC_CC_ABC) || l->timed_out
        || (ce && !l->in_cut)) {
        return false;
    }
    acdc_marks_note(l, ce, total);
    most = acdc_law_note_ack(l, params, (flight + acked) / ACDC_FLIGHT_UNIT,
                             acked, flight, window);
    if (!l->in_cut && acdc_law_is_limited(l, most)) {
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
bool acdc_law_loss(struct acdc_law *, const struct acdc_facts *);
/* What seemed to be lost has arrived.  Takes back what acdc_facts.undo says that loss or
 * timeout changed (the response of RFC 4015): the window, which is no smaller than it is
 * now, slow start if nothing had ended that before, and alpha.  If marks came while it
 * held, these cut instead; if they cut after that, the window stays.  True if it did. */
bool acdc_law_undo(struct acdc_law *, const struct acdc_facts *);
/* The guest's retransmission timer expired. */
void acdc_law_timeout(struct acdc_law *, const struct acdc_facts *);
/* The guest begins to send after a pause longer than its retransmission
 * timeout (RFC 5681 section 4.1).  True if the window became smaller. */
bool acdc_law_idle(struct acdc_law *, const struct acdc_facts *);
/* Floor and cap again, after a change of parameters. */
void acdc_law_clamp(struct acdc_law *, const struct acdc_facts *);

/* Smallest window the law goes to, bytes. */
uint32_t acdc_law_floor(const struct acdc_facts *);

/* A round-trip time was measured. */
static inline void
acdc_law_note_rtt(struct acdc_law *l, uint32_t rtt_us, uint32_t now_ms)
{
    if (acdc_algorithm_has(l->alg, ACDC_CC_MIN_RTT)) {
        acdc_least_pass(&l->least, now_ms);
        acdc_least_note(&l->least, rtt_us);
    }
}

static inline uint32_t
acdc_law_min_rtt_us(const struct acdc_law *l)
{
    return acdc_algorithm_has(l->alg, ACDC_CC_MIN_RTT)
           ? acdc_least_us(&l->least) : 0;
}

static inline uint32_t
acdc_law_alpha(const struct acdc_law *l)
{
    return acdc_algorithm_has(l->alg, ACDC_CC_MARKS) ? acdc_marks_alpha(l) : 0;
}

/* Bytes.  In congestion avoidance, which does not need it, the window. */
static inline uint32_t
acdc_law_ssthresh(const struct acdc_law *l)
{
    return l->slow_start ? l->ssthresh : l->wnd;
}

#endif /* acdc-law.h */
