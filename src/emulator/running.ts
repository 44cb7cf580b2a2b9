/** Where a call of `run` is, and how it gives back what it has not done. */
import type { Cpu, Cpus } from './cpus.js';
import type { Translated, Translations } from './translations.js';
import type { Address } from '../units.js';

export interface Running {
  readonly cpu: Cpu;
  /** Instructions of the budget that are left. */
  remaining: number;
  /** Header to enter next; 0: find the block of `pc`. */
  entry: number;
  /** The next instruction stores into translated code: execute it alone. */
  alone: boolean;
  /** A guard of the next instruction failed: execute it alone and in the slow way. */
  slow: boolean;
  /** Watched accesses that the instruction has made since it was begun. */
  watched: number;
  /** Code has gone on to hooks at `pc`, whose code was not translated yet. */
  isOnlyHooked: boolean;
  /** Tier 0 executes the next block, whatever is compiled. */
  interpret: boolean;
  /** How often compiled code has asked for a region of `pc`; 0: it has not. */
  asked: number;
  /** There is stack for compiled code; null: not known yet. */
  stack: boolean | null;
}

export function beginRun(cpu: Cpu, budget: number): Running {
  return {
    cpu,
    remaining: budget,
    entry: 0,
    alone: false,
    slow: false,
    watched: 0,
    isOnlyHooked: false,
    interpret: false,
    asked: 0,
    stack: null,
  };
}

/** The address of an instruction of a block; of the one behind the last, its end. */
function addressOf(translations: Translations, owner: Translated, index: number): Address {
  if (index === 0 && owner.count > 0) return owner.address;
  if (index >= owner.count) return owner.end;
  return index === owner.count - 1 ? owner.last : translations.describe(owner).block.instructions[index]!;
}

interface RewindParts {
  readonly cpus: Cpus;
  readonly translations: Translations;
}

/** Gives back the instructions of a block from `index` on and stands before that one. */
export function rewind({ cpus, translations }: RewindParts, run: Running, owner: Translated, index: number): Address {
  const { cpu } = run;
  const unused = owner.count - index;
  run.remaining += unused;
  cpu.instructions -= unused;
  cpus.pc = addressOf(translations, owner, index);
  if (cpus.pc !== cpu.passHook) cpu.passHook = null;
  return cpus.pc;
}
