# SPDX-License-Identifier: Apache-2.0

"""DESIGN section 7 rule 4: with no tenant bound, the bytes on every wire are
those of unpatched OVS."""

from __future__ import annotations

import pytest

from acdc_testlib.capture import REPLAY_ACTIONS, generate, replay
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.programs import Programs
from acdc_testlib.tcp import CE, Encap
from acdc_testlib.wire import Conn, Wire

FRAMES = 2500


@pytest.mark.skipif(
    datapath_type() == "system",
    reason="the kernel's is compared with the stock module: tests/lab/test_through_the_kernel.py",
)
@pytest.mark.parametrize("actions", REPLAY_ACTIONS)
def test_replayed_capture_is_the_same_as_pristine(actions: str) -> None:
    """Byte for byte, forwarded as it is and with actions that edit."""
    frames = generate(FRAMES)
    results = []
    for programs in (Programs.pristine(), Programs.patched()):
        with Ovs(programs) as ovs:
            results.append(replay(ovs, frames, actions))
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
