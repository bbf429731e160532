# SPDX-License-Identifier: Apache-2.0

"""Which threads had a PMD thread's processor, and for how long, by the kernel's events.

A time between two polls says that a PMD thread did not run, but not whether the switch's own
threads are to blame, the kernel's, or a virtual machine's host.  The scheduler's events tell
threads from each other, and timers and interrupts what the host did: a processor that leaves one
waiting does not run, whichever thread has it.  Mostly none of the machine's runs then, but only one
had an interrupt to leave waiting; so all are taken to be stopped meanwhile.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from acdc_testlib.netns import threads

Waits = dict[str, int | str]
Stop = tuple[float, float]
"""Seconds, from and to."""

TRACEFS = Path("/sys/kernel/tracing")

EVENT = re.compile(
    r"\[(?P<cpu>\d+)\] +\S+ +(?P<time>\d+\.\d+): sched_switch: "
    r"prev_comm=.* prev_pid=(?P<out>\d+) prev_prio=.* ==> "
    r"next_comm=.* next_pid=(?P<into>\d+) next_prio="
)
STARTED = re.compile(r"hrtimer_start: hrtimer=(\S+) function=(\S+) expires=(\d+)")
EXPIRED = re.compile(r"hrtimer_expire_entry: hrtimer=(\S+) .*now=(\d+)")
HEAD = re.compile(r"\[(?P<cpu>\d+)\] +\S+ +(?P<time>\d+\.\d+): (?P<event>\w+): (cpu=(?P<to>\d+))?")

STOP = 100e-6
"""Seconds.  Interrupts are otherwise taken within some 10 us."""
STOPPED = -1
"""In place of a thread: the machine's host had a processor."""

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


def find_stops(lines: Iterable[str]) -> list[Stop]:
    """When a processor left an interrupt waiting for STOP or more, in order, overlaps joined: a
    timer that expired late, another processor's call that was taken late, or a timer's interrupt
    that was not over soon."""
    due: dict[str, tuple[int, float]] = {}  # When timers expire, nanoseconds, and were started.
    called: dict[int, float] = {}  # When processors were, that have not shown life since.
    interrupted: dict[int, float] = {}  # When they began with a timer's interrupt.
    found: list[Stop] = []
    for line in lines:
        if not (head := HEAD.search(line)):
            continue
        cpu, now, event = int(head["cpu"]), float(head["time"]), head["event"]
        if event == "hrtimer_start":
            if start := STARTED.search(line):
                timer, function, expires = start.groups()
                due.pop(timer, None)
                # A thread's sleep.  The tick comes a whole one later at times.
                if function == "hrtimer_wakeup":
                    due[timer] = int(expires), now
        elif event == "hrtimer_expire_entry":
            if (end := EXPIRED.search(line)) and end[1] in due:
                at, started = due.pop(end[1])
                # It may have been overdue when it was started.
                found.append((max(now - (int(end[2]) - at) / 1e9, started), now))
        elif event == "reschedule_entry":
            found.append((called.get(cpu, now), now))
        elif event == "local_timer_entry":
            interrupted[cpu] = now
        elif event == "local_timer_exit":
            found.append((interrupted.pop(cpu, now), now))
        called.pop(cpu, None)
        if event == "ipi_send_cpu" and head["to"] and "callback=0x0" in line:
            called.setdefault(int(head["to"]), now)
    stops: list[Stop] = []
    for stop in sorted(stop for stop in found if stop[1] - stop[0] >= STOP):
        if stops and stop[0] <= stops[-1][1]:
            stops[-1] = stops[-1][0], max(stops[-1][1], stop[1])
        else:
            stops.append(stop)
    return stops


def stopped(stops: list[Stop], begin: float, end: float) -> float:
    """Seconds of 'stops', as of find_stops(), from 'begin' to 'end'."""
    first = max(bisect.bisect(stops, (begin, begin)) - 1, 0)
    return sum(
        max(min(end, b) - max(begin, a), 0)
        for a, b in itertools.takewhile(lambda stop: stop[0] < end, stops[first:])
    )


def find_waits(lines: Iterable[str], pmds: set[int], stops: list[Stop]) -> Iterator[Counter[int]]:
    """Of PMD threads, each time others had its processor without a break: the microseconds of
    each thread, and of STOPPED.  Of an idle processor that is 0, whose PMD thread waits for a
    lock, say."""
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
                stop = stopped(stops, began, now)
                waits[cpu][thread] += round(1e6 * (now - began - stop))
                if stop:
                    waits[cpu][STOPPED] += round(1e6 * stop)
        elif cpu not in waits:
            waits[cpu] = Counter()
        elif now - began >= SHORT and waits[cpu]:
            yield waits[cpu]
            waits[cpu] = Counter()
    yield from (wait for wait in waits.values() if wait)


EVENTS = ("sched/sched_switch", "timer/hrtimer_start", "timer/hrtimer_expire_entry")
MORE_EVENTS = (
    *("ipi/ipi_send_cpu", "irq_vectors/reschedule_entry"),
    *("irq_vectors/local_timer_entry", "irq_vectors/local_timer_exit"),
)
"""Not in each kernel: without them fewer stops are seen."""


class SchedulerTrace:
    """These events since start(), in a buffer of its own."""

    def __init__(self) -> None:
        self._path = TRACEFS / "instances" / f"acdc-bench-{os.getpid()}"
        self._path.mkdir()
        try:
            self._set("buffer_size_kb", "65536")
            self._set("tracing_on", "0")
            # Processors' own need not agree.
            self._set("trace_clock", "mono")
            for event in EVENTS:
                self._set(f"events/{event}/enable", "1")
            for event in MORE_EVENTS:
                if (self._path / "events" / event).is_dir():
                    self._set(f"events/{event}/enable", "1")
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
        own and whose it was most of all, the longest for others, and for the machine's host."""
        for stats in self._path.glob("per_cpu/cpu*/stats"):
            if int(re.findall(r"overrun: (\d+)", stats.read_text())[0]):
                raise RuntimeError("more scheduler events than there is room for")
        names = threads(pid)
        pmds = {thread for thread, name in names.items() if name.startswith("pmd-")}
        own, others, host = Counter[int](), 0, 0
        lines = (self._path / "trace").read_text().splitlines()
        for wait in find_waits(lines, pmds, find_stops(lines)):
            stop = wait.pop(STOPPED, 0)
            part = Counter({thread: us for thread, us in wait.items() if thread in names})
            own = max(own, part, key=Counter.total)
            others = max(others, wait.total() - part.total())
            host = max(host, stop)
        result: Waits = {"own_us": own.total(), "others_us": others, "host_us": host}
        if own:
            result["thread"] = names[own.most_common(1)[0][0]]
        return result

    def close(self) -> None:
        self._path.rmdir()
