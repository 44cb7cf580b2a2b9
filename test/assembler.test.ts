/**
 * keystone-wasm behind our interface: against GNU as, against our own encoders, and on the texts
 * that it gets wrong.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { arm64Table, decodeBitmask, encodeBitmask, formatArm64 } from '../src/arch-arm64/isa.js';
import { ElftraceError, hexBytes } from '../src/errors.js';
import { loadAssembler, type Assembler } from '../src/isa/assembler.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'assembler-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

let arm: Assembler;
let x86: Assembler;
beforeAll(async () => {
  arm = await loadAssembler('arm64');
  x86 = await loadAssembler('x86-64');
});

const hexOf = (assembler: Assembler, text: string, address = 0n): string =>
  hexBytes(assembler.assemble(text, address)).replaceAll(' ', '');

function failure(assembler: Assembler, text: string, address = 0n): string {
  try {
    return `no failure: ${hexOf(assembler, text, address)}`;
  } catch (error) {
    if (!(error instanceof ElftraceError)) throw error;
    expect(error.code).toBe('usage');
    return error.message;
  }
}

describe('arm64', () => {
  test('hints that the engine has no names for, and .inst', () => {
    expect(hexOf(arm, 'bti c\nbti jc ; paciasp\nautiasp\nxpaclri\nnop')).toBe(
      '5f2403d5df2403d53f2303d5bf2303d5ff2003d51f2003d5',
    );
    expect(hexOf(arm, '.inst 0xd503201f')).toBe('1f2003d5');
    expect(hexOf(arm, 'BTI C')).toBe('5f2403d5');
  });

  test('comments, labels, several statements in a line', () => {
    expect(hexOf(arm, '// nothing\nfoo: nop // a comment\n b foo ; ret\n\n')).toBe('1f2003d5ffffff17c0035fd6');
    expect(hexOf(arm, '')).toBe('');
    expect(hexOf(arm, '.ascii "a;b//c"')).toBe('613b622f2f63');
  });

  test('branches to addresses, kernel addresses included', () => {
    for (const base of [0n, 0x40_0000n, 0xffff_8000_0800_0000n]) {
      expect(hexOf(arm, `bl 0x${(base + 0x100n).toString(16)}`, base)).toBe('40000094');
      expect(hexOf(arm, `b.ne 0x${(base + 0x40n).toString(16)}`, base)).toBe('01020054');
      expect(hexOf(arm, `cbz x0, 0x${(base + 0x40n).toString(16)}`, base)).toBe('000200b4');
    }
    expect(hexOf(arm, 'adrp x0, 0x5000', 0x40_0000n)).toBe('20e0ffb0');
    expect(hexOf(arm, 'adr x0, here\nhere: nop', 0x1000n)).toBe('200000101f2003d5');
  });

  test('out of reach is refused, the engine would truncate it', () => {
    expect(failure(arm, 'nop\nb 0x20000000')).toMatch(/^assembly line 2: 'b 0x20000000': .*out of reach/);
    expect(failure(arm, 'tbz x0, #3, 0x10000')).toMatch(/out of reach/);
    expect(failure(arm, 'cbz x0, 0x200000')).toMatch(/out of reach/);
    expect(failure(arm, 'b.eq 0x200000')).toMatch(/out of reach/);
    expect(failure(arm, 'b -4', 0x1000n)).toMatch(/out of reach/);
    expect(failure(arm, 'b 0x1002', 0x1000n)).toMatch(/out of reach/);
  });

  test('adr to a number and adrp to a label are refused', () => {
    expect(failure(arm, 'adr x0, 0x1040', 0x1000n)).toMatch(/use a label/);
    expect(failure(arm, 'adrp x0, here\nhere: nop', 0x1000n)).toMatch(/^assembly line 1: .*use an address/);
  });

  test('errors name the line and quote the statement', () => {
    expect(failure(arm, 'nop\n\nbogus x1\nnop')).toMatch(/^assembly line 3: 'bogus x1': Invalid mnemonic/);
    expect(failure(arm, 'foo: b foo\nadd x0, x0, #5000')).toMatch(
      /^assembly line 2: 'add x0, x0, #5000': an operand is out of range/,
    );
    expect(failure(arm, 'foo: b foo\nbl nowhere')).toMatch(/^assembly line 2: 'bl nowhere': Cannot find a symbol/);
    expect(failure(arm, 'swpal x0, x1, [x2]')).toMatch(/^assembly line 1: 'swpal/);
    expect(failure(arm, 'and x0, x0, #5')).toMatch(/^assembly line 1/);
    expect(failure(arm, '1: b 1b')).toMatch(/numeric local labels/);
    expect(failure(arm, 'b 1b')).toMatch(/numeric local labels/);
    expect(failure(arm, '.ascii "open')).toMatch(/quote is not closed/);
    expect(failure(arm, 'x = 4')).toMatch(/assignments/);
  });

  test('directives that would crash the engine are refused, and it still works after every refusal', () => {
    for (const text of ['.text', '.section foo', '.globl x', '.set a, 4', '.equ a, 4', '.arch armv8.2-a']) {
      expect(failure(arm, text)).toMatch(/only directives that store data/);
    }
    expect(hexOf(arm, 'mov x9, x30')).toBe('e9031eaa');
  });

  test('instructions that the engine drops without a word are refused', () => {
    expect(failure(arm, 'nop\nldr x1, [x1, #8]!\nret')).toMatch(/^assembly line 2: .*gives no bytes/);
  });

  test('too much text is refused: every label stays in reach of every branch', () => {
    expect(failure(arm, '.space 20000')).toMatch(/longer than/);
  });
});

describe('x86-64', () => {
  test('landing pads, short jumps, comments', () => {
    expect(hexOf(x86, 'endbr64\npush rbp # save\nmov rbp, rsp // frame')).toBe('f30f1efa554889e5');
    expect(hexOf(x86, 'foo: jmp short foo')).toBe('ebfe');
    expect(hexOf(x86, 'jmp lab; nop; lab: ret')).toBe('eb0190c3');
  });

  test('calls to addresses, kernel addresses included', () => {
    for (const base of [0n, 0x40_0000n, 0xffff_ffff_8100_0000n]) {
      expect(hexOf(x86, `call 0x${(base + 0x100n).toString(16)}`, base)).toBe('e8fb000000');
    }
    expect(failure(x86, 'jmp 0x7fffffff0000', 0x1000n)).toMatch(/^assembly line 1: 'jmp 0x7fffffff0000'/);
  });

  test('a nop with an operand is refused, the engine would write a prefetch', () => {
    expect(failure(x86, 'ret\nnop dword ptr [rax+rax]')).toMatch(/^assembly line 2: .*write its bytes/);
    expect(hexOf(x86, '.byte 0x0f, 0x1f, 0x44, 0, 0')).toBe('0f1f440000');
  });

  test('errors name the line', () => {
    expect(failure(x86, 'nop\nmov rax,')).toMatch(/^assembly line 2: 'mov rax,'/);
    expect(failure(x86, 'foo: jmp foo; call undefined_symbol')).toMatch(/^assembly line 1: 'call undefined_symbol'/);
    expect(failure(x86, '1: nop; jmp 1b')).toMatch(/numeric local labels/);
    expect(failure(x86, '.text')).toMatch(/only directives/);
  });
});

/** Bytes of a text as GNU as makes them. */
function gas(tool: string, objcopy: string, text: string): string {
  const base = join(folder, 'gas');
  writeFileSync(`${base}.s`, text);
  run(tool, ['-o', `${base}.o`, `${base}.s`]);
  run(objcopy, ['-O', 'binary', '-j', '.text', `${base}.o`, `${base}.bin`]);
  return readFileSync(`${base}.bin`).toString('hex');
}

describeWith(['aarch64-linux-gnu-as', 'aarch64-linux-gnu-objcopy'], 'arm64 against GNU as', () => {
  test('what payloads of probes and trampolines are written with', () => {
    const text = `
      stp x29, x30, [sp, #-16]!
      mov x29, sp
      stp x0, x1, [sp, #-32]!
      str x8, [sp, #16]
      bic x11, x30, #7
      ldr x11, [x11, #-16]
      ldr x17, [x11, #16]
      cbnz x17, out
      add x1, x1, #1, lsl #12
      movz x16, #0x1122, lsl #48
      movk x16, #0x3344, lsl #32
      ldrb w2, [x1], #1
      ldrsw x3, [x1, w2, uxtw #2]
      csel x0, x1, x2, ne
      cset w0, hi
      ubfx x0, x1, #3, #5
      lsr x0, x0, #3
      umulh x0, x1, x2
      ldaxr x0, [x1]
      stlxr w2, x0, [x1]
      dmb ish
      mrs x0, tpidr_el0
      msr nzcv, x0
      crc32x w0, w1, x2
      svc #0
      brk #1
out:  br x17
      blr x4
      ldp x0, x1, [sp], #32
      ldp x29, x30, [sp], #16
      ret x9
      ret
`;
    const expected = gas('aarch64-linux-gnu-as', 'aarch64-linux-gnu-objcopy', `.arch armv8-a+crc\n.text\n${text}`);
    expect(hexOf(arm, text)).toBe(expected);
  });
});

describeWith(['x86_64-linux-gnu-as', 'objcopy'], 'x86-64 against GNU as', () => {
  test('what payloads of probes and trampolines are written with', () => {
    const text = `
      push rbp
      mov rbp, rsp
      sub rsp, 0xa8
      mov qword ptr [rsp+0x70], rax
      lea rdi, [rip+0x10]
      mov rsi, qword ptr [rsp+8]
      lock inc qword ptr [rdi]
      lock xadd qword ptr [rdi], rax
      cmp rax, 5
      jne out
      test eax, eax
      xor edx, edx
      movzx ecx, byte ptr [rsi+rdx*4+3]
      imul rcx, rdx, 0x64
      cmovne rax, rcx
      sete al
      call rax
      pushf
      popf
      syscall
      int3
      ud2
      rdtsc
      lfence
out:  add rsp, 0xa8
      leave
      ret
`;
    const expected = gas('x86_64-linux-gnu-as', 'objcopy', `.intel_syntax noprefix\n.text\n${text}`);
    expect(hexOf(x86, text)).toBe(expected);
  });
});

describe('keystone as oracle of the A64 encoder', () => {
  /** Small repeatable generator. */
  let state = 5;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state ^ (state >>> 15)) >>> 0;
  };

  /**
   * Rows that Keystone 0.9.2 (LLVM of 2016) has no assembler for, by the first word of their text.
   */
  const UNKNOWN =
    /^(retaa|eretaa|braa|blraa|pac|aut|xpac|ld(add|clr|eor|set|smax|smin|umax|umin|apr)|swp|cas|sb$|cfinv|ldlar|stllr|dcps|drps)/;

  test('R-ENC-1: text of random operands of the integer rows assembles to the same word', () => {
    const differences: string[] = [];
    const compared = new Set<string>();
    for (const row of arm64Table.rows) {
      if (row.attributes.decodeOnly || UNKNOWN.test(row.mnemonic)) continue;
      for (let tries = 0, found = 0; tries < 300 && found < 3; tries++) {
        const word = ((next() & ~row.mask) | row.match) >>> 0;
        const decoded = arm64Table.decode(word);
        if (decoded?.row !== row) continue;
        found++;
        // Unused rotation bits of a logical immediate are free: only the canonical spelling can
        // come back.
        const { bitmask, sf } = decoded.operands;
        const width = sf === 1 ? 64 : 32;
        if (bitmask !== undefined && encodeBitmask(decodeBitmask(bitmask, width)!, width) !== bitmask) continue;
        // So are the bits of imm5 above the size where a general register is duplicated, and those
        // of imm4 below an index.
        const { imm5 = 0, imm4 = 0 } = decoded.operands;
        if (row.mnemonic === 'dup-gen' && (imm5 & (imm5 - 1)) !== 0) continue;
        if (row.mnemonic === 'ins-elem' && (imm4 & ((imm5 & -imm5) - 1)) !== 0) continue;
        const text = formatArm64(row, decoded.operands, 0n);
        const expected = arm64Table.encode(row.mnemonic, decoded.operands);
        expect(expected).toBe(word);
        let bytes: Uint8Array;
        try {
          bytes = arm.assemble(text, 0n);
        } catch {
          continue;
        }
        compared.add(row.mnemonic);
        if (bytes.length !== 4) {
          differences.push(`${text}: ${bytes.length} bytes`);
          continue;
        }
        const theirs = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
        if (theirs !== word) differences.push(`${text}: row ${word.toString(16)} keystone ${theirs.toString(16)}`);
      }
    }
    expect(differences).toEqual([]);
    expect([...compared].length).toBeGreaterThan(200);
  });
});
