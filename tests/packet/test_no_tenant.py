# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 4: with no tenant bound, the bytes on every wire are
those of unpatched OVS."""

from __future__ import annotations

import pytest

from acdc_testlib.capture import generate
from acdc_testlib.ovs import Ovs
from acdc_testlib.programs import Programs
from acdc_testlib.tcp import CE, Encap
from acdc_testlib.wire import Conn, Wire

FRAMES = 2500


def replay(wire: Wire, frames: list[tuple[bool, bytes]]) -> tuple[list[bytes], list[bytes]]:
    """What came out at the uplink and at the guest port, in order."""
    at_uplink: list[bytes] = []
    at_guest: list[bytes] = []
    # One at a time: OVS sorts a batch by flow, and where a batch ends is chance.
    for guest, data in frames:
        if guest:
            at_uplink += wire.egress_raw(data)
        else:
            at_guest += wire.ingress_raw(data)
    return at_uplink, at_guest


@pytest.mark.parametrize("actions", ["plain", "vlan"])
def test_replayed_capture_is_the_same_as_pristine(actions: str) -> None:
    """Byte for byte, forwarded as it is and with actions that edit."""
    frames = generate(FRAMES)
    results = []
    for programs in (Programs.pristine(), Programs.patched()):
        with Ovs(programs) as ovs:
            # Room for the tag that is pushed.
            wire = Wire(ovs, mtu=1600)
            if actions == "vlan":
                a, b = ovs.ofport(wire.guest_name), ovs.ofport(wire.uplink_name)
                for i, o in ((a, b), (b, a)):
                    tail = f"push_vlan:0x8100,set_field:4173->vlan_vid,output:{o}"
                    edit = "set_field:8->ip_dscp,dec_ttl"
                    for flow in (
                        # Wire's own marks.
                        f"priority=60000,dl_type=0x88b5,in_port={i},actions=output:{o}",
                        f"priority=40000,in_port={i},actions={tail}",
                        f"priority=50000,ip,in_port={i},actions={edit},{tail}",
                        f"priority=50000,ipv6,in_port={i},actions={edit},{tail}",
                    ):
                        ovs.ofctl("-OOpenFlow13", "add-flow", "br0", flow)
            results.append(replay(wire, frames))
    pristine, patched = results
    assert len(pristine[0]) + len(pristine[1]) > FRAMES * 0.95
    assert patched == pristine


def test_nothing_is_touched_after_the_tenant_was_unbound(unbound: Wire, encap: Encap) -> None:
    c = Conn(unbound, encap)
    for out in (c.guest_syn(), c.from_guest(reserved=0x0F), c.from_guest(b"x", ecn=CE)):
        assert unbound.egress_raw(out) == [out]
    for got in (c.peer_synack(), c.from_peer(fb=(1, 2), reserved=0x0E), c.from_peer(ecn=CE)):
        assert unbound.ingress_raw(got) == [got]


def test_other_ports_are_untouched(wire: Wire, encap: Encap) -> None:
    """A tenant bound elsewhere in the same switch changes nothing here."""
    other = Wire(wire.ovs, 1)
    try:
        c = Conn(other, encap)
        for out in (c.guest_syn(), c.from_guest(reserved=0x0F), c.from_guest(b"x", ecn=CE)):
            assert other.egress_raw(out) == [out]
        for got in (c.peer_synack(), c.from_peer(fb=(1, 2), reserved=0x0E)):
            assert other.ingress_raw(got) == [got]
    finally:
        wire.ovs.vsctl("del-br", "br1")
        other.close()
