# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML page."""

from __future__ import annotations

import dataclasses
import html
import re
import statistics
from collections.abc import Iterable
from pathlib import Path

from .report_experiments import Experiment, is_option
from .report_figures import Figure, Result

STYLE = """
body { font-family: sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; font-size: 90%; }
th, td { border: 1px solid #ccc; padding: .25em .6em; text-align: right; }
th:first-child, td:first-child, td.text { text-align: left; }
.met { background: #dfd; } .missed { background: #fdd; }
small { color: #666; } img { max-width: 100%; } code { font-size: 90%; }
"""
# A row of the page's table of experiments.
SUMMARY = re.compile(
    r'<tr><td><a href="#(\S+)">(.*)</a></td>\n<td>(\d+)</td><td class="\w+">(\d+)</td></tr>'
)


@dataclasses.dataclass
class Judged:
    """One experiment's runs and what became of its targets."""

    experiment: Experiment
    results: dict[str, dict[int, Result]]  # by the run's name and seed
    pictures: list[Path] = dataclasses.field(default_factory=list)
    met: int = 0
    missed: list[str] = dataclasses.field(default_factory=list)

    def values(self, figure: Figure, run: str) -> list[float]:
        found = (figure.value(result) for result in self.results.get(run, {}).values())
        return [value for value in found if value is not None]

    def value(self, figure: Figure, run: str) -> float | None:
        """The median over seeds."""
        found = self.values(figure, run) if comparable(self.experiment, figure, run) else []
        return statistics.median(found) if found else None


@dataclasses.dataclass
class Section:
    """Of the page: one experiment."""

    title: str
    met: int
    missed: int
    text: str


def is_acdc(experiment: Experiment, run: str) -> bool:
    return "--acdc" in experiment.runs[run]


def comparable(experiment: Experiment, figure: Figure, run: str) -> bool:
    """Shares by beta, say, mean nothing in a run of another scenario."""
    return not figure.scenario or experiment.runs[run].split()[0] == figure.scenario


def cell(judged: Judged, figure: Figure, run: str) -> str:
    value = judged.value(figure, run)
    if value is None:
        return "<td></td>"
    found = judged.values(figure, run)
    text = f"{value:.{figure.digits}f}"
    if len(found) > 1 and max(found) > min(found):
        low, high = (f"{bound:.{figure.digits}f}" for bound in (min(found), max(found)))
        text += f" <small>{low}–{high}</small>"
    state = verdict(judged, figure, run)
    kind = "" if state is None else ' class="met"' if state else ' class="missed"'
    return f"<td{kind}>{text}</td>"


def verdict(judged: Judged, figure: Figure, run: str) -> bool | None:
    if not figure.target or not is_acdc(judged.experiment, run):
        return None
    if figure.only and run not in figure.only:
        return None
    others = {name: judged.value(figure, name) for name in judged.experiment.runs}
    return figure.target.met(judged.value(figure, run), others)


def judge(judged: Judged) -> None:
    for figure in judged.experiment.figures:
        for run, line in judged.experiment.runs.items():
            state = None if is_option(line) else verdict(judged, figure, run)
            if state is not None and state:
                judged.met += 1
            elif state is not None:
                value = judged.value(figure, run)
                judged.missed.append(f"{run}: {figure.name} {value:.{figure.digits}f}")


def section(judged: Judged, about: dict[str, str]) -> Section:
    """'about': how it was made."""
    text = "\n".join(lines(judged, about))
    return Section(judged.experiment.title, judged.met, len(judged.missed), text)


def lines(judged: Judged, about: dict[str, str]) -> Iterable[str]:
    experiment = judged.experiment
    runs = [run for run in experiment.runs if judged.results.get(run)]
    yield f'<h2 id="{experiment.name}">{html.escape(experiment.title)}</h2>'
    yield f"<p><b>The paper:</b> {html.escape(experiment.paper)}</p>"
    yield "<table><tr><th></th>"
    yield from (f"<th>{html.escape(run)}</th>" for run in runs)
    yield "<th>Target</th></tr>"
    for figure in experiment.figures:
        yield f"<tr><td>{html.escape(figure.name)}</td>"
        yield from (cell(judged, figure, run) for run in runs)
        yield f'<td class="text">{html.escape(str(figure.target or ""))}</td></tr>'
    yield "</table>"
    if judged.missed:
        yield f"<p><b>Missed:</b> {html.escape('; '.join(judged.missed))}.</p>"
    if experiment.note:
        yield f"<p>{html.escape(experiment.note)}</p>"
    yield from (f'<p><img src="{path.name}" alt="{path.stem}"></p>' for path in judged.pictures)
    yield "<p>"
    for run in runs:
        found = judged.results[run]
        seconds = sorted({result["options"]["seconds"] for result in found.values()})
        yield f"<small>{html.escape(run)}: <code>tests/lab/run {html.escape(experiment.runs[run])}"
        yield f" --seconds {' or '.join(f'{value:g}' for value in seconds)}</code>,"
        yield f" seed {', '.join(map(str, sorted(found)))}</small><br>"
    made = "; ".join(f"{key}: {html.escape(text)}" for key, text in about.items())
    yield f"<small>{made}</small></p>"


def sections(page: str) -> dict[str, Section]:
    """Those of a page that was written before, by their experiments."""
    found = {}
    for name, title, met, missed in SUMMARY.findall(page):
        text = re.search(rf'<h2 id="{re.escape(name)}">.*?(?=\n<h2 |\n</body>)', page, re.DOTALL)
        if not text:
            raise ValueError(f"no section {name}")
        found[name] = Section(html.unescape(title), int(met), int(missed), text[0])
    return found


def page(shown: dict[str, Section], pictures: list[str]) -> str:
    """Of experiments by their names, in this order."""
    met = sum(section.met for section in shown.values())
    missed = sum(section.missed for section in shown.values())
    text = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        f"<title>AC/DC: experiments</title><style>{STYLE}</style></head><body>",
        "<h1>AC/DC against plain Open vSwitch and native DCTCP</h1>",
        "<p>Real TCP stacks over the patched kernel datapath, in virtual time. Medians over seeds,"
        " least and largest beside them. Green: the target is met; red: it is not. Runs with a"
        " parameter that is off by default (other_config) are coloured, too, but not counted.</p>",
        f"<p><b>{met} of {met + missed} targets met.</b></p>",
        "<table><tr><th>Experiment</th><th>Met</th><th>Missed</th></tr>",
    ]
    for name, section in shown.items():
        kind = "missed" if section.missed else "met"
        text.append(f'<tr><td><a href="#{name}">{html.escape(section.title)}</a></td>')
        text.append(f'<td>{section.met}</td><td class="{kind}">{section.missed}</td></tr>')
    text.append("</table>")
    text += [f'<p><img src="{name}" alt="{name.removesuffix(".png")}"></p>' for name in pictures]
    text += [section.text for section in shown.values()]
    return "\n".join([*text, "</body></html>"]) + "\n"
