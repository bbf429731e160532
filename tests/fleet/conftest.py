# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acdc_testlib.fleet import Fleet

HOSTS = 6


@pytest.fixture(scope="session")
def running() -> Iterator[Fleet]:
    """Three servers, a relay, and hosts whose ovs-vswitchd is real."""
    fleet = Fleet()
    try:
        fleet.start()
        fleet.add_hosts(HOSTS, real=HOSTS)
        fleet.await_hosts(HOSTS)
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def fleet(running: Fleet) -> Iterator[Fleet]:
    """With the tenant blue alone, in force everywhere."""
    running.heal()
    running.reset()
    yield running
    running.heal()
