# SPDX-License-Identifier: Apache-2.0

"""Installs packages and builds.  Needs nothing but Python."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


class PrepareError(RuntimeError):
    """A step failed; the message has the end of its output."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def is_package() -> bool:
    """Debian's package acdc-tools, whose Open vSwitch is installed, and not a clone."""
    return not (TOP / "boot.sh").exists()


def command() -> str:
    """As it is called again."""
    return "acdc-quickstart" if is_package() else "utilities/acdc-quickstart"


def owner() -> tuple[int, int]:
    """Whose the checkout is: with sudo the build is theirs, not root's."""
    status = TOP.stat()
    return status.st_uid, status.st_gid


def give_to_owner(*paths: Path) -> None:
    for path in paths:
        os.chown(path, *owner())


def _step(name: str, argv: Sequence[str | Path], log: Path, as_owner: bool) -> None:
    """Runs 'argv' with its output in 'log', and shows that it is alive."""
    uid, gid = owner()
    drop = as_owner and uid != 0
    begin = time.monotonic()
    live = sys.stderr.isatty()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(arg) for arg in argv],
            cwd=TOP,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=uid if drop else None,
            group=gid if drop else None,
            extra_groups=[] if drop else None,
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1 if live else 30)
                if process.returncode is None:
                    text = f"  {name}: {time.monotonic() - begin:.0f} s"
                    print(text, end="\r" if live else "\n", file=sys.stderr, flush=True)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise PrepareError(f"{name} failed (whole output in {log}):\n{tail}")
    say(f"  {name}: {time.monotonic() - begin:.0f} s{' ' * 20}")


def check() -> None:
    """What the package acdc-tools only suggests: a hypervisor does without compilers."""
    wanted = subprocess.run(
        [TOP / "build-aux/install-deps", "--list", "quickstart"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted]
    lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    if missing := [name for name in wanted if f"{name} installed" not in lines]:
        raise PrepareError(
            "these packages are missing:\n"
            f"    apt install --no-install-recommends {' '.join(missing)}"
        )


def install(log: Path) -> None:
    say("Installing what is missing (build-aux/install-deps build quickstart)")
    _step("packages", [TOP / "build-aux" / "install-deps", "build", "quickstart"], log, False)


def build(log: Path, jobs: int) -> None:
    """What make finds up to date it does not build again."""
    say("Building the patched Open vSwitch")
    # It makes Makefile.in last, and may have been interrupted.
    if not (TOP / "configure").exists() or not (TOP / "Makefile.in").exists():
        _step("./boot.sh", ["./boot.sh"], log, True)
    if not (TOP / "Makefile").exists():
        _step("./configure", ["./configure"], log, True)
    _step(f"make -j{jobs}", ["make", f"-j{jobs}"], log, True)


def commit() -> str:
    """Of the checkout, with "+" if files were changed."""
    git = ["git", "-c", "safe.directory=*", "-C", str(TOP)]
    command = [*git, "describe", "--always", "--dirty=+", "--abbrev=12"]
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    return "unknown"
