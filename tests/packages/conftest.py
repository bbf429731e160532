# SPDX-License-Identifier: Apache-2.0

"""The packages of each release, built once in a root of that release."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from debian_root import Built, DebianRoot, ccache, copy_sources

from acdc_testlib.long import ALL

# What takes long is for `tests/run --all`.
RELEASES = ["trixie", "bookworm"] if ALL else ["trixie"]
BUILD = """
cd /src
export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/var/cache/ccache
./boot.sh && ./configure --quiet && make deb
"""


@pytest.fixture(scope="module", params=RELEASES)
def built(request: pytest.FixtureRequest) -> Iterator[Built]:
    """`make deb`, of what Git tracks, as the worktree has it."""
    with DebianRoot(request.param, "ca-certificates", "ccache") as root:
        copy_sources(root)
        root.run("/src/build-aux/install-deps", "build", "deb", timeout=1200)
        root.run("sh", "-ec", BUILD, mounts=ccache(), timeout=5400)
        yield Built(root, root.path / "src/build/deb")
