# SPDX-License-Identifier: Apache-2.0

"""In the machine with the checking kernel: everything that can happen to the
module, at once, on all processors.  The kernel says what is wrong."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from hypervisor import Guest, Hypervisor, run, say
from traffic import (
    ECHO,
    RUN_DIR,
    SINK,
    Counts,
    Worker,
    appctl,
    bulk,
    listen,
    serve,
    short,
    transact,
)

DB = Path("/usr/local/etc/openvswitch/conf.db")
MODULES = ("vport_vxlan", "vport_geneve", "vport_gre", "openvswitch")


def vsctl(*command: str) -> None:
    run("ovs-vsctl", "--timeout=120", *command, quiet=True)


# What happens beside the traffic.


def change_policies(until: float, seed: int) -> Counts:
    choose = random.Random(seed)
    values: dict[str, list[object]] = {
        "algorithm": ["dctcp", "reno", "cubic", "swift", "none"],
        "beta": [0.0, 0.3, 1.0],
        "enabled": [True, True, False],
        "mode": ["enforce", "observe"],
        "police": [True, False],
        "max_window": [0, 20000, 100000],
        "on_ramp": [0, 50, 5000],
        "pace": [True, False],
        "plb": [True, False],
        "tail_probe": [0, 100, 5000, 5000],
    }
    counts = {"policy changes": 0, "tenants gone": 0}
    while time.monotonic() < until:
        tenant = choose.choice(["blue", "red"])
        where = [["name", "==", tenant]]
        kind = choose.random() if counts["tenants gone"] else 1
        if kind < 0.6:
            column = choose.choice([*values])
            row = {column: choose.choice(values[column])}
            transact({"op": "update", "table": "ACDC", "where": where, "row": row})
        elif kind < 0.75:
            match = f"remote_port={choose.choice([ECHO, SINK])}"
            rule = {"priority": choose.randrange(99), "match": match, "beta": 0.5}
            transact(
                {"op": "insert", "table": "ACDC_Rule", "row": rule, "uuid-name": "rule"},
                {"op": "update", "table": "ACDC", "where": where,
                 "row": {"rules": ["set", [["named-uuid", "rule"]]]}},
            )  # fmt: skip
        elif kind < 0.8:
            row = {"rules": ["set", []]}
            transact({"op": "update", "table": "ACDC", "where": where, "row": row})
        elif kind < 0.9:
            # Another size of the table.
            size = str(choose.choice([8, 32, 64, 500, 5000]))
            row = {"other_config": ["map", [["acdc-max-flows", size]]]}
            transact({"op": "update", "table": "Open_vSwitch", "where": [], "row": row})
        else:
            # The tenant goes with its ports bound, and comes again.
            transact({"op": "delete", "table": "ACDC", "where": where})
            time.sleep(choose.random())
            transact({"op": "insert", "table": "ACDC",
                      "row": {"name": tenant, "tail_probe": 1000, "pace": True}})  # fmt: skip
            counts["tenants gone"] += 1
        counts["policy changes"] += 1
        time.sleep(choose.random() / 2)
    return counts


def change_ports(ports: list[str], until: float, seed: int) -> Counts:
    """The last port is left alone, bound: there is traffic throughout."""
    choose = random.Random(seed)
    counts = {"bindings changed": 0, "ports changed": 0}
    while time.monotonic() < until:
        port = choose.choice(ports)
        tenant = choose.choice(["blue", "red", "nobody", None])
        # One of each at least, however slow the machine.
        first = counts["bindings changed"] and not counts["ports changed"]
        if first or (counts["ports changed"] and choose.random() < 0.2):
            vsctl("--", "--if-exists", "del-port", port)
            vsctl("add-port", "br0", port, "--", "set", "Interface", port,
                  "other_config:acdc-tenant=blue")  # fmt: skip
            counts["ports changed"] += 1
        else:
            row = {"other_config": ["map", [["acdc-tenant", tenant]] if tenant else []]}
            where = [["name", "==", port]]
            transact({"op": "update", "table": "Interface", "where": where, "row": row})
            counts["bindings changed"] += 1
        time.sleep(choose.random() / 2)
    return counts


def look(until: float, seed: int) -> Counts:
    choose = random.Random(seed)
    most = {"evicted": "flows_evicted", "paced": "paced", "probes": "tail_probes"}
    counts = {"dumps": 0, "flushes": 0, "most flows": 0} | {f"most {name}": 0 for name in most}
    while time.monotonic() < until:
        flows = json.loads(appctl("acdc/dump-flows", "--json"))
        counts["most flows"] = max(counts["most flows"], len(flows))
        tenants = json.loads(appctl("acdc/stats", "--json"))["tenants"]
        for name, counter in most.items():
            total = sum(tenant["counters"][counter] for tenant in tenants)
            # A tenant that was destroyed begins at 0.
            counts[f"most {name}"] = max(counts[f"most {name}"], total)
        appctl("acdc/show")
        counts["dumps"] += 1
        if not counts["flushes"] or choose.random() < 0.1:
            # The tenant or port may be gone.
            with contextlib.suppress(RuntimeError):
                appctl("acdc/flush", *choose.choice([(), ("tenant=blue",), ("port=vnet1",)]))
            counts["flushes"] += 1
    return counts


# The scenes.


class Test(Hypervisor):
    def __init__(self) -> None:
        super().__init__(4)
        vsctl("create", "ACDC", "name=blue", "--", "create", "ACDC", "name=red", "beta=0.5",
              "police=true", "tail_probe=1000", "pace=true", "plb=true", "on_ramp=1000")  # fmt: skip
        self.restore()

    def start(self) -> None:
        """As ovs-ctl does, in fewer processes."""
        run("modprobe", "openvswitch")
        if not DB.exists():
            DB.parent.mkdir(parents=True, exist_ok=True)
            RUN_DIR.mkdir(parents=True, exist_ok=True)
            run("ovsdb-tool", "create", str(DB), "/usr/local/share/openvswitch/vswitch.ovsschema")
            remote = f"--remote=punix:{RUN_DIR / 'db.sock'}"
            run("ovsdb-server", str(DB), remote, "--pidfile", "--detach", "-vconsole:off")
            run("ovs-vsctl", "--no-wait", "init")
        run("ovs-vswitchd", "--pidfile", "--detach", "-vconsole:off")

    def stop(self) -> None:
        """The kernel's datapath stays."""
        run("ovs-appctl", "exit")
        while (RUN_DIR / "ovs-vswitchd.pid").exists():
            time.sleep(0.2)

    def restore(self) -> None:
        command = ["set", "Open_vSwitch", ".", "other_config:acdc-max-flows=16"]
        for guest, tenant in zip(self.guests, ("blue", "red", "red", "blue"), strict=True):
            command += ["--", "set", "Interface", guest.name, f"other_config:acdc-tenant={tenant}"]
        vsctl(*command)

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

    def endless_traffic(self, seed: int) -> tuple[list[Worker], int]:
        """To be killed; and the number of flows alive, not zero."""
        workers = self.traffic(time.monotonic() + 1000, seed)
        time.sleep(3)
        end = time.monotonic() + 60
        while not (stats := json.loads(appctl("acdc/stats", "--json"))["datapaths"]) or (
            stats[0]["n_flows"] == 0
        ):
            assert time.monotonic() < end, "no flows"
            time.sleep(0.2)
        return workers, int(stats[0]["n_flows"])

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
                     "tenants gone", "bindings changed", "ports changed", "dumps", "flushes",
                     "most evicted", "most probes"):  # fmt: skip
            assert total[name] > 0, f"no {name}"
        self.restore()

    def guest_goes(self, seed: int) -> None:
        """A guest's namespace, and with it its device and port, with flows alive."""
        workers, n = self.endless_traffic(seed)
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
        workers, n = self.endless_traffic(seed)
        refused = subprocess.run(["rmmod", "openvswitch"], text=True, capture_output=True)
        assert refused.returncode and "in use" in refused.stderr, refused
        self.stop()
        run("ovs-dpctl", "del-dp", "ovs-system")
        run("rmmod", *[name for name in MODULES if Path("/sys/module", name).exists()])
        for worker in workers:
            worker.kill()
        say(f"the datapath and the module went with {n} flows alive")

    def comes_again(self) -> None:
        self.start()
        self.restore()
        say("the module is back")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    say("started")
    assert os.cpu_count() != 1
    Path("/proc/sys/kernel/hung_task_timeout_secs").write_text("300")
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
    say("the module's caches are gone")
    kcsan = Path("/sys/kernel/debug/kcsan")
    if kcsan.exists():
        say("KCSAN: " + ", ".join(kcsan.read_text().split("\n")[:9]))


if __name__ == "__main__":
    main()
