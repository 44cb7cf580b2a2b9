/**
 * RISC-V relocation rows: names against readelf, application against what GNU ld wrote, inverse.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { riscvTable, T0 } from '../src/arch-riscv/isa.js';
import { riscvRelocations } from '../src/arch-riscv/relocs.js';
import { encodePair, pairReach } from '../src/arch-riscv/sites.js';
import type { ElfImage, ElfSection } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import {
  applyRelocation,
  type ByteOrders,
  checkRelocation,
  computeRelocation,
  extractRelocation,
  relocationPart,
} from '../src/relocs/apply.js';
import type { RelocationRow } from '../src/relocs/kinds.js';
import { fromWords } from './support/fake-view.js';
import { inFolder, random, RISCV_BINUTILS } from './support/riscv-tools.js';
import { describeWith, run } from './support/tools.js';

const ORDERS: ByteOrders = { data: 'little', code: 'little' };
const byName = (name: string): RelocationRow => {
  for (const row of riscvRelocations.values()) if (row.name === `R_RISCV_${name}`) return row;
  throw new Error(name);
};

/** Types that came after binutils 2.40. */
const NEWER: ReadonlySet<number> = new Set([12, 41, 59, 60, 61, 62, 63, 64, 65]);

type Near = (base: bigint, span: number) => string;

/** Instructions with a relocation of each kind, 40 times. */
function relocatedText(next: () => number, near: Near, text: bigint): string[] {
  const lines: string[] = ['.option norelax', '.text', 'text_start:'];
  for (let i = 0; i < 40; i++) {
    const far = near(text, 0x7000_0000);
    const low = near(0x4000_0000n, 0x3000_0000);
    const label = `.Lpc${i}`;
    lines.push(
      `lui a0,%hi(${low})`,
      `addi a0,a0,%lo(${low})`,
      `lui a1,%hi(${low}+0x7ff)`,
      `sd a2,%lo(${low}+0x7ff)(a1)`,
      `${label}: auipc a0,%pcrel_hi(${far})`,
      `addi a0,a0,%pcrel_lo(${label})`,
      `sw a1,%pcrel_lo(${label})(a0)`,
      `call ${far}`,
      `.reloc .,R_RISCV_CALL,${far}`,
      `auipc ra,0`,
      `jalr ra,0(ra)`,
      `call t0,${far}`,
      `tail ${far}`,
      `jal ra,${near(text, 0x4_0000)}`,
      `.reloc .,R_RISCV_BRANCH,${near(text + 0x800n, 0x400)}`,
      `.word 0x00b50063`,
      `.reloc .,R_RISCV_RVC_JUMP,${label}+${2 * (next() % 400)}`,
      `.half 0xa001`,
      `.reloc .,R_RISCV_RVC_BRANCH,${label}+${2 * (next() % 60)}`,
      `.half 0xc101`,
      `.reloc .,R_RISCV_RVC_LUI,${near(0x1_0000n, 0x3000)}`,
      `.half 0x6505`,
    );
  }
  return lines;
}

/** Words with a relocation of each kind, 20 times. */
function relocatedData(next: () => number, near: Near, data: bigint): string[] {
  const lines: string[] = [];
  lines.push('.data', '.balign 8');
  for (let i = 0; i < 20; i++) {
    const name = near(0x2000_0000n, 0x1000_0000);
    lines.push(`.quad ${name}`, `.word ${name}`, `.reloc .,R_RISCV_32_PCREL,${near(data, 0x1000_0000)}`, `.word 0`);
    for (const width of [8, 16, 32, 64]) {
      const directive = { 8: '.byte', 16: '.half', 32: '.word', 64: '.quad' }[width]!;
      lines.push(`.reloc .,R_RISCV_ADD${width},${name}`, `${directive} ${next() % 100}`);
      lines.push(`.reloc .,R_RISCV_SUB${width},${name}`, `${directive} ${next() % 100}`);
      if (width < 64) lines.push(`.reloc .,R_RISCV_SET${width},${name}`, `${directive} 0`);
    }
    lines.push(`.reloc .,R_RISCV_SET6,${name}`, `.byte 0xc5`, `.reloc .,R_RISCV_SUB6,${name}`, `.byte 0x9f`);
    // Two relocations at one place, as differences of labels have them.
    lines.push(`.reloc .,R_RISCV_ADD32,${name}`, `.reloc .,R_RISCV_SUB32,${near(0x2000_0000n, 0x1000)}`, '.word 7');
  }
  return lines;
}

/** What as and ld make of the lines; `symbols` are absolute ones, `name=value`. */
function linkedFrom(lines: readonly string[], symbols: readonly string[], text: bigint, data: bigint) {
  return inFolder((folder) => {
    writeFileSync(join(folder, 'x.s'), lines.join('\n') + '\n');
    run('riscv64-linux-gnu-as', ['-march=rv64gc', '-o', join(folder, 'x.o'), join(folder, 'x.s')]);
    run('riscv64-linux-gnu-ld', [
      '--no-relax',
      '-e',
      '0',
      `-Ttext=0x${text.toString(16)}`,
      `-Tdata=0x${data.toString(16)}`,
      ...symbols.map((each) => `--defsym=${each}`),
      '-o',
      join(folder, 'x'),
      join(folder, 'x.o'),
    ]);
    return {
      object: readElf(new Uint8Array(readFileSync(join(folder, 'x.o')))),
      linked: readElf(new Uint8Array(readFileSync(join(folder, 'x')))),
    };
  });
}

describeWith([...RISCV_BINUTILS, 'riscv64-linux-gnu-readelf'], 'RISC-V relocations against binutils', () => {
  test('every type has the name that readelf prints', () => {
    const count = 256;
    const listing = inFolder((folder) => {
      const object = join(folder, 'x.o');
      writeFileSync(join(folder, 'x.s'), `.data\n${'.word x\n'.repeat(count)}`);
      run('riscv64-linux-gnu-as', ['-o', object, join(folder, 'x.s')]);
      const bytes = new Uint8Array(readFileSync(object));
      const table = readElf(bytes).relocations[0]!;
      for (let row = 0; row < count; row++) bytes[table.fileOffset(row) + 8] = row;
      writeFileSync(object, bytes);
      return run('riscv64-linux-gnu-readelf', ['-rW', object]).toString();
    });
    const theirs = new Map<number, string>();
    for (const line of listing.split('\n')) {
      const match = /^[0-9a-f]{16} +[0-9a-f]{8}([0-9a-f]{8}) +(\S+)/.exec(line);
      if (match) theirs.set(Number.parseInt(match[1]!, 16), match[2]!);
    }
    expect(theirs.size).toBe(count);
    for (let type = 0; type < count; type++) {
      const name = theirs.get(type)!;
      const ours = riscvRelocations.get(type)?.name;
      if (NEWER.has(type)) expect(name).toMatch(/^unrecognized/);
      else if (ours !== undefined) expect(ours).toBe(name);
      else expect(name).toMatch(/^unrecognized/);
    }
  });

  test('R-ENC-1: contents after ld are what the rows make of the object', () => {
    const next = random(65);
    const text = 0x2_0000_0000n;
    const data = 0x2_1000_0000n;
    const symbols: string[] = [];
    let names = 0;
    /** A fresh absolute symbol near `base`, at most `span` away in either direction. */
    const near = (base: bigint, span: number): string => {
      const name = `t${names++}`;
      const away = BigInt((next() % span) - span / 2) * 2n;
      symbols.push(`${name}=0x${(base + away).toString(16)}`);
      return name;
    };
    const lines = [...relocatedText(next, near, text), ...relocatedData(next, near, data)];
    const { object, linked } = linkedFrom(lines, symbols, text, data);
    const addressOf = (section: ElfSection): bigint => linked.section(section.name)!.address;
    const values = new Map(symbols.map((each) => [each.split('=')[0]!, BigInt(each.split('=')[1]!)]));
    const seen = new Map<string, number>();
    for (const name of ['.text', '.data']) {
      const section = object.section(name)!;
      const bytes = object.contents(section).slice();
      for (const { row, offset, value } of valuesOf(object, section, addressOf, values, bytes)) {
        applyRelocation(row, bytes, offset, value, ORDERS);
        seen.set(row.name, (seen.get(row.name) ?? 0) + 1);
        // What was written reads back as far as the field holds it.
        if (row.rule !== 'add' && row.rule !== 'sub') {
          const back = extractRelocation(row, bytes, offset, ORDERS);
          expect(relocationPart(row, back)).toBe(relocationPart(row, value));
        }
      }
      const theirs = linked.contents(linked.section(name)!).subarray(0, bytes.length);
      expect(Buffer.from(bytes).equals(Buffer.from(theirs))).toBe(true);
    }
    const all =
      'HI20 LO12_I LO12_S PCREL_HI20 PCREL_LO12_I PCREL_LO12_S CALL CALL_PLT JAL BRANCH RVC_BRANCH RVC_JUMP RVC_LUI 64 32 32_PCREL ' +
      'ADD8 ADD16 ADD32 ADD64 SUB8 SUB16 SUB32 SUB64 SET8 SET16 SET32 SET6 SUB6';
    expect([...seen.keys()].sort()).toEqual(
      all
        .split(' ')
        .map((each) => `R_RISCV_${each}`)
        .sort(),
    );
  });
});

interface Placed {
  readonly row: RelocationRow;
  readonly offset: number;
  readonly value: bigint;
}

/**
 * The relocations of a section in order, each with its value. `bytes` is read for ADD and SUB while
 * it is being changed.
 */
function* valuesOf(
  image: ElfImage,
  section: ElfSection,
  addressOf: (section: ElfSection) => bigint,
  external: ReadonlyMap<string, bigint>,
  bytes: Uint8Array,
): Generator<Placed> {
  const table = image.relocationsOf(section)[0]!;
  const symbols = table.symbols!;
  const S = (row: number): bigint => {
    const symbol = table.symbol[row]!;
    const index = symbols.sectionIndex[symbol]!;
    if (index === 0) return external.get(symbols.name(symbol))!;
    return addressOf(image.sections[index]!) + symbols.value[symbol]!;
  };
  const value = (at: number): bigint | null => {
    const row = riscvRelocations.get(table.type[at]!)!;
    const offset = Number(table.offset[at]!);
    let paired: bigint | undefined;
    if (row.rule === 'pcrel-low') {
      const label = symbols.value[table.symbol[at]!]!;
      for (let other = 0; other < table.count; other++) {
        if (table.offset[other] === label && riscvRelocations.get(table.type[other]!)!.part === 'hi20') {
          paired = value(other) ?? undefined;
        }
      }
    }
    return computeRelocation(row, {
      symbol: S(at),
      addend: table.addend[at]!,
      place: addressOf(section) + table.offset[at]!,
      ...(paired === undefined ? {} : { paired }),
      ...(row.rule === 'add' || row.rule === 'sub' ? { held: extractRelocation(row, bytes, offset, ORDERS) } : {}),
    });
  };
  for (let at = 0; at < table.count; at++) {
    const row = riscvRelocations.get(table.type[at]!)!;
    const found = value(at);
    if (found !== null) yield { row, offset: Number(table.offset[at]!), value: found };
  }
}

describe('RISC-V relocation rows', () => {
  test('every type of the kernel objects and of the facts has a row', () => {
    const names =
      '64 ADD32 ADD64 BRANCH CALL_PLT JAL PCREL_HI20 PCREL_LO12_I PCREL_LO12_S RELAX RVC_BRANCH RVC_JUMP SUB32 SUB64 ' +
      'CALL 32 RELATIVE JUMP_SLOT COPY IRELATIVE HI20 LO12_I LO12_S GOT_HI20 TLS_GOT_HI20 TLS_GD_HI20 TPREL_HI20 ' +
      'TPREL_LO12_I TPREL_LO12_S TPREL_ADD TLS_DTPMOD64 TLS_DTPREL64 TLS_TPREL64 ALIGN RVC_LUI SUB6 SET6 SET8 SET16 ' +
      'SET32 32_PCREL PLT32 SET_ULEB128 SUB_ULEB128';
    for (const name of names.split(' ')) expect(byName(name).name).toBe(`R_RISCV_${name}`);
  });

  test.each([
    ['CALL_PLT', -0x8000_0800n, 0x7fff_f7fen],
    ['JAL', -0x10_0000n, 0xf_fffen],
    ['BRANCH', -0x1000n, 0xffen],
    ['RVC_JUMP', -0x800n, 0x7fen],
    ['RVC_BRANCH', -0x100n, 0xfen],
  ])('F-4: reach of %s', (name, min, max) => {
    const row = byName(name);
    for (const value of [min, max])
      expect(() => {
        checkRelocation(row, value);
      }).not.toThrow();
    for (const value of [min - 2n, max + 2n]) {
      expect(() => {
        checkRelocation(row, value);
      }).toThrow(expect.objectContaining({ code: 'relocation-out-of-range' }));
    }
    expect(() => {
      checkRelocation(row, min + 1n);
    }).toThrow(expect.objectContaining({ code: 'relocation-misaligned' }));
  });

  test.each(['HI20', 'PCREL_HI20', 'GOT_HI20'])('reach of %s: what the rounded upper part can hold', (name) => {
    const row = byName(name);
    for (const value of [-0x8000_0800n, 0x7fff_f7ffn])
      expect(() => {
        checkRelocation(row, value);
      }).not.toThrow();
    for (const value of [-0x8000_0801n, 0x7fff_f800n]) {
      expect(() => {
        checkRelocation(row, value);
      }).toThrow(expect.objectContaining({ code: 'relocation-out-of-range' }));
    }
  });

  test('CALL_PLT writes what encodePair writes, and keeps the registers (F-2: t0 stays)', () => {
    const row = byName('CALL_PLT');
    fc.assert(
      fc.property(fc.bigInt({ min: pairReach.min / 2n, max: pairReach.max / 2n }), (half) => {
        const value = 2n * half;
        const bytes = fromWords(encodePair(T0, 0n), 'little');
        applyRelocation(row, bytes, 0, value, ORDERS);
        expect(bytes).toEqual(fromWords(encodePair(T0, value), 'little'));
        expect(extractRelocation(row, bytes, 0, ORDERS)).toBe(value);
      }),
      { seed: 19, numRuns: 300 },
    );
  });

  test('insert then extract gives the value, bits outside the field stay, for every row with a field', () => {
    const next = random(3);
    for (const row of riscvRelocations.values()) {
      if (row.field.slices.length === 0) continue;
      for (let i = 0; i < 20; i++) {
        const bytes = Uint8Array.from({ length: 8 }, () => next() & 0xff);
        const before = bytes.slice();
        const bits = BigInt(next()) | (BigInt(next()) << 32n);
        // A value within reach: as many bits as the field and its part have, aligned.
        const wide = row.part === 'hi20' ? row.field.widthBits + 11 : row.field.widthBits - 1;
        const value = BigInt.asIntN(wide, bits) & -BigInt(row.alignBytes);
        applyRelocation(row, bytes, 0, value, ORDERS);
        const back = extractRelocation(row, bytes, 0, ORDERS);
        expect(relocationPart(row, back)).toBe(relocationPart(row, value));
        let mask = 0n;
        for (const { high, low, at } of row.field.slices) mask |= ((1n << BigInt(high - low + 1)) - 1n) << BigInt(at);
        for (let byte = 0; byte < 8; byte++) {
          const keep = ~Number((mask >> BigInt(8 * byte)) & 0xffn);
          expect(bytes[byte]! & keep).toBe(before[byte]! & keep);
        }
      }
    }
  });

  test('fields are those of the instruction rows', () => {
    const places = (mnemonic: string, name: string): unknown =>
      riscvTable.field(mnemonic, name).slices.map(({ high, low, at }) => ({ high, low, at }));
    expect(byName('JAL').field.slices).toEqual(places('jal', 'off'));
    expect(byName('BRANCH').field.slices).toEqual(places('bne', 'off'));
    expect(byName('RVC_BRANCH').field.slices).toEqual(places('c.bnez', 'off'));
    expect(byName('LO12_I').field.slices).toEqual(places('ld', 'imm'));
    expect(byName('LO12_S').field.slices).toEqual(places('sb', 'imm'));
  });
});
