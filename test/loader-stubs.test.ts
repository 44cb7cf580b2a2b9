/**
 * Stubs that the PowerPC loader writes, against vectors of the specification, objdump and their own
 * readers; and how calls of other shapes are bound.
 */
import { chmodSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { ppc32, ppc64ElfV1, ppc64ElfV2Be, ppc64ElfV2Le } from '../src/arch-ppc/index.js';
import {
  writeAbsoluteStub,
  writeFarStub,
  writeFtraceStub,
  writeTailStub,
  writeTocStub,
  writeTocStub2008,
} from '../src/arch-ppc/stubs.js';
import type { Arch } from '../src/machine/arch.js';
import type { AddressReader, StubReading } from '../src/machine/stubs.js';
import { ByteView } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { load as loadProgram } from '../src/program/program.js';
import {
  assemble,
  compile,
  countingRuntime,
  file,
  load,
  loaderTargets,
  loaderTools,
  merge,
  runHere,
  runQemu,
  source,
  startObject,
} from './support/loader-build.js';
import { sampled, times } from './support/long.js';
import { ppcTargets } from './support/ppc-build.js';
import { describeWith, run } from './support/tools.js';

/** Memory of some bytes. */
function memory(arch: Arch, at: bigint, bytes: Uint8Array): AddressReader {
  const view = new ByteView(bytes, arch.target.codeEndian);
  const inside = (address: bigint, size: number): boolean =>
    address >= at && address + BigInt(size) <= at + BigInt(bytes.length);
  return {
    u8: (address) => (inside(address, 1) ? view.u8(Number(address - at)) : -1),
    u32: (address) => (inside(address, 4) ? view.u32(Number(address - at)) : -1),
    u64: (address) => (inside(address, 8) ? view.u64(Number(address - at)) : null),
  };
}

function read(arch: Arch, at: bigint, bytes: Uint8Array, toc: bigint | null): StubReading | null {
  const code = memory(arch, at, bytes);
  for (const form of arch.stubForms) {
    const reading = form.read(code, at, toc);
    if (reading !== null) return reading;
  }
  return null;
}

const words = (bytes: Uint8Array, endian: 'big' | 'little' = 'big'): string[] => {
  const view = new ByteView(bytes, endian);
  return Array.from({ length: bytes.length / 4 }, (_, i) =>
    view
      .u32(4 * i)
      .toString(16)
      .padStart(8, '0'),
  );
};

const address64 = fc.bigInt({ min: 0x1000n, max: 0xffff_ffff_ffff_f000n }).map((value) => value & ~3n);
const offset32 = fc
  .oneof(
    fc.bigInt({ min: -0x8000_0000n, max: 0x7fff_7fffn }),
    fc.constantFrom(-0x8000_0000n, 0x7fff_7ff8n, -0x8000n, 0x7ff8n, 0x8000n, -0x8008n, 0x1_0000n, 0n),
  )
  .map((value) => value & ~7n);
const options = { numRuns: times(300, 100), seed: 20 };
const v2 = [ppc64ElfV2Be, ppc64ElfV2Le] as const;

describe('stubs of the loader', () => {
  test('P-OFF-3 T-PPC-8 the ELFv1 stub of 2008', () => {
    const stub = {
      address: 0xd000_0000_0001_0100n,
      toc: 0xd000_0000_0001_8000n,
      target: 0xc000_0000_0000_1234n,
      targetToc: 0xc000_0000_0080_8000n,
    };
    const bytes = writeTocStub2008(stub, 'big');
    expect(words(bytes)).toEqual([
      '3d820000', '398c8100', 'f8410028', 'e96c0020', 'e84c0028', '7d6903a6', '4e800420', '00000000',
      'c0000000', '00001234', 'c0000000', '00808000',
    ]); // prettier-ignore
    const reading = read(ppc64ElfV1, stub.address, bytes, stub.toc);
    expect(reading).toEqual({
      form: 'ppc64.module-2008',
      sizeBytes: 48,
      target: stub.target,
      slot: 0xd000_0000_0001_0120n,
      slotBytes: 16,
      targetToc: stub.targetToc,
      savesToc: true,
    });
    const far = writeTocStub2008({ ...stub, toc: stub.address - 0x1234_8000n }, 'big');
    expect(words(far).slice(0, 2)).toEqual(['3d821235', '398c8000']);
  });

  test('P-OFF-3 T-PPC-19 T-PPC-20 the 32-bit stub, negative low half', () => {
    expect(words(writeFarStub(0xc001_8000n, 11))).toEqual(['3d60c002', '396b8000', '7d6903a6', '4e800420']);
    expect(words(writeFarStub(0xc001_8000n, 12))).toEqual(['3d80c002', '398c8000', '7d8903a6', '4e800420']);
    expect(read(ppc32, 0x1000n, writeFarStub(0xc001_8000n, 11), null)?.target).toBe(0xc001_8000n);
  });

  test('T-PPC-3 stubs are made of whole words, and begin at multiples of 4 or 8', () => {
    for (const arch of [ppc32, ppc64ElfV1, ...v2]) {
      if (arch.loader.kind === 'none') throw new Error('no loader');
      expect(arch.loader.stubs.entryBytes % arch.loader.stubs.alignBytes).toBe(0);
      expect(arch.loader.stubs.alignBytes).toBe(arch === ppc32 ? 4 : 8);
    }
  });

  test('every form is read back by its inverse: 32 bits, 300 targets', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 0x3fff_ffff }),
        fc.constantFrom(11 as const, 12 as const),
        (word, register) => {
          const target = BigInt(word) * 4n;
          const reading = read(ppc32, 0x8000n, writeFarStub(target, register), null);
          expect(reading).toMatchObject({
            form: `ppc32.far-r${register}`,
            target,
            sizeBytes: 16,
            slot: null,
            savesToc: false,
          });
        },
      ),
      options,
    );
  });

  test('every form is read back by its inverse: stubs through the TOC, 300 targets and the limits of the reach', () => {
    fc.assert(
      fc.property(address64, offset32, address64, address64, (base, offset, target, targetToc) => {
        const address = base & ~7n;
        const toc = BigInt.asUintN(64, address - offset);
        const stub = { address, toc, target, targetToc };
        const own = { target, targetToc, slot: BigInt.asUintN(64, address + 32n), sizeBytes: 48 };
        expect(read(ppc64ElfV1, address, writeTocStub2008(stub, 'big'), toc)).toMatchObject({
          ...own,
          form: 'ppc64.module-2008',
          savesToc: true,
        });
        expect(read(ppc64ElfV1, address, writeTocStub(stub, 'elfv1', 'big'), toc)).toMatchObject({
          ...own,
          form: 'ppc64.module',
          savesToc: true,
        });
        expect(read(ppc64ElfV1, address, writeTailStub(stub, 'big'), toc)).toMatchObject({
          ...own,
          form: 'ppc64.module-tail',
          savesToc: false,
        });
        for (const arch of v2) {
          const bytes = writeTocStub(stub, 'elfv2', arch.target.codeEndian);
          expect(read(arch, address, bytes, toc)).toMatchObject({
            target,
            form: 'ppc64.module',
            sizeBytes: 40,
            slotBytes: 8,
            savesToc: true,
          });
        }
      }),
      options,
    );
  });

  test('every form is read back by its inverse: stubs that leave r2 alone, 300 targets', () => {
    fc.assert(
      fc.property(address64, offset32, address64, (coreToc, offset, targetToc) => {
        const target = BigInt.asUintN(64, coreToc + offset) & ~3n;
        fc.pre(target !== 0n && BigInt.asIntN(64, target - coreToc) >= -0x8000_0000n);
        for (const arch of [ppc64ElfV1, ...v2]) {
          const abi = arch === ppc64ElfV1 ? 'elfv1' : 'elfv2';
          const endian = arch.target.codeEndian;
          const size = abi === 'elfv1' ? 48 : 40;
          const tracer = writeFtraceStub({ address: 0x4000n, coreToc, target, targetToc }, abi, endian);
          expect(read(arch, 0x4000n, tracer, coreToc)).toMatchObject({
            form: 'ppc64.module-ftrace',
            target,
            sizeBytes: size,
            savesToc: false,
          });
          // The code of the reserved stubs of a core leads there by itself.
          expect(read(arch, 0x4000n, tracer.subarray(0, 20), coreToc)?.target).toBe(target);
          const absolute = writeAbsoluteStub({ target, targetToc }, abi, endian);
          expect(read(arch, 0x4000n, absolute, null)).toMatchObject({
            form: 'ppc64.absolute',
            target,
            sizeBytes: size,
            savesToc: false,
          });
        }
      }),
      options,
    );
  });

  test('P-FN-2 how ELFv2 calls are bound: by the TOC of both sides, st_other and the reach', () => {
    const { loader } = ppc64ElfV2Le;
    if (loader.kind === 'none') throw new Error('no loader');
    const REL24 = 10;
    const NOTOC = 116;
    const place = 0x2000_0000n;
    const bind = (
      type: number,
      code: bigint,
      localEntry: number,
      other: number,
      sameToc: boolean,
      next = 0x6000_0000,
    ): unknown =>
      loader.bindCall({
        type,
        place,
        word: (delta) => (delta === 0 ? 0x4800_0001 : delta === 4 ? next : 0),
        target: { name: 'f', code, localEntry, other, toc: 1n, isTracer: false },
        toc: sameToc ? 1n : 2n,
      });
    const near = place + 0x100n;
    const far = place + 0x200_0000n;
    // Same TOC: the local entry; beyond the reach of it a stub that leaves r2 alone.
    expect(bind(REL24, near, 8, 0x60, true)).toEqual({ kind: 'direct', target: near + 8n });
    expect(bind(REL24, far - 12n, 8, 0x60, true)).toEqual({ kind: 'direct', target: far - 4n });
    expect(bind(REL24, far - 8n, 8, 0x60, true)).toEqual({ kind: 'stub', stub: 'plain', restore: null });
    // A callee that does not keep r2 (1), or has another TOC: restored behind the call.
    const restored = { kind: 'stub', stub: 'toc', restore: { delta: 4, word: 0xe841_0018 } };
    expect(bind(REL24, near, 0, 0x20, true)).toEqual(restored);
    expect(bind(REL24, near, 8, 0x60, false)).toEqual(restored);
    expect(bind(REL24, near, 0, 0x20, true, 0x7c08_02a6)).toMatchObject({
      kind: 'refused',
      code: 'toc-restore-missing',
    });
    // From code without a TOC: r12 must name the global entry of a callee that has one.
    expect(bind(NOTOC, near, 8, 0x60, false)).toEqual({ kind: 'stub', stub: 'plain', restore: null });
    expect(bind(NOTOC, near, 0, 0x20, false)).toEqual({ kind: 'direct', target: near });
    expect(bind(NOTOC, far, 0, 0, false)).toEqual({ kind: 'stub', stub: 'plain', restore: null });
  });

  test('a stub whose TOC is beyond 2 GiB is refused with the distance', () => {
    const stub = { address: 0x1_0000_0000n, toc: 0x8000_7ff8n, target: 4n, targetToc: 8n };
    for (const write of [
      () => writeTocStub2008(stub, 'big'),
      () => writeTocStub(stub, 'elfv2', 'little'),
      () => writeTailStub(stub, 'big'),
      () => writeFtraceStub({ address: 0n, coreToc: 0n, target: 0x7fff_8000n, targetToc: null }, 'elfv2', 'little'),
    ]) {
      expect(write).toThrow(/0x7fff80(00|08) is outside \[-0x80000000, 0x7fff7fff\]/);
    }
    expect(() => writeTocStub({ ...stub, toc: 0x8000_8008n }, 'elfv2', 'little')).not.toThrow();
  });
});

describeWith(loaderTools, 'stubs and calls', () => {
  const core = `
#include "lib.h"
extern int mod(int);
int value = 11;
__attribute__((noinline)) int ext(int x) { value++; return x * value; }
int main(void) { line("mod", (u32)mod(6)); line("value", value); flush(); return 0; }
`;
  const MOD =
    'extern int ext(int), value; static int k = 3; int mod(int x) { k += ext(x) + value; return ext(k) + k; }';

  for (const target of sampled(loaderTargets, 2)) {
    describe(target, () => {
      const { arch } = ppcTargets[target];
      const start = startObject(target);

      for (const stubs of ['modern', '2008']) {
        for (const flags of target === 'ppc32'
          ? [['-pg'], ['-fpatchable-function-entry=2']]
          : [['-pg'], ['-pg', '-mprofile-kernel']]) {
          test(`T-PPC-7 T-PPC-8 ${flags.join(' ')}, ${stubs} stubs: the module runs, objdump shows the words`, () => {
            const convention = flags.includes('-pg') && flags.length === 1 ? 'pg' : 'regs';
            const runtime = source('runtime', assemble(target, countingRuntime(target, convention)));
            const main = source('core', merge(target, [start, compile(target, core, flags)]));
            const module = source('mod', compile(target, MOD, flags));
            const { bytes, map } = load(target, main, [module], {
              runtime,
              options: { machine: { 'ppc-stubs': stubs } },
            });
            // k = 3 + 6 * 12 + 12 = 87; 87 * 13 + 87 = 0x4c2.
            const expected = { output: 'mod 4c2\nvalue d\n', code: 0 };
            expect(runQemu(target, bytes)).toEqual(expected);
            expect(runHere(arch, bytes)).toEqual(expected);
            const dump = run(`${ppcTargets[target].prefix}objdump`, ['-d', file('image', bytes)]).toString();
            const part = map.parts.at(-1)!;
            const area = part.stubs[0]!.address.toString(16);
            const from = dump.indexOf(`${area}:\t`);
            expect(from).toBeGreaterThan(0);
            const lines = dump
              .slice(from)
              .split('\n')
              .slice(0, 40)
              .map((line) => line.split('\t').slice(2).join(' ').replace(/\s+/g, ' ').trim());
            const saving = { v1: 'std r2,40(r1)', v2be: 'std r2,24(r1)', v2le: 'std r2,24(r1)', ppc32: 'bctr' }[target];
            expect(lines).toContain(saving);
            if (target !== 'ppc32') {
              const restore = target === 'v1' ? 'ld      r2,40(r1)' : 'ld      r2,24(r1)';
              expect(dump.split(restore).length).toBeGreaterThan(2);
            }
          });
        }
      }

      test('T-PPC-13 P-STUB-2 a call without room for the restore is refused, a restore that is there stays', () => {
        const main = source(
          'core',
          merge(target, [start, compile(target, 'int ext(int x) { return x; } int main(void) { return 0; }')]),
        );
        const calls = (next: string): string => `\t.text\nfoo:\tbl ext\n${next}\tblr\n`;
        const bad = source('bad', assemble(target, calls('\tli 3,1\n')));
        if (target === 'ppc32') {
          expect(() => load(target, main, [bad])).not.toThrow();
          return;
        }
        const restore = target === 'v1' ? '\tld 2,40(1)\n' : '\tld 2,24(1)\n';
        expect(() => load(target, main, [bad])).toThrow(
          /^bad: .text\+0x0 \(ext\): the call of ext: the word behind the call is 38600001, no nop to take the TOC restore$/,
        );
        expect(() => load(target, main, [source('good', assemble(target, calls(restore)))])).not.toThrow();
        expect(() => load(target, main, [source('good', assemble(target, calls('\tnop\n')))])).not.toThrow();
        const other = target === 'v1' ? '\tld 2,24(1)\n' : '\tld 2,40(1)\n';
        expect(() => load(target, main, [source('bad', assemble(target, calls(other)))])).toThrow(/no nop/);
      });

      test('weak functions that nobody defines: address 0, calls become nops', () => {
        const weak = source(
          'weak',
          compile(
            target,
            'extern int maybe(int) __attribute__((weak)); int probe(void) { return maybe != 0; } int skip(int x) { maybe(x); return x; }',
          ),
        );
        const main = source(
          'core',
          merge(target, [
            start,
            compile(target, 'extern int probe(void), skip(int); int main(void) { return probe() * 10 + skip(7); }'),
          ]),
        );
        const { bytes } = load(target, main, [weak]);
        expect(runHere(arch, bytes)).toEqual({ output: '', code: 7 });
        expect(runQemu(target, bytes)).toEqual({ output: '', code: 7 });
      });

      test('common symbols, absolute symbols, init code', () => {
        const module = merge(target, [
          compile(
            target,
            'int together[40]; extern char absolute[]; __attribute__((section(".init.text"), noinline)) int setup(int x) { extern int ext(int); together[3] = x; return ext(x) + (int)(long)absolute; } int use(void) { return setup(5) + together[3]; }',
            ['-fcommon'],
          ),
          assemble(target, '\t.globl absolute\nabsolute = 0x123\n'),
        ]);
        const main = source(
          'core',
          merge(target, [
            start,
            compile(
              target,
              'extern int use(void); int ext(int x) { return x + 1; } int main(void) { return use() == 5 + 6 + 0x123 ? 9 : 1; }',
            ),
          ]),
        );
        const { bytes, map } = load(target, main, [source('module', module)]);
        expect(runHere(arch, bytes).code).toBe(9);
        expect(runQemu(target, bytes).code).toBe(9);
        // Core and init code of 32-bit modules have stub areas of their own.
        expect(map.parts[1]!.stubs.length).toBe(target === 'ppc32' ? 2 : 1);
      });

      if (target !== 'ppc32') {
        test('T-PPC-4 a small-model TOC over 64 KB is a clear error', () => {
          const count = 8300;
          const names = Array.from({ length: count }, (_, i) => i);
          const main = source('core', compile(target, names.map((i) => `int w_${i};`).join('\n'), ['-O0']));
          const toc = names.map((i) => `.LC${i}:\t.quad w_${i}\n`).join('');
          const uses = [0, count - 1].map((i) => `\tld 9,.LC${i}@toc(2)\n`).join('');
          const small = source('small', assemble(target, `\t.section .toc,"aw"\n${toc}\t.text\n${uses}\tblr\n`));
          expect(() => load(target, main, [small])).toThrow(
            /^small: \.text\+0x[46] \(.*\): R_PPC64_TOC16_DS: 0x83[0-9a-f]{2} is outside .*the TOC of the module is larger than 64 KB and this code addresses it with 16 bits/,
          );
        });
      }

      if (target === 'v2le') {
        test('POWER10 code without a TOC: pointer slots are made, calls set r12', () => {
          const main = source('core', merge(target, [start, compile(target, core)]));
          const module = source('mod', compile(target, MOD, ['-mcpu=power10']));
          const { bytes } = load(target, main, [module]);
          const path = file('image', bytes);
          chmodSync(path, 0o755);
          expect(run('qemu-ppc64le', ['-cpu', 'power10', path]).toString()).toBe('mod 4c2\nvalue d\n');
        });
      }

      if (target === 'v1') {
        test('T-PPC-4 foo is a descriptor, .foo its code, an undefined .foo is found through foo', () => {
          const main = source(
            'core',
            merge(target, [
              start,
              compile(
                target,
                'extern long mod(void); long ext(void) { return 20; } int main(void) { return (int)mod(); }',
              ),
            ]),
          );
          const module = assemble(
            target,
            `
	.section .opd,"aw"
	.globl mod
	.type mod,@function
mod:	.quad .Lmod,.TOC.@tocbase,0
	.section .toc,"aw"
.LC0:	.quad ext
.LC1:	.quad .ext
	.text
.Lmod:	mflr 0
	std 0,16(1)
	stdu 1,-112(1)
	bl .ext
	nop
	std 3,96(1)
	ld 9,.LC0@toc(2)
	ld 10,0(9)
	ld 11,.LC1@toc(2)
	subf 10,11,10
	cntlzd 10,10
	srdi 10,10,6
	ld 3,96(1)
	add 3,3,10
	addi 1,1,112
	ld 0,16(1)
	mtlr 0
	blr
`,
          );
          const { bytes } = load(target, main, [source('mod', module)]);
          // 20 of the call and 1 for: the descriptor's first word is .ext.
          expect(runHere(arch, bytes).code).toBe(21);
          expect(runQemu(target, bytes).code).toBe(21);
          const program = loadProgram(readElf(bytes), arch);
          expect(program.image.relocations.length).toBe(0);
        });
      }
    });
  }
});
