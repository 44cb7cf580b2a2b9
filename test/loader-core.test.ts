/**
 * Linked cores: stubs for sites that do not reach the runtime, kernel addresses, and the verbs load
 * and unload.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from '@jest/globals';
import { bl } from '../src/arch-ppc/stubs.js';
import { equalBytes } from '../src/bytes.js';
import { wordBytes } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { findSites } from '../src/sites/sites.js';
import { readTables } from '../src/sites/tables.js';
import { originalCore, unload } from '../src/program/loader.js';
import { load as loadProgram } from '../src/program/program.js';
import { warmElftrace as elftrace } from './support/cli.js';
import {
  assemble,
  compile,
  countingRuntime,
  file,
  link,
  load,
  type LoaderTarget,
  loaderTargets,
  loaderTools,
  merge,
  runHere,
  runQemu,
  source,
  start as startImage,
  startObject,
} from './support/loader-build.js';
import { few, isLong, isWhole } from './support/long.js';
import { root } from './support/pipeline.js';
import { ppcTargets } from './support/ppc-build.js';
import { describeWith, run } from './support/tools.js';

const ABI = (target: LoaderTarget): string => (target === 'v2be' || target === 'v2le' ? '\t.abiversion 2\n' : '');
const MAIN = `
#include "lib.h"
extern int early(int);
int value = 3;
int main(void) { line("early", (u32)early(4)); flush(); return 0; }
`;
const EARLY = 'extern int value; __attribute__((noinline)) int early(int x) { return x * value; }';

/**
 * A program whose first function is nearly a branch's reach from its end: it has kilobytes left.
 */
function farCore(target: LoaderTarget, base: string): Uint8Array {
  const spacer = assemble(target, `${ABI(target)}\t.text\n\t.space 0x1fd0000\n`);
  const mcount = assemble(
    target,
    countingRuntime(target, 'pg')
      .replaceAll('ftrace_caller', 'unused_caller')
      .replaceAll('ftrace_regs_caller', 'unused_regs')
      .replaceAll('trace_count', 'unused_count'),
  );
  const objects = [
    compile(target, EARLY, ['-pg']),
    spacer,
    compile(target, MAIN, ['-pg']),
    startObject(target),
    mcount,
  ];
  return link(target, objects, [`-Ttext-segment=${base}`]);
}

describeWith(loaderTools, 'linked cores', () => {
  // ELFv2 in big-endian order has nothing that the others have not, and ELFv1 hardly anything.
  for (const target of loaderTargets.filter((each) => isWhole || (isLong ? each !== 'v2be' : each === 'v2le'))) {
    describe(target, () => {
      const { arch } = ppcTargets[target];
      const runtime = source('runtime', assemble(target, countingRuntime(target, 'pg')));

      test('P-NEW-3 P-OFF-2 a bl with kilobytes left: sites that do not reach the runtime get stubs in a page below the image', () => {
        const core = farCore(target, '0x10000000');
        const sites = findSites(loadProgram(readElf(core), arch));
        const coreSites = Array.from({ length: sites.count }, (_, i) => sites.ip(i));
        const { bytes, map } = load(target, source('core', core), [], { runtime, options: { coreSites } });
        const image = readElf(bytes);
        const program = loadProgram(image, arch);
        const symbols = image.symbols;
        const entry = arch.abi.codePlace(image, symbols.find('ftrace_caller'))!.value;
        const early = arch.abi.codePlace(image, symbols.find('early'))!.value;
        const site = coreSites.find((each) => each >= early && each < early + 0x80n)!;
        expect(entry - site > 0x1ff_fffcn).toBe(true);
        const stub = map.parts[0]!.entryStubs.find((each) => each.symbol === 'ftrace_caller')!;
        expect(stub.address < 0x1000_0000n).toBe(true);
        expect(program.stubTarget(stub.address)).toBe(entry);
        // Calling it there traces: the word is what a tracer stores.
        const traced = bytes.slice();
        const offset = image.fileOffsetOf(site);
        traced.set(wordBytes(bl(site, stub.address), arch.target.codeEndian), offset);
        const expected = { output: 'early c\n', code: 0 };
        expect(runQemu(target, bytes)).toEqual(expected);
        expect(runQemu(target, traced)).toEqual(expected);
        const { process, output } = startImage(arch, readElf(traced));
        expect(process.machine.run()).toEqual({ kind: 'exit', code: 0 });
        expect(output()).toBe(expected.output);
        const counter = process.machine.memory.read(
          symbols.value[symbols.find('trace_count')]!,
          arch.target.wordBytes,
        )!;
        expect(counter[arch.target.dataEndian === 'little' ? 0 : arch.target.wordBytes - 1]).toBe(1);
        expect(equalBytes(originalCore(image, map)!, core)).toBe(true);
      });

      test('base kernel: real kernel areas, entry stubs through the per-CPU area, and it runs here', () => {
        const start = startObject(target);
        const flags = target === 'ppc32' ? ['-pg'] : ['-pg', '-mprofile-kernel'];
        const counting = source('runtime', assemble(target, countingRuntime(target, 'regs')));
        const main = MAIN.replace('"early"', '"mod"');
        const core = source('core', merge(target, [start, compile(target, main, flags)]));
        const module = source('module', compile(target, EARLY, flags));
        for (const stubs of ['modern', '2008']) {
          const { bytes, map } = load(target, core, [module], {
            base: 'kernel',
            runtime: counting,
            options: { machine: { 'ppc-stubs': stubs } },
          });
          expect(runHere(arch, bytes, map.registers)).toEqual({ output: 'mod c\n', code: 0 });
          const image = readElf(bytes);
          const program = loadProgram(image, arch);
          const part = map.parts[2]!;
          const stub = part.entryStubs[0]!;
          const reading = program.stub(stub.address)!;
          expect(reading.target).toBe(arch.abi.codePlace(image, image.symbols.find('ftrace_caller'))!.value);
          expect(reading.savesToc).toBe(false);
          if (target === 'ppc32') {
            expect(map.registers).toEqual({});
            expect(reading.form).toBe(stubs === '2008' ? 'ppc32.far-r11' : 'ppc32.far-r12');
          } else {
            expect(reading.form).toBe('ppc64.module-ftrace');
            const paca = map.registers['r13']!;
            expect(program.partOf(paca)?.kind).toBe('runtime');
            expect(program.reader.u64(paca + 16n)).toBe(map.parts[0]!.toc);
            expect(part.ranges[0]!.start >> 32n).toBe(stubs === '2008' ? 0xd000_0000n : 0xc008_0000n);
          }
        }
      });
    });
  }

  test('P-NEW-3 without a free page near enough it is refused with the distance', () => {
    const target = 'v2le';
    const runtime = source('runtime', assemble(target, countingRuntime(target, 'pg')));
    const core = farCore(target, '0x10000');
    expect(() => load(target, source('core', core), [], { runtime })).toThrow(
      /^core: the site at 0x1[0-9a-f]{4} is 0x2[0-9a-f]{6} from the tracer's entry at 0x2[0-9a-f]{6}, a branch reaches \[-0x2000000, 0x1fffffc\], and no free page for stubs is nearer$/,
    );
  });

  test('a loaded kernel has the sites of its own range and of the modules', () => {
    const target = 'v2le';
    const table = (name: string, where: string): string => `\t.section ${where}\n\t.p2align 3\n${name}`;
    const core = link(target, [
      startObject(target),
      assemble(
        target,
        `${ABI(target)}\t.text\n\t.globl main, _mcount\nmain:\tmflr 0\n1:\tbl _mcount\n\tli 3,0\n\tblr\n_mcount:\tmflr 12\n\tmtctr 12\n\tmtlr 0\n\tbctr\n` +
          table(
            '\t.globl __start_mcount_loc, __stop_mcount_loc\n__start_mcount_loc:\t.quad 1b\n__stop_mcount_loc:\n',
            '.init.data,"aw"',
          ),
      ),
    ]);
    const module = assemble(
      target,
      `${ABI(target)}\t.text\nf:\tmflr 0\n1:\tbl _mcount\n\tblr\n${table('\t.quad 1b\n', '__mcount_loc,"a"')}`,
    );
    const { bytes } = load(target, source('core', core), [source('module', module)]);
    const program = loadProgram(readElf(bytes), ppcTargets[target].arch);
    expect(readTables(program).map(({ name, count }) => [name, count])).toEqual([
      ['__mcount_loc', 1],
      ['__start_mcount_loc', 1],
    ]);
    const sites = findSites(program);
    expect(sites.totals()).toMatchObject({ total: 2, byState: { compiled: 2 } });
  });

  const target = 'v2le';

  /** A core with the entry that modules call, and two modules. */
  const coreAndModules = (): { core: string; a: string; b: string } => {
    const core = file(
      'core.o',
      merge(target, [
        startObject(target),
        compile(target, MAIN.replace('extern int early(int);', 'int early(int x) { return x * 3; }'), ['-pg']),
      ]),
    );
    const module = (name: string): string =>
      file(`${name}.o`, compile(target, `extern int early(int); int ${name}(int x) { return early(x) + 1; }`, ['-pg']));
    return { core, a: module('one'), b: module('two') };
  };

  const linkedCore = (): string =>
    file(
      'linked',
      link(target, [startObject(target), compile(target, EARLY + MAIN.replace('extern int early(int);', ''), [])]),
    );

  test('load and unload on the command line, JSON by its schema', () => {
    const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false });
    const schema = (verb: string): ReturnType<typeof ajv.compile> =>
      ajv.compile(JSON.parse(readFileSync(join(root, 'schemas', `${verb}.schema.json`), 'utf8')) as object);
    const valid = { load: schema('load'), unload: schema('unload') };
    const json = (verb: 'load' | 'unload', args: readonly string[]): Record<string, unknown> => {
      const result = elftrace([verb, '--json', ...args]);
      expect([result.status, result.stderr]).toEqual([0, '']);
      const value = JSON.parse(result.stdout) as Record<string, unknown>;
      expect(valid[verb](value) ? [] : valid[verb].errors).toEqual([]);
      return value;
    };
    const { core, a, b } = coreAndModules();
    const image = file('image');
    const more = file('more');
    const less = file('less');
    const parts = (value: Record<string, unknown>): string[] =>
      (value['parts'] as { kind: string }[]).map((part) => part.kind);
    expect(parts(json('load', [core, a, '-o', image]))).toEqual(['core', 'runtime', 'module']);
    const loaded = json('load', [image, b, '-o', more]);
    expect(parts(loaded)).toEqual(['core', 'runtime', 'module', 'module']);
    const name = (loaded['parts'] as { name: string }[])[3]!.name;
    json('unload', [more, name, '-o', less]);
    expect(equalBytes(readFileSync(less), readFileSync(image))).toBe(true);
    expect(elftrace(['run', more]).stdout).toBe('early c\n');
    // The linked core comes back by its name.
    const linked = linkedCore();
    const both = file('both');
    const made = json('load', [linked, '-o', both]);
    const back = file('back');
    json('unload', [both, (made['parts'] as { name: string }[])[0]!.name, '-o', back]);
    expect(equalBytes(readFileSync(back), readFileSync(linked))).toBe(true);
  });

  test('load and unload refuse wrong uses', () => {
    const { core, a, b } = coreAndModules();
    const linked = linkedCore();
    const [image, more] = [file('image'), file('more')];
    expect(elftrace(['load', core, a, '-o', image]).status).toBe(0);
    expect(elftrace(['load', image, b, '-o', more]).status).toBe(0);
    const name = 'two.o';
    const fails = (args: readonly string[], status: number, message: RegExp): void => {
      const result = elftrace(args);
      expect([args[0], result.status]).toEqual([args[0], status]);
      expect(result.stderr).toMatch(message);
    };
    fails(['load', image, b, '--base', 'kernel', '-o', more], 2, /is loaded already: --base was decided then/);
    fails(['load', core, '--base', '12x', '-o', more], 2, /--base takes an address/);
    fails(['load', core, '--base', '0x1001', '-o', more], 2, /no multiple of 0x10000/);
    fails(['load', core, '--ppc-stubs', 'new', '-o', more], 2, /--ppc-stubs new: one of modern, 2008/);
    fails(['load', core, linked, '-o', more], 2, /is linked: a module is a relocatable file/);
    fails(['load', core, a, a, '-o', more], 2, /two parts are named/);
    fails(['load', core, '--entry', 'nowhere', '-o', more], 2, /no symbol 'nowhere' to start at/);
    fails(['unload', core, 'x', '-o', more], 2, /is no image of 'load'/);
    fails(['unload', image, 'x', '-o', more], 2, /no module 'x' is loaded/);
    // A patched image is reverted first: the positions of its record would not hold in another one.
    const patched = file('patched');
    expect(elftrace(['patch', more, '--nop', '-o', patched]).status).toBe(0);
    fails(['unload', patched, name, '-o', more], 1, /the image is patched: revert it/);
    fails(['load', patched, b, '-o', more], 1, /the image is patched: revert it/);
    fails(['load', '/bin/true', '-o', more], 4, /neither an object .* nor a program with fixed addresses/);
  });

  for (const target of few(['v1', 'ppc32', 'v2le'] as const, 2)) {
    test(`${target}: a static program of the C library runs as a core, its program headers are where it looks`, () => {
      const { arch, prefix } = ppcTargets[target];
      const path = file('hello');
      const text =
        '#include <stdio.h>\n#include <stdlib.h>\n__thread int local = 4;\nint main(int c, char **v) { char *p = malloc(100000); sprintf(p, "hello %d %d", c, local); puts(p); return 3; }\n';
      run(`${prefix}gcc`, ['-O2', '-static', '-no-pie', '-fno-pie', '-x', 'c', '-', '-o', path], text);
      const core = new Uint8Array(readFileSync(path));
      const module = compile(target, 'extern int puts(const char *); int f(int x) { return puts("x") + x; }');
      const { bytes, map } = load(target, source('core', core), [source('module', module)]);
      const expected = { output: 'hello 1 4\n', code: 3 };
      expect(runQemu(target, core)).toEqual(expected);
      expect(runQemu(target, bytes)).toEqual(expected);
      // The little-endian C library needs vectors from its first instructions on.
      if (target !== 'v2le') expect(runHere(arch, bytes)).toEqual(expected);
      expect(equalBytes(originalCore(readElf(bytes), map)!, core)).toBe(true);
    });
  }

  test('a damaged load map and a patched image are told apart', () => {
    const target = 'ppc32';
    const { arch } = ppcTargets[target];
    const core = source('core', merge(target, [startObject(target), compile(target, 'int main(void) { return 0; }')]));
    const module = source('module', compile(target, 'int f(void) { return 1; }'));
    const { bytes } = load(target, core, [module]);
    const text = new TextDecoder('latin1').decode(bytes);
    const broken = bytes.slice();
    broken[text.indexOf('"schema":1') + 9] = 0x32;
    expect(() => unload(readElf(broken), 'module', arch)).toThrow(/version 2 is not known/);
    const cut = bytes.slice();
    cut[text.indexOf('"parts"') + 2] = 0x22;
    expect(() => unload(readElf(cut), 'module', arch)).toThrow(/load map/);
    writeFileSync(file('x'), cut);
  });
});
