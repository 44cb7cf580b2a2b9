/**
 * The dynamic section: where a linked file keeps symbols and relocations when its section headers
 * are gone. Addresses become file positions through the program headers. gABI chapter 5 "Dynamic
 * Section" and "Hash Table"; DT_GNU_HASH as the GNU linker writes it (Ulrich Drepper, "How To Write
 * Shared Libraries", 2011, and Ali Bahrami's account of the layout).
 */
import type { ByteView } from '../bytes.js';
import { ElftraceError, hex, malformed, truncated } from '../errors.js';
import * as C from './constants.js';
import type { ElfSegment, RelocationForm } from './image.js';
import { relocationBytes } from './relocation-tables.js';
import { symbolBytes } from './symbols.js';

export interface DynamicTable {
  readonly form: Exclude<RelocationForm, 'crel'>;
  /** `DT_RELA`, …, for messages. */
  readonly what: string;
  readonly offset: number;
  readonly sizeBytes: number;
}

export interface DynamicFacts {
  readonly symbols: {
    readonly offset: number;
    readonly count: number;
    readonly strings: { readonly offset: number; readonly size: number };
  } | null;
  readonly tables: readonly DynamicTable[];
  readonly remarks: readonly string[];
}

/** The entries of a dynamic section, and what their addresses are in the file. */
class DynamicEntries {
  private readonly tags = new Map<bigint, bigint>();
  private readonly loads: readonly ElfSegment[];
  readonly wordBytes: 4 | 8;

  constructor(
    readonly view: ByteView,
    readonly is64: boolean,
    segments: readonly ElfSegment[],
    offset: number,
    size: number,
  ) {
    this.wordBytes = is64 ? 8 : 4;
    const { wordBytes, tags } = this;
    for (let at = offset; at + 2 * wordBytes <= offset + size; at += 2 * wordBytes) {
      const tag = view.word(at, wordBytes);
      if (tag === C.DT_NULL) break;
      if (!tags.has(tag)) tags.set(tag, view.word(at + wordBytes, wordBytes));
    }
    this.loads = segments.filter((segment) => segment.type === C.PT_LOAD && segment.fileSize > 0);
  }

  get(tag: bigint): bigint | undefined {
    return this.tags.get(tag);
  }

  /** File position and the bytes that follow it in its segment. */
  locate(what: string, address: bigint): { offset: number; room: number } {
    for (const load of this.loads) {
      const into = address - load.address;
      if (into >= 0n && into < BigInt(load.fileSize)) {
        return { offset: load.offset + Number(into), room: load.fileSize - Number(into) };
      }
    }
    throw new ElftraceError('bad-reference', `${what}: address ${hex(address)} lies in no segment of the file`, {
      what,
      address,
    });
  }

  range(what: string, address: bigint, bytes: bigint): number {
    const place = this.locate(what, address);
    if (bytes > BigInt(place.room)) throw truncated(what, place.offset, bytes, this.view.size);
    return place.offset;
  }

  checkEntry(what: string, tag: bigint, expected: number): void {
    const value = this.tags.get(tag);
    if (value !== undefined && value !== BigInt(expected)) {
      throw malformed(what, `${value} bytes, expected ${expected}`, { value, expected: String(expected) });
    }
  }
}

/** The relocation tables that the entries name. */
function tablesOf(entries: DynamicEntries): DynamicTable[] {
  const { is64 } = entries;
  const tables: DynamicTable[] = [];
  const table = (form: DynamicTable['form'], name: string, at: bigint | undefined, bytes: bigint | undefined): void => {
    if (at === undefined || bytes === undefined || bytes === 0n) return;
    const entry = BigInt(relocationBytes(form, is64));
    if (bytes % entry !== 0n) throw malformed(`${name}: size`, `${bytes} is no multiple of ${entry}`, { value: bytes });
    const start = entries.range(name, at, bytes);
    const end = start + Number(bytes);
    // Some linkers count the PLT's relocations in DT_RELASZ too; they are one table then.
    if (tables.some((other) => start < other.offset + other.sizeBytes && other.offset < end)) return;
    tables.push({ form, what: name, offset: start, sizeBytes: Number(bytes) });
  };
  entries.checkEntry('DT_RELAENT', C.DT_RELAENT, relocationBytes('rela', is64));
  entries.checkEntry('DT_RELENT', C.DT_RELENT, relocationBytes('rel', is64));
  entries.checkEntry('DT_RELRENT', C.DT_RELRENT, relocationBytes('relr', is64));
  table('rela', 'DT_RELA', entries.get(C.DT_RELA), entries.get(C.DT_RELASZ));
  table('rel', 'DT_REL', entries.get(C.DT_REL), entries.get(C.DT_RELSZ));
  table('relr', 'DT_RELR', entries.get(C.DT_RELR), entries.get(C.DT_RELRSZ));
  const pltForm = entries.get(C.DT_PLTREL);
  if (
    entries.get(C.DT_JMPREL) !== undefined &&
    pltForm !== undefined &&
    pltForm !== C.DT_RELA &&
    pltForm !== C.DT_REL
  ) {
    throw malformed('DT_PLTREL', `${hex(pltForm)} is neither DT_RELA nor DT_REL`, { value: pltForm });
  }
  table(pltForm === C.DT_REL ? 'rel' : 'rela', 'DT_JMPREL', entries.get(C.DT_JMPREL), entries.get(C.DT_PLTRELSZ));

  return tables;
}

/** How many dynamic symbols there are, as far as anything says so. */
function countSymbols(
  entries: DynamicEntries,
  tables: readonly DynamicTable[],
  symtab: bigint,
  strtab: bigint,
  remarks: string[],
): number {
  const { view, is64, wordBytes } = entries;
  let count = 0;
  const hash = entries.get(C.DT_HASH);
  const gnuHash = entries.get(C.DT_GNU_HASH);
  if (hash !== undefined) {
    const place = entries.locate('DT_HASH', hash);
    if (place.room < 8) throw truncated('DT_HASH', place.offset, 8, view.size);
    const buckets = view.u32(place.offset);
    count = view.u32(place.offset + 4);
    const bytes = 8 + 4 * (buckets + count);
    if (bytes > place.room) throw truncated('DT_HASH', place.offset, bytes, view.size);
  } else {
    if (gnuHash !== undefined) count = countGnuHash(view, wordBytes, entries.locate('DT_GNU_HASH', gnuHash));
    else if (strtab > symtab && strtab - symtab <= BigInt(entries.locate('DT_SYMTAB', symtab).room)) {
      count = Number((strtab - symtab) / BigInt(symbolBytes(is64)));
      remarks.push('the dynamic symbols have no hash table; counted up to DT_STRTAB');
    }
    // A GNU hash table does not cover undefined symbols, and counts none at all when nothing is
    // defined.
    for (const each of tables) count = Math.max(count, highestSymbol(view, is64, each) + 1);
  }
  return count;
}

/**
 * Reads the tables that the dynamic section at `[offset, offset + size)` names; the extents were
 * checked.
 * @throws ElftraceError 'bad-reference' for an address that no segment of the file holds,
 *   'elf-truncated' for a table that
 *         leaves its segment, 'elf-malformed' for entry sizes that no valid file has
 */
export function readDynamic(
  view: ByteView,
  is64: boolean,
  segments: readonly ElfSegment[],
  offset: number,
  size: number,
): DynamicFacts {
  const entries = new DynamicEntries(view, is64, segments, offset, size);
  const tables = tablesOf(entries);
  const remarks: string[] = [];
  const symtab = entries.get(C.DT_SYMTAB);
  const strtab = entries.get(C.DT_STRTAB);
  const strsz = entries.get(C.DT_STRSZ);
  if (symtab === undefined || strtab === undefined || strsz === undefined) return { symbols: null, tables, remarks };
  const entry = symbolBytes(is64);
  entries.checkEntry('DT_SYMENT', C.DT_SYMENT, entry);
  const strings = { offset: entries.range('DT_STRTAB', strtab, strsz), size: Number(strsz) };
  const start = entries.locate('DT_SYMTAB', symtab);
  const count = countSymbols(entries, tables, symtab, strtab, remarks);
  if (count * entry > start.room) throw truncated('DT_SYMTAB', start.offset, count * entry, view.size);
  return { symbols: { offset: start.offset, count, strings }, tables, remarks };
}

/**
 * Symbols that a GNU hash table proves: nbuckets, symoffset, bloom words and shift; bloom filter;
 * buckets; one chain word for each symbol from symoffset on, whose lowest bit ends a chain.
 */
function countGnuHash(view: ByteView, wordBytes: number, place: { offset: number; room: number }): number {
  const { offset, room } = place;
  if (room < 16) throw truncated('DT_GNU_HASH', offset, 16, view.size);
  const buckets = view.u32(offset);
  const first = view.u32(offset + 4);
  const bloomWords = view.u32(offset + 8);
  const bucketsAt = 16 + bloomWords * wordBytes;
  const chainsAt = bucketsAt + 4 * buckets;
  if (chainsAt > room) throw truncated('DT_GNU_HASH', offset, chainsAt, view.size);
  let last = 0;
  for (let i = 0; i < buckets; i++) last = Math.max(last, view.u32(offset + bucketsAt + 4 * i));
  // Nothing is hashed: symoffset is not to be trusted either, the GNU linker writes 1.
  if (last === 0) return Math.min(first, Math.floor(room / 4));
  if (last < first)
    throw malformed('DT_GNU_HASH', `bucket names symbol ${last}, the first is ${first}`, { value: last });
  for (;;) {
    const at = chainsAt + 4 * (last - first);
    if (at + 4 > room) throw truncated('DT_GNU_HASH chain', offset + at, 4, view.size);
    if ((view.u32(offset + at) & 1) !== 0) return last + 1;
    last++;
  }
}

function highestSymbol(view: ByteView, is64: boolean, table: DynamicTable): number {
  if (table.form === 'relr') return -1;
  const step = relocationBytes(table.form, is64);
  const at64 = view.littleEndian ? 12 : 8;
  let highest = -1;
  for (let at = table.offset; at < table.offset + table.sizeBytes; at += step) {
    const symbol = is64 ? view.u32(at + at64) : view.u32(at + 4) >>> 8;
    if (symbol > highest) highest = symbol;
  }
  return highest;
}
