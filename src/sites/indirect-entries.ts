/**
 * Functions that a linked image enters through pointers, where the processor checks that such
 * branches find landing pads (M-PAD-4). A pointer is a word of data, or what a relative relocation
 * makes one; those of the site tables are none.
 */
import { ByteView } from '../bytes.js';
import { ET_EXEC, SHF_ALLOC, SHF_EXECINSTR } from '../elf/constants.js';
import { checkedPads } from '../program/landing.js';
import type { Program } from '../program/program.js';
import type { LandingPads } from '../machine/landing-pads.js';
import type { Address } from '../units.js';
import type { Sites } from './sites.js';

interface IndirectEntries {
  readonly pads: LandingPads;
  /** Place of a pointer to a function, by the function's address. */
  readonly pointers: ReadonlyMap<Address, Address>;
}

const known = new WeakMap<Sites, IndirectEntries | null>();

function isFunctionStart(program: Program, address: Address): boolean {
  const range = program.codeAt(address);
  return range !== undefined && program.functionStarting(range, address) >= 0;
}

function pointersOf({ program, tables }: Sites): Map<Address, Address> {
  const { image, arch } = program;
  const pointers = new Map<Address, Address>();
  const add = (target: Address, place: Address): void => {
    if (!pointers.has(target) && isFunctionStart(program, target)) pointers.set(target, place);
  };
  const ofTables = new Set(tables.map(({ container }) => container));
  const word = image.wordBytes;
  for (const section of image.sections) {
    const isData = (section.flags & SHF_ALLOC) !== 0n && (section.flags & SHF_EXECINSTR) === 0n;
    if (!isData || section.fileSize === 0 || image.header.type !== ET_EXEC || ofTables.has(section.index)) continue;
    const view = new ByteView(image.contents(section), image.header.endian, section.name);
    // From the first aligned address of the section on.
    for (let at = Number(-section.address & BigInt(word - 1)); at + word <= view.size; at += word) {
      add(view.word(at, word), section.address + BigInt(at));
    }
  }
  for (const { count, type, addend, offset, addends } of program.dynamicRelocations.tables) {
    for (let row = 0; row < count && addends === 'row'; row++) {
      const home = image.sectionAt(offset[row]!)?.index ?? -1;
      if (type[row] !== arch.relocationRoles.relative || ofTables.has(home)) continue;
      add(BigInt.asUintN(8 * word, addend[row]!), offset[row]!);
    }
  }
  return pointers;
}

/** Null: the processor checks no branch into the image. */
function entriesOf(sites: Sites): IndirectEntries | null {
  const found = known.get(sites);
  if (found !== undefined) return found;
  const pads = sites.program.relocatable ? null : checkedPads(sites.program.image, sites.program.arch);
  const made = pads === null ? null : { pads, pointers: pointersOf(sites) };
  known.set(sites, made);
  return made;
}

/** A pointer to the function of a site that has no landing pad. */
export interface MissingPad {
  readonly title: string;
  readonly entry: Address;
  readonly pointer: Address;
}

/** Null: the function begins with a pad, no pointer leads to it, or the processor checks none. */
export function missingPad(sites: Sites, index: number): MissingPad | null {
  const entries = entriesOf(sites);
  const symbol = entries === null ? -1 : sites.functionSymbol(index);
  if (entries === null || symbol < 0) return null;
  const entry = sites.program.functions.placeOf(symbol)?.value;
  const pointer = entry === undefined ? undefined : entries.pointers.get(entry);
  if (entry === undefined || pointer === undefined || entries.pads.isPad(sites.program.wordAt(entry))) return null;
  return { title: entries.pads.title, entry, pointer };
}
