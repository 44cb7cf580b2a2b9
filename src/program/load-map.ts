/**
 * The load map of an image that `load` made: which part (core, runtime, module) owns which
 * sections, symbols, addresses, stubs and TOC. Owns the note's format, its reading and its writing;
 * decides nothing about a layout.
 *
 * The note: section `.note.elftrace.load` (not allocated), owner `elftrace`, type 2, descriptor =
 * JSON in UTF-8 with keys in the order of the interface, addresses and bytes in hexadecimal. The
 * record that `patch` keeps is another note (type 1, `.note.elftrace`).
 */
import { ByteView } from '../bytes.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address, Endian } from '../units.js';

export const loadMapSection = '.note.elftrace.load';
export const loadMapOwner = 'elftrace';
const loadMapNoteType = 2;
/** Version of the note; a reader refuses others. */
const loadMapSchema = 1;

export type LoadBase = 'user' | 'kernel';
export type PartKind = 'core' | 'runtime' | 'module';

/** Positions [first, first + count) of a table. */
export interface TableRange {
  readonly first: number;
  readonly count: number;
}

export interface AddressRange {
  readonly start: Address;
  /** First address behind it. */
  readonly end: Address;
}

/**
 * An area of call stubs: `count` entries of `sizeBytes` each were reserved, unused ones are zero.
 */
export interface StubArea {
  readonly address: Address;
  readonly sizeBytes: number;
  readonly count: number;
}

/** A stub that leads to an entry of the tracer (P-STUB-3). */
export interface EntryStub {
  readonly symbol: string;
  readonly address: Address;
}

export interface LoadedPart {
  readonly kind: PartKind;
  readonly name: string;
  /** SHA-256 of the file that it came from, hexadecimal. */
  readonly sha256: string;
  /** The TOC pointer of its code; null on targets without one. */
  readonly toc: Address | null;
  /** Positions in the image's section header table. */
  readonly sections: TableRange;
  /**
   * Positions in `.symtab`: ELF wants all local symbols of a table in front of the others, so a
   * part has two runs.
   */
  readonly symbols: { readonly locals: TableRange; readonly globals: TableRange };
  /** Everything the part occupies, stubs included; ascending, not overlapping. */
  readonly ranges: readonly AddressRange[];
  readonly stubs: readonly StubArea[];
  /** Several of one symbol where one does not reach all code of the part. */
  readonly entryStubs: readonly EntryStub[];
  /** Names of parts whose symbols it uses, without itself; they cannot be unloaded before it. */
  readonly uses: readonly string[];
}

export interface LoadMap {
  readonly schema: 1;
  readonly tool: string;
  readonly target: string;
  readonly base: LoadBase;
  /** Options that decide bytes: of the machine (`ppc-stubs`), `core-base`, `module-base`. */
  readonly options: Readonly<Record<string, string>>;
  /** Registers that `run` sets before the program starts, by name (a kernel's per-CPU pointer). */
  readonly registers: Readonly<Record<string, Address>>;
  /**
   * A linked core: what it was, so that it can be cut out again. null for a core that was laid out
   * by `load`.
   */
  readonly original: {
    readonly sha256: string;
    readonly size: number;
    readonly headers: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  } | null;
  /** Core first, then runtime, then modules in the order of loading. */
  readonly parts: readonly LoadedPart[];
}

const maps = new WeakMap<ElfImage, LoadMap | null>();

/**
 * The load map of an image, or null when the file is no image of `load`.
 * @throws ElftraceError 'bad-record' when the note is there and cannot be understood
 */
export function readLoadMap(image: ElfImage): LoadMap | null {
  const known = maps.get(image);
  if (known !== undefined) return known;
  const note = image.section(loadMapSection)
    ? image.notes().find((each) => each.owner === loadMapOwner && each.type === loadMapNoteType)
    : undefined;
  const map = note === undefined ? null : decodeLoadMap(note.descriptor, note.offset);
  if (map !== null) checkAgainst(image, map);
  maps.set(image, map);
  return map;
}

/** The part that occupies `address`, or undefined. */
export function partAt(map: LoadMap, address: Address): LoadedPart | undefined {
  return map.parts.find((part) => part.ranges.some(({ start, end }) => address >= start && address < end));
}

// ------------------------------------------------------------------------------------------ format

const hexOf = (bytes: Uint8Array): string => {
  let text = '';
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0');
  return text;
};

const rangeJson = ({ start, end }: AddressRange): unknown => [hex(start), hex(end)];
const tableJson = ({ first, count }: TableRange): unknown => [first, count];

/** The note section's bytes; the same map gives the same bytes. */
export function encodeLoadMap(map: LoadMap, endian: Endian): Uint8Array {
  const text = JSON.stringify({
    schema: map.schema,
    tool: map.tool,
    target: map.target,
    base: map.base,
    options: sorted(map.options),
    registers: Object.fromEntries(Object.entries(sorted(map.registers)).map(([name, value]) => [name, hex(value)])),
    original:
      map.original === null
        ? null
        : {
            sha256: map.original.sha256,
            size: map.original.size,
            headers: map.original.headers.map(({ offset, bytes }) => ({ offset, bytes: hexOf(bytes) })),
          },
    parts: map.parts.map((part) => ({
      kind: part.kind,
      name: part.name,
      sha256: part.sha256,
      toc: part.toc === null ? null : hex(part.toc),
      sections: tableJson(part.sections),
      locals: tableJson(part.symbols.locals),
      globals: tableJson(part.symbols.globals),
      ranges: part.ranges.map(rangeJson),
      stubs: part.stubs.map(({ address, sizeBytes, count }) => ({ address: hex(address), sizeBytes, count })),
      entryStubs: part.entryStubs.map(({ symbol, address }) => ({ symbol, address: hex(address) })),
      uses: part.uses,
    })),
  });
  const descriptor = new TextEncoder().encode(text);
  const name = new TextEncoder().encode(`${loadMapOwner}\0`);
  const nameSize = (name.length + 3) & ~3;
  const bytes = new Uint8Array(12 + nameSize + ((descriptor.length + 3) & ~3));
  const view = new ByteView(bytes, endian, 'load map');
  view.insertU32(0, name.length);
  view.insertU32(4, descriptor.length);
  view.insertU32(8, loadMapNoteType);
  bytes.set(name, 12);
  bytes.set(descriptor, 12 + nameSize);
  return bytes;
}

function sorted<T>(record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}

function damaged(cause: string, fileOffset: number): ElftraceError {
  return new ElftraceError('bad-record', `load map (${loadMapSection}): ${cause}`, {
    section: loadMapSection,
    fileOffset,
  });
}

/** Reads JSON values of expected types; whatever is different is a damaged map. */
class Reader {
  constructor(
    private readonly value: unknown,
    private readonly what: string,
    private readonly at: number,
  ) {}

  fail(expected: string): ElftraceError {
    return damaged(`${this.what} is not ${expected}`, this.at);
  }
  get isNull(): boolean {
    return this.value === null;
  }
  field(name: string): Reader {
    const { value } = this;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw this.fail('an object');
    const found = Object.entries(value).find(([key]) => key === name);
    if (found === undefined) throw damaged(`${this.what} has no '${name}'`, this.at);
    return new Reader(found[1], `${this.what}.${name}`, this.at);
  }
  list(): Reader[] {
    if (!Array.isArray(this.value)) throw this.fail('a list');
    return this.value.map((each: unknown, i) => new Reader(each, `${this.what}[${i}]`, this.at));
  }
  entries(): [string, Reader][] {
    const { value } = this;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw this.fail('an object');
    return Object.entries(value).map(([key, each]) => [key, new Reader(each, `${this.what}.${key}`, this.at)]);
  }
  text(): string {
    if (typeof this.value !== 'string') throw this.fail('a string');
    return this.value;
  }
  count(): number {
    if (typeof this.value !== 'number' || !Number.isSafeInteger(this.value) || this.value < 0)
      throw this.fail('a count');
    return this.value;
  }
  address(): Address {
    const text = this.text();
    if (!/^0x[0-9a-f]{1,16}$/.test(text)) throw this.fail('an address');
    return BigInt(text);
  }
  bytes(): Uint8Array {
    const text = this.text();
    if (!/^([0-9a-f]{2})*$/.test(text)) throw this.fail('hexadecimal bytes');
    return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
  }
  oneOf<const T extends string>(values: readonly T[]): T {
    const text = this.text();
    const found = values.find((each) => each === text);
    if (found === undefined) throw this.fail(values.join(' or '));
    return found;
  }
  pair(): [Reader, Reader] {
    const [first, second, ...more] = this.list();
    if (first === undefined || second === undefined || more.length > 0) throw this.fail('a pair');
    return [first, second];
  }
  table(): TableRange {
    const [first, count] = this.pair();
    return { first: first.count(), count: count.count() };
  }
  range(): AddressRange {
    const [start, end] = this.pair();
    const range = { start: start.address(), end: end.address() };
    if (range.end < range.start) throw this.fail('an ascending range');
    return range;
  }
}

function decodePart(part: Reader): LoadedPart {
  return {
    kind: part.field('kind').oneOf(['core', 'runtime', 'module']),
    name: part.field('name').text(),
    sha256: part.field('sha256').text(),
    toc: part.field('toc').isNull ? null : part.field('toc').address(),
    sections: part.field('sections').table(),
    symbols: { locals: part.field('locals').table(), globals: part.field('globals').table() },
    ranges: part
      .field('ranges')
      .list()
      .map((each) => each.range()),
    stubs: part
      .field('stubs')
      .list()
      .map((each) => ({
        address: each.field('address').address(),
        sizeBytes: each.field('sizeBytes').count(),
        count: each.field('count').count(),
      })),
    entryStubs: part
      .field('entryStubs')
      .list()
      .map((each) => ({ symbol: each.field('symbol').text(), address: each.field('address').address() })),
    uses: part
      .field('uses')
      .list()
      .map((each) => each.text()),
  };
}

/**
 * The inverse of `encodeLoadMap`, of the note's descriptor.
 * @throws ElftraceError 'bad-record'
 */
function decodeLoadMap(descriptor: Uint8Array, fileOffset: number): LoadMap {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(descriptor));
  } catch {
    throw damaged('it is no JSON', fileOffset);
  }
  const map = new Reader(parsed, 'map', fileOffset);
  const schema = map.field('schema').count();
  if (schema !== loadMapSchema) throw damaged(`version ${schema} is not known, only ${loadMapSchema}`, fileOffset);
  const original = map.field('original');
  return {
    schema: loadMapSchema,
    tool: map.field('tool').text(),
    target: map.field('target').text(),
    base: map.field('base').oneOf(['user', 'kernel']),
    options: Object.fromEntries(
      map
        .field('options')
        .entries()
        .map(([key, value]) => [key, value.text()]),
    ),
    registers: Object.fromEntries(
      map
        .field('registers')
        .entries()
        .map(([key, value]) => [key, value.address()]),
    ),
    original: original.isNull
      ? null
      : {
          sha256: original.field('sha256').text(),
          size: original.field('size').count(),
          headers: original
            .field('headers')
            .list()
            .map((each) => ({ offset: each.field('offset').count(), bytes: each.field('bytes').bytes() })),
        },
    parts: map.field('parts').list().map(decodePart),
  };
}

/** Table positions of the map lie in the image's tables: no later step checks again. */
function checkAgainst(image: ElfImage, map: LoadMap): void {
  const inside = ({ first, count }: TableRange, size: number): boolean => first + count <= size;
  for (const part of map.parts) {
    if (!inside(part.sections, image.sections.length)) {
      throw damaged(`part '${part.name}' names sections that the image does not have`, 0);
    }
    const { locals, globals } = part.symbols;
    if (!inside(locals, image.symbols.count) || !inside(globals, image.symbols.count)) {
      throw damaged(`part '${part.name}' names symbols that the image does not have`, 0);
    }
  }
}
