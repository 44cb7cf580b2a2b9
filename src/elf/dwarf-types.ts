/**
 * What functions take and return, as DWARF says it (DWARF 5, sections 3.3 and 5): as much of types
 * as says where an argument is and how it reads. One pass over `.debug_info`.
 */
import type { Address } from '../units.js';
import type { UnpackLimits } from './compressed.js';
import { type DebugEntry, DebugInfo } from './dwarf.js';
import type { ElfImage } from './image.js';

/** How a value reads. */
export type ValueType =
  | { readonly kind: 'signed' | 'unsigned'; readonly bytes: number }
  | { readonly kind: 'character' | 'pointer' | 'text' }
  | { readonly kind: 'floating'; readonly bytes: number }
  /** A structure: whether it may be copied as bytes; null: that is not said. */
  | { readonly kind: 'aggregate'; readonly bytes: number; readonly isPlain: boolean | null }
  | { readonly kind: 'unknown' };

export interface Signature {
  readonly parameters: readonly ValueType[];
  /** null: nothing is returned. */
  readonly result: ValueType | null;
}

const TAG = {
  array: 0x01, class: 0x02, enumeration: 0x04, parameter: 0x05, pointer: 0x0f, reference: 0x10, structure: 0x13,
  typedef: 0x16, union: 0x17, base: 0x24, constant: 0x26, subprogram: 0x2e, volatile: 0x35, restrict: 0x37,
  unspecified: 0x3b, rvalue: 0x42, atomic: 0x47, immutable: 0x4b,
} as const; // prettier-ignore
const AT = {
  size: 0x0b,
  low: 0x11,
  origin: 0x31,
  calling: 0x36,
  encoding: 0x3e,
  specification: 0x47,
  type: 0x49,
} as const;
/** Encodings of base types: boolean, float, signed, signed char, unsigned, unsigned char, UTF. */
const ENCODING = { boolean: 2, float: 4, signed: 5, signedChar: 6, unsigned: 7, unsignedChar: 8, utf: 0x10 } as const;
const PASSED_BY_REFERENCE = 4;
const PASSED_BY_VALUE = 5;
const SAME: ReadonlySet<number> = new Set([
  TAG.typedef,
  TAG.constant,
  TAG.volatile,
  TAG.restrict,
  TAG.atomic,
  TAG.immutable,
]);
const POINTERS: ReadonlySet<number> = new Set([TAG.pointer, TAG.reference, TAG.rvalue]);
const AGGREGATES: ReadonlySet<number> = new Set([TAG.class, TAG.structure, TAG.union]);
/** Types that name each other, at most. */
const HOPS = 32;

interface Subprogram {
  readonly entry: DebugEntry;
  readonly parameters: DebugEntry[];
}

const UNKNOWN: ValueType = { kind: 'unknown' };

class Types {
  readonly entries = new Map<number, DebugEntry>();
  readonly subprograms: Subprogram[] = [];
  private readonly byPlace = new Map<number, Subprogram>();

  add(entry: DebugEntry): void {
    this.entries.set(entry.at, entry);
    if (entry.tag === TAG.subprogram) {
      const added = { entry, parameters: [] };
      this.subprograms.push(added);
      this.byPlace.set(entry.at, added);
    } else if (entry.tag === TAG.parameter) {
      const owner = this.subprograms.at(-1);
      // Others are those of blocks and of function types.
      if (owner?.entry.level === entry.level - 1) owner.parameters.push(entry);
    }
  }

  /** An attribute of an entry, or of the one that it is an instance of. */
  private inherited(entry: DebugEntry, attribute: number): number | undefined {
    let at: DebugEntry | undefined = entry;
    for (let hops = 0; at !== undefined && hops < HOPS; hops++) {
      const value = at.numbers.get(attribute);
      if (value !== undefined) return value;
      const origin: number | undefined = at.numbers.get(AT.origin) ?? at.numbers.get(AT.specification);
      at = origin === undefined ? undefined : this.entries.get(origin);
    }
    return undefined;
  }

  private resolved(at: number): DebugEntry | undefined {
    let found = this.entries.get(at);
    for (let hops = 0; found !== undefined && SAME.has(found.tag) && hops < HOPS; hops++) {
      const next = found.numbers.get(AT.type);
      found = next === undefined ? undefined : this.entries.get(next);
    }
    return found;
  }

  private typeOf(at: number | undefined): ValueType {
    const entry = at === undefined ? undefined : this.resolved(at);
    if (entry === undefined) return UNKNOWN;
    const bytes = entry.numbers.get(AT.size) ?? 0;
    if (POINTERS.has(entry.tag)) return this.pointerTo(entry.numbers.get(AT.type));
    if (entry.tag === TAG.enumeration) return { kind: 'unsigned', bytes: bytes === 0 ? 4 : bytes };
    if (AGGREGATES.has(entry.tag)) {
      const calling = entry.numbers.get(AT.calling);
      const isPlain = entry.isC || calling === PASSED_BY_VALUE ? true : calling === PASSED_BY_REFERENCE ? false : null;
      return { kind: 'aggregate', bytes, isPlain };
    }
    return entry.tag === TAG.base ? baseType(entry, bytes) : UNKNOWN;
  }

  private pointerTo(at: number | undefined): ValueType {
    const target = at === undefined ? undefined : this.resolved(at);
    const encoding = target?.tag === TAG.base ? target.numbers.get(AT.encoding) : undefined;
    const isCharacter = encoding === ENCODING.signedChar || encoding === ENCODING.unsignedChar;
    // Bytes are no text: int8_t and uint8_t are the same types under other names.
    return { kind: isCharacter && target?.name === 'char' ? 'text' : 'pointer' };
  }

  signature({ entry, parameters }: Subprogram): Signature {
    const origin = entry.numbers.get(AT.origin);
    const abstract = origin === undefined ? undefined : this.byPlace.get(origin);
    // Parameters that are not used may be missing where code is.
    const all = abstract !== undefined && abstract.parameters.length > parameters.length ? abstract : { parameters };
    const result = this.inherited(entry, AT.type);
    return {
      parameters: all.parameters.map((each) => this.typeOf(this.inherited(each, AT.type))),
      result: result === undefined ? null : this.typeOf(result),
    };
  }
}

function baseType({ numbers, name }: DebugEntry, bytes: number): ValueType {
  switch (numbers.get(AT.encoding)) {
    case ENCODING.float:
      // Others of that size are passed in other ways than `long double`: __float128 on x86.
      return bytes <= 8 || name === 'long double' ? { kind: 'floating', bytes } : UNKNOWN;
    case ENCODING.signed:
      return bytes <= 8 ? { kind: 'signed', bytes } : UNKNOWN;
    case ENCODING.unsigned:
    case ENCODING.boolean:
      return bytes <= 8 ? { kind: 'unsigned', bytes } : UNKNOWN;
    case ENCODING.signedChar:
    case ENCODING.unsignedChar:
      return { kind: 'character' };
    case ENCODING.utf:
      return { kind: 'unsigned', bytes };
    default:
      return UNKNOWN;
  }
}

/** What the debugging information of a file says of its functions. */
export class Signatures {
  /** Where code begins behind nops of sites, ascending. */
  private readonly starts: readonly number[];

  private constructor(private readonly byStart: ReadonlyMap<number, Signature>) {
    this.starts = [...byStart.keys()].sort((a, b) => a - b);
  }

  /**
   * @returns null where the file has no `.debug_info`
   * @throws ElftraceError 'elf-malformed', 'elf-truncated', 'limit-exceeded', 'timeout'
   */
  static async read(image: ElfImage, limits: UnpackLimits = {}): Promise<Signatures | null> {
    const info = await DebugInfo.read(image, limits);
    if (info === null) return null;
    const types = new Types();
    info.entries(new Set(Object.values(TAG)), (entry) => {
      types.add(entry);
    });
    const found = new Map<number, Signature>();
    for (const each of types.subprograms) {
      const low = each.entry.numbers.get(AT.low);
      if (low !== undefined && low > 0) found.set(low, types.signature(each));
    }
    return new Signatures(found);
  }

  /** Of the function with this code, [start, end): compilers begin some behind nops. */
  of(start: Address, end: Address): Signature | null {
    const { starts } = this;
    let [from, to] = [0, starts.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (starts[middle]! < Number(start)) from = middle + 1;
      else to = middle;
    }
    const found = starts[from];
    if (found === undefined || (found > Number(start) && found >= Number(end))) return null;
    return this.byStart.get(found)!;
  }
}
