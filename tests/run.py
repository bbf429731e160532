#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests: installs what they need, builds, runs tier after tier.

Every count comes from the results that the tests themselves wrote.  A tier in
which nothing ran has failed.  The last line is "N passed, N failed, N skipped".
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
# Debian's scapy, mininet and hypothesis belong to this one, and there may be
# another python3 first in PATH.
PYTHON = "/usr/bin/python3"
JOBS = str(os.cpu_count() or 1)


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    """Failed, and passed alone."""

    def __iadd__(self, other: Counts) -> Counts:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.problems += other.problems
        self.again += other.again
        return self

    def fail(self, problem: str) -> None:
        self.failed += 1
        self.problems.append(problem)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


def interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(signal.Signals(number).name)


class Runner:
    """Runs one program at a time, with its output on the terminal ('quiet': not there) and in
    a log."""

    def __init__(
        self, build: Path, results: Path, keep: bool, select: str, quiet: bool = False
    ) -> None:
        self.build = build
        self.results = results
        self.select = select
        self.quiet = quiet
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        self.environ = os.environ | {
            "ACDC_ENV": str(build / "build" / "env"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        if keep:
            self.environ["ACDC_TEST_KEEP"] = "1"

    def run(
        self,
        command: list[str],
        log: str,
        timeout: float,
        cwd: Path | None = None,
        hide: str = "",
    ) -> tuple[int, str]:
        """Returns its exit status (-1: it took too long, or stop() was called) and its output.

        Lines that begin with 'hide' are only in the log.
        """
        if self.stopped:
            return -1, ""
        if not self.quiet:
            print(f"$ {shlex.join(command)}", flush=True)
        # A session of its own: Ctrl-C reaches us, and we end its whole group.
        process = self.process = subprocess.Popen(
            command,
            cwd=cwd or self.build,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        chunks: list[bytes] = []

        def copy() -> None:
            assert process.stdout
            with (self.results / f"{log}.log").open("ab") as copy_to:
                pending = b""
                while chunk := os.read(process.stdout.fileno(), 65536):
                    chunks.append(chunk)
                    copy_to.write(chunk)
                    copy_to.flush()
                    if self.quiet:
                        continue
                    if hide:
                        *lines, pending = (pending + chunk).split(b"\n")
                        shown = [line for line in lines if not line.startswith(hide.encode())]
                        chunk = b"".join(line + b"\n" for line in shown)
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()

        reader = threading.Thread(target=copy, daemon=True)
        reader.start()
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            print(f"\ntook longer than {timeout:.0f} s; ending it", flush=True)
            end(process)
            status = -1
        except Interrupted:
            end(process)
            raise
        # What it left running in the background would hold the pipe open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        reader.join(5)
        return status, b"".join(chunks).decode(errors="replace")

    def stop(self) -> None:
        """From another thread: ends what runs, and lets nothing begin."""
        self.stopped = True
        if self.process:
            end(self.process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Lets a test clean up after itself, then insists."""
    for number, patience in ((signal.SIGINT, 30), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        if number != signal.SIGINT:
            return
        time.sleep(1)


# --- Results -----------------------------------------------------------------


def junit_counts(path: Path) -> Counts:
    counts = Counts()
    if not path.exists():
        return counts
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            counts.fail(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def trs_counts(directory: Path) -> Counts:
    """Of the automake test drivers' results in a directory."""
    counts = Counts()
    for path in sorted(directory.glob("*.trs")):
        for result, name in re.findall(r"^:test-result: (\w+) ?(.*)$", path.read_text(), re.M):
            if result in ("PASS", "XFAIL"):
                counts.passed += 1
            elif result == "SKIP":
                counts.skipped += 1
            else:
                counts.fail(f"{directory.name}/{path.stem}: {name or result}")
    return counts


# --- Tiers -------------------------------------------------------------------


def run_lint(runner: Runner, timeout: float) -> Counts:
    venv = runner.build / "build" / "venv"
    requirements = ROOT / "build-aux" / "lint-requirements.txt"
    stamp = venv / "requirements.txt"
    if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
        # What cannot be installed is a check skipped, with a reason.
        status, _ = runner.run([PYTHON, "-m", "venv", str(venv)], "lint", 120)
        if status == 0:
            pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet"]
            status, _ = runner.run([*pip, "-r", str(requirements)], "lint", 300)
        if status == 0:
            shutil.copy(requirements, stamp)
    xml = runner.results / "lint.xml"
    command = [PYTHON, str(ROOT / "build-aux/lint"), "--junit", str(xml)]
    command += ["--build-dir", str(runner.build / "build")]
    runner.run([*command, "-k", runner.select], "lint", timeout)
    return junit_counts(xml)


def run_unit(runner: Runner, timeout: float) -> Counts:
    """The C unit tests: plain, Address- and UndefinedBehavior-, ThreadSanitizer."""
    counts = Counts()
    chosen = []
    if runner.select:
        names = [p.stem for p in ROOT.glob("tests/unit/test-*.c") if runner.select in p.stem]
        if not names:
            return counts
        chosen = [f"TESTS={' '.join(f'build/unit/{name}.tap' for name in names)}"]
    for variant in ("unit", "asan", "tsan"):
        results = runner.build / "build" / variant
        for old in results.glob("*.trs"):
            old.unlink()
        command = ["make", f"-j{JOBS}", f"check-{variant}", *chosen]
        status, _ = runner.run(command, "unit", timeout, hide="PASS: ")
        found = trs_counts(results)
        if not found.failed and (status or not found.passed):
            found.fail(f"make check-{variant}")
        counts += found
    return counts


FEW = 3
"""So many failed tests of a tier run again, alone: a machine that stood still for a moment does
not fail more.  The report names those that pass then.  Not of the tier fuzz, whose second run
would have other inputs."""


def second(first: Counts, again: Counts) -> Counts:
    """A tier's result, of which what failed was run again."""
    if again.passed + again.failed < first.failed:
        return first
    passed = [problem for problem in first.problems if problem not in again.problems]
    return Counts(
        first.passed + again.passed, again.failed, first.skipped, again.problems, passed
    )


def pytest_tier(name: str) -> Callable[[Runner, float], Counts]:
    def run(runner: Runner, timeout: float) -> Counts:
        xml = runner.results / f"{name}.xml"
        cache = runner.results / f"{name}.cache"
        command = [PYTHON, "-m", "pytest", "-o", f"cache_dir={cache}", f"tests/{name}"]
        if runner.select:
            command += ["-k", runner.select]
        status, _ = runner.run([*command, f"--junitxml={xml}"], name, timeout, ROOT)
        counts = junit_counts(xml)
        if status == 1 and counts.failed <= FEW and name != "fuzz":
            xml = xml.with_suffix(".again.xml")
            status, _ = runner.run(
                [*command, "--last-failed", f"--junitxml={xml}"], name, timeout, ROOT
            )
            counts = second(counts, junit_counts(xml))
        if status == -1:
            counts.fail(f"tests/{name}: took longer than {timeout:.0f} s")
        # 5: pytest found nothing to run, which the caller judges.
        elif status not in (0, 5) and not counts.failed:
            counts.fail(f"tests/{name}: pytest ended with status {status}")
        return counts

    return run


def run_lab(runner: Runner, timeout: float) -> Counts:
    build = ROOT / "tests/lab/build"
    if build.exists():
        status, _ = runner.run([PYTHON, str(build)], "lab", timeout, ROOT)
        if status:
            return Counts(failed=1, problems=["tests/lab/build"])
        runner.run(["make", "-s", "env"], "lab", 60)
    return pytest_tier("lab")(runner, timeout)


def failures(results: dict[str, tuple[str, str]]) -> list[str]:
    return [group for group, (_, result) in results.items() if result.startswith("FAILED")]


def run_ovs(runner: Runner, timeout: float) -> Counts:
    """A part of Open vSwitch's own suite, in the patched tree (tests/ovs)."""
    suite = tomllib.loads((ROOT / "tests/ovs/suite.toml").read_text())
    tree = runner.build / "build/openvswitch"
    listing = subprocess.run(
        ["tests/testsuite", "--list"], cwd=tree, text=True, capture_output=True, check=True
    ).stdout
    groups = [
        number
        for number, file, name in re.findall(r"^ *(\d+): (\S+\.at):\d+ +(.*)$", listing, re.M)
        if file in suite["files"] and runner.select in f"{file} {name}"
    ]
    if not groups:
        return Counts()

    def check(flags: str) -> dict[str, tuple[str, str]]:
        """Runs it; group number to name and result.  In a network of its own: it makes
        a veth0 and deletes it, and one test counts on 240.0.0.1 being out of reach."""
        command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        command += ["make", "-s", "check", f"TESTSUITEFLAGS={flags}"]
        _, output = runner.run(command, "ovs", timeout, tree)
        # "1061: PMD - multiqueue support                   FAILED (pmd.at:68)"
        line = re.compile(r"^ *(\d+): (.*?) +(ok|skipped \(.*\)|FAILED \(.*\)|expected failure.*)$")
        lines = [line.match(text.rstrip()) for text in output.splitlines()]
        return {m[1]: (m[2], m[3]) for m in lines if m}

    # They mostly wait: with a job a CPU the CPUs are idle.
    results = check(f"-j{3 * int(JOBS)} {' '.join(groups)}")
    # Its timing tests fail on a busy machine, and some read a log that another thread is
    # still writing; upstream's own CI, too, runs those that failed again.
    first = failed = failures(results)
    for _ in range(2):
        if failed:
            print(f"again, one at a time: {' '.join(failed)}", flush=True)
            results |= check(" ".join(failed))
            failed = failures(results)

    counts = Counts(again=[results[group][0] for group in first if group not in failed])
    ran = [group for group in groups if group in results]
    if len(ran) < len(groups):
        counts.failed = len(groups) - len(ran)
        counts.problems.append(f"{counts.failed} of {len(groups)} groups of tests did not run")
    for group in ran:
        name, result = results[group]
        if not result.startswith(("FAILED", "skipped")):
            counts.passed += 1
        elif result.startswith("skipped"):
            counts.skipped += 1
        else:
            counts.fail(f"{name}: {result}; see {tree}/tests/testsuite.dir/{group}")
    return counts


@dataclass
class Tier:
    name: str
    about: str
    timeout: float
    run: Callable[[Runner, float], Counts]
    packages: tuple[str, ...] = ()

    @property
    def there(self) -> bool:
        """A tier that has no tests yet is not one."""
        if self.name in ("lint", "unit", "ovs"):
            return True
        return any((ROOT / "tests" / self.name).glob("**/test_*.py"))


TIERS = [
    Tier(name, about, minutes * 60, run or pytest_tier(name), packages)
    for name, about, minutes, run, packages in (
        ("lint", "compilers' warnings, cppcheck, ruff, mypy, shellcheck", 8, run_lint, ()),
        ("unit", "the engine in C, also under the sanitizers", 10, run_unit, ()),
        (
            "build",
            "configure, patches, distribution, module, documentation",
            15,
            None,
            ("kernel", "docs"),
        ),
        ("law", "the control law against a model in Python", 10, None, ()),
        ("packet", "packets through the real ovs-vswitchd", 15, None, ()),
        ("config", "ovs-vsctl, ovs-appctl", 10, None, ()),
        ("system", "real TCP between namespaces", 20, None, ()),
        ("observe", "captures, metrics, checks: what an operator sees", 10, None, ()),
        ("fleet", "one policy for many hypervisors: RAFT, agents, faults", 15, None, ("fleet",)),
        ("mininet", "topologies", 15, None, ("quickstart",)),
        ("quickstart", "the quick start", 15, None, ("quickstart",)),
        ("ovs", "Open vSwitch's own tests, those near our changes", 40, run_ovs, ()),
        ("lab", "real stacks in virtual time", 45, run_lab, ("lab",)),
        ("fuzz", "random packets and messages; 10 minutes if alone", 20, None, ()),
        ("bench", "the benchmarks, briefly", 10, None, ()),
        (
            "packages",
            "make deb, in Debian 13, over the distribution's Open vSwitch and back",
            45,
            None,
            ("packages",),
        ),
        ("qemu", "the kernel module in emulated machines; by name, or with --all", 120, None, ("qemu",)),
    )
]
# Too long for every run.
BY_NAME = {"qemu"}


# Each takes one CPU, and no clock: they run beside the tiers that mostly wait.
BESIDE = {"law", "lab", "fuzz"}
WAITING = {"packet", "config", "system", "observe", "fleet", "mininet", "ovs", "packages"}


# --- Main --------------------------------------------------------------------


class Lane:
    """Runs tiers one after the other, in a thread of its own if asked."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.results: dict[str, Counts] = {}
        self.times: dict[str, float] = {}
        self.name, self.started = "build", time.monotonic()
        self.thread: threading.Thread | None = None

    def begin(self, name: str, about: str) -> None:
        self.name, self.started = name, time.monotonic()
        print(f"\n--- {name}: {about}", flush=True)

    def finish(self, counts: Counts) -> None:
        self.results[self.name] = counts
        self.times[self.name] = time.monotonic() - self.started

    def run(self, tiers: list[Tier]) -> None:
        for tier in tiers:
            if self.runner.stopped:
                break
            self.begin(tier.name, tier.about)
            try:
                counts = tier.run(self.runner, tier.timeout)
            except (OSError, subprocess.SubprocessError, ElementTree.ParseError) as error:
                counts = Counts(failed=1, problems=[f"{tier.name}: {error}"])
            # With -k, a tier without a match is no surprise.
            if not self.runner.select and not counts.passed and not counts.failed:
                counts.fail(f"{tier.name}: nothing ran")
            self.finish(counts)
            log = self.runner.results / f"{tier.name}.log"
            if self.runner.quiet and log.exists():
                print(log.read_text(errors="replace"))
            print(f"--- {tier.name}: {counts}, {self.times[tier.name]:.0f} s", flush=True)

    def start(self, tiers: list[Tier]) -> None:
        self.thread = threading.Thread(target=self.run, args=[tiers])
        self.thread.start()

    def join(self) -> None:
        if self.thread:
            self.thread.join()


def build(runner: Runner, pristine: bool) -> bool:
    """'pristine': the unpatched Open vSwitch as well, to compare with."""
    steps = []
    if not (runner.build / "Makefile").exists():
        if not (ROOT / "configure").exists():
            steps.append([str(ROOT / "boot.sh")])
        steps.append([str(ROOT / "configure")])
    steps.append(["make", f"-j{JOBS}"])
    if pristine:
        steps.append(["make", f"-j{JOBS}", "pristine"])
    for step in steps:
        status, output = runner.run(step, "make", 1800)
        if status:
            return False
    return True


def prepare(lane: Lane, chosen: list[Tier]) -> bool:
    """Installs packages and builds."""
    groups = sorted({"build", "test", *(g for tier in chosen for g in tier.packages)})
    lane.begin("packages", " ".join(groups))
    if lane.runner.run([str(ROOT / "build-aux/install-deps"), *groups], "packages", 1800)[0]:
        lane.finish(Counts(failed=1, problems=["build-aux/install-deps"]))
        return False
    lane.begin("make", "all that the tests need")
    if not build(lane.runner, any(t.name in ("packet", "system", "bench") for t in chosen)):
        lane.finish(Counts(failed=1, problems=["make"]))
        return False
    return True


def run_lanes(lane: Lane, beside: Lane, chosen: list[Tier]) -> None:
    waiting = [tier for tier in chosen if tier.name in WAITING]
    if not waiting:
        lane.run(chosen)
        return
    first = chosen.index(waiting[0])
    lane.run([tier for tier in chosen[:first] if tier.name not in BESIDE])
    beside.start([tier for tier in chosen if tier.name in BESIDE])
    lane.run(waiting)
    beside.join()
    lane.run([tier for tier in chosen[first:] if tier.name not in BESIDE | WAITING])


def report(times: dict[str, float], results: dict[str, Counts], results_dir: Path) -> int:
    total = Counts()
    print("\n" + "=" * 72)
    for name, counts in results.items():
        print(f"{name:12} {times[name]:6.0f} s   {counts}")
        total += counts
    if total.again:
        print("\nfailed, and passed when run again alone:")
        for problem in total.again:
            print(f"  {problem}")
    if total.problems:
        print("\nfailed:")
        for problem in total.problems:
            print(f"  {problem}")
    print(f"\nlogs and JUnit XML: {results_dir}\n")
    print(total, flush=True)
    return 1 if total.failed or not total.passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/run", description=__doc__.split("\n")[0], epilog=__doc__.split("\n\n", 1)[1]
    )
    tiers = {tier.name: tier for tier in TIERS if tier.there}
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"of: {' '.join(tiers)}")
    parser.add_argument("--list", action="store_true", help="list the tiers and exit")
    parser.add_argument(
        "--all", action="store_true", help="every tier, and of each the tests that take long"
    )
    parser.add_argument("--keep", action="store_true", help="keep what tests leave behind")
    parser.add_argument(
        "-k", metavar="EXPR", default="", help="only tests that match, as pytest -k"
    )
    parser.add_argument("--build-dir", type=Path, default=ROOT, help="where ./configure was run")
    args = parser.parse_args()

    if args.list:
        for tier in tiers.values():
            print(f"{tier.name:12} {tier.about}")
        return 0
    unknown = [name for name in args.tiers if name not in tiers]
    if unknown:
        parser.error(f"no such tier: {' '.join(unknown)}; there are {' '.join(tiers)}")
    if os.geteuid():
        parser.error("network namespaces and packages need root: sudo tests/run")
    wanted = args.tiers or (tiers.keys() if args.all else tiers.keys() - BY_NAME)
    if args.all:
        os.environ["ACDC_TEST_ALL"] = "1"
    if wanted == ["fuzz"]:
        os.environ.setdefault("ACDC_FUZZ_SECONDS", "600")
    chosen = [tier for tier in tiers.values() if tier.name in wanted]

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    build_dir = args.build_dir.resolve()
    results_dir = build_dir / "build" / "results"
    shutil.rmtree(results_dir, ignore_errors=True)
    results_dir.mkdir(parents=True)
    lane = Lane(Runner(build_dir, results_dir, args.keep, args.k))
    beside = Lane(Runner(build_dir, results_dir, args.keep, args.k, quiet=True))
    try:
        if prepare(lane, chosen):
            run_lanes(lane, beside, chosen)
    except Interrupted as reason:
        beside.runner.stop()
        beside.join()
        lane.finish(Counts(failed=1, problems=[f"{lane.name}: {reason}"]))
    results, times = lane.results | beside.results, lane.times | beside.times
    return report(times, results, results_dir)


if __name__ == "__main__":
    sys.exit(main())
