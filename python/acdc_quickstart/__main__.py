# SPDX-License-Identifier: Apache-2.0

"""sudo utilities/acdc-quickstart"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from acdc_cli import ending

from . import prepare
from .prepare import say

T = TypeVar("T", int, float)
PHASES = ("plain", "acdc", "beta")
FLOWS = 5

DESCRIPTION = """\
AC/DC in a few minutes.  On a bare Debian 12 or 13 this installs the packages it
needs, builds the patched Open vSwitch, and then measures, in namespaces of its
own that are gone afterwards:

  plain  five guests' bulk flows, of several TCP stacks, and a latency probe
         over one bottleneck.  No tenant is bound, so the patched Open vSwitch
         is a plain one.
  acdc   the same with every guest port bound to an AC/DC tenant.
  beta   the same with two tenants, blue and green; midway ovs-vsctl sets
         green's beta.

The bottleneck is a switch that marks ECT packets above K and drops at the end
of its buffer, in all phases.  It prints a table, and writes results.json and
results.png."""

EPILOG = """\
Exit status: 0 when all phases ran, also if a figure misses its target (then
with a warning); 1 when one failed; 2 for wrong arguments; 130 after Ctrl-C."""


def _rate(text: str) -> int:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)([kmg]?)(bit)?", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}': want a rate as 100mbit")
    rate = float(found[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[found[2]]
    if not 1_000_000 <= rate <= 1_000_000_000:
        raise argparse.ArgumentTypeError(
            f"'{text}': want 1mbit to 1gbit: the userspace datapath does it all"
        )
    return int(rate)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _phases(text: str) -> list[str]:
    names = _names(text)
    if not names or not set(names) <= set(PHASES):
        raise argparse.ArgumentTypeError(f"'{text}': want some of {','.join(PHASES)}")
    return [name for name in PHASES if name in names]


def _number(kind: type[T], allowed: Callable[[T], bool], want: str) -> Callable[[str], T]:
    def convert(text: str) -> T:
        with contextlib.suppress(ValueError):
            if allowed(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"'{text}': want {want}")

    return convert


_seconds = _number(float, lambda s: 4 <= s < math.inf, "4 or more, of which 2 are not counted")
_beta = _number(float, lambda beta: 0 <= beta <= 1, "0 to 1")
_buffer = _number(float, lambda ms: 0 < ms <= 10_000, "more than 0 to 10000")
_count = _number(int, lambda n: 1 <= n <= 1_000_000, "1 to 1000000")


def _output(text: str) -> Path:
    path = Path(text)
    if path.resolve().is_relative_to("/run"):
        raise argparse.ArgumentTypeError(f"'{text}': want one outside /run, where nothing stays")
    return path


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="acdc-quickstart",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rate", type=_rate, default=_rate("100mbit"), help="of the bottleneck (100mbit)")
    add("--k", type=_count, default=40, metavar="PACKETS", help="marking threshold (%(default)s)")
    add("--buffer", type=_buffer, default=48.0, metavar="MS", help="at that rate (%(default)s)")
    add("--seconds", type=_seconds, default=12.0, help="of a phase, beta takes two (%(default)s)")
    add(
        "--stacks",
        type=_names,
        help=f"the flows' congestion controls, as cubic,reno,bbr ({FLOWS} of those the kernel has)",
    )
    add("--beta", type=_beta, default=0.25, help="of green after the change (%(default)s)")
    add("--phases", type=_phases, default=list(PHASES), help="a subset of plain,acdc,beta")
    add(
        "--output",
        type=_output,
        default="acdc-quickstart-results",
        metavar="DIR",
        help="where results go (%(default)s)",
    )
    add("--skip-install", action="store_true", help="install no packages")
    add("--skip-build", action="store_true", help="neither install nor build: use build/env")
    jobs = os.cpu_count() or 1
    add("--jobs", type=_count, default=jobs, metavar="N", help="of make (%(default)s)")
    add("--no-plot", action="store_true", help="write no PNG")
    add("--json", action="store_true", help="print the JSON instead of the table")
    return parser


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _progress(title: str, now: float, seconds: float) -> None:
    live = sys.stderr.isatty()
    if live or int(now) % 5 == 0:
        text = f"  {title}: {now:.0f} of {seconds:.0f} s "
        print(text, end="\r" if live else "\n", file=sys.stderr, flush=True)


def _kernel_has(stack: str) -> bool:
    """Whether it has the congestion control, or a module of it.  Root, for whom it
    loads modules.  Not acdc_mininet's affair: Mininet may not be installed yet."""
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, stack.encode())
        except OSError:
            return False
    return True


def _stacks(wanted: list[str] | None) -> list[str]:
    """Five, of what the kernel has without loading modules; the paper's order."""
    import acdc_mininet as am

    if wanted:
        return wanted
    have = am.available_stacks()
    order = [
        name for name in ("cubic", "reno", "bbr", "illinois", "highspeed", "vegas") if name in have
    ]
    flows = [order[i % len(order)] for i in range(FLOWS)]
    # The switch polls its ports in a fixed order, so that packets of some meet
    # a longer queue than those of others, a few per cent of the marks.  The
    # third guest gets most of these; the one that paces itself is not to be it.
    return sorted(flows, key=lambda name: name == "bbr")


def _measure(args: argparse.Namespace, times: dict[str, float]) -> int:
    import acdc_mininet as am

    from . import report
    from .phases import Experiment, Options

    programs = am.Programs.find()
    if args.phases != ["plain"] and not programs.has_acdc:
        raise am.OvsError(f"{programs.schema} has no ACDC table: that Open vSwitch is not patched")
    commit = prepare.commit()
    output = args.output.resolve()
    am.enter()
    if not args.no_plot:
        from . import plot  # It may not be installed.

    queue = am.Queue(
        rate=args.rate,
        k=args.k * am.FRAME,
        limit=max(int(args.rate / 8 * args.buffer / 1000), (args.k + 1) * am.FRAME),
    )
    options = Options(queue, args.seconds, _stacks(args.stacks), args.beta, args.phases)
    longest = args.seconds * (len(args.phases) + ("beta" in args.phases))
    say(
        f"Measuring: {len(options.stacks)} flows ({', '.join(options.stacks)}) over "
        f"{queue.rate / 1e6:g} Mbit/s, K {args.k} packets, buffer {queue.limit / 1000:.0f} KB "
        f"({8000 * queue.limit / queue.rate:.3g} ms), marked by {'red' if am.has_red() else 'a BPF program'}; "
        f"{longest + 10:.0f} s"
    )
    experiment = Experiment(options, _progress)
    phases, took = experiment.run()
    times.update(took)
    found = report.checks(phases)
    command = shlex.join(["acdc-quickstart", *sys.argv[1:]])
    document = report.document(experiment, phases, found, times, command, commit)
    results = [output / "results.json"]
    results[0].write_text(json.dumps(document) + "\n")
    if not args.no_plot:
        results.append(output / "results.png")
        plot.draw(phases, options, results[1])
    prepare.give_to_owner(*results)
    _conclude(args, document, report.table(phases), found, results)
    return 0


def _conclude(
    args: argparse.Namespace,
    document: dict[str, Any],
    table: str,
    found: list[Any],
    results: list[Path],
) -> None:
    say(" " * 60)
    if args.json:
        print(json.dumps(document), flush=True)
    else:
        print(f"{table}\n", flush=True)
        if "plain" in args.phases:
            print("plain OVS: the patched ovs-vswitchd with no tenant bound.")
        for check in found:
            print(f"{'ok     ' if check.ok else 'WARNING'}  {check.text}")
        print()
    for check in found:
        if args.json and not check.ok:
            say(f"WARNING: {check.text}")
    for warning in document["warnings"]:
        say(f"WARNING: {warning}")
    for path in results:
        say(f"Wrote {path}")
    again = f"sudo {prepare.command()}{'' if prepare.is_package() else ' --skip-build'}"
    say(
        "\nTry next:\n"
        f"  {again} --stacks bbr,cubic,cubic,cubic,cubic\n"
        f"  {again} --phases acdc --k 80         a longer queue\n"
        f"  {again} --phases beta --beta 0.5     between the two\n"
        "  docs/ has the operator's guide: which libvirt interface belongs to which tenant"
    )


def main() -> int:
    parser = arguments()
    args = parser.parse_args()
    if args.stacks is not None and len(args.stacks) < (2 if "beta" in args.phases else 1):
        parser.error(
            f"--stacks: '{','.join(args.stacks)}': want two flows at the least, or no beta phase"
        )
    if os.geteuid() != 0:
        command = shlex.join(["sudo", prepare.command(), *sys.argv[1:]])
        print(f"acdc-quickstart: run it as root: {command}", file=sys.stderr)
        return 2
    for stack in args.stacks or []:
        if not _kernel_has(stack):
            have = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
            parser.error(
                f"argument --stacks: '{stack}': want some of {','.join(have)}, which this kernel has"
            )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    times: dict[str, float] = {}
    begin = time.monotonic()
    try:
        if prepare.is_package() and not args.skip_install:
            prepare.check()
        ours = not args.output.exists()
        args.output.mkdir(parents=True, exist_ok=True)
        if ours:
            prepare.give_to_owner(args.output)
        log = args.output / "build.log"
        if not args.skip_build and not prepare.is_package():
            log.write_text("")
            if not args.skip_install:
                prepare.install(log)
                times["install"] = time.monotonic() - begin
            prepare.build(log, args.jobs)
            times["build"] = time.monotonic() - begin - times.get("install", 0)
            prepare.give_to_owner(log)
        return _measure(args, times)
    except KeyboardInterrupt:
        say("\nacdc-quickstart: interrupted; nothing of it is left running")
        return 130
    except (prepare.PrepareError, OSError, RuntimeError) as error:
        say(f"\nacdc-quickstart: {error}")
        return 1


if __name__ == "__main__":
    with ending("acdc-quickstart"):
        sys.exit(main())
