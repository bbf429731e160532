# SPDX-License-Identifier: Apache-2.0

"""One patched OVS for all packet tests: a bridge between a guest port, bound
to the tenant "blue", and an uplink.  Each test has connections of its own and
finds the tenant with its defaults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acdc_testlib.ovs import Ovs
from acdc_testlib.tcp import ENCAPS, V4, V6, Encap
from acdc_testlib.wire import Wire


@pytest.fixture(scope="session")
def session_wire() -> Iterator[Wire]:
    with Ovs() as ovs:
        wire = Wire(ovs, headers=True)
        wire.reset()
        yield wire


@pytest.fixture
def wire(session_wire: Wire) -> Iterator[Wire]:
    yield session_wire
    assert session_wire.ovs.vswitchd_running(), session_wire.ovs.log_tail()
    if session_wire.changed:
        session_wire.reset()


@pytest.fixture(params=ENCAPS, ids=str)
def encap(request: pytest.FixtureRequest) -> Encap:
    """IPv4 and IPv6, without VLAN tag, with one, with two."""
    return request.param


@pytest.fixture(params=[V4, V6], ids=str)
def ip(request: pytest.FixtureRequest) -> Encap:
    """IPv4 and IPv6."""
    return request.param


@pytest.fixture
def unbound(wire: Wire) -> Wire:
    """The same bridge without any tenant bound."""
    wire.bind(None)
    return wire
