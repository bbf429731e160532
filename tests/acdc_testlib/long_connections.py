# SPDX-License-Identifier: Apache-2.0

"""Many connections between two guests that live long: each has an exchange, of ROUNDS requests
and answers, every PERIOD seconds, whatever happens to the switches.

As a program, in a process of its own: NAMESPACE_A NAMESPACE_B ADDRESS N PERIOD.  It prints
"ready" once all connections are there, ends when its input does, and prints then for each one
a's port, the window scales that a's stack has (own, peer's), and when its exchanges ended.

LongConnections runs that."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from typing import NamedTuple

from acdc_ovs.namespaces import setns
from acdc_testlib.conversations import scales
from acdc_testlib.netns import DIE_WITH_PARENT, Netns

PORT = 5001
REQUEST, ANSWER, ROUNDS = 200, 2000, 3


class History(NamedTuple):
    """Of one connection."""

    scales: tuple[int, int]
    """Own and peer's."""
    ended: list[float]
    """Its exchanges, in time.monotonic()."""


class Connection:
    """a's end."""

    def __init__(self, address: str) -> None:
        self.socket = prepared(socket.create_connection((address, PORT), timeout=60))
        self.arrived = 0  # Bytes of this answer.
        self.rounds = 0  # Done of this exchange.
        self.busy = False
        self.ended: list[float] = []

    def begin(self) -> None:
        self.busy = True
        self.socket.send(bytes(REQUEST))

    def take(self) -> None:
        self.arrived += len(self.socket.recv(ANSWER))
        if self.arrived < ANSWER:
            return
        self.arrived = 0
        self.rounds += 1
        if self.rounds < ROUNDS:
            self.begin()
            return
        self.rounds = 0
        self.busy = False
        self.ended.append(time.monotonic())


def prepared(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def serve(listener: socket.socket, parent: int) -> None:
    """b's ends, until nobody has the other end of the pipe 'parent'."""
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    poller.register(parent, select.EPOLLHUP)
    socks: dict[int, socket.socket] = {}
    arrived: dict[int, int] = {}
    while True:
        for fd, _event in poller.poll():
            if fd == parent:
                return
            if fd == listener.fileno():
                sock = prepared(listener.accept()[0])
                socks[sock.fileno()], arrived[sock.fileno()] = sock, 0
                poller.register(sock, select.EPOLLIN)
                continue
            try:
                arrived[fd] += len(socks[fd].recv(REQUEST))
            except ConnectionError:
                return  # The other process ends.
            if arrived[fd] == REQUEST:
                arrived[fd] = 0
                socks[fd].send(bytes(ANSWER))


def start_server(namespace: int, address: str) -> None:
    """A process of its own, because a process may have only so many files.  It ends with this
    one."""
    setns(namespace)
    listener = socket.create_server((address, PORT), backlog=4096)
    parent, here = os.pipe()
    if not os.fork():
        os.close(here)
        serve(listener, parent)
        os._exit(0)
    listener.close()


def exchange(connections: list[Connection], period: float) -> None:
    """Until the input ends.  Each one begins at its own time, and not before the last exchange
    has ended."""
    poller = select.epoll()
    owners = {connection.socket.fileno(): connection for connection in connections}
    for fd in owners:
        poller.register(fd, select.EPOLLIN)
    poller.register(0, select.EPOLLIN | select.EPOLLHUP)
    step = period / len(connections)
    began, i = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) / step)
        # What is late is left out, and not made up for.
        for j in range(max(i, due - len(connections)), due):
            connection = connections[j % len(connections)]
            if not connection.busy:
                connection.begin()
        i = max(i, due)
        for fd, _event in poller.poll(min(step, 0.005), 1000):
            if fd == 0:
                return
            owners[fd].take()


def main(a: str, b: str, address: str, n: str, period: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    start_server(os.open(b, os.O_RDONLY), address)
    setns(os.open(a, os.O_RDONLY))
    connections = [Connection(address) for _ in range(int(n))]
    print("ready", flush=True)
    exchange(connections, float(period))
    result = [(c.socket.getsockname()[1], scales(c.socket), c.ended) for c in connections]
    print(json.dumps(result))


class LongConnections:
    """The program at work.  Use as a context manager, or call end()."""

    def __init__(self, a: Netns, b: Netns, address: str, n: int, period: float) -> None:
        places = [f"/proc/{ns.pid}/ns/net" for ns in (a, b)]
        words = [*DIE_WITH_PARENT, sys.executable, "-m", __name__]
        words += [*places, address, str(n), str(period)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def end(self) -> dict[int, History]:
        """By a's ports."""
        said, _ = self._process.communicate(timeout=60)
        return {port: History((own, peer), ended) for port, (own, peer), ended in json.loads(said)}

    def __enter__(self) -> LongConnections:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
