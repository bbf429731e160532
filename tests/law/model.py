# SPDX-License-Identifier: Apache-2.0
"""The law of AC/DC (DESIGN section 5) in exact arithmetic.

Written from the description, not from the engine: windows and alpha are
rational numbers, sequence numbers do not wrap.  (alpha is kept to 2^-200, or
its denominator would have a digit more after every round.)

What the description leaves open is read as follows.
- A window of data is what is in flight, no more than the window allows.  It has
  passed as soon as as many bytes are delivered, acknowledged or not.
- A round ends with the ACK by which the window of data of its beginning is
  delivered; alpha is updated before that ACK may cut.
- Whenever a round has 2 MB what was reported so far weighs half as much from
  there on.
- A cut holds until more is delivered than the window of data of that time;
  while it holds the window does not grow.
- Loss within a held cut sets alpha to 1 and cuts no second time.
- A flow is limited by its window if in this round more than half of it was in
  flight (RFC 7661 section 4.1).
  Bytes in flight are noted in units of 64, one of which may be begun.
- Timeout: 1 segment; ssthresh is half the window, at least 2 segments, and
  stays when the timer expires again before the window has grown to the floor
  (RFC 5681 section 3.1).  Until then the window may be below a floor that nobody
  asked for, and a cut does not raise it to it.
- Cuts spread (not in the description): a cut by r on marks, outside of slow
  start, is one by d = min(4 r, max(r, 1/2)) with probability r / d; else the
  window stays.  Either way the cut is held.  The coin is a function of snd_nxt
  and of a number of the flow's own, and of alpha in fixed point, bit for bit as
  the engine has it: 'alpha_bits' is the engine's, which is compared by itself.
- Paced (docs/law.rst): a cut by r on marks, outside of slow start, is one by r / 2 up to an alpha
  of 1/4, by r from 1/2 on, and between by 2 alpha r.
- Another algorithm goes on with the window, its growth, with what holds and with what is to be
  undone; alpha begins at 1.
- Undo (RFC 4015): until it is settled that something was lost, what losses and timeouts
  changed can be taken back: the window, and slow start if it was the first one.  The window
  is kept in units of 256 bytes, rounded down.  What was added to alpha is kept in units of
  1/127, rounded up; when a round ends it shrinks as alpha does, rounded down, and is then
  taken from alpha.  Marks that came while the loss held then cut, unless the hold is one
  of marks.  If marks have cut since, the window stays.  A restart after idle settles it.
- Slow start is a state, which a timeout or a restart begins and ssthresh or a cut
  ends; congestion avoidance has no ssthresh.
- Restart after idle: at most the initial window; slow start to 3/4 of the window
  before (Linux, tcp_cwnd_restart()), or to where it was to end if that is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt

WINDOW_MAX = 1 << 30
LARGE_ROUND = 1 << 21
ONE = 1 << 20
PRECISION = 1 << 200


@dataclass
class Params:
    beta: Fraction = Fraction(1)
    gain: Fraction = Fraction(1, 16)
    initial_window: int = 10
    min_window: int = 0
    max_window: int = 0
    spread: bool = False


def mix(x: int) -> int:
    """The finalizer of MurmurHash3, 32 bits."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = (x ^ x >> shift) * factor & 0xFFFFFFFF
    return x


def flight(n: int) -> int:
    """Bytes in flight, as the engine notes them: in units of 64, one of them begun."""
    return (n // 64 + 1) * 64


@dataclass
class Undo:
    """What losses and timeouts changed."""

    first: bool  # Slow start that nothing had ended before.
    wnd: int = 0
    alpha: int = 0  # By how much it is higher, of 127.
    held: bool = False  # By marks, when the last one came.
    marked: bool = False  # While it held.


@dataclass
class Law:
    """What dctcp and reno have in common; reno has no alpha: it halves.  Swift follows."""

    mss: int
    params: Params
    una: int
    nxt: int
    algorithm: str = "dctcp"
    wnd: Fraction = Fraction(0)
    threshold: Fraction = Fraction(WINDOW_MAX)
    slow_start: bool = True
    alpha: Fraction = Fraction(1)
    rounds: int = 0  # In which alpha was updated since it was exact, ...
    coarse: bool = False  # ... one of them, or this one, with 2 MB or more.
    acked_in_avoidance: int = 0
    delivered: int = 0  # Bytes; what follows are values of this.
    round_end: int = 0
    round_marked: Fraction = Fraction(0)
    round_total: Fraction = Fraction(0)
    most_in_flight: int = 64
    cut_end: int | None = None
    loss_end: int | None = None
    undoes: Undo | None = None
    below_floor: bool = False
    one_segment: bool = False  # Is acknowledged at once.
    salt: int = 0
    alpha_bits: int = ONE
    paced: bool = False

    def __post_init__(self) -> None:
        self.wnd = Fraction(min(self.params.initial_window * self.mss, WINDOW_MAX))
        self.clamp()

    @property
    def floor(self) -> int:
        segments = 1 if self.one_segment else 2
        return max(self.params.min_window or segments * self.mss, self.mss)

    @property
    def cap(self) -> int:
        return max(self.params.max_window, self.mss) if self.params.max_window else WINDOW_MAX

    @property
    def held(self) -> bool:
        return self.cut_end is not None

    @property
    def ssthresh(self) -> Fraction:
        """As the engine tells: congestion avoidance has none."""
        return self.threshold if self.slow_start else self.wnd

    def clamp(self) -> None:
        below = self.below_floor and not self.params.min_window
        floor = self.mss if below else self.floor
        self.wnd = min(max(self.wnd, Fraction(floor)), Fraction(self.cap))

    def reduction(self) -> Fraction:
        if self.algorithm != "dctcp":
            return Fraction(1, 2)
        return self.alpha - self.alpha * self.params.beta / 2

    def spread(self) -> Fraction:
        """The reduction that the coin gives."""
        alpha = self.alpha_bits
        r = alpha - alpha * int(self.params.beta * ONE) // (2 * ONE)
        r = int(self.of_paced(Fraction(r), Fraction(alpha, ONE)))
        if mix((self.nxt ^ self.salt) & 0xFFFFFFFF) // (1 << 12) * self.deep(r) >= r * ONE:
            return Fraction(0)
        return Fraction(self.deep(self.of_paced(self.reduction(), self.alpha) * ONE) / ONE)

    def of_paced(self, r: Fraction, alpha: Fraction) -> Fraction:
        return r * min(max(2 * alpha, Fraction(1, 2)), Fraction(1)) if self.paced else r

    def deep(self, r: int | Fraction) -> int | Fraction:
        """In units of 1 / ONE."""
        return min(4 * r, max(r, ONE // 2))

    def window(self) -> int:
        return self.delivered + min(self.nxt - self.una, int(self.wnd))

    def cut(self, marked: bool = False, end: int | None = None) -> None:
        end = end or self.window()
        reduction = self.reduction()
        if marked and self.algorithm == "dctcp" and not self.slow_start:
            spread = self.params.spread
            reduction = self.spread() if spread else self.of_paced(reduction, self.alpha)
        self.wnd = self.wnd * (1 - reduction)
        self.below_floor = False
        self.clamp()
        self.slow_start = False
        self.acked_in_avoidance = 0
        self.cut_end = end

    def send(self, n: int) -> None:
        self.nxt += n

    def ack(self, acked: int, delivered: int, marked: int, total: int) -> bool:
        in_flight = flight(self.nxt - self.una)
        self.una += acked
        self.delivered += delivered
        window = self.window()
        self.most_in_flight = max(self.most_in_flight, in_flight)
        most = self.most_in_flight
        if acked and self.below_floor:
            self.below_floor = False
            self.clamp()
        if self.algorithm == "dctcp":
            self.round_marked += marked
            self.round_total += total
        while self.round_total >= LARGE_ROUND:
            self.round_marked /= 2
            self.round_total /= 2
            self.coarse = True
        if delivered and self.delivered >= self.round_end:
            if self.round_total:
                fraction = self.round_marked / self.round_total
                gain = self.params.gain
                alpha = (1 - gain) * self.alpha + gain * fraction
                self.alpha = Fraction(round(alpha * PRECISION), PRECISION)
                self.rounds += 1
                if self.undoes:
                    self.undoes.alpha = int(self.undoes.alpha * (1 - gain))
            self.round_marked = self.round_total = Fraction(0)
            self.round_end = window
            self.most_in_flight = flight(self.nxt - self.una)
        if self.cut_end is not None and self.delivered > self.cut_end:
            self.cut_end = None
        if self.loss_end is not None and self.delivered > self.loss_end:
            self.loss_end = None
        congested = self.congested(marked)
        if congested and not self.held:
            # One mark less than a window after a loss that is still repaired
            # belongs to the same congestion.
            self.cut(True, window)
            if self.loss_end is not None:
                self.loss_end = window
            if self.undoes and self.undoes.wnd:
                self.undoes.wnd = int(self.wnd) // 256 * 256
                self.undoes.first = False
                self.undoes.held = True
            return True
        if congested and self.undoes and self.loss_end is not None:
            self.undoes.marked = True
        if acked and not self.held and self.limited(most):
            self.grow(acked)
            self.clamp()
        return False

    def congested(self, marked: int) -> bool:
        return marked > 0

    def limited(self, in_flight: int) -> bool:
        return 2 * in_flight > self.wnd

    def grow(self, acked: int) -> None:
        if self.slow_start:
            step = min(Fraction(acked), max(self.threshold - self.wnd, Fraction(0)))
            self.wnd += step
            acked -= int(step)
            if self.wnd >= self.threshold:
                self.slow_start = False
                self.acked_in_avoidance = 0
        if acked:
            self.avoid(acked)

    def avoid(self, acked: int) -> None:
        """One segment for each window of acknowledged bytes (RFC 3465)."""
        self.acked_in_avoidance += acked
        while self.acked_in_avoidance >= self.wnd:
            self.acked_in_avoidance -= int(self.wnd)
            self.wnd += self.mss

    def note_undo(self) -> Undo:
        if not self.undoes or not self.undoes.wnd:
            self.undoes = Undo(self.slow_start and self.threshold == WINDOW_MAX)
        self.undoes.wnd = max(self.undoes.wnd, int(self.wnd) // 256 * 256)
        if self.loss_end is None:
            self.undoes.held = self.held
        return self.undoes

    def loss(self) -> bool:
        if self.loss_end is not None:
            return False
        undoes = self.note_undo()
        if self.algorithm == "dctcp":
            more = ceil(Fraction(127 * (ONE - self.alpha_bits), ONE))
            undoes.alpha = min(127, undoes.alpha + more)
        self.alpha = Fraction(1)
        self.rounds = 0
        self.coarse = False
        if self.cut_end is not None:
            self.loss_end = self.cut_end
            return False
        self.cut()
        self.loss_end = self.cut_end
        return True

    def undo(self) -> bool:
        was, self.undoes = self.undoes, None
        if not was or not was.wnd:
            return False
        window = self.window()
        self.alpha_bits = max(0, self.alpha_bits - was.alpha * ONE // 127)
        self.alpha = Fraction(self.alpha_bits, ONE)
        self.rounds = 0
        self.coarse = False
        self.below_floor = False
        if self.wnd < was.wnd:
            self.wnd = Fraction(was.wnd)
            self.slow_start = False
            self.acked_in_avoidance = 0
        if was.first:
            self.slow_start = True
            self.threshold = Fraction(WINDOW_MAX)
        if self.loss_end is not None:
            if was.held:
                self.cut_end = self.loss_end
            else:
                self.cut_end = None
            self.loss_end = None
        if was.marked and not was.held:
            self.cut(True, window)
        self.clamp()
        return True

    def settle(self) -> None:
        self.undoes = None

    def switch(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.alpha = Fraction(1)
        self.rounds = 0
        self.coarse = False
        self.round_marked = self.round_total = Fraction(0)

    def timeout(self) -> None:
        self.note_undo()
        end = max(self.window(), self.loss_end or 0, self.cut_end or 0)
        if not self.below_floor:
            self.threshold = max(self.wnd / 2, Fraction(2 * self.mss))
            self.slow_start = True
        self.wnd = Fraction(self.mss)
        self.below_floor = True
        self.most_in_flight = 64
        self.cut_end = None
        self.loss_end = end
        self.clamp()

    def idle(self) -> bool:
        restart = self.params.initial_window * self.mss
        self.undoes = None
        if self.wnd <= restart:
            return False
        before = self.wnd
        most = self.wnd * 3 / 4
        self.threshold = max(self.threshold, most) if self.slow_start else most
        self.slow_start = True
        self.wnd = Fraction(restart)
        self.most_in_flight = 64
        self.clamp()
        return self.wnd < before


@dataclass
class Swift(Law):
    """After Swift (SIGCOMM 2020).

    - The target is what may wait in queues: 25 us, and 100 us by the root of the window in
      segments, of which no more than 100 count; the root in eighths, the time in
      microseconds, rounded down.
    - A report of the network's delay tells what waits; so does, from the fourth on that
      comes without a report between, a round-trip time, by what it is beyond the least.
    - Above the target the window shrinks by what waits, as a part of the smoothed round
      trip, in whole bytes; at most by half, and by half in slow start or if there is a
      mark or no measurement.  It grows only if what was measured last was not above.
    """

    srtt: int = 0
    queue: int | None = None  # Of this ACK, us.
    above: bool = False
    unheard: int = 3  # Round-trip times since the last report.
    min_rtt: int | None = None
    marked: bool = False  # This ACK.

    def target(self) -> int:
        segments = min(self.wnd / self.mss, Fraction(100))
        root = Fraction(isqrt(int(64 * segments)), 8)
        return 25 + int(100 / root)

    def hear(self, rtt: int, report: int | None) -> None:
        """Of the next ACK: 0, or its round-trip time; what a report says is in queues."""
        if rtt:
            self.min_rtt = min(rtt, self.min_rtt or rtt)
        self.queue = report
        if report is not None:
            self.unheard = 0
        elif rtt and self.unheard >= 3:
            assert self.min_rtt
            self.queue = rtt - self.min_rtt
        elif rtt:
            self.unheard += 1

    def congested(self, marked: int) -> bool:
        self.marked = marked > 0
        if self.queue is not None:
            self.above = self.queue > self.target()
        return self.marked or (self.queue is not None and self.above)

    def ack(self, acked: int, delivered: int, marked: int, total: int) -> bool:
        cut = super().ack(acked, delivered, marked, total)
        self.queue = None
        return cut

    def reduction(self) -> Fraction:
        half = Fraction(1, 2)
        if self.queue is None or self.marked or self.slow_start or 2 * self.queue >= self.srtt:
            return half
        return Fraction(int(self.wnd * self.queue / self.srtt)) / self.wnd

    def avoid(self, acked: int) -> None:
        if not self.above:
            super().avoid(acked)

    def timeout(self) -> None:
        super().timeout()
        self.min_rtt = None

    def idle(self) -> bool:
        self.min_rtt = None
        return super().idle()


@dataclass
class Cubic:
    """CUBIC (RFC 9438; W_est does not grow faster beyond cwnd_prior, as in Linux) in
    real numbers: the window after an ACK in congestion avoidance."""

    mss: int
    w_max: float
    start_ms: float
    wnd_start: float
    C: float = 0.4
    beta: float = 0.7

    @property
    def k(self) -> float:
        """Seconds until W_max."""
        return float(((self.w_max - self.wnd_start) / self.mss / self.C) ** (1 / 3))

    def target(self, now_ms: float, rtt: float, error_ms: float = 0) -> float:
        """With so many milliseconds more (or less) from or to K."""
        # The clock of another thread may have been ahead.
        t = max(now_ms - self.start_ms, 0) / 1000
        cubic = self.C * (t + rtt - self.k) ** 3 * self.mss + self.w_max
        growth = 3 * (1 - self.beta) / (1 + self.beta)
        reno = self.wnd_start + growth * t / rtt * self.mss
        # W_est starts at W_cubic(0).
        return max(cubic + error_ms * self.slope(t + rtt), reno + error_ms * self.slope(0))

    def slope(self, t: float) -> float:
        """Bytes that a millisecond makes at 't' seconds, at most."""
        return 3 * self.C * (abs(t - self.k) + 0.002) ** 2 * self.mss / 1000
