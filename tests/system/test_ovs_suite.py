# SPDX-License-Identifier: Apache-2.0

"""A few of Open vSwitch's own system tests with a tenant bound to every port; all of
them, beside the unpatched tree's, are tests/ovs/system's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from acdc_testlib.ovs import datapath_type

COMMAND = Path(__file__).resolve().parents[1] / "ovs/system"
# Ping, HTTP, conntrack: of the kernel they need nothing that may be missing.
NUMBERS = ("1", "2", "60", "61")


@pytest.mark.skipif(datapath_type() != "netdev", reason="these are of the userspace datapath")
def test_every_port_bound(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = subprocess.run(
        [COMMAND, *NUMBERS, "--arms", "bound", "--json", file], capture_output=True, text=True
    )
    assert file.exists(), done.stdout + done.stderr
    results = json.loads(file.read_text())["bound"]
    assert {number: status for number, (_, status) in results.items()} == dict.fromkeys(
        NUMBERS, "ok"
    ), done.stdout
    assert "ports were bound, in 4 tests" in done.stdout


@pytest.mark.skipif(datapath_type() != "netdev", reason="these are of the userspace datapath")
def test_number_of_no_test() -> None:
    done = subprocess.run([COMMAND, "9999", "--arms", "bound"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no test was run (9999)" in done.stderr
