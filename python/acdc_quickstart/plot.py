# SPDX-License-Identifier: Apache-2.0

"""The picture of a quick start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from .phases import Options, Phase  # noqa: E402

# Okabe and Ito's colours, told apart by people with colour blindness too.
FLOWS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]
TENANT = {"blue": "#0072B2", "green": "#009E73"}
PLAIN, ACDC = "#D55E00", "#0072B2"
STYLES = ["-", "--", "-.", ":"]
SMOOTH = 5
"""Bins of 0.1 s that a point of a goodput curve averages."""


def _smooth(series: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    times, rates = [], []
    for i in range(0, len(series) - SMOOTH + 1, SMOOTH):
        part = series[i : i + SMOOTH]
        times.append(sum(when for when, _ in part) / SMOOTH)
        rates.append(sum(rate for _, rate in part) / SMOOTH / 1e6)
    return times, rates


def _goodput(axes: Any, phase: Phase, options: Options, by_tenant: bool = False) -> None:  # noqa: ANN401
    fair = options.queue.rate / len(options.stacks) / 1e6
    axes.axhline(fair, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
    for i, result in enumerate(phase.run.flows):
        flow = result.flow
        colour = TENANT[flow.tenant] if by_tenant else FLOWS[i % len(FLOWS)]
        label = f"{i + 1} {flow.cc}" + (f" ({flow.tenant})" if by_tenant else "")
        style = STYLES[i // 2 % len(STYLES)] if by_tenant else "-"
        axes.plot(
            *_smooth(result.series),
            color=colour,
            label=label,
            linestyle=style,
            linewidth=0.7 if by_tenant else 1.4,
            alpha=0.6 if by_tenant else 1,
        )
    axes.set_xlabel("time (s)")
    axes.set_ylabel("goodput (Mbit/s)")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.2)
    axes.set_xlim(0, phase.run.seconds)
    axes.legend(fontsize=7, ncols=2, loc="upper right", framealpha=0.8)


def _cdf(axes: Any, phase: Phase, colour: str) -> None:  # noqa: ANN401
    rtts = sorted(rtt / 1000 for when, rtt in phase.run.rtt_us if phase.begin <= when < phase.end)
    shares = [(i + 1) / len(rtts) for i in range(len(rtts))]
    label = f"{phase.title}: p50 {phase.rtt_ms(50):.1f}, p99 {phase.rtt_ms(99):.1f} ms"
    axes.plot(rtts, shares, color=colour, label=label, linewidth=1.8)


def draw(phases: Sequence[Phase], options: Options, path: Path) -> None:
    by_name = {phase.name: phase for phase in phases}
    figure, grid = plt.subplots(2, 3, figsize=(15, 8), constrained_layout=True)
    rate = options.queue.rate / 1e6
    figure.suptitle(
        f"{len(options.stacks)} flows of different stacks over a marking bottleneck of "
        f"{rate:g} Mbit/s, Open vSwitch on both sides",
        fontsize=13,
    )
    compared = [
        (name, colour) for name, colour in (("plain", PLAIN), ("acdc", ACDC)) if name in by_name
    ]

    for axes, (name, title) in zip(
        grid[0], (("plain", "plain OVS"), ("acdc", "AC/DC, beta 1")), strict=False
    ):
        axes.set_title(f"Goodput, {title}")
        if name in by_name:
            _goodput(axes, by_name[name], options)
    top = max((axes.get_ylim()[1] for axes in grid[0][:2]), default=1)
    for axes in grid[0][:2]:
        axes.set_ylim(0, top)

    axes = grid[0][2]
    axes.set_title(f"Goodput, green's beta from 1 to {options.beta:g} while running")
    if "beta2" in by_name:
        phase = by_name["beta2"]
        _goodput(axes, phase, options, by_tenant=True)
        axes.axvline(options.seconds, color="0.3", linewidth=1)
        for part in (by_name["beta1"], phase):
            for tenant, colour in TENANT.items():
                mean = part.tenant_goodput(tenant) / 1e6
                axes.plot([part.begin, part.end], [mean, mean], color=colour, linewidth=4)
                above = mean >= part.tenant_goodput("blue" if tenant == "green" else "green") / 1e6
                axes.annotate(
                    f"{tenant}'s mean {mean:.1f}",
                    ((part.begin + part.end) / 2, mean),
                    xytext=(0, 7 if above else -7),
                    textcoords="offset points",
                    ha="center",
                    va="bottom" if above else "top",
                    color=colour,
                    fontsize=9,
                    fontweight="bold",
                    bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
                )
        axes.annotate(
            f"ovs-vsctl set acdc green\nbeta={options.beta:g}",
            (options.seconds, axes.get_ylim()[1] * 0.04),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=7,
        )

    axes = grid[1][0]
    axes.set_title("Queue of the bottleneck")
    for name, colour in compared:
        run = by_name[name].run
        axes.plot(
            [when for when, _ in run.queue],
            [state.queue / 1000 for _, state in run.queue],
            color=colour,
            label=by_name[name].title,
            linewidth=1.2,
        )
    axes.axhline(options.queue.limit / 1000, color="0.3", linewidth=0.8, linestyle="--")
    axes.axhline(options.queue.k / 1000, color="0.3", linewidth=0.8, linestyle=":")
    axes.text(0.01, options.queue.limit / 1000, " buffer", fontsize=7, va="bottom")
    axes.text(0.01, options.queue.k / 1000, " K", fontsize=7, va="bottom")
    axes.set_ylim(0, options.queue.limit / 1000 * 1.15)
    axes.set_xlim(left=0)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("queue (KB)")
    if compared:
        axes.legend(fontsize=8, loc="center right")

    axes = grid[1][1]
    axes.set_title("Round-trip time of a TCP ping-pong under load")
    for name, colour in compared:
        _cdf(axes, by_name[name], colour)
    axes.set_xscale("log")
    axes.set_xlabel("RTT (ms)")
    axes.set_ylabel("share of messages")
    axes.set_ylim(0, 1.01)
    if compared:
        axes.legend(fontsize=8, loc="upper left")

    axes = grid[1][2]
    axes.set_title("Window in the vSwitch" + (" while beta changes" if "beta2" in by_name else ""))
    last = by_name.get("beta2") or by_name.get("acdc")
    if last:
        for i, result in enumerate(last.run.flows):
            points = [
                (when, flows[i]["wnd"] / 1000) for when, flows in last.run.samples if i in flows
            ]
            colour = TENANT.get(result.flow.tenant, FLOWS[i % len(FLOWS)])
            style = STYLES[i // 2 % len(STYLES)]
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=style, linewidth=1.2)
        if last.name == "beta2":
            axes.axvline(options.seconds, color="0.3", linewidth=1)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("window (KB)")
    axes.set_ylim(bottom=0)

    for axes in grid.flat:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
