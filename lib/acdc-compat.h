/* SPDX-License-Identifier: Apache-2.0 */

/* What differs between the versions of Open vSwitch: here, and in no other
 * file.  "build-aux/ovs-tree lines" reads "since". */

#ifndef ACDC_COMPAT_H
#define ACDC_COMPAT_H 1

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "dp-packet.h"

/* Version 4.0 has one word for each state of a checksum, and batches that
 * grow. */
#ifdef DP_PACKET_OL_L4_PROTO_MASK /* since 4.0 */

#include "dpif-netdev-dpcls.h"
#include "dpif-netdev-flow.h"
#include "dpif-offload.h"

static inline bool
acdc_offload_is_enabled(void)
{
    return dpif_offload_enabled();
}

/* Whether hardware may have decapsulated received packets, which
 * dp_netdev_hw_flow() finds out. */
static inline bool
acdc_offload_may_restore(void)
{
    return dpif_offload_enabled();
}

/* As acdc_pkt.gso. */
static inline uint16_t
acdc_packet_segment(const struct dp_packet *b)
{
    return dp_packet_get_tso_segsz(b);
}

/* To be called for a piece with 'payload' bytes of a segmented packet. */
static inline void
acdc_packet_set_piece(struct dp_packet *b, uint32_t payload)
{
    if (payload <= dp_packet_get_tso_segsz(b)) {
        dp_packet_set_tso_segsz(b, 0);
    }
}

/* A batch of received packets has no more than NETDEV_MAX_BURST. */
static inline bool
acdc_packet_batch_is_full(const struct dp_packet_batch *batch)
{
    return dp_packet_batch_size(batch) >= NETDEV_MAX_BURST;
}

static inline bool
acdc_packet_csum_is_partial(const struct dp_packet *b)
{
    return dp_packet_l4_checksum_partial(b);
}

static inline void
acdc_packet_set_offloads(struct dp_packet *b)
{
    dp_packet_l4_proto_set_tcp(b);
}

static inline void
acdc_packet_reset_offloads(struct dp_packet *b)
{
    dp_packet_reset_offload(b);
    dp_packet_set_tso_segsz(b, 0);
}

#else

#include "dpif-netdev-private-dpcls.h"
#include "dpif-netdev-private-flow.h"
#include "netdev-offload.h"

static inline bool
acdc_offload_is_enabled(void)
{
    return netdev_is_flow_api_enabled();
}

static inline bool
acdc_offload_may_restore(void)
{
#ifdef ALLOW_EXPERIMENTAL_API
    return netdev_is_flow_api_enabled();
#else
    return false;
#endif
}

static inline void
acdc_packet_set_piece(struct dp_packet *b OVS_UNUSED,
                      uint32_t payload OVS_UNUSED)
{
    /* What has one segment may ask for segmentation. */
}

static inline bool
acdc_packet_batch_is_full(const struct dp_packet_batch *batch)
{
    return dp_packet_batch_is_full(batch);
}

/* Version 3.2 began to tell complete checksums that the sender vouches for
 * ("good") from partial ones, and has this macro since. */
#ifdef DP_PACKET_OL_TX_ANY_CKSUM /* since 3.2 */

/* As acdc_pkt.gso. */
static inline uint16_t
acdc_packet_segment(const struct dp_packet *b)
{
    uint16_t size = dp_packet_get_tso_segsz(b);

    return dp_packet_hwol_is_tso(b) ? size ? size : UINT16_MAX : 0;
}

/* Whether the TCP checksum is made when the packet leaves.  Until then its
 * field holds the sum of the pseudo header, or nothing that counts.
 *
 * Before miniflow_extract() has seen the packet, vhost says so by flags and
 * netdev-linux by 'csum_start'.  Afterwards "TCP checksum offload" alone does
 * not say it, being set for good checksums too, nor 'csum_start' alone, which
 * stays when the checksum was made for an upcall. */
static inline bool
acdc_packet_csum_is_partial(const struct dp_packet *b)
{
    return dp_packet_ol_l4_csum_partial(b)
           || (!dp_packet_l4_checksum_good(b)
               && (dp_packet_hwol_l4_is_tcp(b)
                   || (b->csum_start && b->csum_offset)));
}

/* The offloads of a TCP/IPv4 packet, as miniflow_extract() sets them. */
static inline void
acdc_packet_set_offloads(struct dp_packet *b)
{
    dp_packet_hwol_set_tx_ipv4(b);
    if (dp_packet_ip_checksum_good(b)) {
        dp_packet_hwol_set_tx_ip_csum(b);
    }
    dp_packet_ol_l4_csum_check_partial(b);
    if (dp_packet_l4_checksum_good(b) || dp_packet_ol_l4_csum_partial(b)) {
        dp_packet_hwol_set_csum_tcp(b);
    }
}

/* Of a new packet, whose checksums are complete. */
static inline void
acdc_packet_reset_offloads(struct dp_packet *b)
{
    dp_packet_reset_offload(b);
    b->csum_start = b->csum_offset = 0;
}

#else

/* Likewise.  The port that it leaves by segments it as that can. */
static inline uint16_t
acdc_packet_segment(const struct dp_packet *b)
{
    return dp_packet_hwol_is_tso(b) ? UINT16_MAX : 0;
}

static inline bool
acdc_packet_csum_is_partial(const struct dp_packet *b)
{
    return dp_packet_hwol_l4_is_tcp(b);
}

static inline void
acdc_packet_set_offloads(struct dp_packet *b OVS_UNUSED)
{
    /* The netdevs have. */
}

static inline void
acdc_packet_reset_offloads(struct dp_packet *b)
{
    dp_packet_reset_offload(b);
}

/* A driver gets a batch as it is, if its first packet is an mbuf: so is what is
 * made of one. */
#define ACDC_LIKE_IS_MBUF 1

/* All that dp_packet_clone() copies but the data. */
static inline void
acdc_packet_copy_state(struct dp_packet *b, const struct dp_packet *like)
{
    uint32_t mark;

    memcpy(&b->l2_pad_size, &like->l2_pad_size,
           sizeof *b - offsetof(struct dp_packet, l2_pad_size));
    *dp_packet_ol_flags_ptr(b) = (*dp_packet_ol_flags_ptr(like)
                                  & DP_PACKET_OL_SUPPORTED_MASK);
    if (dp_packet_rss_valid(like)) {
        dp_packet_set_rss_hash(b, dp_packet_get_rss_hash(like));
    }
    if (dp_packet_has_flow_mark(like, &mark)) {
        dp_packet_set_flow_mark(b, mark);
    }
}

#endif
#endif

#endif /* acdc-compat.h */
