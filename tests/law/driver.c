/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The engine's law as a shared library for Python (engine.py): one flow, all
 * values as 32-bit integers. */

#include <stdlib.h>

#include "acdc-law.h"

struct driver {
    struct acdc_law law;
    struct acdc_params params;
    struct acdc_facts facts;
    struct acdc_undo undo;
};

struct driver *driver_new(void);
void driver_free(struct driver *);
void driver_params(struct driver *, uint32_t beta, uint32_t gain,
                   uint32_t initial_window, uint32_t min_window,
                   uint32_t max_window, uint32_t spread_cuts);
void driver_salt(struct driver *, uint32_t salt);
void driver_one_segment(struct driver *, uint32_t one_segment);
void driver_paced(struct driver *, uint32_t paced);
void driver_env(struct driver *, uint32_t mss, uint32_t snd_una,
                uint32_t snd_nxt, uint32_t now_ms, uint32_t srtt_us);
void driver_init(struct driver *, uint32_t algorithm);
void driver_switch(struct driver *, uint32_t algorithm);
void driver_clamp(struct driver *);
uint32_t driver_ack(struct driver *, uint32_t acked, uint32_t delivered,
                    uint32_t ce, uint32_t total, uint32_t rtt_us);
void driver_report(struct driver *, uint32_t net_rtt_us, uint32_t queue_us);
uint32_t driver_loss(struct driver *);
uint32_t driver_undo(struct driver *);
void driver_settle(struct driver *);
void driver_timeout(struct driver *);
uint32_t driver_idle(struct driver *);
uint32_t driver_wnd(const struct driver *);
uint32_t driver_ssthresh(const struct driver *);
uint32_t driver_alpha(const struct driver *);

struct driver *
driver_new(void)
{
    struct driver *d = calloc(1, sizeof *d);

    if (!d) {
        abort();
    }
    d->facts.params = &d->params;
    d->facts.undo = &d->undo;
    return d;
}

void
driver_free(struct driver *d)
{
    free(d);
}

void
driver_params(struct driver *d, uint32_t beta, uint32_t gain,
              uint32_t initial_window, uint32_t min_window,
              uint32_t max_window, uint32_t spread_cuts)
{
    d->params.beta = beta;
    d->params.gain = gain;
    d->params.initial_window = initial_window;
    d->params.min_window = min_window;
    d->params.max_window = max_window;
    d->params.spread_cuts = spread_cuts;
}

void
driver_salt(struct driver *d, uint32_t salt)
{
    d->facts.salt = salt;
}

void
driver_one_segment(struct driver *d, uint32_t one_segment)
{
    d->facts.one_segment = one_segment;
}

void
driver_paced(struct driver *d, uint32_t paced)
{
    d->facts.paced = paced;
}

void
driver_env(struct driver *d, uint32_t mss, uint32_t snd_una, uint32_t snd_nxt,
           uint32_t now_ms, uint32_t srtt_us)
{
    d->facts.mss = mss;
    d->facts.snd_una = snd_una;
    d->facts.snd_nxt = snd_nxt;
    d->facts.now_ms = now_ms;
    d->facts.srtt_us = srtt_us;
}

/* A window of data, as of the event that comes next. */
static void
note_window(struct driver *d)
{
    uint32_t flight = d->facts.snd_nxt - d->facts.snd_una;

    d->facts.window = flight < d->law.wnd ? flight : d->law.wnd;
}

void
driver_init(struct driver *d, uint32_t algorithm)
{
    acdc_law_init(&d->law, &d->facts, (enum acdc_algorithm) algorithm);
}

void
driver_switch(struct driver *d, uint32_t algorithm)
{
    acdc_law_switch(&d->law, (enum acdc_algorithm) algorithm);
}

void
driver_clamp(struct driver *d)
{
    acdc_law_clamp(&d->law, &d->facts);
}

/* Of the ACK that comes next: its report of a marked segment. */
void
driver_report(struct driver *d, uint32_t net_rtt_us, uint32_t queue_us)
{
    d->facts.net_rtt_us = net_rtt_us;
    d->facts.queue_us = queue_us;
}

uint32_t
driver_ack(struct driver *d, uint32_t acked, uint32_t delivered, uint32_t ce,
           uint32_t total, uint32_t rtt_us)
{
    uint32_t cut;

    if (rtt_us) {
        /* All within an epoch. */
        acdc_law_note_rtt(&d->law, rtt_us, 0);
    }
    note_window(d);
    d->facts.acked = acked;
    d->facts.delivered = delivered;
    acdc_law_deliver(&d->law, delivered);
    d->facts.ce = ce;
    d->facts.total = total;
    d->facts.rtt_us = rtt_us;
    d->facts.min_rtt_us = acdc_law_min_rtt_us(&d->law);
    cut = acdc_law_ack(&d->law, &d->facts);
    /* Other events know nothing of these. */
    d->facts.acked = d->facts.delivered = d->facts.ce = d->facts.total = 0;
    d->facts.rtt_us = 0;
    driver_report(d, 0, 0);
    return cut;
}

uint32_t
driver_loss(struct driver *d)
{
    note_window(d);
    return acdc_law_loss(&d->law, &d->facts);
}

uint32_t
driver_undo(struct driver *d)
{
    note_window(d);
    return acdc_law_undo(&d->law, &d->facts);
}

/* It was a loss: nothing is to be undone any more. */
void
driver_settle(struct driver *d)
{
    d->undo.wnd = 0;
}

void
driver_timeout(struct driver *d)
{
    note_window(d);
    acdc_law_timeout(&d->law, &d->facts);
}

uint32_t
driver_idle(struct driver *d)
{
    return acdc_law_idle(&d->law, &d->facts);
}

uint32_t
driver_wnd(const struct driver *d)
{
    return d->law.wnd;
}

uint32_t
driver_ssthresh(const struct driver *d)
{
    return acdc_law_ssthresh(&d->law);
}

uint32_t
driver_alpha(const struct driver *d)
{
    return acdc_law_alpha(&d->law);
}
