/**
 * Holds relocation rows against a linker: an object's sections are relocated by the rows, with S
 * and P taken from the file that the linker made of that one object, and the bytes at every place
 * are compared with what the linker wrote.
 */
import type { Arch } from '../../src/machine/arch.js';
import type { ElfImage } from '../../src/elf/image.js';
import { readElf } from '../../src/elf/read.js';
import { applyRelocation, computeRelocation } from '../../src/relocs/apply.js';

export interface RelocationComparison {
  /** Names of the types that were compared, with counts. */
  readonly compared: Readonly<Record<string, number>>;
  /** Types that were left out because their value is a linker's or needs slots. */
  readonly skipped: Readonly<Record<string, number>>;
  /** `section+offset NAME: ours …, linker …`. */
  readonly differences: readonly string[];
}

export interface HarnessOptions {
  /** Base of the TOC or GOT; default: symbol `.TOC.` or nothing. */
  readonly toc?: bigint;
  /**
   * Relocation types not to compare, with the reason in the caller's words (linker optimisations).
   */
  readonly skip?: ReadonlySet<number>;
}

/**
 * Address of an object's section in the linked file, which keeps sections by name and holds this
 * one object only.
 */
function addressOf(linked: ElfImage, name: string): bigint | null {
  return linked.section(name)?.address ?? null;
}

/**
 * S of a symbol of the object: its section's address + value, or the linked file's symbol of that
 * name.
 */
function symbolValue(object: ElfImage, linked: ElfImage, index: number): bigint | null {
  const { symbols } = object;
  const section = object.sections[symbols.sectionIndex[index]!];
  if (symbols.sectionIndex[index] !== 0 && section) {
    const address = addressOf(linked, section.name);
    return address === null ? null : address + symbols.value[index]!;
  }
  const found = linked.symbols.find(symbols.name(index));
  if (found < 0 || linked.symbols.sectionIndex[found] === 0) return index === 0 ? 0n : null;
  return linked.symbols.value[found]!;
}

/**
 * Compares every relocation of `object` (relocatable) with the same place of `linked`. Branches
 * lead to the callee's local entry and through descriptors as the Abi says.
 */
export function compareRelocations(
  arch: Arch,
  object: Uint8Array,
  linkedBytes: Uint8Array,
  options: HarnessOptions = {},
): RelocationComparison {
  const image = readElf(object);
  const linked = readElf(linkedBytes);
  const compared: Record<string, number> = {};
  const skipped: Record<string, number> = {};
  const differences: string[] = [];
  const count = (into: Record<string, number>, name: string): void => {
    into[name] = (into[name] ?? 0) + 1;
  };
  const orders = { data: arch.target.dataEndian, code: arch.target.codeEndian };
  for (const section of image.sections) {
    const home = linked.section(section.name);
    if (!home || (section.flags & 2n) === 0n || section.fileSize === 0) continue;
    const theirs = linked.contents(home);
    for (const table of image.relocationsOf(section)) {
      const ours = Uint8Array.from(image.contents(section));
      const done: { row: number; name: string; at: number; size: number }[] = [];
      for (let row = 0; row < table.count; row++) {
        const type = table.type[row]!;
        const known = arch.relocations.get(type);
        if (!known) {
          differences.push(`${section.name}: unknown type ${type}`);
          continue;
        }
        const index = table.symbol[row]!;
        let S = symbolValue(image, linked, index);
        if (S === null || options.skip?.has(type) || ['tls', 'linker', 'irelative'].includes(known.rule)) {
          count(skipped, known.name);
          continue;
        }
        if (known.branch) {
          const place = arch.abi.codePlace(image, index);
          const code = place === null ? null : image.sections[place.section];
          if (place !== null && code) S = (addressOf(linked, code.name) ?? 0n) + place.value;
          S += BigInt(arch.abi.localEntryOffset(image.symbols.other[index]!));
        }
        const at = Number(table.offset[row]!);
        const toc = options.toc;
        const inputs = { symbol: S, addend: table.addend[row]!, place: home.address + BigInt(at) };
        const value = computeRelocation(known, toc === undefined ? inputs : { ...inputs, toc }, arch.target.wordBytes);
        if (value === null) {
          count(skipped, known.name);
          continue;
        }
        applyRelocation(known, ours, at, value, orders);
        done.push({ row, name: known.name, at, size: known.field.sizeBytes });
      }
      for (const { name, at, size } of done) {
        const mine = ours.subarray(at, at + size);
        const linkers = theirs.subarray(at, at + size);
        count(compared, name);
        if (mine.some((byte, i) => byte !== linkers[i])) {
          const text = (bytes: Uint8Array): string => [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('');
          differences.push(`${section.name}+0x${at.toString(16)} ${name}: ours ${text(mine)}, linker ${text(linkers)}`);
        }
      }
    }
  }
  return { compared, skipped, differences };
}
