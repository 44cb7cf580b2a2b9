/**
 * x86-64 lengths, names and flow against Capstone and objdump, on random bytes and on the code of
 * installed programs.
 */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeInto, MAX_INSTRUCTION_BYTES, X86Instruction, x86Isa } from '../src/arch-x86/isa.js';
import { opcodeTables, OpcodeTable, rowsFromData } from '../src/arch-x86/opcode-map.js';
import { fromHex } from './support/fake-view.js';
import { times } from './support/long.js';
import { describeWith, run } from './support/tools.js';
import {
  compareSizes,
  capstone5,
  reasonAgainstBoth,
  capstoneWasm,
  objdumpMnemonic,
  objdumpSlots,
  randomSlots,
  SLOT_BYTES,
} from './support/x86-oracles.js';

const instruction = new X86Instruction();

function decode(code: Uint8Array): number {
  return decodeInto(instruction, code, 0);
}

function padded(code: Uint8Array): Uint8Array {
  const out = new Uint8Array(SLOT_BYTES).fill(0x90);
  out.set(code.subarray(0, SLOT_BYTES));
  return out;
}

/** Names under which Capstone prints a condition, an immediate or a prefix. */
function sameName(ours: string, theirs: string): boolean {
  const words = theirs.split(' ');
  const other = words[words.length - 1]!;
  if (ours === other) return true;
  // Comparisons with a predicate in the immediate: cmpltps for cmpps, vpcmpeqb for vpcmpb, vpcomltw
  // for vpcomw.
  const predicate = /^(v?p?cmp|vpcom)(.*?)(u?[bwdq]|[ps][sdh])$/.exec(other);
  if (predicate && ours === predicate[1]! + predicate[3]!) return true;
  if (/^v?pclmul/.test(ours) && /^v?pclmul/.test(other)) return true;
  return aliases.has(`${other} ${ours}`);
}

/** Capstone's name and ours. */
const aliases = new Set([
  'sal shl',
  'xchg nop',
  'fdisi8087_nop fndisi',
  'feni8087_nop fneni',
  'fcompi fcomip',
  'fucompi fucomip',
  // Capstone: the far forms by their operand.
  'call lcall',
  'jmp ljmp',
  // 66 together with REX.W: the string instructions of ports have no 64-bit form.
  'outsw outsd',
  'insw insd',
]);

describe('X-ISA vectors', () => {
  const lines = readFileSync(new URL('../../test/vectors/x86-length.txt', import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

  test('sizes and names on which objdump and Capstone agree', () => {
    const wrong: string[] = [];
    for (const line of lines) {
      const [bytes, size, mnemonic] = line.split(' ');
      const code = padded(fromHex(bytes!));
      const ours = decodeInto(instruction, code, 0);
      if (ours !== Number(size)) {
        if (reasonAgainstBoth(code, ours) === null) wrong.push(`${line}: size ${ours} ${instruction.mnemonic}`);
      } else if (ours > 0 && !sameName(instruction.mnemonic, line.split(' ').slice(2).join(' '))) {
        // A lone prefix as first word (`lock add`) was cut by split: compare the last word.
        wrong.push(`${line}: name ${instruction.mnemonic} for ${mnemonic!}`);
      }
    }
    expect(lines.length).toBeGreaterThan(3000);
    expect(wrong).toEqual([]);
  });
});

describe('x86-64 decoder', () => {
  test.each([
    ['e8fbefffff', 5, 'call', { kind: 'call', target: 0x40_0000n }],
    ['67e800000000', 6, 'call', { kind: 'call', target: 0x40_1006n }],
    ['e900000000', 5, 'jmp', { kind: 'jump', target: 0x40_1005n }],
    ['ebfe', 2, 'jmp', { kind: 'jump', target: 0x40_1000n }],
    ['7410', 2, 'je', { kind: 'branch', target: 0x40_1012n }],
    ['0f85fcffffff', 6, 'jne', { kind: 'branch', target: 0x40_1002n }],
    ['e3fe', 2, 'jrcxz', { kind: 'branch', target: 0x40_1000n }],
    ['e2fe', 2, 'loop', { kind: 'branch', target: 0x40_1000n }],
    ['ff1500000000', 6, 'call', { kind: 'indirect-call' }],
    ['41ffd2', 3, 'call', { kind: 'indirect-call' }],
    ['ff2500000000', 6, 'jmp', { kind: 'indirect-jump' }],
    ['f2ffe0', 3, 'jmp', { kind: 'indirect-jump' }],
    ['c3', 1, 'ret', { kind: 'return' }],
    ['f3c3', 2, 'ret', { kind: 'return' }],
    ['c20800', 3, 'ret', { kind: 'return' }],
    ['48cf', 2, 'iretq', { kind: 'return' }],
    ['0f05', 2, 'syscall', { kind: 'syscall' }],
    ['cd80', 2, 'int', { kind: 'syscall' }],
    ['cc', 1, 'int3', { kind: 'trap' }],
    ['0f0b', 2, 'ud2', { kind: 'trap' }],
    ['f4', 1, 'hlt', { kind: 'trap' }],
    ['f30f1efa', 4, 'endbr64', { kind: 'next' }],
    ['0f1f440000', 5, 'nop', { kind: 'next' }],
    ['9090', 1, 'nop', { kind: 'next' }],
    ['f390', 2, 'pause', { kind: 'next' }],
    ['4190', 2, 'xchg', { kind: 'next' }],
    ['06', 1, 'unknown', { kind: 'next' }],
    ['ea', 1, 'unknown', { kind: 'next' }],
  ])('%s is %i bytes, %s', (bytes, size, mnemonic, flow) => {
    const decoded = x86Isa.decode(fromHex(bytes), 0, 0x40_1000n);
    expect([decoded.sizeBytes, decoded.mnemonic, decoded.flow]).toEqual([size, mnemonic, flow]);
  });

  test('places of displacement and immediate', () => {
    // mov rdx,[rip+0x11223344]; cmp dword [rip-8],0x12345678; movabs; 66 shortens Iz, REX.W wins;
    // moffs under 67
    expect(x86Isa.decode(fromHex('488b1544332211'), 0, 0n).operands).toEqual({
      mod: 0, reg: 2, rm: 5, disp: 0x1122_3344, dispOffset: 3, dispBytes: 4, ripRelative: 1,
    }); // prettier-ignore
    expect(x86Isa.decode(fromHex('813df8ffffff78563412'), 0, 0n).operands).toMatchObject({
      disp: -8, dispOffset: 2, imm: 0x1234_5678, immOffset: 6, immBytes: 4,
    }); // prettier-ignore
    expect(x86Isa.decode(fromHex('49ba8877665544332211'), 0, 0n).operands).toMatchObject({
      imm: 0x5566_7788, immHigh: 0x1122_3344, immOffset: 2, immBytes: 8,
    }); // prettier-ignore
    expect(x86Isa.decode(fromHex('66b83412'), 0, 0n)).toMatchObject({ sizeBytes: 4, operands: { imm: 0x1234 } });
    expect(x86Isa.decode(fromHex('6648b81122334455667788'), 0, 0n).sizeBytes).toBe(11);
    expect(x86Isa.decode(fromHex('67a111223344'), 0, 0n).sizeBytes).toBe(6);
    expect(x86Isa.decode(fromHex('a11122334455667788'), 0, 0n).sizeBytes).toBe(9);
    expect(x86Isa.decode(fromHex('c8100001'), 0, 0n)).toMatchObject({ sizeBytes: 4, operands: { imm: 16 } });
  });

  test('branch targets wrap at the end of the address space', () => {
    expect(x86Isa.decode(fromHex('e8fbffffff'), 0, 0n).flow).toEqual({ kind: 'call', target: 0n });
    expect(x86Isa.decode(fromHex('e8f6ffffff'), 0, 0n).flow).toEqual({
      kind: 'call',
      target: 0xffff_ffff_ffff_fffbn,
    });
  });

  test('any bytes: never throws, at most 15 bytes, and no shorter prefix of an instruction is one', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 0, maxLength: 20 }), (code) => {
        const size = decodeInto(instruction, code, 0);
        expect(size).toBeLessThanOrEqual(Math.min(MAX_INSTRUCTION_BYTES, code.length));
        for (let limit = 0; limit < size; limit++) expect(decodeInto(instruction, code, 0, limit)).toBe(0);
        expect(x86Isa.decode(code, 0, 0n).sizeBytes).toBe(size === 0 ? 1 : size);
      }),
      { seed: 86, numRuns: times(3000, 1000) },
    );
  });

  test('bad rows of the map are refused', () => {
    expect(() => new OpcodeTable(() => 'zz mov Eb,Gb').rows(0)).toThrow(/not a row/);
    expect(() => new OpcodeTable(() => '00 add Eb,Gb locked').rows(0)).toThrow(/flag locked/);
    expect(() => new OpcodeTable(() => '00 add').rows(0)).toThrow(/not a row/);
  });

  test('rows come back whole from the data that the package brings along', () => {
    let rows = 0;
    for (const table of opcodeTables.values()) {
      const lines = table.data.split('\n');
      expect(lines.length).toBe(256);
      for (const [opcode, line] of lines.entries()) {
        expect(rowsFromData(line)).toEqual(table.rows(opcode));
        rows += table.rows(opcode).length;
      }
    }
    expect(rows).toBeGreaterThan(1_900);
  });

  test('an opcode either always has ModRM or never: the decoder reads it before it chooses a row', () => {
    for (const table of opcodeTables.values()) {
      for (let opcode = 0; opcode < 256; opcode++) {
        const rows = table.rows(opcode);
        expect(new Set(rows.map((row) => row.hasModRm)).size).toBeLessThanOrEqual(1);
      }
    }
  });
});

describeWith(['objdump'], 'x86-64 decoder against Capstone and objdump', () => {
  test('capstone-wasm, 20,000 random strings: where it and objdump agree against us there is a reason', async () => {
    const slots = randomSlots(20_000, 11);
    const tally = compareSizes(slots, await capstoneWasm(), objdumpSlots(slots), decode);
    expect(tally.unexplained).toEqual([]);
    expect(tally.compared).toBe(20_000);
    expect(tally.againstBoth).toBeLessThan(200);
  }, 30_000);

  test('40,000 random strings: where both agree against us there is a reason', async () => {
    const slots = randomSlots(40_000, 3);
    const tally = compareSizes(slots, await capstone5(), objdumpSlots(slots), decode);
    expect(tally.unexplained).toEqual([]);
    expect(tally.compared).toBe(40_000);
    expect(tally.againstBoth).toBeLessThan(400);
  }, 30_000);

  /** Programs that every machine with a compiler has. */
  const programs = ['/usr/bin/objdump', '/lib/x86_64-linux-gnu/libm.so.6', '/lib64/ld-linux-x86-64.so.2'];
  test.each(programs.filter((each) => existsSync(each)))(
    'every instruction of %s has the size that capstone-wasm gives, and the size and name of objdump',
    async (file) => {
      const capstone = await capstoneWasm();
      const text = run('objdump', ['-d', '-w', '-M', 'intel', '--no-addresses', file]).toString('latin1');
      const code = new Uint8Array(SLOT_BYTES);
      let compared = 0;
      const wrong: string[] = [];
      for (const line of text.split('\n')) {
        if (!line.startsWith('\t')) continue;
        const [, hex, operation] = line.split('\t');
        if (hex === undefined || operation === undefined || objdumpMnemonic(operation) === '') continue;
        const bytes = fromHex(hex);
        code.fill(0x90);
        code.set(bytes.subarray(0, SLOT_BYTES));
        compared++;
        // objdump prints fwait and the x87 instruction behind it as one.
        const size = decodeInto(instruction, code, 0);
        if (size !== bytes.length && !(bytes[0] === 0x9b && size === 1)) wrong.push(line);
        if (capstone(code).size !== size) wrong.push(`${line} capstone-wasm ${capstone(code).size}, ours ${size}`);
        // Flow-relevant names only: objdump prints string and comparison instructions with other
        // suffixes.
        const name = objdumpMnemonic(operation);
        if (/^(call|j\w+|ret|loop\w*|syscall|hlt|ud2|int3|endbr64|leave|push|pop|mov|lea)$/.test(name)) {
          if (instruction.mnemonic !== name && !(name === 'mov' && instruction.mnemonic === 'movabs'))
            wrong.push(`${line} ours ${instruction.mnemonic}`);
        }
      }
      expect(compared).toBeGreaterThan(10_000);
      expect(wrong).toEqual([]);
    },
    30_000,
  );
});
