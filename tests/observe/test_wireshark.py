# SPDX-License-Identifier: Apache-2.0

"""tshark with utilities/wireshark/acdc.lua: what it says of captures of the switch, and of
reports that no switch would send."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path as File
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet
from scapy.utils import rdpcap, wrpcap

import acdc_scapy
from acdc_scapy import Capability, Feedback, Report, Reserved, State, dissect, option
from acdc_testlib.netns import wait_for
from acdc_testlib.tcp import ACK, PSH, RST, SYN, V4, Option, network, tcp
from observe.conftest import MARKED_PORT, PORT, Path

SCRIPT = File(__file__).resolve().parents[2] / "utilities/wireshark/acdc.lua"
NOT_ECT = Capability(flags="NOT_ECT")
MB = 1 << 20


def tshark(capture: File, *arguments: str, script: bool = True) -> str:
    words = ["tshark", "-n", "-r", str(capture), *arguments]
    words += ["-X", f"lua_script:{SCRIPT}"] if script else []
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    # Errors in the script are there, and none of them is an exit status.
    assert "lua" not in done.stderr.lower() and done.returncode == 0, done.stderr
    assert "Lua Error" not in done.stdout, done.stdout
    return done.stdout


def fields(capture: File, *names: str, where: str = "acdc") -> list[tuple[str, ...]]:
    wanted = [word for name in names for word in ("-e", name)]
    output = tshark(capture, "-Y", where, "-T", "fields", "-E", "separator=|", *wanted)
    return [tuple(line.split("|")) for line in output.splitlines()]


# Captures of the switch.


def closed_flow(path: Path, port: int) -> dict[str, Any] | None:
    """The sender's flow to 'port', if both ends have closed it."""
    flows = path.ovs.acdc("dump-flows", "port=vnet0")
    mine = [flow for flow in flows if int(flow["remote_port"]) == port]
    return mine[0] if mine and mine[0]["state"] == "closed" else None


SEVERE = ("acdc.more_marked", "acdc.backwards", "acdc.more_than_sent", "acdc.feedback_on_syn")


@dataclass
class Real:
    """Two connections on an uplink."""

    capture: File
    flows: dict[int, Any]
    """What the switch knows of their senders', by port."""
    packets: list[dict[str, str]]
    """Those with AC/DC, as tshark has them."""


@pytest.fixture(scope="module")
def real(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    capture = tmp_path_factory.mktemp("capture") / "up0.pcap"
    # Those of tests before, to the same ports, are in their linger.
    path.ovs.appctl("acdc/flush")
    tcpdump = path.ovs.ns.popen(
        *("tcpdump", "-i", "up0", "-B", "65536", "-U", "-Z", "root", "-s", "128", "-w", capture),
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for("tcpdump", lambda: capture.exists() and capture.stat().st_size >= 24)
        # What the switch knows is asked before it forgets them, and once it has both FINs:
        # after its own the receiver reports nothing more.
        flows = {}
        for port in (PORT, MARKED_PORT):
            path.transfer(port, 2 * MB)
            flows[port] = wait_for("its end", partial(closed_flow, path, port))
        # Those sent again are of the same connection and direction.
        ends = ("tcp.srcport", "tcp.dstport")
        fin = "tcp.flags.fin == 1"
        wait_for("their ends", lambda: len(set(fields(capture, *ends, where=fin))) == 4)
    finally:
        tcpdump.terminate()
        tcpdump.wait(10)
    names = ["tcp.flags.ack", "tcp.srcport", "acdc.exid", "acdc.version", "acdc.ecn_bytes"]
    names += ["acdc.total_bytes", "acdc.ecn_bytes.relative", "acdc.total_bytes.relative"]
    names += ["acdc.sent_bytes", *SEVERE]
    rows = fields(capture, *names)
    return Real(capture, flows, [dict(zip(names, row, strict=True)) for row in rows])


def test_a_connection_begins_with_the_capability(real: Real) -> None:
    names = ("tcp.flags.ack", "acdc.exid", "acdc.version")
    got = [tuple(p[name] for name in names) for p in real.packets if p["acdc.version"]]
    assert got == [("0", "0xacdc", "1"), ("1", "0xacdc", "1")] * 2


@pytest.mark.parametrize("port", [PORT, MARKED_PORT])
def test_reports_are_those_the_switch_read(real: Real, port: int) -> None:
    reports = [p for p in real.packets if p["acdc.total_bytes"] and p["tcp.srcport"] == str(port)]
    last, flow = reports[-1], real.flows[port]
    ecn, total = int(last["acdc.ecn_bytes"]), int(last["acdc.total_bytes"])
    assert (ecn, total) == (flow["fb_ce"], flow["fb_total"])
    assert int(last["acdc.ecn_bytes.relative"]) == ecn
    assert int(last["acdc.total_bytes.relative"]) == total
    assert 2 * MB <= total <= int(last["acdc.sent_bytes"])
    assert (ecn == total) == (port == MARKED_PORT)
    assert (ecn == 0) == (port == PORT)


def test_the_switch_sends_nothing_impossible(real: Real) -> None:
    assert [p for p in real.packets if any(p[name] for name in SEVERE)] == []


def test_reserved_bits_of_data(real: Real) -> None:
    """The guests do not use ECN, and the bits are explained for their connection."""
    text = tshark(real.capture, "-O", "acdc", "-Y", "tcp.len > 0 && acdc")
    codepoints = {line.split("codepoint:")[1] for line in text.splitlines() if "codepoint:" in line}
    assert len(codepoints) == 1 and codepoints.pop().endswith("(Not-ECT)")


def test_scapy_reads_the_same(real: Real) -> None:
    names = ("acdc.version", "acdc.ecn_bytes", "acdc.total_bytes")
    expected = [tuple(p[name] for name in names) for p in real.packets]
    got = []
    for packet in rdpcap(str(real.capture)):
        if "TCP" not in packet:
            continue
        found = dissect(packet["TCP"])
        if isinstance(found, Capability):
            got.append((str(found.version), "", ""))
        elif isinstance(found, Feedback):
            got.append(("", str(found.ecn_bytes), str(found.total_bytes)))
    assert got == [row for row in expected if any(row)]
    assert len(got) > 100


# Captures made by hand.


def segment(
    forward: bool,
    flags: int,
    options: Sequence[Option] = (),
    size: int = 0,
    reserved: Reserved = Reserved(),  # noqa: B008
    number: int = 0,
) -> Packet:
    ports = (1000 + number, 80) if forward else (80, 1000 + number)
    packet = tcp(*ports, flags, seq=100, ack=100, options=options, reserved=reserved.field << 1)
    return network(V4, forward, ecn=2) / packet / bytes(size)


def handshake(capability: Capability, answer: Capability, number: int = 0) -> list[Packet]:
    return [
        segment(True, SYN, [option(capability)], number=number),
        segment(False, SYN | ACK, [option(answer)], number=number),
    ]


def report(ecn: int, total: int, number: int = 0, **more: Any) -> Packet:
    return segment(False, ACK, [option(Feedback(ecn_bytes=ecn, total_bytes=total))], number=number)


def data(size: int, number: int = 0, ecn: int = 0) -> Packet:
    return segment(True, ACK | PSH, size=size, number=number, reserved=Reserved(ecn=ecn))


@pytest.fixture
def capture(tmp_path: File) -> File:
    return tmp_path / "made.pcap"


NOTES = ["more_marked", "backwards", "more_than_sent", "stale", "feedback_on_syn", "unknown_length"]


def notes(capture: File, *frames: int) -> list[set[str]]:
    names = ("frame.number", *(f"acdc.{name}" for name in NOTES))
    found = {int(number): values for number, *values in fields(capture, *names)}
    return [
        {name for name, value in zip(NOTES, found[frame], strict=True) if value} for frame in frames
    ]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (report(500, 1000), set()),
        (report(700, 2000), set()),
        (report(500, 2001), {"more_than_sent"}),
        (report(1600, 2000), {"more_marked"}),
        (report(499, 1500), {"backwards"}),
        (report(500, 999), {"stale"}),
    ],
    ids=["same", "grows", "unsent", "marked", "backwards", "stale"],
)
def test_what_is_impossible_is_said(capture: File, last: Packet, expected: set[str]) -> None:
    """... and what is possible is not."""
    packets = [*handshake(NOT_ECT, NOT_ECT), data(1000), report(500, 1000), data(1000), last]
    wrpcap(str(capture), packets)
    assert notes(capture, 4, len(packets)) == [set(), expected]


def test_counts_that_wrap_are_not_impossible(capture: File) -> None:
    """A capture without the handshake: counts begin at its first report."""
    top = (1 << 32) - 100
    wrpcap(str(capture), [report(top - 50, top), data(1000), report(top - 20, 300)])
    got = fields(
        capture, "acdc.ecn_bytes.delta", "acdc.total_bytes.delta", "acdc.total_bytes.relative"
    )
    assert got == [("0", "0", "0"), ("", "", ""), ("30", "400", "400")]
    assert notes(capture, 3) == [set()]


def test_connections_and_directions_are_apart(capture: File) -> None:
    packets = []
    for number in (0, 1):
        packets += handshake(NOT_ECT, NOT_ECT, number)
    packets += [data(1000), data(3000, 1), report(10, 1000), report(20, 3000, 1)]
    packets += [segment(False, ACK, size=500)]
    packets += [segment(True, ACK, [option(Feedback(ecn_bytes=5, total_bytes=500))])]
    wrpcap(str(capture), packets)
    got = fields(capture, "acdc.ecn_bytes.delta", "acdc.sent_bytes", where="acdc.total_bytes")
    assert got == [("10", "1000"), ("20", "3000"), ("5", "500")]


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (NOT_ECT, ["left as it is", "ECT(1)", "ECT(0)", "Not-ECT"]),
        (Capability(), ["Not-ECT", "ECT(1)", "ECT(0)", "left as it is"]),
    ],
    ids=["both have NOT_ECT", "one has"],
)
def test_the_flag_says_how_not_ect_is_written(
    capture: File, answer: Capability, names: list[str]
) -> None:
    wrpcap(str(capture), [*handshake(NOT_ECT, answer), *(data(10, ecn=ecn) for ecn in range(4))])
    text = tshark(capture, "-O", "acdc", "-Y", "tcp.len > 0")
    got = [line.split("codepoint: ")[1] for line in text.splitlines() if "codepoint:" in line]
    assert got == [f"{ecn} ({name})" for ecn, name in enumerate(names)]
    flags = fields(capture, "acdc.flags", "acdc.flags.not_ect", where="acdc.flags")
    assert flags == [("0x01", "1"), ("0x01", "1") if answer is NOT_ECT else ("0x00", "0")]


def test_a_fack_and_the_column_of_information(capture: File) -> None:
    fack = option(Feedback(ecn_bytes=1, total_bytes=2))
    wrpcap(
        str(capture),
        [report(3, 4), segment(False, ACK, [fack], reserved=Reserved(True, 2))],
    )
    first, second = tshark(capture).splitlines()
    assert "[AC/DC PACK ECN_bytes=3 total_bytes=4]" in first
    assert "[AC/DC FACK ECN_bytes=1 total_bytes=2]" in second
    assert fields(capture, "acdc.reserved", "acdc.reserved.fack") == [("0x00", "0"), ("0x0c", "1")]


def test_misplaced_and_unknown_options(capture: File) -> None:
    feedback = option(Feedback())
    later = (253, b"\xac\xdc" + bytes(20))
    wrpcap(
        str(capture),
        [segment(True, RST, [feedback]), segment(True, ACK, [later])],
    )
    assert notes(capture, 1, 2) == [{"feedback_on_syn"}, {"unknown_length"}]


def test_question_and_state(capture: File) -> None:
    """As in docs/wire-format.rst."""
    state = State(bytes.fromhex("acdc037705a86843000000000000000017700000000000000bb8"))
    asks = Capability(flags="NOT_ECT+RESUME", zero=0x6843)
    wrpcap(str(capture), [segment(True, ACK, [option(asks)]), segment(False, ACK, [option(state)])])
    assert fields(capture, "acdc.flags.resume", "acdc.number")[0] == ("1", "0x6843")
    names = ("own_wscale", "peer_wscale", "mss", "reported_total_bytes")
    told = fields(capture, *(f"acdc.state.{name}" for name in names), "acdc.total_bytes")
    assert told[1] == ("7", "7", "1448", "6000", "3000")
    assert notes(capture, 2) == [set()]


def test_scales_that_guests_are_told(capture: File) -> None:
    offer = Capability(flags="NOT_ECT+RESUME+SCALES", zero=0xA900)
    state = State(flags="SCALES+TOLD", own_wscale=13, peer_wscale=12, beyond=0xA900)
    packets = [segment(False, SYN | ACK, [option(offer)]), segment(False, ACK, [option(state)])]
    wrpcap(str(capture), packets)
    told = fields(capture, "acdc.told.own_wscale", "acdc.told.peer_wscale", "acdc.number")
    assert told == [("10", "9", ""), ("10", "9", "0x0000")]
    assert notes(capture, 1, 2) == [set(), set()]


def test_report(capture: File) -> None:
    """As in docs/wire-format.rst."""
    report = Report(bytes.fromhex("acdc00000b500001c52053000019d2a5f00e"))
    offer = Capability(flags="NOT_ECT+RESUME+TIMING")
    # Of another connection: the capture does not have what is reported.
    syn = segment(True, SYN, [option(offer)], number=1)
    wrpcap(str(capture), [syn, segment(False, ACK, [option(report)])])
    assert fields(capture, "acdc.flags.timing")[0] == ("1",)
    names = ("ecn_bytes", "total_bytes", "report.mark", "report.ago_us", "report.clock_us")
    told = fields(capture, *(f"acdc.{name}" for name in names))
    assert told[1] == ("2896", "116000", "0x53", "25", str(0xD2A5F00E))
    assert (report.mark, report.ago_us) == (0x53, 25)
    assert notes(capture, 2) == [set()]


def test_other_options_are_left_to_their_dissectors(capture: File) -> None:
    """TCP Fast Open's, another experiment's, ones cut short."""
    options = [
        (253, b"\xf9\x89" + bytes(8)),
        (254, b"\xf9\x89" + bytes(8)),
        (253, b"\x12\x34" + bytes(8)),
        (253, b"\xac"),
        (253, b""),
    ]
    wrpcap(str(capture), [segment(True, SYN, [one], number=i) for i, one in enumerate(options)])
    assert fields(capture, "frame.number") == []
    assert tshark(capture, "-V") == tshark(capture, "-V", script=False)


def test_the_exid_is_a_preference(capture: File) -> None:
    wrpcap(
        str(capture), [segment(True, SYN, [option(Capability(exid=e))]) for e in (0xACDC, 0x1234)]
    )
    assert fields(capture, "frame.number") == [("1",)]
    preference = ("-o", "acdc.exid:4660", "-T", "fields", "-e", "frame.number")
    assert tshark(capture, *preference, "-Y", "acdc") == "2\n"


def test_headers_inside_others(capture: File) -> None:
    """A VLAN, IPv6, VXLAN; quoted by ICMP it is of no connection; cut by the snap length."""
    inner = segment(True, SYN, [option(NOT_ECT)])
    both = inner["IP"]
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    outer = link / IP(src="192.0.2.1", dst="192.0.2.2")
    packets = [
        link / Dot1Q(vlan=5) / both,
        link / IPv6(src="fd00::1", dst="fd00::2") / inner["TCP"],
        outer / UDP(sport=50000, dport=4789) / VXLAN(vni=7) / inner,
        outer / ICMP(type=3, code=4) / both,
    ]
    wrpcap(str(capture), packets)
    assert fields(capture, "acdc.flags") == [("0x01",)] * 4
    # The last bytes of the option are missing.
    wrpcap(str(capture), [bytes(inner)[:-2], bytes(inner)[:40]], linktype=1)
    assert fields(capture, "frame.number") == []


def test_the_layer_writes_what_the_documentation_shows() -> None:
    assert option(Capability())[1].hex() == "acdc01000000"
    assert option(NOT_ECT)[1].hex() == "acdc01010000"
    feedback = Feedback(ecn_bytes=2896, total_bytes=116000)
    assert option(feedback)[1].hex() == "acdc00000b500001c520"
    assert dissect(segment(True, ACK, [option(feedback)])["TCP"]) == feedback
    assert dissect(segment(True, ACK, [(253, b"\x12\x34")])["TCP"]) is None
    fack = segment(False, ACK, reserved=Reserved(True, 2))
    assert Reserved.of(fack["TCP"]) == (True, 2)
    # Data offset 5, F, ECN 10.
    assert bytes(fack["TCP"])[12] == 0x5C


def test_the_examples_of_the_layers() -> None:
    """Which the manual has, too."""
    lines = (acdc_scapy.__doc__ or "").splitlines(keepends=True)
    examples = textwrap.dedent("".join(line for line in lines if line.startswith("    ")))
    assert examples.count("\n") == 4
    exec(examples, vars(acdc_scapy) | {"packet": IP() / TCP()})
