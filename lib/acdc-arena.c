/* SPDX-License-Identifier: Apache-2.0 */

#include "acdc-arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef ACDC_ARENA

/* As large as a huge page, and aligned like one. */
#define STEP ACDC_ARENA_ALIGN

/* Of a flow, in its first bytes. */
struct place {
    struct place *next;
};

char *acdc_arena;

/* Adds memory one at a time; guards acdc_arena until it is set, and 'end'. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *end;               /* Of what has memory. */

static struct {
    acdc_lock_t lock;           /* Of all that follows. */
    struct place *first, **last;
    size_t n;
} free_places = { .last = &free_places.first };

bool
acdc_arena_reserve(void)
{
    bool reserved;

    pthread_mutex_lock(&mutex);
    if (!acdc_arena) {
        const size_t size = ACDC_ARENA_ALIGN + ACDC_ARENA_END;
        char *p = mmap(NULL, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p != MAP_FAILED) {
            /* What is too much costs nothing. */
            char *begin = p + (-(uintptr_t) p & (ACDC_ARENA_ALIGN - 1));

#ifdef MADV_HUGEPAGE
            /* Flows are met in no order.  With pages of 4 kB most packets of a
             * million connections would wait for the page's address as well. */
            (void) madvise(begin, ACDC_ARENA_SIZE, MADV_HUGEPAGE);
#endif
            if (!mprotect(begin, ACDC_ARENA_ALIGN, PROT_READ)) {
                end = begin + ACDC_ARENA_ALIGN;
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

/* Has the memory from 'p' on, STEP bytes that nobody has used, in the list.  Its
 * links are the first that is written there, so the kernel fills it with zeros
 * now. */
static void
add_places(char *p)
{
    struct place *first, **last = &first;
    char *flow;

    for (flow = p; flow != p + STEP; flow = acdc_arena_next(flow)) {
        *last = (struct place *) (void *) flow;
        last = &(*last)->next;
    }
    *last = NULL;

    acdc_lock(&free_places.lock);
    *free_places.last = first;
    free_places.last = last;
    free_places.n += STEP / ACDC_GROUP * ACDC_GROUP_FLOWS;
    acdc_unlock(&free_places.lock);
}

static bool
make_writable(void *p, size_t size)
{
    return !mprotect(p, size, PROT_READ | PROT_WRITE);
}

bool
acdc_arena_fill(size_t n)
{
    bool again;

    if (!acdc_arena_reserve()) {
        return false;
    }
    pthread_mutex_lock(&mutex);
    acdc_lock(&free_places.lock);
    again = free_places.n < n;
    acdc_unlock(&free_places.lock);
    /* Step by step, not all at once: after mlockall() there would be memory for
     * all of it.  Parts that few flows have get theirs with the first such flow. */
    again = again && end != acdc_arena + ACDC_ARENA_SIZE
            && make_writable(end, STEP)
            && make_writable(acdc_arena6(end), ACDC_PARTS(STEP, ACDC_FLOW6))
            && make_writable(acdc_arena_more(end), ACDC_PARTS(STEP, ACDC_MORE));
    if (again) {
        add_places(end);
        end += STEP;
    }
    pthread_mutex_unlock(&mutex);
    return again;
}

void *
acdc_arena_alloc_flow(size_t size, bool v6)
{
    struct place *p;

    (void) size;
    acdc_lock(&free_places.lock);
    p = free_places.first;
    if (p) {
        free_places.first = p->next;
        free_places.n--;
        if (p->next) {
            ACDC_PREFETCH_WRITE(p->next);
        } else {
            free_places.last = &free_places.first;
        }
    }
    acdc_unlock(&free_places.lock);

    if (!p) {
        return NULL;
    }
    memset(acdc_arena_in(p), 0, ACDC_FLOW);
    if (v6) {
        memset(acdc_arena6(p), 0, ACDC_FLOW6);
    }
    return memset((void *) p, 0, ACDC_FLOW);
}

void
acdc_arena_free_flow(void *flow)
{
    struct place *p = flow;

    if (!p) {
        return;
    }
    acdc_lock(&free_places.lock);
    p->next = free_places.first;
    if (!p->next) {
        free_places.last = &p->next;
    }
    free_places.first = p;
    free_places.n++;
    acdc_unlock(&free_places.lock);
}

#else

/* AddressSanitizer sees the use of a freed flow only if each is on its own.  And
 * where addresses have 32 bits there is no room. */

bool
acdc_arena_fill(size_t n)
{
    (void) n;
    return false;
}

void *
acdc_arena_alloc_flow(size_t size, bool v6)
{
    (void) v6;
    return calloc(1, size);
}

void
acdc_arena_free_flow(void *flow)
{
    free(flow);
}

#endif /* !ACDC_ARENA */
