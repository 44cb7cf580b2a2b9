/**
 * Registers and calling convention of s390x, and how compilers call the profiling entry.
 *
 * r2 to r6 hold arguments, r14 the return address, r15 the stack pointer; r6 to r13 and r15 belong
 * to the caller. At a function's entry only r0 and r1 are free: the site's call links through r0
 * and the stubs behind it load r1. A caller leaves 160 bytes for its callee, the first words of
 * which are the callee's: `-pg` saves r14 in 8(%r15).
 *
 * Source: ELF Application Binary Interface s390x Supplement 1.6, 1.2.
 */
import type { Abi } from '../machine/abi.js';
import type { McountRules } from '../machine/tables.js';
import { BRASL, instructionBytes, OPCODE_OF_SIX, targetOf } from './isa.js';
import { R_390_PC32DBL, R_390_PLT32DBL } from './relocs.js';

export const s390xAbi: Abi = {
  stackPointer: 'r15',
  linkRegister: 'r14',
  argumentRegisters: ['r2', 'r3', 'r4', 'r5', 'r6'],
  resultRegister: 'r2',
  preservedRegisters: ['r6', 'r7', 'r8', 'r9', 'r10', 'r11', 'r12', 'r13'],
  unsavedRegisters: /%[fv][0-9]+\b/,
  syscall: {
    number: 'r1',
    arguments: ['r2', 'r3', 'r4', 'r5', 'r6', 'r7'],
    result: 'r2',
    failure: 'negative-result',
  },
  localEntryOffset: () => 0,
  codePlace(image, symbolIndex, symbols = image.symbols) {
    return { section: symbols.sectionIndex[symbolIndex]!, value: symbols.value[symbolIndex]! };
  },
};

export const s390xMcount: McountRules = {
  // GCC calls _mcount, clang mcount; __fentry__ with -mfentry.
  symbols: ['__fentry__', '_mcount', 'mcount'],
  // S-REC-1: the relocation is on the displacement, 2 bytes into the call. What larl has, too, is
  // PC32DBL: the shape decides.
  callRelocations: new Map([
    [R_390_PLT32DBL, -2],
    [R_390_PC32DBL, -2],
  ]),
  patchableIsPadding: false,
  emptySlots: [0n],
  maxSiteOffset: 'any',
  findCalls(code, start, end, address, isTarget) {
    const found: number[] = [];
    for (let at = start; at + 2 <= end; at += instructionBytes(code[at]!)) {
      if (at + 6 > end) continue;
      // brasl, whatever it links through.
      if (code[at] !== OPCODE_OF_SIX || (code[at + 1]! & 0xf) !== BRASL) continue;
      if (isTarget(targetOf(code, at, address + BigInt(at)))) found.push(at);
    }
    return found;
  },
};
