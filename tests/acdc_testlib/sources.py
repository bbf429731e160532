# SPDX-License-Identifier: Apache-2.0
"""A copy of the sources, to be changed and built; programs of tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = (
    "build-aux",
    "configure.ac",
    "datapath",
    "dkms",
    "lib",
    "ovs-patches",
    "python/acdc_cli",
    "utilities",
)
"""What userspace and kernel are built from."""


def copy_sources(top: Path, *more: str) -> Path:
    """Copies BUILT and 'more' into the new directory 'top'."""
    for name in (*BUILT, *more):
        source, target = ROOT / name, top / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.o", "__pycache__"))
        else:
            shutil.copy2(source, target)
    return top


def build_with_dpdk(source: Path, target: Path, *options: str) -> None:
    """A program or library that may use DPDK."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libdpdk"], check=True, capture_output=True, text=True
    ).stdout.split()
    subprocess.run(
        ["gcc", "-O2", "-g", *options, "-o", target, source, *flags, "-pthread"], check=True
    )
