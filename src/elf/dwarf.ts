/**
 * What DWARF says of functions that have no code of their own: which were inlined, and into which
 * others. Reads `.debug_info` of versions 2 to 5 as far as that needs; owns no line numbers, types
 * or places. DWARF 5, sections 3.3.8 (inlined subroutines) and 7.5 (format of debugging
 * information).
 *
 * Sections of relocatable files hold no offsets yet: those are read from the relocations. All that
 * matter are plain words whose size the form says, so that no machine has to be known.
 */
import { ByteView, cString } from '../bytes.js';
import { ElftraceError, malformed } from '../errors.js';
import { Deadline } from '../limits/index.js';
import { type UnpackLimits, unpack } from './compressed.js';
import { ET_REL, SHF_COMPRESSED } from './constants.js';
import type { ElfImage, ElfSection } from './image.js';
import { unpackZlib } from './zlib.js';

/** A function that DWARF has only as an abstract instance. */
export interface InlinedFunction {
  /** Functions that hold copies, sorted; at most `MOST_NAMES`. */
  readonly into: readonly string[];
  readonly copies: number;
}

/** Names of functions that are kept for one that was inlined. */
const MOST_NAMES = 20;

const DW_TAG_subprogram = 0x2e;
const DW_TAG_inlined_subroutine = 0x1d;
const DW_AT_name = 0x03;
const DW_AT_inline = 0x20;
const DW_AT_abstract_origin = 0x31;
const DW_AT_specification = 0x47;
const DW_AT_linkage_name = 0x6e;
const DW_AT_MIPS_linkage_name = 0x2007;
const DW_AT_str_offsets_base = 0x72;
const DW_AT_addr_base = 0x73;
const DW_AT_language = 0x13;
/** C89, C, C99, C11, C17. */
const LANGUAGES_C: ReadonlySet<number> = new Set([0x01, 0x02, 0x0c, 0x1d, 0x2c]);
const DW_UT_skeleton = 4;
const DW_UT_split_compile = 5;
const DW_UT_type = 2;
const DW_UT_split_type = 6;
const ELFCOMPRESS_ZLIB = 1;
const ELFCOMPRESS_ZSTD = 2;

/** Forms with a size of their own; others are in `skipForm`. */
const FORM_BYTES: Readonly<Record<number, number>> = {
  0x05: 2, // data2
  0x06: 4, // data4
  0x07: 8, // data8
  0x0b: 1, // data1
  0x0c: 1, // flag
  0x11: 1, // ref1
  0x12: 2, // ref2
  0x13: 4, // ref4
  0x14: 8, // ref8
  0x19: 0, // flag_present
  0x1c: 4, // ref_sup4
  0x1e: 16, // data16
  0x20: 8, // ref_sig8
  0x21: 0, // implicit_const
  0x24: 8, // ref_sup8
  0x25: 1, // strx1
  0x26: 2, // strx2
  0x27: 3, // strx3
  0x28: 4, // strx4
  0x29: 1, // addrx1
  0x2a: 2, // addrx2
  0x2b: 3, // addrx3
  0x2c: 4, // addrx4
};

/** Offsets in other sections: strp, sec_offset, strp_sup, line_strp, GNU_ref_alt, GNU_strp_alt. */
const OFFSET_FORMS: ReadonlySet<number> = new Set([0x0e, 0x17, 0x1d, 0x1f, 0x1f20, 0x1f21]);
/** One LEB128 number: sdata, udata, ref_udata, strx, addrx, loclistx, rnglistx, GNU_…_index. */
const LEB_FORMS: ReadonlySet<number> = new Set([0x0d, 0x0f, 0x15, 0x1a, 0x1b, 0x22, 0x23, 0x1f01, 0x1f02]);

/** A debugging section, unpacked, with the relocations of a relocatable file. */
export class DebugSection {
  readonly view: ByteView;

  constructor(
    readonly bytes: Uint8Array,
    image: ElfImage,
    what: string,
    /** Values by place; null where the bytes hold them. */
    private readonly relocated: ReadonlyMap<number, number> | null,
  ) {
    this.view = new ByteView(bytes, image.header.endian, what);
  }

  /** An offset in another section. */
  offset(at: number, size: number): number {
    const known = this.relocated?.get(at);
    if (known !== undefined) return known;
    return size === 8 ? Number(this.view.u64(at)) : this.view.u32(at);
  }
}

/** Values that relocations give to places of a debugging section. */
function relocatedWords(image: ElfImage, section: ElfSection): ReadonlyMap<number, number> | null {
  if (image.header.type !== ET_REL) return null;
  const found = new Map<number, number>();
  const view = new ByteView(image.contents(section), image.header.endian, section.name);
  for (const table of image.relocationsOf(section)) {
    const { count, offset, symbol, addend, symbols } = table;
    for (let row = 0; row < count; row++) {
      const at = Number(offset[row]!);
      // Pairs of RISC-V (add, subtract) measure code; offsets have one row.
      if (found.has(at)) continue;
      const inPlace = table.addends === 'place' ? BigInt(view.u32(at)) : 0n;
      const value = (symbols?.value[symbol[row]!] ?? 0n) + addend[row]! + inPlace;
      if (value >= 0n && value <= 0x1f_ffff_ffff_ffffn) found.set(at, Number(value));
    }
  }
  return found;
}

/** A section of debugging information, unpacked; null: it is not there, or empty. */
export async function debugSection(image: ElfImage, name: string, limits: UnpackLimits): Promise<DebugSection | null> {
  const section = image.section(name);
  if (section === undefined || section.fileSize === 0) return null;
  let bytes = image.contents(section);
  if ((section.flags & SHF_COMPRESSED) !== 0n) {
    const view = new ByteView(bytes, image.header.endian, name);
    const form = view.u32(0);
    const packed = bytes.subarray(image.header.is64 ? 24 : 12);
    const size = image.header.is64 ? Number(view.u64(8)) : view.u32(4);
    if (form === ELFCOMPRESS_ZLIB) bytes = await unpackZlib(packed, size, name, limits);
    else if (form === ELFCOMPRESS_ZSTD) bytes = (await unpack(packed, limits)).bytes;
    else throw malformed(`${name}: ch_type`, 'no known compression', { value: form });
  }
  return new DebugSection(bytes, image, name, relocatedWords(image, section));
}

/** One kind of entry, as `.debug_abbrev` describes it. */
interface Abbreviation {
  readonly tag: number;
  readonly hasChildren: boolean;
  readonly attributes: readonly { readonly name: number; readonly form: number; readonly constant: number }[];
}

interface Unit {
  /** Position of the header, and first byte behind the unit. */
  readonly start: number;
  readonly end: number;
  /** Position of the first entry. */
  readonly first: number;
  readonly version: number;
  readonly addressBytes: number;
  readonly offsetBytes: 4 | 8;
  readonly abbreviations: ReadonlyMap<number, Abbreviation>;
  strOffsetsBase: number;
  addressesBase: number;
  language: number;
}

/** An entry with those of its attributes that are numbers, texts or references. */
export interface DebugEntry {
  /** Position in `.debug_info`, which references are, too. */
  readonly at: number;
  readonly tag: number;
  /** Number of entries around it: 0 for that of a unit. */
  readonly level: number;
  readonly numbers: ReadonlyMap<number, number>;
  readonly name: string;
  /** Whether it is of a language in which types are passed by their size alone: C. */
  readonly isC: boolean;
}

/** What of an entry's attributes is asked for. */
interface Entry {
  tag: number;
  hasChildren: boolean;
  /** Where the value of a name stands, with its form; -1: none. */
  nameAt: number;
  nameForm: number;
  /** 0: not inlined and not declared so. */
  inline: number;
  /** Position in `.debug_info` of the entry that it is an instance of; -1: none. */
  origin: number;
}

/** The debugging information of a file, for questions about inlined functions. */
export class DebugInfo {
  readonly #units: Unit[] = [];
  readonly #tables = new Map<number, ReadonlyMap<number, Abbreviation>>();
  #at = 0;

  private constructor(
    private readonly info: DebugSection,
    private readonly abbrev: DebugSection,
    private readonly strings: DebugSection | null,
    private readonly lineStrings: DebugSection | null,
    private readonly strOffsets: DebugSection | null,
    private readonly addresses: DebugSection | null,
    private readonly deadline: Deadline,
  ) {
    for (let at = 0; at < info.bytes.length;) at = this.#readUnit(at);
  }

  /**
   * @returns null where the file has no `.debug_info`
   * @throws ElftraceError 'elf-malformed', 'elf-truncated', 'limit-exceeded', 'timeout'
   */
  static async read(image: ElfImage, limits: UnpackLimits = {}): Promise<DebugInfo | null> {
    const section = (name: string): Promise<DebugSection | null> => debugSection(image, name, limits);
    const info = await section('.debug_info');
    const abbrev = await section('.debug_abbrev');
    if (info === null || abbrev === null) return null;
    const [strings, lines] = [await section('.debug_str'), await section('.debug_line_str')];
    const offsets = await section('.debug_str_offsets');
    const addresses = await section('.debug_addr');
    return new DebugInfo(info, abbrev, strings, lines, offsets, addresses, limits.deadline ?? Deadline.never);
  }

  /** Calls `visit` for each entry whose tag is one of some. */
  entries(tags: ReadonlySet<number>, visit: (entry: DebugEntry) => void): void {
    for (const unit of this.#units) {
      this.deadline.check('reading .debug_info');
      let level = 0;
      this.#at = unit.first;
      while (this.#at < unit.end) {
        const at = this.#at;
        const kind = unit.abbreviations.get(this.#leb(this.info.bytes));
        if (kind === undefined) {
          level--;
          continue;
        }
        const isWanted = level === 0 || tags.has(kind.tag);
        const numbers = new Map<number, number>();
        let name = '';
        for (const { name: attribute, form, constant } of kind.attributes) {
          if (isWanted && attribute === DW_AT_name) name = this.#string(this.#at, form, unit);
          else if (isWanted) {
            const value = this.#number(unit, form, constant);
            if (value !== null) numbers.set(attribute, value);
          }
          this.#skip(unit, form);
        }
        if (level === 0) {
          unit.language = numbers.get(DW_AT_language) ?? 0;
          unit.addressesBase = numbers.get(DW_AT_addr_base) ?? 2 * unit.offsetBytes;
        }
        if (tags.has(kind.tag)) {
          visit({ at, tag: kind.tag, level, numbers, name, isC: LANGUAGES_C.has(unit.language) });
        }
        if (kind.hasChildren) level++;
      }
    }
  }

  /** The number or reference at the cursor, which stays; null for other forms. */
  #number(unit: Unit, form: number, constant: number): number | null {
    const { view } = this.info;
    const at = this.#at;
    if (form === 0x21) return constant;
    if (form === 0x01) return unit.addressBytes === 8 ? Number(view.u64(at)) : view.u32(at);
    if (form === 0x0b) return view.u8(at);
    if (form === 0x05) return view.u16(at);
    if (form === 0x06) return view.u32(at);
    if (form === 0x07) return Number(view.u64(at));
    if (form === 0x0c) return view.u8(at);
    if (form === 0x19) return 1;
    if (form === 0x17) return this.info.offset(at, unit.offsetBytes);
    if (form === 0x0d || form === 0x0f) return this.#lebAt(at);
    if (form === 0x1b || (form >= 0x29 && form <= 0x2c)) return this.#address(unit, form);
    const reference = this.#reference(unit, form, at);
    return reference < 0 ? null : reference;
  }

  /** An address by its number in `.debug_addr`. */
  #address(unit: Unit, form: number): number | null {
    const { view } = this.info;
    const at = this.#at;
    const index = form === 0x1b ? this.#lebAt(at) : form === 0x29 ? view.u8(at) : form === 0x2a ? view.u16(at) : -1;
    const place = unit.addressesBase + index * unit.addressBytes;
    if (index < 0 || this.addresses === null || place + unit.addressBytes > this.addresses.bytes.length) return null;
    return this.addresses.offset(place, unit.addressBytes);
  }

  #lebAt(at: number): number {
    const here = this.#at;
    this.#at = at;
    const value = this.#leb(this.info.bytes);
    this.#at = here;
    return value;
  }

  /**
   * Of functions, those that DWARF marks as inlined and that have copies in others.
   * @param names  as the compiler had them (linkage names where there are some)
   */
  inlined(names: ReadonlySet<string>): ReadonlyMap<string, InlinedFunction> {
    const abstract = new Map<number, string>();
    this.#walk((entry, at, unit) => {
      // 1: inlined, 3: declared inline and inlined.
      if (entry.tag !== DW_TAG_subprogram || (entry.inline !== 1 && entry.inline !== 3)) return;
      const name = this.#nameOf(entry, unit);
      if (names.has(name)) abstract.set(at, name);
    });
    const found = new Map<string, { into: Set<string>; copies: number }>();
    if (abstract.size > 0) {
      this.#walk((entry, _at, unit, holder) => {
        if (entry.tag !== DW_TAG_inlined_subroutine) return;
        const name = abstract.get(entry.origin);
        // Inside of an abstract instance there is no code.
        if (name === undefined || holder < 0) return;
        const known = found.get(name) ?? { into: new Set<string>(), copies: 0 };
        found.set(name, known);
        known.copies++;
        if (known.into.size < MOST_NAMES) known.into.add(this.#nameAt(holder, unit));
      });
    }
    return new Map(
      [...found].map(([name, { into, copies }]) => [
        name,
        { into: [...into].filter((each) => each !== '').sort(), copies },
      ]),
    );
  }

  #readUnit(start: number): number {
    this.deadline.check('reading .debug_info');
    const { view } = this.info;
    const is64 = view.u32(start) === 0xffff_ffff;
    const offsetBytes = is64 ? 8 : 4;
    const length = is64 ? Number(view.u64(start + 4)) : view.u32(start);
    let at = start + (is64 ? 12 : 4);
    const end = at + length;
    if (end > this.info.bytes.length) throw malformed('.debug_info: unit_length', 'ends behind the section');
    const version = view.u16(at);
    if (version < 2 || version > 5) throw malformed('.debug_info: version', 'not 2 to 5', { value: version });
    at += 2;
    let type = 1;
    let addressBytes = 0;
    let abbreviations = 0;
    if (version >= 5) {
      type = view.u8(at);
      addressBytes = view.u8(at + 1);
      abbreviations = this.info.offset(at + 2, offsetBytes);
      at += 2 + offsetBytes;
    } else {
      abbreviations = this.info.offset(at, offsetBytes);
      addressBytes = view.u8(at + offsetBytes);
      at += offsetBytes + 1;
    }
    if (type === DW_UT_skeleton || type === DW_UT_split_compile) at += 8;
    if (type === DW_UT_type || type === DW_UT_split_type) at += 8 + offsetBytes;
    this.#units.push({
      start,
      end,
      first: at,
      version,
      addressBytes,
      offsetBytes,
      abbreviations: this.#abbreviations(abbreviations),
      strOffsetsBase: 2 * offsetBytes,
      addressesBase: 2 * offsetBytes,
      language: 0,
    });
    return end;
  }

  #abbreviations(start: number): ReadonlyMap<number, Abbreviation> {
    const known = this.#tables.get(start);
    if (known) return known;
    const table = new Map<number, Abbreviation>();
    this.#at = start;
    const next = (): number => this.#leb(this.abbrev.bytes);
    for (let code = next(); code !== 0; code = next()) {
      const tag = next();
      const hasChildren = this.abbrev.view.u8(this.#at++) !== 0;
      const attributes: { name: number; form: number; constant: number }[] = [];
      for (;;) {
        const name = next();
        const form = next();
        const constant = form === 0x21 ? next() : 0;
        if (name === 0 && form === 0) break;
        attributes.push({ name, form, constant });
      }
      table.set(code, { tag, hasChildren, attributes });
    }
    this.#tables.set(start, table);
    return table;
  }

  /** Calls `visit` for each entry; `holder` is the function with code around it, or -1. */
  #walk(visit: (entry: Entry, at: number, unit: Unit, holder: number) => void): void {
    for (const unit of this.#units) {
      this.deadline.check('reading .debug_info');
      const holders: number[] = [];
      let holder = -1;
      this.#at = unit.first;
      while (this.#at < unit.end) {
        const at = this.#at;
        const entry = this.#entry(unit);
        if (entry === null) {
          holder = holders.pop() ?? -1;
          continue;
        }
        visit(entry, at, unit, holder);
        if (!entry.hasChildren) continue;
        holders.push(holder);
        if (entry.tag === DW_TAG_subprogram) holder = entry.inline === 0 ? at : -1;
      }
    }
  }

  /** The entry at the cursor, which moves behind it; null for the end of a list of children. */
  #entry(unit: Unit): Entry | null {
    const code = this.#leb(this.info.bytes);
    if (code === 0) return null;
    const kind = unit.abbreviations.get(code);
    if (kind === undefined) throw malformed('.debug_info: abbreviation', 'not described', { value: code });
    const { tag, hasChildren, attributes } = kind;
    const entry: Entry = { tag, hasChildren, nameAt: -1, nameForm: 0, inline: 0, origin: -1 };
    for (const { name, form, constant } of attributes) {
      if (name === DW_AT_name && entry.nameAt < 0) {
        entry.nameAt = this.#at;
        entry.nameForm = form;
      } else if (name === DW_AT_linkage_name || name === DW_AT_MIPS_linkage_name) {
        entry.nameAt = this.#at;
        entry.nameForm = form;
      } else if (name === DW_AT_inline) {
        entry.inline = form === 0x21 ? constant : this.info.view.u8(this.#at);
      } else if (name === DW_AT_abstract_origin || name === DW_AT_specification) {
        entry.origin = this.#reference(unit, form, this.#at);
      } else if (name === DW_AT_str_offsets_base) {
        unit.strOffsetsBase = this.info.offset(this.#at, unit.offsetBytes);
      }
      this.#skip(unit, form);
    }
    return entry;
  }

  /** Position in `.debug_info` that a reference names, -1 for what is in no other entry of it. */
  #reference(unit: Unit, form: number, at: number): number {
    const { view } = this.info;
    if (form === 0x10) return this.info.offset(at, unit.version === 2 ? unit.addressBytes : unit.offsetBytes);
    if (form === 0x11) return unit.start + view.u8(at);
    if (form === 0x12) return unit.start + view.u16(at);
    if (form === 0x13) return unit.start + view.u32(at);
    if (form === 0x14) return unit.start + Number(view.u64(at));
    return form === 0x15 ? unit.start + this.#lebAt(at) : -1;
  }

  #skip(unit: Unit, form: number): void {
    const fixed = FORM_BYTES[form];
    if (fixed !== undefined) this.#at += fixed;
    else if (OFFSET_FORMS.has(form)) this.#at += unit.offsetBytes;
    else if (LEB_FORMS.has(form)) this.#leb(this.info.bytes);
    else this.#skipVariable(unit, form);
  }

  #skipVariable(unit: Unit, form: number): void {
    const { view, bytes } = this.info;
    const block = (size: number, head: number): void => {
      this.#at += head + size;
    };
    if (form === 0x01) this.#at += unit.addressBytes;
    else if (form === 0x10) this.#at += unit.version === 2 ? unit.addressBytes : unit.offsetBytes;
    else if (form === 0x03) block(view.u16(this.#at), 2);
    else if (form === 0x04) block(view.u32(this.#at), 4);
    else if (form === 0x0a) block(view.u8(this.#at), 1);
    else if (form === 0x09 || form === 0x18) block(this.#leb(bytes), 0);
    else if (form === 0x08) {
      const end = bytes.indexOf(0, this.#at);
      if (end < 0) throw malformed('.debug_info: string', 'has no end');
      this.#at = end + 1;
    } else if (form === 0x16) this.#skip(unit, this.#leb(bytes));
    else throw malformed('.debug_info: form', 'not known', { value: form });
  }

  /** A LEB128 number at the cursor; of signed ones only the length counts. */
  #leb(bytes: Uint8Array): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[this.#at++];
      if (byte === undefined) throw malformed('DWARF', 'ends inside a LEB128 number');
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  /** Name of the entry at a position, or of the one that it is an instance of; '' for none. */
  #nameAt(at: number, near: Unit): string {
    const unit =
      at >= near.start && at < near.end ? near : this.#units.find((each) => at >= each.start && at < each.end);
    if (unit === undefined) return '';
    const here = this.#at;
    this.#at = at;
    const entry = this.#entry(unit);
    this.#at = here;
    return entry === null ? '' : this.#nameOf(entry, unit);
  }

  #nameOf(entry: Entry, unit: Unit, hops = 0): string {
    if (entry.nameAt >= 0) return this.#string(entry.nameAt, entry.nameForm, unit);
    if (entry.origin < 0 || hops > 3) return '';
    const other =
      entry.origin >= unit.start && entry.origin < unit.end
        ? unit
        : this.#units.find((each) => entry.origin >= each.start && entry.origin < each.end);
    if (other === undefined) return '';
    const here = this.#at;
    this.#at = entry.origin;
    const origin = this.#entry(other);
    this.#at = here;
    return origin === null ? '' : this.#nameOf(origin, other, hops + 1);
  }

  #string(at: number, form: number, unit: Unit): string {
    const text = (section: DebugSection | null, offset: number): string =>
      section === null || offset >= section.bytes.length ? '' : cString(section.bytes, offset, section.bytes.length);
    if (form === 0x08) return text(this.info, at);
    if (form === 0x0e) return text(this.strings, this.info.offset(at, unit.offsetBytes));
    if (form === 0x1f) return text(this.lineStrings, this.info.offset(at, unit.offsetBytes));
    const index = this.#stringIndex(at, form);
    if (index < 0 || this.strOffsets === null) return '';
    return text(this.strings, this.strOffsets.offset(unit.strOffsetsBase + index * unit.offsetBytes, unit.offsetBytes));
  }

  #stringIndex(at: number, form: number): number {
    const { view } = this.info;
    if (form === 0x25) return view.u8(at);
    if (form === 0x26) return view.u16(at);
    if (form === 0x28) return view.u32(at);
    return form === 0x1a ? this.#lebAt(at) : -1;
  }
}

/** Whether an error is about the debugging information, and not about us or about the time. */
export function isBadDebugInfo(error: unknown): error is ElftraceError {
  return error instanceof ElftraceError && (error.code === 'elf-malformed' || error.code === 'elf-truncated');
}
