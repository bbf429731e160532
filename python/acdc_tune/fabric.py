# SPDX-License-Identifier: Apache-2.0

"""The description of a fabric: links, switches, and the paths over them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from .units import RATE, SIZE, TIME, Problem, count, parse

MTU = 1500
ETHERNET = 14
"""Bytes of the header, which stand in a switch's queue, too."""
KEYS = {"mtu", "flows", "links", "switches", "paths"}


@dataclass(frozen=True)
class Link:
    name: str
    rate: Fraction
    """Bits per second, each way."""
    latency: Fraction
    """Nanoseconds, one way: the cable, and what stands at its ends."""
    flows: int
    """That send over it at once, in the worst case."""


@dataclass(frozen=True)
class Switch:
    name: str
    buffer: Fraction
    """Bytes that a port's queue can have."""


@dataclass(frozen=True)
class Queue:
    """Of a switch's port, towards a link."""

    switch: Switch
    link: Link

    @property
    def name(self) -> str:
        return f"{self.switch.name}->{self.link.name}"

    @property
    def drain(self) -> Fraction:
        """Nanoseconds to empty the full buffer."""
        return self.switch.buffer * 8 * 10**9 / self.link.rate


@dataclass(frozen=True)
class Route:
    """A path between two hosts: links, and the switches between them."""

    name: str
    links: tuple[Link, ...]
    switches: tuple[Switch, ...]

    @property
    def one_way(self) -> Fraction:
        return sum((link.latency for link in self.links), Fraction(0))

    @property
    def round_trip(self) -> Fraction:
        """Without queueing, nanoseconds."""
        return 2 * self.one_way

    @property
    def there(self) -> list[Queue]:
        return [Queue(*pair) for pair in zip(self.switches, self.links[1:], strict=True)]

    @property
    def back(self) -> list[Queue]:
        return [Queue(*pair) for pair in zip(self.switches, self.links[:-1], strict=True)]


@dataclass(frozen=True)
class Fabric:
    mtu: int
    routes: tuple[Route, ...]

    @property
    def packet(self) -> int:
        """Bytes of a full one in a queue."""
        return self.mtu + ETHERNET

    @property
    def queues(self) -> list[Queue]:
        """Each once, in the order of the paths."""
        found = [queue for route in self.routes for queue in (*route.there, *route.back)]
        return list(dict.fromkeys(found))


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise Problem(f"{where}: want entries NAME: ..., not {value!r}")
    return {str(key): entry for key, entry in value.items()}


def _entries(
    value: object, where: str, needed: set[str], optional: set[str]
) -> dict[str, dict[str, Any]]:
    """The named members of 'links' or 'switches', with their keys checked."""
    result = {}
    for name, entry in _mapping(value, where).items():
        keys = _mapping(entry, f"{where}: {name}")
        for key in keys.keys() - needed - optional:
            allowed = " ".join(sorted(needed | optional))
            raise Problem(f"{where}: {name}: unknown key {key}; allowed: {allowed}")
        for key in sorted(needed - keys.keys()):
            raise Problem(f"{where}: {name}: {key} is missing")
        result[name] = keys
    return result


def _route(name: str, hops: object, links: dict[str, Link], switches: dict[str, Switch]) -> Route:
    where = f"paths: {name}"
    if not isinstance(hops, list) or len(hops) < 3 or len(hops) % 2 == 0:
        raise Problem(f"{where}: want a list of link, switch, link, ..., link, not {hops!r}")
    for number, hop in enumerate(map(str, hops)):
        kind, known = ("switch", switches) if number % 2 else ("link", links)
        if hop not in known:
            raise Problem(f"{where}: {hop} is no {kind}; there are: {' '.join(known)}")
    names = [str(hop) for hop in hops]
    return Route(
        name,
        tuple(links[hop] for hop in names[::2]),
        tuple(switches[hop] for hop in names[1::2]),
    )


def build(data: object) -> Fabric:
    """Of what the YAML has."""
    top = _mapping(data, "the description")
    for key in top.keys() - KEYS:
        raise Problem(f"unknown key {key}; allowed: {' '.join(sorted(KEYS))}")
    mtu = count(top.get("mtu", MTU), 576, 65535, "mtu")
    flows = count(top.get("flows", 1), 1, 1_000_000, "flows")
    links = {
        name: Link(
            name,
            parse(keys["rate"], RATE, f"links: {name}: rate"),
            parse(keys["latency"], TIME, f"links: {name}: latency"),
            count(keys.get("flows", flows), 1, 1_000_000, f"links: {name}: flows"),
        )
        for name, keys in _entries(
            top.get("links"), "links", {"rate", "latency"}, {"flows"}
        ).items()
    }
    switches = {
        name: Switch(name, parse(keys["buffer"], SIZE, f"switches: {name}: buffer"))
        for name, keys in _entries(top.get("switches"), "switches", {"buffer"}, set()).items()
    }
    paths = _mapping(top.get("paths"), "paths")
    routes = tuple(_route(name, hops, links, switches) for name, hops in paths.items())
    used = {link.name for route in routes for link in route.links}
    used |= {switch.name for route in routes for switch in route.switches}
    for name in (*links, *switches):
        if name not in used:
            raise Problem(f"{name} is on no path")
    return Fabric(mtu, routes)


def load(path: Path) -> Fabric:
    try:
        import yaml
    except ModuleNotFoundError:
        raise Problem("package python3-yaml is missing") from None

    class Once(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            names = [key.value for key, _ in pairs]
            for key, _ in pairs[::-1]:
                if names.count(key.value) > 1:
                    line = key.start_mark.line + 1
                    raise Problem(f"{path}: line {line}: {key.value} is there twice")
            return super().construct_mapping(node, deep)

    try:
        data = yaml.load(path.read_text(), Once)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Problem(f"{path}: {getattr(error, 'strerror', '') or error}") from None
    try:
        return build(data)
    except Problem as problem:
        raise Problem(f"{path}: {problem}") from None
