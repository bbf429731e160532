# SPDX-License-Identifier: Apache-2.0

"""What of a segment the network keeps.  No port is bound yet, so neither switch touches these
segments: what arrives is what the network left.  Handshakes are whole and numbers go on as in
any connection, for firewalls that follow those."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .segment import (
    ACK,
    CE,
    ECT0,
    MSS_OPTION,
    NOT_ECT,
    PSH,
    RST,
    SYN,
    Segment,
    capability,
    feedback,
)

TRIES = 3
WAIT = 0.7
"""Seconds for one try."""


class Caller(Protocol):
    """A side, here or there."""

    def call(self, method: str, *arguments: object) -> Any: ...  # noqa: ANN401


@dataclass
class End:
    """One of both, with its port's addresses.  'name' is for people."""

    name: str
    side: Caller
    mac: str
    address: str


@dataclass
class Probe:
    """A segment that was sent, and what came of it; None: nothing."""

    what: str
    source: End
    destination: End
    sent: Segment
    got: Segment | None

    @property
    def way(self) -> str:
        return f"from {self.source.name} to {self.destination.name}"


def exchange(source: End, destination: End, segment: Segment) -> Segment | None:
    frame = segment.frame(source.mac, destination.mac).hex()
    for _ in range(TRIES):
        source.side.call("send", frame)
        deadline = time.monotonic() + WAIT
        while (left := deadline - time.monotonic()) > 0:
            for text in destination.side.call("received", left, 1):
                got = Segment.parse(bytes.fromhex(text))
                if got and _same(got, segment):
                    return got
    return None


def _same(got: Segment, sent: Segment) -> bool:
    ports = got.sport == sent.sport and got.dport == sent.dport
    return ports and got.flags & 0x17 == sent.flags & 0x17 and got.payload == sent.payload


class Conversation:
    """A connection that exists only in what is sent here."""

    def __init__(self, client: End, server: End) -> None:
        self.client, self.server = client, server
        self.probes: list[Probe] = []
        self._ports = (random.randrange(20000, 30000), random.randrange(30000, 40000))
        self._next = {id(client): random.getrandbits(32), id(server): random.getrandbits(32)}

    def send(self, what: str, source: End, flags: int, **fields: Any) -> bool:  # noqa: ANN401
        """Whether it came."""
        client = source is self.client
        destination = self.server if client else self.client
        ports = self._ports if client else self._ports[::-1]
        segment = Segment(source.address, destination.address, *ports, flags, **fields)
        segment.seq = self._next[id(source)]
        segment.ack = self._next[id(destination)] if flags & ACK else 0
        got = exchange(source, destination, segment)
        self._next[id(source)] += len(segment.payload) + (1 if flags & SYN else 0)
        self.probes.append(Probe(what, source, destination, segment, got))
        return got is not None

    def shake(self, syn: str, synack: str, option: bytes) -> bool:
        options = MSS_OPTION + option
        if not self.send(syn, self.client, SYN, options=options):
            return False
        if not self.send(synack, self.server, SYN | ACK, options=options):
            return False
        return self.send("ACK", self.client, ACK)

    def data(self, exid: int) -> None:
        """One segment for each thing that may be lost, both ways."""
        for source in (self.client, self.server):
            for what, fields in _data(exid):
                payload = f"acdc-check: {what}, {random.getrandbits(64):x}".ljust(200)
                self.send(what, source, PSH | ACK, payload=payload.encode(), **fields)

    def reset(self) -> None:
        for source in (self.client, self.server):
            destination = self.server if source is self.client else self.client
            ports = self._ports if source is self.client else self._ports[::-1]
            segment = Segment(source.address, destination.address, *ports, RST | ACK)
            segment = replace(segment, seq=self._next[id(source)], ack=self._next[id(destination)])
            source.side.call("send", segment.frame(source.mac, destination.mac).hex())


PLAIN = "data without anything"
FEEDBACK = "feedback"
SYN_OPTION, SYNACK_OPTION = "capability on SYN", "capability on SYN-ACK"


def _data(exid: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield PLAIN, {}
    yield FEEDBACK, {"options": feedback(exid, 0, 200)}
    for bit in (0x08, 0x04, 0x02):
        yield "reserved", {"reserved": bit}
    for ecn in (ECT0, CE, NOT_ECT):
        yield "ecn", {"ecn": ecn}


def probe(near: End, far: End, exid: int) -> list[Probe]:
    """All that was sent.  If a plain SYN does not come, nothing else is tried."""
    found: list[Probe] = []
    for client, server in ((near, far), (far, near)):
        plain = Conversation(client, server)
        reached = plain.shake("SYN", "SYN-ACK", b"")
        if reached and client is near:
            plain.data(exid)
        plain.reset()
        found += plain.probes
        if not reached:
            return found
        offered = Conversation(client, server)
        offered.shake(SYN_OPTION, SYNACK_OPTION, capability(exid))
        offered.reset()
        found += offered.probes
    return found
