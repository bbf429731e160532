# SPDX-License-Identifier: Apache-2.0

"""The topologies of the AC/DC paper, and a leaf-spine fabric.

'queue' is the output queue of the fabric's links in both directions; 'access'
that of the links between guests and switches, None for links as fast as the
machine (in virtual time give every link one)."""

from __future__ import annotations

from typing import Any

from mininet.topo import Topo

from .link import MarkingLink, Queue


def _access(access: Queue | None) -> dict[str, Any]:
    return {"cls": MarkingLink, "queue": access} if access else {}


class Dumbbell(Topo):
    """h1..hN at s1, r1..rN at s2, and one queue in between."""

    def build(self, n: int = 5, queue: Queue | None = None, access: Queue | None = None) -> None:
        left, right = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(left, right, port1=1, port2=1, cls=MarkingLink, queue=queue or Queue())
        for i in range(1, n + 1):
            self.addLink(self.addHost(f"h{i}"), left, port2=i + 1, **_access(access))
            self.addLink(self.addHost(f"r{i}"), right, port2=i + 1, **_access(access))


class Incast(Topo):
    """h1..hN send to r1.  Every guest is behind a vSwitch of its own, v1..vN and
    v0, as on machines in a rack, and these are at the switch s1; the queue is
    that of s1 towards v0."""

    def build(self, n: int = 16, queue: Queue | None = None, access: Queue | None = None) -> None:
        switch = self.addSwitch("s1")
        for i in range(n + 1):
            vswitch = self.addSwitch(f"v{i}", dpid=f"{0x100 + i:x}")
            guest = self.addHost(f"h{i}" if i else "r1")
            self.addLink(guest, vswitch, port2=1, **_access(access))
            uplink = _access(access) if i else {"cls": MarkingLink, "queue": queue or Queue()}
            self.addLink(switch, vswitch, port1=i + 1, port2=2, **uplink)


class LeafSpine(Topo):
    """Leaves l1.., each the vSwitch of its guests hL_1.. (h2_1: leaf 2, guest
    1), and spines p1..; every leaf is linked to every spine, and a leaf spreads the flows to
    other leaves over all spines (OpenFlow select group, by a flow's hash)."""

    def build(
        self,
        leaves: int = 2,
        spines: int = 2,
        hosts: int = 2,
        queue: Queue | None = None,
        access: Queue | None = None,
    ) -> None:
        macs = {
            (leaf, host): f"02:00:00:00:{leaf:02x}:{host:02x}"
            for leaf in range(1, leaves + 1)
            for host in range(1, hosts + 1)
        }
        for spine in range(1, spines + 1):
            flows = [f"dl_dst={mac},actions=output:{leaf}" for (leaf, _), mac in macs.items()]
            self.addSwitch(f"p{spine}", dpid=f"{0x1000 + spine:x}", flows=flows)
        for leaf in range(1, leaves + 1):
            buckets = "".join(f",bucket=output:{spine}" for spine in range(1, spines + 1))
            flows = [
                f"dl_dst={mac},actions="
                + (f"output:{spines + host}" if home == leaf else "group:1")
                for (home, host), mac in macs.items()
            ]
            self.addSwitch(
                f"l{leaf}",
                dpid=f"{0x2000 + leaf:x}",
                flows=flows,
                groups=[f"group_id=1,type=select{buckets}"],
            )
            for spine in range(1, spines + 1):
                self.addLink(
                    *(f"l{leaf}", f"p{spine}"),
                    port1=spine,
                    port2=leaf,
                    cls=MarkingLink,
                    queue=queue or Queue(),
                )
            for host in range(1, hosts + 1):
                self.addHost(f"h{leaf}_{host}", mac=macs[leaf, host], ip=f"10.0.{leaf}.{host}/8")
                self.addLink(
                    *(f"h{leaf}_{host}", f"l{leaf}"), port2=spines + host, **_access(access)
                )
