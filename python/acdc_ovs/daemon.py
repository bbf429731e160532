# SPDX-License-Identifier: Apache-2.0

"""The ovs-vswitchd that runs on this machine, for the programs that look at it."""

from __future__ import annotations

import os
from pathlib import Path

RUNDIR = Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"))


def control_socket(rundir: Path = RUNDIR) -> Path:
    """Its control socket, as ovs-appctl finds it.  Raises FileNotFoundError if none runs."""
    pidfile = rundir / "ovs-vswitchd.pid"
    if pidfile.exists():
        return rundir / f"ovs-vswitchd.{pidfile.read_text().strip()}.ctl"
    path = rundir / "ovs-vswitchd.ctl"
    if not path.exists():
        raise FileNotFoundError(f"{pidfile} does not exist: does ovs-vswitchd run?")
    return path
