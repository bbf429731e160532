# SPDX-License-Identifier: Apache-2.0

"""A capture, generated: the same for the same seed on any machine; and its
replay through a switch."""

from __future__ import annotations

import random

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import ARP, GRE, LLC, STP, Dot1Q, Dot3, Ether
from scapy.layers.sctp import SCTP
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from acdc_testlib.ovs import Ovs
from acdc_testlib.tcp import ENCAPS, Encap, Option, capability, feedback, network, tcp
from acdc_testlib.wire import Wire

# What a switch does with it: forward it as it is; edit it and push a tag.
REPLAY_ACTIONS = ("plain", "vlan")


def _tcp(rng: random.Random, encap: Encap, from_guest: bool) -> Packet:
    options: list[Option] = rng.choice(
        [
            [],
            [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)],
            [("MSS", 1460), ("NOP", None), ("WScale", 14), capability()],
            [("NOP", None), ("NOP", None), ("Timestamp", (rng.getrandbits(32), 5))],
            [feedback(rng.getrandbits(16), rng.getrandbits(17))],
            [("NOP", None), ("NOP", None), ("SAck", (1, 2, 3, 4))],
            [(19, bytes(16))],
            [(29, bytes(14))],
            [(253, b"\x12\x34\1\2")],
            [(254, rng.randbytes(38))],
        ]
    )
    segment = tcp(
        rng.choice([80, 443, rng.getrandbits(16)]),
        rng.choice([5001, rng.getrandbits(16)]),
        rng.choice([0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x52, 0xC2, rng.getrandbits(8)]),
        rng.getrandbits(32),
        rng.getrandbits(32),
        rng.choice([0, 1, 65535, rng.getrandbits(16)]),
        options,
        rng.choice([0, 0, 0, rng.getrandbits(4)]),
    )
    packet = network(encap, from_guest, ecn=rng.getrandbits(8)) / segment
    size = rng.choice([0, 0, 1, 5, 100, 536, 1400])
    if rng.random() < 0.05:
        segment.chksum = rng.getrandbits(16)
    return packet / Raw(rng.randbytes(size)) if size else packet


def _other(rng: random.Random, encap: Encap, from_guest: bool) -> Packet:
    """What is not plain TCP."""
    net = network(encap, from_guest, ecn=rng.getrandbits(8))
    data = Raw(rng.randbytes(rng.choice([8, 64, 1200])))
    eth = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    v6 = network(Encap(v6=True), from_guest)
    syn = TCP(sport=1, dport=2, flags="S", options=[("MSS", 1460)])
    return rng.choice(
        [
            net / UDP(sport=rng.getrandbits(16), dport=53) / data,
            net / (ICMPv6EchoRequest() if encap.v6 else ICMP()) / data,
            net / SCTP() / data,
            net / GRE() / IP(src="1.1.1.1", dst="2.2.2.2") / syn,
            net / ESP(spi=1, seq=2, data=rng.randbytes(48)),
            net / AH(spi=1, seq=2, nh=6, icv=rng.randbytes(12)) / syn,
            net / UDP(dport=4789) / VXLAN(vni=7) / eth / IP() / syn / data,
            eth / ARP(psrc="10.1.0.1", pdst="10.2.0.1"),
            eth / IP(frag=rng.choice([0, 5]), flags="MF") / syn / data,
            eth / IP(options=[b"\x94\x04\x00\x00"]) / syn / data,
            v6 / IPv6ExtHdrFragment(m=1, offset=rng.choice([0, 8]), nh=6) / syn / data,
            v6 / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0\0\0")]) / syn / data,
            v6 / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")]) / syn,
            v6 / IPv6ExtHdrRouting(addresses=["fd00::5"], segleft=1) / syn,
            eth / IPv6() / ICMPv6ND_NS(tgt="fd00::1"),
            Dot3(src="02:00:00:00:00:01", dst="01:80:c2:00:00:00") / LLC() / STP(),
            eth / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / IP() / syn,
            eth / Dot1Q(vlan=4095, prio=7) / IP() / syn,
            eth / data,
        ]
    )


def _connection(rng: random.Random, encap: Encap) -> list[tuple[bool, bytes]]:
    """A whole one, capability and feedback included."""
    ports = rng.getrandbits(15) + 1024, 5001
    a, b = rng.getrandbits(32), rng.getrandbits(32)
    base: list[Option] = [("MSS", 1460), ("SAckOK", b""), ("NOP", None), ("WScale", 7)]
    base = [*base, capability()] if rng.random() < 0.5 else base
    result: list[tuple[bool, Packet]] = []

    def add(guest: bool, flags: int, options: list[Option], payload: bytes = b"") -> None:
        nonlocal a, b
        p = (ports[0], ports[1]) if guest else (ports[1], ports[0])
        seq, ack = (a, b) if guest else (b, a)
        segment = tcp(*p, flags, seq, ack, 65535, options)
        packet = network(encap, guest, ecn=rng.choice([0, 2, 3])) / segment
        result.append((guest, packet / Raw(payload) if payload else packet))
        step = len(payload) + bool(flags & 3)
        a, b = (a + step, b) if guest else (a, b + step)

    add(True, 0x02, base)
    add(False, 0x12, base)
    add(True, 0x10, [])
    for _ in range(rng.randrange(10)):
        add(True, 0x18, [], rng.randbytes(rng.choice([1, 700, 1448])))
        add(False, 0x10, [feedback(0, a % 65536)])
        add(False, 0x18, [], rng.randbytes(rng.choice([1, 700])))
        add(True, 0x10, [])
    add(True, 0x11, [])
    add(False, 0x11, [])
    add(True, 0x10, [])
    return [(guest, bytes(packet)) for guest, packet in result]


def generate(n: int, seed: int = 1) -> list[tuple[bool, bytes]]:
    """At least 'n' frames, each with its direction: True from the guest."""
    rng = random.Random(seed)
    result: list[tuple[bool, bytes]] = []
    while len(result) < n:
        encap = rng.choice(ENCAPS)
        kind = rng.random()
        if kind < 0.2:
            result += _connection(rng, encap)
            continue
        from_guest = rng.random() < 0.5
        make = _tcp if kind < 0.7 else _other
        data = bytes(make(rng, encap, from_guest))
        if rng.random() < 0.1:
            changed = bytearray(data)
            changed[rng.randrange(14, len(data))] ^= 1 << rng.randrange(8)
            data = bytes(changed)
        if rng.random() < 0.03:
            data = data[: rng.randrange(14, len(data) + 1)]
        if rng.random() < 0.05:
            data += bytes(rng.randrange(1, 20))
        result.append((from_guest, data))
    return result


def replay(
    ovs: Ovs, frames: list[tuple[bool, bytes]], actions: str
) -> tuple[list[bytes], list[bytes]]:
    """What came out at the uplink and at the guest port, in order."""
    # Room for the tag that is pushed.
    wire = Wire(ovs, mtu=1600)
    if actions == "vlan":
        a, b = ovs.ofport(wire.guest_name), ovs.ofport(wire.uplink_name)
        for i, o in ((a, b), (b, a)):
            tail = f"push_vlan:0x8100,set_field:4173->vlan_vid,output:{o}"
            edit = "set_field:8->ip_dscp,dec_ttl"
            for flow in (
                # Wire's own marks.
                f"priority=60000,dl_type=0x88b5,in_port={i},actions=output:{o}",
                f"priority=40000,in_port={i},actions={tail}",
                f"priority=50000,ip,in_port={i},actions={edit},{tail}",
                f"priority=50000,ipv6,in_port={i},actions={edit},{tail}",
            ):
                ovs.ofctl("-OOpenFlow13", "add-flow", "br0", flow)
    at_uplink: list[bytes] = []
    at_guest: list[bytes] = []
    # One at a time: OVS sorts a batch by flow, and where a batch ends is chance.
    for guest, data in frames:
        if guest:
            at_uplink += wire.egress_raw(data)
        else:
            at_guest += wire.ingress_raw(data)
    return at_uplink, at_guest
