# SPDX-License-Identifier: Apache-2.0

# What an operator looks with: installed beside Open vSwitch.

# Where Wireshark looks for it, if libdir is the distribution's.
wiresharkdir = $(libdir)/wireshark/plugins
wireshark_DATA = utilities/wireshark/acdc.lua

# The programs find their modules in ../share/acdc/python.
nobase_pkgdata_DATA = \
	python/acdc_scapy/__init__.py
