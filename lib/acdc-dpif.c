/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-dpif.h"

#include <errno.h>

#include "acdc-dpif-provider.h"
#include "acdc-offload.h"
#include "dpif-provider.h"
#include "netdev.h"
#include "netlink.h"
#include "openvswitch/shash.h"
#include "openvswitch/vlog.h"
#include "ovs-thread.h"

VLOG_DEFINE_THIS_MODULE(acdc_dpif);

/* A guest port.  The type of its datapath is a literal string. */
struct guest {
    const char *dpif_type;
    struct acdc_port_info info; /* Number and tenant. */
};

/* By the name of their netdevs; the shash owns them.  Of all datapaths: a
 * netdev is in one datapath only. */
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

/* The guest port with this number, or null. */
static struct shash_node *
acdc_guest_find(const char *dpif_type, odp_port_t port_no)
    OVS_REQUIRES(guests_mutex)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, &guests) {
        const struct guest *guest = node->data;

        if (guest->info.port_no == odp_to_u32(port_no)
            && !strcmp(guest->dpif_type, dpif_type)) {
            return node;
        }
    }
    return NULL;
}

int
acdc_dpif_set_port(struct dpif *dpif, odp_port_t port, const char *name,
                   const char *tenant)
{
    return CALL(dpif, set_port, port, name, tenant);
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

/* If 'node' is a guest port, warns that it is kept out of hardware and
 * returns true. */
static bool
acdc_offload_is_guest(const struct shash_node *node)
    OVS_REQUIRES(guests_mutex)
{
    if (node) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);
        const struct guest *guest = node->data;

        VLOG_WARN_RL(&rl, "port %s of AC/DC tenant %s: flow not offloaded to "
                     "hardware, which would bypass AC/DC",
                     node->name, guest->info.tenant);
    }
    return node != NULL;
}

static bool
acdc_offload_outputs_to_guest(const char *dpif_type,
                              const struct nlattr *actions, size_t len)
    OVS_REQUIRES(guests_mutex)
{
    const struct nlattr *a;
    size_t left;

    NL_ATTR_FOR_EACH (a, left, actions, len) {
        switch (nl_attr_type(a)) {
        case OVS_ACTION_ATTR_OUTPUT:
            if (acdc_offload_is_guest(
                    acdc_guest_find(dpif_type, nl_attr_get_odp_port(a)))) {
                return true;
            }
            break;

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

/* Makes 'ports', names with struct acdc_port_info, the guest ports of the
 * datapath.  Returns true if there is one among them that was none. */
bool
acdc_offload_set_guests(const struct dpif *dpif, const struct shash *ports)
{
    const char *type = dpif_normalize_type(dpif_type(dpif));
    const struct shash_node *port;
    struct shash_node *node;
    bool any_new = false;

    ovs_mutex_lock(&guests_mutex);
    SHASH_FOR_EACH_SAFE (node, &guests) {
        const struct guest *guest = node->data;

        if (!strcmp(guest->dpif_type, type) && !shash_find(ports, node->name)) {
            free(node->data);
            shash_delete(&guests, node);
        }
    }
    SHASH_FOR_EACH (port, ports) {
        struct guest *guest = xmalloc(sizeof *guest), *old;

        guest->dpif_type = type;
        guest->info = *(const struct acdc_port_info *) port->data;
        old = shash_replace(&guests, port->name, guest);
        any_new |= !old;
        free(old);
    }
    ovs_mutex_unlock(&guests_mutex);
    return any_new;
}

/* Returns true if a flow from 'netdev' with these actions must stay in
 * software because it begins or ends at a guest port. */
bool
acdc_offload_refused(const struct netdev *netdev,
                     const struct nlattr *actions, size_t len)
{
    bool refused;

    ovs_mutex_lock(&guests_mutex);
    refused = !shash_is_empty(&guests)
              && (acdc_offload_is_guest(
                      shash_find(&guests, netdev_get_name(netdev)))
                  || acdc_offload_outputs_to_guest(
                         netdev_get_dpif_type(netdev), actions, len));
    ovs_mutex_unlock(&guests_mutex);

    return refused;
}

/* Has a provider do in software what must stay there.  It takes out what it has of the
 * flow, which a refusal would leave in hardware, with its former actions. */
void
acdc_offload_withhold(const struct netdev *netdev,
                      const struct nlattr **actions, size_t *len)
{
    static const struct nlattr software = {
        .nla_len = NLA_HDRLEN, .nla_type = OVS_ACTION_ATTR_USERSPACE,
    };

    if (acdc_offload_refused(netdev, *actions, *len)) {
        *actions = &software;
        *len = NLA_HDRLEN;
    }
}

/* To be called when a port leaves its datapath: a later port of its name is
 * a guest port only when it is bound again. */
void
acdc_offload_forget(const struct dpif *dpif, odp_port_t port_no)
{
    struct shash_node *node;

    ovs_mutex_lock(&guests_mutex);
    node = acdc_guest_find(dpif_normalize_type(dpif_type(dpif)), port_no);
    if (node) {
        free(node->data);
        shash_delete(&guests, node);
    }
    ovs_mutex_unlock(&guests_mutex);
}
