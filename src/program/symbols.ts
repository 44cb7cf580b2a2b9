/** Symbol tables made from text: the `address type name` lines of System.map, `nm` and /proc/kallsyms. */
import { SHN_UNDEF, STB_GLOBAL, STB_LOCAL, STB_WEAK, STT_FUNC, STT_OBJECT } from '../elf/constants.js';
import type { SymbolTable } from '../elf/image.js';
import { ElftraceError } from '../errors.js';

/** Two tables as one: rows of the second behind those of the first. A name that both define is the second one's. */
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
 * Parses lines `ADDRESS TYPE NAME [MODULE]`; T, t, W, w are functions. Sizes are unknown: a function reaches to the next.
 * @throws ElftraceError 'bad-reference' for a line that is none, or when there is no symbol
 */
export function symbolTableOf(text: string, what: string): SymbolTable {
  const names: string[] = [''];
  const values: bigint[] = [0n];
  const infos: number[] = [0];
  let lineNumber = 0;
  for (const line of text.split('\n')) {
    lineNumber++;
    if (line.trim() === '') continue;
    const match = /^([0-9a-fA-F]{1,16}) ([A-Za-z?]) (\S+)/.exec(line);
    if (!match) {
      if (/^ {8,16} [UwvN] \S+/.test(line)) continue;
      throw new ElftraceError('bad-reference', `${what}: line ${lineNumber} is no 'address type name'`, {
        what,
        value: lineNumber,
      });
    }
    const type = match[2]!;
    const isFunction = 'tTwW'.includes(type);
    const binding = 'wW'.includes(type) ? STB_WEAK : type === type.toUpperCase() ? STB_GLOBAL : STB_LOCAL;
    names.push(match[3]!);
    values.push(BigInt(`0x${match[1]!}`));
    infos.push((binding << 4) | (isFunction ? STT_FUNC : STT_OBJECT));
  }
  if (names.length === 1) throw new ElftraceError('bad-reference', `${what} names no symbol`, { what });
  if (values.every((value) => value === 0n)) {
    throw new ElftraceError(
      'bad-reference',
      `${what}: all addresses are zero (kallsyms hides them from ordinary users)`,
      { what },
    );
  }
  const byName = new Map<string, number>();
  names.forEach((name, index) => {
    if (index > 0 && !byName.has(name)) byName.set(name, index);
  });
  return {
    count: names.length,
    section: -1,
    value: BigUint64Array.from(values),
    size: new BigUint64Array(names.length),
    info: Uint8Array.from(infos),
    other: new Uint8Array(names.length),
    // Any section that is not the undefined one: addresses alone place these symbols.
    sectionIndex: new Uint32Array(names.length).fill(1, 1),
    name: (index) => names[index] ?? '',
    nameStartsWith: (index, prefix) => (names[index] ?? '').startsWith(prefix),
    find: (name) => byName.get(name) ?? -1,
  };
}
