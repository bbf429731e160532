/* SPDX-License-Identifier: Apache-2.0 */

/* lib/acdc-arena.c: the places of flows, and their memory. */

#include "acdc-arena.h"

#include <pthread.h>
#include <stdlib.h>

#include "tap.h"

#ifdef ACDC_ARENA
/* One flow after the other takes each place of two blocks once, ... */
static void
test_places(void)
{
    enum { IN_A_ROW = 16, PAGE = 4096, LINES = PAGE / ACDC_FLOW };
    enum { N_GROUPS = 2 * ACDC_BLOCK / ACDC_GROUP };
    static _Alignas(ACDC_BLOCK) char blocks[2 * ACDC_BLOCK];
    static bool taken[2 * ACDC_BLOCK / ACDC_FLOW];
    size_t ofs[N_GROUPS * ACDC_GROUP_FLOWS];
    bool valid = true, once = true, apart = true, first = true;
    size_t n = 0;
    char *p;

    for (p = blocks; p != blocks + sizeof blocks && n < sizeof ofs / sizeof *ofs;
         p = acdc_arena_next(p)) {
        size_t o = (size_t) (p - blocks);

        if (o >= sizeof blocks || o % ACDC_FLOW
            || o % ACDC_GROUP >= ACDC_GROUP_IN) {
            valid = false;
            break;
        }
        first &= n < sizeof ofs / sizeof *ofs / 2 ? o < ACDC_BLOCK
                                                  : o >= ACDC_BLOCK;
        once &= !taken[o / ACDC_FLOW];
        taken[o / ACDC_FLOW] = true;
        ofs[n++] = o;
    }
    ok(valid, "flows are where groups have them");
    ok(once, "no place is taken twice");
    is_u64(n, sizeof ofs / sizeof *ofs, "all places are taken");
    ok(p == blocks + sizeof blocks, "then the next block's");
    ok(first, "all of a block before any of the next");

    /* ...and some in a row are neither in the same page, nor in lines that compete
     * for the same place of a cache. */
    for (size_t i = 0; i + IN_A_ROW <= n; i += IN_A_ROW) {
        for (size_t j = i; j < i + IN_A_ROW; j++) {
            for (size_t k = i; k < j; k++) {
                apart &= ofs[j] / PAGE != ofs[k] / PAGE
                         && ofs[j] / ACDC_FLOW % LINES
                            != ofs[k] / ACDC_FLOW % LINES;
            }
        }
    }
    ok(apart, "%d flows in a row are apart", IN_A_ROW);
}

enum { STEP_FLOWS = 16384 };    /* 1024 groups of 16. */

static void *
alloc(bool v6)
{
    return acdc_arena_alloc_flow(ACDC_FLOW + ACDC_FLOW
                                 + (v6 ? ACDC_FLOW6 : 0), v6);
}

/* All parts of a flow. */
static void
fill(char *flow, int byte)
{
    memset(flow, byte, ACDC_FLOW);
    memset(acdc_arena_in(flow), byte, ACDC_FLOW);
    memset(acdc_arena6(flow), byte, ACDC_FLOW6);
    memset(acdc_arena_more(flow), byte, ACDC_MORE);
}

static bool
is_filled(const char *flow, int byte)
{
    const char *in = acdc_arena_in(flow), *six = acdc_arena6(flow);
    const char *more = acdc_arena_more(flow);
    size_t i;

    for (i = 0; i < ACDC_FLOW; i++) {
        if (flow[i] != byte || in[i] != byte || more[i] != byte
            || (i < ACDC_FLOW6 && six[i] != byte)) {
            return false;
        }
    }
    return true;
}

/* Free memory is exactly what was added, its parts are nobody else's, and it is
 * zeroed for each flow. */
static void
test_memory(void)
{
    static char *flows[2 * STEP_FLOWS];
    bool in_order = true, own = true, zeroed = true;
    size_t i, n = 0;

    ok(!alloc(false), "none before there is memory");
    ok(acdc_arena_fill(1), "a step is added");
    ok(!acdc_arena_fill(STEP_FLOWS), "which is enough for %d", STEP_FLOWS);
    ok(acdc_arena_fill(STEP_FLOWS + 1), "and not for one more");

    while (n < 2 * STEP_FLOWS && (flows[n] = alloc(n % 2))) {
        in_order &= !n || flows[n] == acdc_arena_next(flows[n - 1]);
        /* What not every flow has need not be. */
        memset(acdc_arena_more(flows[n]), 0, ACDC_MORE);
        if (!(n % 2)) {
            memset(acdc_arena6(flows[n]), 0, ACDC_FLOW6);
        }
        zeroed &= is_filled(flows[n], 0);
        fill(flows[n], (int) (n % 127 + 1));
        n++;
    }
    is_u64(n, 2 * STEP_FLOWS, "flows have a place each");
    ok(in_order, "in the order of acdc_arena_next()");
    ok(!alloc(true), "then there is none");
    for (i = 0; i < n; i++) {
        own &= is_filled(flows[i], (int) (i % 127 + 1));
    }
    ok(own, "no two flows share memory");

    for (i = 0; i < n; i++) {
        acdc_arena_free_flow(flows[i]);
    }
    for (i = 0; i < n; i++) {
        char *flow = alloc(true);

        if (flow) {
            memset(acdc_arena_more(flow), 0, ACDC_MORE);
        }
        zeroed &= flow && is_filled(flow, 0);
    }
    ok(zeroed, "it is zeroed, new and freed");
    ok(!alloc(false), "what was freed is all there is again");
    for (i = 0; i < n; i++) {
        acdc_arena_free_flow(flows[i]);
    }
    acdc_arena_free_flow(NULL);
}

enum { N_THREADS = 4, N_ROUNDS = 300, N_HELD = 100 };

static void *
work(void *failed)
{
    char *held[N_HELD] = { NULL };

    for (int i = 0; i < N_ROUNDS * N_HELD; i++) {
        char **p = &held[i % N_HELD];

        if (*p && !is_filled(*p, i % N_HELD + 1)) {
            *(bool *) failed = true;
        }
        acdc_arena_free_flow(*p);
        *p = alloc(true);
        if (!*p) {
            *(bool *) failed = true;
            break;
        }
        fill(*p, i % N_HELD + 1);
    }
    for (int i = 0; i < N_HELD; i++) {
        acdc_arena_free_flow(held[i]);
    }
    return NULL;
}

/* Others take and give back while memory is added. */
static void
test_threads(void)
{
    pthread_t threads[N_THREADS];
    bool failed[N_THREADS] = { false };
    bool any = false;

    for (int i = 0; i < N_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, &failed[i])) {
            printf("Bail out! no thread\n");
            exit(1);
        }
    }
    while (acdc_arena_fill(5 * STEP_FLOWS)) {
        continue;
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        any |= failed[i];
    }
    ok(!any, "threads have flows of their own");
}

int
main(void)
{
    test_places();
    test_memory();
    test_threads();
    return tap_end();
}
#else
int
main(void)
{
    void *flow = acdc_arena_alloc_flow(64, false);

    ok(flow != NULL, "with AddressSanitizer each flow is on its own");
    ok(!acdc_arena_fill(1), "and no memory is ready");
    acdc_arena_free_flow(flow);
    return tap_end();
}
#endif
