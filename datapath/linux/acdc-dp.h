/* SPDX-License-Identifier: GPL-2.0-only */

/* AC/DC of one kernel datapath, between acdc-linux.c and acdc-genl.c. */

#ifndef ACDC_DP_H
#define ACDC_DP_H 1

#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "acdc.h"

struct acdc_dp {
	/* Serializes configuration and sweep.  Taken under ovs_mutex by the
	 * netlink operations, alone by the sweep. */
	struct mutex mutex;
	struct acdc *engine;
	struct delayed_work sweep;
};

extern struct genl_family ovs_acdc_genl_family;

/* The datapath's, made when there is none yet.  ovs_mutex held.  NULL: no memory. */
struct acdc_dp *ovs_acdc_dp(struct datapath *dp);
/* Begins to sweep, once there is a tenant. */
void ovs_acdc_sweep(struct acdc_dp *adp);

#endif /* acdc-dp.h */
