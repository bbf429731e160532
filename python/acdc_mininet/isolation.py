# SPDX-License-Identifier: Apache-2.0

"""Private network, mount and process namespaces for a whole experiment.

Mininet puts its switches into the namespace it runs in and sets sysctls, and
Open vSwitch leaves devices and sockets behind when it is killed.  So the
experiment runs as process 1 of a process namespace of its own: when it ends,
however it ends, the kernel kills what it started, and with the last process
the namespaces go, with all devices, mounts and files under /run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import FrameType

from acdc_ovs.namespaces import CLONE_NEWNET, unshare

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
SCHED_DEADLINE = 6
SCHED_FLAG_RESET_ON_FORK = 1
SI_USER = 0

RUN = Path("/run/acdc")
"""Files of the experiment, in a tmpfs that only it sees."""

_VARIABLE = "ACDC_ISOLATED"
_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(name: str, result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def _mount(source: str, target: str | Path, fstype: str | None, flags: int) -> None:
    kind = fstype.encode() if fstype else None
    result = _libc.mount(source.encode(), str(target).encode(), kind, flags, None)
    _check(f"mount {target}", result)


def die_with_parent() -> None:
    """For the child after fork(): SIGKILL when the thread that forked ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _set_scheduler(policy: int, priority: int, runtime: int, period: int) -> bool:
    """sched_setattr(2) of this process, without its children; times in ns."""
    number = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
    attr = struct.pack(
        "=IIQiIQQQ", 48, policy, SCHED_FLAG_RESET_ON_FORK, 0, priority, runtime, period, period
    )
    return number is not None and _libc.syscall(number, 0, attr, 0) == 0


def before_others(switch: bool = False) -> None:
    """For the child after fork(): gets the CPU at once, whatever else runs.

    A switch and guests that wait for it queue packets where no switch would,
    and what else the machine does is not to be measured.  A nice value is not
    enough where the kernel lets others go on to the next tick.  The switch may
    want a whole CPU, and SCHED_RR would be stopped for 50 ms a second when it
    starves others; SCHED_DEADLINE leaves them a part of every millisecond."""
    done = switch and _set_scheduler(SCHED_DEADLINE, 0, 880_000, 1_000_000)
    # What another experiment on this machine got is not there for this one.
    if not (done or _set_scheduler(os.SCHED_RR, 2 if switch else 1, 0, 0)):
        with contextlib.suppress(PermissionError):  # A container may not.
            os.setpriority(os.PRIO_PROCESS, 0, -20 if switch else -15)


def isolated() -> bool:
    """True in a process that enter() returned in, and in its children."""
    return _VARIABLE in os.environ


def enter() -> None:
    """Continues in new namespaces, as their process 1.

    The calling process stays behind: it hands signals on, waits, and exits
    with the status of the one that continues.  Call it early: threads do not
    follow, and what is buffered would be written twice."""
    if isolated():
        return
    if os.geteuid() != 0:
        raise PermissionError("network namespaces need root")
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID)
    alive, guard = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(alive)
        os._exit(_wait(child))
    die_with_parent()
    os.close(guard)
    os.set_blocking(alive, False)
    try:
        if os.read(alive, 1) == b"":  # It died before die_with_parent().
            os._exit(1)
    except BlockingIOError:
        os.close(alive)
    _prepare()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED | {signal.SIGCHLD})


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The first of these signals stops the experiment, the others would only
    stop the cleaning up."""
    for other in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def _wait(child: int) -> int:
    """Returns the exit status of 'child' as a shell would."""
    while True:
        info = signal.sigwaitinfo(_FORWARDED | {signal.SIGCHLD})
        if info.si_signo != signal.SIGCHLD:
            # A terminal sends its own to the child too.
            if info.si_code == SI_USER:
                os.kill(child, info.si_signo)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _prepare() -> None:
    """Makes the new namespaces usable."""
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV)
    RUN.mkdir()
    os.environ[_VARIABLE] = "1"
    for conf in ("all", "default"):
        path = Path("/proc/sys/net/ipv6/conf", conf, "disable_ipv6")
        if path.exists():
            path.write_text("1")
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)


def mount_bpffs() -> Path:
    """A file system for pinned BPF programs and maps, of this process only."""
    path = RUN / "bpf"
    if not path.is_dir():
        path.mkdir(parents=True)
        _mount("bpf", path, "bpf", 0)
    return path
