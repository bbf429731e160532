# SPDX-License-Identifier: Apache-2.0

"""What the benchmarks share."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Generic, TypeVar

Structure = TypeVar("Structure", bound=ctypes.Structure)

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


def n_slots(flows: int) -> int:
    """Connections come in pairs."""
    return max(flows // 2, 1)


def build(source: str, target: Path, *options: str) -> None:
    """A program or library that uses DPDK, of 'source' in this directory."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libdpdk"], check=True, capture_output=True, text=True
    ).stdout.split()
    subprocess.run(
        ["gcc", "-O2", "-g", *options, "-o", target, BENCH / source, *flags, "-pthread"],
        check=True,
    )


def check(flows: int, tenant: dict[str, Any]) -> None:
    """That the engine follows every connection, or the figure means nothing.  'tenant' is
    of acdc/show."""
    counters = tenant["counters"]
    if tenant["n_capable"] != 2 * n_slots(flows):
        counted = {name: value for name, value in counters.items() if value}
        raise RuntimeError(
            f"{tenant['n_capable']} of {2 * n_slots(flows)} connections are followed: {counted}"
        )
    # Before it begins, net_null receives zeros.
    wrong = {
        name: value
        for name, value in counters.items()
        if value and re.match("untouched_|feedback_|ack_", name) and name != "untouched_not_tcp"
    }
    if wrong:
        raise RuntimeError(f"the engine does not understand the traffic: {wrong}")
