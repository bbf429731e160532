# SPDX-License-Identifier: Apache-2.0

"""acdc-tune: its formulas against models of their own, what it refuses, its documentation,
and a real ovs-vswitchd that it measures and sets."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acdc_testlib.netns import Netns, Tap, wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import open_connection
from acdc_tune import live
from acdc_tune.fabric import Fabric, build
from acdc_tune.formulas import tune
from acdc_tune.units import Problem

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tuning.rst"
PATH = f"{ROOT / 'utilities'}:{os.environ['PATH']}"
LINK = {"rate": "10gbit", "latency": "8us"}
RACK: dict[str, Any] = {
    "flows": 8,
    "links": {"host": LINK},
    "switches": {"leaf": {"buffer": "1MB"}},
    "paths": {"rack": ["host", "leaf", "host"]},
}


# --- Formulas ------------------------------------------------------------------


@dataclass
class Hop:
    """The models' numbers, in SI units."""

    rate: float
    latency: float
    flows: int
    buffer: float
    """Of the switch before it; of the first link, nothing."""


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[dict[str, Any], list[list[Hop]]]:
    """A description, and its paths as the models take them."""
    links = {
        f"l{n}": {
            "rate": f"{draw(st.integers(10, 100_000))}mbit",
            "latency": f"{draw(st.integers(1, 40_000))}ns",
            "flows": draw(st.integers(1, 40) | st.integers(1, 2000)),
        }
        for n in range(draw(st.integers(1, 4)))
    }
    switches = {
        f"s{n}": {"buffer": f"{draw(st.integers(600, 20_000))}kb"}
        for n in range(draw(st.integers(1, 3)))
    }
    paths, hops = {}, []
    for number in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, 5))
        names = [draw(st.sampled_from(sorted(links)))]
        for _ in range(length):
            names += [draw(st.sampled_from(sorted(switches))), draw(st.sampled_from(sorted(links)))]
        paths[f"p{number}"] = names
        path = []
        for link, switch in zip(names[::2], [None, *names[1::2]], strict=True):
            buffer = float(switches[switch]["buffer"][:-2]) * 1e3 if switch else 0.0
            path.append(
                Hop(
                    float(str(links[link]["rate"])[:-4]) * 1e6,
                    float(str(links[link]["latency"])[:-2]) * 1e-9,
                    int(str(links[link]["flows"])),
                    buffer,
                )
            )
        hops.append(path)
    used = {name for names in paths.values() for name in names}
    links = {name: keys for name, keys in links.items() if name in used}
    switches = {name: keys for name, keys in switches.items() if name in used}
    return {"links": links, "switches": switches, "paths": paths}, hops


def way_back(path: list[Hop]) -> list[Hop]:
    """The same links and switches from the other end."""
    buffers = [0.0, *(hop.buffer for hop in path[:0:-1])]
    links = path[::-1]
    return [
        Hop(link.rate, link.latency, link.flows, buffer)
        for link, buffer in zip(links, buffers, strict=True)
    ]


def walk(path: list[Hop], queue: Any = None) -> float:  # noqa: ANN401
    """Seconds of a packet that finds 'queue'(hop) bytes before it at each switch."""
    now = 0.0
    for hop in path:
        waiting = queue(hop) if queue and hop.buffer else 0.0
        while waiting > 0:
            sent = min(waiting, 1e6)
            now += sent * 8 / hop.rate
            waiting -= sent
        now += hop.latency
    return now


def sawtooth_empties(k: float, bdp: float) -> bool:
    """Whether the queue of some number of synchronous DCTCP flows runs empty: after SIGCOMM
    2010, section 3.3, it goes between K + N and sqrt(2 N (C RTT + K)) / 2 below; in packets."""
    most = int(k + bdp) + 2
    step = max(1, most // 2000)
    return any(k + n - math.sqrt(2 * n * (bdp + k)) / 2 < -1e-6 for n in range(1, most, step))


@settings(deadline=None, max_examples=300)
@given(fabrics())
def test_formulas_are_those_of_models(given_fabric: tuple[dict[str, Any], list[list[Hop]]]) -> None:
    description, paths = given_fabric
    fabric: Fabric = build(description)
    try:
        tuning = tune(fabric)
    except Problem as problem:
        assert re.search("buffer: .* is not above", str(problem))
        return
    packet = 1514

    # A packet and its ACK, that find all buffers full.
    full = max(
        walk(path, lambda hop: hop.buffer) + walk(way_back(path), lambda hop: hop.buffer)
        for path in paths
    )
    assert tuning.min_rto.value == pytest.approx(full * 1e6, rel=1e-6, abs=1.001)
    assert tuning.min_rto.value >= full * 1e6 * (1 - 1e-9)

    # All flows with a window each fill no link for longer than a round trip, and one segment
    # more each would.
    def fits(segments: int) -> bool:
        return all(
            segments * packet * hop.flows * 8 / hop.rate <= (walk(path) + walk(way_back(path)))
            for path in paths
            for hop in path
        )

    window = tuning.initial_window.value
    assert window == 1 or window == 65535 or fits(window)
    assert window == 65535 or not fits(window + 1)

    # DCTCP's sawtooth never leaves the link idle, at no number of flows.
    for queue, k in tuning.marking.items():
        through = [r for r in fabric.routes if queue in (*r.there, *r.back)]
        rtt = max(2 * float(sum(link.latency for link in route.links)) for route in through) / 1e9
        assert not sawtooth_empties(k.value / packet, float(queue.link.rate) * rtt / 8 / packet)
        assert k.value % packet == 0 and k.value < queue.switch.buffer

    # A packet behind DCTCP's longest queues.
    marks = {
        (float(q.switch.buffer), float(q.link.rate)): k.value for q, k in tuning.marking.items()
    }

    def longest(hop: Hop) -> float:
        return min(marks[hop.buffer, hop.rate] + hop.flows * packet, hop.buffer)

    if len(marks) == len(tuning.marking):
        slowest = max(walk(way, longest) for path in paths for way in (path, way_back(path)))
        assert tuning.on_ramp.value == pytest.approx(slowest * 1e6, rel=1e-6, abs=1.001)
    assert tuning.on_ramp.value <= tuning.min_rto.value


def test_sawtooth_needs_a_seventh() -> None:
    """The model can fail: at the bound it is just not empty, below it is."""
    assert not sawtooth_empties(1000 / 7 + 1, 1000)
    assert sawtooth_empties(1000 / 7 - 1, 1000)


def test_k_in_practice() -> None:
    """Of Linux's commit message, at a short round trip."""
    for rate, packets in (("1gbit", 20), ("10gbit", 65), ("100mbit", 20), ("100gbit", 65)):
        data = RACK | {"links": {"host": {"rate": rate, "latency": "1us"}}}
        (k,) = tune(build(data)).marking.values()
        assert k.value == packets * 1514


def test_a_small_buffer_halves_k_and_says_so() -> None:
    """110 KB behind 16 senders, K 65 packets: eight packets of room are too few."""
    data = RACK | {"switches": {"leaf": {"buffer": "110KB"}}, "flows": 16}
    tuning = tune(build(data))
    (k,) = tuning.marking.values()
    assert k.value == 36 * 1514
    assert any("half of the buffer" in text for text in tuning.warnings)
    crowded = tune(build(data | {"flows": 50}))
    assert any("room for 36 packets, and 50 flows" in text for text in crowded.warnings)


# --- The program ---------------------------------------------------------------


def acdc_tune(*args: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "utilities/acdc-tune", *args], text=True, capture_output=True, input=stdin
    )


def changed(path: str, value: object) -> dict[str, Any]:
    """RACK with one member changed, or taken away."""
    data: dict[str, Any] = json.loads(json.dumps(RACK))
    *parents, last = path.split("/")
    place = data
    for name in parents:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("links/host/rate", "900kbit", "links: host: rate: 900kbit is not between 1mbit and 2tbit"),
        ("links/host/rate", "3tbit", "3tbit is not between 1mbit and 2tbit"),
        ("links/host/rate", 10, "links: host: rate: 10 is not a number with a unit"),
        ("links/host/rate", "-1gbit", "'-1gbit' is not a number with a unit"),
        ("links/host/rate", "nan", "'nan' is not a number with a unit"),
        ("links/host/latency", "0us", "latency: 0us is not between 1ns and 100ms"),
        ("links/host/latency", "1s", "1s is not between 1ns and 100ms"),
        ("links/host/latency", "5mbit", "'5mbit' is not a number with a unit (ns us ms s)"),
        ("links/host/latency", None, "links: host: latency is missing"),
        ("links/host/flows", 0, "links: host: flows: 0 is not between 1 and 1000000"),
        ("links/host/flows", 1.5, "flows: 1.5 is not a whole number"),
        ("links/host/flows", True, "flows: True is not a whole number"),
        ("links/host/speed", "1gbit", "unknown key speed; allowed: flows latency rate"),
        ("links/spare", LINK, "spare is on no path"),
        ("links", {}, "links: want entries NAME: ..., not {}"),
        ("switches/leaf/buffer", "5gb", "buffer: 5gb is not between 1kb and 4gb"),
        ("switches/leaf/buffer", "2kb", "buffer: 2 KB is not above 6.056 KB (C * RTT / 7"),
        ("mtu", 100, "mtu: 100 is not between 576 and 65535"),
        ("mut", 1500, "unknown key mut; allowed: flows links mtu paths switches"),
        ("paths/rack", ["host", "host", "host"], "paths: rack: host is no switch; there are: leaf"),
        ("paths/rack", ["host", "leaf"], "paths: rack: want a list of link, switch, link"),
        ("paths", None, "paths: want entries"),
    ],
)
def test_nonsense_is_refused(path: str, value: object, says: str) -> None:
    """With the value and the limit."""
    done = acdc_tune("/dev/stdin", stdin=json.dumps(changed(path, value)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("acdc-tune: /dev/stdin: ") or "C * RTT" in says
    assert says in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "want FABRIC, or --measure"),
        (["x.yaml", "--measure"], "want FABRIC, or --measure"),
        (["/nonexistent.yaml"], "No such file or directory"),
        (["x.yaml", "--flows", "3"], "--flows goes with --measure"),
        (["x.yaml", "--switches", "3"], "--switches goes with --measure"),
        (["--measure"], "--buffer is missing"),
        (["--measure", "--buffer", "1MB", "--switches", "10"], "10 is not between 1 and 9"),
        (["--measure", "--buffer", "1"], "--buffer: '1' is not a number with a unit"),
        (["/dev/stdin", "--commands", "ios"], "ios is not one of linux sonic cumulus all"),
    ],
)
def test_wrong_arguments(args: list[str], says: str) -> None:
    done = acdc_tune(*args, stdin=json.dumps(RACK))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def examples() -> list[tuple[str, str]]:
    """Commands of the page and what they print there."""
    found = re.findall(r"^    \$ (.*)\n((?:(?:    .*)?\n)*)", PAGE.read_text(), re.M)
    return [(command, re.sub("^    ", "", output, flags=re.M).strip()) for command, output in found]


@pytest.mark.parametrize(("command", "output"), examples())
def test_page_shows_what_is_printed(command: str, output: str) -> None:
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=os.environ | {"PATH": PATH},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.stdout.strip() == output


def test_a_date_that_is_none_is_refused() -> None:
    """YAML takes it for one."""
    done = acdc_tune("/dev/stdin", stdin="mtu: 2026-02-30\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("acdc-tune: /dev/stdin: day .*\n", done.stderr)


def test_a_name_twice_is_refused() -> None:
    done = acdc_tune("/dev/stdin", stdin="mtu: 1500\nflows: 1\nmtu: 9000\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("acdc-tune: /dev/stdin: line 3: mtu is there twice")


def test_profiles_have_names_of_their_own() -> None:
    """No switch takes the place of another's settings."""
    data = changed("switches", {"leaf-1": {"buffer": "1MB"}, "leaf_1": {"buffer": "2MB"}})
    data["paths"] = {"rack": ["host", "leaf-1", "host", "leaf_1", "host"]}
    assert acdc_tune("/dev/stdin", "--commands=linux", stdin=json.dumps(data)).returncode == 0
    done = acdc_tune("/dev/stdin", "--commands=all", "--apply=x", stdin=json.dumps(data))
    assert (done.returncode, done.stdout) == (2, "")
    assert "leaf-1->host and leaf_1->host would have one profile, ACDC_leaf_1_host" in done.stderr


def test_manual_page_shows_the_example() -> None:
    """The same fabric as docs/examples/fabric.yaml."""
    text = (ROOT / "docs/man/acdc-tune.8.rst").read_text()
    block = text[text.index("such as::") :].split("\n\n")[1]
    lines = (ROOT / "docs/examples/fabric.yaml").read_text().splitlines()
    assert [line.removeprefix("    ") for line in block.splitlines()] == lines[2:]


def test_json_has_commands_that_tc_takes() -> None:
    """tc checks RED's arguments before it asks the kernel, which may have no RED."""
    done = acdc_tune(ROOT / "docs/examples/fabric.yaml", "--json", "--commands", "all")
    result = json.loads(done.stdout)
    assert result["k"].keys() == result["commands"]["linux"].keys()
    namespace = Netns()
    try:
        namespace.run("ip", "link", "add", "name", "PORT", "type", "veth", "peer", "name", "peer")
        for lines in result["commands"]["linux"].values():
            for command in "\n".join(lines).replace("\\\n", "").splitlines():
                if not command.startswith("#"):
                    done = subprocess.run(
                        namespace.command(*command.split()), text=True, capture_output=True
                    )
                    # What the kernel may say; not tc.
                    assert done.stderr in ("", "Error: Specified qdisc kind is unknown.\n")
    finally:
        namespace.close()
    for name, lines in result["commands"]["sonic"].items():
        tables = json.loads("".join(lines[1 : lines.index("EOF")]))
        (profile,) = tables["WRED_PROFILE"].values()
        assert profile["green_min_threshold"] == str(result["k"][name]["value"])
    for name, lines in result["commands"]["cumulus"].items():
        assert lines[0].endswith(f"min-threshold {result['k'][name]['value']}")


# --- With Open vSwitch ---------------------------------------------------------


@dataclass
class Hypervisor:
    ovs: Ovs
    a: Netns
    b: Netns

    def tune(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        """As an operator of this one runs it."""
        programs = self.ovs.programs
        path = f"{programs.vsctl.parent}:{programs.appctl.parent}:{os.environ['PATH']}"
        target = str(self.ovs.dir / f"{programs.vswitchd.name}.ctl")
        where = ["--db", f"unix:{self.ovs.dir}/db.sock", "--target", target]
        return subprocess.run(
            [ROOT / "utilities/acdc-tune", *args, *where],
            env=os.environ | {"PATH": path}, text=True, capture_output=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def hypervisor() -> Iterator[Hypervisor]:
    """Two guests of tenant blue, and an uplink."""
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        guests = [ovs.add_guest("br0", f"vnet{n}", f"10.0.0.{n + 1}/24") for n in range(2)]
        ovs.add_guest("br0", "uplink")
        ovs.set_tenant("blue")
        ovs.bind("blue", "vnet0", "vnet1")
        yield Hypervisor(ovs, *guests)


def test_measure(hypervisor: Hypervisor) -> None:
    measure = ("--measure", "--buffer", "16MB", "--json")
    done = hypervisor.tune(*measure, "--remote", "10.9.9.9")
    assert (done.returncode, done.stdout) == (1, "")
    assert "none of 0 connections has a round trip" in done.stderr

    near, far = open_connection(hypervisor.a, hypervisor.b, "10.0.0.2")
    with near, far:

        def sampled() -> bool:
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            return any(flow["srtt_us"] for flow in hypervisor.ovs.acdc("dump-flows"))

        wait_for("a round trip", sampled, timeout=30)
        done = hypervisor.tune(*measure, "--switches", "2")
        assert done.returncode == 0, done.stderr
        flows = hypervisor.ovs.acdc("dump-flows")
        again = hypervisor.tune(*measure, "--remote", "10.0.0.2", "--flows", "100")
    result = json.loads(done.stdout)
    measured = result["measured"]
    assert measured["uplink"] == "uplink"
    # One round trip to each of the two ends at most: the longer.
    samples = {flow["remote"]: flow["srtt_us"] for flow in flows if flow["srtt_us"]}
    assert measured["remote"] == max(samples, key=lambda name: (samples[name], name))
    assert measured["round_trip_us"] == samples[measured["remote"]]
    assert measured["connections"] == sum(flow["state"] == "established" for flow in flows)
    # Four queues of 16 MB at a veth's 10 Gbit/s.
    assert result["min_rto"]["value"] == measured["round_trip_us"] + 4 * 12800

    (remote,) = {flow["remote"] for flow in flows if flow["remote"] == "10.0.0.2"}
    other = json.loads(again.stdout)
    assert other["measured"]["remote"] == remote
    assert " / 100 * " in other["initial_window"]["numbers"]


def test_connections_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = dict.fromkeys(live.NEEDED, 1)
    pages = {"0": {"flows": [flow | {"mss": 1}] * 2, "next": "77"}, "77": {"flows": [flow]}}
    monkeypatch.setattr(live, "_run", lambda *words: json.dumps(pages[words[-1][len("cursor=") :]]))
    assert live.Ovs().flows() == [flow] * 3


def test_uplinks_of_different_speed_are_named(hypervisor: Hypervisor) -> None:
    """A guest's port that is not bound looks like one."""
    ovs = hypervisor.ovs
    tap = Tap(ovs.ns, "tap0")
    try:
        ovs.ns.run("ethtool", "-s", "tap0", "speed", "1000", "duplex", "full")
        ovs.add_port("br0", "tap0")
        wait_for("its speed", lambda: ovs.vsctl("get", "interface", "tap0", "link_speed") != "[]")
        done = hypervisor.tune("--measure", "--buffer", "1MB")
        assert (done.returncode, done.stdout) == (1, "")
        assert "tap0 1 Gbit/s, uplink 10 Gbit/s: name one with --uplink" in done.stderr
        done = hypervisor.tune("--measure", "--buffer", "1MB", "--uplink", "vnet0")
        assert "vnet0 is no uplink that is up" in done.stderr
    finally:
        ovs.del_port("tap0")
        tap.close()


def test_a_port_that_a_selector_binds_is_no_uplink(hypervisor: Hypervisor) -> None:
    ovs = hypervisor.ovs
    try:
        ovs.add_guest("br0", "vnet2")
        ovs.vsctl("set", "interface", "vnet2", "external_ids:iface-id=x")
        ovs.vsctl("set", "acdc", "blue", r'bind="iface-id=x"')
        wait_for("its tenant", lambda: "acdc_tenant" in ovs.vsctl("get", "interface", "vnet2", "status"))
        done = hypervisor.tune("--measure", "--buffer", "1MB", "--uplink", "vnet2")
        assert "there are: uplink 10 Gbit/s" in done.stderr
    finally:
        ovs.vsctl("clear", "acdc", "blue", "bind")
        ovs.del_port("vnet2")


def test_apply(hypervisor: Hypervisor) -> None:
    fabric = ROOT / "docs/examples/fabric.yaml"
    ovs = hypervisor.ovs
    before = ovs.vsctl("get", "acdc", "blue", "initial_window")
    assert before == "[]"

    done = hypervisor.tune(fabric, "--apply", "blue")
    assert done.returncode == 0, done.stderr
    assert "blue: initial_window: set to 3 segments" in done.stdout
    assert ovs.acdc("show", "blue")["tenants"][0]["params"]["initial_window"] == 3

    # What the table has no column for is named.  Those that it has are set.
    (row,) = ovs.vsctl_json("list", "acdc", "blue")
    for column, value in {"tail_probe": 2840, "on_ramp": 168}.items():
        if column in row:
            assert row[column] == value
        else:
            assert f"blue: {column}: this Open vSwitch has no such column" in done.stdout

    commands = ovs.vsctl("get", "open_vswitch", ".", "next_cfg")
    again = hypervisor.tune(fabric, "--apply", "blue", "--json")
    assert "initial_window: is 3 already" in json.loads(again.stdout)["applied"]
    assert ovs.vsctl("get", "open_vswitch", ".", "next_cfg") == commands

    for name in ("green", ""):
        done = hypervisor.tune(fabric, "--apply", name)
        assert (done.returncode, done.stdout) == (1, "")
        assert f'no tenant "{name}"' in done.stderr


def test_a_tenant_of_the_fleet(hypervisor: Hypervisor) -> None:
    """The agent would put back what is set here."""
    hypervisor.ovs.vsctl("create", "acdc", "name=red", "external_ids:acdc-owner=fleet")
    done = hypervisor.tune(ROOT / "docs/examples/fabric.yaml", "--apply", "red")
    assert hypervisor.ovs.vsctl("get", "acdc", "red", "initial_window") == "[]"
    hypervisor.ovs.vsctl("destroy", "acdc", "red")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(
        "on a server: acdc-fleetctl tenant set red initial_window=3 tail_probe=2840 on_ramp=168\n"
    )


def test_without_open_vswitch(tmp_path: Path) -> None:
    done = acdc_tune(ROOT / "docs/examples/fabric.yaml", "--apply", "blue", "--db",
                     f"unix:{tmp_path}/none")  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "acdc-tune: ovs-vsctl" in done.stderr
