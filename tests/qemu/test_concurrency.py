# SPDX-License-Identifier: Apache-2.0
"""The module on two processors under lockdep, KASAN and RCU's checks, and
that they find what is wrong with a module that has a fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

QEMU = Path(__file__).resolve().parent
sys.path.insert(0, str(QEMU))

from acdc_qemu.checking import FAULTS  # noqa: E402


def run(*arguments: str) -> tuple[int, str]:
    command = [str(QEMU / "run"), *arguments]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    return done.returncode, done.stdout


def test_nothing_is_wrong() -> None:
    status, _ = run("concurrency", "--seconds", "120")
    assert status == 0


def test_random_requests() -> None:
    status, _ = run("requests")
    assert status == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    check = FAULTS[fault].check
    status, output = run("concurrency", "--seconds", "30", "--fault", fault, "--check", check)
    found = FAULTS[fault].found
    assert (status != 0) == bool(found)
    assert found in output
