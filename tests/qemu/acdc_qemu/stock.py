# SPDX-License-Identifier: Apache-2.0

"""The distribution's own kernel, without installing it on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from acdc_qemu.machine import OUT, ROOT, Failure, Machine, output

# What a root file system over 9p needs.
ROOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_rng")
DRIVERS = ("virtio", "char", "net", "vxlan")
DKMS = ROOT / "utilities" / "acdc-dkms"


def release() -> tuple[str, str]:
    """The kernel of the installed linux-headers-amd64, and its package version."""
    depends = output("dpkg-query", "-W", "-f", "${Depends}", "linux-headers-amd64")
    match = re.search(r"linux-headers-(6\.1\.\S+) \(= (\S+)\)", depends)
    if not match:
        raise Failure(f"linux-headers-amd64 is not of Linux 6.1: it depends on {depends}")
    return match[1], match[2]


def image() -> Path:
    """The package's files, with its modules where /usr/lib has them."""
    kernel, version = release()
    target = OUT / f"stock-{kernel}-{version}"
    if target.exists():
        return target
    package = f"linux-image-{kernel}"
    print(f"fetching {package}", flush=True)
    fresh = target.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    output("apt-get", "download", "-q", f"{package}={version}", cwd=fresh)
    (deb,) = fresh.glob("*.deb")
    output("dpkg-deb", "-x", deb, fresh)
    deb.unlink()
    # /lib is a link in the machine's root, and a directory here would hide it.
    (fresh / "usr").mkdir(exist_ok=True)
    (fresh / "lib").rename(fresh / "usr/lib")
    (fresh / "lib").symlink_to("usr/lib")
    # depmod reads every module, over 9p and emulated: without most drivers it
    # takes seconds, not minutes.
    modules = fresh / "usr/lib/modules" / kernel / "kernel"
    shutil.rmtree(modules / "sound")
    for path in [*(modules / "drivers").iterdir(), *(modules / "drivers/net").iterdir()]:
        if path.is_dir() and path.name not in DRIVERS:
            shutil.rmtree(path)
    output("depmod", "-b", fresh, kernel)
    fresh.rename(target)
    return target


def machine(*layers: Path) -> Machine:
    kernel, _ = release()
    files = image()
    modules: list[Path] = []
    for name in ROOT_MODULES:
        text = output("modprobe", "-d", files, "-S", kernel, "--show-depends", name)
        paths = [Path(line.split()[1]) for line in text.splitlines() if line.startswith("insmod")]
        modules += [path for path in paths if path not in modules]
    return Machine(files / f"boot/vmlinuz-{kernel}", modules, (*layers, files))


def build_module(layer: Path) -> None:
    """acdc-dkms build on this machine for the other's kernel; what it writes to
    /usr/src and /var/lib/dkms goes to 'layer'."""
    kernel, _ = release()
    source, work, tree = layer / "usr/src", layer.with_suffix(".work"), layer / "var/lib/dkms"
    for path in (source, work, tree):
        path.mkdir(parents=True)
    # Mounts of its own, gone with it.
    script = (
        f'mount -t overlay -o "lowerdir=/usr/src,upperdir=$1,workdir=$2" src /usr/src'
        f' && mount --bind "$3" /var/lib/dkms && exec "$4" build -k {kernel}'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", source, work, tree, DKMS]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode:
        raise Failure(f"acdc-dkms build:\n{done.stdout}{done.stderr}")
