# SPDX-License-Identifier: Apache-2.0

"""Real stacks between guests of one switch: bulk, iperf3, churn, restarts."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.real_time import RealTime
from acdc_testlib.traffic import (
    Echo,
    Stream,
    Task,
    Transfer,
    echo_once,
    finish_all,
    open_connection,
)
from acdc_testlib.wire import tenant_counters

A4, B4, A6, B6 = "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"
MB = 1 << 20


@dataclass
class Guests:
    """Two guests of one tenant on one bridge."""

    ovs: Ovs
    a: Netns
    b: Netns

    def counters(self) -> dict[str, int]:
        return tenant_counters(self.ovs, "blue")

    def flows(self) -> list[dict[str, Any]]:
        return self.ovs.acdc("dump-flows")

    def state(self) -> str:
        """What there is to say of traffic that stands still."""
        sockets = [
            guest.run(*argv)
            for guest in (self.a, self.b)
            for argv in (("ss", "-tino"), ("ip", "neighbor"), ("ip", "-s", "link"))
        ]
        flows = self.ovs.appctl("acdc/dump-flows")
        return "\n".join(
            [*sockets, flows, self.ovs.appctl("dpctl/dump-flows"), self.ovs.log_tail()]
        )


@pytest.fixture(scope="module")
def module_guests() -> Iterator[Guests]:
    with Ovs() as ovs:
        ovs.add_bridge("br0")
        a = ovs.add_guest("br0", "vnet0", f"{A4}/24", f"{A6}/64")
        b = ovs.add_guest("br0", "vnet1", f"{B4}/24", f"{B6}/64")
        for guest in (a, b):
            # Room for the ports of thousands of closed connections in TIME-WAIT, none of
            # them one that a test listens on: bind() of such a port fails.
            guest.sysctl("net.ipv4.ip_local_port_range", "16384 65535")
        yield Guests(ovs, a, b)


@pytest.fixture
def guests(module_guests: Guests) -> Iterator[Guests]:
    ovs = module_guests.ovs
    ovs.set_tenant("blue")
    ovs.bind("blue", "vnet0")
    ovs.bind("blue", "vnet1")
    yield module_guests
    assert ovs.vswitchd_running(), ovs.log_tail()
    ovs.bind(None, "vnet0")
    ovs.bind(None, "vnet1")
    ovs.vsctl("destroy", "acdc", "blue")


def check_controlled(before: dict[str, int], after: dict[str, int], flows: int) -> None:
    """The connections were held to AC/DC, and nothing about them was odd."""
    new = {k: v - before[k] for k, v in after.items()}
    # Two guest ports, so each connection is two flows.
    assert new["flows_capable"] == 2 * flows
    assert new["flows_fallback"] == 0
    assert new["pack_received"] + new["fack_received"] > 0
    assert new["marked_ect"] > 0
    assert new["window_rewritten"] > 0
    for reason in ("feedback_bad", "forged", "ack_invalid", "policed_packets"):
        assert new[reason] == 0, reason
    # Late packets of an earlier test's connection, whose flow is past its linger,
    # may be among them; of a connection that is not tracked there are thousands.
    assert new["untouched_midstream"] < 20
    assert new["untouched_options"] == new["untouched_length"] == 0


@pytest.mark.parametrize("address", [B4, B6], ids=["v4", "v6"])
def test_bulk(guests: Guests, address: str) -> None:
    """One way, the other way, and both at once, payload equal."""
    before = guests.counters()
    Transfer(guests.a, guests.b, address, size=30 * MB).finish()
    both = [Transfer(guests.a, guests.b, address, port=port, size=10 * MB) for port in (5002, 5003)]
    for transfer in both:
        transfer.finish()
    check_controlled(before, guests.counters(), 3)


def test_honest_guests_are_never_policed(guests: Guests) -> None:
    guests.ovs.set_tenant("blue", police=True)
    before = guests.counters()
    transfers = [Transfer(guests.a, guests.b, B4, port=5100 + i, size=8 * MB) for i in range(4)]
    for transfer in transfers:
        transfer.finish()
    check_controlled(before, guests.counters(), 4)


def iperf3(guests: Guests, address: str, *options: str) -> dict[str, Any]:
    server = guests.b.popen(
        "iperf3", "-s", "-1", "-B", address, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert server.stdout is not None
    wait_for("iperf3", lambda: b":5201" in guests.b.run("ss", "-ltn").encode())
    out = guests.a.run("iperf3", "-J", "-t", "3", "-c", address, *options, check=False)
    server.wait(20)
    server.stdout.close()
    result = json.loads(out)
    assert "error" not in result, result.get("error")
    return result["end"]


@pytest.mark.parametrize("address", [B4, B6], ids=["v4", "v6"])
@pytest.mark.parametrize("options", [[], ["-R"], ["-P", "4"], ["--bidir"]], ids=" ".join)
def test_iperf3(guests: Guests, address: str, options: list[str]) -> None:
    before = guests.counters()
    end = iperf3(guests, address, *options)
    assert end["sum_received"]["bytes"] > 3 * MB
    streams = {"-P": 4, "--bidir": 2}.get(options[0] if options else "", 1)
    check_controlled(before, guests.counters(), streams + 1)


@pytest.mark.parametrize("stack", ["cubic", "reno"])
def test_window_cap_holds_the_guests_stack(guests: Guests, stack: str) -> None:
    """The guest's own socket says how much it may send."""
    guests.ovs.set_tenant("blue", max_window=40000)
    transfer = Transfer(guests.a, guests.b, B4, algorithm=stack)
    wait_for("data", lambda: transfer.received > MB)
    seen = []
    for _ in range(5):
        time.sleep(0.1)
        words = guests.a.run("ss", "-tinH", "dst", B4, "dport", "5001").split()
        seen += [int(w.split(":")[1]) for w in words if w.startswith("snd_wnd:")]
    transfer.stop()
    transfer.finish()
    assert seen
    # The field counts units of the window scale.
    assert max(seen) <= 40000 + (1 << 10)


def test_other_traffic(guests: Guests, real_time: RealTime) -> None:
    """ICMP and UDP between guest ports."""
    for address in (B4, B6):
        assert " 0% packet loss" in guests.a.run("ping", "-c3", "-i0.05", "-s1400", address)
    assert " 0% packet loss" in guests.a.run("ping", "-c2", "-i0.05", "-s4000", B4)
    end = iperf3(guests, B4, "-u", "-b", "5M")
    assert end["sum"]["packets"] > 0
    with real_time:
        assert end["sum"]["lost_percent"] < 20  # The machine may be busy.


@pytest.mark.parametrize("address", [B4, B6], ids=["v4", "v6"])
def test_churn(guests: Guests, address: str) -> None:
    """As many connections as 5 minutes bring at 50 a second, all answered,
    and nothing stays in the table."""
    total, workers = 15000, 4
    before = guests.counters()
    echo = Echo(guests.b, address)

    def work(number: int) -> None:
        for i in range(total // workers):
            echo_once(guests.a, address, b"%d %d " % (number, i) * 20)

    tasks = [Task(lambda n=n: work(n)) for n in range(workers)]  # type: ignore[misc]
    for task in tasks:
        task.join(150)
    echo.close()
    after = guests.counters()
    assert after["flows_capable"] - before["flows_capable"] == 2 * total
    assert after["flows_closed"] - before["flows_closed"] == 2 * total
    for reason in ("untouched_table_full", "untouched_half_open", "feedback_bad", "forged"):
        assert after[reason] == before[reason], reason

    def established() -> int:
        return sum(f["state"] not in ("closed", "closing") for f in guests.flows())

    assert established() == 0


@pytest.mark.parametrize("address", [B4, B6], ids=["v4", "v6"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def test_restart_of_the_daemon_under_traffic(
    guests: Guests, how: signal.Signals, address: str
) -> None:
    """A connection goes on, one opened afterwards is controlled again.

    One at a time: connections that the userspace datapath has forgotten nothing
    holds back any more.  Two of them may lose each other's retransmissions, and
    each that is lost doubles the time to the next."""
    ovs = guests.ovs
    start = guests.counters()
    transfer = Transfer(guests.a, guests.b, address)
    wait_for("data", lambda: transfer.received > MB)
    ovs.restart_vswitchd(how)
    seen = transfer.received
    try:
        wait_for("data again", lambda: transfer.received > seen + 4 * MB, timeout=60)
    except TimeoutError as error:
        error.add_note(f"{seen} bytes before, {transfer.received} now\n{guests.state()}")
        raise
    if datapath_type() == "netdev":
        assert guests.counters()["untouched_midstream"] > 0
    else:  # The kernel has kept the flow.
        check_controlled(start, guests.counters(), 1)
    transfer.stop()
    transfer.finish()
    before = guests.counters()
    Transfer(guests.a, guests.b, address, port=5003, size=5 * MB).finish()
    after = guests.counters()
    assert after["flows_capable"] - before["flows_capable"] == 2


def test_policy_changes_under_traffic(guests: Guests) -> None:
    """Every parameter changed while data flows; the payload is equal."""
    transfers = [
        Transfer(guests.a, guests.b, B4, port=5001),
        Transfer(guests.b, guests.a, A6, port=5002),
    ]
    for column, values in (
        ("beta", (0, 0.5, 1)),
        ("algorithm", ("reno", "cubic", "none", "dctcp")),
        ("mode", ("observe", "enforce")),
        ("enabled", ("false", "true")),
        ("police", ("true", "false")),
        ("max_window", (3000, 100000, 0)),
        ("min_window", (20000, 0)),
    ):
        for value in values:
            guests.ovs.set_tenant("blue", **{column: value})
            marks = [t.received for t in transfers]
            for transfer, mark in zip(transfers, marks, strict=True):
                wait_for(
                    f"data with {column}={value}",
                    lambda t=transfer, m=mark: t.received > m,  # type: ignore[misc]
                    timeout=5,
                )
    guests.ovs.bind(None, "vnet0")
    guests.ovs.bind("blue", "vnet0")
    guests.ovs.appctl("acdc/flush")
    for transfer in transfers:
        seen = transfer.received
        wait_for("data", lambda t=transfer, s=seen: t.received > s + MB)  # type: ignore[misc]
        transfer.stop()
        transfer.finish()


def test_windows_that_shrink_both_ways(guests: Guests) -> None:
    """Both ends send much, and then may have less in flight than they have: each has
    to hear of the other's ACKs all the same."""
    near, far = open_connection(guests.a, guests.b, B4)
    with near, far:
        streams = [Stream(near, far), Stream(far, near)]
        for _ in range(5):
            for window in (0, 3000):
                guests.ovs.set_tenant("blue", max_window=window)
                marks = [stream.received for stream in streams]
                for stream, mark in zip(streams, marks, strict=True):
                    wait_for(
                        f"data with max_window={window}",
                        lambda s=stream, m=mark: s.received > m + MB,  # type: ignore[misc]
                        timeout=20,
                    )
        finish_all(streams)
    assert guests.counters()["window_rewritten"] > 0


def test_one_guest_without_a_tenant(guests: Guests) -> None:
    """Its peer falls back, in both directions."""
    guests.ovs.bind(None, "vnet1")
    before = guests.counters()
    Transfer(guests.a, guests.b, B4, port=5001, size=10 * MB).finish()
    Transfer(guests.b, guests.a, A6, port=5002, size=10 * MB).finish()
    after = guests.counters()
    assert after["flows_fallback"] - before["flows_fallback"] == 2
    assert after["flows_capable"] == before["flows_capable"]
    assert after["marked_ect"] - before["marked_ect"] <= 2  # SYNs.
