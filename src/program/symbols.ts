/**
 * Symbol tables made from text: the `address type name` lines of System.map, `nm` and
 * /proc/kallsyms.
 */
import {
  ET_REL,
  SHN_ABS_RESOLVED,
  SHN_LORESERVE_RESOLVED,
  SHN_UNDEF,
  STB_GLOBAL,
  STB_LOCAL,
  STB_WEAK,
  STT_FUNC,
  STT_OBJECT,
  STT_TLS,
} from '../elf/constants.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { ElftraceError } from '../errors.js';

/**
 * Two tables as one: rows of the second behind those of the first. A name that both define is the
 * second one's.
 */
export function joinSymbols(first: SymbolTable, second: SymbolTable): SymbolTable {
  const behind = Math.max(0, second.count - 1);
  const count = first.count + behind;
  const join = <T extends { set(from: T, at: number): void; subarray(from: number, to: number): T }>(
    into: T,
    column: (table: SymbolTable) => T,
  ): T => {
    into.set(column(first).subarray(0, first.count), 0);
    into.set(column(second).subarray(1, second.count), first.count);
    return into;
  };
  return {
    count,
    section: first.section,
    value: join<BigUint64Array>(new BigUint64Array(count), ({ value }) => value),
    size: join<BigUint64Array>(new BigUint64Array(count), ({ size }) => size),
    info: join<Uint8Array>(new Uint8Array(count), ({ info }) => info),
    other: join<Uint8Array>(new Uint8Array(count), ({ other }) => other),
    sectionIndex: join<Uint32Array>(new Uint32Array(count), ({ sectionIndex }) => sectionIndex),
    name: (index) => (index < first.count ? first.name(index) : second.name(index - first.count + 1)),
    nameStartsWith: (index, prefix) =>
      index < first.count
        ? first.nameStartsWith(index, prefix)
        : second.nameStartsWith(index - first.count + 1, prefix),
    find(name) {
      const other = second.find(name);
      if (other > 0 && second.sectionIndex[other] !== SHN_UNDEF) return other + first.count - 1;
      return first.find(name);
    },
  };
}

/**
 * Symbols that another file gave, placed in the sections of this one by their addresses: text has
 * no sections, and those of another ELF file may have other numbers. What a descriptor section
 * holds (`.opd`) are functions, which `nm` prints as data.
 */
export function placeSymbols(image: ElfImage, table: SymbolTable): SymbolTable {
  if (image.header.type === ET_REL || image.sections.length === 0) return table;
  const sectionIndex = table.sectionIndex.slice();
  const info = table.info.slice();
  for (let i = 1; i < table.count; i++) {
    const given = sectionIndex[i]!;
    if (given === SHN_UNDEF || given >= SHN_LORESERVE_RESOLVED || (info[i]! & 15) === STT_TLS) continue;
    const home = image.sectionAt(table.value[i]!);
    sectionIndex[i] = home?.index ?? SHN_ABS_RESOLVED;
    if (home?.name === '.opd' && (info[i]! & 15) === STT_OBJECT) info[i] = (info[i]! & 0xf0) | STT_FUNC;
  }
  return {
    count: table.count,
    section: table.section,
    value: table.value,
    size: table.size,
    info,
    other: table.other,
    sectionIndex,
    name: (index) => table.name(index),
    nameStartsWith: (index, prefix) => table.nameStartsWith(index, prefix),
    find: (name) => table.find(name),
  };
}

/** Types of `nm` whose symbols are functions: text, weak, indirect. */
const functionTypes = 'tTwWi';

/**
 * True for what marks places in code and names no function: mapping symbols, labels of the
 * assembler.
 */
const isMarker = (name: string): boolean => /^(?:\$[a-z]|\.L)/.test(name);

/** Symbols of a listing, by columns; the first is the null symbol. */
interface ListedSymbols {
  readonly names: string[];
  readonly values: bigint[];
  readonly sizes: bigint[];
  readonly infos: number[];
  functions: number;
}

function readLines(text: string, what: string): ListedSymbols {
  const found: ListedSymbols = { names: [''], values: [0n], sizes: [0n], infos: [0], functions: 0 };
  let lineNumber = 0;
  for (const line of text.split('\n')) {
    lineNumber++;
    if (line.trim() === '') continue;
    const match = /^([0-9a-fA-F]{1,16}) (?:([0-9a-fA-F]{8,16}) )?([A-Za-z?-]) (\S.*?)(?:\t\[.*\])?\s*$/.exec(line);
    if (!match) {
      if (/^ {8,16} [UwvN] \S+/.test(line)) continue;
      throw new ElftraceError('bad-reference', `${what}: line ${lineNumber} is no 'address type name'`, {
        what,
        value: lineNumber,
      });
    }
    const type = match[3]!;
    const name = match[4]!;
    if (isMarker(name)) continue;
    const isFunction = functionTypes.includes(type);
    const binding = 'wW'.includes(type) ? STB_WEAK : type === type.toUpperCase() ? STB_GLOBAL : STB_LOCAL;
    found.names.push(name);
    found.values.push(BigInt(`0x${match[1]!}`));
    found.sizes.push(isFunction && match[2] !== undefined ? BigInt(`0x${match[2]}`) : 0n);
    found.infos.push((binding << 4) | (isFunction ? STT_FUNC : STT_OBJECT));
    if (isFunction) found.functions++;
  }
  return found;
}

/**
 * What lists that are none look like: stubs, hidden addresses, data alone.
 * @throws ElftraceError 'bad-reference'
 */
function checkListed({ names, values, functions }: ListedSymbols, text: string, what: string): void {
  if (names.length === 1) throw new ElftraceError('bad-reference', `${what} names no symbol`, { what });
  if (/^[fF]+ \w The real System\.map is in /m.test(text)) {
    const words = names[1]!;
    throw new ElftraceError('bad-reference', `${what} is a stub: ${words.charAt(0).toLowerCase()}${words.slice(1)}`, {
      what,
    });
  }
  if (values.every((value) => value === 0n)) {
    throw new ElftraceError(
      'bad-reference',
      `${what}: all addresses are zero (kallsyms hides them from ordinary users)`,
      { what },
    );
  }
  // Where functions have descriptors (ELFv1), those are printed as data.
  if (functions === 0 && !/^[0-9a-f]+ (?:[0-9a-f]+ )?[dD] /m.test(text)) {
    throw new ElftraceError('bad-reference', `${what} names no function`, { what });
  }
}

/**
 * Parses lines `ADDRESS [SIZE] TYPE NAME [MODULE]`; T, t, W, w, i are functions. Without a size a
 * function reaches to the next.
 * @throws ElftraceError 'bad-reference' for a line that is none, or when no function is named
 */
export function symbolTableOf(text: string, what: string): SymbolTable {
  const found = readLines(text, what);
  checkListed(found, text, what);
  const { names, values, sizes, infos } = found;
  const byName = new Map<string, number>();
  names.forEach((name, index) => {
    if (index > 0 && !byName.has(name)) byName.set(name, index);
  });
  return {
    count: names.length,
    section: -1,
    value: BigUint64Array.from(values),
    size: BigUint64Array.from(sizes),
    info: Uint8Array.from(infos),
    other: new Uint8Array(names.length),
    // Any section that is not the undefined one: addresses alone place these symbols, see
    // placeSymbols.
    sectionIndex: new Uint32Array(names.length).fill(1, 1),
    name: (index) => names[index] ?? '',
    nameStartsWith: (index, prefix) => (names[index] ?? '').startsWith(prefix),
    find: (name) => byName.get(name) ?? -1,
  };
}
