# SPDX-License-Identifier: Apache-2.0

"""Networks whose nodes have no shells."""

from __future__ import annotations

import subprocess

import pytest

import acdc_mininet as am

QUEUE = am.Queue(rate=100_000_000, k=20 * am.FRAME, limit=300_000)


def test_dumbbell() -> None:
    """It carries traffic as Mininet's own, and what a guest is given holds."""
    with am.BatchNet(am.Dumbbell(n=2, queue=QUEUE)) as net:
        assert net.pingAll(timeout=3) == 0
        net.ovs.set_tenant("blue", beta=1)
        net.bind("blue", *(host.name for host in net.hosts))
        flows = [am.Flow("h1", "r1"), am.Flow("h2", "r2")]
        run = am.run_bulk(net, flows, 4, bottleneck=net.queue("s1", "s2"))
        assert all(flow.goodput > 0 for flow in run.flows)
        assert run.marks > 0
        host = net["h1"]
        link = host.cmd("ip -o link show h1-eth0")
        assert host.MAC() in link
        assert "state UP" in link
        assert net["r1"].MAC() in host.cmd("ip neigh show", net["r1"].IP())
        assert "generic-segmentation-offload: off" in host.cmd("ethtool -k h1-eth0")
        with host.inside():
            own = host.cmd("ip -o addr show")
        assert host.IP() in own


def test_a_wrong_setting_is_told() -> None:
    topo = am.Dumbbell(n=1)
    topo.addLink(topo.addHost("x"), "s1", cls=am.BatchLink, queue=am.Queue(rate=-1))
    with pytest.raises(am.QueueError, match="x: tc: "), am.BatchNet(topo):
        pass
    left = subprocess.run(["pgrep", "-x", "sleep"], capture_output=True, text=True)
    assert left.stdout == ""
