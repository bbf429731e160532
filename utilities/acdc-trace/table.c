/* SPDX-License-Identifier: Apache-2.0 */

/* The connections that are open, found by their ends; those that are over, or of
 * which nothing comes any more, are reported and forgotten. */

#include "trace.h"

#include <stdlib.h>

enum { BUCKETS_FIRST = 1024 };

/* How long a connection stays in 'state' without a packet, ns.  A closed one is
 * kept for what is sent again, a SYN for its retransmissions. */
static uint64_t
patience(const struct trace *t, unsigned int state)
{
    return state == CONN_OPEN ? t->options.idle
           : state == CONN_CLOSED ? 2 * NS_PER_S : 65 * NS_PER_S;
}

static bool
is_over(const struct trace *t, const struct conn *c, uint64_t now)
{
    return now > c->last_seen && now - c->last_seen > patience(t, c->state);
}

bool
table_init(struct trace *t)
{
    t->n_buckets = BUCKETS_FIRST;
    t->buckets = calloc(t->n_buckets, sizeof *t->buckets);
    return t->buckets != NULL;
}

static uint64_t
mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* The same for both directions. */
static uint64_t
hash_of(const struct segment *s, int first)
{
    uint64_t h = mix(s->network, (uint64_t) s->port[first] << 16
                                 | s->port[!first]);
    int i;

    for (i = 0; i < 2; i++) {
        const uint8_t *addr = s->addr[first ^ i];

        h = mix(mix(h, acdc_load64(addr)), acdc_load64(addr + 8));
    }
    return h;
}

/* Which end of 's' is the smaller one. */
static int
first_end(const struct segment *s)
{
    int order = memcmp(s->addr[0], s->addr[1], sizeof s->addr[0]);

    return order ? order > 0 : s->port[0] > s->port[1];
}

static bool
is_of(const struct conn *c, const struct segment *s, int first)
{
    return c->port[0] == s->port[first] && c->port[1] == s->port[!first]
           && !memcmp(c->addr[0], s->addr[first], sizeof c->addr[0])
           && !memcmp(c->addr[1], s->addr[!first], sizeof c->addr[1])
           && c->network == s->network;
}

static void
list_remove(struct trace *t, struct conn *c)
{
    if (c->older) {
        c->older->newer = c->newer;
    } else {
        t->list[c->state].oldest = c->newer;
    }
    if (c->newer) {
        c->newer->older = c->older;
    } else {
        t->list[c->state].newest = c->older;
    }
}

static void
list_append(struct trace *t, struct conn *c, uint8_t state)
{
    c->state = state;
    c->newer = NULL;
    c->older = t->list[state].newest;
    if (c->older) {
        c->older->newer = c;
    } else {
        t->list[state].oldest = c;
    }
    t->list[state].newest = c;
}

static void
grow(struct trace *t)
{
    uint32_t n = t->n_buckets * 2, i;
    struct conn **new = calloc(n, sizeof *new);

    if (!new) {
        return;                 /* Long chains are slow, and right. */
    }
    for (i = 0; i < t->n_buckets; i++) {
        struct conn *c, *next;

        for (c = t->buckets[i]; c; c = next) {
            next = c->next;
            c->next = new[c->hash & (n - 1)];
            new[c->hash & (n - 1)] = c;
        }
    }
    free(t->buckets);
    t->buckets = new;
    t->n_buckets = n;
}

/* Reports and forgets it. */
static void
end(struct trace *t, struct conn *c)
{
    struct conn **link = &t->buckets[c->hash & (t->n_buckets - 1)];

    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    list_remove(t, c);
    t->n_open--;
    output_connection(t, c);
    conn_free(c);
}

static struct conn *
add(struct trace *t, const struct segment *s, int first, uint64_t hash)
{
    struct conn *c;

    if (t->n_open >= t->options.max_connections) {
        int state = t->list[CONN_CLOSED].oldest ? CONN_CLOSED
                    : t->list[CONN_HALF_OPEN].oldest ? CONN_HALF_OPEN
                    : CONN_OPEN;
        end(t, t->list[state].oldest);
    }
    c = calloc(1, sizeof *c);
    if (!c) {
        t->failed = true;
        return NULL;
    }
    if (++t->n_open > t->n_buckets) {
        grow(t);
    }
    c->hash = hash;
    c->first_seen = s->time;
    c->number = ++t->n_connections;
    c->client = -1;
    memcpy(c->addr[0], s->addr[first], sizeof c->addr[0]);
    memcpy(c->addr[1], s->addr[!first], sizeof c->addr[1]);
    c->port[0] = s->port[first];
    c->port[1] = s->port[!first];
    c->network = s->network;
    c->next = t->buckets[hash & (t->n_buckets - 1)];
    t->buckets[hash & (t->n_buckets - 1)] = c;
    list_append(t, c, CONN_HALF_OPEN);
    return c;
}

/* Whether the segment begins another connection of the same ends. */
static bool
begins_anew(const struct conn *c, const struct segment *s, int from)
{
    const struct tap *tap = c->tap[s->side] ? c->tap[s->side]
                                            : conn_main_tap(c);

    return (s->flags & (ACDC_TCP_SYN | ACDC_TCP_ACK)) == ACDC_TCP_SYN && tap
           && (c->state != CONN_HALF_OPEN || tap->end[from].syn)
           && !(tap->end[from].syn && tap->end[from].isn == s->seq);
}

static uint8_t
state_of(const struct conn *c)
{
    const struct tap *tap = conn_main_tap(c);
    const struct half *a = &tap->half[0], *b = &tap->half[1];

    if (c->reset[0] || c->reset[1] || (a->fin_acked && b->fin_acked)) {
        return CONN_CLOSED;
    }
    return tap->end[0].syn != tap->end[1].syn && !(a->begun && b->begun)
           ? CONN_HALF_OPEN : CONN_OPEN;
}

void
table_segment(struct trace *t, const struct segment *s)
{
    int first = first_end(s);
    uint64_t hash = hash_of(s, first);
    struct conn *c = t->buckets[hash & (t->n_buckets - 1)];

    while (c && !(c->hash == hash && is_of(c, s, first))) {
        c = c->next;
    }
    if (c && (begins_anew(c, s, first) || is_over(t, c, s->time))) {
        end(t, c);
        c = NULL;
    }
    if (!c) {
        c = add(t, s, first, hash);
        if (!c) {
            return;
        }
    }
    if (!conn_segment(t, c, s, first)) {
        t->failed = true;
        return;
    }
    c->last_seen = s->time;
    list_remove(t, c);
    list_append(t, c, state_of(c));
}

void
table_expire(struct trace *t, uint64_t now)
{
    unsigned int state;

    for (state = 0; state < N_CONN_STATES; state++) {
        struct conn *c = t->list[state].oldest;

        /* One is enough: each packet adds no more. */
        if (c && is_over(t, c, now)) {
            end(t, c);
        }
    }
}

void
table_end(struct trace *t)
{
    unsigned int state;

    for (state = 0; state < N_CONN_STATES; state++) {
        while (t->list[state].oldest) {
            end(t, t->list[state].oldest);
        }
    }
    free(t->buckets);
    t->buckets = NULL;
}
