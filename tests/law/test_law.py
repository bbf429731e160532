# SPDX-License-Identifier: Apache-2.0
"""The engine's law against the model, over random feedback, loss, timeouts,
idle and application-limited phases, and changes of policy.

Bounds.
- alpha: a round loses less than (1 + g) * 2^-20 to truncation, and what was
  lost before shrinks by 1 - g, so after n rounds the engine is at most
  min(n, 1/g) * (1 + g) * 2^-20 below the exact value and never above.  In rounds
  of 2 MB and more sums are halved, of whole bytes: the marked part is then right
  within 2^-19, either way.  alpha runs freely in both for the whole sequence.
- window: the law is compared step by step, from the same window: equal for
  reno, for growth, loss, timeouts, and idle; a cut of dctcp is at most
  1 byte + wnd * (error of alpha + 2^-20) above and wnd * 2^-20 below the exact
  value; paced twice that, with spread cuts four times, and whether it cuts is compared bit
  for bit.
- cubic: within what 2 ms more or less make, plus 1/250 segment.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from ctypes import CDLL
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from law.engine import Engine, build
from law.model import ONE, Cubic, Law, Params

BETAS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)]
GAINS = [Fraction(1, 16), Fraction(1, 4), Fraction(1, 256), Fraction(1), Fraction(3, 1 << 20)]
EVENTS = [
    "round", "round", "round", "send", "send", "ack", "ack", "ack", "part", "feedback",
    "loss", "loss", "undo", "undo", "settle", "timeout", "idle", "policy", "prompt", "paced",
    "switch",
]  # fmt: skip
# The model's own rounding, times any window.
EPSILON = Fraction(1, 1 << 100)
Event = tuple[str, int, int]
SETTINGS = settings(
    max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.fixture(scope="session")
def dll(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CDLL]:
    yield build(Path(tmp_path_factory.mktemp("law")))


class Pair:
    """Engine and model of one flow, side by side."""

    MODEL = Law

    def __init__(
        self,
        dll: CDLL,
        algorithm: str,
        params: Params,
        mss: int = 1448,
        isn: int = 0xFFFF0000,
        salt: int = 0,
    ) -> None:
        self.exact = algorithm != "dctcp"
        self.mss = mss
        self.engine = Engine(dll)
        self.model = self.MODEL(mss, params, isn, isn, algorithm, salt=salt)
        self.engine.salt(salt)
        self.now = 0xFFFFF000
        self.srtt_us = 1000
        self.rtt_us = 0  # Of the next ACK.
        self.cuts = self.reductions = 0
        self.growths = self.undone = 0
        self._policy(params)
        self._env()
        self.engine.init(algorithm)
        self.compare("init", self.model.wnd)

    def _policy(self, p: Params) -> None:
        self.engine.params(
            int(p.beta * ONE),
            int(p.gain * ONE),
            p.initial_window,
            p.min_window,
            p.max_window,
            p.spread,
        )

    def _env(self) -> None:
        self.engine.env(self.mss, self.model.una, self.model.nxt, self.now, self.srtt_us)

    def alpha_error(self) -> Fraction:
        gain = self.model.params.gain
        rounds = min(Fraction(self.model.rounds), 1 / gain)
        return Fraction(rounds) * (1 + gain) / ONE + self.ratio_error()

    def ratio_error(self) -> Fraction:
        return Fraction(2 if self.model.coarse else 0, ONE)

    def compare(self, event: str, before: Fraction, cut: bool = False) -> None:
        model, engine = self.model, self.engine
        wnd, ssthresh = engine.wnd, engine.ssthresh
        if not self.exact:
            error = model.alpha - Fraction(engine.alpha, ONE)
            assert -EPSILON - self.ratio_error() <= error <= self.alpha_error(), f"{event}: alpha"
        if self.exact:
            assert wnd == int(model.wnd), f"{event}: window"
            assert ssthresh == int(model.ssthresh), f"{event}: ssthresh"
        else:
            bound: Fraction = Fraction(0)
            low: Fraction = Fraction(0)
            if cut:
                times = (4 if model.params.spread else 1) * (2 if model.paced else 1)
                bound = 1 + times * before * (self.alpha_error() + Fraction(1, ONE))
                low = times * before * (Fraction(1, ONE) + self.ratio_error()) + EPSILON
            assert -low <= wnd - model.wnd <= bound, f"{event}: window {wnd}, {float(model.wnd)}"
            # Half a window, 3/4 of one: whole bytes, three of four at most.
            assert abs(ssthresh - model.ssthresh) <= max(bound, Fraction(3)), f"{event}: ssthresh"
        # Both go on from the same window; nothing else is taken over.
        model.wnd = Fraction(wnd)
        if model.slow_start:
            model.threshold = Fraction(ssthresh)

        # What holds whatever the model says.
        assert wnd <= max(model.cap, self.mss)
        assert wnd >= min(self.mss if model.below_floor else model.floor, model.cap)

    def send(self, n: int) -> None:
        self.model.send(n)

    def fill(self) -> None:
        """Sends whole segments as far as the window goes."""
        room = int(self.model.wnd) - (self.model.nxt - self.model.una)
        self.send(max(0, room // self.mss * self.mss))

    def ack(self, acked: int, marked: int, total: int, delivered: int | None = None) -> None:
        model = self.model
        delivered = acked if delivered is None else delivered
        before = model.wnd
        was_held = model.held and model.delivered + delivered <= (model.cut_end or 0)
        self.engine.env(self.mss, model.una + acked, model.nxt, self.now, self.srtt_us)
        engine_cut = self.engine.ack(acked, marked, total, self.rtt_us, delivered)
        model.alpha_bits = self.engine.alpha
        cut = model.ack(acked, delivered, marked, total)
        assert engine_cut == cut
        self.cuts += cut
        after = self.engine.wnd
        self.reductions += after < before
        assert not (was_held and after != before), "a held window moved"
        assert not (cut and was_held), "two cuts in one window of data"
        if after > before and not cut:
            self.growths += 1
            assert acked, "grew without an ACK"
        self.compare("ack", before, cut)
        if cut and model.undoes and model.undoes.wnd:
            model.undoes.wnd = after // 256 * 256

    def loss(self) -> None:
        before = self.model.wnd
        self.model.alpha_bits = self.engine.alpha
        cut = self.model.loss()
        self._env()
        assert self.engine.loss() == cut
        if not self.exact:
            assert self.engine.alpha >= ONE - 64 or not cut
        self.compare("loss", before, cut)

    def undo(self) -> None:
        before = self.model.wnd
        was = self.model.undoes
        self.model.alpha_bits = self.engine.alpha
        undone = self.model.undo()
        self._env()
        assert self.engine.undo() == undone
        self.undone += undone
        cut = bool(was and was.marked and not was.held)
        self.compare("undo", max(before, Fraction(was.wnd)) if was else before, cut)
        assert cut or self.engine.wnd >= before

    def timeout(self) -> None:
        before = self.model.wnd
        self.model.timeout()
        self._env()
        self.engine.timeout()
        self.compare("timeout", before)
        smallest = max(self.mss, self.model.params.min_window)
        assert self.engine.wnd == min(smallest, self.model.cap)

    def idle(self) -> None:
        before = self.model.wnd
        smaller = self.model.idle()
        self._env()
        assert self.engine.idle() == smaller
        self.compare("idle", before)

    def policy(self, params: Params) -> None:
        gain = self.model.params.gain
        if params.gain != gain:
            # The bound is for one gain.  Let the error shrink first.
            params = replace(params, gain=gain)
        self.model.params = params
        self._policy(params)
        self._env()
        self.model.clamp()
        self.engine.clamp()
        self.compare("policy", self.model.wnd)

    def paced(self, paced: bool) -> None:
        self.model.paced = paced
        self.engine.paced(paced)

    def switch(self) -> None:
        """From dctcp to reno, and back."""
        algorithm = "reno" if self.model.algorithm == "dctcp" else "dctcp"
        self.exact = algorithm != "dctcp"
        self.model.switch(algorithm)
        self.engine.switch(algorithm)
        self.compare("switch", self.model.wnd)

    def run(self, events: list[Event]) -> None:
        model = self.model
        for name, x, y in events:
            self.now += x % 50
            in_flight = model.nxt - model.una
            if name == "round":
                # A whole window, acknowledged by twos, some marked.
                self.fill()
                threshold = y % 101
                for _ in range(40):
                    if model.nxt == model.una:
                        break
                    n = min(2 * self.mss, model.nxt - model.una)
                    x = (x * 1103515245 + 12345) % (1 << 31)
                    self.ack(n, n if x // 65536 % 100 < threshold else 0, n)
                    if x % 3:
                        self.fill()
            elif name == "send":
                self.send(min(x % (3 * self.mss), max(0, int(model.wnd) - in_flight)))
            elif name == "ack" and in_flight:
                n = min(in_flight, 1 + x % (4 * self.mss))
                self.ack(n, y % (n + 1) if y % 3 == 0 else 0, n)
            elif name == "part" and in_flight:
                # What is acknowledged and what is reported differ.
                n = min(in_flight, 1 + x % self.mss)
                total = y % (2 * self.mss)
                self.ack(n, x % (total + 1), total, (n + total) // 2)
            elif name == "feedback":
                total = 1 + y % self.mss
                self.ack(0, x % (total + 1), total, total)
            elif name == "loss" and in_flight:
                self.loss()
            elif name == "undo":
                self.undo()
            elif name == "settle":
                self.model.settle()
                self.engine.settle()
            elif name == "timeout" and in_flight:
                self.timeout()
            elif name == "idle" and not in_flight:
                self.idle()
            elif name == "prompt":
                # The floor of the next cut.
                self.model.one_segment = x % 2 == 0
                self.engine.one_segment(x % 2 == 0)
                self.policy(self.model.params)
            elif name == "paced":
                self.paced(x % 2 == 0)
            elif name == "switch" and self.model.algorithm != "swift":
                self.switch()
            elif name == "policy" and x % 4 == 0:
                self.policy(
                    Params(
                        BETAS[x // 4 % 4],
                        self.model.params.gain,
                        10,
                        [0, 1, 20000][y % 3],
                        [0, 100, 50000, 10**9][y // 3 % 4],
                        self.model.params.spread,
                    )
                )


events = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 1 << 30), st.integers(0, 1 << 30)),
    min_size=10,
    max_size=120,
)
sizes = st.sampled_from([64, 536, 1448, 8948])


@given(events=events, gain=st.sampled_from(GAINS), mss=sizes, isn=st.integers(0, 0xFFFFFFFF))
@pytest.mark.parametrize("beta", BETAS, ids=str)
@SETTINGS
def test_dctcp(
    dll: CDLL, beta: Fraction, events: list[Event], gain: Fraction, mss: int, isn: int
) -> None:
    Pair(dll, "dctcp", Params(beta, gain), mss, isn).run(events)


numbers = st.integers(0, 0xFFFFFFFF)


@given(events=events, gain=st.sampled_from(GAINS), mss=sizes, isn=numbers, salt=numbers)
@pytest.mark.parametrize("beta", BETAS, ids=str)
@SETTINGS
def test_spread_cuts(
    dll: CDLL, beta: Fraction, events: list[Event], gain: Fraction, mss: int, isn: int, salt: int
) -> None:
    Pair(dll, "dctcp", Params(beta, gain, spread=True), mss, isn, salt).run(events)


@given(events=events, mss=sizes, isn=st.integers(0, 0xFFFFFFFF))
@SETTINGS
def test_reno(dll: CDLL, events: list[Event], mss: int, isn: int) -> None:
    Pair(dll, "reno", Params(), mss, isn).run(events)


@pytest.mark.parametrize(
    ("algorithm", "beta", "gain"),
    [("dctcp", beta, gain) for beta in BETAS for gain in GAINS]
    + [("reno", Fraction(1), Fraction(1, 16))],
    ids=str,
)
def test_long(dll: CDLL, algorithm: str, beta: Fraction, gain: Fraction) -> None:
    """Thousands of rounds: errors do not accumulate."""
    rng = random.Random(f"{algorithm}{beta}{gain}")
    pair = Pair(dll, algorithm, Params(beta, gain, max_window=100000))
    pair.run([(rng.choice(EVENTS), rng.getrandbits(30), rng.getrandbits(30)) for _ in range(2000)])
    assert pair.cuts > 100
    assert pair.growths > 100
    assert pair.undone > 5


@pytest.mark.parametrize("beta", BETAS, ids=str)
def test_spread_cuts_mean(dll: CDLL, beta: Fraction) -> None:
    """Rarer cuts, and on average the window is as without."""
    mean: list[float] = []
    share: list[float] = []
    for spread in (False, True):
        pair = Pair(dll, "dctcp", Params(beta, spread=spread), salt=12345)
        total = 0
        for _ in range(3000):
            # A queue that marks from 100 segments on.
            pair.fill()
            n = pair.model.nxt - pair.model.una
            pair.ack(n, max(0, n - 100 * pair.mss), n)
            total += pair.engine.wnd
        mean.append(total / 3000)
        share.append(pair.reductions / pair.cuts)
    assert share[0] == 1
    assert share[1] < 0.7
    assert 0.85 < mean[1] / mean[0] < 1.05


@pytest.mark.parametrize("marked", [0, 1, 7, 10])
def test_alpha_converges(dll: CDLL, marked: int) -> None:
    """With a constant fraction F marked alpha goes to F."""
    pair = Pair(dll, "dctcp", Params(max_window=14480))
    for _ in range(400):
        pair.fill()
        n = pair.model.nxt - pair.model.una
        pair.ack(n, n * marked // 10, n)
    assert abs(Fraction(pair.engine.alpha, ONE) - Fraction(marked, 10)) < Fraction(1, 1000)


@pytest.mark.parametrize("gain", [Fraction(1, 16), Fraction(1)], ids=str)
def test_large_rounds(dll: CDLL, gain: Fraction) -> None:
    """Windows of up to 200 MB, which a path of 10 Gbit/s and 150 ms takes."""
    rng = random.Random(f"large{gain}")
    pair = Pair(dll, "dctcp", Params(gain=gain, initial_window=20000), 8948)
    for _ in range(60):
        pair.fill()
        share = rng.choice([0, 1, 30, 100])
        while pair.model.nxt > pair.model.una:
            n = min(rng.randrange(1, 4 << 20), pair.model.nxt - pair.model.una)
            pair.ack(n, rng.randrange(n + 1) * share // 100, n)
    assert pair.model.coarse
    assert pair.cuts > 10


@pytest.mark.parametrize("beta", BETAS, ids=str)
def test_equation(dll: CDLL, beta: Fraction) -> None:
    """wnd * (1 - (alpha - alpha * beta / 2)) for known alpha: AC/DC, section 3.4."""
    alpha = Fraction(1)
    for rounds in range(0, 60, 7):
        pair = Pair(dll, "dctcp", Params(beta, initial_window=1000), mss=1000)
        for _ in range(rounds):
            pair.send(1000)
            pair.ack(1000, 0, 1000)
        alpha = Fraction(15, 16) ** rounds
        pair.send(2000)
        pair.ack(0, 1, 1000)
        want = max(1000000 * (1 - (alpha - alpha * beta / 2)), Fraction(2000))
        assert abs(pair.engine.wnd - want) < 1000000 * 18 / ONE + 1


@pytest.mark.parametrize("algorithm", ["dctcp", "reno", "cubic"])
def test_stale_marks(dll: CDLL, algorithm: str) -> None:
    """Gigabytes under algorithm none, then another: the first round ends, the
    first mark cuts."""
    engine = Engine(dll)
    engine.params(ONE, ONE // 16, 10, 0, 0)
    una = 0
    engine.env(1448, una, una, 0, 1000)
    engine.init("none")
    for _ in range(3):
        una += 1 << 30
        engine.env(1448, una, una + 14480, 0, 1000)
        engine.ack(1 << 30, 0, 1 << 30)
    engine.switch(algorithm)
    una += 14480
    engine.env(1448, una, una + 14480, 0, 1000)
    assert not engine.ack(14480, 0, 14480)
    if algorithm == "dctcp":
        assert engine.alpha == ONE * 15 // 16
    assert engine.ack(0, 1, 1)


@given(
    loss_wnd=st.integers(10, 2000),
    second=st.booleans(),
    mss=sizes,
    rtt_us=st.sampled_from([50, 1000, 10000, 100000]),
    steps=st.lists(st.tuples(st.integers(-2, 3000), st.integers(1, 8)), min_size=1, max_size=60),
)
@example(100, False, 1448, 1000, [(0, 1), (-1, 1)])
@example(1058, False, 8948, 10000, [(0, 2), (2313, 1), (2520, 1), (807, 3)])
@SETTINGS
def test_cubic(
    dll: CDLL, loss_wnd: int, second: bool, mss: int, rtt_us: int, steps: list[tuple[int, int]]
) -> None:
    engine = Engine(dll)
    engine.params(ONE, ONE // 16, loss_wnd, 0, 0)
    now, una = 0xFFFFF000, 5
    nxt = una + loss_wnd * mss
    engine.env(mss, una, nxt, now, rtt_us)
    engine.init("cubic")
    w_max = 0.0
    for _ in range(1 + second):
        before = engine.wnd
        # Fast convergence, RFC 9438 section 4.7.
        w_max = before * (1 + 0.7) / 2 if before < w_max else float(before)
        engine.env(mss, una, nxt, now, rtt_us)
        assert engine.loss()
        assert abs(engine.wnd - max(before * 0.7, 2 * mss)) <= 1
        una = nxt + 1
        nxt = una + engine.wnd
        # Ends the hold; no growth as nothing is in flight.
        engine.env(mss, una, una, now, rtt_us)
        engine.ack(0, 0, 1, delivered=loss_wnd * mss + 1)
    start = engine.wnd
    cubic = None
    rtt = rtt_us / 1e6
    for wait, segments in steps:
        now += wait
        before = engine.wnd
        nxt = una + before
        acked = min(segments * mss, before)
        una += acked
        engine.env(mss, una, nxt, now, rtt_us)
        engine.ack(acked, 0, acked)
        if cubic is None:
            cubic = Cubic(mss, max(w_max, start), now, start)
        # The engine counts in whole milliseconds.
        low = cubic.target(now, rtt, -2) - mss / 250 - 4
        high = cubic.target(now, rtt, 2) + mss / 250 + 4
        # RFC 9438 section 4.4: between no growth and half a window a round trip.
        low = min(max(low, before), before * 1.5)
        high = min(max(high, before), before * 1.5)
        assert before + (low - before) * acked / before - 2 <= engine.wnd
        assert engine.wnd <= min(before + (high - before) * acked / before + 2, 1 << 30)


@pytest.mark.parametrize("cap", [1_000_000, 999_999, 1_000_001])
def test_cubic_at_a_cap(dll: CDLL, cap: int) -> None:
    """No window is released to newcomers by who loses at the window of the loss before (RFC
    9438 section 4.7)."""
    engine = Engine(dll)
    mss, now, una = 1000, 0, 0
    engine.params(ONE, ONE // 16, 2000, 0, cap)
    engine.env(mss, una, una, now, 100_000)
    engine.init("cubic")
    rounds = []
    for _ in range(4):
        nxt = una + engine.wnd
        engine.env(mss, una, nxt, now, 100_000)
        assert engine.loss()
        una = nxt + 1
        engine.env(mss, una, una, now, 100_000)
        engine.ack(0, 0, 1, delivered=cap + 1)
        rounds.append(0)
        while engine.wnd < cap:
            rounds[-1] += 1
            now += 100
            acked = engine.wnd
            una += acked
            engine.env(mss, una, una, now, 100_000)
            engine.ack(acked, 0, acked)
    assert len(set(rounds)) == 1 and rounds[0] > 10


@pytest.mark.parametrize("pause", ["idle", "application-limited"])
def test_cubic_banks_no_credit(dll: CDLL, pause: str) -> None:
    """100 s in which a flow does not use its window are not 100 s of growth."""
    engine = Engine(dll)
    mss = 1000
    engine.params(ONE, ONE // 16, 100, 0, 0)
    now, una = 0, 0

    def ack(in_flight: int) -> None:
        """A round trip of 10 ms, one ACK a segment; a flow that uses its window
        sends at once what growth allows."""
        nonlocal now, una
        now += 10
        full = in_flight + mss > engine.wnd
        for _ in range(in_flight // mss):
            if full:
                in_flight = max(in_flight, engine.wnd // mss * mss)
            engine.env(mss, una + mss, una + in_flight, now, 10000)
            engine.ack(mss, 0, mss)
            una += mss
            in_flight -= 0 if full else mss

    engine.env(mss, 0, 100 * mss, now, 10000)
    engine.init("cubic")
    engine.loss()
    una = 100 * mss + 1
    for _ in range(20):
        ack(engine.wnd // mss * mss)
    for _ in range(200):
        ack(mss)
    before = engine.wnd
    assert before > 70 * mss
    if pause == "idle":
        now += 100_000
        engine.env(mss, una, una + mss, now, 10000)
        engine.idle()
    else:
        for _ in range(10_000):
            ack(mss)
    assert engine.wnd == before
    for _ in range(3):
        ack(engine.wnd // mss * mss)
    assert before < engine.wnd < before + 6 * mss
