/* SPDX-License-Identifier: Apache-2.0 */

/* The userspace half of acdc-platform.h that is not inline, but for memory
 * (acdc-arena.c). */

#include "acdc-platform.h"

#include <sched.h>

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
