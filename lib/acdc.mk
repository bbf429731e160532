# SPDX-License-Identifier: Apache-2.0
#
# Included at the end of Open vSwitch's Makefile.am.  The build copies
# datapath/ to acdc/, and our lib/ to lib/, of Open vSwitch's tree.

AM_CPPFLAGS += -I $(top_srcdir)/acdc
if HAVE_USDT_PROBES
AM_CPPFLAGS += -DACDC_USDT
endif

include acdc/Kbuild

# The engine and its glue to the datapath.
lib_libopenvswitch_la_SOURCES += \
	$(acdc_engine) \
	$(acdc_in_line) \
	$(acdc_headers) \
	lib/acdc-arena.c \
	lib/acdc-arena.h \
	lib/acdc-compat.h \
	lib/acdc-conn-cache.c \
	lib/acdc-conn-cache.h \
	lib/acdc-dpif-provider.h \
	lib/acdc-dpif.c \
	lib/acdc-dpif.h \
	lib/acdc-hold.c \
	lib/acdc-hold.h \
	lib/acdc-host.c \
	lib/acdc-match.c \
	lib/acdc-match.h \
	lib/acdc-netdev.c \
	lib/acdc-netdev.h \
	lib/acdc-offload.h \
	lib/acdc-platform-user.c \
	lib/acdc-wheel.c \
	lib/acdc-wheel.h

if LINUX
lib_libopenvswitch_la_SOURCES += \
	acdc/acdc-genl.h \
	lib/netlink-acdc.c \
	lib/netlink-acdc.h
else
EXTRA_DIST += \
	acdc/acdc-genl.h \
	lib/netlink-acdc.c \
	lib/netlink-acdc.h
endif

# Configuration and commands, which need the database's IDL.
vswitchd_ovs_vswitchd_SOURCES += \
	lib/acdc-appctl-flows.c \
	lib/acdc-appctl-private.h \
	lib/acdc-appctl-show.c \
	lib/acdc-appctl.c \
	lib/acdc-appctl.h \
	lib/acdc-ovs-params.c \
	lib/acdc-ovs-params.h \
	lib/acdc-ovsdb-bind.c \
	lib/acdc-ovsdb-parse.c \
	lib/acdc-ovsdb-private.h \
	lib/acdc-ovsdb-status.c \
	lib/acdc-ovsdb.c \
	lib/acdc-ovsdb.h

MAN_FRAGMENTS += lib/acdc-unixctl.man

EXTRA_DIST += acdc/Kbuild lib/acdc.mk
