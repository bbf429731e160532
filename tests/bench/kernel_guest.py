# SPDX-License-Identifier: Apache-2.0

"""In the machine of tests/bench/kernel: kernel_guest.py SECONDS PACKETS ROUNDS CASE...,
a case as NAME:SLOTS:DATA:ACKS.  SECONDS is "profile" for the addresses of functions in place
of TCP: in a file for each variant, in the directory that the machine shares."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "qemu" / "guest"))

from hypervisor import OVS_CTL, Guest, Hypervisor, run, say  # noqa: E402

PATCHED = "/usr/local/bin/openvswitch.ko"


def start(guests: list[Guest]) -> None:
    names = [guest.name for guest in guests]
    run(OVS_CTL, "start", "--system-id=hypervisor")
    run("ovs-vsctl", "set", "open_vswitch", ".", "other_config:max-idle=3600000")
    run("ovs-vsctl", "add-br", "br0", "--", "set", "bridge", "br0", "fail_mode=secure",
        *(word for name in ("g1", "u1", *names) for word in ("--", "add-port", "br0", name)))  # fmt: skip
    for a, b in (names, names[::-1]):
        run("ovs-ofctl", "add-flow", "br0", f"in_port={a},actions=output:{b}")
    for a, b, match in (("g1", "u1", "nw_dst"), ("u1", "g1", "nw_src")):
        run("ovs-ofctl", "add-flow", "br0", f"in_port={a},tcp,{match}=8.0.0.0/5,actions=output:{b}")


def stop() -> None:
    run("ovs-vsctl", "del-br", "br0")
    run(OVS_CTL, "stop")
    run("ovs-dpctl", "del-dp", "ovs-system", check=False)
    run("rmmod", "openvswitch")


def check(slots: int) -> None:
    """That the engine followed every connection."""
    (tenant,) = json.loads(run("ovs-appctl", "acdc/show", "--json", quiet=True))["tenants"]
    assert tenant["n_capable"] == 2 * slots, tenant
    counters = tenant["counters"]
    # The devices' own neighbour discovery is no TCP.
    wrong = {
        name: value
        for name, value in counters.items()
        if value and name.startswith("untouched_") and name != "untouched_not_tcp"
    }
    assert not wrong, wrong


def learn(source: list[str]) -> None:
    """The first packets go to ovs-vswitchd, which tells the datapath what to do
    with the others."""
    for _ in range(10):
        run(*source, "1", "1", "1", "1", "0")
        time.sleep(0.5)
        flows = run("ovs-dpctl", "dump-flows")
        if all(f"ipv4({side}=8.0.0.0/248" in flows for side in ("src", "dst")):
            return
    raise AssertionError("no flows in the datapath")


def measure(variant: str, packets: str, rounds: str, cases: list[str]) -> None:
    for case in cases:
        name, slots, data, acks = case.split(":")
        source = ["kernel-source", "g0", "u0"]
        learn(source)
        if variant == "bound":
            run("ovs-vsctl", "create", "acdc", "name=blue", "other_config:max-half-open=1000000",
                "--", "set", "interface", "g1", "other_config:acdc-tenant=blue")  # fmt: skip
        text = run(*source, slots, data, acks, packets, rounds)
        found: dict[str, Any] = {"variant": variant, "traffic": name}
        lines = [line.split() for line in text.splitlines()]
        found["rounds"] = [float(line[0]) for line in lines]
        found["packets"] = [[int(n) for n in line[1:]] for line in lines]
        print(f"result> {json.dumps(found)}", flush=True)
        say(f"{variant}: {name}: {found['rounds'][-1]:.0f} instructions a packet")
        if variant == "bound":
            check(int(slots))
            run("ovs-vsctl", "remove", "interface", "g1", "other_config", "acdc-tenant",
                "--", "destroy", "acdc", "blue")  # fmt: skip


def share_symbols(variant: str) -> None:
    shared = Path("/run/profile")
    shared.mkdir(exist_ok=True)
    run("mount", "-t", "9p", "-o", "trans=virtio,version=9p2000.L", "profile", str(shared))
    (shared / variant).write_text(Path("/proc/kallsyms").read_text())
    run("umount", str(shared))


def transfer(variant: str, seconds: str, guests: list[Guest]) -> None:
    """Goodput between two guests' own TCP, everything on this processor."""
    if seconds == "profile":
        share_symbols(variant)
        return
    sender, receiver = guests
    if variant == "bound":
        run("ovs-vsctl", "create", "acdc", "name=blue")
        for guest in guests:
            Hypervisor.bind(guest.name, "blue")
    for tso in ("on", "off"):
        for guest in guests:
            offloads = (word for what in ("tso", "gso", "gro") for word in (what, tso))
            guest.ns.run("ethtool", "-K", "eth0", *offloads)
        server = receiver.ns.popen("iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
        time.sleep(1)
        text = sender.ns.run("iperf3", "-c", receiver.addresses[0], "-t", seconds, "-J",
                             timeout=int(seconds) + 60)  # fmt: skip
        server.wait()
        found = {"variant": variant, "traffic": f"tcp-tso-{tso}"}
        rate = json.loads(text)["end"]["sum_received"]["bits_per_second"]
        print(f"result> {json.dumps(found | {'rounds': [rate / 1e6]})}", flush=True)
        say(f"{variant}: TCP, tso {tso}: {rate / 1e6:.0f} Mbit/s")
    if variant == "bound":
        (tenant,) = json.loads(run("ovs-appctl", "acdc/stats", "--json", quiet=True))["tenants"]
        assert tenant["counters"]["pack_received"] > 100, tenant


def main() -> None:
    seconds, packets, rounds, *cases = sys.argv[1:]
    for name in "gu":
        run("ip", "link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1")
        for number in "01":
            run("ip", "link", "set", f"{name}{number}", "up")
    # With a TCP of their own.
    guests = [Guest(1), Guest(2)]
    # ovs-vswitchd counts processors, for its threads, after 10 s of this clock.
    time.sleep(max(11 - time.monotonic(), 0))
    run("modprobe", "openvswitch")
    start(guests)
    measure("stock", packets, rounds, cases)
    transfer("stock", seconds, guests)
    stop()
    run("insmod", PATCHED)
    start(guests)
    for variant in ("unbound", "bound"):
        measure(variant, packets, rounds, cases)
        transfer(variant, seconds, guests)
    stop()


if __name__ == "__main__":
    main()
