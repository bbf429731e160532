# SPDX-License-Identifier: Apache-2.0

"""Three hypervisors in a row, with connections between their guests, while centre, agents and
switches go away: connections go on, and policy is as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from acdc_testlib.fleet import SERVERS, Fleet, Host
from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Transfer, finish_all
from acdc_testlib.wire import tenant_counters

SOME = 200_000  # Bytes: more than what was in flight before.


@dataclass
class Site:
    """Guest i has the address 10.1.0.i+1, and a port that the fleet's selector binds."""

    fleet: Fleet
    hosts: list[Host]
    switches: list[Ovs]
    guests: list[Netns]
    transfers: list[Transfer]

    def policies(self) -> list[object]:
        """What each ovs-vswitchd does with its guest's port."""
        rows = [ovs.acdc("show", "blue")["tenants"] for ovs in self.switches]
        return [
            [(row["params"], [port["name"] for port in row["ports"]]) for row in tenants]
            for tenants in rows
        ]

    def go_on(self) -> None:
        """Each connection delivers, and each host hears of it from the others."""
        before = [tenant_counters(ovs, "blue")["pack_received"] for ovs in self.switches]
        seen = [transfer.received for transfer in self.transfers]

        def all_deliver() -> bool:
            pairs = zip(self.transfers, seen, strict=True)
            return all(transfer.received > old + SOME for transfer, old in pairs)

        def all_govern() -> bool:
            now = [tenant_counters(ovs, "blue")["pack_received"] for ovs in self.switches]
            return all(new > old for new, old in zip(now, before, strict=True))

        wait_for("data of all connections", all_deliver, timeout=60)
        wait_for("feedback at all hosts", all_govern, timeout=30)


@pytest.fixture
def site(fleet: Fleet) -> Iterator[Site]:
    hosts = fleet.hosts[:3]
    switches = [host.ovs for host in hosts if isinstance(host.ovs, Ovs)]
    guests = []
    for i, ovs in enumerate(switches):
        guests.append(ovs.add_guest("br0", "guest", f"10.1.0.{i + 1}/24"))
        # Three streams without end would leave two processors nothing for the rest.
        shape = "tbf rate 20mbit burst 16kb latency 50ms".split()
        guests[i].run("tc", "qdisc", "add", "dev", "eth0", "root", *shape)
        ovs.vsctl("set", "interface", "guest", "external_ids:port-profile=blue")
    for left, right in zip(switches, switches[1:], strict=False):
        left.ns.veth_to("right", right.ns, "left")
        left.add_port("br0", "right")
        right.add_port("br0", "left")
    fleet.ctl("bind", "blue", "port-profile=blue", "--wait=hosts")
    with ExitStack() as stack:
        made = Site(fleet, hosts, switches, guests, [])
        for n, (source, to) in enumerate(((0, 2), (1, 0), (2, 1))):
            made.transfers.append(
                Transfer(guests[source], guests[to], f"10.1.0.{to + 1}", port=5001 + n)
            )
        stack.callback(finish_all, made.transfers)
        made.go_on()
        yield made
        made.go_on()
    for ovs in switches:
        for port in ("guest", "left", "right"):
            ovs.del_port(port)
            ovs.ns.run("ip", "link", "del", port, check=False)  # And with it the other end.


def test_the_centre_is_gone(site: Site) -> None:
    """All servers and the relay are dead; then the agents, too; then both start again."""
    fleet, before = site.fleet, site.policies()
    created = [tenant_counters(ovs, "blue")["flows_created"] for ovs in site.switches]
    for name in (*SERVERS, "relay"):
        fleet.kill(name)
    site.go_on()
    for host in site.hosts:
        host.stop_agent(signal.SIGKILL)
    site.go_on()
    for host in site.hosts:
        host.start_agent()
    site.go_on()
    assert site.policies() == before
    fleet.heal()
    site.go_on()
    assert site.policies() == before
    assert created == [tenant_counters(ovs, "blue")["flows_created"] for ovs in site.switches]
    # A change reaches the connections that were there all the time.
    fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=hosts", "--timeout=60")
    site.go_on()
    assert {row[0][0]["beta"] for row in site.policies()} == {0.25}  # type: ignore[index]


def test_switch_and_agent_start_again(site: Site) -> None:
    """While the centre cannot be reached.  The host in the middle also forwards for others."""
    fleet, before = site.fleet, site.policies()
    fleet.link("site", up=False)
    host = site.hosts[1]
    host.stop_agent(signal.SIGKILL)
    host.ovs.restart_vswitchd()
    site.go_on()
    host.start_agent()
    site.go_on()
    assert site.policies() == before
