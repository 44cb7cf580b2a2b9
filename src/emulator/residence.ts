/**
 * Which registers of the guest are in locals of a region's function where each block begins; all
 * others are in the state block alone. Processors have about ten registers for them, and an engine
 * moves what it cannot keep there around at each join of ways. So what is not needed soon stays in
 * memory: behind a call, across a loop that does not ask for it, where more is needed than fits.
 *
 * A register is in a local from where a block reads or writes it first. Ways into a block load what
 * is in locals there and was not, and store what is dirty and is in no local there: nothing that is
 * not in a local is dirty. What is dirty and never read stays where it is, for storing it would
 * cost each block that writes it what it costs a stop.
 *
 * Source of the distances: Braun and Hack, Register spilling and live-range splitting for SSA-form
 * programs, Compiler Construction 2009.
 */
import type { SlotLayout } from '../machine/ir.js';
import { emptySets, keeping } from './region-flow.js';
import type { Effects, SlotSet } from './region-flow.js';
import { returnsHere } from './regions.js';
import type { Region } from './regions.js';

/** So many integers, and so many of other types, are in locals where a block begins. */
const MOST = { i64: 12, others: 12 } as const;
/** A way out of a loop is as long as so many ops; what is behind it is not needed soon. */
const OUT_OF_LOOP = 10_000;
/** What only some ways bring along stays in locals where it is needed within so many ops. */
const SOON = 15;
const NEVER = 0x7fff_ffff;

export interface ResidenceFacts {
  readonly region: Region;
  readonly slots: SlotLayout;
  readonly effects: Effects;
  readonly live: readonly SlotSet[];
  /** What may be dirty where each block begins, if all is in locals. */
  readonly dirty: readonly SlotSet[];
  /** Blocks in an order in which those in front come first, but for ways back. */
  readonly order: readonly number[];
  /** In how many loops each block is. */
  readonly depths: readonly number[];
}

/** Ops until each register is read next, by block and slot. */
function distancesOf({ region, slots, effects, order, depths }: ResidenceFacts): readonly Int32Array[] {
  const { blocks } = region;
  const registers = slots.firstTemporary;
  const all = blocks.map(() => new Int32Array(registers).fill(NEVER));
  for (let changed = true; changed;) {
    changed = false;
    for (let i = order.length - 1; i >= 0; i--) {
      const index = order[i]!;
      const here = all[index]!;
      const length = blocks[index]!.ops.length + 1;
      const [used, defined] = [effects.used[index]!, effects.defined[index]!];
      for (const to of keeping(blocks[index]!)) {
        if (to < 0) continue;
        const there = all[to]!;
        const way = length + (depths[to]! < depths[index]! ? OUT_OF_LOOP : 0);
        for (let slot = 0; slot < registers; slot++) {
          const next = there[slot]!;
          if (next === NEVER || next + way >= here[slot]! || defined.has(slot)) continue;
          here[slot] = next + way;
          changed = true;
        }
      }
      for (const slot of used.slots()) {
        if (here[slot] === 0) continue;
        here[slot] = 0;
        changed = true;
      }
    }
  }
  return all;
}

/** What is in all of some sets, and in one of them at least; nothing where there are none. */
function joined([first, ...others]: readonly SlotSet[]): readonly [all?: SlotSet, some?: SlotSet] {
  if (!first) return [];
  let all = first;
  const some = first.copy();
  for (const each of others) {
    all = all.common(each);
    some.addAll(each);
  }
  return [all, some];
}

/** What is in locals where each block begins. */
export function residenceOf(facts: ResidenceFacts, pointer: number): readonly SlotSet[] {
  const { region, slots, effects, live, dirty, order } = facts;
  const { blocks } = region;
  const registers = slots.firstTemporary;
  const distances = distancesOf(facts);
  const before: number[][] = blocks.map(() => []);
  const place = new Map(order.map((index, at) => [index, at]));
  for (const index of order) for (const to of keeping(blocks[index]!)) if (to >= 0) before[to]!.push(index);
  const [nothing] = emptySets(1, registers) as [SlotSet];
  const written = (index: number): SlotSet => {
    if (returnsHere(blocks[index]!)) return nothing;
    const out = dirty[index]!.copy();
    out.addAll(effects.defined[index]!);
    return out;
  };
  const here = emptySets(blocks.length, registers);
  const behind = emptySets(blocks.length, registers);
  for (const index of order) {
    const distance = distances[index]!;
    const [done, back]: [number[], number[]] = [[], []];
    for (const each of before[index]!) (place.get(each)! < place.get(index)! ? done : back).push(each);
    const isHeader = back.length > 0;
    const [inAll, inSome] = joined(done.map((each) => behind[each]!));
    const [isWritten] = joined(isHeader ? back.map((each) => written(each)) : []);
    const left = { ...MOST };
    const wanted: number[] = [];
    for (const slot of live[index]!.slots()) {
      const next = distance[slot]!;
      if (isHeader) {
        if (next < OUT_OF_LOOP) wanted.push(slot);
        else if (isWritten?.has(slot) === true) here[index]!.add(slot);
      } else if (inAll?.has(slot) === true && next >= OUT_OF_LOOP) here[index]!.add(slot);
      else if (inAll?.has(slot) === true || (inSome?.has(slot) === true && next < SOON)) wanted.push(slot);
    }
    wanted.sort((a, b) => distance[a]! - distance[b]!);
    for (const slot of wanted) {
      const type = slots.type(slot) === 'i64' ? 'i64' : 'others';
      if (left[type]-- > 0) here[index]!.add(slot);
    }
    here[index]!.add(pointer);
    const out = behind[index]!;
    for (const set of [here[index]!, effects.used[index]!, effects.defined[index]!]) out.addAll(set);
  }
  return here;
}
