# SPDX-License-Identifier: Apache-2.0

"""Traffic for experiments: bulk flows with goodput over time, and a TCP
ping-pong for the round-trip time that an application sees.

    python3 -m acdc_mininet.traffic sink --port 5001
    python3 -m acdc_mininet.traffic send 10.0.0.2 --port 5001 --seconds 10 --cc cubic
    python3 -m acdc_mininet.traffic echo --port 7
    python3 -m acdc_mininet.traffic probe 10.0.0.2 --port 7 --seconds 10

Every program prints one line of JSON at its end, the servers also "ready" when
they listen.  They block in the kernel and never poll, so that they cost
little, and work under virtual time.  Times are CLOCK_MONOTONIC, which all
network namespaces share."""

from __future__ import annotations

import argparse
import json
import socket
import struct
import threading
import time
from typing import Any

TCP_NOTSENT_LOWAT = 25
CHUNK = 256 * 1024
LOWAT = 64 * 1024
"""A sink that is woken once per 64 KB costs much less than once per segment."""


def listen(port: int) -> socket.socket:
    server = socket.create_server(("", port), backlog=1024)
    print("ready", flush=True)
    return server


class Sink(threading.Thread):
    """Receives one connection to its end, and counts bytes in bins."""

    def __init__(self, connection: socket.socket, peer: str, bin_seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self._bin = bin_seconds
        self.peer = peer
        self.bins: dict[int, int] = {}
        self.total = 0
        self.first = self.last = time.monotonic()

    def run(self) -> None:
        buffer = bytearray(CHUNK)
        with self._connection as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOWAT)
            try:
                while n := connection.recv_into(buffer):
                    self.last = time.monotonic()
                    index = int(self.last / self._bin)
                    self.bins[index] = self.bins.get(index, 0) + n
                    self.total += n
            except ConnectionResetError:
                pass  # What came before counts.

    def result(self) -> dict[str, Any]:
        return {
            "peer": self.peer,
            "bytes": self.total,
            "first": self.first,
            "last": self.last,
            "bin": self._bin,
            "bins": {str(index): n for index, n in sorted(self.bins.items())},
        }


def sink(args: argparse.Namespace) -> dict[str, Any]:
    threads = []
    with listen(args.port) as server:
        for _ in range(args.flows):
            connection, address = server.accept()
            threads.append(Sink(connection, address[0], args.bin))
            threads[-1].start()
        for thread in threads:
            thread.join()
    return {"flows": [thread.result() for thread in threads]}


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """The sender's view (struct tcp_info, linux/tcp.h)."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    words = struct.unpack("=24I", raw[8:104])
    return {
        "rtt_us": words[15],
        "ssthresh": words[17],
        "cwnd": words[18],
        "retransmits": words[23],
    }


def connect(args: argparse.Namespace) -> socket.socket:
    connection = socket.socket()
    if args.cc:
        cc = args.cc.encode()
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
        except FileNotFoundError:
            raise SystemExit(f"this kernel has no congestion control '{args.cc}'") from None
    connection.settimeout(30)
    connection.connect((args.host, args.port))
    connection.settimeout(None)
    # A send() that blocks longer than a second looks at the clock again.
    second = struct.pack("ll", 1, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, second)
    return connection


def sleep_until(start: float) -> None:
    if (left := start - time.monotonic()) > 0:
        time.sleep(left)


def send(args: argparse.Namespace) -> dict[str, Any]:
    """Sends for 'seconds' from 'start' on, or 'bytes', whichever ends first."""
    sleep_until(args.start)
    connection = connect(args)
    # Little that is not sent yet, so that the flow ends soon after its time.
    connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 128 * 1024)
    began = time.monotonic()
    deadline = max(args.start, began) + args.seconds
    chunk = bytes(CHUNK)
    left = args.bytes or float("inf")
    while left > 0 and time.monotonic() < deadline:
        try:
            left -= connection.send(chunk[: int(min(left, CHUNK))])
        except BlockingIOError:  # SO_SNDTIMEO
            continue
    info = tcp_info(connection)
    connection.shutdown(socket.SHUT_WR)
    # Until the peer has everything, for the time a transfer took.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 10, 0))
    complete = False
    try:
        complete = connection.recv(1) == b""
    except (BlockingIOError, ConnectionResetError):
        pass
    return {
        "local_port": connection.getsockname()[1],
        "cc": connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        .rstrip(b"\0")
        .decode(),
        "seconds": time.monotonic() - began,
        "complete": complete,
        **info,
    }


def echo(args: argparse.Namespace) -> dict[str, Any]:
    count = 0
    with listen(args.port) as server:
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while message := connection.recv(65536):
                connection.sendall(message)
                count += 1
    return {"messages": count}


def probe(args: argparse.Namespace) -> dict[str, Any]:
    """One message in flight; its next one 'interval' after the answer."""
    sleep_until(args.start)
    connection = connect(args)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 10, 0))
    message = bytes(args.size)
    deadline = max(args.start, time.monotonic()) + args.seconds
    samples: list[tuple[float, float]] = []
    while (sent := time.monotonic()) < deadline:
        connection.sendall(message)
        got = 0
        while got < args.size:
            piece = connection.recv(args.size - got)
            if not piece:
                raise SystemExit("the echo server closed the connection")
            got += len(piece)
        now = time.monotonic()
        samples.append((round(sent, 6), round((now - sent) * 1e6, 1)))
        time.sleep(args.interval)
    info = tcp_info(connection)
    connection.close()
    return {"rtt_us": samples, "retransmits": info["retransmits"]}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acdc_mininet.traffic", description=__doc__)
    commands = parser.add_subparsers(required=True)
    servers = {"sink": sink, "echo": echo}
    clients = {"send": send, "probe": probe}
    for name, function in (servers | clients).items():
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(function=function)
        if name in clients:
            command.add_argument("host")
            command.add_argument("--cc", help="congestion control, e.g. cubic")
            command.add_argument("--start", type=float, default=0.0, help="CLOCK_MONOTONIC, s")
            command.add_argument("--seconds", type=float, default=10.0)
        command.add_argument("--port", type=int, required=True)
        if name == "sink":
            command.add_argument("--flows", type=int, default=1, help="connections to wait for")
            command.add_argument("--bin", type=float, default=0.1, help="of the goodput, s")
        elif name == "send":
            command.add_argument("--bytes", type=int, default=0, help="0: no limit")
        elif name == "probe":
            command.add_argument(
                "--interval", type=float, default=0.004, help="between messages, s"
            )
            command.add_argument("--size", type=int, default=64, help="of a message, bytes")
    return parser


def main() -> None:
    args = arguments().parse_args()
    print(json.dumps(args.function(args)), flush=True)


if __name__ == "__main__":
    main()
