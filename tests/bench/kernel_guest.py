# SPDX-License-Identifier: Apache-2.0

"""In the machine of tests/bench/kernel: kernel_guest.py MODE SECONDS PACKETS ROUNDS CASE...,
a case as NAME:SLOTS:DATA:ACKS.  MODE "profile": the addresses of functions go into a file for
each variant, in the directory that the machine shares."""

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
    # Of one mask, so that no packet goes through others first.
    for a, b in (("g1", "u1"), ("u1", "g1")):
        match = f"in_port={a},tcp,nw_src=8.0.0.0/5,nw_dst=8.0.0.0/5"
        run("ovs-ofctl", "add-flow", "br0", f"{match},actions=output:{b}")


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
    with the others.  What it told before is forgotten: with each mask that the
    datapath has a packet may take 280 instructions more."""
    run("ovs-appctl", "revalidator/purge")
    for _ in range(10):
        run(*source, "1", "1", "1", "1", "0")
        time.sleep(0.5)
        flows = run("ovs-dpctl", "dump-flows")
        if flows.count("ipv4(src=8.0.0.0/248.0.0.0,dst=8.0.0.0/248.0.0.0") == 2:
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


def received(guest: Guest) -> dict[str, int]:
    """What the switch had from it; many segments at once are one packet."""
    folder = Path("/sys/class/net", guest.name, "statistics")
    return {word: int((folder / f"rx_{word}").read_text()) for word in ("packets", "bytes")}


def transfer(variant: str, seconds: str, guests: list[Guest]) -> None:
    """Goodput between two guests' own TCP, everything on this processor."""
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
        before = [received(guest) for guest in guests]
        run("kernel-source", "begin")
        text = sender.ns.run("iperf3", "-c", receiver.addresses[0], "-t", seconds, "-J",
                             timeout=int(seconds) + 60)  # fmt: skip
        run("kernel-source", "end")
        server.wait()
        data, acks = (
            {word: number - old[word] for word, number in received(guest).items()}
            for guest, old in zip(guests, before, strict=True)
        )
        end = json.loads(text)["end"]["sum_received"]
        rate = end["bits_per_second"]
        found: dict[str, Any] = {"variant": variant, "traffic": f"tcp-tso-{tso}"}
        found |= {"rounds": [rate / 1e6], "segments": end["bytes"] // 1448,
                  "data": data, "acks": acks}  # fmt: skip
        print(f"result> {json.dumps(found)}", flush=True)
        say(f"{variant}: TCP, tso {tso}: {rate / 1e6:.0f} Mbit/s")
    if variant == "bound":
        (tenant,) = json.loads(run("ovs-appctl", "acdc/stats", "--json", quiet=True))["tenants"]
        assert tenant["counters"]["pack_received"] > 100, tenant


def main() -> None:
    mode, seconds, packets, rounds, *cases = sys.argv[1:]
    for name in "gu":
        run("ip", "link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1")
        for number in "01":
            # No neighbour discovery, which would have flows of its own.
            run("sysctl", "-qw", f"net.ipv6.conf.{name}{number}.disable_ipv6=1")
            run("ip", "link", "set", f"{name}{number}", "up")
    # With a TCP of their own.
    guests = [Guest(1), Guest(2)]
    # ovs-vswitchd counts processors, for its threads, after 10 s of this clock.
    time.sleep(max(11 - time.monotonic(), 0))
    run("modprobe", "openvswitch")
    start(guests)
    measure("stock", packets, rounds, cases)
    if mode == "profile":
        share_symbols("stock")
    transfer("stock", seconds, guests)
    stop()
    run("insmod", PATCHED)
    start(guests)
    for variant in ("unbound", "bound"):
        measure(variant, packets, rounds, cases)
        if mode == "profile":
            share_symbols(variant)
        transfer(variant, seconds, guests)
    stop()


if __name__ == "__main__":
    main()
