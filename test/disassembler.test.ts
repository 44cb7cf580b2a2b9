/**
 * Text of machine code: capstone-wasm behind our interface, against Capstone 5.0.9 (capstone-js)
 * and GNU objdump.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import loadOracle from '@alexaltea/capstone-js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { arm64Isa, arm64Table } from '../src/arch-arm64/isa.js';
import { loadDisassembler, type Disassembler } from '../src/isa/disassembler.js';
import type { Isa } from '../src/isa/instruction.js';
import { fromHex, fromWords } from './support/fake-view.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'disassembler-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** For the x86-64 engine, which does not ask the rows. */
const nobody: Isa = { ...arm64Isa, text: 'capstone-x86-64' };

let arm: Disassembler;
let x86: Disassembler;
beforeAll(async () => {
  arm = await loadDisassembler('capstone-arm64');
  x86 = await loadDisassembler('capstone-x86-64');
});

const armText = (words: readonly number[], address: bigint): string[] =>
  arm.disassemble(fromWords(words, 'little'), address, arm64Isa).map((line) => line.text);
const x86Text = (hex: string, address: bigint): string[] =>
  x86.disassemble(fromHex(hex), address, nobody).map((line) => line.text);

/** Small repeatable generator. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state ^ (state >>> 15)) >>> 0;
  };
}

describe('addresses', () => {
  const places = [
    0n,
    0x1000n,
    0x7fff_fff0n,
    0x8000_0000n,
    0xffff_fff0n,
    0xffff_ffff_8100_0000n,
    0xffff_8000_0800_0000n,
  ];

  test('x86-64: branch targets and line addresses at any place', () => {
    for (const place of places) {
      const lines = x86.disassemble(fromHex('e8fb000000 7510 e90000ff7f'), place, nobody);
      expect(lines.map((line) => line.address)).toEqual([place, place + 5n, place + 7n]);
      expect(lines.map((line) => line.text)).toEqual([
        `call 0x${(place + 0x100n).toString(16)}`,
        `jne 0x${(place + 0x17n).toString(16)}`,
        `jmp 0x${BigInt.asUintN(64, place + 0x7fff_000cn).toString(16)}`,
      ]);
    }
    expect(x86Text('e8fbfeffff', 0xffff_ffff_8100_0000n)).toEqual(['call 0xffffffff80ffff00']);
    // over the end of the address space
    expect(x86Text('e8fb000000', 0xffff_ffff_ffff_ff80n)).toEqual(['call 0x80']);
  });

  test('x86-64: rip-relative operands say where they point', () => {
    expect(x86Text('488b0500010000', 0xffff_ffff_8100_0000n)).toEqual([
      'mov rax, qword ptr [rip + 0x100]  # 0xffffffff81000107',
    ]);
    expect(x86Text('ff25f8ffffff ff2500000000', 0x1000n)).toEqual([
      'jmp qword ptr [rip - 8]  # 0xffe',
      'jmp qword ptr [rip]  # 0x100c',
    ]);
  });

  test('arm64: branches, adr, adrp, literals at any place', () => {
    for (const place of places) {
      const at = (distance: bigint): string => `#0x${BigInt.asUintN(64, place + distance).toString(16)}`;
      expect(armText([0x9400_0400, 0xb000_0000, 0x1000_0400, 0x5800_0400, 0xb400_0400, 0x3600_0400], place)).toEqual([
        `bl ${at(0x1000n)}`,
        `adrp x0, #0x${((place & ~0xfffn) + 0x1000n).toString(16)}`,
        `adr x0, ${at(0x88n)}`,
        `ldr x0, ${at(0x8cn)}`,
        `cbz x0, ${at(0x90n)}`,
        `tbz w0, #0, ${at(0x94n)}`,
      ]);
    }
  });
});

describe('bytes that are no instruction', () => {
  test('arm64: .inst, and .byte at an odd end', () => {
    const code = new Uint8Array([...fromWords([0xd503_201f, 0xffff_ffff, 0xd65f_03c0], 'little'), 0x12, 0x34]);
    const lines = arm.disassemble(code, 0x1000n, arm64Isa);
    expect(lines.map((line) => [line.address, line.sizeBytes, line.text])).toEqual([
      [0x1000n, 4, 'nop'],
      [0x1004n, 4, '.inst 0xffffffff'],
      [0x1008n, 4, 'ret'],
      [0x100cn, 2, '.byte 0x12, 0x34'],
    ]);
  });

  test('x86-64: .byte one by one, then on', () => {
    const lines = x86.disassemble(fromHex('90 06 0606 c3 e8 00'), 0n, nobody);
    expect(lines.map((line) => line.text)).toEqual([
      'nop',
      '.byte 0x06',
      '.byte 0x06',
      '.byte 0x06',
      'ret',
      '.byte 0xe8',
      '.byte 0x00',
    ]);
  });

  test('random bytes: lines cover the input without gaps', () => {
    const next = generator(7);
    const code = Uint8Array.from({ length: 6000 }, () => next() & 0xff);
    for (const [engine, isa] of [
      [x86, nobody],
      [arm, arm64Isa],
    ] as const) {
      let at = 0;
      for (const line of engine.disassemble(code, 0x1000n, isa)) {
        expect(line.address).toBe(0x1000n + BigInt(at));
        expect(line.bytes.length).toBe(line.sizeBytes);
        at += line.sizeBytes;
      }
      expect(at).toBe(code.length);
    }
  });

  test('empty code has no lines', () => {
    expect(arm.disassemble(new Uint8Array(0), 0n, arm64Isa)).toEqual([]);
    expect(x86.disassemble(new Uint8Array(0), 0n, nobody)).toEqual([]);
  });
});

describe('windows', () => {
  test('one-byte instructions past the size that breaks the engine', () => {
    const lines = x86.disassemble(new Uint8Array(66_000).fill(0x90), 0n, nobody);
    expect(lines.length).toBe(66_000);
    expect(lines.at(-1)).toMatchObject({ address: 65_999n, text: 'nop' });
  });

  test('an instruction across the end of a window is whole', () => {
    // 1,020 nops, then a 10-byte movabs across byte 1,024
    const code = new Uint8Array([...new Uint8Array(1020).fill(0x90), ...fromHex('48b88877665544332211 c3')]);
    const lines = x86.disassemble(code, 0n, nobody);
    expect(lines.slice(1020).map((line) => [line.sizeBytes, line.text])).toEqual([
      [10, 'movabs rax, 0x1122334455667788'],
      [1, 'ret'],
    ]);
  });
});

describe('names of landing pads and hints', () => {
  test('arm64: bti, paciasp, xpaclri, csdb', () => {
    expect(
      armText(
        [0xd503_241f, 0xd503_245f, 0xd503_249f, 0xd503_24df, 0xd503_233f, 0xd503_20ff, 0xd503_229f, 0xd503_203f],
        0n,
      ),
    ).toEqual(['bti', 'bti c', 'bti j', 'bti jc', 'paciasp', 'xpaclri', 'csdb', 'yield']);
  });

  test('x86-64: endbr64, notrack', () => {
    expect(x86Text('f30f1efa 0f1f440000', 0n)).toEqual(['endbr64', 'nop dword ptr [rax + rax]']);
    expect(x86Text('3effe0 3e41ffe3 3effd0 ffe0', 0n)).toEqual([
      'notrack jmp rax',
      'notrack jmp r11',
      'notrack call rax',
      'jmp rax',
    ]);
  });
});

describe('rows', () => {
  test('machines that print by rows need no engine', async () => {
    const rows = await loadDisassembler('rows');
    const code = new Uint8Array([...fromWords([0xd503_201f, 0xffff_ffff, 0x9400_0040], 'little'), 1]);
    expect(rows.disassemble(code, 0x1000n, arm64Isa).map((line) => [line.address, line.text])).toEqual([
      [0x1000n, 'nop'],
      [0x1004n, '.byte 0xff, 0xff, 0xff, 0xff'],
      [0x1008n, 'bl 0x1108'],
      [0x100cn, '.byte 0x01'],
    ]);
  });
});

const SOURCE = `
typedef unsigned long u64; typedef unsigned int u32; typedef unsigned char u8;
extern int callee(int, ...); extern u64 table[64]; struct s { u8 a; short b; u32 c; u64 d; } ;
u64 mix(u64 a, u64 b) { a ^= b << 13; a += b / 7; a *= 0x9e3779b97f4a7c15ul; return (a >> 5) | (b << 59); }
int walk(struct s *p, int n) { int t = 0; for (int i = 0; i < n; i++) t += p[i].a + p[i].b - (int)p[i].c + (p[i].d & 0xff00); return t; }
u32 crc(const u8 *p, u64 n) { u32 c = ~0u; while (n--) { c ^= *p++; for (int i = 0; i < 8; i++) c = c & 1 ? (c >> 1) ^ 0xedb88320u : c >> 1; } return ~c; }
int pick(int x) { switch (x) { case 1: return callee(1); case 2: return callee(2, 3); case 3: return x * 5; case 4: return 9; case 5: return callee(7); case 9: return 4; } return -1; }
double real(double a, float b) { return a * b + (double)(int)a - b / 3; }
u64 atomics(u64 *p) { __atomic_fetch_add(p, 3, __ATOMIC_SEQ_CST); return __atomic_exchange_n(p, 4, __ATOMIC_ACQUIRE) + table[p[1] & 63]; }
void copy(u64 *d, const u64 *s, u64 n) { for (u64 i = 0; i < n; i++) d[i] = s[i] + 1; }
int (*hook)(int); int tail(int a) { return hook(a + 1); }
`;

function textOf(compiler: string, flags: readonly string[], objcopy: string): Uint8Array {
  const base = join(folder, 'code');
  writeFileSync(`${base}.c`, SOURCE);
  run(compiler, [...flags, '-O2', '-w', '-ffreestanding', '-c', `${base}.c`, '-o', `${base}.o`]);
  run(objcopy, ['-O', 'binary', '-j', '.text', `${base}.o`, `${base}.bin`]);
  return new Uint8Array(run('cat', [`${base}.bin`]));
}

/** Address, size and mnemonic of each line that objdump prints. */
function objdump(
  tool: string,
  machine: readonly string[],
  code: Uint8Array,
): { readonly address: bigint; readonly mnemonic: string }[] {
  const path = join(folder, 'dump.bin');
  writeFileSync(path, code);
  const out: { address: bigint; mnemonic: string }[] = [];
  for (const line of run(tool, ['-b', 'binary', ...machine, '-D', '-z', '-w', path])
    .toString()
    .split('\n')) {
    const match = /^\s*([0-9a-f]+):\t(?:[0-9a-f]+ ?)+\s*\t(\S+)/.exec(line);
    if (match) out.push({ address: BigInt(`0x${match[1]!}`), mnemonic: match[2]! });
  }
  return out;
}

describeWith(['aarch64-linux-gnu-gcc', 'aarch64-linux-gnu-objcopy', 'aarch64-linux-gnu-objdump'], 'arm64 text', () => {
  test('compiled code: the text of Capstone 5.0.9, the mnemonics of objdump', async () => {
    const cs = await loadOracle();
    const oracle = new cs.Capstone(cs.ARCH_ARM64, cs.MODE_LITTLE_ENDIAN);
    const code = textOf(
      'aarch64-linux-gnu-gcc',
      ['-march=armv8.5-a', '-mbranch-protection=standard', '-fpatchable-function-entry=4,2'],
      'aarch64-linux-gnu-objcopy',
    );
    const lines = arm.disassemble(code, 0n, arm64Isa);
    const theirs = oracle.disasm(code, 0).map((each) => `${each.mnemonic} ${each.op_str}`.trim());
    oracle.close();
    expect(lines.length).toBe(code.length / 4);
    expect(theirs.length).toBe(lines.length);
    const differing = lines
      .map((line, i) => [line.text, theirs[i]!])
      .filter(([ours, other]) => ours !== other && !other!.startsWith('hint '));
    expect(differing).toEqual([]);
    const names = objdump('aarch64-linux-gnu-objdump', ['-m', 'aarch64'], code).map((each) => each.mnemonic);
    const mnemonics = lines.map((line) => line.text.split(' ')[0]!);
    // Capstone writes b.hs and b.lo where objdump writes b.cs and b.cc; the conditions are the
    // same.
    const other = (name: string): string => name.replace(/^b\.cs$/, 'b.hs').replace(/^b\.cc$/, 'b.lo');
    expect(mnemonics.filter((name, i) => name !== other(names[i]!)).map((name) => name)).toEqual([]);
  });

  test('every integer row has a text: by the engine, or by the rows where it knows none', () => {
    const next = generator(11);
    const silent: string[] = [];
    for (const row of arm64Table.rows) {
      if (row.attributes.decodeOnly) continue;
      const words: number[] = [];
      for (let tries = 0; tries < 2000 && words.length < 4; tries++) {
        const word = ((next() & ~row.mask) | row.match) >>> 0;
        if (arm64Table.decode(word)?.row === row) words.push(word);
      }
      if (armText(words, 0n).every((text) => text.startsWith('.inst'))) silent.push(row.mnemonic);
    }
    expect(silent).toEqual([]);
  });
});

describeWith(['x86_64-linux-gnu-gcc', 'objcopy', 'objdump'], 'x86-64 text', () => {
  test('compiled code: the text of Capstone 5.0.9, the boundaries of objdump', async () => {
    const cs = await loadOracle();
    const oracle = new cs.Capstone(cs.ARCH_X86, cs.MODE_64);
    const code = textOf('x86_64-linux-gnu-gcc', ['-fcf-protection=full', '-pg', '-mfentry'], 'objcopy');
    const lines = x86.disassemble(code, 0n, nobody);
    const theirs = oracle.disasm(code, 0).map((each) => `${each.mnemonic} ${each.op_str}`.trim());
    oracle.close();
    expect(lines.map((line) => line.text.replace(/ {2}# 0x[0-9a-f]+$/, ''))).toEqual(theirs);
    const places = objdump('objdump', ['-m', 'i386:x86-64', '-M', 'intel'], code).map((each) => each.address);
    expect(lines.map((line) => line.address)).toEqual(places);
  });
});
