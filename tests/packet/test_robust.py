# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 6: nothing a guest or the network sends can crash or
stall the switch.  Deterministic; the long runs are tests/fuzz."""

from __future__ import annotations

import random
from typing import Any

import pytest

from acdc_testlib.tcp import ACK, CE, ECT0, FIN, RST, SYN, Encap, Option, capability, feedback
from acdc_testlib.wire import Conn, Wire, pattern


def mutate(rng: random.Random, frame: bytes) -> bytes:
    """Some bytes changed behind the Ethernet header, perhaps cut short."""
    data = bytearray(frame)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        data[rng.randrange(12, len(data))] = rng.choice([0, 1, 255, rng.getrandbits(8)])
    if rng.random() < 0.2:
        del data[rng.randrange(14, len(data)) :]
    return bytes(data)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_packets(wire: Wire, encap: Encap, seed: int) -> None:
    rng = random.Random(f"{encap} {seed}")
    wire.set(police=bool(seed % 2))
    c = Conn(wire, encap, timestamps=True).open()
    witness = Conn(wire, encap).open()
    for _ in range(8):
        out, got = [], []
        for _ in range(60):
            flags = rng.choice([ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST, RST | ACK])
            choices: list[list[Option] | None] = [
                None,
                [feedback(rng.getrandbits(32), rng.getrandbits(32))],
                [capability(rng.getrandbits(8), rng.getrandbits(8))],
                [("MSS", rng.getrandbits(16)), ("WScale", rng.getrandbits(8))],
                [("SAck", tuple(rng.getrandbits(32) for _ in range(4)))],
            ]
            options = rng.choice(choices)
            payload = rng.randbytes(rng.choice([0, 1, 500]))
            fields: dict[str, Any] = {
                "flags": flags,
                "options": options,
                "ecn": rng.choice([0, ECT0, CE]),
                "reserved": rng.getrandbits(4),
                "seq": rng.choice([c.guest_nxt, rng.getrandbits(32)]),
                "ack": rng.choice([c.peer_nxt, rng.getrandbits(32)]),
            }
            frame = c.from_guest(payload, **fields)
            out.append(mutate(rng, frame) if rng.random() < 0.8 else frame)
            frame = c.from_peer(payload, **fields)
            got.append(mutate(rng, frame) if rng.random() < 0.8 else frame)
        wire.egress_raw(*out)
        wire.ingress_raw(*got)
        sent = witness.guest_sent
        assert [s.payload for s in witness.guest_data(700) if not s.fack] == [pattern(sent, 700)]
        assert len(witness.peer_ack()) == 1
    assert wire.ovs.vswitchd_running()


def test_syn_flood_does_not_pass_the_limit(wire: Wire, ip: Encap) -> None:
    wire.flush()
    wire.set_global("acdc-max-flows", 100)
    syns = [Conn(wire, ip).guest_syn() for _ in range(300)]
    for i in range(0, len(syns), 50):
        assert len(wire.egress_raw(*syns[i : i + 50])) == 50
    assert len(wire.flows()) <= 100
    c = Conn(wire, ip).open()
    assert c.guest_data(100)[0].payload == pattern(0, 100)
