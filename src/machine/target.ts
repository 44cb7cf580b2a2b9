/**
 * Constants of a target: which machine, which convention of programs, which byte order. Types only.
 */
import type { Endian } from '../units.js';

/** Constants of a target. */
export interface Target {
  /**
   * The machine with its ABI and byte order, where it has several: key of load maps and of the
   * prebuilt runtime.
   */
  readonly id: string;
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
