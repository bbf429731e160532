# SPDX-License-Identifier: Apache-2.0
"""Run in the lab's kernel by test_through_the_kernel.py: requests to the generic
netlink family "ovs_acdc", right ones changed at random.  The kernel must refuse or
do each, go on, and say nothing on its console.

ACDC_NETLINK_MESSAGES, 3000 by default, says how many."""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator

import pytest

from acdc_testlib.ovs import Ovs
from acdc_testlib.tcp import V4, V6
from acdc_testlib.wire import Conn, Wire, pattern

MESSAGES = int(os.environ.get("ACDC_NETLINK_MESSAGES", "3000"))

NETLINK_GENERIC = 16
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR = 1, 4, 2
NESTED = 0x8000

# datapath/linux/acdc-genl.h.
(CONFIG_SET, CONFIG_GET, TENANT_SET, TENANT_DEL, PORT_SET, STATS_GET, TENANT_GET, PORT_GET,
 FLOW_GET, FLUSH) = range(1, 11)  # fmt: skip
(MAX_FLOWS, IDLE_TIMEOUT, EXID, TENANT, PARAMS, MAX_HALF_OPEN, RULES, RULE, PORT_NO, PORT_NAME,
 INDEX, CURSOR, MAX) = range(1, 14)  # fmt: skip
# What a refusal may be; anything else is a surprise, ENOMEM too.
REFUSALS = {
    errno.EINVAL,
    errno.ENODEV,
    errno.ENOENT,
    errno.ERANGE,
    errno.EOPNOTSUPP,
    errno.EMSGSIZE,
}


def attr(kind: int, value: bytes | int, size: int = 4) -> bytes:
    data = value if isinstance(value, bytes) else value.to_bytes(size, "little")
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def params() -> bytes:
    """In the order of enum acdc_genl_params, all of them."""
    words = (1 << 20, 1 << 16, 10, 0, 0)
    return b"".join(
        [attr(i, word) for i, word in enumerate(words, 1)]
        + [attr(i, value, 1) for i, value in enumerate((3, 0, 0, 1, 0, 1, 0, 0, 0, 0), 6)]
        + [attr(16, 2000), attr(17, 1, 1), attr(18, 30)]
    )


def rule() -> bytes:
    ports = b"".join(attr(i, value, 2) for i, value in ((5, 0), (6, 65535), (7, 1), (8, 9000)))
    remote = attr(3, bytes(10) + b"\xff\xff\x0a\1\0\0") + attr(4, 112, 1)
    return attr(1, 7) + attr(2 | NESTED, params()) + remote + ports


CLOCK_SYNCED = 20
REQUESTS = [
    (CONFIG_SET, attr(MAX_FLOWS, 1000) + attr(IDLE_TIMEOUT, 100) + attr(EXID, 0xACDC, 2)
     + attr(CLOCK_SYNCED, 1, 1)),
    (CONFIG_GET, b""),
    (TENANT_SET, attr(TENANT, b"red\0") + attr(PARAMS | NESTED, params())),
    (
        TENANT_SET,
        attr(TENANT, b"red\0") + attr(PARAMS | NESTED, params()) + attr(MAX_HALF_OPEN, 50)
        + attr(RULES | NESTED, attr(RULE | NESTED, rule()) * 3),
    ),
    (TENANT_DEL, attr(TENANT, b"red\0")),
    (PORT_SET, attr(PORT_NO, 1) + attr(PORT_NAME, b"guest0\0") + attr(TENANT, b"red\0")),
    (PORT_SET, attr(PORT_NO, 1)),
    (STATS_GET, b""),
    (TENANT_GET, attr(INDEX, 0)),
    (PORT_GET, attr(INDEX, 0)),
    (FLOW_GET, attr(CURSOR, 0, 8) + attr(MAX, 5)),
    (FLUSH, attr(TENANT, b"red\0") + attr(PORT_NO, 1)),
]  # fmt: skip


class Family:
    """A socket of the namespace it is made in."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.socket.bind((0, 0))
        self.socket.settimeout(10)
        name = attr(CTRL_ATTR_FAMILY_NAME, b"ovs_acdc\0")
        header = struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0)
        self.number = GENL_ID_CTRL
        reply = self.answers(self.message(header + name))[0]
        at = 20
        while True:
            length, kind = struct.unpack_from("=HH", reply, at)
            if kind == CTRL_ATTR_FAMILY_ID:
                (self.number,) = struct.unpack_from("=H", reply, at + 4)
                return
            at += length + -length % 4

    def message(self, body: bytes, flags: int = NLM_F_REQUEST | NLM_F_ACK) -> bytes:
        return struct.pack("=IHHII", 16 + len(body), self.number, flags, 1, 0) + body

    def request(self, ifindex: int, command: int, attributes: bytes) -> bytes:
        return self.message(struct.pack("=BBHi", command, 1, 0, ifindex) + attributes)

    def answers(self, message: bytes) -> list[bytes]:
        """All messages up to the acknowledgment, which is the last."""
        self.socket.send(message)
        result = []
        while True:
            data = self.socket.recv(1 << 18)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                assert 16 <= length <= len(data)
                result.append(data[:length])
                data = data[length + -length % 4 :]
                if kind == NLMSG_ERROR:
                    return result

    def ask(self, message: bytes) -> int:
        """The errno of the answer, or 0."""
        (error,) = struct.unpack_from("=i", self.answers(message)[-1], 16)
        return int(-error)


def offsets(data: bytes, at: int = 0) -> Iterator[int]:
    """Where attributes begin, nested ones too."""
    i = 0
    while i + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, i)
        yield at + i
        if kind & NESTED:
            yield from offsets(data[i + 4 : i + length], at + i + 4)
        i += max(4, length + -length % 4)


def mutated(rng: random.Random, attributes: bytes) -> bytes:
    data = bytearray(attributes)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = list(offsets(bytes(data))) or [0]
        at = rng.choice(places)
        how = rng.randrange(9)
        if len(data) < 4 or how == 0:
            data += rng.randbytes(rng.choice([1, 4, 8, 100]))
        elif how == 1:
            struct.pack_into("=H", data, at, rng.choice([0, 3, 4, 5, 8, 20, 65535]))
        elif how == 2 and at + 4 <= len(data):
            struct.pack_into("=H", data, at + 2, rng.choice([*range(25), NESTED | 5, NESTED | 7]))
        elif how == 3:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 127, 128, 255])
        elif how == 4:
            del data[rng.randrange(len(data)) :]
        elif how == 5:
            data += data[at:]  # Twice.
        elif how == 6 and at + 8 <= len(data):
            struct.pack_into("=I", data, at + 4, rng.choice([0, 1, 2**31, 2**32 - 1, 1 << 24]))
        elif how == 7:
            data += attr(RULES | NESTED, attr(RULE | NESTED, rule()) * rng.choice([1, 256, 257]))
        else:
            data += attr(TENANT, rng.choice([b"x" * 63 + b"\0", b"x" * 64, b"x", b"", b"\0"]))
    return bytes(data[:40000])


@pytest.fixture
def wire(ovs: Ovs) -> Wire:
    wire = Wire(ovs)
    wire.reset()
    return wire


def test_random_requests(ovs: Ovs, wire: Wire) -> None:
    with ovs.ns.entered():
        family = Family()
        ifindex = socket.if_nametoindex("ovs-system")
    for command, attributes in REQUESTS:
        error = family.ask(family.request(ifindex, command, attributes))
        assert error in (0, errno.ENOENT), (command, os.strerror(error))
    rng = random.Random(1)
    seen = Counter[str]()
    live = Conn(wire, V4).open()
    for i in range(MESSAGES):
        command, attributes = rng.choice(REQUESTS)
        if rng.random() < 0.05:
            command = rng.choice([0, 11, 255, rng.randrange(1, 11)])
        attributes = mutated(rng, attributes)
        message = family.request(
            ifindex if rng.random() < 0.97 else rng.choice([0, -1, 1, 99]), command, attributes
        )
        if rng.random() < 0.02:
            # Without all of its headers.
            message = family.message(message[16 : rng.randrange(16, 24)])
        error = family.ask(message)
        seen[errno.errorcode.get(error, str(error)) if error else "done"] += 1
        assert error in REFUSALS or not error, (os.strerror(error), message.hex())
        if i % 1000 == 999:
            # Whoever its port belongs to by now, it gets through.
            assert live.wire.egress_raw(live.from_guest(pattern(0, 1000)))
            assert live.wire.ingress_raw(live.from_peer(pattern(0, 1000)))
    print(f"{MESSAGES} requests: {dict(seen)}")
    assert seen["done"] > MESSAGES / 10
    assert seen["EINVAL"] > MESSAGES / 10
    # All in order again, and as ever.
    wire.bind(None)
    wire.set_global("acdc-max-flows", 500)
    wire.reset()
    for encap in (V4, V6):
        c = Conn(wire, encap).open()
        (out,) = c.guest_data(1000)
        assert out.payload == pattern(0, 1000)
        (got,) = c.peer_ack(marked=1000)
        assert got.window == c.window_field(int(c.info()["wnd"]))


def test_not_for_everybody(ovs: Ovs, wire: Wire) -> None:
    """Without CAP_NET_ADMIN nobody changes or sees anything."""
    assert wire.counters()["flows_created"] == 0
    with ovs.ns.entered():
        family = Family()
        ifindex = socket.if_nametoindex("ovs-system")
    os.seteuid(65534)
    try:
        for command, attributes in REQUESTS:
            error = family.ask(family.request(ifindex, command, attributes))
            assert error == errno.EPERM, (command, os.strerror(error))
    finally:
        os.seteuid(0)
