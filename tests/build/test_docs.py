# SPDX-License-Identifier: Apache-2.0
"""The documentation builds without a warning, and results have their commands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_sphinx_has_nothing_to_say(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
         "-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "html"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html/index.html").exists()
    # What is markup in the database's manual is so here.
    assert "``" not in (tmp_path / "html/configuration.html").read_text()
    # A table has all of a list that others print.
    listed = subprocess.run([ROOT / "tests/run", "--list"], capture_output=True, text=True).stdout
    testing = (tmp_path / "html/testing.html").read_text()
    tiers = [line.split()[0] for line in listed.splitlines()]
    assert tiers and [name for name in tiers if f">tests/{name}<" not in testing] == ["lint"]


@pytest.mark.parametrize("name", ["README.md", "docs/experiments.rst"])
def test_targets_that_are_met_are_those_of_the_page(name: str) -> None:
    page = (ROOT / "docs/results/index.html").read_text()
    (met,) = re.findall(r"\b(\d+ of \d+ targets) met\.", page)
    assert met in (ROOT / name).read_text()


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/results/*.json")), ids=lambda p: p.name)
def test_results_say_how_they_were_made(path: Path) -> None:
    measurements = json.loads(path.read_text())["measurements"]
    assert measurements
    for measurement in measurements:
        assert measurement["unit"], measurement["subject"]
        for command in measurement["commands"]:
            # Settings of the environment may be before it.
            program = next(word for word in command.split() if "=" not in word)
            assert program == "make" or (ROOT / program).exists(), command
        for row in measurement["rows"]:
            assert len(row) == len(measurement["columns"]), row
