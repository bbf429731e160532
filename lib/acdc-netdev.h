/* SPDX-License-Identifier: Apache-2.0 */

/* AC/DC in the userspace datapath: what lies between dpif-netdev.c and the
 * engine (acdc.h).
 *
 * Each dp_netdev has one struct acdc_netdev, each dp_netdev_port one struct
 * acdc_netdev_port.  A port that is bound to a tenant has a handle, which the
 * datapath reads with acdc_netdev_port_get() once a batch and, unless it is
 * null, hands to acdc_netdev_egress() or acdc_netdev_ingress().
 *
 * Thread-safety: acdc_netdev_egress() and acdc_netdev_ingress() may run on
 * any number of threads, between quiescent states.  Everything else takes the
 * mutex of the acdc_netdev, in which no packet is processed.  The caller keeps
 * a port and its netdev alive meanwhile ('port_rwlock' of the dp_netdev, taken
 * before the mutex). */

#ifndef ACDC_NETDEV_H
#define ACDC_NETDEV_H 1

#include "acdc.h"
#include "dp-packet.h"
#include "openvswitch/list.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"

struct acdc_dpif_class;
struct acdc_hold;
struct dpif;
struct dp_netdev_rxq;
struct netdev;

/* A datapath's.  Private, but that each batch asks acdc_netdev_is_active(). */
struct acdc_netdev {
    struct acdc *engine;        /* Takes next to no memory without a tenant. */
    struct ovs_mutex mutex;     /* Serializes configuration and sweep. */
    /* Guarded by 'mutex'. */
    struct ovs_list ports;      /* Of struct acdc_netdev_port, the bound. */
    atomic_count n_ports;       /* In 'ports'.  Any thread. */

    /* Odd while the configuration changes, see acdc_netdev_begin_change(). */
    ATOMIC(unsigned int) changes;

    /* In ms, for the main thread.  LLONG_MAX: no tenant yet. */
    long long int next_sweep, next_pass;

    /* The main thread's, to wake for the packets that it holds. */
    int timer_fd;               /* -1: not needed yet. */
    long long int next_release; /* In us, or LLONG_MAX. */
};

struct acdc_netdev *acdc_netdev_create(void);
/* No thread may process packets any more, all ports are gone. */
void acdc_netdev_destroy(struct acdc_netdev *);
/* Sweeps the flow table in small steps and logs what is worth a look.  To be
 * called by the main loop, which acdc_netdev_wait() wakes for it. */
void acdc_netdev_run(struct acdc_netdev *);
void acdc_netdev_wait(struct acdc_netdev *);

/* A port's.  All zeros: not bound. */
struct acdc_netdev_port {
    OVSRCU_TYPE(struct acdc_port *) handle;     /* NULL: not bound. */

    /* Guarded by the mutex of 'owner'; valid while bound. */
    struct acdc_netdev *owner;
    struct ovs_list node;       /* In 'owner->ports'. */
    struct netdev *netdev;
    uint64_t change_seq;        /* Of 'netdev' when the MTU was read. */
    uint32_t port_no;
};

/* Binds or, with a null 'tenant', unbinds.  Returns 0, ENOENT if there is no
 * such tenant or ENOMEM; then the port is not bound. */
int acdc_netdev_port_set(struct acdc_netdev *, struct acdc_netdev_port *,
                         struct netdev *, odp_port_t, const char *name,
                         const char *tenant);
/* To be called before the port is freed. */
void acdc_netdev_port_uninit(struct acdc_netdev_port *);

static inline struct acdc_port *
acdc_netdev_port_get(const struct acdc_netdev_port *port)
{
    return ovsrcu_get(struct acdc_port *, &port->handle);
}

/* Whether any port is bound.  Any thread. */
static inline bool
acdc_netdev_is_active(const struct acdc_netdev *an)
{
    return atomic_count_get(CONST_CAST(atomic_count *, &an->n_ports)) != 0;
}

/* Any thread. */
struct acdc_stats acdc_netdev_stats(const struct acdc_netdev *);

/* What acdc_host_inject() made while acdc_process() ran on one batch, in any
 * order: each packet goes immediately before packet 'before'. */
struct acdc_injected {
    size_t n;
    struct {
        struct dp_packet *packet;
        const struct dp_packet *before;
    } items[NETDEV_MAX_BURST];
};

/* A copy of what 'like' is but for its data: its first 'headers' bytes, and room
 * for 'payload' bytes behind them.  NULL: there is no memory of like's kind. */
struct dp_packet *acdc_host_clone(struct dp_packet *like, unsigned int headers,
                                  unsigned int payload);

/* A packet of 'len' bytes that goes the way of 'like', or NULL. */
struct dp_packet *acdc_host_packet_like(const struct dp_packet *like,
                                        unsigned int len);

/* What the engine is to know of packet 'b'. */
void acdc_netdev_show(struct acdc_pkt *, struct dp_packet *b);

/* Processes 'batch', just received from 'rxq' of a bound port.  Packets may be
 * added and removed; those that no longer fit into 'batch' are in 'overflow',
 * which comes after it.  'now' in microseconds as from time_usec().
 *
 * Packets that are to leave later are put into '*hold', the thread's own, made
 * when it is first needed (acdc-hold.h).  For no packet to pass those of its connection that
 * were received before it, acdc_hold_release() is called first, also for a port that is
 * bound no more, and once more before 'batch' goes on if this returns true. */
bool acdc_netdev_egress(struct acdc_netdev *, struct acdc_port *,
                        struct dp_netdev_rxq *rxq,
                        struct dp_packet_batch *batch,
                        struct dp_packet_batch *overflow,
                        struct acdc_hold **hold, long long int now);
/* Processes 'batch', about to be sent to a bound port.  Packets may be
 * removed, none is added. */
void acdc_netdev_ingress(struct acdc_port *, struct dp_packet_batch *batch,
                         long long int now);

/* For struct dpif_class, and what it needs of dpif-netdev.c. */
extern const struct acdc_dpif_class acdc_netdev_class;
struct acdc_netdev *dpif_netdev_get_acdc(const struct dpif *);
/* NULL: no longer bound. */
struct acdc_port *dpif_netdev_get_acdc_port(const struct dp_netdev_rxq *);
int dpif_netdev_acdc_set_port(struct dpif *, odp_port_t, const char *name,
                              const char *tenant);

#endif /* acdc-netdev.h */
