# SPDX-License-Identifier: Apache-2.0

"""All connections of acdc/dump-flows, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from acdc_ovs import flow_pages, flows
from acdc_testlib.many import connect_idle
from acdc_testlib.ovs import CommandError, Ovs
from acdc_testlib.programs import ROOT

N = 3000


@pytest.fixture(scope="module")
def many(module_ovs: Ovs) -> Iterator[Ovs]:
    """N connections, established."""
    module_ovs.add_bridge("br0", normal=False)
    guest, peer = (module_ovs.add_tap("br0", name) for name in ("guest0", "peer0"))
    module_ovs.connect("br0", "guest0", "peer0")
    module_ovs.set_tenant("blue")
    module_ovs.bind("blue", "guest0")
    connect_idle(guest, peer, N)
    yield module_ovs


def ports(found: list[dict[str, Any]]) -> list[int]:
    return sorted(flow["local_port"] for flow in found)


def test_small_pages(many: Ovs) -> None:
    """No connection is lost where a page ends in the middle of a hash bucket."""
    pages = flow_pages(many._control, page=1)
    found = [flow for _, page in zip(range(300), pages, strict=False) for flow in page]
    assert len(found) == 300 == len(set(ports(found)))


@pytest.mark.parametrize("page", [7, 512, 513, 1999, N - 1, N, N + 1])
def test_each_connection_once(many: Ovs, page: int) -> None:
    every = many.acdc("dump-flows", f"limit={2 * N}")
    assert [flow["state"] for flow in every] == N * ["established"]
    pages = list(flow_pages(many._control, page=page))
    assert all(len(found) == page for found in pages[:-1])
    assert len(pages[-1]) <= page
    assert ports([flow for found in pages for flow in found]) == ports(every)
    # As objects they are the same, but for the time.
    first, second = ({**f, "idle_ms": 0} for f in (every[0], next(flows(many._control))))
    assert first == second


def test_filters(many: Ovs) -> None:
    some = list(flows(many._control, "remote=11.0.0.0/8", "port=guest0", page=700))
    assert len(some) == len(many.acdc("dump-flows", "remote=11.0.0.0/8", f"limit={N}"))
    # A page is full although few match.
    assert list(flows(many._control, "remote=192.0.2.0/24")) == []


def test_text(many: Ovs) -> None:
    """The last line but of the last page says where to go on."""
    cursor, lines = "0", []
    while cursor:
        page = many.appctl("acdc/dump-flows", "limit=1000", f"cursor={cursor}").splitlines()
        match = re.fullmatch(r"next=(\w+:\d+)", page[-1]) if page else None
        cursor = match[1] if match else ""
        lines += page[:-1] if match else page
    assert all(line.startswith("tenant=") for line in lines)
    assert len(lines) == N == len(set(lines))


def test_default_page(many: Ovs) -> None:
    reply = many.acdc("dump-flows", "cursor=0")
    assert len(reply["flows"]) == 2000
    assert reply["next"].startswith("netdev:")


@pytest.mark.parametrize("cursor", ["x", "netdev", "netdev:", "netdev:x", "nodev:1", ":1", ""])
def test_cursors_that_are_none(many: Ovs, cursor: str) -> None:
    with pytest.raises(CommandError, match="what the last page said"):
        many.appctl("acdc/dump-flows", f"cursor={cursor}")


def test_arguments_in_the_documentation(many: Ovs) -> None:
    """Names there need not exist here."""
    found: set[tuple[str, ...]] = set()
    for path in (ROOT / "docs").glob("*.rst"):
        line = re.compile(r"ovs-appctl (acdc/[\w-]+)((?: \w+=[\w./:-]+)+)")
        found |= {(m[1], *m[2].split()) for m in line.finditer(path.read_text())}
    assert len(found) >= 5
    for command, *words in sorted(found):
        try:
            many.appctl(command, *words)
        except CommandError as error:
            assert "unknown argument" not in str(error), f"{command} {words}: {error}"


def test_past_the_end(many: Ovs) -> None:
    assert many.acdc("dump-flows", f"cursor=netdev:{2**63}") == {"flows": []}


def test_without_a_bridge(ovs: Ovs) -> None:
    assert list(flow_pages(ovs._control)) == [[]]
