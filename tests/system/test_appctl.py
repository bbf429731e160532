# SPDX-License-Identifier: Apache-2.0

"""Visibility with ovs-appctl: what is shown of tenants, ports and connections."""

from __future__ import annotations

import json
import re
import struct

import pytest
from config_switch import DEFAULTS, Switch, refused_appctl

from acdc_testlib.netns import wait_for
from acdc_testlib.tcp import SYN


@pytest.fixture
def busy(switch: Switch) -> Switch:
    """Two tenants, four flows: IPv4 and IPv6, seen from both guests."""
    switch.ovs.set_tenant("blue", beta=0.25)
    switch.ovs.set_tenant("red")
    switch.ovs.bind("blue", "vnet0")
    switch.ovs.bind("red", "vnet1")
    switch.connect(1000, 80)
    switch.connect(1001, 443, v6=True)
    return switch


def test_show(busy: Switch) -> None:
    text = busy.ovs.appctl("acdc/show")
    blue, red = text[text.index("tenant blue:") :].split("tenant red:")
    assert blue.startswith("tenant blue: enforce dctcp, beta 0.25, gain 0.0625, fallback none")
    assert "ports: vnet0 (2 flows, MTU 1500)" in blue
    assert "flows: 2 (0 half open, 2 with AC/DC at both ends, 0 fallback)" in blue
    assert re.search(r"window: mean \d+ bytes; alpha: mean 0\.9375", blue)
    assert re.search(r"RTT: median \d+ us, p99 \d+ us", blue)
    assert "feedback: PACK" in blue and "cuts: 0 by marks, 0 by loss" in blue
    assert "ports: vnet1" in red
    assert "tenant red" not in busy.ovs.appctl("acdc/show", "blue")

    row = busy.show("blue")
    assert row["params"] == DEFAULTS | {"beta": 0.25}
    assert (row["n_flows"], row["n_capable"], row["alpha_mean"]) == (2, 2, 15 / 16)
    assert row["counters"]["flows_created"] == 2
    assert [port["name"] for port in row["ports"]] == ["vnet0"]
    reply = busy.ovs.acdc("show")
    assert [tenant["name"] for tenant in reply["tenants"]] == ["blue", "red"]
    assert [dp["n_flows"] for dp in reply["datapaths"]] == [4]


def test_untouched_reasons(busy: Switch) -> None:
    busy.ovs.appctl("acdc/flush")
    busy.ack(1000, 80)
    assert re.search("untouched: [1-9][0-9]* midstream", busy.ovs.appctl("acdc/show", "blue"))


def test_dump_flows(busy: Switch) -> None:
    lines = busy.ovs.appctl("acdc/dump-flows").splitlines()
    assert len(lines) == 4
    (line,) = [
        x for x in lines if x.startswith("tenant=blue port=vnet0 10.0.0.1:1000>10.0.0.2:80 ")
    ]
    fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
    assert (fields["state"], fields["alg"], fields["beta"]) == ("established", "dctcp", "0.25")
    assert int(fields["wnd"]) > 0 and float(fields["alpha"]) == 15 / 16
    assert any(" [fd00::1]:1001>[fd00::2]:443 " in line for line in lines)
    assert any(" 10.0.0.2:80>10.0.0.1:1000 " in line and "port=vnet1" in line for line in lines)

    flows = busy.flows()
    assert len(flows) == 4
    (flow,) = [f for f in flows if f["local"] == "10.0.0.1"]
    assert {k: str(v) for k, v in flow.items() if k in fields}.keys() == fields.keys()
    assert (flow["remote"], flow["remote_port"]) == ("10.0.0.2", 80)
    assert flow["capable"] is True and flow["beta"] == 0.25


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["tenant=blue"], 2),
        (["port=vnet1"], 2),
        (["tenant=blue", "port=vnet1"], 0),
        (["remote=10.0.0.2"], 1),
        (["remote=10.0.0.0/8"], 2),
        (["remote=10.0.0.0/31"], 1),
        (["remote=0.0.0.0/0"], 2),
        (["remote=::/0"], 4),
        (["remote=fd00::2", "tenant=blue"], 1),
        (["remote=fd00::/15"], 2),
        (["remote=192.0.2.0/24"], 0),
        (["limit=3"], 3),
        (["limit=1", "tenant=red"], 1),
        (["limit=9"], 4),
    ],
)
def test_filters(busy: Switch, filters: list[str], expected: int) -> None:
    assert len(busy.flows(*filters)) == expected
    assert len(busy.ovs.appctl("acdc/dump-flows", *filters).splitlines()) == expected
    # --json may stand anywhere.
    reply = busy.ovs.appctl("acdc/dump-flows", "--json", *filters)
    assert len(json.loads(reply)) == expected


def test_stats(busy: Switch) -> None:
    text = busy.ovs.appctl("acdc/stats")
    assert "flows: 4 of at most 1048576 (0 half open, 0 closed)" in text
    assert re.search("flows_created +2 +connections tracked from their SYN", text)
    assert "timeouts" not in text
    reply = busy.ovs.acdc("stats", "red")
    (tenant,) = reply["tenants"]
    assert (tenant["name"], tenant["counters"]["flows_created"]) == ("red", 2)
    (dp,) = reply["datapaths"]
    assert dp["n_flows"] == 4 and dp["table_bytes"] > 0
    assert 0 < dp["bytes_per_flow4"] <= 128


def test_flush(busy: Switch) -> None:
    assert busy.ovs.appctl("acdc/flush", "tenant=blue").strip() == "flushed 2 flows"
    assert {flow["tenant"] for flow in busy.flows()} == {"red"}
    assert busy.ovs.acdc("flush", "port=vnet0") == {"flushed": 0}
    assert busy.ovs.acdc("flush", "tenant=red", "port=vnet1") == {"flushed": 2}
    busy.connect(2000, 80)
    assert busy.ovs.appctl("acdc/flush").strip() == "flushed 2 flows"
    assert busy.flows() == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["acdc/show", "green"], "green: no such tenant; tenants: blue red"),
        (["acdc/stats", "green", "--json"], "green: no such tenant"),
        (["acdc/show", "blue", "red"], "tenant given twice"),
        (["acdc/dump-flows", "tenant=green"], "green: no such tenant; tenants: blue red"),
        (["acdc/dump-flows", "port=eth9"], "eth9: no such guest port; guest ports: vnet0 vnet1"),
        (["acdc/dump-flows", "remote=10.0.0.0/99"], '"remote=10.0.0.0/99": remote must be an IPv4'),
        (["acdc/dump-flows", "remote=x"], '"remote=x": remote must be an IPv4'),
        (["acdc/dump-flows", "remote=1.1.1.1,local_port=3"], "only one address or prefix"),
        (["acdc/dump-flows", "blue"], "blue: unknown argument; allowed: tenant=NAME port=NAME"),
        (
            ["acdc/flush", "remote=10.0.0.1"],
            "unknown argument; allowed: tenant=NAME port=NAME --json",
        ),
        (["acdc/flush", "tenant=green"], "green: no such tenant"),
        (
            ["acdc/dump-flows", "limit=0"],
            "limit=0: limit must be an integer between 1 and 16777216",
        ),
        (["acdc/dump-flows", "limit=1", "limit=2"], "limit given twice"),
        (["acdc/dump-flows", "limit=all"], "limit=all: limit must be an integer"),
        (["acdc/show", "--jsn"], "--jsn: unknown argument; allowed: TENANT"),
    ],
)
def test_appctl_errors(busy: Switch, command: list[str], why: str) -> None:
    before = busy.flows()
    assert why in refused_appctl(busy.ovs, *command)
    assert [f["local_port"] for f in busy.flows()] == [f["local_port"] for f in before]


def test_more_flows_than_fit(switch: Switch) -> None:
    """A long reply would hold up the switch: nobody gets one unasked."""
    most = 50000
    switch.ovs.set_tenant("blue")
    switch.ovs.vsctl("set", "acdc", "blue", "other_config:max-half-open=1000000")
    switch.ovs.bind("blue", "vnet0")
    syn = bytearray(switch.frame("vnet0", "vnet1", False, 1, 80, SYN))

    def flood() -> bool:
        for i in range(most + 1000):
            # The guest's port.  That the checksum is wrong does not matter.
            struct.pack_into("!H", syn, 34, 1 + i)
            switch.taps["vnet0"].send(bytes(syn))
        return switch.show("blue")["n_flows"] > most

    wait_for("the flows", flood, 60)
    for options in ([], ["--json"]):
        error = refused_appctl(switch.ovs, "acdc/dump-flows", *options)
        assert f"more than {most} flows match; narrow it down" in error
    assert len(switch.flows("limit=2000")) == 2000
    assert len(switch.ovs.appctl("acdc/dump-flows", "limit=50001").splitlines()) == most + 1
    assert int(switch.ovs.acdc("flush")["flushed"]) > most


def test_no_tenants(switch: Switch) -> None:
    assert "there is no tenant" in refused_appctl(switch.ovs, "acdc/show", "blue")
    assert switch.ovs.appctl("acdc/dump-flows") in ("", "\n")
    assert switch.flows() == []
    assert switch.ovs.appctl("acdc/show").startswith("datapath ")


def test_help(switch: Switch) -> None:
    text = switch.ovs.ovs_appctl("list-commands")
    for command, usage in {
        "acdc/show": "[TENANT] [--json]",
        "acdc/dump-flows": "[tenant=NAME] [port=NAME] [remote=ADDRESS[/LENGTH]] [limit=N]"
        " [cursor=CURSOR] [--json]",
        "acdc/stats": "[TENANT] [--json]",
        "acdc/flush": "[tenant=NAME] [port=NAME] [--json]",
    }.items():
        assert re.search(rf"^ +{command} +{re.escape(usage)}$", text, re.M)


# Restart.
