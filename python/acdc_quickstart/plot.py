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


def _tenants(axes: Any, before: Phase, after: Phase, options: Options) -> None:  # noqa: ANN401
    """Goodput while green's beta changes, and each tenant's mean before and after."""
    _goodput(axes, after, options, by_tenant=True)
    axes.axvline(options.seconds, color="0.3", linewidth=1)
    for part in (before, after):
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


def _queue(axes: Any, compared: Sequence[tuple[Phase, str]], options: Options) -> None:  # noqa: ANN401
    for phase, colour in compared:
        axes.plot(
            [when for when, _ in phase.run.queue],
            [state.queue / 1000 for _, state in phase.run.queue],
            color=colour,
            label=phase.title,
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


def _rtt(axes: Any, compared: Sequence[tuple[Phase, str]]) -> None:  # noqa: ANN401
    for phase, colour in compared:
        _cdf(axes, phase, colour)
    axes.set_xscale("log")
    axes.set_xlabel("RTT (ms)")
    axes.set_ylabel("share of messages")
    axes.set_ylim(0, 1.01)
    if compared:
        axes.legend(fontsize=8, loc="upper left")


def _windows(axes: Any, phase: Phase | None, options: Options) -> None:  # noqa: ANN401
    for i, result in enumerate(phase.run.flows) if phase else ():
        assert phase
        points = [(when, flows[i]["wnd"] / 1000) for when, flows in phase.run.samples if i in flows]
        colour = TENANT.get(result.flow.tenant, FLOWS[i % len(FLOWS)])
        style = STYLES[i // 2 % len(STYLES)]
        axes.plot(*zip(*points, strict=True), color=colour, linestyle=style, linewidth=1.2)
    if phase and phase.name == "beta2":
        axes.axvline(options.seconds, color="0.3", linewidth=1)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("window (KB)")
    axes.set_ylim(bottom=0)


def draw(phases: Sequence[Phase], options: Options, path: Path) -> None:
    by_name = {phase.name: phase for phase in phases}
    figure, grid = plt.subplots(2, 3, figsize=(15, 8), constrained_layout=True)
    rate = options.queue.rate / 1e6
    figure.suptitle(
        f"{len(options.stacks)} flows of different stacks over a marking bottleneck of "
        f"{rate:g} Mbit/s, Open vSwitch on both sides",
        fontsize=13,
    )
    colours = {"plain": PLAIN, "acdc": ACDC}
    compared = [(by_name[name], colour) for name, colour in colours.items() if name in by_name]
    changes = "beta2" in by_name
    titles = (
        "Goodput, plain OVS",
        "Goodput, AC/DC, beta 1",
        f"Goodput, green's beta from 1 to {options.beta:g} while running",
        "Queue of the bottleneck",
        "Round-trip time of a TCP ping-pong under load",
        "Window in the vSwitch" + (" while beta changes" if changes else ""),
    )
    for axes, title in zip(grid.flat, titles, strict=True):
        axes.set_title(title)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)

    for axes, name in zip(grid[0][:2], colours, strict=True):
        if name in by_name:
            _goodput(axes, by_name[name], options)
    top = max(axes.get_ylim()[1] for axes in grid[0][:2])
    for axes in grid[0][:2]:
        axes.set_ylim(0, top)
    if changes:
        _tenants(grid[0][2], by_name["beta1"], by_name["beta2"], options)
    _queue(grid[1][0], compared, options)
    _rtt(grid[1][1], compared)
    _windows(grid[1][2], by_name.get("beta2") or by_name.get("acdc"), options)
    figure.savefig(path, dpi=120)
    plt.close(figure)
