# SPDX-License-Identifier: Apache-2.0

"""Connections by TLS."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

from acdc_testlib.fleet import ROOT
from acdc_testlib.netns import Netns

# The server accepts, and answers the first message with RST.
BOTH = """
import socket, struct, time
from acdc_fleet import transport
transport.use_keys("key.pem", "cert.pem", "cert.pem")
server = socket.create_server(("127.0.0.1", 0))
error, stream = transport.Stream.open(f"ssl:127.0.0.1:{server.getsockname()[1]}")
peer = server.accept()[0]
print(stream.connect())
peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
peer.close()
time.sleep(0.1)
print(stream.connect())
"""


def test_a_server_that_goes_away_in_the_middle_of_the_handshake(tmp_path: Path) -> None:
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=x"
    subprocess.run(make.split(), cwd=tmp_path, check=True, capture_output=True)
    ns = Netns()
    try:
        done = subprocess.run(
            ns.command("/usr/bin/python3", "-c", BOTH),
            cwd=tmp_path, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        )  # fmt: skip
    finally:
        ns.close()
    assert [int(error) for error in done.stdout.split()] == [errno.EAGAIN, errno.ENOTCONN]
