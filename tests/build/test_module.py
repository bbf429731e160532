# SPDX-License-Identifier: Apache-2.0
"""The kernel module compiles against the distribution's stock headers, and
acdc-dkms restarts the right Open vSwitch."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import tarfile
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
    linux = machine.inside("dpkg-query", "-W", "-f", "${Version}", "linux-source-6.1")
    assert f"(made from linux-source-6.1 {linux})" in machine.run("status")


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


def test_what_others_have_put_there_is_named(machine: Dkms) -> None:
    folder = f"/lib/modules/{machine.kernel}/updates/dkms"
    machine.inside("sh", "-ec", f"mkdir -p {folder}; touch {folder}/openvswitch.ko")
    said = machine.run("uninstall", "-k", machine.kernel)
    assert "was not installed" in said
    assert f"{folder}/openvswitch.ko stays: DKMS does not say" in said
    machine.inside("rm", f"{folder}/openvswitch.ko")


# A module that DKMS has built and installed, whose source in /usr/src is gone.
ORPHAN = """
tree=/var/lib/dkms/acdc-openvswitch built=0.0.9/$1/$(uname -m) folder=/lib/modules/$1/updates/dkms
rm -rf $tree
mkdir -p $tree/$built/module $folder
ln -s /usr/src/acdc-openvswitch-0.0.9 $tree/0.0.9/source
ln -s $built $tree/kernel-$1-$(uname -m)
for name in openvswitch vport-vxlan vport-geneve vport-gre; do
    touch $tree/$built/module/$name.ko $folder/$name.ko
done
"""


@pytest.mark.parametrize("left", ["", "mkdir /usr/src/acdc-openvswitch-0.0.9"])
def test_uninstall_without_the_source(machine: Dkms, left: str) -> None:
    """Which somebody has deleted, or for which there was no room: DKMS has the module none the
    less."""
    machine.inside("sh", "-ec", ORPHAN + left, "sh", machine.kernel)
    assert "in DKMS: 0.0.9" in machine.run("status", "-k", machine.kernel)
    said = machine.run("uninstall", "-k", machine.kernel)
    assert "the distribution's module is back" in said and "stays" not in said
    places = ["/var/lib/dkms", "/usr/src", "/lib/modules"]
    ours = ["-name", "acdc-openvswitch*", "-o", "-path", "*/updates/dkms/*"]
    assert not machine.inside("find", *places, *ours).strip()


# As Python 3.12 and 3.13, where it is not told a filter.
WARNS = """
import runpy, sys, tarfile

def extract(tar, *_, extract=tarfile.TarFile.extract, **more):
    if getattr(tar, "extraction_filter", None) is None:
        print("DeprecationWarning", file=sys.stderr)
    return extract(tar, *_, **more)

tarfile.data_filter = getattr(tarfile, "data_filter", lambda member, _: member)
tarfile.TarFile.extract = extract
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_source_is_sources(tmp_path: Path) -> None:
    """Of a patch whose lines have moved no copy of the file before is left.  Nobody is warned."""
    command = ["/usr/bin/python3", "-c", WARNS, str(DKMS), "source", str(tmp_path / "module")]
    done = subprocess.run([*command, "-k", "6.1"], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = {path.suffix for path in (tmp_path / "module").iterdir() if path.is_file()}
    assert found == {".c", ".h", ".conf", ".inputs", ""}, found


def test_no_warning_of_a_tarball(tmp_path: Path) -> None:
    sources, tarball = tmp_path / "openvswitch-3.1.0", tmp_path / "ovs.tar"
    sources.mkdir()
    (sources / "configure.ac").write_text("AC_INIT(openvswitch, 3.1.0, bugs)\n")
    with tarfile.open(tarball, "w") as tar:
        tar.add(sources, sources.name)
    tool = [str(ROOT / "build-aux/ovs-tree"), "update", str(tarball), str(tmp_path / "tree")]
    command = ["/usr/bin/python3", "-c", WARNS, *tool]
    done = subprocess.run(command, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


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
        ("opt/lib/ovs/sbin/ovs-vswitchd", "opt/lib/ovs"),
    ],
)
def test_reload_restarts_what_runs(
    dkms: SimpleNamespace, tmp_path: Path, program: str, prefix: str
) -> None:
    """Two may be installed and share a run directory: not the other's ovs-ctl."""
    for place in ("usr", "usr/local", "opt/lib/ovs"):
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


def test_run_directory_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVS_RUNDIR", "/run/other")
    assert runpy.run_path(str(DKMS))["RUN_DIRS"][0] == "/run/other"


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


class Commands:
    """A place before the others in PATH, whose commands say and do what a test wants.  What is
    called is noted."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.log = top / "bin", top / "called"
        self.place.mkdir()
        monkeypatch.setenv("PATH", f"{self.place}:{os.environ['PATH']}")

    def put(self, name: str, script: str) -> Path:
        path = self.place / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{script}\n')
        path.chmod(0o755)
        return path

    def called(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def commands(
    dkms: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Commands]:
    """With a module that runs, and a kernel that takes another."""
    loaded = tmp_path / "openvswitch"
    loaded.mkdir()
    monkeypatch.setitem(dkms.reload.__globals__, "LOADED", loaded)
    found = Commands(tmp_path, monkeypatch)
    found.put("modinfo", "echo /lib/modules/openvswitch.ko")
    found.put("insmod", "echo File exists >&2; exit 1")
    found.put("modprobe", "")
    yield found


def running_ovs_ctl_is(
    dkms: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, ovs_ctl: Path | None
) -> None:
    monkeypatch.setitem(dkms.reload.__globals__, "running_ovs_ctl", lambda: ovs_ctl)


def test_reload_without_open_vswitch(
    dkms: SimpleNamespace, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the modules alone that others use, and says what holds openvswitch."""
    running_ovs_ctl_is(dkms, monkeypatch, None)
    commands.put("rmmod", "echo Module openvswitch is in use >&2; exit 1")
    with pytest.raises(dkms.Failure, match=r"in use(.|\n)*ovs-dpctl del-dp ovs-system"):
        dkms.reload()
    (tmp_path / "vport_vxlan").mkdir()
    commands.put("rmmod", "")
    dkms.reload()
    assert commands.called()[-2:] == ["rmmod vport_vxlan openvswitch", "modprobe openvswitch"]


def test_reload_keeps_tunnels_of_others(
    dkms: SimpleNamespace, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ovs-ctl takes out the module vxlan, and the kernel all devices of it, in containers, too."""
    running_ovs_ctl_is(dkms, monkeypatch, commands.put("ovs-ctl", ""))
    name = f"acdc-dkms-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for device in ("overlay", "vxlan_sys_4789"):
            subprocess.run(["ip", "-n", name, "link", "add", device, "type", "vxlan", "id", "5",
                            "dstport", str(4000 + len(device))], check=True)  # fmt: skip
        with pytest.raises(dkms.Failure, match=rf"overlay \(in /run/netns/{name}\)") as raised:
            dkms.reload()
        assert "vxlan_sys" not in str(raised.value)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
    assert not any(line.startswith("ovs-ctl") for line in commands.called())


def test_reload_outlives_the_session(
    dkms: SimpleNamespace, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by ssh over a port of the bridge, for instance, ends before Open vSwitch is back."""

    def ends(*_: object) -> None:
        raise AssertionError("hung up")

    before = signal.signal(signal.SIGHUP, ends)
    hang_up = "kill -HUP $PPID; kill -HUP $$"
    ovs_ctl = commands.put("ovs-ctl", f"{hang_up}; echo back >>{commands.log}")
    running_ovs_ctl_is(dkms, monkeypatch, ovs_ctl)
    for name in ("check_tunnels", "system_id"):
        monkeypatch.setitem(dkms.reload.__globals__, name, lambda *_: "")
    try:
        dkms.reload()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert commands.called()[-1] == "back"


def test_reload_that_changed_nothing_fails(
    dkms: SimpleNamespace, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ovs-systemd-reload of Debian's always succeeds."""
    running_ovs_ctl_is(dkms, monkeypatch, None)
    commands.put("rmmod", "")
    with pytest.raises(dkms.Failure, match="still the old one"):
        dkms.finish(True)
    dkms.finish(False)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("half-configured", "is half-configured: dpkg --configure -a"),
        ("installed", "kernel 6.12.1: the package openvswitch-acdc-dkms is made from linux-source"),
    ],
)
def test_the_package_must_fit(
    dkms: SimpleNamespace,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    text: str,
) -> None:
    commands.put("dpkg-query", f"printf {state}")
    monkeypatch.setitem(dkms.build.__globals__, "made_from", lambda _: "linux-source-6.1 6.1.1-1")
    with pytest.raises(dkms.Failure, match=text):
        dkms.build("6.12.1")


def test_what_does_not_compile_is_said_if_dkms_keeps_it(
    dkms: SimpleNamespace, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one, which is removed again: DKMS may refuse that without a word."""
    commands.put("dpkg-query", "")
    commands.put("dkms", 'test "$1" != build || echo "bad exit status: 2"; exit 3')
    replaced = dkms.build.__globals__
    monkeypatch.setitem(replaced, "known", lambda: [dkms.version()])
    monkeypatch.setitem(replaced, "installed", list)
    for name in ("check", "is_built", "make_source"):
        monkeypatch.setitem(replaced, name, lambda *_: None)
    with pytest.raises(dkms.Failure, match="bad exit status: 2"):
        dkms.build("6.1.0-1-amd64")
    called = [line.split()[1] for line in commands.called() if line.startswith("dkms ")]
    assert called == ["build", "remove"]


def test_other_kernels_that_lose_the_module_are_named(
    dkms: SimpleNamespace,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The old version goes from all kernels; the one of the next boot may have no other."""
    names = ("6.1.0-1-amd64", "6.1.0-2-amd64")
    there = [Path(f"/lib/modules/{name}/updates/dkms/openvswitch.ko") for name in names]
    commands.put("dpkg-query", "")
    commands.put("dkms", "")
    replaced = dkms.install.__globals__
    monkeypatch.setitem(replaced, "build", lambda _: None)
    monkeypatch.setitem(replaced, "known", lambda: ["0.0.1", dkms.version()])
    monkeypatch.setitem(replaced, "installed", lambda: there)
    monkeypatch.setitem(replaced, "forget", lambda _: there.pop())
    dkms.install(names[0])
    said = capsys.readouterr().out
    assert f"kernel {names[1]} had an older one" in said
    assert f"install -k {names[1]}" in said and names[0] not in said


@pytest.mark.parametrize("state", ["", "not-installed", "config-files"])
def test_no_package(dkms: SimpleNamespace, commands: Commands, state: str) -> None:
    commands.put("dpkg-query", f"printf '{state}'")
    assert not dkms.is_package()
