# SPDX-License-Identifier: Apache-2.0

"""For Mininet's own command:

    sudo mn --custom .../acdc_mininet/custom.py --controller none --arp \\
        --switch acdc --host acdc --topo dumbbell,n=3,rate=100000000,k=60000

The queue is that of the topology's bottleneck.  --link acdc,rate=...,k=... is for its other links,
and for Mininet's own topologies.

acdc_mininet and acdc_ovs must be installed, or PYTHONPATH must name their directory.  The
whole of mn then runs in namespaces of its own, which are gone with it.

    mn> py net['s1'].ovs.set_tenant('blue', beta=0.5)
    mn> py net['s1'].ovs.bind('blue', 's1-eth2')
    mn> py net['s1'].ovs.acdc('show')

mn reads this file's text: imports are absolute, and what it is to find are dictionaries."""

from __future__ import annotations

import functools
import sys
from typing import Any

from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo

import acdc_mininet as am

am.enter()
Mininet.inited = True  # Else it sets the machine's sysctls.

_switches: dict[str, am.Ovs] = {}
"""By their datapath: bridges of a kind share one."""


class CommandSwitch(am.AcdcSwitch):
    """--switch acdc[,datapath=system]"""

    def __init__(self, name: str, datapath: str = "netdev", **params: Any) -> None:  # noqa: ANN401
        if datapath not in _switches:
            _switches[datapath] = am.Ovs(am.RUN / f"mn-{datapath}", datapath=datapath)
        super().__init__(name, _switches[datapath], **params)


def _queue(rate: Any, k: Any, limit: Any) -> am.Queue:  # noqa: ANN401
    """mn hands over as text what is no number."""
    for name, value, unit in ("rate", rate, "bit/s"), ("k", k, "bytes"), ("limit", limit, "bytes"):
        if not isinstance(value, int) or value < (name != "k"):
            sys.exit(f"{name}={value}: want a whole number of {unit}")
    return am.Queue(rate, k, limit)


class CommandLink(am.MarkingLink):
    """--link acdc[,rate=BIT/S][,k=BYTES][,limit=BYTES]: a queue in both directions."""

    def __init__(
        self,
        node1: Node,
        node2: Node,
        rate: int = am.Queue.rate,
        k: int = am.Queue.k,
        limit: int = am.Queue.limit,
        **params: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(node1, node2, **{"queue": _queue(rate, k, limit)} | params)


def _build(
    topology: type[Topo],
    *args: Any,  # noqa: ANN401
    rate: int = am.Queue.rate,
    k: int = am.Queue.k,
    limit: int = am.Queue.limit,
    **params: Any,  # noqa: ANN401
) -> Topo:
    """--topo NAME[,rate=BIT/S][,k=BYTES][,limit=BYTES]: the queue of the fabric's links."""
    return topology(*args, queue=_queue(rate, k, limit), **params)


TOPOLOGIES = {"dumbbell": am.Dumbbell, "incast": am.Incast, "leafspine": am.LeafSpine}
topos = {name: functools.partial(_build, topology) for name, topology in TOPOLOGIES.items()}
switches = {"acdc": CommandSwitch}
hosts = {"acdc": am.AcdcHost}
# mn 2.3.0 looks for 'linkstestnames', for want of a comma, but takes a global as its own.
LINKS = {**getattr(sys.modules["__main__"], "LINKS", {}), "acdc": CommandLink}
