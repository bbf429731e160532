# SPDX-License-Identifier: Apache-2.0

"""What a guest of a DPDK port sends: Open vSwitch 3.1 gives a driver a batch as it is, if its
first packet is an mbuf.  So must be what the datapath makes of such packets."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_good_checksums import DpdkWire
from test_offload import partial
from test_pace import BURST, learn

from acdc_testlib.netns import Tap, wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.programs import read_env
from acdc_testlib.sources import build_with_dpdk
from acdc_testlib.tcp import V4, parse
from acdc_testlib.wire import pattern

pytestmark = [
    pytest.mark.skipif(datapath_type() != "netdev", reason="it is the userspace datapath's"),
    pytest.mark.skipif(read_env()["OVS_DPDK"] == "no", reason="Open vSwitch without DPDK"),
]
SOURCE = Path(__file__).with_name("dpdk_guest.c")


class DpdkGuest(Tap):
    """See dpdk_guest.c."""

    def __init__(self, name: str, folder: Path, mtu: int) -> None:
        self.name, self.mtu, self.vnet_hdr = name, mtu, False
        self.address = str(folder / "guest")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(folder / "test"))
        self.sock.setblocking(False)
        self.fd = self.sock.fileno()

    def datagram(self, data: bytes) -> None:
        """Waits while the guest's queue is full."""
        while True:
            try:
                self.sock.sendto(data, self.address)
                return
            except BlockingIOError:
                time.sleep(0.001)

    def close(self) -> None:
        self.sock.close()

    def send(self, frame: bytes, vnet_hdr: bytes = b"", segment: int = 0) -> None:
        self.datagram(struct.pack("!H", segment) + frame)

    def let_thread_sleep(self, ms: int) -> None:
        self.datagram(struct.pack("!H", ms))


class DpdkGuestWire(DpdkWire):
    guest: DpdkGuest

    def __init__(self, ovs: Ovs, folder: Path) -> None:
        self.folder = folder
        options = ("-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-shared", "-fPIC")
        build_with_dpdk(SOURCE, folder / "guest.so", *options)
        super().__init__(ovs, headers=True)

    def add_guest(self, bridge: str, vnet: bool) -> Tap:
        guest = DpdkGuest(self.guest_name, self.folder, self.mtu)
        # By its name alone: DPDK takes none from below a directory that all may write to.
        self.begin_dpdk("-d guest.so")
        self.ovs.vsctl(
            *("add-port", bridge, self.guest_name, "--", "set", "interface", self.guest_name),
            *("type=dpdk", "options:dpdk-devargs=net_null0", "mtu_request=9000"),
        )
        return guest


@pytest.fixture
def guest_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DpdkGuestWire]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with Ovs() as ovs:
        ovs.vsctl("set", "open_vswitch", ".", "other_config:userspace-tso-enable=true",
                  "other_config:per-port-memory=true")  # fmt: skip
        ovs.restart_vswitchd()
        if " 3.1." not in ovs.vsctl("--version"):
            pytest.skip("it copies what is no mbuf")
        wire = DpdkGuestWire(ovs, tmp_path)
        assert wire.guest.receive(20) == b"ready"
        time.sleep(0.3)
        wire.uplink.drain()
        wire.reset()
        yield wire
        assert ovs.vswitchd_running(), ovs.log_tail()


def to_driver(wire: DpdkGuestWire) -> Iterator[tuple[bool, bytes]]:
    """The frames that the uplink's driver got to send, and whether they are mbufs."""
    data = (wire.folder / "sent").read_bytes()
    while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack_from("H", data, 2)[0]):
        yield bool(data[0]), data[4 : 4 + size]
        data = data[4 + size :]


def payload(wire: DpdkGuestWire, first: int) -> bytes:
    """What there is from that sequence number on."""
    frames = (frame for _, frame in to_driver(wire) if frame[12:14] == b"\x08\x00")
    found = {s.seq: s.payload for s in map(parse, frames) if s is not None and s.seq >= first}
    return b"".join(found[seq] for seq in sorted(found))


def test_pieces_are_mbufs(guest_wire: DpdkGuestWire) -> None:
    """Beside packets that are held whole, in one batch, as the thread is late."""
    wire = guest_wire
    c = learn(wire)
    first = c.guest_nxt
    paced = wire.counters()["paced"]
    sent = b""
    for number in range(BURST + 16):
        # After those that leave at once.
        size = 100 if number < BURST or number % 2 else 2 * c.mss
        data = pattern(c.guest_sent, size)
        frame = c.from_guest(data)
        if size > c.mss:
            wire.guest.send(partial(V4, frame), segment=c.mss)
        else:
            wire.guest.send(frame)
        c.guest_nxt += size
        sent += data
    for _ in range(40):
        wire.guest.let_thread_sleep(6)
    wait_for("the last byte", lambda: len(payload(wire, first)) >= len(sent))
    assert payload(wire, first) == sent
    assert wire.counters()["paced"] - paced > 3
    assert all(is_mbuf for is_mbuf, _ in to_driver(wire))
