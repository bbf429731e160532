# SPDX-License-Identifier: Apache-2.0

"""A fleet: three servers in RAFT with TLS, a relay, hosts with agents.  Each server has a network
namespace of its own on a bridge, so that it can be cut off."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import acdc_ovs
from acdc_fleet.ctl import main as fleetctl
from acdc_fleet.transport import transact
from acdc_ovs.database import listening
from acdc_ovs.programs import read_env
from acdc_testlib.netns import DIE_WITH_PARENT, Netns, wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.programs import Programs

ROOT = Path(__file__).resolve().parents[2]
CTL = ("/usr/bin/python3", str(ROOT / "utilities/acdc-fleetctl"))
SERVERS = ("a", "b", "c")
ADDRESS = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3", "relay": "10.0.0.4"}
RAFT, HOSTS, RELAY = 6650, 6651, 6652


def schema() -> dict[str, Any]:
    """ACDC_Fleet's, as the build has it."""
    command = [sys.executable, str(ROOT / "build-aux/acdc_params.py"), "fleet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


class Pki:
    """Certificates by ovs-pki: servers' and operators' of one authority, hosts' of the same."""

    def __init__(self, directory: Path) -> None:
        self.dir = directory
        directory.mkdir()
        self._pki("init")
        self.ca = directory / "pki/switchca/cacert.pem"

    def _pki(self, *words: str) -> None:
        tool = Path(read_env()["OVS_TREE"]) / "utilities/ovs-pki"
        options = ["--batch", "--unique", "--dir=pki", "--log=log"]
        command = ["sh", str(tool), *options, *words]
        subprocess.run(command, cwd=self.dir, check=True, capture_output=True)

    def make(self, name: str) -> None:
        if not (self.dir / f"{name}-cert.pem").exists():
            self._pki("req+sign", name, "switch")

    def expired(self, name: str) -> None:
        """A certificate that was good once."""
        self.make(name)
        dates = ["-startdate", "20200101000000Z", "-enddate", "20210101000000Z"]
        command = ["openssl", "ca", "-config", "ca.cnf", "-batch", "-notext", *dates]
        command += ["-in", str(self.dir / f"{name}-req.pem")]
        command += ["-out", str(self.dir / f"{name}-cert.pem")]
        subprocess.run(command, cwd=self.ca.parent, check=True, capture_output=True)

    def make_quickly(self, name: str) -> None:
        """For a thousand hosts: what ovs-pki does with three programs and RSA."""
        command = ["openssl", "req", "-x509", "-nodes", "-days", "30", "-subj", f"/CN={name}"]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-CA", str(self.ca), "-CAkey", str(self.ca.parent / "private/cakey.pem")]
        command += ["-keyout", f"{name}-privkey.pem", "-out", f"{name}-cert.pem"]
        subprocess.run(command, cwd=self.dir, check=True, capture_output=True)

    def options(self, name: str) -> list[str]:
        self.make(name)
        return [
            f"--private-key={self.dir}/{name}-privkey.pem",
            f"--certificate={self.dir}/{name}-cert.pem",
            f"--ca-cert={self.ca}",
        ]


class Host:
    """A hypervisor: a database, an agent, and a switch if it is a real one."""

    def __init__(self, fleet: Fleet, name: str, real: bool) -> None:
        self.fleet, self.name = fleet, name
        self.ovs: acdc_ovs.Ovs = Ovs() if real else DatabaseOnly(fleet.dir / name)
        self.agent: subprocess.Popen[Any] | Forked | None = None
        remotes = {"system-id": name, "acdc-fleet-remote": fleet.relay_remote,
                   "acdc-fleet-report": fleet.remote}  # fmt: skip
        if real:
            self.ovs.add_bridge("br0")
            self.vsctl(
                *("set", "open_vswitch", "."),
                *(f'external_ids:{k}="{v}"' for k, v in remotes.items()),
            )
            return
        self.ovs.create_database()
        self.ovs.start_ovsdb()
        row = {"external_ids": ["map", [list(pair) for pair in remotes.items()]]}
        insert = {"op": "insert", "table": "Open_vSwitch", "row": row}
        transact(f"unix:{self.ovs.rundir}/db.sock", "Open_vSwitch", insert)

    def vsctl(self, *words: str) -> str:
        return self.ovs.vsctl("--no-wait", *words)

    def get(self, *words: str) -> str:
        return self.vsctl("--if-exists", "get", *words).strip('"')

    def beta(self, tenant: str = "blue") -> str:
        return self.get("acdc", tenant, "beta")

    def start_agent(self, *, keys: str | None = None, forked: bool = False) -> None:
        command = [str(ROOT / "utilities/acdc-agent"), f"--db=unix:{self.ovs.rundir}/db.sock"]
        command += self.fleet.pki.options(keys or self.name)
        if forked:
            self.agent = self.fleet.forker.start(self.fleet.dir / f"{self.name}.log", command)
            return
        with (self.fleet.dir / f"{self.name}.log").open("ab") as log:
            self.agent = self.fleet.site.popen("/usr/bin/python3", *command, stderr=log)

    def stop_agent(self, sig: signal.Signals = signal.SIGTERM) -> None:
        if self.agent is not None:
            self.agent.send_signal(sig)
            self.agent.wait(10)
            self.agent = None

    def log(self) -> str:
        return (self.fleet.dir / f"{self.name}.log").read_text()


# A thousand interpreters would need more memory than the tests' machine has, and minutes.
FORKER = """
import ctypes, gc, os, sys
sys.path.insert(0, sys.argv[1])
from acdc_fleet.agent import main
gc.freeze()
for line in sys.stdin:
    log, *sys.argv = line.split("\\0")[:-1]
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        sys.exit(main())
    print(pid, flush=True)
"""


class Forker:
    """Agents that share what they have imported.  All of them end with it."""

    def __init__(self, ns: Netns) -> None:
        self._child = ns.popen(
            *("/usr/bin/python3", "-c", FORKER, ROOT / "python"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start(self, log: Path, command: list[str]) -> Forked:
        assert self._child.stdin and self._child.stdout
        words = [str(log), *command, "\n"]
        self._child.stdin.write("\0".join(words))
        self._child.stdin.flush()
        return Forked(int(self._child.stdout.readline()))


@dataclass
class Forked:
    """As much of subprocess.Popen as there is of an agent that was not started by us."""

    pid: int

    def poll(self) -> int | None:
        return None if Path(f"/proc/{self.pid}").exists() else 0

    def send_signal(self, sig: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, sig)

    def wait(self, _timeout: float) -> None:
        """Nobody waits for it: it ends with the one that has forked it."""


class DatabaseOnly(acdc_ovs.Ovs):
    """A host's ovsdb-server, for numbers."""

    def __init__(self, rundir: Path) -> None:
        rundir.mkdir()
        super().__init__(rundir, Programs.patched())

    def _popen(self, program: Path, words: list[str], **options: Any) -> subprocess.Popen[Any]:
        # SIGXFSZ stays ignored: a file that may not grow is an error, as with a full disk.
        self.server = subprocess.Popen(
            [*DIE_WITH_PARENT, *words], start_new_session=True, restore_signals=False, **options
        )
        return self.server


class Fleet:
    def __init__(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix=f"acdc-test-{os.getpid()}-fleet-"))
        self.env = read_env()
        self.hosts: list[Host] = []
        self.cut: set[str] = set()
        self.daemons: dict[str, subprocess.Popen[Any]] = {}
        self.namespaces: dict[str, Netns] = {}
        self.hub = Netns(ipv6=False)
        self.hub.run("ip", "link", "add", "br0", "type", "bridge")
        self.hub.run("ip", "link", "set", "br0", "up")
        self.site = self._join("site", "10.0.0.100")
        for name, address in ADDRESS.items():
            self.namespaces[name] = self._join(name, address)
        self.pki = Pki(self.dir / "keys")
        self.schema = self.dir / "fleet.ovsschema"
        self.schema.write_text(json.dumps(schema()))
        self.remote = ",".join(f"ssl:{ADDRESS[name]}:{HOSTS}" for name in SERVERS)
        self.relay_remote = f"ssl:{ADDRESS['relay']}:{RELAY},{self.remote}"

    def _join(self, name: str, address: str) -> Netns:
        ns = Netns(ipv6=False)
        self.hub.run(
            *(
                "ip",
                "link",
                "add",
                "dev",
                name,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(ns.pid),
            )
        )
        self.hub.run("ip", "link", "set", "dev", name, "master", "br0", "up")
        ns.run("ip", "link", "set", "eth0", "up")
        ns.add_addresses("eth0", f"{address}/24")
        return ns

    def link(self, name: str, up: bool) -> None:
        """Cuts a server, or all hosts ("site"), off from the others, or joins it again."""
        self.hub.run("ip", "link", "set", "dev", name, "up" if up else "down")
        (self.cut.discard if up else self.cut.add)(name)

    # Servers.

    def _daemon(self, name: str, *words: str) -> None:
        sock = self.dir / f"{name}.sock"
        sock.unlink(missing_ok=True)
        self.daemons[name] = self.namespaces[name].popen(
            *(self.env["OVSDB_SERVER"], "-vconsole:off", f"--log-file={self.dir}/{name}.log"),
            *(f"--unixctl={self.dir}/{name}.ctl", f"--remote=punix:{sock}"),
            *(*self.pki.options(name), *words),
        )
        wait_for(f"server {name}", lambda: listening(sock))

    def start_server(self, name: str) -> None:
        database = self.dir / f"{name}.db"
        if not database.exists():
            own, first = (f"ssl:{ADDRESS[n]}:{RAFT}" for n in (name, SERVERS[0]))
            tool = self.env["OVSDB_TOOL"]
            words = [tool, "create-cluster", str(database), str(self.schema), own]
            if name != SERVERS[0]:
                words = [tool, "join-cluster", str(database), "ACDC_Fleet", own, first]
            subprocess.run(words, check=True)
        self._daemon(name, str(database), "--remote=db:ACDC_Fleet,Fleet,connections")

    def start_relay(self) -> None:
        source = f"relay:ACDC_Fleet:{self.remote}"
        self._daemon("relay", source, "--remote=db:ACDC_Fleet,Fleet,relays")

    def kill(self, name: str) -> None:
        self.daemons[name].kill()
        self.daemons[name].wait(10)

    def start(self) -> None:
        for name in SERVERS:
            self.start_server(name)
        for name in SERVERS:
            self.await_member(name)
        self.ctl("init", f"--listen=pssl:{HOSTS}", f"--relay=pssl:{RELAY}")
        self.start_relay()

    def await_member(self, name: str) -> None:
        wait_for("the cluster", lambda: self.cluster(name).get("Status") == "cluster member")

    def appctl(self, name: str, *words: str) -> str:
        command = [self.env["OVS_APPCTL"], "-t", str(self.dir / f"{name}.ctl"), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout

    def cluster(self, name: str) -> dict[str, str]:
        lines = self.appctl(name, "cluster/status", "ACDC_Fleet").splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def leader(self, *names: str) -> str:
        """Of those that answer."""

        def find() -> str:
            for name in names or SERVERS:
                if self.daemons[name].poll() is None and self.cluster(name).get("Role") == "leader":
                    return name
            return ""

        return wait_for("a leader", find, 30)

    def client(self, *words: str, server: str = "a") -> str:
        """ovsdb-client, on a server."""
        command, *rest = words
        argv = [self.env["OVSDB_CLIENT"], "--timeout=20", command, f"unix:{self.dir}/{server}.sock"]
        done = subprocess.run([*argv, *rest], capture_output=True, text=True)
        assert not done.returncode, done.stderr
        return done.stdout

    # The operator.

    @property
    def db(self) -> str:
        """A server that runs and is not cut off: followers pass on what is for the leader."""
        names = [n for n in SERVERS if n not in self.cut and self.daemons[n].poll() is None]
        return f"unix:{self.dir}/{names[0]}.sock"

    def run_ctl(self, *words: str, db: str = "") -> subprocess.CompletedProcess[str]:
        """acdc-fleetctl, without a process for it."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = fleetctl([f"--db={db or self.db}", *words])
            except SystemExit as end:
                status = int(end.code or 0)
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    def ctl(self, *words: str) -> str:
        done = self.run_ctl(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ctl_json(self, *words: str) -> Any:
        return json.loads(self.run_ctl("--json", *words).stdout)

    def reset(self) -> None:
        """Tenant blue with beta 0.5, and no other, on all hosts."""
        self.run_ctl("rollout", "abort")
        for group in self.ctl_json("group", "list"):
            self.ctl("group", "del", group["name"])
        for name in self.ctl_json("tenant", "list"):
            if name != "blue":
                self.ctl("tenant", "del", name)
        policy = self.ctl_json("tenant", "list").get("blue", {})
        others = policy.keys() - {"beta", "rules"}
        if others or policy.get("rules"):
            self.ctl("tenant", "del", "blue")
        self.ctl("tenant", "set", "blue", "beta=0.5")
        wait_for("all hosts", lambda: self.run_ctl("status").returncode == 0, 60, 0.1)
        wait_for("all hosts", lambda: not self.ctl_json("status")["behind"], 60, 0.1)

    def heal(self) -> None:
        """What a test has broken runs again."""
        for name in list(self.cut):
            self.link(name, True)
        for name in SERVERS:
            if self.daemons[name].poll() is not None:
                self.start_server(name)
        if self.daemons["relay"].poll() is not None:
            self.start_relay()
        for host in self.hosts:
            if host.agent is None or host.agent.poll() is not None:
                host.start_agent()

    # Hosts.

    @functools.cached_property
    def forker(self) -> Forker:
        return Forker(self.site)

    def add_hosts(self, n: int, real: int = 0, forked: bool = False) -> list[Host]:
        new = [Host(self, f"host-{len(self.hosts) + i}", i < real) for i in range(n)]
        self.hosts += new
        for host in new:
            if forked:
                self.pki.make_quickly(host.name)
            host.start_agent(forked=forked)
        return new

    def await_hosts(self, n: int = 0, timeout: float = 60) -> None:
        n = n or len(self.hosts)
        try:
            wait_for("all hosts", lambda: len(self.ctl_json("host", "list")) == n, timeout, 0.3)
        except TimeoutError:
            there = {row["name"] for row in self.ctl_json("host", "list")}
            raise TimeoutError(
                "\n".join(f"{h.name}: {h.log()}" for h in self.hosts if h.name not in there)
            ) from None

    def close(self) -> None:
        for host in self.hosts:
            with contextlib.suppress(Exception):
                host.stop_agent(signal.SIGKILL)
                host.ovs.stop()
        for ns in (*self.namespaces.values(), self.site, self.hub):
            ns.close()
        shutil.rmtree(self.dir, ignore_errors=True)
