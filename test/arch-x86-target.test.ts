/**
 * x86-64 relocation rows against as, ld and readelf; stub forms against what linkers make;
 * convention.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { AddressReader } from '../src/machine/stubs.js';
import { x86_64 } from '../src/arch-x86/index.js';
import { STT_SECTION } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { load } from '../src/program/program.js';
import { applyRelocation, computeRelocation, extractRelocation } from '../src/relocs/apply.js';
import { fromHex } from './support/fake-view.js';
import { describeWith, run } from './support/tools.js';

const ORDERS = { data: 'little', code: 'little' } as const;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'x86-target-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

function assemble(source: string, name: string): Uint8Array {
  writeFileSync(join(folder, `${name}.s`), source);
  run('as', ['--64', join(folder, `${name}.s`), '-o', join(folder, `${name}.o`)]);
  return new Uint8Array(readFileSync(join(folder, `${name}.o`)));
}

describe('relocation rows', () => {
  test('types 0 to 51 are all known, by unique names', () => {
    for (let type = 0; type <= 51; type++) expect(x86_64.relocations.get(type)?.type).toBe(type);
    const names = [...x86_64.relocations.values()].map((row) => row.name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.every((name) => name.startsWith('R_X86_64_'))).toBe(true);
  });

  test('roles', () => {
    const { relocationRoles: roles, relocations } = x86_64;
    expect([roles.none, roles.word, roles.relative].map((type) => relocations.get(type)?.name)).toEqual([
      'R_X86_64_NONE',
      'R_X86_64_64',
      'R_X86_64_RELATIVE',
    ]);
  });
});

describeWith(['as', 'ld.bfd', 'readelf'], 'relocation rows against binutils', () => {
  test('every type that the assembler takes has the number that readelf names', () => {
    // Types 43 to 51 are newer than binutils 2.40; 38 to 40 are x32 and MPX.
    const names = [...x86_64.relocations.values()]
      .filter((row) => row.type <= 37 || row.type === 41 || row.type === 42)
      .map((row) => row.name);
    const source = `.data\n${'.quad 0, 0\n'.repeat(names.length)}${names.map((name, i) => `.reloc ${16 * i}, ${name}, symbol\n`).join('')}`;
    assemble(source, 'names');
    const text = run('readelf', ['-rW', join(folder, 'names.o')]).toString();
    const seen = new Map<string, number>();
    for (const line of text.split('\n')) {
      const match = /^[0-9a-f]{16}\s+([0-9a-f]{16})\s+(R_X86_64_\w+)/.exec(line);
      if (match) seen.set(match[2]!, Number(BigInt(`0x${match[1]!}`) & 0xffff_ffffn));
    }
    for (const name of names) {
      expect([name, seen.get(name)]).toEqual([
        name,
        [...x86_64.relocations.values()].find((row) => row.name === name)?.type,
      ]);
    }
  });

  test('value, place and width are those of ld', () => {
    const fields = [
      ['64', 'R_X86_64_64', 'target + 0x1234'],
      ['pc32', 'R_X86_64_PC32', 'target - 4'],
      ['plt32', 'R_X86_64_PLT32', 'target - 4'],
      ['w32', 'R_X86_64_32', 'target + 8'],
      ['w32s', 'R_X86_64_32S', 'low - 8'],
      ['w16', 'R_X86_64_16', 'low + 2'],
      ['w8', 'R_X86_64_8', 'tiny + 3'],
      ['pc16', 'R_X86_64_PC16', 'pc16 + 0x30'],
      ['pc8', 'R_X86_64_PC8', 'pc8 - 0x30'],
      ['pc64', 'R_X86_64_PC64', 'target + 0x10'],
      ['size32', 'R_X86_64_SIZE32', 'target + 1'],
      ['size64', 'R_X86_64_SIZE64', 'target + 2'],
      ['gotoff', 'R_X86_64_GOTOFF64', 'target + 5'],
      ['gotpc', 'R_X86_64_GOTPC32', '_GLOBAL_OFFSET_TABLE_ + 6'],
    ] as const;
    let source =
      '.globl _start, target, low, tiny\n.set low, 0x7000\n.set tiny, 0x11\n.text\n_start: ret\ntarget: .zero 7\n';
    source += '.type target, @object\n.size target, 7\n.data\n';
    for (const [label, type, expression] of fields) {
      source += `.balign 16\n.globl ${label === '64' ? 'w64' : label}\n${label === '64' ? 'w64' : label}: .zero 16\n`;
      source += `.reloc ${label === '64' ? 'w64' : label}, ${type}, ${expression}\n`;
    }
    const object = readElf(assemble(source, 'values'));
    run('ld.bfd', ['-static', '-o', join(folder, 'values'), join(folder, 'values.o')]);
    const linked = readElf(new Uint8Array(readFileSync(join(folder, 'values'))));
    const addressOf = (name: string): bigint => linked.symbols.value[linked.symbols.find(name)]!;
    const data = linked.section('.data')!;
    const got = addressOf('_GLOBAL_OFFSET_TABLE_');
    let compared = 0;
    for (const table of object.relocationsOf(object.section('.data')!)) {
      for (let i = 0; i < table.count; i++) {
        const row = x86_64.relocations.get(table.type[i]!)!;
        const place = data.address + table.offset[i]!;
        const index = table.symbol[i]!;
        const isSection = (table.symbols!.info[index]! & 15) === STT_SECTION;
        // The only section symbol used is that of .data; without a symbol the addend is all.
        const symbol = index === 0 ? 0n : isSection ? data.address : addressOf(table.symbols!.name(index));
        const value = computeRelocation(row, { symbol, addend: table.addend[i]!, place, toc: got, symbolSize: 7n })!;
        const at = linked.fileOffsetOf(place);
        const mine = new Uint8Array(16);
        applyRelocation(row, mine, 0, value, ORDERS);
        expect([row.name, mine.slice(0, row.field.sizeBytes)]).toEqual([
          row.name,
          linked.bytes.slice(at, at + row.field.sizeBytes),
        ]);
        expect(BigInt.asUintN(row.field.widthBits, extractRelocation(row, mine, 0, ORDERS))).toBe(
          BigInt.asUintN(row.field.widthBits, value),
        );
        compared++;
      }
    }
    expect(compared).toBe(fields.length);
  });
});

/** Memory with code at 0x1000. */
function memory(code: string): AddressReader {
  const bytes = fromHex(code);
  const u8 = (address: bigint): number => bytes[Number(address - 0x1000n)] ?? -1;
  const word = (address: bigint, size: number): bigint | null => {
    let value = 0n;
    for (let i = size - 1; i >= 0; i--) {
      const byte = u8(address + BigInt(i));
      if (byte < 0) return null;
      value = (value << 8n) | BigInt(byte);
    }
    return value;
  };
  return { u8, u32: (address) => Number(word(address, 4) ?? -1n), u64: (address) => word(address, 8) };
}

describe('stub forms', () => {
  const slot = '7856341200000000';
  test.each([
    ['jmp *slot', `ff2502000000cccc${slot}`, 'x86-64.plt-got', 0x1234_5678n],
    ['endbr64; bnd jmp *slot', `f30f1efaf2ff2500000000${slot}`, 'x86-64.plt-got', 0x1234_5678n],
    ['endbr64; jmp *slot', `f30f1efaff2500000000${slot}`, 'x86-64.plt-got', 0x1234_5678n],
    ['jmp *(%rip) with the address behind it', `ff2500000000${slot}`, 'x86-64.plt-got', 0x1234_5678n],
    ['jmp rel32', 'e9fb0f0000', 'x86-64.jmp-rel32', 0x2000n],
    ['endbr64; bnd jmp rel32', 'f30f1efaf2e9f60f0000', 'x86-64.jmp-rel32', 0x2000n],
    ['movabs r11', `49bb${slot}41ffe3`, 'x86-64.movabs-jmp', 0x1234_5678n],
    ['movabs rax', `48b8${slot}ffe0`, 'x86-64.movabs-jmp', 0x1234_5678n],
  ])('%s', (_what, code, form, target) => {
    const found = x86_64.stubForms
      .map((each) => [each.name, each.readTarget(memory(code), 0x1000n, null)] as const)
      .filter(([, to]) => to !== null);
    expect(found).toEqual([[form, target]]);
  });

  test.each([
    'c3',
    '554889e5',
    'ff15020000009090',
    'e8fb0f0000',
    'f30f1efa',
    '',
    '49bb7856341200000000 41ffd3',
    'ff25',
  ])('%s is no stub', (code) => {
    for (const form of x86_64.stubForms) expect(form.readTarget(memory(code), 0x1000n, null)).toBeNull();
  });
});

describeWith(['gcc', 'ld.lld'], 'stubs that linkers make', () => {
  test.each([
    ['ld.bfd', ''],
    ['ld.bfd', '-z ibtplt'],
    ['ld.bfd', '-z now'],
    ['ld.lld', ''],
    ['ld.lld', '-z now'],
  ])('%s %s: a call of an imported mcount is a call of the profiling entry', (linker, options) => {
    writeFileSync(join(folder, 'f.c'), 'int f(int x) { return x + 1; } int g(int x) { return f(x) + 2; }');
    const flags = '-O2 -fPIC -fplt -fcf-protection -c';
    run('gcc', [...flags.split(' '), join(folder, 'f.c'), '-o', join(folder, 'f.o')]);
    assemble('.text\n.globl site\n.type site, @function\nsite: call mcount@PLT\nret\n', 'site');
    run(linker, [
      '-shared', ...options.split(' ').filter((each) => each !== ''), join(folder, 'f.o'), join(folder, 'site.o'),
      '-o', join(folder, 'f.so'),
    ]); // prettier-ignore
    const image = readElf(new Uint8Array(readFileSync(join(folder, 'f.so'))));
    const program = load(image, x86_64);
    const site = image.symbols.value[image.symbols.find('site')]!;
    const code = image.bytes;
    const at = image.fileOffsetOf(site);
    const displacement = new DataView(code.buffer, code.byteOffset).getInt32(at + 1, true);
    expect(program.callee(site + 5n + BigInt(displacement))).toBe('mcount');
    expect(program.callee(site)).toBe('other');
  });
});

describe('convention', () => {
  test('registers of the System V psABI and the system call', () => {
    const { abi } = x86_64;
    expect(abi.argumentRegisters).toEqual(['rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9']);
    expect(abi.syscall.arguments[3]).toBe('r10');
    expect([abi.linkRegister, abi.resultRegister, abi.localEntryOffset(0xff)]).toEqual([null, 'rax', 0]);
  });
});
