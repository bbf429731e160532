# SPDX-License-Identifier: Apache-2.0

"""Where the programs of an Open vSwitch are: in a build tree, or installed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

CHECKOUT = Path(__file__).resolve().parents[2]
STANDARD = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def env_file() -> Path:
    """build/env of this checkout, or what ACDC_ENV names (a build elsewhere)."""
    return Path(os.environ.get("ACDC_ENV", CHECKOUT / "build" / "env"))


def read_env() -> dict[str, str]:
    """The shell assignments of build/env."""
    path = env_file()
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: build first (./boot.sh && ./configure && make), or set ACDC_ENV"
        )
    words = shlex.split(path.read_text(), comments=True)
    return dict(word.split("=", 1) for word in words if "=" in word)


@dataclass(frozen=True)
class Programs:
    """Those of one Open vSwitch, and its schema."""

    vswitchd: Path
    ovsdb_server: Path
    ovsdb_tool: Path
    vsctl: Path
    ofctl: Path
    appctl: Path
    schema: Path

    @classmethod
    def from_mapping(cls, env: Mapping[str, str], prefix: str = "") -> Self:
        """From the variables of build/env, or those of them that begin with 'prefix'."""

        def get(name: str, default: Path | None = None) -> Path:
            path = Path(env.get(prefix + name) or default or env[prefix + name])
            if not path.exists():
                raise FileNotFoundError(f"{prefix}{name}={path} does not exist")
            return path

        vsctl = get("OVS_VSCTL")
        return cls(
            vswitchd=get("OVS_VSWITCHD"),
            ovsdb_server=get("OVSDB_SERVER"),
            ovsdb_tool=get("OVSDB_TOOL"),
            vsctl=vsctl,
            ofctl=get("OVS_OFCTL", vsctl.with_name("ovs-ofctl")),
            appctl=get("OVS_APPCTL"),
            schema=get("OVS_SCHEMA"),
        )

    @classmethod
    def from_env(cls) -> Self:
        """What this checkout, or the one that ACDC_ENV names, has built."""
        return cls.from_mapping(read_env())

    @classmethod
    def installed(cls) -> Self:
        """Those in PATH or in the standard places."""
        path = os.pathsep.join([os.environ.get("PATH", ""), STANDARD])
        for vswitchd in _all("ovs-vswitchd", path):
            prefix = vswitchd.parent.parent
            # The others beside it first: two versions may be installed.
            beside = os.pathsep.join([str(prefix / "bin"), str(prefix / "sbin"), path])
            names = ("ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
            paths = (shutil.which(name, path=beside) for name in names)
            found = [Path(path) for path in paths if path]
            share = [prefix / "share", Path("/usr/local/share"), Path("/usr/share")]
            schemas = [place / "openvswitch/vswitch.ovsschema" for place in share]
            schema = next(filter(Path.exists, schemas), None)
            if schema and len(found) == len(names):
                server, tool, vsctl, ofctl, appctl = found
                return cls(vswitchd, server, tool, vsctl, ofctl, appctl, schema)
        raise FileNotFoundError("no Open vSwitch is installed, neither in PATH nor in /usr")

    @classmethod
    def find(cls) -> Self:
        """What was built here (see from_env()); without a build, what is installed."""
        if "ACDC_ENV" in os.environ or env_file().exists():
            return cls.from_env()
        try:
            return cls.installed()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{error}, and {env_file()} is missing: nothing is built;"
                " ACDC_ENV can name the build/env of a build"
            ) from None

    @property
    def has_acdc(self) -> bool:
        return "ACDC" in json.loads(self.schema.read_text())["tables"]

    def version(self) -> str:
        done = subprocess.run(
            [self.vswitchd, "--version"], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[0]


def _all(program: str, path: str) -> Iterator[Path]:
    for place in path.split(os.pathsep):
        if place and (found := shutil.which(program, path=place)):
            yield Path(found)
