# SPDX-License-Identifier: Apache-2.0
"""A hypervisor with the distribution's kernel: acdc-dkms install, traffic,
acdc-dkms uninstall, in a machine of qemu."""

from __future__ import annotations

import subprocess
from pathlib import Path

RUN = Path(__file__).resolve().parent / "run"


def test_installs_and_gives_the_stock_module_back() -> None:
    done = subprocess.run([RUN, "install"], text=True, capture_output=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
