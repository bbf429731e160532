# SPDX-License-Identifier: Apache-2.0
"""The experiments of the report: command lines of tests/lab/run, what to take
from their results, and what is wanted of AC/DC.

Runs with --acdc are judged.  Targets that name another run are about the run
'dctcp', native DCTCP guests with a marking switch, or 'plain', Open vSwitch
alone.  Runs with a parameter that is off by default are shown beside, coloured
as if judged, but not counted."""

from __future__ import annotations

import dataclasses
import os

from . import report_figures as f
from . import report_onramp
from .report_figures import Experiment, Figure, at_least, at_most

RTT = [
    Figure("RTT p50, us", f.rtt("p50"), at_most(1.05, "dctcp")),
    Figure("RTT p99, us", f.rtt("p99"), at_most(1.05, "dctcp")),
    Figure("RTT p99.9, us", f.rtt("p99.9"), at_most(1.05, "dctcp")),
]
GOODPUT = Figure("goodput, Mbit/s", f.total_goodput, at_least(0.99, "dctcp"))
JAIN = Figure("Jain's index", f.jain, at_least(0.99), digits=4)
RETRANSMITS = Figure("segments sent again", f.tcp("retransmits"), at_most(0))
TIMEOUTS = Figure("retransmission timeouts", f.tcp("timeouts"), at_most(0))
LEAST = Figure("least flow, of a fair share", f.least_share, digits=3)
SHARES = [*RTT, GOODPUT, JAIN, LEAST, RETRANSMITS, TIMEOUTS]

# Under AC/DC illinois and highspeed are, to the packet, reno.
STACKS = ("cubic", "reno", "vegas", "bbr", "paper")
SPREAD_CUTS = "--tenant other_config:spread-cuts=true"
ALIGN_MSS = "--tenant other_config:align-mss=true"
SMALL_WINDOWS = "--tenant other_config:small-windows=true"
# The queue that heeds times to leave is at each vSwitch's own uplink.
PACE = "--uplinks --tenant pace=true"
PLAIN_AND_DCTCP = {"plain": "--stack cubic --plain", "dctcp": "--stack dctcp --plain"}


SMALL_K = (10, 15, 20, 30)  # packets


def against(scenario: str, acdc: str = "--stack cubic --acdc", more: str = "") -> dict[str, str]:
    """Plain with cubic guests, native DCTCP, AC/DC."""
    lines = PLAIN_AND_DCTCP | {"acdc": acdc}
    return {name: f"{scenario} {line} {more}".strip() for name, line in lines.items()}


def is_option(line: str) -> bool:
    """A run with a parameter that is off by default."""
    return "other_config:" in line or "pace=true" in line


def incast(count: int) -> Experiment:
    options = {"align-mss": ALIGN_MSS, "small-windows": SMALL_WINDOWS}
    pace = {"pace": PACE, "pace, small-windows": f"{PACE} {SMALL_WINDOWS}"}
    option = {
        name: f"incast --flows {count} --stack cubic --acdc {words}"
        for name, words in (options | pace).items()
    }
    return Experiment(
        f"incast{count}",
        f"Incast, {count} to 1",
        "RTT and drops follow DCTCP's up to 47 senders; CUBIC fills the buffer.",
        against(f"incast --flows {count}") | (option if count > 40 else {}),
        [
            Figure("RTT p50, us", f.rtt("p50"), at_most(1, "dctcp")),
            Figure("RTT p99.9, us", f.rtt("p99.9"), at_most(1, "dctcp")),
            GOODPUT,
            JAIN,
            Figure("least flow, of a fair share", f.least_share, at_least(0.5), digits=3),
            Figure("connections not set up", f.not_connected, at_most(0)),
            Figure("packets dropped", f.drops, at_most(1, "dctcp")),
            Figure("segments sent again", f.tcp("retransmits"), at_most(1, "dctcp")),
            Figure("retransmission timeouts", f.tcp("timeouts"), at_most(1, "dctcp")),
        ],
        seconds=4,
        cost=1.5,
        note="From 47 on all are at the floor of 2 segments: 2896 bytes, in steps of 128 are 2944, so a"
        " third, small segment is under way with them. And native DCTCP's segments with CWR are"
        " acknowledged at once, so that more wait in the receiving guest and fewer in the queue."
        " Less than 2 segments would wait for the far guest's delayed ACK; small-windows, which goes"
        " to one, sets CWR, too, and sees to it that there is none."
        if count > 40
        else "",
    )


FCT = [
    Figure("short flows, mean ms", f.fct("short", "mean"), at_most(1.05, "dctcp"), digits=3),
    Figure(
        "short flows, mean ms (cubic)", f.fct("short", "mean"), at_most(0.64, "plain"), digits=3
    ),
    Figure("short flows, p99 ms", f.fct("short", "p99"), at_most(1.05, "dctcp"), digits=3),
    Figure("long flows, mean ms", f.fct("long", "mean"), at_most(1.05, "dctcp"), digits=3),
    Figure("long flows, p99 ms", f.fct("long", "p99"), at_most(1.05, "dctcp"), digits=3),
    Figure("flows not finished", f.unfinished, at_most(1, "dctcp")),
]
QUERIES = [
    Figure("queries, p50 us", f.pooled("query", "p50"), at_most(1.05, "dctcp")),
    Figure("queries, p99 us", f.pooled("query", "p99"), at_most(1.05, "dctcp")),
]
RECOVERY = [
    Figure("packets dropped", f.drops, at_most(1, "dctcp")),
    Figure("segments sent again", f.tcp("retransmits")),
    Figure("retransmission timeouts", f.tcp("timeouts")),
]


def fct(sizes: str, load: float) -> Experiment:
    return Experiment(
        f"fct-{sizes}-{load:g}",
        f"Flow completion times, {sizes}, load {load:g}",
        "As DCTCP; 36 % to 76 % below CUBIC.",
        against("fct", more=f"--sizes {sizes} --load {load:g}"),
        FCT + QUERIES + RECOVERY,
        seconds=1,
        cost=35 * load,
        note="Long flows are few in so short a time: p99 is the slowest of them. Guests' least RTO is 10 ms here, less than a delayed ACK's 40, so they send last segments again that had arrived, natively as often; D-SACKs tell them, and feedback tells the engine, that nothing was lost.",
    )


# Since Linux 6.2: with LAB_KERNEL of tests/lab/build --linux 6.12.
NATIVE_PLB = "6.12" in os.environ.get("LAB_KERNEL", "")


def leafspine(name: str, title: str, more: str = "", note: str = "") -> Experiment:
    # With a higher K less than half of the bytes of two flows are marked.
    line = f"leafspine --ipv6 --rate 1gbit --delay 0 --mark 4542 {more}".strip()
    runs = {
        "dctcp": f"{line} --stack dctcp --plain",
        "acdc": f"{line} --stack cubic --acdc",
        "plb": f"{line} --stack cubic --acdc --tenant plb=true",
    }
    if NATIVE_PLB:
        runs["dctcp-plb"] = f"{line} --stack dctcp --plain --sysctl net.ipv4.tcp_plb_enabled=1"
    best = "dctcp-plb" if NATIVE_PLB else "dctcp"
    plb = ("plb",)
    return Experiment(
        name,
        title,
        "Not in the paper: at Google PLB made the imbalance of links 60 % less (Qureshi 2022).",
        runs,
        [
            Figure("transfers, mean ms", f.fct("long", "mean"), at_most(1, best), plb, 2),
            Figure(
                "transfers, mean ms (acdc)", f.fct("long", "mean"), at_most(0.8, "acdc"), plb, 2
            ),
            Figure("transfers, p99 ms", f.fct("long", "p99"), at_most(1, best), plb, 2),
            Figure("transfers not finished", f.unfinished, at_most(0), plb),
            Figure("moves", f.counter("repaths")),
            Figure("segments out of order", f.tcp("out_of_order")),
            Figure("segments sent again", f.tcp("retransmits")),
            Figure("retransmission timeouts", f.tcp("timeouts")),
        ],
        seconds=0.5,
        cost=1.5,
        note=note,
    )


def transfers(name: str, title: str, note: str = "") -> Experiment:
    return Experiment(
        name,
        title,
        "Small flows as fast as DCTCP's, a fraction of CUBIC's time; large ones alike.",
        against(name) | {"reno": f"{name} --stack reno --acdc"},
        [
            Figure(
                "16 KB flows, mean ms", f.fct("short", "mean"), at_most(1.05, "dctcp"), digits=3
            ),
            Figure("16 KB flows, p99 ms", f.fct("short", "p99"), at_most(1.05, "dctcp"), digits=3),
            Figure("large transfers, Mbit/s", f.transfer_rate, at_least(0.95, "dctcp")),
            Figure("large transfers, mean ms", f.transfer_time, at_most(1.05, "dctcp"), digits=1),
            Figure("all transferred, ms", f.transfers_end, at_most(1.05, "dctcp")),
            Figure("flows not finished", f.unfinished, at_most(0)),
            *RECOVERY,
        ],
        seconds=0.2,
        cost=20,
        note=note,
    )


def beside(run: str, plain: str) -> list[Figure]:
    """Of the experiment partial."""
    return [
        Figure(f"with AC/DC, Mbit/s ({run})", f.goodput_of(1), at_least(0.95, plain), (run,)),
        Figure(f"without, Mbit/s ({run})", f.goodput_of(0), at_least(0.95, plain), (run,)),
        Figure(f"RTT p50, us ({run})", f.rtt("p50"), at_most(1, plain), (run,)),
    ]


GUESTS_TIMERS = "--rto-min 0"  # Linux' own 200 ms.
MANY = f"manytoone --rate 100mbit {GUESTS_TIMERS}"
# As acdc-tune says.
TUNED = "--buffer 85000 --acdc --mark 30280 --tenant tail_probe=13680 --tenant initial_window=1"


def tail_probes(
    name: str, title: str, probe_us: int, figures: list[Figure], more: str = ""
) -> Experiment:
    lines = against(name, more=f"{GUESTS_TIMERS} {more}".strip())
    lines["tail_probe"] = f"{lines['acdc']} --tenant tail_probe={probe_us}"
    return Experiment(name, title, "Not in the paper.", lines, figures, seconds=2, cost=1.5)


EXPERIMENTS = [
    tail_probes(
        "shallow",
        "Incast, 16 to 1, through 110 KB; guests' least RTO is their own",
        1000,
        [
            Figure(
                "retransmission timeouts",
                f.tcp("timeouts"),
                at_most(1, "dctcp"),
                only=("tail_probe",),
            ),
            Figure(
                "10 KB, p99.9 us",
                f.pooled("short", "p99.9"),
                at_most(0.1, "acdc"),
                only=("tail_probe",),
            ),
            Figure("goodput, Mbit/s", f.total_goodput, at_least(1, "acdc"), only=("tail_probe",)),
            Figure("packets dropped", f.drops),
            Figure("tail probes", f.counter("tail_probes")),
            Figure("of these needless", f.counter("tail_spurious")),
        ],
    ),
    tail_probes(
        "tails",
        "10 KB requests, 0.5 % of the packets lost; guests' least RTO is their own",
        2000,
        [
            Figure("10 KB, p50 us", f.pooled("small", "p50")),
            Figure(
                "10 KB, p99.9 us",
                f.pooled("small", "p99.9"),
                at_most(5000),
                only=("tail_probe",),
            ),
            Figure("retransmission timeouts", f.tcp("timeouts")),
            Figure("tail probes", f.counter("tail_probes")),
            Figure("of these needless", f.counter("tail_spurious")),
        ],
    ),
    Experiment(
        "manytoone",
        "2 MB from 16 senders to one at 100 Mbit/s; guests' least RTO is their own",
        "Not in the paper: 166 ms, at most 3 ms of latency and 213 drops where tuned, untuned 1.5"
        " and 3.5 times as long and 2.7 and 5 times the drops (Jouet, deep and shallow buffers).",
        {
            "shallow": f"{MANY} --buffer 85000 --plain",
            "deep": f"{MANY} --buffer 512000 --plain",
            "tuned": f"{MANY} {TUNED}",
            "small-windows": f"{MANY} {TUNED} {SMALL_WINDOWS}",
        },
        [
            Figure("all transferred, ms", f.transfers_end, at_most(166 * 1.02)),
            Figure("flows not finished", f.unfinished, at_most(0)),
            Figure("RTT at most, us", f.rtt("max"), at_most(3000)),
            Figure("packets dropped", f.drops, at_most(0.2, "shallow")),
            Figure("retransmission timeouts", f.tcp("timeouts"), at_most(0)),
        ],
        seconds=0.5,
        cost=0.1,
        note="The link needs 166 ms. Stacks of today do better than Jouet's without tuning. Windows of two segments of 16 senders are a queue of 3.9 ms.",
    ),
    Experiment(
        "stacks",
        "Guests' stacks, 5 flows, one bottleneck",
        "Every stack becomes as fair and as quick as DCTCP; the five mixed too.",
        {
            "plain": "dumbbell --stack paper --plain",
            "dctcp": "dumbbell --stack dctcp --plain",
            **{name: f"dumbbell --stack {name} --acdc" for name in STACKS},
            "paper, spread-cuts": f"dumbbell --stack paper --acdc {SPREAD_CUTS}",
        },
        SHARES,
        seconds=8,
        note="With illinois and highspeed each packet is as with reno. Vegas cuts its own window once the queue lengthens its round trips: in the mean it has 6 segments where it is told 9 (the five mixed), 6 or 16 where it is told 21 to 73 (Vegas alone). What a guest does not want to send no vSwitch can. The other four of the mix have 0.989 among themselves.",
    ),
    Experiment(
        "stacks9000",
        "The same with MTU 9000",
        "As with MTU 1500.",
        {
            "plain": "dumbbell --stack paper --plain --mtu 9000",
            "dctcp": "dumbbell --stack dctcp --plain --mtu 9000",
            "cubic": "dumbbell --stack cubic --acdc --mtu 9000",
            "paper": "dumbbell --stack paper --acdc --mtu 9000",
        },
        SHARES,
        seconds=8,
        cost=0.25,
    ),
    Experiment(
        "spread",
        "5 flows whose round-trip times differ by up to 4 us",
        "Not in the paper.",
        against("dumbbell --spread 4")
        | {
            "spread-cuts": f"dumbbell --spread 4 --stack cubic --acdc {SPREAD_CUTS}",
            "pace": f"dumbbell --spread 4 --stack cubic --acdc {PACE}",
        },
        SHARES,
        note="Native DCTCP misses it, too. Each flow's packets pass in trains that meet the others' in the same order again and again, and are marked where they overlap: by their place among the trains more than by how many they are. spread-cuts is meant for it. How long trains are is the guests' doing, and decides more than who computes the window (see docs/experiments).",
    ),
    Experiment(
        "smallqueue",
        "5 flows, marked from K packets on",
        "Not in the paper.",
        {
            "dctcp": "dumbbell --stack dctcp --plain",
            **{
                f"{name}, K {k}": f"dumbbell {words} --mark {k * 1514}"
                for name, words in (
                    ("dctcp", "--stack dctcp --plain"),
                    ("acdc", "--stack cubic --acdc"),
                    ("pace", f"--stack cubic --acdc {PACE}"),
                )
                for k in SMALL_K
            },
        },
        [
            *(dataclasses.replace(figure, target=None) for figure in RTT),
            dataclasses.replace(GOODPUT, target=None),
            dataclasses.replace(JAIN, target=None),
        ],
        note="The first column has the K of the other experiments, 65 packets.",
    ),
    Experiment(
        "mixed",
        "2 flows each: paced by AC/DC, AC/DC, native DCTCP",
        "Not in the paper.",
        {
            "acdc": "mixed --stack cubic --acdc --uplinks",
            "beside native": f"partial --stack cubic,dctcp --acdc {PACE}",
            "not paced": "partial --stack cubic,dctcp --acdc --uplinks",
        },
        [
            Figure("paced, Mbit/s", f.mean_of("f1", "f4"), scenario="mixed"),
            Figure("AC/DC, Mbit/s", f.mean_of("f2", "f5"), scenario="mixed"),
            Figure("native, Mbit/s", f.mean_of("f3", "f6"), scenario="mixed"),
            Figure("AC/DC, Mbit/s", f.mean_of("f1", "f3", "f5"), scenario="partial"),
            Figure("native, Mbit/s", f.mean_of("f2", "f4", "f6"), scenario="partial"),
            *(dataclasses.replace(figure, target=None) for figure in RTT),
        ],
        note="Beside flows that send in trains a paced one meets their marks with each of its segments.",
    ),
    Experiment(
        "coexist",
        "2 DCTCP and 3 CUBIC guests, marking switch",
        "CUBIC is dropped where DCTCP is marked, and starves; with AC/DC all are alike.",
        {
            "plain": "coexist --stack cubic --plain",
            "dctcp": "coexist --stack dctcp --plain",
            "acdc": "coexist --stack cubic --acdc",
        },
        SHARES,
    ),
    Experiment(
        "track",
        "DCTCP guests, AC/DC observing: its windows beside theirs",
        "The vSwitch's window tracks the guest's.",
        {"acdc": "track --stack dctcp --acdc --interval 1 --trace 1"},
        [
            Figure("normalised RMS error", f.track_error, at_most(0.05), digits=4),
            Figure("mean window, of the guests'", f.track_bias, digits=4),
        ],
        seconds=4,
        cost=1.5,
        note="A guest rounds cuts down to whole segments (rounding them at random in the guest's kernel turned a bias of -7 % into +4 %) and glides down over a round trip by PRR (without, the difference's standard deviation is 7.7 % instead of 9.6); the engine cuts at once, to the byte. What differs is forgotten within a millisecond or two (see docs/experiments).",
    ),
    Experiment(
        "converge",
        "Five flows join, then leave",
        "Converges as DCTCP does; CUBIC wanders.",
        against("converge")
        | {
            "spread-cuts": f"converge --stack cubic --acdc {SPREAD_CUTS}",
            "pace": f"converge --stack cubic --acdc {PACE}",
        },
        [
            Figure("to within 5 %, mean ms", f.converge_mean, at_most(1, "dctcp")),
            Figure("to within 5 %, longest ms", f.converge_max, at_most(1, "dctcp")),
            *RTT,
            RETRANSMITS,
        ],
        seconds=9,
        note="The longest is a whole step where a flow did not get within 5 % at all. A share is pulled back to the fair one half as fast as with native DCTCP: see wander and docs/experiments.",
    ),
    Experiment(
        "wander",
        "How far five equal flows' shares wander, and for how long",
        "Not in the paper.",
        against("dumbbell --interval 1")
        | {
            "spread-cuts": f"dumbbell --interval 1 --stack cubic --acdc {SPREAD_CUTS}",
            "pace": f"dumbbell --interval 1 --stack cubic --acdc {PACE}",
        },
        [
            Figure("goodput in 1 ms, deviation", f.share_deviation, digits=3),
            Figure("a share lasts, ms", f.share_memory, digits=1),
            JAIN,
        ],
        seconds=2,
        note="What converge, spread and the longest of rpc's 1 MB requests have in common: nothing pulls a share back to the fair one as fast as with native DCTCP (see docs/experiments). With spread-cuts it is pulled back sooner and pushed away more.",
    ),
    *(incast(count) for count in (16, 32, 47, 100)),
    Experiment(
        "incast19",
        "The Linux DCTCP commit's incast, K 75 KB",
        "Commit, CUBIC / DCTCP: 3227 / 25 timeouts; stddev 105.9 / 2.6 Mbit/s; fairness .962 / .999.",
        {
            "plain": "incast19 --stack cubic --plain",
            "dctcp": "incast19 --stack dctcp --plain --mark 75000",
            **{
                name: f"incast19 --stack cubic --acdc --mark 75000 --flows {count}"
                for name, count in (
                    ("acdc", 19),
                    ("1", 1),
                    ("2", 2),
                    ("4", 4),
                    ("8", 8),
                    ("16", 16),
                )
            },
        },
        [
            Figure("retransmission timeouts", f.tcp("timeouts"), at_most(25)),
            Figure("stddev of flows, Mbit/s", f.spread, at_most(2.6), only=("acdc",), digits=1),
            Figure("Jain's index", f.jain, at_least(0.999), only=("acdc",), digits=4),
            Figure("SYNs that come through", f.connect_probability, at_least(1), digits=3),
            Figure("RTT p50, us", f.rtt("p50"), at_most(1, "dctcp"), only=("acdc",)),
        ],
        seconds=4,
        cost=1.2,
        note="2.6 Mbit/s is the commit's, over its own (longer) time; over this one native DCTCP misses it, too. That AC/DC's flows differ more is how single flows wander (experiment wander).",
    ),
    Experiment(
        "beta",
        "beta 1, .75, .5, .25, 0 side by side; at half time 0 becomes 1",
        "Shares follow beta.",
        {
            "plain": "dumbbell --stack cubic --plain",
            "dctcp": "dumbbell --stack dctcp --plain",
            "acdc": "beta --stack cubic --acdc",
        },
        [
            *(
                Figure(f"share, beta {beta:g}", f.beta_share(i), digits=3, scenario="beta")
                for i, beta in enumerate(f.BETAS)
            ),
            Figure("least step between shares", f.beta_order, at_least(0), (), 3, "beta"),
            Figure("furthest from the model", f.beta_model_error, None, (), 3, "beta"),
            Figure("time to effect, ms", f.beta_effect, at_most(1000), (), 0, "beta"),
            GOODPUT,
            *RTT,
            RETRANSMITS,
        ],
        seconds=8,
    ),
    Experiment(
        "wan",
        "One of 5 flows 10 ms away, its rule says cubic",
        "Flows may have an algorithm of their own: DCTCP inside, another outside.",
        against("wan"),
        [
            *RTT,
            Figure("goodput, Mbit/s", f.total_goodput, at_least(0.99, "dctcp")),
            Figure("the far flow, Mbit/s", f.mean_of("f5"), at_least(1, "dctcp"), digits=1),
            Figure("segments sent again", f.tcp("retransmits"), at_most(0)),
        ],
        seconds=8,
        note="4 DCTCP flows keep the one queue near K: of what is in flight in 10 ms some is always marked. CUBIC takes 0.7 of its window for it every round trip, DCTCP a part by how much is marked; natively DCTCP gets some Mbit/s, too. By --trace 20 % of the segments are marked, and CUBIC's window is 2.3 segments in the mean, the floor being 2; with a rule that says dctcp it is 5.7, and the flow has 5.8 Mbit/s. Such a flow needs a queue of its own.",
    ),
    Experiment(
        "cap",
        "max_window of 20 segments, alone and beside another flow",
        "A flow's bandwidth can be capped by its window.",
        {
            "plain": "cap --stack cubic --plain",
            "acdc": "cap --stack cubic --acdc",
            "align-mss": f"cap --stack cubic --acdc {ALIGN_MSS}",
        },
        [
            Figure("alone: off W/RTT", f.cap_error(0.1, 0.5), at_most(0.05), digits=3),
            Figure("with another: off W/RTT", f.cap_error(0.6, 1), at_most(0.05), digits=3),
            Figure("RTT p50, us", f.rtt("p50")),
            RETRANSMITS,
        ],
        seconds=4,
        note="By tcp_info the guest has 18.8 segments in flight in the mean, of 20 that the window of 29056 bytes has room for: Linux waits with sending until a third of the window is free (tcp_tso_should_defer()). With guests that wait for a twentieth (--sysctl net.ipv4.tcp_tso_win_divisor=20) it is 3.5 % and 0.6 % off. align-mss does not help: of the window 896 bytes remain then.",
    ),
    Experiment(
        "police",
        "One guest of 5 ignores the windows it is told",
        "What exceeds the window is dropped; recovery is that guest's own cost.",
        {
            "plain": "police --stack cubic --plain",
            "dctcp": "dumbbell --stack dctcp --plain",
            "enforce": "police --stack cubic --acdc",
            "police": "police --stack cubic --acdc --tenant police=true",
            "obeys": "dumbbell --stack cubic --acdc --tenant police=true",
        },
        [
            Figure("the greedy guest, Mbit/s", f.mean_of("f1"), scenario="police"),
            Figure(
                "each of the others, Mbit/s",
                f.mean_of("f2", "f3", "f4", "f5"),
                at_least(0.95, "dctcp"),
                only=("police", "obeys"),
            ),
            *(dataclasses.replace(figure, only=("police", "obeys")) for figure in RTT),
            Figure("packets policed", f.counter("policed_packets"), at_most(0), only=("obeys",)),
            Figure("segments sent again", f.tcp("retransmits"), at_most(0), only=("obeys",)),
        ],
        seconds=4,
    ),
    *(fct(sizes, load) for sizes in ("websearch", "datamining") for load in (0.3, 0.5, 0.8)),
    transfers(
        "stride",
        "Stride: each of 17 hosts to the next four in turn",
        "Those that begin first and have a link to themselves are slower than with DCTCP (8157 and 9204 Mbit/s in the mean; 8639 with Reno guests, so that part of it is the CUBIC guest's own slow start), yet all are done sooner.",
    ),
    transfers(
        "shuffle",
        "Shuffle: each of 17 hosts to all others, two at a time",
        "The mean of the rates is the higher the less equal shares are (their standard deviation is 62 % with DCTCP, 51 with AC/DC): transfers take 11 % less time than with DCTCP, and all are done 11 % sooner.",
    ),
    Experiment(
        "parkinglot",
        "Parking lot: 2 flows over 3 bottlenecks, one over each",
        "Fair and quick as DCTCP where flows have several bottlenecks.",
        against("parkinglot") | {"pace": f"parkinglot --stack cubic --acdc {PACE}"},
        [
            *RTT,
            Figure("long flows, Mbit/s", f.mean_of("long1", "long2"), at_least(0.95, "dctcp")),
            Figure(
                "short flows, Mbit/s", f.mean_of("hop1", "hop2", "hop3"), at_least(0.95, "dctcp")
            ),
            RETRANSMITS,
            TIMEOUTS,
        ],
        seconds=4,
        cost=3,
        note="How flows over three bottlenecks and over one share them differs much from seed to seed, with DCTCP more than with AC/DC.",
    ),
    Experiment(
        "rpc",
        "10 KB and 1 MB requests side by side",
        "Not in the paper: tails of 40 ms (delayed ACK) and 200 ms (RTO) elsewhere (Brakmo 2018).",
        against("rpc") | {"pace": f"rpc --stack cubic --acdc {PACE}"},
        [
            Figure("10 KB, p50 us", f.pooled("small", "p50"), at_most(1.05, "dctcp")),
            Figure("10 KB, p99 us", f.pooled("small", "p99"), at_most(1.05, "dctcp")),
            Figure("10 KB, p99.9 us", f.pooled("small", "p99.9"), at_most(1.05, "dctcp")),
            Figure("10 KB, longest us", f.pooled("small", "max"), at_most(40_000)),
            Figure("1 MB, p50 us", f.pooled("large", "p50"), at_most(1.05, "dctcp")),
            Figure("1 MB, p99.9 us", f.pooled("large", "p99.9"), at_most(1.05, "dctcp")),
            Figure("10 KB requests", f.pooled("small", "n"), at_least(1, "plain")),
            RETRANSMITS,
        ],
        seconds=4,
        note="The link is full in any case: with AC/DC there are 7 % more 10 KB requests than with DCTCP (and their p99 is 130 us instead of 231), 3 % fewer of 1 MB. Of those p50 is the same; p99.9 is longer because a share that is small stays so for longer: see wander and docs/experiments.",
    ),
    Experiment(
        "partial",
        "Half of the hosts without AC/DC",
        "Not in the paper.",
        {
            "plain": "partial --stack cubic --plain --mark 0",
            "plain marking": "partial --stack cubic --plain --mark 98410",
            "no marking": "partial --stack cubic --acdc --mark 0",
            "marking": "partial --stack cubic --acdc",
        },
        [
            *beside("no marking", "plain"),
            *beside("marking", "plain marking"),
            Figure("segments sent again", f.tcp("retransmits")),
            Figure("retransmission timeouts", f.tcp("timeouts")),
        ],
        seconds=4,
        note="A marking switch drops at K what is not ECT, so AC/DC comes to all hosts of a queue or to none. Without marking, AC/DC knows loss alone.",
    ),
    Experiment(
        "gso",
        "Guests' stacks with TSO, GSO and GRO",
        "AC/DC works on segments before the NIC splits them.",
        {
            name: f"dumbbell --stack {stack} {how} --offload"
            for name, stack, how in (
                ("plain", "paper", "--plain"),
                ("dctcp", "dctcp", "--plain"),
                ("cubic", "cubic", "--acdc"),
                ("paper", "paper", "--acdc"),
                ("pace", "cubic", f"--acdc {PACE}"),
            )
        },
        SHARES,
        seconds=8,
        cost=0.4,
        note="By tcp_info a guest's own window is 77 to 132 segments under AC/DC, 20 natively, and what it has in flight varies more: a standard deviation of 7 to 10 segments, natively 4 to 5. So the queue's tail is longer. Of the five mixed, one flow had 1.3 of a fair share.",
    ),
    Experiment(
        "gso-incast",
        "Incast, 16 to 1, with TSO, GSO and GRO",
        "AC/DC works on segments before the NIC splits them.",
        against("incast --flows 16", more="--offload"),
        incast(16).figures,
        seconds=4,
        cost=0.6,
    ),
    Experiment(
        "long",
        "5 flows for a minute",
        "Not in the paper.",
        {
            "dctcp": "dumbbell --stack dctcp --plain",
            "acdc": "dumbbell --stack cubic --acdc",
        },
        [
            *SHARES,
            Figure("last fifth over the second", f.drift, at_least(0.99), digits=4),
            # Of samples every 10 ms no two are the same.
            Figure("longest stall, ms", f.stall, at_most(0)),
        ],
        seconds=60,
    ),
    leafspine(
        "leafspine",
        "Leaf-spine fabric: 4 pairs, 4 paths, transfers that collide",
        note="A hash puts two of four flows on one path in 9 of 10 cases. With AC/DC less than half of"
        " the bytes of two flows on one path are marked, as windows in bytes end in small segments,"
        " and PLB asks for half (see docs/experiments).",
    ),
    leafspine("leafspine-slow", "The same, the links of one spine at a tenth", "--slow 0.1"),
    leafspine(
        "leafspine-hole",
        "The same, one spine drops all, guests keep their flow label",
        "--black-hole 0.02 --sysctl net.ipv6.auto_flowlabels=0",
        note="Linux itself takes another label after a timeout, if it may; guests in IPv4 tunnels"
        " cannot.",
    ),
    *report_onramp.EXPERIMENTS,
]
