# SPDX-License-Identifier: Apache-2.0

"""Which threads had a PMD thread's processor, and for how long, by the kernel's scheduler events.

A time between two polls says that a PMD thread did not run, but not whether the switch's own
threads are to blame, the kernel's, or a virtual machine's host.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Waits = dict[str, float | str]

TRACEFS = Path("/sys/kernel/tracing")

EVENT = re.compile(
    r"\[(?P<cpu>\d+)\] +\S+ +(?P<time>\d+\.\d+): sched_switch: "
    r"prev_comm=.* prev_pid=(?P<out>\d+) prev_prio=.* ==> "
    r"next_comm=(?P<name>.*) next_pid=(?P<into>\d+) next_prio="
)
SHORT = 50e-6
"""Seconds.  A PMD thread that has its processor for less between two others' turns may not have
polled: it waits for both in one."""


@dataclass
class Wait:
    """Microseconds that others had a PMD thread's processor without a break."""

    by_thread: Counter[str] = field(default_factory=Counter)

    def of(self, threads: set[str]) -> float:
        return sum(us for name, us in self.by_thread.items() if name in threads)


def unavailable() -> str | None:
    """Why there are no events, or None."""
    if not (TRACEFS / "instances").is_dir():
        return f"no tracefs at {TRACEFS} (mount -t tracefs none {TRACEFS})"
    if not os.access(TRACEFS / "instances", os.W_OK):
        return f"{TRACEFS} is not for this user"
    return None


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
        """Of the PMD threads of process 'pid', which still runs: the longest for threads of its
        own and whose it was most of all, and the longest for others."""
        names = {
            int(path.name): (path / "comm").read_text().strip()
            for path in Path(f"/proc/{pid}/task").iterdir()
        }
        own = set(names.values())
        found = list(self._waits({tid for tid, name in names.items() if name.startswith("pmd-")}))
        if not found:
            return {"own_us": 0.0, "others_us": 0.0}
        longest = max(found, key=lambda wait: wait.of(own))
        result: Waits = {
            "own_us": round(longest.of(own), 1),
            "others_us": round(
                max(sum(wait.by_thread.values()) - wait.of(own) for wait in found), 1
            ),
        }
        if longest.of(own):
            result["thread"] = max(own & set(longest.by_thread), key=longest.by_thread.__getitem__)
        return result

    def _waits(self, pmds: set[int]) -> Iterator[Wait]:
        # By processor: who has it since when, and what its PMD thread waits for.
        since: dict[str, tuple[float, int, str]] = {}
        waits: dict[str, Wait] = defaultdict(Wait)
        polls = {}
        for line in (self._path / "trace").read_text().splitlines():
            if not (event := EVENT.search(line)):
                continue
            cpu, now = event["cpu"], float(event["time"])
            if (before := since.get(cpu)) and before[1] == int(event["out"]):
                began, tid, name = before
                if tid not in pmds:
                    waits[cpu].by_thread[name] += round(1e6 * (now - began))
                elif now - began >= SHORT and cpu in polls:
                    yield waits.pop(cpu, Wait())
                if tid in pmds:
                    polls[cpu] = tid
            since[cpu] = now, int(event["into"]), event["name"]

    def close(self) -> None:
        self._path.rmdir()
