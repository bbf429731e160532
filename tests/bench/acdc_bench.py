# SPDX-License-Identifier: Apache-2.0

"""What the benchmarks share."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from acdc_testlib.sources import build_with_dpdk

Structure = TypeVar("Structure", bound=ctypes.Structure)
T = TypeVar("T")

BENCH = Path(__file__).resolve().parent

VARIANTS = ["pristine", "unbound", "bound"]
# Segments and ACKs of a cycle.
TRAFFIC = {"ack": (1, 15), "data": (15, 1), "mix": (2, 1)}
# A port alone is found without looking at headers ("simple match"); a prefix
# makes the datapath extract and hash them for each packet, as MAC learning,
# tunnels and security groups do.
RULES = {
    "prefix": ("tcp,nw_dst=8.0.0.0/5", "tcp,nw_src=8.0.0.0/5"),
    "port": ("", ""),
}


def processor() -> str:
    """This machine's, as it calls itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor() or platform.machine()


def write_json(result: dict[str, Any], out: Path | None) -> None:
    """What --json asks for: '-' is stdout."""
    text = json.dumps(result, indent=1)
    if str(out) == "-":
        print(text)
    elif out:
        out.write_text(text + "\n")


@contextlib.contextmanager
def told(command: str) -> Iterator[None]:
    """Ends the program with what went wrong, in words: a command of Open vSwitch that was
    refused or a switch that ended, not a fault of the program's own."""
    try:
        yield
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{command}: {error}")


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The median between the others, rounded; of one value that."""
    found = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    low, middle, high = (round(value, 4) for value in found)
    return low, middle, high


def rotated(variants: list[str], turn: int) -> list[str]:
    """Another one of them first in each turn."""
    first = turn % len(variants)
    return variants[first:] + variants[:first]


class Mapped(Generic[Structure]):
    """A structure, zeros at first, in a file for another process to map."""

    def __init__(self, kind: type[Structure]) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="acdc-bench-", dir="/dev/shm")  # noqa: SIM115
        self._file.truncate(ctypes.sizeof(kind))
        self._map = mmap.mmap(self._file.fileno(), ctypes.sizeof(kind))
        self.path = self._file.name
        self.value = kind.from_buffer(self._map)

    def close(self) -> None:
        del self.value
        # A traceback may have a part of it.
        with contextlib.suppress(BufferError):
            self._map.close()
        self._file.close()


# Connections of tcp-frames.h. ---------------------------------------------------


STARTS = 5
"""Of a switch, until one loses no packet."""


class Lost(RuntimeError):
    """A packet was lost: the sources send none again, and a connection whose SYN was lost is
    not followed."""


def start(switch: Callable[[], T]) -> T:
    """A switch that lost no packet.  Open vSwitch drops the first packets of a datapath flow
    if another thread happens to have upcalls locked (datapath_drop_lock_error), with two PMD
    threads in one of 40 starts."""
    for _ in range(STARTS - 1):
        with contextlib.suppress(Lost):
            return switch()
    return switch()


def n_slots(flows: int) -> int:
    """Connections come in pairs."""
    return max(flows // 2, 1)


def build(source: str, target: Path, *options: str) -> None:
    """A program or library that may use DPDK, of 'source' in this directory."""
    build_with_dpdk(BENCH / source, target, *options)


def check(flows: int, tenant: dict[str, Any], *expected: str) -> None:
    """That the engine follows every connection and understands every packet but for counters
    'expected', or the figure means nothing.  'tenant' is of acdc/show."""
    counters = tenant["counters"]
    if tenant["n_capable"] != 2 * n_slots(flows):
        counted = {name: value for name, value in counters.items() if value}
        raise RuntimeError(
            f"{tenant['n_capable']} of {2 * n_slots(flows)} connections are followed: {counted}"
        )
    wrong = {
        name: value
        for name, value in counters.items()
        if value and re.match("untouched_|feedback_|ack_", name) and name not in expected
    }
    if wrong:
        raise RuntimeError(f"the engine does not understand the traffic: {wrong}")
