/**
 * Functions that an image enters through pointers, where the processor checks that such branches
 * find landing pads (M-PAD-4), and those of objects whose note says that they are made for that
 * (M-PAD-6). A pointer is a word of data, or what a relocation makes one, or a dynamic symbol;
 * those of the site tables and of lists that nothing calls through are none.
 */
import { ByteView } from '../bytes.js';
import { ET_EXEC, SHF_ALLOC, SHF_EXECINSTR, SHN_UNDEF, SHT_NOTE, STT_FUNC } from '../elf/constants.js';
import type { ElfSection } from '../elf/image.js';
import { hex } from '../errors.js';
import { checkedPads } from '../program/landing.js';
import type { Program } from '../program/program.js';
import type { LandingPads } from '../machine/landing-pads.js';
import type { Address, SectionIndex, SiteIndex } from '../units.js';
import type { Sites } from './sites.js';

interface IndirectEntries {
  readonly pads: LandingPads;
  /** Place of a pointer to a function, by the function's place. */
  readonly pointers: ReadonlyMap<string, string>;
}

const known = new WeakMap<Sites, IndirectEntries | null>();

/** Lists of functions for other uses than calls: what is never probed, or kept from the linker. */
const NOT_CALLED = /^(?:\.discard\.|_kprobe_blacklist|_error_injection_whitelist)/;

/** Key of a place in code; the section counts in relocatable files only. */
const keyOf = ({ relocatable }: Program, section: SectionIndex, value: Address): string =>
  relocatable ? `${section} ${value}` : `${value}`;

/** Sections whose words may be pointers that code calls through. */
function dataSections({ program, tables }: Sites): ElfSection[] {
  const ofTables = new Set(tables.map(({ container }) => container));
  return program.image.sections.filter(({ flags, index, name, type }) => {
    const isData = (flags & SHF_ALLOC) !== 0n && (flags & SHF_EXECINSTR) === 0n && type !== SHT_NOTE;
    return isData && !ofTables.has(index) && !NOT_CALLED.test(name);
  });
}

function pointersOfObject(sites: Sites): Map<string, string> {
  const { program } = sites;
  const { symbols } = program.image;
  const pointers = new Map<string, string>();
  for (const section of dataSections(sites)) {
    for (const { count, type, symbol, addend, offset } of program.image.relocationsOf(section)) {
      for (let row = 0; row < count; row++) {
        if (type[row] !== program.arch.relocationRoles.word) continue;
        const home = symbols.sectionIndex[symbol[row]!]!;
        const value = symbols.value[symbol[row]!]! + addend[row]!;
        const range = program.codeOfSection(home);
        if (range === undefined || program.functionStarting(range, value) < 0) continue;
        pointers.set(keyOf(program, home, value), `the word at ${section.name}+${hex(offset[row]!)}`);
      }
    }
  }
  return pointers;
}

function pointersOfLinked(sites: Sites): Map<string, string> {
  const { program, tables } = sites;
  const { image, arch } = program;
  const pointers = new Map<string, string>();
  const add = (target: Address, pointer: string): void => {
    const range = program.codeAt(target);
    const key = keyOf(program, 0, target);
    if (range === undefined || pointers.has(key) || program.functionStarting(range, target) < 0) return;
    pointers.set(key, pointer);
  };
  const word = image.wordBytes;
  for (const section of image.header.type === ET_EXEC ? dataSections(sites) : []) {
    if (section.fileSize === 0) continue;
    const view = new ByteView(image.contents(section), image.header.endian, section.name);
    // From the first aligned address of the section on.
    for (let at = Number(-section.address & BigInt(word - 1)); at + word <= view.size; at += word) {
      add(view.word(at, word), `the word at ${hex(section.address + BigInt(at))}`);
    }
  }
  const ofTables = new Set(tables.map(({ container }) => container));
  for (const { count, type, addend, offset, addends } of program.dynamicRelocations.tables) {
    for (let row = 0; row < count && addends === 'row'; row++) {
      const home = image.sectionAt(offset[row]!)?.index ?? -1;
      if (type[row] !== arch.relocationRoles.relative || ofTables.has(home)) continue;
      add(BigInt.asUintN(8 * word, addend[row]!), `the word at ${hex(offset[row]!)}`);
    }
  }
  // Other files call it through their PLT.
  const { dynamicSymbols: exported } = image;
  for (let i = 1; i < exported.count; i++) {
    const isFunction = (exported.info[i]! & 15) === STT_FUNC && exported.sectionIndex[i] !== SHN_UNDEF;
    if (isFunction) add(exported.value[i]!, `the dynamic symbol ${exported.name(i)}`);
  }
  return pointers;
}

/** Null: the processor checks no branch into the image. */
function entriesOf(sites: Sites): IndirectEntries | null {
  const found = known.get(sites);
  if (found !== undefined) return found;
  const { program } = sites;
  const pads = checkedPads(program.image, program.arch);
  const pointers = (): Map<string, string> => (program.relocatable ? pointersOfObject(sites) : pointersOfLinked(sites));
  const made = pads === null ? null : { pads, pointers: pointers() };
  known.set(sites, made);
  return made;
}

/** A pointer to the function of a site that has no landing pad. */
export interface MissingPad {
  readonly title: string;
  /** Address of the function, or its offset. */
  readonly entry: Address;
  /** What the pointer is and where, for messages. */
  readonly pointer: string;
}

/** Null: the function begins with a pad, no pointer leads to it, or the processor checks none. */
export function missingPad(sites: Sites, index: SiteIndex): MissingPad | null {
  const entries = entriesOf(sites);
  const symbol = entries === null ? -1 : sites.functionSymbol(index);
  const place = symbol < 0 ? undefined : sites.program.functions.placeOf(symbol);
  if (entries === null || place === undefined) return null;
  const { program } = sites;
  const pointer = entries.pointers.get(keyOf(program, place.section, place.value));
  const range = program.relocatable ? program.codeOfSection(place.section) : program.codeAt(place.value);
  if (pointer === undefined || range === undefined) return null;
  const at = Number(place.value - range.address);
  if (at + 4 > range.bytes.length) return null;
  const word = new ByteView(range.bytes, program.arch.target.codeEndian, range.name).u32(at);
  return entries.pads.isPadOfPointer(word) ? null : { title: entries.pads.title, entry: place.value, pointer };
}
