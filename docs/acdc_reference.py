# SPDX-License-Identifier: Apache-2.0

"""Sphinx directives that make reference tables from the sources, so that they
cannot differ from them:

.. acdc-counters:: PREFIX...    the counters of datapath/acdc-counters.h whose
                                names begin with one of PREFIX; *: all that the
                                page has not shown yet, if any, as "Others"
.. acdc-table:: ACDC            columns of a table, from our part of the schema
                                and of vswitch.xml
.. acdc-keys:: Open_vSwitch     our keys of another table's columns
.. acdc-tiers::                 the tiers of tests/run.py that have tests
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[1]
COUNTERS = ROOT / "datapath" / "acdc-counters.h"
sys.path.append(str(ROOT / "build-aux"))

import acdc_params  # noqa: E402


@cache
def counters() -> list[tuple[str, str]]:
    """Names and descriptions, in order."""
    pattern = r'^ACDC_COUNTER\(\w+,\s*"(\w+)",\s*"([^"]*)"\)'
    return re.findall(pattern, COUNTERS.read_text(), re.M)


@cache
def schema(table: str) -> dict[str, Any]:
    tables = json.loads(acdc_params.schema(ROOT))["tables"]
    columns: dict[str, Any] = tables[table]["columns"]
    return columns


@cache
def manual(table: str) -> str:
    """What acdc.xml says about a table, upstream's or ours."""
    xml = acdc_params.manual(ROOT)
    start = xml.index(f'<table name="{table}"')
    return xml[start : xml.index("</table>", start)]


def as_text(element: ET.Element) -> str:
    """The inline elements of vswitch.xml as reStructuredText."""
    parts = [element.text or ""]
    for child in element:
        if child.tag == "p":
            parts += [as_text(child), child.tail or ""]
            continue
        inner = "".join(child.itertext())
        if child.tag == "ref":
            column, key = child.get("column"), child.get("key")
            names = [child.get("table"), f"{column}:{key}" if key else column]
            inner = " ".join(name for name in names if name)
        tail = child.tail or ""
        # Markup ends at a space or at punctuation, or at this escape.
        parts += [f"``{inner}``", "\\ " if tail[:1] == "[" else "", tail]
    return " ".join("".join(parts).split())


def described(xml: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Text and limits of each column or key (column:key) in 'xml'."""
    found = {}
    for match in re.finditer(r'<column name="[^>]*[^/]>.*?</column>', xml, re.S):
        element = ET.fromstring(match[0])
        key = element.get("key")
        name = element.get("name", "") + (f":{key}" if key else "")
        found[name] = (as_text(element), json.loads(element.get("type", "{}")))
    return found


def limits(kind: Any) -> str:  # noqa: ANN401
    """A column's type and constraints in words."""
    if isinstance(kind, str):
        return kind
    if "value" in kind:
        return f"map of {limits(kind['key'])} to {limits(kind['value'])}"
    if "key" in kind:
        return limits(kind["key"])
    if "enum" in kind:
        return ", ".join(f"``{value}``" for value in kind["enum"][1])
    name = f"up to {kind['max']} of " if "max" in kind else ""
    name += kind["type"]
    if kind["type"] == "uuid":
        return f"rows of ``{kind['refTable']}``"
    for low, high in (("minInteger", "maxInteger"), ("minReal", "maxReal")):
        if low in kind:
            return f"{name}, {kind[low]:g} to {kind[high]:.10g}"
    if "maxLength" in kind:
        return f"{name}, {kind.get('minLength', 0)} to {kind['maxLength']} characters"
    return name


class Table(SphinxDirective):
    """Base of directives that are a table of rows of reStructuredText."""

    has_content = False
    optional_arguments = 1
    final_argument_whitespace = True
    widths = ""

    def rows(self) -> Iterable[tuple[str, ...]]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        rows = list(self.rows())
        if len(rows) < 2:
            return []
        lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {self.widths}", ""]
        for row in rows:
            marks = ("   * - ", *["     - "] * (len(row) - 1))
            lines += [mark + cell for mark, cell in zip(marks, row, strict=True)]
        box = nodes.container()
        source = self.get_source_info()[0]
        self.state.nested_parse(StringList(lines, source), self.content_offset, box)
        return box.children


class Counters(Table):
    widths = "30 70"

    def run(self) -> list[nodes.Node]:
        made = super().run()
        if made and self.arguments == ["*"]:
            made.insert(0, nodes.rubric("", "Others"))
        return made

    def rows(self) -> Iterable[tuple[str, ...]]:
        shown: set[str] = self.env.temp_data.setdefault("acdc_counters", set())
        prefixes = tuple(self.arguments[0].split())
        names = [n for n, _ in counters() if n not in shown]
        if prefixes != ("*",):
            names = [n for n in names if n.startswith(prefixes)]
        shown.update(names)
        self.env.note_dependency(str(COUNTERS))
        yield "Counter", "What it counts"
        for name, description in counters():
            if name in names:
                yield f"``{name}``", description


class Columns(Table):
    widths = "20 30 50"

    def rows(self) -> Iterable[tuple[str, ...]]:
        table = self.arguments[0]
        texts = described(manual(table))
        yield "Column", "Type", "Meaning"
        for name, column in schema(table).items():
            keys = [key for key in texts if key.startswith(f"{name}:")]
            if name in texts or not keys:
                # A rule's columns are those of the tenant.
                meaning = texts[name][0] if name in texts else "As in ``ACDC``."
                if name == "external_ids":
                    meaning = "For the operator's own use."
                yield f"``{name}``", limits(column["type"]), meaning
            for key in keys:
                text, kind = texts[key]
                meaning = text or "As in ``ACDC``."
                yield f"``{key}``", limits(kind) if kind else "string", meaning


class Keys(Table):
    """Our keys of one of upstream's tables."""

    widths = "30 25 45"

    def rows(self) -> Iterable[tuple[str, ...]]:
        yield "Key", "Type", "Meaning"
        for key, (text, kind) in described(manual(self.arguments[0])).items():
            yield f"``{key}``", limits(kind) if kind else "string", text


class Tiers(Table):
    widths = "20 25 55"

    def rows(self) -> Iterable[tuple[str, ...]]:
        text = (ROOT / "tests" / "run.py").read_text()
        places = {"lint": "build-aux/lint", "unit": "tests/unit", "ovs": "tests/ovs"}
        yield "Tier", "Where", "What"
        for name, about in re.findall(r'^ +\(\s*"(\w+)",\s*"([^"]+)",\s*\d+,\s', text, re.M):
            place = places.get(name, f"tests/{name}")
            if name in places or any((ROOT / place).glob("**/test_*.py")):
                yield f"``{name}``", f"``{place}``", about


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("acdc-counters", Counters)
    app.add_directive("acdc-table", Columns)
    app.add_directive("acdc-keys", Keys)
    app.add_directive("acdc-tiers", Tiers)
    return {"parallel_read_safe": True}
