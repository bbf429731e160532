# SPDX-License-Identifier: Apache-2.0

"""One hypervisor's part: a port of its own on a bridge, from which frames and a TCP connection
come.  The port is one end of a veth pair; the other end is in a network namespace that only
this process knows, so nothing of it meets the host's own network.  All is gone at the end."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import secrets
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from acdc_ovs import Database, OvsError, control_socket, running_in, unixctl
from acdc_ovs.namespaces import back_again, setns, unshare

from .signals import ignore

NAME = "acdc-check-"
"""Of tenants, before the number of the process that made them."""
KEY = "acdc-check"
"""In external_ids of ports: the same number."""
INSIDE = "inside"
MTU = 1400
"""So that tunnels need not fragment."""
SIZE = 1 << 18
"""Bytes that the connection carries each way."""
COOKIE = 0xACDCC4EC
"""Of flows that mark: the upper half.  The lower half is the same number."""

_SIOCGIFMTU, _SIOCETHTOOL = 0x8921, 0x8946
_ETHTOOL_STXCSUM, _ETHTOOL_STSO, _ETHTOOL_SGSO = 0x17, 0x1F, 0x24
_PACKET_IGNORE_OUTGOING, _SOL_PACKET, _ETH_P_ALL = 23, 263, 3


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def _without_offloads(device: str) -> None:
    """In the caller's namespace.  The userspace datapath cannot carry these."""
    with socket.socket() as sock:
        for command in (_ETHTOOL_STXCSUM, _ETHTOOL_STSO, _ETHTOOL_SGSO):
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            # A device without one of them has nothing to be switched off.
            with contextlib.suppress(OSError):
                fcntl.ioctl(sock, _SIOCETHTOOL, request)


def _mtu(bridge: str) -> int:
    """Of a port that leaves the bridge's own device, and other internal ones, the MTU that they
    have: the least of its ports'."""
    with socket.socket() as sock, contextlib.suppress(OSError):
        request = struct.pack("16si20x", bridge.encode(), 0)
        return max(MTU, struct.unpack_from("i", fcntl.ioctl(sock, _SIOCGIFMTU, request), 16)[0])
    return MTU


def _gone(pid: str) -> bool:
    return pid.isdigit() and not Path("/proc", pid).exists()


def _cookie(pid: int) -> str:
    return f"cookie={COOKIE << 32 | pid:#x}"


class Side:
    """Use it as a context manager, or call close().  Methods without "_" may be called from the
    other hypervisor: they take and return what JSON has."""

    def __init__(self, rundir: Path | None, timeout: float) -> None:
        self._rundir = rundir or running_in()
        self._timeout = timeout
        self._target = control_socket(self._rundir)
        self._database: Database | None = None
        self._port = f"acdc{secrets.token_hex(3)}"
        self._tenant = f"{NAME}{os.getpid()}"
        self._namespace = -1
        self._raw: socket.socket | None = None
        self._listener: socket.socket | None = None
        self._bridge = ""
        self._marks = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        ignore()
        self.close()

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """As the other one is called."""
        return getattr(self, method)(*arguments)

    # The port.

    def about(self) -> dict[str, Any]:
        """What both sides must have in common."""
        if "acdc/show" not in unixctl(self._target, "list-commands", timeout=self._timeout):
            raise OvsError("ovs-vswitchd is one without AC/DC")
        show = self._show()
        return {"exids": sorted({row["exid"] for row in show["datapaths"] if "exid" in row})}

    def open(self, bridge: str, vlan: int) -> str:
        """Makes the port, and returns its MAC address.  Without 'bridge' it is the only one."""
        self._database = Database(self._rundir / "db.sock", timeout=self._timeout)
        self._remove_old()
        self._bridge = self._choose(bridge)
        with back_again():
            unshare()
            self._namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        inside = f"/proc/{os.getpid()}/fd/{self._namespace}"
        pair = ("type", "veth", "peer", "name", INSIDE, "mtu", str(MTU), "netns", inside)
        _run("ip", "link", "add", "dev", self._port, "mtu", str(_mtu(self._bridge)), *pair)
        _without_offloads(self._port)
        _run("ip", "link", "set", "dev", self._port, "up")
        with self._inside():
            _without_offloads(INSIDE)
            _run("ip", "link", "set", "dev", "lo", "up")
            _run("ip", "link", "set", "dev", INSIDE, "up")
            self._raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self._raw.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            self._raw.bind((INSIDE, _ETH_P_ALL))
            self._raw.setblocking(False)
            mac = str(self._raw.getsockname()[4].hex(":"))
        ids = {KEY: str(os.getpid())}
        with self._database.change() as change:
            interface = change.create("Interface", name=self._port, external_ids=ids)
            port = change.create("Port", name=self._port, interfaces=[interface])
            if vlan:
                change.set(port, tag=vlan)
            change.get("Bridge", self._bridge).addvalue("ports", port)
        self._database.await_ofport(self._port)
        return mac

    def _choose(self, bridge: str) -> str:
        assert self._database
        with self._database.change(wait=False) as change:
            names = sorted(row.name for row in change.rows("Bridge"))
        if bridge in names:
            return bridge
        if not bridge and len(names) == 1:
            return str(names[0])
        what = f"no bridge {bridge}" if bridge else "say which bridge"
        raise OvsError(f"{what}: {' '.join(names) or 'there is none'}")

    def _remove_old(self) -> None:
        """What processes left behind that were killed."""
        assert self._database
        with self._database.change(wait=False) as change:
            interfaces = [r for r in change.rows("Interface") if _gone(r.external_ids.get(KEY, ""))]
            tenants = [
                r
                for r in change.rows("ACDC")
                if r.name.startswith(NAME) and _gone(r.name.removeprefix(NAME))
            ]
            pids = {int(r.external_ids[KEY]) for r in interfaces}
            bridges = [r.name for r in change.rows("Bridge")] if pids else []
            self._delete(change, interfaces, tenants)
        for bridge, pid in itertools.product(bridges, pids):
            with contextlib.suppress(OSError):
                self._flows("del-flows", bridge, f"{_cookie(pid)}/-1")

    @staticmethod
    def _delete(change: Any, interfaces: list[Any], tenants: list[Any]) -> None:  # noqa: ANN401
        for bridge in change.rows("Bridge"):
            for port in bridge.ports:
                if any(row in interfaces for row in port.interfaces):
                    bridge.delvalue("ports", port)
        for row in tenants:
            row.delete()

    def close(self) -> None:
        """Undoes all, as far as it was done."""
        for sock in (self._raw, self._listener):
            if sock:
                sock.close()
        self._raw = self._listener = None
        if self._database:
            if self._marks:
                with contextlib.suppress(OSError):
                    self._flows("del-flows", self._bridge, f"{_cookie(os.getpid())}/-1")
            with contextlib.suppress(OSError, OvsError), self._database.change() as change:
                interfaces = [r for r in change.rows("Interface") if r.name == self._port]
                tenants = [r for r in change.rows("ACDC") if r.name == self._tenant]
                self._delete(change, interfaces, tenants)
            self._database.close()
            self._database = None
        if self._namespace >= 0:
            with contextlib.suppress(OSError):
                _run("ip", "link", "del", "dev", self._port)
            os.close(self._namespace)
            self._namespace = -1

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        with back_again():
            setns(self._namespace)
            yield

    # Frames.

    def send(self, *frames: str) -> None:
        """Frames, in hexadecimal digits."""
        assert self._raw
        for frame in frames:
            self._raw.send(bytes.fromhex(frame))

    def received(self, seconds: float, enough: int) -> list[str]:
        """What comes within that time, or until it is enough, of TCP over IPv4."""
        assert self._raw
        found: list[str] = []
        deadline = time.monotonic() + seconds
        while len(found) < enough and (left := deadline - time.monotonic()) > 0:
            select.select([self._raw], [], [], left)
            with contextlib.suppress(BlockingIOError):
                frame = self._raw.recv(MTU + 100)
                if frame[12:14] == b"\x08\x00" and frame[23:24] == b"\x06":
                    found.append(frame.hex())
        return found

    # A connection.

    def bind(self, address: str, peer: str, peer_mac: str, mark: bool) -> None:
        """The port becomes a guest's, of a tenant of its own, with that address."""
        assert self._database
        with self._inside():
            _run("ip", "address", "add", f"{address}/24", "dev", INSIDE)
            neighbour = ("ip", "neighbour", "replace", peer, "lladdr", peer_mac, "dev", INSIDE)
            _run(*neighbour, "nud", "permanent")
        with self._database.change() as change:
            change.create("ACDC", name=self._tenant)
            row = change.get("Interface", self._port)
            change.set(row, **{"other_config:acdc-tenant": self._tenant})
        if mark:
            self._mark()

    def _mark(self) -> None:
        """Has the bridge mark the port's data CE, behind AC/DC, as a congested switch does."""
        assert self._database
        number = self._database.await_ofport(self._port)
        match = f"{_cookie(os.getpid())},priority=65535,in_port={number},tcp"
        self._flows("add-flow", self._bridge, f"{match},actions=set_field:3->ip_ecn,NORMAL")
        self._marks = True

    def _flows(self, command: str, bridge: str, flow: str) -> None:
        _run("ovs-ofctl", "-OOpenFlow13", command, f"unix:{self._rundir}/{bridge}.mgmt", flow)

    def listen(self, address: str) -> int:
        """Returns the TCP port."""
        with self._inside():
            self._listener = socket.socket()
        self._listener.bind((address, 0))
        self._listener.listen()
        self._listener.settimeout(self._timeout)
        return int(self._listener.getsockname()[1])

    def accept(self) -> int:
        """Takes a connection, SIZE bytes, and sends as many.  Returns how many came."""
        assert self._listener
        sock, _ = self._listener.accept()
        with sock:
            return self._exchange(sock, sends_first=False)

    def connect(self, address: str, port: int) -> int:
        """The other end of the same."""
        with self._inside():
            sock = socket.socket()
        with sock:
            sock.settimeout(self._timeout)
            failed = "no connection"
            try:
                sock.connect((address, port))
                failed = "connected, but data stalls"
                return self._exchange(sock, sends_first=True)
            except OSError as error:
                raise OSError(f"{failed}: {error}") from None

    def _exchange(self, sock: socket.socket, sends_first: bool) -> int:
        sock.settimeout(self._timeout)
        got = 0
        if sends_first:
            sock.sendall(bytes(SIZE))
        while got < SIZE and (data := sock.recv(1 << 16)):
            got += len(data)
        if not sends_first:
            sock.sendall(bytes(SIZE))
        return got

    def counters(self) -> dict[str, int]:
        """Of the port's tenant, which each datapath has."""
        rows = self._show()["tenants"]
        (row,) = (row for row in rows if self._port in {port["name"] for port in row["ports"]})
        return dict(row["counters"])

    def _show(self) -> dict[str, Any]:
        return dict(json.loads(unixctl(self._target, "acdc/show", "--json", timeout=self._timeout)))
