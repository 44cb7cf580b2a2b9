/**
 * What one instruction reads (PV-5), where some of what it makes is read: slots, those of which it
 * asks no more than whether they are 0, and fields that it only compares with each other.
 */
import { type Op, type Operand, OPS, type Slot } from '../../src/machine/ir.js';
import type { Step } from './mutant-steps.js';

export const bit = (slot: Slot): bigint => 1n << BigInt(slot);

/**
 * Sets of slots in one number: those that are read; those of which code asks no more than whether
 * they are 0; fields of records that are compared with each other, equal or not.
 */
const PLANE = 1024n;
export const ASKED = PLANE;
export const COMPARED = 2n * PLANE;

/** Comparisons that ask whether the first, or the second operand is 0. */
const ASKS_FIRST: Readonly<Record<string, bigint>> = {
  ...{ seteq: 0n, setne: 0n, seteq32: 0n, setne32: 0n, setgtu: 0n, setleu: 0n, setltu: 1n, setgeu: 1n },
};
const ASKS_SECOND: Readonly<Record<string, bigint>> = { seteq: 0n, setne: 0n, setltu: 0n, setgeu: 0n };
/** Ops of which the result is not 0 where no operand is. */
const KEEPS_ZERO = new Set(['mov', 'or', 'sx32', 'zx32', 'select']);
/** Kinds of records of whole registers, or their lower halves. */
const WHOLE = /^(?:cmp[su]|sub|nzcvsub)(?:64|32)$/;
const ASKS_EQUAL = new Set(['testeq', 'flage']);

/** Operands that an op reads. */
export function operandsOf({ op, a, b, c }: Op): readonly Operand[] {
  const row = OPS[op];
  if (row.form === 'slots') return Array.from({ length: row.slots }, (_, i) => Number(a) + i);
  return [a, b, c];
}

/** Slots in all planes. */
export const inAll = (slots: bigint): bigint => slots | (slots << ASKED) | (slots << COMPARED);

type Mark = (operand: Operand, plane?: bigint) => void;

/** Fields of a record of which an op asks whether two are equal. */
function compared(op: Op, mark: Mark): void {
  for (const [i, each] of operandsOf(op).entries()) mark(each, i === 1 || i === 2 ? COMPARED : 0n);
}

/** What a record reads: of its kind nothing, of what is compared with 0 whether it is. */
function recorded({ d, a, b, kind }: Op, live: bigint, mark: Mark): void {
  for (const [i, [own, other]] of [
    [a, b],
    [b, a],
  ].entries() as IterableIterator<[number, [Operand, Operand]]>) {
    const at = bit(d + 1 + i);
    if ((live & at) !== 0n) mark(own);
    if ((live & (at << COMPARED)) !== 0n) mark(own, other === 0n && WHOLE.test(kind) ? ASKED : 0n);
  }
}

/** What an op reads of whose result code asks no more than whether it is 0. */
function asked(op: Op, mark: Mark): void {
  const { a, b } = op;
  if (ASKS_FIRST[op.op] !== undefined && ASKS_FIRST[op.op] === b) mark(a, ASKED);
  else if (ASKS_SECOND[op.op] !== undefined && ASKS_SECOND[op.op] === a) mark(b, ASKED);
  else if (ASKS_EQUAL.has(op.op)) compared(op, mark);
  else if (KEEPS_ZERO.has(op.op) || (op.op === 'and' && a === b)) for (const each of operandsOf(op)) mark(each, ASKED);
  else for (const each of operandsOf(op)) mark(each);
}

/**
 * What is read in front of an instruction, from what is read behind it.
 * @param all  slots
 */
export function readBefore({ block: { ops, terminator } }: Step, behind: bigint, all: bigint): bigint {
  let live = behind;
  const mark = (operand: Operand, plane = 0n): void => {
    if (typeof operand === 'number') live |= bit(operand) << plane;
  };
  const read = (operand: Operand): void => {
    mark(operand);
  };
  if (terminator.kind === 'br') {
    const asks = (terminator.condition === 'eq' || terminator.condition === 'ne') && terminator.b === 0n;
    if (asks) mark(terminator.a, ASKED);
    else [terminator.a, terminator.b].forEach(read);
  } else if ('s' in terminator) read(terminator.s);
  for (const op of [...ops].reverse()) {
    const row = OPS[op.op];
    if (row.form === 'leave' || row.form === 'float') return all;
    const isWrite = row.form !== 'store' && row.form !== 'aligned' && row.form !== 'check';
    const slots = row.form === 'record' ? [0, 1, 2] : [0];
    const written = isWrite ? slots.reduce((sum, i) => sum | inAll(bit(op.d + i)), 0n) : 0n;
    const before = live;
    // What is computed for nothing reads nothing; an address may be one that faults.
    if (isWrite && row.form !== 'load' && (live & written) === 0n) continue;
    const isGuarded = row.form === 'record' && row.guarded;
    if (!isGuarded) live &= ~written;
    if (row.form === 'record' && !isGuarded) recorded(op, before, mark);
    else if (isWrite && (before & bit(op.d)) === 0n && row.form !== 'load') asked(op, mark);
    else if (ASKS_EQUAL.has(op.op)) compared(op, mark);
    else operandsOf(op).forEach(read);
  }
  return live & inAll(all);
}
