# SPDX-License-Identifier: Apache-2.0

"""AC/DC over the topologies of the paper, in each test against plain OVS (the
same ovs-vswitchd with no tenant bound) in the same run.  The bounds leave room
for a busy machine; the quick start has the targets."""

from __future__ import annotations

from collections.abc import Callable

import acdc_mininet as am
from acdc_testlib.real_time import RealTime

QUEUE = am.Queue(rate=100_000_000, k=30 * am.FRAME, limit=300_000)  # 24 ms
Network = Callable[..., am.AcdcNet]


def bind_all(net: am.AcdcNet, **columns: object) -> None:
    net.ovs.set_tenant("blue", **columns)
    net.bind("blue", *(host.name for host in net.hosts))


def stacks(count: int) -> list[str]:
    have = [name for name in ("cubic", "reno", "bbr") if name in am.available_stacks()]
    return [have[i % len(have)] for i in range(count)]


def test_dumbbell(network: Network, real_time: RealTime) -> None:
    """Different stacks: AC/DC is fairer and keeps the queue short, at the same
    goodput.

    How fair to the last percent is asked in virtual time (tests/lab).  Here one
    thread polls the guests' ports in turn, a few packets each, so that who
    finds the queue above K, and with few segments a flow then who gets how
    much, is also a matter of turns that may stay for seconds."""
    net = network(am.Dumbbell(n=5, queue=QUEUE))
    flows = [am.Flow(f"h{i}", f"r{i}", cc) for i, cc in enumerate(stacks(4), 1)]

    def run(seconds: float) -> am.Run:
        queue = net.queue("s1", "s2")
        return am.run_bulk(net, flows, seconds, bottleneck=queue, probe=("h5", "r5"))

    def worst(run: am.Run) -> float:
        return min(flow.goodput for flow in run.flows) * len(flows) / run.goodput

    plain = run(10)
    bind_all(net, beta=1)
    # Who was ahead at first is not to count for much.
    acdc = run(20)
    assert plain.marks == 0  # Nobody is ECT.
    assert acdc.marks > 0
    with real_time:
        # The buffer fills; whether a frame is too many while it is counted is chance.
        assert plain.queue[-1][1].max_queue > 0.8 * QUEUE.limit
        assert acdc.drops <= plain.drops
        assert acdc.rtt_percentile(50) < 0.35 * plain.rtt_percentile(50)
        assert acdc.jain > 0.85
        assert worst(acdc) > max(0.5, worst(plain))
        assert acdc.goodput > 0.9 * plain.goodput


def test_differentiation_live(network: Network, real_time: RealTime) -> None:
    """Two tenants share the bottleneck; beta set while they run shifts it."""
    # Of four flows each, so that chance, which divides between two, does not
    # matter much, and a queue that gives each a window of many segments.
    queue = am.Queue(rate=100_000_000, k=60 * am.FRAME, limit=400_000)
    net = network(am.Dumbbell(n=8, queue=queue))
    flows = []
    for i, tenant in enumerate(("blue", "green") * 4, 1):
        net.ovs.set_tenant(tenant, beta=1)
        net.bind(tenant, f"h{i}", f"r{i}")
        flows.append(am.Flow(f"h{i}", f"r{i}", "cubic", tenant))
    # It cuts by alpha then, and by half of that before: a third is left to it.
    change = (8.0, lambda: net.ovs.set_tenant("green", beta=0))
    run = am.run_bulk(net, flows, 18, bottleneck=net.queue("s1", "s2"), events=[change])

    def share(begin: float, end: float) -> float:
        rates = {"blue": 0.0, "green": 0.0}
        for result in run.flows:
            rates[result.flow.tenant] += result.goodput_between(begin, end)
        return rates["green"] / (rates["blue"] + rates["green"])

    before, after = share(2, 8), share(10, 18)
    with real_time:
        assert 0.4 < before < 0.6
        assert after < before - 0.08


def test_incast(network: Network, real_time: RealTime) -> None:
    """Many to one through a shallow buffer: all transfers complete and every
    byte arrives, with fewer losses under AC/DC."""
    senders = [f"h{i}" for i in range(1, 13)]
    queue = am.Queue(rate=100_000_000, k=20 * am.FRAME, limit=100 * am.FRAME)
    net = network(am.Incast(n=len(senders), queue=queue))
    size = 1_500_000
    counts = []
    for phase in ("plain", "acdc"):
        if phase == "acdc":
            bind_all(net, beta=1)
        before = net.queue("s1", "v0").read()
        transfers = am.run_transfers(net, senders, "r1", size)
        after = net.queue("s1", "v0").read()
        assert [t.received for t in transfers] == [size] * len(senders)
        counts.append((after.drops - before.drops, after.marks - before.marks))
    (plain_drops, plain_marks), (acdc_drops, acdc_marks) = counts
    assert plain_drops > 0
    assert plain_marks == 0
    assert acdc_marks > 0
    with real_time:
        assert acdc_drops < plain_drops


def test_leaf_spine(network: Network) -> None:
    """Everyone reaches everyone, flows use both spines, and are marked there."""
    queue = am.Queue(rate=40_000_000, k=20 * am.FRAME, limit=200_000)
    net = network(am.LeafSpine(leaves=2, spines=2, hosts=3, queue=queue))
    assert net.pingAll(timeout=3) == 0
    bind_all(net, beta=1)
    # Many short flows, so that the hash puts some on either spine.
    for _ in range(4):
        transfers = am.run_transfers(net, ["h1_1", "h1_2", "h1_3"], "h2_1", 2_000_000)
        assert [t.received for t in transfers] == [2_000_000] * 3
    states = [net.queue("l1", spine).read() for spine in ("p1", "p2")]
    assert all(state.bytes > 1_000_000 for state in states), states
    assert sum(state.marks for state in states) > 0
    counters = net.ovs.acdc("show", "blue")["tenants"][0]["counters"]
    assert sum(value for name, value in counters.items() if "pack" in name) > 0, counters
