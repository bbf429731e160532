# SPDX-License-Identifier: Apache-2.0

"""Connections whose directions go by different ports: a guest with two ports in a bond,
asymmetric routes by OpenFlow.  A port that cannot follow one must not be in its way."""

from __future__ import annotations

import time

from acdc_testlib.tcp import ECT0, NOT_ECT, Encap
from acdc_testlib.wire import Conn, Counted, Wire, pattern

TICK = 0.55
"""Seconds, more than two of the engine's ticks."""


def send_alone(c: Conn, size: int) -> int:
    """What the guest sends, by its timer, while nothing comes back: how much arrives."""
    arrived = 0
    for _ in range(3):
        time.sleep(TICK)
        arrived += sum(len(s.payload) for s in c.guest_data(size))
    return arrived


def test_policing_ends_where_no_ack_is_seen(wire: Wire, ip: Encap) -> None:
    wire.set(police=True)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(12 * c.mss)
    assert n["policed_packets"] > 0
    send_alone(c, c.mss)
    assert n["unheard"] == 1
    policed = n["policed_packets"]
    # Also of what the guest sends much later, beyond any window.
    for _ in range(4):
        assert sum(len(s.payload) for s in c.guest_data(40 * c.mss)) == 40 * c.mss
    assert n["policed_packets"] == policed
    assert n["unheard"] == 1


def test_marking_and_reports_end_where_nothing_is_heard(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    send_alone(c, c.mss)
    assert n["unheard"] == 1
    assert not c.info()["capable"]
    for payload in (b"", pattern(0, 700)):
        (out,) = wire.egress(c.from_guest(payload, ecn=NOT_ECT))
        assert (out.ecn, out.feedback, out.reserved) == (NOT_ECT, None, 0)


def test_what_is_heard_again_is_governed_again(wire: Wire, ip: Encap) -> None:
    """At once, and also a guest that said what is not true."""
    wire.set(police=True)
    c = Conn(wire, ip).open()
    honest = c.guest_nxt
    send_alone(c, 1)
    for far in (1 << 23, 2 << 23, 3 << 23, 4 << 23, 5 << 23):
        (out,) = wire.egress(c.from_guest(b"lie", seq=(honest + far) % 2**32))
        assert out.ecn == NOT_ECT
        (out,) = wire.egress(c.from_guest(ack=(c.peer_nxt + far) % 2**32))
    c.guest_nxt = honest + 3
    c.guest_acked = 0
    c.peer_ack(3)
    n = Counted(wire)
    assert c.info()["capable"]
    assert c.info()["snd_una"] == (honest + 3) % 2**32
    (out,) = c.guest_data(c.mss)
    assert out.ecn == ECT0
    c.guest_data(30 * c.mss)
    assert n["policed_packets"] > 0


def test_acks_of_data_by_another_port_pass(wire: Wire, ip: Encap) -> None:
    """They look as if the guest acknowledged what did not arrive."""
    wire.set(police=True)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    passed = 0
    for _ in range(3):
        time.sleep(TICK)
        c.peer_nxt += 1000
        passed += len(c.guest_ack())
    assert n["unheard"] == 1
    for _ in range(5):
        c.peer_nxt += 100000
        (out,) = c.guest_ack()
        # The other end is to notice, and to fall back.
        assert out.feedback is None
    # What comes is not judged by what was known before.
    c.peer_data(1000)
    (out,) = c.guest_ack()
    assert out.feedback is not None
    assert n["feedback_bad"] == 0


def test_a_guest_that_is_heard_does_not_escape(wire: Wire, ip: Encap) -> None:
    wire.set(police=True)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    for _ in range(4):
        time.sleep(TICK)
        c.guest_data(c.mss)
        c.peer_ack()
    c.guest_data(40 * c.mss)
    assert n["unheard"] == 0
    assert n["policed_packets"] > 0


def test_window_grows_with_data_by_another_port(wire: Wire, ip: Encap) -> None:
    """ACKs come here, of data that the guest sends by its other port."""
    c = Conn(wire, ip).open()
    c.guest_data(4 * c.mss)
    c.peer_ack()
    before = c.info()["wnd"]
    time.sleep(1.1)
    for _ in range(40):
        c.guest_nxt += 10 * c.mss
        c.peer_ack()
    info = c.info()
    assert info["wnd"] > 2 * before
    assert c.guest_nxt - info["snd_una"] < 40 * c.mss


def test_an_outsider_is_not_heard(wire: Wire, ip: Encap) -> None:
    """Who knows addresses and ports, and no numbers, has nothing policed."""
    wire.set(police=True)
    c = Conn(wire, ip).open()
    send_alone(c, c.mss)
    n = Counted(wire)
    for seq, ack in ((1 << 30, 1 << 30), (0, 1 << 30), (1 << 30, 0), (1 << 30, 1 << 30)):
        wire.ingress(
            c.from_peer(seq=(c.peer_nxt + seq) % 2**32, ack=(c.guest_nxt + ack) % 2**32)
        )
        assert not c.info()["capable"]
        assert sum(len(s.payload) for s in c.guest_data(40 * c.mss)) == 40 * c.mss
    assert n["policed_packets"] == 0
    c.peer_ack()
    assert c.info()["capable"]


def test_a_connection_that_comes_back_is_governed_again(wire: Wire, ip: Encap) -> None:
    """After much that both sent by other ports: once guest and network say the same."""
    wire.set(police=True)
    c = Conn(wire, ip).open()
    send_alone(c, c.mss)
    c.guest_nxt = (c.guest_nxt + (1 << 30)) % 2**32
    c.peer_nxt = (c.peer_nxt + (1 << 30)) % 2**32
    for governed in (False, True):
        wire.egress(c.from_guest(pattern(0, c.mss)))
        wire.ingress(c.from_peer())
        assert c.info()["capable"] == governed
    n = Counted(wire)
    c.guest_data(40 * c.mss)
    assert n["policed_packets"] > 0
