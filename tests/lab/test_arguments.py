# SPDX-License-Identifier: Apache-2.0
"""tests/lab/run says what is wrong with its arguments before it boots."""

from __future__ import annotations

import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from acdc_lab.report_experiments import EXPERIMENTS

from acdc_testlib.arguments import refusal

RUN = Path(__file__).resolve().parent / "run"


@pytest.mark.parametrize(
    ("line", "value", "allowed"),
    [
        ("nowhere", "'nowhere'", "dumbbell, late, twoway"),
        ("dumbbell --flows 0", "'0'", "1 to 250"),
        ("dumbbell --flows -1", "'-1'", "1 to 250"),
        ("stride --flows 4", "4", "another number"),
        ("cap --flows 3", "3", "of its own"),
        ("dumbbell --seconds nan", "'nan'", "0.001 to 3600"),
        ("dumbbell --seconds -1", "'-1'", "0.001 to 3600"),
        ("dumbbell --seconds inf", "'inf'", "0.001 to 3600"),
        ("dumbbell --rate 0gbit", "'0gbit'", "1mbit to 100gbit"),
        ("dumbbell --rate 10", "'10'", "1mbit to 100gbit"),
        ("dumbbell --mtu 100", "'100'", "576 to 65000"),
        ("dumbbell --mtu 1000 --ipv6", "1000", "1280"),
        ("dumbbell --delay nan", "'nan'", "0 to 1e+06"),
        ("dumbbell --delay -1", "'-1'", "0 to 1e+06"),
        ("dumbbell --spread 41", "41", "40"),
        ("dumbbell --jitter 21", "21", "20"),
        ("dumbbell --buffer 1000", "1000", "1514"),
        ("dumbbell --mark -1", "'-1'", "0 to 1000000000"),
        ("fct --load 0", "'0'", "0.01 to 1"),
        ("fct --load nan", "'nan'", "0.01 to 1"),
        ("fct --sizes elephants", "'elephants'", "'websearch'"),
        ("dumbbell --stack nope", "'nope'", "cubic, dctcp, highspeed"),
        ("dumbbell --stack cubic,", "''", "paper"),
        ("dumbbell --seconds 1 --restart 1", "1", "less than --seconds"),
        ("dumbbell --seconds 1 --reload 1", "1", "less than --seconds"),
        ("fct --reload 0.5 --seconds 1", "left", "core, v1"),
        ("leafspine --seconds 1 --black-hole 1", "1", "less than --seconds"),
        ("dumbbell --slow 0.5", "--slow", "leafspine"),
        ("leafspine --tunnel vxlan", "leafspine", "--tunnel"),
        ("dumbbell --capture", "--capture", "--keep"),
        ("dumbbell --acdc --trace", "--trace", "--json"),
        ("dumbbell --json /nowhere/out.json", "'/nowhere/out.json'", "directory"),
        ("dumbbell --sysctl kernel.panic=1", "'kernel.panic=1'", "net.ipv4.tcp_tso_win_divisor"),
        ("dumbbell --sysctl net.ipv4.tcp_sack", "'net.ipv4.tcp_sack'", "KEY=VALUE"),
        ("dumbbell --acdc --tenant beta", "'beta'", "KEY=VALUE"),
        ("dumbbell --acdc --tenant betta=1", "'betta=1'", "algorithm, beta"),
        ("dumbbell --acdc --tenant name=red", "'name=red'", "algorithm, beta"),
        ("dumbbell --acdc --rule beta=1", "'beta=1'", "PRIORITY MATCH"),
        ("dumbbell --acdc --rule '10 remote=10.0.0.9/32 betta=1'", "'betta=1'", "algorithm, beta"),
        ("dumbbell --plain --tenant beta=1", "--tenant", "--acdc"),
        ("dumbbell --acdc --stock", "--stock", "--plain"),
        ("dumbbell --plain --ptp", "--ptp", "--acdc"),
        ("dumbbell --acdc --clock-offset 10", "--clock-offset", "--uplinks"),
        ("dumbbell --plain --uplinks --clock-drift 50", "--clock-drift", "--acdc"),
        ("dumbbell --acdc --uplinks --clock-drift 5000", "'5000'", "-1000 to 1000"),
        ("dumbbell --acdc --uplinks --clock-at 1", "--clock-at", "--clock-offset"),
    ],
)
def test_refused(line: str, value: str, allowed: str) -> None:
    said = refusal([RUN, *shlex.split(line)])
    assert value in said
    assert allowed in said


def test_the_report_s_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = runpy.run_path(str(RUN))
    for experiment in EXPERIMENTS:
        for line in experiment.runs.values():
            monkeypatch.setattr(sys, "argv", [str(RUN), *line.split(), "--json", "-"])
            assert lab["parse"]().scenario == line.split()[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--tenant beta=7", "beta=7: constraint violation"),
        ("--rule '10 remote=nowhere beta=1'", "remote must be an IPv4 or IPv6 address"),
        ("--sysctl net.ipv4.nope=1", "net.ipv4.nope=1: No such file"),
        ("--sysctl net.ipv4.tcp_sack=x", "net.ipv4.tcp_sack=x: Invalid argument"),
    ],
)
def test_what_only_the_lab_knows(line: str, said: str) -> None:
    done = subprocess.run(
        [RUN, "dumbbell", "--acdc", "--flows", "1", "--seconds", "0.01", *shlex.split(line)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
