# SPDX-License-Identifier: Apache-2.0
"""The programs run and report: when they fail, what they keep, and what they leave."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from acdc_lab.report_experiments import EXPERIMENTS

LAB = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return runpy.run_path(str(LAB / "report"))


def test_what_results_depend_on(report: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read = set()

    def read_bytes(path: Path) -> bytes:
        read.add(path.name)
        return b""

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    report["code"]()
    assert {"run", "guest.py", "clock.bpf.c", "uml.patch", "netns.py"} <= read
    assert {"flows.c", "net.c", "traffic.h", "mouse.txt"} <= read
    assert {"openvswitch.ko", "ovs-vswitchd"} <= read
    assert "report_page.py" not in read


def test_short_runs_are_kept_beside_long_ones(report: dict[str, Any]) -> None:
    experiment, name = EXPERIMENTS[0], next(iter(EXPERIMENTS[0].runs))
    paths = {
        report["Run"](experiment, name, 1, seconds, 1500, "code", Path("raw")).path
        for seconds in (0.4, 4)
    }
    assert len(paths) == 2
