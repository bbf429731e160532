/* SPDX-License-Identifier: Apache-2.0 */

/* A connection: handshake, and what each capture has of it. */

#include "trace.h"

#include <stdlib.h>

static const struct replay *
tap_replay(const struct tap *tap, int end)
{
    return tap ? tap->half[end].replay : NULL;
}

const struct replay *
conn_replay(const struct conn *c, int end)
{
    const struct replay *r = tap_replay(c->tap[SIDE_WIRE], end);

    return r ? r : tap_replay(c->tap[SIDE_FIRST], end);
}

uint32_t
conn_mss(const struct tap *tap, int end)
{
    uint16_t a = tap->end[0].mss, b = tap->end[1].mss;
    uint32_t mss = a && b ? (a < b ? a : b) : 0;

    if (mss > ACDC_MSS_MIN) {
        return tap->end[0].timestamps && tap->end[1].timestamps ? mss - 12 : mss;
    }
    /* Without the handshake: no more than a capture before segmentation
     * has. */
    mss = tap->half[end].payload_max;
    return mss > ACDC_MSS_MIN ? (mss < 1460 ? mss : 1460) : ACDC_MSS_MIN;
}

uint32_t
conn_offered(const struct conn *c, int end)
{
    const struct tap *wire = c->tap[SIDE_WIRE];

    if (!wire) {
        wire = c->tap[SIDE_FIRST];
        if (!wire->acdc) {
            return UNKNOWN;
        }
    }
    return wire->half[end].window;
}

uint32_t
conn_told(const struct conn *c, int end)
{
    const struct tap *guest = c->tap[SIDE_FIRST];

    return guest && !guest->acdc ? guest->half[end].window : UNKNOWN;
}

static void
note_syn(struct trace *t, struct conn *c, struct tap *tap,
         const struct segment *s, int from)
{
    bool synack = s->flags & ACDC_TCP_ACK;

    /* Who opens at the same time as the other end sends both. */
    if (!tap->end[from].syn || tap->end[from].isn != s->seq
        || tap->end[from].synack != synack) {
        tap->end[from].syn_time = s->time;
        tap->end[from].syns = 0;
    }
    if (tap->end[from].syns < UINT8_MAX) {
        tap->end[from].syns++;
    }
    tap->end[from].syn_wait = s->time > tap->end[from].syn_time
                              ? s->time - tap->end[from].syn_time : 0;
    tap->end[from].syn = true;
    tap->end[from].synack = synack;
    tap->end[from].isn = s->seq;
    tap->end[from].mss = s->mss ? s->mss : ACDC_MSS_DEFAULT4;
    tap->end[from].has_wscale = s->has_wscale;
    tap->end[from].wscale = s->wscale;
    tap->end[from].timestamps = s->timestamps;
    tap->end[from].capability = s->capability;
    /* RFC 3168 section 6.1.1; who asks for AccECN says AE, too, and may get
     * another answer. */
    tap->end[from].ecn = s->flags & ACDC_TCP_ECE;
    tap->acdc = tap->acdc || s->capability;
    c->client = (int8_t) (synack ? !from : from);
    if (!t->start) {
        t->start = s->time;
    }
}

static struct tap *
tap_of(struct trace *t, struct conn *c, enum side side)
{
    if (!c->tap[side]) {
        int i;

        c->tap[side] = calloc(1, sizeof *c->tap[side]);
        if (!c->tap[side]) {
            t->failed = true;
            return NULL;
        }
        for (i = 0; i < 2; i++) {
            c->tap[side]->half[i].window = UNKNOWN;
            c->tap[side]->end[i].has_wscale = t->options.scale >= 0;
            if (t->options.scale >= 0) {
                c->tap[side]->end[i].wscale = (uint8_t) t->options.scale;
            }
        }
    }
    return c->tap[side];
}

bool
conn_segment(struct trace *t, struct conn *c, const struct segment *s,
             int from)
{
    struct tap *tap = tap_of(t, c, s->side);
    uint32_t end_seq = s->seq + s->payload;

    if (!tap) {
        return false;
    }
    tap->acdc = tap->acdc || s->feedback || s->fack;
    if (s->side == SIDE_WIRE && c->tap[SIDE_FIRST] && s->payload
        && seq_after(end_seq, tap->half[from].snd_max)) {
        half_held(c->tap[SIDE_FIRST], from, end_seq, s->time);
    }
    if (s->flags & ACDC_TCP_SYN) {
        note_syn(t, c, tap, s, from);
    }
    c->reset[from] = s->flags & ACDC_TCP_RST;
    if (c->reset[from]) {
        return true;
    }
    if (!half_data(t, c, tap, from, s)) {
        return false;
    }
    if (s->flags & ACDC_TCP_ACK) {
        half_ack(t, c, tap, !from, s);
    }
    return true;
}

void
conn_free(struct conn *c)
{
    int side, end;

    for (side = 0; side < N_SIDES; side++) {
        for (end = 0; c->tap[side] && end < 2; end++) {
            free(c->tap[side]->half[end].sent);
            free(c->tap[side]->half[end].replay);
        }
        free(c->tap[side]);
    }
    free(c);
}
