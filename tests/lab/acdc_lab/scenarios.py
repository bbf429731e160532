# SPDX-License-Identifier: Apache-2.0
"""What each scenario is made of: hosts, switches, links and traffic.

A scenario is a function from Options to a Plan, registered by its name; its
first docstring line is what --list shows."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from typing import Any

# The paper's five stacks, in its order.
PAPER_STACKS = ("cubic", "illinois", "highspeed", "reno", "vegas")


@dataclasses.dataclass
class Options:
    """The command line, as the guest sees it."""

    scenario: str
    stacks: list[str]
    acdc: bool = False
    flows: int = 0  # 0: the scenario's own number
    rate: float = 10e9  # bit/s
    mtu: int = 1500
    seconds: float = 4.0
    seed: int = 1
    delay: float = 20e-6  # s, one way, at each guest's link
    spread: float = 0  # s, by which the senders' delays differ, evenly around 'delay'
    jitter: float = 0  # s, by which each packet's delay differs, either way
    late: float = 1  # percent of the data that is late in scenario late
    late_by: float = 40e-6  # s, by up to so much
    loss: float = 0.5  # percent of the packets that are lost in scenario tails
    buffer: int = 0  # bytes, of each switch port; 0: the scenario's own
    mark: int = 65 * 1514  # K in bytes; 0: no marking
    offload: bool = False  # TSO, GSO and GRO on
    ipv6: bool = False
    uplinks: bool = False  # each guest's vSwitch has one of its own, with fq
    ptp: bool = False  # the hosts' clocks are said to be synchronized
    clock_offset: float = 0  # s, by which every other host's clock is ahead; see clocks.py
    clock_drift: float = 0  # ppm, by which it is faster
    clock_at: float = 0  # s, from when on it is so; 0: before there is traffic
    tunnel: str = ""  # vxlan or geneve: each vSwitch on a hypervisor of its own
    rto_min: float = 0.01  # s; 0: the stack's own
    tenant: dict[str, str] = dataclasses.field(default_factory=dict)
    rules: list[str] = dataclasses.field(default_factory=list)
    sysctl: dict[str, str] = dataclasses.field(default_factory=dict)  # of each guest
    load: float = 0  # 0: the scenario's own
    sizes: str = "websearch"
    datapath: str = "system"
    interval: float = 0.01  # s, between tcp_info samples
    trace: float = 0  # s, between samples of the engine; 0: none
    capture: bool = False
    restart: float = 0  # s, when ovs-vswitchd is restarted; 0: never
    reload: float = 0  # s, when a hypervisor's datapath is made again; 0: never
    reload_of: str = "left"  # That switch's.
    reload_by: str = "exit"  # How ovs-vswitchd ends: exit or kill
    slow: float = 1  # times 'rate': that of the links of one spine
    black_hole: float = 0  # s, from when on it drops what comes from the senders; 0: never

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Options:
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in names})


@dataclasses.dataclass
class Host:
    name: str
    switch: str
    stack: str  # of its sockets, both ways
    tenant: str = "blue"  # "": none, this host is without AC/DC
    delay: float | None = None  # s, one way, at its link; None: Options.delay
    greedy: bool = False  # it takes its peers' windows for 65535 << scale
    sysctl: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Trunk:
    """A link between two switches; both ends have a queue."""

    a: str
    b: str
    late: bool = False  # From a to b some packets are late, from b to a all by 2 Options.delay.
    lossy: bool = False  # From a to b some packets are lost.
    buffer: int = 0  # bytes; 0: as all
    speed: float = 1  # Times Options.rate.


@dataclasses.dataclass
class Traffic:
    """One client process."""

    name: str
    kind: str  # bulk, rpc, flows, transfer, query: see tools/traffic.c
    source: str
    to: list[str]
    start: float = 0  # s
    seconds: float = 0  # 0: to the end
    args: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tenant:
    """A row of ACDC, over what the command line says."""

    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    rules: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Change:
    """Of a tenant's row, while traffic runs; without settings it is deleted."""

    at: float  # s
    tenant: str
    settings: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Move:
    """Of a guest to another switch, while traffic runs: a live migration."""

    at: float  # s
    host: str
    to: str
    tenant: str  # "": there it is without AC/DC


@dataclasses.dataclass
class Plan:
    switches: list[str]
    hosts: list[Host]
    trunks: list[Trunk]
    traffic: list[Traffic]
    tenants: dict[str, Tenant] = dataclasses.field(default_factory=dict)
    changes: list[Change] = dataclasses.field(default_factory=list)
    spines: list[str] = dataclasses.field(default_factory=list)  # see fabric.py
    moves: list[Move] = dataclasses.field(default_factory=list)


Build = Callable[[Options], Plan]
SCENARIOS: dict[str, Build] = {}
# Some of their guests are DCTCP's, so the switch marks in any case.
MARKED = ("coexist", "mixed", "track")


def scenario(function: Build) -> Build:
    SCENARIOS[function.__name__] = function
    return function


def stack_of(options: Options, index: int) -> str:
    return next(itertools.islice(itertools.cycle(options.stacks), index, None))


def jitter(options: Options) -> Callable[[], float]:
    """Start times within the first millisecond: what the seed varies."""
    source = random.Random(options.seed)
    return lambda: source.random() * 1e-3


def probe(source: str, to: str, start: float = 0.1) -> Traffic:
    """Round trips of a connection that sends a byte at a time, as the paper's."""
    return Traffic("probe", "rpc", source, [to], start, args=["--interval", "200e-6"])


def address(options: Options, index: int) -> str:
    """Of a host, counted from 1."""
    return f"fd00::{index:x}" if options.ipv6 else f"10.0.{index // 250}.{index % 250 + 1}"


def delay_of(options: Options, index: int, count: int) -> float | None:
    """Of sender 'index', counted from 0."""
    if not options.spread or count < 2:
        return None
    return options.delay + options.spread * (index / (count - 1) - 0.5)


def pairs(options: Options, count: int) -> list[Host]:
    """COUNT senders s1... on switch 'left', as many receivers r1... on 'right',
    and a pair for the probe."""
    hosts = [Host("sp", "left", stack_of(options, 0)), Host("rp", "right", stack_of(options, 0))]
    for i in range(count):
        delay = delay_of(options, i, count)
        hosts.append(Host(f"s{i + 1}", "left", stack_of(options, i), delay=delay))
        hosts.append(Host(f"r{i + 1}", "right", stack_of(options, i)))
    return hosts


def bulk_pairs(options: Options, count: int) -> list[Traffic]:
    """From each sender to its receiver, and the probe."""
    offset = jitter(options)
    traffic = [Traffic(f"f{i}", "bulk", f"s{i}", [f"r{i}"], offset()) for i in range(1, count + 1)]
    return [*traffic, probe("sp", "rp")]


def between(hosts: list[Host], traffic: list[Traffic]) -> Plan:
    return Plan(["left", "right"], hosts, [Trunk("left", "right")], traffic)


@scenario
def dumbbell(options: Options) -> Plan:
    """N senders, one bottleneck, N receivers (the paper's first topology; default 5)"""
    count = options.flows or 5
    return between(pairs(options, count), bulk_pairs(options, count))


@scenario
def late(options: Options) -> Plan:
    """dumbbell, --late percent of the data are overtaken by what follows (default 1)"""
    count = options.flows or 1
    plan = between(pairs(options, count), bulk_pairs(options, count))
    plan.switches.insert(1, "core")
    for host in plan.hosts:
        host.delay = 0  # All of it on the way back, behind the vSwitches.
    plan.trunks[:] = [Trunk("left", "core"), Trunk("core", "right", late=True)]
    return plan


@scenario
def twoway(options: Options) -> Plan:
    """bulk data in both directions, every other connection carries both (default 8)"""
    count = options.flows or 8
    offset = jitter(options)
    traffic = [probe("sp", "rp")]
    for i in range(1, count + 1):
        # Two connect from the left, the next two from the right.
        source, to = (f"s{i}", f"r{i}") if (i - 1) % 4 < 2 else (f"r{i}", f"s{i}")
        args = [] if i % 2 else ["--both"]
        traffic.append(Traffic(f"f{i}", "bulk", source, [to], offset(), args=args))
    return between(pairs(options, count), traffic)


@scenario
def incast(options: Options) -> Plan:
    """N senders to one receiver (default 16)"""
    count = options.flows or 16
    offset = jitter(options)
    # The receiver's vSwitch is 'right', so that the queue in front of the
    # receiver is the network's, between the two vSwitches.
    hosts = [Host("sp", "left", stack_of(options, 0)), Host("r1", "right", stack_of(options, 0))]
    hosts += [
        Host(f"s{i + 1}", "left", stack_of(options, i), delay=delay_of(options, i, count))
        for i in range(count)
    ]
    traffic = [Traffic(f"f{i}", "bulk", f"s{i}", ["r1"], offset()) for i in range(1, count + 1)]
    traffic.append(probe("sp", "r1"))
    return between(hosts, traffic)


@scenario
def shallow(options: Options) -> Plan:
    """incast through a buffer of 110 KB, unless --buffer says another; four of the senders have
    10 KB requests, too"""
    plan = incast(options)
    plan.trunks[0].buffer = options.buffer or 110_000
    args = ["--request", "10000", "--response", "1", "--interval", "0.002"]
    plan.traffic += [
        Traffic(f"short{i}", "rpc", f"s{i}", ["r1"], 0.1, args=args)
        for i in range(1, min(options.flows or 16, 4) + 1)
    ]
    return plan


@scenario
def manytoone(options: Options) -> Plan:
    """N senders send 2 MB in all to one at once; Jouet: --rate 100mbit --buffer 85000 (default
    16)"""
    plan = incast(options)
    senders = [host.name for host in plan.hosts if host.name.startswith("s") and host.name != "sp"]
    args = ["--bytes", str(2_000_000 // len(senders)), "--parallel", "1"]
    plan.traffic = [
        probe("sp", "r1", 0),
        *(Traffic(f"t{name}", "transfer", name, ["r1"], 0.01, args=args) for name in senders),
    ]
    return plan


@scenario
def tails(options: Options) -> Plan:
    """10 KB requests, --loss percent of the packets are lost on their way (default 8 pairs)"""
    count = options.flows or 8
    offset = jitter(options)
    args = ["--request", "10000", "--response", "1", "--interval", "0.0005"]
    traffic = [
        Traffic(f"small{i}", "rpc", f"s{i}", [f"r{i}"], offset(), args=args)
        for i in range(1, count + 1)
    ]
    plan = between(pairs(options, count), [*traffic, probe("sp", "rp")])
    plan.trunks[0].lossy = True
    return plan


BULK = 4
RESPONSE = 2000  # bytes, as in On-Ramp's incast


@scenario
def onramp(options: Options) -> Plan:
    """a client asks N servers at once for 2 KB each, at most --load of the link (default 0.02),
    beside bulk data of four pairs (default 20)"""
    count = options.flows or 20
    offset = jitter(options)
    hosts = pairs(options, BULK)
    hosts.append(Host("c1", "right", stack_of(options, 0)))
    servers = [Host(f"i{i + 1}", "left", stack_of(options, i)) for i in range(count)]
    interval = count * RESPONSE * 8 / ((options.load or 0.02) * options.rate)
    args = ["--request", "100", "--response", str(RESPONSE), "--interval", f"{interval:.9f}"]
    names = [server.name for server in servers]
    # Once the bulk data have their share.
    query = Traffic("query1", "query", "c1", names, 0.1 * options.seconds + offset(), args=args)
    return between([*hosts, *servers], [*bulk_pairs(options, BULK), query])


@scenario
def onramp_half(options: Options) -> Plan:
    """onramp, servers and pairs of even number without AC/DC; a client for either half"""
    plan = onramp(options)
    for host in plan.hosts:
        if host.name[0] in "sri" and host.name[1:].isdigit() and int(host.name[1:]) % 2 == 0:
            host.tenant = ""
    plan.hosts.append(Host("c2", "right", stack_of(options, 0), tenant=""))
    (first,) = [traffic for traffic in plan.traffic if traffic.kind == "query"]
    second = dataclasses.replace(first, name="others1", source="c2", to=first.to[1::2])
    first.to = first.to[::2]
    plan.traffic.append(second)
    return plan


@scenario
def onramp_back(options: Options) -> Plan:
    """onramp, bulk data of four pairs without AC/DC fills the ACKs' way"""
    plan = onramp(options)
    offset = jitter(dataclasses.replace(options, seed=options.seed + 1))
    for i in range(1, BULK + 1):
        stack = stack_of(options, i - 1)
        plan.hosts += [Host(f"x{i}", "right", stack, ""), Host(f"y{i}", "left", stack, "")]
        plan.traffic.append(Traffic(f"back{i}", "bulk", f"x{i}", [f"y{i}"], offset()))
    return plan


@scenario
def far_guest(options: Options) -> Plan:
    """requests to guests whose ACKs take 40 ms to their vSwitch, beside bursts that queue: what
    is timed on the wire is not the guest's (default 4 pairs)"""
    count = options.flows or 4
    traffic = [
        Traffic(f"small{i}", "rpc", f"s{i}", [f"r{i}"], 0.001 * i, args=["--request", "1000"])
        for i in range(1, count + 1)
    ]
    args = ["--request", "200000", "--interval", "0.0008"]
    burst = count + 1
    traffic.append(Traffic("large1", "rpc", f"s{burst}", [f"r{burst}"], args=args))
    plan = between(pairs(options, burst), traffic)
    for host in plan.hosts:
        if host.name in {f"r{i}" for i in range(1, burst)}:
            host.delay = 40e-3
    plan.trunks[0].speed = 0.5
    return plan


@scenario
def migrate(options: Options) -> Plan:
    """dumbbell with 3 hypervisors on the left; s1 moves to the second, to the third, which is
    without AC/DC, and back (default 4)"""
    count = options.flows or 4
    hosts = pairs(options, count)
    switches = ["left", "second", "plain", "core", "right"]
    # Only the way into 'right' is a bottleneck.
    trunks = [Trunk(name, "core", speed=4) for name in switches[:3]]
    plan = Plan(switches, hosts, [*trunks, Trunk("core", "right")], bulk_pairs(options, count))
    ways = ("second", "blue"), ("plain", ""), ("left", "blue")
    plan.moves = [
        Move(options.seconds * i / 4, "s1", to, tenant) for i, (to, tenant) in enumerate(ways, 1)
    ]
    return plan


@scenario
def converge(options: Options) -> Plan:
    """flows join one by one, then leave, at equal steps (default 5)"""
    count = options.flows or 5
    offset = jitter(options)
    step = options.seconds / (2 * count - 1)
    traffic = [
        Traffic(
            f"f{i + 1}",
            "bulk",
            f"s{i + 1}",
            [f"r{i + 1}"],
            i * step + offset(),
            options.seconds - 2 * i * step,
        )
        for i in range(count)
    ]
    traffic.append(probe("sp", "rp"))
    return between(pairs(options, count), traffic)


@scenario
def rpc(options: Options) -> Plan:
    """10 KB and 1 MB requests side by side over one bottleneck (default 4 of each)"""
    count = options.flows or 4
    offset = jitter(options)
    traffic = [probe("sp", "rp")]
    for i in range(1, count + 1):
        for name, size in (("small", 10_000), ("large", 1_000_000)):
            args = ["--request", str(size), "--response", "1"]
            traffic.append(Traffic(f"{name}{i}", "rpc", f"s{i}", [f"r{i}"], offset(), args=args))
    return between(pairs(options, count), traffic)


@scenario
def coexist(options: Options) -> Plan:
    """dumbbell with a marking switch, two guests dctcp, the others --stack (default 5)"""
    count = options.flows or 5
    hosts = pairs(options, count)
    for host in hosts:
        if host.name in ("s1", "r1", "s2", "r2"):
            host.stack = "dctcp"
    return between(hosts, bulk_pairs(options, count))


@scenario
def track(options: Options) -> Plan:
    """dctcp guests, AC/DC only observes: with --trace its windows beside theirs (default 5)"""
    count = options.flows or 5
    hosts = pairs(options, count)
    for host in hosts:
        host.stack = "dctcp"
    plan = between(hosts, bulk_pairs(options, count))
    plan.tenants["blue"] = Tenant({"mode": "observe"})
    return plan


BETAS = (1, 0.75, 0.5, 0.25, 0)


@scenario
def beta(options: Options) -> Plan:
    """dumbbell, a tenant for each beta of 1, .75, .5, .25, 0; at half time 0 becomes 1"""
    count = options.flows or len(BETAS)
    plan = between(pairs(options, count), bulk_pairs(options, count))
    for host in plan.hosts[2:]:
        value = BETAS[(int(host.name[1:]) - 1) % len(BETAS)]
        host.tenant = f"beta{value:g}"
        plan.tenants[host.tenant] = Tenant({"beta": f"{value:g}"})
    plan.changes.append(Change(options.seconds / 2, "beta0", {"beta": "1"}))
    return plan


CAP = 20 * 1448


@scenario
def cap(options: Options) -> Plan:
    """one flow with max_window of 20 segments, alone; from half time on beside another"""
    hosts = pairs(options, 2)
    for host in hosts:
        if host.name in ("s1", "r1"):
            host.tenant = "capped"
    traffic = bulk_pairs(options, 2)
    traffic[1].start = options.seconds / 2
    plan = between(hosts, traffic)
    plan.tenants["capped"] = Tenant({"max_window": str(CAP)})
    return plan


@scenario
def wan(options: Options) -> Plan:
    """dumbbell, the last sender's receiver 10 ms away; AC/DC: a rule says cubic (default 5)"""
    count = options.flows or 5
    hosts = pairs(options, count)
    hosts[-1].delay = 10e-3
    plan = between(hosts, bulk_pairs(options, count))
    remote = f"{address(options, len(hosts))}/{128 if options.ipv6 else 32}"
    plan.tenants["blue"] = Tenant(rules=[f"10 remote={remote} algorithm=cubic"])
    return plan


@scenario
def incast19(options: Options) -> Plan:
    """the Linux DCTCP commit's test: 19 to 1, and connections tried meanwhile (default 19)"""
    options = dataclasses.replace(options, flows=options.flows or 19)
    plan = incast(options)
    # A connection that takes a second has lost its first SYN or SYN-ACK.
    args = ["--sizes", "byte", "--rate", "200"]
    plan.traffic.append(Traffic("connect", "flows", "sp", ["r1"], options.seconds * 0.1, args=args))
    return plan


@scenario
def police(options: Options) -> Plan:
    """dumbbell, the first guest ignores the windows it is told (--tenant police=true)"""
    count = options.flows or 5
    hosts = pairs(options, count)
    for host in hosts:
        host.greedy = host.name == "s1"
    return between(hosts, bulk_pairs(options, count))


@scenario
def causes(options: Options) -> Plan:
    """a connection for each reason to be slow that acdc-trace tells, named after it; for --rate
    1gbit --delay 1000 --late 0 --loss 5 --rto-min 0 --mark 1514"""
    capped = {"max_window": str(CAP)}
    offset = jitter(options)
    requests = ["--request", "10000", "--response", "1", "--interval", "0.0005"]
    parts = ["--request", "200", "--response", "1", "--parts", "2"]
    trunks = [
        Trunk("left", "right", late=True),
        Trunk("left", "lossy", lossy=True),
        Trunk("left", "marking", speed=0.01),
    ]
    traffic = [
        probe("s-probe", "r-probe"),
        Traffic("timeout", "rpc", "s-timeout", ["r-timeout"], offset(), args=requests),
        Traffic("delayed", "rpc", "s-delayed", ["r-delayed"], offset(), args=parts),
    ]
    plan = Plan(["left", "right", "lossy", "marking"], [], trunks, traffic)
    for name, far, settings in (
        ("probe", "right", {}),
        ("timeout", "lossy", {}),
        ("loss", "lossy", {}),
        ("switch", "right", capped),
        ("receiver", "right", {}),
        ("delayed", "right", {}),
        ("greedy", "right", capped | {"police": "true"}),
        ("marks1", "marking", {}),
        ("marks2", "marking", {}),
    ):
        near = Host(f"s-{name}", "left", stack_of(options, 0), tenant=name, delay=0)
        near.greedy = name == "greedy"
        tenant = "forgotten" if far == "marking" else "blue"
        # Behind the vSwitches, as that of the trunk to 'right'.
        delay = 0 if far == "right" else 2 * options.delay
        plan.hosts += [near, Host(f"r-{name}", far, near.stack, tenant, delay)]
        plan.tenants[name] = Tenant(settings)
        if name not in ("probe", "timeout", "delayed"):
            traffic.append(Traffic(name, "bulk", near.name, [f"r-{name}"], offset()))
    hosts = {host.name: host for host in plan.hosts}
    hosts["r-receiver"].sysctl["net.ipv4.tcp_rmem"] = "4096 16384 16384"
    hosts["s-timeout"].sysctl["net.ipv4.tcp_early_retrans"] = "0"
    # The receivers' switch stops to report.
    plan.tenants["forgotten"] = Tenant()
    plan.changes.append(Change(options.seconds / 2, "forgotten"))
    return plan


@scenario
def partial(options: Options) -> Plan:
    """dumbbell, the pairs of even number without AC/DC (default 6)"""
    count = options.flows or 6
    hosts = pairs(options, count)
    for host in hosts[2:]:
        if int(host.name[1:]) % 2 == 0:
            host.tenant = ""
    return between(hosts, bulk_pairs(options, count))


@scenario
def mixed(options: Options) -> Plan:
    """dumbbell: guests of AC/DC paced, of AC/DC, and natively DCTCP, in turn (default 6)"""
    count = options.flows or 6
    hosts = pairs(options, count)
    for host in hosts[2:]:
        kind = (int(host.name[1:]) - 1) % 3
        host.tenant = ("paced", "blue", "")[kind]
        host.stack = "dctcp" if kind == 2 else host.stack
    plan = between(hosts, bulk_pairs(options, count))
    plan.tenants["paced"] = Tenant({"pace": "true"})
    return plan


@scenario
def parkinglot(options: Options) -> Plan:
    """switches in a row, two flows over all links and one over each (default 3 links)"""
    links = options.flows or 3
    offset = jitter(options)
    switches = [f"w{i}" for i in range(1, links + 2)]
    hosts = [Host("sp", "w1", stack_of(options, 0)), Host("rp", switches[-1], stack_of(options, 0))]
    traffic = []
    ways = [("long1", 0, links), ("long2", 0, links)]
    ways += [(f"hop{i + 1}", i, i + 1) for i in range(links)]
    for i, (name, first, last) in enumerate(ways):
        stack = stack_of(options, i)
        hosts.append(Host(f"s-{name}", switches[first], stack))
        hosts.append(Host(f"r-{name}", switches[last], stack))
        traffic.append(Traffic(name, "bulk", f"s-{name}", [f"r-{name}"], offset()))
    trunks = [Trunk(a, b) for a, b in itertools.pairwise(switches)]
    return Plan(switches, hosts, trunks, [*traffic, probe("sp", "rp")])


def star(options: Options, traffic: list[Traffic]) -> Plan:
    """Hosts h1..., each behind a vSwitch of its own, and the switch 'core'."""
    count = options.flows or 17
    hosts = [Host(f"h{i + 1}", f"v{i + 1}", stack_of(options, i)) for i in range(count)]
    trunks = [Trunk("core", host.switch) for host in hosts]
    return Plan(["core", *(host.switch for host in hosts)], hosts, trunks, traffic)


@scenario
def fct(options: Options) -> Plan:
    """N hosts on one switch, flow sizes from a distribution at --load, and queries of
    20 KB from all others at once (default 17)"""
    count = options.flows or 17
    names = [f"h{i + 1}" for i in range(count)]
    traffic = []
    for name in names:
        others = [other for other in names if other != name]
        args = ["--sizes", options.sizes, "--load", str(options.load or 0.5)]
        traffic.append(Traffic(f"f-{name}", "flows", name, others, args=args))
        args = ["--request", "100", "--response", "20000", "--interval", "0.02"]
        traffic.append(Traffic(f"query-{name}", "query", name, others, args=args))
    return star(options, traffic)


def mice(options: Options, count: int) -> list[Traffic]:
    """The paper's small flows: 16 KB from each host to the eighth after it."""
    args = ["--sizes", "mouse", "--rate", str(50 / options.seconds)]
    return [
        Traffic(f"mice{i + 1}", "flows", f"h{i + 1}", [f"h{(i + 8) % count + 1}"], args=args)
        for i in range(count)
    ]


def transfer(options: Options, index: int, to: list[int], parallel: int) -> Traffic:
    """Of as much as the link could carry in half of the time."""
    size = int(options.rate / 8 * options.seconds / 2 / len(to))
    args = ["--bytes", str(size), "--parallel", str(parallel)]
    names = [f"h{other + 1}" for other in to]
    return Traffic(f"t{index + 1}", "transfer", f"h{index + 1}", names, args=args)


@scenario
def stride(options: Options) -> Plan:
    """N hosts on one switch, each sends to the next four in turn; mice beside (default 17)"""
    count = options.flows or 17
    big = [transfer(options, i, [(i + k) % count for k in range(1, 5)], 1) for i in range(count)]
    return star(options, big + mice(options, count))


@scenario
def shuffle(options: Options) -> Plan:
    """N hosts on one switch, each sends to all others in random order, two at a time; mice
    beside (default 17)"""
    count = options.flows or 17
    source = random.Random(options.seed)
    big = []
    for i in range(count):
        others = [j for j in range(count) if j != i]
        source.shuffle(others)
        big.append(transfer(options, i, others, 2))
    return star(options, big + mice(options, count))


SPINES = 4


@scenario
def leafspine(options: Options) -> Plan:
    """2 leaves, 4 spines, N pairs with 8 transfers each in turn, all paths as long: flows
    collide (default 4); --slow and --black-hole are of the first spine"""
    count = options.flows or SPINES
    offset = jitter(options)
    spines = [f"spine{i + 1}" for i in range(SPINES)]
    hosts, traffic = [], []
    size = int(options.rate / 8 * options.seconds / 2 / 8)
    for i in range(1, count + 1):
        stack = stack_of(options, i - 1)
        hosts += [Host(f"s{i}", "leaf1", stack), Host(f"r{i}", "leaf2", stack)]
        args = ["--bytes", str(size), "--parallel", "1"]
        traffic.append(Traffic(f"t{i}", "transfer", f"s{i}", 8 * [f"r{i}"], offset(), args=args))
    trunks = [
        Trunk(leaf, spine, speed=options.slow if spine == spines[0] else 1)
        for leaf in ("leaf1", "leaf2")
        for spine in spines
    ]
    return Plan(["leaf1", "leaf2", *spines], hosts, trunks, traffic, spines=spines)
