# SPDX-License-Identifier: Apache-2.0

"""What an operator's command is told too late, or never: replies, interrupts, conversions."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ovs.db.idl import Transaction

from acdc_fleet import rollout
from acdc_fleet.centre import Centre
from acdc_fleet.ctl import Command
from acdc_fleet.transport import transact
from acdc_ovs.programs import read_env
from acdc_testlib.fleet import CTL, Fleet, schema
from acdc_testlib.netns import wait_for

send = Transaction.commit
wait = Centre.wait


def lose_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the next transaction: the connection ends when it is done, as with a server that dies."""

    def sends(transaction: Any) -> str:  # noqa: ANN401
        monkeypatch.setattr(Transaction, "commit", send)
        status = str(send(transaction))
        time.sleep(0.5)
        transaction.idl.force_reconnect()
        return status

    monkeypatch.setattr(Transaction, "commit", sends)


def test_a_reply_is_lost(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done is done, and no error."""
    fleet.ctl("tenant", "set", "red", "beta=1")
    fleet.ctl("rule", "add", "red", "1", "")
    fleet.ctl("group", "set", "g", "role=canary", "--stage=1")
    fleet.ctl("host", "label", "host-0", "role=canary")
    for words in (
        ("rule", "del", "red", "1", ""),
        ("tenant", "del", "red"),
        ("tenant", "set", "blue", "beta=0.25", "--staged", "--soak=0"),
        ("group", "del", "g"),
    ):
        before = fleet.ctl_json("status")["current"]
        lose_reply(monkeypatch)
        reply = fleet.ctl_json(*words)
        assert reply.get("exit_status", 0) == 0, reply
        if words[0] == "group":
            assert reply["deleted"] == "g"
        else:
            assert reply["revision"] == before + 1 and reply["diff"]
        assert fleet.ctl_json("status")["current"] == reply.get("revision", before)
    fleet.ctl("init", "--listen=pssl:6660")
    lose_reply(monkeypatch)
    assert fleet.ctl_json("init", "--remove=pssl:6660")["listen"] == ["pssl:6651"]


def test_the_last_reply_of_a_rollout_is_lost(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.ctl("group", "set", "g", "role=canary", "--stage=1")
    fleet.ctl("host", "label", "host-0", "role=canary")
    sets = rollout._set

    def last(centre: Centre, number: int, **columns: object) -> None:
        if "current" in columns:
            lose_reply(monkeypatch)
        sets(centre, number, **columns)

    monkeypatch.setattr(rollout, "_set", last)
    reply = fleet.ctl_json("tenant", "set", "blue", "beta=0.25", "--staged", "--soak=0")
    assert reply["exit_status"] == 0, reply
    assert fleet.ctl_json("status")["current"] == reply["revision"]


def test_ctrl_c_before_the_reply(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The revision is made, and nobody knows of it."""

    def waits(centre: Centre, *words: Any, **more: Any) -> None:  # noqa: ANN401
        if "txn" in more:
            raise KeyboardInterrupt
        wait(centre, *words, **more)

    before = fleet.ctl_json("status")["current"]
    monkeypatch.setattr(Centre, "wait", waits)
    done = fleet.run_ctl("tenant", "set", "blue", "beta=0.25")
    monkeypatch.setattr(Centre, "wait", wait)
    wait_for("the revision", lambda: fleet.ctl_json("status")["current"] == before + 1)
    assert done.returncode == 130
    assert "it is not known whether the change is made" in done.stderr


def test_ctrl_c_while_it_prints(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a pager, for instance."""
    tell = Command.tell

    def tells(command: Command, text: str) -> None:
        monkeypatch.setattr(Command, "tell", tell)
        raise KeyboardInterrupt

    monkeypatch.setattr(Command, "tell", tells)
    said = fleet.run_ctl("tenant", "set", "blue", "beta=0.25").stderr
    number = fleet.ctl_json("status")["current"]
    assert f"interrupted: revision {number} is made, and reaches the hosts" in said


def test_another_changes_what_is_rolled_back(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was read, and before it is written."""

    def sends(transaction: Any) -> str:  # noqa: ANN401
        monkeypatch.setattr(Transaction, "commit", send)
        fleet.ctl("tenant", "set", "red", "beta=1")
        return str(send(transaction))

    fleet.ctl("tenant", "set", "blue", "beta=0.25")
    monkeypatch.setattr(Transaction, "commit", sends)
    done = fleet.run_ctl("rollback")
    assert fleet.ctl_json("tenant", "list").keys() == {"blue", "red"}
    assert done.returncode == 1 and "was made meanwhile" in done.stderr
    number = str(fleet.ctl_json("log")[1]["revision"])
    monkeypatch.setattr(Transaction, "commit", sends)
    fleet.ctl("rollback", number)


def test_ctrl_c_after_the_stages(fleet: Fleet) -> None:
    """The roll-out is done then."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    fleet.hosts[5].stop_agent()
    before = fleet.ctl_json("status")["current"]
    words = ["tenant", "set", "blue", "beta=0.25", "--staged", "--soak=0"]
    child = subprocess.Popen([*CTL, f"--db={fleet.db}", *words], stderr=subprocess.PIPE, text=True)
    wait_for("the revision", lambda: fleet.ctl_json("status")["current"] == before + 1)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=10)[1]
    assert child.returncode == 130
    assert fleet.ctl_json("status")["staged"] is None
    end = f"interrupted: revision {before + 1} is made, and reaches the hosts\n"
    assert said == f"acdc-fleetctl: {end}"


def test_the_database_is_converted_in_a_rollout(fleet: Fleet) -> None:
    """It goes on."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    fleet.hosts[0].stop_agent()
    words = ["tenant", "set", "blue", "beta=0.25", "--staged", "--soak=0", "--timeout=20"]
    child = subprocess.Popen([*CTL, f"--db={fleet.db}", *words], stderr=subprocess.PIPE, text=True)
    wait_for("the stage", lambda: fleet.ctl_json("status")["stages"] == ["canary"])
    time.sleep(0.5)
    schema = fleet.dir / "same.ovsschema"
    schema.write_text(fleet.client("get-schema", "ACDC_Fleet"))
    fleet.client("convert", str(schema), server=fleet.leader())
    fleet.hosts[0].start_agent()
    wait_for("the canary", lambda: fleet.hosts[0].beta() == "0.25", 20)
    said = child.communicate(timeout=40)[1]
    assert (child.returncode, said) == (0, ""), said


def test_an_abort_that_a_switch_does_not_take(fleet: Fleet) -> None:
    """What was aborted is in force there."""
    host = fleet.hosts[0]
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    fleet.hosts[1].stop_agent()
    words = ("--staged", "--soak=0", "--timeout=3")
    fleet.ctl("host", "label", "host-1", "role=second")
    fleet.ctl("group", "set", "second", "role=second", "--stage=2")
    assert fleet.run_ctl("tenant", "set", "blue", "beta=0.25", *words).returncode == 3
    fleet.hosts[1].start_agent()
    host.ovs.stop_vswitchd()
    fleet.ctl("rollout", "abort")
    said = {"host-0": ["ovs-vswitchd has not taken the revision in the database"]}
    wait_for("the problem", lambda: fleet.ctl_json("status")["problems"] == said, 20)
    behind = fleet.ctl_json("status")["behind"]
    host.ovs.start_vswitchd()
    assert behind == ["host-0"]


def test_the_reply_to_an_abort_is_lost(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.ctl("group", "set", "g", "role=canary", "--stage=1")
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.hosts[0].stop_agent()
    words = ("tenant", "set", "blue", "beta=0.25", "--staged", "--timeout=1")
    assert fleet.run_ctl(*words).returncode == 3
    staged = fleet.ctl_json("status")["staged"]
    lose_reply(monkeypatch)
    assert fleet.ctl_json("rollout", "abort")["aborted"] == staged
    assert fleet.ctl_json("status")["staged"] is None


def test_two_roll_out_together(fleet: Fleet) -> None:
    """Why one of them has stopped is of no interest when the other is done."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    host = fleet.hosts[0]
    host.vsctl("create", "acdc", "name=red")
    assert fleet.run_ctl("tenant", "set", "red", "--staged", "--soak=3").returncode == 3
    words = ["rollout", "resume", "--max-problems=1", "--soak=4"]
    other = subprocess.Popen([*CTL, f"--db={fleet.db}", *words])
    wait_for("the other", lambda: fleet.ctl_json("status")["stopped"] is None)
    assert fleet.run_ctl("rollout", "resume", "--soak=0").returncode == 3
    other.wait(30)
    status = fleet.ctl_json("status")
    host.vsctl("destroy", "acdc", "red")
    assert (status["staged"], status["stopped"]) == (None, None)


def test_a_group_that_is_gone(fleet: Fleet) -> None:
    """Its hosts go back, so the roll-out does not go on to all of them."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    words = ["tenant", "set", "blue", "beta=0.25", "--staged", "--soak=3"]
    for gone in (("group", "del", "canary"), ("host", "label", "host-0", "role=")):
        child = subprocess.Popen([*CTL, f"--db={fleet.db}", *words])
        wait_for("the canary", lambda: fleet.hosts[0].beta() == "0.25", 20)
        fleet.ctl(*gone)
        assert child.wait(20) == 1
        assert fleet.ctl_json("status")["staged"]
        fleet.ctl("rollout", "abort")
        fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")


def test_a_problem_that_comes_after_cur_cfg(fleet: Fleet) -> None:
    """ovs-vswitchd writes what it cannot do in a transaction of its own, the next one."""
    host = fleet.hosts[3]
    database = f"unix:{host.ovs.rundir}/db.sock"
    update = {"op": "update", "where": []}
    jitter = {"other_config": ["map", [["ack-jitter", "0"]]]}
    fleet.client("transact", json.dumps(["ACDC_Fleet", update | {"table": "Fleet", "row": jitter}]))
    host.ovs.stop_vswitchd()
    words = ["tenant", "set", "blue", "beta=0.25", "--wait=hosts"]
    child = subprocess.Popen([*CTL, f"--db={fleet.db}", *words])
    wait_for("the revision", lambda: host.beta() == "0.25")
    time.sleep(0.5)
    row: dict[str, object] = {"cur_cfg": int(host.get("open_vswitch", ".", "next_cfg"))}
    transact(database, "Open_vSwitch", update | {"table": "Open_vSwitch", "row": row})
    time.sleep(0.02)
    row = {"status": ["map", [["error", "of some kind"]]]}
    transact(database, "Open_vSwitch", update | {"table": "ACDC", "row": row})
    status = child.wait(20)
    host.ovs.start_vswitchd()
    jitter["other_config"] = ["map", []]
    fleet.client("transact", json.dumps(["ACDC_Fleet", update | {"table": "Fleet", "row": jitter}]))
    assert status == 3


def test_a_switch_that_others_change(fleet: Fleet) -> None:
    """All the time, so that it is never done.  The revision is in force all the same."""
    host = fleet.hosts[2]
    host.ovs.stop_vswitchd()
    ended = threading.Event()

    def change() -> None:
        number = int(host.get("open_vswitch", ".", "next_cfg")) + 1000
        while not ended.wait(0.1):
            number += 1
            row = {"next_cfg": number, "cur_cfg": number - 1}
            update = {"op": "update", "table": "Open_vSwitch", "where": [], "row": row}
            transact(f"unix:{host.ovs.rundir}/db.sock", "Open_vSwitch", update)

    others = threading.Thread(target=change)
    others.start()
    try:
        fleet.ctl("tenant", "set", "blue", "beta=0.25", "--wait=hosts", "--timeout=15")
        time.sleep(6)
        assert not fleet.ctl_json("status")["problems"]
    finally:
        ended.set()
        others.join()
        host.ovs.start_vswitchd()


def test_two_fill_a_new_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both with success.  It has one row of Fleet, and all listeners."""
    (tmp_path / "schema").write_text(json.dumps(schema()))
    programs = read_env()
    subprocess.run(
        [programs["OVSDB_TOOL"], "create", tmp_path / "db", tmp_path / "schema"], check=True
    )
    command = [programs["OVSDB_SERVER"], f"--remote=punix:{tmp_path}/sock", "--unixctl=none"]
    first = Centre._first

    def overtaken(centre: Centre, transaction: Transaction) -> Any:  # noqa: ANN401
        """The other's is done when this one sends what it does."""
        monkeypatch.setattr(Centre, "_first", first)
        other.init([], ["pssl:6652"], [])
        return first(centre, transaction)

    with subprocess.Popen([*command, tmp_path / "db"]) as server:
        try:
            remote = f"unix:{tmp_path}/sock"
            centre, other = Centre(remote), Centre(remote)
            monkeypatch.setattr(Centre, "_first", overtaken)
            centre.init(["pssl:6651"], [], [])
            (fleet,) = centre.rows("Fleet")
            found = [row.target for row in (*fleet.connections, *fleet.relays)]
        finally:
            server.kill()
    assert found == ["pssl:6651", "pssl:6652"]
