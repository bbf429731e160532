# SPDX-License-Identifier: Apache-2.0

"""Roots of Debian releases, made by mmdebstrap: one to build packages in, another that
is booted with its systemd and has Open vSwitch.  A booted one has namespaces of its own
for everything, no network but its own, and ends with the test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from acdc_testlib.long import ALL
from acdc_testlib.netns import DIE_WITH_PARENT, wait_for

PROJECT = Path(__file__).resolve().parents[2]
PLACE, PREFIX = "/var/tmp", "acdc-root-"
# mount --make-rprivate etc. run in a mount namespace of their own.
CHROOT = r"""
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"; mount --bind "$1" "$root$2"; shift 2
done
shift
exec chroot "$root" "$@"
"""
# Only the second hierarchy of cgroups, which systemd asks for, can be mounted beside
# a host's first.
BOOT = r"""
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty net/tun; do
    mkdir -p "$root/dev/net"; touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/run"
cd "$root" && mkdir -p old && pivot_root . old && umount -l old
export container=acdc-test
exec /lib/systemd/systemd
"""


def remove_stale_roots() -> None:
    """Those of tests that were killed with SIGKILL; nothing runs in them any more."""
    for path in Path(PLACE).glob(f"{PREFIX}[0-9]*-*"):
        if not Path("/proc", path.name.removeprefix(PREFIX).split("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


class DebianRoot:
    """Use as a context manager."""

    def __init__(self, release: str, *packages: str) -> None:
        self.release = release
        remove_stale_roots()
        self._scratch = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=PLACE)
        self.path = Path(self._scratch.name) / "root"
        self._init: subprocess.Popen[bytes] | None = None
        # A mirror of sid's may be older than the week that a Release file of it is valid.
        lenient = ["--aptopt=Acquire::Check-Valid-Until false"] if release == "sid" else []
        include = [f"--include={','.join(packages)}"] if packages else []
        done = subprocess.run(
            [*DIE_WITH_PARENT, "mmdebstrap", "--variant=apt", "--quiet", *include,
             "--dpkgopt=force-unsafe-io", *lenient, release, self.path],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            self._scratch.cleanup()
            raise RuntimeError(f"mmdebstrap {release}: {done.stderr}")
        # Nothing that apt-get installs is started, except when booted.
        policy = self.path / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def __enter__(self) -> DebianRoot:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut_down()
        self._scratch.cleanup()

    def run(
        self,
        *argv: str | Path,
        mounts: dict[Path, str] | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 300,
    ) -> str:
        """Runs a command in it, booted or not, and returns what it printed."""
        if self._init:
            prefix = ["nsenter", "--all", f"--target={self._pid1()}", "--", *DIE_WITH_PARENT]
        else:
            pairs = [str(x) for pair in (mounts or {}).items() for x in pair]
            prefix = [*DIE_WITH_PARENT, "unshare", "--mount", "sh", "-ec", CHROOT, "sh"]
            prefix += [str(self.path), *pairs, "--"]
        settings = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            **(env or {}),
        }
        assignments = ["env", "-i", *(f"{k}={v}" for k, v in settings.items())]
        done = subprocess.run(
            [*prefix, *assignments, *map(str, argv)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{argv}: exit {done.returncode}:\n{done.stdout[-8000:]}")
        return done.stdout

    def boot(self) -> None:
        """Until its services are there."""
        (self.path / "usr/sbin/policy-rc.d").unlink()
        self._init = subprocess.Popen(
            [*DIE_WITH_PARENT, "unshare", "--fork", "--kill-child", "--pid", "--mount", "--net",
             "--uts", "--ipc", "--cgroup", "sh", "-ec", BOOT, "sh", self.path],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        wait_for("systemd", self._is_up, timeout=90, interval=0.2)

    def _pid1(self) -> int:
        assert self._init
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text()
        return int(children.split()[0])

    def _is_up(self) -> bool:
        with contextlib.suppress(RuntimeError, IndexError, OSError):
            # The exit status tells "degraded" too.
            return "running" in self.run("sh", "-c", "systemctl is-system-running || :")
        return False

    def shut_down(self) -> None:
        if self._init:
            self._init.kill()
            self._init.wait()
            self._init = None


@dataclass
class Built:
    """Where packages were built, and they."""

    root: DebianRoot
    debs: Path

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.debs.glob("*.deb"))


def ccache() -> dict[Path, str]:
    """The host's cache of compilers' results, if it has one."""
    path = Path(os.environ.get("CCACHE_DIR", Path.home() / ".cache/ccache"))
    return {path: "/var/cache/ccache"} if shutil.which("ccache") and path.is_dir() else {}


# The tests of packets that are most about what differs between versions.
SHORT = [
    "tests/packet/test_offload.py",
    "tests/packet/test_good_checksums.py",
    "tests/packet/test_checksums.py",
    "tests/system/test_tso.py",
]
TEST_PACKAGES = (
    "python3-pytest python3-hypothesis python3-scapy python3-openvswitch iperf3 iputils-ping"
    " ethtool iproute2 procps tcpdump socat netcat-openbsd net-tools"
).split()


def copy_sources(root: DebianRoot) -> None:
    """What Git tracks, as the worktree has it, to /src."""
    source = root.path / "src"
    source.mkdir()
    files = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", PROJECT, "ls-files"],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    files = [name for name in files if (PROJECT / name).exists()]
    (source / "MANIFEST").write_text("\n".join(files) + "\n")
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, source / name, follow_symlinks=False)


def run_tests(root: DebianRoot, env: Path) -> None:
    """Those of packets and of TCP with the Open vSwitch that 'env' names."""
    tests = ["tests/packet", "tests/system"] if ALL else SHORT
    command = ["python3", "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", *tests]
    # Packages have no unpatched build to compare with, and no source tree that was built.
    if "PRISTINE_" not in (root.path / env.relative_to("/")).read_text():
        command += ["-k", "'not pristine and not upgrade_and_back and not to-plain'"]
    # A root has no valgrind, and no mount of its own to unshare.
    command += [f"--ignore=tests/system/test_{name}.py" for name in ("ovs_suite", "memcheck")]
    out = root.run("sh", "-c", f"cd /src && {' '.join(command)} 2>&1",
                   env={"ACDC_ENV": str(env)}, timeout=3600)  # fmt: skip
    assert re.search(r"\d+ passed", out)
    assert "without DPDK" not in out
