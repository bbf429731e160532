# SPDX-License-Identifier: Apache-2.0

"""tests/bench/vhost: guests that are virtio-user cards of tests/bench/vhost-source.c."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from acdc_bench import (
    RULES,
    TRAFFIC,
    VARIANTS,
    Lost,
    Mapped,
    build,
    check,
    n_slots,
    quartiles,
    rotated,
    start,
)

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.programs import ROOT, Programs

N_SAMPLES = 1 << 16
LATENCY_NS, N_LATENCIES = 20, 1 << 13
"""What a bin is wide, and bins: the last one is of 164 us or more."""
WINDOW = 512
"""Frames on their way in each direction: half a ring."""
WARM_UP = 2.5, 2_000_000
"""Frames before it is measured: cycles of each connection, in which it sends all kinds both
ways, and frames of all, as Open vSwitch's EMC takes one of a hundred."""
ALONE = 1000
"""Frames of which a latency is known, least."""
SETTLED = 0.5
"""Seconds: a card that is up is disabled and enabled once more."""
STALLED = 10.0
"""Seconds without a frame: what is on its way was lost."""


class Sample(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("frames", "bytes", "ns")]
    frames: int
    bytes: int
    ns: int


class Report(ctypes.Structure):
    """As in vhost-source.c."""

    _fields_ = [
        *(
            (name, ctypes.c_uint64)
            for name in ("window", "sent", "arrived", "streaming", "segments", "strays", "n")
        ),
        ("samples", Sample * N_SAMPLES),
        ("latencies", ctypes.c_uint64 * N_LATENCIES),
    ]
    window: int
    sent: int
    arrived: int
    streaming: int
    segments: int
    strays: int
    n: int


@dataclass(frozen=True)
class Case:
    tso: str
    traffic: str
    flows: int
    rules: str

    def __str__(self) -> str:
        return f"{self.tso:3} {self.traffic:5} {self.flows:8} {self.rules:7}"


class Switch:
    """One ovs-vswitchd and its guests.  Stopped except while it is used."""

    def __init__(self, variant: str, case: Case, program: Path) -> None:
        self.variant, self.case = variant, case
        self._shared = Mapped(Report)
        self.report: Report | None = self._shared.value
        self._source: subprocess.Popen[Any] | None = None
        self.ovs = Ovs(Programs.pristine() if variant == "pristine" else Programs.patched())
        try:
            self._start_source(program)
            self._configure()
        except BaseException as error:
            if not isinstance(error, Lost):
                print(self._logs(), file=sys.stderr)
            self.close()
            raise

    def _logs(self) -> str:
        logs = self.ovs.log_tail()
        with contextlib.suppress(FileNotFoundError):
            logs += "\n" + (self.ovs.dir / "source.log").read_text(errors="replace")
        return logs

    def _socket(self, number: int) -> Path:
        return self.ovs.dir / f"guest{number}"

    def _start_source(self, program: Path) -> None:
        data, acks = TRAFFIC[self.case.traffic]
        # A card's memory is the application's own, which is then not of huge pages.
        eal = "--no-huge -m 512 --no-pci --no-shconf --no-telemetry -l 0 --log-level=error"
        cards = [
            f"--vdev=net_virtio_user{number},path={self._socket(number)},server=1,"
            f"queue_size=1024,mac=02:00:00:00:00:0{number + 1}"
            for number in range(2)
        ]
        numbers = (n_slots(self.case.flows), data, acks, int(self.case.tso == "on"))
        with (self.ovs.dir / "source.log").open("w") as log:
            self._source = self.ovs.ns.popen(
                program,
                *eal.split(),
                *cards,
                "--",
                *map(str, numbers),
                self._shared.path,
                stdout=log,
                stderr=log,
            )

    def _configure(self) -> None:
        ovs, case = self.ovs, self.case
        extra = "--no-huge --legacy-mem -m 512 --no-pci --no-shconf --no-telemetry"
        ovs.vsctl(
            *("set", "open_vswitch", ".", "other_config:dpdk-init=true"),
            *(f'other_config:dpdk-extra="{extra}"', "other_config:dpdk-lcore-mask=0x1"),
            *("other_config:pmd-cpu-mask=0x2", "other_config:per-port-memory=true"),
            # What a stopped switch finds idle it would forget.
            "other_config:max-idle=3600000",
            f"other_config:userspace-tso-enable={str(case.tso == 'on').lower()}",
        )
        ovs.add_bridge("br0", normal=False)
        for number in range(2):
            self.alive()
            ovs.vsctl(
                *("add-port", "br0", f"vhost{number}", "--", "set", "interface", f"vhost{number}"),
                *("type=dpdkvhostuserclient", f"options:vhost-server-path={self._socket(number)}"),
                f"ofport_request={number + 1}",
            )
        for number, match in enumerate(RULES[case.rules]):
            ovs.ofctl(
                *("add-flow", "br0"),
                f"in_port={number + 1},{match},actions=output:{2 - number}",
            )
        if self.variant == "bound":
            limit = case.flows + 16
            ovs.vsctl("set", "open_vswitch", ".", f"other_config:acdc-max-flows={limit}")
            ovs.set_tenant("blue", **{"other_config:max-half-open": limit})
            ovs.bind("blue", "vhost0")
        wait_for("the cards", lambda: self._is_up("vhost0") and self._is_up("vhost1"), 30, 0.1)
        time.sleep(SETTLED)
        assert self.report
        self.report.window = WINDOW
        self._until(lambda: bool(self.report and self.report.streaming))
        self._drain()

    def _is_up(self, name: str) -> bool:
        self.alive()
        return self.ovs.vsctl("get", "interface", name, "link_state").strip() == "up"

    def _until(self, condition: Callable[[], bool]) -> None:
        """Waits as long as frames arrive."""
        report = self.report
        assert report
        arrived, since = -1, 0.0
        while not condition():
            self.alive()
            if report.arrived != arrived:
                arrived, since = report.arrived, time.monotonic()
            elif time.monotonic() - since > STALLED:
                raise Lost(
                    f"{self.variant}: of {report.sent} frames {report.arrived} arrived\n"
                    f"{self._logs()}"
                )
            time.sleep(0.01)

    def _drain(self, window: int = WINDOW) -> None:
        """Waits until all that was sent arrived; then 'window' frames may be on their way.
        Running.  A frame that was lost is never missed otherwise as long as the window is
        larger than one."""
        report = self.report
        assert report
        report.window = 0
        # A batch that began before is counted by then.
        time.sleep(0.002)
        self._until(lambda: report.sent == report.arrived)
        report.window = window

    def alive(self) -> None:
        if self._source and self._source.poll() is not None:
            raise RuntimeError(f"vhost-source ended with {self._source.returncode}\n{self._logs()}")
        if not self.ovs.vswitchd_running():
            raise RuntimeError(f"{self.variant}: ovs-vswitchd ended\n{self._logs()}")

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.ovs.vswitchd_pid, number)
        if self._source:
            self._source.send_signal(number)

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def proceed(self) -> None:
        self._signal(signal.SIGCONT)

    def warm_up(self) -> None:
        cycles, of_all = WARM_UP
        of_each = cycles * sum(TRAFFIC[self.case.traffic]) * self.case.flows
        assert self.report
        enough = self.report.arrived + max(of_each, of_all)
        self.proceed()
        try:
            self._until(lambda: bool(self.report and self.report.arrived >= enough))
        finally:
            self.stop()

    def turn(self, seconds: float) -> dict[str, float]:
        """Of as many frames as the switch takes: nanoseconds, cycles and bytes a frame,
        throughput, the PMD thread's share of time with packets, and the main thread's of a
        processor, the guests' one.  Of blocks of frames the median, but cycles, bytes and
        shares of all."""
        report = self.report
        assert report
        self.proceed()
        # Caches get warm again.
        time.sleep(min(0.03, seconds / 4))
        before, main, began, first = self._pmd(), self._main_ns(), time.monotonic_ns(), report.n
        time.sleep(seconds)
        # On a busy machine it takes a while until the threads' turn comes.
        self._until(lambda: report.n > first + 8)
        last, after = report.n, self._pmd()
        main, took = self._main_ns() - main, time.monotonic_ns() - began
        self.stop()
        spent = {name: after[name] - before[name] for name in after}
        samples = [report.samples[i % N_SAMPLES] for i in range(first, last)]
        pairs = list(itertools.pairwise(samples))
        arrived = samples[-1].frames - samples[0].frames
        return {
            "ns": statistics.median((b.ns - a.ns) / (b.frames - a.frames) for a, b in pairs),
            "mbits": statistics.median(8e3 * (b.bytes - a.bytes) / (b.ns - a.ns) for a, b in pairs),
            "cycles": spent["processing cycles"] / spent["packets received"],
            "bytes": (samples[-1].bytes - samples[0].bytes) / arrived,
            "busy": spent["processing cycles"]
            / (spent["processing cycles"] + spent["idle cycles"]),
            "main": main / took,
        }

    def latency(self, seconds: float) -> dict[str, float]:
        """Nanoseconds that a frame takes which is alone in its direction."""
        report = self.report
        assert report
        self.proceed()
        self._drain(window=1)
        time.sleep(min(0.03, seconds / 4))
        before, enough = list(report.latencies), report.arrived + ALONE
        time.sleep(seconds)
        self._until(lambda: report.arrived >= enough)
        after = list(report.latencies)
        self._drain()
        self.stop()
        counts = [a - b for a, b in zip(after, before, strict=True)]
        return {
            "latency_ns": quantile(counts, 0.5) * LATENCY_NS,
            "latency_p99_ns": quantile(counts, 0.99) * LATENCY_NS,
        }

    def _pmd(self) -> dict[str, int]:
        self.alive()
        text = self.ovs.appctl("dpif-netdev/pmd-stats-show")
        names = ("packets received", "idle cycles", "processing cycles")
        return {name: sum(map(int, re.findall(rf"{name}: (\d+)", text))) for name in names}

    def _main_ns(self) -> int:
        """CPU time of the main thread so far, the sweeper in it."""
        pid = self.ovs.vswitchd_pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])

    def check(self) -> dict[str, Any]:
        """What a figure is worth nothing without.  Running."""
        assert self.report
        self._drain()
        if self.report.strays:
            raise RuntimeError(f"{self.variant}: {self.report.strays} frames that nobody sent")
        if self.variant != "bound":
            return {}
        (tenant,) = self.ovs.acdc("show")["tenants"]
        check(self.case.flows, tenant)
        return {name: value for name, value in tenant["counters"].items() if value}

    def segments(self) -> int:
        assert self.report
        return self.report.segments

    def close(self) -> None:
        self.proceed()
        self.ovs.close()
        self.report = None
        self._shared.close()


def quantile(counts: list[int], q: float) -> int:
    """Of a histogram, in bins: the upper edge of the one that the quantile is in."""
    totals = list(itertools.accumulate(counts))
    return bisect.bisect_left(totals, q * totals[-1]) + 1


def measure(case: Case, program: Path, turns: int, restarts: int, seconds: float) -> dict[str, Any]:
    values: dict[str, list[dict[str, float]]] = {v: [] for v in VARIANTS}
    result: dict[str, Any] = asdict(case)
    for restart in range(restarts):
        with contextlib.ExitStack() as stack:
            switches = []
            for variant in rotated(VARIANTS, restart):
                switch = start(partial(Switch, variant, case, program))
                stack.callback(switch.close)
                switch.stop()
                switch.warm_up()
                switches.append(switch)
            for turn in range(turns):
                for switch in switches if turn % 2 == 0 else reversed(switches):
                    found = switch.turn(seconds) | switch.latency(seconds)
                    values[switch.variant].append(found)
            pristine = next(s for s in switches if s.variant == "pristine")
            result["segments"] = pristine.segments()
            for switch in switches:
                switch.proceed()
                if counters := switch.check():
                    result["acdc"] = counters
                switch.stop()
    for variant in VARIANTS:
        result[variant] = {
            name: round(statistics.median(found[name] for found in values[variant]), 3)
            for name in values[variant][0]
        }
    for variant in VARIANTS[1:]:
        for name, figure in (("ratio", "ns"), ("cycles_ratio", "cycles")):
            pairs = zip(values["pristine"], values[variant], strict=True)
            low, middle, high = quartiles([p[figure] / v[figure] for p, v in pairs])
            result[variant] |= {name: middle, f"{name}_quartiles": [low, high]}
    return result


def run(
    cases: list[Case], turns: int, restarts: int, seconds: float, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Results one after the other."""
    scratch = ROOT / "build" / "bench"
    scratch.mkdir(parents=True, exist_ok=True)
    say(
        f"tso load  {'flows':>8} rules   {'':9} Mbit/s ns/frame cycles busy latency, p99 us   ratio"
    )
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        program = Path(folder, "vhost-source")
        build("vhost-source.c", program)
        for case in cases:
            found = measure(case, program, turns, restarts, seconds)
            for variant in VARIANTS:
                of = found[variant]
                line = (
                    f"{case} {variant:8} {of['mbits']:7.0f} {of['ns']:8.1f} {of['cycles']:6.0f} "
                    f"{of['busy']:4.2f} {of['latency_ns'] / 1000:7.2f} "
                    f"{of['latency_p99_ns'] / 1000:7.2f}"
                )
                if variant != "pristine":
                    low, high = of["ratio_quartiles"]
                    line += f"   {of['ratio']:.3f} ({low:.3f}-{high:.3f})"
                say(line)
            yield found
