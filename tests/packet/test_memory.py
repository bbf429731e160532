# SPDX-License-Identifier: Apache-2.0

"""Memory of the userspace datapath (lib/acdc-arena.h)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs, Programs, datapath_type, under_memcheck
from acdc_testlib.wire import Conn, Wire

pytestmark = pytest.mark.skipif(
    datapath_type() != "netdev", reason="it is the userspace datapath's"
)

FLOW = 120
"""Bytes, of IPv4."""
STEP = 2 << 20
"""Bytes that are added at a time."""
STEP_FLOWS = STEP // 2048 * 17
"""For so many flows, see ACDC_GROUP."""
MAX_FLOWS = 1 << 16


def memory(ovs: Ovs) -> int:
    """Bytes that ovs-vswitchd has touched."""
    status = Path(f"/proc/{ovs.vswitchd_pid}/status").read_text()
    return int(re.findall(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)[0]) << 10


def filled(ovs: Ovs, before: int, n_flows: int) -> int:
    """Waits until the sweeper has added memory for 'n_flows' and a sixteenth, in whole
    steps; returns memory() then."""
    steps = -(-(n_flows * 17 // 16 + 1) // STEP_FLOWS)
    wait_for("memory of flows", lambda: memory(ovs) - before >= steps * STEP, 20)
    return memory(ovs)


def set_max_flows(ovs: Ovs, n: int) -> None:
    ovs.vsctl("set", "open_vswitch", ".", f"other_config:acdc-max-flows={n}")


@pytest.mark.skipif(under_memcheck(), reason="memory is valgrind's there")
@pytest.mark.skipif(
    b"__asan_init" in Programs.patched().vswitchd.read_bytes(),
    reason="AddressSanitizer has each flow on its own",
)
def test_no_packet_waits_for_memory() -> None:
    """What flows will need is there soon after the first tenant, or after the limit is raised."""
    with Ovs() as ovs:
        wire = Wire(ovs, headers=True)
        # Open vSwitch's caches, and the connection cache, would take some, too.
        ovs.vsctl("set", "open_vswitch", ".", "other_config:emc-insert-inv-prob=0")
        set_max_flows(ovs, MAX_FLOWS)
        before = memory(ovs)
        wire.reset()
        ovs.set_tenant("blue", **{"other_config:max-half-open": MAX_FLOWS})
        conn = Conn(wire).open()
        ready = filled(ovs, before, MAX_FLOWS)

        n = STEP_FLOWS * 3 // 2
        frames = [Conn(wire).guest_syn() for _ in range(n)]
        for i in range(0, len(frames), 64):
            wire.egress_raw(*frames[i : i + 64])
        assert ovs.acdc("stats")["datapaths"][0]["n_flows"] == len(frames) + 1
        assert memory(ovs) - ready < n * FLOW // 2
        # The one before is as it was.
        (ack,) = conn.peer_ack(0)
        assert not ack.has_acdc

        ready = memory(ovs)
        set_max_flows(ovs, 4 * MAX_FLOWS)
        filled(ovs, before, 4 * MAX_FLOWS)
