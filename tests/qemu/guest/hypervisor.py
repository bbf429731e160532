# SPDX-License-Identifier: Apache-2.0

"""In the machine: Open vSwitch in the root namespace, guests as namespaces on
one bridge of the kernel's datapath."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from acdc_testlib.netns import Netns  # noqa: E402

OVS_CTL = "/usr/local/share/openvswitch/scripts/ovs-ctl"


def say(text: str) -> None:
    print(f"qemu> {text}", flush=True)


def run(*command: str, check: bool = True, quiet: bool = False) -> str:
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    failed = check and done.returncode != 0
    if failed or not quiet:
        print(f"$ {' '.join(command)}\n{done.stdout}", end="", flush=True)
    assert not failed, f"{command}: exit status {done.returncode}"
    return done.stdout.strip()


class Guest:
    """A namespace whose eth0 is the other end of the port 'name'."""

    def __init__(self, number: int) -> None:
        self.name = f"vnet{number}"
        self.addresses = f"10.0.0.{number + 1}", f"fd00::{number + 1}"
        self.start()

    def start(self) -> None:
        self.ns = Netns()
        run("ip", "link", "add", "dev", self.name, "type", "veth", "peer", "name", "eth0",
            "netns", str(self.ns.pid))  # fmt: skip
        run("ip", "link", "set", "dev", self.name, "up")
        v4, v6 = self.addresses
        self.ns.add_addresses("eth0", f"{v4}/24", f"{v6}/64")
        self.ns.run("ip", "link", "set", "dev", "eth0", "up")


class Hypervisor:
    def __init__(self, n_guests: int) -> None:
        self.start()
        self.guests = [Guest(i) for i in range(n_guests)]
        ports = [word for g in self.guests for word in ("--", "add-port", "br0", g.name)]
        run("ovs-vsctl", "add-br", "br0", *ports)

    def start(self) -> None:
        run(OVS_CTL, "start", "--system-id=hypervisor")

    @staticmethod
    def bind(port: str, tenant: str) -> None:
        run("ovs-vsctl", "set", "Interface", port, f"other_config:acdc-tenant={tenant}")
