# SPDX-License-Identifier: Apache-2.0

"""acdc-trace: captures of real TCP through the switch, one for each cause, and the verdict on
each; its figures beside tshark's; captures made by hand; what it takes."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path as File
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from acdc_scapy import Capability, Feedback, Reserved, option
from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.programs import ROOT
from acdc_testlib.tcp import ACK, SYN, Option, tcp
from acdc_testlib.traffic import Stream, Task, connect, listen, open_connection
from observe.conftest import MARKED_PORT, B, Path

TRACE = ROOT / "build/acdc-trace"
MB = 1 << 20
Json = dict[str, Any]


def run(*words: str | File, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(TRACE), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return done


def objects(*words: str | File) -> list[Json]:
    return [json.loads(line) for line in run("--json", *words).stdout.splitlines()]


def direction(found: list[Json], port: int) -> Json:
    """The connection's data to 'port'."""
    for o in found:
        if o["type"] == "connection":
            print(json.dumps(o))
    end = f":{port}"
    mine = [o for o in found if o["type"] == "connection" and o["to"].endswith(end)]
    assert len(mine) == 1
    return mine[0]


def causes(connection: Json) -> list[str]:
    return [note["cause"] for note in connection["verdict"]]


# Captures of the switch, one for each cause.


@dataclass
class Captures:
    guest: File
    """Of the sender's port."""
    wire: File
    """Of the sender's uplink."""
    far: File
    """Of the receiver's uplink."""

    def both(self, *words: str) -> list[Json]:
        return objects(*words, "--guest", self.guest, "--wire", self.wire)


def has_begun(capture: File) -> bool:
    return capture.exists() and capture.stat().st_size >= 24


Capturing = Callable[[str], contextlib.AbstractContextManager[Captures]]


@pytest.fixture
def capturing(path: Path, tmp_path: File) -> Capturing:
    """Captures while the block runs; of the port that it is given."""

    @contextlib.contextmanager
    def capture(expression: str) -> Iterator[Captures]:
        files = Captures(*(tmp_path / f"{name}.pcap" for name in ("guest", "wire", "far")))
        running = []
        for device, file in zip(("vnet0", "up0", "up1"), vars(files).values(), strict=True):
            words = ["tcpdump", "-i", device, "-B", "65536", "-U", "-Z", "root", "-s", "96"]
            words += ["--immediate-mode", "--time-stamp-precision=nano", "-w", str(file)]
            words.append(expression)
            running.append(path.ovs.ns.popen(*words, stderr=subprocess.DEVNULL))
        try:
            for file in vars(files).values():
                wait_for("tcpdump", partial(has_begun, file))
            yield files
            # Both FINs are there, or nothing comes any more.
            sizes: list[int] = []
            for _ in range(3):
                while sizes != (sizes := [file.stat().st_size for file in vars(files).values()]):
                    time.sleep(0.3)
        finally:
            for tcpdump in running:
                tcpdump.terminate()
                tcpdump.wait(10)

    return capture


@contextlib.contextmanager
def filtered(ns: Netns, rule: str) -> Iterator[None]:
    """A rule of the guest's own nftables, on what it receives."""
    ns.run("nft", "add table inet test")
    ns.run("nft", "add chain inet test in { type filter hook prerouting priority -300; }")
    ns.run("nft", f"add rule inet test in {rule}")
    try:
        yield
    finally:
        ns.run("nft", "delete table inet test")


@contextlib.contextmanager
def connection(path: Path, port: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = open_connection(path.a, path.b, B, port)
    with near, far:
        yield near, far


def flow_of(path: Path, near: socket.socket) -> Json:
    """What the sender's switch knows of it."""
    found = path.ovs.acdc("dump-flows", "port=vnet0")
    mine = [f for f in found if f["local_port"] == near.getsockname()[1]]
    assert len(mine) == 1, found
    return mine[0]


@contextlib.contextmanager
def read_by(far: socket.socket, near: socket.socket) -> Iterator[None]:
    """Meanwhile 'far' reads all; at the end 'near' has sent all."""

    def read() -> None:
        while far.recv(1 << 16):
            pass

    reader = Task(read)
    yield
    near.shutdown(socket.SHUT_WR)
    reader.join(60)


CAP = 20000


@dataclass
class TcpInfo:
    """What Linux knows of its own connection (struct tcp_info); times in microseconds."""

    rtt: int
    busy_time: int
    rwnd_limited: int
    total_retrans: int

    @classmethod
    def of(cls, sock: socket.socket) -> TcpInfo:
        data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        (total_retrans,) = struct.unpack_from("=I", data, 100)
        (rtt,) = struct.unpack_from("=I", data, 68)
        busy_time, rwnd_limited = struct.unpack_from("=QQ", data, 168)
        return cls(rtt, busy_time, rwnd_limited, total_retrans)


SO_SNDBUFFORCE = 32


def limited_by_the_window(path: Path, port: int) -> TcpInfo:
    """A transfer that is, whatever else this machine does: a window of CAP bytes takes 16 ms
    through the network, and the guest has all its data in a send buffer and does not pace it,
    as BBR would."""
    rate = ["tbf", "rate", "10mbit", "burst", "3000", "limit", "1mb"]
    path.ovs.ns.run("tc", "qdisc", "add", "dev", "net1", "root", *rate)
    path.ovs.set_tenant("blue", max_window=CAP)
    try:
        near, far = open_connection(path.a, path.b, B, port, "reno")
        with near, far:
            near.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 * MB)
            Stream(near, far, MB).finish()
            return TcpInfo.of(near)
    finally:
        path.ovs.set_tenant("blue", max_window=0)
        path.ovs.ns.run("tc", "qdisc", "del", "dev", "net1", "root")


def test_linux_says_the_same_of_its_window(path: Path, capturing: Capturing) -> None:
    with capturing("port 5112") as captures:
        info = limited_by_the_window(path, 5112)
    print(info)
    got = direction(captures.both(), 5112)
    assert got["rtt_min"] <= info.rtt  # What is before the capture is in Linux's, too.
    assert got["retransmitted"] == info.total_retrans
    share = got["limits"]["switch"] / sum(got["limits"].values())
    assert share == pytest.approx(info.rwnd_limited / info.busy_time, abs=0.2)


def test_the_window_of_the_switch(path: Path, capturing: Capturing) -> None:
    with capturing("port 5101") as captures:
        limited_by_the_window(path, 5101)
    both = captures.both()
    assert causes(direction(both, 5101))[0] == "switch"
    # On the wire the window is what the law makes of the feedback.
    wire = direction(objects("--max-window", str(CAP), captures.wire), 5101)["limits"]
    assert wire["switch"] > 0.5 * sum(wire.values())
    assert wire["receiver"] == wire["window"] == 0
    # One capture of the guest's port does not tell whose window that is.
    assert causes(direction(objects(captures.guest), 5101))[0] == "window"
    rounds = [o for o in both if o["type"] == "round"]
    assert max(o["told"] for o in rounds) < 2 * CAP < max(o["offered"] for o in rounds)


def test_alpha_is_that_of_the_switch(path: Path, capturing: Capturing) -> None:
    with (
        capturing(f"port {MARKED_PORT} or port 5102") as captures,
        connection(path, MARKED_PORT) as (near, far),
    ):
        Stream(near, far, MB).finish()
        flow = flow_of(path, near)
        path.transfer(5102, MB)
    for found in (captures.both(), objects(captures.wire)):
        got = direction(found, MARKED_PORT)
        assert got["marked"] == 1
        assert got["alpha"] == pytest.approx(flow["alpha"], abs=0.02)
        assert got["law_window"] == pytest.approx(flow["wnd"], rel=0.1)
        got = direction(found, 5102)
        # It begins with 1, as after a loss.
        assert got["marked"] == 0 and 0 < got["alpha"] < 1
    assert direction(objects(captures.guest), 5102)["alpha"] is None


def test_the_receiver(path: Path, capturing: Capturing) -> None:
    """It reads slowly, into a small buffer."""
    with capturing("port 5103") as captures, listen(path.b, B, 5103) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        with connect(path.a, B, 5103) as near, listener.accept()[0] as far:
            sender = Task(lambda: near.sendall(bytes(200_000)))
            for _ in range(40):
                time.sleep(0.01)
                far.recv(4000)
            with read_by(far, near):
                sender.join(30)
    for found in (captures.both(), objects(captures.wire)):
        assert causes(direction(found, 5103))[0] == "receiver"


def test_the_application(path: Path, capturing: Capturing) -> None:
    with (
        capturing("port 5104") as captures,
        connection(path, 5104) as (near, far),
        read_by(far, near),
    ):
        for _ in range(30):
            near.sendall(bytes(3000))
            time.sleep(0.02)
    for found in (captures.both(), objects(captures.wire), objects(captures.guest)):
        assert causes(direction(found, 5104))[0] == "application"


def test_delayed_acks(path: Path, capturing: Capturing) -> None:
    """Two writes and a read: Nagle's algorithm holds the second write back until the first
    one's ACK comes, which the receiver delays."""
    with capturing("port 5105") as captures, connection(path, 5105) as (near, far):

        def serve() -> None:
            got = 0
            while data := far.recv(1000):
                got += len(data)
                if got % 200 == 0:
                    far.sendall(b"done")

        server = Task(serve)
        for _ in range(30):
            near.sendall(bytes(100))
            near.sendall(bytes(100))
            assert near.recv(4)
        near.shutdown(socket.SHUT_WR)
        server.join(10)
    for found in (captures.both(), objects(captures.wire), objects(captures.far)):
        got = direction(found, 5105)
        assert causes(got)[0] == "delayed-ack" and "delayed-acks" in causes(got)
        assert got["delayed_acks"] > 10
        assert got["retransmitted"] == 0


def test_timeouts(path: Path, capturing: Capturing) -> None:
    """Twice nothing gets through for a while."""
    with (
        capturing("port 5106") as captures,
        connection(path, 5106) as (near, far),
        read_by(far, near),
    ):
        for _ in range(2):
            near.sendall(bytes(100_000))
            time.sleep(0.1)
            with filtered(path.b, "tcp dport 5106 drop"):
                near.sendall(bytes(10_000))
                time.sleep(0.3)
            time.sleep(0.5)
    for found in (captures.both(), objects(captures.wire), objects(captures.guest)):
        got = direction(found, 5106)
        assert got["timeouts"] >= 2 and "timeouts" in causes(got)
        assert got["limits"]["timeout"] > 0.3


def test_loss(path: Path, capturing: Capturing) -> None:
    """One packet of ten does not get to the receiver."""
    path.ovs.set_tenant("blue", mode="observe")
    try:
        with capturing("port 5107") as captures, connection(path, 5107) as (near, far):
            rule = "tcp dport 5107 numgen inc mod 10 == 0 drop"
            with filtered(path.b, rule):
                Stream(near, far, MB).finish()
            info = TcpInfo.of(near)
    finally:
        path.ovs.set_tenant("blue", mode="enforce")
    got = direction(captures.both(), 5107)
    assert causes(got)[0] in ("loss", "timeout")
    assert got["retransmitted"] == info.total_retrans > 50
    # What the switch itself lost is not sent again on the wire.
    got = direction(objects(captures.wire), 5107)
    assert 0 < got["retransmitted"] <= info.total_retrans


def test_feedback_that_is_lost(path: Path, capturing: Capturing) -> None:
    """The receiver's switch does not know its guest any more."""
    with capturing("port 5108") as captures, connection(path, 5108) as (near, far):
        stream = Stream(near, far)
        time.sleep(0.2)
        path.ovs.bind(None, "vnet1")
        try:
            wait_for("fallback", lambda: not flow_of(path, near)["capable"])
            time.sleep(0.5)
        finally:
            path.ovs.bind("blue", "vnet1")
        stream.stop()
        stream.finish()
    for found in (captures.both(), objects(captures.wire)):
        assert "feedback-lost" in causes(direction(found, 5108))


def test_marks_that_nobody_returns(path: Path, capturing: Capturing) -> None:
    """Likewise of one whose data is marked, seen at the receiver."""
    path.ovs.bind(None, "vnet1")
    try:
        with capturing(f"port {MARKED_PORT}") as captures:
            path.transfer(MARKED_PORT, MB)
    finally:
        path.ovs.bind("blue", "vnet1")
    got = direction(objects(captures.far), MARKED_PORT)
    assert "marks-lost" in causes(got) and got["ce"] == 1
    assert "no-peer" in causes(got)


def test_a_window_that_is_ignored(path: Path, capturing: Capturing) -> None:
    """The guest believes another one, and the switch drops what is beyond its own."""
    path.ovs.set_tenant("blue", police=True)
    try:
        with capturing(f"port {MARKED_PORT}") as captures:
            with filtered(path.a, f"tcp sport {MARKED_PORT} tcp window set 65535"):
                path.transfer(MARKED_PORT, 256 << 10)
    finally:
        path.ovs.set_tenant("blue", police=False)
    for found in (captures.both(), objects(captures.guest)):
        got = direction(found, MARKED_PORT)
        assert "ignored-window" in causes(got) and got["beyond_window"] > 10_000


# Beside tshark.


def tshark(capture: File, where: str, *names: str) -> list[list[str]]:
    wanted = [word for name in ("frame.time_relative", *names) for word in ("-e", name)]
    words = ["tshark", "-n", "-r", str(capture), "-Y", where, "-T", "fields", *wanted]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_figures_are_those_of_tshark(path: Path, capturing: Capturing, lossy: bool) -> None:
    port = 5110 + lossy
    rule = f"tcp dport {port} numgen inc mod 50 == 0 drop" if lossy else "accept"
    path.ovs.set_tenant("blue", max_window=CAP)
    try:
        with capturing(f"port {port}") as captures, filtered(path.b, rule):
            path.transfer(port, MB)
    finally:
        path.ovs.set_tenant("blue", max_window=0)
    for capture in (captures.guest, captures.wire):
        again = compare(capture, port)
        assert again >= 10 * lossy


def compare(capture: File, port: int) -> int:
    """Returns how many segments were sent again: a busy switch loses some, too."""
    found = objects(capture)
    got = direction(found, port)
    data = f"tcp.dstport == {port} && tcp.len > 0"
    assert got["segments"] == len(tshark(capture, data))

    acks = f"tcp.srcport == {port} && tcp.flags.syn == 0 && tcp.analysis.ack_rtt"
    lossy = got["retransmitted"] + got["reordered"] > 0
    samples = [float(rtt) * 1e6 for _, rtt in tshark(capture, acks, "tcp.analysis.ack_rtt")]
    assert got["rtt_min"] == pytest.approx(min(samples), abs=0.01)
    # tshark takes no sample where an ACK ends within a segment, and some of what was sent again.
    assert got["rtt"] == pytest.approx(sum(samples) / len(samples), rel=0.5 if lossy else 0.01)

    # What comes soon after other data tshark calls out of order, also if it was there before.
    kinds = ("retransmission", "out_of_order")
    again = tshark(capture, f"{data} && ({' || '.join(f'tcp.analysis.{k}' for k in kinds)})")
    assert got["retransmitted"] + got["reordered"] == len(again)

    flights = [
        (float(at), int(flight))
        for at, flight in tshark(capture, data, "tcp.analysis.bytes_in_flight")
        if flight
    ]
    # tshark takes off what SACK says has arrived.
    most = max(flight for _, flight in flights)
    assert most <= got["flight_max"] <= most * (2 if lossy else 1)
    for one in (o for o in found if o["type"] == "round" and o["to"].endswith(f":{port}")):
        inside = [flight for at, flight in flights if 0 <= at - one["time"] < one["duration"]]
        assert lossy or not inside or one["flight"] >= max(inside)
    return len(again)


# Captures made by hand.


def conversation() -> list[Packet]:
    """IP packets, a millisecond apart: 10 segments of 1000 bytes from 10.0.0.1, each of which is
    acknowledged; 3 of them were marked; then the last one is sent again."""
    there, back = IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.2", dst="10.0.0.1")

    def one(
        forward: bool, flags: int, seq: int, ack: int, options: list[Option], **more: Any
    ) -> Packet:
        ports = (40000, 80) if forward else (80, 40000)
        segment = tcp(*ports, flags, seq=seq, ack=ack, options=options, **more)
        return (there if forward else back) / segment

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


def test_a_sender_that_waits_until_a_third_of_the_window_is_free(tmp_path: File) -> None:
    """As Linux does to send more at a time: the window limits it then, too."""
    there, back = IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.2", dst="10.0.0.1")
    syn: list[Option] = [("MSS", 1460), ("WScale", 7)]
    packets = [there / tcp(40000, 80, SYN, 99, 0, options=syn)]
    packets.append(back / tcp(80, 40000, SYN | ACK, 499, 100, window=12 * 1460, options=syn))
    sent = acked = 100
    # Twelve segments fill it, then three are acknowledged at a time.
    for n in [12, *[3] * 10]:
        for _ in range(n):
            packets.append(there / tcp(40000, 80, ACK, sent, 500) / Raw(bytes(1460)))
            sent += 1460
        for _ in range(3):
            acked += 1460
            packets.append(back / tcp(80, 40000, ACK, 500, acked, window=12 * 1460 // 128 + 1))
    _, wrap = LINKS["ethernet"]
    got = direction(objects(write(tmp_path / "made.pcap", [wrap(ip) for ip in packets])), 80)
    assert causes(got)[0] == "window"
    assert got["limits"]["window"] > 0.8 * sum(got["limits"].values())


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
            ns = int(ms * 1_000_000)
            out.write(struct.pack("<IIII", 1000, ns, len(kept), len(data)) + kept)
    return capture


def tail(
    n: int, again: int, wait: float, late: bool = False, acdc: bool = False
) -> tuple[list[Packet], list[float]]:
    """A round trip of 1 ms; then n segments, of which that one is sent again after a wait.  What is
    late has been acknowledged."""
    there, back = IP(src="10.0.0.1", dst="10.0.0.2"), IP(src="10.0.0.2", dst="10.0.0.1")
    syn: list[Option] = [("MSS", 1460), ("WScale", 7)]
    if acdc:
        syn.insert(0, option(Capability(flags="NOT_ECT")))
    data = [
        ETHERNET / there / tcp(40000, 80, ACK, 100 + 1000 * i, 500) / Raw(bytes(1000))
        for i in range(n + 1)
    ]
    ack = ETHERNET / back / tcp(80, 40000, ACK, 500, 1100 + 1000 * n)
    packets = [
        ETHERNET / there / tcp(40000, 80, SYN, 99, 0, options=syn),
        ETHERNET / back / tcp(80, 40000, SYN | ACK, 499, 100, options=syn),
        ETHERNET / there / tcp(40000, 80, ACK, 100, 500),
        data[0],
        ETHERNET / back / tcp(80, 40000, ACK, 500, 1100),
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
LINKS: dict[str, tuple[int, Callable[[Packet], Packet]]] = {
    "ethernet": (1, lambda ip: ETHERNET / ip),
    "vlan": (1, lambda ip: ETHERNET / Dot1Q(vlan=5) / ip),
    "qinq": (1, lambda ip: ETHERNET / Dot1Q(vlan=5) / Dot1Q(vlan=6) / ip),
    "vxlan": (1, lambda ip: OUTER / UDP(dport=4789) / VXLAN(vni=7) / ETHERNET / ip),
    "geneve": (1, lambda ip: OUTER / UDP(dport=6081) / Raw(GENEVE) / ETHERNET / ip),
    "vxlan6": (1, lambda ip: ETHERNET / IPv6() / UDP(dport=4789) / VXLAN(vni=7) / ETHERNET / ip),
    "cooked": (113, lambda ip: CookedLinux(proto=0x800) / ip),
    "raw": (101, lambda ip: ip),
}


@pytest.mark.parametrize("link", LINKS)
def test_what_tcp_is_inside_of(tmp_path: File, link: str) -> None:
    linktype, wrap = LINKS[link]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()], linktype)
    check_conversation(objects(made))


def test_tenants_with_the_same_addresses_are_apart(tmp_path: File) -> None:
    _, wrap = LINKS["ethernet"]
    packets = [wrap(ip) for ip in conversation()]
    tagged = [LINKS["vxlan"][1](ip) for ip in conversation()]
    both = [packet for pair in zip(packets, tagged, strict=True) for packet in pair]
    found = objects(write(tmp_path / "made.pcap", both))
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
        (["--exid", "0x10000", "a"], 2, "--exid 0x10000"),
        (["--nonsense"], 2, "nonsense"),
        (["-i", "--guest", "a", "--wire", "b"], 2, "-i: only of one interface"),
        (["/nonexistent"], 1, "/nonexistent: No such file"),
        ([__file__], 1, "unknown file format"),
        (["-i", "nonexistent0"], 1, "nonexistent0: "),
    ],
)
def test_errors_name_what_is_wrong(words: list[str], status: int, message: str) -> None:
    assert message in run(*words, status=status).stderr


def test_what_is_left_of_a_capture_is_told(tmp_path: File) -> None:
    """It ends within a packet."""
    _, wrap = LINKS["ethernet"]
    made = write(tmp_path / "made.pcap", [wrap(ip) for ip in conversation()])
    bad = "filter 'nonsense of'"
    assert bad in run("--filter", "nonsense of", made, status=1).stderr
    made.write_bytes(made.read_bytes()[:-10])
    done = run("--json", made, status=1)
    assert f"{made}: truncated" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert direction(found, 80)["acked"] == 10000


def plot(*words: str | File, data: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    program = ROOT / "utilities/acdc-trace-plot"
    return subprocess.run(
        [program, *words], input=data, env=os.environ | env, capture_output=True, text=True
    )


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
        (made, [tmp_path / "nonexistent"], "nonexistent: "),
    ):
        done = plot(figure, *words, data=data)
        assert done.returncode == 1 and message in done.stderr
    assert "Traceback" not in plot(tmp_path / "figure.nonsense", data=made).stderr
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
