# SPDX-License-Identifier: Apache-2.0

"""The plugin of `sos report`, in the real one, which sees a real switch.  Directories of the
machine that are to look otherwise do so in a mount namespace."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path as File

import pytest

from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import open_connection
from observe.conftest import A, B, Path

ROOT = File(__file__).resolve().parents[2]
PLUGIN = ROOT / "utilities/sos/acdc.py"


def report(ovs: Ovs, home: File, *options: str) -> dict[str, str]:
    """What it collected: texts by file name."""
    plugins = File("/usr/lib/python3/dist-packages/sos/report/plugins")
    shutil.copytree(plugins, home / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PLUGIN, home / "plugins")
    (home / "sbin").mkdir()
    for name, command in (
        ("ovs-appctl", f"{ovs.programs.appctl} -t {ovs.rundir}/ovs-vswitchd.ctl"),
        ("ovs-vsctl", f"{ovs.programs.vsctl} --db=unix:{ovs.rundir}/db.sock"),
        ("acdc-check", f"{ROOT}/utilities/acdc-check --rundir {ovs.rundir}"),
    ):
        program = home / "sbin" / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    (home / "tmp").mkdir()
    sos = [
        "sos",
        "report",
        "--batch",
        "--build",
        "--tmp-dir",
        home / "tmp",
        "--only-plugins",
        "acdc",
    ]
    words = " ".join(shlex.quote(str(word)) for word in (*sos, *options))
    script = f"""
        mount --bind {home}/plugins {plugins}
        mount --bind {home}/sbin /usr/local/sbin
        exec {words}
    """
    done = subprocess.run(
        ovs.ns.command("unshare", "--mount", "sh", "-ec", script),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = (path for path in (home / "tmp").iterdir() if path.is_dir())
    found = {path.name: path.read_text() for path in (archive / "sos_commands/acdc").iterdir()}
    assert "Traceback" not in (archive / "sos_logs/sos.log").read_text()
    return found


@pytest.fixture
def busy(path: Path) -> Path:
    """A rule and a connection with addresses."""
    path.ovs.appctl("acdc/flush")
    path.ovs.set_rules(
        "blue", ["7 remote=192.0.2.0/24 beta=0.5", "6 remote=2001:db8::/32 beta=0.5"]
    )
    return path


def test_without_addresses(busy: Path, tmp_path: File) -> None:
    near, far = open_connection(busy.a, busy.b, B, port=5060)
    try:
        found = report(busy.ovs, tmp_path)
    finally:
        near.close()
        far.close()
        busy.ovs.set_rules("blue", [])
    everything = "\n".join(found.values())
    assert not any("dump-flows" in name for name in found)
    for address in (A, B, "192.0.2", "2001:db8"):
        assert address not in everything
    show = found["ovs-appctl_--timeout_10_acdc.show"]
    assert "rule 0: priority 7, remote=ADDRESS/24" in show
    assert "rule 1: priority 6, remote=ADDRESS/32" in show
    assert "tenant blue: enforce dctcp" in show
    assert "flows_created" in found["ovs-appctl_--timeout_10_acdc.stats"]
    assert found["acdc-check_--timeout_10"].startswith("ACDC ")
    assert "acdc-tenant=blue" in re.sub('"', "", found[next(n for n in found if "Interface" in n)])
    assert "blue" in found["ovs-vsctl_--timeout_10_list_ACDC"]


def test_with_addresses(busy: Path, tmp_path: File) -> None:
    near, far = open_connection(busy.a, busy.b, B, port=5061)
    try:
        found = report(busy.ovs, tmp_path, "-k", "acdc.addresses=on")
    finally:
        near.close()
        far.close()
        busy.ovs.set_rules("blue", [])
    assert "remote=192.0.2.0/24" in found["ovs-appctl_--timeout_10_acdc.show"]
    (flows,) = (text for name, text in found.items() if "dump-flows" in name)
    assert f">{B}:5061 " in flows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("remote=10.0.0.1/24,", "remote=ADDRESS/24,"),
        ("[fe80::1]:443>[::]:80", "[ADDRESS]:443>[ADDRESS]:80"),
        ("2001:db8:0:1:2:3:4:5", "ADDRESS"),
        ("::ffff:10.0.0.1", "ADDRESS"),
        ("64:ff9b::10.0.0.1", "ADDRESS"),
        ("ssl:10.0.0.4:6652 tcp:[fe80::1]:6652", "ssl:ADDRESS:6652 tcp:[ADDRESS]:6652"),
        ("from 10.0.0.1: to 10.0.0.2. fe80::1: down", "from ADDRESS: to ADDRESS. ADDRESS: down"),
        ("52:54:00:12:34:56", "ADDRESS"),
        (
            "2026-11-26T18:50:12.345Z|00001|acdc|INFO|x",
            "2026-11-26T18:50:12.345Z|00001|acdc|INFO|x",
        ),
        ("Open vSwitch 3.1.0", "Open vSwitch 3.1.0"),
        ("0.0625, priority 7: port 5", "0.0625, priority 7: port 5"),
        ("qdisc htb 8001: root", "qdisc htb 8001: root"),
    ],
)
def test_what_is_an_address(text: str, expected: str) -> None:
    plugin = runpy.run_path(str(PLUGIN))
    assert plugin["ADDRESS"].sub(plugin["HIDDEN"], text) == expected
