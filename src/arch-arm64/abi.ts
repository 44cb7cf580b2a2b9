/**
 * The arm64 procedure call and system call convention (AAPCS64; Linux), and how compilers call the
 * profiling entry.
 */
import type { Abi } from '../machine/abi.js';
import type { McountRules } from '../machine/tables.js';
import { SHN_LORESERVE_RESOLVED, SHN_UNDEF } from '../elf/constants.js';
import type { ElfImage, SymbolTable } from '../elf/image.js';
import { branchTarget } from './isa.js';
import { R_AARCH64_CALL26 } from './relocs.js';

export const arm64Abi: Abi = {
  stackPointer: 'sp',
  linkRegister: 'x30',
  /** x8, the address of a result in memory, is no argument but as live at an entry as they are. */
  argumentRegisters: ['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7'],
  resultRegister: 'x0',
  preservedRegisters: Array.from({ length: 11 }, (_, i) => `x${19 + i}`),
  unsavedRegisters: /\b[vqdshb][0-9]+\b|\bfp[cs]r\b/,
  syscall: {
    number: 'x8',
    arguments: ['x0', 'x1', 'x2', 'x3', 'x4', 'x5'],
    result: 'x0',
    failure: 'negative-result',
  },
  localEntryOffset: () => 0,
  codePlace(image: ElfImage, symbolIndex: number, symbols: SymbolTable = image.symbols) {
    const section = symbols.sectionIndex[symbolIndex];
    const value = symbols.value[symbolIndex];
    if (section === undefined || value === undefined) return null;
    if (section === SHN_UNDEF || section >= SHN_LORESERVE_RESOLVED) return null;
    return { section, value };
  },
};

export const arm64Mcount: McountRules = {
  // glibc's static library calls its own entry __mcount and makes _mcount an alias of it.
  symbols: ['_mcount', '__mcount'],
  // M-REC-4: CALL26 only. JUMP26 is a tail call that never comes back to the function: no site.
  callRelocations: new Map([[R_AARCH64_CALL26, 0]]),
  patchableIsPadding: false,
  emptySlots: [0n, -4n],
  // C-FILT-4 names no limit for arm64: a `-pg` call follows the prologue, wherever that ends.
  maxSiteOffset: 'any',
  findCalls(code, start, end, address, isTarget) {
    const found: number[] = [];
    // Instructions are 4-aligned in memory: step from the first such place at or behind `start`.
    const misaligned = Number((address + BigInt(start)) & 3n);
    for (let at = misaligned === 0 ? start : start + 4 - misaligned; at + 4 <= end && at + 4 <= code.length; at += 4) {
      // bl is 100101 in the upper six bits: one byte decides for nearly every word.
      if ((code[at + 3]! & 0xfc) !== 0x94) continue;
      const word = (code[at]! | (code[at + 1]! << 8) | (code[at + 2]! << 16) | (code[at + 3]! << 24)) >>> 0;
      if (isTarget(branchTarget(word, address + BigInt(at)))) found.push(at);
    }
    return found;
  },
};
