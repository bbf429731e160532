# SPDX-License-Identifier: Apache-2.0

"""Tests whose outcome depends on this machine keeping up: what goes through a
switch in real time, at a rate or within the buffers on the way.  What AC/DC
does for it is asked in virtual time as well (tests/lab).

A pytest plugin.  A test marked 'real_time' that fails while the hypervisor gave
a part of the processors' time to other machines has measured that, not us: it
is skipped and says so.  Other work on this machine is no excuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


STARTED = pytest.StashKey[ProcessorTime]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "real_time: skipped instead of failed where the hypervisor took the processors away",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    item.stash[STARTED] = processor_time()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    result: Any = yield
    if call.when != "call" or not call.excinfo or not item.get_closest_marker("real_time"):
        return
    stolen = processor_time().stolen_since(item.stash[STARTED])
    if call.excinfo.errisinstance(AssertionError) and stolen > TOO_MUCH:
        report = result.get_result()
        why = f"the hypervisor took {stolen:.0%} of the processors' time: {call.excinfo.value}"
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, (line or 0) + 1, f"Skipped: {' '.join(why.split())[:300]}")
