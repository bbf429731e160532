# SPDX-License-Identifier: Apache-2.0
"""Run in the lab's kernel by test_through_the_kernel.py, which has red and a kernel
datapath: what acdc-check says of them."""

from __future__ import annotations

import os

from acdc_testlib.ovs import Ovs
from observe.test_check import CRITICAL, OK, WARNING, check

RED = ("root", "red", "limit", "2000000", "avpkt", "1514", "burst", "65", "bandwidth", "10gbit")


# Thresholds and ecn; what is said of them.
QDISCS: tuple[tuple[int, int, list[str], int, str], ...] = (
    (98410, 98411, ["ecn"], OK, "eth1: K is 98410 bytes"),
    (98410, 98411, [], WARNING, "eth1: red without ecn drops where it is to mark"),
    (30000, 90000, ["ecn"], WARNING, "eth1: red marks between 30000 and 90000 bytes"),
)


def test_the_module_and_queues(ovs: Ovs) -> None:
    """ACDC_CHECK_MODULE is "stock", without AC/DC, or "patched"."""
    ovs.add_bridge("br0")
    ((state, message),) = check(ovs)["datapaths"]
    if os.environ["ACDC_CHECK_MODULE"] == "stock":
        assert state == CRITICAL
        assert message.startswith("system does not support AC/DC: the kernel's module has none")
        return
    assert (state, message) == (OK, "system has AC/DC")
    ovs.ns.run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth2")
    for least, most, ecn, expected, text in QDISCS:
        words = ["min", str(least), "max", str(most), *ecn]
        ovs.ns.run("tc", "qdisc", "replace", "dev", "eth1", *RED, *words)
        ((state, message),) = check(ovs)["queues"]
        assert state == expected and message.startswith(text)
    ovs.set_tenant("blue", pace=True)
    ovs.ns.run("tc", "qdisc", "replace", "dev", "eth1", "root", "fq", "nopacing")
    assert check(ovs)["pacing"] == [(OK, "blue paced; fq on eth1")]
