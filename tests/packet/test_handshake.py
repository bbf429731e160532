# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 3: the capability, ECT on SYN and SYN-ACK; section 6: the
windows of SYNs and the window scale."""

from __future__ import annotations

import time

import pytest

from acdc_testlib.tcp import ACK, CE, ECT0, NOT_ECT, SYN, V4, V6, VERSION, Encap, capability
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same

PLAIN = 1.6  # Seconds: ACDC_SYN_PLAIN_MS and a little.


def test_syn_shows_the_capability(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap)
    syn = c.guest_syn()
    (out,) = wire.egress(syn)
    same(out, syn, "options", "ecn")
    assert out.capability is not None
    assert out.capability[0] == VERSION
    assert out.capability[2:] == b"\0\0"


def test_syn_is_ect_and_keeps_the_codepoint(wire: Wire, encap: Encap) -> None:
    (out,) = wire.egress(Conn(wire, encap).guest_syn())
    assert out.ecn == ECT0
    assert out.guest_ecn == NOT_ECT


@pytest.mark.parametrize("guest_ecn", [False, True])
def test_synack_reaches_the_guest_without_trace(wire: Wire, encap: Encap, guest_ecn: bool) -> None:
    c = Conn(wire, encap, guest_ecn=guest_ecn)
    wire.egress(c.guest_syn())
    synack = c.peer_synack()
    (got,) = wire.ingress(synack)
    same(got, synack, "options", "ecn", "window")
    assert got.ecn == NOT_ECT


def test_syn_reaches_the_guest_without_trace(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap, active=False)
    syn = c.peer_syn(ecn=CE)
    (got,) = wire.ingress(syn)
    same(got, syn, "options", "ecn", "window")
    assert got.ecn == NOT_ECT


def test_synack_shows_the_capability_if_the_syn_did(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap, active=False)
    wire.ingress(c.peer_syn())
    synack = c.guest_synack()
    (out,) = wire.egress(synack)
    same(out, synack, "options", "ecn")
    assert out.capability is not None
    assert out.capability[0] == VERSION
    assert out.ecn == ECT0
    assert out.guest_ecn == NOT_ECT


def test_synack_shows_none_if_the_syn_did_not(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap, active=False, capable=False)
    syn, synack = c.peer_syn(), c.guest_synack()
    assert wire.ingress_raw(syn) == [syn]
    assert wire.egress_raw(synack) == [synack]


@pytest.mark.parametrize("active", [True, False])
def test_ecn_syn_off(wire: Wire, ip: Encap, active: bool) -> None:
    """SYN and SYN-ACK are as the guest sent them; the rest is marked."""
    wire.set(**{"other_config:ecn-syn": "false"})
    c = Conn(wire, ip, active=active)
    if active:
        (out,) = wire.egress(c.guest_syn())
        wire.ingress(c.peer_synack())
    else:
        wire.ingress(c.peer_syn())
        (out,) = wire.egress(c.guest_synack())
    assert out.capability is not None
    assert out.ecn == NOT_ECT
    c.established()
    (out,) = c.guest_ack()
    assert out.ecn == ECT0


def test_handshake_is_counted(wire: Wire, ip: Encap) -> None:
    n = Counted(wire)
    Conn(wire, ip).open()
    Conn(wire, ip, active=False).open()
    Conn(wire, ip, capable=False).open()
    assert n["flows_created"] == 3
    assert n["flows_capable"] == 2
    assert n["flows_fallback"] == 1


def test_syn_sent_again(wire: Wire, ip: Encap) -> None:
    """After a while without capability and ECT: something on the way may drop
    SYNs because of them.  Copies alone do not count."""
    c = Conn(wire, ip)
    syn = c.guest_syn()
    for _ in range(5):
        (out,) = wire.egress(syn)
        assert out.capability is not None
        assert out.ecn == ECT0
    time.sleep(PLAIN)
    n = Counted(wire)
    for _ in range(2):
        assert wire.egress_raw(syn) == [syn]
    assert n["offer_plain"] == 2


def through_a_firewall(wire: Wire, ip: Encap) -> Conn:
    """Only the SYN without capability arrives."""
    c = Conn(wire, ip, capable=False)
    wire.egress(c.guest_syn())
    time.sleep(PLAIN)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert not got.has_acdc
    c.established()
    return c


def test_syn_sent_again_without_ect_may_still_fall_back(wire: Wire, ip: Encap) -> None:
    """A guest can have its own SYNs lost, so no fallback is CUBIC's."""
    c = through_a_firewall(wire, ip)
    ack = c.from_guest()
    assert wire.egress_raw(ack) == [ack]
    assert c.info()["alg"] == "cubic"
    assert c.peer_ack()[0].window == c.window_field(10 * c.mss)


def test_path_that_drops_the_capability(wire: Wire) -> None:
    """Only the first connection to an address pays.  The port forgets it when it is
    bound anew."""
    wire.bind(None)
    wire.reset()
    through_a_firewall(wire, V4)
    n = Counted(wire)
    for _ in range(3):
        c = Conn(wire, V4, capable=False)
        syn = c.guest_syn()
        assert wire.egress_raw(syn) == [syn]
        wire.ingress(c.peer_synack())
        assert c.info()["alg"] == "cubic"
    assert n["offer_spared"] == 3
    (out,) = wire.egress(Conn(wire, V6).guest_syn())
    assert out.capability is not None
    # The peer itself shows that it passes.
    wire.bind(None)
    wire.reset()
    (out,) = wire.egress(Conn(wire, V4).guest_syn())
    assert out.capability is not None


def test_loss_on_a_path_that_passes_the_capability(wire: Wire) -> None:
    """Nothing is taken for a firewall that was none."""
    wire.bind(None)
    wire.reset()
    Conn(wire, V4).open()
    through_a_firewall(wire, V4)
    (out,) = wire.egress(Conn(wire, V4).guest_syn())
    assert out.capability is not None


@pytest.mark.parametrize("tenant", [{}, {"on_ramp": 30}], ids=["", "on_ramp"])
def test_connection_that_is_left_alone(wire: Wire, ip: Encap, tenant: dict[str, object]) -> None:
    """As the operator guide says: its SYN carries nothing of ours, whatever the tenant has."""
    wire.set(**tenant)
    remote = '"remote=fd00:2::/32"' if ip.v6 else '"remote=10.2.0.0/16"'
    wire.changed = True
    wire.ovs.vsctl(
        *("--", "--id=@r", "create", "ACDC_Rule", f"match={remote}", "algorithm=none"),
        *("fallback=none", "--", "set", "ACDC", wire.tenant, "rules=@r"),
    )
    c = Conn(wire, ip, capable=False)
    for _ in range(2):
        syn = c.guest_syn()
        assert wire.egress_raw(syn) == [syn]
    synack = c.peer_synack()
    assert wire.ingress_raw(synack) == [synack]


def test_synack_sent_again_is_the_same(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip, active=False)
    wire.ingress(c.peer_syn())
    first, second = wire.egress(c.guest_synack(), c.guest_synack())
    assert first.raw == second.raw


def test_synack_sent_a_third_time(wire: Wire, ip: Encap) -> None:
    """As the SYN: something on the way may not like it.  The time begins with the
    first one, when the guest will."""
    c = Conn(wire, ip, active=False)
    wire.ingress(c.peer_syn())
    time.sleep(PLAIN)
    synack = c.guest_synack()
    for _ in range(2):
        (out,) = wire.egress(synack)
        assert out.capability is not None
    time.sleep(PLAIN)
    assert wire.egress_raw(synack) == [synack]


def test_syn_with_full_option_space(wire: Wire, ip: Encap) -> None:
    """No room for the capability: everything stays, and nothing is marked."""
    c = Conn(wire, ip)
    options = [*c.syn_options(7), (254, bytes(18)), ("NOP", None), ("NOP", None)]
    syn = c.guest_syn(options=options)
    n = Counted(wire)
    (out,) = wire.egress(syn)
    same(out, syn)
    assert len(out.options) == 4
    assert n["offer_no_room"] == 1


def test_syn_with_payload(wire: Wire, ip: Encap) -> None:
    """TCP Fast Open."""
    c = Conn(wire, ip)
    payload = pattern(0, 600)
    syn = c.guest_syn(payload=payload)
    (out,) = wire.egress(syn)
    same(out, syn, "options", "ecn")
    assert out.payload == payload


@pytest.mark.parametrize("taken", [0, 400, 1000])
def test_syn_payload_of_which_a_server_takes_some(wire: Wire, ip: Encap, taken: int) -> None:
    """The rest is sent again; all that arrived is counted."""
    c = Conn(wire, ip, active=False)
    wire.ingress(c.peer_syn(payload=pattern(0, 1000)))
    (out,) = wire.egress(
        c.from_guest(
            seq=c.guest_isn,
            ack=c.peer_isn + 1 + taken,
            flags=SYN | ACK,
            options=c.syn_options(c.guest_scale),
        )
    )
    assert out.capability is not None
    c.established()
    c.peer_nxt += taken
    wire.ingress(c.from_peer(fb=(0, 0)))
    c.peer_data(1000)
    (out,) = c.guest_ack()
    assert out.feedback == (0, 2000)
    assert c.info()["capable"]


def test_syn_payload_as_large_as_the_mtu(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip)
    syn = c.guest_syn(payload=pattern(0, wire.mtu - ip.header + 14 - 20 - 12))
    (out,) = wire.egress(syn)
    assert len(out.raw) <= wire.mtu + 14
    assert parse_payload(out.payload, syn)


def parse_payload(payload: bytes, sent: bytes) -> bool:
    return sent.endswith(payload) and len(payload) > 0


def test_unknown_version_is_no_capability(wire: Wire, ip: Encap) -> None:
    """The version says what feedback means: 0 is none we know."""
    c = Conn(wire, ip, capable=False)
    wire.egress(c.guest_syn())
    wire.ingress(c.peer_synack(options=[*c.syn_options(7), capability(version=0)]))
    c.established()
    ack = c.from_guest()
    assert wire.egress_raw(ack) == [ack]


# Windows.


@pytest.mark.parametrize("segments", [1, 3, 10, 20])
def test_initial_window(wire: Wire, encap: Encap, segments: int) -> None:
    """A SYN-ACK's window is not scaled."""
    wire.set(initial_window=segments, min_window=1)
    c = Conn(wire, encap)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == segments * c.mss


@pytest.mark.parametrize("segments", [2, 10])
def test_initial_window_of_a_server(wire: Wire, ip: Encap, segments: int) -> None:
    """The SYN offers it, for a server that does not wait (TCP Fast Open), and the
    ACK after it."""
    wire.set(initial_window=segments)
    c = Conn(wire, ip, active=False)
    (got,) = wire.ingress(c.peer_syn())
    assert got.window == segments * c.mss
    wire.egress(c.guest_synack())
    c.established()
    (got,) = wire.ingress(c.from_peer(fb=(0, 0)))
    assert got.window == c.window_field(segments * c.mss)


def test_initial_window_is_at_least_the_minimum(wire: Wire, ip: Encap) -> None:
    wire.set(initial_window=1)
    c = Conn(wire, ip)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    assert got.window == 2 * c.mss


def test_small_window_of_a_synack_stays(wire: Wire, ip: Encap) -> None:
    c = Conn(wire, ip)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack(window=1000))
    assert got.window == 1000


def test_mss_of_the_peer_counts(wire: Wire, ip: Encap) -> None:
    """The guest's segments are as large as the peer takes."""
    c = Conn(wire, ip)
    wire.egress(c.guest_syn())
    small = 500
    options = [("MSS", small), ("NOP", None), ("WScale", 7), capability()]
    (got,) = wire.ingress(c.peer_synack(options=options))
    assert got.window == 10 * small


def test_without_mss_option(wire: Wire, ip: Encap) -> None:
    """RFC 9293 section 3.7.1: 536 bytes, over IPv6 1220."""
    c = Conn(wire, ip)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack(options=[capability()]))
    assert got.window == 10 * (1220 if ip.v6 else 536)


def test_scale_stays_where_it_is_fine(wire: Wire, ip: Encap) -> None:
    for scale in (0, 7, 10):
        c = Conn(wire, ip, peer_scale=scale)
        wire.egress(c.guest_syn())
        (got,) = wire.ingress(c.peer_synack())
        assert got.wscale == scale


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("scale", [11, 14])
def test_coarse_scale_is_renegotiated(wire: Wire, ip: Encap, active: bool, scale: int) -> None:
    n = Counted(wire)
    c = Conn(wire, ip, peer_scale=scale, active=active)
    if active:
        wire.egress(c.guest_syn())
        (got,) = wire.ingress(c.peer_synack())
    else:
        (got,) = wire.ingress(c.peer_syn())
        wire.egress(c.guest_synack())
    finer = got.wscale
    assert finer is not None
    assert 1 << finer <= c.mss
    assert n["rescaled"] == 1
    c.established()
    if active:
        c.guest_ack()
    # 1 to 3 units of 2 KB or 16 KB, less than or more than the law's window.
    for field in (1, 2, 3):
        (got,) = wire.ingress(c.from_peer(window=field, fb=(0, 0)))
        assert got.window == min(field << (scale - finer), -(-10 * c.mss >> finer))
    (got,) = wire.ingress(c.from_peer(window=0, fb=(0, 0)))
    assert got.window == 0


def test_rescaled_window_is_not_cut_off(wire: Wire, ip: Encap) -> None:
    """65535 units of 16 KB are more than the finer scale can say: then as much
    as it can."""
    wire.set(algorithm="none")
    c = Conn(wire, ip, peer_scale=14)
    wire.egress(c.guest_syn())
    (got,) = wire.ingress(c.peer_synack())
    scale = got.wscale
    assert scale is not None
    c.established()
    c.guest_ack()
    for field in (1, 2, 65535):
        (got,) = wire.ingress(c.from_peer(window=field, fb=(0, 0)))
        assert got.window == min(field << (14 - scale), 65535)


@pytest.mark.parametrize("active", [True, False])
def test_renegotiated_scale_sent_again(wire: Wire, ip: Encap, active: bool) -> None:
    """The answer was lost; the guest hears the same scale again."""
    c = Conn(wire, ip, peer_scale=14, active=active)
    if active:
        wire.egress(c.guest_syn())
        (first,) = wire.ingress(c.peer_synack())
        c.established()
        c.guest_ack()
        (again,) = wire.ingress(c.peer_synack())
    else:
        (first,) = wire.ingress(c.peer_syn())
        (again,) = wire.ingress(c.peer_syn())
        assert again.wscale == first.wscale
        wire.egress(c.guest_synack())
        (again,) = wire.ingress(c.peer_syn())
    assert first.wscale is not None
    assert first.wscale < 14
    assert again.wscale == first.wscale


# An MSS whose full segments are a whole number of window units.


def mss_told(c: Conn) -> int | None:
    """In the SYN or SYN-ACK that the guest gets."""
    if c.active:
        c.wire.egress(c.guest_syn())
    (got,) = c.wire.ingress(c.peer_synack() if c.active else c.peer_syn())
    return got.mss


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("timestamps", [True, False])
def test_align_mss(wire: Wire, encap: Encap, active: bool, timestamps: bool) -> None:
    """Segments of 11 units of 128 bytes, in SYN and SYN-ACK, sent again too."""
    wire.set(**{"other_config:align-mss": "true"})
    c = Conn(wire, encap, active=active, timestamps=timestamps)
    told = 11 * 128 + (12 if timestamps else 0)
    if active:
        syn = c.guest_syn()
        (out,) = wire.egress(syn)
        assert out.mss == c.mss, "the other side's guest is told by its own switch"
        synack = c.peer_synack()
        (got,) = wire.ingress(synack)
        assert got.window == 10 * 11 * 128
        c.established()
        c.guest_ack()
        (again,) = wire.ingress(synack)
    else:
        syn = c.peer_syn()
        (got,) = wire.ingress(syn)
        (again,) = wire.ingress(syn)
        assert again.mss == told
        (out,) = wire.egress(c.guest_synack())
        assert out.mss == c.mss
        (again,) = wire.ingress(syn)
        c.established()
        (ack,) = wire.ingress(c.from_peer(fb=(0, 0)))
        assert ack.window == 10 * 11
    assert (got.mss, again.mss) == (told, told)


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("scale", [None, 0, 10, 14])
def test_mss_that_stays(wire: Wire, ip: Encap, active: bool, scale: int | None) -> None:
    """All windows can be told, or an eighth would be lost."""
    wire.set(**{"other_config:align-mss": "true"})
    c = Conn(wire, ip, active=active, peer_scale=scale)
    assert mss_told(c) == c.mss


def test_no_mss_option_is_made(wire: Wire, ip: Encap) -> None:
    wire.set(**{"other_config:align-mss": "true"})
    c = Conn(wire, ip)
    wire.egress(c.guest_syn())
    options = [("NOP", None), ("WScale", 7), capability()]
    (got,) = wire.ingress(c.peer_synack(options=options))
    assert got.mss is None
    assert got.window == 10 * (1220 if ip.v6 else 536)


@pytest.mark.parametrize("active", [True, False])
def test_mss_stays_by_default(wire: Wire, ip: Encap, active: bool) -> None:
    c = Conn(wire, ip, active=active, timestamps=True)
    assert mss_told(c) == c.mss


def test_guests_own_scale_stays(wire: Wire, ip: Encap) -> None:
    """It is for the window of the far side, which its own switch governs."""
    c = Conn(wire, ip, guest_scale=14)
    (out,) = wire.egress(c.guest_syn())
    assert out.wscale == 14
    c = Conn(wire, ip, guest_scale=14, active=False)
    wire.ingress(c.peer_syn())
    (out,) = wire.egress(c.guest_synack())
    assert out.wscale == 14


@pytest.mark.parametrize("active", [True, False])
def test_scale_that_one_side_offers_is_none(wire: Wire, ip: Encap, active: bool) -> None:
    """RFC 7323 section 2.2: both send the option, or no window is scaled."""
    c = Conn(wire, ip, active=active, guest_scale=None, peer_scale=None if active else 7)
    c.open()
    (got,) = wire.ingress(c.from_peer(fb=(0, 0)))
    assert got.window == 10 * c.mss


def test_windows_of_the_guest_are_its_own(wire: Wire, encap: Encap) -> None:
    c = Conn(wire, encap)
    (out,) = wire.egress(c.guest_syn(window=64000))
    assert out.window == 64000
    wire.ingress(c.peer_synack())
    c.established()
    (out,) = c.guest_ack(window=60000)
    assert out.window == 60000


def test_simultaneous_open(wire: Wire) -> None:
    """RFC 9293 figure 7: four packets, all arrive."""
    c = Conn(wire, V4)
    assert len(wire.egress(c.guest_syn())) == 1
    assert len(wire.ingress(c.peer_syn())) == 1
    assert len(wire.egress(c.guest_synack())) == 1
    assert len(wire.ingress(c.peer_synack())) == 1
    c.established()
    (out,) = c.guest_data(100)
    assert out.flags & (SYN | ACK) == ACK
    assert out.payload == pattern(0, 100)
