# SPDX-License-Identifier: Apache-2.0

"""What the packet and system tests share: private namespaces, a private OVS,
and TCP packets built and read with scapy."""
