# SPDX-License-Identifier: Apache-2.0

"""Hardware offload, played by Open vSwitch's dummy ports: flows that begin or end at a
guest port stay in software, others do not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs, datapath_type

pytestmark = pytest.mark.skipif(
    datapath_type() != "netdev", reason="dummy ports are of the userspace datapath"
)
PORTS = ("p1", "p2", "p3")


class DummyOvs(Ovs):
    """With a dummy datapath, whose ports 1, 2, 3 send to 2, 3, 1."""

    def _popen(self, program: Path, words: list[str], **options: Any) -> subprocess.Popen[Any]:
        extra = ["--enable-dummy"] if program == self.programs.vswitchd else []
        return super()._popen(program, [*words, *extra], **options)

    def add_dummy(self, name: str) -> None:
        number = name.removeprefix("p")
        self.vsctl("add-port", "br0", name, "--", "set", "interface", name, "type=dummy",
                   f"ofport_request={number}", f"options:ifindex=110{number}")  # fmt: skip

    def receive(self, name: str) -> None:
        number = name.removeprefix("p")
        ether = f"src=50:54:00:00:00:0{number},dst=50:54:00:00:01:0{number}"
        packet = (
            f"in_port({number}),eth({ether}),eth_type(0x0800),ipv4(src=10.0.0.{number},"
            "dst=10.0.1.1,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)"
        )
        self.appctl("netdev-dummy/receive", name, packet)

    def sends(self, name: str, to: str) -> bool:
        """Whether what 'name' gets leaves by 'to'."""

        def sent() -> int:
            text = self.ofctl("dump-ports", "br0", to)
            return int(text.split("tx pkts=")[1].split(",")[0])

        before = sent()
        self.receive(name)
        return sent() > before

    def offloads(self, name: str) -> bool:
        """Whether the flow of a packet that 'name' gets goes to hardware."""
        self.appctl("revalidator/purge")
        start = self.log.stat().st_size
        self.receive(name)

        def decided() -> str:
            new = self.log.read_bytes()[start:].decode()
            return "refused" if "not offloaded" in new else "put" * (f"{name}: flow put" in new)

        wait_for("a decision about the flow", decided, timeout=20, interval=0.1)
        return decided() == "put"


@pytest.fixture(scope="module")
def ovs() -> Iterator[DummyOvs]:
    with DummyOvs() as ovs:
        ovs.vsctl("set", "open_vswitch", ".", "other_config:hw-offload=true")
        ovs.restart_vswitchd()
        ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy",
                  "fail_mode=secure")  # fmt: skip
        for name in PORTS:
            ovs.add_dummy(name)
        # What plays the hardware, in 4.0 and before.
        for module in ("dpif_offload_dummy", "netdev_dummy"):
            if module in ovs.appctl("vlog/list"):
                ovs.appctl("vlog/set", f"{module}:file:dbg")
        # The warning is limited to one a second.
        ovs.appctl("vlog/disable-rate-limit", "acdc_dpif")
        for number, to in (("1", "2"), ("2", "3"), ("3", "1")):
            ovs.ofctl("add-flow", "br0", f"in_port={number},actions=output:{to}")
        ovs.vsctl("create", "acdc", "name=blue")
        yield ovs
        assert ovs.vswitchd_running(), ovs.log_tail()


def test_flows_of_guest_ports_stay_in_software(ovs: DummyOvs) -> None:
    assert [ovs.offloads(name) for name in PORTS] == [True, True, True]
    ovs.vsctl("set", "interface", "p1", "other_config:acdc-tenant=blue")
    # From the guest, past it, and to it.
    assert [ovs.offloads(name) for name in PORTS] == [False, True, False]
    ovs.vsctl("remove", "interface", "p1", "other_config", "acdc-tenant")
    assert [ovs.offloads(name) for name in PORTS] == [True, True, True]


def test_a_port_of_a_guest_s_name_or_number_is_none(ovs: DummyOvs) -> None:
    ovs.vsctl("set", "interface", "p1", "other_config:acdc-tenant=blue")
    assert not ovs.offloads("p1")
    ovs.vsctl("del-port", "p1")
    ovs.add_dummy("p1")
    assert [ovs.offloads(name) for name in PORTS] == [True, True, True]


def test_other_ports_have_flows_when_one_becomes_a_guest(ovs: DummyOvs) -> None:
    """What went into hardware comes out of it, and comes back if it may."""
    assert ovs.offloads("p2")
    start = ovs.log.stat().st_size
    ovs.vsctl("set", "interface", "p3", "other_config:acdc-tenant=blue")
    # Without a packet, and before it is idle.
    wait_for("none", lambda: b"p2: flow del" in ovs.log.read_bytes()[start:], timeout=5)
    assert ovs.offloads("p1")
    ovs.vsctl("remove", "interface", "p3", "other_config", "acdc-tenant")
    assert ovs.offloads("p2")


def test_a_tenant_that_goes_leaves_no_guest(ovs: DummyOvs) -> None:
    ovs.vsctl("set", "interface", "p1", "other_config:acdc-tenant=blue")
    assert not ovs.offloads("p1")
    ovs.vsctl("destroy", "acdc", "blue")
    assert ovs.offloads("p1")
    ovs.vsctl("create", "acdc", "name=blue")
    assert not ovs.offloads("p1")
    ovs.vsctl("remove", "interface", "p1", "other_config", "acdc-tenant")
    assert ovs.offloads("p1")


def test_a_flow_that_turns_to_a_guest_comes_out_of_hardware(ovs: DummyOvs) -> None:
    ovs.vsctl("set", "interface", "p3", "other_config:acdc-tenant=blue")
    assert ovs.offloads("p1")
    assert ovs.sends("p1", to="p2")
    ovs.ofctl("mod-flows", "br0", "in_port=1,actions=output:3")
    wait_for("packets at p3", lambda: ovs.sends("p1", to="p3"), timeout=20, interval=0.2)
    # The datapath's flow is gone, and hardware does not go on by itself.
    ovs.appctl("revalidator/purge")
    ovs.ofctl("mod-flows", "br0", "in_port=1,actions=output:2")
    wait_for("packets at p2", lambda: ovs.sends("p1", to="p2"), timeout=20, interval=0.2)
    ovs.vsctl("remove", "interface", "p3", "other_config", "acdc-tenant")
    assert ovs.offloads("p1")
