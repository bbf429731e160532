# SPDX-License-Identifier: Apache-2.0

"""The checking kernel (lockdep, KASAN, RCU's own checks: kernel.config)
and our module for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from acdc_qemu.machine import OUT, QEMU, ROOT, Failure, Machine, need

TARBALL = Path("/usr/src/linux-source-6.1.tar.xz")
SOURCE = OUT / "linux-source-6.1"
MODULE = OUT / "module"
MAKE = ["make", "-s", "ARCH=x86_64", f"-j{os.cpu_count() or 1}"]


@dataclass(frozen=True)
class Fault:
    """A mistake to put into the module, which its check must find."""

    path: str
    edits: tuple[tuple[str, str], ...]
    found: str  # In the kernel's report; empty: it is none, and nothing may be found.


# Where a port gets another handle: time for the old one to be freed, and for packets to
# use whatever the vport has meanwhile.
BOUND = "\trcu_assign_pointer(vport->acdc, port);\n"
SLEEP = "\trcu_barrier();\n\tschedule_timeout_uninterruptible(HZ / 10);\n"


FAULTS = {
    # A vport keeps a handle that the engine frees.
    "free": Fault(
        "acdc/acdc-genl.c",
        (
            (
                "\t\tif (vport)\n\t\t\tRCU_INIT_POINTER(vport->acdc, NULL);\n",
                "\t\t(void)vport;\n",
            ),
        ),
        "KASAN: use-after-free",
    ),
    # A lock that softirqs take, with softirqs on.
    "lock": Fault(
        "acdc/acdc-platform.h",
        (
            (
                "{ spin_lock_bh(l); }\nstatic inline void acdc_unlock(acdc_lock_t *l)"
                " { spin_unlock_bh(l); }",
                "{ spin_lock(l); }\n"
                "static inline void acdc_unlock(acdc_lock_t *l) { spin_unlock(l); }",
            ),
        ),
        "inconsistent lock state",
    ),
    # Memory for a flow from an allocator that may sleep.
    "sleep": Fault(
        "acdc/acdc-linux.c",
        (("kzalloc(size, GFP_ATOMIC | __GFP_NOWARN)", "kzalloc(size, GFP_KERNEL)"),),
        "sleeping function called",
    ),
    # A port that moves to another tenant keeps its handle until it has the new one.
    "rebind": Fault(
        "acdc/acdc-genl.c",
        (("if (old && !acdc_port_is(", "if (false && !acdc_port_is("), (BOUND, SLEEP + BOUND)),
        "KASAN: use-after-free",
    ),
    "slow-rebind": Fault("acdc/acdc-genl.c", ((BOUND, SLEEP + BOUND),), ""),
}


def run(command: list[str | Path], log: str, cwd: Path | None = None) -> None:
    path = OUT / f"{log}.log"
    with path.open("w") as out:
        done = subprocess.run(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT)
    if done.returncode:
        tail = path.read_text(errors="replace").splitlines()[-25:]
        raise Failure("\n".join([*tail, f"{' '.join(map(str, command))} failed, see {path}"]))


def digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def is_new(stamp: Path, value: str) -> bool:
    return not stamp.exists() or stamp.read_text() != value


def kernel() -> None:
    """Builds it, once: 20 to 30 minutes on two busy processors."""
    need("bc", "flex", "bison", "gcc")
    if not TARBALL.exists():
        raise Failure(f"{TARBALL} is missing: build-aux/install-deps qemu")
    fragment = QEMU / "kernel.config"
    stat = TARBALL.stat()
    unpacked, built = OUT / "source.stamp", OUT / "kernel.stamp"
    value = f"{stat.st_size} {stat.st_mtime_ns}"
    if is_new(unpacked, value):
        print("unpacking the kernel's source", flush=True)
        shutil.rmtree(SOURCE, ignore_errors=True)
        run(["tar", "-C", OUT, "-xf", TARBALL], "unpack")
        unpacked.write_text(value)
    value += digest(fragment)
    if not is_new(built, value):
        return
    print("building the checking kernel (minutes)", flush=True)
    run([*MAKE, "tinyconfig"], "config", SOURCE)
    run([SOURCE / "scripts/kconfig/merge_config.sh", "-m", ".config", fragment], "config", SOURCE)
    run([*MAKE, "olddefconfig"], "config", SOURCE)
    config = set((SOURCE / ".config").read_text().splitlines())
    wanted = [
        # As the kernel writes what is off.
        f"# {line[:-2]} is not set" if line.endswith("=n") else line
        for line in fragment.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    if lost := [line for line in wanted if line not in config]:
        raise Failure("the kernel refused " + " ".join(lost))
    run([*MAKE, "bzImage", "modules"], "kernel", SOURCE)
    built.write_text(value)


def module(layer: Path, fault: str | None) -> None:
    """Builds it as acdc-dkms does, into the layer's /lib/modules."""
    pristine = OUT / "module-source"
    inputs = [path for path in sorted(ROOT.glob("datapath/**/*")) if path.is_file()]
    inputs += [path for path in sorted(ROOT.glob("ovs-patches/linux/**/*")) if path.is_file()]
    inputs.append(ROOT / "utilities/acdc-dkms")
    value, stamp = digest(*inputs) + (OUT / "kernel.stamp").read_text(), OUT / "module.stamp"
    if is_new(stamp, value):
        run([ROOT / "utilities/acdc-dkms", "source", pristine, "-k", "6.1"], "module-source")
        stamp.write_text(value)
    print(f"building the module{f' with a fault: {fault}' if fault else ''}", flush=True)
    for path in pristine.rglob("*.[ch]"):
        text = path.read_text()
        name = path.relative_to(pristine)
        if fault and FAULTS[fault].path == str(name):
            for right, wrong in FAULTS[fault].edits:
                if right not in text:
                    raise Failure(f"{name} has changed: fault {fault} does not apply")
                text = text.replace(right, wrong)
        _write(MODULE / name, text)
    _write(MODULE / "Makefile", (pristine / "Makefile").read_text())
    run([*MAKE, "-C", SOURCE, f"M={MODULE}", "modules"], "module")
    release = (SOURCE / "include/config/kernel.release").read_text().strip()
    target = layer / "usr/lib/modules" / release
    target.mkdir(parents=True)
    for path in (*MODULE.glob("*.ko"), SOURCE / "modules.builtin", SOURCE / "modules.order"):
        shutil.copy2(path, target)
    run(["depmod", "-b", layer / "usr", release], "depmod")


def _write(path: Path, text: str) -> None:
    """So that make compiles only what differs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def machine(layer: Path) -> Machine:
    # It did not find an engine that was left behind on purpose: by hand only.
    options = ["kmemleak=off"]
    return Machine(SOURCE / "arch/x86/boot/bzImage", (), [layer], memory="2G", options=options)
