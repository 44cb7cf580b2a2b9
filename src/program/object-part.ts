/**
 * A relocatable file as a part: which of its sections become memory, in which order, its common
 * symbols and its symbol table. Owns no address arithmetic (layout.ts) and no symbol resolution
 * (scope.ts).
 */
import { alignUpBig } from '../bits.js';
import type { Arch } from '../machine/arch.js';
import * as elf from '../elf/constants.js';
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import type { PartKind } from './load-map.js';
import { type Part, type PartSection, type PartSymbol, permissionOf, permissionOrder } from './part.js';

/** A part made from an object, with the way back to the object's section and symbol numbers. */
export interface ObjectPart extends Part {
  readonly object: ElfImage;
  /** Section number of the object -> section of the part; undefined for what is not loaded. */
  readonly sectionOf: (PartSection | undefined)[];
  /** Symbol number of a common symbol -> offset in `commons`. */
  readonly commonOffset: ReadonlyMap<number, bigint>;
  readonly commons: PartSection | null;
  /**
   * Pointer slots of symbols that relocations of the GOT name, by symbol number; null without such
   * relocations.
   */
  readonly got: { readonly section: PartSection; readonly offsetOf: ReadonlyMap<number, number> } | null;
  /** Code that runs once, which some machines give stubs of its own. */
  readonly isInit: ReadonlySet<PartSection>;
}

/** Sections that loaders read and do not keep. */
const notKept: ReadonlySet<string> = new Set(['.modinfo', '__versions', '__version_ext_names', '__version_ext_crcs']);

/** Flags that describe memory; the others (groups, link order) are about linking. */
const keptFlags = elf.SHF_WRITE | elf.SHF_ALLOC | elf.SHF_EXECINSTR | elf.SHF_MERGE | elf.SHF_STRINGS;

/** A section that the loader makes. */
export function madeSection(
  fields: Pick<PartSection, 'name' | 'type' | 'flags' | 'alignBytes' | 'size' | 'contents'>,
): PartSection {
  return { ...fields, entrySize: 0n, link: 0, info: 0, address: 0n, fileOffset: null };
}

/** What a part has at least, so that another version of its object is laid out alike. */
export interface PartRoom {
  readonly stubs: StubRoom;
  readonly gotSlots: number;
}

/** Entries of stub areas, by the name of their section and in order. */
export type StubRoom = ReadonlyMap<string, readonly number[]>;

/**
 * Sections and commons of an object. `sections` is in the order of the layout, stub areas not yet
 * in it.
 * @param placeholders names of sections that only reserve room for the loader's stubs
 * @param room         what the part has at least
 * @throws ElftraceError 'unsupported-form' for thread-local sections
 */
export function objectPart(
  source: { readonly name: string; readonly image: ElfImage; readonly sha256: string },
  kind: PartKind,
  placeholders: readonly string[],
  arch: Arch,
  room: PartRoom | null = null,
): ObjectPart {
  const { image } = source;
  const sectionOf: (PartSection | undefined)[] = Array.from({ length: image.sections.length });
  const loaded: PartSection[] = [];
  const isInit = new Set<PartSection>();
  for (const section of image.sections) {
    if ((section.flags & elf.SHF_ALLOC) === 0n || notKept.has(section.name)) continue;
    if (section.size === 0 && placeholders.includes(section.name)) continue;
    if ((section.flags & elf.SHF_TLS) !== 0n) {
      throw new ElftraceError('unsupported-form', `${source.name}: thread-local sections cannot be loaded`, {
        section: section.name,
      });
    }
    const made: PartSection = {
      name: section.name,
      type: section.type,
      flags: section.flags & keptFlags,
      alignBytes: section.alignBytes > 0n ? section.alignBytes : 1n,
      entrySize: section.entrySize,
      size: section.size,
      link: 0,
      info: 0,
      address: 0n,
      contents: section.type === elf.SHT_NOBITS ? null : image.contents(section).slice(),
      fileOffset: null,
    };
    sectionOf[section.index] = made;
    loaded.push(made);
    if (section.name.startsWith('.init.')) isInit.add(made);
  }
  const { offsets, section: commons } = commonSymbols(image);
  if (commons !== null) loaded.push(commons);
  const got = gotOf(image, sectionOf, arch, room?.gotSlots ?? 0);
  if (got !== null) loaded.push(got.section);
  return {
    kind,
    name: source.name,
    sha256: source.sha256,
    toc: null,
    sections: inOrder(loaded, isInit),
    symbols: [],
    stubs: [],
    entryStubs: [],
    uses: new Set(),
    linked: null,
    object: image,
    sectionOf,
    commonOffset: offsets,
    commons,
    got,
    isInit,
  };
}

/**
 * One slot for each symbol that the code finds through a GOT: a linker would make them, a module
 * has none of its own.
 */
function gotOf(
  image: ElfImage,
  sectionOf: readonly (PartSection | undefined)[],
  arch: Arch,
  slots: number,
): ObjectPart['got'] {
  const types = new Set(
    [...arch.relocations.values()].filter((row) => row.rule.startsWith('got-')).map((row) => row.type),
  );
  const { wordBytes } = arch.target;
  const offsetOf = new Map<number, number>();
  for (const target of image.sections) {
    if (sectionOf[target.index] === undefined) continue;
    for (const { count, type, symbol } of image.relocationsOf(target)) {
      for (let row = 0; row < count; row++) {
        if (types.has(type[row]!) && !offsetOf.has(symbol[row]!)) offsetOf.set(symbol[row]!, offsetOf.size * wordBytes);
      }
    }
  }
  const size = Math.max(offsetOf.size, slots) * wordBytes;
  if (size === 0) return null;
  const section = madeSection({
    name: '.got',
    type: elf.SHT_PROGBITS,
    flags: elf.SHF_WRITE | elf.SHF_ALLOC,
    alignBytes: BigInt(wordBytes),
    size,
    contents: new Uint8Array(size),
  });
  return { section, offsetOf };
}

/** Common symbols get room behind the other zero data; st_value is their alignment. */
function commonSymbols(image: ElfImage): { offsets: Map<number, bigint>; section: PartSection | null } {
  const { symbols } = image;
  const offsets = new Map<number, bigint>();
  let end = 0n;
  let align = 1n;
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] !== elf.SHN_COMMON_RESOLVED) continue;
    const own = symbols.value[i]! > 0n ? symbols.value[i]! : 1n;
    if (own > align) align = own;
    const at = alignUpBig(end, own);
    offsets.set(i, at);
    end = at + symbols.size[i]!;
  }
  if (offsets.size === 0) return { offsets, section: null };
  const section = madeSection({
    name: '.bss.common',
    type: elf.SHT_NOBITS,
    flags: elf.SHF_WRITE | elf.SHF_ALLOC,
    alignBytes: align,
    size: Number(end),
    contents: null,
  });
  return { offsets, section };
}

/**
 * Sections by permission, what has bytes in the file before what is zero, code of the start-up
 * behind other code, else in the order of the file. A pair `.data.NAME`, `.bss.NAME` is one object
 * whose zero part lies directly behind the rest: last and first of the two classes.
 */
function inOrder(sections: readonly PartSection[], isInit: ReadonlySet<PartSection>): PartSection[] {
  const zero = (section: PartSection): boolean => section.contents === null;
  const pair = sections.find(
    (section) =>
      !zero(section) &&
      section.name.startsWith('.data.') &&
      sections.some((other) => zero(other) && other.name === `.bss.${section.name.slice(6)}`),
  );
  const partner = pair && sections.find((other) => other.name === `.bss.${pair.name.slice(6)}`);
  const rank = (section: PartSection): number => {
    const permission = 10 * permissionOrder.indexOf(permissionOf(section.flags));
    if (section === pair) return permission + 3;
    if (section === partner) return permission + 4;
    if (zero(section)) return permission + 5;
    return permission + (permission === 0 && isInit.has(section) ? 1 : 0);
  };
  return sections
    .map((section, index) => ({ section, index, rank: rank(section) }))
    .sort((a, b) => a.rank - b.rank || a.index - b.index)
    .map((each) => each.section);
}

/**
 * Sections, functions and objects that the image's symbol table names; made when addresses are
 * known.
 */
export function makeSymbols(part: ObjectPart, tocSymbol: string | null): void {
  const { symbols } = part.object;
  const position = new Map(part.sections.map((section, i) => [section, i]));
  const exported = exportedNames(part);
  const locals: PartSymbol[] = [];
  const globals: PartSymbol[] = [];
  if (tocSymbol !== null && part.toc !== null) {
    locals.push({ name: tocSymbol, value: part.toc, size: 0n, info: 0, other: 0, home: 'absolute' });
  }
  for (let i = 1; i < symbols.count; i++) {
    const index = symbols.sectionIndex[i]!;
    const type = symbols.info[i]! & 15;
    if (type === elf.STT_SECTION || index === elf.SHN_UNDEF) continue;
    const common = part.commonOffset.get(i);
    const section = common === undefined ? part.sectionOf[index] : part.commons;
    let value = symbols.value[i]!;
    let home: PartSymbol['home'] = 'absolute';
    if (section !== undefined && section !== null) {
      value = section.address + (common ?? value);
      home = position.get(section) ?? 'absolute';
    } else if (index !== elf.SHN_ABS_RESOLVED) continue;
    const name = symbols.name(i);
    const local = symbols.info[i]! >> 4 === elf.STB_LOCAL || (exported !== null && !exported.has(name));
    const symbol: PartSymbol = {
      name,
      value,
      size: symbols.size[i]!,
      info: (local ? 0 : symbols.info[i]! & 0xf0) | (common === undefined ? type : elf.STT_OBJECT),
      other: symbols.other[i]!,
      home,
    };
    (local ? locals : globals).push(symbol);
  }
  for (const symbol of locals) part.symbols.push(symbol);
  for (const symbol of globals) part.symbols.push(symbol);
}

/** True for kernel modules, which export by `__ksymtab` only. */
function isKernelModule(image: ElfImage): boolean {
  return image.section('.modinfo') !== undefined || image.section('.gnu.linkonce.this_module') !== undefined;
}

const ksymtabPrefix = '__ksymtab_';

/**
 * Names that a kernel module exports, with the dot symbols of their code; null where every global
 * symbol is exported.
 */
function exportedNames(part: ObjectPart): ReadonlySet<string> | null {
  if (part.kind !== 'module' || !isKernelModule(part.object)) return null;
  const names = new Set<string>();
  const { symbols } = part.object;
  for (let i = 1; i < symbols.count; i++) {
    if (symbols.sectionIndex[i] === elf.SHN_UNDEF || !symbols.nameStartsWith(i, ksymtabPrefix)) continue;
    const name = symbols.name(i).slice(ksymtabPrefix.length);
    names.add(name).add(`.${name}`);
  }
  return names;
}

/**
 * Names that an object gives to other parts, as `makeSymbols` binds them, with the symbol numbers.
 */
export function exportsOf(part: ObjectPart): Map<string, number> {
  const { symbols } = part.object;
  const exported = exportedNames(part);
  const found = new Map<string, number>();
  for (let i = 1; i < symbols.count; i++) {
    const index = symbols.sectionIndex[i]!;
    if (index === elf.SHN_UNDEF || symbols.info[i]! >> 4 === elf.STB_LOCAL) continue;
    const placed = index === elf.SHN_ABS_RESOLVED || part.commonOffset.has(i) || part.sectionOf[index] !== undefined;
    const name = symbols.name(i);
    if (placed && (exported === null || exported.has(name))) found.set(name, i);
  }
  return found;
}
