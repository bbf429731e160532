# SPDX-License-Identifier: Apache-2.0

"""ovs-vswitchd under valgrind's memcheck, briefly: what it finds fails the test.
With ACDC_MEMCHECK=1 any of these tests run so."""

from __future__ import annotations

import pytest

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.traffic import Transfer
from acdc_testlib.wire import tenant_counters

MB = 1 << 20


def updates(ovs: Ovs) -> int:
    return int(ovs.appctl("coverage/read-counter", "acdc_stats_update"))


@pytest.mark.skipif(datapath_type() != "netdev", reason="the engine is in the kernel")
def test_life_of_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACDC_MEMCHECK", "1")
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        ovs.set_tenant("blue")
        names = ("vnet1", "vnet2")
        a, b = (
            ovs.add_guest("br0", name, f"10.0.0.{i}/24", f"fd00::{i}/64")
            for i, name in enumerate(names, 1)
        )
        for name in names:
            ovs.bind("blue", name)
        for held in ("false", "true"):
            probe = 2000 if held == "true" else 0
            ovs.set_tenant("blue", police="true", pace=held, tail_probe=probe)
            transfers = [
                Transfer(a, b, "10.0.0.2", port=5001, size=2 * MB),
                Transfer(b, a, "fd00::1", port=5002, size=2 * MB),
            ]
            assert "10.0.0.2" in ovs.appctl("acdc/dump-flows")
            for transfer in transfers:
                transfer.finish()
        ovs.appctl("acdc/show")
        ovs.bind(None, "vnet1")
        ovs.appctl("acdc/flush")
        assert tenant_counters(ovs, "blue")["flows_capable"] == 8

        # The kernel's datapath is not there.
        ovs.vsctl("add-br", "br1", "--", "set", "bridge", "br1", "datapath_type=system", wait=False)
        wait_for("the bridge", lambda: "datapath system:" in ovs.appctl("acdc/show"))
        before = updates(ovs)
        wait_for("another try of what was wrong", lambda: updates(ovs) > before, 30)
        ovs.restart_vswitchd()
