/* SPDX-License-Identifier: Apache-2.0 */

/* Memory for a million objects of a few sizes, aligned to a cache line.
 *
 * posix_memalign() spends more than 300 bytes on a flow of 192, because it
 * splits a larger piece for each.  Here objects of one size share slabs, and
 * a slab whose objects are all free goes back to the system.
 *
 * Thread-safe. */

#ifndef ACDC_SLAB_H
#define ACDC_SLAB_H 1

#include <stddef.h>

/* Zeroed; NULL if there is no memory. */
void *acdc_slab_alloc(size_t);
void acdc_slab_free(void *);

#endif /* acdc-slab.h */
