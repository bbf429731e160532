/* SPDX-License-Identifier: Apache-2.0 */

/* One direction at one tap: data of 'end', and what the other end says of it. */

#include "trace.h"

#include <stdlib.h>

enum {
    RESYNC = 1 << 24,           /* A jump of sequence numbers that no network
                                 * holds: packets are missing. */
};
/* Data that comes later than what is behind it: reordered if by no more than this,
 * or a round-trip time; else sent again. */
#define REORDER_NS (3 * NS_PER_MS)
/* What comes so long after all else was a guest's timer's doing; and see quiet_for(). */
#define TIMER_NS (10 * NS_PER_MS)
/* So long RACK may wait for what is before a SACK (RFC 8985 section 6.2), by a clock
 * that ticks every 10 ms. */
#define RACK_NS (25 * NS_PER_MS)
/* Linux's least retransmission timeout. */
#define RTO_MIN_NS (200 * NS_PER_MS)

/* Round-trip times. --------------------------------------------------------- */

/* Of the whole path: between tap and receiver, and between tap and sender.  0: not
 * known. */
uint64_t
half_rtt(const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];

    return h->srtt ? h->srtt + tap->half[!end].rtt_min : 0;
}

static void
add_sample(struct sums *s, uint64_t rtt)
{
    s->rtt_ns += rtt;
    s->rtt_samples++;
    if (!s->rtt_min || rtt < s->rtt_min) {
        s->rtt_min = rtt;
    }
    if (rtt > s->rtt_max) {
        s->rtt_max = rtt;
    }
}

static void
note_rtt_min(struct half *h, uint64_t rtt)
{
    h->rtt_min_samples++;
    if (!h->rtt_min || rtt < h->rtt_min) {
        h->rtt_min = rtt;
    }
}

static void
note_rtt(struct half *h, uint64_t rtt)
{
    rtt = rtt ? rtt : 1;
    note_rtt_min(h, rtt);
    h->srtt = h->srtt ? h->srtt - h->srtt / 8 + rtt / 8 : rtt;
    add_sample(&h->total, rtt);
    add_sample(&h->round.sums, rtt);
}

/* Notes that data up to 'end_seq' was sent.  With SENT_MAX of these every other one
 * goes: those left are enough for one sample an ACK. */
static bool
push_sent(struct half *h, uint64_t time, uint32_t end_seq)
{
    unsigned int i;

    if (h->sent_first + h->sent_n == h->sent_size && h->sent_first) {
        memmove(h->sent, h->sent + h->sent_first, h->sent_n * sizeof *h->sent);
        h->sent_first = 0;
    }
    if (h->sent_n == h->sent_size && h->sent_size < SENT_MAX) {
        uint16_t size = h->sent_size ? (uint16_t) (h->sent_size * 2) : SENT_FIRST;
        struct sent *new = realloc(h->sent, size * sizeof *new);

        if (!new) {
            return false;
        }
        h->sent = new;
        h->sent_size = size;
    } else if (h->sent_n == SENT_MAX) {
        for (i = 0; i < SENT_MAX / 2; i++) {
            bool waits = h->sent[2 * i].waits;

            h->sent[i] = h->sent[2 * i + 1];
            h->sent[i].waits |= waits;
        }
        h->sent_n = SENT_MAX / 2;
    }
    h->sent[h->sent_first + h->sent_n++] = (struct sent) { .time = time, .end = end_seq };
    return true;
}

/* Takes what is acknowledged out.  Returns the round-trip time, 0 if none: if some of it
 * was sent again, the ACK waited for that (Karn). */
static uint64_t
pop_sent(struct half *h, uint64_t now, uint32_t ack)
{
    uint32_t start = h->snd_una;
    uint64_t rtt = 0;
    bool waits = false;

    while (h->sent_n && !seq_after(h->sent[h->sent_first].end, ack)) {
        const struct sent *s = &h->sent[h->sent_first];

        waits = waits || s->waits;
        rtt = waits || now < s->time ? 0 : now - s->time;
        if (h->first_data && !s->again && s->end - start > h->acked_max) {
            h->acked_max = s->end - start;
        }
        start = s->end;
        h->sent_first++;
        h->sent_n--;
    }
    if (!h->sent_n) {
        h->sent_first = 0;
    }
    return rtt;
}

static void
mark_again(struct half *h, uint32_t from, uint32_t to)
{
    uint32_t start = h->snd_una;
    unsigned int i;

    for (i = h->sent_first; i < h->sent_first + h->sent_n; i++) {
        if (seq_after(h->sent[i].end, from) && seq_after(to, start)) {
            h->sent[i].waits = true;
            h->sent[i].again |= !seq_after(h->sent[i].end, to);
        }
        start = h->sent[i].end;
    }
}

static void
add_held(struct sums *s, uint64_t held)
{
    s->held_ns += held;
    s->held_samples++;
    s->held_max = held > s->held_max ? held : s->held_max;
}

void
half_held(struct tap *tap, int end, uint32_t end_seq, uint64_t now)
{
    struct half *h = &tap->half[end];
    unsigned int n = h->sent_first + h->sent_n, i = n;

    while (i > h->sent_first && !seq_after(end_seq, h->sent[i - 1].end)) {
        i--;
    }
    if (i < n && !h->sent[i].again && now >= h->sent[i].time) {
        add_held(&h->total, now - h->sent[i].time);
        add_held(&h->round.sums, now - h->sent[i].time);
    }
}

/* What the time goes into. ------------------------------------------------- */

/* The time until now, which was spent in 'limit'.  What is earlier than the last event
 * spends nothing, and time is not spent twice. */
static void
spend(struct half *h, uint64_t now, enum limit limit)
{
    if (now <= h->last_event) {
        return;
    }
    if (h->last_event) {
        h->limits[limit] += now - h->last_event;
    }
    h->last_event = now;
}

/* Rounds. ------------------------------------------------------------------- */

static void
open_round(struct half *h, uint64_t time, uint32_t end_seq)
{
    memset(&h->round, 0, sizeof h->round);
    h->round.open = true;
    h->round.start = time;
    h->round.end_seq = end_seq;
}

static void
note_flight(struct half *h)
{
    if (half_flight(h) > h->total.flight_max) {
        h->total.flight_max = half_flight(h);
    }
    if (half_flight(h) > h->round.sums.flight_max) {
        h->round.sums.flight_max = half_flight(h);
    }
}

static void
close_round(struct trace *t, struct conn *c, struct tap *tap, int end)
{
    struct half *h = &tap->half[end];

    if (tap == conn_main_tap(c) && !t->options.summary) {
        output_round(t, c, tap, end);
    }
    h->round.open = false;
    if (half_flight(h)) {
        open_round(h, h->last_event, h->snd_max);
        note_flight(h);
    }
}

/* Data. --------------------------------------------------------------------- */

static void
add_hole(struct half *h, uint64_t time, uint32_t start, uint32_t end_seq)
{
    if (h->n_holes == N_HOLES) {
        memmove(h->holes, h->holes + 1, (N_HOLES - 1) * sizeof h->holes[0]);
        h->n_holes--;
    }
    h->holes[h->n_holes++] = (struct hole) { time, start, end_seq };
}

/* Data in [start, end_seq) came late.  Returns when what is behind it came, if it
 * was not there yet, else 0. */
static uint64_t
fill_hole(struct half *h, uint32_t start, uint32_t end_seq)
{
    unsigned int i;

    for (i = 0; i < h->n_holes; i++) {
        struct hole *hole = &h->holes[i], old = *hole;

        if (!seq_after(end_seq, old.start) || !seq_after(old.end, start)) {
            continue;
        }
        if (seq_after(start, old.start)) {
            hole->end = start;
            if (seq_after(old.end, end_seq)) {
                add_hole(h, old.time, end_seq, old.end);
            }
        } else if (seq_after(old.end, end_seq)) {
            hole->start = end_seq;
        } else {
            memmove(hole, hole + 1, (h->n_holes - i - 1u) * sizeof *hole);
            h->n_holes--;
        }
        return old.time;
    }
    return 0;
}

/* How long no data went and nothing was said of it before this.  0 if less than a timer
 * waits: what an ACK makes the other end send comes a round-trip time after it. */
static uint64_t
quiet_for(const struct tap *tap, int end, uint64_t now)
{
    const struct half *h = &tap->half[end];
    uint64_t last = h->last_data > h->last_news ? h->last_data : h->last_news;
    uint64_t quiet = now > last ? now - last : 0;
    uint64_t rtt = half_rtt(tap, end);

    return quiet > (rtt ? rtt + rtt / 2 : TIMER_NS) ? quiet : 0;
}

/* The last data is sent again after 'quiet', and what is before it is not, or all of it was
 * acknowledged and the ACK is late: a tail loss probe, the guest's (RFC 8985 section 7) or
 * sooner the switch's (tail_probe), which alone says nothing of a loss.  If nothing is before
 * it, it is the switch's as long as it is too early for a timeout. */
static bool
note_tail_probe(struct tap *tap, int end, const struct segment *s,
                uint64_t quiet)
{
    struct half *h = &tap->half[end];
    uint32_t end_seq = s->seq + s->payload + !!(s->flags & ACDC_TCP_FIN);
    bool early = quiet < RTO_MIN_NS && (tap->acdc || !half_flight(h));
    bool tail = quiet && end_seq == h->snd_max
                && (seq_after(s->seq, h->snd_una) || early);

    h->total.probes += tail;
    h->round.sums.probes += tail;
    return tail;
}

static void
note_timeout(struct half *h, uint64_t wait)
{
    h->total.timeouts++;
    h->round.sums.timeouts++;
    if (!h->timeout_min || wait < h->timeout_min) {
        h->timeout_min = wait;
    }
    if (wait > h->timeout_max) {
        h->timeout_max = wait;
    }
}

/* A segment sent again.  Returns the limit in which the time until then was
 * spent. */
static enum limit
note_again(struct tap *tap, int end, const struct segment *s, enum limit limit,
           bool *timeout)
{
    struct half *h = &tap->half[end];
    uint64_t quiet = quiet_for(tap, end, s->time);

    h->total.retransmitted++;
    h->round.sums.retransmitted++;
    mark_again(h, s->seq, s->seq + s->payload + !!(s->flags & ACDC_TCP_FIN));
    if (note_tail_probe(tap, end, s, quiet)) {
        return limit;
    }
    h->recovering = half_flight(h) != 0;
    h->recover = h->snd_max;
    if (quiet <= TIMER_NS || (h->sacked && quiet <= RACK_NS)) {
        return limit == LIMIT_NONE ? limit : LIMIT_LOSS;
    }
    note_timeout(h, quiet);
    *timeout = true;
    return LIMIT_TIMEOUT;
}

/* Bytes of a segment beyond all windows that were told. */
static void
note_beyond(struct half *h, const struct segment *s, uint32_t end_seq)
{
    if (h->edge_valid && s->payload > 1 && seq_after(end_seq, h->edge)) {
        uint32_t beyond = end_seq - h->edge;

        h->beyond += beyond < s->payload ? beyond : s->payload;
    }
}

static void
begin(struct tap *tap, int end, uint32_t seq)
{
    struct half *h = &tap->half[end];

    h->begun = true;
    h->snd_una = h->snd_max = h->recover = h->full = seq;
    h->n_holes = 0;
    h->sent_first = h->sent_n = 0;
    h->recovering = h->round.open = false;
    if (h->replay) {
        h->replay->based = false;
    }
    h->edge_valid = h->edge_valid && seq_after(h->edge, seq)
                    && h->edge - seq < ACDC_WINDOW_MAX;
}

static bool
note_new(struct half *h, const struct segment *s, uint32_t end_seq)
{
    if (seq_after(s->seq, h->snd_max)) {
        add_hole(h, s->time, h->snd_max, s->seq);
    }
    h->snd_max = end_seq;
    note_flight(h);
    return push_sent(h, s->time, end_seq);
}

static void
add_data(struct sums *sums, const struct segment *s)
{
    sums->segments++;
    sums->sent += s->payload;
    if (s->ecn == ACDC_ECN_CE) {
        sums->ce += s->payload;
    }
}

/* Whether it is a keep-alive, or a probe of a closed window, of Linux or with a byte of new
 * data as of Windows and BSD (RFC 9293 sections 3.8.4, 3.8.6.1). */
static bool
is_probe(const struct half *h, const struct segment *s)
{
    bool new = s->payload && s->seq == h->snd_max && !(s->flags & ACDC_TCP_FIN);

    return s->payload <= 1 && !half_flight(h)
           && (s->seq + 1 == h->snd_max || (new && !h->window));
}

/* A segment, which is no SYN.  Sets '*limit' to what the time until then was spent in,
 * '*timeout' if the sender's timer expired.  False without memory. */
static bool
note_data(struct tap *tap, int end, const struct segment *s,
          enum limit *limit, bool *timeout)
{
    struct half *h = &tap->half[end];
    bool fin = s->flags & ACDC_TCP_FIN;
    uint32_t end_seq = s->seq + s->payload + fin;

    if (s->payload && !h->first_data) {
        h->first_data = s->time;
        spend(h, s->time, LIMIT_NONE);
    }
    if (s->payload && !h->round.open) {
        open_round(h, s->time, seq_after(end_seq, h->snd_max) ? end_seq
                                                              : h->snd_max);
    }
    if (seq_after(end_seq, h->snd_max)) {
        note_beyond(h, s, end_seq);
        h->partial = s->payload % conn_mss(tap, end) != 0
                     && !(h->edge_valid && end_seq == h->edge);
        if (!note_new(h, s, end_seq)) {
            return false;
        }
    } else if (s->payload || h->fin) {
        uint64_t since = fill_hole(h, s->seq, end_seq);
        uint64_t rtt = half_rtt(tap, end);

        /* Of several queues what is later in the file may be earlier. */
        if (since && s->time < since + (rtt > REORDER_NS ? rtt : REORDER_NS)) {
            h->total.reordered++;
            h->round.sums.reordered++;
        } else {
            *limit = note_again(tap, end, s, *limit, timeout);
        }
    }
    if (s->payload) {
        add_data(&h->total, s);
        add_data(&h->round.sums, s);
        h->last_data = s->time;
        if (s->payload > h->payload_max) {
            h->payload_max = s->payload;
        }
    }
    return true;
}

/* The window was full until an ACK came, and this is what it made the sender send: the
 * time between is that to the sender and back. */
static void
note_answer(struct tap *tap, int end, const struct segment *s)
{
    struct half *h = &tap->half[end];

    if (h->freed && s->payload) {
        note_rtt_min(&tap->half[!end], s->time > h->freed ? s->time - h->freed : 1);
        h->freed = 0;
    }
}

/* Data that has the timestamp of an ACK was sent after it.  If data that was sent before
 * it has come since, the sender did not wait, and the time between is that to it and back. */
static void
note_echo(struct half *h, const struct segment *s)
{
    if (!h->echo.time || !s->timestamps || !s->payload) {
        return;
    }
    if (seq_after(h->echo.val, s->ts_ecr)) {
        h->echo.late = true;
        return;
    }
    if (h->echo.late && s->ts_ecr == h->echo.val && s->time > h->echo.time) {
        h->echo.rtt_ns += s->time - h->echo.time;
        h->echo.rtt_samples++;
    }
    h->echo.time = 0;
}

static void
expect_echo(struct half *h, const struct segment *s)
{
    bool new = !h->echo.val || seq_after(s->ts_val, h->echo.val);

    if (s->timestamps && !h->echo.time && new) {
        h->echo.val = s->ts_val;
        h->echo.late = false;
        h->echo.time = s->time;
    }
}

bool
half_data(struct trace *t, struct conn *c, struct tap *tap, int end,
          const struct segment *segment)
{
    struct half *h = &tap->half[end];
    struct segment data = *segment;
    const struct segment *s = &data;
    bool fin = s->flags & ACDC_TCP_FIN, syn = s->flags & ACDC_TCP_SYN;
    uint32_t seq = data.seq += syn;
    struct law_event event = { 0, false, false };
    enum limit limit;

    /* More in flight than a window: its ACKs are missing. */
    if (syn || !h->begun || seq - h->snd_una + RESYNC > half_flight(h) + 2u * RESYNC
        || half_flight(h) > ACDC_WINDOW_MAX) {
        if (syn && h->begun && h->first_data) {
            mark_again(h, h->snd_una, h->snd_max);
            return true;        /* Sent again, or of nobody. */
        }
        begin(tap, end, s->payload ? seq : segment->seq);
        if (syn && !s->payload) {
            h->snd_max = seq;
            return push_sent(h, s->time, seq);
        }
    }
    if (!(s->payload || fin) || s->fack || is_probe(h, s)) {
        return true;
    }
    limit = limit_now(c, tap, end);
    if (!note_data(tap, end, s, &limit, &event.timeout)) {
        return false;
    }
    h->fin = h->fin || fin;
    if (limit_window_is_full(c, tap, end)) {
        h->full = h->snd_max;
    }
    spend(h, s->time, limit);
    limit_late_answer(tap, end, s->time);
    note_answer(tap, end, s);
    note_echo(h, s);
    if (event.timeout) {
        law_note(t, tap, end, NULL, &event);
    }
    return true;
}

/* Acknowledgments. ---------------------------------------------------------- */

static void
note_window(const struct trace *t, const struct conn *c, struct tap *tap,
            int end, const struct segment *s)
{
    struct half *h = &tap->half[end];
    bool syn = s->flags & ACDC_TCP_SYN;
    bool known = (tap->end[0].syn && tap->end[1].syn) || t->options.scale >= 0;
    bool scaled = tap->end[0].has_wscale && tap->end[1].has_wscale;
    struct tap *guest = c->tap[SIDE_FIRST];
    uint32_t edge;

    if (!known) {
        h->window = s->window ? UNKNOWN : 0;    /* Of any scale. */
        return;
    }
    h->window = (uint32_t) s->window
                << (!syn && scaled ? tap->end[!end].wscale : 0);
    h->offered = conn_offered(c, end);
    if (guest && guest != tap && guest->half[end].last_ack == s->time) {
        guest->half[end].offered = h->window;   /* It is the same ACK, read later. */
    }
    edge = s->ack + h->window;
    if (!h->edge_valid || seq_after(edge, h->edge)) {
        h->edge_valid = true;
        h->edge = edge;
    }
}

/* New data is acknowledged. */
static void
advance(struct tap *tap, int end, const struct segment *s, uint32_t acked,
        enum limit limit)
{
    struct half *h = &tap->half[end];
    uint64_t rtt = pop_sent(h, s->time, s->ack);
    uint32_t payload = acked;

    limit_late_ack(tap, end, s, acked, rtt, limit);
    if (h->fin && s->ack == h->snd_max && !h->fin_acked) {
        h->fin_acked = true;
        payload--;
    }
    payload = h->first_data ? payload : 0;      /* Only the SYN. */
    if (rtt && h->first_data) {
        note_rtt(h, rtt);
    } else if (rtt && !h->rtt_min) {
        note_rtt_min(h, rtt);   /* Of the handshake. */
    }
    h->snd_una = s->ack;
    if (!seq_after(h->full, s->ack)) {
        h->full = s->ack;       /* Else it seems ahead after 2 GiB. */
    }
    h->dupacks = 0;
    h->total.acked += payload;
    h->round.sums.acked += payload;
    if (h->recovering && !seq_after(h->recover, s->ack)) {
        h->recovering = false;
    }
    while (h->n_holes && !seq_after(h->holes[0].end, s->ack)) {
        memmove(h->holes, h->holes + 1, (N_HOLES - 1) * sizeof h->holes[0]);
        h->n_holes--;
    }
    spend(h, s->time, limit);
}

/* Whether it is the third duplicate ACK (RFC 5681 section 2). */
static bool
shows_loss(struct half *h, const struct segment *s, uint32_t window)
{
    if (s->ack != h->snd_una || s->payload || s->fack || !half_flight(h)
        || h->window != window || (s->flags & (ACDC_TCP_SYN | ACDC_TCP_FIN))) {
        return false;
    }
    return h->dupacks < 3 && ++h->dupacks == 3;
}

/* The first SYN-ACK says what a server has taken of a SYN's data (RFC 7413).  The rest is
 * not lost. */
static void
take_syn_data(struct half *h, uint32_t ack)
{
    if (seq_after(h->snd_max, ack) && !seq_after(h->snd_una, ack)) {
        h->snd_max = ack;
        h->sent_n = 0;
    }
}

void
half_ack(struct trace *t, struct conn *c, struct tap *tap, int end,
         const struct segment *s)
{
    struct half *h = &tap->half[end];
    struct law_event event = { 0, false, false };
    /* Of the time before this ACK. */
    enum limit limit = limit_now(c, tap, end);
    bool full = limit_window_is_full(c, tap, end);
    uint32_t window = h->window;
    /* Else it is the other end's data that has an ACK by the way. */
    bool news = !(s->payload || s->fack) || s->sack || seq_after(s->ack, h->snd_una);

    if (!h->begun) {
        begin(tap, end, s->ack);
    }
    if (s->payload) {
        h->late.wait = 0;       /* What follows may be its answer. */
    }
    if (seq_after(s->ack, h->snd_max)) {
        /* Of data that the capture lacks. */
        if (s->ack - h->snd_max > RESYNC) {
            return;
        }
        h->snd_max = s->ack;
    }
    if (!s->fack) {
        h->sacked = s->sack;
        note_window(t, c, tap, end, s);
    } else {
        h->total.facks++;
    }
    h->ece_seen = h->ece_seen
                  || ((s->flags & (ACDC_TCP_ECE | ACDC_TCP_SYN)) == ACDC_TCP_ECE);
    if ((s->flags & ACDC_TCP_SYN) && !h->last_ack) {
        limit = LIMIT_NONE;
        take_syn_data(h, s->ack);
    }
    if (seq_after(s->ack, h->snd_una)) {
        event.acked = s->ack - h->snd_una;
        advance(tap, end, s, event.acked, limit);
        h->freed = full && h->first_data ? s->time : 0;
    } else {
        if (h->first_data && (news || h->window != window)) {
            spend(h, s->time, limit);
        }
        event.loss = shows_loss(h, s, window);
    }
    law_note(t, tap, end, s, &event);
    expect_echo(h, s);
    h->last_ack = s->time;
    h->last_news = news ? s->time : h->last_news;
    if (h->round.open && !seq_after(h->round.end_seq, s->ack)) {
        close_round(t, c, tap, end);
    }
}
