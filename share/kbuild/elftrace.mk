# For Makefiles of kernel modules: every module is verified right after its link.
#
#   include node_modules/elftrace/share/kbuild/elftrace.mk
#   modules:
#   	$(MAKE) -C $(KDIR) M=$(CURDIR) $(ELFTRACE_KBUILD) modules
#
# ELFTRACE, ELFTRACE_FLAGS and ELFTRACE_EMPTY are those of ld-elftrace. The linker behind it is the
# one that the build would have taken: LD where it was given, else as LLVM and CROSS_COMPILE say.

ELFTRACE_KBUILD := LD=$(abspath $(dir $(lastword $(MAKEFILE_LIST))))/ld-elftrace

# The build reads the same Makefile again, where LD is ld-elftrace: by then this is set.
ifndef ELFTRACE_LD
  ifneq ($(origin LD),default)
    ELFTRACE_LD := $(LD)
  else ifneq ($(LLVM),)
    ELFTRACE_LD := $(filter %/,$(LLVM))ld.lld$(filter -%,$(LLVM))
  else
    ELFTRACE_LD := $(CROSS_COMPILE)ld
  endif
endif
export ELFTRACE_LD ELFTRACE ELFTRACE_FLAGS ELFTRACE_EMPTY
