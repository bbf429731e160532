#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the fuzzers begin with."""

from __future__ import annotations

import argparse
import base64
import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"

MATCHES = [
    "remote=10.0.0.0/8,remote_port=5432,local_port=8000-8010",
    "remote=2001:db8::/32 , local_port=1",
]


# fuzz-packet.c: seven bytes that say which edits, then a packet.


def packet(version: int, options: bytes, vlan: bool = False) -> bytes:
    edits = bytes([4, 0x0B, 0x13, 0x24, 0x3F, 0x09, 0])
    options += b"\0" * (-len(options) % 4)
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack(">HHIIBBHHH", 1000, 80, 1, 2, offset, 0x10, 500, 0, 0) + options + b"hello"
    ethernet = b"\2" * 12 + (b"\x81\0\0\1" if vlan else b"")
    if version == 6:
        ip = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + b"\1" * 16 + b"\2" * 16
        return edits + ethernet + b"\x86\xdd" + ip + tcp
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0, 10, 11)
    return edits + ethernet + b"\x08\0" + ip + tcp


TIMESTAMPS = b"\1\1\x08\x0a" + bytes(8)
PACKETS = {
    "plain": packet(4, b""),
    "ipv6-vlan": packet(6, TIMESTAMPS, vlan=True),
    "syn-options": packet(4, b"\2\4\5\xb4\4\2\1\3\3\7"),
    "ours": packet(4, b"\xfd\x0c\xac\xdc" + bytes(8) + b"\1\xfd\x08\xac\xdc\1\0\0\0"),
    "sack": packet(4, TIMESTAMPS + b"\1\1\5\x12" + bytes(16)),
}

# fuzz-engine.c: operations of guest 0 or 1 with their operands.


def guest(side: int) -> int:
    return side << 7


def send(side: int, kind: int, more: int, ecn: int = 0, wscale: int | None = None) -> bytes:
    """A packet into place 0 of the network's queue."""
    syn = b"" if wscale is None else bytes([wscale])
    # The lowest two bits: not tagged; a SYN has SACK and timestamps.
    return bytes([guest(side), kind, more, ecn << 2 | (2 if wscale is None else 1)]) + syn + b"\0"


def deliver(side: int, marked: bool = False) -> bytes:
    return bytes([guest(side) | 8, 0x40 if marked else 0])


def handshake(flow: int) -> bytes:
    return (
        send(0, flow | 7, 0, wscale=7) + deliver(1) + send(1, flow | 8, 0, wscale=7) + deliver(0)
        + send(0, flow, 0x82) + deliver(1)
    )  # fmt: skip


def data(flow: int, marked: bool) -> bytes:
    """1170 bytes, a millisecond, the ACK."""
    wait = bytes([16, 1])
    return send(0, flow, 0x4F, 1) + deliver(1, marked) + wait + send(1, flow, 0x82) + deliver(0)


def late(flow: int, units: int) -> bytes:
    """1170 bytes that are under way for so many times 31 us, the ACK, another ACK."""
    wait = bytes([16 | 32, units])
    acks = (send(1, flow, 0x82) + deliver(0)) * 2
    return send(0, flow, 0x4F, 1) + wait + deliver(1) + acks + bytes([16, 1])


def tail(flow: int) -> bytes:
    """1170 bytes, which are kept in place 0."""
    return send(0, flow, 0x4F, 1) + b"\0" + deliver(1)


def both_ways(flow: int) -> bytes:
    return data(flow, True) + send(1, flow, 0xEF, 1) + deliver(0, True)


FIN = send(0, 0x0B, 0) + deliver(1) + send(1, 0x0B, 0) + deliver(0)
SWEEP = bytes([17, 200, 19, 255])
IPV6 = 0x90
ENGINES = {
    "established": b"\0" + handshake(0) + data(0, True) * 4,
    "ipv6": b"\0" + handshake(IPV6) + data(IPV6, True) * 3 + data(IPV6, False) * 2,
    "closed": b"\0" + handshake(0) + both_ways(0) * 3 + FIN + SWEEP,
    "on-ramp": b"\2" + handshake(0) + late(0, 1) * 3 + late(0, 200) * 6 + data(0, False) * 3,
    "tail-probe": b"\x10" + handshake(0) + data(0, True) * 2
    + tail(0) + bytes([27 | 32, 0]) * 2 + deliver(1),
    "windows-in-other-units": b"\1" + handshake(0) + data(0, True) * 3,
}

# fuzz-trace.c: how to print, then segments and frames.


def traced(back: bool, flags: int, seq: int, ack: int, size: int, bits: int, ce: int = 0) -> bytes:
    """Of 100 bytes 'seq' and 'ack', of 30 'size'."""
    fields = [back, flags, 50 + seq, 50 + ack, size, 1, 0, bits, 7, 36, ce, 30 + ack]
    return bytes([18, *fields])


BOTH, ACK = 0x60 | 16, 0x10
TALK = (
    traced(False, 2, 0, 0, 0, BOTH)
    + traced(True, 0x12, 0, 0, 0, BOTH)
    + b"".join(
        traced(False, ACK, i * 14, 0, 48, 2) + traced(True, ACK, 0, i * 14 + 14, 0, 8, i)
        for i in range(8)
    )
)
TRACES = {
    "conversation": b"\0" + TALK,
    "again": b"\1" + TALK + traced(False, ACK, 56, 0, 48, 2) * 2,
    "frames": b"\2" + b"".join(bytes([128 + len(p) - 7]) + p[7:] for p in PACKETS.values()),
}


def pack(folder: Path, file: Path) -> None:
    inputs = sorted((path.read_bytes() for path in folder.iterdir()), key=lambda x: (len(x), x))
    file.write_text("".join(base64.b64encode(data).decode() + "\n" for data in inputs))


def unpack(directory: Path) -> None:
    written: dict[str, dict[str, bytes]] = {
        "match": {str(i): text.encode() for i, text in enumerate(MATCHES)},
        "packet": PACKETS,
        "engine": ENGINES,
        "resume": {},
        "netlink": {},
        "trace": TRACES,
    }
    for file in CORPUS.glob("*.txt"):
        seeds = written.setdefault(file.stem, {})
        for i, line in enumerate(file.read_text().splitlines()):
            seeds[f"corpus-{i}"] = base64.b64decode(line)
    for target, seeds in written.items():
        folder = directory / f"seeds-{target}"
        folder.mkdir(parents=True, exist_ok=True)
        # A fuzzer may be reading what is right already.
        for old in folder.iterdir():
            if seeds.get(old.name) != old.read_bytes():
                old.unlink()
        for name, seed in seeds.items():
            if not (folder / name).exists():
                (folder / name).write_bytes(seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pack", type=Path, metavar="FOLDER",
        help="write the inputs in FOLDER, base64 a line, to the file OUT, as in corpus/",
    )  # fmt: skip
    parser.add_argument("out", type=Path, help="a directory; gets a folder for each fuzzer")
    args = parser.parse_args()
    if args.pack:
        pack(args.pack, args.out)
    else:
        unpack(args.out)


if __name__ == "__main__":
    main()
