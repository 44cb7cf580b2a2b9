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
import type { RelocationRow } from '../relocs/kinds.js';
import { applyRelocation, computeRelocation, extractRelocation, relocationRow } from '../relocs/apply.js';
import { runtimeObject } from '../runtime/index.js';
import type { Address } from '../units.js';
import { CONFIG, LIBRARIES, NAME_BYTES } from './layout.js';
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

/** The section of stubs, which grows, is the last one. */
const STUBS = '.stubs';

/**
 * The machine's runtime, read.
 * @throws ElftraceError 'internal' for an object that has data with contents: there is no place for
 *   that
 */
export function nativeRuntime(arch: Arch, runtime: string): NativeRuntime {
  const bytes = runtimeObject(arch.target.id, runtime);
  if (bytes === null) throw new ElftraceError('internal', `the runtime ${runtime} is missing`);
  const image = readElf(bytes);
  const loaded = image.sections.filter(({ flags, size }) => (flags & elf.SHF_ALLOC) !== 0n && size > 0);
  const written = loaded.filter(({ flags }) => (flags & elf.SHF_WRITE) !== 0n);
  if (written.some(({ fileSize }) => fileSize > 0)) throw new ElftraceError('internal', 'the runtime has data');
  const read = loaded.filter(({ flags }) => (flags & elf.SHF_WRITE) === 0n);
  const code = laid([...read.filter(({ name }) => name !== STUBS), ...read.filter(({ name }) => name === STUBS)]);
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
  /** One of MODES, and how many numbers of calls there are. */
  readonly mode: number;
  readonly counters: number;
}

/** Where the runtime is laid. */
type LaidAt = Pick<RuntimeFacts, 'code' | 'words'>;

/** Address of a symbol of the runtime where it is laid. */
export function symbolAddress(runtime: NativeRuntime, name: string, facts: LaidAt): Address {
  const { image } = runtime;
  const index = image.symbols.find(name);
  const found = index > 0 ? addressOf(runtime, index, facts) : null;
  if (found === null) throw new ElftraceError('internal', `the runtime has no symbol ${name}`);
  return found;
}

function addressOf(runtime: NativeRuntime, symbol: number, facts: LaidAt): Address | null {
  const { image } = runtime;
  const start = addressOfSection(runtime, image.symbols.sectionIndex[symbol]!, facts);
  return start === null ? null : start + image.symbols.value[symbol]!;
}

function addressOfSection({ code, words }: NativeRuntime, index: number, facts: LaidAt): Address | null {
  for (const [list, base] of [[code, facts.code] as const, [words, facts.words] as const]) {
    const place = list.find(({ section }) => section.index === index);
    if (place !== undefined) return base + BigInt(place.at);
  }
  return null;
}

/** What addresses are relative to where a machine has a table of contents: there is none. */
const tocOf = ({ words }: RuntimeFacts): Address => words;

/** What a relocation means by a symbol; branches of one object lead to local entries. */
function valueOf(
  runtime: NativeRuntime,
  { abi, loader }: Pick<Arch, 'abi' | 'loader'>,
  symbol: number,
  rule: RelocationRow,
  facts: RuntimeFacts,
): Address | null {
  const { symbols } = runtime.image;
  if (loader.kind === 'modules' && symbols.name(symbol) === loader.tocSymbol) return tocOf(facts);
  const address = addressOf(runtime, symbol, facts);
  if (address === null || rule.branch === undefined) return address;
  return address + BigInt(abi.localEntryOffset(symbols.other[symbol]!));
}

/** The upper part whose place a lower part names: its value there (RISC-V). */
function pairedValue(
  runtime: NativeRuntime,
  arch: Arch,
  { section }: Laid,
  label: Address,
  facts: RuntimeFacts,
): bigint {
  const start = addressOfSection(runtime, section.index, facts)!;
  for (const table of runtime.image.relocationsOf(section)) {
    for (let row = 0; row < table.count; row++) {
      const rule = arch.relocations.get(table.type[row]!);
      const place = start + table.offset[row]!;
      if (place !== label || rule?.part !== 'hi20') continue;
      const symbol = addressOf(runtime, table.symbol[row]!, facts)!;
      return computeRelocation(rule, { symbol, addend: table.addend[row]!, place }, runtime.image.wordBytes)!;
    }
  }
  throw new ElftraceError('internal', 'the runtime has a lower part of an address without an upper one');
}

/**
 * The bytes of the code's segment.
 * @param slots  number of words of thread control blocks, one of which the runtime begins with
 */
export function runtimeBytes(
  runtime: NativeRuntime,
  arch: Arch,
  { config, slots, abi }: RuntimeTracing,
  facts: RuntimeFacts,
): Uint8Array {
  const { image, code, codeBytes } = runtime;
  const out = new Uint8Array(codeBytes);
  const orders = { code: arch.target.codeEndian, data: arch.target.dataEndian };
  for (const { section, at } of code) out.set(image.contents(section), at);
  for (const laidOut of code) {
    const { section, at } = laidOut;
    for (const table of image.relocationsOf(section)) {
      for (let row = 0; row < table.count; row++) {
        const rule = relocationRow(arch.relocations, table.type[row]!, arch.target.title);
        const place = at + Number(table.offset[row]!);
        const symbol = valueOf(runtime, { abi: abi ?? arch.abi, loader: arch.loader }, table.symbol[row]!, rule, facts);
        if (symbol === null) throw new ElftraceError('internal', 'the runtime names a symbol that it does not have');
        const inputs = {
          symbol,
          addend: table.addend[row]!,
          place: facts.code + BigInt(place),
          toc: tocOf(facts),
          ...(rule.rule === 'add' || rule.rule === 'sub' ? { held: extractRelocation(rule, out, place, orders) } : {}),
          ...(rule.rule === 'pcrel-low' ? { paired: pairedValue(runtime, arch, laidOut, symbol, facts) } : {}),
        };
        const value = computeRelocation(rule, inputs, image.wordBytes);
        if (value !== null) applyRelocation(rule, out, place, value, orders);
      }
    }
  }
  const address = symbolAddress(runtime, config, facts);
  const at = Number(address - facts.code);
  const view = new ByteView(out, image.header.endian);
  view.insertWord(at + CONFIG.address, address, 8);
  out.set(facts.id, at + CONFIG.id);
  view.insertWord(at + CONFIG.slot, BigInt(facts.id[0]! % slots.count), 8);
  const name = nameBytes(facts.name);
  out.set(name.subarray(0, NAME_BYTES - 1), at + CONFIG.name);
  view.insertU32(at + CONFIG.mode, facts.mode);
  view.insertU32(at + CONFIG.counters, facts.counters);
  view.insertU32(at + CONFIG.library, LIBRARIES[slots.library]);
  return out;
}
