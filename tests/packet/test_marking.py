# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 3: ECN marking, CE hidden, the guest's codepoint restored."""

from __future__ import annotations

import pytest

from acdc_testlib.tcp import (
    ACK,
    CAP_NOT_ECT,
    CAP_RESUME,
    CAP_SCALES,
    CE,
    CWR,
    ECE,
    ECT0,
    ECT1,
    FIN,
    NOT_ECT,
    PSH,
    RES_AE,
    RES_ECN_SHIFT,
    RES_NOT_MARKED,
    RST,
    URG,
    Encap,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same

GUEST_CODEPOINTS = [NOT_ECT, ECT1, ECT0]


@pytest.mark.parametrize("codepoint", GUEST_CODEPOINTS)
def test_every_packet_is_ect_and_keeps_the_codepoint(
    wire: Wire, encap: Encap, codepoint: int
) -> None:
    c = Conn(wire, encap, guest_ecn=codepoint != NOT_ECT).open()
    data = pattern(0, 1000)
    for what, flags, payload in (
        ("pure ACK", ACK, b""),
        ("data", ACK | PSH, data),
        ("retransmission", ACK | PSH, data),
        ("urgent", ACK | URG, data),
        ("ECE", ACK | ECE, data),
        ("CWR", ACK | CWR, data),
        ("FIN", ACK | FIN, b""),
        ("RST", ACK | RST, b""),
    ):
        sent = c.from_guest(payload, flags=flags, ecn=codepoint)
        (out,) = wire.egress(sent)
        same(out, sent, "ecn", "reserved", "options")
        assert out.ecn == ECT0, what
        assert out.guest_ecn == codepoint, what
        assert not out.fack, what


def test_rst_without_ack_is_ect(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    (out,) = wire.egress(c.from_guest(flags=RST, ack=0))
    assert out.ecn == ECT0
    assert out.flags == RST


def test_dscp_stays(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    (out,) = wire.egress(c.from_guest(b"x", ecn=46 << 2 | ECT1))
    assert (out.dscp, out.ecn, out.guest_ecn) == (46, ECT0, ECT1)
    (got,) = wire.ingress(c.from_peer(b"x", ecn=46 << 2 | CE))
    assert (got.dscp, got.ecn) == (46, NOT_ECT)


@pytest.mark.parametrize("codepoint", GUEST_CODEPOINTS)
@pytest.mark.parametrize("arrives", [ECT0, CE])
def test_ce_is_hidden_and_the_codepoint_restored(
    wire: Wire, encap: Encap, codepoint: int, arrives: int
) -> None:
    c = Conn(wire, encap, guest_ecn=codepoint != NOT_ECT).open()
    for payload in (b"", pattern(0, 1000)):
        sent = c.from_peer(payload, ecn=arrives, reserved=codepoint << RES_ECN_SHIFT)
        (got,) = wire.ingress(sent)
        same(got, sent, "ecn", "reserved", "window")
        assert got.ecn == codepoint
        assert got.reserved == 0


@pytest.mark.parametrize("codepoint", [NOT_ECT, ECT1, ECT0, CE])
def test_what_was_not_marked_keeps_its_ecn_field(wire: Wire, ip: Encap, codepoint: int) -> None:
    """The codepoint CE in the reserved bits: the ECN field is the guest's."""
    c = Conn(wire, ip).open()
    sent = c.from_peer(b"x", ecn=codepoint, reserved=RES_NOT_MARKED)
    (got,) = wire.ingress(sent)
    same(got, sent, "reserved", "window")
    assert got.reserved == 0


def test_ae_bit_stays(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap)
    (out,) = wire.egress(c.guest_syn(reserved=RES_AE))
    assert out.ae
    (got,) = wire.ingress(c.peer_synack(reserved=RES_AE))
    assert got.ae
    c.established()
    (out,) = c.guest_ack(reserved=RES_AE)
    assert out.ae
    (out,) = c.guest_ack()
    assert not out.ae
    for bits in (RES_AE, RES_AE | ECT0 << RES_ECN_SHIFT):
        (got,) = wire.ingress(c.from_peer(b"x", reserved=bits))
        assert got.reserved == RES_AE
    (got,) = wire.ingress(c.from_peer(b"x"))
    assert got.reserved == 0


@pytest.mark.parametrize("guest_ecn", [False, True])
def test_without_the_capability_nothing_is_marked(
    wire: Wire, encap: Encap, guest_ecn: bool
) -> None:
    """The fallback is none, so each packet stays as it is: the guest's own ECN,
    CE, ECE and CWR included."""
    c = Conn(wire, encap, capable=False, guest_ecn=guest_ecn)
    wire.egress(c.guest_syn())
    synack = c.peer_synack()
    assert wire.ingress_raw(synack) == [synack]
    c.established()
    for codepoint in GUEST_CODEPOINTS:
        for flags in (ACK, ACK | ECE, ACK | CWR, ACK | FIN):
            out = c.from_guest(b"payload", flags=flags, ecn=codepoint)
            assert wire.egress_raw(out) == [out]
    for codepoint in (*GUEST_CODEPOINTS, CE):
        for flags in (ACK, ACK | ECE):
            got = c.from_peer(b"payload", flags=flags, ecn=codepoint)
            assert wire.ingress_raw(got) == [got]


def test_feedback_that_stops_ends_the_marking(wire: Wire, ip: Encap) -> None:
    """A mark that nobody returns is a lost congestion signal, for example when
    the far side's switch was restarted.  When it speaks again, so do we."""
    c = Conn(wire, ip, guest_ecn=True).open()
    n = Counted(wire)
    for _ in range(30):
        c.guest_data(10 * c.mss, ecn=ECT1)
        c.peer_ack(10 * c.mss, fb=None)
    assert n["feedback_lost"] == 1
    sent = c.from_guest(b"data", ecn=ECT1)
    (out,) = wire.egress(sent)
    assert out.ecn == ECT1
    wire.ingress(c.from_peer(fb=(0, c.guest_sent)))
    (out,) = wire.egress(sent)
    assert (out.ecn, out.guest_ecn) == (ECT0, ECT1)


def test_marks_are_counted(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    n = Counted(wire)
    c.guest_data(3000)
    assert n["marked_ect"] == 3
    c.peer_data(2000, ecn=CE)
    c.peer_data(500)
    assert n["ce_packets"] == 2
    assert n["ce_bytes"] == 2000
    assert n["ingress_bytes"] == 2500
    assert n["ingress_packets"] == 3
    assert n["egress_bytes"] == 3000
    assert n["egress_packets"] == 3


# The value that says Not-ECT, and the one for what the other vSwitch did not mark: without
# the capability's flag, and with it.
ENCODINGS = [(0, NOT_ECT, CE), (CAP_NOT_ECT, CE, NOT_ECT)]


@pytest.mark.parametrize("active", [True, False])
def test_the_capability_has_its_flags(wire: Wire, ip: Encap, active: bool) -> None:
    c = Conn(wire, ip, active=active)
    if not active:
        wire.ingress(c.peer_syn())
    (out,) = wire.egress(c.guest_syn() if active else c.guest_synack())
    # The answer to a SYN without RESUME has none.
    flags = CAP_NOT_ECT | CAP_RESUME | CAP_SCALES if active else CAP_NOT_ECT
    assert out.capability == bytes([1, flags, 0, 0])


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(("flags", "not_ect", "left"), ENCODINGS)
def test_what_is_noted_of_the_guests_codepoint(
    wire: Wire, ip: Encap, flags: int, not_ect: int, left: int, active: bool
) -> None:
    """Towards a vSwitch without the flag as that expects it.  A mark that the guest sets
    itself stays, and is to be counted."""
    c = Conn(wire, ip, flags=flags, active=active, guest_ecn=True).open()
    noted = {NOT_ECT: not_ect, ECT0: ECT0, ECT1: ECT1, CE: ECT0}
    for codepoint, value in noted.items():
        for payload in (b"", b"data"):
            (out,) = wire.egress(c.from_guest(payload, ecn=codepoint))
            assert (out.ecn, out.guest_ecn) == (CE if codepoint == CE else ECT0, value)
    wire.set(algorithm="none")
    for codepoint in noted:
        (out,) = wire.egress(c.from_guest(b"data", ecn=codepoint))
        assert (out.ecn, out.guest_ecn) == (codepoint, left)


@pytest.mark.parametrize("guest_ecn", [False, True])
@pytest.mark.parametrize(("flags", "not_ect", "left"), ENCODINGS)
def test_every_mark_is_counted(
    wire: Wire, encap: Encap, flags: int, not_ect: int, left: int, guest_ecn: bool
) -> None:
    """Whatever codepoint the peer's guest sent, also Not-ECT although it negotiated ECN
    (RFC 3168 section 6.1.1), and whoever set the mark."""
    c = Conn(wire, encap, flags=flags, guest_ecn=guest_ecn).open()
    n = Counted(wire)
    seen = {not_ect: NOT_ECT, ECT0: ECT0, ECT1: ECT1, left: CE}
    for i, (value, codepoint) in enumerate(seen.items(), 1):
        (got,) = c.peer_data(1000, ecn=CE, reserved=value << RES_ECN_SHIFT)
        assert (got.ecn, got.reserved) == (codepoint, 0)
        assert c.guest_ack()[-1].feedback == (1000 * i, 1000 * i)
    # Data while the guest has something in flight.
    c.guest_data(1000)
    (got,) = c.peer_data(1000, ecn=CE, reserved=not_ect << RES_ECN_SHIFT)
    assert got.ecn == NOT_ECT
    assert c.guest_ack()[-1].feedback == (5000, 5000)
    assert n["ce_packets"] == 5
    assert n["ecn_rewritten"] == 0


@pytest.mark.parametrize(("flags", "not_ect", "left"), ENCODINGS)
def test_rewritten_ecn_fields_are_counted(
    wire: Wire, ip: Encap, flags: int, not_ect: int, left: int
) -> None:
    """The path cleared what left as ECT(0), or made something else of it.  Of Not-ECT
    a vSwitch without the flag says what it says of what it never saw."""
    c = Conn(wire, ip, flags=flags).open()
    n = Counted(wire)
    noted = [ECT0, ECT1] + ([not_ect] if flags else [])
    for value in noted:
        for arrives in (NOT_ECT, ECT1):
            (got,) = c.peer_data(1000, ecn=arrives, reserved=value << RES_ECN_SHIFT)
            assert got.ecn == (NOT_ECT if value == not_ect else value)
            wire.ingress(c.from_peer(ecn=arrives, reserved=value << RES_ECN_SHIFT))
    assert n["ecn_rewritten"] == 4 * len(noted)
    for arrives in (NOT_ECT, ECT0, ECT1, CE):
        c.peer_data(1000, ecn=arrives, reserved=left << RES_ECN_SHIFT)
    assert n["ecn_rewritten"] == 4 * len(noted)
    shown = wire.ovs.appctl("acdc/show", wire.tenant)
    total = wire.counters()["ecn_rewritten"]
    assert f"ECN field rewritten on the path in {total} packets" in shown
