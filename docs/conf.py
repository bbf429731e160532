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
