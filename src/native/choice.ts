/**
 * The file that says what a patched program records (RT-47 to RT-50): calls of some functions with
 * what they call, levels, how long calls must last, arguments and return values. The program reads
 * it when it starts; it is made without patching again. Layout: `runtime/native-choice.h`.
 */
import { ByteView, concatBytes } from '../bytes.js';
import type { Signatures } from '../elf/dwarf-types.js';
import { ElftraceError } from '../errors.js';
import { compilePattern } from '../sites/filter.js';
import type { ValuePlaces } from '../machine/native-tracing.js';
import type { Address, Endian } from '../units.js';
import type { NativeFunction } from './objects.js';
import type { NativeTracer } from './reader.js';
import { refused } from './refuse.js';
import { matcherOf, type PatternMatch } from './select.js';
import { KINDS, placed, type Placed, shapeOf, typedArguments, typedResults } from './value-places.js';
import { type FunctionSpec, valueNumber } from './values.js';

const MAGIC = 'ELFCHOI2';
const PART_BYTES = 88;
const ROW_BYTES = 40;
const VALUE_BYTES = 8;
/** The runtime takes no larger file. */
const FILE_MAX = 0xf_ffff;

const PART_FLAGS = { only: 1, off: 2, tree: 4, callers: 8 } as const;
const ROW_FLAGS = {
  only: 1, not: 2, on: 4, off: 8, depth: 16, time: 32, kept: 64, called: 128, hide: 256, finish: 512,
  size: 1024, small: 2048,
} as const; // prettier-ignore

/**
 * `only`: what it calls, and itself; `not`: none of that; `hide`: not itself; `called`: what it is
 * called by, and itself; `kept`: how long it lasts does not matter; `on`, `off`, `finish`:
 * recording begins, stops, is over.
 */
export type TriggerFlag = 'only' | 'not' | 'hide' | 'called' | 'kept' | 'on' | 'off' | 'finish';

/** Files of sources whose functions are recorded, or are not; what those call is asked anew. */
export interface LocationChoice {
  /** A path, the end of one, or a pattern. */
  readonly pattern: string;
  readonly isHidden: boolean;
}

/** What is done at a function, beside what is asked for of all. */
export interface Trigger {
  readonly pattern: string;
  readonly flags: readonly TriggerFlag[];
  readonly depth: number | null;
  /** Nanoseconds. */
  readonly time: number | null;
  /** Bytes that the function must have, and what it calls. */
  readonly size: number | null;
}

export interface Choice {
  readonly triggers: readonly Trigger[];
  readonly locations: readonly LocationChoice[];
  /** How functions are named. */
  readonly match: PatternMatch;
  /** Levels of calls; null: all. */
  readonly depth: number | null;
  /** Nanoseconds that a call must last; null: any. */
  readonly time: number | null;
  /** Bytes that functions must have; others are passed over, not what they call. null: any. */
  readonly size: number | null;
  /** Whether nothing is recorded until a trigger switches it on. */
  readonly isOff: boolean;
  /** Functions in which the program finds its return addresses as if it were not traced. */
  readonly recovered: readonly string[];
  readonly values: readonly FunctionSpec[];
  /** Whether all values are recorded that types tell. */
  readonly isAuto: boolean;
}

/** Whether every call is recorded, and nothing more. */
export const isEverything = (choice: Choice): boolean =>
  [choice.triggers, choice.locations, choice.values, choice.recovered].every(({ length }) => length === 0) &&
  choice.depth === null &&
  choice.time === null &&
  choice.size === null &&
  !choice.isOff &&
  !choice.isAuto;

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

function encodeValue(value: Placed, places: ValuePlaces, endian: Endian): Uint8Array {
  const [format, bytes] = shapeOf(value, places);
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
  if (places === null)
    throw refused(
      'values',
      'arguments and return values are not recorded of programs of this ABI: it passes no double in registers',
    );
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
  const triggers = choice.triggers.map((each) => [each, matcherOf([each.pattern], choice.match)] as const);
  const specs = new Map(choice.values.map((each) => [each, matcherOf([each.pattern], choice.match)]));
  const isElsewhere = locationFilter(choice);
  const most = Math.max(choice.size ?? 0, ...choice.triggers.map(({ size }) => size ?? 0));
  const rows: Uint8Array[] = [];
  const values: Uint8Array[] = [];
  object.functions.forEach((called, i) => {
    const own = triggers.filter(([, matches]) => matches(called)).map(([each]) => each);
    const list = valuesOf(called, object, choice, (spec) => specs.get(spec)!(called));
    const results = tracer === 'function' ? [] : list.filter(({ spec }) => spec.class === 'retval');
    const before = list.filter(({ spec }) => spec.class !== 'retval');
    const isHidden = isElsewhere(called);
    const length = lengthOf(called);
    const isSmall = length !== null && length < most;
    if (own.length + before.length + results.length === 0 && !isHidden && !isSmall) return;
    const depth = own.findLast((each) => each.depth !== null)?.depth ?? null;
    const time = own.findLast((each) => each.time !== null)?.time ?? null;
    const size = own.findLast((each) => each.size !== null)?.size ?? null;
    let flags = 0;
    for (const { flags: names } of own) for (const name of names) flags |= ROW_FLAGS[name];
    if (isHidden) flags |= ROW_FLAGS.hide;
    if (depth !== null) flags |= ROW_FLAGS.depth;
    if (time !== null) flags |= ROW_FLAGS.time;
    if (size !== null) flags |= ROW_FLAGS.size;
    if (isSmall) flags |= ROW_FLAGS.small;
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
    view.insertU32(32, size ?? 0);
    view.insertU32(36, isSmall ? length : 0);
    rows.push(row);
    for (const each of [...before, ...results]) values.push(encodeValue(each, object.places!, endian));
  });
  return part(object, choice, [rows, values], endian);
}

/** Bytes of a function; null: its symbol does not say it. */
const lengthOf = ({ address, end }: NativeFunction): number | null => (end > address ? Number(end - address) : null);

/** Whether a path of a source is what was written: all of it, its end, or a pattern of either. */
function locationMatcher(pattern: string): (path: string) => boolean {
  const compiled = /^\d/.test(pattern) ? { matches: (name: string) => name === pattern } : compilePattern(pattern);
  return (path) => {
    for (let at = 0; at >= 0; at = path.indexOf('/', at) + 1 || -1) if (compiled.matches(path.slice(at))) return true;
    return false;
  };
}

/** Whether a function is passed over for where it was written. */
function locationFilter({ locations }: Choice): (called: NativeFunction) => boolean {
  const wanted = locations.filter(({ isHidden }) => !isHidden).map(({ pattern }) => locationMatcher(pattern));
  const hidden = locations.filter(({ isHidden }) => isHidden).map(({ pattern }) => locationMatcher(pattern));
  return ({ source }) =>
    (wanted.length > 0 && !(source !== null && wanted.some((matches) => matches(source.file)))) ||
    (source !== null && hidden.some((matches) => matches(source.file)));
}

/** A call ends within so many bytes behind the site. */
const CALL_BYTES = 16n;

/** What holds for a whole object. */
function flagsOf({ triggers, locations, depth, time, size, isOff }: Choice, isOthers: boolean): number {
  const has = (flag: TriggerFlag): boolean => triggers.some(({ flags }) => flags.includes(flag));
  const isTree = triggers.length + locations.length > 0 || depth !== null || time !== null || size !== null || isOff;
  let flags = isTree ? PART_FLAGS.tree : 0;
  // Nothing in others calls what was asked for: of them nothing would stay.
  const isElsewhere = locations.some(({ isHidden }) => !isHidden);
  if (has('only') || (isOthers && (has('called') || isElsewhere))) flags |= PART_FLAGS.only;
  if (isOff) flags |= PART_FLAGS.off;
  if (has('called')) flags |= PART_FLAGS.callers;
  return flags;
}

function part(
  { id, constants }: Pick<ChosenObject, 'id' | 'constants'>,
  choice: Choice,
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
  const body = concatBytes([...rows, ...values]);
  view.insertU32(40, PART_BYTES + body.length);
  view.insertU32(44, flagsOf(choice, id === OTHERS.id));
  view.insertU32(48, choice.depth ?? 0);
  view.insertU32(52, rows.length);
  view.insertWord(56, BigInt(choice.time ?? 0), 8);
  view.insertWord(64, constants.start, 8);
  view.insertWord(72, constants.end, 8);
  view.insertU32(80, choice.size ?? 0);
  return concatBytes([head, body]);
}

const OTHERS = { id: '00'.repeat(32), constants: { start: 0n, end: 0n } };

/**
 * The file for some objects, and for all others that a process may have.
 * @throws ElftraceError 'no-match' where a pattern names no function, 'usage'; 'unsupported-form'
 *   with reason `values`, `returns`, `counts` or `too-many`
 */
export function encodeChoice(
  objects: readonly ChosenObject[],
  choice: Choice,
  endian: Endian,
  tracer: NativeTracer,
): Uint8Array {
  checkPatterns(objects, choice);
  if (tracer === 'counter') {
    throw refused(
      'counts',
      'calls are counted whoever made them, without arguments: functions are chosen by -l and -n',
    );
  }
  const needed = tracer === 'function' ? returnsFor(choice) : null;
  if (needed !== null) throw refused('returns', `${needed} --tracer function_graph`);
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

/** What of a choice needs returns; null: nothing. */
function returnsFor({ triggers, time, values }: Choice): string | null {
  if (values.some(({ isResult }) => isResult)) return 'return values need';
  if (time !== null || triggers.some((each) => each.time !== null)) return 'how long calls last needs';
  return triggers.some(({ flags }) => flags.includes('called')) ? 'what calls a function (-C) needs' : null;
}

/** A name that is none is a mistake; so is an option that changes nothing. */
function checkPatterns(
  objects: readonly ChosenObject[],
  { triggers, locations, values, recovered, match }: Choice,
): void {
  for (const pattern of [...[...triggers, ...values].map((each) => each.pattern), ...recovered]) {
    const matches = matcherOf([pattern], match);
    if (objects.some(({ functions }) => functions.some(matches))) continue;
    throw new ElftraceError('no-match', `${pattern}: no traced function has such a name`);
  }
  for (const { pattern } of locations) {
    const matches = locationMatcher(pattern);
    const isThere = ({ source }: NativeFunction): boolean => source !== null && matches(source.file);
    if (objects.some(({ functions }) => functions.some(isThere))) continue;
    const isTold = objects.some(({ functions }) => functions.some(({ source }) => source !== null));
    const why = isTold ? 'no traced function was written in such a file' : 'no debugging information names files';
    throw new ElftraceError('no-match', `${pattern}: ${why}`);
  }
}
