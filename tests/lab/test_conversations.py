# SPDX-License-Identifier: Apache-2.0
"""A few of the random conversations of tests/diff, others each day, and of the soak, over the
kernel datapath."""

from __future__ import annotations

import os
import subprocess
from datetime import date
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "line",
    [
        "diff/run --conversations 200 --per-epoch 200",
        "soak --connections 600 --gigabytes 0",
    ],
)
def test_conversations(line: str) -> None:
    # When it is run again it is the same.
    program, *options = f"{line} --seed {date.today().toordinal()}".split()
    done = subprocess.run(
        [TESTS / program, *options],
        capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    print(program, *options, done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
