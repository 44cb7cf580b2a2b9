/**
 * Which line of which file code was made of: the line number programs of `.debug_line`, versions 2
 * to 5 (DWARF 5, section 6.2). They are run once, for a list of addresses: memory grows with that
 * list and with the files of one unit, not with the program. Addresses are those of programs of
 * users: below 2^53.
 */
import { cString } from '../bytes.js';
import { malformed } from '../errors.js';
import type { Address } from '../units.js';
import type { UnpackLimits } from './compressed.js';
import { type DebugSection, debugSection } from './dwarf.js';
import type { ElfImage } from './image.js';

export interface SourceLine {
  readonly file: string;
  readonly line: number;
}

const DW_LNCT_path = 1;
const DW_LNCT_directory_index = 2;
const DW_FORM = {
  block2: 0x03, block4: 0x04, data2: 0x05, data4: 0x06, data8: 0x07, string: 0x08, block: 0x09, block1: 0x0a,
  data1: 0x0b, strp: 0x0e, udata: 0x0f, data16: 0x1e, line_strp: 0x1f,
} as const; // prettier-ignore

/** Reads a section from a position on. */
class Cursor {
  constructor(
    readonly section: DebugSection,
    public at: number,
  ) {}

  u8(): number {
    return this.section.view.u8(this.at++);
  }

  u16(): number {
    this.at += 2;
    return this.section.view.u16(this.at - 2);
  }

  word(size: number): number {
    this.at += size;
    const { view } = this.section;
    if (size === 8) return Number(view.u64(this.at - 8));
    return size === 4 ? view.u32(this.at - 4) : view.u16(this.at - 2);
  }

  address(size: 4 | 8): number {
    this.at += size;
    return Number(this.section.view.word(this.at - size, size));
  }

  uleb(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.u8();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  sleb(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.u8();
      value += (byte & 127) * factor;
      if (byte < 128) return (byte & 64) !== 0 ? value - factor * 128 : value;
    }
  }

  string(): string {
    const text = cString(this.section.bytes, this.at, this.section.bytes.length);
    this.at = this.section.bytes.indexOf(0, this.at) + 1;
    return text;
  }
}

interface LineHeader {
  readonly end: number;
  readonly first: number;
  readonly addressBytes: 4 | 8;
  readonly leastLength: number;
  readonly lineBase: number;
  readonly lineRange: number;
  readonly opcodeBase: number;
  readonly lengths: readonly number[];
  readonly files: readonly string[];
  /** Number of the first file. */
  readonly firstFile: number;
}

interface Strings {
  readonly strings: DebugSection | null;
  readonly lineStrings: DebugSection | null;
}

const joined = (directory: string, name: string): string =>
  name.startsWith('/') || directory === '' ? name : `${directory}/${name}`;

/** Lists of directories and files before DWARF 5. */
function oldFiles(cursor: Cursor): string[] {
  const directories: string[] = [''];
  for (let name = cursor.string(); name !== ''; name = cursor.string()) directories.push(name);
  const files: string[] = [];
  for (let name = cursor.string(); name !== ''; name = cursor.string()) {
    const directory = cursor.uleb();
    cursor.uleb();
    cursor.uleb();
    files.push(joined(directories[directory] ?? '', name));
  }
  return files;
}

type Field = string | number;

function form(cursor: Cursor, code: number, offsetBytes: 4 | 8, { strings, lineStrings }: Strings): Field {
  const text = (section: DebugSection | null): string => {
    const at = cursor.word(offsetBytes);
    return section === null ? '' : cString(section.bytes, at, section.bytes.length);
  };
  const skip = (size: number): number => {
    cursor.at += size;
    return 0;
  };
  switch (code) {
    case DW_FORM.string:
      return cursor.string();
    case DW_FORM.line_strp:
      return text(lineStrings);
    case DW_FORM.strp:
      return text(strings);
    case DW_FORM.udata:
      return cursor.uleb();
    case DW_FORM.data1:
      return cursor.u8();
    case DW_FORM.data2:
      return cursor.u16();
    case DW_FORM.data4:
      return cursor.word(4);
    case DW_FORM.data8:
      return cursor.word(8);
    case DW_FORM.data16:
      return skip(16);
    case DW_FORM.block:
      return skip(cursor.uleb());
    case DW_FORM.block1:
      return skip(cursor.u8());
    case DW_FORM.block2:
      return skip(cursor.u16());
    case DW_FORM.block4:
      return skip(cursor.word(4));
    default:
      throw malformed('.debug_line: form', 'not known in lists of files', { value: code });
  }
}

/** One list of DWARF 5: directories, or files. */
function entries(cursor: Cursor, offsetBytes: 4 | 8, strings: Strings): ReadonlyMap<number, Field>[] {
  const format = Array.from({ length: cursor.u8() }, () => [cursor.uleb(), cursor.uleb()] as const);
  const count = cursor.uleb();
  const found: ReadonlyMap<number, Field>[] = [];
  for (let i = 0; i < count; i++) {
    found.push(new Map(format.map(([content, code]) => [content, form(cursor, code, offsetBytes, strings)] as const)));
  }
  return found;
}

function newFiles(cursor: Cursor, offsetBytes: 4 | 8, strings: Strings): string[] {
  const nameOf = (entry: ReadonlyMap<number, Field>): string => String(entry.get(DW_LNCT_path) ?? '');
  const directories = entries(cursor, offsetBytes, strings).map(nameOf);
  return entries(cursor, offsetBytes, strings).map((entry) => {
    const directory = directories[Number(entry.get(DW_LNCT_directory_index) ?? 0)] ?? '';
    return joined(directory.startsWith('/') ? directory : joined(directories[0] ?? '', directory), nameOf(entry));
  });
}

function readHeader(section: DebugSection, start: number, wordBytes: 4 | 8, strings: Strings): LineHeader {
  const cursor = new Cursor(section, start);
  const short = cursor.word(4);
  const offsetBytes = short === 0xffff_ffff ? 8 : 4;
  const length = offsetBytes === 8 ? cursor.word(8) : short;
  const end = cursor.at + length;
  if (end > section.bytes.length) throw malformed('.debug_line: unit_length', 'ends behind the section');
  const version = cursor.u16();
  if (version < 2 || version > 5) throw malformed('.debug_line: version', 'not 2 to 5', { value: version });
  let addressBytes = wordBytes;
  if (version >= 5) {
    addressBytes = cursor.u8() === 4 ? 4 : 8;
    cursor.u8();
  }
  const headerBytes = cursor.word(offsetBytes);
  const first = cursor.at + headerBytes;
  const leastLength = cursor.u8();
  if (version >= 4) cursor.u8();
  cursor.u8();
  const [lineBase, lineRange, opcodeBase] = [(cursor.u8() << 24) >> 24, cursor.u8(), cursor.u8()];
  if (lineRange === 0) throw malformed('.debug_line: line_range', 'it is 0');
  const lengths = Array.from({ length: Math.max(0, opcodeBase - 1) }, () => cursor.u8());
  const files = version >= 5 ? newFiles(cursor, offsetBytes, strings) : oldFiles(cursor);
  const firstFile = version >= 5 ? 0 : 1;
  return { end, first, addressBytes, leastLength, lineBase, lineRange, opcodeBase, lengths, files, firstFile };
}

/** Takes a row; the last one of a sequence has no line. */
type Row = (address: number, file: number, line: number, isEnd: boolean) => void;

/** Runs the program of one unit. */
function runLines(section: DebugSection, header: LineHeader, row: Row): void {
  const { end, first, addressBytes, leastLength, lineBase, lineRange, opcodeBase, lengths } = header;
  const cursor = new Cursor(section, first);
  let [address, file, line] = [0, 1, 1];
  const advance = (count: number): void => {
    address += count * leastLength;
  };
  const extended = (): void => {
    const size = cursor.uleb();
    const next = cursor.at + size;
    const code = size === 0 ? 0 : cursor.u8();
    if (code === 1) {
      row(address, file, line, true);
      [address, file, line] = [0, 1, 1];
    } else if (code === 2) address = cursor.address(addressBytes);
    cursor.at = next;
  };
  const standard: Readonly<Record<number, () => void>> = {
    0: extended,
    1: () => {
      row(address, file, line, false);
    },
    2: () => {
      advance(cursor.uleb());
    },
    3: () => {
      line += cursor.sleb();
    },
    4: () => {
      file = cursor.uleb();
    },
    8: () => {
      advance(Math.floor((255 - opcodeBase) / lineRange));
    },
    9: () => {
      address += cursor.u16();
    },
  };
  while (cursor.at < end) {
    const code = cursor.u8();
    if (code >= opcodeBase) {
      advance(Math.floor((code - opcodeBase) / lineRange));
      line += lineBase + ((code - opcodeBase) % lineRange);
      row(address, file, line, false);
    } else if (standard[code] !== undefined) standard[code]();
    else for (let i = lengths[code - 1] ?? 0; i > 0; i--) cursor.uleb();
  }
}

/** Code of which the line of its first instruction is asked for, in the file: [start, end). */
export interface CodeRange {
  readonly start: Address;
  readonly end: Address;
}

/** Takes rows in pairs; a row holds up to the next one. */
type Span = (from: number, to: number, file: number, line: number) => void;

function spansOf(section: DebugSection, header: LineHeader, span: Span): void {
  let before: { readonly address: number; readonly file: number; readonly line: number } | null = null;
  runLines(section, header, (address, file, line, isEnd) => {
    // Of several rows at one address the last counts.
    if (before !== null && address > before.address) span(before.address, address, before.file, before.line);
    before = isEnd ? null : { address, file, line };
  });
}

/**
 * The lines of functions, as far as they are known: of the first row that begins inside, or else of
 * the one that holds the first instruction. Nops in front of a function's first row are those of
 * the function before, as far as rows go.
 * @param wanted  in ascending order of their starts
 * @throws ElftraceError 'elf-malformed', 'elf-truncated', 'limit-exceeded', 'timeout'
 */
export async function sourceLines(
  image: ElfImage,
  wanted: readonly CodeRange[],
  limits: UnpackLimits = {},
): Promise<ReadonlyMap<Address, SourceLine>> {
  const found = new Map<Address, SourceLine>();
  const starts = Float64Array.from(wanted, ({ start }) => Number(start));
  /** How far inside the row begins that was found; Infinity: in front of the function. */
  const inside = new Float64Array(wanted.length).fill(Infinity);
  const section = await debugSection(image, '.debug_line', limits);
  if (section === null) return found;
  const strings = {
    strings: await debugSection(image, '.debug_str', limits),
    lineStrings: await debugSection(image, '.debug_line_str', limits),
  };
  for (let at = 0; at + 4 < section.bytes.length;) {
    limits.deadline?.check('reading .debug_line');
    const header = readHeader(section, at, image.wordBytes, strings);
    spansOf(section, header, (from, to, number, line) => {
      const file = header.files[number - header.firstFile];
      if (file === undefined) return;
      const take = (i: number): void => {
        const { start, end } = wanted[i]!;
        const offset = from - Number(start);
        const distance = offset < 0 || (offset > 0 && from >= Number(end)) ? Infinity : offset;
        if (distance >= inside[i]! && found.has(start)) return;
        inside[i] = distance;
        found.set(start, { file, line });
      };
      const first = firstAtLeast(starts, from);
      for (let i = first; i < starts.length && starts[i]! < to; i++) take(i);
      if (first > 0 && Number(wanted[first - 1]!.end) > from) take(first - 1);
    });
    at = header.end;
  }
  return found;
}

function firstAtLeast(sorted: Float64Array, least: number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle]! < least) from = middle + 1;
    else to = middle;
  }
  return from;
}
