# SPDX-License-Identifier: Apache-2.0

"""The command line of acdc-fleetctl."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

DESCRIPTION = """Policy for a fleet of hypervisors.

Every change of tenants makes a revision, which hosts have as a whole or not at all."""
EPILOG = """options of the commands that change the policy:
  --dry-run           say what would change, and change nothing
  --wait WHAT         until hosts' databases have it (database), or it is in force (hosts)
  --timeout S         for hosts
  --staged            first to the groups that have a stage, in order
  --soak S            without problems before the next stage
  --max-problems N    more problems stop a roll-out
  --message TEXT      for the log

--json, --db, the names of files and --connect-timeout stand before the command or after it.

exit status: 0 done; 1 an error; 2 wrong usage;
3 hosts report problems, or a roll-out has stopped; 4 hosts have not acknowledged in time;
130 interrupted"""
DEFAULT_DB = "unix:/var/run/acdc-fleet/db.sock"
KEYS = "/etc/acdc-fleet"

Type = Callable[[str], Any]


def integer(low: int, high: int) -> Type:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f'"{text}" is not allowed; allowed is an integer from {low} to {high}'
            )
        return value

    return parse


def seconds(low: float) -> Type:
    """At most a day."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not low <= value <= 86400:
            raise argparse.ArgumentTypeError(
                f'"{text}" is not allowed; allowed are {low:g} to 86400 seconds'
            )
        return value

    return parse


def stage(text: str) -> int:
    """0: none."""
    if text == "none":
        return 0
    try:
        value: int = integer(1, 1000)(text)
    except argparse.ArgumentTypeError as bad:
        raise argparse.ArgumentTypeError(f"{bad}, or none") from None
    return value


def remotes(text: str) -> str:
    for address in text.split(","):
        kind, _, rest = address.partition(":")
        host, _, port = rest.rpartition(":")
        if not (kind == "unix" and rest) and not (
            kind in ("ssl", "tcp") and host and port.isdecimal() and 0 < int(port) < 65536
        ):
            raise argparse.ArgumentTypeError(
                f'"{address}" is not allowed; allowed are unix:FILE, ssl:ADDRESS:PORT and'
                " tcp:ADDRESS:PORT, separated by commas"
            )
    return text


def listener(*kinds: str) -> Type:
    def parse(text: str) -> str:
        kind, _, rest = text.partition(":")
        port = rest.partition(":")[0]
        if kind not in kinds or not port.isdecimal() or not 0 < int(port) < 65536:
            allowed = " and ".join(f"{kind}:PORT[:ADDRESS]" for kind in kinds)
            raise argparse.ArgumentTypeError(f'"{text}" is not allowed; allowed are {allowed}')
        return text

    return parse


class Parser(argparse.ArgumentParser):
    """Of a command, whose options may stand between its arguments."""

    inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401
        if self.inside or any(action.nargs == argparse.PARSER for action in self._actions):
            return super().parse_known_args(args, namespace)
        self.inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.inside = False


class Commands:
    """Adds commands to a parser: "log", and "tenant set" to the parser of "tenant"."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.all = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        self.groups: dict[str, Any] = {}

    def group(self, name: str, about: str) -> None:
        parser = self.all.add_parser(name, help=about, description=about)
        self.groups[name] = parser.add_subparsers(
            dest="subcommand", required=True, metavar="COMMAND"
        )

    def add(self, name: str, about: str) -> argparse.ArgumentParser:
        group, _, last = name.rpartition(" ")
        place = self.groups[group] if group else self.all
        parser: argparse.ArgumentParser = place.add_parser(last, help=about, description=about)
        parser.set_defaults(method=name.replace(" ", "_"))
        _common(parser, again=True)
        return parser


def _common(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """Options of all commands.  They are shown once, but for --json."""

    def add(name: str, default: Any, about: str, **more: Any) -> None:  # noqa: ANN401
        hidden = argparse.SUPPRESS
        if again:
            parser.add_argument(name, default=hidden, help=hidden, **more)
        else:
            parser.add_argument(name, default=default, help=about, **more)

    db = {"type": remotes, "metavar": "REMOTE"}
    add("--db", DEFAULT_DB, "the central database (%(default)s)", **db)
    add("--private-key", f"{KEYS}/key.pem", "for ssl: key (%(default)s)", metavar="FILE")
    add("--certificate", f"{KEYS}/cert.pem", "its certificate (%(default)s)", metavar="FILE")
    add("--ca-cert", f"{KEYS}/ca.pem", "the servers' authority (%(default)s)", metavar="FILE")
    wait = {"type": seconds(0.1), "metavar": "S"}
    add("--connect-timeout", 10.0, "for the database (%(default)g s)", **wait)
    shown: dict[str, Any] = {"default": argparse.SUPPRESS} if again else {}
    parser.add_argument("--json", action="store_true", help="print JSON", **shown)


def _changing(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="say what would change, and change nothing")
    add("--wait", choices=["none", "database", "hosts"], default="none",
        help="until hosts' databases have it, or it is in force on hosts (%(default)s)")  # fmt: skip
    add("--staged", action="store_true", help="first to the groups that have a stage, in order")
    add("--message", default="", metavar="TEXT", help="for the log")
    _waiting(parser)


def _waiting(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--timeout", type=seconds(0.1), default=60, metavar="S", help="for hosts (%(default)g s)")
    add("--soak", type=seconds(0), default=10, metavar="S",
        help="without problems before the next stage (%(default)g s)")  # fmt: skip
    add("--max-problems", type=integer(0, 1000000), default=0, metavar="N",
        help="more problems stop a roll-out (%(default)s)")  # fmt: skip


def _may_be_missing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--if-exists", action="store_true", help="it is no error if it is not there"
    )


def _policy(commands: Commands) -> None:
    settings: dict[str, Any] = {"nargs": "*", "metavar": "COLUMN=VALUE"}
    for name, about in (
        ("tenant set", "make a tenant, or change it"),
        ("tenant unset", "give columns of a tenant their defaults"),
        ("tenant del", "delete a tenant"),
        ("rule add", "add a rule to a tenant, or replace the one of that priority and match"),
        ("rule del", "delete a rule"),
        ("bind", "add selectors of ports to a tenant"),
        ("unbind", "take selectors away"),
        ("rollback", "make the policy that of an older revision"),
    ):
        parser = commands.add(name, about)
        add = parser.add_argument
        if name == "rollback":
            add("revision", type=integer(1, 10**9), nargs="?", metavar="REVISION",
                help="default: the one before")  # fmt: skip
            _changing(parser)
            continue
        add("name", metavar="TENANT")
        if name == "tenant set":
            add("settings", **settings, help="columns of ACDC, such as beta=0.5")
        elif name == "tenant unset":
            add("columns", nargs="+", metavar="COLUMN")
        elif name.startswith("rule"):
            add("priority", type=integer(0, 65535), metavar="PRIORITY", help="0 to 65535")
            add("match", metavar="MATCH", help='as in ACDC_Rule; "" for all')
        elif name.endswith("bind"):
            add("selectors", nargs="+", metavar="KEY=VALUE", help="of interfaces' external_ids")
            add("--logical", action="store_true", help="over external_ids of OVN's logical ports")
        if name == "rule add":
            add("settings", **settings, help="columns of ACDC_Rule, such as beta=0.5")
        if name in ("tenant del", "rule del", "unbind"):
            _may_be_missing(parser)
        _changing(parser)


def _others(commands: Commands) -> None:
    init = commands.add("init", "fill a new database; add listeners to it, or take them away")
    init.add_argument("--listen", action="append", default=[], metavar="pssl:PORT[:ADDRESS]",
                      type=listener("pssl"), help="for hosts: each writes its own row only")  # fmt: skip
    init.add_argument("--relay", action="append", default=[], metavar="pssl:PORT[:ADDRESS]",
                      type=listener("pssl", "ptcp"),
                      help="of relays, or ptcp: nothing is written")  # fmt: skip
    init.add_argument("--remove", action="append", default=[], metavar="TARGET",
                      help="one of these that is no longer wanted")  # fmt: skip
    commands.add("tenant list", "the policy")
    diff = commands.add("diff", "between revisions; default: the last two, or a roll-out's")
    diff.add_argument("old", type=integer(1, 10**9), nargs="?", metavar="OLD")
    diff.add_argument("to", type=integer(1, 10**9), nargs="?", metavar="NEW",
                      help="default: the current one")  # fmt: skip
    commands.add("log", "the revisions")
    commands.add("status", "of the fleet")
    commands.add("host list", "the hosts")
    label = commands.add("host label", "set labels of a host; an empty value removes one")
    label.add_argument("name", metavar="HOST")
    label.add_argument("labels", nargs="+", metavar="LABEL=VALUE")
    gone = commands.add("host del", "forget a host and its labels")
    group = commands.add("group set", "make a group of the hosts with labels, or change it")
    group.add_argument("name", metavar="GROUP")
    group.add_argument("labels", nargs="*", metavar="LABEL=VALUE",
                       help="all of them; default: those that it has")  # fmt: skip
    group.add_argument("--stage", type=stage, metavar="N",
                       help="1 comes first in a staged roll-out; none")  # fmt: skip
    for parser, what in ((gone, "HOST"), (commands.add("group del", "delete a group"), "GROUP")):
        parser.add_argument("name", metavar=what)
        _may_be_missing(parser)
    commands.add("group list", "the groups")
    _waiting(commands.add("rollout resume", "go on with a roll-out"))
    commands.add("rollout abort", "back to the current revision")


def build() -> argparse.ArgumentParser:
    parser = Parser(
        prog="acdc-fleetctl",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _common(parser)
    commands = Commands(parser)
    commands.group("tenant", "set, unset, del, list")
    commands.group("rule", "add, del")
    _policy(commands)
    commands.group("host", "list, label, del")
    commands.group("group", "set, del, list")
    commands.group("rollout", "resume, abort")
    _others(commands)
    return parser
