/**
 * Functions that several objects of the runtime have byte for byte, with the same references: a
 * mutant of one is the same mutant in each, and is tried where trials come to it first (PV-5).
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { archOf } from '../../src/arches.js';
import * as elf from '../../src/elf/constants.js';
import { type ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { runtimeObject } from '../../src/runtime/index.js';
import { jumpsOf } from './mutant-jumps.js';
import type { CodeFunction } from './mutant-liveness.js';
import { root } from './pipeline.js';

/** References of a range, each with its place in it. */
function referencesOf(image: ElfImage, section: number, start: number, end: number): string[] {
  const found: string[] = [];
  for (const { count, offset, type, symbol, addend } of image.relocationsOf(image.sections[section]!)) {
    for (let row = 0; row < count; row++) {
      const at = Number(offset[row]!) - start;
      if (at < 0 || at >= end - start) continue;
      const index = symbol[row]!;
      const home = image.symbols.sectionIndex[index]!;
      const name = image.symbols.name(index) || (image.sections[home]?.name ?? '');
      // Labels without names are told by their places, as far as those are in the range.
      const value = Number(image.symbols.value[index]!);
      const isInside = home === section && value >= start && value < end;
      found.push(`${at} ${type[row]!} ${isInside ? `+${value - start}` : name} ${addend[row]!}`);
    }
  }
  return found.sort();
}

/** Stores of PowerPC with a base and a distance: stw, std. */
const STORES: Readonly<Record<number, number>> = { 36: 0xffff, 62: 0xfffc };

/**
 * Stores of PowerPC to a variable that a function reaches from another place of its section, of
 * which alone its relocations tell.
 */
function anchoredStores(
  image: ElfImage,
  { section, start, end }: { readonly section: number; readonly start: number; readonly end: number },
  variable: number,
): number[] {
  const { symbols, sections, bytes, header } = image;
  if (!archOf(header).target.id.startsWith('ppc')) return [];
  const anchors = new Set<bigint>();
  for (const { count, offset, symbol, addend } of image.relocationsOf(sections[section]!)) {
    for (let row = 0; row < count; row++) {
      const isInside = offset[row]! >= BigInt(start) && offset[row]! < BigInt(end);
      const isHome = symbols.sectionIndex[symbol[row]!] === symbols.sectionIndex[variable];
      if (isInside && isHome) anchors.add(symbols.value[symbol[row]!]! + BigInt(addend[row]!));
    }
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const found: number[] = [];
  for (let at = start; at + 4 <= end; at += 4) {
    const word = view.getUint32(sections[section]!.offset + at, header.endian === 'little');
    const mask = STORES[word >>> 26];
    const base = (word >>> 16) & 31;
    if (mask === undefined || base === 1) continue;
    const distance = BigInt.asIntN(16, BigInt(word & mask));
    // Further off than a distance says, code adds to the upper half of the base.
    const from = symbols.value[variable]! - distance;
    const isFrom = [...anchors].some((anchor) => from >= anchor && (from - anchor) % 0x1_0000n === 0n);
    if (distance !== 0n && isFrom) found.push(at - start);
  }
  return found;
}

/**
 * Where a function of an object refers to a variable, in bytes from its beginning.
 * @param names  of functions
 */
export function usesOf(
  object: string,
  names: readonly string[],
  variable: string,
): ReadonlyMap<string, readonly number[]> {
  const image = objectImage(object);
  const uses = new Map<string, number[]>();
  if (image === null) return uses;
  const { symbols } = image;
  const wanted = symbols.find(variable);
  const labels = labelsOf(image);
  for (const { name, section, value } of labels.filter((each) => names.includes(each.name))) {
    const end = Math.min(
      image.sections[section]!.size,
      ...labels.filter((each) => each.section === section && each.value > value).map((each) => each.value),
    );
    for (const { count, offset, symbol, addend } of image.relocationsOf(image.sections[section]!)) {
      for (let row = 0; row < count; row++) {
        const at = Number(offset[row]!) - value;
        const index = symbol[row]!;
        const isSame =
          index === wanted ||
          (symbols.sectionIndex[index] === symbols.sectionIndex[wanted] &&
            symbols.name(index) !== variable &&
            symbols.value[index]! + BigInt(addend[row]!) === symbols.value[wanted]!);
        if (at >= 0 && at < end - value && isSame) uses.set(name, [...(uses.get(name) ?? []), at]);
      }
    }
    const far = anchoredStores(image, { section, start: value, end }, wanted);
    if (far.length > 0) uses.set(name, [...(uses.get(name) ?? []), ...far]);
  }
  return uses;
}

/**
 * Functions that are in C, and in no machine's own code: those are compiled. By their names whether
 * they have no result.
 */
function compiledFunctions(): ReadonlyMap<string, boolean> {
  const source = join(root, 'src');
  const folders = readdirSync(source).filter((name) => name === 'runtime' || name.startsWith('arch-'));
  const files = folders.flatMap((folder) =>
    readdirSync(join(source, folder)).map((file) => join(source, folder, file)),
  );
  const found = (ending: string, pattern: RegExp): (readonly [name: string, line: string])[] =>
    files
      .filter((file) => file.endsWith(ending))
      .flatMap((file) =>
        [...readFileSync(file, 'utf8').matchAll(pattern)].map(([line, name]) => [name!, line] as const),
      );
  const names = found('.c', /^(?![#/ ]|extern).*?\b(\w+)\((?:[^()]|\([^()]*\))*\)\s*\{/gm);
  const other = new Set(found('.S', /\bFUNCTION\((\w+)\)/g).map(([name]) => name));
  const isVoid = new Map<string, boolean>();
  for (const [name, line] of names) {
    const says = new RegExp(`\\bvoid\\s+${name}\\(`).test(line);
    if (!other.has(name)) isVoid.set(name, (isVoid.get(name) ?? true) && says);
  }
  return isVoid;
}

/** A function of an object: who calls it, how many calls its relocations tell of. */
export type Called = Pick<CodeFunction, 'callers' | 'isCompiled' | 'calls' | 'isVoid'> & {
  /** Where its tables of jumps lead, in bytes from its beginning; null: none is known. */
  readonly jumps: readonly number[] | null;
};

/** Visibility of what no other file sees. */
const HIDDEN = 2;
/** Relocations of RISC-V for pairs of instructions that call. */
const PAIRS = new Set([18, 19]);

/**
 * By name of a function of an object. A function that only the object sees, and of which it takes
 * no address, has all of its calls there.
 */
export function calledIn(object: string): ReadonlyMap<string, Called> {
  const called = new Map<string, Called>();
  const image = objectImage(object);
  if (image === null) return called;
  const { symbols, sections, bytes } = image;
  const arch = archOf(image.header);
  const compiled = compiledFunctions();
  // By section and place: how often it is called, and whether its address is taken.
  const calls = new Map<string, number>();
  const taken = new Set<string>();
  const labels = labelsOf(image);
  for (const section of sections) {
    if (section.name === '.opd' || (section.flags & elf.SHF_ALLOC) === 0n) continue;
    for (const { count, offset, type, symbol, addend } of image.relocationsOf(section)) {
      for (let row = 0; row < count; row++) {
        const home = symbols.sectionIndex[symbol[row]!]!;
        const value = Number(symbols.value[symbol[row]!]! + BigInt(addend[row]!));
        const at = Number(offset[row]!);
        const isCode = (section.flags & elf.SHF_EXECINSTR) !== 0n;
        const isCall = isCode && isCallAt(arch, bytes, section.offset + at, type[row]!);
        // x86-64 counts from the end of the field, in front of which an address may be, too.
        for (const place of arch.target.id === 'x86-64' ? [value, value + 4] : [value]) {
          const key = `${home} ${place}`;
          if (isCall) calls.set(key, (calls.get(key) ?? 0) + 1);
          else taken.add(key);
        }
      }
    }
  }
  for (let i = 1; i < symbols.count; i++) {
    if ((symbols.info[i]! & 15) !== elf.STT_FUNC) continue;
    const [name, place] = [symbols.name(i), arch.abi.codePlace(image, i)];
    if (place === null) continue;
    const local = BigInt(arch.abi.localEntryOffset(symbols.other[i]!));
    const keys = [
      `${symbols.sectionIndex[i]!} ${symbols.value[i]!}`,
      ...[0n, local].map((offset) => `${place.section} ${place.value + offset}`),
    ];
    const isHidden = symbols.info[i]! >> 4 === elf.STB_LOCAL || (symbols.other[i]! & 3) === HIDDEN;
    const plain = name.replace(/^\./, '');
    const isCompiled = compiled.has(plain);
    const isTaken = !isHidden || keys.some((key) => taken.has(key));
    const count = [...new Set(keys)].reduce((sum, key) => sum + (calls.get(key) ?? 0), 0);
    const callers = !isCompiled ? 'any' : isTaken ? 'abi' : 'inside';
    const later = labels.filter((each) => each.section === place.section && each.value > Number(place.value));
    const end = Math.min(sections[place.section]!.size, ...later.map((each) => each.value));
    const jumps = isCompiled ? jumpsOf(image, { section: place.section, start: Number(place.value), end }) : null;
    called.set(name, { callers, isCompiled, calls: count, isVoid: compiled.get(plain) ?? false, jumps });
  }
  return called;
}

/** Whether a relocation is that of a call or a branch. */
function isCallAt(
  { isa, target }: ReturnType<typeof archOf>,
  bytes: Uint8Array,
  offset: number,
  type: number,
): boolean {
  if (target.id === 'x86-64') {
    const [before, first] = [bytes[offset - 2]!, bytes[offset - 1]!];
    return first === 0xe8 || first === 0xe9 || (before === 0x0f && first >> 4 === 8);
  }
  if (target.id === 'riscv64' && PAIRS.has(type)) return true;
  return 'target' in isa.decode(bytes, offset, 0n).flow;
}

/** By symbol of an object: what its code is, as a short text that is equal where the code is. */
export function contentsOf(object: string): ReadonlyMap<string, string> {
  const contents = new Map<string, string>();
  const image = objectImage(object);
  if (image === null) return contents;
  const { sections } = image;
  const labels = labelsOf(image);
  for (const { name, section, value } of labels) {
    const later = labels.filter((each) => each.section === section && each.value > value);
    const end = Math.min(sections[section]!.size, ...later.map((each) => each.value));
    const { offset } = sections[section]!;
    const hash = createHash('sha256');
    hash.update(image.bytes.subarray(offset + value, offset + end));
    hash.update(referencesOf(image, section, value, end).join('\n'));
    contents.set(name, hash.digest('hex').slice(0, 12));
  }
  return contents;
}

function objectImage(object: string): ElfImage | null {
  const [target, convention] = object.replace('+probes', '').split('/') as [string, string];
  const bytes = runtimeObject(target, convention, object.endsWith('+probes'));
  return bytes === null ? null : readElf(bytes);
}

interface Label {
  readonly name: string;
  readonly section: number;
  readonly value: number;
}

/** Names of code. */
function labelsOf(image: ElfImage): readonly Label[] {
  const { symbols, sections } = image;
  const { abi } = archOf(image.header);
  const labels: Label[] = [];
  for (let i = 1; i < symbols.count; i++) {
    // The symbol of a function may be that of its descriptor.
    const place = abi.codePlace(image, i);
    const [section, name] = [place?.section ?? 0, symbols.name(i)];
    const isCode = section > 0 && section < sections.length && (sections[section]!.flags & elf.SHF_EXECINSTR) !== 0n;
    if (!isCode || (symbols.info[i]! & 15) === elf.STT_SECTION || name === '' || /^\$|^\.L/.test(name)) continue;
    labels.push({ name, section, value: Number(place!.value) });
  }
  return labels;
}
