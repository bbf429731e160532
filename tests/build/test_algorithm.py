# SPDX-License-Identifier: Apache-2.0
"""docs/algorithms.rst, followed word for word: its files and changes in a copy of the
sources, which builds for userspace and for the kernel and does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from test_module import headers

from acdc_testlib.sources import copy_sources

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/algorithms.rst"
FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]


def blocks() -> list[tuple[str, str | None, str]]:
    """Language, caption and text of the page's code blocks."""
    pattern = r"^\.\. code-block:: (\w+)\n(?:   :caption: (\S+)\n)?\n((?:   .*\n|\n)+)"
    found = re.findall(pattern, PAGE.read_text() + "\n", re.M)
    return [(lang, caption or None, textwrap.dedent(text).strip("\n") + "\n")
            for lang, caption, text in found]  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as the page leaves them."""
    top = copy_sources(tmp_path_factory.mktemp("tree"), "tests/law", "tests/unit")
    for language, caption, text in blocks():
        if caption:
            assert not (top / caption).exists()
            (top / caption).write_text(text)
        else:
            assert language == "diff"
            subprocess.run(["patch", "-p1", "--fuzz=0"], cwd=top, input=text, text=True, check=True)
    return top


def test_page_is_whole() -> None:
    """All that is to be done stands there."""
    captions = [caption for _, caption, _ in blocks() if caption]
    assert captions == ["datapath/acdc-cc-delay.c", "tests/law/test_delay.py"]


def test_names_stand_nowhere_else() -> None:
    """What the page has added of 'delay' is all that there is of 'cubic' in sources."""
    found = {
        str(path.relative_to(ROOT))
        for folder in ("datapath", "lib", "ovs-patches")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix not in {".o", ".man"}
        and "cubic" in path.read_text().lower()
    }
    touched = set(re.findall(r"^   \+\+\+ b/(\S+)", PAGE.read_text(), re.M))
    assert found == touched | {"datapath/acdc-cc-cubic.c"}


def test_law(tree: Path) -> None:
    """The page's own test."""
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "law/test_delay.py"],
        cwd=tree / "tests", env={**os.environ, "PYTHONPATH": str(tree / "tests")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_userspace(tree: Path, tmp_path: Path) -> None:
    """The engine builds, and the algorithm works between simulated guests."""
    unit = tree / "tests/unit"
    sources = [unit / "test-window.c", *(p for p in unit.glob("*.c") if p.name[:5] != "test-")]
    sources += (tree / "datapath").glob("*.c")
    # Of lib/, what unit.mk has.
    listed = re.findall(r"\b(lib/acdc-[\w-]+)\.o", (unit / "unit.mk").read_text())
    sources += [tree / f"{name}.c" for name in listed]
    program = tmp_path / "test-window"
    subprocess.run(
        ["gcc", *FLAGS, f"-I{tree}/datapath", f"-I{tree}/lib", f"-I{unit}", "-o", program,
         *sources, "-lpthread", "-lm"],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^ok \d+ - delay: cut by a mark", done.stdout, re.M)


def test_kernel(tree: Path, tmp_path: Path) -> None:
    """The module's objects of the engine build, and nothing of ours is missing."""
    source = tmp_path / "module"
    subprocess.run([tree / "utilities/acdc-dkms", "source", source, "-k", "6.1"], check=True)
    lists = re.split(r"^(acdc_\w+) =", (source / "acdc/Kbuild").read_text(), flags=re.M)
    objects = [
        f"{name}.o"
        for variable in ("acdc_engine", "acdc_linux")
        for name in re.findall(r"(acdc/\S+)\.c", lists[lists.index(variable) + 1])
    ]
    assert "acdc/acdc-cc-delay.o" in objects
    make = subprocess.run(
        ["make", "-C", headers(), f"M={source}", f"-j{os.cpu_count()}", *objects],
        capture_output=True, text=True,
    )  # fmt: skip
    assert make.returncode == 0, make.stdout + make.stderr
    nm = subprocess.run(
        ["nm", *objects], cwd=source, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    missing = set(re.findall(r" U (acdc_\w+)$", nm, re.M))
    defined = set(re.findall(r" [^U] (acdc_\w+)$", nm, re.M))
    assert "acdc_cc_delay" in defined
    assert missing <= defined
