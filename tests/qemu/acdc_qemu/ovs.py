# SPDX-License-Identifier: Apache-2.0

"""The patched Open vSwitch, where its `make install` would put it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from acdc_qemu.machine import ROOT, Failure

FILES = {
    "bin": (
        "utilities/ovs-vsctl", "utilities/ovs-appctl", "utilities/ovs-dpctl",
        "utilities/ovs-ofctl", "ovsdb/ovsdb-client", "ovsdb/ovsdb-tool",
    ),
    "sbin": ("vswitchd/ovs-vswitchd", "ovsdb/ovsdb-server"),
    "share/openvswitch": ("vswitchd/vswitch.ovsschema",),
    "share/openvswitch/scripts": (
        "utilities/ovs-ctl", "utilities/ovs-lib", "utilities/ovs-save", "utilities/ovs-kmod-ctl",
    ),
}  # fmt: skip


def install(layer: Path) -> None:
    """Copies the programs, which a build meanwhile may replace, into the
    directory 'layer'."""
    env = ROOT / "build" / "env"
    words = shlex.split(env.read_text(), comments=True) if env.exists() else []
    tree = dict(word.split("=", 1) for word in words).get("OVS_TREE")
    if not tree or not Path(tree, "vswitchd/ovs-vswitchd").exists():
        raise Failure("Open vSwitch is not built: run make first")
    # What the module and ovs-vswitchd tell each other.
    for name in ("acdc.h", "acdc-algorithms.h", "acdc-counters.h"):
        if (ROOT / "datapath" / name).read_bytes() != Path(tree, "acdc", name).read_bytes():
            raise Failure(f"Open vSwitch was built with another {name}: run make first")
    for target, names in FILES.items():
        folder = layer / "usr/local" / target
        folder.mkdir(parents=True)
        for name in names:
            shutil.copy2(Path(tree, name), folder)
