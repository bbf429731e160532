# SPDX-License-Identifier: Apache-2.0

"""Fixtures of more than one file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from config_switch import Switch

from acdc_testlib.ovs import Ovs


@pytest.fixture(scope="module")
def module_switch(module_ovs: Ovs) -> Switch:
    return Switch(module_ovs)


@pytest.fixture
def switch(module_switch: Switch) -> Iterator[Switch]:
    yield module_switch
    assert module_switch.ovs.vswitchd_running(), module_switch.ovs.log_tail()
    module_switch.reset()
