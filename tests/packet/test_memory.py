# SPDX-License-Identifier: Apache-2.0

"""Memory of the userspace datapath (lib/acdc-slab.h, lib/acdc-background.h)."""

from __future__ import annotations

import os
import subprocess

import pytest

from acdc_testlib.netns import threads, wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.wire import Conn, Wire

pytestmark = pytest.mark.skipif(
    datapath_type() != "netdev", reason="it is the userspace datapath's"
)

SLAB = 2 << 20
"""Bytes of flows, one behind the other; of a small one an eighth."""
MAX_FLOWS = 1 << 16


def test_no_packet_waits_for_memory() -> None:
    """The next slab is there, touched, before it is needed, but for the first: until
    that is ready, a few milliseconds, small ones are taken."""
    with Ovs() as ovs:

        def slabs(name: str) -> int:
            return int(ovs.appctl("coverage/read-counter", f"acdc_slab_{name}"))

        wire = Wire(ovs, headers=True)
        wire.reset()
        ovs.vsctl("set", "open_vswitch", ".", f"other_config:acdc-max-flows={MAX_FLOWS}")
        ovs.set_tenant("blue", **{"other_config:max-half-open": MAX_FLOWS})
        conn = Conn(wire).open()
        late = slabs("late")
        if not late:
            pytest.skip("built with AddressSanitizer, which has no slabs")
        assert slabs("ready") == 0
        bytes_per_flow = ovs.appctl_json("acdc/stats")["datapaths"][0]["bytes_per_flow4"]
        # Of a second slab some, be there five small ones before.
        n = SLAB // bytes_per_flow * 7 // 4
        frames = [Conn(wire).guest_syn() for _ in range(n)]
        for i in range(0, len(frames), 64):
            wire.egress_raw(*frames[i : i + 64])
        assert ovs.appctl_json("acdc/stats")["datapaths"][0]["n_flows"] == len(frames) + 1
        assert slabs("ready") == 2
        assert slabs("late") <= 5
        # A packet that maps one would wait while the kernel fills a page for another thread.
        assert slabs("mapped") == 0
        # The one before is as it was.
        (ack,) = conn.peer_ack(0)
        assert not ack.has_acdc


@pytest.mark.skipif(
    subprocess.run(["chrt", "-f", "1", "true"], check=False, capture_output=True).returncode != 0,
    reason="real-time priorities are not for this user",
)
def test_mover_can_come_at_once() -> None:
    """Before there is memory to move: it would have to wait for a processor first."""
    with Ovs() as ovs:
        Wire(ovs).reset()

        def policies() -> list[int]:
            return [
                os.sched_getscheduler(thread)
                for thread, name in threads(ovs.vswitchd_pid).items()
                if name.startswith("acdc_mover")
            ]

        wait_for("the mover's priority", lambda: policies() == [os.SCHED_FIFO])
