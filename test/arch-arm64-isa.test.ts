/**
 * A64 rows against GNU objdump, Capstone 5.0.9 and keystone; encoders against the vectors of the
 * architecture.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  BL_ZERO,
  MOV_X9_X30,
  NOP,
  arm64Isa,
  arm64Table,
  branchTarget,
  decodeBitmask,
  encodeAdrp,
  encodeB,
  encodeBitmask,
  encodeBl,
  formatArm64,
} from '../src/arch-arm64/isa.js';
import { OBJDUMP, objdump, wordsOfRows } from './support/arm64-tools.js';
import { describeWith } from './support/tools.js';

/** Differences that are no faults, each with its reason. */
const TOLERATED: readonly { readonly reason: string; readonly test: (ours: string, theirs: string) => boolean }[] = [
  {
    reason: 'hints keep their names, objdump without aliases prints the number',
    test: (_ours, theirs) => theirs.startsWith('hint '),
  },
  {
    reason: 'system registers outside the short list print generically, objdump knows about 1,200 names',
    test: (ours, theirs) => {
      const generic = /\bs[23]_\d_c\d+_c\d+_\d/;
      const [before, after] = ours.split(generic);
      return after !== undefined && theirs.startsWith(before!) && theirs.endsWith(after) && !generic.test(theirs);
    },
  },
  {
    reason: 'ldpsw of one register twice, or over its own base: unpredictable, objdump refuses it (and only there)',
    test: (ours, theirs) => ours.startsWith('ldpsw') && theirs.endsWith('; undefined'),
  },
];

/** Differences that no tolerance explains; notes each tolerance that was needed. */
function differences(
  lines: readonly { readonly word: number; readonly address: bigint; readonly theirs: string }[],
  needed: Set<string>,
): string[] {
  const out: string[] = [];
  for (const { word, address, theirs } of lines) {
    const decoded = arm64Table.decode(word);
    const ours = decoded === null ? 'unknown' : formatArm64(decoded.row, decoded.operands, address);
    if (ours === theirs) continue;
    const reason = TOLERATED.find((each) => each.test(ours, theirs))?.reason;
    if (reason === undefined) out.push(`${word.toString(16)} ours '${ours}' theirs '${theirs}'`);
    else needed.add(reason);
  }
  return out;
}

const ALL_REASONS = TOLERATED.map((each) => each.reason).sort();

describe('A64 rows against committed vectors', () => {
  test('every row prints the text of test/vectors/arm64-objdump.txt', () => {
    const lines = readFileSync(new URL('../../test/vectors/arm64-objdump.txt', import.meta.url), 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.split('\t'))
      .map(([address, word, theirs]) => ({
        address: BigInt(address!),
        word: Number.parseInt(word!, 16),
        theirs: theirs!,
      }));
    expect(lines.length).toBeGreaterThan(1000);
    expect(differences(lines, new Set())).toEqual([]);
    const covered = new Set(lines.map((line) => arm64Table.decode(line.word)!.row));
    expect(arm64Table.rows.filter((row) => !covered.has(row)).map((row) => row.mnemonic)).toEqual([]);
  });
});

describeWith([OBJDUMP], 'A64 rows against objdump', () => {
  test('every row prints what objdump -M no-aliases prints', () => {
    const samples = wordsOfRows(40);
    const theirs = objdump(
      samples.map((each) => each.word),
      0x40_0000,
    );
    expect(theirs.length).toBe(samples.length);
    const needed = new Set<string>();
    const lines = samples.map(({ word }, i) => ({ word, address: 0x40_0000n + BigInt(i) * 4n, theirs: theirs[i]! }));
    expect(differences(lines, needed)).toEqual([]);
    // A tolerance that nothing needs any more has to go.
    expect([...needed].sort()).toEqual(ALL_REASONS);
  });

  test('every row is reached by a word of its own', () => {
    const reached = new Set(wordsOfRows(1).map((each) => each.mnemonic));
    expect(arm64Table.rows.map((each) => each.mnemonic).filter((name) => !reached.has(name))).toEqual([]);
  });

  test('pc-relative operands at a kernel address print all 64 bits', () => {
    const texts = [0x9400_0040, 0x17ff_ffc0, 0x5400_0040, 0xb000_0000, 0x1000_0020, 0x5800_0040].map((word) => {
      const decoded = arm64Table.decode(word)!;
      return formatArm64(decoded.row, decoded.operands, 0xffff_8000_0801_0ffcn);
    });
    expect(texts).toEqual([
      'bl 0xffff8000080110fc',
      'b 0xffff800008010efc',
      'b.eq 0xffff800008011004',
      'adrp x0, 0xffff800008011000',
      'adr x0, 0xffff800008011000',
      'ldr x0, 0xffff800008011004',
    ]);
  });
});

describe('A64 rows', () => {
  test('R-ENC-1: encode of the decoded operands gives the word back', () => {
    for (const { word } of wordsOfRows(8)) {
      const decoded = arm64Table.decode(word)!;
      expect(arm64Table.encode(decoded.row.mnemonic, decoded.operands)).toBe(word);
    }
  });

  test('decode of any word never throws and says 4 bytes', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 4, maxLength: 4 }),
        fc.bigInt({ min: 0n, max: (1n << 64n) - 4n }),
        (code, at) => {
          const instruction = arm64Isa.decode(code, 0, at & ~3n);
          expect(instruction.sizeBytes).toBe(4);
          expect(arm64Isa.format(instruction).length).toBeGreaterThan(0);
        },
      ),
      { seed: 40, numRuns: 2000 },
    );
  });

  test('the end of the code is unknown, not an error', () => {
    expect(arm64Isa.decode(Uint8Array.of(0x1f, 0x20, 0x03), 0, 0n)).toMatchObject({
      mnemonic: 'unknown',
      sizeBytes: 3,
    });
  });

  test('flow of each branch', () => {
    const flow = (word: number): unknown => {
      const bytes = new Uint8Array(4);
      new DataView(bytes.buffer).setUint32(0, word, true);
      return arm64Isa.decode(bytes, 0, 0x1000n).flow;
    };
    expect(flow(0x9400_0040)).toEqual({ kind: 'call', target: 0x1100n });
    expect(flow(0x17ff_ffff)).toEqual({ kind: 'jump', target: 0xffcn });
    expect(flow(0x54ff_ffe1)).toEqual({ kind: 'branch', target: 0xffcn });
    expect(flow(0xb400_0040)).toEqual({ kind: 'branch', target: 0x1008n });
    expect(flow(0x3600_0040)).toEqual({ kind: 'branch', target: 0x1008n });
    expect(flow(0xd61f_0200)).toEqual({ kind: 'indirect-jump' });
    expect(flow(0xd63f_0080)).toEqual({ kind: 'indirect-call' });
    expect(flow(0xd65f_03c0)).toEqual({ kind: 'return' });
    expect(flow(0xd65f_0bff)).toEqual({ kind: 'return' });
    expect(flow(0xd71f_0821)).toEqual({ kind: 'indirect-jump' });
    expect(flow(0xd400_0001)).toEqual({ kind: 'syscall' });
    expect(flow(0xd420_0020)).toEqual({ kind: 'trap' });
    expect(flow(0xd503_201f)).toEqual({ kind: 'next' });
    // pc-relative, but no branch
    expect(flow(0x5800_0040)).toEqual({ kind: 'next' });
  });

  test('logical immediates: 5334 values of 64 bits, 1302 of 32, each encodes back', () => {
    // The counts are the architecture's: sum over element sizes of (size - 1) * size combinations.
    for (const [width, count] of [
      [64, 5334],
      [32, 1302],
    ] as const) {
      const values = new Set<bigint>();
      for (let field = 0; field < 1 << 13; field++) {
        const value = decodeBitmask(field, width);
        if (value === null) continue;
        values.add(value);
        expect(decodeBitmask(encodeBitmask(value, width)!, width)).toBe(value);
      }
      expect(values.size).toBe(count);
      expect(encodeBitmask(0n, width)).toBeNull();
      expect(encodeBitmask((1n << BigInt(width)) - 1n, width)).toBeNull();
      expect(encodeBitmask(5n, width)).toBeNull();
    }
  });
});

describe('encoders (A-ENC-1)', () => {
  const encode = (mnemonic: string, operands: Readonly<Record<string, number>>): string =>
    arm64Table.encode(mnemonic, operands).toString(16);

  test('fixed words', () => {
    expect(NOP).toBe(0xd503_201f);
    expect(MOV_X9_X30).toBe(0xaa1e_03e9);
    expect(BL_ZERO).toBe(0x9400_0000);
    expect([1, 2, 3, 0].map((targets) => encode('bti', { targets }))).toEqual([
      'd503245f',
      'd503249f',
      'd50324df',
      'd503241f',
    ]);
    expect(encode('paciasp', {})).toBe('d503233f');
    expect(encode('br', { xn: 16 })).toBe('d61f0200');
    expect(encode('br', { xn: 17 })).toBe('d61f0220');
    expect(encode('blr', { xn: 4 })).toBe('d63f0080');
    expect(encode('ret', { xn: 9 })).toBe('d65f0120');
    expect(encode('ret', { xn: 10 })).toBe('d65f0140');
    expect(encode('and-imm', { sf: 1, rdsp: 11, rn: 30, bitmask: encodeBitmask(~7n, 64)! })).toBe('927df3cb');
    expect(encode('ldur-x', { xt: 11, base: 11, simm: -16 })).toBe('f85f016b');
    expect(encode('cbnz', { sf: 1, rt: 17, off: 8 })).toBe('b5000051');
    expect(encode('brk', { imm16: 4 })).toBe('d4200080');
    expect(encode('brk', { imm16: 6 })).toBe('d42000c0');
    expect(encode('stp-x-off', { xt: 9, xt2: 30, base: 31, pairimm: 0 })).toBe('a9007be9');
    expect(encode('ldp-x-off', { xt: 30, xt2: 9, base: 31, pairimm: 0 })).toBe('a94027fe');
  });

  test('R-ENC-1: bl at 0x10000000, both ends of its reach', () => {
    expect(encodeBl(0x1000_0000n, 0x17ff_fffcn).toString(16)).toBe('95ffffff');
    expect(encodeBl(0x1000_0000n, 0x0800_0000n).toString(16)).toBe('96000000');
    expect(encodeBl(0x1000_0000n, 0x1000_0100n).toString(16)).toBe('94000040');
    expect(() => encodeBl(0x1000_0000n, 0x1800_0000n)).toThrow(/outside/);
    expect(() => encodeBl(0x1000_0000n, 0x07ff_fffcn)).toThrow(/outside/);
    expect(() => encodeBl(0x1000_0000n, 0x1000_0002n)).toThrow();
    expect(encodeB(0x1000_0000n, 0x17ff_fffcn).toString(16)).toBe('15ffffff');
    expect(branchTarget(0x9600_0000, 0x1000_0000n)).toBe(0x0800_0000n);
    expect(branchTarget(0x95ff_ffff, 0x1000_0000n)).toBe(0x17ff_fffcn);
  });

  test('adrp: pages from its own page, +-4 GiB', () => {
    expect(encodeAdrp(0x1_0000n, 0x1234_5678n, 16).toString(16)).toBe('b00919b0');
    expect(encodeAdrp(0x1_0ff8n, 0x1234_5678n, 16).toString(16)).toBe('b00919b0');
    expect(encodeAdrp(0x7f00_0000n, 0x1000_abcn, 16).toString(16)).toBe('90c10010');
    // A naive encoder wraps this to 90800010.
    expect(() => encodeAdrp(0x4000_0000n, 0x1_4000_0000n, 16)).toThrow(/outside/);
    expect(() => encodeAdrp(0x4000_0000n, 0x1_3fff_ffffn, 16)).not.toThrow();
    expect(encodeAdrp(0x1_4000_0000n, 0x4000_0000n, 16).toString(16)).toBe('90800010');
    expect(() => encodeAdrp(0x1_4000_1000n, 0x4000_0000n, 16)).toThrow(/outside/);
  });
});
