# SPDX-License-Identifier: Apache-2.0

"""The tenants that a host is to have, and bringing its database to that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .transport import Failure, assign, plain

OWNER = "acdc-owner"
# Of a local tenant, what is not policy, and what is done by itself.
LOCAL = {"name", "rules", "status", "statistics", "external_ids"}
RULE_LOCAL = {"external_ids"}

Ports = Mapping[str, Mapping[str, str]]
"""The external_ids of logical ports."""


def target(fleet: Any, labels: Mapping[str, str]) -> Any | None:  # noqa: ANN401
    """The revision for a host with those labels."""
    if fleet.staged and any(matches(group, labels) for group in fleet.stages):
        return fleet.staged[0]
    return fleet.current[0] if fleet.current else None


def matches(group: Any, labels: Mapping[str, str]) -> bool:  # noqa: ANN401
    """Whether a host is in a group: it has all labels of it.  None is in a group without."""
    return bool(group.labels) and group.labels.items() <= labels.items()


def selectors(tenant: Any, ports: Ports) -> list[str]:  # noqa: ANN401
    """Column bind: that of 'tenant', and the logical ports here that it selects."""
    own = set(tenant.bind)
    for selector in tenant.bind_logical:
        key, _, value = selector.partition("=")
        own |= {f"iface-id={port}" for port, ids in ports.items() if ids.get(key) == value}
    return sorted(own)


def _differs(row: Any, column: str, value: Any) -> bool:  # noqa: ANN401
    return bool(plain(getattr(row, column)) != plain(value))


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps({name: plain(value) for name, value in values.items()}, sort_keys=True)


class Copy:
    """One pass over the local database: what must change goes into 'transaction'."""

    def __init__(self, local: Any, transaction: Any) -> None:  # noqa: ANN401
        self.tables = local.tables
        self.transaction = transaction
        self.changed = False
        self.problems: list[str] = []

    def _columns(self, row: Any, table: str, without: set[str]) -> dict[str, Any]:  # noqa: ANN401
        """Of a central row, the values that 'table' has columns for."""
        names = set(row._table.columns) - without - {"bind_logical"}
        here = set(self.tables[table].columns)
        for name in sorted(names - here):
            if getattr(row, name):
                self.problems.append(f"this Open vSwitch has no column {name} in {table}")
        return {name: getattr(row, name) for name in sorted(names & here)}

    def _set(self, row: Any, values: Mapping[str, Any], new: bool) -> None:  # noqa: ANN401
        for name, value in values.items():
            # What is not set has its default in a new row.
            if (new and value not in ([], {}, "")) or (not new and _differs(row, name, value)):
                assign(row, name, value)
                self.changed = True

    def _rules(self, there: Any, here: Any | None) -> list[Any] | None:  # noqa: ANN401
        """Rows for the rules of a tenant, None if they are as they should be."""
        wanted = [self._columns(rule, "ACDC_Rule", RULE_LOCAL) for rule in there.rules]
        has = list(here.rules) if here is not None else []
        names = list(wanted[0]) if wanted else []
        left: dict[str, list[Any]] = {}
        for row in has:
            left.setdefault(_key({n: getattr(row, n) for n in names}), []).append(row)
        rows = []
        for values in wanted:
            if same := left.get(_key(values)):
                rows.append(same.pop())
                continue
            row = self.transaction.insert(self.tables["ACDC_Rule"])
            self._set(row, values, new=True)
            if not any(values.values()):  # The IDL inserts no row of which nothing was set.
                row.priority = 0
            rows.append(row)
        unchanged = len(rows) == len(has) and not any(left.values())
        return None if unchanged else rows

    def _tenant(self, there: Any, here: Any | None, ports: Ports) -> None:  # noqa: ANN401
        values = self._columns(there, "ACDC", LOCAL)
        if "bind" in values:
            values["bind"] = selectors(there, ports)
        rules = self._rules(there, here)
        new = here is None
        if here is None:
            here = self.transaction.insert(self.tables["ACDC"])
            here.name = there.name
            here.external_ids = {OWNER: "fleet"}
            self.changed = True
        self._set(here, values, new)
        if rules is not None:
            here.rules = rules
            self.changed = True

    def tenants(self, wanted: Iterable[Any], ports: Ports) -> None:
        """Raises Failure if this database cannot have one of them."""
        has = {row.name: row for row in self.tables["ACDC"].rows.values()}
        names = set()
        for there in wanted:
            names.add(there.name)
            here = has.get(there.name)
            if here is not None and here.external_ids.get(OWNER) != "fleet":
                self.problems.append(f"tenant {there.name}: one made by hand is here, and stays")
                continue
            try:
                self._tenant(there, here, ports)
            except Failure as bad:
                raise Failure(f"tenant {there.name}: {bad}") from None
        for name, row in has.items():
            if name not in names and row.external_ids.get(OWNER) == "fleet":
                row.delete()
                self.changed = True


def errors(local: Any) -> list[str]:  # noqa: ANN401
    """What ovs-vswitchd says of the fleet's tenants."""
    return [
        f"tenant {row.name}: {row.status['error']}"
        for row in local.tables["ACDC"].rows.values()
        if row.external_ids.get(OWNER) == "fleet" and "error" in row.status
    ]
