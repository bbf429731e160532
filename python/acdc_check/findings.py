# SPDX-License-Identifier: Apache-2.0

"""The states of a Nagios plugin."""

OK, WARNING, CRITICAL, UNKNOWN = range(4)

Finding = tuple[int, str]
