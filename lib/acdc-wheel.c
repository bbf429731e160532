/* SPDX-License-Identifier: Apache-2.0 */

#include "acdc-wheel.h"

#include <stdlib.h>

enum {
    N_NODES = ACDC_WHEEL_PACKETS + ACDC_WHEEL_ROOM,
    N_WORDS = ACDC_WHEEL_SLOTS / 64,
    N_SUMS = N_WORDS / 64,
    NONE = UINT16_MAX,
};

struct node {
    void *packet;
    void *port;
    uint64_t slot;              /* Of its time, not modulo ACDC_WHEEL_SLOTS. */
    uint32_t len;
    uint16_t next;              /* In the slot or free; NONE: no more. */
    uint8_t kind;
};

struct acdc_wheel {
    uint64_t base;              /* Slots before that are empty, ... */
    uint64_t first;             /* ... and before that, which is the first that is
                                 * not, or UINT64_MAX. */
    uint64_t bytes;
    uint32_t n;
    uint16_t free;
    uint64_t used[N_WORDS];     /* A bit a slot: whether it is not empty. */
    uint64_t words[N_SUMS];     /* A bit a word of 'used': whether it is not 0. */
    struct {
        uint16_t head, tail;    /* Valid if not empty. */
    } slots[ACDC_WHEEL_SLOTS];
    struct node nodes[N_NODES];
};

struct acdc_wheel *
acdc_wheel_create(uint64_t now)
{
    struct acdc_wheel *w = calloc(1, sizeof *w);

    if (!w) {
        return NULL;
    }
    w->base = now / ACDC_WHEEL_SLOT_NS;
    w->first = UINT64_MAX;
    for (uint16_t i = 0; i < N_NODES; i++) {
        w->nodes[i].next = (uint16_t) (i + 1 < N_NODES ? i + 1 : NONE);
    }
    return w;
}

void
acdc_wheel_destroy(struct acdc_wheel *w)
{
    free(w);
}

bool
acdc_wheel_is_empty(const struct acdc_wheel *w)
{
    return !w->n;
}

bool
acdc_wheel_is_full(const struct acdc_wheel *w)
{
    return w->n >= ACDC_WHEEL_PACKETS || w->bytes >= ACDC_WHEEL_BYTES;
}

uint64_t
acdc_wheel_next(const struct acdc_wheel *w)
{
    return w->n ? w->first * ACDC_WHEEL_SLOT_NS : UINT64_MAX;
}

/* Appends node 'i' to its slot, or to the last of the horizon. */
static void
append(struct acdc_wheel *w, uint16_t i)
{
    uint64_t last = w->base + ACDC_WHEEL_SLOTS - 1;
    uint64_t slot = w->nodes[i].slot < last ? w->nodes[i].slot : last;
    uint32_t s = slot % ACDC_WHEEL_SLOTS;
    uint64_t bit = UINT64_C(1) << s % 64;

    w->nodes[i].next = NONE;
    if (w->used[s / 64] & bit) {
        w->nodes[w->slots[s].tail].next = i;
    } else {
        w->used[s / 64] |= bit;
        w->words[s / 4096] |= UINT64_C(1) << s / 64 % 64;
        w->slots[s].head = i;
    }
    w->slots[s].tail = i;
    if (slot < w->first) {
        w->first = slot;
    }
}

bool
acdc_wheel_add(struct acdc_wheel *w, const struct acdc_wheel_item *item,
               uint64_t due)
{
    uint64_t slot = due / ACDC_WHEEL_SLOT_NS;
    uint16_t i = w->free;
    struct node *node;

    if (i == NONE
        || (item->kind == ACDC_WHEEL_PROBE && w->n >= ACDC_WHEEL_PROBES)) {
        return false;
    }
    node = &w->nodes[i];
    w->free = node->next;
    node->packet = item->packet;
    node->port = item->port;
    node->len = item->len;
    node->kind = item->kind;
    node->slot = slot > w->base ? slot : w->base;
    w->n++;
    w->bytes += node->len;
    append(w, i);
    return true;
}

/* The first word of 'used' that is not 0, from 'word' on in a circle; NONE: all are. */
static uint32_t
find_word(const struct acdc_wheel *w, uint32_t word)
{
    uint32_t sum = word / 64;
    uint64_t bits = w->words[sum] & UINT64_MAX << word % 64;

    /* The one where it begins comes again at the end, for what is before 'word'. */
    for (uint32_t i = 0; i <= N_SUMS; i++) {
        if (bits) {
            return sum * 64 + (uint32_t) __builtin_ctzll(bits);
        }
        sum = (sum + 1) % N_SUMS;
        bits = w->words[sum];
    }
    return NONE;
}

/* Sets 'w->first', which is not before what it was. */
static void
find_first(struct acdc_wheel *w)
{
    uint32_t from = w->base % ACDC_WHEEL_SLOTS;
    uint32_t word = from / 64;
    uint64_t bits = w->used[word] & UINT64_MAX << from % 64;

    if (!bits) {
        /* At last that word again, for what is before 'from'. */
        word = find_word(w, (word + 1) % N_WORDS);
        if (word == NONE) {
            w->first = UINT64_MAX;
            return;
        }
        bits = w->used[word];
    }
    w->first = w->base
               + (word * 64 + (uint32_t) __builtin_ctzll(bits) - from)
                 % ACDC_WHEEL_SLOTS;
}

/* Takes the first node off the first slot, which is not empty. */
static void
take_first(struct acdc_wheel *w)
{
    uint32_t s = w->first % ACDC_WHEEL_SLOTS;

    w->slots[s].head = w->nodes[w->slots[s].head].next;
    if (w->slots[s].head == NONE) {
        w->used[s / 64] &= ~(UINT64_C(1) << s % 64);
        if (!w->used[s / 64]) {
            w->words[s / 4096] &= ~(UINT64_C(1) << s / 64 % 64);
        }
        find_first(w);
    }
}

bool
acdc_wheel_pop(struct acdc_wheel *w, uint64_t now, const void *port,
               struct acdc_wheel_item *item)
{
    uint64_t slot = now / ACDC_WHEEL_SLOT_NS;
    bool any = now == ACDC_WHEEL_ANY;

    while (w->first <= slot) {
        uint16_t i = w->slots[w->first % ACDC_WHEEL_SLOTS].head;
        struct node *node = &w->nodes[i];

        if (!any) {
            w->base = w->first;
        }
        if (port && node->port != port) {
            return false;
        }
        take_first(w);
        if (!any && node->kind == ACDC_WHEEL_PROBE && node->slot > slot) {
            /* It was put at the horizon. */
            append(w, i);
            continue;
        }
        *item = (struct acdc_wheel_item) { node->packet, node->port, node->len,
                                           node->kind };
        w->n--;
        w->bytes -= node->len;
        node->next = w->free;
        w->free = i;
        return true;
    }
    if (!any && slot > w->base) {
        w->base = slot;
    }
    return false;
}
