# SPDX-License-Identifier: Apache-2.0
"""The report's pictures, in the paper's manner."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.colors import TABLEAU_COLORS

from . import report_figures as figures
from .report_figures import Result

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

COLOURS = {"plain": "tab:red", "dctcp": "tab:blue", "acdc": "tab:green"}
Runs = Mapping[str, Result]  # of the first seed, by the run's name


def colours(runs: Iterable[str]) -> dict[str, str]:
    """For each run one that no other of these has, of up to ten."""
    names = list(runs)
    taken = {COLOURS.get(name) for name in names}
    free = itertools.cycle(colour for colour in TABLEAU_COLORS if colour not in taken)
    return {name: COLOURS.get(name) or next(free) for name in names}


def save(path: Path, figure: Any) -> None:
    figure.tight_layout()
    # Without the time of day, the same figures make the same file.
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)


def panels(count: int) -> tuple[Any, list[Any]]:
    figure, axes = pyplot.subplots(
        1, count, figsize=(4.5 * count, 3.2), sharex=True, sharey=True, squeeze=False
    )
    return figure, list(axes[0])


def rtt_cdf(runs: Runs, path: Path) -> bool:
    shown = {name: result["rtt_cdf"] for name, result in runs.items() if result.get("rtt_cdf")}
    if not shown:
        return False
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    colour = colours(shown)
    for name, points in shown.items():
        x, y = zip(*points, strict=True)
        axes.plot(x, y, label=name, color=colour[name])
    axes.set(xscale="log", xlabel="RTT, us", ylabel="percent", ylim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    save(path, figure)
    return True


def window_tracking(runs: Runs, path: Path) -> bool:
    flows = list(figures.windows(runs["acdc"])) if "acdc" in runs else []
    rows = flows[0][1] if flows else []
    if not rows:
        return False
    figure, axes = pyplot.subplots(figsize=(9, 3.5))
    times, engine, guest = zip(*rows, strict=True)
    axes.plot(times, guest, label="guest's cwnd", linewidth=1)
    axes.plot(times, engine, label="AC/DC's window", linewidth=1)
    axes.set(xlabel="time, s", ylabel="segments", ylim=(0, None))
    axes.legend()
    save(path, figure)
    return True


def goodput_over_time(runs: Runs, path: Path) -> bool:
    """A panel for each run, a line for each flow, means over 50 ms."""
    if not runs:
        return False
    figure, axes = panels(len(runs))
    for axis, (name, result) in zip(axes, runs.items(), strict=True):
        for flow in figures.bulk(result):
            points = flow["goodput_series"]
            width = max(1, round(0.05 / result["options"]["interval"]))
            x = [time + flow["start"] for time, _ in points[width - 1 :]]
            y = [
                sum(mbps for _, mbps in points[i : i + width]) / width / 1e3
                for i in range(len(points) - width + 1)
            ]
            axis.plot(x, y, linewidth=1, label=flow["name"])
        axis.set(title=name, xlabel="time, s", ylim=(0, 10))
    axes[0].set_ylabel("goodput, Gbit/s")
    save(path, figure)
    return True


def completion_bars(runs: Runs, path: Path) -> bool:
    groups = [
        ("short", "mean"), ("short", "p99"), ("long", "mean"), ("long", "p99"),
    ]  # fmt: skip
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    colour = colours(runs)
    for i, (name, result) in enumerate(runs.items()):
        values = [figures.fct(*group)(result) or 0 for group in groups]
        x = [j + (i - (len(runs) - 1) / 2) * 0.25 for j in range(len(groups))]
        axes.bar(x, values, width=0.25, label=name, color=colour[name])
    axes.set(yscale="log", ylabel="flow completion time, ms")
    axes.set_xticks(range(len(groups)), [" ".join(group) for group in groups])
    axes.legend()
    save(path, figure)
    return True


def incast_curves(experiments: Mapping[str, Runs], path: Path) -> None:
    """RTT p50 and p99.9, and packets dropped, over the number of senders."""
    counts = sorted(
        int(name[6:]) for name in experiments if name[:6] == "incast" and name != "incast19"
    )
    if not counts:
        return
    wanted: list[tuple[str, figures.Value]] = [
        ("RTT p50, us", figures.rtt("p50")),
        ("RTT p99.9, us", figures.rtt("p99.9")),
        ("packets dropped", figures.drops),
    ]
    figure, axes = pyplot.subplots(1, len(wanted), figsize=(13, 3.2))
    for axis, (title, value) in zip(axes, wanted, strict=True):
        for name, colour in COLOURS.items():
            points = [
                (count, value(experiments[f"incast{count}"][name]))
                for count in counts
                if name in experiments[f"incast{count}"]
            ]
            points = [(count, y) for count, y in points if y is not None]
            if points:
                axis.plot(*zip(*points, strict=True), "o-", label=name, color=colour)
        axis.set(title=title, xlabel="senders", yscale="symlog")
        axis.grid(alpha=0.3)
    axes[0].legend()
    save(path, figure)


# By how the experiment's name begins, to the end of a word.
PLOTS: dict[str, list[Callable[[Runs, Path], bool]]] = {
    "stacks": [rtt_cdf],
    "spread": [goodput_over_time],
    "coexist": [rtt_cdf, goodput_over_time],
    "track": [window_tracking],
    "converge": [goodput_over_time],
    "incast": [rtt_cdf],
    "beta": [goodput_over_time],
    "wan": [rtt_cdf],
    "police": [goodput_over_time, rtt_cdf],
    "fct": [completion_bars],
    "stride": [completion_bars],
    "shuffle": [completion_bars],
    "parkinglot": [rtt_cdf],
    "gso": [rtt_cdf],
    "long": [goodput_over_time],
}


def plots(name: str, runs: Runs, folder: Path) -> list[Path]:
    made = []
    for prefix, functions in PLOTS.items():
        for function in functions if runs and re.match(rf"{prefix}(?![a-z])", name) else []:
            path = folder / f"{name}-{function.__name__.replace('_', '-')}.png"
            if function(runs, path):
                made.append(path)
    return made
