# SPDX-License-Identifier: Apache-2.0
"""What captures of two uplinks say of timed segments: the truth about what the engine
measures.  A packet is captured as it leaves, behind the queue where it was held."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPORT = bytes.fromhex("fd14acdc")
FACK = 0x08
SERVER = 5001


@dataclass(frozen=True)
class Times:
    """Of one timed segment; microseconds."""

    known: int  # When its report came to the sending side.
    one_way: int
    round_trip: int  # Of the network alone.


@dataclass(frozen=True)
class _Packet:
    time: int
    seq: int
    port: int  # That it goes to.
    timed: bool
    report: bytes  # Mark, ago, clock; empty: none.

    @property
    def mark(self) -> int:
        return self.seq >> 7 & 0xFF


def _packets(path: Path) -> Iterator[_Packet]:
    """TCP over IPv4."""
    data = path.read_bytes()
    (magic,) = struct.unpack_from("<I", data)
    assert magic == 0xA1B2C3D4, f"{path} is not of this machine, or not in microseconds"
    at = 24
    while at + 16 <= len(data):
        seconds, us, length, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        tcp = 14 + (frame[14] & 15) * 4
        header = (frame[tcp + 12] >> 4) * 4
        (total,) = struct.unpack_from("!H", frame, 16)
        payload = 14 + total - tcp - header
        port, seq = struct.unpack_from("!HI", frame, tcp + 2)
        options = frame[tcp + 20 : tcp + header]
        found = options.find(REPORT)
        report = options[found + 12 : found + 20] if found >= 0 else b""
        timed = payload > 0 and bool(frame[tcp + 12] & FACK)
        yield _Packet(seconds * 1_000_000 + us, seq, port, timed, report)


def of(sender: Path, receiver: Path) -> list[Times]:
    """Of one connection's data to the server, in order."""
    left: dict[int, list[_Packet]] = {}
    came: dict[int, int] = {}
    reported: dict[bytes, int] = {}
    result = []
    for packet in _packets(receiver):
        if packet.timed and packet.port == SERVER:
            came.setdefault(packet.seq, packet.time)
        if packet.report and packet.port != SERVER:
            reported.setdefault(packet.report, packet.time)
    for packet in _packets(sender):
        if packet.port == SERVER:
            if packet.timed:
                left.setdefault(packet.mark, []).append(packet)
            continue
        sent = left.get(packet.report[0]) if packet.report else None
        if sent and sent[-1].seq in came and packet.report in reported:
            one_way = came[sent[-1].seq] - sent[-1].time
            back = packet.time - reported[packet.report]
            result.append(Times(packet.time, one_way, one_way + back))
    return result
