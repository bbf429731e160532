# SPDX-License-Identifier: Apache-2.0

"""What acdc-fleetctl prints."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from .centre import Policy


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return ",".join(value) if isinstance(value, list) else str(value)


def _rule(rule: dict[str, Any]) -> str:
    return " ".join(f"{name}={text(rule[name])}" for name in sorted(rule))


def settings(values: dict[str, Any]) -> list[str]:
    """A tenant's, a line each."""
    lines = [f"{name}={text(values[name])}" for name in sorted(values) if name != "rules"]
    return lines + [f"rule {_rule(rule)}" for rule in values.get("rules", [])]


def diff(before: Policy, after: Policy) -> Iterator[str]:
    """Lines that begin with "+" and "-", below the name of each tenant that differs."""
    for name in sorted(before | after):
        old = settings(before[name]) if name in before else None
        new = settings(after[name]) if name in after else None
        if old == new:
            continue
        sign = " " if old is not None and new is not None else "-" if new is None else "+"
        yield f"{sign} tenant {name}"
        yield from (f"-   {line}" for line in old or () if line not in (new or ()))
        yield from (f"+   {line}" for line in new or () if line not in (old or ()))


def changes(before: Policy, after: Policy) -> dict[str, Policy]:
    """The tenants that differ, for JSON."""
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return {
        "before": {name: before[name] for name in names if name in before},
        "after": {name: after[name] for name in names if name in after},
    }


def some(names: Collection[str]) -> str:
    shown = sorted(names)[:5]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def by_host(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, problem in pairs:
        found.setdefault(host, []).append(problem)
    return found


def problems(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each problem, and the hosts that have it.  Rows' UUIDs differ from host to host."""
    hosts: dict[str, list[str]] = {}
    for host, problem in pairs:
        hosts.setdefault(re.sub(r"\brule [0-9a-f-]{36}: ", "rule: ", problem), []).append(host)
    return [
        f"problem: {'host' if len(names) == 1 else 'hosts'} {some(set(names))}: {problem}"
        for problem, names in hosts.items()
    ]
