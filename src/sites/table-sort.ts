/**
 * Sorts the site table of a linked image in place, as a kernel build does, so that start-up need
 * not. Owns the checks that must hold before a byte changes, the order, and what becomes of slots
 * whose function lost at link time. Plans patches, writes nothing, and never looks at code.
 *
 *   where values stand                           what is rewritten
 *   words only (ET_EXEC, REL, RELR)              words
 *   RELATIVE addends, words zero                 addends
 *   RELATIVE addends and equal words             both, so that they stay equal
 *
 * An addend belongs to the slot that its relocation names, whatever the order of the relocations:
 * values are written by offset, not by position in the relocation table (M-SORT-1).
 *
 * Rules M-SORT-1..4 and M-WEAK-2..3 of the specification.
 */
import type { Arch } from '../machine/arch.js';
import { ByteView } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, RelocationTable } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';

/**
 * A run of bytes to store; `before` stands there now. Lists are sorted by offset and do not
 * overlap.
 */
export interface TablePatch {
  /** File position. */
  readonly offset: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

export interface SortedTable {
  readonly kind: 'sorted';
  /** Empty when the table is in order already. */
  readonly patches: readonly TablePatch[];
  /** Slots, zeros included. */
  readonly slots: number;
  /**
   * Zero slots after sorting: padding between contributions (M-SORT-4) and the slots of `dropped`.
   */
  readonly zeros: number;
  /** Values set to 0 because they lie in no function, ascending (M-WEAK-2). */
  readonly dropped: readonly Address[];
  /** Values that stand in several slots, ascending; all slots are kept (M-SORT-3). */
  readonly duplicates: readonly { readonly value: Address; readonly slots: number }[];
}

export interface RefusedTable {
  readonly kind: 'refused';
  /** Which check failed; nothing may change then (M-SORT-2). */
  readonly reason: string;
}

export interface SortOptions {
  /**
   * False for an address in no function: its slot is set to 0. Absent: slots are kept. See
   * `functionCover`.
   */
  readonly inFunction?: (address: Address) => boolean;
}

/** A relocation that belongs to a slot. */
interface SlotRelocation {
  /** File position of its addend; -1 where the form has none. */
  readonly addendOffset: number;
  readonly addend: bigint;
}

/**
 * Plans the sorting of a linked image's table: unsigned by value in the image's word size, zeros
 * first.
 * @param range  addresses of the table, end excluded
 * @throws ElftraceError 'unsupported-form' for a relocatable file, whose slots have no values yet
 * Source: M-SORT-1..4, M-WEAK-2
 */
export function planTableSort(
  image: ElfImage,
  arch: { readonly relocationRoles: Pick<Arch['relocationRoles'], 'relative'> },
  range: { readonly start: Address; readonly stop: Address },
  options: SortOptions = {},
): SortedTable | RefusedTable {
  if (image.header.type !== elf.ET_EXEC && image.header.type !== elf.ET_DYN) {
    throw new ElftraceError('unsupported-form', 'only linked files have a table that can be sorted', {
      what: 'e_type',
      value: image.header.type,
    });
  }
  const word = image.wordBytes;
  const size = Number(range.stop - range.start);
  if (size < 0 || size % word !== 0) {
    return refused(`the table's ${size} bytes are no multiple of the word size ${word}`);
  }
  const count = size / word;
  if (count === 0) return { kind: 'sorted', patches: [], slots: 0, zeros: 0, dropped: [], duplicates: [] };
  const position = image.fileOffsetOf(range.start);
  if (position < 0 || image.fileOffsetOf(range.stop - 1n) !== position + size - 1) {
    return refused(`the file does not hold the table's bytes at ${hex(range.start)}`);
  }

  const found = readSlotRelocations(image, arch.relocationRoles.relative, range.start, count);
  if (typeof found === 'string') return refused(found);
  const slots = readSlots(image, range.start, position, count, found);
  if ('kind' in slots) return slots;
  const { values } = slots;
  const dropped = dropDead(values, options.inFunction);
  if (!Array.isArray(dropped)) return dropped;
  values.sort();
  dropped.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const patches = patchesOf(image, position, slots, found);
  let zeros = 0;
  while (zeros < count && values[zeros] === 0n) zeros++;
  return { kind: 'sorted', patches, slots: count, zeros, dropped, duplicates: listDuplicates(values, zeros) };
}

/** The relocations of slots, and whether those hold the values. */
type SlotRelocations = Exclude<ReturnType<typeof readSlotRelocations>, string>;

interface SlotValues {
  /** What the file holds at the slots. */
  readonly words: BigUint64Array;
  /** Where relocations hold the values, the file does, too. */
  readonly wordsInPlace: boolean;
  readonly values: BigUint64Array;
}

/** Values of the slots; refused where the file and its relocations disagree. */
function readSlots(
  image: ElfImage,
  start: Address,
  position: number,
  count: number,
  { relocations, addends }: SlotRelocations,
): SlotValues | RefusedTable {
  const word = image.wordBytes;
  const view = new ByteView(image.bytes, image.header.endian);
  const words = new BigUint64Array(count);
  let wordsInPlace = !addends;
  for (let i = 0; i < count; i++) {
    words[i] = view.word(position + i * word, word);
    if (words[i] !== 0n) wordsInPlace = true;
  }
  const values = new BigUint64Array(count);
  for (let i = 0; i < count; i++) {
    if (!addends) {
      values[i] = words[i]!;
      continue;
    }
    values[i] = BigInt.asUintN(word * 8, relocations[i]!.addend);
    if (wordsInPlace && words[i] !== values[i]) {
      const place = start + BigInt(i * word);
      return refused(
        `slot ${i} at ${hex(place)} holds ${hex(words[i]!)}, its relocation has the addend ${hex(values[i]!)}`,
      );
    }
  }

  return { words, wordsInPlace, values };
}

/**
 * Empties slots that lie in no function.
 * @returns what they held
 */
function dropDead(values: BigUint64Array, inFunction: SortOptions['inFunction']): bigint[] | RefusedTable {
  const count = values.length;
  const dropped: bigint[] = [];
  if (inFunction !== undefined) {
    let live = 0;
    for (let i = 0; i < count; i++) {
      const value = values[i]!;
      if (value === 0n) continue;
      if (inFunction(value)) live++;
      else {
        dropped.push(value);
        values[i] = 0n;
      }
    }
    // A stripped image or symbols of another one: sizes that cover nothing prove nothing.
    if (live === 0 && dropped.length > 0)
      return refused('no slot lies in any function: the functions are not those of this image');
  }
  return dropped;
}

/** What changes in the file: the slots, the addends of their relocations, or both. */
function patchesOf(
  image: ElfImage,
  position: number,
  { words, wordsInPlace, values }: SlotValues,
  { relocations, addends }: SlotRelocations,
): TablePatch[] {
  const word = image.wordBytes;
  const count = values.length;
  const view = new ByteView(image.bytes, image.header.endian);
  const patches: TablePatch[] = [];
  if (wordsInPlace) addRun(patches, view, position, words, values, word);
  if (addends) {
    for (let i = 0; i < count; i++) {
      const { addendOffset, addend } = relocations[i]!;
      if (BigInt.asUintN(word * 8, addend) === values[i]) continue;
      const after = new ByteView(new Uint8Array(word), image.header.endian);
      after.insertWord(0, values[i]!, word);
      patches.push({ offset: addendOffset, before: view.copy(addendOffset, word), after: after.bytes });
    }
  }
  patches.sort((a, b) => a.offset - b.offset);
  return patches;
}

function refused(reason: string): RefusedTable {
  return { kind: 'refused', reason };
}

/** One patch from the first slot that changes to the last. */
function addRun(
  patches: TablePatch[],
  view: ByteView,
  position: number,
  words: BigUint64Array,
  values: BigUint64Array,
  word: 4 | 8,
): void {
  let first = 0;
  let end = words.length;
  while (first < end && words[first] === values[first]) first++;
  while (end > first && words[end - 1] === values[end - 1]) end--;
  if (first === end) return;
  const after = new ByteView(new Uint8Array((end - first) * word), view.endian);
  for (let i = first; i < end; i++) after.insertWord((i - first) * word, values[i]!, word);
  const offset = position + first * word;
  patches.push({ offset, before: view.copy(offset, after.size), after: after.bytes });
}

function listDuplicates(values: BigUint64Array, start: number): SortedTable['duplicates'] {
  const duplicates: { value: bigint; slots: number }[] = [];
  for (let i = start; i < values.length;) {
    let end = i + 1;
    while (end < values.length && values[end] === values[i]) end++;
    if (end - i > 1) duplicates.push({ value: values[i]!, slots: end - i });
    i = end;
  }
  return duplicates;
}

/**
 * The dynamic relocation of each slot, by slot; none at all for a table of absolute words. A string
 * says which check of M-SORT-2 failed: type and symbol of each, and as many as slots.
 */
function readSlotRelocations(
  image: ElfImage,
  relative: number,
  start: Address,
  count: number,
): { readonly relocations: readonly SlotRelocation[]; readonly addends: boolean } | string {
  const word = image.wordBytes;
  const stop = start + BigInt(count * word);
  const relocations: (SlotRelocation | undefined)[] = new Array<SlotRelocation | undefined>(count).fill(undefined);
  const forms = new Set<RelocationTable['form']>();
  let covered = 0;
  for (const table of image.relocations) {
    if (!isDynamic(image, table)) continue;
    const { offset, type, symbol, addend, form } = table;
    for (let row = 0; row < table.count; row++) {
      const place = offset[row]!;
      if (place + BigInt(word) <= start || place >= stop) continue;
      const at = Number(place - start);
      if (at % word !== 0) return `the relocation at ${hex(place)} lies between two slots`;
      if (form !== 'relr' && type[row] !== relative) {
        return `the relocation at ${hex(place)} has type ${type[row]!}, not ${relative}`;
      }
      if (form !== 'relr' && symbol[row] !== 0) return `the relocation at ${hex(place)} has symbol ${symbol[row]!}`;
      const slot = at / word;
      if (relocations[slot] !== undefined) return `the slot at ${hex(place)} has two relocations`;
      // Elf32_Rela and Elf64_Rela: offset, info, addend, each a word.
      const addendOffset = form === 'rela' ? table.fileOffset(row) + 2 * word : -1;
      relocations[slot] = { addendOffset, addend: addend[row]! };
      forms.add(form);
      covered++;
    }
  }
  if (covered === 0) return { relocations: [], addends: false };
  if (covered !== count) return `the table has ${count} slots and ${covered} relocations`;
  if (forms.size > 1) return `the table's relocations have several forms (${[...forms].sort().join(', ')})`;
  const complete: SlotRelocation[] = [];
  for (const each of relocations) if (each !== undefined) complete.push(each);
  return { relocations: complete, addends: forms.has('rela') };
}

/** Relocations that start-up applies; those that a linker kept (--emit-relocs) are not loaded. */
function isDynamic(image: ElfImage, table: RelocationTable): boolean {
  if (table.section < 0) return true;
  const section = image.sections[table.section];
  return section !== undefined && (section.flags & elf.SHF_ALLOC) !== 0n;
}

// --------------------------------------------------------------------------------------- functions

/**
 * The functions of an image as the build's list of sizes has them (`nm -S`, types t, T and W):
 * sized symbols of executable sections, weak ones too; not indirect functions, weak objects and
 * data, and none of size 0, whose slots are lost (the trap of M-WEAK-2).
 * @param beforeBytes  how far in front of a function its slots may lie (arm64 with an ops literal:
 *                     8)
 * @param codePlace    where a symbol's code is, for ABIs whose function symbols name descriptors
 *                     (ELFv1); null where unknown
 * @returns  whether an address lies in [function - beforeBytes, function + size)
 */
export function functionCover(
  image: ElfImage,
  beforeBytes = 0n,
  codePlace?: Arch['abi']['codePlace'],
): (address: Address) => boolean {
  const { symbols } = image;
  const ranges: { start: bigint; end: bigint }[] = [];
  for (let i = 1; i < symbols.count; i++) {
    const type = symbols.info[i]! & 15;
    const size = symbols.size[i]!;
    if (size === 0n || (type !== elf.STT_FUNC && type !== elf.STT_NOTYPE)) continue;
    const place = codePlace ? codePlace(image, i) : { section: symbols.sectionIndex[i]!, value: symbols.value[i]! };
    const section = place ? image.sections[place.section] : undefined;
    if (!place || section === undefined || (section.flags & elf.SHF_EXECINSTR) === 0n) continue;
    const { value } = place;
    ranges.push({ start: value - beforeBytes, end: value + size });
  }
  ranges.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  // Merged, so that one search decides.
  const starts: bigint[] = [];
  const ends: bigint[] = [];
  for (const { start, end } of ranges) {
    const last = ends.length - 1;
    if (last >= 0 && start <= ends[last]!) {
      if (end > ends[last]!) ends[last] = end;
    } else {
      starts.push(start);
      ends.push(end);
    }
  }
  return (address) => {
    let low = 0;
    let high = starts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (starts[middle]! <= address) low = middle + 1;
      else high = middle;
    }
    return low > 0 && address < ends[low - 1]!;
  };
}
