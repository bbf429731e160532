/* SPDX-License-Identifier: Apache-2.0 */

/* Which datapath flow the packets of a connection take: a cache for the connections
 * of guest ports, beside those of dpif-netdev-private-dfc.h.
 *
 * An entry takes 16 bytes, not 600 as in the exact match cache (EMC), so each
 * connection has one.  It is found by addresses and ports.  All else that a flow may
 * match on is the same for many connections and kept once, in a "path".
 *
 * Only plain TCP is found here: IPv4 without options, no fragment, at most one 802.1Q
 * tag.  Flows that look at TCP flags have no path.
 *
 * Thread-safety: as for 'struct dfc_cache': one for each PMD thread, used by that. */

#ifndef ACDC_CONN_CACHE_H
#define ACDC_CONN_CACHE_H 1

#include "acdc-netdev.h"
#include "dp-packet.h"

struct acdc_conn_cache;
struct dp_netdev_flow;

struct acdc_conn_hits {         /* Of one batch. */
    struct dp_netdev_flow *flows[NETDEV_MAX_BURST];     /* NULL: look it up. */
    uint16_t tcp_flags[NETDEV_MAX_BURST];
    uint32_t learn;             /* For dpif-netdev.c: a bit for each packet of its
                                 * flow map that is to be inserted. */
};
BUILD_ASSERT_DECL(NETDEV_MAX_BURST <= 32);

/* Makes '*cachep' if there are guest ports, else frees it.  Whether there is one. */
bool acdc_conn_cache_ready(struct acdc_conn_cache **cachep,
                           const struct acdc_netdev *);
void acdc_conn_cache_destroy(struct acdc_conn_cache *);        /* Also NULL. */

/* Fills in '*hits' for 'batch', just received from 'in_port'.  Those found have
 * offsets and hash set as miniflow_extract() and the EMC's look-up do.  False: '*hits'
 * is not set and nothing is to be inserted, as that was of little use before. */
bool acdc_conn_cache_find(struct acdc_conn_cache *,
                          const struct dp_packet_batch *batch,
                          odp_port_t in_port, struct acdc_conn_hits *hits);

/* Inserts the connection of 'packet', one of the last batch and as it was received,
 * if 'flow', which it takes, can have a path. */
void acdc_conn_cache_insert(struct acdc_conn_cache *, struct dp_packet *packet,
                            struct dp_netdev_flow *flow);

#endif /* acdc-conn-cache.h */
