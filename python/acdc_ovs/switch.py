# SPDX-License-Identifier: Apache-2.0

"""An Open vSwitch of its own: ovsdb-server and ovs-vswitchd with a run directory of
their own, beside any that the machine runs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .database import Change, Database, OvsError, listening, unixctl
from .programs import Programs


@dataclass
class Port:
    """Of a bridge.  'columns' are those of Interface."""

    name: str
    columns: Mapping[str, object] = field(default_factory=dict)
    own_qdiscs: bool = False
    """ovs-vswitchd is to leave the qdiscs of this device alone."""


class Ovs:
    """Runs from start() to stop(), or as a context manager.

    'datapath' is netdev (the userspace datapath) or system (the kernel's)."""

    patience = 10.0
    """Seconds that a daemon gets to end in order."""

    def __init__(
        self, rundir: Path, programs: Programs | None = None, datapath: str = "netdev"
    ) -> None:
        self.rundir = rundir
        self.programs = programs or Programs.find()
        self.datapath = datapath
        self.commands: list[str] = []
        """What an operator would have typed for the changes that were made."""
        self._daemons: dict[str, subprocess.Popen[Any]] = {}
        self._database: Database | None = None
        self._lock = threading.RLock()
        names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        self._environ = os.environ | {name: str(rundir) for name in names}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Daemons.

    def start(self) -> None:
        if self._daemons:
            return
        self.rundir.mkdir(parents=True, exist_ok=True)
        try:
            self.create_database()
            self.start_ovsdb()
            self.initialize_database()
            self.start_vswitchd()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._disconnect()
        for name in reversed(list(self._daemons)):
            try:
                self._end(name, signal.SIGTERM, self.patience)
            except subprocess.TimeoutExpired:
                self._daemons[name].kill()
                self._daemons[name].wait()
        self._daemons.clear()

    def _end(self, name: str, sig: signal.Signals, timeout: float = 20) -> None:
        daemon = self._daemons[name]
        if daemon.poll() is None:
            daemon.send_signal(sig)
        daemon.wait(timeout)

    @property
    def database_file(self) -> Path:
        return self.rundir / "conf.db"

    def create_database(self) -> None:
        self._run(self.programs.ovsdb_tool, "create", self.database_file, self.programs.schema)

    def convert_database(self) -> None:
        """To the schema of 'programs'."""
        self._run(self.programs.ovsdb_tool, "convert", self.database_file, self.programs.schema)

    def initialize_database(self) -> None:
        self.database().initialize()

    def start_ovsdb(self) -> None:
        sock = self.rundir / "db.sock"
        # A server that was killed has left its own, which nobody serves.
        sock.unlink(missing_ok=True)
        remote = f"--remote=punix:{sock}"
        self._daemon(self.programs.ovsdb_server, str(self.database_file), remote)
        self._await_socket(sock)

    def stop_ovsdb(self, sig: signal.Signals = signal.SIGTERM) -> None:
        self._disconnect()
        name = self.programs.ovsdb_server.name
        self._end(name, sig)
        del self._daemons[name]

    def start_vswitchd(self) -> None:
        assert not self.vswitchd_running()
        self._daemon(self.programs.vswitchd, f"unix:{self.rundir}/db.sock")
        self._await_socket(self._control)
        with self.change() as change:  # It runs when it has taken a change.
            change.set(change.root, **{"external_ids:started": time.time()})

    def stop_vswitchd(self, sig: signal.Signals | None = signal.SIGTERM, *options: str) -> None:
        """By a signal, or as `ovs-appctl exit OPTIONS` does."""
        name = self.programs.vswitchd.name
        if sig is None:
            self.appctl("exit", *options)
            self._daemons[name].wait(20)
        else:
            self._end(name, sig)
        del self._daemons[name]

    def restart_vswitchd(self, sig: signal.Signals | None = signal.SIGTERM) -> None:
        """Flows in the kernel's datapath stay, as at an upgrade."""
        self.stop_vswitchd(sig)
        self.start_vswitchd()

    def vswitchd_running(self) -> bool:
        daemon = self._daemons.get(self.programs.vswitchd.name)
        return daemon is not None and daemon.poll() is None

    def _daemon(self, program: Path, *args: str) -> None:
        name = program.name
        control = self.rundir / f"{name}.ctl"
        control.unlink(missing_ok=True)
        words = [str(program), *args, f"--unixctl={control}"]
        words += [f"--log-file={self.rundir}/{name}.log", "-vconsole:off"]
        with (self.rundir / f"{name}.stderr").open("ab") as stderr:
            self._daemons[name] = self._popen(
                program,
                words,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def _popen(self, program: Path, words: list[str], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401
        """Starts a daemon.  Ctrl-C is not for it: who made this stops it in order."""
        return subprocess.Popen(words, start_new_session=True, **options)

    def _await_socket(self, path: Path, timeout: float = 20.0) -> None:
        deadline = time.monotonic() + timeout
        while not listening(path):
            self.check()
            if time.monotonic() > deadline:
                raise OvsError(f"{path}: nobody listens after {timeout:g} s")
            time.sleep(0.02)

    def check(self) -> None:
        """Raises OvsError if a daemon has ended by itself."""
        for name, daemon in list(self._daemons.items()):
            if daemon.poll() is not None:
                raise OvsError(
                    f"{name} ended with status {daemon.returncode}:\n{self.log_tail(name=name)}"
                )

    @property
    def log(self) -> Path:
        return self.rundir / f"{self.programs.vswitchd.name}.log"

    def log_tail(self, lines: int = 40, name: str = "") -> str:
        name = name or self.programs.vswitchd.name
        texts = []
        for suffix in ("log", "stderr"):
            with contextlib.suppress(OSError):
                text = (self.rundir / f"{name}.{suffix}").read_text(errors="replace")
                texts += text.splitlines()[-lines:]
        return "\n".join(texts)

    def pid(self, name: str = "") -> int:
        """Of ovs-vswitchd, or of the daemon of that name."""
        return self._daemons[name or self.programs.vswitchd.name].pid

    # Commands.

    def database(self) -> Database:
        """The connection, which is made when it is first needed."""
        with self._lock:
            if self._database is None:
                self._database = Database(self.rundir / "db.sock", self.check)
            return self._database

    def _disconnect(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def change(self) -> contextlib.AbstractContextManager[Change]:
        """A transaction (Database.change())."""
        return self.database().change()

    def _run(self, *argv: str | Path, timeout: float = 60) -> str:
        done = subprocess.run(
            [str(arg) for arg in argv],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode != 0:
            command = shlex.join([Path(argv[0]).name, *(str(arg) for arg in argv[1:])])
            raise OvsError(f"{command}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout.rstrip("\n")

    def vsctl(self, *args: str, wait: bool = True) -> str:
        """ovs-vsctl itself; with 'wait' it returns when ovs-vswitchd has taken the change."""
        options = [f"--db=unix:{self.rundir}/db.sock", "--timeout=20"]
        options += [] if wait else ["--no-wait"]
        output = self._run(self.programs.vsctl, *options, *args)
        self._did(*args)
        # What it changed is seen by a new connection for certain.
        self._disconnect()
        return output

    def _did(self, *args: str) -> None:
        self.commands.append(shlex.join(["ovs-vsctl", *args]))

    @property
    def _control(self) -> Path:
        return self.rundir / f"{self.programs.vswitchd.name}.ctl"

    def appctl(self, *args: str) -> str:
        """What ovs-appctl prints, without a process for it."""
        return unixctl(self._control, *args)

    def acdc(self, command: str, *args: str) -> Any:  # noqa: ANN401
        """`ovs-appctl acdc/COMMAND ARGS --json`, decoded."""
        return json.loads(self.appctl(f"acdc/{command}", *args, "--json"))

    def ofctl(self, *args: str) -> str:
        return self._run(self.programs.ofctl, "--timeout=20", *args)

    # Bridges and ports.

    def add_bridge(
        self, name: str, normal: bool = True, ports: Sequence[Port] = (), **columns: object
    ) -> None:
        """A bridge of 'datapath' that learns addresses; without 'normal' it forwards only
        what flows added later say."""
        with self.change() as change:
            # Its own port, as ovs-vsctl add-br makes it.
            own = Port(name, {"type": "internal"})
            bridge = change.create(
                "Bridge",
                name=name,
                datapath_type=self.datapath,
                fail_mode="standalone" if normal else "secure",
                ports=[_add_port(change, port) for port in (own, *ports)],
                **columns,
            )
            change.root.addvalue("bridges", bridge)

    def del_bridge(self, name: str) -> None:
        """If it is there."""
        with self.change() as change:
            if bridge := change.find("Bridge", name):
                change.root.delvalue("bridges", bridge)

    def add_port(self, bridge: str, name: str | Port, **columns: object) -> None:
        port = name if isinstance(name, Port) else Port(name, columns)
        with self.change() as change:
            change.get("Bridge", bridge).addvalue("ports", _add_port(change, port))

    def del_port(self, name: str) -> None:
        """If it is there."""
        with self.change() as change:
            port = change.find("Port", name)
            for bridge in change.rows("Bridge") if port else ():
                if port in bridge.ports:
                    bridge.delvalue("ports", port)

    def ofport(self, interface: str) -> int:
        return self.database().await_ofport(interface)

    # AC/DC.

    def set_global(self, **values: object) -> None:
        """Keys of Open_vSwitch other_config; None takes one away."""
        with self.change() as change:
            columns = {f"other_config:{key}": value for key, value in values.items()}
            change.set(change.root, **columns)

    def set_tenant(self, name: str, **columns: object) -> None:
        """Makes the tenant, or changes it: set_tenant("blue", beta=0.25)."""
        with self.change() as change:
            row = change.find("ACDC", name)
            if row is None:
                change.create("ACDC", name=name, **columns)
            else:
                change.set(row, **columns)
        settings = [f"{key}={value}" for key, value in columns.items()]
        if row is None:
            self._did("create", "acdc", f"name={name}", *settings)
        else:
            self._did("set", "acdc", name, *settings)

    def del_tenant(self, name: str) -> None:
        """If it is there."""
        with self.change() as change:
            if row := change.find("ACDC", name):
                row.delete()

    def set_rules(self, tenant: str, rules: Sequence[str]) -> None:
        """Rows of ACDC_Rule: "PRIORITY MATCH KEY=VALUE..."."""
        with self.change() as change:
            rows = []
            for rule in rules:
                priority, match, *settings = rule.split()
                columns = dict(setting.split("=", 1) for setting in settings)
                row = change.create("ACDC_Rule", priority=priority, match=match, **columns)
                rows.append(row)
            change.set(change.get("ACDC", tenant), rules=rows)

    def bind(self, tenant: str | None, *interfaces: str) -> None:
        """Makes 'interfaces' guest ports of 'tenant'; of None, plain ports."""
        with self.change() as change:
            for name in interfaces:
                row = change.get("Interface", name)
                change.set(row, **{"other_config:acdc-tenant": tenant})
        words: list[str] = []
        for name in interfaces:
            if tenant is None:
                words += ["--", "remove", "interface", name, "other_config", "acdc-tenant"]
            else:
                words += ["--", "set", "interface", name, f"other_config:acdc-tenant={tenant}"]
        self._did(*words[1:])


def _add_port(change: Change, port: Port) -> Any:  # noqa: ANN401
    interface = change.create("Interface", name=port.name, **port.columns)
    row = change.create("Port", name=port.name, interfaces=[interface])
    if port.own_qdiscs:
        change.set(row, qos=change.create("QoS", type="linux-noop"))
    return row
