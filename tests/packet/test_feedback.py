# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 3: PACK and FACK on both sides, and what may not be forged."""

from __future__ import annotations

import struct

import pytest

from acdc_scapy import Capability, Feedback
from acdc_scapy import option as acdc_option
from acdc_testlib.tcp import (
    ACK,
    CE,
    ECT0,
    EXID,
    KIND,
    NOT_ECT,
    PSH,
    RES_ECN_SHIFT,
    RES_FACK,
    Encap,
    Option,
    capability,
    feedback,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same

NOPS: list[Option] = [("NOP", None), ("NOP", None)]
FORGED = 0x0E
"""All three reserved bits that are ours."""


def sack(*blocks: int) -> list[Option]:
    return [*NOPS, ("SAck", tuple(blocks))]


# The receiving side: feedback on what the guest sends.


def test_pack_says_what_arrived(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap).open()
    sent = c.from_guest()
    (out,) = wire.egress(sent)
    same(out, sent, "ecn", "options")
    assert out.feedback == (0, 0)
    c.peer_data(3 * c.mss)
    (out,) = c.guest_ack()
    assert out.feedback == (0, 3 * c.mss)
    c.peer_data(c.mss, ecn=CE)
    (out,) = c.guest_ack()
    assert out.feedback == (c.mss, 4 * c.mss)
    c.peer_data(100)
    c.peer_data(200, ecn=CE)
    (out,) = c.guest_ack()
    assert out.feedback == (c.mss + 200, 4 * c.mss + 300)


def test_ce_on_a_pure_ack_has_no_bytes(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    wire.ingress(c.from_peer(ecn=CE, fb=(0, 0)))
    (out,) = c.guest_ack()
    assert out.feedback == (0, 0)


def test_pack_on_every_pure_ack(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip, timestamps=True).open()
    c.peer_data(1000)
    for _ in range(5):
        (out,) = c.guest_ack()
        assert out.feedback == (0, 1000)


@pytest.mark.parametrize("timestamps", [False, True])
def test_pack_beside_the_guests_options(wire: Wire, ip: Encap, timestamps: bool) -> None:
    c = Conn(wire, ip, timestamps=timestamps).open()
    c.peer_data(1000)
    base = c.peer_nxt + 5000
    options = [*c.timestamp(), *sack(base, base + 1000)]
    sent = c.from_guest(options=options)
    (out,) = wire.egress(sent)
    same(out, sent, "ecn", "options")
    assert out.feedback == (0, 1000)


def test_full_option_space_gives_a_fack(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap, timestamps=True).open()
    c.peer_data(2 * c.segment_size)
    c.peer_data(c.segment_size, ecn=CE)
    base = c.peer_nxt + 5000
    options = [*c.timestamp(), *sack(base, base + 1000, base + 2000, base + 3000)]
    sent = c.from_guest(options=options)
    n = Counted(wire)
    fack, out = wire.egress(sent)
    assert fack.fack
    assert fack.feedback == (c.segment_size, 3 * c.segment_size)
    assert (fack.flags, fack.payload, fack.ecn) == (ACK, b"", ECT0)
    assert (fack.seq, fack.ack, fack.window) == (out.seq, out.ack, out.window)
    assert fack.option(8) == out.option(8)
    assert fack.vlans == encap.vlans
    same(out, sent, "ecn")
    assert n["fack_sent"] == 1
    assert n["pack_sent"] == 0


def test_data_with_room_carries_a_pack(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap).open()
    c.peer_data(2000, ecn=CE)
    sent = c.from_guest(pattern(0, 700), flags=ACK | PSH)
    (out,) = wire.egress(sent)
    same(out, sent, "ecn", "options")
    assert out.feedback == (2000, 2000)


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("vlans", [(), (10,)], ids=["untagged", "vlan"])
def test_pack_up_to_the_mtu(wire: Wire, ip: Encap, vlans: tuple[int, ...], over: int) -> None:
    encap = Encap(ip.v6, vlans)
    c = Conn(wire, encap).open()
    c.peer_data(2 * c.mss)
    room = wire.mtu - (40 if encap.v6 else 20) - 20 - 12
    sent = c.from_guest(pattern(0, room + over))
    out = wire.egress(sent)
    if over:
        assert [s.fack for s in out] == [True, False]
        same(out[1], sent, "ecn")
    else:
        assert len(out) == 1
        assert out[0].feedback == (0, 2 * c.mss)
        assert len(out[0].raw) == encap.header - (40 if encap.v6 else 20) + wire.mtu


def test_pack_leaves_room_for_a_second_tag(wire: Wire, ip: Encap) -> None:
    """A frame that the device takes is not made one that it drops."""
    encap = Encap(ip.v6, (20, 10))
    c = Conn(wire, encap).open()
    for less in range(0, 24, 4):
        c.peer_data(2 * c.mss)
        payload = pattern(0, c.mss - less)
        out = wire.egress(c.from_guest(payload))
        assert out[-1].payload == payload
        assert len(out[-1].raw) <= wire.mtu + 14


def test_full_data_gives_a_fack_after_two_segments(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap, timestamps=True).open()
    size = c.segment_size
    c.guest_ack()
    c.peer_data(size)
    assert [s.fack for s in c.guest_data(size)] == [False]
    c.peer_data(size)
    fack, data = c.guest_data(size)
    assert fack.fack
    assert not data.fack
    assert data.payload == pattern(size, size)
    assert data.feedback is None
    assert fack.feedback == (0, 2 * size)
    assert (fack.flags, fack.payload, fack.ecn) == (ACK, b"", ECT0)
    assert (fack.seq, fack.ack, fack.window) == (data.seq, data.ack, data.window)
    assert fack.option(8) == data.option(8)
    assert fack.vlans == encap.vlans
    # Nothing new: nothing to say.
    assert [s.fack for s in c.guest_data(3 * size)] == [False] * 3
    c.peer_data(5 * size)
    assert [s.fack for s in c.guest_data(2 * size)] == [True, False, False]


def test_full_data_gives_a_fack_when_the_ce_state_changes(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_ack()
    c.peer_data(100)
    assert [s.fack for s in c.guest_data(c.mss)] == [False]
    c.peer_data(100, ecn=CE)
    fack, _data = c.guest_data(c.mss)
    assert fack.feedback == (100, 200)
    c.peer_data(100, ecn=CE)
    assert [s.fack for s in c.guest_data(c.mss)] == [False]
    c.peer_data(100)
    fack, _data = c.guest_data(c.mss)
    assert fack.feedback == (200, 400)


def test_counts_survive_the_wrap_of_sequence_numbers(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip, guest_isn=2**32 - 1500, peer_isn=2**32 - 4000).open()
    for i in range(1, 6):
        (got,) = c.peer_data(1400, ecn=CE if i % 2 else ECT0)
        assert got.payload == pattern(1400 * (i - 1), 1400)
        (out,) = c.guest_ack()
        assert out.feedback == (1400 * ((i + 1) // 2), 1400 * i)
    c.guest_data(4 * c.mss)
    (got,) = c.peer_ack(3 * c.mss, marked=0)
    assert got.ack == (c.guest_isn + 1 + 3 * c.mss) % 2**32
    assert c.info()["fb_total"] == 3 * c.mss


def test_retransmissions_to_the_guest_are_counted_bytes(wire: Wire, ip: Encap) -> None:
    """total_bytes are bytes that arrived: the peer compares it with what it
    sent, retransmissions included."""
    c = Conn(wire, ip).open()
    again = c.from_peer(pattern(0, 1000))
    c.peer_data(1000)
    wire.ingress(again)
    (out,) = c.guest_ack()
    assert out.feedback == (0, 2000)


# The sending side: feedback from the network.


@pytest.mark.parametrize("timestamps", [False, True])
def test_pack_is_taken_out(wire: Wire, encap: Encap, timestamps: bool) -> None:
    c = Conn(wire, encap, timestamps=timestamps).open()
    c.guest_data(3000)
    n = Counted(wire)
    sent = c.peer_ack_frame()
    (got,) = wire.ingress(sent)
    same(got, sent, "ecn", "options", "window")
    assert n["pack_received"] == 1
    sent = c.from_peer(pattern(0, 500), fb=(0, 3000))
    (got,) = wire.ingress(sent)
    same(got, sent, "ecn", "options", "window")
    assert n["pack_received"] == 2


def test_pack_beside_sack_blocks_is_taken_out(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip, timestamps=True).open()
    c.guest_data(5 * c.segment_size)
    base = c.guest_isn + 1
    blocks = sack((base + 2 * c.segment_size) % 2**32, (base + 3 * c.segment_size) % 2**32)
    sent = c.peer_ack_frame(c.segment_size, options=[*c.timestamp(), *blocks])
    (got,) = wire.ingress(sent)
    same(got, sent, "ecn", "options", "window")


def test_fack_ends_here(wire: Wire, encap: Encap) -> None:
    """It says nothing about the window: the guest sees nothing."""
    c = Conn(wire, encap).open()
    c.guest_data(2 * c.mss)
    c.peer_ack()
    n = Counted(wire)
    assert c.peer_ack(fack=True) == []
    assert n["fack_received"] == 1
    assert n["window_updates"] == 0


def test_fack_that_moves_the_window_becomes_a_window_update(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap, timestamps=True).open()
    c.guest_data(10 * c.segment_size)
    n = Counted(wire)
    sent = c.peer_ack_frame(5 * c.segment_size, fack=True)
    (got,) = wire.ingress(sent)
    same(got, sent, "ecn", "reserved", "options", "window")
    assert (got.flags, got.payload) == (ACK, b"")
    # The right edge moves by at least what was acknowledged.
    assert got.window >= c.window_field(10 * c.mss)
    assert n["fack_received"] == 1
    assert n["window_updates"] == 1


def test_fack_is_never_a_duplicate_ack(wire: Wire, ip: Encap) -> None:
    """With data in flight, the ack number and window the guest saw last."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    (last,) = c.peer_ack(4 * c.mss)
    for marked in (0, 100, 100, 0):
        for got in c.peer_ack(0, marked=marked, fack=True):
            assert (got.ack, got.window) != (last.ack, last.window)
            last = got


def test_fack_with_a_larger_window_of_its_own(wire: Wire, ip: Encap) -> None:
    """The peer opened its window: the guest hears of it."""
    c = Conn(wire, ip).open()
    c.guest_data(4 * c.mss)
    (last,) = c.peer_ack(2 * c.mss, window=20)
    assert last.window == 20
    (got,) = c.peer_ack(0, fack=True, window=60)
    assert got.window == 60
    assert got.ack == last.ack
    assert c.peer_ack(0, fack=True, window=60) == []


def test_fack_that_moves_no_edge(wire: Wire, ip: Encap) -> None:
    """More acknowledged, and just as much less window: nothing new to send."""
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    (last,) = c.peer_ack(2 * c.mss, window=100)
    assert last.window == 100
    assert c.peer_ack(10 << 7, fack=True, window=90) == []
    (got,) = c.peer_ack(10 << 7, fack=True, window=81)
    assert got.window == 81
    assert got.ack == (c.guest_isn + 1 + 2 * c.mss + (20 << 7)) % 2**32


def test_fack_with_an_old_ack_number(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    c.peer_ack(6 * c.mss)
    old = c.from_peer(
        ack=c.guest_isn + 1 + 3 * c.mss, fb=(0, 3 * c.mss), reserved=RES_FACK, window=60000
    )
    n = Counted(wire)
    assert wire.ingress(old) == []
    assert n["feedback_stale"] == 1


# Forgery.


def forged_ack(c: Conn, **fields: object) -> bytes:
    options = [*NOPS, feedback(2**31, 2**31)]
    return c.from_guest(options=options, reserved=FORGED, **fields)  # type: ignore[arg-type]


def test_forged_feedback_is_replaced(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap).open()
    c.peer_data(1000)
    n = Counted(wire)
    (out,) = wire.egress(forged_ack(c))
    assert out.feedback == (0, 1000)
    assert not out.fack
    assert out.guest_ecn == NOT_ECT
    assert out.payload == b""
    assert n["forged"] == 1


def test_forged_feedback_on_data(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap).open()
    c.guest_ack()
    payload = pattern(0, c.mss - 12)
    options = [feedback(7, 7)]
    for reserved in (0, FORGED):
        sent = c.from_guest(payload, options=options, reserved=reserved)
        (out,) = wire.egress(sent)
        assert out.feedback in (None, (0, 0))
        assert out.payload == payload
        assert out.reserved == NOT_ECT


@pytest.mark.parametrize("bits", [0x02, 0x04, 0x06, 0x08, 0x0A, 0x0C, 0x0E])
def test_forged_reserved_bits(wire: Wire, ip: Encap, bits: int) -> None:
    c = Conn(wire, ip).open()
    sent = c.from_guest(b"x", reserved=bits)
    (out,) = wire.egress(sent)
    same(out, sent, "ecn", "reserved", "options")
    assert out.reserved == 0


def test_forged_capability_on_a_syn(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap)
    options = [*c.syn_options(7), capability(flags=0xFF)]
    (out,) = wire.egress(c.guest_syn(options=options, reserved=FORGED))
    (honest,) = wire.egress(Conn(wire, encap).guest_syn())
    assert out.capability == honest.capability
    assert out.reserved == honest.reserved
    assert out.guest_options == honest.guest_options


def test_forged_capability_on_a_synack(wire: Wire, ip: Encap) -> None:
    """The SYN did not show it: the SYN-ACK shows none."""
    c = Conn(wire, ip, active=False, capable=False)
    wire.ingress(c.peer_syn())
    (out,) = wire.egress(c.guest_synack(options=[*c.syn_options(7), capability()]))
    assert not out.has_acdc
    c.established()
    (out,) = wire.egress(forged_ack(c))
    assert not out.has_acdc
    assert out.ecn == NOT_ECT


def test_forged_feedback_without_a_connection(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap)
    n = Counted(wire)
    sent = c.from_guest(b"payload", options=[*NOPS, feedback(1, 1)], reserved=FORGED)
    (out,) = wire.egress(sent)
    same(out, sent, "options", "reserved")
    assert not out.has_acdc
    assert n["forged"] == 1


@pytest.mark.parametrize("what", ["two", "odd length", "capability"])
def test_forged_odd_options(wire: Wire, ip: Encap, what: str) -> None:
    """Everything with our experiment identifier goes, whatever its length."""
    choices: dict[str, list[Option]] = {
        "two": [feedback(1, 1), feedback(2, 2)],
        "odd length": [(KIND, EXID + b"\1"), ("NOP", None), ("NOP", None), ("NOP", None)],
        "capability": [capability()],
    }
    options = choices[what]
    c = Conn(wire, ip).open()
    for conn in (c, Conn(wire, ip)):
        sent = conn.from_guest(b"payload", options=options)
        (out,) = wire.egress(sent)
        ours = [v for k, v in out.options if k == KIND and v[:2] == EXID]
        assert out.payload == b"payload"
        if conn is c:
            assert out.feedback in (None, (0, 0))
            assert len(ours) == bool(out.feedback)
        else:
            assert ours == []


def test_option_of_another_experiment_stays(wire: Wire, encap: Encap) -> None:
    """Kind 253 is not ours alone (RFC 6994)."""
    other = (KIND, b"\x12\x34\1\2\3\4\5\6\7\x08")
    c = Conn(wire, encap).open()
    sent = c.from_guest(options=[other])
    (out,) = wire.egress(sent)
    assert (other[0], other[1]) in out.guest_options
    assert out.feedback == (0, 0)
    sent = c.from_peer(b"x", options=[other])
    (got,) = wire.ingress(sent)
    assert got.options == (other,)


def test_nothing_of_ours_reaches_the_guest_of_an_unknown_connection(
    wire: Wire, encap: Encap
) -> None:
    """For example after a restart, when the far side still sends feedback."""
    c = Conn(wire, encap)
    sent = c.from_peer(b"payload", fb=(5, 5), reserved=ECT0 << RES_ECN_SHIFT)
    (got,) = wire.ingress(sent)
    same(got, sent, "options", "reserved", "ecn")
    assert wire.ingress(c.from_peer(fb=(5, 5), reserved=RES_FACK)) == []


def test_other_experiment_identifier(wire: Wire, ip: Encap) -> None:
    wire.set_global("acdc-exid", 0xABCD)
    c = Conn(wire, ip)
    (out,) = wire.egress(c.guest_syn())
    ours = out.option(KIND)
    assert ours is not None
    assert ours[:3] == b"\xab\xcd\1"
    assert out.ecn == ECT0
    syn_options = [*c.syn_options(7), acdc_option(Capability(exid=0xABCD))]
    (got,) = wire.ingress(c.peer_synack(options=syn_options))
    assert got.option(KIND) is None
    c.established()

    def said(packet: bytes) -> tuple[int, ...]:
        """The one report on it."""
        (out,) = wire.egress(packet)
        (value,) = [value for kind, value in out.options if kind == KIND]
        return struct.unpack("!HII", value)

    c.peer_data(1000)
    assert said(c.from_guest()) == (0xABCD, 0, 1000)
    c.guest_data(3000)
    heard = acdc_option(Feedback(exid=0xABCD, ecn_bytes=0, total_bytes=3000))
    (got,) = wire.ingress(c.from_peer(options=[heard]))
    assert got.option(KIND) is None
    assert c.info()["fb_total"] == 3000
    n = Counted(wire)
    forged = acdc_option(Feedback(exid=0xABCD, ecn_bytes=7, total_bytes=7))
    assert said(c.from_guest(options=[forged])) == (0xABCD, 0, 1000)
    assert n["forged"] == 1
    # What is ours by default is another experiment's here.
    (out,) = wire.egress(c.from_guest(options=[feedback(7, 7)]))
    assert (KIND, EXID + struct.pack("!II", 7, 7)) in out.options
    assert n["forged"] == 1
