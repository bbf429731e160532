# SPDX-License-Identifier: Apache-2.0

"""Policy for many hypervisors: a central OVSDB (ACDC_Fleet), an agent on each host that copies
what concerns it into the local database, and the operator's command."""

DATABASE = "ACDC_Fleet"
ROLE = "hypervisor"
"""Of connections by which hosts write, each its own row of Host."""
