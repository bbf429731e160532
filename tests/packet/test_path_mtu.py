# SPDX-License-Identifier: Apache-2.0

"""The option makes packets larger: never too large for the path, where the guest's were not
(RFC 1191, RFC 8201), and what ICMP quotes is the guest's own packet."""

from __future__ import annotations

import struct

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6PacketTooBig, IPv6
from scapy.packet import Packet, Raw

from acdc_testlib.tcp import CE, ECT0, GUEST_IP, GUEST_IP6, Encap, Segment, checksum, link
from acdc_testlib.wire import Conn, Counted, Wire, pattern

ROUTER, ROUTER6 = "10.9.0.1", "fd00:9::1"
PATH = 1400


@pytest.fixture(autouse=True)
def _fresh(wire: Wire) -> None:
    """The port remembers paths."""
    wire.reset()


def error(encap: Encap, quoted: bytes, kind: Packet) -> bytes:
    """An ICMP error to the guest about the frame 'quoted'."""
    # As much as routers quote (RFC 1812, RFC 4443).
    quote = Raw(quoted[14 + 4 * len(encap.vlans) :][: 1232 if encap.v6 else 548])
    if encap.v6:
        return bytes(link(encap, False) / IPv6(src=ROUTER6, dst=GUEST_IP6) / kind / quote)
    return bytes(link(encap, False) / IP(src=ROUTER, dst=GUEST_IP) / kind / quote)


def too_big(encap: Encap, quoted: bytes, mtu: int = PATH) -> bytes:
    kind = ICMPv6PacketTooBig(mtu=mtu) if encap.v6 else ICMP(type=3, code=4, nexthopmtu=mtu)
    return error(encap, quoted, kind)


def ip_len(frame: bytes, encap: Encap) -> int:
    return len(frame) - 14 - 4 * len(encap.vlans)


def fitting(c: Conn, mtu: int = PATH) -> bytes:
    """A segment of the guest that the path just takes."""
    headers = (40 if c.encap.v6 else 20) + 20 + (12 if c.timestamps else 0)
    sent = c.from_guest(pattern(c.guest_sent, mtu - headers))
    c.guest_nxt += mtu - headers
    return sent


def learn(c: Conn) -> None:
    """The guest sends a full segment, and hears of the path's MTU."""
    (big,) = c.guest_data(c.segment_size)
    assert len(c.wire.ingress_raw(too_big(c.encap, big.raw))) == 1


@pytest.mark.parametrize("timestamps", [False, True])
def test_what_fits_the_path_is_not_made_larger(wire: Wire, encap: Encap, timestamps: bool) -> None:
    c = Conn(wire, encap, timestamps=timestamps).open()
    n = Counted(wire)
    learn(c)
    assert n["too_big"] == 1
    for size, facks in ((200, 0), (4000, 1)):
        c.peer_data(size)
        out = wire.egress(fitting(c))
        assert max(ip_len(s.raw, encap) for s in out) <= PATH
        assert [s.fack for s in out] == [True] * facks + [False]
    c.peer_data(200)
    (pack,) = wire.egress(fitting(c, PATH - 12))
    assert pack.feedback == (0, 4400)
    assert ip_len(pack.raw, encap) == PATH


def test_new_connections_know_the_path(wire: Wire, ip: Encap) -> None:
    learn(Conn(wire, ip).open())
    c = Conn(wire, ip, active=False).open()
    c.peer_data(200)
    (out,) = wire.egress(fitting(c))
    assert ip_len(out.raw, ip) == PATH
    # One that sends more itself goes another way.
    (out,) = wire.egress(fitting(c, PATH + 20))
    assert out.feedback == (0, 200)


@pytest.mark.parametrize("active", [True, False])
def test_handshakes_with_data_are_not_made_larger(wire: Wire, encap: Encap, active: bool) -> None:
    """TCP Fast Open: a SYN or SYN-ACK that the path just takes."""
    learn(Conn(wire, encap).open())
    n = Counted(wire)
    c = Conn(wire, encap, active=active)
    if not active:
        wire.ingress(c.peer_syn())
    make = c.guest_syn if active else c.guest_synack
    sent = make(payload=pattern(0, PATH - ip_len(make(), encap)))
    assert wire.egress_raw(sent) == [sent]
    assert n["offer_no_room"] == 1


def test_several_paths(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    (big,) = c.guest_data(c.mss)
    mtus = (1480, 1450, 1400, 1300)
    for mtu in mtus:
        wire.ingress_raw(too_big(ip, big.raw, mtu))
    for mtu in mtus:
        c.peer_data(200)
        (out,) = wire.egress(fitting(c, mtu))
        assert ip_len(out.raw, ip) == mtu


@pytest.mark.parametrize("what", ["not in flight", "another connection", "larger than the packet"])
def test_icmp_that_cannot_be_is_not_heeded(wire: Wire, ip: Encap, what: str) -> None:
    """RFC 5927 section 4.1."""
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(c.mss)
    ahead = 5000 if what == "not in flight" else 0
    quoted = bytearray(c.from_guest(pattern(0, c.mss), seq=c.guest_isn + 1 + ahead))
    if what == "another connection":
        quoted[ip.header] ^= 1
    mtu = 1500 if what == "larger than the packet" else PATH
    sent = too_big(ip, bytes(quoted), mtu)
    assert wire.ingress_raw(sent) == [sent]
    assert n["too_big"] == 0
    c.peer_data(200)
    (out,) = wire.egress(fitting(c))
    assert out.feedback == (0, 200)


def icmp_sum(frame: bytes, encap: Encap) -> int:
    """0 if it is right."""
    packet = frame[14 + 4 * len(encap.vlans) :]
    if not encap.v6:
        assert checksum(packet[:20]) == 0
        assert len(packet) == struct.unpack_from("!H", packet, 2)[0]
        return checksum(packet[20:])
    (length,) = struct.unpack_from("!H", packet, 4)
    assert len(packet) == 40 + length
    return checksum(packet[8:40] + struct.pack("!IxxxB", length, 58) + packet[40:])


@pytest.mark.parametrize("ecn", [0, ECT0, CE])
@pytest.mark.parametrize("whole", [True, False])
def test_what_icmp_quotes_is_the_guests_own(
    wire: Wire, encap: Encap, whole: bool, ecn: int
) -> None:
    """Length, checksums, reserved bits, options and the codepoint, as the guest sent them.
    'ecn': of the IP header that the router quotes."""
    c = Conn(wire, encap, timestamps=True).open()
    c.peer_data(200)
    sent = c.from_guest(pattern(0, 400))
    (out,) = wire.egress(sent)
    assert out.feedback == (0, 200)
    c.guest_nxt += 400
    quoted = bytearray(out.raw)
    at = encap.header - (40 if encap.v6 else 20)
    if encap.v6:
        quoted[at + 1] = quoted[at + 1] & 0xCF | ecn << 4
    else:
        quoted[at + 1] = quoted[at + 1] & 0xFC | ecn
        quoted[at + 10 : at + 12] = bytes(2)
        quoted[at + 10 : at + 12] = checksum(bytes(quoted[at : at + 20])).to_bytes(2, "big")
    kind = ICMPv6DestUnreach(code=1) if encap.v6 else ICMP(type=3, code=1)
    end = len(quoted) if whole else encap.header + 60
    (got,) = wire.ingress_raw(error(encap, bytes(quoted[:end]), kind))
    assert icmp_sum(got, encap) == 0
    quote = got[at + (48 if encap.v6 else 28) :]
    assert quote == sent[at:][: len(quote)]
    assert len(quote) == (len(sent) - at if whole else encap.header - at + 48)


@pytest.mark.parametrize("padding", [0, 40])
def test_eight_bytes_of_tcp_are_enough(wire: Wire, ip: Encap, padding: int) -> None:
    """What is behind the IP packet is no header."""
    c = Conn(wire, ip).open()
    c.peer_data(200)
    n = Counted(wire)
    sent = c.from_guest(pattern(0, 1448 - (20 if ip.v6 else 0)))
    (out,) = wire.egress(sent)
    c.guest_nxt += len(out.payload)
    frame = too_big(ip, out.raw[: ip.header + 8])
    (got,) = wire.ingress_raw(frame + out.raw[ip.header + 8 :][:padding])
    got = got[: len(frame)]
    assert n["too_big"] == 1
    assert icmp_sum(got, ip) == 0
    at = 14 + (48 if ip.v6 else 28)
    # The codepoint is the guest's again; of the length nobody can know.
    assert got[at + (0 if ip.v6 else 1)] == sent[14 + (0 if ip.v6 else 1)]


def test_a_black_hole_is_left(wire: Wire, ip: Encap) -> None:
    """Nothing says that the path does not take the segment: the guest sends it again."""
    c = Conn(wire, ip).open()
    c.peer_data(200)
    lost = fitting(c)
    (out,) = wire.egress(lost)
    assert ip_len(out.raw, ip) == PATH + 12
    c.peer_data(200, ack=c.guest_isn + 1)
    (out,) = wire.egress(lost)
    assert ip_len(out.raw, ip) == PATH
    for size, facks in ((200, 0), (4000, 1)):
        c.peer_data(size)
        out_ = wire.egress(fitting(c))
        assert max(ip_len(s.raw, ip) for s in out_) <= PATH
        assert [s.fack for s in out_] == [True] * facks + [False]
    # What every path takes has room.
    c.peer_data(100)
    (out,) = wire.egress(fitting(c, 500))
    assert out.feedback is not None


def test_what_routers_may_fragment_is_not_made_larger(wire: Wire) -> None:
    """IPv4 without DF: no router says what its path takes, and of fragments nothing can be
    read or hidden."""
    c = Conn(wire).open()

    def send(size: int) -> list[Segment]:
        sent = bytearray(c.from_guest(pattern(c.guest_sent, size)))
        c.guest_nxt += size
        sent[20] &= ~0x40
        sent[24:26] = bytes(2)
        sent[24:26] = checksum(bytes(sent[14:34])).to_bytes(2, "big")
        return wire.egress(bytes(sent))

    for size, room in ((1000, False), (500, True)):
        c.peer_data(200)
        (out,) = send(size)
        assert (out.feedback is not None) == room
        assert not out.raw[20] & 0x40
    c.peer_data(3000)
    fack, out = send(1000)
    assert (fack.fack, out.feedback) == (True, None)


@pytest.mark.parametrize("cut", range(0, 90, 7))
def test_icmp_that_is_cut_passes(wire: Wire, encap: Encap, cut: int) -> None:
    c = Conn(wire, encap, timestamps=True).open()
    c.peer_data(200)
    (out,) = wire.egress(c.from_guest(pattern(0, 500)))
    c.guest_nxt += 500
    sent = too_big(encap, out.raw[: encap.header + 60])
    frame = sent[: len(sent) - cut]
    assert len(wire.ingress_raw(frame)) == 1
