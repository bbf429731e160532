# SPDX-License-Identifier: Apache-2.0

"""Mininet changes the namespace it runs in, so these tests have one of their
own (acdc_mininet.enter): pytest goes on in a child process, and all that the
tests made is gone with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import acdc_mininet as am


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    if not (config.option.collectonly or config.option.help or config.option.version):
        am.enter()


@pytest.fixture(scope="session", autouse=True)
def _isolated() -> None:
    """Also where these tests are a part of a larger run."""
    am.enter()


@pytest.fixture
def network() -> Iterator[Callable[..., am.AcdcNet]]:
    """Starts a network of a topology, which is stopped after the test."""
    with ExitStack() as stack:

        def start(topo: Any, **params: Any) -> am.AcdcNet:  # noqa: ANN401
            return stack.enter_context(am.AcdcNet(topo, **params))

        yield start
