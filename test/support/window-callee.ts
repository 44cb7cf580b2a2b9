/** Code that a detour buffer calls in tests: it spoils what a callee may, and returns. */
import { riscvTable } from '../../src/arch-riscv/isa.js';
import { concatBytes, wordBytes } from '../../src/bytes.js';

/** t0 to t6, a0 to a7. */
const riscv = (): Uint8Array =>
  concatBytes([
    ...[5, 6, 7, 28, 29, 30, 31, 10, 11, 12, 13, 14, 15, 16, 17].map((rd) =>
      wordBytes(riscvTable.encode('addi', { rd, rs1: 0, imm: -1 - rd }), 'little'),
    ),
    wordBytes(riscvTable.encode('jalr', { rd: 0, rs1: 1, imm: 0 }), 'little'),
  ]);

/** rax, rcx, rdx, rsi, rdi, r8 to r11 become -1, the carry and others are set. */
const x86 = (): Uint8Array =>
  Uint8Array.of(
    ...[0xc0, 0xc1, 0xc2, 0xc6, 0xc7].flatMap((modRm) => [0x48, 0xc7, modRm, 0xff, 0xff, 0xff, 0xff]),
    ...[0xc0, 0xc1, 0xc2, 0xc3].flatMap((modRm) => [0x49, 0xc7, modRm, 0xff, 0xff, 0xff, 0xff]),
    ...[0x48, 0x01, 0xc0, 0xc3], // add %rax,%rax; ret
  );

export function runtimeSpoiler(target: string): Uint8Array {
  if (target === 'riscv64') return riscv();
  if (target === 'x86-64') return x86();
  throw new Error(`no windows with a middle on ${target}`);
}
