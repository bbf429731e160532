# SPDX-License-Identifier: Apache-2.0

"""Whatever ends an experiment, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from acdc_testlib.netns import marked

SCRIPT = """
import sys
import acdc_mininet as am

am.enter()
with am.AcdcNet(am.Dumbbell(n=2)) as net:
    print("vswitchd", net.ovs.pid(), flush=True)
    if sys.argv[1] == "exception":
        raise ZeroDivisionError
    am.run_bulk(net, [am.Flow("h1", "r1")], 60, bottleneck=net.queue("s1", "s2"),
                probe=("h2", "r2"), progress=lambda now: print("running", flush=True))
"""


def outer_pid(mark: str, name: str) -> int:
    """The process of the experiment called 'name', as numbered here."""
    return next(int(line.split()[0]) for line in marked(mark) if line.endswith(name))


def surroundings() -> tuple[str, list[str], list[str]]:
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    names = sorted(path.name for path in Path("/run").iterdir() if path.name != "acdc")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return links.stdout, [line for line in mounts if "acdc" in line], names


@pytest.mark.parametrize(
    "how", ["exception", "SIGINT", "SIGTERM", "SIGKILL", "SIGKILL of ovs-vswitchd"]
)
def test_nothing_is_left(how: str) -> None:
    before = surroundings()
    mark = f"acdc-{uuid.uuid4().hex}"
    environment = os.environ | {"ACDC_MARK": mark, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("ACDC_ISOLATED", None)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("vswitchd"):
        pytest.fail(process.communicate(timeout=10)[1])
    if how != "exception":
        assert process.stdout.readline() == "running\n"
        assert len(marked(mark)) > 10
        if how.endswith("ovs-vswitchd"):
            os.kill(outer_pid(mark, "ovs-vswitchd"), signal.SIGKILL)
        else:
            process.send_signal(getattr(signal, how))
    _, error = process.communicate(timeout=30)
    assert process.returncode != 0
    if how == "exception":
        assert "ZeroDivisionError" in error
    if how.endswith("ovs-vswitchd"):
        assert "ovs-vswitchd ended with status -9" in error

    deadline = time.monotonic() + 5
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(mark) == []
    assert surroundings() == before
