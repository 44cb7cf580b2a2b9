/**
 * The guest runtime of x86-64: what the objects are made of, and what they do on this processor and
 * under qemu-x86_64. The program in test/programs/x86-runtime patches its own sites and compares;
 * trampolines are made here, for its addresses, and run there.
 */
import { spawnSync } from './support/spawn.js';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  buildTrampoline,
  findTemplate,
  readTrampoline,
  type TemplateKind,
  type TrampolineReturn,
} from '../src/arch-x86/trampoline.js';
import { R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32 } from '../src/arch-x86/relocs.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import type { ConventionName } from '../src/machine/conventions.js';
import { DIRECT_WORDS, OPS_WORDS, runtimeObject, THREAD_MODES } from '../src/runtime/index.js';
import { describeWith, run, tool } from './support/tools.js';
import { isX86Linux } from './support/processor.js';
import { conventionNames, conventionRow } from './support/conventions.js';
import { sampled } from './support/long.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const sources = join(root, 'test/programs/x86-runtime');
const FLAVOURS = ['modern', 'y2014', 'mcount'] as const;
type Flavour = (typeof FLAVOURS)[number];

const folder = mkdtempSync(join(tmpdir(), 'elftrace-runtime-x86-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function objectOf(flavour: ConventionName): Uint8Array {
  const object = runtimeObject('x86-64', flavour);
  if (object === null) throw new Error(`no runtime ${flavour}`);
  return object;
}
const objectPath = (flavour: Flavour): string => {
  const path = join(folder, `runtime-${flavour}.o`);
  writeFileSync(path, objectOf(flavour));
  return path;
};

describe('objects of x86-64', () => {
  test('RT-1 the flavours and their symbols', () => {
    expect(conventionNames('x86-64')).toEqual(FLAVOURS);
    for (const flavour of FLAVOURS) {
      const image = readElf(objectOf(flavour));
      const { entries, calls, common, graph, tracers, templates, direct } = conventionRow('x86-64', flavour).symbols;
      const missing = [...entries, ...calls, ...common, ...graph, ...tracers, ...templates, ...direct].filter(
        (name) => image.symbols.find(name) <= 0,
      );
      expect([flavour, missing]).toEqual([flavour, []]);
    }
  });

  test('RT-3 nothing undefined; text holds relative relocations only, data words of 64 bits: no GOT, no PLT, no 32-bit address', () => {
    for (const flavour of FLAVOURS) {
      const image = readElf(objectOf(flavour));
      const undefinedNames: string[] = [];
      for (let i = 1; i < image.symbols.count; i++) {
        if (image.symbols.sectionIndex[i] === 0) undefinedNames.push(image.symbols.name(i));
      }
      expect(undefinedNames).toEqual([]);
      const kinds = new Map<string, Set<number>>();
      for (const section of image.sections) {
        for (const table of image.relocationsOf(section)) {
          kinds.set(section.name, new Set(table.type.slice(0, table.count)));
        }
      }
      expect([...kinds.get('.text')!].sort()).toEqual([R_X86_64_PC32, R_X86_64_PLT32]);
      expect(kinds.size).toBe(2);
      expect([...kinds.get('.data.rel.local')!]).toEqual([R_X86_64_64]);
    }
  });

  test('X-ENT-1 __fentry__, mcount and ftrace_stub are one c3', () => {
    for (const flavour of FLAVOURS) {
      const image = readElf(objectOf(flavour));
      const text = image.contents(image.section('.text')!);
      for (const name of ['__fentry__', 'mcount', 'ftrace_stub']) {
        expect([name, text[Number(image.symbols.value[image.symbols.find(name)]!)]]).toEqual([name, 0xc3]);
      }
    }
  });

  test('abi.h and abi.ts say the same', () => {
    const header = readFileSync(join(root, 'src/arch-x86/entry.h'), 'utf8');
    expect(header).toContain(`#define THREADS_FS ${String(THREAD_MODES.fs)}\n`);
    expect(header).toContain(`#define THREADS_GS ${String(THREAD_MODES.gs)}\n`);
    expect(DIRECT_WORDS).toEqual({ count: 0, pairs: 1 });
    // elftrace_vector_func reads the private word at 24(%rdx).
    expect(OPS_WORDS.private * 8).toBe(24);
  });
});

describeWith(['objdump'], 'code of the objects', () => {
  test.each(FLAVOURS)(
    'C-FG-7 %s: no vectors and no x87 but in elftrace_vector_func, no red zone, no GOT',
    (flavour) => {
      const text = run('objdump', ['-d', '--no-show-raw-insn', objectPath(flavour)]).toString();
      let name = '';
      const bad: string[] = [];
      let count = 0;
      for (const line of text.split('\n')) {
        const label = /^[0-9a-f]+ <(.*)>:$/.exec(line);
        if (label) name = label[1]!;
        if (!/^ +[0-9a-f]+:\t/.test(line)) continue;
        count++;
        const vectors = /%[xyz]mm|%st|%mm\d|mxcsr/.test(line) && name !== 'elftrace_vector_func';
        if (vectors || /-0x[0-9a-f]+\(%rsp/.test(line) || line.includes('endbr')) bad.push(`${name}: ${line.trim()}`);
      }
      expect(bad).toEqual([]);
      expect(count).toBeGreaterThan(400);
    },
  );
});

// -------------------------------------------------------------------------------------------- runs

type Build = 'gcc-O2' | 'gcc-O0' | 'gcc-pie' | 'clang-O2' | 'clang-O0';
const GCC = 'x86_64-linux-gnu-gcc';
const native = isX86Linux;
const programs = new Map<string, string>();
const DEFINES: Readonly<Record<Flavour, string>> = { modern: '-DMODERN', y2014: '-DY2014', mcount: '-DMCOUNT' };

/**
 * Builds the program once per flavour, compiler and level; the traced functions are what differs.
 */
function program(flavour: Flavour, build: Build): string {
  const key = `${flavour}-${build}`;
  const known = programs.get(key);
  if (known !== undefined) return known;
  const pie = build === 'gcc-pie';
  const place = pie ? ['-fPIE', '-DSIX'] : ['-fno-pie'];
  const common = [...place, DEFINES[flavour], `-I${join(root, 'src/runtime')}`];
  const parts = [['harness.c', '-O1'], ['probe.S', '-O1']].map(([source, level]) => {
    const object = join(folder, `${flavour}${pie ? '-pie' : ''}-${source!}.o`);
    if (!programs.has(object)) run(GCC, [level!, ...common, '-c', join(sources, source!), '-o', object]);
    programs.set(object, object);
    return object;
  }); // prettier-ignore
  const traced = join(folder, `${key}-traced.o`);
  const profile = flavour === 'mcount' ? ['-pg'] : ['-pg', '-mfentry'];
  const compiler = build.startsWith('clang') ? ['clang', '--target=x86_64-linux-gnu'] : [GCC];
  const level = build.endsWith('O0') ? '-O0' : '-O2';
  run(compiler[0]!, [
    ...compiler.slice(1), level, ...profile, pie ? '-fPIE' : '-fno-pie', '-fno-inline',
    ...(build.startsWith('gcc') ? ['-DNESTED'] : []), '-c', join(sources, 'traced.c'), '-o', traced,
  ]); // prettier-ignore
  const path = join(folder, key);
  run(GCC, [
    pie ? '-static-pie' : '-static',
    ...(pie ? ['-Wl,-z,text'] : ['-no-pie']),
    ...parts,
    traced,
    objectPath(flavour),
    '-o',
    path,
  ]);
  programs.set(key, path);
  return path;
}

function scenario(cpu: 'native' | 'qemu', path: string, args: readonly string[]): string {
  const command = cpu === 'native' ? [path, ...args] : ['qemu-x86_64', path, ...args];
  const result = spawnSync(command[0]!, command.slice(1), { encoding: 'utf8', timeout: 20_000 });
  return `${result.stdout}${result.stderr}${result.signal === null ? '' : ` ${result.signal}`}`.trim();
}

let checks = 0;
function expectOk(cpu: 'native' | 'qemu', path: string, args: readonly string[]): void {
  const output = scenario(cpu, path, args);
  expect(output).toMatch(new RegExp(`^ok ${args[0]!} \\d+$`));
  checks += Number(output.split(' ')[2]);
}

const SCENARIOS: readonly (readonly [string, string])[] = [
  ['registers', 'X-ENT-10, T-X86-25, X-ENT-5: every register through both entries, at every stack alignment'],
  ['frame', 'X-ENT-7: what a callback stores in the frame is what the function finds'],
  ['calls', 'C-TGT-6, C-TGT-7: ten arguments, varargs, doubles, structures, long doubles under every tracer; nops'],
  ['list', 'C-TGT-5, C-HASH-1, C-HASH-3: two and three ops'],
  ['alignment', 'X-ENT-2, C-FG-7: callbacks of ordinary C with vectors, from misaligned stacks'],
  ['graph', 'C-FG-1 to 3, C-FG-7, C-FG-8, X-ENT-3, X-ENT-4: results, overrun, longjmp, tail calls'],
  ['ipmodify', 'X-ENT-7: a callback changes where the function goes on'],
  ['direct', 'X-DIR-1, C-DIR-1: a direct caller alone, and through orig_ax'],
  ['threads', 'four threads with graph, told apart by fs'],
];

function applies(name: string, flavour: Flavour, build: Build): boolean {
  // The place to go on knows the frames that gcc makes; clang has saved registers by then, and
  // moved the arguments.
  if (name === 'ipmodify' && flavour === 'mcount') return build.startsWith('gcc');
  return name !== 'direct' || flavour === 'modern';
}

function runAll(cpu: 'native' | 'qemu', builds: readonly Build[]): void {
  for (const flavour of FLAVOURS) {
    for (const build of builds) {
      describe(`${cpu}: ${flavour}, ${build}`, () => {
        for (const [name, title] of sampled(SCENARIOS, 2)) {
          if (!applies(name, flavour, build)) continue;
          test(`${name}: ${title}`, () => {
            expectOk(cpu, program(flavour, build), [name]);
          });
        }
      });
    }
  }
}

const place = 0x1000_0000n;

/** A trampoline for the program's `spoil` and `ops_b`, made for `address`. */
function blockFor(
  path: string,
  flavour: Flavour,
  kind: TemplateKind,
  address: bigint,
  returns?: (image: ElfImage) => TrampolineReturn,
): string {
  const image = readElf(new Uint8Array(readFileSync(path)));
  const find = (name: string): bigint | null => {
    const index = image.symbols.find(name);
    return index <= 0 ? null : image.symbols.value[index]!;
  };
  const template = findTemplate(kind, flavour === 'modern' ? 'modern' : '2014', find);
  if (template.kind === 'refused') throw new Error(template.reason);
  const offset = image.fileOffsetOf(template.start);
  const block = buildTrampoline({
    template,
    bytes: image.bytes.slice(offset, offset + template.size),
    address,
    ops: find('ops_b')!,
    callee: find('spoil')!,
    ...(returns && { returns: returns(image) }),
  });
  if (block.kind === 'refused') throw new Error(block.reason);
  expect(readTrampoline(block.bytes, address, block)).toMatchObject({ ops: find('ops_b'), callee: find('spoil') });
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${flavour}-${kind}.block`);
  writeFileSync(file, block.bytes);
  return file;
}

const hexAddress = (address: bigint): string => `0x${address.toString(16)}`;

function runTrampolines(cpu: 'native' | 'qemu'): void {
  for (const flavour of FLAVOURS) {
    describe(`${cpu}: trampolines of ${flavour}`, () => {
      for (const kind of ['plain', 'regs'] as const) {
        const title = `T-X86-15 T-X86-20${flavour === 'modern' ? '' : ' T-X86-26'} ${kind}: its own ops with garbage in the global word`;
        test(title, () => {
          const path = program(flavour, 'gcc-O2');
          const file = blockFor(path, flavour, kind, place + 3n);
          expectOk(cpu, path, ['trampoline', file, hexAddress(place + 3n), kind === 'plain' ? '0' : '1']);
        });
        if (flavour === 'modern') {
          test(`X-TR-11 ${kind}: with c3 cc and with a return thunk`, () => {
            const path = program(flavour, 'gcc-O2');
            const thunk = (image: ElfImage): TrampolineReturn => ({
              kind: 'thunk',
              address: image.symbols.value[image.symbols.find('ftrace_stub')]!,
            });
            for (const returns of [thunk, (): TrampolineReturn => ({ kind: 'ret', sizeBytes: 2 })]) {
              const file = blockFor(path, flavour, kind, place, returns);
              expectOk(cpu, path, ['trampoline', file, hexAddress(place), kind === 'plain' ? '0' : '1']);
            }
          });
        }
        test(`T-X86-39 ${kind}: moved by 0x100 the ops are right, the call is not`, () => {
          const path = program(flavour, 'gcc-O2');
          const file = blockFor(path, flavour, kind, place);
          expectOk(cpu, path, ['moved', file, hexAddress(place + 0x100n)]);
        });
      }
    });
  }
}

if (native) {
  describeWith([GCC], 'entries on this processor', () => {
    runAll('native', ['gcc-O2', 'gcc-O0', 'gcc-pie']);
    runTrampolines('native');
  });
  describeWith([GCC, 'clang'], 'entries on this processor, code of clang', () => {
    runAll('native', ['clang-O2', 'clang-O0']);
  });
} else {
  process.stderr.write('skipped: entries of x86-64 on this processor: it is another one\n');
}

describeWith([GCC, 'qemu-x86_64'], 'entries under qemu', () => {
  runAll('qemu', ['gcc-O2', 'gcc-O0', 'gcc-pie']);
  runTrampolines('qemu');
});

describeWith([GCC], 'the objects in a position-independent link', () => {
  test('RT-3 no relocation of text, nothing but relative words in data', () => {
    const ld = tool('x86_64-linux-gnu-ld') === null ? 'ld' : 'x86_64-linux-gnu-ld';
    for (const flavour of FLAVOURS) {
      const out = join(folder, `${flavour}.pie`);
      run(ld, [
        '-pie',
        '-z',
        'text',
        '--no-dynamic-linker',
        '--fatal-warnings',
        '-e',
        'ftrace_caller',
        objectPath(flavour),
        '-o',
        out,
      ]);
      const image = readElf(new Uint8Array(readFileSync(out)));
      expect(image.section('.got')?.size ?? 0).toBe(0);
      expect(image.section('.plt')?.size ?? 0).toBe(0);
    }
  });
});

afterAll(() => {
  process.stdout.write(`checks made inside the programs: ${String(checks)}\n`);
});
