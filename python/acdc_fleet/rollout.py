# SPDX-License-Identifier: Apache-2.0

"""Waiting for hosts, and rolling a revision out stage by stage."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from .centre import Centre
from .output import some
from .transport import Failure


class Stopped(Exception):
    """Hosts report problems: nothing more is rolled out."""


def problems(centre: Centre) -> set[tuple[str, str]]:
    """Of all hosts, with their names.  A host is not trusted with the operator's terminal."""
    return {
        (host.name, "".join(c if c.isprintable() else "?" for c in problem))
        for host in centre.hosts()
        for problem in host.problems
    }


def wait(
    centre: Centre, hosts: Callable[[], list[Any]], number: int, column: str, timeout: float
) -> None:
    """Until those hosts have the revision, or one that was made since.  Raises TimeoutError, which
    names the others."""

    def missing() -> list[str]:
        return [host.name for host in hosts() if getattr(host, column) < number]

    try:
        centre.wait(lambda: not missing(), "", timeout)
    except TimeoutError:
        raise TimeoutError(_late(missing(), len(hosts()), number, timeout)) from None


def _late(names: list[str], total: int, number: int, timeout: float) -> str:
    return (
        f"{len(names)} of {total} hosts have not acknowledged revision {number} within"
        f" {timeout:g} s: {some(names)}"
    )


def _ours(centre: Centre, number: int) -> Any:  # noqa: ANN401
    """The row of Fleet if that revision is still the one that is rolled out."""
    fleet = centre.fleet
    if [row.number for row in fleet.staged] != [number]:
        raise Failure(f"the roll-out of revision {number} was ended by someone else")
    return fleet


def _set(centre: Centre, number: int, **columns: object) -> None:
    """Sets columns of Fleet if that revision is still the one that is rolled out."""

    def fill(_: object) -> None:
        fleet = centre.fleet
        if "staged" in columns and not fleet.staged:
            ended = [row.number for row in fleet.current] == [number]
            if ended == ("current" in columns):
                return  # It is done, and the reply was lost.
        fleet = _ours(centre, number)
        for name in ("current", "staged"):
            fleet.verify(name)
        for name, value in columns.items():
            setattr(fleet, name, value)

    centre.commit(fill)


def stages(centre: Centre) -> list[list[Any]]:
    """Groups that have a stage, in order; those of one stage go together."""
    rows = [row for row in centre.rows("Group") if row.stage]
    numbers = sorted({row.stage[0] for row in rows})
    return [[row for row in rows if row.stage == [number]] for number in numbers]


def check(centre: Centre, groups: list[list[Any]]) -> None:
    """Whether each of these stages has a host.  Otherwise all hosts would be the first."""
    if not groups:
        raise Failure("no group has a stage: acdc-fleetctl group set NAME LABEL=VALUE --stage=1")
    for row in (row for rows in groups for row in rows):
        if not centre.hosts(row.name):
            labels = " ".join(f"{key}={row.labels[key]}" for key in sorted(row.labels))
            why = f"no host has the labels {labels}" if labels else "it has no labels"
            raise Failure(f"group {row.name}, stage {row.stage[0]}, has no hosts: {why}")


def _members(centre: Centre, names: list[str]) -> list[Any]:
    """The hosts of these groups."""
    found = [host for name in names for host in centre.hosts(name)]
    if not found:
        raise Failure(f"no hosts are left in {', '.join(names)}: rollout resume, or rollout abort")
    return found


def run(
    centre: Centre, timeout: float, soak: float, allowed: int, tell: Callable[[str], None]
) -> tuple[int, set[tuple[str, str]]]:
    """Rolls out the staged revision: each stage when the one before has applied it, and has had
    'soak' seconds without more than 'allowed' new problems.  Returns its number, and the problems
    that there were before."""
    if centre.staged is None:
        raise Failure("no roll-out is under way")
    number = int(centre.staged.number)
    groups = stages(centre)
    check(centre, groups)
    # Of a roll-out that goes on, all that hosts of its stages report is new.
    reached = {host.name for row in centre.fleet.stages for host in centre.hosts(row.name)}
    before = {(name, problem) for name, problem in problems(centre) if name not in reached}
    _set(centre, number, stopped=[])

    def look() -> None:
        _ours(centre, number)
        new = problems(centre) - before
        if len(new) > allowed:
            name, problem = min(new)
            stop(f"{len(new)} new problems, such as host {name}: {problem}")

    def stop(why: str) -> None:
        _set(centre, number, stopped=[why])
        raise Stopped(f"revision {number}: {why}; rollout resume, or rollout abort")

    def pause() -> None:
        look()
        with contextlib.suppress(TimeoutError):
            centre.wait(lambda: False, "", 0.1)

    def stage(names: list[str]) -> None:
        tell(f"{', '.join(names)}: {len(_members(centre, names))} hosts")
        soaking, since = False, time.monotonic()
        while not soaking or time.monotonic() < since + soak:
            # Groups and labels may change meanwhile, and with them who has the revision.
            hosts = _members(centre, names)
            late = [host.name for host in hosts if host.applied != number]
            if bool(late) == soaking:
                soaking, since = not late, time.monotonic()
            if late and time.monotonic() > since + timeout:
                stop(_late(late, len(hosts), number, timeout))
            pause()
        look()

    done: list[Any] = []
    for rows in groups:
        done += rows
        # Hosts of later stages keep what they have.
        _set(centre, number, stages=done + [r for r in centre.fleet.stages if r not in done])
        stage([row.name for row in rows])
    _set(centre, number, current=centre.fleet.staged, staged=[], stages=[], stopped=[])
    tell(f"all: {len(centre.hosts())} hosts")
    wait(centre, centre.hosts, number, "applied", timeout)
    return number, before


def abort(centre: Centre) -> None:
    """Hosts of the stages that had it go back to the current revision."""
    if centre.staged is None:
        raise Failure("no roll-out is under way")
    _set(centre, int(centre.staged.number), staged=[], stages=[], stopped=[])
