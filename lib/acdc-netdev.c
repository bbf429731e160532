/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-netdev.h"

#include <errno.h>

#include "acdc-arena.h"
#include "acdc-compat.h"
#include "acdc-dpif-provider.h"
#include "coverage.h"
#include "netdev.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs-thread.h"
#include "packets.h"
#include "timeval.h"

VLOG_DEFINE_THIS_MODULE(acdc_netdev);

COVERAGE_DEFINE(acdc_egress);           /* Packets from guest ports. */
COVERAGE_DEFINE(acdc_ingress);          /* Packets to guest ports. */
COVERAGE_DEFINE(acdc_injected);         /* FACKs made. */
COVERAGE_DEFINE(acdc_dropped);          /* FACKs consumed, policed data. */

/* The sweeper shares the main thread with everything else: at most
 * SWEEP_STEP_US of every SWEEP_INTERVAL_MS, looking at the clock after
 * SWEEP_BUDGET buckets.  A pass through the table begins at most every
 * PASS_INTERVAL_MS. */
#define SWEEP_STEP_US 300
#define SWEEP_INTERVAL_MS 3
#define SWEEP_BUDGET 128
#define PASS_INTERVAL_MS 1000

/* Memory for flows, with a part for those that wait for RCU to be freed. */
#define WITH_DEFERRED(N) ((N) + (N) / 16 + 1)

/* The low-water mark of that, unless fewer may come.  It is high, as a step of
 * memory takes the main thread up to 10 ms where a virtual machine's host has yet
 * to find the memory, and a PMD thread on the same processor waits for it: up to
 * the default limit all of it is there a second after the first tenant. */
#define FLOWS_READY ((size_t) WITH_DEFERRED(ACDC_MAX_FLOWS_DEFAULT))

/* IP MTU of a netdev that does not say. */
#define DEFAULT_MTU ETH_PAYLOAD_MAX

static struct acdc *
acdc_netdev_engine(const struct acdc_netdev *an)
{
    return ovsrcu_get(struct acdc *, &an->engine);
}

struct acdc_netdev *
acdc_netdev_create(void)
{
    struct acdc_netdev *an = xzalloc(sizeof *an);

    ovsrcu_init(&an->engine, NULL);
    ovs_mutex_init(&an->mutex);
    an->config.max_flows = ACDC_MAX_FLOWS_DEFAULT;
    an->config.idle_timeout = ACDC_IDLE_TIMEOUT_DEFAULT;
    an->config.exid = ACDC_OPT_EXID;
    ovs_list_init(&an->ports);
    atomic_count_init(&an->n_ports, 0);
    return an;
}

void
acdc_netdev_destroy(struct acdc_netdev *an)
{
    struct acdc *engine = acdc_netdev_engine(an);

    ovs_assert(ovs_list_is_empty(&an->ports));
    if (engine) {
        acdc_destroy(engine);
    }
    ovs_mutex_destroy(&an->mutex);
    free(an);
}

/* Adds a step of memory for flows if it is time.  Returns whether it may be time
 * for more. */
static bool
acdc_netdev_fill(const struct acdc_netdev *an)
    OVS_REQUIRES(an->mutex)
{
    size_t max_flows = an->config.max_flows;
    size_t n_flows = MIN(acdc_netdev_n_flows(an), max_flows);

    return acdc_arena_fill(MIN(WITH_DEFERRED(max_flows) - n_flows,
                               FLOWS_READY));
}

/* Ports. */

static int
acdc_netdev_read_mtu(struct netdev *netdev)
{
    int mtu;

    return netdev_get_mtu(netdev, &mtu) || mtu <= 0 ? DEFAULT_MTU : mtu;
}

/* (Re)binds 'port', whose other fields are set.  Returns false on error. */
static bool
acdc_netdev_port_bind(struct acdc *engine, struct acdc_netdev_port *port)
{
    struct acdc_port *handle;

    /* First the number, so that a change in between is not missed. */
    port->change_seq = netdev_get_change_seq(port->netdev);
    handle = acdc_port_bind(engine, port->port_no, port->name, port->tenant,
                            acdc_netdev_read_mtu(port->netdev));
    if (handle) {
        ovsrcu_set(&port->handle, handle);
    }
    return handle != NULL;
}

static void
acdc_netdev_port_unbind(struct acdc_netdev_port *port)
{
    ovsrcu_set(&port->handle, (struct acdc_port *) NULL);
    acdc_port_unbind(acdc_netdev_engine(port->owner), port->port_no);
    ovs_list_remove(&port->node);
    atomic_count_dec(&port->owner->n_ports);
    port->owner = NULL;
}

int
acdc_netdev_port_set(struct acdc_netdev *an, struct acdc_netdev_port *port,
                     struct netdev *netdev, odp_port_t port_no,
                     const char *name, const char *tenant)
{
    struct acdc *engine = acdc_netdev_engine(an);
    struct acdc_tenant_stats stats;
    int error = 0;

    ovs_mutex_lock(&an->mutex);
    if (tenant
        && (!engine || acdc_tenant_stats_get(engine, tenant, &stats))) {
        tenant = NULL;
        error = ENOENT;
    }
    if (tenant) {
        bool is_new = (!port->owner || strcmp(port->tenant, tenant)
                       || strncmp(port->name, name,
                                  sizeof port->name - 1));

        /* The engine would make a new handle and free the old one while
         * others may still pick it up. */
        if (is_new && port->owner) {
            acdc_netdev_port_unbind(port);
        }
        if (!port->owner) {
            port->owner = an;
            ovs_list_push_back(&an->ports, &port->node);
            atomic_count_inc(&an->n_ports);
        }
        port->netdev = netdev;
        port->port_no = odp_to_u32(port_no);
        ovs_strlcpy(port->name, name, sizeof port->name);
        ovs_strlcpy(port->tenant, tenant, sizeof port->tenant);
        if (!acdc_netdev_port_bind(engine, port)) {
            acdc_netdev_port_unbind(port);
            error = ENOMEM;
        } else if (is_new) {
            VLOG_DBG("port %s bound to tenant %s", name, tenant);
        }
    } else if (port->owner) {
        VLOG_DBG("port %s no longer bound to tenant %s", name, port->tenant);
        acdc_netdev_port_unbind(port);
    }
    ovs_mutex_unlock(&an->mutex);

    return error;
}

void
acdc_netdev_port_uninit(struct acdc_netdev_port *port)
{
    struct acdc_netdev *an = port->owner;

    if (an) {
        ovs_mutex_lock(&an->mutex);
        acdc_netdev_port_unbind(port);
        ovs_mutex_unlock(&an->mutex);
    }
}

static struct acdc_stats
acdc_netdev_stats(const struct acdc_netdev *an)
{
    struct acdc *engine = acdc_netdev_engine(an);
    struct acdc_stats stats = { .n_flows = 0 };

    if (engine) {
        acdc_stats_get(engine, &stats);
    }
    return stats;
}

uint32_t
acdc_netdev_n_flows(const struct acdc_netdev *an)
{
    return acdc_netdev_stats(an).n_flows;
}

uint32_t
acdc_netdev_max_flows(const struct acdc_netdev *an)
{
    return acdc_netdev_stats(an).max_flows;
}

/* Packets. */

/* Whether acdc_host_writable() need not be asked: so it is with most packets. */
static inline bool
acdc_netdev_is_private(const struct dp_packet *b OVS_UNUSED)
{
#ifdef DPDK_NETDEV
    const struct rte_mbuf *m = &b->mbuf;

    return (b->source != DPBUF_DPDK
            || (rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m)));
#else
    return true;
#endif
}

/* Shows the packets of 'batch' to the engine. */
static void
acdc_netdev_process(struct acdc_port *port, enum acdc_dir dir,
                    const struct dp_packet_batch *batch,
                    struct acdc_pkt pkts[], struct acdc_injected *injected,
                    long long int now)
{
    struct dp_packet *b;

    BUILD_ASSERT_DECL((int) NETDEV_MAX_BURST <= (int) ACDC_BATCH_MAX);
    DP_PACKET_BATCH_FOR_EACH (i, b, batch) {
        uint32_t len = dp_packet_size(b);
        uint32_t hlen = len;

#ifdef DPDK_NETDEV
        if (OVS_UNLIKELY(b->mbuf.nb_segs > 1)) {
            hlen = b->mbuf.data_len;
        }
#endif
        OVS_PREFETCH(dp_packet_data(b));
        acdc_pkt_init(&pkts[i], dp_packet_data(b), len, hlen);
        pkts[i].writable = (acdc_netdev_is_private(b) ? ACDC_W_YES
                            : ACDC_W_UNKNOWN);
        if (OVS_UNLIKELY(b->packet_type != htonl(PT_ETH))) {
            /* Begins with the network layer.  Of another namespace than
             * ethertypes: nothing that the engine knows. */
            pkts[i].ethertype
                = pt_ns(b->packet_type) == OFPHTN_ETHERTYPE
                ? pt_ns_type(b->packet_type) : UINT16_MAX;
            pkts[i].l3_ofs = 0;
        }
        /* Only with userspace TSO, either. */
        pkts[i].gso = dp_packet_hwol_is_tso(b);
        pkts[i].csum_partial = acdc_packet_csum_is_partial(b);
        pkts[i].host = b;
        pkts[i].aux = injected;
    }
    acdc_process(port, dir, pkts, dp_packet_batch_size(batch),
                 (uint64_t) now * 1000);
}

void
acdc_netdev_egress(struct acdc_port *port, struct dp_packet_batch *batch,
                   struct dp_packet_batch *overflow, long long int now)
{
    struct acdc_injected injected = { .n = 0 };
    struct acdc_pkt pkts[NETDEV_MAX_BURST];
    size_t n = dp_packet_batch_size(batch);
    struct dp_packet_batch *to = batch;
    size_t n_dropped = 0;
    size_t n_injected = 0;

    acdc_netdev_process(port, ACDC_EGRESS, batch, pkts, &injected, now);

    dp_packet_batch_init(overflow);
    dp_packet_batch_refill_init(batch);
    for (size_t i = 0; i < n; i++) {
        struct dp_packet *b = pkts[i].host;

        /* pkts[] has the packets, so that 'batch' may be overwritten. */
        for (size_t j = 0; j < injected.n; j++) {
            if (injected.items[j].before == b) {
                to = dp_packet_batch_is_full(batch) ? overflow : batch;
                dp_packet_batch_add(to, injected.items[j].packet);
                n_injected++;
            }
        }
        if (OVS_LIKELY(pkts[i].verdict == ACDC_PASS)) {
            to = dp_packet_batch_is_full(batch) ? overflow : batch;
            dp_packet_batch_add(to, b);
        } else {
            dp_packet_delete(b);
            n_dropped++;
        }
    }
    ovs_assert(n_injected == injected.n);

    COVERAGE_ADD(acdc_egress, n);
    COVERAGE_ADD(acdc_injected, injected.n);
    COVERAGE_ADD(acdc_dropped, n_dropped);
}

void
acdc_netdev_ingress(struct acdc_port *port, struct dp_packet_batch *batch,
                    long long int now)
{
    const size_t n = dp_packet_batch_size(batch);
    struct acdc_pkt pkts[NETDEV_MAX_BURST];
    struct dp_packet *b;
    size_t i;

    acdc_netdev_process(port, ACDC_INGRESS, batch, pkts, NULL, now);

    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, b, batch) {
        if (OVS_LIKELY(pkts[i].verdict == ACDC_PASS)) {
            dp_packet_batch_refill(batch, b, i);
        } else {
            dp_packet_delete(b);
        }
    }

    COVERAGE_ADD(acdc_ingress, n);
    COVERAGE_ADD(acdc_dropped, n - dp_packet_batch_size(batch));
}

/* The main loop's part. */

/* Tells the engine MTUs that changed: netdev-dpdk changes them some time after
 * the configuration did. */
static void
acdc_netdev_refresh_mtus(struct acdc_netdev *an, struct acdc *engine)
    OVS_REQUIRES(an->mutex)
{
    struct acdc_netdev_port *port;

    LIST_FOR_EACH (port, node, &an->ports) {
        if (port->change_seq != netdev_get_change_seq(port->netdev)) {
            acdc_netdev_port_bind(engine, port);
        }
    }
}

void
acdc_netdev_run(struct acdc_netdev *an)
{
    struct acdc *engine = acdc_netdev_engine(an);
    long long int now = time_msec();
    struct acdc_stats stats;
    bool filling, pass_done;

    if (!engine || now < an->next_sweep) {
        return;
    }

    ovs_mutex_lock(&an->mutex);
    if (now >= an->next_pass) {
        an->next_pass = now + PASS_INTERVAL_MS;
        acdc_netdev_refresh_mtus(an, engine);
    }

    long long int start = time_usec();
    long long int usec = start;
    acdc_stats_get(engine, &stats);
    filling = acdc_netdev_fill(an);
    pass_done = !stats.n_flows;
    while (!pass_done && usec - start < SWEEP_STEP_US) {
        pass_done = acdc_sweep(engine, (uint64_t) usec * 1000, SWEEP_BUDGET);
        usec = time_usec();
    }

    an->next_sweep = now + SWEEP_INTERVAL_MS;
    if (pass_done && !filling) {
        an->next_sweep = MAX(an->next_sweep, an->next_pass);
    }
    ovs_mutex_unlock(&an->mutex);
}

void
acdc_netdev_wait(struct acdc_netdev *an)
{
    if (acdc_netdev_engine(an)) {
        poll_timer_wait_until(an->next_sweep);
    }
}

/* Operations of struct dpif_class. */

static int
acdc_netdev_set_config(struct dpif *dpif, const struct acdc_config *cfg)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine = acdc_netdev_engine(an);
    int error;

    ovs_mutex_lock(&an->mutex);
    error = engine ? acdc_config_set(engine, cfg) : 0;
    if (!error) {
        an->config = *cfg;
    }
    ovs_mutex_unlock(&an->mutex);

    return error;
}

static int
acdc_netdev_get_config(struct dpif *dpif, struct acdc_config *cfg)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);

    ovs_mutex_lock(&an->mutex);
    *cfg = an->config;
    ovs_mutex_unlock(&an->mutex);

    return 0;
}

static int
acdc_netdev_set_tenant(struct dpif *dpif, const struct acdc_tenant_config *tc)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine;
    int error;

    ovs_mutex_lock(&an->mutex);
    engine = acdc_netdev_engine(an);
    if (!engine) {
        engine = acdc_create(&an->config);
        ovsrcu_set(&an->engine, engine);
        if (engine) {
            /* The next connections' memory.  The sweeper adds the rest. */
            acdc_netdev_fill(an);
        }
    }
    error = engine ? acdc_tenant_set(engine, tc) : ENOMEM;
    ovs_mutex_unlock(&an->mutex);

    return error;
}

static int
acdc_netdev_del_tenant(struct dpif *dpif, const char *name)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine = acdc_netdev_engine(an);
    struct acdc_netdev_port *port;
    int error;

    ovs_mutex_lock(&an->mutex);
    /* Removing a tenant frees the handles of its ports. */
    LIST_FOR_EACH_SAFE (port, node, &an->ports) {
        if (!strcmp(port->tenant, name)) {
            acdc_netdev_port_unbind(port);
        }
    }
    error = engine ? acdc_tenant_del(engine, name) : ENOENT;
    ovs_mutex_unlock(&an->mutex);

    return error;
}

static int
acdc_netdev_get_stats(struct dpif *dpif, struct acdc_stats *stats)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine = acdc_netdev_engine(an);

    ovs_mutex_lock(&an->mutex);
    memset(stats, 0, sizeof *stats);
    if (engine) {
        acdc_stats_get(engine, stats);
    } else {
        stats->max_flows = an->config.max_flows;
    }
    ovs_mutex_unlock(&an->mutex);

    return 0;
}

static int
acdc_netdev_get_tenant(struct dpif *dpif, unsigned int idx,
                       struct acdc_tenant_stats *stats)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine = acdc_netdev_engine(an);
    int error;

    ovs_mutex_lock(&an->mutex);
    error = engine ? acdc_tenant_stats_nth(engine, idx, stats) : ENOENT;
    ovs_mutex_unlock(&an->mutex);

    return error;
}

static int
acdc_netdev_get_port(struct dpif *dpif, unsigned int idx,
                     struct acdc_port_info *info)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine = acdc_netdev_engine(an);
    int error;

    ovs_mutex_lock(&an->mutex);
    error = engine ? acdc_port_info_nth(engine, idx, info) : ENOENT;
    ovs_mutex_unlock(&an->mutex);

    return error;
}

static int
acdc_netdev_dump(struct dpif *dpif, uint64_t *cursor,
                 struct acdc_flow_info *flows, unsigned int max,
                 unsigned int *n)
{
    struct acdc *engine = acdc_netdev_engine(dpif_netdev_get_acdc(dpif));

    *n = (engine
          ? acdc_dump(engine, cursor, (uint64_t) time_usec() * 1000, flows,
                      max)
          : 0);
    return 0;
}

static int
acdc_netdev_flush(struct dpif *dpif, const char *tenant, odp_port_t port,
                  uint32_t *n)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc *engine = acdc_netdev_engine(an);
    uint32_t port_no = odp_to_u32(port);

    ovs_mutex_lock(&an->mutex);
    *n = (engine
          ? acdc_flush(engine, tenant, port == ODPP_NONE ? NULL : &port_no)
          : 0);
    ovs_mutex_unlock(&an->mutex);

    return 0;
}

const struct acdc_dpif_class acdc_netdev_class = {
    acdc_netdev_set_config,
    acdc_netdev_get_config,
    acdc_netdev_set_tenant,
    acdc_netdev_del_tenant,
    dpif_netdev_acdc_set_port,
    acdc_netdev_get_stats,
    acdc_netdev_get_tenant,
    acdc_netdev_get_port,
    acdc_netdev_dump,
    acdc_netdev_flush,
};
