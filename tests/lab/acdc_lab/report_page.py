# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML page."""

from __future__ import annotations

import dataclasses
import html
import re
import statistics
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .report_experiments import is_option
from .report_figures import Experiment, Figure, Result

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
# A row of the page's table of experiments.
SUMMARY = re.compile(
    r'<tr><td><a href="#(\S+)">(.*)</a></td>\n<td>(\d+)</td><td class="\w+">(\d+)</td></tr>'
)


@dataclasses.dataclass
class Judged:
    """One experiment's runs and what became of its targets."""

    experiment: Experiment
    results: dict[str, dict[int, Result]]  # by the run's name and seed
    absent: list[str] = dataclasses.field(default_factory=list)  # runs without a result
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


@dataclasses.dataclass
class Cell:
    """Of an experiment's table: a run's figure."""

    value: str  # "" if the run has none
    range: tuple[str, str] | None  # over seeds, if they differ
    met: bool | None


def cell(judged: Judged, figure: Figure, run: str) -> Cell:
    value, met = judged.value(figure, run), verdict(judged, figure, run)
    if value is None:
        return Cell("", None, met)
    found = judged.values(figure, run)
    text, low, high = (f"{number:.{figure.digits}f}" for number in (value, min(found), max(found)))
    return Cell(text, (low, high) if max(found) > min(found) else None, met)


def verdict(judged: Judged, figure: Figure, run: str) -> bool | None:
    if not figure.target or not is_acdc(judged.experiment, run):
        return None
    if figure.only and run not in figure.only:
        return None
    if not comparable(judged.experiment, figure, run):
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
                found = cell(judged, figure, run).value or "nothing"
                judged.missed.append(f"{run}: {figure.name} {found}, not {figure.target}")


def section(judged: Judged, about: dict[str, str]) -> Section:
    """'about': how it was made."""
    experiment = judged.experiment
    results = {run: found for run in experiment.runs if (found := judged.results.get(run))}
    commands = {
        run: found[min(found)]["report"]["command"].rpartition(" --seed ")[0]
        for run, found in results.items()
    }
    text = TEMPLATES.get_template("report_section.html").render(
        experiment=experiment,
        runs=list(results),
        cells={
            (figure, run): cell(judged, figure, run)
            for figure in experiment.figures
            for run in results
        },
        missed=judged.missed,
        absent=judged.absent,
        pictures=judged.pictures,
        commands=commands,
        seeds={run: ", ".join(map(str, sorted(found))) for run, found in results.items()},
        about=about,
    )
    return Section(experiment.title, judged.met, len(judged.missed), text)


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
    text = TEMPLATES.get_template("report_page.html").render(
        sections=shown,
        pictures=pictures,
        met=sum(section.met for section in shown.values()),
        missed=sum(section.missed for section in shown.values()),
    )
    return f"{text}\n"
