# SPDX-License-Identifier: Apache-2.0

"""All connections of acdc/dump-flows, in pages: neither here nor in the daemon is there
ever more than one page of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .database import TIMEOUT, unixctl

PAGE = 2000


def flow_pages(
    path: Path, *filters: str, page: int = PAGE, timeout: float = TIMEOUT
) -> Iterator[list[dict[str, Any]]]:
    """Pages of the connections that match 'filters', of the daemon at the control socket 'path'.

    Connections that come or go meanwhile may be missed, and if the table grows meanwhile, some
    come twice."""
    cursor: str | None = "0"
    while cursor:
        words = (*filters, f"limit={page}", f"cursor={cursor}", "--json")
        reply = json.loads(unixctl(path, "acdc/dump-flows", *words, timeout=timeout))
        yield reply["flows"]
        cursor = reply.get("next")


def flows(
    path: Path, *filters: str, page: int = PAGE, timeout: float = TIMEOUT
) -> Iterator[dict[str, Any]]:
    """What is in flow_pages(), one by one."""
    for found in flow_pages(path, *filters, page=page, timeout=timeout):
        yield from found
