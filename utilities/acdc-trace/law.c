/* SPDX-License-Identifier: Apache-2.0 */

/* The engine's law, run again on the feedback that a capture of the wire has: what
 * alpha and window are in the switch of the sender, if its parameters are as
 * given. */

#include "trace.h"

#include <stdlib.h>

static void
get_facts(const struct trace *t, const struct tap *tap, int end,
          struct acdc_facts *facts)
{
    const struct half *h = &tap->half[end];
    uint32_t flight = h->snd_max - h->snd_una;
    const struct replay *r = h->replay;

    memset(facts, 0, sizeof *facts);
    facts->params = &t->options.params;
    facts->mss = conn_mss(tap, end);
    facts->snd_una = h->snd_una;
    facts->snd_nxt = h->snd_max;
    facts->window = flight < r->law.wnd ? flight : r->law.wnd;
    facts->now_ms = (uint32_t) (t->now / NS_PER_MS);
    facts->srtt_us = (uint32_t) (half_rtt(tap, end) / 1000);
}

/* Begins with the first report, which counts from the handshake. */
static struct replay *
start(struct trace *t, struct tap *tap, int end)
{
    struct replay *r = calloc(1, sizeof *r);
    struct acdc_facts facts;

    if (!r) {
        t->failed = true;
        return NULL;
    }
    tap->half[end].replay = r;
    r->law.wnd = UINT32_MAX;
    get_facts(t, tap, end, &facts);
    acdc_law_init(&r->law, &facts, ACDC_ALG_DCTCP);
    r->based = tap->end[0].syn && tap->end[1].syn;
    return r;
}

/* What the report adds to the one before; nothing if that is impossible, or not known:
 * the numbers come round. */
static void
read_report(struct replay *r, const struct segment *s, uint32_t *ce,
            uint32_t *total)
{
    uint32_t new_total = s->fb_total - r->fb_total;
    uint32_t new_ce = s->fb_ce - r->fb_ce;

    if (r->based && r->silent <= ACDC_WINDOW_MAX) {
        if (seq_after(r->fb_total, s->fb_total) || new_ce > new_total) {
            return;
        }
        *ce = new_ce;
        *total = new_total;
    }
    r->based = true;
    r->fb_ce = s->fb_ce;
    r->fb_total = s->fb_total;
    r->silent = 0;
}

/* After so much without a report the switch gives up (acdc-ingress-steps.c,
 * note_silence()). */
static void
note_silence(struct half *h, uint32_t mss, const struct segment *s,
             uint32_t acked)
{
    struct replay *r = h->replay;

    r->silent += acked;
    if (!h->feedback_lost
        && r->silent > 4 * (uint64_t) r->law.wnd + 64 * (uint64_t) mss) {
        h->feedback_lost = true;
        h->feedback_lost_at = s->time;
    }
}

void
law_note(struct trace *t, struct tap *tap, int end, const struct segment *s,
         const struct law_event *event)
{
    struct half *h = &tap->half[end];
    struct acdc_facts facts;
    struct replay *r = h->replay;
    uint32_t ce = 0, total = 0;

    if (!r) {
        bool capable = tap->end[0].capability && tap->end[1].capability;

        if (!s || !(s->feedback || (capable && event->acked && h->first_data))) {
            return;
        }
        r = start(t, tap, end);
        if (!r) {
            return;
        }
    }
    if (s && s->feedback) {
        read_report(r, s, &ce, &total);
        h->total.fb_ce += ce;
        h->total.fb_total += total;
    } else if (s) {
        note_silence(h, conn_mss(tap, end), s, event->acked);
    }
    get_facts(t, tap, end, &facts);
    facts.acked = event->acked;
    facts.delivered = event->acked && !h->recovering ? event->acked : total;
    facts.ce = ce;
    facts.total = total;
    if (facts.acked || facts.total) {
        acdc_law_deliver(&r->law, facts.delivered);
        acdc_law_ack(&r->law, &facts);
    }
    if (event->loss) {
        acdc_law_loss(&r->law, &facts);
    } else if (event->timeout) {
        acdc_law_timeout(&r->law, &facts);
    }
}
