# SPDX-License-Identifier: Apache-2.0

"""Configuration with ovs-vsctl and visibility with ovs-appctl, DESIGN
sections 8 and 9: what is refused, what applies live, what is reported."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

import pytest
from config_switch import DEFAULTS, Switch, refused

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs

# Tenants.


def test_only_a_name_is_needed(switch: Switch) -> None:
    switch.ovs.vsctl("create", "acdc", "name=blue")
    assert switch.params("blue") == DEFAULTS


@pytest.mark.parametrize(
    ("setting", "column", "value"),
    [
        ("beta=0.25", "beta", 0.25),
        ("beta=0", "beta", 0),
        ("gain=0.5", "gain", 0.5),
        ("algorithm=cubic", "algorithm", "cubic"),
        ("fallback=reno", "fallback", "reno"),
        ("mode=observe", "mode", "observe"),
        ("enabled=false", "enabled", False),
        ("police=true", "police", True),
        ("pace=true", "pace", True),
        ("algorithm=swift", "algorithm", "swift"),
        ("fallback=swift", "fallback", "swift"),
        ("tail_probe=1000000", "tail_probe", 1000000),
        ("on_ramp=1000000", "on_ramp", 1000000),
        ("plb=true", "plb", True),
        ("initial_window=4", "initial_window", 4),
        ("min_window=3000", "min_window", 3000),
        ("max_window=65536", "max_window", 65536),
        ("other_config:ecn-syn=false", "ecn_syn", False),
        ("other_config:align-mss=true", "align_mss", True),
        ("other_config:spread-cuts=true", "spread_cuts", True),
        ("other_config:small-windows=true", "small_windows", True),
    ],
)
def test_parameter(switch: Switch, setting: str, column: str, value: object) -> None:
    switch.ovs.set_tenant("blue")
    switch.ovs.vsctl("set", "acdc", "blue", setting)
    assert switch.params("blue") == DEFAULTS | {column: value}
    # An unset column has its default again.
    switch.ovs.vsctl("clear", "acdc", "blue", setting.split("=")[0].split(":")[0])
    assert switch.params("blue") == DEFAULTS


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("beta=1.5", "1.5 is not in the valid range 0 to 1"),
        ("beta=-0.1", "-0.1 is not in the valid range 0 to 1"),
        ("beta=much", '"much" is not a valid real'),
        ("gain=0", "0 is not in the valid range"),
        ("gain=2", "2 is not in the valid range"),
        ("algorithm=vegas", r"vegas is not one of the allowed values .*cubic, dctcp, none, reno"),
        ("fallback=dctcp", "dctcp is not one of the allowed values"),
        ("mode=perhaps", "perhaps is not one of the allowed values"),
        ("police=perhaps", '"perhaps" is not a valid boolean'),
        ("initial_window=0", "0 is not in the valid range 1 to"),
        ("min_window=-1", "-1 is not in the valid range 0 to"),
        ("tail_probe=1000001", "1000001 is not in the valid range 0 to 1"),
        ("on_ramp=1000001", "1000001 is not in the valid range 0 to 1"),
        ("plb=maybe", '"maybe" is not a valid boolean'),
        ("max_window=99999999999", "99999999999 is not in the valid range 0 to"),
        ("name=red", "cannot modify read-only column name"),
        ("no_such_column=1", "does not contain a column whose name matches"),
    ],
)
def test_refused_at_once(switch: Switch, setting: str, why: str) -> None:
    switch.ovs.set_tenant("blue", beta=0.5)
    before = switch.configuration()
    assert re.search(why, refused(switch.ovs, "set", "acdc", "blue", setting))
    assert switch.configuration() == before


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["name=blue"], r"identical values \(blue\) for index on column"),
        (["beta=1"], "less than minimum allowed length 1"),
        (["name=" + 64 * "x"], "greater than maximum allowed length 63"),
    ],
)
def test_names_refused(switch: Switch, settings: list[str], why: str) -> None:
    switch.ovs.set_tenant("blue")
    before = switch.configuration()
    assert re.search(why, refused(switch.ovs, "create", "acdc", *settings).replace("\\", ""))
    assert switch.configuration() == before


def test_name_of_too_many_bytes(switch: Switch) -> None:
    """OVSDB counts characters, of up to four bytes."""
    name = 40 * "\u00e4"
    switch.ovs.vsctl("create", "acdc", f"name={name}")
    switch.ovs.bind(name, "vnet0")
    error = wait_for("the error", lambda: switch.error(name))
    assert "name is longer than 63 bytes" in error
    status = wait_for(
        "the status", lambda: switch.get("interface", "vnet0", "status").get("acdc_error")
    )
    assert "name is longer than 63 bytes" in str(status)
    assert switch.ovs.acdc("show")["tenants"] == []
    problems = switch.problems()
    assert len(problems) == 2
    assert all("name is longer than 63 bytes" in problem for problem in problems)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("other_config:max-half-open=0", 'max-half-open: "0" is not an integer between 1 and'),
        ("other_config:max-half-open=x", 'max-half-open: "x" is not an integer'),
        ("other_config:ecn-syn=1", 'ecn-syn: "1" is neither true nor false'),
        ("other_config:align-mss=yes", 'align-mss: "yes" is neither true nor false'),
        ("other_config:spread-cuts=2", 'spread-cuts: "2" is neither true nor false'),
        ("other_config:small-windows=1", 'small-windows: "1" is neither true nor false'),
    ],
)
def test_bad_other_config(switch: Switch, setting: str, why: str) -> None:
    switch.ovs.set_tenant("blue", beta=0.5)
    switch.ovs.vsctl("set", "acdc", "blue", setting, "beta=0.75")
    assert why in wait_for("the error", lambda: switch.error("blue"))
    assert switch.params("blue") == DEFAULTS | {"beta": 0.5}
    switch.ovs.vsctl("clear", "acdc", "blue", "other_config")
    wait_for("no error", lambda: not switch.error("blue"))
    assert switch.params("blue") == DEFAULTS | {"beta": 0.75}


def test_windows_that_contradict(switch: Switch) -> None:
    switch.ovs.set_tenant("blue")
    switch.ovs.vsctl("set", "acdc", "blue", "min_window=20000", "max_window=10000")
    error = wait_for("the error", lambda: switch.error("blue"))
    assert "min_window 20000 exceeds max_window 10000" in error
    assert switch.params("blue") == DEFAULTS


def test_unknown_key(switch: Switch) -> None:
    """Said, but no reason to refuse the rest: the next version may know it."""

    def warning() -> str:
        return str(switch.get("acdc", "blue", "status").get("warning", ""))

    def shown() -> str:
        text = switch.ovs.appctl("acdc/show", "blue")
        found = re.search("^  warning: (.*)$", text, re.M)
        assert (found[1] if found else None) == switch.show("blue").get("warning")
        return found[1] if found else ""

    switch.ovs.set_tenant("blue")
    log = len(switch.ovs.log.read_text())
    switch.ovs.vsctl("set", "acdc", "blue", "other_config:spread-cut=true", "beta=0.5")
    expected = (
        "other_config:spread-cut: unknown key, not used; "
        "allowed: ecn-syn align-mss spread-cuts small-windows max-half-open"
    )
    wait_for("the warning", lambda: warning() == expected)
    assert shown() == expected
    assert f"tenant blue: {expected}" in switch.ovs.log.read_text()[log:]
    assert not switch.error("blue")
    assert switch.params("blue") == DEFAULTS | {"beta": 0.5}

    # The quota is the tenant's.
    add_rule(switch, "blue", "priority=1", "beta=0", "other_config:max-half-open=5")
    expected += (
        r"; rule [-0-9a-f]{36}: other_config:max-half-open: unknown key, not used; "
        "allowed: ecn-syn align-mss spread-cuts small-windows"
    )
    wait_for("both", lambda: re.fullmatch(expected, warning()))
    assert re.fullmatch(expected, shown())
    assert [rule["beta"] for rule in switch.show("blue")["rules"]] == [0]

    # Beside an error, which does refuse the rest.
    switch.ovs.vsctl("set", "acdc", "blue", "other_config:ecn-syn=1", "other_config:a=b")
    wait_for("the error", lambda: "neither true nor false" in switch.error("blue"))
    wait_for("the warning", lambda: warning().startswith("other_config:a: unknown key"))
    switch.ovs.vsctl("clear", "acdc", "blue", "other_config", "rules")
    wait_for("no warning", lambda: not warning() and not switch.error("blue"))
    assert shown() == ""


# Rules.


def add_rule(switch: Switch, tenant: str, *settings: str) -> str:
    return switch.ovs.vsctl(
        *("--id=@r", "create", "acdc_rule", *settings),
        *("--", "add", "acdc", tenant, "rules", "@r"),
    )


def test_rules(switch: Switch) -> None:
    switch.ovs.set_tenant("blue", beta=0.5, fallback="cubic")
    add_rule(switch, "blue", "priority=1", 'match="remote=10.0.0.0/8"', "beta=0")
    add_rule(
        switch, "blue", "priority=9", 'match="remote_port=5432,local_port=1-9"', "mode=observe"
    )
    rules = switch.show("blue")["rules"]
    tenant = DEFAULTS | {"beta": 0.5, "fallback": "cubic"}
    assert rules == [
        tenant | {"priority": 9, "match": "remote_port=5432,local_port=1-9", "mode": "observe"},
        tenant | {"priority": 1, "match": "remote=10.0.0.0/8", "beta": 0},
    ]
    # They inherit what they do not set, also when it changes later.
    switch.ovs.vsctl("set", "acdc", "blue", "fallback=reno")
    assert [r["fallback"] for r in switch.show("blue")["rules"]] == ["reno", "reno"]
    assert "rule 0: priority 9, remote_port=5432" in switch.ovs.appctl("acdc/show", "blue")
    # A rule that nothing refers to is gone.
    switch.ovs.vsctl("clear", "acdc", "blue", "rules")
    assert switch.ovs.vsctl_json("list", "acdc_rule") == []
    assert switch.show("blue")["rules"] == []


@pytest.mark.parametrize(
    ("match", "why"),
    [
        ("remote=10.0.0.0/33", "remote must be an IPv4 or IPv6 address or prefix"),
        ("remote=10.0.0.1/8", "without host bits"),
        ("remote=host.example", "remote must be an IPv4 or IPv6 address or prefix"),
        ("remote_port=70000", "remote_port must be a port or range in 0-65535"),
        ("remote_port=80-79", "a port or range in 0-65535, smaller first, as 5432 or 8000-8010"),
        ("local_port=9-1", "local_port must be a port or range"),
        ("colour=blue", "unknown key; allowed are remote, remote_port and local_port"),
        ("remote_port=1,remote_port=2", "remote_port given twice"),
    ],
)
def test_bad_match(switch: Switch, match: str, why: str) -> None:
    switch.ovs.set_tenant("blue", beta=0.5)
    switch.ovs.bind("blue", "vnet0")
    add_rule(switch, "blue", 'match="remote_port=80"', "beta=0.25")
    before = switch.show("blue")
    log = len(switch.ovs.log.read_text())

    uuid = add_rule(switch, "blue", f'match="{match}"', "beta=0")
    switch.ovs.vsctl("set", "acdc", "blue", "beta=1")
    error = wait_for("the error", lambda: switch.error("blue"))
    assert error.startswith(f'rule {uuid}: match "{match}": ')
    assert why in error

    # The whole of the last valid policy stays in force.
    after = switch.show("blue")
    assert after.pop("error") == error
    assert after == before
    assert switch.get("acdc", "blue", "status")["ports"] == "vnet0"
    # Changes elsewhere do not repeat the warning.
    switch.ovs.vsctl("set", "interface", "vnet1", "external_ids:x=y")
    warnings = [
        line
        for line in switch.ovs.log.read_text()[log:].splitlines()
        if "|WARN|tenant blue" in line
    ]
    assert len(warnings) == 1 and uuid in warnings[0]

    switch.ovs.vsctl("set", "acdc_rule", uuid, 'match="remote_port=443"')
    wait_for("no error", lambda: not switch.error("blue"))
    assert switch.params("blue")["beta"] == 1
    assert len(switch.show("blue")["rules"]) == 2


def test_bad_match_of_a_new_tenant(switch: Switch) -> None:
    """There is no policy to keep: the rest of it applies."""
    switch.ovs.vsctl(
        *("--id=@bad", "create", "acdc_rule", "match=nonsense"),
        *("--", "--id=@good", "create", "acdc_rule", 'match="remote_port=80"'),
        *("--", "create", "acdc", "name=blue", "beta=0.5", "rules=@bad,@good"),
    )
    assert "nonsense" in wait_for("the error", lambda: switch.error("blue"))
    assert switch.params("blue")["beta"] == 0.5
    assert [rule["match"] for rule in switch.show("blue")["rules"]] == ["remote_port=80"]


def test_rule_governs_its_flows(switch: Switch) -> None:
    switch.ovs.set_tenant("blue", beta=0.5)
    switch.ovs.bind("blue", "vnet0")
    switch.connect(1000, 80)
    switch.connect(1001, 443)
    add_rule(switch, "blue", 'match="remote_port=443"', "beta=0.125")
    # A flow learns of it with its next packet.
    switch.ack(1000, 80)
    switch.ack(1001, 443)
    got = {flow["remote_port"]: (flow["rule"], flow["beta"]) for flow in switch.flows()}
    assert got == {80: (-1, 0.5), 443: (0, 0.125)}


# Guest ports.


def test_bind_move_and_unbind(switch: Switch) -> None:
    switch.ovs.set_tenant("blue")
    switch.ovs.set_tenant("red")
    switch.ovs.bind("blue", "vnet0")
    assert (switch.ports("blue"), switch.ports("red")) == (["vnet0"], [])
    wait_for(
        "the status",
        lambda: switch.get("interface", "vnet0", "status").get("acdc_tenant") == "blue",
    )
    # The status that was there before is still there.
    assert switch.get("interface", "vnet0", "status")["driver_name"] == "tun"

    switch.connect()
    assert [flow["tenant"] for flow in switch.flows()] == ["blue"]
    switch.ovs.bind("red", "vnet0")
    assert (switch.ports("blue"), switch.ports("red")) == ([], ["vnet0"])
    assert switch.flows() == []
    wait_for("the status", lambda: switch.get("acdc", "red", "status").get("ports") == "vnet0")
    assert "ports" not in switch.get("acdc", "blue", "status")

    switch.ovs.bind(None, "vnet0")
    assert switch.ports("red") == []
    wait_for("the status", lambda: "acdc_tenant" not in switch.get("interface", "vnet0", "status"))


def test_tenant_that_does_not_exist(switch: Switch) -> None:
    def status() -> dict[str, Any]:
        return switch.get("interface", "vnet0", "status")

    switch.ovs.bind("blue", "vnet0")
    error = wait_for("the error", lambda: status().get("acdc_error"))
    assert error == 'tenant "blue" does not exist, packets pass untouched'
    switch.syn()
    assert switch.flows() == []

    switch.ovs.set_tenant("blue")
    wait_for("the tenant", lambda: status().get("acdc_tenant") == "blue")
    assert "acdc_error" not in status()
    switch.syn()
    assert len(switch.flows()) == 1

    switch.ovs.vsctl("destroy", "acdc", "blue")
    assert switch.flows() == []
    wait_for("the error", lambda: status().get("acdc_error") == error)


def test_problems(switch: Switch) -> None:
    """What is asked for and cannot be had, in one place."""
    switch.ovs.set_tenant("blue")
    assert switch.problems() == []
    missing = 'port vnet0, tenant bleu: tenant "bleu" does not exist, packets pass untouched'
    switch.ovs.bind("bleu", "vnet0")
    assert switch.problems() == [missing]
    assert switch.problems("blue") == []

    patch = ("--", "set", "interface", "patch0", "type=patch", "options:peer=patch1")
    switch.ovs.vsctl("add-port", "br0", "patch0", *patch, "other_config:acdc-tenant=blue")
    (problem,) = switch.problems("blue")
    assert problem.startswith("port patch0, tenant blue: datapath ")
    assert "patch ports and tunnels cannot be guest ports" in problem
    switch.ovs.vsctl("del-port", "patch0")
    assert switch.problems() == [missing]
    switch.ovs.bind("blue", "vnet0")
    assert switch.problems() == []


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ("Open_vSwitch .", "acdc-max-flow"),
        ("Bridge br0", "acdc-tenant"),
        ("Port vnet0", "acdc-tenant"),
        ("Interface vnet0", "acdc-tennant"),
    ],
)
def test_unknown_key_elsewhere(switch: Switch, row: str, key: str) -> None:
    """A misspelt key, or the right one in the wrong table, leaves a port unbound."""
    log = len(switch.ovs.log.read_text())
    switch.ovs.vsctl("set", *row.split(), f"other_config:{key}=1", "other_config:other=1")
    # Twice, to see that it is logged once.
    for window in (1, 2):
        switch.ovs.set_tenant("blue", initial_window=window)
        (problem,) = switch.problems()
    expected = f"{row.removesuffix(' .')} other_config:{key}: unknown key, not used; AC/DC has "
    assert problem.startswith(expected)
    assert "Interface other_config:acdc-tenant and Open_vSwitch other_config:acdc-max-flows" in (
        problem
    )
    assert switch.ovs.log.read_text()[log:].count(expected) == 1
    switch.ovs.vsctl("clear", *row.split(), "other_config")
    assert switch.problems() == []


def test_port_that_comes_and_goes(switch: Switch) -> None:
    switch.ovs.set_tenant("blue")
    switch.ovs.bind("blue", "vnet1")
    switch.connect()
    assert len(switch.flows()) == 1
    switch.ovs.vsctl("del-port", "br0", "vnet1")
    assert switch.ports("blue") == []
    assert switch.flows() == []
    switch.ovs.vsctl(
        *("add-port", "br0", "vnet1"),
        *("--", "set", "interface", "vnet1", "other_config:acdc-tenant=blue"),
    )
    assert switch.ports("blue") == ["vnet1"]
    switch.connect()
    assert len(switch.flows()) == 1


def test_ports_change_places(switch: Switch) -> None:
    """Each gets the other's number in the datapath, maybe."""
    switch.ovs.set_tenant("blue")
    switch.ovs.bind("blue", "vnet0")
    switch.connect()
    switch.ovs.vsctl(
        *("del-port", "br0", "vnet0", "--", "del-port", "br0", "vnet1"),
        *("--", "add-port", "br0", "vnet1", "--", "set", "interface", "vnet1"),
        *("other_config:acdc-tenant=blue", "--", "add-port", "br0", "vnet0"),
    )
    assert switch.ports("blue") == ["vnet1"]
    assert switch.flows() == []
    switch.connect()
    assert [flow["port"] for flow in switch.flows()] == ["vnet1"]


def test_bridge_that_comes_and_goes(switch: Switch) -> None:
    """The datapath goes with its last bridge and comes back without AC/DC's
    state, even between two looks at the database."""
    ovs = switch.ovs
    ovs.set_tenant("blue", beta=0.5)
    add = [
        *("add-br", "br0", "--", "set", "bridge", "br0"),
        f"datapath_type={ovs.vsctl('get', 'bridge', 'br0', 'datapath_type')}",
        *("--", "add-port", "br0", "vnet0", "--", "add-port", "br0", "vnet1"),
        *("--", "set", "interface", "vnet0", "other_config:acdc-tenant=blue"),
    ]
    ovs.vsctl("del-br", "br0")
    assert ovs.appctl("acdc/show").startswith("no datapath: there is no bridge")
    assert ovs.appctl("acdc/stats").startswith("no datapath")
    nothing: dict[str, list[str]] = {"datapaths": [], "tenants": [], "problems": []}
    assert ovs.acdc("show") == nothing
    ovs.vsctl(*add)
    assert switch.ports("blue") == ["vnet0"]
    assert switch.params("blue")["beta"] == 0.5
    ovs.vsctl("del-br", "br0", "--", *add)
    assert switch.ports("blue") == ["vnet0"]
    switch.connect()
    assert len(switch.flows()) == 1


def test_datapath_that_cannot_be_asked() -> None:
    """The kernel has none, or one without AC/DC, where the tests run: that is said, and
    not that there is no bridge, or nothing."""
    with Ovs() as ovs:
        ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=system", wait=False)
        wait_for("the bridge", lambda: "no bridge" not in ovs.appctl("acdc/show"))
        for command in ("acdc/show", "acdc/stats"):
            assert ovs.appctl(command).startswith("datapath system:")


def test_tunnel_cannot_be_a_guest_port(switch: Switch) -> None:
    ovs = switch.ovs
    ovs.set_tenant("blue")
    ovs.vsctl(
        *("add-port", "br0", "tun0", "--", "set", "interface", "tun0", "type=vxlan"),
        *("options:remote_ip=127.0.0.9", "other_config:acdc-tenant=blue"),
    )
    try:
        error = wait_for("the error", lambda: switch.error("blue"))
        assert re.match("port tun0: .*tunnels cannot be guest ports", error)
        assert switch.ports("blue") == []
    finally:
        ovs.vsctl("del-port", "br0", "tun0")
    wait_for("no error", lambda: not switch.error("blue"))


# Live changes.


def test_existing_flows_follow(switch: Switch) -> None:
    switch.ovs.set_tenant("blue")
    switch.ovs.bind("blue", "vnet0")
    switch.connect()
    (flow,) = switch.flows()
    assert (flow["beta"], flow["mode"], flow["state"]) == (1, "enforce", "established")
    for beta, mode in ((0.25, "observe"), (0.5, "enforce"), (0.75, "observe")):
        switch.ovs.vsctl("set", "acdc", "blue", f"beta={beta}", f"mode={mode}")
        switch.ack(1000, 80)
        (flow,) = switch.flows()
        assert (flow["beta"], flow["mode"], flow["state"]) == (beta, mode, "established")


def test_nothing_is_sent_when_nothing_changed(switch: Switch) -> None:
    def counts() -> dict[str, int]:
        time.sleep(1.5)  # ovs-vswitchd adds up its threads' every second.
        names = ("acdc_tenant_set", "acdc_port_set")
        return {n: int(switch.ovs.appctl("coverage/read-counter", n)) for n in names}

    switch.ovs.set_tenant("blue")
    switch.ovs.set_tenant("red")
    switch.ovs.bind("blue", "vnet0")
    before = counts()
    assert all(before.values())
    switch.ovs.vsctl("set", "interface", "vnet1", "external_ids:x=z")
    switch.ovs.vsctl("set", "bridge", "br0", "other_config:forward-bpdu=true")
    switch.ovs.vsctl("set", "acdc", "blue", "external_ids:x=z")
    assert counts() == before
    switch.ovs.vsctl("set", "acdc", "red", "beta=0.5")
    assert counts() == before | {"acdc_tenant_set": before["acdc_tenant_set"] + 1}


def test_global_settings(switch: Switch) -> None:
    def datapath() -> tuple[int, int, int, bool]:
        (dp,) = switch.ovs.acdc("show")["datapaths"]
        return dp["max_flows"], dp["idle_timeout"], dp["exid"], dp["clock_synced"]

    default = (1 << 20, 7500, 0xACDC, False)
    switch.ovs.set_tenant("blue")
    assert datapath() == default
    switch.ovs.vsctl(
        *("set", "open_vswitch", ".", "other_config:acdc-max-flows=1000"),
        *("other_config:acdc-idle-timeout=60", "other_config:acdc-exid=0x1234"),
        "other_config:acdc-clock=ptp",
    )
    assert datapath() == (1000, 60, 0x1234, True)
    log = len(switch.ovs.log.read_text())
    switch.ovs.vsctl(
        *("set", "open_vswitch", ".", "other_config:acdc-max-flows=many"),
        *("other_config:acdc-idle-timeout=0", "other_config:acdc-exid=65536"),
        "other_config:acdc-clock=PTP",
    )
    assert datapath() == default
    assert len(switch.problems()) == 4
    for key in ("max-flows", "idle-timeout", "exid"):
        assert re.search(
            rf'WARN\|.*acdc-{key}: "\w+" is not an integer between .*using the default',
            switch.ovs.log.read_text()[log:],
        )
    assert 'acdc-clock: "PTP" is not ptp; using none' in switch.ovs.log.read_text()[log:]


# Statistics.


def test_statistics_column(switch: Switch) -> None:
    switch.ovs.set_tenant("blue")
    switch.ovs.bind("blue", "vnet0")
    statistics = wait_for("statistics", lambda: switch.get("acdc", "blue", "statistics"))
    counters = switch.show("blue")["counters"]
    assert set(counters) < set(statistics)
    assert {"n_flows", "n_half_open", "n_capable", "rtt_p50_us"} <= set(statistics)
    switch.connect()
    # Every other_config:stats-update-interval, 5 s at least.
    wait_for("a flow", lambda: switch.get("acdc", "blue", "statistics")["n_flows"] == 1, 12)
    assert switch.get("acdc", "blue", "statistics")["flows_created"] == 1
    assert switch.get("acdc", "blue", "status")["flows"] == "1"
    # 0 again for a tenant of the same name.
    switch.ovs.vsctl("destroy", "acdc", "blue")
    switch.ovs.set_tenant("blue")
    wait_for("no flow", lambda: switch.get("acdc", "blue", "statistics").get("flows_created") == 0)


def test_log(switch: Switch) -> None:
    """What an operator should hear of, looked at as often as statistics are."""
    switch.ovs.set_tenant("blue")
    switch.ovs.vsctl("set", "acdc", "blue", "other_config:max-half-open=1")
    switch.ovs.bind("blue", "vnet0")
    wait_for("statistics", lambda: switch.get("acdc", "blue", "statistics"))
    log = len(switch.ovs.log.read_text())
    for sport in (1000, 1001, 1002):
        switch.syn(sport)
    line = r"WARN\|tenant blue \(ports: vnet0\): untouched_half_open \+(\d): "

    def logged() -> int:
        return sum(map(int, re.findall(line, switch.ovs.log.read_text()[log:])))

    wait_for("the log", lambda: logged() == 2, 12)
    # Of a tenant made again, nothing is old.
    switch.ovs.vsctl("destroy", "acdc", "blue")
    switch.ovs.set_tenant("blue")
    wait_for("statistics", lambda: switch.get("acdc", "blue", "statistics"))
    assert logged() == 2


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_restart(switch: Switch, sig: signal.Signals) -> None:
    switch.ovs.set_tenant("blue", beta=0.25, algorithm="dctcp")
    add_rule(switch, "blue", "priority=3", 'match="remote_port=80"', "beta=0")
    switch.ovs.vsctl("set", "open_vswitch", ".", "other_config:acdc-max-flows=1234")
    switch.ovs.bind("blue", "vnet0")
    switch.ovs.bind("nobody", "vnet1")
    before = switch.show("blue")
    switch.ovs.restart_vswitchd(sig)
    after = switch.show("blue")
    for key in ("params", "rules"):
        assert after[key] == before[key]
    assert switch.ports("blue") == ["vnet0"]
    (dp,) = switch.ovs.acdc("show")["datapaths"]
    assert dp["max_flows"] == 1234
    wait_for(
        "the status",
        lambda: "nobody" in switch.get("interface", "vnet1", "status").get("acdc_error", ""),
    )
    switch.connect(3000, 80)
    assert [flow["beta"] for flow in switch.flows()] == [0]
