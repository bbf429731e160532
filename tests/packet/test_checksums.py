# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rules 2 and 3: checksums and payload.  All other packet
tests, too, sum every checksum of every packet in full."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from acdc_testlib.tcp import ACK, CE, ECT0, PSH, RES_FACK, SYN, Encap, Option, feedback, parse
from acdc_testlib.wire import Conn, Wire, pattern


def spoil(frame: bytes, encap: Encap, delta: int) -> bytes:
    """The TCP checksum wrong by 'delta'."""
    ofs = encap.header + 16
    value = struct.unpack_from("!H", frame, ofs)[0]
    return frame[:ofs] + struct.pack("!H", (value + delta) % 65536) + frame[ofs + 2 :]


def test_bad_checksum_stays_bad(wire: Wire, encap: Encap) -> None:
    """However the packet is edited on the way."""
    for delta in (1, 0x100, 0x7FFF):
        c = Conn(wire, encap)
        n = 0
        n += len(wire.egress(spoil(c.guest_syn(), encap, delta), bad_checksum=True))
        wire.egress(c.guest_syn())
        n += len(wire.ingress(spoil(c.peer_synack(), encap, delta), bad_checksum=True))
        wire.ingress(c.peer_synack())
        c.established()
        c.guest_ack()
        for payload in (b"", b"odd", pattern(0, 1000)):
            out = c.from_guest(payload, ecn=1)
            n += len(wire.egress(spoil(out, encap, delta), bad_checksum=True))
            c.guest_nxt += len(payload)
            got = c.from_peer(payload, fb=(0, 0), ecn=CE)
            n += len(wire.ingress(spoil(got, encap, delta), bad_checksum=True))
        assert n == 8


def test_bad_ipv4_header_checksum_stays_bad(wire: Wire) -> None:
    c = Conn(wire).open()
    frame = bytearray(c.from_guest(b"x"))
    frame[24] ^= 0x55
    (out,) = wire.egress_raw(bytes(frame))
    got = parse(out)
    assert got is not None
    assert not got.ip_checksum_ok
    assert got.tcp_checksum_ok


def test_random_packets(wire: Wire, encap: Encap) -> None:
    """Lengths odd and even, extreme fields, every kind of edit."""
    rng = random.Random(f"checksums {encap}")
    choose = rng.choice
    c = Conn(wire, encap, peer_scale=choose([0, 7, 12])).open()
    c.guest_data(10 * c.mss)
    edge: Callable[[], int] = lambda: choose([0, 1, 255, 256, 32767, 65280, 65534, 65535])  # noqa: E731
    frames_out, frames_in, payloads_out, payloads_in = [], [], [], []
    for _ in range(150):
        payload = rng.randbytes(choose([0, 1, 2, 3, 7, 100, 101, 535, 1400]))
        if choose([False, True]):
            payload = choose([b"\0", b"\xff"]) * len(payload)
        options: list[Option] = choose(
            [
                [],
                [("NOP", None), ("NOP", None), ("Timestamp", (rng.getrandbits(32), edge()))],
                [feedback(rng.getrandbits(32), rng.getrandbits(32))],
                [("NOP", None)] * 3 + [feedback(edge(), edge())],
                [(254, rng.randbytes(6))],
            ]
        )
        fields: dict[str, Any] = {
            "flags": choose([ACK, ACK | PSH, ACK | 0x40, ACK | 0x80]),
            "window": edge(),
            "options": options,
            "ecn": choose([0, 1, ECT0, CE]) | choose([0, 0xB8]),
            "reserved": rng.getrandbits(4) & ~RES_FACK,
        }
        frames_out.append(c.from_guest(payload, seq=c.guest_isn + 1, **fields))
        payloads_out.append(payload)
        fields["window"] = max(1, edge())
        frames_in.append(c.from_peer(payload or b"y", **fields))
        payloads_in.append(payload or b"y")
    out = [s for s in wire.egress(*frames_out) if not s.fack]
    assert [s.payload for s in out] == payloads_out
    got = wire.ingress(*frames_in)
    assert [s.payload for s in got] == payloads_in


def test_payload_is_never_changed_reordered_or_duplicated(wire: Wire, encap: Encap) -> None:
    """A long stream in both directions, with PACKs, FACKs and marks in between."""
    c = Conn(wire, encap, timestamps=True).open()
    rng = random.Random(5)
    to_network, to_guest = b"", b""
    while len(to_network) < 1 << 18:
        size = rng.choice([1, 100, 1000, c.segment_size, 3 * c.segment_size])
        for s in c.guest_data(size):
            to_network += s.payload
        for s in c.peer_data(rng.choice([1, 99, 2 * c.segment_size]), ecn=rng.choice([ECT0, CE])):
            to_guest += s.payload
        c.guest_ack()
        c.peer_ack(marked=rng.choice([0, 0, 1]), fack=rng.choice([False, True]))
    assert to_network == pattern(0, c.guest_sent)
    assert to_guest == pattern(0, c.peer_sent)


def test_order_stays(wire: Wire, ip: Encap) -> None:
    """Segments out of order, and twice, as the guest sent them."""
    c = Conn(wire, ip).open()
    order = [3, 0, 1, 1, 9, 2, 0, 8]
    base = c.guest_nxt
    out = wire.egress(*[c.from_guest(pattern(i * 100, 100), seq=base + i * 100) for i in order])
    assert [s.payload for s in out] == [pattern(i * 100, 100) for i in order]
    base = c.peer_nxt
    got = wire.ingress(
        *[c.from_peer(pattern(i * 100, 100), seq=base + i * 100, fb=(0, 0)) for i in order]
    )
    assert [s.payload for s in got] == [pattern(i * 100, 100) for i in order]


@pytest.mark.parametrize("pad", [1, 6, 18])
def test_ethernet_padding(wire: Wire, encap: Encap, pad: int) -> None:
    """Short frames are padded to 60 bytes; the padding is no payload."""
    c = Conn(wire, encap).open()
    (out,) = wire.egress(c.from_guest() + bytes(pad))
    assert out.payload == b""
    assert out.feedback == (0, 0)
    (got,) = wire.ingress(c.from_peer(fb=(0, 0)) + bytes(pad))
    assert got.payload == b""
    (got,) = wire.ingress(c.from_peer(b"ab", fb=(0, 0)) + bytes(pad))
    assert got.payload == b"ab"
    c.peer_nxt += 2
    (out,) = c.guest_ack()
    assert out.feedback == (0, 2)


def test_nothing_exceeds_the_mtu(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap)
    limit = wire.mtu + 14 + 4 * len(encap.vlans)
    (syn,) = wire.egress(c.guest_syn())
    assert syn.flags & SYN
    wire.ingress(c.peer_synack())
    c.established()
    for size in range(c.mss - 30, c.mss + 1):
        c.peer_data(2 * c.mss)
        start = c.guest_sent
        out = c.guest_data(size)
        assert all(len(s.raw) <= limit for s in out)
        # No switch or device sends on what is larger.
        assert b"".join(s.payload for s in out if not s.fack) == pattern(start, size)
