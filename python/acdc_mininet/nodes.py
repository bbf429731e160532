# SPDX-License-Identifier: Apache-2.0

"""Mininet's classes for AC/DC: hosts that play guests, switches that are
bridges of a patched ovs-vswitchd, and the network that owns it."""

from __future__ import annotations

import functools
import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mininet.link import Intf
from mininet.net import Mininet
from mininet.node import Host, Node, Switch
from mininet.topo import Topo

from acdc_ovs import Port, Programs

from .isolation import RUN, before_others, isolated
from .link import BpfQueue, MarkingLink, RedQueue, run_in
from .ovs import Ovs


class AcdcHost(Host):
    """A guest: an unmodified stack in a network namespace.

    Without 'offload' (what a datapath on AF_PACKET needs) its device neither
    segments nor leaves checksums open.  'sysctls' are of its namespace."""

    def config(
        self,
        offload: bool = False,
        sysctls: dict[str, object] | None = None,
        **params: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        result = super().config(**params)
        for intf in self.intfList():
            if not offload and intf.name != "lo":
                run_in(
                    *(self, "ethtool", "-K", intf.name),
                    *("tx", "off", "tso", "off", "gso", "off", "gro", "off"),
                )
        # A run is not to start from what the last one learnt of the path.
        knobs: dict[str, object] = {"net.ipv4.tcp_no_metrics_save": 1}
        for key, value in (knobs | (sysctls or {})).items():
            run_in(self, "sysctl", "-q", "-w", f"{key}={value}")
        return result

    def start(self, *argv: str | Path) -> subprocess.Popen[str]:
        """Runs 'argv' in the guest, with text pipes, before what else the
        machine does."""
        words = [str(arg) for arg in argv]
        process: subprocess.Popen[str] = self.popen(
            words,
            stdin=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            preexec_fn=before_others,
        )
        return process


class AcdcSwitch(Switch):
    """A bridge of 'ovs'.  It learns addresses, unless 'flows' (as ovs-ofctl
    takes them) say how to forward; 'groups' come before them.

    Each device is a port, but one with an address: that is the hypervisor's
    own, for 'tunnels' of (port, type, remote address)."""

    def __init__(
        self,
        name: str,
        ovs: Ovs,
        flows: Sequence[str] = (),
        groups: Sequence[str] = (),
        tunnels: Sequence[tuple[str, str, str]] = (),
        **params: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(name, **params)
        self.ovs = ovs
        self._tunnels = list(tunnels)
        self._flows = list(flows)
        self._groups = list(groups)

    def start(self, controllers: Sequence[Node]) -> None:
        self.ovs.start()
        ports = [
            Port(
                intf.name,
                {"ofport_request": self.ports[intf]},
                own_qdiscs=getattr(intf.link, "own_qdiscs", False),
            )
            for intf in self.intfList()
            if intf.name != "lo" and not intf.ip
        ]
        ports += [
            Port(name, {"type": kind, "options:remote_ip": remote})
            for name, kind, remote in self._tunnels
        ]
        columns = {"other_config:datapath-id": self.dpid}
        self.ovs.add_bridge(self.name, not self._flows, ports, **columns)
        for group in self._groups:
            self.ovs.ofctl("-O", "OpenFlow15", "add-group", self.name, group)
        for flow in self._flows:
            self.ovs.ofctl("-O", "OpenFlow15", "add-flow", self.name, flow)

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803
        self.ovs.del_bridge(self.name)
        super().stop(deleteIntfs)

    @classmethod
    def batchStartup(cls, switches: Sequence[AcdcSwitch]) -> Sequence[AcdcSwitch]:  # noqa: N802
        """What Mininet calls when it has started all of them."""
        for ovs in {id(switch.ovs): switch.ovs for switch in switches}.values():
            if ovs.datapath == "netdev":
                ovs.enlarge_buffers()
        return switches


class AcdcNet(Mininet):
    """A Mininet with an Open vSwitch of its own, started and stopped with it.

    Use it as a context manager: what it made is gone after a failure too.  It
    must run isolated (see isolation.enter()), or, with 'shared', where nothing
    is to be kept from it, such as in a virtual machine made for it."""

    _numbers = itertools.count()

    def __init__(
        self,
        topo: Topo,
        programs: Programs | None = None,
        datapath: str = "netdev",
        rundir: Path | None = None,
        shared: bool = False,
        **params: Any,  # noqa: ANN401
    ) -> None:
        if not (shared or isolated()):
            raise RuntimeError("call acdc_mininet.enter() first: Mininet changes its namespace")
        Mininet.inited = True  # Else it sets the machine's sysctls.
        self.ovs = Ovs(rundir or RUN / f"ovs{next(self._numbers)}", programs, datapath)
        """That of all switches without a namespace of their own."""
        self._stopped = False
        params = {"host": AcdcHost, "controller": None, "autoStaticArp": True} | params
        params["switch"] = functools.partial(params.get("switch", AcdcSwitch), ovs=self.ovs)
        super().__init__(topo, **params)

    def __enter__(self) -> AcdcNet:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def hypervisors(self) -> list[Ovs]:
        """Every Open vSwitch of this network, once."""
        return list({id(switch.ovs): switch.ovs for switch in self.switches}.values())

    def addSwitch(  # noqa: N802
        self,
        name: str,
        cls: type | None = None,
        **params: Any,  # noqa: ANN401
    ) -> AcdcSwitch:
        if params.get("inNamespace"):  # It is a hypervisor of its own.
            rundir = self.ovs.rundir / name
            params["ovs"] = Ovs(rundir, self.ovs.programs, self.ovs.datapath)
        switch: AcdcSwitch = super().addSwitch(name, cls, **params)
        return switch

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        try:
            for ovs in self.hypervisors:
                ovs.check()
            super().stop()
        except Exception:
            # ovs-vswitchd has died: without it bridges cannot be taken down in
            # order, but the nodes can.
            for node in [*self.hosts, *self.switches]:
                node.terminate()
        finally:
            for ovs in self.hypervisors:
                ovs.stop()

    def _guest_intf(self, host: str) -> Intf:
        intf = self[host].defaultIntf()
        near, far = intf.link.intf1, intf.link.intf2
        return far if near is intf else near

    def guest_port(self, host: str) -> str:
        """The name of the switch's interface that leads to 'host'."""
        return str(self._guest_intf(host).name)

    def bind(self, tenant: str, *hosts: str) -> None:
        """Makes the ports of 'hosts' guest ports of 'tenant'."""
        for ovs in self.hypervisors:
            ports = [intf.name for intf in map(self._guest_intf, hosts) if intf.node.ovs is ovs]
            if ports:
                ovs.bind(tenant, *ports)

    def queue(self, source: str, target: str) -> RedQueue | BpfQueue:
        """The queue at the output of 'source' towards 'target'."""
        for link in self.links:
            ends = {link.intf1.node.name, link.intf2.node.name}
            if isinstance(link, MarkingLink) and ends == {source, target}:
                return link.queues[source]
        raise KeyError(f"no MarkingLink between {source} and {target}")
