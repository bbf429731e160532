// SPDX-License-Identifier: GPL-2.0-only

/* What the engine wants kept for tail probes (acdc_pkt.keep_len): copies of the last
 * segments, for each processor in order of the time when the engine is to be asked
 * for them.  The engine bounds how many there are. */

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/rbtree.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>

#include "../datapath.h"
#include "../vport.h"
#include "acdc-flow.h"
#include "acdc-dp.h"

/* Of one processor, whose softirqs alone use it until it is freed. */
struct acdc_kept {
	spinlock_t lock;	/* 'root'. */
	struct rb_root root;	/* Of skbs, by acdc_kept_cb.due. */
	struct hrtimer timer;	/* For the first. */
	struct datapath *dp;
};

/* Behind OVS_CB(). */
struct acdc_kept_cb {
	u64 due;		/* ktime_get_ns(). */
	u32 port_no;
};

static struct acdc_kept_cb *acdc_kept_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct ovs_skb_cb) > SKB_GSO_CB_OFFSET);
	BUILD_BUG_ON(SKB_GSO_CB_OFFSET + sizeof(struct acdc_kept_cb) >
		     sizeof(skb->cb));
	return (struct acdc_kept_cb *)(skb->cb + SKB_GSO_CB_OFFSET);
}

static void acdc_kept_insert(struct acdc_kept *kept, struct sk_buff *skb)
{
	u64 due = acdc_kept_cb(skb)->due;
	struct rb_node **link, *parent = NULL;
	bool first = true;

	spin_lock_bh(&kept->lock);
	link = &kept->root.rb_node;
	while (*link) {
		parent = *link;
		if (due < acdc_kept_cb(rb_to_skb(parent))->due) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			first = false;
		}
	}
	rb_link_node(&skb->rbnode, parent, link);
	rb_insert_color(&skb->rbnode, &kept->root);
	if (first)
		hrtimer_start(&kept->timer, ns_to_ktime(due),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
	spin_unlock_bh(&kept->lock);
}

/* Takes the first one that is due by 'now'. */
static struct sk_buff *acdc_kept_pop(struct acdc_kept *kept, u64 now)
{
	struct sk_buff *skb;

	spin_lock_bh(&kept->lock);
	skb = skb_rb_first(&kept->root);
	if (skb && acdc_kept_cb(skb)->due > now) {
		hrtimer_start(&kept->timer, ns_to_ktime(acdc_kept_cb(skb)->due),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
		skb = NULL;
	}
	if (skb) {
		rb_erase(&skb->rbnode, &kept->root);
		/* They share memory with 'rbnode'. */
		skb->next = NULL;
		skb->prev = NULL;
		skb->dev = NULL;
	}
	spin_unlock_bh(&kept->lock);
	return skb;
}

/* Asks the engine.  Under rcu_read_lock. */
static void acdc_kept_due(struct acdc_kept *kept, struct sk_buff *skb, u64 now)
{
	struct vport *vport = ovs_vport_rcu(kept->dp, acdc_kept_cb(skb)->port_no);
	struct acdc_port *port = vport ? rcu_dereference(vport->acdc) : NULL;
	struct acdc_pkt p;

	if (!port) {
		kfree_skb(skb);
		return;
	}
	skb->dev = vport->dev;
	acdc_tail_through(port, &p, vport, skb, now);
	if (p.verdict == ACDC_HOLD) {
		acdc_kept_cb(skb)->due = p.release;
		acdc_kept_insert(kept, skb);
	} else if (p.verdict == ACDC_DROP) {
		consume_skb(skb);
	} else {
		acdc_receive(vport, skb);
	}
}

static enum hrtimer_restart acdc_kept_timer(struct hrtimer *timer)
{
	struct acdc_kept *kept = container_of(timer, struct acdc_kept, timer);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	rcu_read_lock();
	while ((skb = acdc_kept_pop(kept, now)))
		acdc_kept_due(kept, skb, now);
	rcu_read_unlock();
	/* It was started for what is left. */
	return HRTIMER_NORESTART;
}

/* The headers and the last segment of 'skb', which the engine knows as 'p'. */
static struct sk_buff *acdc_kept_copy(const struct sk_buff *skb,
				      const struct acdc_pkt *p)
{
	unsigned int headers = p->l4_ofs + p->tcp_hlen;
	struct sk_buff *copy;

	copy = acdc_alloc_like(skb, p->l3_ofs, headers + p->keep_len);
	if (!copy)
		return NULL;
	if (skb_copy_bits(skb, 0, copy->data, headers) ||
	    skb_copy_bits(skb, headers + acdc_tail_skip(p),
			  copy->data + headers, p->keep_len)) {
		kfree_skb(copy);
		return NULL;
	}
	skb_set_transport_header(copy, p->l4_ofs);
	if (p->csum_partial) {
		copy->ip_summed = CHECKSUM_PARTIAL;
		copy->csum_start = skb_transport_header(copy) - copy->head;
		copy->csum_offset = offsetof(struct tcphdr, check);
	}
	acdc_tail_cut(p, copy->data);
	return copy;
}

void acdc_keep(struct acdc_port *port, struct vport *vport,
	       const struct sk_buff *skb, const struct acdc_pkt *p)
{
	struct sk_buff *copy = acdc_kept_copy(skb, p);
	u64 leaves;

	if (!copy) {
		acdc_tail_lost(port);
		return;
	}
	leaves = p->verdict == ACDC_HOLD ? p->release : ktime_get_ns();
	*acdc_kept_cb(copy) = (struct acdc_kept_cb) {
		.due = leaves + (u64)p->keep_time * ACDC_KEEP_US * NSEC_PER_USEC,
		.port_no = vport->port_no,
	};
	acdc_kept_insert(this_cpu_ptr(vport->dp->acdc->kept), copy);
}

struct acdc_kept __percpu *acdc_kept_create(struct datapath *dp)
{
	struct acdc_kept __percpu *all = alloc_percpu_gfp(struct acdc_kept,
							  GFP_KERNEL_ACCOUNT);
	int cpu;

	if (!all)
		return NULL;
	for_each_possible_cpu(cpu) {
		struct acdc_kept *kept = per_cpu_ptr(all, cpu);

		spin_lock_init(&kept->lock);
		kept->root = RB_ROOT;
		hrtimer_init(&kept->timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_ABS_PINNED_SOFT);
		kept->timer.function = acdc_kept_timer;
		kept->dp = dp;
	}
	return all;
}

void acdc_kept_destroy(struct acdc_kept __percpu *all)
{
	struct sk_buff *skb;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct acdc_kept *kept = per_cpu_ptr(all, cpu);

		hrtimer_cancel(&kept->timer);
		while ((skb = acdc_kept_pop(kept, U64_MAX)))
			kfree_skb(skb);
	}
	free_percpu(all);
}
