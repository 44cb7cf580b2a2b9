/**
 * Relocations computed, applied and read back by their rows: the one place that knows value rules,
 * parts, ranges and fields. Owns no type numbers and no machine; what a type means is data in the
 * machine's rows.
 *
 * A relocation is applied in three steps, and read back by the last two in reverse:
 *
 *   inputs (S, A, P, …) --rule--> value --part--> number of the field's width --slices--> bits at
 *   the place
 *
 * `part` picks bits of the value (`ha16`: bits 31..16 of value + 0x8000). It yields a number that
 * starts at bit 0; where a field's own slices name value bits (`auipc.upper[31:12]`), the number is
 * left in place. Both kinds of fields work.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError, hex, outOfRange } from '../errors.js';
import type { ErrorContext } from '../errors.js';
import type { Endian } from '../units.js';
import type { FieldCodec, RelocationInputs, RelocationRow, ValuePart } from './kinds.js';

/** Byte order of data and of instruction words; they differ on big-endian RISC-V and arm64 only. */
export interface ByteOrders {
  readonly data: Endian;
  readonly code: Endian;
}

/**
 * The row of a relocation type.
 * @throws ElftraceError 'unknown-relocation' that names the type and the place; nothing is ever
 *   guessed
 */
export function relocationRow(
  rows: ReadonlyMap<number, RelocationRow>,
  type: number,
  machine: string,
  context: ErrorContext = {},
): RelocationRow {
  const row = rows.get(type);
  if (row) return row;
  const { section, offset } = context;
  const place = section === undefined ? '' : ` at ${section}${offset === undefined ? '' : `+${hex(offset)}`}`;
  throw new ElftraceError('unknown-relocation', `${machine}: relocation type ${type}${place} is not known`, {
    what: 'relocation type',
    value: type,
    ...context,
  });
}

function missing(row: RelocationRow, what: string): ElftraceError {
  return new ElftraceError('bad-reference', `${row.name}: needs ${what}, which is not known here`, { what: row.name });
}

function unsupported(row: RelocationRow, cause: string): ElftraceError {
  return new ElftraceError('unsupported-form', `${row.name}: ${cause}`, { what: row.name });
}

function need(row: RelocationRow, value: bigint | undefined, what: string): bigint {
  if (value === undefined) throw missing(row, what);
  return value;
}

const page = (address: bigint): bigint => address & ~0xfffn;

/**
 * The value of a relocation by the row's rule, wrapped to the address size and taken as a signed
 * number, or null where nothing is written (NONE, markers, COPY, ALIGN).
 * @throws ElftraceError 'bad-reference' when an input that the rule needs is absent,
 *   'unsupported-form' for values that only a linker or dynamic linker can make
 */
export function computeRelocation(row: RelocationRow, inputs: RelocationInputs, wordBytes: 4 | 8 = 8): bigint | null {
  const S = inputs.symbol;
  const A = row.addendIgnored ? 0n : inputs.addend;
  const P = inputs.place;
  const wrap = (value: bigint): bigint => BigInt.asIntN(wordBytes * 8, value);
  const toc = (): bigint => need(row, inputs.toc, 'the TOC or GOT base');
  const slot = (): bigint => need(row, inputs.gotSlot, 'the GOT slot of its symbol');
  switch (row.rule) {
    case 'none':
    case 'copy':
    case 'align':
      return null;
    case 'abs':
      return wrap(S + A);
    case 'pcrel':
      return wrap(S + A - P);
    case 'page-pcrel':
      return wrap(page(S + A) - page(P));
    case 'relative':
      return wrap((inputs.base ?? 0n) + A);
    case 'toc-relative':
      return wrap(S + A - toc());
    case 'toc-base':
      return wrap(toc() + A);
    case 'got-pcrel':
      return wrap(slot() + A - P);
    case 'got-page-pcrel':
      return wrap(page(slot() + A) - page(P));
    case 'got-abs':
      return wrap(slot() + A);
    case 'got-relative':
      return wrap(slot() + A - toc());
    case 'got-page-relative':
      return wrap(slot() + A - page(toc()));
    case 'pcrel-low':
      return wrap(need(row, inputs.paired, 'the value of its high part'));
    case 'add':
      return wrap(need(row, inputs.held, 'what its place holds') + S + A);
    case 'sub':
      return wrap(need(row, inputs.held, 'what its place holds') - S - A);
    case 'jump-slot':
    case 'glob-dat':
      return wrap(S + A);
    case 'size':
      return wrap(need(row, inputs.symbolSize, 'the size of its symbol') + A);
    case 'irelative':
      throw unsupported(row, 'the value is the result of a resolver function');
    case 'tls':
      throw unsupported(row, 'thread-local values are made by a linker or dynamic linker');
    case 'uleb-set':
    case 'uleb-sub':
      throw unsupported(row, 'data of variable length is set by pairs');
    case 'linker':
      throw unsupported(row, 'the value depends on a layout that only a linker knows');
    default:
      return row.rule satisfies never;
  }
}

/**
 * Lowest bit of the value that a part takes, and what is added before the bits above it are cut
 * off.
 */
const PART_SHIFTS: Readonly<Record<ValuePart, readonly [shift: number, rounding: bigint]>> = {
  all: [0, 0n],
  lo16: [0, 0n],
  lo12: [0, 0n],
  hi16: [16, 0n],
  ha16: [16, 0x8000n],
  higher16: [32, 0n],
  highera16: [32, 0x8000n],
  highest16: [48, 0n],
  highesta16: [48, 0x8000n],
  hi34: [34, 0n],
  ha34: [34, 1n << 33n],
  highest34: [50, 0n],
  highesta34: [50, 1n << 33n],
  hi20: [12, 0x800n],
  hi20lo12: [0, 0n],
};

interface Shape {
  /** How far the number that the slices name is shifted down from the value. */
  readonly shift: bigint;
  readonly rounding: bigint;
  readonly lowBit: number;
}

const shapes = new WeakMap<RelocationRow, Shape>();

function shapeOf(row: RelocationRow): Shape {
  const known = shapes.get(row);
  if (known) return known;
  const [partShift, rounding] = PART_SHIFTS[row.part];
  let shift = partShift;
  if (shift === 0 && (row.rule === 'page-pcrel' || row.rule === 'got-page-pcrel')) shift = 12;
  let lowBit = 64;
  for (const slice of row.field.slices) lowBit = Math.min(lowBit, slice.low);
  // A field whose slices name bits of the whole value: nothing is shifted.
  if (shift !== 0 && lowBit >= shift && row.field.slices.length > 0) shift = 0;
  const made = { shift: BigInt(shift), rounding, lowBit };
  shapes.set(row, made);
  return made;
}

/**
 * The number that the row's slices take from a value, before anything is cut off to the field's
 * width: what the range test is about.
 */
function beforeCut(row: RelocationRow, value: bigint): bigint {
  if (row.part === 'hi20lo12') return ((value + 0x800n) & ~0xfffn) | (value & 0xfffn);
  const { shift, rounding } = shapeOf(row);
  return (value + rounding) >> shift;
}

/**
 * What a field of the row holds of `value`: the number that `extractRelocation` gives back after
 * `value` was applied, before the part is put back to its place.
 */
export function relocationPart(row: RelocationRow, value: bigint): bigint {
  const { lowBit } = shapeOf(row);
  const number = beforeCut(row, value);
  const held = (BigInt.asUintN(row.field.widthBits, number) >> BigInt(lowBit)) << BigInt(lowBit);
  return isSigned(row) ? BigInt.asIntN(row.field.widthBits, held) : held;
}

/** True where the field's number is read back with a sign. */
function isSigned(row: RelocationRow): boolean {
  if (row.part === 'lo16' || row.part === 'lo12') return false;
  if (row.overflow === 'signed' || row.part === 'hi20lo12') return true;
  return row.rule === 'pcrel' && row.part === 'all';
}

/**
 * Range and alignment of a value for a row, without writing.
 * @throws ElftraceError 'relocation-out-of-range' with the value's limits, 'relocation-misaligned'
 */
export function checkRelocation(row: RelocationRow, value: bigint, context: ErrorContext = {}): void {
  const { widthBits } = row.field;
  const number = beforeCut(row, value);
  const { shift, rounding } = shapeOf(row);
  if (row.overflow !== 'none') {
    const half = 1n << BigInt(widthBits - 1);
    const min = row.overflow === 'unsigned' ? 0n : -half;
    const max = row.overflow === 'signed' ? half - 1n : 2n * half - 1n;
    // The rounded pair covers what its rounded upper part covers.
    const tested = row.part === 'hi20lo12' ? value + 0x800n : number;
    if (tested < min || tested > max) {
      const bias = row.part === 'hi20lo12' ? 0x800n : rounding;
      throw outOfRange(
        'relocation-out-of-range',
        row.name,
        value,
        (min << shift) - bias,
        (max << shift) + ((1n << shift) - 1n) - bias,
        context,
      );
    }
  }
  if (row.alignBytes > 1 && value % BigInt(row.alignBytes) !== 0n) {
    throw new ElftraceError('relocation-misaligned', `${row.name}: ${hex(value)} is no multiple of ${row.alignBytes}`, {
      what: row.name,
      value,
      expected: `multiple of ${row.alignBytes}`,
      ...context,
    });
  }
}

/**
 * The field's bytes as one number: pairs of words count bits 0..31 in the first word and 32..63 in
 * the second.
 */
function readUnit(field: FieldCodec, bytes: Uint8Array, offset: number, orders: ByteOrders): bigint {
  const view = new ByteView(bytes, field.kind === 'code' ? orders.code : orders.data, 'relocation place');
  switch (field.sizeBytes) {
    case 1:
      return BigInt(view.u8(offset));
    case 2:
      return BigInt(view.u16(offset));
    case 4:
      return BigInt(view.u32(offset));
    case 8:
      return field.kind === 'code'
        ? BigInt(view.u32(offset)) | (BigInt(view.u32(offset + 4)) << 32n)
        : view.u64(offset);
    default:
      return field.sizeBytes satisfies never;
  }
}

function insertUnit(field: FieldCodec, bytes: Uint8Array, offset: number, orders: ByteOrders, unit: bigint): void {
  const view = new ByteView(bytes, field.kind === 'code' ? orders.code : orders.data, 'relocation place');
  switch (field.sizeBytes) {
    case 1:
      view.insertU8(offset, Number(unit));
      return;
    case 2:
      view.insertU16(offset, Number(unit));
      return;
    case 4:
      view.insertU32(offset, Number(unit));
      return;
    case 8:
      if (field.kind === 'code') {
        view.insertU32(offset, Number(BigInt.asUintN(32, unit)));
        view.insertU32(offset + 4, Number(unit >> 32n));
      } else {
        view.insertU64(offset, unit);
      }
      return;
    default:
      field.sizeBytes satisfies never;
  }
}

/**
 * Writes `value` into the field at `offset` of `bytes`; all other bits of the place stay.
 * @throws ElftraceError 'relocation-out-of-range', 'relocation-misaligned' (nothing written),
 *   'elf-truncated' where the field does not lie in `bytes`
 */
export function applyRelocation(
  row: RelocationRow,
  bytes: Uint8Array,
  offset: number,
  value: bigint,
  orders: ByteOrders,
  context: ErrorContext = {},
): void {
  if (row.field.slices.length === 0) return;
  checkRelocation(row, value, context);
  const { bySign } = row;
  const number = beforeCut(row, bySign !== undefined && value < 0n ? ~value : value);
  let unit = readUnit(row.field, bytes, offset, orders);
  if (bySign !== undefined) {
    unit = (unit & ~BigInt(bySign.mask)) | BigInt(value < 0n ? bySign.negative : bySign.positive);
  }
  for (const { high, low, at } of row.field.slices) {
    const ones = (1n << BigInt(high - low + 1)) - 1n;
    unit = (unit & ~(ones << BigInt(at))) | (((number >> BigInt(low)) & ones) << BigInt(at));
  }
  insertUnit(row.field, bytes, offset, orders, unit);
}

/**
 * The inverse of `applyRelocation`: the value as far as the field holds it. Parts come back at
 * their place in the value, so that halves can be added: `ha16` signed and shifted up by 16, `lo16`
 * unsigned (sign-extend it when it was paired with `ha16`). A `hi20lo12` pair gives the whole
 * 32-bit value. 0n for rows without a field.
 * @throws ElftraceError 'elf-truncated'
 */
export function extractRelocation(row: RelocationRow, bytes: Uint8Array, offset: number, orders: ByteOrders): bigint {
  if (row.field.slices.length === 0) return 0n;
  const unit = readUnit(row.field, bytes, offset, orders);
  let number = 0n;
  for (const { high, low, at } of row.field.slices) {
    const ones = (1n << BigInt(high - low + 1)) - 1n;
    number |= ((unit >> BigInt(at)) & ones) << BigInt(low);
  }
  if (row.part === 'hi20lo12') {
    const low = BigInt.asIntN(12, number);
    // The upper part is signed by itself: below -2^31 the sum has more than 32 bits.
    return BigInt.asIntN(32, number & ~0xfffn) + low;
  }
  const { shift } = shapeOf(row);
  if (isSigned(row)) number = BigInt.asIntN(row.field.widthBits, number);
  return number << shift;
}
