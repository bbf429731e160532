# SPDX-License-Identifier: Apache-2.0

"""Signals end the program once, and in order: what was made is undone meanwhile."""

from __future__ import annotations

import signal
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """By a signal."""


def _end(*_: object) -> NoReturn:
    ignore()
    raise Ended


def heed() -> None:
    for number in SIGNALS:
        signal.signal(number, _end)


def ignore() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
