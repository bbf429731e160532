# SPDX-License-Identifier: Apache-2.0
"""Figures from what the tools and the kernel counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

# Of 'nstat', what tells how senders and receivers fared.
COUNTERS = {
    "retransmits": "TcpRetransSegs",
    "timeouts": "TcpExtTCPTimeouts",
    "syn_retransmits": "TcpExtTCPSynRetrans",
    "loss_probes": "TcpExtTCPLossProbes",
    "delayed_acks": "TcpExtDelayedACKs",
    "out_of_order": "TcpExtTCPOFOQueue",
    "checksum_errors": "TcpInCsumErrors",
}


def percentile(ordered: Sequence[float], q: float) -> float:
    """Of sorted values, the nearest rank: a value that occurred."""
    return ordered[max(0, math.ceil(round(q * len(ordered) / 100, 6)) - 1)]


def distribution(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {"n": 0}
    ordered = sorted(values)
    result = {f"p{q:g}": percentile(ordered, q) for q in (50, 90, 99, 99.9)}
    return {
        "n": len(ordered),
        "mean": sum(ordered) / len(ordered),
        "min": ordered[0],
        **result,
        "max": ordered[-1],
    }


def cdf(values: Sequence[float]) -> list[tuple[float, float]]:
    """(value, percent of all values up to it), 200 points and the tail."""
    ordered = sorted(values)
    points = [i / 2 for i in range(1, 200)] + [99.9, 99.99, 100]
    return [(percentile(ordered, q), q) for q in points] if ordered else []


def stem(name: str) -> str:
    """Of 'small12' and of 'query-h3': 'small', 'query'."""
    return name.partition("-")[0].rstrip("0123456789")


def jain(shares: Sequence[float]) -> float | None:
    """Jain's fairness index: 1 when all get the same, 1/n when one gets all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def series(samples: list[list[float]]) -> list[tuple[float, float]]:
    """(time, Mbit/s since the sample before) from (t, bytes_acked, ...)."""
    result = []
    for before, after in zip(samples, samples[1:], strict=False):
        span = after[0] - before[0]
        if span > 0:
            result.append((after[0], (after[1] - before[1]) * 8e-6 / span))
    return result


def goodput(samples: list[list[float]], begin: float, end: float) -> float:
    """Mbit/s acknowledged between two times; before the first sample there was nothing."""
    inside = [sample for sample in samples if begin <= sample[0] <= end]
    if samples and samples[0][0] > begin:
        inside.insert(0, [begin, 0.0])
    if len(inside) < 2 or inside[-1][0] <= inside[0][0]:
        return 0.0
    return (inside[-1][1] - inside[0][1]) * 8e-6 / (inside[-1][0] - inside[0][0])


def completion(
    flows: list[tuple[float, str, int, float | None, int]], ended: float
) -> Iterator[tuple[str, float]]:
    """Each flow's group and its time in ms: of one that is not finished at least that, and it
    is in 'unfinished', too."""
    for start, _, size, taken, _ in flows:
        if taken is None:
            taken = ended - start
            yield "unfinished", taken * 1e3
        yield "short" if size < 100_000 else "long", taken * 1e3


def sharing(shares: list[float]) -> dict[str, Any]:
    return {"goodput_mbps": sum(shares), "jain": jain(shares), "shares_mbps": shares}


def within(
    flows: list[dict[str, Any]], probes: list[list[float]], begin: float, end: float
) -> dict[str, Any]:
    """Shares and the probe's round trips of a part of the run."""
    shares = [
        goodput([sample[:2] for sample in flow["tcp_info"]["samples"]], begin, end)
        for flow in flows
        if flow["kind"] == "bulk"
    ]
    rtt = [rtt_us for t, rtt_us in probes if begin <= t < end]
    return sharing(shares) | {"rtt_us": distribution(rtt)}


def pause(samples: list[list[float]]) -> float:
    """The longest time, in seconds, between samples without a byte acknowledged."""
    longest = 0.0
    for _, same in itertools.groupby(samples, key=lambda sample: sample[1]):
        times = [sample[0] for sample in same]
        longest = max(longest, times[-1] - times[0])
    return longest


def difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: after.get(key, 0) - before.get(key, 0) for name, key in COUNTERS.items()}


def total(rows: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(row[name] for row in rows) for name in COUNTERS}


def shares(result: dict[str, Any]) -> str:
    """What summary() says of streams of bulk data."""
    jain_index = "-" if result["jain"] is None else f"{result['jain']:.4f}"
    each = " ".join(f"{share:.0f}" for share in result["shares_mbps"])
    return f"{result['goodput_mbps']:.0f}  Jain {jain_index}  each: {each}"


def longest_pause(flow: dict[str, Any]) -> float:
    """Of a bulk flow, in both directions."""
    longest: float = max(flow["pause_s"], flow.get("pause_back_s", 0))
    return longest


def summary(result: dict[str, Any]) -> str:
    """A few lines for people."""
    lines = []
    rtt = result.get("rtt_us", {})
    if rtt.get("n"):
        lines.append(
            f"RTT us: p50 {rtt['p50']:.0f}  p99 {rtt['p99']:.0f}  p99.9 {rtt['p99.9']:.0f}"
            f"  max {rtt['max']:.0f}  (n {rtt['n']})"
        )
    bulk = [flow for flow in result["flows"] if flow["kind"] == "bulk"]
    if bulk:
        lines.append(f"goodput Mbit/s: {shares(result)}")
        if any("goodput_back_mbps" in flow for flow in bulk):
            lines += [f"{name}: {shares(way)}" for name, way in result["directions"].items()]
            lines.append(f"longest pause: {max(map(longest_pause, bulk)) * 1e3:.0f} ms")
    for name, times in result.get("rpc_us", {}).items():
        if times["n"] and name != "probe":
            lines.append(
                f"{name} us: p50 {times['p50']:.0f}  p99 {times['p99']:.0f}"
                f"  p99.9 {times['p99.9']:.0f}  max {times['max']:.0f}  (n {times['n']})"
            )
    for name, sizes in result.get("fct_ms", {}).items():
        if sizes["n"]:
            lines.append(
                f"FCT ms, {name}: mean {sizes['mean']:.3f}  p99 {sizes['p99']:.3f}  (n {sizes['n']})"
            )
    for when in ("before", "after") if "reload" in result else ():
        part = result["reload"][when]
        lines.append(
            f"{when} the reload: RTT p99 {part['rtt_us'].get('p99', 0):.0f} us, {shares(part)}"
        )
    for part in result.get("moves", ()):
        lines.append(
            f"at {part['at']}: {part['capable']} of {part['connections']} connections have AC/DC,"
            f" RTT p99 {part['rtt_us'].get('p99', 0):.0f} us, {shares(part)}"
        )
    queues = result["queues"]
    tcp = result["tcp"]
    lines.append(
        f"drops {sum(queue['drops'] for queue in queues)}"
        f"  marks {sum(queue['marks'] for queue in queues)}"
        f"  retransmits {tcp['retransmits']}  timeouts {tcp['timeouts']}"
        f"  SYN retransmits {tcp['syn_retransmits']}"
    )
    return "\n".join(lines)
