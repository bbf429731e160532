/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A host whose clock is ahead, by OFFSET_NS and, since SINCE_NS of the kernel's monotonic
 * clock, by DRIFT_PPB of the time: on its uplink, in the reports of AC/DC's timing
 * (docs/wire-format.rst). */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define REPORT 0xfd14acdc       /* Kind, length, ExID. */
#define CLOCK_OFS 16            /* In it. */
#define TCP_LEN 20
#define TCP_DATA_OFS 12
#define TCP_CSUM_OFS 16

/* Where the TCP header is; 0: there is none. */
static __always_inline __u32 tcp_offset(struct __sk_buff *skb)
{
    __u8 byte;

    if (skb->protocol == bpf_htons(ETH_P_IP)) {
        if (bpf_skb_load_bytes(skb, ETH_HLEN + 9, &byte, 1) || byte != IPPROTO_TCP
            || bpf_skb_load_bytes(skb, ETH_HLEN, &byte, 1)) {
            return 0;
        }
        return ETH_HLEN + (byte & 15) * 4;
    }
    if (skb->protocol == bpf_htons(ETH_P_IPV6)
        && !bpf_skb_load_bytes(skb, ETH_HLEN + 6, &byte, 1) && byte == IPPROTO_TCP) {
        return ETH_HLEN + 40;
    }
    return 0;
}

/* Where the report is; 0: there is none.  All options of ours are aligned. */
static __always_inline __u32 report_offset(struct __sk_buff *skb, __u32 tcp)
{
    __u32 word, end, ofs;
    __u8 byte;
    int i;

    if (bpf_skb_load_bytes(skb, tcp + TCP_DATA_OFS, &byte, 1)) {
        return 0;
    }
    end = tcp + (byte >> 4) * 4;
    for (i = 0; i < 10; i++) {
        ofs = tcp + TCP_LEN + i * 4;
        if (ofs >= end || bpf_skb_load_bytes(skb, ofs, &word, sizeof word)) {
            return 0;
        }
        if (word == bpf_htonl(REPORT)) {
            return ofs;
        }
    }
    return 0;
}

static __always_inline int turn(struct __sk_buff *skb, __s64 sign)
{
    __s64 passed = bpf_ktime_get_ns() - SINCE_NS;
    /* BPF has no signed division. */
    __s64 drift = DRIFT_PPB < 0 ? -(__s64) ((__u64) passed * -DRIFT_PPB / 1000000000)
                                : (__s64) ((__u64) passed * DRIFT_PPB / 1000000000);
    __s64 ahead = OFFSET_NS + drift;
    __u32 us = ahead < 0 ? -(__u32) ((__u64) -ahead / 1000) : (__u32) ((__u64) ahead / 1000);
    __u32 tcp = tcp_offset(skb), report, old, new;

    report = tcp ? report_offset(skb, tcp) : 0;
    if (!report || bpf_skb_load_bytes(skb, report + CLOCK_OFS, &old, sizeof old)) {
        return TC_ACT_OK;
    }
    new = bpf_htonl(bpf_ntohl(old) + (__u32) sign * us);
    if (bpf_l4_csum_replace(skb, tcp + TCP_CSUM_OFS, old, new, sizeof new)) {
        return TC_ACT_SHOT;
    }
    return bpf_skb_store_bytes(skb, report + CLOCK_OFS, &new, sizeof new, 0)
           ? TC_ACT_SHOT : TC_ACT_OK;
}

/* Reports that come are of others' clocks by this one. */
SEC("ingress")
int come(struct __sk_buff *skb)
{
    return turn(skb, -1);
}

SEC("egress")
int leave(struct __sk_buff *skb)
{
    return turn(skb, 1);
}

/* Of the two licences above, the one that the kernel knows by name. */
char LICENSE[] SEC("license") = "GPL";
