# SPDX-License-Identifier: Apache-2.0

"""What to type on the switches, for each queue.  PORT is for the reader to replace."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction

from .fabric import Queue
from .formulas import Tuning, Value
from .units import Problem

RED_BANDWIDTH = 34 * 10**9
"""tc keeps it in 32 bits, in bytes a second.  It serves the average, which is not used here."""
MEMORY_MOST = (1 << 32) - 1
"""Of fq_codel, in bytes."""


def _profile(queue: Queue) -> str:
    return "ACDC_" + "".join(c if c.isalnum() else "_" for c in queue.name.replace("->", "_"))


def linux(tuning: Tuning, queue: Queue, k: Value) -> list[str]:
    """red marks by bytes.  fq_codel marks by the time in the queue.  Its memory counts what is
    around packets, too: up to three times as much, where each has a page."""
    packet = tuning.fabric.packet
    buffer = math.floor(queue.switch.buffer)
    wait = math.ceil(Fraction(k.value) * 8 * 10**6 / queue.link.rate)
    return [
        f"tc qdisc replace dev PORT root red limit {buffer} avpkt {packet} min {k.value} \\",
        f"    max {k.value + 1} burst {k.value // packet} probability 1"
        f" bandwidth {min(math.floor(queue.link.rate), RED_BANDWIDTH)}bit ecn",
        "# or:",
        f"tc qdisc replace dev PORT root fq_codel limit {buffer // packet}"
        f" memory_limit {min(3 * buffer, MEMORY_MOST)} ce_threshold {wait}us ecn",
    ]


def sonic(_tuning: Tuning, queue: Queue, k: Value) -> list[str]:
    """The tables of CONFIG_DB.  Packets that no policer has coloured are green."""
    name = _profile(queue)
    profile = {
        "ecn": "ecn_green",
        "wred_green_enable": "true",
        "green_min_threshold": str(k.value),
        "green_max_threshold": str(k.value),
        "green_drop_probability": "100",
    }
    tables = {"WRED_PROFILE": {name: profile}, "QUEUE": {"PORT|0": {"wred_profile": name}}}
    return [
        f"cat >{name}.json <<'EOF'",
        *json.dumps(tables, indent=1).splitlines(),
        "EOF",
        f"sonic-cfggen -j {name}.json --write-to-db",
    ]


def cumulus(_tuning: Tuning, queue: Queue, k: Value) -> list[str]:
    """NVUE, Cumulus Linux 5.4 and later."""
    name = _profile(queue)
    settings = (
        f"min-threshold {k.value}",
        f"max-threshold {k.value + 1}",
        "probability 100",
        "ecn enable",
        "red disable",
    )
    prefix = f"nv set qos congestion-control {name} traffic-class 0"
    return [
        *(f"{prefix} {setting}" for setting in settings),
        f"nv set interface PORT qos congestion-control profile {name}",
        "nv config apply",
    ]


SYSTEMS: dict[str, Callable[[Tuning, Queue, Value], list[str]]] = {
    "linux": linux,
    "sonic": sonic,
    "cumulus": cumulus,
}


def of(tuning: Tuning, system: str) -> dict[str, list[str]]:
    """By the queue's name."""
    if system != "linux":
        names: dict[str, str] = {}
        for queue in tuning.marking:
            other = names.setdefault(_profile(queue), queue.name)
            if other != queue.name:
                raise Problem(f"{other} and {queue.name} would have one profile, {_profile(queue)}")
    return {q.name: SYSTEMS[system](tuning, q, k) for q, k in tuning.marking.items()}
