# SPDX-License-Identifier: Apache-2.0
"""Protective load balancing in a leaf-spine fabric with four paths, short: the report's
experiments leafspine are the long form."""

from __future__ import annotations

from typing import Any

from test_lab import counters, lab, untouched  # noqa: F401  (a fixture)

from acdc_testlib.long import long

FABRIC = "leafspine --ipv6 --rate 1gbit --mark 7570 --seconds 0.3"
# Guests that do not know what Linux does after a timeout.
FIXED = "--sysctl net.ipv6.auto_flowlabels=0"


def test_a_path_that_drops_all(lab: Any) -> None:  # noqa: F811
    """What is sent again goes another way."""
    # So many connections that some are on that path, whatever ports they have.
    result = lab(f"{FABRIC} --flows 12 --black-hole 0.02 {FIXED} --acdc --tenant plb=true")
    assert untouched(result) == {}
    assert counters(result)["feedback_bad"] == 0
    assert counters(result)["repaths"] >= result["tcp"]["timeouts"] > 0
    # What was sent again once, and arrived the other way, may have been no timeout.
    assert counters(result)["plb_suspended"] >= counters(result)["timeouts"]
    # Windows that were on their way, and few segments more.
    sent = {queue["queue"]: queue["packets"] for queue in result["queues"]}
    assert 0 < sent["t-leaf1-spine1"] - sent["t-spine1-leaf2"] < 100


@long
def test_flows_that_collide(lab: Any) -> None:  # noqa: F811
    """Of two flows on one path more than half is marked where K is low."""
    line = "leafspine --ipv6 --rate 1gbit --delay 0 --mark 4542 --seconds 0.2 --acdc"
    without, plb = lab(line), lab(f"{line} --tenant plb=true")
    for result in (without, plb):
        assert untouched(result) == {}
        assert set(result["fct_ms"]) == {"long"}, "some transfers did not end"
    assert counters(without)["repaths"] == 0
    assert counters(plb)["repaths"] > 0
    for figure in ("mean", "p99"):
        assert plb["fct_ms"]["long"][figure] <= 0.8 * without["fct_ms"]["long"][figure]
    assert plb["tcp"]["out_of_order"] <= 2 * counters(plb)["repaths"]
    assert plb["tcp"]["timeouts"] == 0
