/**
 * Rules of arm64 on loaded images, each with a twin in which the condition is broken: what calls
 * of far modules are compared with, what is patched in the entries of the years before per-callsite
 * ops and what is not since, updates that stop between records, both defaults of words that are
 * off.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { arm64 } from '../src/arch-arm64/index.js';
import { encodeBl } from '../src/arch-arm64/isa.js';
import { ByteView } from '../src/bytes.js';
import { applyPlan } from '../src/patch/apply.js';
import { entryPoint } from '../src/program/entry-points.js';
import { planTracing } from '../src/tracing/tracing.js';
import { verify } from '../src/sites/verdicts.js';
import { startProcess } from '../src/guest/index.js';
import { guestRing } from '../src/running/guest-trace.js';
import { replayRing, tracedFunctions, type TraceEvent } from '../src/trace/index.js';
import { objdump, OBJDUMP } from './support/arm64-tools.js';
import { loadSamples, runImage, trace } from './support/loaded.js';
import { errorOf, openBytes, root } from './support/pipeline.js';
import { describeWith } from './support/tools.js';

const expected = readFileSync(join(root, 'samples/expected/loaded.txt'), 'utf8');
const images = {
  callops: loadSamples({ target: 'arm64', ending: '', flavour: 'callops' }).bytes,
  args: loadSamples({ target: 'arm64', ending: '', flavour: 'args' }).bytes,
  regs: loadSamples({ target: 'arm64', ending: '', flavour: 'regs' }).bytes,
};

function word(bytes: Uint8Array, offset: number, value: number): void {
  new ByteView(bytes, 'little').insertU32(offset, value);
}

describe('A-PLT-5: a far call is compared with what the same function finds for the old target', () => {
  const on = trace(images.callops);
  const off = planTracing(openBytes(on).sites, { tracer: null, others: 'nop' });

  test('sites of modules go off again, by the entry of their PLT', () => {
    expect([off.refusals, off.changed]).toEqual([[], 26]);
    const { sites, program } = openBytes(on);
    const far = Array.from({ length: sites.count }, (_, i) => i).filter(
      (i) => sites.reading(i)!.target !== entryPoint(program, 'ftrace_caller')!.address,
    );
    expect(far.length).toBeGreaterThan(10);
    expect(runImage(applyPlan(openBytes(on).image, off).bytes).output).toBe(expected);
  });

  test('the twin: an entry that leads elsewhere: its sites are wrong, and nothing is written', () => {
    const broken = on.slice();
    const { sites, program, image } = openBytes(broken);
    const near = entryPoint(program, 'ftrace_caller')!.address;
    const site = Array.from({ length: sites.count }, (_, i) => i).find((i) => sites.reading(i)!.target !== near)!;
    const plt = sites.reading(site)!.target!;
    // add x16, x16, #lo12 of another function.
    const at = image.fileOffsetOf(plt + 4n);
    const add = new ByteView(broken, 'little').u32(at);
    word(broken, at, (add & ~(0xfff << 10)) | (((((add >> 10) & 0xfff) + 8) & 0xfff) << 10));
    const again = openBytes(broken);
    const wrong = verify(again.sites).findings.filter(({ severity }) => severity === 'error');
    expect(wrong.length).toBeGreaterThan(0);
    const plan = planTracing(again.sites, { tracer: null, others: 'nop' });
    expect(plan.refusals.length).toBe(wrong.length);
  });
});

describe('A-MOD-3: the call inside the entries of before', () => {
  test.each(['regs', 'args'] as const)('%s: compared, whatever the kernel does, and changed with the tracer', (era) => {
    const on = trace(images[era]);
    const { image, program, sites } = openBytes(on);
    const at = image.fileOffsetOf(entryPoint(program, 'ftrace_call')!.address);
    const other = planTracing(sites, { tracer: { kind: 'counter' }, others: 'nop' });
    expect(other.steps.filter(({ fileOffset }) => fileOffset === at).length).toBe(1);
    const call = entryPoint(program, 'ftrace_call')!.address;
    const inside = entryPoint(program, 'elftrace_function_tracer')!.address + 4n;
    for (const [bad, reason] of [
      [0xd503_201f, /ftrace_call at .*: expected a call/],
      [encodeBl(call, inside), /ftrace_call at .*: the call leads to .*, where no function starts/],
    ] as const) {
      const broken = on.slice();
      word(broken, at, bad);
      const error = errorOf(() => planTracing(openBytes(broken).sites, { tracer: { kind: 'counter' }, others: 'nop' }));
      expect([error.code, error.message]).toEqual(['site-mismatch', expect.stringMatching(reason)]);
    }
  });

  test('callops: there is nothing to patch: no byte of the entries changes, whatever is traced', () => {
    const { image, program } = openBytes(images.callops);
    const part = program.loadMap!.parts.find(({ kind }) => kind === 'runtime')!;
    const text = program.code.filter(({ address }) =>
      part.ranges.some(({ start, end }) => address >= start && address < end),
    );
    expect(text.length).toBeGreaterThan(0);
    for (const kind of ['function', 'function_graph', 'counter'] as const) {
      const on = trace(image.bytes, { tracer: { kind } });
      for (const { fileOffset, bytes } of text)
        expect(on.subarray(fileOffset, fileOffset + bytes.length)).toEqual(bytes);
    }
  });
});

test('A-MOD-5: an update that stops between records while the program runs: output as ever, only enabled functions recorded, at last all', () => {
  // Initialised and off, objects in place: what is left are two stores for each record.
  const first = openBytes(trace(images.callops));
  const off = applyPlan(first.image, planTracing(first.sites, { tracer: null, others: 'nop' })).bytes;
  const before = openBytes(off);
  const plan = planTracing(before.sites, { tracer: { kind: 'function' }, others: 'nop' });
  const records = new Map<number, { address: bigint; bytes: Uint8Array }[]>();
  const words: { address: bigint; bytes: Uint8Array }[] = [];
  for (const { site, address, after } of plan.steps) {
    const store = { address, bytes: after };
    if (site < 0) words.push(store);
    else records.set(site, [...(records.get(site) ?? []), store]);
  }
  expect([records.size, [...records.values()].every((stores) => stores.length === 2)]).toEqual([26, true]);
  const { emulation } = arm64;
  if (emulation.kind !== 'ir') throw new Error('arm64 is not executed');
  let output = '';
  const guest = startProcess({
    image: before.image,
    abi: arm64.abi,
    emulation,
    onOutput: (_fd, chunk) => (output += new TextDecoder().decode(chunk)),
  });
  const { machine } = guest;
  const store = ({ address, bytes }: { address: bigint; bytes: Uint8Array }): void => {
    const view = new ByteView(bytes, 'little');
    for (let at = 0; at < bytes.length;) {
      const width = bytes.length - at >= 8 && (address + BigInt(at)) % 8n === 0n ? 8 : 4;
      expect(machine.writeWord(address + BigInt(at), width, width === 8 ? view.u64(at) : BigInt(view.u32(at)))).toBe(
        true,
      );
      at += width;
    }
  };
  words.forEach(store);
  // Which functions were enabled when.
  const since = new Map<string, number>();
  for (const [site, stores] of records) {
    stores.forEach(store);
    since.set(before.program.symbolName(before.sites.functionSymbol(site)), machine.instructions);
    machine.run({ budget: 100 });
  }
  expect(machine.run({ budget: 1_000_000 }).kind).toBe('exit');
  expect(output).toBe(expected);
  const ring = guestRing(before.program, arm64, guest)!;
  const events: TraceEvent[] = [];
  replayRing(ring, tracedFunctions(openBytes(trace(images.callops)).program), [
    { event: (each) => events.push(each), end: () => undefined },
  ]);
  expect(events.filter((each) => each.time < since.get(each.function.name)!)).toEqual([]);
  expect(events.length).toBeGreaterThan(20);
  expect(events.length).toBeLessThan(90);
});

describeWith([OBJDUMP], 'direct callers', () => {
  test('A-ENT-6: the one that does nothing: x10 := x30, x30 := x9, on by x10', () => {
    const { directCallers } = arm64;
    if (directCallers.kind !== 'code') throw new Error('arm64 has direct callers');
    const view = new ByteView(directCallers.goesOn, 'little');
    const words = Array.from({ length: directCallers.goesOn.length / 4 }, (_, i) => view.u32(4 * i));
    expect(objdump(words, 0)).toEqual(['hint #0x22', 'orr x10, xzr, x30', 'orr x30, xzr, x9', 'ret x10']);
  });
});
