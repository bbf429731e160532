# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 6: the window field, the caps, policing.  The windows of SYNs
and the scale are in test_handshake.py."""

from __future__ import annotations

import pytest

from acdc_testlib.tcp import ACK, CWR, ECE, SYN, V4, Encap, Option, Segment
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same


@pytest.mark.parametrize("scale", [None, 0, 1, 7, 10])
def test_window_is_the_smaller_one(wire: Wire, ip: Encap, scale: int | None) -> None:
    """min(its own, ceil(wnd >> scale)), on pure ACKs and on data."""
    c = Conn(wire, ip, peer_scale=scale, guest_scale=None if scale is None else 7).open()
    limit = c.window_field(10 * c.mss)
    for own in (1, 2, limit - 1, limit, limit + 1, 65535):
        for payload in (b"", pattern(0, 100)):
            sent = c.from_peer(payload, window=own, fb=(0, 0))
            (got,) = wire.ingress(sent)
            same(got, sent, "ecn", "options", "window")
            assert got.window == min(own, limit)


def test_every_ack_is_rewritten(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap).open()
    limit = c.window_field(10 * c.mss)
    for flags in (ACK, ACK | 0x08, ACK | 0x40, ACK | 0x01):
        (got,) = wire.ingress(c.from_peer(flags=flags, fb=(0, 0)))
        assert got.window == limit


def test_window_is_zero_only_when_the_peer_said_so(wire: Wire, ip: Encap) -> None:
    wire.set(beta=0)
    c = Conn(wire, ip, peer_scale=10).open()
    c.guest_data(10 * c.mss)
    (got,) = c.peer_ack(c.mss, marked=c.mss)
    assert got.window == -(-2 * c.mss >> 10)
    (got,) = c.peer_ack(c.mss, marked=c.mss, window=0)
    assert got.window == 0
    (got,) = c.peer_ack(c.mss, window=1)
    assert got.window == 1


@pytest.mark.parametrize("limit", [20000, 30000])
def test_max_window(wire: Wire, ip: Encap, limit: int) -> None:
    wire.set(max_window=limit)
    c = Conn(wire, ip).open()
    for _ in range(4):
        c.guest_data(13 * c.mss)
        for _ in range(13):
            (got,) = c.peer_ack(c.mss)
            assert got.window <= c.window_field(limit)
    if limit == 20000:
        assert got.window == c.window_field(limit)


def test_max_window_below_the_initial_one(wire: Wire, ip: Encap) -> None:
    wire.set(max_window=5000)
    c = Conn(wire, ip)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == 5000
    c.established()
    c.guest_ack()
    (got,) = wire.ingress(c.from_peer(fb=(0, 0)))
    assert got.window == c.window_field(5000)


@pytest.mark.parametrize(("minimum", "left"), [(8000, 8000), (1, 1460), (2000, 2000)])
def test_min_window(wire: Wire, minimum: int, left: int) -> None:
    """The floor of cuts, never below a segment."""
    wire.set(beta=0, min_window=minimum)
    c = Conn(wire, V4, peer_scale=2).open()
    c.guest_data(10 * c.mss)
    (got,) = c.peer_ack(c.mss, marked=c.mss)
    assert got.window == c.window_field(left)


def test_floor_is_two_segments(wire: Wire, ip: Encap) -> None:
    wire.set(beta=0)
    c = Conn(wire, ip, peer_scale=0).open()
    c.guest_data(10 * c.mss)
    for _ in range(4):
        (got,) = c.peer_ack(c.mss, marked=c.mss)
        assert got.window >= 2 * c.mss


# Windows of one segment: data asks for ACKs by CWR.


def asked(c: Conn) -> bool:
    """Cuts the window to its floor; whether the next data has CWR."""
    c.guest_data(10 * c.mss)
    c.peer_ack(c.mss, marked=c.mss)
    c.peer_ack()
    sent = c.from_guest(pattern(c.guest_sent, 1000))
    (out,) = c.guest_data(1000)
    same(out, sent, "ecn", "reserved", "options", "flags")
    assert out.flags & ~CWR == ACK
    return bool(out.flags & CWR)


@pytest.mark.parametrize("guest_ecn", [False, True])
def test_small_windows(wire: Wire, ip: Encap, guest_ecn: bool) -> None:
    wire.set(beta=0, **{"other_config:small-windows": "true"})
    n = Counted(wire)
    c = Conn(wire, ip, guest_ecn=guest_ecn).open()
    assert asked(c)
    assert n["solicited"] == 1, "not the ten of a large window"
    (out,) = c.guest_ack()
    assert out.flags == ACK, "ACKs ask for nothing"
    assert c.info()["wnd"] >= 2 * c.mss, "not known to help yet"


def test_small_windows_off(wire: Wire, ip: Encap) -> None:
    wire.set(beta=0)
    assert not asked(Conn(wire, ip).open())


@pytest.mark.parametrize("answer", [CWR, CWR | ECE, 0])
def test_cwr_that_counts_stays(wire: Wire, ip: Encap, answer: int) -> None:
    """The guest asked for ECN and got an answer that is not RFC 3168's: that of
    accurate ECN (RFC 9768), or none."""
    wire.set(beta=0, **{"other_config:small-windows": "true"})
    c = Conn(wire, ip)
    wire.egress(c.guest_syn(flags=SYN | ECE | CWR))
    wire.ingress(c.peer_synack(flags=SYN | ACK | answer))
    c.established()
    c.guest_ack()
    assert not asked(c)


# Window updates and duplicate ACKs.


def test_update_that_changes_nothing_is_absorbed(wire: Wire, ip: Encap) -> None:
    """The peer's own window moves far above the law's; rewritten, the ACK
    would be a duplicate."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    (last,) = c.peer_ack(c.mss, window=60000)
    n = Counted(wire)
    for own in (61000, 50000, 65535):
        assert wire.ingress(c.from_peer(ack=last.ack, window=own, fb=(0, c.mss))) == []
    assert n["updates_absorbed"] == 3
    assert n["cuts_loss"] == 0


def test_update_below_the_laws_window_passes(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    (last,) = c.peer_ack(c.mss, window=50)
    assert last.window == 50
    (got,) = wire.ingress(c.from_peer(ack=last.ack, window=60, fb=(0, c.mss)))
    assert got.window == 60


def test_duplicate_acks_stay_duplicate_acks(wire: Wire, ip: Encap) -> None:
    """Each arrives and keeps the window offered last, for the guest's fast
    retransmit needs them so (RFC 5681 section 2), through the cut too."""
    c = Conn(wire, ip, sack=False).open()
    c.guest_data(10 * c.mss)
    (last,) = c.peer_ack(c.mss)
    dup = c.peer_ack_frame(0)
    got = wire.ingress(*[dup] * 8)
    assert len(got) == 8
    assert {(s.ack, s.window) for s in got} == {(last.ack, last.window)}


def test_duplicate_acks_with_sack_arrive(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    c.peer_ack(c.mss)
    base = c.guest_isn + 1 + 2 * c.mss
    for i in range(1, 6):
        options: list[Option] = [
            ("NOP", None),
            ("NOP", None),
            ("SAck", (base % 2**32, (base + i * c.mss) % 2**32)),
        ]
        sent = c.from_peer(ack=c.guest_isn + 1 + c.mss, options=options, fb=(0, (i + 1) * c.mss))
        (got,) = wire.ingress(sent)
        same(got, sent, "ecn", "options", "window")


def test_guest_is_never_stranded(wire: Wire, ip: Encap) -> None:
    """Nothing in flight and room for a segment: the guest was told so.  Each
    way in which the last ACK can come."""
    wire.set(beta=0)
    for how in ("ack", "fack", "data", "zero window, then update", "zero window, then fack"):
        c = Conn(wire, ip).open()
        c.guest_data(10 * c.mss)
        c.peer_ack(9 * c.mss, marked=9 * c.mss)
        got: list[Segment] = []
        if how == "ack":
            got += c.peer_ack()
        elif how == "fack":
            got += c.peer_ack(fack=True)
        elif how == "data":
            got += c.peer_ack(payload=b"x")
        elif how == "zero window, then update":
            got += c.peer_ack(window=0)
            got += c.peer_ack(0)
        else:
            got += c.peer_ack(window=0)
            got += c.peer_ack(0, fack=True)
        assert got, how
        last = got[-1]
        assert last.ack == c.guest_nxt % 2**32, how
        assert last.window << 7 >= c.mss, how


# Policing.


def test_policing_drops_what_is_beyond_the_window(wire: Wire, encap: Encap) -> None:
    wire.set(police=True)
    c = Conn(wire, encap).open()
    n = Counted(wire)
    far = c.guest_nxt + 30 * c.mss
    assert wire.egress(c.from_guest(pattern(0, c.mss), seq=far)) == []
    assert n["policed_packets"] == 1
    assert n["policed_bytes"] == c.mss


def test_policing_passes_what_was_allowed(wire: Wire, ip: Encap) -> None:
    wire.set(police=True)
    c = Conn(wire, ip).open()
    assert len(c.guest_data(10 * c.mss)) == 10
    (got,) = c.peer_ack(c.mss)
    room = (got.window << 7) - 9 * c.mss
    assert len(c.guest_data(room // c.mss * c.mss)) == room // c.mss


def test_policing_knows_the_highest_edge_ever_offered(wire: Wire, ip: Encap) -> None:
    """After a cut, what was allowed before it may still come."""
    wire.set(police=True, beta=0)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(2 * c.mss)
    (got,) = c.peer_ack(c.mss, marked=c.mss)
    assert got.window << 7 <= 3 * c.mss
    assert len(c.guest_data(8 * c.mss)) == 8
    assert n["policed_packets"] == 0


def test_policing_lets_retransmissions_and_probes_pass(wire: Wire, ip: Encap) -> None:
    wire.set(police=True)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(10 * c.mss)
    first = c.from_guest(pattern(0, c.mss), seq=c.guest_isn + 1)
    assert len(wire.egress(first)) == 1
    c.peer_ack(window=0)
    # Zero-window probes: one byte beyond, and the byte before (Linux).
    probe = c.from_guest(pattern(c.guest_sent, 1))
    assert len(wire.egress(probe)) == 1
    assert len(wire.egress(c.from_guest(seq=c.guest_nxt - 1))) == 1
    assert n["policed_packets"] == 0


def test_policing_lets_control_packets_pass(wire: Wire, ip: Encap) -> None:
    """ACK, FIN and RST carry no data."""
    wire.set(police=True)
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    for flags in (ACK, ACK | 0x01, ACK | 0x04):
        assert len(wire.egress(c.from_guest(flags=flags))) == 1


def test_policed_data_passes_once_there_is_room(wire: Wire, ip: Encap) -> None:
    wire.set(police=True)
    c = Conn(wire, ip).open()
    beyond = c.from_guest(pattern(25 * c.mss, c.mss), seq=c.guest_nxt + 25 * c.mss)
    assert wire.egress(beyond) == []
    for _ in range(20):
        c.guest_data(c.mss)
        c.peer_ack()
    assert len(wire.egress(beyond)) == 1


def test_without_policing_nothing_is_dropped(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    far = c.from_guest(pattern(0, c.mss), seq=c.guest_nxt + 100 * c.mss)
    assert len(wire.egress(far)) == 1


def test_window_rewrites_are_counted(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    wire.ingress(c.from_peer(fb=(0, 0)))
    assert n["window_rewritten"] == 1
    wire.ingress(c.from_peer(window=3, fb=(0, 0)))
    assert n["window_rewritten"] == 1


@pytest.mark.parametrize("again", [False, True])
def test_policing_after_a_simultaneous_open_with_data(wire: Wire, ip: Encap, again: bool) -> None:
    """The peer's SYN has data (TCP Fast Open), its SYN-ACK of the same number has none: what
    arrived has arrived."""
    wire.set(police="true")
    c = Conn(wire, ip)
    size = 1000
    wire.egress(c.guest_syn(payload=pattern(0, size)))
    wire.ingress(c.peer_syn(payload=pattern(0, size)))
    wire.egress(c.guest_synack())
    wire.ingress(c.peer_synack())
    c.established()
    n = Counted(wire)
    if not again:
        # Each has what came with the other's SYN.
        c.guest_nxt += size
        c.guest_acked = size
    c.peer_nxt += size
    assert len(c.guest_ack()) == 1
    for _ in range(3):
        assert len(c.guest_data(size)) == 1
        assert len(c.peer_data(size)) == 1
        assert len(c.peer_ack()) == 1
    assert (n["ack_optimistic"], n["policed_packets"]) == (0, 0)
