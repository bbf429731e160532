# SPDX-License-Identifier: Apache-2.0

"""The newest Open vSwitch that there are patches for, which is in no release of Debian:
sid's openvswitch-source, with sid's DPDK and compiler."""

from __future__ import annotations

from pathlib import Path

from debian_root import PROJECT, TEST_PACKAGES, DebianRoot, ccache, copy_sources, run_tests

from acdc_testlib.long import long

BUILD = """
cd /src
export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/var/cache/ccache
./boot.sh && ./configure --quiet --with-dpdk=shared && make && make pristine && make check
build-aux/ovs-tree version build/openvswitch
"""


@long
def test_unstable() -> None:
    newest = (PROJECT / "ovs-patches/openvswitch/versions").read_text().split()[-1]
    with DebianRoot("sid", "ca-certificates", "ccache") as root:
        copy_sources(root)
        root.run("/src/build-aux/install-deps", "build", timeout=1200)
        root.run("apt-get", "install", "-y", "--no-install-recommends", *TEST_PACKAGES,
                 timeout=1200)  # fmt: skip
        out = root.run("sh", "-ec", BUILD, mounts=ccache(), timeout=3600)
        assert out.splitlines()[-1].startswith(f"{newest}.")
        run_tests(root, Path("/src/build/env"))
