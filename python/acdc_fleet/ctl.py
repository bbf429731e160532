# SPDX-License-Identifier: Apache-2.0

"""Policy for a fleet of hypervisors.

Every change of tenants makes a revision, which hosts have as a whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from . import output, rollout
from .centre import Centre, Policy, policy_of
from .transport import Failure, use_keys

EPILOG = """options of the commands that change the policy:
  --dry-run           say what would change, and change nothing
  --wait WHAT         until hosts' databases have it (database), or it is in force (hosts)
  --timeout S         for hosts
  --staged            first to the groups that have a stage, in order
  --soak S            without problems before the next stage
  --max-problems N    more new problems stop a roll-out
  --message TEXT      for the log

exit status: 0 done; 1 an error, nothing was changed; 2 wrong usage;
3 hosts report problems, or a roll-out has stopped; 4 hosts have not acknowledged in time"""
DEFAULT_DB = "unix:/var/run/acdc-fleet/db.sock"


class Command:
    """One run: the arguments, the database, what is printed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.centre = Centre(args.db, args.connect_timeout)

    def show(self, data: Any, text: str) -> None:  # noqa: ANN401
        shown = json.dumps(data, indent=1, sort_keys=True) if self.args.json else text
        if shown:
            print(shown)

    def tell(self, text: str) -> None:
        if not self.args.json:
            print(text, flush=True)

    # The policy.

    def change(self, edit: Callable[[Policy], None], comment: str) -> int:
        """Makes the revision, says what it is, and waits as long as was asked for."""
        args, centre = self.args, self.centre
        before, after, number = centre.set_policy(
            edit, args.message or comment, args.staged, args.dry_run
        )
        lines = list(output.diff(before, after))
        hosts = centre.hosts()
        done = "would be" if args.dry_run else "is"
        summary = f"revision {number} {done} for {len(hosts)} hosts"
        if not lines:
            summary = f"nothing changes: revision {number}"
        elif args.staged:
            names = [" ".join(row.name for row in groups) for groups in rollout.stages(centre)]
            summary += f", in stages: {', '.join([*names, 'all'])}"
        self.tell("\n".join([*lines, summary]))
        data = {"revision": number, "dry_run": args.dry_run, "diff": lines, "hosts": len(hosts)}
        status = 0
        if lines and not args.dry_run:
            status = self.follow(number)
        if args.json:
            self.show(data | {"exit_status": status}, "")
        return status

    def follow(self, number: int) -> int:
        args, centre = self.args, self.centre
        if args.staged:
            return self.roll_out()
        if args.wait == "none":
            return 0
        before = rollout.problems(centre)
        column = "applied" if args.wait == "hosts" else "written"
        rollout.wait(centre, centre.hosts, number, column, args.timeout)
        new = rollout.problems(centre) - before
        self.tell(f"revision {number} is on all {len(centre.hosts())} hosts")
        for name, problem in sorted(new):
            self.tell(f"problem: host {name}: {problem}")
        return 3 if new else 0

    def roll_out(self) -> int:
        args = self.args
        number = rollout.run(self.centre, args.timeout, args.soak, args.max_problems, self.tell)
        self.tell(f"revision {number} is on all {len(self.centre.hosts())} hosts")
        return 0

    def init(self) -> int:
        self.centre.init(self.args.listen, self.args.relay)
        self.show({"fleet": self.centre.fleet.id}, f"fleet {self.centre.fleet.id}")
        return 0

    def tenant_set(self) -> int:
        name = self.args.name
        values = dict(self.centre.value("Tenant", text) for text in self.args.settings)

        def edit(policy: Policy) -> None:
            _apply(policy.setdefault(name, {"rules": []}), values)

        return self.change(edit, f"tenant set {name} {' '.join(self.args.settings)}")

    def tenant_unset(self) -> int:
        name, columns = self.args.name, self.args.columns

        def edit(policy: Policy) -> None:
            values = _tenant(policy, name)
            for column in columns:
                head, _, key = column.partition(":")
                if key and key in values.get(head, {}):
                    del values[head][key]
                    if not values[head]:
                        del values[head]
                elif not key and head in values and head != "rules":
                    del values[head]
                else:
                    has = " ".join(sorted(values.keys() - {"rules"})) or "none"
                    raise Failure(f"tenant {name}: {column} is not set; set are: {has}")

        return self.change(edit, f"tenant unset {name} {' '.join(columns)}")

    def tenant_del(self) -> int:
        name = self.args.name

        def edit(policy: Policy) -> None:
            _tenant(policy, name)
            del policy[name]

        return self.change(edit, f"tenant del {name}")

    def tenant_list(self) -> int:
        policy = policy_of(self.centre.current)
        lines: list[str] = []
        for name in sorted(policy):
            lines += [f"tenant {name}", *(f"    {line}" for line in output.settings(policy[name]))]
        self.show(policy, "\n".join(lines))
        return 0

    def rule_add(self) -> int:
        args = self.args
        values = dict(self.centre.value("Rule", text) for text in args.settings)
        rule: dict[str, Any] = {"priority": args.priority}
        if args.match:
            rule["match"] = args.match
        _apply(rule, values)

        def edit(policy: Policy) -> None:
            rules = _tenant(policy, args.name)["rules"]
            rules[:] = [r for r in rules if not _same_rule(r, args)] + [rule]
            rules.sort(key=lambda r: (-r["priority"], r.get("match", "")))

        return self.change(edit, f"rule add {args.name} {args.priority} {args.match}")

    def rule_del(self) -> int:
        args = self.args

        def edit(policy: Policy) -> None:
            rules = _tenant(policy, args.name)["rules"]
            left = [rule for rule in rules if not _same_rule(rule, args)]
            if len(left) == len(rules):
                raise Failure(f'tenant {args.name} has no rule {args.priority} "{args.match}"')
            rules[:] = left

        return self.change(edit, f"rule del {args.name} {args.priority} {args.match}")

    def bind(self, add: bool = True) -> int:
        args = self.args
        column = "bind_logical" if args.logical else "bind"
        for selector in args.selectors:
            key, _, value = selector.partition("=")
            if not key or not value:
                raise Failure(f'"{selector}" is not KEY=VALUE, as in port-profile=blue')

        def edit(policy: Policy) -> None:
            values = _tenant(policy, args.name)
            has = values.get(column, [])
            has = [has] if isinstance(has, str) else has
            new = set(has) | set(args.selectors) if add else set(has) - set(args.selectors)
            if not add and len(new) + len(args.selectors) > len(has):
                known = " ".join(has) or "none"
                raise Failure(
                    f"tenant {args.name}: not all of these are selectors; there are: {known}"
                )
            values.pop(column, None)
            if new:
                values[column] = sorted(new)

        return self.change(
            edit, f"{'' if add else 'un'}bind {args.name} {' '.join(args.selectors)}"
        )

    def unbind(self) -> int:
        return self.bind(add=False)

    def rollback(self) -> int:
        number = self.args.revision
        if number is None:
            older = [r for r in self.centre.rows("Revision") if r != self.centre.current]
            current = self.centre.current
            older = [r for r in older if current is not None and r.number < current.number]
            if not older:
                raise Failure("there is no older revision")
            number = max(row.number for row in older)
        old = policy_of(self.centre.revision(number))

        def edit(policy: Policy) -> None:
            policy.clear()
            policy.update(old)

        return self.change(edit, f"rollback to revision {number}")

    # Looking.

    def diff(self) -> int:
        centre, args = self.centre, self.args
        if args.to is not None:
            a, b = centre.revision(args.old), centre.revision(args.to)
        elif args.old is not None:
            a, b = centre.revision(args.old), centre.current
        elif centre.staged is not None:
            a, b = centre.current, centre.staged
        else:
            b = centre.current
            older = [r for r in centre.rows("Revision") if b is not None and r.number < b.number]
            a = max(older, key=lambda r: int(r.number), default=None)
        lines = list(output.diff(policy_of(a), policy_of(b)))
        self.show(lines, "\n".join(lines))
        return 0

    def log(self) -> int:
        rows = sorted(self.centre.rows("Revision"), key=lambda row: -row.number)
        marks = {row.number: mark for row, mark in (
            (self.centre.current, "current"), (self.centre.staged, "staged")) if row is not None}  # fmt: skip
        data = [
            {"revision": r.number, "time": r.time, "author": r.author, "comment": r.comment,
             "state": marks.get(r.number, "")} for r in rows
        ]  # fmt: skip
        lines = [
            (d["revision"], time.strftime("%F %T", time.localtime(d["time"])), d["author"],
             d["state"], d["comment"]) for d in data
        ]  # fmt: skip
        self.show(data, output.table(("REVISION", "TIME", "AUTHOR", "STATE", "COMMENT"), lines))
        return 0

    def status(self) -> int:
        centre = self.centre
        hosts = centre.hosts()
        behind = [host for host in hosts if host.applied != centre.wanted(host)]
        bad = [host for host in hosts if host.problems]
        data = {
            "fleet": centre.fleet.id,
            "current": getattr(centre.current, "number", None),
            "staged": getattr(centre.staged, "number", None),
            "stages": sorted(group.name for group in centre.fleet.stages),
            "stopped": next(iter(centre.fleet.stopped), None),
            "hosts": len(hosts),
            "behind": [host.name for host in behind],
            "problems": {host.name: sorted(host.problems) for host in bad},
        }
        lines = [f"revision {data['current']}"]
        if centre.staged is not None:
            lines.append(
                f"roll-out of {data['staged']}, stages: {' '.join(data['stages']) or 'none'}"
            )
        if data["stopped"]:
            lines.append(f"stopped: {data['stopped']}")
        lines.append(
            f"{len(hosts)} hosts, {len(behind)} without their revision, {len(bad)} with problems"
        )
        lines += [f"behind: {name}" for name in data["behind"]]
        lines += [f"problem: host {h.name}: {p}" for h in bad for p in sorted(h.problems)]
        self.show(data, "\n".join(lines))
        return 3 if bad or data["stopped"] else 0

    # Hosts and groups.

    def host_list(self) -> int:
        rows = self.centre.hosts()
        data = [
            {"name": r.name, "labels": r.labels, "written": r.written, "applied": r.applied,
             "wanted": self.centre.wanted(r), "problems": sorted(r.problems)} for r in rows
        ]  # fmt: skip
        headings = ("HOST", "WANTED", "WRITTEN", "APPLIED", "PROBLEMS", "LABELS")
        lines = [
            (d["name"], d["wanted"], d["written"], d["applied"], len(d["problems"]),
             output.text(d["labels"])) for d in data
        ]  # fmt: skip
        self.show(data, output.table(headings, lines))
        return 0

    def host_label(self) -> int:
        row = self.centre.find("Host", self.args.name)
        labels = _labels(self.args.labels)

        def fill(_: object) -> None:
            row.labels = {k: v for k, v in (row.labels | labels).items() if v}

        self.centre.commit(fill)
        return 0

    def host_del(self) -> int:
        row = self.centre.find("Host", self.args.name)
        self.centre.commit(lambda _: row.delete())
        return 0

    def group_set(self) -> int:
        args, centre = self.args, self.centre
        labels = _labels(args.labels)

        def fill(transaction: Any) -> None:  # noqa: ANN401
            rows = [row for row in centre.rows("Group") if row.name == args.name]
            row = rows[0] if rows else transaction.insert(centre.idl.tables["Group"])
            if not rows:
                row.name = args.name
            if labels:
                row.labels = labels
            if args.stage is not None:
                row.stage = [args.stage]

        centre.commit(fill)
        return 0

    def group_del(self) -> int:
        row = self.centre.find("Group", self.args.name)
        self.centre.commit(lambda _: row.delete())
        return 0

    def group_list(self) -> int:
        rows = sorted(self.centre.rows("Group"), key=lambda row: (row.stage or [1001], row.name))
        data = [
            {"name": r.name, "stage": next(iter(r.stage), None), "labels": r.labels,
             "hosts": len(self.centre.hosts(r.name))} for r in rows
        ]  # fmt: skip
        lines = [(d["name"], d["stage"] or "-", d["hosts"], output.text(d["labels"])) for d in data]
        self.show(data, output.table(("GROUP", "STAGE", "HOSTS", "LABELS"), lines))
        return 0

    def rollout_resume(self) -> int:
        return self.roll_out()

    def rollout_abort(self) -> int:
        rollout.abort(self.centre)
        return 0


def _apply(values: dict[str, Any], settings: dict[str, Any]) -> None:
    """COLUMN and COLUMN:KEY."""
    for name, value in settings.items():
        column, _, key = name.partition(":")
        if key:
            values[column] = values.get(column, {}) | {key: value}
        else:
            values[column] = value


def _tenant(policy: Policy, name: str) -> dict[str, Any]:
    if name not in policy:
        raise Failure(
            f'there is no tenant "{name}"; there are: {", ".join(sorted(policy)) or "none"}'
        )
    return policy[name]


def _same_rule(rule: dict[str, Any], args: argparse.Namespace) -> bool:
    return bool(rule["priority"] == args.priority and rule.get("match", "") == args.match)


def _labels(words: list[str]) -> dict[str, str]:
    labels = {}
    for word in words:
        key, eq, value = word.partition("=")
        if not key or not eq:
            raise Failure(f'"{word}" is not LABEL=VALUE, as in rack=7')
        labels[key] = value
    return labels


def _changing(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="say what would change, and change nothing")
    add("--wait", choices=["none", "database", "hosts"], default="none",
        help="until hosts' databases have it, or it is in force on hosts (%(default)s)")  # fmt: skip
    add("--staged", action="store_true", help="first to the groups that have a stage, in order")
    add("--message", default="", help="for the log")


def _waiting(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--timeout", type=float, default=60, metavar="S", help="for hosts (%(default)g s)")
    add("--soak", type=float, default=10, metavar="S",
        help="without problems before the next stage (%(default)g s)")  # fmt: skip
    add("--max-problems", type=int, default=0, metavar="N",
        help="more new problems stop a roll-out (%(default)s)")  # fmt: skip


def _policy_commands(commands: Any) -> None:  # noqa: ANN401
    def add(name: str, about: str, method: Callable[..., int]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
        parser.set_defaults(method=method)
        _changing(parser)
        _waiting(parser)
        return parser

    for name, about, method in (
        ("tenant-set", "make a tenant, or change it", Command.tenant_set),
        ("tenant-unset", "give columns of a tenant their defaults", Command.tenant_unset),
        ("tenant-del", "delete a tenant", Command.tenant_del),
        ("rule-add", "add a rule to a tenant, or replace it", Command.rule_add),
        ("rule-del", "delete a rule", Command.rule_del),
        ("bind", "add selectors of ports to a tenant", Command.bind),
        ("unbind", "take selectors away", Command.unbind),
        ("rollback", "make the policy that of an older revision", Command.rollback),
    ):
        parser = add(name, about, method)
        if name == "rollback":
            parser.add_argument("revision", type=int, nargs="?", help="default: the one before")
            continue
        parser.add_argument("name", metavar="TENANT")
        if name == "tenant-set":
            parser.add_argument("settings", nargs="*", metavar="COLUMN=VALUE")
        elif name == "tenant-unset":
            parser.add_argument("columns", nargs="+", metavar="COLUMN")
        elif name.startswith("rule"):
            parser.add_argument("priority", type=int)
            parser.add_argument("match", help='as in ACDC_Rule; "" for all')
        elif name.endswith("bind"):
            parser.add_argument("selectors", nargs="+", metavar="KEY=VALUE")
            parser.add_argument("--logical", action="store_true",
                                help="over external_ids of OVN's logical ports")  # fmt: skip
        if name == "rule-add":
            parser.add_argument("settings", nargs="*", metavar="COLUMN=VALUE")


def _other_commands(commands: Any) -> None:  # noqa: ANN401
    def add(name: str, about: str, method: Callable[..., int]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
        parser.set_defaults(method=method)
        return parser

    init = add("init", "fill a new database; add connections to another", Command.init)
    init.add_argument("--listen", action="append", default=[], metavar="pssl:PORT",
                      help="for hosts: each writes its own row only")  # fmt: skip
    init.add_argument("--relay", action="append", default=[], metavar="pssl:PORT",
                      help="for relays' clients: nothing is written")  # fmt: skip
    add("tenant-list", "the policy", Command.tenant_list)
    diff = add("diff", "between revisions; default: the last two, or a roll-out's", Command.diff)
    diff.add_argument("old", type=int, nargs="?")
    diff.add_argument("to", type=int, nargs="?")
    add("log", "the revisions", Command.log)
    add("status", "of the fleet", Command.status)
    add("host-list", "the hosts", Command.host_list)
    label = add(
        "host-label", "set labels of a host; an empty value removes one", Command.host_label
    )
    label.add_argument("name", metavar="HOST")
    label.add_argument("labels", nargs="+", metavar="LABEL=VALUE")
    add("host-del", "forget a host", Command.host_del).add_argument("name", metavar="HOST")
    group = add(
        "group-set", "make a group of the hosts with labels, or change it", Command.group_set
    )
    group.add_argument("name", metavar="GROUP")
    group.add_argument("labels", nargs="*", metavar="LABEL=VALUE")
    group.add_argument("--stage", type=int, help="1 comes first in a staged roll-out")
    add("group-del", "delete a group", Command.group_del).add_argument("name", metavar="GROUP")
    add("group-list", "the groups", Command.group_list)
    resume = add("rollout-resume", "go on with a roll-out", Command.rollout_resume)
    _waiting(resume)
    add("rollout-abort", "back to the current revision", Command.rollout_abort)


def _parser() -> tuple[argparse.ArgumentParser, set[str]]:
    parser = argparse.ArgumentParser(
        prog="acdc-fleetctl",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--db", default=DEFAULT_DB, help="the central database (%(default)s)")
    add("--private-key", metavar="FILE", help="PEM file of the operator's key")
    add("--certificate", metavar="FILE", help="its certificate")
    add("--ca-cert", metavar="FILE", help="certificate of the authority of the servers'")
    add("--connect-timeout", type=float, default=10, metavar="S", help="for the database")
    add("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _policy_commands(commands)
    _other_commands(commands)
    return parser, set(commands.choices)


def main(argv: list[str] | None = None) -> int:
    if argv is None:
        argv = sys.argv[1:]
    parser, names = _parser()
    for i, pair in enumerate(zip(argv, argv[1:], strict=False)):
        if "-".join(pair) in names:  # "tenant set" is "tenant-set".
            argv = [*argv[:i], "-".join(pair), *argv[i + 2 :]]
            break
    args = parser.parse_args(argv)
    try:
        use_keys(args.private_key, args.certificate, args.ca_cert)
        command = Command(args)
        status: int = args.method(command)
        return status
    except TimeoutError as error:
        code, said = 4, str(error)
    except rollout.Stopped as error:
        code, said = 3, str(error)
    except (Failure, ConnectionError) as error:
        code, said = 1, str(error)
    print(f"acdc-fleetctl: {said}", file=sys.stderr)
    return code
