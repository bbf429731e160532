# SPDX-License-Identifier: Apache-2.0

"""The checking kernels (lockdep, KASAN, RCU's own checks: kernel.config; or
KCSAN: kcsan.config) and our module for them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from acdc_qemu.machine import OUT, QEMU, ROOT, Failure, Machine, need

DEFAULT = "6.1"
VERSIONS = (ROOT / "ovs-patches/linux/versions").read_text().split()
FRAGMENTS = {"kasan": ["kernel.config"], "kcsan": ["kernel.config", "kcsan.config"]}
MAKE = ["make", "-s", "ARCH=x86_64", f"-j{os.cpu_count() or 1}"]


@dataclass(frozen=True)
class Fault:
    """A mistake to put into the module, which its check must find."""

    path: str
    edits: tuple[tuple[str, str], ...]
    found: str  # In the kernel's report; empty: it is none, and nothing may be found.
    check: str = "kasan"  # What finds it.


# Where a port gets another handle: time for the old one to be freed, and for packets to
# use whatever the vport has meanwhile.
BOUND = "\trcu_assign_pointer(vport->acdc, port);\n"
SLEEP = "\trcu_barrier();\n\tschedule_timeout_uninterruptible(HZ / 10);\n"
PRIVATE = '#include "acdc-private.h"\n'
ALIVE = "!(f->flags & ACDC_F_DEAD))) {\n            break;"


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
    # One packet in 64 finds its flow dead, and looks for it again: no mistake.
    "dead": Fault(
        "acdc/acdc-table.h",
        (
            (PRIVATE, "#include <linux/random.h>\n" + PRIVATE),
            (ALIVE, ALIVE.replace("))) {", ") && (get_random_u32() & 63))) {")),
        ),
        "",
    ),
    # Processors count packets in one place.
    "race": Fault(
        "acdc/acdc-platform.h",
        (("    spin_lock(l);\n", "    static u32 n;\n\n    n++;\n    spin_lock(l);\n"),),
        "KCSAN: data-race",
        "kcsan",
    ),
}


def digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


class Checking:
    """Of one version of Linux, for one of FRAGMENTS."""

    def __init__(self, linux: str, check: str = "kasan") -> None:
        self.linux = linux
        name = OUT.name + (f"-{linux}" if linux != DEFAULT else "")
        self.out = OUT.with_name(name + ("" if check == "kasan" else f"-{check}"))
        self.fragments = [QEMU / fragment for fragment in FRAGMENTS[check]]
        # Data races are looked for in our files only: Linux has many on purpose.
        self.make = [*MAKE, "KCSAN_SANITIZE=n"] if check == "kcsan" else MAKE
        self.source = self.out / f"linux-source-{linux}"
        self.tarball = Path(f"/usr/src/linux-source-{linux}.tar.xz")

    def run(self, command: list[str | Path], log: str, cwd: Path | None = None) -> None:
        path = self.out / f"{log}.log"
        with path.open("w") as out:
            done = subprocess.run(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT)
        if done.returncode:
            tail = path.read_text(errors="replace").splitlines()[-25:]
            raise Failure("\n".join([*tail, f"{' '.join(map(str, command))} failed, see {path}"]))

    def changed(self, stamp: str, value: str) -> bool:
        path = self.out / f"{stamp}.stamp"
        return not path.exists() or path.read_text() != value

    def keep(self, stamp: str, value: str) -> None:
        (self.out / f"{stamp}.stamp").write_text(value)

    def kernel(self) -> None:
        """Builds it, once: 20 to 30 minutes on two busy processors."""
        need("bc", "flex", "bison", "gcc")
        if not self.tarball.exists():
            group = "qemu" if self.linux == DEFAULT else f"lab-{self.linux}"
            raise Failure(f"{self.tarball} is missing: build-aux/install-deps {group}")
        self.out.mkdir(parents=True, exist_ok=True)
        stat = self.tarball.stat()
        value = f"{stat.st_size} {stat.st_mtime_ns}"
        if self.changed("source", value):
            print("unpacking the kernel's source", flush=True)
            shutil.rmtree(self.source, ignore_errors=True)
            self.run(["tar", "-C", self.out, "-xf", self.tarball], "unpack")
            self.keep("source", value)
        value += digest(*self.fragments)
        if not self.changed("kernel", value):
            return
        print("building the checking kernel (minutes)", flush=True)
        self.configure()
        self.run([*self.make, "bzImage", "modules"], "kernel", self.source)
        self.keep("kernel", value)

    def configure(self) -> None:
        merge = self.source / "scripts/kconfig/merge_config.sh"
        self.run([*self.make, "tinyconfig"], "config", self.source)
        self.run([merge, "-m", ".config", *self.fragments], "config", self.source)
        self.run([*self.make, "olddefconfig"], "config", self.source)
        config = set((self.source / ".config").read_text().splitlines())
        wanted: dict[str, str] = {}  # The last fragment's.
        for fragment in self.fragments:
            for line in fragment.read_text().splitlines():
                if line.startswith("CONFIG_"):
                    name, _, wanted[name] = line.partition("=")
        lost = [
            f"{name}={value}"
            for name, value in wanted.items()
            if (f"{name}=y" in config if value == "n" else f"{name}={value}" not in config)
        ]
        if lost:
            raise Failure("the kernel refused " + " ".join(lost))

    def module(self, layer: Path, fault: str | None) -> None:
        """Builds it as acdc-dkms does, into the layer's /lib/modules."""
        pristine, module = self.out / "module-source", self.out / "module"
        inputs = [path for path in sorted(ROOT.glob("datapath/**/*")) if path.is_file()]
        inputs += [path for path in sorted(ROOT.glob("ovs-patches/linux/**/*")) if path.is_file()]
        inputs.append(ROOT / "utilities/acdc-dkms")
        value = digest(*inputs) + (self.out / "kernel.stamp").read_text()
        if self.changed("module", value):
            dkms = ROOT / "utilities/acdc-dkms"
            self.run([dkms, "source", pristine, "-k", self.linux], "module-source")
            self.keep("module", value)
        print(f"building the module{f' with a fault: {fault}' if fault else ''}", flush=True)
        for path in pristine.rglob("*"):
            if path.is_file():
                name = path.relative_to(pristine)
                _write(module / name, _with_fault(path.read_text(), str(name), fault))
        stems = [f"{folder}{path.stem}" for path in module.glob("acdc/*.c") for folder in ("", "acdc/")]
        ours = [f"KCSAN_SANITIZE_{stem}.o=y" for stem in stems]  # 6.1: without the directory.
        self.run([*self.make, *ours, "-C", self.source, f"M={module}", "modules"], "module")
        release = (self.source / "include/config/kernel.release").read_text().strip()
        target = layer / "usr/lib/modules" / release
        target.mkdir(parents=True)
        for name in ("modules.builtin", "modules.order"):
            shutil.copy2(self.source / name, target)
        for path in module.glob("*.ko"):
            shutil.copy2(path, target)
        self.run(["depmod", "-b", layer / "usr", release], "depmod")

    def machine(self, layer: Path) -> Machine:
        # It did not find an engine that was left behind on purpose: by hand only.
        options = ["kmemleak=off"]
        image = self.source / "arch/x86/boot/bzImage"
        return Machine(image, (), [layer], memory="2G", options=options)


def _with_fault(text: str, name: str, fault: str | None) -> str:
    if fault and FAULTS[fault].path == name:
        for right, wrong in FAULTS[fault].edits:
            if right not in text:
                raise Failure(f"{name} has changed: fault {fault} does not apply")
            text = text.replace(right, wrong)
    return text


def _write(path: Path, text: str) -> None:
    """So that make compiles only what differs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
