/* The second object of the module. SPDX-License-Identifier: MIT */
#include "sample.h"

u32 util_scale(u32 x);
u32 util_report(u32 x);
u32 util_broken(u32 x);

static u32 reports;

u32 util_scale(u32 x) { return (x << 3) - x; }

/* Called in tail position by module.c, so across objects that `ld -r` joins. */
u32 util_report(u32 x) {
  reports++;
  sample_log("report", x + reports);
  return util_scale(reports);
}

/* The call of an undefined function in tail position: `jmp` or `b` with the relocation of a call. */
void util_note(u32 x) { sample_log("note", x); }

__attribute__((cold)) u32 util_broken(u32 x) {
  sample_log("broken", x);
  return 0xbad;
}

/* Nothing overrides it: it stays a weak definition, with its entry. */
__attribute__((weak)) u32 util_hook(u32 x) { return x + reports; }
