/* SPDX-License-Identifier: Apache-2.0 */

/* What a conversation is to do: of the seed and its number. */

#include "converse.h"

static uint8_t noise[PERIOD + BULK_CHUNK];

/* SplitMix64 (Steele et al., 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = mix(state);
    return (uint32_t) ((state >> 32) * n >> 32);
}

/* In n percent of cases. */
static bool percent(uint32_t n)
{
    return below(100) < n;
}

/* Between both, each order of magnitude as likely as another. */
static uint32_t spread(uint32_t least, uint32_t most)
{
    uint32_t n = least;

    while (n < most && percent(65)) {
        n *= 2;
    }
    n += below(n);
    return n < most ? n : most;
}

/* Noise that repeats itself after PERIOD bytes. */
void make_noise(void)
{
    for (uint32_t i = 0; i < sizeof noise; i++) {
        noise[i] = i < PERIOD ? (uint8_t) mix(seed + i) : noise[i - PERIOD];
    }
}

const uint8_t *stream(const struct end *e, uint32_t at)
{
    uint64_t start = mix(e->c->number * 2 + (uint64_t) (e - e->c->end));

    return noise + (start % PERIOD + at) % PERIOD;
}

static uint32_t size(void)
{
    uint32_t n = below(1000);

    return n < 120 ? 0 : n < 450 ? 1 + below(10) : n < 900 ? spread(16, 3000)
           : n < 985 ? spread(3000, 30000) : n < 998 ? spread(20000, 200000)
           : spread(100000, 2000000);
}

static void stops(uint32_t total, uint32_t at[STOPS], uint32_t ms[STOPS])
{
    uint32_t from = 0;

    for (int i = 0; i < STOPS; i++) {
        at[i] = NONE;
        if (from <= total && percent(25)) {
            at[i] = from + below(total - from + 1);
            from = at[i] + 1;
            ms[i] = percent(95) ? spread(1, 3000) : spread(3000, 60000);
        }
    }
}

/* Of all the rest nothing. */
static void simplify(struct conversation *c)
{
    c->kind = GRACEFUL;
    c->simultaneous = c->fastopen = c->again = false;
    c->ip_options = 0;
    for (int i = 0; i < 2; i++) {
        struct end *e = &c->end[i];

        e->total = mode == BULK ? bulk_bytes : below(200);
        e->chunk = e->read_chunk = most_at_once;
        e->send_after_rx = 0;
        e->quit_at = e->urgent_at = NONE;
        e->rcvbuf = e->sndbuf = e->maxseg = 0;
        e->congestion = 32;
        for (int k = 0; k < STOPS; k++) {
            e->pause_at[k] = e->stall_at[k] = NONE;
        }
    }
}

void write_script(struct conversation *c, uint64_t number)
{
    static const uint32_t chances[N_KINDS] = { 72, 14, 6, 4, 4 };
    static const int segment[] = { 88, 128, 300, 536, 1000, 1400, 4000, 8960 };
    uint32_t n;

    memset(c, 0, sizeof *c);
    c->number = number;
    c->pair = &pairs[number % (unsigned int) n_pairs];
    state = mix(seed ^ mix(number));
    n = below(100);
    while (n >= chances[c->kind]) {
        n -= chances[c->kind++];
    }
    c->v6 = percent(50) && c->pair->has_v6;
    c->client = (int) below(2);
    c->simultaneous = percent(5) && c->pair->simultaneous
                      && c->kind != REFUSED && c->kind != ABANDONED;
    c->fastopen = percent(20) && c->pair->fastopen && !c->simultaneous
                  && c->kind != ABANDONED;
    c->ip_options = percent(5) && c->pair->ip_options ? 1 + (int) below(2) : 0;
    /* Not where SYNs cross or bring data: one of the first time that is still
     * under way would be taken. */
    c->again = percent(30) && (c->kind == RESET || c->kind == UNREAD)
               && !c->simultaneous && !c->fastopen;
    /* No other conversation of the last hour has the same ports. */
    c->port[!c->client] = (uint16_t) (1024 + number % 30000);
    c->port[c->client] = (uint16_t) (32000 + (number + number / 30000 * 7) % 30000);
    for (int i = 0; i < 2; i++) {
        struct end *e = &c->end[i];

        e->c = c;
        e->fd = -1;
        e->total = size();
        if (c->simultaneous && e->total > 600) {
            /* Linux, where only one end scales its window: it offers 2^scale
             * too little, a few bytes. */
            e->total = 600;
        }
        /* System calls are what takes time in the lab. */
        e->chunk = percent(50) ? CHUNK
                   : spread(1 + e->total / (percent(10) ? 200 : 6), CHUNK);
        e->read_chunk = percent(70) ? CHUNK : spread(100, 20000);
        stops(e->total, e->pause_at, e->pause_ms);
        e->urgent_at = e->total && percent(10) ? below(e->total) : NONE;
        e->quit_at = NONE;
        e->rcvbuf = percent(40) ? (int) spread(1000, 1 << 20) : 0;
        e->sndbuf = percent(40) ? (int) spread(2000, 1 << 20) : 0;
        e->maxseg = percent(25) ? segment[below(8)] : 0;
        e->congestion = (int) below(32);
        e->tos = percent(10) ? (int) below(256) : 0;
        e->nodelay = percent(40);
        e->keepalive = percent(30) ? 1 + (int) below(20) : 0;
        e->wrap = percent(10);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t least = c->end[!i].total / (percent(10) ? 100 : 6);

        stops(c->end[!i].total, c->end[i].stall_at, c->end[i].stall_ms);
        if (c->end[i].read_chunk < least) {
            c->end[i].read_chunk = least;
        }
    }
    /* Only one end waits for the other. */
    n = below(2);
    c->end[n].send_after_rx = percent(50) ? below(c->end[!n].total + 1) : 0;
    c->end[n].fin_after_eof = percent(50);
    if (c->kind == RESET || c->kind == UNREAD) {
        n = below(2);
        if (c->kind == UNREAD && !c->end[!n].total) {
            c->end[!n].total = 1;
        }
        c->end[n].quit_at = below(c->end[!n].total + (c->kind == RESET));
        /* Else the other end might wait for the rest before it sends. */
        c->end[!n].send_after_rx = 0;
        c->end[!n].fin_after_eof = false;
    }
    if (mode != MIXED) {
        simplify(c);
    }
}
