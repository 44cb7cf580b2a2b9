/** Which slots an instruction reads and writes, for those who compare states. */
import type { Block, Op, Operand, Slot, SlotLayout } from '../machine/ir.js';

/** Of one instruction. Temporaries are none of it. */
export interface SlotUse {
  /** What it may depend on. */
  readonly reads: readonly Slot[];
  /** What it changes unless it stops; the rest of the state stays. */
  readonly writes: readonly Slot[];
  /** Of `reads`, what the addresses are made of that it accesses. */
  readonly addresses: readonly Slot[];
}

/** Its slots are all among its operands; functions, and what guards lead to, may use any. */
const isPlain = ({ op, row: { form } }: Op): boolean => op !== 'guard' && form !== 'float' && form !== 'unit';

const hasResult = ({ row: { form } }: Op): boolean =>
  form !== 'store' && form !== 'aligned' && form !== 'check' && form !== 'leave';

/** Slots of a block of one instruction; null: it may depend on any of them. */
export function slotUse({ ops, terminator }: Block, slots: SlotLayout): SlotUse | null {
  const { kind } = terminator;
  if (kind === 'helper' || kind === 'unknown' || kind === 'fetch' || !ops.every(isPlain)) return null;
  const reads = new Set<Slot>();
  const writes = new Set<Slot>();
  const sure = new Set<Slot>();
  const read = (operand: Operand): void => {
    if (typeof operand === 'number' && !slots.isTemporary(operand) && !sure.has(operand)) reads.add(operand);
  };
  let isSure = true;
  for (const op of ops) {
    const { row, d } = op;
    if (row.form === 'slots') for (let i = 0; i < row.slots; i++) read(Number(op.a) + i);
    else for (const operand of [op.a, op.b, op.c]) read(operand);
    // What comes behind may be left out.
    if (row.form === 'leave') isSure = false;
    if (!hasResult(op)) continue;
    for (let slot = d; slot < d + (row.form === 'record' ? 3 : 1); slot++) {
      if (slots.isTemporary(slot)) continue;
      // What may stay as it was depends on that.
      if (!isSure || (row.form === 'record' && row.guarded)) read(slot);
      else sure.add(slot);
      writes.add(slot);
    }
  }
  if (terminator.kind === 'br') {
    read(terminator.a);
    read(terminator.b);
  } else if ('s' in terminator) read(terminator.s);
  return { reads: [...reads], writes: [...writes], addresses: addressSlots(ops).filter((each) => reads.has(each)) };
}

/** What goes into the addresses of accesses, directly or by way of other slots. */
function addressSlots(ops: readonly Op[]): Slot[] {
  const found = new Set<Slot>();
  const take = (operand: Operand): void => {
    if (typeof operand === 'number') found.add(operand);
  };
  for (let i = ops.length - 1; i >= 0; i--) {
    const op = ops[i]!;
    const { row } = op;
    if (row.form === 'load' || row.form === 'store') {
      take(op.a);
      take(op.b);
    } else if (hasResult(op) && found.has(op.d)) {
      if (row.form === 'slots') for (let slot = 0; slot < row.slots; slot++) take(Number(op.a) + slot);
      else for (const operand of [op.a, op.b, op.c]) take(operand);
    }
  }
  return [...found];
}
