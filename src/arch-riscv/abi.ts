/**
 * RISC-V registers and calling convention (LP64, LP64D).
 *
 * At a function's entry a0-a7 and fa0-fa7 hold arguments, ra the return address, t2 the static
 * chain of nested functions; s0-s11, sp, gp and tp belong to the caller. Free for a hook: t0, t1,
 * t3-t6. There is no red zone and sp is 16-aligned. Source: RISC-V ABIs Specification (psABI) 1.0,
 * chapters 2 and 9; register use at hooks: R-DIR-6.
 */
import type { Abi } from '../machine/abi.js';

export const riscvAbi: Abi = {
  stackPointer: 'sp',
  linkRegister: 'ra',
  argumentRegisters: ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'],
  resultRegister: 'a0',
  preservedRegisters: ['gp', 'tp', 's0', 's1', 's2', 's3', 's4', 's5', 's6', 's7', 's8', 's9', 's10', 's11'],
  unsavedRegisters: /^(c\.)?f(?!ence)|^v/,
  syscall: {
    number: 'a7',
    arguments: ['a0', 'a1', 'a2', 'a3', 'a4', 'a5'],
    result: 'a0',
    failure: 'negative-result',
  },
  // st_other carries only STO_RISCV_VARIANT_CC (0x80), which says nothing about entries.
  localEntryOffset: () => 0,
  codePlace(image, symbolIndex, symbols = image.symbols) {
    return { section: symbols.sectionIndex[symbolIndex]!, value: symbols.value[symbolIndex]! };
  },
};
