# SPDX-License-Identifier: Apache-2.0
"""The network of a scenario, as a Mininet topology with exact queues.

Everything is made in the network namespace of the caller, which must be a
private one: the lab's kernel, or that of 'run --native'."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mininet.topo import Topo

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import acdc_mininet as am
from acdc_mininet.link import batch_in, queue_lines
from acdc_ovs import Port
from acdc_testlib.netns import gratuitous_arp

from .fabric import forwarding
from .scenarios import Host, Move, Options, Plan, Trunk, address

HEADERS = 14  # of Ethernet, which tc counts
BUFFER = 2_000_000  # bytes, of a switch port
ENCAPSULATION = 50  # IPv4, UDP, VXLAN or Geneve, Ethernet: so much the underlay's MTU is larger


class CommandError(Exception):
    """A command failed; its message has the command and what it said."""


def sh(*command: object, stdin: str | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def trunk_ends(trunk: Trunk) -> tuple[str, str]:
    """The names of its two devices."""
    return f"t-{trunk.a}-{trunk.b}"[:15], f"t-{trunk.b}-{trunk.a}"[:15]


class LabTopo(Topo):
    """'plan' with what 'options' say of links.  Without 'exact' timers are
    late, and the kernel may have no red."""

    def build(self, plan: Plan, options: Options, exact: bool) -> None:
        self.options, self.exact = options, exact
        for i, switch in enumerate(plan.switches, start=1):
            tunnels = [
                (f"x-{far}", options.tunnel, underlay(j, side))
                for j, trunk in enumerate(plan.trunks, start=1)
                for side, near, far in ((2, trunk.a, trunk.b), (1, trunk.b, trunk.a))
                if options.tunnel and near == switch
            ]
            macs = {host.name: mac(0, j) for j, host in enumerate(plan.hosts, start=1)}
            self.addSwitch(
                switch,
                dpid=f"{i:x}",
                inNamespace=bool(options.tunnel or options.reload or plan.moves),
                tunnels=tunnels,
                **forwarding(plan, options, switch, macs),
            )
        for i, host in enumerate(plan.hosts, start=1) if options.uplinks else ():
            self._add_uplink(host, len(plan.switches) + i, i)
        length = 64 if options.ipv6 else 16
        for i, host in enumerate(plan.hosts, start=1):
            self.addHost(
                host.name,
                ip=f"{address(options, i)}/{length}",
                mac=mac(0, i),
                rto_min=options.rto_min,
            )
            self.addLink(
                *(host.name, f"v-{host.name}" if options.uplinks else host.switch),
                intfName1="eth0",
                intfName2=f"p-{host.name}",
                addr1=mac(0, i),
                addr2=mac(1, i),
                cls=am.BatchLink,
                queue=self._guest_queue(host),
                back=self._queue(marks=False),
                mtu=options.mtu,
            )
        for i, trunk in enumerate(plan.trunks, start=1):
            ends = trunk_ends(trunk)
            self.addLink(
                *(trunk.a, trunk.b),
                intfName1=ends[0],
                intfName2=ends[1],
                addr1=mac(2, i),
                addr2=mac(3, i),
                params1=self._underlay(i, 1),
                params2=self._underlay(i, 2),
                **self._trunk_class(trunk),
            )

    def _add_uplink(self, host: Host, switch: int, number: int) -> None:
        """A vSwitch of its own for 'host', whose uplink heeds times to leave."""
        name = f"v-{host.name}"
        self.addSwitch(name, dpid=f"{switch:x}")
        self.addLink(
            *(name, host.switch),
            intfName1=f"u-{host.name}",
            intfName2=f"d-{host.name}",
            addr1=mac(4, number),
            addr2=mac(5, number),
            cls=am.BatchLink,
            queue=am.Queue(fq=True),
            mtu=self.options.mtu,
        )

    def _underlay(self, trunk: int, side: int) -> dict[str, Any]:
        return {"ip": f"{underlay(trunk, side)}/30"} if self.options.tunnel else {}

    def _trunk_class(self, trunk: Trunk) -> dict[str, Any]:
        mtu = self.options.mtu + (ENCAPSULATION if self.options.tunnel else 0)
        if trunk.lossy:
            return {
                "cls": am.BatchLink,
                "queue": self._queue(marks=False, loss=self.options.loss),
                "back": self._queue(marks=False),
                "mtu": mtu,
            }
        if trunk.late:
            # So fast that nothing waits: netem would send it in another order.
            rate = 10 * int(self.options.rate)
            by = {"late": self.options.late, "late_by": self.options.late_by}
            return {
                "cls": am.BatchLink,
                "queue": self._queue(marks=False, rate=rate, **by),
                "back": self._queue(marks=False, rate=rate, delay=2 * self.options.delay),
                "mtu": mtu,
            }
        limit = trunk.buffer or self.options.buffer or BUFFER
        rate = int(self.options.rate * trunk.speed)
        queue = self._queue(marks=True, frame=mtu + HEADERS, limit=limit, rate=rate)
        if queue.k and not self.exact and not am.has_red():
            return {"cls": am.MarkingLink, "queue": queue, "mtu": mtu}
        return {"cls": am.BatchLink, "queue": queue, "back": queue, "mtu": mtu}

    def _queue(self, marks: bool, **params: Any) -> am.Queue:  # noqa: ANN401
        options = self.options
        return am.Queue(
            **{
                "rate": int(options.rate),
                "k": options.mark if marks else 0,
                "limit": options.buffer or BUFFER,
                "drop_not_ect": True,
                "frame": options.mtu + HEADERS,
                "burst": 1 if self.exact else 5,
            }
            | params
        )

    def _guest_queue(self, host: Host) -> am.Queue:
        delay = self.options.delay if host.delay is None else host.delay
        # Its sockets limit what waits here, not this queue.
        more = {"delay": delay, "jitter": self.options.jitter}
        return self._queue(marks=False, limit=100_000 * self.options.mtu, **more)


def underlay(trunk: int, side: int) -> str:
    """The address of a hypervisor at one side (1, 2) of a trunk."""
    return f"192.168.{trunk}.{side}"


def mac(kind: int, index: int) -> str:
    return f"02:{kind:02x}:00:00:{index >> 8:02x}:{index & 255:02x}"


class Network:
    def __init__(
        self, plan: Plan, options: Options, programs: am.Programs, rundir: Path, virtual: bool
    ) -> None:
        self.plan = plan
        self.options = options
        self.hosts: dict[str, Host] = {host.name: host for host in plan.hosts}
        self.address = {
            host.name: address(options, i) for i, host in enumerate(plan.hosts, start=1)
        }
        self.mn = am.BatchNet(
            LabTopo(plan, options, exact=virtual),
            programs,
            options.datapath,
            rundir,
            shared=virtual,
            offload=options.offload,
        )
        self.hypervisors: list[am.Ovs] = self.mn.hypervisors
        self.at: dict[str, str] = {}  # Where guests are that have moved.

    def start(self) -> None:
        """Open vSwitch, the bridges in it, and the guests' own settings."""
        self.mn.start()
        for name, host in self.hosts.items():
            with self.inside(name):
                self._set_sysctls(host.sysctl | self.options.sysctl)

    @staticmethod
    def _set_sysctls(sysctls: dict[str, str]) -> None:
        """Of the namespace that this thread is in: those of the whole machine are not to be
        seen there."""
        for key, value in sysctls.items():
            try:
                Path("/proc/sys", *key.split(".")).write_text(value)
            except OSError as error:
                raise CommandError(f"--sysctl {key}={value}: {error.strerror}") from None

    def bind(self, tenants: dict[str, str]) -> None:
        """The guests of 'tenants', by their names, to their tenants."""
        for tenant in sorted(set(tenants.values())):
            self.mn.bind(tenant, *(name for name, its in tenants.items() if its == tenant))

    def announce(self, *names: str) -> None:
        """A broadcast of each guest, so that the switches have learned all
        addresses: else they flood what should be a flow between two ports."""
        for name in names or self.hosts:
            address = bytes.fromhex(self.mn[name].MAC().replace(":", ""))
            with self.inside(name), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                sock.bind(("eth0", 0))
                if self.options.ipv6:
                    # Of the ethertype for experiments (IEEE 802), without content.
                    sock.send(b"\xff" * 6 + address + b"\x88\xb5" + bytes(46))
                else:
                    sock.send(gratuitous_arp(address, self.address[name]))

    def restart(self) -> None:
        """Of each ovs-vswitchd."""
        for switch in {id(switch.ovs): switch for switch in self.mn.switches}.values():
            switch.restart()

    def reload(self) -> None:
        """Of one hypervisor's module, or ovs-vswitchd: what its datapath knew is gone, the
        others' is not."""
        switch = self.mn[self.options.reload_of]
        switch.reload(signal.SIGKILL if self.options.reload_by == "kill" else None)

    def move(self, move: Move) -> None:
        """Of a guest, as libvirt does at last: its port is at another hypervisor, and it says
        so."""
        name = f"p-{move.host}"
        to = self.mn[move.to]
        intf = next(x for x in self.mn.links if x.intf2.name == name).intf2
        old = self.mn[self.at.get(move.host, self.hosts[move.host].switch)]
        with old.inside():
            old.ovs.del_port(name)
            sh("ip", "link", "set", "dev", name, "netns", to.pid)
        time.sleep(0.001)  # What was under way is there.
        for switch in self.mn.switches:
            # A switch learns also from what its flows have counted, within half a second.  So that
            # none is told of the old place after the new one, that is done now.
            switch.ovs.appctl("revalidator/purge")
        with to.inside():
            sh("ip", "link", "set", "dev", name, "up")
            batch_in(to, "tc", queue_lines(name, intf.queue))
        columns = {"other_config:acdc-tenant": move.tenant} if move.tenant else {}
        to.ovs.add_port(to.name, Port(name, columns, own_qdiscs=True))
        self.at[move.host] = move.to
        time.sleep(0.001)  # Until the guest's device knows that it is connected.
        self.announce(move.host)
        time.sleep(0.001)
        for switch in self.mn.switches:
            # In virtual time nothing else wakes the thread that sees what was learnt.
            switch.ovs.appctl("fdb/show", switch.name)

    def governed(self, host: str) -> tuple[int, int]:
        """Connections of a guest where it is now, and how many of them have AC/DC."""
        ovs = self.mn[self.at.get(host, self.hosts[host].switch)].ovs
        flows = [f for f in ovs.acdc("dump-flows", f"port=p-{host}") if f["state"] == "established"]
        return len(flows), sum(flow["capable"] for flow in flows)

    def break_spine(self) -> None:
        """It drops all that comes from the first leaf, and no device says so."""
        spine = self.mn[self.plan.spines[0]]
        port = spine.ports[spine.connectionsTo(self.mn[self.plan.switches[0]])[0][0]]
        spine.ovs.ofctl("add-flow", spine.name, f"priority=65535,in_port={port},actions=drop")

    def close(self) -> None:
        self.mn.stop()

    def inside(self, node: str) -> contextlib.AbstractContextManager[None]:
        """This thread, and what it starts, is in the namespace of a guest or a switch."""
        inside: contextlib.AbstractContextManager[None] = self.mn[node].inside()
        return inside

    def engine(self) -> dict[str, Any]:
        """acdc/stats; of several hypervisors the sum for each tenant."""
        first, *others = [ovs.acdc("stats") for ovs in self.hypervisors]
        tenants = {tenant["name"]: tenant["counters"] for tenant in first["tenants"]}
        for other in others:
            first["datapaths"] += other["datapaths"]
            for tenant in other["tenants"]:
                for name, value in tenant["counters"].items():
                    tenants[tenant["name"]][name] += value
        result: dict[str, Any] = first
        return result

    def queues(self) -> list[dict[str, Any]]:
        """What the network's queues counted."""
        links = {link.intf1.name: link for link in self.mn.links}
        shown: dict[int, dict[str, Any]] = {}
        result = []
        for trunk in self.plan.trunks:
            link = links[trunk_ends(trunk)[0]]
            for intf in (link.intf1, link.intf2):
                if isinstance(link, am.MarkingLink):
                    result.append(self._state(intf.name, link.queues[intf.node.name].read()))
                    continue
                if intf.node.pid not in shown:
                    with intf.node.inside():
                        shown[intf.node.pid] = self._leaves()
                qdisc = shown[intf.node.pid][intf.name]
                result.append(
                    {
                        "queue": intf.name,
                        "kind": qdisc["kind"],
                        "packets": qdisc["packets"],
                        "bytes": qdisc["bytes"],
                        "drops": qdisc["drops"],
                        "marks": qdisc.get("marked", 0),
                    }
                )
        return result

    @staticmethod
    def _leaves() -> dict[str, Any]:
        """The queues of this namespace, by their devices."""
        qdiscs = json.loads(sh("tc", "-s", "-j", "qdisc", "show"))
        return {qdisc["dev"]: qdisc for qdisc in qdiscs if qdisc["handle"] == "10:"}

    @staticmethod
    def _state(name: str, state: am.QueueState) -> dict[str, Any]:
        return {
            "queue": name,
            "kind": "bpf",
            "packets": state.packets,
            "bytes": state.bytes,
            "drops": state.drops,
            "marks": state.marks,
        }

    def counters(self, host: str) -> dict[str, int]:
        """The guest's counters of IP and TCP, as nstat shows them."""
        result: dict[str, int] = {}
        for name in ("snmp", "netstat"):
            lines = Path(f"/proc/{self.mn[host].pid}/net/{name}").read_text().splitlines()
            for keys, values in zip(lines[::2], lines[1::2], strict=True):
                group, _, names = keys.partition(": ")
                if group not in ("Ip", "IpExt", "Tcp", "TcpExt"):
                    continue
                numbers = values.partition(": ")[2].split()
                result |= {
                    group + key: int(value)
                    for key, value in zip(names.split(), numbers, strict=True)
                }
        return result
