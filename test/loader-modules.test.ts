/**
 * The module loader on every machine: modules come and go and leave the bytes that were there
 * before, whatever stands between; a linked core keeps its bytes and can be cut out again. What an
 * image prints is what GNU ld makes of the same objects, under qemu-user. What single machines have
 * (stubs, bounds, kinds of relocations) is in `*-loader.test.ts` and `loader*.test.ts`.
 */
import { chmodSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { equalBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { loadImages, loadMore, type LoadResult, originalCore, type Source, unload } from '../src/program/loader.js';
import {
  ARM64_TARGETS,
  PROGRAMS,
  type PpcTarget,
  RISCV_TARGETS,
  scratch,
  TARGETS,
  X86_TARGETS,
} from './support/c-programs.js';
import { CORE_ALONE, file, MODULE_A, MODULE_B, runHere, source } from './support/loader-build.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';

/** A machine, and the flags of code that lies anywhere. */
interface Machine {
  readonly target: PpcTarget;
  readonly far: readonly string[];
  /** Assembly that a relocatable core needs beside its own; default none. */
  readonly more?: string;
  /** Of the linker; default none. */
  readonly ld?: readonly string[];
}

const machines: readonly Machine[] = [
  ...TARGETS.map((target) => ({ target, far: [], ld: target.name === 'ppc64-elfv2-be' ? ['-m', 'elf64ppc'] : [] })),
  { target: X86_TARGETS[0]!, far: ['-mcmodel=large'] },
  {
    target: RISCV_TARGETS[0]!,
    far: ['-fPIC', '-mno-relax'],
    // A linker provides it.
    more: '.globl __global_pointer$\n.data\n__global_pointer$: .dword 0\n',
  },
  { target: ARM64_TARGETS[0]!, far: [] },
];

for (const { target, far, more: needed, ld = [] } of machines) {
  const { arch, gcc, qemu } = target;
  const linker = gcc.replace(/gcc$/, 'ld');

  describeWith([gcc, linker, qemu], `modules of ${target.name}`, () => {
    const object = (args: readonly string[], input?: string): Uint8Array => {
      const output = scratch('a.o');
      const common = ['-O2', '-ffreestanding', '-fno-stack-protector', '-fno-asynchronous-unwind-tables', '-w'];
      const flags = target.flags.filter((each) => each !== '-no-pie');
      run(gcc, [...common, ...flags, '-I', PROGRAMS, ...args, '-c', '-o', output], input);
      return new Uint8Array(readFileSync(output));
    };
    const compile = (text: string, flags: readonly string[] = []): Uint8Array =>
      object([...flags, '-x', 'c', '-'], text);
    const assemble = (text: string): Uint8Array => object(['-x', 'assembler', '-'], text);
    const link = (objects: readonly Uint8Array[], flags: readonly string[]): Uint8Array => {
      const output = scratch('linked');
      run(linker, [...ld, ...flags, ...objects.map((bytes) => file('part.o', bytes)), '-o', output]);
      return new Uint8Array(readFileSync(output));
    };
    const load = (core: Source, modules: readonly Source[]): LoadResult =>
      loadImages({ core, modules, base: 'user', runtime: null, options: {} }, arch);
    const parts = [
      ...(target.start ?? ['start.S']).map((name) => object([`${PROGRAMS}/${name}`])),
      compile(CORE_ALONE),
    ];
    const [a, b] = [source('mod_a', compile(MODULE_A, far)), source('mod_b', compile(MODULE_B, far))];

    test('load, unload and load again give the same bytes', () => {
      const core = source('core', link([...parts, ...(needed === undefined ? [] : [assemble(needed)])], ['-r']));
      const more = (bytes: Uint8Array, modules: readonly Source[]): Uint8Array =>
        loadMore({ image: readElf(bytes), modules, runtime: null, options: {} }, arch).bytes;
      const [none, one, two] = [[], [a], [a, b]].map((modules) => load(core, modules).bytes) as [
        Uint8Array,
        Uint8Array,
        Uint8Array,
      ];
      expect(equalBytes(unload(readElf(two), 'mod_b', arch).bytes, one)).toBe(true);
      expect(equalBytes(unload(readElf(one), 'mod_a', arch).bytes, none)).toBe(true);
      expect(equalBytes(more(one, [b]), two)).toBe(true);
      expect(equalBytes(more(none, [a, b]), two)).toBe(true);
      expect(() => unload(readElf(two), 'mod_a', arch)).toThrow(/used by mod_b/);
      expect(() => unload(readElf(two), 'mod_c', arch)).toThrow(/no module 'mod_c' is loaded \(mod_a, mod_b\)/);
    });

    test('a linked core keeps its bytes, prints what it prints, and can be cut out again', () => {
      const linked = link(parts, [
        '-static',
        '--no-warn-rwx-segments',
        '-z',
        'noexecstack',
        '-Ttext-segment=0x10000000',
      ]);
      const { bytes, map } = load(source('core', linked), [a, b]);
      const elsewhere = [linked, bytes].map((image) => {
        const path = file('image', image);
        chmodSync(path, 0o755);
        const { stdout, status } = spawnSync(qemu, [path], { encoding: 'latin1' });
        return { output: stdout, code: status };
      });
      expect(elsewhere[0]).toEqual({ output: 'value f\n', code: 7 });
      expect([elsewhere[1], runHere(arch, bytes)]).toEqual([elsewhere[0], elsewhere[0]]);
      const headerBytes = arch.target.wordBytes === 8 ? 64 : 52;
      expect(equalBytes(bytes.subarray(headerBytes, linked.length), linked.subarray(headerBytes))).toBe(true);
      expect(equalBytes(originalCore(readElf(bytes), map)!, linked)).toBe(true);
      expect(equalBytes(unload(readElf(bytes), 'mod_b', arch).bytes, load(source('core', linked), [a]).bytes)).toBe(
        true,
      );
      expect(map.parts.map(({ kind }) => kind)).toEqual(['core', 'module', 'module']);
    });
  });
}
