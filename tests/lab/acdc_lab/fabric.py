# SPDX-License-Identifier: Apache-2.0
"""A leaf-spine fabric: how its switches forward, as ovs-ofctl takes it."""

from __future__ import annotations

from typing import Any

from .scenarios import Options, Plan, Trunk

# What equal-cost multipath goes by; routers hash the flow label of IPv6 too (RFC 6438).
FIELDS = {
    False: "ip_src,ip_dst,tcp_src,tcp_dst",
    True: "ipv6_src,ipv6_dst,ipv6_label,tcp_src,tcp_dst",
}


def links_of(plan: Plan, switch: str) -> list[str]:
    """The far ends of a switch's links, in the order of its ports."""
    hosts = [host.name for host in plan.hosts if host.switch == switch]
    return [*hosts, *(far_end(trunk, switch) for trunk in plan.trunks if switch in ends(trunk))]


def ends(trunk: Trunk) -> tuple[str, str]:
    return trunk.a, trunk.b


def far_end(trunk: Trunk, switch: str) -> str:
    return trunk.b if trunk.a == switch else trunk.a


def forwarding(plan: Plan, options: Options, switch: str, macs: dict[str, str]) -> dict[str, Any]:
    """The flows and groups of a switch: by address, a leaf by a hash to other leaves."""
    if not plan.spines:
        return {}
    ports = {name: i for i, name in enumerate(links_of(plan, switch), start=1)}
    flows = []
    for host in plan.hosts:
        to = host.name if host.switch == switch else host.switch
        action = f"output:{ports[to]}" if to in ports else "group:1"
        flows.append(f"dl_dst={macs[host.name]},actions={action}")
    if switch in plan.spines:
        return {"flows": flows}
    # Another in each switch and for each seed, as in routers.
    param = options.seed << 8 | plan.switches.index(switch)
    buckets = "".join(f",bucket=output:{ports[spine]}" for spine in plan.spines)
    method = f"selection_method=hash,selection_method_param={param},fields({FIELDS[options.ipv6]})"
    return {"flows": flows, "groups": [f"group_id=1,type=select,{method}{buckets}"]}
