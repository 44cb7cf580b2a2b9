/**
 * Where arguments and return values are (RT-49): by the types of a function, as the ABI of its
 * machine gives them places one after the other, or by what was asked for alone.
 */
import type { Signature, ValueType } from '../elf/dwarf-types.js';
import { ElftraceError } from '../errors.js';
import type { ValuePlaces } from '../machine/native-tracing.js';
import { refused } from './refuse.js';
import type { ValueFormat, ValueSpec } from './values.js';

/** Kinds of places, by the numbers that the runtime knows. */
export const KINDS = { register: 0, floating: 1, stack: 2 } as const;

const X87_BYTES = 10;
const LONG_DOUBLE_BYTES = 16;

/** A value where it lies. */
export interface Placed {
  readonly spec: ValueSpec;
  readonly kind: keyof typeof KINDS;
  readonly place: number;
  /** null: no debugging information says it. */
  readonly type: ValueType | null;
}

/** Gives arguments their places, as an ABI does. */
class Arguments {
  readonly found: Placed[] = [];
  /** Registers for integers that are taken, those for floating point, words of the stack. */
  private integers = 0;
  private floats = 0;
  private stack = 0;

  constructor(private readonly places: ValuePlaces) {}

  /** A place that the caller made for a structure which is returned. */
  hideResult(): void {
    this.integers++;
  }

  /** @returns whether it is known where the next one is */
  add(type: ValueType): boolean {
    if (type.kind === 'unknown') return false;
    if (type.kind === 'floating') return this.addFloating(type);
    if (type.kind === 'aggregate' && type.isPlain !== false) return this.addAggregate(type);
    this.addInteger('arg', type);
    return true;
  }

  private addFloating(type: ValueType & { readonly kind: 'floating' }): boolean {
    const { floatRegisters, floatsBeyond, isOneList } = this.places;
    if (type.bytes > 8) return this.addLongDouble(type);
    if (this.floats < floatRegisters) {
      this.push('fparg', 'floating', this.floats++, type);
      if (isOneList) this.takeWord();
    } else if (isOneList || floatsBeyond === 'integers') this.addInteger('fparg', type);
    else this.addToStack('fparg', type);
    return true;
  }

  /** Those of which a part is in registers and a part elsewhere are not told. */
  private addLongDouble(type: ValueType): boolean {
    const { longDoubles, floatRegisters, registers, wordBytes, isOneList } = this.places;
    if (longDoubles === null) return false;
    const { are } = longDoubles;
    const words = LONG_DOUBLE_BYTES / wordBytes;
    const count = are === 'floating-pair' ? 2 : 1;
    if (are === 'integer-pair' && this.integers < registers.length) {
      if (this.integers + words > registers.length) return false;
      this.push('fparg', 'register', registers[this.integers]!, type);
      this.integers += words;
    } else if (are.startsWith('floating') && this.floats + count <= floatRegisters) {
      this.push('fparg', 'floating', this.floats, type);
      this.floats += count;
      if (isOneList) for (let i = 0; i < words; i++) this.takeWord();
    } else {
      if (isOneList) return false;
      if (are.startsWith('floating')) this.floats = floatRegisters;
      this.stack += this.stack % 2;
      this.push('fparg', 'stack', this.stack, type);
      this.stack += words;
    }
    return true;
  }

  private addAggregate(type: ValueType & { readonly kind: 'aggregate' }): boolean {
    const { aggregates, wordBytes } = this.places;
    // Small ones lie in registers by what is in them; those of no language are not told.
    if (aggregates === null || type.bytes <= aggregates.above) return false;
    if (aggregates.are === 'reference') this.addInteger('arg', type);
    else if (type.isPlain === null) return false;
    else this.stack += Math.ceil(type.bytes / wordBytes);
    return true;
  }

  private takeWord(): void {
    if (this.integers < this.places.registers.length) this.integers++;
    else this.stack++;
  }

  private addInteger(valueClass: 'arg' | 'fparg', type: ValueType): void {
    const { registers, wordBytes } = this.places;
    const words = bytesOf(type, wordBytes) / wordBytes > 1 ? 2 : 1;
    this.integers += this.integers % words;
    if (this.integers + words > registers.length) {
      this.integers = registers.length;
      this.addToStack(valueClass, type);
      return;
    }
    this.push(valueClass, 'register', registers[this.integers]!, type);
    this.integers += words;
  }

  /** Values of two words begin at words with an even number. */
  private addToStack(valueClass: 'arg' | 'fparg', type: ValueType): void {
    const { wordBytes } = this.places;
    const words = bytesOf(type, wordBytes) / wordBytes > 1 ? 2 : 1;
    this.stack += this.stack % words;
    this.push(valueClass, 'stack', this.stack, type);
    this.stack += words;
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

/** Of a value in registers; structures are passed by address there. */
const bytesOf = (type: ValueType, wordBytes: number): number =>
  type.kind === 'signed' || type.kind === 'unsigned' || type.kind === 'floating' ? type.bytes : wordBytes;

/** Whether the first argument says where a structure is returned; null: not known. */
function isResultHidden({ result }: Signature, { hiddenResult }: ValuePlaces): boolean | null {
  if (result?.kind !== 'aggregate' || hiddenResult === null) return false;
  if (result.isPlain === false || result.bytes > hiddenResult.always) return true;
  return result.isPlain === true && result.bytes <= hiddenResult.never ? false : null;
}

/** Arguments as far as types say where they are. */
export function typedArguments(signature: Signature, places: ValuePlaces): readonly Placed[] {
  const list = new Arguments(places);
  const isHidden = isResultHidden(signature, places);
  if (isHidden === null) return [];
  if (isHidden) list.hideResult();
  for (const type of signature.parameters) if (!list.add(type)) break;
  return list.found;
}

export function typedResults({ result }: Signature, places: ValuePlaces): readonly Placed[] {
  if (result === null || result.kind === 'unknown' || result.kind === 'aggregate') return [];
  const spec = { class: 'retval', number: 0, format: null, bytes: null, place: null } as const;
  if (result.kind !== 'floating') return [{ spec, kind: 'register', place: places.result, type: result }];
  if (result.bytes <= 8) return [{ spec, kind: 'floating', place: 0, type: result }];
  return places.longDoubles === null ? [] : [{ spec, ...places.longDoubles.result, type: result }];
}

function namedRegister(
  name: string,
  { named }: ValuePlaces,
): { readonly kind: Placed['kind']; readonly place: number } {
  const found = named[name];
  if (found !== undefined) return found;
  throw new ElftraceError('usage', `${name} is no register of arguments: ${Object.keys(named).join(', ')}`);
}

/**
 * Where a value is that was asked for.
 * @throws ElftraceError 'usage', 'unsupported-form' with reason `values`
 */
export function placed(spec: ValueSpec, typed: readonly Placed[], places: ValuePlaces): Placed {
  const known = typed.find(({ spec: each }) => each.class === spec.class && each.number === spec.number);
  const type = known?.type ?? null;
  checkLongDouble(spec, known, places);
  if (typeof spec.place === 'number') return { spec, kind: 'stack', place: spec.place - 1, type };
  if (typeof spec.place === 'string') return { spec, ...namedRegister(spec.place, places), type };
  if (spec.class === 'retval' && spec.format === 'f') {
    return { spec, kind: 'floating', place: 0, type, ...longResult(spec, places) };
  }
  if (known !== undefined) return { ...known, spec };
  if (spec.class === 'retval') return { spec, kind: 'register', place: places.result, type };
  return { spec, ...(spec.class === 'fparg' ? numberedFloat(spec, places) : numberedInteger(spec, places)), type };
}

type Place = Pick<Placed, 'kind' | 'place'>;

const isLong = ({ bytes }: ValueSpec): boolean => bytes === X87_BYTES || bytes === LONG_DOUBLE_BYTES;

const longResult = (spec: ValueSpec, { longDoubles }: ValuePlaces): Partial<Place> =>
  isLong(spec) && longDoubles !== null ? longDoubles.result : {};

/** 80 bits are those of x87, 128 the others'; of arguments types say where those are. */
function checkLongDouble(spec: ValueSpec, known: Placed | undefined, { longDoubles }: ValuePlaces): void {
  if (!isLong(spec)) return;
  const isX87 = longDoubles?.format === 'x87';
  if (longDoubles === null || isX87 !== (spec.bytes === X87_BYTES)) {
    throw refused('values', `values of ${8 * spec.bytes!} bits are not served here`);
  }
  if (!isX87 && spec.class !== 'retval' && (known === undefined || spec.place !== null)) {
    throw refused('values', 'where arguments of 128 bits are is known by their types alone');
  }
}

/** The N-th value of floating point where nothing says what else is passed. */
function numberedFloat({ number }: ValueSpec, places: ValuePlaces): Place {
  const { floatRegisters, floatsBeyond, isOneList, wordBytes } = places;
  if (number <= floatRegisters) return { kind: 'floating', place: number - 1 };
  if (floatsBeyond === 'stack' && !isOneList && wordBytes === 8) {
    return { kind: 'stack', place: number - floatRegisters - 1 };
  }
  throw new ElftraceError(
    'usage',
    `fparg${number} is in none of the ${floatRegisters} registers: name its place, such as fparg${number}%stack+1`,
  );
}

/** The N-th word for integers. */
function numberedInteger({ number, bytes }: ValueSpec, { registers, wordBytes }: ValuePlaces): Place {
  const words = bytes !== null && bytes > wordBytes ? 2 : 1;
  const word = number - 1 + ((number - 1) % words);
  return word + words <= registers.length
    ? { kind: 'register', place: registers[word]! }
    : { kind: 'stack', place: word - registers.length };
}

/** Format and size of a value, by what was asked for, then by its type. */
export function shapeOf({ spec, type }: Placed, places: ValuePlaces): readonly [ValueFormat, number] {
  const { wordBytes } = places;
  const [format, bytes] = shapeOfType(spec, type, places);
  if (bytes > 8 && isLongType(type)) return [format, bytes];
  if (isLong(spec)) return longShape(places);
  // A text's size is that of its address; 80 bits take 10 bytes.
  if (spec.format === 's' || spec.format === 'S' || spec.format === 'p') return [spec.format, wordBytes];
  if (spec.format === 'c') return ['c', 1];
  // Of two words where it has two.
  const most = type === null || type.kind === 'floating' || bytes > wordBytes ? 10 : wordBytes;
  return [spec.format ?? format, Math.min(spec.bytes ?? bytes, most)];
}

const isLongType = (type: ValueType | null): boolean => type?.kind === 'floating' && type.bytes > 8;

function longShape({ longDoubles }: ValuePlaces): readonly [ValueFormat, number] {
  if (longDoubles?.format === 'x87') return ['f', X87_BYTES];
  return [longDoubles?.format === 'pair' ? 'b' : 'f', LONG_DOUBLE_BYTES];
}

function shapeOfType(
  { class: valueClass, format }: ValueSpec,
  type: ValueType | null,
  places: ValuePlaces,
): readonly [ValueFormat, number] {
  const isFloating = valueClass === 'fparg' || format === 'f';
  const { wordBytes } = places;
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
      return type.bytes > 8 ? longShape(places) : ['f', type.bytes];
    default:
      return isFloating ? ['f', 8] : ['d', wordBytes];
  }
}
