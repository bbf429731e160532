# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_sphinx_has_nothing_to_say(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
         "-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "html"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html/index.html").exists()
