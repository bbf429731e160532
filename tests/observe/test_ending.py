# SPDX-License-Identifier: Apache-2.0

"""Commands whose output nobody takes, and whose modules are not installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as File
from typing import TypeVar

import pytest

from acdc_cli import ending
from acdc_testlib.programs import ROOT
from observe.conftest import Path

T = TypeVar("T")
# Exit status of what failed for another reason.
PROGRAMS = {
    "acdc-agent": 1,
    "acdc-check": 3,
    "acdc-dkms": 1,
    "acdc-exporter": 1,
    "acdc-fleetctl": 1,
    "acdc-quickstart": 1,
    "acdc-top": 1,
    "acdc-trace-plot": 1,
    "acdc-tune": 1,
}


def run(
    program: str, *arguments: str | File, stdout: int, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "utilities" / program, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env=os.environ | environ,
        check=False,
    )


def full_disk(program: str, *arguments: str | File, **environ: str) -> tuple[int, str]:
    with open("/dev/full", "w") as full:
        done = run(program, *arguments, stdout=full.fileno(), **environ)
    return done.returncode, done.stderr


def test_all_programs_in_python() -> None:
    found = {
        path.name
        for path in (ROOT / "utilities").iterdir()
        if path.is_file() and b"python" in path.read_bytes()
    } - {"utilities.mk"}
    assert found == set(PROGRAMS)


def of_all(ends: Callable[[str], T]) -> dict[str, T]:
    """How each program ends; some run at a time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(PROGRAMS, pool.map(ends, PROGRAMS), strict=True))


@pytest.mark.parametrize("buffered", ["1", ""], ids=["unbuffered", "buffered"])
def test_a_full_disk(buffered: str) -> None:
    ended = of_all(lambda program: full_disk(program, "--help", PYTHONUNBUFFERED=buffered))
    said = "[Errno 28] No space left on device\n"
    assert ended == {name: (status, f"{name}: {said}") for name, status in PROGRAMS.items()}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_a_full_disk_and_the_one_in_c(argument: str) -> None:
    status, _ = full_disk("../build/acdc-trace", argument)
    assert status == 1


def test_a_reader_that_has_gone() -> None:
    def end(program: str) -> tuple[int, str]:
        reads, writes = os.pipe()
        os.close(reads)
        with open(writes, "w") as stdout:
            done = run(program, "--help", stdout=stdout.fileno())
        return done.returncode, done.stderr

    assert of_all(end) == dict.fromkeys(PROGRAMS, (-signal.SIGPIPE, ""))


@pytest.mark.parametrize(
    "words",
    [["acdc-check"], ["acdc-exporter", "--once"], ["acdc-top", "--json", "--interval", "0.1"]],
    ids=lambda words: words[0],
)
def test_a_full_disk_and_a_real_switch(path: Path, words: list[str]) -> None:
    program, *arguments = words
    status, said = full_disk(program, *arguments, "--rundir", path.ovs.rundir, PYTHONUNBUFFERED="")
    assert status == PROGRAMS[program]
    assert said == f"{program}: [Errno 28] No space left on device\n"


def test_a_path_without_sbin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cron's."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert shutil.which("tc") is None
    with ending("acdc-check"):
        assert shutil.which("tc")


@pytest.mark.parametrize(
    ("program", "module", "package"),
    [
        ("acdc-agent", "ovs", "python3-openvswitch"),
        ("acdc-check", "ovs", "python3-openvswitch"),
        ("acdc-exporter", "prometheus_client", "python3-prometheus-client"),
        ("acdc-fleetctl", "ovs", "python3-openvswitch"),
        ("acdc-top", "ovs", "python3-openvswitch"),
        ("acdc-top", "rich", "python3-rich"),
    ],
)
def test_what_is_not_installed(
    path: Path, tmp_path: File, program: str, module: str, package: str
) -> None:
    missing = f"No module named '{module}'"
    (tmp_path / f"{module}.py").write_text(
        f'raise ModuleNotFoundError("{missing}", name="{module}")'
    )
    here = ("--once", "--interval", "0.1", "--rundir", path.ovs.rundir)
    arguments = here if module == "rich" else ("--help",)
    done = run(program, *arguments, stdout=subprocess.DEVNULL, PYTHONPATH=str(tmp_path))
    assert done.returncode == PROGRAMS[program]
    assert done.stderr == f"{program}: {missing}: apt-get install {package}\n"


def test_letters_that_the_locale_lacks() -> None:
    """As in the message of a revision that somebody else made."""
    script = "from acdc_cli import ending\nwith ending('x'): print('w\xf6rld')"
    environ = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=False
    )
    assert (done.returncode, done.stdout) == (0, "w\\xf6rld\n"), done.stderr
