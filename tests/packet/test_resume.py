# SPDX-License-Identifier: Apache-2.0

"""A connection that the switch has forgotten, and the peer's has not, is taken up again
(docs/wire-format.rst).  The test is the peer's switch, or asks as one that has forgotten."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acdc_scapy import Capability, State
from acdc_scapy import option as acdc_option
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import (
    ACK,
    CAP_NOT_ECT,
    CAP_RESUME,
    CAP_SCALES,
    CE,
    ECT0,
    EXID,
    KIND,
    NOT_ECT,
    PSH,
    RES_ECN_SHIFT,
    RES_FACK,
    V4,
    V6,
    Encap,
    Option,
    Segment,
)
from acdc_testlib.wire import Conn, Counted, Wire, pattern, same

FLAGS = CAP_NOT_ECT | CAP_RESUME  # Of a version that tells no finer scales.
OURS = FLAGS | CAP_SCALES
SHOWN = CE << RES_ECN_SHIFT  # A Not-ECT guest's packet that its switch has marked.


def bodies(segment: Segment, length: int) -> list[bytes]:
    """What our options of a length say, behind the ExID."""
    return [
        value[2:]
        for kind, value in segment.options
        if kind == KIND and value[:2] == EXID and len(value) == length - 2
    ]


def question(segment: Segment) -> int | None:
    """The number of a question."""
    for version, flags, number in (struct.unpack("!BBH", b) for b in bodies(segment, 8)):
        assert (version, flags) == (1, OURS)
        return int(number)
    return None


def connect(wire: Wire, encap: Encap = V4, **how: Any) -> Conn:
    """A connection that can be taken up again, in the middle of its life."""
    c = Conn(wire, encap, **{"flags": FLAGS, **how}).open()
    for _ in range(3):
        c.guest_data(2000)
        c.peer_ack(reserved=SHOWN)
        c.peer_data(1000, reserved=SHOWN)
        c.guest_ack()
    return c


def ask(c: Conn) -> int:
    """The peer shows that it knows the connection; the guest's next ACK asks."""
    (got,) = c.peer_data(500, reserved=SHOWN)
    assert (got.ecn, got.reserved) == (NOT_ECT, 0)
    sent = c.from_guest()
    (out,) = c.wire.egress(sent)
    same(out, sent, "options")
    number = question(out)
    assert number is not None
    return number


def scales(c: Conn) -> tuple[int, int]:
    """Both ends' or none (RFC 7323)."""
    if c.guest_scale is None or c.peer_scale is None:
        return 0, 0
    return c.guest_scale, c.peer_scale


def state(c: Conn, number: int, **fields: object) -> State:
    """What the peer's switch knows."""
    values: dict[str, object] = {
        "flags": (scales(c) != (0, 0)) | c.sack << 1,
        "own_wscale": scales(c)[0],
        "peer_wscale": scales(c)[1],
        "mss": c.segment_size,
        "number": number,
        "reported_total_bytes": 3000,
        "total_bytes": c.guest_sent,
    }
    return State(**{**values, **fields})


def answer(c: Conn, number: int, **fields: object) -> list[Segment]:
    """The peer's ACK has the state."""
    options = [acdc_option(state(c, number, **fields)), *c.timestamp()]
    return c.wire.ingress(c.from_peer(options=options, reserved=SHOWN))


def check_governed(c: Conn) -> None:
    """As if nothing had been."""
    info = c.info()
    assert info["resumed"] and info["capable"] and info["state"] == "established"
    assert (info["wscale_local"], info["wscale_remote"]) == scales(c)
    assert info["mss"] == c.segment_size
    for out in c.guest_data(3000):
        assert out.ecn == ECT0 and out.reserved & 6 == SHOWN
    (got,) = c.peer_ack(reserved=SHOWN)
    scale = scales(c)[1]
    assert got.window << scale < c.info()["wnd"] + (1 << scale)
    total = c.info()["rx_total"]
    c.peer_data(1000, reserved=SHOWN, ecn=CE)
    (out,) = c.guest_ack()
    assert out.feedback == (1000, total + 1000)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"timestamps": True},
        {"guest_scale": 2, "peer_scale": 9},
        {"guest_scale": None},
        {"active": False, "sack": False},
    ],
    ids=["plain", "timestamps", "scales", "no scale", "passive"],
)
@pytest.mark.parametrize("encap", [V4, V6, Encap(vlans=(10,))], ids=str)
def test_taken_up_again(wire: Wire, encap: Encap, how: dict[str, Any]) -> None:
    c = connect(wire, encap, **how)
    n = Counted(wire)
    wire.flush()
    number = ask(c)
    (got,) = answer(c, number)
    assert not got.payload
    check_governed(c)
    assert n["flows_resumed"] == 1
    assert n["feedback_bad"] == n["cuts_loss"] == 0


@pytest.fixture(params=[signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def restart(request: pytest.FixtureRequest) -> Iterator[tuple[Wire, Callable[[], None]]]:
    """A switch of its own, and what restarts it."""
    if datapath_type() == "system":
        pytest.skip("the kernel keeps the state")
    with Ovs() as ovs:
        wire = Wire(ovs)
        wire.reset()

        def act() -> None:
            ovs.restart_vswitchd(request.param)
            ovs.connect("br0", wire.guest_name, wire.uplink_name)

        yield wire, act


def test_restart(restart: tuple[Wire, Callable[[], None]]) -> None:
    wire, act = restart
    conns = [connect(wire, ip, timestamps=ts) for ip in (V4, V6) for ts in (False, True)]
    act()
    assert not wire.flows()
    for c in conns:
        answer(c, ask(c))
        check_governed(c)
    # Once more, with connections that were taken up before.
    act()
    for c in conns:
        answer(c, ask(c), reported_total_bytes=0)
        assert c.info()["resumed"]


def test_bound_while_connections_run(unbound: Wire) -> None:
    """The far end knows the connection from where the guest was before."""
    c = Conn(unbound, flags=FLAGS)
    c.established()
    unbound.bind("blue")
    answer(c, ask(c), reported_total_bytes=0)
    check_governed(c)


def test_both_have_forgotten(wire: Wire, encap: Encap) -> None:
    c = connect(wire, encap)
    wire.flush()
    n = Counted(wire)
    for _ in range(5):
        sent = c.from_guest(pattern(0, 700))
        (out,) = wire.egress(sent)
        assert out.raw == sent
        came = c.from_peer(pattern(0, 700), ecn=CE)
        (got,) = wire.ingress(came)
        assert got.raw == came
    assert not c.tracked
    assert n["untouched_midstream"] == 10


def test_three_questions_at_most(wire: Wire) -> None:
    """A peer of the first version knows no questions; nothing else changes for it."""
    c = connect(wire, flags=0)
    wire.flush()
    asked = []
    begin = time.monotonic()
    while time.monotonic() < begin + 5:
        (got,) = c.peer_data(100, fb=(0, 6000), reserved=0)
        assert not got.has_acdc
        sent = c.from_guest()
        (out,) = wire.egress(sent)
        if question(out) is None:
            assert out.raw == sent
        else:
            asked.append(time.monotonic() - begin)
        time.sleep(0.02)
    assert len(asked) == 3
    assert asked[1] - asked[0] >= 0.19 and asked[2] - asked[1] >= 0.79
    assert c.info()["state"] == "unknown" and not c.info()["capable"]
    assert c.info()["in_flight"] == 0  # No ACK of this guest's data was looked at.


def test_question_before_data(wire: Wire) -> None:
    """Data that may not grow is preceded by a FACK; small data has the question."""
    c = connect(wire)
    wire.flush()
    c.peer_data(500, reserved=SHOWN)
    fack, data = c.guest_data(c.segment_size)
    assert fack.fack and not fack.payload and question(fack) is not None
    assert bodies(fack, 12) == [bytes(8)]
    assert len(data.payload) == c.segment_size and not data.has_acdc
    wire.flush()
    c.peer_data(500, reserved=SHOWN)
    (data,) = c.guest_data(400, flags=ACK | PSH)
    number = question(data)
    assert number is not None
    # The answer comes as a FACK, too.
    options = [acdc_option(state(c, number))]
    assert wire.ingress(c.from_peer(options=options, reserved=RES_FACK)) == []
    check_governed(c)


def asks(c: Conn, number: int = 0x1234) -> list[Option]:
    return [acdc_option(Capability(flags="NOT_ECT+RESUME", zero=number)), *c.timestamp()]


@pytest.mark.parametrize("timestamps", [False, True])
@pytest.mark.parametrize("ip", [V4, V6], ids=str)
def test_answer(wire: Wire, ip: Encap, timestamps: bool) -> None:
    """The peer's switch has forgotten: it is told, on an ACK."""
    c = connect(wire, ip, timestamps=timestamps, guest_scale=3, peer_scale=8)
    info = c.info()
    (got,) = wire.ingress(c.from_peer(options=asks(c)))
    assert not got.payload
    (out, *more) = c.guest_ack()
    assert not more
    (body,) = bodies(out, 28)
    told = State(EXID + body)
    assert told.flags == "SCALES+SACK"
    assert (told.own_wscale, told.peer_wscale) == (8, 3)
    assert (told.mss, told.number, told.beyond) == (c.segment_size, 0x1234, 0)
    assert (told.reported_ecn_bytes, told.reported_total_bytes) == (0, 6000)
    assert (told.ecn_bytes, told.total_bytes) == (info["rx_ce"], info["rx_total"])
    (out,) = c.guest_ack()
    assert not bodies(out, 28), "once"


def test_answer_before_data(wire: Wire) -> None:
    """With full options or a full segment it is a packet of its own."""
    c = connect(wire)
    wire.ingress(c.from_peer(options=asks(c)))
    fack, *data = c.guest_data(c.segment_size)
    assert fack.fack and len(bodies(fack, 28)) == 1 and fack.seq == data[-1].seq
    c.peer_ack(reserved=SHOWN)
    wire.ingress(c.from_peer(options=asks(c)))
    sack = ("SAck", tuple(c.peer_nxt + i * 1000 for i in range(1, 7)))
    fack, *rest = c.guest_ack(options=[("NOP", None), ("NOP", None), sack])
    assert fack.fack and len(bodies(fack, 28)) == 1
    assert all(len(segment.payload) == 0 for segment in rest)


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 1},
        {"seq": 1 << 24},
        {"ack": 1 << 24},
        {"ack": -(1 << 24) - 1000},
        {"bad": True},
        {"length": 24},
    ],
    ids=["number", "seq", "not sent", "ack", "checksum", "length"],
)
def test_outsider_plants_no_state(wire: Wire, wrong: dict[str, int]) -> None:
    c = connect(wire)
    wire.flush()
    number = ask(c)
    told = state(c, number + wrong.get("number", 0), own_wscale=14, peer_wscale=14)
    kind, value = acdc_option(told)
    came = c.from_peer(
        options=[(kind, value[: wrong.get("length", 28) - 2])],
        seq=c.peer_nxt + wrong.get("seq", 0),
        ack=c.guest_nxt + wrong.get("ack", 0),
    )
    if "bad" in wrong:
        came = came[:-1] + bytes([came[-1] ^ 1])
    (got,) = wire.ingress(came, bad_checksum="bad" in wrong)
    assert not got.has_acdc
    assert c.info()["state"] == "asking"
    answer(c, number)
    check_governed(c)


@pytest.mark.parametrize("lost", [False, True], ids=["known", "asking"])
def test_guest_forges_nothing(wire: Wire, lost: bool) -> None:
    """Questions and states of a guest are taken off, whatever the switch knows."""
    c = connect(wire)
    if lost:
        wire.flush()
        ask(c)
    n = Counted(wire)
    forged: list[list[Option]] = [
        asks(c),
        [acdc_option(state(c, 1))],
        [(KIND, EXID + bytes(18))],
        [("NOP", None), (KIND, EXID + bytes(23))],
    ]
    for options in forged:
        for out in wire.egress(c.from_guest(options=options, reserved=RES_FACK)):
            assert not bodies(out, 28) and not bodies(out, 22) and not bodies(out, 27)
            assert not out.fack
            assert question(out) != 0x1234
    assert n["forged"] == len(forged)


@pytest.mark.parametrize(
    "wrong", [{"seq": 1 << 24}, {"ack": 1}, {"ack": -(1 << 24) - 1000}], ids=str
)
def test_outsider_gets_no_answer(wire: Wire, wrong: dict[str, int]) -> None:
    c = connect(wire)
    wire.ingress(
        c.from_peer(
            options=asks(c),
            seq=c.peer_nxt + wrong.get("seq", 0),
            ack=c.guest_nxt + wrong.get("ack", 0),
        )
    )
    (out,) = c.guest_ack()
    assert not bodies(out, 28)


@pytest.mark.parametrize("flags", [0, 1], ids=["first version", "without RESUME"])
def test_no_answer_without_the_flag(wire: Wire, flags: int) -> None:
    c = connect(wire, flags=flags)
    wire.ingress(c.from_peer(options=asks(c)))
    (out,) = c.guest_ack()
    assert not bodies(out, 28) and out.feedback is not None


@pytest.mark.parametrize(
    ("active", "guest_scale", "peer_scale", "resumable"),
    [
        (False, 7, 7, True),
        (False, 12, 7, False),
        (False, 7, 12, False),
        (True, 7, 12, True),
    ],
)
def test_scales_that_are_told_as_they_are(
    wire: Wire, active: bool, guest_scale: int, peer_scale: int, resumable: bool
) -> None:
    """RESUME on a SYN-ACK says that no guest is told a finer scale; who gets it keeps to
    that."""
    c = Conn(wire, flags=FLAGS, active=active, guest_scale=guest_scale, peer_scale=peer_scale)
    if active:
        (syn,) = wire.egress(c.guest_syn())
        assert syn.capability == bytes([1, OURS, 0, 0])
        (synack,) = wire.ingress(c.peer_synack())
        assert synack.wscale == peer_scale
    else:
        wire.ingress(c.peer_syn())
        (synack,) = wire.egress(c.guest_synack())
        assert synack.capability == bytes([1, FLAGS if resumable else 1, 0, 0])


def test_finer_scales_are_told(wire: Wire) -> None:
    """Who listens says in the SYN-ACK what its guest was told, and what the other one is to
    be told; in its answer both again.  Not to a version that does not know that."""
    c = Conn(wire, flags=OURS, active=False, guest_scale=12, peer_scale=13)
    (syn,) = wire.ingress(c.peer_syn())
    assert syn.wscale == 10
    (synack,) = wire.egress(c.guest_synack())
    assert synack.wscale == 12
    assert synack.capability == bytes([1, OURS, 10 << 4 | 10, 0])
    c.established()
    wire.ingress(c.from_peer(reserved=SHOWN))
    wire.ingress(c.from_peer(options=asks(c)))
    assert not bodies(c.guest_ack()[0], 28)
    question_of_now = acdc_option(Capability(flags="NOT_ECT+RESUME+SCALES", zero=0x1234))
    wire.ingress(c.from_peer(options=[question_of_now]))
    (body,) = bodies(c.guest_ack()[0], 28)
    told = State(EXID + body)
    assert told.flags == "SCALES+SACK+TOLD"
    assert (told.own_wscale, told.peer_wscale, told.beyond) == (13, 12, 0xAA00)


def test_finer_scales_that_are_told(wire: Wire) -> None:
    """Who connects tells its guest what the SYN-ACK says, also if that is finer than need
    be; when it has forgotten it learns that again."""
    c = Conn(wire, flags=OURS, guest_scale=12, peer_scale=13)
    wire.egress(c.guest_syn())
    told = acdc_option(Capability(flags="NOT_ECT+RESUME+SCALES", zero=0xA900))
    (synack,) = wire.ingress(c.peer_synack(options=[*c.syn_options(13), told]))
    assert synack.wscale == 9
    c.established()
    c.guest_ack()
    wire.flush()
    number = ask(c)
    answer(c, number, flags="SCALES+SACK+TOLD", beyond=0xA900, reported_total_bytes=0)
    info = c.info()
    assert (info["resumed"], info["wscale_local"], info["wscale_remote"]) == (True, 12, 13)
    (got,) = wire.ingress(c.from_peer(reserved=SHOWN))
    assert info["wnd"] <= got.window << 9 < info["wnd"] + (1 << 9)


def test_marks_until_then(wire: Wire) -> None:
    """They are hidden and in the first report."""
    c = connect(wire, guest_ecn=True)
    wire.flush()
    n = Counted(wire)
    for noted, own in ((CE, NOT_ECT), (ECT0, ECT0), (1, 1)):
        (got,) = c.peer_data(300, reserved=noted << RES_ECN_SHIFT, ecn=CE)
        assert (got.ecn, got.reserved) == (own, 0)
    (got,) = c.peer_data(300, ecn=ECT0)
    assert got.ecn == ECT0
    assert n["ce_bytes"] == 900
    (out,) = c.guest_ack()
    number = question(out)
    assert number is not None
    answer(c, number, flags="SCALES+SACK+ECN_SYN+GUEST_ECN", reported_ecn_bytes=7)
    (out,) = c.guest_ack()
    assert out.feedback == (907, 3000 + 1200)


def test_eviction(wire: Wire) -> None:
    """A full table forgets who pauses; the next packet brings it back."""
    wire.flush()
    c = connect(wire)
    wire.flush()
    wire.set_global("acdc-max-flows", 5)
    others = [Conn(wire, flags=FLAGS).open() for _ in range(5)]
    c.peer_data(500, reserved=SHOWN)
    assert not c.tracked, "the table is full of others that are at work"
    wire.set_global("acdc-max-flows", 50)
    answer(c, ask(c))
    check_governed(c)
    assert all(other.tracked for other in others)
