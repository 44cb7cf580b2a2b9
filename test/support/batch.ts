/**
 * What the batches of all machines share (`arm64-batch.ts`, `ppc-batch.ts`, `riscv-batch.ts`,
 * `x86-batch.ts`): random numbers, running a program here and outside, comparing the two outputs,
 * and the record of what was executed, from which the coverage table is checked.
 *
 * The second half is for the machines whose rows are in an instruction table: planning variants of
 * the rows, and the program made of them. That is a driver, one short routine per **variant** (a
 * row with chosen registers, immediates and suffixes), and tables of inputs; the driver calls each
 * routine with each of its inputs and appends a record of the results to a buffer, which it writes
 * out at the end. Routines that access memory get 256 fresh bytes, in the middle of which a page
 * ends. The driver's instructions are the machine's own.
 */
import { isLong } from './long.js';
import { Random } from './random.js';
import { spawnSync } from './spawn.js';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Arch } from '../../src/machine/arch.js';
import { readElf } from '../../src/elf/read.js';
import { startProcess } from '../../src/guest/index.js';
import type { Machine } from '../../src/emulator/index.js';
import type { IsaTable, Operands, Row } from '../../src/isa/table.js';

// ------------------------------------------------------------------------------------------ inputs

/** The seed of the variants; that of the inputs is the usual one. */
export const VARIANT_SEED = 0x1234_5677;

/** Signs and carries of both widths of a 64-bit machine, shift counts around them. */
export const CORNERS_64: readonly bigint[] = [
  0n, 1n, -1n, 1n << 63n, (1n << 63n) - 1n, 0x8000_0000n, 0x7fff_ffffn, -0x8000_0000n, 0xffff_ffffn, 1n << 32n, 31n, 32n, 63n,
  64n,
]; // prettier-ignore

/** Numbers with something special about them: exponent and fraction of a double, of a single. */
export function floatCorners(exponentBits: number, fractionBits: number): readonly bigint[] {
  const f = BigInt(fractionBits);
  const bias = (1n << BigInt(exponentBits - 1)) - 1n;
  const top = (1n << BigInt(exponentBits)) - 1n;
  const number = (exponent: bigint, fraction: bigint): bigint => (exponent << f) | fraction;
  const all = (1n << f) - 1n;
  const magnitudes = [
    0n, 1n, 2n, all, number(1n, 0n), number(1n, 1n), number(1n, all), number(2n, 0n), number(bias - f, 0n), number(bias - 1n, 0n),
    number(bias - 1n, all), number(bias, 0n), number(bias, 1n), number(bias, all), number(bias, 1n << (f - 1n)),
    number(bias + 1n, 1n << (f - 2n)), number(bias + f, 1n), number(bias + f + 1n, all), number(bias + 31n, 0n),
    number(bias + 63n, 0n), number(top - 1n, all), number(top - 1n, 0n), number(top, 0n), number(top, 1n), number(top, (1n << (f - 1n)) | 5n),
  ]; // prettier-ignore
  return [...magnitudes, ...magnitudes.map((each) => each | (1n << BigInt(exponentBits + fractionBits)))];
}

// --------------------------------------------------------------------------------------- execution

/** The status with which the driver of every machine exits: no other end counts. */
const FINISHED = 5;

/**
 * What the program writes when it runs here; `where` says of the machine that stopped before the
 * end what was being executed.
 */
export function runHere(
  { emulation, abi }: Pick<Arch, 'emulation' | 'abi'>,
  program: Uint8Array,
  where = (_machine: Machine): string => 'the program stopped',
): Buffer {
  if (emulation.kind === 'none') throw new Error(emulation.reason);
  const chunks: Uint8Array[] = [];
  const onOutput = (_descriptor: number, part: Uint8Array): void => {
    chunks.push(part);
  };
  const started = startProcess({ image: readElf(program), emulation, abi, onOutput });
  const stop = started.run();
  if (stop.kind !== 'exit' || stop.code !== FINISHED) {
    const text = JSON.stringify(stop, (_, value: unknown) =>
      typeof value === 'bigint' ? `0x${value.toString(16)}` : value,
    );
    throw new Error(`${where(started.machine)}: ${text}`);
  }
  return Buffer.concat(chunks);
}

/** What a program wrote; null with the reason when it did not finish. */
export interface Outside {
  readonly output: Buffer | null;
  readonly why: string;
}

/** Runs the program at a path under a command (`[]`: on this processor). */
export function runOutside(command: readonly string[], path: string): Outside {
  const [name, ...args] = [...command, path];
  const result = spawnSync(name!, args, { maxBuffer: 1 << 30 });
  if (result.error) throw result.error;
  return result.status === FINISHED
    ? { output: result.stdout, why: '' }
    : { output: null, why: `status ${String(result.status)} signal ${String(result.signal)}` };
}

/** Runs a program that is not in a file. */
export function runQemu(command: readonly string[], program: Uint8Array): Outside {
  const folder = mkdtempSync(join(tmpdir(), 'elftrace-batch-'));
  try {
    const path = join(folder, 'batch');
    writeFileSync(path, program, { mode: 0o755 });
    return runOutside(command, path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// ---------------------------------------------------------------------------------------- coverage

/** Least number of cases of a row. */
export const MIN_CASES = 200;

/** What was executed of one row. */
interface CoverageRecord<Aspect> {
  readonly row: string;
  variants: number;
  cases: number;
  readonly aspects: Set<Aspect>;
  readonly comparedWith: Set<string>;
}

/** What was executed, by row. */
export class RowCoverage<Aspect extends string> {
  private readonly rows = new Map<string, CoverageRecord<Aspect>>();

  of(row: string): CoverageRecord<Aspect> {
    let found = this.rows.get(row);
    if (!found) {
      found = { row, variants: 0, cases: 0, aspects: new Set(), comparedWith: new Set() };
      this.rows.set(row, found);
    }
    return found;
  }

  add(row: string, cases: number, aspects: Iterable<Aspect>, comparedWith: string): void {
    const record = this.of(row);
    record.variants++;
    record.cases += cases;
    for (const each of aspects) record.aspects.add(each);
    record.comparedWith.add(comparedWith);
  }

  /** What the record lacks of what the row must have shown: one text, or none. */
  lacks(row: string, required: readonly Aspect[], leastCases = MIN_CASES): string[] {
    const record = this.of(row);
    const lacks: string[] = required.filter((each) => !record.aspects.has(each));
    if (record.variants === 0) lacks.unshift('any test');
    else if (record.cases < leastCases) lacks.unshift(`${leastCases - record.cases} cases`);
    return lacks.length > 0 ? [`${row}: ${lacks.join(', ')}`] : [];
  }

  /** The table as text: a line for each row, which begins with `name`. */
  table(heading: string, name: (row: string) => string): string {
    const lines = [`${heading} variants    cases  shown; compared with`];
    let total = 0;
    for (const { row, variants, cases, aspects, comparedWith } of this.rows.values()) {
      const numbers = `${String(variants).padStart(8)} ${String(cases).padStart(8)}`;
      lines.push(`${name(row)} ${numbers}  ${[...aspects].join(', ')}; ${[...comparedWith].join(', ')}`);
      total += cases;
    }
    lines.push(`${this.rows.size} rows, ${total} cases`);
    return lines.join('\n');
  }
}

// -------------------------------------------------------------------------------------- comparison

export interface BatchResult {
  readonly cases: number;
  readonly differences: readonly string[];
}

/** Words of a record: the first ones have names. */
export interface RecordWords {
  readonly names: readonly string[];
  readonly bytes: 4 | 8;
  readonly little: boolean;
}

/** How the outputs of the variants are compared and recorded. Inputs are indices. */
export interface Checking<V, Aspect extends string> {
  readonly words: RecordWords;
  readonly recordBytes: (variant: V) => number;
  readonly row: (variant: V) => string;
  /** The variant and one of its inputs in a report. */
  readonly text: (variant: V, input: number) => string;
  /** True when an access of the variant crosses the end of the page with one of its inputs. */
  readonly crosses: (variant: V) => boolean;
  /** What the coverage calls the aspect of `crosses`. */
  readonly crossing: Aspect;
  /** True for records that may differ. */
  readonly excused?: (variant: V, input: number) => boolean;
  /** True for words of a record that may differ. */
  readonly ignored?: (variant: V, input: number, index: number, got: bigint, want: bigint) => boolean;
}

/** An input in a report. */
export const inputText = (input: Readonly<Record<string, bigint>>): string =>
  Object.entries(input)
    .map(([name, value]) => `${name}=${value.toString(16)}`)
    .join(' ');

/** Texts of the first differences of two outputs, and their number by row. */
function differences<V extends { readonly inputs: readonly number[] }>(
  variants: readonly V[],
  ours: Buffer,
  theirs: Buffer,
  checking: Omit<Checking<V, string>, 'crosses' | 'crossing'>,
): string[] {
  const { names, bytes, little } = checking.words;
  const read = ({ buffer, byteOffset, length }: Buffer): ((at: number) => bigint) => {
    const view = new DataView(buffer, byteOffset, length);
    return (at) => (bytes === 8 ? view.getBigUint64(at, little) : BigInt(view.getUint32(at, little)));
  };
  const [our, their] = [read(ours), read(theirs)];
  const out: string[] = [];
  if (ours.length !== theirs.length) out.push(`${ours.length} bytes instead of ${theirs.length}`);
  let at = 0;
  const perRow = new Map<string, number>();
  for (const variant of variants) {
    const size = checking.recordBytes(variant);
    for (const input of variant.inputs) {
      const here = at;
      at += size;
      if (ours.compare(theirs, here, here + size, here, here + size) === 0) continue;
      if (checking.excused?.(variant, input) === true) continue;
      const parts: string[] = [];
      for (let i = 0; i * bytes < size; i++) {
        const [got, want] = [our(here + i * bytes), their(here + i * bytes)];
        if (got === want || checking.ignored?.(variant, input, i, got, want) === true) continue;
        const name = names[i] ?? `+${(i - names.length) * bytes}`;
        parts.push(`${name}=${got.toString(16)} instead of ${want.toString(16)}`);
      }
      if (parts.length === 0) continue;
      const row = checking.row(variant);
      const seen = perRow.get(row) ?? 0;
      perRow.set(row, seen + 1);
      if (seen < 3 && out.length < 40) out.push(`${checking.text(variant, input)}: ${parts.slice(0, 4).join(', ')}`);
    }
  }
  for (const [row, count] of perRow) out.push(`${row}: ${count} differences`);
  return out;
}

/**
 * Compares what a program of these variants wrote here with what it wrote elsewhere, and records
 * what was executed.
 */
export function check<
  Aspect extends string,
  V extends { readonly inputs: readonly number[]; readonly aspects: readonly Aspect[] },
>(
  variants: readonly V[],
  ours: Buffer,
  { output, why }: Outside,
  comparedWith: string,
  coverage: RowCoverage<Aspect>,
  checking: Checking<V, Aspect>,
): BatchResult {
  if (!output) return { cases: 0, differences: [`${comparedWith} did not finish: ${why}`] };
  let cases = 0;
  for (const each of variants) {
    cases += each.inputs.length;
    const aspects = checking.crosses(each) ? [...each.aspects, checking.crossing] : each.aspects;
    coverage.add(checking.row(each), each.inputs.length, aspects, comparedWith);
  }
  return { cases, differences: differences(variants, ours, output, checking) };
}

// -------------------------------------------------------------------------- variants of table rows

/**
 * Registers before the instruction; `offset` is that of the address register, from the middle of
 * the memory.
 */
export type RowInput<Field extends string> = Readonly<Record<Field | 'offset', bigint>>;

export interface RowVariant<Input, Aspect extends string> {
  readonly row: string;
  /** The routine without its return; some need its address. */
  readonly lines: readonly RowLine[] | ((address: number) => readonly RowLine[]);
  readonly memory: boolean;
  readonly aspects: readonly Aspect[];
  /** Indices of inputs. */
  readonly inputs: readonly number[];
  /** Bytes accessed, and where from the middle of the memory: for counting page crossings. */
  readonly access?: { readonly bytes: number; readonly place: (input: Input) => bigint };
  /** True where the manual leaves the result of this input undefined. */
  readonly undefinedResult?: (input: Input) => boolean;
  /** True where qemu is wrong (`QEMU_DIFFERENCES` of the machine). */
  readonly qemuWrong?: (input: Input) => boolean;
}

/** One instruction of a table: mnemonic and operands by field name. */
export type RowLine = readonly [mnemonic: string, operands?: Operands];

export function encodeLines(table: IsaTable, lines: readonly RowLine[], little = true): Uint8Array {
  const out = new Uint8Array(lines.reduce((sum, [mnemonic]) => sum + table.row(mnemonic).sizeBytes, 0));
  const view = new DataView(out.buffer);
  let at = 0;
  for (const [mnemonic, operands] of lines) {
    const word = table.encode(mnemonic, operands ?? {});
    const size = table.row(mnemonic).sizeBytes;
    if (size === 2) view.setUint16(at, word, little);
    else view.setUint32(at, word, little);
    at += size;
  }
  return out;
}

/** True when the word of the operands is of this row; throws for operands that do not fit it. */
export function makes(table: IsaTable, row: Row, operands: Operands): boolean {
  return table.decode(table.encode(row.mnemonic, operands), row.sizeBytes)?.row.mnemonic === row.mnemonic;
}

/** The same where operands may not fit. */
export function encodes(table: IsaTable, row: Row, operands: Operands): boolean {
  try {
    return makes(table, row, operands);
  } catch {
    return false;
  }
}

/**
 * Variants with each n-th of their inputs; all of them where a row would come below its number of
 * cases.
 */
export function thinned<V extends { readonly inputs: readonly number[] }>(
  variants: readonly V[],
  every: number,
  rowOf: (variant: V) => unknown,
): V[] {
  // How many there were is asked where long proofs run.
  const least = isLong ? MIN_CASES : MIN_CASES / 20;
  const cases = new Map<unknown, number>();
  for (const each of variants) {
    const row = rowOf(each);
    cases.set(row, (cases.get(row) ?? 0) + Math.ceil(each.inputs.length / every));
  }
  return variants.map((each) =>
    cases.get(rowOf(each))! < least ? each : { ...each, inputs: each.inputs.filter((_, i) => i % every === 0) },
  );
}

/** Collects variants, each with a part of the inputs. */
export abstract class RowPlanner<Input, Aspect extends string> {
  readonly variants: RowVariant<Input, Aspect>[] = [];
  protected readonly random = new Random(VARIANT_SEED);
  private turn = 0;

  /** Indices of `limit` of the inputs, others each time. */
  protected range([first, count]: readonly [first: number, count: number], limit = count, step = 1): number[] {
    const start = limit === count ? 0 : (this.turn += 7);
    return Array.from({ length: Math.min(limit, count) }, (_, i) => first + ((start + step * i) % count));
  }

  protected add(
    row: string,
    lines: RowVariant<Input, Aspect>['lines'],
    inputs: readonly number[],
    rest: Partial<RowVariant<Input, Aspect>> = {},
  ): void {
    this.variants.push({ row, lines, inputs, memory: false, aspects: [], ...rest });
  }
}

const linesAt = ({ lines }: Pick<RowVariant<never, never>, 'lines'>, address: number): readonly RowLine[] =>
  typeof lines === 'function' ? lines(address) : lines;

/**
 * How variants of rows are compared: what they say of themselves, and what the machine says of its
 * records.
 */
export function rowChecking<Input extends RowInput<never>, Aspect extends string>(
  inputs: readonly Input[],
  machine: Pick<Checking<RowVariant<Input, Aspect>, Aspect>, 'words' | 'recordBytes' | 'ignored'>,
  row: (mnemonic: string) => string = (mnemonic) => mnemonic,
): Checking<RowVariant<Input, Aspect>, Aspect | 'page-crossing'> {
  return {
    ...machine,
    row: (variant) => row(variant.row),
    // The longest branches jump over thousands of lines.
    text: (variant, input) =>
      `${row(variant.row)} ${JSON.stringify(linesAt(variant, TEXT).slice(0, 16))} with ${inputText(inputs[input]!)}`,
    crosses: ({ access, inputs: own }) =>
      access !== undefined &&
      own.some((index) => {
        const at = access.place(inputs[index]!);
        return at < 0n && at + BigInt(access.bytes) > 0n;
      }),
    crossing: 'page-crossing',
    excused: (variant, input) => variant.qemuWrong?.(inputs[input]!) === true,
  };
}

// ------------------------------------------------------------------------------------- the program

const TEXT = 0x100_0000;
export const DATA = 0x200_0000;
const RESULTS = 0x400_0000;
/** Middle of the memory of the routines: the end of a page. */
export const MIDDLE = 0x300_1000;
/** Bytes of that memory on each side of the middle. */
export const HALF = 128;
const HEADER_BYTES = 0x200;

/** A line of the driver: a label, a branch to one, or an instruction. */
export type Item =
  RowLine | { readonly label: string } | { readonly to: string; readonly branch: (displacement: number) => RowLine };

/** Addresses that the driver needs. */
export interface Layout {
  readonly results: number;
  readonly resultBytes: number;
  /** What the memory of the routines holds before each. */
  readonly pattern: number;
  /** Addresses of the inputs of each variant, one after the other. */
  readonly pointers: number;
  /**
   * For each variant the address of its routine, the number of its inputs, and whether it has
   * memory.
   */
  readonly variants: number;
  readonly variantsEnd: number;
}

export interface BatchMachine<Input> {
  readonly table: IsaTable;
  readonly elf: {
    readonly machine: number;
    readonly flags: number;
    readonly bits: 32 | 64;
    readonly little: boolean;
  };
  /**
   * The tables of pointers and variants: their words, the bytes of an entry of the second and its
   * alignment.
   */
  readonly tables: { readonly wordBytes: 4 | 8; readonly entryBytes: number; readonly alignment: number };
  /** Words of an input, in their order in the program, and the bytes from one input to the next. */
  readonly inputFields: readonly (keyof Input)[];
  readonly inputBytes: number;
  readonly recordBytes: (variant: { readonly memory: boolean }) => number;
  readonly driver: (layout: Layout) => readonly Item[];
  /** The end of each routine. */
  readonly back: RowLine;
}

function assemble(table: IsaTable, items: readonly Item[], little: boolean): Uint8Array {
  const places: number[] = [];
  const labels = new Map<string, number>();
  let at = 0;
  for (const item of items) {
    places.push(at);
    if ('label' in item) labels.set(item.label, at);
    else at += table.row(('branch' in item ? item.branch(0) : item)[0]).sizeBytes;
  }
  const lines: RowLine[] = [];
  items.forEach((item, i) => {
    if ('label' in item) return;
    lines.push('branch' in item ? item.branch(labels.get(item.to)! - places[i]!) : item);
  });
  return encodeLines(table, lines, little);
}

/** The executable of these variants. */
export function buildProgram<Input extends RowInput<never>, Aspect extends string>(
  { table, elf, tables, inputFields, inputBytes, recordBytes, driver, back }: BatchMachine<Input>,
  inputs: readonly Input[],
  variants: readonly RowVariant<Input, Aspect>[],
): Uint8Array {
  const { bits, little } = elf;
  const wordBytes = bits / 8;
  const resultBytes = variants.reduce((sum, each) => sum + each.inputs.length * recordBytes(each), 0);
  // Inputs of one variant must be in a row: slices wrap around, so each run gets its own list of
  // pointers.
  const pointers = variants.flatMap((each) => each.inputs);
  const patternAt = DATA + inputs.length * inputBytes;
  const pointersAt = patternAt + 2 * HALF;
  const variantsAt = Math.ceil((pointersAt + tables.wordBytes * pointers.length) / tables.alignment) * tables.alignment;
  const variantsEnd = variantsAt + tables.entryBytes * variants.length;
  const layout: Layout = {
    ...{ results: RESULTS, resultBytes, pattern: patternAt, pointers: pointersAt },
    ...{ variants: variantsAt, variantsEnd },
  };
  const parts: Uint8Array[] = [assemble(table, driver(layout), little)];
  let at = TEXT + HEADER_BYTES + parts[0]!.length;
  const addresses = variants.map((variant) => {
    const address = at;
    const code = encodeLines(table, [...linesAt(variant, address), back], little);
    parts.push(code);
    at += code.length;
    return address;
  });
  const textBytes = at - TEXT;
  const dataOffset = Math.ceil(textBytes / 0x1000) * 0x1000;
  const dataBytes = variantsEnd - DATA;
  const bytes = new Uint8Array(dataOffset + dataBytes);
  const view = new DataView(bytes.buffer);
  const half = (place: number, value: number): void => {
    view.setUint16(place, value, little);
  };
  const full = (place: number, value: number): void => {
    view.setUint32(place, value, little);
  };
  const word = (place: number, value: bigint | number, size = wordBytes): void => {
    if (size === 8) view.setBigUint64(place, BigInt.asUintN(64, BigInt(value)), little);
    else full(place, Number(BigInt.asUintN(32, BigInt(value))));
  };
  const offsetOf = (address: number): number => dataOffset + address - DATA;
  let place = HEADER_BYTES;
  for (const part of parts) {
    bytes.set(part, place);
    place += part.length;
  }
  inputs.forEach((input, i) => {
    inputFields.forEach((field, k) => {
      word(dataOffset + i * inputBytes + k * wordBytes, input[field] as bigint);
    });
  });
  for (let i = 0; i < 2 * HALF; i++) bytes[offsetOf(patternAt) + i] = (i * 73 + 11) & 255;
  pointers.forEach((each, i) => {
    word(offsetOf(pointersAt) + tables.wordBytes * i, DATA + each * inputBytes, tables.wordBytes);
  });
  variants.forEach((each, i) => {
    [addresses[i]!, each.inputs.length, each.memory ? 1 : 0].forEach((value, k) => {
      word(offsetOf(variantsAt) + tables.entryBytes * i + tables.wordBytes * k, value, tables.wordBytes);
    });
  });
  // ELF header and four segments: text, data, the memory of the routines, results.
  const [headerBytes, segmentBytes, sectionBytes] = bits === 64 ? [64, 56, 64] : [52, 32, 40];
  bytes.set([0x7f, 0x45, 0x4c, 0x46, bits / 32, little ? 1 : 2, 1]);
  half(16, 2);
  half(18, elf.machine);
  full(20, 1);
  word(24, TEXT + HEADER_BYTES);
  word(24 + wordBytes, headerBytes);
  const after = 24 + 3 * wordBytes;
  full(after, elf.flags);
  [headerBytes, segmentBytes, 4, sectionBytes].forEach((each, i) => {
    half(after + 4 + 2 * i, each);
  });
  const segments: readonly (readonly [flags: number, offset: number, address: number, file: number, memory: number])[] =
    [
      [5, 0, TEXT, textBytes, textBytes],
      [6, dataOffset, DATA, dataBytes, dataBytes],
      [6, 0, MIDDLE - 0x1000, 0, 0x2000],
      [6, 0, RESULTS, 0, resultBytes],
    ];
  segments.forEach(([flags, from, address, file, memory], i) => {
    const start = headerBytes + i * segmentBytes;
    full(start, 1);
    // The flags stand before the words of 64 bits and among those of 32.
    if (bits === 64) full(start + 4, flags);
    const words = [from, address, address, file, memory, ...(bits === 64 ? [] : [flags]), 0x1000];
    words.forEach((each, k) => {
      word(start + wordBytes * (k + 1), each);
    });
  });
  return bytes;
}
