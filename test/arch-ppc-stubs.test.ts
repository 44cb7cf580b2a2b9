/**
 * Stub forms, encoders and the ABIs of PowerPC: vectors of the specification, and what ld and lld
 * make.
 */
import { writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { elfV1Abi, elfV2Abi, ppc32Abi } from '../src/arch-ppc/abi.js';
import { ppc32, ppc64ElfV1, ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import { bl, branch, branchDisplacement, fromHaLo, haLo, isBl } from '../src/arch-ppc/stubs.js';
import type { Arch } from '../src/machine/arch.js';
import type { AddressReader } from '../src/machine/stubs.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import type { Address, Endian } from '../src/units.js';
import {
  assembleWith,
  compileWith,
  inFolder,
  linkWith,
  type PpcTarget,
  ppcTargets,
  SAMPLE,
} from './support/ppc-build.js';
import { describeWith, run } from './support/tools.js';

/** Memory of some words at an address, and 8-byte data at others. */
function memory(at: Address, words: readonly number[], data: ReadonlyMap<Address, bigint> = new Map()): AddressReader {
  const u32 = (address: Address): number => {
    const index = Number(address - at) / 4;
    return Number.isInteger(index) && index >= 0 && index < words.length ? words[index]! : -1;
  };
  return {
    u32,
    u8: () => -1,
    u64: (address) => {
      const known = data.get(address);
      if (known !== undefined) return known;
      const [high, low] = [u32(address), u32(address + 4n)];
      return high < 0 || low < 0 ? null : (BigInt(high) << 32n) | BigInt(low);
    },
  };
}

/** Target and form of the first stub form that fits. */
function follow(arch: Arch, code: AddressReader, address: Address, toc: Address | null): [string, Address] | null {
  for (const form of arch.stubForms) {
    const target = form.readTarget(code, address, toc);
    if (target !== null) return [form.name, target];
  }
  return null;
}

const halves = (value: bigint): readonly number[] => [Number(value >> 32n), Number(value & 0xffff_ffffn)];

describe('PowerPC encoders', () => {
  test('P-ENC-1 bl reaches -0x2000000 … +0x1fffffc', () => {
    expect(bl(0x1000_0000n, 0x11ff_fffcn)).toBe(0x49ff_fffd);
    expect(bl(0x1000_0000n, 0x0e00_0000n)).toBe(0x4a00_0001);
    expect(bl(0x1000_0000n, 0x0fff_fff0n)).toBe(0x4bff_fff1);
    expect(branch(0x1000_0000n, 0x11ff_fffcn)).toBe(0x49ff_fffc);
    expect(branch(0x1000_0000n, 0x0e00_0000n)).toBe(0x4a00_0000);
    for (const target of [0x1200_0000n, 0x0dff_fffcn, 0x1000_0002n]) {
      expect(() => bl(0x1000_0000n, target)).toThrow(/^bl: .* is outside \[-0x2000000, 0x1fffffc\]$/);
    }
  });

  test('P-ENC-2 bl is told from bla, b and other words; targets come back', () => {
    for (const word of [0x49ff_fffd, 0x4a00_0001, 0x4bff_fff1]) expect(isBl(word)).toBe(true);
    for (const word of [0x4800_0003, 0x4800_0000, 0x4c00_0001, -1, 0x6000_0000]) expect(isBl(word)).toBe(false);
    expect(branchDisplacement(0x49ff_fffd)).toBe(0x1ff_fffc);
    expect(branchDisplacement(0x4a00_0001)).toBe(-0x200_0000);
    expect(branchDisplacement(0x4bff_fff1)).toBe(-0x10);
  });

  test('P-ENC-3 P-OFF-3 rounded halves', () => {
    expect(haLo(-0x7f00n)).toEqual({ ha: 0, lo: 0x8100 });
    expect(haLo(0x1234_8000n)).toEqual({ ha: 0x1235, lo: 0x8000 });
    expect(haLo(0xc001_8000n)).toEqual({ ha: 0xc002, lo: 0x8000 });
    expect(fromHaLo(0x1235, -0x8000)).toBe(0x1234_8000n);
    expect(fromHaLo(0, -0x7f00)).toBe(-0x7f00n);
  });
});

describe('PowerPC stub forms', () => {
  test('P-OFF-3 P-STUB-1 the module stub of 2008 reads its descriptor through r2', () => {
    const stub = 0xd000_0000_0001_0100n;
    const toc = 0xd000_0000_0001_8000n;
    const words = [0x3d82_0000, 0x398c_8100, 0xf841_0028, 0xe96c_0020, 0xe84c_0028, 0x7d69_03a6, 0x4e80_0420];
    const data = new Map([[0xd000_0000_0001_0120n, 0xc000_0000_0000_1234n]]);
    for (const known of [toc, null]) {
      expect(follow(ppc64ElfV1, memory(stub, words, data), stub, known)).toEqual([
        'ppc64.module-2008',
        0xc000_0000_0000_1234n,
      ]);
    }
    // One bit off in any word: not this stub (the halves of the first two are data).
    for (let i = 2; i < words.length; i++) {
      const broken = words.map((word, k) => (k === i ? (word ^ 0x0020_0000) >>> 0 : word));
      expect(follow(ppc64ElfV1, memory(stub, broken, data), stub, toc)).toBeNull();
    }
  });

  test('module stubs of later kernels carry a magic word and the target', () => {
    const target = 0xc000_0000_0012_3450n;
    const at = 0x1_0000n;
    const v1 = [0x3d62_0001, 0x396b_0000, 0xf841_0028, 0xe98b_0020, 0xe84b_0028, 0x7d89_03a6, 0x4e80_0420, 0x7374_7562];
    const v2 = [0x3d62_0001, 0x396b_0000, 0xf841_0018, 0xe98b_0020, 0x7d89_03a6, 0x4e80_0420, 0, 0x7374_7562];
    const kernel = [0xe98d_0010, 0x3d8c_0001, 0x398c_8000, 0x7d89_03a6, 0x4e80_0420, 0, 0, 0x7374_7562];
    for (const words of [v1, v2]) {
      expect(follow(ppc64ElfV2Le, memory(at, [...words, ...halves(target)]), at, null)).toEqual([
        'ppc64.module',
        target,
      ]);
      expect(follow(ppc64ElfV2Le, memory(at, [...words.slice(0, 7), 0, ...halves(target)]), at, null)).toBeNull();
    }
    expect(follow(ppc64ElfV2Le, memory(at, [...kernel, ...halves(target)]), at, 0n)).toEqual([
      'ppc64.module-ftrace',
      target,
    ]);
    // P-NEW-3: reserved stubs of the core have no data; the target is relative to the kernel's TOC.
    expect(follow(ppc64ElfV2Le, memory(at, kernel.slice(0, 5)), at, 0xc000_0000_0100_0000n)).toEqual([
      'ppc64.module-ftrace',
      0xc000_0000_0100_8000n,
    ]);
    expect(follow(ppc64ElfV2Le, memory(at, kernel.slice(0, 5)), at, null)).toBeNull();
  });

  test('P-OFF-3 32-bit stubs: r11 (2008) or r12 (later), never a mixture', () => {
    const at = 0xd100_0000n;
    const r11 = [0x3d60_c002, 0x396b_8000, 0x7d69_03a6, 0x4e80_0420];
    const r12 = [0x3d80_c002, 0x398c_8000, 0x7d89_03a6, 0x4e80_0420];
    expect(follow(ppc32, memory(at, r11), at, null)).toEqual(['ppc32.far-r11', 0xc001_8000n]);
    expect(follow(ppc32, memory(at, r12), at, null)).toEqual(['ppc32.far-r12', 0xc001_8000n]);
    for (let mask = 1; mask < 7; mask++) {
      const mixed = r11.map((word, i) => ((mask >> i) & 1 ? r12[i]! : word));
      expect(follow(ppc32, memory(at, mixed), at, null)).toBeNull();
    }
  });

  test('far and program-counter relative forms', () => {
    const at = 0x1000_0000n;
    const absolute = [0x3d80_1122, 0x618c_3344, 0x798c_07c6, 0x658c_5566, 0x618c_7788, 0x7d89_03a6, 0x4e80_0420];
    expect(follow(ppc64ElfV1, memory(at, absolute), at, null)).toEqual(['ppc64.absolute', 0x1122_3344_5566_7788n]);
    const notoc = [0x7d88_02a6, 0x429f_0005, 0x7d68_02a6, 0x7d88_03a6, 0x398b_0100, 0x4800_00f4];
    expect(follow(ppc64ElfV2Le, memory(at, notoc), at, null)).toEqual(['ppc64.notoc', 0x1000_0108n]);
    const toc = [0xf841_0018, 0x3c42_0001, 0x3842_8000, 0x4bff_fff4];
    expect(follow(ppc64ElfV2Le, memory(at, toc), at, null)).toEqual(['ppc64.long-branch-toc', at]);
    const lld = [0x3d82_0001, 0xe98c_8010, 0x7d89_03a6, 0x4e80_0420];
    const slot = new Map([[0x2000_8010n, 0x1400_0000n]]);
    expect(follow(ppc64ElfV2Le, memory(at, lld, slot), at, 0x2000_0000n)).toEqual(['ppc64.plt-branch', 0x1400_0000n]);
    // Nothing in the slot yet: the slot itself, for whoever knows its dynamic relocation.
    expect(follow(ppc64ElfV2Le, memory(at, lld), at, 0x2000_0000n)).toEqual(['ppc64.plt-branch', 0x2000_8010n]);
    expect(follow(ppc64ElfV2Le, memory(at, lld), at, null)).toBeNull();
  });
});

function readerOf(image: ElfImage): AddressReader {
  const { endian } = image.header;
  const bytesAt = (address: Address, size: number): DataView | null => {
    const offset = image.fileOffsetOf(address);
    if (offset < 0 || offset + size > image.bytes.length) return null;
    return new DataView(image.bytes.buffer, image.bytes.byteOffset + offset, size);
  };
  const little = (endian satisfies Endian) === 'little';
  return {
    u8: (address) => bytesAt(address, 1)?.getUint8(0) ?? -1,
    u32: (address) => bytesAt(address, 4)?.getUint32(0, little) ?? -1,
    u64: (address) => bytesAt(address, 8)?.getBigUint64(0, little) ?? null,
  };
}

/** Symbols of the stubs that ld names on request: `00000018.plt_call.outside` -> address. */
function stubSymbols(image: ElfImage, kind: string): Map<string, Address> {
  const found = new Map<string, Address>();
  for (let i = 1; i < image.symbols.count; i++) {
    const match = new RegExp(`\\.${kind}\\.([A-Za-z_]\\w*)`).exec(image.symbols.name(i));
    if (match) found.set(match[1]!, image.symbols.value[i]!);
  }
  return found;
}

function tocOf(image: ElfImage): Address | null {
  const got = image.section('.got');
  return got ? got.address + 0x8000n : null;
}

const LD = ['powerpc-linux-gnu-ld', 'powerpc64-linux-gnu-ld', 'powerpc64le-linux-gnu-ld', 'powerpc64le-linux-gnu-gcc'];

describeWith(LD, 'PowerPC stubs of ld', () => {
  const shared = (target: PpcTarget, flags: readonly string[], extra: readonly string[] = []): ElfImage =>
    readElf(linkWith(target, [compileWith(target, 'gcc', flags)], ['-shared', '--emit-stub-syms', ...extra]));

  /** The slot a stub leads to carries the dynamic relocation of the stub's symbol. */
  function expectSlots(arch: Arch, image: ElfImage, kind: string, form: string): void {
    const stubs = stubSymbols(image, kind);
    expect(stubs.size).toBeGreaterThan(0);
    for (const [name, address] of stubs) {
      const [found, slot] = follow(arch, readerOf(image), address, tocOf(image))!;
      expect(found).toBe(form);
      const names = image.relocations.flatMap((table) =>
        Array.from({ length: table.count }, (_, row) =>
          table.offset[row] === slot && table.symbols ? [table.symbols.name(table.symbol[row]!)] : [],
        ).flat(),
      );
      expect(names).toEqual([name]);
    }
  }

  test('plt_call of ELFv1, ELFv2 and POWER10 lead to the slot of the callee', () => {
    expectSlots(ppc64ElfV1, shared(ppcTargets.v1, ['-fPIC']), 'plt_call', 'ppc64.plt-call-v1');
    expectSlots(ppc64ElfV2Le, shared(ppcTargets.v2le, ['-fPIC']), 'plt_call', 'ppc64.plt-call-v2');
    const power10 = shared(ppcTargets.v2le, ['-fPIC', '-mcpu=power10'], ['--power10-stubs']);
    expectSlots(ppc64ElfV2Le, power10, 'plt_call', 'ppc64.pcrel-plt-call');
  });

  test('plt_pic32 with the GOT pointer in r30', () => {
    const object = compileWith(ppcTargets.ppc32, 'gcc', ['-fpic']);
    const image = readElf(linkWith(ppcTargets.ppc32, [object], ['-shared', '--secure-plt', '--emit-stub-syms']));
    const stubs = stubSymbols(image, 'plt_pic32');
    expect(stubs.size).toBeGreaterThan(0);
    const got = image.symbols.value[image.symbols.find('_GLOBAL_OFFSET_TABLE_')]!;
    for (const [name, address] of stubs) {
      const [form, slot] = follow(ppc32, readerOf(image), address, got)!;
      expect(form).toBe('ppc32.plt-pic');
      const table = image.relocations.find((each) => each.offset.includes(slot))!;
      expect(table.symbols!.name(table.symbol[table.offset.indexOf(slot)]!)).toBe(name);
      expect(follow(ppc32, readerOf(image), address, null)).toBeNull();
    }
  });

  test('plt_branch, long_branch and the 32-bit far branch lead to a far function', () => {
    const far = `.section .far,"ax"\n .globl outside,_start\noutside: blr\n_start: blr\n`;
    const flags = ['-e', '_start', '-Ttext=0x10000000', '--section-start=.far=0x14000000', '--emit-stub-syms'];
    const object32 = compileWith(ppcTargets.ppc32, 'gcc', []);
    const image32 = readElf(linkWith(ppcTargets.ppc32, [object32, assembleWith(ppcTargets.ppc32, far)], flags));
    const call = Number(image32.symbols.value[image32.symbols.find('weakly')]!);
    expect(call).toBeGreaterThan(0);
    // The stub has no symbol on 32 bits: it is where the branch of `weakly` leads.
    const reader = readerOf(image32);
    const targets: bigint[] = [];
    for (let at = BigInt(call); reader.u32(at) !== 0x4e80_0020; at += 4n) {
      const word = reader.u32(at);
      if (word >>> 26 === 18) targets.push(at + BigInt(branchDisplacement(word)));
      if (word >>> 26 === 18 && !isBl(word)) break;
    }
    expect(targets.map((target) => follow(ppc32, reader, target, null))).toContainEqual([
      'ppc32.far-r12',
      0x1400_0000n,
    ]);

    const object = compileWith(ppcTargets.v2le, 'gcc', []);
    const farV2 = assembleWith(ppcTargets.v2le, `.abiversion 2\n.section .got,"aw"\n.quad 0\n${far}`);
    const image = readElf(linkWith(ppcTargets.v2le, [object, farV2], flags));
    for (const address of stubSymbols(image, 'plt_branch').values()) {
      expect(follow(ppc64ElfV2Le, readerOf(image), address, tocOf(image))).toEqual(['ppc64.plt-branch', 0x1400_0000n]);
    }
    expect(stubSymbols(image, 'plt_branch').size).toBe(1);
  });

  test('POWER10 code that calls code with a TOC', () => {
    const caller = compileWith(
      ppcTargets.v2le,
      'gcc',
      ['-mcpu=power10'],
      'extern int counts(int); int _start(int x) { return counts(x) + 1; }',
    );
    const callee = compileWith(
      ppcTargets.v2le,
      'gcc',
      [],
      'int shared; int counts(int x) { shared += x; return shared; }',
    );
    for (const [stubs, form] of [
      ['--no-power10-stubs', 'ppc64.notoc'],
      ['--power10-stubs', 'ppc64.pcrel-branch'],
    ] as const) {
      const image = readElf(linkWith(ppcTargets.v2le, [caller, callee], ['-e', '_start', '--emit-stub-syms', stubs]));
      const address = [...stubSymbols(image, 'long_branch').values()][0]!;
      const counts = image.symbols.value[image.symbols.find('counts')]!;
      expect(follow(ppc64ElfV2Le, readerOf(image), address, tocOf(image))).toEqual([form, counts]);
    }
  });

  test('long_branch with another TOC leads to the local entry', () => {
    // Two objects whose small-model TOCs cannot be one: 5000 entries each.
    const unit = (name: string, callee: string): Uint8Array => {
      const externs = Array.from({ length: 5000 }, (_, i) => `extern int ${name}_${i};`).join('\n');
      const sum = Array.from({ length: 5000 }, (_, i) => `${name}_${i}`).join(' + ');
      const defines = Array.from({ length: 5000 }, (_, i) => `int ${name}_${i};`).join('\n');
      const code = `${externs}\nextern int ${callee}(int);\nint ${name}(int x) { return x ? ${callee}(x - 1) + 1 : *&${sum}; }\n${defines}`;
      return compileWith(ppcTargets.v2le, 'gcc', ['-O1', '-mcmodel=small', '-fPIC'], code);
    };
    const objects = [unit('one', 'two'), unit('two', 'one')];
    const start = compileWith(
      ppcTargets.v2le,
      'gcc',
      [],
      'extern int one(int); int _start(void) { return one(3) + 1; }',
    );
    const flags = ['-e', '_start', '--emit-stub-syms', '--no-toc-optimize'];
    const image = readElf(linkWith(ppcTargets.v2le, [start, ...objects], flags));
    const stubs = stubSymbols(image, 'long_branch');
    expect(stubs.size).toBeGreaterThan(0);
    for (const [name, address] of stubs) {
      const symbol = image.symbols.find(name);
      const local = BigInt(elfV2Abi.localEntryOffset(image.symbols.other[symbol]!));
      expect(local).toBe(8n);
      expect(follow(ppc64ElfV2Le, readerOf(image), address, tocOf(image))).toEqual([
        'ppc64.long-branch-toc',
        image.symbols.value[symbol]! + local,
      ]);
    }
  });
});

describe('PowerPC ABIs', () => {
  test('P-FN-2 local entry offsets by st_other', () => {
    expect([0, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0].map((other) => elfV2Abi.localEntryOffset(other))).toEqual([
      0, 0, 4, 8, 16, 32, 64,
    ]);
    // Visibility in the lowest bits does not matter; the other ABIs have no local entries.
    expect(elfV2Abi.localEntryOffset(0x62)).toBe(8);
    expect([ppc32Abi, elfV1Abi].map((abi) => abi.localEntryOffset(0x60))).toEqual([0, 0]);
  });

  test('P-FN-3 argument registers and system calls', () => {
    for (const abi of [ppc32Abi, elfV1Abi, elfV2Abi]) {
      expect(abi.argumentRegisters).toEqual(['r3', 'r4', 'r5', 'r6', 'r7', 'r8', 'r9', 'r10']);
      expect(abi.syscall).toMatchObject({ number: 'r0', failure: 'cr0-so' });
    }
  });
});

describeWith(['powerpc64-linux-gnu-gcc', 'powerpc64-linux-gnu-objdump'], 'ELFv1 descriptors', () => {
  /** objdump makes up `.f` symbols for descriptors: address of code by function. */
  function dotSymbols(bytes: Uint8Array): Map<string, bigint> {
    const text = inFolder((path) => {
      writeFileSync(path('a'), bytes);
      return run('powerpc64-linux-gnu-objdump', ['-d', path('a')]).toString();
    });
    return new Map(
      [...text.matchAll(/^([0-9a-f]+) <\.([a-z_]\w*)>:$/gm)].map((match) => [match[2]!, BigInt(`0x${match[1]!}`)]),
    );
  }

  test.each([
    ['relocatable', []],
    ['executable', ['-e', 'leaf', '--unresolved-symbols=ignore-all']],
    ['shared', ['-shared']],
    ['pie', ['-pie', '-e', 'leaf', '--unresolved-symbols=ignore-all']],
  ] as const)('P-FN-1 %s: a function symbol leads through .opd to its code', (kind, flags) => {
    const object = compileWith(ppcTargets.v1, 'gcc', ['-fPIC'], SAMPLE);
    const bytes = kind === 'relocatable' ? object : linkWith(ppcTargets.v1, [object], flags);
    const image = readElf(bytes);
    const expected = dotSymbols(bytes);
    let seen = 0;
    for (const name of ['square', 'leaf', 'counts', 'calls', 'weakly', 'choose', 'mixed']) {
      const symbol = image.symbols.find(name);
      const place = elfV1Abi.codePlace(image, symbol)!;
      expect(place.value).toBe(expected.get(name));
      expect(image.sections[place.section]!.name).toBe('.text');
      seen++;
    }
    expect(seen).toBe(7);
    // Undefined symbols have no place; symbols outside .opd are where they are.
    expect(elfV1Abi.codePlace(image, 0)).toBeNull();
    const shared = image.symbols.find('shared');
    expect(elfV1Abi.codePlace(image, shared)).toEqual({
      section: image.symbols.sectionIndex[shared],
      value: image.symbols.value[shared],
    });
  });

  test('the first word of a descriptor may be in a RELATIVE relocation only', () => {
    const image = readElf(linkWith(ppcTargets.v1, [compileWith(ppcTargets.v1, 'gcc', ['-fPIC'])], ['-shared']));
    const opd = image.section('.opd')!;
    const symbol = image.symbols.find('leaf');
    const place = elfV1Abi.codePlace(image, symbol);
    // The same file with zeros in .opd, as lld and some loaders leave it.
    const bytes = Uint8Array.from(image.bytes).fill(0, opd.offset, opd.offset + opd.size);
    expect(elfV1Abi.codePlace(readElf(bytes), symbol)).toEqual(place);
  });
});
