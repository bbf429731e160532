# SPDX-License-Identifier: Apache-2.0

"""What the daemon says now, and how it differs from the time before.

Connections come in pages, and only those to be shown are kept.  Of the others that are active
there are four numbers until the next reading, of at most TRACKED: what is idle has no rate."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acdc_ovs import control_socket, flows, unixctl

TRACKED = 200_000
ACTIVE_MS = 10_000
MOD = 1 << 32

Flow = dict[str, Any]
Counts = tuple[int, int, int, int]

# Name of the order, what is first, in words, and how it is found.
ORDERS: dict[str, tuple[str, Callable[[Flow], float]]] = {
    "rate": ("the fastest", lambda f: f["tx_rate"] + f["rx_rate"]),
    "window": ("the largest window", lambda f: f["wnd"]),
    "rtt": ("the longest round-trip time", lambda f: f["srtt_us"]),
    "marks": ("the largest marked fraction", lambda f: f["marked"] or 0),
    "flight": ("the most bytes in flight", lambda f: f["in_flight"]),
    "idle": ("the shortest time idle", lambda f: -f["idle_ms"]),
}


def limited_by(flow: Flow, followed: bool) -> str:
    """What holds the guest's data back at the moment.

    What is in flight is not acknowledged; it fills the window, which is the switch's or the
    receiver's; or else the guest has no more to send, or its own congestion control allows no
    more.  The rate of a connection that is not 'followed' since the reading before is unknown."""
    if flow["state"] != "established":
        return str(flow["state"])
    if not flow["offered"]:
        return "receiver"  # The switch closes none.
    if not flow["in_flight"] and not flow["tx_rate"]:
        return "idle"
    if followed and not flow["tx_rate"] and flow["idle_ms"] * 1000 > flow["srtt_us"]:
        return "no ACK"
    if flow["in_flight"] + flow["mss"] <= flow["offered"]:
        return "guest"
    enforced = flow["mode"] == "enforce" and flow["alg"] != "none"
    return "switch" if enforced and flow["wnd"] <= flow["offered"] else "receiver"


def _key(flow: Flow) -> int:
    """Of a connection that is taken up again, or falls back, counts begin anew."""
    ends = ("local", "local_port", "remote", "remote_port")
    values = [flow[name] for name in ("datapath", "port", *ends, "resumed", "capable")]
    return hash((*values, *flow["vlans"], flow["state"] == "asking"))


def _grown(now: int, before: int) -> int:
    """By how much a count modulo 2^32 has grown; 0 for another connection's."""
    difference = (now - before) % MOD
    return difference if difference < MOD - (1 << 24) else 0


def _mean(row: dict[str, Any], name: str) -> float | None:
    """Of a tenant's connections that send and are timed."""
    count = sum(row.get(f"{name}_histogram", ()))
    return row[f"{name}_sum"] / count if count else None


@dataclass
class Reading:
    """One look at all."""

    seconds: float
    """Since the one before; 0: there was none."""
    tenants: list[dict[str, Any]]
    flows: list[Flow]
    """The first ones in the order that was asked for."""
    n_flows: int
    """How many match."""


@dataclass
class Counted:
    """What a reading leaves for the next ones."""

    at: float = 0.0
    tenants: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    flows: dict[int, Counts] = field(default_factory=dict)


@dataclass
class Reader:
    target: Path | None
    rundir: Path | None
    filters: list[str]
    order: str = "rate"
    limit: int = 40
    timeout: float = 20.0
    interval: float = 0.0
    _last: Counted = field(default_factory=Counted)
    _before: Counted = field(default_factory=Counted)
    """What rates are since: a reading that is at least half an interval ago."""

    def read(self) -> Reading:
        """Raises OSError, OvsError or ValueError."""
        target = self.target or control_socket(self.rundir)
        now = Counted(time.monotonic())
        if now.at - self._last.at >= self.interval / 2:
            self._before = self._last
        seconds = now.at - self._before.at if self._before.at else 0.0
        tenants = list(self._tenants(target, seconds, now))
        count = 0

        def rated() -> Iterator[tuple[float, int, Flow]]:
            nonlocal count
            for flow in flows(target, *self.filters, timeout=self.timeout):
                count += 1
                self._rate(flow, seconds, now)
                yield ORDERS[self.order][1](flow), -count, flow

        first = heapq.nlargest(self.limit, rated())
        self._last = now
        return Reading(seconds, tenants, [flow for _, _, flow in first], count)

    def _rate(self, flow: Flow, seconds: float, now: Counted) -> None:
        """Adds tx_rate and rx_rate, bytes a second, the fraction 'marked' of what was sent,
        and limited_by."""
        key = _key(flow)
        counts = (flow["snd_una"], flow["rx_total"], flow["fb_total"], flow["fb_ce"])
        before = self._before.flows.get(key)
        grown = [0, 0, 0, 0]
        if before and seconds:
            grown = [_grown(a, b) for a, b in zip(counts, before, strict=True)]
        flow["tx_rate"], flow["rx_rate"] = (n / seconds if n else 0.0 for n in grown[:2])
        flow["marked"] = min(1.0, grown[3] / grown[2]) if grown[2] else None
        flow["limited_by"] = limited_by(flow, before is not None)
        ended = flow["state"] in ("closed", "reset")
        if len(now.flows) < TRACKED and flow["idle_ms"] < ACTIVE_MS and not ended:
            now.flows[key] = counts

    def _tenants(
        self, target: Path, seconds: float, counted: Counted
    ) -> Iterator[dict[str, Any]]:
        reply = json.loads(unixctl(target, "acdc/show", "--json", timeout=self.timeout))
        wanted = [word[len("tenant=") :] for word in self.filters if word.startswith("tenant=")]
        for row in reply["tenants"]:
            if wanted and row["name"] not in wanted:
                continue
            key = (row["datapath"], row["name"])
            now, before = row["counters"], self._before.tenants.get(key, {})
            counted.tenants[key] = now
            if now["egress_packets"] < before.get("egress_packets", 0):
                # The tenant, or the daemon, is another one.
                self._before.flows.clear()

            def per_second(
                name: str, now: dict[str, int] = now, before: dict[str, int] = before
            ) -> float:
                grown = now[name] - before.get(name, now[name])
                return grown / seconds if seconds and grown > 0 else 0.0

            received, marked = per_second("ingress_bytes"), per_second("ce_bytes")
            yield {
                **{name: row[name] for name in ("datapath", "name", "n_flows", "n_half_open")},
                **{name: row[name] for name in ("n_capable", "n_fallback")},
                **{name: row[name] for name in ("rtt_p50_us", "rtt_p99_us")},
                "mode": row["params"]["mode"],
                "window_mean": row.get("window_mean"),
                "alpha_mean": row.get("alpha_mean"),
                "net_rtt_mean_us": _mean(row, "net_rtt_us"),
                "delay_mean_us": _mean(row, "delay_us"),
                "tx_rate": per_second("egress_bytes"),
                "rx_rate": received,
                "marked": marked / received if received else None,
                "cuts_per_second": per_second("cuts_ecn") + per_second("cuts_loss"),
                "timeouts_per_second": per_second("timeouts"),
                "paused_us_per_second": per_second("on_ramp_us"),
            }
