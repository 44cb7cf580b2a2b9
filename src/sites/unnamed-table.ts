/**
 * The table of patchable entries of a linked file without section headers: nothing names it, so it
 * is told by what lies in it (RT-56). A word that is an address, as the dynamic loader relocates it
 * or, without position-independent code, as it lies in data, and that leads to nops which a
 * compiler left for a call where a function begins, is one of the table, or a pointer to a function
 * that the table names, too. The table is the longest run of such words. Where nothing tells that a
 * function begins (no unwind information, nothing calls it), a word counts in the middle of others,
 * in the order of their addresses.
 */
import type { CodeRange, Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { SlotTable } from './tables.js';

/** A place in code. */
interface Place {
  readonly range: CodeRange;
  readonly offset: number;
}

/**
 * What a word leads to: where unwind information begins, what code calls, what code or another word
 * names, too, or nops of which nothing is known. Labels inside of functions are named, but not
 * called, so a quarter of a table's words at least is more than that.
 */
export type Entry = 'unwound' | 'called' | 'named' | 'unknown';

/** What is a table, and how many words at its ends lead to nops of which nothing is known. */
interface Run {
  readonly values: readonly Address[];
  readonly left: number;
}

interface Slot {
  readonly value: Address;
  readonly entry: Entry;
}

/**
 * The run without what is not known at its ends, or out of the order of what is known around it.
 * @returns null: too few are unwound or called, or one stands twice
 */
function enclosed(run: readonly Slot[]): Run | null {
  const values: Address[] = [];
  let open: Address[] = [];
  let last: Address | null = null;
  let told = 0;
  for (const { value, entry } of run) {
    if (entry === 'unknown') {
      open.push(value);
      continue;
    }
    if (entry !== 'named') told++;
    const all: readonly Address[] = [...open, value];
    const isBetween = last !== null && all.every((each, i) => each > (i === 0 ? last! : all[i - 1]!));
    if (isBetween) values.push(...open);
    values.push(value);
    open = [];
    last = value;
  }
  // A table names each place once.
  const isTable = told * 4 >= values.length && new Set(values).size === values.length;
  return isTable ? { values, left: run.length - values.length } : null;
}

/**
 * @param entryOf  what nops with room for a call at a place are; null: there are none
 * @returns null: there is no table, or more than one could be it
 */
export function unnamedTable(program: Program, entryOf: (place: Place) => Entry | null): SlotTable | null {
  const step = BigInt(program.image.wordBytes);
  const { words } = program.codeWords;
  const runs: { readonly start: Address; readonly slots: Slot[] }[] = [];
  let end: Address | null = null;
  for (const at of [...words.keys()].sort((a, b) => (a < b ? -1 : 1))) {
    const value = words.get(at)!;
    const range = program.codeAt(value);
    const found = range === undefined ? null : entryOf({ range, offset: Number(value - range.address) });
    if (found === null) continue;
    const slot: Slot = { value, entry: found };
    if (at === end) runs.at(-1)!.slots.push(slot);
    else runs.push({ start: at, slots: [slot] });
    end = at + step;
  }
  const known = runs.map(({ slots }) => slots.filter(({ entry }) => entry !== 'unknown'));
  const most = Math.max(0, ...known.map(({ length }) => length));
  const longest = most === 0 ? null : enclosed(runs[known.findIndex(({ length }) => length === most)]!.slots);
  if (longest === null) return null;
  const named = new Set(longest.values);
  // What no other word doubts: pointers to functions lead to what the table names. Linkers leave
  // nops where functions of others begin (ELFv1), which are called, too.
  if (known.some((slots) => slots.some(({ value, entry }) => entry === 'unwound' && !named.has(value)))) return null;
  const values = [...named];
  return {
    name: 'unnamed words',
    source: 'patchable-table',
    role: 'sites',
    count: values.length,
    zero: 0,
    section: new Int32Array(values.length).fill(-1),
    value: BigUint64Array.from(values),
    isInFile: false,
    position: new Float64Array(values.length).fill(-1),
    container: -1,
    sorted: values.every((value, i) => i === 0 || value > values[i - 1]!),
    origin: program.positionIndependent ? 'relative' : 'contents',
    remarks: [],
    leftOff: longest.left,
  };
}
