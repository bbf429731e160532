# SPDX-License-Identifier: Apache-2.0

"""acdc-top"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from acdc_cli import seconds
from acdc_ovs import OvsError, other_version

from .reading import ORDERS, Reader, Reading

DESCRIPTION = """\
Shows what tenants and their connections do: rates, windows, marks, round-trip times, and what
limits each connection at the moment."""

EPILOG = """\
Keys: s goes to the next order, q quits.  Exit status: 0, after Ctrl-C as well; 1 if ovs-vswitchd
does not answer; 2 for wrong arguments.  acdc-top(8) says what the columns are."""

PROBLEMS = (OSError, OvsError, ValueError, KeyError)


def _problem(error: Exception) -> str:
    if isinstance(error, KeyError):
        return other_version(error, "the answer")
    return str(error)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


_count.__name__ = "number"


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acdc-top", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    orders = ", ".join(f"{name}: {about}" for name, (about, _) in ORDERS.items())
    add("--sort", choices=ORDERS, default="rate", help=f"what comes first; {orders}")
    add("--tenant", metavar="NAME", help="only this one, and its connections")
    add("--port", metavar="NAME", help="only connections of this guest's port")
    add("--remote", metavar="ADDRESS[/LENGTH]", help="only connections to these")
    add("--limit", type=_count, default=40, metavar="N", help="connections shown (%(default)s)")
    add("--interval", type=seconds, default=2.0, metavar="SECONDS", help="(%(default)s)")
    add("--once", action="store_true", help="one interval, printed")
    add("--json", action="store_true", help="a line of JSON for each interval")
    add("-t", "--target", type=Path, metavar="SOCKET", help="control socket of ovs-vswitchd")
    add("--rundir", type=Path, metavar="DIR", help="where it is looked for")
    return parser


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys come one by one, unseen; afterwards the terminal is as it was."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _key(seconds: float) -> str:
    """One that is pressed within that time, or nothing."""
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, seconds))
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


def _interactive(reader: Reader, interval: float) -> int:
    from rich.live import Live

    from .screen import Screen

    screen = Screen(reader.order, keys=True)
    with _keys(), Live(screen, screen=True, auto_refresh=False) as live:
        while True:
            due = time.monotonic() + interval
            try:
                screen.reading, screen.problem = reader.read(), ""
            except PROBLEMS as error:
                screen.problem = _problem(error)
            live.refresh()
            while (left := due - time.monotonic()) > 0:
                key = _key(left)
                if key == "q":
                    return 0
                if key == "s":
                    names = list(ORDERS)
                    order = names[(names.index(reader.order) + 1) % len(names)]
                    reader.order = screen.order = order
                    break


def _print(reader: Reader, reading: Reading, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(reading)), flush=True)
        return
    from rich.console import Console

    from .screen import Screen

    screen = Screen(reader.order, keys=False)
    screen.reading = reading
    # Wide enough for all, if it goes to a file.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(screen)


def _plain(reader: Reader, interval: float, once: bool, as_json: bool) -> int:
    try:
        reader.read()
        while True:
            time.sleep(interval)
            _print(reader, reader.read(), as_json)
            if once:
                return 0
    except (OvsError, ValueError, KeyError) as error:
        print(f"acdc-top: {_problem(error)}", file=sys.stderr)
        return 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    args = arguments().parse_args()
    names = ("tenant", "port", "remote")
    filters = [f"{name}={getattr(args, name)}" for name in names if getattr(args, name)]
    reader = Reader(
        args.target, args.rundir, filters, args.sort, args.limit, interval=args.interval
    )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
        if terminal and not (dumb or args.json or args.once):
            return _interactive(reader, args.interval)
        return _plain(reader, args.interval, args.once or not args.json, args.json)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
