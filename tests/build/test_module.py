# SPDX-License-Identifier: Apache-2.0
"""The kernel module compiles against the distribution's stock headers."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

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
    subprocess.run([DKMS, "source", source], check=True)
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["build", "-k", "5.10.0-1-amd64"], "linux-headers-5.10.0-1-amd64"),
        (["source"], "DIR goes with source"),
        (["instal"], "invalid choice"),
    ],
)
def test_errors_say_what_is_missing(arguments: list[str], text: str) -> None:
    done = subprocess.run([DKMS, *arguments], capture_output=True, text=True)
    assert done.returncode
    assert text in done.stderr
