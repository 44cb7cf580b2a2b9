/**
 * Accesses of compiled code. Those of a block with one base and constant offsets share one check
 * where they are predicted in one window, or where they may go to any and lie close together: at
 * the first, for all. What is compared with are cells in memory that say how far a window reaches
 * (`WindowCells`).
 */
import { CELL, HINT, WINDOW } from './host.js';
import { I32, I64 } from '../machine/ir.js';
import type { AccessRow, Op, Slot } from '../machine/ir.js';
import type { CompileContext, RegionCode, Site } from './region-code.js';
import { writesOf } from './region-flow.js';
import type { Address } from '../units.js';

/**
 * Accesses that share a check are this far apart at most, bytes: the largest span that cells know.
 */
const MAX_SPAN = CELL.spans.at(-1)!;
/** The same where any window serves them: the widest access that descriptors know. */
const MAX_SEARCHED = 16;
type WindowSite = Extract<Site, { kind: 'window' }>;

/** One check for several accesses. */
export interface Group {
  readonly site: Site;
  readonly first: Op;
  /** Offset of `first` in terms of the root. */
  readonly origin: bigint;
  /** Offsets of the first byte and behind the last one, relative to `origin`. */
  low: number;
  high: number;
  writes: boolean;
  readonly members: Op[];
  /** How far each is from `first`, bytes. */
  readonly distances: Map<Op, number>;
  local: number;
}

/** The value that `root` stands for, and a constant. */
interface Offset {
  readonly root: number;
  readonly offset: bigint;
}

/** What is known of the slots of a block: which hold the same value, but for constants. */
class KnownOffsets {
  private readonly known = new Map<number, Offset>();
  private roots = 0;

  constructor(private readonly context: CompileContext) {}

  of(slot: number): Offset {
    let value = this.known.get(slot);
    if (!value) {
      value = { root: ++this.roots, offset: 0n };
      this.known.set(slot, value);
    }
    return value;
  }

  wrap(value: bigint): bigint {
    return BigInt.asUintN(this.context.addressBits, value);
  }

  /** The value of `op` where it is another one and a constant. */
  private resultOf(op: Op): Offset | null {
    if (typeof op.a !== 'number') return null;
    const narrow = this.context.addressBits === 32;
    if (op.op === 'mov' || (narrow && op.op === 'zx32')) return this.of(op.a);
    if (typeof op.b !== 'bigint') return null;
    const adds = op.op === 'add' || (narrow && op.op === 'add32');
    const subtracts = op.op === 'sub' || (narrow && op.op === 'sub32');
    if (!adds && !subtracts) return null;
    const from = this.of(op.a);
    return { root: from.root, offset: this.wrap(adds ? from.offset + op.b : from.offset - op.b) };
  }

  /** `op` is done. */
  pass(op: Op): void {
    const value = this.resultOf(op);
    writesOf(op, (slot: Slot) => this.known.delete(slot));
    if (value && this.context.slots.type(op.d) === 'i64') this.known.set(op.d, value);
  }
}

/** Which accesses of a block share a check, by op. */
export function groupAccesses(
  context: CompileContext,
  ops: readonly Op[],
  instructions: readonly Address[],
): ReadonlyMap<Op, Group> {
  const out = new Map<Op, Group>();
  const offsets = new KnownOffsets(context);
  const groups = new Map<string, Group>();
  const ordinals = new Map<number, number>();
  for (const op of ops) {
    const { row } = op;
    if (row.form === 'load' || row.form === 'store') {
      const ordinal = ordinals.get(op.at) ?? 0;
      ordinals.set(op.at, ordinal + 1);
      const site = context.site(instructions[op.at]!, ordinal, op);
      if (typeof op.b === 'bigint' && typeof op.a === 'number') {
        const base = offsets.of(op.a);
        const at = offsets.wrap(base.offset + op.b);
        // What any window may serve is asked of loads or of stores, not of both.
        const key = `${base.root}:${site.kind === 'window' ? site.cells : row.form}`;
        const group = joined(groups.get(key), op, row, at, context.addressBits) ?? groupOf(op, row, site, at);
        groups.set(key, group);
        out.set(op, group);
      }
    }
    offsets.pass(op);
  }
  for (const group of new Set(out.values())) {
    if (group.members.length < 2 || group.site.kind === 'search') continue;
    context.group(
      instructions[group.first.at]!,
      group.members.map((each) => instructions[each.at]!),
    );
  }
  return out;
}

function groupOf(op: Op, row: AccessRow, site: Group['site'], origin: bigint): Group {
  const writes = row.form === 'store';
  const distances = new Map([[op, 0]]);
  return { site, first: op, origin, low: 0, high: row.bytes, writes, members: [op], distances, local: -1 };
}

/** The group with an access more; null where it is too far away. */
function joined(group: Group | undefined, op: Op, row: AccessRow, at: bigint, addressBits: 32 | 64): Group | null {
  if (!group) return null;
  const distance = Number(BigInt.asIntN(addressBits, at - group.origin));
  const low = Math.min(group.low, distance);
  const high = Math.max(group.high, distance + row.bytes);
  const most = group.site.kind === 'window' ? MAX_SPAN : MAX_SEARCHED;
  if (Math.abs(distance) >= most || high - low > most) return null;
  group.low = low;
  group.high = high;
  if (row.form === 'store') group.writes = true;
  group.members.push(op);
  group.distances.set(op, distance);
  return group;
}

/** Writes accesses into the code of a region. */
export class AccessCode {
  constructor(private readonly region: RegionCode) {}

  /** Pushes the address of an access less `minus`: an i64, or an i32 on 32-bit machines. */
  private address(op: Op, minus: bigint): void {
    const { code } = this.region;
    const { addressBits } = this.region.context;
    const narrow = addressBits === 32;
    const constants = [op.a, op.b].filter((each) => typeof each === 'bigint');
    const constant = BigInt.asIntN(
      addressBits,
      constants.reduce((sum, each) => sum + each, -minus),
    );
    let pushed = false;
    for (const each of [op.a, op.b]) {
      if (typeof each === 'bigint') continue;
      this.region.value(each);
      if (narrow) code.op(I32.wrap);
      if (pushed) code.op(narrow ? I32.add : I64.add);
      pushed = true;
    }
    if (pushed && constant === 0n) return;
    if (narrow) code.i32(Number(constant));
    else code.i64(constant);
    if (pushed) code.op(narrow ? I32.add : I64.add);
  }

  /**
   * Finds the host address of an access that may go to any window; a local that has it. Descriptors
   * of no window have limits of 0. What lies in another window than the last time is looked for by
   * a call, in code of its own, so that nothing is moved out of registers for it elsewhere.
   */
  private search(op: Op, row: AccessRow, group: Group | undefined, record: number, stopUnless: () => void): number {
    const { code, wide, context } = this.region;
    const host = this.hostLocal(group);
    const [window, offset] = [this.region.scratch('i32'), this.region.scratch('i64')];
    const { low, high } = group ?? { low: 0, high: row.bytes };
    const bytes = 1 << Math.ceil(Math.log2(high - low));
    const limits = (row.form === 'store' ? WINDOW.writeLimits : WINDOW.readLimits) + 8 * Math.log2(bytes);
    this.address(op, BigInt(-low));
    if (context.addressBits === 32) code.op(I64.extendU);
    code
      .tee(wide)
      .i32(0)
      .memory([I32.load16u], record + HINT.window)
      .tee(window);
    code.memory([I64.load], WINDOW.base).op(I64.sub).tee(offset);
    code.get(window).memory([I64.load], limits).op(I64.geu).rarely().if();
    code.get(wide).i32(bytes).i32(limits).i32(record).call(context.functionIndex('resolve')).tee(host).op(I32.eqz);
    stopUnless();
    code.else();
    code.get(window).memory([I32.load], WINDOW.host).get(offset).op(I32.wrap).op(I32.add).set(host);
    code.end();
    return host;
  }

  /** The local for the host address of what is checked: members of a group come back to it. */
  private hostLocal(group: Group | undefined): number {
    return group && group.members.length > 1 ? this.region.local('i32') : this.region.narrow;
  }

  /** The same of an access that is expected in a window. */
  private inWindow(op: Op, row: AccessRow, group: Group | undefined, site: WindowSite, stopUnless: () => void): number {
    const { code, wide, context } = this.region;
    const host = this.hostLocal(group);
    const { low, high, writes } = group ?? { low: 0, high: row.bytes, writes: row.form === 'store' };
    const span = CELL.spans.findIndex((each) => each >= high - low);
    const cell = site.cells + (writes ? CELL.write : CELL.read) + 8 * span;
    this.address(op, site.base - BigInt(low));
    if (context.addressBits === 32) {
      code.tee(host).i32(0).memory([I32.load], cell).op(I32.geu);
      stopUnless();
      return host;
    }
    code.tee(wide).i32(0).memory([I64.load], cell).op(I64.geu);
    stopUnless();
    code.get(wide).op(I32.wrap).set(host);
    return host;
  }

  /**
   * A word of the other byte order by rotations, which take less time than to move it to a vector
   * and back: what waits for it is mostly an address or a branch.
   */
  private loadReversed({ signed }: AccessRow, host: number): void {
    const { code } = this.region;
    const word = this.region.scratch('i32');
    code.memory([I32.load], host).tee(word).i32(8).op(I32.rotl).i32(0x00ff_00ff).op(I32.and);
    code.get(word).i32(8).op(I32.rotr).i32(~0x00ff_00ff).op(I32.and).op(I32.or);
    code.op(signed ? I64.extendS : I64.extendU);
  }

  /** `stopUnless`: stops where the i32 on the stack is not 0. */
  emit(op: Op, row: AccessRow, group: Group | undefined, site: Site, stopUnless: () => void): void {
    const { code } = this.region;
    let local: number;
    if (group && group.first !== op) local = group.local;
    else {
      local =
        site.kind === 'search'
          ? this.search(op, row, group, site.record, stopUnless)
          : this.inWindow(op, row, group, site, stopUnless);
      if (group) group.local = local;
    }
    const host = (site.kind === 'window' ? site.host : 0) + (group ? group.distances.get(op)! - group.low : 0);
    code.get(local);
    if (row.form === 'load') {
      if (row.bytes === 4 && row.endian === 'big') this.loadReversed(row, host);
      else code.memory(row.access, host).raw(row.swap);
      this.region.assign(op.d, row.type);
    } else {
      this.region.value(op.c, row.type);
      code.raw(row.swap).memory(row.access, host, row.lane);
    }
  }
}
