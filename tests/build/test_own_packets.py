# SPDX-License-Identifier: Apache-2.0
"""The packets that the kernel datapath sends itself: the functions that make them, with as much
of an skb as they know.  What Open vSwitch keeps in one differs within a version of Linux, so no
kernel that is installed here shows it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Linux, of which acdc-skb.c takes its part between these.
BEFORE = r"""
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#define noinline
#define unlikely(X) (X)
#define U32_MAX UINT32_MAX
enum { ACDC_HEADROOM = 128, GFP_ATOMIC = 1, __GFP_NOWARN = 2 };

struct sk_buff {
    void *dev;
    u32 protocol, priority, mark, pkt_type, hash, tag;
    char cb[48];
};
struct vport;
struct sw_flow_key { int in_port; };
/* Of which members are set, and to what, is ovs_vport_receive()'s. */
struct ovs_skb_cb { struct vport *input_vport; u16 mru, acts_origlen; u32 cutlen, other; };
#define OVS_CB(SKB) ((struct ovs_skb_cb *) (void *) (SKB)->cb)

static struct sk_buff *processed;

#define alloc_skb(SIZE, FLAGS) calloc(1, sizeof(struct sk_buff) + (SIZE) * ((FLAGS) != 0))
#define skb_reserve(SKB, N)
#define skb_put(SKB, N)
#define skb_reset_mac_header(SKB)
#define skb_set_network_header(SKB, N) ((void) (N))
#define __vlan_hwaccel_copy_tag(TO, FROM) ((TO)->tag = (FROM)->tag)
#define skb_copy_hash(TO, FROM) ((TO)->hash = (FROM)->hash)
#define ovs_flow_key_extract(TUNNEL, SKB, KEY) ((KEY)->in_port = 0)
#define kfree_skb(SKB) free(SKB)
#define ovs_dp_process_packet(SKB, KEY) (processed = (SKB), (void) (KEY))
"""

AFTER = r"""
int main(void)
{
    static struct sk_buff like = { .priority = 3, .mark = 4, .tag = 5, .hash = 6 };
    static char before, now;
    struct sk_buff *skb;

    *OVS_CB(&like) = (struct ovs_skb_cb) {
        .input_vport = (struct vport *) (void *) &before, .cutlen = CUTLEN, .other = 7 };
    skb = acdc_alloc_like(&like, 14, 54);
    assert(skb && skb->priority == 3 && skb->mark == 4 && skb->tag == 5);
    /* A socket's, as a container's packets have: tunnels, bonds and select groups go by it. */
    assert(skb->hash == 6);
    /* A port of the same number in place of the first. */
    acdc_receive((struct vport *) (void *) &now, skb);
    assert(processed == skb);
    assert(OVS_CB(skb)->input_vport == (struct vport *) (void *) &now);
    assert(OVS_CB(skb)->cutlen == CUTLEN && !OVS_CB(skb)->mru && OVS_CB(skb)->other == 7);
    free(skb);
    return 0;
}
"""


def function(name: str) -> str:
    text = (ROOT / "datapath/linux/acdc-skb.c").read_text()
    found = re.search(rf"^[a-z][^\n;]*\b{name}\([^;{{]*\)\n{{\n.*?^}}\n", text, re.M | re.S)
    assert found, name
    return found[0]


def test_they_are_like_what_they_go_with(tmp_path: Path) -> None:
    """Of 'cutlen' nothing is cut off by 0, since Linux 6.1.183 by U32_MAX.  With the other one
    userspace() asks for a byte that is not there, and sFlow misses the packet."""
    source = tmp_path / "own.c"
    source.write_text(BEFORE + function("acdc_alloc_like") + function("acdc_receive") + AFTER)
    for cutlen in ("0", "U32_MAX"):
        subprocess.run(
            ["gcc", "-Wall", "-Wextra", "-Werror", f"-DCUTLEN={cutlen}", "-o", tmp_path / "own",
             source],
            check=True,
        )  # fmt: skip
        subprocess.run([tmp_path / "own"], check=True)
