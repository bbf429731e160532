# SPDX-License-Identifier: Apache-2.0

"""acdc-fleetctl at a prompt and in scripts: arguments, JSON, exit codes, what is asked for twice."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from acdc_fleet import centre
from acdc_fleet.arguments import build
from acdc_testlib.fleet import CTL, ROOT, SERVERS, Fleet
from acdc_testlib.netns import wait_for

NONSENSE = ["rule", "add", "blue", "1", "nonsense"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rule", "add", "blue", "70000", ""], 'PRIORITY: "70000" is not allowed; allowed is an in'),
        (["rule", "add", "blue", "-1", ""], '"-1" is not allowed; allowed is an integer from 0 to 655'),
        (["group", "set", "g", "--stage=0"], '"0" is not allowed; allowed is an integer from 1 to 10'),
        (["group", "set", "g", "--stage=x"], "from 1 to 1000, or none"),
        (["init", "--listen=6651"], '"6651" is not allowed; allowed are pssl:PORT[:ADDRESS]'),
        (["tenant", "set", "x", "--timeout=nan"], '"nan" is not allowed; allowed are 0.1 to 86400 s'),
        (["tenant", "set", "x", "--soak=-1"], '"-1" is not allowed; allowed are 0 to 86400 seconds'),
        (["--db=a", "status"], '"a" is not allowed; allowed are unix:FILE, ssl:ADDRESS:PORT and tcp'),
        (["tenant", "sett", "x"], "invalid choice: 'sett' (choose from 'set', 'unset', 'del', 'list')"),
    ],
)  # fmt: skip
def test_wrong_arguments(running: Fleet, words: list[str], said: str) -> None:
    before = running.ctl("log"), running.ctl("group", "list")
    done = running.run_ctl(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert (running.ctl("log"), running.ctl("group", "list")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tenant", "set", "blue", "beta=inf"], 'beta: "inf" is not allowed; allowed is a number fro'),
        (["tenant", "set", "blue", "beta:x=1"], "beta:x: only other_config has keys"),
        (["tenant", "set", "blue", "beta=0", "beta=1"], "beta=1: beta is there twice"),
        (["tenant", "set", ""], 'name: "" is not allowed; allowed is a string of 1 to 63 characters'),
        (["tenant", "set", 64 * "x", "--dry-run"], "allowed is a string of 1 to 63 characters"),
        (["tenant", "set", "blue", "bind=a=b"], "selectors are those of acdc-fleetctl bind"),
        (["tenant", "unset", "blue", "betta"], "there is no column betta; allowed are: algorithm b"),
        (["group", "set", "", "a=b"], 'name: "" is not allowed; allowed is a string that is not empty'),
        (["unbind", "blue", "a=b"], "tenant blue has no selector a=b; there are: none"),
        (["init", "--remove=pssl:1"], "there is no listener pssl:1; there are: pssl:66"),
        (["tenant", "set", "blue", "beta=1", "--staged"], "no group has a stage: acdc-fleetctl group"),
    ],
)  # fmt: skip
def test_refused(running: Fleet, words: list[str], said: str) -> None:
    """Also what an IDL's row would silently leave as it was."""
    running.ctl("tenant", "set", "blue")
    before = running.ctl("log"), running.ctl("group", "list")
    reply = running.run_ctl(*words, "--json")
    assert reply.returncode == 1
    assert said in reply.stderr
    assert said in json.loads(reply.stdout)["error"]
    assert (running.ctl("log"), running.ctl("group", "list")) == before


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tenant set blue --dry-run beta=1", {"name": "blue", "settings": ["beta=1"]}),
        ("tenant set blue a=1 --wait hosts b=2", {"settings": ["a=1", "b=2"], "wait": "hosts"}),
        ("rule add blue 1 x --staged beta=1", {"match": "x", "settings": ["beta=1"]}),
        ("--json group set g --stage=1 a=b c=d", {"labels": ["a=b", "c=d"], "json": True}),
        ("diff 1 --json 2", {"old": 1, "to": 2, "json": True}),
    ],
)
def test_options_between_arguments(words: str, found: dict[str, object]) -> None:
    assert vars(build().parse_args(words.split())).items() >= found.items()


def test_manual() -> None:
    """It has every command, and every option."""
    page = (ROOT / "docs/man/acdc-fleetctl.8.rst").read_text()
    commands = set()

    def walk(parser: argparse.ArgumentParser, name: str) -> None:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, inner in action.choices.items():
                    walk(inner, f"{name} {word}".strip())
                return
            for option in action.option_strings:
                assert f"{option} " in page or f"``{option}``" in page or f"{option}\n" in page
        commands.add(name)

    walk(build(), "")
    assert len(commands) > 20
    for name in commands:
        assert f"``{name}``" in page, name


def test_every_command_has_json(fleet: Fleet) -> None:
    """After the command as well as before it."""
    for words in (
        ["tenant", "set", "blue", "beta=0.25"],
        ["tenant", "set", "blue", "beta=0.5"],
        ["bind", "blue", "a=b"],
        ["unbind", "blue", "a=b"],
        ["tenant", "list"],
        ["diff"],
        ["log"],
        ["status"],
        ["init"],
        ["host", "list"],
        ["host", "label", "host-0", "rack=7"],
        ["group", "set", "g", "rack=7", "--stage=1"],
        ["group", "list"],
        ["group", "del", "g"],
    ):
        done = fleet.run_ctl(*words, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout), words
    data = fleet.ctl_json("diff")
    assert data["to"] == fleet.ctl_json("status")["current"]
    assert data["before"]["blue"].keys() - data["after"]["blue"].keys() == {"bind"}
    assert fleet.ctl_json("init")["listen"] == ["pssl:6651"]


def test_twice_is_once(fleet: Fleet) -> None:
    """What is so already, or gone already, is no error in scripts."""
    fleet.ctl("tenant", "set", "red", "beta=0.5")
    for words in (
        ["tenant", "unset", "red", "beta"],
        ["tenant", "del", "red", "--if-exists"],
        ["rule", "del", "blue", "1", "", "--if-exists"],
        ["unbind", "blue", "a=b", "--if-exists"],
        ["group", "set", "g", "rack=7", "--stage=1"],
        ["group", "set", "g", "--stage=none"],
        ["group", "del", "g", "--if-exists"],
        ["host", "del", "nobody", "--if-exists"],
        ["init", "--listen=pssl:6651"],
    ):
        for _ in range(2):
            fleet.ctl(*words)
        if words[-1] == "--if-exists" and "nobody" not in words:
            name = {"tenant": "no tenant", "rule": "no rule", "unbind": "no selector"}
            said = fleet.run_ctl(*words[:-1]).stderr
            assert name.get(words[0], "no group") in said


def test_a_rule_for_all_twice(fleet: Fleet) -> None:
    """Whose match is empty."""
    fleet.ctl("rule", "add", "blue", "1", "")
    assert "nothing changes" in fleet.ctl("rule", "add", "blue", "1", "")


def test_what_is_so_already_is_waited_for(fleet: Fleet) -> None:
    fleet.hosts[4].stop_agent()
    words = ("tenant", "set", "blue", "beta=0.75")
    fleet.ctl(*words)
    done = fleet.run_ctl(*words, "--wait=hosts", "--timeout=2")
    assert "nothing changes" in done.stdout
    assert done.returncode == 4 and "within 2 s: host-4" in done.stderr
    assert fleet.run_ctl(*words, "--wait=hosts", "--dry-run").returncode == 0
    fleet.hosts[4].start_agent()
    fleet.ctl(*words, "--wait=hosts")
    assert {host.beta("blue") for host in fleet.hosts} == {"0.75"}


def test_an_operator_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert centre._user() == "54321"


def test_listeners_come_and_go(fleet: Fleet) -> None:
    assert fleet.ctl_json("init", "--relay=pssl:6660")["relay"] == ["pssl:6652", "pssl:6660"]
    assert "for the other purpose" in fleet.run_ctl("init", "--listen=pssl:6660").stderr
    moved = fleet.ctl_json("init", "--remove=pssl:6660", "--listen=pssl:6660")
    assert (moved["listen"], moved["relay"]) == (["pssl:6651", "pssl:6660"], ["pssl:6652"])
    assert fleet.ctl_json("init", "--remove=pssl:6660")["listen"] == ["pssl:6651"]


def test_a_stage_without_hosts(fleet: Fleet) -> None:
    """Its roll-out would begin with all hosts."""
    fleet.ctl("group", "set", "canary", "role=typo", "--stage=1")
    before = fleet.ctl("log")
    done = fleet.run_ctl("tenant", "set", "blue", "beta=1", "--staged")
    assert done.returncode == 1
    assert "group canary, stage 1, has no hosts: no host has the labels role=typo" in done.stderr
    assert fleet.ctl("log") == before


def test_a_rollout_goes_on_when_the_problem_is_gone(fleet: Fleet) -> None:
    """Not before: what made it stop is no old problem."""
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    host, other = fleet.hosts[:2]
    host.vsctl("create", "acdc", "name=red")
    done = fleet.run_ctl("tenant", "set", "red", "beta=0.5", "--staged", "--soak=3", "--json")
    assert done.returncode == 3
    reply = json.loads(done.stdout)
    assert "one made by hand is here" in reply["error"] and reply["exit_status"] == 3
    assert reply["problems"] == {"host-0": ["tenant red: one made by hand is here, and stays"]}
    done = fleet.run_ctl("rollout", "resume", "--soak=0")
    assert done.returncode == 3
    assert other.beta("red") == ""
    host.vsctl("destroy", "acdc", "red")
    wait_for("no problem", lambda: not fleet.ctl_json("status")["problems"], 20)
    fleet.ctl("rollout", "resume", "--soak=0")
    assert {h.beta("red") for h in fleet.hosts} == {"0.5"}


def test_a_rollout_passes_as_many_problems_as_it_may(fleet: Fleet) -> None:
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    host, *others = fleet.hosts
    host.vsctl("create", "acdc", "name=red")
    words = ("tenant", "set", "red", "beta=0.5", "--staged", "--soak=3", "--max-problems=1")
    done = fleet.run_ctl(*words)
    assert done.returncode == 3 and "one made by hand is here" in done.stdout
    assert {h.beta("red") for h in others} == {"0.5"}
    assert "stopped" not in fleet.run_ctl("status").stdout
    host.vsctl("destroy", "acdc", "red")


def test_a_rollout_goes_on_where_it_was(fleet: Fleet) -> None:
    """Hosts of later stages keep the revision while the first stage soaks again."""
    for name, label in (("host-0", "role=canary"), ("host-1", "role=second")):
        fleet.ctl("host", "label", name, label)
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    fleet.ctl("group", "set", "second", "role=second", "--stage=2")
    host = fleet.hosts[1]
    host.vsctl("create", "acdc", "name=red")
    words = ("tenant", "set", "red", "beta=0.5", "--staged", "--soak=3")
    assert fleet.run_ctl(*words).returncode == 3
    assert fleet.ctl_json("status")["stages"] == ["canary", "second"]
    host.vsctl("destroy", "acdc", "red")
    wait_for("no problem", lambda: not fleet.ctl_json("status")["problems"], 20)
    assert host.beta("red") == "0.5"
    seen = set()
    resume = subprocess.Popen([*CTL, f"--db={fleet.db}", "rollout", "resume", "--soak=2"])
    while resume.poll() is None:
        seen.add((*fleet.ctl_json("status")["stages"], host.beta("red")))
    assert resume.returncode == 0
    assert seen <= {("canary", "second", "0.5"), ("0.5",)}
    assert ("canary", "second", "0.5") in seen


def test_problems_of_many_hosts_are_one_line(fleet: Fleet) -> None:
    done = fleet.run_ctl(*NONSENSE, "--wait=hosts")
    assert done.returncode == 3
    (line,) = (text for text in done.stdout.splitlines() if text.startswith("problem: "))
    assert line.startswith("problem: hosts host-0, host-1, host-2, host-3, host-4 and 1 more: ten")
    assert line in fleet.run_ctl("status").stdout
    done = fleet.run_ctl("rollback", "--wait=hosts")
    assert ", like revision " in done.stdout and not fleet.ctl_json("status")["problems"]


def test_ctrl_c_says_what_is_left(fleet: Fleet) -> None:
    fleet.ctl("host", "label", "host-0", "role=canary")
    fleet.ctl("group", "set", "canary", "role=canary", "--stage=1")
    words = ["tenant", "set", "blue", "beta=0.25", "--staged", "--soak=60"]
    child = subprocess.Popen([*CTL, f"--db={fleet.db}", *words], stderr=subprocess.PIPE, text=True)
    wait_for("the stage", lambda: fleet.ctl_json("status")["stages"] == ["canary"])
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=10)[1]
    assert child.returncode == 130
    number = fleet.ctl_json("status")["staged"]
    assert said == (
        f"acdc-fleetctl: interrupted: revision {number} is made; rollout resume, or rollout abort\n"
    )
    fleet.ctl("rollout", "abort")


def test_a_reader_that_goes_away(fleet: Fleet) -> None:
    """As any filter, and not as if the database were gone."""
    read, write = os.pipe()
    os.close(read)
    command = [*CTL, f"--db={fleet.db}", "log"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_nobody_answers(fleet: Fleet) -> None:
    """An error of the database is 1, and a lost cluster is named.  4 is hosts' alone."""
    done = fleet.run_ctl("--connect-timeout=1", "status", db=f"unix:{fleet.dir}/none")
    assert done.returncode == 1 and "No such file" in done.stderr
    late = fleet.dir / "late"
    threading.Timer(1, late.symlink_to, [fleet.db.removeprefix("unix:")]).start()
    assert fleet.run_ctl("status", db=f"unix:{late}").returncode == 0
    left = fleet.leader()
    for name in SERVERS:
        if name != left:
            fleet.kill(name)
    for words in (["status"], ["tenant", "set", "blue", "beta=1"]):
        started = time.monotonic()
        done = fleet.run_ctl(*words, "--connect-timeout=4")
        if words == ["status"] and done.returncode == 0:  # It has not noticed yet.
            continue
        assert done.returncode == 1, done.stdout
        assert "has lost the cluster" in done.stderr or "has not answered" in done.stderr
        assert time.monotonic() - started < 9
    wait_for("that it is noticed", lambda: "has lost the cluster: nothing can be read or changed"
             in fleet.run_ctl("status", "--connect-timeout=1").stderr, 20)  # fmt: skip


def test_over_the_network(running: Fleet) -> None:
    """With a certificate all can be read, and nothing of the policy be written."""
    program = [*CTL, *running.pki.options("operator")]
    for remote in (running.remote, running.relay_remote):
        words = [*program, f"--db={remote.split(',')[0]}"]
        assert "revision " in running.site.run(*words, "status", check=False)
        done = running.site.popen(*words, "tenant", "set", "x", stderr=subprocess.PIPE, text=True)
        said = done.communicate(timeout=20)[1]
        assert done.returncode == 1
        assert said.rstrip().endswith("; changes are made on a server, over its socket")


def test_an_agent_without_configuration(fleet: Fleet) -> None:
    """It says what it waits for, and begins when that is there."""
    host = fleet.hosts[4]
    host.stop_agent()
    host.vsctl("remove", "open_vswitch", ".", "external_ids", "acdc-fleet-remote")
    host.start_agent()
    said = "acdc-agent: Open_vSwitch external_ids:acdc-fleet-remote is not set\n"
    wait_for("the message", lambda: host.log().endswith(said))
    remote = f'external_ids:acdc-fleet-remote="{fleet.relay_remote}"'
    host.vsctl("set", "open_vswitch", ".", remote)
    fleet.ctl("tenant", "set", "blue", "beta=1", "--wait=hosts")


def test_an_agent_s_arguments() -> None:
    agent = ROOT / "utilities/acdc-agent"
    for words in (["--db", "foo"], ["--private-key", "/nonexistent"]):
        done = subprocess.run([agent, *words], capture_output=True, timeout=20, check=False)
        assert done.returncode == 2, done.stderr


def test_what_a_host_writes_is_text(fleet: Fleet) -> None:
    """A host may put anything into its row.  The operator's terminal does not obey it."""
    fleet.hosts[4].stop_agent()
    row = {"problems": "\x1b]0;owned\x07two\nlines"}
    update = {"op": "update", "table": "Host", "where": [["name", "==", "host-4"]], "row": row}
    fleet.client("transact", json.dumps(["ACDC_Fleet", update]))
    assert "problem: host host-4: ?]0;owned?two?lines\n" in fleet.run_ctl("status").stdout
