# SPDX-License-Identifier: Apache-2.0
"""The kernel module compiles against the distribution's stock headers, and
acdc-dkms restarts the right Open vSwitch."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from acdc_testlib.sources import copy_sources

ROOT = Path(__file__).resolve().parents[2]
DKMS = ROOT / "utilities" / "acdc-dkms"


def headers() -> Path:
    """Those of the newest 6.1 kernel that are installed."""
    found = sorted(Path("/lib/modules").glob("6.1.*/build/Makefile"))
    assert found, "no linux-headers-6.1*: build-aux/install-deps kernel"
    return found[-1].parent


class Dkms:
    """acdc-dkms of sources of its own, in a mount namespace in which /usr/src, /lib/modules and
    DKMS's tree may be written to, and the machine's stay as they are."""

    def __init__(self, top: Path) -> None:
        self.sources = copy_sources(top / "sources")
        self.kernel = headers().parent.name
        scratch = top / "scratch"
        scratch.mkdir()
        script = f"mount -t tmpfs tmpfs {scratch}; cd {scratch}; mkdir dkms\n"
        script += "mount --bind dkms /var/lib/dkms\n"
        for path, name in (("/usr/src", "src"), ("/lib/modules", "modules")):
            script += f"mkdir {name} {name}.work; mount -t overlay -o"
            script += f" lowerdir={path},upperdir={name},workdir={name}.work {name} {path}\n"
        # It has the namespace until its input ends.
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", f"{script}echo; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.holder.stdout and self.holder.stdout.readline() == b"\n"

    def inside(self, *command: str | Path, check: bool = True) -> str:
        """What it says, on standard error, too."""
        done = subprocess.run(
            ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *command],
            check=check, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert check or done.returncode
        return done.stdout

    def run(self, *arguments: str, check: bool = True) -> str:
        return self.inside(self.sources / "utilities/acdc-dkms", *arguments, check=check)

    def on_disk(self, *options: str) -> str:
        words = ["modinfo", "-k", self.kernel, *options, "openvswitch"]
        return self.inside(*words).strip()

    def close(self) -> None:
        self.holder.communicate()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dkms]:
    dkms = Dkms(tmp_path_factory.mktemp("machine"))
    try:
        yield dkms
    finally:
        dkms.close()


def test_install(machine: Dkms) -> None:
    """It compiles against the distribution's stock headers, without a warning."""
    machine.run("install", "-k", machine.kernel)
    folder = f"/lib/modules/{machine.kernel}/updates/dkms"
    assert machine.on_disk("-n") == f"{folder}/openvswitch.ko"
    assert "6.1." in machine.on_disk()
    for name in ("vport-vxlan", "vport-geneve", "vport-gre"):
        assert int(machine.inside("stat", "-c%s", f"{folder}/{name}.ko")) > 0
    tree = f"/var/lib/dkms/acdc-openvswitch/*/{machine.kernel}/*"
    log = machine.inside("sh", "-c", f"cat {tree}/log/make.log")
    # BTF needs the kernel image, which headers do not have.
    assert not re.search(r"^(?!.*BTF).*warning:", log, re.M), log
    names = machine.inside("nm", f"{folder}/openvswitch.ko")
    found = set(re.findall(r" __tracepoint_acdc_(\w+)$", names, re.M))
    assert found == {"flow_state", "cut", "loss", "timeout", "fallback"}
    assert "is built already" in machine.run("build", "-k", machine.kernel)


def test_what_does_not_compile_leaves_what_is_installed(machine: Dkms) -> None:
    before = machine.on_disk()
    broken = machine.sources / "datapath/acdc-law.c"
    text = broken.read_text()
    broken.write_text(f"#error broken\n{text}")
    for command in ("build", "install"):
        assert "#error broken" in machine.run(command, "-k", machine.kernel, check=False)
        assert machine.on_disk() == before
    # And is removed none the less.
    assert "the distribution's module is back" in machine.run("uninstall", "-k", machine.kernel)
    assert not machine.inside("find", "/lib/modules", "-path", "*/updates/dkms/*").strip()
    broken.write_text(text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["build", "-k", "5.10.0-1-amd64"], "linux-headers-5.10.0-1-amd64"),
        (["build", "-k", "5.10.0-1-amd64"], "5.10.0-1-amd64: the patches are for Linux 6.1"),
        (["source"], "DIR goes with source"),
        (["instal"], "invalid choice"),
    ],
)
def test_errors_say_what_is_missing(arguments: list[str], text: str) -> None:
    done = subprocess.run([DKMS, *arguments], capture_output=True, text=True)
    assert done.returncode
    assert text in done.stderr


def test_source_replaces_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = subprocess.run([DKMS, "source", tmp_path, "-k", "6.1"], capture_output=True, text=True)
    assert done.returncode == 1 and "and stays" in done.stderr
    assert (tmp_path / "mine").exists()


@pytest.fixture(scope="module")
def dkms() -> SimpleNamespace:
    """acdc-dkms as a module."""
    return SimpleNamespace(**runpy.run_path(str(DKMS)))


@contextmanager
def daemon(program: Path, run_dir: Path) -> Iterator[None]:
    """A process of 'program', with its pid where ovs-vswitchd leaves it."""
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/sleep", program)
    run_dir.mkdir()
    with subprocess.Popen([program, "600"]) as process:
        (run_dir / "ovs-vswitchd.pid").write_text(f"{process.pid}\n")
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("program", "prefix"),
    [
        ("usr/local/sbin/ovs-vswitchd", "usr/local"),
        ("usr/sbin/ovs-vswitchd", "usr"),
        ("usr/lib/openvswitch-switch/ovs-vswitchd", "usr"),
        ("usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", "usr"),
    ],
)
def test_reload_restarts_what_runs(
    dkms: SimpleNamespace, tmp_path: Path, program: str, prefix: str
) -> None:
    """Two may be installed and share a run directory: not the other's ovs-ctl."""
    for place in ("usr", "usr/local"):
        ovs_ctl = tmp_path / place / "share/openvswitch/scripts/ovs-ctl"
        ovs_ctl.parent.mkdir(parents=True)
        ovs_ctl.touch()
    with daemon(tmp_path / program, tmp_path / "run"):
        found = dkms.running_ovs_ctl([tmp_path / "none", tmp_path / "run"])
        assert found == tmp_path / prefix / "share/openvswitch/scripts/ovs-ctl"
        # An upgrade has replaced the program.
        (tmp_path / program).unlink()
        assert dkms.running_ovs_ctl([tmp_path / "run"]) == found
    # A pid that a crash has left, and that another program has now.
    assert dkms.running_ovs_ctl([tmp_path / "run"]) is None
    (tmp_path / "run/ovs-vswitchd.pid").write_text(f"{os.getpid()}\n")
    assert dkms.running_ovs_ctl([tmp_path / "run"]) is None


@pytest.mark.parametrize("program", ["usr/local/sbin/ovs-vswitchd", "src/vswitchd/ovs-vswitchd"])
def test_reload_without_ovs_ctl(dkms: SimpleNamespace, tmp_path: Path, program: str) -> None:
    """The distribution's, which there is, must not be taken instead."""
    ovs_ctl = tmp_path / "usr/share/openvswitch/scripts/ovs-ctl"
    ovs_ctl.parent.mkdir(parents=True)
    ovs_ctl.touch()
    with (
        daemon(tmp_path / program, tmp_path / "run"),
        pytest.raises(dkms.Failure, match="has no ovs-ctl"),
    ):
        dkms.running_ovs_ctl([tmp_path / "run"])
