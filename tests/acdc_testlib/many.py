# SPDX-License-Identifier: Apache-2.0

"""Many established connections of one guest, which send nothing."""

from __future__ import annotations

from typing import Any

from acdc_check.segment import ACK, SYN, Segment
from acdc_testlib.netns import Tap

MACS = ("02:00:00:00:00:02", "02:00:00:00:00:01")
SYN_OPTIONS = bytes.fromhex("020405b40402080a000000010000000001030307")
BATCH = 128


def _segment(number: int, flags: int) -> bytes:
    """Of the handshake of connection 'number'."""
    high, port = divmod(number, 32768)
    near, far = ("10.0.0.1", 1024 + port), (f"11.0.{high >> 8}.{high & 255}", 80)
    if flags == SYN | ACK:
        near, far = far, near
    numbers: dict[str, Any] = {"seq": 1 + (flags == ACK), "ack": 0 if flags == SYN else 2}
    options = SYN_OPTIONS if flags & SYN else b""
    segment = Segment(near[0], far[0], near[1], far[1], flags, **numbers, options=options)
    return segment.frame(*MACS)


def connect_idle(guest: Tap, peer: Tap, count: int) -> None:
    """From 10.0.0.1, ports 1024 to 33791, to port 80 of 11.0.0.0, 11.0.0.1 and so on."""
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        for source, to, flags in (guest, peer, SYN), (peer, guest, SYN | ACK), (guest, peer, ACK):
            for number in numbers:
                source.send(_segment(number, flags))
            # The next ones are not to overtake them.
            for _ in numbers:
                if not to.receive(1):
                    break
