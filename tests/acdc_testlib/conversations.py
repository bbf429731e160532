# SPDX-License-Identifier: Apache-2.0

"""Many connections of two guests that go on while something happens to the switches."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

from acdc_testlib.netns import Netns

SIZE = 20000
TCPI_SCALES = 6  # Offset of tcpi_snd_wscale and tcpi_rcv_wscale in struct tcp_info.


def scales(sock: socket.socket) -> tuple[int, int]:
    """Own and peer's window scale, as the guest's own stack has them."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    both = struct.unpack_from("B", info, TCPI_SCALES)[0]
    return both >> 4, both & 15


class Conversations:
    """Connections of a to b, at b's address."""

    def __init__(self, a: Netns, b: Netns, address: str, n: int, port: int = 5001) -> None:
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        with b.entered():
            listener = socket.create_server((address, port), backlog=1024)
        for _ in range(n):
            with a.entered():
                near = socket.socket()
            near.connect((address, port))
            far, _peer = listener.accept()
            for sock in (near, far):
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((near, far))
        listener.close()

    def close(self) -> None:
        for pair in self.pairs:
            for sock in pair:
                sock.close()

    def exchange(self, timeout: float = 60) -> None:
        """Each connection carries SIZE bytes there and back, some at a time."""
        for i in range(0, len(self.pairs), 20):
            some = self.pairs[i : i + 20]
            for source, sink in (0, 1), (1, 0):
                _move([(pair[source], pair[sink]) for pair in some], timeout)

    def governed(self, flows: Iterable[dict[str, Any]], at_a: bool = True) -> set[int]:
        """Ports of a of the connections that have AC/DC by the 'flows' of a's or b's switch;
        none in a wrong scale."""
        mine = {near.getsockname()[1]: scales(near) for near, _far in self.pairs}
        own, peer = ("local", "remote") if at_a else ("remote", "local")
        good = set()
        for flow in flows:
            port = flow[f"{own}_port"]
            if flow["capable"] and port in mine:
                assert (flow[f"wscale_{own}"], flow[f"wscale_{peer}"]) == mine[port]
                good.add(port)
        return good


def _move(pairs: list[tuple[socket.socket, socket.socket]], timeout: float) -> None:
    left = {sink.fileno(): (sink, SIZE) for _source, sink in pairs}
    for source, _sink in pairs:
        assert source.send(bytes(SIZE)) == SIZE
    poller = select.epoll()
    for fd in left:
        poller.register(fd, select.EPOLLIN)
    deadline = time.monotonic() + timeout
    while left:
        assert time.monotonic() < deadline, f"{len(left)} connections stand still"
        for fd, _event in poller.poll(1):
            sink, size = left[fd]
            size -= len(sink.recv(size))
            left[fd] = (sink, size)
            if not size:
                poller.unregister(fd)
                del left[fd]
    poller.close()
