# SPDX-License-Identifier: Apache-2.0

"""TCP segments as the two switches send them, made and read without more than Python has:
docs/wire-format.rst."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

KIND = 253
RESERVED = 0x0E
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
NOT_ECT, ECT1, ECT0, CE = range(4)
ECN_NAMES = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
MSS_OPTION = struct.pack("!BBH", 2, 4, 1360)


def capability(exid: int) -> bytes:
    return struct.pack("!BBHBBH", KIND, 8, exid, 1, 1, 0)


def feedback(exid: int, marked: int, total: int) -> bytes:
    return struct.pack("!BBHII", KIND, 12, exid, marked, total)


def _sum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) & ~1]))
    total += data[-1] << 8 if len(data) & 1 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass
class Segment:
    """What of one is sent, and looked at."""

    source: str
    destination: str
    sport: int
    dport: int
    flags: int
    seq: int = 0
    ack: int = 0
    ecn: int = NOT_ECT
    reserved: int = 0
    """Of RESERVED."""
    options: bytes = b""
    payload: bytes = b""

    def frame(self, from_mac: str, to_mac: str) -> bytes:
        options = self.options + bytes([1] * (-len(self.options) % 4))
        offset = (20 + len(options)) // 4 << 4 | self.reserved
        addresses = socket.inet_aton(self.source) + socket.inet_aton(self.destination)
        ports = struct.pack("!HHII", self.sport, self.dport, self.seq % 2**32, self.ack % 2**32)
        head = ports + struct.pack("!BBH", offset, self.flags, 65535)
        tail = b"\0\0" + options + self.payload
        length = len(head) + 2 + len(tail)
        check = _sum(addresses + struct.pack("!HH", 6, length) + head + b"\0\0" + tail)
        ip = struct.pack("!BBHHHBB", 0x45, self.ecn, 20 + length, 0, 0x4000, 64, 6)
        ip += struct.pack("!H", _sum(ip + b"\0\0" + addresses)) + addresses
        macs = bytes.fromhex(to_mac.replace(":", "") + from_mac.replace(":", ""))
        return macs + b"\x08\x00" + ip + head + struct.pack("!H", check) + tail

    @classmethod
    def parse(cls, frame: bytes) -> Segment | None:
        """None: no TCP over IPv4."""
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != 6:
            return None
        tcp = 14 + (frame[14] & 15) * 4
        if tcp < 34 or len(frame) < tcp + 20:
            return None
        end = 14 + int.from_bytes(frame[16:18], "big")
        data = tcp + (frame[tcp + 12] >> 4) * 4
        sport, dport, seq, ack = struct.unpack_from("!HHII", frame, tcp)
        return cls(
            socket.inet_ntoa(frame[26:30]),
            socket.inet_ntoa(frame[30:34]),
            *(sport, dport, frame[tcp + 13], seq, ack, frame[15] & 3, frame[tcp + 12] & RESERVED),
            options=frame[tcp + 20 : data],
            payload=frame[data:end],
        )

    def option(self) -> bytes | None:
        """The one of kind KIND, whole."""
        i = 0
        while i + 1 < len(self.options) and self.options[i]:
            length = 1 if self.options[i] == 1 else self.options[i + 1]
            if not length:
                break
            if self.options[i] == KIND:
                return self.options[i : i + length]
            i += length
        return None
