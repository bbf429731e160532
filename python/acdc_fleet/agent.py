# SPDX-License-Identifier: Apache-2.0

"""The agent of a host.

It follows the central database, or a relay of it, and brings the tenants that it owns
(external_ids:acdc-owner=fleet) to what that says, in one transaction.  The local database is
its only memory: while the centre cannot be reached, or the agent does not run, nothing changes.
What it has done it says in the host's row of Host, after a random delay.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ovs.db.idl import Idl, SchemaHelper, Transaction
from ovs.jsonrpc import Message
from ovs.poller import Poller
from ovs.timeval import msec

from . import DATABASE, policy
from .arguments import remotes
from .transport import Failure, TlsStream, call, transact, use_keys

# In column agent of Host.
VERSION = "1"
PROBE_MS = 10000
JITTER_MS = 1000
BACKOFF_MS = 60000
# After cur_cfg ovs-vswitchd writes in another transaction what it could not do.
SETTLE_MS = 200
# After a transaction that failed, as when the disk is full.
RETRY_MS = 10000
# How long ovs-vswitchd may take before it is a problem.
PATIENCE_MS = 5000

FLEET_COLUMNS = {
    "Fleet": ["id", "current", "staged", "stages", "other_config"],
    "Revision": ["number", "tenants"],
    "Group": ["name", "labels"],
    "Host": ["name", "labels", "written", "applied", "problems", "agent"],
    "Tenant": None,
    "Rule": None,
}
LOCAL_COLUMNS = {
    "Open_vSwitch": ["next_cfg", "cur_cfg", "external_ids"],
    "ACDC": None,
    "ACDC_Rule": None,
}
SOUTHBOUND = {
    "name": "OVN_Southbound",
    "tables": {
        "Port_Binding": {
            "columns": {
                "logical_port": {"type": "string"},
                "external_ids": {
                    "type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}
                },
            }
        }
    },
}


def log(text: str) -> None:
    print(f"acdc-agent: {text}", file=sys.stderr, flush=True)


def _number(values: Mapping[str, str], key: str, default: int) -> int:
    """'default', too, if it is not a number that anybody means."""
    text = values.get(key, "")
    return int(text) if text.isdecimal() and len(text) < 10 else default


def _tidy(remotes: str) -> str:
    """Without the blanks that somebody has typed after commas."""
    return ",".join(remotes.replace(",", " ").split())


def relays_first(follow: str, report: str) -> list[str]:
    """The remotes of 'follow', those that are not servers ('report') first; otherwise at random,
    for each to have its share."""
    servers = report.split(",")
    remotes = follow.split(",")
    random.shuffle(remotes)
    return sorted(remotes, key=lambda remote: remote in servers)


class Follower(Idl):
    """A copy of a database."""

    def __init__(
        self, remotes: Sequence[str], schema: Any, columns: dict[str, list[str] | None]  # noqa: ANN401
    ) -> None:
        """Of the first one of 'remotes' that answers.  One may be several, separated by commas, of
        which it is any."""
        remote = ",".join(remotes)
        helper = SchemaHelper(schema_json=schema)
        for table, names in columns.items():
            there = schema["tables"].get(table)
            if there is None:
                raise Failure(f"{remote}: database {schema['name']} has no table {table}")
            names = names or [name for name in there["columns"] if name != "statistics"]
            helper.register_columns(table, [name for name in names if name in there["columns"]])
        super().__init__(remote, helper, probe_interval=PROBE_MS, leader_only=False)
        if len(remotes) > 1:
            # It has shuffled them.
            self._session.remotes[:] = remotes
            self._session.next_remote = 0
            self._session.pick_remote()
        self._version = schema.get("version")
        self._asked: Any = None
        self.outdated = False
        """Whether the database was converted, or has another schema than was thought."""
        self._receive = self._session.recv
        self._session.recv = self._watch

    def _watch(self) -> Any:  # noqa: ANN401
        """What comes.  The IDL does not know that a conversion ends its monitor, nor does it ask
        for the schema again when it connects anew.  What _Server says of it may be old."""
        message = self._receive()
        if message is not None and message.method == "monitor_canceled":
            self.outdated = True
        elif message is not None and self._asked is not None and message.id == self._asked:
            self.outdated |= bool(message.result) and message.result["version"] != self._version
            message = self._watch()
        return message

    def send_request(self, request: Message) -> Any:  # noqa: ANN401
        """What is asked, without column index of _Server.  With it the server tells of every
        commit, with all of the row and so the schema: each of a thousand agents would hear of
        the others' acknowledgements.  The IDL does without: then it follows a server that is
        behind, until that says that it is cut off, and a cluster that was made anew."""
        if request.method == "monitor" and request.params[0] == "_Server":
            for wanted in request.params[2]["Database"]:
                wanted["columns"] = [name for name in wanted["columns"] if name != "index"]
        if request.params[0] == self._db.name and self._version is not None:
            question = Message.create_request("get_schema", [self._db.name])
            self._asked = question.id
            self._session.send(question)
        return super().send_request(request)

    def has_to_send(self) -> bool:
        """Whether run() would send a condition that was changed, which wait() does not know."""
        free = self._session.is_connected() and self._request_id is None
        return bool(self.cond_changed and free)

    @property
    def ready(self) -> bool:
        return bool(self.has_ever_connected())


class Agent:
    def __init__(self, local: str) -> None:
        self.local_remote = local
        self.local: Follower | None = None
        self.centre: Follower | None = None
        self.southbound: Follower | None = None
        self.remotes: dict[str, str] = {}
        self.with_ports = False
        self.transaction: Transaction | None = None
        self.pending = 0  # The revision that 'transaction' writes.
        self.failed: tuple[int, int, str] | None = None
        self.failed_until = 0
        self.problems: list[str] = []
        self.awaited: int | None = None
        """Of next_cfg.  Later ones are others' changes."""
        self.waiting_since = 0
        self.report_at = 0
        self.reported: dict[str, Any] | None = None
        self.backoff = 0
        self.retry_at = 0
        self.seen: tuple[int, ...] = ()
        self.said = ""

    # Connections.

    def say(self, text: str) -> None:
        if text != self.said:
            log(text)
            self.said = text

    def connect(self) -> None:
        """To what the local database says.  Raises ConnectionError if nobody answers."""
        if self.local is not None and self.local.outdated:
            self.local.close()
            self.local = None
            # Of a transaction there nothing more is heard.
            self.transaction, self.seen = None, ()
        if self.local is None:
            schema = call(self.local_remote, "get_schema", "Open_vSwitch")
            columns = dict(LOCAL_COLUMNS)
            if self.with_ports:
                columns["Interface"] = ["external_ids"]
            self.local = Follower([self.local_remote], schema, columns)
            self.local.set_lock("acdc_agent")
        row = self.root()
        if row is None:
            if self.local.is_lock_contended:
                self.say("another acdc-agent of this database runs")
            return
        remotes = {
            key: _tidy(row.external_ids.get(key, ""))
            for key in ("acdc-fleet-remote", "acdc-fleet-report", "ovn-remote")
        } | {"system-id": row.external_ids.get("system-id", "")}
        if remotes != self.remotes:
            self.remotes = remotes
            self.disconnect()
        if self.centre is not None and self.centre.outdated:
            self.disconnect()
            self.retry_at = msec() + random.randrange(100, 500)
            return
        if self.southbound is not None and self.southbound.outdated:
            self.southbound.close()
            self.southbound = None
            self.seen = ()
        if self.centre is None:
            for key in ("acdc-fleet-remote", "system-id"):
                if not remotes[key]:
                    self.say(f"Open_vSwitch external_ids:{key} is not set")
                    return
            wanted = relays_first(remotes["acdc-fleet-remote"], remotes["acdc-fleet-report"])
            schema = call(wanted, "get_schema", DATABASE)
            self.centre = Follower(wanted, schema, FLEET_COLUMNS)
            self.centre.cond_change("Host", [["name", "==", remotes["system-id"]]])

    def disconnect(self) -> None:
        for idl in (self.centre, self.southbound):
            if idl is not None:
                idl.close()
        self.centre = self.southbound = None

    def root(self) -> Any | None:  # noqa: ANN401
        """The row of Open_vSwitch, if no other agent writes there."""
        if self.local is None or not self.local.ready or not self.local.has_lock:
            return None
        return next(iter(self.local.tables["Open_vSwitch"].rows.values()), None)

    def first(self, table: str) -> Any | None:  # noqa: ANN401
        if self.centre is None or not self.centre.ready:
            return None
        return next(iter(self.centre.tables[table].rows.values()), None)

    # Logical ports of OVN.

    def ports(self, tenants: list[Any]) -> dict[str, dict[str, str]] | None:
        """The external_ids of logical ports whose interfaces are here; None: not yet known."""
        if not any(tenant.bind_logical for tenant in tenants):
            return {}
        assert self.local is not None
        if not self.with_ports:
            self.with_ports = True
            self.local.close()
            self.local = None
            return None
        if not self.remotes["ovn-remote"]:
            self.problems.append("external_ids:ovn-remote is not set: no logical ports are known")
            return {}
        rows = self.local.tables["Interface"].rows.values()
        here = sorted({r.external_ids["iface-id"] for r in rows if "iface-id" in r.external_ids})
        if self.southbound is None:
            remotes = [self.remotes["ovn-remote"]]
            self.southbound = Follower(remotes, SOUTHBOUND, {"Port_Binding": None})
        wanted: list[Any] = [["logical_port", "==", name] for name in here] or [False]
        self.southbound.cond_change("Port_Binding", wanted)
        if not self.southbound.ready:
            self.problems.append(f"{self.remotes['ovn-remote']}: no logical ports are known yet")
            return None
        found = self.southbound.tables["Port_Binding"].rows.values()
        return {row.logical_port: row.external_ids for row in found}

    # Copying.

    def update(self) -> None:
        """Brings the local database to what the central one says, if both are there."""
        fleet, root = self.first("Fleet"), self.root()
        self.problems = []
        if root is None or fleet is None or self.local is None:
            return
        own = root.external_ids.get("acdc-fleet")
        if own and own != fleet.id:
            self.problems = [f"this host is of fleet {own}, not of {fleet.id}"]
            self.say(f"{self.problems[0]}: nothing is changed (docs/fleet.rst)")
            return
        host = self.first("Host")
        revision = policy.target(fleet, host.labels if host else {})
        if revision is None:
            return
        ports = self.ports(revision.tenants)
        if ports is None:
            return
        self.problems += policy.errors(self.local)
        transaction = Transaction(self.local)
        copy = policy.Copy(self.local, transaction)
        number = str(revision.number)
        try:
            copy.tenants(revision.tenants, ports)
        except Failure as bad:
            # All or nothing: the host keeps what it had.
            transaction.abort()
            self.problems.append(f"revision {number}: {bad}")
            self.say(self.problems[-1])
            return
        self.problems += copy.problems
        if copy.changed or root.external_ids.get("acdc-revision") != number or not own:
            if self.failed and self.failed[:2] == (revision.number, self.local.change_seqno):
                self.problems.append(self.failed[2])
                transaction.abort()
                return
            root.setkey("external_ids", "acdc-fleet", fleet.id)
            root.setkey("external_ids", "acdc-revision", number)
            root.increment("next_cfg")
            self.transaction, self.pending = transaction, revision.number
        else:
            transaction.abort()

    def commit(self) -> None:
        """Goes on with the transaction."""
        assert self.transaction is not None and self.local is not None
        status = self.transaction.commit()
        if status == Transaction.INCOMPLETE:
            return
        if status in (Transaction.SUCCESS, Transaction.UNCHANGED):
            log(f"revision {self.pending} is in the database")
            self.failed = None
            self.awaited = None
        elif status != Transaction.TRY_AGAIN:
            text = self.transaction.get_error() or Transaction.status_to_string(status)
            with contextlib.suppress(ValueError, IndexError):
                text = text.split('"details": "', 1)[1].split('", "')[0]
            self.failed = (
                self.pending,
                self.local.change_seqno,
                f"revision {self.pending}: {text}",
            )
            self.failed_until = msec() + RETRY_MS
            self.say(self.failed[2])
        self.transaction = None
        self.seen = ()

    # Reports.

    def report(self) -> dict[str, Any] | None:
        """What the row of Host is to say; None as long as that is not known."""
        root, fleet = self.root(), self.first("Fleet")
        if root is None or fleet is None or self.transaction is not None:
            return None
        written = _number(root.external_ids, "acdc-revision", 0)
        if root.external_ids.get("acdc-fleet") != fleet.id:
            written = 0  # It is a number of another fleet.
        host = self.first("Host")
        problems = list(self.problems)
        applied = written
        self.awaited = root.next_cfg if self.awaited is None else self.awaited
        if root.cur_cfg < min(self.awaited, root.next_cfg):
            self.waiting_since = self.waiting_since or msec()
            if msec() < self.waiting_since + PATIENCE_MS:
                return None
            # Another one is.
            applied = host.applied if host else 0
            problems.append("ovs-vswitchd has not taken the revision in the database")
        else:
            self.waiting_since = 0
        return {
            "written": written,
            "applied": applied,
            "problems": sorted(problem[:200] for problem in set(problems))[:16],
            "agent": VERSION,
        }

    def acknowledge(self) -> None:
        """Writes the report, if it is due and says anything new."""
        wanted, host, fleet = self.report(), self.first("Host"), self.first("Fleet")
        if wanted is None or fleet is None:
            self.report_at = 0
            return
        if host and all(policy.plain(getattr(host, k)) == v for k, v in wanted.items()):
            self.report_at = 0
            return
        if not self.report_at:
            jitter = _number(fleet.other_config, "ack-jitter", JITTER_MS)
            # What comes with ports that appear and go is given time to pass.
            later = 1000 if host and host.applied == wanted["applied"] else SETTLE_MS
            if wanted == self.reported:
                # It has not come back yet, or was changed.
                if self.backoff and host:
                    self.say(f"another host reports as {host.name}")
                later = self.backoff = min(max(2000, 2 * self.backoff), BACKOFF_MS)
            self.report_at = msec() + later + random.randrange(jitter + 1)
        if msec() < self.report_at:
            return
        name = self.remotes["system-id"]
        row = wanted | {"problems": ["set", wanted["problems"]]}
        operation: dict[str, Any] = {"op": "insert", "table": "Host", "row": row | {"name": name}}
        if host:
            where = [["name", "==", name]]
            operation = {"op": "update", "table": "Host", "where": where, "row": row}
        remotes = self.remotes["acdc-fleet-report"] or self.remotes["acdc-fleet-remote"]
        try:
            transact(remotes, DATABASE, operation)
            self.backoff = self.backoff if wanted == self.reported else 0
            self.reported = wanted
            self.report_at = 0
        except (ConnectionError, Failure) as error:
            self.say(f"not acknowledged: {error}")
            self.backoff = min(max(1000, 2 * self.backoff), BACKOFF_MS)
            self.report_at = msec() + random.randrange(self.backoff, 2 * self.backoff)

    # The loop.

    def step(self) -> None:
        if self.local is not None:
            self.local.run()
        if msec() >= self.retry_at:
            try:
                self.retry_at = 0
                self.connect()
            except (ConnectionError, Failure) as error:
                self.say(str(error))
                self.retry_at = msec() + random.randrange(1000, 4000)
        # Not the local one again: what came now would wait for connect() and the next event.
        for idl in (self.centre, self.southbound):
            if idl is not None:
                idl.run()
        idls = [idl for idl in (self.local, self.centre, self.southbound) if idl is not None]
        if self.transaction is not None:
            self.commit()
        if self.failed and msec() >= self.failed_until:
            self.failed, self.seen = None, ()
        seen = tuple(idl.change_seqno for idl in idls)
        if self.transaction is None and seen != self.seen:
            self.seen = seen
            self.update()
            if self.transaction is not None:
                self.commit()
        self.acknowledge()
        if TlsStream.why:
            self.say(TlsStream.why)
            TlsStream.why = ""

    def wait(self) -> None:
        poller = Poller()
        for idl in (self.local, self.centre, self.southbound):
            if idl is not None:
                idl.wait(poller)
                if idl.outdated or idl.has_to_send():
                    poller.immediate_wake()
        if self.retry_at:
            poller.timer_wait_until(self.retry_at)
        elif self.local is None:
            poller.immediate_wake()
        if self.transaction is not None:
            self.transaction.wait(poller)
        if self.failed:
            poller.timer_wait_until(self.failed_until)
        if self.report_at:
            poller.timer_wait_until(self.report_at)
        if msec() < self.waiting_since + PATIENCE_MS:
            poller.timer_wait_until(self.waiting_since + PATIENCE_MS)
        poller.block()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="acdc-agent",
        description=(__doc__ or "").split("\n\n")[0]
        + "  It is configured by Open_vSwitch external_ids: system-id, acdc-fleet-remote (what it"
        " follows) and acdc-fleet-report (the servers that it writes to).",
    )
    rundir = os.environ.get("OVS_RUNDIR", "/var/run/openvswitch")
    add = parser.add_argument
    local = f"unix:{rundir}/db.sock"
    add("--db", type=remotes, default=local, help="the local database (%(default)s)")
    add("--private-key", metavar="FILE", help="PEM file of the host's key")
    add("--certificate", metavar="FILE", help="its certificate, whose CN is the system-id")
    add("--ca-cert", metavar="FILE", help="certificate of the authority of the servers'")
    args = parser.parse_args()
    try:
        use_keys(args.private_key, args.certificate, args.ca_cert)
    except Failure as error:
        log(str(error))
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    agent = Agent(args.db)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            agent.step()
            agent.wait()
    return 0
