/** Entries that an image defines, by the names of their symbols. */
import { STB_LOCAL } from '../elf/constants.js';
import type { Address } from '../units.js';
import type { Program } from './program.js';

/** A place that sites can call. */
export interface EntryPoint {
  readonly symbol: string;
  /** Where a branch from code with the same TOC goes: the local entry. */
  readonly address: Address;
  /** What stubs lead to: the global entry (P-FN-2), on ELFv1 the text address. */
  readonly identity: Address;
}

/** The entry that a symbol of the image names, or null where the image does not define it. */
export function entryPoint(program: Program, symbol: string): EntryPoint | null {
  const index = program.symbols.find(symbol);
  if (index <= 0) return null;
  const place = program.definedAt(index);
  if (place === null) return null;
  const local = BigInt(program.arch.abi.localEntryOffset(program.symbols.other[index]!));
  return { symbol, address: place + local, identity: place };
}

/** Address of a symbol that the image exports (T-X86-28: labels of templates are global). */
export function globalAt(program: Program, symbol: string): Address | null {
  const index = program.symbols.find(symbol);
  if (index <= 0 || program.symbols.info[index]! >> 4 === STB_LOCAL) return null;
  return program.definedAt(index);
}
