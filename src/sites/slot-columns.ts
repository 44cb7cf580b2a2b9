/** Where the slots of tables lead: columns by site, in the order of code. Kernels have 60,000. */
import { distance, halves, HIGH, LOW } from '../elf/lookup.js';
import type { CodeRange, Program } from '../program/program.js';
import type { SlotTable } from './tables.js';
import type { Address } from '../units.js';

/** Where the slots of all tables lead, sorted by place. */
export interface SlotColumns {
  readonly tableOf: Uint8Array<ArrayBuffer>;
  readonly slotOf: Uint32Array<ArrayBuffer>;
  /** Position of the range of code; -1: none. */
  readonly rangeOf: Int32Array<ArrayBuffer>;
  readonly anchors: BigUint64Array;
  /** In the range, bytes; -1 where there is none. */
  readonly offsets: Float64Array<ArrayBuffer>;
}

/** Ranges of code of a table's slots in a relocatable file, by the sections that they name. */
function rangesBySection({ code }: Program, { section, value }: SlotTable, into: Int32Array): void {
  const range: number[] = [];
  const size: number[] = [];
  for (const each of code) {
    range[each.section] = each.index;
    size[each.section] = each.bytes.length;
  }
  const words = halves(value);
  for (let slot = 0; slot < into.length; slot++) {
    const home = section[slot]!;
    // Sections that hold no code have no size.
    if (home > 0 && words[2 * slot + HIGH] === 0 && words[2 * slot + LOW]! < size[home]!) into[slot] = range[home]!;
  }
}

/** The same in a linked file, by addresses. */
function rangesByAddress(program: Program, { value }: SlotTable, into: Int32Array): void {
  const words = halves(value);
  let last: CodeRange | undefined;
  // The last range as halves: a bigint of each slot would cost more than all the rest.
  let [first, end, upper] = [0, -1, -1];
  for (let slot = 0; slot < into.length; slot++) {
    const low = words[2 * slot + LOW]!;
    const high = words[2 * slot + HIGH]!;
    if (low === 0 && high === 0) continue;
    if (high !== upper || low < first || low >= end) {
      last = program.codeAt(value[slot]!);
      first = last === undefined ? 0 : Number(last.address & 0xffff_ffffn);
      end = last === undefined ? -1 : first + last.bytes.length;
      // A range that goes on behind 4 GiB is asked for again each time.
      upper = last === undefined || end > 0x1_0000_0000 ? -1 : high;
    }
    if (last !== undefined) into[slot] = last.index;
  }
}

export function placeSlots(program: Program, tables: readonly SlotTable[]): SlotColumns {
  const used = tables.map((table, index) => ({ table, index })).filter(({ table }) => table.role === 'sites');
  const total = used.reduce((sum, { table }) => sum + table.count, 0);

  let tableOf = new Uint8Array(total);
  let slotOf = new Uint32Array(total);
  let rangeOf = new Int32Array(total).fill(-1);
  // A table alone keeps its column.
  let anchors: BigUint64Array = used.length === 1 ? used[0]!.table.value : new BigUint64Array(total);
  let at = 0;
  for (const { table, index } of used) {
    const end = at + table.count;
    tableOf.fill(index, at, end);
    countUp(slotOf.subarray(at, end));
    if (anchors !== table.value) anchors.set(table.value, at);
    const ranges = rangeOf.subarray(at, end);
    if (program.relocatable) rangesBySection(program, table, ranges);
    else rangesByAddress(program, table, ranges);
    at = end;
  }
  const permutation = order(rangeOf, anchors);
  if (permutation) {
    tableOf = inTheirOrder(permutation, tableOf, new Uint8Array(total));
    slotOf = inTheirOrder(permutation, slotOf, new Uint32Array(total));
    rangeOf = inTheirOrder(permutation, rangeOf, new Int32Array(total));
    const old = anchors;
    anchors = new BigUint64Array(total);
    pairsInTheirOrder(permutation, halves(old), halves(anchors));
  }
  return { tableOf, slotOf, rangeOf, anchors, offsets: offsetsOf(program, rangeOf, anchors) };
}

/** A column in another order, as a loop: `from` of typed arrays makes objects for each element. */
function inTheirOrder<T extends Uint8Array | Uint32Array | Int32Array>(order: Uint32Array, from: T, into: T): T {
  for (let i = 0; i < order.length; i++) into[i] = from[order[i]!]!;
  return into;
}

/** The same of a column of halves. */
function pairsInTheirOrder(order: Uint32Array, from: Uint32Array, into: Uint32Array): void {
  for (let i = 0; i < order.length; i++) {
    const row = 2 * order[i]!;
    into[2 * i] = from[row]!;
    into[2 * i + 1] = from[row + 1]!;
  }
}

function countUp(column: Uint32Array): void {
  for (let i = 0; i < column.length; i++) column[i] = i;
}

/** Where each run of sites of one range of code begins, and where the last one ends. */
export function runsOf(ranges: Int32Array): number[] {
  const begins: number[] = [];
  for (let i = 0; i < ranges.length; i++) if (i === 0 || ranges[i] !== ranges[i - 1]) begins.push(i);
  begins.push(ranges.length);
  return begins;
}

/** Anchors as offsets in their ranges. */
function offsetsOf({ code }: Program, ranges: Int32Array, anchors: BigUint64Array): Float64Array<ArrayBuffer> {
  const offsets = new Float64Array(ranges.length).fill(-1);
  const runs = runsOf(ranges);
  for (let run = 0; run + 1 < runs.length; run++) {
    const [from, to] = [runs[run]!, runs[run + 1]!];
    const range = code[ranges[from]!];
    if (range !== undefined) distances(anchors.subarray(from, to), range.address, offsets.subarray(from, to));
  }
  return offsets;
}

/** How far values are above a base. */
function distances(values: BigUint64Array, base: Address, into: Float64Array): void {
  const words = halves(values);
  const from = halves(BigUint64Array.of(base));
  for (let i = 0; i < into.length; i++) into[i] = distance(words, i, from, 0);
}

/** Whether sites stand in the order that `order` makes. */
function isOrdered(ranges: Int32Array, anchors: BigUint64Array): boolean {
  const words = halves(anchors);
  for (let i = 1; i < ranges.length; i++) {
    if (ranges[i] !== ranges[i - 1]) {
      // -1 (unplaced) becomes the greatest unsigned number.
      if (ranges[i - 1]! >>> 0 > ranges[i]! >>> 0) return false;
      continue;
    }
    const above = words[2 * i + HIGH]! - words[2 * i - 2 + HIGH]!;
    if (above > 0 || (above === 0 && words[2 * i + LOW]! >= words[2 * i - 2 + LOW]!)) continue;
    if (ranges[i]! >= 0) return false;
  }
  return true;
}

/** Sites in ascending order of (code range, anchor); unplaced ones last, in slot order. */
function order(ranges: Int32Array, anchors: BigUint64Array): Uint32Array | null {
  const { length } = ranges;
  if (isOrdered(ranges, anchors)) return null;
  const order = new Uint32Array(length);
  countUp(order);
  const words = halves(anchors);
  return order.sort((x, y) => {
    const byRange = (ranges[x]! >>> 0) - (ranges[y]! >>> 0);
    if (byRange !== 0) return byRange;
    if (ranges[x]! < 0) return x - y;
    return distance(words, x, words, y) || x - y;
  });
}
