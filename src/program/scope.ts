/**
 * Symbols across parts: who defines a name, what a relocation's symbol stands for, where the code
 * of a function is. Owns the reports of undefined and duplicate symbols; applies nothing.
 */
import type { Arch } from '../machine/arch.js';
import type { CallTarget, ModuleLoader } from '../machine/loader.js';
import * as elf from '../elf/constants.js';
import { ElftraceError, malformed } from '../errors.js';
import type { Address, SectionIndex, SymbolIndex } from '../units.js';
import { exportsOf, type ObjectPart } from './object-part.js';
import { type Part, sectionAt, wordAt } from './part.js';

/** A symbol with an address. */
export interface Definition {
  readonly name: string;
  readonly part: Part;
  readonly value: Address;
  readonly other: number;
  readonly weak: boolean;
}

/**
 * What the symbol of a relocation is: a place (perhaps the code of a function, not its descriptor),
 * or nothing and weak.
 */
export type Resolved =
  | {
      readonly kind: 'defined';
      readonly name: string;
      readonly part: Part;
      readonly value: Address;
      readonly other: number;
      readonly size: bigint;
      /** The symbol names a section: the addend says which function of it is meant. */
      readonly isSection: boolean;
    }
  | { readonly kind: 'code'; readonly name: string; readonly of: Definition }
  | { readonly kind: 'absent' };

/** Who exports a name: the part and, while it is being laid out, the number of its symbol. */
interface Export {
  readonly part: Part;
  readonly symbol: SymbolIndex;
  readonly weak: boolean;
}

interface Missing {
  readonly name: string;
  readonly parts: Set<string>;
}

/** Up to this many names stand in a message; the rest is counted. */
const listed = 50;

function list(names: readonly string[]): string {
  const shown = names.slice(0, listed).join(', ');
  return names.length > listed ? `${shown} and ${names.length - listed} more` : shown;
}

/** Parts of one address space. `fresh` are being laid out; the others are in the image already. */
export class Scope {
  private readonly exports = new Map<string, Export>();
  private readonly endian;

  /**
   * @throws ElftraceError 'duplicate-symbols' naming all of them
   */
  constructor(
    readonly arch: Arch,
    readonly loader: ModuleLoader,
    readonly parts: readonly Part[],
    private readonly fresh: ReadonlyMap<Part, ObjectPart>,
  ) {
    this.endian = arch.target.dataEndian;
    const duplicates: string[] = [];
    for (const part of parts) {
      const object = fresh.get(part);
      if (object !== undefined) {
        for (const [name, symbol] of exportsOf(object)) {
          this.add(name, { part, symbol, weak: object.object.symbols.info[symbol]! >> 4 === elf.STB_WEAK }, duplicates);
        }
      } else {
        part.symbols.forEach((symbol, i) => {
          if (symbol.info >> 4 === elf.STB_LOCAL || symbol.home === 'undefined') return;
          this.add(symbol.name, { part, symbol: i, weak: symbol.info >> 4 === elf.STB_WEAK }, duplicates);
        });
      }
    }
    if (duplicates.length > 0) {
      throw new ElftraceError(
        'duplicate-symbols',
        `${duplicates.length} symbols are defined more than once: ${list(duplicates)}`,
        { value: duplicates.length, symbol: duplicates[0]! },
      );
    }
  }

  private add(name: string, found: Export, duplicates: string[]): void {
    const known = this.exports.get(name);
    if (known === undefined || (known.weak && !found.weak)) this.exports.set(name, found);
    else if (!known.weak && !found.weak && known.part !== found.part) {
      duplicates.push(`${name} (${known.part.name}, ${found.part.name})`);
    }
  }

  /** The part that defines a name for others, dot symbols of code included. */
  exporter(name: string): Part | undefined {
    const own = this.exports.get(name);
    if (own !== undefined) return own.part;
    const code = this.loader.codeOf(name);
    return code === null ? undefined : this.exports.get(code)?.part;
  }

  /** A name's definition for other parts, or undefined. Addresses must be known. */
  find(name: string): Definition | undefined {
    const found = this.exports.get(name);
    if (found === undefined) return undefined;
    const object = this.fresh.get(found.part);
    if (object === undefined) {
      const symbol = found.part.symbols[found.symbol]!;
      return { name, part: found.part, value: symbol.value, other: symbol.other, weak: found.weak };
    }
    return {
      name,
      part: found.part,
      value: this.ownValue(object, found.symbol) ?? 0n,
      other: object.object.symbols.other[found.symbol]!,
      weak: found.weak,
    };
  }

  /** Address of the code of a function that a part exports, before descriptors are relocated. */
  codeAddress(name: string): Address | null {
    const found = this.exports.get(name);
    const object = found && this.fresh.get(found.part);
    if (found === undefined) return null;
    if (object !== undefined) {
      const place = this.arch.abi.codePlace(object.object, found.symbol);
      const section = place === null ? undefined : object.sectionOf[place.section];
      if (place !== null && section !== undefined) return section.address + place.value;
    }
    const definition = this.find(name);
    if (definition === undefined) return null;
    return this.followed(definition.part, definition.value)?.code ?? definition.value;
  }

  /** Address of a symbol that its own object defines; null when its section is not loaded. */
  private ownValue(part: ObjectPart, symbol: SymbolIndex): Address | null {
    const { symbols } = part.object;
    const index = symbols.sectionIndex[symbol]!;
    const value = symbols.value[symbol]!;
    if (index === elf.SHN_ABS_RESOLVED) return value;
    const common = part.commonOffset.get(symbol);
    if (common !== undefined) return (part.commons?.address ?? 0n) + common;
    const section = part.sectionOf[index];
    return section === undefined ? null : section.address + value;
  }

  /**
   * What symbol number `symbol` of an object is. Its own definition comes first, then the exports
   * of all parts.
   * @throws ElftraceError 'bad-reference' for a symbol in a section that is not loaded
   */
  resolve(part: ObjectPart, symbol: SymbolIndex): Resolved {
    const { symbols } = part.object;
    if (symbol === 0) {
      return { kind: 'defined', name: '', part, value: 0n, other: 0, size: 0n, isSection: false };
    }
    const name = symbols.name(symbol);
    if (symbols.sectionIndex[symbol] !== elf.SHN_UNDEF) {
      const value = this.ownValue(part, symbol);
      if (value === null) {
        const section = part.object.sections[symbols.sectionIndex[symbol]!]?.name ?? '';
        throw new ElftraceError(
          'bad-reference',
          `${part.name}: a relocation names ${name || section}, which is in a section that is not loaded (${section})`,
          { section },
        );
      }
      const isSection = (symbols.info[symbol]! & 15) === elf.STT_SECTION;
      const label = name || (part.object.sections[symbols.sectionIndex[symbol]!]?.name ?? '');
      return {
        kind: 'defined',
        name: label,
        part,
        value,
        other: symbols.other[symbol]!,
        size: symbols.size[symbol]!,
        isSection,
      };
    }
    if (name === this.loader.tocSymbol && part.toc !== null) {
      return { kind: 'defined', name, part, value: part.toc, other: 0, size: 0n, isSection: false };
    }
    const found = this.find(name);
    if (found !== undefined) {
      const { value, other } = found;
      return { kind: 'defined', name, part: found.part, value, other, size: 0n, isSection: false };
    }
    const code = this.loader.codeOf(name);
    const of = code === null ? undefined : this.find(code);
    return of === undefined ? { kind: 'absent' } : { kind: 'code', name, of };
  }

  /** True when a relocation against an undefined symbol may be left unresolved: it is weak. */
  private mayBeAbsent(part: ObjectPart, symbol: SymbolIndex): boolean {
    return part.object.symbols.info[symbol]! >> 4 === elf.STB_WEAK;
  }

  /**
   * Checks that everything that the relocations of the fresh parts name is defined, and notes which
   * part uses which.
   * @throws ElftraceError 'undefined-symbols' naming all of them with the parts that want them
   */
  checkDefined(): void {
    const missing = new Map<string, Missing>();
    for (const object of this.fresh.values()) {
      const { symbols } = object.object;
      const seen = new Set<number>();
      for (const { table, row } of relocationsOf(object)) {
        const symbol = table.symbol[row]!;
        if (symbol === 0 || seen.has(symbol) || symbols.sectionIndex[symbol] !== elf.SHN_UNDEF) continue;
        if (this.arch.relocations.get(table.type[row]!)?.rule === 'none') continue;
        seen.add(symbol);
        const name = symbols.name(symbol);
        if (name === this.loader.tocSymbol) continue;
        const from = this.exporter(name);
        if (from !== undefined) {
          if (from !== object) object.uses.add(from.name);
        } else if (!this.mayBeAbsent(object, symbol)) {
          const known = missing.get(name) ?? { name, parts: new Set() };
          known.parts.add(object.name);
          missing.set(name, known);
        }
      }
    }
    if (missing.size === 0) return;
    const names = [...missing.values()].map(({ name, parts }) => `${name} (${[...parts].join(', ')})`);
    throw new ElftraceError('undefined-symbols', `${names.length} symbols are not defined: ${list(names)}`, {
      value: names.length,
      symbol: [...missing.keys()][0]!,
    });
  }

  /**
   * The function that a call of `resolved` + addend reaches, descriptors followed.
   * @throws ElftraceError 'elf-malformed' for a descriptor that cannot be read
   */
  callTarget(resolved: Exclude<Resolved, { kind: 'absent' }>, addend: bigint): CallTarget {
    if (resolved.kind === 'code') {
      const { of } = resolved;
      const { code, toc } = this.followed(of.part, of.value) ?? { code: of.value, toc: of.part.toc };
      return this.target(resolved.name, of.part, code + addend, of.other, toc, addend);
    }
    const { part, name, value, other, isSection } = resolved;
    // A section symbol of descriptors: the addend picks one. Behind a named function it is a
    // distance in its code.
    const followed = this.followed(part, isSection ? value + addend : value);
    if (followed !== null) {
      const rest = isSection ? 0n : addend;
      return this.target(name, part, followed.code + rest, other, followed.toc, rest);
    }
    return this.target(name, part, value + addend, other, part.toc, addend);
  }

  private target(
    name: string,
    _part: Part,
    code: Address,
    other: number,
    toc: Address | null,
    addend: bigint,
  ): CallTarget {
    const plain = this.loader.codeOf(name) ?? name;
    return {
      name,
      code,
      // An addend leads into the function: both of its entries are behind it.
      localEntry: addend === 0n ? this.arch.abi.localEntryOffset(other) : 0,
      other: addend === 0n ? other : 0,
      toc,
      isTracer: this.arch.mcount.symbols.includes(plain) || this.loader.entrySymbols.includes(plain),
    };
  }

  /** Code and TOC of the descriptor at an address, or null when it is no descriptor. */
  private followed(part: Part, address: Address): { readonly code: Address; readonly toc: Address } | null {
    const { descriptors } = this.loader;
    if (descriptors === null || sectionAt(part, address)?.name !== descriptors) return null;
    const word = this.arch.target.wordBytes;
    const code = wordAt(part, address, word, this.endian);
    const toc = wordAt(part, address + BigInt(word), word, this.endian);
    if (code === null || toc === null) {
      throw malformed(`${part.name}: ${descriptors}`, 'a call names an incomplete descriptor', { address });
    }
    return { code, toc };
  }
}

/** Relocations of the loaded sections of an object, table by table. */
export function* relocationsOf(
  part: ObjectPart,
): Generator<{ readonly section: SectionIndex; readonly table: ElfRelocations; readonly row: number }> {
  for (const section of part.object.sections) {
    if (part.sectionOf[section.index] === undefined) continue;
    for (const table of part.object.relocationsOf(section)) {
      for (let row = 0; row < table.count; row++) yield { section: section.index, table, row };
    }
  }
}

type ElfRelocations = ReturnType<ObjectPart['object']['relocationsOf']>[number];
