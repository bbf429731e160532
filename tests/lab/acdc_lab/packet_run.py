# SPDX-License-Identifier: Apache-2.0
"""tests/lab/packet for the tests of the lab."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
TESTS = LAB.parent
# Attacks are the engine's affair, which is the same, and take minutes there; the cache,
# the region of memory, offload to hardware, what DPDK's ports vouch for and what is held are
# the userspace datapath's.
NOT_HERE = (
    *("test_hostile", "test_conn_cache", "test_good_checksums", "test_hw_offload"),
    "test_dpdk_guest",
    *("test_memory", "test_pace"),
)
PACKET = sorted(path for path in TESTS.glob("packet/test_*.py") if path.stem not in NOT_HERE)
# Without what takes long there: 15000 connections, iperf3, each kind of tunnel.
NAMES = ("conntrack", "smaller_path", "traffic", "tunnels", "vlan")
SYSTEM = [TESTS / f"system/test_{name}.py" for name in NAMES]
LONG = "churn or iperf3 or honest or geneve-over-v4 or vxlan-over-v6"


class PacketRun:
    """tests/lab/packet, under way; it also fails on complaints of the kernel."""

    def __init__(self, *arguments: str | Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            [LAB / "packet", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        )  # fmt: skip

    def wait(self) -> None:
        output, _ = self._process.communicate()
        # 1: tests failed, which the caller judges.
        assert self._process.returncode in (0, 1), output
        print(output)

    def succeed(self) -> None:
        self.wait()
        assert self._process.returncode == 0

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.communicate()
