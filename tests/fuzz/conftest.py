# SPDX-License-Identifier: Apache-2.0
"""ACDC_FUZZ_SECONDS, 30 by default and 600 in "tests/run fuzz", is what the engine's
fuzzer gets; the others share it beside that one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parent
SECONDS = float(os.environ.get("ACDC_FUZZ_SECONDS", "30"))


@contextlib.contextmanager
def running(target: str, part: float) -> Iterator[subprocess.Popen[str]]:
    """The fuzzer, for that part of the time, and no longer than it is waited for."""
    run = subprocess.Popen(
        ["make", "-s", "-C", str(FUZZ), f"SECONDS={part * SECONDS:.0f}", target],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"MAKEFLAGS": ""}, start_new_session=True,
    )  # fmt: skip
    try:
        yield run
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()


@pytest.fixture
def fuzz_seconds() -> float:
    return SECONDS


@pytest.fixture
def fuzzer() -> Iterator[Callable[[str, float], subprocess.Popen[str]]]:
    with contextlib.ExitStack() as stack:
        yield lambda target, part: stack.enter_context(running(target, part))


@pytest.fixture(scope="session", autouse=True)
def engine_run(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str] | None]:
    """Begun with the session if its test is to run."""
    if not any(item.name == "test_engine" for item in request.session.items):
        yield None
        return
    with running("engine", 1) as run:
        yield run
