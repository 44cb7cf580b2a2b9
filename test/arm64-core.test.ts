/**
 * Per-callsite ops by the core, on the loaded arm64 samples: which ops the word in front of each
 * function names, what the callbacks count when the image runs, and that the list is always right
 * in the place of any word (T-A64-4, T-A64-6).
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { startProcess } from '../src/guest/index.js';
import type { Ops, Outcome } from '../src/ftrace/index.js';
import { withRuntime } from '../src/tracing/inject.js';
import { entryPoint } from '../src/program/entry-points.js';
import { Session, type SessionOptions } from '../src/tracing/session.js';
import { findSites } from '../src/sites/sites.js';
import { loadImages } from '../src/program/loader.js';
import { load } from '../src/program/program.js';
import { OPS_WORDS, runtimeObject } from '../src/runtime/index.js';
import { compileArm64, siteFlags } from './support/arm64-runtime.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { scratch } from './support/c-programs.js';
import { source } from './support/loader-build.js';
import { loadSamples } from './support/loaded.js';
import { builtSamples, openBytes, readSample } from './support/pipeline.js';
import { PROGRAMS } from './support/runtime-harness.js';
import { describeWith, run } from './support/tools.js';

const { bytes: image } = loadSamples({ target: 'arm64', ending: '', flavour: 'callops' });
const arch = archOf(readElf(image).header);
const open = (options: SessionOptions = {}): Session => Session.open(image, arch, options);

function done(outcome: Outcome): void {
  expect(outcome).toMatchObject({ kind: 'done' });
}

/** Counting ops on functions. */
function counter(session: Session, name: string, filter: string, flags: readonly ('RECURSION' | 'RCU')[] = []): Ops {
  const ops = session.core.createOps({ name, func: session.functionAddress('elftrace_counter')!, flags });
  done(session.core.setFilter(ops, 'filter', filter));
  return ops;
}

interface Ran {
  readonly counts: readonly number[];
  readonly output: string;
  /** Calls of the list function. */
  readonly walks: number;
}

/** Runs an image to its end; `counts` of the ops' own words. */
function ran(session: Session, bytes: Uint8Array, ops: readonly Ops[]): Ran {
  const { image: elf, program } = openBytes(bytes);
  if (arch.emulation.kind !== 'ir') throw new Error('arm64 is not executed');
  let output = '';
  const { machine } = startProcess({
    image: elf,
    abi: arch.abi,
    emulation: arch.emulation,
    onOutput: (_fd, chunk) => (output += new TextDecoder().decode(chunk)),
  });
  let walks = 0;
  machine.hook(entryPoint(program, 'ftrace_ops_list_func')!.address, () => {
    walks++;
    return 'continue';
  });
  expect(machine.run({ budget: 20_000_000 })).toMatchObject({ kind: 'exit', code: 51 });
  const word = (each: Ops): number =>
    Number(machine.readWord(session.backend.addressOf(each) + BigInt(8 * OPS_WORDS.private), 8));
  return { counts: ops.map(word), output, walks };
}

/** Names of the ops that the words name, by function. */
function words(session: Session, ops: readonly Ops[]): Map<string, string> {
  const { program, sites } = openBytes(session.bytes());
  const names = new Map<bigint, string>(ops.map((each) => [session.backend.addressOf(each), each.name]));
  for (const symbol of ['ftrace_nop_ops', 'ftrace_list_ops']) names.set(entryPoint(program, symbol)!.identity, symbol);
  return new Map(
    Array.from({ length: sites.count }, (_, i) => [
      program.symbolName(sites.functionSymbol(i)),
      names.get(sites.reading(i)!.literal!) ?? 'unknown',
    ]),
  );
}

/** The image with some words replaced by that of the list, or of other ops. */
function listed(bytes: Uint8Array, which: (site: number) => boolean, symbol = 'ftrace_list_ops'): Uint8Array {
  const copy = bytes.slice();
  const { program, sites, image: elf } = openBytes(copy);
  const view = new DataView(copy.buffer, copy.byteOffset);
  const list = entryPoint(program, symbol)!.identity;
  for (let i = 0; i < sites.count; i++) {
    if (which(i)) view.setBigUint64(elf.fileOffsetOf((sites.ip(i) - 12n) & ~7n), list, true);
  }
  return copy;
}

const plain = ran(open(), image, []).output;

describe('per-callsite ops', () => {
  test('T-A64-2: two functions, two ops, one entry, no walk of the list', () => {
    const session = open();
    const first = counter(session, 'first', 'core_leaf');
    const second = counter(session, 'second', 'far_one_sum');
    done(session.core.register(first));
    done(session.core.register(second));
    const named = words(session, [first, second]);
    expect([named.get('core_leaf'), named.get('far_one_sum')]).toEqual(['first', 'second']);
    const { counts, output, walks } = ran(session, session.bytes(), [first, second]);
    expect([output, walks]).toEqual([plain, 0]);
    expect(counts.every((count) => count > 0)).toBe(true);
    // The twin: one more on the first of them, and each call of that one walks.
    const third = counter(session, 'third', 'core_leaf');
    done(session.core.register(third));
    const shared = ran(session, session.bytes(), [first, second, third]);
    expect([shared.counts, shared.walks]).toEqual([[...counts, counts[0]], counts[0]]);
  });

  test('A-CO-3, A-CO-6: one ops: its own; two: the list; the guard: the list; off: ops that do nothing', () => {
    const session = open();
    const { core } = session;
    const [a, b, guarded] = [
      counter(session, 'a', 'core_*'),
      counter(session, 'b', 'core_leaf far_*'),
      counter(session, 'guarded', 'core_sum'),
    ];
    const all = [a, b, guarded];
    const word = (name: string): string => words(session, all).get(name)!;
    expect(word('core_leaf')).toBe('ftrace_nop_ops');
    done(core.register(a));
    expect([word('core_leaf'), word('far_one_sum')]).toEqual(['a', 'ftrace_nop_ops']);
    done(core.register(b));
    expect([word('core_leaf'), word('core_sum'), word('far_one_sum')]).toEqual(['ftrace_list_ops', 'a', 'b']);
    // C-TGT-1: the ops that remains decides.
    done(core.unregister(a));
    expect([word('core_leaf'), word('core_sum')]).toEqual(['b', 'ftrace_nop_ops']);
    done(core.unregister(b));
    expect(new Set(words(session, all).values())).toEqual(new Set(['ftrace_nop_ops']));
    const assisted = core.createOps({
      name: 'assisted',
      func: session.functionAddress('elftrace_counter')!,
      flags: ['RECURSION'],
    });
    done(core.setFilter(assisted, 'filter', 'core_leaf'));
    done(core.register(assisted));
    expect(words(session, [assisted]).get('core_leaf')).toBe('ftrace_list_ops');
  });

  test.each([0, 1, 2])(
    'T-A64-4: %s ops by the default word only: the same counts, every call by the list',
    (number) => {
      const session = open();
      const ops = ['core_*', '*leaf far_*'].slice(0, number).map((filter, i) => counter(session, `ops${i}`, filter));
      for (const each of ops) done(session.core.register(each));
      const own = ran(session, session.bytes(), ops);
      const byList = ran(
        session,
        listed(session.bytes(), () => true),
        ops,
      );
      expect([byList.counts, byList.output]).toEqual([own.counts, plain]);
      expect(byList.walks >= own.walks).toBe(true);
      if (number === 1) expect([own.walks, byList.walks]).toEqual([0, own.counts[0]]);
    },
  );

  test('T-A64-6: any word replaced by that of the list, one at a time: results unchanged', () => {
    const session = open();
    const ops = ['core_*', '*leaf far_one_*'].map((filter, i) => counter(session, `ops${i}`, filter));
    for (const each of ops) done(session.core.register(each));
    const bytes = session.bytes();
    const own = ran(session, bytes, ops);
    const { sites } = openBytes(bytes);
    for (let site = 0; site < sites.count; site++) {
      const { counts, output } = ran(
        session,
        listed(bytes, (each) => each === site),
        ops,
      );
      expect([site, counts, output]).toEqual([site, own.counts, plain]);
    }
    expect(sites.count).toBe(26);
    // The twin: words that name ops which do nothing change what is counted.
    const nothing = ran(
      session,
      listed(bytes, () => true, 'ftrace_nop_ops'),
      ops,
    );
    expect([nothing.counts, nothing.output]).toEqual([[0, 0], plain]);
  });

  test('T-A64-10, T-A64-3: every site starts with the default ops; then the core gives sites their own, and takes them back', () => {
    const session = open({ policy: { literalOff: 'list' } });
    expect(new Set(words(session, []).values())).toEqual(new Set(['ftrace_list_ops']));
    const ops = counter(session, 'own', 'core_leaf');
    done(session.core.register(ops));
    const named = words(session, [ops]);
    expect([...named].filter(([, name]) => name === 'own').map(([name]) => name)).toEqual(['core_leaf']);
    expect(new Set(named.values())).toEqual(new Set(['own', 'ftrace_list_ops']));
    const { counts, output, walks } = ran(session, session.bytes(), [ops]);
    expect([counts[0]! > 0, output, walks]).toEqual([true, plain, 0]);
    done(session.core.unregister(ops));
    expect(new Set(words(session, [ops]).values())).toEqual(new Set(['ftrace_list_ops']));
  });

  test('T-A64-13: a private trampoline is refused with a reason that names per-callsite ops; the hit is right all the same', () => {
    const reason =
      /no private trampolines: per-callsite ops serve it, the word in front of each function names the ops/;
    expect(() => open({ policy: { trampolines: 'modern' } })).toThrow(reason);
    const folder = scratch('trampolines');
    mkdirSync(folder);
    const [here, out] = [join(folder, 'image'), join(folder, 'out')];
    writeFileSync(here, image);
    const program = join(builtSamples, 'arm64/program-patchable-4-2');
    const object = join(builtSamples, 'arm64/core.o');
    for (const args of [
      ['patch', here, '--enable', '--x86-tramp=modern', '-o', out],
      ['patch', program, '--enable', '--x86-tramp=2014', '-o', out],
      ['load', object, '--x86-tramp=modern', '-o', out],
      ['race', program, '--site', 'leaf', '--x86-tramp=modern'],
    ]) {
      const { status, stderr } = elftrace(args);
      expect([args[0], status, existsSync(out), stderr]).toEqual([args[0], 2, false, expect.stringMatching(reason)]);
    }
    // The hit is right all the same: by the word, and by no walk of a list, however many others
    // there are.
    const session = open();
    const ops = counter(session, 'wants one', 'core_leaf');
    const others = counter(session, 'others', 'far_one_*');
    for (const each of [ops, others]) done(session.core.register(each));
    expect([ops.trampoline, openBytes(session.bytes()).image.section('.elftrace.text')]).toEqual([null, undefined]);
    const { counts, output, walks } = ran(session, session.bytes(), [ops, others]);
    expect([counts.every((count) => count > 0), output, walks]).toEqual([true, plain, 0]);
    // The twin: where the machine has them, who asks gets one.
    const x86 = readElf(readSample('x86-64/program-fentry'));
    const own = withRuntime(findSites(load(x86, archOf(x86.header))), undefined);
    const there = Session.open(own.bytes, archOf(own.header), { policy: { trampolines: 'modern' } });
    const asks = there.core.createOps({ name: 'a', func: there.functionAddress('elftrace_counter')! });
    done(there.core.register(asks));
    expect(asks.trampoline?.kind).toBe('private');
  });
});

const SOURCE = `
#include "lib.h"
__attribute__((noinline)) word work(word a) { return a * 3 + 1; }
__attribute__((noinline)) word other(word a) { return work(a) + 5; }
int main(void) { word sum = 0; for (word i = 0; i < 10; i++) sum = sum * 7 + work(i) + other(i); line("sum", sum); flush(); return 51; }
`;
const CALLER = (name: string): string => `
	.text
	.globl	${name}, ${name}_hits
	.type	${name}, %function
${name}: hint	#34
	adrp	x10, ${name}_hits
	ldr	x11, [x10, :lo12:${name}_hits]
	add	x11, x11, #1
	str	x11, [x10, :lo12:${name}_hits]
	mov	x10, x30
	mov	x30, x9
	ret	x10
	.bss
	.balign	8
${name}_hits: .space 8
`;

/** What the site of `work` calls, or the state that it is in. */
function targetOfWork(session: Session): string {
  const opened = openBytes(session.bytes());
  for (let i = 0; i < opened.sites.count; i++) {
    const reading = opened.sites.reading(i)!;
    if (opened.program.symbolName(opened.sites.functionSymbol(i)) !== 'work') continue;
    if (reading.state !== 'call') return reading.state;
    return opened.program.describe(opened.program.codeAt(reading.target!)!, reading.target!).replace(/\+0x0$/, '');
  }
  return 'none';
}

describeWith(['aarch64-linux-gnu-gcc', 'aarch64-linux-gnu-ld'], 'direct callers', () => {
  const start = compileArm64(join(PROGRAMS, 'start-arm64.S'), []);
  const written = (name: string, text: string): string => {
    const path = scratch(name);
    writeFileSync(path, text);
    return path;
  };
  const main = compileArm64(written('direct.c', SOURCE), ['-O2', ...siteFlags.callops]);
  const [near, far] = ['near', 'far'].map((name) => compileArm64(written(`${name}.S`, CALLER(name)), []));
  const core = scratch('core.o');
  run('aarch64-linux-gnu-ld', ['-r', start, main, near!, '-o', core]);
  const fileOf = (path: string): Uint8Array => new Uint8Array(readFileSync(path));
  const { bytes } = loadImages(
    {
      core: source('core', fileOf(core)),
      modules: [source('far', fileOf(far!))],
      base: 'user',
      runtime: source('runtime', runtimeObject('arm64', 'callops')!),
      options: {},
    },
    arch,
  );
  const plainOutput = 'sum ';

  test('C-DIR-7, A-PLT-2, A-CO-7: alone, beside another ops, alone again; near: called by the site; far: by the entry, through the ops', () => {
    for (const name of ['near', 'far'] as const) {
      const session = Session.open(bytes, arch);
      const { core: ftrace } = session;
      const program = session.sites.program;
      const ops = ftrace.createOps({ name: 'direct', func: 0n });
      done(ftrace.setFilter(ops, 'filter', 'work'));
      const address = entryPoint(program, name)!.identity;
      const result = (): { hits: bigint; counted: bigint; output: string; walks: number } => {
        const opened = openBytes(session.bytes());
        if (arch.emulation.kind !== 'ir') throw new Error('arm64 is not executed');
        let output = '';
        const { machine } = startProcess({
          image: opened.image,
          abi: arch.abi,
          emulation: arch.emulation,
          onOutput: (_fd, chunk) => (output += new TextDecoder().decode(chunk)),
        });
        let walks = 0;
        machine.hook(entryPoint(opened.program, 'ftrace_ops_list_func')!.address, () => {
          walks++;
          return 'continue';
        });
        expect(machine.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 51 });
        const word = (symbol: string): bigint =>
          machine.readWord(opened.program.definedAt(opened.program.symbols.find(symbol))!, 8)!;
        return { hits: word(`${name}_hits`), counted: word('elftrace_count'), output, walks };
      };
      const target = (): string => targetOfWork(session);
      const before = result();
      expect(before.output).toMatch(new RegExp(`^${plainOutput}`));
      // What everything traced counts: work 20 times, other 10 times, main and what prints.
      const all = ftrace.createOps({ name: 'all', func: session.functionAddress('elftrace_counter')! });
      done(ftrace.register(all));
      const { counted } = result();
      expect(counted).toBeGreaterThan(30n);
      done(ftrace.unregister(all));
      done(ftrace.registerDirect(ops, address));
      expect(target()).toBe(name === 'near' ? 'near' : 'ftrace_caller');
      expect(result()).toEqual({ hits: 20n, counted: 0n, output: before.output, walks: 0 });
      done(ftrace.register(all));
      expect(target()).toBe('ftrace_caller');
      // The list is walked for work only.
      expect(result()).toEqual({ hits: 20n, counted, output: before.output, walks: 20 });
      done(ftrace.unregister(all));
      expect(target()).toBe(name === 'near' ? 'near' : 'ftrace_caller');
      expect(result()).toEqual({ hits: 20n, counted: 0n, output: before.output, walks: 0 });
      done(ftrace.unregisterDirect(ops, address));
      expect([target(), result()]).toEqual(['nop', { hits: 0n, counted: 0n, output: before.output, walks: 0 }]);
    }
  });
});
