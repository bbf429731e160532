/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The output queue of a marking switch, for kernels without sch_red.
 *
 * A queue is a rate (htb on a device), a threshold K above which ECT packets
 * are marked CE, and a limit beyond which every packet is dropped (tail drop).
 * The rate is the kernel's; the other two need the queue's length, which a BPF
 * program cannot ask htb for.  So it is counted: acdc_enqueue() runs where
 * packets arrive (clsact ingress), decides, adds the packet and sends it
 * to the device with htb; acdc_dequeue() runs behind that device, subtracts
 * it, and redirects it to the way out.  Bytes are those of the frame as
 * skb->len counts them, Ethernet header included.
 *
 * Marks depend on the length a packet finds at its arrival, as with RED that
 * has min_th = max_th = K and weighs only the present (RFC 8257 section 4.1). */

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct config {
    __u32 enqueue_to;           /* Interface index of the device with htb. */
    __u32 dequeue_to;           /* Of the way out. */
    __u32 k;                    /* Bytes. */
    __u32 limit;                /* Bytes. */
    __u32 drop_not_ect;         /* Above K, as RED does without 'nodrop'. */
};

struct state {
    __u64 queue;                /* Bytes now. */
    __u64 max_queue;
    __u64 packets;              /* Let in. */
    __u64 bytes;
    __u64 marks;                /* Packets marked CE. */
    __u64 drops;                /* Packets dropped, at the limit or as not ECT. */
    __u64 above_k;              /* Packets let in above K, marked or not ECT. */
    __u64 last_dequeue;         /* ktime, ns. */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct config);
} acdc_config SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct state);
} acdc_state SEC(".maps");

/* With 1 second and nothing sent the queue is empty: whatever is still counted
 * left unseen (the device was reconfigured, say). */
#define STALE_NS 1000000000ll

SEC("tc")
int acdc_enqueue(struct __sk_buff *skb)
{
    __u32 zero = 0;
    struct config *c = bpf_map_lookup_elem(&acdc_config, &zero);
    struct state *s = bpf_map_lookup_elem(&acdc_state, &zero);

    if (!c || !s) {
        return TC_ACT_SHOT;
    }

    /* Signed: another CPU may have dequeued after this one read the clock. */
    __u64 now = bpf_ktime_get_ns();

    if ((__s64) (now - s->last_dequeue) > STALE_NS) {
        s->queue = 0;
        s->last_dequeue = now;
    }

    __u64 queue = s->queue + skb->len;

    if (queue > c->limit) {
        __sync_fetch_and_add(&s->drops, 1);
        return TC_ACT_SHOT;
    }
    if (queue > c->k) {
        __sync_fetch_and_add(&s->above_k, 1);
        if (bpf_skb_ecn_set_ce(skb) == 1) {     /* 0: not ECT. */
            __sync_fetch_and_add(&s->marks, 1);
        } else if (c->drop_not_ect) {
            __sync_fetch_and_add(&s->drops, 1);
            return TC_ACT_SHOT;
        }
    }
    __sync_fetch_and_add(&s->queue, skb->len);
    __sync_fetch_and_add(&s->bytes, skb->len);
    __sync_fetch_and_add(&s->packets, 1);
    if (queue > s->max_queue) {
        s->max_queue = queue;   /* Racy, good enough for a maximum. */
    }
    /* A copy belongs to no socket.  Otherwise the bytes waiting here would
     * count against the send buffer of the AF_PACKET socket that sent them,
     * and it, not this queue, would be what overflows. */
    if (bpf_clone_redirect(skb, c->enqueue_to, 0)) {
        __sync_fetch_and_sub(&s->queue, skb->len);
    }
    return TC_ACT_STOLEN;
}

SEC("tc")
int acdc_dequeue(struct __sk_buff *skb)
{
    __u32 zero = 0;
    struct config *c = bpf_map_lookup_elem(&acdc_config, &zero);
    struct state *s = bpf_map_lookup_elem(&acdc_state, &zero);

    if (!c || !s) {
        return TC_ACT_SHOT;
    }
    if (s->queue < skb->len) {
        s->queue = 0;
    } else {
        __sync_fetch_and_sub(&s->queue, skb->len);
    }
    s->last_dequeue = bpf_ktime_get_ns();
    return bpf_redirect(c->dequeue_to, 0);
}

/* Of the two licences above, the one that the kernel knows by name. */
char LICENSE[] SEC("license") = "GPL";
