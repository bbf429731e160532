# SPDX-License-Identifier: Apache-2.0

"""acdc-trace on captures that were not taken where they should be, made by hand."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path as File
from subprocess import PIPE

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, Jumbo
from scapy.layers.l2 import Dot1Q
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from acdc_scapy import Feedback, option
from acdc_testlib.programs import ROOT
from acdc_testlib.tcp import ACK, Option, tcp
from observe.test_trace_made import BACK, ETHERNET, THERE, window_limited, write
from observe.tracing import TRACE, causes, direction, objects, run


@pytest.mark.parametrize("lacks", [0, 1])
def test_one_direction_only(tmp_path: File, lacks: int) -> None:
    """As with a bond, where ACKs come by the other link; with the SYN, and without."""
    packets = [p for p in window_limited()[lacks:] if p[IP].src == "10.0.0.1"]
    got = direction(objects(write(tmp_path / "made.pcap", packets)), 80)
    assert causes(got) == ["one-way"]


@pytest.mark.parametrize("linktype", [1, 113, 276])
def test_a_capture_of_all_interfaces(tmp_path: File, linktype: int) -> None:
    """As tcpdump -i any writes it, of both versions."""
    said = run(write(tmp_path / "made.pcap", [], linktype)).stderr
    assert ("-i any" in said) == (linktype != 1)


def test_a_capture_without_tcp(tmp_path: File) -> None:
    packets = [ETHERNET / THERE / UDP()] * 2
    done = run("--summary", write(tmp_path / "made.pcap", packets))
    assert (done.stdout, done.stderr) == ("", "acdc-trace: no TCP in 2 packets\n")


def test_the_snap_lengths_of_the_manual(tmp_path: File) -> None:
    """Of IPv6 in two tags, with as many options as TCP can have, and that in VXLAN."""
    page = (ROOT / "docs/man/acdc-trace.8.rst").read_text()
    found = re.search(r"(\d+) bytes are enough without a tunnel,\s(\d+) with one", page)
    assert found
    full: list[Option] = [option(Feedback()), ("SAck", (1, 2, 3, 4, 5, 6))]
    tagged = ETHERNET / Dot1Q(vlan=5) / Dot1Q(vlan=6) / IPv6()
    inner = tagged / tcp(40000, 80, ACK, 100, 500, options=full) / Raw(bytes(1000))
    for packet, snaplen in zip(
        (inner, tagged / UDP(dport=4789) / VXLAN() / inner), found.groups(), strict=True
    ):
        made = write(tmp_path / "made.pcap", [packet], snaplen=int(snaplen))
        assert (objects(made)[-1]["tcp"], objects(made)[-1]["cut"]) == (1, 0)


def midstream(ahead: float, behind: float, pause: float) -> tuple[list[Packet], list[float]]:
    """Two segments each 'pause', without the handshake: how long ACKs take to come from the
    receiver, and what they make the sender send.  Timestamps are milliseconds."""
    events = []
    for i in range(200):
        at = 10 + i // 2 * pause + i % 2 * 0.1
        heard = int(max(at - behind, 0))
        stamps = [("Timestamp", (int(at), heard))]
        packet = tcp(40000, 80, ACK, 100 + 1000 * i, 500, options=stamps)
        events.append((at, ETHERNET / THERE / packet / Raw(bytes(1000))))
        at += ahead
        stamps = [("Timestamp", (int(at), 0))]
        packet = tcp(80, 40000, ACK, 500, 1100 + 1000 * i, window=512, options=stamps)
        events.append((at, ETHERNET / BACK / packet))
    events.sort(key=lambda event: event[0])
    return [packet for _, packet in events], [at for at, _ in events]


@pytest.mark.parametrize(
    ("ahead", "behind", "pause", "cause"),
    [
        (0.05, 5, 0.5, "near-receiver"),
        (5, 0.05, 0.5, "no-handshake"),
        (0.05, 0.05, 20, "application"),
    ],
)
def test_without_the_handshake_timestamps_tell_where(
    tmp_path: File, ahead: float, behind: float, pause: float, cause: str
) -> None:
    packets, times = midstream(ahead, behind, pause)
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert causes(got)[0] == cause


JUMBO = [Jumbo(jumboplen=0x20000)]


@pytest.mark.parametrize("size", [14_600, 146_000])
@pytest.mark.parametrize(
    "ip",
    [IP(len=0), IPv6(plen=0), IPv6(plen=0) / IPv6ExtHdrHopByHop(options=JUMBO)],
    ids=["IPv4", "IPv6", "jumbogram"],
)
def test_segments_whose_ip_header_has_no_length(tmp_path: File, ip: Packet, size: int) -> None:
    """As large ones have at a sender: of Windows, and BIG TCP."""
    plain, packets = (IP if IP in ip else IPv6)(), []
    for i in range(10):
        packets.append(ETHERNET / ip / tcp(40000, 80, ACK, 100 + size * i, 500) / Raw(bytes(size)))
        packets.append(ETHERNET / plain / tcp(80, 40000, ACK, 500, 100 + size * (i + 1)))
    found = objects(write(tmp_path / "made.pcap", packets, snaplen=128))
    got = direction(found, 80)
    assert (got["sent"], got["acked"], got["segments"]) == (10 * size, 10 * size, 10)
    assert (found[-1]["tcp"], found[-1]["malformed"]) == (20, 0)


@pytest.mark.parametrize("lacks", [0, 2])
def test_a_capture_whose_time_begins_at_0(tmp_path: File, lacks: int) -> None:
    """As a simulator writes it; with the handshake, and without."""
    packets = window_limited()[lacks:]
    usual = objects(write(tmp_path / "usual.pcap", packets))
    times = [i - 1_000_000 for i in range(len(packets))]
    found = objects(write(tmp_path / "made.pcap", packets, times=times))
    for name in ("time", "duration", "acked", "rtt"):
        expected = [o.get(name) for o in usual]
        assert [o.get(name) for o in found] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert found[-1]["start"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("rest", [0, 10], ids=["after-a-packet", "within-a-packet"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pipe_that_says_nothing_more(tmp_path: File, number: signal.Signals, rest: int) -> None:
    """As of a tcpdump that waits.  What came before is told."""
    made = write(tmp_path / "made.pcap", window_limited()).read_bytes()
    words = [str(TRACE), "--json", "-"]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin
        process.stdin.write(made + made[24 : 24 + rest])
        process.stdin.flush()
        time.sleep(0.5)
        process.send_signal(number)
        try:
            assert process.wait(10) == 0
        finally:
            process.kill()
        assert process.stdout and process.stderr
        found = [json.loads(line) for line in process.stdout]
        assert process.stderr.read() == b""
    assert direction(found, 80)["acked"] > 0
