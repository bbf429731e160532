# SPDX-License-Identifier: Apache-2.0
"""Scapy and the engine agree on what is TCP and where its options are: on a
generated capture, on the corpus of the parser's fuzzer, and on both changed at
random."""

from __future__ import annotations

import random
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

from scapy.layers.inet import IP, TCP, TCPOptions
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from acdc_testlib.capture import generate
from acdc_testlib.tcp import ACK, FIN, RST, SYN

FUZZ = Path(__file__).resolve().parent
BUILD = FUZZ.parents[1] / "build" / "fuzz"
BATCH = 1000
LENGTH, NOT_TCP, OPTIONS = "untouched_length", "untouched_not_tcp", "untouched_options"
REASONS = {4: "untouched_fragment", 44: "untouched_fragment", 50: "untouched_ipsec",
           51: "untouched_ipsec"}  # fmt: skip


def find_ip(frame: bytes) -> tuple[Packet, int] | str:
    """The outermost IP header and where it is."""
    if len(frame) < 14:
        return LENGTH
    layer: Packet = Ether(frame)
    at = 14
    tags_end = 14 + 4 * 8
    while isinstance(layer.payload, Dot1Q) and at < tags_end:
        if len(frame) < at + 4:
            return LENGTH
        layer, at = layer.payload, at + 4
    ethertype = layer.fields.get("type")  # 802.3 has none.
    if ethertype in (0x8100, 0x88A8):
        return LENGTH if at < tags_end else "refused"
    if ethertype not in (0x0800, 0x86DD):
        return NOT_TCP
    # With a whole header, of the version that the ethertype says.
    ip = layer.payload
    v6 = ethertype == 0x86DD
    if not isinstance(ip, IPv6 if v6 else IP) or len(frame) < at + (40 if v6 else 20):
        return LENGTH
    return (ip, at) if ip.version == (6 if v6 else 4) else LENGTH


def find_tcp(frame: bytes) -> tuple[int, int, int, int] | str:
    """IP version, where it is, where TCP is and where the packet ends."""
    found = find_ip(frame)
    if isinstance(found, str):
        return found
    ip, at = found
    if ip.version == 4:
        l4, end, proto = at + ip.ihl * 4, at + ip.len, ip.proto
        if ip.ihl < 5 or l4 > len(frame) or end < l4:
            return LENGTH
        if ip.frag or ip.flags.MF:
            return "untouched_fragment"
        if proto == 44:
            return NOT_TCP
    else:
        l4, end, proto = at + 40, at + 40 + ip.plen, ip.nh
        while proto in (0, 43, 60):
            if l4 + 8 > len(frame):
                return LENGTH
            # All three begin alike.  Not what follows: scapy fails on a routing
            # header of less than three bytes.
            extension = IPv6ExtHdrDestOpt(frame[l4 : l4 + 8])
            l4, proto = l4 + 8 * (extension.len + 1), extension.nh
            if l4 > end or l4 > len(frame):
                return LENGTH
    if proto != 6:
        return REASONS.get(proto, NOT_TCP) if proto != 4 else NOT_TCP
    return ip.version, at, l4, end


def option_size(kind: int, value: object) -> int:
    """On the wire, of what scapy understood."""
    if isinstance(value, bytes):
        return 2 + len(value)
    if kind == 5 and isinstance(value, tuple):
        return 2 + 4 * len(value)
    form = TCPOptions[0][kind][1]
    return 2 + (struct.calcsize(form) if form else len(bytes(value or b"")))  # type: ignore[call-overload]


def reference(frame: bytes) -> str:
    """What parse.c should say."""
    found = find_tcp(frame)
    if isinstance(found, str):
        return found
    version, at, l4, end = found
    if end > len(frame) or end - l4 < 20:
        return LENGTH
    segment = TCP(frame[l4:end])
    header = segment.dataofs * 4
    if header < 20 or l4 + header > end:
        return LENGTH
    flags = int(segment.flags) & 0xFF
    kind_of_segment = flags & (SYN | FIN | RST)
    if kind_of_segment not in (SYN, RST) and not (kind_of_segment in (0, FIN) and flags & ACK):
        return "untouched_flags"

    mss = wscale = ws = ts = sack = cap = fb = has = 0
    pos = 20
    for name, value in segment.options:
        kind = TCPOptions[1].get(name, name)
        if kind == 0:
            break
        if kind == 1:
            pos += 1
            continue
        raw = frame[l4 + pos : l4 + header]
        # TCP-AO's is an object of its own, with defaults for what is missing.
        ao = kind == 29 and len(raw) > 1
        size = max(2, raw[1]) if ao else option_size(kind, value)
        raw = raw[:size]
        if len(raw) < size or raw[1] != size:
            return OPTIONS
        # Scapy leaves bytes where the length is not the option's.
        whole = {2: 4, 3: 3, 4: 2, 8: 10}.get(kind, size)
        if size != whole or (kind == 5 and (size - 2) % 8):
            return OPTIONS
        if kind in (19, 29):
            return "untouched_signed"
        if kind == 2:
            mss, has = value, has | 1
        elif kind == 3:
            wscale, ws, has = value, pos + 2, has | 2
        elif kind == 4:
            has |= 4
        elif kind == 5:
            sack, has = pos, has | 8
        elif kind == 8:
            ts, has = pos, has | 16
        elif kind == 253 and raw[2:4] == b"\xac\xdc":
            if size == 8 and not cap:
                cap, has = pos, has | 64
            elif size == 12 and not fb:
                fb, has = pos, has | 32
            else:
                has |= 128
        else:
            has |= 4096
        pos += size
    return (
        f"ip {version} at {at} tcp at {l4} header {header} payload {end - l4 - header} "
        f"flags {flags} mss {mss} wscale {wscale} at {ws} ts {ts} sack {sack} cap {cap} fb {fb} "
        f"has {has}"
    )


def engine(frames: list[bytes]) -> list[str]:
    text = "".join(f"{frame.hex()}\n" for frame in frames)
    done = subprocess.run([BUILD / "parse"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def changed(rng: random.Random, frame: bytes) -> bytes:
    """Some bytes of the headers, perhaps cut short or padded."""
    data = bytearray(frame)
    for _ in range(rng.choice([0, 1, 1, 2, 4, 10])):
        at = rng.randrange(min(len(data), 12), min(len(data), 110) + 1)
        if at < len(data):
            data[at] = rng.choice([0, 1, 2, 5, 8, 10, 253, 255, data[at] ^ 1 << rng.randrange(8)])
    if rng.random() < 0.1:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data) + bytes(rng.choice([0, 0, 0, 6]))


def test_scapy_agrees(fuzz_seconds: float) -> None:
    subprocess.run(["make", "-s", "-C", str(FUZZ), "parse", "seeds"], check=True)
    corpus = [path.read_bytes()[7:] for path in sorted((BUILD / "seeds-packet").iterdir())]
    frames = [frame for _, frame in generate(1000)] + corpus
    rng = random.Random(1)
    seen = Counter[str]()
    batch = frames
    stop = time.monotonic() + fuzz_seconds / 5
    while True:
        for frame, got in zip(batch, engine(batch), strict=True):
            want = reference(frame)
            assert got == want, frame.hex()
            seen[got.split()[0]] += 1
        if time.monotonic() > stop:
            break
        batch = [changed(rng, rng.choice(frames)) for _ in range(BATCH)]
    print(f"{sum(seen.values())} packets: {dict(seen)}")
    # None of the verdicts was missed.
    assert set(seen) == {"ip", NOT_TCP, LENGTH, OPTIONS, "untouched_flags", "untouched_signed",
                         "untouched_fragment", "untouched_ipsec"}  # fmt: skip
