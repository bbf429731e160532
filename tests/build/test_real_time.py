# SPDX-License-Identifier: Apache-2.0

"""Which failures are put down to the hypervisor (acdc_testlib.real_time)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import acdc_testlib
from acdc_testlib.real_time import processor_time

CONFTEST = """
import acdc_testlib.real_time as plugin

pytest_plugins = ["acdc_testlib.real_time"]
TIMES = iter([plugin.ProcessorTime(100, 1000), plugin.ProcessorTime(100 + {stolen}, 1200)])
plugin.processor_time = lambda: next(TIMES)
"""
TEST = """
def test(real_time):
    {before}
    with real_time:
        {within}
"""


@pytest.mark.parametrize(
    ("before", "within", "stolen", "outcome"),
    [
        ("pass", "assert 1 > 2", 20, "1 skipped"),
        ("pass", "assert 1 > 2", 2, "1 failed"),
        ("pass", "raise OSError", 20, "1 failed"),
        ("pass", "pass", 20, "1 passed"),
        ("assert 1 > 2", "pass", 20, "1 failed"),
    ],
)
def test_who_is_to_blame(
    tmp_path: Path, before: str, within: str, stolen: int, outcome: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(stolen=stolen))
    (tmp_path / "test_it.py").write_text(TEST.format(before=before, within=within))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", tmp_path],
        env=os.environ | {"PYTHONPATH": str(Path(acdc_testlib.__path__[0]).parent)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1].startswith(outcome), done.stdout
    if "skipped" in outcome:
        assert "the hypervisor took 10% of the processors' time: assert 1 > 2" in done.stdout


def test_what_this_machine_says() -> None:
    before = processor_time()
    for _ in range(10**6):
        pass
    after = processor_time()
    assert after.total >= before.total > 0
    assert 0 <= after.stolen_since(before) <= 1
