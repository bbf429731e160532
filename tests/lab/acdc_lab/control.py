# SPDX-License-Identifier: Apache-2.0
"""ovs-vswitchd's control socket, without a process of ovs-appctl for each
command: those are what takes time in the lab's kernel."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any


class Control:
    """One connection; OVS's unixctl speaks JSON-RPC 1.0."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))

    def __call__(self, command: str, *words: str) -> Any:
        request = {"method": command, "params": [*words, "--json"], "id": 0}
        self.socket.sendall(json.dumps(request).encode())
        text = ""
        decoder = json.JSONDecoder()
        while chunk := self.socket.recv(1 << 20):
            text += chunk.decode()
            try:
                reply, _ = decoder.raw_decode(text)
            except json.JSONDecodeError:
                continue
            if reply["error"]:
                raise OSError(f"{command}: {reply['error']}")
            return json.loads(reply["result"])
        raise OSError(f"{command}: the daemon has closed the connection")
