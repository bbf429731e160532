/* SPDX-License-Identifier: Apache-2.0 */

/* Memory for a million flows, of IPv4 and of IPv6, and for large objects.
 *
 * malloc() has 8 bytes of its own with each object, rounds up to 16, and cannot be
 * told where.  Here flows of one kind share slabs in acdc_arena, without
 * gaps, and a slab whose flows are all free goes back to the system.
 *
 * The kernel fills memory with zeros when it is touched for the first time, a
 * huge page in 0.2 ms, and in a virtual machine whose host has yet to find one in 5.
 * So that no packet waits for that, another thread touches what will be needed
 * next, and flows are in small pages where it is late.
 *
 * Thread-safe. */

#ifndef ACDC_SLAB_H
#define ACDC_SLAB_H 1

#include <stdbool.h>
#include <stddef.h>

/* To be called before all that follows, any number of times.  Starts that thread,
 * which may run where the calling one may: not to be called by a PMD thread, which
 * has a processor of its own. */
void acdc_slab_start(void);

/* acdc_host_alloc_flow() and acdc_host_free_flow(). */
void *acdc_slab_alloc_flow(size_t, bool v6);
void acdc_slab_free_flow(void *);

/* Anything else: zeroed, aligned to a cache line, in huge pages if it is large;
 * NULL if there is no memory. */
void *acdc_slab_alloc(size_t);
void acdc_slab_free(void *);

/* A large object that is allocated by another thread, which touches its memory.
 * That is near the processor that the order is given from. */
struct acdc_slab_order *acdc_slab_order(size_t);
/* Whether that is done.  If so '*pp' is what acdc_slab_alloc() would return, and
 * the order is no more. */
bool acdc_slab_take(struct acdc_slab_order *, void **pp);
/* What was ordered is not needed.  With NULL, does nothing. */
void acdc_slab_cancel(struct acdc_slab_order *);

#endif /* acdc-slab.h */
