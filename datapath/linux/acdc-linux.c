// SPDX-License-Identifier: GPL-2.0-only

/* AC/DC in the kernel datapath: what the engine asks of its host for memory and time
 * (acdc-platform.h), and its life.  For packets see acdc-skb.c. */

#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <net/genetlink.h>

#include "../datapath.h"
#include "../vport.h"
#include "acdc-flow.h"
#include "acdc-dp.h"
#include "acdc-linux.h"

#define CREATE_TRACE_POINTS
#include "acdc-trace.h"

enum {
	ACDC_SWEEP_BUCKETS = 8192,	/* In one go, ... */
	ACDC_SWEEP_STEP_MS = 10,	/* ... then a pause, ... */
	ACDC_SWEEP_PASS_MS = 1000,	/* ... and a longer one after all. */
};

/* Memory. */

/* Of flows of IPv4 and of IPv6, in /proc/slabinfo; theirs alone where the kernel
 * can be told so. */
#ifdef SLAB_NO_MERGE
#define ACDC_CACHE_FLAGS (SLAB_ACCOUNT | SLAB_NO_MERGE)
#else
#define ACDC_CACHE_FLAGS SLAB_ACCOUNT
#endif
static struct kmem_cache *acdc_flow_caches[2];

static void acdc_rcu_free(struct rcu_head *rcu)
{
	struct acdc_rcu *r = container_of(rcu, struct acdc_rcu, rcu);

	r->free(r);
}

void acdc_host_defer(struct acdc_rcu *r)
{
	call_rcu(&r->rcu, acdc_rcu_free);
}

void *acdc_host_alloc(size_t size)
{
	return kvzalloc(size, GFP_KERNEL_ACCOUNT);
}

void acdc_host_free(void *p)
{
	kvfree(p);
}

struct acdc_flow *acdc_host_alloc_flow(size_t size, bool v6)
{
	return kmem_cache_zalloc(acdc_flow_caches[v6],
				 GFP_ATOMIC | __GFP_NOWARN);
}

void acdc_host_free_flow(struct acdc_flow *f)
{
	if (f)
		kmem_cache_free(acdc_flow_caches[acdc_flow_has_three(f)], f);
}

static void acdc_destroy_caches(void)
{
	/* Each warns if there is a flow that nobody freed. */
	kmem_cache_destroy(acdc_flow_caches[false]);
	kmem_cache_destroy(acdc_flow_caches[true]);
}

static int acdc_create_caches(void)
{
	acdc_flow_caches[false] =
		kmem_cache_create("acdc_flow", acdc_flow_size(false), 0,
				  ACDC_CACHE_FLAGS, NULL);
	acdc_flow_caches[true] =
		kmem_cache_create("acdc_flow6", acdc_flow_size(true), 0,
				  ACDC_CACHE_FLAGS, NULL);
	if (acdc_flow_caches[false] && acdc_flow_caches[true])
		return 0;
	acdc_destroy_caches();
	return -ENOMEM;
}

u64 acdc_host_clock(u64 now)
{
	return ktime_to_ns(ktime_mono_to_real(ns_to_ktime(now)));
}

u32 acdc_host_seed(void)
{
	return get_random_u32();
}

/* Life. */

static void acdc_dp_sweep(struct work_struct *work)
{
	struct acdc_dp *adp = container_of(to_delayed_work(work),
					   struct acdc_dp, sweep);
	unsigned int pause = ACDC_SWEEP_STEP_MS;

	mutex_lock(&adp->mutex);
	rcu_read_lock();
	if (acdc_sweep(adp->engine, ktime_get_ns(), ACDC_SWEEP_BUCKETS))
		pause = ACDC_SWEEP_PASS_MS;
	rcu_read_unlock();
	mutex_unlock(&adp->mutex);
	queue_delayed_work(system_power_efficient_wq, &adp->sweep,
			   msecs_to_jiffies(pause));
}

/* Until the datapath goes.  Without flows that is next to nothing, once a second. */
void ovs_acdc_sweep(struct acdc_dp *adp)
{
	queue_delayed_work(system_power_efficient_wq, &adp->sweep, 0);
}

static void acdc_dp_free(struct acdc_dp *adp)
{
	if (adp->kept)
		acdc_kept_destroy(adp->kept);
	if (adp->engine)
		acdc_destroy(adp->engine);
	kfree(adp);
}

struct acdc_dp *ovs_acdc_dp(struct datapath *dp)
{
	struct acdc_dp *adp = dp->acdc;

	if (adp)
		return adp;
	adp = kzalloc(sizeof(*adp), GFP_KERNEL);
	if (!adp)
		return NULL;
	adp->engine = acdc_create(NULL);
	adp->kept = acdc_kept_create(dp);
	if (!adp->engine || !adp->kept) {
		acdc_dp_free(adp);
		return NULL;
	}
	/* Conntrack reassembles, and do_output() leaves it so if it is no longer than
	 * the longest fragment was, of which a guest decides by IP options.
	 */
	acdc_set_host(adp->engine, ACDC_HOST_HOLDS | ACDC_HOST_KEEPS |
				   ACDC_HOST_REASSEMBLES);
	mutex_init(&adp->mutex);
	INIT_DELAYED_WORK(&adp->sweep, acdc_dp_sweep);
	dp->acdc = adp;
	return adp;
}

void ovs_acdc_set_headroom(struct vport *vport)
{
	unsigned int options = rcu_access_pointer(vport->acdc)
			       ? ACDC_TCP_HLEN_MAX - ACDC_TCP_HLEN : 0;

	netdev_set_rx_headroom(vport->dev, vport->dp->max_headroom + options);
}

void ovs_acdc_detach_port(struct vport *vport)
{
	struct acdc_dp *adp = vport->dp->acdc;

	if (!adp || !rcu_access_pointer(vport->acdc))
		return;
	RCU_INIT_POINTER(vport->acdc, NULL);
	mutex_lock(&adp->mutex);
	acdc_port_unbind(adp->engine, vport->port_no);
	mutex_unlock(&adp->mutex);
}

void ovs_acdc_stop(struct datapath *dp)
{
	if (dp->acdc)
		cancel_delayed_work_sync(&dp->acdc->sweep);
}

void ovs_acdc_free(struct datapath *dp)
{
	if (!dp->acdc)
		return;
	rcu_read_lock();
	acdc_dp_free(dp->acdc);
	rcu_read_unlock();
}

int ovs_acdc_init(void)
{
	int err = acdc_create_caches();

	if (err)
		return err;
	err = genl_register_family(&ovs_acdc_genl_family);
	if (err)
		acdc_destroy_caches();
	return err;
}

void ovs_acdc_exit(void)
{
	genl_unregister_family(&ovs_acdc_genl_family);
	/* The callbacks that ovs_acdc_free() made from a callback. */
	rcu_barrier();
	acdc_destroy_caches();
}
