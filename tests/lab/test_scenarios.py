# SPDX-License-Identifier: Apache-2.0
"""The scenarios fit together, the report's figures are right, and a quick part
of the experiments holds."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from acdc_lab import report_figures as figures
from acdc_lab import report_page, report_plots, results
from acdc_lab.report_experiments import EXPERIMENTS
from acdc_lab.report_figures import Experiment, Figure, at_least, at_most
from acdc_lab.report_page import Section
from acdc_lab.scenarios import CAP, SCENARIOS, Options, address
from matplotlib.colors import to_hex
from test_lab import assert_clean, counters, lab  # noqa: F401  (a fixture)

from acdc_testlib.arguments import refusal

SIZES = Path(__file__).resolve().parent / "sizes"
Result = dict[str, Any]


# Plans. ----------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_plan_fits_together(name: str) -> None:
    plan = SCENARIOS[name](Options(name, ["cubic", "reno"]))
    hosts = {host.name: host for host in plan.hosts}
    assert len(hosts) == len(plan.hosts)
    assert {host.switch for host in plan.hosts} <= set(plan.switches)
    assert {end for trunk in plan.trunks for end in (trunk.a, trunk.b)} <= set(plan.switches)
    # Linux's limit for the name of a device.
    devices = [f"p-{name}" for name in hosts]
    devices += [f"t-{a}-{b}" for t in plan.trunks for a, b in ((t.a, t.b), (t.b, t.a))]
    assert max(map(len, devices)) <= 15
    assert len({traffic.name for traffic in plan.traffic}) == len(plan.traffic)
    for traffic in plan.traffic:
        assert {traffic.source, *traffic.to} <= set(hosts)
        assert traffic.source not in traffic.to
        if "--sizes" in traffic.args:
            sizes = traffic.args[traffic.args.index("--sizes") + 1]
            assert (SIZES / f"{sizes}.txt").exists()
    assert set(plan.tenants) <= {host.tenant for host in plan.hosts}
    assert {change.tenant for change in plan.changes} <= set(plan.tenants)
    assert {move.host for move in plan.moves} <= set(hosts)
    assert {move.to for move in plan.moves} <= set(plan.switches)
    # Every host reaches every other.
    reached = {plan.switches[0]}
    for _ in plan.switches:
        for trunk in plan.trunks:
            if reached & {trunk.a, trunk.b}:
                reached |= {trunk.a, trunk.b}
    assert reached == set(plan.switches)


def test_what_is_asked_for_is_so_although_it_is_another_scenario_s_default() -> None:
    shallow = SCENARIOS["shallow"]
    assert shallow(Options("shallow", ["cubic"])).trunks[0].buffer == 110_000
    assert shallow(Options("shallow", ["cubic"], buffer=2_000_000)).trunks[0].buffer == 2_000_000
    args = [
        SCENARIOS["onramp"](Options("onramp", ["cubic"], load=load)).traffic[-1].args
        for load in (0, 0.02, 0.5)
    ]
    assert args[0] == args[1] != args[2]


@pytest.mark.parametrize("ipv6", [False, True])
def test_the_rule_of_wan_is_for_the_far_guest(ipv6: bool) -> None:
    options = Options("wan", ["cubic"], flows=130, ipv6=ipv6)
    plan = SCENARIOS["wan"](options)
    (rule,) = plan.tenants["blue"].rules
    (far,) = [i for i, host in enumerate(plan.hosts, start=1) if host.delay == 10e-3]
    assert f"remote={address(options, far)}/" in rule


def test_the_probe_of_manytoone_sees_the_transfers_begin() -> None:
    first, *transfers = SCENARIOS["manytoone"](Options("manytoone", ["cubic"])).traffic
    assert first.name == "probe"
    assert first.start < min(traffic.start for traffic in transfers)


def test_the_seed_varies_what_is_random() -> None:
    def orders(seed: int) -> list[list[str]]:
        plan = SCENARIOS["shuffle"](Options("shuffle", ["cubic"], seed=seed))
        return [traffic.to for traffic in plan.traffic if traffic.kind == "transfer"]

    assert orders(1) == orders(1) != orders(2)
    assert [sorted(order) for order in orders(1)] == [sorted(order) for order in orders(2)]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_experiments_name_what_there_is(experiment: Any) -> None:
    for line in experiment.runs.values():
        assert line.split()[0] in SCENARIOS
    assert any("--acdc" in line for line in experiment.runs.values())
    for figure in experiment.figures:
        assert not figure.target or not figure.target.of or figure.target.of in experiment.runs
        assert set(figure.only) <= set(experiment.runs)


# Figures. ---------------------------------------------------------------------


def test_a_picture_tells_runs_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(
        report_plots,
        "save",
        lambda _, figure: drawn.extend(to_hex(x.get_color()) for x in figure.axes[0].get_lines()),
    )
    stacks = next(experiment for experiment in EXPERIMENTS if experiment.name == "stacks")
    runs = {name: {"rtt_cdf": [[1.0, 50.0], [2.0, 100.0]]} for name in stacks.runs}
    assert report_plots.rtt_cdf(runs, tmp_path)
    assert len(set(drawn)) == len(drawn) == len(runs)


def test_pictures_of_an_experiment(tmp_path: Path) -> None:
    runs = {"acdc": {"rtt_cdf": [[1.0, 50.0], [2.0, 100.0]]}}
    for name, count in (("wan", 1), ("wander", 0), ("stacks9000", 1), ("incast16", 1)):
        assert len(report_plots.plots(name, runs, tmp_path)) == count
    assert report_plots.plots("fct-websearch-0.3", {}, tmp_path) == []


def test_a_report_without_runs(tmp_path: Path) -> None:
    command: list[str | Path] = [SIZES.parent / "report", "--page-only", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no runs of this code" in done.stderr
    assert not (tmp_path / "index.html").exists()


def test_a_page_that_is_there_keeps_its_other_experiments() -> None:
    there = {
        "spread": Section("5 flows <>", 7, 3, '<h2 id="spread">5 flows</h2>\n<p>f1</p>'),
        "cap": Section("max_window", 2, 0, '<h2 id="cap">max_window</h2>\n<p>f2</p>'),
    }
    page = report_page.page(there, ["incast-curves.png"])
    assert "9 of 12 targets met" in page
    assert report_page.sections(page) == there


def test_a_section_of_the_page() -> None:
    """Figures with their range, judged where there is AC/DC; text is escaped."""
    shown = [
        Figure("RTT, <us>", lambda result: result["rtt"], at_most(1.05, "dctcp")),
        Figure("not there", lambda result: None, at_most(1)),
        # Of another scenario, by the same name.
        Figure("not there", lambda result: 5, at_most(1), scenario="incast"),
    ]
    runs = {"dctcp": "dumbbell", "acdc": "dumbbell --acdc", "unmade": "dumbbell --acdc"}
    experiment = Experiment("name", "A & B", "says <1>", runs, shown)
    made = {"command": "dumbbell --mtu 9000 --seconds 4 --seed 1"}
    results = {
        "dctcp": {1: {"rtt": 100, "report": made}, 2: {"rtt": 120, "report": made}},
        "acdc": {1: {"rtt": 130, "report": made}},
    }
    judged = report_page.Judged(experiment, results, ["unmade, seed 1"])
    report_page.judge(judged)
    section = report_page.section(judged, {"kernel": "6.1"})
    assert (section.met, section.missed) == (0, 4)
    assert '<h2 id="name">A &amp; B</h2>' in section.text
    assert "says &lt;1&gt;" in section.text
    assert "<td>110 <small>100–120</small></td>" in section.text
    assert '<td class="missed">130</td>' in section.text
    assert section.text.count("<td></td>") == 3
    assert section.text.count('<td class="missed"></td>') == 1
    assert "<b>No result:</b> unmade, seed 1." in section.text
    missed = section.text.partition("<b>Missed:</b> ")[2]
    assert missed.startswith("acdc: RTT, &lt;us&gt; 130, not ≤ 1.05 × dctcp; unmade: RTT, &lt;us&gt;")
    assert "acdc: not there nothing, not ≤ 1; unmade: not there nothing, not ≤ 1." in missed
    assert "run dumbbell --mtu 9000 --seconds 4</code>,\n seed 1, 2</small>" in section.text
    assert section.text.endswith("<small>kernel: 6.1</small></p>")


def test_a_page_in_no_directory() -> None:
    said = refusal([SIZES.parent / "report", "--onto", "/nowhere"])
    assert "'/nowhere'" in said


def test_targets() -> None:
    runs = {"dctcp": 100.0, "plain": None}
    assert at_most(1.05, "dctcp").met(105, runs) is True
    assert at_most(1.05, "dctcp").met(106, runs) is False
    assert at_least(0.99).met(0.991, {}) is True
    assert at_least(0.99).met(0.98, {}) is False
    assert at_most(1, "plain").met(1, runs) is None
    assert at_most(1).met(None, {}) is False
    assert str(at_most(1.05, "dctcp")) == "≤ 1.05 × dctcp"


def test_distributions() -> None:
    values = [float(value) for value in range(1, 1001)]
    points = results.cdf(values)
    assert points[99] == (500, 50) and points[-1] == (1000, 100)
    assert all(a <= b for a, b in itertools.pairwise(points))
    assert results.stem("small12") == "small" and results.stem("query-h3") == "query"


def flow(name: str, start: float, rates: list[tuple[float, float]], **more: Any) -> Result:
    """A bulk flow with (seconds, Mbit/s), one after the other."""
    samples, time, acked = [[0.0, 0.0]], 0.0, 0.0
    for seconds, mbps in rates:
        for _ in range(round(seconds / 0.01)):
            time += 0.01
            acked += mbps * 1e6 / 8 * 0.01
            samples.append([round(time, 6), acked])
    info = {"fields": ["t", "bytes_acked"], "samples": samples}
    return {"name": name, "kind": "bulk", "start": start, "tcp_info": info, **more}


def test_time_to_a_fair_share() -> None:
    # Two flows, a step of 1 s: the second needs 0.3 s to its half, the first,
    # alone again, 0.1 s to all.
    first = flow("f1", 0, [(1, 900), (0.3, 800), (0.7, 450), (0.1, 450), (0.9, 900)])
    second = flow("f2", 1, [(0.3, 100), (0.7, 450)])
    found = figures.converge_times({"flows": [first, second], "options": {"seconds": 3}})
    # Means over 50 ms: one that begins where the share is right, or a little
    # before.
    assert found == pytest.approx([350, 150], abs=20)


def test_beta() -> None:
    assert figures.beta_model([1, 0]) == pytest.approx([2 / 3, 1 / 3])
    rates = [400, 300, 200, 100]
    flows = [flow(f"f{i}", 0, [(4, rate)]) for i, rate in enumerate(rates)]
    # Its share is 0.248.
    flows.append(flow("f4", 0, [(2, 50), (0.2, 75), (1.8, 330)]))
    result = {"flows": flows, "options": {"seconds": 4}}
    assert figures.beta_shares(result)[0] == pytest.approx(400 / 1050)
    assert figures.beta_order(result) == pytest.approx(50 / 1050)
    assert figures.beta_effect(result) == pytest.approx(250, abs=20)
    flows[-1] = flow("f4", 0, [(2, 50), (0.2, 75), (1.8, 200)])
    assert figures.beta_effect(result) == math.inf


def test_clients_that_do_not_connect() -> None:
    """No figure, and no picture, fails for want of their samples."""
    experiments = {experiment.name: experiment for experiment in EXPERIMENTS}
    flows = [flow(f"f{i}", 0, [], goodput_mbps=0.0, source=f"s{i}") for i in range(1, 6)]
    for one in flows:
        one["tcp_info"] = {"fields": [], "samples": []}
        one["goodput_series"] = []
    trace = [{"t": 1.0, "flows": []}]
    result = {"flows": flows, "trace": trace, "options": {"seconds": 9, "interval": 0.01}}
    for name in ("beta", "cap", "track", "converge", "wander", "long", "incast16", "police"):
        for figure in experiments[name].figures:
            with contextlib.suppress(KeyError):  # Of what a result has besides flows.
                figure.value(result)
    assert figures.least_share(result) is figures.cap_error(0, 1)(result) is None
    assert figures.beta_effect(result) == math.inf
    assert figures.converge_max(result) == pytest.approx(1000, abs=11)
    assert not report_plots.window_tracking({"acdc": result}, Path())


def test_cap_error() -> None:
    capped = flow("f1", 0, [(2, 1000)])
    info = capped["tcp_info"]
    info["fields"].append("rtt_us")
    info["samples"] = [[*row, CAP * 8 / 1000] for row in info["samples"]]
    result = {"flows": [capped], "options": {"seconds": 2}}
    assert figures.cap_error(0.1, 0.5)(result) == pytest.approx(0, abs=1e-6)
    info["samples"] = [[*row[:2], row[2] / 2] for row in info["samples"]]
    assert figures.cap_error(0.1, 0.5)(result) == pytest.approx(0.5)


def test_window_tracking() -> None:
    guest = {"fields": ["t", "bytes_acked", "cwnd"], "samples": [[0.5, 0, 20], [1.0, 0, 10]]}
    # A row of another time, and the other direction's, do not count.
    rows = [(0.5, 22, 40000), (0.7, 99, 40000), (1.0, 11, 40000), (1.0, 50, 5001)]
    trace = [
        {"t": t, "flows": [{"port": "p-s1", "local_port": port, "wnd": wnd * 1448, "mss": 1448}]}
        for t, wnd, port in rows
    ]
    bulk = {"name": "f1", "kind": "bulk", "source": "s1", "start": 0, "tcp_info": guest}
    result = {"flows": [bulk], "trace": trace, "options": {"seconds": 1}}
    assert figures.track_bias(result) == pytest.approx(1.1)
    assert figures.track_error(result) == pytest.approx((5 / 2) ** 0.5 / 15)


def test_connections_and_stalls() -> None:
    rows = [[0, "", 1, 0.0002, 0], [0, "", 1, 1.01, 0], [0, "", 1, None, 0], [0, "", 1, 0.1, 0]]
    assert figures.connect_probability({"flows": [{"name": "connect", "flows": rows}]}) == 0.5
    assert figures.connect_probability({"flows": []}) is None


def test_shares_that_wander() -> None:
    """First-order autoregressive noise of a known deviation and time constant."""
    source = random.Random(1)
    keep, deviation, value = math.exp(-1 / 7), 0.2, 0.0
    series = []
    for i in range(30_000):
        value = keep * value + (1 - keep**2) ** 0.5 * source.gauss(0, deviation)
        series.append([0.2 + i * 1e-3, 100 * (1 + value)])
    flow = {"kind": "bulk", "goodput_series": [[0.1, 1e9], *series]}
    result = {"flows": [flow, {"kind": "rpc"}], "options": {"interval": 1e-3, "seconds": 2}}
    assert figures.share_deviation(result) == pytest.approx(0.2, rel=0.1)
    assert figures.share_memory(result) == pytest.approx(7, rel=0.1)
    flow["goodput_series"] = [[1 + i, 100 if i % 8 < 4 else 50] for i in range(100)]
    assert figures.share_memory(result) is None
    for n in (1, 4, 5, 9):
        flow["goodput_series"] = [[1 + i, 100] for i in range(n)]
        assert figures.share_memory(result) is None
        assert figures.share_deviation(result) == 0
    flow["goodput_series"] = [[0.1, 100]]
    assert figures.share_memory(result) is figures.share_deviation(result) is None


def test_transfers_one_after_the_other_end_no_sooner() -> None:
    """Equal halves of a link, or all of it in turn: the mean of the rates prefers the latter."""

    def of(*rows: list[Any]) -> dict[str, Any]:
        return {"flows": [{"kind": "transfer", "flows": rows}, {"kind": "flows", "flows": [[9]]}]}

    both = of([0, "a", 1_250_000, 0.002, 0], [0, "b", 1_250_000, 0.002, 0])
    turns = of([0, "a", 1_250_000, 0.001, 0], [0.001, "b", 1_250_000, 0.001, 0])
    assert figures.transfer_rate(both) == pytest.approx(5000)
    assert figures.transfer_rate(turns) == pytest.approx(10000)
    assert figures.transfer_time(both) == pytest.approx(2)
    assert figures.transfer_time(turns) == pytest.approx(1)
    assert figures.transfers_end(both) == figures.transfers_end(turns) == pytest.approx(2)
    unfinished = of([0, "a", 1_250_000, 0.001, 0], [0, "b", 1_250_000, None, 0])
    assert figures.transfer_rate(unfinished) == pytest.approx(5000)
    assert figures.transfer_time(unfinished) == figures.transfers_end(unfinished) == math.inf
    bulk = [{"kind": "bulk", "pause_s": pause} for pause in (0, 0.07)]
    assert figures.stall({"flows": bulk}) == pytest.approx(70)


# Quick runs. ------------------------------------------------------------------


def test_dctcp_and_cubic_guests_coexist(lab: Any) -> None:  # noqa: F811
    plain = lab("coexist --plain --seconds 0.5")
    acdc = lab("coexist --acdc --seconds 0.5")
    assert plain["jain"] < 0.7
    assert acdc["jain"] > 0.95
    assert acdc["tcp"]["retransmits"] == 0


def test_a_guest_that_ignores_windows_is_policed(lab: Any) -> None:  # noqa: F811
    free = lab("police --acdc --seconds 0.3")
    policed = lab("police --acdc --seconds 0.3 --tenant police=true")
    # It is real: without policing it has the link.
    assert figures.shares(free)[0] > 0.9 * free["goodput_mbps"]
    assert counters(policed)["policed_packets"] > 0
    others = figures.shares(policed)[1:]
    assert sum(others) > 0.95 * 4 / 5 * policed["goodput_mbps"]
    assert policed["rtt_us"]["p99"] < 200


def test_pacing_shares_equally(lab: Any) -> None:  # noqa: F811
    """Senders whose delays differ: trains meet in the same order again and again, and what is
    paced does not come in trains."""
    run = "dumbbell --acdc --seconds 0.4 --spread 4 --uplinks"
    trains, paced = lab(run), lab(f"{run} --tenant pace=true")
    assert paced["jain"] > 0.98 > trains["jain"]
    assert paced["goodput_mbps"] > 0.98 * trains["goodput_mbps"]
    assert paced["rtt_us"]["p99"] < 1.1 * trains["rtt_us"]["p99"]
    assert counters(trains)["paced"] == 0
    assert counters(paced)["paced"] > 10_000
    # The uplinks' fq holds it: next to no round trip says that it does not.
    assert counters(paced)["paced_unheld"] < counters(paced)["rtt_samples"] / 100


def test_paced_data_leaves_in_pieces(lab: Any) -> None:  # noqa: F811
    """Guests with TSO hand over a third of their window in one packet."""
    paced = lab("dumbbell --acdc --seconds 0.3 --spread 4 --uplinks --offload --tenant pace=true")
    assert_clean(paced)
    assert paced["jain"] > 0.94
    assert paced["rtt_us"]["p99"] < 145


def test_pacing_without_fq_is_as_without_pacing(lab: Any) -> None:  # noqa: F811
    """Nothing holds packets: rates and queue are as they are."""
    free = lab("dumbbell --acdc --seconds 0.3")
    paced = lab("dumbbell --acdc --seconds 0.3 --tenant pace=true")
    assert paced["goodput_mbps"] > 0.98 * free["goodput_mbps"]
    assert paced["rtt_us"]["p99"] < 1.1 * free["rtt_us"]["p99"]
    assert counters(paced)["paced"] > 0


def test_a_window_s_cap(lab: Any) -> None:  # noqa: F811
    result = lab("cap --acdc --seconds 0.4")
    # Not more; a little less, since a guest does not send in parts of a segment.
    error = figures.cap_error(0.1, 0.5)(result)
    assert error is not None and error < 0.1


def test_priorities_side_by_side(lab: Any) -> None:  # noqa: F811
    by_tenant = {
        tenant["name"]: tenant["counters"]["egress_bytes"]
        for tenant in lab("beta --acdc --seconds 1")["engine"]["tenants"]
    }
    assert by_tenant["beta1"] > 1.3 * by_tenant["beta0.25"]


def test_queries_and_transfers(lab: Any) -> None:  # noqa: F811
    queries = lab("fct --acdc --seconds 0.05 --flows 6 --load 0.2")["rpc_us"]["query"]
    assert queries["n"] > 0 and queries["min"] > 40
    stride = lab("stride --acdc --seconds 0.02 --flows 9")
    big = [f for f in stride["flows"] if f["kind"] == "transfer"]
    assert [len(f["flows"]) for f in big] == [4] * 9
    assert all(row[3] is not None for f in big for row in f["flows"])


def test_lost_tails_are_probed(lab: Any) -> None:  # noqa: F811
    """Guests' own timers are 200 ms.  RACK's 20 ms after a SACK are no timeout."""
    result = lab(
        "tails --acdc --rto-min 0 --loss 1 --flows 3 --seconds 0.2 --tenant tail_probe=2000"
    )
    assert_clean(result)
    count = counters(result)
    assert count["tail_probes"] > 0 == count["tail_spurious"]
    # What is sent again may be lost, too.
    assert count["retransmits"] > 10 * max(count["timeouts"], result["tcp"]["timeouts"])
    assert result["rpc_us"]["small"]["p99"] < 100_000


def test_delayed_acks_are_not_probed(lab: Any) -> None:  # noqa: F811
    """The next request, after 1 to 3 ms, is the ACK of an answer of a byte."""
    line = "shallow --flows 4 --buffer 4000000 --rto-min 0 --seconds 0.3"
    result = lab(f"{line} --acdc --tenant tail_probe=500")
    assert result["rpc_us"]["short"]["n"] > 100
    assert counters(result)["tail_probes"] == 0
