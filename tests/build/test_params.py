# SPDX-License-Identifier: Apache-2.0
"""A parameter of a policy stands in one list: one that is added there, and nowhere else,
is in the database, in ovs-vswitchd and in the kernel module."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_module import headers

from acdc_ovs.database import call
from acdc_testlib.ovs import CommandError, Ovs
from acdc_testlib.programs import Programs, read_env
from acdc_testlib.sources import copy_sources

ROOT = Path(__file__).resolve().parents[2]

# One of each kind of place: a column of 32 bits, a column of 8, a key.  NEXT is the number of a new
# parameter.
ADDED = """
/* Of this test.  The default is 5. */
ACDC_PARAM(NEXT, TEST_COUNT, test_count, INTEGER, 1, 77,
           5, COLUMN, NULL, "%s of the test")

/* Of this test.  The default is <code>none</code>. */
ACDC_PARAM(NEXT + 1, TEST_LAW, test_law, FALLBACK, 0, ACDC_N_ALGS - 1,
           ACDC_ALG_NONE, COLUMN, NULL, "law %s")

/* Of this test.  The default is <code>false</code>. */
ACDC_PARAM(NEXT + 2, TEST_FLAG, test_flag, BOOL, 0, 1,
           false, KEY("test-flag"), NULL, "flagged")
"""


def generator(project: Path) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(project / "build-aux/acdc_params.py")))


def normal(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns of a schema whose types are written in one way of those that there are."""
    result = json.loads(json.dumps(columns))
    for column in result.values():
        key = column["type"]["key"]
        if isinstance(key, str):
            column["type"]["key"] = key = {"type": key}
        if "enum" in key:
            key["enum"][1].sort()
    return result


def test_schema_has_the_list() -> None:
    """The database that is built has these columns, in both tables."""
    columns = normal(generator(ROOT).columns(ROOT))
    tables = json.loads(Programs.patched().schema.read_text())["tables"]
    for table, others in {
        "ACDC": {"name", "bind", "rules", "statistics", "status", "other_config", "external_ids"},
        "ACDC_Rule": {"priority", "match", "other_config", "external_ids"},
    }.items():
        has = {k: v for k, v in tables[table]["columns"].items() if k not in others}
        assert normal(has) == columns


def test_text_says_the_default() -> None:
    for parameter in generator(ROOT).parameters(ROOT):
        value = parameter.default.removeprefix("ACDC_ALG_").removeprefix("ACDC_MODE_").lower()
        value = re.sub(r"acdc_fix_one", "1", value).replace(" ", "")
        assert "default" in parameter.text
        assert re.search(rf"(?<!\w){value}(?!\w)", parameter.text), parameter.name


def test_layout_follows_the_numbers() -> None:
    """struct acdc_params crosses netlink whole in a snapshot: a parameter that is moved
    in the list must not move there."""
    for wide in (True, False):
        numbers = [
            parameter.number
            for parameter in generator(ROOT).parameters(ROOT)
            if (parameter.kind in ("FRACTION", "INTEGER")) == wide
        ]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("ACDC_PARAM(NEXT, A, a, BOOL, 0, 1,\n           true, COLUMN, NULL, NULL)", "without a"),
        ("/* A. */\nACDC_PARAM(1, A, a, BOOL, 0, 1, true, COLUMN, NULL, NULL)", "twice"),
        ("/* A. */\nACDC_PARAM(NEXT + 1, A, a, BOOL, 0, 1, true, COLUMN, NULL, NULL)", "missing"),
        ('/* A. */\nACDC_PARAM(NEXT, A, a, INTEGER, 0, 1, 1, KEY("a"), NULL, NULL)', "only a BOOL"),
    ],
)
def test_wrong_entries(tmp_path: Path, entry: str, message: str) -> None:
    project = copy(tmp_path, entry)
    module = generator(project)
    with pytest.raises(module.Failure, match=message):
        module.parameters(project)


def copy(directory: Path, entries: str) -> Path:
    """The sources, with more entries in the list."""
    project = copy_sources(directory / "project")
    path = project / "datapath/acdc-params.h"
    last = max(parameter.number for parameter in generator(ROOT).parameters(ROOT))
    entries = re.sub(
        r"NEXT(?: \+ (\d))?", lambda found: str(last + 1 + int(found[1] or 0)), entries
    )
    head, undef, tail = path.read_text().rpartition("\n#undef ACDC_PARAM\n")
    assert undef
    path.write_text(head + entries + undef + tail)
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy(tmp_path_factory.mktemp("params"), ADDED)


def from_make(tree: Path, *words: str) -> list[list[str]]:
    """What make makes of each of these."""
    rules = "".join(f"\t@echo 'ACDC: '{word}\n" for word in words)
    done = subprocess.run(
        ["make", "-s", "-f", "-", "acdc-words"],
        cwd=tree, input=f"include Makefile\nacdc-words:\n{rules}",
        text=True, capture_output=True, check=True,
    )  # fmt: skip
    found = re.findall(r"^ACDC: (.*)$", done.stdout, re.M)
    assert len(found) == len(words)
    return [shlex.split(line) for line in found]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs(project: Path) -> Programs:
    """ovs-vswitchd from the copy's sources and what the build has of the rest, and
    its schema."""
    tree = Path(read_env()["OVS_TREE"])
    patched = Programs.patched()
    schema = json.loads(patched.schema.read_text())
    for table in ("ACDC", "ACDC_Rule"):
        schema["tables"][table]["columns"] |= generator(project).columns(project)
    path = project / "vswitch.ovsschema"
    path.write_text(json.dumps(schema))

    compiler, flags, idlc, linker, libraries = from_make(
        tree,
        "$(CC)",
        "$(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)",
        "$(OVSDB_IDLC)",
        "$(LIBTOOL) --quiet --tag=CC --mode=link $(CC) $(AM_CFLAGS) $(CFLAGS)"
        " $(vswitchd_ovs_vswitchd_LDFLAGS) $(LDFLAGS)",
        "$(vswitchd_ovs_vswitchd_LDADD) $(LIBS)",
    )
    # "PYTHONPATH=... python3 ..."
    idlc = ["env", *idlc]
    idl = project / "vswitch-idl.ovsidl"
    idl.write_text(run(*idlc, "annotate", path, tree / "lib/vswitch-idl.ann", cwd=tree))
    for suffix, command in {".c": "c-idl-source", ".h": "c-idl-header"}.items():
        text = run(*idlc, command, idl, cwd=tree)
        (project / "lib/vswitch-idl").with_suffix(suffix).write_text(text)

    sources = [*project.glob("datapath/*.c"), *project.glob("lib/*.c")]
    places = (project, *(project / name for name in ("lib", "datapath", "datapath/linux")))
    includes = [f"-I{place}" for place in places]
    makefile = "all: " + " ".join(f"{source}.o" for source in sources) + "\n%.c.o: %.c\n\t"
    makefile += shlex.join([*compiler, *includes, *flags, "-O1", "-c"]) + " -o $@ $<\n"
    (project / "objects.mk").write_text(makefile)
    run("make", "-s", f"-j{os.cpu_count()}", "-f", project / "objects.mk", cwd=tree)

    program = project / "ovs-vswitchd"
    upstream = [f"vswitchd/{n}.o" for n in ("bridge", "ovs-vswitchd", "system-stats", "xenserver")]
    run(
        *linker, "-o", program, *(f"{source}.o" for source in sources),
        *(name for name in upstream if (tree / name).exists()), *libraries, cwd=tree,
    )  # fmt: skip
    return dataclasses.replace(patched, vswitchd=program, schema=path)


@pytest.fixture
def ovs(programs: Programs) -> Iterator[Ovs]:
    with Ovs(programs) as running:
        running.add_bridge("br0")
        yield running


def update(ovs: Ovs, **columns: object) -> None:
    """ovs-vsctl, which does not know the columns, cannot do that."""
    change = {"op": "update", "table": "ACDC", "where": [], "row": columns}
    reply = call(ovs.dir / "db.sock", "transact", "Open_vSwitch", change)
    if "error" in reply[-1]:
        raise CommandError(reply[-1]["details"])


def test_in_vswitchd(ovs: Ovs) -> None:
    def shown() -> tuple[dict[str, Any], str]:
        ovs.vsctl("set", "open_vswitch", ".", "external_ids:wait=yes")
        line = re.search("^tenant blue: (.*)$", ovs.appctl("acdc/show"), re.M)
        assert line
        return ovs.acdc("show", "blue")["tenants"][0]["params"], line[1]

    ovs.set_tenant("blue")
    params, text = shown()
    assert (params["test_count"], params["test_law"], params["test_flag"]) == (5, "none", False)
    assert text.endswith(", 5 of the test")

    update(ovs, test_count=7, test_law="reno", other_config=["map", [["test-flag", "true"]]])
    params, text = shown()
    assert (params["test_count"], params["test_law"], params["test_flag"]) == (7, "reno", True)
    assert text.endswith(", 7 of the test, law reno, flagged")

    with pytest.raises(CommandError, match="78 is not in the valid range 1 to 77"):
        update(ovs, test_count=78)
    with pytest.raises(CommandError, match="dctcp is not one of the allowed values"):
        update(ovs, test_law="dctcp")
    update(ovs, other_config=["map", [["test-flag", "1"]]])
    assert shown()[0] == params
    assert 'test-flag: "1" is neither true nor false' in ovs.appctl("acdc/show")


def test_in_kernel_module(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "module"
    run(project / "utilities/acdc-dkms", "source", source, "-k", "6.1", cwd=project)
    run("make", "-C", headers(), f"M={source}", f"-j{os.cpu_count()}", "openvswitch.ko", cwd=source)
    # Its netlink policy has the limits.
    symbols = run("nm", source / "acdc/acdc-genl.o", cwd=source)
    assert "test_count_range" in symbols
