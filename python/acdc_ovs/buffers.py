# SPDX-License-Identifier: Apache-2.0

"""Buffers of the sockets that the userspace datapath reads devices by."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from pathlib import Path

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SYS_PIDFD_GETFD = 438  # The same on all architectures.
BUFFER = 8 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def enlarge_buffers(pid: int) -> None:
    """Gives every AF_PACKET socket of an ovs-vswitchd room for a burst."""
    pidfd = os.pidfd_open(pid)
    try:
        for link in Path("/proc", str(pid), "fd").iterdir():
            with contextlib.suppress(OSError):
                if not os.readlink(link).startswith("socket:"):
                    continue
                fd = _libc.syscall(SYS_PIDFD_GETFD, pidfd, int(link.name), 0)
                if fd < 0:
                    continue
                with socket.socket(fileno=fd) as copy:
                    if copy.family == socket.AF_PACKET:
                        for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
                            copy.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    finally:
        os.close(pidfd)
