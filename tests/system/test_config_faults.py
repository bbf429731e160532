# SPDX-License-Identifier: Apache-2.0

"""One fault in the configuration, or around it, concerns nothing else."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Iterator

import pytest
from config_switch import Switch

from acdc_ovs import OvsError
from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.programs import read_env


@pytest.fixture
def fresh() -> Iterator[Switch]:
    """One of its own, which nobody has after it."""
    with Ovs() as ovs:
        yield Switch(ovs)
        assert ovs.vswitchd_running(), ovs.log_tail()


@pytest.mark.parametrize("before", range(4))
def test_a_message_cuts_no_character(fresh: Switch, before: int) -> None:
    """The database would take the status of no tenant."""
    ovs = fresh.ovs
    ovs.set_tenant("blue")
    ovs.set_tenant("red")
    match = "x" * before + "\u20ac" * 60
    ovs.vsctl("--", "--id=@r", "create", "acdc_rule", f"match={match}",
              "--", "set", "acdc", "blue", "rules=@r")  # fmt: skip
    wait_for("the error", lambda: "unknown key" in fresh.error("blue"))
    ovs.bind("red", "vnet0")
    wait_for("the port", lambda: fresh.get("acdc", "red", "status").get("ports") == "vnet0")
    assert "unknown key" in str(ovs.acdc("show"))


@pytest.mark.skipif(datapath_type() != "netdev", reason="names are the kernel's")
def test_a_long_name_cuts_no_character(fresh: Switch) -> None:
    """What is said of all ports would be no JSON.  And a command knows the whole name."""
    ovs = fresh.ovs
    name = "x" * 62 + "\u20ac" * 9
    ovs.vsctl("add-port", "br0", name, "--", "set", "interface", name, "type=internal")
    ovs.set_tenant("blue")
    ovs.bind("blue", name)
    assert fresh.ports("blue") == ["x" * 62]
    assert fresh.get("interface", name, "status")["acdc_tenant"] == "blue"
    assert ovs.acdc("flush", f"port={name}") == {"flushed": 0}
    before = ovs.appctl("coverage/read-counter", "acdc_port_set")
    ovs.bind("blue", "vnet0")
    after = ovs.appctl("coverage/read-counter", "acdc_port_set")
    assert int(after) == int(before) + 1


@pytest.mark.skipif(datapath_type() != "netdev", reason="the table is the kernel's")
def test_a_table_for_which_there_is_no_memory(fresh: Switch) -> None:
    """All but the settings of the table goes on, and what is wrong is told until it is right."""
    ovs = fresh.ovs
    ovs.set_tenant("blue")
    ovs.bind("blue", "vnet0")
    pid = ovs.vswitchd_pid
    with open(f"/proc/{pid}/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.prlimit(pid, resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
    ovs.vsctl("set", "open_vswitch", ".", "other_config:acdc-max-flows=16777216")
    ovs.set_tenant("blue", beta=0.25)
    ovs.set_tenant("red")
    ovs.bind("red", "vnet1")
    (problem,) = fresh.problems()
    assert "acdc-max-flows=16777216" in problem
    assert "Cannot allocate memory" in problem
    assert fresh.params("blue")["beta"] == 0.25
    assert fresh.get("interface", "vnet1", "status")["acdc_tenant"] == "red"
    ovs.bind(None, "vnet0")
    ovs.del_tenant("blue")
    assert [row["name"] for row in ovs.acdc("show")["tenants"]] == ["red"]

    resource.prlimit(pid, resource.RLIMIT_AS, limits)
    wait_for("another try", lambda: not ovs.acdc("show")["problems"], 20)


@pytest.mark.parametrize("gone", ["lock", "row"])
def test_the_daemon_sleeps_while_it_must_not_run(fresh: Switch, gone: str) -> None:
    ovs = fresh.ovs
    ovs.set_tenant("blue")
    ovs.bind("blue", "vnet0")

    def wakes() -> int:
        return int(ovs.appctl("coverage/read-counter", "poll_zero_timeout"))

    client = read_env()["OVSDB_CLIENT"]
    database = f"unix:{ovs.rundir}/db.sock"
    if gone == "lock":
        words = [client, "steal", database, "ovs_vswitchd"]
        thief = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    else:
        row = {"op": "delete", "table": "Open_vSwitch", "where": []}
        subprocess.run(
            [client, "transact", database, json.dumps(["Open_vSwitch", row])],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        wait_for("no bridge", lambda: "br0" not in ovs.appctl("dpif/show"))
        before = wakes()
        time.sleep(1)
        assert wakes() - before < 100
    finally:
        if gone == "lock":
            thief.kill()
            thief.wait()


def test_a_port_that_cannot_be_has_no_number(fresh: Switch) -> None:
    fresh.ovs.add_port("br0", "none0")
    with pytest.raises(OvsError, match="interface none0: could not open network device none0"):
        fresh.ovs.ofport("none0")
