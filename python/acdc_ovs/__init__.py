# SPDX-License-Identifier: Apache-2.0

"""A running Open vSwitch: its programs, its daemons, its database, its commands.

acdc_mininet and the tests build on it.  It needs python3-openvswitch."""

from .daemon import control_socket, running_in
from .database import Change, Database, OvsError, call, other_version, unixctl
from .flows import flow_pages, flows
from .programs import Programs
from .switch import Ovs, Port

__all__ = [
    "Change",
    "Database",
    "Ovs",
    "OvsError",
    "Port",
    "Programs",
    "call",
    "control_socket",
    "flow_pages",
    "flows",
    "other_version",
    "running_in",
    "unixctl",
]
