# SPDX-License-Identifier: Apache-2.0

"""A machine of qemu: a kernel of the test's choice over this machine's root,
which it can read but not change.  Emulated throughout, so that it runs where
there is no KVM, about 15 times slower than the machine itself."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

QEMU = Path(__file__).resolve().parents[1]
ROOT = QEMU.parents[1]
OUT = ROOT / "build" / "qemu"
BUSYBOX = Path("/bin/busybox")

# What a kernel says when something is wrong with it.
TROUBLE = re.compile(
    r"WARNING:|BUG:|BUG |Oops|general protection|Call Trace|Kernel panic|suspicious RCU"
    r"|UBSAN:|INFO: (?:possible|inconsistent|task|trying|rcu)|rcu: INFO|ODEBUG"
    r"|refcount_t:|unregister_netdevice: waiting|self-detected stall|blocked for more than"
    r"|kmem_cache_destroy|Objects remaining|workqueue lockup|soft lockup"
)


class Failure(Exception):
    """Why there is no result; the message is for the user."""


def need(*programs: str) -> None:
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        raise Failure(f"{', '.join(missing)} not found: build-aux/install-deps qemu")


def output(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclass
class Result:
    status: int | None  # The guest's program's, None if it did not end.
    trouble: list[str]
    seconds: float


@dataclass
class Machine:
    kernel: Path
    # For the root file system, in the order in which they are loaded.
    modules: Sequence[Path] = ()
    # Directories over this machine's root, the topmost first.
    layers: Sequence[Path] = ()
    cpus: int = 2
    memory: str = "4G"
    accel: str = "tcg,thread=multi"
    options: Sequence[str] = ()  # The kernel's.
    qemu: Sequence[str] = ()  # More of qemu's own.

    def _initramfs(self, scratch: Path) -> Path:
        stage = scratch / "initramfs"
        for name in ("bin", "modules", "root", "dev"):
            (stage / name).mkdir(parents=True)
        shutil.copy2(BUSYBOX, stage / "bin/busybox")
        shutil.copy2(QEMU / "guest/init", stage / "init")
        for module in self.modules:
            shutil.copy2(module, stage / "modules")
        order = "".join(f"{module.name}\n" for module in self.modules)
        (stage / "modules/order").write_text(order)
        # The console, for the first process.
        os.mknod(stage / "dev/console", 0o20600, os.makedev(5, 1))
        archive = scratch / "initramfs.cpio"
        archive.write_bytes(
            subprocess.run(
                "find . | cpio -o -H newc --quiet",
                shell=True, cwd=stage, check=True, stdout=subprocess.PIPE,
            ).stdout
        )  # fmt: skip
        shutil.rmtree(stage)
        return archive

    def _command(self, initramfs: Path, program: Sequence[str | Path]) -> list[str]:
        shares = {f"layer{i}": path for i, path in enumerate([*self.layers, Path("/")])}
        append = [
            # On a busy machine the timer's interrupt comes too late for the check.
            "console=ttyS0", "panic=-1", "printk.devkmsg=on", "no_timer_check", *self.options,
            f'acdc_layers="{" ".join(shares)}"', "--",
            str(QEMU / "guest/boot"), *map(str, program),
        ]  # fmt: skip
        command = [
            "setpriv", "--pdeathsig", "KILL", "--",
            "qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none",
            "-accel", self.accel, "-cpu", "max", "-smp", f"{self.cpus},sockets={self.cpus}",
            "-m", self.memory, "-nic", "none", "-no-reboot", "-serial", "stdio",
            "-device", "virtio-rng-pci",
            "-kernel", str(self.kernel), "-initrd", str(initramfs), "-append", " ".join(append),
        ]  # fmt: skip
        for tag, path in shares.items():
            command += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,"
                        "readonly=on,multidevs=remap"]  # fmt: skip
        return [*command, *self.qemu]

    def start(self, program: Sequence[str | Path], scratch: Path) -> subprocess.Popen[bytes]:
        """Boots it and runs 'program' in it as root.  Everything said goes to
        console.log."""
        need("qemu-system-x86_64", "cpio", "busybox")
        command = self._command(self._initramfs(scratch), program)
        with (scratch / "console.log").open("wb") as stream:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip

    def run(self, program: Sequence[str | Path], scratch: Path, timeout: float) -> Result:
        """The same to its end; shows progress: lines that begin with "qemu> "."""
        began = time.monotonic()
        result = Result(None, [], 0)
        process = self.start(program, scratch)
        try:
            with (scratch / "console.log").open(errors="replace", newline="\n") as lines:
                pending = ""
                ended = False
                deadline = began + timeout
                while time.monotonic() < deadline:
                    pending += lines.readline()
                    if pending.endswith("\n"):
                        self._take(pending.strip(), result, time.monotonic() - began)
                        pending = ""
                        if result.trouble:
                            # Time for the rest of the report.
                            deadline = min(deadline, time.monotonic() + 30)
                    elif ended:
                        break
                    else:
                        ended = process.poll() is not None
                        time.sleep(0 if ended else 0.2)
                else:
                    if not result.trouble:
                        result.trouble.append(f"took longer than {timeout:.0f} s")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        result.seconds = time.monotonic() - began
        return result

    @staticmethod
    def _take(line: str, result: Result, seconds: float) -> None:
        if line.startswith("qemu> exit "):
            result.status = int(line.split()[-1])
        elif line.startswith("qemu> "):
            print(f"[{seconds:4.0f}s] {line[6:]}", flush=True)
        elif TROUBLE.search(line):
            result.trouble.append(line)
