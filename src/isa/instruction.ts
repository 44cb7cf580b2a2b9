/** What every machine's decoder returns, whatever it decodes with. Types only. */
import type { Operands } from './table.js';
import type { Address } from '../units.js';

/** Where control goes after an instruction; targets are absolute. */
export type Flow =
  | {
      readonly kind: 'next' | 'return' | 'syscall' | 'trap' | 'indirect-jump' | 'indirect-call';
    }
  | { readonly kind: 'jump' | 'call' | 'branch'; readonly target: Address };

export interface Instruction {
  readonly address: Address;
  readonly sizeBytes: number;
  /**
   * `unknown` for bytes that the table does not know; sizeBytes is then the least step to the next
   * try.
   */
  readonly mnemonic: string;
  readonly operands: Operands;
  readonly flow: Flow;
}

/**
 * Bytes <-> instructions of one target. `decode` never throws on content. `offset` is a position in
 * `code`, `address` the address of that position.
 */
export interface Isa {
  /** Who prints: the machine's own rows, or the Capstone engine (x86-64, arm64). */
  readonly text: 'rows' | 'capstone-arm64' | 'capstone-x86-64';
  readonly minInstructionBytes: 1 | 2 | 4;
  readonly maxInstructionBytes: number;
  decode(code: Uint8Array, offset: number, address: Address): Instruction;
  /**
   * Text of an instruction by the rows, for machines whose `text` is 'rows'; elsewhere the bare
   * mnemonic.
   */
  format(instruction: Instruction): string;
}
