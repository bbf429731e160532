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
    buffer: int = 2_000_000  # bytes, of each switch port
    mark: int = 65 * 1514  # K in bytes; 0: no marking
    offload: bool = False  # TSO, GSO and GRO on
    ipv6: bool = False
    rto_min: float = 0.01  # s; 0: the stack's own
    tenant: dict[str, str] = dataclasses.field(default_factory=dict)
    rules: list[str] = dataclasses.field(default_factory=list)
    load: float = 0.5
    sizes: str = "websearch"
    datapath: str = "system"
    interval: float = 0.01  # s, between tcp_info samples
    trace: float = 0  # s, between samples of the engine; 0: none
    capture: bool = False
    restart: float = 0  # s, when ovs-vswitchd is restarted; 0: never

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Options:
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in names})


@dataclasses.dataclass
class Host:
    name: str
    switch: str
    stack: str  # of its sockets, both ways
    tenant: str = "blue"


@dataclasses.dataclass
class Trunk:
    """A link between two switches; both ends have a queue."""

    a: str
    b: str


@dataclasses.dataclass
class Traffic:
    """One client process."""

    name: str
    kind: str  # bulk, rpc, flows
    source: str
    to: list[str]
    start: float = 0  # s
    seconds: float = 0  # 0: to the end
    args: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Plan:
    switches: list[str]
    hosts: list[Host]
    trunks: list[Trunk]
    traffic: list[Traffic]


Build = Callable[[Options], Plan]
SCENARIOS: dict[str, Build] = {}


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


def pairs(options: Options, count: int) -> list[Host]:
    """COUNT senders s1... on switch 'left', as many receivers r1... on 'right',
    and a pair for the probe."""
    hosts = [Host("sp", "left", stack_of(options, 0)), Host("rp", "right", stack_of(options, 0))]
    for i in range(count):
        hosts.append(Host(f"s{i + 1}", "left", stack_of(options, i)))
        hosts.append(Host(f"r{i + 1}", "right", stack_of(options, i)))
    return hosts


@scenario
def dumbbell(options: Options) -> Plan:
    """N senders, one bottleneck, N receivers (the paper's first topology; default 5)"""
    count = options.flows or 5
    offset = jitter(options)
    traffic = [Traffic(f"f{i}", "bulk", f"s{i}", [f"r{i}"], offset()) for i in range(1, count + 1)]
    traffic.append(probe("sp", "rp"))
    return Plan(["left", "right"], pairs(options, count), [Trunk("left", "right")], traffic)


@scenario
def incast(options: Options) -> Plan:
    """N senders to one receiver (default 16)"""
    count = options.flows or 16
    offset = jitter(options)
    # The receiver's vSwitch is 'right', so that the queue in front of the
    # receiver is the network's, between the two vSwitches.
    hosts = [Host("sp", "left", stack_of(options, 0)), Host("r1", "right", stack_of(options, 0))]
    hosts += [Host(f"s{i + 1}", "left", stack_of(options, i)) for i in range(count)]
    traffic = [Traffic(f"f{i}", "bulk", f"s{i}", ["r1"], offset()) for i in range(1, count + 1)]
    traffic.append(probe("sp", "r1"))
    return Plan(["left", "right"], hosts, [Trunk("left", "right")], traffic)


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
    return Plan(["left", "right"], pairs(options, count), [Trunk("left", "right")], traffic)


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
    return Plan(["left", "right"], pairs(options, count), [Trunk("left", "right")], traffic)


@scenario
def fct(options: Options) -> Plan:
    """N hosts on one switch, flow sizes from a distribution at --load (default 16)"""
    count = options.flows or 16
    hosts = [Host(f"h{i + 1}", f"v{i + 1}", stack_of(options, i)) for i in range(count)]
    trunks = [Trunk("core", host.switch) for host in hosts]
    traffic = []
    for i, host in enumerate(hosts):
        others = [other.name for other in hosts if other is not host]
        args = ["--sizes", options.sizes, "--load", str(options.load)]
        traffic.append(Traffic(f"f{i + 1}", "flows", host.name, others, args=args))
    return Plan(["core", *(host.switch for host in hosts)], hosts, trunks, traffic)
