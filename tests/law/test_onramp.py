# SPDX-License-Identifier: Apache-2.0
"""On-Ramp against a model: after "Breaking the Transience-Equilibrium Nexus" (NSDI 2021), in
exact fractions.

Bounds.  The engine keeps beta in 1/255.  Step by step, from the same beta, it is within 2/255
of the exact one, and pauses are equal but for beta's last digit.  As a step takes in 1/16 of
what is measured, beta stays where it is within DEAD of that."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from law.engine import ROOT
from law.test_law import SETTINGS

MOST = 10_000  # us
UNIT = Fraction(1, 255)
DEAD = 9 * UNIT  # Half of 16, and what is measured is rounded down.
LEAST = 8  # us: pauses that differ by less say nothing of their effect.


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    target = tmp_path_factory.mktemp("law") / "libonramp.so"
    datapath = ROOT / "datapath"
    sources = [Path(__file__).with_name("driver-onramp.c")]
    sources += [ROOT / f"lib/acdc-{name}.c" for name in ("arena", "platform-user")]
    sources += [datapath / f"acdc-{name}.c" for name in ("onramp", "pace", "timing")]
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
        + ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]
        + ["-fvisibility=hidden", "-ffunction-sections", "-Wl,--gc-sections"]
        + [f"-I{datapath}", f"-I{ROOT / 'lib'}", "-o", str(target), *map(str, sources)],
        check=True,
    )
    dll = ctypes.CDLL(str(target))
    dll.ramp_new.restype = ctypes.c_void_p
    yield dll


class Model:
    """What the paper has: a pause drains the queue by a part of it, beta, which is measured.
    Its next one is what the delay would be without the last, beyond the threshold."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.beta = Fraction(0)
        self.given = self.before = 0  # The last two pauses in which data waited, us.

    def report(self, before: int, delay: int, held: bool) -> int:
        if not held:
            self.given = 0
        more = self.given - self.before
        if abs(more) >= LEAST:
            effect = max(Fraction(0), min(Fraction(1), Fraction(before - delay, more)))
            self.beta += (effect - self.beta) / 16
        self.before = self.given
        beyond = delay + self.beta * self.given - self.threshold
        self.given = max(0, min(MOST, int(beyond)))
        return self.given


class Pair:
    def __init__(self, dll: ctypes.CDLL, threshold: int, now: int) -> None:
        self.dll, self.model, self.now = dll, Model(threshold), now
        self.driver = ctypes.c_void_p(dll.ramp_new(ctypes.c_uint32(threshold), True))
        self.held = False
        self.pauses = self.total = self.delay = 0
        self.until = now

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.dll.ramp_free(self.driver)

    def call(self, name: str, *values: int) -> int:
        function = getattr(self.dll, f"ramp_{name}")
        return int(function(self.driver, *(ctypes.c_uint32(value % 2**32) for value in values)))

    def report(self, delay: int) -> None:
        model = self.model
        model.beta = UNIT * self.call("beta")
        wanted = model.report(self.delay, delay, self.held)
        self.call("report", self.now, self.delay, delay)
        assert abs(model.beta - UNIT * self.call("beta")) <= 2 * UNIT
        pauses, total = (self.call("counter", index) for index in (0, 1))
        pause = (total - self.total) % 2**32
        assert pauses - self.pauses == bool(pause)
        # Of its own beta.
        assert abs(pause - wanted) <= 2 * UNIT * MOST + 1
        assert pause <= MOST
        model.given = pause
        self.pauses, self.total, self.delay, self.held = pauses, total, delay, False
        self.until = self.now + pause if pause else self.until

    def send(self, payload: int = 1448) -> int:
        """Returns until when it waits."""
        wait = self.call("send", self.now, payload)
        assert wait % 1000 == 0
        wait //= 1000
        assert wait == (max(0, self.until - self.now) if payload else 0)
        self.held |= wait > 0
        return self.now + wait


delays = st.one_of(st.integers(0, 300), st.integers(0, 20_000), st.integers(0, 2**24 - 1))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("report"), delays),
        st.tuples(st.just("send"), st.sampled_from([0, 1, 1448])),
        st.tuples(st.just("wait"), st.one_of(st.integers(1, 300), st.integers(1, 40_000))),
    ),
    max_size=60,
)


@given(steps=steps, threshold=st.integers(1, 1000), now=st.integers(0, 2**32 - 1))
@SETTINGS
def test_pauses(
    library: ctypes.CDLL, steps: list[tuple[str, int]], threshold: int, now: int
) -> None:
    """Whatever reports say and whenever they come."""
    with Pair(library, threshold, now) as pair:
        for kind, value in steps:
            if kind == "wait":
                pair.now += value
            else:
                getattr(pair, kind)(value)
        pair.now = max(pair.now, pair.until)
        assert pair.send() == pair.now, "it starves"


@given(
    threshold=st.integers(10, 200),
    queue=st.integers(0, 3000),
    effect=st.integers(0, 100),
    seed=st.integers(0, 2**32 - 1),
)
@SETTINGS
def test_queue_that_pauses_drain(
    library: ctypes.CDLL, threshold: int, queue: int, effect: int, seed: int
) -> None:
    """One that others fill, of 'queue' us without pauses, of which these take 'effect' percent.
    The pauses find their balance, and are no longer than what is too much needs."""
    rng = random.Random(seed)
    with Pair(library, threshold, 1000) as pair:
        late = []
        for i in range(400):
            leaves = pair.send()
            held = leaves - pair.now
            pair.now = leaves + rng.randrange(40, 60)
            pair.report(max(0, queue - held * effect // 100))
            if i >= 300:
                late.append(held)
        excess = max(0, queue - threshold)
        assert max(late) <= excess / (1 - DEAD) + 1
        if excess > 100 and effect:
            # By O - T alone it would be excess / (1 + effect).
            alone = excess / (1 + effect / 100)
            assert sum(late) / len(late) >= 0.95 * alone


def test_nothing_holds(library: ctypes.CDLL) -> None:
    driver = ctypes.c_void_p(library.ramp_new(30, False))
    for name, values in (("report", (1, 0, 5000)), ("report", (2, 0, 5000))):
        getattr(library, f"ramp_{name}")(driver, *values)
    assert library.ramp_send(driver, 3, 1448) == 0
    assert library.ramp_counter(driver, 0) == 0
    library.ramp_free(driver)
