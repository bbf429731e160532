# SPDX-License-Identifier: Apache-2.0

"""The quick start, with what is built already and in short."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import acdc_mininet as am
from acdc_quickstart import prepare, report
from acdc_quickstart.phases import Phase
from acdc_testlib.netns import marked

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "utilities" / "acdc-quickstart"


def quickstart(
    *args: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in (PROGRAM, *args)],
        capture_output=True,
        text=True,
        timeout=180,
        env=os.environ | (env or {}),
    )


def links() -> str:
    done = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    output = tmp_path_factory.mktemp("quickstart")
    before = links()
    # Beta 0 shows most.
    done = quickstart("--skip-build", "--seconds", "10", "--beta", "0", "--output", output)
    assert done.returncode == 0, done.stderr
    assert links() == before
    return done.stdout, output


def load(results: tuple[str, Path]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((results[1] / "results.json").read_text())
    return document


def test_table(results: tuple[str, Path]) -> None:
    text = results[0]
    for word in ("plain OVS", "AC/DC", "Jain's index", "RTT p50", "RTT p99", "dropped", "marked"):
        assert word in text
    assert text.count("flow ") >= 5


def test_json(results: tuple[str, Path]) -> None:
    document = load(results)
    assert list(document["phases"]) == ["plain", "acdc", "beta1", "beta2"]
    for name, phase in document["phases"].items():
        assert len(phase["flows"]) == 5
        assert all(flow["goodput_bps"] > 0 for flow in phase["flows"]), name
        assert phase["rtt_us"]["p50"] <= phase["rtt_us"]["p99"]
    assert document["phases"]["plain"]["marks"] == 0
    for name in ("acdc", "beta1", "beta2"):
        assert document["phases"][name]["marks"] > 0
        assert all(0 <= flow["alpha"] <= 1 for flow in document["phases"][name]["flows"])
    assert "ovs-vsctl set acdc green beta=0.0" in document["ovs_commands"]
    assert not [text for text in document["warnings"] if "capability" in text]


def test_png(results: tuple[str, Path]) -> None:
    raw = (results[1] / "results.png").read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", raw[16:24])
    assert width >= 1000 and height >= 500
    assert len(raw) > 50_000  # It shows something.


def test_targets(results: tuple[str, Path]) -> None:
    """Those of the quick start, wider: a test machine is busy."""
    found = {check["name"]: check["value"] for check in load(results)["checks"]}
    assert found["rtt_p50_ratio"] <= 0.3, found
    assert found["jain"] >= 0.85, found
    assert found["goodput_ratio"] >= 0.9, found
    assert found["beta_ratio"] <= 0.95, found


@pytest.mark.parametrize(
    "args",
    [
        ["--rate", "fast"],
        ["--rate", "1.2.3mbit"],
        ["--phases", "later"],
        ["--beta", "2"],
        ["--seconds", "1"],
        ["--seconds", "nan"],
        ["--k", "-3"],
        ["--buffer", "0"],
        ["--jobs", "0"],
        ["--output", "/run/results"],
        ["--output", "/var/run/results"],
    ],
)
def test_wrong_arguments(args: list[str], tmp_path: Path) -> None:
    """Before anything is installed or built."""
    done = quickstart(*args, "--output", tmp_path)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())
    assert re.search(f"argument {args[0]}: '{args[1]}': want ", done.stderr)


def test_a_buffer_that_is_shorter_than_k(tmp_path: Path) -> None:
    """K is kept.  The buffer is as long as it must be, and that is said."""
    words = ["--skip-build", "--phases", "plain", "--seconds", "4", "--no-plot"]
    done = quickstart(*words, "--rate", "10mbit", "--k", "83", "--output", tmp_path)
    assert "K 83 packets, buffer 127 KB (102 ms), " in done.stderr


def test_stack_that_the_kernel_lacks(tmp_path: Path) -> None:
    done = quickstart("--stacks", "cubic,nosuchstack", "--output", tmp_path)
    assert done.returncode == 2
    assert "argument --stacks: 'nosuchstack': want some of " in done.stderr
    assert not list(tmp_path.iterdir())


def test_not_as_root() -> None:
    # In a user namespace without users nobody is root, and files stay readable.
    command = ["unshare", "--user", str(PROGRAM), "--k", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "as root: sudo utilities/acdc-quickstart --k 60" in done.stderr


def test_nothing_comes_through() -> None:
    """NaN is no JSON, and a goodput of 0 no base of a ratio."""
    flows = [
        am.FlowResult(am.Flow("h", "r", tenant=tenant), 0, [], 0, 0, 0)
        for tenant in ("blue", "green")
    ]
    run = am.Run(1, 0, flows, [], [], 0)
    names = ("plain", "acdc", "beta1", "beta2")
    phases = [Phase(name, name, run, 0, 1) for name in names]
    found = report.checks(phases)
    assert not any(check.ok for check in found)
    assert len(report.table(phases).splitlines()) > 10
    rtts = report._phase(phases[0])["rtt_us"]
    assert set(rtts.values()) == {None}
    assert report._known(found[0].value) is None


@pytest.mark.parametrize(
    ("module", "package"), [("mininet", "mininet"), ("matplotlib", "python3-matplotlib")]
)
def test_what_is_not_installed(tmp_path: Path, module: str, package: str) -> None:
    """It is said before anything is measured."""
    text = f"raise ModuleNotFoundError('No module named {module}', name='{module}')"
    (tmp_path / f"{module}.py").write_text(text)
    words = ["/usr/bin/python3", "-m", "acdc_quickstart", "--skip-build"]
    env = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT / 'python'}"}
    done = subprocess.run(
        [*words, f"--output={tmp_path}"], capture_output=True, text=True, timeout=60, env=env
    )
    assert done.returncode == 1
    assert f"{package}\n" in done.stderr and "Traceback" not in done.stderr
    assert "Measuring" not in done.stderr


def test_failing_phase(tmp_path: Path) -> None:
    """Without a switch it ends, with a message and a status."""
    broken = tmp_path / "env"
    text = (ROOT / "build/env").read_text()
    broken.write_text(re.sub(r"^OVS_VSWITCHD=.*", "OVS_VSWITCHD=/bin/false", text, flags=re.M))
    assert "/bin/false" in broken.read_text()
    done = quickstart("--skip-build", "--output", tmp_path, env={"ACDC_ENV": str(broken)})
    assert done.returncode == 1
    assert "acdc-quickstart: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results.json").exists()


def test_interrupt(tmp_path: Path) -> None:
    before = links()
    mark = f"acdc-{uuid.uuid4().hex}"
    process = subprocess.Popen(
        [PROGRAM, "--skip-build", "--output", tmp_path],
        env=os.environ | {"ACDC_MARK": mark},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "plain OVS" not in (line := process.stderr.readline()):
        assert line, "it ended"
    assert any(process.endswith(" ovs-vswitchd") for process in marked(mark))
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in error
    assert "Traceback" not in error
    deadline = time.monotonic() + 5
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(mark) == []
    assert links() == before


@pytest.mark.parametrize(
    ("there", "steps"),
    [
        ("", ["./boot.sh", "./configure", "make -j1"]),
        ("configure", ["./boot.sh", "./configure", "make -j1"]),  # It was interrupted.
        ("configure Makefile.in", ["./configure", "make -j1"]),
        ("configure Makefile.in Makefile", ["make -j1"]),
    ],
)
def test_what_is_made_already(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: str, steps: list[str]
) -> None:
    for name in there.split():
        (tmp_path / name).touch()
    done: list[str] = []
    monkeypatch.setattr(prepare, "TOP", tmp_path)
    monkeypatch.setattr(prepare, "_step", lambda name, *_: done.append(name))
    prepare.build(tmp_path / "log", 1)
    assert done == steps


def test_installs_python(tmp_path: Path) -> None:
    """On a machine without it, with a lock that another apt holds for a while, and although a
    repository cannot be reached."""
    log = tmp_path / "log"
    for name, text in {
        "apt-get": f'echo "$*" >>{log}; case "$*" in *update*) exit 100 ;; esac',
        "dpkg-query": "exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = f'mount --bind /dev/null "$(readlink -f /usr/bin/python3)"; exec {PROGRAM} --help'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script],
        text=True, capture_output=True, timeout=60,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 126, done.stderr
    update, install = log.read_text().splitlines()
    assert "DPkg::Lock::Timeout" in update and update.endswith("update")
    assert "DPkg::Lock::Timeout" in install and install.endswith(" python3")
