# SPDX-License-Identifier: Apache-2.0

"""VLANs: guests that tag, and a trunk between two switches whose guests do
not.  The tagging guests have an OVS of their own inside, since a kernel may
lack the 8021q module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.traffic import Transfer
from acdc_testlib.wire import tenant_counters

MB = 1 << 20
VLAN = 9


def tagging_guest(host: Ovs, name: str, *addresses: str) -> Ovs:
    guest = Ovs(ipv6=True)
    host.ns.veth_to(name, guest.ns, "eth0")
    guest.add_bridge("br0")
    guest.vsctl("add-port", "br0", "eth0")
    guest.vsctl(
        *("add-port", "br0", "vlan9", f"tag={VLAN}", "--", "set", "interface", "vlan9"),
        "type=internal",
    )
    guest.ns.add_addresses("vlan9", *addresses)
    guest.ns.run("ip", "link", "set", "dev", "vlan9", "up")
    host.vsctl("add-port", "br0", name)
    host.bind("blue", name)
    return guest


@pytest.fixture(scope="module")
def tagging() -> Iterator[tuple[Ovs, Netns, Netns]]:
    with ExitStack() as stack:
        host = stack.enter_context(Ovs())
        host.add_bridge("br0")
        host.set_tenant("blue")
        a = stack.enter_context(tagging_guest(host, "vnet0", "10.0.0.1/24", "fd00::1/64"))
        b = stack.enter_context(tagging_guest(host, "vnet1", "10.0.0.2/24", "fd00::2/64"))
        yield host, a.ns, b.ns


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"], ids=["v4", "v6"])
def test_guests_that_tag(tagging: tuple[Ovs, Netns, Netns], address: str) -> None:
    host, a, b = tagging
    before = tenant_counters(host, "blue")
    Transfer(a, b, address, size=10 * MB).finish()
    new = {k: v - before[k] for k, v in tenant_counters(host, "blue").items()}
    assert new["flows_capable"] == 2
    assert new["pack_received"] > 0
    assert new["window_rewritten"] > 0
    for reason in ("feedback_bad", "forged", "untouched_midstream", "untouched_length"):
        assert new[reason] == 0, reason
    # The frames at the guest ports had their tag.
    tagged = host.appctl("dpctl/dump-flows", "-m") if datapath_type() == "netdev" else "vid=9"
    assert f"vid={VLAN}" in tagged


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"], ids=["v4", "v6"])
def test_trunk_between_two_switches(address: str) -> None:
    """Access ports on both, 802.1Q in between: the engine sees the guests'
    untagged packets, the trunk their ECT marks."""
    with ExitStack() as stack:
        hosts = [stack.enter_context(Ovs()) for _ in range(2)]
        hosts[0].ns.veth_to("trunk", hosts[1].ns, "trunk")
        guests = []
        for i, host in enumerate(hosts, 1):
            host.add_bridge("br0")
            host.vsctl("add-port", "br0", "trunk", f"trunks={VLAN}")
            guests.append(host.add_guest("br0", "vnet0", f"10.0.0.{i}/24", f"fd00::{i}/64"))
            host.vsctl("set", "port", "vnet0", f"tag={VLAN}")
            host.set_tenant("blue")
            host.bind("blue", "vnet0")
        Transfer(guests[0], guests[1], address, size=10 * MB).finish()
        # The sender's data, the receiver's ACKs.
        for host, marked in zip(hosts, (10 * MB // 1500, 100), strict=True):
            counters = tenant_counters(host, "blue")
            assert counters["flows_capable"] == 1
            assert counters["marked_ect"] > marked
            assert counters["feedback_bad"] == counters["forged"] == 0
            assert len(host.acdc("dump-flows")) == 1
            if datapath_type() == "netdev" and ":" not in address:
                # Data or ACKs, with the tag or without.
                hits = int(host.appctl("coverage/read-counter", "acdc_conn_hit"))
                assert hits > (counters["egress_packets"] + counters["ingress_packets"]) / 2
