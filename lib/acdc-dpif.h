/* SPDX-License-Identifier: Apache-2.0 */

/* The datapath-neutral interface to AC/DC, as ct-dpif.h is to conntrack:
 * configuration, dumps, statistics and flush, with the same meaning on every
 * datapath.  Each function calls the operation of the same name in struct
 * dpif_class, and returns EOPNOTSUPP where the datapath has none (a kernel
 * without the patch).  The structures are the engine's, datapath/acdc.h.
 *
 * Thread-safety: the setters are for the main thread of ovs-vswitchd; the
 * getters and dumps may run on any thread.  All return 0 or a positive errno
 * value unless they say otherwise. */

#ifndef ACDC_DPIF_H
#define ACDC_DPIF_H 1

#include "acdc.h"
#include "openvswitch/types.h"

struct dpif;

/* What the bridge layer wants of one datapath: the complete state, so that
 * applying it is idempotent and a restarted daemon or datapath is reconciled
 * by sending it again. */
int acdc_dpif_set_config(struct dpif *, const struct acdc_config *);
int acdc_dpif_get_config(struct dpif *, struct acdc_config *);
int acdc_dpif_set_tenant(struct dpif *, const struct acdc_tenant_config *);
int acdc_dpif_del_tenant(struct dpif *, const char *name);

/* Binds the datapath port to 'tenant'; NULL unbinds.  'name' is the
 * interface's, for people. */
int acdc_dpif_set_port(struct dpif *, odp_port_t, const char *name,
                       const char *tenant);

int acdc_dpif_get_stats(struct dpif *, struct acdc_stats *);
/* ENOENT past the last. */
int acdc_dpif_get_tenant(struct dpif *, unsigned int idx,
                         struct acdc_tenant_stats *);
int acdc_dpif_get_port(struct dpif *, unsigned int idx,
                       struct acdc_port_info *);

/* Copies up to 'max' flows, '*n' of them; '*n' 0 at the end.  '*cursor' is 0
 * at first. */
int acdc_dpif_dump(struct dpif *, uint64_t *cursor,
                   struct acdc_flow_info *, unsigned int max,
                   unsigned int *n);

/* 'tenant' NULL: of any tenant; 'port' ODPP_NONE: of any port.  '*n': how
 * many flows went. */
int acdc_dpif_flush(struct dpif *, const char *tenant, odp_port_t port,
                    uint32_t *n);

#endif /* acdc-dpif.h */
