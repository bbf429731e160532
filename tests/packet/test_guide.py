# SPDX-License-Identifier: Apache-2.0

"""The commands of the operator guide do what it says, in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from acdc_testlib.ovs import Ovs

GUIDE = Path(__file__).resolve().parents[2] / "docs/operator-guide.rst"


def commands() -> list[str]:
    text = re.sub(r" *\\\n *", " ", GUIDE.read_text())
    found = re.findall(r"^ +(?:\$ )?(ovs-(?:vsctl|appctl) .*?)(?: {2,}#.*)?$", text, re.MULTILINE)
    inline = re.findall(r"``(ovs-(?:vsctl|appctl) [^`]*)``", text)
    assert len(found) > 10
    # Not once there is no tenant any more.
    return found[:-1] + inline + found[-1:]


def run(ovs: Ovs, command: str) -> str:
    program, *words = shlex.split(command)
    return ovs.vsctl(*words) if program == "ovs-vsctl" else ovs.ovs_appctl(*words)


def test_commands_of_the_operator_guide() -> None:
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        for name in ("vnet0", "vnet3"):
            ovs.add_tap("br0", name)
        for command in commands():
            if "status:acdc_error" in command:
                ovs.vsctl("set", "Interface", "vnet0", "other_config:acdc-tenant=bleu")
                assert "does not exist" in run(ovs, command)
                ovs.vsctl("set", "Interface", "vnet0", "other_config:acdc-tenant=blue")
                continue
            run(ovs, command)
            if "rules=" in command:
                shown = run(ovs, "ovs-appctl acdc/show blue")
                assert len(re.findall(r"remote=[0-9.]+/", shown)) == 2, shown
        assert ovs.vswitchd_running(), ovs.log_tail()
