/**
 * The Linux system calls of a freestanding process. Numbers and registers come from the target; semantics are here. What
 * is not served returns ENOSYS. Nothing depends on the host: time is the instruction count, random bytes repeat.
 */
import type { Abi } from '../arch.js';
import { alignUpBig } from '../bits.js';
import type { Machine, SyscallHandler, SyscallResult } from './machine.js';
import type { AccessKind, Permission } from './memory.js';
import type { ProcessModel, SyscallName } from './model.js';
import type { Address } from '../units.js';

/** Bytes that the guest wrote to a file descriptor. The array is the receiver's. */
export type GuestOutput = (descriptor: number, bytes: Uint8Array) => void;

/** Error numbers; equal on all targets that are served. Source: Linux asm-generic/errno-base.h, errno.h. */
const ERRNO = { EBADF: 9, ENOMEM: 12, EFAULT: 14, EINVAL: 22, ENOTTY: 25, ENOSYS: 38 } as const;
type Errno = keyof typeof ERRNO;

/** Most pieces of a `writev`. */
const IOV_MAX = 1024n;

const PROT_WRITE = 2n;
const PROT_EXEC = 4n;
const MAP_FIXED = 0x10n;
const MAP_ANONYMOUS = 0x20n;
const PAGE = 4096n;
const CR0_SO = 0x1000_0000n;

/** Address space of a process as `brk` and `mmap` change it. */
export interface ProcessLayout {
  /** Where the heap begins; page-aligned. */
  readonly heapStart: Address;
  /** Mappings grow down from here. */
  readonly mappingTop: Address;
  /** Maps more of the stack if `address` is in it; false when it is not. */
  readonly growStack: (address: Address) => boolean;
}

/** 1 GHz: one instruction a nanosecond. */
const NANOSECONDS = 1_000_000_000n;

function permissionOf(protection: bigint): Permission {
  if (protection === 0n) return 'none';
  const write = (protection & PROT_WRITE) !== 0n;
  const execute = (protection & PROT_EXEC) !== 0n;
  return write ? (execute ? 'rwx' : 'rw') : execute ? 'rx' : 'r';
}

/** The handler for one process: it keeps the heap's end and where the next mapping goes. */
export function createSyscalls(
  convention: Abi['syscall'],
  model: ProcessModel,
  layout: ProcessLayout,
  wordBytes: 4 | 8,
  output: GuestOutput,
): SyscallHandler {
  let heapEnd = layout.heapStart;
  let mappingBottom = layout.mappingTop;
  let random = 0x9e37_79b9;

  const brk = (machine: Machine, wanted: Address): bigint => {
    if (wanted < layout.heapStart) return heapEnd;
    const oldSize = Number(alignUpBig(heapEnd, PAGE) - layout.heapStart);
    const newSize = Number(alignUpBig(wanted, PAGE) - layout.heapStart);
    if (newSize > oldSize) {
      if (oldSize === 0) {
        if (machine.memory.check(layout.heapStart, 1, 'read') === null) return heapEnd;
        const others = machine.memory.windows.some(
          (each) => each.address >= layout.heapStart && each.address < layout.heapStart + BigInt(newSize),
        );
        if (others) return heapEnd;
        const heap = {
          address: layout.heapStart,
          size: newSize,
          permission: 'rw',
          name: 'heap',
          reserve: 0x10_0000,
        } as const;
        if (machine.memory.tryMap(heap) !== null) return heapEnd;
      } else if (!machine.memory.resize(layout.heapStart, newSize)) return heapEnd;
    } else if (newSize < oldSize) {
      machine.memory.unmap(layout.heapStart + BigInt(newSize), oldSize - newSize);
    }
    heapEnd = wanted;
    return heapEnd;
  };

  const mmap = (machine: Machine, args: readonly bigint[]): bigint | Errno => {
    const [hint, length, protection, flags] = [args[0]!, args[1]!, args[2]!, args[3]!];
    if ((flags & MAP_ANONYMOUS) === 0n) return 'EBADF';
    if (length === 0n || length > 0x1_0000_0000n) return length === 0n ? 'EINVAL' : 'ENOMEM';
    const size = alignUpBig(length, PAGE);
    let address = mappingBottom - size;
    if ((flags & MAP_FIXED) !== 0n) {
      if (hint % PAGE !== 0n) return 'EINVAL';
      address = hint;
      if (!machine.memory.unmap(address, Number(size))) return 'ENOMEM';
    } else {
      while (machine.memory.windows.some((w) => w.address < address + size && address < w.address + BigInt(w.size))) {
        address -= size;
      }
      if (address < PAGE) return 'ENOMEM';
      mappingBottom = address;
    }
    const permission = permissionOf(protection);
    return machine.memory.tryMap({ address, size: Number(size), permission, name: 'mapping' }) === null
      ? address
      : 'ENOMEM';
  };

  /** True when the guest may access the range; parts of the stack that were not touched yet are mapped. */
  const usable = (machine: Machine, address: Address, size: number, access: AccessKind): boolean => {
    for (;;) {
      const bad = machine.memory.check(address, size, access);
      if (bad === null) return true;
      if (!layout.growStack(bad)) return false;
    }
  };

  const write = (machine: Machine, descriptor: number, address: Address, size: bigint): bigint | Errno => {
    if (descriptor !== 1 && descriptor !== 2) return 'EBADF';
    const length = Number(size > 0x7fff_f000n ? 0x7fff_f000n : size);
    if (!usable(machine, address, length, 'read')) return 'EFAULT';
    const bytes = machine.memory.read(address, length);
    if (!bytes) return 'EFAULT';
    output(descriptor, bytes);
    return BigInt(length);
  };

  const word = (machine: Machine, address: Address): bigint | null => {
    const bytes = machine.memory.read(address, wordBytes);
    if (!bytes) return null;
    if (machine.lifter.endian === 'little') bytes.reverse();
    return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  };

  const storeWords = (machine: Machine, address: Address, words: readonly bigint[]): boolean => {
    const bytes = new Uint8Array(words.length * wordBytes);
    words.forEach((value, index) => {
      for (let i = 0; i < wordBytes; i++) {
        const shift = machine.lifter.endian === 'little' ? i : wordBytes - 1 - i;
        bytes[index * wordBytes + i] = Number((value >> BigInt(8 * shift)) & 0xffn);
      }
    });
    if (!usable(machine, address, bytes.length, 'write')) return false;
    return machine.memory.write(address, bytes);
  };

  const call = (machine: Machine, name: SyscallName, args: readonly bigint[]): bigint | Errno => {
    const [a, b, c] = [args[0]!, args[1]!, args[2]!];
    switch (name) {
      case 'read':
        return a === 0n ? 0n : 'EBADF';
      case 'write':
        return write(machine, Number(BigInt.asIntN(32, a)), b, c);
      case 'writev': {
        if (c > IOV_MAX) return 'EINVAL';
        let total = 0n;
        for (let i = 0n; i < c; i++) {
          const at = b + i * BigInt(2 * wordBytes);
          const base = word(machine, at);
          const length = word(machine, at + BigInt(wordBytes));
          if (base === null || length === null) return 'EFAULT';
          const done = write(machine, Number(BigInt.asIntN(32, a)), base, length);
          if (typeof done === 'string') return total > 0n ? total : done;
          total += done;
        }
        return total;
      }
      case 'close':
        return a <= 2n ? 0n : 'EBADF';
      case 'brk':
        return brk(machine, a);
      case 'mmap':
      case 'mmap2':
        return mmap(machine, args);
      case 'munmap':
        if (a % PAGE !== 0n || b === 0n) return 'EINVAL';
        return machine.memory.unmap(a, Number(alignUpBig(b, PAGE))) ? 0n : 'ENOMEM';
      case 'mprotect':
        if (a % PAGE !== 0n) return 'EINVAL';
        return machine.memory.protect(a, Number(alignUpBig(b, PAGE)), permissionOf(c)) ? 0n : 'ENOMEM';
      case 'ioctl':
        return 'ENOTTY';
      case 'getpid':
      case 'gettid':
      case 'set_tid_address':
        return 1000n;
      case 'clock_gettime': {
        const now = BigInt(machine.instructions);
        return storeWords(machine, b, [now / NANOSECONDS, now % NANOSECONDS]) ? 0n : 'EFAULT';
      }
      case 'getrandom': {
        const bytes = new Uint8Array(Number(b > 256n ? 256n : b));
        for (let i = 0; i < bytes.length; i++) {
          random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
          bytes[i] = random >>> 24;
        }
        if (!usable(machine, a, bytes.length, 'write')) return 'EFAULT';
        return machine.memory.write(a, bytes) ? BigInt(bytes.length) : 'EFAULT';
      }
      case 'exit':
      case 'exit_group':
        return 0n;
      default:
        return name satisfies never;
    }
  };

  const answer = (machine: Machine, result: bigint | Errno): void => {
    const failed = typeof result === 'string';
    switch (convention.failure) {
      case 'negative-result':
        machine.setRegister(convention.result, failed ? BigInt.asUintN(8 * wordBytes, BigInt(-ERRNO[result])) : result);
        break;
      case 'cr0-so': {
        machine.setRegister(convention.result, failed ? BigInt(ERRNO[result]) : result);
        const cr = machine.register('cr');
        machine.setRegister('cr', failed ? cr | CR0_SO : cr & ~CR0_SO);
        break;
      }
      default:
        convention.failure satisfies never;
    }
  };

  return (machine): SyscallResult => {
    const number = Number(BigInt.asIntN(32, machine.register(convention.number)));
    const name = model.syscalls.get(number);
    const args = convention.arguments.map((register) => machine.register(register));
    if (name === 'exit' || name === 'exit_group') return { kind: 'exit', code: Number(args[0]! & 0xffn) };
    answer(machine, name === undefined ? 'ENOSYS' : call(machine, name, args));
    return { kind: 'next' };
  };
}
