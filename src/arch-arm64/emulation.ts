/** How programs of arm64 run: the state at process start, and the numbers of the system calls. */
import { arm64Lifter } from './lift.js';
import type { IrEmulation, StatLayout, SyscallName } from '../emulator/model.js';

/** Source: Linux asm-generic/unistd.h, which arm64 uses as it is. */
const SYSCALLS: readonly (readonly [number, SyscallName])[] = [
  [17, 'getcwd'],
  [25, 'fcntl'],
  [29, 'ioctl'],
  [34, 'change_files'], // mkdirat
  [35, 'change_files'], // unlinkat
  [36, 'change_files'], // symlinkat
  [37, 'change_files'], // linkat
  [38, 'change_files'], // renameat
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

/** Source: Linux asm-generic/stat.h. */
const STAT: StatLayout = {
  sizeBytes: 128,
  fields: {
    dev: [0, 8], ino: [8, 8], mode: [16, 4], nlink: [20, 4], uid: [24, 4], gid: [28, 4], rdev: [32, 8], size: [48, 8],
    blksize: [56, 4], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};

/**
 * What is executed beyond the base instructions: CRC32, ATOMICS, CPUID (identification registers can be read), LRCPC, DCPOP,
 * DIT, FLAGM, SSBS, SB; and DCPODP, BTI. FP and ASIMD are not in it: there is no floating point arithmetic. Source: Linux
 * uapi/asm/hwcap.h of arm64.
 */
const HWCAP = [7, 8, 11, 15, 16, 24, 27, 28, 29].reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n);
const HWCAP2 = (1n << 0n) | (1n << 17n);

export const arm64Emulation: IrEmulation = {
  kind: 'ir',
  lifter: arm64Lifter,
  process: {
    entry: { kind: 'code', register: null },
    hwcap: HWCAP,
    hwcap2: HWCAP2,
    cacheLineBytes: 0,
    // 48 bits of addresses.
    stackTop: 0xffff_ffff_0000n,
    syscalls: new Map(SYSCALLS),
    machineName: 'aarch64',
    stat: { plain: STAT, large: STAT },
    // They differ from asm-generic's.
    openFlags: { directory: 0o40000n, noFollow: 0o100000n },
    frames: { kind: 'frame-record', register: 'x29' },
    // PROT_BTI; GNU_PROPERTY_AARCH64_FEATURE_1_AND, bit BTI.
    guard: { protection: 0x10n, propertyType: 0xc000_0000, propertyBit: 1 },
    anchors: new Map(),
  },
};
