# SPDX-License-Identifier: Apache-2.0

"""acdc-tune"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import commands
from .fabric import load
from .formulas import Tuning, tune
from .live import Failure, Measured, Ovs, apply, measure
from .units import Problem, count

Typed = dict[str, dict[str, list[str]]]
"""What to type, by system and queue."""

DESCRIPTION = """\
Computes what TCP and the switches' ECN should be set to in a fabric, and says why: the least
retransmission timeout, the initial window, the marking threshold K, On-Ramp's T.  The numbers
come from a description of the fabric, or from measurement on this hypervisor."""

EPILOG = """\
Exit status: 0 if all is done; 1 if Open vSwitch does not answer or refuses; 2 for wrong
arguments, or a description that cannot be.  acdc-tune(8) says how the description is written."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acdc-tune", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("fabric", nargs="?", type=Path, metavar="FABRIC", help="description, in YAML")
    add("--measure", action="store_true", help="measure instead")
    add("--buffer", metavar="SIZE", help="of a switch's port, as 4MB; needed to measure")
    add("--switches", metavar="N", help="on the path, if measured (1)")
    add("--uplink", default="", metavar="NAME", help="whose speed is the links', if measured")
    add("--remote", default="", metavar="PREFIX", help="other ends that are measured (all)")
    add("--flows", metavar="N", help="that send at once, if measured (those there are)")
    add("--mtu", metavar="BYTES", help="if measured (1500)")
    add("--apply", metavar="TENANT", help="set the tenant's parameters")
    add("--json", action="store_true", help="print JSON")
    add(
        "--commands",
        default="",
        metavar="SYSTEMS",
        help=f"print commands for switches, of {','.join(commands.SYSTEMS)}, or all",
    )
    add("--db", default="", metavar="SERVER", help="as of ovs-vsctl")
    add("--target", default="", metavar="TARGET", help="as of ovs-appctl")
    return parser


def _json(tuning: Tuning, measured: Measured | None, typed: Typed) -> dict[str, Any]:
    result: dict[str, Any] = {
        "min_rto": asdict(tuning.min_rto),
        "initial_window": asdict(tuning.initial_window),
        "on_ramp": asdict(tuning.on_ramp),
        "k": {queue.name: asdict(value) for queue, value in tuning.marking.items()},
        "warnings": tuning.warnings,
    }
    if measured:
        result["measured"] = vars(measured)
    if typed:
        result["commands"] = typed
    return result


def _wrapped(label: str, text: str) -> str:
    indent = " " * 10
    return textwrap.fill(text, 92, initial_indent=f"  {label:8}", subsequent_indent=indent)


def _text(tuning: Tuning, measured: Measured | None, typed: Typed) -> str:
    lines = []
    if measured:
        lines.append(
            f"measured: {measured.round_trip_us} us to {measured.remote}, the longest of the least round"
            f" trips; link speed of {measured.uplink}; {measured.connections} connections\n"
        )
    values = [
        ("minRTO", tuning.min_rto),
        ("initial window", tuning.initial_window),
        ("On-Ramp's T", tuning.on_ramp),
        *(("K", value) for value in tuning.marking.values()),
    ]
    for name, value in values:
        lines += [
            f"{name}: {value.shown} ({value.where})",
            _wrapped("formula", value.formula),
            _wrapped("numbers", value.numbers),
            _wrapped("source", value.source),
        ]
    lines += [textwrap.fill(f"warning: {text}", 92) for text in tuning.warnings]
    for system, queues in typed.items():
        for queue, words in queues.items():
            lines += ["", f"# {system}, {queue}", *words]
    return "\n".join(lines)


def _systems(text: str) -> list[str]:
    names = list(commands.SYSTEMS) if text == "all" else [name for name in text.split(",") if name]
    for name in names:
        if name not in commands.SYSTEMS:
            raise Problem(f"--commands: {name} is not one of {' '.join(commands.SYSTEMS)} all")
    return names


def _main(args: argparse.Namespace) -> int:
    ovs = Ovs(args.db, args.target)
    systems = _systems(args.commands)
    measured = None
    if args.measure:
        if not args.buffer:
            raise Problem("--measure: the switches' --buffer is missing: it cannot be measured")
        fabric, measured = measure(
            ovs,
            args.buffer,
            1 if args.switches is None else count(args.switches, 1, 9, "--switches"),
            args.uplink,
            args.remote,
            args.flows,
            args.mtu,
        )
    else:
        fabric = load(args.fabric)
    tuning = tune(fabric)
    typed = {system: commands.of(tuning, system) for system in systems}
    said = [] if args.apply is None else apply(ovs, args.apply, tuning)
    if args.json:
        result = _json(tuning, measured, typed)
        print(json.dumps(result | ({"applied": said} if said else {}), indent=2))
    else:
        print(_text(tuning, measured, typed))
        print("".join(f"\n{args.apply}: {line}" for line in said), end="\n" if said else "")
    return 0


def main() -> int:
    parser = arguments()
    args = parser.parse_args()
    if bool(args.fabric) == args.measure:
        parser.error("want FABRIC, or --measure")
    only = [
        name
        for name in ("buffer", "switches", "uplink", "remote", "flows", "mtu")
        if not args.measure and getattr(args, name)
    ]
    if only:
        parser.error(f"--{only[0]} goes with --measure")
    try:
        return _main(args)
    except Problem as problem:
        print(f"acdc-tune: {problem}", file=sys.stderr)
        return 2
    except Failure as failure:
        print(f"acdc-tune: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
