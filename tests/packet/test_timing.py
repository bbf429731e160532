# SPDX-License-Identifier: Apache-2.0

"""Time on the wire and On-Ramp: marked segments, reports of when they came, what is believed
of these, and pauses."""

from __future__ import annotations

import dataclasses
import time

import pytest

from acdc_testlib.ovs import datapath_type
from acdc_testlib.tcp import (
    ACK,
    CAP_TIMING,
    CE,
    PSH,
    RES_FACK,
    Encap,
    Segment,
    feedback,
    parse,
    report,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same

MS = 1000  # us
HOUR = 3600_000 * MS
# Far more than a busy machine, or the time that the test itself takes, makes of the delay.
T = 100 * MS
QUEUE = 150 * MS
MOST = 10 * MS


def now_us() -> int:
    """By the clock of this machine, which is the switch's."""
    return time.time_ns() // 1000


class Timed(Conn):
    """A connection whose both ends time."""

    def __init__(self, wire: Wire, encap: Encap | None = None, flags: int = CAP_TIMING) -> None:
        super().__init__(wire, *([encap] if encap else []), flags=flags)

    def mark(self) -> tuple[Segment, int]:
        """The guest sends a segment, which is marked; and when it left."""
        (out,) = self.guest_data(1000, flags=ACK | PSH)
        assert out.fack, "not marked"
        return out, now_us()

    def answer(self, out: Segment, clock_us: int, ago_us: int = 0) -> list[Segment]:
        """All has come, the segment so long ago, at that time."""
        self.guest_acked = self.guest_sent
        return self.wire.ingress(self.reported(out, clock_us, ago_us))

    def reported(self, out: Segment, clock_us: int, ago_us: int = 0) -> bytes:
        mark = out.seq >> 7 & 0xFF
        option = report(0, self.guest_acked, mark, ago_us, clock_us)
        return self.from_peer(ack=self.guest_isn + 1 + self.guest_acked, options=[option])

    def round_trip(self) -> None:
        self.answer(*self.mark())

    def queue(self, us: int = QUEUE) -> None:
        """A round trip in which the segment waited so long on its way."""
        out, left = self.mark()
        time.sleep(us / 1e6)
        self.answer(out, left + us)


@pytest.fixture
def ramp(wire: Wire) -> Wire:
    wire.set(on_ramp=T)
    return wire


@pytest.fixture(params=[False, True])
def ptp(ramp: Wire, request: pytest.FixtureRequest) -> bool:
    """Whether clocks are stated to be synchronized."""
    stated: bool = request.param
    if stated:
        ramp.set_global("acdc-clock", "ptp")
    return stated


def test_marks_and_reports(ramp: Wire, ip: Encap) -> None:
    """As the sending side: one segment of a round trip is marked, and what comes back is
    taken, and taken off."""
    n = Counted(ramp)
    c = Timed(ramp, ip).open()
    sent = c.from_guest(pattern(0, 1000))
    c.guest_nxt += 1000
    (out,) = ramp.egress(sent)
    same(out, sent, "ecn", "reserved")
    assert out.reserved == RES_FACK
    assert not any(segment.fack for segment in c.guest_data(5000))
    (got,) = c.answer(out, now_us())
    assert got.options == ()
    info = c.info()
    assert 0 < info["net_rtt_us"] < 5_000_000
    c.round_trip()
    assert (n["timed"], n["reports"], n["reports_ignored"]) == (2, 2, 0)


def test_the_far_guest_s_time_is_not_the_network_s(ramp: Wire) -> None:
    """Its ACK comes 100 ms after the segment, as the report says."""
    n = Counted(ramp)
    c = Timed(ramp).open()
    c.round_trip()
    least = []
    for _ in range(5):
        out, left = c.mark()
        time.sleep(0.1)
        c.answer(out, left, now_us() - left)
        least.append(c.info()["net_rtt_us"])
    assert min(least) < 80 * MS, "with the far guest's"
    assert n["on_ramp_pauses"] == 0


def test_reports(ramp: Wire, ip: Encap) -> None:
    """As the receiving side: on the next ACK, once, and how long ago it came."""
    c = Timed(ramp, ip).open()
    (got,) = c.peer_data(1000, reserved=RES_FACK)
    came = now_us()
    assert got.reserved == 0 and got.payload == pattern(0, 1000)
    time.sleep(0.02)
    (ack,) = c.guest_ack()
    said = ack.report
    assert said is not None and (said.ecn_bytes, said.total_bytes) == (0, 1000)
    assert said.mark == (c.peer_isn + 1) >> 7 & 0xFF
    assert 20 * MS <= said.ago_us < 5_000_000
    assert abs(said.clock_us - came) % 2**32 < 5_000_000
    (ack,) = c.guest_ack()
    assert ack.report is None and ack.feedback == (0, 1000)


def test_report_that_does_not_fit_is_a_fack(ramp: Wire) -> None:
    c = Timed(ramp).open()
    c.peer_data(1000, reserved=RES_FACK)
    fack, data = c.guest_data(c.mss)
    assert fack.fack and fack.report is not None and not fack.payload
    assert data.payload == pattern(0, c.mss) and data.report is None


def test_old_peer(ramp: Wire, ip: Encap) -> None:
    """One that does not say TIMING gets no mark, and its marks mean nothing."""
    n = Counted(ramp)
    c = Timed(ramp, ip, flags=0).open()
    for _ in range(5):
        assert not any(segment.fack for segment in c.guest_data(3000))
        c.peer_ack()
    c.peer_data(1000, reserved=RES_FACK)
    (ack,) = c.guest_ack()
    assert ack.report is None and ack.feedback == (0, 1000)
    assert (n["timed"], n["reports"], n["flows_capable"]) == (0, 0, 1)


def conversation(c: Timed) -> list[Segment]:
    """What the network gets of it."""
    out = c.wire.egress(c.guest_syn())
    c.wire.ingress(c.peer_synack())
    c.established()
    for size in (0, 1000, 3 * c.mss, 100):
        out += c.guest_data(size) if size else c.guest_ack()
        c.peer_ack()
        c.peer_data(2000)
        c.peer_data(500, ecn=CE)
        out += c.guest_ack()
    return out


@pytest.mark.parametrize("flags", [0, CAP_TIMING])
def test_off_not_a_byte_differs(wire: Wire, ip: Encap, flags: int) -> None:
    """Whatever the peer offers; with it, a bit of the SYN and the mark do."""
    same_port = wire.port()
    captured = []
    for on_ramp in (0, T):
        wire.set(on_ramp=on_ramp)
        wire.flush()
        c = Timed(wire, ip, flags)
        c.guest_port, c.guest_isn, c.peer_isn = same_port, 1, 2
        c.guest_nxt, c.peer_nxt = 1, 2
        captured.append(conversation(c))
    off, on = captured
    syn = off[0].capability
    assert syn is not None and not syn[1] & CAP_TIMING
    assert not any(segment.reserved & RES_FACK or segment.report for segment in off)
    assert len(off) == len(on)
    for a, b in zip(off, on, strict=True):
        if a is not off[0] and not b.fack:
            assert a.raw == b.raw
        else:
            hidden = {"raw": b"", "options": (), "reserved": 0}
            assert dataclasses.replace(a, **hidden) == dataclasses.replace(b, **hidden)  # type: ignore[arg-type]
    assert any(segment.fack for segment in on) == bool(flags)


def test_replayed_report(ramp: Wire) -> None:
    c = Timed(ramp).open()
    c.round_trip()
    out, left = c.mark()
    c.answer(out, left)
    n = Counted(ramp)
    before = c.info()
    ramp.ingress(*[c.reported(out, left + HOUR)] * 3)
    assert (n["reports"], n["reports_ignored"]) == (0, 3)
    assert c.info()["delay_us"] == before["delay_us"]
    assert n["on_ramp_pauses"] == 0


def test_report_of_another_segment(ramp: Wire) -> None:
    """Late: the next one has been marked meanwhile."""
    c = Timed(ramp).open()
    old, _ = c.mark()
    c.peer_ack()
    time.sleep(0.05)
    c.mark()
    n = Counted(ramp)
    ramp.ingress(c.reported(old, now_us() + HOUR))
    assert (n["reports"], n["reports_ignored"], n["on_ramp_pauses"]) == (0, 1, 0)


def test_late_report(ramp: Wire) -> None:
    """It waited on its way back: that is no queue on the way there."""
    c = Timed(ramp).open()
    c.round_trip()
    n = Counted(ramp)
    out, left = c.mark()
    time.sleep(QUEUE / 1e6)
    c.answer(out, left)
    assert c.info()["net_rtt_us"] >= QUEUE
    assert (n["reports"], n["on_ramp_pauses"]) == (1, 0)


def test_impossible_times(ramp: Wire) -> None:
    """Longer ago than it was sent."""
    c = Timed(ramp).open()
    c.round_trip()
    n = Counted(ramp)
    for ago in (10_000 * MS, 2**24 - 1):
        out, left = c.mark()
        c.answer(out, left, ago)
        time.sleep(0.05)
    assert (n["reports"], n["reports_ignored"], n["on_ramp_pauses"]) == (0, 2, 0)


def test_clock_that_is_set(ramp: Wire, ptp: bool) -> None:
    """By an hour, to and fro: counted, and nothing pauses."""
    c = Timed(ramp).open()
    c.round_trip()
    n = Counted(ramp)
    for step in (HOUR, 0, -HOUR, 0):
        out, left = c.mark()
        c.answer(out, left + step)
    # What differs from the clock before, and from the switch's own.
    assert n["reports_clock"] >= 4
    assert (n["reports"], n["on_ramp_pauses"]) == (4, 0)


def test_stated_clocks_give_the_whole_delay(ramp: Wire, ptp: bool) -> None:
    """Else only what is more than the least so far."""
    c = Timed(ramp).open()
    c.queue()
    assert (c.info()["delay_us"] >= QUEUE) == ptp


def test_peer_that_lies(ramp: Wire) -> None:
    """It says a delay that the round trip does not bear out; stated clocks or not."""
    for clock in (None, "ptp"):
        if clock:
            ramp.set_global("acdc-clock", clock)
        c = Timed(ramp).open()
        for _ in range(3):
            c.round_trip()
        n = Counted(ramp)
        for lie in (QUEUE, 1000 * MS, -QUEUE):
            out, left = c.mark()
            c.answer(out, left + lie)
            assert c.info()["delay_us"] <= c.info()["net_rtt_us"] + 32
        assert n["on_ramp_pauses"] == 0


def test_guest_that_lies(ramp: Wire) -> None:
    """It marks and reports itself: nothing of that leaves."""
    c = Timed(ramp).open()
    c.peer_data(1000)
    n = Counted(ramp)
    options = [report(7, 7, 7, 7, 7)]
    (out,) = ramp.egress(c.from_guest(options=options, reserved=RES_FACK))
    assert not out.fack and out.report is None and out.feedback == (0, 1000)
    out, _ = c.mark()
    # Not the first of the round trip.
    sent = c.from_guest(pattern(c.guest_sent, 100), options=options, reserved=RES_FACK)
    (out,) = ramp.egress(sent)
    assert not out.fack and out.report is None
    assert n["forged"] == 2
    other = Timed(ramp)  # Of no connection.
    (out,) = ramp.egress(other.from_guest(b"x", options=options, reserved=RES_FACK))
    assert not out.has_acdc
    # A report without a connection to whom it belongs.
    (got,) = ramp.ingress(other.from_peer(b"x", options=[report(7, 7, 7, 7, 7)]))
    assert got.options == ()
    assert n["reports"] == 0


def test_feedback_without_report_is_enough(ramp: Wire) -> None:
    """Lost reports cost measurements, nothing else."""
    c = Timed(ramp).open()
    n = Counted(ramp)
    for _ in range(10):
        assert len(c.guest_data(1000)) == 1
        (got,) = ramp.ingress(c.peer_ack_frame(options=[feedback(0, c.guest_sent)], fb=None))
        assert got.options == ()
    assert n["timed"] > 0
    assert (n["reports"], n["reports_ignored"], n["on_ramp_pauses"]) == (0, 0, 0)


@pytest.mark.skipif(datapath_type() == "system", reason="a tap has no fq")
def test_pause(ramp: Wire, ptp: bool) -> None:
    """No longer than 10 ms, whatever the delay is; what waits comes in order, and then data
    goes on.  Once of several times on a busy machine."""
    waits = []
    for _ in range(20):
        c = Timed(ramp).open()
        c.round_trip()
        n = Counted(ramp)
        c.queue()
        begin = time.monotonic()
        for i in range(3):
            ramp.guest.send(c.from_guest(pattern(c.guest_sent, 1000 + i)))
            c.guest_nxt += 1000 + i
        got = [ramp.uplink.receive(1) for _ in range(3)]
        wait = time.monotonic() - begin
        segments = [parse(data) for data in got if data]
        assert [len(segment.payload) for segment in segments if segment] == [1000, 1001, 1002]
        assert (n["on_ramp_pauses"], n["on_ramp_cut"], n["on_ramp_us"]) == (1, 1, MOST)
        waits.append(wait)
        if wait < 0.02:
            break
    assert 0.001 < min(waits) < 0.02, waits


@pytest.mark.skipif(datapath_type() == "system", reason="a tap has no fq")
def test_acks_do_not_pause(ramp: Wire) -> None:
    for _ in range(20):
        c = Timed(ramp).open()
        c.round_trip()
        c.queue()
        ramp.guest.send(c.from_guest(pattern(c.guest_sent, 1000)))
        c.guest_nxt += 1000
        ramp.guest.send(c.from_guest())
        first, second = (parse(ramp.uplink.receive(1) or b"") for _ in range(2))
        assert first and second
        if not first.payload and len(second.payload) == 1000:
            return
    pytest.fail("an ACK waits")
