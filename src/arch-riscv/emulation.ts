/**
 * How RISC-V programs run: the front end, the state at process start, and the numbers of the system
 * calls.
 */
import { riscvLandingPads } from './landing-pads.js';
import { riscvLifter } from './lift.js';
import { frameRule } from './unwind.js';
import { riscvSignals } from './signals.js';
import { callNumbers } from '../machine/calls.js';
import { GENERIC_CALLS, GENERIC_IPC, GENERIC_SOCKET_OPTIONS, GENERIC_STAT } from '../machine/generic-linux.js';
import type { IrEmulation } from '../machine/emulation.js';
import { riscvProof } from './proof.js';

/** Beyond the generic ones. */
const OWN_CALLS = '259 riscv_flush_icache';

let calls: ReadonlyMap<number, string> | undefined;

/** Bit n of AT_HWCAP: the extension with the n-th letter. */
const HWCAP = [...'IMAFDC'].reduce((bits, letter) => bits | (1n << BigInt(letter.charCodeAt(0) - 0x41)), 0n);

/** The emulation member of the RISC-V `Arch`. */
export const riscvEmulation: IrEmulation = {
  kind: 'ir',
  lifter: riscvLifter,
  proof: riscvProof,
  process: {
    entry: { kind: 'code', register: null },
    hwcap: HWCAP,
    hwcap2: 0n,
    // The kernel announces sizes by level of cache, which no program needs here.
    cacheLineBytes: 0,
    // The user half of 39-bit addresses.
    userEnd: 0x40_0000_0000n,
    stackTop: 0x3f_ffff_f000n,
    get syscalls() {
      return (calls ??= callNumbers(GENERIC_CALLS, OWN_CALLS));
    },
    machineName: 'riscv64',
    kernelCode: null,
    guard: { protection: 0n, propertyType: riscvLandingPads.propertyType, propertyBit: riscvLandingPads.propertyBit },
    stat: { plain: GENERIC_STAT, large: GENERIC_STAT },
    openFlags: { directory: 0o200000n, noFollow: 0o400000n, largeFile: 0o100000n },
    socketOptions: GENERIC_SOCKET_OPTIONS,
    ipc: GENERIC_IPC,
    packedEvents: false,
    sigactionRestorer: false,
    threads: { pointer: 'tp', cloneTls: 3 },
    signals: riscvSignals,
    frames: { kind: 'code', framePointer: 's0', rule: frameRule },
    anchors: new Map([['gp', '__global_pointer$']]),
  },
};
