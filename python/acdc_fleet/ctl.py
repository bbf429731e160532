# SPDX-License-Identifier: Apache-2.0

"""What acdc-fleetctl does."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from . import output, rollout
from .arguments import DEFAULT_DB, build
from .centre import Centre, Policy, policy_of
from .transport import Failure, use_keys

Problems = dict[str, list[str]]


class Command:
    """One run: the arguments, the database, what is printed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.centre = Centre(args.db, args.connect_timeout)
        self.made: dict[str, Any] = {}
        """What is to be printed of a revision that was made."""
        self.known: set[tuple[str, str]] = set()
        """The problems that there were before that."""

    def show(self, data: Any, text: str) -> None:  # noqa: ANN401
        shown = json.dumps(data, indent=1, sort_keys=True) if self.args.json else text
        if shown:
            print(shown)

    def tell(self, text: str) -> None:
        if not self.args.json:
            print(text, flush=True)

    # The policy.

    def change(self, edit: Callable[[Policy], None], comment: str, like: str = "") -> int:
        """Makes the revision, says what it is, and waits as long as was asked for."""
        args, centre = self.args, self.centre
        stages = rollout.stages(centre) if args.staged else []
        if args.staged:
            rollout.check(centre, stages)
        self.known = rollout.problems(centre)
        before, after, number = centre.set_policy(
            edit, args.message or comment, args.staged, args.dry_run
        )
        lines = list(output.diff(before, after))
        hosts = centre.hosts()
        done = "would be" if args.dry_run else "is"
        summary = f"revision {number} {done} for {len(hosts)} hosts{like}"
        if before == after:
            summary = f"nothing changes: revision {number}"
        elif args.staged:
            names = [" ".join(row.name for row in groups) for groups in stages]
            summary += f", in stages: {', '.join([*names, 'all'])}"
        data = {"revision": number, "dry_run": args.dry_run, "diff": lines, "hosts": len(hosts)}
        data |= output.changes(before, after)
        status = 0
        new: Problems = {}
        follows = not args.dry_run and (before != after or not args.staged)
        self.made = data if follows else {}
        self.tell("\n".join([*lines, summary]))
        if follows:
            status, new = self.follow(number)
        if args.json:
            self.show(data | {"exit_status": status, "problems": new}, "")
        return status

    def follow(self, number: int) -> tuple[int, Problems]:
        """Waits for hosts.  Returns the exit status and the new problems."""
        args, centre = self.args, self.centre
        if args.staged:
            return self.roll_out()
        if args.wait == "none":
            return 0, {}
        column = "applied" if args.wait == "hosts" else "written"
        rollout.wait(centre, centre.hosts, number, column, args.timeout)
        return self.done(number, self.known)

    def roll_out(self) -> tuple[int, Problems]:
        args = self.args
        number, before = rollout.run(
            self.centre, args.timeout, args.soak, args.max_problems, self.tell
        )
        return self.done(number, before)

    def new(self, before: set[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(rollout.problems(self.centre) - before)

    def done(self, number: int, before: set[tuple[str, str]]) -> tuple[int, Problems]:
        new = self.new(before)
        self.tell("\n".join([
            f"revision {number} is on all {len(self.centre.hosts())} hosts", *output.problems(new),
        ]))  # fmt: skip
        return 3 if new else 0, output.by_host(new)

    def init(self) -> int:
        args, centre = self.args, self.centre
        centre.init(args.listen, args.relay, args.remove)
        data = {"fleet": centre.fleet.id}
        lines = [f"fleet {centre.fleet.id}"]
        for name, column in (("listen", "connections"), ("relay", "relays")):
            data[name] = sorted(row.target for row in getattr(centre.fleet, column))
            lines += [f"{name} {target}" for target in data[name]]
        self.show(data, "\n".join(lines))
        return 0

    def settings(self, table: str) -> dict[str, Any]:
        """Of COLUMN=VALUE and COLUMN:KEY=VALUE."""
        values: dict[str, Any] = {}
        for text in self.args.settings:
            name, value = self.centre.value(table, text)
            if name in values:
                raise Failure(f"{text}: {name} is there twice")
            values[name] = value
        return values

    def tenant_set(self) -> int:
        name = self.args.name
        values = self.settings("Tenant")

        def edit(policy: Policy) -> None:
            _apply(policy.setdefault(name, {"rules": []}), values)

        return self.change(edit, f"tenant set {name} {' '.join(self.args.settings)}")

    def tenant_unset(self) -> int:
        name, columns = self.args.name, self.args.columns
        for column in columns:
            self.centre.column("Tenant", column, ("bind", "bind_logical"))

        def edit(policy: Policy) -> None:
            values = _tenant(policy, name)
            for column in columns:
                head, _, key = column.partition(":")
                if key:
                    values.get(head, {}).pop(key, None)
                if not key or not values.get(head):
                    values.pop(head, None)

        return self.change(edit, f"tenant unset {name} {' '.join(columns)}")

    def tenant_del(self) -> int:
        name = self.args.name

        def edit(policy: Policy) -> None:
            if not self.args.if_exists:
                _tenant(policy, name)
            policy.pop(name, None)

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
        values = self.settings("Rule")
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
            if len(left) == len(rules) and not args.if_exists:
                known = ", ".join(f'{r["priority"]} "{r.get("match", "")}"' for r in rules)
                raise Failure(
                    f'tenant {args.name} has no rule {args.priority} "{args.match}"; there are:'
                    f" {known or 'none'}"
                )
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
            missing = sorted(set(args.selectors) - set(has))
            if missing and not add and not args.if_exists:
                kind = "logical selector" if args.logical else "selector"
                raise Failure(
                    f"tenant {args.name} has no {kind} {', '.join(missing)}; there are:"
                    f" {', '.join(has) or 'none'}"
                )
            values.pop(column, None)
            if new:
                values[column] = sorted(new)

        words = [args.name, *args.selectors, *(["--logical"] if args.logical else [])]
        return self.change(edit, f"{'' if add else 'un'}bind {' '.join(words)}")

    def unbind(self) -> int:
        return self.bind(add=False)

    def before(self) -> Any | None:  # noqa: ANN401
        """The revision before the current one, if there is one."""
        current: Any = self.centre.current
        rows = self.centre.rows("Revision") if current is not None else []
        older = [row for row in rows if row.number < current.number]
        return max(older, key=lambda row: int(row.number), default=None)

    def rollback(self) -> int:
        number = self.args.revision
        latest = getattr(self.centre.current, "number", 0)
        if number is None:
            before = self.before()
            if before is None:
                raise Failure("there is no older revision")
            number = before.number
        old = policy_of(self.centre.revision(number))

        def edit(policy: Policy) -> None:
            current = getattr(self.centre.current, "number", 0)
            if self.args.revision is None and current != latest:
                raise Failure(f"revision {current} was made meanwhile; try again")
            policy.clear()
            policy.update(old)

        return self.change(edit, f"rollback to revision {number}", f", like revision {number}")

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
            a, b = self.before(), centre.current
        before, after = policy_of(a), policy_of(b)
        lines = list(output.diff(before, after))
        data = {"from": getattr(a, "number", None), "to": getattr(b, "number", None)}
        self.show(data | {"diff": lines} | output.changes(before, after), "\n".join(lines))
        return 0

    def log(self) -> int:
        rows = sorted(self.centre.rows("Revision"), key=lambda row: -row.number)
        current = getattr(self.centre.current, "number", 0)
        marks = {row.number: "aborted" for row in rows if row.number > current}
        marks |= {row.number: mark for row, mark in (
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
        problems = sorted(rollout.problems(centre))
        bad = output.by_host(problems)
        data = {
            "fleet": centre.fleet.id,
            "current": getattr(centre.current, "number", None),
            "staged": getattr(centre.staged, "number", None),
            "stages": sorted(group.name for group in centre.fleet.stages),
            "stopped": next(iter(centre.fleet.stopped), None),
            "hosts": len(hosts),
            "behind": [host.name for host in behind],
            "problems": bad,
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
        lines += output.problems(problems)
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
        name, labels = self.args.name, _labels(self.args.labels)
        new: dict[str, str] = {}

        def fill(_: object) -> None:
            nonlocal new
            row = self.centre.find("Host", name)
            row.verify("labels")
            new = {k: v for k, v in (row.labels | labels).items() if v}
            row.labels = new

        self.centre.commit(fill)
        self.show(
            {"name": name, "labels": new}, f"host {name}: {output.text(new) or 'no labels'}"
        )
        return 0

    def delete(self, table: str) -> int:
        name = self.args.name
        deleted: str | None = None

        def fill(_: object) -> None:
            nonlocal deleted
            # The reply to the one that deleted it may have been lost.
            may_be_missing = self.args.if_exists or deleted
            if may_be_missing and name not in {row.name for row in self.centre.rows(table)}:
                return
            self.centre.find(table, name).delete()
            deleted = name

        self.centre.commit(fill)
        self.show({"deleted": deleted}, "")
        return 0

    def host_del(self) -> int:
        return self.delete("Host")

    def group_del(self) -> int:
        return self.delete("Group")

    def group_set(self) -> int:
        args, centre = self.args, self.centre
        labels = _labels(args.labels)
        centre.check("Group", "name", args.name)

        def fill(transaction: Any) -> None:  # noqa: ANN401
            rows = [row for row in centre.rows("Group") if row.name == args.name]
            row = rows[0] if rows else transaction.insert(centre.idl.tables["Group"])
            if not rows:
                row.name = args.name
            if labels:
                row.labels = labels
            if args.stage is not None:
                row.stage = [args.stage] if args.stage else []

        centre.commit(fill)
        return self.group_list()

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
        status, new = self.roll_out()
        if self.args.json:
            current = self.centre.current
            data = {"revision": current and current.number, "problems": new, "exit_status": status}
            self.show(data, "")
        return status

    def rollout_abort(self) -> int:
        staged = self.centre.staged
        rollout.abort(self.centre)
        current = self.centre.current
        number = current.number if current is not None else None
        self.show(
            {"revision": number, "aborted": staged and staged.number},
            f"revision {number} is for all hosts again",
        )
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


def _run(args: argparse.Namespace) -> int:
    command: Command | None = None
    try:
        if "ssl:" in args.db:
            use_keys(args.private_key, args.certificate, args.ca_cert)
        command = Command(args)
        status: int = getattr(command, args.method)()
        return status
    except BrokenPipeError:
        raise  # Of standard output: acdc_cli.ending() knows.
    except TimeoutError as error:
        code, said = 4, str(error)
    except rollout.Stopped as error:
        code, said = 3, str(error)
    except (Failure, ConnectionError) as error:
        code, said = 1, str(error)
        if isinstance(error, ConnectionError) and args.db == DEFAULT_DB:
            said += ": is this a server of the cluster?  Another is named by --db"
    except KeyboardInterrupt as interrupt:
        code, said = 130, f"interrupted{interrupt}"
    made: dict[str, Any] = {}
    if command is not None and command.made:
        made = command.made | {"problems": output.by_host(command.new(command.known))}
    if code == 130 and command is not None and made:
        under_way = args.staged and command.centre.staged is not None
        said += f": revision {made['revision']} is made"
        said += "; rollout resume, or rollout abort" if under_way else ", and reaches the hosts"
    if args.json:
        print(json.dumps(made | {"error": said, "exit_status": code}, indent=1, sort_keys=True))
    print(f"acdc-fleetctl: {said}", file=sys.stderr)
    return code


def main(argv: list[str] | None = None) -> int:
    return _run(build().parse_args(argv))
