# SPDX-License-Identifier: Apache-2.0

"""Finds the programs under test through build/env, which the build writes."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def env_file() -> Path:
    """build/env, or what ACDC_ENV names (an out-of-tree build)."""
    return Path(os.environ.get("ACDC_ENV", ROOT / "build" / "env"))


def read_env(path: Path | None = None) -> dict[str, str]:
    """The shell assignments of build/env."""
    path = path or env_file()
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make` first, or set ACDC_ENV")
    result: dict[str, str] = {}
    for line in path.read_text().splitlines():
        for word in shlex.split(line, comments=True):
            name, sep, value = word.partition("=")
            if sep:
                result[name] = value
    return result


@dataclass(frozen=True)
class Programs:
    """One build of OVS."""

    vswitchd: Path
    ovsdb_server: Path
    ovsdb_tool: Path
    vsctl: Path
    ofctl: Path
    appctl: Path
    schema: Path

    @classmethod
    def _from(cls, env: dict[str, str], prefix: str) -> Programs:
        def get(name: str) -> Path:
            path = Path(env[prefix + name])
            if not path.exists():
                raise FileNotFoundError(f"{prefix}{name}={path} does not exist")
            return path

        vsctl = get("OVS_VSCTL")
        env.setdefault(prefix + "OVS_OFCTL", str(vsctl.with_name("ovs-ofctl")))
        return cls(
            vswitchd=get("OVS_VSWITCHD"),
            ovsdb_server=get("OVSDB_SERVER"),
            ovsdb_tool=get("OVSDB_TOOL"),
            vsctl=vsctl,
            ofctl=get("OVS_OFCTL"),
            appctl=get("OVS_APPCTL"),
            schema=get("OVS_SCHEMA"),
        )

    @classmethod
    def patched(cls) -> Programs:
        return cls._from(read_env(), "")

    @classmethod
    def pristine(cls) -> Programs:
        env = read_env()
        if "PRISTINE_OVS_VSWITCHD" not in env:
            raise FileNotFoundError(
                f"{env_file()} has no PRISTINE_OVS_VSWITCHD: run `make pristine`"
            )
        # Whatever the build does not name is where an OVS build tree has it.
        top = Path(env["PRISTINE_OVS_VSWITCHD"]).resolve().parents[1]
        env.setdefault("PRISTINE_OVS_VSCTL", str(top / "utilities/ovs-vsctl"))
        env.setdefault("PRISTINE_OVS_APPCTL", str(top / "utilities/ovs-appctl"))
        env.setdefault("PRISTINE_OVSDB_SERVER", str(top / "ovsdb/ovsdb-server"))
        env.setdefault("PRISTINE_OVSDB_TOOL", str(top / "ovsdb/ovsdb-tool"))
        if "PRISTINE_OVS_SCHEMA" not in env:
            makefile = (top / "Makefile").read_text().splitlines()
            srcdir = next(x.split("=")[1].strip() for x in makefile if x.startswith("srcdir ="))
            env["PRISTINE_OVS_SCHEMA"] = str(top / srcdir / "vswitchd/vswitch.ovsschema")
        return cls._from(env, "PRISTINE_")
