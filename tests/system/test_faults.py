# SPDX-License-Identifier: Apache-2.0

"""What goes wrong around AC/DC: daemons killed, the database lost, ports and tenants
that come and go, upgrades, migration.  TCP connections go on, with equal payload."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acdc_ovs import call
from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.programs import Programs
from acdc_testlib.traffic import Echo, Transfer, echo_once
from acdc_testlib.wire import tenant_counters

A4, B4, A6, B6 = "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"
MB = 1 << 20
RENO = "reno"  # Whatever the machine's own is: one that shares.
SOME = 200_000  # Bytes: more than what was in flight before.


class Guests:
    """Two guests of the tenant 'blue' on one bridge, and connections both ways."""

    def __init__(self, ovs: Ovs) -> None:
        self.ovs = ovs
        ovs.add_bridge("br0")
        self.a = ovs.add_guest("br0", "vnet0", f"{A4}/24", f"{A6}/64")
        self.b = ovs.add_guest("br0", "vnet1", f"{B4}/24", f"{B6}/64")
        self.transfers: list[Transfer] = []

    def bind(self) -> None:
        self.ovs.set_tenant("blue")
        for port in ("vnet0", "vnet1"):
            self.ovs.bind("blue", port)

    def connect(self) -> None:
        self.transfers += [
            Transfer(self.a, self.b, B4, port=5001, algorithm=RENO),
            Transfer(self.b, self.a, A6, port=5002, algorithm=RENO),
        ]
        self.go_on()

    def go_on(self) -> None:
        """Each connection delivers."""
        for transfer in self.transfers:
            seen = transfer.received
            wait_for("data", lambda t=transfer, s=seen: t.received > s + SOME, timeout=60)  # type: ignore[misc]

    def finish(self) -> None:
        for transfer in self.transfers:
            transfer.stop()
        for transfer in self.transfers:
            transfer.finish()

    def counters(self) -> dict[str, int]:
        return tenant_counters(self.ovs, "blue")

    def assert_new_connections_are_controlled(self) -> None:
        before = self.counters()
        Transfer(self.a, self.b, B4, port=5009, size=MB, algorithm=RENO).finish()
        assert self.counters()["flows_capable"] - before["flows_capable"] == 2


def assert_quiet(ovs: Ovs) -> None:
    assert ovs.vswitchd_running(), ovs.log_tail()
    log = ovs.log.read_text(errors="replace")
    # EMER: an assertion, or a signal that ended it.
    assert not re.search(r"\|EMER\||\|acdc\w*(\([^)]*\))?\|ERR\|", log), ovs.log_tail()


@pytest.fixture
def guests(ovs: Ovs) -> Iterator[Guests]:
    made = Guests(ovs)
    made.bind()
    made.connect()
    yield made
    made.go_on()
    made.finish()
    made.assert_new_connections_are_controlled()
    assert_quiet(ovs)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def test_restart_of_the_database_server(guests: Guests, how: signal.Signals) -> None:
    """Nothing is flushed, the flows stay under control."""
    before = guests.counters()
    guests.ovs.stop_ovsdb(how)
    if datapath_type() == "system":
        # Without the database, Open vSwitch's main thread polls no ports.
        guests.go_on()
    guests.ovs.start_ovsdb()
    # It has found its server again when it takes a change.
    guests.ovs.set_tenant("blue", beta=0.5)
    guests.go_on()
    after = guests.counters()
    assert after["flows_created"] == before["flows_created"]
    assert after["pack_received"] > before["pack_received"]


def test_kill_of_both_daemons(guests: Guests) -> None:
    guests.ovs.stop_vswitchd(signal.SIGKILL)
    guests.ovs.stop_ovsdb(signal.SIGKILL)
    guests.ovs.start_ovsdb()
    guests.ovs.start_vswitchd()


def test_database_lost_and_restored(guests: Guests) -> None:
    """An empty one takes bridges and tenants away, the old one brings them back."""
    ovs = guests.ovs
    backup = ovs.dir / "backup.db"
    ovs.stop_ovsdb(signal.SIGKILL)
    shutil.copy(ovs.database_file, backup)
    ovs.database_file.unlink()
    ovs.create_database()
    ovs.start_ovsdb()
    ovs.vsctl("init", wait=False)
    ovs.vsctl("set", "open_vswitch", ".", "external_ids:empty=true")
    assert ovs.vsctl("list-br") == ""
    ovs.stop_ovsdb(signal.SIGKILL)
    shutil.copy(backup, ovs.database_file)
    ovs.start_ovsdb()
    ovs.vsctl("set", "open_vswitch", ".", "external_ids:restored=true")


def test_ports_removed_and_added_under_load(guests: Guests) -> None:
    """With their bindings: ten times, not always the same one."""
    for i in range(10):
        port = f"vnet{i % 2}"
        guests.ovs.vsctl("del-port", port)
        guests.ovs.vsctl(
            *("add-port", "br0", port, "--"),
            *("set", "interface", port, "other_config:acdc-tenant=blue"),
        )
    # Who waits to retransmit may have sent nothing so far.
    wait_for("packets in their midst", lambda: guests.counters()["untouched_midstream"] > 0)


def test_tenant_deleted_under_load(guests: Guests) -> None:
    """The rows of its ports stay; when it is back they are bound again."""
    for _ in range(5):
        guests.ovs.vsctl("destroy", "acdc", "blue")
        guests.go_on()
        guests.ovs.set_tenant("blue")
        guests.go_on()


def update(ovs: Ovs, table: str, row: dict[str, object]) -> None:
    """Of all rows, without waiting for ovs-vswitchd."""
    operation = {"op": "update", "table": table, "where": [], "row": row}
    assert call(ovs.dir / "db.sock", "transact", "Open_vSwitch", operation) == [{"count": 1}]


def test_policy_flaps(guests: Guests) -> None:
    """A hundred times a second, as far as the machine keeps up."""
    values: dict[str, itertools.cycle[object]] = {
        "beta": itertools.cycle([0, 0.5, 1]),
        "algorithm": itertools.cycle(["dctcp", "reno", "cubic", "none"]),
        "mode": itertools.cycle(["enforce", "observe", "enforce", "enforce", "enforce"]),
        "enabled": itertools.cycle([True, True, True, True, True, True, False]),
        "police": itertools.cycle([False, True]),
        "max_window": itertools.cycle([0, 3000, 100000]),
        "min_window": itertools.cycle([0, 2000]),
    }
    start = [transfer.received for transfer in guests.transfers]
    for _ in range(300):
        update(guests.ovs, "ACDC", {name: next(value) for name, value in values.items()})
        time.sleep(0.01)
    assert all(t.received > s for t, s in zip(guests.transfers, start, strict=True))
    guests.ovs.set_tenant(
        "blue", enabled=True, mode="enforce", algorithm="dctcp", max_window=0, police=False
    )


def test_table_full(guests: Guests) -> None:
    """Connections beyond the table's size go untouched."""
    ovs = guests.ovs
    ovs.vsctl("set", "open_vswitch", ".", "other_config:acdc-max-flows=4")
    before = guests.counters()
    transfers = [
        Transfer(guests.a, guests.b, B4, port=5100 + i, size=MB, algorithm=RENO) for i in range(10)
    ]
    for transfer in transfers:
        transfer.finish()
    assert guests.counters()["untouched_table_full"] > before["untouched_table_full"]
    ovs.vsctl("remove", "open_vswitch", ".", "other_config", "acdc-max-flows")


def test_mtu_changes_under_load(guests: Guests) -> None:
    for mtu in (1400, 1280, 9000, 1500):
        # Up: the network first; down: the guests first.
        ends = [(guests.a, "eth0"), (guests.b, "eth0")]
        ports = [(guests.ovs.ns, "vnet0"), (guests.ovs.ns, "vnet1")]
        for ns, device in ports + ends if mtu == 9000 else ends + ports:
            ns.run("ip", "link", "set", "dev", device, "mtu", str(mtu))
        guests.go_on()


def test_steps_of_the_clock(guests: Guests) -> None:
    """Of the wall clock, which only the lab's kernel has for itself: see
    tests/lab/test_through_the_kernel.py."""
    if "User Mode Linux" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this machine's clock is not to be touched")
    before = guests.counters()
    for days in (1, -2, 400, -399):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + days * 86400)
        guests.go_on()
    after = guests.counters()
    assert after["flows_created"] == before["flows_created"]
    assert after["timeouts"] == before["timeouts"]
    assert after["pack_received"] > before["pack_received"]


def restart_as(ovs: Ovs, programs: Programs) -> None:
    ovs.stop_vswitchd()
    ovs.stop_ovsdb()
    ovs.programs = programs
    ovs.convert_database()
    ovs.start_ovsdb()
    ovs.start_vswitchd()


def test_upgrade_and_back() -> None:
    """From a build without AC/DC, and to it again; connections of each time live on."""
    with Ovs(Programs.pristine()) as ovs:
        guests = Guests(ovs)
        guests.connect()
        restart_as(ovs, Programs.patched())
        guests.bind()
        guests.go_on()
        # Not controlled: its window scale is not known.
        assert guests.counters()["untouched_midstream"] > 0
        guests.assert_new_connections_are_controlled()
        guests.transfers += [Transfer(guests.a, guests.b, B4, port=5003, algorithm=RENO)]
        guests.go_on()
        for port in ("vnet0", "vnet1"):
            ovs.bind(None, port)
        ovs.vsctl("destroy", "acdc", "blue")
        guests.go_on()
        restart_as(ovs, Programs.pristine())
        guests.go_on()
        # Without being tidied up first.
        restart_as(ovs, Programs.patched())
        guests.bind()
        guests.transfers += [Transfer(guests.a, guests.b, B4, port=5004, algorithm=RENO)]
        guests.go_on()
        restart_as(ovs, Programs.pristine())
        guests.go_on()
        guests.finish()
        assert_quiet(ovs)


# --- Migration ---------------------------------------------------------------


def uplink(a: Ovs, b: Ovs, name: str) -> None:
    a.ns.veth_to(name, b.ns, name)
    for host in (a, b):
        host.vsctl("add-port", "br0", name)


def migrate(guest: Netns, source: Ovs, target: Ovs, tenant: str | None) -> None:
    """Its device, with all its connections, becomes a port of another host."""
    source.vsctl("del-port", "vnet0")
    source.ns.run("ip", "link", "set", "dev", "vnet0", "netns", str(target.ns.pid))
    target.ns.run("ip", "link", "set", "dev", "vnet0", "up")
    target.vsctl("add-port", "br0", "vnet0")
    if tenant:
        target.set_tenant(tenant)
        target.bind(tenant, "vnet0")
    # As a hypervisor announces it: the switches learn where it is now.
    guest.run("ping", "-c1", "-W5", B4, check=False)


@pytest.mark.parametrize(
    ("programs", "tenant"),
    [(Programs.patched, "blue"), (Programs.pristine, None)],
    ids=["to-acdc", "to-plain"],
)
def test_live_migration(programs: Callable[[], Programs], tenant: str | None) -> None:
    """There, and back to where it came from."""
    with contextlib.ExitStack() as stack:
        first, peer = stack.enter_context(Ovs()), stack.enter_context(Ovs())
        second = stack.enter_context(Ovs(programs()))
        for host in (first, second, peer):
            host.add_bridge("br0")
        uplink(first, peer, "up1")
        uplink(second, peer, "up2")
        a = first.add_guest("br0", "vnet0", f"{A4}/24", f"{A6}/64")
        b = peer.add_guest("br0", "vnet1", f"{B4}/24", f"{B6}/64")
        for host, port in ((first, "vnet0"), (peer, "vnet1")):
            host.set_tenant("blue", police=True)
            host.bind("blue", port)

        transfers = [
            Transfer(a, b, B4, port=5001, algorithm=RENO),
            Transfer(b, a, A6, port=5002, algorithm=RENO),
        ]

        def go_on() -> None:
            for transfer in transfers:
                seen = transfer.received
                wait_for("data", lambda t=transfer, s=seen: t.received > s + SOME, timeout=60)  # type: ignore[misc]

        go_on()
        assert tenant_counters(peer, "blue")["flows_capable"] == 2
        migrate(a, first, second, tenant)
        transfers.append(Transfer(a, b, B4, port=5003, algorithm=RENO))
        go_on()
        # The other end is what is new about it.
        assert tenant_counters(peer, "blue")["flows_capable"] == 2 + bool(tenant)
        migrate(a, second, first, "blue")
        go_on()
        for transfer in transfers:
            transfer.stop()
        for transfer in transfers:
            transfer.finish()
        echo = Echo(b, B4)
        before = tenant_counters(peer, "blue")["flows_capable"]
        echo_once(a, B4, b"controlled again")
        echo.close()
        assert tenant_counters(peer, "blue")["flows_capable"] == before + 1
        for host in (first, second, peer):
            assert_quiet(host)
