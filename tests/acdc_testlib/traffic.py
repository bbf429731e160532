# SPDX-License-Identifier: Apache-2.0

"""TCP between guests with stacks of their own, from threads of the test: a
socket stays in the namespace in which it was made."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from acdc_testlib.netns import Netns

CHUNK = 1 << 16


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def make_socket(ns: Netns, address: str) -> socket.socket:
    with ns.entered():
        return socket.socket(family(address), socket.SOCK_STREAM)


def listen(ns: Netns, address: str, port: int, backlog: int = 128) -> socket.socket:
    sock = make_socket(ns, address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.listen(backlog)
    sock.settimeout(30)
    return sock


def connect(ns: Netns, address: str, port: int, algorithm: str | None = None) -> socket.socket:
    sock = make_socket(ns, address)
    if algorithm:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    sock.settimeout(60)
    sock.connect((address, port))
    return sock


@dataclass
class Task:
    """A thread whose exception is the caller's at join()."""

    run: Callable[[], None]
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._guarded, daemon=True)
        self.thread.start()

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def join(self, timeout: float) -> None:
        self.thread.join(timeout)
        if self.thread.is_alive():
            raise TimeoutError(f"traffic does not end within {timeout} s")
        if self.error is not None:
            raise self.error


class Stream:
    """Random bytes from socket 'out' to socket 'into', hashed at both ends.
    Without 'size' it goes on until stop()."""

    def __init__(self, out: socket.socket, into: socket.socket, size: int | None = None) -> None:
        self.sent = self.received = 0
        self._size = size
        self._stop = threading.Event()
        self._sent_hash, self._received_hash = hashlib.blake2b(), hashlib.blake2b()
        self._out, self._into = out, into
        self._started = time.monotonic()
        self._seconds = 0.0
        self._tasks = [Task(self._receive), Task(self._send)]

    def _send(self) -> None:
        # 1 MB of noise in an order that repeats only after 64 GB.
        noise = random.Random(self._size).randbytes(1 << 20)
        while not self._stop.is_set() and (self._size is None or self.sent < self._size):
            start = self.sent * 2654435761 // CHUNK % (1 << 20)
            data = noise[start : start + CHUNK]
            if self._size is not None:
                data = data[: self._size - self.sent]
            self._out.sendall(data)
            self._sent_hash.update(data)
            self.sent += len(data)
        self._out.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        while data := self._into.recv(CHUNK):
            self._received_hash.update(data)
            self.received += len(data)
        self._seconds = time.monotonic() - self._started

    def stop(self) -> None:
        self._stop.set()

    def finish(self, timeout: float = 90) -> float:
        """Waits for the end, compares, and returns bytes a second."""
        for task in self._tasks:
            task.join(timeout)
        assert self.received == self.sent
        assert self._received_hash.digest() == self._sent_hash.digest()
        return self.received / self._seconds


def open_connection(
    source: Netns,
    sink: Netns,
    address: str,
    port: int = 5001,
    algorithm: str | None = None,
    listen_on: str | None = None,
) -> tuple[socket.socket, socket.socket]:
    """Both ends of it, that of 'source' first."""
    with listen(sink, listen_on or address, port) as listener:
        near = connect(source, address, port, algorithm)
        far, _peer = listener.accept()
    far.settimeout(60)
    return near, far


class Transfer(Stream):
    """A stream from 'source' to 'sink' over a connection of its own."""

    def __init__(
        self,
        source: Netns,
        sink: Netns,
        address: str,
        port: int = 5001,
        size: int | None = None,
        algorithm: str | None = None,
        listen_on: str | None = None,
    ) -> None:
        near, far = open_connection(source, sink, address, port, algorithm, listen_on)
        super().__init__(near, far, size)

    def finish(self, timeout: float = 90) -> float:
        with self._out, self._into:
            return super().finish(timeout)


def finish_all(streams: Sequence[Stream]) -> None:
    """All of them stop before the first is waited for."""
    for stream in streams:
        stream.stop()
    for stream in streams:
        stream.finish()


class Echo:
    """A server that sends back what it gets, for many short connections."""

    def __init__(self, ns: Netns, address: str, port: int = 7) -> None:
        self._listener = listen(ns, address, port, backlog=1024)
        self._closing = False
        self._tasks = [Task(self._serve) for _ in range(4)]

    def _serve(self) -> None:
        while True:
            try:
                sock, _peer = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                raise
            with sock:
                sock.settimeout(30)
                while data := sock.recv(CHUNK):
                    sock.sendall(data)

    def close(self) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for task in self._tasks:
            task.join(40)


def echo_once(ns: Netns, address: str, data: bytes, port: int = 7) -> None:
    """Opens, sends, reads it back, closes."""
    with connect(ns, address, port) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        got = b""
        while part := sock.recv(CHUNK):
            got += part
    assert got == data
