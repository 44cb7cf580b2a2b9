/**
 * Rows of PowerPC against objdump: every row on random operands, aliases, flow, prefixed
 * instructions, compiled code.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { createPpcIsa, ppc32Table, ppc64Table } from '../src/arch-ppc/isa.js';
import type { IsaTable } from '../src/isa/table.js';
import { fromHex, fromWords } from './support/fake-view.js';
import {
  type Dialects,
  differences,
  objdump,
  plain,
  PPC32_DIALECTS,
  PPC64_DIALECTS,
  textsOf,
  wordsOfRows,
} from './support/ppc-objdump.js';
import { describeWith } from './support/tools.js';

/** Lines of a vectors file: words and texts. */
function vectors(name: string): { readonly words: number[]; readonly texts: string[][] } {
  // Tests run from build/test; the files stay in the source tree.
  const text = readFileSync(new URL(`../../test/vectors/${name}`, import.meta.url), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return {
    words: lines.map((line) => Number.parseInt(line.slice(0, 8), 16)),
    texts: lines.map((line) => line.slice(9).split(' | ')),
  };
}

describe('PowerPC rows against recorded texts of objdump', () => {
  test.each([
    ['ppc-isa-32.txt', ppc32Table],
    ['ppc-isa-64.txt', ppc64Table],
  ] as const)('%s', (name, table) => {
    const { words, texts } = vectors(name);
    expect(words.length).toBeGreaterThan(2 * table.rows.length - 20);
    expect(differences(table, words, texts)).toEqual([]);
  });
});

function compare(table: IsaTable, dialects: Dialects, perRow: number): string[] {
  const words = wordsOfRows(table, perRow);
  return differences(table, words, textsOf(words, dialects));
}

describeWith(['powerpc64-linux-gnu-objdump'], 'PowerPC rows against objdump', () => {
  test('every row of the 64-bit table on random operands', () => {
    expect(compare(ppc64Table, PPC64_DIALECTS, 12)).toEqual([]);
  });

  test('every row of the 32-bit table on random operands', () => {
    expect(compare(ppc32Table, PPC32_DIALECTS, 12)).toEqual([]);
  });

  test('aliases print what objdump prints without raw', () => {
    const words = [
      0x60000000, 0x38600010, 0x3c608000, 0x7c832378, 0x4e800020, 0x4e800420, 0x4e800421, 0x7c0802a6, 0x7c0803a6,
      0x7d8903a6, 0x7c6902a6, 0x2c030005, 0x2f83fffc, 0x2c23fffc, 0x28030005, 0x7c032000, 0x7fa32040, 0x41820010,
      0x409e0010, 0x4d820020, 0x4c9e0020, 0x4200fff0, 0x7fe00008, 0x0fe00000, 0x5463103a, 0x5463e8fe, 0x5463063e,
      0x78630020, 0x786326e4, 0x7863e8c2, 0x7c8300d0, 0x7c6318f8, 0x7c0004ac, 0x48000010, 0x48000011, 0xe8410018,
    ];
    const theirs = objdump(words, 'powerpc:common64', 'power8');
    const ours = words.map((word, i) =>
      plain(ppc64Table.format(ppc64Table.decode(word)!, 0x1000_0000n + BigInt(4 * i))),
    );
    // objdump also knows `hwsync`; the raw name is kept.
    expect(ours.map((text) => text.replace('sync 0,0', 'hwsync'))).toEqual(theirs);
  });

  test('prefixed instructions of POWER10 are one unit of 8 bytes', () => {
    const isa = createPpcIsa(ppc64Table, 'big', 64);
    const units: [string, string][] = [
      ['04100000 e4600010', 'pld'],
      ['0403ffff f461fff8', 'pstd'],
      ['06100001 38600004', 'paddi'],
      ['06000000 80610008', 'plwz'],
      ['06000000 98610008', 'pstb'],
      ['07000000 00000000', 'pnop'],
    ];
    const code = fromHex(units.map(([bytes]) => bytes).join(''));
    const theirs = objdump(
      units.flatMap(([bytes]) => bytes.split(' ').map((word) => Number.parseInt(word, 16))),
      'powerpc:common64',
      'raw,power10',
    ).filter((text) => text !== '');
    units.forEach(([, name], i) => {
      const instruction = isa.decode(code, 8 * i, 0x1000_0000n + BigInt(8 * i));
      expect(instruction).toMatchObject({ sizeBytes: 8, mnemonic: name, flow: { kind: 'next' } });
      expect(isa.format(instruction)).toBe(theirs[i]);
    });
    expect(isa.decode(code.subarray(0, 4), 0, 0n)).toMatchObject({ mnemonic: 'unknown', sizeBytes: 4 });
  });

  test('every prefixed instruction that objdump knows has its name', () => {
    // Prefix types and subtypes, primary opcodes of the suffix, and the places of their extended
    // opcodes.
    const units: [number, number][] = [];
    const prefixes = [0x0400_0000, 0x0410_0000, 0x0500_0000, 0x0600_0000, 0x0610_0000, 0x0700_0000, 0x0790_0000];
    for (const prefix of prefixes) {
      for (let opcode = 0; opcode < 64; opcode++) {
        const extended = prefix >>> 24 === 5 ? [0, 1, 2, 3].map((n) => n << 4) : prefix >>> 20 === 0x79 ? Array.from({ length: 256 }, (_, n) => n << 3) : [0]; // prettier-ignore
        const targets = opcode === 32 && prefix >>> 24 === 5 ? [0, 1, 2, 3].map((n) => n << 17) : [0x0080_0000];
        for (const xo of extended) for (const rt of targets) units.push([prefix, ((opcode << 26) | rt | xo) >>> 0]);
      }
    }
    const theirs = new Set<string>();
    const ours = new Set<string>();
    const isa = createPpcIsa(ppc64Table, 'big', 64);
    const texts = objdump(units.flat(), 'powerpc:common64', 'raw,power10').filter((_, i) => i % 2 === 0);
    const wrong: string[] = [];
    units.forEach(([prefix, suffix], i) => {
      const text = texts[i]!;
      const known = !text.startsWith('.long');
      const instruction = isa.decode(fromWords([prefix, suffix], 'big'), 0, 0n);
      // binutils 2.40 writes the outer products with the dm of a later ISA.
      const name = text.split(/\s/)[0]!.replace('pmdmxv', 'pmxv');
      if (known) theirs.add(name);
      if (instruction.mnemonic !== 'prefixed') ours.add(instruction.mnemonic);
      if (known && instruction.mnemonic !== name) {
        wrong.push(`${prefix.toString(16)} ${suffix.toString(16)}: ${instruction.mnemonic} instead of ${text}`);
      }
    });
    expect(wrong).toEqual([]);
    expect(theirs.size).toBeGreaterThan(60);
    expect([...ours].filter((name) => !theirs.has(name))).toEqual([]);
  });

  test('a prefix at the end of the code, and on 32 bits', () => {
    const isa = createPpcIsa(ppc64Table, 'big', 64);
    const code = fromHex('0410000038600010');
    expect(isa.decode(code.subarray(0, 4), 0, 0n)).toMatchObject({ mnemonic: 'unknown', sizeBytes: 4 });
    expect(createPpcIsa(ppc32Table, 'big', 32).decode(code, 0, 0n).sizeBytes).toBe(4);
  });
});

describe('PowerPC flow', () => {
  const flow = (word: number, address = 0x1000n): unknown =>
    createPpcIsa(ppc64Table, 'big', 64).decode(fromWords([word], 'big'), 0, address).flow;

  test('calls, jumps, branches, returns and indirect jumps are told apart', () => {
    expect(flow(0x48000101)).toEqual({ kind: 'call', target: 0x1100n });
    expect(flow(0x4bffff00)).toEqual({ kind: 'jump', target: 0xf00n });
    expect(flow(0x48000103)).toEqual({ kind: 'call', target: 0x100n });
    expect(flow(0x4bfffffe)).toEqual({ kind: 'jump', target: 0xffff_ffff_ffff_fffcn });
    expect(flow(0x41820010)).toEqual({ kind: 'branch', target: 0x1010n });
    expect(flow(0x41a20010)).toEqual({ kind: 'branch', target: 0x1010n });
    expect(flow(0x42800010)).toEqual({ kind: 'jump', target: 0x1010n });
    expect(flow(0x41820011)).toEqual({ kind: 'call', target: 0x1010n });
    expect(flow(0x429f0005)).toEqual({ kind: 'next' });
    expect(flow(0x4e800020)).toEqual({ kind: 'return' });
    expect(flow(0x4d820020)).toEqual({ kind: 'next' });
    expect(flow(0x4e800420)).toEqual({ kind: 'indirect-jump' });
    expect(flow(0x4e800421)).toEqual({ kind: 'indirect-call' });
    expect(flow(0x4e800021)).toEqual({ kind: 'indirect-call' });
    expect(flow(0x44000002)).toEqual({ kind: 'syscall' });
    expect(flow(0x7fe00008)).toEqual({ kind: 'trap' });
    expect(flow(0x0b030000)).toEqual({ kind: 'next' });
    expect(flow(0x00000000)).toEqual({ kind: 'next' });
  });

  test('32-bit targets wrap at 4 GiB and 64-bit instructions are refused', () => {
    const isa = createPpcIsa(ppc32Table, 'big', 32);
    expect(isa.decode(fromWords([0x4bffff01], 'big'), 0, 0x10n).flow).toEqual({ kind: 'call', target: 0xffff_ff10n });
    for (const word of [0xe8410028, 0xf8410028, 0x78630020, 0x7c6300d2 | 0x1d2, 0x7c0004ac ^ 0x7c0004ac ^ 0x2c230000]) {
      expect(isa.decode(fromWords([word], 'big'), 0, 0n).mnemonic).toBe('unknown');
    }
  });

  test('the reach of bl and bc is what their fields hold', () => {
    expect(ppc64Table.reach('bl')).toEqual({ min: -0x200_0000n, max: 0x1ff_fffcn, alignBytes: 4 });
    expect(ppc64Table.reach('bc')).toEqual({ min: -0x8000n, max: 0x7ffcn, alignBytes: 4 });
  });
});
