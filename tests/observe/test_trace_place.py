# SPDX-License-Identifier: Apache-2.0

"""acdc-trace on captures that were not taken where they should be, made by hand."""

from __future__ import annotations

from pathlib import Path as File

import pytest
from scapy.layers.inet import IP

from observe.test_trace_made import window_limited, write
from observe.tracing import causes, direction, objects


@pytest.mark.parametrize("lacks", [0, 1])
def test_one_direction_only(tmp_path: File, lacks: int) -> None:
    """As with a bond, where ACKs come by the other link; with the SYN, and without."""
    packets = [p for p in window_limited()[lacks:] if p[IP].src == "10.0.0.1"]
    got = direction(objects(write(tmp_path / "made.pcap", packets)), 80)
    assert causes(got) == ["one-way"]
