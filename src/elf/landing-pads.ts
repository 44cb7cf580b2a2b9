/**
 * Landing pads: the places in code at which an unwinder lets a thread go on, as exception tables of
 * programs name them. Reads `.eh_frame` for the functions that have such a table, and the tables
 * themselves (`.gcc_except_table`). Frames of `.debug_frame` name no tables.
 *
 *   frame:  function, size, address of its table
 *   table:  [start of landing pads]  type information  call sites
 *                                                          each: start, length, landing pad,
 *                                                          action; pad 0: none
 *
 * Numbers have encodings of their own (DW_EH_PE_*): the low four bits are the size, 0x10 means
 * relative to the number's own place, 0x80 through a pointer, 0xff absent. In relocatable files
 * relocations stand for the addresses.
 *
 * Sources: Linux Standard Base Core 5.0, chapter 10.6 (exception frames); Itanium C++ ABI:
 * Exception Handling, level III.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError } from '../errors.js';
import { ET_REL, PT_GNU_EH_FRAME, SHF_ALLOC, SHT_NOBITS } from './constants.js';
import type { ElfImage, ElfSection } from './image.js';

/**
 * A place: a section and an offset in it in relocatable files, section -1 and an address elsewhere.
 */
export interface CodePlace {
  readonly section: number;
  readonly value: bigint;
}

export interface LandingPads {
  readonly pads: readonly CodePlace[];
  /** Why not all of them are known; null: they are. */
  readonly unread: string | null;
}

const OMIT = 0xff;
const RELATIVE = 0x10;
const INDIRECT = 0x80;

/** Bytes at a place that numbers are read from, one after another. */
class Cursor {
  constructor(
    readonly area: Area,
    public at: number,
  ) {}

  u8(): number {
    return this.area.view.u8(this.at++);
  }

  uleb(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.u8();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
      if (shift > 63n) throw unreadable('a number has more than 64 bits');
    }
  }

  sleb(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.u8();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(Number(shift) + 7, value);
      if (shift > 63n) throw unreadable('a number has more than 64 bits');
    }
  }

  text(): string {
    let text = '';
    for (let byte = this.u8(); byte !== 0; byte = this.u8()) text += String.fromCharCode(byte);
    return text;
  }

  /** The number itself, whatever it is relative to. */
  number(encoding: number): bigint {
    const { view, wordBytes } = this.area;
    const fixed = (size: number, read: (at: number) => bigint): bigint => {
      const value = read(this.at);
      this.at += size;
      return value;
    };
    switch (encoding & 15) {
      case 0:
        return fixed(wordBytes, (at) => view.word(at, wordBytes));
      case 1:
        return this.uleb();
      case 2:
        return fixed(2, (at) => BigInt(view.u16(at)));
      case 3:
        return fixed(4, (at) => BigInt(view.u32(at)));
      case 4:
      case 12:
        return fixed(8, (at) => view.i64(at));
      case 9:
        return this.sleb();
      case 10:
        return fixed(2, (at) => BigInt.asIntN(16, BigInt(view.u16(at))));
      case 11:
        return fixed(4, (at) => BigInt(view.i32(at)));
      default:
        throw unreadable(`encoding ${encoding} of an address is not known`);
    }
  }

  /** The place that an address names; null: it is absent. */
  place(encoding: number): CodePlace | null {
    if (encoding === OMIT) return null;
    const from = this.at;
    const value = this.number(encoding);
    const relocated = this.area.relocated(from);
    if (relocated !== null) return relocated;
    if (value === 0n) return null;
    const kind = encoding & 0x70;
    if ((encoding & INDIRECT) !== 0 || (kind !== 0 && kind !== RELATIVE)) {
      throw unreadable(`encoding ${encoding} of an address is not known`);
    }
    const bits = 8 * this.area.wordBytes;
    const { section, start } = this.area;
    return { section, value: BigInt.asUintN(bits, kind === RELATIVE ? start + BigInt(from) + value : value) };
  }
}

/** Bytes of the image in which numbers are read. */
interface Area {
  readonly view: ByteView;
  readonly wordBytes: 4 | 8;
  /** As in `CodePlace`. */
  readonly section: number;
  readonly start: bigint;
  /**
   * What a relocation of a relocatable file makes of the number at an offset; null: there is none.
   */
  relocated(offset: number): CodePlace | null;
}

function unreadable(reason: string): ElftraceError {
  return new ElftraceError('unsupported-form', reason);
}

class Reader {
  readonly pads: CodePlace[] = [];
  private readonly areas = new Map<number, Area>();

  constructor(private readonly image: ElfImage) {}

  private areaOf(section: ElfSection): Area {
    const known = this.areas.get(section.index);
    if (known) return known;
    const { image } = this;
    const isObject = image.header.type === ET_REL;
    const places = new Map<number, CodePlace>();
    for (const table of isObject ? image.relocationsOf(section) : []) {
      const { symbols } = table;
      for (let row = 0; row < table.count && symbols; row++) {
        const symbol = table.symbol[row]!;
        const offset = Number(table.offset[row]!);
        // The first of several (RISC-V: what is added, then what is subtracted).
        if (!places.has(offset)) {
          places.set(offset, {
            section: symbols.sectionIndex[symbol]!,
            value: symbols.value[symbol]! + table.addend[row]!,
          });
        }
      }
    }
    const made: Area = {
      view: new ByteView(image.contents(section), image.header.endian, section.name),
      wordBytes: image.wordBytes,
      section: isObject ? section.index : -1,
      start: isObject ? 0n : section.address,
      relocated: (offset) => places.get(offset) ?? null,
    };
    this.areas.set(section.index, made);
    return made;
  }

  /** Where a place is in the file. */
  private cursorAt({ section, value }: CodePlace): Cursor {
    const { image } = this;
    const found = section < 0 ? image.sectionAt(value) : image.sections[section];
    if (found !== undefined && found.type !== SHT_NOBITS) {
      return new Cursor(this.areaOf(found), Number(value - (section < 0 ? found.address : 0n)));
    }
    const offset = image.fileOffsetOf(value);
    if (offset < 0) throw unreadable(`no bytes at ${value.toString(16)}`);
    const { bytes, wordBytes, header } = image;
    const view = new ByteView(bytes.subarray(offset), header.endian, 'an exception table');
    return new Cursor({ view, wordBytes, section: -1, start: value, relocated: () => null }, 0);
  }

  /** All frames of a section. */
  framesIn(section: ElfSection): void {
    this.frames(new Cursor(this.areaOf(section), 0));
  }

  /** The same where only the header of the frames is known, which begins with their address. */
  framesBehind(header: bigint): void {
    const start = this.cursorAt({ section: -1, value: header });
    start.at = 1;
    const encoding = start.u8();
    start.at = 4;
    const frames = start.place(encoding);
    if (frames !== null) this.frames(this.cursorAt(frames), true);
  }

  /** @param stops  a length of 0 is the end: what is behind it belongs to others */
  private frames({ area, at: start }: Cursor, stops = false): void {
    const commons = new Map<number, Common>();
    const { view } = area;
    for (let at = start; at + 4 <= view.size;) {
      const short = view.u32(at);
      const from = at + (short === 0xffff_ffff ? 12 : 4);
      const length = short === 0xffff_ffff ? Number(view.u64(at + 4)) : short;
      if (length === 0 && stops) return;
      if (length > 0) {
        const id = view.u32(from);
        const body = new Cursor(area, from + 4);
        if (id === 0) commons.set(at, commonOf(body));
        else this.frame(body, commons.get(from - id));
      }
      at = from + length;
    }
  }

  private frame(body: Cursor, common: Common | undefined): void {
    if (common === undefined) throw unreadable('a frame names no common part');
    if (common.tableEncoding === OMIT) return;
    const start = body.place(common.addressEncoding);
    // Its size, and the length of what follows.
    body.number(common.addressEncoding & 15);
    body.uleb();
    const table = body.place(common.tableEncoding);
    // Functions that a linker dropped have frames without an address.
    if (table !== null && start !== null) this.table(this.cursorAt(table), start);
  }

  private table(at: Cursor, start: CodePlace): void {
    const from = at.u8();
    const base = from === OMIT ? start : (at.place(from) ?? { section: start.section, value: 0n });
    if (at.u8() !== OMIT) at.uleb();
    const encoding = at.u8();
    const size = Number(at.uleb());
    for (const end = at.at + size; at.at < end;) {
      at.number(encoding);
      at.number(encoding);
      const pad = at.number(encoding);
      at.uleb();
      if (pad !== 0n) this.pads.push({ section: base.section, value: base.value + pad });
    }
  }
}

/** What frames have in common. */
interface Common {
  readonly addressEncoding: number;
  /** OMIT: no tables. */
  readonly tableEncoding: number;
}

function commonOf(body: Cursor): Common {
  const version = body.u8();
  const augmentation = body.text();
  body.uleb();
  body.sleb();
  if (version === 1) body.u8();
  else body.uleb();
  let addressEncoding = 0;
  let tableEncoding = OMIT;
  if (augmentation === '') return { addressEncoding, tableEncoding };
  if (!augmentation.startsWith('z')) throw unreadable(`frames of form '${augmentation}' are not known`);
  body.uleb();
  for (const letter of augmentation.slice(1)) {
    if (letter === 'R') addressEncoding = body.u8();
    else if (letter === 'L') tableEncoding = body.u8();
    else if (letter === 'P') body.number(body.u8());
    else if (!'SBG'.includes(letter)) throw unreadable(`frames of form '${augmentation}' are not known`);
  }
  return { addressEncoding, tableEncoding };
}

/**
 * Every landing pad of an image. Never throws on content: what cannot be read is said in `unread`.
 */
export function landingPads(image: ElfImage): LandingPads {
  const reader = new Reader(image);
  let unread: string | null = null;
  const attempt = (name: string, read: () => void): void => {
    try {
      read();
    } catch (error) {
      if (!(error instanceof ElftraceError)) throw error;
      unread ??= `${name}: ${error.message}`;
    }
  };
  for (const section of image.sections) {
    if (section.name !== '.eh_frame' || (section.flags & SHF_ALLOC) === 0n || section.type === SHT_NOBITS) continue;
    attempt(section.name, () => {
      reader.framesIn(section);
    });
  }
  const header = image.sections.length > 0 ? undefined : image.segments.find(({ type }) => type === PT_GNU_EH_FRAME);
  if (header !== undefined) {
    attempt('.eh_frame', () => {
      reader.framesBehind(header.address);
    });
  }
  return { pads: reader.pads, unread };
}
