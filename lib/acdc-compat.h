/* SPDX-License-Identifier: Apache-2.0 */

/* What differs between the versions of Open vSwitch: here, and in no other
 * file. */

#ifndef ACDC_COMPAT_H
#define ACDC_COMPAT_H 1

#include <stdbool.h>

#include "dp-packet.h"

/* Version 3.2 began to tell complete checksums that the sender vouches for
 * ("good") from partial ones, and has this macro since. */
#ifdef DP_PACKET_OL_TX_ANY_CKSUM

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

#endif

#endif /* acdc-compat.h */
