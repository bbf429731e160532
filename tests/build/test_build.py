# SPDX-License-Identifier: Apache-2.0
"""The build: what configure finds and says, how the tree of Open vSwitch is
patched and kept up to date, and the distribution.  On a copy of the project,
with the sources of Open vSwitch that the project's own build uses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = "ovs-patches/openvswitch"
# What make exported to the tests is not for the makes that they run.
ENVIRON = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def run(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=ENVIRON | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )


def succeed(*command: str | Path, cwd: Path) -> str:
    result = run(*command, cwd=cwd)
    assert result.returncode == 0, result.stdout
    return result.stdout


def project_files() -> list[str]:
    if (ROOT / ".git").exists():
        return succeed("git", "-c", "safe.directory=*", "ls-files", cwd=ROOT).splitlines()
    return (ROOT / "MANIFEST").read_text().splitlines()


@pytest.fixture(scope="session")
def ovs_source() -> Path:
    """What the project's own build was configured with."""
    makefile = Path(os.environ.get("ACDC_ENV", ROOT / "build/env")).parents[1] / "Makefile"
    match = re.search(r"^OVS_SOURCE = (.+)$", makefile.read_text(), re.M)
    assert match
    return Path(match[1])


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the project, with a configure."""
    copy = tmp_path_factory.mktemp("project")
    names = [name for name in project_files() if (ROOT / name).is_file()]
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    # A copy that is no repository: a distribution has this list instead.
    (copy / "MANIFEST").write_text("\n".join(names) + "\n")
    succeed("./boot.sh", cwd=copy)
    return copy


def configure(project: Path, build: Path, *args: str, **env: str) -> str:
    build.mkdir(exist_ok=True)
    result = run(project / "configure", *args, cwd=build, **env)
    return f"{result.stdout}\nexit status {result.returncode}"


# --- configure ---------------------------------------------------------------


def test_every_missing_dependency_is_named_with_its_package(project: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    gone = ("autoreconf", "libtoolize", "git", "pkg-config")
    for program in Path("/usr/bin").iterdir():
        if program.name not in gone and not program.name.endswith("-pkg-config"):
            (programs / program.name).symlink_to(program)
    output = configure(project, tmp_path / "b", PATH=str(programs))
    assert "exit status 0" not in output
    error = output.split("error: missing:")[1]
    for package in ("autoconf", "libtool", "git", "pkg-config"):
        assert f"(package {package})" in error
    assert re.search(r"apt-get install.* autoconf\b.* libtool\b", error)


def test_a_missing_compiler_is_named(project: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if not re.search(r"gcc|clang|cc$|c99|c89|tcc", program.name):
            (programs / program.name).symlink_to(program)
    output = configure(project, tmp_path / "b", PATH=str(programs))
    assert "a C compiler (package build-essential)" in output


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--with-ovs-source=/nonexistent", "no such file or directory: /nonexistent"),
        ("--with-ovs-source=/etc", "not sources of Open vSwitch"),
        ("--with-dpdk=perhaps", "bad value perhaps for --with-dpdk"),
    ],
)
def test_a_bad_option_is_refused(project: Path, tmp_path: Path, option: str, says: str) -> None:
    output = configure(project, tmp_path / "b", option)
    assert says in output
    assert "exit status 0" not in output


def test_another_version_is_refused(project: Path, tmp_path: Path) -> None:
    sources = tmp_path / "ovs"
    sources.mkdir()
    (sources / "configure.ac").write_text("AC_INIT(openvswitch, 1.4.0, bugs@openvswitch.org)\n")
    output = configure(project, tmp_path / "b", f"--with-ovs-source={sources}")
    assert "no patches for Open vSwitch 1.4.0; there are patches for: 3.1" in output


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        (["--without-dpdk"], None),
        (["--with-dpdk=no"], None),
        (["--with-dpdk=shared"], "--with-dpdk=shared"),
        (["--with-dpdk=static"], "--with-dpdk=static"),
        ([], "--with-dpdk=shared"),
    ],
)
def test_dpdk(
    project: Path, ovs_source: Path, tmp_path: Path, options: list[str], passed: str | None
) -> None:
    if passed and run("pkg-config", "--exists", "libdpdk", cwd=tmp_path).returncode:
        pytest.skip("no libdpdk-dev")
    build = tmp_path / "b"
    output = configure(project, build, f"--with-ovs-source={ovs_source}", *options)
    assert "exit status 0" in output
    flags = re.findall(r"--with-dpdk\S*", (build / "build/configure-ovs").read_text())
    assert flags == ([passed] if passed else [])


def test_directories_and_flags_reach_open_vswitch(
    project: Path, ovs_source: Path, tmp_path: Path
) -> None:
    build = tmp_path / "b"
    output = configure(
        project, build, f"--with-ovs-source={ovs_source}", "--prefix=/opt/acdc", "CFLAGS=-O1 -g",
        "--sysconfdir=/etc", "--localstatedir=/var", "--runstatedir=/run", "--enable-Werror",
    )  # fmt: skip
    assert "exit status 0" in output
    # The script's last line, with printf in the place of ./configure.
    line = (build / "build/configure-ovs").read_text().splitlines()[-1]
    command = line.replace("exec ./configure", "printf '%s\\n'", 1)
    args = succeed("sh", "-c", command, cwd=build).splitlines()
    assert {
        "--prefix=/opt/acdc", "--sysconfdir=/etc", "--localstatedir=/var", "CFLAGS=-O1 -g",
        "--with-rundir=/run/openvswitch", "--enable-Werror",
    } <= set(args)  # fmt: skip
    assert not [arg for arg in args if "ovs-source" in arg]


def test_units_name_the_program_of_the_last_configure(
    project: Path, ovs_source: Path, tmp_path: Path
) -> None:
    build, unit = tmp_path / "b", "build/acdc-exporter.service"
    for prefix in ("/opt/one", "/opt/two"):
        option = f"--with-ovs-source={ovs_source}"
        assert "exit status 0" in configure(project, build, option, f"--prefix={prefix}")
        succeed("make", unit, cwd=build)
        assert f"ExecStart={prefix}/sbin/acdc-exporter " in (build / unit).read_text()
    succeed("make", "build/acdc-fleet.ovsschema", cwd=build)
    succeed("make", "clean", cwd=build)
    assert not list((build / "build").glob("acdc-*"))


def test_sources_in_a_directory_with_a_blank(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "open vswitch"
    source.mkdir()
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 3.1.0, bugs)\n")
    said = configure(project, tmp_path / "b", f"--with-ovs-source={source}")
    assert "exit status 0" in said
    # It has no more than that, and does not get far.
    assert f"UNPACK   {source}\n" in run("make", "ovs-source", cwd=tmp_path / "b").stdout


BOOT = "#!/bin/sh\necho : >configure\nchmod +x configure\n: >Makefile.in\n"


def test_a_boot_that_was_interrupted_is_done_again(
    project: Path, ovs_source: Path, tmp_path: Path
) -> None:
    """Of Open vSwitch's tree: autoreconf had made configure, and not yet Makefile.in."""
    tree = tmp_path / "build/openvswitch"
    configure(project, tmp_path, f"--with-ovs-source={ovs_source}")
    tree.mkdir()
    for name, text in (("boot.sh", BOOT), ("configure", "#!/bin/sh\ntest -f Makefile.in\n")):
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)
    succeed("make", "-o", "ovs-source", "build/openvswitch.configured", cwd=tmp_path)
    assert (tree / "Makefile.in").exists()


# --- The tree of Open vSwitch ------------------------------------------------


class Tree:
    """A copy of the project and the tree that it patches."""

    def __init__(self, source: Path, directory: Path) -> None:
        self.source = source
        self.project = directory / "project"
        self.tree = directory / "openvswitch"
        self.patches = self.project / PATCHES / "base"
        # A version that the base is not for.
        self.older = self.project / PATCHES / (self.project / PATCHES / "versions").read_text()[:3]

    def ovs_tree(self, *args: str | Path) -> str:
        result = run(self.project / "build-aux/ovs-tree", *args, cwd=self.project)
        return f"{result.stdout}\nexit status {result.returncode}"

    def update(self) -> str:
        return self.ovs_tree("update", self.source, self.tree, "--project", self.project)

    def git(self, *args: str) -> str:
        where = (f"--git-dir={self.tree}.git", f"--work-tree={self.tree}")
        return succeed("git", *where, *args, cwd=self.tree)

    def times(self) -> dict[str, int]:
        paths = [p for p in self.tree.rglob("*") if p.is_file()]
        return {str(p.relative_to(self.tree)): p.stat().st_mtime_ns for p in paths}


@pytest.fixture(scope="session")
def made_tree(project: Path, ovs_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    shutil.copytree(project, directory / "project", symlinks=True)
    output = Tree(ovs_source, directory).update()
    assert "exit status 0" in output, output
    return directory


@pytest.fixture
def tree(made_tree: Path, ovs_source: Path, tmp_path: Path) -> Tree:
    """A copy of its own for each test, made in a fraction of the time."""
    succeed("cp", "-a", f"{made_tree}/.", tmp_path, cwd=made_tree)
    return Tree(ovs_source, tmp_path)


def test_every_patch_is_applied_as_a_commit(tree: Tree) -> None:
    patches = sorted(tree.patches.glob("*.patch"))
    subjects = tree.git("log", "--reverse", "--format=%s", "tables..HEAD").splitlines()
    assert len(subjects) == len(patches) > 0
    assert tree.git("status", "--porcelain", "--untracked-files=no") == ""


def test_our_files_are_beside_upstreams(tree: Tree) -> None:
    for path in tree.project.glob("datapath/*.[ch]"):
        assert (tree.tree / "acdc" / path.name).read_bytes() == path.read_bytes()
    for path in tree.project.glob("lib/*.[ch]"):
        assert (tree.tree / "lib" / path.name).read_bytes() == path.read_bytes()


def test_without_a_change_nothing_is_written(tree: Tree) -> None:
    before = tree.times()
    done = tree.update()
    assert "exit status 0" in done and "COPY" not in done
    assert tree.times() == before


def test_an_edit_writes_one_file(tree: Tree) -> None:
    before = tree.times()
    with (tree.project / "datapath/acdc.h").open("a") as stream:
        stream.write("/* An edit. */\n")
    assert "exit status 0" in tree.update()
    after = tree.times()
    assert {name for name in after if after[name] != before.get(name)} == {"acdc/acdc.h"}


def test_a_new_patch_writes_only_what_it_changes(tree: Tree) -> None:
    before = tree.times()
    news = tree.tree / "NEWS"
    news.write_text("A line.\n" + news.read_text())
    tree.git("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qam", "Add a line.")
    patch = tree.git("format-patch", "--stdout", "-1")
    tree.git("reset", "-q", "--hard", "HEAD^")
    (tree.patches / "9999-line.patch").write_text(patch)
    with (tree.patches / "series").open("a") as stream:
        stream.write("9999-line.patch\n")
    assert "exit status 0" in tree.update()
    assert news.read_text().startswith("A line.\n")
    after = tree.times()
    assert {name for name in after if after[name] != before.get(name)} == {"NEWS"}


def test_a_patch_that_does_not_apply_is_named(tree: Tree) -> None:
    head = tree.git("rev-parse", "HEAD")
    patch = next(tree.patches.glob("0001-*.patch"))
    text = patch.read_text()
    patch.write_text(text.replace("\n include ", "\n includes "))
    assert patch.read_text() != text
    output = tree.update()
    assert f"{patch.name} does not apply" in output
    assert "exit status 1" in output
    assert tree.git("rev-parse", "HEAD") == head


def test_a_patch_that_is_not_in_the_series_is_named(tree: Tree) -> None:
    (tree.patches / "9999-forgotten.patch").write_text("")
    output = tree.update()
    assert re.search(r"not in .*series: 9999-forgotten\.patch", output)
    assert "exit status 1" in output


def test_a_version_has_the_base_s_patches_but_for_its_own(tree: Tree) -> None:
    """3.1's own patch is taken for 3.1 and for no other version."""
    first, *others = (tree.patches / "series").read_text().split()
    tree.older.mkdir(exist_ok=True)
    for path in tree.older.iterdir():
        path.unlink()
    text = (tree.patches / first).read_text()
    (tree.older / first).write_text(text.replace("\n+include ", "\n+# Ours.\n+include ", 1))
    (tree.older.parent / "versions").write_text(f"{tree.older.name} 99.1\n")
    for path in tree.older.parent.iterdir():
        if path.is_dir() and path.name not in ("base", tree.older.name):
            shutil.rmtree(path)

    def listed(version: str) -> list[str]:
        lines = tree.ovs_tree("series", "openvswitch", version).splitlines()
        return [str(Path(line).relative_to(tree.older.parent)) for line in lines if "/" in line]

    rest = [f"base/{name}" for name in others]
    assert listed(f"{tree.older.name}.7") == [f"{tree.older.name}/{first}", *rest]
    assert listed("99.1.0") == [f"base/{first}", *rest]
    assert "exit status 0" in tree.ovs_tree("check", tree.project)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("\nSubject: ", "\nX-Other: header\nSubject: "),
        ("\n@@ -", "\n@@ -1"),
        ("\n--- ", "\nindex 1111111..2222222 100644\n--- "),
    ],
)
def test_an_override_that_does_what_the_base_does_is_refused(
    tree: Tree, before: str, after: str
) -> None:
    patch = next(tree.patches.glob("0001-*.patch"))
    tree.older.mkdir(exist_ok=True)
    assert before in patch.read_text()
    (tree.older / patch.name).write_text(patch.read_text().replace(before, after, 1))
    for output in (tree.update(), tree.ovs_tree("check", tree.project)):
        assert re.search(rf"{patch.name} does what .*base/{patch.name} does: delete it", output)
        assert "exit status 1" in output


def test_a_version_costs_few_lines() -> None:
    """Less than 150 that not every version has, each.  The page says how many."""
    table = succeed(ROOT / "build-aux/ovs-tree", "lines", cwd=ROOT).rstrip().splitlines()
    assert table[0].split()[1:] == ["own", "header", "differ"]
    rows = [line.split() for line in table if "Open vSwitch" in line]
    assert [row[2] for row in rows] == (ROOT / PATCHES / "versions").read_text().split()
    for row in rows:
        own, header, differ = map(int, row[-3:])
        assert header
        assert own + header == differ < 150
    page = (ROOT / "docs/upgrading.rst").read_text()
    assert "".join(f"    {line}\n" for line in table) in page


def test_an_override_of_nothing_is_refused(tree: Tree) -> None:
    tree.older.mkdir(exist_ok=True)
    (tree.older / "0009-old-name.patch").write_text("")
    for output in (tree.update(), tree.ovs_tree("check", tree.project)):
        assert re.search(r"0009-old-name\.patch overrides nothing: .*base has no 0009", output)
        assert "exit status 1" in output


def test_a_directory_of_no_version_is_refused(tree: Tree) -> None:
    (tree.older.parent / "2.9").mkdir()
    output = tree.ovs_tree("check", tree.project)
    assert "2.9 is no version" in output
    assert "exit status 1" in output


# --- Our tables --------------------------------------------------------------


def test_the_schema_is_upstream_s_with_our_tables(tree: Tree) -> None:
    path = "vswitchd/vswitch.ovsschema"
    upstream = json.loads(tree.git("show", f"pristine:{path}"))
    merged = json.loads((tree.tree / path).read_text())
    ours = json.loads((tree.project / "ovs-patches/schema/acdc.ovsschema").read_text())["tables"]
    assert {"ACDC", "ACDC_Rule"} <= set(ours)
    for name, table in upstream["tables"].items():
        columns = ours.get(name, {"columns": {}})["columns"]
        assert merged["tables"][name] == table | {"columns": table["columns"] | columns}
    assert set(merged["tables"]) == set(upstream["tables"]) | set(ours)
    assert merged["version"] > upstream["version"]
    # Upstream's own check, of the checksum, which fails if it is wrong.
    check = ("sh", "build-aux/cksum-schema-check", path, tree.tree.parent / "stamp")
    succeed(*check, cwd=tree.tree)
    (tree.tree / path).write_text((tree.tree / path).read_text().replace("ACDC_Rule", "ACDC_Bule"))
    assert "does not match cksum field" in run(*check, cwd=tree.tree).stdout


def test_the_manual_is_upstream_s_with_our_tables(tree: Tree) -> None:
    path = "vswitchd/vswitch.xml"
    upstream = tree.git("show", f"pristine:{path}").splitlines()
    lines = (tree.tree / path).read_text().splitlines()
    rest = iter(lines)
    assert all(line in rest for line in upstream)  # In this order.
    at = [
        next(i for i, line in enumerate(lines) if text in line)
        for text in ('<table name="Open_vSwitch"', '"acdc-max-flows"', '<table name="Bridge"',
                     '<table name="Interface"', '"acdc-tenant"', '<table name="Flow_Table"',
                     '<table name="ACDC"', '<table name="ACDC_Rule"', "</database>")
    ]  # fmt: skip
    assert at == sorted(at)
    documented = {m[1] for line in lines if (m := re.search(r'<table name="(\w+)"', line))}
    schema = json.loads((tree.tree / "vswitchd/vswitch.ovsschema").read_text())
    assert documented == set(schema["tables"])


def test_another_schema_of_upstream_s_keeps_what_it_has(tree: Tree, tmp_path: Path) -> None:
    """A table and a column that the sources of this test gain, as a new version does;
    our column of one of upstream's tables is beside them."""
    source = tmp_path / "source"
    succeed("git", f"--git-dir={tree.tree}.git", "worktree", "add", "-f", source, "pristine",
            cwd=tmp_path)  # fmt: skip
    (source / ".git").unlink()
    path = source / "vswitchd/vswitch.ovsschema"
    upstream = json.loads(path.read_text())
    upstream["tables"]["Bridge"]["columns"]["new_column"] = {"type": "string"}
    upstream["tables"]["New"] = {"columns": {"name": {"type": "string"}}}
    upstream["version"] = "9.41.3"
    path.write_text(json.dumps(upstream, indent=2))
    fragment = tree.project / "ovs-patches/schema/acdc.ovsschema"
    ours = json.loads(fragment.read_text())
    ours["tables"]["Bridge"] = {"columns": {"acdc_column": {"type": "integer"}}}
    fragment.write_text(json.dumps(ours))
    other = tmp_path / "other"
    output = tree.ovs_tree("update", source, other, "--project", tree.project)
    assert "exit status 0" in output, output
    merged = json.loads((other / "vswitchd/vswitch.ovsschema").read_text())
    assert merged["version"] == "9.42.0"
    assert merged["tables"]["New"] == upstream["tables"]["New"]
    assert merged["tables"]["Bridge"]["columns"]["new_column"] == {"type": "string"}
    assert merged["tables"]["Bridge"]["columns"]["acdc_column"] == {"type": "integer"}
    assert list(merged["tables"]["Bridge"]["columns"])[:-1] == list(
        upstream["tables"]["Bridge"]["columns"]
    )
    assert "ACDC" in merged["tables"]
    succeed("sh", "build-aux/cksum-schema-check", "vswitchd/vswitch.ovsschema", tmp_path / "stamp",
            cwd=other)  # fmt: skip


def test_a_column_that_upstream_has_already_is_refused(tree: Tree) -> None:
    fragment = tree.project / "ovs-patches/schema/acdc.ovsschema"
    ours = json.loads(fragment.read_text())
    ours["tables"]["Bridge"] = {"columns": {"name": {"type": "integer"}}}
    fragment.write_text(json.dumps(ours))
    output = tree.update()
    assert "upstream's table Bridge has a column name already" in output
    assert "exit status 1" in output


def test_an_edit_of_a_table_s_text_writes_only_the_manual(tree: Tree) -> None:
    before = tree.times()
    fragment = tree.project / "ovs-patches/schema/acdc.xml"
    fragment.write_text(fragment.read_text().replace("A unique name.", "A name, unique."))
    assert "exit status 0" in tree.update()
    after = tree.times()
    assert {name for name in after if after[name] != before.get(name)} == {"vswitchd/vswitch.xml"}


# --- Our files, edits, and where the sources come from -------------------------


def test_edits_of_the_tree_are_not_lost(tree: Tree) -> None:
    news = tree.tree / "NEWS"
    news.write_text("Not committed.\n" + news.read_text())
    with next(tree.patches.glob("0001-*.patch")).open("a") as stream:
        stream.write("\n")
    output = tree.update()
    assert "was edited" in output
    assert "exit status 1" in output
    assert news.read_text().startswith("Not committed.\n")


def test_a_source_that_is_not_listed_is_named(tree: Tree) -> None:
    (tree.project / "datapath/acdc-forgotten.c").write_text("")
    output = tree.update()
    assert "datapath/Kbuild does not list acdc/acdc-forgotten.c" in output
    assert "exit status 1" in output


def test_a_directory_serves_as_a_tarball_does(tree: Tree, tmp_path: Path) -> None:
    with tarfile.open(tree.source) as tar:
        tar.extractall(tmp_path / "unpacked")
    (directory,) = (tmp_path / "unpacked").iterdir()
    other = tmp_path / "other"
    command: list[str | Path] = [tree.project / "build-aux/ovs-tree", "update", directory, other]
    succeed(*command, "--project", tree.project, cwd=tmp_path)
    # The same contents have the same object.
    tree_of = ("rev-parse", "HEAD^{tree}")
    other_hash = succeed("git", f"--git-dir={other}.git", *tree_of, cwd=tmp_path)
    assert other_hash == tree.git(*tree_of)


def test_whatever_changes_in_a_directory_is_taken(project: Path, tmp_path: Path) -> None:
    source, tree = tmp_path / "source", tmp_path / "tree"
    names = ("vswitchd/vswitch.ovsschema", "debian/changelog", "python/ovs/json.py")
    for name in names:
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text("old")
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 3.5.0, x)\n")
    update = (project / "build-aux/ovs-tree", "update", source, tree)
    for text in ("old", "newer", "newest"):
        for name in names:
            (source / name).write_text(text)
            succeed(*update, cwd=tmp_path)
            assert (tree / name).read_text() == text
    (source / "lib").mkdir()
    succeed(*update, cwd=tmp_path)
    (source / "lib/ovs.o").write_text("built")
    assert "UNPACK" not in succeed(*update, cwd=tmp_path)


def test_the_users_settings_of_git_do_not_matter(
    project: Path, ovs_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text(
        "[commit]\n\tgpgSign = true\n[core]\n\thooksPath = /nonexistent\n\tautocrlf = true\n"
    )
    monkeypatch.setitem(ENVIRON, "GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setitem(ENVIRON, "HOME", str(tmp_path))
    shutil.copytree(project, tmp_path / "project", symlinks=True)
    assert "exit status 0" in Tree(ovs_source, tmp_path).update()


# --- The distribution --------------------------------------------------------


def test_the_distribution_is_complete_and_makes_itself(
    project: Path, ovs_source: Path, tmp_path: Path
) -> None:
    option = f"--with-ovs-source={ovs_source}"
    assert "exit status 0" in configure(project, tmp_path / "b", option)
    succeed("make", "dist", cwd=tmp_path / "b")
    (archive,) = (tmp_path / "b").glob("acdc-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "d")
    (unpacked,) = (tmp_path / "d").iterdir()
    names = set((project / "MANIFEST").read_text().split("\n")) - {""}
    assert {name for name in names if not (unpacked / name).is_file()} == set()
    for name in names:
        assert os.access(unpacked / name, os.X_OK) == os.access(project / name, os.X_OK), name

    # It needs no boot.sh, patches Open vSwitch, and makes the same distribution.
    assert "exit status 0" in configure(unpacked, tmp_path / "b2", option)
    succeed("make", "ovs-source", cwd=tmp_path / "b2")
    assert (tmp_path / "b2/build/openvswitch/acdc/acdc.h").exists()
    succeed("make", "dist", cwd=tmp_path / "b2")
    (again,) = (tmp_path / "b2").glob("acdc-*.tar.gz")
    with tarfile.open(archive) as first, tarfile.open(again) as second:
        assert sorted(first.getnames()) == sorted(second.getnames())


def test_another_user_s_checkout_is_distributed(
    project: Path, ovs_source: Path, tmp_path: Path
) -> None:
    """As root in a container does."""
    checkout = tmp_path / "checkout"
    shutil.copytree(project, checkout, symlinks=True)
    for command in (["init", "-q"], ["add", "configure.ac", "datapath"]):
        succeed("git", "-C", checkout, *command, cwd=tmp_path)
    succeed("chown", "-R", "nobody", checkout, cwd=tmp_path)
    build = tmp_path / "b"
    assert "exit status 0" in configure(checkout, build, f"--with-ovs-source={ovs_source}")
    succeed("make", "dist", cwd=build)
    assert "/datapath/acdc.h" in succeed("sh", "-c", "tar -tzf acdc-*.tar.gz", cwd=build)


def test_install(tmp_path: Path) -> None:
    """The project's own build installs ovs-vswitchd, its schema, manual pages, acdc-tune."""
    build = Path(os.environ.get("ACDC_ENV", ROOT / "build/env")).parents[1]
    succeed("make", "install", f"DESTDIR={tmp_path}", cwd=build)
    (daemon,) = tmp_path.rglob("sbin/ovs-vswitchd")
    assert "ovs-vswitchd (Open vSwitch)" in succeed(daemon, "--version", cwd=tmp_path)
    (schema,) = tmp_path.rglob("vswitch.ovsschema")
    assert '"Open_vSwitch"' in schema.read_text()
    (manual,) = tmp_path.rglob("ovs-vswitchd.8")
    assert "acdc/dump\\-flows" in manual.read_text()
    pages = {path.stem for path in ROOT.glob("docs/man/*.rst")}
    assert pages <= {path.name for path in manual.parent.iterdir()}
    # What an operator needs runs from there, without the sources.
    (tune,) = tmp_path.rglob("bin/acdc-tune")
    tuned = succeed(tune, ROOT / "docs/examples/fabric.yaml", cwd=tmp_path)
    assert tuned.startswith("minRTO: ")
    (exporter,) = tmp_path.rglob("sbin/acdc-exporter")
    assert "Prometheus" in succeed(exporter, "--help", cwd=tmp_path)
    assert "Nagios" in succeed(exporter.with_name("acdc-check"), "--help", cwd=tmp_path)
    assert "acdc-trace " in succeed(exporter.with_name("acdc-trace"), "--version", cwd=tmp_path)
    assert "Draws" in succeed(exporter.with_name("acdc-trace-plot"), "--help", cwd=tmp_path)
    assert "limits" in succeed(exporter.with_name("acdc-top"), "--help", cwd=tmp_path)
    prefix = exporter.parents[1]
    assert (prefix / "share/acdc/datapath/acdc-counters.h").exists()
    modules = ("acdc_check", "acdc_cli", "acdc_scapy", "acdc_top")
    for name in ("wireshark/plugins/acdc.lua", *(f"{module}/__init__.py" for module in modules)):
        assert len(list(tmp_path.rglob(name))) == 1, name
    for name in ("acdc-rules.yml", "acdc-dashboard.json"):
        assert (prefix / "share/acdc/prometheus" / name).exists(), name
    script = (prefix / "share/acdc/bpftrace/acdc-cut.bt").read_text()
    assert f"usdt:/{daemon.relative_to(tmp_path)}:acdc:" in script
    assert (prefix / "lib/python3/dist-packages/sos/report/plugins/acdc.py").exists()
    service = (prefix / "lib/systemd/system/acdc-exporter.service").read_text()
    assert f"ExecStart=/{exporter.relative_to(tmp_path)} " in service
