# SPDX-License-Identifier: Apache-2.0
"""What a port without a tenant costs in the kernel: the machine code of the two
hooks, as built for the distribution's kernel, beside the stock module's."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_module import DKMS, ROOT, headers

RELOCATION = re.compile(r"\s+[0-9a-f]+: R_X86_64_\w+\s+(.+)")
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+(.*)")


@dataclass
class Instruction:
    address: tuple[str, int]  # Its section, and where in that.
    text: str
    target: str = ""  # Of a call or jump, as the linker is told.


class Code:
    """The instructions of an object file."""

    def __init__(self, path: Path) -> None:
        listing = subprocess.run(
            ["objdump", "-dr", "--no-show-raw-insn", path],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        self.code: list[Instruction] = []
        self.start: dict[str, tuple[str, int]] = {}
        section = ""
        for line in listing.splitlines():
            if match := re.match(r"Disassembly of section (\S+):", line):
                section = match[1]
            elif match := re.match(r"([0-9a-f]+) <(\S+)>:", line):
                self.start[match[2]] = section, int(match[1], 16)
            elif match := RELOCATION.match(line):
                self.code[-1].target = match[1]
            elif match := INSTRUCTION.match(line):
                self.code.append(Instruction((section, int(match[1], 16)), match[2]))
        self.index = {x.address: i for i, x in enumerate(self.code)}
        self.name = {address: name for name, address in self.start.items()}

    def _target(self, at: Instruction) -> tuple[str, int] | str:
        """An address in this file, or a symbol of another."""
        if at.target:
            match = re.fullmatch(r"(.+?)(?:([-+])0x([0-9a-f]+))?", at.target)
            assert match
            symbol, sign, addend = match.groups()
            # Relative to the end of the instruction's last 4 bytes.
            offset = int(f"{sign}{addend}", 16) + 4 if addend else 0
            if symbol.startswith("."):
                return symbol, offset
            # The compiler's choice: which register, and whether it returns here.
            if symbol.startswith("__x86_indirect_thunk"):
                return "an indirect call"
            return self.start.get(symbol, symbol)
        if match := re.match(r"\S+ +([0-9a-f]+) <", at.text):
            return at.address[0], int(match[1], 16)
        return "an indirect call"

    def walk(self, function: str, without: str = "(?!)") -> tuple[set[str], Counter[str]]:
        """The functions that 'function' calls on the ways that do not lead
        through one that matches 'without', and the atomic instructions there."""
        calls: set[str] = set()
        atomics: Counter[str] = Counter()
        seen: set[int] = set()
        todo = [self.index[self.start[function]]]
        while todo:
            i = todo.pop()
            if i in seen:
                continue
            seen.add(i)
            at = self.code[i]
            words = at.text.split()
            # What an exchange with memory does without saying it.
            if words[0] == "lock" or words[0].startswith("xchg") and "(" in at.text:
                atomics[" ".join(words[:2])] += 1
            ends = words[0] in ("ret", "jmp", "ud2", "int3")
            # ... and behind a call that does not return.
            ends |= i + 1 == len(self.code) or self.code[i + 1].address in self.name
            if words[0].startswith(("call", "j")):
                target = self._target(at)
                inside = self.index.get(target) if isinstance(target, tuple) else None
                name = self.name.get(target, "") if isinstance(target, tuple) else target
                if inside is not None and (not name or name.removesuffix(".cold") == function):
                    todo.append(inside)
                elif re.match(without, name):
                    continue
                elif name not in ("__x86_return_thunk", "__stack_chk_fail"):
                    calls.add(name)
            if not ends:
                todo.append(i + 1)
        return calls, atomics


@pytest.fixture(scope="module")
def vports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Code, Code]:
    """vport.o of the stock and of the patched module."""
    folder = tmp_path_factory.mktemp("unbound")
    subprocess.run([DKMS, "source", folder / "patched", "-k", "6.1"], check=True)
    shutil.copytree(folder / "patched", folder / "stock")
    series = [ROOT / "build-aux/ovs-tree", "series", "linux", "6.1"]
    listed = subprocess.run(series, check=True, capture_output=True, text=True).stdout
    for patch in reversed(listed.splitlines()):
        subprocess.run(
            ["patch", "-R", "-p3", "-s", "-d", folder / "stock", "-i", patch], check=True
        )
    for name in ("stock", "patched"):
        subprocess.run(
            ["make", "-s", "-C", headers(), f"M={folder / name}", "vport.o"],
            check=True, capture_output=True,
        )  # fmt: skip
    return Code(folder / "stock/vport.o"), Code(folder / "patched/vport.o")


@pytest.mark.parametrize(
    ("function", "hook"),
    [("ovs_vport_receive", "ovs_acdc_egress"), ("ovs_vport_send", "ovs_acdc_ingress")],
)
def test_an_unbound_port_adds_no_call_and_no_lock(
    vports: tuple[Code, Code], function: str, hook: str
) -> None:
    """No call more: so no allocation, and no lock but one in line, which would
    be an atomic instruction."""
    stock, patched = vports
    assert hook in patched.walk(function)[0]
    calls, atomics = patched.walk(function, without="ovs_acdc_")
    expected = stock.walk(function, without="ovs_acdc_")
    assert len(expected[0]) > 2
    assert calls == expected[0]
    assert atomics == expected[1]


def test_no_other_function_of_vport_c_changed(vports: tuple[Code, Code]) -> None:
    stock, patched = vports
    functions = {name for name in stock.start if not name.endswith(".cold")}
    assert functions == {n for n in patched.start if not n.endswith(".cold")}
    for name in functions - {"ovs_vport_receive", "ovs_vport_send"}:
        assert stock.walk(name) == patched.walk(name), name
