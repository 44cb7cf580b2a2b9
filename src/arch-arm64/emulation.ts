/** How programs of arm64 run: the state at process start, and the numbers of the system calls. */
import { arm64LandingPads } from './landing-pads.js';
import { arm64CryptographyLifter, arm64Lifter, armv82Lifter } from './lift.js';
import { arm64Signals } from './signals.js';
import { callNumbers } from '../machine/calls.js';
import { GENERIC_CALLS, GENERIC_IPC, GENERIC_SOCKET_OPTIONS, GENERIC_STAT } from '../machine/generic-linux.js';
import type { IrEmulation } from '../machine/emulation.js';
import { arm64Proof } from './proof.js';

/** Beyond the generic ones: renameat, which ports that came later do not have. */
const OWN_CALLS = '38 renameat';

let calls: ReadonlyMap<number, string> | undefined;

/**
 * What is executed: FP, ASIMD, CRC32, ATOMICS, CPUID (identification registers can be read), LRCPC,
 * DCPOP, DIT, FLAGM, SSBS, SB; and DCPODP, BTI.
 *
 * Source: Linux uapi/asm/hwcap.h of arm64.
 */
const HWCAP = [0, 1, 7, 8, 11, 15, 16, 24, 27, 28, 29].reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n);
const HWCAP2 = (1n << 0n) | (1n << 17n);
/** AES, PMULL, SHA1, SHA2. */
const CRYPTOGRAPHY = 0x78n;
/** FPHP, ASIMDHP, ASIMDRDM, SHA3, ASIMDDP, SHA512, ASIMDFHM. */
const ARMV8_2 = [9, 10, 12, 17, 20, 21, 23].reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n);

export const arm64Emulation: IrEmulation = {
  kind: 'ir',
  lifter: arm64Lifter,
  proof: arm64Proof,
  cpus: [
    { name: 'armv8-a', title: 'with CRC32 and LSE atomics', emulation: () => arm64Emulation },
    {
      name: 'armv8-a+crypto',
      title: 'with AES, PMULL, SHA-1 and SHA-256, too',
      emulation: () => ({
        ...arm64Emulation,
        lifter: arm64CryptographyLifter,
        process: { ...arm64Emulation.process, hwcap: HWCAP | CRYPTOGRAPHY },
      }),
    },
    {
      name: 'armv8.2-a+fp16fml+dotprod+sha3',
      title: 'with half precision, RDM, DotProd, SHA-512 and SHA-3, too',
      emulation: () => ({
        ...arm64Emulation,
        lifter: armv82Lifter,
        process: { ...arm64Emulation.process, hwcap: HWCAP | CRYPTOGRAPHY | ARMV8_2 },
      }),
    },
  ],
  process: {
    entry: { kind: 'code', register: null },
    hwcap: HWCAP,
    hwcap2: HWCAP2,
    platform: 'aarch64',
    cacheLineBytes: 0,
    // 48-bit addresses.
    userEnd: 0x1_0000_0000_0000n,
    stackTop: 0xffff_ffff_0000n,
    get syscalls() {
      return (calls ??= callNumbers(GENERIC_CALLS, OWN_CALLS));
    },
    machineName: 'aarch64',
    kernelCode: null,
    sigactionRestorer: true,
    threads: { pointer: 'tpidr_el0', cloneTls: 3 },
    signals: arm64Signals,
    stat: { plain: GENERIC_STAT, large: GENERIC_STAT },
    // They differ from asm-generic's.
    openFlags: { directory: 0o40000n, noFollow: 0o100000n, largeFile: 0o400000n },
    socketOptions: GENERIC_SOCKET_OPTIONS,
    ipc: GENERIC_IPC,
    packedEvents: false,
    frames: { kind: 'frame-record', register: 'x29' },
    // PROT_BTI
    guard: {
      protection: 0x10n,
      propertyType: arm64LandingPads.propertyType,
      propertyBit: arm64LandingPads.propertyBit,
    },
    anchors: new Map(),
  },
};
