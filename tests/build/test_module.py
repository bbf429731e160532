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

ROOT = Path(__file__).resolve().parents[2]
DKMS = ROOT / "utilities" / "acdc-dkms"


def headers() -> Path:
    """Those of the newest 6.1 kernel that are installed."""
    found = sorted(Path("/lib/modules").glob("6.1.*/build/Makefile"))
    assert found, "no linux-headers-6.1*: build-aux/install-deps kernel"
    return found[-1].parent


def test_compiles_against_stock_headers(tmp_path: Path) -> None:
    source = tmp_path / "module"
    subprocess.run([DKMS, "source", source, "-k", "6.1"], check=True)
    make = subprocess.run(
        ["make", "-C", headers(), f"M={source}", f"-j{os.cpu_count()}", "modules"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert make.returncode == 0, make.stdout + make.stderr
    # BTF needs the kernel image, which headers do not have.
    assert not re.search(r"^(?!.*BTF).*warning:", make.stderr, re.M), make.stderr
    for name in ("openvswitch", "vport-vxlan", "vport-geneve", "vport-gre"):
        assert (source / f"{name}.ko").stat().st_size > 0
    symbols = subprocess.run(
        ["modinfo", source / "openvswitch.ko"], check=True, capture_output=True, text=True
    ).stdout
    assert "6.1." in symbols
    names = subprocess.run(
        ["nm", source / "openvswitch.ko"], check=True, capture_output=True, text=True
    ).stdout
    found = set(re.findall(r" __tracepoint_acdc_(\w+)$", names, re.M))
    assert found == {"flow_state", "cut", "loss", "timeout", "fallback"}


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
