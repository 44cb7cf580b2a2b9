/** Constants of a target: which machine, which convention of programs, which byte order. Types only. */
import type { Endian } from '../units.js';

export type TargetId = 'x86-64' | 'ppc32' | 'ppc64-elfv1' | 'ppc64-elfv2-be' | 'ppc64-elfv2-le' | 'riscv64' | 'arm64';

/** Constants of a target. */
export interface Target {
  readonly id: TargetId;
  /** For people: `PowerPC 64-bit, ELFv2, little-endian`. */
  readonly title: string;
  readonly elfMachine: number;
  readonly abiName: 'sysv' | 'elfv1' | 'elfv2';
  readonly wordBytes: 4 | 8;
  readonly dataEndian: Endian;
  /** Differs from dataEndian only on big-endian RISC-V and arm64, which are not served. */
  readonly codeEndian: Endian;
  readonly codeAlignBytes: 1 | 2 | 4;
  readonly pageBytes: number;
}
