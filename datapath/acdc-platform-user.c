// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* The userspace half of acdc-platform.h that is not inline. */

#include <sched.h>

#include "acdc-platform.h"

void
acdc_lock_slow(acdc_lock_t *l)
{
    unsigned int spins = 0;

    do {
        while (atomic_load_explicit(l, memory_order_relaxed)) {
            /* The holder may have been preempted: threads that are not PMD
             * threads share cores. */
            if (++spins % 64 == 0) {
                sched_yield();
            }
        }
    } while (atomic_exchange_explicit(l, 1, memory_order_acquire));
}

uint32_t
acdc_slot(void)
{
    static _Atomic uint32_t n_threads;
    static _Thread_local uint32_t slot = UINT32_MAX;

    if (slot == UINT32_MAX) {
        slot = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed)
               % ACDC_N_SLOTS;
    }
    return slot;
}
