/* SPDX-License-Identifier: Apache-2.0 */

/* What was found, in words. */

#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>

const char *const limit_names[N_LIMITS] = {
    [LIMIT_NONE] = "none",
    [LIMIT_APPLICATION] = "application",
    [LIMIT_RECEIVER] = "receiver",
    [LIMIT_SWITCH] = "switch",
    [LIMIT_WINDOW] = "window",
    [LIMIT_UNKNOWN] = "no-handshake",
    [LIMIT_SENDER] = "sender",
    [LIMIT_LOSS] = "loss",
    [LIMIT_TIMEOUT] = "timeout",
    [LIMIT_DELAYED_ACK] = "delayed-ack",
};

static const char *const limit_words[N_LIMITS] = {
    [LIMIT_APPLICATION] = "limited by the application, which had no more to send",
    [LIMIT_RECEIVER] = "limited by the receiver's window",
    [LIMIT_SWITCH] = "limited by the window of the switch",
    [LIMIT_WINDOW] = "limited by the window it was told, the receiver's or the switch's: "
                     "a capture of the wire beside this one tells which",
    [LIMIT_UNKNOWN] = "limited by a window or by the sender's own: the capture lacks the handshake, "
                      "which has the scale of windows (--scale)",
    [LIMIT_SENDER] = "limited by the sender's own congestion window",
    [LIMIT_LOSS] = "limited by loss: sending again what was lost",
    [LIMIT_TIMEOUT] = "limited by loss: waiting for retransmission timeouts",
    [LIMIT_DELAYED_ACK] = "limited by delayed ACKs of the receiver",
};

/* The least of so many round-trip times has little of a busy machine's delays. */
enum { RTT_MIN_SAMPLES = 4 };

struct sayer {
    void (*say)(void *aux, const char *cause, const char *words);
    void *aux;
};

static void __attribute__((format(printf, 3, 4)))
say(const struct sayer *to, const char *cause, const char *format, ...)
{
    char words[300];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    to->say(to->aux, cause, words);
}

static double
ms(uint64_t ns)
{
    return (double) ns / (double) NS_PER_MS;
}

/* The sender's side may have one sample only, the handshake's, which then is to be
 * beyond what the receiver's takes in the mean.  Without the handshake it has what
 * timestamps tell, in the mean, too. */
static bool
is_near_receiver(const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end], *other = &tap->half[!end];
    bool handshake = tap->end[0].syn && tap->end[1].syn;
    bool echoes = !handshake && h->echo.rtt_samples >= RTT_MIN_SAMPLES;
    bool few = echoes || other->rtt_min_samples < RTT_MIN_SAMPLES;
    uint64_t ahead = few && h->total.rtt_samples ? h->total.rtt_ns / h->total.rtt_samples
                                                 : h->rtt_min;
    uint64_t behind = echoes ? h->echo.rtt_ns / h->echo.rtt_samples : other->rtt_min;

    /* In the middle, as well as that can be told, what limits is seen well enough. */
    return ahead && behind && ahead + ahead / 4 < behind;
}

/* The limit that took the longest, with its share. */
static void
say_limit(const struct sayer *to, const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];
    enum limit most = LIMIT_NONE;
    uint64_t total = 0;
    int i;

    for (i = LIMIT_NONE + 1; i < N_LIMITS; i++) {
        total += h->limits[i];
        if (h->limits[i] > h->limits[most] || most == LIMIT_NONE) {
            most = (enum limit) i;
        }
    }
    if (!total || !h->limits[most]) {
        return;
    }
    if (!h->last_ack) {
        say(to, "one-way", "the capture has nothing of the other direction, without which it is "
            "not seen what limits the sender: do ACKs come by another interface?");
        return;
    }
    if (is_near_receiver(tap, end)
        && !(most == LIMIT_RECEIVER || most == LIMIT_TIMEOUT
             || most == LIMIT_DELAYED_ACK || most == LIMIT_LOSS)) {
        say(to, "near-receiver", "captured near the receiver, where it is not seen what "
            "limits the sender");
        return;
    }
    say(to, limit_names[most], "%s (%.0f%% of %.1f ms)", limit_words[most],
        100.0 * (double) h->limits[most] / (double) total, ms(total));
}

static void
say_waits(const struct sayer *to, const struct half *h)
{
    if (h->total.timeouts) {
        say(to, "timeouts", "retransmission timeouts: %" PRIu32 ", of %.0f to %.0f ms, "
            "%.0f ms in all", h->total.timeouts, ms(h->timeout_min),
            ms(h->timeout_max), ms(h->limits[LIMIT_TIMEOUT]));
    }
    if (h->delayed_acks) {
        say(to, "delayed-acks", "delayed ACKs: %" PRIu32 ", of %.0f to %.0f ms, %.0f ms "
            "in all", h->delayed_acks, ms(h->delayed_min), ms(h->delayed_max),
            ms(h->limits[LIMIT_DELAYED_ACK]));
    }
}

/* A path that takes only smaller packets and does not say so looks like loss. */
static void
say_size(const struct sayer *to, const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];
    uint32_t mss = conn_mss(tap, end);
    uint32_t most = h->payload_max < mss ? h->payload_max : mss;

    if (h->total.timeouts > 1 && most > h->acked_max) {
        say(to, "size", "no segment larger than %" PRIu32 " bytes got through at the first "
            "try, of up to %" PRIu32 ": does the path take packets of that size?",
            h->acked_max, most);
    }
}

/* Pacing and On-Ramp do that.  A forwarding switch takes less. */
static void
say_held(const struct sayer *to, const struct half *h)
{
    const struct sums *s = &h->total;

    if (s->held_samples && s->rtt_samples
        && s->held_ns / s->held_samples > s->rtt_ns / s->rtt_samples / 4) {
        say(to, "held", "data was held between the guest's port and the wire: %.0f us in "
            "the mean, %.0f at most",
            (double) s->held_ns / s->held_samples / 1000, (double) s->held_max / 1000);
    }
}

/* Tail probes of the switch are on the wire only. */
static void
say_loss(const struct sayer *to, const struct half *h, const struct half *wire)
{
    uint32_t probes = wire->total.probes;

    if (h->total.retransmitted) {
        say(to, "retransmissions", "sent again: %" PRIu32 " of %" PRIu32 " segments",
            h->total.retransmitted, h->total.segments);
    }
    if (h != wire && probes > h->total.probes) {
        say(to, "tail-probes", "tail loss probes: %" PRIu32 ", of the guest %" PRIu32,
            probes, h->total.probes);
    } else if (h->total.probes) {
        say(to, "tail-probes", "tail loss probes: %" PRIu32, h->total.probes);
    }
}

static void
say_handshake(const struct sayer *to, const struct conn *c,
              const struct tap *tap)
{
    int client = c->client, i;

    for (i = 0; i < 2; i++) {
        if (tap->end[i].syns > 1) {
            say(to, "syn-again", "the %s was sent %d times, the last after %.0f ms",
                i == client ? "SYN" : "SYN-ACK", tap->end[i].syns,
                ms(tap->end[i].syn_wait));
        }
    }
    if (client >= 0 && tap->end[client].capability && tap->end[!client].syn
        && !tap->end[!client].capability) {
        say(to, "no-peer", "the SYN has AC/DC's option, the SYN-ACK has none: the other end "
            "has no AC/DC, or the network removed it");
    }
}

/* Segments in flight when the capture ends have no report yet. */
static void
say_feedback(const struct trace *t, const struct sayer *to,
             const struct tap *tap, int end)
{
    const struct half *h = &tap->half[end];
    uint64_t slack = 4ull * conn_mss(tap, end) + h->total.flight_max;
    uint64_t returned = h->total.fb_ce;

    if (h->feedback_lost) {
        say(to, "feedback-lost", "feedback lost: from %.6f s on the other end's switch did not "
            "report (%" PRIu64 " bytes acknowledged without)",
            (double) (h->feedback_lost_at - t->start) / 1e9, h->replay->silent);
    }
    if (h->total.ce > returned + slack || (h->total.ce && !returned)) {
        if (!h->ece_seen) {
            say(to, "marks-lost", "marks that nobody returned: %" PRIu64 " of %" PRIu64
                " bytes came with CE, %" PRIu64 " were reported",
                h->total.ce, h->total.sent, returned);
        }
    }
}

static void
say_window(const struct sayer *to, const struct conn *c, int end)
{
    const struct tap *tap = conn_main_tap(c), *wire = c->tap[SIDE_WIRE];
    const struct half *h = &tap->half[end];
    uint64_t sent = wire ? wire->half[end].total.sent : 0;

    if (!h->beyond) {
        return;
    }
    if (wire && wire != tap && sent < h->total.sent) {
        say(to, "ignored-window", "the sender ignores the window: %" PRIu64 " bytes beyond it, "
            "%" PRIu64 " bytes did not get to the wire", h->beyond,
            h->total.sent - sent);
    } else {
        say(to, "ignored-window", "the sender ignores the window: %" PRIu64 " bytes beyond it",
            h->beyond);
    }
}

void
verdict(const struct trace *t, const struct conn *c, int end,
        void (*function)(void *aux, const char *cause, const char *words),
        void *aux)
{
    const struct sayer to = { function, aux };
    const struct tap *tap = conn_main_tap(c);
    /* The wire has what is AC/DC's. */
    const struct tap *wire = c->tap[SIDE_WIRE] ? c->tap[SIDE_WIRE] : tap;

    /* Of what is dropped for that, nothing else is a cause. */
    say_window(&to, c, end);
    say_limit(&to, tap, end);
    say_waits(&to, &tap->half[end]);
    say_size(&to, tap, end);
    say_held(&to, &tap->half[end]);
    say_feedback(t, &to, wire, end);
    say_loss(&to, &tap->half[end], &wire->half[end]);
    say_handshake(&to, c, wire);
}
