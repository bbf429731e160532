# SPDX-License-Identifier: Apache-2.0

"""Tail probes: a connection's last segment is sent again, once, if nothing acknowledges
it."""

from __future__ import annotations

import time

from acdc_testlib.tcp import ACK, ECT0, PSH, Encap, parse
from acdc_testlib.wire import Conn, Counted, Wire, pattern

PROBE = 0.1  # s


def begin(wire: Wire, encap: Encap, **kinds: bool) -> Conn:
    wire.set(tail_probe=round(PROBE * 1e6))
    return Conn(wire, encap, **kinds).open()


def send(c: Conn, size: int) -> tuple[bytes, float]:
    """The guest sends its last segment; what the network gets, and since when."""
    c.wire.guest.send(c.from_guest(pattern(c.guest_sent, size), flags=ACK | PSH))
    c.guest_nxt += size
    sent = time.monotonic()
    out = c.wire.uplink.receive(5)
    assert out is not None
    return out, sent


def test_a_lost_tail_is_sent_again_once(wire: Wire, encap: Encap) -> None:
    c = begin(wire, encap)
    n = Counted(wire)
    out, sent = send(c, 700)
    probe = c.wire.uplink.receive(5)
    assert time.monotonic() - sent >= PROBE
    assert probe == out
    segment = parse(probe)
    assert segment is not None
    assert segment.tcp_checksum_ok
    assert segment.ecn == ECT0
    assert c.wire.uplink.receive(3 * PROBE) is None
    assert n["tail_probes"] == 1
    # The answer says that it was lost: a cut, and no timeout.
    c.peer_ack(700)
    assert n["cuts_loss"] == 1
    assert n["timeouts"] == n["retransmits"] == n["tail_spurious"] == 0


def test_what_is_acknowledged_is_not_probed(wire: Wire, ip: Encap) -> None:
    c = begin(wire, ip)
    n = Counted(wire)
    send(c, 700)
    c.peer_ack(700)
    assert c.wire.uplink.receive(3 * PROBE) is None
    assert n["tail_probes"] == 0


def test_off_and_without_peer_nothing_is_probed(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    send(c, 700)
    assert c.wire.uplink.receive(3 * PROBE) is None
    c = begin(wire, ip, capable=False)
    send(c, 700)
    assert c.wire.uplink.receive(3 * PROBE) is None


def test_a_port_that_goes_leaves_nothing_behind(wire: Wire, ip: Encap) -> None:
    c = begin(wire, ip)
    send(c, 700)
    wire.bind(None)
    assert wire.uplink.receive(3 * PROBE) is None
