# SPDX-License-Identifier: Apache-2.0

"""Guests with an MTU of 1500 behind a router whose path takes 1400: what is added to
their packets must not make these too big for it."""

from __future__ import annotations

import contextlib
import re
import socket
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.traffic import Echo, connect

PATH = 1400
RPCS = 40


def ask(sock: socket.socket, size: int) -> float:
    """Sends and gets back so many bytes; seconds."""
    began = time.monotonic()
    sock.sendall(bytes(size))
    left = size
    while left:
        left -= len(sock.recv(left))
    return time.monotonic() - began


@dataclass
class Path:
    ovs: Ovs
    a: Netns
    b: Netns
    router: Netns

    A: ClassVar = {4: "10.1.0.1", 6: "fd01::1"}
    B: ClassVar = {4: "10.2.0.1", 6: "fd02::1"}

    def too_big(self) -> int:
        """Packets that the router did not send on as they were."""
        lines = self.router.run("cat", "/proc/net/snmp", "/proc/net/snmp6").splitlines()
        ip = dict(zip(*(line.split() for line in lines if line.startswith("Ip:")), strict=True))
        six = dict(line.split() for line in lines if re.match(r"Ip6\w+\s+\d+$", line))
        return int(ip["FragFails"]) + int(ip["FragOKs"]) + int(six["Ip6InTooBigErrors"])

    def forget(self) -> None:
        for guest in (self.a, self.b):
            guest.run("ip", "route", "flush", "cache")
            guest.run("ip", "-6", "route", "flush", "cache")

    @contextlib.contextmanager
    def set(self, key: str, value: int) -> Iterator[None]:
        """Of both guests, for a while."""
        before = self.a.run("sysctl", "-n", key).strip()
        for guest in (self.a, self.b):
            guest.sysctl(key, value)
        try:
            yield
        finally:
            for guest in (self.a, self.b):
                guest.sysctl(key, before)

    def rpcs(self, version: int, sizes: tuple[int, ...], bound: bool) -> tuple[float, int]:
        """The median time, ms, and how many packets were too big."""
        for port in ("vnet0", "vnet1"):
            self.ovs.bind("blue" if bound else None, port)
        self.forget()
        before = self.too_big()
        with connect(self.a, self.B[version], 7) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times = [ask(sock, size) for _ in range(RPCS) for size in sizes]
        return statistics.median(times) * 1e3, self.too_big() - before


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    with Ovs() as ovs:
        for i in (0, 1):
            ovs.add_bridge(f"br{i}")
        a = ovs.add_guest("br0", "vnet0", f"{Path.A[4]}/24", f"{Path.A[6]}/64")
        b = ovs.add_guest("br1", "vnet1", f"{Path.B[4]}/24", f"{Path.B[6]}/64")
        router = ovs.add_guest("br0", "uplink0", "10.1.0.254/24", "fd01::fe/64")
        ovs.ns.veth_to("uplink1", router, "eth1")
        router.add_addresses("eth1", "10.2.0.254/24", "fd02::fe/64")
        ovs.add_port("br1", "uplink1")
        router.sysctl("net.ipv4.ip_forward", 1)
        router.sysctl("net.ipv6.conf.all.forwarding", 1)
        for i in (0, 1):
            lock = ("mtu", "lock", str(PATH))
            router.run("ip", "route", "replace", f"10.{i + 1}.0.0/24", "dev", f"eth{i}", *lock)
            router.sysctl(f"net.ipv6.conf.eth{i}.mtu", PATH)
        for guest, i in ((a, 1), (b, 2)):
            guest.run("ip", "route", "add", "default", "via", f"10.{i}.0.254")
            guest.run("ip", "-6", "route", "add", "default", "via", f"fd0{i}::fe")
        ovs.set_tenant("blue")
        yield Path(ovs, a, b, router)
        assert ovs.vswitchd_running(), ovs.log_tail()


def segment(version: int) -> int:
    """Payload with timestamps of a packet that the path just takes."""
    return PATH - (32 + (20 if version == 4 else 40))


def compare(path: Path, version: int, sizes: tuple[int, ...]) -> int:
    """Plain and with AC/DC, in turns.  Returns how many packets were too big plain."""
    server = Echo(path.b, path.B[version])
    plain, acdc = [], []
    # Where time is virtual once is exact.
    exact = datapath_type() == "system"
    for _ in range(1 if exact else 2):
        plain.append(path.rpcs(version, sizes, False))
        acdc.append(path.rpcs(version, sizes, True))
    server.close()
    print(sizes, plain, acdc)
    most = max(n for _, n in plain)
    assert max(n for _, n in acdc) <= most + most // 4 + 4
    limit = 1.3 * min(ms for ms, _ in plain) + (0.1 if exact else 100)
    assert min(ms for ms, _ in acdc) <= limit
    return most


def rpc_sizes(version: int, full: bool) -> tuple[int, ...]:
    """'full': most RPCs are one packet that the path just takes."""
    return (20_000, *[segment(version)] * 4) if full else (20_000,)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("version", [4, 6])
def test_rpcs_over_a_smaller_path(path: Path, version: int, full: bool) -> None:
    assert compare(path, version, rpc_sizes(version, full)) > 0, "the path is smaller"


@pytest.mark.parametrize("full", [False, True])
def test_guests_that_let_routers_fragment(path: Path, full: bool) -> None:
    """Without DF: of what fits the path, nothing is fragmented."""
    with path.set("net.ipv4.ip_no_pmtu_disc", 1):
        many = compare(path, 4, (segment(4),) if full else (20_000,))
    assert (many > RPCS) != full


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("version", [4, 6])
def test_a_path_that_says_nothing(path: Path, version: int, full: bool) -> None:
    """A black hole, which guests leave by smaller segments (RFC 4821)."""
    with path.set("net.ipv4.tcp_mtu_probing", 1), path.set("net.ipv4.tcp_retries1", 1):
        icmp = "icmp,icmp_type=3" if version == 4 else "icmp6,icmp_type=2"
        for bridge in ("br0", "br1"):
            path.ovs.ofctl("add-flow", bridge, f"{icmp},actions=drop")
        try:
            compare(path, version, rpc_sizes(version, full))
        finally:
            for bridge in ("br0", "br1"):
                path.ovs.ofctl("del-flows", bridge, icmp)
