/* SPDX-License-Identifier: Apache-2.0 */

/* Hardware would bypass the engine: flows of guest ports are kept out of it.
 * Asked by netdev_flow_put(), which all offload providers go through. */

#ifndef ACDC_OFFLOAD_H
#define ACDC_OFFLOAD_H 1

#include <stdbool.h>
#include <stddef.h>

struct netdev;
struct nlattr;

/* Thread-safe, both. */
bool acdc_offload_refused(const struct netdev *,
                          const struct nlattr *actions, size_t len);
void acdc_offload_forget(const struct netdev *);

#endif /* acdc-offload.h */
