# SPDX-License-Identifier: Apache-2.0
"""Protective load balancing in a leaf-spine fabric with four paths, short: the report's
experiments leafspine are the long form."""

from __future__ import annotations

from typing import Any

from test_lab import counters, lab, untouched  # noqa: F401  (a fixture)

FABRIC = "leafspine --ipv6 --rate 1gbit --mark 7570 --seconds 0.3"
# Guests that do not know what Linux does after a timeout.
FIXED = "--sysctl net.ipv6.auto_flowlabels=0"


def test_a_path_that_drops_all(lab: Any) -> None:  # noqa: F811
    """What is sent again goes another way."""
    result = lab(f"{FABRIC} --black-hole 0.02 {FIXED} --acdc --tenant plb=true")
    assert untouched(result) == {}
    assert counters(result)["feedback_bad"] == 0
    assert counters(result)["repaths"] >= result["tcp"]["timeouts"] > 0
    assert counters(result)["plb_suspended"] > 0
    # Windows that were on their way, and few segments more.
    (hole,) = [q for q in result["queues"] if q["queue"] == "t-leaf1-spine1"]
    assert 0 < hole["packets"] < 100
