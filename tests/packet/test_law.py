# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 5 as far as the guest sees it: the window in the ACKs.  The
arithmetic is tested in tests/law, bit for bit; here that the packets are read
rightly and lead to it."""

from __future__ import annotations

import time

import pytest

from acdc_testlib.tcp import ACK, ECE, V4, Encap, Option, Segment
from acdc_testlib.wire import Conn, Counted, Wire, pattern


def offered(c: Conn, got: list[Segment]) -> int:
    """Bytes that the last of the ACKs offers."""
    return got[-1].window << (c.peer_scale or 0)


def near(c: Conn, value: int, segments: float) -> bool:
    """Within rounding: the field counts units of 1 << scale."""
    unit = 1 << (c.peer_scale or 0)
    return abs(value - segments * c.mss) <= 2 * unit


def grow(c: Conn, rounds: int) -> int:
    """The guest keeps its window full for so many round trips, each segment
    acknowledged by itself; the last window offered."""
    window = 10 * c.mss
    c.guest_data(window)
    for _ in range(rounds):
        for _ in range((c.guest_sent - c.guest_acked) // c.mss):
            window = offered(c, c.peer_ack(c.mss))
            room = window - (c.guest_sent - c.guest_acked)
            c.guest_data(room // c.mss * c.mss)
    return window


def drain(c: Conn) -> None:
    """Nothing in flight any more."""
    if c.guest_sent > c.guest_acked:
        c.peer_ack()


def pass_rto(c: Conn) -> None:
    """Until the guest's retransmission timer would have expired.  On a machine that
    is slow or was stopped the round trips here may have taken long."""
    time.sleep(0.2 + 4 * c.info()["srtt_us"] / 1e6)


def test_slow_start_doubles(wire: Wire, encap: Encap) -> None:
    for rounds in (1, 3):
        c = Conn(wire, encap).open()
        assert near(c, grow(c, rounds), 10 << rounds)


def test_application_limited_flow_banks_no_credit(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    for _ in range(40):
        c.guest_data(c.mss)
        got = c.peer_ack()
    assert near(c, offered(c, got), 10)


@pytest.mark.parametrize(("beta", "left"), [(1, 5), (0.5, 2.5), (0.25, 2), (0, 2)])
def test_cut_depends_on_beta(wire: Wire, ip: Encap, beta: float, left: float) -> None:
    """alpha is 1: wnd * (1 - (1 - beta / 2)) = wnd * beta / 2, at least 2 MSS."""
    wire.set(beta=beta)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(10 * c.mss)
    got = c.peer_ack(c.mss, marked=c.mss)
    assert near(c, offered(c, got), left)
    assert n["cuts_ecn"] == 1


def test_one_cut_a_window(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(10 * c.mss)
    for _ in range(10):
        got = c.peer_ack(c.mss, marked=c.mss)
    assert n["cuts_ecn"] == 1
    assert 5 * c.mss <= offered(c, got) < 6 * c.mss
    c.guest_data(5 * c.mss)
    got = c.peer_ack(c.mss, marked=c.mss)
    assert n["cuts_ecn"] == 2
    assert near(c, offered(c, got), 2.5) or offered(c, got) < 3.1 * c.mss


def test_alpha_falls_without_marks_and_cuts_less(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    for _ in range(40):
        c.guest_data(2 * c.mss)
        c.peer_ack()
    alpha = float(c.info()["alpha"])
    assert 0.9375**40 * 0.9 < alpha < 0.9375**38 * 1.1
    c.guest_data(10 * c.mss)
    before = 10 * c.mss
    got = c.peer_ack(c.mss, marked=c.mss)
    # About 10 MSS * (1 - 0.08 / 2); a round may have ended with this ACK.
    assert 0.85 * before < offered(c, got) < before


def test_fraction_of_marks(wire: Wire, ip: Encap) -> None:
    """Every fourth byte marked: alpha tends to 1/4."""
    c = Conn(wire, ip).open()
    for _ in range(80):
        c.guest_data(2000)
        c.peer_ack(2000, marked=500)
    assert 0.22 < float(c.info()["alpha"]) < 0.28


def test_feedback_of_a_fack_counts(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(10 * c.mss)
    c.peer_ack(c.mss, marked=c.mss, fack=True)
    assert n["cuts_ecn"] == 1
    got = c.peer_ack(c.mss)
    assert 5 * c.mss <= offered(c, got) < 6 * c.mss


def test_feedback_on_data_counts(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    data = c.peer_ack_frame(c.mss, marked=c.mss, payload=pattern(0, 100))
    got = wire.ingress(data)
    assert got[0].payload == pattern(0, 100)
    assert near(c, offered(c, got), 5)


def test_stale_feedback_is_ignored(wire: Wire, ip: Encap) -> None:
    """Two ACKs change places on the way."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    older = c.peer_ack_frame(2 * c.mss)
    newer = c.peer_ack_frame(2 * c.mss)
    n = Counted(wire)
    wire.ingress(newer, older)
    assert n["feedback_stale"] == 1
    assert n["feedback_bad"] == 0
    assert c.info()["fb_total"] == 4 * c.mss


def test_ack_of_what_was_not_sent_is_ignored(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(2 * c.mss)
    n = Counted(wire)
    (got,) = wire.ingress(c.from_peer(ack=c.guest_nxt + 100000))
    assert got.ack == (c.guest_nxt + 100000) % 2**32
    assert n["ack_invalid"] == 1
    got2 = c.peer_ack()
    assert near(c, offered(c, got2), 10)


@pytest.mark.parametrize("beta", [1, 0])
def test_three_duplicate_acks_are_loss(wire: Wire, ip: Encap, beta: float) -> None:
    wire.set(beta=beta)
    c = Conn(wire, ip, sack=False).open()
    c.guest_data(10 * c.mss)
    c.peer_ack(c.mss)
    n = Counted(wire)
    dup = c.peer_ack_frame(0)
    wire.ingress(dup, dup)
    assert n["cuts_loss"] == 0
    wire.ingress(dup)
    assert n["cuts_loss"] == 1
    wire.egress(c.from_guest(pattern(c.mss, c.mss), seq=c.guest_isn + 1 + c.mss))
    got = c.peer_ack(c.mss)
    assert offered(c, got) < 7 * c.mss
    assert n["cuts_ecn"] == 0


def test_sack_of_three_segments_is_loss(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    n = Counted(wire)
    base = c.guest_isn + 1
    options: list[Option] = [
        ("NOP", None),
        ("NOP", None),
        ("SAck", ((base + c.mss) % 2**32, (base + 5 * c.mss) % 2**32)),
    ]
    ack = c.from_peer(ack=base, options=options, fb=(0, 4 * c.mss))
    wire.ingress(ack, ack, ack)
    assert n["cuts_loss"] == 1


def test_retransmission_of_the_guest_is_loss(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    c.peer_ack(c.mss)
    n = Counted(wire)
    wire.egress(c.from_guest(pattern(c.mss, c.mss), seq=c.guest_isn + 1 + c.mss))
    assert n["retransmits"] == 1
    got = c.peer_ack(c.mss)
    assert offered(c, got) <= 6.1 * c.mss


def test_timeout_of_the_guest(wire: Wire, ip: Encap) -> None:
    """Sent again after silence, and lost: slow start."""
    c = Conn(wire, ip).open()
    grow(c, 2)
    n = Counted(wire)
    pass_rto(c)
    acked = c.guest_acked
    wire.egress(c.from_guest(pattern(acked, c.mss), seq=c.guest_isn + 1 + acked))
    assert n["timeouts"] == 0, "not yet known"
    got = c.peer_ack(c.mss)
    assert n["timeouts"] == 1
    assert 2 * c.mss <= offered(c, got) <= 3.1 * c.mss
    got = c.peer_ack(c.mss)
    assert 3 * c.mss <= offered(c, got) <= 4.1 * c.mss


def test_timeout_for_nothing(wire: Wire, ip: Encap) -> None:
    """Sent again after silence, but only the ACK was late."""
    c = Conn(wire, ip).open()
    grow(c, 2)
    drain(c)
    c.guest_data(c.mss)
    n = Counted(wire)
    pass_rto(c)
    acked = c.guest_acked
    wire.egress(c.from_guest(pattern(acked, c.mss), seq=c.guest_isn + 1 + acked))
    assert n["retransmits"] == 1
    got = c.peer_ack(fb=(0, c.guest_sent + c.mss))
    assert n["timeouts"] == 0
    assert offered(c, got) > 10 * c.mss


def test_restart_after_idle(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    assert grow(c, 2) > 35 * c.mss
    drain(c)
    n = Counted(wire)
    pass_rto(c)
    c.guest_data(c.mss)
    got = c.peer_ack()
    assert n["idle_restarts"] == 1
    assert offered(c, got) <= 12 * c.mss


def test_rtt_is_measured(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    for _ in range(5):
        c.guest_data(c.mss)
        time.sleep(0.05)
        c.peer_ack()
    assert n["rtt_samples"] >= 4
    assert 30_000 < c.info()["srtt_us"] < 500_000


@pytest.mark.parametrize("algorithm", ["reno", "cubic"])
def test_fallback_without_the_capability(wire: Wire, ip: Encap, algorithm: str) -> None:
    """The window is held, and that is all: no marking, no option."""
    wire.set(fallback=algorithm)
    c = Conn(wire, ip, capable=False)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == 10 * c.mss
    c.established()
    ack = c.from_guest()
    assert wire.egress_raw(ack) == [ack]
    sent = [c.from_guest(pattern(i * c.mss, c.mss), seq=c.guest_nxt + i * c.mss) for i in range(10)]
    assert wire.egress_raw(*sent) == sent
    c.guest_nxt += 10 * c.mss
    got_all: list[Segment] = []
    for _ in range(4):
        got_all += c.peer_ack(c.mss)
    assert 13 * c.mss <= offered(c, got_all) <= 14.2 * c.mss
    n = Counted(wire)
    dup = c.peer_ack_frame(0)
    wire.ingress(dup, dup, dup)
    assert n["cuts_loss"] == 1
    assert c.info()["alg"] == algorithm


def test_algorithm_none_touches_no_window(wire: Wire, ip: Encap) -> None:
    """It still gives the far side its feedback."""
    wire.set(algorithm="none")
    c = Conn(wire, ip)
    (out,) = wire.egress(c.guest_syn())
    assert out.capability is not None
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == c.WINDOW
    c.established()
    (out,) = c.guest_ack()
    assert out.feedback == (0, 0)
    c.guest_data(10 * c.mss)
    (got,) = c.peer_ack(5 * c.mss, marked=5 * c.mss)
    assert got.window == c.WINDOW


@pytest.mark.parametrize("algorithm", ["reno", "cubic"])
def test_algorithm_with_capability(wire: Wire, ip: Encap, algorithm: str) -> None:
    """Any mark is as a loss to them (RFC 3168)."""
    wire.set(algorithm=algorithm)
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(10 * c.mss)
    got = c.peer_ack(c.mss, marked=c.mss)
    assert n["cuts_ecn"] == 1
    share = 0.5 if algorithm == "reno" else 0.7
    assert near(c, offered(c, got), 10 * share)


def test_observe_takes_the_guests_ece_as_feedback(wire: Wire) -> None:
    wire.set(mode="observe")
    c = Conn(wire, V4, capable=False, guest_ecn=True).open()
    c.guest_data(10 * c.mss, ecn=2)
    n = Counted(wire)
    ack = c.peer_ack_frame(c.mss, flags=ACK | ECE)
    assert wire.ingress_raw(ack) == [ack]
    assert n["cuts_ecn"] == 1
    assert c.info()["wnd"] <= 6 * c.mss
