# SPDX-License-Identifier: Apache-2.0

"""The packages of each release, built once in a root of that release."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian_root import Built, DebianRoot, ccache

ROOT = Path(__file__).resolve().parents[2]
# What takes long is for `tests/run --all`.
RELEASES = ["trixie", "bookworm"] if os.environ.get("ACDC_TEST_ALL") else ["trixie"]
BUILD = """
cd /src
export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/var/cache/ccache
./boot.sh && ./configure --quiet && make deb
"""


@pytest.fixture(scope="module", params=RELEASES)
def built(request: pytest.FixtureRequest) -> Iterator[Built]:
    """`make deb`, of what Git tracks, as the worktree has it."""
    with DebianRoot(request.param, "ca-certificates", "ccache") as root:
        source = root.path / "src"
        source.mkdir()
        files = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files"],
            check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        files = [name for name in files if (ROOT / name).exists()]
        (source / "MANIFEST").write_text("\n".join(files) + "\n")
        for name in files:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
        root.run("/src/build-aux/install-deps", "build", "deb", timeout=1200)
        root.run("sh", "-ec", BUILD, mounts=ccache(), timeout=2400)
        yield Built(root, source / "build/deb")
