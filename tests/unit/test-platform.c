/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* acdc-platform.h in user space: byte order at any alignment, the lock, the
 * counters' slots. */

#include "acdc-platform.h"

#include <pthread.h>

#include "tap.h"

static void
test_byte_order(void)
{
    static const uint8_t bytes[] = { 0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7 };
    uint8_t copy[sizeof bytes];

    for (unsigned int i = 0; i < 4; i++) {
        const uint8_t *b = bytes + i;
        uint32_t want = (uint32_t) b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];

        is_u64(acdc_get16(b), want >> 16, "16 bits read at offset %u", i);
        is_u64(acdc_get32(b), want, "32 bits read at offset %u", i);

        memset(copy, 0, sizeof copy);
        acdc_put16(copy + i, (uint16_t) (want >> 16));
        ok(!memcmp(copy + i, b, 2), "16 bits written at offset %u", i);
        acdc_put32(copy + i, want);
        ok(!memcmp(copy + i, b, 4), "32 bits written at offset %u", i);
        ok(i < 1 || !copy[i - 1], "nothing written before offset %u", i);
        ok(i > 2 || !copy[i + 4], "nothing written after offset %u", i);
    }
}

static void
test_lock_holder(void)
{
    acdc_lock_t lock;

    acdc_lock_init(&lock);
    is_u64(acdc_lock_holder(&lock), 0, "nobody held a new lock");
    is_u64(acdc_lock_as(&lock, 4), 0, "nor did who locks it first hear of any");
    is_u64(acdc_lock_holder(&lock), 4, "who holds it");
    acdc_unlock_as(&lock, 4);
    is_u64(acdc_lock_holder(&lock), 4, "who held it");
    is_u64(acdc_lock_as(&lock, 32), 4, "the next hears of that");
    acdc_unlock_as(&lock, 32);
    acdc_lock(&lock);
    is_u64(acdc_lock_holder(&lock), 0, "somebody who does not say");
    acdc_unlock(&lock);
}

enum { N_THREADS = 4, N_ROUNDS = 20000 };

struct shared {
    acdc_lock_t lock;
    uint64_t locked;            /* Protected by 'lock'. */
    acdc_a64 added;
    pthread_barrier_t barrier;
};

struct worker {
    struct shared *shared;
    pthread_t thread;
    uint32_t slot;
};

static void *
work(void *worker_)
{
    struct worker *w = worker_;
    struct shared *s = w->shared;

    pthread_barrier_wait(&s->barrier);
    w->slot = acdc_slot();
    for (int i = 0; i < N_ROUNDS; i++) {
        acdc_lock(&s->lock);
        s->locked++;
        acdc_unlock(&s->lock);
        acdc_a64_add(&s->added, 3);
    }
    /* Nobody ends, and frees its slot, before all have theirs. */
    pthread_barrier_wait(&s->barrier);
    return NULL;
}

static void
test_threads(void)
{
    struct worker workers[N_THREADS];
    struct shared s = { .locked = 0 };
    bool distinct = true;

    acdc_lock_init(&s.lock);
    pthread_barrier_init(&s.barrier, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        workers[i].shared = &s;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
            printf("Bail out! no thread\n");
            exit(1);
        }
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        for (int j = 0; j < i; j++) {
            distinct &= workers[i].slot != workers[j].slot;
        }
    }
    pthread_barrier_destroy(&s.barrier);

    is_u64(s.locked, N_THREADS * N_ROUNDS, "no increment under the lock lost");
    is_u64(acdc_a64_read(&s.added), 3 * N_THREADS * N_ROUNDS,
           "no addition to a counter lost");
    ok(distinct, "threads that run at once have slots of their own");
}

int
main(void)
{
    test_byte_order();
    test_lock_holder();
    test_threads();
    return tap_end();
}
