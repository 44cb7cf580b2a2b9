/**
 * What the younger ports of Linux share (arm64, RISC-V, LoongArch): the numbers of the system calls and the layout of `struct stat`.
 *
 * Source: Linux asm-generic/unistd.h and asm-generic/stat.h; the offsets were measured with offsetof on both.
 */
import type { StatLayout, SyscallName } from './model.js';

/** A port adds its own to these. */
export const GENERIC_SYSCALLS: readonly (readonly [number, SyscallName])[] = [
  [17, 'getcwd'],
  [25, 'fcntl'],
  [29, 'ioctl'],
  [34, 'change_files'], // mkdirat
  [35, 'change_files'], // unlinkat
  [36, 'change_files'], // symlinkat
  [37, 'change_files'], // linkat
  [45, 'change_files'], // truncate
  [48, 'faccessat'],
  [53, 'change_files'], // fchmodat
  [56, 'openat'],
  [57, 'close'],
  [61, 'getdents64'],
  [62, 'lseek'],
  [63, 'read'],
  [64, 'write'],
  [65, 'readv'],
  [66, 'writev'],
  [67, 'pread64'],
  [78, 'readlinkat'],
  [79, 'newfstatat'],
  [80, 'fstat'],
  [93, 'exit'],
  [94, 'exit_group'],
  [96, 'set_tid_address'],
  [98, 'futex'],
  [101, 'nanosleep'],
  [113, 'clock_gettime'],
  [114, 'clock_getres'],
  [115, 'clock_nanosleep'],
  [123, 'sched_getaffinity'],
  [124, 'sched_yield'],
  [129, 'kill'],
  [130, 'tkill'],
  [131, 'tgkill'],
  [132, 'sigaltstack'],
  [134, 'rt_sigaction'],
  [135, 'rt_sigprocmask'],
  [160, 'uname'],
  [163, 'getrlimit'],
  [169, 'gettimeofday'],
  [172, 'getpid'],
  [173, 'getppid'],
  [174, 'getuid'],
  [175, 'getuid'], // geteuid
  [176, 'getuid'], // getgid
  [177, 'getuid'], // getegid
  [178, 'gettid'],
  [214, 'brk'],
  [215, 'munmap'],
  [222, 'mmap'],
  [226, 'mprotect'],
  [233, 'madvise'],
  [261, 'prlimit64'],
  [276, 'change_files'], // renameat2
  [278, 'getrandom'],
  [291, 'statx'],
  [439, 'faccessat'], // faccessat2
];

export const GENERIC_STAT: StatLayout = {
  sizeBytes: 128,
  fields: {
    dev: [0, 8], ino: [8, 8], mode: [16, 4], nlink: [20, 4], uid: [24, 4], gid: [28, 4], rdev: [32, 8], size: [48, 8],
    blksize: [56, 4], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};
