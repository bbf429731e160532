# SPDX-License-Identifier: Apache-2.0

"""Guests with Accurate ECN (RFC 9768), as Linux 7.0: AE, CWR and ECE are a counter of marked
packets, and each packet that the switch makes or edits says what the guest's said."""

from __future__ import annotations

from typing import Any

import pytest

from acdc_testlib.tcp import (
    ACK,
    CWR,
    ECE,
    ECT0,
    ECT1,
    PSH,
    RES_AE,
    RES_ECN_SHIFT,
    RES_FACK,
    SYN,
    Encap,
    Option,
    Segment,
)
from acdc_testlib.wire import Conn, Wire, pattern, same

ACE = range(8)


def fields(ace: int) -> dict[str, Any]:
    """As from_guest() and from_peer() take them."""
    flags = (CWR if ace & 2 else 0) | (ECE if ace & 1 else 0)
    return {"flags": ACK | flags, "reserved": RES_AE if ace & 4 else 0}


def ace_of(segment: Segment) -> int:
    flags = segment.flags
    return (4 if segment.ae else 0) + (2 if flags & CWR else 0) + (1 if flags & ECE else 0)


def opened(wire: Wire, encap: Encap) -> Conn:
    """Both ends have it: the SYN asks with all three flags, the answer says that the SYN
    came as Not-ECT."""
    c = Conn(wire, encap, timestamps=True)
    (syn,) = wire.egress(c.guest_syn(flags=SYN | ECE | CWR, reserved=RES_AE))
    assert ace_of(syn) == 7
    (synack,) = wire.ingress(c.peer_synack(flags=SYN | ACK | CWR))
    assert ace_of(synack) == 2
    c.established()
    return c


def full_options(c: Conn) -> list[Option]:
    """Timestamps, a SACK block and the AccECN option leave no room for a PACK."""
    base = c.peer_nxt + 5000
    nops: list[Option] = [("NOP", None), ("NOP", None)]
    blocks = tuple((base + 2000 * i) % 2**32 for i in range(2))
    # Kind 172, three counters of 24 bits.
    return [*c.timestamp(), *nops, ("SAck", blocks), (172, bytes(9)), ("NOP", None)]


@pytest.mark.parametrize("ace", ACE)
def test_a_fack_counts_as_the_ack_behind_it(wire: Wire, ip: Encap, ace: int) -> None:
    c = opened(wire, ip)
    c.peer_data(3000)
    sent = c.from_guest(options=full_options(c), **fields(ace))
    fack, out = wire.egress(sent)
    assert fack.fack
    assert (ace_of(fack), ace_of(out)) == (ace, ace)
    same(out, sent, "ecn")


@pytest.mark.parametrize("ace", ACE)
def test_a_fack_beside_data_counts_as_the_data(wire: Wire, ip: Encap, ace: int) -> None:
    c = opened(wire, ip)
    c.peer_data(3000)
    full = pattern(0, c.segment_size)
    fack, out = wire.egress(c.from_guest(full, **fields(ace)))
    assert fack.fack
    assert (ace_of(fack), ace_of(out)) == (ace, ace)


@pytest.mark.parametrize("ace", ACE)
def test_packets_from_the_guest_keep_the_counter(wire: Wire, ip: Encap, ace: int) -> None:
    c = opened(wire, ip)
    c.peer_data(3000)
    for payload in (b"", pattern(0, 500)):
        sent = c.from_guest(payload, ecn=ECT1, **fields(ace))
        (out,) = wire.egress(sent)
        same(out, sent, "ecn", "reserved", "options")
        assert out.feedback is not None or payload
        assert ace_of(out) == ace


@pytest.mark.parametrize("ace", ACE)
def test_a_window_update_keeps_the_counter(wire: Wire, ip: Encap, ace: int) -> None:
    """A FACK that lets the guest send more."""
    c = opened(wire, ip)
    c.guest_data(10 * c.segment_size)
    more = fields(ace)
    more["reserved"] |= RES_FACK
    sent = c.peer_ack_frame(5 * c.segment_size, **more)
    (got,) = wire.ingress(sent)
    same(got, sent, "ecn", "reserved", "options", "window")
    assert ace_of(got) == ace


@pytest.mark.parametrize("ace", ACE)
def test_packets_to_the_guest_keep_the_counter(wire: Wire, ip: Encap, ace: int) -> None:
    c = opened(wire, ip)
    own = ECT0 << RES_ECN_SHIFT
    more = fields(ace)
    more["reserved"] |= own
    (got,) = wire.ingress(c.from_peer(pattern(0, 500), **more))
    assert ace_of(got) == ace
    c.guest_data(4 * c.segment_size)
    for size in (1, c.segment_size):
        (got,) = c.peer_ack(size, **more)
        assert ace_of(got) == ace
    (got,) = wire.ingress(c.from_peer(pattern(0, 500), **more))
    assert (ace_of(got), got.ecn) == (ace, ECT0)


@pytest.mark.parametrize("ace", ACE)
def test_small_windows_leave_the_counter(wire: Wire, ip: Encap, ace: int) -> None:
    """They ask by CWR for an ACK, but not where that counts."""
    wire.set(**{"other_config:small-windows": "true", "max_window": 3000})
    c = opened(wire, ip)
    more = fields(ace)
    more["flags"] |= PSH
    for i in range(3):
        (out,) = wire.egress(c.from_guest(pattern(i, 1), **more))
        assert ace_of(out) == ace
