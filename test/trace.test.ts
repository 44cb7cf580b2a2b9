/** Calls and returns recorded by machine hooks, and the forms in which they are written. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { startProcess } from '../src/guest/index.js';
import type { Machine, StopReason } from '../src/emulator/index.js';
import {
  foldedWriter,
  ndjsonWriter,
  profile,
  tracedFunctions,
  traceWithOracle,
  type TracedFunction,
  type TraceEvent,
  type TraceSink,
} from '../src/trace/index.js';
import { DEEPER, OUTSIDE } from '../src/trace/folded.js';
import { buildPpc, ppcGcc, ppcMachine, PROGRAMS, writeSource } from './support/emulator.js';
import type { PpcKind } from './support/emulator.js';
import { openBytes, readSample, root, sampleNames } from './support/pipeline.js';
import { describeWith } from './support/tools.js';

interface Copied {
  readonly kind: TraceEvent['kind'];
  readonly name: string;
  readonly site: boolean;
  readonly depth: number;
  readonly time: number;
  readonly unwound: boolean;
}

interface Traced {
  readonly events: readonly Copied[];
  readonly folded: readonly string[];
  readonly ndjson: string;
  readonly profile: ReturnType<typeof profile>;
  readonly stop: StopReason;
  readonly machine: Machine;
  readonly output: string;
  readonly functions: readonly TracedFunction[];
}

function traced(bytes: Uint8Array, args: readonly string[] = ['p'], budget = 20_000_000): Traced {
  const { image, arch, program, sites } = openBytes(bytes);
  if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
  let output = '';
  const guest = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    args,
    onOutput: (_, data) => {
      output += Buffer.from(data).toString('latin1');
    },
  });
  const siteOf = new Map<bigint, bigint>();
  for (let i = 0; i < sites.count; i++) {
    const start = program.functions.placeOf(sites.functionSymbol(i))?.value;
    if (start !== undefined) siteOf.set(start, sites.ip(i));
  }
  const functions = tracedFunctions(program, { bias: guest.bias, siteOf: (address) => siteOf.get(address) ?? null });
  const events: Copied[] = [];
  let folded = '';
  let ndjson = '';
  const list: TraceSink = {
    event: (event) => {
      const { kind, depth, time } = event;
      const unwound = event.kind === 'return' && event.unwound;
      events.push({ kind, name: event.function.name, site: event.function.site !== null, depth, time, unwound });
    },
    end: () => undefined,
  };
  const counts = profile();
  const sinks = [
    list,
    counts,
    foldedWriter((text) => (folded += text)),
    ndjsonWriter((text) => (ndjson += text), { source: 'oracle', image: 'p' }),
  ];
  const { machine } = guest;
  const { stackPointer, linkRegister } = arch.abi;
  const oracle = traceWithOracle(machine, { functions, stackPointer, linkRegister, sinks });
  const stop = guest.run({ budget });
  oracle.finish();
  expect(oracle.events).toBe(events.length);
  return { events, folded: folded.trimEnd().split('\n'), ndjson, profile: counts, stop, machine, output, functions };
}

/** Entries by name. */
function counts(events: readonly Copied[], which: (event: Copied) => boolean = () => true): Record<string, number> {
  const found: Record<string, number> = {};
  for (const each of events) {
    if (each.kind === 'entry' && which(each)) found[each.name] = (found[each.name] ?? 0) + 1;
  }
  return found;
}

/** Every return is that of the entry before it at its depth; depth and time are consistent. */
function checkNesting(events: readonly Copied[]): void {
  const open: Copied[] = [];
  let time = 0;
  for (const each of events) {
    expect(each.time).toBeGreaterThanOrEqual(time);
    time = each.time;
    if (each.kind === 'entry') {
      expect(each.depth).toBe(open.length);
      open.push(each);
    } else {
      const entry = open.pop();
      expect([each.name, each.depth]).toEqual([entry?.name, open.length]);
    }
  }
  expect(open).toEqual([]);
}

const folds = (lines: readonly string[]): number =>
  lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);

// By hand from samples/src/program.c, as test/samples.test.ts derives the 49.
const program: Readonly<Record<string, number>> = {
  program: 1, leaf: 4, bump: 1, recurse: 14, sum: 2, many: 1, make_triple: 1, mix64: 1, classify: 10, guard: 2, cold_path: 1,
  hook: 2, forward: 1, apply: 4, outer: 1, inner: 2, checksum: 1,
}; // prettier-ignore

const runnable = sampleNames().filter((name) => /^ppc.*\/(program|pie|core)-(?!patchable$|power10)[^.]*$/.test(name));

describe('samples', () => {
  test.each(runnable)('%s: entries are those of the source, nested, and sum up', (name) => {
    const found = traced(readSample(name));
    expect(found.stop).toEqual({ kind: 'exit', code: 0 });
    checkNesting(found.events);
    // Compilers name parts of a function (`inner.0`, `cold_path.cold`); `quiet` has nops only for
    // its attribute.
    const withSites: Record<string, number> = {};
    for (const [key, value] of Object.entries(counts(found.events, (each) => each.site))) {
      const plain = key.replace(/\.(\d+|constprop\.\d+)$/, '');
      if (plain !== 'quiet') withSites[plain] = (withSites[plain] ?? 0) + value;
    }
    expect(withSites).toEqual(program);
    const sum = Object.values(withSites).reduce((total, each) => total + each, 0);
    expect(sum).toBe(49);
    const said = Number(/trace=(\d+)/.exec(found.output)![1]);
    expect([0, sum]).toContain(said);
    if (said > 0) expect(counts(found.events)['_mcount']).toBe(said);
    const { instructions } = found.machine;
    expect(folds(found.folded)).toBe(instructions);
    const rows = found.profile.rows();
    expect(rows.reduce((total, row) => total + row.self, 0)).toBe(instructions);
    expect(rows.find((row) => row.function?.name === '_start')?.total).toBe(instructions);
    expect(rows.find((row) => row.function?.name === 'recurse')?.calls).toBe(14);
    // Only what the program left by exit did not return.
    const unwound = found.events.filter((each) => each.unwound).map((each) => each.name);
    expect(unwound.at(-1)).toBe('_start');
    expect(unwound.length).toBeLessThanOrEqual(3);
  });

  test('the trace does not change the run: same output after the same instructions', () => {
    const bytes = readSample('ppc64-elfv1/program-mprofile');
    const with_ = traced(bytes);
    const { image, arch } = openBytes(bytes);
    if (arch.emulation.kind === 'none') throw new Error(arch.emulation.reason);
    let output = '';
    const bare = startProcess({
      image,
      abi: arch.abi,
      emulation: arch.emulation,
      args: ['p'],
      onOutput: (_, data) => (output += Buffer.from(data).toString('latin1')),
    });
    expect(bare.run()).toEqual(with_.stop);
    expect(output).toBe(with_.output);
    expect(bare.machine.instructions).toBe(with_.machine.instructions);
  });

  test('every line of the trace keeps to its schema', () => {
    const schema = JSON.parse(readFileSync(join(root, 'schemas', 'trace-event.schema.json'), 'utf8')) as object;
    const validate = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(schema);
    const { ndjson, events, functions } = traced(readSample('ppc64-elfv2-le/pie-mprofile'));
    const lines = ndjson.trimEnd().split('\n');
    expect(JSON.parse(lines[0]!)).toEqual({ schema: 1, clock: 'instructions', source: 'oracle', image: 'p' });
    expect(lines.length).toBe(events.length + 1);
    lines.forEach((line, i) => {
      const value = JSON.parse(line) as Record<string, unknown>;
      expect([line, validate(value) ? [] : validate.errors]).toEqual([line, []]);
      if (i > 0) expect([value['kind'], value['function']]).toEqual([events[i - 1]!.kind, events[i - 1]!.name]);
    });
    // Addresses are those of the running image.
    expect(functions.every((each) => each.address > 0x40_0000_0000n)).toBe(true);
    for (const bad of [{}, { schema: 2 }, { kind: 'entry' }, { ...JSON.parse(lines[1]!), unwound: true }]) {
      expect(validate(bad)).toBe(false);
    }
  });
});

/** Ways to leave a function that are no plain return. */
const LEAVING = `
#include "lib.h"
typedef struct { word regs[3]; } jump;
extern int save(volatile jump *) __attribute__((returns_twice));
extern void restore(volatile jump *, int);
static volatile jump place;
__attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n + 1; }
__attribute__((noinline)) int tail(int n) { __asm__ volatile(""); return leaf(n * 2); }
__attribute__((noinline)) int chain(int n) { __asm__ volatile(""); return tail(n + 5); }
int ping(int n);
__attribute__((noinline)) int pong(int n) { __asm__ volatile(""); return n == 0 ? 7 : ping(n - 1); }
__attribute__((noinline)) int ping(int n) { __asm__ volatile(""); return pong(n); }
__attribute__((noinline)) int thrower(int n) { if (n == 0) restore(&place, 3); return thrower(n - 1) + leaf(n); }
__attribute__((noinline)) int catcher(void) {
  int r = save(&place) == 0 ? thrower(4) : leaf(10);
  return r + (int)place.regs[2] - (int)place.regs[2];
}
__attribute__((noinline)) int twice(int (*f)(int), int n) { return f(f(n)); }
int main(int argc, char **argv) {
  (void)argv;
  line("chain", chain(argc));
  line("ping", ping(500));
  line("catch", catcher());
  line("twice", twice(tail, 3));
  flush();
  return 0;
}
`;
const SAVE = `
#if defined(__powerpc64__) && _CALL_ELF == 2
	.abiversion 2
#endif
#ifdef __powerpc64__
#define ST std
#define LD ld
#define W 8
#else
#define ST stw
#define LD lwz
#define W 4
#endif
	.macro entry name
	.globl \\name
#if defined(__powerpc64__) && _CALL_ELF != 2
	.section .opd,"aw"
\\name:	.quad .L_\\name,.TOC.@tocbase,0
	.type \\name,@function
	.size \\name,24
	.text
.L_\\name:
#else
	.text
	.type \\name,@function
\\name:
#endif
	.endm
	entry save
	mflr 0
	ST 0,0(3)
	ST 1,W(3)
	ST 2,2*W(3)
	li 3,0
	blr
	entry restore
	LD 0,0(3)
	LD 1,W(3)
	LD 2,2*W(3)
	mtlr 0
	mr 3,4
	blr
`;

for (const kind of ['32', 'be', 'le'] as const satisfies readonly PpcKind[]) {
  describeWith([ppcGcc(kind)], `leaving functions on ${kind}`, () => {
    test('tail calls, mutual recursion, longjmp, calls through pointers', () => {
      const sources = [writeSource('leaving.c', LEAVING), writeSource('save.S', SAVE)];
      const flags = ['-I', PROGRAMS, '-fno-inline', '-fno-ipa-icf', '-fno-ipa-cp', '-fno-ipa-pure-const'];
      const path = buildPpc(kind, '2', [join(PROGRAMS, 'start.S'), ...sources], flags);
      const found = traced(new Uint8Array(readFileSync(path)));
      expect(found.stop).toEqual({ kind: 'exit', code: 0 });
      expect(found.output).toBe('chain d\nping 7\ncatch b\ntwice f\n');
      checkNesting(found.events);
      const entries = counts(found.events);
      // chain -> tail -> leaf, catcher -> leaf, and f twice.
      expect([entries['chain'], entries['tail'], entries['leaf']]).toEqual([1, 3, 4]);
      expect([entries['ping'], entries['pong'], entries['thrower']]).toEqual([501, 501, 5]);
      // As tail calls they are nested and end together; the chain of 1001 does not grow.
      const at = (name: string): Copied[] => found.events.filter((each) => each.name === name);
      expect(Math.max(...at('ping').map((each) => each.depth))).toBeLessThan(10);
      const [chain, tail, leaf] = [at('chain'), at('tail'), at('leaf')];
      expect([tail[0]!.depth - chain[0]!.depth, leaf[0]!.depth - chain[0]!.depth]).toEqual([1, 2]);
      expect(leaf[1]!.time).toBe(chain[1]!.time);
      expect(leaf[1]!.unwound).toBe(false);
      // longjmp abandons the five activations, and `restore`, and only them (exit abandons main and
      // what is below).
      const abandoned = at('thrower').filter((each) => each.unwound);
      expect(abandoned.length).toBe(5);
      expect(leaf[2]!.depth).toBe(at('catcher')[0]!.depth + 1);
      expect(at('catcher').filter((each) => each.unwound)).toEqual([]);
      expect(folds(found.folded)).toBe(found.machine.instructions);
    });
  });
}

describe('writers', () => {
  const f = (index: number, name: string): TracedFunction => ({
    index,
    name,
    address: BigInt(0x1000 + index * 16),
    otherEntries: [],
    site: null,
  });
  const [a, b] = [f(0, 'a'), f(1, 'b;with space')];
  const entry = (traced_: TracedFunction, depth: number, time: number, cpu = 0): TraceEvent => ({
    kind: 'entry', function: traced_, depth, time, instructions: time, cpu, parent: 0n,
  }); // prettier-ignore
  const leave = (traced_: TracedFunction, depth: number, time: number, cpu = 0): TraceEvent => ({
    kind: 'return', function: traced_, depth, time, instructions: time, cpu, unwound: false,
  }); // prettier-ignore

  function write(
    make: (sink: (text: string) => void) => TraceSink,
    events: readonly TraceEvent[],
    times: number[],
  ): string {
    let text = '';
    const sink = make((piece) => (text += piece));
    for (const each of events) sink.event(each);
    sink.end(times);
    return text;
  }

  test('folded: what is outside, names without separators, CPUs apart and summed', () => {
    const events = [entry(a, 0, 5), entry(b, 1, 7), entry(a, 0, 1, 1), leave(b, 1, 10), leave(a, 0, 20)];
    expect(write(foldedWriter, events, [22, 4])).toBe(`${OUTSIDE} 8\na 15\na;b_with_space 3\n`);
  });

  test('two CPUs: one clock for events, and each function gets the instructions of its own CPU', () => {
    // f: li r3,1; nop; blr      main at +0x10: bl f; b .-4
    const machine = ppcMachine('le', [
      ['addi', { rt: 3, ra0: 0, si: 1 }],
      ['ori', { rs: 0, ra: 0, ui: 0 }],
      ['bclr', { bo: 20, bi: 0, bh: 0 }],
      ['ori', { rs: 0, ra: 0, ui: 0 }],
      ['bl', { li: -16 }],
      ['b', { li: -4 }],
    ]);
    const main = 0x1_0010n;
    machine.setRegister('pc', main);
    machine.setRegister('r1', 0x2_0800n);
    machine.addCpu();
    machine.switchTo(1);
    machine.setRegister('pc', main);
    machine.setRegister('r1', 0x2_0400n);
    const events: { readonly time: number; readonly cpu: number; readonly own: number; readonly kind: string }[] = [];
    let folded = '';
    const counts = profile();
    const writer = foldedWriter((text) => (folded += text));
    const watcher: TraceSink = {
      event: ({ time, cpu, kind, instructions }) => events.push({ time, cpu, kind, own: instructions }),
      end: () => undefined,
    };
    const oracle = traceWithOracle(machine, {
      functions: [{ index: 0, name: 'f', address: 0x1_0000n, otherEntries: [], site: null }],
      stackPointer: 'r1',
      linkRegister: 'lr',
      sinks: [watcher, writer, counts],
    });
    // Slices that end inside of f: its CPU waits there while the other one runs.
    for (const [cpu, budget] of [[0, 2], [1, 12], [0, 7], [1, 1], [0, 6]] as const) {
      machine.switchTo(cpu);
      machine.run({ budget });
    } // prettier-ignore
    const total = 28;
    expect(machine.time).toBe(BigInt(total));
    oracle.finish();
    const times = events.filter((each) => each.kind === 'entry').map((each) => each.time);
    expect(times).toEqual([...times].sort((x, y) => x - y));
    expect(events.slice(0, 4)).toEqual([
      { kind: 'entry', cpu: 0, time: 1, own: 1 },
      { kind: 'entry', cpu: 1, time: 3, own: 1 },
      { kind: 'return', cpu: 1, time: 6, own: 4 },
      { kind: 'entry', cpu: 1, time: 8, own: 6 },
    ]);
    expect(folds(folded.trimEnd().split('\n'))).toBe(total);
    const [f] = counts.rows().filter((row) => row.function?.name === 'f');
    const calls = events.filter((each) => each.kind === 'entry').length;
    expect(f!.self).toBeLessThanOrEqual(3 * calls);
    expect(f!.self).toBeGreaterThan(3 * (calls - 2));
    expect(f!.total).toBe(f!.self);
  });

  test('folded: a recursion of any depth keeps its sum', () => {
    const depth = 5000;
    const events: TraceEvent[] = [];
    for (let i = 0; i < depth; i++) events.push(entry(a, i, i));
    for (let i = depth; i-- > 0;) events.push(leave(a, i, 2 * depth - i));
    events.push(entry(b, 0, 2 * depth), leave(b, 0, 2 * depth + 3));
    const text = write(foldedWriter, events, [2 * depth + 3]);
    expect(folds(text.trimEnd().split('\n'))).toBe(2 * depth + 3);
    expect(text).toContain(`a;${DEEPER} `);
    expect(text).toMatch(/\nb_with_space 3\n$/);
    expect(text.length).toBeLessThan(2_000_000);
  });

  test('profile: recursion counts once in the total', () => {
    const counted = profile();
    for (const each of [
      entry(a, 0, 0),
      entry(a, 1, 10),
      entry(b, 2, 15),
      leave(b, 2, 20),
      leave(a, 1, 30),
      leave(a, 0, 40),
    ]) {
      counted.event(each);
    }
    counted.end([50]);
    expect(counted.rows().map(({ function: of, ...rest }) => ({ name: of?.name, ...rest }))).toEqual([
      { name: 'a', calls: 2, self: 35, total: 40 },
      { name: undefined, calls: 0, self: 10, total: 10 },
      { name: 'b;with space', calls: 1, self: 5, total: 5 },
    ]);
  });

  test('ndjson goes out in pieces and keeps nothing', () => {
    const pieces: string[] = [];
    const sink = ndjsonWriter((text) => pieces.push(text), { source: 'oracle', image: 'x' });
    for (let i = 0; i < 5000; i++) sink.event(entry(b, 0, i));
    expect(pieces.length).toBeGreaterThan(5);
    sink.end([5000]);
    expect(pieces.join('').trimEnd().split('\n').length).toBe(5001);
    expect(JSON.parse(pieces.join('').split('\n')[1]!)).toMatchObject({ function: 'b;with space', address: '0x1010' });
  });
});
