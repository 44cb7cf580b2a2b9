/**
 * Kinds that condition records are known to have in a region: what a comparison in another block
 * left is asked as what it is, as far as all ways there say the same.
 */
import type { AnyKind, Op } from '../machine/ir.js';
import { keeping, writesOf } from './region-flow.js';
import type { Region } from './regions.js';

/** By the K slot of the record. */
export type RecordKinds = ReadonlyMap<number, AnyKind>;

const NONE: RecordKinds = new Map();

/** `op` is done. */
export function passKinds(kinds: Map<number, AnyKind>, op: Op): void {
  if (op.row.form === 'record') {
    if (!op.row.guarded) kinds.set(op.d, op.kind);
    else if (kinds.get(op.d) !== op.kind) kinds.delete(op.d);
    return;
  }
  const copied = op.op === 'mov' && typeof op.a === 'number' ? kinds.get(op.a) : undefined;
  if (copied !== undefined) kinds.set(op.d, copied);
  else if (kinds.size > 0) writesOf(op, (slot) => kinds.delete(slot));
}

/** Keeps in `known` what `kinds` says, too; true when that changed anything. */
function meet(known: Map<number, AnyKind>, kinds: RecordKinds): boolean {
  let changed = false;
  for (const [slot, kind] of known) {
    if (kinds.get(slot) === kind) continue;
    known.delete(slot);
    changed = true;
  }
  return changed;
}

/** What is known where each block begins; nothing where the region can be begun. */
export function kindsOf({ blocks, entries }: Region): readonly RecordKinds[] {
  if (!blocks.some(({ ops }) => ops.some(({ row }) => row.form === 'slots'))) return blocks.map(() => NONE);
  const known = new Array<Map<number, AnyKind> | undefined>(blocks.length).fill(undefined);
  for (const entry of entries) known[entry] = new Map();
  const pending = [...entries];
  for (;;) {
    const index = pending.pop();
    if (index === undefined) break;
    const kinds = new Map(known[index]);
    const reach = (to: number): void => {
      if (to < 0) return;
      const before = known[to];
      if (before === undefined) known[to] = new Map(kinds);
      else if (!meet(before, kinds)) return;
      pending.push(to);
    };
    // Those that `leavez` ops lead to come first, and see what was done in front of these.
    const ways = keeping(blocks[index]!).values();
    for (const op of blocks[index]!.ops) {
      if (op.op === 'leavez') reach(ways.next().value ?? -1);
      passKinds(kinds, op);
    }
    for (const to of ways) reach(to);
  }
  return known.map((each) => each ?? NONE);
}
