# SPDX-License-Identifier: Apache-2.0
"""Runs one scenario: inside the lab's kernel, or natively in namespaces of
its own.  Reads RUN_DIR/config.json, writes RUN_DIR/result.json."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

# Who ran before, and left compiled files of the project, would shift times by nanoseconds,
# and with them all random numbers.
sys.pycache_prefix, sys.dont_write_bytecode = "/nonexistent", True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acdc_lab import clocks, results  # noqa: E402
from acdc_lab.net import CommandError, Network, am, sh, trunk_ends  # noqa: E402
from acdc_lab.scenarios import SCENARIOS, Options, Plan, Tenant, Traffic  # noqa: E402

PORT = 5001
SETTLED = 0.1  # s after a reload
SIZES = Path(__file__).resolve().parents[1] / "sizes"
# What a tenant can do in its own guest to be rid of the vSwitch's windows.
GREEDY = """
table inet greedy {
    chain input {
        type filter hook prerouting priority raw;
        tcp flags & (syn | rst) == 0 tcp window set 65535
    }
}
"""


def say(text: str) -> None:
    print(f"lab> {text}", flush=True)


class Event(threading.Thread):
    """What happens while traffic runs."""

    def __init__(self, target: Callable[..., None], *args: object) -> None:
        super().__init__(target=target, args=args, daemon=True)
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            self._error = error

    def finish(self) -> None:
        """Waits for its end, and raises what it raised."""
        self.join(60)  # Natively a busy machine takes its time.
        if self._error:
            raise self._error
        if self.is_alive():
            raise CommandError(f"{self.name} hangs")


class Run:
    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        self.dir = run_dir
        self.virtual: bool = config["virtual"]
        self.tool: str = config["tool"]
        self.options = Options.from_json(config["options"])
        self.plan: Plan = SCENARIOS[self.options.scenario](self.options)
        self.programs = am.Programs.from_mapping(config["programs"])
        self.net: Network
        self.helpers: list[subprocess.Popen[bytes]] = []
        self.trace: list[dict[str, Any]] = []
        self.start_ns = 0
        self.reloaded: tuple[float, float] | None = None  # From and to, s.
        self.moved: list[dict[str, Any]] = []  # See _move().

    def run(self) -> dict[str, Any]:
        if not self.virtual:
            self._check_kernel()
        say("topology")
        self.net = Network(self.plan, self.options, self.programs, am.RUN / "ovs", self.virtual)
        try:
            return self._run()
        finally:
            self._log_files()
            for helper in self.helpers:
                helper.terminate()
                helper.wait()
            if not self.virtual:  # There all ends with the kernel.
                self.net.close()

    def _run(self) -> dict[str, Any]:
        say("Open vSwitch")
        if self.virtual:
            # ovs-vswitchd takes the count of processors, which that of its
            # handlers depends on, after 10 s of monotonic time.
            time.sleep(11)
        self.net.start()
        if self.options.acdc:
            self._tenants()
        if not self.options.clock_at:
            self._set_clocks()
        for host in self.plan.hosts:
            if host.greedy:
                with self.net.inside(host.name):
                    sh("nft", "-f", "-", stdin=GREEDY)
        self.net.announce()
        self._servers()
        if self.options.capture:
            self._capture()
        before = {host: self.net.counters(host) for host in self.net.hosts}
        clients = self._clients()
        say("traffic")
        outputs = self._wait(clients)
        if self.options.capture:  # tcpdump is given packets once a second.
            time.sleep(2)
        say("counters")
        after = {host: self.net.counters(host) for host in self.net.hosts}
        return self._result(outputs, before, after)

    def _check_kernel(self) -> None:
        """Tells what this machine's kernel lacks, before anything is made."""
        options = self.options
        qdiscs = {"sch_htb": "htb"}
        if options.delay or any(host.delay for host in self.plan.hosts):
            qdiscs["sch_netem, which delays (--delay 0 does without)"] = "netem delay 1ms"
        for name, qdisc in qdiscs.items():
            try:
                sh("tc", "qdisc", "replace", "dev", "lo", "root", *qdisc.split())
            except CommandError as error:
                raise CommandError(f"this kernel has no {name}") from error
        sh("tc", "qdisc", "del", "dev", "lo", "root")
        if options.mark and not am.has_red() and not (which("clang") and which("bpftool")):
            raise CommandError(
                "this kernel has no sch_red, and marking without it needs clang and bpftool"
                " (--mark 0 does without)"
            )
        families = {"ovs_datapath": "openvswitch"} | (
            {"ovs_acdc": "AC/DC in its openvswitch"} if options.acdc else {}
        )
        for family, name in families.items() if options.datapath == "system" else ():
            try:
                sh("genl", "ctrl", "get", "name", family)
            except CommandError as error:
                raise CommandError(
                    f"this kernel has no {name} (--userspace does without)"
                ) from error
        missing = {host.stack for host in self.plan.hosts}
        missing -= set(am.available_stacks())
        if missing:
            raise CommandError(f"this kernel has no {', '.join(sorted(missing))} (--stack)")

    def _tenants(self) -> None:
        options = self.options
        tenants = {host.name: host.tenant for host in self.plan.hosts if host.tenant}
        for name in sorted(set(tenants.values())):
            tenant = self.plan.tenants.get(name, Tenant())
            for ovs in self.net.hypervisors:
                ovs.set_tenant(name, **options.tenant | tenant.settings)
                if rules := tenant.rules + options.rules:
                    ovs.set_rules(name, rules)
        for ovs in self.net.hypervisors if options.ptp else ():
            ovs.set_global(**{"acdc-clock": "ptp"})
        self.net.bind(tenants)
        for ovs in self.net.hypervisors:
            rows = {row["name"]: row for row in ovs.acdc("show")["tenants"]}
            for name in sorted(set(tenants.values())):
                # Refused, as by a module that is older than ovs-vswitchd, or an
                # unknown key.
                row = rows.get(name, {"error": "the datapath has no such tenant"})
                if "error" in row or "warning" in row:
                    status = ovs.vsctl("get", "acdc", name, "status")
                    raise CommandError(f"tenant {name} is not as asked for: {status}")

    def _servers(self) -> None:
        targets = {name for traffic in self.plan.traffic for name in traffic.to}
        for name in self.net.hosts:
            if name in targets:
                stack = self.net.hosts[name].stack
                command = [self.tool, "server", "--port", str(PORT), "--cc", stack]
                with self.net.inside(name):
                    self.helpers.append(subprocess.Popen(command))

    def _capture(self) -> None:
        self.dir.joinpath("pcap").mkdir(exist_ok=True)
        # 'eth0' of a guest is what the guest sees, the trunk what the network
        # sees: the engine is between the two.
        places = [(host, host, "eth0") for host in self.net.hosts]
        if self.options.uplinks:  # Behind their queues, where packets are held.
            places += [(f"u-{host}", f"v-{host}", f"u-{host}") for host in self.net.hosts]
        for trunk in self.plan.trunks:
            for node, end in zip((trunk.a, trunk.b), trunk_ends(trunk), strict=True):
                places.append((end, node, end))
        for name, node, device in places:
            command = [
                "tcpdump", "-i", device, "-s", "140", "-U", "-Z", "root",
                "-w", str(self.dir / "pcap" / f"{name}.pcap"), "tcp",
            ]  # fmt: skip
            with self.net.inside(node):
                self.helpers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        time.sleep(1)

    def _clients(self) -> list[tuple[Traffic, subprocess.Popen[bytes]]]:
        options = self.options
        # Whole seconds: clients and trace take their samples at the same time.
        self.start_ns = (time.monotonic_ns() // 1_000_000_000 + 3) * 1_000_000_000
        clients = []
        for index, traffic in enumerate(self.plan.traffic):
            args = list(traffic.args)
            if "--sizes" in args:
                sizes = SIZES / f"{args[args.index('--sizes') + 1]}.txt"
                args[args.index("--sizes") + 1] = str(sizes)
            if "--load" in args:
                at = args.index("--load")
                load = float(args[at + 1])
                args[at : at + 2] = ["--rate", str(load * options.rate / 8 / mean_size(sizes))]
            seconds = traffic.seconds or options.seconds - traffic.start
            command = [
                self.tool, traffic.kind,
                "--to", ",".join(self.net.address[name] for name in traffic.to),
                "--port", str(PORT), "--cc", self.net.hosts[traffic.source].stack,
                "--start", str(self.start_ns + int(traffic.start * 1e9)),
                "--seconds", str(seconds),
                *(["--interval", str(options.interval)] if traffic.kind == "bulk" else []),
                *(["--seed", str(options.seed * 1000 + index)] if traffic.kind != "bulk" else []),
                *args,
            ]  # fmt: skip
            output = (self.dir / f"{traffic.name}.json").open("w")
            with self.net.inside(traffic.source):
                process = subprocess.Popen(command, stdout=output)
            clients.append((traffic, process))
        return clients

    def _wait(
        self, clients: list[tuple[Traffic, subprocess.Popen[bytes]]]
    ) -> list[tuple[Traffic, dict[str, Any]]]:
        options = self.options
        threading.Thread(target=self._progress, daemon=True).start()
        events = [Event(self._trace)] if options.trace else []
        for when, event in (
            (options.restart, self._restart),
            (options.reload, self._reload),
            (options.black_hole, self.net.break_spine),
            (options.clock_at, self._set_clocks),
        ):
            if when:
                events.append(Event(self._at, when, event))
        if self.plan.moves:
            events.append(Event(self._move))
        if options.acdc and self.plan.changes:
            events.append(Event(self._change))
        for thread in events:
            thread.start()
        outputs = []
        for traffic, process in clients:
            try:
                status = process.wait(2 * options.seconds + 60)
            except subprocess.TimeoutExpired:
                raise CommandError(f"client {traffic.name} hangs") from None
            if status:
                raise CommandError(f"client {traffic.name} ended with status {status}")
            text = (self.dir / f"{traffic.name}.json").read_text()
            outputs.append((traffic, json.loads(text)))
        for thread in events:
            thread.finish()
        return outputs

    def _sleep_to(self, seconds: float) -> None:
        ahead = self.start_ns / 1e9 + seconds - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)

    def _progress(self) -> None:
        seconds = self.options.seconds
        step = max(0.1, seconds / 10)
        for i in range(1, round(seconds / step) + 1):
            self._sleep_to(i * step)
            say(f"{i * step:.1f} of {seconds:g} s")

    def _trace(self) -> None:
        options = self.options
        for i in range(1, round(options.seconds / options.trace) + 1):
            self._sleep_to(i * options.trace)
            self.trace.append({"t": i * options.trace, "flows": self._flows()})

    def _flows(self) -> list[dict[str, Any]]:
        found = []
        for ovs in self.net.hypervisors if self.options.acdc else ():
            with contextlib.suppress(OSError):  # While it is restarted.
                found += ovs.acdc("dump-flows")
        return found

    def _change(self) -> None:
        for change in self.plan.changes:
            self._sleep_to(change.at)
            for ovs in self.net.hypervisors:
                if change.settings:
                    ovs.set_tenant(change.tenant, **change.settings)
                else:
                    ovs.del_tenant(change.tenant)

    def _set_clocks(self) -> None:
        ahead = [host.name for host in self.plan.hosts][1::2]
        clocks.set_clocks(self.options, [f"u-{name}" for name in ahead], self.dir)

    def _at(self, when: float, event: Callable[[], None]) -> None:
        self._sleep_to(when)
        event()

    def _restart(self) -> None:
        self.net.restart()
        # It knows no addresses now, and would flood for half a second.
        self.net.announce()

    def _reload(self) -> None:
        self.net.reload()
        self.net.announce()
        self.reloaded = self.options.reload, time.monotonic() - self.start_ns / 1e9

    def _move(self) -> None:
        """What there is between moves: when that began and ended, where the guest was, and at
        the end how many connections it had there, and with AC/DC."""
        begin, host = self.options.seconds * 0.1, self.net.hosts[self.plan.moves[0].host]
        at, tenant = host.switch, host.tenant
        end = [move.at for move in self.plan.moves] + [self.options.seconds - 0.01]
        for move, until in zip([*self.plan.moves, None], end, strict=True):
            self._sleep_to(until)
            known = self.options.acdc and tenant
            n, governed = self.net.governed(host.name) if known else (0, 0)
            entry = {"at": at, "began": begin, "ended": until}
            self.moved.append(entry | {"connections": n, "capable": governed})
            if move:
                self.net.move(move)
                at, tenant = move.to, move.tenant
                begin = time.monotonic() - self.start_ns / 1e9 + SETTLED

    def _log_files(self) -> None:
        for ovs in self.net.hypervisors:
            for log in ovs.rundir.glob("*.log"):
                name = f"{ovs.rundir.name}-{log.name}"
                (self.dir / name).write_bytes(log.read_bytes())

    def _result(
        self,
        outputs: list[tuple[Traffic, dict[str, Any]]],
        before: dict[str, dict[str, int]],
        after: dict[str, dict[str, int]],
    ) -> dict[str, Any]:
        options = self.options
        flows = []
        rtt: list[float] = []
        probes: list[list[float]] = []
        fct: dict[str, list[float]] = {}
        directions: dict[str, list[float]] = {}  # Goodput of each stream from a switch to another.
        pooled: dict[str, list[float]] = {}  # Of 'small1', 'small2': 'small'.
        begin = options.seconds * 0.1  # Past everyone's slow start.
        for traffic, output in outputs:
            stack = self.net.hosts[traffic.source].stack
            flow: dict[str, Any] = {
                "name": traffic.name, "kind": traffic.kind, "source": traffic.source,
                "to": traffic.to, "stack": stack, "start": traffic.start,
                "connected": output.get("connected"),
            }  # fmt: skip
            if "error" in output:
                flow["error"] = output["error"]
            if traffic.kind == "bulk":
                samples = output.get("samples", [])
                fields = output.get("fields", [])
                ends = [self.net.hosts[name].switch for name in (traffic.source, traffic.to[0])]
                ways = [("", "bytes_acked", ends)]
                if "--both" in traffic.args:
                    ways.append(("_back", "bytes_received", ends[::-1]))
                for suffix, field, (near, far) in ways:
                    column = fields.index(field) if samples else 0
                    progress = [[sample[0], sample[column]] for sample in samples]
                    share = results.goodput(
                        progress, max(0.0, begin - traffic.start), options.seconds
                    )
                    directions.setdefault(f"{near} to {far}", []).append(share)
                    flow[f"goodput{suffix}_mbps"] = share
                    flow[f"goodput{suffix}_series"] = results.series(progress)
                    flow[f"pause{suffix}_s"] = results.pause(progress)
                flow["tcp_info"] = {"fields": fields, "samples": samples}
            elif traffic.kind in ("rpc", "query"):
                requests = output.get("requests", [])
                times = output.get("rtt_us", [rtt_us for _, rtt_us in requests])
                flow["rtt_us"] = results.distribution(times)
                flow["retransmits"] = output.get("retrans")
                pooled.setdefault(results.stem(traffic.name), []).extend(times)
                if traffic.name == "probe":
                    rtt += times
                    probes += [[t + traffic.start, rtt_us] for t, rtt_us in requests]
            else:
                for group, taken in results.completion(output["flows"], output["ended"]):
                    fct.setdefault(group, []).append(taken)
                flow["flows"] = output["flows"]
            flows.append(flow)
        result: dict[str, Any] = {
            "flows": flows,
            **results.sharing([share for shares in directions.values() for share in shares]),
            "directions": {name: results.sharing(shares) for name, shares in directions.items()},
            "rtt_us": results.distribution(rtt),
            "rtt_cdf": results.cdf(rtt),
            "rpc_us": {name: results.distribution(values) for name, values in pooled.items()},
            "fct_ms": {name: results.distribution(values) for name, values in fct.items()},
            "queues": self.net.queues(),
            "tcp": results.total(
                [results.difference(after[host], before[host]) for host in self.net.hosts]
            ),
            "hosts": {
                host: results.difference(after[host], before[host]) for host in self.net.hosts
            },
            "kernel": os.uname().release,
            # The wall clock's, which captures have.
            "start_ns": self.start_ns + time.time_ns() - time.monotonic_ns(),
        }
        if options.acdc:
            result["engine"] = self.net.engine()
            result["engine_flows"] = [
                flow for ovs in self.net.hypervisors for flow in ovs.acdc("dump-flows")
            ]
        if self.trace:
            result["trace"] = self.trace
        if self.moved:
            result["moves"] = [
                entry | results.within(flows, probes, entry["began"], entry["ended"])
                for entry in self.moved
            ]
        if self.reloaded:
            begun, done = self.reloaded
            spans = {"before": (begin, begun), "after": (done + SETTLED, options.seconds)}
            result["reload"] = {"began": begun, "ended": done} | {
                name: results.within(flows, probes, *span) for name, span in spans.items()
            }
        return result


def mean_size(path: Path) -> float:
    """The mean of a distribution of flow sizes (see tools/traffic.c)."""
    points = [
        tuple(map(float, line.split()))
        for line in path.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    return (
        sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in zip(points, points[1:], strict=False))
        + points[0][0] * points[0][1]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--poweroff", action="store_true", help="this is process 1")
    parser.add_argument("run_dir", type=Path)
    args = parser.parse_args()
    if not args.poweroff:
        am.enter()
    status = 1
    try:
        config = json.loads((args.run_dir / "config.json").read_text())
        result = Run(args.run_dir, config).run()
        (args.run_dir / "result.json").write_text(json.dumps(result))
        status = 0
    except (CommandError, am.OvsError, am.QueueError) as problem:
        (args.run_dir / "failure.txt").write_text(str(problem))
    except Exception:
        error = traceback.format_exc()
        (args.run_dir / "error.txt").write_text(error)
        say(error)
    if args.poweroff:
        sys.stdout.flush()
        ctypes.CDLL(None).reboot(0x4321FEDC)  # LINUX_REBOOT_CMD_POWER_OFF
    return status


if __name__ == "__main__":
    sys.exit(main())
