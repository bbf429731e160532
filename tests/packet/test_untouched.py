# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 1 and section 4's life cycle: what passes bit for bit,
and is counted with its reason."""

from __future__ import annotations

import struct
import time

import pytest
from scapy.layers.inet import ICMP, IP, UDP, IPOption
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.layers.l2 import ARP
from scapy.layers.sctp import SCTP
from scapy.packet import Packet

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import (
    ACK,
    CE,
    ECT0,
    FIN,
    RST,
    SYN,
    V4,
    V6,
    Encap,
    Option,
    frame,
    link,
    network,
    parse,
    tcp,
)
from acdc_testlib.wire import TENANT, Conn, Counted, Wire, both_ways, pattern, untouched


def segment(encap: Encap, options: list[Option] | None = None, flags: int = SYN) -> Packet:
    return network(encap, True) / tcp(7777, 80, flags, 1, options=options or [])


def test_udp(wire: Wire, encap: Encap) -> None:
    untouched(wire, "untouched_not_tcp", network(encap, True, ECT0) / UDP(dport=53) / b"query")


def test_icmp(wire: Wire, encap: Encap) -> None:
    icmp = ICMPv6EchoRequest(data=b"x" * 56) if encap.v6 else ICMP() / (b"x" * 56)
    untouched(wire, "untouched_not_tcp", network(encap, True) / icmp)


def test_other_protocols(wire: Wire, encap: Encap) -> None:
    untouched(
        wire,
        "untouched_not_tcp",
        network(encap, True) / SCTP() / b"data",
        link(encap, True) / ARP(pdst="10.0.0.9"),
        link(encap, True) / b"nothing known",
    )


@pytest.mark.parametrize("offset", [0, 1, 100])
def test_ipv4_fragments(wire: Wire, offset: int) -> None:
    for flags in ("MF", 0) if offset else ("MF",):
        packet = link(V4, True) / IP(src="10.1.0.1", dst="10.2.0.1", frag=offset, flags=flags)
        packet = packet / tcp(7777, 80, SYN, 1) / (b"x" * 64)
        if offset == 1 and datapath_type() == "system":
            # Conntrack might put it together to a TCP header.
            n = Counted(wire)
            assert wire.egress_raw(bytes(packet)) == []
            assert n["refused"] == 1
        else:
            untouched(wire, "untouched_fragment", packet)


@pytest.mark.parametrize("offset", [0, 100])
def test_ipv6_fragments(wire: Wire, offset: int) -> None:
    fragment = IPv6ExtHdrFragment(offset=offset, m=1, id=7, nh=6)
    untouched(
        wire,
        "untouched_fragment",
        network(V6, True) / fragment / tcp(7777, 80, SYN, 1) / (b"x" * 64),
    )


def test_bad_options(wire: Wire, encap: Encap) -> None:
    ofs = encap.header + 20
    base = bytearray(frame(segment(encap, [("Timestamp", (1, 2))])))
    frames = []
    for bad in (
        b"\x08\x00" + bytes(10),  # Length 0.
        b"\x08\x01" + bytes(10),  # Length 1.
        b"\x08\x20" + bytes(10),  # Beyond the header.
        b"\x01" * 11 + b"\x08",  # No length byte.
        b"\x02\x03\x05" + b"\x01" * 9,  # MSS of 3 bytes.
        b"\x03\x04\x05\x05" + b"\x01" * 8,  # Window scale of 4 bytes.
        b"\x01\xfd\x0c\xac\xdc" + bytes(7),  # One byte too long.
    ):
        assert len(bad) == 12
        data = bytearray(base)
        data[ofs : ofs + 12] = bad
        frames.append(bytes(data))
    untouched(wire, "untouched_options", *frames)


def test_bad_lengths(wire: Wire, encap: Encap) -> None:
    base = frame(segment(encap), b"payload" * 9)
    l3 = encap.header - (40 if encap.v6 else 20)
    l4 = encap.header
    frames = []

    def changed(ofs: int, value: bytes) -> None:
        data = bytearray(base)
        data[ofs : ofs + len(value)] = value
        frames.append(bytes(data))

    changed(l4 + 12, b"\x40")  # A TCP header of 16 bytes, ...
    changed(l4 + 12, b"\x00")  # ... of none, ...
    length = 40 if not encap.v6 else 0
    # ... one longer than the packet, ...
    data = bytearray(frame(segment(encap)))
    data[l4 + 12] = 0xF0
    frames.append(bytes(data))
    # ... IP longer than the frame, IP too short for TCP.
    if encap.v6:
        changed(l3 + 4, struct.pack("!H", 500))
        changed(l3 + 4, struct.pack("!H", 19))
    else:
        changed(l3 + 2, struct.pack("!H", 500))
        changed(l3 + 2, struct.pack("!H", length - 1))
        changed(l3, b"\x44")  # An IP header of 16 bytes, ...
        changed(l3, b"\x4f")  # ... of 60: TCP is somewhere in the payload.
    counted = Counted(wire)
    both_ways(wire, *frames)
    assert counted["untouched_length"] >= 2 * (len(frames) - 1)


def test_truncated_frames(wire: Wire, encap: Encap) -> None:
    base = frame(segment(encap, [("MSS", 1460), ("WScale", 7)]))
    frames = [base[:n] for n in range(encap.header, len(base))]
    both_ways(wire, *frames)


def test_impossible_flags(wire: Wire, encap: Encap) -> None:
    """SYN with FIN or RST, nothing at all, everything at once."""
    frames = [
        frame(segment(encap, flags=f))
        for f in (0, SYN | FIN, SYN | RST, SYN | FIN | RST | ACK, 0xFF, FIN | 0x08 | 0x20)
    ]
    n = Counted(wire)
    both_ways(wire, *frames)
    assert n["untouched_flags"] >= 2 * (len(frames) - 1)
    assert n["flows_created"] == 0


def test_ipv4_options_are_understood_or_untouched(wire: Wire) -> None:
    """Record route in front of TCP: the handshake works either way, and what
    is edited stays right."""
    options = b"\x07\x0b\x04" + bytes(8) + b"\x00"
    packet = (
        link(V4, True)
        / IP(src="10.1.0.1", dst="10.2.0.1", options=[IPOption(options)])
        / tcp(wire.port(), 80, SYN, 1, options=[("MSS", 1460)])
    )
    sent = frame(packet)
    (out,) = wire.egress_raw(sent)
    got = parse(out)
    assert got is not None
    assert got.ip_checksum_ok
    assert got.tcp_checksum_ok
    assert out[34 : 34 + len(options)] == sent[34 : 34 + len(options)]


def test_ipv6_extension_headers(wire: Wire) -> None:
    """Destination options in front of TCP stay."""
    header = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    sent = frame(network(V6, True) / header / tcp(wire.port(), 80, SYN, 1))
    (out,) = wire.egress_raw(sent)
    assert out[54:62] == sent[54:62]
    assert out[62:70] == sent[62:70]


# Connections that are not tracked.


@pytest.mark.parametrize("ecn", [0, 1, ECT0, CE])
def test_midstream(wire: Wire, encap: Encap, ecn: int) -> None:
    """No SYN was seen: passes untouched and is counted."""
    c = Conn(wire, encap, timestamps=True)
    c.established()
    n = Counted(wire)
    for flags in (ACK, ACK | FIN, ACK | RST, RST):
        for payload in (b"", pattern(0, 1000)):
            out = c.from_guest(payload, flags=flags, ecn=ecn)
            assert wire.egress_raw(out) == [out]
            got = c.from_peer(payload, flags=flags, ecn=ecn)
            assert wire.ingress_raw(got) == [got]
    assert n["untouched_midstream"] == 16
    assert n["flows_created"] == 0


def test_synack_without_a_syn(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip, capable=False)
    synack = c.peer_synack()
    assert wire.ingress_raw(synack) == [synack]
    synack = c.guest_synack()
    assert wire.egress_raw(synack) == [synack]


def test_flow_lost_while_open_goes_on(wire: Wire, encap: Encap) -> None:
    """As after a flush or a restart of the daemon: data in both directions
    arrives, and no trace of AC/DC does."""
    c = Conn(wire, encap).open()
    c.guest_data(5000)
    wire.flush()
    out = c.guest_data(3000)
    assert b"".join(s.payload for s in out) == pattern(5000, 3000)
    (got,) = c.peer_ack(3000)
    assert got.window == c.WINDOW
    (got,) = c.peer_data(700)
    assert got.payload == pattern(0, 700)


@pytest.mark.parametrize("known", [False, True])
def test_disabled_tenant(wire: Wire, encap: Encap, known: bool) -> None:
    c = Conn(wire, encap)
    if known:
        c.open()
    wire.set(enabled=False)
    n = Counted(wire)
    if not known:
        c = Conn(wire, encap, capable=False)
        syn, synack = c.guest_syn(), c.peer_synack()
        assert wire.egress_raw(syn) == [syn]
        assert wire.ingress_raw(synack) == [synack]
        c.established()
        for payload in (b"", b"data"):
            out, got = c.from_guest(payload), c.from_peer(payload, ecn=CE)
            assert wire.egress_raw(out) == [out]
            assert wire.ingress_raw(got) == [got]
    else:
        (got_,) = wire.ingress(c.from_peer(fb=(0, 0)))
        assert got_.window == c.WINDOW
        (out_,) = wire.egress(c.from_guest(b"data"))
        assert out_.payload == b"data"
    assert n["untouched_disabled"] > 0


def test_unknown_tenant(wire: Wire, encap: Encap) -> None:
    """A name without a row: the port passes untouched."""
    wire.bind("nobody")
    c = Conn(wire, encap, capable=False)
    for out in (c.guest_syn(), c.from_guest(b"x"), c.from_guest(reserved=0x0E)):
        assert wire.egress_raw(out) == [out]
    for got in (c.peer_synack(), c.from_peer(b"x", ecn=CE), c.from_peer(reserved=0x0E)):
        assert wire.ingress_raw(got) == [got]


def test_deleted_tenant(wire: Wire, ip: Encap) -> None:
    wire.changed = True
    c = Conn(wire, ip).open()
    wire.ovs.vsctl("destroy", "acdc", TENANT)
    for out in (c.from_guest(b"x"), Conn(wire, ip).guest_syn()):
        assert wire.egress_raw(out) == [out]
    got = c.from_peer(b"x")
    assert wire.ingress_raw(got) == [got]


@pytest.mark.parametrize("guest_ecn", [False, True])
@pytest.mark.parametrize("capable", [False, True])
def test_observe_touches_no_packet(
    wire: Wire, encap: Encap, guest_ecn: bool, capable: bool
) -> None:
    """But it tracks the connection."""
    wire.set(mode="observe", beta=0, police=True)
    c = Conn(wire, encap, capable=False, guest_ecn=guest_ecn)
    frames = [c.guest_syn()]
    assert wire.egress_raw(*frames) == frames
    synack = c.peer_synack()
    assert wire.ingress_raw(synack) == [synack]
    c.established()
    assert c.tracked
    ecn = ECT0 if guest_ecn else 0
    for i in range(20):
        out = [
            c.from_guest(pattern(c.guest_sent, c.mss), ecn=ecn),
            c.from_guest(ecn=ecn),
        ]
        assert wire.egress_raw(*out) == out
        c.guest_nxt += c.mss
        got = [
            c.from_peer(pattern(i, 100), ecn=CE if guest_ecn else 0),
            c.from_peer(flags=ACK | (0x40 if guest_ecn else 0)),
        ]
        assert wire.ingress_raw(*got) == got
    far = c.from_guest(b"x", seq=c.guest_nxt + 2**24)
    assert wire.egress_raw(far) == [far]
    assert c.info()["mode"] == "observe"


# Life cycle and limits.


def tracked_ports(wire: Wire) -> set[int]:
    return {int(f["local_port"]) for f in wire.flows()}


def test_fins_end_the_flow(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    (out,) = wire.egress(c.from_guest(flags=ACK | FIN))
    c.guest_nxt += 1
    assert out.ecn == ECT0
    (got,) = wire.ingress(c.from_peer(flags=ACK | FIN, fb=(0, 0)))
    c.peer_nxt += 1
    assert got.flags == ACK | FIN
    (out,) = c.guest_ack()
    assert out.feedback is not None
    assert n["flows_closed"] == 1


@pytest.mark.parametrize("from_guest", [True, False])
def test_rst_ends_the_flow(wire: Wire, ip: Encap, from_guest: bool) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    if from_guest:
        assert len(wire.egress(c.from_guest(flags=RST | ACK))) == 1
    else:
        assert len(wire.ingress(c.from_peer(flags=RST | ACK, ecn=CE))) == 1
    assert n["flows_closed"] == 1


@pytest.mark.parametrize("end", ["rst", "fin", "none"])
def test_port_used_again(wire: Wire, ip: Encap, end: str) -> None:
    """A new SYN on the same ports is a new connection, with counts from 0,
    whether the end of the old one was seen or not."""
    c = Conn(wire, ip).open()
    c.peer_data(5000, ecn=CE)
    c.guest_data(1000)
    if end == "rst":
        wire.egress(c.from_guest(flags=RST | ACK))
    elif end == "fin":
        wire.egress(c.from_guest(flags=FIN | ACK))
        wire.ingress(c.from_peer(flags=FIN | ACK))
    c = Conn(wire, ip, guest_port=c.guest_port, guest_isn=123456789, peer_isn=987654321)
    (out,) = wire.egress(c.guest_syn())
    assert out.capability is not None
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == 10 * c.mss
    c.established()
    (out,) = c.guest_ack()
    assert out.feedback == (0, 0)
    c.peer_data(700)
    (out,) = c.guest_ack()
    assert out.feedback == (0, 700)


def test_same_ports_on_other_addresses_are_another_flow(wire: Wire) -> None:
    c4 = Conn(wire, V4).open()
    c6 = Conn(wire, V6, guest_port=c4.guest_port).open()
    c4.peer_data(1000)
    c6.peer_data(300)
    (out,) = c4.guest_ack()
    assert out.feedback == (0, 1000)
    (out,) = c6.guest_ack()
    assert out.feedback == (0, 300)


def test_full_table_drops_nothing(wire: Wire, ip: Encap) -> None:
    """Flows beyond the limit pass untouched and are counted; those in the
    table go on."""
    wire.flush()
    wire.set_global("acdc-max-flows", 4)
    kept = [Conn(wire, ip).open() for _ in range(4)]
    n = Counted(wire)
    for _ in range(3):
        c = Conn(wire, ip, capable=False)
        syn, synack = c.guest_syn(), c.peer_synack()
        assert wire.egress_raw(syn) == [syn]
        assert wire.ingress_raw(synack) == [synack]
        c.established()
        data = c.from_guest(b"data")
        assert wire.egress_raw(data) == [data]
    assert n["untouched_table_full"] == 3
    for c in kept:
        c.peer_data(500)
        (out,) = c.guest_ack()
        assert out.feedback == (0, 500)


def test_full_table_makes_room_where_it_can(wire: Wire, ip: Encap) -> None:
    """Closed flows go first, then half-open ones."""
    wire.flush()
    wire.set_global("acdc-max-flows", 4)
    kept = [Conn(wire, ip).open() for _ in range(2)]
    half = Conn(wire, ip)
    wire.egress(half.guest_syn())
    closed = Conn(wire, ip).open()
    wire.egress(closed.from_guest(flags=RST | ACK))
    n = Counted(wire)
    assert Conn(wire, ip).open().tracked
    assert n["flows_evicted"] == 1
    # The half-open flow is still there: its handshake would be seen below.
    assert tracked_ports(wire) >= {half.guest_port}
    assert Conn(wire, ip).open().tracked
    assert n["flows_evicted"] == 2
    assert half.guest_port not in tracked_ports(wire)
    for c in kept:
        (out,) = c.guest_ack()
        assert out.feedback is not None


def test_half_open_quota(wire: Wire, ip: Encap) -> None:
    """A SYN flood fills its quota, not the table; beyond it SYNs pass."""
    wire.flush()
    wire.set(**{"other_config:max-half-open": 5})
    n = Counted(wire)
    for i in range(12):
        syn = Conn(wire, ip).guest_syn()
        (out,) = wire.egress_raw(syn)
        assert (out == syn) == (i >= 5)
    assert n["untouched_half_open"] == 7
    assert len(wire.flows(f"tenant={TENANT}")) == 5


def test_idle_flows_are_swept(wire: Wire) -> None:
    wire.flush()
    wire.set_global("acdc-idle-timeout", 1)
    c = Conn(wire, V4).open()
    n = Counted(wire)
    time.sleep(1)
    wait_for("the sweeper", lambda: n["flows_expired"] == 1, timeout=15)
    assert not c.tracked
    sent = c.from_guest(b"late")
    assert wire.egress_raw(sent) == [sent]


def test_two_tenants_with_the_same_addresses() -> None:
    """A flow's identity has the guest port in it."""
    with Ovs() as ovs:
        first, second = Wire(ovs, 0), Wire(ovs, 1, tenant="red")
        first.reset()
        second.reset()
        second.set(initial_window=2)
        a = Conn(first, V4, guest_port=4000)
        b = Conn(second, V4, guest_port=4000)
        first.egress(a.guest_syn())
        second.egress(b.guest_syn())
        (got_a,) = first.ingress(a.peer_synack())
        (got_b,) = second.ingress(b.peer_synack())
        assert got_a.window == 10 * a.mss
        assert got_b.window == 2 * b.mss
        a.established()
        b.established()
        a.peer_data(900)
        b.peer_data(100)
        assert a.guest_ack()[0].feedback == (0, 900)
        assert b.guest_ack()[0].feedback == (0, 100)
