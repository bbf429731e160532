# SPDX-License-Identifier: Apache-2.0

"""The Open vSwitch of an experiment: it ends with the experiment, gets the CPU before
what else the machine does, and loses no packet for want of a socket's buffer."""

from __future__ import annotations

import functools
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import acdc_ovs
from acdc_ovs.buffers import enlarge_buffers

from .isolation import SCHED_DEADLINE, before_others, die_with_parent


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
        enlarge_buffers(self.pid())

    @property
    def undisturbed(self) -> bool:
        """Whether the kernel promised ovs-vswitchd its CPU time."""
        policy = os.sched_getscheduler(self.pid()) & ~os.SCHED_RESET_ON_FORK
        return policy == SCHED_DEADLINE

    def cpu_seconds(self) -> float:
        """CPU time that ovs-vswitchd used so far, all threads."""
        stat = Path("/proc", str(self.pid()), "stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
