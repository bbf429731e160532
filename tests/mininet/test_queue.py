# SPDX-License-Identifier: Apache-2.0

"""The marking switch that the other tests trust: rate, K, limit, and what it
does to ECT and other packets."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from mininet.node import Node

import acdc_mininet as am
from acdc_testlib.real_time import RealTime

RATE = 100_000_000
ECN: dict[str, object] = {"net.ipv4.tcp_ecn": 1}  # Guests that ask for ECN themselves.
Network = Callable[..., am.AcdcNet]


class EcnHost(am.AcdcHost):
    def __init__(self, name: str, **params: Any) -> None:  # noqa: ANN401
        super().__init__(name, sysctls=ECN, **params)


def bulk(net: am.AcdcNet) -> am.Run:
    flows = [am.Flow("h1", "r1", "cubic"), am.Flow("h2", "r2", "reno")]
    return am.run_bulk(net, flows, 6, bottleneck=net.queue("s1", "s2"), probe=("h3", "r3"))


# Many times what the queue holds, as fast as a guest can.
FLOOD = """
import socket, sys
sock = socket.socket(type=socket.SOCK_DGRAM)
while True:
    sock.sendto(bytes(1472), (sys.argv[1], 9))
"""


def test_rate_and_limit_without_ecn(network: Network, real_time: RealTime) -> None:
    """What is not ECT is never marked, leaves at the rate, and is dropped when
    the buffer is full, not before."""
    queue = am.Queue(rate=RATE, k=20 * am.FRAME, limit=150 * am.FRAME)
    net = network(am.Dumbbell(n=3, queue=queue))
    run = bulk(net)
    before = net.queue("s1", "s2").read()
    assert before.max_queue > 0.9 * queue.limit or before.drops == 0
    # Whether TCP fills the buffer depends on how busy this machine is.
    flood = net["h1"].popen([sys.executable, "-c", FLOOD, net["r1"].IP()])
    try:
        waiting = [net.queue("s1", "s2").backlog() for _ in range(200)]
    finally:
        flood.kill()
        flood.wait()
    # What is counted as queued is what the kernel holds back, also after many
    # drops; each CPU may let a frame in at the same moment.
    assert max(waiting) <= queue.limit + (os.cpu_count() or 1) * am.FRAME
    state = net.queue("s1", "s2").read()
    assert state.marks == 0
    assert state.max_queue <= queue.limit
    with real_time:
        # 1448 of 1514 bytes are payload.
        assert 0.85 < run.goodput / (RATE * 1448 / 1514) <= 1.02
        assert run.rtt_percentile(50) < 1.6 * queue.limit * 8 / RATE * 1e6
        assert 0.9 * queue.limit < max(waiting)
        assert 0.9 * queue.limit < state.max_queue
        assert state.drops > before.drops


def test_marks_above_k_instead_of_drops(network: Network, real_time: RealTime) -> None:
    queue = am.Queue(rate=RATE, k=20 * am.FRAME, limit=150 * am.FRAME)
    net = network(am.Dumbbell(n=3, queue=queue), host=EcnHost)
    run = bulk(net)
    assert run.marks > 0
    with real_time:
        assert run.goodput > 0.8 * RATE
        assert run.drops == 0
        # cubic halves less than DCTCP grows, but it does react at K.
        assert net.queue("s1", "s2").read().max_queue < queue.limit
        assert run.rtt_percentile(50) < 1.6 * queue.k * 8 / RATE * 1e6 + 2000


@pytest.mark.parametrize("host", [am.AcdcHost, EcnHost])
def test_red_drops_what_is_not_ect_above_k(
    network: Network, host: type[am.AcdcHost], real_time: RealTime
) -> None:
    queue = am.Queue(rate=RATE, k=20 * am.FRAME, limit=150 * am.FRAME, drop_not_ect=True)
    net = network(am.Dumbbell(n=3, queue=queue), host=host)
    run = bulk(net)
    state = net.queue("s1", "s2").read()
    if host is EcnHost:
        assert state.marks > 0
        with real_time:
            assert run.goodput > 0.6 * RATE
    else:
        assert state.marks == 0
        assert state.drops > 0
        assert state.max_queue <= queue.k


def test_directions_have_queues_of_their_own(network: Network, real_time: RealTime) -> None:
    net = network(am.Dumbbell(n=2, queue=am.Queue(rate=RATE)))
    am.run_bulk(net, [am.Flow("h1", "r1")], 4)
    there, back = net.queue("s1", "s2").read(), net.queue("s2", "s1").read()
    assert 0 < back.bytes < there.bytes / 5  # ACKs alone.
    assert back.max_queue < there.max_queue
    with real_time:
        assert there.bytes > 20_000_000


@pytest.mark.parametrize(
    ("marker", "fields"),
    [("red", {"fq": True}), ("bpf", {"fq": True}), ("bpf", {"delay": 1}), ("bpf", {"loss": 1})],
)
def test_what_a_link_lacks(marker: str, fields: dict[str, Any]) -> None:
    (name,) = fields
    bad = am.Queue(**fields)
    for queue, back in ((bad, None), (None, bad)):
        with pytest.raises(am.QueueError, match=f"a MarkingLink of {marker} has no {name}"):
            am.MarkingLink(None, None, queue, back, marker)


@pytest.mark.parametrize("marker", ["red", "bpf"])
def test_large_packets(marker: str) -> None:
    """Without marks red wants no module."""
    a, b = nodes = [Node(name, inNamespace=True) for name in ("a", "b")]
    link = am.MarkingLink(a, b, am.Queue(k=0), marker=marker, mtu=9000)
    try:
        assert [intf.node.cmd(f"cat /sys/class/net/{intf}/mtu").split() for intf in
                (link.intf1, link.intf2)] == [["9000"], ["9000"]]  # fmt: skip
    finally:
        link.stop()
        for node in nodes:
            node.terminate()


def test_no_longer_than_its_warm_up(network: Network) -> None:
    net = network(am.Dumbbell(n=1, queue=am.Queue(rate=RATE)))
    with pytest.raises(ValueError, match=r"seconds: 2: want more than the warm-up of 2\b"):
        am.run_bulk(net, [am.Flow("h1", "r1")], 2)
