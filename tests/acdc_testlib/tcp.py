# SPDX-License-Identifier: Apache-2.0

"""TCP segments as the tests write them (with scapy and acdc_scapy) and read them (with
a small parser of their own that trusts no field and sums every checksum in full).

The wire format is that of docs/wire-format.rst, written down here and in acdc_scapy a
second time on purpose: the tests must notice when datapath/acdc-wire.h changes it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from acdc_scapy import KIND, Capability, Feedback, Report
from acdc_scapy import option as acdc_option

GUEST_MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
GUEST_IP, PEER_IP = "10.1.0.1", "10.2.0.1"
GUEST_IP6, PEER_IP6 = "fd00:1::1", "fd00:2::1"
# A port recalls for ten minutes which addresses have shown the capability.  These have not.
PLAIN_IP, PLAIN_IP6 = "10.2.0.2", "fd00:2::2"

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3

# The low nibble of byte 12 of the TCP header.
RES_FACK = 0x08
RES_ECN_SHIFT = 1
CAP_NOT_ECT = 1
CAP_RESUME = 2
CAP_TIMING = 4
CAP_SCALES = 8
RES_NOT_MARKED = CE << RES_ECN_SHIFT
RES_AE = 0x01

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << i for i in range(8))

EXID = b"\xac\xdc"
VERSION = 1

Option = tuple[str | int, object]

MOD = 1 << 32


def capability(version: int = VERSION, flags: int = 0) -> Option:
    return acdc_option(Capability(version=version, flags=flags))


def feedback(ecn_bytes: int, total_bytes: int) -> Option:
    return acdc_option(Feedback(ecn_bytes=ecn_bytes % MOD, total_bytes=total_bytes % MOD))


def report(ecn_bytes: int, total_bytes: int, mark: int, ago_us: int, clock_us: int) -> Option:
    counts = {"ecn_bytes": ecn_bytes % MOD, "total_bytes": total_bytes % MOD}
    return acdc_option(Report(**counts, mark=mark, ago_us=ago_us, clock_us=clock_us % MOD))


@dataclass(frozen=True)
class Encap:
    """What is below TCP."""

    v6: bool = False
    vlans: tuple[int, ...] = ()

    @property
    def header(self) -> int:
        return 14 + 4 * len(self.vlans) + (40 if self.v6 else 20)

    def __str__(self) -> str:
        tags = ("", "-vlan", "-qinq")[len(self.vlans)]
        return f"v{6 if self.v6 else 4}{tags}"


V4, V6 = Encap(), Encap(v6=True)
ENCAPS = [Encap(v6, vlans) for v6 in (False, True) for vlans in ((), (10,), (20, 10))]


def link(encap: Encap, from_guest: bool) -> Packet:
    """Ethernet and VLAN headers, service tag first."""
    src, dst = (GUEST_MAC, PEER_MAC) if from_guest else (PEER_MAC, GUEST_MAC)
    packet: Packet = Ether(src=src, dst=dst)
    for i, vid in enumerate(encap.vlans):
        if i == 0 and len(encap.vlans) > 1:
            packet.type = 0x88A8
        packet = packet / Dot1Q(vlan=vid)
    return packet


def network(
    encap: Encap, from_guest: bool, ecn: int = 0, plain: bool = False, **fields: object
) -> Packet:
    """Everything up to the IP header.  'plain': the peer's host has no AC/DC."""
    if encap.v6:
        src, dst = GUEST_IP6, PLAIN_IP6 if plain else PEER_IP6
        src, dst = (src, dst) if from_guest else (dst, src)
        return link(encap, from_guest) / IPv6(src=src, dst=dst, tc=ecn, fl=0xABCDE, **fields)
    src, dst = GUEST_IP, PLAIN_IP if plain else PEER_IP
    src, dst = (src, dst) if from_guest else (dst, src)
    return link(encap, from_guest) / IP(src=src, dst=dst, tos=ecn, id=1, flags="DF", **fields)


def tcp(
    sport: int,
    dport: int,
    flags: int,
    seq: int,
    ack: int = 0,
    window: int = 65535,
    options: Sequence[Option] = (),
    reserved: int = 0,
) -> Packet:
    return TCP(
        sport=sport,
        dport=dport,
        flags=flags | (reserved & RES_AE) << 8,
        reserved=reserved >> 1,
        seq=seq % MOD,
        ack=ack % MOD,
        window=window,
        options=list(options),
    )


def frame(packet: Packet, payload: bytes = b"") -> bytes:
    return bytes(packet / Raw(payload) if payload else packet)


def checksum(data: bytes) -> int:
    """RFC 1071, in full."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class MalformedError(AssertionError):
    """A frame that the switch sent makes no sense."""


@dataclass(frozen=True)
class Segment:
    """A TCP segment that came out of the switch."""

    raw: bytes
    fixed: bytes  # Of all headers what nobody may change.
    vlans: tuple[int, ...]
    v6: bool
    dscp: int
    ecn: int
    sport: int
    dport: int
    seq: int
    ack: int
    reserved: int
    flags: int
    window: int
    options: tuple[tuple[int, bytes], ...]  # Without EOL and NOP.
    option_offsets: tuple[int, ...]
    payload: bytes
    ip_checksum_ok: bool
    tcp_checksum_ok: bool

    @property
    def fack(self) -> bool:
        return bool(self.reserved & RES_FACK)

    @property
    def guest_ecn(self) -> int:
        """The guest's codepoint kept in the reserved bits."""
        return (self.reserved >> RES_ECN_SHIFT) & 3

    @property
    def ae(self) -> bool:
        return bool(self.reserved & RES_AE)

    def _ours(self, length: int) -> bytes | None:
        found = [v for k, v in self.options if k == KIND and v[:2] == EXID]
        if len(found) > 1:
            raise MalformedError(f"more than one AC/DC option: {self.options}")
        return found[0][2:] if found and len(found[0]) == length - 2 else None

    @property
    def capability(self) -> bytes | None:
        """version, flags, 0, 0."""
        return self._ours(8)

    @property
    def feedback(self) -> tuple[int, int] | None:
        """(ECN_bytes, total_bytes)."""
        body = self._ours(12)
        ecn_bytes, total_bytes = struct.unpack("!II", body) if body else (0, 0)
        return (ecn_bytes, total_bytes) if body else None

    @property
    def report(self) -> Report | None:
        body = self._ours(20)
        return Report(EXID + body) if body else None

    @property
    def has_acdc(self) -> bool:
        """Some trace of AC/DC, which no guest may see."""
        return bool(self.reserved & ~RES_AE) or any(
            k == KIND and v[:2] == EXID for k, v in self.options
        )

    @property
    def guest_options(self) -> tuple[tuple[int, bytes], ...]:
        return tuple(o for o in self.options if not (o[0] == KIND and o[1][:2] == EXID))

    def option(self, kind: int) -> bytes | None:
        return next((v for k, v in self.options if k == kind), None)

    @property
    def mss(self) -> int | None:
        value = self.option(2)
        return int.from_bytes(value, "big") if value else None

    @property
    def wscale(self) -> int | None:
        value = self.option(3)
        return value[0] if value else None


def parse(raw: bytes) -> Segment | None:
    """None if it is not TCP directly over IPv4 or IPv6."""
    (ethertype,) = struct.unpack_from("!H", raw, 12)
    ofs, vlans = 14, []
    fixed = b""
    while ethertype in (0x8100, 0x88A8):
        tci, ethertype = struct.unpack_from("!HH", raw, ofs)
        vlans.append(tci & 0xFFF)
        ofs += 4
    ip_ok = True
    if ethertype == 0x0800:
        ihl = (raw[ofs] & 15) * 4
        (total,) = struct.unpack_from("!H", raw, ofs + 2)
        if raw[ofs + 9] != socket.IPPROTO_TCP or struct.unpack_from("!H", raw, ofs + 6)[0] & 0x3FFF:
            return None
        tos, l4 = raw[ofs + 1], ofs + ihl
        ip_ok = checksum(raw[ofs:l4]) == 0
        end, addresses = ofs + total, raw[ofs + 12 : ofs + 20]
        # Without TOS, total length, header checksum.
        fixed = raw[: ofs + 1] + raw[ofs + 4 : ofs + 10] + raw[ofs + 12 : l4]
    elif ethertype == 0x86DD:
        (length,) = struct.unpack_from("!H", raw, ofs + 4)
        if raw[ofs + 6] != socket.IPPROTO_TCP:
            return None
        tos = struct.unpack_from("!H", raw, ofs)[0] >> 4 & 0xFF
        l4, end, addresses = ofs + 40, ofs + 40 + length, raw[ofs + 8 : ofs + 40]
        # Without traffic class and payload length.
        fixed = raw[:ofs] + bytes([raw[ofs + 1] & 15]) + raw[ofs + 2 : ofs + 4] + raw[ofs + 6 : l4]
    else:
        return None
    if end > len(raw):
        raise MalformedError(f"IP says {end} bytes, the frame has {len(raw)}: {raw.hex()}")
    sport, dport, seq, ack, byte12, flags, window = struct.unpack_from("!HHIIBBH", raw, l4)
    hlen = (byte12 >> 4) * 4
    if hlen < 20 or l4 + hlen > end:
        raise MalformedError(f"TCP header of {hlen} bytes: {raw.hex()}")
    options, offsets = [], []
    i, stop = l4 + 20, l4 + hlen
    while i < stop and raw[i] != 0:
        if raw[i] == 1:
            i += 1
            continue
        if i + 1 >= stop or raw[i + 1] < 2 or i + raw[i + 1] > stop:
            raise MalformedError(f"bad TCP options: {raw[l4 + 20 : stop].hex()}")
        options.append((raw[i], raw[i + 2 : i + raw[i + 1]]))
        offsets.append(i - l4)
        i += raw[i + 1]
    pseudo = addresses + struct.pack("!IxxxB", end - l4, socket.IPPROTO_TCP)
    return Segment(
        raw=raw,
        # ... and the urgent pointer.
        fixed=fixed + raw[l4 + 18 : l4 + 20],
        vlans=tuple(vlans),
        v6=ethertype == 0x86DD,
        dscp=tos >> 2,
        ecn=tos & 3,
        sport=sport,
        dport=dport,
        seq=seq,
        ack=ack,
        reserved=byte12 & 15,
        flags=flags,
        window=window,
        options=tuple(options),
        option_offsets=tuple(offsets),
        payload=raw[l4 + hlen : end],
        ip_checksum_ok=ip_ok,
        tcp_checksum_ok=checksum(pseudo + raw[l4:end]) == 0,
    )
