/**
 * Several ops on x86-64, through the core, executed: who is called, by which way, and how often the
 * list function runs; with trampolines of today, of 2014, and without. What is expected follows
 * from the calls that the machine sees in the untraced program's functions.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import type { ElfImage } from '../src/elf/image.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import { GraphUser, type Ops, type Outcome } from '../src/ftrace/index.js';
import type { Arch } from '../src/machine/arch.js';
import type { BreakpointPatching, LivePatch } from '../src/machine/live-patching.js';
import { liveText, outsideTracer } from '../src/tracing/live.js';
import { Session } from '../src/tracing/session.js';
import { readLoadMap } from '../src/program/load-map.js';
import { loadSamples } from './support/loaded.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { openBytes, readSample, sampleNames } from './support/pipeline.js';
import { withRuntime } from '../src/tracing/inject.js';

const variants = [
  { tramp: 'modern', flavour: 'modern' },
  { tramp: '2014', flavour: 'y2014' },
  { tramp: 'none', flavour: 'modern' },
] as const;
type Variant = (typeof variants)[number];

/** Core and modules near it, so that all sites reach a trampoline. */
const imageOf = ({ tramp, flavour }: Variant): Uint8Array =>
  loadSamples(
    { target: 'x86-64', ending: '', flavour },
    { moduleBase: 0x2000_0000n, options: { machine: { 'x86-tramp': tramp } } },
  ).bytes;
const open = (bytes: Uint8Array): Session => Session.open(bytes, archOf(readElf(bytes).header));

function done(outcome: Outcome): void {
  expect(outcome).toMatchObject({ kind: 'done' });
}

interface Run {
  readonly output: string;
  /** Times that the first instruction of a symbol's function was executed. */
  readonly entered: ReadonlyMap<string, number>;
  /** Calls that an ops with elftrace_counter got. */
  counted(ops: Ops): number;
}

function run(session: Session, watched: readonly string[]): Run {
  const bytes = session.bytes();
  const { image, arch, program } = openBytes(bytes);
  const { emulation } = arch;
  if (emulation.kind !== 'ir') throw new Error('not executed');
  let output = '';
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation,
    onOutput: (_fd, chunk) => {
      output += new TextDecoder().decode(chunk);
    },
  });
  const entered = new Map<string, number>();
  for (const name of watched) {
    entered.set(name, 0);
    machine.hook(program.definedAt(program.symbols.find(name))!, () => {
      entered.set(name, entered.get(name)! + 1);
      return 'continue';
    });
  }
  expect(machine.run({ budget: 5_000_000 })).toMatchObject({ kind: 'exit', code: 51 });
  expect(output).toMatch(/checksum 0x931c4573/);
  return {
    output,
    entered,
    counted: (ops) => Number(machine.readWord(session.backend.addressOf(ops) + 24n, 8)),
  };
}

const LIST = 'ftrace_ops_list_func';

/** Calls of each function. */
const calls = new Map<string, number>();
{
  const session = open(imageOf(variants[2]));
  const ops = session.core.createOps({ name: 'all', func: session.functionAddress('elftrace_function_tracer')! });
  done(session.core.register(ops));
  for (const { name } of runWithBoth(session.bytes()).oracle) calls.set(name, (calls.get(name) ?? 0) + 1);
}
const total = [...calls.values()].reduce((a, b) => a + b, 0);
const of = (names: (name: string) => boolean): number =>
  [...calls].reduce((sum, [name, count]) => sum + (names(name) ? count : 0), 0);
const isOne = (name: string): boolean => name.startsWith('far_one_');

test('the program has calls enough', () => {
  expect([total, calls.size > 20, of(isOne) > 10]).toEqual([99, true, true]);
});

describe.each(variants)('trampolines $tramp', (variant) => {
  const bytes = imageOf(variant);
  const make = () => {
    const session = open(bytes);
    const counter = session.functionAddress('elftrace_counter')!;
    const a = session.core.createOps({ name: 'a', func: counter });
    const b = session.core.createOps({ name: 'b', func: counter });
    return { session, core: session.core, a, b };
  };
  const own = variant.tramp !== 'none';

  test("T-X86-1 T-X86-2 T-X86-3 T-X86-40: everything by A, one module's functions by B as well: who runs the list", () => {
    const { session, core, a, b } = make();
    const nops = session.bytes();
    done(core.setFilter(b, 'filter', 'far_one_*'));
    done(core.register(a));
    const alone = run(session, [LIST]);
    expect([alone.counted(a), alone.entered.get(LIST)]).toEqual([total, 0]);
    expect(a.trampoline?.kind === 'private').toBe(own);
    done(core.register(b));
    const both = run(session, [LIST]);
    expect([both.counted(a), both.counted(b)]).toEqual([total, of(isOne)]);
    // Without trampolines every function pays for B; with them only those that both trace.
    expect(both.entered.get(LIST)).toBe(own ? of(isOne) : total);
    done(core.unregister(b));
    expect([run(session, [LIST]).counted(a), run(session, [LIST]).entered.get(LIST)]).toEqual([total, 0]);
    done(core.unregister(a));
    // The text is what it was; the trampoline of an ops that may be registered again is kept for
    // it.
    const text = readElf(nops).sections.filter(({ flags, name }) => (flags & 4n) !== 0n && name !== '.elftrace.text');
    const after = session.bytes();
    for (const { offset, fileSize } of text) {
      expect(Buffer.compare(after.subarray(offset, offset + fileSize), nops.subarray(offset, offset + fileSize))).toBe(
        0,
      );
    }
    expect(text.length).toBeGreaterThan(3);
    // T-X86-18, T-X86-37: registered again it is the same one.
    const kept = a.trampoline;
    done(core.register(a));
    expect(a.trampoline).toBe(kept);
    expect(run(session, [LIST]).counted(a)).toBe(total);
  });

  test('T-X86-3: disjoint functions: neither runs the list', () => {
    const { session, core, a, b } = make();
    done(core.setFilter(a, 'filter', 'core_*'));
    done(core.setFilter(b, 'filter', 'far_one_*'));
    done(core.register(a));
    done(core.register(b));
    const result = run(session, [LIST]);
    const isCore = (name: string): boolean => name.startsWith('core_');
    expect([result.counted(a), result.counted(b)]).toEqual([of(isCore), of(isOne)]);
    expect(result.entered.get(LIST)).toBe(own ? 0 : of(isCore) + of(isOne));
  });

  test('T-X86-7 T-X86-19: one ops wants every register, the other not: both templates', () => {
    const { session, core, a } = make();
    const regs = core.createOps({
      name: 'regs',
      func: session.functionAddress('elftrace_counter')!,
      flags: ['SAVE_REGS'],
    });
    done(core.setFilter(a, 'filter', 'core_*'));
    done(core.setFilter(regs, 'filter', 'far_one_*'));
    done(core.register(a));
    done(core.register(regs));
    const result = run(session, [LIST]);
    expect(result.counted(regs)).toBe(of(isOne));
    const sizes = [a, regs].map(({ trampoline }) => (trampoline?.kind === 'private' ? trampoline.block.sizeBytes : 0));
    if (own) expect(sizes[1]! > sizes[0]! && sizes[0]! > 100).toBe(true);
    // T-X86-18: another function for it, while it is registered.
    done(core.setFunction(regs, session.functionAddress('elftrace_function_tracer')!));
    const both = runWithBoth(session.bytes());
    expect(both.guest.length).toBe(of(isOne));
  });

  test('C-TRAMP-3 T-X86-5: ops that are allocated dynamically', () => {
    const { session, core } = make();
    const dynamic = core.createOps({
      name: 'd',
      func: session.functionAddress('elftrace_counter')!,
      flags: ['DYNAMIC'],
    });
    done(core.register(dynamic));
    expect(dynamic.trampoline?.kind === 'private').toBe(variant.tramp === 'modern');
    expect(run(session, []).counted(dynamic)).toBe(total);
  });

  test('T-X86-26 C-FG-8: the graph tracer on some functions, an ops on others, both on some: every one hears of its own', () => {
    const { session, core, a } = make();
    done(core.setFilter(a, 'filter', 'core_* far_one_*'));
    done(core.register(a));
    const graph = new GraphUser('g', { entry: 0n, return: 0n });
    done(core.registerGraph(graph));
    const result = run(session, []);
    expect(result.counted(a)).toBe(of((name) => name.startsWith('core_') || isOne(name)));
    const both = runWithBoth(session.bytes());
    expect(both.guest.filter(({ kind }) => kind === 'return').length).toBe(total);
    expect(traceDifferences(both)).toEqual([]);
    done(core.unregisterGraph(graph));
    expect(run(session, []).counted(a)).toBe(result.counted(a));
  });
});

test('C-TGT-7: filters name what callbacks are told, one byte on at 67 e8 and eight at 13 bytes', () => {
  for (const name of ['program-fentry-indirect', 'program-fentry-large', 'program-mcount-relaxed']) {
    const { sites } = openBytes(readSample(`x86-64/${name}`));
    const session = open(withRuntime(sites, undefined).bytes);
    const counter = session.functionAddress('elftrace_counter')!;
    const [a, b] = ['a', 'b'].map((each) => session.core.createOps({ name: each, func: counter }));
    // Two on one function: the list asks their hashes.
    for (const ops of [a!, b!]) {
      done(session.core.setFilter(ops, 'filter', 'leaf bump'));
      done(session.core.register(ops));
    }
    const { image, arch } = openBytes(session.bytes());
    if (arch.emulation.kind !== 'ir') throw new Error('not executed');
    const { machine } = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
    expect(machine.run({ budget: 5_000_000 })).toMatchObject({ kind: 'exit' });
    const counts = [a!, b!].map((ops) => Number(machine.readWord(session.backend.addressOf(ops) + 24n, 8)));
    expect([name, counts[0]! > 4, counts[0]]).toEqual([name, true, counts[1]]);
  }
});

/** A process that runs a little at a time; its breakpoints have the handler of live patching. */
function steered(image: ElfImage, arch: Arch, livePatching: BreakpointPatching) {
  if (arch.emulation.kind !== 'ir') throw new Error('not executed');
  const seen = { exit: -1, traps: 0, others: 0, output: '' };
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    onOutput: (_fd, chunk) => {
      seen.output += new TextDecoder().decode(chunk);
    },
  });
  const go = (budget: number, published: readonly LivePatch[]): void => {
    const end = machine.instructions + budget;
    while (seen.exit < 0 && machine.instructions < end) {
      const stop = machine.run({ budget: end - machine.instructions });
      if (stop.kind === 'exit') seen.exit = stop.code;
      else if (stop.kind === 'trap' && stop.trap === 'breakpoint') {
        seen.traps++;
        if (!livePatching.handle(published, stop.instruction, livePatching.trapped(machine))) seen.others++;
      } else if (stop.kind !== 'step-limit') throw new Error(`${stop.kind} at ${machine.register('pc').toString(16)}`);
    }
  };
  return Object.assign(seen, { machine, go });
}

describe('T-X86-21, X-POKE-4: a session on a machine that goes on running between the steps of the protocol', () => {
  test.each(variants)(
    'trampolines $tramp: ops come and go, the inner call is changed, and the program prints the same',
    (variant) => {
      const bytes = imageOf(variant);
      const { image, arch } = openBytes(bytes);
      const { livePatching } = arch;
      if (livePatching.kind !== 'breakpoint') throw new Error('not executed');
      const program = steered(image, arch, livePatching);
      const { machine, go } = program;
      const code = image.sections.filter(({ flags }) => (flags & 4n) !== 0n);
      const isCode = (at: bigint): boolean =>
        code.some((each) => at >= each.address && at < each.address + BigInt(each.size));
      const isOutside = outsideTracer(readLoadMap(image)!);
      const session = Session.open(bytes, arch, {
        text: liveText(machine, {
          breakpoints: {
            model: livePatching,
            isCode,
            between: (published) => {
              go(3, published);
            },
          },
          quiesce: () => {
            while (program.exit < 0 && !isOutside(machine.register('pc'))) go(1, []);
          },
        }),
      });
      const { core } = session;
      const [counter, tracer] = ['elftrace_counter', 'elftrace_function_tracer'].map((name) =>
        session.functionAddress(name)!,
      );
      const ops = core.createOps({ name: 'live', func: counter! });
      let changes = 0;
      for (let i = 0; i < 400 && program.exit < 0; i++) {
        go(150, []);
        if (program.exit >= 0) break;
        if (i % 6 === 0) done(core.register(ops));
        else if (i % 6 === 5) done(core.unregister(ops));
        else done(core.setFunction(ops, i % 2 === 0 ? counter! : tracer!));
        changes++;
      }
      go(5_000_000, []);
      expect([program.exit, program.others]).toEqual([51, 0]);
      expect(program.output).toMatch(/checksum 0x931c4573/);
      expect(changes).toBeGreaterThan(5);
      expect(program.traps).toBeGreaterThan(0);
    },
  );
});

describe('C-INIT-2: sessions on programs of every shape', () => {
  const nops = ['0f1f440000', '660f1f440000', '660f1f8400000000000f1f4000', '660f1f840000000000']
    .map((text) => Buffer.from(text, 'hex')); // prettier-ignore
  const startsWith = (bytes: Uint8Array, at: number, nop: Uint8Array): boolean =>
    Buffer.compare(bytes.subarray(at, at + nop.length), nop) === 0;
  const codeOf = (bytes: Uint8Array): Uint8Array =>
    Buffer.concat(
      readElf(bytes)
        .sections.filter(({ flags }) => (flags & 4n) !== 0n)
        .map(({ offset, fileSize }) => bytes.subarray(offset, offset + fileSize)),
    );
  const programs = sampleNames().filter(
    (name) => /^x86-64\/(program|core)-/.test(name) && !/stripped|16-16|\.o$/.test(name),
  );

  test.each(programs)('%s: compiled calls and pads become the nop of kernels; two ops, one after the other', (name) => {
    const { sites } = openBytes(readSample(name));
    for (const tramp of ['modern', '2014', 'none']) {
      const bytes = withRuntime(sites, undefined, undefined, undefined, { 'x86-tramp': tramp }).bytes;
      const image0 = readElf(bytes);
      const session = open(bytes);
      const off = session.bytes();
      expect(session.core.records.length).toBeGreaterThan(8);
      // The bytes alone: every record is the nop of its length.
      for (const { ip, skipped } of session.core.records) {
        // The body of an overridden weak function is left alone.
        if (skipped) continue;
        const at = image0.fileOffsetOf(ip);
        expect(nops.some((nop) => [0, -1, -8].some((delta) => startsWith(off, at + delta, nop)))).toBe(true);
      }
      const [a, b] = ['a', 'b'].map((each) =>
        session.core.createOps({ name: each, func: session.functionAddress('elftrace_counter')! }),
      ) as [Ops, Ops];
      done(session.core.register(a));
      done(session.core.setFilter(b, 'filter', 'leaf'));
      done(session.core.register(b));
      const { image, arch } = openBytes(session.bytes());
      if (arch.emulation.kind !== 'ir') throw new Error('not executed');
      const { machine } = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
      expect(machine.run({ budget: 5_000_000 })).toMatchObject({ kind: 'exit' });
      const [ofA, ofB] = [a, b].map((ops) => Number(machine.readWord(session.backend.addressOf(ops) + 24n, 8)));
      expect([ofA! > 40, ofB! > 0, ofB! < ofA!]).toEqual([true, true, true]);
      done(session.core.unregister(a));
      done(session.core.unregister(b));
      done(session.core.reclaim());
      expect(Buffer.compare(codeOf(session.bytes()), codeOf(off))).toBe(0);
    }
  });
});
