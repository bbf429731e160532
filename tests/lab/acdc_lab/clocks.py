# SPDX-License-Identifier: Apache-2.0
"""Hosts whose clocks differ.  All hosts of a lab have the kernel's one clock.  Nobody but
the reports of AC/DC's timing says a time to another host, so a clock that is ahead is that in
these: what leaves the host is later by it, and what comes is earlier (clock.bpf.c)."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from .net import sh
from .scenarios import Options

SOURCE = Path(__file__).with_name("clock.bpf.c")


def set_clocks(options: Options, uplinks: Sequence[str], directory: Path) -> None:
    """Those of the hosts behind these devices of the caller's namespace."""
    if not (options.clock_offset or options.clock_drift):
        return
    program = directory / "clock.bpf.o"
    constants = {
        "OFFSET_NS": round(options.clock_offset * 1e9),
        "DRIFT_PPB": round(options.clock_drift * 1e3),
        "SINCE_NS": time.monotonic_ns(),
    }
    defines = [f"-D{name}={value}ll" for name, value in constants.items()]
    include = f"-I/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    sh("clang", "-O2", "-target", "bpf", include, *defines, "-c", SOURCE, "-o", program)
    lines = []
    for device in uplinks:
        lines.append(f"qdisc add dev {device} clsact")
        lines += [
            f"filter add dev {device} {way} bpf direct-action object-file {program} section {way}"
            for way in ("ingress", "egress")
        ]
    sh("tc", "-batch", "-", stdin="".join(f"{line}\n" for line in lines))
