# SPDX-License-Identifier: Apache-2.0
"""Manual pages come from the documentation's sources, and say what the programs do."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ACDC_ENV", ROOT / "build/env")).parents[1]
PROGRAMS = sorted(path.name for path in ROOT.glob("utilities/acdc-*") if not path.suffix)
# What make exported to the tests is not for the makes that they run.
ENVIRON = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, env=ENVIRON, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("man")
    run("/usr/bin/python3", "-m", "sphinx", "-W", "-q", "-b", "man", "-d", out / "doctrees",
        ROOT / "docs", out / "man")  # fmt: skip
    return out / "man"


def warnings(page: Path) -> str:
    """Of groff, as Open vSwitch's manpage-check asks it."""
    command: list[str | Path] = ["groff", "-wmac", "-Wbreak", "-mandoc", "-Tutf8", page]
    done = subprocess.run(command, text=True, capture_output=True)
    return done.stderr


def as_text(page: Path) -> str:
    text = run("groff", "-mandoc", "-Tutf8", "-P-cbou", "-rLL=1000n", page)
    return text.replace("\N{MINUS SIGN}", "-").replace("\N{HYPHEN}", "-")


def options(text: str) -> set[str]:
    """From lines that begin with options: "-k <release>, --kernel <release>"."""
    lines = re.findall(r"^ +((?:--?[a-z][-a-z]*(?: [<A-Z]\S*)?(?:, )?)+)", text, re.M)
    return {word for line in lines for word in re.findall(r"(?<![-\w])--?[a-z][-a-z]*", line)}


def test_fragment_is_that_of_its_source() -> None:
    made = runpy.run_path(str(ROOT / "build-aux/acdc-man"))["made"]()
    assert (ROOT / "lib/acdc-unixctl.man").read_text() == made, "run build-aux/acdc-man"


def test_fragment_has_every_field_of_a_flow() -> None:
    """That acdc/dump-flows prints."""
    source = (ROOT / "lib/acdc-appctl-flows.c").read_text()
    printed = re.findall(r'put_\w+\(ds, json, "(\w+)"', source)
    assert len(printed) > 20
    text = (ROOT / "docs/appctl-commands.inc").read_text()
    assert [name for name in printed if f"``{name}``" not in text] == []


def test_fragment_is_in_the_manual_that_make_builds() -> None:
    page = BUILD / "build/openvswitch/vswitchd/ovs-vswitchd.8"
    assert warnings(page) == ""
    text = as_text(page)
    for command in ("show", "dump-flows", "stats", "flush"):
        assert re.search(rf"^ +acdc/{command} ", text, re.M)
    # In the list of a flow's fields.
    assert re.search(r"^ +srtt_us$", text, re.M)


@pytest.mark.parametrize("program", PROGRAMS)
def test_page_has_the_options_of_help(pages: Path, program: str) -> None:
    page = pages / f"{program}.8"
    assert warnings(page) == ""
    text = as_text(page)
    compiled = (ROOT / "utilities" / program).is_dir()
    usage = run((BUILD / "build" if compiled else ROOT / "utilities") / program, "--help")
    found = options(text[text.index("OPTIONS") : text.index("EXIT STATUS")])
    assert found == options(usage)
    assert "--help" in found
    assert re.search(rf"^NAME\n +{program} - \w", text, re.M)


def test_build_without_sphinx_has_no_pages(tmp_path: Path) -> None:
    """It installs the rest."""
    words = ("make", "-s", "install-man-pages", f"DESTDIR={tmp_path}")
    run(*words, "SPHINX=", cwd=BUILD)
    assert not list(tmp_path.rglob("*.8"))
    run(*words, "SPHINX=yes", cwd=BUILD)
    assert {path.name for path in tmp_path.rglob("*.8")} == {f"{name}.8" for name in PROGRAMS}
