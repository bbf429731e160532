# SPDX-License-Identifier: Apache-2.0
"""The fuzzers, for a short while each: ACDC_FUZZ_SECONDS, 20 by default.

To look for longer, or at an input that failed:
    make -C tests/fuzz SECONDS=3600 engine
    build/fuzz/engine INPUT
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parent
BUILD = FUZZ.parents[1] / "build" / "fuzz"
SECONDS = os.environ.get("ACDC_FUZZ_SECONDS", "20")


@pytest.mark.parametrize("target", ["match", "packet", "engine"])
def test_fuzz(target: str) -> None:
    done = subprocess.run(
        ["make", "-s", "-C", str(FUZZ), f"SECONDS={SECONDS}", target],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"MAKEFLAGS": ""}, check=False,
    )  # fmt: skip
    interesting = [
        line
        for line in done.stdout.splitlines()
        if re.search(r"broken|ERROR|SUMMARY|Test unit|Base64|error:|    #\d+ ", line)
    ]
    assert done.returncode == 0, "\n".join(interesting) or done.stdout
    runs = re.search(r"^Done (\d+) runs", done.stdout, re.M)
    assert runs, done.stdout
    coverage = re.findall(r"cov: (\d+)", done.stdout)
    print(f"{target}: {runs[1]} runs, coverage {coverage[-1]}")
    # A machine under load is slow, but not that slow.
    assert int(runs[1]) > 1000
