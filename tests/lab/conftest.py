# SPDX-License-Identifier: Apache-2.0
"""A lab kernel uses one CPU: what takes longest runs beside all else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from acdc_lab.packet_run import LONG, PACKET, SYSTEM, PacketRun


@pytest.fixture(scope="session", autouse=True)
def kernel_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PacketRun, Path] | None]:
    """The packet tests and a part of the system tests in one boot, begun with
    the session if a test is to look at their results."""
    if not any("results" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    junit = tmp_path_factory.mktemp("packet") / "junit.xml"
    started = PacketRun("--junit", junit, *PACKET, *SYSTEM, "-k", f"not ({LONG})")
    try:
        yield started, junit
    finally:
        started.stop()
