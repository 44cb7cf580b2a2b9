/**
 * Rules of dynamically allocated trampolines on real images (90-source-checklist T-X86, 10-x86): each is shown by the bytes of an image with modules, and by
 * what its calls run in the emulator; what must not happen has a twin in which it does. Sessions of the core throughout; x86-trampolines.test.ts has the same
 * for single tracers.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { jumpBytes } from '../src/arch-x86/trampoline.js';
import type { LiveEntry, TargetId, TextSeam } from '../src/arch.js';
import { archOf } from '../src/arches.js';
import { ByteView } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { type Machine, startProcess } from '../src/emulator/index.js';
import { GraphUser, type Ops, type Outcome } from '../src/ftrace/core/index.js';
import type { Text } from '../src/ftrace/image-backend.js';
import { withRuntime } from '../src/ftrace/inject.js';
import { liveText, outsideTracer } from '../src/ftrace/live.js';
import { Session, type SessionOptions } from '../src/ftrace/session.js';
import { planTracing } from '../src/ftrace/tracing.js';
import { applyPlan } from '../src/ftrace/apply.js';
import { readLoadMap } from '../src/program/load-map.js';
import { type EntryFlavour, OPS_FLAGS, OPS_WORDS } from '../src/runtime/index.js';
import { elftrace } from './support/cli.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { loadSamples, runImage } from './support/loaded.js';
import { differences, edited, errorOf, openBytes, readSample } from './support/pipeline.js';
import { tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-x86-images-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

type Variant = 'modern' | '2014' | 'none';
const both = ['modern', '2014'] as const;
const flavours: Readonly<Record<Variant, EntryFlavour>> = { modern: 'modern', '2014': 'y2014', none: 'modern' };

const images = new Map<Variant, Uint8Array>();
/** Core and two modules near it, nothing on. */
function imageOf(variant: Variant): Uint8Array {
  let bytes = images.get(variant);
  if (!bytes) {
    ({ bytes } = loadSamples(
      { target: 'x86-64', ending: '', flavour: flavours[variant] },
      { moduleBase: 0x2000_0000n, options: { machine: { 'x86-tramp': variant } } },
    ));
    images.set(variant, bytes);
  }
  return bytes.slice();
}

const open = (bytes: Uint8Array, options: SessionOptions = {}): Session =>
  Session.open(bytes, archOf(readElf(bytes).header), options);

function done(outcome: Outcome): Extract<Outcome, { kind: 'done' }> {
  if (outcome.kind !== 'done') throw new Error(`${outcome.kind}: ${outcome.reason}`);
  return outcome;
}
const errno = (outcome: Outcome): string => (outcome.kind === 'done' ? 'done' : outcome.errno);

const counterOf = (session: Session): bigint => session.functionAddress('elftrace_counter')!;
const make = (session: Session, name: string, input: Partial<Parameters<Session['core']['createOps']>[0]> = {}): Ops =>
  session.core.createOps({ name, func: counterOf(session), ...input });

/** Address of a symbol of an image. */
function place(bytes: Uint8Array, name: string): bigint {
  const { program } = openBytes(bytes);
  const at = program.definedAt(program.symbols.find(name));
  if (at === null) throw new Error(`no ${name}`);
  return at;
}
function slice(bytes: Uint8Array, at: bigint, size: number): Uint8Array {
  const offset = readElf(bytes).fileOffsetOf(at);
  return bytes.slice(offset, offset + size);
}
function put(bytes: Uint8Array, at: bigint, values: readonly number[] | Uint8Array): Uint8Array {
  return edited(bytes, readElf(bytes).fileOffsetOf(at), values);
}
function call(from: bigint, to: bigint, opcode = 0xe8): Uint8Array {
  const bytes = Uint8Array.of(opcode, 0, 0, 0, 0);
  new ByteView(bytes, 'little').insertU32(1, Number(BigInt.asUintN(32, to - (from + 5n))));
  return bytes;
}
/** Where a call or jump of five bytes leads, by its bytes. */
function leads(bytes: Uint8Array, from: bigint): bigint {
  const view = new ByteView(slice(bytes, from, 5), 'little');
  return from + 5n + BigInt(view.u32(1) | 0);
}

/** The object of an ops as the image has it. */
function objectOf(session: Session, ops: Ops): { readonly flags: number; readonly trampoline: bigint; readonly func: bigint } {
  const bytes = session.bytes();
  const view = new ByteView(slice(bytes, session.backend.addressOf(ops), 64), 'little');
  return {
    flags: Number(view.u64(8 * OPS_WORDS.flags)),
    trampoline: view.u64(8 * OPS_WORDS.trampoline),
    func: view.u64(8 * OPS_WORDS.func),
  };
}
const has = (flags: number, name: keyof typeof OPS_FLAGS): boolean => (flags & OPS_FLAGS[name]) !== 0;

/** Bytes of the room for trampolines, and of all other code. */
function code(bytes: Uint8Array): { readonly room: Uint8Array; readonly rest: Uint8Array } {
  const { sections } = readElf(bytes);
  const of = (isRoom: boolean): Uint8Array =>
    Buffer.concat(
      sections
        .filter(({ flags, name }) => (flags & 4n) !== 0n && (name === '.elftrace.text') === isRoom)
        .map(({ offset, fileSize }) => bytes.subarray(offset, offset + fileSize)),
    );
  return { room: of(true), rest: of(false) };
}
const isEmpty = (bytes: Uint8Array): boolean => code(bytes).room.every((byte) => byte === 0xcc);

/** What the site of a function calls; null: a nop. */
function target(bytes: Uint8Array, name: string): bigint | null {
  const { sites, program } = openBytes(bytes);
  for (let i = 0; i < sites.count; i++) {
    if (program.symbolName(sites.functionSymbol(i)) === name) return sites.state(i) === 'call' ? sites.reading(i)!.target : null;
  }
  throw new Error(`no site in ${name}`);
}
const targets = (bytes: Uint8Array): Set<bigint> => {
  const { sites } = openBytes(bytes);
  const found = new Set<bigint>();
  for (let i = 0; i < sites.count; i++) if (sites.state(i) === 'call') found.add(sites.reading(i)!.target!);
  return found;
};

interface Run {
  readonly entered: ReadonlyMap<string, number>;
  word(address: bigint): bigint;
  counted(ops: Ops): number;
}

/** Runs to the end; `watch` sees the machine whenever the first instruction of a symbol's function is reached. */
function run(session: Session, watch: Readonly<Record<string, (machine: Machine) => void>> = {}, bytes = session.bytes()): Run {
  const { image, arch, program } = openBytes(bytes);
  if (arch.emulation.kind !== 'ir') throw new Error('not executed');
  let output = '';
  const { machine } = startProcess({
    image,
    abi: arch.abi,
    emulation: arch.emulation,
    onOutput: (_fd, chunk) => {
      output += new TextDecoder().decode(chunk);
    },
  });
  for (const [name, value] of Object.entries(program.loadMap?.registers ?? {})) machine.setRegister(name, value);
  const entered = new Map<string, number>();
  for (const [name, look] of Object.entries(watch)) {
    entered.set(name, 0);
    machine.hook(place(bytes, name), () => {
      entered.set(name, entered.get(name)! + 1);
      look(machine);
      return 'continue';
    });
  }
  const stop = machine.run({ budget: 5_000_000 });
  if (stop.kind !== 'exit') throw new Error(`stopped: ${stop.kind} at ${machine.register('pc').toString(16)}`);
  expect([stop.code, /checksum 0x931c4573/.test(output)]).toEqual([51, true]);
  const word = (at: bigint): bigint => machine.readWord(at, image.wordBytes) ?? -1n;
  return { entered, word, counted: (ops) => Number(word(session.backend.addressOf(ops) + BigInt(3 * image.wordBytes))) };
}
const nothing = (): void => undefined;

/** What an image prints on this processor and under qemu, as far as they are there. */
function elsewhere(bytes: Uint8Array): string[] {
  const path = join(folder, 'program');
  writeFileSync(path, bytes);
  chmodSync(path, 0o755);
  const native = process.platform === 'linux' && process.arch === 'x64';
  return [...(native ? [[path]] : []), ...(tool('qemu-x86_64') ? [['qemu-x86_64', path]] : [])].map(
    ([command, ...args]) => spawnSync(command!, args, { encoding: 'utf8', timeout: 20_000 }).stdout,
  );
}

/** Calls of each function while everything is traced. */
const calls = new Map<string, number>();
{
  const session = open(imageOf('none'));
  done(session.core.register(make(session, 'all', { func: session.functionAddress('elftrace_function_tracer')! })));
  for (const { name } of runWithBoth(session.bytes()).oracle) calls.set(name, (calls.get(name) ?? 0) + 1);
}
const callsOf = (wanted: RegExp): number =>
  [...calls].reduce((sum, [name, count]) => sum + (wanted.test(name) ? count : 0), 0);
const TOTAL = callsOf(/./);
const ONE = callsOf(/^far_one_/);

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

/** An ops without a trampoline of its own: the image names none, the shared entry is called and works. */
function expectShared(session: Session, ops: Ops): void {
  const bytes = session.bytes();
  const { flags, trampoline } = objectOf(session, ops);
  expect([ops.trampoline, trampoline, has(flags, 'ALLOC_TRAMP'), isEmpty(bytes)]).toEqual([null, 0n, false, true]);
  expect([...targets(bytes)]).toEqual([place(bytes, 'ftrace_caller')]);
  expect(run(session).counted(ops)).toBe(TOTAL);
}

// ------------------------------------------------------------------------------------------------------------ who has one

describe('who has a trampoline', () => {
  test('T-X86-1: two ops on overlapping functions: two tests of hashes for each call, callbacks where they match', () => {
    const session = open(imageOf('2014'), { policy: { trampolines: 'none' } });
    const { core } = session;
    const [a, b] = [make(session, 'a'), make(session, 'b')];
    done(core.setFilter(a, 'filter', 'core_* far_one_*'));
    done(core.setFilter(b, 'filter', 'far_one_* far_two_*'));
    done(core.register(a));
    done(core.register(b));
    const found = run(session, { matches: nothing, ftrace_ops_list_func: nothing });
    const [ofA, ofB] = [callsOf(/^(core|far_one)_/), callsOf(/^far_(one|two)_/)];
    const traced = callsOf(/^(core|far_one|far_two)_/);
    expect([found.counted(a), found.counted(b)]).toEqual([ofA, ofB]);
    expect(found.entered.get('ftrace_ops_list_func')).toBe(traced);
    expect(found.entered.get('matches')).toBe(2 * traced);
    // An ops that is a stub is passed over.
    a.set('STUB');
    done(core.unregister(a));
    done(core.register(a));
    const without = run(session, { matches: nothing, ftrace_ops_list_func: nothing });
    expect([without.counted(a), without.counted(b)]).toEqual([0, ofB]);
    expect(without.entered.get('matches')).toBe(without.entered.get('ftrace_ops_list_func'));
  });

  test('T-X86-5: an ops that is allocated dynamically is not even asked for memory in 2014; the same without DYNAMIC has one', () => {
    for (const [flags, expected] of [
      [['DYNAMIC'], 0],
      [[], 1],
    ] as const) {
      let asked = 0;
      const seam = failing((own) => ({
        allocate: (size, near) => {
          asked++;
          return own.allocate(size, near);
        },
      }));
      const session = open(imageOf('2014'), { seam });
      const ops = make(session, 'a', { flags });
      const { warnings } = done(session.core.register(ops));
      expect([asked > 0 ? 1 : 0, warnings]).toEqual([expected, []]);
      if (expected === 0) expectShared(session, ops);
      else expect([...targets(session.bytes())]).toEqual([objectOf(session, ops).trampoline]);
    }
  });

  test.each([
    ['full', false],
    ['none', true],
  ] as const)('T-X86-6: dynamic ops of 2014 with --preempt=%s', (preempt, allowed) => {
    const session = open(imageOf('2014'), { policy: { preempt } });
    const ops = make(session, 'd', { flags: ['DYNAMIC'] });
    done(session.core.register(ops));
    const { trampoline } = objectOf(session, ops);
    expect([trampoline !== 0n, has(objectOf(session, ops).flags, 'ALLOC_TRAMP')]).toEqual([allowed, allowed]);
    expect(run(session).counted(ops)).toBe(TOTAL);
    if (allowed) expect([...targets(session.bytes())]).toEqual([trampoline]);
    else expectShared(session, ops);
    const { steps } = done(session.core.unregister(ops));
    expect(steps.flatMap((step) => (step.kind === 'quiesce' ? [step.grace] : []))).toEqual(['rude']);
    expect([isEmpty(session.bytes()), session.core.state.objects.size]).toEqual([true, 0]);
  });

  test('T-X86-6: the command line: --preempt, and a session with a dynamic ops', () => {
    const [image, file, out] = ['image', 'dynamic.yaml', 'out'].map((name) => join(folder, name)) as [string, string, string];
    writeFileSync(image, imageOf('2014'));
    writeFileSync(file, 'version: 1\nsteps:\n  - ops: { name: d, call: elftrace_counter, dynamic: true }\n  - register: d\n');
    for (const [preempt, names] of [
      ['full', ['ENABLED', 'DYNAMIC', 'INITIALIZED']],
      ['none', ['ENABLED', 'DYNAMIC', 'INITIALIZED', 'ALLOC_TRAMP']],
    ] as const) {
      const made = elftrace(['patch', image, '--session', file, `--preempt=${preempt}`, '-o', out]);
      expect([made.status, made.stderr]).toEqual([0, '']);
      const status = JSON.parse(elftrace(['status', '--json', out]).stdout) as { ops: { names: string[] }[] };
      expect(status.ops[0]!.names).toEqual(names);
    }
  });

  test.each(both)('T-X86-9 %s: no memory: no trampoline, and no error', (variant) => {
    const session = open(imageOf(variant), { seam: failing(() => ({ allocate: () => null })) });
    const ops = make(session, 'a');
    done(session.core.register(ops));
    expectShared(session, ops);
  });

  test.each(both)('T-X86-10 %s: the entry cannot be read: a warning, the memory is given back, none', (variant) => {
    const log: string[] = [];
    const seam = failing((own) => ({
      allocate: (size, near) => {
        log.push('allocate');
        return own.allocate(size, near);
      },
      read: () => null,
      free: (at, size) => {
        log.push('free');
        own.free(at, size);
      },
    }));
    const session = open(imageOf(variant), { seam });
    const ops = make(session, 'a');
    expect(done(session.core.register(ops)).warnings).toEqual([
      expect.stringMatching(/^a gets no trampoline: the plain entry, \d+ bytes at 0x\w+, cannot be read$/),
    ]);
    expect(log).toEqual(['allocate', 'free']);
    expectShared(session, ops);
  });

  test.each(both)('T-X86-10 %s: behind its call the register entry is not in the file (truncated, NOBITS): a warning, none', (variant) => {
    // The segment of the runtime ends behind ftrace_regs_call, and the room is a segment of its own: what lies between is not in the file as far as its
    // headers say. Processors map whole pages and so have it where it is truncated; where it is NOBITS it is zero, and nothing runs.
    const bytes = imageOf(variant);
    const { header, segments, sections } = readElf(bytes);
    const room = sections.find(({ name }) => name === '.elftrace.text')!;
    const isHere = ({ address, memorySize }: { address: bigint; memorySize: bigint }): boolean =>
      room.address >= address && room.address < address + memorySize;
    const index = segments.findIndex((each) => each.type === 1 && isHere(each));
    const spare = segments.findIndex(({ type }) => type === 0);
    const { address } = segments[index]!;
    const cut = place(bytes, 'ftrace_regs_call') + 7n - address;
    for (const isNobits of [false, true]) {
      const broken = bytes.slice();
      const view = new ByteView(broken, 'little');
      const headerOf = (i: number): number => header.phoff + 56 * i;
      view.insertU64(headerOf(index) + 32, cut);
      view.insertU64(headerOf(index) + 40, isNobits ? room.address - address : cut);
      view.insertU32(headerOf(spare), 1);
      view.insertU32(headerOf(spare) + 4, 5);
      const fields = [BigInt(room.offset), room.address, room.address, BigInt(room.size), BigInt(room.size), 16n];
      fields.forEach((value, i) => {
        view.insertU64(headerOf(spare) + 8 + 8 * i, value);
      });
      const { sites, image } = openBytes(broken);
      const request = { tracer: { kind: 'counter' }, others: 'nop', saveRegs: true } as const;
      const plan = planTracing(sites, request);
      const unreadable = /^private trampoline: template-unreadable: the regs entry, \d+ bytes at 0x\w+, cannot be read$/;
      expect([plan.refusals, plan.enabled, plan.notices]).toEqual([[], sites.count, [expect.stringMatching(unreadable)]]);
      const patched = applyPlan(image, plan).bytes;
      expect([isEmpty(patched), [...targets(patched)]]).toEqual([true, [place(patched, 'ftrace_regs_caller')]]);
      const word = place(patched, 'elftrace_data') + BigInt(8 * OPS_WORDS.trampoline);
      expect(slice(patched, word, 8)).toEqual(new Uint8Array(8));
      if (!isNobits) for (const output of elsewhere(patched)) expect(output).toMatch(/checksum 0x931c4573/);
      // The plain entry, all of which is there, still makes one.
      const plain = planTracing(sites, { ...request, saveRegs: false });
      expect([plain.notices, isEmpty(applyPlan(image, plain).bytes)]).toEqual([undefined, false]);
    }
  });

  test.each(both)('T-X86-13 %s: 48 8b 0d at the label: a warning, none; the other entry makes one', (variant) => {
    const image = imageOf(variant);
    const session = open(put(image, place(image, 'ftrace_regs_caller_op_ptr') + 2n, [0x0d]));
    const regs = make(session, 'r', { flags: ['SAVE_REGS'] });
    done(session.core.setFilter(regs, 'filter', 'core_idle'));
    expect(done(session.core.register(regs)).warnings).toEqual([expect.stringMatching(/48 ?8b ?0d|48:8b:0d/)]);
    expect([regs.trampoline, target(session.bytes(), 'core_idle')]).toEqual([null, place(image, 'ftrace_regs_caller')]);
    const plain = make(session, 'p');
    expect(done(session.core.register(plain)).warnings).toEqual([]);
    expect(plain.trampoline?.kind).toBe('private');
  });

  test('T-X86-31: on other machines two ops on disjoint functions have none, and every call goes through the list', () => {
    const machines: readonly (readonly [TargetId, EntryFlavour])[] = [
      ['arm64', 'regs'],
      ['ppc32', 'regs'],
      ['ppc64-elfv1', 'pg'],
      ['ppc64-elfv2-be', 'regs'],
      ['ppc64-elfv2-le', 'regs'],
    ];
    for (const [id, flavour] of machines) {
      const session = open(loadSamples({ target: id, ending: '', flavour }).bytes);
      const [a, b] = [make(session, 'a'), make(session, 'b')];
      done(session.core.setFilter(a, 'filter', 'core_*'));
      done(session.core.setFilter(b, 'filter', 'far_one_*'));
      done(session.core.register(a));
      done(session.core.register(b));
      const found = run(session, { ftrace_ops_list_func: nothing });
      expect([id, a.trampoline, b.trampoline]).toEqual([id, null, null]);
      expect(found.counted(a) > 5 && found.counted(b) > 5).toBe(true);
      expect([id, found.entered.get('ftrace_ops_list_func')]).toEqual([id, found.counted(a) + found.counted(b)]);
      expect(readElf(session.bytes()).section('.elftrace.text')).toBeUndefined();
    }
  });

  test('T-X86-32: where nothing is patched sites stay compiled calls: no trampoline, no allocation, no text', () => {
    for (const patchable of [false, true]) {
      let allocations = 0;
      const seam = failing((own) => ({
        allocate: (size, near) => {
          allocations++;
          return own.allocate(size, near);
        },
      }));
      // Calls of the profiling entry and no table of them.
      const original = readSample('x86-64/program-mcount');
      const { sites } = openBytes(original);
      const bytes = withRuntime(sites, undefined, undefined, undefined, { 'x86-tramp': '2014' }).bytes;
      expect(sites.tables.map(({ name }) => name)).toEqual(['calls']);
      const session = open(bytes, { seam, capabilities: { patchable } });
      const ops = make(session, 'a');
      done(session.core.register(ops));
      const now = session.bytes();
      expect([allocations > 0, ops.trampoline !== null, isEmpty(now)]).toEqual([patchable, patchable, !patchable]);
      expect(Buffer.compare(code(now).rest, code(bytes).rest) === 0).toBe(!patchable);
      const states = openBytes(now).sites.totals().byState;
      expect(states).toEqual(patchable ? { call: sites.count } : { compiled: sites.count });
      const [here, before] = [runImage(now), runImage(original)];
      expect([here.exit, here.output.replace(/^trace=.*\n/gm, '')]).toEqual([before.exit, before.output.replace(/^trace=.*\n/gm, '')]);
      const { wordBytes } = readElf(now);
      expect(here.at(session.backend.addressOf(ops) + BigInt(3 * wordBytes)) > 0n).toBe(patchable);
    }
  });
});
