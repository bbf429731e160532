# SPDX-License-Identifier: Apache-2.0

"""The packages of `make deb`, as an operator meets them: over the distribution's Open
vSwitch that runs, and back to it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian_root import PROJECT, TEST_PACKAGES, Built, DebianRoot, run_tests

INSIDE = Path(__file__).with_name("inside.py")
RELOAD = "import runpy; runpy.run_path('/usr/sbin/acdc-dkms')['reload']()"
BASE = ["systemd", "systemd-sysv", "dbus", "iproute2", "python3", "procps", "ethtool", "libpcap0.8"]
BASE += ["python3-openvswitch", "python3-prometheus-client"]
PACKAGES = ["openvswitch-switch", "openvswitch-common"]
# What an operator has put there, not what Open vSwitch tells.
COLUMNS = {
    "open_vswitch": "_uuid,bridges,external_ids,other_config",
    "bridge": "_uuid,name,ports,datapath_type,fail_mode,other_config,external_ids",
    "port": "_uuid,name,interfaces,tag,other_config,external_ids",
    "interface": "_uuid,name,type,options,other_config,external_ids",
}
NETWORK = """
ovs-vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure \
    -- set open_vswitch . external_ids:owner=operator
for n in 1 2; do
    ip netns add g$n
    ip link add vnet$n type veth peer name eth0 netns g$n
    ip -n g$n address add 10.0.0.$n/24 dev eth0
    ip -n g$n link set eth0 up
    ip link set vnet$n up
    ethtool -K vnet$n tx off tso off gso off gro off
    ip netns exec g$n ethtool -K eth0 tx off tso off gso off gro off
    ovs-vsctl add-port br0 vnet$n -- set interface vnet$n ofport_request=$n \
        external_ids:iface-id=guest$n
done
"""
# The fabric marks all that its guests send.
FLOWS = """
ovs-ofctl add-flow br0 'priority=2,in_port=1,tcp,actions=mod_nw_ecn:3,output:2'
ovs-ofctl add-flow br0 'priority=1,in_port=1,actions=output:2'
ovs-ofctl add-flow br0 'priority=1,in_port=2,actions=output:1'
"""


def database(host: DebianRoot) -> dict[str, object]:
    def rows(table: str, columns: str) -> object:
        text = host.run("ovs-vsctl", "--format=json", f"--columns={columns}", "list", table)
        return sorted(map(str, json.loads(text)["data"]))

    return {table: rows(table, columns) for table, columns in COLUMNS.items()}


def version(host: DebianRoot, package: str = "openvswitch-switch") -> str:
    return host.run("dpkg-query", "-W", "-f", "${Version}", package)


def transfer(host: DebianRoot) -> None:
    assert int(host.run("python3", "/root/inside.py")) == 8 << 20


def files(host: DebianRoot) -> set[str]:
    """Of Open vSwitch's packages: units, settings, logrotate, completion and all."""
    listed = host.run("dpkg", "-L", *PACKAGES).split()
    return {name for name in listed if not name.startswith("/usr/share/doc/")}


def is_fine(host: DebianRoot) -> None:
    for unit in ("openvswitch-switch", "ovsdb-server", "ovs-vswitchd"):
        assert host.run("systemctl", "is-active", unit).strip() == "active"


def exporter(host: DebianRoot) -> str:
    return host.run("sh", "-c", "systemctl is-active acdc-exporter || :").strip()


@pytest.fixture(scope="module")
def host(built: Built) -> Iterator[DebianRoot]:
    """The distribution's Open vSwitch with a bridge, guests and flows, and our packages
    in /debs.  It could reach no archive: what it needs of that is in its cache."""
    with DebianRoot(built.root.release, *BASE, *PACKAGES) as root:
        root.run("apt-get", "update")
        root.run("apt-get", "install", "-y", "--reinstall", "--download-only", *PACKAGES)
        shutil.copytree(
            built.debs, root.path / "debs", ignore=shutil.ignore_patterns("openvswitch")
        )
        shutil.copy(INSIDE, root.path / "root/inside.py")
        root.boot()
        is_fine(root)
        root.run("sh", "-ec", NETWORK + FLOWS)
        yield root


def test_what_is_built(built: Built) -> None:
    """The names are the distribution's, the version sorts behind what it replaces."""
    names = {name.split("_")[0] for name in built.names}
    assert names == {
        *PACKAGES, "openvswitch-switch-dpdk", "openvswitch-acdc-dkms", "acdc-tools",
    }  # fmt: skip
    policy = built.root.run("apt-cache", "policy", "openvswitch-switch")
    match = re.search(r"Candidate: (\S+)", policy)
    assert match
    theirs = match[1]
    (ours,) = {n.split("_")[1] for n in built.names if n.startswith("openvswitch-switch")}
    assert ours.startswith(f"{theirs}+acdc")
    built.root.run("dpkg", "--compare-versions", ours, "gt", theirs)


def test_what_tools_have(built: Built) -> None:
    """Every command, its manual page and its completion, units, modules of Python."""
    (deb,) = built.debs.glob("acdc-tools_*.deb")
    listed = built.root.run("dpkg-deb", "-c", f"/src/build/deb/{deb.name}").splitlines()
    files = {line.split()[5].removeprefix("./") for line in listed}
    # A directory has the sources of one.
    commands = [p.name for p in (PROJECT / "utilities").glob("acdc-*") if os.access(p, os.X_OK)]
    assert len(commands) >= 5
    for name in commands:
        assert {f"usr/bin/{name}", f"usr/sbin/{name}"} & files, name
        assert f"usr/share/bash-completion/completions/{name}" in files
    for page in (PROJECT / "docs/man").glob("*.8.rst"):
        assert f"usr/share/man/man8/{page.stem}.gz" in files
    for path in (PROJECT / "python").glob("acdc_*"):
        assert f"usr/lib/python3/dist-packages/{path.name}" in files
    for path in (PROJECT / "utilities").glob("*.service.in"):
        assert any(name.endswith(f"lib/systemd/system/{path.stem}") for name in files), path
    assert "etc/default/acdc-exporter" in files
    assert any(name.endswith("wireshark/plugins/acdc.lua") for name in files)
    for name in ("prometheus", "bpftrace"):
        paths = list((PROJECT / "utilities" / name).iterdir())
        assert paths and {f"usr/share/acdc/{name}/{path.name}" for path in paths} <= files
    assert "usr/lib/python3/dist-packages/sos/report/plugins/acdc.py" in files


def test_probes(built: Built) -> None:
    """The packages' ovs-vswitchd has those that our scripts for bpftrace are for."""
    (deb,) = built.debs.glob("openvswitch-switch_*.deb")
    built.root.run("dpkg-deb", "-x", f"/src/build/deb/{deb.name}", "/tmp/switch")
    notes = built.root.run("sh", "-ec", "readelf -n $(find /tmp/switch -name ovs-vswitchd -type f)")
    for script in (PROJECT / "utilities/bpftrace").glob("*.bt"):
        assert script.stem.replace("-", "_").removeprefix("acdc_") in notes, script


def test_lintian(built: Built) -> None:
    report = built.root.run(
        "sh", "-c", "cd /src/build/deb && lintian --allow-root --fail-on error *.deb 2>&1"
    )
    assert not re.findall(r"^E: .*", report, re.M), report


def test_the_programs(built: Built) -> None:
    """Those of the packages, with DPDK, pass the tests of packets."""
    root = built.root
    debs = [
        f"/src/build/deb/{n}"
        for n in built.names
        if n.startswith("openvswitch-") and "dkms" not in n
    ]
    root.run("apt-get", "install", "-y", "--no-install-recommends", *debs, *TEST_PACKAGES)
    dpdk = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    env = (root.path / "src/debian/env").read_text()
    env = re.sub(r"^OVS_VSWITCHD=.*", f"OVS_VSWITCHD={dpdk}\nOVS_DPDK=shared", env, flags=re.M)
    (root.path / "root/env").write_text(env)
    run_tests(root, Path("/root/env"))


def test_the_tools_need_little(built: Built, host: DebianRoot) -> None:
    """No compiler and no Mininet on a hypervisor.  Open vSwitch is stopped while packages that
    are installed together with its own are unpacked."""
    (deb,) = (name for name in built.names if name.startswith("acdc-tools_"))
    planned = host.run("apt-get", "install", "--simulate", f"/debs/{deb}")
    names = re.findall(r"^Inst (\S+)", planned, re.M)
    assert 1 <= len(names) < 20, names


def test_over_the_distributions_and_back(built: Built, host: DebianRoot) -> None:
    theirs = version(host)
    transfer(host)
    before = database(host)
    units = {name for name in files(host) if name.endswith(".service")}
    flows = host.run("ovs-ofctl", "--no-stats", "dump-flows", "br0")

    debs = [f"/debs/{n}" for n in built.names if "dpdk" not in n and "dkms" not in n]
    install = ["apt-get", "install", "-y", "--no-install-recommends"]
    host.run(*install, *debs)
    assert version(host).startswith(f"{theirs}+acdc")
    is_fine(host)
    assert len(units) >= 4 and not units - files(host)
    assert database(host) == before
    # As with the distribution's own updates, who has set flows by hand sets them again.
    host.run("sh", "-ec", FLOWS)
    assert host.run("ovs-ofctl", "--no-stats", "dump-flows", "br0") == flows
    transfer(host)

    host.run("ovs-vsctl", "create", "acdc", "name=blue")
    for name in ("vnet1", "vnet2"):
        host.run("ovs-vsctl", "set", "interface", name, "other_config:acdc-tenant=blue")
    transfer(host)
    shown = json.loads(host.run("ovs-appctl", "acdc/show", "blue", "--json"))
    (tenant,) = shown["tenants"] if isinstance(shown, dict) else shown
    counters = {name: int(value) for name, value in tenant["counters"].items()}
    assert counters["flows_capable"] == 2
    assert counters["ce_packets"] > 100
    assert counters["cuts_ecn"] > 0
    assert counters["window_rewritten"] > 0
    assert "no module" in host.run("acdc-dkms", "status")
    host.run("systemctl", "enable", "--now", "acdc-exporter")

    # What asks for this very version of the distribution's goes with ours, but DPDK's daemon.
    planned = host.run("apt-get", "install", "--simulate", "openvswitch-ipsec")
    assert "Inst openvswitch-ipsec" in planned
    assert "Remv" not in planned
    with pytest.raises(RuntimeError, match="unmet dependencies"):
        host.run("apt-get", "install", "--simulate", f"openvswitch-switch-dpdk={theirs}",
                 f"openvswitch-switch={version(host)}")  # fmt: skip

    # What acdc-dkms restarts stays systemd's: otherwise the units' next start would stop it.
    before_reload = host.run("pidof", "ovs-vswitchd")
    host.run("python3", "-c", RELOAD)
    is_fine(host)
    assert host.run("pidof", "ovs-vswitchd") != before_reload
    transfer(host)

    # A build of the same version over itself.
    host.run("ovs-vsctl", "set", "acdc", "blue", "beta=0.25")
    tenants = host.run("ovs-vsctl", "--columns=_uuid,name,beta", "list", "acdc")
    host.run(*install, "--reinstall", *debs)
    is_fine(host)
    assert host.run("ovs-vsctl", "--columns=_uuid,name,beta", "list", "acdc") == tenants
    bound = host.run("ovs-vsctl", "get", "interface", "vnet1", "status:acdc_tenant")
    assert bound.strip() == "blue"
    assert exporter(host) == "active"
    assert host.run("acdc-trace", "--version").startswith("acdc-trace ")
    with pytest.raises(RuntimeError, match=r"packages are missing:\n +apt install .*mininet"):
        host.run("acdc-quickstart")

    for name in ("vnet1", "vnet2"):
        host.run("ovs-vsctl", "remove", "interface", name, "other_config", "acdc-tenant")
    # As sos leaves it.
    cache = "/usr/lib/python3/dist-packages/sos/report/plugins/__pycache__"
    host.run("sh", "-ec", f"mkdir -p {cache}; touch {cache}/acdc.cpython-313.pyc")
    host.run("apt-get", "purge", "-y", "acdc-tools")
    assert exporter(host) == "inactive"
    assert host.run("sh", "-c", "find /etc /usr /var -name '*acdc*'").split() == []
    host.run(*install, "--allow-downgrades", *(f"{name}={theirs}" for name in PACKAGES))
    assert version(host) == theirs
    is_fine(host)
    assert "acdc" not in host.run("ovsdb-client", "list-tables").lower()
    assert database(host) == before
    host.run("sh", "-ec", FLOWS)
    transfer(host)


def test_the_module(built: Built) -> None:
    """DKMS builds it for the release's kernel from the package's sources, and removes it
    with the package."""
    root = built.root
    root.run("apt-get", "install", "-y", "--no-install-recommends", "linux-headers-amd64")
    (headers,) = (root.path / "lib/modules").glob("*/build")
    kernel = headers.parent.name
    debs = [f"/src/build/deb/{n}" for n in built.names if "dkms" in n or "acdc-tools" in n]
    root.run("apt-get", "install", "-y", "--no-install-recommends", *debs, timeout=900)
    version = (root.path / "src/configure.ac").read_text().split("[acdc], [")[1].split("]")[0]
    module = f"acdc-openvswitch/{version}"
    if f"{module}, {kernel}" not in root.run("dkms", "status"):
        # That of a kernel that does not run is left to dkms autoinstall.
        root.run("dkms", "install", module, "-k", kernel, timeout=900)
    found = root.run("modinfo", "-k", kernel, "-F", "filename", "openvswitch").strip()
    assert f"/lib/modules/{kernel}/updates/dkms/openvswitch.ko" in found
    assert f"in DKMS: {version}" in root.run("acdc-dkms", "status", "-k", kernel)
    signer = root.run("modinfo", "-F", "signer", found).strip()
    assert signer == "DKMS module signing key", signer
    with pytest.raises(RuntimeError, match="is made from linux-source-6.1"):
        root.run("acdc-dkms", "install", "-k", "5.10.0-1-amd64")
    root.run("apt-get", "remove", "-y", "openvswitch-acdc-dkms")
    assert not list((root.path / "lib/modules").glob("*/updates/dkms/*.ko*"))
