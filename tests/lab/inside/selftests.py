# SPDX-License-Identifier: Apache-2.0
"""Run in the lab's kernel by test_through_the_kernel.py: the kernel's own tests of the
openvswitch module there (tools/testing/selftests/net/openvswitch)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SELFTESTS = "build/lab/linux-source-6.1/tools/testing/selftests/net/openvswitch"


# Debian's pyroute2 does not know its version, and the tests ask for it.
VERSION = """
import sys, types
sys.modules["pyroute2.config.version"] = types.SimpleNamespace(__version__="{}")
"""


def test_selftests(tmp_path: Path) -> None:
    folder = tmp_path / "openvswitch"  # They write where they lie.
    shutil.copytree(ROOT / SELFTESTS, folder)
    # An array for this pyroute2, that of one element is sent alike.
    tool = folder / "ovs-dpctl.py"
    text, array = tool.read_text(), '["OVS_DP_ATTR_UPCALL_PID", 0]'
    assert array in text
    tool.write_text(text.replace(array, '["OVS_DP_ATTR_UPCALL_PID", [0]]'))
    package = ["dpkg-query", "--show", "--showformat=${Version}", "python3-pyroute2"]
    version = subprocess.check_output(package, text=True)
    (tmp_path / "sitecustomize.py").write_text(VERSION.format(version))
    done = subprocess.run(
        ["sh", "./openvswitch.sh", "-v"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    print(done.stdout)
    results = re.findall(r"^TEST: .*\[ *(\w+) *\]$", done.stdout, re.M)
    results = [result for result in results if result != "START"]
    assert results
    assert set(results) == {"OK"}
    assert done.returncode == 0
    assert "Traceback" not in done.stdout  # That passes their tests.
