# SPDX-License-Identifier: Apache-2.0

"""What the userspace datapath holds until its time to leave: nothing is lost, and
nothing passes what was sent before it, whatever happens meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from acdc_testlib.tcp import Segment, parse
from acdc_testlib.wire import Conn, Wire, pattern

# The round-trip time that the test makes the switch believe.
RTT = 0.06
# Of each round trip: the ten that may leave at once, and those that wait.
BURST, HELD = 10, 9


def learn(wire: Wire) -> Conn:
    """A connection in slow start whose window is 19 segments, nothing in flight, paced."""
    c = Conn(wire).open()
    c.guest_data(BURST * c.mss)
    time.sleep(RTT)
    for _ in range(BURST):
        c.peer_ack(c.mss)
    assert c.info()["wnd"] == (BURST + HELD) * c.mss
    wire.set(pace=True)
    return c


def send(c: Conn, count: int) -> None:
    """The guest sends that many segments, without waiting for what comes out."""
    for _ in range(count):
        c.wire.guest.send(c.from_guest(pattern(c.guest_sent, c.mss)))
        c.guest_nxt += c.mss


def receive(c: Conn, count: int, seconds: float = 1) -> list[tuple[float, Segment]]:
    """What the network gets of it, and when."""
    got: list[tuple[float, Segment]] = []
    deadline = time.monotonic() + seconds
    while len(got) < count:
        data = c.wire.uplink.receive(deadline - time.monotonic())
        assert data is not None, f"{len(got)} of {count} packets"
        segment = parse(data)
        assert segment is not None
        got.append((time.monotonic(), segment))
    assert c.wire.uplink.receive(0) is None
    return got


def numbers(got: list[tuple[float, Segment]]) -> list[int]:
    return [segment.seq for _, segment in got]


def coverage(wire: Wire, counter: str) -> int:
    return int(wire.ovs.appctl("coverage/read-counter", counter))


def test_data_leaves_evenly_and_in_order(wire: Wire) -> None:
    """Nine packets are held, fewer where the test is slow to send them."""
    for _ in range(20):
        c = learn(wire)
        gap = c.info()["srtt_us"] / 1e6 / (BURST + HELD) / 2
        held = coverage(wire, "acdc_held")
        begin = time.monotonic()
        send(c, BURST + HELD)
        got = receive(c, BURST + HELD)
        held = coverage(wire, "acdc_held") - held
        assert numbers(got) == sorted(numbers(got))
        for i, (when, _) in enumerate(got[BURST:]):
            # The last of the ten leaves at once, the next after a gap, an eighth less at
            # most.
            assert when - begin > (i + 1) * gap * 7 / 8
        assert wire.counters()["paced"] >= held
        if held > HELD / 2:
            return
        wire.reset()
    pytest.fail("nothing is held")


def test_acks_pass(wire: Wire) -> None:
    """Where the test is not too slow to send one while something is held."""
    for _ in range(20):
        c = learn(wire)
        send(c, BURST + HELD)
        wire.guest.send(c.from_guest())
        got = receive(c, BURST + HELD + 1)
        (ack,) = (i for i, (_, segment) in enumerate(got) if not segment.payload)
        if ack < BURST + HELD:
            return
        wire.reset()
    pytest.fail("ACKs come after what was sent before")


def changes() -> dict[str, Callable[[Wire], object]]:
    return {
        "pace off": lambda wire: wire.set(pace=False),
        "tenant changes": lambda wire: wire.set(beta=0.5),
        "flush": lambda wire: wire.flush(),
        "unbound": lambda wire: wire.bind(None),
    }


@pytest.mark.parametrize("change", changes())
def test_what_is_held_leaves_first_when_policy_changes(wire: Wire, change: str) -> None:
    """Until a change came while packets were held, which is on a slow machine not the
    first."""
    early = coverage(wire, "acdc_held_less")
    for _ in range(20):
        c = learn(wire)
        send(c, BURST + HELD)
        changes()[change](wire)
        send(c, 3)
        got = receive(c, BURST + HELD + 3)
        assert numbers(got) == sorted(numbers(got))
        if coverage(wire, "acdc_held_less") > early:
            return
        wire.reset()
    pytest.fail("nothing was held when policy changed")


def test_a_guest_that_goes_on_when_its_port_is_unbound(wire: Wire) -> None:
    """Its packets that are no longer for the engine do not pass those that are held."""
    for _ in range(20):
        c = learn(wire)
        count = 2 * (BURST + HELD)
        send(c, count)
        unbinding = threading.Thread(target=wire.bind, args=(None,))
        unbinding.start()
        while unbinding.is_alive():
            send(c, 1)
            count += 1
            time.sleep(0.0002)
        unbinding.join()
        got = receive(c, count, 5)
        assert numbers(got) == sorted(numbers(got))
        wire.reset()


def test_what_is_held_leaves_before_its_port_goes(wire: Wire) -> None:
    ovs = wire.ovs
    early = coverage(wire, "acdc_held_less")
    for _ in range(20):
        other = Wire(ovs, number=1)
        ovs.bind(other.tenant, other.guest_name)
        try:
            c = learn(other)
            send(c, 2 * (BURST + HELD))
            ovs.del_port(other.guest_name)
            got = receive(c, 2 * (BURST + HELD))
            assert numbers(got) == sorted(numbers(got))
        finally:
            wire.set(pace=False)
            ovs.del_bridge("br1")
            other.close()
        if coverage(wire, "acdc_held_less") > early:
            return
    pytest.fail("nothing was held when the port went")
