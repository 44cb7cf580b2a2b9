/**
 * Block-local passes over the IR, common to both tiers. Only one so far: ops whose result is never
 * seen are dropped, which is what makes carry bits and condition records free when the next
 * instruction overwrites them.
 */
import type { Block, Op, Operand, SlotLayout } from '../machine/ir.js';

/** True when code may leave at the op. */
export function mayExit({ row: { form } }: Op): boolean {
  return (
    form === 'load' ||
    form === 'store' ||
    form === 'aligned' ||
    form === 'check' ||
    form === 'leave' ||
    form === 'float' ||
    form === 'unit'
  );
}

/**
 * What is known of slots behind the op that is looked at: of guest slots in which span between
 * possible stops each is overwritten first, of temporaries in which block each is read. Numbers of
 * spans and blocks only grow, so nothing is ever cleared, and a small program does not pay for sets
 * that are made for each of its blocks.
 */
class Marks {
  private overwritten = new Int32Array(256);
  private live = new Int32Array(256);
  private span = 1;
  private block = 1;
  private firstTemporary = 0;
  private firstInMemory = 0;

  begin({ count, firstTemporary, firstInMemory }: SlotLayout): void {
    if (count > this.live.length) {
      this.overwritten = new Int32Array(count);
      this.live = new Int32Array(count);
    }
    this.firstTemporary = firstTemporary;
    this.firstInMemory = firstInMemory;
    this.span++;
    this.block++;
    // Far from where the numbers would repeat.
    if (this.span < 0x4000_0000) return;
    this.overwritten.fill(0);
    this.live.fill(0);
    this.span = this.block = 1;
  }

  /** A possible stop: all guest slots are visible. */
  stop(): void {
    this.span++;
  }

  read(operand: Operand): void {
    if (typeof operand !== 'number') return;
    if (operand >= this.firstTemporary) this.live[operand] = this.block;
    else this.overwritten[operand] = 0;
  }

  write(slot: number): void {
    if (slot >= this.firstTemporary) this.live[slot] = 0;
    else this.overwritten[slot] = this.span;
  }

  /** What is in memory only is never dead: it is read by functions, too. */
  isDead(slot: number): boolean {
    if (slot >= this.firstInMemory) return false;
    return slot >= this.firstTemporary ? this.live[slot] !== this.block : this.overwritten[slot] === this.span;
  }
}

const marks = new Marks();

/**
 * The ops of `block` without those whose results are overwritten before they can be read. Every
 * load, store, check and the terminator is a possible stop at which all guest slots are visible,
 * flags too; temporaries die with the block.
 */
export function eliminateDeadOps(block: Block, slots: SlotLayout): readonly Op[] {
  const { ops, terminator } = block;
  marks.begin(slots);
  if (terminator.kind === 'br') {
    marks.read(terminator.a);
    marks.read(terminator.b);
  } else if ('s' in terminator) marks.read(terminator.s);

  const kept: Op[] = [];
  for (let i = ops.length - 1; i >= 0; i--) {
    const op = ops[i]!;
    const { row } = op;
    const { form } = row;
    if (mayExit(op)) {
      marks.stop();
      // Code that looks at an op that stops sees what its guest slot was before.
      if ((form === 'load' || form === 'float' || form === 'unit') && slots.isTemporary(op.d)) marks.write(op.d);
    } else {
      const width = form === 'record' ? 3 : 1;
      let useless = true;
      for (let k = 0; k < width; k++) if (!marks.isDead(op.d + k)) useless = false;
      if (useless) continue;
      // A guarded record may stay what it was.
      if (!(row.form === 'record' && row.guarded)) for (let k = 0; k < width; k++) marks.write(op.d + k);
    }
    if (row.form === 'slots') {
      const first = Number(op.a);
      for (let k = 0; k < row.slots; k++) marks.read(first + k);
    } else {
      marks.read(op.a);
      marks.read(op.b);
      marks.read(op.c);
      if (row.form === 'float' && row.clean !== null) marks.read(op.mode);
    }
    kept.push(op);
  }
  return kept.reverse();
}
