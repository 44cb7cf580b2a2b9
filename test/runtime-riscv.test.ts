/**
 * The entries of RISC-V in programs that are traced everywhere: they print what they print
 * untraced, under qemu-user and here, and every record holds together. Every generation of sites,
 * with and without compressed instructions. And the prebuilt objects themselves.
 */
import { few, isLong, isWhole, sampled } from './support/long.js';
import { spawnSync } from './support/spawn.js';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { riscvTable } from '../src/arch-riscv/isa.js';
import { SHN_UNDEF } from '../src/elf/constants.js';
import { readElf } from '../src/elf/read.js';
import { RING_SECTIONS, runtimeObject } from '../src/runtime/index.js';
import { OBJECTS } from '../src/runtime/objects.js';
import { scratch } from './support/c-programs.js';
import { root } from './support/pipeline.js';
import {
  addressOf,
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
import { buildTraced, runTracedHere, runTracedQemu, startTraced } from './support/runtime-harness.js';
import { describeWith } from './support/tools.js';
import { conventionNames, conventionRow } from './support/conventions.js';
import { conventionMark } from '../src/machine/conventions.js';

const ENTRIES = RISCV_FLAVOURS.flatMap((flavour) =>
  (flavour === 'g2-plain' ? (['ftrace_caller'] as const) : (['ftrace_caller', 'ftrace_regs_caller'] as const)).map(
    (entry) => [flavour, entry] as const,
  ),
);
const ALL = ['counter', 'function', 'graph', 'both'] as const;

test('the flavours of the target', () => {
  expect(conventionNames('riscv64').sort()).toEqual([...RISCV_FLAVOURS].sort());
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
  for (const group of Object.values(conventionRow('riscv64', flavour).symbols)) {
    for (const name of group) expect([name, symbols.find(name) > 0]).toEqual([name, true]);
  }
  expect(symbols.find(conventionMark(flavour))).toBeGreaterThan(0);
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

/** The runtime of G2 with other flags; the path of the object. */
function buildRuntime(flags: readonly string[], march = 'rv64g'): string {
  const gcc = TRACED_TARGETS[0]!.gcc;
  const objects = ['runtime/runtime.c', 'arch-riscv/entry-g2.S', 'arch-riscv/entry-common.S'].map((source) => {
    const object = scratch('variant.o');
    run(gcc, [
      '-O2', `-march=${march}`, '-mabi=lp64d', '-mcmodel=medany', '-mno-relax', '-ffreestanding', '-fno-pie', '-fno-stack-protector',
      '-DRUNTIME_REGS', '-DENTRY_DIRECT', '-DGRAPH_CALL', ...flags, '-I', join(root, 'src/runtime'), '-I', join(root, 'src/arch-riscv'),
      '-c', join(root, 'src', source), '-o', object,
    ]); // prettier-ignore
    return object;
  });
  const runtime = scratch('variant-runtime.o');
  run(gcc.replace('gcc', 'ld'), ['-r', ...objects, '-o', runtime]);
  return runtime;
}

/** Instructions of a function as `objdump -M no-aliases` prints them, words first. */
function listing(path: string, from: string, to: string): string[] {
  const { stdout } = spawnSync('riscv64-linux-gnu-objdump', ['-d', '-M', 'no-aliases', path], { encoding: 'utf8' });
  const lines: string[] = [];
  let inside = false;
  for (const line of stdout.split('\n')) {
    const label = /<(\w+)>:$/.exec(line)?.[1];
    if (label === from) inside = true;
    else if (label === to) inside = false;
    const found = /^\s*[0-9a-f]+:\s+([0-9a-f]+)\s+(\S+)\s*([^\s#<]*)/.exec(line);
    if (inside && found) lines.push(found.slice(1, 4).join(' ').trim());
  }
  return lines;
}

describeWith(['riscv64-linux-gnu-gcc', 'riscv64-linux-gnu-objdump'], 'instructions', () => {
  const prebuilt = (flavour: (typeof RISCV_FLAVOURS)[number]): string => {
    const path = scratch('prebuilt.o');
    writeFileSync(path, runtimeObject('riscv64', flavour)!);
    return path;
  };
  const kept = (path: string): string[] =>
    listing(path, 'return_to_handler', 'ftrace_stub_direct_tramp').filter((line) => /sd|ld|jalr|addi sp/.test(line));

  test.each(['g2', 'g2-plain', 'g1', 'g0'] as const)(
    'R-ENT-4: %s: 32 bytes, s0 16, ra 24, a0 8, and a1 at 0; the result leaves through a2',
    (flavour) => {
      expect(kept(prebuilt(flavour)).slice(0, 12)).toEqual([
        'fe010113 addi sp,sp,-32', '00813823 sd s0,16(sp)', '00113c23 sd ra,24(sp)', '00a13423 sd a0,8(sp)', '00b13023 sd a1,0(sp)',
        '000080e7 jalr ra,0(ra)',
        '01813083 ld ra,24(sp)', '01013403 ld s0,16(sp)', '00813503 ld a0,8(sp)', '00013583 ld a1,0(sp)',
        '02010113 addi sp,sp,32', '000600e7 jalr ra,0(a2)',
      ]); // prettier-ignore
    },
  );

  test.each(['g2-merged', 'g3', 'g3c'] as const)(
    'R-ENT-4: %s: the frame of 112 bytes: ra 8, s0 24, a0 40, a1 48; the result leaves through a2',
    (flavour) => {
      expect(kept(prebuilt(flavour)).slice(0, 12)).toEqual([
        'f9010113 addi sp,sp,-112', '00813c23 sd s0,24(sp)', '00113423 sd ra,8(sp)', '02a13423 sd a0,40(sp)', '02b13823 sd a1,48(sp)',
        '000080e7 jalr ra,0(ra)',
        '00813083 ld ra,8(sp)', '01813403 ld s0,24(sp)', '02813503 ld a0,40(sp)', '03013583 ld a1,48(sp)',
        '07010113 addi sp,sp,112', '000600e7 jalr ra,0(a2)',
      ]); // prettier-ignore
    },
  );

  test('R-ENT-4: that of 2022: a1 is not saved, and what it leaves through', () => {
    expect(kept(buildRuntime(['-DHANDLER_2022'])).slice(0, 10)).toEqual([
      'fe010113 addi sp,sp,-32', '00813823 sd s0,16(sp)', '00113c23 sd ra,24(sp)', '00a13423 sd a0,8(sp)',
      '000080e7 jalr ra,0(ra)',
      '01813083 ld ra,24(sp)', '01013403 ld s0,16(sp)', '00813503 ld a0,8(sp)',
      '02010113 addi sp,sp,32', '000580e7 jalr ra,0(a1)',
    ]); // prettier-ignore
  });

  test('R-ENT-9: the stubs: ret, ret, and jr t0 for the smallest direct caller', () => {
    const path = prebuilt('g2');
    expect(listing(path, 'ftrace_stub', 'elftrace_invoke')).toEqual(['00008067 jalr zero,0(ra)']);
    expect(listing(path, '_mcount', 'ftrace_nothing')[0]).toBe('00008067 jalr zero,0(ra)');
    expect(listing(path, 'ftrace_stub_direct_tramp', '_mcount')).toEqual(['00028067 jalr zero,0(t0)']);
  });

  test.each([
    [
      'g2',
      'ftrace_regs_caller',
      'ftrace_regs_caller_end',
      ['ff828513', '00031463', '00028067', '00030067', '02013823'],
    ],
    ['g2-merged', 'ftrace_caller', 'elftrace_never', ['ff828513', '00000313', '00031463', '00028067', '00030067']],
    ['g3', 'ftrace_caller', 'elftrace_never', ['ffc28513', '00000313', '00031463', '00028067', '00030067']],
    [
      'g3c',
      'ftrace_caller',
      'elftrace_never',
      ['ffc28513', 'ff02b303', 'ff02b603', '00031463', '00028067', '00030067'],
    ],
    ['g2-plain', 'ftrace_caller', 'elftrace_never', ['ff828513', '00028067']],
    ['g1', 'ftrace_caller', 'elftrace_never', ['ff408513', '00008067']],
  ] as const)('R-ENC-4, R-ENT-8: words of %s', (flavour, from, to, words) => {
    const found = listing(prebuilt(flavour), from, to).map((line) => line.split(' ')[0]);
    // The exit stands behind its label.
    if (flavour === 'g2')
      found.push(
        ...listing(prebuilt(flavour), 'ftrace_regs_caller_end', 'elftrace_never').map((line) => line.split(' ')[0]),
      );
    for (const word of words) expect([word, found.includes(word)]).toEqual([word, true]);
  });
});

for (const [at, target] of TRACED_TARGETS.entries()) {
  /** Uncompressed code goes through the same entries: one row of each table shows it. */
  const rows = <T>(all: readonly T[]): readonly T[] => (at === 0 ? all : few(all));
  describeWith([target.gcc, target.qemu], `traced programs on ${target.name}`, () => {
    const features = [join(PROGRAMS, 'runtime/features.c')];
    const flags = ['-std=gnu11'];

    test.each(
      at === 0
        ? sampled(ENTRIES, 4)
        : few(
            ENTRIES.filter(([flavour]) => flavour === 'g2'),
            2,
          ),
    )(
      'R-ENT-0, R-ENT-1, R-ENT-2, R-ENT-4, C-FG-1, C-FG-2, C-FG-3: arguments, results, nested functions, recursion: %s, %s',
      (flavour, entry) => {
        // Plain entries of G0 and G1, and those without register support, pass no frame.
        const hasFrame = entry === 'ftrace_regs_caller' || !['g0', 'g1', 'g2-plain'].includes(flavour);
        for (const level of isWhole || (isLong && flavour === 'g2') ? ['0', '2'] : ['2']) {
          const build = { target, flavour, entry, level, sources: features, flags };
          expect(checkTraced(build, hasFrame ? ALL : ['counter', 'function'], true)).toBeGreaterThan(500);
        }
      },
    );

    test.each(rows(ENTRIES.filter(([flavour, entry]) => entry === 'ftrace_regs_caller' || flavour === 'g2')))(
      'C-FG-7: eight doubles, mixed and variable arguments, complex results: %s, %s',
      (flavour, entry) => {
        const sources = [join(PROGRAMS, 'runtime/doubles.c')];
        expect(checkTraced({ target, flavour, entry, level: '2', sources, flags }, ALL, true)).toBeGreaterThan(10);
      },
    );

    test.each(
      rows([
        ['g2', 'ftrace_caller'],
        ['g2', 'ftrace_regs_caller'],
        ['g2-plain', 'ftrace_caller'],
      ] as const),
    )(
      'R-ENT-3, R-MOD-4, R-MOD-5: %s: the graph tracer as a second patched call of %s, and two nops when it is off',
      (flavour, entry) => {
        const build = { target, flavour, entry, sources: features, flags, callee: 'ftrace_stub' };
        const expected = runTracedQemu(target, buildTraced({ ...build, tracer: 'none' }));
        for (const on of [true, false]) {
          const path = buildTraced({ ...build, tracer: 'function' });
          edit(path, (program) => {
            const to = program.address('ftrace_graph_caller');
            for (const call of flavour === 'g2'
              ? ['ftrace_graph_call', 'ftrace_graph_regs_call']
              : ['ftrace_graph_call']) {
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
      const runtime = buildRuntime(['-DHANDLER_2022']);
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

    test('T-RV-7, R-ENT-6: a compressed build ends in 00031363, 8282, 8302, and both ways are taken', () => {
      const runtime = buildRuntime(['-DENTRY_COMPRESSED'], 'rv64gc');
      const exit = listing(runtime, 'ftrace_regs_caller_end', 'elftrace_never').slice(0, 3);
      expect(exit.map((line) => line.split(' ')[0])).toEqual(['00031363', '8282', '8302']);
      const build = { target, flavour: 'g2' as const, entry: 'ftrace_regs_caller' as const, sources: features, flags };
      const expected = runTracedQemu(target, buildTraced({ ...build, tracer: 'none' }));
      const path = buildTraced({ ...build, tracer: 'function', runtime });
      expect(runTracedQemu(target, path).output).toBe(expected.output);
      const { process: guest, output } = startTraced(target, path);
      const image = readElf(new Uint8Array(readFileSync(path)));
      const address = (name: string): bigint => addressOf(image, name);
      const end = address('ftrace_regs_caller_end');
      const taken = { t0: 0, t1: 0, direct: 0 };
      let calls = 0;
      const { machine } = guest;
      // Every other call: what a helper of direct callers does.
      machine.hook(address('elftrace_function_tracer'), () => {
        if (calls++ % 2 === 0) machine.writeWord(machine.register('a3') + 48n, 8, address('ftrace_stub_direct_tramp'));
        return 'continue';
      });
      machine.hook(end + 4n, () => (taken.t0++, 'continue'));
      machine.hook(end + 6n, () => (taken.t1++, 'continue'));
      machine.hook(address('ftrace_stub_direct_tramp'), () => (taken.direct++, 'continue'));
      expect(guest.run({ budget: 100_000_000 })).toMatchObject({ kind: 'exit', code: expected.end });
      expect(output[1]).toBe(expected.output);
      expect(calls).toBeGreaterThan(500);
      expect(taken).toEqual({ t0: calls >> 1, t1: calls - (calls >> 1), direct: calls - (calls >> 1) });
    });

    test.each(
      rows([
        ['g2', 'graph', 'ftrace_regs_caller'],
        ['g2', 'graph', 'ftrace_caller'],
        ['g2-merged', 'graph', 'ftrace_caller'],
        ['g3c', 'graph', 'ftrace_caller'],
        ['g1', 'graph', 'ftrace_regs_caller'],
      ] as const),
    )(
      'C-FG-2: a function that returns with another frame pointer stops the graph for good, and the program goes on: %s, %s, %s',
      (flavour, tracer, entry) => {
        const build = { target, flavour, entry, sources: features, flags };
        const expected = runTracedQemu(target, buildTraced({ ...build, tracer: 'none' }));
        const path = buildTraced({ ...build, tracer });
        const { process: guest, output } = startTraced(target, path);
        const { machine } = guest;
        const image = readElf(new Uint8Array(readFileSync(path)));
        const address = (name: string): bigint => addressOf(image, name);
        let returns = 0;
        let s0 = 0n;
        machine.hook(address('return_to_handler'), () => {
          returns++;
          if (returns === 5) {
            s0 = machine.register('s0');
            machine.setRegister('s0', s0 ^ 8n);
          }
          return 'continue';
        });
        let pushes = 0;
        machine.hook(address('ftrace_graph_func'), () => (pushes++, 'continue'));
        machine.hook(address('elftrace_return_end'), () => {
          if (returns === 5 && s0 !== 0n) {
            expect(machine.register('s0')).toBe(s0 ^ 8n);
            machine.setRegister('s0', s0);
            s0 = 0n;
            pushes = 0;
          }
          return 'continue';
        });
        expect(guest.run({ budget: 100_000_000 })).toMatchObject({ kind: 'exit', code: expected.end });
        expect(output[1]).toBe(expected.output);
        expect(machine.readWord(address('elftrace_graph_stopped'), 8)).toBe(1n);
        // Called on, hooked no more: what was open returns, that is all.
        expect(pushes).toBeGreaterThan(300);
        expect(returns).toBeLessThan(20);
      },
    );

    test.each(few(['varargs', 'recursion', 'sort']))(
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
