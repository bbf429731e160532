# SPDX-License-Identifier: Apache-2.0

"""What AC/DC puts into TCP, for scapy: docs/wire-format.rst as its layers.

    TCP(flags="S", options=[("MSS", 1460), option(Capability(flags="NOT_ECT"))])
    feedback = Feedback(ecn_bytes=1448, total_bytes=2896)
    TCP(flags="A", reserved=Reserved(fack=True).field, options=[option(feedback)])
    dissect(packet[TCP])  # Capability, Feedback, Report, State, Unknown; None: no such option

scapy itself keeps TCP options as (kind, bytes); these are the bytes."""

from __future__ import annotations

from typing import NamedTuple, Self

from scapy.fields import (
    BitField,
    ByteField,
    FlagsField,
    IntField,
    ShortField,
    ThreeBytesField,
    XShortField,
)
from scapy.layers.inet import TCP
from scapy.packet import Packet

__all__ = [
    "EXID",
    "KIND",
    "Capability",
    "Feedback",
    "Report",
    "Reserved",
    "State",
    "Unknown",
    "dissect",
    "option",
]

KIND = 253
"""For experiments (RFC 4727)."""
EXID = 0xACDC
"""The experiment identifier (RFC 6994), unless acdc-exid says another."""


class AcdcOption(Packet):
    """The value of an option: all behind kind and length."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class Capability(AcdcOption):
    """On SYN and SYN-ACK; on other segments a question, which has a number in 'zero'.  A
    SYN-ACK with SCALES has there what guests are told, see docs/wire-format.rst."""

    name = "AC/DC capability"
    fields_desc = [
        XShortField("exid", EXID),
        ByteField("version", 1),
        FlagsField("flags", 0, 8, ["NOT_ECT", "RESUME", "TIMING", "SCALES"]),
        ShortField("zero", 0),
    ]


class Feedback(AcdcOption):
    """On a PACK or FACK: payload bytes received since the handshake, modulo 2^32."""

    name = "AC/DC feedback"
    fields_desc = [
        XShortField("exid", EXID),
        IntField("ecn_bytes", 0),
        IntField("total_bytes", 0),
    ]


class Report(AcdcOption):
    """Feedback with when a marked segment came."""

    name = "AC/DC report"
    fields_desc = [
        *Feedback.fields_desc,
        ByteField("mark", 0),
        ThreeBytesField("ago_us", 0),
        IntField("clock_us", 0),
    ]


class State(AcdcOption):
    """The answer to a question, seen from the one that asked."""

    name = "AC/DC state"
    fields_desc = [
        XShortField("exid", EXID),
        FlagsField("flags", 0, 8, ["SCALES", "SACK", "ECN_SYN", "GUEST_ECN", "TIMING", "TOLD"]),
        BitField("own_wscale", 0, 4),
        BitField("peer_wscale", 0, 4),
        ShortField("mss", 0),
        ShortField("number", 0),
        ShortField("beyond", 0),
        IntField("reported_ecn_bytes", 0),
        IntField("reported_total_bytes", 0),
        IntField("ecn_bytes", 0),
        IntField("total_bytes", 0),
    ]


class Unknown(AcdcOption):
    """An option of AC/DC's whose length has no meaning yet."""

    name = "AC/DC, unknown"
    fields_desc = [XShortField("exid", EXID)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return s, b""


BY_LENGTH: dict[int, type[AcdcOption]] = {8: Capability, 12: Feedback, 20: Report, 28: State}


def option(value: AcdcOption) -> tuple[int, bytes]:
    """As TCP(options=...) takes it."""
    return KIND, bytes(value)


def dissect(tcp: TCP, exid: int = EXID) -> AcdcOption | None:
    """AC/DC's option of a segment."""
    for kind, value in tcp.options:
        if kind == KIND and len(value) >= 2 and value[:2] == exid.to_bytes(2, "big"):
            return BY_LENGTH.get(len(value) + 2, Unknown)(value)
    return None


class Reserved(NamedTuple):
    """What the reserved bits of a TCP header say."""

    fack: bool = False
    ecn: int = 0
    """As on the wire.  Whether 0 or 3 is Not-ECT depends on the capability's flags."""

    @property
    def field(self) -> int:
        """TCP.reserved: the fourth bit, AE, is scapy's flag N."""
        return self.fack << 2 | self.ecn

    @classmethod
    def of(cls, tcp: TCP) -> Self:
        return cls(bool(tcp.reserved & 4), tcp.reserved & 3)
