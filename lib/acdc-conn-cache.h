/* SPDX-License-Identifier: Apache-2.0 */

/* Which datapath flow the packets of a connection take: a cache beside
 * dpif-netdev's own (dpif-netdev-private-dfc.h), for the connections of guest
 * ports.
 *
 * What the engine does to a packet takes time.  Finding a packet's flow takes
 * more as soon as there are more connections than the exact match cache (EMC)
 * holds: extracting all fields, masking them and looking into the classifier's
 * subtables.  The EMC has 8192 entries of some 600 bytes; here one has 16, so
 * that each connection of a port has its own and is found by its addresses and
 * ports.  All else that a flow may match on is the same for most packets of
 * many connections and kept once, in a "path": the port, the Ethernet header
 * and the flow's mask of what it looks at in the IP header.
 *
 * A packet takes a path only if it is what the path's flow would match: plain
 * TCP over IPv4, at most one 802.1Q tag, neither IP options nor a fragment, and
 * equal in all that the flow's mask has.  Flows that look at TCP flags have no path.  A
 * flow that was deleted is not used any more, as in the EMC.
 *
 * Thread-safety: as for 'struct dfc_cache', beside which it is: one cache for
 * each PMD thread, only used by that. */

#ifndef ACDC_CONN_CACHE_H
#define ACDC_CONN_CACHE_H 1

#include <stdbool.h>
#include <stdint.h>

#include "acdc-netdev.h"
#include "dp-packet.h"
#include "openvswitch/types.h"

struct acdc_conn_cache;
struct dp_netdev_flow;

/* What is known of the packets of one batch. */
struct acdc_conn_hits {
    struct dp_netdev_flow *flows[NETDEV_MAX_BURST];     /* NULL: look it up. */
    uint16_t tcp_flags[NETDEV_MAX_BURST];
    uint32_t learn;             /* For dpif-netdev.c: a bit for each packet of its
                                 * flow map that is to be inserted. */
};
BUILD_ASSERT_DECL(NETDEV_MAX_BURST <= 32);

/* Whether acdc_conn_cache_ready() has something to say: for batches without guest
 * ports, whose 'cache' is NULL. */
static inline bool
acdc_conn_cache_is_due(const struct acdc_conn_cache *cache,
                       const struct acdc_netdev *an)
{
    return cache || acdc_netdev_is_active(an);
}

/* Makes '*cachep' when there are guest ports, and frees it when there are none
 * any more.  Whether there is one. */
bool acdc_conn_cache_ready(struct acdc_conn_cache **cachep,
                           const struct acdc_netdev *);

/* Fills in '*hits' for 'batch', just received from 'in_port'.  Those found have
 * offsets and hash set as miniflow_extract() and the EMC's look-up do.
 *
 * False: '*hits' is not set and nothing is to be inserted, as that was of little
 * use for what came from 'in_port'. */
bool acdc_conn_cache_find(struct acdc_conn_cache *,
                          const struct dp_packet_batch *batch,
                          odp_port_t in_port, struct acdc_conn_hits *hits);

/* Whether 'packet', one of the last batch and as it was received, and 'flow',
 * which it takes, may be inserted. */
bool acdc_conn_cache_takes(const struct dp_packet *packet,
                           const struct dp_netdev_flow *flow);
void acdc_conn_cache_insert(struct acdc_conn_cache *,
                            const struct dp_packet *packet,
                            struct dp_netdev_flow *flow);

/* With NULL, does nothing. */
void acdc_conn_cache_destroy(struct acdc_conn_cache *);

#endif /* acdc-conn-cache.h */
