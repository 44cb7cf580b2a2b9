/**
 * The runtime as bytes for one file: its sections laid one behind the other, relocated to where
 * they will lie, and what it must know of the file filled in.
 */
import { ByteView, nameBytes } from '../bytes.js';
import * as elf from '../elf/constants.js';
import type { ElfImage, ElfSection } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import type { Arch } from '../machine/arch.js';
import { applyRelocation, computeRelocation, relocationRow } from '../relocs/apply.js';
import { runtimeObject } from '../runtime/index.js';
import type { Address } from '../units.js';
import { CONFIG, NAME_BYTES } from './layout.js';
import type { RuntimeTracing } from './refuse.js';

interface Laid {
  readonly section: ElfSection;
  /** Offset in the code, or in the words. */
  readonly at: number;
}

/** The object with its sections in order: what is only read, and what is written. */
export interface NativeRuntime {
  readonly image: ElfImage;
  readonly code: readonly Laid[];
  readonly codeBytes: number;
  readonly words: readonly Laid[];
  readonly wordsBytes: number;
}

function laid(sections: readonly ElfSection[]): { readonly list: Laid[]; readonly size: number } {
  let size = 0;
  const list = sections.map((section) => {
    const align = Math.max(1, Number(section.alignBytes));
    const at = Math.ceil(size / align) * align;
    size = at + section.size;
    return { section, at };
  });
  return { list, size };
}

/**
 * The machine's runtime, read.
 * @throws ElftraceError 'internal' for an object that has data with contents: there is no place for
 *   that
 */
export function nativeRuntime(arch: Arch, { runtime }: RuntimeTracing): NativeRuntime {
  const bytes = runtimeObject(arch.target.id, runtime);
  if (bytes === null) throw new ElftraceError('internal', `the runtime ${runtime} is missing`);
  const image = readElf(bytes);
  const loaded = image.sections.filter(({ flags, size }) => (flags & elf.SHF_ALLOC) !== 0n && size > 0);
  const written = loaded.filter(({ flags }) => (flags & elf.SHF_WRITE) !== 0n);
  if (written.some(({ fileSize }) => fileSize > 0)) throw new ElftraceError('internal', 'the runtime has data');
  const code = laid(loaded.filter(({ flags }) => (flags & elf.SHF_WRITE) === 0n));
  const words = laid(written);
  return { image, code: code.list, codeBytes: code.size, words: words.list, wordsBytes: words.size };
}

/** Where code and words will lie, and what the runtime is told. */
export interface RuntimeFacts {
  readonly code: Address;
  readonly words: Address;
  /** SHA-256 of the original, as bytes. */
  readonly id: Uint8Array;
  /** Path of the original. */
  readonly name: string;
}

/** Address of a symbol of the runtime where it is laid. */
export function symbolAddress(runtime: NativeRuntime, name: string, facts: RuntimeFacts): Address {
  const { image } = runtime;
  const index = image.symbols.find(name);
  const found = index > 0 ? addressOf(runtime, index, facts) : null;
  if (found === null) throw new ElftraceError('internal', `the runtime has no symbol ${name}`);
  return found;
}

function addressOf({ image, code, words }: NativeRuntime, symbol: number, facts: RuntimeFacts): Address | null {
  const home = image.symbols.sectionIndex[symbol]!;
  const value = image.symbols.value[symbol]!;
  for (const [list, base] of [[code, facts.code] as const, [words, facts.words] as const]) {
    const place = list.find(({ section }) => section.index === home);
    if (place !== undefined) return base + BigInt(place.at) + value;
  }
  return null;
}

/**
 * The bytes of the code's segment.
 * @param slots  number of words of thread control blocks, one of which the runtime begins with
 */
export function runtimeBytes(
  runtime: NativeRuntime,
  arch: Arch,
  { config, slots }: RuntimeTracing,
  facts: RuntimeFacts,
): Uint8Array {
  const { image, code, codeBytes } = runtime;
  const out = new Uint8Array(codeBytes);
  const orders = { code: arch.target.codeEndian, data: arch.target.dataEndian };
  for (const { section, at } of code) out.set(image.contents(section), at);
  for (const { section, at } of code) {
    for (const table of image.relocationsOf(section)) {
      for (let row = 0; row < table.count; row++) {
        const rule = relocationRow(arch.relocations, table.type[row]!, arch.target.title);
        const place = at + Number(table.offset[row]!);
        const symbol = addressOf(runtime, table.symbol[row]!, facts);
        if (symbol === null) throw new ElftraceError('internal', 'the runtime names a symbol that it does not have');
        const inputs = { symbol, addend: table.addend[row]!, place: facts.code + BigInt(place) };
        const value = computeRelocation(rule, inputs, image.wordBytes);
        if (value !== null) applyRelocation(rule, out, place, value, orders);
      }
    }
  }
  const address = symbolAddress(runtime, config, facts);
  const at = Number(address - facts.code);
  const view = new ByteView(out, image.header.endian);
  view.insertWord(at + CONFIG.address, address, image.wordBytes);
  out.set(facts.id, at + CONFIG.id);
  view.insertWord(at + CONFIG.slot, BigInt(facts.id[0]! % slots.count), image.wordBytes);
  const name = nameBytes(facts.name);
  out.set(name.subarray(0, NAME_BYTES - 1), at + CONFIG.name);
  return out;
}
