# SPDX-License-Identifier: Apache-2.0

"""The captures in docs/wire-format.rst are what ovs-vswitchd sends.  Of what differs from run to
run only the form is compared."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from test_resume import FLAGS, OURS, SHOWN, connect, question

from acdc_scapy import Capability
from acdc_scapy import option as acdc_option
from acdc_testlib.tcp import Option, Segment
from acdc_testlib.wire import Conn, Wire

DOC = Path(__file__).resolve().parents[2] / "docs/wire-format.rst"
DIFFERS = re.compile(r"(?<=cksum 0x)[0-9a-f]+|(?<=seq )\d+|(?<=ack )\d+|(?<=\.)\d{5}(?= >)")


def in_doc(begin: str) -> tuple[str, str]:
    """The paragraph that begins so, and the literal block behind it."""
    paragraph, block = DOC.read_text().split(f"\n\n``{begin}", 1)[1].split("\n\n", 2)[:2]
    return paragraph, " ".join(block.split())


def tcpdump(tmp_path: Path, *segments: Segment) -> str:
    file = tmp_path / "pcap"
    wrpcap(str(file), [Ether(segment.raw) for segment in segments])
    words = ["tcpdump", "-n", "-t", "-S", "-vv", "-r", str(file)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    print(said)
    return " ".join(said.split())


def check(said: str, doc: str) -> None:
    assert DIFFERS.sub("N", said) == DIFFERS.sub("N", doc)


def linux_options(ecr: int) -> Sequence[Option]:
    """Of a SYN or SYN-ACK."""
    return [
        ("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1000, ecr)), ("NOP", None), ("WScale", 7),
    ]  # fmt: skip


def test_handshake(wire: Wire, tmp_path: Path) -> None:
    c = Conn(wire, flags=FLAGS, timestamps=True)
    (syn,) = wire.egress(c.guest_syn(options=linux_options(0), window=64240))
    wire.ingress(c.peer_synack())
    c.established()
    (ack,) = wire.egress(c.from_guest(window=502))
    other = Conn(wire, flags=OURS, timestamps=True, active=False)
    wire.ingress(other.peer_syn())
    (synack,) = wire.egress(other.guest_synack(options=linux_options(1001), window=65160))
    said = tcpdump(tmp_path, syn, synack, ack)
    _, block = in_doc("tcpdump -n -t -S -vv`` on an uplink")
    check(said, block)


def test_question_and_answer(wire: Wire, tmp_path: Path) -> None:
    c = connect(wire, timestamps=True)
    wire.flush()
    c.peer_data(500, reserved=SHOWN)
    (asked,) = wire.egress(c.from_guest())
    number = question(asked)
    # As the far side: another connection, of the same switch.
    d = connect(wire, timestamps=True)
    asks = acdc_option(Capability(flags="NOT_ECT+RESUME+SCALES", zero=number))
    wire.ingress(d.from_peer(options=[asks, *d.timestamp()]))
    (answered,) = d.guest_ack()
    said = tcpdump(tmp_path, asked, answered)
    paragraph, block = in_doc("tcpdump -n -t -S -vv`` of a question")
    match = re.search(r"number 0x([0-9a-f]{4})", paragraph)
    assert match
    check(said, block.replace(match[1], f"{number:04x}"))
