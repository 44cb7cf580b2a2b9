/**
 * Arguments and return values (RT-49, RT-50): how they are asked for, in the words of uftrace, and
 * how they stand in a record.
 *
 *   f@arg1/s,arg2/i32,fparg1/64,arg3/x%rdi,arg7/u%stack+1;g@retval/s
 *
 * In a record each value has a unit of 32 bits, format | number and class << 8 | bytes << 16 |
 * state << 28, and behind it the value in units, low one first; texts byte by byte.
 */
import type { Endian } from '../units.js';
import { ElftraceError, hex } from '../errors.js';

export type ValueClass = 'arg' | 'fparg' | 'retval';

/** Classes by the number that records have. */
const CLASSES: readonly ValueClass[] = ['arg', 'fparg', 'retval'];
const NUMBER_BITS = 5;

/** d: decimal or, where it is large, hexadecimal; S: std::string; p: of a function. */
const FORMATS = 'diuxcsSpfb';
/** b: the sum of two numbers of double precision. */
export type ValueFormat = 'd' | 'i' | 'u' | 'x' | 'c' | 's' | 'S' | 'p' | 'f' | 'b';

/** A value that is asked for. */
export interface ValueSpec {
  readonly class: ValueClass;
  /** From 1 on; of return values 0. */
  readonly number: number;
  /** null: by its type, or d. */
  readonly format: ValueFormat | null;
  /** Of numbers; of text 0. */
  readonly bytes: number | null;
  /** Where it is: a register's name, or a word of the stack from 1 on; null: where the ABI says. */
  readonly place: string | number | null;
}

/** A function, or several by a pattern, and what is asked for of it; none: what its types say. */
export interface FunctionSpec {
  readonly pattern: string;
  /** Whether it is about return values. */
  readonly isResult: boolean;
  readonly values: readonly ValueSpec[];
}

const SPEC =
  /^(?:(arg|fparg)(\d{1,2})|(retval))(?:\/([diuxcsSpf])?(8|16|32|64|80|128)?)?(?:%(?:stack\+?(\d{1,3})|([a-z]\w*)))?$/;

function parseValue(text: string, where: string): ValueSpec {
  const wrong = (why: string): ElftraceError => new ElftraceError('usage', `${where}: ${text}: ${why}`);
  const [all, kind, number, result, format, bits, stack, register] = SPEC.exec(text) ?? [];
  if (all === undefined) throw wrong('it is no value such as arg1/i32, arg2/s, fparg1/64, retval/x');
  const valueClass = (result ?? kind) as ValueClass;
  if (number !== undefined && !(Number(number) >= 1 && Number(number) < 1 << NUMBER_BITS)) {
    throw wrong('numbers of arguments are 1 to 31');
  }
  const isFloating = valueClass === 'fparg' || format === 'f';
  if ((bits === '80' || bits === '128') && !isFloating) throw wrong(`${bits} bits are those of floating point`);
  if (isFloating && (bits === '8' || bits === '16')) throw wrong('floating point has 32, 64, 80 or 128 bits');
  return {
    class: valueClass,
    number: Number(number ?? 0),
    format: isFloating ? 'f' : ((format as ValueFormat | undefined) ?? null),
    bytes: bits === undefined ? null : Number(bits) / 8,
    place: register ?? (stack === undefined ? null : Number(stack)),
  };
}

/**
 * Functions of `-A` and `-R`.
 * @param isResult  whether return values are asked for, not arguments
 * @throws ElftraceError 'usage'
 */
export function parseFunctionSpecs(texts: readonly string[], isResult: boolean): readonly FunctionSpec[] {
  const option = isResult ? '-R' : '-A';
  return texts
    .flatMap((text) => text.split(';'))
    .filter((text) => text !== '')
    .map((text) => {
      const at = text.lastIndexOf('@');
      const pattern = at < 0 ? text : text.slice(0, at);
      const list = at < 0 ? [] : text.slice(at + 1).split(',');
      const values = list.map((each) => parseValue(each, option));
      const wrong = values.find((each) => (each.class === 'retval') !== isResult);
      if (wrong !== undefined) {
        throw new ElftraceError('usage', `${option} takes ${isResult ? 'retval' : 'arg and fparg'}: ${text}`);
      }
      return { pattern, isResult, values };
    });
}

/** What a value is called: `arg1`, `retval`. */
export const nameOf = ({ class: kind, number }: Pick<ValueSpec, 'class' | 'number'>): string =>
  kind === 'retval' ? kind : `${kind}${number}`;

/** The number by which records name a value. */
export const valueNumber = ({ class: kind, number }: Pick<ValueSpec, 'class' | 'number'>): number =>
  (CLASSES.indexOf(kind) << NUMBER_BITS) | number;

/** A value of a record. */
export interface RecordedValue {
  readonly class: ValueClass;
  readonly number: number;
  readonly format: ValueFormat;
  readonly bytes: number;
  /** Texts are cut after so many bytes; what could not be read is its address. */
  readonly state: 'whole' | 'cut' | 'unreadable';
  /** Unsigned; of text nothing. */
  readonly bits: bigint;
  /** The bytes of text. */
  readonly text: Uint8Array | null;
}

const STATES = ['whole', 'cut', 'unreadable'] as const;

/** Reads the values of a record; null: they are damaged. */
export function readValues(units: Uint32Array, endian: Endian): readonly RecordedValue[] | null {
  const found: RecordedValue[] = [];
  for (let at = 0; at < units.length;) {
    const head = units[at]!;
    const format = String.fromCharCode(head & 0xff) as ValueFormat;
    const kind = CLASSES[(head >>> (8 + NUMBER_BITS)) & 7];
    const bytes = (head >>> 16) & 0xfff;
    const state = STATES[head >>> 28];
    const end = at + 1 + Math.ceil(bytes / 4);
    if (!FORMATS.includes(format) || kind === undefined || state === undefined || end > units.length) return null;
    const isText = (format === 's' || format === 'S') && state !== 'unreadable';
    let bits = 0n;
    if (!isText) for (let i = end - 1; i > at; i--) bits = (bits << 32n) | BigInt(units[i]!);
    const text = isText
      ? Uint8Array.from({ length: bytes }, (_, i) => {
          const shift = 8 * (endian === 'little' ? i % 4 : 3 - (i % 4));
          return units[at + 1 + (i >> 2)]! >>> shift;
        })
      : null;
    const number = (head >>> 8) & ((1 << NUMBER_BITS) - 1);
    found.push({ class: kind, number, format, bytes, state, bits, text });
    at = end;
  }
  return found;
}

const decoder = new TextDecoder();

function doubleOf(bits: bigint): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, bits);
  return view.getFloat64(0);
}

const FRACTION_BITS_128 = 112n;

/** Of binary128, as near as a number of double precision is. */
function quadOf(bits: bigint): number {
  const sign = bits >> 127n ? -1 : 1;
  const exponent = Number((bits >> FRACTION_BITS_128) & 0x7fffn);
  const fraction = bits & ((1n << FRACTION_BITS_128) - 1n);
  if (exponent === 0x7fff) return fraction === 0n ? sign * Infinity : NaN;
  const whole = exponent === 0 ? fraction : fraction | (1n << FRACTION_BITS_128);
  const scale = Math.max(exponent, 1) - 16383 - Number(FRACTION_BITS_128);
  // In two steps, for a factor alone may be out of reach.
  return sign * Number(whole) * 2 ** Math.ceil(scale / 2) * 2 ** Math.floor(scale / 2);
}

/** Of 4, 8, 10 (x87) or 16 bytes, the latter as near as 64 bits are. */
export function floatOf({ format, bits, bytes }: RecordedValue): number {
  if (bytes === 16 && format === 'f') return quadOf(bits);
  if (bytes === 16) {
    const [high, low] = [doubleOf(bits & 0xffff_ffff_ffff_ffffn), doubleOf(bits >> 64n)];
    return low === 0 ? high : high + low;
  }
  const view = new DataView(new ArrayBuffer(8));
  if (bytes === 4) {
    view.setUint32(0, Number(bits & 0xffff_ffffn));
    return view.getFloat32(0);
  }
  if (bytes === 8) return doubleOf(bits);
  const fraction = Number(bits & 0xffff_ffff_ffff_ffffn);
  const exponent = Number((bits >> 64n) & 0x7fffn);
  const sign = (bits >> 79n) & 1n ? -1 : 1;
  if (exponent === 0x7fff) return (bits & 0x7fff_ffff_ffff_ffffn) === 0n ? sign * Infinity : NaN;
  return sign * fraction * 2 ** (exponent - 16383 - 63);
}

/** Whether a value is one of floating point. */
export const isFloat = ({ format }: Pick<RecordedValue, 'format'>): boolean => format === 'f' || format === 'b';

const signedOf = ({ bits, bytes }: RecordedValue): bigint => BigInt.asIntN(8 * bytes, bits);

/** As JSON has it: numbers as far as they are exact, else text. */
export function jsonOf(value: RecordedValue): number | string | null {
  const { format, state, text, bits } = value;
  if (text !== null) return decoder.decode(text);
  if (state === 'unreadable') return bits === 0n ? null : hex(bits);
  if (isFloat(value)) {
    const number = floatOf(value);
    return Number.isFinite(number) ? number : String(number);
  }
  if (format === 'x' || format === 'p') return hex(bits);
  if (format === 'c') return String.fromCharCode(Number(bits));
  const number = format === 'u' ? bits : signedOf(value);
  return number >= -0x1f_ffff_ffff_ffffn && number <= 0x1f_ffff_ffff_ffffn ? Number(number) : String(number);
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\t': '\\t', '\\': '\\\\', '"': '\\"' };
/** From where on uftrace prints numbers of no type in hexadecimal. */
const LARGE = 100_000n;

/** From where on `toFixed` writes exponents. */
const EXPONENTS_FROM = 1e21;

/** As %f of C. */
function floatText(number: number): string {
  if (Number.isNaN(number)) return 'nan';
  const sign = number < 0 || Object.is(number, -0) ? '-' : '';
  const size = Math.abs(number);
  if (size === Infinity) return `${sign}inf`;
  return `${sign}${size < EXPONENTS_FROM ? size.toFixed(6) : `${BigInt(size)}.000000`}`;
}

/** As uftrace prints it. */
export function textOf(value: RecordedValue): string {
  const { format, state, text, bits } = value;
  if (text !== null) {
    // What a terminal would obey is made visible where lines are printed.
    const shown = decoder.decode(text).replace(/[\n\t\\"]/g, (each) => ESCAPES[each]!);
    return `"${shown}"${state === 'cut' ? '...' : ''}`;
  }
  if (state === 'unreadable') return bits === 0n ? '"NULL"' : `<${hex(bits)}>`;
  if (isFloat(value)) return floatText(floatOf(value));
  if (format === 'x' || format === 'p') return hex(bits);
  if (format === 'u') return String(bits);
  if (format === 'c') return characterText(Number(bits));
  const number = signedOf(value);
  return format === 'd' && (number >= LARGE || number <= -LARGE) ? hex(bits) : String(number);
}

const characterText = (code: number): string =>
  code >= 0x20 && code < 0x7f ? `'${String.fromCharCode(code)}'` : `'\\x${code.toString(16).padStart(2, '0')}'`;

/** `(1, "a")` behind the name of a call. */
export const argumentsText = (values: readonly RecordedValue[] | null): string =>
  values === null ? '()' : `(${values.map(textOf).join(', ')})`;

/** ` = 1` behind a call that returned. */
export const resultText = (values: readonly RecordedValue[] | null): string =>
  values === null || values.length === 0 ? '' : ` = ${values.map(textOf).join(', ')}`;
