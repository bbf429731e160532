# SPDX-License-Identifier: Apache-2.0

"""The other hypervisor's part, done by acdc-check --peer there.  Requests and replies are lines
of JSON on its standard input and output, through ssh or any other command.  It undoes all
when its input ends."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import threading
from typing import IO, Any, NoReturn, Self

from acdc_ovs import OvsError

from .side import Side

VERSION = 1
METHODS = {
    *("about", "open", "send", "received", "bind", "listen", "accept", "counters", "close"),
}
PROBLEMS = (OSError, OvsError, ValueError)


def _follow(requests: IO[str], lines: queue.SimpleQueue[str]) -> None:
    """In a thread of its own, to notice the end also while a request is at work."""
    for line in requests:
        lines.put(line)
    os.kill(os.getpid(), signal.SIGTERM)


def serve(side: Side, requests: IO[str], replies: IO[str]) -> NoReturn:
    """Answers requests until there are no more, and is ended by a signal."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_follow, args=(requests, lines), daemon=True).start()
    print(json.dumps({"acdc-check": VERSION}), file=replies, flush=True)
    while True:
        method, *arguments = json.loads(lines.get())
        try:
            if method not in METHODS:
                raise ValueError(f"no such request: {method}")
            reply = {"result": side.call(method, *arguments)}
        except PROBLEMS as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), file=replies, flush=True)


class Peer:
    """Has the methods of Side, as the other hypervisor does them.  Raises OvsError."""

    def __init__(self, command: list[str], name: str, timeout: float) -> None:
        """'timeout' is for the first answer.  A later one may take several of the other end's."""
        self.name = name
        self._timeout = timeout
        # Ctrl-C is for us: we tell it.
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise OvsError(f"{command[0]}: {error.strerror}") from None
        try:
            hello = self._line()
            if hello.get("acdc-check") != VERSION:
                raise OvsError(f"{name}: {hello}, and not acdc-check --peer of this version")
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._timeout = max(60, 3 * timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It ends when its input does, and has undone all then."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout
        # A reply is one line, and there is one at a time: none is in the buffer.
        if not select.select([self._process.stdout], [], [], self._timeout)[0]:
            raise OvsError(f"{self.name}: no answer of acdc-check --peer in {self._timeout:g} s")
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise OvsError(f"{self.name}: acdc-check --peer ended with status {status}")
        try:
            return dict(json.loads(line))
        except (TypeError, ValueError):
            raise OvsError(f"{self.name}: not acdc-check --peer, but: {line.strip()}") from None

    def start(self, method: str, *arguments: object) -> None:
        """The reply is finish()'s."""
        assert self._process.stdin
        # If it has ended, finish() says with what status.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([method, *arguments]), file=self._process.stdin, flush=True)

    def finish(self) -> Any:  # noqa: ANN401
        reply = self._line()
        if "error" in reply:
            raise OvsError(f"{self.name}: {reply['error']}")
        return reply["result"]

    def finish_quietly(self) -> None:
        """After a failure here, which says more."""
        with contextlib.suppress(OvsError):
            self.finish()

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        self.start(method, *arguments)
        return self.finish()
