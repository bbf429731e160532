/* SPDX-License-Identifier: Apache-2.0 */

/* What limits a direction at the moment. */

#include "trace.h"

/* Linux waits 40 to 200 ms with an ACK, Windows 40 to 200, BSD 100. */
#define DELAYED_ACK_MIN_NS (30 * NS_PER_MS)
#define DELAYED_ACK_MAX_NS (250 * NS_PER_MS)
/* What waited for an ACK is sent at once. */
#define ANSWER_NS (10 * NS_PER_MS)

/* Whose window is in the way. */
static enum limit
window_limit(const struct conn *c, const struct tap *tap, int end)
{
    uint32_t told = conn_told(c, end), offered = conn_offered(c, end);
    uint32_t unit = 1u << tap->end[!end].wscale;
    const struct replay *r = conn_replay(c, end);

    if (told != UNKNOWN && offered != UNKNOWN) {
        /* On the wire there may be a later one. */
        offered = tap->half[end].offered;
    }
    if (tap->half[end].window == 0 && (offered == UNKNOWN || offered == 0)) {
        return LIMIT_RECEIVER;  /* The switch closes none. */
    }
    if (told != UNKNOWN && offered != UNKNOWN) {
        return told + unit < offered ? LIMIT_SWITCH : LIMIT_RECEIVER;
    }
    if (offered != UNKNOWN) {
        return r && r->law.wnd < offered ? LIMIT_SWITCH : LIMIT_RECEIVER;
    }
    return told != UNKNOWN ? LIMIT_WINDOW : LIMIT_UNKNOWN;
}

/* Bytes that may still be sent.  On the wire the switch's window is not seen, but
 * what the law makes of the same feedback. */
static uint32_t
window_left(const struct conn *c, const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];
    const struct replay *r = conn_replay(c, end);
    uint32_t left = UNKNOWN;

    if (h->edge_valid) {
        left = seq_after(h->edge, h->snd_max) ? h->edge - h->snd_max : 0;
    } else if (!h->window) {
        left = 0;
    }
    if (r && tap->acdc) {
        uint32_t own = r->law.wnd > half_flight(h) ? r->law.wnd - half_flight(h) : 0;

        left = own < left ? own : left;
    }
    return left;
}

bool
limit_window_is_full(const struct conn *c, const struct tap *tap, int end)
{
    return window_left(c, tap, end) < conn_mss(tap, end);
}

/* Once full, a window limits until a third of it is free: Linux waits as long
 * (tcp_tso_should_defer()). */
static bool
window_limits(const struct conn *c, const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];

    return limit_window_is_full(c, tap, end)
           || (seq_after(h->full, h->snd_una)
               && window_left(c, tap, end) <= half_flight(h) / 2);
}

enum limit
limit_now(const struct conn *c, const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];

    if (!h->first_data || (h->fin && !half_flight(h))) {
        return LIMIT_NONE;
    }
    if (h->recovering) {
        return LIMIT_LOSS;
    }
    /* Of less than a segment nothing is sent (RFC 9293 section 3.8.6.2.1). */
    if (window_limits(c, tap, end)
        && (half_flight(h) || h->window < conn_mss(tap, end))) {
        return window_limit(c, tap, end);
    }
    if (!half_flight(h) || h->fin) {
        return LIMIT_APPLICATION;
    }
    /* A segment is not full as that was the end of the window, too. */
    if (h->window == UNKNOWN) {
        return LIMIT_UNKNOWN;
    }
    return h->partial ? LIMIT_APPLICATION : LIMIT_SENDER;
}

/* Whether the other end held this ACK back, as it waited for more data or for its
 * own.  Whether the sender waited for it, is seen by what it sends then. */
void
limit_late_ack(struct tap *tap, int end, const struct segment *s, uint32_t acked,
               uint64_t rtt, enum limit limit)
{
    struct half *h = &tap->half[end];
    bool alone = s->ack == h->snd_max && acked < 2 * conn_mss(tap, end) && !s->payload;

    h->late.wait = 0;
    if (alone && !h->recovering && h->rtt_min && rtt > 4 * h->rtt_min
        && rtt >= DELAYED_ACK_MIN_NS && rtt <= DELAYED_ACK_MAX_NS && h->first_data) {
        h->late.wait = rtt;
        h->late.time = s->time;
        h->late.limit = limit;
        h->late.spent = s->time > h->last_event ? s->time - h->last_event : 0;
    }
}

void
limit_late_answer(struct tap *tap, int end, uint64_t now)
{
    struct half *h = &tap->half[end];
    uint64_t wait = h->late.wait;

    h->late.wait = 0;
    if (!wait || now > h->late.time + tap->half[!end].rtt_min + ANSWER_NS) {
        return;
    }
    h->limits[h->late.limit] -= h->late.spent;
    h->limits[LIMIT_DELAYED_ACK] += h->late.spent;
    h->delayed_acks++;
    if (!h->delayed_min || wait < h->delayed_min) {
        h->delayed_min = wait;
    }
    if (wait > h->delayed_max) {
        h->delayed_max = wait;
    }
}
