/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What test-escape-data.c is made of: the data that a peer has, and packets that wait
 * at a guest's host or are under way. */

#ifndef ESCAPE_H
#define ESCAPE_H 1

#include "host.h"

/* Data that the peer has behind a hole, the last one first. */
enum { N_BLOCKS = 32 };
struct block {
    uint32_t from, to;
};
struct blocks {
    struct block blocks[N_BLOCKS];
    unsigned int n;
};

/* Adds 'b'.  Returns how many bytes are new; 0 also if there is no place. */
uint32_t blocks_add(struct blocks *, struct block b);
/* Takes the block that begins at 'seq', if any, and returns its end, else 'seq'. */
uint32_t blocks_take(struct blocks *, uint32_t seq);
/* How far on from byte 'seq' there is no hole. */
uint32_t blocks_reach(const struct blocks *, uint32_t seq);

/* Packets that wait, each for its time. */
enum { N_WAITING = 512 };
struct waiting {
    struct packet *p;
    uint64_t due;
    unsigned int fate;          /* The test's. */
    enum waiting_why { HELD, KEPT, UNDER_WAY } why;
};
struct queue {
    struct waiting items[N_WAITING];
    unsigned int n;
};

/* False if there is no room. */
bool queue_add(struct queue *, struct waiting);
/* The first one that is due, the one that was added first of two. */
bool queue_take(struct queue *, uint64_t now, struct waiting *);
void queue_clear(struct queue *);

#endif /* escape.h */
