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
import sys
import time
import uuid
from collections.abc import Callable, Collection
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
# What is not set by COLUMN=VALUE.
NOT_SET = ("name", "rules", "bind", "bind_logical", "priority", "match", "_uuid")
SELECTORS = "; selectors are those of acdc-fleetctl bind and unbind"
# What a transaction meets that another operator's was faster than.
OVERTAKEN = ("index on column", "schema-defined limit of 1 row")
UNKNOWN = "it is not known whether the change is made: see acdc-fleetctl log and status"
HOST_COLUMNS = ["written", "applied", "problems", "agent"]

Policy = dict[str, dict[str, Any]]
"""Tenants by name, as columns; "rules" is a list of such dictionaries."""


def _columns(row: Any) -> dict[str, Any]:  # noqa: ANN401
    """What is set in a row, as plain values."""
    values = {}
    for name, column in row._table.columns.items():
        value = plain(getattr(row, name)) if name != "rules" else None
        if value not in (None, [], {}, ""):
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
        helper = SchemaHelper(schema_json=self._schema())
        helper.register_all()
        self.idl = Idl(remote, helper, leader_only=False)
        self._receive = self.idl._session.recv
        self.idl._session.recv = self._watch
        try:
            self.wait(self.idl.has_ever_connected, f"{remote} does not answer")
        except TimeoutError as late:
            raise Failure(self._alone() or str(late)) from None

    def _schema(self) -> Any:  # noqa: ANN401
        """As soon as a server answers.  Each has its share of the time."""
        deadline = time.monotonic() + self.timeout
        n = len(self.remote.split(","))
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            try:
                return call(self.remote, "get_schema", DATABASE, timeout=int(1000 * left / n) + 1)
            except ConnectionError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def close(self) -> None:
        self.idl.close()

    def _watch(self) -> Any:  # noqa: ANN401
        """What comes.  The IDL does not know that a conversion of the database ends its monitor."""
        message = self._receive()
        if message is not None and message.method == "monitor_canceled":
            self.idl.force_reconnect()
            return None  # Another message would count as activity, and undo that.
        return message

    def _alone(self) -> str:
        """What is wrong if the server has lost the cluster: the IDL shows nothing of it then."""
        select = {"op": "select", "table": "Database", "where": [["name", "==", DATABASE]]}
        (reply,) = call(self.remote, "transact", "_Server", select)
        if all(row["connected"] for row in reply["rows"]):
            return ""
        return (
            f"{self.remote} has lost the cluster: nothing can be read or changed before two of"
            " three servers run"
        )

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

    def column(self, table: str, name: str, more: Collection[str] = ()) -> Any:  # noqa: ANN401
        """The column that COLUMN or COLUMN:KEY names."""
        column, colon, key = name.partition(":")
        columns = {
            name: column
            for name, column in self.idl.tables[table].columns.items()
            if name not in NOT_SET or name in more
        }
        if column not in columns:
            allowed = " ".join(sorted(columns))
            raise Failure(
                f"{name}: there is no column {column}; allowed are: {allowed}"
                f" (other_config with :KEY){SELECTORS if column in ('bind', 'bind_logical') else ''}"
            )
        if colon and (columns[column].type.value is None or not key):
            raise Failure(f"{name}: only other_config has keys, as in other_config:KEY")
        return columns[column]

    def value(self, table: str, text: str) -> tuple[str, Any]:
        """COLUMN=VALUE or COLUMN:KEY=VALUE, checked against the schema."""
        name, eq, value = text.partition("=")
        kind = self.column(table, name).type
        if not eq:
            raise Failure(f"{text}: it is not COLUMN=VALUE, as in {name}=...")
        if kind.value is not None:
            if ":" not in name:
                raise Failure(f"{text}: {name} needs a key, {name}:KEY=VALUE")
            return name, value
        try:
            atom = _atom(kind.key.type, value)
        except ValueError:
            atom = value
        self.check(table, name, atom if kind.n_min else [atom], value)
        return name, atom

    def check(self, table: str, column: str, value: Any, text: str = "") -> None:  # noqa: ANN401
        """Whether the schema allows 'value'.  A row of the IDL ignores what it does not."""
        kind = self.idl.tables[table].columns[column].type
        try:
            Datum.from_python(kind, value, lambda row: row)
        except (ValueError, OverflowError, TypeError, db_error.Error):
            raise Failure(
                f'{column}: "{text or value}" is not allowed; allowed {_allowed(kind.key)}'
            ) from None

    def _check(self, policy: Policy) -> None:
        most = self.idl.tables["Tenant"].columns["rules"].type.n_max
        for name, values in policy.items():
            self.check("Tenant", "name", name)
            for rule in values["rules"]:
                self.check("Rule", "priority", rule["priority"])
            if len(values["rules"]) > most:
                raise Failure(f"tenant {name}: {len(values['rules'])} rules; allowed are {most}")

    # Writing.

    def commit(self, fill: Callable[[Transaction], None]) -> None:
        """A transaction that 'fill' makes, again while others get in between or the cluster has
        no leader."""
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
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

                try:
                    self.wait(done, "", txn=transaction)
                except TimeoutError:
                    raise Failure(
                        f"{self.remote} has not answered within {self.timeout:g} s, and {UNKNOWN}"
                    ) from None
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(f": {UNKNOWN}") from None
                status = got[0]
            if status in (Transaction.SUCCESS, Transaction.UNCHANGED):
                return
            text = transaction.get_error() or ""
            if status != Transaction.TRY_AGAIN and not any(word in text for word in OVERTAKEN):
                raise Failure(_reason(text) or Transaction.status_to_string(status))
            # Another operator was faster, and what was changed arrives; or a leader is elected.
            self.wait(lambda: True, "")
            time.sleep(0.05)
        raise Failure(
            self._alone()
            or f"others change the policy all the time, for {self.timeout:g} s; try again"
        )

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
            if result and any(
                row.number == result[2] and policy_of(row) == result[1]
                for row in self.rows("Revision")
            ):
                return  # It is made, and the reply was lost.
            if self.staged is not None:
                raise Failure(
                    f"revision {self.staged.number} is being rolled out: first"
                    " acdc-fleetctl rollout resume, or rollout abort"
                )
            before = policy_of(current)
            after = copy.deepcopy(before)
            edit(after)
            self._check(after)
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
            # Without those whose roll-out was aborted: nobody is to go back to them.
            history = [r for r in fleet.history if current is None or r.number <= current.number]
            history = sorted([*history, row], key=lambda r: int(r.number))
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
        row.author = os.environ.get("SUDO_USER") or _user()
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

    def init(self, connections: list[str], relays: list[str], gone: list[str]) -> None:
        """The rows that a new database needs.  In one that has them, only changes listeners."""
        removed: set[str] = set()

        def fill(transaction: Transaction) -> None:
            fleet = next(iter(self.rows("Fleet")), None) or self._first(transaction)
            there = {row.target: row for row in self.rows("Connection")}
            for address in gone:
                if address not in there:
                    if address in removed:
                        continue  # The reply was lost.
                    known = ", ".join(sorted(there)) or "none"
                    raise Failure(f"there is no listener {address}; there are: {known}")
                row = there.pop(address)
                removed.add(address)
                for column in ("connections", "relays"):
                    fleet.verify(column)
                    setattr(fleet, column, [r for r in getattr(fleet, column) if r != row])
            for column, targets, columns in (
                ("connections", connections, {"role": ROLE}),
                ("relays", relays, {"read_only": True}),
            ):
                for address in sorted(set(targets)):
                    if address in there and there[address] not in getattr(fleet, column):
                        raise Failure(f"{address} is there, for the other purpose: --remove it")
                    if address not in there:
                        row = transaction.insert(self.idl.tables["Connection"])
                        row.target, row.inactivity_probe = address, 60000
                        for name, value in columns.items():
                            setattr(row, name, value)
                        fleet.verify(column)
                        setattr(fleet, column, [*getattr(fleet, column), row])

        self.commit(fill)

    def _first(self, transaction: Transaction) -> Any:  # noqa: ANN401
        fleet = transaction.insert(self.idl.tables["Fleet"])
        fleet.id, fleet.connections, fleet.relays = str(uuid.uuid4()), [], []
        revision = self._revision(transaction, 1, "init", [])
        fleet.current, fleet.history = [revision], [revision]
        permission = transaction.insert(self.idl.tables["RBAC_Permission"])
        permission.table, permission.authorization = "Host", ["name"]
        permission.insert_delete, permission.update = True, HOST_COLUMNS
        role = transaction.insert(self.idl.tables["RBAC_Role"])
        role.name, role.permissions = ROLE, {"Host": permission}
        return fleet


def _user() -> str:
    """The number of one who has no name here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _reason(text: str) -> str:
    """Why a transaction was not done."""
    try:
        details = str(json.loads(text)["details"])
    except (ValueError, KeyError):
        details = text
    if "RBAC" in details or "read only" in details.replace("-", " "):
        details = f"{details.rstrip('.')}; changes are made on a server, over its socket"
    return details


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
    if base.min_length and base.max_length == sys.maxsize:
        return "is a string that is not empty"
    if base.max_length != sys.maxsize:
        return f"is a string of {base.min_length} to {base.max_length} characters"
    return f"is a {base.type.to_string()}"
