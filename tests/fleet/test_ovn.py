# SPDX-License-Identifier: Apache-2.0

"""Selectors over OVN's logical ports, with the distribution's own northd and ovn-controller.  Its
packages are unpacked, not installed: they would bring the distribution's Open vSwitch."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acdc_testlib.fleet import ROOT, Fleet, Host
from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Transfer
from acdc_testlib.wire import tenant_counters

PACKAGES = ("ovn-common", "ovn-central", "ovn-host")


class Ovn:
    def __init__(self, fleet: Fleet, root: Path) -> None:
        self.fleet, self.root = fleet, root
        self.dir = fleet.dir / "ovn"
        self.dir.mkdir()
        self.env = {"OVN_RUNDIR": str(self.dir), "OVN_LOGDIR": str(self.dir), "PATH": "/usr/bin"}
        self.daemons: list[subprocess.Popen[Any]] = []
        for name in ("nb", "sb"):
            path, schema = self.dir / f"{name}.db", root / f"usr/share/ovn/ovn-{name}.ovsschema"
            subprocess.run([fleet.env["OVSDB_TOOL"], "create", path, schema], check=True)
            self.start(
                fleet.env["OVSDB_SERVER"], str(path), f"--remote=punix:{self.dir}/{name}.sock",
                f"--unixctl={self.dir}/{name}.ctl",
            )  # fmt: skip
            wait_for("the server", (self.dir / f"{name}.sock").exists)
        self.northbound = f"unix:{self.dir}/nb.sock"
        self.southbound = f"unix:{self.dir}/sb.sock"
        self.start(
            str(root / "usr/bin/ovn-northd"), f"--ovnnb-db={self.northbound}",
            f"--ovnsb-db={self.southbound}", f"--unixctl={self.dir}/northd.ctl",
        )  # fmt: skip

    def start(self, *words: str, **environ: str) -> None:
        env = self.env | environ
        with (self.dir / "log").open("ab") as log:
            self.daemons.append(self.fleet.site.popen(*words, env=env, stderr=log, stdout=log))

    def start_controller(self, host: Host, address: str) -> None:
        keys = {"ovn-remote": self.southbound, "ovn-encap-type": "geneve",
                "ovn-encap-ip": address, "ovn-bridge-datapath-type": "netdev"}  # fmt: skip
        host.vsctl(
            "set", "open_vswitch", ".", *(f'external_ids:{k}="{v}"' for k, v in keys.items())
        )
        # Its control socket is there, the switch's sockets are in the other.
        rundir = self.dir / host.name
        rundir.mkdir()
        env = {"OVN_RUNDIR": str(rundir), "OVS_RUNDIR": str(host.ovs.rundir)}
        controller = str(self.root / "usr/bin/ovn-controller")
        self.start(controller, f"unix:{host.ovs.rundir}/db.sock", **env)
        wait_for("br-int", lambda: host.get("bridge", "br-int", "name"), 30)

    def nbctl(self, *words: str) -> None:
        command = [str(self.root / "usr/bin/ovn-nbctl"), f"--db={self.northbound}", *words]
        subprocess.run(command, check=True, env=self.env, capture_output=True, timeout=60)

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        shutil.rmtree(self.dir)


@pytest.fixture
def ovn(fleet: Fleet) -> Iterator[Ovn]:
    root = ROOT / "build/ovn"
    if not (root / "usr/bin/ovn-controller").exists():
        root.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["apt-get", "download", *PACKAGES], cwd=root, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no packages of OVN: {done.stderr}")
        for package in root.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    ovn = Ovn(fleet, root)
    try:
        yield ovn
    finally:
        ovn.close()
        for host in fleet.hosts[:2]:
            host.ovs.del_bridge("br-int")


def add_ports(ovn: Ovn, *ports: tuple[str, str], project: str) -> None:
    """Logical ports with their addresses, as Neutron makes them."""
    for name, addresses in ports:
        ovn.nbctl(
            *("lsp-add", "ls0", name, "--", "lsp-set-addresses", name, addresses),
            *("--", "set", "logical_switch_port", name),
            f"external_ids:neutron\\:project_id={project}",
        )


def selectors(host: Host) -> str:
    return host.get("acdc", "blue", "bind")


def claimed(host: Host, port: str) -> bool:
    return host.get("interface", port, "external_ids:ovn-installed") == "true"


def test_logical_ports(fleet: Fleet, ovn: Ovn) -> None:
    """A tenant has the ports of a project, on whichever host they are."""
    one, two = fleet.hosts[:2]
    ovn.start_controller(one, "10.0.0.11")
    ovn.start_controller(two, "10.0.0.12")
    ovn.nbctl("ls-add", "ls0")
    add_ports(ovn, ("lp-a", "dynamic"), ("lp-c", "dynamic"), project="6c1f")
    add_ports(ovn, ("lp-b", "dynamic"), project="77aa")
    for host, port, name in ((one, "tap0", "lp-a"), (one, "tap1", "lp-b"), (two, "tap2", "lp-c")):
        host.ovs.add_tap("br-int", port)  # type: ignore[attr-defined]
        host.vsctl("set", "interface", port, f"external_ids:iface-id={name}")
    fleet.ctl("bind", "blue", "neutron:project_id=6c1f", "--logical")
    wait_for("selectors", lambda: selectors(one) == '["iface-id=lp-a"]', 30)
    wait_for("selectors", lambda: selectors(two) == '["iface-id=lp-c"]', 30)

    def bound(host: Host) -> list[str]:
        (row,) = host.ovs.acdc("show", "blue")["tenants"]
        return sorted(port["name"] for port in row["ports"])

    wait_for("bound ports", lambda: (bound(one), bound(two)) == (["tap0"], ["tap2"]))
    # ovn-controller claims them as ever.
    for host, port in ((one, "tap0"), (one, "tap1"), (two, "tap2")):
        wait_for("ovn-controller", partial(claimed, host, port), 30)
    # A hard reboot on the same host; a port that goes to another project; a migration.
    one.ovs.del_port("tap0")
    wait_for("the port is gone", lambda: selectors(one) == "[]", 30)
    one.ovs.add_port("br-int", "tap0", **{"external_ids:iface-id": "lp-a"})
    wait_for("bound ports", lambda: bound(one) == ["tap0"], 30)
    ovn.nbctl("set", "logical_switch_port", "lp-b", "external_ids:neutron\\:project_id=6c1f")
    wait_for("bound ports", lambda: bound(one) == ["tap0", "tap1"], 30)
    one.ovs.del_port("tap1")
    two.ovs.add_tap("br-int", "tap1")  # type: ignore[attr-defined]
    two.vsctl("set", "interface", "tap1", "external_ids:iface-id=lp-b")
    wait_for("bound ports", lambda: bound(two) == ["tap1", "tap2"], 30)
    # Without the southbound database an agent goes on with what it knew; one that starts says so.
    ovn.daemons[1].send_signal(signal.SIGSTOP)
    two.stop_agent()
    two.start_agent()
    fleet.ctl("tenant", "set", "blue", "beta=0.25")
    said = [f"{ovn.southbound}: no logical ports are known yet"]
    wait_for("it", lambda: fleet.ctl_json("status")["problems"].get(two.name) == said, 30)
    assert (one.beta(), two.beta()) == ("0.25", "0.5")
    assert selectors(two) == '["iface-id=lp-b", "iface-id=lp-c"]'
    ovn.daemons[1].send_signal(signal.SIGCONT)
    wait_for("the change", lambda: two.beta() == "0.25", 30)
    fleet.ctl("unbind", "blue", "neutron:project_id=6c1f", "--logical")
    wait_for("no selectors", lambda: (selectors(one), selectors(two)) == ("[]", "[]"), 30)


@pytest.fixture
def guests(fleet: Fleet) -> Iterator[list[Netns]]:
    """One on each of two hosts, between which there is a network for tunnels."""
    made = []
    one, two = (host.ovs for host in fleet.hosts[:2])
    assert isinstance(one, Ovs) and isinstance(two, Ovs)
    one.ns.veth_to("phy", two.ns, "phy")
    for i, ovs in enumerate((one, two), 1):
        ovs.add_bridge("br-phy")
        ovs.add_port("br-phy", "phy")
        ovs.ns.add_addresses("br-phy", f"10.0.0.{10 + i}/24")
        ovs.ns.run("ip", "link", "set", "br-phy", "up")
        # ovn-controller makes it, and finds it then.
        ovs.add_bridge("br-int")
        guest = ovs.add_guest("br-int", "guest", f"10.1.0.{i}/24", mtu=1400)
        guest.run("ip", "link", "set", "eth0", "address", f"02:00:00:00:00:0{i}")
        ovs.vsctl("set", "interface", "guest", f"external_ids:iface-id=lp-{i}")
        made.append(guest)
    yield made
    for ovs in (one, two):
        ovs.del_bridge("br-phy")
        ovs.del_bridge("br-int")
        for port in ("guest", "phy"):
            ovs.ns.run("ip", "link", "del", port, check=False)


def test_traffic_in_a_tunnel(fleet: Fleet, guests: list[Netns], ovn: Ovn) -> None:
    """Guests of a project on two hosts are governed through Geneve, as OVN makes it."""
    ovn.nbctl("ls-add", "ls0")
    ports = [(f"lp-{i}", f"02:00:00:00:00:0{i} 10.1.0.{i}") for i in (1, 2)]
    add_ports(ovn, *ports, project="6c1f")
    hosts = fleet.hosts[:2]
    for i, host in enumerate(hosts, 1):
        ovn.start_controller(host, f"10.0.0.{10 + i}")
    fleet.ctl("bind", "blue", "neutron:project_id=6c1f", "--logical")
    for i, host in enumerate(hosts, 1):
        wait_for("selectors", lambda h=host, n=i: selectors(h) == f'["iface-id=lp-{n}"]', 30)  # type: ignore[misc]

    def reachable() -> bool:
        return " 0% packet loss" in guests[0].run("ping", "-c1", "-W1", "10.1.0.2", check=False)

    wait_for("the tunnel", reachable, 30, 0.2)
    switches = [host.ovs for host in hosts if isinstance(host.ovs, Ovs)]
    before = [tenant_counters(ovs, "blue") for ovs in switches]
    Transfer(guests[0], guests[1], "10.1.0.2", size=4 << 20).finish()
    after = [tenant_counters(ovs, "blue") for ovs in switches]
    for new, old in zip(after, before, strict=True):
        assert new["flows_capable"] - old["flows_capable"] == 1
    # The sender's side has heard of what arrived.
    assert after[0]["pack_received"] > before[0]["pack_received"]
    assert "geneve" in switches[0].vsctl("--columns=type", "list", "interface")
    fleet.ctl("unbind", "blue", "neutron:project_id=6c1f", "--logical")
