# SPDX-License-Identifier: Apache-2.0

"""Commands' arguments: types for argparse, whose errors say what is allowed, and what a
command says that refuses them."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T", int, float)


def _within(kind: Callable[[str], T], least: T, most: T, want: str) -> Callable[[str], T]:
    def convert(text: str) -> T:
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"'{text}': want {want}")

    return convert


def whole(least: int, most: int) -> Callable[[str], int]:
    return _within(int, least, most, f"a whole number, {least} to {most}")


def real(least: float, most: float) -> Callable[[str], float]:
    return _within(float, least, most, f"{least:g} to {most:g}")


def wholes(least: int, most: int) -> Callable[[str], list[int]]:
    """Several, separated by commas."""
    convert = whole(least, most)
    return lambda text: [convert(word) for word in text.split(",")]


def some(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Some of 'known', separated by commas."""
    names = list(known)

    def convert(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in names:
                raise argparse.ArgumentTypeError(f"'{word}': want some of {','.join(names)}")
        return words

    return convert


def refusal(command: Sequence[str | Path]) -> str:
    """What it says to arguments that it does not take."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()[-1]
