# SPDX-License-Identifier: Apache-2.0

"""Connection tracking and NAT between the guests: they see packets in their
network form, with marks and feedback, and find every one of them valid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Transfer
from acdc_testlib.wire import tenant_counters

MB = 1 << 20
ADDRESS_MACS = {"vnet1": "02:00:00:00:01:01", "vnet2": "02:00:00:00:01:02"}


@pytest.fixture(scope="module")
def guests() -> Iterator[tuple[Ovs, Netns, Netns]]:
    with Ovs() as ovs:
        ovs.add_bridge("br0", normal=False)
        ovs.set_tenant("blue")
        made = []
        for i, (name, mac) in enumerate(ADDRESS_MACS.items(), 1):
            guest = ovs.add_guest("br0", name, f"10.0.0.{i}/24", f"fd00::{i}/64")
            guest.run("ip", "link", "set", "dev", "eth0", "address", mac)
            made.append(guest)
            ovs.bind("blue", name)
        # The address that NAT translates to guest 2.
        made[0].run(
            "ip", "neigh", "add", "10.0.0.9", "lladdr", ADDRESS_MACS["vnet2"], "dev", "eth0"
        )
        a, b = ovs.ofport("vnet1"), ovs.ofport("vnet2")
        for flow in (
            "priority=10,arp,actions=NORMAL",
            "priority=10,icmp6,actions=NORMAL",
            "priority=30,tcp,ct_state=-trk,nw_dst=10.0.0.9,actions=ct(table=1,nat)",
            "priority=20,tcp,ct_state=-trk,actions=ct(table=1,nat)",
            "priority=20,tcp6,ct_state=-trk,actions=ct(table=1)",
            "table=1,priority=40,ct_state=+trk+inv,actions=drop",
            "table=1,priority=30,tcp,ct_state=+trk+new,nw_dst=10.0.0.9,"
            f"actions=ct(commit,nat(dst=10.0.0.2)),output:{b}",
            *(
                f"table=1,priority=20,{proto},ct_state=+trk+{state},in_port={source},"
                f"actions={commit}output:{sink}"
                for proto in ("tcp", "tcp6")
                for state, source, sink, commit in (
                    ("new", a, b, "ct(commit),"),
                    ("est", a, b, ""),
                    ("est", b, a, ""),
                )
            ),
        ):
            ovs.ofctl("add-flow", "br0", flow)
        yield ovs, made[0], made[1]


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2", "10.0.0.9"], ids=["v4", "v6", "nat"])
def test_every_packet_is_valid(guests: tuple[Ovs, Netns, Netns], address: str) -> None:
    ovs, a, b = guests
    before = tenant_counters(ovs, "blue")
    Transfer(
        a, b, address, size=10 * MB, listen_on="10.0.0.2" if address == "10.0.0.9" else None
    ).finish()
    new = {k: v - before[k] for k, v in tenant_counters(ovs, "blue").items()}
    assert new["flows_capable"] == 2
    assert new["pack_received"] > 0
    for reason in ("feedback_bad", "forged", "ack_invalid", "untouched_midstream"):
        assert new[reason] == 0, reason
    (drops,) = [x for x in ovs.ofctl("dump-flows", "br0").splitlines() if "+inv" in x]
    assert " n_packets=0," in drops
    if address == "10.0.0.9":
        remotes = {f["remote"] for f in ovs.acdc("dump-flows")}
        # The engine sees what each guest sees.
        assert {"10.0.0.9", "10.0.0.1"} <= remotes
