# SPDX-License-Identifier: Apache-2.0
#
# tests/unit/test-NAME.c is a program that prints TAP (tap.h), linked with an
# archive of the engine and of those tests/unit/*.c that are not tests.  A new one is
# added to TESTS here; automake needs the names written out.
#   make check              builds and runs them plainly
#   make check-sanitizers   under Address-, Undefined- and ThreadSanitizer

TESTS += \
	build/unit/test-arena.tap \
	build/unit/test-doubt.tap \
	build/unit/test-ends.tap \
	build/unit/test-escape-data.tap \
	build/unit/test-escape-search.tap \
	build/unit/test-escape.tap \
	build/unit/test-feedback.tap \
	build/unit/test-groups.tap \
	build/unit/test-handshake.tap \
	build/unit/test-hostile.tap \
	build/unit/test-match.tap \
	build/unit/test-onramp.tap \
	build/unit/test-pace.tap \
	build/unit/test-packet.tap \
	build/unit/test-platform.tap \
	build/unit/test-plb.tap \
	build/unit/test-policing.tap \
	build/unit/test-prediction.tap \
	build/unit/test-recall.tap \
	build/unit/test-resume.tap \
	build/unit/test-rtt.tap \
	build/unit/test-scales.tap \
	build/unit/test-swift.tap \
	build/unit/test-table.tap \
	build/unit/test-tail.tap \
	build/unit/test-threads.tap \
	build/unit/test-told.tap \
	build/unit/test-timing.tap \
	build/unit/test-transfer.tap \
	build/unit/test-unseen.tap \
	build/unit/test-wheel.tap \
	build/unit/test-window.tap

unit_all = $(notdir $(wildcard $(srcdir)/tests/unit/*.c))
unit_objects = \
	$(patsubst %.c,datapath/%.o,$(notdir $(wildcard $(srcdir)/datapath/*.c))) \
	lib/acdc-arena.o lib/acdc-match.o lib/acdc-platform-user.o \
	lib/acdc-wheel.o \
	$(patsubst %.c,tests/unit/%.o,$(filter-out test-%.c,$(unit_all)))
unit_asan_tests = $(TESTS:build/unit/%=build/asan/%)
unit_tsan_tests = $(TESTS:build/unit/%=build/tsan/%)

unit_quiet = $(if $(filter-out 0,$(ovs_v)),,@echo "  $(1)  $@";)
unit_compile = $(CC) -I$(srcdir)/datapath -I$(srcdir)/lib -I$(srcdir)/tests/unit \
	$(CPPFLAGS) $(ACDC_CFLAGS) $(CFLAGS)
unit_asan_flags = -O1 -g -fno-omit-frame-pointer \
	-fsanitize=address,undefined -fno-sanitize-recover=all
unit_tsan_flags = -O1 -g -fno-omit-frame-pointer -fsanitize=thread
unit_libs = -lpthread -lm $(LIBS)

build/unit/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(call unit_quiet,CC    )$(unit_compile) -MMD -MP -c -o $@ $<
build/asan/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(call unit_quiet,CC    )$(unit_compile) $(unit_asan_flags) -MMD -MP -c -o $@ $<
build/tsan/%.o: %.c
	@$(MKDIR_P) $(@D)
	$(call unit_quiet,CC    )$(unit_compile) $(unit_tsan_flags) -MMD -MP -c -o $@ $<

build/unit/libacdc.a: $(unit_objects:%=build/unit/%)
	$(call unit_quiet,AR    )rm -f $@ && $(AR) cr $@ $^
build/unit/%.tap: build/unit/tests/unit/%.o build/unit/libacdc.a
	$(call unit_quiet,CCLD  )$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(unit_libs)
build/asan/libacdc.a: $(unit_objects:%=build/asan/%)
	$(call unit_quiet,AR    )rm -f $@ && $(AR) cr $@ $^
build/asan/%.tap: build/asan/tests/unit/%.o build/asan/libacdc.a
	$(call unit_quiet,CCLD  )$(CC) $(CFLAGS) $(unit_asan_flags) $(LDFLAGS) -o $@ $^ $(unit_libs)
build/tsan/libacdc.a: $(unit_objects:%=build/tsan/%)
	$(call unit_quiet,AR    )rm -f $@ && $(AR) cr $@ $^
build/tsan/%.tap: build/tsan/tests/unit/%.o build/tsan/libacdc.a
	$(call unit_quiet,CCLD  )$(CC) $(CFLAGS) $(unit_tsan_flags) $(LDFLAGS) -o $@ $^ $(unit_libs)
.SECONDARY:

-include $(wildcard build/*/datapath/*.d build/*/lib/*.d build/*/tests/unit/*.d)

# The programs alone, without Open vSwitch.
check-unit: $(TESTS)
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS
check-asan: $(unit_asan_tests)
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(unit_asan_tests)" \
	  TEST_SUITE_LOG=build/asan/test-suite.log
check-tsan: $(unit_tsan_tests)
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(unit_tsan_tests)" \
	  TEST_SUITE_LOG=build/tsan/test-suite.log
check-sanitizers: check-asan
	@$(MAKE) $(AM_MAKEFLAGS) check-tsan
.PHONY: check-unit check-asan check-tsan check-sanitizers
