/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-netdev.h"

#include <errno.h>
#include <unistd.h>

#include "acdc-arena.h"
#include "acdc-compat.h"
#include "acdc-dpif-provider.h"
#include "acdc-hold.h"
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

struct acdc_netdev *
acdc_netdev_create(void)
{
    struct acdc_netdev *an = xzalloc(sizeof *an);

    an->engine = acdc_create(NULL);
    if (!an->engine) {
        out_of_memory();
    }
    ovs_mutex_init(&an->mutex);
    ovs_list_init(&an->ports);
    atomic_count_init(&an->n_ports, 0);
    acdc_set_host(an->engine, ACDC_HOST_HOLDS | ACDC_HOST_KEEPS);
    atomic_init(&an->changes, 0);
    an->next_sweep = LLONG_MAX;
    an->timer_fd = -1;
    an->next_release = LLONG_MAX;
    return an;
}

void
acdc_netdev_destroy(struct acdc_netdev *an)
{
    ovs_assert(ovs_list_is_empty(&an->ports));
    acdc_destroy(an->engine);
    if (an->timer_fd >= 0) {
        close(an->timer_fd);
    }
    ovs_mutex_destroy(&an->mutex);
    free(an);
}

struct acdc_stats
acdc_netdev_stats(const struct acdc_netdev *an)
{
    struct acdc_stats stats;

    acdc_stats_get(an->engine, &stats);
    return stats;
}

/* Adds a step of memory for flows if it is time.  Returns whether it may be time
 * for more. */
static bool
acdc_netdev_fill(const struct acdc_netdev *an)
    OVS_REQUIRES(an->mutex)
{
    struct acdc_stats stats = acdc_netdev_stats(an);

    return acdc_arena_fill(MIN(WITH_DEFERRED((size_t) stats.max_flows)
                               - MIN(stats.n_flows, stats.max_flows),
                               FLOWS_READY));
}

/* Around whatever may make the engine forget that packets of a connection are held.
 * What is held leaves first, and until the end no thread holds any. */
static void
acdc_netdev_begin_change(struct acdc_netdev *an)
    OVS_ACQUIRES(an->mutex)
{
    unsigned int orig;

    ovs_mutex_lock(&an->mutex);
    atomic_add(&an->changes, 1, &orig);
}

static void
acdc_netdev_end_change(struct acdc_netdev *an)
    OVS_RELEASES(an->mutex)
{
    unsigned int orig;

    atomic_add(&an->changes, 1, &orig);
    ovs_mutex_unlock(&an->mutex);
}

/* Ports. */

static uint32_t
acdc_netdev_port_read_mtu(struct acdc_netdev_port *port)
{
    int mtu;

    /* First the number, so that a change in between is not missed. */
    port->change_seq = netdev_get_change_seq(port->netdev);
    return (netdev_get_mtu(port->netdev, &mtu) || mtu <= 0
            ? DEFAULT_MTU : mtu);
}

static void
acdc_netdev_port_unbind(struct acdc_netdev_port *port)
{
    ovsrcu_set(&port->handle, (struct acdc_port *) NULL);
    acdc_port_unbind(port->owner->engine, port->port_no);
    ovs_list_remove(&port->node);
    atomic_count_dec(&port->owner->n_ports);
    port->owner = NULL;
}

/* Sets 'port->handle'; other fields than 'owner' and 'node' are set. */
static int
acdc_netdev_port_bind(struct acdc_netdev *an, struct acdc_netdev_port *port,
                      const char *name, const char *tenant)
{
    struct acdc_port *handle;

    handle = acdc_port_bind(an->engine, port->port_no, name, tenant,
                            acdc_netdev_port_read_mtu(port));
    if (!handle) {
        return ENOMEM;
    }
    if (!port->owner) {
        VLOG_DBG("port %s bound to tenant %s", name, tenant);
        port->owner = an;
        ovs_list_push_back(&an->ports, &port->node);
        atomic_count_inc(&an->n_ports);
    }
    ovsrcu_set(&port->handle, handle);
    return 0;
}

int
acdc_netdev_port_set(struct acdc_netdev *an, struct acdc_netdev_port *port,
                     struct netdev *netdev, odp_port_t port_no,
                     const char *name, const char *tenant)
{
    struct acdc_port *old;
    int error = 0;

    acdc_netdev_begin_change(an);
    if (tenant && !acdc_tenant_exists(an->engine, tenant)) {
        tenant = NULL;
        error = ENOENT;
    }
    old = acdc_netdev_port_get(port);
    if (old && !(tenant && acdc_port_is(old, name, tenant))) {
        /* The engine frees it: first nobody may pick it up any more. */
        VLOG_DBG("port %s no longer bound", name);
        acdc_netdev_port_unbind(port);
    }
    if (tenant) {
        port->netdev = netdev;
        port->port_no = odp_to_u32(port_no);
        error = acdc_netdev_port_bind(an, port, name, tenant);
    }
    acdc_netdev_end_change(an);

    return error;
}

void
acdc_netdev_port_uninit(struct acdc_netdev_port *port)
{
    struct acdc_netdev *an = port->owner;

    if (an) {
        acdc_netdev_begin_change(an);
        acdc_netdev_port_unbind(port);
        acdc_netdev_end_change(an);
    }
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

void
acdc_netdev_show(struct acdc_pkt *p, struct dp_packet *b)
{
    uint32_t len = dp_packet_size(b);
    uint32_t hlen = len;

#ifdef DPDK_NETDEV
    if (OVS_UNLIKELY(b->mbuf.nb_segs > 1)) {
        hlen = b->mbuf.data_len;
    }
#endif
    OVS_PREFETCH(dp_packet_data(b));
    acdc_pkt_init(p, dp_packet_data(b), len, hlen);
    p->writable = acdc_netdev_is_private(b) ? ACDC_W_YES : ACDC_W_UNKNOWN;
    if (OVS_UNLIKELY(b->packet_type != htonl(PT_ETH))) {
        /* Begins with the network layer.  Of another namespace than
         * ethertypes: nothing that the engine knows. */
        p->ethertype = (pt_ns(b->packet_type) == OFPHTN_ETHERTYPE
                        ? pt_ns_type(b->packet_type) : UINT16_MAX);
        p->l3_ofs = 0;
    }
    /* Only with userspace TSO, either. */
    p->gso = acdc_packet_segment(b);
    p->csum_partial = acdc_packet_csum_is_partial(b);
    p->host = b;
}

/* Shows the 'n' packets, at most NETDEV_MAX_BURST, to the engine. */
static void
acdc_netdev_process(struct acdc_port *port, enum acdc_dir dir,
                    struct dp_packet *packets[], size_t n,
                    struct acdc_pkt pkts[], struct acdc_injected *injected,
                    long long int now)
{
    BUILD_ASSERT_DECL((int) NETDEV_MAX_BURST <= (int) ACDC_BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        acdc_netdev_show(&pkts[i], packets[i]);
        pkts[i].aux = injected;
    }
    acdc_process(port, dir, pkts, n, (uint64_t) now * 1000);
}

static inline void
acdc_netdev_add(struct dp_packet_batch *batch,
                struct dp_packet_batch *overflow, struct dp_packet *b)
{
    dp_packet_batch_add(acdc_packet_batch_is_full(batch) ? overflow : batch, b);
}

bool
acdc_netdev_egress(struct acdc_netdev *an, struct acdc_port *port,
                   struct dp_netdev_rxq *rxq, struct dp_packet_batch *batch,
                   struct dp_packet_batch *overflow, struct acdc_hold **hold,
                   long long int now)
{
    struct acdc_injected injected = { .n = 0 };
    struct acdc_pkt pkts[NETDEV_MAX_BURST];
    size_t n = dp_packet_batch_size(batch);
    size_t n_dropped = 0;
    size_t n_injected = 0;
    bool changed = false;

    ovs_assert(n <= NETDEV_MAX_BURST);
    acdc_netdev_process(port, ACDC_EGRESS, batch->packets, n, pkts, &injected,
                        now);
    if (OVS_UNLIKELY(*hold)) {
        changed = acdc_hold_has_changed(an, *hold);
    }

    dp_packet_batch_init(overflow);
    dp_packet_batch_refill_init(batch);
    for (size_t i = 0; i < n; i++) {
        struct dp_packet *b = pkts[i].host;

        /* pkts[] has the packets, so that 'batch' may be overwritten. */
        for (size_t j = 0; j < injected.n; j++) {
            if (injected.items[j].before == b) {
                acdc_netdev_add(batch, overflow, injected.items[j].packet);
                n_injected++;
            }
        }
        if (OVS_UNLIKELY(pkts[i].keep_len)) {
            acdc_hold_keep(an, hold, port, rxq, &pkts[i], now);
        }
        if (OVS_LIKELY(pkts[i].verdict == ACDC_PASS)) {
            acdc_netdev_add(batch, overflow, b);
        } else if (pkts[i].verdict == ACDC_DROP) {
            dp_packet_delete(b);
            n_dropped++;
        } else if (!acdc_hold_add(an, hold, rxq, &pkts[i], now)) {
            acdc_netdev_add(batch, overflow, b);
        }
    }
    ovs_assert(n_injected == injected.n);

    COVERAGE_ADD(acdc_egress, n);
    COVERAGE_ADD(acdc_injected, injected.n);
    COVERAGE_ADD(acdc_dropped, n_dropped);
    return changed;
}

void
acdc_netdev_ingress(struct acdc_port *port, struct dp_packet_batch *batch,
                    long long int now)
{
    const size_t n = dp_packet_batch_size(batch);
    struct acdc_pkt pkts[NETDEV_MAX_BURST];
    size_t count;

    dp_packet_batch_refill_init(batch);
    for (size_t start = 0; start < n; start += count) {
        count = MIN(n - start, NETDEV_MAX_BURST);
        acdc_netdev_process(port, ACDC_INGRESS, &batch->packets[start], count,
                            pkts, NULL, now);
        for (size_t i = 0; i < count; i++) {
            struct dp_packet *b = pkts[i].host;

            if (OVS_LIKELY(pkts[i].verdict != ACDC_DROP)) {
                dp_packet_batch_add(batch, b);
            } else {
                dp_packet_delete(b);
            }
        }
    }

    COVERAGE_ADD(acdc_ingress, n);
    COVERAGE_ADD(acdc_dropped, n - dp_packet_batch_size(batch));
}

/* The main loop's part. */

/* Tells the engine MTUs that changed: netdev-dpdk changes them some time after
 * the configuration did. */
static void
acdc_netdev_refresh_mtus(struct acdc_netdev *an)
    OVS_REQUIRES(an->mutex)
{
    struct acdc_netdev_port *port;

    LIST_FOR_EACH (port, node, &an->ports) {
        if (port->change_seq != netdev_get_change_seq(port->netdev)) {
            acdc_port_set_mtu(acdc_netdev_port_get(port),
                              acdc_netdev_port_read_mtu(port));
        }
    }
}

void
acdc_netdev_run(struct acdc_netdev *an)
{
    long long int now = time_msec();
    bool filling, pass_done;

    if (now < an->next_sweep) {
        return;
    }

    ovs_mutex_lock(&an->mutex);
    if (now >= an->next_pass) {
        an->next_pass = now + PASS_INTERVAL_MS;
        acdc_netdev_refresh_mtus(an);
    }

    long long int start = time_usec();
    long long int usec = start;
    filling = acdc_netdev_fill(an);
    pass_done = !acdc_netdev_stats(an).n_flows;
    while (!pass_done && usec - start < SWEEP_STEP_US) {
        pass_done = acdc_sweep(an->engine, (uint64_t) usec * 1000,
                               SWEEP_BUDGET);
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
    poll_timer_wait_until(an->next_sweep);
    acdc_hold_wait(an);
}

/* Operations of struct dpif_class. */

static int
acdc_netdev_set_config(struct dpif *dpif, const struct acdc_config *cfg)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    int error;

    acdc_netdev_begin_change(an);
    error = acdc_config_set(an->engine, cfg);
    acdc_netdev_end_change(an);

    return error;
}

static int
acdc_netdev_get_config(struct dpif *dpif, struct acdc_config *cfg)
{
    acdc_config_get(dpif_netdev_get_acdc(dpif)->engine, cfg);
    return 0;
}

static int
acdc_netdev_set_tenant(struct dpif *dpif, const struct acdc_tenant_config *tc)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    int error;

    acdc_netdev_begin_change(an);
    error = acdc_tenant_set(an->engine, tc);
    if (!error && an->next_sweep == LLONG_MAX) {
        /* The next connections' memory.  The sweeper adds the rest. */
        acdc_netdev_fill(an);
        an->next_sweep = 0;
    }
    acdc_netdev_end_change(an);

    return error;
}

static int
acdc_netdev_del_tenant(struct dpif *dpif, const char *name)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    struct acdc_netdev_port *port;
    int error;

    acdc_netdev_begin_change(an);
    /* Removing a tenant frees the handles of its ports. */
    LIST_FOR_EACH_SAFE (port, node, &an->ports) {
        if (acdc_port_is(acdc_netdev_port_get(port), NULL, name)) {
            acdc_netdev_port_unbind(port);
        }
    }
    error = acdc_tenant_del(an->engine, name);
    acdc_netdev_end_change(an);

    return error;
}

static int
acdc_netdev_get_stats(struct dpif *dpif, struct acdc_stats *stats)
{
    acdc_stats_get(dpif_netdev_get_acdc(dpif)->engine, stats);
    return 0;
}

static int
acdc_netdev_get_tenant(struct dpif *dpif, unsigned int idx,
                       struct acdc_tenant_stats *stats)
{
    return acdc_tenant_stats_nth(dpif_netdev_get_acdc(dpif)->engine, idx,
                                 stats);
}

static int
acdc_netdev_get_port(struct dpif *dpif, unsigned int idx,
                     struct acdc_port_info *info)
{
    return acdc_port_info_nth(dpif_netdev_get_acdc(dpif)->engine, idx, info);
}

static int
acdc_netdev_dump(struct dpif *dpif, uint64_t *cursor,
                 struct acdc_flow_info *flows, unsigned int max,
                 unsigned int *n)
{
    *n = acdc_dump(dpif_netdev_get_acdc(dpif)->engine, cursor,
                   (uint64_t) time_usec() * 1000, flows, max);
    return 0;
}

static int
acdc_netdev_flush(struct dpif *dpif, const char *tenant, odp_port_t port,
                  uint32_t *n)
{
    struct acdc_netdev *an = dpif_netdev_get_acdc(dpif);
    uint32_t port_no = odp_to_u32(port);

    acdc_netdev_begin_change(an);
    *n = acdc_flush(an->engine, tenant, port == ODPP_NONE ? NULL : &port_no);
    acdc_netdev_end_change(an);

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
