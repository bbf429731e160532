# SPDX-License-Identifier: Apache-2.0
"""acdc-trace on captures of the lab: what it says is what the guests' own stacks say.

The path's delay is behind the vSwitches, so that a capture in the guest has all that is in
flight."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).resolve().parent
TRACE = LAB.parents[1] / "build/acdc-trace"
SOURCE = "10.0.0.4"  # Guest s1.
# By what acdc-trace is to find.
RUNS = {
    "switch": ["--acdc"],
    "receiver": ["--acdc", "--sysctl", "net.ipv4.tcp_rmem=4096 16384 16384"],
    "retransmissions": ["--plain", "--buffer", "60000"],
}
LONG = () if os.environ.get("ACDC_TEST_ALL") else ("receiver", "retransmissions")


def traced(folder: Path) -> dict[str, Any]:
    """The connection of s1."""
    captures: list[str | Path] = [
        "--guest",
        folder / "s1.pcap",
        "--wire",
        folder / "t-left-core.pcap",
    ]
    done = subprocess.run(
        [TRACE, "--json", "--summary", *captures], capture_output=True, text=True, check=True
    )
    print(done.stdout)
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    (mine,) = (o for o in found if o.get("from", "").startswith(f"{SOURCE}:"))
    return mine


@pytest.mark.parametrize("cause", [name for name in RUNS if name not in LONG])
def test_it_finds_what_the_guest_knows(tmp_path: Path, cause: str) -> None:
    line = "late --late 0 --stack cubic --flows 2 --seconds 0.05 --interval 1 --capture".split()
    out = tmp_path / "result.json"
    done = subprocess.run(
        [LAB / "run", *line, *RUNS[cause], "--keep", tmp_path, "--json", out],
        capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    compare(tmp_path, cause)


def compare(folder: Path, cause: str) -> None:
    flows = json.loads((folder / "result.json").read_text())["flows"]
    (info,) = (flow["tcp_info"] for flow in flows if flow["name"] == "f1")
    samples = [dict(zip(info["fields"], row, strict=True)) for row in info["samples"]]
    got = traced(folder / "pcap")
    assert cause in [note["cause"] for note in got["verdict"]]
    # Microseconds; rtt_us is smoothed, and has what waits in the guest, before the capture.
    assert got["rtt_min"] == pytest.approx(samples[-1]["min_rtt_us"], abs=3)
    mean = statistics.mean(sample["rtt_us"] for sample in samples)
    assert 0.7 * mean < got["rtt"] < 1.2 * mean
    # The capture ends after the last sample.
    again = samples[-1]["retrans"]
    assert again <= got["retransmitted"] <= 1.3 * again
    assert (again > 0) == (cause == "retransmissions")
