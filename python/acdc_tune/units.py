# SPDX-License-Identifier: Apache-2.0

"""Rates, times and sizes, as people write them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple


class Problem(Exception):
    """What the user gave cannot be; the message has the value and the limit."""


class Quantity(NamedTuple):
    units: dict[str, int]
    least: str
    most: str
    example: str


RATE = Quantity(
    {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12},
    "1mbit",
    "2tbit",
    "10gbit",
)
"""Bits per second."""
TIME = Quantity({"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}, "1ns", "100ms", "5us")
"""Nanoseconds."""
SIZE = Quantity(
    {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30},
    "1kb",
    "4gb",
    "4MB",
)
"""Bytes."""


def _number(text: str, quantity: Quantity) -> Fraction | None:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]+)", text.strip().lower())
    if not found or found[2] not in quantity.units:
        return None
    return Fraction(found[1]) * quantity.units[found[2]]


def parse(text: object, quantity: Quantity, where: str) -> Fraction:
    value = _number(str(text), quantity)
    if value is None:
        units = " ".join(quantity.units)
        raise Problem(
            f"{where}: {text!r} is not a number with a unit ({units}), such as {quantity.example}"
        )
    least, most = (_number(limit, quantity) for limit in (quantity.least, quantity.most))
    assert least is not None and most is not None
    if not least <= value <= most:
        raise Problem(f"{where}: {text} is not between {quantity.least} and {quantity.most}")
    return value


def count(value: object, least: int, most: int, where: str) -> int:
    """A whole number: as YAML has it, or in digits."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]+", text):
        raise Problem(f"{where}: {value!r} is not a whole number")
    if not least <= int(text) <= most:
        raise Problem(f"{where}: {text} is not between {least} and {most}")
    return int(text)


def _short(value: Fraction, unit: str) -> str:
    text = f"{float(value):.3f}".rstrip("0").rstrip(".")
    return f"{text} {unit}"


def show_rate(rate: Fraction) -> str:
    for unit, factor in (("Gbit/s", 10**9), ("Mbit/s", 10**6)):
        if rate >= factor:
            return _short(rate / factor, unit)
    return _short(rate / 1000, "kbit/s")


def show_time(time: Fraction) -> str:
    return _short(time / 1000, "us")


def show_size(size: Fraction | int) -> str:
    return _short(Fraction(size) / 1000, "KB")
