/**
 * The module loader on the four PowerPC targets. What an image must print comes from the same
 * objects linked by GNU ld and run under qemu-user; readelf and objdump say whether it is well
 * formed.
 */
import { spawnSync } from './support/spawn.js';
import { describe, expect, test } from '@jest/globals';
import { readElf } from '../src/elf/read.js';
import { findSites } from '../src/sites/sites.js';
import { partAt, readLoadMap } from '../src/program/load-map.js';
import { load as loadProgram } from '../src/program/program.js';
import {
  assemble,
  compile,
  CORE_ALONE,
  countingRuntime,
  file,
  link,
  load,
  loaderTargets,
  loaderTools,
  merge,
  MODULE_A,
  MODULE_B,
  runHere,
  runQemu,
  source,
  startObject,
} from './support/loader-build.js';
import { ppcTargets } from './support/ppc-build.js';
import { describeWith } from './support/tools.js';

const CORE = `
#include "lib.h"
int core_value = 5;
extern int mod_a(int), mod_b(int);
__attribute__((noinline)) int core_add(int a, int b) { return a + b + core_value; }
__attribute__((noinline)) int twice(int x) { return core_add(x, x); }
int main(void) {
  line("a", (u32)mod_a(3));
  line("b", (u32)mod_b(4));
  line("value", core_value);
  flush();
  return 7;
}
`;

/** Warnings of readelf and objdump about a file. */
function complaints(bytes: Uint8Array): string {
  const path = file('checked', bytes);
  const readelf = spawnSync('powerpc64-linux-gnu-readelf', ['-aW', path], { maxBuffer: 1 << 28, encoding: 'utf8' });
  const objdump = spawnSync('objdump', ['-d', path], { maxBuffer: 1 << 28, encoding: 'utf8' });
  expect(readelf.status).toBe(0);
  expect(objdump.status).toBe(0);
  const spoken = readelf.stdout.split('\n').filter((line) => /warning|error:/i.test(line));
  return [readelf.stderr, objdump.stderr, ...spoken].join('').trim();
}

describeWith(loaderTools, 'loading', () => {
  for (const target of loaderTargets) {
    describe(target, () => {
      const { arch } = ppcTargets[target];
      const flags = ['-pg'];
      const objects = {
        start: startObject(target),
        core: compile(target, CORE, flags),
        alone: compile(target, CORE_ALONE, flags),
        a: compile(target, MODULE_A, flags),
        b: compile(target, MODULE_B, flags),
        runtime: assemble(target, countingRuntime(target, 'pg')),
      };
      const core = source('core', merge(target, [objects.start, objects.core]));
      const alone = source('core', merge(target, [objects.start, objects.alone]));
      const a = source('mod_a', objects.a);
      const b = source('mod_b', objects.b);
      const runtime = source('runtime', objects.runtime);

      test('T-PPC-2 T-PPC-7 far modules print what ld makes of the same objects', () => {
        const { bytes, map } = load(target, core, [a, b], { runtime });
        const { start, core: main, a: first, b: second } = objects;
        const linked = link(target, [start, main, first, second, objects.runtime]);
        const expected = runQemu(target, linked);
        expect(expected.code).toBe(7);
        expect(runHere(arch, bytes)).toEqual(expected);
        expect(runQemu(target, bytes)).toEqual(expected);
        expect(complaints(bytes)).toBe('');
        const image = readElf(bytes);
        expect(readLoadMap(image)).toEqual(map);
        expect(image.relocations).toEqual([]);
        // Far: no branch of a module reaches the core.
        for (const part of map.parts.slice(2)) {
          expect(part.ranges[0]!.start - map.parts[0]!.ranges[0]!.start > 0x200_0000n).toBe(true);
          expect(partAt(map, part.ranges[0]!.start)?.name).toBe(part.name);
        }
      });

      test('T-PPC-9 T-PPC-14 sites of all parts are found, each with its module, calls of far ones through their stubs', () => {
        const { bytes, map } = load(target, core, [a, b], { runtime });
        const program = loadProgram(readElf(bytes), arch);
        const sites = findSites(program);
        const names = ['main', 'core_add', 'mod_a', 'mod_b', 'local'];
        const states = new Map<string, string>();
        const homes = new Map<string, string>();
        for (let i = 0; i < sites.count; i++) {
          const name = program.symbolName(sites.functionSymbol(i));
          states.set(name, sites.state(i));
          homes.set(name, program.partOf(sites.ip(i))?.name ?? '');
        }
        expect(names.map((name) => homes.get(name))).toEqual(['core', 'core', 'mod_a', 'mod_b', 'mod_a']);
        for (const name of names) expect([name, states.get(name)]).toEqual([name, 'compiled']);
        expect(program.partOf(map.parts[2]!.ranges[0]!.start)?.name).toBe('mod_a');
      });

      test('P-STUB-3 T-PPC-21 T-PPC-28 each module has its TOC, its stubs and a stub of ftrace_caller', () => {
        const { bytes, map } = load(target, core, [a, b], { runtime });
        const program = loadProgram(readElf(bytes), arch);
        const entry = program.image.symbols.find('ftrace_caller');
        const code = arch.abi.codePlace(program.image, entry)!.value;
        const modules = map.parts.filter((part) => part.kind === 'module');
        expect(modules.map((part) => part.name)).toEqual(['mod_a', 'mod_b']);
        for (const part of modules) {
          const stub = part.entryStubs.find((each) => each.symbol === 'ftrace_caller')!;
          expect(program.stubTarget(stub.address)).toBe(code);
          expect(part.uses).toContain('runtime');
          if (target === 'ppc32') expect(part.toc).toBeNull();
          else {
            const symbols = program.image.symbols;
            const own = program.image.sections.slice(part.sections.first, part.sections.first + part.sections.count);
            const base = own.find((each) => each.name === '.toc') ?? own.find((each) => each.name === '.stubs')!;
            expect(part.toc).toBe((base.address & ~0xffn) + 0x8000n);
            expect(program.tocAt(stub.address)).toBe(part.toc);
            // The core's own TOC is the file's.
            expect(symbols.value[symbols.find('.TOC.')]).toBe(map.parts[0]!.toc);
          }
        }
        expect(modules[0]!.toc === null || modules[0]!.toc !== modules[1]!.toc).toBe(true);
      });

      test('T-PPC-28 a stub area one entry short is a load error', () => {
        let short = 0;
        for (const spare of [0, 1])
          expect(() => load(target, alone, [a], { runtime, options: { stubSpare: spare } })).not.toThrow();
        for (const spare of [-1, -2, -4]) {
          try {
            load(
              target,
              alone,
              [
                source(
                  'm',
                  compile(
                    target,
                    'extern int core_add(int, int), twice(int); int m(int x) { return core_add(x, twice(x)) + 1; }',
                    flags,
                  ),
                ),
              ],
              {
                runtime,
                options: { stubSpare: spare },
              },
            );
          } catch (error) {
            expect(error).toMatchObject({ code: 'stub-area-full' });
            short++;
          }
        }
        expect(short).toBe(3);
      });

      test('T-PPC-27 a near module: 32 bits without any stub, 64 bits through stubs, for the TOC changes', () => {
        const { bytes, map } = load(target, core, [a, b], { runtime, moduleBase: 0x1100_0000n });
        const far = load(target, core, [a, b], { runtime });
        const expected = runQemu(target, far.bytes);
        expect(runHere(arch, bytes)).toEqual(expected);
        expect(runQemu(target, bytes)).toEqual(expected);
        const program = loadProgram(readElf(bytes), arch);
        const part = map.parts[2]!;
        const entries = new Set(part.entryStubs.map((each) => each.address));
        const used = part.stubs.flatMap(({ address, sizeBytes, count }) =>
          Array.from({ length: count }, (_, i) => address + BigInt(i * sizeBytes)).filter(
            (at) => !entries.has(at) && program.stub(at) !== null,
          ),
        );
        // _mcount, core_add and twice.
        expect(used.length).toBe(target === 'ppc32' ? 0 : 3);
      });

      test('undefined and duplicate symbols are listed all', () => {
        const bad = source(
          'bad',
          compile(
            target,
            'extern int missing_one(void), missing_two; __attribute__((weak)) extern int maybe(void); int bad(void) { return missing_one() + missing_two + (maybe ? maybe() : 1); }',
          ),
        );
        expect(() => load(target, alone, [bad], { runtime })).toThrow(
          /^2 symbols are not defined: missing_one \(bad\), missing_two \(bad\)$/,
        );
        const again = source('again', compile(target, 'int twice(int x) { return x; } int core_value = 1;'));
        expect(() => load(target, alone, [again], { runtime })).toThrow(
          /^2 symbols are defined more than once: (twice|core_value) \(core, again\), (twice|core_value) \(core, again\)$/,
        );
      });
    });
  }
});
