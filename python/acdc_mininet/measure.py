# SPDX-License-Identifier: Apache-2.0

"""Runs traffic between guests of a network, and computes what to report."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .link import BpfQueue, QueueState, RedQueue
from .nodes import AcdcHost, AcdcNet

BULK_PORT, ECHO_PORT = 5001, 7
BIN = 0.1
_PACKAGES = str(Path(__file__).resolve().parents[1])


class TrafficError(RuntimeError):
    """A traffic program failed; the message is what it wrote."""


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has it all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def percentile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least 'q' percent are not above (nearest rank)."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q / 100 * len(ordered)) - 1)]


class Program:
    """A command of traffic.py that runs in a guest."""

    def __init__(self, host: AcdcHost, *args: object) -> None:
        self.name = f"{host.name}: {' '.join(map(str, args))}"
        # What else the machine does is not to be measured.
        environment = [
            "nice",
            "-n",
            "-15",
            "env",
            f"PYTHONPATH={_PACKAGES}",
            "PYTHONDONTWRITEBYTECODE=1",
        ]
        self._process: subprocess.Popen[str] = host.start(
            *environment, *(sys.executable, "-m", "acdc_mininet.traffic"), *map(str, args)
        )

    def await_ready(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            self.check(ended=True)

    def check(self, ended: bool = False) -> None:
        """Raises TrafficError if it failed already (or 'ended', though it
        should not have)."""
        if ended or self._process.poll() not in (None, 0):
            _, error = self._process.communicate(timeout=10)
            lines = error.strip().splitlines() or [f"status {self._process.returncode}"]
            raise TrafficError(f"{self.name}: {lines[-1]}")

    def result(self, timeout: float = 30) -> dict[str, Any]:
        try:
            output, _ = self._process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TrafficError(f"{self.name}: does not end") from None
        if self._process.returncode != 0:
            self.check(ended=True)
        decoded: dict[str, Any] = json.loads(output.splitlines()[-1])
        return decoded

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True)
class Flow:
    """A bulk flow from one guest to another."""

    source: str
    target: str
    cc: str = "cubic"
    tenant: str = ""


@dataclass
class FlowResult:
    """What was measured of a flow.  'goodput' counts, in bit/s, the whole time
    but the warm-up; 'series' are (seconds since the start, bit/s)."""

    flow: Flow
    goodput: float
    series: list[tuple[float, float]]
    retransmits: int
    cwnd: int
    local_port: int

    def goodput_between(self, begin: float, end: float) -> float:
        rates = [rate for when, rate in self.series if begin <= when < end]
        return sum(rates) / len(rates) if rates else 0.0


@dataclass
class Run:
    """What was measured of a run."""

    seconds: float
    warmup: float
    flows: list[FlowResult]
    rtt_us: list[tuple[float, float]]
    """(Seconds since the start, microseconds) of every message of the probe."""
    queue: list[tuple[float, QueueState]]
    """(Seconds since the start, the bottleneck then)."""
    vswitchd_cpu: float
    """CPU time of ovs-vswitchd, in seconds per second."""
    samples: list[Any] = field(default_factory=list)
    """What the caller's 'sample' returned, with the time."""

    @property
    def goodput(self) -> float:
        return sum(flow.goodput for flow in self.flows)

    @property
    def jain(self) -> float:
        return jain([flow.goodput for flow in self.flows])

    @property
    def marks(self) -> int:
        return self.counted("marks")

    @property
    def drops(self) -> int:
        return self.counted("drops")

    def counted(self, counter: str, begin: float | None = None, end: float | None = None) -> int:
        """By how much a counter of the bottleneck grew between two times, or
        in the whole time but the warm-up."""
        begin = self.warmup if begin is None else begin
        values = [
            getattr(state, counter)
            for when, state in self.queue
            if begin <= when and (end is None or when <= end)
        ]
        return int(values[-1] - values[0]) if values else 0

    def rtt_percentile(self, q: float, begin: float | None = None, end: float = math.inf) -> float:
        """In microseconds, between two times, or of the whole time but the warm-up."""
        begin = self.warmup if begin is None else begin
        return percentile([rtt for when, rtt in self.rtt_us if begin <= when < end], q)


def _series(
    bins: dict[str, int], bin_seconds: float, start: float, seconds: float
) -> list[tuple[float, float]]:
    """Whole bins between the start and the end, also empty ones."""
    first = math.ceil(start / bin_seconds)
    count = math.floor((start + seconds) / bin_seconds) - first
    return [
        (
            round((first + i) * bin_seconds - start, 4),
            bins.get(str(first + i), 0) * 8 / bin_seconds,
        )
        for i in range(count)
    ]


def _flow_result(
    flow: Flow,
    sender: dict[str, Any],
    sink: dict[str, Any],
    start: float,
    warmup: float,
    seconds: float,
) -> FlowResult:
    series = _series(sink["bins"], sink["bin"], start, seconds)
    result = FlowResult(
        flow, 0.0, series, sender["retransmits"], sender["cwnd"], sender["local_port"]
    )
    result.goodput = result.goodput_between(warmup, seconds)
    return result


def run_bulk(
    net: AcdcNet,
    flows: Sequence[Flow],
    seconds: float,
    bottleneck: RedQueue | BpfQueue | None = None,
    probe: tuple[str, str] | None = None,
    warmup: float = 2.0,
    events: Sequence[tuple[float, Callable[[], object]]] = (),
    sample: Callable[[float], Any] | None = None,
    progress: Callable[[float], None] | None = None,
    interval: float = 0.25,
) -> Run:
    """Runs 'flows' side by side for 'seconds', with a latency probe between
    the two guests of 'probe'.  'events' are called at their time (seconds
    since the start), 'sample' and 'progress' every second or so.  ValueError if
    nothing is left of 'seconds' after the warm-up."""
    if seconds <= warmup:
        raise ValueError(f"seconds: {seconds:g}: want more than the warm-up of {warmup:g}")
    watch = _Watch(net, seconds, bottleneck, events, sample, progress, interval)
    programs: list[Program] = []
    try:
        # One port a flow, so that sinks of one guest are told apart.
        sinks = [
            Program(net[flow.target], "sink", "--port", BULK_PORT + i, "--bin", BIN)
            for i, flow in enumerate(flows)
        ]
        programs += sinks
        if probe:
            echo = Program(net[probe[1]], "echo", "--port", ECHO_PORT)
            programs.append(echo)
        for program in programs:
            program.await_ready()
        start = time.monotonic() + 0.5 + 0.15 * len(flows)  # For Python to start.
        when = ("--start", start, "--seconds", seconds)
        senders = [
            Program(
                *(net[flow.source], "send", net[flow.target].IP(), "--port", BULK_PORT + i),
                *("--cc", flow.cc, *when),
            )
            for i, flow in enumerate(flows)
        ]
        programs += senders
        if probe:
            prober = Program(net[probe[0]], "probe", net[probe[1]].IP(), "--port", ECHO_PORT, *when)
            programs.append(prober)
        watch.run(start, programs)
        sent = [program.result() for program in senders]
        received = [program.result()["flows"][0] for program in sinks]
        rtts = prober.result()["rtt_us"] if probe else []
    finally:
        for program in programs:
            program.kill()
    results = [
        _flow_result(flow, sender, sink, start, warmup, seconds)
        for flow, sender, sink in zip(flows, sent, received, strict=True)
    ]
    rtt_us = [(round(at - start, 4), rtt) for at, rtt in rtts]
    return Run(seconds, warmup, results, rtt_us, watch.states, watch.cpu, watch.samples)


@dataclass
class _Watch:
    """What happens while traffic runs: the bottleneck is read, events are called."""

    net: AcdcNet
    seconds: float
    bottleneck: RedQueue | BpfQueue | None
    events: Sequence[tuple[float, Callable[[], object]]]
    sample: Callable[[float], Any] | None
    progress: Callable[[float], None] | None
    interval: float
    states: list[tuple[float, QueueState]] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    cpu: float = 0.0
    """Of ovs-vswitchd, in seconds per second."""

    def run(self, start: float, programs: Sequence[Program]) -> None:
        """From 'start' for as long as the traffic; TrafficError if a program ends early."""
        time.sleep(max(0.0, start - time.monotonic()))
        cpu_before, cpu_at = self.net.ovs.cpu_seconds(), time.monotonic()
        pending = sorted(self.events, key=lambda event: event[0])
        next_sample = 1.0
        while (now := time.monotonic() - start) < self.seconds:
            self.net.ovs.check()
            for program in programs:
                program.check()
            if self.bottleneck:
                self.states.append((round(now, 3), self.bottleneck.read()))
            while pending and now >= pending[0][0]:
                pending.pop(0)[1]()
            if now >= next_sample:
                next_sample += 1.0
                if self.sample:
                    self.samples.append((round(now, 3), self.sample(now)))
                if self.progress:
                    self.progress(now)
            due = min([self.seconds, now + self.interval, *(event[0] for event in pending[:1])])
            time.sleep(max(0.0, start + due - time.monotonic()))
        if self.bottleneck:
            self.states.append((self.seconds, self.bottleneck.read()))
        used = self.net.ovs.cpu_seconds() - cpu_before
        self.cpu = used / (time.monotonic() - cpu_at)


@dataclass(frozen=True)
class Transfer:
    """A transfer of a fixed size: its time, and what the receiver got."""

    source: str
    seconds: float
    received: int
    retransmits: int


def run_transfers(
    net: AcdcNet,
    sources: Sequence[str],
    target: str,
    size: int,
    cc: str = "cubic",
    timeout: float = 60.0,
) -> list[Transfer]:
    """Every source sends 'size' bytes to 'target' at the same moment."""
    programs: list[Program] = []
    try:
        sink = Program(net[target], "sink", "--port", BULK_PORT, "--flows", len(sources))
        programs.append(sink)
        sink.await_ready()
        start = time.monotonic() + 0.5 + 0.15 * len(sources)
        senders = [
            Program(
                *(net[source], "send", net[target].IP(), "--port", BULK_PORT, "--cc", cc),
                *("--start", start, "--bytes", size, "--seconds", timeout),
            )
            for source in sources
        ]
        programs += senders
        sent = [program.result(timeout + 40) for program in senders]
        received = {flow["peer"]: flow["bytes"] for flow in sink.result()["flows"]}
    finally:
        for program in programs:
            program.kill()
    net.ovs.check()
    return [
        Transfer(source, one["seconds"], received[net[source].IP()], one["retransmits"])
        for source, one in zip(sources, sent, strict=True)
    ]


def available_stacks() -> list[str]:
    """The congestion controls that the kernel has now, without loading any."""
    path = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return path.read_text().split()
