# SPDX-License-Identifier: Apache-2.0

# What an operator looks with: installed beside Open vSwitch.

sbin_SCRIPTS = \
	utilities/acdc-check \
	utilities/acdc-exporter \
	utilities/acdc-top

# Their packages are in tool_packages.  What counters count is in the engine's list.
nobase_pkgdata_DATA = datapath/acdc-counters.h

prometheusdir = $(pkgdatadir)/prometheus
prometheus_DATA = \
	utilities/prometheus/acdc-dashboard.json \
	utilities/prometheus/acdc-rules.yml

# Where Wireshark looks for it, if libdir is the distribution's.
wiresharkdir = $(libdir)/wireshark/plugins
wireshark_DATA = utilities/wireshark/acdc.lua

systemdsystemunitdir = $(prefix)/lib/systemd/system
systemdsystemunit_DATA = build/acdc-exporter.service

build/acdc-exporter.service: utilities/acdc-exporter.service.in
	@$(MKDIR_P) build
	$(AM_V_GEN)sed 's|@sbindir[@]|$(sbindir)|' $(srcdir)/utilities/acdc-exporter.service.in >$@
