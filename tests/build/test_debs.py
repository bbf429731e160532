# SPDX-License-Identifier: Apache-2.0
"""What `make deb` builds from, and what it leaves when it fails: build-aux/make-debs with a small
project, and an apt-cache and a dpkg-buildpackage that only speak."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

MAKE_DEBS = Path(__file__).resolve().parents[2] / "build-aux/make-debs"
# It has "version" and "update SOURCE TARGET ...".
OVS_TREE = """
import shutil, sys
if sys.argv[1] == "version":
    print("3.5.0")
else:
    shutil.copytree(sys.argv[2], sys.argv[3], dirs_exist_ok=True)
"""
APT_CACHE = """#!/bin/sh
word=Installationskandidat
[ "$LC_ALL" = C ] && word=Candidate
printf 'openvswitch-switch:\\n  %s: %s\\n' "$word" "$CANDIDATE"
"""
CONTROL = """Source: openvswitch
Build-Depends: debhelper

Package: openvswitch-common
Architecture: any

Package: openvswitch-switch
Architecture: any
Breaks: openvswitch-common (<< 2)

Package: openvswitch-switch-dpdk
Architecture: any
"""


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def changelog(version: str) -> str:
    line = " -- A <a@a.invalid>  Thu, 26 Nov 2026 12:00:00 +0000"
    return f"openvswitch ({version}) unstable; urgency=low\n\n  * .\n\n{line}\n"


def make_debs(top: Path, candidate: str, end: str = "exit 1") -> str:
    """With sources of version 3.5.0-1+deb13u1, a package of before, and a dpkg-buildpackage that
    prints the version to build and fails, or what 'end' is."""
    put(top / "project/configure.ac", "AC_INIT([acdc], [0.1.0], [], [acdc])\n")
    put(top / "project/build-aux/ovs-tree", OVS_TREE)
    put(top / "project/debian/changelog", changelog("0.1.0"))
    put(top / "source/debian/changelog", changelog("3.5.0-1+deb13u1"))
    put(top / "source/debian/control", CONTROL)
    put(top / "source/debian/rules", "")
    put(top / "bin/apt-cache", APT_CACHE)
    put(top / "bin/dpkg-buildpackage", f"#!/bin/sh\ndpkg-parsechangelog -S Version\n{end}\n")
    put(top / "build/deb/before.deb", "")
    done = subprocess.run(
        [MAKE_DEBS, "project", "source"],
        cwd=top, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"PATH": f"{top}/bin:{os.environ['PATH']}", "LC_ALL": "de_DE.UTF-8",
             "CANDIDATE": candidate},
    )  # fmt: skip
    assert done.returncode == (end == "exit 1"), done.stdout
    assert (top / "build/deb/before.deb").exists() == (end == "exit 1")
    return done.stdout


@pytest.mark.parametrize("behind", ["", "+b1", "+acdc0.1.0", "+b1+acdc0.1.0"])
def test_builds_what_it_is_to_replace(tmp_path: Path, behind: str) -> None:
    """Also a rebuild, and where ours is installed already."""
    said = make_debs(tmp_path, f"3.5.0-1+deb13u1{behind}")
    rebuild = "+b1" if "+b1" in behind else ""
    assert said.splitlines()[-1] == f"3.5.0-1+deb13u1{rebuild}+acdc0.1.0"


def test_refuses_sources_of_another_update(tmp_path: Path) -> None:
    said = make_debs(tmp_path, "3.5.0-1+deb13u2")
    assert "version 3.5.0-1+deb13u1, and are to replace 3.5.0-1+deb13u2" in said
    assert "apt-get install openvswitch-source" in said
    assert "+acdc" not in said


def test_builds_what_another_user_has_checked_out(tmp_path: Path) -> None:
    """As root in a container does."""
    project = tmp_path / "project"
    put(project / "tracked", "")
    put(project / "debian/changelog", changelog("0.1.0"))
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", project, *command], check=True)
    put(project / "untracked", "")
    subprocess.run(["chown", "-R", "nobody", project], check=True)
    said = make_debs(tmp_path, "3.5.0-1+deb13u1", "ls tracked untracked; touch ../made.deb")
    assert said.splitlines()[-1].endswith("./made.deb")
    # In Open vSwitch's sources, and in ours.
    assert len(re.findall(r"^tracked$", said, re.M)) == 1
    assert said.count("cannot access 'untracked'") == 2
