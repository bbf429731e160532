# SPDX-License-Identifier: Apache-2.0

# What an operator looks with: installed beside Open vSwitch.

bin_SCRIPTS = utilities/acdc-tune
sbin_SCRIPTS = \
	utilities/acdc-agent \
	utilities/acdc-check \
	utilities/acdc-exporter \
	utilities/acdc-fleetctl \
	utilities/acdc-top

# With libpcap.  The engine's parser and its law are compiled once more.
if HAVE_PCAP
sbin_SCRIPTS += build/acdc-trace utilities/acdc-trace-plot
endif
trace_objects = $(patsubst %.c,build/trace/%.o, \
	$(addprefix utilities/acdc-trace/,$(notdir $(wildcard $(srcdir)/utilities/acdc-trace/*.c))) \
	$(addprefix datapath/,acdc-parse.c acdc-law.c $(notdir $(wildcard $(srcdir)/datapath/acdc-cc-*.c))))

build/trace/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(call unit_quiet,CC    )$(CC) -I$(srcdir)/datapath -DACDC_VERSION='"$(VERSION)"' \
	  $(CPPFLAGS) $(ACDC_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
build/acdc-trace: $(trace_objects)
	$(call unit_quiet,CCLD  )$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lpcap $(LIBS)
-include $(wildcard build/trace/*/*.d build/trace/*/*/*.d)

# Their packages are in tool_packages.  What counters count is in the engine's list.
nobase_pkgdata_DATA = datapath/acdc-counters.h

prometheusdir = $(pkgdatadir)/prometheus
prometheus_DATA = \
	utilities/prometheus/acdc-dashboard.json \
	utilities/prometheus/acdc-rules.yml

bpftracedir = $(pkgdatadir)/bpftrace
bpftrace_SCRIPTS = \
	utilities/bpftrace/acdc-cut.bt \
	utilities/bpftrace/acdc-fallback.bt \
	utilities/bpftrace/acdc-flow-state.bt \
	utilities/bpftrace/acdc-loss.bt \
	utilities/bpftrace/acdc-timeout.bt

# They name the program, as the distribution has it.
install-data-hook:
	sed -i 's|/usr/sbin/ovs-vswitchd|$(sbindir)/ovs-vswitchd|' \
	  $(DESTDIR)$(bpftracedir)/*.bt

# Where sos looks for it, if prefix is the distribution's.
sosdir = $(prefix)/lib/python3/dist-packages/sos/report/plugins
sos_DATA = utilities/sos/acdc.py

# Where Wireshark looks for it, if libdir is the distribution's.
wiresharkdir = $(libdir)/wireshark/plugins
wireshark_DATA = utilities/wireshark/acdc.lua

systemdsystemunitdir = $(prefix)/lib/systemd/system
systemdsystemunit_DATA = \
	build/acdc-agent.service \
	build/acdc-exporter.service

# They name the program, where the last configure has it.
build/%.service: utilities/%.service.in $(wildcard Makefile)
	@$(MKDIR_P) build
	$(AM_V_GEN)sed 's|@sbindir[@]|$(sbindir)|' $< >$@

# The schema of the fleet's database, with the parameters of policies.
fleetdir = $(pkgdatadir)
fleet_DATA = build/acdc-fleet.ovsschema

# What docs/fleet.rst sets servers and hosts up with.
fleetscriptsdir = $(pkgdatadir)/fleet
fleetscripts_SCRIPTS = \
	docs/examples/fleet/firewall.sh \
	docs/examples/fleet/host.sh \
	docs/examples/fleet/keys.sh \
	docs/examples/fleet/relay.sh \
	docs/examples/fleet/server.sh

build/acdc-fleet.ovsschema: python/acdc_fleet/acdc-fleet.ovsschema \
		build-aux/acdc_params.py datapath/acdc-params.h datapath/acdc-algorithms.h datapath/acdc.h
	@$(MKDIR_P) build
	$(AM_V_GEN)$(or $(PYTHON3),python3) $(srcdir)/build-aux/acdc_params.py fleet >$@
