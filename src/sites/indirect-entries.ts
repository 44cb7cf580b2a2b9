/**
 * Functions that an image enters through pointers, where the processor checks that such branches
 * find landing pads (M-PAD-4), and those of objects whose note says that they are made for that
 * (M-PAD-6). A pointer is a word of data, or what a relocation makes one, or a dynamic symbol;
 * those of the site tables and of lists that nothing calls through are none.
 */
import { ByteView } from '../bytes.js';
import { ET_EXEC, SHF_ALLOC, SHF_EXECINSTR, SHN_UNDEF, SHT_NOTE, STT_FUNC } from '../elf/constants.js';
import type { ElfSection, RelocationTable } from '../elf/image.js';
import { hex } from '../errors.js';
import { checkedPads } from '../program/landing.js';
import type { CodeRange, Program } from '../program/program.js';
import type { LandingPads } from '../machine/landing-pads.js';
import type { Address, SiteIndex, SymbolIndex } from '../units.js';
import type { Sites } from './sites.js';

/** What a pointer to a function is, for messages. */
type Pointer = () => string;

/** Pointers to functions without a pad, by the symbol that speaks for the function. */
type Pointers = Map<SymbolIndex, Pointer>;

const knownPads = new WeakMap<Sites, LandingPads | null>();
const knownPointers = new WeakMap<Sites, Pointers>();

/** Lists of functions for other uses than calls: what is never probed, or kept from the linker. */
const NOT_CALLED = /^(?:\.discard\.|_kprobe_blacklist|_error_injection_whitelist)/;

/** Sections whose words may be pointers that code calls through. */
function dataSections({ program, tables }: Sites): ElfSection[] {
  const ofTables = new Set(tables.map(({ container }) => container));
  return program.image.sections.filter(({ flags, index, name, type }) => {
    const isData = (flags & SHF_ALLOC) !== 0n && (flags & SHF_EXECINSTR) === 0n && type !== SHT_NOTE;
    return isData && !ofTables.has(index) && !NOT_CALLED.test(name);
  });
}

/** Without a view of the bytes: a module has thousands of pointers. */
function wordIn(code: Uint8Array, at: number, isLittle: boolean): number {
  const [a, b, c, d] = [code[at]!, code[at + 1]!, code[at + 2]!, code[at + 3]!];
  return (isLittle ? a | (b << 8) | (c << 16) | (d << 24) : d | (c << 8) | (b << 16) | (a << 24)) >>> 0;
}

/** Whether code without a pad is at an offset of a range: what most pointers lead to has one. */
function lacksPad(program: Program, pads: LandingPads, range: CodeRange, offset: number): boolean {
  if (offset < 0 || offset + 4 > range.bytes.length) return false;
  return !pads.isPadOfPointer(wordIn(range.bytes, offset, program.arch.target.codeEndian === 'little'));
}

function pointersOfObject(sites: Sites, pads: LandingPads): Pointers {
  const { program } = sites;
  const { symbols } = program.image;
  const pointers: Pointers = new Map();
  for (const section of dataSections(sites)) {
    for (const table of program.image.relocationsOf(section)) {
      for (const row of pointerRows(program, table)) {
        const { symbol, addend, offset } = table;
        const range = program.codeOfSection(symbols.sectionIndex[symbol[row]!]!);
        const value = symbols.value[symbol[row]!]! + addend[row]!;
        if (range === undefined || !lacksPad(program, pads, range, Number(value))) continue;
        const target = program.functionStarting(range, value);
        if (target >= 0) pointers.set(target, () => `the word at ${section.name}+${hex(offset[row]!)}`);
      }
    }
  }
  return pointers;
}

/** Rows of a table that make words of addresses of code. */
function pointerRows(program: Program, { count, type, symbol }: RelocationTable): number[] {
  const { word } = program.arch.relocationRoles;
  const { sectionIndex } = program.image.symbols;
  const rows: number[] = [];
  for (let row = 0; row < count; row++) {
    if (type[row] === word && program.codeOfSection(sectionIndex[symbol[row]!]!) !== undefined) rows.push(row);
  }
  return rows;
}

function pointersOfLinked(sites: Sites, pads: LandingPads): Pointers {
  const { program, tables } = sites;
  const { image, arch } = program;
  const pointers: Pointers = new Map();
  const add = (target: Address, pointer: Pointer): void => {
    const range = program.codeAt(target);
    if (range === undefined || !lacksPad(program, pads, range, Number(target - range.address))) return;
    const symbol = program.functionStarting(range, target);
    if (symbol >= 0 && !pointers.has(symbol)) pointers.set(symbol, pointer);
  };
  const word = image.wordBytes;
  for (const section of image.header.type === ET_EXEC ? dataSections(sites) : []) {
    if (section.fileSize === 0) continue;
    const view = new ByteView(image.contents(section), image.header.endian, section.name);
    // From the first aligned address of the section on.
    for (let at = Number(-section.address & BigInt(word - 1)); at + word <= view.size; at += word) {
      add(view.word(at, word), () => `the word at ${hex(section.address + BigInt(at))}`);
    }
  }
  const ofTables = new Set(tables.map(({ container }) => container));
  for (const { count, type, addend, offset, addends } of program.dynamicRelocations.tables) {
    for (let row = 0; row < count && addends === 'row'; row++) {
      const home = image.sectionAt(offset[row]!)?.index ?? -1;
      if (type[row] !== arch.relocationRoles.relative || ofTables.has(home)) continue;
      add(BigInt.asUintN(8 * word, addend[row]!), () => `the word at ${hex(offset[row]!)}`);
    }
  }
  // Other files call it through their PLT.
  const { dynamicSymbols: exported } = image;
  for (let i = 1; i < exported.count; i++) {
    const isFunction = (exported.info[i]! & 15) === STT_FUNC && exported.sectionIndex[i] !== SHN_UNDEF;
    if (isFunction) add(exported.value[i]!, () => `the dynamic symbol ${exported.name(i)}`);
  }
  return pointers;
}

/** Null: the processor checks no branch into the image. */
function padsOf(sites: Sites): LandingPads | null {
  const found = knownPads.get(sites);
  if (found !== undefined) return found;
  const pads = checkedPads(sites.program.image, sites.program.arch);
  knownPads.set(sites, pads);
  return pads;
}

/** Looked for where a function without a pad asks for them: few images have one. */
function pointersOf(sites: Sites, pads: LandingPads): Pointers {
  const found = knownPointers.get(sites);
  if (found !== undefined) return found;
  const pointers = sites.program.relocatable ? pointersOfObject(sites, pads) : pointersOfLinked(sites, pads);
  knownPointers.set(sites, pointers);
  return pointers;
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
  const pads = padsOf(sites);
  const symbol = pads === null ? -1 : sites.functionSymbol(index);
  const place = symbol < 0 ? undefined : sites.program.functions.placeOf(symbol);
  if (pads === null || place === undefined) return null;
  const { program } = sites;
  const range = program.relocatable ? program.codeOfSection(place.section) : program.codeAt(place.value);
  if (range === undefined) return null;
  if (!lacksPad(program, pads, range, Number(place.value - range.address))) return null;
  const pointer = pointersOf(sites, pads).get(program.functionStarting(range, place.value));
  return pointer === undefined ? null : { title: pads.title, entry: place.value, pointer: pointer() };
}
