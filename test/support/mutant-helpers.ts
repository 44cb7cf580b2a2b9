/**
 * What instructions read and write that the emulator has as functions of its own (PV-5), as far as
 * code of the runtime has them: the clock, and the fixed point exceptions of PowerPC. Of others
 * nothing is known.
 */
import { REGISTER_NAMES } from '../../src/arch-riscv/isa.js';
import type { Lifter, Slot, Terminator } from '../../src/machine/ir.js';

/** A helper in terms of registers. */
export interface HelperEffect {
  readonly reads: readonly Slot[];
  readonly writes: readonly {
    readonly slot: Slot;
    /** What it becomes: an op of what is read, or of the number of this look at the clock. */
    readonly op: string;
  }[];
  readonly isClock: boolean;
}

/** Where the helper of an instruction of PowerPC has a register. */
const field = (word: number, first: number, bits: number): number => (word >>> (32 - first - bits)) & ((1 << bits) - 1);

/** The register of RISC-V with the time. */
const TIME = 0xc01;
/** `csrrs rd, csr, x0`: it is read, and nothing is set. */
const READS_CSR = 0x2073;

/** What a helper does; null: not known. */
export function effectOf({ slots }: Lifter, terminator: Terminator): HelperEffect | null {
  if (terminator.kind !== 'helper') return null;
  const { name, argument } = terminator;
  const clock = (names: readonly string[], part = 0): HelperEffect => ({
    reads: [],
    writes: names.map((each, i) => ({ slot: slots.slot(each), op: `time ${part + i}` })),
    isClock: true,
  });
  switch (name) {
    // The other form has the processor's number, too.
    case 'rdtsc':
      return argument === 0 ? clock(['rax', 'rdx']) : null;
    case 'counter':
      return clock(argument === 31 ? [] : [`x${argument}`]);
    // Its lower or its upper half.
    case 'timebase':
      return clock([`r${field(argument, 6, 5)}`], field(argument, 11, 10));
    case 'csr': {
      const [csr, rd] = [argument >>> 20, (argument >>> 7) & 31];
      const isRead = (argument & 0xff07f) === READS_CSR;
      return isRead && csr === TIME && rd !== 0 ? clock([REGISTER_NAMES[rd]!]) : null;
    }
    case 'mtxer':
      return {
        reads: [slots.slot(`r${field(argument, 6, 5)}`)],
        writes: ['so', 'ov', 'ca', 'ov32', 'ca32', 'xerlow'].map((each) => ({
          slot: slots.slot(each),
          op: `xer ${each}`,
        })),
        isClock: false,
      };
    default:
      return null;
  }
}
