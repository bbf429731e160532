# SPDX-License-Identifier: Apache-2.0

"""The parameters of a fabric, each with its reason.  Exact, up to the last rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from .fabric import ETHERNET, MTU, Fabric, Queue, Route
from .units import Problem, show_rate, show_size, show_time

JOUET = "S. Jouet, measurement-based TCP parameter tuning"
DCTCP = "M. Alizadeh et al., DCTCP, SIGCOMM 2010"
LINUX = "Linux, commit message of tcp_dctcp.c"
ON_RAMP = "S. Liu et al., On-Ramp, NSDI 2021"

INITIAL_WINDOW_MOST = 65535
"""As the database has it."""


@dataclass(frozen=True)
class Value:
    value: int
    unit: str
    where: str
    """The path or queue that decides."""
    formula: str
    numbers: str
    source: str

    @property
    def shown(self) -> str:
        return f"{self.value} {'segment' if self.unit == 'segments' and self.value == 1 else self.unit}"


@dataclass(frozen=True)
class Tuning:
    fabric: Fabric
    min_rto: Value
    initial_window: Value
    on_ramp: Value
    marking: dict[Queue, Value]
    """K of each queue, bytes."""
    warnings: list[str] = field(default_factory=list)


def burst_bytes(rate: Fraction) -> int:
    """K in practice, because hosts send bursts: 20 packets of MTU 1500 up to 1 Gbit/s, 65
    from 10 Gbit/s, in a straight line between."""
    gigabits = min(max(rate / 10**9, Fraction(1)), Fraction(10))
    return math.ceil((20 + (gigabits - 1) * Fraction(65 - 20, 10 - 1)) * (MTU + ETHERNET))


def _k(fabric: Fabric, queue: Queue, warnings: list[str]) -> Value:
    packet, buffer, link = fabric.packet, queue.switch.buffer, queue.link
    through = [r for r in fabric.routes if queue in r.there or queue in r.back]
    round_trip = max(route.round_trip for route in through)
    bound = link.rate * round_trip / (7 * 8 * 10**9)
    least = math.floor(bound / packet) + 1
    if least * packet >= buffer:
        raise Problem(
            f"switches: {queue.switch.name}: buffer: {show_size(buffer)} is not above"
            f" {show_size(least * packet)} (C * RTT / 7 towards link {link.name})"
        )
    usual = math.ceil(Fraction(burst_bytes(link.rate), packet))
    packets = max(least, usual)
    half = math.floor(buffer / packet / 2)
    if packets > max(least, half):
        packets = max(least, half)
        warnings.append(
            f"{queue.name}: K is {packets} packets, half of the buffer, and not {usual}: bursts of "
            "hosts will be marked too early"
        )
    room = math.floor(buffer / packet) - packets
    if room < link.flows:
        warnings.append(
            f"{queue.name}: above K there is room for {room} packets, and {link.flows} flows may send"
            " one at once: expect drops"
        )
    return Value(
        packets * packet,
        "bytes",
        queue.name,
        "K > C * RTT / 7, and room for hosts' bursts",
        f"{show_rate(link.rate)} * {show_time(round_trip)} / 7 = {show_size(bound)},"
        f" bursts {usual} packets; K = {packets} packets of {packet} bytes",
        f"{DCTCP}; {LINUX}",
    )


def _terms(values: Iterable[Fraction]) -> str:
    return " + ".join(show_time(value) for value in values)


def _min_rto(route: Route) -> Value:
    queues = [*route.there, *route.back]
    total = route.round_trip + sum(queue.drain for queue in queues)
    return Value(
        math.ceil(total / 1000),
        "us",
        route.name,
        "sum of latencies + sum of buffer / rate, over the round trip",
        f"{show_time(route.round_trip)} + {_terms(queue.drain for queue in queues)}"
        f" = {show_time(total)}",
        JOUET,
    )


def _initial_window(fabric: Fabric, route: Route, warnings: list[str]) -> Value:
    link = min(route.links, key=lambda link: link.rate / link.flows)
    share = link.rate / link.flows * route.round_trip / (8 * 10**9)
    segments = math.floor(share / fabric.packet)
    if segments < 1:
        warnings.append(
            f"path {route.name}: a flow's share is less than a segment: {link.flows} flows over link"
            f" {link.name} queue from their first segment on"
        )
    return Value(
        min(max(segments, 1), INITIAL_WINDOW_MOST),
        "segments",
        route.name,
        "min over links of rate / flows, times the sum of latencies over the round trip",
        f"{show_rate(link.rate)} / {link.flows} * {show_time(route.round_trip)} ="
        f" {show_size(share)}, packets of {fabric.packet} bytes",
        JOUET,
    )


def _on_ramp(
    fabric: Fabric, route: Route, marking: dict[Queue, Value], warnings: list[str]
) -> Value:
    def waits(queues: list[Queue]) -> list[Fraction]:
        """At the most that DCTCP leaves in each queue."""
        result = []
        for queue in queues:
            longest = Fraction(marking[queue].value + queue.link.flows * fabric.packet)
            result.append(min(longest * 8 * 10**9 / queue.link.rate, queue.drain))
        return result

    queues = max(route.there, route.back, key=lambda way: sum(waits(way)))
    total = route.one_way + sum(waits(queues))
    if total >= route.one_way + sum(queue.drain for queue in queues):
        warnings.append(
            f"path {route.name}: T is the delay of full buffers, so On-Ramp would pause too late:"
            " there are too many flows for these buffers"
        )
    return Value(
        math.ceil(total / 1000),
        "us",
        route.name,
        "sum of latencies one way + sum of (K + N packets) / rate: above DCTCP's longest queue",
        f"{show_time(route.one_way)} + {_terms(waits(queues))} = {show_time(total)}",
        f"{ON_RAMP} (the threshold); {DCTCP} (the queue of N flows)",
    )


def _most(values: Iterable[Value], choose: Callable[..., Value] = max) -> Value:
    return choose(values, key=lambda value: value.value)


def tune(fabric: Fabric) -> Tuning:
    """One value for the tenant: the worst of the paths."""
    warnings: list[str] = []
    marking = {queue: _k(fabric, queue, warnings) for queue in fabric.queues}
    routes = fabric.routes
    return Tuning(
        fabric,
        _most([_min_rto(route) for route in routes]),
        _most([_initial_window(fabric, route, warnings) for route in routes], min),
        _most([_on_ramp(fabric, route, marking, warnings) for route in routes]),
        marking,
        warnings,
    )
