/* What the files of the samples share. SPDX-License-Identifier: MIT */
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned long word;

struct sample_ops {
  const char *name;
  u32 (*run)(u32);
  u32 (*stop)(void);
};

/* output.c, for the program and, when one is loaded beside it, for the module. */
void sample_log(const char *text, u64 value);
u32 sample_register(const struct sample_ops *ops);
void sample_unregister(const struct sample_ops *ops);
u64 sample_clock(void);

/* start-*.S */
long sys_write(long fd, const void *bytes, word length);
void sys_exit(long status);

u32 hook(u32 x);
u32 program(void);
