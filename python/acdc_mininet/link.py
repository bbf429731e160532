# SPDX-License-Identifier: Apache-2.0

"""Links with a rate and a marking queue in both directions, as between the
ports of a switch that supports ECN.

Where the kernel has sch_red the queue is htb and red on the device itself.
Elsewhere it is htb and the BPF program mark.bpf.c.  That one cannot live on a
port of Open vSwitch, which removes qdiscs that it did not make, so it gets a
namespace in the middle of the cable, with a device pair p-q for the rate:

    node1 --- a  [enqueue -> p]   p === q   [dequeue -> b]  b --- node2

and the same from right to left, so the rate of each direction is htb on p or
on q."""

from __future__ import annotations

import functools
import itertools
import json
import math
import struct
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.link import Link
from mininet.node import Node

from .isolation import RUN, mount_bpffs

FRAME = 1514
"""Bytes of a full Ethernet frame, as qdiscs count it: without preamble and FCS."""


@dataclass(frozen=True)
class Queue:
    """An output queue.  The defaults are those of the quick start."""

    rate: int = 100_000_000
    """Bit/s."""
    k: int = 40 * FRAME
    """Bytes above which ECT packets are marked: 4.8 ms of 100 Mbit/s, room for
    the pauses of a datapath in userspace on a shared CPU.  (65 packets at
    10 Gbit/s, 20 at 1 Gbit/s: the DCTCP commit in Linux, RFC 8257 4.1.)
    0: none are marked (with red)."""
    limit: int = 600_000
    """Bytes of buffer: 48 ms of 100 Mbit/s."""
    drop_not_ect: bool = False
    """Above k drop what is not ECT, as RED does, instead of queueing it."""
    frame: int = FRAME
    """Bytes of a full frame of this link."""
    burst: int = 5
    """Frames that may leave at once, which makes up for timers that are late;
    1 where none is, as in virtual time."""
    delay: float = 0
    """Seconds that each packet waits here, for want of a longer cable (netem;
    with it there is no marking)."""
    jitter: float = 0
    """Seconds by which that is longer or shorter, at random; packets stay in order."""
    late: float = 0
    """Percent of the packets that wait here, at random for up to 'late_by', while the
    others overtake them (netem; without 'delay')."""
    late_by: float = 0
    """Seconds."""
    loss: float = 0
    """Percent of the packets with data that are lost at random (netem; without 'delay')."""
    fq: bool = False
    """Instead of all that: packets leave at the times that they have."""


@dataclass(frozen=True)
class QueueState:
    """What a queue counted since it was made."""

    queue: int
    max_queue: int
    packets: int
    bytes: int
    marks: int
    drops: int


class QueueError(RuntimeError):
    """A program that sets a queue up or reads it failed."""


def run(*argv: str | Path) -> str:
    words = [str(arg) for arg in argv]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise QueueError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def run_in(node: Node, *argv: str | Path) -> str:
    """As run(), in the namespaces of 'node'."""
    words = [str(arg) for arg in argv]
    out, err, status = node.pexec(words)
    if status != 0:
        raise QueueError(f"{node.name}: {' '.join(words)}: {err.strip() or out.strip()}")
    return out


def batch_in(node: Node, tool: str, lines: Sequence[str]) -> None:
    """'lines' for 'ip -batch' or 'tc -batch' in the namespaces of 'node'."""
    process = node.popen([tool, "-batch", "-"], stdin=subprocess.PIPE, text=True)
    out, err = process.communicate("".join(f"{line}\n" for line in lines))
    if process.returncode != 0:
        raise QueueError(f"{node.name}: {tool}: {err.strip() or out.strip()}")


@functools.cache
def has_red() -> bool:
    """Whether this kernel has sch_red, tried on a device made for it."""
    add = ["ip", "link", "add", "acdc-try0", "type", "veth", "peer", "name", "acdc-try1"]
    run("unshare", "--net", *add)  # So that what fails below is red.
    red = "tc qdisc add dev acdc-try0 root red limit 100000 avpkt 1000 min 10000 max 10001 burst 10"
    script = f"{' '.join(add)} && {red}"
    return (
        subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True).returncode
        == 0
    )


def htb_lines(device: str, queue: Queue) -> list[str]:
    """For 'tc -batch': packets leave 'device' at the rate of 'queue'."""
    burst = queue.burst * queue.frame
    return [
        f"qdisc replace dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {queue.rate}bit "
        f"burst {burst} cburst {burst} quantum {queue.frame}",
    ]


def queue_lines(device: str, queue: Queue) -> list[str]:
    """For 'tc -batch': 'queue' at the output of 'device'."""
    if queue.fq:
        # Its default slack is that of several packets, and its limit of a flow that of
        # less than a large window.
        limit = "limit 1000000 flow_limit 1000000"
        return [f"qdisc replace dev {device} root fq {limit} nopacing timer_slack 0"]
    leaf = f"qdisc add dev {device} parent 1:1 handle 10:"
    if queue.delay:
        leaf += f" netem limit 100000 delay {queue.delay * 1e6:g}us"
        if queue.jitter:
            # With a rate, which here is too high to matter, netem keeps the order.
            leaf += f" {queue.jitter * 1e6:g}us rate {10 * queue.rate}bit"
    elif queue.late:
        half = f"{queue.late_by / 2 * 1e6:g}us"
        leaf += f" netem limit 100000 delay {half} {half} reorder {100 - queue.late:g}%"
    elif queue.loss:
        leaf += f" netem limit 100000 loss {queue.loss:g}%"
    elif queue.k:
        # A step at K.  The shortest average that tc accepts, of K in whole packets:
        # half of it is the present.  The bandwidth, by which it ages while the queue
        # is empty, is 32 bits of bytes a second in tc.
        bandwidth = min(queue.rate, 8 * 0xFFFFFFFF)
        burst = max(round(queue.k / queue.frame), 1)
        leaf += (
            f" red limit {queue.limit} min {queue.k} max {queue.k + 1}"
            f" avpkt {math.ceil(queue.k / burst)} burst {burst} bandwidth {bandwidth}bit"
            f" probability 1 ecn{'' if queue.drop_not_ect else ' nodrop'}"
        )
    else:
        leaf += f" bfifo limit {queue.limit}"
    return [*htb_lines(device, queue), leaf, *(_spare_small(device, queue) if queue.loss else [])]


def _spare_small(device: str, queue: Queue) -> list[str]:
    """For 'tc -batch': packets of less than 128 bytes, which are those without data, are not
    lost."""
    small = f"filter add dev {device} parent 1: protocol"
    return [
        f"class add dev {device} parent 1: classid 1:2 htb rate {queue.rate}bit",
        f"{small} ip prio 1 u32 match u16 0 0xff80 at 2 flowid 1:2",
        f"{small} ipv6 prio 2 u32 match u16 0 0xff80 at 4 flowid 1:2",
    ]


def _read_leaf(node: Node, device: str) -> dict[str, Any]:
    """What tc says of the qdisc in the htb of 'device'."""
    text = run_in(node, "tc", "-s", "-j", "qdisc", "show", "dev", device)
    qdiscs: list[dict[str, Any]] = json.loads(text)
    return next(q for q in qdiscs if q.get("parent") == "1:1")


class RedQueue:
    """htb and red on 'device' of 'node': marks by step, at K."""

    def __init__(self, node: Node, device: str, queue: Queue) -> None:
        self._node, self._device = node, device
        self.queue = queue
        self._max = 0
        batch_in(node, "tc", queue_lines(device, queue))

    def read(self) -> QueueState:
        leaf = _read_leaf(self._node, self._device)
        self._max = max(self._max, leaf["backlog"])
        return QueueState(
            queue=leaf["backlog"],
            max_queue=self._max,
            packets=leaf["packets"],
            bytes=leaf["bytes"],
            marks=leaf.get("marked", 0),
            drops=leaf["drops"],
        )

    def backlog(self) -> int:
        """Bytes that wait now, as the kernel counts them."""
        return int(_read_leaf(self._node, self._device)["backlog"])

    def close(self) -> None:
        """It goes with its device."""


@functools.cache
def _object() -> Path:
    """mark.bpf.c, compiled."""
    source = Path(__file__).with_name("mark.bpf.c")
    target = RUN / "mark.bpf.o"
    include = f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    run("clang", "-O2", "-g", "-target", "bpf", f"-I{include}", "-c", source, "-o", target)
    return target


class BpfQueue:
    """mark.bpf.c between 'enqueue' and 'dequeue' of 'node', both (device whose
    ingress it is on, device where it sends)."""

    _numbers = itertools.count()

    def __init__(
        self, node: Node, queue: Queue, enqueue: tuple[str, str], dequeue: tuple[str, str]
    ) -> None:
        self.queue = queue
        self._node, self._device = node, enqueue[1]
        self._dir = mount_bpffs() / f"queue{next(self._numbers)}"
        programs, maps = self._dir / "programs", self._dir / "maps"
        self._dir.mkdir()
        run("bpftool", "prog", "loadall", _object(), programs, "pinmaps", maps)
        self._state = maps / "acdc_state"
        # Longer than the limit: only the program drops.
        fifo = f"qdisc add dev {enqueue[1]} parent 1:1 pfifo limit 1000000"
        batch_in(node, "tc", [*htb_lines(enqueue[1], queue), fifo])
        config = struct.pack(
            "=5I",
            _ifindex(node, enqueue[1]),
            _ifindex(node, dequeue[1]),
            queue.k,
            queue.limit,
            queue.drop_not_ect,
        )
        run(
            *("bpftool", "map", "update", "pinned", maps / "acdc_config", "key", "hex"),
            *("00", "00", "00", "00", "value", "hex", *(f"{byte:02x}" for byte in config)),
        )
        for name, device in (("dequeue", dequeue[0]), ("enqueue", enqueue[0])):
            run_in(node, "tc", "qdisc", "replace", "dev", device, "clsact")
            run_in(
                *(node, "tc", "filter", "add", "dev", device, "ingress", "bpf"),
                *("direct-action", "object-pinned", programs / f"acdc_{name}"),
            )

    def read(self) -> QueueState:
        dump = json.loads(run("bpftool", "-j", "map", "dump", "pinned", self._state))
        raw = bytes(int(byte, 16) for byte in dump[0]["value"])
        return QueueState(*struct.unpack("=6Q", raw[:48]))

    def backlog(self) -> int:
        """Bytes that wait now, as the kernel counts them, not the program."""
        return int(_read_leaf(self._node, self._device)["backlog"])

    def close(self) -> None:
        for path in self._dir.glob("*/*"):
            path.unlink()


def _ifindex(node: Node, device: str) -> int:
    links: list[dict[str, Any]] = json.loads(run_in(node, "ip", "-j", "link", "show", device))
    return int(links[0]["ifindex"])


LACKS = {"red": ["fq"], "bpf": ["delay", "jitter", "late", "loss", "fq"]}


class MarkingLink(Link):
    """A Mininet link with 'queue' from node1 to node2 and 'back' (the same if
    None) from node2 to node1.  'marker' is red or bpf; None takes red if the
    kernel has it."""

    _numbers = itertools.count()

    def __init__(
        self,
        node1: Node,
        node2: Node,
        queue: Queue | None = None,
        back: Queue | None = None,
        marker: str | None = None,
        mtu: int = 1500,
        **params: Any,  # noqa: ANN401
    ) -> None:
        self.mtu = mtu
        self.marker = marker or ("red" if has_red() else "bpf")
        self.own_qdiscs = self.marker == "red"
        """Whether ovs-vswitchd is to leave them alone."""
        queue = queue or Queue()
        back = back or queue
        for name in LACKS[self.marker]:
            if getattr(queue, name) or getattr(back, name):
                raise QueueError(f"a MarkingLink of {self.marker} has no {name}")
        self._wire: Node | None = None
        if self.marker == "bpf":
            mount_bpffs()  # Before the namespace, which copies the mounts.
            self._wire = Node(f"wire{next(self._numbers)}", inNamespace=True)
        super().__init__(node1, node2, **params)
        if self._wire is None and mtu != 1500:
            for intf in (self.intf1, self.intf2):
                run_in(intf.node, "ip", "link", "set", intf.name, "mtu", str(mtu))
        ends = ((self.intf1, self.intf2, queue), (self.intf2, self.intf1, back))
        self.queues: dict[str, RedQueue | BpfQueue] = {}
        """By the name of the node that sends into it."""
        for number, (near, _, parameters) in enumerate(ends):
            a, b, p, q = "abpq" if number == 0 else "baqp"
            self.queues[near.node.name] = (
                BpfQueue(self._wire, parameters, (a, p), (q, b))
                if self._wire
                else RedQueue(near.node, near.name, parameters)
            )

    def makeIntfPair(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N802
        if self._wire is None:
            return super().makeIntfPair(*args, **kwargs)
        name1, name2, addr1, addr2, node1, node2 = args
        for node, name, address, end in (
            (node1, name1, addr1, "a"),
            (node2, name2, addr2, "b"),
        ):
            mac = ["address", address] if address else []
            run_in(
                *(node, "ip", "link", "add", "name", name, *mac, "mtu", str(self.mtu)),
                *("type", "veth", "peer", "name", end, "mtu", str(self.mtu)),
                *("netns", str(self._wire.pid)),
            )
        lines = [f"link add name p mtu {self.mtu} type veth peer name q mtu {self.mtu}"]
        batch_in(self._wire, "ip", lines + [f"link set dev {end} up" for end in "abpq"])
        return None

    def stop(self) -> None:
        super().stop()
        for queue in self.queues.values():
            queue.close()
        if self._wire is not None:
            self._wire.terminate()
