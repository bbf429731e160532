# SPDX-License-Identifier: Apache-2.0

"""A reading as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from .reading import ORDERS, Reading

TENANTS = ("tenant", "mode", "flows", "AC/DC", "fallb", "out", "in", "CE", "RTT", "p99") + (
    ("window", "alpha", "cuts/s", "RTO/s")
)
FLOWS = ("tenant", "port", "connection", "alg", "out", "in", "marked", "window", "offered") + (
    ("flight", "RTT", "alpha", "limited by")
)
LEFT = {"tenant", "mode", "port", "connection", "alg", "limited by"}


def rate(bytes_per_second: float) -> str:
    """In bits a second, with three digits."""
    bits = 8 * bytes_per_second
    for unit in ("", "k", "M"):
        if bits < 999.5:
            return f"{bits:.3g}{unit}" if bits else "-"
        bits /= 1000
    return f"{bits:.4g}G"


def size(number: float | None) -> str:
    """In bytes; the units are multiples of 1024."""
    if number is None:
        return "-"
    for unit in ("", "K", "M"):
        if number < 1024:
            return f"{number:.4g}{unit}"
        number /= 1024
    return f"{number:.4g}G"


def duration(us: int) -> str:
    return "-" if not us else f"{us}us" if us < 10_000 else f"{us / 1000:.4g}ms"


def fraction(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def tenant_cells(row: dict[str, Any]) -> Iterator[str]:
    yield from (row["name"], row["mode"])
    yield from (str(row[name]) for name in ("n_flows", "n_capable", "n_fallback"))
    yield from (rate(row["tx_rate"]), rate(row["rx_rate"]), fraction(row["marked"]))
    yield from (duration(row["rtt_p50_us"]), duration(row["rtt_p99_us"]))
    yield from (size(row["window_mean"]), fraction(row["alpha_mean"]))
    yield from (f"{row[name]:.3g}" for name in ("cuts_per_second", "timeouts_per_second"))


def flow_cells(flow: dict[str, Any]) -> Iterator[str]:
    ends = (_end(flow[side], flow[f"{side}_port"]) for side in ("local", "remote"))
    yield from (flow["tenant"], flow["port"], ">".join(ends), flow["alg"])
    yield from (rate(flow["tx_rate"]), rate(flow["rx_rate"]), fraction(flow["marked"]))
    yield from (size(flow[name]) for name in ("wnd", "offered", "in_flight"))
    yield from (duration(flow["srtt_us"]), fraction(flow["alpha"]), flow["limited_by"])


def _table(names: tuple[str, ...], rows: Iterator[Iterator[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="reverse")
    for name in names:
        table.add_column(
            name,
            justify="left" if name in LEFT else "right",
            no_wrap=True,
            overflow="ellipsis",
        )
    for cells in rows:
        # Names are the users', not markup.
        table.add_row(*(Text(cell) for cell in cells))
    return table


class Screen:
    """Renders a reading, as many connections as there are lines for."""

    def __init__(self, order: str, keys: bool) -> None:
        self.order = order
        self.keys = keys
        self.reading: Reading | None = None
        self.problem = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        reading = self.reading
        if self.problem:
            yield Text(f"no answer: {self.problem}", style="red")
        if reading is None:
            return
        about = f"{reading.n_flows} connections, {ORDERS[self.order][0]} first"
        if reading.seconds:
            about += f", in {reading.seconds:.1f} s"
        if self.keys:
            about += "   (s: order, q: quit)"
        yield Text(about)
        yield _table(TENANTS, map(tenant_cells, reading.tenants))
        yield Text("")
        rows = reading.flows
        if self.keys:
            rows = rows[: max(1, console.height - len(reading.tenants) - 6)]
        yield _table(FLOWS, map(flow_cells, rows))
