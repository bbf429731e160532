/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

#include "escape.h"

#include <string.h>

uint32_t
blocks_add(struct blocks *x, struct block b)
{
    unsigned int i, n = 0;
    uint32_t had = 0;

    for (i = 0; i < x->n; i++) {
        struct block o = x->blocks[i];

        if (seq_after(o.from, b.to) || seq_after(b.from, o.to)) {
            x->blocks[n++] = o;
        } else {
            had += o.to - o.from;
            b.from = seq_after(b.from, o.from) ? o.from : b.from;
            b.to = seq_after(o.to, b.to) ? o.to : b.to;
        }
    }
    x->n = n;
    if (n == N_BLOCKS) {
        return 0;
    }
    memmove(x->blocks + 1, x->blocks, n * sizeof *x->blocks);
    x->blocks[0] = b;
    x->n++;
    return b.to - b.from - had;
}

uint32_t
blocks_take(struct blocks *x, uint32_t seq)
{
    unsigned int i;

    for (i = 0; i < x->n; i++) {
        if (x->blocks[i].from == seq) {
            seq = x->blocks[i].to;
            x->n--;
            memmove(x->blocks + i, x->blocks + i + 1,
                    (x->n - i) * sizeof *x->blocks);
            break;
        }
    }
    return seq;
}

uint32_t
blocks_reach(const struct blocks *x, uint32_t seq)
{
    unsigned int i;

    for (i = 0; i < x->n; i++) {
        if (!seq_after(x->blocks[i].from, seq) && seq_after(x->blocks[i].to, seq)) {
            return x->blocks[i].to;
        }
    }
    return seq;
}

bool
queue_add(struct queue *q, struct waiting w)
{
    if (q->n == N_WAITING) {
        return false;
    }
    q->items[q->n++] = w;
    return true;
}

bool
queue_take(struct queue *q, uint64_t now, struct waiting *w)
{
    unsigned int i, first = q->n;

    for (i = 0; i < q->n; i++) {
        if (q->items[i].due <= now
            && (first == q->n || q->items[i].due < q->items[first].due)) {
            first = i;
        }
    }
    if (first == q->n) {
        return false;
    }
    *w = q->items[first];
    q->n--;
    memmove(q->items + first, q->items + first + 1,
            (q->n - first) * sizeof *q->items);
    return true;
}

void
queue_clear(struct queue *q)
{
    while (q->n) {
        packet_free(q->items[--q->n].p);
    }
}
