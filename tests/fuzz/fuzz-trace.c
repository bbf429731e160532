/* SPDX-License-Identifier: Apache-2.0 */

/* acdc-trace on any packets: frames as they are, and segments of two connections whose
 * numbers are near each other, so that they are taken for data and ACKs.  Nothing
 * is read outside of a frame, time is spent once, memory is bounded and freed. */

#include <stdlib.h>

#include <pcap/dlt.h>

#include "trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

enum { FIELDS = 12, MAX_CONNECTIONS = 3 };

static const int link_types[] = {
    DLT_EN10MB, DLT_LINUX_SLL, DLT_LINUX_SLL2, DLT_RAW, DLT_NULL
};

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void
fill(struct segment *s, const uint8_t *in)
{
    bool back = in[0] & 1;

    memset(s, 0, sizeof *s);
    memset(s->addr[back], 1, sizeof s->addr[0]);
    memset(s->addr[!back], 2, sizeof s->addr[0]);
    s->port[back] = (uint16_t) (in[0] >> 1 & 1);
    s->port[!back] = 80;
    s->flags = in[1];
    s->seq = (uint32_t) (in[2] * 100 - 5000);
    s->ack = (uint32_t) (in[3] * 100 - 5000) + (in[0] & 4 ? 1u << 31 : 0);
    s->payload = in[4] * 30u;
    s->window = (uint16_t) (in[5] << 8 | in[6]);
    s->ecn = in[7] & 3;
    s->fack = in[7] & 4;
    s->feedback = in[7] & 8;
    s->capability = in[7] & 16;
    s->has_wscale = in[7] & 32;
    s->timestamps = in[7] & 64;
    s->wscale = in[8] % (ACDC_WSCALE_MAX + 1);
    s->mss = (uint16_t) (in[9] * 40);
    s->fb_ce = in[10] * 100u;
    s->fb_total = in[11] * 100u - 3000;
}

static bool
read_one(struct trace *t, const uint8_t **in, size_t *left, struct segment *s)
{
    uint8_t kind = (*in)[0];
    bool good = true;
    size_t n;

    if (kind & 128) {
        /* Of a copy that ends where the frame does, for AddressSanitizer. */
        uint8_t *copy;

        n = 1 + (kind & 127);
        n = n < *left ? n : *left;
        copy = malloc(n - 1);
        check(copy || n == 1);
        if (n > 1) {
            memcpy(copy, *in + 1, n - 1);
        }
        good = frame_read(copy, (uint32_t) n - 1,
                          (uint32_t) (n - 1) * (1 + kind % 3u),
                          link_types[kind % 5], ACDC_OPT_EXID, s, &t->frames);
        free(copy);
    } else {
        n = 1 + FIELDS;
        if (n > *left) {
            *left = 0;
            return false;
        }
        fill(s, *in + 1);
    }
    s->side = kind >> 6 & 1 ? SIDE_WIRE : SIDE_FIRST;
    t->now += 1ull << kind % 36;
    /* Some are in the file later than they came. */
    s->time = t->now - (kind & 8 ? (t->now - t->start) % NS_PER_S : 0);
    *in += n;
    *left -= n;
    return good;
}

static void
check_half(const struct trace *t, const struct half *h)
{
    uint64_t spent = 0;
    int i;

    for (i = 0; i < N_LIMITS; i++) {
        spent += h->limits[i];
    }
    check(spent <= t->now - t->start);
    check(h->sent_first + h->sent_n <= h->sent_size);
    check(h->sent_size <= SENT_MAX && h->n_holes <= N_HOLES);
    check(!h->begun || h->snd_max - h->snd_una <= INT32_MAX);
}

static void
check_all(const struct trace *t)
{
    unsigned int state, side;
    uint32_t n = 0;

    for (state = 0; state < N_CONN_STATES; state++) {
        const struct conn *c;

        for (c = t->list[state].oldest; c; c = c->newer, n++) {
            for (side = 0; side < N_SIDES; side++) {
                if (c->tap[side]) {
                    check_half(t, &c->tap[side]->half[0]);
                    check_half(t, &c->tap[side]->half[1]);
                }
            }
        }
    }
    check(n == t->n_open && n <= MAX_CONNECTIONS);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *out;
    struct trace t = {
        .options = {
            .exid = ACDC_OPT_EXID, .idle = NS_PER_S,
            .max_connections = MAX_CONNECTIONS,
            .params = { .gain = ACDC_FIX_ONE / 16, .beta = ACDC_FIX_ONE,
                        .initial_window = 10 },
        },
        .start = NS_PER_S, .now = NS_PER_S,
    };
    struct segment s;

    if (!size) {
        return 0;
    }
    if (!out) {
        out = fopen("/dev/null", "w");
    }
    t.out = out;
    t.options.format = data[0] % 3;
    t.options.summary = data[0] & 4;
    t.options.two = data[0] & 8;
    data++;
    size--;
    check(table_init(&t));
    output_start(&t);
    while (size) {
        if (read_one(&t, &data, &size, &s)) {
            table_segment(&t, &s);
        }
        table_expire(&t, t.now);
        check_all(&t);
    }
    table_end(&t);
    output_end(&t);
    check(!t.failed && !t.n_open);
    return 0;
}
