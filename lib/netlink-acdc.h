/* SPDX-License-Identifier: Apache-2.0 */

/* AC/DC of the kernel datapath, over the generic netlink family in
 * datapath/linux/acdc-genl.h. */

#ifndef NETLINK_ACDC_H
#define NETLINK_ACDC_H 1

struct acdc_dpif_class;
struct dpif;

extern const struct acdc_dpif_class acdc_netlink_class;

/* In dpif-netlink.c.  Interface index of the datapath's local port. */
int dpif_netlink_get_ifindex(const struct dpif *);

#endif /* netlink-acdc.h */
