/**
 * Registers and calling convention of LoongArch (LP64), and how compilers call the profiling entry.
 *
 * $a0 to $a7 hold arguments, $ra the return address; $fp, $s0 to $s8 and $sp belong to the caller.
 * $t0 to $t8 are free at a function's entry: sites keep the return address in $t0, stubs load $t1
 * or $t3.
 *
 * Source: Procedure Call Standard for the LoongArch Architecture 20231219.
 */
import type { Abi } from '../machine/abi.js';
import type { McountRules } from '../machine/tables.js';
import { ByteView } from '../bytes.js';
import { callTarget } from './isa.js';
import { R_LARCH_B26, R_LARCH_CALL36, R_LARCH_GOT_PC_HI20 } from './relocs.js';

export const loongarchAbi: Abi = {
  stackPointer: 'sp',
  linkRegister: 'ra',
  argumentRegisters: ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'],
  resultRegister: 'a0',
  preservedRegisters: ['tp', 'fp', 's0', 's1', 's2', 's3', 's4', 's5', 's6', 's7', 's8'],
  unsavedRegisters: /\$(?:f[ast]?|vr|xr|fcc|fcsr)[0-9]+\b/,
  syscall: {
    number: 'a7',
    arguments: ['a0', 'a1', 'a2', 'a3', 'a4', 'a5'],
    result: 'a0',
    failure: 'negative-result',
  },
  localEntryOffset: () => 0,
  codePlace(image, symbolIndex, symbols = image.symbols) {
    return { section: symbols.sectionIndex[symbolIndex]!, value: symbols.value[symbolIndex]! };
  },
};

export const loongarchMcount: McountRules = {
  symbols: ['_mcount', 'mcount'],
  // L-REC-1: bl, and the pair of the medium code model. What loads the address from the GOT is told
  // from them by the shape.
  callRelocations: new Map([
    [R_LARCH_B26, 0],
    [R_LARCH_CALL36, 0],
    [R_LARCH_GOT_PC_HI20, 0],
  ]),
  patchableIsPadding: false,
  emptySlots: [0n],
  maxSiteOffset: 'any',
  findCalls(code, start, end, address, isTarget) {
    const found: number[] = [];
    const view = new ByteView(code, 'little', 'code');
    const last = Math.min(end, code.length) - 4;
    for (let at = (start + 3) & ~3; at <= last; at += 4) {
      const second = at + 4 <= last ? view.u32(at + 4) : 0;
      const target = callTarget(view.u32(at), second, address + BigInt(at));
      if (target !== null && isTarget(target)) found.push(at);
    }
    return found;
  },
};
