# SPDX-License-Identifier: Apache-2.0

"""Two hypervisors in one Open vSwitch: a guest on each of two bridges, and a bridge
between them that is the network, and marks every data packet to MARKED_PORT."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as File

import pytest

from acdc_testlib.netns import Netns
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Transfer

A, B = "10.0.0.1", "10.0.0.2"
PORT, MARKED_PORT = 5001, 5002


@dataclass
class Path:
    """Two guests of tenant blue; up0 and up1 are the uplinks of their switches."""

    ovs: Ovs
    a: Netns
    b: Netns

    def transfer(self, port: int, size: int) -> None:
        Transfer(self.a, self.b, B, port=port, size=size).finish()


@contextlib.contextmanager
def daemon_that_says(reply: str, control: File) -> Iterator[None]:
    """It answers one command, at the socket 'control'."""
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(control))
        daemon.listen()

        def answer() -> None:
            with daemon.accept()[0] as peer:
                request = json.loads(peer.recv(4096))
                result = {"id": request["id"], "error": None, "result": reply}
                peer.sendall(json.dumps(result).encode())
                peer.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        yield


@pytest.fixture(scope="session")
def path() -> Iterator[Path]:
    with Ovs() as ovs:
        guests = []
        for i, address in enumerate((A, B)):
            ovs.add_bridge(f"br{i}", normal=False)
            guests.append(ovs.add_guest(f"br{i}", f"vnet{i}", f"{address}/24"))
            ovs.ns.veth_to(f"up{i}", ovs.ns, f"net{i}")
            ovs.add_port(f"br{i}", f"up{i}")
            ovs.connect(f"br{i}", f"vnet{i}", f"up{i}")
        ovs.add_bridge("net", normal=False)
        for i in range(2):
            ovs.add_port("net", f"net{i}")
        ovs.connect("net", "net0", "net1")
        inside, outside = ovs.ofport("net0"), ovs.ofport("net1")
        match = f"priority=40000,in_port={inside},tcp,tp_dst={MARKED_PORT}"
        actions = f"set_field:3->ip_ecn,output:{outside}"
        ovs.ofctl("-OOpenFlow13", "add-flow", "net", f"{match},actions={actions}")
        ovs.set_tenant("blue")
        ovs.bind("blue", "vnet0", "vnet1")
        yield Path(ovs, *guests)
