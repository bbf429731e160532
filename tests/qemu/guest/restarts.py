# SPDX-License-Identifier: Apache-2.0

"""In the machine: what becomes of connections, used all the while, when the module is
reloaded and when Open vSwitch is restarted.

The far guest is behind an Open vSwitch of its own with the userspace datapath, which
nothing restarts: what it knows of the connections stays."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from hypervisor import Guest, run, say

from acdc_testlib.conversations import Conversations
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Task

ADDRESS = "10.0.0.9"
CONNECTIONS = 20
PATIENCE = 600  # s, for an exchange: a reload takes a minute here, a retransmission its time.


def tenant_counters() -> dict[str, int]:
    stats: Any = json.loads(run("ovs-appctl", "acdc/stats", "--json", quiet=True))
    found: dict[str, int] = stats["tenants"][0]["counters"]
    return found


class Restarts:
    def __init__(self, guest: Guest, neighbour: Guest) -> None:
        run("modprobe", "tun")  # For the bridge's own port.
        self.far = Ovs()
        self.far.add_bridge("br0")
        far_guest = self.far.add_guest("br0", "vnet-far", f"{ADDRESS}/24")
        self.far.set_tenant("blue")
        self.far.bind("blue", "vnet-far")
        run("ip", "link", "add", "dev", "up0", "type", "veth", "peer", "name", "up1",
            "netns", str(self.far.ns.pid))  # fmt: skip
        for name in ("tx", "tso", "gso", "gro"):
            run("ethtool", "-K", "up0", name, "off", quiet=True)
        self.far.ns.without_offloads("up1")
        run("ip", "link", "set", "dev", "up0", "up")
        self.far.ns.run("ip", "link", "set", "dev", "up1", "up")
        self.far.add_port("br0", "up1")
        run("ovs-vsctl", "add-port", "br0", "up0")
        # Of the second the one Open vSwitch has both ends, and so forgets both.
        self.talks = [
            Conversations(guest.ns, far_guest, ADDRESS, CONNECTIONS),
            Conversations(guest.ns, neighbour.ns, neighbour.addresses[0], 2, port=5002),
        ]
        self.exchange()
        here, far, between = self.governed()
        assert len(here) == len(far) == CONNECTIONS
        assert len(between) == 2

    def close(self) -> None:
        for talk in self.talks:
            talk.close()
        self.far.close()

    def exchange(self) -> None:
        for talk in self.talks:
            talk.exchange(PATIENCE)

    def governed(self) -> list[set[int]]:
        """Of the connections to the far guest those that have AC/DC here and there, and of the
        others those that have it here; none has a wrong scale."""
        flows = json.loads(run("ovs-appctl", "acdc/dump-flows", "--json", quiet=True))
        far = self.talks[0].governed(self.far.acdc("dump-flows"), at_a=False)
        return [self.talks[0].governed(flows), far, self.talks[1].governed(flows)]

    def _meanwhile(self, happens: Callable[[], None]) -> int:
        """The connections are in use while 'happens' does; how many exchanges there were."""
        ends = threading.Event()
        n = 0

        def use() -> None:
            nonlocal n
            while not ends.is_set():
                self.exchange()
                n += 1

        task = Task(use)
        try:
            happens()
        finally:
            ends.set()
            task.join(2 * PATIENCE)
        return n

    def check_reload(self, reload: Callable[[], None]) -> None:
        self._meanwhile(reload)
        shares: list[int] = []
        while len(shares) < 4 and (not shares or shares[-1] < CONNECTIONS):
            # The second question comes 200 ms after the first at the earliest, the third 800 ms
            # after that.
            time.sleep(1 if shares else 0)
            self.exchange()
            here, far, between = self.governed()
            shares.append(len(here))
        count = tenant_counters()
        say(f"reload under {CONNECTIONS} connections: governed after each exchange: {shares}")
        if shares[-1] < CONNECTIONS:
            self._explain()
        # The far end may have fallen back, as on a machine under load.
        assert here == far
        assert shares[-1] == count["flows_resumed"] >= 0.75 * CONNECTIONS
        # Nobody knows these, and nobody touches them.
        assert not between
        assert count["untouched_midstream"] > 0
        assert count["policed_packets"] == 0

    def _explain(self) -> None:
        """The connections that were not taken up again, at both ends, and what was counted."""
        ports = {near.getsockname()[1] for near, _far in self.talks[0].pairs}
        flows = json.loads(run("ovs-appctl", "acdc/dump-flows", "--json", quiet=True))
        good = {flow["local_port"] for flow in flows if flow["capable"]}
        for where, own, found in (
            ("here", "local", flows),
            ("far", "remote", self.far.acdc("dump-flows")),
        ):
            for flow in found:
                if flow[f"{own}_port"] in ports - good:
                    say(f"{where}: {flow}")
        far = self.far.acdc("stats")["tenants"][0]["counters"]
        for where, count in (("here", tenant_counters()), ("far", far)):
            say(f"{where}: { {name: value for name, value in count.items() if value} }")

    def check_restart(self, restart: Callable[[], None]) -> None:
        """The kernel keeps the datapath, and what it knows."""
        before = tenant_counters()
        n = self._meanwhile(restart)
        self.exchange()
        after = tenant_counters()
        here, far, between = self.governed()
        say(f"restart under {CONNECTIONS} connections: {n} exchanges, {len(here)} still governed")
        assert len(here) == len(far) == CONNECTIONS
        assert len(between) == 2
        for name in ("flows_created", "flows_resumed", "policed_packets"):
            assert after[name] == before[name], name
        assert after["egress_packets"] > before["egress_packets"]
