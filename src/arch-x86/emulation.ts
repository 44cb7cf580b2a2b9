/**
 * How programs of x86-64 run: the front end, the state at process start, and the numbers of the system calls.
 */
import { x86Lifter } from './lift.js';
import type { IrEmulation, StatLayout, SyscallName } from '../emulator/model.js';
import type { Address } from '../units.js';

/** Source: Linux arch/x86 system call table, 64 bits. */
const SYSCALLS: readonly (readonly [number, SyscallName])[] = [
  [0, 'read'],
  [1, 'write'],
  [2, 'open'],
  [3, 'close'],
  [4, 'stat'],
  [5, 'fstat'],
  [6, 'lstat'],
  [8, 'lseek'],
  [9, 'mmap'],
  [10, 'mprotect'],
  [11, 'munmap'],
  [12, 'brk'],
  [13, 'rt_sigaction'],
  [14, 'rt_sigprocmask'],
  [16, 'ioctl'],
  [17, 'pread64'],
  [19, 'readv'],
  [20, 'writev'],
  [21, 'access'],
  [24, 'sched_yield'],
  [28, 'madvise'],
  [35, 'nanosleep'],
  [39, 'getpid'],
  [60, 'exit'],
  [62, 'kill'],
  [63, 'uname'],
  [72, 'fcntl'],
  [76, 'change_files'], // truncate
  [79, 'getcwd'],
  [82, 'change_files'], // rename
  [83, 'change_files'], // mkdir
  [84, 'change_files'], // rmdir
  [85, 'change_files'], // creat
  [86, 'change_files'], // link
  [87, 'change_files'], // unlink
  [88, 'change_files'], // symlink
  [89, 'readlink'],
  [90, 'change_files'], // chmod
  [96, 'gettimeofday'],
  [97, 'getrlimit'],
  [102, 'getuid'],
  [104, 'getuid'], // getgid
  [107, 'getuid'], // geteuid
  [108, 'getuid'], // getegid
  [110, 'getppid'],
  [131, 'sigaltstack'],
  [158, 'arch_prctl'],
  [186, 'gettid'],
  [200, 'tkill'],
  [201, 'time'],
  [202, 'futex'],
  [204, 'sched_getaffinity'],
  [217, 'getdents64'],
  [218, 'set_tid_address'],
  [228, 'clock_gettime'],
  [229, 'clock_getres'],
  [230, 'clock_nanosleep'],
  [231, 'exit_group'],
  [234, 'tgkill'],
  [257, 'openat'],
  [258, 'change_files'], // mkdirat
  [262, 'newfstatat'],
  [263, 'change_files'], // unlinkat
  [264, 'change_files'], // renameat
  [265, 'change_files'], // linkat
  [266, 'change_files'], // symlinkat
  [267, 'readlinkat'],
  [268, 'change_files'], // fchmodat
  [269, 'faccessat'],
  [302, 'prlimit64'],
  [316, 'change_files'], // renameat2
  [318, 'getrandom'],
  [332, 'statx'],
  [439, 'faccessat'], // faccessat2
];

/** Source: Linux asm/stat.h of x86, measured with offsetof. */
const STAT: StatLayout = {
  sizeBytes: 144,
  fields: {
    dev: [0, 8], ino: [8, 8], nlink: [16, 8], mode: [24, 4], uid: [28, 4], gid: [32, 4], rdev: [40, 8], size: [48, 8],
    blksize: [56, 8], blocks: [64, 8], atime: [72, 8], mtime: [88, 8], ctime: [104, 8],
  }, // prettier-ignore
};

/**
 * The call that ends where `before` ends, which is at `address`: its target, `indirect`, or null where there is none. Lengths
 * of the indirect forms follow from ModRM and SIB.
 */
function callBefore(before: Uint8Array, address: Address): Address | 'indirect' | null {
  const at = (back: number): number => before[before.length - back] ?? 0;
  if (before.length >= 5 && at(5) === 0xe8) {
    const displacement = new DataView(before.buffer, before.byteOffset + before.length - 4, 4).getInt32(0, true);
    return BigInt.asUintN(64, address + BigInt(displacement));
  }
  for (let size = 2; size <= Math.min(7, before.length); size++) {
    if (at(size) !== 0xff) continue;
    const modRm = at(size - 1);
    if (((modRm >> 3) & 7) !== 2) continue;
    const mod = modRm >> 6;
    const hasSib = mod !== 3 && (modRm & 7) === 4;
    let needed = 2 + (hasSib ? 1 : 0) + (mod === 1 ? 1 : mod === 2 ? 4 : 0);
    if (mod === 0 && ((modRm & 7) === 5 || (hasSib && size > 2 && (at(size - 2) & 7) === 5))) needed += 4;
    if (needed === size) return 'indirect';
  }
  return null;
}

/** The emulation member of the x86-64 `Arch`. */
export const x86Emulation: IrEmulation = {
  kind: 'ir',
  lifter: x86Lifter,
  process: {
    entry: { kind: 'code', register: null },
    // AT_HWCAP is edx of cpuid leaf 1; AT_HWCAP2 bit 1 is FSGSBASE.
    hwcap: 0x0788_8131n,
    hwcap2: 2n,
    // There is no such entry on x86: caches are coherent.
    cacheLineBytes: 0,
    stackTop: 0x7fff_ffff_f000n,
    syscalls: new Map(SYSCALLS),
    machineName: 'x86_64',
    stat: { plain: STAT, large: STAT },
    openFlags: { directory: 0o200000n, noFollow: 0o400000n },
    frames: { kind: 'scan', callBefore },
    anchors: new Map(),
  },
};
