# SPDX-License-Identifier: Apache-2.0

"""Anonymous network namespaces and the test's ends of the devices in them.

A namespace lives as long as the processes in it, and each of those is killed
by the kernel when the test process dies (PR_SET_PDEATHSIG), so nothing stays
behind whatever ends the test.  Nothing outside these namespaces is touched."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from acdc_ovs.namespaces import back_again, setns

T = TypeVar("T")

_TUNSETIFF = 0x400454CA
_TUNSETOFFLOAD = 0x400454D0
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_TUN_F_CSUM, _TUN_F_TSO4, _TUN_F_TSO6 = 1, 2, 4
VNET_HDR_LEN = 10
_SOL_PACKET = 263

DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]


def gratuitous_arp(mac: bytes, address: str) -> bytes:
    """The frame (RFC 5227)."""
    ip = socket.inet_aton(address)
    arp = bytes.fromhex("0001080006040001") + mac + ip + bytes(6) + ip
    return b"\xff" * 6 + mac + b"\x08\x06" + arp.ljust(46, b"\0")


class Netns:
    """A network namespace, held by a process that sleeps in it."""

    def __init__(self, ipv6: bool = True) -> None:
        self._children: list[subprocess.Popen[Any]] = []
        self._holder = subprocess.Popen(
            [*DIE_WITH_PARENT, "unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise RuntimeError("cannot make a network namespace (are you root?)")
        self.fd = os.open(f"/proc/{self._holder.pid}/ns/net", os.O_RDONLY)
        self.run("ip", "link", "set", "dev", "lo", "up")
        if not ipv6:
            # The kernel's own router solicitations would be in the captures.
            self.sysctl("net.ipv6.conf.all.disable_ipv6", 1)
            self.sysctl("net.ipv6.conf.default.disable_ipv6", 1)

    @property
    def pid(self) -> int:
        return self._holder.pid

    def command(self, *argv: str | Path) -> list[str]:
        """'argv' as a command line that runs in here."""
        return [
            "nsenter",
            f"--net=/proc/{self.pid}/ns/net",
            "--",
            *DIE_WITH_PARENT,
            *map(str, argv),
        ]

    def run(self, *argv: str | Path, check: bool = True, timeout: float = 60) -> str:
        """Runs 'argv' in here to its end and returns what it printed."""
        done = subprocess.run(
            self.command(*argv), capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{argv}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def popen(self, *argv: str | Path, **kwargs: Any) -> subprocess.Popen[Any]:
        """Starts 'argv' in here.  It ends with close() at the latest."""
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        # Ctrl-C is for the test alone, which then stops this in order.
        child = subprocess.Popen(self.command(*argv), start_new_session=True, **kwargs)
        self._children.append(child)
        return child

    def sysctl(self, name: str, value: int | str) -> None:
        """Sets a net.* knob, which the kernel keeps per namespace."""
        assert name.startswith("net.")
        self.run("sysctl", "-q", "-w", f"{name}={value}")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread is in the namespace meanwhile."""
        with back_again():
            setns(self.fd)
            yield

    def veth_to(self, name: str, other: Netns, other_name: str, mtu: int = 1500) -> None:
        """A veth pair between here and 'other', both ends up and without offloads."""
        self.run(
            *("ip", "link", "add", "dev", name, "mtu", str(mtu), "type", "veth"),
            *("peer", "name", other_name, "mtu", str(mtu), "netns", str(other.pid)),
        )
        for ns, dev in ((self, name), (other, other_name)):
            ns.without_offloads(dev)
            ns.run("ip", "link", "set", "dev", dev, "up")
        if rate := os.environ.get("ACDC_TEST_LINK_RATE"):
            # The lab's, where a guest would else send without end in no time.
            other.run("tc", "qdisc", "add", "dev", other_name, "root", "netem", "rate", rate)

    def without_offloads(self, device: str) -> None:
        """Those that a datapath in userspace cannot carry."""
        self.run("ethtool", "-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off")

    def add_addresses(self, device: str, *addresses: str) -> None:
        for address in addresses:
            nodad = ["nodad"] if ":" in address else []
            self.run("ip", "address", "add", address, "dev", device, *nodad)

    def announce(self, device: str, address: str) -> None:
        """As of a machine that was moved."""
        with self.entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind((device, 0))
            sock.send(gratuitous_arp(sock.getsockname()[4], address))

    def close(self) -> None:
        for child in [*self._children, self._holder]:
            if child.poll() is None:
                child.kill()
            child.wait()
        os.close(self.fd)


class Tap:
    """A tap device in 'ns' whose other end the test holds, as QEMU does."""

    def __init__(self, ns: Netns, name: str, mtu: int = 1500, vnet_hdr: bool = False) -> None:
        self.name = name
        self.mtu = mtu
        self.vnet_hdr = vnet_hdr
        with ns.entered():
            self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            flags = _IFF_TAP | _IFF_NO_PI | (_IFF_VNET_HDR if vnet_hdr else 0)
            fcntl.ioctl(self.fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
            if vnet_hdr:
                fcntl.ioctl(self.fd, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4 | _TUN_F_TSO6)
        ns.run("ip", "link", "set", "dev", name, "mtu", str(mtu), "up")

    def send(self, frame: bytes, vnet_hdr: bytes = bytes(VNET_HDR_LEN)) -> None:
        data = vnet_hdr + frame if self.vnet_hdr else frame
        while True:
            try:
                os.write(self.fd, data)
                return
            except BlockingIOError:
                select.select([], [self.fd], [], 1)

    def receive_raw(self, timeout: float = 0.0) -> bytes | None:
        """The next frame (behind its vnet header, if any), or None."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return os.read(self.fd, 70000)
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                select.select([self.fd], [], [], left)

    def receive(self, timeout: float = 0.0) -> bytes | None:
        data = self.receive_raw(timeout)
        return data[VNET_HDR_LEN:] if data is not None and self.vnet_hdr else data

    def drain(self) -> None:
        while self.receive_raw() is not None:
            pass

    def close(self) -> None:
        os.close(self.fd)


class Device(Tap):
    """A device that is there already: what is sent leaves by it, what comes in by it is
    received.  Linux takes the VLAN tags out of that."""

    _PACKET_IGNORE_OUTGOING = 23
    _ETH_P_ALL = 3

    def __init__(self, ns: Netns, name: str, mtu: int = 1500) -> None:
        self.name = name
        self.mtu = mtu
        self.vnet_hdr = False
        with ns.entered():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sock.setsockopt(_SOL_PACKET, self._PACKET_IGNORE_OUTGOING, 1)
        sock.bind((name, self._ETH_P_ALL))
        sock.setblocking(False)
        self.fd = sock.detach()


def marked(mark: str) -> list[str]:
    """Number and name of the processes that inherited 'mark' in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes():
                found.append(f"{path.name} {(path / 'comm').read_text().strip()}")
    return found


def processor_seconds(pid: int) -> float:
    """What the main thread of that process has had."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def threads(pid: int) -> dict[int, str]:
    """Names of a process's threads by their numbers, without those that end meanwhile."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[int(task.name)] = (task / "comm").read_text().strip()
    return found


def wait_for(
    what: str, condition: Callable[[], T], timeout: float = 10.0, interval: float = 0.02
) -> T:
    """Calls 'condition' until it returns something true, and returns that.

    A machine that stands still for a while, as virtual ones do, uses up no
    more than a second of 'timeout': what is waited for stood still as well."""
    left = timeout
    while True:
        before = time.monotonic()
        value = condition()
        if value:
            return value
        if left <= 0:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(interval)
        left -= min(time.monotonic() - before, 1.0)
