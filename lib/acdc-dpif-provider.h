/* SPDX-License-Identifier: Apache-2.0 */

/* The AC/DC operations of a datapath: struct dpif_class points to one of
 * these, or to NULL where there is no AC/DC.  Their meaning is in
 * acdc-dpif.h, whose functions of the same names are the only callers. */

#ifndef ACDC_DPIF_PROVIDER_H
#define ACDC_DPIF_PROVIDER_H 1

#include "acdc-dpif.h"

struct acdc_dpif_class {
    int (*set_config)(struct dpif *, const struct acdc_config *);
    int (*get_config)(struct dpif *, struct acdc_config *);
    int (*set_tenant)(struct dpif *, const struct acdc_tenant_config *);
    int (*del_tenant)(struct dpif *, const char *name);
    int (*set_port)(struct dpif *, odp_port_t, const char *name,
                    const char *tenant);
    int (*get_stats)(struct dpif *, struct acdc_stats *);
    int (*get_tenant)(struct dpif *, unsigned int idx,
                      struct acdc_tenant_stats *);
    int (*get_port)(struct dpif *, unsigned int idx, struct acdc_port_info *);
    int (*dump)(struct dpif *, uint64_t *cursor, struct acdc_flow_info *,
                unsigned int max, unsigned int *n);
    int (*flush)(struct dpif *, const char *tenant, odp_port_t port,
                 uint32_t *n);
};

#endif /* acdc-dpif-provider.h */
