/**
 * ElfImage + edits -> bytes. An untouched image gives the same bytes back. Nothing that was there
 * ever moves: patches are made in place, new sections go behind the old end, in the layout that
 * recordmcount uses:
 *
 *   old bytes (patched) | .shstrtab, old and new names | new bodies … | sections that grew |
 *   section header table
 *
 * The old name table and the old header table stay where they were as dead bytes, so that
 * truncating the file and putting the few changed bytes of the file header back restores the
 * original; `changes` lists them for the journal (RT-7).
 */
import { ByteView, equalBytes, nameBytes, type Pieces } from '../bytes.js';
import { ElftraceError, hex } from '../errors.js';
import * as C from './constants.js';
import type { ElfImage, ElfSection } from './image.js';
import { lowerBound } from './lookup.js';
import type { Address } from '../units.js';
import { symbolBytes } from './symbols.js';

export interface Patch {
  /** File position, bytes. */
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Patches that are kept otherwise: many small ones as columns. */
export interface PatchList {
  readonly count: number;
  /** File positions, bytes; `count` entries. */
  readonly offset: Float64Array | Uint32Array;
  /** Bytes of a patch. */
  size(i: number): number;
  /**
   * Writes the bytes of a patch to their place.
   * @param start  where in the file `bytes` begins; 0 when absent
   */
  put(i: number, bytes: Uint8Array, start?: number): void;
}

export interface NewSection {
  readonly name: string;
  readonly type: number;
  readonly flags: bigint;
  /**
   * Section numbers; those of new sections are `firstNewSection(image)` and the following, in the
   * order given.
   */
  readonly link: number;
  readonly info: number;
  /** A power of two. */
  readonly alignBytes: number;
  readonly entrySize: number;
  readonly contents: Uint8Array;
}

export interface Edits {
  /** Sorted by offset, not overlapping, inside the ELF part of the file. */
  readonly patches: readonly Patch[] | PatchList;
  readonly appendSections?: readonly NewSection[];
  /**
   * Sections that get more bytes: their contents, patches included, move to the end. Where the old
   * ones lay there are dead bytes.
   */
  readonly growSections?: readonly Growth[];
  /** Names of new undefined symbols behind those of `.symtab`, in this order. */
  readonly undefinedSymbols?: readonly string[];
  /** Global symbols of code behind those, in this order. */
  readonly codeSymbols?: readonly CodeSymbol[];
  /** Cuts what follows the ELF part (a module signature that no longer holds). */
  readonly dropTrailing?: boolean;
  /** Appends bytes and names them in a program header of type PT_NULL, which becomes PT_NOTE. */
  readonly noteSegment?: { readonly contents: Uint8Array; readonly alignBytes: 4 | 8 };
}

/** A hidden symbol of a function. */
export interface CodeSymbol {
  readonly name: string;
  readonly section: number;
  readonly address: Address;
  /** Bytes. */
  readonly size: number;
}

/** The name of an undefined symbol, or one of code. */
type NewSymbol = string | CodeSymbol;

/** More bytes for a section that has its place in the file and is not loaded. */
export interface Growth {
  readonly index: number;
  readonly appended: Uint8Array;
}

/** Bytes of the old part that differ now. */
export interface Change {
  readonly offset: number;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

export interface Written extends Pieces {
  /** All of it, made when it is asked for. */
  readonly bytes: Uint8Array;
  /** Sorted by offset, not overlapping; `before.length === after.length`. */
  readonly changes: readonly Change[];
  /**
   * Size of the part that was kept; truncating to it and undoing `changes`, then adding `dropped`,
   * restores the input.
   */
  readonly keptSize: number;
  /** Trailing bytes that were cut; empty unless `dropTrailing`. */
  readonly dropped: Uint8Array;
  /** The new sections in the order given, then the name table if the file had none. */
  readonly sections: readonly { readonly index: number; readonly offset: number; readonly size: number }[];
  /** Position of the note segment's contents; -1 without one. */
  readonly noteOffset: number;
}

/** Why sections cannot be appended to this image, or null when they can. */
export function whyNoSections(image: ElfImage): string | null {
  if (image.header.shnum === 0) return 'the file has no section headers';
  const names = image.sections[image.header.shstrndx];
  if (names !== undefined && (names.flags & C.SHF_ALLOC) !== 0n)
    return 'its section names are part of the loaded image';
  return null;
}

/** Why symbols cannot be added, or null when they can. */
export function whyNoSymbols(image: ElfImage): string | null {
  const table = image.sections[image.symbols.section];
  const strings = table === undefined ? undefined : image.sections[table.link];
  if (table?.type !== C.SHT_SYMTAB || strings === undefined) return 'the file has no symbol table';
  if (((table.flags | strings.flags) & C.SHF_ALLOC) !== 0n) return 'its symbol table is part of the loaded image';
  return image.sections.some(({ type, link }) => type === C.SHT_SYMTAB_SHNDX && link === table.index)
    ? 'their section numbers have a table of their own'
    : null;
}

/** Why a note segment cannot be added, or null when it can. */
export function whyNoNoteSegment(image: ElfImage): string | null {
  if (image.segments.some((segment) => segment.type === C.PT_NULL)) return null;
  // Moving the program header table breaks programs that find it through AT_PHDR, and no other
  // entry may be given up.
  return image.segments.length === 0
    ? 'the file has no program headers'
    : 'no program header is free (PT_NULL), and the table cannot grow in place';
}

/**
 * Makes the bytes of an edited image; `image` and its bytes stay as they are.
 * @throws ElftraceError 'unsupported-form' for a file that cannot take sections or a note segment,
 *   'internal' for edits
 *         that are not sorted, overlap or leave the ELF part
 */
export function writeElf(image: ElfImage, edits: Edits): Written {
  const input = image.bytes;
  const keptSize = edits.dropTrailing === true ? image.elfSize : input.length;
  const patches = 'put' in edits.patches ? edits.patches : listOf(edits.patches);
  checkPatches(image, patches);
  const added = edits.appendSections ?? [];
  const grown = edits.growSections ?? [];
  const symbols = [...(edits.undefinedSymbols ?? []), ...(edits.codeSymbols ?? [])];
  const layout =
    added.length + grown.length + symbols.length === 0 ? null : planSections(image, added, grown, symbols, keptSize);
  let end = layout === null ? keptSize : layout.end;
  let noteOffset = -1;
  if (edits.noteSegment !== undefined) {
    noteOffset = alignUp(end, edits.noteSegment.alignBytes);
    end = noteOffset + edits.noteSegment.contents.length;
  }
  checkReach(image, end);

  const output = new OutputFile(image, patches, keptSize, end);
  const touched: Touched[] = [];
  if (layout !== null) touched.push(...writeSections(image, output, layout));
  if (edits.noteSegment !== undefined) {
    output.tail.bytes.set(edits.noteSegment.contents, noteOffset - keptSize);
    touched.push(writeNoteSegment(image, output, noteOffset, edits.noteSegment));
  }
  let bytes: Uint8Array | undefined;
  let changes: Change[] | undefined;
  return {
    size: end,
    pieces: () => output.pieces(),
    get bytes() {
      return (bytes ??= output.all());
    },
    // Made when asked for: a plan has its own list already.
    get changes() {
      changes ??= listChanges(input, this.bytes, [
        ...Array.from(patches.offset.subarray(0, patches.count), (offset, i) => ({ offset, size: patches.size(i) })),
        ...touched,
      ]);
      return changes;
    },
    keptSize,
    dropped: input.slice(keptSize),
    sections:
      layout === null
        ? []
        : layout.placed.map(({ index, offset, section }) => ({ index, offset, size: section.contents.length })),
    noteOffset,
  };
}

/** Bytes of a piece. */
const PIECE = 1 << 20;

/** The output: what was kept of the input with patches in it, and what comes behind. */
class OutputFile {
  /** What lies behind the part that was kept; positions are from there on. */
  readonly tail: ByteView;
  /** Headers in the kept part that change, over the patches. */
  private readonly headers: { readonly offset: number; readonly bytes: Uint8Array }[] = [];

  constructor(
    private readonly image: ElfImage,
    private readonly patches: PatchList,
    readonly keptSize: number,
    private readonly end: number,
  ) {
    this.tail = new ByteView(new Uint8Array(end - keptSize), image.header.endian, 'output');
  }

  /** A part of what was kept that is written to by hand; no two of them overlap. */
  header(offset: number, size: number): ByteView {
    const bytes = this.kept(offset, offset + size).slice();
    this.headers.push({ offset, bytes });
    return new ByteView(bytes, this.image.header.endian, 'output');
  }

  /**
   * What was kept in [from, to), patched.
   * @param room  where it is put; fresh when absent
   */
  kept(from: number, to: number, room?: Uint8Array): Uint8Array {
    const { patches } = this;
    const { count, offset } = patches;
    let first = lowerBound(offset.subarray(0, count), from);
    if (first > 0 && offset[first - 1]! + patches.size(first - 1) > from) first--;
    const behind = lowerBound(offset.subarray(0, count), to);
    // A patch that lies in here in part is put down whole.
    const start = first < behind ? Math.min(from, offset[first]!) : from;
    const end = first < behind ? Math.max(to, offset[behind - 1]! + patches.size(behind - 1)) : to;
    const bytes = room === undefined || room.length < end - start ? new Uint8Array(end - start) : room;
    bytes.set(this.image.bytes.subarray(start, end));
    for (let i = first; i < behind; i++) patches.put(i, bytes, start);
    return bytes.subarray(from - start, to - start);
  }

  *pieces(): Iterable<Uint8Array> {
    // Of thousands of small files each would leave a mebibyte behind.
    const room = new Uint8Array(Math.min(PIECE, this.keptSize) + 4096);
    for (let from = 0; from < this.keptSize; from += PIECE) {
      const piece = this.kept(from, Math.min(from + PIECE, this.keptSize), room);
      this.putHeaders(piece, from);
      yield piece;
    }
    if (this.tail.size > 0) yield this.tail.bytes;
  }

  all(): Uint8Array {
    const { patches, image, keptSize } = this;
    const bytes = new Uint8Array(this.end);
    bytes.set(image.bytes.subarray(0, keptSize));
    const { count } = patches;
    for (let i = 0; i < count; i++) patches.put(i, bytes);
    this.putHeaders(bytes, 0);
    bytes.set(this.tail.bytes, keptSize);
    return bytes;
  }

  private putHeaders(piece: Uint8Array, start: number): void {
    for (const { offset, bytes } of this.headers) {
      const from = Math.max(offset, start);
      const to = Math.min(offset + bytes.length, start + piece.length);
      if (from < to) piece.set(bytes.subarray(from - offset, to - offset), from - start);
    }
  }
}

/**
 * The inverse of `writeElf` from what a journal keeps: the original bytes.
 * @throws ElftraceError 'state-mismatch' when the bytes at a change are not those that were written
 */
export function undoWrite(bytes: Uint8Array, journal: Pick<Written, 'changes' | 'keptSize' | 'dropped'>): Uint8Array {
  const out = new Uint8Array(journal.keptSize + journal.dropped.length);
  out.set(bytes.subarray(0, journal.keptSize));
  for (const change of journal.changes) {
    const now = bytes.subarray(change.offset, change.offset + change.after.length);
    if (!equalBytes(now, change.after)) {
      throw new ElftraceError('state-mismatch', `bytes at ${hex(change.offset)} are not the ones that were written`, {
        fileOffset: change.offset,
      });
    }
    out.set(change.before, change.offset);
  }
  out.set(journal.dropped, journal.keptSize);
  return out;
}

function alignUp(value: number, alignBytes: number): number {
  return Math.ceil(value / alignBytes) * alignBytes;
}

function fault(message: string, fileOffset: number): ElftraceError {
  return new ElftraceError('internal', `edits: ${message}`, { fileOffset });
}

function listOf(patches: readonly Patch[]): PatchList {
  return {
    count: patches.length,
    offset: Float64Array.from(patches, ({ offset }) => offset),
    size: (i) => patches[i]!.bytes.length,
    put: (i, bytes, start = 0) => {
      bytes.set(patches[i]!.bytes, patches[i]!.offset - start);
    },
  };
}

function checkPatches({ elfSize }: ElfImage, patches: PatchList): void {
  const { count, offset } = patches;
  let end = 0;
  for (let i = 0; i < count; i++) {
    const here = offset[i]!;
    const behind = here + patches.size(i);
    if (here >= end && behind <= elfSize && Number.isSafeInteger(here)) end = behind;
    else throw badPatch(here, end, elfSize);
  }
}

function badPatch(offset: number, end: number, elfSize: number): ElftraceError {
  const what = `the patch at ${offset}`;
  return Number.isSafeInteger(offset) && offset >= end
    ? fault(`${what} leaves the ELF part of ${elfSize} bytes`, offset)
    : fault(`${what} is not behind the one before it, which ends at ${end}`, offset);
}

/** Offsets of a 32-bit file are 32 bits wide. */
function checkReach(image: ElfImage, end: number): void {
  if (image.wordBytes === 4 && end > 0xffff_ffff) {
    throw new ElftraceError('unsupported-form', `the output would have ${end} bytes, a 32-bit file ends at 4 GiB`, {
      value: end,
    });
  }
}

interface Placed {
  readonly index: number;
  readonly offset: number;
  readonly nameOffset: number;
  readonly section: NewSection;
}

interface Layout {
  /** Position and contents of the name table's new copy. */
  readonly namesOffset: number;
  readonly names: Uint8Array;
  readonly shstrndx: number;
  readonly placed: readonly Placed[];
  readonly moved: readonly (Growth & { readonly offset: number; readonly section: ElfSection })[];
  readonly tableOffset: number;
  readonly shnum: number;
  readonly end: number;
}

/**
 * New symbols as growth of the symbol table and of its names; the names may be those of the
 * sections, too (clang).
 */
function growSymbols(image: ElfImage, symbols: readonly NewSymbol[], sectionNames: NameTable): Growth[] {
  const refusal = whyNoSymbols(image);
  if (refusal !== null) {
    throw new ElftraceError('unsupported-form', `cannot add symbols: ${refusal}`, { what: '.symtab' });
  }
  const table = image.sections[image.symbols.section]!;
  const strings = image.sections[table.link]!;
  const shared = strings.index === image.header.shstrndx;
  const own = shared ? sectionNames : new NameTable(image.contents(strings));
  const { is64 } = image.header;
  const size = symbolBytes(is64);
  const rows = new Uint8Array(size * symbols.length);
  const view = new ByteView(rows, image.header.endian);
  symbols.forEach((symbol, i) => {
    const code = typeof symbol === 'string' ? null : symbol;
    const at = i * size;
    view.insertU32(at, own.add(typeof symbol === 'string' ? symbol : symbol.name));
    // STB_GLOBAL, STT_NOTYPE or STT_FUNC; then visibility and section.
    rows[at + (is64 ? 4 : 12)] = code === null ? 0x10 : 0x12;
    if (code === null) return;
    rows[at + (is64 ? 5 : 13)] = C.STV_HIDDEN;
    view.insertU16(at + (is64 ? 6 : 14), code.section);
    view.insertWord(at + (is64 ? 8 : 4), code.address, image.wordBytes);
    view.insertWord(at + (is64 ? 16 : 8), BigInt(code.size), image.wordBytes);
  });
  const growth: Growth[] = [{ index: table.index, appended: rows }];
  if (!shared) growth.push({ index: strings.index, appended: own.join().subarray(strings.fileSize) });
  return growth;
}

/** The section of names in a file that has none. */
function namesRow(
  { index, nameOffset }: { readonly nameOffset: number; readonly index: number },
  offset: number,
  contents: Uint8Array,
): Placed {
  const own = { name: '.shstrtab', type: C.SHT_STRTAB, flags: 0n, link: 0, info: 0, alignBytes: 1, entrySize: 0 };
  return { index, offset, nameOffset, section: { ...own, contents } };
}

function planSections(
  image: ElfImage,
  added: readonly NewSection[],
  grown: readonly Growth[],
  symbols: readonly NewSymbol[],
  start: number,
): Layout {
  const refusal = whyNoSections(image);
  if (refusal !== null) {
    throw new ElftraceError('unsupported-form', `cannot append sections: ${refusal}`, { what: 'section headers' });
  }
  const oldNames = image.sections[image.header.shstrndx];
  const hasNames = image.header.shstrndx !== 0 && oldNames !== undefined;
  const names = new NameTable(hasNames ? image.contents(oldNames) : new Uint8Array(1));
  const sections = [...added];
  const nameOffsets = sections.map((section) => names.add(section.name));
  let shstrndx = image.header.shstrndx;
  let namesSection: { readonly nameOffset: number; readonly index: number } | null = null;
  if (!hasNames) {
    shstrndx = image.header.shnum + sections.length;
    namesSection = { nameOffset: names.add('.shstrtab'), index: shstrndx };
  }
  const growth = symbols.length === 0 ? grown : [...grown, ...growSymbols(image, symbols, names)];
  const contents = names.join();
  const namesOffset = start;
  let at = namesOffset + contents.length;
  const placed: Placed[] = sections.map((section, i) => {
    const align = section.alignBytes;
    if (!(align >= 1 && Number.isInteger(Math.log2(align)))) throw fault(`alignment ${align} of ${section.name}`, at);
    const offset = alignUp(at, align);
    at = offset + section.contents.length;
    return { index: image.header.shnum + i, offset, nameOffset: nameOffsets[i]!, section };
  });
  const moved = growth.map((each) => {
    const section = image.sections[each.index];
    if (section === undefined || (section.flags & C.SHF_ALLOC) !== 0n)
      throw fault(`section ${each.index} cannot grow`, at);
    const offset = alignUp(at, image.wordBytes);
    at = offset + section.fileSize + each.appended.length;
    return { ...each, offset, section };
  });
  if (namesSection !== null) placed.push(namesRow(namesSection, namesOffset, contents));
  const shnum = image.header.shnum + placed.length;
  const tableOffset = alignUp(at, image.wordBytes);
  return {
    namesOffset,
    names: contents,
    shstrndx,
    placed,
    moved,
    tableOffset,
    shnum,
    end: tableOffset + shnum * (image.header.is64 ? 64 : 40),
  };
}

/** A string table that grows: old bytes stay a prefix, so that old offsets stay true. */
class NameTable {
  readonly #parts: Uint8Array[];
  #size: number;

  constructor(old: Uint8Array) {
    this.#parts = [old];
    this.#size = old.length;
    // Old offsets may name an unterminated last string.
    if (old.length > 0 && old[old.length - 1] !== 0) this.#push(new Uint8Array(1));
  }

  #push(part: Uint8Array): void {
    this.#parts.push(part);
    this.#size += part.length;
  }

  add(name: string): number {
    const offset = this.#size;
    const text = nameBytes(name);
    const part = new Uint8Array(text.length + 1);
    part.set(text);
    this.#push(part);
    return offset;
  }

  join(): Uint8Array {
    const out = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      out.set(part, at);
      at += part.length;
    }
    return out;
  }
}

interface Touched {
  readonly offset: number;
  readonly size: number;
}

function writeSections(image: ElfImage, output: OutputFile, layout: Layout): readonly Touched[] {
  const { is64, shoff, shnum: oldCount } = image.header;
  const wordBytes = image.wordBytes;
  const step = is64 ? 64 : 40;
  const { tail: view, keptSize } = output;
  const { bytes } = view;
  const tableAt = layout.tableOffset - keptSize;
  bytes.set(layout.names, layout.namesOffset - keptSize);
  // Out of the output, not the input: a patch may have changed a header.
  bytes.set(output.kept(shoff, shoff + oldCount * step), tableAt);
  const headerAt = (index: number): number => tableAt + index * step;
  const offsetField = 8 + 2 * wordBytes;
  const sizeField = 8 + 3 * wordBytes;
  const linkField = 8 + 4 * wordBytes;

  if (layout.shstrndx < oldCount) {
    const at = headerAt(layout.shstrndx);
    view.insertWord(at + offsetField, BigInt(layout.namesOffset), wordBytes);
    view.insertWord(at + sizeField, BigInt(layout.names.length), wordBytes);
  } else {
    // The names are new: what the old headers hold there names nothing.
    for (let index = 0; index < oldCount; index++) view.insertU32(headerAt(index), 0);
  }
  for (const { index, offset, nameOffset, section } of layout.placed) {
    bytes.set(section.contents, offset - keptSize);
    const at = headerAt(index);
    view.insertU32(at, nameOffset);
    view.insertU32(at + 4, section.type);
    view.insertWord(at + 8, section.flags, wordBytes);
    view.insertWord(at + 8 + wordBytes, 0n, wordBytes);
    view.insertWord(at + offsetField, BigInt(offset), wordBytes);
    view.insertWord(at + sizeField, BigInt(section.contents.length), wordBytes);
    view.insertU32(at + linkField, section.link);
    view.insertU32(at + linkField + 4, section.info);
    view.insertWord(at + linkField + 8, BigInt(section.alignBytes), wordBytes);
    view.insertWord(at + linkField + 8 + wordBytes, BigInt(section.entrySize), wordBytes);
  }

  for (const { index, appended, offset, section } of layout.moved) {
    bytes.set(output.kept(section.offset, section.offset + section.fileSize), offset - keptSize);
    bytes.set(appended, offset - keptSize + section.fileSize);
    view.insertWord(headerAt(index) + offsetField, BigInt(offset), wordBytes);
    view.insertWord(headerAt(index) + sizeField, BigInt(section.fileSize + appended.length), wordBytes);
  }

  // gABI: counts of SHN_LORESERVE and more stand in section header 0, and 0 or SHN_XINDEX in the
  // file header.
  const afterWords = 24 + 3 * wordBytes;
  const first = headerAt(0);
  const manySections = layout.shnum >= C.SHN_LORESERVE;
  const farNames = layout.shstrndx >= C.SHN_LORESERVE;
  view.insertWord(first + sizeField, manySections ? BigInt(layout.shnum) : 0n, wordBytes);
  view.insertU32(first + linkField, farNames ? layout.shstrndx : 0);
  const header = output.header(0, is64 ? 64 : 52);
  header.insertWord(24 + 2 * wordBytes, BigInt(layout.tableOffset), wordBytes);
  header.insertU16(afterWords + 12, manySections ? 0 : layout.shnum);
  header.insertU16(afterWords + 14, farNames ? C.SHN_XINDEX : layout.shstrndx);
  return [
    { offset: 24 + 2 * wordBytes, size: wordBytes },
    { offset: afterWords + 12, size: 4 },
  ];
}

/**
 * The first PT_NULL becomes a PT_NOTE of bytes that are not loaded: p_memsz and p_vaddr stay 0, so
 * that a dynamic linker that walks the notes in memory finds none (glibc reads p_memsz bytes at
 * p_vaddr).
 */
function writeNoteSegment(
  image: ElfImage,
  output: OutputFile,
  offset: number,
  note: { readonly contents: Uint8Array; readonly alignBytes: number },
): Touched {
  const refusal = whyNoNoteSegment(image);
  const slot = image.segments.find((segment) => segment.type === C.PT_NULL);
  if (refusal !== null || slot === undefined) {
    throw new ElftraceError('unsupported-form', `cannot add a note segment: ${refusal ?? ''}`, {
      what: 'program headers',
    });
  }
  const { is64, phoff } = image.header;
  const wordBytes = image.wordBytes;
  const size = is64 ? 56 : 32;
  const at = phoff + slot.index * size;
  const row = output.header(at, size);
  row.bytes.fill(0);
  row.insertU32(0, C.PT_NOTE);
  row.insertU32(is64 ? 4 : 24, C.PF_R);
  const words = is64 ? 8 : 4;
  row.insertWord(words, BigInt(offset), wordBytes);
  row.insertWord(words + 3 * wordBytes, BigInt(note.contents.length), wordBytes);
  row.insertWord(is64 ? 48 : 28, BigInt(note.alignBytes), wordBytes);
  return { offset: at, size };
}

/** Touched ranges that differ, merged where they overlap, sorted. */
function listChanges(input: Uint8Array, output: Uint8Array, touched: readonly Touched[]): Change[] {
  const sorted = [...touched].sort((a, b) => a.offset - b.offset);
  const merged: { offset: number; size: number }[] = [];
  for (const range of sorted) {
    const last = merged[merged.length - 1];
    if (last !== undefined && range.offset < last.offset + last.size) {
      last.size = Math.max(last.size, range.offset + range.size - last.offset);
    } else merged.push({ ...range });
  }
  const changes: Change[] = [];
  for (const { offset, size } of merged) {
    const before = input.slice(offset, offset + size);
    const after = output.slice(offset, offset + size);
    if (!equalBytes(before, after)) changes.push({ offset, before, after });
  }
  return changes;
}
