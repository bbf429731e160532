# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 5: a change of policy reaches connections that exist,
once ovs-vsctl has ended the next packet, and breaks none; rules within a tenant (section 8)."""

from __future__ import annotations

from typing import Any

import pytest

from acdc_testlib.tcp import V4, Encap
from acdc_testlib.wire import Conn, Counted, Wire, pattern


def window(c: Conn, marked: int = 0) -> int:
    (got,) = c.peer_ack(c.mss, marked=marked)
    return got.window


def test_max_window(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap).open()
    c.guest_data(10 * c.mss)
    assert window(c) >= c.window_field(10 * c.mss)
    wire.set(max_window=6000)
    assert window(c) == c.window_field(6000)
    wire.set(max_window=4000)
    assert window(c) == c.window_field(4000)


def test_beta(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(10 * c.mss)
    wire.set(beta=0.5)
    assert window(c, marked=c.mss) == c.window_field(5 * c.mss // 2)


def test_mode(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(5 * c.mss)
    wire.set(mode="observe")
    (got,) = wire.ingress(c.from_peer(ack=c.guest_isn + 1, fb=(0, 0)))
    assert got.window == c.WINDOW
    wire.set(mode="enforce")
    assert window(c) <= c.window_field(11 * c.mss)


def test_enabled(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    c.guest_data(5 * c.mss)
    wire.set(enabled=False)
    assert window(c) == c.WINDOW
    wire.set(enabled=True)
    assert window(c) <= c.window_field(15 * c.mss)


def test_police(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip).open()
    beyond = c.from_guest(b"x" * c.mss, seq=c.guest_nxt + 40 * c.mss)
    assert len(wire.egress(beyond)) == 1
    wire.set(police=True)
    # The law now knows that the guest went that far; what lies further?
    beyond = c.from_guest(b"x" * c.mss, seq=c.guest_nxt + 200 * c.mss)
    assert wire.egress(beyond) == []
    wire.set(police=False)
    assert len(wire.egress(beyond)) == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"algorithm": "none"},
        {"algorithm": "reno"},
        {"algorithm": "cubic"},
        {"enabled": False},
        {"mode": "observe"},
        {"max_window": 3000},
        {"police": True},
        {"beta": 0},
    ],
    ids=str,
)
def test_no_change_breaks_a_connection(wire: Wire, ip: Encap, columns: dict[str, Any]) -> None:
    """Data in both directions arrives before, during and after."""
    c = Conn(wire, ip, timestamps=True).open()
    for step in range(3):
        if step == 1:
            wire.set(**columns)
        elif step == 2:
            wire.reset()
        sent, received = c.guest_sent, c.peer_sent
        out = [s for s in c.guest_data(3 * c.segment_size) if not s.fack]
        assert b"".join(s.payload for s in out) == pattern(sent, 3 * c.segment_size)
        got = c.peer_data(2 * c.segment_size)
        assert b"".join(s.payload for s in got) == pattern(received, 2 * c.segment_size)
        (last,) = c.peer_ack()
        assert last.window > 0
        assert len([s for s in c.guest_ack() if not s.fack]) == 1


@pytest.mark.parametrize(
    "columns", [{"enabled": False}, {"algorithm": "none"}, {"mode": "observe"}], ids=str
)
def test_a_renegotiated_scale_is_kept(wire: Wire, ip: Encap, columns: dict[str, Any]) -> None:
    """The guest goes on to read windows by the scale it was given."""
    c = Conn(wire, ip, peer_scale=14)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    scale = got.wscale
    assert scale is not None
    assert scale < 14
    c.established()
    c.guest_ack()
    wire.set(**columns)
    (got,) = wire.ingress(c.from_peer(window=2, fb=(0, 0)))
    assert got.window == 2 << (14 - scale)


def rule(wire: Wire, match: str, priority: int = 1, **columns: object) -> None:
    """A rule of the tenant."""
    settings = [f"{k}={v}" for k, v in columns.items()]
    wire.changed = True
    wire.ovs.vsctl(
        *("--", "--id=@rule", "create", "acdc_rule", f"priority={priority}"),
        f'match="{match}"',
        *settings,
        *("--", "add", "acdc", wire.tenant, "rules", "@rule"),
    )


def test_rule_for_a_remote_port(wire: Wire, ip: Encap) -> None:
    rule(wire, "remote_port=5432", max_window=4000)
    c = Conn(wire, ip, peer_port=5432).open()
    c.guest_data(5 * c.mss)
    assert window(c) == c.window_field(4000)
    other = Conn(wire, ip, peer_port=5433).open()
    other.guest_data(5 * c.mss)
    assert window(other) >= c.window_field(10 * c.mss)


def test_rule_for_a_remote_prefix(wire: Wire) -> None:
    rule(wire, "remote=10.2.0.0/16", initial_window=2)
    rule(wire, "remote=10.3.0.0/16", initial_window=3)
    c = Conn(wire, V4)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == 2 * c.mss


def test_rule_of_higher_priority_wins(wire: Wire) -> None:
    rule(wire, "remote_port=1-65535", priority=10, initial_window=2)
    rule(wire, "local_port=1-65535", priority=20, initial_window=4)
    rule(wire, "remote=10.0.0.0/8", priority=5, initial_window=6)
    c = Conn(wire, V4)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == 4 * c.mss


def test_rule_reaches_connections_that_exist(wire: Wire) -> None:
    c = Conn(wire, V4).open()
    c.guest_data(5 * c.mss)
    rule(wire, f"local_port={c.guest_port}", max_window=3000)
    assert window(c) == c.window_field(3000)


def test_counters_count_since_the_tenant_was_made(wire: Wire) -> None:
    n = Counted(wire)
    Conn(wire, V4).open()
    wire.set(beta=0.5)
    assert n["flows_created"] == 1
    wire.reset()
    assert wire.counters()["flows_created"] == 0
