/**
 * Instruction tables: one row per instruction (mnemonic, bit pattern, syntax) gives encoder,
 * decoder, text, relocation places and branch reach, so they cannot disagree. Used by PowerPC,
 * RISC-V and arm64; x86-64 has its own opcode map.
 *
 * A pattern is written as the manuals draw it, most significant bit first, tokens separated by
 * blanks:
 *
 *   0110           fixed bits
 *   rd             a field whose width the ISA declares
 *   imm[11:5]      bits 11..5 of the field's value; a field may be spread over several tokens
 *   off[20|10:1]   several slices in one token, the first being the most significant
 *   ...            ignored bits, one per dot: any value decodes, zero is encoded
 *
 * In the syntax every lower-case word is a field; literal words stand in single quotes
 * (`rd, rn, 'lsl' #sh`).
 *
 * No bit position is written by hand; a field whose lowest slice ends at bit k holds multiples of
 * 2^k.
 */
import { PREBUILT_TABLES } from './prebuilt.js';
import type { DecoderData, TableData } from './table-data.js';
import { ElftraceError, hex, outOfRange } from '../errors.js';
import type { Reach } from '../bits.js';

/** What a field means. Declared once per ISA by field name. */
export interface FieldSpec {
  /**
   * `register`: number printed with `prefix` or by `names`; `displacement`: signed, relative to the
   * instruction's own address; `suffix`: one bit that appends `text` to the mnemonic (PowerPC `.`,
   * `o`; RISC-V `.aq`).
   */
  readonly kind: 'register' | 'unsigned' | 'signed' | 'displacement' | 'suffix';
  /** Bits of the value where the pattern names no slices. */
  readonly width?: number;
  readonly prefix?: string;
  readonly names?: readonly string[];
  readonly suffix?: string;
  /** Added to the raw field to give the value (RISC-V c registers: 8). */
  readonly bias?: number;
  /** Printed in hexadecimal. */
  readonly hex?: boolean;
  /** Own text for a value; wins over the rest. */
  readonly format?: (value: number) => string;
}

export type FlowClass =
  | 'next'
  | 'jump'
  | 'call'
  | 'branch'
  /** Call when `rd` is not the zero register, jump otherwise (RISC-V jal). */
  | 'call-if-link'
  | 'indirect-jump'
  | 'indirect-call'
  | 'indirect-call-if-link'
  | 'return'
  | 'syscall'
  | 'trap';

export interface RowAttributes {
  readonly flow?: FlowClass;
  /** Field values that this row does not match (they belong to another row or are reserved). */
  readonly not?: Readonly<Record<string, readonly number[]>>;
  /** Any further condition on the operands, for reserved combinations. */
  readonly when?: (operands: Operands) => boolean;
  /** Rows that this one is a special case of; it is tried before them. */
  readonly over?: readonly string[];
  /**
   * Compressed instruction: the row it stands for, and that row's operands computed from this
   * one's.
   */
  readonly expands?: { readonly to: string; readonly operands: (operands: Operands) => Operands };
  /** Only decoded and named; executing it is a stop. */
  readonly decodeOnly?: boolean;
}

export interface RowSpec<M extends string = string> {
  readonly mnemonic: M;
  readonly pattern: string;
  readonly syntax: string;
  readonly attributes: RowAttributes;
}

/**
 * Operand values by field name: registers by number, immediates sign-extended. At most 32 bits,
 * hence number.
 */
export type Operands = Readonly<Record<string, number>>;

/**
 * One row of a table. The mnemonic's type is kept so that `Mnemonic` unions can be derived from a
 * list of rows.
 */
export function row<const M extends string>(
  mnemonic: M,
  pattern: string,
  syntax: string,
  attributes: RowAttributes = {},
): RowSpec<M> {
  return { mnemonic, pattern, syntax, attributes };
}

/**
 * Text only: `mnemonic operands` of the base row printed as something shorter. Never returned by
 * decode.
 */
export interface Alias {
  readonly mnemonic: string;
  readonly of: string;
  /** Fields that must have these values. */
  readonly where: Readonly<Record<string, number>>;
  /** Any further condition, such as two equal registers. */
  readonly when?: (operands: Operands) => boolean;
  readonly syntax: string;
}

/** One piece of a field: value bits [high..low] stand at word bits [at + high - low .. at]. */
export interface Slice {
  readonly high: number;
  readonly low: number;
  readonly at: number;
  /** As many ones as the piece has bits. */
  readonly ones: number;
}

export interface RowField {
  readonly name: string;
  readonly spec: FieldSpec;
  readonly slices: readonly Slice[];
  /** Bits of the value: one more than the highest bit of a slice. */
  readonly widthBits: number;
  /** Lowest bit of a slice; the value is a multiple of 2 ** lowBit. */
  readonly lowBit: number;
  readonly signed: boolean;
  /** Of the spec; 0 where that has none. */
  readonly bias: number;
  /** Values without their bias: multiples of `step` from `min` to `max`. */
  readonly min: number;
  readonly max: number;
  readonly step: number;
}

export interface Row {
  readonly mnemonic: string;
  readonly sizeBytes: 2 | 4;
  /** Bits that must equal `match`. */
  readonly mask: number;
  readonly match: number;
  readonly fields: readonly RowField[];
  readonly syntax: string;
  readonly flow: FlowClass;
  readonly attributes: RowAttributes;
}

export interface Decoded {
  readonly row: Row;
  readonly operands: Operands;
}

export interface TableSpec {
  readonly name: string;
  readonly fields: Readonly<Record<string, FieldSpec>>;
  readonly rows: readonly RowSpec[];
  readonly aliases?: readonly Alias[];
  /** Where the target of a displacement is printed, it is printed through this. Default: `0x…`. */
  readonly formatAddress?: (address: bigint) => string;
}

function badRow(spec: RowSpec, cause: string): ElftraceError {
  return new ElftraceError('bad-row', `row ${spec.mnemonic} '${spec.pattern}': ${cause}`, { what: spec.mnemonic });
}

function slice(high: number, low: number, at: number): Slice {
  const width = high - low + 1;
  return { high, low, at, ones: width === 32 ? -1 : (1 << width) - 1 };
}

function fieldOf(name: string, spec: FieldSpec, slices: readonly Slice[]): RowField {
  let [highest, lowBit] = [0, 31];
  for (let i = 0; i < slices.length; i++) {
    const { high, low } = slices[i]!;
    if (high > highest) highest = high;
    if (low < lowBit) lowBit = low;
  }
  const widthBits = highest + 1;
  const signed = spec.kind === 'signed' || spec.kind === 'displacement';
  const step = 2 ** lowBit;
  const most = signed ? 2 ** (widthBits - 1) - 1 : 2 ** widthBits - 1;
  return {
    name,
    spec,
    slices,
    widthBits,
    lowBit,
    signed,
    bias: spec.bias ?? 0,
    min: signed ? -(2 ** (widthBits - 1)) : 0,
    max: most - (most % step),
    step,
  };
}

/** Some bits of a pattern: fixed, of a field, or of no meaning. */
interface Piece {
  readonly width: number;
  readonly fixed?: string;
  readonly field?: string;
  readonly high?: number;
  readonly low?: number;
}

function piecesOf(spec: RowSpec, fields: Readonly<Record<string, FieldSpec>>): readonly Piece[] {
  const pieces: Piece[] = [];
  for (const token of spec.pattern.trim().split(/\s+/)) {
    if (/^[01]+$/.test(token)) {
      pieces.push({ width: token.length, fixed: token });
      continue;
    }
    if (/^\.+$/.test(token)) {
      pieces.push({ width: token.length });
      continue;
    }
    const match = /^([a-z_][a-z0-9_]*)(?:\[([0-9:|]+)\])?$/.exec(token);
    if (!match) throw badRow(spec, `token '${token}' cannot be read`);
    const name = match[1]!;
    const field = fields[name];
    if (!field) throw badRow(spec, `field '${name}' is not declared`);
    if (match[2] === undefined) {
      const width = field.kind === 'suffix' ? 1 : field.width;
      if (width === undefined) throw badRow(spec, `field '${name}' has no declared width and names no slices`);
      pieces.push({ width, field: name, high: width - 1, low: 0 });
      continue;
    }
    for (const slice of match[2].split('|')) {
      const [highText, lowText] = slice.split(':');
      const high = Number(highText);
      const low = lowText === undefined ? high : Number(lowText);
      if (!(high >= low && high < 32)) throw badRow(spec, `slice '${slice}' of '${name}' is empty or too high`);
      pieces.push({ width: high - low + 1, field: name, high, low });
    }
  }
  return pieces;
}

/** A field whose slices neither overlap nor leave gaps. */
function checkedField(spec: RowSpec, name: string, field: FieldSpec, slices: readonly Slice[]): RowField {
  let covered = 0;
  for (const slice of slices) {
    for (let bit = slice.low; bit <= slice.high; bit++) {
      if (covered & (1 << bit)) throw badRow(spec, `bit ${bit} of '${name}' is given twice`);
      covered = (covered | (1 << bit)) >>> 0;
    }
  }
  const made = fieldOf(name, field, slices);
  const { widthBits, lowBit } = made;
  const wanted = (widthBits === 32 ? 0xffff_ffff : 2 ** widthBits - 1) - (2 ** lowBit - 1);
  if (covered !== wanted) throw badRow(spec, `the slices of '${name}' leave a gap`);
  return made;
}

/**
 * Parses one pattern; checks that widths add up to 16 or 32 and that a field's slices neither
 * overlap nor leave gaps. Its names are for `checkNames`: a row that is compiled because a word is
 * of it is one of a table that tests have checked.
 */
export function compileRow(spec: RowSpec, fields: Readonly<Record<string, FieldSpec>>): Row {
  const pieces = piecesOf(spec, fields);
  const total = pieces.reduce((sum, piece) => sum + piece.width, 0);
  if (total !== 16 && total !== 32) throw badRow(spec, `the widths add up to ${total} bits`);
  let mask = 0;
  let match = 0;
  let at = total;
  const slicesOf = new Map<string, Slice[]>();
  for (const piece of pieces) {
    at -= piece.width;
    if (piece.fixed !== undefined) {
      const ones = piece.width === 32 ? 0xffff_ffff : 2 ** piece.width - 1;
      mask = (mask | (ones << at)) >>> 0;
      match = (match | (Number.parseInt(piece.fixed, 2) << at)) >>> 0;
    } else if (piece.field !== undefined) {
      const list = slicesOf.get(piece.field) ?? [];
      list.push(slice(piece.high!, piece.low!, at));
      slicesOf.set(piece.field, list);
    }
  }
  const rowFields = [...slicesOf].map(([name, slices]) => checkedField(spec, name, fields[name]!, slices));
  return {
    mnemonic: spec.mnemonic,
    sizeBytes: total === 16 ? 2 : 4,
    mask,
    match,
    fields: rowFields,
    syntax: spec.syntax,
    flow: spec.attributes.flow ?? 'next',
    attributes: spec.attributes,
  };
}

/**
 * Every name of the syntax and of `not` is a field, and every field is in the syntax (suffixes are
 * in the mnemonic).
 */
function checkNames(spec: RowSpec, row: Row): void {
  const fields = new Set(row.fields.map((each) => each.name));
  const named = new Set(row.syntax.replace(/'[^']*'/g, ' ').match(/[a-z_][a-z0-9_]*/g) ?? []);
  for (const name of named) {
    if (!fields.has(name)) throw badRow(spec, `the syntax names '${name}', which is no field of the pattern`);
  }
  for (const field of row.fields) {
    if (field.spec.kind !== 'suffix' && !named.has(field.name)) {
      throw badRow(spec, `field '${field.name}' is not in the syntax`);
    }
  }
  for (const name in row.attributes.not ?? {}) {
    if (!fields.has(name)) throw badRow(spec, `'not' names '${name}', which is no field of the pattern`);
  }
}

/**
 * Value of a field in a word: sign-extended where the kind says so, low zero bits put back, bias
 * added.
 */
export function extractField(field: RowField, word: number): number {
  let value = 0;
  const { slices, bias } = field;
  for (let i = 0; i < slices.length; i++) {
    const { low, at, ones } = slices[i]!;
    value |= ((word >>> at) & ones) << low;
  }
  if (!field.signed) return (value >>> 0) + bias;
  const shift = 32 - field.widthBits;
  return ((value << shift) >> shift) + bias;
}

/** `word` with the field replaced; range and alignment errors name row and field. */
export function insertField(field: RowField, word: number, value: number, mnemonic: string): number {
  const raw = value - field.bias;
  const { min, max, step } = field;
  if (!Number.isInteger(raw)) {
    throw new ElftraceError('operand-out-of-range', `${mnemonic}: operand ${field.name}: ${value} is no integer`, {
      symbol: mnemonic,
      value,
    });
  }
  if (raw < min || raw > max || raw % step !== 0) {
    throw outOfRange(
      'operand-out-of-range',
      `${mnemonic}: operand ${field.name}`,
      BigInt(raw),
      BigInt(min),
      BigInt(max),
      {
        symbol: mnemonic,
      },
    );
  }
  let out = word;
  for (const { low, at, ones } of field.slices) {
    const bits = ((raw >> low) & ones) >>> 0;
    out = ((out & ~(ones << at)) | (bits << at)) >>> 0;
  }
  return out;
}

/** Bits of the number that chooses a list. */
const KEY_BITS = 9;

/** The bit positions that most rows fix, ascending. */
function chooseKey(rows: readonly Row[], bits: number): number[] {
  const counts: { bit: number; count: number }[] = [];
  for (let bit = 0; bit < bits; bit++) {
    let [one, zero] = [0, 0];
    for (const { mask, match } of rows) {
      if (((mask & match) >>> bit) & 1) one++;
      else if ((mask >>> bit) & 1) zero++;
    }
    // A bit that is fixed in many rows and splits them evenly is worth most.
    counts.push({ bit, count: Math.min(one, zero) * 4 + one + zero });
  }
  return counts
    .sort((a, b) => b.count - a.count)
    .slice(0, Math.min(KEY_BITS, bits))
    .map((each) => each.bit)
    .sort((a, b) => a - b);
}

/** @param rows  of one size, with their numbers, first to be tried first */
function decoderData(rows: readonly (readonly [row: Row, number: number])[], bits: number): DecoderData {
  const chosen = chooseKey(
    rows.map(([each]) => each),
    bits,
  );
  const key: number[] = [];
  let [runs, width] = [0, 0];
  chosen.forEach((bit, place) => {
    if (place === 0 || chosen[place - 1] !== bit - 1) {
      runs = key.push(bit, 0, place);
      width = 0;
    }
    key[runs - 2] = (1 << ++width) - 1;
  });
  const spread = (value: number): number =>
    chosen.reduce((sum, bit, place) => sum | (((value >>> place) & 1) << bit), 0);
  const [list, starts]: [number[], number[]] = [[], [0]];
  for (let value = 0; value < 1 << chosen.length; value++) {
    const [mask, match] = [spread(-1), spread(value)];
    for (const [each, number] of rows) if (((each.match ^ match) & each.mask & mask) === 0) list.push(number);
    starts.push(list.length);
  }
  return { key, list, starts };
}

function tableData({ rows, fields }: TableSpec): TableData {
  const compiled = rows.map((each) => compileRow(each, fields));
  const numbers = new Map<string, number>();
  const distinct: [string, ...number[]][] = [];
  const numberOf = ({ name, slices }: RowField): number => {
    const data: [string, ...number[]] = [name, ...slices.flatMap(({ high, low, at }) => [high, low, at])];
    const text = data.join();
    const known = numbers.get(text);
    if (known !== undefined) return known;
    numbers.set(text, distinct.length);
    return distinct.push(data) - 1;
  };
  // More specific rows first, so that `over` rows win; among equally specific ones those that are
  // over others.
  const ordered = compiled.map((each, number) => [each, number] as const).sort(([a], [b]) => rank(b) - rank(a));
  const ofSize = (sizeBytes: 2 | 4): DecoderData =>
    decoderData(
      ordered.filter(([each]) => each.sizeBytes === sizeBytes),
      8 * sizeBytes,
    );
  return {
    // Signed, so that no number is larger than V8 keeps in place.
    rows: compiled.map((each) => [each.sizeBytes, each.mask | 0, each.match | 0, ...each.fields.map(numberOf)]),
    fields: distinct,
    decoders: { 2: ofSize(2), 4: ofSize(4) },
  };
}

function popcount(value: number): number {
  const pairs = value - ((value >>> 1) & 0x5555_5555);
  const nibbles = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333);
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

/**
 * Order of decoding: rows with more fixed bits first, among equal ones those that are over others.
 */
function rank({ mask, attributes }: Row): number {
  return 2 * popcount(mask) + (attributes.over ? 1 : 0);
}

/** The operands are not among those that the row gives up. */
function isOf({ attributes: { not, when } }: Row, operands: Operands): boolean {
  if (not) for (const name in not) if (not[name]!.includes(operands[name]!)) return false;
  return !when || when(operands);
}

/**
 * A checked table. `decode*` never throw on content; `encode` throws on operands that do not fit.
 */
export class IsaTable {
  readonly name: string;
  private readonly numbers = new Map<string, number>();
  /** By number; made when a word is of it or it is asked for. */
  private readonly compiled: (Row | undefined)[];
  /** By number in `TableData`. */
  private readonly fields: (RowField | undefined)[] = [];
  private readonly aliases = new Map<string, Alias[]>();
  private readonly formatAddress: (address: bigint) => string;

  /**
   * @param mode  `checked` (default) compiles and checks every row at once. `deferred` compiles a
   *              row when it is first asked
   *              for or a word is of it, and takes what the bundle has made of the patterns: a
   *              program that looks at one machine must not pay for the tables of four at its
   *              start. The tests then call `check()`.
   * @param known  what the patterns come to, where it was worked out before
   */
  constructor(
    readonly spec: TableSpec,
    mode: 'checked' | 'deferred' = 'checked',
    private known: TableData | undefined = undefined,
  ) {
    this.name = spec.name;
    const { rows } = spec;
    this.compiled = new Array<undefined>(rows.length).fill(undefined);
    for (let number = 0; number < rows.length; number++) this.numbers.set(rows[number]!.mnemonic, number);
    if (this.numbers.size < rows.length) {
      const twice = rows.find((each, number) => this.numbers.get(each.mnemonic) !== number)!;
      throw badRow(twice, 'the mnemonic is given twice');
    }
    for (const alias of spec.aliases ?? []) {
      if (!this.numbers.has(alias.of)) {
        throw new ElftraceError('bad-row', `alias ${alias.mnemonic}: no row '${alias.of}'`, { what: alias.mnemonic });
      }
      const list = this.aliases.get(alias.of) ?? [];
      list.push(alias);
      this.aliases.set(alias.of, list);
    }
    this.formatAddress = spec.formatAddress ?? hex;
    if (mode === 'checked') this.check();
  }

  /** Every row, compiled, in the order of the table. */
  get rows(): readonly Row[] {
    return this.spec.rows.map((_, number) => this.rowAt(number));
  }

  /**
   * Compiles every row, compares each with each, looks aliases up; throws 'bad-row' for the first
   * contradiction.
   */
  check(): void {
    for (const list of this.aliases.values()) for (const alias of list) this.checkAlias(alias);
    for (const each of this.spec.rows) checkNames(each, this.row(each.mnemonic));
    this.checkOverlaps(this.rows);
  }

  /** What the patterns come to. */
  get data(): TableData {
    return (this.known ??= PREBUILT_TABLES.get(this.name)?.() ?? tableData(this.spec));
  }

  private rowAt(number: number): Row {
    return (this.compiled[number] ??= this.known
      ? this.fromData(number)
      : compileRow(this.spec.rows[number]!, this.spec.fields));
  }

  private fromData(number: number): Row {
    const { mnemonic, syntax, attributes } = this.spec.rows[number]!;
    const data = this.data.rows[number]!;
    const fields: RowField[] = [];
    for (let i = 3; i < data.length; i++) fields.push((this.fields[data[i]!] ??= this.fieldAt(data[i]!)));
    return {
      mnemonic,
      sizeBytes: data[0] === 2 ? 2 : 4,
      mask: data[1]! >>> 0,
      match: data[2]! >>> 0,
      fields,
      syntax,
      flow: attributes.flow ?? 'next',
      attributes,
    };
  }

  private fieldAt(number: number): RowField {
    const [name, ...places] = this.data.fields[number]!;
    const slices: Slice[] = [];
    for (let i = 0; i < places.length; i += 3) slices.push(slice(places[i]!, places[i + 1]!, places[i + 2]!));
    return fieldOf(name, this.spec.fields[name]!, slices);
  }

  /** Every name of an alias is a field of its row. */
  private checkAlias(alias: Alias): void {
    const { fields } = this.row(alias.of);
    const names = alias.syntax.replace(/'[^']*'/g, ' ').match(/[a-z_][a-z0-9_]*/g) ?? [];
    for (const name of [...names, ...Object.keys(alias.where)]) {
      if (!fields.some((field) => field.name === name)) {
        throw new ElftraceError('bad-row', `alias ${alias.mnemonic}: ${alias.of} has no field '${name}'`, {
          what: alias.mnemonic,
        });
      }
    }
  }

  /** A row that is `over` another is tried before it wherever both match. */
  private checkOver(each: Row): void {
    for (const name of each.attributes.over ?? []) {
      const base = this.has(name) ? this.row(name) : undefined;
      const wins =
        base !== undefined && (((base.match ^ each.match) & base.mask & each.mask) !== 0 || rank(each) > rank(base));
      if (!wins) {
        throw new ElftraceError(
          'bad-row',
          `${this.name}: ${each.mnemonic} is over ${name}, but is not tried before it`,
          {
            what: `${each.mnemonic}, ${name}`,
          },
        );
      }
    }
  }

  /**
   * Two rows may match one word only where the more specific one says so with `over`, or excludes
   * it with `not`/`when`.
   */
  private checkOverlaps(rows: readonly Row[]): void {
    for (let i = 0; i < rows.length; i++) {
      const a = rows[i]!;
      this.checkOver(a);
      for (let j = i + 1; j < rows.length; j++) {
        const b = rows[j]!;
        if (a.sizeBytes !== b.sizeBytes || (a.match ^ b.match) & a.mask & b.mask) continue;
        const declared =
          a.attributes.over?.includes(b.mnemonic) ||
          b.attributes.over?.includes(a.mnemonic) ||
          this.excluded(a, b) ||
          this.excluded(b, a);
        if (!declared) {
          throw new ElftraceError(
            'bad-row',
            `${this.name}: rows ${a.mnemonic} and ${b.mnemonic} match the same words`,
            {
              what: `${a.mnemonic}, ${b.mnemonic}`,
            },
          );
        }
      }
    }
  }

  /** True when `a` gives up, by `not`, every word that the fixed bits of `b` leave to it. */
  private excluded(a: Row, b: Row): boolean {
    for (const [name, values] of Object.entries(a.attributes.not ?? {})) {
      const field = a.fields.find((each) => each.name === name);
      if (!field) continue;
      let fieldMask = 0;
      for (const { high, low, at } of field.slices) fieldMask |= (2 ** (high - low + 1) - 1) << at;
      // Every value that the bits which `b` leaves free can give must be among those given up.
      const free: number[] = [];
      for (let bit = 0; bit < 32; bit++) if (((fieldMask & ~b.mask) >>> bit) & 1) free.push(bit);
      if (free.length > 6) continue;
      let all = true;
      for (let choice = 0; choice < 1 << free.length && all; choice++) {
        let word = b.match;
        free.forEach((bit, i) => {
          if ((choice >>> i) & 1) word = (word | (1 << bit)) >>> 0;
        });
        all = values.includes(extractField(field, word));
      }
      if (all) return true;
    }
    return false;
  }

  /** The row of a mnemonic; throws for a name that the table does not have. */
  row(mnemonic: string): Row {
    const number = this.numbers.get(mnemonic);
    if (number === undefined) {
      throw new ElftraceError('unknown-instruction', `${this.name}: no instruction '${mnemonic}'`, { what: mnemonic });
    }
    return this.rowAt(number);
  }

  has(mnemonic: string): boolean {
    return this.numbers.has(mnemonic);
  }

  /** Row and operands of a word of 2 or 4 bytes, or null. */
  decode(word: number, sizeBytes: 2 | 4 = 4): Decoded | null {
    const { rows, decoders } = this.known ?? this.data;
    const { key, list, starts } = decoders[sizeBytes];
    let which = 0;
    for (let i = 0; i < key.length; i += 3) which |= ((word >>> key[i]!) & key[i + 1]!) << key[i + 2]!;
    const end = starts[which + 1]!;
    for (let at = starts[which]!; at < end; at++) {
      const number = list[at]!;
      const data = rows[number]!;
      if ((word & data[1]!) !== data[2]!) continue;
      const row = this.compiled[number] ?? this.rowAt(number);
      const { fields } = row;
      const operands: Record<string, number> = {};
      for (let i = 0; i < fields.length; i++) operands[fields[i]!.name] = extractField(fields[i]!, word);
      if (isOf(row, operands)) return { row, operands };
    }
    return null;
  }

  /** The word of an instruction. Every field must be given; suffix fields default to 0. */
  encode(mnemonic: string, operands: Operands): number {
    const found = this.row(mnemonic);
    let word = found.match;
    for (const field of found.fields) {
      const value = operands[field.name] ?? (field.spec.kind === 'suffix' ? 0 : undefined);
      if (value === undefined) {
        throw new ElftraceError('operand-out-of-range', `${mnemonic}: operand ${field.name} is missing`, {
          symbol: mnemonic,
        });
      }
      word = insertField(field, word, value, mnemonic);
    }
    for (const name in operands) {
      if (!found.fields.some((field) => field.name === name)) {
        throw new ElftraceError('operand-out-of-range', `${mnemonic}: no operand ${name}`, { symbol: mnemonic });
      }
    }
    return word >>> 0;
  }

  /** A field of a row: what a relocation or a patcher inserts into and extracts from. */
  field(mnemonic: string, name: string): RowField {
    const found = this.row(mnemonic).fields.find((each) => each.name === name);
    if (!found)
      throw new ElftraceError('bad-row', `${this.name}: ${mnemonic} has no field '${name}'`, { what: mnemonic });
    return found;
  }

  /** Displacements that the row's pc-relative field can encode. */
  reach(mnemonic: string): Reach {
    const field = this.row(mnemonic).fields.find((each) => each.spec.kind === 'displacement');
    if (!field) throw new ElftraceError('bad-row', `${this.name}: ${mnemonic} has no displacement`, { what: mnemonic });
    const half = 1n << BigInt(field.widthBits - 1);
    const step = 1n << BigInt(field.lowBit);
    return { min: -half, max: half - step, alignBytes: Number(step) };
  }

  /**
   * Text of a decoded word; with `aliases: false` the plain row, as `objdump -M raw` or
   * `no-aliases` prints it.
   */
  format(decoded: Decoded, address: bigint, options: { readonly aliases?: boolean } = {}): string {
    const { row: found, operands } = decoded;
    let mnemonic: string = found.mnemonic;
    let syntax = found.syntax;
    if (options.aliases !== false) {
      for (const alias of this.aliases.get(mnemonic) ?? []) {
        if (
          Object.entries(alias.where).every(([name, value]) => operands[name] === value) &&
          (alias.when?.(operands) ?? true)
        ) {
          mnemonic = alias.mnemonic;
          syntax = alias.syntax;
          break;
        }
      }
    }
    for (const field of found.fields) {
      if (field.spec.kind === 'suffix' && operands[field.name] === 1) mnemonic += field.spec.suffix ?? '';
    }
    const text = syntax.replace(/'[^']*'|[a-z_][a-z0-9_]*/g, (name) => {
      if (name.startsWith("'")) return name.slice(1, -1);
      const field = found.fields.find((each) => each.name === name);
      return field ? this.formatOperand(field, operands[name]!, address) : name;
    });
    return text === '' ? mnemonic : `${mnemonic} ${text}`;
  }

  private formatOperand(field: RowField, value: number, address: bigint): string {
    const { spec } = field;
    if (spec.format) return spec.format(value);
    switch (spec.kind) {
      case 'register':
        return spec.names?.[value] ?? `${spec.prefix ?? ''}${value}`;
      case 'displacement':
        return this.formatAddress(BigInt.asUintN(64, address + BigInt(value)));
      case 'signed':
      case 'unsigned':
        return spec.hex ? hex(value) : String(value);
      case 'suffix':
        return '';
      default:
        return spec.kind satisfies never;
    }
  }
}
