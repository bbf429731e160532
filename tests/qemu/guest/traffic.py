# SPDX-License-Identifier: Apache-2.0

"""Guests' connections, each worker a process of its own on a processor of its
own.  Connections may fail, as ports and guests go; what arrives must be what
was sent."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import random
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acdc_ovs import call, unixctl
from acdc_ovs.namespaces import setns
from acdc_testlib.netns import Netns

RUN_DIR = Path("/usr/local/var/run/openvswitch")
PATTERN = random.Random(1).randbytes(1 << 16) * 2
PERIOD = 1 << 16
ECHO, SINK = 7, 9
Counts = dict[str, int]
_libc = ctypes.CDLL(None)


class Worker:
    """Runs 'task' in a process, in 'ns', on processor 'cpu', until it returns."""

    def __init__(self, task: Callable[..., Counts], ns: Netns | None, cpu: int, *args: Any) -> None:
        self.name = task.__name__
        self.cpu = cpu
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(write)
            self._result = os.fdopen(read)
            return
        status = 1
        try:
            _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            os.sched_setaffinity(0, {cpu % (os.cpu_count() or 1)})
            if ns:
                setns(ns.fd)
            os.write(write, json.dumps(task(*args)).encode())
            status = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)

    def join(self) -> Counts:
        text = self._result.read()
        _, status = os.waitpid(self.pid, 0)
        assert status == 0, f"worker {self.name}: status {status}"
        counts: Counts = json.loads(text)
        return counts

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._result.close()


def listen(port: int) -> socket.socket:
    sock = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True,
                                backlog=256)  # fmt: skip
    sock.settimeout(1)
    return sock


def serve(listener: socket.socket, until: float) -> Counts:
    """Sends back what it gets, or with the sink's port compares it."""
    sink = listener.getsockname()[1] == SINK
    counts = {"served": 0, "bytes": 0}
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            with sock:
                sock.settimeout(3)
                offset = 0
                while time.monotonic() < until and (data := sock.recv(PERIOD)):
                    if sink:
                        start = offset % PERIOD
                        assert data == PATTERN[start : start + len(data)], "payload differs"
                        offset += len(data)
                    else:
                        sock.sendall(data)
                counts["bytes"] += offset
                counts["served"] += 1
    return counts


def connect(address: str, port: int) -> socket.socket:
    return socket.create_connection((address, port), 3)


def short(addresses: list[str], until: float, seed: int) -> Counts:
    """Connections of a few segments; some end by RST, some are never answered."""
    choose = random.Random(seed)
    counts = {"echoed": 0, "reset": 0, "unanswered": 0, "failed": 0}
    for number in itertools.count():
        if time.monotonic() >= until:
            return counts
        address = choose.choice(addresses)
        try:
            if number % 10 == 1:
                counts["unanswered"] += 1
                with socket.socket(socket.AF_INET) as sock, contextlib.suppress(OSError):
                    sock.settimeout(0.05)
                    sock.connect(("10.0.0.99", ECHO))
                continue
            start = choose.randrange(PERIOD)
            data = PATTERN[start : start + choose.randrange(1, 20000)]
            with connect(address, ECHO) as sock:
                sock.sendall(data)
                if number % 10 == 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    counts["reset"] += 1
                    continue
                sock.shutdown(socket.SHUT_WR)
                got = b""
                while part := sock.recv(PERIOD):
                    got += part
            assert data.startswith(got), "payload differs"
            counts["echoed" if got == data else "failed"] += 1
        except OSError:
            counts["failed"] += 1
            # No port, no route: not a busy loop.
            time.sleep(0.02)
    raise AssertionError


def bulk(addresses: list[str], until: float, seed: int) -> Counts:
    """Long streams, one after the other."""
    choose = random.Random(seed)
    counts = {"streams": 0, "failed": 0}
    while time.monotonic() < until:
        end = min(until, time.monotonic() + choose.uniform(1, 8))
        try:
            with connect(choose.choice(addresses), SINK) as sock:
                while time.monotonic() < end:
                    sock.sendall(PATTERN[:PERIOD])
            counts["streams"] += 1
        except OSError:
            counts["failed"] += 1
            time.sleep(0.02)
    return counts


def appctl(method: str, *params: str) -> str:
    """Without a process: it would take seconds here."""
    pid = (RUN_DIR / "ovs-vswitchd.pid").read_text().strip()
    return unixctl(RUN_DIR / f"ovs-vswitchd.{pid}.ctl", method, *params, timeout=120)


def transact(*operations: dict[str, Any]) -> None:
    """In the database of Open vSwitch."""
    path = RUN_DIR / "db.sock"
    for result in call(path, "transact", "Open_vSwitch", *operations, timeout=120):
        assert not (result or {}).get("error"), result
