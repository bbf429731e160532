# SPDX-License-Identifier: Apache-2.0

"""Network namespaces of the calling thread, which os has no functions for before 3.12."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _check(name: str, result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def setns(fd: int) -> None:
    _check("setns", _libc.setns(fd, CLONE_NEWNET))


def unshare(flags: int = CLONE_NEWNET) -> None:
    """Into new namespaces, also of other kinds."""
    _check("unshare", _libc.unshare(flags))


@contextlib.contextmanager
def back_again() -> Iterator[None]:
    """The thread is at the end where it was."""
    with open("/proc/thread-self/ns/net") as own:
        try:
            yield
        finally:
            setns(own.fileno())


@contextlib.contextmanager
def entered(pid: int) -> Iterator[None]:
    """The thread, and what it starts, is in the namespace of that process meanwhile."""
    with back_again(), Path(f"/proc/{pid}/ns/net").open() as namespace:
        setns(namespace.fileno())
        yield
