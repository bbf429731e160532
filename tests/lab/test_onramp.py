# SPDX-License-Identifier: Apache-2.0
"""Time on the wire against the lab's own, and On-Ramp, short: the report's experiments onramp
are the long form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acdc_lab import wire_times
from acdc_lab.report_onramp import carried, load
from test_lab import assert_clean, counters, lab  # noqa: F401  (a fixture)

from acdc_testlib.long import long

ON_RAMP = "--acdc --tenant on_ramp"
INCAST = "--uplinks --mark 0 --rate 1gbit --flows 5 --load 0.05 --seconds 0.2"
Result = dict[str, Any]


def measured(result: Result, source: str, since_us: int) -> list[tuple[int, int, int]]:
    """When, the network's round trip and the one-way delay that the engine had, us."""
    return [
        (since_us + round(entry["t"] * 1e6), flow["net_rtt_us"], flow["delay_us"])
        for entry in result["trace"]
        for flow in entry["flows"]
        if flow["port"] == f"p-{source}" and flow["local_port"] != 5001 and "net_rtt_us" in flow
    ]


def test_times_are_the_wire_s(lab: Any, tmp_path: Path) -> None:  # noqa: F811
    """One-way delay with equal clocks, and the network's round trip where the far guest's ACKs
    come after 40 ms: within 2 us of what captures say."""
    result = lab(
        "far_guest --uplinks --mark 0 --rto-min 0 --seconds 0.35 --trace 11 --ptp --capture"
        f" --keep {tmp_path} {ON_RAMP}=1000"
    )
    assert_clean(result)
    assert result["rpc_us"]["small"]["min"] > 40_000
    compared, delays = 0, set()
    for i in range(1, 5):
        captures = (tmp_path / "pcap" / f"u-{name}{i}.pcap" for name in "sr")
        truth = wire_times.of(*captures)
        for when, net_rtt, delay in measured(result, f"s{i}", result["start_ns"] // 1000):
            known = [times for times in truth if times.known < when]
            if not known or any(abs(times.known - when) < 20 for times in truth):
                continue
            assert abs(delay - known[-1].one_way) <= 2
            assert abs(net_rtt - known[-1].round_trip) <= 2
            compared += 1
            delays.add(delay)
    assert compared > 50
    assert max(delays) > min(delays) + 20, "nothing queued"
    assert counters(result)["reports_clock"] == 0


def queries(result: Result, quantile: str = "p99") -> float:
    value: float = result["rpc_us"]["query"][quantile]
    return value


def test_incast_beside_bulk_data(lab: Any) -> None:  # noqa: F811
    """Half of the hosts have a clock that is set while data flows, and drifts."""
    plain = lab(f"onramp {INCAST} --plain")
    clocks = "--clock-offset 3000000 --clock-drift 50 --clock-at 0.1"
    ramp = lab(f"onramp {INCAST} {ON_RAMP}=200 --tenant algorithm=swift {clocks}")
    assert_clean(ramp)
    assert queries(ramp) < queries(plain) / 4
    assert carried(ramp) > 0.97 * carried(plain)
    # Who waits for answers asks less.
    assert 0 < load(plain) < load(ramp) < 5
    assert ramp["tcp"]["timeouts"] == 0
    count = counters(ramp)
    # Of each of ten connections at either end when it was set, and of hardly another one.
    assert 0 < count["reports_clock"] <= 4 * 10
    assert 0 < count["on_ramp_us"] <= 10_000 * count["on_ramp_pauses"]


@long
@pytest.mark.parametrize(("stack", "gain"), [("cubic", 2.8), ("reno", 2.8), ("bbr", 4)])
def test_what_the_source_says(lab: Any, stack: str, gain: float) -> None:  # noqa: F811
    line = f"onramp --flows 20 --load 0.02 --uplinks --mark 0 --seconds 0.3 --stack {stack}"
    plain = lab(f"{line} --plain")
    ramp = lab(f"{line} {ON_RAMP}=50 --tenant algorithm=swift")
    assert_clean(ramp)
    assert queries(ramp) < queries(plain) / gain
    assert carried(ramp) > 0.97 * carried(plain)


@long
def test_queues_of_acks_are_not_the_data_s(lab: Any) -> None:  # noqa: F811
    line = "onramp_back --uplinks --mark 0 --seconds 0.3"
    plain, ramp = lab(f"{line} --plain"), lab(f"{line} {ON_RAMP}=50 --tenant algorithm=none")
    there = [result["directions"]["left to right"]["goodput_mbps"] for result in (plain, ramp)]
    assert there[1] > 0.97 * there[0]
