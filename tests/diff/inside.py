# SPDX-License-Identifier: Apache-2.0
"""Plays the conversations of one arm, epoch after epoch, each in another network:
as the first process of the lab's kernel, or natively.  Reads RUN_DIR/config.json,
leaves RUN_DIR/epoch-N.txt and RUN_DIR/result.json."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import network  # noqa: E402

from acdc_testlib.ovs import Ovs  # noqa: E402

# What ovs-vswitchd may say in a run: of feedback about packets that the network
# duplicated or corrupted, and of a busy machine.
EXPECTED = re.compile(
    r"\|acdc_\w+\|WARN\|tenant .* feedback_bad \+"
    r"|\|acdc_\w+\|WARN\|Dropped "
    r"|ovs_datapath|timeval|Unreasonably long"
)


class Arm:
    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        self.dir = run_dir
        self.config = config
        self.acdc: bool = config["acdc"]
        self.ovs = Ovs()
        self.pairs: list[network.Pair] = []
        self.rounds: list[dict[str, int]] = []  # Of a soak, what was left of each.
        self.of_mode: dict[str, list[network.Pair]] = {}  # Whom its rounds are between.
        self.bound: set[str] = set()  # Ports with a tenant.
        self.intact: list[network.Pair] = []  # Whose packets nothing corrupts now.
        self.damage = Counter[str]()  # What guests counted, see _note_damage().

    def make(self, trouble: bool = True) -> None:
        self.ovs.add_bridge("br0", normal=False)
        draw = random.Random(f"pairs {self.config['seed']}")
        self.pairs = [network.Pair(i, draw, trouble) for i in range(self.config["pairs"])]
        if not trouble:
            self._shape()
        network.make_pairs(self.ovs, self.pairs)
        if self.acdc:
            self._vsctl([["create", "acdc", f"name={pair.tenant}"] for pair in self.pairs])
        print("lab> network made", flush=True)

    def _vsctl(self, commands: list[list[str]]) -> None:
        words = [word for command in commands for word in ("--", *command)]
        self.ovs.vsctl(*words[1:])

    def _bind(self, draw: random.Random) -> None:
        """Both ends of most pairs, one of the others."""
        commands = []
        self.bound.clear()
        for pair in self.pairs:
            bound = draw.choice([(1, 1), (1, 1), (1, 1), (1, 1), (1, 0), (0, 1)])
            for port, yes in zip(pair.guest_ports, bound, strict=True):
                if yes:
                    self.bound.add(port)
                    commands.append(
                        ["set", "interface", port, f"other_config:acdc-tenant={pair.tenant}"]
                    )
                else:
                    commands.append(["remove", "interface", port, "other_config", "acdc-tenant"])
            commands += network.policy(draw, pair.tenant)
        if self.acdc:
            self._vsctl(commands)

    def _trouble(self, draw: random.Random) -> str:
        """Returns the pairs as converse reads them."""
        lines = []
        self.intact = []
        for pair in self.pairs:
            troubles = [network.Trouble(draw), network.Trouble(draw)]
            if not any(trouble.corrupt for trouble in troubles):
                self.intact.append(pair)
            lossless = all(trouble.lossless for trouble in troubles)
            # Natively packets are lost where processors are busy.
            certain = not any(trouble.reorder for trouble in troubles) and not pair.relay
            for guest in pair.guests:
                sysctls = network.guest_sysctls(draw, lossless, always=certain)
                if pair not in self.intact:
                    # Two bits of a segment, each in another fragment, can leave its
                    # checksum as it was.
                    sysctls["ipv4/ip_no_pmtu_disc"] = 0
                network.write_sysctls(guest, sysctls)
            if pair.relay:
                pair.relay.start(self.config["relay"], troubles)
            else:
                tc = [line for k in (0, 1) for line in troubles[k].netem(f"r{k}")]
                network.batch(pair.router, ["tc"], tc)
            self._routes(pair, draw)
            # SYNs cross for certain only where no time passes between two connect().  A bit
            # of an IPv6 option may have its receiver answer with ICMP, which ends a connection.
            flags = "f6" + ("" if pair.relay else "s") + ("o" if pair in self.intact else "")
            lines.append(pair.line(flags) + "\n")
        return "".join(lines)

    def _routes(self, pair: network.Pair, draw: random.Random) -> None:
        network.batch(pair.router, ["ip"], network.routes(pair, draw))

    def _capture(self, number: int) -> None:
        """What all guests' devices see."""
        for pair in self.pairs:
            for side, guest in enumerate(pair.guests):
                file = self.dir / f"epoch-{number}-{pair.index}-{side}.pcap"
                guest.popen("tcpdump", "-U", "-i", "eth0", "-s", "128", "-w", file)

    def _converse(
        self, pairs: Path, first: int, count: int, mode: str, stream: IO[str]
    ) -> subprocess.Popen[str]:
        numbers = [self.config["seed"], first, count, self.config["parallel"], self.config["limit"]]
        return subprocess.Popen(
            [self.config["converse"], *map(str, numbers), pairs, mode],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _damage(self) -> list[Counter[str]]:
        """What each pair's guests have counted: fragments, packets put together from
        them, and wrong TCP checksums."""
        found = []
        for pair in self.pairs:
            counts = Counter[str]()
            for guest in pair.guests:
                snmp = network.snmp(guest)
                counts["fragments"] += snmp["Ip", "ReasmReqds"]
                counts["reassembled"] += snmp["Ip", "ReasmOKs"]
                counts["bad_checksums"] += snmp["Tcp", "InCsumErrors"]
            found.append(counts)
        return found

    def _note_damage(self, number: int, before: list[Counter[str]]) -> None:
        """Where nothing corrupts no checksum may be wrong, but that of a packet put
        together from fragments of different ones (RFC 4963)."""
        for pair, old, new in zip(self.pairs, before, self._damage(), strict=True):
            new.subtract(old)
            if pair not in self.intact:
                self.damage["corrupted"] += new["fragments"]
                continue
            self.damage["reassembled"] += new["reassembled"]
            self.damage["bad_checksums"] += new["bad_checksums"]
            if new["bad_checksums"] and not new["reassembled"]:
                self.damage["damaged"] += new["bad_checksums"]
            if new["bad_checksums"]:
                print(f"lab> epoch {number}, pair {pair.index}: {dict(new)}", flush=True)

    def _memory(self) -> dict[str, int]:
        """Once all flows are past their linger, and in the lab, where that takes no
        time and the kernel's memory is looked at, all connections past TIME-WAIT."""
        time.sleep(30 if self.config["native"] else 200)
        status = Path(f"/proc/{self.ovs.vswitchd_pid}/status").read_text()
        meminfo = Path("/proc/meminfo").read_text()
        slab = re.search(r"SUnreclaim: *(\d+)", meminfo)
        rss = re.search(r"VmRSS:\s*(\d+)", status)
        assert slab and rss
        (datapath,) = self.ovs.acdc("stats")["datapaths"]
        return {
            "flows": datapath["n_flows"],
            "table_bytes": datapath["table_bytes"],
            "vswitchd_kb": int(rss[1]),
            "slab_kb": int(slab[1]),
        }

    def _shape(self) -> None:
        """Which pairs a soak's rounds have: as drawn, but in the lab's kernel two
        with large packets and two with small ones for bulk data."""
        self.of_mode = {mode: self.pairs for mode in ("short", "large", "packets")}
        if self.config["native"]:
            return
        self.of_mode = {
            "short": self.pairs[:4],
            "large": self.pairs[4:6],
            "packets": self.pairs[6:],
        }
        for pair in self.of_mode["large"]:
            pair.uniform(9000, offload=True)
        for pair in self.of_mode["packets"]:
            pair.uniform(1500, offload=False)

    def _links(self) -> None:
        """In virtual time nothing but a link's rate takes any."""
        for mode, pairs in self.of_mode.items():
            netem = "netem limit 2000 delay 50us rate 10gbit"
            # Marks, so that windows are what limits the guests.
            red = (
                "red limit 32mb min 1000000 max 1000001 avpkt 9000 burst 120 probability 1 ecn"
                " bandwidth 10gbit"
            )
            for pair in pairs:
                for device in ("r0", "r1"):
                    tc = [f"qdisc replace dev {device} root handle 1: {netem}"]
                    if mode == "large":
                        tc = [
                            f"qdisc replace dev {device} root handle 1:"
                            " tbf rate 100gbit burst 1mb limit 32mb",
                            f"qdisc replace dev {device} parent 1:1 handle 2: {red}",
                        ]
                    network.batch(pair.router, ["tc"], tc)

    def soak(self) -> None:
        """Short connections, then bulk ones, in a network without trouble."""
        self.make(trouble=False)
        self._vsctl(
            [
                ["set", "interface", port, f"other_config:acdc-tenant={pair.tenant}"]
                for pair in self.pairs
                for port in pair.guest_ports
            ]
        )
        if not self.config["native"]:
            self._links()
        first = 0
        for mode, count, size in self.config["rounds"]:
            pairs = Path(self.ovs.dir, f"pairs-{mode}")
            pairs.write_text("".join(pair.line("6") + "\n" for pair in self.of_mode[mode]))
            began = time.monotonic()
            with (self.dir / f"epoch-{len(self.rounds)}.txt").open("w") as stream:
                process = self._converse(pairs, first, count, str(size or mode), stream)
                _, said = process.communicate()
            if process.returncode or not self.ovs.vswitchd_running():
                raise RuntimeError(f"converse: {said}\n{self.ovs.log_tail()}")
            seconds = time.monotonic() - began
            first += count
            words = said.split()
            done = {"connections": int(words[-3]), "bytes": int(words[-1]), **self._memory()}
            print(f"lab> {mode}: {done} in {seconds:.1f} s", flush=True)
            self.rounds.append(done)

    def _forget(self, process: subprocess.Popen[str], draw: random.Random) -> None:
        """In the first minute what AC/DC knows is lost again and again, of one end of a pair as
        a rule.  Natively ovs-vswitchd is restarted, too, once."""
        restart = draw.randrange(5) if self.config["native"] else -1
        deadline = time.monotonic() + 60
        for i in itertools.count():
            try:
                process.wait(draw.uniform(0.2, 3))
            except subprocess.TimeoutExpired:
                pass
            if process.poll() is not None or time.monotonic() > deadline:
                return
            if i == restart:
                self.ovs.restart_vswitchd(draw.choice([signal.SIGTERM, signal.SIGKILL]))
                continue
            for pair in self.pairs:
                sides = draw.choice([[0], [0], [1], [1], [0, 1], []])
                for port in self.bound.intersection(pair.guest_ports[side] for side in sides):
                    self.ovs.appctl("acdc/flush", f"port={port}")

    def epoch(self, number: int, first: int, count: int) -> None:
        draw = random.Random(f"epoch {self.config['seed']} {number}")
        pairs = Path(self.ovs.dir, "pairs")
        pairs.write_text(self._trouble(draw))
        self._bind(draw)
        if self.config["capture"]:
            self._capture(number)
        before = self._damage()
        began = time.monotonic()
        with (self.dir / f"epoch-{number}.txt").open("w") as stream:
            process = self._converse(pairs, first, count, "mixed", stream)
            if self.acdc and self.config["forget"]:
                self._forget(process, random.Random(f"forget {self.config['seed']} {number}"))
            # In the midst of it other path MTUs, another policy.
            try:
                process.wait(draw.uniform(0.5, 30))
            except subprocess.TimeoutExpired:
                for pair in self.pairs:
                    self._routes(pair, draw)
                if self.acdc:
                    self._vsctl([c for p in self.pairs for c in network.policy(draw, p.tenant)])
            _, said = process.communicate()
        if process.returncode:
            raise RuntimeError(f"converse: {said}")
        if not self.ovs.vswitchd_running():
            raise RuntimeError(f"ovs-vswitchd has ended\n{self.ovs.log_tail()}")
        self._note_damage(number, before)
        seconds = time.monotonic() - began
        print(f"lab> epoch {number}: {said.strip()} in {seconds:.0f} s", flush=True)

    def run(self) -> None:
        self.make()
        first, end = self.config["first"], self.config["first"] + self.config["count"]
        per_epoch = self.config["per_epoch"]
        while first < end:
            number = first // per_epoch
            until = min(end, (number + 1) * per_epoch)
            self.epoch(number, first, until - first)
            first = until

    def result(self) -> dict[str, Any]:
        """What is left of it all."""
        result: dict[str, Any] = {
            "log": [
                line
                for line in self.ovs.log.read_text(errors="replace").splitlines()
                if re.search(r"\|(WARN|ERR|EMER)\|", line) and not EXPECTED.search(line)
            ],
            "rounds": self.rounds,
            "damage": self.damage,
        }
        if self.acdc:
            stats = result["stats"] = self.ovs.acdc("stats")
            counters = [tenant["counters"] for tenant in stats["tenants"]]
            result["resumed"] = sum(counter["flows_resumed"] for counter in counters)
            many = self.config.get("forget") and self.config["count"] >= 1000
            if many and not result["resumed"]:
                result["log"].append("no connection was taken up again")
            if not sum(counter["window_rewritten"] for counter in counters):
                # As when module and ovs-vswitchd are not of one build.
                result["log"].append("AC/DC was not in force")
        return result


def main(run_dir: Path) -> None:
    config = json.loads((run_dir / "config.json").read_text())
    os.environ |= {
        "ACDC_TEST_DATAPATH": "netdev" if config["native"] else "system",
        "ACDC_ENV": config["env"],
    }
    if not config["native"]:
        os.environ["TMPDIR"] = "/run"
        # As in tests/lab/packet.
        time.sleep(11)
    arm = Arm(run_dir, config)
    try:
        if "rounds" in config:
            arm.soak()
        else:
            arm.run()
        (run_dir / "result.json").write_text(json.dumps(arm.result()))
    finally:
        (run_dir / "ovs-vswitchd.log").write_text(arm.ovs.log.read_text(errors="replace"))
        if config["native"]:
            for pair in arm.pairs:
                pair.close()
            arm.ovs.close()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[-1]))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        if os.getpid() == 1:
            ctypes.CDLL(None).reboot(0x4321FEDC)  # LINUX_REBOOT_CMD_POWER_OFF
