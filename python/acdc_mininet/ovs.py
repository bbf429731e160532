# SPDX-License-Identifier: Apache-2.0

"""The Open vSwitch of an experiment: it ends with the experiment, gets the CPU before
what else the machine does, and loses no packet for want of a socket's buffer."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import acdc_ovs

from .isolation import SCHED_DEADLINE, before_others, die_with_parent

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SYS_PIDFD_GETFD = 438  # The same on all architectures.
BUFFER = 8 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class Ovs(acdc_ovs.Ovs):
    def _popen(self, program: Path, words: list[str], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401
        # What forwards is to get the CPU at once; the kernel's datapath does.
        switch = program == self.programs.vswitchd and self.datapath == "netdev"
        # It would die with the thread that starts it.
        die = threading.current_thread() is threading.main_thread()
        started = functools.partial(self._before_exec, die, switch)
        return super()._popen(program, words, preexec_fn=started, **options)

    @staticmethod
    def _before_exec(die: bool, switch: bool) -> None:
        if die:
            die_with_parent()
        if switch:
            before_others(switch)

    def enlarge_buffers(self) -> None:
        """Gives every AF_PACKET socket of ovs-vswitchd room for a burst.

        With the machine's default (net.core.rmem_default, often 90 packets)
        a port loses packets whenever ovs-vswitchd waits some milliseconds for
        the CPU, as no queue of the experiment says.  A driver's ring is that
        room on a real port."""
        pid = self.pid()
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

    @property
    def undisturbed(self) -> bool:
        """Whether the kernel promised ovs-vswitchd its CPU time."""
        policy = os.sched_getscheduler(self.pid()) & ~os.SCHED_RESET_ON_FORK
        return policy == SCHED_DEADLINE

    def cpu_seconds(self) -> float:
        """CPU time that ovs-vswitchd used so far, all threads."""
        stat = Path("/proc", str(self.pid()), "stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
