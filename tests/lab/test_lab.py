# SPDX-License-Identifier: Apache-2.0
"""The lab's quick set: real stacks at 10 Gbit/s over the patched kernel
datapath, against native DCTCP and against the stock module."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from acdc_lab import results

LAB = Path(__file__).resolve().parent
Result = dict[str, Any]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs tests/lab/run once for each command line; a run with trouble in the
    kernel's log fails."""
    folder = tmp_path_factory.mktemp("lab")

    @functools.cache
    def run(line: str, again: int = 0) -> Result:
        out = folder / f"{abs(hash((line, again)))}.json"
        done = subprocess.run(
            [LAB / "run", *line.split(), "--json", out],
            capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        print(f"tests/lab/run {line}\n{done.stderr}")
        assert done.returncode == 0, done.stderr
        result: Result = json.loads(out.read_text())
        return result

    return run


def counters(result: Result) -> dict[str, int]:
    (tenant,) = result["engine"]["tenants"]
    found: dict[str, int] = tenant["counters"]
    return found


def untouched(result: Result) -> dict[str, int]:
    """TCP packets that AC/DC left alone, by reason."""
    return {
        name: value
        for name, value in counters(result).items()
        if name.startswith("untouched_") and name != "untouched_not_tcp" and value
    }


def assert_clean(result: Result) -> None:
    assert untouched(result) == {}
    assert counters(result)["flows_fallback"] == 0
    assert counters(result)["feedback_bad"] == 0
    assert result["tcp"]["checksum_errors"] == 0
    assert all(flow["connected"] is not None for flow in result["flows"])


def test_same_seed_same_numbers(lab: Any) -> None:
    line = "dumbbell --stack cubic --acdc --flows 2 --seconds 0.2"
    first, second, other = lab(line), lab(line, again=1), lab(f"{line} --seed 2")
    for result in (first, second, other):
        result.pop("wall_seconds", None)
    assert first == second
    assert first["rtt_us"] != other["rtt_us"]


@pytest.mark.parametrize("scenario", ["dumbbell", "incast"])
def test_cubic_guests_fare_as_dctcp(lab: Any, scenario: str) -> None:
    native = lab(f"{scenario} --stack dctcp --plain --seconds 0.6")
    acdc = lab(f"{scenario} --stack cubic --acdc --seconds 0.6")
    cubic = lab(f"{scenario} --stack cubic --plain --seconds 0.6")
    assert_clean(acdc)
    assert acdc["tcp"]["retransmits"] == 0
    assert acdc["tcp"]["timeouts"] == 0
    for quantile in ("p50", "p99"):
        assert acdc["rtt_us"][quantile] <= 1.3 * native["rtt_us"][quantile]
        # What there is to gain.
        assert cubic["rtt_us"][quantile] > 5 * native["rtt_us"][quantile]
    assert acdc["goodput_mbps"] >= 0.98 * native["goodput_mbps"]
    assert acdc["jain"] >= 0.97


def test_small_windows(lab: Any) -> None:
    """Less of a queue than two segments of each make, and no delayed ACK."""
    incast = "incast --flows 16 --mtu 9000 --seconds 0.3 --acdc"
    two = lab(incast)
    one = lab(f"{incast} --tenant other_config:small-windows=true")
    assert_clean(one)
    assert one["rtt_us"]["p50"] < 0.85 * two["rtt_us"]["p50"]
    assert one["rtt_us"]["p99.9"] < two["rtt_us"]["p99.9"]
    assert one["goodput_mbps"] > 0.98 * two["goodput_mbps"]
    assert one["jain"] > 0.98
    assert (one["tcp"]["loss_probes"], one["tcp"]["retransmits"]) == (0, 0)
    counted = counters(one)
    assert (counted["flows_prompt"], counted["flows_delayed"]) == (16, 0)


def test_the_paper_s_five_stacks_share(lab: Any) -> None:
    plain = lab("dumbbell --stack paper --plain --seconds 1")
    acdc = lab("dumbbell --stack paper --acdc --seconds 1")
    assert_clean(acdc)
    assert acdc["jain"] > plain["jain"]
    assert acdc["tcp"]["retransmits"] == 0
    # Vegas holds itself back when the queue makes the round-trip time longer
    # than the least it saw: what a guest does not want to send no vSwitch can.
    willing = [
        flow["goodput_mbps"]
        for flow in acdc["flows"]
        if flow["kind"] == "bulk" and flow["stack"] != "vegas"
    ]
    assert len(willing) == 4
    assert results.jain(willing) >= 0.97


@pytest.mark.parametrize("more", ["--offload", "--ipv6", "--mtu 9000"])
def test_forms_of_packets(lab: Any, more: str) -> None:
    native = lab(f"dumbbell --stack dctcp --plain --flows 3 --seconds 0.3 {more}")
    acdc = lab(f"dumbbell --stack cubic --acdc --flows 3 --seconds 0.3 {more}")
    assert_clean(acdc)
    assert acdc["tcp"]["timeouts"] == 0
    assert acdc["goodput_mbps"] >= 0.95 * native["goodput_mbps"]
    assert acdc["rtt_us"]["p50"] <= 1.3 * native["rtt_us"]["p50"]


def test_a_threshold_of_less_than_a_packet(lab: Any) -> None:
    """Each packet that waits is marked."""
    line = "dumbbell --stack dctcp --plain --flows 2 --seconds 0.3 --mtu 9000"
    half, three = (lab(f"{line} --mark {mark}")["rtt_us"]["p50"] for mark in (4542, 27042))
    assert half < three


@pytest.mark.parametrize("tunnel", ["vxlan", "geneve"])
def test_tunnels(lab: Any, tunnel: str) -> None:
    """Two hypervisors; the switch between them marks the outer header."""
    # Both cost 50 bytes a packet.
    native = lab("dumbbell --stack dctcp --plain --flows 3 --seconds 0.3 --tunnel vxlan")
    acdc = lab(f"dumbbell --stack cubic --acdc --flows 3 --seconds 0.3 --tunnel {tunnel}")
    assert_clean(acdc)
    assert len(acdc["engine"]["datapaths"]) == 2
    # Each connection is two flows: at the sender's vSwitch, at the receiver's.
    assert counters(acdc)["flows_capable"] == 2 * len(acdc["flows"])
    marks = sum(queue["marks"] for queue in acdc["queues"])
    assert 0 < counters(acdc)["ce_packets"] <= marks
    assert acdc["tcp"]["retransmits"] == 0
    assert acdc["goodput_mbps"] >= 0.97 * native["goodput_mbps"]
    for quantile in ("p50", "p99"):
        assert acdc["rtt_us"][quantile] <= 1.3 * native["rtt_us"][quantile]


def test_data_both_ways(lab: Any) -> None:
    """Drops cut the windows at both ends of a connection: it must not stand still."""
    result = lab("twoway --stack cubic --acdc --flows 4 --seconds 0.4 --mark 0 --buffer 50000")
    assert_clean(result)
    assert counters(result)["cuts_loss"] > 0
    assert list(result["directions"]) == ["left to right", "right to left"]
    for way in result["directions"].values():
        assert len(way["shares_mbps"]) == 3
        assert way["jain"] >= 0.9
    # The least retransmission timeout is 10 ms.
    assert max(results.longest_pause(f) for f in result["flows"] if f["kind"] == "bulk") < 0.1


@pytest.mark.parametrize(
    "more", ["2 --ipv6", "5", "5 --stack reno --sysctl net.ipv4.tcp_recovery=0"]
)
def test_data_that_is_late_by_up_to_a_round_trip(lab: Any, more: str) -> None:
    """Percent; recovery 0: guests without RACK."""
    line = "late --acdc --rate 1gbit --delay 250 --mark 30280 --flows 2 --seconds 1 --late-by 600"
    late = lab(f"{line} --late {more}")
    assert_clean(late)
    assert late["tcp"]["out_of_order"] > 100
    assert late["goodput_mbps"] >= 0.9 * lab(f"{line} --late 0")["goodput_mbps"]
    # Nothing was lost: of thousands that are late it cuts again only for what the guest sends
    # again (up to 14 more in 18 runs with seeds 1 to 6).
    assert counters(late)["cuts_loss"] <= 8 * len(late["flows"]) + late["tcp"]["retransmits"]
    assert counters(late)["timeouts"] == 0


def test_data_that_is_late_beside_loss(lab: Any) -> None:
    """The windows are as small as where nothing is late: a buffer that drops, no marks."""
    line = "late --acdc --rate 1gbit --delay 250 --flows 2 --seconds 0.4 --mark 0 --buffer 60000"
    loss, both = lab(f"{line} --late 0"), lab(f"{line} --late 2 --late-by 500")
    dropped = [sum(queue["drops"] for queue in run["queues"]) for run in (loss, both)]
    # Two flows' cuts fall in different places: of 30 seeds 22 are within 30 %, all within 55 %.
    assert 0 < dropped[1] < 2 * dropped[0]
    assert both["rtt_us"]["p50"] < 1.2 * loss["rtt_us"]["p50"]
    assert both["goodput_mbps"] > 0.9 * loss["goodput_mbps"]


def test_sysctls_of_the_guests(lab: Any) -> None:
    """Without window scaling 64 KB a round trip are all there is."""
    line = "dumbbell --plain --flows 1 --seconds 0.1 --delay 200"
    unscaled = lab(f"{line} --sysctl net.ipv4.tcp_window_scaling=0")
    assert unscaled["goodput_mbps"] < 0.5 * lab(line)["goodput_mbps"]


def test_flows_outlive_a_restart_of_ovs_vswitchd(lab: Any) -> None:
    line = "dumbbell --flows 3 --seconds 0.6 --restart 0.3"
    plain = lab(f"{line} --stack dctcp --plain")
    acdc = lab(f"{line} --stack cubic --acdc")
    count = counters(acdc)
    # The flows of the beginning, counted by them to the end: what is not of a
    # flow are copies that a switch without its addresses flooded.
    assert count["flows_created"] == count["flows_closed"] == 2 * len(acdc["flows"])
    assert untouched(acdc).get("untouched_midstream", 0) < 0.2 * count["ingress_packets"]
    assert set(untouched(acdc)) <= {"untouched_midstream"}
    assert acdc["goodput_mbps"] >= 0.95 * plain["goodput_mbps"]
    assert acdc["rtt_us"]["p50"] <= 1.3 * plain["rtt_us"]["p50"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_connections_that_a_module_has_forgotten(lab: Any, side: str) -> None:
    """They are taken up again: queue and shares are soon as before."""
    result = lab(f"dumbbell --flows 2 --seconds 0.7 --acdc --reload 0.3 --reload-of {side}")
    count = counters(result)
    assert count["flows_resumed"] == len(result["flows"]) == 3
    assert count["feedback_bad"] == count["flows_fallback"] == 0
    before, after = (result["reload"][when] for when in ("before", "after"))
    # Without marks and windows the queue would be the whole buffer, 1,600 us.
    assert after["rtt_us"]["p99"] == pytest.approx(before["rtt_us"]["p99"], rel=0.1)
    assert after["jain"] > 0.95
    assert after["goodput_mbps"] == pytest.approx(before["goodput_mbps"], rel=0.02)


def test_without_a_tenant_as_the_stock_module(lab: Any) -> None:
    line = "dumbbell --stack dctcp --plain --seconds 0.5"
    stock, patched = lab(f"{line} --stock"), lab(line)
    assert patched["goodput_mbps"] == pytest.approx(stock["goodput_mbps"], rel=0.005)
    for quantile in ("p50", "p99"):
        assert patched["rtt_us"][quantile] == pytest.approx(stock["rtt_us"][quantile], rel=0.03)


def test_native(lab: Any) -> None:
    """The same scenarios on this machine's kernel and clock; how fast is not
    for a test to say."""
    result = lab(
        "dumbbell --native --userspace --stack cubic --acdc --flows 2 --seconds 2"
        " --rate 100mbit --delay 0 --mark 30000 --rto-min 0"
    )
    assert_clean(result)
    assert counters(result)["flows_capable"] == 2 * len(result["flows"])
    assert sum(queue["marks"] for queue in result["queues"]) > 0
    assert all(flow["goodput_mbps"] > 0 for flow in result["flows"] if flow["kind"] == "bulk")


def test_native_restart(lab: Any) -> None:
    """One of two hypervisors' ovs-vswitchd is killed, and forgets all."""
    result = lab(
        "dumbbell --native --userspace --acdc --flows 2 --seconds 5 --rate 100mbit --delay 0"
        " --mark 30000 --rto-min 0 --reload 1 --reload-by kill --tenant police=true"
    )
    assert counters(result)["flows_resumed"] == len(result["flows"]) == 3
    assert counters(result)["policed_packets"] == counters(result)["feedback_bad"] == 0
    assert all(flow["goodput_mbps"] > 0 for flow in result["flows"] if flow["kind"] == "bulk")
    # At both ends; what was flooded until addresses were learnt may be asked for beside.
    assert sum(flow["capable"] for flow in result["engine_flows"]) == 2 * len(result["flows"])


def test_native_tells_what_the_kernel_lacks() -> None:
    done = subprocess.run(
        [LAB / "run", "dumbbell", "--native", "--stack", "no_such_stack"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "this kernel has no" in done.stderr
    assert "Traceback" not in done.stderr


def test_figures() -> None:
    assert results.jain([1, 1, 1, 1]) == 1
    assert results.jain([1, 0, 0, 0]) == 0.25
    assert results.jain([]) is None
    assert results.percentile([1, 2, 3, 4], 50) == 2
    assert results.percentile([1, 2, 3, 4], 99.9) == 4
    assert results.percentile(range(1, 1001), 99.9) == 999
    samples = [[0.0, 0.0], [0.5, 125_000.0], [1.0, 375_000.0]]
    assert results.goodput(samples, 0, 1) == 3
    # It connected at 1 s.
    assert results.goodput([[1.0, 0.0], [2.0, 250_000.0]], 0.0, 2.0) == 1
    finished, not_so = (0.0, "", 1, 0.5, 0), (1.0, "", 10**6, None, 0)
    times = list(results.completion([finished, not_so], 4))
    assert times == [("short", 500), ("unfinished", 3000), ("long", 3000)]
    assert results.series(samples) == [(0.5, 2.0), (1.0, 4.0)]
    assert results.pause(samples) == 0
    assert results.pause([[0.0, 1], [0.5, 1], [0.75, 1], [1.0, 2], [1.5, 2]]) == 0.75
    assert results.pause([]) == 0
