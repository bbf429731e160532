# SPDX-License-Identifier: Apache-2.0
"""Run in the lab's kernel by test_through_the_kernel.py: the kernel's tracepoints, which have the
names of those of ovs-vswitchd (tests/observe/test_tracepoints.py)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path as File

import pytest

from acdc_testlib.netns import wait_for
from observe.conftest import MARKED_PORT, PORT, A, B, Path, path
from observe.test_tracepoints import NAMES

__all__ = ["path"]

TRACING = File("/run/tracing")


@pytest.fixture(scope="module")
def events() -> Iterator[File]:
    TRACING.mkdir()
    subprocess.run(["mount", "-t", "tracefs", "none", TRACING], check=True)
    yield TRACING / "events/acdc"
    subprocess.run(["umount", TRACING], check=True)


def test_names(path: Path, events: File) -> None:
    found = {entry.name for entry in events.iterdir() if entry.is_dir()}
    assert found == {f"acdc_{name}" for name in NAMES}


def test_states_and_cuts(path: Path, events: File) -> None:
    """Nothing while they are off."""
    trace = TRACING / "trace"
    path.transfer(MARKED_PORT, 1000)
    assert "acdc_" not in trace.read_text()
    (events / "enable").write_text("1")
    before = path.ovs.acdc("show")["tenants"][0]["counters"]["cuts_ecn"]
    path.transfer(MARKED_PORT, 1 << 17)
    wait_for("ends", lambda: len(re.findall("acdc_flow_state: .* b=4", trace.read_text())) == 2)
    (events / "enable").write_text("0")
    cuts = path.ovs.acdc("show")["tenants"][0]["counters"]["cuts_ecn"] - before
    text = trace.read_text()
    ends = rf"flow=\S+ {A}:\d+>{B}:{MARKED_PORT}"
    # From SYN_SENT to ESTABLISHED.
    assert re.search(rf"acdc_flow_state: tenant=blue {ends} a=0 b=2\n", text), text
    found = re.findall(rf"acdc_cut: tenant=blue {ends} a=(\d+) b=(\d+)\n", text)
    # The counter is read a little later.
    assert len(found) > 10 and len(found) == pytest.approx(cuts, abs=2)
    assert all(int(window) > 1000 for window, _ in found)


def test_fallback(path: Path, events: File) -> None:
    path.ovs.bind(None, "vnet1")
    (events / "acdc_fallback/enable").write_text("1")
    try:
        path.transfer(PORT + 41, 1000)
    finally:
        (events / "acdc_fallback/enable").write_text("0")
        path.ovs.bind("blue", "vnet1")
    text = (TRACING / "trace").read_text()
    assert re.search(rf"acdc_fallback: tenant=blue .*>{B}:{PORT + 41} a=0 b=0\n", text), text
