// SPDX-License-Identifier: GPL-2.0-only

/* AC/DC in the kernel datapath: the way of an skb through the engine, and what that asks
 * of its host for packets (acdc.h). */

#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/ktime.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/sock.h>

/* Of the engine what most packets go through is compiled here, so that it is in line. */
#define ACDC_IN_LINE
#include "acdc-egress.c"
#include "acdc-ingress.c"
#include "acdc-engine.c"

#include "../datapath.h"
#include "../vport.h"
#include "acdc-dp.h"
#include "acdc-linux.h"

enum {
	/* If less of a packet is linear than the shortest headers of TCP, it is pulled
	 * as far as those of most packets go: Ethernet, IPv6, TCP.  The parser asks for
	 * more. */
	ACDC_LINEAR = ETH_HLEN + 20 + 20,
	ACDC_PULL = ETH_HLEN + 40 + 60,
	/* Of packets made here, for tunnel headers. */
	ACDC_HEADROOM = 128,
};

/* One packet on its way through the engine. */
struct acdc_way {
	struct sk_buff *fack;
	/* CHECKSUM_COMPLETE, before the edits: see acdc_complete(). */
	__be32 first;
	u8 tcp_hlen;
};

static uint8_t *acdc_refresh(struct acdc_pkt *p, struct sk_buff *skb)
{
	p->data = skb->data;
	p->len = skb->len;
	p->hlen = skb_headlen(skb);
	return p->data;
}

bool acdc_host_linear(struct acdc_pkt *p, unsigned int n)
{
	struct sk_buff *skb = p->host;

	/* In few steps, as each may move all that is linear. */
	n = clamp_t(unsigned int, 2 * skb_headlen(skb), n, skb->len);
	if (!pskb_may_pull(skb, n))
		return false;
	acdc_refresh(p, skb);
	return true;
}

/* Whether a checksum is written where the header says that it is, as was read:
 * in TCP, or behind all that was read, as in UDP. */
static bool acdc_csum_fits(const struct acdc_pkt *p, const struct sk_buff *skb)
{
	int start = skb_checksum_start_offset(skb);

	if (!p->ip_version && (p->reason == ACDC_C_UNTOUCHED_NOT_TCP ||
			       p->reason == ACDC_C_UNTOUCHED_IPSEC ||
			       p->reason == ACDC_C_UNTOUCHED_FRAGMENT))
		return start + skb->csum_offset >= p->l4_ofs;
	return start == p->l4_ofs &&
	       skb->csum_offset == offsetof(struct tcphdr, check);
}

/* One that is not is made here. */
static noinline bool acdc_make_csum(struct acdc_pkt *p, struct sk_buff *skb)
{
	int start = skb_checksum_start_offset(skb);

	if (p->gso || start < 0 ||
	    !pskb_may_pull(skb, start + skb->csum_offset + 2) ||
	    skb_checksum_help(skb))
		return false;
	acdc_refresh(p, skb);
	p->csum_partial = false;
	return true;
}

/* A guest's virtio header says where the sum begins, where it is written, and what
 * is to be segmented: anything. */
inline bool acdc_host_offloads_fit(struct acdc_pkt *p)
{
	struct sk_buff *skb = p->host;
	int type = p->ip_version == 4 ? SKB_GSO_TCPV4 : SKB_GSO_TCPV6;

	if (p->gso && p->ip_version && !(skb_shinfo(skb)->gso_type & type))
		return false;
	return !p->csum_partial || acdc_csum_fits(p, skb) ||
	       acdc_make_csum(p, skb);
}

/* The headers moved by 'delta' relative to skb->head. */
static void acdc_move_headers(struct sk_buff *skb, int delta)
{
	if (skb_mac_header_was_set(skb))
		skb->mac_header += delta;
	skb->network_header += delta;
	if (skb_transport_header_was_set(skb))
		skb->transport_header += delta;
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		skb->csum_start += delta;
}

inline uint8_t *acdc_host_push(struct acdc_pkt *p, unsigned int n)
{
	struct sk_buff *skb = p->host;

	if (skb_cow_head(skb, n))
		return NULL;
	__skb_push(skb, n);
	acdc_move_headers(skb, -(int)n);
	return acdc_refresh(p, skb);
}

uint8_t *acdc_host_pull(struct acdc_pkt *p, unsigned int n)
{
	struct sk_buff *skb = p->host;

	__skb_pull(skb, n);
	acdc_move_headers(skb, n);
	return acdc_refresh(p, skb);
}

inline void acdc_host_trim(struct acdc_pkt *p, unsigned int n)
{
	struct sk_buff *skb = p->host;

	/* Which is linear. */
	__skb_trim(skb, skb->len - n);
	acdc_refresh(p, skb);
}

bool acdc_host_writable(struct acdc_pkt *p)
{
	unsigned int headers = p->l4_ofs + p->tcp_hlen;
	struct sk_buff *skb = p->host;
	struct acdc_way *way = p->aux;

	if (skb_ensure_writable(skb, headers))
		return false;
	acdc_refresh(p, skb);
	way->first = get_unaligned((__be32 *)(skb->data + p->l3_ofs));
	way->tcp_hlen = p->tcp_hlen;
	return true;
}

/* What udp_flow_src_port() goes by, as if it were of the guest's socket.  In Open
 * vSwitch it only says where to look for the mask first, see ovs_flow_tbl_lookup_stats(). */
void acdc_host_set_path(struct acdc_pkt *p, u32 hash)
{
	__skb_set_sw_hash(p->host, hash, true);
}

/* The sum of all of a packet that was edited.  An edit and that of the checksum
 * beside it cancel each other out, but for the length, of which TCP's has in its sum
 * what is not in its header.  In IPv6 the length does that, and the traffic class and
 * the flow label, in the header's first word, have no checksum. */
static void acdc_complete(const struct acdc_pkt *p, struct sk_buff *skb,
			  const struct acdc_way *way)
{
	__be32 before = way->first;
	__be32 after = get_unaligned((__be32 *)(skb->data + p->l3_ofs));

	if (p->ip_version == 4) {
		before = htonl(p->tcp_hlen);
		after = htonl(way->tcp_hlen);
	}
	skb->csum = csum_sub(skb->csum, (__force __wsum)before);
	skb->csum = csum_add(skb->csum, (__force __wsum)after);
}

struct sk_buff *acdc_alloc_like(const struct sk_buff *like, unsigned int l3_ofs,
				unsigned int len)
{
	struct sk_buff *skb = alloc_skb(ACDC_HEADROOM + len,
					GFP_ATOMIC | __GFP_NOWARN);

	if (!skb)
		return NULL;
	skb_reserve(skb, ACDC_HEADROOM);
	skb_put(skb, len);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, l3_ofs);
	skb->dev = like->dev;
	skb->protocol = like->protocol;
	skb->priority = like->priority;
	skb->mark = like->mark;
	skb->pkt_type = like->pkt_type;
	__vlan_hwaccel_copy_tag(skb, like);
	skb_copy_hash(skb, like);	/* It takes the same path. */
	/* As ovs_vport_receive() has it in this version: what 'cutlen' says has
	 * changed in Linux 6.1.183.
	 */
	*OVS_CB(skb) = *OVS_CB(like);
	return skb;
}

uint8_t *acdc_host_inject(struct acdc_pkt *like, unsigned int len)
{
	struct acdc_way *way = like->aux;

	if (way->fack)
		return NULL;
	way->fack = acdc_alloc_like(like->host, like->l3_ofs, len);
	return way->fack ? way->fack->data : NULL;
}

/* For the fq of the uplink (earliest departure time).  The guest's own time stays
 * if it is later.  The guest's socket is let go, which fq would pace instead. */
static void acdc_hold(struct sk_buff *skb, u64 release)
{
	skb_orphan(skb);
	if (!acdc_has_delivery_time(skb) || skb->tstamp < release)
		skb_set_delivery_time(skb, release, SKB_CLOCK_MONOTONIC);
}

/* Not in line, for the size of its stack frame. */
noinline void acdc_receive(struct vport *vport, struct sk_buff *skb)
{
	struct sw_flow_key key;

	OVS_CB(skb)->input_vport = vport;
	if (unlikely(ovs_flow_key_extract(NULL, skb, &key)))
		kfree_skb(skb);
	else
		ovs_dp_process_packet(skb, &key);
}

/* A packet that is segmented later leaves in pieces.  All but the last are received
 * here.  Without memory it leaves whole.  The size of its segments is also its clone's,
 * which the guest's socket may have. */
static noinline struct sk_buff *acdc_cut(struct vport *vport,
					 struct sk_buff *skb,
					 const struct acdc_pkt *p)
{
	u16 size = skb_shinfo(skb)->gso_size;
	unsigned int type = skb_shinfo(skb)->gso_type;
	unsigned int headers = p->l4_ofs + p->tcp_hlen;
	unsigned int n = max(p->piece / size, 1);
	struct sk_buff *segs, *seg, *next;
	u64 release = p->release;

	/* Of what GRO chained, other segments cannot be made without a copy. */
	if (skb_has_frag_list(skb) || skb_unclone(skb, GFP_ATOMIC))
		return skb;
	skb_shinfo(skb)->gso_size = size * n;
	segs = __skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM, false);
	if (IS_ERR_OR_NULL(segs)) {
		skb_shinfo(skb)->gso_size = size;
		return skb;
	}
	consume_skb(skb);
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		n = DIV_ROUND_UP(seg->len - headers, size);
		if (n > 1) {
			skb_shinfo(seg)->gso_size = size;
			skb_shinfo(seg)->gso_segs = n;
			skb_shinfo(seg)->gso_type = type;
		}
		acdc_hold(seg, release);
		release += p->piece_ns;
		if (next)
			acdc_receive(vport, seg);
		else
			skb = seg;
	}
	return skb;
}

/* Whether headers need no copy before the first write.  Others do, as far as is known
 * once they are read; of CHECKSUM_COMPLETE is noted what they were. */
static inline bool acdc_is_private(const struct sk_buff *skb)
{
	return (!skb_cloned(skb) ||
		skb_clone_writable(skb, skb_headlen(skb))) &&
	       skb->ip_summed != CHECKSUM_COMPLETE;
}

static __always_inline void
acdc_show(struct acdc_pkt *p, const struct vport *vport, struct sk_buff *skb)
{
	acdc_pkt_init(p, skb->data, skb->len, skb_headlen(skb));
	if (vport->dev->type != ARPHRD_ETHER)
		p->ethertype = ntohs(skb->protocol);
	if (skb_vlan_tag_present(skb)) {
		p->tag_type = ntohs(skb->vlan_proto);
		p->tag_tci = skb_vlan_tag_get(skb);
	}
	p->gso = skb_shinfo(skb)->gso_size;
	p->csum_partial = skb->ip_summed == CHECKSUM_PARTIAL;
	p->host = skb;
}

/* What was kept; see acdc_pkt.keep_len. */
void acdc_tail_through(struct acdc_port *port, struct acdc_pkt *p,
		       const struct vport *vport, struct sk_buff *skb, u64 now)
{
	acdc_show(p, vport, skb);
	acdc_process_in_line(port, ACDC_TAIL, p, 1, now);
}

/* What is dropped, or held: see acdc_verdict. */
static noinline struct sk_buff *acdc_not_passed(struct vport *vport,
						struct sk_buff *skb,
						const struct acdc_pkt *p)
{
	if (p->verdict == ACDC_DROP) {
		consume_skb(skb);
		return NULL;
	}
	acdc_hold(skb, p->release);
	return p->piece && p->csum_partial ? acdc_cut(vport, skb, p) : skb;
}

static __always_inline struct sk_buff *acdc_way_through(struct acdc_port *port,
							enum acdc_dir dir,
							struct vport *vport,
							struct sk_buff *skb,
							struct acdc_way *way)
{
	struct acdc_pkt p ACDC_UNINITIALIZED;

	/* Without memory the parser asks for it, in vain. */
	if (unlikely(skb_headlen(skb) < ACDC_LINEAR) && skb_is_nonlinear(skb))
		pskb_may_pull(skb, min_t(unsigned int, skb->len, ACDC_PULL));

	if (dir == ACDC_EGRESS)
		acdc_port_note_mtu(port, READ_ONCE(vport->dev->mtu));
	acdc_show(&p, vport, skb);
	if (acdc_is_private(skb))
		p.writable = ACDC_W_YES;
	p.aux = way;
	acdc_process_in_line(port, dir, &p, 1, ktime_get_ns());

	if (skb_is_gso(skb) &&
	    unlikely(skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST) &&
	    p.ip_version && !skb_unclone(skb, GFP_ATOMIC)) {
		/* Each segment has headers of its own: that all are to be like
		 * the first, which is edited.
		 */
		skb_shinfo(skb)->gso_type |= SKB_GSO_DODGY;
		acdc_refresh(&p, skb);
	}
	/* What was edited in ICMP is balanced by its own checksums. */
	if (p.edited && p.ip_version && skb->ip_summed == CHECKSUM_COMPLETE)
		acdc_complete(&p, skb, way);
	if (dir == ACDC_EGRESS && unlikely(p.keep_len))
		acdc_keep(port, vport, skb, &p);
	/* Before pieces of the packet, too: its number is that of the first. */
	if (dir == ACDC_EGRESS && unlikely(way->fack))
		acdc_receive(vport, way->fack);
	return likely(p.verdict == ACDC_PASS) ? skb
					      : acdc_not_passed(vport, skb, &p);
}

struct sk_buff *ovs_acdc_egress(struct acdc_port *port, struct vport *vport,
				struct sk_buff *skb)
{
	struct acdc_way way ACDC_UNINITIALIZED;

	way.fack = NULL;
	return acdc_way_through(port, ACDC_EGRESS, vport, skb, &way);
}

struct sk_buff *ovs_acdc_ingress(struct acdc_port *port, struct vport *vport,
				 struct sk_buff *skb)
{
	struct acdc_way way ACDC_UNINITIALIZED;

	/* Nothing is injected towards a guest. */
	return acdc_way_through(port, ACDC_INGRESS, vport, skb, &way);
}

