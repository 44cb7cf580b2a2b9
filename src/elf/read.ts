/**
 * Bytes -> ElfImage. Reads the headers at once and checks every offset, size, link and entry size
 * against the file; the big tables (symbols, relocations) are only checked for their extents and
 * read on first use. Knows no machine and refuses none. gABI 4.1 chapters 4 and 5.
 *
 *   file header -> section header 0 (extended counts) -> section headers -> program headers ->
 *   dynamic section
 *
 * Positions in the file are numbers and were proved to lie in it, so that arithmetic on them is
 * exact; addresses are bigint.
 */
import { ByteView, cString } from '../bytes.js';
import { ElftraceError, hex, malformed, truncated } from '../errors.js';
import * as C from './constants.js';
import { readDynamic } from './dynamic.js';
import type {
  ElfGroup,
  ElfHeader,
  ElfImage,
  ElfNote,
  ElfSection,
  ElfSegment,
  RelocationForm,
  RelocationTable,
  SymbolTable,
} from './image.js';
import { RangeIndex } from './lookup.js';
import { readGroup, readNotes } from './notes.js';
import { LazyRelocationTable, relocationBytes } from './relocation-tables.js';
import { LazySymbolTable, symbolBytes } from './symbols.js';
import type { SectionIndex } from '../units.js';

/** True when the bytes begin with the magic of ELF. */
export function isElf(bytes: Uint8Array): boolean {
  return bytes[0] === 0x7f && bytes[1] === 0x45 && bytes[2] === 0x4c && bytes[3] === 0x46;
}

/**
 * Reads an ELF file of either class and byte order. Keeps a view of `bytes` (never copies them);
 * they may not change while the image is in use.
 * @throws ElftraceError 'not-elf', 'elf-truncated' (a structure reaches past the end),
 *   'elf-malformed' (a value no valid
 *         file has), 'bad-reference' (an index or address that names nothing). Rows of symbols and
 *         relocations are checked by the same errors when their first column is read.
 */
export function readElf(bytes: Uint8Array): ElfImage {
  // A Buffer's slice() is a view, a Uint8Array's a copy; later steps rely on the latter.
  return new Image(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
}

class Image implements ElfImage {
  readonly header: ElfHeader;
  readonly wordBytes: 4 | 8;
  readonly sections: readonly ElfSection[];
  readonly segments: readonly ElfSegment[];
  readonly elfSize: number;
  readonly dynamicSymbols: SymbolTable;
  readonly symbols: SymbolTable;
  readonly relocations: readonly RelocationTable[];
  readonly #view: ByteView;
  readonly #symbolTables = new Map<number, SymbolTable>();
  readonly #remarks: string[] = [];
  #allRemarks: readonly string[] | null = null;
  #byName: Map<string, ElfSection[]> | null = null;
  #byTarget: Map<number, RelocationTable[]> | null = null;
  #notes: readonly ElfNote[] | null = null;
  #groups: readonly ElfGroup[] | null = null;
  #sectionIndex: RangeIndex<ElfSection> | null = null;
  #addressIndex: RangeIndex<Mapped> | null = null;
  #offsetIndex: RangeIndex<Mapped> | null = null;

  constructor(readonly bytes: Uint8Array) {
    const identified = identify(bytes);
    const view = new ByteView(bytes, identified.endian, 'file');
    this.#view = view;
    this.header = readHeader(view, identified.is64, this.#remarks);
    this.wordBytes = this.header.is64 ? 8 : 4;
    this.sections = readSections(view, this.header, this.#remarks);
    this.segments = readSegments(view, this.header, this.sections, this.#remarks);
    this.elfSize = claimedEnd(this.header, this.sections, this.segments);

    this.#readSymbolTables();
    const dynamic = this.#dynamic();
    this.dynamicSymbols = this.#firstTable(C.SHT_DYNSYM) ?? this.#symbolsOf(dynamic) ?? emptySymbols(view);
    this.symbols = this.#firstTable(C.SHT_SYMTAB) ?? this.dynamicSymbols;
    this.relocations = this.#relocationTables(dynamic);
  }

  #readSymbolTables(): void {
    const view = this.#view;
    const extended = extendedIndexTables(this.sections, this.#remarks);
    for (const section of this.sections) {
      if (section.type !== C.SHT_SYMTAB && section.type !== C.SHT_DYNSYM) continue;
      const strings = this.sections[section.link]!;
      this.#symbolTables.set(
        section.index,
        new LazySymbolTable({
          view,
          is64: this.header.is64,
          section: section.index,
          what: describe(section),
          offset: section.offset,
          count: section.fileSize / symbolBytes(this.header.is64),
          strings: { offset: strings.offset, size: strings.fileSize },
          extendedIndices: extended.get(section.index) ?? null,
          sectionCount: this.sections.length,
        }),
      );
    }
  }

  #firstTable(type: number): SymbolTable | undefined {
    const section = this.sections.find((each) => each.type === type);
    return section && this.#symbolTables.get(section.index);
  }

  /** The symbols that the dynamic section names, where no section header does. */
  #symbolsOf(dynamic: ReturnType<typeof readDynamic> | null): SymbolTable | undefined {
    if (!dynamic?.symbols) return undefined;
    const table = new LazySymbolTable({
      view: this.#view,
      is64: this.header.is64,
      section: -1,
      what: 'DT_SYMTAB',
      ...dynamic.symbols,
      extendedIndices: null,
      sectionCount: this.sections.length === 0 ? null : this.sections.length,
    });
    this.#symbolTables.set(-1, table);
    return table;
  }

  #relocationTables(dynamic: ReturnType<typeof readDynamic> | null): readonly RelocationTable[] {
    const view = this.#view;
    const relocations: RelocationTable[] = [];
    const covered: { readonly start: number; readonly end: number }[] = [];
    for (const section of this.sections) {
      const form = relocationForm(section.type);
      if (form === null) continue;
      covered.push({ start: section.offset, end: section.offset + section.fileSize });
      relocations.push(
        new LazyRelocationTable({
          view,
          is64: this.header.is64,
          form,
          section: section.index,
          target: form === 'relr' ? 0 : section.info,
          what: describe(section),
          offset: section.offset,
          sizeBytes: section.fileSize,
          symbols: form === 'relr' || section.link === 0 ? null : this.#symbolTables.get(section.link)!,
          namesNobody: section.link === 0 && this.header.type !== C.ET_REL && (section.flags & C.SHF_ALLOC) !== 0n,
        }),
      );
    }
    for (const table of dynamic?.tables ?? []) {
      const end = table.offset + table.sizeBytes;
      if (covered.some((range) => table.offset < range.end && range.start < end)) continue;
      relocations.push(
        new LazyRelocationTable({
          view,
          is64: this.header.is64,
          section: -1,
          target: 0,
          ...table,
          symbols: table.form === 'relr' ? null : this.dynamicSymbols,
        }),
      );
    }
    return relocations;
  }

  /**
   * The dynamic section of a linked file. Where section headers exist they are believed, and a
   * dynamic section that does not fit is a remark only: a separate debug file keeps its program
   * headers while the contents are gone.
   */
  #dynamic(): ReturnType<typeof readDynamic> | null {
    if (this.header.type !== C.ET_EXEC && this.header.type !== C.ET_DYN) return null;
    const segment = this.segments.find((each) => each.type === C.PT_DYNAMIC);
    if (segment === undefined) return null;
    try {
      const facts = readDynamic(this.#view, this.header.is64, this.segments, segment.offset, segment.fileSize);
      this.#remarks.push(...facts.remarks);
      return facts;
    } catch (error) {
      if (this.sections.length === 0 || !(error instanceof ElftraceError)) throw error;
      this.#remarks.push(`the dynamic section was not used: ${error.message}`);
      return null;
    }
  }

  get remarks(): readonly string[] {
    return (this.#allRemarks ??= [...this.#remarks, ...oddities(this.header, this.sections, this.segments)]);
  }

  symbolTable(section: SectionIndex): SymbolTable | undefined {
    return this.#symbolTables.get(section);
  }

  sectionsNamed(name: string): readonly ElfSection[] {
    if (this.#byName === null) {
      this.#byName = new Map();
      for (const section of this.sections) {
        const same = this.#byName.get(section.name);
        if (same === undefined) this.#byName.set(section.name, [section]);
        else same.push(section);
      }
    }
    return this.#byName.get(name) ?? [];
  }

  section(name: string): ElfSection | undefined {
    return this.sectionsNamed(name)[0];
  }

  contents(section: ElfSection): Uint8Array {
    return this.bytes.subarray(section.offset, section.offset + section.fileSize);
  }

  relocationsOf(section: ElfSection): readonly RelocationTable[] {
    if (this.#byTarget === null) {
      this.#byTarget = new Map();
      for (const table of this.relocations) {
        if (table.target === 0) continue;
        const same = this.#byTarget.get(table.target);
        if (same === undefined) this.#byTarget.set(table.target, [table]);
        else same.push(table);
      }
    }
    return this.#byTarget.get(section.index) ?? [];
  }

  notes(): readonly ElfNote[] {
    if (this.#notes === null) {
      const notes: ElfNote[] = [];
      for (const section of this.sections) {
        if (section.type !== C.SHT_NOTE) continue;
        const { index, offset, fileSize, alignBytes } = section;
        notes.push(...readNotes(this.#view, describe(section), index, offset, fileSize, alignBytes));
      }
      if (this.sections.length === 0) {
        for (const segment of this.segments) {
          if (segment.type !== C.PT_NOTE) continue;
          const { index, offset, fileSize, alignBytes } = segment;
          notes.push(...readNotes(this.#view, `segment ${index}`, index, offset, fileSize, alignBytes));
        }
      }
      this.#notes = notes;
    }
    return this.#notes;
  }

  groups(): readonly ElfGroup[] {
    return (this.#groups ??= this.sections
      .filter((section) => section.type === C.SHT_GROUP)
      .map((section) => readGroup(this.#view, section, this.sections, this.#symbolTables.get(section.link))));
  }

  sectionAt(address: bigint): ElfSection | undefined {
    if (this.#sectionIndex === null) {
      const held = this.header.type === C.ET_REL ? [] : this.sections.filter(occupiesMemory);
      const withBytes = held.filter((section) => section.fileSize > 0);
      const without = held.filter((section) => section.fileSize === 0);
      // Two lookups would do as well; sections with bytes come first, so that they win where both
      // start together.
      this.#sectionIndex = new RangeIndex(
        [...withBytes, ...without].map((section) => ({
          start: section.address,
          end: section.address + BigInt(section.size),
          value: section,
        })),
      );
    }
    return this.#sectionIndex.find(address)?.value;
  }

  #mapped(): readonly Mapped[] {
    if (this.header.type === C.ET_REL) return [];
    const loads = this.segments.filter((segment) => segment.type === C.PT_LOAD);
    if (loads.length > 0) return loads;
    return this.sections.filter(occupiesMemory);
  }

  fileOffsetOf(address: bigint): number {
    this.#addressIndex ??= new RangeIndex(
      this.#mapped().map((value) => ({ start: value.address, end: value.address + BigInt(value.fileSize), value })),
    );
    const found = this.#addressIndex.find(address)?.value;
    return found === undefined ? -1 : found.offset + Number(address - found.address);
  }

  addressOf(fileOffset: number): bigint | undefined {
    if (!Number.isSafeInteger(fileOffset)) return undefined;
    this.#offsetIndex ??= new RangeIndex(
      this.#mapped().map((value) => ({
        start: BigInt(value.offset),
        end: BigInt(value.offset + value.fileSize),
        value,
      })),
    );
    const found = this.#offsetIndex.find(BigInt(fileOffset))?.value;
    return found === undefined ? undefined : found.address + BigInt(fileOffset - found.offset);
  }
}

/** What segments and sections have in common when they hold bytes at addresses. */
interface Mapped {
  readonly offset: number;
  readonly fileSize: number;
  readonly address: bigint;
}

/** SHF_ALLOC and not a thread-local NOBITS section, which has an address and no place. */
function occupiesMemory(section: ElfSection): boolean {
  if ((section.flags & C.SHF_ALLOC) === 0n || section.size === 0) return false;
  return !(section.type === C.SHT_NOBITS && (section.flags & C.SHF_TLS) !== 0n);
}

/** `section 5 (.symtab)`, for messages. */
function describe(section: ElfSection): string {
  return `section ${section.index} (${section.name})`;
}

function relocationForm(type: number): RelocationForm | null {
  if (type === C.SHT_RELA) return 'rela';
  if (type === C.SHT_REL) return 'rel';
  if (type === C.SHT_CREL) return 'crel';
  return type === C.SHT_RELR ? 'relr' : null;
}

function emptySymbols(view: ByteView): SymbolTable {
  return new LazySymbolTable({
    view,
    is64: true,
    section: -1,
    what: 'no symbol table',
    offset: 0,
    count: 0,
    strings: { offset: 0, size: 0 },
    extendedIndices: null,
    sectionCount: null,
  });
}

function identify(bytes: Uint8Array): { is64: boolean; endian: 'little' | 'big' } {
  if (!isElf(bytes)) {
    throw new ElftraceError('not-elf', 'the file does not begin with 7f 45 4c 46', { fileOffset: 0, what: 'e_ident' });
  }
  if (bytes.length < 16) throw truncated('e_ident', 0, 16, bytes.length);
  const elfClass = bytes[4]!;
  const data = bytes[5]!;
  const version = bytes[6]!;
  if (elfClass !== C.ELFCLASS32 && elfClass !== C.ELFCLASS64) {
    throw malformed('e_ident[EI_CLASS]', `${elfClass} is neither 1 nor 2`, { fileOffset: 4, value: elfClass });
  }
  if (data !== C.ELFDATA2LSB && data !== C.ELFDATA2MSB) {
    throw malformed('e_ident[EI_DATA]', `${data} is neither 1 nor 2`, { fileOffset: 5, value: data });
  }
  if (version !== C.EV_CURRENT) {
    throw malformed('e_ident[EI_VERSION]', `${version} is not 1`, { fileOffset: 6, value: version });
  }
  return { is64: elfClass === C.ELFCLASS64, endian: data === C.ELFDATA2LSB ? 'little' : 'big' };
}

function pastAnyEnd(view: ByteView, at: number, wordBytes: 4 | 8, what: string): ElftraceError {
  const value = view.word(at, wordBytes);
  return new ElftraceError('elf-truncated', `${what}: ${hex(value)} is past the end of any file`, {
    what,
    value,
    fileOffset: at,
    max: view.size,
  });
}

/** A word of the file that must be an exact number. */
function exact(view: ByteView, at: number, wordBytes: 4 | 8, what: string): number {
  const value = view.exact(at, wordBytes);
  if (value > Number.MAX_SAFE_INTEGER) throw pastAnyEnd(view, at, wordBytes, what);
  return value;
}

/** Counts of the file header; those that do not fit 16 bits stand in section header 0. */
interface HeaderCounts {
  phnum: number;
  shnum: number;
  shstrndx: number;
}

function readCounts(
  view: ByteView,
  is64: boolean,
  shoff: number,
  shentsize: number,
  { phnum, shnum, shstrndx }: HeaderCounts,
  remarks: string[],
): HeaderCounts {
  const wordBytes = is64 ? 8 : 4;
  const headerBytes = is64 ? 64 : 40;
  if (shoff === 0) {
    if (shnum !== 0) throw malformed('e_shnum', `${shnum} section headers and no e_shoff`, { value: shnum });
    if (phnum === C.PN_XNUM) throw malformed('e_phnum', 'PN_XNUM without section header 0', { value: phnum });
    shstrndx = 0;
  } else {
    if (shentsize !== headerBytes) {
      throw malformed('e_shentsize', `${shentsize}, expected ${headerBytes}`, { value: shentsize });
    }
    if (shoff + headerBytes > view.size) throw truncated('section header 0', shoff, headerBytes, view.size);
    // Counts that do not fit 16 bits stand in section header 0: sh_size, sh_link, sh_info.
    if (shnum === 0) shnum = exact(view, shoff + (is64 ? 32 : 20), wordBytes, 'section header 0: sh_size (e_shnum)');
    if (shstrndx === C.SHN_XINDEX) shstrndx = view.u32(shoff + (is64 ? 40 : 24));
    if (phnum === C.PN_XNUM) {
      const extended = view.u32(shoff + (is64 ? 44 : 28));
      if (extended !== 0) phnum = extended;
    }
    if (shnum === 0) {
      remarks.push('e_shoff is set and there are no section headers');
      shstrndx = 0;
    }
    const end = shoff + shnum * headerBytes;
    if (end > view.size) throw truncated(`section header table of ${shnum}`, shoff, shnum * headerBytes, view.size);
    if (shstrndx !== 0 && shstrndx >= shnum) {
      throw new ElftraceError('bad-reference', `e_shstrndx: section ${shstrndx}, the file has ${shnum}`, {
        what: 'e_shstrndx',
        value: shstrndx,
        max: shnum - 1,
      });
    }
  }
  return { phnum, shnum, shstrndx };
}

function checkProgramHeaders(view: ByteView, is64: boolean, phoff: number, phentsize: number, phnum: number): void {
  const segmentBytes = is64 ? 56 : 32;
  if (phnum !== 0) {
    if (phoff === 0) throw malformed('e_phoff', `0 with ${phnum} program headers`, { value: 0 });
    if (phentsize !== segmentBytes) {
      throw malformed('e_phentsize', `${phentsize}, expected ${segmentBytes}`, { value: phentsize });
    }
    if (phoff + phnum * segmentBytes > view.size) {
      throw truncated(`program header table of ${phnum}`, phoff, phnum * segmentBytes, view.size);
    }
  }
}

function readHeader(view: ByteView, is64: boolean, remarks: string[]): ElfHeader {
  const size = is64 ? 64 : 52;
  const wordBytes = is64 ? 8 : 4;
  if (view.size < size) throw truncated('file header', 0, size, view.size);
  const version = view.u32(20);
  if (version !== C.EV_CURRENT) {
    throw malformed('e_version', `${version} is not 1`, { fileOffset: 20, value: version });
  }
  const afterWords = 24 + 3 * wordBytes;
  const phoff = exact(view, 24 + wordBytes, wordBytes, 'e_phoff');
  const shoff = exact(view, 24 + 2 * wordBytes, wordBytes, 'e_shoff');
  const ehsize = view.u16(afterWords + 4);
  const phentsize = view.u16(afterWords + 6);
  const shentsize = view.u16(afterWords + 10);
  if (ehsize !== size) remarks.push(`e_ehsize is ${ehsize}, not ${size}`);

  const counts = {
    phnum: view.u16(afterWords + 8),
    shnum: view.u16(afterWords + 12),
    shstrndx: view.u16(afterWords + 14),
  };
  const { phnum, shnum, shstrndx } = readCounts(view, is64, shoff, shentsize, counts, remarks);
  checkProgramHeaders(view, is64, phoff, phentsize, phnum);
  return {
    is64,
    endian: view.endian,
    osAbi: view.u8(7),
    abiVersion: view.u8(8),
    type: view.u16(16),
    machine: view.u16(18),
    entry: view.word(24, wordBytes),
    phoff: phnum === 0 ? 0 : phoff,
    shoff: shnum === 0 ? 0 : shoff,
    flags: view.u32(afterWords),
    ehsize,
    phentsize,
    phnum,
    shentsize,
    shnum,
    shstrndx,
  };
}

function readSections(view: ByteView, header: ElfHeader, remarks: string[]): ElfSection[] {
  const { is64, shnum, shoff } = header;
  const wordBytes = is64 ? 8 : 4;
  const step = is64 ? 64 : 40;
  const names = sectionNames(view, header);
  const sections: ElfSection[] = [];
  for (let index = 0; index < shnum; index++) {
    const at = shoff + index * step;
    // A text only where something is wrong: a tree of modules has hundreds of thousands of headers.
    const what = (): string => `section header ${index}`;
    const type = view.u32(at + 4);
    const flagsAt = at + 8;
    const offsetAt = flagsAt + 2 * wordBytes;
    const sizeAt = offsetAt + wordBytes;
    const afterWords = sizeAt + wordBytes;
    const offset = view.exact(offsetAt, wordBytes);
    const size = view.exact(sizeAt, wordBytes);
    if (offset > Number.MAX_SAFE_INTEGER) throw pastAnyEnd(view, offsetAt, wordBytes, `${what()}: sh_offset`);
    if (size > Number.MAX_SAFE_INTEGER) throw pastAnyEnd(view, sizeAt, wordBytes, `${what()}: sh_size`);
    const fileSize = type === C.SHT_NOBITS || type === C.SHT_NULL ? 0 : size;
    const section: ElfSection = {
      index,
      name: names(index, view.u32(at)),
      type,
      flags: view.word(flagsAt, wordBytes),
      address: view.word(flagsAt + wordBytes, wordBytes),
      offset,
      // In header 0 the field holds the extended number of sections.
      size: index === 0 ? 0 : size,
      fileSize,
      link: view.u32(afterWords),
      info: view.u32(afterWords + 4),
      alignBytes: view.word(afterWords + 8, wordBytes),
      entrySize: view.word(afterWords + 8 + wordBytes, wordBytes),
    };
    if (fileSize > 0 && offset + fileSize > view.size) {
      throw truncated(`${what()} (${section.name})`, offset, fileSize, view.size);
    }
    if (occupiesMemory(section) && section.address + BigInt(section.size) > (is64 ? 1n << 64n : 1n << 32n)) {
      throw malformed(`${what()}: sh_addr`, `${hex(section.address)} + ${hex(section.size)} leaves the address space`, {
        address: section.address,
        value: section.size,
      });
    }
    sections.push(section);
  }
  if (sections[0] !== undefined && sections[0].type !== C.SHT_NULL) {
    throw malformed('section header 0: sh_type', `${hex(sections[0].type)} is not SHT_NULL`, {
      value: sections[0].type,
    });
  }
  for (const section of sections) if (section.index > 0) checkSection(section, sections, is64, remarks);
  return sections;
}

/**
 * Names out of e_shstrndx. Reading them costs at most a few times the size of the table, also where
 * a hostile file lets a hundred thousand of them end in one long string.
 */
function sectionNames(view: ByteView, header: ElfHeader): (index: number, offset: number) => string {
  const { is64, shoff, shstrndx } = header;
  if (shstrndx === 0) return () => '';
  const wordBytes = is64 ? 8 : 4;
  const at = shoff + shstrndx * (is64 ? 64 : 40);
  const what = `section header ${shstrndx} (e_shstrndx)`;
  const type = view.u32(at + 4);
  if (type !== C.SHT_STRTAB) throw malformed(`${what}: sh_type`, `${hex(type)} is not SHT_STRTAB`, { value: type });
  const start = exact(view, at + 8 + 2 * wordBytes, wordBytes, `${what}: sh_offset`);
  const size = exact(view, at + 8 + 3 * wordBytes, wordBytes, `${what}: sh_size`);
  if (start + size > view.size) throw truncated(what, start, size, view.size);
  const known = new Map<number, string>();
  let budget = 65_536 + 16 * size;
  return (index, offset) => {
    const seen = known.get(offset);
    if (seen !== undefined) return seen;
    if (offset >= size) {
      if (offset === 0) return '';
      throw new ElftraceError(
        'bad-reference',
        `section header ${index}: sh_name: ${hex(offset)} is outside the ${size} bytes of names`,
        {
          what: `section header ${index}: sh_name`,
          value: offset,
          max: size - 1,
        },
      );
    }
    const name = cString(view.bytes, start + offset, start + size);
    budget -= name.length;
    if (budget < 0) throw malformed(what, 'the names overlap so much that no linker wrote them');
    known.set(offset, name);
    return name;
  };
}

function badLink(section: ElfSection, field: 'sh_link' | 'sh_info', value: number, cause: string): ElftraceError {
  const what = `section header ${section.index} (${section.name}): ${field}`;
  return new ElftraceError('bad-reference', `${what}: section ${value} ${cause}`, {
    what,
    value,
    section: section.name,
  });
}

/** A section of whole entries of a size. */
function checkEntries(section: ElfSection, bytes: number): void {
  if (section.fileSize > 0 && section.entrySize !== BigInt(bytes)) {
    throw malformed(`${headerName(section)}: sh_entsize`, `${section.entrySize}, expected ${bytes}`, {
      value: section.entrySize,
    });
  }
  if (section.fileSize % bytes !== 0) {
    throw malformed(`${headerName(section)}: sh_size`, `${section.fileSize} is no multiple of ${bytes}`, {
      value: section.fileSize,
    });
  }
}

const headerName = ({ index, name }: ElfSection): string => `section header ${index} (${name})`;

/** A section whose link names one of a type, or of the other. */
function checkLinked(section: ElfSection, sections: readonly ElfSection[], type: number, other = type): void {
  const found = sections[section.link]?.type;
  if (found !== type && found !== other) {
    throw badLink(section, 'sh_link', section.link, `has type ${hex(found ?? 0)}`);
  }
}

/** Links, infos and entry sizes of the types that later steps follow. */
function checkSection(section: ElfSection, sections: readonly ElfSection[], is64: boolean, remarks: string[]): void {
  if (section.type === C.SHT_NULL) return;
  if (section.link >= sections.length) throw badLink(section, 'sh_link', section.link, `of ${sections.length}`);
  switch (section.type) {
    case C.SHT_SYMTAB:
    case C.SHT_DYNSYM:
      checkEntries(section, symbolBytes(is64));
      checkLinked(section, sections, C.SHT_STRTAB);
      if (section.info > section.fileSize / symbolBytes(is64)) {
        remarks.push(`${describe(section)}: sh_info ${section.info} is more than the table has symbols`);
      }
      break;
    case C.SHT_RELA:
    case C.SHT_REL:
      checkEntries(section, relocationBytes(section.type === C.SHT_RELA ? 'rela' : 'rel', is64));
      if (section.link !== 0) checkLinked(section, sections, C.SHT_SYMTAB, C.SHT_DYNSYM);
      if (section.info >= sections.length) throw badLink(section, 'sh_info', section.info, `of ${sections.length}`);
      break;
    case C.SHT_RELR:
      checkEntries(section, relocationBytes('relr', is64));
      break;
    case C.SHT_CREL:
      if (section.link !== 0) checkLinked(section, sections, C.SHT_SYMTAB, C.SHT_DYNSYM);
      if (section.info >= sections.length) throw badLink(section, 'sh_info', section.info, `of ${sections.length}`);
      break;
    case C.SHT_SYMTAB_SHNDX:
      checkEntries(section, 4);
      checkLinked(section, sections, C.SHT_SYMTAB);
      break;
    case C.SHT_GROUP:
      checkEntries(section, 4);
      checkLinked(section, sections, C.SHT_SYMTAB);
      break;
    case C.SHT_ANDROID_REL:
    case C.SHT_ANDROID_RELA:
    case C.SHT_ANDROID_RELR:
      remarks.push(`${describe(section)}: packed relocations of type ${hex(section.type)} are not read`);
      break;
    default:
      break;
  }
}

function extendedIndexTables(
  sections: readonly ElfSection[],
  remarks: string[],
): Map<number, { readonly offset: number; readonly count: number }> {
  const tables = new Map<number, { readonly offset: number; readonly count: number }>();
  for (const section of sections) {
    if (section.type !== C.SHT_SYMTAB_SHNDX) continue;
    if (tables.has(section.link)) remarks.push(`${describe(section)}: second SHT_SYMTAB_SHNDX of one symbol table`);
    else tables.set(section.link, { offset: section.offset, count: section.fileSize / 4 });
  }
  return tables;
}

/**
 * True for a separate debug file: its allocated sections have no bytes, its program headers may
 * name what is gone.
 */
function isDebugFile(sections: readonly ElfSection[]): boolean {
  const allocated = sections.filter((section) => (section.flags & C.SHF_ALLOC) !== 0n && section.type !== C.SHT_NOTE);
  return allocated.length > 0 && allocated.every((section) => section.fileSize === 0);
}

function readSegments(
  view: ByteView,
  header: ElfHeader,
  sections: readonly ElfSection[],
  remarks: string[],
): ElfSegment[] {
  const { is64, phnum, phoff } = header;
  const segments: ElfSegment[] = [];
  const debugFile = phnum > 0 && isDebugFile(sections);
  for (let index = 0; index < phnum; index++) {
    const at = phoff + index * (is64 ? 56 : 32);
    const what = `program header ${index}`;
    const type = view.u32(at);
    const wordBytes = is64 ? 8 : 4;
    const offsetAt = is64 ? at + 8 : at + 4;
    const word = (n: number): bigint => view.word(offsetAt + n * wordBytes, wordBytes);
    const unused = type === C.PT_NULL;
    const offset = unused ? 0 : exact(view, offsetAt, wordBytes, `${what}: p_offset`);
    let fileSize = unused ? 0 : exact(view, offsetAt + 3 * wordBytes, wordBytes, `${what}: p_filesz`);
    const address = word(1);
    const memorySize = word(4);
    if (type === C.PT_LOAD) {
      if (BigInt(fileSize) > memorySize) {
        throw malformed(`${what}: p_memsz`, `${hex(memorySize)} is less than p_filesz ${hex(fileSize)}`, {
          value: memorySize,
        });
      }
      if (address + memorySize > (is64 ? 1n << 64n : 1n << 32n)) {
        throw malformed(`${what}: p_memsz`, `${hex(address)} + ${hex(memorySize)} leaves the address space`, {
          address,
          value: memorySize,
        });
      }
    }
    if (fileSize > 0 && offset + fileSize > view.size) {
      if (!debugFile) throw truncated(what, offset, fileSize, view.size);
      remarks.push(`${what} names bytes that this debug file does not have`);
      fileSize = Math.max(0, view.size - offset);
    }
    segments.push({
      index,
      type,
      flags: view.u32(is64 ? at + 4 : at + 24),
      offset,
      address,
      physicalAddress: word(2),
      fileSize,
      memorySize,
      alignBytes: is64 ? view.u64(at + 48) : BigInt(view.u32(at + 28)),
    });
  }
  return segments;
}

/**
 * End of the last structure; bytes behind it are no part of the file (a module signature, an
 * appended file).
 */
function claimedEnd(header: ElfHeader, sections: readonly ElfSection[], segments: readonly ElfSegment[]): number {
  let end = header.is64 ? 64 : 52;
  const claim = (offset: number, size: number): void => {
    if (size > 0 && offset + size > end) end = offset + size;
  };
  claim(header.phoff, header.phnum * header.phentsize);
  claim(header.shoff, header.shnum * header.shentsize);
  for (const section of sections) claim(section.offset, section.fileSize);
  for (const segment of segments) claim(segment.offset, segment.fileSize);
  return end;
}

/** Legal and worth telling. */
function oddities(header: ElfHeader, sections: readonly ElfSection[], segments: readonly ElfSegment[]): string[] {
  const remarks: string[] = [];
  let last: ElfSegment | undefined;
  for (const segment of segments) {
    if (segment.type !== C.PT_LOAD) continue;
    if (last !== undefined && segment.address < last.address) {
      remarks.push(`program header ${segment.index}: PT_LOAD at ${hex(segment.address)} is not in ascending order`);
    } else if (last !== undefined && segment.address < last.address + last.memorySize) {
      remarks.push(`program headers ${last.index} and ${segment.index}: PT_LOAD segments overlap`);
    }
    last = segment;
  }
  const inFile = sections.filter((section) => section.fileSize > 0).sort((a, b) => a.offset - b.offset);
  let furthest: ElfSection | undefined;
  let overlaps = 0;
  for (const section of inFile) {
    if (furthest !== undefined && section.offset < furthest.offset + furthest.fileSize) {
      if (overlaps++ === 0) remarks.push(`${describe(furthest)} and ${describe(section)} overlap in the file`);
    }
    if (furthest === undefined || section.offset + section.fileSize > furthest.offset + furthest.fileSize) {
      furthest = section;
    }
  }
  if (overlaps > 1) remarks.push(`${overlaps} pairs of sections overlap in the file`);
  if (header.shnum === 0) remarks.push('no section headers');
  else if (header.shstrndx === 0) remarks.push('the sections have no names');
  return remarks;
}
