# SPDX-License-Identifier: Apache-2.0

"""Numbers: hosts that are databases and agents.  ACDC_FLEET_HOSTS says how many; 100 with --all."""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acdc_testlib.fleet import SERVERS, Fleet, Host
from acdc_testlib.long import ALL
from acdc_testlib.netns import processor_seconds, wait_for

N = int(os.environ.get("ACDC_FLEET_HOSTS", "100"))
pytestmark = pytest.mark.skipif(not (ALL or "ACDC_FLEET_HOSTS" in os.environ), reason="long: --all")


@pytest.fixture(scope="module")
def many() -> Iterator[Fleet]:
    fleet = Fleet()
    try:
        fleet.start()
        fleet.add_hosts(10)
        for _ in range(10, N, 50):
            fleet.add_hosts(min(50, N - len(fleet.hosts)), forked=True)
            fleet.await_hosts(timeout=600)
        fleet.ctl("tenant", "set", "blue", "beta=0.5", "--wait=database", "--timeout=300")
        yield fleet
    finally:
        fleet.close()


class Watch:
    """Of column beta on all hosts."""

    def __init__(self, hosts: list[Host]) -> None:
        self.sockets = {}
        request = {"method": "monitor", "id": 0,
                   "params": ["Open_vSwitch", None, {"ACDC": {"columns": ["beta"]}}]}  # fmt: skip
        for host in hosts:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(f"{host.ovs.rundir}/db.sock")
            sock.sendall(json.dumps(request).encode())
            assert b"result" in sock.recv(65536)
            # Numbers below 1024 are for select(), which OVS's Python takes for TLS.
            high = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, 2048)
            sock.close()
            self.sockets[high] = socket.socket(fileno=high)

    def times(self, timeout: float) -> list[float]:
        """When each host's database has a change."""
        poll, seen, end = select.poll(), [], time.monotonic() + timeout
        left = dict(self.sockets)
        for fd in left:
            poll.register(fd, select.POLLIN)
        while left and time.monotonic() < end:
            for fd, _ in poll.poll(100):
                if b"update" in left[fd].recv(65536):
                    seen.append(time.monotonic())
                    poll.unregister(fd)
                    del left[fd]
        assert not left
        return seen


def memory(pid: int, what: str) -> int:
    """In KB."""
    text = Path(f"/proc/{pid}/{'smaps_rollup' if what == 'Pss' else 'status'}").read_text()
    return int(text.split(f"{what}:")[1].split()[0])


def processor(pids: list[int]) -> float:
    """Seconds that they have had."""
    return sum(map(processor_seconds, pids))


def test_time_until_it_is_everywhere(many: Fleet) -> None:
    medians, lasts, all_said = [], [], []
    pids = [host.agent.pid for host in many.hosts if host.agent]
    before = processor(pids)
    for i in range(5):
        watch = Watch(many.hosts)
        started = time.monotonic()
        change = threading.Thread(
            target=many.ctl, args=("tenant", "set", "blue", f"beta=0.{i + 1}")
        )
        change.start()
        times = [when - started for when in watch.times(120)]
        change.join()
        medians.append(statistics.median(times))
        lasts.append(max(times))
        wait_for("acknowledged", lambda: {h["written"] for h in many.ctl_json("host", "list")}
                 == {many.ctl_json("status")["current"]}, 120)  # fmt: skip
        all_said.append(time.monotonic() - started)
    print(f"{N} hosts: medians {' '.join(f'{m:.2f}' for m in medians)} s, last {max(lasts):.2f} s")
    print(f"all acknowledged after {statistics.median(all_said):.1f} s")
    print(
        f"{1000 * (processor(pids) - before) / 5 / N:.1f} ms of the processor an agent and change"
    )
    assert statistics.median(medians) < 5


def test_what_it_costs(many: Fleet) -> None:
    """Agents at rest, and the centre."""
    pids = [host.agent.pid for host in many.hosts[:10] if host.agent]
    time.sleep(12)

    before = processor(pids)
    time.sleep(30)
    share = (processor(pids) - before) / 30 / len(pids)
    rss = statistics.median(memory(pid, "VmRSS") for pid in pids)
    pss = statistics.median(memory(pid, "Pss") for pid in pids)
    print(f"an agent: RSS {rss / 1024:.1f} MB, PSS {pss / 1024:.1f} MB, {100 * share:.3f} % CPU")
    servers = max(memory(many.daemons[name].pid, "VmRSS") for name in (*SERVERS, "relay"))
    print(f"a server or relay: RSS {servers / 1024:.1f} MB")
    assert pss < 20 * 1024
    assert share < 0.005
    for i in range(20):
        many.ctl("tenant", "set", f"t{i}", "beta=0.5", f"max_window={1000000 + i}", "police=true")
    for name in SERVERS:
        many.appctl(name, "ovsdb-server/compact")
    size = (many.dir / "a.db").stat().st_size
    print(f"a server's file: {size} bytes, {size / (N + 21):.0f} a host and tenant")
    assert size < 1024 * (N + 21)


def test_the_leader_is_killed(many: Fleet) -> None:
    leader = many.leader()
    many.kill(leader)
    started = time.monotonic()
    while many.run_ctl("--connect-timeout=2", "tenant", "set", "blue", "beta=0.7").returncode:
        assert time.monotonic() < started + 30
    seconds = time.monotonic() - started
    print(f"commit possible again after {seconds:.1f} s")
    assert seconds < 10
    many.heal()
