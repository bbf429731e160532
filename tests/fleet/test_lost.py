# SPDX-License-Identifier: Apache-2.0

"""What an operator's command is told too late, or never: replies, interrupts, conversions."""

from __future__ import annotations

import subprocess
import time

from acdc_testlib.fleet import CTL, Fleet
from acdc_testlib.netns import wait_for


def test_the_database_is_converted_in_a_rollout(fleet: Fleet) -> None:
    """It goes on."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    fleet.hosts[0].stop_agent()
    words = ["tenant", "set", "blue", "beta=0.25", "--staged", "--soak=0", "--timeout=20"]
    child = subprocess.Popen([*CTL, f"--db={fleet.db}", *words], stderr=subprocess.PIPE, text=True)
    wait_for("the stage", lambda: fleet.ctl_json("status")["stages"] == ["canary"])
    time.sleep(0.5)
    schema = fleet.dir / "same.ovsschema"
    schema.write_text(fleet.client("get-schema", "ACDC_Fleet"))
    fleet.client("convert", str(schema), server=fleet.leader())
    fleet.hosts[0].start_agent()
    wait_for("the canary", lambda: fleet.hosts[0].beta() == "0.25", 20)
    said = child.communicate(timeout=40)[1]
    assert (child.returncode, said) == (0, ""), said
