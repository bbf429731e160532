# SPDX-License-Identifier: Apache-2.0

"""acdc-trace, and what it prints."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path as File
from typing import Any

from acdc_testlib.programs import ROOT

TRACE = ROOT / "build/acdc-trace"
MB = 1 << 20
Json = dict[str, Any]


def run(*words: str | File, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(TRACE), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return done


def objects(*words: str | File) -> list[Json]:
    return [json.loads(line) for line in run("--json", *words).stdout.splitlines()]


def direction(found: list[Json], port: int) -> Json:
    """The connection's data to 'port'."""
    for o in found:
        if o["type"] == "connection":
            print(json.dumps(o))
    end = f":{port}"
    mine = [o for o in found if o["type"] == "connection" and o["to"].endswith(end)]
    assert len(mine) == 1
    return mine[0]


def causes(connection: Json) -> list[str]:
    return [note["cause"] for note in connection["verdict"]]
