/* SPDX-License-Identifier: Apache-2.0 */

/* Memory of flows in user space.
 *
 * All flows lie in one range of addresses (acdc_arena, in acdc-platform.h).  Its
 * memory is added in steps, in huge pages where the system has them, by a thread
 * that may wait for the kernel: that takes 0.2 ms a step, and 5 ms in a virtual
 * machine whose host has yet to find the memory.  What was added is in a list of
 * free places, from which packets take it without a system call.  It stays there
 * for flows to come.
 *
 * Thread-safe.  Knows nothing of Open vSwitch: tests of the engine use it, too. */

#ifndef ACDC_ARENA_H
#define ACDC_ARENA_H 1

#include "acdc-platform.h"

/* Adds memory for 16,384 flows if there is less than for 'n'.  Returns true
 * if it is to be called again for more: there may be none left. */
bool acdc_arena_fill(size_t n);

/* acdc_host_alloc_flow() and acdc_host_free_flow(). */
void *acdc_arena_alloc_flow(size_t size, bool v6);
void acdc_arena_free_flow(void *);

#ifdef ACDC_ARENA
/* The place to be used after 'flow'.  Connections that begin together are often
 * used together, by several threads, and a processor that uses several lines of
 * a page fetches others before anybody asked, also those that another one is
 * about to write.  So a block's flows are not given out group by group: first one
 * of each second group, so that 16 flows in a row are in pages of 4 kB of their
 * own, then one of each other group, and so on.  A block's first is its lowest
 * address.  Each group begins with another place, as lines that have the same
 * place in their pages compete for the cache. */
#define ACDC_BLOCK ((size_t) 32 * ACDC_GROUP)   /* Aligned so. */
static inline char *
acdc_arena_next(char *flow)
{
    size_t ofs = (uintptr_t) flow & (ACDC_BLOCK - 1);
    size_t group = ofs / ACDC_GROUP;
    size_t round = (ofs % ACDC_GROUP / ACDC_FLOW + ACDC_GROUP_FLOWS - group / 2)
                   % ACDC_GROUP_FLOWS;

    group += 2;
    if (group >= ACDC_BLOCK / ACDC_GROUP) {
        group = !(group & 1);
        if (!group && ++round == ACDC_GROUP_FLOWS) {
            return flow - ofs + ACDC_BLOCK;
        }
    }
    return flow - ofs + group * ACDC_GROUP
           + (round + group / 2) % ACDC_GROUP_FLOWS * ACDC_FLOW;
}
#endif

#endif /* acdc-arena.h */
