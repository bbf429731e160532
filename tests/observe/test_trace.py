# SPDX-License-Identifier: Apache-2.0

"""acdc-trace on captures of real TCP through the switch, one for each cause, and the verdict
on each; its figures beside tshark's."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path as File

import pytest

from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.traffic import Stream, Task, connect, listen, open_connection
from observe.conftest import MARKED_PORT, B, Path
from observe.tracing import MB, Json, causes, direction, objects

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
                    time.sleep(0.1)
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
        assert got["marked"] == 0 and 0 < got["alpha"] <= 1
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
            far.sendall(b"more")  # The way back to the sender has samples, too.
            assert near.recv(4)
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


@dataclass
class Packet:
    """What tshark says of one; None: it says nothing."""

    at: float
    data: bool
    rtt: float | None
    again: bool
    flight: int | None


def tshark(capture: File, port: int) -> list[Packet]:
    analysis = ("ack_rtt", "retransmission", "out_of_order", "bytes_in_flight")
    names = ["frame.time_relative", "tcp.dstport", "tcp.len", "tcp.flags.syn"]
    names += [f"tcp.analysis.{name}" for name in analysis]
    words = ["tshark", "-n", "-r", str(capture), "-Y", f"tcp.port == {port}", "-T", "fields"]
    words += [word for name in names for word in ("-e", name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    found = []
    for line in done.stdout.splitlines():
        at, to, size, syn, rtt, *again, flight = line.split("\t")
        forward = int(to) == port
        timed = rtt and not forward and syn not in ("1", "True")
        found.append(
            Packet(
                float(at),
                forward and int(size) > 0,
                float(rtt) * 1e6 if timed else None,
                any(again),
                int(flight) if flight else None,
            )
        )
    return found


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
    packets = tshark(capture, port)
    data = [packet for packet in packets if packet.data]
    assert got["segments"] == len(data)

    lossy = got["retransmitted"] + got["reordered"] > 0
    samples = sorted(packet.rtt for packet in packets if packet.rtt)
    # tshark has some of what was sent again, too.
    least = samples[: 1 + got["retransmitted"]]
    assert min(abs(got["rtt_min"] - one) for one in least) < 0.01
    # And samples of what waited for that, the largest; none where an ACK ends within a segment.
    samples = samples[: len(samples) - got["retransmitted"]]
    assert got["rtt"] == pytest.approx(sum(samples) / len(samples), rel=0.5 if lossy else 0.01)

    # What comes soon after other data tshark calls out of order, also if it was there before.
    again = sum(packet.again for packet in data)
    assert got["retransmitted"] + got["reordered"] == again

    flights = [(packet.at, packet.flight) for packet in data if packet.flight]
    # tshark takes off what SACK says has arrived, and has twice what is sent again.
    most = max(flight for _, flight in flights)
    twice = 1448 * got["retransmitted"]
    assert most - twice <= got["flight_max"] <= most * (2 if lossy else 1)
    for one in (o for o in found if o["type"] == "round" and o["to"].endswith(f":{port}")):
        inside = [flight for at, flight in flights if 0 <= at - one["time"] < one["duration"]]
        assert lossy or not inside or one["flight"] >= max(inside)
    return again
