#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our part of Open vSwitch's schema and vswitch.xml: ovs-patches/schema, with the
parameters of a policy from their list, datapath/acdc-params.h.

In acdc.ovsschema and in the fleet's, "parameters": null becomes their columns.  In acdc.xml
<parameters/> becomes what each of them means, <parameters of="TABLE"/> their names.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]


class Failure(Exception):
    """What is wrong in a list."""


@dataclass
class Parameter:
    number: int
    name: str
    kind: str
    minimum: str
    maximum: str
    default: str
    key: str | None  # Of other_config; else it is a column.
    text: str

    def limits(self, names: dict[str, list[str]]) -> dict[str, Any]:
        """The type of a value, as the schema has it."""
        if self.kind in names:
            return {"type": "string", "enum": ["set", sorted(names[self.kind])]}
        if self.kind == "BOOL":
            return {"type": "boolean"}
        if self.kind == "FRACTION":
            # 1 in fixed point is 0.95e-6.
            low = {"0": 0.0, "1": 1e-6}[self.minimum]
            return {"type": "real", "minReal": low, "maxReal": 1.0}
        low, high = int(self.minimum), int(self.maximum)
        return {"type": "integer", "minInteger": low, "maxInteger": high}


def comment(text: str) -> str:
    """The text of a C comment, without its stars."""
    return re.sub(r"^ \* ?", "", text.strip(), flags=re.M)


def parameters(project: Path) -> list[Parameter]:
    """The list, in its order."""
    path = project / "datapath/acdc-params.h"
    found = re.findall(
        r"^/\* ((?:(?!\*/).)*?)\*/\nACDC_PARAM\((\d+), (\w+), (\w+), (\w+), (\w+), ([^,]+),"
        r"\s+([^,]+), (?:COLUMN|KEY\(\"([\w-]+)\"\)),",
        path.read_text(), re.M | re.S,
    )  # fmt: skip
    everything = [
        Parameter(int(number), name, kind, low, high, default, key or None, comment(text))
        for text, number, _, name, kind, low, high, default, key in found
    ]
    if len(everything) != len(re.findall(r"^ACDC_PARAM\(", path.read_text(), re.M)):
        raise Failure(f"{path}: an entry without a comment, or of another form")
    if sorted(p.number for p in everything) != list(range(1, len(everything) + 1)):
        raise Failure(f"{path}: a number that is missing or there twice")
    for parameter in everything:
        if parameter.key and parameter.kind != "BOOL":
            raise Failure(f"{path}: {parameter.name}: only a BOOL may be a KEY")
    return everything


def value_names(project: Path) -> dict[str, list[str]]:
    """Of the kinds that are enumerations, the names of the values."""
    algorithms = (project / "datapath/acdc-algorithms.h").read_text()
    found = re.findall(r"^ACDC_ALGORITHM\(\w+, (\w+), (.*)\)$", algorithms, re.M)
    modes = re.findall(r"^    ACDC_MODE_(\w+),", (project / "datapath/acdc.h").read_text(), re.M)
    return {
        "ALGORITHM": ["none", *(name for name, _ in found)],
        "FALLBACK": ["none", *(name for name, about in found if "FALLBACK" in about)],
        "MODE": [name.lower() for name in modes],
    }


def columns(project: Path) -> dict[str, Any]:
    """The columns, for the schema.  Each may be without a value."""
    names = value_names(project)
    return {
        parameter.name: {"type": {"key": parameter.limits(names), "min": 0}}
        for parameter in parameters(project)
        if not parameter.key
    }


def schema(project: Path, name: str = "ovs-patches/schema/acdc.ovsschema") -> str:
    """acdc.ovsschema, or another, with the columns."""
    ours = json.loads((project / name).read_text())
    for table in ours["tables"].values():
        completed: dict[str, Any] = {}
        for name, column in table["columns"].items():
            completed |= {name: column} if column else columns(project)
        table["columns"] = completed
    return json.dumps(ours, indent=1) + "\n"


def element(parameter: Parameter, text: str) -> str:
    head = f'<column name="{parameter.name}"'
    if parameter.key:
        head = f'<column name="other_config" key="{parameter.key}" type=\'{{"type": "boolean"}}\''
    if not text:
        return f"{head}/>\n"
    return f"{head}>\n{textwrap.indent(text, '  ')}\n</column>\n"


def manual(project: Path) -> str:
    """acdc.xml with what each parameter means."""

    def replace(match: re.Match[str]) -> str:
        short = match[2] is not None
        parts = [element(p, "" if short else p.text) for p in parameters(project)]
        return textwrap.indent(("" if short else "\n").join(parts), match[1])

    text = (project / "ovs-patches/schema/acdc.xml").read_text()
    return re.sub(r'^( *)<parameters( of="\w+")?/>\n', replace, text, flags=re.M)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=["schema", "fleet", "manual"])
    args = parser.parse_args()
    match args.what:
        case "schema":
            print(schema(PROJECT), end="")
        case "fleet":
            print(schema(PROJECT, "python/acdc_fleet/acdc-fleet.ovsschema"), end="")
        case "manual":
            print(manual(PROJECT), end="")


if __name__ == "__main__":
    main()
