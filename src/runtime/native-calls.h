/*
 * Numbers of system calls where they are those of new machines (arm64, RISC-V), and the size of
 * struct stat, whose first two words are device and number of a file. SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_CALLS_H
#define ELFTRACE_NATIVE_CALLS_H

enum {
  SYS_GETCWD = 17,
  SYS_MKNODAT = 33,
  SYS_UNLINKAT = 35,
  SYS_FALLOCATE = 47,
  SYS_OPENAT = 56,
  SYS_CLOSE = 57,
  SYS_READ = 63,
  SYS_PWRITE = 68,
  SYS_FSTAT = 80,
  SYS_CLOCK_GETTIME = 113,
  SYS_SCHED_YIELD = 124,
  SYS_SIGPROCMASK = 135,
  SYS_PRCTL = 167,
  SYS_GETPID = 172,
  SYS_GETPPID = 173,
  SYS_GETTID = 178,
  SYS_MUNMAP = 215,
  SYS_MMAP = 222,
  SYS_MINCORE = 232,
  SYS_MADVISE = 233,
  SYS_PRLIMIT = 261,
  SYS_PROCESS_VM_READV = 270,
  SYS_RENAMEAT2 = 276,
};

#define STAT_BYTES 128
#define ENOMEM_ (-12)

#endif
