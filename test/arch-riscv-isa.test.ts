/** RISC-V rows against GNU objdump and as; lengths, flow and expansion. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeAt, expand, formatPlain, instructionBytes, riscvIsa, riscvTable } from '../src/arch-riscv/isa.js';
import { compileRow } from '../src/isa/table.js';
import type { Row } from '../src/isa/table.js';
import { assemble, objdump, random, RISCV_BINUTILS } from './support/riscv-tools.js';
import { describeWith } from './support/tools.js';

/** binutils 2.40 does not know Zicond: these two rows have vectors of their own below. */
const UNKNOWN_TO_BINUTILS = new Set(['czero.eqz', 'czero.nez']);

function bytesOf(words: readonly { readonly word: number; readonly sizeBytes: number }[]): Uint8Array {
  const out: number[] = [];
  for (const { word, sizeBytes } of words) {
    for (let shift = 0; shift < 8 * sizeBytes; shift += 8) out.push((word >>> shift) & 0xff);
  }
  return Uint8Array.from(out);
}

function word(value: number): Uint8Array {
  return bytesOf([{ word: value, sizeBytes: (value & 3) === 3 ? 4 : 2 }]);
}

/**
 * Random words of a row: fixed bits kept, all others random, without those that the row leaves to
 * another.
 */
function samples(row: Row, count: number, next: () => number): number[] {
  const out: number[] = [];
  for (let tries = 0; out.length < count && tries < 50 * count; tries++) {
    const bits = row.sizeBytes === 2 ? 0xffff : 0xffff_ffff;
    const value = (((next() & ~row.mask) | row.match) & bits) >>> 0;
    if (riscvTable.decode(value, row.sizeBytes)?.row === row) out.push(value);
  }
  return out;
}

describeWith(RISCV_BINUTILS, 'RISC-V rows against objdump', () => {
  test('every row prints as objdump -M no-aliases does, 40 random words each', () => {
    const next = random(20240411);
    const words: { word: number; sizeBytes: number }[] = [];
    for (const row of riscvTable.rows) {
      if (UNKNOWN_TO_BINUTILS.has(row.mnemonic)) continue;
      const found = samples(row, 40, next);
      expect(found.length).toBeGreaterThan(0);
      for (const each of found) words.push({ word: each, sizeBytes: row.sizeBytes });
    }
    const code = bytesOf(words);
    const theirs = objdump(code);
    const differences: string[] = [];
    let at = 0;
    for (const { word: value, sizeBytes } of words) {
      const ours = formatPlain(riscvTable.decode(value, sizeBytes === 2 ? 2 : 4)!, BigInt(at));
      if (theirs.get(at) !== ours) differences.push(`${value.toString(16)}: objdump ${theirs.get(at)}, ours ${ours}`);
      at += sizeBytes;
    }
    expect(differences).toEqual([]);
    expect(words.length).toBeGreaterThan(6000);
  });

  test('all 49,152 compressed parcels', () => {
    const words = Array.from({ length: 65536 }, (_, value) => value).filter((value) => (value & 3) !== 3);
    const theirs = objdump(bytesOf(words.map((value) => ({ word: value, sizeBytes: 2 }))));
    const differences: string[] = [];
    words.forEach((value, i) => {
      const decoded = riscvTable.decode(value, 2);
      const ours = decoded === null ? `.2byte 0x${value.toString(16)}` : formatPlain(decoded, BigInt(2 * i));
      const text = theirs.get(2 * i);
      // Reserved by the manual (adding nothing to sp), printed by objdump all the same.
      if (text === 'c.addi16sp sp,0' && decoded === null) return;
      if (text !== ours) differences.push(`${value.toString(16)}: objdump ${text}, ours ${ours}`);
    });
    expect(differences).toEqual([]);
    expect(words).toHaveLength(49152);
  });

  test('all 4,096 CSR numbers', () => {
    const words = Array.from({ length: 4096 }, (_, csr) => ((csr << 20) | 0x59573) >>> 0);
    const theirs = objdump(bytesOf(words.map((value) => ({ word: value, sizeBytes: 4 }))));
    words.forEach((value, i) => {
      expect(formatPlain(riscvTable.decode(value)!, BigInt(4 * i))).toBe(theirs.get(4 * i));
    });
  });

  test('random words: what objdump knows, we know, and the other way round', () => {
    const next = random(7);
    const words: number[] = [];
    while (words.length < 30000) {
      const value = next();
      if (instructionBytes(value & 0xffff) === 4) words.push(value);
    }
    const theirs = objdump(bytesOf(words.map((value) => ({ word: value, sizeBytes: 4 }))));
    const differences: string[] = [];
    let known = 0;
    words.forEach((value, i) => {
      const decoded = riscvTable.decode(value);
      const text = theirs.get(4 * i)!;
      if (decoded !== null && UNKNOWN_TO_BINUTILS.has(decoded.row.mnemonic)) return;
      const unknown = text.startsWith('.');
      if (!unknown) known++;
      const ours = decoded === null ? null : formatPlain(decoded, BigInt(4 * i));
      if (unknown ? ours !== null : ours !== text)
        differences.push(`${value.toString(16)}: objdump ${text}, ours ${ours}`);
    });
    expect(differences).toEqual([]);
    expect(known).toBeGreaterThan(5000);
  });

  test('compressed rows expand to what the assembler compresses back to them', () => {
    const lines: string[] = [];
    const expected: number[] = [];
    for (let value = 0; value < 65536; value++) {
      const decoded = (value & 3) === 3 ? null : riscvTable.decode(value, 2);
      if (decoded === null || decoded.row.mnemonic === 'c.unimp') continue;
      const { operands } = decoded;
      const name = decoded.row.mnemonic;
      // Hints and forms with an equal twin: the assembler never chooses them.
      if (name.endsWith('64') || (name !== 'c.jr' && operands['rd'] === 0 && value !== 1)) continue;
      if ((name === 'c.addi' && operands['imm'] === 0 && value !== 1) || (name === 'c.add' && operands['rd'] === 0))
        continue;
      // addi sp,sp,n (16 to 31) fits c.addi and c.addi16sp; addi rd,sp,0 and the like have shorter
      // twins.
      if (name === 'c.addi16sp' && operands['imm']! >= -32 && operands['imm']! < 32) continue;
      const at = expected.length * 2;
      const base = expand(decoded);
      let text = formatPlain(base, BigInt(at));
      // The assembler compresses these only from their short spellings.
      text = text
        .replace(/^jalr zero,0\((\w+)\)$/, 'jr $1')
        .replace(/^jal zero,/, 'j ')
        .replace(/^jalr ra,0\((\w+)\)$/, 'jalr $1');
      if (base.row.fields.some((field) => field.name === 'off')) {
        text = text.replace(/0x[0-9a-f]+$/, `. + (${operands['off']})`);
      }
      lines.push(text);
      expected.push(value);
    }
    const code = assemble(lines.join('\n'));
    const differences: string[] = [];
    expected.forEach((value, i) => {
      const found = code[2 * i]! | (code[2 * i + 1]! << 8);
      if (found !== value && differences.length < 10) {
        differences.push(`${lines[i]}: from ${value.toString(16)}, assembled ${found.toString(16)}`);
      }
    });
    expect(differences).toEqual([]);
    expect(code).toHaveLength(2 * expected.length);
    expect(expected.length).toBeGreaterThan(40000);
  });
});

describe('RISC-V rows', () => {
  test('committed vectors of objdump', () => {
    const path = new URL('../../test/vectors/riscv-objdump.txt', import.meta.url);
    const lines = readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    const seen = new Set<string>();
    for (const line of lines) {
      const [address, digits, text] = line.split('\t');
      const value = Number.parseInt(digits!, 16);
      const decoded = riscvTable.decode(value, digits!.length === 4 ? 2 : 4)!;
      expect(`${digits} ${formatPlain(decoded, BigInt(address!))}`).toBe(`${digits} ${text}`);
      seen.add(decoded.row.mnemonic);
    }
    const missing = riscvTable.rows.map((row) => row.mnemonic).filter((name) => !seen.has(name));
    expect(missing).toEqual([...UNKNOWN_TO_BINUTILS]);
  });

  test('Zicond: encodings that LLVM prints for its own test lines', () => {
    expect(formatPlain(riscvTable.decode(0x0e16_d2b3)!, 0n)).toBe('czero.eqz t0,a3,ra');
    expect(formatPlain(riscvTable.decode(0x0ff1_f5b3)!, 0n)).toBe('czero.nez a1,gp,t6');
  });

  test('decode of encode gives the operands back, for every row', () => {
    const next = random(99);
    for (const row of riscvTable.rows) {
      for (const value of samples(row, 20, next)) {
        const decoded = riscvTable.decode(value, row.sizeBytes)!;
        expect(riscvTable.encode(row.mnemonic, decoded.operands)).toBe(value);
      }
    }
  });

  test('every compressed row names a base row and gives exactly its operands', () => {
    const next = random(5);
    for (const row of riscvTable.rows) {
      expect(row.attributes.expands !== undefined).toBe(row.sizeBytes === 2);
      if (row.sizeBytes !== 2) continue;
      for (const value of samples(row, 20, next)) {
        const base = expand(riscvTable.decode(value, 2)!);
        expect(base.row.sizeBytes).toBe(4);
        expect(Object.keys(base.operands).sort()).toEqual(base.row.fields.map((field) => field.name).sort());
        // Encoding proves that every operand fits the base row's field.
        const again = riscvTable.decode(riscvTable.encode(base.row.mnemonic, base.operands));
        expect(again?.operands).toEqual(base.operands);
        expect(base.row.attributes.decodeOnly ?? false).toBe(row.attributes.decodeOnly ?? false);
      }
    }
  });

  test('reach of the branches', () => {
    expect(riscvTable.reach('jal')).toEqual({ min: -0x10_0000n, max: 0xf_fffen, alignBytes: 2 });
    expect(riscvTable.reach('beq')).toEqual({ min: -0x1000n, max: 0xffen, alignBytes: 2 });
    expect(riscvTable.reach('c.j')).toEqual({ min: -0x800n, max: 0x7fen, alignBytes: 2 });
    expect(riscvTable.reach('c.beqz')).toEqual({ min: -0x100n, max: 0xfen, alignBytes: 2 });
  });

  test('a row with a wrong width is refused', () => {
    const row = { mnemonic: 'x', pattern: '000 rd 0110011', syntax: 'rd', attributes: {} };
    expect(() => compileRow(row, { rd: { kind: 'register', width: 5 } })).toThrow(/widths add up/);
  });
});

describe('RISC-V decoding', () => {
  test.each([
    [0x0001, 2],
    [0x0013, 4],
    [0x001f, 6],
    [0x003f, 8],
    [0x007f, 10],
    [0x107f, 12],
    [0x607f, 22],
    [0x707f, 2],
  ])('parcel %p starts an instruction of %p bytes', (parcel, sizeBytes) => {
    expect(instructionBytes(parcel)).toBe(sizeBytes);
    const code = new Uint8Array(32);
    code[0] = parcel & 0xff;
    code[1] = parcel >> 8;
    expect(riscvIsa.decode(code, 0, 0n).sizeBytes).toBe(sizeBytes);
    if (sizeBytes > 4 || parcel === 0x707f) expect(riscvIsa.decode(code, 0, 0n).mnemonic).toBe('unknown');
  });

  test('never reads past the end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 9 }), fc.nat(9), (code, offset) => {
        const found = riscvIsa.decode(code, Math.min(offset, code.length), 0n);
        expect(found.sizeBytes).toBeGreaterThan(0);
        if (offset < code.length) expect(offset + found.sizeBytes).toBeLessThanOrEqual(code.length);
      }),
      { seed: 1, numRuns: 500 },
    );
    expect(riscvIsa.decode(Uint8Array.of(0x13, 0), 0, 0n)).toMatchObject({ mnemonic: 'unknown', sizeBytes: 2 });
  });

  test.each([
    [0x0000_00ef, 'call', 0x1000n],
    [0x7fff_f0ef, 'call', 0x10_0ffen],
    [0x8000_00ef, 'call', 0xffff_ffff_fff0_1000n],
    [0x0000_006f, 'jump', 0x1000n],
    [0xa001, 'jump', 0x1000n],
    [0xc011, 'branch', 0x1004n],
    [0x0003_1463, 'branch', 0x1008n],
    [0x0000_8067, 'return', null],
    [0x8082, 'return', null],
    [0x0002_8067, 'return', null],
    [0x8282, 'return', null],
    [0x0003_0067, 'indirect-jump', null],
    [0x8302, 'indirect-jump', null],
    [0x0042_8067, 'indirect-jump', null],
    [0x0000_80e7, 'indirect-call', null],
    [0x0002_82e7, 'indirect-call', null],
    [0x9302, 'indirect-call', null],
    [0x0000_0073, 'syscall', null],
    [0x0010_0073, 'trap', null],
    [0x9002, 'trap', null],
    [0x0000, 'trap', null],
    [0xc000_1073, 'trap', null],
    [0x0000_0013, 'next', null],
    [0x1020_0073, 'return', null],
  ])('flow of %p is %p', (value, kind, target) => {
    const { flow } = riscvIsa.decode(word(value), 0, 0x1000n);
    expect(flow).toEqual(target === null ? { kind } : { kind, target });
  });

  test.each([
    [0x0000_0013, 'nop'],
    [0x0001, 'c.nop'],
    [0x0000_8067, 'ret'],
    [0x8082, 'ret'],
    [0x0002_8067, 'jr t0'],
    [0x0003_0067, 'jr t1'],
    [0x0000_8513, 'mv a0,ra'],
    [0x8506, 'c.mv a0,ra'],
    [0x0050_0513, 'li a0,5'],
    [0x0000_006f, 'j 0x1000'],
    [0x0000_00ef, 'jal 0x1000'],
    [0x0000_0297, 'auipc t0,0x0'],
    [0x0002_82e7, 'jalr t0,0(t0)'],
    [0x0000_80e7, 'jalr ra'],
    [0x8000_80e7, 'jalr -2048(ra)'],
    [0xfe11_3c23, 'sd ra,-8(sp)'],
    [0xff81_3083, 'ld ra,-8(sp)'],
    [0x0003_1463, 'bnez t1,0x1008'],
    [0xff82_8513, 'addi a0,t0,-8'],
    [0xffc2_8513, 'addi a0,t0,-4'],
    [0xff02_b603, 'ld a2,-16(t0)'],
    [0xff02_b303, 'ld t1,-16(t0)'],
    [0x0010_0073, 'ebreak'],
    [0x06b6_252f, 'amoadd.w.aqrl a0,a1,(a2)'],
    [0x1405_b52f, 'lr.d.aq a0,(a1)'],
    [0x00c5_f553, 'fadd.s fa0,fa1,fa2'],
  ])('%p reads %p for people', (value, text) => {
    expect(riscvIsa.format(riscvIsa.decode(word(value), 0, 0x1000n))).toBe(text);
  });

  test('R-ENC-2: the assembler pseudo `call t0` is a pair through t1, not the hook pair', () => {
    const code = Uint8Array.from([0x17, 0x03, 0x00, 0x00, 0xe7, 0x02, 0x03, 0x00]);
    const texts = [0, 4].map((at) => riscvIsa.format(riscvIsa.decode(code, at, BigInt(at))));
    expect(texts).toEqual(['auipc t1,0x0', 'jalr t0,0(t1)']);
    expect(decodeAt(code, 4)?.operands).toEqual({ rd: 5, rs1: 6, imm: 0 });
  });
});
