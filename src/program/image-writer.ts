/**
 * Parts -> the bytes of an ET_EXEC image, with section headers, one `.symtab`, program headers with
 * spare room and the load map. The same parts give the same bytes; a part added or taken away at
 * the end changes nothing in front of it.
 *
 *   laid-out core                              linked core
 *     ELF header, program headers                the file as it was, but for the fields of its ELF
 *                                                header
 *     segments of core, runtime, modules         program headers, in a segment of their own
 *     load map, symbols, names                   segments of runtime and modules
 *     section headers                            load map, symbols, names, section headers
 *
 * Program headers of a linked core: some kernels and emulators compute their address as e_phoff
 * plus the load bias of the first segment, and C libraries read them there. So their segment lies
 * at that address. The old table stays as dead bytes.
 */
import type { Arch } from '../machine/arch.js';
import type { ModuleLoader } from '../machine/loader.js';
import { alignUp } from '../bits.js';
import { ByteView, nameBytes } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSegment } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import type { Address } from '../units.js';
import { keptTables, renumberedTable, stayingSections } from './kept-tables.js';
import { encodeLoadMap, type LoadedPart, type LoadMap, loadMapSection, type TableRange } from './load-map.js';
import { congruentOffset, endOf, type Part, rangesOf, runsOf, segmentFlags } from './part.js';

/** Everything but the tables of an image. */
export interface ImageParts {
  readonly arch: Arch;
  readonly loader: ModuleLoader;
  /** Core first. */
  readonly parts: readonly Part[];
  readonly entry: Address;
  /** Address of the program headers' segment when the core was laid out. */
  readonly coreBase: Address;
  readonly map: Omit<LoadMap, 'parts' | 'schema'>;
}

/** Program headers of type PT_NULL: room for what is added to an image in place. */
const sparePhdrs = 4;
/** The table of program headers grows in steps of this size. */
const headerStep = 0x1000;
/** Beyond this much padding in the file the program headers go where the file ends. */
const greatestPadding = 0x100_0000;

interface Header {
  readonly type: number;
  readonly flags: number;
  readonly offset: number;
  readonly address: Address;
  readonly physicalAddress: Address;
  readonly fileSize: number;
  readonly memorySize: bigint;
  readonly alignBytes: bigint;
}

/** Where program headers and parts begin, in the file and in memory. */
export interface HeaderPlace {
  readonly offset: number;
  readonly address: Address;
  readonly size: number;
  /** First free file position behind it. */
  readonly end: number;
}

const originalOf = (parts: readonly Part[]): ElfImage | null => parts[0]?.linked ?? null;

function headerCount(parts: readonly Part[]): number {
  const runs = parts.reduce((sum, part) => sum + runsOf(part).length, 0);
  // The segment of the headers themselves, and the stack's permission where there is no older
  // table.
  return runs + 1 + (originalOf(parts)?.segments.length ?? 1) + sparePhdrs;
}

/**
 * Place of the program headers of an image of these parts.
 * @param more segments that will be added
 */
export function headerPlace(image: Pick<ImageParts, 'arch' | 'loader' | 'parts' | 'coreBase'>, more = 0): HeaderPlace {
  const { arch, loader, parts, coreBase } = image;
  const is64 = arch.target.wordBytes === 8;
  const entry = is64 ? 56 : 32;
  const original = originalOf(parts);
  const tableBytes = (headerCount(parts) + more) * entry;
  const page = loader.segmentAlignBytes;
  if (original === null) {
    const size = alignUp((is64 ? 64 : 52) + tableBytes, headerStep);
    return { offset: 0, address: coreBase, size, end: size };
  }
  const size = alignUp(tableBytes, headerStep);
  const loads = original.segments.filter((each) => each.type === elf.PT_LOAD);
  const lowest = loads[0];
  if (lowest === undefined) throw new ElftraceError('unsupported-form', 'the core has no loadable segment');
  const bias = lowest.address - BigInt(lowest.offset);
  const memoryEnd = alignedUp(endOf({ ...parts[0]!, sections: [] }), page);
  const fileEnd = alignUp(original.bytes.length, page);
  const wanted = Number(memoryEnd - bias);
  const offset = wanted > fileEnd && wanted - fileEnd <= greatestPadding ? wanted : fileEnd;
  const address = bias + BigInt(offset) >= memoryEnd ? bias + BigInt(offset) : memoryEnd;
  return { offset, address, size, end: offset + size };
}

const alignedUp = (value: bigint, page: number): bigint => (value + BigInt(page) - 1n) & -BigInt(page);

/** Names of a string table, each once. */
class Strings {
  private readonly offsets = new Map<string, number>([['', 0]]);
  private readonly chunks: Uint8Array[] = [Uint8Array.of(0)];
  private end = 1;

  offset(name: string): number {
    const known = this.offsets.get(name);
    if (known !== undefined) return known;
    const bytes = nameBytes(`${name}\0`);
    const at = this.end;
    this.offsets.set(name, at);
    this.chunks.push(bytes);
    this.end += bytes.length;
    return at;
  }

  get bytes(): Uint8Array {
    const out = new Uint8Array(this.end);
    let at = 0;
    for (const chunk of this.chunks) {
      out.set(chunk, at);
      at += chunk.length;
    }
    return out;
  }
}

interface TableSection {
  readonly name: string;
  readonly type: number;
  readonly flags: bigint;
  readonly address: Address;
  readonly offset: number;
  readonly size: number;
  readonly link: number;
  readonly info: number;
  readonly alignBytes: bigint;
  readonly entrySize: bigint;
}

/** The file as it grows: where it ends, which bytes lie where, its sections and segments. */
class ImageFile {
  readonly headers: Header[];
  readonly sections: TableSection[] = [];
  /** Sections of each part. */
  readonly ranges: TableRange[] = [];
  private readonly chunks: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  private end: number;

  constructor(
    place: HeaderPlace,
    private readonly page: number,
  ) {
    this.end = place.end;
    this.headers = [load(place.offset, place.address, place.size, BigInt(place.size), elf.PF_R, page)];
  }

  /** Segments of a part, one behind the other. */
  addPart(part: Part): void {
    const offsets = new Map<object, number>();
    for (const run of runsOf(part)) {
      const start = congruentOffset(this.end, run.start, this.page);
      const fileSize = Number(run.fileEnd - run.start);
      const flags = segmentFlags(run.permission);
      this.headers.push(load(start, run.start, fileSize, run.end - run.start, flags, this.page));
      for (const section of run.sections) {
        const offset = start + Number(section.address - run.start);
        offsets.set(section, offset);
        if (section.contents !== null) this.chunks.push({ offset, bytes: section.contents });
      }
      if (fileSize > 0) this.end = start + fileSize;
    }
    this.ranges.push({ first: 1 + this.sections.length, count: part.sections.length });
    for (const section of part.sections) {
      this.sections.push({ ...section, offset: section.fileOffset ?? offsets.get(section) ?? this.end });
    }
  }

  /** A section behind the parts, in no segment. */
  append(name: string, type: number, bytes: Uint8Array, alignBytes: number, more: Partial<TableSection> = {}): void {
    const offset = alignUp(this.end, alignBytes);
    this.chunks.push({ offset, bytes });
    this.sections.push({
      name,
      type,
      flags: 0n,
      address: 0n,
      offset,
      size: bytes.length,
      link: 0,
      info: 0,
      alignBytes: BigInt(alignBytes),
      entrySize: 0n,
      ...more,
    });
    this.end = offset + bytes.length;
  }

  /** Names of all sections, as the last section. */
  appendNames(): Strings {
    const names = new Strings();
    for (const section of this.sections) names.offset(section.name);
    names.offset('.shstrtab');
    this.append('.shstrtab', elf.SHT_STRTAB, names.bytes, 1);
    return names;
  }

  /**
   * Section header table, and everything into one array.
   * @param original  the file whose bytes stay in front; null where there is none
   */
  finish(
    arch: Arch,
    names: Strings,
    original: ElfImage | null,
  ): { readonly bytes: Uint8Array; readonly view: ByteView; readonly shoff: number; readonly shnum: number } {
    const { wordBytes, dataEndian } = arch.target;
    const shoff = alignUp(this.end, 8);
    const shentsize = wordBytes === 8 ? 64 : 40;
    const shnum = this.sections.length + 1;
    if (shnum >= elf.SHN_LORESERVE) {
      throw new ElftraceError(
        'unsupported-form',
        `the image would have ${shnum} sections, plain ELF numbers end at 65279`,
      );
    }
    const total = shoff + shnum * shentsize;
    if (wordBytes === 4 && total > 0xffff_ffff) {
      throw new ElftraceError('unsupported-form', `the image would have ${total} bytes, a 32-bit file ends at 4 GiB`);
    }
    const bytes = new Uint8Array(total);
    if (original !== null) bytes.set(original.bytes);
    for (const chunk of this.chunks) bytes.set(chunk.bytes, chunk.offset);
    const view = new ByteView(bytes, dataEndian, 'image');
    this.sections.forEach((section, i) => {
      writeSectionHeader(view, shoff + (i + 1) * shentsize, section, names.offset(section.name), wordBytes);
    });
    return { bytes, view, shoff, shnum };
  }
}

/** Symbols of all parts in the order of the table: the local ones, then the others. */
class SymbolRows {
  readonly rows: { readonly part: number; readonly symbol: Part['symbols'][number] }[] = [];
  /** By part. */
  readonly locals: TableRange[] = [];
  readonly globals: TableRange[] = [];

  constructor(parts: readonly Part[]) {
    for (const local of [true, false]) {
      parts.forEach((part, index) => {
        const first = 1 + this.rows.length;
        for (const symbol of part.symbols) {
          if ((symbol.info >> 4 === elf.STB_LOCAL) === local) this.rows.push({ part: index, symbol });
        }
        (local ? this.locals : this.globals).push({ first, count: 1 + this.rows.length - first });
      });
    }
  }

  get firstGlobal(): number {
    return 1 + this.locals.reduce((sum, range) => sum + range.count, 0);
  }

  /**
   * The bytes of the table; its names go to `strings`.
   * @param ranges  sections of each part
   */
  encode({ target }: Arch, ranges: readonly TableRange[], strings: Strings): Uint8Array {
    const is64 = target.wordBytes === 8;
    const rowBytes = symbolBytes(is64);
    const symtab = new Uint8Array((this.rows.length + 1) * rowBytes);
    const view = new ByteView(symtab, target.dataEndian, '.symtab');
    this.rows.forEach(({ part, symbol }, i) => {
      const at = (i + 1) * rowBytes;
      const home =
        typeof symbol.home === 'number'
          ? ranges[part]!.first + symbol.home
          : symbol.home === 'undefined'
            ? elf.SHN_UNDEF
            : elf.SHN_ABS_RESOLVED & 0xffff;
      view.insertU32(at, strings.offset(symbol.name));
      if (is64) {
        view.insertU8(at + 4, symbol.info);
        view.insertU8(at + 5, symbol.other);
        view.insertU16(at + 6, home);
        view.insertU64(at + 8, symbol.value);
        view.insertU64(at + 16, symbol.size);
      } else {
        view.insertU32(at + 4, Number(symbol.value));
        view.insertU32(at + 8, Number(symbol.size));
        view.insertU8(at + 12, symbol.info);
        view.insertU8(at + 13, symbol.other);
        view.insertU16(at + 14, home);
      }
    });
    return symtab;
  }
}

const symbolBytes = (is64: boolean): number => (is64 ? 24 : 16);

/** What the load map says of each part. */
function loadedParts(parts: readonly Part[], ranges: readonly TableRange[], symbols: SymbolRows): LoadedPart[] {
  return parts.map((part, i) => ({
    kind: part.kind,
    name: part.name,
    sha256: part.sha256,
    toc: part.toc,
    sections: ranges[i]!,
    symbols: { locals: symbols.locals[i]!, globals: symbols.globals[i]! },
    ranges: rangesOf(part),
    stubs: part.stubs,
    entryStubs: part.entryStubs,
    uses: [...part.uses].sort(),
  }));
}

/** Relocations that the linker of the core kept, with the numbers that symbols have now. */
function appendKept(file: ImageFile, original: ElfImage, symbols: SymbolRows, symtabIndex: number): void {
  const numbers = symbolNumbers(original, symbols.locals[0]!.first, symbols.globals[0]!.first);
  const staying = stayingSections(original);
  for (const table of keptTables(original)) {
    const { name, type, flags, alignBytes, entrySize } = original.sections[table.section]!;
    // The core is the first part: its sections begin at number 1.
    const info = 1 + staying.findIndex(({ index }) => index === table.target);
    const bytes = renumberedTable(original, table, numbers);
    file.append(name, type, bytes, Math.max(1, Number(alignBytes)), { flags, link: symtabIndex, info, entrySize });
  }
}

/**
 * Makes the image.
 * @throws ElftraceError 'unsupported-form' for images with more sections or segments than ELF
 *   numbers plainly
 */
export function writeImage(image: ImageParts): { readonly bytes: Uint8Array; readonly map: LoadMap } {
  const { arch, loader, parts } = image;
  const { wordBytes, dataEndian } = arch.target;
  const is64 = wordBytes === 8;
  const original = originalOf(parts);
  const place = headerPlace(image);
  const file = new ImageFile(place, loader.segmentAlignBytes);
  for (const part of parts) file.addPart(part);
  const symbols = new SymbolRows(parts);
  const map: LoadMap = { schema: 1, ...image.map, parts: loadedParts(parts, file.ranges, symbols) };

  // Tables behind the parts.
  file.append(loadMapSection, elf.SHT_NOTE, encodeLoadMap(map, dataEndian), 4);
  const strings = new Strings();
  const symtab = symbols.encode(arch, file.ranges, strings);
  const symtabIndex = file.sections.length + 1;
  file.append('.symtab', elf.SHT_SYMTAB, symtab, wordBytes, {
    link: symtabIndex + 1,
    info: symbols.firstGlobal,
    entrySize: BigInt(symbolBytes(is64)),
  });
  file.append('.strtab', elf.SHT_STRTAB, strings.bytes, 1);
  if (original !== null) appendKept(file, original, symbols, symtabIndex);
  const { bytes, view, shoff, shnum } = file.finish(arch, file.appendNames(), original);

  const phoff = original === null ? (is64 ? 64 : 52) : place.offset;
  const phentsize = is64 ? 56 : 32;
  const table = programHeaders(file.headers, original, place, phentsize);
  table.forEach((header, i) => {
    writeProgramHeader(view, phoff + i * phentsize, header, wordBytes);
  });
  if (table.length >= elf.PN_XNUM) {
    throw new ElftraceError('unsupported-form', `the image would have ${table.length} segments`);
  }
  writeHeader(view, image, { phoff, phnum: table.length, shoff, shnum, shstrndx: shnum - 1 });
  return { bytes, map };
}

/**
 * Numbers in the image of a core's symbols: its local ones, and the others, are each in the order
 * that they had.
 */
function symbolNumbers({ symbols }: ElfImage, local: number, global: number): Uint32Array {
  const numbers = new Uint32Array(symbols.count);
  for (let i = 1; i < symbols.count; i++) {
    numbers[i] = symbols.info[i]! >> 4 === elf.STB_LOCAL ? local++ : global++;
  }
  return numbers;
}

function load(
  offset: number,
  address: Address,
  fileSize: number,
  memorySize: bigint,
  flags: number,
  page: number,
): Header {
  return {
    type: elf.PT_LOAD,
    flags,
    offset,
    address,
    physicalAddress: address,
    fileSize,
    memorySize,
    alignBytes: BigInt(page),
  };
}

/** ELF wants PT_PHDR and PT_INTERP in front and PT_LOAD ascending by address. */
function programHeaders(
  added: readonly Header[],
  original: ElfImage | null,
  place: HeaderPlace,
  phentsize: number,
): Header[] {
  const own: Header[] = (original?.segments ?? []).map((segment) => ofSegment(segment));
  const isLoad = (header: Header): boolean => header.type === elf.PT_LOAD;
  const inFront = own.filter((each) => each.type === elf.PT_PHDR || each.type === elf.PT_INTERP);
  const loads = [...own.filter(isLoad), ...added].sort((a, b) =>
    a.address < b.address ? -1 : a.address > b.address ? 1 : 0,
  );
  const rest = own.filter((each) => !isLoad(each) && !inFront.includes(each) && each.type !== elf.PT_NULL);
  const stack: Header[] =
    original === null ? [{ ...load(0, 0n, 0, 0n, elf.PF_R | elf.PF_W, 16), type: elf.PT_GNU_STACK }] : [];
  const spare: Header[] = Array.from({ length: sparePhdrs }, () => ({
    ...load(0, 0n, 0, 0n, 0, 0),
    type: elf.PT_NULL,
  }));
  const table = [...inFront, ...loads, ...rest, ...stack, ...spare];
  const size = table.length * phentsize;
  return table.map((header) =>
    header.type === elf.PT_PHDR
      ? {
          ...header,
          offset: place.offset,
          address: place.address,
          physicalAddress: place.address,
          fileSize: size,
          memorySize: BigInt(size),
        }
      : header,
  );
}

function ofSegment(segment: ElfSegment): Header {
  const { type, flags, offset, address, physicalAddress, fileSize, memorySize, alignBytes } = segment;
  return { type, flags, offset, address, physicalAddress, fileSize, memorySize, alignBytes };
}

function writeSectionHeader(view: ByteView, at: number, section: TableSection, name: number, wordBytes: 4 | 8): void {
  const words = [section.flags, section.address, BigInt(section.offset), BigInt(section.size)] as const;
  view.insertU32(at, name);
  view.insertU32(at + 4, section.type);
  words.forEach((word, i) => {
    view.insertWord(at + 8 + i * wordBytes, word, wordBytes);
  });
  const next = at + 8 + 4 * wordBytes;
  view.insertU32(next, section.link);
  view.insertU32(next + 4, section.info);
  view.insertWord(next + 8, section.alignBytes, wordBytes);
  view.insertWord(next + 8 + wordBytes, section.entrySize, wordBytes);
}

function writeProgramHeader(view: ByteView, at: number, header: Header, wordBytes: 4 | 8): void {
  view.insertU32(at, header.type);
  if (wordBytes === 8) view.insertU32(at + 4, header.flags);
  const first = wordBytes === 8 ? at + 8 : at + 4;
  const words = [
    BigInt(header.offset),
    header.address,
    header.physicalAddress,
    BigInt(header.fileSize),
    header.memorySize,
  ];
  words.forEach((word, i) => {
    view.insertWord(first + i * wordBytes, word, wordBytes);
  });
  const next = first + words.length * wordBytes;
  if (wordBytes === 4) view.insertU32(next, header.flags);
  view.insertWord(wordBytes === 8 ? next : next + 4, header.alignBytes, wordBytes);
}

interface TablePlaces {
  readonly phoff: number;
  readonly phnum: number;
  readonly shoff: number;
  readonly shnum: number;
  readonly shstrndx: number;
}

/** Offsets of the fields that follow e_entry, by word size. */
function writeHeader(view: ByteView, image: ImageParts, tables: TablePlaces): void {
  const { arch, loader } = image;
  const { wordBytes } = arch.target;
  const is64 = wordBytes === 8;
  const original = originalOf(image.parts);
  if (original === null) {
    const ident = [0x7f, 0x45, 0x4c, 0x46, is64 ? elf.ELFCLASS64 : elf.ELFCLASS32];
    ident.push(arch.target.dataEndian === 'little' ? elf.ELFDATA2LSB : elf.ELFDATA2MSB, elf.EV_CURRENT);
    ident.forEach((byte, i) => {
      view.insertU8(i, byte);
    });
    view.insertU16(16, elf.ET_EXEC);
    view.insertU16(18, arch.target.elfMachine);
    view.insertU32(20, elf.EV_CURRENT);
    view.insertU32(24 + 3 * wordBytes, loader.imageFlags);
  }
  const after = 24 + 3 * wordBytes + 4;
  view.insertWord(24, image.entry, wordBytes);
  view.insertWord(24 + wordBytes, BigInt(tables.phoff), wordBytes);
  view.insertWord(24 + 2 * wordBytes, BigInt(tables.shoff), wordBytes);
  view.insertU16(after, is64 ? 64 : 52);
  view.insertU16(after + 2, is64 ? 56 : 32);
  view.insertU16(after + 4, tables.phnum);
  view.insertU16(after + 6, is64 ? 64 : 40);
  view.insertU16(after + 8, tables.shnum);
  view.insertU16(after + 10, tables.shstrndx);
}

/** Bytes of the ELF header: what of a linked core's own bytes an image changes. */
export function headerBytes(image: ElfImage): Uint8Array {
  return image.bytes.slice(0, image.header.is64 ? 64 : 52);
}
