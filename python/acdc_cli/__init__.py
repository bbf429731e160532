# SPDX-License-Identifier: Apache-2.0

"""What our commands have in common: how they end, a kind of argument, modules' files."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import signal
import sys
import zlib
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

# Debian's packages of modules that may be missing.
PACKAGES = {
    "matplotlib": "python3-matplotlib",
    "mininet": "--no-install-recommends mininet",
    "ovs": "python3-openvswitch",
    "prometheus_client": "python3-prometheus-client",
    "rich": "python3-rich",
}
# Of ip, tc and modinfo, which cron's PATH lacks.
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".ko": bytes,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
}


@contextmanager
def ending(program: str, failed: int = 1) -> Iterator[None]:
    """Around a program's imports and its main().

    If the reader of standard output has gone, the program ends as any filter does, by SIGPIPE.
    A full disk, another error of the system, or a module that is not installed is a line on
    standard error and the exit status 'failed'.  After Ctrl-C the exit status is 130.

    What the system's administrator may run is found, whatever PATH is.  Letters that the locale
    lacks are printed as their codes."""
    places = os.environ.get("PATH") or os.defpath
    if not places.endswith(SBIN):
        os.environ["PATH"] = f"{places}:{SBIN}"
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            # None: it was closed when the program began.
            if sys.stdout:
                sys.stdout.flush()
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
    except OSError as error:
        _fail(f"{program}: {error}", failed)
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in PACKAGES:
            raise
        _fail(f"{program}: {error}: apt-get install {PACKAGES[name]}", failed)
    except KeyboardInterrupt:
        sys.exit(130)


def seconds(text: str) -> float:
    """For add_argument(type=...): at most an hour."""
    with suppress(ValueError):
        if 0 < (value := float(text)) <= 3600:
            return value
    raise ArgumentTypeError(f"'{text}': want more than 0, and at most 3600 seconds")


def is_module(note: bytes, path: Path) -> bool | None:
    """Whether the kernel's module with that build ID is the one in 'path', which may be
    compressed.  None: it is damaged, or nothing here unpacks it."""
    data = path.read_bytes()
    try:
        return note in UNPACK[path.suffix](data)
    except (KeyError, EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error):
        return None


def _fail(message: str, status: int) -> NoReturn:
    print(message, file=sys.stderr)
    if sys.stdout:
        # What is left in its buffer would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
