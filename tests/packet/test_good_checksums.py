# SPDX-License-Identifier: Apache-2.0

"""Checksums are right after every edit, also where a device vouches for those it
received: since version 3.2 Open vSwitch then leaves their completion to the sending
device, which must not be taken for "not complete yet"."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from acdc_testlib.netns import Device, Tap
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.programs import read_env
from acdc_testlib.tcp import CE, V4, Encap
from acdc_testlib.wire import Conn, Wire, pattern

pytestmark = [
    pytest.mark.skipif(datapath_type() != "netdev", reason="it is the userspace datapath's"),
    pytest.mark.skipif(read_env()["OVS_DPDK"] == "no", reason="Open vSwitch without DPDK"),
]

EAL = "--no-huge --legacy-mem -m 512 --no-pci --no-shconf --no-telemetry"


class DpdkWire(Wire):
    """The uplink is a port of DPDK that checks what it receives, a tap device; the test
    has its other side."""

    def begin_dpdk(self, more: str = "") -> None:
        processor = max(os.sched_getaffinity(0))
        self.ovs.vsctl(
            *("set", "open_vswitch", ".", "other_config:dpdk-init=true"),
            *(f'other_config:dpdk-extra="{EAL} {more}"', "other_config:dpdk-lcore-mask=0x1"),
            f"other_config:pmd-cpu-mask={1 << processor:#x}",
        )

    def add_guest(self, bridge: str, vnet: bool) -> Tap:
        self.begin_dpdk()
        return super().add_guest(bridge, vnet)

    def add_uplink(self, bridge: str, vnet: bool) -> Device:
        ovs = self.ovs
        ovs.vsctl(
            *("add-port", bridge, self.uplink_name, "--", "set", "interface", self.uplink_name),
            *("type=dpdk", "options:dpdk-devargs=net_tap0,iface=card0"),
            # As many as it sends from, which that device demands.
            "options:n_rxq=2",
        )
        ovs.ns.run("ip", "link", "set", "dev", "card0", "up")
        return Device(ovs.ns, "card0")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tso"])
def dpdk_wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    with Ovs() as ovs:
        if request.param:
            ovs.vsctl("set", "open_vswitch", ".", "other_config:userspace-tso-enable=true")
            ovs.restart_vswitchd()
        wire = DpdkWire(ovs, headers=True)
        wire.reset()
        yield wire
        assert ovs.vswitchd_running(), ovs.log_tail()


def test_to_the_guest(dpdk_wire: Wire, ip: Encap) -> None:
    """Option taken out, window rewritten, mark hidden."""
    c = Conn(dpdk_wire, ip).open()
    for n in range(1, 40):
        data = pattern(c.peer_sent, 100 + n)
        (got,) = dpdk_wire.ingress(c.from_peer(data, fb=(0, 0), ecn=CE))
        assert got.payload == data
        assert got.ecn == 0
        c.peer_nxt += len(data)
        (out,) = dpdk_wire.egress(c.from_guest())
        assert out.feedback == (c.peer_sent, c.peer_sent)


def test_bad_stays_bad(dpdk_wire: Wire) -> None:
    c = Conn(dpdk_wire, V4).open()
    frame = bytearray(c.from_peer(b"some data", fb=(0, 0), ecn=CE))
    frame[-1] ^= 1
    assert dpdk_wire.ingress(bytes(frame), bad_checksum=True)
