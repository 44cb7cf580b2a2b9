/**
 * What a livepatch module says of itself: the objects that it patches, their functions by name and
 * position, and the functions that run in place of them.
 *
 *   made by objtool: sections of klp_object_ext (8 words each) and klp_func_ext (3 words)
 *     object: name, functions, 4 callbacks and a flag, number of functions
 *     function: old name, new function, position
 *
 *   written in C: a klp_patch in data names the module and its klp_objects; object and function
 *     begin as above (name and functions; old name, new function, position), sizes depend on the
 *     kernel's options, a row of zeros ends each array
 *
 * A name of 0 stands for the kernel itself. All pointers are relocations.
 */
import { ByteView, cString } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection } from '../elf/image.js';
import { moduleInfo } from '../elf/modinfo.js';
import { relocationsSorted, type SortedRelocations } from '../relocs/read.js';
import type { SectionIndex } from '../units.js';
import { OBJECT_SECTIONS } from './recognise.js';

/** The kernel itself, as names of livepatch relocations and symbols have it. */
export const KERNEL = 'vmlinux';

/** Place in a relocatable file. */
export interface Place {
  /** Index of the section. */
  readonly section: SectionIndex;
  readonly offset: number;
}

/** A function that is replaced. */
export interface PatchedFunction {
  /** Of its row. */
  readonly place: Place;
  /** Null: the row has no name that can be read. */
  readonly oldName: string | null;
  /** Null: no pointer into the module. */
  readonly newFunction: Place | null;
  /** 0: the name must be unique; n: the n-th symbol of that name. */
  readonly position: bigint;
}

/** A kernel or module whose functions are replaced. */
export interface PatchedObjectRow {
  readonly place: Place;
  /** `vmlinux` for the kernel itself. */
  readonly name: string;
  readonly functions: readonly PatchedFunction[];
}

export interface LivepatchModule {
  readonly image: ElfImage;
  /** `livepatch=` of the module information. */
  readonly isMarked: boolean;
  /** Kernel version that it was built for, major and minor; null: not known. */
  readonly kernel: readonly [number, number] | null;
  readonly objects: readonly PatchedObjectRow[];
  /** Why the tables say nothing; null: they were read. */
  readonly unread: string | null;
}

/** What klp_patch names first. */
const THIS_MODULE = '__this_module';

/** Words and pointers of a relocatable file. */
class Words {
  private readonly sorted = new Map<number, SortedRelocations>();

  constructor(
    readonly image: ElfImage,
    /** Type of the relocation that is a pointer. */
    private readonly pointerType: number,
  ) {}

  relocations(section: ElfSection): SortedRelocations {
    const known = this.sorted.get(section.index);
    if (known) return known;
    const made = relocationsSorted(this.image, section);
    this.sorted.set(section.index, made);
    return made;
  }

  /** Symbol and addend of a pointer, or null where none stands. */
  private row({ section, offset }: Place): { readonly table: number; readonly row: number } | null {
    const home = this.image.sections[section];
    if (home === undefined || offset < 0) return null;
    const sorted = this.relocations(home);
    const rank = sorted.at(BigInt(offset));
    if (rank < 0) return null;
    const [table, row] = [sorted.table[rank]!, sorted.row[rank]!];
    return sorted.tables[table]!.type[row] === this.pointerType ? { table, row } : null;
  }

  pointer(place: Place): Place | null {
    const found = this.row(place);
    if (found === null) return null;
    const { symbols, symbol, addend } = this.relocations(this.image.sections[place.section]!).tables[found.table]!;
    const index = symbol[found.row]!;
    const section = symbols?.sectionIndex[index] ?? 0;
    if (!symbols || section === 0 || section >= this.image.sections.length) return null;
    return { section, offset: Number(symbols.value[index]! + addend[found.row]!) };
  }

  text(place: Place): string | null {
    const at = this.pointer(place);
    const section = at === null ? undefined : this.image.sections[at.section];
    if (at === null || section === undefined || isCode(section) || at.offset >= section.fileSize) return null;
    const bytes = this.image.contents(section);
    return bytes.indexOf(0, at.offset) < 0 ? null : cString(bytes, at.offset, bytes.length);
  }

  word({ section, offset }: Place): bigint {
    const { image } = this;
    const home = image.sections[section]!;
    if (offset < 0 || offset + image.wordBytes > home.fileSize) return 0n;
    return new ByteView(image.contents(home), image.header.endian, home.name).word(offset, image.wordBytes);
  }

  u32({ section, offset }: Place): number {
    const { image } = this;
    const home = image.sections[section]!;
    if (offset < 0 || offset + 4 > home.fileSize) return 0;
    return new ByteView(image.contents(home), image.header.endian, home.name).u32(offset);
  }

  /** Whether a place holds a function pointer: code, or a descriptor of it. */
  namesCode(place: Place): boolean {
    const at = this.pointer(place);
    const section = at === null ? undefined : this.image.sections[at.section];
    return section !== undefined && (isCode(section) || section.name === '.opd');
  }
}

const isCode = ({ flags }: ElfSection): boolean => (flags & elf.SHF_EXECINSTR) !== 0n;

const behind = ({ section, offset }: Place, bytes: number): Place => ({ section, offset: offset + bytes });

/** A row of functions, both forms. */
function functionAt(words: Words, place: Place): PatchedFunction {
  const word = words.image.wordBytes;
  return {
    place,
    oldName: words.text(place),
    newFunction: words.pointer(behind(place, word)),
    position: words.word(behind(place, 2 * word)),
  };
}

/** Rows of klp_object_ext. */
function externalObjects(words: Words, section: ElfSection): PatchedObjectRow[] | string {
  const word = words.image.wordBytes;
  const rowBytes = 8 * word;
  if (section.size === 0 || section.size % rowBytes !== 0) {
    return `${section.name} has ${section.size} bytes, no multiple of ${rowBytes}`;
  }
  const rows: PatchedObjectRow[] = [];
  for (let offset = 0; offset < section.size; offset += rowBytes) {
    const place = { section: section.index, offset };
    const functions = words.pointer(behind(place, word));
    const count = words.u32(behind(place, 7 * word));
    const home = functions === null ? undefined : words.image.sections[functions.section];
    if (functions === null || home === undefined || count === 0 || functions.offset + count * 3 * word > home.size) {
      return `${section.name}+0x${offset.toString(16)}: its ${count} functions are in no section`;
    }
    const name = objectName(words, place);
    if (name === null) return `${section.name}+0x${offset.toString(16)}: its name cannot be read`;
    const list = Array.from({ length: count }, (_, i) => functionAt(words, behind(functions, i * 3 * word)));
    rows.push({ place, name, functions: list });
  }
  return rows;
}

/** The name of an object; null: there is a pointer that leads to no text. */
function objectName(words: Words, place: Place): string | null {
  if (words.pointer(place) === null && words.word(place) === 0n) return KERNEL;
  return words.text(place);
}

/**
 * End of the array that begins at a place: that of its symbol, else of the next thing, else of the
 * section.
 */
function limitOf(words: Words, start: Place, others: readonly Place[]): number {
  const { symbols, sections } = words.image;
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== start.section || symbols.size[i] === 0n) continue;
    if ((symbols.info[i]! & 15) === elf.STT_OBJECT && Number(symbols.value[i]!) === start.offset) {
      return start.offset + Number(symbols.size[i]!);
    }
  }
  const next = others
    .filter(({ section, offset }) => section === start.section && offset > start.offset)
    .map(({ offset }) => offset);
  return Math.min(sections[start.section]!.size, ...next);
}

/**
 * Rows of an array whose row size is not known: the distance from the first row to the second, the
 * next place that looks like one.
 */
function rowsOf(words: Words, start: Place, limit: number, least: number, isRow: (place: Place) => boolean): Place[] {
  const word = words.image.wordBytes;
  let step = 0;
  for (let at = start.offset + least; at + least <= limit && step === 0; at += word) {
    if (isRow({ section: start.section, offset: at })) step = at - start.offset;
  }
  if (step === 0) return [start];
  const rows: Place[] = [];
  for (let at = start.offset; at + least <= limit; at += step) {
    const place = { section: start.section, offset: at };
    if (!isRow(place)) break;
    rows.push(place);
  }
  return rows;
}

/** The array of klp_object that a klp_patch in data names, or null. */
function patchOf(words: Words): { readonly patch: Place; readonly objects: Place } | null {
  const { image } = words;
  const word = image.wordBytes;
  for (const section of image.sections) {
    if ((section.flags & elf.SHF_ALLOC) === 0n || isCode(section) || section.fileSize === 0) continue;
    const { tables } = words.relocations(section);
    for (const { count, offset, symbol, symbols } of tables) {
      for (let row = 0; row < count && symbols; row++) {
        if (symbols.name(symbol[row]!) !== THIS_MODULE) continue;
        const patch = { section: section.index, offset: Number(offset[row]!) };
        const objects = words.pointer(behind(patch, word));
        if (objects !== null && isObjectRow(words, objects)) return { patch, objects };
      }
    }
  }
  return null;
}

function isFunctionRow(words: Words, place: Place): boolean {
  return words.text(place) !== null || words.namesCode(behind(place, words.image.wordBytes));
}

function isObjectRow(words: Words, place: Place): boolean {
  const functions = words.pointer(behind(place, words.image.wordBytes));
  if (functions === null || objectName(words, place) === null) return false;
  return !isCode(words.image.sections[functions.section]!) && isFunctionRow(words, functions);
}

/** Rows of klp_object and klp_func. */
function classicObjects(words: Words): PatchedObjectRow[] | string {
  const found = patchOf(words);
  if (found === null) return 'it has neither klp_object_ext nor a klp_patch that names its klp_objects';
  const word = words.image.wordBytes;
  // Name and functions, callbacks and their flag.
  const least = 7 * word;
  const known = [found.patch, found.objects];
  const rows = rowsOf(words, found.objects, limitOf(words, found.objects, known), least, (place) =>
    isObjectRow(words, place),
  );
  const starts = rows.map((row) => words.pointer(behind(row, word))!);
  return rows.map((place, i) => {
    const start = starts[i]!;
    const limit = limitOf(words, start, [...known, ...starts]);
    const functions = rowsOf(words, start, limit, 3 * word, (row) => isFunctionRow(words, row));
    return { place, name: objectName(words, place)!, functions: functions.map((row) => functionAt(words, row)) };
  });
}

/**
 * Reads the tables of a livepatch module.
 * @param pointerType  relocation type of a pointer on this machine
 */
export function readLivepatch(image: ElfImage, pointerType: number): LivepatchModule {
  const version = /^(\d+)\.(\d+)/.exec(moduleInfo(image, 'vermagic') ?? '');
  const words = new Words(image, pointerType);
  const external = OBJECT_SECTIONS.map((name) => image.section(name)).find((section) => section !== undefined);
  const objects = external ? externalObjects(words, external) : classicObjects(words);
  return {
    image,
    isMarked: moduleInfo(image, 'livepatch') !== null,
    kernel: version ? [Number(version[1]), Number(version[2])] : null,
    objects: typeof objects === 'string' ? [] : objects,
    unread: typeof objects === 'string' ? objects : null,
  };
}
