# SPDX-License-Identifier: Apache-2.0

"""Connections by TLS."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from acdc_fleet.transport import TlsStream, call
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


def run_alone(program: str, folder: Path) -> str:
    """What it prints, in a network of its own."""
    ns = Netns()
    try:
        return subprocess.run(
            ns.command("/usr/bin/python3", "-c", program),
            cwd=folder, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        ).stdout  # fmt: skip
    finally:
        ns.close()


def test_a_server_that_goes_away_in_the_middle_of_the_handshake(tmp_path: Path) -> None:
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=x"
    subprocess.run(make.split(), cwd=tmp_path, check=True, capture_output=True)
    said = run_alone(BOTH, tmp_path)
    assert [int(error) for error in said.split()] == [errno.EAGAIN, errno.ENOTCONN]


# Files that are not of one certificate, as while they are replaced, are met by a connection that
# is made anew; then by the IDL.
BROKEN = """
import sys
from acdc_fleet import transport
from ovs.db.idl import Idl, SchemaHelper
transport.use_keys(*(sys.argv[2:] or [None] * 3))
try:
    transport.call(sys.argv[1], "get_schema", "x")
except ConnectionError as error:
    print(error)
schema = {"name": "x", "version": "1.0.0", "tables": {"t": {"columns": {"c": {"type": "string"}}}}}
helper = SchemaHelper(schema_json=schema)
helper.register_all()
Idl(sys.argv[1], helper).run()
"""


CURVE = "-newkey ec -pkeyopt ec_paramgen_curve:P-256"


@pytest.mark.parametrize(
    ("address", "files", "said"),
    [
        ("ssl:127.0.0.1:1", "other.pem cert.pem cert.pem", "key values mismatch"),
        ("ssl:127.0.0.1:1", "key.pem text text", "no certificate or crl found"),
        ("ssl:127.0.0.1:1", "", "cannot be all omitted"),
        ("ssl:127.0.0.1", "key.pem cert.pem cert.pem", "port number must be specified"),
        ("ssl:127.0.0.1:x", "key.pem cert.pem cert.pem", "invalid literal for int()"),
    ],
)
def test_files_and_addresses_that_are_wrong(
    tmp_path: Path, address: str, files: str, said: str
) -> None:
    """They are said, and nothing ends."""
    for key in ("other.pem", "key.pem"):
        make = f"openssl req -x509 -nodes -keyout {key} -out cert.pem -subj /CN=x {CURVE}"
        subprocess.run(make.split(), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "text").write_text("not a certificate")
    done = subprocess.run(
        ["/usr/bin/python3", "-c", BROKEN, address, *files.split()],
        cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{address}: ") and said in done.stdout


def test_what_is_wrong_with_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the IDL's, which has failed just before."""
    monkeypatch.setattr(TlsStream, "why", "certificate has expired")
    with pytest.raises(ConnectionError, match="^tcp:127.0.0.1:1: Connection refused$"):
        call("tcp:127.0.0.1:1", "get_schema", "x")


# The IDL connects in the same way.
NAMED = """
import socket, sys
from acdc_fleet import transport
transport.use_keys("key.pem", "cert.pem", "cert.pem")
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
for kind in ("tcp", "ssl"):
    error, stream = transport.Stream.open(f"{kind}:localhost:{port}")
    print(error or server.accept()[1][0])
    try:
        transport.call(f"{kind}:nowhere.invalid:{port}", "get_schema", "x")
    except ConnectionError as error:
        print(error)
"""


def test_names_of_hosts(tmp_path: Path) -> None:
    make = f"openssl req -x509 -nodes -keyout key.pem -out cert.pem -subj /CN=x {CURVE}"
    subprocess.run(make.split(), cwd=tmp_path, check=True, capture_output=True)
    tcp, no_tcp, tls, no_tls = run_alone(NAMED, tmp_path).splitlines()
    assert (tcp, tls) == ("127.0.0.1", "127.0.0.1")
    for said in (no_tcp, no_tls):
        assert "nowhere.invalid" in said and "name" in said.rpartition(":")[2]


# Both are there; then there is no way to the address of IPv4.
BOTH_FAMILIES = """
import socket
from acdc_fleet import transport
families = ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))
socket.getaddrinfo = lambda *_, **more: [(f, 1, 6, "", (a, 0)) for f, a in families]
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
error, stream = transport.Stream.open_block(transport.Stream.open(f"tcp:both:{port}"), 1000)
print(error or server.accept()[1][0])
families = ((socket.AF_INET6, "::1"), (socket.AF_INET, "192.0.2.1"))
server = socket.create_server(("::1", 0), family=socket.AF_INET6)
port = server.getsockname()[1]
error, stream = transport.Stream.open_block(transport.Stream.open(f"tcp:both:{port}"), 1000)
print(error or server.accept()[1][0])
"""


def test_a_name_of_both_families(tmp_path: Path) -> None:
    """A server listens on IPv4 if it is not told otherwise."""
    assert run_alone(BOTH_FAMILIES, tmp_path).splitlines() == ["127.0.0.1", "::1"]
