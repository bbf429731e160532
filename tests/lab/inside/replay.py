# SPDX-License-Identifier: Apache-2.0
"""Run in the lab's kernel by test_through_the_kernel.py: what the openvswitch module
there makes of a capture, left for a comparison in the folder ACDC_REPLAY."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acdc_testlib.capture import REPLAY_ACTIONS, generate, replay
from acdc_testlib.ovs import Ovs

FRAMES = 2500


@pytest.mark.parametrize("actions", REPLAY_ACTIONS)
def test_replay(ovs: Ovs, actions: str) -> None:
    at_uplink, at_guest = replay(ovs, generate(FRAMES), actions)
    assert len(at_uplink) + len(at_guest) > FRAMES * 0.95
    lines = [
        f"{name} {frame.hex()}\n"
        for name, frames in (("uplink", at_uplink), ("guest", at_guest))
        for frame in frames
    ]
    (Path(os.environ["ACDC_REPLAY"]) / actions).write_text("".join(lines))
