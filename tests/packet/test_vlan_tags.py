# SPDX-License-Identifier: Apache-2.0

"""VLAN tags: all of them are read, and connections in different VLANs are different
ones.  A tag frees no packet from its connection, though: a switch may move it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from acdc_testlib.tcp import ACK, RES_FACK, RST, V4, Encap, feedback
from acdc_testlib.wire import Conn, Counted, Wire, pattern, untouched

FORGED = feedback(0, 1 << 31)


def flood(c: Conn, segments: int = 30) -> list[bytes]:
    """The guest sends far more than its window."""
    return [
        c.from_guest(pattern(c.guest_sent + i * c.mss, c.mss), seq=c.guest_nxt + i * c.mss)
        for i in range(segments)
    ]


def flows(wire: Wire, port: int) -> list[dict[str, Any]]:
    return [f for f in wire.flows("tenant=blue") if int(f["local_port"]) == port]


def policed(wire: Wire, c: Conn) -> bool:
    """Whether that comes to an end."""
    n = Counted(wire)
    out = wire.egress_raw(*flood(c))
    assert n["policed_packets"] == 30 - len(out)
    return len(out) <= 12


@pytest.mark.parametrize("tags", [1, 2, 3, 5, 8])
def test_priority_tags(wire: Wire, ip: Encap, tags: int) -> None:
    """However many: receivers take them off, so the engine reads what is behind."""
    wire.set(police=True)
    n = Counted(wire)
    c = Conn(wire, ip, mss=1000).open()
    c.encap = replace(ip, vlans=(0,) * tags)
    (out,) = c.guest_ack(options=[FORGED], reserved=RES_FACK)
    assert out.feedback == (0, 0)
    assert not out.fack
    assert n["forged"] == 1
    assert policed(wire, c)
    assert n["untouched_midstream"] == 0


def test_too_many_tags(wire: Wire, ip: Encap) -> None:
    """Nobody needs them.  From a guest they are refused; for one they are nothing."""
    c = Conn(wire, ip).open()
    c.encap = replace(ip, vlans=(0,) * 9)
    n = Counted(wire)
    assert wire.egress_raw(c.from_guest(options=[FORGED])) == []
    assert n["refused"] == 1
    c.encap = replace(ip, vlans=(7,) * 9)
    assert wire.egress_raw(c.from_guest(options=[FORGED])) == []
    assert n["refused"] == 2
    sent = c.from_peer(fb=(0, 0))
    assert wire.ingress_raw(sent) == [sent]
    assert n["refused"] == 2


def test_same_ends_in_two_vlans(wire: Wire, ip: Encap) -> None:
    """Each has its numbers and its window."""
    wire.set(police=True)
    port = wire.port()
    vlans = [(), (10,), (20,), (10, 20)]
    conns = [
        Conn(
            wire,
            replace(ip, vlans=v),
            guest_port=port,
            guest_isn=i << 27,
            peer_isn=i << 28,
            mss=1000,
        )
        for i, v in enumerate(vlans)
    ]
    for c in conns:
        c.open()
    assert len(flows(wire, port)) == 4
    n = Counted(wire)
    for _ in range(3):
        for i, c in enumerate(conns):
            assert len(c.guest_data(2 * c.mss)) == 2
            (got,) = c.peer_ack(marked=500 * i)
            assert got.window > 0
            (got,) = c.peer_data(700)
            assert got.payload == pattern(c.peer_sent - 700, 700)
            (out,) = c.guest_ack()
            assert out.feedback == (0, c.peer_sent)
    assert n["policed_packets"] == 0
    assert n["feedback_bad"] == 0
    assert n["ack_optimistic"] == 0
    found = {int(f["fb_ce"]) for f in flows(wire, port)}
    assert found == {0, 1500, 3000, 4500}
    shown = [tuple(f["vlans"]) for f in flows(wire, port)]
    assert sorted(shown) == sorted(vlans)
    text = wire.ovs.appctl("acdc/dump-flows", f"tenant={wire.tenant}")
    assert f"{conns[3].guest_port}>" in text.split(" vlans=10,20 ")[0].splitlines()[-1]


@pytest.mark.parametrize(("opened", "then"), [((10,), (20,)), ((), (10,)), ((10, 20), ())])
def test_another_tag(wire: Wire, ip: Encap, opened: tuple[int, ...], then: tuple[int, ...]) -> None:
    """The window holds; feedback does not come so, nor does an end."""
    wire.set(police=True)
    c = Conn(wire, replace(ip, vlans=opened)).open()
    c.guest_data(2 * c.mss)
    before = c.info()
    c.encap = replace(ip, vlans=then)
    n = Counted(wire)
    (got,) = wire.ingress(c.from_peer(ack=c.guest_isn + 1, fb=(0, 2 * c.mss)))
    assert got.window
    wire.egress(c.from_guest(flags=RST | ACK))
    assert n["pack_received"] == 0
    assert n["untouched_midstream"] == 1
    after = c.info()
    for key in ("state", "wnd", "fb_total"):
        assert after[key] == before[key], key
    assert policed(wire, c)


def test_native_vlan(wire: Wire, ip: Encap) -> None:
    """The guest tags what its switch takes for the same VLAN as what has no tag."""
    wire.set(police=True)
    c = Conn(wire, replace(ip, vlans=(5,)))
    wire.egress(c.guest_syn())
    c.encap = ip
    (got,) = wire.ingress(c.peer_synack())
    assert not got.has_acdc
    c.established()
    c.guest_data(2 * c.mss)
    (got,) = c.peer_ack(marked=2 * c.mss)
    info = c.info()
    assert info["state"] == "established"
    assert info["fb_ce"] == 2 * c.mss
    c.encap = replace(ip, vlans=(5,))
    assert policed(wire, c)


def test_many_vlans(wire: Wire) -> None:
    """Connections that differ in nothing else are few; those that only began make
    place."""
    port = wire.port()
    for vid in range(1, 20):
        wire.egress(Conn(wire, replace(V4, vlans=(vid,)), guest_port=port).guest_syn())
    assert len(flows(wire, port)) == 4
    wire.set(police=True)
    c = Conn(wire, replace(V4, vlans=(100,)), guest_port=port).open()
    assert policed(wire, c)
    assert len(flows(wire, port)) == 4


def test_tags_of_no_ip(wire: Wire) -> None:
    arp = bytes(12) + bytes.fromhex("8100000a810000140806") + bytes(46)
    untouched(wire, "untouched_not_tcp", arp)
