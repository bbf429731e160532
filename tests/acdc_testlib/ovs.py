# SPDX-License-Identifier: Apache-2.0

"""A private Open vSwitch: ovsdb-server and ovs-vswitchd in a network namespace
of their own, with a run directory of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acdc_ovs
from acdc_ovs import OvsError as CommandError
from acdc_testlib.netns import Netns, Tap
from acdc_testlib.programs import Programs

__all__ = ["CommandError", "Ovs", "datapath_type"]

_PREFIX = "acdc-test-"
_STALE = 24 * 3600  # s


def _remove_stale_directories() -> None:
    """Run directories of tests that were killed with SIGKILL; the kernel has
    ended everything else of theirs.  New ones may be of another PID namespace."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        gone = not Path("/proc", path.name.removeprefix(_PREFIX).split("-")[0]).exists()
        with contextlib.suppress(FileNotFoundError):
            if gone and time.time() - path.stat().st_mtime > _STALE:
                shutil.rmtree(path, ignore_errors=True)


def datapath_type() -> str:
    """ACDC_TEST_DATAPATH: netdev (userspace, the default) or system (kernel)."""
    value = os.environ.get("ACDC_TEST_DATAPATH", "netdev")
    if value not in ("netdev", "system"):
        raise ValueError(f"ACDC_TEST_DATAPATH={value}: want netdev or system")
    return value


# With ACDC_MEMCHECK in the environment every ovs-vswitchd runs under it, and what it
# finds fails the test.
MEMCHECK = (
    "valgrind", "--quiet", "--fair-sched=yes", "--num-callers=25", "--leak-check=full",
    "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
    f"--suppressions={Path(__file__).with_name('memcheck.supp')}",
)  # fmt: skip


def under_memcheck() -> bool:
    return bool(os.environ.get("ACDC_MEMCHECK"))


class Ovs(acdc_ovs.Ovs):
    """Runs as soon as it is made.  Use as a context manager, or call close()."""

    patience = 60 if under_memcheck() else 10

    def __init__(self, programs: acdc_ovs.Programs | None = None, ipv6: bool = False) -> None:
        _remove_stale_directories()
        self.dir = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        super().__init__(self.dir, programs or Programs.patched(), datapath_type())
        self.ns = Netns(ipv6=ipv6)
        self._taps: list[Tap] = []
        self._guests: list[Netns] = []
        self.start()

    def _popen(self, program: Path, words: list[str], **options: Any) -> subprocess.Popen[Any]:
        checker: list[str] = []
        if program == self.programs.vswitchd and under_memcheck():
            checker = [*MEMCHECK, f"--log-file={self.dir}/memcheck.%p"]
        return self.ns.popen(*checker, *words, **options)

    @property
    def vswitchd_pid(self) -> int:
        return self.pid()

    def stop(self) -> None:
        super().stop()
        for tap in self._taps:
            tap.close()
        for guest in self._guests:
            guest.close()
        self._taps, self._guests = [], []
        self.ns.close()
        assert not under_memcheck() or list(self.dir.glob("memcheck.*"))
        found = "".join(file.read_text(errors="replace") for file in self.dir.glob("memcheck.*"))
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not found, found

    close = stop

    # Commands.

    def ovs_appctl(self, *argv: str) -> str:
        """The program itself, as an operator runs it."""
        return self._run(self.programs.appctl, "--timeout=20", "-t", self._control, *argv)

    def vsctl_json(self, *argv: str) -> list[dict[str, Any]]:
        """`ovs-vsctl list/find ...` as one dictionary a row, OVSDB JSON values."""
        table = json.loads(self.vsctl("--format=json", *argv))
        return [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]

    # Ports.

    def add_tap(self, bridge: str, name: str, mtu: int = 1500, vnet_hdr: bool = False) -> Tap:
        """A guest whose frames the test writes and reads."""
        tap = Tap(self.ns, name, mtu, vnet_hdr)
        self._taps.append(tap)
        self.add_port(bridge, name)
        return tap

    def remove_tap(self, tap: Tap) -> None:
        self.del_port(tap.name)
        self._taps.remove(tap)
        tap.close()

    def add_guest(self, bridge: str, name: str, *addresses: str, mtu: int = 1500) -> Netns:
        """A guest with a stack of its own: a namespace whose eth0 is the other
        end of the veth 'name' on the bridge."""
        guest = Netns()
        self._guests.append(guest)
        self.ns.veth_to(name, guest, "eth0", mtu)
        guest.add_addresses("eth0", *addresses)
        self.add_port(bridge, name)
        return guest

    def connect(self, bridge: str, a: str, b: str) -> None:
        """Everything from a goes to b, and the other way round."""
        pa, pb = self.ofport(a), self.ofport(b)
        self.ofctl("add-flow", bridge, f"in_port={pa},actions=output:{pb}")
        self.ofctl("add-flow", bridge, f"in_port={pb},actions=output:{pa}")

    # AC/DC.

    @contextlib.contextmanager
    def bound(self, interface: str, tenant: str = "blue", **columns: object) -> Iterator[None]:
        """A tenant with one guest port, gone afterwards."""
        self.set_tenant(tenant, **columns)
        self.bind(tenant, interface)
        try:
            yield
        finally:
            self.bind(None, interface)
            self.del_tenant(tenant)
