# SPDX-License-Identifier: Apache-2.0

"""acdc-check on real switches: what it says, and its exit status."""

from __future__ import annotations

import functools
import json
import os
import runpy
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import pytest

from acdc_testlib.ovs import CommandError, Ovs
from acdc_testlib.traffic import Transfer
from acdc_testlib.wire import Conn, Wire
from observe.conftest import MARKED_PORT, B, Path

CHECK = File(__file__).resolve().parents[2] / "utilities/acdc-check"
OK, WARNING, CRITICAL, UNKNOWN = range(4)
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


def run(ovs: Ovs, *arguments: str | File) -> subprocess.CompletedProcess[str]:
    """In the namespace of the switch, whose qdiscs it looks at."""
    words = ovs.ns.command(CHECK, "--rundir", ovs.rundir, *arguments)
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def check(ovs: Ovs) -> dict[str, list[tuple[int, str]]]:
    """Findings by check."""
    done = run(ovs, "--json")
    reply = json.loads(done.stdout)
    assert STATES[done.returncode] == reply["state"] and done.returncode == reply["status"]
    found: dict[str, list[tuple[int, str]]] = {}
    for row in reply["checks"]:
        state = STATES.index(row["state"])
        found.setdefault(row["check"], []).append((state, row["message"]))
    return found


def wrong(ovs: Ovs) -> list[tuple[str, int]]:
    return [(name, s) for name, rows in check(ovs).items() for s, _ in rows if s != OK]


@pytest.fixture
def switch(ovs: Ovs) -> Iterator[Ovs]:
    """A guest's port that is bound: nothing is wrong."""
    ovs.add_bridge("br0")
    ovs.add_tap("br0", "vnet0")
    ovs.set_tenant("blue")
    ovs.bind("blue", "vnet0")
    yield ovs


def test_all_is_well(path: Path) -> None:
    with_marks = Transfer(path.a, path.b, B, port=MARKED_PORT, size=1 << 20)
    with_marks.finish()
    done = run(path.ovs)
    assert done.stdout.startswith("ACDC OK - 11 checks\n"), done.stdout
    assert done.returncode == 0
    found = check(path.ovs)
    assert found["exid"] == [(OK, "0xacdc")]
    assert found["tenants"] == [(OK, "blue: enforce, ports vnet0 vnet1")]
    assert "cuts by marks" in found["marks"][0][1]
    assert "with AC/DC at both ends, 0 fallback" in found["handshakes"][0][1]


def test_text_and_json_say_the_same(switch: Ovs) -> None:
    switch.set_global(**{"acdc-exid": 99999})
    switch.add_tap("br0", "vnet1")
    text, reply = run(switch), json.loads(run(switch, "--json").stdout)
    assert text.returncode == reply["status"] == WARNING
    first, *lines = text.stdout.splitlines()
    rows = reply["checks"]
    assert lines == [f"{row['state']:8} {row['check']}: {row['message']}" for row in rows]
    wrong = [f"{row['check']}: {row['message']}" for row in rows if row["state"] != "OK"]
    assert len(wrong) == 2
    assert first == f"ACDC WARNING - {'; '.join(wrong)}"


def test_nothing_was_changed(switch: Ovs) -> None:
    before = switch.acdc("show")
    run(switch)
    assert switch.acdc("show") == before


def test_guests_ports_without_a_tenant(switch: Ovs) -> None:
    """A tap is one; an uplink is not, unless a manager of guests has named it."""
    assert check(switch)["ports"] == [(OK, "all 1 guests' ports have a tenant")]
    switch.ns.run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "net0")
    switch.add_port("br0", "up0")
    assert wrong(switch) == []
    switch.add_tap("br0", "vnet1")
    assert check(switch)["ports"] == [(WARNING, "guests' ports without a tenant: vnet1")]
    switch.vsctl("set", "interface", "up0", "external_ids:iface-id=x")
    assert check(switch)["ports"] == [(WARNING, "guests' ports without a tenant: up0 vnet1")]
    switch.vsctl("set", "acdc", "blue", r'bind="iface-id=x"')
    assert check(switch)["ports"] == [(WARNING, "guests' ports without a tenant: vnet1")]


def test_no_tenant(switch: Ovs) -> None:
    switch.bind(None, "vnet0")
    found = check(switch)["tenants"]
    assert found == [(WARNING, "no port is bound to a tenant; tenants: blue")]


def test_settings_without_effect(switch: Ovs) -> None:
    switch.set_global(**{"acdc-exid": 99999})
    ((state, message),) = check(switch)["settings"]
    assert state == WARNING
    assert [message] == switch.acdc("show")["problems"]


def test_a_tenants_error_and_warning(switch: Ovs) -> None:
    switch.set_tenant("blue", **{"other_config:spread-cut": "true"})
    assert wrong(switch) == [("tenants", WARNING)]
    switch.set_tenant("blue", **{"other_config:spread-cut": None})
    with switch.change() as change:
        rows = [change.create("ACDC_Rule", match="remote=x", priority=1)]
        change.set(change.get("ACDC", "blue"), rules=rows)
    assert wrong(switch) == [("tenants", CRITICAL)]


def test_another_exid(switch: Ovs) -> None:
    switch.set_global(**{"acdc-exid": 0x1234})
    ((state, message),) = check(switch)["exid"]
    assert state == OK and message.startswith("0x1234, not the default")


def test_nobody_has_acdc_at_the_other_end(path: Path) -> None:
    path.ovs.set_tenant("green")
    path.ovs.bind("green", "vnet0")
    path.ovs.bind(None, "vnet1")
    try:
        path.transfer(5050, 1000)
        found = check(path.ovs)["handshakes"]
    finally:
        path.ovs.bind("blue", "vnet0", "vnet1")
        path.ovs.del_tenant("green")
    message = "green: none of 1 connections has found AC/DC at the other end"
    assert (WARNING, message) in found


def test_nothing_is_heard_of_what_a_guest_sends(ovs: Ovs) -> None:
    wire = Wire(ovs)
    wire.reset()
    conn = Conn(wire).open()
    assert check(ovs)["handshakes"] == [(OK, "blue: 1 with AC/DC at both ends, 0 fallback")]
    for _ in range(3):
        time.sleep(0.55)  # As a guest's timer.
        conn.guest_data(conn.mss)
    assert any(
        state == WARNING and message.startswith("blue: unheard is 1: nothing came back")
        for state, message in check(ovs)["handshakes"]
    )


def test_connections_that_are_not_tracked(ovs: Ovs) -> None:
    wire = Wire(ovs)
    wire.reset()
    wire.set(**{"other_config:max-half-open": 1})
    assert check(ovs)["table"] == [(OK, "netdev: 0 of 1048576 connections")]
    wire.egress(Conn(wire).guest_syn())
    wire.egress(Conn(wire).guest_syn())
    assert (WARNING, "blue: untouched_half_open is 1") in check(ovs)["table"]


def test_no_queue_here(switch: Ovs) -> None:
    """tests/lab/inside/check.py has some."""
    assert check(switch)["queues"] == [(OK, "nothing to say")]


@pytest.mark.parametrize("setting", [{"pace": True}, {"on_ramp": 30}], ids=["pace", "on_ramp"])
def test_what_holds_what_is_paced(switch: Ovs, setting: dict[str, Any]) -> None:
    assert check(switch)["pacing"] == [(OK, "nothing to say")]
    switch.set_tenant("blue", **setting)
    message = "blue paced; the userspace datapath holds packets"
    assert check(switch)["pacing"] == [(OK, message)]


def test_what_cannot_be_asked_hides_nothing() -> None:
    program = runpy.run_path(str(CHECK))

    def finds(_: object) -> Iterator[tuple[int, str]]:
        yield CRITICAL, "wrong"
        raise FileNotFoundError("modinfo")

    program["CHECKS"].clear()
    program["CHECKS"]["datapaths"] = finds
    found = {"datapaths": [(CRITICAL, "wrong"), (UNKNOWN, "modinfo")]}
    assert program["run_checks"](None) == found


def test_a_daemon_of_another_version() -> None:
    """As the tools are, after an upgrade, until it is started again."""
    program = runpy.run_path(str(CHECK))
    row = tenant()
    del row["counters"]["unheard"]
    for name in program["CHECKS"].keys() - {"handshakes"}:
        del program["CHECKS"][name]
    found = program["run_checks"](SimpleNamespace(tenants=[row]))
    text = "acdc/show does not have 'unheard': ovs-vswitchd is of another version"
    assert found["handshakes"][-1] == (UNKNOWN, text)


def tenant(mode: str = "enforce", **counters: int) -> dict[str, Any]:
    names = ["flows_created", "flows_capable", "flows_fallback", "feedback_bad", "feedback_lost"]
    names += ["unheard", "cuts_ecn", "cuts_loss", "ce_bytes", "ingress_bytes", "ecn_rewritten"]
    return {"name": "blue", "params": {"mode": mode}, "counters": dict.fromkeys(names, 0) | counters}


@pytest.mark.parametrize(
    ("check", "row", "expected"),
    [
        ("handshakes", tenant("observe", flows_created=7, flows_fallback=7), OK),
        ("handshakes", tenant(flows_created=7, flows_fallback=7), WARNING),
        # Marked data that a guest received says nothing of the way from it.
        ("marks", tenant(flows_capable=1, cuts_loss=100, ce_bytes=9), WARNING),
        ("marks", tenant(flows_capable=1, cuts_loss=100, cuts_ecn=1), OK),
        ("marks", tenant(flows_fallback=1, cuts_loss=100), OK),
    ],
)
def test_what_counters_say(check: str, row: dict[str, Any], expected: int) -> None:
    program = runpy.run_path(str(CHECK))
    ((state, message),) = program[f"check_{check}"](SimpleNamespace(tenants=[row]))
    assert state == expected, message


def test_without_tc() -> None:
    """A rule may have what the tenant has not."""
    rule = {"pace": True}
    tenant = {"name": "blue", "params": {}, "rules": [rule], "datapath": "system"}
    host = SimpleNamespace(tenants=[tenant], qdiscs=None)
    ((state, _),) = runpy.run_path(str(CHECK))["check_pacing"](host)
    assert state == UNKNOWN


def test_which_module_runs(tmp_path: File) -> None:
    """By its build ID, in a plain file and in a compressed one."""
    program = runpy.run_path(str(CHECK))
    mine, other = tmp_path / "mine.ko", tmp_path / "other.ko"
    for path in (mine, other):
        source = f'const char *name = "{path.stem}";'
        words = ["gcc", "-shared", "-Wl,--build-id", "-x", "c", "-", "-o", str(path)]
        subprocess.run(words, input=source, text=True, check=True)
    note = tmp_path / "note"
    section = f".note.gnu.build-id={note}"
    subprocess.run(
        ["objcopy", "-O", "binary", "--dump-section", section, mine, "/dev/null"], check=True
    )
    assert len(note.read_bytes()) > 16
    is_module = functools.partial(program["is_module"], note.read_bytes())
    for compress, suffix in (("true", ""), ("xz", ".xz"), ("gzip", ".gz")):
        subprocess.run([compress, "--keep", mine, other], check=True)
        for path, expected in ((mine, True), (other, False)):
            packed = path.with_name(path.name + suffix)
            assert is_module(packed) is expected
            if suffix:
                packed.write_bytes(packed.read_bytes()[:-10])
                assert is_module(packed) is None
    assert is_module(mine.rename(tmp_path / "mine.ko.zst")) is None


# What cannot be asked.


def test_a_daemon_that_does_not_run(switch: Ovs) -> None:
    switch.stop_vswitchd()
    done = run(switch)
    assert done.returncode == CRITICAL
    assert done.stdout.startswith("ACDC CRITICAL - daemon: ")
    assert json.loads(run(switch, "--json").stdout)["status"] == CRITICAL
    switch.start_vswitchd()
    assert run(switch).returncode == OK


def test_a_daemon_that_hangs(switch: Ovs) -> None:
    pid = switch.vswitchd_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        done = run(switch, "--timeout", "1")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert done.returncode == CRITICAL, done.stdout


def test_a_daemon_without_acdc(switch: Ovs) -> None:
    """ovsdb-server knows as little of AC/DC as an unpatched ovs-vswitchd does."""
    with pytest.raises(CommandError):
        switch._run(switch.programs.appctl, "-t", switch.rundir / "ovsdb-server.ctl", "acdc/show")
    link = switch.rundir / "other"
    link.mkdir()
    (link / "ovs-vswitchd.ctl").symlink_to(switch.rundir / "ovsdb-server.ctl")
    done = run(switch, "--rundir", link)
    assert done.returncode == CRITICAL
    assert "is one without AC/DC" in done.stdout


def test_a_database_that_does_not_run(switch: Ovs) -> None:
    """The rest is said all the same."""
    switch.stop_ovsdb()
    try:
        assert wrong(switch) == [("ports", UNKNOWN)]
    finally:
        switch.start_ovsdb()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--what"], "unrecognized arguments: --what"),
        *((["--timeout", n], f"'{n}': want more than 0, and") for n in ("nan", "inf", "-1", "0")),
        (["--vlan", "4095", "hv2"], "argument --vlan: '4095': want 1 to 4094"),
        (["--vlan", "x", "hv2"], "argument --vlan: 'x': want 1 to 4094"),
        *((words, "goes with a HOST") for words in (["--mark"], ["--bridge", "br0"])),
        (["--via", "ssh hv2 acdc-check --peer", "--peer-rundir", "/run/other", "hv2"], "is for ssh"),
    ],
)
def test_wrong_arguments(switch: Ovs, arguments: list[str], said: str) -> None:
    """Not 2, which is CRITICAL."""
    done = run(switch, *arguments)
    assert done.returncode == UNKNOWN
    assert "usage: acdc-check" in done.stderr and said in done.stderr
    assert "Nagios" in run(switch, "--help").stdout


def test_a_directory_there_with_a_blank(tmp_path: File) -> None:
    """ssh joins its words, and has a shell take them apart."""
    words = {"ssh": 'shift 3; exec sh -c "$*"', "acdc-check": f'printf "%s\\n" "$@" >{tmp_path}/said'}
    for name, text in words.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command: list[str | File] = [CHECK, "hv2", "--peer-rundir", "/run/the other's"]
    assert subprocess.run(command, env=env, capture_output=True).returncode == UNKNOWN
    assert (tmp_path / "said").read_text() == "--peer\n--rundir\n/run/the other's\n"
