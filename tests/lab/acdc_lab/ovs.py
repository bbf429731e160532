# SPDX-License-Identifier: Apache-2.0
"""A private ovsdb-server and ovs-vswitchd."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from .net import CommandError, sh


class OpenVSwitch:
    """The programs that 'programs' names, as build/env does, with their
    database, sockets and logs in 'run_dir'."""

    def __init__(self, programs: dict[str, str], run_dir: Path, datapath: str) -> None:
        self.programs = programs
        self.dir = run_dir
        self.datapath = datapath
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("RUN", "LOG", "DB"):
            os.environ[f"OVS_{name}DIR"] = str(run_dir)
        self.socket = run_dir / "db.sock"

    def start(self, handlers_need_time: bool) -> None:
        self.dir.mkdir(parents=True, exist_ok=True)
        database = self.dir / "conf.db"
        sh(self.programs["OVSDB_TOOL"], "create", database, self.programs["OVS_SCHEMA"])
        self._daemon("OVSDB_SERVER", database, f"--remote=punix:{self.socket}")
        self._wait_for(self.socket)
        self.vsctl("--no-wait", "init")
        if handlers_need_time:
            # The count of processors is cached for 10 s of monotonic time.
            time.sleep(11)
        self.start_switch()

    def start_switch(self) -> None:
        self._daemon("OVS_VSWITCHD", f"unix:{self.socket}")
        pid = self.daemons["OVS_VSWITCHD"].pid
        self._wait_for(self.dir / f"ovs-vswitchd.{pid}.ctl")

    def restart_switch(self) -> None:
        """As an upgrade does it: the kernel's flows stay."""
        daemon = self.daemons.pop("OVS_VSWITCHD")
        self.appctl("exit", daemon=daemon)
        daemon.wait()
        self.start_switch()
        # A change of the database returns when the switch has taken it.
        self.vsctl("set", "open_vswitch", ".", "external_ids:lab=restarted")

    def stop(self) -> None:
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            daemon.wait()

    def vsctl(self, *words: object) -> str:
        return sh(self.programs["OVS_VSCTL"], f"--db=unix:{self.socket}", "--timeout=60", *words)

    def appctl(self, *words: object, daemon: subprocess.Popen[bytes] | None = None) -> str:
        daemon = daemon or self.daemons["OVS_VSWITCHD"]
        return sh(
            self.programs["OVS_APPCTL"], "-t", self.dir / f"ovs-vswitchd.{daemon.pid}.ctl", *words
        )

    def appctl_json(self, *words: object) -> Any:
        return json.loads(self.appctl(*words, "--json"))

    def add_bridge(self, name: str) -> None:
        self.vsctl(
            "add-br", name, "--", "set", "bridge", name, f"datapath_type={self.datapath}",
            "fail_mode=standalone",
        )  # fmt: skip

    def add_ports(self, bridge: str, ports: list[str]) -> None:
        # Without a QoS of type linux-noop ovs-vswitchd removes the queues that
        # it finds on its ports.
        words: list[str] = []
        for i, port in enumerate(ports):
            words += ["--", "add-port", bridge, port, "--", "set", "port", port, f"qos=@q{i}",
                      "--", f"--id=@q{i}", "create", "qos", "type=linux-noop"]  # fmt: skip
        if words:
            self.vsctl(*words[1:])

    def set_tenant(self, name: str, settings: dict[str, str], rules: list[str]) -> None:
        """RULES: "PRIORITY MATCH KEY=VALUE...", for the rows of ACDC_Rule."""
        words: list[str] = []
        for i, rule in enumerate(rules):
            priority, match, *values = rule.split()
            words += [f"--id=@r{i}", "create", "acdc_rule", f"priority={priority}",
                      f'match="{match}"', *values, "--"]  # fmt: skip
        words += ["create", "acdc", f"name={name}", *(f"{k}={v}" for k, v in settings.items())]
        if rules:
            words.append(f"rules=[{','.join(f'@r{i}' for i in range(len(rules)))}]")
        self.vsctl(*words)

    def bind(self, port: str, tenant: str) -> None:
        self.vsctl("set", "interface", port, f"other_config:acdc-tenant={tenant}")

    def _daemon(self, program: str, *words: object) -> None:
        name = program.lower().replace("ovs_", "ovs-").replace("ovsdb_", "ovsdb-")
        command = [
            self.programs[program], *map(str, words), f"--log-file={self.dir / name}.log",
            f"--pidfile={self.dir / name}.pid", "--no-chdir", "-vconsole:off",
        ]  # fmt: skip
        self.daemons[program] = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def _wait_for(self, path: Path) -> None:
        deadline = time.monotonic() + 30
        while not path.exists():
            time.sleep(0.05)
            for program, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    raise CommandError(f"{program} ended with status {daemon.returncode}")
            if time.monotonic() > deadline:
                raise CommandError(f"no {path} after 30 s")
