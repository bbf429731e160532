# SPDX-License-Identifier: Apache-2.0

"""In the machine with the checking kernel: everything that can happen to the
module, at once, on all processors.  The kernel says what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from hypervisor import OVS_CTL, Guest, Hypervisor, run, say
from traffic import ECHO, SINK, Counts, Unixctl, Worker, bulk, listen, serve, short

KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
MODULES = ("vport_vxlan", "vport_geneve", "vport_gre", "openvswitch")


def vsctl(*command: str) -> None:
    run("ovs-vsctl", "--timeout=120", *command, quiet=True)


# What happens beside the traffic.


def change_policies(until: float, seed: int) -> Counts:
    choose = random.Random(seed)
    changes = [
        lambda t: ("set", "ACDC", t, f"algorithm={choose.choice(['dctcp', 'reno', 'cubic'])}"),
        lambda t: ("set", "ACDC", t, f"beta={choose.random():.2f}"),
        lambda t: ("set", "ACDC", t, f"enabled={choose.choice(['true', 'true', 'false'])}"),
        lambda t: ("set", "ACDC", t, f"mode={choose.choice(['enforce', 'observe'])}"),
        lambda t: ("set", "ACDC", t, f"police={choose.choice(['true', 'false'])}"),
        lambda t: ("set", "ACDC", t, f"max_window={choose.choice([0, 20000, 100000])}"),
        lambda t: ("--", "--id=@r", "create", "ACDC_Rule", f"priority={choose.randrange(99)}",
                   f"match=remote_port={choose.choice([ECHO, SINK])}", "beta=0.5",
                   "--", "add", "ACDC", t, "rules", "@r"),
        lambda t: ("clear", "ACDC", t, "rules"),
        # Another size of the table.
        lambda t: ("set", "Open_vSwitch", ".",
                   f"other_config:acdc-max-flows={choose.choice([8, 32, 64, 500, 5000])}"),
        # The tenant goes with its ports bound, and comes again.
        lambda t: ("--", "destroy", "ACDC", t),
        lambda t: ("--", "create", "ACDC", "name=green", "--", "destroy", "ACDC", "green"),
    ]  # fmt: skip
    counts = {"policy changes": 0}
    while time.monotonic() < until:
        tenant = choose.choice(["blue", "red"])
        command = choose.choice(changes)(tenant)
        vsctl(*command)
        if "destroy" in command and tenant in command:
            vsctl("create", "ACDC", f"name={tenant}")
        counts["policy changes"] += 1
    return counts


def change_ports(ports: list[str], until: float, seed: int) -> Counts:
    """The last port is left alone, bound: there is traffic throughout."""
    choose = random.Random(seed)
    counts = {"port changes": 0}
    while time.monotonic() < until:
        port = choose.choice(ports)
        tenant = f"other_config:acdc-tenant={choose.choice(['blue', 'red', 'nobody'])}"
        if choose.random() < 0.4:
            vsctl("del-port", "br0", port)
            vsctl("add-port", "br0", port, "--", "set", "Interface", port, tenant)
        elif choose.random() < 0.3:
            vsctl("remove", "Interface", port, "other_config", "acdc-tenant")
        else:
            vsctl("set", "Interface", port, tenant)
        counts["port changes"] += 1
        time.sleep(choose.random())
    return counts


def look(until: float, seed: int) -> Counts:
    choose = random.Random(seed)
    call = Unixctl()
    counts = {"dumps": 0, "flushes": 0, "most flows": 0}
    while time.monotonic() < until:
        flows = json.loads(call("acdc/dump-flows", "--json"))
        counts["most flows"] = max(counts["most flows"], len(flows.get("flows", ())))
        call("acdc/stats", "--json")
        call("acdc/show")
        counts["dumps"] += 1
        if choose.random() < 0.1:
            call("acdc/flush", *choose.choice([(), ("tenant=blue",), ("port=vnet1",)]))
            counts["flushes"] += 1
    return counts


# The scenes.


class Test(Hypervisor):
    def __init__(self) -> None:
        super().__init__(4)
        vsctl("create", "ACDC", "name=blue")
        vsctl("create", "ACDC", "name=red", "beta=0.5", "police=true")
        self.restore()

    def restore(self) -> None:
        vsctl("set", "Open_vSwitch", ".", "other_config:acdc-max-flows=64")
        for guest, tenant in zip(self.guests, ("blue", "red", "red", "blue"), strict=True):
            vsctl("set", "Interface", guest.name, f"other_config:acdc-tenant={tenant}")

    def servers(self, guest: Guest, until: float) -> list[Worker]:
        with guest.ns.entered():
            sockets = [listen(ECHO), listen(SINK)]
        workers = [Worker(serve, guest.ns, i, s, until) for s in sockets for i in range(3)]
        for sock in sockets:
            sock.close()
        return workers

    def traffic(self, until: float, seed: int) -> list[Worker]:
        """From each guest to the three others."""
        workers = []
        for guest in self.guests:
            workers += self.servers(guest, until + 3)
        for i, guest in enumerate(self.guests):
            others = [a for g in self.guests if g is not guest for a in g.addresses]
            workers.append(Worker(short, guest.ns, i, others, until, seed + i))
            workers.append(Worker(bulk, guest.ns, i + 1, others, until, seed + i))
        return workers

    def flows_alive(self) -> int:
        """Their number, not zero."""
        end = time.monotonic() + 60
        while not (stats := json.loads(Unixctl()("acdc/stats", "--json"))["datapaths"]) or (
            stats[0]["n_flows"] == 0
        ):
            assert time.monotonic() < end, "no flows"
            time.sleep(0.2)
        return int(stats[0]["n_flows"])

    def storm(self, seconds: float, seed: int) -> None:
        """Connections, policies, ports and dumps at once."""
        until = time.monotonic() + seconds
        ports = [guest.name for guest in self.guests[:-1]]
        workers = self.traffic(until, seed)
        workers += [
            Worker(change_policies, None, 0, until, seed),
            Worker(change_ports, None, 1, ports, until, seed),
            Worker(look, None, 0, until, seed),
        ]
        total: Counter[str] = Counter()
        for worker in workers:
            total.update(worker.join())
        say(f"storm of {seconds:.0f} s: {dict(total)}")
        # A test in which nothing happened has tested nothing.
        for name in ("echoed", "reset", "unanswered", "streams", "bytes", "policy changes",
                     "port changes", "dumps", "most flows"):  # fmt: skip
            assert total[name] > 0, f"no {name}"
        self.restore()

    def guest_goes(self, seed: int) -> None:
        """A guest's namespace, and with it its device and port, with flows alive."""
        until = time.monotonic() + 1000
        workers = self.traffic(until, seed)
        time.sleep(3)
        n = self.flows_alive()
        victim = self.guests[1]
        victim.ns.close()
        for worker in workers:
            worker.kill()
        # The namespace dies when the last of its processes and sockets has.
        while Path("/sys/class/net", victim.name).exists():
            time.sleep(0.2)
        say(f"a guest's namespace went with {n} flows alive")
        victim.start()
        vsctl("del-port", "br0", victim.name, "--", "add-port", "br0", victim.name)
        self.restore()

    def datapath_goes(self, seed: int) -> None:
        """The datapath with flows alive and traffic, then the module."""
        until = time.monotonic() + 1000
        workers = self.traffic(until, seed)
        time.sleep(3)
        n = self.flows_alive()
        refused = subprocess.run(["rmmod", "openvswitch"], text=True, capture_output=True)
        assert refused.returncode and "in use" in refused.stderr, refused
        run(OVS_CTL, "stop")
        run("ovs-dpctl", "del-dp", "ovs-system")
        run("rmmod", *[name for name in MODULES if Path("/sys/module", name).exists()])
        for worker in workers:
            worker.kill()
        say(f"the datapath and the module went with {n} flows alive")

    def comes_again(self) -> None:
        run(OVS_CTL, "start", "--system-id=hypervisor")
        self.restore()
        say("the module is back")


def leaks() -> str:
    """What kmemleak finds that nobody points to, since it was cleared."""
    for _ in range(2):
        # Objects have an age, and a scan a grey list, before it tells of them.
        time.sleep(6)
        KMEMLEAK.write_text("scan")
    return KMEMLEAK.read_text()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    assert os.cpu_count() != 1
    Path("/proc/sys/kernel/hung_task_timeout_secs").write_text("300")
    # Not what the boot left.
    KMEMLEAK.write_text("scan")
    KMEMLEAK.write_text("clear")
    test = Test()
    say(f"Open vSwitch runs on {os.uname().release}, {os.cpu_count()} processors")
    rounds = 2
    for i in range(rounds):
        test.storm(args.seconds / rounds, args.seed + i)
        test.guest_goes(args.seed + i)
        test.datapath_goes(args.seed + i)
        if i + 1 < rounds:
            test.comes_again()
    for line in Path("/proc/slabinfo").read_text().splitlines():
        assert not line.startswith("sw_flow"), line
    found = leaks()
    print(found)
    assert not found, "kmemleak: memory that nobody points to"
    say("the slabs are gone, kmemleak finds nothing")


if __name__ == "__main__":
    main()
