# SPDX-License-Identifier: Apache-2.0

"""The three runs over one bottleneck: plain OVS, AC/DC, and two values of beta."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import acdc_mininet as am
from acdc_mininet.measure import BULK_PORT

WARMUP = 2.0
"""Seconds of a run, and after a change, that are not counted."""


@dataclass(frozen=True)
class Options:
    queue: am.Queue
    seconds: float
    stacks: Sequence[str]
    beta: float
    phases: Sequence[str]


@dataclass
class Phase:
    """A run, or the part of it between 'begin' and 'end'."""

    name: str
    title: str
    run: am.Run
    begin: float
    end: float

    def goodput(self, index: int) -> float:
        return self.run.flows[index].goodput_between(self.begin, self.end)

    def goodputs(self) -> list[float]:
        return [self.goodput(i) for i in range(len(self.run.flows))]

    def rtt_ms(self, q: float) -> float:
        return self.run.rtt_percentile(q, self.begin, self.end) / 1000

    def counted(self, counter: str) -> int:
        return self.run.counted(counter, self.begin, self.end)

    def alpha(self, index: int) -> float | None:
        """Mean of what acdc/dump-flows showed; None without AC/DC."""
        alphas = [
            flows[index]["alpha"]
            for when, flows in self.run.samples
            if self.begin <= when <= self.end and index in flows
        ]
        return statistics.fmean(alphas) if alphas else None

    def tenant_goodput(self, tenant: str) -> float:
        """Mean of its flows."""
        return statistics.fmean(
            self.goodput(i)
            for i, result in enumerate(self.run.flows)
            if result.flow.tenant == tenant
        )


class Experiment:
    """The network: guests h1..hN and r1..rN at two bridges, one bulk flow each,
    and a pair more for the probe."""

    def __init__(self, options: Options, progress: Callable[[str, float, float], None]) -> None:
        self.options = options
        self.progress = progress
        n = len(options.stacks)
        self.guests = [f"{side}{i}" for i in range(1, n + 2) for side in "hr"]
        self.probe = (f"h{n + 1}", f"r{n + 1}")
        self.net = am.AcdcNet(am.Dumbbell(n=n + 1, queue=options.queue))
        self.warnings: list[str] = []

    def _flows(self, tenants: Sequence[str]) -> list[am.Flow]:
        return [
            am.Flow(f"h{i + 1}", f"r{i + 1}", stack, tenants[i % len(tenants)])
            for i, stack in enumerate(self.options.stacks)
        ]

    def _sample(self, _: float) -> dict[int, dict[str, float]]:
        """State of the bulk flows in the sending guests' vSwitch."""
        found = {}
        ports = {self.net.guest_port(f"h{i + 1}"): i for i in range(len(self.options.stacks))}
        for flow in self.net.ovs.acdc("dump-flows"):
            index = ports.get(flow["port"])
            if index is None or flow["remote_port"] != BULK_PORT + index:
                continue
            if flow["state"] != "established":  # One of the phase before, in its linger.
                continue
            found[index] = {key: flow[key] for key in ("alpha", "beta", "wnd", "srtt_us")}
            if not flow["capable"]:
                text = f"flow {index + 1}: the far vSwitch did not show the capability"
                if text not in self.warnings:
                    self.warnings.append(text)
        return found

    def _run(
        self,
        title: str,
        seconds: float,
        tenants: Sequence[str] = ("",),
        events: Sequence[tuple[float, Callable[[], object]]] = (),
    ) -> am.Run:
        return am.run_bulk(
            self.net,
            self._flows(tenants),
            seconds,
            bottleneck=self.net.queue("s1", "s2"),
            probe=self.probe,
            warmup=WARMUP,
            events=events,
            sample=self._sample if tenants != ("",) else None,
            progress=lambda now: self.progress(title, now, seconds),
        )

    def plain(self) -> list[Phase]:
        """No tenant is bound: the patched Open vSwitch is a plain one."""
        seconds = self.options.seconds
        run = self._run("plain OVS", seconds)
        return [Phase("plain", "plain OVS", run, WARMUP, seconds)]

    def acdc(self) -> list[Phase]:
        seconds = self.options.seconds
        self.net.ovs.set_tenant("blue", beta=1)
        self.net.bind("blue", *self.guests)
        run = self._run("AC/DC", seconds, ("blue",))
        return [Phase("acdc", "AC/DC", run, WARMUP, seconds)]

    def beta(self) -> list[Phase]:
        """Half of the flows belong to tenant green, whose beta changes midway."""
        ovs, beta, half = self.net.ovs, self.options.beta, self.options.seconds
        tenants = ("blue", "green")
        for tenant in tenants:
            ovs.set_tenant(tenant, beta=1)
        self.net.bind("blue", *self.probe)
        for flow in self._flows(tenants):
            self.net.bind(flow.tenant, flow.source, flow.target)
        change = (half, lambda: ovs.set_tenant("green", beta=beta))
        run = self._run(f"beta 1, then green {beta:g}", 2 * half, tenants, [change])
        return [
            Phase("beta1", "both beta 1", run, WARMUP, half),
            Phase("beta2", f"green {beta:g}", run, half + WARMUP, 2 * half),
        ]

    def run(self) -> tuple[list[Phase], dict[str, float]]:
        """All phases, and the seconds that each took."""
        phases: list[Phase] = []
        times: dict[str, float] = {}
        begin = time.monotonic()
        with self.net:
            times["network"] = time.monotonic() - begin
            if not self.net.ovs.undisturbed:
                self.warnings.append(
                    "ovs-vswitchd did not get SCHED_DEADLINE (another quick start at the same "
                    "time?): the figures say something of what else runs here"
                )
            for name in self.options.phases:
                begin = time.monotonic()
                phases += {"plain": self.plain, "acdc": self.acdc, "beta": self.beta}[name]()
                times[name] = time.monotonic() - begin
        return phases, times
