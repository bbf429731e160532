# SPDX-License-Identifier: Apache-2.0

"""Assertions whose outcome depends on this machine keeping up: what goes through a
switch in real time, at a rate or within the buffers on the way.  What AC/DC
does for it is asked in virtual time as well (tests/lab).

A pytest plugin with a fixture.  What fails within 'with real_time:' while the
hypervisor gave a part of the processors' time to other machines has measured
that, not us: the test is skipped and says so.  Other work on this machine is no
excuse, nor is it for what a test asserts before that.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

# Of all processors' time.
TOO_MUCH = 0.05


class ProcessorTime(NamedTuple):
    """Of all processors, in ticks (proc(5), /proc/stat)."""

    stolen: int
    total: int

    def stolen_since(self, before: ProcessorTime) -> float:
        """A part of the time since."""
        return (self.stolen - before.stolen) / max(1, self.total - before.total)


def processor_time() -> ProcessorTime:
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    # user, nice, system, idle, iowait, irq, softirq, steal; guests' is in user's.
    times = [int(word) for word in words[1:9]]
    return ProcessorTime(times[7], sum(times))


class RealTime:
    """Of one test."""

    def __init__(self) -> None:
        self._began = processor_time()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        if isinstance(error, AssertionError):
            stolen = processor_time().stolen_since(self._began)
            if stolen > TOO_MUCH:
                why = f"the hypervisor took {stolen:.0%} of the processors' time: {error}"
                pytest.skip(" ".join(why.split())[:300])


@pytest.fixture
def real_time() -> RealTime:
    return RealTime()
