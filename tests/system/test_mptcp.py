# SPDX-License-Identifier: Apache-2.0

"""Linux's MPTCP (RFC 8684) between two guests, with two subflows."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator

import pytest

from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.wire import tenant_counters

MPTCP = 262  # IPPROTO_MPTCP, which Python 3.11 has no name for.
SIZE = 8 << 20


@pytest.fixture
def guests() -> Iterator[tuple[Ovs, Netns, Netns]]:
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        a = ovs.add_guest("br0", "vnet0", "10.0.0.1/24", "10.0.1.1/24")
        b = ovs.add_guest("br0", "vnet1", "10.0.0.2/24", "10.0.1.2/24")
        try:
            with a.entered():
                socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP).close()
        except OSError as error:
            pytest.skip(f"this kernel has no MPTCP: {error}")
        for guest in (a, b):
            guest.run("ip", "mptcp", "limits", "set", "subflows", "2", "add_addr_accepted", "2")
        a.run("ip", "mptcp", "endpoint", "add", "10.0.1.1", "subflow")
        ovs.set_tenant("blue", fallback="reno")
        ovs.bind("blue", "vnet0")
        ovs.bind("blue", "vnet1")
        yield ovs, a, b
        assert ovs.vswitchd_running(), ovs.log_tail()


def stream(ns: Netns) -> socket.socket:
    with ns.entered():
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    s.settimeout(60)
    return s


@pytest.mark.parametrize("timestamps", [0, 1])
def test_two_subflows(guests: tuple[Ovs, Netns, Netns], timestamps: int) -> None:
    """The bytes arrive, the connection stays MPTCP, each subflow is a flow of its
    own.  With timestamps, MP_JOIN's SYN-ACK has no room for the capability."""
    ovs, a, b = guests
    for guest in (a, b):
        guest.sysctl("net.ipv4.tcp_timestamps", timestamps)
    listener = stream(b)
    listener.bind(("10.0.0.2", 5001))
    listener.listen()
    received = hashlib.sha256()
    got = 0

    def capable() -> dict[str, bool]:
        """Of the established subflows, seen from guest 'a'."""
        flows = ovs.acdc("dump-flows", "port=vnet0")
        return {f["local"]: f["capable"] for f in flows if f["state"] == "established"}

    def receive() -> None:
        nonlocal got
        peer, _ = listener.accept()
        peer.settimeout(60)
        with peer:
            while data := peer.recv(1 << 16):
                received.update(data)
                got += len(data)
            peer.sendall(b"done")

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    data = bytes(range(251)) * (SIZE // 251)
    with stream(a) as client:
        client.connect(("10.0.0.2", 5001))
        client.sendall(data[: len(data) // 2])
        wait_for("the second subflow", lambda: len(capable()) == 2)
        assert capable() == {"10.0.0.1": True, "10.0.1.1": not timestamps}
        client.sendall(data[len(data) // 2 :])
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b"done"
    thread.join(60)
    assert got == len(data)
    assert received.digest() == hashlib.sha256(data).digest()
    counted = {
        line.split()[0]: int(line.split()[1])
        for line in a.run("nstat", "-asz").splitlines()
        if line.startswith("MPTcp")
    }
    assert counted["MPTcpExtMPJoinSynAckRx"] == 1
    for name in ("MPTcpExtMPFailTx", "MPTcpExtMPFailRx", "MPTcpExtMPRstTx", "MPTcpExtDssFallback"):
        assert not counted.get(name), name
    new = tenant_counters(ovs, "blue")
    assert new["window_rewritten"] > 0
    for reason in ("feedback_bad", "forged", "policed_packets", "untouched_options"):
        assert new[reason] == 0, reason
