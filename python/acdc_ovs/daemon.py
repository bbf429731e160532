# SPDX-License-Identifier: Apache-2.0

"""The ovs-vswitchd that runs on this machine, for the programs that look at it."""

from __future__ import annotations

import os
from pathlib import Path

# As built with --localstatedir=/var, the distribution's and the operator guide's; and
# with the default.
RUNDIRS = (Path("/var/run/openvswitch"), Path("/usr/local/var/run/openvswitch"))


def running_in() -> Path:
    """Where its pid file and sockets are: OVS_RUNDIR, or where it was last started."""
    if "OVS_RUNDIR" in os.environ:
        return Path(os.environ["OVS_RUNDIR"])
    found = [path for path in RUNDIRS if (path / "ovs-vswitchd.pid").exists()]
    return max(
        found, key=lambda path: (path / "ovs-vswitchd.pid").stat().st_mtime, default=RUNDIRS[0]
    )


def control_socket(rundir: Path | None = None) -> Path:
    """Its control socket, as ovs-appctl finds it.  Raises FileNotFoundError if none runs."""
    rundir = rundir or running_in()
    pidfile = rundir / "ovs-vswitchd.pid"
    if pidfile.exists():
        return rundir / f"ovs-vswitchd.{pidfile.read_text().strip()}.ctl"
    path = rundir / "ovs-vswitchd.ctl"
    if not path.exists():
        raise FileNotFoundError(f"{pidfile} does not exist: does ovs-vswitchd run?")
    return path
