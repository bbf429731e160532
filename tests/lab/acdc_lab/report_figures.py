# SPDX-License-Identifier: Apache-2.0
"""Figures of one run's result, and targets for them.

A figure is None where the run has none: no bulk flows, say, or no AC/DC."""

from __future__ import annotations

import bisect
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from . import results

Result = dict[str, Any]
Value = Callable[[Result], float | None]


@dataclasses.dataclass(frozen=True)
class Target:
    """At most, or at least, 'limit': times another run's figure if 'of' names
    one."""

    at_least: bool
    limit: float
    of: str = ""

    def met(self, value: float | None, figures: dict[str, float | None]) -> bool | None:
        """None: nothing to compare it with."""
        reference = figures.get(self.of) if self.of else 1.0
        if reference is None:
            return None
        if value is None:
            return False
        bound = self.limit * reference
        return value >= bound - 1e-9 if self.at_least else value <= bound + 1e-9

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        if not self.of:
            return f"{sign} {self.limit:g}"
        return f"{sign} {self.of}" if self.limit == 1 else f"{sign} {self.limit:g} × {self.of}"


def at_most(limit: float, of: str = "") -> Target:
    return Target(False, limit, of)


def at_least(limit: float, of: str = "") -> Target:
    return Target(True, limit, of)


@dataclasses.dataclass(frozen=True)
class Figure:
    name: str
    value: Value
    target: Target | None = None
    only: tuple[str, ...] = ()  # runs that are judged; (): all with AC/DC
    digits: int = 0
    scenario: str = ""  # the only one in which it means something


@dataclasses.dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    paper: str  # what it reports
    runs: dict[str, str]
    figures: list[Figure]
    seconds: float = 4
    cost: float = 1  # of a simulated second, in those of a dumbbell
    note: str = ""


# Round-trip times, goodput, drops. -------------------------------------------


def rtt(quantile: str) -> Value:
    return lambda result: result["rtt_us"].get(quantile)


def pooled(name: str, quantile: str) -> Value:
    """Of all requests of clients NAME1, NAME2..., in us."""
    return lambda result: result["rpc_us"].get(name, {}).get(quantile)


def fct(group: str, quantile: str) -> Value:
    return lambda result: result["fct_ms"].get(group, {}).get(quantile)


def unfinished(result: Result) -> float:
    return float(result["fct_ms"].get("unfinished", {}).get("n", 0))


def total_goodput(result: Result) -> float | None:
    return result["goodput_mbps"] if bulk(result) else None


def direction(name: str) -> Value:
    """Goodput of the bulk data of one direction, like 'left to right'."""
    return lambda result: result["directions"].get(name, {}).get("goodput_mbps")


def jain(result: Result) -> float | None:
    value: float | None = result["jain"]
    return value


def tcp(name: str) -> Value:
    return lambda result: float(result["tcp"][name])


def drops(result: Result) -> float:
    return float(sum(queue["drops"] for queue in result["queues"]))


def not_connected(result: Result) -> float:
    """Of the clients that have one connection each."""
    single = [flow for flow in result["flows"] if flow["kind"] in ("bulk", "rpc")]
    return float(sum(flow["connected"] is None for flow in single))


def counter(name: str) -> Value:
    """Of the engine, over all tenants."""

    def value(result: Result) -> float | None:
        if "engine" not in result:
            return None
        return float(sum(tenant["counters"][name] for tenant in result["engine"]["tenants"]))

    return value


# Shares. ---------------------------------------------------------------------


def bulk(result: Result) -> list[dict[str, Any]]:
    return [flow for flow in result["flows"] if flow["kind"] == "bulk"]


def shares(result: Result) -> list[float]:
    return [flow["goodput_mbps"] for flow in bulk(result)]


def spread(result: Result) -> float | None:
    found = shares(result)
    return statistics.stdev(found) if len(found) > 1 else None


def least_share(result: Result) -> float | None:
    """Of a fair one."""
    found = shares(result)
    return min(found) / statistics.fmean(found) if any(found) else None


def _goodputs(result: Result) -> list[list[float]]:
    """Of each flow, one number an interval, past slow start."""
    begin = 0.1 * result["options"]["seconds"]
    return [
        [mbps for time, mbps in flow["goodput_series"] if time > begin] for flow in bulk(result)
    ]


def share_deviation(result: Result) -> float | None:
    """Standard deviation of a flow's goodput in one interval, of its mean.  None if the
    run is too short to say."""
    series = _goodputs(result)
    if not all(any(one) for one in series):
        return None
    return statistics.fmean(statistics.pstdev(one) / statistics.fmean(one) for one in series)


def share_memory(result: Result) -> float | None:
    """How long a share that is not the fair one lasts, ms: after that it is e times
    nearer.  From the autocorrelation of goodputs at a lag of 4 intervals; None where
    there is none, or the run is too short to say."""
    lag = 4
    pairs = [(one[:-lag], one[lag:]) for one in _goodputs(result)]
    if any(len(set(before)) < 2 or len(set(after)) < 2 for before, after in pairs):
        return None
    found = statistics.fmean(statistics.correlation(before, after) for before, after in pairs)
    interval: float = result["options"]["interval"]
    return -lag * interval * 1e3 / math.log(found) if 0 < found < 1 else None


def mean_of(*names: str) -> Value:
    """Mean goodput of some flows."""
    return lambda result: statistics.fmean(
        flow["goodput_mbps"] for flow in bulk(result) if flow["name"] in names
    )


def between(flow: dict[str, Any], begin: float, end: float) -> float:
    """Goodput between two times of the run, Mbit/s."""
    start = flow["start"]
    return results.goodput(flow["tcp_info"]["samples"], begin - start, end - start)


# beta: half of the time as configured, then beta 0 has become 1. --------------

# In step, all flows see the same marks and the same alpha, and grow by a segment
# a round trip: alpha * (1 - beta / 2) * wnd is lost when that much is won.


def beta_model(betas: list[float]) -> list[float]:
    """Shares of all, for flows with these betas at one bottleneck."""
    weights = [1 / (1 - beta / 2) for beta in betas]
    return [weight / sum(weights) for weight in weights]


BETAS = [1, 0.75, 0.5, 0.25, 0]


def beta_shares(result: Result) -> list[float]:
    """Of the first half, past slow start."""
    seconds = result["options"]["seconds"]
    found = [between(flow, 0.1 * seconds, 0.5 * seconds) for flow in bulk(result)]
    return [value / (sum(found) or 1) for value in found]


def beta_share(index: int) -> Value:
    return lambda result: beta_shares(result)[index]


def beta_order(result: Result) -> float:
    """The least step between neighbours: positive if the shares are ordered."""
    found = beta_shares(result)
    return min(a - b for a, b in zip(found, found[1:], strict=False))


def beta_model_error(result: Result) -> float:
    """The largest, as a part of what the model has."""
    model = beta_model([float(beta) for beta in BETAS])
    return max(abs(a - b) / b for a, b in zip(beta_shares(result), model, strict=True))


def beta_effect(result: Result) -> float:
    """Milliseconds from the change of beta 0 to 1 until that flow first has, as a mean over
    50 ms, its share by the model of what all have then, less 5 %."""
    seconds = result["options"]["seconds"]
    flows = bulk(result)
    share = beta_model([*map(float, BETAS[:-1]), 1])[-1]
    total = sum(between(flow, 0.5 * seconds, seconds) for flow in flows) or math.inf
    time = 0.5 * seconds
    while time + 0.05 <= seconds:
        if between(flows[-1], time, time + 0.05) >= 0.95 * share * total:
            return (time + 0.05 - 0.5 * seconds) * 1e3
        time += 0.01
    return math.inf


# cap: alone in the first half, beside another flow in the second. -------------


def cap_error(first: float, last: float) -> Value:
    """How far goodput is from max_window / RTT, the RTT by the guest's own
    samples; from and to are parts of the run."""

    def value(result: Result) -> float | None:
        from .scenarios import CAP

        seconds = result["options"]["seconds"]
        flow = bulk(result)[0]
        info = flow["tcp_info"]
        times = [
            row[info["fields"].index("rtt_us")]
            for row in info["samples"]
            if first * seconds <= row[0] + flow["start"] <= last * seconds
        ]
        if not times:
            return None
        wanted = CAP * 8 / statistics.fmean(times)
        return abs(between(flow, first * seconds, last * seconds) / wanted - 1)

    return value


# track: the engine's windows and the guests' own. -----------------------------


def windows(result: Result) -> Iterator[tuple[str, list[tuple[float, float, float]]]]:
    """For each flow: times, the engine's window, the guest's, in segments."""
    for flow in bulk(result):
        info = flow["tcp_info"]
        if not info["samples"]:
            continue
        cwnd = info["fields"].index("cwnd")
        times = [row[0] + flow["start"] for row in info["samples"]]
        rows = []
        for entry in result.get("trace", []):
            i = bisect.bisect_left(times, entry["t"] - 1e-5)
            if i == len(times) or abs(times[i] - entry["t"]) > 1e-5:
                continue
            for other in entry["flows"]:
                if other["port"] == f"p-{flow['source']}" and other["local_port"] != 5001:
                    window = other["wnd"] / other["mss"]
                    rows.append((entry["t"], window, float(info["samples"][i][cwnd])))
        yield flow["name"], rows


def track_error(result: Result) -> float | None:
    """Root of the mean squared difference, as a part of the guests' mean, past
    slow start."""
    begin = 0.1 * result["options"]["seconds"]
    rows = [row for _, flow in windows(result) for row in flow if row[0] >= begin]
    if not rows:
        return None
    square = statistics.fmean((engine - guest) ** 2 for _, engine, guest in rows)
    return math.sqrt(square) / statistics.fmean(guest for _, _, guest in rows)


def track_bias(result: Result) -> float | None:
    """The engine's mean window over the guests'."""
    begin = 0.1 * result["options"]["seconds"]
    rows = [row for _, flow in windows(result) for row in flow if row[0] >= begin]
    if not rows:
        return None
    return statistics.fmean(row[1] for row in rows) / statistics.fmean(row[2] for row in rows)


# converge: flows join, then leave, at equal steps. ----------------------------


def converge_times(result: Result) -> list[float]:
    """For each step: milliseconds until every flow there was, as a mean over
    50 ms, within 5 % of its fair share at least once."""
    flows = bulk(result)
    seconds = result["options"]["seconds"]
    step = seconds / (2 * len(flows) - 1)
    capacity = between(flows[0], 0.2 * step, step) or math.inf
    found = []
    for k in range(1, 2 * len(flows) - 1):
        active = flows[: min(k + 1, 2 * len(flows) - 1 - k)]
        fair = capacity / len(active)
        worst = 0.0
        for flow in active:
            time = k * step
            while time + 0.05 <= (k + 1) * step:
                if abs(between(flow, time, time + 0.05) / fair - 1) <= 0.05:
                    break
                time += 0.01
            worst = max(worst, time + 0.05 - k * step)
        found.append(worst * 1e3)
    return found


def converge_mean(result: Result) -> float:
    return statistics.fmean(converge_times(result))


def converge_max(result: Result) -> float:
    return max(converge_times(result))


# incast19: connections tried beside the flows. --------------------------------


def connect_probability(result: Result) -> float | None:
    """Of a connection's first SYN and SYN-ACK to arrive both: without, it takes
    a second."""
    tried = [row for flow in result["flows"] if flow["name"] == "connect" for row in flow["flows"]]
    if not tried:
        return None
    return sum(row[3] is not None and row[3] < 1 for row in tried) / len(tried)


# partial. ---------------------------------------------------------------------


def goodput_of(parity: int) -> Value:
    """Of the pairs whose number is even (0: without AC/DC) or odd, together."""
    return lambda result: sum(
        flow["goodput_mbps"] for flow in bulk(result) if int(flow["name"][1:]) % 2 == parity
    )


# stride and shuffle. ----------------------------------------------------------


def _transfers(result: Result) -> list[tuple[float, float, float]]:
    """Start in s, bytes and duration in s of the large transfers."""
    return [
        (row[0], row[2], math.inf if row[3] is None else row[3])
        for flow in result["flows"]
        if flow["kind"] == "transfer"
        for row in flow["flows"]
    ]


def transfer_rate(result: Result) -> float | None:
    """Mean rate of the large transfers, Mbit/s.

    Of equal transfers that share a link it is the higher the less equal their shares
    are: one after the other they have more than side by side, and end no sooner.
    """
    rates = [size * 8e-6 / duration for _start, size, duration in _transfers(result)]
    return statistics.fmean(rates) if rates else None


def transfer_time(result: Result) -> float | None:
    """Mean duration of the large transfers, ms."""
    durations = [duration * 1e3 for _start, _size, duration in _transfers(result)]
    return statistics.fmean(durations) if durations else None


def transfers_end(result: Result) -> float | None:
    """When the last of the large transfers ended, ms."""
    ends = [(start + duration) * 1e3 for start, _size, duration in _transfers(result)]
    return max(ends, default=None)


# long. ------------------------------------------------------------------------


def drift(result: Result) -> float | None:
    """Goodput of the last fifth over that of the second."""
    seconds = result["options"]["seconds"]
    early = sum(between(flow, 0.2 * seconds, 0.4 * seconds) for flow in bulk(result))
    late = sum(between(flow, 0.8 * seconds, seconds) for flow in bulk(result))
    return late / early if early else None


def stall(result: Result) -> float:
    """The longest time in ms in which samples of a flow show nothing acknowledged."""
    return max(map(results.longest_pause, bulk(result))) * 1e3
