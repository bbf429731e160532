# SPDX-License-Identifier: Apache-2.0

"""Protective load balancing: a connection whose path stays congested, or is broken, goes to
another one, by the flow label of IPv6 and by the outer source port of a tunnel."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from acdc_testlib.netns import Netns, Tap, wait_for
from acdc_testlib.ovs import Ovs, datapath_type, under_memcheck
from acdc_testlib.tcp import SYN, V4, V6, Encap, Segment
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same

GUESTS_LABEL = 0xABCDE  # As acdc_testlib.tcp.network() has it.
OWN, FAR = "192.0.2.1", "192.0.2.2"
FAR_MAC = "02:00:00:00:09:02"
UDP_PORT = {"vxlan": 4789, "geneve": 6081}
HEADER = {"vxlan": bytes.fromhex("0800000000000700"), "geneve": bytes.fromhex("0000655800000700")}


class FarTap(Tap):
    """The network, with another hypervisor at its far end: the test sends and receives what
    is inside of the tunnel."""

    def __init__(self, ns: Netns, name: str, kind: str, mac: str) -> None:
        super().__init__(ns, name)
        self.kind = kind
        self.outer = Ether(src=FAR_MAC, dst=mac) / IP(src=FAR, dst=OWN)
        self.ports: list[int] = []  # Outer source ports of the IP packets that came.

    def send(self, frame: bytes, vnet_hdr: bytes = b"") -> None:
        udp = UDP(sport=50000, dport=UDP_PORT[self.kind], chksum=0)
        super().send(bytes(self.outer / udp / Raw(HEADER[self.kind] + frame)), vnet_hdr)

    def receive(self, timeout: float = 0.0) -> bytes | None:
        deadline = time.monotonic() + timeout
        while (frame := super().receive(max(0, deadline - time.monotonic()))) is not None:
            if frame[12:14] != b"\x08\x00" or frame[23] != 17:
                continue
            source, to = struct.unpack_from("!HH", frame, 34)
            if to == UDP_PORT[self.kind]:
                assert frame[42:50] == HEADER[self.kind]
                if frame[62:64] in (b"\x08\x00", b"\x86\xdd"):
                    self.ports.append(source)
                return frame[50:]
        return None


class TunnelWire(Wire):
    """The uplink is a tunnel."""

    def __init__(self, ovs: Ovs, kind: str) -> None:
        self.kind = kind
        super().__init__(ovs, mtu=1400)

    def add_uplink(self, bridge: str, vnet: bool) -> Tap:
        ovs, ns = self.ovs, self.ovs.ns
        ovs.add_bridge("br-phy")
        ns.run("ip", "address", "add", f"{OWN}/24", "dev", "br-phy")
        ns.run("ip", "link", "set", "dev", "br-phy", "up")
        (device,) = json.loads(ns.run("ip", "-j", "link", "show", "br-phy"))
        far = FarTap(ns, "phy", self.kind, device["address"])
        ovs.vsctl("add-port", "br-phy", "phy")
        ovs.vsctl(
            *("add-port", bridge, self.uplink_name, "--", "set", "interface", self.uplink_name),
            *(f"type={self.kind}", f'options:remote_ip="{FAR}"', "options:key=7"),
        )
        if datapath_type() == "system":
            ns.run("ip", "neigh", "replace", FAR, "lladdr", FAR_MAC, "dev", "br-phy")
        else:
            ovs.appctl("tnl/neigh/set", "br-phy", FAR, FAR_MAC)
        self.far = far
        return far

    def works(self) -> bool:
        self.guest.send(self._mark())
        return self.far.receive(0.5) is not None


@pytest.fixture(scope="module", params=["vxlan", "geneve"])
def tunnel(request: pytest.FixtureRequest) -> Iterator[TunnelWire]:
    if under_memcheck():
        pytest.skip("Open vSwitch 3.1 takes some frames' source port from a hash that it never made")
    with Ovs() as ovs:
        wire = TunnelWire(ovs, request.param)
        wait_for("the tunnel", wire.works, timeout=20, interval=0.2)
        time.sleep(0.1)
        wire.uplink.drain()
        wire.reset()
        yield wire
        wire.far.close()


def label(segment: Segment) -> int:
    value: int = struct.unpack_from("!I", segment.raw, 14)[0]
    return value & 0xFFFFF


def round_trip(c: Conn, marked: bool) -> list[Segment]:
    """Of four segments, all of which the network marks or none, with nothing in flight then."""
    sent = c.guest_data(4 * 1000)
    c.peer_ack(marked=4000 if marked else 0)
    return sent


def congest(c: Conn, rounds: int = 4) -> None:
    """The first round is not whole, three more move the connection."""
    for _ in range(rounds):
        round_trip(c, marked=True)


def test_ipv6_label(wire: Wire) -> None:
    wire.set(plb=True)
    n = Counted(wire)
    c = Conn(wire, V6).open()
    congest(c, 3)
    assert {label(s) for s in round_trip(c, marked=True)} == {GUESTS_LABEL}
    sent = [*round_trip(c, marked=False), *c.guest_ack(), *round_trip(c, marked=False)]
    (moved,) = {label(s) for s in sent}
    assert moved != GUESTS_LABEL
    assert (n["repaths"], n["plb_suspended"]) == (1, 0)
    assert c.info()["path"] == 1
    assert " path=1 " in wire.ovs.appctl("acdc/dump-flows", f"tenant={wire.tenant}")
    # Back with its next packet, and nothing of the connection is broken.
    wire.set(plb=False)
    assert {label(s) for s in round_trip(c, marked=False)} == {GUESTS_LABEL}
    assert c.info()["path"] == 0
    assert n["feedback_bad"] == 0


def test_nothing_else_differs(wire: Wire, ip: Encap) -> None:
    """Not a byte of IPv4, and only the label of IPv6."""
    wire.set(plb=True)
    c = Conn(wire, ip).open()
    congest(c)
    sent = c.from_guest(pattern(c.guest_sent, 500))
    (out,) = wire.egress(sent)
    assert c.info()["path"] == 1
    same(out, sent, "ecn", "reserved", *(["fixed"] if ip.v6 else []))
    if ip.v6:
        assert label(out) != GUESTS_LABEL
        assert out.raw[18:54] == sent[18:54]
    else:
        assert out.raw[16:24] == sent[16:24]


def test_off_by_default(wire: Wire) -> None:
    n = Counted(wire)
    c = Conn(wire, V6).open()
    congest(c, 20)
    assert {label(s) for s in round_trip(c, marked=True)} == {GUESTS_LABEL}
    assert n["repaths"] == 0


def test_timeout(wire: Wire) -> None:
    """What the guest's timer sends again goes another way, and again."""
    wire.set(plb=True)
    n = Counted(wire)
    c = Conn(wire, V6).open()
    round_trip(c, marked=False)
    lost = c.from_guest(pattern(c.guest_sent, 1000))
    labels = [label(s) for s in wire.egress(lost)]
    # More than the guest's timer is estimated to take, on a busy machine, too.
    timeout = 0.05 + 5e-6 * c.info()["srtt_us"]
    for _ in range(3):
        time.sleep(timeout)
        labels += [label(s) for s in wire.egress(lost)]
    assert labels[0] == GUESTS_LABEL
    assert len(set(labels)) == 4
    assert n["repaths"] == 3
    # A timeout again, so the first was none for nothing: no more moves for a minute.
    assert n["plb_suspended"] > 0
    c.guest_nxt += 1000
    c.peer_ack()
    congest(c, 6)
    assert n["repaths"] == 3


def test_syn_again(wire: Wire) -> None:
    wire.set(plb=True)
    c = Conn(wire, V6)
    labels = [label(s) for _ in range(3) for s in wire.egress(c.guest_syn())]
    assert labels[0] == GUESTS_LABEL
    assert len(set(labels)) == 3
    (s,) = wire.egress(c.guest_syn())
    assert s.flags & SYN


@pytest.mark.parametrize("inner", [V4, V6], ids=str)
def test_tunnel_port(tunnel: TunnelWire, inner: Encap) -> None:
    """Before and behind each move all packets of the connection have one outer source port,
    and 20 moves give nearly as many."""
    tunnel.set(plb=True)
    n = Counted(tunnel)
    c = Conn(tunnel, inner).open()
    ports = []
    congest(c, 1)
    for _ in range(20):
        tunnel.far.ports.clear()
        round_trip(c, marked=True)
        c.guest_ack()
        ports.append(set(tunnel.far.ports))
        congest(c, 2)
    assert all(len(p) == 1 for p in ports)
    assert n["repaths"] == 20
    assert len(set.union(*ports)) >= 18


def test_tunnel_without(tunnel: TunnelWire) -> None:
    tunnel.set(plb=False)
    c = Conn(tunnel, V4).open()
    tunnel.far.ports.clear()
    congest(c, 20)
    assert len(tunnel.far.ports) >= 60
    assert len(set(tunnel.far.ports)) == 1
