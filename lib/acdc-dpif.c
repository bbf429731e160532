/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-dpif.h"

#include <errno.h>

#include "acdc-dpif-provider.h"
#include "acdc-offload.h"
#include "dpif-provider.h"
#include "netdev.h"
#include "netdev-offload.h"
#include "netlink.h"
#include "openvswitch/shash.h"
#include "openvswitch/vlog.h"
#include "ovs-thread.h"

VLOG_DEFINE_THIS_MODULE(acdc_dpif);

/* The netdevs of guest ports, by name; the data is the tenant's name, which
 * the shash owns.  Of all datapaths: a netdev is in one datapath only. */
static struct ovs_mutex guests_mutex = OVS_MUTEX_INITIALIZER;
static struct shash guests OVS_GUARDED_BY(guests_mutex)
    = SHASH_INITIALIZER(&guests);

/* What the datapath's class makes of an operation. */
#define CALL(DPIF, OPERATION, ...)                                      \
    ((DPIF)->dpif_class->acdc                                           \
     ? (DPIF)->dpif_class->acdc->OPERATION(DPIF, __VA_ARGS__)           \
     : EOPNOTSUPP)

int
acdc_dpif_set_config(struct dpif *dpif, const struct acdc_config *cfg)
{
    return CALL(dpif, set_config, cfg);
}

int
acdc_dpif_get_config(struct dpif *dpif, struct acdc_config *cfg)
{
    return CALL(dpif, get_config, cfg);
}

int
acdc_dpif_set_tenant(struct dpif *dpif, const struct acdc_tenant_config *tc)
{
    return CALL(dpif, set_tenant, tc);
}

int
acdc_dpif_del_tenant(struct dpif *dpif, const char *name)
{
    return CALL(dpif, del_tenant, name);
}

/* Records whether the netdev 'name' is a guest port.  Returns true if it
 * became one just now. */
static bool
acdc_guest_update(const char *name, const char *tenant)
{
    char *old;

    ovs_mutex_lock(&guests_mutex);
    old = (tenant ? shash_replace(&guests, name, xstrdup(tenant))
           : shash_find_and_delete(&guests, name));
    ovs_mutex_unlock(&guests_mutex);
    free(old);

    return tenant && !old;
}

int
acdc_dpif_set_port(struct dpif *dpif, odp_port_t port, const char *name,
                   const char *tenant)
{
    int error = CALL(dpif, set_port, port, name, tenant);

    /* What went into hardware before passes by the engine.  Whatever still
     * carries traffic comes back by an upcall. */
    if (acdc_guest_update(name, error ? NULL : tenant)
        && netdev_is_flow_api_enabled()) {
        dpif_flow_flush(dpif);
    }
    return error;
}

int
acdc_dpif_get_stats(struct dpif *dpif, struct acdc_stats *stats)
{
    return CALL(dpif, get_stats, stats);
}

int
acdc_dpif_get_tenant(struct dpif *dpif, unsigned int idx,
                     struct acdc_tenant_stats *stats)
{
    return CALL(dpif, get_tenant, idx, stats);
}

int
acdc_dpif_get_port(struct dpif *dpif, unsigned int idx,
                   struct acdc_port_info *info)
{
    return CALL(dpif, get_port, idx, info);
}

int
acdc_dpif_dump(struct dpif *dpif, uint64_t *cursor,
               struct acdc_flow_info *flows, unsigned int max,
               unsigned int *n)
{
    *n = 0;
    return CALL(dpif, dump, cursor, flows, max, n);
}

int
acdc_dpif_flush(struct dpif *dpif, const char *tenant, odp_port_t port,
                uint32_t *n)
{
    *n = 0;
    return CALL(dpif, flush, tenant, port, n);
}

/* Hardware offload. */

/* If 'netdev' is a guest port, warns that it is kept out of hardware and
 * returns true. */
static bool
acdc_offload_is_guest(const struct netdev *netdev)
{
    const char *tenant;

    ovs_mutex_lock(&guests_mutex);
    tenant = shash_find_data(&guests, netdev_get_name(netdev));
    if (tenant) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

        VLOG_WARN_RL(&rl, "port %s of AC/DC tenant %s: flow not offloaded to "
                     "hardware, which would bypass AC/DC",
                     netdev_get_name(netdev), tenant);
    }
    ovs_mutex_unlock(&guests_mutex);

    return tenant != NULL;
}

static bool
acdc_offload_outputs_to_guest(const char *dpif_type,
                              const struct nlattr *actions, size_t len)
{
    const struct nlattr *a;
    size_t left;

    NL_ATTR_FOR_EACH (a, left, actions, len) {
        switch (nl_attr_type(a)) {
        case OVS_ACTION_ATTR_OUTPUT: {
            struct netdev *netdev = netdev_ports_get(nl_attr_get_odp_port(a),
                                                     dpif_type);
            bool guest = netdev && acdc_offload_is_guest(netdev);

            netdev_close(netdev);
            if (guest) {
                return true;
            }
            break;
        }

        case OVS_ACTION_ATTR_CLONE:
            if (acdc_offload_outputs_to_guest(dpif_type, nl_attr_get(a),
                                              nl_attr_get_size(a))) {
                return true;
            }
            break;

        case OVS_ACTION_ATTR_CHECK_PKT_LEN: {
            const struct nlattr *b;
            size_t left2;

            NL_NESTED_FOR_EACH (b, left2, a) {
                if (nl_attr_type(b) != OVS_CHECK_PKT_LEN_ATTR_PKT_LEN
                    && acdc_offload_outputs_to_guest(dpif_type,
                                                     nl_attr_get(b),
                                                     nl_attr_get_size(b))) {
                    return true;
                }
            }
            break;
        }

        default:
            /* No offload provider takes other actions that nest. */
            break;
        }
    }
    return false;
}

/* Returns true if a flow from 'netdev' with these actions must stay in
 * software because it begins or ends at a guest port. */
bool
acdc_offload_refused(const struct netdev *netdev,
                     const struct nlattr *actions, size_t len)
{
    bool any;

    ovs_mutex_lock(&guests_mutex);
    any = !shash_is_empty(&guests);
    ovs_mutex_unlock(&guests_mutex);

    return any && (acdc_offload_is_guest(netdev)
                   || acdc_offload_outputs_to_guest(
                          netdev_get_dpif_type(netdev), actions, len));
}

/* To be called when 'netdev' leaves its datapath: a later port of its name is
 * a guest port only when it is bound again. */
void
acdc_offload_forget(const struct netdev *netdev)
{
    acdc_guest_update(netdev_get_name(netdev), NULL);
}
