# SPDX-License-Identifier: Apache-2.0

"""Two of three servers' disks are lost: a cluster is made of the last one's data."""

from __future__ import annotations

import re
import resource
import subprocess
import time

from acdc_testlib.fleet import ROOT, SERVERS, DatabaseOnly, Fleet, Host
from acdc_testlib.netns import wait_for


def the_disk_is_full(fleet: Fleet, host: Host) -> None:
    """Of a host: it says so, and catches up when there is room again, of itself."""
    database = host.ovs.rundir / "conf.db"
    assert isinstance(host.ovs, DatabaseOnly)
    server = host.ovs.server.pid
    resource.prlimit(server, resource.RLIMIT_FSIZE, (database.stat().st_size, -1))
    fleet.ctl("tenant", "set", "blue", "beta=0.5")
    wait_for("the problem", lambda: "I/O error" in fleet.run_ctl("status").stdout, 20)
    assert host.beta() == "0.25"
    resource.prlimit(server, resource.RLIMIT_FSIZE, (-1, -1))
    wait_for("the change", lambda: host.beta() == "0.5", 20)
    fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=database")


def test_loss_of_quorum() -> None:
    """By the commands of docs/fleet.rst.  Agents take the new cluster, whose index begins again."""
    fleet = Fleet()
    try:
        fleet.start()
        (host,) = fleet.add_hosts(1)
        fleet.await_hosts()
        fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=database")
        the_disk_is_full(fleet, host)
        fleet.client("convert", str(fleet.schema))
        for name in ("relay", "b", "c"):
            fleet.kill(name)
            (fleet.dir / f"{name}.db").unlink(missing_ok=True)
        time.sleep(5)  # Until it is no longer the leader.
        page = (ROOT / "docs/fleet.rst").read_text().split("here on 10.0.0.1::")[1]
        commands = re.findall(r"^ +(\S.*)$", page, re.M)[:5]
        assert commands.pop(1).startswith("kill ")
        fleet.appctl("a", *commands.pop(0).split()[3:])
        fleet.kill("a")
        for command in commands:
            words = command.replace("/var/lib/acdc-fleet/fleet", f"{fleet.dir}/a").split()
            words[0] = {"ovsdb-tool": fleet.env["OVSDB_TOOL"]}.get(words[0], words[0])
            subprocess.run(words, cwd=fleet.dir, check=True)
        for name in SERVERS:
            fleet.start_server(name)
            fleet.await_member(name)
        assert "beta=0.25" in fleet.ctl("tenant", "list")
        fleet.ctl("tenant", "set", "blue", "beta=0.75")
        wait_for("the change", lambda: host.beta() == "0.75", 60)
    finally:
        fleet.close()
