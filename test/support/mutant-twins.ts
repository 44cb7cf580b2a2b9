/**
 * Functions that several objects of the runtime have byte for byte, with the same references: a
 * mutant of one is the same mutant in each, and is tried where trials come to it first (PV-5).
 */
import { createHash } from 'node:crypto';
import { archOf } from '../../src/arches.js';
import * as elf from '../../src/elf/constants.js';
import { type ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { runtimeObject } from '../../src/runtime/index.js';

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
  }
  return uses;
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
