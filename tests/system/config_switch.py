# SPDX-License-Identifier: Apache-2.0

"""A bridge with two guests whose packets are made by hand, to configure and to look at."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from acdc_testlib.netns import Tap, wait_for
from acdc_testlib.ovs import CommandError, Ovs
from acdc_testlib.tcp import ACK, SYN, Option, parse
from acdc_testlib.tcp import frame as tcp_frame
from acdc_testlib.tcp import tcp as segment

DEFAULTS = {
    "enabled": True,
    "algorithm": "dctcp",
    "fallback": "none",
    "mode": "enforce",
    "beta": 1,
    "gain": 0.0625,
    "initial_window": 10,
    "min_window": 0,
    "max_window": 0,
    "police": False,
    "ecn_syn": True,
    "align_mss": False,
    "spread_cuts": False,
    "small_windows": False,
    "pace": False,
    "tail_probe": 0,
    "plb": False,
    "on_ramp": 0,
}
MACS = {"vnet0": "02:00:00:00:00:10", "vnet1": "02:00:00:00:00:11"}
OPTIONS: list[Option] = [("MSS", 1460), ("WScale", 7)]


class Switch:
    """A bridge with two taps, and a guest's TCP behind each."""

    def __init__(self, ovs: Ovs) -> None:
        self.ovs = ovs
        ovs.add_bridge("br0")
        self.taps: dict[str, Tap] = {name: ovs.add_tap("br0", name) for name in MACS}

    def reset(self) -> None:
        for name in MACS:
            if self.ovs.vsctl("--if-exists", "get", "interface", name, "name"):
                self.ovs.bind(None, name)
        for row in self.rows():
            self.ovs.del_tenant(row["name"])
        self.ovs.vsctl("clear", "open_vswitch", ".", "other_config")

    # What the switch says.

    def rows(self) -> list[dict[str, Any]]:
        return self.ovs.vsctl_json("list", "acdc")

    def get(self, table: str, record: str, column: str) -> dict[str, Any]:
        """A map column."""
        rows = self.ovs.vsctl_json(f"--columns={column}", "list", table, record)
        return dict(rows[0][column][1])

    def error(self, tenant: str) -> str:
        return str(self.get("acdc", tenant, "status").get("error", ""))

    def show(self, tenant: str) -> dict[str, Any]:
        (row,) = self.ovs.acdc("show", tenant)["tenants"]
        return row

    def problems(self, *argv: str) -> list[str]:
        reply = self.ovs.acdc("show", *argv)["problems"]
        text = self.ovs.appctl("acdc/show", *argv)
        assert re.findall("^problem: (.*)$", text, re.M) == reply
        return list(reply)

    def params(self, tenant: str) -> dict[str, Any]:
        return self.show(tenant)["params"]

    def ports(self, tenant: str) -> list[str]:
        return sorted(port["name"] for port in self.show(tenant)["ports"])

    def flows(self, *filters: str) -> list[dict[str, Any]]:
        return self.ovs.acdc("dump-flows", *filters)

    def configuration(self) -> tuple[Any, ...]:
        """All that must not change when something is refused."""
        rows = [
            {k: v for k, v in row.items() if k not in ("statistics", "status")}
            for row in self.rows()
        ]
        return rows, self.ovs.acdc("show")["tenants"]

    # Packets.

    def send(self, source: str, sink: str, data: bytes) -> None:
        """From one guest to the other, and waits for it to arrive."""
        sent = parse(data)
        assert sent is not None
        self.taps[sink].drain()
        self.taps[source].send(data)

        def arrived() -> bool:
            raw = self.taps[sink].receive(1)
            got = parse(raw) if raw else None
            return got is not None and (got.sport, got.dport) == (sent.sport, sent.dport)

        wait_for("the packet", arrived)

    def syn(self, sport: int = 1000, dport: int = 80, v6: bool = False) -> None:
        """A SYN from vnet0 to vnet1."""
        self.send("vnet0", "vnet1", self.frame("vnet0", "vnet1", v6, sport, dport, SYN))

    def ack(self, sport: int, dport: int) -> None:
        """Another packet of connect()'s IPv4 connection."""
        data = self.frame("vnet0", "vnet1", False, sport, dport, ACK, 102, 102)
        self.send("vnet0", "vnet1", data)

    def connect(self, sport: int = 1000, dport: int = 80, v6: bool = False) -> None:
        """A handshake of vnet0 with vnet1, and 100 bytes."""
        there, back = ("vnet0", "vnet1", v6), ("vnet1", "vnet0", v6)
        self.send("vnet0", "vnet1", self.frame(*there, sport, dport, SYN, seq=1))
        self.send("vnet1", "vnet0", self.frame(*back, dport, sport, SYN | ACK, seq=101, ack=2))
        data = bytes(100)
        self.send("vnet0", "vnet1", self.frame(*there, sport, dport, ACK, 2, 102, data))
        self.send("vnet1", "vnet0", self.frame(*back, dport, sport, ACK, 102, 102))

    def frame(
        self,
        source: str,
        sink: str,
        v6: bool,
        sport: int,
        dport: int,
        flags: int,
        seq: int = 1,
        ack: int = 0,
        payload: bytes = b"",
    ) -> bytes:
        def host(name: str) -> int:
            return 1 + list(MACS).index(name)

        ip = (
            IPv6(src=f"fd00::{host(source)}", dst=f"fd00::{host(sink)}")
            if v6
            else IP(src=f"10.0.0.{host(source)}", dst=f"10.0.0.{host(sink)}")
        )
        options = OPTIONS if flags & SYN else []
        header = segment(sport, dport, flags, seq, ack, options=options)
        return tcp_frame(Ether(src=MACS[source], dst=MACS[sink]) / ip / header, payload)


def refused(ovs: Ovs, *argv: str) -> str:
    with pytest.raises(CommandError) as error:
        ovs.vsctl(*argv)
    return str(error.value)


def refused_appctl(ovs: Ovs, *argv: str) -> str:
    with pytest.raises(CommandError) as error:
        ovs.ovs_appctl(*argv)
    return str(error.value)
