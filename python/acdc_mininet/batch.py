# SPDX-License-Identifier: Apache-2.0

"""Networks of a hundred guests, made with few processes.

Mininet starts a shell for each node, on a terminal that it polls, and a
process for each setting of each device.  In the lab's kernel, where a process
is what takes time, that would be many minutes.  Here a node has no shell, and
what is to be set is collected and given to one 'ip -batch' and one 'tc -batch'
in each network namespace."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import ipaddress
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Node

from acdc_ovs import namespaces

from .link import Queue, batch_in, queue_lines
from .nodes import AcdcHost, AcdcNet, AcdcSwitch

SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM = 0x17
ETHTOOL_SEGMENTATION = (0x1F, 0x24, 0x2C)  # TSO, GSO, GRO


def set_offload(device: str, commands: Sequence[int], state: bool) -> None:
    """As 'ethtool -K', without a process."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in commands:
            value = ctypes.create_string_buffer(struct.pack("II", command, state))
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(sock, SIOCETHTOOL, request)


class BatchNode(Node):
    """A node without a shell: one process holds its namespace, if it has one."""

    shell: subprocess.Popen[bytes] | None

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802
        self.waiting = False
        if not self.inNamespace:
            self.pid = os.getpid()
            return
        with namespaces.back_again():
            namespaces.unshare()
            self.shell = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
        self.pid = self.shell.pid

    def terminate(self) -> None:
        if self.shell:
            self.shell.kill()
            self.shell.wait()
            self.shell = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and what it starts, is in the node's namespace."""
        if not self.inNamespace:
            yield
            return
        with namespaces.entered(self.pid):
            yield

    def popen(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with self.inside():
            return super().popen(*args, **{"mncmd": []} | kwargs)

    def cmd(self, *args: Any, **_: Any) -> str:  # noqa: ANN401
        words = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        out, err, _status = self.pexec(["sh", "-c", " ".join(map(str, words))])
        return str(out + err)

    def ip_lines(self) -> list[str]:
        """For 'ip -batch' in this namespace, once the links are there."""
        lines = []
        for intf in self.intfList():
            if intf.name != "lo":
                if intf.ip:
                    # Without duplicate address detection it is good at once.
                    nodad = " nodad" if ":" in intf.ip else ""
                    lines.append(f"addr add {intf.ip}/{intf.prefixLen} dev {intf}{nodad}")
                lines.append(f"link set {intf} up")
                far = intf.link.intf2 if intf.link.intf1 is intf else intf.link.intf1
                if intf.ip and far.ip:
                    lines.append(f"neigh add {far.ip} lladdr {far.mac} dev {intf}")
        return lines

    def tc_lines(self) -> list[str]:
        return [
            line
            for intf in self.intfList()
            if getattr(intf, "queue", None)
            for line in queue_lines(intf.name, intf.queue)
        ]


class BatchHost(BatchNode, AcdcHost):
    """A guest.  'rto_min' (seconds) is that of its network's route; 0: the
    stack's own."""

    def config(
        self,
        *_: Any,  # noqa: ANN401
        mac: str | None = None,
        ip: str | None = None,
        rto_min: float = 0,
        sysctls: dict[str, object] | None = None,
        **params: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        intf = self.defaultIntf()
        if mac:
            intf.setMAC(mac)
        if ip:
            intf.setIP(ip)
        self.rto_min = rto_min
        self.sysctls = {"net.ipv4.tcp_no_metrics_save": 1} | (sysctls or {})
        self.neighbours: list[tuple[str, str]] = []
        return {}

    def setARP(self, ip: str, mac: str) -> None:  # noqa: N802
        self.neighbours.append((ip, mac))

    def ip_lines(self) -> list[str]:
        intf = self.defaultIntf()
        lines = ["link set lo up", *super().ip_lines()]
        lines += [f"neigh add {ip} lladdr {mac} dev {intf}" for ip, mac in self.neighbours]
        if self.rto_min:
            network = ipaddress.ip_interface(f"{intf.ip}/{intf.prefixLen}").network
            more = "metric 256" if network.version == 6 else f"scope link src {intf.ip}"
            lines.append(
                f"route change {network} dev {intf} proto kernel {more}"
                f" rto_min {self.rto_min * 1e3:g}ms"
            )
        return lines

    def write_sysctls(self) -> None:
        with self.inside():
            for key, value in self.sysctls.items():
                Path("/proc/sys", key.replace(".", "/")).write_text(f"{value}\n")


class BatchSwitch(BatchNode, AcdcSwitch):
    """A bridge; with 'inNamespace' a hypervisor of its own."""

    def start(self, controllers: Sequence[Node]) -> None:
        with self.inside():
            super().start(controllers)

    def restart(self) -> None:
        """Of its ovs-vswitchd, and so of all bridges in that."""
        with self.inside():
            self.ovs.restart_vswitchd(None)

    def reload(self, sig: signal.Signals | None = None) -> None:
        """The same, and the datapath is made again: its flows, and AC/DC's, are gone.  By a
        signal only the userspace datapath loses them."""
        with self.inside():
            self.ovs.stop_vswitchd(sig, *([] if sig else ["--cleanup"]))
            self.ovs.start_vswitchd()
            if self.ovs.datapath == "netdev":
                self.ovs.enlarge_buffers()


class BatchIntf(Intf):
    """A device that BatchNet.build() makes and configures."""

    queue: Queue | None = None

    def config(self, ip: str | None = None, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        if ip:
            self.setIP(ip)
        return {}

    def setMAC(self, macstr: str) -> None:  # noqa: N802
        self.mac = macstr

    def setIP(self, ipstr: str, prefixLen: int | None = None) -> None:  # noqa: N802, N803
        self.ip, _, length = ipstr.partition("/")
        self.prefixLen = length or prefixLen

    def delete(self) -> None:
        self.node.delIntf(self)


class BatchLink(Link):
    """A veth pair, with 'queue' at the output of node1 and 'back' at that of
    node2; None: none."""

    own_qdiscs = True

    def __init__(
        self,
        node1: Node,
        node2: Node,
        queue: Queue | None = None,
        back: Queue | None = None,
        mtu: int = 1500,
        **params: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(node1, node2, **params)
        self.mtu = mtu
        self.intf1.queue, self.intf2.queue = queue, back

    @classmethod
    def makeIntfPair(cls, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N802
        """BatchNet.build() does."""

    def ip_line(self) -> str:
        """For 'ip -batch' in the namespace of the switches."""

        def end(intf: BatchIntf) -> str:
            where = f" netns {intf.node.pid}" if intf.node.inNamespace else ""
            return f"name {intf} mtu {self.mtu} address {intf.mac}{where}"

        return f"link add {end(self.intf1)} type veth peer {end(self.intf2)}"


class BatchNet(AcdcNet):
    """An AcdcNet of these.  'offload': whether its devices segment (TSO, GSO,
    GRO)."""

    def __init__(self, *args: Any, offload: bool = False, **params: Any) -> None:  # noqa: ANN401
        self.offload = offload
        classes = {"host": BatchHost, "link": BatchLink, "intf": BatchIntf}
        super().__init__(*args, **classes | {"switch": BatchSwitch} | params)

    def build(self) -> None:
        try:
            super().build()
            self._configure()
        except BaseException:
            devices = self._devices()
            for link in self.links:
                link.stop()
            for node in [*self.switches, *self.hosts]:
                node.terminate()
            self._delete(devices)
            raise

    def _configure(self) -> None:
        here = BatchNode("here", inNamespace=False)
        links = [link.ip_line() for link in self.links if isinstance(link, BatchLink)]
        batch_in(here, "ip", links)
        namespaces: dict[int, list[BatchNode]] = {}
        for node in [*self.switches, *self.hosts]:
            namespaces.setdefault(node.pid, []).append(node)
        for nodes in namespaces.values():
            batch_in(nodes[0], "ip", [line for node in nodes for line in node.ip_lines()])
            with nodes[0].inside():
                for node in nodes:
                    self._set_offloads(node)
            batch_in(nodes[0], "tc", [line for node in nodes for line in node.tc_lines()])
        for host in self.hosts:
            host.write_sysctls()

    def stop(self) -> None:
        devices = self._devices()
        super().stop()
        self._delete(devices)

    def _devices(self) -> list[str]:
        """Those in the namespace of the caller."""
        return [
            intf.name
            for switch in self.switches
            if not switch.inNamespace
            for intf in switch.intfList()
            if intf.name != "lo"
        ]

    @staticmethod
    def _delete(devices: list[str]) -> None:
        # With a guest's namespace its links go too, but later.
        lines = "".join(f"link del {device}\n" for device in devices)
        command = ["ip", "-force", "-batch", "-"]
        subprocess.run(command, input=lines, text=True, capture_output=True)

    def _set_offloads(self, node: BatchNode) -> None:
        for intf in node.intfList():
            if intf.name == "lo":
                continue
            set_offload(intf.name, ETHTOOL_SEGMENTATION, self.offload)
            if self.ovs.datapath == "netdev":
                # It reads packets from AF_PACKET, where a checksum that a
                # device would complete stays open.
                set_offload(intf.name, [ETHTOOL_STXCSUM], False)
