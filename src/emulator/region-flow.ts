/** Data flow of a region: which registers may be dirty, which are needed, and how much fuel is. */
import type { Op } from '../machine/ir.js';
import { mayExit } from './passes.js';
import { returnsHere } from './regions.js';
import type { Region, RegionBlock } from './regions.js';

/** A set of slots as bits. */
export class SlotSet {
  readonly words: Uint32Array;

  constructor(count: number) {
    this.words = new Uint32Array((count + 31) >>> 5);
  }

  has(slot: number): boolean {
    return (this.words[slot >>> 5]! & (1 << (slot & 31))) !== 0;
  }

  add(slot: number): void {
    this.words[slot >>> 5]! |= 1 << (slot & 31);
  }

  /** Adds all of `other`, of those in `among`; true when that changed anything. */
  addAll(other: SlotSet, among: SlotSet | null = null): boolean {
    let changed = false;
    for (let i = 0; i < this.words.length; i++) {
      const now = this.words[i]!;
      const then = (now | (among ? other.words[i]! & among.words[i]! : other.words[i]!)) >>> 0;
      if (then !== now) {
        this.words[i] = then;
        changed = true;
      }
    }
    return changed;
  }

  /** What is in both. */
  common(other: SlotSet): SlotSet {
    const out = this.copy();
    for (let i = 0; i < out.words.length; i++) out.words[i]! &= other.words[i]!;
    return out;
  }

  /** Without those of `other`. */
  without(other: SlotSet): SlotSet {
    const out = this.copy();
    for (let i = 0; i < out.words.length; i++) out.words[i]! &= ~other.words[i]!;
    return out;
  }

  copy(): SlotSet {
    const out = new SlotSet(0);
    return Object.assign(out, { words: this.words.slice() });
  }

  slots(): number[] {
    const out: number[] = [];
    this.words.forEach((word, index) => {
      for (let rest = word; rest !== 0; rest &= rest - 1) out.push(32 * index + 31 - Math.clz32(rest & -rest));
    });
    return out;
  }
}

/** Slots that an op reads and writes, those of records included. */
export function readsOf(op: Op, see: (slot: number) => void): void {
  const { row } = op;
  if (row.form === 'slots') {
    for (let i = 0; i < row.slots; i++) see(Number(op.a) + i);
    return;
  }
  if (typeof op.a === 'number') see(op.a);
  if (typeof op.b === 'number') see(op.b);
  if (typeof op.c === 'number') see(op.c);
  if (row.form === 'float' && (row.clean !== null || row.callHasMode)) see(op.mode);
}

export function writesOf(op: Op, see: (slot: number) => void): void {
  const { row } = op;
  switch (row.form) {
    case 'store':
    case 'aligned':
    case 'check':
    case 'leave':
      return;
    case 'record':
      for (let i = 0; i < 3; i++) see(op.d + i);
      return;
    case 'unary':
    case 'binary':
    case 'select':
    case 'load':
    case 'slots':
    case 'float':
    case 'unit':
      see(op.d);
      return;
    default:
      row satisfies never;
  }
}

export interface Flow {
  /** Registers that may differ from the state block at the begin of each block. */
  readonly dirty: readonly SlotSet[];
  /** Registers whose value is needed at the begin of each block. */
  readonly live: readonly SlotSet[];
  /** Registers that are in locals at the begin of each block. */
  readonly resident: readonly SlotSet[];
}

/** Says what is in locals at the begin of each block. */
export type Residence = (effects: Effects, live: readonly SlotSet[], dirty: readonly SlotSet[]) => readonly SlotSet[];

/** True for terminators at which everything dirty is written back, in some case. */
function writesBack({ block, targets }: RegionBlock): boolean {
  const { kind } = block.terminator;
  return kind !== 'jmp' && kind !== 'br' && !(kind === 'call' && targets.length > 0);
}

/**
 * Successors that are reached with registers in locals: not what a callee that is no copy returns
 * to.
 */
export function keeping(each: RegionBlock): readonly number[] {
  return returnsHere(each) ? each.successors.slice(0, -1) : each.successors;
}

/** What each block does by itself. */
export interface Effects {
  /** What it writes. */
  readonly defined: readonly SlotSet[];
  /** What it reads before it writes it. */
  readonly used: readonly SlotSet[];
  /** What it has written before it may exit for the first time; everything where it never does. */
  readonly kept: readonly SlotSet[];
}

export const emptySets = (count: number, registers: number): SlotSet[] =>
  Array.from({ length: count }, () => new SlotSet(registers));

/**
 * May-dirty sets and liveness. An exit needs what is dirty there, for it is written back: a
 * register that one path wrote must hold its value on the other one too. Nothing is dirty where a
 * call returns, and where an entry begins only `pointer`, the slot of the stack pointer.
 */
export function flowOf(region: Region, registers: number, pointer: number, residence: Residence): Flow {
  const effects = effectsOf(region, registers);
  const dirty = dirtyOf(region, registers, effects, pointer, null);
  const live = liveOf(region, registers, effects, dirty);
  const resident = residence(effects, live, dirty);
  return { dirty: dirtyOf(region, registers, effects, pointer, resident), live, resident };
}

function effectsOf({ blocks, entries }: Region, registers: number): Effects {
  const [defined, used, kept] = [0, 1, 2].map(() => emptySets(blocks.length, registers)) as [
    SlotSet[],
    SlotSet[],
    SlotSet[],
  ];
  const begins = new Set(entries);
  blocks.forEach((each, index) => {
    const { block, ops, successors } = each;
    const [def, use] = [defined[index]!, used[index]!];
    let exited = false;
    const exit = (): void => {
      if (exited) return;
      exited = true;
      kept[index]!.addAll(def);
    };
    // The fuel is looked at before the first op.
    if (begins.has(index)) exit();
    const see = (slot: number): void => {
      if (slot < registers && !def.has(slot)) use.add(slot);
    };
    for (const op of ops) {
      readsOf(op, see);
      // A guarded record may stay what it was.
      if (op.op === 'recif') writesOf(op, see);
      if (mayExit(op)) exit();
      writesOf(op, (slot) => {
        if (slot < registers) def.add(slot);
      });
    }
    const { terminator } = block;
    if (terminator.kind === 'br') {
      see(terminator.a);
      if (typeof terminator.b === 'number') see(terminator.b);
    } else if ('s' in terminator) see(terminator.s);
    if (writesBack(each) || successors.includes(-1)) exit();
    if (!exited) kept[index]!.words.fill(0xffff_ffff);
  });
  return { defined, used, kept };
}

/** Forwards: what may be dirty. */
function dirtyOf(
  { blocks, entries }: Region,
  registers: number,
  { defined }: Effects,
  pointer: number,
  resident: readonly SlotSet[] | null,
): readonly SlotSet[] {
  const dirty = emptySets(blocks.length, registers);
  for (const each of entries) dirty[each]!.add(pointer);
  for (let changed = true; changed;) {
    changed = false;
    blocks.forEach((each, index) => {
      const out = dirty[index]!.copy();
      out.addAll(defined[index]!);
      for (const to of keeping(each)) {
        if (to < 0) continue;
        if (dirty[to]!.addAll(out, resident?.[to] ?? null)) changed = true;
      }
    });
  }
  return dirty;
}

/** Backwards: what is needed. */
function liveOf(
  { blocks }: Region,
  registers: number,
  { defined, used, kept }: Effects,
  dirty: readonly SlotSet[],
): readonly SlotSet[] {
  const live = emptySets(blocks.length, registers);
  for (let changed = true; changed;) {
    changed = false;
    for (let index = blocks.length - 1; index >= 0; index--) {
      const successors = keeping(blocks[index]!);
      const now = live[index]!;
      const words = now.words;
      for (let i = 0; i < words.length; i++) {
        let out = 0;
        for (const to of successors) if (to >= 0) out |= live[to]!.words[i]!;
        const then =
          (words[i]! |
            used[index]!.words[i]! |
            (out & ~defined[index]!.words[i]!) |
            (dirty[index]!.words[i]! & ~kept[index]!.words[i]!)) >>>
          0;
        if (then !== words[i]) {
          words[i] = then;
          changed = true;
        }
      }
    }
  }
  return live;
}

/** The most instructions from the begin of each block to the next entry of the region. */
export function costsOf(region: Region): readonly number[] {
  const { blocks } = region;
  const entries = new Set(region.entries);
  const costs = new Array<number>(blocks.length).fill(-1);
  const cost = (index: number): number => {
    const known = costs[index]!;
    if (known >= 0) return known;
    const { block, successors } = blocks[index]!;
    let most = 0;
    for (const to of successors) if (to >= 0 && !entries.has(to)) most = Math.max(most, cost(to));
    costs[index] = most + block.instructions.length;
    return costs[index];
  };
  for (let index = 0; index < blocks.length; index++) cost(index);
  return costs;
}
