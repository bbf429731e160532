# SPDX-License-Identifier: Apache-2.0

"""The table, the targets and the JSON of a quick start."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import acdc_mininet as am

from .phases import Experiment, Phase

# What AC/DC has to reach here, against plain OVS in the same run.
RTT_RATIO, JAIN, GOODPUT_RATIO, BETA_RATIO = 0.2, 0.95, 0.95, 0.9


@dataclasses.dataclass(frozen=True)
class Check:
    """A target: 'text' says what was measured and what was wanted."""

    name: str
    value: float
    ok: bool
    text: str


def _ratio(value: float, base: float) -> float:
    """NaN, with which no target is reached, if nothing came through."""
    return value / base if base else math.nan


def _known(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return None if math.isnan(value) else value


def checks(phases: Sequence[Phase]) -> list[Check]:
    by_name = {phase.name: phase for phase in phases}
    found = []
    plain, acdc = by_name.get("plain"), by_name.get("acdc")
    if plain and acdc:
        ratio = _ratio(acdc.rtt_ms(50), plain.rtt_ms(50))
        text = (
            f"RTT p50 under load {acdc.rtt_ms(50):.2f} ms, {ratio:.2f} of plain OVS's "
            f"{plain.rtt_ms(50):.2f} ms (target: at most {RTT_RATIO:g})"
        )
        found.append(Check("rtt_p50_ratio", ratio, ratio <= RTT_RATIO, text))
        total, before = sum(acdc.goodputs()), sum(plain.goodputs())
        ratio = _ratio(total, before)
        text = (
            f"goodput {total / 1e6:.1f} Mbit/s, {ratio:.3f} of plain OVS's "
            f"{before / 1e6:.1f} (target: at least {GOODPUT_RATIO:g})"
        )
        found.append(Check("goodput_ratio", ratio, ratio >= GOODPUT_RATIO, text))
    if acdc:
        jain = am.jain(acdc.goodputs())
        text = f"Jain's index {jain:.3f}"
        text += f", plain OVS {am.jain(plain.goodputs()):.3f}" if plain else ""
        text += f" (target: at least {JAIN:g})"
        found.append(Check("jain", jain, jain >= JAIN, text))
    if "beta2" in by_name:
        one, two = by_name["beta1"], by_name["beta2"]
        before = _ratio(one.tenant_goodput("green"), one.tenant_goodput("blue"))
        after = _ratio(two.tenant_goodput("green"), two.tenant_goodput("blue"))
        # What the stacks differ in by themselves is in both.
        ratio = _ratio(after, before)
        text = (
            f"a green flow gets {after:.2f} of a blue one after the change of beta, "
            f"{before:.2f} before: {ratio:.2f} of that (target: at most {BETA_RATIO:g})"
        )
        found.append(Check("beta_ratio", ratio, ratio <= BETA_RATIO and after < 1, text))
    return found


def table(phases: Sequence[Phase]) -> str:
    """Goodput of every flow, and what they do together, one column a phase."""
    flows = [result.flow for result in phases[-1].run.flows]
    tenants = phases[-1].name == "beta2"
    rows: list[list[str]] = [["", *(phase.title for phase in phases)]]
    for i, flow in enumerate(flows):
        label = f"flow {i + 1}, {flow.cc}" + (f" ({flow.tenant})" if tenants else "")
        rows.append([label, *(f"{phase.goodput(i) / 1e6:.1f}" for phase in phases)])

    def row(label: str, cells: Sequence[str]) -> None:
        rows.append([label, *cells])

    def alphas(phase: Phase) -> str:
        found = [alpha for i in range(len(flows)) if (alpha := phase.alpha(i)) is not None]
        return f"{sum(found) / len(found):.2f}" if found else "-"

    row("sum", [f"{sum(phase.goodputs()) / 1e6:.1f}" for phase in phases])
    row("Jain's index", [f"{am.jain(phase.goodputs()):.3f}" for phase in phases])
    row("RTT p50 (ms)", [f"{phase.rtt_ms(50):.2f}" for phase in phases])
    row("RTT p99 (ms)", [f"{phase.rtt_ms(99):.2f}" for phase in phases])
    row("packets dropped", [str(phase.counted("drops")) for phase in phases])
    row("packets marked", [str(phase.counted("marks")) for phase in phases])
    row("alpha (mean)", [alphas(phase) for phase in phases])
    row("ovs-vswitchd CPU", [f"{phase.run.vswitchd_cpu:.0%}" for phase in phases])
    rows[0][0] = "Goodput (Mbit/s)"

    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for number, cells in enumerate(rows):
        if number in (1, len(flows) + 1):
            lines.append("-" * (sum(widths) + 3 * (len(widths) - 1)))
        first = cells[0].ljust(widths[0])
        lines.append("   ".join([first, *map(str.rjust, cells[1:], widths[1:])]))
    return "\n".join(lines)


def _cpu_model() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def _phase(phase: Phase) -> dict[str, Any]:
    run = phase.run
    return {
        "title": phase.title,
        "counted_seconds": [phase.begin, phase.end],
        "goodput_bps": sum(phase.goodputs()),
        "jain": am.jain(phase.goodputs()),
        "rtt_us": {f"p{q:g}": _known(phase.rtt_ms(q) * 1000) for q in (50, 90, 99, 99.9)},
        "drops": phase.counted("drops"),
        "marks": phase.counted("marks"),
        "vswitchd_cpu": run.vswitchd_cpu,
        "flows": [
            {
                "stack": result.flow.cc,
                "tenant": result.flow.tenant,
                "goodput_bps": phase.goodput(i),
                "alpha": phase.alpha(i),
                "retransmits": result.retransmits,
                "goodput_series": result.series,
            }
            for i, result in enumerate(run.flows)
        ],
        "rtt_series_us": run.rtt_us,
        "queue_series": [[when, dataclasses.asdict(state)] for when, state in run.queue],
        "acdc_samples": run.samples,
    }


def document(
    experiment: Experiment,
    phases: Sequence[Phase],
    found: Sequence[Check],
    times: dict[str, float],
    command: str,
    commit: str,
) -> dict[str, Any]:
    """Everything that was measured, and with what."""
    queue = experiment.options.queue
    return {
        "program": "acdc-quickstart",
        "command": command,
        "commit": commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "cpu": _cpu_model(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
        "versions": {
            "ovs": experiment.net.ovs.programs.version(),
            "python": platform.python_version(),
        },
        "bottleneck": {
            **dataclasses.asdict(queue),
            "marker": "red" if am.has_red() else "bpf",
        },
        "stacks": list(experiment.options.stacks),
        "ovs_commands": experiment.net.ovs.commands,
        "seconds": {name: round(value, 1) for name, value in times.items()},
        "checks": [dataclasses.asdict(check) | {"value": _known(check.value)} for check in found],
        "warnings": experiment.warnings,
        "phases": {phase.name: _phase(phase) for phase in phases},
    }
