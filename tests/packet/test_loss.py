# SPDX-License-Identifier: Apache-2.0

"""What is loss, and what only looks like it: probes of a closed window, D-SACK, what
is sent again at once, the handshake's round-trip time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from acdc_testlib.tcp import ACK, ECE, ECT0, MOD, Encap, Option
from acdc_testlib.wire import Conn, Counted, Wire, pattern


def sack(c: Conn, *blocks: tuple[float, float]) -> list[Option]:
    """A SACK option of blocks in segments from the guest's first byte on."""
    edges = [(c.guest_isn + 1 + round(edge * c.mss)) % MOD for block in blocks for edge in block]
    return [("NOP", None), ("NOP", None), ("SAck", tuple(edges))]


def no_loss(n: Counted) -> None:
    assert (n["timeouts"], n["cuts_loss"]) == (0, 0)


def slow_start(c: Conn) -> None:
    """To 80 segments, all acknowledged."""
    for rounds in range(3):
        c.guest_data(10 * c.mss << rounds)
        c.peer_ack()


def governed(wire: Wire, ip: Encap, capable: bool) -> Conn:
    """By the far switch's reports, or by loss alone."""
    wire.set(fallback="reno")
    c = Conn(wire, ip, capable=capable).open()
    slow_start(c)
    return c


@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("probes", [2, 5])
@pytest.mark.parametrize("refused", [True, False])
def test_closed_window_is_probed(
    wire: Wire, ip: Encap, probes: int, refused: bool, capable: bool
) -> None:
    """With one byte of new data, the same one each time (RFC 9293 section 3.8.6.1).
    The far switch counts it each time, whether the far guest takes it or not."""
    c = governed(wire, ip, capable)
    n = Counted(wire)
    c.peer_ack(0, window=0)
    for i in range(1, probes + 1):
        time.sleep(0.1)
        (out,) = wire.egress(c.from_guest(pattern(c.guest_sent, 1)))
        assert len(out.payload) == 1
        ack = c.guest_nxt + (not refused)
        fb = (0, c.guest_acked + i) if capable else None
        wire.ingress(c.from_peer(ack=ack, window=0, fb=fb))
    c.guest_nxt += 1
    wire.ingress(c.from_peer(fb=fb))
    no_loss(n)
    assert c.info()["wnd"] >= 10 * c.mss
    assert n["rtt_samples"] == 0, "a probe says nothing of time"


@pytest.mark.parametrize("capable", [True, False])
def test_window_update_that_got_lost(wire: Wire, ip: Encap, capable: bool) -> None:
    """Between the switch and its guest: the guest goes on probing."""
    c = governed(wire, ip, capable)
    n = Counted(wire)
    c.peer_ack(0, window=0)
    probe = c.from_guest(pattern(c.guest_sent, 1))
    wire.egress(probe)
    c.peer_ack(0)
    for _ in range(2):
        time.sleep(0.1)
        wire.egress(probe)
    c.guest_nxt += 1
    wire.ingress(c.from_peer(fb=(0, c.guest_acked + 3) if capable else None))
    no_loss(n)
    assert c.info()["wnd"] >= 10 * c.mss


def test_keep_alive_with_a_byte(wire: Wire, ip: Encap) -> None:
    """The byte before (RFC 1122 section 4.2.3.6)."""
    c = Conn(wire, ip).open()
    slow_start(c)
    n = Counted(wire)
    for i in range(1, 4):
        time.sleep(0.1)
        wire.egress(c.from_guest(pattern(c.guest_sent - 1, 1), seq=c.guest_nxt - 1))
        wire.ingress(c.from_peer(fb=(0, c.guest_acked + i)))
    no_loss(n)
    assert n["retransmits"] == 0


def test_loss_while_the_window_is_closed(wire: Wire, ip: Encap) -> None:
    """The last segments that the window allowed are lost: that is no probe."""
    c = Conn(wire, ip).open()
    slow_start(c)
    c.guest_data(45 * c.mss)
    acked = c.guest_acked
    c.peer_ack(5 * c.mss, window=40 * c.mss >> 7)
    n = Counted(wire)
    time.sleep(0.2 + 4 * c.info()["srtt_us"] / 1e6)
    wire.egress(c.from_guest(pattern(acked, c.mss), seq=c.guest_isn + 1 + c.guest_acked))
    c.peer_ack(c.mss)
    assert n["timeouts"] == 1


@pytest.mark.parametrize("below", [True, False])
def test_what_came_twice_is_no_loss(wire: Wire, ip: Encap, below: bool) -> None:
    """D-SACK, RFC 2883: of data below the ACK number, and of data above a hole."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    n = Counted(wire)
    if below:
        c.peer_ack(4 * c.mss)
        blocks = [sack(c, (i, i + 1)) for i in range(4)]
    else:
        c.peer_ack(2 * c.mss)
        blocks = [sack(c, (3, 4), (3, 5))] * 4
    fb = (0, 6 * c.mss)
    for options in blocks:
        wire.ingress(c.from_peer(ack=c.guest_isn + 1 + c.guest_acked, options=options, fb=fb))
    no_loss(n)
    assert c.info()["alpha"] <= 1 - 1 / 17


def test_sack_that_says_nothing_new_is_no_loss(wire: Wire, ip: Encap) -> None:
    """Also as a window update, and on data."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    n = Counted(wire)
    ack: dict[str, Any] = {"ack": c.guest_isn + 1, "options": sack(c, (1, 2)), "fb": (0, c.mss)}
    for i in range(4):
        wire.ingress(c.from_peer(**ack))
        wire.ingress(c.from_peer(**ack, window=c.WINDOW - i))
        wire.ingress(c.from_peer(b"data", **ack))
    no_loss(n)


@pytest.mark.parametrize("blocks", [[(1, 4)], [(1, 1.1), (2, 2.1), (3, 3.1)]])
def test_three_segments_or_blocks_are_loss(
    wire: Wire, ip: Encap, blocks: list[tuple[float, float]]
) -> None:
    """RFC 6675 section 4, IsLost()."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    n = Counted(wire)
    options = sack(c, *blocks)[2:]
    wire.ingress(c.from_peer(ack=c.guest_isn + 1, options=options))
    assert n["cuts_loss"] == 1


def test_handshake_gives_the_first_round_trip_time(wire: Wire, ip: Encap) -> None:
    for active in (True, False):
        c = Conn(wire, ip, active=active)
        if active:
            wire.egress(c.guest_syn())
            time.sleep(0.05)
            wire.ingress(c.peer_synack())
        else:
            wire.ingress(c.peer_syn())
            wire.egress(c.guest_synack())
            time.sleep(0.05)
            c.established()
            wire.ingress(c.from_peer(fb=(0, 0)))
        assert 50_000 <= c.info()["srtt_us"] < 500_000


def test_fast_retransmission_of_the_first_window(wire: Wire, ip: Encap) -> None:
    """Nothing was timed but a handshake sent twice, which says nothing (Karn)."""
    c = Conn(wire, ip, sack=False)
    for _ in range(2):
        wire.egress(c.guest_syn())
    wire.ingress(c.peer_synack())
    c.established()
    n = Counted(wire)
    c.guest_data(10 * c.mss)
    time.sleep(0.03)
    dup = c.from_peer(ack=c.guest_isn + 1, fb=(0, 3 * c.mss))
    wire.ingress(dup, dup, dup)
    wire.egress(c.from_guest(pattern(0, c.mss), seq=c.guest_isn + 1))
    c.peer_ack()
    assert (n["timeouts"], n["cuts_loss"]) == (0, 1)


def test_duplicate_acks_are_a_sign_of_life(wire: Wire, ip: Encap) -> None:
    """A fast retransmission long after the last new data, and not after them."""
    c = Conn(wire, ip, sack=False).open()
    slow_start(c)
    c.guest_data(10 * c.mss)
    n = Counted(wire)
    time.sleep(0.1 + 4 * c.info()["srtt_us"] / 1e6)
    dup = c.peer_ack_frame(0)
    wire.ingress(dup, dup, dup)
    wire.egress(c.from_guest(pattern(c.guest_acked, c.mss), seq=c.guest_isn + 1 + c.guest_acked))
    c.peer_ack()
    assert (n["timeouts"], n["cuts_loss"]) == (0, 1)


def test_data_that_a_syn_ack_did_not_take(wire: Wire, ip: Encap) -> None:
    """TCP Fast Open, RFC 7413 section 4.2.2: sent again at once, 50 ms after the SYN.
    The far switch counted it."""
    c = Conn(wire, ip)
    size = 1000
    wire.egress(c.guest_syn(payload=pattern(0, size)))
    time.sleep(0.05)
    wire.ingress(c.peer_synack())
    c.established()
    n = Counted(wire)
    c.guest_data(size)
    c.guest_data(size)
    c.peer_ack(fb=(0, 3 * size))
    no_loss(n)
    assert n["retransmits"] == 0
    assert n["feedback_bad"] == 0
    assert c.info()["wnd"] >= 10 * c.mss


def test_no_window_is_below_min_window(wire: Wire, ip: Encap) -> None:
    """Also after a timeout."""
    wire.set(min_window=3 * wire.mtu)
    c = governed(wire, ip, False)
    c.guest_data(10 * c.mss)
    n = Counted(wire)
    time.sleep(0.2 + 4 * c.info()["srtt_us"] / 1e6)
    seq = c.guest_isn + 1 + c.guest_acked
    wire.egress(c.from_guest(pattern(c.guest_acked, c.mss), seq=seq))
    (got,) = c.peer_ack(0, window=c.WINDOW - 1)
    assert n["timeouts"] == 1
    assert 3 * wire.mtu <= got.window << 7 < 3 * wire.mtu + 128


@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("segments", [1, 2])
def test_segments_held_back(wire: Wire, ip: Encap, capable: bool, segments: int) -> None:
    """A guest leaves one segment out, or every other of the first ones, and goes on behind
    it; its peer says by SACK what arrives, all of it marked.  One cut in each window of
    data, of bytes that were delivered, and not one until SND.UNA moves."""
    wire.set(fallback="reno")
    c = Conn(wire, ip, capable=capable, guest_ecn=not capable).open()
    c.guest_nxt += c.mss
    if segments > 1:
        c.guest_data(c.mss)
        c.guest_nxt += c.mss
    n = Counted(wire)
    sent = 0
    window = 10 * c.mss
    for _ in range(12):
        c.guest_data(window // c.mss * c.mss, ecn=ECT0)
        sent += window // c.mss * c.mss
        blocks = [(2 * segments - 1, (c.guest_nxt - c.guest_isn - 1) / c.mss), (1, 2)]
        options = sack(c, *blocks[:segments])[2:]
        (got,) = wire.ingress(
            c.from_peer(
                ack=c.guest_isn + 1,
                options=options,
                fb=(sent, sent + (segments - 1) * c.mss) if capable else None,
                flags=ACK if capable else ACK | ECE,
            )
        )
        window = (got.window << 7) - (c.guest_nxt - c.guest_isn - 1) + segments * c.mss
        assert window >= c.mss
    assert n["cuts_ecn"] >= 10 // segments
    assert c.info()["wnd"] <= 3 * c.mss


class Overtaken:
    """Of 20 segments of the guest the first is overtaken by the next ones, of which the
    peer tells by SACK or by duplicate ACKs."""

    def __init__(self, c: Conn, sacked: bool) -> None:
        self.c, self.sacked = c, sacked
        self.marked = 0
        self.first = c.guest_acked
        c.guest_data(20 * c.mss)
        self.before = c.info()

    def tell(self, segments: int = 3, marked: int = 0) -> None:
        """That so many have arrived behind it."""
        c = self.c
        first = self.first // c.mss
        self.marked += marked * c.mss
        ack: dict[str, Any] = {"ack": c.guest_isn + 1 + self.first}
        if self.sacked:
            ack["options"] = sack(c, (first + 1, first + 1 + segments))[2:]
        if c.capable:
            ack["fb"] = (c.fb_ecn + self.marked, self.first + segments * c.mss)
        c.wire.ingress(*[c.from_peer(**ack)] * (1 if self.sacked else segments))

    def again(self) -> None:
        """The guest sends it again."""
        c = self.c
        data = pattern(self.first, c.mss)
        c.wire.egress(c.from_guest(data, seq=c.guest_isn + 1 + self.first))

    def fill(self, again: bool = False, segments: int = 20) -> dict[str, Any]:
        """It has arrived, and so many in all."""
        c = self.c
        total = self.first + (segments + again) * c.mss
        fb = (c.fb_ecn + self.marked, total) if c.capable else None
        c.peer_ack(segments * c.mss, marked=self.marked, fb=fb)
        return c.info()


sacked = pytest.mark.parametrize("sacked", [True, False])
capable = pytest.mark.parametrize("capable", [True, False])


@capable
@sacked
def test_what_is_only_late_is_no_loss(wire: Wire, ip: Encap, capable: bool, sacked: bool) -> None:
    """The window, slow start and alpha are as before."""
    c = governed(wire, ip, capable)
    n = Counted(wire)
    late = Overtaken(c, sacked)
    before = late.before
    late.tell()
    held = c.info()
    assert n["cuts_loss"] == 1
    assert held["wnd"] < 0.6 * before["wnd"]
    after = late.fill()
    assert after["wnd"] >= before["wnd"] - 256
    assert after["ssthresh"] == before["ssthresh"] > after["wnd"]
    if capable:
        assert held["alpha"] == 1
        assert before["alpha"] - 0.12 < after["alpha"] <= before["alpha"]
    # From now on that is known.
    for _ in range(3):
        late = Overtaken(c, sacked)
        late.tell()
        assert c.info()["wnd"] == late.before["wnd"]
        late.fill()
    assert n["cuts_loss"] == 1
    assert n["timeouts"] == 0


def wait(c: Conn) -> Overtaken:
    """On a path that reorders; one segment is overtaken."""
    late = Overtaken(c, True)
    late.tell()
    late.fill()
    late = Overtaken(c, True)
    late.tell()
    return late


@capable
def test_what_does_not_come_for_two_round_trips_is_lost(
    wire: Wire, ip: Encap, capable: bool
) -> None:
    """Also on a path that reorders, and whatever the guest does of it."""
    c = governed(wire, ip, capable)
    late = wait(c)
    n = Counted(wire)
    passed = 3
    for _ in range(4):
        c.guest_data(20 * c.mss)
        for _ in range(4):
            passed += 5
            late.tell(passed)
    assert n["cuts_loss"] == 1


@capable
def test_what_the_guest_sends_again_is_lost(wire: Wire, ip: Encap, capable: bool) -> None:
    """At once where the path reorders; and then the path is not taken for one that does."""
    c = governed(wire, ip, capable)
    late = wait(c)
    n = Counted(wire)
    late.again()
    assert n["cuts_loss"] == 1
    assert late.fill(again=True, segments=8)["wnd"] < 0.6 * late.before["wnd"]
    c.peer_ack(fb=(0, c.guest_sent + c.mss) if capable else None)
    c.guest_data(40 * c.mss)
    c.peer_ack(fb=(0, c.guest_sent + c.mss) if capable else None)
    late = Overtaken(c, True)
    late.tell(4)
    assert n["cuts_loss"] == 2


@pytest.mark.parametrize("more", [0, 1])
@capable
def test_a_cut_stays_if_the_guest_sent_again(
    wire: Wire, ip: Encap, capable: bool, more: int
) -> None:
    """Also in a segment with new data behind it."""
    c = governed(wire, ip, capable)
    late = Overtaken(c, True)
    late.tell()
    if more:
        data = pattern(c.guest_sent - 100, 101)
        wire.egress(c.from_guest(data, seq=c.guest_nxt - 100))
        c.guest_nxt += 1
    else:
        late.again()
    assert late.fill(again=not more, segments=4)["wnd"] < 0.6 * late.before["wnd"]


@capable
def test_what_came_twice_takes_a_cut_back(wire: Wire, ip: Encap, capable: bool) -> None:
    """The guest sent again what was only late: its peer says so by D-SACK (RFC 3708)."""
    c = governed(wire, ip, capable)
    late = Overtaken(c, True)
    first = late.first // c.mss
    late.tell()
    late.again()
    assert late.fill(again=True, segments=10)["wnd"] < 0.6 * late.before["wnd"]
    ack = c.guest_isn + 1 + c.guest_acked
    fb = (c.fb_ecn, late.first + 11 * c.mss) if capable else None
    wire.ingress(c.from_peer(ack=ack, options=sack(c, (first, first + 1)), fb=fb))
    after = c.info()
    assert after["wnd"] >= late.before["wnd"] - 256
    if capable:
        assert after["alpha"] <= late.before["alpha"]


def test_marks_count_where_a_cut_is_taken_back(wire: Wire, ip: Encap) -> None:
    c = governed(wire, ip, True)
    n = Counted(wire)
    late = Overtaken(c, True)
    before = late.before
    late.tell()
    late.tell(6, marked=3)
    assert n["cuts_ecn"] == 0
    after = late.fill(segments=8)
    assert after["alpha"] <= before["alpha"]
    # By alpha / 2.
    want = before["wnd"] * (1 - before["alpha"] / 2)
    assert want * 0.98 < after["wnd"] < want * 1.1
    assert after["ssthresh"] == after["wnd"], "slow start is over"
