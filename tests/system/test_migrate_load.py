# SPDX-License-Identifier: Apache-2.0

"""A guest with long connections moves to a hypervisor that has never seen them, to one without
AC/DC, and back: each connection is governed again within 2 s of its next exchange, in its own
window scale, and none stands still."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import pytest
from test_restart import A, B, link, network_of, switch
from test_resume_load import Sample, check_governed, late, stalled, watch

from acdc_ovs.buffers import enlarge_buffers
from acdc_testlib.long import ALL
from acdc_testlib.long_connections import LongConnections
from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.real_time import RealTime
from acdc_testlib.wire import tenant_counters

pytestmark = pytest.mark.skipif(datapath_type() == "system", reason="tests/lab has this")

# Connections, seconds between exchanges of each, seconds at each hypervisor.
SHORT, LONG = (200, 0.5, 3.0), (1000, 2.0, 10.0)
PORT = "vnet-a"


@dataclass
class Stay:
    """At one hypervisor."""

    left: float  # When the guest left the one before, in time.monotonic().
    came: float
    samples: list[Sample]
    flows: list[dict[str, Any]]


def move(guest: Netns, old: Ovs, to: Ovs, tenant: bool, seconds: float) -> Stay:
    """As libvirt does at last: the device is there and not here, and says so."""
    left = time.monotonic()
    before = tenant_counters(to, "blue")["flows_resumed"]
    old.del_port(PORT)
    old.ns.run("ip", "link", "set", "dev", PORT, "netns", str(to.ns.pid))
    to.ns.run("ip", "link", "set", "dev", PORT, "up")
    to.add_port("br0", PORT)
    if tenant:
        to.bind("blue", PORT)
    guest.announce("eth0", A)
    came = time.monotonic()
    samples = [Sample(at, n - before) for at, n in watch(to, seconds)]
    flows = to.acdc("dump-flows", f"port={PORT}") if tenant else []
    return Stay(left, came, samples, flows)


@pytest.mark.parametrize("load", [SHORT, LONG] if ALL else [SHORT], ids=lambda load: str(load[0]))
def test_migration_under_load(load: tuple[int, float, float], real_time: RealTime) -> None:
    n, period, seconds = load
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network_of())
        others = [switch(name, [])[0] for name in ("c", "d")]
        for i, ovs in enumerate(others):
            stack.callback(ovs.close)
            link(ovs, net.right, f"up{i}-")
        new, plain = others
        for ovs in (net.left, net.right, *others):
            # What is tested is not whether ovs-vswitchd gets a processor at once.
            enlarge_buffers(ovs.vswitchd_pid)
        talk = stack.enter_context(LongConnections(net.a, net.b, B, n, period))
        time.sleep(period)
        there = move(net.a, net.left, new, True, seconds)
        without = move(net.a, new, plain, False, seconds)
        back = move(net.a, plain, net.left, True, seconds)
        histories = talk.end()
        assert len(histories) == n
        assert not without.samples[-1].resumed
        for stay, ovs in (there, new), (back, net.left):
            governed = check_governed(stay.flows, histories)
            missed = late(stay.samples, histories, stay.left)
            print(
                f"{n} connections, {stay.came - stay.left:.1f} s to move: {governed} governed"
                f" again, at most {missed} not within 2 s of their next exchange"
            )
            assert governed >= 0.999 * n
            assert tenant_counters(ovs, "blue")["policed_packets"] == 0
            with real_time:
                assert missed <= 0.001 * n
        for stay in (there, without, back):
            assert not stalled(histories, stay.came, stay.samples[-1].at)
