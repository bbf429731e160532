# SPDX-License-Identifier: Apache-2.0
"""The fuzzers, for a part of ACDC_FUZZ_SECONDS each (conftest.py).

To look for longer, or at an input that failed:
    make -C tests/fuzz SECONDS=3600 engine
    build/fuzz/engine INPUT
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest


def check(target: str, run: subprocess.Popen[str]) -> None:
    output, _ = run.communicate()
    interesting = [
        line
        for line in output.splitlines()
        if re.search(r"broken|ERROR|SUMMARY|Test unit|Base64|error:|    #\d+ ", line)
    ]
    assert run.returncode == 0, "\n".join(interesting) or output
    runs = re.search(r"^Done (\d+) runs", output, re.M)
    assert runs, output
    coverage = re.findall(r"cov: (\d+)", output)
    print(f"{target}: {runs[1]} runs, coverage {coverage[-1]}")
    # A machine under load is slow, but not that slow.
    assert int(runs[1]) > 100


@pytest.mark.parametrize(
    ("target", "part"),
    [("match", 0.1), ("packet", 0.2), ("trace", 0.2), ("netlink", 0.3), ("resume", 0.2)],
)
def test_fuzz(
    fuzzer: Callable[[str, float], subprocess.Popen[str]], target: str, part: float
) -> None:
    check(target, fuzzer(target, part))


def test_engine(engine_run: subprocess.Popen[str]) -> None:
    check("engine", engine_run)
