/**
 * Calling and system-call conventions of the three PowerPC ABIs, and where the code of a function
 * symbol is. Owns descriptors (`.opd`) and local entries; knows no patch site.
 *
 * What a patcher must know of them:
 *
 * - 32-bit SysV and ELFv2: a function symbol names code. ELFv1: it names a descriptor of 24 bytes
 *   in `.opd` {text address, TOC, environment}; the code has the name with a dot, if any at all. In
 *   relocatable files the only way to the code is the descriptor's R_PPC64_ADDR64.
 * - ELFv2 functions that use a TOC have two entries: the global one sets r2 up from r12; the local
 *   one, st_other bits 7..5 further on, expects r2 to be set. Branches from the same TOC go to the
 *   local entry.
 * - At a function entry r0, r11, r12 and CTR are free, except that r11 is the static chain of
 *   nested functions, and r12 the function's own address at an ELFv2 global entry. r2 (TOC; 32-bit:
 *   thread pointer) and r13 are never free.
 * - LR is saved in the *caller's* frame: at 4(r1) on 32 bits, 16(r1) on 64, before the new frame is
 *   made.
 */
import type { Abi } from '../machine/abi.js';
import { ET_REL, SHN_LORESERVE_RESOLVED, SHN_UNDEF } from '../elf/constants.js';
import type { ElfImage, ElfSection, SymbolTable } from '../elf/image.js';
import { ByteView } from '../bytes.js';
import { R_PPC64_ADDR64, R_PPC64_RELATIVE } from './relocs.js';

interface Place {
  readonly section: number;
  readonly value: bigint;
}

/**
 * P-FN-2: bytes from global to local entry by st_other bits 7..5. 0 and 1: one entry; 7 is
 * reserved.
 */
const LOCAL_ENTRY_OFFSETS = [0, 0, 4, 8, 16, 32, 64, 0] as const;

function elfV2LocalEntry(symbolOther: number): number {
  return LOCAL_ENTRY_OFFSETS[(symbolOther >>> 5) & 7] ?? 0;
}

function ownPlace(image: ElfImage, symbolIndex: number, symbols: SymbolTable = image.symbols): Place | null {
  const section = symbols.sectionIndex[symbolIndex];
  const value = symbols.value[symbolIndex];
  if (section === undefined || value === undefined) return null;
  if (section === SHN_UNDEF || section >= SHN_LORESERVE_RESOLVED) return null;
  return { section, value };
}

/** A section `.opd` with the code places of its descriptors, by offset in it. */
interface Descriptors {
  readonly section: ElfSection;
  codeAt(offset: bigint): Place | null;
}

/** By section number; made once per image. A loaded image has one `.opd` for each of its parts. */
const descriptorsOf = new WeakMap<ElfImage, ReadonlyMap<number, Descriptors>>();

function readDescriptors(image: ElfImage): ReadonlyMap<number, Descriptors> {
  const known = descriptorsOf.get(image);
  if (known !== undefined) return known;
  const relocatable = image.header.type === ET_REL;
  const made = new Map<number, Descriptors>();
  for (const section of image.sectionsNamed('.opd')) {
    const codeAt = relocatable ? byRelocation(image, section) : byContents(image, section);
    made.set(section.index, { section, codeAt });
  }
  descriptorsOf.set(image, made);
  return made;
}

/** Relocatable: R_PPC64_ADDR64 against a symbol or section of the code. */
function byRelocation(image: ElfImage, section: ElfSection): (offset: bigint) => Place | null {
  const places = new Map<bigint, Place>();
  for (const table of image.relocationsOf(section)) {
    const { symbols } = table;
    if (symbols === null) continue;
    for (let row = 0; row < table.count; row++) {
      if (table.type[row] !== R_PPC64_ADDR64) continue;
      const symbol = table.symbol[row]!;
      const target = symbols.sectionIndex[symbol];
      if (target === undefined || target === SHN_UNDEF || target >= SHN_LORESERVE_RESOLVED) continue;
      places.set(table.offset[row]!, { section: target, value: symbols.value[symbol]! + table.addend[row]! });
    }
  }
  return (offset) => places.get(offset) ?? null;
}

/**
 * Linked: the descriptor's first doubleword, or the addend of the RELATIVE relocation where the
 * contents are zero.
 */
function byContents(image: ElfImage, section: ElfSection): (offset: bigint) => Place | null {
  const view = new ByteView(image.contents(section), image.header.endian, '.opd');
  const end = section.address + BigInt(section.size);
  let relative: Map<bigint, bigint> | null = null;
  const relativeAt = (offset: bigint): bigint => {
    if (relative === null) {
      relative = new Map();
      for (const table of image.relocations) {
        for (let row = 0; row < table.count; row++) {
          const place = table.offset[row]!;
          if (table.type[row] === R_PPC64_RELATIVE && place >= section.address && place < end) {
            relative.set(place - section.address, table.addend[row]!);
          }
        }
      }
    }
    return relative.get(offset) ?? 0n;
  };
  return (offset) => {
    if (offset < 0n || offset + 8n > BigInt(view.size)) return null;
    const value = view.u64(Number(offset)) || relativeAt(offset);
    const home = value === 0n ? undefined : image.sectionAt(value);
    return home === undefined ? null : { section: home.index, value };
  };
}

function elfV1CodePlace(image: ElfImage, symbolIndex: number, symbols?: SymbolTable): Place | null {
  const own = ownPlace(image, symbolIndex, symbols);
  if (own === null) return null;
  const descriptors = readDescriptors(image).get(own.section);
  return descriptors === undefined ? own : descriptors.codeAt(own.value - descriptors.section.address);
}

const common = {
  stackPointer: 'r1',
  linkRegister: 'lr',
  argumentRegisters: ['r3', 'r4', 'r5', 'r6', 'r7', 'r8', 'r9', 'r10'],
  resultRegister: 'r3',
  // r2: the TOC pointer or the thread; a call into another TOC comes back through a restore.
  preservedRegisters: ['r2', ...Array.from({ length: 19 }, (_, i) => `r${13 + i}`)],
  unsavedRegisters: /^(f|lf|stf|v|lv|stv|xs|xv|xx|lx|stx[vs]|mffs|mtfs|m[tf]vsr)/,
  syscall: {
    number: 'r0',
    arguments: ['r3', 'r4', 'r5', 'r6', 'r7', 'r8'],
    result: 'r3',
    // `sc` sets CR0.SO and returns the positive error number in r3.
    failure: 'cr0-so',
  },
} as const;

export const ppc32Abi: Abi = { ...common, localEntryOffset: () => 0, codePlace: ownPlace };
export const elfV1Abi: Abi = { ...common, localEntryOffset: () => 0, codePlace: elfV1CodePlace };
export const elfV2Abi: Abi = { ...common, localEntryOffset: elfV2LocalEntry, codePlace: ownPlace };
