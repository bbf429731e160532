# SPDX-License-Identifier: Apache-2.0
"""Tests that take long, which only `tests/run --all` has."""

from __future__ import annotations

import os

import pytest

ALL = bool(os.environ.get("ACDC_TEST_ALL"))
long = pytest.mark.skipif(not ALL, reason="takes long: tests/run --all")
