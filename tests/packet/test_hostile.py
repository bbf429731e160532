# SPDX-License-Identifier: Apache-2.0

"""What a hostile guest, its accomplice at the other end or somebody in between may
try (docs/threat-model.rst).  Each attack is counted, leaves no more flows than the
limit, and the connections of the tenant "blue" on another port, old and new ones, go
on as if nothing were.  tests/unit/test-hostile.c has the same by the million."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from acdc_testlib.ovs import Ovs
from acdc_testlib.tcp import (
    ACK,
    CE,
    FIN,
    PEER_IP,
    RES_FACK,
    RST,
    SYN,
    V4,
    Encap,
    Option,
    capability,
    feedback,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern

LIMIT = 60
ROUNDS = 3


def half(c: Conn) -> list[object]:
    """Round trips of a connection of blue's: all that either end gets to see."""
    seen: list[object] = []
    for i in range(ROUNDS):
        seen += [(s.payload, s.ecn, s.feedback) for s in c.guest_data(4 * c.mss)]
        seen += [(s.window, s.flags) for s in c.peer_ack(marked=c.mss * (i == 1))]
        seen += [(s.payload, s.ecn, s.window) for s in c.peer_data(700, ecn=CE)]
        seen += [(s.payload, s.ecn, s.feedback) for s in c.guest_ack()]
    return seen


@dataclass
class Arena:
    red: Wire
    blue: Wire
    alone: list[object]  # What a connection of blue's sees without red.


@pytest.fixture(scope="module")
def module_arena() -> Iterator[Arena]:
    with Ovs() as ovs:
        blue, red = Wire(ovs, 0), Wire(ovs, 1, tenant="red")
        blue.reset()
        red.reset()
        c = Conn(blue).open()
        yield Arena(red, blue, [half(c), half(c)])


@pytest.fixture
def arena(module_arena: Arena) -> Iterator[Arena]:
    """Around each attack: blue's connections before and after it."""
    arena = module_arena
    arena.red.set_global("acdc-max-flows", LIMIT)
    arena.red.set(**{"other_config:max-half-open": LIMIT // 2}, police=True)
    arena.red.flush()
    before = Counted(arena.blue)
    old = Conn(arena.blue).open()
    assert half(old) == arena.alone[0]
    yield arena
    assert half(old) == arena.alone[1]
    new = Conn(arena.blue).open()
    assert [half(new), half(new)] == arena.alone
    assert len(arena.red.flows()) <= LIMIT
    seen = before.all()
    for name in ("policed_packets", "feedback_bad", "untouched_table_full", "cuts_loss"):
        assert name not in seen, name
    assert arena.red.ovs.vswitchd_running(), arena.red.ovs.log_tail()
    arena.red.reset()


# Guests that send.


def test_forged_feedback(arena: Arena, encap: Encap) -> None:
    c = Conn(arena.red, encap).open()
    n = Counted(arena.red)
    forgeries: list[Option] = [feedback(0, 1 << 31), capability(), feedback(5000, 5000)]
    for option in forgeries:
        for reserved in (0, RES_FACK, 0x0E):
            (out,) = c.guest_ack(options=[option], reserved=reserved)
            assert out.feedback == (0, 0)
            assert out.capability is None
            assert not out.fack
    assert n["forged"] == 9


def test_window_ignored(arena: Arena, encap: Encap) -> None:
    c = Conn(arena.red, encap).open()
    n = Counted(arena.red)
    frames = [
        c.from_guest(pattern(i * c.mss, c.mss), seq=c.guest_nxt + i * c.mss) for i in range(30)
    ]
    out = arena.red.egress(*frames)
    assert 10 <= len(out) <= 12
    assert n["policed_packets"] == 30 - len(out)


def test_window_thrown_off_by_a_syn(arena: Arena, ip: Encap) -> None:
    """A SYN on a live connection, which the peer only challenges: the window
    stays."""
    c = Conn(arena.red, ip).open()
    n = Counted(arena.red)
    arena.red.egress(c.guest_syn(seq=c.guest_nxt + 1000000))
    data = [c.from_guest(pattern(0, c.mss), seq=c.guest_nxt + i * c.mss) for i in range(30)]
    out = arena.red.egress_raw(*data)
    assert 10 <= len(out) <= 12
    assert n["policed_packets"] == 30 - len(out)


def corrupt(c: Conn, data: bytes) -> bytes:
    """With a wrong checksum: no peer takes it."""
    urgent = c.encap.header + 19
    return data[:urgent] + bytes([data[urgent] ^ 1]) + data[urgent + 1 :]


def is_controlled(c: Conn) -> None:
    """The window that the guest is told, and what passes beyond it."""
    (got,) = c.wire.ingress(c.from_peer())
    assert got.window <= c.window_field(11 * c.mss)
    n = Counted(c.wire)
    data = [c.from_guest(pattern(0, c.mss), seq=c.guest_nxt + i * c.mss) for i in range(30)]
    assert len(c.wire.egress_raw(*data)) <= 12
    assert n["policed_packets"] >= 18
    assert n["untouched_midstream"] == 0


@pytest.mark.parametrize("ahead", [200000, 1 << 31])
def test_stray_synack(arena: Arena, ip: Encap, ahead: int) -> None:
    """The peer only challenges it (RFC 5961)."""
    c = Conn(arena.red, ip).open()
    stray = c.from_guest(flags=SYN | ACK, seq=c.guest_nxt + ahead)
    assert arena.red.egress_raw(stray) == [stray]
    is_controlled(c)


def test_silence_after_a_false_end(arena: Arena, ip: Encap) -> None:
    """A RST or FIN that the peer does not get, and then longer silence than an ended
    connection is remembered for."""
    ends = {}
    for flags in (RST, RST | ACK, FIN | ACK):
        c = Conn(arena.red, ip).open()
        end = c.from_guest(flags=flags)
        arena.red.egress(corrupt(c, end), bad_checksum=True)
        ends[flags] = c
    # Lost on its way, the peer having closed its half.
    c = Conn(arena.red, ip).open()
    arena.red.ingress(c.from_peer(flags=FIN | ACK))
    c.peer_nxt += 1
    arena.red.egress(c.from_guest(flags=FIN | ACK))
    arena.red.egress(c.from_guest(seq=c.guest_nxt + 1))
    ends[0] = c
    time.sleep(12)
    for c in ends.values():
        is_controlled(c)


@pytest.mark.parametrize("size", [1, 3])
def test_half_closed_and_a_lost_fin(arena: Arena, ip: Encap, size: int) -> None:
    """The peer acknowledges the data in its place, and not the FIN."""
    c = Conn(arena.red, ip).open()
    arena.red.ingress(c.from_peer(flags=FIN | ACK))
    c.peer_nxt += 1
    fin = c.from_guest(flags=FIN | ACK)
    arena.red.egress(corrupt(c, fin), bad_checksum=True)
    c.guest_data(size)
    c.peer_ack()
    arena.red.egress(c.guest_syn(seq=c.guest_nxt + 1000000))
    is_controlled(c)


def test_syn_hidden_behind_another(arena: Arena, ip: Encap) -> None:
    """The peer answers the one that the switch thinks no more of."""
    c = Conn(arena.red, ip)
    arena.red.egress(c.guest_syn())
    arena.red.egress(corrupt(c, c.guest_syn(seq=c.guest_isn + 99999)), bad_checksum=True)
    n = Counted(arena.red)
    assert arena.red.ingress_raw(c.peer_synack()) == []
    assert n["synack_refused"] == 1


@pytest.mark.parametrize("active", [True, False])
def test_scale_hidden_behind_another_syn(arena: Arena, ip: Encap, active: bool) -> None:
    """Windows told as if there were no scale would be read as 128 times as much."""
    c = Conn(arena.red, ip, active=active)
    if not active:
        arena.red.ingress(c.peer_syn())
    syn = c.guest_syn if active else c.guest_synack
    arena.red.egress(syn())
    arena.red.egress(corrupt(c, syn(options=[])), bad_checksum=True)
    if active:
        arena.red.ingress(c.peer_synack())
    c.established()
    is_controlled(c)


def test_refusal_that_is_none(arena: Arena, ip: Encap) -> None:
    """A RST that the peer does not get, then the answer."""
    c = Conn(arena.red, ip, active=False)
    arena.red.ingress(c.peer_syn())
    refusal = c.from_guest(flags=RST | ACK, seq=0, ack=c.peer_isn + 1)
    arena.red.egress(corrupt(c, refusal), bad_checksum=True)
    arena.red.egress(c.guest_synack())
    c.established()
    is_controlled(c)


def test_first_flight_of_a_server(arena: Arena, ip: Encap) -> None:
    """Before the peer's first ACK, as with TCP Fast Open, no more than the law's
    window."""
    c = Conn(arena.red, ip, active=False)
    (got,) = arena.red.ingress(c.peer_syn())
    assert got.window == 10 * c.mss
    arena.red.egress(c.guest_synack())
    c.established()
    data = [c.from_guest(pattern(0, c.mss), seq=c.guest_nxt + i * c.mss) for i in range(30)]
    assert 10 <= len(arena.red.egress_raw(*data)) <= 12


def test_new_connection_after_a_reboot(arena: Arena, ip: Encap) -> None:
    """The guest has lost the old one, which its peer resets, and both go on with
    another: followed like any."""
    old = Conn(arena.red, ip).open()
    c = Conn(arena.red, ip, guest_port=old.guest_port, guest_isn=1 << 31, peer_isn=1 << 30)
    (out,) = arena.red.egress(c.guest_syn())
    assert out.capability is not None
    arena.red.ingress(old.from_peer())
    arena.red.egress(old.from_guest(flags=RST))
    assert len(c.open().guest_data(3000)) == 3
    c.peer_ack(marked=1000)
    assert c.info()["fb_total"] == 3000
    is_controlled(c)


@pytest.mark.parametrize("active", [True, False])
def test_no_room_for_the_capability(arena: Arena, ip: Encap, active: bool) -> None:
    """The guest gains nothing: no fallback is CUBIC's."""
    c = Conn(arena.red, ip, active=active)
    if not active:
        arena.red.ingress(c.peer_syn())
    syn = c.guest_syn if active else c.guest_synack
    n = Counted(arena.red)
    full = [*c.syn_options(7), (254, bytes(18)), ("NOP", None), ("NOP", None)]
    (out,) = arena.red.egress(syn(options=full))
    assert out.capability is None
    assert n["offer_no_room"] == 1
    if active:
        c.capable = False
        arena.red.ingress(c.peer_synack())
    c.established()
    assert c.info()["alg"] == "cubic"
    is_controlled(c)


def test_copies_of_a_syn(arena: Arena, ip: Encap) -> None:
    """However many that the peer does not get: the one that it gets offers."""
    c = Conn(arena.red, ip)
    for _ in range(4):
        arena.red.egress(corrupt(c, c.guest_syn()), bad_checksum=True)
    assert c.open().info()["capable"]
    is_controlled(c)


def test_foreign_syns(arena: Arena) -> None:
    """Copies of what is for others, as from a mirror or a switch that floods: half of
    the quota stays for the guest's own connections."""
    Conn(arena.red, V4, active=False).open()
    syn = Ether(Conn(arena.red, V4).peer_syn())
    del syn[IP].chksum, syn[TCP].chksum
    n = Counted(arena.red)
    for i in range(20):
        frames = []
        for j in range(20):
            syn[IP].dst = f"10.9.{i}.{j}"
            frames.append(bytes(syn))
        arena.red.ingress_raw(*frames)
        assert Conn(arena.red, V4).open().tracked
        assert Conn(arena.red, V4, active=False).open().tracked
    assert n["untouched_half_open"] == 0
    assert n["untouched_foreign"] >= 400 - LIMIT // 4


def test_syns_from_many_addresses(arena: Arena) -> None:
    """Half-open connections have a quota; beyond it SYNs pass untouched."""
    n = Counted(arena.red)
    syn = Ether(Conn(arena.red).guest_syn())
    del syn[IP].chksum, syn[TCP].chksum
    frames = []
    for i in range(1000):
        syn[IP].src = f"10.{i // 250}.{i % 250}.77"
        frames.append(bytes(syn))
    for i in range(0, len(frames), 50):
        assert len(arena.red.egress_raw(*frames[i : i + 50])) == 50
    # Others take the place of some if this takes seconds.
    assert LIMIT // 2 <= n["flows_created"] < 1000
    assert n["flows_created"] - n["flows_expired"] <= LIMIT // 2
    assert n["untouched_half_open"] == 1000 - n["flows_created"]


def test_connections_that_never_close(arena: Arena) -> None:
    n = Counted(arena.red)
    for _ in range(2 * LIMIT):
        c = Conn(arena.red, V4)
        arena.red.egress_raw(c.guest_syn())
        arena.red.ingress_raw(c.peer_synack())
        c.established()
        arena.red.egress_raw(c.from_guest())
    assert n["untouched_table_full"] > LIMIT / 2


@pytest.mark.parametrize("end", ["half-open", "closed"])
def test_more_than_its_share(arena: Arena, end: str) -> None:
    """Of the table: nothing that others have is taken for it, in whatever state."""
    for _ in range(10):
        c = Conn(arena.blue, V4)
        if end == "closed":
            c.open()
            arena.blue.egress(c.from_guest(flags=RST | ACK))
        else:
            arena.blue.egress(c.guest_syn())
    mine = len(arena.blue.flows("tenant=blue"))
    n = Counted(arena.red)
    for _ in range(LIMIT + 20):
        c = Conn(arena.red, V4)
        arena.red.egress_raw(c.guest_syn())
        arena.red.ingress_raw(c.peer_synack())
    assert n["untouched_table_full"] > 0
    assert len(arena.blue.flows("tenant=blue")) == mine
    assert len(arena.red.flows("tenant=red")) == LIMIT - mine


def test_ports_used_again(arena: Arena) -> None:
    """Within the linger, and without an end at all."""
    n = Counted(arena.red)
    c = Conn(arena.red, V4).open()
    for i in range(100):
        c = Conn(arena.red, V4, guest_port=c.guest_port, guest_isn=i * 77777, peer_isn=i * 99991)
        c.open()
        c.guest_data(1000)
        c.peer_ack()
        if i % 2:
            arena.red.egress(c.from_guest(flags=RST | ACK))
    assert n["flows_created"] == 101
    assert len(arena.red.flows("tenant=red")) == 1


def test_addresses_of_another(arena: Arena, encap: Encap) -> None:
    """The very connection that blue has, from red's port."""
    victim = Conn(arena.blue, encap).open()
    n = Counted(arena.red)
    frames = [
        victim.from_guest(pattern(0, 1000)),
        victim.from_guest(flags=RST | ACK),
        victim.from_guest(flags=FIN | ACK),
        victim.guest_syn(),
        victim.guest_synack(),
    ]
    arena.red.egress_raw(*frames)
    arena.red.ingress_raw(
        victim.from_peer(fb=(1000, 1000)),
        victim.from_peer(flags=RST | ACK),
        victim.peer_synack(),
    )
    assert n["untouched_midstream"] > 0
    assert half(victim) == half(Conn(arena.blue, encap).open())
    assert victim.info()["state"] == "established"
    assert victim.guest_sent == ROUNDS * 4 * victim.mss


# Guests that receive: what the sender's switch makes of it.


def test_withheld_acks(arena: Arena, ip: Encap) -> None:
    """One ACK of all makes a window no larger than one of each segment."""
    windows = []
    for each in (False, True):
        c = Conn(arena.red, ip).open()
        c.guest_data(10 * c.segment_size)
        for _ in range(10 if each else 1):
            c.peer_ack(c.segment_size if each else None)
            c.guest_data(2 * c.segment_size)        # As its window allows.
        windows.append(c.info()["wnd"])
    assert windows[0] <= windows[1]


def test_split_acks(arena: Arena) -> None:
    """They are worth no more than one."""
    windows = []
    for parts in (1, 40):
        c = Conn(arena.red, V4).open()
        c.guest_data(10 * c.mss)
        n = Counted(arena.red)
        for _ in range(parts):
            c.peer_ack(10 * c.mss // parts)
        windows.append(c.info()["wnd"])
        assert n["pack_received"] == parts
    assert windows[1] <= windows[0]


def test_optimistic_acks(arena: Arena, ip: Encap) -> None:
    c = Conn(arena.red, ip).open()
    c.peer_data(5000)
    assert len(c.guest_ack()) == 1
    n = Counted(arena.red)
    for ahead in (1000, 100000, 1 << 30):
        assert c.guest_ack(ack=c.peer_nxt + ahead) == []
    assert n["ack_optimistic"] == 3


def fragment(c: Conn, payload: bytes, proto: int = 6, src: str = PEER_IP) -> bytes:
    packet = Ether(c.from_peer(payload))
    if c.encap.v6:
        upper = bytes(packet[TCP])
        del packet[IPv6].plen
        packet[IPv6].remove_payload()
        packet[IPv6].nh = 44
        return bytes(packet / IPv6ExtHdrFragment(nh=proto, offset=100, m=0) / Raw(upper))
    packet[IP].src, packet[IP].proto, packet[IP].flags, packet[IP].frag = src, proto, 0, 100
    del packet[IP].chksum
    return bytes(packet)


def test_foreign_fragments(arena: Arena, ip: Encap) -> None:
    """They excuse no optimistic ACK: not of another protocol or address, and no more
    than came."""
    c = Conn(arena.red, ip).open()
    c.peer_data(5000)
    assert len(c.guest_ack()) == 1
    n = Counted(arena.red)
    arena.red.ingress_raw(fragment(c, bytes(1000), proto=17))
    if not ip.v6:
        arena.red.ingress_raw(fragment(c, bytes(1000), src="10.9.9.9"))
    assert c.guest_ack(ack=c.peer_nxt + 1000) == []
    arena.red.ingress_raw(fragment(c, bytes(1000)))
    assert c.guest_ack(ack=c.peer_nxt + 2000) == []
    assert len(c.guest_ack(ack=c.peer_nxt + 1000)) == 1
    assert c.guest_ack(ack=c.peer_nxt + 2000) == []
    assert (n["ack_excused"], n["ack_optimistic"]) == (1, 3)


def test_acks_of_nothing(arena: Arena) -> None:
    """Of data that was never sent: the law does not hear of them."""
    c = Conn(arena.red, V4).open()
    c.guest_data(1000)
    window = c.info()["wnd"]
    n = Counted(arena.red)
    for ahead in (1, 100000, 1 << 30):
        arena.red.ingress(c.from_peer(ack=c.guest_nxt + ahead))
    assert n["ack_invalid"] == 3
    assert c.info()["wnd"] == window


@pytest.mark.parametrize("sack", [False, True])
def test_duplicate_acks(arena: Arena, sack: bool) -> None:
    """One cut, however many there are."""
    c = Conn(arena.red, V4, sack=sack).open()
    c.guest_data(10 * c.mss)
    c.peer_ack(c.mss)
    window = int(c.info()["wnd"])
    n = Counted(arena.red)
    dup = c.peer_ack_frame(0)
    for _ in range(10):
        arena.red.ingress(*[dup] * 30)
    assert n["cuts_loss"] == 1
    assert c.info()["wnd"] >= window // 2 - 1


@pytest.mark.parametrize("scale", [15, 30, 255])
def test_scale_that_does_not_exist(arena: Arena, scale: int) -> None:
    """RFC 7323: more than 14 is 14; the guest is told a finer one."""
    c = Conn(arena.red, V4, peer_scale=scale)
    n = Counted(arena.red)
    arena.red.egress(c.guest_syn())
    (got,) = arena.red.ingress(c.peer_synack())
    assert got.wscale is not None
    assert got.wscale < 14
    assert n["rescaled"] == 1
    assert c.info()["wscale_remote"] == 14


# Others on the network.


def test_impossible_feedback(arena: Arena, ip: Encap) -> None:
    """More than was sent, more marked than there was: ignored."""
    c = Conn(arena.red, ip).open()
    c.guest_data(10 * c.mss)
    window = c.info()["wnd"]
    n = Counted(arena.red)
    for fb in ((0, 11 * c.mss), (2000, 1000), (0, 1 << 30)):
        arena.red.ingress(c.from_peer(ack=c.guest_isn + 1, fb=fb))
    assert n["feedback_bad"] == 3
    assert n["cuts_ecn"] == 0
    assert c.info()["wnd"] == window


def test_replayed_feedback(arena: Arena, ip: Encap) -> None:
    c = Conn(arena.red, ip).open()
    c.guest_data(10 * c.mss)
    early = c.peer_ack_frame(c.mss, marked=c.mss)
    arena.red.ingress(early)
    c.peer_ack(4 * c.mss)
    before = c.info()
    n = Counted(arena.red)
    for _ in range(20):
        arena.red.ingress(early)
    assert n["feedback_stale"] == 20
    assert n["cuts_ecn"] == 0
    assert c.info()["fb_total"] == before["fb_total"]


def test_feedback_of_an_outsider(arena: Arena, ip: Encap) -> None:
    """Who knows addresses and ports, but no sequence numbers."""
    c = Conn(arena.red, ip).open()
    c.guest_data(10 * c.mss)
    before = c.info()
    n = Counted(arena.red)
    frames = []
    for i in range(1, 11):
        options: list[Option] = [feedback(10 * c.mss, 10 * c.mss)]
        seq, ack = c.peer_nxt + (i << 28), c.guest_nxt - (i << 27)
        frames.append(c.from_peer(seq=seq, ack=ack, options=options))
        frames.append(c.from_peer(seq=seq, ack=ack, options=options, reserved=RES_FACK))
    arena.red.ingress(*frames)
    assert n["feedback_bad"] == 20
    after = c.info()
    for key in ("wnd", "alpha", "fb_total", "snd_una"):
        assert after[key] == before[key], key


def test_network_that_marks_everything(arena: Arena) -> None:
    """To the floor and no further; the connection goes on."""
    c = Conn(arena.red, V4).open()
    n = Counted(arena.red)
    for _ in range(30):
        c.guest_data(2 * c.mss)
        (got,) = c.peer_ack(marked=2 * c.mss)
    assert got.window == c.window_field(2 * c.mss)
    assert n["cuts_ecn"] > 10


def test_malformed_packets(arena: Arena, encap: Encap) -> None:
    """Bit for bit, whatever the port's tenant polices."""
    n = Counted(arena.red)
    base = Conn(arena.red, encap).guest_syn()
    bad = bytearray(base)
    bad[encap.header + 21] = 60  # An option that goes beyond the header.
    sent = [bytes(bad), base[: encap.header + 12]]
    assert sorted(arena.red.egress_raw(*sent)) == sorted(sent)
    assert n["untouched_options"] == 1
    assert n["untouched_length"] == 1
