# SPDX-License-Identifier: Apache-2.0
"""The packet tests of the userspace datapath, unchanged, and a part of the system
tests against the kernel datapath; and the patched module beside the stock one
without a tenant."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

LAB = Path(__file__).resolve().parent
TESTS = LAB.parent
PACKET = sorted(TESTS.glob("packet/test_*.py"))
# Without what takes long there: 15000 connections, iperf3, each kind of tunnel.
SYSTEM = [TESTS / f"system/test_{name}.py" for name in ("conntrack", "traffic", "tunnels", "vlan")]
LONG = "churn or iperf3 or honest or geneve-over-v4 or vxlan-over-v6"
NAMES = [f"{path.parent.name}.{path.stem}" for path in (*PACKET, *SYSTEM)]


def run(*arguments: str | Path, **environment: str) -> str:
    """tests/lab/packet, which also fails on complaints of the kernel."""
    done = subprocess.run(
        [LAB / "packet", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
    )  # fmt: skip
    # 1: tests failed, which the caller judges.
    assert done.returncode in (0, 1), done.stdout
    print(done.stdout)
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """Of all of them, in one boot: how many passed, were skipped, failed, by
    file."""
    junit = tmp_path_factory.mktemp("packet") / "junit.xml"
    run("--junit", junit, *PACKET, *SYSTEM, "-k", f"not ({LONG})")
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


def test_without_a_tenant_the_bytes_are_the_stock_module_s(tmp_path: Path) -> None:
    """The same frames come out, those that OVS edits included."""
    outputs = []
    for name, options in (("stock", ["--stock"]), ("patched", [])):
        folder = tmp_path / name
        folder.mkdir()
        run(*options, LAB / "inside/replay.py", ACDC_REPLAY=str(folder))
        outputs.append({path.name: path.read_text() for path in folder.iterdir()})
    stock, patched = outputs
    assert set(stock) == {"plain", "vlan"}
    assert stock["plain"] != stock["vlan"]
    assert patched == stock
