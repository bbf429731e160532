# SPDX-License-Identifier: Apache-2.0

"""Runs inside the booted root: one TCP connection from the namespace g1 to g2.  Prints
how many bytes arrived."""

from __future__ import annotations

import ctypes
import socket
import sys
import threading

SIZE = 8 << 20
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def in_namespace(name: str, *args: int) -> socket.socket:
    with open(f"/run/netns/{name}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    return socket.socket(*args)


def main() -> None:
    server = in_namespace("g2")
    client = in_namespace("g1")
    server.bind(("10.0.0.2", 5001))
    server.listen()
    received = 0

    def serve() -> None:
        nonlocal received
        connection = server.accept()[0]
        while data := connection.recv(1 << 16):
            received += len(data)

    thread = threading.Thread(target=serve)
    thread.start()
    client.settimeout(60)
    client.connect(("10.0.0.2", 5001))
    client.sendall(bytes(SIZE))
    client.shutdown(socket.SHUT_WR)
    thread.join(60)
    print(received)
    sys.exit(received != SIZE)


if __name__ == "__main__":
    main()
