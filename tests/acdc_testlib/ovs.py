# SPDX-License-Identifier: Apache-2.0

"""A private Open vSwitch: ovsdb-server and ovs-vswitchd in a network namespace
of their own, with a run directory of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from acdc_testlib.netns import Netns, Tap, wait_for
from acdc_testlib.programs import Programs

_PREFIX = "acdc-test-"


def _remove_stale_directories() -> None:
    """Run directories of tests that were killed with SIGKILL; the kernel has
    ended everything else of theirs."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        if not Path("/proc", path.name.removeprefix(_PREFIX).split("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


def datapath_type() -> str:
    """ACDC_TEST_DATAPATH: netdev (userspace, the default) or system (kernel)."""
    value = os.environ.get("ACDC_TEST_DATAPATH", "netdev")
    if value not in ("netdev", "system"):
        raise ValueError(f"ACDC_TEST_DATAPATH={value}: want netdev or system")
    return value


class CommandError(RuntimeError):
    """An OVS command failed; the message is what it wrote on stderr."""


def request(path: Path, method: str, *params: Any, timeout: float = 20) -> Any:
    """One JSON-RPC request to an OVS daemon's socket: what its commands do, without a
    process for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        sock.connect(str(path))
        sock.sendall(json.dumps({"method": method, "params": params, "id": 0}).encode())
        # The connection stays open; the reply is one JSON value.
        data = bytearray()
        while part := sock.recv(1 << 20):
            data += part
            # To parse each part of a long reply would take the most time.
            if not part.endswith(b"}"):
                continue
            with contextlib.suppress(ValueError):
                reply = json.loads(data)
                if reply["error"] is not None:
                    raise CommandError(str(reply["error"]).strip())
                return reply["result"]
    raise ConnectionError(f"{method}: connection closed")


# With ACDC_MEMCHECK in the environment every ovs-vswitchd runs under it, and what it
# finds fails the test.
MEMCHECK = (
    "valgrind", "--quiet", "--fair-sched=yes", "--num-callers=25", "--leak-check=full",
    "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
)  # fmt: skip


class Ovs:
    """Use as a context manager, or call close()."""

    def __init__(self, programs: Programs | None = None, ipv6: bool = False) -> None:
        self.programs = programs or Programs.patched()
        _remove_stale_directories()
        self.dir = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.ns = Netns(ipv6=ipv6)
        self._taps: list[Tap] = []
        self._guests: list[Netns] = []
        self._ovsdb: subprocess.Popen[Any] | None = None
        self._vswitchd: subprocess.Popen[Any] | None = None
        self._environ = os.environ | {
            "OVS_RUNDIR": str(self.dir),
            "OVS_LOGDIR": str(self.dir),
            "OVS_DBDIR": str(self.dir),
            "OVS_SYSCONFDIR": str(self.dir),
        }
        try:
            self.create_database()
            self.start_ovsdb()
            self.vsctl("init", wait=False)
            self.start_vswitchd()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Daemons.

    @property
    def log(self) -> Path:
        return self.dir / "ovs-vswitchd.log"

    def _command(self, *argv: str | Path, timeout: float = 30) -> str:
        # It needs the sockets in the run directory only, not the namespace:
        # two programs less to start, which in the lab take the most time.
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def _daemon(self, program: Path, *argv: str | Path) -> subprocess.Popen[Any]:
        log = self.dir / f"{program.name}.log"
        checker: list[str] = []
        if program == self.programs.vswitchd and os.environ.get("ACDC_MEMCHECK"):
            checker = [*MEMCHECK, f"--log-file={self.dir}/memcheck.%p"]
        return self.ns.popen(
            *checker,
            program,
            *argv,
            f"--unixctl={self.dir / program.name}.ctl",
            f"--log-file={log}",
            "-vconsole:off",
            env=self._environ,
            stdout=subprocess.DEVNULL,
            stderr=(self.dir / f"{program.name}.stderr").open("ab"),
        )

    @property
    def database(self) -> Path:
        return self.dir / "conf.db"

    def create_database(self) -> None:
        self._command(self.programs.ovsdb_tool, "create", self.database, self.programs.schema)

    def convert_database(self) -> None:
        """To the schema of 'programs'."""
        self._command(self.programs.ovsdb_tool, "convert", self.database, self.programs.schema)

    def start_ovsdb(self) -> None:
        sock = self.dir / "db.sock"
        # A server that was killed has left its own, which nobody serves.
        sock.unlink(missing_ok=True)
        remote = f"--remote=punix:{sock}"
        self._ovsdb = self._daemon(self.programs.ovsdb_server, self.database, remote)
        wait_for("ovsdb-server's socket", sock.exists)

    def stop_ovsdb(self, sig: signal.Signals = signal.SIGTERM) -> None:
        assert self._ovsdb is not None
        self._ovsdb.send_signal(sig)
        self._ovsdb.wait(20)

    def start_vswitchd(self) -> None:
        assert not self.vswitchd_running()
        self._vswitchd = self._daemon(self.programs.vswitchd, f"unix:{self.dir / 'db.sock'}")
        try:
            # Each change waits for ovs-vswitchd to have taken it: this one too.
            self.vsctl("set", "open_vswitch", ".", f"external_ids:started={time.time()}")
        except CommandError as error:
            raise RuntimeError(f"ovs-vswitchd does not start: {error}\n{self.log_tail()}") from None

    def vswitchd_running(self) -> bool:
        return self._vswitchd is not None and self._vswitchd.poll() is None

    @property
    def vswitchd_pid(self) -> int:
        assert self._vswitchd is not None
        return self._vswitchd.pid

    def stop_vswitchd(self, sig: signal.Signals = signal.SIGTERM) -> None:
        assert self._vswitchd is not None
        self._vswitchd.send_signal(sig)
        self._vswitchd.wait(20)

    def restart_vswitchd(self, sig: signal.Signals = signal.SIGTERM) -> None:
        self.stop_vswitchd(sig)
        self.start_vswitchd()

    def log_tail(self, lines: int = 40) -> str:
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def close(self) -> None:
        daemons = [d for d in (self._vswitchd, self._ovsdb) if d is not None]
        for daemon in daemons:
            if daemon.poll() is None:
                daemon.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    daemon.wait(60 if os.environ.get("ACDC_MEMCHECK") else 10)
        for tap in self._taps:
            tap.close()
        for guest in self._guests:
            guest.close()
        self.ns.close()
        found = "".join(file.read_text(errors="replace") for file in self.dir.glob("memcheck.*"))
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not found, found

    # Commands.

    def vsctl(self, *argv: str, wait: bool = True) -> str:
        """ovs-vsctl; CommandError with its message if it refuses."""
        options = ["--timeout=20"] if wait else ["--timeout=20", "--no-wait"]
        db = f"--db=unix:{self.dir / 'db.sock'}"
        return self._command(self.programs.vsctl, db, *options, *argv).rstrip("\n")

    def vsctl_json(self, *argv: str) -> list[dict[str, Any]]:
        """`ovs-vsctl list/find ...` as one dictionary a row, OVSDB JSON values."""
        table = json.loads(self.vsctl("--format=json", *argv))
        return [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]

    def appctl(self, *argv: str) -> str:
        target = self.dir / f"{self.programs.vswitchd.name}.ctl"
        return self._command(self.programs.appctl, "--timeout=20", "-t", str(target), *argv)

    def appctl_json(self, *argv: str) -> Any:
        return json.loads(self.appctl(*argv, "--json"))

    def unixctl(self, method: str, *argv: str) -> str:
        """What ovs-appctl does, without a process for it."""
        return str(request(self.dir / f"{self.programs.vswitchd.name}.ctl", method, *argv))

    def ofctl(self, *argv: str) -> str:
        return self._command(self.programs.ofctl, "--timeout=20", *argv)

    # Ports.

    def add_bridge(self, name: str, normal: bool = True) -> None:
        """A bridge of the datapath under test; without 'normal' it forwards
        only what flows added later say."""
        self.vsctl(
            *("add-br", name, "--", "set", "bridge", name, f"datapath_type={datapath_type()}"),
            *("fail_mode=standalone" if normal else "fail_mode=secure",),
        )

    def add_tap(self, bridge: str, name: str, mtu: int = 1500, vnet_hdr: bool = False) -> Tap:
        """A guest whose frames the test writes and reads."""
        tap = Tap(self.ns, name, mtu, vnet_hdr)
        self._taps.append(tap)
        self.vsctl("add-port", bridge, name)
        return tap

    def remove_tap(self, tap: Tap) -> None:
        self.vsctl("--if-exists", "del-port", tap.name)
        self._taps.remove(tap)
        tap.close()

    def add_guest(self, bridge: str, name: str, *addresses: str, mtu: int = 1500) -> Netns:
        """A guest with a stack of its own: a namespace whose eth0 is the other
        end of the veth 'name' on the bridge."""
        guest = Netns()
        self._guests.append(guest)
        self.ns.veth_to(name, guest, "eth0", mtu)
        guest.add_addresses("eth0", *addresses)
        self.vsctl("add-port", bridge, name)
        return guest

    def ofport(self, interface: str) -> int:
        return int(self.vsctl("get", "interface", interface, "ofport"))

    def connect(self, bridge: str, a: str, b: str) -> None:
        """Everything from a goes to b, and the other way round."""
        pa, pb = self.ofport(a), self.ofport(b)
        self.ofctl("add-flow", bridge, f"in_port={pa},actions=output:{pb}")
        self.ofctl("add-flow", bridge, f"in_port={pb},actions=output:{pa}")

    # AC/DC.

    def tenant(self, name: str, **columns: object) -> None:
        """Makes the tenant, or changes it."""
        if not self.vsctl("--columns=name", "--bare", "find", "acdc", f"name={name}"):
            self.vsctl("create", "acdc", f"name={name}", *_settings(columns))
        elif columns:
            self.set_tenant(name, **columns)

    def set_tenant(self, name: str, **columns: object) -> None:
        """Changes a tenant that there is."""
        self.vsctl("set", "acdc", name, *_settings(columns))

    def bind(self, interface: str, tenant: str | None) -> None:
        if tenant is None:
            self.vsctl("remove", "interface", interface, "other_config", "acdc-tenant")
        else:
            self.vsctl("set", "interface", interface, f"other_config:acdc-tenant={tenant}")

    @contextlib.contextmanager
    def bound(self, interface: str, tenant: str = "blue", **columns: object) -> Iterator[None]:
        """A tenant with one guest port, gone afterwards."""
        self.tenant(tenant, **columns)
        self.bind(interface, tenant)
        try:
            yield
        finally:
            self.bind(interface, None)
            self.vsctl("--if-exists", "destroy", "acdc", tenant)


def _settings(columns: dict[str, object]) -> list[str]:
    return [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in columns.items()]
