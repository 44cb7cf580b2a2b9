/**
 * The entries of RISC-V in programs that are traced everywhere: they print what they print untraced, under qemu-user and here, and every record
 * holds together. Every generation of sites, with and without compressed instructions. And the prebuilt objects themselves.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { SHN_UNDEF } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { flavourMark, RING_SECTIONS, runtimeFlavours, runtimeObject, runtimeSymbols } from '../src/runtime/index.js';
import { OBJECTS } from '../src/runtime/objects.js';
import { scratch } from './support/c-programs.js';
import { root } from './support/pipeline.js';
import {
  compile,
  edit,
  flavourFlags,
  linkTraced,
  PROGRAMS,
  renamed,
  RISCV_FLAVOURS,
  run,
  setCallee,
  TRACED_TARGETS,
} from './support/riscv-runtime.js';
import { checkTraced } from './support/runtime-check.js';
import { buildTraced, runTracedHere, runTracedQemu } from './support/runtime-harness.js';
import { describeWith } from './support/tools.js';

const ENTRIES = RISCV_FLAVOURS.flatMap((flavour) =>
  (['ftrace_caller', 'ftrace_regs_caller'] as const).map((entry) => [flavour, entry] as const),
);
const ALL = ['counter', 'function', 'graph', 'both'] as const;

test('the flavours of the target', () => {
  expect([...runtimeFlavours('riscv64')].sort()).toEqual([...RISCV_FLAVOURS].sort());
});

test.each(RISCV_FLAVOURS)('RT-3, C-FG-7, R-ENT-6: the object of %s', (flavour) => {
  const bytes = runtimeObject('riscv64', flavour)!;
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(OBJECTS[`riscv64/${flavour}`]!.sha256);
  const image = readElf(bytes);
  const { symbols } = image;
  const undefinedNames = [...symbols.sectionIndex].map((section, i) => (section === SHN_UNDEF ? symbols.name(i) : ''));
  expect(undefinedNames.filter((name) => name !== '')).toEqual([]);
  const sections = image.sections.map((section) => section.name);
  expect(sections.filter((name) => /^\.(got|plt|sdata|sbss|comment)/.test(name))).toEqual([]);
  expect(sections).toEqual(expect.arrayContaining([RING_SECTIONS.header, RING_SECTIONS.records]));
  for (const group of Object.values(runtimeSymbols(flavour))) {
    for (const name of group) expect([name, symbols.find(name) > 0]).toEqual([name, true]);
  }
  expect(symbols.find(flavourMark(flavour))).toBeGreaterThan(0);
  // R_RISCV_64, BRANCH, JAL, CALL_PLT, PCREL_HI20 and its LO12; nothing that a linker would relax.
  const types = new Set<number>();
  for (const section of image.sections) {
    for (const table of image.relocationsOf(section)) for (let i = 0; i < table.count; i++) types.add(table.type[i]!);
  }
  expect([...types].filter((type) => ![2, 16, 17, 19, 23, 24, 25].includes(type))).toEqual([]);
  // Words of four bytes, general registers only.
  const text = image.section('.text')!;
  const view = new DataView(bytes.buffer, bytes.byteOffset + text.offset, text.size);
  let count = 0;
  for (let at = 0; at < text.size; at += 4) {
    const value = view.getUint32(at, true);
    expect([at, value & 3]).toEqual([at, 3]);
    const decoded = riscvTable.decode(value);
    expect([at, decoded?.row.mnemonic]).not.toEqual([at, undefined]);
    expect(decoded!.row.mnemonic).not.toMatch(/^(f(?!ence)|v)/);
    count++;
  }
  expect(count).toBeGreaterThan(400);
});

for (const target of TRACED_TARGETS) {
  describeWith([target.gcc, target.qemu], `traced programs on ${target.name}`, () => {
    const features = [join(PROGRAMS, 'runtime/features.c')];
    const flags = ['-std=gnu11'];

    test.each(ENTRIES)(
      'R-ENT-0, R-ENT-1, R-ENT-2, R-ENT-4, C-FG-1, C-FG-2, C-FG-3: arguments, results, nested functions, recursion: %s, %s',
      (flavour, entry) => {
        // Plain entries of G0 and G1 pass no frame.
        const hasFrame = entry === 'ftrace_regs_caller' || (flavour !== 'g0' && flavour !== 'g1');
        for (const level of ['0', '2']) {
          const build = { target, flavour, entry, level, sources: features, flags };
          expect(checkTraced(build, hasFrame ? ALL : ['counter', 'function'], true)).toBeGreaterThan(500);
        }
      },
    );

    // Under qemu only: the emulator has no floating point arithmetic on RISC-V.
    test.each(ENTRIES.filter(([flavour, entry]) => entry === 'ftrace_regs_caller' || flavour === 'g2'))(
      'C-FG-7: eight doubles, mixed and variable arguments, complex results: %s, %s',
      (flavour, entry) => {
        const sources = [join(PROGRAMS, 'runtime/doubles.c')];
        expect(checkTraced({ target, flavour, entry, level: '2', sources, flags }, ALL, false)).toBeGreaterThan(10);
      },
    );

    test.each(['ftrace_caller', 'ftrace_regs_caller'] as const)(
      'R-ENT-3, R-MOD-4, R-MOD-5: the graph tracer as a second patched call of %s, and two nops when it is off',
      (entry) => {
        const build = { target, flavour: 'g2' as const, entry, sources: features, flags, callee: 'ftrace_stub' };
        const expected = runTracedQemu(target, buildTraced({ ...build, tracer: 'none' }));
        for (const on of [true, false]) {
          const path = buildTraced({ ...build, tracer: 'function' });
          edit(path, (program) => {
            const to = program.address('ftrace_graph_caller');
            for (const call of ['ftrace_graph_call', 'ftrace_graph_regs_call']) {
              const at = program.address(call);
              program.pair(1, at, to);
              if (on) continue;
              program.word(at, 0x13);
              program.word(at + 4n, 0x13);
            }
          });
          for (const outcome of [runTracedQemu(target, path), runTracedHere(target, path)]) {
            expect([outcome.end, outcome.output]).toEqual([expected.end, expected.output]);
            const { entries = 0, returns = 0, overrun = 0 } = outcome.report;
            expect(outcome.report).toMatchObject({
              'wrong-site': 0,
              'wrong-parent': 0,
              unpaired: 0,
              depth: 0,
              stopped: 0,
            });
            expect([entries > 300, entries === returns, overrun > 0]).toEqual([on, true, on]);
          }
        }
      },
    );

    test('R-ENT-4: the return handler of 2022 loses the second half of a result of 16 bytes; ours does not', () => {
      const objects = ['runtime/runtime.c', 'arch-riscv/entry-g2.S', 'arch-riscv/entry-common.S'].map((source) => {
        const object = scratch('handler.o');
        run(target.gcc, [
          '-O2', '-march=rv64g', '-mabi=lp64d', '-mcmodel=medany', '-mno-relax', '-ffreestanding', '-fno-pie', '-fno-stack-protector',
          '-DRUNTIME_REGS', '-DENTRY_DIRECT', '-DGRAPH_CALL', '-DHANDLER_2022', '-I', join(root, 'src/runtime'), '-I', join(root, 'src/arch-riscv'),
          '-c', join(root, 'src', source), '-o', object,
        ]); // prettier-ignore
        return object;
      });
      const runtime = scratch('handler-2022.o');
      run(target.gcc.replace('gcc', 'ld'), ['-r', ...objects, '-o', runtime]);
      const build = { target, flavour: 'g2' as const, sources: features, flags };
      const expected = runTracedQemu(target, buildTraced({ ...build, tracer: 'none' }));
      const ours = runTracedQemu(target, buildTraced({ ...build, tracer: 'graph' }));
      const old = runTracedQemu(target, buildTraced({ ...build, tracer: 'graph', runtime }));
      expect(ours.output).toBe(expected.output);
      const lines = expected.output.split('\n');
      const wrong = old.output.split('\n').filter((line, i) => line !== lines[i]);
      // `wider` and `pair` have two results.
      expect(wrong.length).toBeGreaterThan(0);
      expect([...new Set(wrong.map((line) => line.split(' ')[0]))]).toEqual(expect.arrayContaining(['wider']));
      expect(old.end).toBe(expected.end);
    });

    test.each(['recursion', 'sort', 'varargs'])(
      'G0, clang, which passes nothing to the profiling entry: %s',
      (name) => {
        if (spawnSync('clang', ['--version']).status !== 0) {
          process.stdout.write('not run: clang is not installed\n');
          return;
        }
        const object = scratch('clang.o');
        run('clang', [
        '--target=riscv64-linux-gnu', ...target.flags, '-O2', '-w', '-pg', '-ffreestanding', '-fno-pie', '-I', PROGRAMS,
        '-c', join(PROGRAMS, `${name}.c`), '-o', object,
      ]); // prettier-ignore
        const build = (entry: string): string => {
          const objects = [
            renamed(target, object, { main: 'traced_main', _mcount: entry }),
            compile(target, join(PROGRAMS, 'runtime/report.c'), [
              '-O2',
              ...flavourFlags('g0'),
              '-DUSE_FUNCTION',
              '-DUSE_GRAPH',
            ]),
          ];
          return linkTraced(target, 'g0', objects);
        };
        const expected = runTracedQemu(target, build('ftrace_stub'));
        expect(expected.report).toMatchObject({ head: 0 });
        const path = build('ftrace_regs_caller');
        edit(path, (program) => {
          setCallee(program, 'g0', 'ftrace_ops_list_func');
        });
        for (const outcome of [runTracedQemu(target, path), runTracedHere(target, path)]) {
          expect([outcome.end, outcome.output]).toEqual([expected.end, expected.output]);
          expect(outcome.report).toMatchObject({
            'wrong-site': 0,
            'wrong-parent': 0,
            depth: 0,
            stopped: 0,
          });
          expect(outcome.report['returns']).toBeGreaterThan(3);
        }
      },
    );

    test('C-FG-1: what does not fit the shadow stack is counted and not hooked', () => {
      const { report } = runTracedHere(
        target,
        buildTraced({ target, flavour: 'g2', tracer: 'graph', sources: features, flags }),
      );
      expect(report).toMatchObject({ deepest: 64, unpaired: 0, abandoned: 0 });
      expect(report['entries']).toBe(report['returns']);
      expect(report['overrun']).toBeGreaterThan(200);
    });
  });
}
