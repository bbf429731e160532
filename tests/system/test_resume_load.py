# SPDX-License-Identifier: Apache-2.0

"""ovs-vswitchd is restarted while long connections go on: each one is governed again within
2 s of its next exchange, in its own window scale, and none stands still."""

from __future__ import annotations

import math
import signal
import time
from bisect import bisect_right
from typing import Any, NamedTuple

import pytest
from test_restart import B, network_of

from acdc_ovs.buffers import enlarge_buffers
from acdc_testlib.long import ALL
from acdc_testlib.long_connections import History, LongConnections
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.real_time import RealTime
from acdc_testlib.wire import tenant_counters

pytestmark = pytest.mark.skipif(datapath_type() == "system", reason="the kernel keeps the state")

# Connections, seconds between exchanges of each, seconds until all have had some.
SHORT, LONG = (300, 0.5, 3.5), (10_000, 15.0, 60.0)
WITHIN = 2.0


class Sample(NamedTuple):
    at: float
    resumed: int


def watch(ovs: Ovs, seconds: float) -> list[Sample]:
    """How many connections were taken up again, and when."""
    samples: list[Sample] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        n = tenant_counters(ovs, "blue")["flows_resumed"]
        samples.append(Sample(time.monotonic(), n))
        time.sleep(0.05)
    return samples


def late(samples: list[Sample], histories: dict[int, History], since: float) -> int:
    """The most that had their next exchange more than WITHIN ago and were not taken up."""
    firsts = sorted(
        history.ended[bisect_right(history.ended, since)]
        for history in histories.values()
        if history.ended and history.ended[-1] > since
    )
    return max(bisect_right(firsts, s.at - WITHIN) - s.resumed for s in samples)


def stalled(histories: dict[int, History], since: float, until: float = math.inf) -> list[int]:
    """Ports of connections without an exchange that ended between then."""
    return [
        port
        for port, history in histories.items()
        if not any(since < at < until for at in history.ended)
    ]


def check_governed(
    flows: list[dict[str, Any]], histories: dict[int, History], near: bool = True
) -> int:
    """How many are, all in the scales that the guest's stack has."""
    own, peer = ("local", "remote") if near else ("remote", "local")
    good = 0
    for flow in flows:
        history = histories.get(flow[f"{own}_port"])
        if history and flow["capable"]:
            assert (flow[f"wscale_{own}"], flow[f"wscale_{peer}"]) == history.scales
            good += 1
    return good


@pytest.mark.parametrize(
    ("side", "how"), [("left", signal.SIGKILL), ("right", signal.SIGTERM)], ids=["kill", "stop"]
)
@pytest.mark.parametrize("load", [SHORT, LONG] if ALL else [SHORT], ids=lambda load: str(load[0]))
def test_restart_under_load(
    load: tuple[int, float, float], side: str, how: signal.Signals, real_time: RealTime
) -> None:
    n, period, seconds = load
    with network_of() as net, LongConnections(net.a, net.b, B, n, period) as talk:
        ovs: Ovs = getattr(net, side)
        # What is tested is not whether ovs-vswitchd gets a processor at once.
        for each in (net.left, net.right):
            enlarge_buffers(each.vswitchd_pid)
        time.sleep(period)
        since = time.monotonic()
        ovs.restart_vswitchd(how)
        enlarge_buffers(ovs.vswitchd_pid)
        back = time.monotonic()
        samples = watch(ovs, seconds)
        histories = talk.end()
        flows = ovs.acdc("dump-flows")
        governed = check_governed(flows, histories, side == "left")
        missed = late(samples, histories, since)
        print(
            f"{n} connections, {back - since:.1f} s without a switch: {governed} governed again,"
            f" at most {missed} not within {WITHIN:g} s of their next exchange"
        )
        assert len(histories) == n
        assert not stalled(histories, back)
        assert tenant_counters(ovs, "blue")["policed_packets"] == 0
        assert governed >= 0.999 * n
        with real_time:
            assert missed <= 0.001 * n
