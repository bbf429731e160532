# SPDX-License-Identifier: Apache-2.0

"""Open vSwitch's two protocols, without a process for each command: OVSDB through the
IDL of python3-openvswitch, and the daemons' control sockets."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ovs.db import error as db_error
from ovs.db.data import Datum
from ovs.db.idl import Idl, Row, SchemaHelper, Transaction
from ovs.db.types import BooleanType, IntegerType, RealType, StringType
from ovs.jsonrpc import Connection, Message
from ovs.poller import Poller
from ovs.stream import Stream

TIMEOUT = 20.0
"""Seconds for a command, as what ovs-vsctl --timeout and ovs-appctl --timeout are given."""

# What is followed.  All columns but statistics, which change every few seconds, are those
# of ACDC and ACDC_Rule.
COLUMNS = {
    "Open_vSwitch": ("bridges", "next_cfg", "cur_cfg", "other_config", "external_ids"),
    "Bridge": ("name", "ports", "datapath_type", "fail_mode", "other_config"),
    "Port": ("name", "interfaces", "qos", "tag", "trunks"),
    "Interface": (
        *("name", "type", "options", "mtu_request", "ofport", "ofport_request"),
        *("other_config", "external_ids", "error"),
    ),
    "QoS": ("type",),
}


class OvsError(RuntimeError):
    """Open vSwitch refused something or has ended; the message is what it said."""


def other_version(missing: KeyError, answer: str = "acdc/show") -> str:
    """What to say where 'answer' of ovs-vswitchd has no such key."""
    return f"{answer} does not have {missing}: ovs-vswitchd is of another version"


def call(path: Path, method: str, *params: Any, timeout: float = TIMEOUT) -> Any:  # noqa: ANN401
    """The result of one JSON-RPC request to a daemon's socket.

    As ovs.unixctl.client does it, but not for ever: a daemon may hang."""
    deadline = int(time.monotonic() * 1000 + timeout * 1000)
    error, stream = Stream.open_block(Stream.open(f"unix:{path}"), int(timeout * 1000))
    if error:
        raise ConnectionError(error, f"{path}: {os.strerror(error)}")
    connection = Connection(stream)
    try:
        error = connection.send(Message.create_request(method, list(params)))
        reply = None
        while not error and not reply:
            connection.run()
            error, reply = connection.recv()
            if error == errno.EAGAIN:
                if time.monotonic() * 1000 > deadline:
                    raise TimeoutError(f"{method}: no answer within {timeout:g} s")
                poller = Poller()
                connection.wait(poller)
                connection.recv_wait(poller)
                poller.timer_wait_until(deadline)
                poller.block()
                error = 0
    finally:
        connection.close()
    if error or reply is None:
        raise ConnectionError(f"{method}: connection closed")
    if reply.error is not None:
        raise OvsError(str(reply.error).strip())
    return reply.result


def listening(path: Path) -> bool:
    """Whether a daemon takes connections there: its socket has a name before it does."""
    error, stream = Stream.open_block(Stream.open(f"unix:{path}"), 1000)
    if not error:
        stream.close()
    return not error


def unixctl(path: Path, command: str, *args: str, timeout: float = TIMEOUT) -> str:
    """What `ovs-appctl -t PATH COMMAND ARGS` prints."""
    return str(call(path, command, *args, timeout=timeout))


def _value(column_type: Any, value: object) -> Any:  # noqa: ANN401
    """'value', as people write it, for a column of that type."""
    if isinstance(value, (list, tuple, set, dict, Row)):
        return value
    if value is None:
        return []
    kind = column_type.key.type
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if kind == BooleanType and text in ("true", "false"):
        return text == "true"
    with contextlib.suppress(ValueError):
        if kind == RealType:
            return float(text)
        if kind == IntegerType:
            return int(text)
    return text if kind == StringType else value


class Change:
    """A transaction in the making (Database.change())."""

    def __init__(self, idl: Any) -> None:  # noqa: ANN401
        self._idl = idl
        self.transaction = Transaction(idl)

    @property
    def root(self) -> Any:  # noqa: ANN401
        """The row of Open_vSwitch."""
        return next(iter(self._idl.tables["Open_vSwitch"].rows.values()))

    def rows(self, table: str) -> list[Any]:
        if table not in self._idl.tables:
            raise OvsError(f"this Open vSwitch has no table {table}: it is not a patched one")
        return list(self._idl.tables[table].rows.values())

    def find(self, table: str, name: str) -> Any | None:  # noqa: ANN401
        return next((row for row in self.rows(table) if row.name == name), None)

    def get(self, table: str, name: str) -> Any:  # noqa: ANN401
        row = self.find(table, name)
        if row is None:
            raise OvsError(f'no row "{name}" in table {table}')
        return row

    def create(self, table: str, **columns: object) -> Any:  # noqa: ANN401
        self.rows(table)
        row = self.transaction.insert(self._idl.tables[table])
        self.set(row, **columns)
        return row

    def set(self, row: Any, **columns: object) -> None:  # noqa: ANN401
        """Columns, and with 'COLUMN:KEY' the values of maps; None takes one away."""
        for name, value in columns.items():
            given = value
            column, _, key = name.partition(":")
            if column not in row._table.columns:
                raise OvsError(f"{row._table.name} has no column {column}")
            column_type = row._table.columns[column].type
            if key:
                values = dict(getattr(row, column, {}))
                values.pop(key, None)
                if value is not None:
                    text = str(value).lower() if isinstance(value, bool) else str(value)
                    values[key] = text
                value = values
            value = _value(column_type, value)
            try:
                # The IDL only logs what a column cannot have.
                Datum.from_python(column_type, value, lambda atom: getattr(atom, "uuid", atom))
            except db_error.Error as error:
                raise OvsError(f"{name}={given}: {error}") from None
            setattr(row, column, value)


class Database:
    """A connection to ovsdb-server at 'path'.  Threads may share it."""

    def __init__(
        self, path: Path, check: Callable[[], None] = lambda: None, timeout: float = TIMEOUT
    ) -> None:
        """'timeout' is in seconds, for each answer."""
        self._lock = threading.RLock()
        self._check = check
        """Raises an error if there is nothing to wait for any more."""
        self._timeout = timeout
        schema = call(path, "get_schema", "Open_vSwitch", timeout=timeout)
        helper = SchemaHelper(schema_json=schema)
        for name, table in schema["tables"].items():
            if name in COLUMNS:
                helper.register_columns(name, [c for c in COLUMNS[name] if c in table["columns"]])
            elif name.startswith("ACDC"):
                columns = [c for c in table["columns"] if c != "statistics"]
                helper.register_columns(name, columns)
        self._idl = Idl(f"unix:{path}", helper)
        self._wait(self._idl.has_ever_connected, "ovsdb-server does not answer")

    def close(self) -> None:
        with self._lock:
            self._idl.close()

    def _wait(self, done: Callable[[], Any], problem: str, txn: Any = None) -> None:
        """Until 'done'.  Every 200 ms it looks whether the daemons still run."""
        deadline = time.monotonic() + self._timeout
        self._idl.run()
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise OvsError(f"{problem} within {self._timeout:g} s")
            poller = Poller()
            self._idl.wait(poller)
            if txn:
                txn.wait(poller)
            poller.timer_wait(200)
            poller.block()
            self._idl.run()

    def _following(self) -> bool:
        """Not while a server that was started again has not been asked yet."""
        return self._idl.state == Idl.IDL_S_MONITORING and self._idl._session.is_connected()

    @contextlib.contextmanager
    def change(self, wait: bool = True) -> Iterator[Change]:
        """A transaction; at its end it is committed, and, with 'wait', ovs-vswitchd has taken it."""
        with self._lock:
            self._idl.run()  # If the connection has ended, the next one finds that.
            self._wait(self._following, "ovsdb-server does not answer")
            change = Change(self._idl)
            try:
                yield change
            except BaseException:
                change.transaction.abort()
                raise
            # As ovs-vsctl: ovs-vswitchd copies next_cfg to cur_cfg when it has done all.
            if wait:
                change.root.increment("next_cfg")
            changed = self._commit(change.transaction)
            if wait and changed:
                wanted = change.transaction.get_increment_new_value()
                self._wait(
                    lambda: change.root.cur_cfg >= wanted, "ovs-vswitchd has not taken the change"
                )

    def _commit(self, transaction: Any) -> bool:
        """Whether anything was to be changed."""
        status = transaction.commit()

        def committed() -> bool:
            nonlocal status
            status = transaction.commit()
            return bool(status != Transaction.INCOMPLETE)

        if status == Transaction.INCOMPLETE:
            self._wait(committed, "ovsdb-server has not answered", txn=transaction)
        if status not in (Transaction.SUCCESS, Transaction.UNCHANGED):
            raise OvsError(transaction.get_error() or Transaction.status_to_string(status))
        return bool(status == Transaction.SUCCESS)

    def initialize(self) -> None:
        """What `ovs-vsctl init` does: the row of Open_vSwitch, in a new database."""
        with self.change(wait=False) as change:
            if not change.rows("Open_vSwitch"):
                # The IDL inserts no row of which nothing was set.
                change.create("Open_vSwitch", next_cfg=0)
        rows = self._idl.tables["Open_vSwitch"].rows
        self._wait(lambda: len(rows), "the row of Open_vSwitch has not come")

    def read(self, table: str, name: str, column: str) -> Any:  # noqa: ANN401
        """The value of a column, at last."""
        with self._lock:
            self._idl.run()
            return getattr(Change(self._idl).get(table, name), column)

    def await_ofport(self, name: str) -> int:
        """The OpenFlow port number of an interface, which ovs-vswitchd sets."""
        with self._lock:

            def found() -> list[Any]:
                rows = self._idl.tables["Interface"].rows.values()
                return [row for row in rows if row.name == name and row.ofport]

            self._wait(found, f"interface {name} has no OpenFlow port")
            row = found()[0]
            if row.ofport == [-1]:
                raise OvsError(f"interface {name}: {' '.join(row.error) or 'it cannot be added'}")
            return int(row.ofport[0])
