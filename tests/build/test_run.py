# SPDX-License-Identifier: Apache-2.0
"""What tests/run builds: tests/run.py of a project whose scripts only make files."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "run.py"


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
