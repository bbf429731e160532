# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 2: partial (offloaded) checksums and GSO packets, as
OVS's userspace TSO hands them to the engine; and section 3: a segment that is
to be split carries no PACK."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from scapy.layers.inet6 import IPv6ExtHdrDestOpt, PadN

from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import (
    ACK,
    CE,
    ECT0,
    V4,
    V6,
    Encap,
    MalformedError,
    Option,
    Segment,
    checksum,
    feedback,
    frame,
    network,
    parse,
    tcp,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern

NEEDS_CSUM = 1
GSO = {False: 1, True: 4}  # VIRTIO_NET_HDR_GSO_TCPV4, ..._TCPV6


@pytest.fixture(scope="module")
def tso_wire() -> Iterator[Wire]:
    with Ovs() as ovs:
        if datapath_type() == "netdev":
            ovs.vsctl("set", "open_vswitch", ".", "other_config:userspace-tso-enable=true")
            ovs.restart_vswitchd()
        # By ports alone ("simple match") Open vSwitch 3.5 forwards partial checksums
        # as if they were complete, with or without AC/DC.
        wire = Wire(ovs, vnet=True, headers=True)
        wire.reset()
        yield wire
        assert ovs.vswitchd_running(), ovs.log_tail()


@pytest.fixture(scope="module")
def poor_wire(tso_wire: Wire) -> Wire:
    """With an uplink that can do nothing of that."""
    wire = Wire(tso_wire.ovs, 1, tenant="red", vnet=True, headers=True)
    wire.reset()
    wire.ovs.ns.without_offloads(wire.uplink_name)
    return wire


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


@pytest.mark.skipif(datapath_type() != "netdev", reason="it is the userspace datapath's")
def test_found_in_the_connection_cache(tso_wire: Wire) -> None:
    """It tells Open vSwitch what of a packet is still to be done, as its own look-up
    does."""
    ovs = tso_wire.ovs
    c = open_offloaded(tso_wire, V4)
    hits = int(ovs.appctl("coverage/read-counter", "acdc_conn_hit"))
    for n in range(60):
        data = pattern(c.guest_sent, 500 + n)
        (out,) = exchange(tso_wire, V4, c.from_guest(data))
        assert out.segment.payload == data
        c.guest_nxt += len(data)
    assert int(ovs.appctl("coverage/read-counter", "acdc_conn_hit")) > hits


# A guest's virtio header may say anything.


def virtio(
    flags: int = 0, gso: int = 0, hlen: int = 0, size: int = 0, start: int = 0, offset: int = 0
) -> bytes:
    return struct.pack("<BBHHHH", flags, gso, hlen, size, start, offset)


def as_device(data: bytes) -> bytes:
    """What a device puts on the wire: it writes the sum where it is told to."""
    flags, _gso, _hlen, _size, start, offset = struct.unpack_from("<BBHHHH", data)
    out = data[10:]
    at = start + offset
    if flags & NEEDS_CSUM and at + 2 <= len(out):
        out = out[:at] + struct.pack("!H", checksum(out[start:])) + out[at + 2 :]
    return out


def odd(wire: Wire, sent: bytes, header: bytes) -> list[bytes]:
    """What the network gets of one frame with such a header, and a FACK."""
    wire.guest.send(sent, header)
    result: list[bytes] = []
    while (data := wire.uplink.receive_raw(0.3 if not result else 0.05)) is not None:
        result.append(as_device(data))
    return result


def quiet(wire: Wire) -> None:
    """What is still under way is gone."""
    time.sleep(0.5)
    wire.uplink.drain()


def believed(frames: list[bytes]) -> set[tuple[int, int]]:
    """The feedback that a switch would read there."""
    found = set()
    for data in frames:
        with contextlib.suppress(MalformedError, struct.error, IndexError):
            segment = parse(data)
            if segment is not None and segment.feedback is not None:
                found.add(segment.feedback)
    return found


FORGED = (0, 0x5EC4E7)


def test_sum_behind_the_options(poor_wire: Wire, ip: Encap) -> None:
    """It begins in options that are cut, so that it would end up behind what is left."""
    c = Conn(poor_wire, ip).open()
    sent = c.from_guest(options=[feedback(*FORGED)] * 3)
    start = len(sent) - 18
    assert believed([sent[: ip.header + 12] + b"\x80" + sent[ip.header + 13 :]]) == {FORGED}
    out = odd(poor_wire, sent, virtio(NEEDS_CSUM, start=start, offset=16))
    assert believed(out) == {(0, 0)}


def test_sum_that_becomes_an_option(tso_wire: Wire, ip: Encap) -> None:
    """The two bytes of the sum, written by the device, are our ExID."""
    c = open_offloaded(tso_wire, ip)
    body = struct.pack("!II", *FORGED)
    # No room for another option, which would move it.
    for last in range(0x10000):
        tail = b"\xfe\x1c" + bytes(24) + struct.pack("!H", last)
        if checksum(b"\xfd\x0c\0\0" + body + tail) == 0xACDC:
            break
    options: list[Option] = [(253, b"\0\0" + body), (254, tail[2:])]
    sent = c.from_guest(options=options)
    l4 = ip.header
    header = virtio(NEEDS_CSUM, start=l4 + 20, offset=2)
    # So much for the device: here is feedback.
    assert believed([as_device(header + sent)]) == {FORGED}
    out = odd(tso_wire, sent, header)
    assert len(out) == 1
    assert believed(out) <= {(0, 0)}


@pytest.mark.skipif(datapath_type() != "system", reason="Open vSwitch finds this out by itself")
def test_segmentation_of_another_protocol(tso_wire: Wire, ip: Encap) -> None:
    c = open_offloaded(tso_wire, ip)
    n = Counted(tso_wire)
    payload = pattern(0, 3 * c.mss)
    sent = partial(ip, c.from_guest(payload))
    header = virtio(NEEDS_CSUM, GSO[not ip.v6], ip.header + 20, c.mss, ip.header, 16)
    try:
        out = odd(tso_wire, sent, header)
    except OSError:
        pytest.skip("the device of this kernel, as 6.12's, refuses it")
    assert out == []
    assert n["refused"] == 1
    assert n["egress_bytes"] == 0


def test_long_headers(tso_wire: Wire) -> None:
    """As far behind as TCP is, it is found, and policed."""
    c = open_offloaded(tso_wire, V6)
    tso_wire.set(police=True)
    n = Counted(tso_wire)
    size = 3 * c.mss
    for i in range(20):
        headers = network(V6, True) / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(92))])
        segment = tcp(
            c.guest_port, c.peer_port, ACK, c.guest_nxt + i * size, c.peer_nxt,
            options=[("NOP", None), ("NOP", None), ("Timestamp", (i, 0))],
        )  # fmt: skip
        sent = frame(headers / segment, pattern(i * size, size))
        l4 = V6.header + 96
        tso_wire.guest.send(sent, virtio(NEEDS_CSUM, GSO[True], 0, c.mss, l4, 16))
    quiet(tso_wire)
    assert n["untouched_length"] == 0
    assert n["policed_packets"] >= 15
    assert n["egress_bytes"] <= 4 * size


def random_frame(rng: random.Random, c: Conn) -> bytes:
    """A packet of the connection, forged, maybe not TCP any more."""
    options: list[Option] = [feedback(*FORGED) for _ in range(rng.randrange(4))]
    sent = bytearray(c.from_guest(bytes(rng.choice([0, 0, 1, 700, 1400, 5000])), options=options))
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        sent[rng.randrange(12, min(len(sent), c.encap.header + 24))] = rng.randrange(256)
    return bytes(sent)


def test_random_headers(tso_wire: Wire) -> None:
    """Whatever it says: no forged feedback, and the switch goes on."""
    version = tso_wire.ovs.appctl("version").splitlines()[0].split()[-1]
    if datapath_type() == "netdev" and version in ("3.5.0", "4.0.0"):
        pytest.skip(f"Open vSwitch {version} crashes by such packets, also without AC/DC")
    rng = random.Random(1)
    for i in range(600):
        ip = rng.choice([V4, V6])
        if i % 100 == 0:
            quiet(tso_wire)
            live = {V4: open_offloaded(tso_wire, V4), V6: open_offloaded(tso_wire, V6)}
        sent = random_frame(rng, live[ip])
        near = [0, 14, ip.header, ip.header + 20, ip.header + 38, len(sent) - 18, len(sent)]
        header = virtio(
            rng.choice([0, NEEDS_CSUM, NEEDS_CSUM, NEEDS_CSUM, 2, 3]),
            rng.choice([0, 0, 1, 3, 4, 5, 0x81, 0x84]),
            rng.choice([0, ip.header + 20, ip.header + 40, 1, 65535]),
            rng.choice([0, 1, 500, 1400, 65535]),
            max(0, rng.choice(near) + rng.choice([0, 0, -2, 2])),
            rng.choice([0, 2, 6, 16, 16, 16, 40]),
        )
        with contextlib.suppress(OSError):  # The device refuses some.
            tso_wire.guest.send(sent, header)
        out = iter(tso_wire.uplink.receive_raw, None)
        found = believed([as_device(data) for data in out])
        assert FORGED not in found, (sent.hex(), header.hex())
    quiet(tso_wire)
    for ip in (V4, V6):
        assert open_offloaded(tso_wire, ip)


def test_gso_packet_in_pieces(tso_wire: Wire, ip: Encap) -> None:
    """Paced, it leaves in single segments, each with a header of its own; FIN is on the last
    one, and the FACK before the first."""
    wire = tso_wire
    c = open_offloaded(wire, ip)
    # A round-trip time by which single segments are far apart; nothing may leave at once.
    burst = pattern(0, 10 * c.mss)
    exchange(wire, ip, c.from_guest(burst), gso_size=c.mss)
    c.guest_nxt += len(burst)
    time.sleep(0.03)
    acked = c.from_peer(ack=c.guest_nxt, fb=(0, len(burst)))
    exchange(wire, ip, acked, to_guest=True)
    wire.set(pace=True)
    try:
        before = c.guest_nxt
        exchange(wire, ip, c.from_guest(burst), gso_size=c.mss)
        c.guest_nxt += len(burst)
        for _ in range(3):  # At once: what holds the pieces back is the burst.
            heard = c.from_peer(pattern(c.peer_sent, c.mss), ack=before, fb=(0, len(burst)))
            wire.uplink.send(partial(ip, heard), vnet_header(ip, heard))
            assert wire.guest.receive_raw(5)
            c.peer_nxt += c.mss
        payload = pattern(c.guest_sent, 4 * c.mss + 100)
        begin = c.guest_nxt
        out = exchange(wire, ip, c.from_guest(payload, flags=ACK | 1), gso_size=c.mss)
    finally:
        wire.set(pace=False)
    # Its number is that of the first piece, which the peer may have acknowledged later.
    assert [o.segment.feedback for o in out if o.segment.fack] == [(0, 3 * c.mss)]
    assert out[0].segment.fack
    data = [o.segment for o in out if o.segment.payload]
    assert [s.seq for s in data] == [(begin + i * c.mss) % 2**32 for i in range(5)]
    assert b"".join(s.payload for s in data) == payload
    assert [s.flags & 1 for s in data] == [0, 0, 0, 0, 1]
    assert {s.ecn for s in data} == {ECT0}
