// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* The userspace half of acdc-platform.h that is not inline. */

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "acdc-platform.h"

/* Not everywhere. */
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

#ifdef ACDC_ARENA
char *acdc_arena;

/* Has the memory of an arena at 'arena' be touched without a lock on all of the
 * process's: Linux (since 6.4) takes that if what is touched has no "anon_vma" yet, and
 * while it fills a huge page a PMD thread's mprotect() in malloc() would wait.  A
 * mapping has one once a page of it had, and what is split from it inherits it.
 * Where vm.overcommit_memory is 2 that page stays apart, and all is as without. */
static void
arena_prepare(char *arena)
{
    const size_t page = 4096;   /* The kernel rounds up. */
    char *p = arena + ACDC_ARENA_ALIGN;

    if (!mprotect(p, page, PROT_READ | PROT_WRITE)) {
        *p = 0;
        (void) madvise(p, page, MADV_DONTNEED);
        (void) mprotect(p, page, PROT_NONE);
    }
}

bool
acdc_arena_reserve(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    bool reserved;

    pthread_mutex_lock(&mutex);
    if (!acdc_arena) {
        const size_t size = ACDC_ARENA_ALIGN + ACDC_ARENA_SIZE
                            + ACDC_ARENA_SIZE6;
        void *p = mmap(NULL, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p != MAP_FAILED) {
            /* What is too much costs nothing. */
            char *begin = (char *) p
                          + (-(uintptr_t) p & (ACDC_ARENA_ALIGN - 1));

            /* Zeros, see acdc_nil(). */
            if (!mprotect(begin, ACDC_ARENA_ALIGN, PROT_READ)) {
                arena_prepare(begin);
                acdc_arena = begin;
            } else {
                munmap(p, size);
            }
        }
    }
    reserved = acdc_arena != NULL;
    pthread_mutex_unlock(&mutex);
    return reserved;
}

bool
acdc_arena_clear(void *p, size_t size)
{
    /* A new mapping: with mprotect() the kernel would go on to count the memory
     * as this process's, and madvise() does nothing after mlockall(). */
    return mmap(p, size, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
           != MAP_FAILED;
}
#endif

void
acdc_lock_slow(acdc_lock_t *l, uint8_t me)
{
    unsigned int spins = 0;

    do {
        while (__atomic_load_n(l, __ATOMIC_RELAXED) & ACDC_LOCKED) {
            /* The holder may have been preempted: threads that are not PMD
             * threads share cores. */
            if (++spins % 64 == 0) {
                sched_yield();
            }
        }
    } while (__atomic_exchange_n(l, me | ACDC_LOCKED, __ATOMIC_ACQUIRE)
             & ACDC_LOCKED);
}

void
acdc_yield(void)
{
    int i;

    /* Some 2 us, longer than who waits looks away in sched_yield(). */
    for (i = 0; i < 4; i++) {
        sched_yield();
    }
}

uint32_t
acdc_slot(void)
{
    static uint32_t n_threads;
    static _Thread_local uint32_t slot = UINT32_MAX;

    if (slot == UINT32_MAX) {
        slot = __atomic_fetch_add(&n_threads, 1, __ATOMIC_RELAXED)
               % ACDC_N_SLOTS;
    }
    return slot;
}
