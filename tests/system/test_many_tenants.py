# SPDX-License-Identifier: Apache-2.0

"""What many tenants, with a port each, cost the main thread of ovs-vswitchd."""

from __future__ import annotations

import pytest

from acdc_testlib.netns import processor_seconds
from acdc_testlib.ovs import Ovs, under_memcheck

N = 500


def seconds(ovs: Ovs, command: str) -> float:
    """Of the main thread.  What else it does meanwhile only adds to them."""

    def once() -> float:
        before = processor_seconds(ovs.vswitchd_pid)
        ovs.appctl(command)
        return processor_seconds(ovs.vswitchd_pid) - before

    return min(once() for _ in range(5))


@pytest.mark.skipif(under_memcheck(), reason="it measures")
def test_show() -> None:
    """acdc/show looks ports up once, not for each tenant: else it takes seven times as
    long as acdc/stats, which has none."""
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        words: list[str] = []
        for i in range(N):
            words += ["--", "create", "acdc", f"name=t{i}"]
            words += ["--", "add-port", "br0", f"p{i}", "--", "set", "interface", f"p{i}"]
            words += ["type=internal", f"other_config:acdc-tenant=t{i}"]
        ovs.vsctl(*words[1:])
        assert ovs.appctl("acdc/show").count(f" p{N - 1} ") == 1
        stats, show = (seconds(ovs, f"acdc/{command}") for command in ("stats", "show"))
        print(f"acdc/show {1000 * show:.1f} ms, acdc/stats {1000 * stats:.1f} ms")
        assert show < 5 * stats
