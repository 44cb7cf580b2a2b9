/**
 * The table of patchable entries of a linked file without section headers: nothing names it, so it
 * is told by what the dynamic loader does (RT-56). A word that is relocated by the load address,
 * and then leads to nops which a compiler left for a call where unwind information says that a
 * function begins, is one of the table, or a pointer to a function that the table names, too. The
 * table is the longest run of such words.
 */
import * as elf from '../elf/constants.js';
import { isDynamic } from '../relocs/read.js';
import type { CodeRange, Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { SlotTable } from './tables.js';
import { ByteView } from '../bytes.js';

/** Words that the loader relocates by where it loads the file: their addresses and values. */
function relocatedWords({ image, arch }: Program): Map<Address, Address> {
  const words = new Map<Address, Address>();
  const view = new ByteView(image.bytes, image.header.endian, 'relocated words');
  const { wordBytes } = image;
  const ones = (1n << BigInt(8 * wordBytes)) - 1n;
  const held = (address: Address): Address => {
    const at = image.fileOffsetOf(address);
    return at < 0 || at + wordBytes > image.bytes.length ? 0n : view.word(at, wordBytes);
  };
  for (const table of image.relocations) {
    if (!isDynamic(image, table)) continue;
    const { offset, type, addend, count, addends } = table;
    for (let row = 0; row < count; row++) {
      if (type[row] !== arch.relocationRoles.relative && type[row] !== elf.RELR_RELATIVE) continue;
      const at = offset[row]!;
      words.set(at, addends === 'row' ? addend[row]! & ones : held(at));
    }
  }
  return words;
}

/** A place in code. */
interface Place {
  readonly range: CodeRange;
  readonly offset: number;
}

/**
 * @param isEntry  whether a function begins with nops at a place, with room for a call
 * @returns null: there is none, or more than one could be it
 */
export function unnamedTable(program: Program, isEntry: (place: Place) => boolean): SlotTable | null {
  const step = BigInt(program.image.wordBytes);
  const words = relocatedWords(program);
  const runs: { readonly start: Address; readonly values: Address[] }[] = [];
  let end: Address | null = null;
  for (const at of [...words.keys()].sort((a, b) => (a < b ? -1 : 1))) {
    const value = words.get(at)!;
    const range = program.codeAt(value);
    if (range === undefined || !isEntry({ range, offset: Number(value - range.address) })) continue;
    if (at === end) runs.at(-1)!.values.push(value);
    else runs.push({ start: at, values: [value] });
    end = at + step;
  }
  const longest = runs.reduce<(typeof runs)[number] | null>(
    (most, each) => (most === null || each.values.length > most.values.length ? each : most),
    null,
  );
  if (longest === null) return null;
  const named = new Set(longest.values);
  // What no other word doubts: pointers to functions lead to what the table names.
  if (runs.some(({ values }) => values.some((value) => !named.has(value)))) return null;
  const values = [...named];
  return {
    name: 'relocated words',
    source: 'patchable-table',
    role: 'sites',
    count: values.length,
    zero: 0,
    section: new Int32Array(values.length).fill(-1),
    value: BigUint64Array.from(values),
    position: new Float64Array(values.length).fill(-1),
    container: -1,
    sorted: values.every((value, i) => i === 0 || value > values[i - 1]!),
    origin: 'relative',
    remarks: [],
  };
}
