# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 1, protocol by protocol, as their own stacks send them:
signed TCP, MPTCP, SCTP, QUIC, IPsec, GRE and other tunnels, ICMP, fragments,
jumbo frames.  The tenant enforces and polices."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, defragment, fragment
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6ND_NS,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    Jumbo,
    fragment6,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import GRE, LLC, Dot3, Ether
from scapy.layers.sctp import (
    SCTP,
    SCTPChunkCookieAck,
    SCTPChunkData,
    SCTPChunkInit,
    SCTPChunkSACK,
)
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import (
    ACK,
    CE,
    ECT0,
    FIN,
    GUEST_IP,
    PEER_IP,
    PSH,
    RST,
    SYN,
    V4,
    V6,
    Encap,
    Option,
    Segment,
    capability,
    feedback,
    link,
    network,
    tcp,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same, untouched

INNER = Ether() / IP(src="192.168.0.1", dst="192.168.0.2") / TCP(flags="S", options=[("WScale", 7)])


@pytest.fixture(autouse=True)
def policing(wire: Wire) -> None:
    wire.set(police=True)


# Signed TCP: what changes a byte of it breaks the connection.


def md5(segment: int) -> Option:
    return (19, bytes([segment]) * 16)  # RFC 2385


def ao(segment: int) -> Option:
    return (29, bytes([1, 2]) + bytes([segment]) * 12)  # RFC 5925: KeyID, RNextKeyID, MAC


@pytest.mark.parametrize("sign", [md5, ao], ids=["TCP-MD5", "TCP-AO"])
def test_a_signed_connection(wire: Wire, encap: Encap, sign: Callable[[int], Option]) -> None:
    """From SYN to FIN, with data beyond any window, marked packets and what looks
    like forgeries."""
    c = Conn(wire, encap, capable=False)
    sent: list[tuple[bool, bytes]] = [
        (True, c.guest_syn(options=[*c.syn_options(7)[:1], ("WScale", 7), sign(1)])),
        (False, c.peer_synack(options=[("MSS", 1460), ("WScale", 7), sign(2)])),
    ]
    c.established()
    for i in range(3, 9):
        options = [sign(i)]
        seq = c.guest_nxt + i * 100000
        sent += [
            (True, c.from_guest(pattern(i, 1000), seq=seq, options=options, reserved=0x0E)),
            (False, c.from_peer(pattern(i, 1000), options=options, ecn=CE, window=i)),
            (False, c.from_peer(options=options, reserved=0x08)),
        ]
    sent += [
        (True, c.from_guest(flags=FIN | ACK, options=[sign(98)])),
        (False, c.from_peer(flags=RST, options=[sign(99)])),
    ]
    n = Counted(wire)
    for from_guest, data in sent:
        assert (wire.egress_raw if from_guest else wire.ingress_raw)(data) == [data]
    assert n["untouched_signed"] == len(sent)
    assert not c.tracked


def test_signed_segments_of_a_connection_that_is_not(wire: Wire, ip: Encap) -> None:
    """They are somebody else's, and move nothing."""
    c = Conn(wire, ip).open()
    before = c.info()
    data = c.from_guest(pattern(0, 1000), options=[md5(1)])
    assert wire.egress_raw(data) == [data]
    data = c.from_peer(flags=RST | ACK, options=[ao(1)])
    assert wire.ingress_raw(data) == [data]
    after = c.info()
    for key in ("state", "in_flight", "wnd", "alpha"):
        assert before[key] == after[key], key


# MPTCP (RFC 8684): a subflow is a connection of its own.

TOKEN, NONCE = b"\x11\x22\x33\x44", b"\x55\x66\x77\x88"
KEY_A, KEY_B = b"A" * 8, b"B" * 8


def mptcp(subtype: int, flags: int, rest: bytes = b"") -> Option:
    return (30, bytes([subtype << 4 | flags >> 8, flags & 0xFF]) + rest)


CAPABLE_SYN = mptcp(0, 0x181)
CAPABLE_SYNACK = mptcp(0, 0x181, KEY_B)
CAPABLE_ACK = mptcp(0, 0x181, KEY_A + KEY_B)
JOIN_SYN = mptcp(1, 0x001, TOKEN + NONCE)
JOIN_SYNACK = mptcp(1, 0x001, b"H" * 8 + NONCE)
JOIN_ACK = mptcp(1, 0, b"H" * 20)


def dss(data_ack: int, dsn: int | None = None, subflow: int = 0, length: int = 0) -> Option:
    """Data sequence signal with 8-byte numbers, without checksum."""
    if dsn is None:
        return mptcp(2, 0x03, struct.pack("!Q", data_ack))
    return mptcp(2, 0x0F, struct.pack("!QQIH", data_ack, dsn, subflow, length))


def edited(got: Segment, sent: bytes) -> None:
    """Nothing but what AC/DC may edit: its own option, the mark and its note, the
    window.  Data, and the other options with their order, are as sent."""
    same(got, sent, "ecn", "reserved", "options", "window")


def subflow(wire: Wire, encap: Encap, join: bool, timestamps: bool = False) -> Conn:
    """Its handshake, each packet of which comes out once and edited only so."""
    c = Conn(wire, encap, timestamps=timestamps)
    extra = (
        (JOIN_SYN, JOIN_SYNACK, JOIN_ACK) if join else (CAPABLE_SYN, CAPABLE_SYNACK, CAPABLE_ACK)
    )
    # As Linux packs them: 20 bytes, or 12 without timestamps.
    base: list[Option] = [("MSS", c.mss), ("SAckOK", b"")]
    base += [("Timestamp", (1, 0))] if timestamps else [("NOP", None)] * 2
    base += [("NOP", None), ("WScale", 7)]
    sent = c.guest_syn(options=[*base, extra[0]])
    (out,) = wire.egress(sent)
    edited(out, sent)
    assert out.capability is not None
    # The peer's switch adds its capability where there is room for it.
    options = [*base, extra[1]]
    c.capable = len(bytes(TCP(options=options))) + 8 <= 60
    if c.capable:
        options.append(capability())
    sent = c.peer_synack(options=options)
    (got,) = wire.ingress(sent)
    edited(got, sent)
    c.established()
    sent = c.from_guest(options=[*c.timestamp(), extra[2]])
    segments = wire.egress(sent)
    edited(segments[-1], sent)
    return c


@pytest.mark.parametrize("timestamps", [False, True])
def test_mptcp_subflows(wire: Wire, timestamps: bool) -> None:
    """One over IPv4, one over IPv6: each with its own window, and the data
    sequence signals in order."""
    n = Counted(wire)
    first = subflow(wire, V4, join=False, timestamps=timestamps)
    second = subflow(wire, V6, join=True, timestamps=timestamps)
    assert n["flows_created"] == 2
    # Linux's SYN-ACK has 20 bytes of options besides the 16 of MP_JOIN: no room.
    assert [c.info()["capable"] for c in (first, second)] == [True, not timestamps]
    assert n["flows_fallback"] == timestamps
    dsn = 1 << 40
    for i in range(6):
        for c in (first, second):
            seq = c.guest_sent
            sent = c.from_guest(
                pattern(seq, 1000),
                flags=ACK | PSH,
                options=[*c.timestamp(), dss(i, dsn, seq + 1, 1000)],
            )
            out = wire.egress(sent)
            edited(out[-1], sent)
            c.guest_nxt += 1000
            dsn += 1000
            sent = c.peer_ack_frame(1000, options=[*c.timestamp(), dss(dsn)], fb=None, marked=0)
            (got,) = wire.ingress(sent)
            edited(got, sent)
    # Data to the guest: its ACK has DATA_ACK, timestamps and no room left or a PACK.
    for c in (first, second):
        c.peer_data(2000)
        sent = c.from_guest(options=[*c.timestamp(), dss(2000), dss(2000)])
        out = wire.egress(sent)
        edited(out[-1], sent)
        reports = [s.feedback for s in out if s.feedback]
        assert reports == ([(0, 2000)] if c.capable else [])
    a, b = first.info(), second.info()
    assert (a["local"], b["local"]) == ("10.1.0.1", "fd00:1::1")
    assert a["rx_total"] == 2000
    # A mark on one is no business of the other.
    window = b["wnd"]
    first.guest_data(1000)
    sent = first.peer_ack_frame(1000, marked=1000, options=[dss(dsn)])
    wire.ingress(sent)
    assert first.info()["wnd"] < a["wnd"]
    assert second.info()["wnd"] == window


def test_mptcp_signalling(wire: Wire, ip: Encap) -> None:
    """ADD_ADDR, REMOVE_ADDR, MP_PRIO, MP_FAIL, MP_FASTCLOSE, MP_TCPRST."""
    options = [
        mptcp(3, 0x101, bytes([10, 0, 0, 9]) + b"H" * 8),
        mptcp(4, 0x001),
        mptcp(5, 0x101),
        mptcp(6, 0, bytes(8)),
        mptcp(7, 0, KEY_B),
        mptcp(8, 0x001),
    ]
    c = subflow(wire, ip, join=False)
    for flags in (ACK, ACK | FIN, ACK | RST):
        for option in options:
            sent = c.from_guest(flags=flags, options=[option])
            edited(wire.egress(sent)[-1], sent)
            sent = c.from_peer(flags=flags, options=[option])
            (got,) = wire.ingress(sent)
            edited(got, sent)


# Other transports.


def test_sctp(wire: Wire, encap: Encap) -> None:
    """An association, with a port number that TCP uses too."""
    head = network(encap, True, ECT0) / SCTP(sport=5001, dport=5001, tag=7)
    untouched(
        wire,
        "untouched_not_tcp",
        head / SCTPChunkInit(init_tag=1, a_rwnd=65535, n_out_streams=1, n_in_streams=1),
        head / SCTPChunkCookieAck(),
        head / SCTPChunkData(tsn=1, data=pattern(0, 1000)),
        head / SCTPChunkSACK(cumul_tsn_ack=1, a_rwnd=1000),
    )


def test_quic(wire: Wire, encap: Encap) -> None:
    """Initial, handshake and short packets; HTTP/3's port, RFC 9000's full size; each
    codepoint."""
    packets = []
    for ecn in (0, 1, ECT0, CE):
        head = network(encap, True, ecn) / UDP(sport=50000, dport=443)
        packets += [
            head / Raw(bytes.fromhex("c300000001088394c8f03e515708") + pattern(0, 1186)),
            head / Raw(bytes.fromhex("e300000001088394c8f03e515708") + pattern(1, 900)),
            head / Raw(b"\x40" + pattern(2, 1400)),
            head / Raw(b"\x5f"),
        ]
    untouched(wire, "untouched_not_tcp", *packets)


def test_ipsec(wire: Wire, encap: Encap) -> None:
    """ESP and AH in transport and tunnel mode."""
    inner = bytes(tcp(7777, 80, SYN, 1))
    untouched(
        wire,
        "untouched_ipsec",
        network(encap, True, ECT0) / ESP(spi=5, seq=6, data=pattern(0, 1400)),
        network(encap, True) / AH(spi=5, seq=6, nh=6, icv=b"\7" * 12) / Raw(inner),
        network(encap, True) / AH(spi=5, seq=6, nh=4, icv=b"\7" * 12) / IP() / Raw(inner),
        network(encap, True, CE) / AH(spi=5, seq=7, nh=50, icv=b"\7" * 12) / ESP(spi=6, seq=1),
    )


def test_ipsec_behind_nat(wire: Wire, encap: Encap) -> None:
    """RFC 3948."""
    head = network(encap, True) / UDP(sport=4500, dport=4500)
    untouched(
        wire,
        "untouched_not_tcp",
        head / Raw(b"\xff"),
        head / Raw(bytes(4) + pattern(0, 200)),
        head / ESP(spi=5, seq=6, data=pattern(0, 1400)),
    )


def test_tunnels_of_guests(wire: Wire, encap: Encap) -> None:
    """Somebody else's TCP is inside."""
    outer = network(encap, True, ECT0)
    untouched(
        wire,
        "untouched_not_tcp",
        outer / GRE() / INNER[IP],
        outer / GRE(key_present=1, key=7, seqnum_present=1, sequence_number=1) / INNER[IP],
        outer / GRE(proto=0x6558) / INNER,
        outer / INNER[IP],
        outer / IPv6(src="fd00::1", dst="fd00::2") / TCP(flags="S"),
        outer / UDP(dport=4789) / VXLAN(vni=5) / INNER,
        outer / UDP(dport=51820) / Raw(b"\4\0\0\0" + pattern(0, 1000)),
    )


def test_icmp(wire: Wire) -> None:
    """Errors that quote a TCP header, and path MTU discovery."""
    c = Conn(wire, V4).open()
    quoted = IP(c.from_guest(pattern(0, 1000))[14:])
    before = c.info()
    to_guest = link(V4, False) / IP(src="10.9.0.1", dst=GUEST_IP)
    untouched(
        wire,
        "untouched_not_tcp",
        to_guest / ICMP(type=3, code=4, nexthopmtu=1400) / quoted,
        to_guest / ICMP(type=3, code=1) / quoted,
        to_guest / ICMP(type=11) / quoted,
        to_guest / ICMP(type=4) / quoted,
        to_guest / ICMP(type=5, gw="10.9.0.2") / quoted,
        to_guest / ICMP() / pattern(0, 56),
    )
    assert c.info()["mss"] == before["mss"]


def test_icmp6(wire: Wire) -> None:
    c = Conn(wire, V6).open()
    quoted = IPv6(c.from_guest(pattern(0, 1000))[14:])
    to_guest = link(V6, False) / IPv6(src="fd00:9::1", dst="fd00:1::1")
    untouched(
        wire,
        "untouched_not_tcp",
        to_guest / ICMPv6PacketTooBig(mtu=1400) / quoted,
        to_guest / ICMPv6DestUnreach(code=3) / quoted,
        to_guest / ICMPv6ND_NS(tgt="fd00:1::1"),
    )


def test_other_ip_protocols(wire: Wire, encap: Encap) -> None:
    """IGMP, DCCP, RSVP, OSPF, IPComp, VRRP, UDP-Lite and experiments, with a
    TCP header for contents."""
    field = "nh" if encap.v6 else "proto"
    segment = bytes(tcp(7777, 80, SYN, 1))
    fields: list[dict[str, Any]] = [
        {field: proto} for proto in (2, 33, 46, 89, 108, 112, 136, 253, 255)
    ]
    untouched(
        wire,
        "untouched_not_tcp",
        *(network(encap, True, **one) / Raw(segment) for one in fields),
    )


def test_other_ethertypes(wire: Wire, encap: Encap) -> None:
    """PPPoE, MPLS, 802.1X and 802.3, with TCP over IP behind."""
    inner = bytes(IP(src=GUEST_IP, dst=PEER_IP) / tcp(7777, 80, SYN, 1))
    packets: list[Packet] = []
    for ethertype, header in (
        (0x8864, b"\x11\0\0\1\0\x2a\0\x21"),
        (0x8847, b"\0\1\1\x40"),
        (0x888E, b"\2\0\0\0"),
        (0x88B6, b""),
    ):
        # Its last layer says what follows.
        packet = link(encap, True)
        packet.lastlayer().type = ethertype
        packets.append(packet / Raw(header + inner))
    packets.append(Dot3(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / LLC() / Raw(inner))
    untouched(wire, "untouched_not_tcp", *packets)


# Fragments.


def test_fragments_of_a_connection(wire: Wire) -> None:
    """A segment of a connection that is tracked, cut by the guest's stack.  They
    arrive as they were and put together again give the same segment."""
    c = Conn(wire, V4).open()
    whole = IP(c.from_guest(pattern(0, 1400))[14:])
    whole.flags = 0
    del whole.chksum
    pieces = fragment(whole, fragsize=480)
    frames = [bytes(link(V4, True) / piece) for piece in pieces]
    assert len(frames) == 3
    untouched(wire, "untouched_fragment", *frames)
    out = wire.egress_raw(*frames)
    (again,) = defragment([Ether(f)[IP] for f in out])
    assert bytes(again[TCP]) == bytes(whole[TCP])
    assert c.info()["in_flight"] == 0


def test_fragments_of_a_connection6(wire: Wire) -> None:
    c = Conn(wire, V6).open()
    base = IPv6(c.from_guest(pattern(0, 1400))[14:])
    packet = IPv6(src=base.src, dst=base.dst, nh=44) / IPv6ExtHdrFragment(id=7) / base[TCP]
    frames = [bytes(link(V6, True) / piece) for piece in fragment6(packet, 600)]
    assert len(frames) >= 3
    untouched(wire, "untouched_fragment", *frames)


def test_atomic_fragment(wire: Wire) -> None:
    """RFC 6946: a fragment header and yet the whole packet."""
    untouched(
        wire,
        "untouched_fragment",
        network(V6, True) / IPv6ExtHdrFragment(offset=0, m=0, id=7) / tcp(7777, 80, SYN, 1),
    )


def test_overlapping_fragments(wire: Wire) -> None:
    """What a scan does: a header too short to have flags, then over it."""
    packet = link(V4, True) / IP(src=GUEST_IP, dst=PEER_IP)
    segment = bytes(tcp(7777, 80, SYN, 1))
    packets = []
    for offset, data in ((0, segment[:8]), (1, segment[8:]), (0, segment)):
        piece = packet.copy()
        piece[IP].flags, piece[IP].frag, piece[IP].proto = "MF", offset, 6
        packets.append(piece / Raw(data))
    if datapath_type() == "system":
        # Conntrack would put a header together that the engine has not seen.
        n = Counted(wire)
        assert wire.egress_raw(*map(bytes, packets[:2])) == []
        assert n["refused"] == 2
        packets = packets[2:]
    untouched(wire, "untouched_fragment", *packets)


def test_forged_feedback_in_a_fragment(wire: Wire) -> None:
    """Who puts it together would believe it."""
    c = Conn(wire, V4).open()
    n = Counted(wire)
    whole = IP(c.from_guest(pattern(0, 1400), options=[feedback(0, 5)])[14:])
    whole.flags = 0
    del whole.chksum
    pieces = [bytes(link(V4, True) / piece) for piece in fragment(whole, fragsize=480)]
    assert wire.egress_raw(*pieces) == pieces[1:]
    assert n["refused"] == 1


# Jumbo.


@pytest.fixture(scope="module")
def jumbo_wire() -> Iterator[Wire]:
    with Ovs() as ovs:
        wire = Wire(ovs, mtu=9000)
        wire.reset()
        yield wire
        assert ovs.vswitchd_running(), ovs.log_tail()


def test_jumbo_frames(jumbo_wire: Wire, encap: Encap) -> None:
    """An MSS of 8960, or 8940: payload untouched, nothing beyond the MTU, a report
    in a FACK where there is no room."""
    c = Conn(jumbo_wire, encap).open()
    assert c.info()["mss"] == c.mss
    c.peer_data(3 * c.mss)
    sent = pattern(c.guest_sent, 10 * c.mss)
    out = c.guest_data(10 * c.mss)
    assert b"".join(s.payload for s in out if not s.fack) == sent
    assert [s.feedback for s in out if s.fack] == [(0, 3 * c.mss)]
    limit = 9000 + 14 + 4 * len(encap.vlans)
    assert all(len(s.raw) <= limit for s in out)
    (got,) = c.peer_ack(10 * c.mss, marked=c.mss)
    assert got.window == c.window_field(c.info()["wnd"])


def test_ipv6_jumbogram(wire: Wire) -> None:
    """RFC 2675: the payload length is in an option."""
    segment = bytes(tcp(7777, 80, SYN, 1)) + pattern(0, 1000)
    packet = network(V6, True, plen=0, nh=0)
    packet /= IPv6ExtHdrHopByHop(nh=6, options=[Jumbo(jumboplen=len(segment) + 8)])
    untouched(wire, "untouched_length", packet / Raw(segment))


def test_a_frame_longer_than_its_packet(wire: Wire, encap: Encap) -> None:
    """Padding belongs to nobody and stays behind an edited packet."""
    c = Conn(wire, encap)
    sent = c.guest_syn()
    padding = b"\xee" * 6
    (out,) = wire.egress_raw(sent + padding)
    assert out.endswith(padding)
