# SPDX-License-Identifier: Apache-2.0

"""The builds under test: build/env, which make writes, has their programs."""

from __future__ import annotations

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
        return cls.from_mapping(env, "PRISTINE_")
