/**
 * Calling and system-call convention of x86-64 (System V psABI 1.0, 3.2 and A.2). The return
 * address is on the stack; a function symbol is the address of its code.
 */
import type { Abi } from '../machine/abi.js';

export const x86Abi: Abi = {
  stackPointer: 'rsp',
  linkRegister: null,
  argumentRegisters: ['rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9'],
  resultRegister: 'rax',
  preservedRegisters: ['rbx', 'rbp', 'r12', 'r13', 'r14', 'r15'],
  unsavedRegisters: /\b([xyz]?mm\d|st\(|st\b)|^f|^(ld|st)mxcsr/,
  syscall: {
    number: 'rax',
    arguments: ['rdi', 'rsi', 'rdx', 'r10', 'r8', 'r9'],
    result: 'rax',
    failure: 'negative-result',
  },
  localEntryOffset: () => 0,
  codePlace(image, symbolIndex, { sectionIndex, value } = image.symbols) {
    return { section: sectionIndex[symbolIndex]!, value: value[symbolIndex]! };
  },
};
