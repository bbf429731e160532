# SPDX-License-Identifier: Apache-2.0

"""Policy from the centre to hosts, and what operators are told."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ovs.db.idl import Transaction

from acdc_fleet import rollout
from acdc_fleet.centre import Centre, Policy
from acdc_fleet.transport import Failure
from acdc_testlib.fleet import CTL, ROOT, Fleet, Host
from acdc_testlib.netns import processor_seconds, wait_for


def policy(host: Host, tenant: str = "blue") -> dict[str, object]:
    """What ovs-vswitchd has."""
    (row,) = host.ovs.acdc("show", tenant)["tenants"] or [{"params": {}}]
    return dict(row["params"])


def test_a_change_is_in_force_everywhere(fleet: Fleet) -> None:
    reply = fleet.ctl_json("tenant", "set", "blue", "beta=0.25", "mode=observe", "--wait=hosts")
    assert reply["exit_status"] == 0
    assert reply["diff"] == ["  tenant blue", "-   beta=0.5", "+   beta=0.25", "+   mode=observe"]
    for host in fleet.hosts:
        assert (policy(host)["beta"], policy(host)["mode"]) == (0.25, "observe")
    rows = fleet.ctl_json("host", "list")
    assert {row["applied"] for row in rows} == {reply["revision"]}
    assert fleet.run_ctl("status").returncode == 0


def test_rules_and_selectors(fleet: Fleet) -> None:
    host = fleet.hosts[0]
    host.ovs.add_tap("br0", "vnet0")  # type: ignore[attr-defined]
    host.vsctl("set", "interface", "vnet0", "external_ids:port-profile=blue")
    fleet.ctl("bind", "blue", "port-profile=blue")
    fleet.ctl("rule", "add", "blue", "7", "remote=10.0.0.0/8", "beta=0", "--wait=hosts")
    (row,) = host.ovs.acdc("show", "blue")["tenants"]
    assert [port["name"] for port in row["ports"]] == ["vnet0"]
    assert [(r["priority"], r["match"]) for r in row["rules"]] == [(7, "remote=10.0.0.0/8")]
    fleet.ctl("rule", "del", "blue", "7", "remote=10.0.0.0/8")
    fleet.ctl("unbind", "blue", "port-profile=blue", "--wait=hosts")
    (row,) = host.ovs.acdc("show", "blue")["tenants"]
    assert (row["ports"], row["rules"]) == ([], [])


def test_many_rules(fleet: Fleet) -> None:
    """An agent looks at all of them whenever a count of connections changes, every 5 s."""
    host = fleet.hosts[0]

    def edit(policy: Policy) -> None:
        rules = [{"priority": i, "match": f"remote=10.0.{i}.0/24"} for i in range(256)]
        policy["blue"]["rules"] = rules[::-1]

    centre = Centre(fleet.db)
    centre.set_policy(edit, "many")
    centre.close()
    fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=hosts")
    assert host.get("acdc", "blue", "rules").count(",") == 255
    time.sleep(2)
    assert host.agent is not None
    before = processor_seconds(host.agent.pid)
    for i in range(5):
        host.vsctl("set", "acdc", "blue", f"external_ids:x={i}")
        time.sleep(1)
    assert processor_seconds(host.agent.pid) - before < 1


def test_never_half(fleet: Fleet) -> None:
    """Two columns that belong together are always of one revision."""
    host = fleet.hosts[1]
    fleet.ctl("tenant", "set", "blue", "beta=0.5", "gain=0.5", "--wait=hosts")
    words = [sys.executable, "-c", CHANGES, str(ROOT), fleet.db]
    changes = subprocess.Popen(words)
    seen = set()
    while changes.poll() is None:
        seen.add(host.vsctl("get", "acdc", "blue", "beta", "gain"))
    assert changes.returncode == 0
    assert len(seen) > 1
    for pair in seen:
        beta, gain = pair.split()
        assert beta == gain


CHANGES = """
import sys
sys.path.insert(0, sys.argv[1] + "/python")
from acdc_fleet.ctl import main
for i in range(8):
    value = ("0.25", "0.5")[i % 2]
    words = [f"beta={value}", f"gain={value}", "--wait=hosts"]
    assert main(["--db", sys.argv[2], "tenant", "set", "blue", *words]) == 0
"""


def test_a_hand_made_tenant_wins(fleet: Fleet) -> None:
    host, other = fleet.hosts[:2]
    host.vsctl("create", "acdc", "name=red", "beta=1")
    done = fleet.run_ctl("tenant", "set", "red", "beta=0.125", "--wait=database")
    assert done.returncode == 3
    problem = "tenant red: one made by hand is here, and stays"
    assert f"problem: host {host.name}: {problem}" in done.stdout
    assert (host.beta("red"), other.beta("red")) == ("1", "0.125")
    status = fleet.ctl_json("status")
    assert status["problems"] == {host.name: [problem]}
    host.vsctl("destroy", "acdc", "red")
    wait_for("the fleet's", lambda: host.beta("red") == "0.125")
    wait_for("no problem", lambda: not fleet.ctl_json("status")["problems"])
    # One that the fleet does not have is left alone.
    host.vsctl("create", "acdc", "name=own")
    fleet.ctl("tenant", "del", "red", "--wait=hosts")
    assert (host.get("acdc", "red", "name"), host.get("acdc", "own", "name")) == ("", "own")
    host.vsctl("destroy", "acdc", "own")


def test_edits_of_the_fleets_tenants_do_not_last(fleet: Fleet) -> None:
    host = fleet.hosts[2]
    host.vsctl("set", "acdc", "blue", "beta=1")
    wait_for("the fleet's value", lambda: host.beta() == "0.5")
    host.vsctl("destroy", "acdc", "blue")
    wait_for("the fleet's tenant", lambda: host.beta() == "0.5")


def test_of_another_fleet(fleet: Fleet) -> None:
    """A new, empty centre does not delete what hosts have."""
    host = fleet.hosts[3]
    own = host.get("open_vswitch", ".", "external_ids:acdc-fleet")
    ids = ("external_ids:acdc-fleet=1234", "external_ids:acdc-revision=999999")
    host.vsctl("set", "open_vswitch", ".", *ids)
    fleet.ctl("tenant", "set", "blue", "beta=1")
    said = f"this host is of fleet 1234, not of {own}"
    wait_for("the problem", lambda: fleet.ctl_json("status")["problems"] == {host.name: [said]})
    assert host.beta() == "0.5"
    # What it has is no revision of this fleet, whatever its number.
    done = fleet.run_ctl("tenant", "set", "blue", "beta=1", "--wait=hosts", "--timeout=2")
    assert (done.returncode, f"within 2 s: {host.name}\n" in done.stderr) == (4, True)
    host.vsctl("set", "open_vswitch", ".", f"external_ids:acdc-fleet={own}")
    wait_for("the change", lambda: host.beta() == "1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tenant", "set", "blue", "beta=7"], 'beta: "7" is not allowed; allowed is a number from 0'),
        (["tenant", "set", "blue", "betta=1"], "there is no column betta; allowed are: algorithm be"),
        (["tenant", "set", "blue", "mode=x"], '"x" is not allowed; allowed are: enforce observe'),
        (["tenant", "set", "blue", "police=maybe"], "allowed are: true false"),
        (["tenant", "set", "blue", "max_window=1.5"], "allowed is an integer from 0 to"),
        (["tenant", "del", "green"], 'there is no tenant "green"; there are: blue'),
        (["rule", "del", "blue", "1", "x"], 'tenant blue has no rule 1 "x"'),
        (["bind", "blue", "profile"], '"profile" is not KEY=VALUE, as in port-profile=blue'),
        (["host", "label", "nobody", "a=b"], 'there is no host "nobody"; there are: host-0, host-1'),
        (["rollback", "99999"], "there is no revision 99999; there are: "),
        (["rollout", "abort"], "no roll-out is under way"),
    ],
)  # fmt: skip
def test_errors(running: Fleet, words: list[str], said: str) -> None:
    """They name the bad value and the allowed ones, and nothing changes."""
    before = running.ctl("log")
    done = running.run_ctl(*words)
    assert done.returncode == 1
    assert said in done.stderr
    assert running.ctl("log") == before


def test_an_address_of_ovn_that_is_none(fleet: Fleet) -> None:
    """The host says so, and follows the fleet."""
    host = fleet.hosts[3]
    host.vsctl("set", "open_vswitch", ".", 'external_ids:ovn-remote="tcp:10.0.0.9"')
    fleet.ctl("bind", "blue", "a=b", "--logical")
    said = ["tcp:10.0.0.9: no logical ports are known yet"]
    wait_for("it", lambda: fleet.ctl_json("status")["problems"].get(host.name) == said, 15)
    fleet.ctl("unbind", "blue", "a=b", "--logical")
    host.vsctl("remove", "open_vswitch", ".", "external_ids", "ovn-remote")


def test_what_others_do_wakes_nobody(fleet: Fleet) -> None:
    """A thousand agents that hear of a thousand acknowledgements would be busy with that."""
    host = fleet.hosts[4]
    relay = fleet.relay_remote
    # Servers tell of each commit, relays do not.
    host.vsctl("set", "open_vswitch", ".", f'external_ids:acdc-fleet-remote="{fleet.remote}"')
    fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=hosts")
    assert host.agent is not None
    before = wakeups(host.agent.pid)
    for i in range(40):
        fleet.ctl("host", "label", "host-0", f"rack={i}")
    assert wakeups(host.agent.pid) - before < 20
    fleet.ctl("tenant", "set", "blue", "beta=0.5", "--wait=hosts")
    host.vsctl("set", "open_vswitch", ".", f'external_ids:acdc-fleet-remote="{relay}"')


def wakeups(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def test_a_jitter_that_is_none(fleet: Fleet) -> None:
    """Agents go on."""

    def write(value: str) -> None:
        row = {"other_config": ["map", [["ack-jitter", value]]]}
        update = {"op": "update", "table": "Fleet", "where": [], "row": row}
        fleet.client("transact", json.dumps(["ACDC_Fleet", update]), server=fleet.leader())

    for i, jitter in enumerate(("soon", "-5", "9" * 30, "1000")):
        write(jitter)
        fleet.ctl("tenant", "set", "blue", f"beta=0.{i}", "--wait=hosts")


def test_dry_run_and_wait(fleet: Fleet) -> None:
    before = fleet.ctl("log")
    for words in (
        ["tenant", "set", "blue", "beta=1"],
        ["tenant", "del", "blue"],
        ["bind", "blue", "a=b"],
    ):
        reply = fleet.ctl_json(*words, "--dry-run")
        assert reply["dry_run"] and len(reply["diff"]) > 0
        assert "would be for 6 hosts" in fleet.ctl(*words, "--dry-run")
    assert fleet.ctl("log") == before
    # Nothing new is no revision.
    assert "nothing changes" in fleet.ctl("tenant", "set", "blue", "beta=0.5")
    assert fleet.ctl("log") == before
    fleet.hosts[5].stop_agent()
    done = fleet.run_ctl("tenant", "set", "blue", "beta=1", "--wait=hosts", "--timeout=3")
    assert done.returncode == 4
    assert "1 of 6 hosts have not acknowledged revision" in done.stderr
    assert "within 3 s: host-5" in done.stderr
    assert fleet.ctl_json("status")["behind"] == ["host-5"]


def with_beta(beta: float) -> Callable[[Policy], None]:
    return lambda policy: policy["blue"].update(beta=beta)


def test_rollback(fleet: Fleet) -> None:
    number = fleet.ctl_json("status")["current"]
    fleet.ctl("tenant", "set", "red", "police=true")
    fleet.ctl("tenant", "set", "blue", "beta=1", "--message=louder")
    assert fleet.ctl("diff").splitlines() == ["  tenant blue", "-   beta=0.5", "+   beta=1"]
    (entry,) = (e for e in fleet.ctl_json("log") if e["state"] == "current")
    assert entry["comment"] == "louder"
    fleet.ctl("rollback", str(number), "--wait=hosts")
    assert fleet.ctl_json("tenant", "list") == {"blue": {"beta": 0.5, "rules": []}}
    assert {host.beta() for host in fleet.hosts} == {"0.5"}
    assert {host.beta("red") for host in fleet.hosts} == {""}


def test_two_operators_at_once(fleet: Fleet) -> None:
    """Neither's change is lost."""
    words = [f"t{i}" for i in range(4)]
    db = f"--db={fleet.db}"
    running = [subprocess.Popen([*CTL, db, "tenant", "set", name, "beta=1"]) for name in words]
    assert [process.wait(60) for process in running] == [0] * 4
    assert set(fleet.ctl_json("tenant", "list")) == {"blue", *words}


def test_another_is_faster(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a row was read, and before it is written or deleted."""
    send, commit = Transaction.commit, Centre.commit

    def sends(transaction: Transaction) -> str:
        monkeypatch.setattr(Transaction, "commit", send)
        fleet.ctl("host", "label", "host-0", "a=1")
        return str(send(transaction))

    def commits(centre: Centre, fill: Callable[[Transaction], None]) -> None:
        monkeypatch.setattr(Centre, "commit", commit)
        fleet.ctl("group", "del", "g")
        centre.wait(lambda: not centre.rows("Group"), "group g is there")
        commit(centre, fill)

    monkeypatch.setattr(Transaction, "commit", sends)
    fleet.ctl("host", "label", "host-0", "b=1")
    assert fleet.ctl_json("host", "list")[0]["labels"].keys() >= {"a", "b"}
    fleet.ctl("host", "label", "host-0", "a=", "b=")
    fleet.ctl("group", "set", "g", "rack=7")
    monkeypatch.setattr(Centre, "commit", commits)
    done = fleet.run_ctl("group", "del", "g")
    assert done.returncode == 1 and 'there is no group "g"' in done.stderr


def test_staged(fleet: Fleet) -> None:
    fleet.ctl("host", "label", "host-0", "rack=1", "role=canary")
    fleet.ctl("host", "label", "host-1", "rack=1")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    fleet.ctl("group", "set", "rack1", "rack=1", "--stage=2")
    assert [(g["name"], g["hosts"]) for g in fleet.ctl_json("group", "list")] == [
        ("canary", 1), ("rack1", 2)]  # fmt: skip
    out = fleet.ctl("tenant", "set", "blue", "beta=0.25", "--staged", "--soak=0.5")
    lines = [line for line in out.splitlines() if line.endswith("hosts")]
    assert lines[-4:-1] == ["canary: 1 hosts", "rack1: 2 hosts", "all: 6 hosts"]
    assert {host.beta() for host in fleet.hosts} == {"0.25"}


def test_a_rollout_stops(fleet: Fleet) -> None:
    """Hosts of the first stage report a problem; the others never see the revision."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    canary, *others = fleet.hosts
    revision = fleet.ctl_json("status")["current"]
    done = fleet.run_ctl("rule", "add", "blue", "1", "remote=nonsense", "--staged", "--soak=6")
    assert done.returncode == 3
    assert "1 new problems, such as host host-0: tenant blue: rule" in done.stderr
    assert "remote must be an IPv4 or IPv6 address or prefix" in done.stderr
    status = fleet.ctl_json("status")
    assert status["stages"] == ["canary"] and "new problems" in status["stopped"]
    time.sleep(1)
    for host in others:
        assert host.get("acdc", "blue", "rules") == "[]"
        assert host.get("open_vswitch", ".", "external_ids:acdc-revision") == str(revision)
    assert canary.get("acdc", "blue", "rules") != "[]"
    # Meanwhile nobody changes the policy without knowing of it.
    assert "is being rolled out" in fleet.run_ctl("tenant", "set", "x").stderr
    fleet.ctl("rollout", "abort")
    wait_for("the old policy", lambda: canary.get("acdc", "blue", "rules") == "[]")
    wait_for("no problem", lambda: fleet.run_ctl("status").returncode == 0, 20)
    states = {entry["revision"]: entry["state"] for entry in fleet.ctl_json("log")}
    assert states[revision] == "current"
    assert states[revision + 1] == "aborted"
    # And it comes to nobody as "the one before".
    fleet.ctl("tenant", "set", "green", "beta=1")
    assert fleet.ctl("diff").splitlines() == ["+ tenant green", "+   beta=1"]
    fleet.ctl("rollback", "--wait=hosts")
    assert fleet.ctl_json("tenant", "list") == {"blue": {"beta": 0.5, "rules": []}}


def test_a_later_revision_will_do(fleet: Fleet) -> None:
    """Who waits for the hosts has them also if another operator is faster than they."""
    centre = Centre(fleet.db)

    *_, number = centre.set_policy(with_beta(0.25), "one")
    *_, later = centre.set_policy(with_beta(0.75), "another")
    rollout.wait(centre, centre.hosts, later, "applied", 20)
    rollout.wait(centre, centre.hosts, number, "applied", 1)
    centre.close()


def test_a_difference_in_the_seventh_digit(fleet: Fleet) -> None:
    fleet.ctl("tenant", "set", "blue", "beta=0.1234568")
    out = fleet.ctl("tenant", "set", "blue", "beta=0.1234567", "--wait=hosts")
    assert "+   beta=0.1234567" in out
    assert "nothing changes" not in out


@pytest.mark.parametrize("applied", [True, False], ids=["soaking", "waiting"])
def test_a_rollout_that_someone_else_ended(fleet: Fleet, applied: bool) -> None:
    """Who rolled it out does not go on with the next one, which others have begun, nor wait for a
    host that has a later one."""
    host = fleet.hosts[0]
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    centre, other = Centre(fleet.db), Centre(fleet.db)
    told: list[str] = []

    def roll_out() -> None:
        _, _, number = centre.set_policy(with_beta(0.25), "one", staged=True)
        try:
            rollout.run(centre, timeout=20, soak=2, allowed=0, tell=told.append)
        except Failure as failure:
            told.append(str(failure).replace(str(number), "N"))

    if not applied:
        host.stop_agent()
    first = threading.Thread(target=roll_out, daemon=True)
    first.start()
    other.wait(lambda: other.staged is not None, "no roll-out")
    number = other.fleet.staged[0].number
    if applied:
        other.wait(lambda: other.find("Host", "host-0").applied == number, "not applied")
    rollout.abort(other)
    other.set_policy(with_beta(0.75), "another", staged=applied)
    if not applied:
        host.start_agent()
    first.join(15)
    assert told[-1] == "the roll-out of revision N was ended by someone else"
    if applied:
        other.wait(lambda: other.staged is not None, "another's roll-out is gone")
        assert {host.beta() for host in fleet.hosts} == {"0.5"}
    centre.close()
    other.close()


def test_agents_follow_the_relay(running: Fleet) -> None:
    """Not the servers, which are there for when it is away."""
    running.heal()
    for host in running.hosts:
        host.stop_agent()
        host.start_agent()
    port = running.relay_remote.split(",")[0].split(":")[-1]
    words = ("ss", "-Htn", "state", "established", "dport", "=", f":{port}")
    wait_for(
        "the agents", lambda: len(running.site.run(*words).splitlines()) == len(running.hosts), 20
    )


def test_an_agent_without_a_centre_sleeps(fleet: Fleet) -> None:
    """Also with a report that was not accepted.  And what is no remote does not end it."""
    fleet.heal()
    host = fleet.hosts[0]
    logged = len(host.log())
    report = host.get("open_vswitch", ".", "external_ids:acdc-fleet-report")
    relay = host.get("open_vswitch", ".", "external_ids:acdc-fleet-remote")
    try:
        host.vsctl("set", "open_vswitch", ".", "external_ids:acdc-fleet-report=tcp:127.0.0.1:1")
        fleet.ctl("tenant", "set", "blue", "beta=0.75")
        wait_for("a report that fails", lambda: "not acknowledged" in host.log()[logged:], 20)
        for remote in ("tcp:127.0.0.1", ""):
            host.vsctl("set", "open_vswitch", ".", f'external_ids:acdc-fleet-remote="{remote}"')
            time.sleep(2)
            assert host.agent is not None and host.agent.poll() is None
            before = processor_seconds(host.agent.pid)
            time.sleep(3)
            assert processor_seconds(host.agent.pid) - before < 0.3
    finally:
        for key, value in (("report", report), ("remote", relay)):
            host.vsctl("set", "open_vswitch", ".", f'external_ids:acdc-fleet-{key}="{value}"')
    fleet.await_hosts(len(fleet.hosts))


def test_certificates_say_who_writes(running: Fleet) -> None:
    """A host writes its own row, and nothing else."""

    def transact(host: str, **operation: object) -> str:
        words = ["--timeout=10", "transact", running.remote.split(",")[0]]
        request = json.dumps(["ACDC_Fleet", operation])
        client = running.env["OVSDB_CLIENT"]
        return running.site.run(client, *running.pki.options(host), *words, request, check=False)

    row = {"op": "update", "table": "Host", "where": [["name", "==", "host-0"]]}
    assert '"count":1' in transact("host-0", **row, row={"agent": "x"})
    assert "permission error" in transact("host-1", **row, row={"agent": "y"})
    assert "constraint violation" in transact("host-0", **row, row={"problems": "x" * 201})
    assert "constraint violation" in transact("host-0", **row, row={"agent": "x" * 64})
    assert "permission error" in transact("host-0", **row, row={"labels": ["map", [["a", "b"]]]})
    where = [["name", "==", "blue"]]
    refused = transact("host-0", op="update", table="Tenant", where=where, row={"beta": 1})
    assert "permission error" in refused
    refused = transact("host-0", op="delete", table="Host", where=[["name", "==", "host-1"]])
    assert "permission error" in refused
