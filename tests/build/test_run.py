# SPDX-License-Identifier: Apache-2.0
"""What tests/run installs, with a dpkg-query that only speaks, and builds: tests/run.py of a
project whose scripts only make files."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "run.py"
DEPS = RUN.parents[1] / "build-aux/install-deps"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_a_fresh_clone_is_built_elsewhere(tmp_path: Path) -> None:
    project, build = tmp_path / "project", tmp_path / "build"
    put(project / "boot.sh", '#!/bin/sh\ncd "$(dirname "$0")" && cp template configure\n')
    put(project / "template", "#!/bin/sh\necho 'all:; touch made' >Makefile\n")
    put(project / "tests/run.py", "")
    shutil.copy(RUN, project / "tests/run.py")
    (build / "results").mkdir(parents=True)
    run = runpy.run_path(str(project / "tests/run.py"))
    assert run["build"](run["Runner"](build, build / "results", False, ""), False)
    assert (build / "made").exists()


def test_what_is_installed_for_two_architectures_is_installed(tmp_path: Path) -> None:
    """dpkg-query then speaks of both."""
    put(tmp_path / "dpkg-query", "#!/bin/sh\nprintf \"$3$3\" | sed 's/${[^}]*}/installed/g'\n")
    put(tmp_path / "apt-get", "#!/bin/sh\nexit 1\n")
    put(tmp_path / "sleep", "#!/bin/sh\n")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([DEPS, "fleet"], env={"PATH": path}, text=True, capture_output=True)
    assert done.stdout == "install-deps: fleet: all packages are installed\n"
