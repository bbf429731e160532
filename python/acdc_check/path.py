# SPDX-License-Identifier: Apache-2.0

"""Both tests of the network between two hypervisors, and what their results mean."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .findings import CRITICAL, OK, WARNING, Finding
from .probes import FEEDBACK, PLAIN, SYN_OPTION, SYNACK_OPTION, End, Probe, probe
from .remote import Peer
from .segment import CE, ECN_NAMES, ECT0, NOT_ECT, RESERVED
from .side import SIZE, Side

Findings = dict[str, list[Finding]]

UNREACHED = (
    "nothing arrives {way}: do both bridges, with that VLAN, have a way to each other, and do their "
    "flows let an unknown port use it?"
)
DROPPED = {
    SYN_OPTION: "SYNs with TCP option 253 are dropped {way}: the first connection to an address waits "
    "2 or 3 s, and all go without AC/DC. Have firewalls and load balancers on the path pass option "
    "253 (RFC 4727)",
    SYNACK_OPTION: "SYN-ACKs with TCP option 253 are dropped {way}: connections begin late, and "
    "without AC/DC. Have firewalls and load balancers on the path pass option 253 (RFC 4727)",
    FEEDBACK: "data with TCP option 253 is dropped {way}: connections stall. Until firewalls on the "
    "path pass option 253 (RFC 4727), bind no tenants here",
}
STRIPPED = (
    "TCP option 253 is removed {way} ({what}): connections fall back. Something on the path, as a "
    "firewall or proxy, normalizes TCP options: have it keep kind 253 with ExID {exid:#06x}"
)
CHANGED = "TCP option 253 arrives changed {way} ({what})"
RESERVED_CLEARED = (
    "reserved bits of the TCP header are cleared {way}: guests see an ECN field that is not theirs, "
    "and reports as ACKs. Have firewalls on the path leave these bits alone"
)
RESERVED_DROPPED = (
    "segments with reserved bits are dropped {way}: data of guests and reports get lost. Until "
    "firewalls on the path pass them, bind no tenants here"
)
BLEACHED = (
    "ECT(0) arrives as {got} {way}: switches behind that drop where they are to mark. Something "
    "rewrites the whole ToS byte: have it set the six bits of DSCP only; tunnels copy ECN (RFC 6040)"
)
UNMARKED = (
    "CE arrives as {got} {way}: marks are lost, and windows are not cut. Something behind the switch "
    "that marks rewrites the ToS byte, or a tunnel's end does not copy CE (RFC 6040)"
)
PAINTED = "Not-ECT arrives as {got} {way}: something on the path rewrites the ToS byte"
ECN_DROPPED = (
    "packets with {sent} are dropped {way}: have firewalls on the path pass ECN (RFC 3168)"
)


def _judge_option(p: Probe, exid: int) -> Finding:
    if p.got is None:
        return CRITICAL, DROPPED[p.what].format(way=p.way)
    option = p.got.option()
    if option is None:
        return CRITICAL, STRIPPED.format(way=p.way, what=p.what, exid=exid)
    if option != p.sent.option():
        return CRITICAL, CHANGED.format(way=p.way, what=p.what)
    return OK, p.what


def _judge_reserved(p: Probe) -> Finding:
    if p.got is None:
        return CRITICAL, RESERVED_DROPPED.format(way=p.way)
    if p.got.reserved & RESERVED != p.sent.reserved:
        return WARNING, RESERVED_CLEARED.format(way=p.way)
    return OK, "reserved bits"


def _judge_ecn(p: Probe, marks: bool) -> Finding:
    sent = ECN_NAMES[p.sent.ecn]
    if p.got is None:
        return CRITICAL, ECN_DROPPED.format(sent=sent, way=p.way)
    if p.got.ecn == p.sent.ecn:
        return OK, sent
    if marks and (p.sent.ecn, p.got.ecn) == (ECT0, CE):
        return OK, f"{sent} (a switch marked it)"
    text = {ECT0: BLEACHED, CE: UNMARKED}.get(p.sent.ecn, PAINTED)
    state = WARNING if text is PAINTED else CRITICAL
    return state, text.format(got=ECN_NAMES[p.got.ecn], way=p.way)


def _judge(p: Probe, exid: int, marks: bool) -> tuple[str, Finding]:
    """The check that it belongs to, and the finding.  With 'marks' CE is a mark."""
    if p.what in DROPPED:
        return "options", _judge_option(p, exid)
    if p.what == "reserved":
        return "reserved", _judge_reserved(p)
    if p.what == "ecn":
        return "ecn", _judge_ecn(p, marks)
    if p.got is None:
        return "reach", (CRITICAL, UNREACHED.format(way=p.way))
    return "reach", (OK, PLAIN)


def judge(probes: list[Probe], exid: int) -> Findings:
    """What is wrong, once each; what is well, in a line for each direction."""
    found: Findings = {}
    for way in dict.fromkeys(p.way for p in probes):
        fine: dict[str, list[str]] = {}
        mine = [p for p in probes if p.way == way]
        # What paints CE over everything changes Not-ECT, too.
        marks = any(p.what == "ecn" and p.got is not None and p.got.ecn == NOT_ECT for p in mine)
        for p in mine:
            check, finding = _judge(p, exid, marks)
            rows = found.setdefault(check, [])
            if finding[0] == OK:
                fine.setdefault(check, []).append(finding[1])
            elif finding not in rows:
                rows.append(finding)
        for check, names in fine.items():
            if check == "reach":
                found[check].append((OK, f"TCP arrives {way}"))
            elif not any(state != OK and way in text for state, text in found[check]):
                what = ", ".join(dict.fromkeys(names))
                found[check].append((OK, f"unchanged {way}: {what}"))
    return found


def connect(near: End, far: End, peer: Peer, mark: bool) -> Findings:
    """A connection of two guests, through both engines."""
    near.side.call("bind", near.address, far.address, far.mac, mark)
    far.side.call("bind", far.address, near.address, near.mac, mark)
    port = far.side.call("listen", far.address)
    peer.start("accept")
    try:
        came_back = near.side.call("connect", far.address, port)
    except OSError as error:
        peer.finish_quietly()
        return {"connection": [(CRITICAL, f"to {far.name}: {error}")]}
    came = peer.finish()
    ends = ((near, near.side.call("counters")), (far, far.side.call("counters")))
    found: Findings = {"connection": []}
    if came != SIZE or came_back != SIZE:
        text = f"ended early: {came} and {came_back} of {SIZE} bytes"
        found["connection"].append((CRITICAL, text))
    found["connection"] += _connection_findings(ends)
    if mark:
        found["marks"] = list(_mark_findings(ends))
    return found


def _connection_findings(ends: tuple[tuple[End, dict[str, int]], ...]) -> Iterator[Finding]:
    for end, count in ends:
        reports = count["pack_received"] + count["fack_received"]
        if count["flows_fallback"] or not count["flows_capable"]:
            yield CRITICAL, f"{end.name} did not find AC/DC at the other end, and fell back"
        elif not reports:
            yield CRITICAL, f"{end.name} got no report of the other end"
        else:
            yield OK, f"{end.name}: AC/DC at both ends, {reports} reports"
        for name in ("feedback_bad", "feedback_lost", "timeouts"):
            if count[name]:
                yield WARNING, f"{end.name}: counter {name} is {count[name]}"
        if count["ecn_rewritten"]:
            text = f"{end.name}: the path rewrote the ECN field of {count['ecn_rewritten']} packets"
            yield WARNING, text


def _mark_findings(ends: tuple[tuple[End, dict[str, int]], ...]) -> Iterator[Finding]:
    for (end, count), (other, there) in (ends, ends[::-1]):
        if not there["ce_bytes"]:
            yield CRITICAL, f"marked at {end.name}, and nothing arrived marked at {other.name}"
        elif not count["cuts_ecn"]:
            text = (
                f"{other.name} got {there['ce_bytes']} marked bytes, and {end.name} cut no window"
            )
            yield CRITICAL, text
        else:
            text = f"{there['ce_bytes']} marked bytes reached {other.name}"
            yield OK, f"{text}, and {end.name} cut its window {count['cuts_ecn']} times"


def check_path(
    found: Findings, side: Side, peer: Peer, bridges: tuple[str, str], vlan: int, mark: bool
) -> None:
    """Adds to 'found'.  Raises OSError or OvsError if something cannot be done."""
    here, there = side.about()["exids"], peer.call("about")["exids"]
    if len(here) != 1 or here != there:
        texts = [" ".join(f"{exid:#06x}" for exid in exids) or "none" for exids in (here, there)]
        text = f"{texts[0]} here and {texts[1]} at {peer.name}: all need the same"
        found["exid"] = [(CRITICAL, text)]
        return
    network = f"169.254.{random.randrange(1, 255)}"
    near = End("here", side, side.open(bridges[0], vlan), f"{network}.1")
    far = End(peer.name, peer, peer.call("open", bridges[1], vlan), f"{network}.2")
    probes = probe(near, far, here[0])
    found["exid"] = [(OK, f"{here[0]:#06x} at both")]
    found.update(judge(probes, here[0]))
    if all(state == OK for state, _ in found["reach"]):
        found.update(connect(near, far, peer, mark))
