# SPDX-License-Identifier: Apache-2.0

"""Guests with their offloads on: OVS's userspace TSO hands GSO packets and
partial checksums to the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.traffic import Transfer
from acdc_testlib.wire import tenant_counters

MB = 1 << 20


@pytest.fixture(scope="module")
def offloading() -> Iterator[tuple[Ovs, Netns, Netns]]:
    with Ovs() as ovs:
        if datapath_type() == "netdev":
            ovs.vsctl("set", "open_vswitch", ".", "other_config:userspace-tso-enable=true")
            ovs.restart_vswitchd()
        ovs.add_bridge("br0")
        ovs.set_tenant("blue")
        guests = []
        for i in (1, 2):
            name = f"vnet{i}"
            guest = ovs.add_guest("br0", name, f"10.0.0.{i}/24", f"fd00::{i}/64")
            for ns, device in ((guest, "eth0"), (ovs.ns, name)):
                ns.run("ethtool", "-K", device, "tx", "on", "tso", "on", "gso", "on")
            ovs.bind("blue", name)
            guests.append(guest)
        yield ovs, guests[0], guests[1]
        assert ovs.vswitchd_running(), ovs.log_tail()


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"], ids=["v4", "v6"])
def test_bulk(offloading: tuple[Ovs, Netns, Netns], address: str) -> None:
    """Both ways at once, payload equal, and few packets for the bytes: they
    were not segmented in front of the engine."""
    ovs, a, b = offloading
    before = tenant_counters(ovs, "blue")
    transfers = [
        Transfer(a, b, address, port=5001, size=30 * MB),
        Transfer(a, b, address, port=5002, size=30 * MB),
    ]
    for transfer in transfers:
        transfer.finish()
    new = {k: v - before[k] for k, v in tenant_counters(ovs, "blue").items()}
    assert new["flows_capable"] == 4
    assert new["egress_bytes"] >= 60 * MB
    assert new["egress_bytes"] / new["egress_packets"] > 1500
    assert new["window_rewritten"] > 0
    for reason in ("feedback_bad", "forged", "ack_invalid", "untouched_midstream"):
        assert new[reason] == 0, reason
