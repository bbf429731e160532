# SPDX-License-Identifier: Apache-2.0
"""The algorithm swift against its model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from law.engine import Engine, build
from law.model import ONE, Params, Swift
from law.test_law import EVENTS, SETTINGS, Event, Pair, events, sizes


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CDLL]:
    yield build(Path(tmp_path_factory.mktemp("law")))


class SwiftPair(Pair):
    """What ACKs tell of delay is random: of reports, of round-trip times, both."""

    MODEL = Swift

    def __init__(self, dll: CDLL, seed: int, params: Params, mss: int, isn: int) -> None:
        self.random = random.Random(seed)
        # Which paths report: all, some of the time, none.
        self.reports = self.random.choice([0, 0.1, 0.9])
        self.base = self.random.choice([1, 20, 1000])
        self.queue = self.random.choice([30, 150, 3000])
        super().__init__(dll, "swift", params, mss, isn)

    def ack(self, acked: int, marked: int, total: int, delivered: int | None = None) -> None:
        rng, model = self.random, cast(Swift, self.model)
        marked = 0 if rng.random() < 0.9 else marked
        # A queue near the target, too.
        queue = rng.choice([0, model.target(), model.target() + 1, rng.randrange(self.queue)])
        reported = rng.random() < self.reports / 3
        if reported:
            self.engine.report(self.base + queue, queue)
        self.rtt_us = self.base + queue if rng.random() < 0.3 else 0
        self.srtt_us = model.srtt = rng.choice([0, 100, 1000])
        model.hear(self.rtt_us, queue if reported else None)
        super().ack(acked, marked, total, delivered)


@given(events=events, mss=sizes, isn=st.integers(0, 0xFFFFFFFF), seed=st.integers(0, 1 << 30))
@SETTINGS
def test_swift(library: CDLL, events: list[Event], mss: int, isn: int, seed: int) -> None:
    SwiftPair(library, seed, Params(), mss, isn).run(events)


@pytest.mark.parametrize("seed", range(5))
def test_swift_long(library: CDLL, seed: int) -> None:
    rng = random.Random(seed)
    pair = SwiftPair(library, seed, Params(max_window=400000), 1448, seed)
    pair.run([(rng.choice(EVENTS), rng.getrandbits(30), rng.getrandbits(30)) for _ in range(2000)])
    assert pair.cuts > 100
    assert pair.growths > 100


def test_swift_larger_mss(library: CDLL) -> None:
    """Of a window that is a small part of a segment the target is that of a segment."""
    engine = Engine(library)
    engine.params(ONE, ONE // 16, 1, 64, 64)
    engine.env(64, 0, 64, 0, 1000)
    engine.init("swift")
    engine.env(8948, 0, 64, 0, 1000)
    engine.report(1000, 25 + 100)
    assert not engine.ack(0, 0, 0)
    engine.report(1000, 25 + 101)
    assert engine.ack(0, 0, 0)
