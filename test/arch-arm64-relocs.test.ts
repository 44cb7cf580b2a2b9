/**
 * arm64 relocation rows against readelf's names and against the fields that GNU ld really fills;
 * stubs; the ABI.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import type { AddressReader } from '../src/machine/stubs.js';
import { arm64 } from '../src/arch-arm64/index.js';
import { encodeBl } from '../src/arch-arm64/isa.js';
import { encodeModulePlt, ERRATUM_843419_GAP, isSameModulePlt, MODULE_PLT_BYTES } from '../src/arch-arm64/stubs.js';
import { ElftraceError, hexBytes } from '../src/errors.js';
import { applyRelocation, computeRelocation, extractRelocation } from '../src/relocs/apply.js';
import type { FieldCodec } from '../src/relocs/kinds.js';
import { fromWords } from './support/fake-view.js';
import { describeWith, run } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'a64-relocs-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** Value bits of a field, straight from the slices: what the generic apply does backwards. */
function extract(field: FieldCodec, raw: bigint): bigint {
  let value = 0n;
  for (const { high, low, at } of field.slices) {
    const ones = (1n << BigInt(high - low + 1)) - 1n;
    value |= ((raw >> BigInt(at)) & ones) << BigInt(low);
  }
  return value;
}

function coveredBits(field: FieldCodec): bigint {
  return field.slices.reduce((sum, { high, low }) => sum | (((1n << BigInt(high - low + 1)) - 1n) << BigInt(low)), 0n);
}

describe('relocation rows', () => {
  test('slices of a field never share a bit of the word or of the value', () => {
    for (const row of arm64.relocations.values()) {
      let word = 0n;
      let value = 0n;
      for (const { high, low, at } of row.field.slices) {
        const ones = (1n << BigInt(high - low + 1)) - 1n;
        expect(word & (ones << BigInt(at))).toBe(0n);
        expect(value & (ones << BigInt(low))).toBe(0n);
        word |= ones << BigInt(at);
        value |= ones << BigInt(low);
      }
      expect(word >> BigInt(row.field.sizeBytes * 8)).toBe(0n);
    }
  });

  test('roles and branches', () => {
    expect(arm64.relocationRoles).toMatchObject({
      none: 0,
      word: 257,
      relative: 1027,
      companions: [],
      neutralInModule: { type: 0, addend: 'kept' },
      zeroInModules: false,
    });
    const branches = [...arm64.relocations.values()].filter((row) => row.branch);
    expect(branches.map((row) => [row.name, row.branch, row.stubAllowed ?? false])).toEqual([
      ['R_AARCH64_TSTBR14', 'conditional', false],
      ['R_AARCH64_CONDBR19', 'conditional', false],
      ['R_AARCH64_JUMP26', 'jump', true],
      ['R_AARCH64_CALL26', 'call', true],
    ]);
    expect(arm64.mcount.callRelocations).toEqual(new Map([[283, 0]]));
  });
});

describe('ranges', () => {
  const orders = { data: 'little', code: 'little' } as const;
  const apply = (type: number, word: number, value: bigint): string => {
    const bytes = fromWords([word], 'little');
    try {
      applyRelocation(arm64.relocations.get(type)!, bytes, 0, value, orders);
    } catch (error) {
      return error instanceof ElftraceError ? error.code : String(error);
    }
    return new DataView(bytes.buffer).getUint32(0, true).toString(16);
  };

  test('CALL26, ADR_PREL_PG_HI21, CONDBR19, TSTBR14: last value in, next one out', () => {
    expect(apply(283, 0x9400_0000, 0x7ff_fffcn)).toBe('95ffffff');
    expect(apply(283, 0x9400_0000, 0x800_0000n)).toBe('relocation-out-of-range');
    expect(apply(283, 0x9400_0000, -0x800_0000n)).toBe('96000000');
    expect(apply(283, 0x9400_0000, -0x800_0004n)).toBe('relocation-out-of-range');
    expect(apply(283, 0x9400_0000, 2n)).toBe('relocation-misaligned');
    expect(apply(275, 0x9000_0010, -0x1_0000_0000n)).toBe('90800010');
    expect(apply(275, 0x9000_0010, 0xffff_f000n)).toBe('f07ffff0');
    expect(apply(275, 0x9000_0010, 0x1_0000_0000n)).toBe('relocation-out-of-range');
    expect(apply(280, 0x5400_0000, 0xf_fffcn)).toBe('547fffe0');
    expect(apply(280, 0x5400_0000, 0x10_0000n)).toBe('relocation-out-of-range');
    expect(apply(279, 0x3600_0000, -0x8000n)).toBe('36040000');
    expect(apply(279, 0x3600_0000, 0x8000n)).toBe('relocation-out-of-range');
  });

  test('scaled loads want aligned values; lo12 drops the rest', () => {
    expect(apply(277, 0x9100_0000, 0x1234_5678n)).toBe('9119e000');
    expect(apply(286, 0xf940_0000, 0x1234_5678n)).toBe('f9433c00');
    expect(apply(286, 0xf940_0000, 0x1234_5674n)).toBe('relocation-misaligned');
  });
});

describeWith(['aarch64-linux-gnu-as', 'aarch64-linux-gnu-readelf'], 'relocation names', () => {
  test('every row has the name that readelf prints, and readelf knows no common type without a row', () => {
    const source = join(folder, 'names.s');
    const object = join(folder, 'names.o');
    // 1,100 relocations whose types are then replaced: 0 to 1,099 covers every type of the 64-bit
    // ABI.
    const count = 1100;
    writeFileSync(source, `.text\n.rept ${count}\n.xword sym\n.endr\n`);
    run('aarch64-linux-gnu-as', ['-o', object, source]);
    const bytes = new Uint8Array(readFileSync(object));
    const view = new DataView(bytes.buffer);
    const line = run('aarch64-linux-gnu-readelf', ['-SW', object])
      .toString()
      .split('\n')
      .find((each) => each.includes('.rela.text'))!;
    const offset = Number.parseInt(/RELA\s+[0-9a-f]+\s+([0-9a-f]+)/.exec(line)![1]!, 16);
    for (let type = 0; type < count; type++) view.setUint32(offset + 24 * type + 8, type, true);
    writeFileSync(object, bytes);
    const names = new Map<number, string>();
    for (const each of run('aarch64-linux-gnu-readelf', ['-rW', object]).toString().split('\n')) {
      const match = /^[0-9a-f]{16}\s+([0-9a-f]{16})\s+(R_AARCH64_\S+)/.exec(each);
      if (match) names.set(Number(BigInt(`0x${match[1]!}`) & 0xffff_ffffn), match[2]!);
    }
    // ILP32 types (below 256) belong to ELFCLASS32 objects, which are not served.
    const expected = [...names].filter(([type]) => type === 0 || type >= 256);
    expect(expected.length).toBeGreaterThan(100);
    /** Spellings of readelf that differ from the ABI document's. */
    const spelling = (name: string): string =>
      name
        .replace('R_AARCH64_TLS_DTPMOD64', 'R_AARCH64_TLS_DTPMOD')
        .replace('R_AARCH64_TLS_DTPREL64', 'R_AARCH64_TLS_DTPREL')
        .replace('R_AARCH64_TLS_TPREL64', 'R_AARCH64_TLS_TPREL');
    const differing = expected
      .filter(([type, name]) => type !== 256 && arm64.relocations.get(type)?.name !== spelling(name))
      .map(([type, name]) => `${type} readelf ${name} row ${arm64.relocations.get(type)?.name ?? 'none'}`);
    expect(differing).toEqual([]);
    const unknown = [...arm64.relocations.values()].filter((row) => !names.has(row.type)).map((row) => row.name);
    // readelf 2.40 has no name for these; lld and the ABI document have.
    expect(
      unknown.filter((name) => !['R_AARCH64_PLT32', 'R_AARCH64_GOTPCREL32', 'R_AARCH64_NULL'].includes(name)),
    ).toEqual([]);
  });
});

/** A relocation of each kind of field. */
const FIELDS = `.text
.globl _start
_start:
  adrp x0, target
  add x0, x0, :lo12:target
  ldrb w0, [x0, :lo12:target]
  ldrh w0, [x0, :lo12:target]
  ldr w0, [x0, :lo12:target]
  ldr x0, [x0, :lo12:target]
  ldr q0, [x0, :lo12:target]
  adr x0, near
  ldr x0, near
  b.eq near
  cbz x0, near
  tbz x0, #3, near
  b far
  bl far
  movz x0, #:abs_g3:target
  movk x0, #:abs_g2_nc:target
  movk x0, #:abs_g1_nc:target
  movk x0, #:abs_g0_nc:target
  .p2align 3
  .xword target + 4
  .xword target - .
  .word target - .
  .globl near
  .p2align 4
near: ret
.section .other,"ax"
.globl far
far: ret
.data
.p2align 4
.globl target
.space 0x560
target: .xword 0
`;

/** The object and the program, with the relocations that the linker applied kept. */
function linkedFields(): { readonly object: string; readonly program: string } {
  const source = join(folder, 'fields.s');
  const object = join(folder, 'fields.o');
  const program = join(folder, 'fields');
  writeFileSync(source, FIELDS);
  run('aarch64-linux-gnu-as', ['-o', object, source]);
  const script = join(folder, 'fields.ld');
  writeFileSync(
    script,
    'SECTIONS { . = 0x412340; .text : { *(.text) } . = 0x7123450; .other : { *(.other) } . = 0x12345000; .data : { *(.data) } }',
  );
  run('aarch64-linux-gnu-ld', ['-T', script, '-q', '-o', program, object]);
  return { object, program };
}

describeWith(
  ['aarch64-linux-gnu-as', 'aarch64-linux-gnu-ld', 'aarch64-linux-gnu-readelf', 'aarch64-linux-gnu-objcopy'],
  'fields as GNU ld fills them',
  () => {
    test('absolute, pc-relative, page, branch and movw relocations of a linked program', () => {
      const { object, program } = linkedFields();
      const raw = join(folder, 'text.bin');
      run('aarch64-linux-gnu-objcopy', ['-O', 'binary', '-j', '.text', program, raw]);
      const bytes = new Uint8Array(readFileSync(raw));
      const view = new DataView(bytes.buffer);
      const address = (name: string): bigint => {
        const line = run('aarch64-linux-gnu-readelf', ['-sW', program])
          .toString()
          .split('\n')
          .find((each) => each.trim().endsWith(` ${name}`))!;
        return BigInt(`0x${line.trim().split(/\s+/)[1]!}`);
      };
      const base = address('_start');
      const target = address('target');
      expect(target).toBe(0x1234_5560n);
      run('aarch64-linux-gnu-objcopy', ['-O', 'binary', '-j', '.text', object, raw]);
      const applied = new Uint8Array(readFileSync(raw));
      const orders = { data: 'little', code: 'little' } as const;
      let seen = 0;
      const types = new Set<string>();
      for (const each of run('aarch64-linux-gnu-readelf', ['-rW', program]).toString().split('\n')) {
        const match = /^([0-9a-f]{16})\s+([0-9a-f]{16})\s+(\S+)\s+([0-9a-f]{16})\s+\S+\s+([+-])\s+([0-9a-f]+)/.exec(
          each,
        );
        if (!match) continue;
        seen++;
        const P = BigInt(`0x${match[1]!}`);
        const row = arm64.relocations.get(Number(BigInt(`0x${match[2]!}`) & 0xffff_ffffn))!;
        const S = BigInt(`0x${match[4]!}`);
        const A = BigInt(`0x${match[6]!}`) * (match[5] === '-' ? -1n : 1n);
        types.add(row.name);
        const at = Number(P - base);
        const word = row.field.sizeBytes === 8 ? view.getBigUint64(at, true) : BigInt(view.getUint32(at, true));
        const value = computeRelocation(row, { symbol: S, addend: A, place: P });
        applyRelocation(row, applied, at, value!, orders);
        const held = extractRelocation(row, applied, at, orders);
        expect([row.name, BigInt.asUintN(64, held) & coveredBits(row.field)]).toEqual([
          row.name,
          value! & coveredBits(row.field),
        ]);
        expect(value).not.toBeNull();
        expect([row.name, extract(row.field, word)]).toEqual([row.name, value! & coveredBits(row.field)]);
        expect(value! % BigInt(row.alignBytes)).toBe(0n);
      }
      // Our relocations on the object's bytes give the program's bytes.
      expect(hexBytes(applied)).toBe(hexBytes(bytes));
      expect(seen).toBe(types.size + 1); // CONDBR19 twice: b.eq and cbz
      expect([...types].sort()).toEqual(
        [
          ...['ABS64', 'ADD_ABS_LO12_NC', 'ADR_PREL_LO21', 'ADR_PREL_PG_HI21', 'CALL26', 'CONDBR19', 'JUMP26'],
          ...['LD_PREL_LO19', 'LDST128_ABS_LO12_NC', 'LDST16_ABS_LO12_NC', 'LDST32_ABS_LO12_NC', 'LDST64_ABS_LO12_NC'],
          ...['LDST8_ABS_LO12_NC', 'MOVW_UABS_G0_NC', 'MOVW_UABS_G1_NC', 'MOVW_UABS_G2_NC', 'MOVW_UABS_G3'],
          ...['PREL32', 'PREL64', 'TSTBR14'],
        ]
          .map((name) => `R_AARCH64_${name}`)
          .sort(),
      );
    });
  },
);

/** Reads words of a few pieces of memory. */
function memory(pieces: readonly (readonly [bigint, Uint8Array])[]): AddressReader {
  const find = (address: bigint, size: number): DataView | null => {
    for (const [base, bytes] of pieces) {
      if (address >= base && address + BigInt(size) <= base + BigInt(bytes.length)) {
        return new DataView(bytes.buffer, bytes.byteOffset + Number(address - base), size);
      }
    }
    return null;
  };
  return {
    u8: (address) => find(address, 1)?.getUint8(0) ?? -1,
    u32: (address) => find(address, 4)?.getUint32(0, true) ?? -1,
    u64: (address) => find(address, 8)?.getBigUint64(0, true) ?? null,
  };
}

function target(code: AddressReader, address: bigint): readonly [string, bigint] | null {
  for (const form of arm64.stubForms) {
    const found = form.readTarget(code, address, null);
    if (found !== null) return [form.name, found];
  }
  return null;
}

describe('stubs', () => {
  const hexWords = (bytes: Uint8Array): string[] =>
    [0, 4, 8].map((at) => new DataView(bytes.buffer).getUint32(at, true).toString(16));

  test('A-PLT-3: entry words, the same at another place of the page', () => {
    for (const place of [0x1_0000n, 0x1_0ff8n]) {
      const bytes = encodeModulePlt(place, 0x1234_5678n);
      expect(bytes.length).toBe(MODULE_PLT_BYTES);
      expect(hexWords(bytes)).toEqual(['b00919b0', '9119e210', 'd61f0200']);
      expect(target(memory([[place, bytes]]), place)).toEqual(['arm64.veneer', 0x1234_5678n]);
    }
    const far = encodeModulePlt(0x7f00_0000n, 0x1000_abcn);
    expect(hexWords(far)).toEqual(['90c10010', '912af210', 'd61f0200']);
    expect(target(memory([[0x7f00_0000n, far]]), 0x7f00_0000n)).toEqual(['arm64.veneer', 0x1000_abcn]);
    expect(() => encodeModulePlt(0x4000_0000n, 0x1_4000_0000n)).toThrow(/outside/);
  });

  test('A-PLT-3: entries are equal when their targets are, not when their adrp words are', () => {
    const a = encodeModulePlt(0x1_0000n, 0x1234_5678n);
    const b = encodeModulePlt(0x5_0000n, 0x1234_5678n);
    const c = encodeModulePlt(0x5_0100n, 0x1234_6678n);
    const code = memory([
      [0x1_0000n, a],
      [0x5_0000n, b],
      [0x5_0100n, c],
    ]);
    expect(hexWords(a)[0]).not.toBe(hexWords(b)[0]);
    expect(isSameModulePlt(code, 0x1_0000n, 0x5_0000n)).toBe(true);
    expect(isSameModulePlt(code, 0x1_0000n, 0x5_0100n)).toBe(false);
    expect(isSameModulePlt(code, 0x9_0000n, 0x9_0000n)).toBe(false);
  });

  test('A-PLT-4: the last two words of a page', () => {
    const { blockBytes, lastBytes } = ERRATUM_843419_GAP;
    const isInGap = (place: number): boolean => place % blockBytes >= blockBytes - lastBytes;
    expect([0x1ff4, 0x1ff8, 0x1ffc, 0x2000].map(isInGap)).toEqual([false, true, true, false]);
  });

  test('literal jump, far veneer, PLT entry, each behind an optional bti c', () => {
    const literal = fromWords([0x5800_0050, 0xd61f_0200, 0x89ab_cdef, 0x0123_4567], 'little');
    const far = fromWords([0x5800_0090, 0x1000_0011, 0x8b11_0210, 0xd61f_0200, 0xffff_fffc, 0xffff_ffff], 'little');
    // adrp x16, +0x10000; ldr x17, [x16, #0x18]; add x16, x16, #0x18; br x17
    const plt = fromWords([0x9000_0090, 0xf940_0e11, 0x9100_6210, 0xd61f_0220], 'little');
    for (const [bytes, expected] of [
      [literal, ['arm64.absolute-thunk', 0x0123_4567_89ab_cdefn]],
      [far, ['arm64.far-veneer', 0x40_0000n]],
      [plt, ['arm64.plt', 0x41_0018n]],
    ] as const) {
      expect(target(memory([[0x40_0000n, bytes]]), 0x40_0000n)).toEqual(expected);
      const padded = new Uint8Array(bytes.length + 4);
      padded.set(fromWords([0xd503_245f], 'little'));
      padded.set(bytes, 4);
      const found = target(memory([[0x40_0000n, padded]]), 0x40_0000n);
      expect(found?.[0]).toBe(expected[0]);
    }
  });

  test('half a stub, another register, unmapped memory: no stub', () => {
    const good = [0xb009_19b0, 0x9119_e210, 0xd61f_0200];
    const variants = [
      [good[0]!, good[1]!],
      [good[0]!, good[1]!, 0xd61f_0220],
      [good[0]! + 1, good[1]!, good[2]!],
      [good[0]!, good[1]! + 1, good[2]!],
      [good[0]!, good[1]! | (1 << 22), good[2]!],
    ];
    for (const words of variants) expect(target(memory([[0x1000n, fromWords(words, 'little')]]), 0x1000n)).toBeNull();
    expect(target(memory([]), 0x1000n)).toBeNull();
  });
});

describeWith(
  ['aarch64-linux-gnu-gcc', 'aarch64-linux-gnu-ld', 'ld.lld', 'aarch64-linux-gnu-readelf', 'aarch64-linux-gnu-objcopy'],
  'stubs as linkers write them',
  () => {
    const source = `.text
.globl _start
.type _start,%function
_start: bl far
ret
.section .far,"ax",%progbits
.globl far
.type far,%function
far: ret
`;
    const cases = [
      ['aarch64-linux-gnu-ld', 0x1000_0000n, [], 'arm64.veneer'],
      ['aarch64-linux-gnu-ld', 0x2_0000_0000n, [], 'arm64.far-veneer'],
      ['ld.lld', 0x1000_0000n, [], 'arm64.absolute-thunk'],
      ['ld.lld', 0x1000_0000n, ['-pie'], 'arm64.veneer'],
    ] as const;
    for (const [linker, place, flags, form] of cases) {
      test(`${linker} ${flags.join(' ')} to 0x${place.toString(16)}: ${form}`, () => {
        const file = join(folder, 'stub');
        writeFileSync(`${file}.s`, source);
        run('aarch64-linux-gnu-gcc', ['-c', `${file}.s`, '-o', `${file}.o`]);
        writeFileSync(
          `${file}.ld`,
          `SECTIONS { . = 0x400000; .text : { *(.text) } . = 0x${place.toString(16)}; .far : { *(.far) } }`,
        );
        run(linker, [...flags, '-T', `${file}.ld`, '-o', file, `${file}.o`]);
        run('aarch64-linux-gnu-objcopy', ['-O', 'binary', '-j', '.text', file, `${file}.bin`]);
        const bytes = new Uint8Array(readFileSync(`${file}.bin`));
        const first = new DataView(bytes.buffer).getUint32(0, true);
        const stub = 0x40_0000n + BigInt(((first << 6) >> 6) * 4);
        expect(first).toBe(encodeBl(0x40_0000n, stub));
        expect(target(memory([[0x40_0000n, bytes]]), stub)).toEqual([form, place]);
      });
    }

    test('PLT of a shared object: the entry gives the slot that JUMP_SLOT names', () => {
      const file = join(folder, 'plt');
      writeFileSync(`${file}.s`, '.text\n.globl f\n.type f,%function\nf: bl outside\nret\n');
      run('aarch64-linux-gnu-gcc', ['-c', `${file}.s`, '-o', `${file}.o`]);
      for (const [linker, flags] of [
        ['aarch64-linux-gnu-ld', []],
        ['aarch64-linux-gnu-ld', ['-z', 'force-bti']],
        ['ld.lld', []],
        ['ld.lld', ['-z', 'force-bti']],
      ] as const) {
        run(linker, ['-shared', ...flags, '-o', file, `${file}.o`]);
        const slot = /^([0-9a-f]{16})\s+[0-9a-f]+\s+R_AARCH64_JUMP_SLOT/m.exec(
          run('aarch64-linux-gnu-readelf', ['-rW', file]).toString(),
        )![1]!;
        const pieces = ['.text', '.plt'].map((name): readonly [bigint, Uint8Array] => {
          const line = run('aarch64-linux-gnu-readelf', ['-SW', file])
            .toString()
            .split('\n')
            .find((each) => each.includes(` ${name} `))!;
          run('aarch64-linux-gnu-objcopy', ['-O', 'binary', '-j', name, file, `${file}.bin`]);
          return [BigInt(`0x${/PROGBITS\s+([0-9a-f]+)/.exec(line)![1]!}`), new Uint8Array(readFileSync(`${file}.bin`))];
        });
        const [place, text] = pieces[0]!;
        const call = new DataView(text.buffer).getUint32(0, true);
        const entry = place + BigInt(((call << 6) >> 6) * 4);
        expect(target(memory(pieces), entry)).toEqual(['arm64.plt', BigInt(`0x${slot}`)]);
      }
    });
  },
);
