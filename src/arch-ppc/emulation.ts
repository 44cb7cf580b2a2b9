/**
 * How programs of the PowerPC targets run: the front end for each size and byte order, the state at process start, and
 * the numbers of the system calls.
 */
import { CACHE_LINE_BYTES, createPpcLifter } from './lift.js';
import type { PpcDecode } from './lift.js';
import type { IrEmulation, StatLayout, SyscallName } from '../emulator/model.js';
import type { Endian } from '../units.js';

/** Numbers that both sizes share. Source: Linux arch/powerpc system call table. */
const SYSCALLS: readonly (readonly [number, SyscallName])[] = [
  [1, 'exit'],
  [3, 'read'],
  [4, 'write'],
  [5, 'open'],
  [6, 'close'],
  [8, 'change_files'], // creat
  [9, 'change_files'], // link
  [10, 'change_files'], // unlink
  [13, 'time'],
  [15, 'change_files'], // chmod
  [19, 'lseek'],
  [20, 'getpid'],
  [24, 'getuid'],
  [33, 'access'],
  [37, 'kill'],
  [38, 'change_files'], // rename
  [39, 'change_files'], // mkdir
  [40, 'change_files'], // rmdir
  [45, 'brk'],
  [47, 'getuid'], // getgid
  [49, 'getuid'], // geteuid
  [50, 'getuid'], // getegid
  [54, 'ioctl'],
  [55, 'fcntl'],
  [64, 'getppid'],
  [76, 'getrlimit'],
  [78, 'gettimeofday'],
  [83, 'change_files'], // symlink
  [85, 'readlink'],
  [90, 'mmap'],
  [91, 'munmap'],
  [92, 'change_files'], // truncate
  [106, 'stat'],
  [107, 'lstat'],
  [108, 'fstat'],
  [122, 'uname'],
  [125, 'mprotect'],
  [140, '_llseek'],
  [145, 'readv'],
  [146, 'writev'],
  [158, 'sched_yield'],
  [162, 'nanosleep'],
  [173, 'rt_sigaction'],
  [174, 'rt_sigprocmask'],
  [179, 'pread64'],
  [182, 'getcwd'],
  [185, 'sigaltstack'],
  [190, 'getrlimit'], // ugetrlimit
  [202, 'getdents64'],
  [205, 'madvise'],
  [207, 'gettid'],
  [208, 'tkill'],
  [221, 'futex'],
  [223, 'sched_getaffinity'],
  [232, 'set_tid_address'],
  [234, 'exit_group'],
  [246, 'clock_gettime'],
  [247, 'clock_getres'],
  [248, 'clock_nanosleep'],
  [250, 'tgkill'],
  [286, 'openat'],
  [287, 'change_files'], // mkdirat
  [291, 'newfstatat'], // 32 bits: fstatat64
  [292, 'change_files'], // unlinkat
  [293, 'change_files'], // renameat
  [294, 'change_files'], // linkat
  [295, 'change_files'], // symlinkat
  [296, 'readlinkat'],
  [297, 'change_files'], // fchmodat
  [298, 'faccessat'],
  [325, 'prlimit64'],
  [357, 'change_files'], // renameat2
  [359, 'getrandom'],
  [383, 'statx'],
  [439, 'faccessat'], // faccessat2
];

/** Those of 32 bits only. */
const SYSCALLS_32: readonly (readonly [number, SyscallName])[] = [
  [192, 'mmap2'],
  [195, 'stat64'],
  [196, 'lstat64'],
  [197, 'fstat64'],
  [204, 'fcntl'], // fcntl64
  [403, 'clock_gettime64'],
  [406, 'clock_getres_time64'],
  [407, 'clock_nanosleep_time64'],
  [422, 'futex_time64'],
];

/** Source: Linux asm/stat.h of powerpc, measured with offsetof. */
const STAT_64: StatLayout = {
  sizeBytes: 144,
  fields: {
    dev: [0, 8], ino: [8, 8], nlink: [16, 8], mode: [24, 4], uid: [28, 4], gid: [32, 4], rdev: [40, 8], size: [48, 8],
    blksize: [56, 8], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};
const STAT_32: StatLayout = {
  sizeBytes: 72,
  fields: {
    dev: [0, 4], ino: [4, 4], mode: [8, 4], nlink: [12, 2], uid: [16, 4], gid: [20, 4], rdev: [24, 4], size: [28, 4],
    blksize: [32, 4], blocks: [36, 4], atime: [40, 4], mtime: [48, 4], ctime: [56, 4],
  }, // prettier-ignore
};
/** `struct stat64` of 32 bits. */
const STAT64_32: StatLayout = {
  sizeBytes: 104,
  fields: {
    dev: [0, 8], ino: [8, 8], mode: [16, 4], nlink: [20, 4], uid: [24, 4], gid: [28, 4], rdev: [32, 8], size: [48, 8],
    blksize: [56, 4], blocks: [64, 8], atime: [72, 4], mtime: [80, 4], ctime: [88, 4],
  }, // prettier-ignore
};

/** PPC_FEATURE_32 or both of PPC_FEATURE_32, PPC_FEATURE_64: no FPU, no vectors. Source: Linux asm/cputable.h. */
const HWCAP = { 4: 0x8000_0000n, 8: 0xc000_0000n } as const;

export interface PpcEmulationOptions {
  readonly wordBytes: 4 | 8;
  readonly endian: Endian;
  readonly abi: 'sysv' | 'elfv1' | 'elfv2';
  readonly decode: PpcDecode;
}

/** The emulation member of a PowerPC `Arch`. */
export function createPpcEmulation(options: PpcEmulationOptions): IrEmulation {
  const { wordBytes, abi } = options;
  const numbers = wordBytes === 4 ? [...SYSCALLS, ...SYSCALLS_32] : SYSCALLS;
  return {
    kind: 'ir',
    lifter: createPpcLifter(wordBytes, options.endian, options.decode),
    process: {
      // ELFv1: e_entry is a descriptor. ELFv2: r12 = entry, which the entry code may use to find its TOC.
      entry:
        abi === 'elfv1'
          ? { kind: 'descriptor', toc: 'r2' }
          : { kind: 'code', register: abi === 'elfv2' ? 'r12' : null },
      hwcap: HWCAP[wordBytes],
      hwcap2: 0n,
      cacheLineBytes: CACHE_LINE_BYTES[wordBytes === 8 ? 64 : 32],
      stackTop: wordBytes === 8 ? 0x3fff_ffff_0000n : 0xbfff_0000n,
      syscalls: new Map(numbers),
      machineName: wordBytes === 4 ? 'ppc' : options.endian === 'little' ? 'ppc64le' : 'ppc64',
      stat: wordBytes === 4 ? { plain: STAT_32, large: STAT64_32 } : { plain: STAT_64, large: STAT_64 },
      // They differ from asm-generic's.
      openFlags: { directory: 0o40000n, noFollow: 0o100000n },
      frames: { kind: 'back-chain', linkOffset: wordBytes === 4 ? 4 : 16 },
      anchors: new Map(wordBytes === 4 ? [['r13', '_SDA_BASE_']] : []),
    },
  };
}
