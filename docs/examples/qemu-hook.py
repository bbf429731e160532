#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""A hook of libvirt that binds a guest's interfaces to its AC/DC tenant each
time the guest starts.  The tenant's name is in the domain's metadata:

    virsh metadata GUEST urn:acdc --key acdc --set '<guest tenant="blue"/>' --config

Install it as /etc/libvirt/hooks/qemu.d/acdc (libvirt 6.5 or later) or as
/etc/libvirt/hooks/qemu, executable, and restart libvirt's daemon once."""

from __future__ import annotations

import subprocess
import sys
import syslog
import xml.etree.ElementTree as ET

# Of the metadata element.
NAMESPACE = "urn:acdc"


def vsctl(*args: str) -> str:
    # --no-wait: a guest starts also while ovs-vswitchd is being restarted.
    command = ["ovs-vsctl", "--timeout=5", "--no-wait", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def bind(domain: ET.Element) -> None:
    element = domain.find(f"metadata/{{{NAMESPACE}}}guest")
    tenant = element.get("tenant") if element is not None else None
    uuid = domain.findtext("uuid")
    if not tenant or not uuid:
        return
    # libvirt has put the domain's UUID there when it added the port.
    found = vsctl("--bare", "--columns=name", "find", "Interface", f"external_ids:vm-id={uuid}")
    for name in found.split():
        vsctl("set", "Interface", name, f"other_config:acdc-tenant={tenant}")
        syslog.syslog(f"acdc: {domain.findtext('name')}: {name} bound to tenant {tenant}")


def main() -> int:
    # The ports exist once the guest has started.  "reconnect" comes when
    # libvirt's daemon was restarted.
    if sys.argv[2:3] in (["started"], ["reconnect"]):
        try:
            bind(ET.fromstring(sys.stdin.buffer.read()))
        except (ET.ParseError, OSError, RuntimeError) as error:
            syslog.syslog(syslog.LOG_ERR, f"acdc: {sys.argv[1]}: {error}")
    # Never an error: libvirt would end the guest.
    return 0


if __name__ == "__main__":
    sys.exit(main())
