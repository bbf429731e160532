# SPDX-License-Identifier: Apache-2.0

"""A reading as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from .reading import ORDERS, TRACKED, Reading

Row = dict[str, Any]
Columns = dict[str, Callable[[Row], str]]


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


def duration(us: float | None) -> str:
    if not us:
        return "-"
    if us < 10_000:
        return f"{us:.0f}us"
    return f"{us / 1000:.4g}ms" if us < 9_999_500 else f"{us / 1_000_000:.4g}s"


def per_second(times: float) -> str:
    return f"{times:.3g}" if times < 999.5 else f"{times:.0f}"


def fraction(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _delay(us: float | None, net_rtt: float | None) -> str:
    """Of what is timed it may be nothing."""
    return "0us" if net_rtt and not us else duration(us)


def _connection(flow: Row) -> str:
    return ">".join(_end(flow[side], flow[f"{side}_port"]) for side in ("local", "remote"))


TENANTS: Columns = {
    "tenant": lambda row: row["name"],
    "mode": lambda row: row["mode"],
    "flows": lambda row: str(row["n_flows"]),
    "AC/DC": lambda row: str(row["n_capable"]),
    "fallb": lambda row: str(row["n_fallback"]),
    "out": lambda row: rate(row["tx_rate"]),
    "in": lambda row: rate(row["rx_rate"]),
    "CE": lambda row: fraction(row["marked"]),
    "RTT": lambda row: duration(row["rtt_p50_us"]),
    "p99": lambda row: duration(row["rtt_p99_us"]),
    "net": lambda row: duration(row["net_rtt_mean_us"]),
    "delay": lambda row: _delay(row["delay_mean_us"], row["net_rtt_mean_us"]),
    "paused/s": lambda row: duration(row["paused_us_per_second"]),
    "window": lambda row: size(row["window_mean"]),
    "alpha": lambda row: fraction(row["alpha_mean"]),
    "cuts/s": lambda row: per_second(row["cuts_per_second"]),
    "RTO/s": lambda row: per_second(row["timeouts_per_second"]),
}
FLOWS: Columns = {
    "tenant": lambda flow: flow["tenant"],
    "port": lambda flow: flow["port"],
    "connection": _connection,
    "alg": lambda flow: flow["alg"],
    "out": lambda flow: rate(flow["tx_rate"]),
    "in": lambda flow: rate(flow["rx_rate"]),
    "marked": lambda flow: fraction(flow["marked"]),
    "window": lambda flow: size(flow["wnd"] if flow["alg"] != "none" else None),
    "offered": lambda flow: size(flow["offered"]),
    "flight": lambda flow: size(flow["in_flight"]),
    "RTT": lambda flow: duration(flow["srtt_us"]),
    "net": lambda flow: duration(flow["net_rtt_us"]),
    "delay": lambda flow: _delay(flow["delay_us"], flow["net_rtt_us"]),
    "alpha": lambda flow: fraction(flow["alpha"]),
    "limited by": lambda flow: flow["limited_by"],
}
LEFT = {"tenant", "mode", "port", "connection", "alg", "limited by"}
# There if something is timed.
ON_RAMP = ("net", "delay", "paused/s")
# What a narrow terminal does without, in this order.
SPARE = ("alpha", "alg", "mode", "offered", "fallb", "flight", "p99", "net", "in")


def _table(columns: Columns, rows: Iterable[Row], width: int, *spare: str) -> Table:
    cells = {name: [cell(row) for row in rows] for name, cell in columns.items()}
    if not set(cells["net"]) - {"-"}:
        for name in ON_RAMP:
            cells.pop(name, None)

    def too_wide() -> int:
        return sum(1 + max(map(len, (head, *cells[head]))) for head in cells) - width - 1

    for name in (*SPARE, *spare):
        if too_wide() <= 0:
            break
        cells.pop(name, None)
    if "connection" in cells and too_wide() > 0:
        cells["connection"] = [cell[cell.index(">") :] for cell in cells["connection"]]
    for name in ("connection", "port", "tenant"):
        if name in cells and (excess := too_wide()) > 0:
            room = max(len(name), max(map(len, cells[name]), default=0) - excess)
            # What differs is at the end of an address, or of a name.
            cells[name] = [c if len(c) <= room else f"\u2026{c[1 - room :]}" for c in cells[name]]
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="reverse")
    for name in cells:
        justify = "left" if name in LEFT else "right"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")
    for line in zip(*cells.values(), strict=True):
        # Names are the users', not markup.
        table.add_row(*map(Text, line))
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
        if reading.n_flows > TRACKED:
            about += f", rates of at most {TRACKED:,}"
        if self.keys:
            about += "   (s: order, q: quit)"
        yield Text(about)
        yield _table(TENANTS, reading.tenants, options.max_width)
        yield Text("")
        rows = reading.flows
        if self.keys:
            rows = rows[: max(1, console.height - len(reading.tenants) - 6)]
        yield _table(FLOWS, rows, options.max_width, "tenant")
