# SPDX-License-Identifier: Apache-2.0

"""Connections to database servers: certificates, single requests, columns as plain values."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Sequence
from ssl import SSLError
from typing import Any

from ovs.db import error as db_error
from ovs.db.data import Datum
from ovs.jsonrpc import Connection, Message
from ovs.poller import Poller
from ovs.stream import SSLStream, Stream, TCPStream
from ovs.timeval import msec


class Failure(Exception):
    """What the operator is told."""


def _numeric(suffix: str) -> list[str]:
    """ADDRESS:PORT, of a host that is named as well: what is not IPv4 Open vSwitch's classes take
    for IPv6.  IPv4 first, as Open vSwitch's programs look names up, and as servers listen."""
    host, _, port = suffix.rpartition(":")
    if not host:
        return [suffix]
    found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return [f"[{info[4][0]}]:{port}" for info in found]


def _open(kind: type[Stream], suffix: str, dscp: int) -> Any:  # noqa: ANN401
    """What Python raises Open vSwitch's classes let through.  Here the connection fails."""
    try:
        for address in _numeric(suffix):
            error, sock = kind._open(address, dscp)
            if not error:  # Otherwise there is no way to it.
                break
        return error, sock
    except (OSError, TypeError, ValueError) as failed:
        TlsStream.why = str(failed)
        return errno.EPROTO, None


class TcpStream(TCPStream):
    @staticmethod
    def _open(suffix: str, dscp: int) -> Any:  # noqa: ANN401
        return _open(TCPStream, suffix, dscp)


class TlsStream(SSLStream):
    why = ""
    """What was raised last: an errno would not say that a certificate has expired."""

    @staticmethod
    def _open(suffix: str, dscp: int) -> Any:  # noqa: ANN401
        """Files may be missing, or belong to two certificates while they are replaced."""
        return _open(SSLStream, suffix, dscp)

    def connect(self) -> int:
        """A certificate may be refused, or the server go away in the middle of the handshake."""
        try:
            error: int = super().connect()
        except OSError as failed:
            TlsStream.why = str(failed)
            error = errno.EPROTO if isinstance(failed, SSLError) else failed.errno or errno.EPIPE
        return error


Stream.register_method("tcp", TcpStream)
Stream.register_method("ssl", TlsStream)


def use_keys(private_key: str | None, certificate: str | None, ca_cert: str | None) -> None:
    """For all connections by "ssl:".  The files are read again for each of them."""
    for path in (private_key, certificate, ca_cert):
        if path and not os.access(path, os.R_OK):
            raise Failure(f"{path}: there is no such file that can be read")
    if private_key:
        Stream.ssl_set_private_key_file(private_key)
    if certificate:
        Stream.ssl_set_certificate_file(certificate)
    if ca_cert:
        Stream.ssl_set_ca_cert_file(ca_cert)


def _exchange(connection: Connection, request: Message, deadline: int) -> Message | None:
    error = connection.send(request)
    while not error:
        connection.run()
        error, reply = connection.recv()
        if not error and reply.id == request.id:
            return reply
        if not error and reply.type == Message.T_REQUEST and reply.method == "echo":
            connection.send(Message.create_reply(reply.params, reply.id))
        if error in (0, 11):  # EAGAIN
            if msec() > deadline:
                return None
            poller = Poller()
            connection.wait(poller)
            connection.recv_wait(poller)
            poller.timer_wait_until(deadline + 1)
            poller.block()
            error = connection.get_status()
    return None


def call(
    remotes: str | Sequence[str], method: str, *params: Any, timeout: int = 3000  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """The result of one request to one of 'remotes': of "ssl:10.0.0.1:6641,ssl:..." any, of others
    the first that answers.  'timeout' is in ms, for each of them."""
    addresses = list(remotes)
    if isinstance(remotes, str):
        addresses = remotes.split(",")
        random.shuffle(addresses)
    said = []
    for address in addresses:
        deadline = msec() + timeout
        TlsStream.why = ""
        error, stream = Stream.open_block(Stream.open(address), timeout)
        if error:
            text = TlsStream.why or (os.strerror(error) if error > 0 else "closed")
            TlsStream.why = ""
            said.append(f"{address}: {text}")
            continue
        connection = Connection(stream)
        try:
            reply = _exchange(connection, Message.create_request(method, list(params)), deadline)
        finally:
            connection.close()
        if reply is None:
            said.append(f"{address}: no answer")
        elif reply.error is not None:
            text = reply.error
            said.append(
                f"{address}: {text.get('details', text) if isinstance(text, dict) else text}"
            )
        else:
            return reply.result
    raise ConnectionError("; ".join(said))


def transact(remotes: str, database: str, *operations: dict[str, Any]) -> list[Any]:
    """The results of a transaction, all of whose operations were done."""
    results = call(remotes, "transact", database, *operations)
    for result in results:
        if result and result.get("error"):
            raise Failure(f"{result['error']}: {result.get('details', '')}".rstrip(": "))
    return list(results)


def assign(row: Any, column: str, value: Any) -> None:  # noqa: ANN401
    """Sets a column.  The row alone leaves it as it was if its schema does not allow 'value'."""
    try:
        Datum.from_python(row._table.columns[column].type, value, lambda atom: atom)
    except db_error.Error as bad:
        raise Failure(f"{column}: {bad}") from None
    setattr(row, column, value)


def plain(value: Any) -> Any:  # noqa: ANN401
    """A column's value in a form that can be compared: sets in order."""
    return sorted(value) if isinstance(value, list) else value
