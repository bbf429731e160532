# SPDX-License-Identifier: Apache-2.0

"""One guest port and one uplink of a bridge, the test at the far end of both.

The test plays the guest's TCP on the guest port, and on the uplink the network
with another AC/DC switch behind it."""

from __future__ import annotations

import dataclasses
import itertools
import struct
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from scapy.layers.inet import UDP
from scapy.packet import Packet

from acdc_testlib.netns import Tap
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import (
    ACK,
    ECE,
    ECT0,
    ENCAPS,
    MOD,
    NOT_ECT,
    RES_FACK,
    SYN,
    V4,
    Encap,
    Option,
    Segment,
    capability,
    feedback,
    frame,
    network,
    parse,
    tcp,
)

TENANT = "blue"


class Wire:
    """The bridge and the two devices."""

    def __init__(
        self,
        ovs: Ovs,
        number: int = 0,
        mtu: int = 1500,
        tenant: str = TENANT,
        vnet: bool = False,
        headers: bool = False,
    ) -> None:
        """With 'headers' the rules make Open vSwitch look at those: for ports alone it
        needs no cache of connections."""
        self.ovs = ovs
        self.mtu = mtu
        self.tenant = tenant
        self.guest_name, self.uplink_name = f"guest{number}", f"uplink{number}"
        self.changed = False
        self._globals: set[str] = set()
        self._marks = itertools.count()
        self._ports = itertools.count(10000)
        bridge = f"br{number}"
        ovs.add_bridge(bridge, normal=False)
        self.guest = self.add_guest(bridge, vnet)
        self.uplink = self.add_uplink(bridge, vnet)
        ovs.connect(bridge, self.guest_name, self.uplink_name)
        for name in (self.guest_name, self.uplink_name) if headers else ():
            match = f"in_port={ovs.ofport(name)},ip,nw_dst=192.0.2.1"
            ovs.ofctl("add-flow", bridge, f"priority=40000,{match},actions=drop")
        self._settle = 0.0
        if datapath_type() == "system":
            self._warm_up()

    def add_guest(self, bridge: str, vnet: bool) -> Tap:
        return self.ovs.add_tap(bridge, self.guest_name, self.mtu, vnet)

    def add_uplink(self, bridge: str, vnet: bool) -> Tap:
        return self.ovs.add_tap(bridge, self.uplink_name, self.mtu, vnet)

    def _warm_up(self) -> None:
        """The kernel datapath sends the first packet of each kind by way of
        ovs-vswitchd, and others overtake it: let there be flows for all kinds
        that stay, and give what remains the time to arrive."""
        self.ovs.vsctl("set", "open_vswitch", ".", "other_config:max-idle=3600000")
        self._settle = 0.02
        for encap in ENCAPS:
            for tap, from_guest in ((self.guest, True), (self.uplink, False)):
                tap.send(bytes(network(encap, from_guest) / UDP()))
        for tap in (self.guest, self.uplink):
            tap.send(self._mark())
        time.sleep(0.5)
        self.guest.drain()
        self.uplink.drain()

    def close(self) -> None:
        """Gives the devices back; without it they go with the OVS."""
        self.ovs.remove_tap(self.guest)
        self.ovs.remove_tap(self.uplink)

    def port(self) -> int:
        """A TCP port that no test has used."""
        return next(self._ports)

    def _mark(self) -> bytes:
        """A frame of an ethertype for local experiments."""
        header = bytes.fromhex("02000000000202000000000188b5")
        return header + struct.pack("!I", next(self._marks)) + bytes(46)

    def _exchange(self, source: Tap, sink: Tap, frames: Sequence[bytes]) -> list[bytes]:
        """Sends the frames and returns what came out at the other side.  A
        frame of our own at the end tells that this is all.  It takes two: the
        userspace datapath sorts each batch by flow, so the first may overtake
        frames of its batch, but the second comes in a later one."""
        result = []
        deadline = time.monotonic() + 10
        for batch in (frames, ()):
            mark = self._mark()
            for data in batch:
                source.send(data)
            time.sleep(self._settle)
            source.send(mark)
            while (got := sink.receive(deadline - time.monotonic())) != mark:
                if got is None:
                    raise TimeoutError(f"the switch forwards nothing\n{self.ovs.log_tail()}")
                result.append(got)
        back = source.receive()
        assert back is None, f"something went back to where the frames came from: {back!r}"
        return result

    def egress_raw(self, *frames: bytes) -> list[bytes]:
        """The guest sends; what the network gets."""
        return self._exchange(self.guest, self.uplink, frames)

    def ingress_raw(self, *frames: bytes) -> list[bytes]:
        """The network sends; what the guest gets."""
        return self._exchange(self.uplink, self.guest, frames)

    def egress(self, *frames: bytes, bad_checksum: bool = False) -> list[Segment]:
        return _segments(self.egress_raw(*frames), bad_checksum)

    def ingress(self, *frames: bytes, bad_checksum: bool = False) -> list[Segment]:
        segments = _segments(self.ingress_raw(*frames), bad_checksum)
        for segment in segments:
            assert not segment.has_acdc, f"AC/DC is visible to the guest: {segment}"
        return segments

    # Configuration and counters.

    def set(self, **columns: object) -> None:
        """Columns of the tenant's row; reset() takes them back."""
        self.changed = True
        self.ovs.set_tenant(self.tenant, **columns)

    def set_global(self, name: str, value: object) -> None:
        """Open_vSwitch other_config; reset() takes it back."""
        self.changed = True
        self._globals.add(name)
        self.ovs.set_global(**{name: value})

    def bind(self, tenant: str | None) -> None:
        self.changed = True
        self.ovs.bind(tenant, self.guest_name)

    def reset(self) -> None:
        """The guest port bound to a new tenant with the defaults."""
        with self.ovs.change() as change:
            if row := change.find("ACDC", self.tenant):
                row.delete()
            change.set(change.root, **{f"other_config:{name}": None for name in self._globals})
        self._globals.clear()
        with self.ovs.change() as change:
            change.create("ACDC", name=self.tenant)
            guest = change.get("Interface", self.guest_name)
            change.set(guest, **{"other_config:acdc-tenant": self.tenant})
        self.changed = False

    def counters(self) -> dict[str, int]:
        return tenant_counters(self.ovs, self.tenant)

    def flows(self, *filters: str) -> list[dict[str, Any]]:
        return self.ovs.acdc("dump-flows", *filters)

    def flush(self) -> None:
        self.ovs.appctl("acdc/flush")


def tenant_counters(ovs: Ovs, tenant: str) -> dict[str, int]:
    (row,) = ovs.acdc("show", tenant)["tenants"]
    return row["counters"]


def _segments(frames: Sequence[bytes], bad_checksum: bool) -> list[Segment]:
    segments = []
    for data in frames:
        segment = parse(data)
        assert segment is not None, f"not TCP: {data.hex()}"
        assert segment.ip_checksum_ok, f"IP checksum: {data.hex()}"
        assert segment.tcp_checksum_ok != bad_checksum, f"TCP checksum: {data.hex()}"
        assert all(
            ofs % 4 == 0
            for ofs, (kind, value) in zip(segment.option_offsets, segment.options, strict=True)
            if kind == 253 and value[:2] == b"\xac\xdc"
        ), f"AC/DC option not aligned: {segment}"
        segments.append(segment)
    return segments


class Counted:
    """How far counters of the tenant moved since this was made."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._before = wire.counters()

    def __getitem__(self, name: str) -> int:
        return self._wire.counters()[name] - self._before[name]

    def all(self) -> dict[str, int]:
        now = self._wire.counters()
        return {k: v - self._before[k] for k, v in now.items() if v != self._before[k]}


def both_ways(wire: Wire, *packets: Packet | bytes) -> None:
    """Each passes bit for bit, from the guest and to the guest."""
    frames = [bytes(p) for p in packets]
    # The switch sorts a batch by flow: the order is OVS's affair.
    assert sorted(wire.egress_raw(*frames)) == sorted(frames)
    assert sorted(wire.ingress_raw(*frames)) == sorted(frames)


def untouched(wire: Wire, reason: str, *packets: Packet | bytes) -> None:
    """... and counts for 'reason' and nothing else."""
    n = Counted(wire)
    both_ways(wire, *packets)
    seen = n.all()
    # The end of each exchange is marked by two frames that are no TCP.
    seen["untouched_not_tcp"] -= 4
    assert {k: v for k, v in seen.items() if v} == {reason: 2 * len(packets)}


class Conn:
    """A connection of the guest, both ends played by the test.

    The guest's stack knows nothing of AC/DC.  The peer is what an AC/DC switch
    makes of a peer's packets: it shows the capability, with 'flags', unless 'capable'
    is false, marks everything ECT(0), and sends feedback where it is told to."""

    WINDOW: ClassVar[int] = 65535

    def __init__(
        self,
        wire: Wire,
        encap: Encap = V4,
        *,
        capable: bool = True,
        flags: int = 0,
        active: bool = True,
        mss: int | None = None,
        guest_scale: int | None = 7,
        peer_scale: int | None = 7,
        sack: bool = True,
        timestamps: bool = False,
        guest_ecn: bool = False,
        guest_isn: int | None = None,
        peer_isn: int | None = None,
        guest_port: int | None = None,
        peer_port: int = 5001,
    ) -> None:
        self.wire = wire
        self.encap = encap
        self.capable = capable
        self.plain = not capable
        self.flags = flags
        self.active = active
        # Linux lets a device send 4 bytes more than its MTU for a VLAN tag, but
        # nothing more for a service tag (packet_extra_vlan_len_allowed()).
        tags = 8 if len(encap.vlans) > 1 else 0
        self.mss = mss or wire.mtu - (60 if encap.v6 else 40) - tags
        self.guest_scale, self.peer_scale = guest_scale, peer_scale
        self.sack, self.timestamps, self.guest_ecn = sack, timestamps, guest_ecn
        self.guest_port = guest_port or wire.port()
        self.peer_port = peer_port
        # Sequence numbers: next to send by each end, what the other has.
        self.guest_isn = self.guest_port * 77777 if guest_isn is None else guest_isn
        self.peer_isn = self.guest_port * 99991 if peer_isn is None else peer_isn
        self.guest_nxt, self.peer_nxt = self.guest_isn, self.peer_isn
        self.guest_acked = 0  # By the peer: the guest's payload bytes.
        self.fb_ecn = 0  # The peer's feedback so far.
        self.ts = 1000

    # Frames.

    def timestamp(self) -> list[Option]:
        """What all segments have but SYNs, if timestamps are in use."""
        if not self.timestamps:
            return []
        self.ts += 1
        return [("NOP", None), ("NOP", None), ("Timestamp", (self.ts, self.ts))]

    def syn_options(self, scale: int | None) -> list[Option]:
        options: list[Option] = [("MSS", self.mss)]
        if self.sack:
            options += [("NOP", None), ("NOP", None), ("SAckOK", b"")]
        if self.timestamps:
            self.ts += 1
            options += [("NOP", None), ("NOP", None), ("Timestamp", (self.ts, 0))]
        if scale is not None:
            options += [("NOP", None), ("WScale", scale)]
        return options

    def from_guest(
        self,
        payload: bytes = b"",
        *,
        flags: int = ACK,
        seq: int | None = None,
        ack: int | None = None,
        window: int | None = None,
        options: Sequence[Option] | None = None,
        ecn: int = NOT_ECT,
        reserved: int = 0,
    ) -> bytes:
        """A segment as the guest sends it."""
        return frame(
            network(self.encap, True, ecn, self.plain)
            / tcp(
                self.guest_port,
                self.peer_port,
                flags,
                self.guest_nxt if seq is None else seq,
                self.peer_nxt if ack is None else ack,
                self.WINDOW if window is None else window,
                self.timestamp() if options is None else options,
                reserved,
            ),
            payload,
        )

    def from_peer(
        self,
        payload: bytes = b"",
        *,
        flags: int = ACK,
        seq: int | None = None,
        ack: int | None = None,
        window: int | None = None,
        options: Sequence[Option] | None = None,
        fb: tuple[int, int] | None = None,
        ecn: int | None = None,
        reserved: int = 0,
    ) -> bytes:
        """A segment as it arrives from the network."""
        opts = self.timestamp() if options is None else list(options)
        if fb is not None:
            opts.append(feedback(*fb))
        if ecn is None:
            ecn = ECT0 if self.capable else NOT_ECT
        return frame(
            network(self.encap, False, ecn, self.plain)
            / tcp(
                self.peer_port,
                self.guest_port,
                flags,
                self.peer_nxt if seq is None else seq,
                self.guest_nxt if ack is None else ack,
                self.WINDOW if window is None else window,
                opts,
                reserved,
            ),
            payload,
        )

    # The handshake, one step at a time.

    def guest_syn(self, **fields: Any) -> bytes:
        fields.setdefault("flags", SYN | (ECE | 0x80 if self.guest_ecn else 0))
        fields.setdefault("options", self.syn_options(self.guest_scale))
        fields.setdefault("seq", self.guest_isn)
        return self.from_guest(ack=0, **fields)

    def guest_synack(self, **fields: Any) -> bytes:
        fields.setdefault("flags", SYN | ACK | (ECE if self.guest_ecn else 0))
        fields.setdefault("options", self.syn_options(self.guest_scale))
        return self.from_guest(seq=self.guest_isn, ack=self.peer_isn + 1, **fields)

    def peer_syn(self, **fields: Any) -> bytes:
        fields.setdefault("flags", SYN | (ECE | 0x80 if self.guest_ecn else 0))
        fields.setdefault("options", self._peer_syn_options())
        return self.from_peer(seq=self.peer_isn, ack=0, **fields)

    def peer_synack(self, **fields: Any) -> bytes:
        fields.setdefault("flags", SYN | ACK | (ECE if self.guest_ecn else 0))
        fields.setdefault("options", self._peer_syn_options())
        return self.from_peer(seq=self.peer_isn, ack=self.guest_isn + 1, **fields)

    def _peer_syn_options(self) -> list[Option]:
        options = self.syn_options(self.peer_scale)
        return options + [capability(flags=self.flags)] if self.capable else options

    def open(self) -> Self:
        """The whole handshake; each packet must come out once."""
        if self.active:
            assert len(self.wire.egress(self.guest_syn())) == 1
            assert len(self.wire.ingress(self.peer_synack())) == 1
        else:
            assert len(self.wire.ingress(self.peer_syn())) == 1
            assert len(self.wire.egress(self.guest_synack())) == 1
        self.established()
        if self.active:
            assert len(self.wire.egress(self.from_guest())) == 1
        else:
            fb = (0, 0) if self.capable else None
            assert len(self.wire.ingress(self.from_peer(fb=fb))) == 1
        return self

    def established(self) -> None:
        """Both SYNs are acknowledged: count on from there."""
        self.guest_nxt = self.guest_isn + 1
        self.peer_nxt = self.peer_isn + 1

    # Data and ACKs.

    @property
    def segment_size(self) -> int:
        """Payload of a full segment."""
        return self.mss - (12 if self.timestamps else 0)

    @property
    def guest_sent(self) -> int:
        return self.guest_nxt - self.guest_isn - 1

    @property
    def peer_sent(self) -> int:
        return self.peer_nxt - self.peer_isn - 1

    def guest_data(self, size: int, **fields: Any) -> list[Segment]:
        """The guest sends 'size' new bytes in full segments."""
        frames = []
        while size:
            n = min(size, self.segment_size)
            frames.append(self.from_guest(pattern(self.guest_sent, n), **fields))
            self.guest_nxt += n
            size -= n
        return self.wire.egress(*frames)

    def peer_data(self, size: int, **fields: Any) -> list[Segment]:
        """The peer sends 'size' new bytes in full segments."""
        frames = []
        while size:
            n = min(size, self.segment_size)
            frames.append(self.from_peer(pattern(self.peer_sent, n), **fields))
            self.peer_nxt += n
            size -= n
        return self.wire.ingress(*frames)

    def peer_ack_frame(
        self, size: int | None = None, marked: int = 0, fack: bool = False, **fields: Any
    ) -> bytes:
        """The peer acknowledges 'size' more bytes (all, without it), with
        feedback that 'marked' of them arrived CE."""
        left = self.guest_sent - self.guest_acked
        self.guest_acked += left if size is None else size
        assert self.guest_acked <= self.guest_sent
        self.fb_ecn += marked
        if self.capable:
            fields.setdefault("fb", (self.fb_ecn, self.guest_acked))
        if fack:
            fields["reserved"] = fields.get("reserved", 0) | RES_FACK
        return self.from_peer(ack=self.guest_isn + 1 + self.guest_acked, **fields)

    def peer_ack(
        self, size: int | None = None, marked: int = 0, fack: bool = False, **fields: Any
    ) -> list[Segment]:
        return self.wire.ingress(self.peer_ack_frame(size, marked, fack, **fields))

    def guest_ack(self, **fields: Any) -> list[Segment]:
        return self.wire.egress(self.from_guest(**fields))

    # What the switch thinks.

    def info(self) -> dict[str, Any]:
        """The flow in acdc/dump-flows."""
        found = [
            f
            for f in self.wire.flows(f"tenant={self.wire.tenant}")
            if int(f["local_port"]) == self.guest_port and int(f["remote_port"]) == self.peer_port
        ]
        assert len(found) == 1, f"{len(found)} flows of port {self.guest_port}"
        return found[0]

    @property
    def tracked(self) -> bool:
        return any(
            int(f["local_port"]) == self.guest_port
            for f in self.wire.flows(f"tenant={self.wire.tenant}")
        )

    def window_field(self, window: int) -> int:
        """The field that offers 'window' bytes: ceil(wnd >> scale)."""
        scale = self.peer_scale or 0
        return -(-window >> scale)


def pattern(start: int, size: int) -> bytes:
    """Bytes 'start'... of an endless stream in which misplaced, repeated and
    changed bytes are visible."""
    first, skip = divmod(start, 4)
    words = [((first + i) * 2654435761) % MOD for i in range((skip + size) // 4 + 1)]
    return struct.pack(f"!{len(words)}I", *words)[skip : skip + size]


def same(out: Segment, sent: bytes, *but: str) -> None:
    """Nothing but the named fields (and the checksum) differs from what was
    sent."""
    before = parse(sent)
    assert before is not None
    skip = {"raw", "ip_checksum_ok", "tcp_checksum_ok", "option_offsets", *but}
    for field in dataclasses.fields(Segment):
        if field.name not in skip:
            a, b = getattr(before, field.name), getattr(out, field.name)
            assert a == b, f"{field.name}: sent {a!r}, got {b!r}"
    if "options" in but:
        assert out.guest_options == before.guest_options
