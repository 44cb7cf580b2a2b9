/**
 * Calls of the profiling entry in a relocatable file, by their relocations: those that a compiler
 * made no `__mcount_loc` for. Owns which calls count. Does not know what a call looks like (the
 * caller's `isCall`, made from the machine's site shapes), and does not read tables;
 * `mcount-slots.ts` makes one.
 *
 *   relocation of the call          table slot                 relocation of the slot
 *   .text+0x15  PLT32 __fentry__    __mcount_loc+0  00 … 00    R_X86_64_64  .text + 0x14
 *   (r_offset)  adjusted by the type's delta: the first byte of the call instruction
 *
 * Rules M-REC-2 to M-REC-5 of the specification.
 */
import type { Arch } from '../machine/arch.js';
import * as elf from '../elf/constants.js';
import { halves, numberAt } from '../elf/lookup.js';
import type { ElfImage, ElfSection, RelocationTable, SymbolTable } from '../elf/image.js';
import { ElftraceError, hex, malformed } from '../errors.js';

/** What the producer needs of a machine: a part of `Arch`. */
export interface McountMachine {
  readonly mcount: Pick<Arch['mcount'], 'symbols' | 'callRelocations'>;
  readonly relocationRoles: Pick<Arch['relocationRoles'], 'none' | 'word' | 'companions'>;
  readonly relocations: ReadonlyMap<
    number,
    { readonly name: string; readonly rule: NonNullable<ReturnType<Arch['relocations']['get']>>['rule'] }
  >;
}

/**
 * True when the instruction at an offset of a section is a call, with all its bytes inside the
 * section.
 */
export type CallTest = (section: ElfSection, offset: number) => boolean;

/**
 * Text sections whose functions are traced; every name that begins with `.text` is, too (M-REC-2).
 */
const tracedSections: ReadonlySet<string> = new Set([
  '.init.text',
  '.ref.text',
  '.sched.text',
  '.spinlock.text',
  '.irqentry.text',
  '.softirqentry.text',
  '.kprobes.text',
  '.cpuidle.text',
]);

/** M-REC-2: are the functions of a section of this name traced? */
export function isTracedSection(name: string): boolean {
  return name.startsWith('.text') || tracedSections.has(name);
}

/**
 * M-REC-3: does a symbol of this name count as the profiling entry? One leading dot (ELFv1 code
 * symbols) is ignored.
 */
export function isMcountSymbol(name: string, symbols: readonly string[]): boolean {
  return symbols.includes(name) || (name.startsWith('.') && symbols.includes(name.slice(1)));
}

/** A relocation that names the profiling entry. */
export interface McountCall {
  readonly section: ElfSection;
  /** Offset in `section` of the call's first byte; of the relocation where it is no call. */
  readonly offset: number;
  /** The relocation. */
  readonly table: RelocationTable;
  readonly row: number;
}

/** Calls by the relocations of one table, in the order of its rows; columns, for there are many. */
export interface CallList {
  readonly section: ElfSection;
  readonly table: RelocationTable;
  readonly count: number;
  /** Of each call's first byte in `section`. */
  readonly offset: Float64Array;
  readonly row: Uint32Array;
}

export interface McountCalls {
  /** In relocation-section order, none empty. */
  readonly lists: readonly CallList[];
  /** The same as objects, made when they are asked for. */
  readonly calls: readonly McountCall[];
  /**
   * Relocations that name the profiling entry and carry no call: its address taken, jumps (tail
   * calls), calls through a register, and call relocations whose bytes are no call.
   */
  readonly others: readonly McountCall[];
}

/**
 * Lists the calls of the profiling entry in all executable sections of a relocatable file, traced
 * or not. A table that the file may have is not looked at, so the two can be compared.
 * @throws ElftraceError 'unsupported-form' for a linked file, 'elf-malformed' for a relocation
 *   outside its section Source: M-REC-2..5
 */
export function findMcountCalls(image: ElfImage, machine: McountMachine, isCall: CallTest): McountCalls {
  if (image.header.type !== elf.ET_REL) {
    throw new ElftraceError('unsupported-form', 'calls can be found by their relocations in relocatable files only', {
      what: 'e_type',
      value: image.header.type,
    });
  }
  const lists: CallList[] = [];
  const others: McountCall[] = [];
  const named = new Map<SymbolTable, Uint8Array>();
  for (const table of image.relocations) {
    const section = table.target > 0 ? image.sections[table.target] : undefined;
    const { symbols } = table;
    if (section === undefined || symbols === null) continue;
    if (section.type !== elf.SHT_PROGBITS || (section.flags & elf.SHF_EXECINSTR) === 0n) continue;
    let known = named.get(symbols);
    if (known === undefined) named.set(symbols, (known = new Uint8Array(symbols.count)));
    const rows = rowsOfEntry(table, symbols, known, machine);
    if (rows.length > 0) lists.push(listCalls({ section, table, rows }, machine, isCall, others));
  }
  const found = lists.filter(({ count }) => count > 0);
  return {
    lists: found,
    get calls() {
      return found.flatMap(callsOf);
    },
    others,
  };
}

export function callsOf({ section, table, count, offset, row }: CallList): McountCall[] {
  return Array.from({ length: count }, (_, i) => ({ section, offset: offset[i]!, table, row: row[i]! }));
}

/**
 * Rows of a table that name the profiling entry and say something. Compared by name, symbol by
 * symbol: two symbols of such names in one section are both found (the trap of M-REC-3).
 * @param known  of each symbol: 1 where it is the entry, 2 where not, 0 where that is to be told
 */
function rowsOfEntry(
  { count, type, symbol }: RelocationTable,
  symbols: SymbolTable,
  known: Uint8Array,
  { mcount, relocationRoles }: McountMachine,
): Uint32Array {
  const { none, companions } = relocationRoles;
  const rows = new Uint32Array(count);
  let found = 0;
  for (let row = 0; row < count; row++) {
    const index = symbol[row]!;
    if (known[index] === 0) known[index] = index !== 0 && isMcountSymbol(symbols.name(index), mcount.symbols) ? 1 : 2;
    if (known[index] === 2 || type[row] === none || companions.includes(type[row]!)) continue;
    rows[found++] = row;
  }
  return rows.subarray(0, found);
}

interface EntryRows {
  readonly section: ElfSection;
  readonly table: RelocationTable;
  readonly rows: Uint32Array;
}

/** The calls among rows that name the profiling entry; what is none goes to `others`. */
function listCalls(
  { section, table, rows }: EntryRows,
  { mcount }: McountMachine,
  isCall: CallTest,
  others: McountCall[],
): CallList {
  const { type, offset } = table;
  const places = halves(offset);
  const offsets = new Float64Array(rows.length);
  let count = 0;
  for (const row of rows) {
    const place = numberAt(places, row);
    if (place >= section.size) {
      throw malformed(
        `relocation ${row} of ${section.name}`,
        `its offset ${hex(offset[row]!)} is outside the section`,
        {
          section: section.name,
          offset: offset[row]!,
        },
      );
    }
    const delta = mcount.callRelocations.get(type[row]!);
    const at = place + (delta ?? 0);
    if (delta !== undefined && at >= 0 && isCall(section, at)) {
      // Rows in front are read already.
      rows[count] = row;
      offsets[count++] = at;
    } else others.push({ section, offset: place, table, row });
  }
  return { section, table, count, offset: offsets.subarray(0, count), row: rows.subarray(0, count) };
}
