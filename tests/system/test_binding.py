# SPDX-License-Identifier: Apache-2.0

"""Selectors: column bind of ACDC over external_ids of interfaces, which the managers of
guests write and write again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from acdc_testlib.long import ALL
from acdc_testlib.netns import processor_seconds, wait_for
from acdc_testlib.ovs import Ovs, under_memcheck


@pytest.fixture(scope="module")
def running() -> Iterator[Ovs]:
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        for name in ("vnet0", "vnet1"):
            ovs.add_tap("br0", name)
        yield ovs


@pytest.fixture
def ovs(running: Ovs) -> Iterator[Ovs]:
    yield running
    for name in ("vnet0", "vnet1"):
        running.bind(None, name)
        running.vsctl("clear", "interface", name, "external_ids")
    for row in running.vsctl_json("--columns=name", "list", "acdc"):
        running.del_tenant(row["name"])


def create(ovs: Ovs, name: str, *selectors: str) -> None:
    quoted = ",".join(f'"{s}"' for s in selectors)
    ovs.vsctl("create", "acdc", f"name={name}", f"bind=[{quoted}]")


def bound(ovs: Ovs) -> dict[str, str]:
    """The tenants of the ports, as the datapath has them."""
    return {
        port["name"]: tenant["name"]
        for tenant in ovs.acdc("show")["tenants"]
        for port in tenant["ports"]
    }


def status(ovs: Ovs, table: str, name: str, key: str) -> Callable[[], str]:
    return lambda: ovs.vsctl("--if-exists", "get", table, name, f"status:{key}").strip().strip('"')


def identify(ovs: Ovs, port: str, *ids: str) -> None:
    """As a manager of guests with an IDL of its own: nothing waits for ovs-vswitchd."""
    words = [f'external_ids:"{key}"="{value}"' for key, value in (i.split("=") for i in ids)]
    ovs.vsctl("--no-wait", "set", "interface", port, *words)


def reconfigurations(ovs: Ovs) -> int:
    time.sleep(1.5)  # ovs-vswitchd adds up its threads' every second.
    return int(ovs.ovs_appctl("coverage/read-counter", "bridge_reconfigure"))


@pytest.mark.parametrize(
    "key", ["port-profile=blue", "iface-id=0d2f-11", "vm-uuid=5c-1", "any:key=a value"]
)
def test_external_ids_bind(ovs: Ovs, key: str) -> None:
    create(ovs, "blue", "vm-uuid=other", key)
    assert bound(ovs) == {}
    identify(ovs, "vnet0", key, "attached-mac=02:00:00:00:00:10")
    wait_for("the port is bound", lambda: bound(ovs) == {"vnet0": "blue"})
    wait_for("status", lambda: status(ovs, "interface", "vnet0", "acdc_tenant")() == "blue")
    wait_for("status", lambda: status(ovs, "acdc", "blue", "ports")() == "vnet0")
    ovs.vsctl("--no-wait", "clear", "interface", "vnet0", "external_ids")
    wait_for("the port is free", lambda: bound(ovs) == {})
    wait_for("no status", lambda: not status(ovs, "interface", "vnet0", "acdc_tenant")())


def test_selectors_change(ovs: Ovs) -> None:
    """Of a tenant that is there: what it no longer selects is free when ovs-vsctl returns."""
    create(ovs, "blue", "iface-id=a")
    ovs.vsctl("set", "interface", "vnet0", "external_ids:iface-id=a")
    ovs.vsctl("set", "interface", "vnet1", "external_ids:iface-id=b")
    assert bound(ovs) == {"vnet0": "blue"}
    ovs.vsctl("add", "acdc", "blue", "bind", '"iface-id=b"')
    assert bound(ovs) == {"vnet0": "blue", "vnet1": "blue"}
    ovs.vsctl("set", "acdc", "blue", 'bind="iface-id=b"')
    assert bound(ovs) == {"vnet1": "blue"}


def test_nothing_is_reconfigured(ovs: Ovs) -> None:
    """external_ids change often, and bridges do not depend on them."""
    create(ovs, "blue", "port-profile=blue")
    before = reconfigurations(ovs)
    identify(ovs, "vnet0", "ovn-installed=true")
    identify(ovs, "vnet1", "port-profile=blue")
    wait_for("the port is bound", lambda: bound(ovs) == {"vnet1": "blue"})
    assert reconfigurations(ovs) == before
    # Another column in the same transaction is not lost.
    ovs.vsctl(
        *("--no-wait", "set", "interface", "vnet0", "external_ids:port-profile=blue"),
        *("other_config:acdc-tenant=red", "--", "create", "acdc", "name=red"),
    )
    wait_for("both", lambda: bound(ovs) == {"vnet0": "red", "vnet1": "blue"})
    assert reconfigurations(ovs) > before


def test_other_config_wins(ovs: Ovs) -> None:
    create(ovs, "blue", "port-profile=x")
    create(ovs, "red")
    ovs.vsctl("set", "interface", "vnet0", "external_ids:port-profile=x")
    assert bound(ovs) == {"vnet0": "blue"}
    ovs.bind("red", "vnet0")
    assert bound(ovs) == {"vnet0": "red"}
    ovs.bind(None, "vnet0")
    assert bound(ovs) == {"vnet0": "blue"}


def test_conflict(ovs: Ovs) -> None:
    """Packets of a port that two tenants claim pass untouched, and everyone says so."""
    create(ovs, "red", "vm-uuid=5")
    create(ovs, "blue", "port-profile=x")
    identify(ovs, "vnet0", "port-profile=x")
    wait_for("the port is bound", lambda: bound(ovs) == {"vnet0": "blue"})
    identify(ovs, "vnet0", "vm-uuid=5")
    wait_for("the port is free", lambda: bound(ovs) == {})
    why = "select it for several tenants: blue, red; packets pass untouched"
    error = status(ovs, "interface", "vnet0", "acdc_error")
    assert why in wait_for("the error", error)
    assert "port-profile=x" in error() and "vm-uuid=5" in error()
    for tenant in ("blue", "red"):
        assert why in wait_for("the error", status(ovs, "acdc", tenant, "error"))
        (problem,) = ovs.acdc("show", tenant)["problems"]
        assert problem == f"port vnet0, tenant {tenant}: {error()}"
    # The operator decides.
    ovs.bind("red", "vnet0")
    assert bound(ovs) == {"vnet0": "red"}
    wait_for("no error", lambda: not status(ovs, "acdc", "blue", "error")())


def test_conflict_of_many(ovs: Ovs) -> None:
    """A tenant's status names some of the ports, acdc/show all."""
    create(ovs, "red", "all=x")
    create(ovs, "blue", "all=x")
    names = [f"many{i}" for i in range(20)]
    words = [w for name in names for w in (
        *("--", "add-port", "br0", name, "--", "set", "interface", name),
        *("type=internal", "external_ids:all=x"))]  # fmt: skip
    ovs.vsctl(*words[1:])
    try:
        error = wait_for("the error", status(ovs, "acdc", "blue", "error"))
        assert error.count("select it for several tenants") == 8
        assert error.endswith("; 12 more ports, which acdc/show names")
        assert len(ovs.acdc("show", "blue")["problems"]) == 20
    finally:
        ovs.vsctl(*[w for name in names for w in ("--", "del-port", name)][1:])


@pytest.mark.parametrize("text", ["port-profile", "=blue", "port-profile=", ""])
def test_bad_selector(ovs: Ovs, text: str) -> None:
    """The tenant keeps the policy that it had, as with any other error."""
    create(ovs, "blue", "iface-id=a")
    ovs.vsctl("set", "interface", "vnet0", "external_ids:iface-id=a")
    ovs.vsctl("set", "acdc", "blue", f'bind="{text}"', "beta=0.5")
    said = f'bind "{text}": not KEY=VALUE of an interface\'s external_ids'
    error = wait_for("the error", status(ovs, "acdc", "blue", "error"))
    assert error.replace("\\", "").startswith(said)
    (row,) = ovs.acdc("show", "blue")["tenants"]
    assert row["error"].startswith(said) and row["params"]["beta"] == 1
    assert bound(ovs) == {"vnet0": "blue"}


def test_a_bonds_member_is_an_uplink(ovs: Ovs) -> None:
    create(ovs, "blue", "port-profile=blue")
    for name in ("up0", "up1"):
        ovs.ns.run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    try:
        ovs.vsctl(
            *("add-bond", "br0", "bond0", "up0", "up1"),
            *("--", "set", "interface", "up0", "external_ids:port-profile=blue"),
        )
        why = "external_ids (port-profile=blue) select an uplink"
        assert why in wait_for("the error", status(ovs, "interface", "up0", "acdc_error"))
        assert why in wait_for("the error", status(ovs, "acdc", "blue", "error"))
        assert bound(ovs) == {}
        ovs.bind("blue", "up0")
        assert bound(ovs) == {"up0": "blue"}
    finally:
        ovs.vsctl("--if-exists", "del-port", "bond0")
        for name in ("up0", "up1"):
            ovs.ns.run("ip", "link", "del", name)


def libvirt_plugs(ovs: Ovs, port: str) -> None:
    """What libvirt runs for <parameters profileid='blue'/>, in one transaction."""
    uuid = "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f"
    ids = {
        "attached-mac": "52:54:00:00:00:01",
        "iface-id": uuid,
        "vm-id": uuid,
        "port-profile": "blue",
        "iface-status": "active",
    }
    ovs.vsctl(
        *("--timeout=5", "--", "--may-exist", "add-port", "br0", port),
        *(w for k, v in ids.items() for w in ("--", "set", "Interface", port, f'external-ids:{k}="{v}"')),
    )  # fmt: skip


def test_hard_reboot_and_restart(ovs: Ovs) -> None:
    """The manager makes the row again; the daemon starts again."""
    create(ovs, "blue", "port-profile=blue")
    libvirt_plugs(ovs, "vnet0")
    assert bound(ovs) == {"vnet0": "blue"}
    uuid = ovs.vsctl("get", "interface", "vnet0", "_uuid")
    ovs.vsctl("--if-exists", "del-port", "vnet0")
    assert bound(ovs) == {}
    libvirt_plugs(ovs, "vnet0")
    assert ovs.vsctl("get", "interface", "vnet0", "_uuid") != uuid
    assert bound(ovs) == {"vnet0": "blue"}
    ovs.restart_vswitchd()
    wait_for("the port is bound", lambda: bound(ovs) == {"vnet0": "blue"})


def test_migration(ovs: Ovs) -> None:
    """The other host has the tenant; the guest's port appears there."""
    create(ovs, "blue", "port-profile=blue")
    libvirt_plugs(ovs, "vnet0")
    with Ovs() as other:
        other.add_bridge("br0")
        create(other, "blue", "port-profile=blue")
        other.ns.run("ip", "tuntap", "add", "vnet7", "mode", "tap")
        libvirt_plugs(other, "vnet7")
        ovs.vsctl("clear", "interface", "vnet0", "external_ids")
        assert bound(other) == {"vnet7": "blue"}
        assert bound(ovs) == {}


@pytest.mark.skipif(under_memcheck(), reason="it measures")
def test_many_ports(ovs: Ovs) -> None:
    """The main thread's time for a change of external_ids does not grow with the ports to
    what is felt: 1,000 of them, or a part in the short form."""
    n = 1000 if ALL else 200
    with Ovs() as big:
        big.add_bridge("br0")
        create(big, "blue", *(f"iface-id=if{i}" for i in range(0, n, 2)))
        names = [f"p{i}" for i in range(n)]
        words: list[str] = []
        for i, name in enumerate(names):
            ids = f"external_ids:iface-id=if{i}"
            words += ["--", "add-port", "br0", name]
            words += ["--", "set", "interface", name, "type=internal", ids]
        big.vsctl(*words[1:])
        assert len(bound(big)) == n / 2
        before = reconfigurations(big)

        def cpu() -> float:
            """Seconds of the main thread."""
            return processor_seconds(big.vswitchd_pid)

        def each(key: str) -> float:
            """Seconds of it for a change, without what it spends anyway."""
            idle = cpu()
            time.sleep(1)
            idle = cpu() - idle
            spent, started = cpu(), time.monotonic()
            for i in range(rounds):
                identify(big, "p1", f"{key}{i % 2}")
            time.sleep(0.3)
            return (cpu() - spent - idle * (time.monotonic() - started)) / rounds

        rounds = 10
        # What else happens meanwhile only adds to it.
        nothing, binding = (
            min(each(key) for _ in range(3)) for key in ("ovn-installed=", "iface-id=if")
        )
        print(
            f"{n} ports, main thread: {1000 * nothing:.2f} ms if nothing is bound by it, ", end=""
        )
        print(f"{1000 * binding:.2f} ms if a port is")
        assert nothing < 0.005
        assert reconfigurations(big) == before
