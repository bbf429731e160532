# SPDX-License-Identifier: Apache-2.0

"""In the machine, as on a hypervisor with the distribution's kernel: Open
vSwitch with the stock module, with the one that acdc-dkms installs, which is
reloaded under connections, and with the stock one again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from hypervisor import OVS_CTL, ROOT, Hypervisor, run, say
from restarts import Restarts

from acdc_testlib.netns import wait_for
from acdc_testlib.traffic import Transfer

DKMS = str(ROOT / "utilities" / "acdc-dkms")
MODULES = Path("/lib/modules") / os.uname().release
STOCK = MODULES / "kernel/net/openvswitch/openvswitch.ko"
PATCHED = MODULES / "updates/dkms/openvswitch.ko"
MEGABYTES = 4


def on_disk() -> Path:
    """The module that modprobe takes."""
    return Path(run("modinfo", "-n", "openvswitch"))


def is_loaded(module: Path) -> bool:
    """By its build identifier."""
    note = Path("/sys/module/openvswitch/notes/.note.gnu.build-id")
    return note.read_bytes() in module.read_bytes()


def interface_status(port: str) -> str:
    return run("ovs-vsctl", "get", "Interface", port, "status")


def counters() -> dict[str, int]:
    stats: Any = json.loads(run("ovs-appctl", "acdc/stats", "--json"))
    return {
        name: sum(tenant["counters"][name] for tenant in stats["tenants"])
        for name in (
            "egress_packets",
            "ingress_packets",
            "flows_created",
            "pack_sent",
            "pack_received",
        )
        if stats["tenants"]
    }


class Test(Hypervisor):
    def __init__(self) -> None:
        super().__init__(2)
        run("ovs-vsctl", "create", "ACDC", "name=blue")
        for guest in self.guests:
            self.bind(guest.name, "blue")

    def transfer(self) -> str:
        """Bytes hashed at both ends; raises if they differ."""
        began = time.monotonic()
        a, b = self.guests
        Transfer(a.ns, b.ns, b.addresses[0], size=MEGABYTES << 20).finish(300)
        return f"{MEGABYTES} MB arrived whole in {time.monotonic() - began:.1f} s"

    def check_stock(self) -> None:
        assert on_disk() == STOCK
        assert is_loaded(STOCK)
        wait_for("the status", lambda: "does not support AC/DC" in interface_status("vnet0"), 30)
        say(f"stock module: {self.transfer()}; status: {interface_status('vnet0')}")
        assert not counters() or not any(counters().values())

    def check_patched(self) -> None:
        assert on_disk() == PATCHED
        assert is_loaded(PATCHED)
        wait_for("the status", lambda: "acdc_tenant=blue" in interface_status("vnet1"), 30)
        before = counters()
        text = self.transfer()
        run("ovs-appctl", "acdc/show")
        moved = {name: value - before.get(name, 0) for name, value in counters().items()}
        say(f"patched module: {text}; {moved}")
        # One connection, seen at both guests' ports.
        assert moved["flows_created"] == 2
        assert moved["egress_packets"] > 100
        assert moved["ingress_packets"] > 100
        assert moved["pack_sent"] > 0
        assert moved["pack_received"] > 0

    def check_restarts(self, system_id: str) -> None:
        connections = Restarts(*self.guests)
        same = f"--system-id={system_id}"
        connections.check_restart(lambda: timed(OVS_CTL, same, "restart"))
        connections.check_reload(lambda: timed(DKMS, "install", "--reload"))
        connections.close()
        run("ovs-vsctl", "del-port", "br0", "up0")


def timed(*command: str) -> None:
    began = time.monotonic()
    text = run(*command)
    say(f"{Path(command[0]).name} {' '.join(command[1:])}: {time.monotonic() - began:.0f} s")
    for line in text.splitlines():
        say(f"    {line}")


def main() -> None:
    test = Test()
    say(f"Open vSwitch runs on {os.uname().release}")
    test.check_stock()
    system_id = run("ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id")
    timed(DKMS, "install", "--reload")
    test.check_patched()
    test.check_restarts(system_id)
    timed(DKMS, "uninstall", "--reload")
    test.check_stock()
    assert run("ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id") == system_id
    assert not PATCHED.exists()
    assert "nothing" in run(DKMS, "status")
    run(OVS_CTL, "stop")


if __name__ == "__main__":
    main()
