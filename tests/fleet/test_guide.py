# SPDX-License-Identifier: Apache-2.0

"""docs/fleet.rst from zero: its scripts and commands, on three servers, a relay, ten hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acdc_ovs.programs import read_env
from acdc_testlib.fleet import ADDRESS, HOSTS, RAFT, RELAY, ROOT, SERVERS, Fleet, Host, schema
from acdc_testlib.netns import wait_for

SCRIPTS = ROOT / "docs/examples/fleet"


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Machines without anything on them."""
    fleet = Fleet()
    try:
        yield fleet
    finally:
        fleet.close()


def environ(fleet: Fleet, name: str) -> dict[str, str]:
    tree = Path(fleet.env["OVS_TREE"])
    path = [*(str(tree / part) for part in ("ovsdb", "utilities", "vswitchd")), os.environ["PATH"]]
    return os.environ | {
        "PATH": ":".join(path),
        "ACDC_FLEET_ETC": str(fleet.dir / "made" / name),
        "ACDC_FLEET_LIB": str(fleet.dir / f"{name}.lib"),
        "ACDC_FLEET_RUN": str(fleet.dir / f"{name}.run"),
        "ACDC_FLEET_SCHEMA": str(fleet.schema),
        "ACDC_FLEET_ID": str(fleet.dir / f"{name}.id"),
        "ACDC_FLEET_DETACH": "",
        # What somebody has exported is not for the scripts.
        **dict.fromkeys(("ETC", "LIB", "RUN", "SCHEMA", "ID"), "/nowhere"),
    }


@pytest.mark.parametrize("script", ["server.sh", "relay.sh"])
def test_thousands_may_connect(tmp_path: Path, script: str) -> None:
    """The usual limit of files is 1024, and of what may be 1048576."""
    program = tmp_path / "ovsdb-server"
    program.write_text("#!/bin/sh\nulimit -n\n")
    program.chmod(0o755)
    (tmp_path / "fleet.db").touch()
    places = dict.fromkeys(("ACDC_FLEET_LIB", "ACDC_FLEET_RUN"), str(tmp_path))
    env = os.environ | places | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["prlimit", "--nofile=1024:9000", "sh", str(SCRIPTS / script), "10.0.0.1", "10.0.0.1"]
    assert subprocess.check_output(command, env=env, text=True) == "9000\n"


def test_keys_are_made_after_an_interrupt(tmp_path: Path) -> None:
    """What is left of one that was not signed, or whose certificate found no room."""
    for name in ("a-privkey.pem", "a-req.pem", "b-privkey.pem", "b-req.pem", "b-cert.pem"):
        (tmp_path / name).touch()
    path = f"{read_env()['OVS_TREE']}/utilities:{os.environ['PATH']}"
    keys = ["sh", str(SCRIPTS / "keys.sh"), "a", "b"]
    subprocess.run(keys, cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    before = [(tmp_path / name / "cert.pem").read_text() for name in "ab"]
    for text, name in zip(before, "ab", strict=True):
        assert f"CN={name}\n" in text.replace(" = ", "=")
    subprocess.run(keys, cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    assert before == [(tmp_path / name / "cert.pem").read_text() for name in "ab"]


def test_guide(fleet: Fleet) -> None:
    page = (ROOT / "docs/fleet.rst").read_text()
    names = [f"host-{i}" for i in range(10)]
    made = fleet.dir / "made"
    made.mkdir()
    keys = ["sh", str(SCRIPTS / "keys.sh"), *SERVERS, "relay", "operator", *names]
    subprocess.run(keys, cwd=made, env=environ(fleet, "a"), check=True, capture_output=True)

    for name in SERVERS:
        firewall = ["sh", str(SCRIPTS / "firewall.sh"), *(ADDRESS[server] for server in SERVERS)]
        fleet.namespaces[name].run(*firewall)
        fleet.namespaces[name].run(*firewall)
        fleet.daemons[name] = fleet.namespaces[name].popen(
            *("sh", SCRIPTS / "server.sh", ADDRESS[name], ADDRESS["a"]), env=environ(fleet, name)
        )
        socket = fleet.dir / f"{name}.run/db.sock"
        wait_for("the server", socket.exists, 30)
    db = f"unix:{fleet.dir}/a.run/db.sock"

    def ctl(command: str) -> str:
        """As the page has it."""
        assert f"acdc-fleetctl {command}" in page
        done = fleet.run_ctl(*command.split(), db=db)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    wait_for("the cluster", lambda: fleet.run_ctl("log", db=db).returncode == 1 and
             "init first" in fleet.run_ctl("log", db=db).stderr, 30)  # fmt: skip
    ctl(f"init --listen=pssl:{HOSTS} --relay=pssl:{RELAY}")
    servers = ",".join(f"ssl:{ADDRESS[name]}:{HOSTS}" for name in SERVERS)
    assert f"./relay.sh {servers}\n" in page
    fleet.daemons["relay"] = fleet.namespaces["relay"].popen(
        *("sh", SCRIPTS / "relay.sh", servers), env=environ(fleet, "relay")
    )
    for name in names:
        host = Host(fleet, name, real=False)
        fleet.hosts.append(host)
        env = environ(fleet, name) | {"OVS_RUNDIR": str(host.ovs.rundir)}
        words = [
            "sh",
            str(SCRIPTS / "host.sh"),
            name,
            f"ssl:{ADDRESS['relay']}:{RELAY},{servers}",
            servers,
        ]
        subprocess.run(words, env=env, check=True)
        fleet.pki.dir = made
        fleet.pki.ca = made / "pki/switchca/cacert.pem"
        host.start_agent()
    reach(fleet)
    assert (fleet.dir / "host-3.id").read_text() == "host-3\n"
    wait_for("all hosts", lambda: len(fleet.run_ctl("host", "list", db=db).stdout.splitlines()) == 11, 60)  # fmt: skip
    # These have no ovs-vswitchd, which --wait=hosts would wait for.
    done = fleet.run_ctl("tenant", "set", "blue", "beta=0.25", "--wait=database", db=db)
    assert "is on all 10 hosts" in done.stdout
    ctl("bind blue port-profile=blue")
    wait_for("selectors", lambda: {h.get("acdc", "blue", "bind") for h in fleet.hosts} == {'["port-profile=blue"]'})  # fmt: skip
    assert {host.beta() for host in fleet.hosts} == {"0.25"}
    for command in re.findall(r"^ +acdc-fleetctl (\S+ \S+) ", page, re.M):
        if "-" not in command:
            assert fleet.run_ctl(*command.split(), "--help", db=db).returncode == 0, command
    backup_and_convert(fleet, page, db)
    lost_disk(fleet, page, db)


def reach(fleet: Fleet) -> None:
    """A host reaches the port for hosts, and not the cluster's, which asks for a certificate only."""
    for port, code in ((HOSTS, 0), (RAFT, 124)):
        connect = ["timeout", "2", "bash", "-c", f"</dev/tcp/{ADDRESS['a']}/{port}"]
        assert fleet.site.popen(*connect).wait(10) == code, port


def backup_and_convert(fleet: Fleet, page: str, db: str) -> None:
    client = [fleet.env["OVSDB_CLIENT"], "--timeout=20"]
    for words in ("backup", "restore", "convert"):
        assert f"ovsdb-client {words} unix:/var/run/acdc-fleet/db.sock" in page
    backup = fleet.dir / "backup"
    with backup.open("wb") as stream:
        subprocess.run([*client, "backup", db, "ACDC_Fleet"], stdout=stream, check=True)
    fleet.run_ctl("tenant", "set", "blue", "beta=1", db=db)
    wait_for("the change", lambda: {h.beta() for h in fleet.hosts} == {"1"}, 30)
    with backup.open("rb") as stream:
        subprocess.run([*client, "restore", db, "ACDC_Fleet"], stdin=stream, check=True)
    wait_for("what was", lambda: {h.beta() for h in fleet.hosts} == {"0.25"}, 60)
    subprocess.run([*client, "convert", db, str(fleet.schema)], check=True)
    assert schema()["name"] == "ACDC_Fleet"


def lost_disk(fleet: Fleet, page: str, db: str) -> None:
    """Of the third server: it is taken out of the cluster, and joins anew."""
    words = f"cluster/kick ACDC_Fleet ssl:{ADDRESS['c']}:{RAFT}"
    assert f"/server.ctl {words}\n      ./server.sh {ADDRESS['c']} {ADDRESS['a']}\n" in page
    fleet.kill("c")
    shutil.rmtree(fleet.dir / "c.lib")
    appctl = [fleet.env["OVS_APPCTL"], "-t", f"{fleet.dir}/a.run/server.ctl", *words.split()]
    subprocess.run(appctl, check=True, capture_output=True)
    again = ("sh", SCRIPTS / "server.sh", ADDRESS["c"], ADDRESS["a"])
    fleet.daemons["c"] = fleet.namespaces["c"].popen(*again, env=environ(fleet, "c"))
    joined = f"unix:{fleet.dir}/c.run/db.sock"
    known = fleet.run_ctl("log", db=db).stdout
    wait_for("the server", lambda: fleet.run_ctl("log", db=joined).stdout == known, 30)
