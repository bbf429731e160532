# SPDX-License-Identifier: Apache-2.0

"""acdc-exporter, the rules and the dashboard: a real Prometheus scrapes a real switch."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import pytest

from acdc_testlib.netns import Netns, wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.traffic import Transfer, finish_all, open_connection
from observe.conftest import MARKED_PORT, PORT, B, Path, daemon_that_says

ROOT = File(__file__).resolve().parents[2]
EXPORTER = ROOT / "utilities/acdc-exporter"
RULES = ROOT / "utilities/prometheus/acdc-rules.yml"
DASHBOARD = ROOT / "utilities/prometheus/acdc-dashboard.json"
METRICS = "127.0.0.1:9625"
CONFIG = f"""
global: {{ scrape_interval: 500ms, evaluation_interval: 1s }}
rule_files: [{RULES}]
scrape_configs: [{{ job_name: acdc, static_configs: [{{ targets: ["{METRICS}"] }}] }}]
"""


def once(*arguments: str | File, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [EXPORTER, "--once", *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def samples(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def get(ns: Netns, url: str) -> str:
    with ns.entered(), urllib.request.urlopen(url, timeout=10) as reply:
        return str(reply.read().decode())


@dataclass
class Prometheus:
    ns: Netns

    def ask(self, what: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        reply = json.loads(get(self.ns, f"http://127.0.0.1:9090/api/v1/{what}?{query}"))
        assert reply["status"] == "success" and not reply.get("warnings"), reply
        return reply["data"]

    def query(self, expression: str) -> list[float]:
        return [float(row["value"][1]) for row in self.ask("query", query=expression)["result"]]


@pytest.fixture(scope="module")
def prometheus(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has scraped while guests sent, and windows were cut."""
    home = tmp_path_factory.mktemp("prometheus")
    (home / "prometheus.yml").write_text(CONFIG)
    ns = path.ovs.ns
    exporter = ns.popen(EXPORTER, "--rundir", path.ovs.rundir)
    server = ns.popen(
        *("prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"),
        "--web.listen-address=127.0.0.1:9090",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # Connections are timed; no delay is that long.
    path.ovs.set_tenant("blue", on_ramp=1_000_000)
    # What is not TCP passes untouched.
    ping = path.a.popen("ping", "-i", "0.2", B, stdout=subprocess.DEVNULL)
    streams = [Transfer(path.a, path.b, B, port=port) for port in (PORT + 10, MARKED_PORT)]
    try:
        found = Prometheus(ns)

        def scraped() -> bool:
            try:
                counts = found.query("min(count_over_time(ovs_acdc_tenant_egress_bytes_total[1m]))")
            except urllib.error.URLError:
                return False
            return counts != [] and counts[0] >= 6

        wait_for("scrapes", scraped, 30, 0.2)
        yield found
    finally:
        finish_all(streams)
        path.ovs.set_tenant("blue", on_ramp=0)
        for process in (ping, server, exporter):
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    assert exporter.returncode == 0


# The exporter.


def test_it_says_what_acdc_show_says(path: Path) -> None:
    path.transfer(PORT, 1 << 20)
    text = once("--rundir", path.ovs.rundir).stdout
    got = samples(text)
    (tenant,) = path.ovs.acdc("show")["tenants"]
    labels = 'datapath="netdev",tenant="blue"'
    # It sends nothing now, so nothing grows but what passes untouched.
    for name, value in tenant["counters"].items():
        if name.startswith("untouched_"):
            reason = name.removeprefix("untouched_")
            name = f'ovs_acdc_tenant_untouched_total{{datapath="netdev",reason="{reason}"'
            assert got[f'{name},tenant="blue"}}'] <= value
        else:
            if name.endswith("_us"):
                name, value = f"{name.removesuffix('_us')}_seconds", pytest.approx(value / 1e6)
            assert got[f"ovs_acdc_tenant_{name}_total{{{labels}}}"] == value, name
    assert got["ovs_acdc_up"] == 1
    assert got["ovs_acdc_problems"] == 0
    assert got[f"ovs_acdc_tenant_egress_bytes_total{{{labels}}}"] >= 1 << 20
    assert got['ovs_acdc_max_flows{datapath="netdev"}'] == 1 << 20
    for quantile, key in (("0.5", "rtt_p50_us"), ("0.99", "rtt_p99_us")):
        name = (
            f'ovs_acdc_tenant_rtt_seconds{{datapath="netdev",quantile="{quantile}",tenant="blue"}}'
        )
        assert got[name] == pytest.approx(tenant[key] / 1e6)
    for name in ("vnet0", "vnet1"):
        assert f'ovs_acdc_port_flows{{datapath="netdev",port="{name}",tenant="blue"}}' in got
    # The help of counters is the engine's.
    assert "# HELP ovs_acdc_tenant_ce_bytes_total Payload bytes that arrived marked CE" in text
    assert "Counter " not in text


def test_histograms(path: Path) -> None:
    """Of the connections that send: as many as acdc/dump-flows has, each in its bucket."""
    path.ovs.appctl("acdc/flush")
    ends = [open_connection(path.a, path.b, B, port=PORT + 30 + i) for i in range(4)]
    try:
        for near, far in ends[:3]:
            near.sendall(bytes(30_000))
            left = 30_000
            while left:
                left -= len(far.recv(left))
        got = samples(once("--rundir", path.ovs.rundir).stdout)
        senders = [flow for flow in path.ovs.acdc("dump-flows") if flow["fb_total"]]
    finally:
        for pair in ends:
            for sock in pair:
                sock.close()
    # The fourth sends nothing, nor do the other ends.
    assert len(senders) == 3
    labels = 'datapath="netdev"'
    for name, key, unit in (("window_bytes", "wnd", 1), ("srtt_seconds", "srtt_us", 1e-6)):
        values = [flow[key] for flow in senders]
        metric = f"ovs_acdc_tenant_{name}"
        for i in range(32):
            bucket = f'{metric}_bucket{{{labels},le="{2**i * unit:g}",tenant="blue"}}'
            assert got[bucket] == sum(value <= 2**i for value in values), bucket
        rest = f'{{{labels},tenant="blue"}}'
        assert got[f"{metric}_count{rest}"] == 3
        assert got[f"{metric}_sum{rest}"] == pytest.approx(sum(values) * unit)


def test_names_are_as_prometheus_wants_them(path: Path) -> None:
    text = once("--rundir", path.ovs.rundir).stdout
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_what_has_no_effect_is_a_gauge(ovs: Ovs) -> None:
    ovs.add_bridge("br0")
    for name in ("vnet0", "vnet1"):
        ovs.add_tap("br0", name)
    assert samples(once("--rundir", ovs.rundir).stdout)["ovs_acdc_problems"] == 0
    ovs.set_tenant("blue", **{"other_config:spread-cut": "true"})
    ovs.bind("blue", "vnet0")
    ovs.bind("bleu", "vnet1")
    got = samples(once("--rundir", ovs.rundir).stdout)
    assert got["ovs_acdc_problems"] == 1
    assert got['ovs_acdc_tenant_warning{datapath="netdev",tenant="blue"}'] == 1
    assert got['ovs_acdc_tenant_error{datapath="netdev",tenant="blue"}'] == 0


def test_a_reader_that_has_seen_enough(tmp_path: File) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as stdout:
        done = subprocess.run(
            [EXPORTER, "--once", "--rundir", tmp_path], stdout=stdout, stderr=subprocess.PIPE
        )
    assert done.returncode == -signal.SIGPIPE
    assert b"Traceback" not in done.stderr


def test_a_daemon_that_does_not_run(tmp_path: File) -> None:
    done = once("--rundir", tmp_path, check=False)
    assert done.returncode == 1
    assert samples(done.stdout)["ovs_acdc_up"] == 0
    assert "does ovs-vswitchd run?" in done.stderr
    (tmp_path / "ovs-vswitchd.pid").write_text("1\n")
    assert samples(once("--rundir", tmp_path, check=False).stdout)["ovs_acdc_up"] == 0


def test_a_daemon_that_is_started_again(path: Path, prometheus: Prometheus, ovs: Ovs) -> None:
    """The exporter outlives it, and finds the new one by itself."""
    address = "127.0.0.1:9700"
    exporter = ovs.ns.popen(EXPORTER, "--rundir", ovs.rundir, "--listen", address)

    def up() -> float | None:
        try:
            return samples(get(ovs.ns, f"http://{address}/metrics"))["ovs_acdc_up"]
        except urllib.error.URLError:
            return None

    wait_for("the exporter", lambda: up() == 1)
    ovs.stop_vswitchd()
    assert up() == 0
    ovs.start_vswitchd()
    assert up() == 1
    exporter.send_signal(signal.SIGTERM)
    assert exporter.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", ":9625"], ":9625: want ADDRESS:PORT"),
        (["--listen", "a:0"], "a:0: want ADDRESS:PORT"),
        (["--what"], "unrecognized arguments: --what"),
        (["--timeout", "4000"], "'4000': want more than 0, and at most 3600 seconds"),
    ],
)
def test_wrong_arguments(arguments: list[str], said: str) -> None:
    done = once(*arguments, check=False)
    assert done.returncode == 2
    assert "usage: acdc-exporter" in done.stderr and said in done.stderr


def test_a_name_that_cannot_be() -> None:
    words = [str(EXPORTER), "--listen", f"{'a' * 64}:9700"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "label too long" in done.stderr and "Traceback" not in done.stderr


def test_one_daemon_of_several(path: Path, tmp_path: File) -> None:
    control = path.ovs.rundir / "ovs-vswitchd.ctl"
    assert samples(once("--target", control).stdout)["ovs_acdc_up"] == 1
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.ctl"))
        silent.listen()
        done = once("--target", tmp_path / "silent.ctl", "--timeout", "0.3", check=False)
    assert done.returncode == 1 and samples(done.stdout)["ovs_acdc_up"] == 0
    assert "no answer within 0.3 s" in done.stderr


def test_a_daemon_of_another_version(tmp_path: File) -> None:
    """Which does not know all that is asked of it: the alarm is that of one that does not answer."""
    reply = {"datapaths": [{"datapath": "netdev"}], "problems": [], "tenants": []}
    control = tmp_path / "other.ctl"
    with daemon_that_says(json.dumps(reply), control):
        done = once("--target", control, check=False)
    assert done.returncode == 1
    assert samples(done.stdout).keys() == {"ovs_acdc_up", "ovs_acdc_scrape_seconds"}
    assert samples(done.stdout)["ovs_acdc_up"] == 0
    assert "acdc/show does not have 'n_flows'" in done.stderr


# Rules and dashboard.


def test_rules(tmp_path: File) -> None:
    for file in (RULES, ROOT / "tests/observe/acdc-rules-test.yml"):
        shutil.copy(file, tmp_path)
    for words in (["check", "rules", RULES.name], ["test", "rules", "acdc-rules-test.yml"]):
        done = subprocess.run(
            ["promtool", *words], cwd=tmp_path, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    # Each has a case in which it fires.
    tested = (tmp_path / "acdc-rules-test.yml").read_text()
    for name in re.findall(r"alert: (\w+)", RULES.read_text()):
        assert f'"{name}"' in tested or f"alertname: {name}\n        exp_alerts" in tested, name


def test_rules_are_about_metrics_that_there_are(prometheus: Prometheus) -> None:
    """A misspelt name would never fire."""
    known = set(prometheus.ask("label/__name__/values"))
    text = "".join(re.findall(r"expr: (?:>\n)?((?:.*\n)+?)\s+(?:for|labels|- )", RULES.read_text()))
    used = set(re.findall(r"\bovs_acdc_\w+\b(?!:)", text))
    assert len(used) > 10
    assert used <= known
    (group,) = prometheus.ask("rules")["groups"]
    wait_for(
        "evaluation",
        lambda: all(
            rule["health"] == "ok" for rule in prometheus.ask("rules")["groups"][0]["rules"]
        ),
    )
    firing = {rule["name"] for rule in group["rules"] if rule.get("state") == "firing"}
    assert firing == set()


def panels() -> list[tuple[str, str]]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [
        (panel["title"], target["expr"])
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]


# What a healthy switch has none of.
ZERO = {"Problems", "Tenants with errors", "Guests that misbehave"}


def test_every_query_of_the_dashboard(prometheus: Prometheus) -> None:
    assert len(panels()) > 20
    for title, expression in panels():
        for variable, value in (
            ("$instance", ".*"), ("$tenant", ".*"), ("$__rate_interval", "5s")
        ):  # fmt: skip
            expression = expression.replace(variable, value)
        assert "$" not in expression
        found = prometheus.query(expression)
        assert found, f"{title}: {expression}: no data"
        assert all(value >= 0 for value in found), f"{title}: {expression}: {found}"
        if title in ZERO:
            assert set(found) == {0}, f"{title}: {found}"
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if match := re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]):
            metric, label = match.groups()
            values = prometheus.ask(f"label/{label}/values", **{"match[]": metric.split("{")[0]})
            assert values == {"instance": [METRICS], "tenant": ["blue"]}[label]


@pytest.mark.parametrize(
    "title",
    [
        *("Payload from guests", "Payload to guests", "Window, mean of connections that send"),
        *("Marked fraction of the bytes received", "Round-trip time since the tenant was made"),
        *("alpha, mean of connections that send", "Windows made smaller", "Reports"),
        "Round-trip times without the far guest, timed connections that send",
    ],
)
def test_traffic_is_seen(prometheus: Prometheus, title: str) -> None:
    expression = next(query for name, query in panels() if name == title)
    for variable, value in (("$instance", ".*"), ("$tenant", ".*"), ("$__rate_interval", "5s")):
        expression = expression.replace(variable, value)
    assert max(prometheus.query(expression)) > 0


def test_panels_do_not_overlap() -> None:
    """Grafana would move them."""
    taken: dict[tuple[int, int], str] = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24 and (x, y) not in taken, (panel["title"], taken.get((x, y)))
                taken[x, y] = panel["title"]
