# SPDX-License-Identifier: Apache-2.0

"""The connection cache of the userspace datapath (lib/acdc-conn-cache.h): packets
that find their flow by it go where Open vSwitch's classifier would send them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP, IPOption
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from acdc_testlib.netns import Tap, wait_for
from acdc_testlib.ovs import Ovs, datapath_type
from acdc_testlib.tcp import ACK, ECT0, GUEST_IP, GUEST_MAC, PEER_IP, PEER_MAC, PSH
from acdc_testlib.wire import Conn, Wire

pytestmark = pytest.mark.skipif(
    datapath_type() != "netdev", reason="it is the userspace datapath's"
)

PORTS = ("guest", "uplink", "other")
MARK = bytes.fromhex("02000000000202000000000188b5") + bytes(46)


@dataclass(frozen=True)
class Frame:
    """A TCP packet, or what looks like one."""

    port: str = "guest"
    dl_src: str = GUEST_MAC
    dl_dst: str = PEER_MAC
    nw_src: str = GUEST_IP
    nw_dst: str = PEER_IP
    nw_tos: int = 0
    nw_ttl: int = 64
    tp_src: int = 1000
    tp_dst: int = 2000
    flags: int = ACK
    vlan: int = 0
    pcp: int = 0
    # What keeps it out of the cache.
    service_tag: int = 0
    udp: bool = False
    ip_options: bool = False
    first_fragment: bool = False
    too_long: bool = False
    data_offset: int = 5
    padding: int = 0

    def to_bytes(self, number: int) -> bytes:
        """'number' makes each different."""
        frame = Ether(src=self.dl_src, dst=self.dl_dst)
        if self.service_tag:
            frame.type = 0x88A8
            frame /= Dot1Q(vlan=self.service_tag)
        if self.vlan:
            frame /= Dot1Q(vlan=self.vlan, prio=self.pcp)
        ip = IP(src=self.nw_src, dst=self.nw_dst, tos=self.nw_tos, ttl=self.nw_ttl)
        if self.ip_options:
            ip.options = [IPOption(b"\x01\x01\x01\x01")]
        if self.first_fragment:
            ip.flags = "MF"
        if self.udp:
            data = UDP(sport=self.tp_src, dport=self.tp_dst) / Raw(number.to_bytes(8, "big"))
        else:
            data = TCP(
                sport=self.tp_src,
                dport=self.tp_dst,
                flags=self.flags,
                seq=number,
                dataofs=self.data_offset,
            )
        if self.too_long:
            ip.len = 1000
        return bytes(frame / ip / data) + bytes(self.padding)


def odd_one(frame: Frame, odd: str) -> Frame:
    """With what 'odd' names."""
    name, _, value = odd.partition("=")
    fields: dict[str, Any] = {name: int(value or True)}
    return replace(frame, **fields)


ODD = [
    "service_tag", "ip_options", "first_fragment", "too_long", "udp",
    "data_offset=0", "data_offset=4", "data_offset=15",
]  # fmt: skip


class Switch:
    """A bridge of three ports, 'guest' bound to a tenant."""

    def __init__(self, ovs: Ovs) -> None:
        self.ovs = ovs
        # No flow goes because this machine is slow.
        ovs.vsctl("set", "open_vswitch", ".", "other_config:max-idle=600000")
        ovs.add_bridge("br0", normal=False)
        self.taps: dict[str, Tap] = {name: ovs.add_tap("br0", name) for name in PORTS}
        self.numbers = {name: ovs.ofport(name) for name in PORTS}
        ovs.set_tenant("blue")
        ovs.bind("blue", "guest")
        self.rules()

    def rules(self, *rules: str, purge: bool = True) -> None:
        """Instead of those before, in force in the datapath on return.  Without
        'purge' flows stay for which they say the same, with more in their masks
        than would be needed."""
        lines = [self._numbered(rule) for rule in rules]
        table = self.ovs.dir / "rules"
        table.write_text("\n".join(["priority=65535,dl_type=0x88b5,actions=all", *lines]) + "\n")
        self.ovs.ofctl("replace-flows", "br0", str(table))
        # The first may end with a pass that began before.
        for _ in range(2):
            self.ovs.appctl("revalidator/wait")
        if purge:
            self.ovs.appctl("revalidator/purge")

    def _numbered(self, rule: str) -> str:
        for name, number in self.numbers.items():
            rule = rule.replace(f"{{{name}}}", str(number))
        return rule

    def send(self, port: str, *frames: bytes) -> dict[str, list[bytes]]:
        """What the other ports get of it."""
        got: dict[str, list[bytes]] = {}
        # The first mark may overtake frames of its batch, the second comes later.
        for batch in (frames, ()):
            for frame in batch:
                self.taps[port].send(frame)
            self.taps[port].send(MARK)
            for name, tap in self.taps.items():
                if name == port:
                    continue
                while (data := tap.receive(10)) != MARK:
                    assert data is not None, self.ovs.log_tail()
                    got.setdefault(name, []).append(data)
        assert self.taps[port].receive() is None
        return got

    def where(self, frame: Frame, times: int = 3) -> set[str]:
        """Where such packets come out: each time the same."""
        found = []
        for _ in range(times):
            data = frame.to_bytes(random.randrange(1 << 32))
            got = self.send(frame.port, data)
            assert all(frames == [data] for frames in got.values())
            found.append(set(got))
        assert all(one == found[0] for one in found), found
        return found[0]

    def renew(self) -> None:
        """A new cache, which looks at what comes from all ports."""
        self.ovs.bind(None, "guest")
        # It goes with the next packet.
        self.send("guest")
        self.ovs.bind("blue", "guest")

    def counter(self, name: str) -> int:
        return int(self.ovs.appctl("coverage/read-counter", f"acdc_conn_{name}"))


@pytest.fixture(scope="module")
def module_switch() -> Iterator[Switch]:
    with Ovs() as ovs:
        yield Switch(ovs)


@pytest.fixture
def switch(module_switch: Switch) -> Switch:
    """No test before has made the cache give up on a port."""
    module_switch.renew()
    return module_switch


HITS = "in_port={guest},tcp,nw_dst=10.2.0.0/16,actions=output:{uplink}"


def test_is_used(switch: Switch) -> None:
    switch.rules(HITS)
    switch.where(Frame())
    before = switch.counter("hit")
    assert switch.where(Frame(), times=20) == {"uplink"}
    assert switch.counter("hit") == before + 20


@pytest.mark.parametrize(
    ("match", "field"),
    [
        (f"dl_src={GUEST_MAC}", {"dl_src": "02:00:00:00:00:77"}),
        (f"dl_dst={PEER_MAC}", {"dl_dst": "02:00:00:00:00:77"}),
        ("nw_tos=0", {"nw_tos": 0x20}),
        ("nw_ecn=0", {"nw_tos": 1}),
        ("nw_ttl=64", {"nw_ttl": 63}),
        (f"nw_src={GUEST_IP}", {"nw_src": "10.1.0.2"}),
        (f"nw_dst={PEER_IP}", {"nw_dst": "10.2.0.2"}),
        ("tp_src=1000", {"tp_src": 1001}),
        ("tp_dst=2000", {"tp_dst": 2001}),
        ("in_port={guest}", {"port": "other"}),
        ("vlan_tci=0", {"vlan": 9}),
        ("dl_vlan=9", {"vlan": 10}),
        ("dl_vlan_pcp=3", {"pcp": 4}),
        ("tcp_flags=-psh", {"flags": ACK | PSH}),
        ("nw_proto=6", {"udp": True}),
        ("ip_frag=no", {"first_fragment": True}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value.partition("=")[0],
)
def test_all_that_a_rule_looks_at(switch: Switch, match: str, field: dict[str, Any]) -> None:
    kind = "ip" if match == "nw_proto=6" else "tcp"
    switch.rules(
        f"priority=2,{kind},{match},actions=output:{{uplink}}",
        "priority=1,in_port={guest},actions=output:{other}",
        "priority=1,in_port={other},actions=output:{guest}",
    )
    frame = Frame(vlan=9, pcp=3) if "dl_vlan" in match else Frame()
    other = replace(frame, **field)
    elsewhere = {"guest"} if other.port == "other" else {"other"}
    for _ in range(3):
        assert switch.where(frame) == {"uplink"}
        assert switch.where(other) == elsewhere


def test_vlan(switch: Switch) -> None:
    switch.rules(HITS)
    switch.where(Frame(vlan=9))
    before = switch.counter("hit")
    assert switch.where(Frame(vlan=9), times=10) == {"uplink"}
    assert switch.counter("hit") == before + 10
    assert switch.where(Frame(), times=10) == {"uplink"}
    assert switch.counter("hit") >= before + 18


def test_flags_keep_flows_out(switch: Switch) -> None:
    switch.rules("priority=2,tcp,tcp_flags=+psh,actions=drop", f"priority=1,{HITS}")
    before = switch.counter("insert")
    assert switch.where(Frame()) == {"uplink"}
    assert switch.where(Frame(flags=ACK | PSH)) == set()
    assert switch.counter("insert") == before


@pytest.mark.parametrize("odd", ODD)
def test_not_plain_tcp(switch: Switch, odd: str) -> None:
    switch.rules(HITS)
    assert switch.where(Frame()) == {"uplink"}
    before = switch.counter("hit"), switch.counter("insert")
    # What claims to be longer than it is is not TCP to Open vSwitch either.
    forwarded = odd not in ("too_long", "udp")
    frame = odd_one(Frame(), odd)
    assert switch.where(frame) == ({"uplink"} if forwarded else set())
    assert (switch.counter("hit"), switch.counter("insert")) == before


@pytest.mark.parametrize("offset", [0, 4, 15])
def test_wrong_data_offset(switch: Switch, offset: int) -> None:
    """Of such a packet Open vSwitch does not look at the ports."""
    switch.rules(
        "priority=2,in_port={guest},tcp,tp_dst=2000,actions=drop",
        "priority=1,in_port={guest},tcp,actions=output:{uplink}",
    )
    for _ in range(2):
        assert switch.where(Frame(data_offset=offset)) == {"uplink"}
        assert switch.where(Frame()) == set()


def test_padding(switch: Switch) -> None:
    switch.rules(HITS)
    assert switch.where(Frame()) == {"uplink"}
    before = switch.counter("hit")
    assert switch.where(Frame(padding=6), times=4) == {"uplink"}
    assert switch.where(Frame(padding=700), times=4) == {"uplink"}
    assert switch.counter("hit") == before + 8


def test_change_of_rules(switch: Switch) -> None:
    for port in ("uplink", "other", "uplink"):
        switch.rules(HITS.replace("{uplink}", f"{{{port}}}"), purge=False)
        assert switch.where(Frame()) == {port}
        switch.rules(purge=False)
        assert switch.where(Frame()) == set()


def test_flows_deleted(switch: Switch) -> None:
    """Nothing but deletes them: the next packet is looked up, and enters again."""
    switch.rules(HITS)
    for _ in range(3):
        switch.where(Frame())
        switch.ovs.appctl("dpctl/del-flows")
        before = switch.counter("hit")
        assert switch.where(Frame(), times=1) == {"uplink"}
        assert switch.counter("hit") == before


def check_all(switch: Switch, frames: list[Frame], expected: Callable[[Frame], str]) -> None:
    """Each goes where it should, three times."""
    for _ in range(3):
        for i in range(0, len(frames), 32):
            sent = [(f, f.to_bytes(i + j)) for j, f in enumerate(frames[i : i + 32])]
            got = switch.send("guest", *(data for _, data in sent))
            for name in ("uplink", "other"):
                want = [data for f, data in sent if expected(f) == name]
                assert Counter(got.get(name, [])) == Counter(want)


def test_connections_in_the_same_lines(switch: Switch) -> None:
    """Three of four places taken, all by the same two hosts: of a full cache line's the
    one beside it takes some."""
    switch.rules(
        "priority=2,in_port={guest},tcp,tp_dst=2000,actions=output:{uplink}",
        "priority=1,in_port={guest},tcp,actions=output:{other}",
    )
    frames = [Frame(tp_src=1 + i // 2, tp_dst=2000 + i % 2) for i in range(3000)]
    before = switch.counter("hit")
    check_all(switch, frames, lambda f: "uplink" if f.tp_dst == 2000 else "other")
    # Without it a tenth would find no room, with it a twenty-fifth.
    assert switch.counter("hit") - before > 0.93 * 2 * len(frames)


def test_flows_in_the_place_of_others(switch: Switch) -> None:
    """Connections of flows that are gone must not take what came after them."""

    def expected(frame: Frame) -> str:
        return ("uplink", "other", "drop")[int(frame.nw_dst.rpartition(".")[2]) % 3]

    addresses = [f"10.2.{i}.{j}" for i in range(4) for j in range(1, 190)]
    rules = [
        f"in_port={{guest}},tcp,nw_dst={address},actions="
        + ("drop" if (to := expected(Frame(nw_dst=address))) == "drop" else f"output:{{{to}}}")
        for address in addresses
    ]
    frames = [Frame(nw_dst=address) for address in addresses]
    switch.rules(*rules)
    check_all(switch, frames[::2], expected)
    switch.renew()
    before = switch.counter("hit")
    check_all(switch, frames[::2], expected)
    assert switch.counter("hit") > before + len(frames) / 2
    switch.rules(*rules)
    check_all(switch, frames[1::2], expected)
    check_all(switch, frames, expected)


def test_more_flows_than_paths(switch: Switch) -> None:
    """Some have one, some do not, and now and then one takes another's."""

    def expected(frame: Frame) -> str:
        return ("uplink", "other")[int(frame.nw_dst.rpartition(".")[2]) % 2]

    addresses = [f"10.2.{i}.{j}" for i in range(10) for j in range(1, 190)]
    switch.rules(*(
        f"in_port={{guest}},tcp,nw_dst={address},actions=output:{{{to}}}"
        for address in addresses
        for to in [expected(Frame(nw_dst=address))]
    ))  # fmt: skip
    frames = [Frame(nw_dst=address) for address in addresses]
    check_all(switch, frames, expected)
    switch.renew()
    before = switch.counter("hit")
    check_all(switch, frames, expected)
    assert switch.counter("hit") > before + 500


TO_GUEST = Frame("uplink", PEER_MAC, GUEST_MAC, PEER_IP, GUEST_IP, tp_src=2000, tp_dst=1000)


@pytest.mark.parametrize("to", ["guest", "other"])
def test_only_what_is_for_a_guest(switch: Switch, to: str) -> None:
    """From a port that is not a guest's."""
    switch.rules(f"in_port={{uplink}},tcp,nw_dst=10.0.0.0/8,actions=output:{{{to}}}")
    before = switch.counter("hit"), switch.counter("insert")
    assert switch.where(TO_GUEST, times=10) == {to}
    after = switch.counter("hit"), switch.counter("insert")
    # The first one makes the flow.
    assert after == ((before[0] + 8, before[1] + 1) if to == "guest" else before)


def test_a_port_without_guests_traffic_is_left_alone(switch: Switch) -> None:
    switch.rules(
        "in_port={uplink},tcp,nw_dst=10.1.0.0/16,actions=output:{guest}",
        "in_port={uplink},tcp,nw_dst=10.3.0.0/16,actions=output:{other}",
    )
    switch.where(TO_GUEST)
    before = switch.counter("hit")
    other = replace(TO_GUEST, nw_dst="10.3.0.1").to_bytes(1)
    for _ in range(80):
        switch.send("uplink", *[other] * 16)
    rested = switch.counter("hit")
    switch.where(TO_GUEST, times=5)
    assert switch.counter("hit") == rested == before
    # It is looked at again after a while.
    wait_for(
        "another look",
        lambda: (
            [switch.send("uplink", TO_GUEST.to_bytes(1)) for _ in range(50)],
            switch.counter("hit") > before,
        )[1],
        timeout=60,
        interval=0,
    )


def test_emc_off(switch: Switch) -> None:
    """Who turns the EMC off wants no such cache."""
    switch.rules(HITS)
    switch.ovs.vsctl("set", "open_vswitch", ".", "other_config:emc-insert-inv-prob=0")
    try:
        before = switch.counter("hit")
        assert switch.where(Frame()) == {"uplink"}
        assert switch.counter("hit") == before
    finally:
        switch.ovs.vsctl("remove", "open_vswitch", ".", "other_config", "emc-insert-inv-prob")


def test_unbound(switch: Switch) -> None:
    switch.rules(HITS)
    switch.where(Frame())
    switch.ovs.bind(None, "guest")
    try:
        before = switch.counter("hit")
        assert switch.where(Frame()) == {"uplink"}
        assert switch.counter("hit") == before
    finally:
        switch.ovs.bind("blue", "guest")
    switch.where(Frame())
    assert switch.counter("hit") > before


# As a classifier: each choice is a part of a match, and whether a packet has it.
Choice = tuple[str, Callable[[Frame], bool]]


def known(frame: Frame) -> bool:
    """Open vSwitch sees its IP header, which is behind one tag at most."""
    return not frame.too_long and not (frame.service_tag and frame.vlan)


def has_ports(frame: Frame) -> bool:
    """Of fragments Open vSwitch pretends not to see the ports, the first's too."""
    return not frame.first_fragment and frame.data_offset == 5


def choices(rng: random.Random) -> list[Choice]:
    port, tos, ttl = rng.choice(PORTS), rng.choice((0, 0x20)), rng.choice((63, 64))
    ecn, source, sink = rng.choice((0, 2)), rng.choice((1000, 1001)), rng.choice((2000, 2001))
    mac, to = rng.choice((GUEST_MAC, PEER_MAC)), rng.choice((GUEST_MAC, PEER_MAC))
    ip, to_ip = rng.choice((GUEST_IP, PEER_IP)), rng.choice((GUEST_IP, PEER_IP))
    return [
        (f"in_port={{{port}}}", lambda f: f.port == port),
        (f"dl_src={mac}", lambda f: f.dl_src == mac),
        (f"dl_dst={to}", lambda f: f.dl_dst == to),
        (f"nw_tos={tos}", lambda f: f.nw_tos & 0xFC == tos),
        (f"nw_ecn={ecn}", lambda f: f.nw_tos & 3 == ecn),
        (f"nw_ttl={ttl}", lambda f: f.nw_ttl == ttl),
        (f"nw_src={ip}", lambda f: f.nw_src == ip),
        rng.choice(
            [
                (f"nw_dst={to_ip}", lambda f: f.nw_dst == to_ip),
                ("nw_dst=10.0.0.0/8", lambda _: True),
            ]
        ),
        (f"tp_src={source}", lambda f: f.tp_src == source and has_ports(f)),
        (f"tp_dst={sink}", lambda f: f.tp_dst == sink and has_ports(f)),
        ("tcp_flags=+psh", lambda f: bool(f.flags & PSH) and f.data_offset == 5),
        rng.choice(
            [
                ("dl_vlan=9", lambda f: f.vlan == 9),
                ("vlan_tci=0", lambda f: not f.vlan),
            ]
        ),
    ]


def random_frame(rng: random.Random) -> Frame:
    macs, ips = (GUEST_MAC, PEER_MAC), (GUEST_IP, PEER_IP)
    frame = Frame(
        rng.choice(PORTS), rng.choice(macs), rng.choice(macs), rng.choice(ips), rng.choice(ips),
        rng.choice((0, 0, 2, 0x20)), rng.choice((63, 64)), rng.choice((1000, 1001)),
        rng.choice((2000, 2001)), rng.choice((ACK, ACK, ACK | PSH)),
        *rng.choice(((0, 0), (0, 0), (9, 0), (9, 3), (10, 0))),
    )  # fmt: skip
    if rng.random() < 0.1:
        frame = odd_one(frame, rng.choice(ODD))
    return frame


@pytest.mark.parametrize("seed", range(4))
def test_as_a_classifier(seed: int) -> None:
    """Random rules, random packets, and where the rules' text sends them."""
    with Ovs() as ovs:
        as_a_classifier(Switch(ovs), random.Random(seed))


def as_a_classifier(switch: Switch, rng: random.Random) -> None:
    sent = 0
    for _ in range(8):
        rules: list[tuple[list[Choice], str]] = []
        for _ in range(rng.randrange(1, 6)):
            rules.append((rng.sample(choices(rng), rng.randrange(4)), rng.choice((*PORTS, "drop"))))
        switch.rules(*(
            ",".join([
                f"priority={len(rules) - i}", "tcp", *(text for text, _ in match),
                f"actions={'drop' if to == 'drop' else f'output:{{{to}}}'}",
            ])
            for i, (match, to) in enumerate(rules)
        ))  # fmt: skip

        def expected(frame: Frame, rules: list[tuple[list[Choice], str]] = rules) -> str:
            if frame.udp or not known(frame):
                return "drop"
            return next((to for match, to in rules if all(has(frame) for _, has in match)), "drop")

        frames = [random_frame(rng) for _ in range(12)]
        for port in PORTS * 6:
            chosen = [replace(rng.choice(frames), port=port) for _ in range(16)]
            numbered = [(f, f.to_bytes(sent + i)) for i, f in enumerate(chosen)]
            sent += len(numbered)
            got = switch.send(port, *(data for _, data in numbered))
            for name in PORTS:
                want = [d for f, d in numbered if name != port and expected(f) == name]
                assert Counter(got.get(name, [])) == Counter(want), [text for text, _ in rules]
    # Most packets come more than once, but rules of ports alone need no cache, and
    # what is not for the guest or not forwarded at all is not in it.
    assert switch.counter("hit") > sent / 20


def hits(wire: Wire) -> int:
    return int(wire.ovs.appctl("coverage/read-counter", "acdc_conn_hit"))


def test_more_connections_than_at_first() -> None:
    """The table grows with the connections that the engine follows."""
    with Ovs() as ovs:
        wire = Wire(ovs, headers=True)
        wire.reset()
        conns = [Conn(wire) for _ in range(2500)]

        def exchange(frames: list[bytes], send: Callable[..., list[bytes]]) -> None:
            for i in range(0, len(frames), 64):
                send(*frames[i : i + 64])

        exchange([c.guest_syn() for c in conns], wire.egress_raw)
        exchange([c.peer_synack() for c in conns], wire.ingress_raw)
        for c in conns:
            c.established()
        assert len(wire.flows("limit=10000")) == len(conns)
        from_guest, from_peer = [c.from_guest() for c in conns], [c.from_peer() for c in conns]
        # At first there is room for 4096.  Each larger table begins empty.
        for _ in range(4):
            before = hits(wire)
            exchange(from_guest, wire.egress_raw)
            exchange(from_peer, wire.ingress_raw)
        assert hits(wire) - before > 0.99 * 2 * len(conns)


def test_with_the_engine() -> None:
    """Data and feedback of one connection, all by the cache."""
    with Ovs() as ovs:
        wire = Wire(ovs, headers=True)
        wire.reset()
        c = Conn(wire).open()
        before = hits(wire)
        for _ in range(5):
            (data,) = c.guest_data(c.mss)
            assert (len(data.payload), data.ecn) == (c.mss, ECT0)
            (ack,) = c.peer_ack(c.mss)
            assert not ack.has_acdc
        # The first one to the guest is the first after its flow was made.
        assert hits(wire) == before + 9
        assert c.info()["fb_total"] == 5 * c.mss
