# SPDX-License-Identifier: Apache-2.0

"""The Open vSwitch that runs here: measured by its own commands, set by ovs-vsctl."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .fabric import MTU, Fabric, Link, Route, Switch
from .formulas import Tuning
from .units import RATE, SIZE, Problem, count, parse, show_rate


class Failure(Exception):
    """Open vSwitch refused something, or does not run."""


NEEDED = ("remote", "state", "srtt_us")


@dataclass(frozen=True)
class Ovs:
    """Where it is; empty: where ovs-vsctl and ovs-appctl look themselves."""

    db: str = ""
    target: str = ""

    def vsctl(self, *args: str) -> str:
        option = [f"--db={self.db}"] if self.db else []
        return _run("ovs-vsctl", "--timeout=20", *option, *args)

    def rows(self, *args: str) -> list[dict[str, Any]]:
        table = json.loads(self.vsctl("--format=json", *args))
        return [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]

    def flows(self, *args: str) -> list[dict[str, Any]]:
        """In pages, as a reply of very many is refused, and of each what is needed."""
        option = ["-t", self.target] if self.target else []
        command = ("ovs-appctl", "--timeout=20", *option, "acdc/dump-flows", *args, "--json")
        flows: list[dict[str, Any]] = []
        cursor: str | None = "0"
        while cursor:
            page = json.loads(_run(*command, f"cursor={cursor}"))
            flows += [{name: flow[name] for name in NEEDED} for flow in page["flows"]]
            cursor = page.get("next")
        return flows


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not in PATH") from None
    if done.returncode:
        raise Failure(done.stderr.strip() or f"{command[0]}: exit status {done.returncode}")
    return done.stdout


# Measurement.


def _uplink(ovs: Ovs, wanted: str) -> tuple[str, Fraction]:
    """Name and rate: of interfaces that are up and no guest's."""
    columns = "--columns=name,type,link_speed,link_state,status,other_config"
    speeds = {
        row["name"]: Fraction(row["link_speed"])
        for row in ovs.rows(columns, "list", "Interface")
        if row["type"] in ("", "system", "dpdk", "afxdp")
        and row["link_state"] == "up"
        and isinstance(row["link_speed"], int)
        and row["link_speed"]
        and "acdc-tenant" not in dict(row["other_config"][1])
        and "acdc_tenant" not in dict(row["status"][1])
    }
    shown = ", ".join(f"{name} {show_rate(rate)}" for name, rate in sorted(speeds.items()))
    if wanted and wanted not in speeds:
        raise Failure(
            f"{wanted} is no uplink that is up and has a speed; there are: {shown or 'none'}"
        )
    if not wanted and len(set(speeds.values())) != 1:
        hint = "name one with --uplink" if speeds else "bind guests' ports only to tenants"
        raise Failure(f"uplinks that are up: {shown or 'none'}: {hint}")
    name = wanted or min(speeds)
    parse(f"{speeds[name]}bit", RATE, f"link speed of {name}")
    return name, speeds[name]


def _round_trip(flows: list[dict[str, Any]]) -> tuple[str, int]:
    """Other end and microseconds: the least to each other end, and of these the longest."""
    least: dict[str, int] = {}
    for flow in flows:
        if sample := flow["srtt_us"]:
            remote = flow["remote"]
            least[remote] = min(least.get(remote, sample), sample)
    if not least:
        raise Failure(
            f"none of {len(flows)} connections has a round trip measured: they need a port bound to"
            " a tenant, and to send data"
        )
    remote = max(least, key=lambda name: (least[name], name))
    return remote, least[remote]


@dataclass(frozen=True)
class Measured:
    uplink: str
    remote: str
    round_trip_us: int
    connections: int


def measure(
    ovs: Ovs,
    buffer: str,
    switches: int,
    uplink: str,
    remote: str,
    flows: int | None,
    mtu: int | None,
) -> tuple[Fabric, Measured]:
    """A path of equal links between this host and the farthest other end."""
    size = parse(buffer, SIZE, "--buffer")
    name, rate = _uplink(ovs, uplink)
    found = ovs.flows(*([f"remote={remote}"] if remote else []))
    other, round_trip = _round_trip(found)
    if round_trip > 200_000:
        raise Problem(
            f"round trip to {other}: {round_trip} us is more than 200000 us: no data center; take"
            " others with --remote"
        )
    sending = sum(flow["state"] == "established" for flow in found)
    senders = count(max(sending, 1) if flows is None else flows, 1, 1_000_000, "--flows")
    link = Link(name, rate, Fraction(round_trip * 1000, 2 * (switches + 1)), senders)
    route = Route(f"to {other}", (link,) * (switches + 1), (Switch("switch", size),) * switches)
    fabric = Fabric(MTU if mtu is None else count(mtu, 576, 65535, "--mtu"), (route,))
    return fabric, Measured(name, other, round_trip, sending)


# Setting.

# Of times in table ACDC.
MOST_US = 1_000_000


def apply(ovs: Ovs, tenant: str, tuning: Tuning) -> list[str]:
    """Sets what the table ACDC has columns for, and says what it did."""
    rows = [row for row in ovs.rows("list", "ACDC") if row["name"] == tenant]
    if not rows:
        raise Failure(f'no tenant "{tenant}": make it with ovs-vsctl create ACDC name={tenant}')
    wanted = {
        "initial_window": tuning.initial_window,
        "tail_probe": tuning.min_rto,
        "on_ramp": tuning.on_ramp,
    }
    said, changes = [], []
    for column, value in wanted.items():
        if column not in rows[0]:
            said.append(f"{column}: this Open vSwitch has no such column; {value.value} is not set")
        elif value.value > MOST_US and column != "initial_window":
            said.append(f"{column}: {value.shown} is more than {MOST_US} us and is not set")
        elif rows[0][column] == value.value:
            said.append(f"{column}: is {value.value} already")
        else:
            changes.append(f"{column}={value.value}")
            said.append(f"{column}: set to {value.shown}")
    if changes and dict(rows[0]["external_ids"][1]).get("acdc-owner") == "fleet":
        command = f"acdc-fleetctl tenant set {tenant} {' '.join(changes)}"
        raise Failure(
            f"{tenant} is the fleet's, whose agent puts back changes; on a server: {command}"
        )
    if changes:
        ovs.vsctl("set", "ACDC", tenant, *changes)
    return said
