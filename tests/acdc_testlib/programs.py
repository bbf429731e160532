# SPDX-License-Identifier: Apache-2.0

"""The builds under test: build/env, which make writes, has their programs."""

from __future__ import annotations

from pathlib import Path

import acdc_ovs
from acdc_ovs.programs import CHECKOUT as ROOT
from acdc_ovs.programs import env_file, read_env

__all__ = ["ROOT", "Programs", "env_file", "read_env"]


class Programs(acdc_ovs.Programs):
    @classmethod
    def patched(cls) -> Programs:
        return cls.from_env()

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
        return cls.from_mapping(env, "PRISTINE_")
