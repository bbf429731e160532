# SPDX-License-Identifier: Apache-2.0

"""An Open vSwitch of its own: ovsdb-server and ovs-vswitchd from build/env,
with a run directory for each network, beside any that the machine runs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .isolation import SCHED_DEADLINE, before_others, die_with_parent

TOP = Path(__file__).resolve().parents[2]


SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SYS_PIDFD_GETFD = 438  # The same on all architectures.
BUFFER = 8 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class OvsError(RuntimeError):
    """An OVS program failed; the message is what it wrote."""


@dataclass(frozen=True)
class Programs:
    """What the build made, or another Open vSwitch."""

    vswitchd: Path
    vsctl: Path
    appctl: Path
    ofctl: Path
    ovsdb_server: Path
    ovsdb_tool: Path
    schema: Path

    @staticmethod
    def from_env(path: Path | None = None) -> Programs:
        """From shell assignments as in build/env; ACDC_ENV names another file."""
        path = path or Path(os.environ.get("ACDC_ENV", TOP / "build" / "env"))
        if not path.exists():
            raise OvsError(f"{path}: missing: build first (./boot.sh && ./configure && make)")
        words = shlex.split(path.read_text(), comments=True)
        return Programs.from_mapping(dict(word.split("=", 1) for word in words if "=" in word))

    @staticmethod
    def from_mapping(env: Mapping[str, str]) -> Programs:
        """From the variables of build/env."""
        appctl = Path(env["OVS_APPCTL"])
        return Programs(
            vswitchd=Path(env["OVS_VSWITCHD"]),
            vsctl=Path(env["OVS_VSCTL"]),
            appctl=appctl,
            ofctl=Path(env.get("OVS_OFCTL", appctl.with_name("ovs-ofctl"))),
            ovsdb_server=Path(env["OVSDB_SERVER"]),
            ovsdb_tool=Path(env["OVSDB_TOOL"]),
            schema=Path(env["OVS_SCHEMA"]),
        )

    @property
    def has_acdc(self) -> bool:
        return "ACDC" in json.loads(self.schema.read_text())["tables"]

    def version(self) -> str:
        done = subprocess.run(
            [self.vswitchd, "--version"], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[0]


class Ovs:
    """Runs from start() to stop(), or as a context manager.

    'datapath' is netdev (the userspace datapath) or system (the kernel's)."""

    def __init__(
        self, rundir: Path, programs: Programs | None = None, datapath: str = "netdev"
    ) -> None:
        self.rundir = rundir
        self.programs = programs or Programs.from_env()
        self.datapath = datapath
        self.commands: list[str] = []
        """What vsctl() ran that changed something."""
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        self._environ = os.environ | {name: str(rundir) for name in names}

    def __enter__(self) -> Ovs:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _remote(self) -> str:
        return f"unix:{self.rundir}/db.sock"

    def start(self) -> None:
        if self._daemons:
            return
        self.rundir.mkdir(parents=True, exist_ok=True)
        database = self.rundir / "conf.db"
        try:
            self._run(self.programs.ovsdb_tool, "create", database, self.programs.schema)
            self._daemon(self.programs.ovsdb_server, str(database), f"--remote=p{self._remote}")
            self._await_socket(self.rundir / "db.sock")
            self._run(self.programs.vsctl, f"--db={self._remote}", "--no-wait", "init")
            self._start_switch()
        except BaseException:
            self.stop()
            raise

    def _start_switch(self) -> None:
        self._daemon(self.programs.vswitchd, self._remote)
        self._await_socket(self.rundir / "ovs-vswitchd.ctl")

    def restart_switch(self) -> None:
        """Ends ovs-vswitchd as an upgrade does, and starts it again: flows in
        the kernel's datapath stay."""
        self.appctl("exit")
        self._daemons.pop(self.programs.vswitchd.name).wait()
        self._start_switch()
        # A change of the database returns when the switch has taken it.
        self.vsctl("set", "open_vswitch", ".", "external_ids:restarted=true")

    def _daemon(self, program: Path, *args: str) -> None:
        name = program.name
        # What forwards is to get the CPU at once; the kernel's datapath does.
        switch = program == self.programs.vswitchd and self.datapath == "netdev"
        # It would die with the thread that starts it.
        die = threading.current_thread() is threading.main_thread()
        started = functools.partial(self._before_exec, die, switch)
        # A session of its own: Ctrl-C is for the experiment, which then stops
        # this in order.  die_with_parent() is for the case that it cannot.
        self._daemons[name] = subprocess.Popen(
            [
                *(str(program), *args, f"--unixctl={self.rundir}/{name}.ctl"),
                *(f"--log-file={self.rundir}/{name}.log", "-vconsole:off"),
            ],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.rundir / f"{name}.stderr").open("wb"),
            start_new_session=True,
            preexec_fn=started,
        )

    @staticmethod
    def _before_exec(die: bool, switch: bool) -> None:
        if die:
            die_with_parent()
        if switch:
            before_others(switch)

    def _await_socket(self, path: Path, timeout: float = 20.0) -> None:
        deadline = time.monotonic() + timeout
        while not path.exists():
            self.check()
            if time.monotonic() > deadline:
                raise OvsError(f"{path}: not there after {timeout:.0f} s")
            time.sleep(0.02)

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

    def check(self) -> None:
        """Raises OvsError if a daemon has ended."""
        for name, daemon in self._daemons.items():
            if daemon.poll() is not None:
                raise OvsError(
                    f"{name} ended with status {daemon.returncode}:\n{self.log_tail(name)}"
                )

    def log_tail(self, name: str = "ovs-vswitchd", lines: int = 15) -> str:
        texts = []
        for suffix in ("log", "stderr"):
            with contextlib.suppress(OSError):
                texts += (self.rundir / f"{name}.{suffix}").read_text().splitlines()[-lines:]
        return "\n".join(texts)

    def pid(self, name: str = "ovs-vswitchd") -> int:
        return self._daemons[name].pid

    @property
    def undisturbed(self) -> bool:
        """Whether the kernel promised ovs-vswitchd its CPU time."""
        policy = os.sched_getscheduler(self.pid()) & ~os.SCHED_RESET_ON_FORK
        return policy == SCHED_DEADLINE

    def cpu_seconds(self) -> float:
        """CPU time that ovs-vswitchd used so far, all threads."""
        stat = Path("/proc", str(self.pid()), "stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        for daemon in reversed(list(self._daemons.values())):
            if daemon.poll() is None:
                daemon.terminate()
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
        self._daemons.clear()

    def _run(self, *argv: str | Path) -> str:
        done = subprocess.run(
            [str(arg) for arg in argv],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            command = shlex.join([Path(argv[0]).name, *(str(arg) for arg in argv[1:])])
            raise OvsError(f"{command}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout.rstrip("\n")

    def vsctl(self, *args: str) -> str:
        """ovs-vsctl, which returns when ovs-vswitchd has taken the change."""
        self.check()
        output = self._run(self.programs.vsctl, f"--db={self._remote}", "--timeout=20", *args)
        self.commands.append(shlex.join(["ovs-vsctl", *args]))
        return output

    def appctl(self, *args: str) -> str:
        self.check()
        return self._run(
            *(self.programs.appctl, "-t", self.rundir / "ovs-vswitchd.ctl", "--timeout=20"), *args
        )

    def ofctl(self, *args: str) -> str:
        self.check()
        return self._run(self.programs.ofctl, *args)

    # AC/DC.

    def set_tenant(self, name: str, **columns: object) -> None:
        """Makes the tenant, or changes it: set_tenant("blue", beta=0.25)."""
        values = [f"{key}={value}" for key, value in columns.items()]
        if self._run(
            *(self.programs.vsctl, f"--db={self._remote}", "--bare", "--columns=name"),
            *("find", "acdc", f"name={name}"),
        ):
            self.vsctl("set", "acdc", name, *values)
        else:
            self.vsctl("create", "acdc", f"name={name}", *values)

    def set_rules(self, tenant: str, rules: Sequence[str]) -> None:
        """Rows of ACDC_Rule: "PRIORITY MATCH KEY=VALUE..."."""
        words: list[str] = []
        for i, rule in enumerate(rules):
            priority, match, *values = rule.split()
            words += [f"--id=@r{i}", "create", "acdc_rule", f"priority={priority}"]
            words += [f'match="{match}"', *values, "--"]
        names = ",".join(f"@r{i}" for i in range(len(rules)))
        self.vsctl(*words, "set", "acdc", tenant, f"rules=[{names}]")

    def bind(self, tenant: str, *interfaces: str) -> None:
        """Makes 'interfaces' guest ports of 'tenant'."""
        words: list[str] = []
        for name in interfaces:
            words += ["--", "set", "interface", name, f"other_config:acdc-tenant={tenant}"]
        self.vsctl(*words[1:])

    def acdc(self, command: str, *args: str) -> Any:  # noqa: ANN401
        """`ovs-appctl acdc/COMMAND ARGS --json`, decoded."""
        return json.loads(self.appctl(f"acdc/{command}", *args, "--json"))
