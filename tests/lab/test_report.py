# SPDX-License-Identifier: Apache-2.0
"""The programs run and report: when they fail, what they keep, and what they leave."""

from __future__ import annotations

import runpy
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from acdc_lab import guest
from acdc_lab.net import CommandError, Network
from acdc_lab.report_experiments import EXPERIMENTS
from acdc_lab.report_figures import Experiment
from acdc_lab.scenarios import Options, Traffic

LAB = Path(__file__).resolve().parent
RUNS = LAB.parents[1] / "build/lab/runs"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return runpy.run_path(str(LAB / "report"))


def test_what_results_depend_on(report: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read = set()

    def read_bytes(path: Path) -> bytes:
        read.add(path.name)
        return b""

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    report["code"]()
    assert {"run", "guest.py", "clock.bpf.c", "uml.patch", "netns.py"} <= read
    assert {"flows.c", "net.c", "traffic.h", "mouse.txt"} <= read
    assert {"openvswitch.ko", "ovs-vswitchd"} <= read
    assert "report_page.py" not in read


def test_short_runs_are_kept_beside_long_ones(report: dict[str, Any]) -> None:
    experiment, name = EXPERIMENTS[0], next(iter(EXPERIMENTS[0].runs))
    paths = {
        report["Run"](experiment, name, 1, seconds, 1500, "code", Path("raw")).path
        for seconds in (0.4, 4)
    }
    assert len(paths) == 2


def test_only_a_result_of_the_same_code_is_kept(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "run"
    script.write_text('#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done; echo {} >"$2"')
    script.chmod(0o755)
    names = report["code"].__globals__
    monkeypatch.setitem(names, "LAB", tmp_path)
    progress = report["Progress"]([], 1)
    experiment = Experiment("name", "title", "says", {"acdc": "dumbbell --acdc"}, [])
    run = report["Run"](experiment, "acdc", 1, 4, 1500, "this", tmp_path)
    for found in (["other"], ["this", "other"]):
        monkeypatch.setitem(names, "code", lambda found=found: found.pop(0))
        assert "changed" in run.execute(progress)
        assert list(tmp_path.iterdir()) == [script]
    monkeypatch.setitem(names, "code", lambda: "this")
    assert run.execute(progress) == ""
    assert run.stored()["report"]["code"] == "this"
    # Ctrl-C came while it began.
    script.write_text("#!/bin/sh\nsleep 5")
    progress.stop()
    assert run.execute(progress) == "status -15"


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]])
def test_a_run_that_is_ended_leaves_nothing(signals: list[signal.Signals]) -> None:
    before = set(RUNS.iterdir())
    with subprocess.Popen(
        [LAB / "run", "dumbbell", "--seconds", "9"], stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        assert "topology" in run.stderr.readline()
        started = children(run.pid)
        (mine,) = set(RUNS.iterdir()) - before
        for number in signals:
            run.send_signal(number)
        assert run.wait(10) in (130, 143)
    assert not mine.exists()
    assert len(started) == 2
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_what_there_is_without_a_result_is_kept(tmp_path: Path) -> None:
    before = set(RUNS.iterdir())
    done = subprocess.run(
        [LAB / "run", "dumbbell", "--timeout", "2", "--keep", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"no result within 2 s (--timeout), see {tmp_path}" in done.stderr
    assert (tmp_path / "console.log").exists()
    assert set(RUNS.iterdir()) == before


def test_a_run_without_a_kernel_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(RUNS.iterdir())
    monkeypatch.setenv("LAB_KERNEL", "/nowhere/linux")
    done = subprocess.run([LAB / "run", "dumbbell"], capture_output=True, text=True)
    assert "no kernel" in done.stderr
    assert set(RUNS.iterdir()) == before


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> guest.Run:
    """A run that has no network, 0.01 s after its traffic began."""
    monkeypatch.setattr(guest.am.Programs, "from_mapping", lambda _: None)
    options = asdict(Options("dumbbell", ["cubic"], seconds=0.01))
    run = guest.Run(tmp_path, {"virtual": True, "tool": "", "options": options, "programs": {}})
    run.net = object.__new__(Network)
    return run


def test_a_client_that_fails_fails_the_run(inside: guest.Run) -> None:
    with pytest.raises(CommandError, match="client f1 ended with status 1"):
        inside._wait([(Traffic("f1", "bulk", "s1", ["r1"]), subprocess.Popen(["false"]))])


def test_an_event_that_fails_fails_the_run(inside: guest.Run) -> None:
    inside.options.restart = 0.001
    with pytest.raises(AttributeError, match="'Network' object has no attribute"):
        inside._wait([])
