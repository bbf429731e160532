# SPDX-License-Identifier: Apache-2.0
"""acdc-trace on captures of the lab: it finds why each connection of scenario causes is slow, and
what it says is what the guests' own stacks say.

The path's delay is behind the vSwitches, so that a capture in the guest has all that is in
flight."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acdc_lab.scenarios import SCENARIOS, Options, address

LAB = Path(__file__).resolve().parent
TRACE = LAB.parents[1] / "build/acdc-trace"
LINE = (
    "causes --acdc --seconds 1 --rate 1gbit --delay 1000 --late 0 --loss 5 --rto-min 0 --mark 1514"
)
# What acdc-trace is to find of each connection, the first thing first.
CAUSES = {
    "probe": ["application"],
    "switch": ["switch"],
    "receiver": ["receiver"],
    "delayed": ["delayed-ack", "delayed-acks"],
    "timeout": ["timeout", "timeouts", "retransmissions"],
    "loss": ["retransmissions"],
    "greedy": ["ignored-window"],
    "marks1": ["feedback-lost"],
    "marks2": ["feedback-lost"],
}
# And of no other.
OWN = {"delayed-acks", "feedback-lost", "ignored-window"}
Json = dict[str, Any]


@dataclass
class Run:
    pcap: Path
    result: Json

    def traced(self, name: str, *captures: str | Path) -> Json:
        """The connection of that name; without 'captures' those of guest and wire."""
        plan = SCENARIOS["causes"](Options("causes", ["cubic"]))
        source, to = f"s-{name}", next(h.switch for h in plan.hosts if h.name == f"r-{name}")
        ends = ("--guest", self.pcap / f"{source}.pcap", "--wire", self.pcap / f"t-left-{to}.pcap")
        words = [TRACE, "--json", "--summary", *(captures or ends)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        print(done.stdout)
        number = [host.name for host in plan.hosts].index(source) + 1
        start = f"{address(Options('causes', []), number)}:"
        found: list[Json] = [json.loads(line) for line in done.stdout.splitlines()]
        (mine,) = (o for o in found if o.get("from", "").startswith(start))
        return mine

    def counters(self, host: str) -> dict[str, int]:
        """What the guest's own stack counted."""
        found: dict[str, int] = self.result["hosts"][host]
        return found


def causes(connection: Json) -> list[str]:
    return [note["cause"] for note in connection["verdict"]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("causes")
    done = subprocess.run(
        [LAB / "run", *LINE.split(), "--capture", "--keep", folder, "--json", folder / "out.json"],
        capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Run(folder / "pcap", json.loads((folder / "out.json").read_text()))


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause(run: Run, name: str) -> None:
    found, expected = causes(run.traced(name)), CAUSES[name]
    assert set(expected) <= set(found) and set(found) & OWN <= set(expected)
    assert found[0] == expected[0] or name in ("loss", "marks1", "marks2")


def test_marks_that_nobody_returns(run: Run) -> None:
    """Seen at the receivers."""
    for name in ("marks1", "marks2"):
        assert "marks-lost" in causes(run.traced(name, run.pcap / "t-marking-left.pcap"))


def test_waits_are_those_that_linux_counts(run: Run) -> None:
    got = run.traced("timeout")
    assert got["timeouts"] == run.counters("s-timeout")["timeouts"] > 1
    assert got["limits"]["timeout"] > 0.18 * got["timeouts"]
    got = run.traced("delayed")
    assert got["delayed_acks"] == pytest.approx(run.counters("r-delayed")["delayed_acks"], abs=1)
    assert got["limits"]["delayed-ack"] > 0.04 * got["delayed_acks"] > 0.4


@pytest.mark.parametrize("name", ["switch", "receiver", "loss"])
def test_figures_are_those_of_linux(run: Run, name: str) -> None:
    (info,) = (flow["tcp_info"] for flow in run.result["flows"] if flow["name"] == name)
    samples = [dict(zip(info["fields"], row, strict=True)) for row in info["samples"]]
    got = run.traced(name)
    # Microseconds; rtt_us is smoothed, and has what waits in the guest, before the capture.
    assert got["rtt_min"] == pytest.approx(samples[-1]["min_rtt_us"], abs=3)
    if name != "loss":
        mean = statistics.mean(sample["rtt_us"] for sample in samples)
        assert 0.7 * mean < got["rtt"] < 1.2 * mean
    again = run.counters(f"s-{name}")["retransmits"]
    assert got["retransmitted"] == pytest.approx(again, abs=2)
    assert (again > 0) == (name == "loss")
