/* SPDX-License-Identifier: GPL-2.0-only */

/* Where net/openvswitch calls AC/DC. */

#ifndef ACDC_LINUX_H
#define ACDC_LINUX_H 1

#include <linux/types.h>

struct acdc_port;
struct datapath;
struct sk_buff;
struct vport;

/* A packet received from, or about to be sent to, the guest port 'vport',
 * bound as 'port'.  skb->data is at the MAC header where the device has one.
 * Returns the packet to go on with, or NULL if it was consumed.  Softirq, under
 * rcu_read_lock.  ovs_acdc_egress() may send a packet of our own before it. */
struct sk_buff *ovs_acdc_egress(struct acdc_port *port, struct vport *vport,
				struct sk_buff *skb);
struct sk_buff *ovs_acdc_ingress(struct acdc_port *port, struct vport *vport,
				 struct sk_buff *skb);

/* Asks the device for as much headroom in what it receives as the datapath wants for
 * tunnels, and the port for options of ours.  ovs_mutex held. */
void ovs_acdc_set_headroom(struct vport *vport);

/* The port goes; the datapath goes, first under ovs_mutex, then after a grace
 * period.  All do nothing where AC/DC was never configured. */
void ovs_acdc_detach_port(struct vport *vport);
void ovs_acdc_stop(struct datapath *dp);
void ovs_acdc_free(struct datapath *dp);

/* With the module. */
int ovs_acdc_init(void);
void ovs_acdc_exit(void);

#endif /* acdc-linux.h */
