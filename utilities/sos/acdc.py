# SPDX-License-Identifier: Apache-2.0

"""What a report about AC/DC needs, for `sos report`.  Without addresses, unless they are asked for:
sos report -k acdc.addresses=on"""

from __future__ import annotations

import re

from sos.report import plugins
from sos.report.plugins import DebianPlugin, Plugin, RedHatPlugin, UbuntuPlugin

NAME = "addresses"
ABOUT = "with addresses, and a line for each of 1000 connections"

# IPv4, and what has three colons or a double one: IPv6, which may end as IPv4, Ethernet.
IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}"
GROUP = "[0-9A-Fa-f]{1,4}"
MANY = rf"(?:{GROUP}:){{3,7}}(?:{GROUP}|:)?"
DOUBLE = rf"(?:{GROUP}(?::{GROUP})*)?::(?:{GROUP}(?::{GROUP})*)?"
LONG = rf"(?<![\w:])(?:{MANY}|{DOUBLE})(?:{IPV4})?(?!:[\w:])"
ADDRESS = re.compile(rf"(?:(?<![\w.]){IPV4}|{LONG})(?!\w|\.\d)")
HIDDEN = "ADDRESS"

COLUMNS = "name,type,ofport,mtu,other_config,statistics"


def _option() -> object:
    """Versions before 4.3 have tuples."""
    if hasattr(plugins, "PluginOpt"):
        return plugins.PluginOpt(NAME, default=False, desc=ABOUT)
    return (NAME, ABOUT, "fast", False)


class AcDc(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin):
    """AC/DC, congestion control of guests' TCP in Open vSwitch"""

    short_desc = "AC/DC congestion control in Open vSwitch"
    plugin_name = "acdc"
    profiles = ("network", "virt")
    # It is there, then.
    commands = ("acdc-check",)
    option_list = [_option()]

    def setup(self) -> None:
        self.add_copy_spec(
            ["/etc/default/acdc-exporter", "/sys/module/openvswitch/srcversion", "/proc/net/snmp"]
        )
        self.add_cmd_output(
            [
                "acdc-check --timeout 10",
                "acdc-dkms status",
                "ovs-appctl --timeout=10 version",
                "ovs-appctl --timeout=10 acdc/show",
                "ovs-appctl --timeout=10 acdc/show --json",
                "ovs-appctl --timeout=10 acdc/stats",
                "ovs-appctl --timeout=10 coverage/show",
                "ovs-appctl --timeout=10 dpctl/show",
                "ovs-vsctl --timeout=10 list ACDC",
                "ovs-vsctl --timeout=10 list ACDC_Rule",
                "ovs-vsctl --timeout=10 --columns=ovs_version,other_config list Open_vSwitch",
                f"ovs-vsctl --timeout=10 --columns={COLUMNS} list Interface",
                "grep -i -m 5000 acdc /var/log/openvswitch/ovs-vswitchd.log",
                "modinfo openvswitch",
                "tc -s qdisc show",
                "sysctl net.ipv4.tcp_ecn net.ipv4.tcp_congestion_control",
            ]
        )
        if self.get_option(NAME):
            self.add_cmd_output("ovs-appctl --timeout=10 acdc/dump-flows limit=1000")

    def postproc(self) -> None:
        if not self.get_option(NAME):
            # Of all commands: rules, tenants' selectors and the log have addresses.
            self.do_cmd_output_sub("", ADDRESS, HIDDEN)
            self.do_path_regex_sub(r"/etc/default/acdc-exporter", ADDRESS, HIDDEN)
