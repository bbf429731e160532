# SPDX-License-Identifier: Apache-2.0

"""Fixtures for all tiers.  Tests run with Debian's python3 (scapy and mininet
belong to it), as root, and keep to namespaces of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from acdc_testlib.ovs import Ovs

pytest_plugins = ["acdc_testlib.real_time"]


@pytest.fixture(scope="session", autouse=True)
def _root() -> None:
    if os.geteuid() != 0:
        pytest.exit("these tests make network namespaces: run them as root", returncode=2)
    # A shell's background jobs ignore it, and so would what tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def ovs() -> Iterator[Ovs]:
    """A private patched OVS without bridges, for this test alone."""
    with Ovs() as running:
        yield running


@pytest.fixture(scope="module")
def module_ovs() -> Iterator[Ovs]:
    """The same for all tests of a module."""
    with Ovs() as running:
        yield running
