/**
 * Private trampolines in images (X-TR-1 to X-TR-12, T-X86-1 to T-X86-49): one ops, its
 * trampoline in `.elftrace.text`, executed. What is expected of the bytes is decoded here from the
 * rules; actions that fail do so at the one seam between trampolines and the image. The last part
 * changes the inner call while two processors run through it.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { applyEffect, type BatchEntry, entryOfTrap, pokeSteps } from '../src/arch-x86/live.js';
import { branchTarget } from '../src/arch-x86/trampoline.js';
import { x86_64 } from '../src/arch-x86/index.js';
import { arches } from '../src/arches.js';
import type { TextSeam } from '../src/machine/trampolines.js';
import { ByteView } from '../src/bytes.js';
import { type FetchMode, Machine, type PatcherStep } from '../src/emulator/index.js';
import { applyPlan } from '../src/patch/apply.js';
import { withRuntime } from '../src/tracing/inject.js';
import { planTracing, type Tracer, type TracingPlan, type TracingRequest } from '../src/tracing/tracing.js';
import { OPS_FLAGS, OPS_WORDS } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { comparable, runWithBoth, traceDifferences } from './support/compare-traces.js';
import { runImage } from './support/loaded.js';
import { differences, edited, type Opened, openBytes, readSample } from './support/pipeline.js';
import { interleavings } from './support/interleavings.js';
import { runProgramFile } from './support/tools.js';
import { isX86Linux } from './support/processor.js';
import { repeats, sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-x86-tramp-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const native = isX86Linux;

type Variant = 'modern' | '2014';
const variants = ['modern', '2014'] as const;
const SAMPLE = 'x86-64/program-fentry';
const original = readSample(SAMPLE);
const lines = (output: string): string => output.replace(/^trace=.*\n/gm, '');
const before = lines(runImage(original).output);
const FUNCTION: Tracer = { kind: 'function' };
const COUNTER: Tracer = { kind: 'counter' };
const GRAPH: Tracer = { kind: 'function_graph' };

const bare = new Map<string, Uint8Array>();
/** The sample with a runtime in it, nothing on. */
function base(variant: Variant | 'none'): Uint8Array {
  let bytes = bare.get(variant);
  if (!bytes) {
    bytes = withRuntime(openBytes(original).sites, undefined, undefined, undefined, { 'x86-tramp': variant }).bytes;
    bare.set(variant, bytes);
  }
  return bytes.slice();
}

interface Done {
  readonly bytes: Uint8Array;
  readonly plan: TracingPlan;
}

/**
 * Every function but nested ones, which take the function tracer of 2014 to the register entry
 * (test below).
 */
function register(bytes: Uint8Array, request: Partial<TracingRequest> & { readonly tracer: Tracer | null }): Done {
  const { image, sites } = openBytes(bytes);
  const selection = Uint8Array.from({ length: sites.count }, (_, i) => {
    const reading = sites.reading(i)!;
    return reading.shape.servedAt?.(reading, sites.viewOf(i)).callerInFrame === true ? 0 : 1;
  });
  const plan = planTracing(sites, { others: 'untouched', selection, ...request });
  expect(plan.refusals).toEqual([]);
  return { bytes: applyPlan(image, plan).bytes, plan };
}

/** The image without the record, which has its own bytes. */
function address({ program }: Opened, name: string): bigint {
  const found = program.definedAt(program.symbols.find(name));
  if (found === null) throw new Error(`no ${name}`);
  return found;
}

interface State {
  readonly opened: Opened;
  readonly trampoline: bigint;
  readonly flags: number;
  readonly func: bigint;
  readonly ops: bigint;
  /** Where sites lead. */
  readonly targets: readonly bigint[];
  at(from: bigint, size: number): Uint8Array;
}

function stateOf(bytes: Uint8Array): State {
  const opened = openBytes(bytes);
  const { program, sites, image } = opened;
  const ops = address(opened, 'elftrace_data');
  const word = (index: number): bigint => program.reader.u64(ops + BigInt(8 * index))!;
  const targets = new Set<bigint>();
  for (let i = 0; i < sites.count; i++) {
    const target = sites.state(i) === 'call' ? sites.reading(i)!.target : null;
    if (target !== null) targets.add(target);
  }
  return {
    opened,
    ops,
    trampoline: word(OPS_WORDS.trampoline),
    flags: Number(word(OPS_WORDS.flags)),
    func: word(OPS_WORDS.func),
    targets: [...targets],
    at: (from, size) => image.bytes.slice(image.fileOffsetOf(from), image.fileOffsetOf(from) + size),
  };
}

const isAllocated = ({ flags }: State): boolean => (flags & OPS_FLAGS.ALLOC_TRAMP) !== 0;
const labels = (kind: 'plain' | 'regs') => {
  const start = kind === 'plain' ? 'ftrace_caller' : 'ftrace_regs_caller';
  return {
    start,
    op: `${start}_op_ptr`,
    call: kind === 'plain' ? 'ftrace_call' : 'ftrace_regs_call',
    end: `${start}_end`,
  };
};

/** What the rules say a finished block has, from its bytes and the labels of the entry alone. */
function decoded(state: State, variant: Variant, kind: 'plain' | 'regs') {
  const { opened, trampoline } = state;
  const { start, op, call, end } = labels(kind);
  const first = address(opened, start);
  const size = Number(address(opened, end) - first);
  const o = Number(address(opened, op) - first);
  const c = Number(address(opened, call) - first);
  const tail = variant === '2014' ? 5 : 1;
  const block = state.at(trampoline, size + tail + 8);
  const view = new ByteView(block, 'little');
  const template = state.at(first, size);
  return {
    size,
    o,
    c,
    tail,
    block,
    template,
    load: block.slice(o, o + 3),
    loads: view.u64(o + 7 + (view.u32(o + 3) | 0)),
    callee: branchTarget(block.subarray(c), trampoline + BigInt(c)),
    end: block[size]!,
    back: branchTarget(block.subarray(size), trampoline + BigInt(size), 0xe9),
  };
}

/** Runs: what the program prints, and who was called, by the runtime's own books. */
function run(bytes: Uint8Array): { output: string; count: number; entries: readonly string[] } {
  const both = runWithBoth(bytes);
  const { word } = runImage(bytes);
  const path = join(folder, 'program');
  writeFileSync(path, bytes);
  chmodSync(path, 0o755);
  if (native) expect(lines(runProgramFile(path).stdout)).toBe(lines(both.output));
  return { output: lines(both.output), count: Number(word('elftrace_count')), entries: comparable(both.guest) };
}

const calls = run(register(base('none'), { tracer: COUNTER }).bytes).count;

/** A seam with some actions replaced. */
const failing =
  (change: (own: TextSeam) => Partial<TextSeam>): ((own: TextSeam) => TextSeam) =>
  (own) => ({
    allocate: (size, near) => own.allocate(size, near),
    free: (at, size) => {
      own.free(at, size);
    },
    read: (at, size) => own.read(at, size),
    fill: (at, bytes) => own.fill(at, bytes),
    patch: (at, from, to) => own.patch(at, from, to),
    seal: (at, size) => {
      own.seal(at, size);
    },
    warn: (warning) => {
      own.warn(warning);
    },
    ...change(own),
  });

/** Nothing of the trampoline is left, and the tracer works through the shared entry. */
function expectShared({ bytes, plan }: Done, notices: readonly unknown[]): void {
  const state = stateOf(bytes);
  expect([state.trampoline, isAllocated(state)]).toEqual([0n, false]);
  expect(state.targets).toEqual([address(state.opened, 'ftrace_caller')]);
  expect(plan.notices ?? []).toEqual(notices);
  expect(run(bytes)).toMatchObject({ output: before, count: calls });
  const room = state.opened.image.section('.elftrace.text')!;
  expect(state.at(room.address, room.size).every((byte) => byte === 0xcc)).toBe(true);
}

describe.each(sampled(variants, 2))('%s', (variant) => {
  test.each(['plain', 'regs'] as const)(
    'C-TRAMP-1 C-TRAMP-2 C-TRAMP-6 T-X86-3 T-X86-7 T-X86-8 T-X86-11 T-X86-12 T-X86-13 T-X86-14 T-X86-16 T-X86-20 T-X86-24 T-X86-27: %s, made, called and run',
    (kind) => {
      const { bytes, plan } = register(base(variant), { tracer: COUNTER, saveRegs: kind === 'regs' });
      const state = stateOf(bytes);
      expect(plan.notices).toBeUndefined();
      expect(isAllocated(state)).toBe(true);
      // Every site calls the block itself, and nobody the list.
      expect(state.targets).toEqual([state.trampoline]);
      // A section and a segment that the file did not have.
      const room = state.opened.image.section('.elftrace.text')!;
      expect(state.trampoline).toBe(room.address);
      const had = openBytes(original);
      expect([had.image.section('.elftrace.text'), had.program.codeAt(room.address)]).toEqual([undefined, undefined]);
      expect(state.opened.image.segments.find(({ address: at, fileSize }) => room.address >= at && room.address < at + BigInt(fileSize))!.flags & 7).toBe(5); // prettier-ignore
      expect(stateOf(base(variant)).trampoline).toBe(0n);
      const found = decoded(state, variant, kind);
      expect([...found.load]).toEqual([0x48, 0x8b, 0x15]);
      expect([found.loads, found.callee]).toEqual([state.ops, address(state.opened, 'elftrace_counter')]);
      if (variant === '2014') expect([found.end, found.back]).toEqual([0xe9, address(state.opened, 'ftrace_return')]);
      else expect(found.end).toBe(0xc3);
      // The displacement is S - o - 2 (with the return's size for 5), the copy is the entry but for
      // the load, the call and the jump.
      expect(new ByteView(found.block, 'little').u32(found.o + 3)).toBe(found.size + found.tail - found.o - 7);
      const changed = differences(found.template, found.block.subarray(0, found.size));
      const j =
        kind === 'regs' && variant === 'modern'
          ? Number(address(state.opened, 'ftrace_regs_caller_jmp') - address(state.opened, 'ftrace_regs_caller'))
          : -9;
      const allowed = (at: number): boolean =>
        (at >= found.o + 3 && at < found.o + 7) || (at > found.c && at < found.c + 5) || at === j || at === j + 1;
      expect(changed.filter((at) => !allowed(at))).toEqual([]);
      if (j > 0) expect([...found.block.subarray(j, j + 2)]).toEqual([0x66, 0x90]);
      // Behind the block nothing was written.
      const rest = state.at(state.trampoline + BigInt(found.block.length), 64);
      expect(rest.every((byte) => byte === 0xcc)).toBe(true);
      expect(run(bytes)).toMatchObject({ output: before, count: calls });
    },
  );

  test('a nested function among the traced ones: the function tracer of 2014 finds its caller in a register frame only', () => {
    const everything = openBytes(base(variant)).sites.count;
    const { bytes, plan } = register(base(variant), {
      tracer: FUNCTION,
      selection: new Uint8Array(everything).fill(1),
    });
    expect(plan.enabled).toBe(plan.selected);
    const state = stateOf(bytes);
    expect((state.flags & OPS_FLAGS.SAVE_REGS) !== 0).toBe(variant === '2014');
    expect(decoded(state, variant, variant === '2014' ? 'regs' : 'plain').loads).toBe(state.ops);
    const { output, entries } = run(bytes);
    expect([output, entries.length > calls]).toEqual([before, true]);
    expect(traceDifferences(runWithBoth(bytes))).toEqual([]);
  });

  test('T-X86-15: with garbage in the global word it still finds its own ops', () => {
    const { bytes } = register(base(variant), { tracer: COUNTER });
    const { opened } = stateOf(bytes);
    const at = opened.image.fileOffsetOf(address(opened, 'function_trace_op'));
    const garbage = edited(bytes, at, new Uint8Array(8).fill(0xa5));
    expect(run(garbage)).toMatchObject({ output: before, count: calls });
    // Through the shared entry it is what the callback gets.
    const shared = register(base('none'), { tracer: COUNTER }).bytes;
    expect(() =>
      runImage(
        edited(
          shared,
          openBytes(shared).image.fileOffsetOf(address(openBytes(shared), 'function_trace_op')),
          new Uint8Array(8).fill(0xa5),
        ),
      ),
    ).toThrow(/fault|stopped/);
  });

  test('C-TRAMP-2 T-X86-18 T-X86-19 T-X86-21: another function for the same ops: the same block, four bytes of its call', () => {
    for (const saveRegs of [false, true]) {
      const kind = saveRegs ? 'regs' : 'plain';
      const first = register(base(variant), { tracer: FUNCTION, saveRegs });
      const second = register(first.bytes, { tracer: COUNTER, saveRegs });
      const [a, b] = [stateOf(first.bytes), stateOf(second.bytes)];
      expect([b.trampoline, b.targets]).toEqual([a.trampoline, [a.trampoline]]);
      const { c, callee, block } = decoded(b, variant, kind);
      const changed = differences(decoded(a, variant, kind).block, block);
      expect(changed.every((at) => at > c && at < c + 5)).toBe(true);
      expect([changed.length > 0, block[c], callee]).toEqual([true, 0xe8, address(b.opened, 'elftrace_counter')]);
      const stores = second.plan.steps.filter(({ section }) => section === '.elftrace.text');
      expect(stores.map(({ before: from }) => from.length)).toEqual([5]);
      expect(second.plan.steps.some((step) => step.rule === 'X-MOD-2')).toBe(false);
      expect(run(second.bytes)).toMatchObject({ output: before, count: calls });
      expect(run(first.bytes).entries.length).toBe(calls);
    }
  });

  test('T-X86-44: SAVE_REGS changed between two registrations: another copy is made, the old one goes', () => {
    const plain = register(base(variant), { tracer: COUNTER });
    const regs = register(plain.bytes, { tracer: COUNTER, saveRegs: true });
    const [a, b] = [stateOf(plain.bytes), stateOf(regs.bytes)];
    expect(b.trampoline).not.toBe(a.trampoline);
    expect(b.targets).toEqual([b.trampoline]);
    expect(decoded(b, variant, 'regs').loads).toBe(b.ops);
    expect(b.at(a.trampoline, 16).every((byte) => byte === 0xcc)).toBe(true);
    expect(run(regs.bytes)).toMatchObject({ output: before, count: calls });
    // And back: the room is used again.
    const back = register(regs.bytes, { tracer: COUNTER });
    expect(stateOf(back.bytes).trampoline).toBe(a.trampoline);
    expect(run(back.bytes)).toMatchObject({ output: before, count: calls });
  });

  test('T-X86-45: while it is made, the copy of 2014 calls what the entry calls, displaced; no site calls it then', () => {
    const seen: Uint8Array[] = [];
    let at = 0n;
    const seam = failing((own) => ({
      fill(place, bytes) {
        at = place;
        seen.push(bytes.slice());
        return own.fill(place, bytes);
      },
    }));
    const image = base(variant);
    const { bytes, plan } = register(image, { tracer: COUNTER, seam });
    const { opened } = stateOf(image);
    const [start, call] = [address(opened, 'ftrace_caller'), address(opened, 'ftrace_call')];
    const c = call - start;
    const inFile = opened.image.bytes.subarray(opened.image.fileOffsetOf(call));
    const old = branchTarget(inFile, call)!;
    const [block] = seen;
    const callee = branchTarget(block!.subarray(Number(c)), at + c);
    if (variant === '2014') expect(callee).toBe(old + (at - start));
    else expect(callee).toBe(address(opened, 'elftrace_counter'));
    // Nothing was written before all of it was decided, and the finished call is right.
    expect(plan.steps.filter(({ section }) => section === '.elftrace.text').length).toBe(1);
    expect(decoded(stateOf(bytes), variant, 'plain').callee).toBe(address(opened, 'elftrace_counter'));
  });

  test('T-X86-37: off and on again, and the graph tracer in between: the same place, the same bytes, nothing left over', () => {
    const on = register(base(variant), { tracer: FUNCTION });
    const graph = register(on.bytes, { tracer: GRAPH });
    expect(run(graph.bytes)).toMatchObject({ output: before });
    const off = register(graph.bytes, { tracer: null });
    const again = register(off.bytes, { tracer: FUNCTION });
    const [a, b] = [stateOf(on.bytes), stateOf(again.bytes)];
    expect([b.trampoline, b.flags, b.targets]).toEqual([a.trampoline, a.flags, a.targets]);
    const room = a.opened.image.section('.elftrace.text')!;
    expect(b.at(room.address, room.size)).toEqual(a.at(room.address, room.size));
    const gone = stateOf(off.bytes);
    expect(gone.at(room.address, room.size).every((byte) => byte === 0xcc)).toBe(true);
    expect([gone.trampoline, gone.flags, gone.func]).toEqual([0n, 0, 0n]);
    expect(run(again.bytes)).toMatchObject({ output: before });
  });

  test('T-X86-4 T-X86-16: the graph tracer alone', () => {
    const { bytes } = register(base(variant), { tracer: GRAPH });
    const state = stateOf(bytes);
    if (variant === '2014') {
      // The static entry: nobody allocated it.
      const entry = address(state.opened, 'ftrace_graph_caller');
      expect([state.targets, state.trampoline, isAllocated(state)]).toEqual([[entry], entry, false]);
      expect(state.flags & OPS_FLAGS.STUB).not.toBe(0);
    } else {
      // A callback like any other.
      expect([isAllocated(state), state.targets]).toEqual([true, [state.trampoline]]);
      expect(decoded(state, variant, 'plain').callee).toBe(address(state.opened, 'ftrace_graph_func'));
    }
    const { output, entries } = run(bytes);
    expect([output, entries.filter((each) => each.startsWith('<')).length]).toEqual([before, calls]);
  });

  // ------------------------------------------------------------------------------------ what fails

  test('T-X86-9: no memory: no trampoline, no error, not even a warning', () => {
    const seam = failing(() => ({ allocate: () => null }));
    expectShared(register(base(variant), { tracer: COUNTER, seam }), []);
  });

  test('T-X86-10: the entry cannot be read: a warning, the memory is given back, none', () => {
    const freed: bigint[] = [];
    const seam = failing((own) => ({
      read: () => null,
      free: (at, size) => {
        freed.push(at);
        own.free(at, size);
      },
    }));
    const done = register(base(variant), { tracer: COUNTER, seam });
    expectShared(done, [expect.stringMatching(/^private trampoline: template-unreadable: .* cannot be read$/)]);
    expect(freed).toEqual([stateOf(done.bytes).opened.image.section('.elftrace.text')!.address]);
  });

  test('T-X86-13: 48 8b 0d at the label instead: a warning, none', () => {
    const image = base(variant);
    const { opened } = stateOf(image);
    const at = opened.image.fileOffsetOf(address(opened, 'ftrace_caller_op_ptr'));
    const other = edited(image, at + 2, [0x0d]);
    const { bytes, plan } = register(other, { tracer: COUNTER });
    const state = stateOf(bytes);
    expect([state.trampoline, isAllocated(state), state.targets]).toEqual([
      0n,
      false,
      [address(state.opened, 'ftrace_caller')],
    ]);
    expect(plan.notices).toEqual([expect.stringMatching(/ops-load: .*48:8b:0d|ops-load: .*48 8b 0d/)]);
  });

  test('C-TRAMP-2 T-X86-17: a trampoline that its user gave is called and never written', () => {
    const image = base(variant);
    const { opened, ops } = stateOf(image);
    // The user's: the register entry, as it stands.
    const given = address(opened, 'ftrace_regs_caller');
    const word = new Uint8Array(8);
    new ByteView(word, 'little').insertU64(0, given);
    const mine = edited(image, opened.image.fileOffsetOf(ops + BigInt(8 * OPS_WORDS.trampoline)), word);
    const size = Number(address(opened, 'ftrace_regs_caller_end') - given);
    for (const tracer of [FUNCTION, COUNTER]) {
      const { bytes } = register(mine, { tracer });
      const state = stateOf(bytes);
      expect([state.trampoline, state.targets, isAllocated(state)]).toEqual([given, [given], false]);
      const room = state.opened.image.section('.elftrace.text')!;
      expect(state.at(room.address, room.size).every((byte) => byte === 0xcc)).toBe(true);
      // Its patched call belongs to the shared entry, and is changed as such: everything else of it
      // is as before.
      const c = Number(address(opened, 'ftrace_regs_call') - given);
      const changed = differences(state.at(given, size), stateOf(mine).at(given, size));
      expect(changed.every((at) => at > c && at < c + 5)).toBe(true);
      expect(run(bytes).output).toBe(before);
    }
  });

  test('T-X86-22: the call cannot be changed (EPERM): reported, and the trampoline that would call the tracer of before is not used', () => {
    const first = register(base(variant), { tracer: FUNCTION });
    const seam = failing(() => ({ patch: () => false }));
    const done = register(first.bytes, { tracer: COUNTER, seam });
    expectShared(done, [
      expect.stringMatching(/^private trampoline: call-not-changed: the call at 0x\w+ cannot be written \(EPERM\)$/),
    ]);
    if (variant === '2014') {
      // While it is made, too: such a block would call nothing that exists.
      expectShared(register(base(variant), { tracer: COUNTER, seam }), [
        expect.stringMatching(/call-not-changed.*EPERM/),
        expect.stringMatching(/write-failed/),
      ]);
    }
  });

  test('T-X86-41: memory 4 GiB away: none, the shared entry, and the registration succeeds', () => {
    const seam = failing((own) => ({
      allocate: (size, near) => near + 0x1_0000_0000n + BigInt(size),
      free: () => undefined,
      fill: () => own !== null,
    }));
    expectShared(register(base(variant), { tracer: COUNTER, seam }), [expect.stringMatching(/out-of-reach/)]);
    // What the image has is near all that must reach it.
    const state = stateOf(register(base(variant), { tracer: COUNTER }).bytes);
    for (const other of [
      address(state.opened, 'program'),
      address(state.opened, 'elftrace_counter'),
      address(state.opened, 'ftrace_caller'),
    ]) {
      const distance = state.trampoline - other;
      expect(distance < 0x7fff_0000n && distance > -0x7fff_0000n).toBe(true);
    }
  });

  test('T-X86-28: a label that is not global: refused with that reason', () => {
    const image = base(variant);
    const { opened } = stateOf(image);
    const { symbols } = opened.program;
    const symtab = opened.image.section('.symtab')!;
    const index = symbols.find('ftrace_caller_op_ptr');
    // st_info is at byte 4 of an entry of 24.
    const at = symtab.offset + index * 24 + 4;
    const local = edited(image, at, [image[at]! & 15]);
    const done = register(local, { tracer: COUNTER });
    expectShared(done, [
      expect.stringMatching(/label-missing: the plain entry has no global label ftrace_caller_op_ptr/),
    ]);
  });
});

describe('capabilities', () => {
  test('C-TRAMP-3 T-X86-23 T-X86-31: one machine has private trampolines; on the others every hit goes through the shared entry', () => {
    const kinds = arches.map(({ target, trampolines }) => [target.id, trampolines.kind]);
    expect(kinds.filter(([, kind]) => kind === 'private')).toEqual([['x86-64', 'private']]);
    expect(kinds.length).toBe(9);
    const { sites } = openBytes(readSample('ppc64-elfv2-le/program-mprofile'));
    const { image, sites: on } = openBytes(withRuntime(sites, undefined).bytes);
    const plan = planTracing(on, { tracer: COUNTER, others: 'untouched' });
    const after = openBytes(applyPlan(image, plan).bytes);
    expect(after.image.section('.elftrace.text')).toBeUndefined();
    const data = after.program.definedAt(after.program.symbols.find('elftrace_data'))!;
    expect(after.program.reader.u64(data + BigInt(8 * OPS_WORDS.trampoline))).toBe(0n);
  });

  test('T-X86-42: flags of an ops with a trampoline: ENABLED 0, INITIALIZED 6, ALLOC_TRAMP 11', () => {
    const { flags } = stateOf(register(base('modern'), { tracer: COUNTER }).bytes);
    expect(flags).toBe((1 << 0) | (1 << 6) | (1 << 11));
  });

  test('--x86-tramp=none: no room, no trampoline; --x86-tramp=none on an image with room takes it away', () => {
    const none = stateOf(register(base('none'), { tracer: COUNTER }).bytes);
    expect([none.opened.image.section('.elftrace.text'), none.trampoline]).toEqual([undefined, 0n]);
    const on = register(base('modern'), { tracer: COUNTER });
    expectShared(register(on.bytes, { tracer: COUNTER, trampolines: false }), []);
  });
});

test('the command line: enable, another tracer, EPERM by --readonly, off, revert', () => {
  const path = (name: string, bytes?: Uint8Array): string => {
    const file = join(folder, name);
    if (bytes) writeFileSync(file, bytes);
    return file;
  };
  const sample = path('sample', original);
  for (const variant of variants) {
    const on = path(`on-${variant}`);
    const done = elftrace(['patch', sample, '--enable', '-n', 'inner*', `--x86-tramp=${variant}`, '-o', on]);
    expect([done.status, done.stderr]).toEqual([0, '']);
    const state = stateOf(new Uint8Array(readFileSync(on)));
    const room = state.opened.image.section('.elftrace.text')!;
    const readonly = `${String(room.offset)}+${String(room.size)}`;
    const next = path(`next-${variant}`);
    const counter = ['--tracer', 'counter', '-n', 'inner*', '--readonly', readonly];
    const again = elftrace(['patch', on, '--enable', ...counter, '-o', next]);
    expect([again.status, again.stderr]).toEqual([
      0,
      expect.stringMatching(/notice: private trampoline: call-not-changed: .*EPERM/),
    ]);
    const after = new Uint8Array(readFileSync(next));
    expect(run(after)).toMatchObject({ output: before, count: calls });
    // What may not be written is as it was, the block that nobody calls included.
    expect(stateOf(after).at(room.address, room.size)).toEqual(state.at(room.address, room.size));
    const back = path(`back-${variant}`);
    expect(elftrace(['revert', next, '-o', back]).status).toBe(0);
    expect(new Uint8Array(readFileSync(back))).toEqual(original);
  }
});

// ---------------------------------------------------------------------------- while processors run

describe('T-X86-21 H1: the inner call changed while two processors run through the trampoline', () => {
  const STACK = 0x7000_0000n;
  const STOP = 0x7100_0000n;
  let schedules = 0;
  afterAll(() => {
    process.stdout.write(`inner call: ${String(schedules)} schedules\n`);
  });

  interface Scene {
    readonly machine: Machine;
    readonly call: bigint;
    readonly after: Uint8Array;
    word(name: string): bigint;
  }

  /**
   * Two processors in a function of the image, each `ahead` instructions in front of the inner
   * call.
   */
  function scene(variant: Variant, fetch: FetchMode, ahead: number): Scene {
    const { bytes } = register(base(variant), { tracer: FUNCTION });
    const state = stateOf(bytes);
    const { opened, trampoline } = state;
    const { emulation } = x86_64;
    if (emulation.kind !== 'ir') throw new Error('not executed');
    const machine = new Machine({ lifter: emulation.lifter, fetch });
    for (const { type, address: at, offset, fileSize, memorySize } of opened.image.segments) {
      if (type !== 1 || memorySize === 0n) continue;
      const start = at & ~0xfffn;
      const size = Number(((at + memorySize + 0xfffn) & ~0xfffn) - start);
      machine.map({ address: start, size, permission: 'rwx' });
      machine.memory.write(at, opened.image.bytes.slice(Number(offset), Number(offset) + Number(fileSize)));
    }
    machine.map({ address: STACK, size: 0x4000, permission: 'rw' });
    machine.map({ address: STOP, size: 0x1000, permission: 'rwx' });
    machine.memory.write(STOP, Uint8Array.of(0x0f, 0x0b));
    machine.addCpu();
    const { c } = decoded(state, variant, 'plain');
    const call = trampoline + BigInt(c);
    for (const cpu of [0, 1]) {
      machine.switchTo(cpu);
      const rsp = STACK + BigInt(0x1ff8 + 0x2000 * cpu);
      machine.setRegister('rsp', rsp);
      machine.setRegister('rdi', 5n);
      machine.writeWord(rsp, 8, STOP);
      machine.setRegister('pc', address(opened, 'leaf'));
      const places: bigint[] = [];
      for (let i = 0; i < 60 && machine.register('pc') !== call; i++) {
        places.push(machine.register('pc'));
        machine.run({ budget: 1 });
      }
      expect(machine.register('pc')).toBe(call);
      // Once more, and not so far.
      machine.setRegister('rsp', rsp);
      machine.writeWord(rsp, 8, STOP);
      machine.setRegister('rdi', 5n);
      machine.setRegister('pc', address(opened, 'leaf'));
      machine.run({ budget: places.length - ahead });
    }
    // The new function lies far from the old one, so that displacements with bytes of both lead
    // elsewhere; it goes on to the counter.
    const branch = (opcode: number, from: bigint, to: bigint): Uint8Array => {
      const bytes = Uint8Array.of(opcode, 0, 0, 0, 0);
      new ByteView(bytes, 'little').insertU32(1, Number(BigInt.asUintN(32, to - (from + 5n))));
      return bytes;
    };
    const callee = STOP + 0x810n;
    machine.memory.write(callee, branch(0xe9, callee, address(opened, 'elftrace_counter')));
    const after = branch(0xe8, call, callee);
    expect(differences(after, decoded(state, variant, 'plain').block.slice(c, c + 5)).length).toBe(4);
    const ring = machine.readWord(address(opened, 'elftrace_ring'), 8)!;
    return {
      machine,
      call,
      after,
      word: (name) => machine.readWord(name === 'head' ? ring + 24n : address(opened, name), 8)!,
    };
  }

  /** A processor goes on; the handler of the protocol serves its breakpoints. Null: fine. */
  function go(machine: Machine, cpu: number, instructions: number, published: readonly BatchEntry[]): string | null {
    machine.switchTo(cpu);
    const end = machine.instructions + instructions;
    while (machine.instructions < end) {
      const stop = machine.run({ budget: end - machine.instructions });
      if (stop.kind === 'step-limit') return null;
      if (stop.kind !== 'trap') return stop.kind;
      if (stop.trap === 'undefined-instruction' && stop.instruction === STOP) return null;
      const entry = stop.trap === 'breakpoint' ? entryOfTrap(published, stop.instruction + 1n) : null;
      if (entry === null) return `${stop.trap} at ${stop.instruction.toString(16)}`;
      applyEffect(entry.effect, {
        flags: 0,
        setIp: (at) => {
          machine.setRegister('pc', at);
        },
        push: (value) => {
          const rsp = machine.register('rsp') - 8n;
          machine.setRegister('rsp', rsp);
          machine.writeWord(rsp, 8, value);
        },
        pop: () => 0n,
      });
    }
    return null;
  }

  type Steps = readonly (
    PatcherStep | { readonly kind: 'publish'; readonly entries: readonly BatchEntry[] } | { readonly kind: 'retract' }
  )[];

  /**
   * The ways of two processors through the steps: each stands anywhere in its `n` instructions when
   * a store is made.
   */
  function* positions(steps: number, n: number): Generator<readonly (readonly [number, number])[]> {
    function* from(step: number, a: number, b: number): Generator<readonly (readonly [number, number])[]> {
      if (step === steps) {
        yield [];
        return;
      }
      for (let i = a; i <= n; i++)
        for (let j = b; j <= n; j++) for (const rest of from(step + 1, i, j)) yield [[i, j], ...rest];
    }
    yield* from(0, 0, 0);
  }

  function explore(
    { machine, word }: Scene,
    steps: Steps,
    n: number,
  ): { all: number; wrong: number; old: number; both: number; fresh: number } {
    const start = machine.snapshot();
    const found = { all: 0, wrong: 0, old: 0, both: 0, fresh: 0 };
    const stores = steps.filter(({ kind }) => kind === 'store').length;
    for (const places of positions(stores, n)) {
      machine.restore(start);
      const [head, count] = [word('head'), word('elftrace_count')];
      let published: readonly BatchEntry[] = [];
      let problem: string | null = null;
      let done: readonly [number, number] = [0, 0];
      let k = 0;
      for (const step of steps) {
        if (step.kind === 'store') {
          const to = places[k++]!;
          for (const cpu of [0, 1] as const) problem ??= go(machine, cpu, to[cpu] - done[cpu], published);
          done = to;
          machine.writeWord(step.address, step.width, step.value);
        } else if (step.kind === 'synchronise') machine.synchronise(step.cpu);
        else if (step.kind === 'publish') published = step.entries;
        else published = [];
        if (problem !== null) break;
      }
      for (const cpu of [0, 1]) problem ??= go(machine, cpu, 600, published);
      const [entries, counted] = [word('head') - head, word('elftrace_count') - count];
      for (const cpu of [0, 1]) {
        machine.switchTo(cpu);
        if (machine.register('pc') !== STOP || machine.register('rsp') !== STACK + BigInt(0x2000 + 0x2000 * cpu))
          problem ??= 'lost';
      }
      // Each processor was heard of once, by the old function or by the new one.
      if (entries + counted !== 2n) problem ??= `${String(entries)} and ${String(counted)}`;
      found.all++;
      schedules++;
      if (problem !== null) found.wrong++;
      else if (counted === 0n) found.old++;
      else if (entries === 0n) found.fresh++;
      else found.both++;
    }
    return found;
  }

  /**
   * The protocol with every byte a store of its own: no more of it is one event to those who fetch.
   */
  function protocol({ call, after }: Scene): (Steps[number] | { readonly kind: 'sync' })[] {
    return pokeSteps([{ address: call, after }]).flatMap((step): (Steps[number] | { readonly kind: 'sync' })[] => {
      switch (step.kind) {
        case 'store':
          return [...step.bytes].map((byte, i) => ({
            kind: 'store',
            address: step.address + BigInt(i),
            width: 1,
            value: BigInt(byte),
          }));
        case 'retract':
        case 'wait-handlers':
          return [{ kind: 'retract' }];
        case 'publish':
        case 'sync':
          return [step];
        default:
          return step satisfies never;
      }
    });
  }

  const synchronise: Steps = [0, 1].map((cpu) => ({ kind: 'synchronise', cpu }));
  const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k);

  test.each(variants)('%s: four bytes stored one by one are executed torn', (variant) => {
    const here = scene(variant, 'coherent', 1);
    const steps: Steps = [...here.after]
      .map((byte, i) => ({ kind: 'store', address: here.call + BigInt(i), width: 1, value: BigInt(byte) }) as const)
      .slice(1);
    const found = explore(here, steps, 2);
    expect(found.all).toBe(choose(6, 4) ** 2);
    expect([found.wrong > 0, found.old > 0, found.fresh > 0]).toEqual([true, true, true]);
  });

  test.each(
    variants.flatMap((variant) => repeats(['buffered', 'coherent'] as const).map((fetch) => [variant, fetch] as const)),
  )(
    '%s, fetch %s: with int3 every processor calls the old function or the new one, at every interleaving',
    (variant, fetch) => {
      // One before the call, at it, in the function: it is executed between any two stores.
      const here = scene(variant, fetch, 1);
      const steps: Steps = protocol(here).flatMap((step): Steps => (step.kind === 'sync' ? synchronise : [step]));
      const found = explore(here, steps, 2);
      expect(found.all).toBe(choose(2 + 6, 6) ** 2);
      expect(found.wrong).toBe(0);
      expect([found.old > 0, found.fresh > 0, found.both > 0]).toEqual([true, true, true]);
    },
  );

  test('one processor, further away', () => {
    for (const safe of [false, true]) {
      const here = scene('modern', 'coherent', 2);
      const entries: BatchEntry[] = [];
      const patcher = protocol(here).flatMap((step): PatcherStep[] => {
        if (step.kind === 'publish') entries.push(...step.entries);
        if (step.kind === 'sync') return safe ? [{ kind: 'synchronise', cpu: 1 }] : [];
        if (step.kind !== 'store') return [];
        return safe || step.address > here.call ? [step] : [];
      });
      const start = here.machine.snapshot();
      let [wrong, all] = [0, 0];
      for (const schedule of interleavings({ cpu: 1, instructions: 3, patcher, after: 600 })) {
        here.machine.restore(start);
        all++;
        schedules++;
        let problem: string | null = null;
        for (const step of schedule) {
          if (step.kind === 'run') problem ??= go(here.machine, 1, step.instructions, safe ? entries : []);
          else if (step.kind === 'store') here.machine.writeWord(step.address, step.width, step.value);
          else here.machine.synchronise(step.cpu);
        }
        here.machine.switchTo(1);
        if (problem !== null || here.machine.register('pc') !== STOP) wrong++;
      }
      expect(all).toBe(choose(3 + patcher.length, patcher.length));
      expect(wrong > 0).toBe(!safe);
    }
  });
});
