/*
 * Output, start and what a module may call. Compiled without any site, so that the number of counted calls is that of
 * program.c and override.c alone. SPDX-License-Identifier: MIT
 */
#include "sample.h"

#ifndef LOADED_CORE
/* Counted by tracer-*.S. */
extern volatile word trace_calls;
#endif

void *memcpy(void *to, const void *from, word length) {
  volatile char *t = to;
  const char *f = from;
  while (length-- > 0) *t++ = *f++;
  return to;
}

void *memset(void *to, int value, word length) {
  volatile char *t = to;
  while (length-- > 0) *t++ = (char)value;
  return to;
}

/* One line, `text 0x<hex>`, in one write. */
void sample_log(const char *text, u64 value) {
  char line[64];
  u32 at = 0;
  int shift = 60;
  while (*text != 0 && at < 40) line[at++] = *text++;
  line[at++] = ' ';
  line[at++] = '0';
  line[at++] = 'x';
  /* Both halves by themselves: a 64-bit shift by a variable is a library call on a 32-bit machine. */
  u32 high = (u32)(value >> 32), low = (u32)value, started = 0;
  for (; shift >= 0; shift -= 4) {
    u32 digit = (shift >= 32 ? high >> (shift - 32) : low >> shift) & 15;
    if (digit != 0 || shift == 0) started = 1;
    if (started) line[at++] = "0123456789abcdef"[digit];
  }
  line[at++] = '\n';
  sys_write(1, line, at);
}

static const struct sample_ops *registered;

u32 sample_register(const struct sample_ops *ops) {
  registered = ops;
  return ops->run(6);
}

void sample_unregister(const struct sample_ops *ops) {
  if (registered == ops) registered = 0;
}

/* Not a clock: the same number in each run. */
u64 sample_clock(void) {
  static u64 now = 0x100000000ull;
  now += 3;
  return now;
}

#ifndef LOADED_CORE
static void log_decimal(const char *text, word value) {
  char line[64], digits[24];
  u32 at = 0, n = 0;
  while (*text != 0) line[at++] = *text++;
  do {
    digits[n++] = (char)('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (n > 0) line[at++] = digits[--n];
  line[at++] = '\n';
  sys_write(1, line, at);
}
#endif

#ifdef SELF_RELOCATE
/*
 * A position-independent executable without a dynamic linker relocates itself. SELF_RELOCATE is the machine's RELATIVE
 * type. Only what needs no relocation may be used here: hidden symbols, addressed relative to the program counter.
 */
struct dynamic {
  word tag;
  word value;
};
struct rela {
  word offset;
  word info;
  word addend;
};
#define DT_RELA 7
#define DT_RELASZ 8
#define DT_RELR 36
#define DT_RELRSZ 35
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern const struct dynamic _DYNAMIC[] __attribute__((visibility("hidden")));

static void relocate(void) {
  word base = (word)__ehdr_start, rela = 0, relaSize = 0, relr = 0, relrSize = 0;
  for (const struct dynamic *d = _DYNAMIC; d->tag != 0; d++) {
    if (d->tag == DT_RELA) rela = d->value;
    if (d->tag == DT_RELASZ) relaSize = d->value;
    if (d->tag == DT_RELR) relr = d->value;
    if (d->tag == DT_RELRSZ) relrSize = d->value;
  }
  for (word at = 0; at < relaSize; at += sizeof(struct rela)) {
    const struct rela *r = (const struct rela *)(base + rela + at);
    if ((r->info & 0xffffffff) == SELF_RELOCATE) *(volatile word *)(base + r->offset) = base + r->addend;
  }
  /* RELR: an even word is an address, an odd one a bitmap of the 63 words that follow. */
  word where = 0;
  for (word at = 0; at < relrSize; at += sizeof(word)) {
    word entry = *(const word *)(base + relr + at);
    if ((entry & 1) == 0) {
      *(volatile word *)(base + entry) += base;
      where = base + entry + sizeof(word);
    } else {
      for (word bit = 0; (entry >>= 1) != 0; bit++) {
        if (entry & 1) ((volatile word *)where)[bit] += base;
      }
      where += (8 * sizeof(word) - 1) * sizeof(word);
    }
  }
}
#endif

void start_c(void) {
#ifdef SELF_RELOCATE
  relocate();
#endif
  long status = (long)program();
#ifndef LOADED_CORE
  log_decimal("trace=", trace_calls);
#endif
  sys_exit(status);
}
