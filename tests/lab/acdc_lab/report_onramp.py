# SPDX-License-Identifier: Apache-2.0
"""The report's experiments without marking: On-Ramp, and the algorithm swift."""

from __future__ import annotations

from . import report_figures as f
from .report_figures import Experiment, Figure, Result, at_least, at_most
from .scenarios import RESPONSE

THRESHOLD = 50  # us
SOURCE = (
    "NSDI 2021: requests' p99 2.8 times better with CUBIC, 4.1 (up to 5.6) with BBR; also where a"
    " part of the hosts has it."
)
SWIFT = "--acdc --tenant algorithm=swift"
RUNS = {
    "plain": "--plain",
    # Under the guests' own congestion control alone.
    "on_ramp": f"--acdc --tenant algorithm=none --tenant on_ramp={THRESHOLD}",
    "swift": SWIFT,
    "swift, on_ramp": f"{SWIFT} --tenant on_ramp={THRESHOLD}",
}


def lines(scenario: str, stack: str, *names: str) -> dict[str, str]:
    return {name: f"{scenario} --stack {stack} --uplinks --mark 0 {RUNS[name]}" for name in names}


def answers(result: Result) -> float:
    """Of the requests, Mbit/s: who is quicker asks more."""
    options = result["options"]
    size: float = result["rpc_us"]["query"]["n"] * options["flows"] * RESPONSE
    return size * 8e-6 / (0.9 * options["seconds"])


def carried(result: Result) -> float:
    """Goodput of the bulk data and of the answers, Mbit/s."""
    bulk: float = result["goodput_mbps"]
    return bulk + answers(result)


def load(result: Result) -> float:
    """Of the link by the answers, percent."""
    return answers(result) * 1e8 / result["options"]["rate"]


def requests(name: str, text: str, gain: float = 1) -> list[Figure]:
    return [
        Figure(f"{text}, p50 us", f.pooled(name, "p50")),
        Figure(f"{text}, p99 us", f.pooled(name, "p99"), at_most(1 / gain, "plain")),
    ]


COUNTS = [
    Figure("RTT p99, us", f.rtt("p99")),
    Figure("packets dropped", f.drops),
    Figure("retransmission timeouts", f.tcp("timeouts")),
    Figure("pauses", f.counter("on_ramp_pauses")),
    Figure("of these cut to 10 ms", f.counter("on_ramp_cut")),
]
BURSTS = (
    "Under the guests' windows alone, which nothing but loss bounds here, what a pause held"
    " leaves at line rate and fills the queue again: the times to leave are fixed when packets"
    " come, so a report cannot hold them longer. On top of swift windows are those of the path,"
    " and pauses are for what comes at once."
)


def incast(stack: str, servers: int, percent: int, gain: float, *names: str) -> Experiment:
    return Experiment(
        f"onramp-{stack}-{servers}",
        f"{stack.upper()} guests, no marking: requests to {servers} servers, at most {percent} % of"
        " the load, beside bulk data",
        SOURCE,
        lines(f"onramp --flows {servers} --load {percent / 100:g}", stack, *names),
        [
            *requests("query", "requests", gain),
            Figure("requests", f.pooled("query", "n")),
            Figure("their load, % of the link", load, digits=2),
            Figure("bulk goodput, Mbit/s", f.total_goodput),
            Figure("with the requests', Mbit/s", carried, at_least(0.97, "plain")),
            Figure("Jain's index", f.jain, digits=3),
            *COUNTS,
        ],
        seconds=1,
        cost=1.5,
        note=BURSTS,
    )


EXPERIMENTS = [
    incast("cubic", 20, 2, 2.8, *RUNS),
    incast("bbr", 20, 2, 4, "plain", "on_ramp", "swift, on_ramp"),
    incast("cubic", 40, 10, 2.8, "plain", "swift", "swift, on_ramp"),
    incast("bbr", 40, 10, 4, "plain", "swift, on_ramp"),
    incast("reno", 10, 10, 2.8, "plain", "swift, on_ramp"),
    Experiment(
        "onramp-half",
        "The same with CUBIC, half of the hosts without AC/DC",
        SOURCE,
        lines("onramp_half", "cubic", "plain", "on_ramp"),
        [
            *requests("query", "requests with"),
            *requests("others", "requests without"),
            Figure("bulk with, Mbit/s", f.goodput_of(1), at_least(0.97, "plain")),
            Figure("bulk without, Mbit/s", f.goodput_of(0), at_least(0.97, "plain")),
            *COUNTS,
        ],
        seconds=1,
        cost=1.5,
    ),
    Experiment(
        "onramp-back",
        "The same with CUBIC, bulk data without AC/DC fills the ACKs' way",
        "One-way delay does not count what queues on the way back.",
        lines("onramp_back", "cubic", "plain", "on_ramp", "swift, on_ramp"),
        [
            *requests("query", "requests"),
            Figure("bulk goodput, Mbit/s", f.direction("left to right"), at_least(0.97, "plain")),
            Figure("the other way, Mbit/s", f.direction("right to left"), at_least(0.97, "plain")),
            *COUNTS,
        ],
        seconds=1,
        cost=2.5,
        note="A window of swift grows by a segment a round trip, which is 1.7 ms here, and has to"
        " become 1,400 segments.",
    ),
    Experiment(
        "swift",
        "5 flows without marking: a law by delay",
        "SIGCOMM 2020: round-trip times at a target of some tens of us, near line rate.",
        {
            "plain": "dumbbell --stack cubic --plain --mark 0",
            "swift": "dumbbell --stack cubic --acdc --mark 0 --tenant algorithm=swift",
            "reno": "dumbbell --stack reno --acdc --mark 0 --tenant algorithm=swift",
        },
        [
            Figure("RTT p50, us", f.rtt("p50")),
            Figure("RTT p99, us", f.rtt("p99"), at_most(0.2, "plain")),
            Figure("goodput, Mbit/s", f.total_goodput, at_least(0.98, "plain")),
            Figure("Jain's index", f.jain, at_least(0.98), digits=4),
            Figure("segments sent again", f.tcp("retransmits"), at_most(0)),
        ],
        seconds=2,
    ),
    Experiment(
        "swift-partial",
        "The same, half of the hosts without AC/DC",
        "Beside flows that fill queues a law by delay gets little.",
        {
            "plain": "partial --stack cubic --plain --mark 0",
            "swift": "partial --stack cubic --acdc --mark 0 --tenant algorithm=swift",
            "cubic": "partial --stack cubic --acdc --mark 0 --tenant algorithm=cubic",
        },
        [
            Figure("with AC/DC, Mbit/s", f.goodput_of(1), at_least(0.5, "plain")),
            Figure("without, Mbit/s", f.goodput_of(0)),
            Figure("RTT p50, us", f.rtt("p50")),
        ],
        seconds=2,
        note="It holds the queue below a target that the others fill: two segments a round trip are"
        " left. Such destinations need a queue of their own, AC/DC on all hosts, or a rule with"
        " algorithm=cubic.",
    ),
]
