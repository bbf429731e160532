# SPDX-License-Identifier: Apache-2.0

"""What the packet and system tests share: private namespaces, a private OVS,
and TCP packets built and read with scapy."""

import sys
from pathlib import Path

# For acdc_ovs, whoever imports this.
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "python"))
