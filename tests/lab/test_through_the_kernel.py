# SPDX-License-Identifier: Apache-2.0
"""The packet tests of the userspace datapath, unchanged, and a part of the system
tests against the kernel datapath; and the patched module beside the stock one
without a tenant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from acdc_lab.packet_run import LAB, PACKET, SYSTEM, PacketRun

NAMES = [f"{path.parent.name}.{path.stem}" for path in (*PACKET, *SYSTEM)]


@pytest.fixture(scope="module")
def results(kernel_run: tuple[PacketRun, Path]) -> dict[str, Counter[str]]:
    """How many passed, were skipped, failed, by file."""
    run, junit = kernel_run
    run.wait()
    found = {name: Counter[str]() for name in NAMES}
    for case in ElementTree.parse(junit).iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        name = case.get("classname", "").removeprefix("tests.")
        found[name][kinds.pop() if kinds else "passed"] += 1
    return found


@pytest.mark.parametrize("name", NAMES)
def test_on_the_kernel_datapath(results: dict[str, Counter[str]], name: str) -> None:
    print(dict(results[name]))
    assert set(results[name]) <= {"passed", "skipped"}, "see the output of the first of these"
    assert results[name]["passed"] > 0


def test_random_netlink_requests() -> None:
    """Thousands, right ones changed; the kernel's console stays clean."""
    PacketRun(LAB / "inside/netlink.py", "-s").succeed()


@pytest.mark.parametrize("module", ["stock", "patched"])
def test_acdc_check(module: str) -> None:
    options = ["--stock"] if module == "stock" else []
    PacketRun(*options, LAB / "inside/check.py", ACDC_CHECK_MODULE=module).succeed()


def test_steps_of_the_wall_clock() -> None:
    PacketRun(SYSTEM[0].with_name("test_faults.py"), "-k", "steps_of_the_clock").succeed()


def test_what_gro_has_chained() -> None:
    PacketRun(LAB / "inside/gro.py").succeed()


def test_tracepoints() -> None:
    PacketRun(LAB / "inside/tracepoints.py").succeed()


def test_beside_the_stock_module(tmp_path: Path) -> None:
    """The same frames come out, those that OVS edits included, and the kernel's
    selftests pass."""
    outputs = []
    for name, options in (("stock", ["--stock"]), ("patched", [])):
        folder = tmp_path / name
        folder.mkdir()
        run = [*options, LAB / "inside/replay.py", LAB / "inside/selftests.py"]
        PacketRun(*run, ACDC_REPLAY=str(folder)).succeed()
        outputs.append({path.name: path.read_text() for path in folder.iterdir()})
    stock, patched = outputs
    assert set(stock) == {"plain", "vlan"}
    assert stock["plain"] != stock["vlan"]
    assert patched == stock
