# SPDX-License-Identifier: Apache-2.0

"""In the lab: segments that GRO has chained."""

from __future__ import annotations

import os
import struct
import time

import pytest

from acdc_testlib import netns
from acdc_testlib.ovs import Ovs
from acdc_testlib.tcp import CE, parse
from acdc_testlib.wire import Conn, Wire, pattern

IFF_NAPI = 0x0010
COUNT, SIZE = 24, 700


def gro_on(ovs: Ovs, tap: netns.Tap, *features: str) -> None:
    """Blocking writes then wait, as packets of a network device, for more to be chained."""
    wait = f"echo 500000 >/sys/class/net/{tap.name}/gro_flush_timeout"
    ovs.ns.run("unshare", "-m", "sh", "-ec", f"mount -t sysfs sysfs /sys; {wait}")
    for feature in ("gro", *features):
        ovs.ns.run("ethtool", "-K", tap.name, feature, "on")
    os.set_blocking(tap.fd, True)


def with_identification(frame: bytes, number: int) -> bytes:
    """GRO takes numbers of IPv4 that go up by one."""
    header = bytearray(frame[14:34])
    header[4:6] = number.to_bytes(2, "big")
    header[10:12] = bytes(2)
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = (total ^ 0xFFFF).to_bytes(2, "big")
    return frame[:14] + bytes(header) + frame[34:]


@pytest.fixture(autouse=True)
def taps_with_gro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "_IFF_TAP", netns._IFF_TAP | IFF_NAPI)


@pytest.mark.parametrize("pace", [False, True])
def test_of_a_guest(pace: bool) -> None:
    """A paced connection would have it in pieces, and the kernel cannot cut it."""
    with Ovs() as ovs:
        wire = Wire(ovs, headers=True, vnet=True)
        wire.reset()
        c = Conn(wire).open()
        c.guest_data(10 * c.mss)
        time.sleep(0.06)
        for _ in range(10):
            c.peer_ack(c.mss)
        wire.set(pace=pace)
        gro_on(ovs, wire.guest)
        first = c.guest_sent
        for number in range(COUNT):
            frame = c.from_guest(pattern(c.guest_sent, SIZE))
            wire.guest.send(with_identification(frame, 1000 + number))
            c.guest_nxt += SIZE
        os.set_blocking(wire.guest.fd, False)

        sent, segments = 0, 0
        while sent < COUNT * SIZE:
            data = wire.uplink.receive(2)
            assert data is not None, f"{sent} of {COUNT * SIZE} bytes"
            segment = parse(data)
            assert segment is not None
            assert segment.payload == pattern(first + sent, len(segment.payload))
            sent += len(segment.payload)
            segments += 1
        assert segments < COUNT, "GRO made no packet of several segments"


def test_to_a_guest() -> None:
    """Since Linux 6.10 a chain may keep the header of each segment, if the device is told to;
    its guest gets the segments."""
    with Ovs() as ovs:
        wire = Wire(ovs, headers=True)
        wire.reset()
        c = Conn(wire).open()
        gro_on(ovs, wire.uplink, "rx-gro-list")
        for number in range(COUNT):
            data = pattern(c.peer_sent, SIZE)
            frame = c.from_peer(data, fb=(0, 0), ecn=CE)
            wire.uplink.send(with_identification(frame, 1000 + number))
            c.peer_nxt += SIZE
        os.set_blocking(wire.uplink.fd, False)
        for number in range(COUNT):
            got = wire.guest.receive(2)
            assert got is not None, number
            segment = parse(got)
            assert segment is not None
            assert (segment.ecn, segment.feedback) == (0, None), number
            assert segment.payload == pattern(number * SIZE, SIZE)
