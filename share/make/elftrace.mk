# For Makefiles: files whose patch sites are verified after their link.
#
#   include node_modules/elftrace/share/make/elftrace.mk
#   program: main.o
#   	$(CC) $(LDFLAGS) -o $@ $^
#   	$(call elftrace_verify,$@)
#
# A file that is not right is removed: the next make links it again. Files of other rules have a
# target of their own, FILE.verified:
#
#   all: program.verified
#
# ELFTRACE: the command; ELFTRACE_FLAGS: options of verify (--strict, --require 100, …).

ELFTRACE ?= elftrace
ELFTRACE_FLAGS ?=

elftrace_verify = $(ELFTRACE) verify $(ELFTRACE_FLAGS) $(1) || { status=$$?; rm -f $(1); exit $$status; }

%.verified: %
	$(ELFTRACE) verify $(ELFTRACE_FLAGS) $<
	@touch $@
