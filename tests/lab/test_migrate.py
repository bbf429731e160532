# SPDX-License-Identifier: Apache-2.0
"""A guest moves under load to a hypervisor that has never seen its connection, to one
without AC/DC, and back.  Many connections do so in tests/system."""

from __future__ import annotations

from typing import Any

import pytest
from test_lab import counters, lab  # noqa: F401  (a fixture)

from acdc_testlib.long import ALL

# Who comes back from where there is no AC/DC may have to wait for a second, see "Who has fallen
# back" in docs/wire-format.rst.
SHORT, LONG = "--flows 2 --seconds 0.6", "--jitter 5 --seconds 5"


@pytest.mark.parametrize("more", [SHORT, LONG] if ALL else [SHORT])
def test_migration(lab: Any, more: str) -> None:  # noqa: F811
    result = lab(f"migrate --acdc --tenant police=true {more}")
    before, moved, without, back = result["moves"]
    assert [part["at"] for part in result["moves"]] == ["left", "second", "plain", "left"]
    # The connection of the guest that moves.
    assert [part["connections"] for part in result["moves"]] == [1, 1, 0, 1]
    assert all(part["capable"] == part["connections"] for part in result["moves"])
    for part in (moved, without, back):
        # Without marks and windows the queue would be the whole buffer, 1,600 us.
        assert part["rtt_us"]["p99"] == pytest.approx(before["rtt_us"]["p99"], rel=0.1)
        assert part["goodput_mbps"] == pytest.approx(before["goodput_mbps"], rel=0.02)
    n = counters(result)
    assert n["flows_resumed"] >= 2
    assert n["feedback_bad"] == n["policed_packets"] == 0
