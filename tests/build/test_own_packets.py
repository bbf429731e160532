# SPDX-License-Identifier: Apache-2.0
"""The packets that datapaths send themselves: the functions that make them, with as much of an
skb, or of a dp_packet, as they know.  What Open vSwitch keeps in an skb differs within a version
of Linux, and a hash of the network card's comes with few: nothing that runs here shows these."""

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

USER = r"""
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_packet { bool valid; uint32_t hash; };
struct acdc_pkt { void *host, *aux; };
struct acdc_injected {
    size_t n;
    struct { struct dp_packet *packet; const struct dp_packet *before; } items[1];
};
static struct dp_packet made;

#define ARRAY_SIZE(A) (sizeof (A) / sizeof (A)[0])
#define acdc_host_packet_like(LIKE, LEN) ((void) (LIKE), (void) (LEN), &made)
#define dp_packet_data(B) ((uint8_t *) (void *) (B))
#define dp_packet_rss_valid(B) (((const struct dp_packet *) (B))->valid)
#define dp_packet_get_rss_hash(B) (((const struct dp_packet *) (B))->hash)
#define dp_packet_set_rss_hash(B, HASH) (*(B) = (struct dp_packet) { true, HASH })

FUNCTION

int main(void)
{
    struct dp_packet packet = { true, 6 };
    struct acdc_injected injected = { .n = 0 };
    struct acdc_pkt like = { &packet, &injected };

    assert(acdc_host_inject(&like, 54) && injected.n == 1);
    assert(made.valid && made.hash == 6);
    made.valid = packet.valid = false;
    injected.n = 0;
    assert(acdc_host_inject(&like, 54) && !made.valid);
    return 0;
}
"""


def function(name: str, file: str = "datapath/linux/acdc-skb.c") -> str:
    text = (ROOT / file).read_text()
    found = re.search(rf"^[a-z][^;{{}}()]*\b{name}\([^;{{]*\)\n{{\n.*?^}}\n", text, re.M | re.S)
    assert found, name
    return found[0]


def run(top: Path, source: str, *options: str) -> None:
    (top / "own.c").write_text(source)
    options = ("-Wall", "-Wextra", "-Werror", *options)
    subprocess.run(["gcc", *options, "-o", top / "own", top / "own.c"], check=True)
    subprocess.run([top / "own"], check=True)


def test_they_are_like_what_they_go_with(tmp_path: Path) -> None:
    """Of 'cutlen' nothing is cut off by 0, since Linux 6.1.183 by U32_MAX.  With the other one
    userspace() asks for a byte that is not there, and sFlow misses the packet."""
    source = BEFORE + function("acdc_alloc_like") + function("acdc_receive") + AFTER
    for cutlen in ("0", "U32_MAX"):
        run(tmp_path, source, f"-DCUTLEN={cutlen}")


def test_a_fack_has_the_hash_of_what_it_is_like(tmp_path: Path) -> None:
    """The network card's: tunnels and bonds of the userspace datapath go by it."""
    run(tmp_path, USER.replace("FUNCTION", function("acdc_host_inject", "lib/acdc-host.c")))
