# SPDX-License-Identifier: Apache-2.0

"""Which threads had a PMD thread's processor, and for how long, by the kernel's scheduler events.

A time between two polls says that a PMD thread did not run, but not whether the switch's own
threads are to blame, the kernel's, or a virtual machine's host.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

Waits = dict[str, int | str]

TRACEFS = Path("/sys/kernel/tracing")

EVENT = re.compile(
    r"\[(?P<cpu>\d+)\] +\S+ +(?P<time>\d+\.\d+): sched_switch: "
    r"prev_comm=.* prev_pid=(?P<out>\d+) prev_prio=.* ==> "
    r"next_comm=.* next_pid=(?P<into>\d+) next_prio="
)
SHORT = 50e-6
"""Seconds.  A PMD thread that has its processor for less between two others' turns may not have
polled: it waits for both in one."""


def unavailable() -> str | None:
    """Why there are no events, or None."""
    if not os.access(TRACEFS, os.X_OK):
        return f"tracefs at {TRACEFS} is not for this user"
    if not (TRACEFS / "instances").is_dir():
        return f"no tracefs at {TRACEFS} (mount -t tracefs none {TRACEFS})"
    return None


def find_waits(lines: Iterable[str], pmds: set[int]) -> Iterator[Counter[int]]:
    """Of PMD threads, each time others had its processor without a break: the microseconds of
    each thread.  Of an idle processor that is 0, whose PMD thread waits for a lock, say."""
    since: dict[str, tuple[float, int]] = {}  # Who has each processor.
    waits: dict[str, Counter[int]] = {}  # Of processors that a PMD thread has had.
    for line in lines:
        if not (event := EVENT.search(line)):
            continue
        cpu, now = event["cpu"], float(event["time"])
        began, thread = since.get(cpu, (now, -1))
        since[cpu] = now, int(event["into"])
        # Another one where an event is missing.
        if thread != int(event["out"]):
            continue
        if thread not in pmds:
            if cpu in waits:
                waits[cpu][thread] += round(1e6 * (now - began))
        elif cpu not in waits:
            waits[cpu] = Counter()
        elif now - began >= SHORT and waits[cpu]:
            yield waits[cpu]
            waits[cpu] = Counter()
    yield from (wait for wait in waits.values() if wait)


class SchedulerTrace:
    """Scheduler events since start(), in a buffer of its own."""

    def __init__(self) -> None:
        self._path = TRACEFS / "instances" / f"acdc-bench-{os.getpid()}"
        self._path.mkdir()
        try:
            self._set("buffer_size_kb", "65536")
            self._set("tracing_on", "0")
            self._set("events/sched/sched_switch/enable", "1")
        except BaseException:
            self.close()
            raise

    def _set(self, name: str, value: str) -> None:
        (self._path / name).write_text(value)

    def start(self) -> None:
        self._set("trace", "")
        self._set("tracing_on", "1")

    def stop(self) -> None:
        self._set("tracing_on", "0")

    def waits(self, pid: int) -> Waits:
        """Of the PMD threads of process 'pid', which still is: the longest for threads of its
        own and whose it was most of all, and the longest for others."""
        for stats in self._path.glob("per_cpu/cpu*/stats"):
            if int(re.findall(r"overrun: (\d+)", stats.read_text())[0]):
                raise RuntimeError("more scheduler events than there is room for")
        names = {
            int(path.name): (path / "comm").read_text().strip()
            for path in Path(f"/proc/{pid}/task").iterdir()
        }
        pmds = {thread for thread, name in names.items() if name.startswith("pmd-")}
        own, others = Counter[int](), 0
        for wait in find_waits((self._path / "trace").read_text().splitlines(), pmds):
            part = Counter({thread: us for thread, us in wait.items() if thread in names})
            own = max(own, part, key=Counter.total)
            others = max(others, wait.total() - part.total())
        result: Waits = {"own_us": own.total(), "others_us": others}
        if own:
            result["thread"] = names[own.most_common(1)[0][0]]
        return result

    def close(self) -> None:
        self._path.rmdir()
