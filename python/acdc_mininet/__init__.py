# SPDX-License-Identifier: Apache-2.0

"""Mininet for AC/DC: guests, switches of a patched Open vSwitch, links with a
marking queue, topologies, and traffic.

    import acdc_mininet as am

    am.enter()                      # namespaces of its own, gone at the end
    queue = am.Queue(rate=100_000_000, k=60_000)    # bit/s, bytes
    with am.AcdcNet(am.Dumbbell(n=2, queue=queue)) as net:
        net.ovs.set_tenant("blue", beta=1)
        net.bind("blue", "h1", "h2", "r1", "r2")
        flows = [am.Flow("h1", "r1", "cubic"), am.Flow("h2", "r2", "reno")]
        run = am.run_bulk(net, flows, 10, bottleneck=net.queue("s1", "s2"))
        print(run.jain, run.marks)

It needs Debian's mininet and python3-openvswitch for /usr/bin/python3, root, and an Open
vSwitch: what the checkout has built (build/env), or else the one that is installed.  With
Mininet's own command: mn --custom .../acdc_mininet/custom.py, which see."""

from acdc_ovs import OvsError, Programs

from .batch import BatchHost, BatchLink, BatchNet, BatchNode, BatchSwitch
from .isolation import RUN, enter, isolated
from .link import FRAME, BpfQueue, MarkingLink, Queue, QueueError, QueueState, RedQueue, has_red
from .measure import (
    Flow,
    FlowResult,
    Program,
    Run,
    TrafficError,
    Transfer,
    available_stacks,
    jain,
    percentile,
    run_bulk,
    run_transfers,
)
from .nodes import AcdcHost, AcdcNet, AcdcSwitch
from .ovs import Ovs
from .topo import Dumbbell, Incast, LeafSpine

__all__ = [
    "FRAME",
    "RUN",
    "AcdcHost",
    "AcdcNet",
    "AcdcSwitch",
    "BatchHost",
    "BatchLink",
    "BatchNet",
    "BatchNode",
    "BatchSwitch",
    "BpfQueue",
    "Dumbbell",
    "Flow",
    "FlowResult",
    "Incast",
    "LeafSpine",
    "MarkingLink",
    "Ovs",
    "OvsError",
    "Program",
    "Programs",
    "Queue",
    "QueueError",
    "QueueState",
    "RedQueue",
    "Run",
    "TrafficError",
    "Transfer",
    "available_stacks",
    "enter",
    "has_red",
    "isolated",
    "jain",
    "percentile",
    "run_bulk",
    "run_transfers",
]
