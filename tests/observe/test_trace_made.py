# SPDX-License-Identifier: Apache-2.0

"""acdc-trace on captures made by hand; its options and errors; what it takes."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path as File
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from acdc_scapy import Capability, Feedback, Reserved, option
from acdc_testlib.programs import ROOT
from acdc_testlib.tcp import ACK, SYN, Option, tcp
from observe.conftest import Path
from observe.tracing import TRACE, Json, causes, direction, objects, run

# Captures made by hand.


def conversation() -> list[Packet]:
    """IP packets, a millisecond apart: 10 segments of 1000 bytes from 10.0.0.1, each of which is
    acknowledged; 3 of them were marked; then the last one is sent again."""

    def one(
        forward: bool, flags: int, seq: int, ack: int, options: list[Option], **more: Any
    ) -> Packet:
        ports = (40000, 80) if forward else (80, 40000)
        segment = tcp(*ports, flags, seq=seq, ack=ack, options=options, **more)
        return (THERE if forward else BACK) / segment

    syn: list[Option] = [option(Capability(flags="NOT_ECT")), ("MSS", 1460), ("WScale", 7)]
    packets = [one(True, SYN, 99, 0, syn), one(False, SYN | ACK, 499, 100, syn)]
    packets.append(one(True, ACK, 100, 500, []))
    for i in range(10):
        packets.append(one(True, ACK, 100 + 1000 * i, 500, []) / Raw(bytes(1000)))
        marks = option(Feedback(ecn_bytes=1000 * min(i, 3), total_bytes=1000 * (i + 1)))
        fack = Reserved(fack=i == 5).field << 1
        packets.append(one(False, ACK, 500, 1100 + 1000 * i, [marks], reserved=fack))
    packets.append(packets[-2])
    return packets


THERE, BACK = IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.2", dst="10.0.0.1")
PLAIN_SYN: list[Option] = [("MSS", 1460), ("WScale", 7)]


def handshake(window: int) -> list[Packet]:
    return [
        ETHERNET / THERE / tcp(40000, 80, SYN, 99, 0, options=PLAIN_SYN),
        ETHERNET / BACK / tcp(80, 40000, SYN | ACK, 499, 100, window=window, options=PLAIN_SYN),
    ]


def data(seq: int, size: int = 1460) -> Packet:
    return ETHERNET / THERE / tcp(40000, 80, ACK, seq, 500) / Raw(bytes(size))


def ack(number: int, window: int) -> Packet:
    return ETHERNET / BACK / tcp(80, 40000, ACK, 500, number, window=-(-window // 128))


def window_limited() -> list[Packet]:
    """Twelve segments fill the window, then three are acknowledged at a time."""
    packets = handshake(12 * 1460)
    sent = acked = 100
    for n in [12, *[3] * 10]:
        for _ in range(n):
            packets.append(data(sent))
            sent += 1460
        for _ in range(3):
            acked += 1460
            packets.append(ack(acked, 12 * 1460))
    return packets


def test_a_sender_that_waits_until_a_third_of_the_window_is_free(tmp_path: File) -> None:
    """As Linux does to send more at a time: the window limits it then, too."""
    got = direction(objects(write(tmp_path / "made.pcap", window_limited())), 80)
    assert causes(got)[0] == "window"
    assert got["limits"]["window"] > 0.8 * sum(got["limits"].values())


@pytest.mark.parametrize(("behind", "cause"), [(1.2, "window"), (1.5, "near-receiver")])
def test_where_it_was_captured(tmp_path: File, behind: float, cause: str) -> None:
    """The receiver answers within about a millisecond, the sender within 'behind'."""
    packets = window_limited()
    times = [0, 1, *(1 + behind + 0.06 * i for i in range(len(packets)))]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert causes(got)[0] == cause


@pytest.mark.parametrize(("behind", "cause"), [(4, "application"), (7, "near-receiver")])
def test_where_it_was_captured_by_the_handshake_alone(
    tmp_path: File, behind: float, cause: str
) -> None:
    """The receiver answers within 1 to 9 ms; of the sender's side there is one sample."""
    packets = [*handshake(65535), ETHERNET / THERE / tcp(40000, 80, ACK, 100, 500)]
    times = [0, 1, 1 + behind]
    for n in range(10):
        packets += [data(100 + 1000 * n, 1000), ack(1100 + 1000 * n, 65535)]
        times += [20 * (n + 1), 20 * (n + 1) + 1 + 8 * (n % 2)]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert causes(got)[0] == cause


@pytest.mark.parametrize("lacks", [1, 2])
def test_without_the_handshake_the_scale_of_windows_is_not_known(
    tmp_path: File, lacks: int
) -> None:
    made = write(tmp_path / "made.pcap", window_limited()[lacks:])
    assert causes(direction(objects(made), 80))[0] == "no-handshake"
    assert causes(direction(objects("--scale", "7", made), 80))[0] == "window"


@pytest.mark.parametrize("before", [0, 0.05])
@pytest.mark.parametrize("little", [0, 896])
def test_a_receiver_that_reads_slowly(tmp_path: File, little: int, before: float) -> None:
    """Each time it has room for two segments it says so, 20 ms after less than one.  The wire has
    that a little before the guest's port, or by a coarse clock at the same time."""
    packets, times, seq, at = handshake(2 * 1460), [1.0, 1.1], 100, 2.0
    for _ in range(10):
        packets += [data(seq), data(seq + 1460)]
        seq += 2 * 1460
        packets += [ack(seq, little), ack(seq, 2 * 1460)]
        times += [at, at + 0.01, at + 1, at + 21]
        at += 22
    guest = write(tmp_path / "guest.pcap", packets, times=times)
    early = [t if Raw in packet else t - before for packet, t in zip(packets, times, strict=True)]
    wire = write(tmp_path / "wire.pcap", packets, times=early)
    got = direction(objects("--guest", guest, "--wire", wire), 80)
    assert causes(got)[0] == "receiver"
    assert got["limits"]["receiver"] > 0.9 * sum(got["limits"].values())


@pytest.mark.parametrize(("lost", "found"), [(1460, True), (900, False)])
def test_a_path_that_takes_smaller_packets_only(tmp_path: File, lost: int, found: bool) -> None:
    """What is lost again and again is larger than all that was acknowledged."""
    packets = [*handshake(65535), data(100, 1000), ack(1100, 65535)]
    packets += [data(1100, lost)] * 3
    times = [0, 1, 2, 3, 4, 304, 904]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert got["timeouts"] == 2
    words = [note["words"] for note in got["verdict"] if note["cause"] == "size"]
    assert bool(words) == found
    assert not found or re.match(r"no segment larger than 1000 bytes .* 1460:", words[0])


@pytest.mark.parametrize("before", [0, 0.02])
def test_times_that_are_out_of_order(tmp_path: File, before: float) -> None:
    """As of a NIC with several queues: in the file a SYN, and a segment, stand behind one that was
    sent later."""
    syn, synack = handshake(65535)
    packets = [syn, syn, synack, data(100), ack(1560, 65535)]
    packets += [data(3020), data(1560), ack(4480, 65535)]
    times = [before, 0, 1, 2, 3, 4 + before, 4, 5.5]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["reordered"], got["retransmitted"]) == (1, 0)
    assert sum(got["limits"].values()) == pytest.approx(got["duration"], abs=1e-6)
    words = [note["words"] for note in got["verdict"] if note["cause"] == "syn-again"]
    assert words == ["the SYN was sent 2 times, the last after 0 ms"]


# Numbers come round: so much at a time may be missing in a capture, and so often.
GAP, GAPS = 15 << 20, 150


def test_a_window_that_is_not_full_after_2_gib(tmp_path: File) -> None:
    window, seq = 12 * 1460, 1560
    packets, times = [*handshake(window), data(100), ack(seq, window)], [0, 1, 1.01, 2.0]
    for _ in range(GAPS):
        seq += GAP
        packets.append(ack(seq, window))
    for _ in range(10):
        packets += [data(seq + 1460 * i) for i in range(9)]
        seq += 9 * 1460
        packets.append(ack(seq, window))
    times += [2 + 0.001 * i for i in range(GAPS)]
    times += [3 + 2 * (i // 10) + (i % 10 == 9) for i in range(100)]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert causes(got)[0] == "sender"


def test_acks_that_come_again_after_2_gib(tmp_path: File) -> None:
    packets = [*handshake(65535), data(100), ack(1560, 65535)]
    packets += [data(1560 + GAP * i) for i in range(GAPS)]
    seq = 1560 + GAP * GAPS
    for i in range(10):
        packets += [data(seq + 1460 * i), ack(seq + 1460 * (i + 1), 65535)]
    got = direction(objects(write(tmp_path / "made.pcap", packets)), 80)
    assert got["acked"] > 10 * 1460
    assert got["flight_max"] <= (1 << 30) + GAP


@pytest.mark.parametrize("acks", [False, True])
def test_reports_that_come_again_after_2_gib(tmp_path: File, acks: bool) -> None:
    """Of which the capture has nothing, or ACKs without a report.  What the first report adds is
    not known."""
    syn: list[Option] = [option(Capability(flags="NOT_ECT")), *PLAIN_SYN]

    def report(seq: int, ecn: int) -> Packet:
        marks = option(Feedback(ecn_bytes=ecn, total_bytes=seq - 100))
        return ETHERNET / BACK / tcp(80, 40000, ACK, 500, seq, options=[marks])

    packets = [
        ETHERNET / THERE / tcp(40000, 80, SYN, 99, 0, options=syn),
        ETHERNET / BACK / tcp(80, 40000, SYN | ACK, 499, 100, options=syn),
        *(data(100, 1000), report(1100, 0)),
    ]
    packets += [ack(1100 + GAP * (i + 1), 65535) for i in range(GAPS * acks)]
    for i in range(4):
        seq = 1100 + GAP * GAPS + 1000 * i
        packets += [data(seq, 1000), report(seq + 1000, 5000 + 1000 * i)]
    got = direction(objects(write(tmp_path / "made.pcap", packets)), 80)
    assert got["marked"] == pytest.approx(3 / 4)
    assert ("feedback-lost" in causes(got)) == acks


def write(
    capture: File,
    packets: list[Packet],
    linktype: int = 1,
    snaplen: int = 65535,
    times: Sequence[float] = range(100_000),
) -> File:
    """'times' are in milliseconds."""
    with capture.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, linktype))
        for packet, ms in zip(packets, times, strict=False):
            data = bytes(packet)
            kept = data[:snaplen]
            seconds, ns = divmod(int(ms * 1_000_000), 1_000_000_000)
            out.write(struct.pack("<IIII", 1000 + seconds, ns, len(kept), len(data)) + kept)
    return capture


def tail(
    n: int, again: int, wait: float, late: bool = False, acdc: bool = False
) -> tuple[list[Packet], list[float]]:
    """A round trip of 1 ms; then n segments, of which that one is sent again after a wait.  What is
    late has been acknowledged."""
    syn: list[Option] = [("MSS", 1460), ("WScale", 7)]
    if acdc:
        syn.insert(0, option(Capability(flags="NOT_ECT")))
    data = [
        ETHERNET / THERE / tcp(40000, 80, ACK, 100 + 1000 * i, 500) / Raw(bytes(1000))
        for i in range(n + 1)
    ]
    ack = ETHERNET / BACK / tcp(80, 40000, ACK, 500, 1100 + 1000 * n)
    packets = [
        ETHERNET / THERE / tcp(40000, 80, SYN, 99, 0, options=syn),
        ETHERNET / BACK / tcp(80, 40000, SYN | ACK, 499, 100, options=syn),
        ETHERNET / THERE / tcp(40000, 80, ACK, 100, 500),
        data[0],
        ETHERNET / BACK / tcp(80, 40000, ACK, 500, 1100),
        *data[1:],
        *([ack, data[1 + again]] if late else [data[1 + again], ack]),
    ]
    end = 4 + wait
    ends = [5, end] if late else [end, end + 1]
    return packets, [0, 1, 1.01, 2, 3, *(4 + 0.01 * i for i in range(n)), *ends]


@pytest.mark.parametrize(
    ("n", "again", "wait", "late", "acdc", "probes", "timeouts"),
    [
        (1, 0, 3, False, True, 1, 0),
        (1, 0, 30, False, True, 1, 0),
        (1, 0, 220, False, True, 0, 1),
        (1, 0, 3, False, False, 0, 0),
        (1, 0, 30, False, False, 0, 1),  # A guest with a small minimum.
        (1, 0, 30, True, False, 1, 0),
        (3, 2, 3, False, False, 1, 0),
        (3, 2, 30, False, False, 1, 0),
        (3, 2, 220, False, False, 1, 0),
        (3, 0, 220, False, False, 0, 1),
        (3, 0, 3, False, False, 0, 0),
        (3, 2, 0.5, False, False, 0, 0),
    ],
)
def test_tail_probes(
    tmp_path: File,
    n: int,
    again: int,
    wait: float,
    late: bool,
    acdc: bool,
    probes: int,
    timeouts: int,
) -> None:
    packets, times = tail(n, again, wait, late, acdc)
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["retransmitted"], got["tail_probes"], got["timeouts"]) == (1, probes, timeouts)
    assert ("tail-probes" in causes(got)) == (probes == 1)


@pytest.mark.parametrize(("wait", "timeouts"), [(15, 0), (220, 1)])
def test_what_rack_waits_for(tmp_path: File, wait: float, timeouts: int) -> None:
    """A SACK says that what was sent later has arrived: a wait of some ms is RACK's."""
    packets, times = tail(3, 0, wait)
    sack: list[Option] = [("SAck", (2100, 4100))]
    packets.insert(-2, ETHERNET / BACK / tcp(80, 40000, ACK, 500, 1100, options=sack))
    times.insert(-2, 4.5)
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["retransmitted"], got["timeouts"]) == (1, timeouts)


@pytest.mark.parametrize("held", [0.01, 0.9])
def test_how_long_the_switch_holds_data(tmp_path: File, held: float) -> None:
    packets, times = tail(3, 2, 3)
    del packets[-2], times[-2]
    guest = write(tmp_path / "guest.pcap", packets, times=times)
    late = [at + held if Raw in packet else at for packet, at in zip(packets, times, strict=True)]
    wire = write(tmp_path / "wire.pcap", packets, times=late)
    found = objects("--guest", guest, "--wire", wire)
    got = direction(found, 80)
    assert (got["held"], got["held_max"]) == pytest.approx((1000 * held,) * 2, abs=0.01)
    assert [o["held"] for o in found if o["type"] == "round"] == pytest.approx(
        [1000 * held] * 2, abs=0.01
    )
    assert ("held" in causes(got)) == (held == 0.9)
    assert direction(objects(guest), 80)["held"] is None


def test_tail_probes_of_the_switch_are_on_the_wire_only(tmp_path: File) -> None:
    packets, times = tail(3, 2, 3)
    wire = write(tmp_path / "wire.pcap", packets, times=times)
    del packets[-2], times[-2]
    guest = write(tmp_path / "guest.pcap", packets, times=times)
    got = direction(objects("--guest", guest, "--wire", wire), 80)
    assert got["retransmitted"] == 0
    words = [note["words"] for note in got["verdict"] if note["cause"] == "tail-probes"]
    assert words == ["tail loss probes: 1, of the guest 0"]


def check_conversation(found: list[Json]) -> None:
    got = direction(found, 80)
    assert got["from"] == "10.0.0.1:40000"
    assert (got["sent"], got["acked"], got["segments"]) == (11000, 10000, 11)
    assert (got["retransmitted"], got["facks"], got["flight_max"]) == (1, 1, 1000)
    assert (got["rtt_min"], got["rtt_max"]) == (1000, 1000)
    assert got["marked"] == pytest.approx(0.3)
    assert [o["marked"] for o in found if o["type"] == "round"] == [0, 1, 1, 1] + 6 * [0]
    # Alpha begins at 1, and there is a round with each ACK.
    alpha = 1.0
    for marked in (0, 1, 1, 1, 0, 0, 0, 0, 0, 0):
        alpha += (marked - alpha) / 16
    assert got["alpha"] == pytest.approx(alpha, abs=1e-4)


ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
OUTER = ETHERNET / IP(src="192.0.2.1", dst="192.0.2.2")
GENEVE = bytes.fromhex("0100655800000700") + bytes(4)


def cooked2(kind: int) -> bytes:
    """A header of LINKTYPE_LINUX_SLL2."""
    return struct.pack(">HHIHBB8s", kind, 0, 1, 1, 0, 6, b"")


LINKS: dict[str, tuple[int, Callable[[Packet], Packet]]] = {
    "ethernet": (1, lambda ip: ETHERNET / ip),
    "vlan": (1, lambda ip: ETHERNET / Dot1Q(vlan=5) / ip),
    "qinq": (1, lambda ip: ETHERNET / Dot1Q(vlan=5) / Dot1Q(vlan=6) / ip),
    "vxlan": (1, lambda ip: OUTER / UDP(dport=4789) / VXLAN(vni=7) / ETHERNET / ip),
    "geneve": (1, lambda ip: OUTER / UDP(dport=6081) / Raw(GENEVE) / ETHERNET / ip),
    "vxlan6": (1, lambda ip: ETHERNET / IPv6() / UDP(dport=4789) / VXLAN(vni=7) / ETHERNET / ip),
    "cooked": (113, lambda ip: CookedLinux(proto=0x800) / ip),
    "cooked-vlan": (113, lambda ip: CookedLinux(proto=0x8100) / Dot1Q(vlan=5) / ip),
    "cooked-qinq": (
        113,
        lambda ip: CookedLinux(proto=0x88A8) / Dot1Q(vlan=5) / Dot1Q(vlan=6) / ip,
    ),
    "cooked2": (276, lambda ip: Raw(cooked2(0x800)) / ip),
    "cooked2-vlan": (276, lambda ip: Raw(cooked2(0x8100)) / Dot1Q(vlan=5) / ip),
    "raw": (101, lambda ip: ip),
}


@pytest.mark.parametrize("link", LINKS)
def test_what_tcp_is_inside_of(tmp_path: File, link: str) -> None:
    linktype, wrap = LINKS[link]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()], linktype)
    check_conversation(objects(made))


@pytest.mark.parametrize("apart", [1, 3000])
@pytest.mark.parametrize("seconds", [10, 900])
def test_a_clock_that_is_set_back(tmp_path: File, seconds: int, apart: int) -> None:
    """By more than the connection's age, and than a connection may rest."""
    packets = [ETHERNET / ip for ip in conversation()]
    times = [i * apart - 1000 * seconds * (i >= 12) for i in range(len(packets))]
    made = write(tmp_path / "made.pcap", packets, times=times)
    found = objects(made)
    got = direction(found, 80)
    assert (got["sent"], got["acked"], got["segments"]) == (11000, 10000, 11)
    # How long before the first packet of that clock is not known.
    assert got["duration"] == pytest.approx(0.0195 * apart, abs=0.0006 * apart)
    assert len([o for o in found if o["type"] == "connection"]) == 1


CLOCKS: dict[str, Callable[[int], float]] = {
    "one packet": lambda i: -600_000 * (i == 9),
    "two packets": lambda i: -600_000 * (i in (9, 15)),
    "two packets, one after the other": lambda i: -600_000 * (i == 9) - 900_000 * (i == 10),
    "two interfaces in turn": lambda i: -5000 * (i % 2),
    "two interfaces": lambda i: -5000 * (i // 3 % 2),
    "two interfaces, and a packet": lambda i: -5000 * (i // 3 % 2) - 600_000 * (i == 9),
}


@pytest.mark.parametrize("pause", [0, 3000, 10_000])
@pytest.mark.parametrize("clock", CLOCKS)
def test_packets_of_another_time(tmp_path: File, clock: str, pause: int) -> None:
    """They do not make a connection longer, whoever sends first after a pause."""
    packets = [ETHERNET / ip for ip in conversation()]
    for first in range(12, 18):
        times = [i + pause * (i >= first) + CLOCKS[clock](i) for i in range(len(packets))]
        found = objects(write(tmp_path / "made.pcap", packets, times=times))
        got = direction(found, 80)
        assert (got["sent"], got["acked"], got["segments"]) == (11000, 10000, 11)
        assert got["duration"] == pytest.approx(pause / 1000 + 0.02, abs=0.003)


@pytest.mark.parametrize(("link", "other"), [("ethernet", "vxlan"), ("cooked", "cooked-vlan")])
def test_tenants_with_the_same_addresses_are_apart(tmp_path: File, link: str, other: str) -> None:
    linktype, wrap = LINKS[link]
    packets = [wrap(ip) for ip in conversation()]
    tagged = [LINKS[other][1](ip) for ip in conversation()]
    both = [packet for pair in zip(packets, tagged, strict=True) for packet in pair]
    found = objects(write(tmp_path / "made.pcap", both, linktype))
    connections = [o for o in found if o["type"] == "connection"]
    assert [o["acked"] for o in connections] == [10000, 10000]
    assert len({o["network"] for o in connections}) == 2


def test_a_snap_length_of_96(tmp_path: File) -> None:
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()], snaplen=96)
    check_conversation(objects(made))
    # Of the tunnel's that has not all headers, which is said.
    _, wrap = LINKS["vxlan"]
    done = run(write(tmp_path / "cut.pcap", [wrap(ip) for ip in conversation()], snaplen=96))
    assert "snap length" in done.stderr


@pytest.mark.parametrize("kind", ["pcap", "nsecpcap", "pcapng", "stdin"])
def test_formats_of_files(tmp_path: File, kind: str) -> None:
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])
    if kind == "stdin":
        with made.open() as stream:
            done = subprocess.run(
                [TRACE, "--json", "-"], stdin=stream, capture_output=True, text=True, check=True
            )
        check_conversation([json.loads(line) for line in done.stdout.splitlines()])
        return
    other = tmp_path / f"made.{kind}"
    subprocess.run(["editcap", "-F", kind, made, other], check=True)
    check_conversation(objects(other))


def test_csv_and_tables_say_the_same(tmp_path: File) -> None:
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])
    found = objects(made)
    rounds = [o for o in found if o["type"] == "round"]
    rows = list(csv.DictReader(run("--csv", made).stdout.splitlines()))
    assert len(rows) == len(rounds) == 10
    for row, one in zip(rows, rounds, strict=True):
        assert row.keys() == one.keys() - {"type"}
        assert row["told"] == "" and one["told"] is None
        for name in ("rtt", "marked", "alpha", "offered", "goodput", "flight", "time"):
            assert float(row[name]) == pytest.approx(one[name])
    (row,) = csv.DictReader(run("--csv", "--summary", made).stdout.splitlines())
    assert row["cause"].split() == causes(direction(found, 80))
    table = run(made).stdout
    assert len([line for line in table.splitlines() if " 1>" in line]) == 10
    for note in direction(found, 80)["verdict"]:
        assert note["words"] in table
    assert run("--summary", made).stdout == table[table.rindex("# 1:") :]


def test_the_law_s_parameters(tmp_path: File) -> None:
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])

    def rounds(*words: str) -> list[Json]:
        return [o for o in objects(*words, made) if o["type"] == "round"]

    assert rounds()[0]["law_window"] == 10 * 1460
    assert rounds("--initial-window=4")[0]["law_window"] == 4 * 1460
    assert rounds("--max-window=3000")[0]["law_window"] == 3000
    assert rounds("--gain=0.5")[0]["alpha"] == 0.5
    windows = [sum(o["law_window"] for o in rounds(f"--beta={beta}")) for beta in (0, 1)]
    assert windows[0] < windows[1]


@pytest.mark.parametrize("exid", [0xABCD, 0])
def test_another_experiment_identifier(tmp_path: File, exid: int) -> None:
    _, wrap = LINKS["ethernet"]
    there = exid.to_bytes(2, "big")
    packets = [Ether(bytes(wrap(ip)).replace(b"\xac\xdc", there)) for ip in conversation()]
    made = write(tmp_path / "made.pcap", packets)
    assert direction(objects(made), 80)["marked"] is None
    check_conversation(objects(f"--exid={exid:#x}", made))


def test_a_connection_is_over_after_a_pause(tmp_path: File) -> None:
    packets = window_limited()
    half = len(packets) // 2
    times = [i + 100_000 * (i >= half) for i in range(len(packets))]
    made = write(tmp_path / "made.pcap", packets, times=times)
    for idle, n in ((150, 1), (50, 2)):
        found = objects("--summary", f"--idle={idle}", made)
        assert len([o for o in found if o["type"] == "connection"]) == n


def test_a_filter(tmp_path: File) -> None:
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])
    assert run("--summary", "--filter", "port 81", made).stdout == ""
    check_conversation(objects("--filter", "port 80", made))


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "no capture is named"),
        (["a", "b"], 2, "b: only one capture"),
        (["--guest", "a", "--guest", "b"], 2, "b: one capture, or one of each side"),
        (["--gain", "2", "a"], 2, "--gain 2: want a number from 0 to 1"),
        (["--idle", "x", "a"], 2, "--idle x: want a number from 1"),
        (["--scale", "15", "a"], 2, "--scale 15: want a number from 0 to 14"),
        (["--exid", "0x10000", "a"], 2, "--exid 0x10000"),
        (["--nonsense"], 2, "nonsense"),
        (["-i", "--guest", "a", "--wire", "b"], 2, "-i: only of one interface"),
        (["/nonexistent"], 1, "/nonexistent: No such file"),
        ([__file__], 1, "unknown file format"),
        (["-i", "nonexistent0"], 1, "nonexistent0: "),
        (["-i", "-f", "a b", "lo"], 2, "filter 'a b': "),
    ],
)
def test_errors_name_what_is_wrong(words: list[str], status: int, message: str) -> None:
    assert message in run(*words, status=status).stderr


def test_what_is_left_of_a_capture_is_told(tmp_path: File) -> None:
    """It ends within a packet."""
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])
    bad = "filter 'nonsense of'"
    assert bad in run("--filter", "nonsense of", made, status=2).stderr
    made.write_bytes(made.read_bytes()[:-10])
    done = run("--json", made, status=1)
    assert f"{made}: truncated" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert direction(found, 80)["acked"] == 10000


def plot(*words: str | File, data: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    program = ROOT / "utilities/acdc-trace-plot"
    return subprocess.run(
        [program, *words], input=data, env=os.environ | env, capture_output=True,
        text=True, errors="surrogateescape",
    )  # fmt: skip


def test_figures(tmp_path: File) -> None:
    _, wrap = LINKS["ethernet"]
    made = run("--json", write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])).stdout
    for suffix, magic in {"png": b"\x89PNG", "svg": b"<?xml"}.items():
        figure = tmp_path / f"figure.{suffix}"
        done = plot(figure, data=made)
        assert done.returncode == 0, done.stderr
        assert figure.read_bytes().startswith(magic)
    for data, words, message in (
        ("", [], "there are no round trips"),
        (made, ["--connection", "2"], "no round trips of connection 2"),
        ("nonsense\n", [], "standard input, line 1: this is not of acdc-trace --json"),
        ("\udcff\n", [], "standard input, line 1: this is not of acdc-trace --json"),
        (made, [tmp_path / "nonexistent"], "nonexistent: "),
    ):
        done = plot(figure, *words, data=data)
        assert done.returncode == 1 and message in done.stderr
    assert "Traceback" not in plot(tmp_path / "figure.nonsense", data=made).stderr
    rested = re.sub('"flight":[0-9]+', '"flight":0', made)
    assert rested != made and not plot(figure, data=rested).stderr
    (tmp_path / "matplotlib.py").write_text("raise ImportError\n")
    done = plot(figure, data=made, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "python3-matplotlib" in done.stderr


def test_help_and_version() -> None:
    assert "usage: acdc-trace" in run("--help").stdout
    assert run("--version").stdout.startswith("acdc-trace ")


def test_an_interface(path: Path) -> None:
    process = path.ovs.ns.popen(
        *(TRACE, "--live", "--json", "--filter", "port 5120", "up0"), stdout=subprocess.PIPE
    )
    # It says nothing before there is something.
    time.sleep(1)
    path.transfer(5120, 100_000)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    found = [json.loads(line) for line in output.splitlines()]
    assert process.returncode == 0
    assert direction(found, 5120)["acked"] == 100_000


# What it takes.


def many_packets(capture: File, connections: int, each: int = 48) -> int:
    """Connections one after the other, with SYNs, data, and FINs, a microsecond a packet.
    Returns how many packets these are."""
    ethernet = bytes(ETHERNET)[:12] + b"\x08\0"
    record, ip = struct.Struct("<IIII"), struct.Struct(">BBHHHBBHII")
    header = struct.Struct(">HHIIBBHHH")
    a, b, now = 0x0A000001, 0x0A000002, 0
    steps = [(True, 2, 0, 0, 0), (False, 0x12, 0, 1, 0)]
    for i in range(each // 2):
        steps += [(True, 0x10, 1 + 1000 * i, 1, 1000), (False, 0x10, 1, 1001 + 1000 * i, 0)]
    end = 1 + 1000 * (each // 2)
    steps += [(True, 0x11, end, 1, 0), (False, 0x11, 1, end + 1, 0), (True, 0x10, end + 1, 2, 0)]
    with capture.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(connections):
            port, far = 1024 + number % 60000, b + number // 60000
            parts: list[bytes] = []
            for forward, flags, seq, ack, size in steps:
                ends = (a, far) if forward else (far, a)
                ports = (port, 80) if forward else (80, port)
                parts += (
                    record.pack(1000 + now // 1000000, now % 1000000, 54, 54 + size), ethernet,
                    ip.pack(0x45, 0, 40 + size, 0, 0, 64, 6, 0, *ends),
                    header.pack(*ports, seq, ack, 0x50, flags, 500, 0, 0),
                )  # fmt: skip
                now += 1
            out.write(b"".join(parts))
    return connections * len(steps)


def memory_and_time(capture: File) -> tuple[int, float]:
    """KiB, and seconds of the processor."""
    out = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(
        TRACE, [str(TRACE), "--summary", str(capture)], os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)],
    )  # fmt: skip
    os.close(out)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0 and isinstance(usage, resource.struct_rusage)
    return usage.ru_maxrss, usage.ru_utime + usage.ru_stime


def test_a_terminal_sees_progress(tmp_path: File) -> None:
    """Where what is found goes elsewhere."""
    capture = tmp_path / "made.pcap"
    many_packets(capture, 3000)
    master, slave = os.openpty()
    with open(master, "rb", buffering=0) as terminal, open(slave, "wb") as stderr:
        subprocess.run(
            [TRACE, "--summary", capture], stdout=subprocess.DEVNULL, stderr=stderr, check=True
        )
        shown = terminal.read(10_000).decode()
    percents = [int(word) for word in re.findall(r"(\d+) %", shown)]
    assert percents == sorted(percents) and len(percents) == 2
    assert "131072 packets" in shown


def test_memory_is_that_of_open_connections(tmp_path: File) -> None:
    """A tenth of the connections needs no less: those that ended are forgotten."""
    packets, memory, seconds = 0, [], 0.0
    for connections in (2_000, 20_000):
        capture = tmp_path / f"{connections}.pcap"
        packets = many_packets(capture, connections)
        used, seconds = memory_and_time(capture)
        memory.append(used)
    print(f"{packets} packets in {seconds:.2f} s of CPU: {packets / seconds / 1e6:.2f} million/s")
    assert packets > 1_000_000
    assert memory[1] < memory[0] * 1.2, memory
