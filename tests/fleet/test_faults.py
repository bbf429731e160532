# SPDX-License-Identifier: Apache-2.0

"""Servers, links, agents and certificates that fail."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acdc_fleet.agent import Agent
from acdc_testlib.fleet import CTL, SERVERS, Fleet, schema
from acdc_testlib.netns import wait_for


def everywhere(fleet: Fleet, beta: str, timeout: float = 30) -> None:
    try:
        wait_for("all hosts", lambda: {host.beta() for host in fleet.hosts} == {beta}, timeout)
    except TimeoutError:
        logs = (f"{h.name}: {h.log()[-500:]}" for h in fleet.hosts if h.beta() != beta)
        raise TimeoutError("\n".join(logs)) from None


def commit(fleet: Fleet, beta: str, *names: str) -> float:
    """Seconds until a change is committed at one of those servers."""
    started = time.monotonic()
    while time.monotonic() < started + 30:
        for name in names:
            db = f"--db=unix:{fleet.dir}/{name}.sock"
            done = subprocess.run([*CTL, "--connect-timeout=2", db, "tenant", "set", "blue",
                                   f"beta={beta}"], capture_output=True)  # fmt: skip
            if done.returncode == 0:
                return time.monotonic() - started
    raise TimeoutError("no commit within 30 s")


def test_the_leader_is_killed(fleet: Fleet) -> None:
    leader = fleet.leader()
    fleet.kill(leader)
    seconds = commit(fleet, "0.25", *(name for name in SERVERS if name != leader))
    print(f"commit possible again {seconds:.1f} s after the leader's death")
    assert seconds < 10
    everywhere(fleet, "0.25")


def test_the_leader_is_cut_off(fleet: Fleet) -> None:
    leader = fleet.leader()
    fleet.link(leader, up=False)
    seconds = commit(fleet, "0.25", *(name for name in SERVERS if name != leader))
    print(f"commit possible again {seconds:.1f} s after the partition")
    assert seconds < 10
    # Who had asked the one that is cut off notices by the probes, of 5 and 10 s.
    everywhere(fleet, "0.25", 60)
    fleet.link(leader, up=True)
    wait_for("the server follows", lambda: "0.25" in fleet.client(
        "dump", "ACDC_Fleet", "Tenant", "beta", server=leader), 20)  # fmt: skip


def test_the_relay_is_killed(fleet: Fleet) -> None:
    """Agents go on with the servers that are also in acdc-fleet-remote."""
    fleet.kill("relay")
    fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=hosts")
    everywhere(fleet, "0.25")


def test_an_agent_is_killed_in_a_transaction(fleet: Fleet) -> None:
    host = fleet.hosts[0]
    for i in range(6):
        beta, gain = (("0.25", "0.25"), ("0.5", "0.5"))[i % 2]
        fleet.ctl("tenant", "set", "blue", f"beta={beta}", f"gain={gain}")
        time.sleep(0.02 * i)
        host.stop_agent(signal.SIGKILL)
        found = host.vsctl("get", "acdc", "blue", "beta", "gain").split()
        assert found in (["0.25", "0.25"], ["0.5", "0.5"], ["0.5", "[]"])
        host.start_agent()
    wait_for("the last one", lambda: host.vsctl("get", "acdc", "blue", "gain") == "0.5")


def test_a_database_is_converted_in_a_transaction() -> None:
    """The agent does not wait for it for ever."""
    agent: Any = Agent("unix:/nonexistent")
    agent.local = SimpleNamespace(outdated=True, close=lambda: None)
    agent.transaction, agent.seen = object(), (1,)
    with pytest.raises(ConnectionError):
        agent.connect()
    assert (agent.local, agent.transaction, agent.seen) == (None, None, ())


def test_remotes_with_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As somebody types them after commas."""
    asked: list[str] = []

    def asks(remotes: list[str], *_: str) -> None:
        asked.extend(remotes)
        raise ConnectionError

    monkeypatch.setattr("acdc_fleet.agent.call", asks)
    ids = {"system-id": "h", "acdc-fleet-report": "ssl:b:1, ssl:c:1",
           "acdc-fleet-remote": " ssl:a:2, ssl:b:1,\tssl:c:1,"}  # fmt: skip
    rows = {0: SimpleNamespace(external_ids=ids)}
    agent: Any = Agent("unix:/nonexistent")
    agent.local = SimpleNamespace(
        outdated=False,
        ready=True,
        has_lock=True,
        tables={"Open_vSwitch": SimpleNamespace(rows=rows)},
    )
    with pytest.raises(ConnectionError):
        agent.connect()
    assert asked[0] == "ssl:a:2" and sorted(asked[1:]) == ["ssl:b:1", "ssl:c:1"]
    assert agent.remotes["acdc-fleet-report"] == "ssl:b:1,ssl:c:1"


def test_the_centre_is_away(fleet: Fleet) -> None:
    """Agent and switch start again meanwhile; policy and connections are as they were."""
    host = fleet.hosts[1]
    fleet.link("site", up=False)
    before = host.vsctl("--columns=_uuid,beta,external_ids", "list", "acdc")
    commit(fleet, "0.25", fleet.leader())
    host.stop_agent(signal.SIGKILL)
    host.start_agent()
    host.ovs.restart_vswitchd()
    time.sleep(2)
    assert host.agent is not None and host.agent.poll() is None
    assert host.vsctl("--columns=_uuid,beta,external_ids", "list", "acdc") == before
    (row,) = host.ovs.acdc("show", "blue")["tenants"]
    assert row["params"]["beta"] == 0.5
    fleet.link("site", up=True)
    everywhere(fleet, "0.25", 60)


def test_certificates(fleet: Fleet) -> None:
    """With an expired one, and with another host's, the host keeps what it has."""
    host = fleet.hosts[2]
    host.stop_agent()
    fleet.pki.expired("late")
    before = len(host.log())
    host.start_agent(keys="late")
    # It has asked each of the four servers.
    wait_for("what the agent says", lambda: "ssl:10.0.0" in host.log()[before:], 60)
    fleet.ctl("tenant", "set", "blue", "beta=0.25")
    time.sleep(1.5)
    assert host.beta() == "0.5"
    assert fleet.ctl_json("status")["behind"] == [host.name]
    host.stop_agent()
    # It may read, not write: its certificate says that it is host-3.
    host.start_agent(keys="host-3")
    wait_for("the change", lambda: host.beta() == "0.25")
    wait_for("what the agent says", lambda: "permission error" in host.log())
    assert fleet.ctl_json("status")["behind"] == [host.name]
    host.stop_agent()
    host.start_agent()
    wait_for("the acknowledgement", lambda: not fleet.ctl_json("status")["behind"], 20)


def test_two_agents_of_one_database(fleet: Fleet) -> None:
    """The second one waits until the first is gone."""
    host = fleet.hosts[0]
    first, host.agent = host.agent, None
    assert isinstance(first, subprocess.Popen)
    before = len(host.log())
    host.start_agent()
    wait_for("the second", lambda: "another acdc-agent of this database" in host.log()[before:])
    fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=hosts")
    first.kill()
    first.wait(10)
    fleet.ctl("tenant", "set", "blue", "beta=0.75", "--wait=hosts")
    assert host.beta() == "0.75"


def test_two_hosts_of_one_name(fleet: Fleet) -> None:
    """As after a clone of a virtual machine.  They write ever less often."""
    host, clone = fleet.hosts[:2]
    clone.stop_agent()
    clone.vsctl("set", "open_vswitch", ".", f"external_ids:system-id={host.name}")
    # What only one of them has to report.
    clone.vsctl("create", "acdc", "name=red")
    fleet.ctl("tenant", "set", "red")
    before = len(host.log())
    said = f"another host reports as {host.name}"
    try:
        clone.start_agent(keys=host.name)
        # Each waits for 2 s and the jitter before it writes again.
        wait_for("what it says", lambda: said in host.log()[before:], 60)
    finally:
        clone.stop_agent()
        clone.vsctl("set", "open_vswitch", ".", f"external_ids:system-id={clone.name}")
        clone.vsctl("destroy", "acdc", "red")
        clone.start_agent()


def test_a_database_of_the_version_before(fleet: Fleet) -> None:
    """Of a host, under an agent that knows more.  The switch waits for its columns."""
    host = fleet.hosts[0]
    client = [fleet.env["OVSDB_CLIENT"], "convert", f"unix:{host.ovs.rundir}/db.sock"]
    new = Path(fleet.env["OVS_SCHEMA"])
    schema = json.loads(new.read_text())
    del schema["tables"]["ACDC"]["columns"]["bind"]
    schema["version"] = "8.0.0"
    old = fleet.dir / "old.ovsschema"
    old.write_text(json.dumps(schema))
    subprocess.run([*client, old], check=True)
    fleet.ctl("tenant", "set", "blue", "beta=0.25")
    everywhere(fleet, "0.25")
    fleet.ctl("bind", "blue", "port-profile=blue")
    said = f"host {host.name}: this Open vSwitch has no column bind in ACDC"
    wait_for("the problem", lambda: said in fleet.run_ctl("status").stdout, 20)
    subprocess.run([*client, new], check=True)
    wait_for("selectors", lambda: host.get("acdc", "blue", "bind") == '["port-profile=blue"]', 20)


def test_schema_upgrade_under_load(fleet: Fleet) -> None:
    """Agents and operators go on; hosts without the new column say so once it is used."""
    new = schema()
    major, minor, _ = new["version"].split(".")
    new["version"] = f"{major}.{int(minor) + 1}.0"
    columns = new["tables"]["Tenant"]["columns"]
    columns["hue"] = {"type": {"key": "string", "min": 0}}
    columns["gain"]["type"]["key"]["maxReal"] = 8
    path = fleet.dir / "new.ovsschema"
    path.write_text(json.dumps(new))
    # Servers' own table of databases keeps the old schema, relays' does not.
    host = fleet.hosts[4]
    host.vsctl("set", "open_vswitch", ".", f'external_ids:acdc-fleet-remote="{fleet.remote}"')
    for i in range(6):
        fleet.ctl("tenant", "set", "blue", f"beta={('0.25', '0.75')[i % 2]}")
        if i == 2:
            fleet.client("convert", str(path), server=fleet.leader())
    everywhere(fleet, "0.75", 60)
    done = fleet.run_ctl("tenant", "set", "blue", "hue=azure", "--wait=database")
    assert "this Open vSwitch has no column hue in ACDC" in done.stdout
    everywhere(fleet, "0.75")
    # A value that hosts' schema does not allow: they keep the tenant as it was, and are quiet.
    fleet.ctl("tenant", "set", "blue", "gain=3", "beta=0.25")
    said = "blue: gain: constraint violation: 3 is not in the valid range"
    everyone = f"problem: hosts {', '.join(host.name for host in fleet.hosts[:5])} and 1 more: "

    def all_say_so() -> bool:
        lines = fleet.run_ctl("status").stdout.splitlines()
        return any(line.startswith(everyone) and said in line for line in lines)

    wait_for("all hosts say so", all_say_so, 20)
    assert {host.vsctl("get", "acdc", "blue", "beta", "gain") for host in fleet.hosts} == {
        "0.75\n[]"}  # fmt: skip
    assert len(fleet.ctl_json("status")["behind"]) == 6
    before = [host.get("open_vswitch", ".", "next_cfg") for host in fleet.hosts]
    time.sleep(1)
    assert [host.get("open_vswitch", ".", "next_cfg") for host in fleet.hosts] == before
