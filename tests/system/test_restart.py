# SPDX-License-Identifier: Apache-2.0

"""Two hypervisors, each with an ovs-vswitchd of its own, and many connections between
their guests: one ovs-vswitchd is restarted.

ACDC_RESUME_CONNECTIONS says how many connections; one process has so many sockets twice."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from acdc_testlib.conversations import Conversations
from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.wire import tenant_counters

A, B = "10.0.0.1", "10.0.0.2"
CONNECTIONS = int(os.environ.get("ACDC_RESUME_CONNECTIONS", "200"))

pytestmark = pytest.mark.skipif(datapath_type() == "system", reason="the kernel keeps the state")


@dataclass
class Network:
    """Guest a behind the switch left, guest b behind right."""

    left: Ovs
    right: Ovs
    a: Netns
    b: Netns


@dataclass
class TalkingNetwork(Network):
    talk: Conversations

    def governed(self, ovs: Ovs) -> set[int]:
        return self.talk.governed(ovs.acdc("dump-flows"), ovs is not self.right)


def switch(name: str, addresses: list[str]) -> tuple[Ovs, Netns]:
    ovs = Ovs()
    ovs.add_bridge("br0")
    guest = ovs.add_guest("br0", f"vnet-{name}", *(f"{address}/24" for address in addresses))
    ovs.set_tenant("blue", police=True)
    ovs.bind("blue", f"vnet-{name}")
    return ovs, guest


def link(one: Ovs, other: Ovs, name: str) -> None:
    one.ns.veth_to(f"{name}0", other.ns, f"{name}1")
    one.add_port("br0", f"{name}0")
    other.add_port("br0", f"{name}1")


@contextlib.contextmanager
def network_of() -> Iterator[Network]:
    left, a = switch("a", [A])
    right, b = switch("b", [B])
    try:
        a.sysctl("net.ipv4.ip_local_port_range", "10000 65000")
        link(left, right, "up")
        yield Network(left, right, a, b)
    finally:
        left.close()
        right.close()


@pytest.fixture
def network() -> Iterator[TalkingNetwork]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with network_of() as net:
        talk = Conversations(net.a, net.b, B, CONNECTIONS)
        try:
            talk.exchange()
            yield TalkingNetwork(net.left, net.right, net.a, net.b, talk)
        finally:
            talk.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def check_back(net: TalkingNetwork, ovs: Ovs) -> None:
    """Each connection is governed again after its next exchanges."""
    shares: list[float] = []
    while len(shares) < 4 and (not shares or shares[-1] < 1):
        # The second question comes 200 ms after the first at the earliest, the third 800 ms
        # after that.
        time.sleep(0.5 if shares else 0)
        net.talk.exchange()
        shares.append(len(net.governed(ovs)) / CONNECTIONS)
    print(f"{CONNECTIONS} connections, governed again after each exchange: {shares}")
    # Who has fallen back in the meantime, as on a machine under load, is not asked.
    assert shares[-1] >= 0.97
    n = tenant_counters(ovs, "blue")
    assert n["flows_resumed"] >= 0.97 * CONNECTIONS
    assert n["policed_packets"] == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_restart(network: TalkingNetwork, side: str, how: signal.Signals) -> None:
    ovs: Ovs = getattr(network, side)
    assert len(network.governed(ovs)) == CONNECTIONS
    ovs.restart_vswitchd(how)
    assert not network.governed(ovs)
    check_back(network, ovs)
    # And the other one, which is told by the one that was told itself.
    other = network.right if side == "left" else network.left
    other.restart_vswitchd(how)
    check_back(network, other)
