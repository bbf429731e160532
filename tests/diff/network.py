# SPDX-License-Identifier: Apache-2.0
"""Pairs of guests, each with a router between them that makes trouble:

    guest a -- Open vSwitch -- router -- Open vSwitch -- guest b

What a pair is like, and what happens to it in an epoch, is drawn from a seed and is
the same with AC/DC and without."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs, datapath_type

ALGORITHMS = ("dctcp", "swift", "reno", "cubic", "none")


def write_sysctls(ns: Netns, values: dict[str, object]) -> None:
    with ns.entered():
        for name, value in values.items():
            path = Path("/proc/sys/net", name)
            if path.exists():  # A kernel may lack it, syncookies for instance.
                path.write_text(f"{value}\n")


def batch(ns: Netns, program: list[str], lines: list[str]) -> None:
    """Many commands of ip or tc in one process: those are what costs time."""
    with ns.entered():
        done = subprocess.run(
            [*program, "-b", "-"],
            input="\n".join(lines) + "\n", text=True, capture_output=True,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr}{done.stdout}")


def snmp(ns: Netns) -> dict[tuple[str, str], int]:
    """What nstat tells, without a process for it."""
    with ns.entered():
        lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    counts = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol = names.partition(":")[0]
        for name, value in zip(names.split()[1:], values.split()[1:], strict=True):
            counts[protocol, name] = int(value)
    return counts


def make_pairs(ovs: Ovs, pairs: list[Pair]) -> None:
    for pair in pairs:
        batch(ovs.ns, ["ip"], pair.links())
    ports = [port for pair in pairs for port in pair.ports]
    words = []
    for number, port in enumerate(ports, start=1):
        words += ["--", "add-port", "br0", port]
        words += ["--", "set", "interface", port, f"ofport_request={number}"]
    ovs.vsctl(*words[1:])
    # A guest's port and its uplink are neighbours.
    flows = [f"in_port={i},actions=output:{(i - 1 ^ 1) + 1}" for i in range(1, len(ports) + 1)]
    path = ovs.dir / "flows"
    path.write_text("\n".join(flows) + "\n")
    ovs.ofctl("add-flows", "br0", str(path))
    for pair in pairs:
        pair.configure(ovs)


class Relay:
    """Makes trouble between router and Open vSwitch where the kernel has no netem."""

    def __init__(self) -> None:
        self.ns = Netns(ipv6=False)
        self._process: subprocess.Popen[str] | None = None

    def links(self, side: int, router: Netns, size: str) -> list[str]:
        """One device towards the router; the other one is the switch's peer."""
        return [
            f"link add dev z{side} {size} type veth peer name r{side} {size} netns {router.pid}",
            f"link set dev z{side} netns {self.ns.pid}",
        ]

    def prepare(self) -> None:
        for device in ("z0", "z1", "x0", "x1"):
            self.ns.without_offloads(device)
            self.ns.run("ip", "link", "set", device, "up")

    def start(self, program: str, troubles: list[Trouble]) -> None:
        self.stop()
        lines = []
        for side, trouble in enumerate(troubles):
            lines.append(f"z{side} x{side} {trouble.relay()}\n")
            lines.append(f"x{side} z{side} 0 0 0 0 0 0\n")
        self._process = self.ns.popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("".join(lines))
        self._process.stdin.close()
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("relay does not start")

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()


class Pair:
    """Two guests and the router between them, which makes trouble or not."""

    def __init__(self, index: int, draw: random.Random, trouble: bool) -> None:
        self.index = index
        self.trouble = trouble
        self.tenant = f"t{index}"
        self.guests = [Netns(), Netns()]
        self.router = Netns()
        # The userspace datapath: natively, on devices without tags and offloads.
        native = datapath_type() == "netdev"
        self.relay = Relay() if native and trouble else None
        self.mtu = draw.choices([1500, 1400, 9000], [6, 2, 2], k=2)
        self.tags = [0, 0] if native else draw.choices([0, 1, 2], [3, 1, 1], k=2)
        self.offload = draw.random() < 0.5 and not native
        # Of each side: the guest's port, that of the router.
        self.guest_ports = [f"g{side}-{index}" for side in (0, 1)]
        self.uplinks = [f"u{side}-{index}" for side in (0, 1)]
        self.ports = [
            name for pair in zip(self.guest_ports, self.uplinks, strict=True) for name in pair
        ]
        self.devices: list[str] = []  # The router's, with its addresses.

    def uniform(self, mtu: int, offload: bool) -> None:
        """Instead of what was drawn."""
        self.mtu, self.tags, self.offload = [mtu, mtu], [0, 0], offload

    def links(self) -> list[str]:
        lines = []
        for side, guest in enumerate(self.guests):
            for name, device, ns in (
                (self.guest_ports[side], "eth0", guest),
                (self.uplinks[side], f"r{side}", self.router),
            ):
                size = f"mtu {self.mtu[side]}"
                if self.relay and ns is self.router:
                    lines += self.relay.links(side, ns, size)
                    device, ns = f"x{side}", self.relay.ns
                lines += [
                    f"link add dev {name} {size} type veth"
                    f" peer name {device} {size} netns {ns.pid}",
                    f"link set dev {name} up",
                ]
        return lines

    def configure(self, ovs: Ovs) -> None:
        for side, guest in enumerate(self.guests):
            ends = (guest, "eth0"), (self.router, f"r{side}")
            ports = (ovs.ns, self.guest_ports[side]), (ovs.ns, self.uplinks[side])
            for ns, device in () if self.offload else (*ends, *ports):
                ns.without_offloads(device)
            for end, (ns, device) in enumerate(ends):
                name = self._configure(ns, device, side, end)
            self.devices.append(name)
        if self.relay:
            self.relay.prepare()
        elif self.trouble:
            for guest in self.guests:
                # No packet arrives at once, whatever the router does.
                line = "qdisc replace dev eth0 root netem limit 10000 delay 20us rate 1gbit"
                batch(guest, ["tc"], [line])
        write_sysctls(
            self.router,
            {
                "ipv4/ip_forward": 1,
                "ipv6/conf/all/forwarding": 1,
                "ipv4/icmp_ratelimit": 0,
            },
        )

    def _configure(self, ns: Netns, device: str, side: int, end: int) -> str:
        """Addresses; returns the device that has them.  'end' is 0 for the guest."""
        mtu, tags = self.mtu[side], self.tags[side]
        mac = f"02:00:00:{self.index:02x}:{side:02x}:"
        lines = [f"link set dev {device} address {mac}{end:02x} up"]
        for tag, protocol in ((5, "802.1ad"), (6, "802.1q"))[2 - tags :]:
            mtu -= 4
            outer, device = device, f"{device}.{tag}"
            lines += [
                f"link add link {outer} name {device} type vlan proto {protocol} id {tag}",
                f"link set dev {device} mtu {mtu} up",
            ]
        networks = f"10.{self.index}.{side}.", f"fd00:{self.index}:{side}::"
        for network, length in zip(networks, ("24", "64 nodad"), strict=True):
            far = f"{network}{2 - end}"
            lines += [
                f"address add {network}{1 + end}/{length} dev {device}",
                f"neighbor add {far} lladdr {mac}{1 - end:02x} dev {device} nud permanent",
            ]
        batch(ns, ["ip"], lines)
        if end == 0:
            for version, network in zip(("-4", "-6"), networks, strict=True):
                batch(ns, ["ip", version], [f"route add default via {network}2"])
        return device

    def line(self, flags: str) -> str:
        """For converse."""
        return " ".join(
            [
                *(f"/proc/{guest.pid}/ns/net" for guest in self.guests),
                *(f"10.{self.index}.{side}.1" for side in (0, 1)),
                *(f"fd00:{self.index}:{side}::1" for side in (0, 1)),
                flags,
            ]
        )

    def close(self) -> None:
        if self.relay:
            self.relay.stop()
            self.relay.ns.close()
        for ns in (*self.guests, self.router):
            ns.close()


def guest_sysctls(draw: random.Random, lossless: bool, always: bool) -> dict[str, object]:
    """'always': it may have SYN cookies always.  Where a cookie is lost a connection is, and data
    that overtakes the handshake's ACK is refused, or a byte to three of it count as the MSS."""
    rmem = 1 << draw.choice([16, 17, 18, 20, 22, 23, 25, 27, 29, 30])
    yes = [0, 1, 1, 1]
    return {
        "ipv4/tcp_timestamps": draw.choice(yes),
        "ipv4/tcp_sack": draw.choice(yes),
        "ipv4/tcp_window_scaling": draw.choice(yes),
        "ipv4/tcp_ecn": draw.choice([0, 1, 2]),
        # The largest gives the window scale: 0...14.
        "ipv4/tcp_rmem": f"4096 {min(131072, rmem)} {rmem}",
        "ipv4/tcp_mtu_probing": draw.choice([0, 0, 1, 2]),
        # Without it packets are fragmented on the way.
        "ipv4/ip_no_pmtu_disc": draw.choice([0, 0, 1]),
        "ipv4/tcp_fastopen": draw.choice([0x3, 0x3, 0x7 | 0x200]),
        "ipv4/tcp_slow_start_after_idle": draw.choice([0, 1]),
        "ipv4/tcp_no_metrics_save": draw.choice([0, 1]),
        "ipv4/tcp_syncookies": min(
            draw.choice([0, 1, 2] if lossless else [0, 1]), 2 if always else 1
        ),
        "ipv4/tcp_keepalive_time": draw.randint(5, 30),
        "ipv4/tcp_keepalive_intvl": 5,
        # Nothing may fail by chance.
        "ipv4/tcp_keepalive_probes": 30,
        "ipv4/tcp_syn_retries": 9,
        "ipv4/tcp_synack_retries": 9,
        "ipv4/tcp_orphan_retries": 15,
        "ipv4/tcp_retries2": 15,
    }


class Trouble:
    """What a router does to the packets it sends to one side."""

    def __init__(self, draw: random.Random) -> None:
        self.rate_mbit = draw.choice([5, 20, 100, 1000])
        # Less than two jiffies is not reordered by much.
        self.delay_us = draw.choice([100, 500, 2000, 10000, 30000])
        self.loss = self.duplicate = self.reorder = self.corrupt = 0.0
        self.ecn = False
        kind = draw.choice(["none", "loss", "marks", "duplicate", "reorder", "corrupt", "all"])
        if kind in ("loss", "marks", "all"):
            self.loss = draw.choice([0.5, 2, 5])
            # Instead of a loss a mark, for packets with ECT.
            self.ecn = kind == "marks" or draw.random() < 0.3
        if kind in ("duplicate", "all"):
            self.duplicate = draw.choice([1, 5, 20])
        if kind in ("reorder", "all"):
            self.reorder = draw.choice([2, 10, 30])
        if kind in ("corrupt", "all"):
            self.corrupt = draw.choice([0.2, 1, 3])
        self.lossless = kind in ("none", "duplicate", "reorder")

    def netem(self, device: str) -> list[str]:
        """For tc.  A netem that replaces another one keeps what it is not told
        anew, corruption for instance: so something else in between."""
        words = [f"qdisc replace dev {device} root netem limit 2000"]
        words += [f"delay {self.delay_us}us {self.delay_us // 10}us"]
        words += [f"rate {self.rate_mbit}mbit"]
        if self.loss:
            words.append(f"loss {self.loss}%")
        if self.ecn:
            words.append("ecn")
        if self.duplicate:
            words.append(f"duplicate {self.duplicate}%")
        if self.reorder:
            words.append(f"reorder {self.reorder}%")
        if self.corrupt:
            words.append(f"corrupt {self.corrupt}%")
        return [f"qdisc replace dev {device} root pfifo", " ".join(words)]

    def relay(self) -> str:
        """The same for relay.c, as far as it can."""
        troubles = f"{self.loss} {self.duplicate} {self.reorder} {self.corrupt}"
        return f"{troubles} {self.delay_us} {self.ecn:d}"


def routes(pair: Pair, draw: random.Random) -> list[str]:
    """The router's, with path MTUs below those of its devices now and then."""
    result = []
    for side, device in enumerate(pair.devices):
        least = pair.mtu[side] - 4 * pair.tags[side]
        for floor, prefix in (
            (576, f"10.{pair.index}.{side}.0/24"),
            (1280, f"fd00:{pair.index}:{side}::/64"),
        ):
            mtu = draw.choice([least, least, least, draw.randint(floor, least)])
            result.append(f"route replace {prefix} dev {device} mtu lock {mtu}")
    return result


def _columns(draw: random.Random) -> list[str]:
    """Of a tenant or a rule."""
    booleans = ("true", "false")
    seldom = ("false", "false", "false", "true")
    others = ("align-mss", "ecn-syn", "small-windows", "spread-cuts")
    return [
        f"algorithm={draw.choice(ALGORITHMS)}",
        f"fallback={draw.choice(('none', 'reno', 'cubic', 'swift'))}",
        f"beta={draw.choice((0, 0.5, 1))}",
        f"police={draw.choice(booleans)}",
        f"mode={draw.choice(('enforce', 'enforce', 'enforce', 'observe'))}",
        f"max_window={draw.choice((0, 0, 0, 3000, 20000, 200000))}",
        f"min_window={draw.choice((0, 0, 1, 2000))}",
        f"initial_window={draw.choice((1, 10, 10))}",
        f"pace={draw.choice(seldom)}",
        f"plb={draw.choice(seldom)}",
        f"tail_probe={draw.choice((0, 0, 0, 1000, 50000))}",
        f"on_ramp={draw.choice((0, 0, 0, 50, 5000))}",
        f"enabled={'false' if draw.random() < 0.05 else 'true'}",
        *(f"other_config:{key}={draw.choice(booleans)}" for key in others),
    ]


def policy(draw: random.Random, tenant: str) -> list[list[str]]:
    """Commands for ovs-vsctl: the tenant's columns, and now and then a rule for what comes
    from or goes to some of the ports."""
    commands = [["clear", "acdc", tenant, "rules"], ["set", "acdc", tenant, *_columns(draw)]]
    columns = _columns(draw)
    end = draw.choice(("local_port", "remote_port"))
    if draw.random() < 0.3:
        name = f"@{tenant}"
        create = [f"--id={name}", "create", "acdc_rule", "priority=1"]
        commands += [
            [*create, f'match="{end}=1024-16000"', *columns],
            ["set", "acdc", tenant, f"rules={name}"],
        ]
    return commands
