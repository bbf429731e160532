# SPDX-License-Identifier: Apache-2.0

"""The central database, for the operator's command: revisions of the policy, hosts, groups.

A revision is never changed: a change makes a new one, which shares with the old one the rows of
the tenants that are equal.  So history and a roll-back cost a row, and hosts have one or another.
"""

from __future__ import annotations

import copy
import getpass
import json
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from ovs.db import error as db_error
from ovs.db.data import Datum
from ovs.db.idl import Idl, SchemaHelper, Transaction
from ovs.db.types import BooleanType, IntegerType, RealType
from ovs.poller import Poller

from . import DATABASE, ROLE
from .policy import matches, plain, target
from .transport import Failure, call

HISTORY = 20
HOST_COLUMNS = ["written", "applied", "problems", "agent"]

Policy = dict[str, dict[str, Any]]
"""Tenants by name, as columns; "rules" is a list of such dictionaries."""


def _columns(row: Any) -> dict[str, Any]:  # noqa: ANN401
    """What is set in a row, as plain values."""
    values = {}
    for name, column in row._table.columns.items():
        value = plain(getattr(row, name)) if name != "rules" else None
        if value not in (None, [], {}):
            values[name] = value[0] if isinstance(value, list) and column.type.n_max == 1 else value
    return values


def policy_of(revision: Any | None) -> Policy:  # noqa: ANN401
    found: Policy = {}
    for tenant in revision.tenants if revision is not None else ():
        values = _columns(tenant)
        rules = [_columns(rule) for rule in tenant.rules]
        values["rules"] = sorted(rules, key=lambda r: (-r["priority"], r.get("match", "")))
        found[values.pop("name")] = values
    return found


class Centre:
    def __init__(self, remote: str, timeout: float = 10) -> None:
        self.remote = remote
        self.timeout = timeout
        schema = call(remote, "get_schema", DATABASE)
        helper = SchemaHelper(schema_json=schema)
        helper.register_all()
        self.idl = Idl(remote, helper, leader_only=False)
        self.wait(self.idl.has_ever_connected, f"{remote} does not answer")

    def close(self) -> None:
        self.idl.close()

    def wait(
        self, done: Callable[[], Any], problem: str, timeout: float = 0, txn: Any = None
    ) -> None:
        """Until 'done'.  Raises TimeoutError."""
        deadline = time.monotonic() + (timeout or self.timeout)
        self.idl.run()
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{problem} within {timeout or self.timeout:g} s")
            poller = Poller()
            self.idl.wait(poller)
            if txn is not None:
                txn.wait(poller)
            poller.timer_wait(100)
            poller.block()
            self.idl.run()

    # Reading.

    def rows(self, table: str) -> list[Any]:
        return list(self.idl.tables[table].rows.values())

    def find(self, table: str, name: str) -> Any:  # noqa: ANN401
        for row in self.rows(table):
            if row.name == name:
                return row
        known = ", ".join(sorted(row.name for row in self.rows(table))) or "none"
        raise Failure(f'there is no {table.lower()} "{name}"; there are: {known}')

    @property
    def fleet(self) -> Any:  # noqa: ANN401
        for row in self.rows("Fleet"):
            return row
        raise Failure("the database is empty: run acdc-fleetctl init first")

    @property
    def current(self) -> Any | None:  # noqa: ANN401
        return next(iter(self.fleet.current), None)

    @property
    def staged(self) -> Any | None:  # noqa: ANN401
        return next(iter(self.fleet.staged), None)

    def revision(self, number: int) -> Any:  # noqa: ANN401
        for row in self.rows("Revision"):
            if row.number == number:
                return row
        known = ", ".join(str(n) for n in sorted(row.number for row in self.rows("Revision")))
        raise Failure(f"there is no revision {number}; there are: {known}")

    def hosts(self, group: str | None = None) -> list[Any]:
        """By name; of a group, or all."""
        rows = sorted(self.rows("Host"), key=lambda row: str(row.name))
        if group is None:
            return rows
        row = self.find("Group", group)
        return [host for host in rows if matches(row, host.labels)]

    def wanted(self, host: Any) -> int:  # noqa: ANN401
        """The revision that a host should have."""
        revision = target(self.fleet, host.labels)
        return int(revision.number) if revision is not None else 0

    # Values.

    def value(self, table: str, text: str) -> tuple[str, Any]:
        """COLUMN=VALUE or COLUMN:KEY=VALUE, checked against the schema."""
        name, eq, value = text.partition("=")
        column, _, key = name.partition(":")
        columns = {
            name: column
            for name, column in self.idl.tables[table].columns.items()
            if name not in ("name", "rules", "bind", "bind_logical", "_uuid")
        }
        if column not in columns or not eq:
            allowed = " ".join(sorted(columns))
            what = "it is not COLUMN=VALUE" if not eq else f"there is no column {column}"
            raise Failure(f"{text}: {what}; allowed are: {allowed} (other_config with :KEY)")
        kind = columns[column].type
        if kind.value is not None:
            if not key:
                raise Failure(f"{text}: {column} needs a key, {column}:KEY=VALUE")
            return name, value
        try:
            atom = _atom(kind.key.type, value)
            Datum.from_python(kind, atom if kind.n_min else [atom], lambda row: row)
        except (ValueError, db_error.Error):
            raise Failure(
                f'{name}: "{value}" is not allowed; allowed {_allowed(kind.key)}'
            ) from None
        return name, atom

    # Writing.

    def commit(self, fill: Callable[[Transaction], None]) -> None:
        """A transaction that 'fill' makes, again while others get in between."""
        for _ in range(20):
            self.idl.run()
            transaction = Transaction(self.idl)
            try:
                fill(transaction)
            except BaseException:
                transaction.abort()
                raise
            status = transaction.commit()
            if status == Transaction.INCOMPLETE:
                got = [status]

                def done(got: list[str] = got, transaction: Transaction = transaction) -> bool:
                    got[0] = transaction.commit()
                    return got[0] != Transaction.INCOMPLETE

                self.wait(done, "the transaction is not done", txn=transaction)
                status = got[0]
            if status in (Transaction.SUCCESS, Transaction.UNCHANGED):
                return
            text = transaction.get_error() or ""
            if status != Transaction.TRY_AGAIN and "index on column" not in text:
                raise Failure(_details(text) or Transaction.status_to_string(status))
            # Another operator was faster; what he changed arrives.
            self.wait(lambda: True, "")
            time.sleep(0.05)
        raise Failure("others change the policy all the time; try again")

    def set_policy(
        self,
        edit: Callable[[Policy], None],
        comment: str,
        staged: bool = False,
        dry_run: bool = False,
    ) -> tuple[Policy, Policy, int]:
        """Makes a revision of what 'edit' makes of the current policy.  Returns the policy before
        and after, and the revision's number: the current one's if nothing changes."""
        result: list[Any] = []

        def fill(transaction: Transaction) -> None:
            fleet, current = self.fleet, self.current
            if self.staged is not None:
                raise Failure(
                    f"revision {self.staged.number} is being rolled out: first"
                    " acdc-fleetctl rollout resume, or rollout abort"
                )
            before = policy_of(current)
            after = copy.deepcopy(before)
            edit(after)
            number = int(current.number) if current is not None else 0
            result[:] = [before, after, number]
            if after == before and current is not None:
                return
            result[2] = 1 + max((row.number for row in self.rows("Revision")), default=0)
            if dry_run:
                return
            for column in ("current", "staged"):
                fleet.verify(column)
            old = {row.name: row for row in current.tenants} if current is not None else {}
            tenants = [
                old[name] if values == before.get(name) else self._tenant(transaction, name, values)
                for name, values in after.items()
            ]
            row = self._revision(transaction, result[2], comment, tenants)
            history = sorted([*fleet.history, row], key=lambda r: int(r.number))
            fleet.history = history[-HISTORY:]
            if staged:
                fleet.staged, fleet.stages, fleet.stopped = [row], [], []
            else:
                fleet.current = [row]

        self.commit(fill)
        return result[0], result[1], result[2]

    def _revision(
        self, transaction: Transaction, number: int, comment: str, tenants: list[Any]
    ) -> Any:  # noqa: ANN401
        row = transaction.insert(self.idl.tables["Revision"])
        row.number, row.time = number, int(time.time())
        row.author = os.environ.get("SUDO_USER") or getpass.getuser()
        row.comment, row.tenants = comment, tenants
        return row

    def _tenant(self, transaction: Transaction, name: str, values: dict[str, Any]) -> Any:  # noqa: ANN401
        row = transaction.insert(self.idl.tables["Tenant"])
        row.name = name
        for column, value in values.items():
            if column != "rules":
                setattr(row, column, value)
        rules = []
        for rule in values["rules"]:
            new = transaction.insert(self.idl.tables["Rule"])
            for column, value in rule.items():
                setattr(new, column, value)
            rules.append(new)
        row.rules = rules
        return row

    def init(self, connections: list[str], relays: list[str]) -> None:
        """The rows that a new database needs.  In one that has them, only adds connections."""

        def fill(transaction: Transaction) -> None:
            fleet = next(iter(self.rows("Fleet")), None)
            if fleet is None:
                fleet = transaction.insert(self.idl.tables["Fleet"])
                fleet.id = str(uuid.uuid4())
                revision = self._revision(transaction, 1, "init", [])
                fleet.current, fleet.history = [revision], [revision]
                permission = transaction.insert(self.idl.tables["RBAC_Permission"])
                permission.table, permission.authorization = "Host", ["name"]
                permission.insert_delete, permission.update = True, HOST_COLUMNS
                role = transaction.insert(self.idl.tables["RBAC_Role"])
                role.name, role.permissions = ROLE, {"Host": permission}
            there = {row.target for row in self.rows("Connection")}
            for column, targets, columns in (
                ("connections", connections, {"role": ROLE}),
                ("relays", relays, {"read_only": True}),
            ):
                for address in targets:
                    if address not in there:
                        row = transaction.insert(self.idl.tables["Connection"])
                        row.target, row.inactivity_probe = address, 60000
                        for name, value in columns.items():
                            setattr(row, name, value)
                        fleet.addvalue(column, row)

        self.commit(fill)


def _details(text: str) -> str:
    try:
        return str(json.loads(text)["details"])
    except (ValueError, KeyError):
        return text


def _atom(kind: Any, text: str) -> Any:  # noqa: ANN401
    if kind == BooleanType:
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"
    if kind == RealType:
        return float(text)
    return int(text) if kind == IntegerType else text


def _allowed(base: Any) -> str:  # noqa: ANN401
    """What a value may be, in words."""
    if base.enum is not None:
        return "are: " + " ".join(
            sorted(str(value) for value in base.enum.to_python(lambda atom, _: atom))
        )
    if base.type == BooleanType:
        return "are: true false"
    if base.min is not None or base.max is not None:
        kind = "an integer" if base.type == IntegerType else "a number"
        return f"is {kind} from {base.min} to {base.max}"
    return f"is a {base.type.to_string()}"
