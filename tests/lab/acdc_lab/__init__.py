# SPDX-License-Identifier: Apache-2.0
"""The lab: scenarios with real stacks over Open vSwitch, in virtual time."""
