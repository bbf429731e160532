# SPDX-License-Identifier: Apache-2.0

"""Types of commands' arguments for argparse, whose errors say what is allowed."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable


def whole(least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        with contextlib.suppress(ValueError):
            if least <= (value := int(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"'{text}': want a whole number, {least} to {most}")

    return convert


def real(least: float, most: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= (value := float(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"'{text}': want {least:g} to {most:g}")

    return convert


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
