# SPDX-License-Identifier: Apache-2.0

"""The Ansible role: what it makes, and that it makes nothing the second time."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from acdc_testlib.fleet import ROOT, DatabaseOnly, schema
from acdc_testlib.long import long
from acdc_testlib.programs import Programs

ANSIBLE = ROOT / "contrib/ansible"
pytestmark = pytest.mark.skipif(not shutil.which("ansible-lint"), reason="no ansible-lint")


def test_lint() -> None:
    command = ["ansible-lint", "--offline", "--nocolor", "-q", "fleet.yml"]
    done = subprocess.run(command, cwd=ANSIBLE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_units_of_one_machine() -> None:
    """A server that is a relay, too.  systemd removes a unit's directory when that unit stops."""
    templates = (ANSIBLE / "roles/acdc_fleet/templates").glob("*.service.j2")
    found = [re.findall("^RuntimeDirectory=(.*)$", path.read_text(), re.M) for path in templates]
    assert sorted(found) == [["acdc-fleet"], ["acdc-fleet-relay"]]


def test_units_of_thousands() -> None:
    """Of connections: systemd's limit of files is 1024."""
    for path in (ANSIBLE / "roles/acdc_fleet/templates").glob("*.service.j2"):
        assert re.search(r"^LimitNOFILE=\d{5,}$", path.read_text(), re.M), path


def machine(tmp: Path, name: str, address: str | None = None) -> dict[str, object]:
    """In the inventory.  Its directories are its own, its connection is local."""
    keys = tmp / "keys" / name
    keys.mkdir(parents=True)
    for file in ("key.pem", "cert.pem", "ca.pem"):
        (keys / file).write_text(f"{name} {file}\n")
    own = tmp / name
    (own / "units").mkdir(parents=True)
    variables: dict[str, object] = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_become": False,
        "acdc_fleet_keys": str(tmp / "keys"),
        "acdc_fleet_etc": str(own / "etc"),
        "acdc_fleet_lib": str(own / "lib"),
        "acdc_fleet_units": str(own / "units"),
        "acdc_fleet_schema": str(tmp / "schema"),
        "acdc_fleet_system_id": str(own / "system-id.conf"),
        "acdc_fleet_start": False,
    }
    return variables | ({"acdc_fleet_address": address} if address else {})


@long
def test_role(tmp_path: Path) -> None:
    (tmp_path / "schema").write_text(json.dumps(schema()))
    servers = {f"fleet-{n}": machine(tmp_path, f"fleet-{n}", f"10.0.0.{i}")
               for i, n in enumerate("abc", 1)}  # fmt: skip
    relays = {"relay": machine(tmp_path, "relay", "10.0.0.4")}
    groups = {
        "acdc_servers": servers,
        "acdc_relays": relays,
        "acdc_hosts": {"host-0": machine(tmp_path, "host-0")},
    }
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({name: {"hosts": hosts} for name, hosts in groups.items()}))
    programs = Programs.patched()
    path = f"{programs.ovsdb_tool.parent}:{programs.vsctl.parent}:{os.environ['PATH']}"
    rundir = tmp_path / "ovs"
    ovs = DatabaseOnly(rundir)
    ovs.create_database()
    ovs.start_ovsdb()
    try:
        ovs.initialize_database()
        env = os.environ | {"PATH": path, "OVS_RUNDIR": str(rundir), "HOME": str(tmp_path)}
        command = ["ansible-playbook", "-i", str(inventory), "fleet.yml"]
        outputs = [
            subprocess.run(command, cwd=ANSIBLE, env=env, capture_output=True, text=True)
            for _ in range(2)
        ]
        assert [done.returncode for done in outputs] == [0, 0], outputs[0].stdout
        remote = ovs.vsctl(
            "--no-wait", "get", "open_vswitch", ".", "external_ids:acdc-fleet-remote"
        )
        name = ovs.vsctl("--no-wait", "get", "open_vswitch", ".", "external_ids:system-id")
    finally:
        ovs.stop()
    assert "changed=0" not in outputs[0].stdout.splitlines()[-2]
    recap = outputs[1].stdout.split("PLAY RECAP")[1].strip().splitlines()[1:]
    assert len(recap) == 5 and all("changed=0" in line for line in recap)
    assert name == "host-0"
    assert (tmp_path / "host-0/system-id.conf").read_text() == "host-0\n"
    assert remote.strip('"') == (
        "ssl:10.0.0.4:6652,ssl:10.0.0.1:6651,ssl:10.0.0.2:6651,ssl:10.0.0.3:6651"
    )
    for server, address in (("fleet-a", "10.0.0.1"), ("fleet-c", "10.0.0.3")):
        database = str(tmp_path / server / "lib/fleet.db")
        tool = [str(programs.ovsdb_tool), "db-local-address", database]
        assert subprocess.check_output(tool, text=True).strip() == f"ssl:{address}:6650"
    rules = tmp_path / "fleet-b/etc/cluster.nft"
    assert "tcp dport 6650 ip saddr != { 10.0.0.1, 10.0.0.2, 10.0.0.3 } drop" in rules.read_text()
    subprocess.run(["unshare", "--net", "nft", "-f", rules], check=True)
    unit = (tmp_path / "relay/units/acdc-fleet-relay.service").read_text()
    assert "relay:ACDC_Fleet:ssl:10.0.0.1:6651,ssl:10.0.0.2:6651,ssl:10.0.0.3:6651\n" in unit
    assert (tmp_path / "fleet-b/etc/key.pem").stat().st_mode & 0o777 == 0o600


# What is run in place of programs notes what it is asked.
SAID = '#!/bin/sh\necho "${0##*/} $*" >>"$SAID"\n'
PROGRAMS = {
    "systemctl": f"{SAID}echo LoadState=loaded\necho ActiveState=active\n",
    "acdc-fleetctl": SAID,
    "ovsdb-client": SAID,
}


def play(tmp: Path, servers: dict[str, str]) -> list[str]:
    """What the programs are asked that start servers with these addresses."""
    (tmp / "schema").write_text(json.dumps(schema()))
    (tmp / "bin").mkdir()
    for name, text in PROGRAMS.items():
        (tmp / "bin" / name).write_text(text)
        (tmp / "bin" / name).chmod(0o755)
    hosts = {
        name: machine(tmp, name, address) | {"acdc_fleet_start": True}
        for name, address in servers.items()
    }
    inventory = tmp / "inventory.json"
    inventory.write_text(json.dumps({"acdc_servers": {"hosts": hosts}}))
    path = f"{tmp}/bin:{Programs.patched().ovsdb_tool.parent}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "HOME": str(tmp), "SAID": str(tmp / "said")}
    command = ["ansible-playbook", "-i", str(inventory), "fleet.yml"]
    done = subprocess.run(command, cwd=ANSIBLE, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return (tmp / "said").read_text().splitlines()


@long
@pytest.mark.parametrize(
    ("address", "listeners"),
    [
        ("10.0.0.1", "--listen=pssl:6651 --relay=pssl:6652"),
        ("[fd00::1]", "--listen=pssl:6651:[::] --relay=pssl:6652:[::]"),
    ],
)
def test_listeners(tmp_path: Path, address: str, listeners: str) -> None:
    """Of the family of the addresses."""
    said = play(tmp_path, {"fleet-a": address})
    assert said[-1] == f"acdc-fleetctl init {listeners}"


@long
def test_one_server_after_another(tmp_path: Path) -> None:
    """Each is restarted when the one before is in the cluster again."""
    said = play(tmp_path, {"fleet-a": "10.0.0.1", "fleet-b": "10.0.0.2"})
    found = [text for text in said if re.match("systemctl restart|ovsdb-client", text)]
    wait = "ovsdb-client --timeout=60 wait unix:/run/acdc-fleet/db.sock ACDC_Fleet connected"
    assert found == 2 * ["systemctl restart acdc-fleet-server", wait]
