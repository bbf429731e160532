# SPDX-License-Identifier: Apache-2.0
"""The engine's law (datapath/acdc-law.c, acdc-cc-*.c), called from Python."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTED = (ROOT / "datapath/acdc-algorithms.h").read_text()
ALGORITHMS = ["none", *re.findall(r"^ACDC_ALGORITHM\(\w+, (\w+),", LISTED, re.M)]
"""In the order of enum acdc_algorithm."""
M32 = 0xFFFFFFFF


def build(directory: Path) -> ctypes.CDLL:
    """Compiles the law with UndefinedBehaviorSanitizer; returns the library."""
    library = directory / "liblaw.so"
    datapath = ROOT / "datapath"
    sources = [Path(__file__).with_name("driver.c"), datapath / "acdc-law.c"]
    sources += sorted(datapath.glob("acdc-cc-*.c"))
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
        + ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]
        + [f"-I{datapath}", "-o", str(library), *map(str, sources)],
        check=True,
    )
    dll = ctypes.CDLL(str(library))
    dll.driver_new.restype = ctypes.c_void_p
    for name in ("ack", "loss", "undo", "idle", "wnd", "ssthresh", "alpha"):
        getattr(dll, f"driver_{name}").restype = ctypes.c_uint32
    return dll


class Engine:
    """One flow's law.  Sequence numbers are unbounded here and go to the
    engine modulo 2^32."""

    def __init__(self, dll: ctypes.CDLL) -> None:
        self._dll = dll
        self._driver = ctypes.c_void_p(dll.driver_new())

    def close(self) -> None:
        self._dll.driver_free(self._driver)

    def _call(self, name: str, *values: int) -> int:
        function = getattr(self._dll, f"driver_{name}")
        return int(function(self._driver, *(ctypes.c_uint32(v & M32) for v in values)) or 0)

    def params(
        self,
        beta: int,
        gain: int,
        initial_window: int,
        min_window: int,
        max_window: int,
        spread: bool = False,
    ) -> None:
        self._call("params", beta, gain, initial_window, min_window, max_window, spread)

    def salt(self, salt: int) -> None:
        self._call("salt", salt)

    def one_segment(self, one_segment: bool) -> None:
        self._call("one_segment", one_segment)

    def paced(self, paced: bool) -> None:
        self._call("paced", paced)

    def env(self, mss: int, una: int, nxt: int, now_ms: int, srtt_us: int) -> None:
        self._call("env", mss, una, nxt, now_ms, srtt_us)

    def init(self, algorithm: str) -> None:
        self._call("init", ALGORITHMS.index(algorithm))

    def switch(self, algorithm: str) -> None:
        self._call("switch", ALGORITHMS.index(algorithm))

    def clamp(self) -> None:
        self._call("clamp")

    def ack(
        self, acked: int, ce: int, total: int, rtt_us: int = 0, delivered: int | None = None
    ) -> bool:
        """'delivered' is 'acked' unless given."""
        delivered = acked if delivered is None else delivered
        # bool of C in the low byte.
        return bool(self._call("ack", acked, delivered, ce, total, rtt_us))

    def report(self, net_rtt_us: int, queue_us: int) -> None:
        """Comes with the next ACK."""
        self._call("report", net_rtt_us, queue_us)

    def loss(self) -> bool:
        return bool(self._call("loss"))

    def undo(self) -> bool:
        return bool(self._call("undo"))

    def settle(self) -> None:
        self._call("settle")

    def timeout(self) -> None:
        self._call("timeout")

    def idle(self) -> bool:
        return bool(self._call("idle"))

    @property
    def wnd(self) -> int:
        return self._call("wnd")

    @property
    def ssthresh(self) -> int:
        return self._call("ssthresh")

    @property
    def alpha(self) -> int:
        return self._call("alpha")
