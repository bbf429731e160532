# SPDX-License-Identifier: Apache-2.0

"""Whatever ends a test, nothing of what it started stays."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acdc_testlib.netns import wait_for

PROGRAM = """
import sys, time
sys.path.insert(0, {tests!r})
from acdc_testlib.ovs import Ovs

with Ovs() as ovs:
    ovs.add_bridge("br0")
    ovs.add_tap("br0", "tap0")
    guest = ovs.add_guest("br0", "vnet0", "10.0.0.1/24")
    server = guest.popen("iperf3", "-s")
    print(ovs.dir, ovs.vswitchd_pid, ovs.pid("ovsdb-server"), ovs.ns.pid, guest.pid, server.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays(how: signal.Signals) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(tests=tests)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        directory, *pids = process.stdout.readline().split()
        assert len(pids) == 5
        assert all(Path("/proc", pid).exists() for pid in pids)
        process.send_signal(how)
        process.wait(20)
    wait_for("the end of all processes", lambda: not any(alive(pid) for pid in pids))
    if how == signal.SIGINT:
        assert not Path(directory).exists()
    # Otherwise the next test that starts an OVS removes it.
    shutil.rmtree(directory, ignore_errors=True)


def alive(pid: str) -> bool:
    try:
        return "\nState:\tZ" not in Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
