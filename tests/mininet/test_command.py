# SPDX-License-Identifier: Apache-2.0

"""Mininet's own command, mn, with acdc_mininet installed by pip and an Open vSwitch that
is installed, not one of a checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import acdc_mininet as am
from acdc_ovs.programs import CHECKOUT, Programs


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed it."""
    folder = tmp_path_factory.mktemp("pip")
    # pip builds where the sources are.
    shutil.copytree(CHECKOUT / "python", folder / "source")
    python = folder / "venv/bin/python"
    for command in (
        [sys.executable, "-m", "venv", "--system-site-packages", "--without-pip",
         folder / "venv"],
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index",
         "--no-build-isolation", folder / "source"],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    (found,) = folder.glob("venv/lib/python3*/site-packages")
    return found


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the build as an installation has them."""
    prefix = tmp_path_factory.mktemp("installed")
    programs = Programs.from_env()
    for folder, files in {
        "sbin": [programs.vswitchd, programs.ovsdb_server],
        "bin": [programs.vsctl, programs.ofctl, programs.appctl, programs.ovsdb_tool],
        "share/openvswitch": [programs.schema],
    }.items():
        (prefix / folder).mkdir(parents=True)
        for file in files:
            (prefix / folder / file.name).symlink_to(file)
    return prefix


def mn(site: Path, installation: Path, *args: str, script: str = "", status: int = 0) -> str:
    environment = dict(os.environ)
    # As an operator: without a build, and in the machine's namespaces.
    for name in ("ACDC_ENV", "ACDC_ISOLATED"):
        environment.pop(name, None)
    environment["PYTHONPATH"] = str(site)
    environment["PATH"] = f"{installation}/sbin:{installation}/bin:{os.environ['PATH']}"
    command = ["mn", "--custom", str(site / "acdc_mininet/custom.py"), "--controller", "none"]
    done = subprocess.run(
        [*command, "--switch", "acdc", "--host", "acdc", *args],
        env=environment, input=script, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode == status, output
    assert "Traceback" not in output, output
    return output


@pytest.mark.parametrize(
    "topology", ["dumbbell,n=2", "incast,n=2", "leafspine,hosts=1", "single,2"]
)
def test_ping(site: Path, installation: Path, topology: str) -> None:
    output = mn(site, installation, "--arp", "--topo", topology, "--test", "pingall")
    assert "Results: 0% dropped" in output, output


def test_link_and_tenant(site: Path, installation: Path) -> None:
    """The link has the queue that was asked for, and the tenant governs the connection."""
    rate = 20_000_000
    script = (
        "py net['s1'].ovs.set_tenant('blue', beta=1)\n"
        "py net['s1'].ovs.bind('blue', 's1-eth1', 's1-eth2')\n"
        f"h2 {sys.executable} -m acdc_mininet.traffic sink --port 5001 > /dev/null &\n"
        f"h1 sleep 1; {sys.executable} -m acdc_mininet.traffic send 10.0.0.2 --port 5001 --seconds 3\n"
        "py 'capable', net['s1'].ovs.acdc('show')['tenants'][0]['n_capable']\n"
        "py 'rate', net.links[0].queues['h1'].queue.rate\n"
        "py 'programs', net['s1'].ovs.programs.vswitchd\n"
        "py 'bytes', net.links[0].queues['h1'].read().bytes\n"
    )
    output = mn(
        site, installation, "--topo", "single,2", "--link", f"acdc,rate={rate},k=30000",
        script=script,
    )  # fmt: skip
    assert f"('rate', {rate})" in output
    assert f"{installation}/sbin/ovs-vswitchd" in output
    assert '"complete": true' in output, output
    assert "('capable', 0)" not in output
    passed = re.search(r"\('bytes', (\d+)\)", output)
    # It sends for three seconds, and some to empty its buffer.
    assert passed and 100_000 < int(passed[1]) < rate / 8 * 10


def test_the_bottleneck_is_as_asked_for(site: Path, installation: Path) -> None:
    script = "py 'queue', [x.queues['s1'].queue for x in net.links if 's1' in x.queues and 's2' in x.queues]\n"
    words = ("--link", "acdc,rate=1000000000", "--topo", "dumbbell,1,rate=20000000,k=30000")
    output = mn(site, installation, *words, script=script)
    assert "('queue', [Queue(rate=20000000, k=30000, limit=600000," in output


@pytest.mark.parametrize("words", [("--topo", "dumbbell,rate=100mbit"), ("--link", "acdc,rate=0")])
def test_a_rate_that_is_none(site: Path, installation: Path, words: tuple[str, str]) -> None:
    bad = words[1].partition("rate=")[2]
    assert f"rate={bad}: want a whole number of bit/s" in mn(site, installation, *words, status=1)


def test_nothing_installed_nothing_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("acdc_ovs.programs.CHECKOUT", tmp_path)
    monkeypatch.setattr("acdc_ovs.programs.STANDARD", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ACDC_ENV", raising=False)
    with pytest.raises(
        FileNotFoundError, match="no Open vSwitch is installed.*nothing is built.*ACDC_ENV"
    ):
        am.Programs.find()
