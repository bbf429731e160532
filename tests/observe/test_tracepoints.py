# SPDX-License-Identifier: Apache-2.0

"""The tracepoints of ovs-vswitchd (USDT), and the scripts for bpftrace.  Those of the kernel:
tests/lab/inside/tracepoints.py."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as File

import pytest

from acdc_testlib.netns import wait_for
from acdc_testlib.programs import Programs
from acdc_testlib.traffic import Transfer
from observe.conftest import MARKED_PORT, PORT, A, B, Path

ROOT = File(__file__).resolve().parents[2]
SCRIPTS = {path.stem.removeprefix("acdc-"): path for path in ROOT.glob("utilities/bpftrace/*.bt")}
NAMES = {"flow_state", "cut", "loss", "timeout", "fallback"}

needs_sdt = pytest.mark.skipif(
    subprocess.run(
        ["cc", "-E", "-x", "c", "-"], input=b"#include <sys/sdt.h>", capture_output=True
    ).returncode != 0,
    reason="no sys/sdt.h here (package systemtap-sdt-dev)",
)  # fmt: skip


def notes() -> dict[str, list[str]]:
    """The arguments of each place of a probe of ours."""
    program = Programs.patched().vswitchd
    words = ["readelf", "--notes", "--wide", str(program)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    pattern = r"Provider: acdc\n\s+Name: acdc_(\w+)\n.*Semaphore: (\w+)\n\s+Arguments: (.*)"
    found: dict[str, list[str]] = {}
    for name, semaphore, arguments in re.findall(pattern, text):
        assert int(semaphore, 16) == 0
        found.setdefault(name, []).append(arguments)
    return found


@needs_sdt
def test_probes_are_in_the_program() -> None:
    """Tenant, flow, addresses, ports, two numbers."""
    found = notes()
    assert found.keys() == NAMES
    for places in found.values():
        for arguments in places:
            sizes = [int(word.split("@")[0]) for word in arguments.split()]
            assert sizes == [8, 8, 8, 4, 4, 4], arguments


def test_a_script_each() -> None:
    assert {name.replace("-", "_") for name in SCRIPTS} == NAMES
    for name, path in SCRIPTS.items():
        probes = re.findall(r"^usdt:(\S+):acdc:acdc_(\w+)$", path.read_text(), re.M)
        assert probes == [("/usr/sbin/ovs-vswitchd", name.replace("-", "_"))]


@pytest.fixture(scope="module")
def bpftrace() -> None:
    words = ["bpftrace", "-e", "BEGIN { exit(); }"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"no BPF here: {done.stderr}")


@contextmanager
def script(name: str, out: File) -> Iterator[None]:
    """It runs meanwhile; what it printed is in 'out' afterwards."""
    text = SCRIPTS[name].read_text()
    text = text.replace("/usr/sbin/ovs-vswitchd", str(Programs.patched().vswitchd))
    copy = out.with_suffix(".bt")
    copy.write_text(f'{text}\ninterval:ms:200 {{ printf("attached\\n"); }}\n')
    with out.open("w") as file:
        process = subprocess.Popen(["bpftrace", "-B", "line", copy], stdout=file, stderr=file)
        try:
            wait_for("bpftrace", lambda: "attached" in out.read_text(), 60)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@pytest.mark.usefixtures("bpftrace")
def test_states(path: Path, tmp_path: File) -> None:
    out = tmp_path / "out"
    with script("flow-state", out):
        path.transfer(PORT + 40, 1000)
        wait_for("ends", lambda: out.read_text().count(" to closed") == 2)
    text = out.read_text()
    for ends in (rf"{A}:\d+>{B}:{PORT + 40}", rf"{B}:{PORT + 40}>{A}:\d+"):
        line = rf"^\d\d:\d\d:\d\d blue {ends} "
        assert re.search(line + r"syn_\w+ to established$", text, re.M), text
        assert re.search(line + r"\w+ to closed$", text, re.M), text


@pytest.mark.usefixtures("bpftrace")
def test_cuts(path: Path, tmp_path: File) -> None:
    before = path.ovs.acdc("show")["tenants"][0]["counters"]["cuts_ecn"]
    out = tmp_path / "out"
    with script("cut", out):
        path.transfer(MARKED_PORT, 1 << 21)
    cuts = path.ovs.acdc("show")["tenants"][0]["counters"]["cuts_ecn"] - before
    assert cuts > 10
    text = out.read_text()
    counted = text[text.index("@srtt_us[blue]") :].split("@window")[0]
    # Of two threads at a time bpftrace may lose one.
    found = sum(int(n) for n in re.findall(r"\) +(\d+) \|", counted))
    assert found == pytest.approx(cuts, rel=0.1)


@pytest.mark.usefixtures("bpftrace")
def test_fallback(path: Path, tmp_path: File) -> None:
    path.ovs.set_tenant("green")
    path.ovs.bind("green", "vnet0")
    path.ovs.bind(None, "vnet1")
    out = tmp_path / "out"
    try:
        with script("fallback", out):
            path.transfer(PORT + 41, 1000)
    finally:
        path.ovs.bind("blue", "vnet0", "vnet1")
        path.ovs.del_tenant("green")
    expected = rf"green {A}:\d+>{B}:{PORT + 41} falls back: no AC/DC at the other end"
    assert re.search(expected, out.read_text()), out.read_text()


@pytest.mark.usefixtures("bpftrace")
@pytest.mark.parametrize(
    ("name", "counter", "seconds"), [("loss", "cuts_loss", 0.0), ("timeout", "timeouts", 0.6)]
)
def test_losses(path: Path, tmp_path: File, name: str, counter: str, seconds: float) -> None:
    """The network drops all data, for a moment or until the guest's timer expires."""
    number = PORT + 42
    match = f"in_port={path.ovs.ofport('net0')},tcp,tp_dst={number}"
    out = tmp_path / "out"

    def count() -> int:
        return int(path.ovs.acdc("show")["tenants"][0]["counters"][counter])

    before = count()
    with script(name, out):
        stream = Transfer(path.a, path.b, B, port=number)
        for _ in range(20):
            time.sleep(0.3)
            path.ovs.ofctl("add-flow", "net", f"priority=50000,{match},actions=drop")
            time.sleep(seconds)
            path.ovs.ofctl("--strict", "del-flows", "net", f"priority=50000,{match}")
            if count() > before:
                break
        stream.stop()
        stream.finish()
    assert count() > before
    text = out.read_text()
    expected = {
        "loss": rf"@losses\[blue, {B}\]: \d+",
        "timeout": rf"blue {A}:\d+>{B}:{number} timeout, window \d+ bytes, RTT \d+ us",
    }
    assert re.search(expected[name], text), text
