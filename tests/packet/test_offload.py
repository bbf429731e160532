# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 2: partial (offloaded) checksums and GSO packets, as
OVS's userspace TSO hands them to the engine; and section 3: a segment that is
to be split carries no PACK."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import ACK, CE, ECT0, Encap, Segment, checksum, parse
from acdc_testlib.wire import Conn, Wire, pattern

NEEDS_CSUM = 1
GSO = {False: 1, True: 4}  # VIRTIO_NET_HDR_GSO_TCPV4, ..._TCPV6


@pytest.fixture(scope="module")
def tso_wire() -> Iterator[Wire]:
    with Ovs() as ovs:
        if datapath_type() == "netdev":
            ovs.vsctl("set", "open_vswitch", ".", "other_config:userspace-tso-enable=true")
            ovs.restart_vswitchd()
        wire = Wire(ovs, vnet=True)
        wire.reset()
        yield wire
        assert ovs.vswitchd_running(), ovs.log_tail()


def pseudo_sum(encap: Encap, frame: bytes) -> int:
    """What a partial checksum field holds: the sum of the pseudo header."""
    l4 = encap.header
    addresses = frame[22:54] if encap.v6 else frame[26:34]
    data = addresses + struct.pack("!IxxxB", len(frame) - l4, socket.IPPROTO_TCP)
    return ~checksum(data) & 0xFFFF


def vnet_header(encap: Encap, frame: bytes, gso_size: int = 0) -> bytes:
    l4 = encap.header
    hlen = l4 + (frame[l4 + 12] >> 4) * 4
    gso = GSO[encap.v6] if gso_size else 0
    return struct.pack("<BBHHHH", NEEDS_CSUM, gso, hlen if gso else 0, gso_size, l4, 16)


def partial(encap: Encap, frame: bytes) -> bytes:
    ofs = encap.header + 16
    return frame[:ofs] + struct.pack("!H", pseudo_sum(encap, frame)) + frame[ofs + 2 :]


@dataclass
class Offloaded:
    """A frame that came out, finished as the device would."""

    segment: Segment
    gso_size: int
    partial: bool


def finish(encap: Encap, data: bytes) -> Offloaded:
    flags, _gso, _hlen, gso_size, start, offset = struct.unpack_from("<BBHHHH", data)
    frame = data[10:]
    needs = bool(flags & NEEDS_CSUM)
    if needs:
        assert (start, offset) == (encap.header, 16)
        whole = checksum(frame[start:])
        frame = frame[: start + 16] + struct.pack("!H", whole) + frame[start + 18 :]
    segment = parse(frame)
    assert segment is not None
    assert segment.ip_checksum_ok
    assert segment.tcp_checksum_ok
    return Offloaded(segment, gso_size, needs)


def exchange(
    wire: Wire, encap: Encap, frame: bytes, to_guest: bool = False, gso_size: int = 0
) -> list[Offloaded]:
    """One offloaded frame through the switch; how many come is up to it."""
    source, sink = (wire.uplink, wire.guest) if to_guest else (wire.guest, wire.uplink)
    source.send(partial(encap, frame), vnet_header(encap, frame, gso_size))
    result: list[Offloaded] = []
    while (data := sink.receive_raw(5 if not result else 0.05)) is not None:
        result.append(finish(encap, data))
    assert result
    return result


def open_offloaded(wire: Wire, ip: Encap, mss: int | None = None) -> Conn:
    c = Conn(wire, ip, mss=mss)
    (out,) = exchange(wire, ip, c.guest_syn())
    assert out.segment.capability is not None
    assert out.segment.ecn == ECT0
    (got,) = exchange(wire, ip, c.peer_synack(), to_guest=True)
    assert not got.segment.has_acdc
    assert got.segment.window == 10 * c.mss
    c.established()
    (out,) = exchange(wire, ip, c.from_guest())
    assert out.segment.feedback == (0, 0)
    return c


def test_partial_checksums(tso_wire: Wire, ip: Encap) -> None:
    """Handshake, PACK added and taken out, window rewritten, CE hidden."""
    c = open_offloaded(tso_wire, ip)
    data = pattern(0, 701)
    exchange(tso_wire, ip, c.from_peer(data, fb=(0, 0)), to_guest=True)
    c.peer_nxt += len(data)
    (out,) = exchange(tso_wire, ip, c.from_guest(data))
    assert out.segment.payload == data
    assert out.segment.feedback == (0, 701)
    c.guest_nxt += len(data)
    (got,) = exchange(tso_wire, ip, c.from_peer(data, fb=(0, 701), ecn=CE), to_guest=True)
    assert got.segment.payload == data
    assert got.segment.ecn == 0
    assert not got.segment.has_acdc
    assert got.segment.window <= c.window_field(11 * c.mss)


@pytest.mark.parametrize(("mss", "segments"), [(None, 5), (500, 2)])
def test_gso_packet_carries_no_pack(
    tso_wire: Wire, ip: Encap, mss: int | None, segments: int
) -> None:
    """It would be repeated on each segment: a FACK says it instead, also where
    all segments together are smaller than the MTU."""
    c = open_offloaded(tso_wire, ip, mss)
    for _ in range(3):
        exchange(tso_wire, ip, c.from_peer(pattern(c.peer_sent, c.mss), fb=(0, 0)), to_guest=True)
        c.peer_nxt += c.mss
    payload = pattern(0, segments * c.mss)
    out = exchange(tso_wire, ip, c.from_guest(payload), gso_size=c.mss)
    facks = [o.segment for o in out if o.segment.fack]
    data = [o for o in out if not o.segment.fack]
    assert [f.feedback for f in facks] == [(0, 3 * c.mss)]
    assert b"".join(o.segment.payload for o in data) == payload
    for o in data:
        assert o.segment.ecn == ECT0
        assert o.segment.feedback is None


def test_gso_packet_to_the_guest(tso_wire: Wire, ip: Encap) -> None:
    """All of its bytes count as marked if it is."""
    c = open_offloaded(tso_wire, ip)
    payload = pattern(0, 4 * c.mss)
    sent = c.from_peer(payload, ecn=CE, flags=ACK)
    got = exchange(tso_wire, ip, sent, to_guest=True, gso_size=c.mss)
    assert b"".join(o.segment.payload for o in got) == payload
    for o in got:
        assert o.segment.ecn == 0
        assert o.segment.reserved == 0
        assert o.segment.window == c.window_field(10 * c.mss)
    c.peer_nxt += len(payload)
    (out,) = exchange(tso_wire, ip, c.from_guest())
    assert out.segment.feedback == (len(payload), len(payload))
