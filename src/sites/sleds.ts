/**
 * Sleds of XRay by `xray_instr_map`: where they are, whose, and whether they are off, on or wrong.
 * Owns the layout of the map and the numbers of functions; how a sled looks is the machine's.
 *
 *   entry of 64-bit machines, version 2
 *    0  8  the sled, from this place on
 *    8  8  its function, from this place on
 *   16  1  kind        17  1  always        18  1  version        19  13  0
 *
 * A function is known by a number, from 1 on, in the order of the map: its sleds stand together.
 */
import { ByteView } from '../bytes.js';
import { hex } from '../errors.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection } from '../elf/image.js';
import type { SledKind, SledReading } from '../machine/sleds.js';
import type { CodeRange, Program } from '../program/program.js';
import type { Address } from '../units.js';

const MAP = 'xray_instr_map';
const FUNCTIONS = 'xray_fn_idx';
const ENTRY_BYTES = 32;
const FUNCTION_AT = 8;
const KIND_AT = 16;
const ALWAYS_AT = 17;
const VERSION_AT = 18;
/** Both words count from their own places. */
const VERSION = 2;
/** Begin and end of a function's part of the map, or begin and number. */
const FUNCTION_BYTES = 16;

/** Index = kind. */
const sledKinds: readonly SledKind[] = ['entry', 'exit', 'tail', 'entry-args', 'custom-event', 'typed-event'];
const KIND_NAMES = [
  'at entries',
  'at exits',
  'at tail calls',
  'at entries with arguments',
  'custom events',
  'typed events',
];

/** The maps of a file, or why they cannot be read. */
function mapsOf(image: ElfImage): readonly ElfSection[] | string {
  const maps = image.sectionsNamed(MAP);
  for (const map of maps) {
    if (map.type === elf.SHT_NOBITS || map.size % ENTRY_BYTES !== 0) return 'the map is no list of entries';
    const bytes = image.contents(map);
    for (let at = 0; at < bytes.length; at += ENTRY_BYTES) {
      if (bytes[at + VERSION_AT] !== VERSION || bytes[at + KIND_AT]! >= sledKinds.length)
        return 'its entries are not of version 2';
    }
  }
  return maps;
}

/**
 * Sleds of a 64-bit file by kind.
 * @returns a phrase: `3 at entries, 2 at exits`; what is not of version 2 is said and not counted;
 *   null for a file without `xray_instr_map`
 * Source: M-PROD-2
 */
export function describeSleds(image: ElfImage): string | null {
  const maps = mapsOf(image);
  if (typeof maps === 'string') return `not counted, ${maps}`;
  if (maps.length === 0) return null;
  const counts = KIND_NAMES.map(() => 0);
  for (const map of maps) {
    const bytes = image.contents(map);
    for (let at = KIND_AT; at < bytes.length; at += ENTRY_BYTES) counts[bytes[at]!]!++;
  }
  const present = KIND_NAMES.flatMap((name, kind) => (counts[kind] === 0 ? [] : `${counts[kind]} ${name}`));
  return present.join(', ') || 'none';
}

/** One sled, judged. */
export interface Sled {
  readonly kind: SledKind;
  /** Its function is traced even where a threshold would leave it out. */
  readonly always: boolean;
  /** Address, or offset in its section for relocatable files. */
  readonly address: Address;
  readonly functionAddress: Address;
  /** The code that it is in; null: none. */
  readonly range: CodeRange | null;
  /** Name of its function; empty where no symbol names one. */
  readonly function: string;
  /** Number of its function; null where it is not known, as in files that a linker joins. */
  readonly id: number | null;
  /** What stands there; `unserved`: sleds of the kind are not read. */
  readonly reading: SledReading | { readonly state: 'unserved'; readonly reason: string };
  /** The bytes of the sled; empty where it is not read. */
  readonly bytes: Uint8Array;
}

interface Place {
  readonly range: CodeRange | undefined;
  readonly value: Address;
}

/** Where the words of a map lead: by relocations, or from their own places. */
function placesOf(program: Program, map: ElfSection): (at: number) => Place {
  const { image, relocatable } = program;
  const view = new ByteView(image.contents(map), image.header.endian, map.name);
  if (!relocatable) {
    return (at) => {
      const value = BigInt.asUintN(64, map.address + BigInt(at) + view.i64(at));
      return { range: program.codeAt(value), value };
    };
  }
  const places = new Map<number, Place>();
  for (const { count, offset, symbol, addend } of image.relocationsOf(map)) {
    for (let row = 0; row < count; row++) {
      const at = Number(offset[row]!);
      const section = image.symbols.sectionIndex[symbol[row]!]!;
      const value = image.symbols.value[symbol[row]!]! + addend[row]!;
      const known = places.get(at);
      const range = program.codeOfSection(section);
      // One row is relative to its place; of a pair the other one is a label of the map.
      if (range !== undefined) places.set(at, { range, value: value + (known?.value ?? 0n) });
      else if (section === map.index) {
        const distance = BigInt(at) - value;
        places.set(at, known === undefined ? { range, value: distance } : { ...known, value: known.value + distance });
      }
    }
  }
  return (at) => places.get(at) ?? { range: undefined, value: 0n };
}

/**
 * The sleds of a file, in the order of its map.
 * @returns why they cannot be read, where they cannot; null for a file without a map
 * Source: M-PROD-2, M-PROD-3
 */
export function findSleds(program: Program): readonly Sled[] | { readonly unread: string } | null {
  const { image, arch } = program;
  const maps = mapsOf(image);
  if (typeof maps === 'string') return { unread: maps };
  if (maps.length === 0) return null;
  if (arch.sleds === null) return { unread: `sleds of ${arch.target.title} are not read` };
  const found: Sled[] = [];
  const seen = new Set<string>();
  let id = 0;
  let last: Address | null = null;
  for (const map of maps) {
    const bytes = image.contents(map);
    const placeAt = placesOf(program, map);
    for (let at = 0; at < bytes.length; at += ENTRY_BYTES) {
      const owner = placeAt(at + FUNCTION_AT);
      if (last === null || owner.value !== last) id++;
      last = owner.value;
      const sled = readSled(program, placeAt(at), owner, {
        kind: sledKinds[bytes[at + KIND_AT]!]!,
        always: bytes[at + ALWAYS_AT] !== 0,
        id: program.relocatable ? null : id,
      });
      const key = `${sled.range?.index} ${sled.address}`;
      const again = { state: 'wrong', reason: 'another entry of the map names the same sled' } as const;
      found.push(seen.has(key) ? { ...sled, reading: again } : sled);
      seen.add(key);
    }
  }
  return isNumbered(image, id) ? found : found.map((sled) => ({ ...sled, id: null }));
}

/** Whether a file's list of functions, where it has one, is as long as the map says. */
function isNumbered(image: ElfImage, functions: number): boolean {
  const lists = image.sectionsNamed(FUNCTIONS);
  return lists.length === 0 || lists.reduce((sum, { size }) => sum + size, 0) === functions * FUNCTION_BYTES;
}

function readSled(
  program: Program,
  { range, value }: Place,
  owner: Place,
  known: Pick<Sled, 'kind' | 'always' | 'id'>,
): Sled {
  const model = program.arch.sleds!;
  const symbol = owner.range === undefined ? -1 : program.functionStarting(owner.range, owner.value);
  const sled = {
    ...known,
    address: value,
    functionAddress: owner.value,
    range: range ?? null,
    function: symbol < 0 ? '' : program.symbolName(symbol),
    bytes: new Uint8Array(0),
  };
  const size = model.sizeOf(known.kind);
  if (size === null) return { ...sled, reading: { state: 'unserved', reason: `sleds of ${known.kind} are not read` } };
  const wrong = (reason: string): Sled => ({ ...sled, reading: { state: 'wrong', reason } });
  if (range === undefined) return wrong('it lies in no code');
  const start = Number(value - range.address);
  const bytes = range.bytes.slice(start, start + size);
  if (bytes.length < size) return wrong('it reaches beyond its section');
  const reading = model.read(bytes, { kind: known.kind, address: value }, program.relocatable);
  const problem = reading.state === 'wrong' ? null : problemOf(program, { ...sled, range, reading });
  return { ...sled, bytes, reading: problem === null ? reading : { state: 'wrong', reason: problem } };
}

/** What is wrong between a sled and its function, its number and what it calls; null: nothing. */
function problemOf(
  program: Program,
  {
    address,
    functionAddress,
    range,
    function: name,
    id,
    reading,
  }: Omit<Sled, 'range' | 'bytes'> & { range: CodeRange },
): string | null {
  if (program.namesFunctions) {
    if (name === '') return `no function begins at ${hex(functionAddress)}, to which the map says that it belongs`;
    const inside = program.functionAt(range, address);
    if (inside < 0 || program.functions.placeOf(inside)?.value !== functionAddress) return `it lies outside ${name}`;
  }
  if (reading.state === 'on' && id !== null && reading.id !== id) {
    return `it names function ${reading.id}, and its own is ${id}`;
  }
  const target = reading.state === 'on' || reading.state === 'off' ? reading.target : null;
  if (target === null || !program.namesFunctions) return null;
  const leads = program.finalTarget(target);
  const code = program.codeAt(leads);
  const callee = code === undefined ? -1 : program.functionAt(code, leads);
  if (code !== undefined && callee >= 0) {
    const begins = program.functions.placeOf(callee)!.value;
    const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[callee]!));
    if (leads === begins || leads === begins + local) return null;
  }
  return `it calls ${hex(target)}, where no function begins`;
}
