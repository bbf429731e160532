# SPDX-License-Identifier: Apache-2.0

"""What functions the instructions of tests/bench/kernel --profile are of."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SIDES = ("egress", "ingress")
# Instructions in any column: what is less is "other".  The guests' own TCP differs by some
# from run to run.
LEAST, LEAST_OF_TCP = 8, 40
Counts = dict[str, float]  # Of functions.


class Symbols:
    """The kernel's, from its /proc/kallsyms."""

    def __init__(self, path: Path) -> None:
        found: list[tuple[int, str]] = []
        for line in path.read_text().splitlines():
            address, kind, name = line.split()[:3]
            if kind in "tTwW":
                found.append((int(address, 16), name))
        found.sort()
        self.addresses = [address for address, _ in found]
        # Parts that gcc splits off are of their function.
        self.names = [name.split(".")[0] for _, name in found]

    def of(self, address: int) -> str:
        if not address >> 63:
            return "user space"
        index = bisect.bisect(self.addresses, address) - 1
        return self.names[index] if index >= 0 else "unknown"


def read_rounds(path: Path) -> list[list[tuple[int, int, int]]]:
    """What kernel-profile.c wrote: side, address and count."""
    rounds: list[list[tuple[int, int, int]]] = []
    with path.open() as stream:
        for line in stream:
            if line == "round\n":
                rounds.append([])
            else:
                side, address, count = line.split()
                rounds[-1].append((int(side), int(address, 16), int(count)))
    return rounds


def profile(folder: Path, blocks: Path, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Instructions a packet, by traffic and side, variant and function.  Of a whole
    transfer those for each of its segments."""
    rounds = iter(read_rounds(blocks))
    symbols: dict[str, Symbols] = {}
    found: dict[str, dict[str, Counts]] = collections.defaultdict(dict)
    for result in results:
        variant = result["variant"]
        if variant not in symbols:
            symbols[variant] = Symbols(folder / variant)
        sums: list[Counts] = [collections.defaultdict(float) for _ in SIDES]
        if "segments" in result:
            for _, address, count in next(rounds):
                sums[0][symbols[variant].of(address)] += count / result["segments"]
            found[result["traffic"]][variant] = dict(sums[0])
            continue
        for packets in result["packets"]:
            for side, address, count in next(rounds):
                name = symbols[variant].of(address)
                sums[side][name] += count / packets[side] / len(result["packets"])
        for direction, counts in zip(SIDES, sums, strict=True):
            found[f"{result['traffic']} {direction}"][variant] = dict(counts)
    return dict(found)


def table(found: dict[str, Any], variant: str) -> list[str]:
    """What each function takes more than with the distribution's module."""
    more: dict[str, Counts] = {}
    for case, variants in found.items():
        names = {*variants["stock"], *variants[variant]}
        more[case] = {
            name: variants[variant].get(name, 0) - variants["stock"].get(name, 0) for name in names
        }
    names = {name for counts in more.values() for name in counts}
    rows = {name: [counts.get(name, 0.0) for counts in more.values()] for name in names}
    least = [LEAST_OF_TCP if case.startswith("tcp") else LEAST for case in more]
    shown = {
        name: row
        for name, row in rows.items()
        if any(abs(value) >= limit for value, limit in zip(row, least, strict=True))
    }
    other = [sum(column) for column in zip(*(
        row for name, row in rows.items() if name not in shown), strict=True)]  # fmt: skip
    ordered = sorted(shown.items(), key=lambda item: -sum(item[1]))
    total = [sum(column) for column in zip(*rows.values(), strict=True)]
    return text_table(
        ["Function", *more], [*ordered, ("other", other or [0.0] * len(more)), ("all", total)]
    )


def text_table(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> list[str]:
    """As docs/performance.rst has it."""
    cells = [list(heads), *([name, *(f"{value:+.0f}" for value in row)] for name, row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in cells]  # fmt: skip
    rule = "  ".join("=" * width for width in widths)
    return [rule, lines[0], rule, *lines[1:], rule]
