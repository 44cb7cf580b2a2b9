/**
 * How programs of the PowerPC targets run: the front end for each size and byte order, the state at process start, and
 * the numbers of the system calls.
 */
import { CACHE_LINE_BYTES, createPpcLifter } from './lift.js';
import type { PpcDecode } from './lift.js';
import type { IrEmulation, SyscallName } from '../emulator/model.js';
import type { Endian } from '../units.js';

/** Source: Linux arch/powerpc syscall table; `mmap2` exists on 32 bits only. */
const SYSCALLS: readonly (readonly [number, SyscallName])[] = [
  [1, 'exit'],
  [3, 'read'],
  [4, 'write'],
  [6, 'close'],
  [20, 'getpid'],
  [45, 'brk'],
  [54, 'ioctl'],
  [90, 'mmap'],
  [91, 'munmap'],
  [125, 'mprotect'],
  [146, 'writev'],
  [207, 'gettid'],
  [232, 'set_tid_address'],
  [234, 'exit_group'],
  [246, 'clock_gettime'],
  [359, 'getrandom'],
];

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
  const numbers = wordBytes === 4 ? [...SYSCALLS, [192, 'mmap2'] as const] : SYSCALLS;
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
    },
  };
}
