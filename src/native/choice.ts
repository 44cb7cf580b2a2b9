/**
 * The file that says what a patched program records (RT-47 to RT-50): calls of some functions with
 * what they call, levels, how long calls must last, arguments and return values. The program reads
 * it when it starts; it is made without patching again. Layout: `runtime/native-choice.h`.
 */
import { ByteView, concatBytes } from '../bytes.js';
import type { Signature, Signatures, ValueType } from '../elf/dwarf-types.js';
import { ElftraceError } from '../errors.js';
import type { ValuePlaces } from '../machine/native-tracing.js';
import type { Address, Endian } from '../units.js';
import type { NativeFunction } from './objects.js';
import type { NativeTracer } from './reader.js';
import { refused } from './refuse.js';
import { matcherOf } from './select.js';
import { type FunctionSpec, type ValueFormat, valueNumber, type ValueSpec } from './values.js';

const MAGIC = 'ELFCHOI1';
const PART_BYTES = 80;
const ROW_BYTES = 32;
const VALUE_BYTES = 8;
/** The runtime takes no larger file. */
const FILE_MAX = 0xf_ffff;

const PART_FLAGS = { only: 1, off: 2, tree: 4 } as const;
const ROW_FLAGS = { only: 1, not: 2, on: 4, off: 8, depth: 16, time: 32 } as const;
const KINDS = { register: 0, floating: 1, stack: 2 } as const;

/** What is done at a function, beside what is asked for of all. */
export interface Trigger {
  readonly pattern: string;
  readonly flags: readonly ('only' | 'not' | 'on' | 'off')[];
  readonly depth: number | null;
  /** Nanoseconds. */
  readonly time: number | null;
}

export interface Choice {
  readonly triggers: readonly Trigger[];
  /** Levels of calls; null: all. */
  readonly depth: number | null;
  /** Nanoseconds that a call must last; null: any. */
  readonly time: number | null;
  /** Whether nothing is recorded until a trigger switches it on. */
  readonly isOff: boolean;
  readonly values: readonly FunctionSpec[];
  /** Whether all values are recorded that types tell. */
  readonly isAuto: boolean;
}

/** Whether every call is recorded, and nothing more. */
export const isEverything = ({ triggers, depth, time, isOff, values, isAuto }: Choice): boolean =>
  triggers.length + values.length === 0 && depth === null && time === null && !isOff && !isAuto;

/** What a choice is made of one object by. */
export interface ChosenObject {
  /** SHA-256 of the original, hex. */
  readonly id: string;
  /** In ascending order of their sites. */
  readonly functions: readonly NativeFunction[];
  /** Where each one's site may begin: its call is behind, up to the next one's. */
  readonly starts: readonly Address[];
  /** null: no values can be recorded. */
  readonly places: ValuePlaces | null;
  /** Addresses of constants, which are there as long as the program: [start, end). */
  readonly constants: { readonly start: Address; readonly end: Address };
  /** null: there is no debugging information. */
  readonly signatures: Signatures | null;
}

/** Structures of so many bytes may lie in registers where larger ones are passed by address. */
const HOMOGENEOUS_MAX = 64;

/** A value where it lies. */
interface Placed {
  readonly spec: ValueSpec;
  readonly kind: keyof typeof KINDS;
  readonly place: number;
  /** null: no debugging information says it. */
  readonly type: ValueType | null;
}

/** Gives arguments their places, one after the other, as an ABI does. */
class Arguments {
  readonly found: Placed[] = [];
  private integers = 0;
  private floats = 0;
  private stack = 0;

  constructor(private readonly places: ValuePlaces) {}

  /** A place that the caller made for a structure which is returned. */
  hideResult(): void {
    if (this.places.hiddenResult) this.integers++;
  }

  /** @returns whether it is known where the next one is */
  add(type: ValueType): boolean {
    const { floatRegisters, wordBytes, largeAggregates, longDoubles } = this.places;
    if (type.kind === 'unknown') return false;
    if (type.kind === 'floating' && type.bytes > 8) {
      if (longDoubles !== 'stack') return false;
      this.stack += this.stack % 2;
      this.push('fparg', 'stack', this.stack, type);
      this.stack += 2;
    } else if (type.kind === 'floating') {
      if (this.floats < floatRegisters) this.push('fparg', 'floating', this.floats++, type);
      else this.push('fparg', 'stack', this.stack++, type);
    } else if (type.kind === 'aggregate' && type.isPlain !== false) {
      // Small ones lie in registers by what is in them; those of no language are not told.
      const small = largeAggregates === 'stack' ? 2 * wordBytes : HOMOGENEOUS_MAX;
      if (type.isPlain === null || type.bytes <= small) return false;
      if (largeAggregates === 'stack') this.stack += Math.ceil(type.bytes / wordBytes);
      else this.addInteger(type);
    } else this.addInteger(type);
    return true;
  }

  private addInteger(type: ValueType): void {
    const { registers } = this.places;
    if (this.integers < registers.length) this.push('arg', 'register', registers[this.integers++]!, type);
    else this.push('arg', 'stack', this.stack++, type);
  }

  private push(valueClass: 'arg' | 'fparg', kind: Placed['kind'], place: number, type: ValueType): void {
    const number = this.found.filter(({ spec }) => spec.class === valueClass).length + 1;
    if (number > 31) return;
    // What is passed by reference is seen as its address.
    const seen: ValueType = type.kind === 'aggregate' ? { kind: 'pointer' } : type;
    this.found.push({
      spec: { class: valueClass, number, format: null, bytes: null, place: null },
      kind,
      place,
      type: seen,
    });
  }
}

/** Arguments as far as types say where they are. */
function typedArguments({ parameters, result }: Signature, places: ValuePlaces): readonly Placed[] {
  const list = new Arguments(places);
  if (result?.kind === 'aggregate') {
    const isSmall = result.bytes <= 2 * places.wordBytes;
    if (isSmall && result.isPlain === null) return [];
    if (!isSmall || result.isPlain === false) list.hideResult();
  }
  for (const type of parameters) if (!list.add(type)) break;
  return list.found;
}

function typedResults({ result }: Signature, places: ValuePlaces): readonly Placed[] {
  if (result === null || result.kind === 'unknown' || result.kind === 'aggregate') return [];
  const spec = { class: 'retval', number: 0, format: null, bytes: null, place: null } as const;
  if (result.kind !== 'floating') return [{ spec, kind: 'register', place: places.result, type: result }];
  if (result.bytes <= 8) return [{ spec, kind: 'floating', place: 0, type: result }];
  return places.longDoubleResult === null
    ? []
    : [{ spec, kind: 'floating', place: places.longDoubleResult, type: result }];
}

/** Where a value is that was asked for. */
function placed(spec: ValueSpec, typed: readonly Placed[], places: ValuePlaces): Placed {
  const known = typed.find(({ spec: each }) => each.class === spec.class && each.number === spec.number);
  const type = known?.type ?? null;
  if (typeof spec.place === 'number') return { spec, kind: 'stack', place: spec.place - 1, type };
  if (typeof spec.place === 'string') {
    const named = places.named[spec.place];
    if (named === undefined) {
      throw new ElftraceError(
        'usage',
        `${spec.place} is no register of arguments: ${Object.keys(places.named).join(', ')}`,
      );
    }
    return { spec, kind: named.kind, place: named.place, type };
  }
  if (spec.class === 'retval' && spec.format === 'f') {
    const isLong = spec.bytes === 10;
    if (isLong && places.longDoubleResult === null) throw refused('values', 'values of 80 bits are not served here');
    return { spec, kind: 'floating', place: isLong ? places.longDoubleResult! : 0, type };
  }
  if (known !== undefined) return { ...known, spec };
  if (spec.class === 'retval') return { spec, kind: 'register', place: places.result, type };
  if (spec.class === 'fparg') {
    return spec.number <= places.floatRegisters
      ? { spec, kind: 'floating', place: spec.number - 1, type }
      : { spec, kind: 'stack', place: spec.number - places.floatRegisters - 1, type };
  }
  const register = places.registers[spec.number - 1];
  return register !== undefined
    ? { spec, kind: 'register', place: register, type }
    : { spec, kind: 'stack', place: spec.number - places.registers.length - 1, type };
}

/** Format and size of a value, by what was asked for, then by its type. */
function shapeOf({ spec, type }: Placed, wordBytes: number): readonly [ValueFormat, number] {
  const [format, bytes] = shapeOfType(spec, type, wordBytes);
  // A text's size is that of its address; 80 bits take 10 bytes.
  if (spec.format === 's' || spec.format === 'S' || spec.format === 'p') return [spec.format, wordBytes];
  if (spec.format === 'c') return ['c', 1];
  return [spec.format ?? format, spec.bytes ?? bytes];
}

function shapeOfType(
  { class: valueClass, format }: ValueSpec,
  type: ValueType | null,
  wordBytes: number,
): readonly [ValueFormat, number] {
  const isFloating = valueClass === 'fparg' || format === 'f';
  switch (type?.kind) {
    case 'signed':
      return ['i', type.bytes];
    case 'unsigned':
      return ['u', type.bytes];
    case 'character':
      return ['c', 1];
    case 'text':
      return ['s', wordBytes];
    case 'pointer':
      return ['x', wordBytes];
    case 'floating':
      return ['f', Math.min(type.bytes, 10)];
    default:
      return isFloating ? ['f', 8] : ['d', wordBytes];
  }
}

function encodeValue(value: Placed, wordBytes: number, endian: Endian): Uint8Array {
  const [format, bytes] = shapeOf(value, wordBytes);
  const out = new Uint8Array(VALUE_BYTES);
  out.set([KINDS[value.kind], format.charCodeAt(0), bytes, valueNumber(value.spec)]);
  new ByteView(out, endian).insertU16(4, value.place);
  return out;
}

/** What is recorded of one function; empty lists: nothing but its call. */
function valuesOf(
  called: NativeFunction,
  object: ChosenObject,
  choice: Choice,
  matches: (spec: FunctionSpec) => boolean,
): readonly Placed[] {
  const specs = choice.values.filter(matches);
  if (specs.length === 0 && !choice.isAuto) return [];
  const { places } = object;
  if (places === null) throw refused('values', 'arguments and return values are not recorded on this machine yet');
  const signature = object.signatures?.of(called.address, called.end);
  const types = {
    arguments: signature ? typedArguments(signature, places) : [],
    results: signature ? typedResults(signature, places) : [],
  };
  const found = new Map<number, Placed>();
  const add = (each: Placed): void => {
    found.set(valueNumber(each.spec), each);
  };
  if (choice.isAuto) [...types.arguments, ...types.results].forEach(add);
  for (const spec of specs) {
    if (spec.values.length === 0 && object.signatures === null) {
      throw new ElftraceError(
        'no-match',
        `${spec.pattern}: its debugging information says nothing: name the values, such as @arg1/i32`,
      );
    }
    if (spec.values.length === 0) (spec.isResult ? types.results : types.arguments).forEach(add);
    for (const each of spec.values) add(placed(each, [...types.arguments, ...types.results], places));
  }
  return [...found.values()];
}

/** Rows of the functions about which something is special, in ascending order of addresses. */
function partOf(object: ChosenObject, choice: Choice, endian: Endian, tracer: NativeTracer): Uint8Array {
  const wordBytes = object.places?.wordBytes ?? 8;
  const triggers = choice.triggers.map((each) => [each, matcherOf([each.pattern])] as const);
  const specs = new Map(choice.values.map((each) => [each, matcherOf([each.pattern])]));
  const rows: Uint8Array[] = [];
  const values: Uint8Array[] = [];
  object.functions.forEach((called, i) => {
    const own = triggers.filter(([, matches]) => matches(called)).map(([each]) => each);
    const list = valuesOf(called, object, choice, (spec) => specs.get(spec)!(called));
    const results = tracer === 'function' ? [] : list.filter(({ spec }) => spec.class === 'retval');
    const before = list.filter(({ spec }) => spec.class !== 'retval');
    if (own.length + before.length + results.length === 0) return;
    const depth = own.findLast((each) => each.depth !== null)?.depth ?? null;
    const time = own.findLast((each) => each.time !== null)?.time ?? null;
    let flags = 0;
    for (const { flags: names } of own) for (const name of names) flags |= ROW_FLAGS[name];
    if (depth !== null) flags |= ROW_FLAGS.depth;
    if (time !== null) flags |= ROW_FLAGS.time;
    const row = new Uint8Array(ROW_BYTES);
    const view = new ByteView(row, endian);
    const low = (address: bigint): number => Number(BigInt.asUintN(32, address));
    const next = object.starts[i + 1];
    const last = called.site + CALL_BYTES;
    view.insertU32(0, low(object.starts[i]!));
    view.insertU32(4, low(next !== undefined && next < last ? next : last));
    view.insertU32(8, flags);
    view.insertU32(12, depth ?? 0);
    view.insertWord(16, BigInt(time ?? 0), 8);
    view.insertU32(24, values.length);
    view.insertU16(28, before.length);
    view.insertU16(30, results.length);
    rows.push(row);
    for (const each of [...before, ...results]) values.push(encodeValue(each, wordBytes, endian));
  });
  return part(object, choice, [rows, values], endian);
}

/** A call ends within so many bytes behind the site. */
const CALL_BYTES = 16n;

function part(
  { id, constants }: Pick<ChosenObject, 'id' | 'constants'>,
  { triggers, depth, time, isOff }: Choice,
  [rows, values]: readonly [readonly Uint8Array[], readonly Uint8Array[]],
  endian: Endian,
): Uint8Array {
  const head = new Uint8Array(PART_BYTES);
  const view = new ByteView(head, endian);
  head.set(new TextEncoder().encode(MAGIC));
  head.set(
    Uint8Array.from(id.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16)),
    8,
  );
  const isOnly = triggers.some(({ flags }) => flags.includes('only'));
  const isTree = triggers.length > 0 || depth !== null || time !== null || isOff;
  const flags = (isOnly ? PART_FLAGS.only : 0) | (isOff ? PART_FLAGS.off : 0) | (isTree ? PART_FLAGS.tree : 0);
  const body = concatBytes([...rows, ...values]);
  view.insertU32(40, PART_BYTES + body.length);
  view.insertU32(44, flags);
  view.insertU32(48, depth ?? 0);
  view.insertU32(52, rows.length);
  view.insertWord(56, BigInt(time ?? 0), 8);
  view.insertWord(64, constants.start, 8);
  view.insertWord(72, constants.end, 8);
  return concatBytes([head, body]);
}

const OTHERS = { id: '00'.repeat(32), constants: { start: 0n, end: 0n } };

/**
 * The file for some objects, and for all others that a process may have.
 * @throws ElftraceError 'no-match' where a pattern names no function, 'usage'; 'unsupported-form'
 *   with reason `values`, `returns` or `too-many`
 */
export function encodeChoice(
  objects: readonly ChosenObject[],
  choice: Choice,
  endian: Endian,
  tracer: NativeTracer,
): Uint8Array {
  checkPatterns(objects, choice);
  if (tracer === 'function') {
    const timed = choice.time !== null || choice.triggers.some(({ time }) => time !== null);
    const asks = choice.values.some(({ isResult }) => isResult);
    if (timed || asks) {
      throw refused('returns', `${asks ? 'return values need' : 'how long calls last needs'} --tracer function_graph`);
    }
  }
  const parts = objects.map((each) => partOf(each, choice, endian, tracer));
  const bytes = concatBytes([...parts, part(OTHERS, choice, [[], []], endian)]);
  if (bytes.length >= FILE_MAX) {
    throw refused(
      'too-many',
      `what is asked for takes ${bytes.length} bytes, the runtime reads ${FILE_MAX}: ask for fewer functions`,
    );
  }
  return bytes;
}

/** A name that is none is a mistake; so is an option that changes nothing. */
function checkPatterns(objects: readonly ChosenObject[], { triggers, values }: Choice): void {
  for (const { pattern } of [...triggers, ...values]) {
    const matches = matcherOf([pattern]);
    if (objects.some(({ functions }) => functions.some(matches))) continue;
    throw new ElftraceError('no-match', `${pattern}: no traced function has such a name`);
  }
}
