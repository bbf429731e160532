/* SPDX-License-Identifier: GPL-2.0-only */

/* AC/DC of one kernel datapath, between acdc-linux.c and acdc-genl.c. */

#ifndef ACDC_DP_H
#define ACDC_DP_H 1

#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

#include "acdc.h"

struct acdc_dp {
	/* Serializes configuration and sweep.  Taken under ovs_mutex by the
	 * netlink operations, alone by the sweep. */
	struct mutex mutex;
	struct acdc *engine;
	struct delayed_work sweep;
	struct acdc_kept __percpu *kept;
};

extern struct genl_family ovs_acdc_genl_family;

/* The datapath's, made when there is none yet.  ovs_mutex held.  NULL: no memory. */
struct acdc_dp *ovs_acdc_dp(struct datapath *dp);
/* Begins to sweep, once there is a tenant. */
void ovs_acdc_sweep(struct acdc_dp *adp);

/* acdc-skb.c: shows the engine what it kept as 'skb', by '*p'. */
void acdc_tail_through(struct acdc_port *port, struct acdc_pkt *p,
		       const struct vport *vport, struct sk_buff *skb, u64 now);
/* A packet of 'len' bytes that goes the way of 'like', or NULL. */
struct sk_buff *acdc_alloc_like(const struct sk_buff *like, unsigned int l3_ofs,
				unsigned int len);
/* Passes a packet of ours on as ovs_vport_receive() does with what the guest sends.
 * Softirq, under rcu_read_lock. */
void acdc_receive(struct vport *vport, struct sk_buff *skb);

/* acdc-kept.c. */

/* NULL: no memory. */
struct acdc_kept __percpu *acdc_kept_create(struct datapath *dp);
/* After the last packet. */
void acdc_kept_destroy(struct acdc_kept __percpu *kept);
/* Keeps the last segment of 'skb', which is 'p' to the engine and leaves.  Softirq. */
void acdc_keep(struct acdc_port *port, struct vport *vport,
	       const struct sk_buff *skb, const struct acdc_pkt *p);

#endif /* acdc-dp.h */
