/* SPDX-License-Identifier: Apache-2.0 */

/* Hardware would bypass the engine: flows of guest ports are kept out of it.
 * Asked where all offload providers get their flows. */

#ifndef ACDC_OFFLOAD_H
#define ACDC_OFFLOAD_H 1

#include <stdbool.h>
#include <stddef.h>

#include "openvswitch/types.h"

struct dpif;
struct netdev;
struct nlattr;
struct shash;

/* Thread-safe. */
bool acdc_offload_set_guests(const struct dpif *, const struct shash *ports);
bool acdc_offload_refused(const struct netdev *,
                          const struct nlattr *actions, size_t len);
void acdc_offload_withhold(const struct netdev *,
                           const struct nlattr **actions, size_t *len);
void acdc_offload_forget(const struct dpif *, odp_port_t);

#endif /* acdc-offload.h */
