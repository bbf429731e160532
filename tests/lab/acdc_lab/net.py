# SPDX-License-Identifier: Apache-2.0
"""Namespaces, links and queues.

Everything is made in the network namespace of the caller, which must be a
private one: the lab's kernel, or a namespace made by 'run --native'."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .scenarios import Host, Options, Plan

HEADERS = 14  # of Ethernet, which tc counts
CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
ETHTOOL_SET = {"tso": 0x1F, "gso": 0x24, "gro": 0x2C}


class CommandError(Exception):
    """A command failed; its message has the command and what it said."""


def sh(*command: object, stdin: str | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def set_offload(device: str, state: bool) -> None:
    """As 'ethtool -K', without a process: those are what takes time here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in ETHTOOL_SET.values():
            value = ctypes.create_string_buffer(struct.pack("II", command, state))
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(sock, SIOCETHTOOL, request)


@dataclasses.dataclass
class Port:
    """A switch's end of a link."""

    name: str
    switch: str
    host: str | None  # the guest behind it
    queue: bool  # the network's queue is here


class Network:
    def __init__(self, plan: Plan, options: Options) -> None:
        """'plan' with what 'options' say of links."""
        self.plan = plan
        self.options = options
        self.ports: list[Port] = []
        self.keepers: dict[str, subprocess.Popen[bytes]] = {}
        self.hosts: dict[str, Host] = {host.name: host for host in plan.hosts}
        self.address: dict[str, str] = {}
        for i, host in enumerate(plan.hosts, start=1):
            self.address[host.name] = (
                f"fd00::{i:x}" if options.ipv6 else f"10.0.{i // 250}.{i % 250 + 1}"
            )

    def build(self) -> None:
        for host in self.plan.hosts:
            # One process holds the namespace and shows its /proc/PID/net.
            self.keepers[host.name] = subprocess.Popen(
                ["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL
            )
        self._wait_for_namespaces()
        links = []
        for host in self.plan.hosts:
            port = Port(f"p-{host.name}", host.switch, host.name, False)
            self.ports.append(port)
            links.append((port.name, "eth0", self.keepers[host.name].pid))
        for trunk in self.plan.trunks:
            ends = [f"t-{trunk.a}-{trunk.b}"[:15], f"t-{trunk.b}-{trunk.a}"[:15]]
            self.ports.append(Port(ends[0], trunk.a, None, True))
            self.ports.append(Port(ends[1], trunk.b, None, True))
            links.append((ends[0], ends[1], 0))
        mtu = self.options.mtu
        batch = []
        for a, b, pid in links:
            peer = f"name {b} mtu {mtu}" + (f" netns {pid}" if pid else "")
            batch.append(f"link add {a} mtu {mtu} type veth peer {peer}")
            batch.append(f"link set {a} up")
            if not pid:
                batch.append(f"link set {b} up")
        self._batch("ip", batch)
        for host in self.plan.hosts:
            with self.inside(host.name):
                self._configure_host(host)
        for port in self.ports:
            set_offload(port.name, self.options.offload)
        self._batch("tc", [line for port in self.ports for line in self._port_queue(port)])

    def announce(self) -> None:
        """A broadcast of each guest, so that the switches have learned all
        addresses: else they flood what should be a flow between two ports."""
        for i, host in enumerate(self.plan.hosts, start=1):
            mac = bytes.fromhex(self._mac(i).replace(":", ""))
            # Of the ethertype for experiments (IEEE 802), without content.
            frame = b"\xff" * 6 + mac + b"\x88\xb5" + bytes(46)
            with self.inside(host.name), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                sock.bind(("eth0", 0))
                sock.send(frame)

    def close(self) -> None:
        for keeper in self.keepers.values():
            keeper.kill()
            keeper.wait()

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread, and what it starts, is in the guest's namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open(self._namespace(host)) as guest:
            if libc.setns(guest.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"namespace of {host}")
            try:
                yield
            finally:
                if libc.setns(own.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "own namespace")

    def _namespace(self, host: str) -> str:
        return f"/proc/{self.keepers[host].pid}/ns/net"

    def queues(self) -> list[dict[str, Any]]:
        """What the network's queues counted."""
        result = []
        for port in self.ports:
            if not port.queue:
                continue
            for qdisc in json.loads(sh("tc", "-s", "-j", "qdisc", "show", "dev", port.name)):
                if qdisc.get("kind") == "htb":
                    continue
                result.append(
                    {
                        "queue": port.name,
                        "kind": qdisc["kind"],
                        "packets": qdisc["packets"],
                        "bytes": qdisc["bytes"],
                        "drops": qdisc["drops"],
                        "marks": qdisc.get("marked", 0),
                        "drops_early": qdisc.get("early", 0),
                        "drops_tail": qdisc.get("pdrop", 0),
                        "backlog": qdisc["backlog"],
                    }
                )
        return result

    def counters(self, host: str) -> dict[str, int]:
        """The guest's TCP counters, as nstat shows them."""
        result: dict[str, int] = {}
        for name in ("snmp", "netstat"):
            lines = Path(f"/proc/{self.keepers[host].pid}/net/{name}").read_text().splitlines()
            for keys, values in zip(lines[::2], lines[1::2], strict=True):
                group, _, names = keys.partition(": ")
                if group not in ("Tcp", "TcpExt"):
                    continue
                numbers = values.partition(": ")[2].split()
                result |= {
                    group + key: int(value)
                    for key, value in zip(names.split(), numbers, strict=True)
                }
        return result

    def _wait_for_namespaces(self) -> None:
        own = os.readlink("/proc/self/ns/net")
        for name, keeper in self.keepers.items():
            while os.readlink(f"/proc/{keeper.pid}/ns/net") == own:
                if keeper.poll() is not None:
                    raise CommandError(f"no network namespace for {name}")
                time.sleep(0.001)

    @staticmethod
    def _batch(tool: str, lines: list[str]) -> None:
        sh(tool, "-batch", "-", stdin="\n".join(lines) + "\n")

    def _configure_host(self, host: Host) -> None:
        options = self.options
        length = 64 if options.ipv6 else 16
        index = self.plan.hosts.index(host) + 1
        lines = [
            "link set lo up",
            f"link set eth0 address {self._mac(index)}",
            # Without duplicate address detection the address is good at once.
            f"addr add {self.address[host.name]}/{length} dev eth0"
            + (" nodad" if options.ipv6 else ""),
            "link set eth0 up",
        ]
        # Neighbours are set: their discovery would be dropped by a marking
        # queue, since it is not ECT.
        for i, other in enumerate(self.plan.hosts, start=1):
            if other is not host:
                lines.append(f"neigh add {self.address[other.name]} lladdr {self._mac(i)} dev eth0")
        if options.rto_min:
            net = "fd00::/64" if options.ipv6 else "10.0.0.0/16"
            rto = f"rto_min {options.rto_min * 1000:g}ms"
            more = "metric 256" if options.ipv6 else f"scope link src {self.address[host.name]}"
            lines.append(f"route change {net} dev eth0 proto kernel {more} {rto}")
        self._batch("ip", lines)
        set_offload("eth0", options.offload)
        Path("/proc/sys/net/ipv4/tcp_no_metrics_save").write_text("1\n")
        lines = self._shape("eth0", self._rate())
        seconds = options.delay if host.delay is None else host.delay
        if seconds:
            delay = f"delay {seconds * 1e6:g}us"
            lines.append(f"qdisc add dev eth0 parent 1:1 handle 10: netem limit 100000 {delay}")
        self._batch("tc", lines)

    @staticmethod
    def _mac(index: int) -> str:
        return f"02:00:00:00:{index >> 8:02x}:{index & 255:02x}"

    def _rate(self) -> str:
        return f"{self.options.rate / 1e6:g}mbit"

    def _shape(self, device: str, rate: str) -> list[str]:
        burst = self.options.mtu + HEADERS
        return [
            f"qdisc add dev {device} root handle 1: htb default 1",
            f"class add dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate} "
            f"burst {burst} cburst {burst}",
        ]

    def _port_queue(self, port: Port) -> list[str]:
        options = self.options
        lines = self._shape(port.name, self._rate())
        leaf = f"qdisc add dev {port.name} parent 1:1 handle 10:"
        if port.queue and options.mark:
            # A step at K: min K, max K + 1.  This burst gives the quickest
            # average that tc allows, (old + new) / 2.
            packet = options.mtu + HEADERS
            lines.append(
                f"{leaf} red limit {options.buffer} min {options.mark} max {options.mark + 1} "
                f"avpkt {packet} burst {options.mark // packet + 1} "
                f"bandwidth {self._rate()} probability 1 ecn"
            )
        else:
            lines.append(f"{leaf} bfifo limit {options.buffer}")
        return lines
