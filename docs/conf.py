# SPDX-License-Identifier: Apache-2.0

"""Settings of Sphinx."""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "AC/DC for Open vSwitch"
author = "The AC/DC for Open vSwitch authors"
project_copyright = author
_match = re.search(r"AC_INIT\(\[acdc\], \[([^]]+)\]", (HERE.parent / "configure.ac").read_text())
release = version = _match[1] if _match else ""

extensions = ["acdc_reference"]
exclude_patterns = ["_build", "*.inc"]
nitpicky = True
highlight_language = "none"

html_theme = "alabaster"
html_theme_options = {
    "description": "Congestion control of guests' TCP in the virtual switch",
    "page_width": "1080px",
    "sidebar_width": "240px",
    "fixed_sidebar": True,
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_static_path = ["_static"]
html_copy_source = False


def _manual_page(path: Path) -> tuple[str, str, str, list[str], int]:
    """Of man/PROGRAM.8.rst, whose title is "PROGRAM: what it is"."""
    title = next(line for line in path.read_text().splitlines() if re.match("[a-z-]+: ", line))
    name, about = title.split(": ", 1)
    return f"man/{path.stem}", name, about, [], int(path.stem[-1])


man_pages = [_manual_page(path) for path in sorted(HERE.glob("man/*.rst"))]
