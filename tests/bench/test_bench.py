# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run and count what they say; figures are for a quiet machine."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import kernel_profile
import pytest
import vhost_virtio_user
from acdc_bench import Lost, build, quartiles
from sched_waits import STOPPED, find_stops, find_waits, unavailable

from acdc_testlib.arguments import refusal
from acdc_testlib.long import long
from acdc_testlib.programs import read_env

BENCH = Path(__file__).resolve().parent


def bench(name: str, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [BENCH / name, *options, "--json", "-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("line", "value", "allowed"),
    [
        ("bench/control --flows 0", "'0'", "1 to 8388608"),
        ("bench/dpdk --flows 10,x", "'x'", "1 to 8388608"),
        ("bench/dpdk --pmds 3", "'3'", "1,2"),
        ("bench/engine --batches 33", "'33'", "1 to 32"),
        ("bench/kernel --traffic all", "'all'", "ack,data,mix"),
        ("bench/vhost --tso yes", "'yes'", "off,on"),
        ("bench/vhost --guests kvm", "'kvm'", "virtio-user,qemu"),
        ("lab/report --jobs 0", "'0'", "1 to 1000"),
        ("lab/report --only nothing", "nothing", "stacks, stacks9000"),
        ("qemu/run concurrency --seconds nan", "'nan'", "1 to 1e+06"),
        ("diff/run --pairs 0", "'0'", "1 to 100"),
        ("soak --per-round 0", "'0'", "1 to 10000000"),
        ("soak --connections 0 --gigabytes 0", "0", "nothing to do"),
    ],
)
def test_refused(line: str, value: str, allowed: str) -> None:
    command, *options = line.split()
    said = refusal([BENCH.parent / command, *options])
    assert value in said
    assert allowed in said


def test_kernel_profile(tmp_path: Path) -> None:
    """Instructions a packet of each function, and what a module takes more."""
    symbols = "ffffffff81000000 T send\nffffffff82000000 t parse.cold\t[openvswitch]\n"
    for variant in ("stock", "bound"):
        (tmp_path / variant).write_text(symbols)
    blocks = tmp_path / "blocks"
    stock = "round\n0 ffffffff81000000 400\n1 ffffffff81000010 300\n0 4000 10\n"
    bound = stock.replace("400", "420") + "1 ffffffff82000000 500\n"
    blocks.write_text(stock + bound)
    results = [
        {"variant": variant, "traffic": "ack", "packets": [[10, 5]]}
        for variant in ("stock", "bound")
    ]
    found = kernel_profile.profile(tmp_path, blocks, results)
    assert found["ack egress"]["stock"] == {"send": 40, "user space": 1}
    assert found["ack ingress"]["bound"] == {"send": 60, "parse": 100}
    rows = [line.split() for line in kernel_profile.table(found, "bound")[3:-1]]
    assert rows == [["parse", "+0", "+100"], ["other", "+2", "+0"], ["all", "+2", "+100"]]


def test_kernel_profile_of_a_transfer(tmp_path: Path) -> None:
    """Instructions for each of its segments, whichever way they went."""
    (tmp_path / "bound").write_text("ffffffff81000000 T send\n")
    blocks = tmp_path / "blocks"
    blocks.write_text("round\n0 ffffffff81000000 400\n0 ffffffff81000010 80\n")
    result = {"variant": "bound", "traffic": "tcp-tso-on", "segments": 8}
    found = kernel_profile.profile(tmp_path, blocks, [result])
    assert found == {"tcp-tso-on": {"bound": {"send": 60}}}


# A kernel may have no AF_XDP.
AFXDP = pytest.param(["--afxdp"], marks=long)


@pytest.mark.parametrize("options", [[], AFXDP], ids=["af-packet", "af-xdp"])
def test_without_dpdk(options: list[str]) -> None:
    result = bench("af-packet", "--packets", "300", *options)
    variants = result["a packet"]
    assert 300 < sum(variants["stock"].values()) < 3000
    assert not {name for name in variants["stock"] if name.endswith("gress_run")}
    assert all(50 < variants["bound"][name] < 500 for name in ("egress_run", "ingress_run"))
    assert result["counters"]["pack_received"]


@pytest.mark.parametrize("picks", ["uniform", "zipf"])
def test_engine(picks: str) -> None:
    result = bench(
        *("engine", "--flows", "1,1000", "--batches", "1,32", "--picks", picks),
        *("--runs", "1", "--packets", "3200", "--no-instructions"),
    )
    cases = result["cases"]
    assert [(c["flows"], c["batch"]) for c in cases] == [(1, 1), (1, 32), (1000, 1), (1000, 32)]
    for case in cases:
        assert all(ns > 0 for ns in case["ns"].values())
        assert case["setups_per_second"] > 0
        assert case["teardowns_per_second"] > 0
        # The longest call is one of all; of each flow it is rounded.
        assert 0 < case["sweep_call_us"] <= (case["sweep_ns"] + 0.06) * case["flows"] / 1e3
    assert 124 <= cases[-1]["bytes_per_flow"] <= 144


def test_engine_over_ipv6() -> None:
    line = ("engine", "--flows", "1000", "--batches", "32", "--picks", "uniform", "--runs", "1")
    four = bench(*line, "--packets", "3200")
    six = bench(*line, "--packets", "3200", "--ipv6")
    assert (four["ip"], six["ip"]) == (4, 6)
    # Its addresses: of each flow, and to be compared with each packet's.
    assert six["cases"][0]["bytes_per_flow"] - four["cases"][0]["bytes_per_flow"] == 32
    for name in ("data-egress", "ack-ingress", "data-ingress", "ack-egress"):
        assert 0 < six["instructions"][name] - four["instructions"][name] < 250


def test_engine_counts_cache_lines() -> None:
    """A packet needs a line of its flow or two or three, and its bucket's, which it
    may have in common with others."""
    result = bench(
        *("engine", "--flows", "1000", "--batches", "32", "--picks", "uniform"),
        *("--runs", "1", "--packets", "3200", "--no-instructions", "--misses"),
    )
    (case,) = result["misses"]
    assert case["flows"] == 1000
    lines = case["lines"]
    assert 1 <= lines["data-egress"]["D1"] <= 4
    assert lines["data-egress"]["D1"] + 0.5 < lines["ack-ingress"]["D1"] <= 6
    assert lines["udp"]["D1"] < 0.5
    assert all(of["DL"] < 0.5 for of in lines.values())


def test_engine_refuses_what_is_no_number() -> None:
    assert "many" in refusal([BENCH / "engine", "--flows", "many"])


@pytest.mark.skipif(read_env()["OVS_DPDK"] != "shared", reason="Open vSwitch without DPDK")
def test_dpdk() -> None:
    result = bench(
        *("dpdk", "--traffic", "mix", "--flows", "100", "--pmds", "1", "--instructions"),
        *("--restarts", "1", "--pairs", "2", "--seconds", "0.1"),
    )
    (case,) = result["cases"]
    assert case["state"]["bound"]["acdc"]["n_capable"] == 100
    for variant in ("unbound", "bound"):
        assert case[variant]["ratio"] > 0
    # Without a tenant a packet takes what it takes without our patches; where
    # OVS's own caches keep a flow depends on chance.
    counts = case["instructions"]
    assert counts["unbound"] < 1.03 * counts["pristine"] < counts["bound"]


@pytest.mark.skipif(read_env()["OVS_DPDK"] != "shared", reason="Open vSwitch without DPDK")
def test_dpdk_with_smc() -> None:
    result = bench(
        *("dpdk", "--smc", "--traffic", "mix", "--flows", "1000", "--pmds", "1"),
        *("--restarts", "1", "--pairs", "1", "--seconds", "0.05"),
    )
    (case,) = result["cases"]
    assert case["smc"]
    hits = {variant: state["smc hits"] for variant, state in case["state"].items()}
    assert hits["pristine"] > 0
    assert hits["unbound"] > 0
    # Guests' connections are in a cache that is asked before.
    assert hits["bound"] < hits["unbound"] / 10


@pytest.mark.skipif(read_env()["OVS_DPDK"] != "shared", reason="Open vSwitch without DPDK")
def test_dpdk_with_two_threads() -> None:
    """Paced, and each connection has an ACK once in 16 rounds, which take a second: not so rarely
    that it is not followed."""
    result = bench(
        *("dpdk", "--pace", "--traffic", "data", "--flows", "100000", "--pmds", "2"),
        *("--restarts", "1", "--pairs", "2", "--seconds", "0.1"),
        *([] if unavailable() else ["--waits"]),
    )
    (case,) = result["cases"]
    assert case["state"]["bound"]["acdc"]["n_capable"] == 100000
    cpus = os.sched_getaffinity(0)
    if unavailable():
        assert "tracefs" in refusal([BENCH / "dpdk", "--waits"])
    elif cpus == {0, 1}:
        (wait,) = case["bound"]["setup_waits"]
        assert wait["own_us"] > 0
    # Nanoseconds: a line is in nobody's cache that soon, nor on its way for that long.
    assert len(case["lines"]) == 2
    for turn in case["lines"]:
        assert 1 < turn["before_ns"] < 1e6
        assert 1 < turn["after_ns"] < 1e6
        assert turn["bound_ns"] > 0


def test_waits() -> None:
    """Two processors, PMD threads 8 and 9; 1 and 2 are others."""

    def switch(cpu: int, ms: float, out: int, into: int) -> str:
        return (
            f"  name-{out} [00{cpu}] d..2. {100 + ms / 1000:.6f}: sched_switch: prev_comm=a b "
            f"prev_pid={out} prev_prio=120 prev_state=R+ ==> next_comm=c/d next_pid={into} "
            "next_prio=98"
        )

    lines = [
        "# a comment",
        switch(0, 0, 1, 2),
        switch(0, 5, 2, 8),  # Before it first had it: not waited for.
        switch(1, 5, 0, 9),
        switch(0, 6, 8, 1),
        switch(0, 7, 1, 2),
        switch(0, 7.5, 2, 8),
        switch(1, 8, 9, 0),
        switch(0, 7.52, 8, 2),  # Had it for 20 us: the same wait.
        switch(0, 8.52, 2, 8),
        switch(0, 9, 8, 1),
        switch(1, 9, 0, 9),
        switch(0, 9.25, 1, 8),  # The last one.
    ]
    found = sorted(sorted(wait.items()) for wait in find_waits(lines, {8, 9}, []))
    assert found == [[(0, 1000)], [(1, 250)], [(1, 1000), (2, 1500)]]
    # The host had them for half of the time, and before and after.
    stops = [(100.001, 100.002), (100.0061, 100.0063), (100.0066, 100.0071), (100.010, 100.020)]
    found = sorted(sorted(wait.items()) for wait in find_waits(lines, {8, 9}, stops))
    assert found == [[(STOPPED, 700), (1, 400), (2, 1400)], [(0, 1000)], [(1, 250)]]


def test_stops() -> None:
    def event(cpu: int, ms: float, what: str) -> str:
        return f"  a b-7 [00{cpu}] d.h1. {100 + ms / 1000:.6f}: {what}"

    def due(timer: str, ns: int) -> str:
        return f"hrtimer_start: hrtimer={timer} function=hrtimer_wakeup expires={ns} softexpires=1"

    def expires(timer: str, ns: int) -> str:
        return f"hrtimer_expire_entry: hrtimer={timer} function=hrtimer_wakeup now={ns}"

    lines = [
        "# a comment",
        event(0, 0, due("aa", 5_000_000)),
        event(0, 0, due("bb", 5_000_000)),
        event(0, 1, expires("aa", 5_090_000)),  # Soon enough.
        event(1, 2, expires("bb", 5_500_000)),  # 0.5 ms late.
        event(1, 2.5, expires("bb", 9_000_000)),  # When it was due is not known.
        event(0, 3, "ipi_send_cpu: cpu=1 callsite=wakeup_preempt+0x92/0xa0 callback=0x0"),
        event(0, 3.1, "ipi_send_cpu: cpu=1 callsite=wakeup_preempt+0x92/0xa0 callback=0x0"),
        event(1, 4, "reschedule_entry: vector=253"),
        event(1, 5, "reschedule_entry: vector=253"),
        event(0, 6, "ipi_send_cpu: cpu=1 callsite=wakeup_preempt+0x92/0xa0 callback=0x0"),
        event(1, 6.01, "sched_switch: prev_comm=a"),  # Alive.
        event(1, 7, "reschedule_entry: vector=253"),
        event(0, 7, "ipi_send_cpu: cpu=1 callsite=on_each_cpu callback=generic+0x0/0x10"),
        event(1, 8, "reschedule_entry: vector=253"),
        event(0, 8, "local_timer_entry: vector=236"),
        event(1, 8.1, "local_timer_entry: vector=236"),
        event(0, 8.05, "local_timer_exit: vector=236"),
        event(1, 9, "local_timer_exit: vector=236"),
        event(0, 10, due("cc", 8_000_000)),  # Already overdue.
        event(0, 10.01, expires("cc", 9_200_000)),
        event(0, 11, due("dd", 20_000_000)),
        event(0, 12, "hrtimer_start: hrtimer=dd function=tick expires=29000000 softexpires=1"),
        event(0, 13, expires("dd", 30_000_000)),  # Another one's by now.
    ]
    stops = find_stops(lines)
    assert [tuple(round((t - 100) * 1e3, 3) for t in stop) for stop in stops] == [
        (1.5, 2.0),
        (3.0, 4.0),
        (8.1, 9.0),
    ]


@pytest.mark.skipif(read_env()["OVS_DPDK"] != "shared", reason="Open vSwitch without DPDK")
def test_dpdk_says_what_a_command_was_refused_for() -> None:
    done = subprocess.run(
        [
            *(BENCH / "dpdk", "--traffic", "mix", "--flows", "10", "--pmds", "1", "--pairs", "1"),
            *("--restarts", "1", "--seconds", "0.05", "--meanwhile", "acdc/show nobody"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "nobody" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(read_env()["OVS_DPDK"] != "shared", reason="Open vSwitch without DPDK")
def test_vhost_with_virtio_user() -> None:
    result = bench(
        *("vhost", "--guests", "virtio-user", "--traffic", "mix", "--flows", "100"),
        *("--restarts", "1", "--turns", "2", "--burst", "0.1"),
    )
    # 54 bytes of headers and one segment; with TSO as many as the first window has room
    # for, two frames with data of three.
    for case, tso in zip(result["virtio-user"], ("off", "on"), strict=True):
        assert case["tso"] == tso
        assert (case["segments"] > 1) == (tso == "on")
        for variant in ("pristine", "unbound", "bound"):
            found = case[variant]
            assert found["bytes"] == pytest.approx(54 + 2 / 3 * 1460 * case["segments"], rel=0.01)
            assert 0 < found["latency_ns"] < 164_000
            assert found["busy"] > 0.01
        for variant in ("unbound", "bound"):
            assert case[variant]["ratio"] > 0
        assert case["acdc"]["pack_received"] > 0
        assert case["acdc"]["marked_ect"] > 0


@pytest.mark.skipif(read_env()["OVS_DPDK"] != "shared", reason="Open vSwitch without DPDK")
def test_vhost_notices_lost_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a latency of frames that never arrived."""
    monkeypatch.setattr(vhost_virtio_user, "STALLED", 2.0)
    program = tmp_path / "vhost-source"
    build("vhost-source.c", program)
    case = vhost_virtio_user.Case("off", "mix", 10, "prefix")
    with contextlib.closing(vhost_virtio_user.Switch("pristine", case, program)) as switch:
        assert switch.latency(0.05)["latency_ns"] > 0
        switch.proceed()
        rules = switch.ovs.ofctl("dump-flows", "br0", "--no-stats", "--no-names")
        switch.ovs.ofctl("del-flows", "br0")
        with pytest.raises(Lost, match=r"of \d+ frames \d+ arrived"):
            switch.latency(0.05)
        for rule in filter(None, map(str.strip, rules.splitlines())):
            switch.ovs.ofctl("add-flow", "br0", rule)
        # What was lost is, whatever the switch does now.
        with pytest.raises(Lost):
            switch.check()


def test_quartiles() -> None:
    assert quartiles([0.5]) == (0.5, 0.5, 0.5)
    assert quartiles([1, 2, 3]) == (1, 2, 3)


def test_control() -> None:
    result = bench("control", "--flows", "3000", "--runs", "1", "--idle", "0.5")
    assert set(result["commands"]) >= {
        "beta",
        "max-flows",
        "show",
        "stats",
        "dump 50000",
        "dump all",
        "dump pages",
        "flush",
    }
    # Two pages of 2000 connections at most.
    assert result["pages"]["flows"] == 3000
    assert 0 < result["pages"]["longest_reply"] < 2000 * 1000
    for found in result["commands"].values():
        assert found["seconds"] > 0
        assert found["frames_lost"] == 0
    assert result["left"] == 0
