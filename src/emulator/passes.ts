/**
 * Block-local passes over the IR, common to both tiers. Only one so far: ops whose result nobody can see are dropped, which
 * is what makes carry bits and condition records free when the next instruction overwrites them.
 */
import { OPS } from './ir.js';
import type { Block, Op, Operand, SlotLayout } from './ir.js';

/** Slots an op reads, into `out`. */
function reads(op: Op, out: (slot: number) => void): void {
  const see = (operand: Operand): void => {
    if (typeof operand === 'number') out(operand);
  };
  const row = OPS[op.op];
  if (row.form === 'test' || row.form === 'flags') {
    const first = Number(op.a);
    for (let i = 0; i < (row.form === 'test' ? row.slots : 4); i++) out(first + i);
    return;
  }
  see(op.a);
  see(op.b);
  see(op.c);
}

/**
 * The ops of `block` without those whose results are overwritten before they can be read. Every load, store, check and the
 * terminator is a possible stop at which all guest slots are visible, flags too; temporaries die with the block.
 */
export function eliminateDeadOps(block: Block, slots: SlotLayout): readonly Op[] {
  const { ops } = block;
  /** Guest slots that are overwritten before the next possible stop or read. */
  const overwritten = new Set<number>();
  const liveTemporaries = new Set<number>();
  const { terminator } = block;
  const readByTerminator: Operand[] = [];
  if (terminator.kind === 'br') readByTerminator.push(terminator.a, terminator.b);
  else if ('s' in terminator) readByTerminator.push(terminator.s);
  for (const operand of readByTerminator) if (typeof operand === 'number') liveTemporaries.add(operand);

  const kept: Op[] = [];
  for (let i = ops.length - 1; i >= 0; i--) {
    const op = ops[i]!;
    const row = OPS[op.op];
    const { form } = row;
    if (form === 'load' || form === 'store' || form === 'aligned' || form === 'check' || form === 'leave') {
      if (form === 'load') liveTemporaries.delete(op.d);
      overwritten.clear();
    } else {
      const dead = (slot: number): boolean =>
        slot >= slots.firstTemporary ? !liveTemporaries.has(slot) : overwritten.has(slot);
      const width = form === 'record' ? 3 : 1;
      let useless = true;
      for (let k = 0; k < width; k++) if (!dead(op.d + k)) useless = false;
      if (useless) continue;
      // A guarded record may stay what it was.
      for (let k = 0; k < width && !(row.form === 'record' && row.guarded); k++) {
        overwritten.add(op.d + k);
        liveTemporaries.delete(op.d + k);
      }
    }
    reads(op, (slot) => {
      overwritten.delete(slot);
      liveTemporaries.add(slot);
    });
    kept.push(op);
  }
  return kept.reverse();
}
