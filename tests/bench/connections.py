# SPDX-License-Identifier: Apache-2.0

"""What the benchmarks with TCP connections of tcp-frames.h share."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent

VARIANTS = ["pristine", "unbound", "bound"]
# Segments and ACKs of a cycle.
TRAFFIC = {"ack": (1, 15), "data": (15, 1), "mix": (2, 1)}
# A port alone is found without looking at headers ("simple match"); a prefix
# makes the datapath extract and hash them for each packet, as MAC learning,
# tunnels and security groups do.
RULES = {
    "prefix": ("tcp,nw_dst=8.0.0.0/5", "tcp,nw_src=8.0.0.0/5"),
    "port": ("", ""),
}


def n_slots(flows: int) -> int:
    """Connections come in pairs."""
    return max(flows // 2, 1)


def build(source: str, target: Path, *options: str) -> None:
    """A program or library that uses DPDK, of 'source' in this directory."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libdpdk"], check=True, capture_output=True, text=True
    ).stdout.split()
    subprocess.run(
        ["gcc", "-O2", "-g", *options, "-o", target, BENCH / source, *flags, "-pthread"],
        check=True,
    )


def check(flows: int, tenant: dict[str, Any]) -> None:
    """That the engine follows every connection, or the figure means nothing.  'tenant' is
    of acdc/show."""
    counters = tenant["counters"]
    if tenant["n_capable"] != 2 * n_slots(flows):
        counted = {name: value for name, value in counters.items() if value}
        raise RuntimeError(
            f"{tenant['n_capable']} of {2 * n_slots(flows)} connections are followed: {counted}"
        )
    # Before it begins, net_null receives zeros.
    wrong = {
        name: value
        for name, value in counters.items()
        if value and re.match("untouched_|feedback_|ack_", name) and name != "untouched_not_tcp"
    }
    if wrong:
        raise RuntimeError(f"the engine does not understand the traffic: {wrong}")
