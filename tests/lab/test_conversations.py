# SPDX-License-Identifier: Apache-2.0
"""A few of the random conversations of tests/diff, over the kernel datapath."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "diff" / "run"


def test_conversations_fare_as_without_acdc() -> None:
    done = subprocess.run(
        [RUN, "--conversations", "400", "--per-epoch", "200", "--pairs", "4"],
        capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0
