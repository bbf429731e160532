# SPDX-License-Identifier: Apache-2.0

"""Two switches, a tunnel between them, and the test as the network between:
it carries the outer packets from one to the other, looks at their ECN field,
and marks some of them as a congested switch does."""

from __future__ import annotations

import itertools
import select
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from acdc_testlib.netns import Netns, Tap, wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import CE, ECT0, checksum
from acdc_testlib.traffic import Stream, Transfer, finish_all, open_connection
from acdc_testlib.wire import tenant_counters

MB = 1 << 20
UDP_PORTS = {"vxlan": 4789, "geneve": 6081}


class Underlay:
    """Carries frames between two devices in a thread, and marks CE every
    'mark_every'th tunnel packet that is ECT."""

    def __init__(self, a: Tap, b: Tap) -> None:
        self.mark_every: int | None = None
        self.tunnelled = self.ect = self.marked = 0
        self.paths: set[bytes] = set()
        """Ethernet source and outer UDP source port of TCP over IPv4 in tunnels."""
        self._devices = {a.fd: (a, b), b.fd: (b, a)}
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._count = itertools.count(1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poller = select.poll()
        for fd in self._devices:
            poller.register(fd, select.POLLIN)
        try:
            while not self._stop.is_set():
                for fd, _event in poller.poll(100):
                    source, sink = self._devices[fd]
                    for _ in range(64):
                        frame = source.receive()
                        if frame is None:
                            break
                        sink.send(self._seen(frame))
        except BaseException as error:
            self._error = error

    def _seen(self, frame: bytes) -> bytes:
        (ethertype,) = struct.unpack_from("!H", frame, 12)
        v6 = ethertype == 0x86DD
        if not v6 and ethertype != 0x0800:
            return frame
        protocol, l4 = (frame[20], 54) if v6 else (frame[23], 34)
        if protocol != 17 or struct.unpack_from("!H", frame, l4 + 2)[0] not in UDP_PORTS.values():
            return frame
        self.tunnelled += 1
        inner = frame[l4 + 16 :]
        if inner[12:14] == b"\x08\x00" and inner[23] == 6:
            self.paths.add(frame[6:12] + frame[l4 : l4 + 2])
        tos = struct.unpack_from("!H", frame, 14)[0] >> 4 & 0xFF if v6 else frame[15]
        if tos & 3 != ECT0:
            return frame
        self.ect += 1
        if self.mark_every is None or next(self._count) % self.mark_every:
            return frame
        self.marked += 1
        marked = bytearray(frame)
        if v6:
            marked[15] |= CE << 4
        else:
            marked[15] |= CE
            marked[24:26] = bytes(2)
            marked[24:26] = struct.pack("!H", checksum(bytes(marked[14:34])))
        return bytes(marked)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


@dataclass
class Hosts:
    kind: str
    ovs: tuple[Ovs, Ovs]
    guests: tuple[Netns, Netns]
    underlay: Underlay


@pytest.fixture(
    scope="module",
    params=[("vxlan", False), ("geneve", False), ("vxlan", True), ("geneve", True)],
    ids=lambda p: f"{p[0]}-over-v{6 if p[1] else 4}",
)
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    kind, outer6 = request.param
    with ExitStack() as stack:
        switches, guests, taps = [], [], []
        for i in (1, 2):
            ovs = stack.enter_context(Ovs(ipv6=outer6))
            ovs.add_bridge("br-phy")
            taps.append(ovs.add_tap("br-phy", "phy"))
            own, other = (
                (f"fd11::{i}", f"fd11::{3 - i}") if outer6 else (f"192.0.2.{i}", f"192.0.2.{3 - i}")
            )
            if outer6:
                ovs.ns.run("ip", "address", "add", f"{own}/64", "dev", "br-phy", "nodad")
            else:
                ovs.ns.run("ip", "address", "add", f"{own}/24", "dev", "br-phy")
            ovs.ns.run("ip", "link", "set", "dev", "br-phy", "up")
            ovs.add_bridge("br-int")
            # 1500 bytes outside leave 1400 for the guests.
            guests.append(
                ovs.add_guest("br-int", "vnet0", f"10.0.0.{i}/24", f"fd00::{i}/64", mtu=1400)
            )
            ovs.vsctl(
                *("add-port", "br-int", "tun0", "--", "set", "interface", "tun0"),
                *(f"type={kind}", f'options:remote_ip="{other}"', "options:key=7"),
            )
            ovs.set_tenant("blue", police=True)
            ovs.bind("blue", "vnet0")
            switches.append(ovs)
        underlay = Underlay(taps[0], taps[1])
        stack.callback(underlay.close)

        def reachable() -> bool:
            return " 0% packet loss" in guests[0].run("ping", "-c1", "-W1", "10.0.0.2", check=False)

        wait_for(f"the {kind} tunnel", reachable, timeout=20, interval=0.2)
        yield Hosts(kind, (switches[0], switches[1]), (guests[0], guests[1]), underlay)


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"], ids=["v4", "v6"])
def test_bulk_through_a_tunnel(hosts: Hosts, address: str) -> None:
    before = [tenant_counters(ovs, "blue") for ovs in hosts.ovs]
    ect = hosts.underlay.ect
    Transfer(*hosts.guests, address, size=8 * MB).finish()
    assert hosts.underlay.ect - ect > 4000
    for ovs, old in zip(hosts.ovs, before, strict=True):
        new = tenant_counters(ovs, "blue")
        assert new["flows_capable"] - old["flows_capable"] == 1
        for reason in ("feedback_bad", "forged", "untouched_midstream", "policed_packets"):
            assert new[reason] == old[reason], reason


def test_marks_on_the_outer_header_reach_the_law(hosts: Hosts) -> None:
    """RFC 6040: CE outside becomes CE inside, the receiver's switch counts and
    hides it, the sender's cuts.  The guests negotiate no ECN and need none."""
    sender, receiver = hosts.ovs
    before = tenant_counters(sender, "blue"), tenant_counters(receiver, "blue")
    hosts.underlay.mark_every = 10
    try:
        transfer = Transfer(*hosts.guests, "10.0.0.2", port=5002, size=4 * MB)
        transfer.finish()
    finally:
        hosts.underlay.mark_every = None
    time.sleep(0.1)
    after = tenant_counters(sender, "blue"), tenant_counters(receiver, "blue")
    assert hosts.underlay.marked > 100
    assert after[1]["ce_packets"] - before[1]["ce_packets"] > 100
    assert after[1]["ce_bytes"] - before[1]["ce_bytes"] > 0.05 * 4 * MB
    assert after[0]["cuts_ecn"] - before[0]["cuts_ecn"] > 5
    assert after[0]["feedback_bad"] == before[0]["feedback_bad"]


def test_commands_reconcile_nothing(hosts: Hosts) -> None:
    """They open the datapath, and the kernel's opens the devices of tunnels each time."""
    ovs = hosts.ovs[0]

    def reconciled() -> int:
        time.sleep(1.5)  # ovs-vswitchd adds up its threads' every second.
        return int(ovs.appctl("coverage/read-counter", "acdc_reconcile"))

    wait_for("the network to settle", lambda: reconciled() == reconciled(), timeout=60)
    before = reconciled()
    for _ in range(20):
        ovs.appctl("acdc/show")
    assert reconciled() - before < 10


def test_all_of_a_connection_goes_one_way(hosts: Hosts) -> None:
    """FACKs, too: the outer source port of a container's packets comes from its socket."""
    before = [tenant_counters(ovs, "blue") for ovs in hosts.ovs]
    near, far = open_connection(*hosts.guests, "10.0.0.2", 5003)
    time.sleep(0.1)
    hosts.underlay.paths.clear()
    with near, far:
        finish_all([Stream(near, far, 4 * MB), Stream(far, near, 4 * MB)])
    if datapath_type() != "netdev":  # Which gives guests no TSO.
        for ovs, old in zip(hosts.ovs, before, strict=True):
            assert tenant_counters(ovs, "blue")["fack_sent"] > old["fack_sent"]
    assert len(hosts.underlay.paths) == 2
