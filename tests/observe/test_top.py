# SPDX-License-Identifier: Apache-2.0

"""acdc-top on real switches."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Transfer, finish_all
from acdc_top import reading as of_reading
from acdc_top.reading import Reader, Reading, limited_by
from acdc_top.screen import TENANTS, Screen
from observe.conftest import MARKED_PORT, PORT, A, B, Path, daemon_that_says

TOP = File(__file__).resolve().parents[2] / "utilities/acdc-top"


def run(ovs: Ovs, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [str(TOP), "--rundir", str(ovs.rundir), "--interval", "0.1", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def once(ovs: Ovs, *arguments: str) -> dict[str, Any]:
    done = run(ovs, "--once", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    reading = json.loads(done.stdout)
    assert isinstance(reading, dict)
    return reading


@pytest.fixture(scope="module")
def busy(path: Path) -> Iterator[Path]:
    """One connection that is marked, one that is not, one that rests."""
    path.ovs.appctl("acdc/flush")
    streams = [Transfer(path.a, path.b, B, port=port) for port in (MARKED_PORT, PORT + 20)]
    Transfer(path.a, path.b, B, port=PORT + 21, size=1000).finish()
    try:
        time.sleep(1)
        yield path
    finally:
        finish_all(streams)


def test_rates(busy: Path) -> None:
    reading = once(busy.ovs, "--port", "vnet0", "--interval", "0.5")
    first, second = reading["flows"][:2]
    assert {first["remote_port"], second["remote_port"]} == {MARKED_PORT, PORT + 20}
    assert first["tx_rate"] >= second["tx_rate"] > 1e4
    (tenant,) = reading["tenants"]
    # Between both guests everything goes out once and comes in once.
    total = first["tx_rate"] + second["tx_rate"]
    assert tenant["tx_rate"] == pytest.approx(total, rel=0.5)
    assert tenant["rx_rate"] == pytest.approx(tenant["tx_rate"], rel=0.5)
    marks = {flow["remote_port"]: flow["marked"] for flow in (first, second)}
    assert marks[MARKED_PORT] > 0.9 and not marks[PORT + 20]
    assert tenant["n_capable"] >= 4 and tenant["cuts_per_second"] > 0
    assert 0.4 < reading["seconds"] < 10


def test_the_window_of_the_switch_limits_what_is_marked(busy: Path) -> None:
    """All that is marked: the window is the least, and full."""
    found = []
    for _ in range(20):
        flows = once(busy.ovs, "--port", "vnet0")["flows"]
        found += [f["limited_by"] for f in flows if f["remote_port"] == MARKED_PORT]
        if "switch" in found:
            return
    raise AssertionError(found)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "switch"),
        ({"wnd": 90_000, "offered": 60_000, "in_flight": 59_000}, "receiver"),
        ({"mode": "observe"}, "receiver"),
        ({"alg": "none"}, "receiver"),
        ({"in_flight": 10_000}, "guest"),
        ({"in_flight": 0, "tx_rate": 0.0}, "idle"),
        ({"in_flight": 0, "tx_rate": 0.0, "offered": 0, "idle_ms": 300}, "receiver"),
        ({"tx_rate": 0.0, "idle_ms": 300}, "no ACK"),
        ({"tx_rate": 0.0, "idle_ms": 1}, "switch"),
        ({"state": "syn_sent"}, "syn_sent"),
    ],
)
def test_what_limits(fields: dict[str, Any], expected: str) -> None:
    flow = {
        **{"state": "established", "mode": "enforce", "alg": "dctcp", "mss": 1448},
        **{"wnd": 30_000, "offered": 30_080, "in_flight": 29_000},
        **{"idle_ms": 0, "srtt_us": 2000, "tx_rate": 1e6},
    }
    assert limited_by({**flow, **fields}, followed=True) == expected
    assert expected != "no ACK" or limited_by({**flow, **fields}, followed=False) == "switch"


class Daemon:
    """One connection, of a daemon that says what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("tx_rate", "offered", "wnd", "mss", "srtt_us", "idle_ms", "in_flight")
        self.flow: dict[str, Any] = {
            **dict.fromkeys(names, 0),
            **dict.fromkeys(("snd_una", "rx_total", "fb_total", "fb_ce"), 1000),
            **dict.fromkeys(("datapath", "port", "local", "remote", "alg", "mode"), "x"),
            **{"local_port": 1, "remote_port": 2, "state": "established", "vlans": []},
            **{"resumed": False, "capable": True},
        }
        self.packets, self.now = 100, 100.0
        self.reader = Reader(File("x"), None, [], interval=2)
        monkeypatch.setattr(of_reading, "flows", lambda *_, **__: [dict(self.flow)])
        monkeypatch.setattr(of_reading, "unixctl", lambda *_, **__: json.dumps(self.show()))
        monkeypatch.setattr(of_reading, "time", SimpleNamespace(monotonic=lambda: self.now))

    def show(self) -> dict[str, Any]:
        names = ("n_flows", "n_half_open", "n_capable", "n_fallback", "rtt_p50_us", "rtt_p99_us")
        counters = ["egress_bytes", "ingress_bytes", "ce_bytes", "cuts_ecn", "cuts_loss"]
        counters += ["timeouts", "on_ramp_us"]
        row = {
            **{"datapath": "x", "name": "blue", "params": {"mode": "enforce"}},
            **dict.fromkeys(names, 0),
            "counters": {**dict.fromkeys(counters, 0), "egress_packets": self.packets},
        }
        return {"tenants": [row]}

    def read(self, after: float, **flow: Any) -> dict[str, Any]:
        self.now += after
        self.flow.update(flow)
        (found,) = self.reader.read().flows
        return found


@pytest.mark.parametrize(
    "another",
    [{"resumed": True}, {"capable": False}, {"state": "asking"}, {"vlans": [7]}, "closed", "daemon"],
    ids=str,
)
def test_rates_are_of_one_connection(
    monkeypatch: pytest.MonkeyPatch, another: dict[str, Any] | str
) -> None:
    daemon = Daemon(monkeypatch)
    daemon.read(0)
    assert daemon.read(2, snd_una=3000)["tx_rate"] == 1000
    more: dict[str, Any] = {"snd_una": 1 << 31, "fb_total": 1 << 31, "fb_ce": 1 << 31}
    if another == "closed":
        assert daemon.read(2, state="closed", snd_una=5000)["tx_rate"] == 1000
        more["state"] = "established"
    elif another == "daemon":
        daemon.packets = 1
    else:
        assert isinstance(another, dict)
        more |= another
    found = daemon.read(2, **more)
    assert (found["tx_rate"], found["marked"]) == (0, None)
    assert daemon.read(2, snd_una=(1 << 31) + 4000)["tx_rate"] == 2000


def test_rates_are_over_half_an_interval_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a key, or a reading that failed."""
    daemon = Daemon(monkeypatch)
    daemon.read(0)
    assert daemon.read(0.01, snd_una=2000)["tx_rate"] == 0
    assert daemon.read(2, snd_una=3010)["tx_rate"] == pytest.approx(1000 / 2, rel=0.02)
    assert daemon.read(0.01, snd_una=3010)["tx_rate"] == pytest.approx(500, rel=0.02)
    del daemon.flow["fb_ce"]
    with pytest.raises(KeyError):
        daemon.read(2, snd_una=4000)
    assert daemon.read(2, snd_una=5000, fb_ce=0)["tx_rate"] == pytest.approx(1990 / 4, rel=0.02)


def test_sorted_and_filtered(busy: Path) -> None:
    flows = once(busy.ovs, "--sort", "marks")["flows"]
    assert flows[0]["remote_port"] == MARKED_PORT
    windows = [flow["wnd"] for flow in once(busy.ovs, "--sort", "window")["flows"]]
    assert windows == sorted(windows, reverse=True) and len(windows) > 3
    times = [flow["srtt_us"] for flow in once(busy.ovs, "--sort", "rtt")["flows"]]
    assert times == sorted(times, reverse=True)
    assert {flow["port"] for flow in once(busy.ovs, "--port", "vnet1")["flows"]} == {"vnet1"}
    assert {flow["remote"] for flow in once(busy.ovs, "--remote", f"{A}/32")["flows"]} == {A}
    reading = once(busy.ovs, "--limit", "1")
    assert len(reading["flows"]) == 1 and reading["n_flows"] >= 4
    assert once(busy.ovs, "--tenant", "blue")["tenants"][0]["name"] == "blue"


def test_text(busy: Path) -> None:
    done = run(busy.ovs, "--once", "--tenant", "blue")
    assert done.returncode == 0, done.stderr
    about, header, tenant, _, columns, *lines = done.stdout.splitlines()
    assert "connections, the fastest first" in about
    assert header.split()[:4] == ["tenant", "mode", "flows", "AC/DC"]
    assert tenant.split()[:2] == ["blue", "enforce"]
    assert columns.endswith("limited by") or "limited by" in columns
    assert any(f">{B}:{MARKED_PORT} " in line and "dctcp" in line for line in lines)


def screen(reading: dict[str, Any], width: int, keys: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    shown = Screen("rate", keys)
    shown.reading = Reading(**reading)
    console.print(shown)
    return console.export_text()


def test_on_ramp(path: Path) -> None:
    """What it measures and how long data pauses is there, for JSON and for people."""
    path.ovs.set_tenant("blue", on_ramp=1)
    stream = Transfer(path.a, path.b, B, port=PORT + 22)
    try:
        reading = once(path.ovs, "--port", "vnet0", "--interval", "0.5")
    finally:
        finish_all([stream])
        path.ovs.set_tenant("blue", on_ramp=0)
    (flow,) = (f for f in reading["flows"] if f["remote_port"] == PORT + 22)
    (tenant,) = reading["tenants"]
    assert flow["net_rtt_us"] > 0
    assert tenant["net_rtt_mean_us"] > 0 and tenant["paused_us_per_second"] > 0
    header = screen(reading, 200).splitlines()
    assert {"net", "delay", "paused/s"} <= set(header[1].split())
    assert {"net", "delay"} <= set(header[4].split())


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_as_wide_as_the_terminal(busy: Path, width: int) -> None:
    """A narrow one has fewer columns, and each is whole."""
    text = screen(once(busy.ovs), width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "\u2026" not in text
    _, tenants, _, _, flows = (line.split() for line in text.splitlines()[:5])
    assert {"tenant", "out", "CE", "RTT", "window", "RTO/s"} <= set(tenants)
    assert {"port", "connection", "out", "marked", "window", "RTT", "by"} <= set(flows)
    assert {"alpha", "alg"} <= set(flows) or width < 200


@pytest.mark.parametrize("width", [80, 100])
def test_long_addresses(busy: Path, width: int) -> None:
    """Numbers are whole; of addresses there is what has room."""
    reading = once(busy.ovs)
    for flow in reading["flows"]:
        flow.update(local="2001:db8:1111:2222:3333:4444:5555:6666", port="tap1234567-89")
        flow.update(remote="2001:db8:1111:2222:3333:4444:5555:7777")
    lines = screen(reading | {"n_flows": 200_001}, width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "rates of at most 200,000" in " ".join("".join(lines[:2]).split())
    at = next(n for n, line in enumerate(lines) if "limited by" in line)
    assert {"connection", "out", "marked", "window", "RTT"} <= set(lines[at].split())
    for line, flow in zip(lines[at + 1 :], reading["flows"], strict=True):
        assert f":7777]:{flow['remote_port']} " in line
        assert line.rstrip().endswith(flow["limited_by"])


def test_the_first_line_has_room_for_the_keys(busy: Path) -> None:
    reading = once(busy.ovs) | {"n_flows": 10_000}
    assert screen(reading, 80, keys=True).splitlines()[0].endswith("q: quit)")


def test_json_goes_on(busy: Path) -> None:
    """A line for each interval; who has read enough ends it."""
    words = [str(TOP), "--rundir", str(busy.ovs.rundir), "--interval", "0.2", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        readings = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.stdout.close()
        assert process.wait(10) == -signal.SIGPIPE
        assert process.stderr.read() == b""
    assert all(reading["seconds"] >= 0.2 for reading in readings)


class Terminal:
    """acdc-top in one of its own."""

    def __init__(self, ovs: Ovs, term: str = "xterm") -> None:
        self.pid, self.fd = pty.fork()
        if not self.pid:
            environ = os.environ | {"TERM": term, "COLUMNS": "160", "LINES": "24"}
            words = [str(TOP), "--rundir", str(ovs.rundir), "--interval", "0.3"]
            os.execve(TOP, words, environ)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
        self.text = b""

    def until(self, wanted: bytes) -> None:
        deadline = time.monotonic() + 20
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text[-4000:]
            if select.select([self.fd], [], [], 0.2)[0]:
                self.text += os.read(self.fd, 65536)

    def end(self) -> int:
        with contextlib.suppress(OSError):
            while select.select([self.fd], [], [], 10)[0] and (part := os.read(self.fd, 65536)):
                self.text += part
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_live(busy: Path) -> None:
    terminal = Terminal(busy.ovs)
    terminal.until(b"the fastest")
    terminal.until(b"limited by")
    os.write(terminal.fd, b"s")
    terminal.until(b"the largest window")
    os.write(terminal.fd, b"q")
    assert terminal.end() == 0
    # The cursor is back, and so is the other screen.
    assert b"\x1b[?25h" in terminal.text and b"\x1b[?1049l" in terminal.text


def test_a_dumb_terminal(busy: Path) -> None:
    """It has no second screen."""
    terminal = Terminal(busy.ovs, "dumb")
    terminal.until(b"limited by")
    assert terminal.end() == 0 and b"\x1b" not in terminal.text


@pytest.mark.parametrize(
    ("column", "field", "value", "shown"),
    [
        ("cuts/s", "cuts_per_second", 0.25, "0.25"),
        ("cuts/s", "cuts_per_second", 999.7, "1000"),
        ("cuts/s", "cuts_per_second", 12345.6, "12346"),
        ("RTO/s", "timeouts_per_second", 1234, "1234"),
        ("paused/s", "paused_us_per_second", 250_000, "250ms"),
        ("paused/s", "paused_us_per_second", 9_999_600, "10s"),
        ("paused/s", "paused_us_per_second", 12_340_000, "12.34s"),
    ],
)
def test_numbers_of_many_connections(column: str, field: str, value: float, shown: str) -> None:
    """They have no exponent."""
    assert TENANTS[column]({field: value}) == shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c(busy: Path, number: signal.Signals) -> None:
    terminal = Terminal(busy.ovs)
    terminal.until(b"limited by")
    if number == signal.SIGINT:
        os.write(terminal.fd, b"\x03")
    else:
        os.kill(terminal.pid, number)
    assert terminal.end() == 0
    assert b"\x1b[?1049l" in terminal.text and b"Traceback" not in terminal.text


def test_a_tenant_that_is_made_anew(path: Path) -> None:
    """Its counters begin anew, and it has not sent less than nothing."""
    path.transfer(MARKED_PORT, 1 << 20)
    reader = Reader(None, path.ovs.rundir, [])
    reader.read()
    path.ovs.del_tenant("blue")
    path.ovs.set_tenant("blue")
    (tenant,) = reader.read().tenants
    assert {n: v for n, v in tenant.items() if isinstance(v, int | float) and v < 0} == {}


def test_a_daemon_that_ends(ovs: Ovs) -> None:
    """The view says so, and goes on with the next daemon."""
    ovs.add_bridge("br0")
    ovs.set_tenant("blue")
    terminal = Terminal(ovs)
    terminal.until(b"0 connections")
    ovs.stop_vswitchd()
    terminal.until(b"no answer")
    terminal.text = b""
    ovs.start_vswitchd()
    terminal.until(b"0 connections")
    os.write(terminal.fd, b"q")
    assert terminal.end() == 0


def test_a_daemon_of_another_version(tmp_path: File) -> None:
    """Which does not know all that is asked of it."""
    control = tmp_path / "other.ctl"
    with daemon_that_says('{"tenants": [{}]}', control):
        words = [str(TOP), "--once", "--target", str(control)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    said = "acdc-top: the answer does not have 'datapath': ovs-vswitchd is of another version\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_no_daemon(tmp_path: File) -> None:
    words = [str(TOP), "--once", "--rundir", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "does ovs-vswitchd run?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--sort", "x"], 2),
        (["--limit", "0"], 2),
        (["--interval", "0"], 2),
        (["--what"], 2),
        (["--once", "--tenant", "green"], 1),
        (["--help"], 0),
    ],
)
def test_arguments(busy: Path, arguments: list[str], status: int) -> None:
    done = run(busy.ovs, *arguments)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
