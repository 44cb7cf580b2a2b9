/**
 * Rules of dynamically allocated trampolines on real images (T-X86-1 to T-X86-49):
 * each is shown by the bytes of an image with modules, and by what its calls run in the emulator;
 * what must not happen has a twin in which it does. Sessions of the core throughout;
 * x86-trampolines.test.ts has the same for single tracers.
 */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { x86_64 } from '../src/arch-x86/index.js';
import { jumpBytes } from '../src/arch-x86/trampoline.js';
import type { LivePatch } from '../src/machine/live-patching.js';
import type { ConventionName } from '../src/machine/conventions.js';
import type { TargetId } from '../src/targets.js';
import type { TextSeam } from '../src/machine/trampolines.js';
import { archOf } from '../src/arches.js';
import { ByteView } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import type { Machine } from '../src/emulator/index.js';
import { startProcess } from '../src/guest/index.js';
import { GraphUser, type Ops, type Outcome } from '../src/ftrace/index.js';
import type { Text } from '../src/tracing/image-memory.js';
import { withRuntime } from '../src/tracing/inject.js';
import { liveText, outsideTracer } from '../src/tracing/live.js';
import { Session, type SessionOptions } from '../src/tracing/session.js';
import { findSites } from '../src/sites/sites.js';
import { planTracing } from '../src/tracing/tracing.js';
import { applyPlan } from '../src/patch/apply.js';
import { readLoadMap } from '../src/program/load-map.js';
import { load } from '../src/program/program.js';
import { OPS_FLAGS, OPS_WORDS } from '../src/runtime/index.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { runWithBoth, traceDifferences } from './support/compare-traces.js';
import { loadSamples, runImage } from './support/loaded.js';
import { differences, edited, errorOf, openBytes, readSample } from './support/pipeline.js';
import { runProgramFile, tool } from './support/tools.js';
import { isX86Linux } from './support/processor.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-x86-images-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

type Variant = 'modern' | '2014' | 'none';
const both = ['modern', '2014'] as const;
const flavours: Readonly<Record<Variant, ConventionName>> = { modern: 'modern', '2014': 'y2014', none: 'modern' };

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
function objectOf(
  session: Session,
  ops: Ops,
): { readonly flags: number; readonly trampoline: bigint; readonly func: bigint } {
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
    if (program.symbolName(sites.functionSymbol(i)) === name)
      return sites.state(i) === 'call' ? sites.reading(i)!.target : null;
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

/**
 * Runs to the end; `watch` sees the machine whenever the first instruction of a symbol's function
 * is reached.
 */
function run(
  session: Session,
  watch: Readonly<Record<string, (machine: Machine) => void>> = {},
  bytes = session.bytes(),
): Run {
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
    const symbol = program.symbols.find(name);
    machine.hook(place(bytes, name) + BigInt(arch.abi.localEntryOffset(program.symbols.other[symbol]!)), () => {
      entered.set(name, entered.get(name)! + 1);
      look(machine);
      return 'continue';
    });
  }
  const stop = machine.run({ budget: 5_000_000 });
  if (stop.kind !== 'exit') throw new Error(`stopped: ${stop.kind} at ${machine.register('pc').toString(16)}`);
  expect([stop.code, /checksum 0x931c4573/.test(output)]).toEqual([51, true]);
  const word = (at: bigint): bigint => machine.readWord(at, image.wordBytes) ?? -1n;
  return {
    entered,
    word,
    counted: (ops) => Number(word(session.backend.addressOf(ops) + BigInt(3 * image.wordBytes))),
  };
}
const nothing = (): void => undefined;

/** What an image prints on this processor and under qemu, as far as they are there. */
function elsewhere(bytes: Uint8Array): string[] {
  const path = join(folder, 'program');
  writeFileSync(path, bytes);
  chmodSync(path, 0o755);
  const native = isX86Linux;
  return [...(native ? [[path]] : []), ...(tool('qemu-x86_64') ? [['qemu-x86_64', path]] : [])].map(
    ([command, ...args]) => runProgramFile(command!, args).stdout,
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

/**
 * An ops without a trampoline of its own: the image names none, the shared entry is called and
 * works.
 */
function expectShared(session: Session, ops: Ops): void {
  const bytes = session.bytes();
  const { flags, trampoline } = objectOf(session, ops);
  expect([ops.trampoline, trampoline, has(flags, 'ALLOC_TRAMP'), isEmpty(bytes)]).toEqual([null, 0n, false, true]);
  expect([...targets(bytes)]).toEqual([place(bytes, 'ftrace_caller')]);
  expect(run(session).counted(ops)).toBe(TOTAL);
}

// ------------------------------------------------------------------------------------- who has one

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

  test('C-TRAMP-3 T-X86-5: an ops that is allocated dynamically is not even asked for memory in 2014; the same without DYNAMIC has one', () => {
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
    const [image, file, out] = ['image', 'dynamic.yaml', 'out'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(image, imageOf('2014'));
    writeFileSync(
      file,
      'version: 1\nsteps:\n  - ops: { name: d, call: elftrace_counter, dynamic: true }\n  - register: d\n',
    );
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

  test.each(both)(
    'T-X86-10 %s: behind its call the register entry is not in the file (truncated, NOBITS): a warning, none',
    (variant) => {
      // The segment of the runtime ends behind ftrace_regs_call, and the room is a segment of its
      // own: what lies between is not in the file as far as its headers say. Processors map whole
      // pages and so have it where it is truncated; where it is NOBITS it is zero, and nothing
      // runs.
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
        const unreadable =
          /^private trampoline: template-unreadable: the regs entry, \d+ bytes at 0x\w+, cannot be read$/;
        expect([plan.refusals, plan.enabled, plan.notices]).toEqual([
          [],
          sites.count,
          [expect.stringMatching(unreadable)],
        ]);
        const patched = applyPlan(image, plan).bytes;
        expect([isEmpty(patched), [...targets(patched)]]).toEqual([true, [place(patched, 'ftrace_regs_caller')]]);
        const word = place(patched, 'elftrace_data') + BigInt(8 * OPS_WORDS.trampoline);
        expect(slice(patched, word, 8)).toEqual(new Uint8Array(8));
        if (!isNobits) for (const output of elsewhere(patched)) expect(output).toMatch(/checksum 0x931c4573/);
        // The plain entry, all of which is there, still makes one.
        const plain = planTracing(sites, { ...request, saveRegs: false });
        expect([plain.notices, isEmpty(applyPlan(image, plain).bytes)]).toEqual([undefined, false]);
      }
    },
  );

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

  /** The image with a symbol that names another place. */
  const moved = (bytes: Uint8Array, name: string, to: bigint): Uint8Array => {
    const image = readElf(bytes);
    const table = image.sections.find(({ type }) => type === 2)!;
    const copy = bytes.slice();
    new ByteView(copy, 'little').insertU64(table.offset + 24 * image.symbols.find(name) + 8, to);
    expect(place(copy, name)).toBe(to);
    return copy;
  };

  test.each(both)(
    'T-X86-48 %s: an entry without the call, or with its label in front of the entry: refused before anything is written',
    (variant) => {
      const image = imageOf(variant);
      const [start, callAt] = [place(image, 'ftrace_caller'), place(image, 'ftrace_call')];
      // Two trampolines, of which the second one's call is where the bad label says.
      const good = open(image);
      const [first, second] = [make(good, 'first'), make(good, 'second')];
      done(good.core.setFilter(first, 'filter', 'core_*'));
      done(good.core.setFilter(second, 'filter', 'far_*'));
      for (const each of [first, second]) done(good.core.register(each));
      const blocks = [first, second].map((each) => objectOf(good, each).trampoline);
      const distance = blocks[1]! - blocks[0]!;
      expect(distance).toBeGreaterThan(0n);
      const label = start - distance + 8n;
      for (const [bad, reason] of [
        [put(image, callAt, [0x0f, 0x1f, 0x44, 0, 0]), /not a call/],
        [moved(image, 'ftrace_call', label), /labels of the plain entry/],
      ] as const) {
        const log: string[] = [];
        const seam = failing((own) => ({
          fill: (at, bytes) => {
            log.push('fill');
            return own.fill(at, bytes);
          },
        }));
        const session = open(bad, { seam });
        const before = session.bytes();
        const ops = make(session, 'a');
        done(session.core.setFilter(ops, 'filter', 'core_idle'));
        const planned = session.backend.planTrampoline({ ops, template: 'plain', callee: { kind: 'list' } });
        expect(planned).toEqual({ refused: expect.stringMatching(reason) });
        // The entry itself has no call to change either: the registration fails as a whole.
        expect(session.core.register(ops).kind).toBe('failed');
        expect([log, Buffer.compare(session.bytes(), before)]).toEqual([[], 0]);
      }
      // The twin: the offset is taken as it is; the call of the second one is written into the
      // first one, and its callers are lost.
      const wild = blocks[1]! + (label - start);
      expect(wild > blocks[0]! && wild < blocks[1]!).toBe(true);
      const bytes = good.bytes();
      expect(run(good).counted(first)).toBe(callsOf(/^core_/));
      expect(() => run(good, {}, put(bytes, wild, call(wild, counterOf(good))))).toThrow();
    },
  );

  test('T-X86-49: an ops keeps its trampoline for life: one block for each that was ever registered, whatever came and went', () => {
    const counts = (['full', 'none'] as const).map((preempt) => {
      const session = open(imageOf('2014'), { policy: { preempt } });
      // Those that may be freed have one where nobody can be preempted, and give it back.
      const flags = preempt === 'none' ? (['DYNAMIC'] as const) : [];
      const all = ['core_*', 'far_one_*', 'far_two_*'].map((filter, i) => {
        const ops = make(session, `ops${String(i)}`, { flags });
        done(session.core.setFilter(ops, 'filter', filter));
        return ops;
      });
      const placesOf = (): bigint[] => all.map((ops) => objectOf(session, ops).trampoline);
      const first = all.map((ops) => {
        done(session.core.register(ops));
        const at = objectOf(session, ops).trampoline;
        done(session.core.unregister(ops));
        return at;
      });
      const room = code(session.bytes()).room.filter((byte) => byte !== 0xcc).length;
      for (let round = 0; round < 3; round++) {
        for (const ops of all) done(session.core.register(ops));
        if (preempt === 'full') expect(placesOf()).toEqual(first);
        expect(run(session).counted(all[round]!)).toBeGreaterThan(0);
        for (const ops of [...all].reverse()) done(session.core.unregister(ops));
      }
      expect(code(session.bytes()).room.filter((byte) => byte !== 0xcc).length).toBe(room);
      return [new Set(first).size, room > 0];
    });
    // Kept: three blocks. Freed: each takes the place of the one before.
    expect(counts).toEqual([
      [3, true],
      [1, false],
    ]);
  });

  test('T-X86-31: on other machines two ops on disjoint functions have none, and every call goes through the list', () => {
    const machines: readonly (readonly [TargetId, ConventionName])[] = [
      ['arm64', 'regs'],
      ['ppc32', 'regs'],
      ['ppc64-elfv1', 'pg'],
      ['ppc64-elfv2-be', 'regs'],
      ['ppc64-elfv2-le', 'regs'],
      ['riscv64', 'g2'],
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
    // The twin: the same two where each has one of its own.
    for (const variant of both) {
      const session = open(imageOf(variant));
      const [a, b] = [make(session, 'a'), make(session, 'b')];
      done(session.core.setFilter(a, 'filter', 'core_*'));
      done(session.core.setFilter(b, 'filter', 'far_one_*'));
      done(session.core.register(a));
      done(session.core.register(b));
      const found = run(session, { ftrace_ops_list_func: nothing });
      expect([a.trampoline?.kind, b.trampoline?.kind]).toEqual(['private', 'private']);
      expect([found.counted(a) > 5 && found.counted(b) > 5, found.entered.get('ftrace_ops_list_func')]).toEqual([
        true,
        0,
      ]);
    }
  });

  test('T-X86-32: calls of a profiling entry that nobody knows, and no table: sites stay compiled calls; no trampoline, no allocation, no text', () => {
    // The entry has a name of its own, as -mfentry-name gives it: to whoever does not know it the
    // calls are calls like any others.
    const original = readSample('x86-64/program-mcount');
    const renamed = ['mcount', '__fentry__'].reduce((bytes, name) => {
      const at = Buffer.from(bytes).indexOf(`\0${name}\0`);
      return edited(bytes, at + 1, Buffer.from(name.replace(/^../, 'my')));
    }, original);
    expect(readElf(renamed).sections.map(({ name }) => name)).not.toContain('__mcount_loc');
    const machine = { 'x86-tramp': '2014' };
    const names = { mcountNames: ['myount'] };
    const { sites } = openBytes(original);
    const bytes = withRuntime(findSites(load(readElf(renamed), x86_64, names)), undefined, undefined, undefined, machine).bytes;
    const plain = runImage(renamed);
    const results = [{}, names].map((known) => {
      let allocations = 0;
      const seam = failing((own) => ({
        allocate: (size, near) => {
          allocations++;
          return own.allocate(size, near);
        },
      }));
      const session = open(bytes, { seam, ...known });
      const begin = session.bytes();
      const ops = make(session, 'a');
      const outcome = session.core.register(ops);
      const now = session.bytes();
      const here = runImage(now);
      // The program's own entry counts the calls that it gets.
      const [own, rest] = [/^trace=(.*)$/m.exec(here.output)![1], here.output.replace(/^trace=.*$/m, '')];
      expect([here.exit, rest]).toEqual([plain.exit, plain.output.replace(/^trace=.*$/m, '')]);
      const calls = findSites(load(readElf(now), x86_64, names)).totals().byState;
      const { wordBytes } = readElf(now);
      const counted = outcome.kind === 'done' ? here.at(session.backend.addressOf(ops) + BigInt(3 * wordBytes)) : 0n;
      return {
        outcome: errno(outcome),
        allocations: allocations > 0,
        trampoline: ops.trampoline !== null || !isEmpty(now),
        text: Buffer.compare(code(now).rest, code(bytes).rest) !== 0,
        changed: Buffer.compare(now, begin) !== 0,
        compiled: calls.compiled === sites.count,
        counted: counted > 0n,
        own,
      };
    });
    const nothing = { allocations: false, trampoline: false, text: false, changed: false, compiled: true, counted: false, own: '49' };
    const all = { allocations: true, trampoline: true, text: true, changed: true, compiled: false, counted: true, own: '0' };
    expect(results).toEqual([
      { outcome: 'ENODEV', ...nothing },
      { outcome: 'done', ...all },
    ]);
    // The command line makes no file of it, and does with the name.
    const [path, out] = [join(folder, 'renamed'), join(folder, 'renamed-on')];
    writeFileSync(path, renamed);
    const refused = elftrace(['patch', path, '--enable', '--x86-tramp=2014', '-o', out]);
    expect([refused.status, existsSync(out), refused.stderr]).toEqual([2, false, expect.stringMatching(/no site/)]);
    expect(elftrace(['patch', path, '--enable', '--x86-tramp=2014', '--mcount', 'myount', '-o', out]).status).toBe(0);
  }); // prettier-ignore

  test('T-X86-32: where the session is told that nothing is patched, known sites stay the calls that they were compiled to', () => {
    const original = readSample('x86-64/program-mcount');
    const { bytes } = withRuntime(openBytes(original).sites, undefined, undefined, undefined, { 'x86-tramp': '2014' });
    const compiled = (now: Uint8Array): number => openBytes(now).sites.totals().byState.compiled ?? 0;
    const [asUsual, told] = [{}, { capabilities: { patchable: false } }].map((each) =>
      compiled(open(bytes, each).bytes()),
    );
    expect(asUsual).toBeLessThan(compiled(bytes));
    expect(told).toBe(compiled(bytes));
  });
});

// ------------------------------------------------------------------------------------- whose it is

describe('whose a trampoline is', () => {
  test.each(both)(
    'T-X86-17 %s: the one that a user gave is called, and not written by registering nor by another function',
    (variant) => {
      const image = imageOf(variant);
      const session = open(image);
      // Written for nobody else: the user's is a plain return.
      const given = place(image, 'ftrace_stub');
      const ops = make(session, 'u', { trampoline: given });
      done(session.core.register(ops));
      const first = session.bytes();
      done(session.core.setFunction(ops, session.functionAddress('elftrace_function_tracer')!));
      for (const bytes of [first, session.bytes()]) {
        expect([[...targets(bytes)], isEmpty(bytes), slice(bytes, given, 16)]).toEqual([
          [given],
          true,
          slice(image, given, 16),
        ]);
      }
      const { flags, trampoline } = objectOf(session, ops);
      expect([has(flags, 'ALLOC_TRAMP'), trampoline]).toEqual([false, given]);
      expect(run(session).counted(ops)).toBe(0);
      // Without one it would have been made and called.
      const own = open(image);
      const other = make(own, 'o');
      done(own.core.register(other));
      expect([isEmpty(own.bytes()), run(own).counted(other)]).toEqual([false, TOTAL]);
    },
  );

  test.each(both)('T-X86-29 %s: ALLOC_TRAMP given by a user is EINVAL; the trampoline alone is not', (variant) => {
    const session = open(imageOf(variant));
    const before = session.bytes();
    const given = place(before, 'ftrace_stub');
    const bad = make(session, 'bad', { flags: ['ALLOC_TRAMP'], trampoline: given });
    expect(errno(session.core.register(bad))).toBe('EINVAL');
    expect(errno(session.core.register(make(session, 'none', { flags: ['ALLOC_TRAMP'] })))).toBe('EINVAL');
    expect([Buffer.compare(session.bytes(), before), session.core.state.list.length]).toEqual([0, 0]);
    expect(errno(session.core.register(make(session, 'good', { trampoline: given })))).toBe('done');
  });

  test.each(both)(
    'T-X86-43 %s: an ops that was deleted cannot be registered: EINVAL, nothing built, the list as it was',
    (variant) => {
      let asked = 0;
      const seam = failing((own) => ({
        allocate: (size, near) => {
          asked++;
          return own.allocate(size, near);
        },
      }));
      const session = open(imageOf(variant), { seam });
      const [gone, other] = [make(session, 'gone'), make(session, 'other')];
      done(session.core.setFilter(other, 'filter', 'core_*'));
      done(session.core.register(other));
      done(session.core.destroy(gone));
      const [before, list, count] = [session.bytes(), session.core.state.list, asked];
      expect([gone.has('DELETED'), errno(session.core.register(gone))]).toEqual([true, 'EINVAL']);
      expect([Buffer.compare(session.bytes(), before), session.core.state.list, asked]).toEqual([0, list, count]);
      expect([errno(session.core.register(make(session, 'new'))), asked > count]).toEqual(['done', true]);
    },
  );

  test('T-X86-20 C-TRAMP-5: today an ops that needs the wrapper gets it, in 2014 its function', () => {
    for (const variant of both) {
      const session = open(imageOf(variant));
      const ops = make(session, 'a', { flags: ['RECURSION'] });
      done(session.core.register(ops));
      const bytes = session.bytes();
      const at = objectOf(session, ops).trampoline + place(bytes, 'ftrace_call') - place(bytes, 'ftrace_caller');
      expect(leads(bytes, at)).toBe(place(bytes, variant === 'modern' ? 'ftrace_ops_assist_func' : 'elftrace_counter'));
      const found = run(session, { ftrace_ops_assist_func: nothing });
      expect([found.counted(ops), found.entered.get('ftrace_ops_assist_func')]).toEqual([
        TOTAL,
        variant === 'modern' ? TOTAL : 0,
      ]);
    }
  });

  test('T-X86-42: the raw flags of objects, as --x86-tramp=2014 and today number them', () => {
    for (const [variant, expected] of [
      ['2014', (1 << 0) | (1 << 7) | (1 << 9)],
      ['modern', (1 << 0) | (1 << 6) | (1 << 11)],
    ] as const) {
      const [image, on, graph] = ['image', 'on', 'graph'].map((name) => join(folder, `flags-${name}`)) as [
        string,
        string,
        string,
      ];
      writeFileSync(image, imageOf(variant));
      expect(elftrace(['patch', image, '--enable', '--tracer', 'counter', '-o', on]).status).toBe(0);
      const { stdout } = elftrace(['status', '--ops', on]);
      const line = `# ops 0: elftrace_counter, flags 0x${expected.toString(16)} (ENABLED INITIALIZED ALLOC_TRAMP), trampoline 0x`;
      expect(stdout.split('\n').some((each) => each.startsWith(line))).toBe(true);
      // The graph tracer of 2014 is a stub in the list.
      expect(elftrace(['patch', image, '--enable', '--tracer', 'function_graph', '-o', graph]).status).toBe(0);
      const { ops } = JSON.parse(elftrace(['status', '--json', graph]).stdout) as {
        ops: { flags: string; names: string[] }[];
      };
      const stub = (1 << 0) | (1 << 6) | (1 << 7);
      expect(ops.map(({ flags, names }) => [Number(flags), names])).toEqual([
        variant === '2014'
          ? [stub, ['ENABLED', 'STUB', 'INITIALIZED']]
          : [expected, ['ENABLED', 'INITIALIZED', 'ALLOC_TRAMP']],
      ]);
    }
  });
});

// ------------------------------------------------------------------------------- order and changes

/**
 * A session on the memory of a machine that stands at its program's start; what happens, in order.
 */
function live(variant: Variant, options: SessionOptions & { readonly quiesce?: (machine: Machine) => void } = {}) {
  const bytes = imageOf(variant);
  const { image, arch, program } = openBytes(bytes);
  const { livePatching } = arch;
  if (arch.emulation.kind !== 'ir' || livePatching.kind !== 'breakpoint') throw new Error('not executed');
  const { machine } = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
  for (const [name, value] of Object.entries(program.loadMap?.registers ?? {})) machine.setRegister(name, value);
  const log: { readonly what: 'store' | 'quiesce'; readonly address: bigint; readonly size: number }[] = [];
  const published = new Set<bigint>();
  const code = image.sections.filter(({ flags }) => (flags & 4n) !== 0n);
  const { quiesce, ...own } = options;
  const session = Session.open(bytes, arch, {
    ...own,
    text: liveText(machine, {
      onStore: (address, stored) => log.push({ what: 'store', address, size: stored.length }),
      quiesce: () => {
        log.push({ what: 'quiesce', address: 0n, size: 0 });
        quiesce?.(machine);
      },
      breakpoints: {
        model: livePatching,
        isCode: (at) => code.some((each) => at >= each.address && at < each.address + BigInt(each.size)),
        between: (entries: readonly LivePatch[]) => {
          for (const { address } of entries) published.add(address);
        },
      },
    }),
  });
  log.length = 0;
  published.clear();
  const room = image.section('.elftrace.text')!;
  const data = image.section('.elftrace.data')!;
  const isIn = (section: { address: bigint; size: number }, at: bigint): boolean =>
    at >= section.address && at < section.address + BigInt(section.size);
  const siteSet = new Set(Array.from({ length: openBytes(bytes).sites.count }, (_, i) => openBytes(bytes).sites.ip(i)));
  const kindOf = (address: bigint): string =>
    isIn(room, address)
      ? 'trampoline'
      : isIn(data, address)
        ? 'object'
        : siteSet.has(address)
          ? 'site'
          : nameOf(address);
  const nameOf = (address: bigint): string => {
    for (const name of ['ftrace_call', 'ftrace_regs_call', 'ftrace_ops_list', 'function_trace_op', 'ftrace_graph_call'])
      if (place(bytes, name === 'ftrace_graph_call' && variant !== '2014' ? 'ftrace_call' : name) === address)
        return name;
    return '?';
  };
  return { session, machine, log, published, kindOf, room, bytes };
}
const once = (names: readonly string[]): string[] => names.filter((name, i) => name !== names[i - 1]);

describe('order of registration', () => {
  test.each(both)(
    'T-X86-30 X-TR-10 %s: after the list, before the callee of the entries is chosen and before any site',
    (variant) => {
      const { session, log, kindOf } = live(variant);
      const first = make(session, 'a');
      done(session.core.setFilter(first, 'filter', 'core_*'));
      done(session.core.register(first));
      log.length = 0;
      const ops = make(session, 'b');
      done(session.core.setFilter(ops, 'filter', 'far_one_*'));
      done(session.core.register(ops));
      const order = once(log.map(({ address }) => kindOf(address)));
      // Two ops: the entries call the list from now on.
      expect(order.filter((each) => each !== '?')).toEqual([
      'object', 'ftrace_ops_list', 'trampoline', 'ftrace_call', 'ftrace_regs_call', 'site',
    ]); // prettier-ignore
    },
  );

  test.each(both)('T-X86-30 %s: with tracing off the trampoline is made and no site is written', (variant) => {
    const { session, log, kindOf, bytes } = live(variant);
    done(session.core.setEnabled(false));
    const ops = make(session, 'a');
    done(session.core.register(ops));
    expect(once(log.map(({ address }) => kindOf(address)))).toEqual(['object', 'ftrace_ops_list', 'trampoline']);
    expect([isEmpty(session.bytes()), targets(session.bytes()).size]).toEqual([false, 0]);
    expect(run(session).counted(ops)).toBe(0);
    done(session.core.setEnabled(true));
    expect([...targets(session.bytes())]).toEqual([objectOf(session, ops).trampoline]);
    expect(targets(bytes).size).toBe(0);
    expect(run(session).counted(ops)).toBe(TOTAL);
  });

  test.each(both)('T-X86-45 %s: while a trampoline is written no site leads into the room', (variant) => {
    const { session, log, kindOf, room } = live(variant);
    const leadsInto = (): number =>
      [...targets(session.bytes())].filter((to) => to >= room.address && to < room.address + BigInt(room.size)).length;
    const counts: number[] = [];
    const push = log.push.bind(log);
    log.push = (...each) => {
      if (each.some(({ address }) => kindOf(address) === 'trampoline')) counts.push(leadsInto());
      return push(...each);
    };
    const ops = make(session, 'a');
    done(session.core.register(ops));
    expect([counts, leadsInto()]).toEqual([[0], 1]);
  });

  test.each(both)(
    'X-MOD-3 X-POKE T-X86-21 %s: sites, the calls of the entries and of trampolines all go by the breakpoint protocol',
    (variant) => {
      const { session, published, bytes } = live(variant);
      const ops = make(session, 'a');
      done(session.core.register(ops));
      const entries = ['ftrace_call', 'ftrace_regs_call'].map((name) => place(bytes, name));
      for (const at of entries) expect(published.has(at)).toBe(true);
      for (let i = 0; i < 26; i++) expect(published.has(openBytes(bytes).sites.ip(i))).toBe(true);
      published.clear();
      done(session.core.setFunction(ops, session.functionAddress('elftrace_function_tracer')!));
      const inner = objectOf(session, ops).trampoline + entries[0]! - place(bytes, 'ftrace_caller');
      expect([...published].sort()).toEqual([...entries, inner].sort());
    },
  );

  test.each(both)('X-MOD-3 %s: what is not the call that is expected there is not written over', (variant) => {
    for (const name of ['ftrace_call', 'inner'] as const) {
      const image = imageOf(variant);
      const session = open(image);
      const ops = make(session, 'a');
      done(session.core.register(ops));
      const shared = place(image, 'ftrace_call');
      const at = name === 'inner' ? objectOf(session, ops).trampoline + shared - place(image, 'ftrace_caller') : shared;
      const spoilt = session.sites.program.image.bytes;
      const offset = readElf(image).fileOffsetOf(at);
      spoilt.set(call(at, place(image, 'core_idle')), offset);
      const before = session.bytes();
      const outcome = session.core.setFunction(ops, session.functionAddress('elftrace_function_tracer')!);
      expect(outcome).toMatchObject({ kind: 'failed', errno: 'EINVAL' });
      expect(Buffer.compare(session.bytes(), before)).toBe(0);
    }
  });

  test.each(both)(
    'T-X86-6 T-X86-21 C-Q-5 %s: freed after every processor passed; without the wait one that is inside is lost',
    (variant) => {
      for (const waits of [true, false]) {
        let stops = '';
        const isOutside = outsideTracer(readLoadMap(readElf(imageOf(variant)))!);
        const { session, machine, log, kindOf, room } = live(variant, {
          policy: { preempt: 'none' },
          quiesce(each) {
            for (let i = 0; waits && i < 1000 && !isOutside(each.register('pc')); i++) each.run({ budget: 1 });
          },
        });
        const ops = make(session, 'd', { flags: ['DYNAMIC'] });
        done(session.core.register(ops));
        const isInside = (): boolean =>
          machine.register('pc') >= room.address && machine.register('pc') < room.address + BigInt(room.size);
        for (let i = 0; i < 10_000 && !isInside(); i++) machine.run({ budget: 1 });
        machine.run({ budget: 5 });
        expect(isInside()).toBe(true);
        log.length = 0;
        done(session.core.unregister(ops));
        const order = once(log.map(({ what, address }) => (what === 'quiesce' ? what : kindOf(address))));
        const waited = order.indexOf('quiesce');
        expect([waited > order.lastIndexOf('site'), order.indexOf('trampoline') > waited]).toEqual([true, true]);
        const stop = machine.run({ budget: 5_000_000 });
        stops = stop.kind === 'exit' ? `exit ${String(stop.code)}` : stop.kind;
        expect(stops).toBe(waits ? 'exit 51' : 'trap');
      }
    },
  );

  test.each(both)(
    'T-X86-22 X-TR-7 %s: the call of a trampoline may not be written (EPERM): reported, and everything is as before',
    (variant) => {
      let forbidden = -1n;
      const text = (): Text => ({ refresh: nothing, store: (at) => at !== forbidden, event: nothing });
      const session = open(imageOf(variant), { text });
      const ops = make(session, 'a');
      done(session.core.register(ops));
      const before = session.bytes();
      forbidden = objectOf(session, ops).trampoline + place(before, 'ftrace_call') - place(before, 'ftrace_caller');
      const outcome = session.core.setFunction(ops, session.functionAddress('elftrace_function_tracer')!);
      expect(outcome).toMatchObject({ kind: 'failed', errno: 'EPERM', report: { kind: 'write-fault' } });
      expect(outcome.kind === 'failed' && outcome.reason).toMatch(
        new RegExp(`0x${forbidden.toString(16)} may not be written`),
      );
      expect(Buffer.compare(session.bytes(), before)).toBe(0);
      expect(run(session).counted(ops)).toBe(TOTAL);
    },
  );

  test.each(both)(
    'T-X86-44 %s: SAVE_REGS changed between two registrations: ours is made anew, the literal code of 2014 spoils the copy',
    (variant) => {
      for (const template of ['ours', '2014'] as const) {
        const session = open(imageOf(variant), {
          policy: { quirks: { callOps: 'ours', moduleCallOps: 'ours', template } },
        });
        const { core } = session;
        const [a, b] = [make(session, 'a'), make(session, 'b')];
        done(core.setFilter(a, 'filter', 'core_*'));
        done(core.setFilter(b, 'filter', 'far_one_*'));
        done(core.register(a));
        done(core.register(b));
        const first = objectOf(session, a).trampoline;
        const bytes = session.bytes();
        const offsetOf = (entry: string, label: string): bigint => place(bytes, label) - place(bytes, entry);
        const [plain, regs] = [
          offsetOf('ftrace_caller', 'ftrace_call'),
          offsetOf('ftrace_regs_caller', 'ftrace_regs_call'),
        ];
        done(core.unregister(a));
        a.set('SAVE_REGS');
        // Another function, so that there is a call to change.
        const other = session.functionAddress('elftrace_function_tracer')!;
        done(core.setFunction(a, other));
        done(core.register(a));
        const now = session.bytes();
        if (template === 'ours') {
          const { trampoline } = objectOf(session, a);
          expect([trampoline !== first, leads(now, trampoline + regs)]).toEqual([true, other]);
          const found = run(session, { elftrace_function_tracer: nothing });
          expect([found.entered.get('elftrace_function_tracer'), found.counted(b)]).toEqual([callsOf(/^core_/), ONE]);
        } else {
          // The same copy; its call is as it was, and five bytes are written where the register
          // entry has its call: here they are others.
          expect([objectOf(session, a).trampoline, leads(now, first + plain)]).toEqual([first, counterOf(session)]);
          expect(slice(now, first + regs, 5)).toEqual(call(first + regs, other));
          expect(differences(slice(bytes, first + regs, 5), slice(now, first + regs, 5)).length).toBeGreaterThan(0);
          expect(() => run(session)).toThrow(/stopped/);
        }
      }
    },
  );
});

// ------------------------------------------------------------------------ the graph tracer of 2014

describe('T-X86-33 T-X86-34 T-X86-35 T-X86-36 T-X86-37: the graph tracer of 2014 borrows the ops of the function tracer', () => {
  const graphUser = (): GraphUser => new GraphUser('graph', { entry: 0n, return: 0n });

  /**
   * T-X86-35, T-X86-36: what is in memory while the graph tracer gives the ops back. The shutdown
   * first, then STUB, then the trampoline; a flag that was set meanwhile stays.
   */
  const checkShutdown = (
    session: Session,
    log: ReturnType<typeof live>['log'],
    tracer: Ops,
    user: GraphUser,
    own: bigint,
  ): void => {
    const { core } = session;
    const withTrampoline = own !== 0n;
    const entry = place(imageOf('2014'), 'ftrace_graph_caller');
    // A flag that somebody sets meanwhile stays: the save gives nothing back but ALLOC_TRAMP
    // (T-X86-36).
    tracer.set('RECURSION');
    // T-X86-35: the shutdown first, then STUB, then the trampoline, each seen in memory.
    log.length = 0;
    const at = session.backend.addressOf(tracer);
    const story: string[] = [];
    const push = log.push.bind(log);
    const seen = (): string => {
      const { flags, trampoline } = objectOf(session, tracer);
      const sites = targets(session.bytes()).size > 0 ? 'sites on' : 'sites off';
      const name = trampoline === entry ? 'static' : trampoline === 0n ? 'none' : trampoline === own ? 'own' : '?';
      return [sites, has(flags, 'STUB') ? 'STUB' : '-', name, has(flags, 'ALLOC_TRAMP') ? 'ALLOC_TRAMP' : '-'].join(
        ' ',
      );
    };
    log.push = (...each) => {
      story.push(seen());
      return push(...each);
    };
    done(core.unregisterGraph(user));
    story.push(seen());
    expect(at).toBe(session.backend.addressOf(tracer));
    const last = withTrampoline ? ['sites off - own -', 'sites off - own ALLOC_TRAMP'] : ['sites off - none -'];
    expect(once(story)).toEqual(['sites on STUB static -', 'sites off STUB static -', 'sites off - static -', ...last]);
    expect(has(objectOf(session, tracer).flags, 'RECURSION')).toBe(true);
    expect(core.state.graph.saved).toBeNull();
  };

  test.each([true, false])('with a trampoline before: %s', (withTrampoline) => {
    const { session, log } = live('2014');
    const { core } = session;
    const entry = place(imageOf('2014'), 'ftrace_graph_caller');
    const tracer = core.createTracer({ name: 'function', func: counterOf(session) });
    if (withTrampoline) {
      done(core.register(tracer));
      done(core.unregister(tracer));
    }
    const before = objectOf(session, tracer);
    expect([before.trampoline !== 0n, has(before.flags, 'ALLOC_TRAMP')]).toEqual([withTrampoline, withTrampoline]);
    const user = graphUser();
    done(core.registerGraph(user));
    // T-X86-33: saved after STUB was set.
    const { saved } = core.state.graph;
    expect([has(saved!.flags, 'STUB'), has(saved!.flags, 'ALLOC_TRAMP')]).toEqual([true, withTrampoline]);
    expect(saved!.trampoline?.kind).toBe(withTrampoline ? 'private' : undefined);
    // T-X86-34: in memory: not ours to change any more, the static entry in its place; sites call
    // that.
    const during = objectOf(session, tracer);
    expect([has(during.flags, 'STUB'), has(during.flags, 'ALLOC_TRAMP'), during.trampoline]).toEqual([
      true,
      false,
      entry,
    ]);
    expect([...targets(session.bytes())]).toEqual([entry]);
    const traced = runWithBoth(session.bytes());
    expect([traceDifferences(traced), traced.guest.filter(({ kind }) => kind === 'return').length]).toEqual([
      [],
      TOTAL,
    ]);
    // While it is borrowed the function tracer cannot have it.
    expect(errno(core.register(tracer))).toBe('EBUSY');
    checkShutdown(session, log, tracer, user, before.trampoline);
    // T-X86-37: the function tracer has its trampoline again, at the same place, and nothing else
    // is in the room.
    tracer.clear('RECURSION');
    done(core.register(tracer));
    const again = objectOf(session, tracer);
    if (withTrampoline) expect(again.trampoline).toBe(before.trampoline);
    expect(run(session).counted(tracer)).toBe(TOTAL);
    const { room } = code(session.bytes());
    const fresh = open(imageOf('2014'));
    done(fresh.core.register(make(fresh, 'only')));
    expect(room.filter((byte) => byte !== 0xcc).length).toBe(
      code(fresh.bytes()).room.filter((byte) => byte !== 0xcc).length,
    );
  });

  /**
   * A session with a function tracer that was there once, so that it has a trampoline of its own.
   */
  const lender = () => {
    const session = open(imageOf('2014'));
    const tracer = session.core.createTracer({ name: 'function', func: counterOf(session) });
    done(session.core.register(tracer));
    done(session.core.unregister(tracer));
    const own = objectOf(session, tracer);
    expect([own.trampoline !== 0n, has(own.flags, 'ALLOC_TRAMP')]).toEqual([true, true]);
    return { session, tracer, own };
  };

  test('T-X86-46: an unregister of the graph that fails restores nothing, neither what was saved now nor what was saved once', () => {
    const { session, tracer, own } = lender();
    const { core } = session;
    const user = graphUser();
    const fails = (one: GraphUser): void => {
      const [before, saved] = [session.bytes(), core.state.graph.saved];
      expect(errno(core.unregisterGraph(one))).toBe('EINVAL');
      expect(Buffer.compare(session.bytes(), before)).toBe(0);
      expect(core.state.graph.saved).toBe(saved);
    };
    fails(user);
    expect(objectOf(session, tracer)).toEqual(own);
    // The twin: registered, the same call does restore.
    const entry = place(imageOf('2014'), 'ftrace_graph_caller');
    done(core.registerGraph(user));
    const lent = objectOf(session, tracer);
    expect([lent.trampoline, has(lent.flags, 'ALLOC_TRAMP'), has(lent.flags, 'STUB')]).toEqual([entry, false, true]);
    // Somebody else, who is not: the tracer stays lent.
    fails(new GraphUser('other', { entry: 0n, return: 0n }));
    expect([objectOf(session, tracer), core.state.graph.saved?.trampoline?.kind]).toEqual([lent, 'private']);
    expect(traceDifferences(runWithBoth(session.bytes()))).toEqual([]);
    done(core.unregisterGraph(user));
    expect(objectOf(session, tracer)).toEqual(own);
    // Once more, when the pair of then would be another one's: the trampoline that the tracer got
    // since stays.
    tracer.set('SAVE_REGS');
    done(core.register(tracer));
    done(core.unregister(tracer));
    const later = objectOf(session, tracer);
    expect(later.trampoline).not.toBe(own.trampoline);
    fails(user);
    expect(objectOf(session, tracer)).toEqual(later);
  });

  test('T-X86-47: a second registration of the graph is refused before anything is saved: the pair of the first is kept', () => {
    const ends = [false, true].map((savesFirst) => {
      const { session, tracer, own } = lender();
      const { core } = session;
      const user = graphUser();
      done(core.registerGraph(user));
      const { saved } = core.state.graph;
      const during = session.bytes();
      for (const again of [user, new GraphUser('second', { entry: 0n, return: 0n })]) {
        // The twin is 2014's static pair, if it were written before the core refuses: what is there
        // now is the graph's own.
        if (savesFirst) core.state.graph.saved = { trampoline: tracer.trampoline, flags: tracer.flags };
        expect(errno(core.registerGraph(again))).toBe('EBUSY');
      }
      expect([core.state.graph.saved === saved, Buffer.compare(session.bytes(), during)]).toEqual([!savesFirst, 0]);
      done(core.unregisterGraph(user));
      const back = objectOf(session, tracer);
      done(core.register(tracer));
      return { allocated: has(back.flags, 'ALLOC_TRAMP'), own: back.trampoline === own.trampoline, counted: run(session).counted(tracer) };
    });
    // Without the bit the tracer keeps the graph's entry, which calls no function.
    expect(ends).toEqual([
      { allocated: true, own: true, counted: TOTAL },
      { allocated: false, own: false, counted: 0 },
    ]);
  }); // prettier-ignore

  test('the command line: a session file, --x86-tramp=2014', () => {
    const [image, file, on, off] = ['image', 'graph.yaml', 'on', 'off'].map((name) => join(folder, `borrow-${name}`)) as [
      string, string, string, string,
    ]; // prettier-ignore
    writeFileSync(image, imageOf('2014'));
    writeFileSync(
      file,
      `version: 1
steps:
  - ops: { name: tracer, call: elftrace_counter, shared: true }
  - register: tracer
  - unregister: tracer
  - graph: { name: g, entry: ftrace_stub, return: ftrace_stub }
`,
    );
    expect(elftrace(['patch', image, '--session', file, '-o', on]).status).toBe(0);
    interface Listed {
      readonly ops: readonly {
        readonly flags: string;
        readonly names: readonly string[];
        readonly trampoline: string;
      }[];
    }
    const listed = JSON.parse(elftrace(['status', '--json', on]).stdout) as Listed;
    const entry = `0x${place(imageOf('2014'), 'ftrace_graph_caller').toString(16)}`;
    expect(listed.ops).toMatchObject([
      { flags: `0x${((1 << 0) | (1 << 6) | (1 << 7)).toString(16)}`, trampoline: entry },
    ]);
    const trace = join(folder, 'borrow.trace');
    expect(elftrace(['run', '--trace', trace, '--format', 'graph', on]).status).toBe(51);
    writeFileSync(file, 'version: 1\nsteps:\n  - no-graph: g\n  - register: tracer\n');
    expect(elftrace(['patch', on, '--session', file, '-o', off]).status).toBe(0);
    const back = JSON.parse(elftrace(['status', '--json', off]).stdout) as Listed;
    expect(back.ops.map(({ names }) => names)).toEqual([['ENABLED', 'INITIALIZED', 'ALLOC_TRAMP']]);
    // The register of a second graph, or of the tracer while it is lent, is refused.
    writeFileSync(file, 'version: 1\nsteps:\n  - register: tracer\n');
    const refused = elftrace(['patch', on, '--session', file, '-o', join(folder, 'never')]);
    expect([refused.status, refused.stderr]).toEqual([1, expect.stringMatching(/EBUSY/)]);
  });

  test('T-X86-4 T-X86-26 X-ENT-4: another ops comes: both run on a function that both want; a trampoline that returned itself would lose the graph', () => {
    const image = imageOf('2014');
    const session = open(image);
    const { core } = session;
    done(core.registerGraph(graphUser()));
    const ops = make(session, 'a');
    done(core.setFilter(ops, 'filter', 'far_one_*'));
    done(core.register(ops));
    const shared = runWithBoth(session.bytes());
    expect([traceDifferences(shared), shared.guest.filter(({ kind }) => kind === 'return').length]).toEqual([
      [],
      TOTAL,
    ]);
    expect(run(session).counted(ops)).toBe(ONE);
    // Ops and graph on different functions, so that the ops' own trampoline is called; its end
    // jumps on to the graph's filter.
    const other = open(image);
    done(other.core.setFilter(other.core.globalPair, 'filter', 'core_*'));
    done(other.core.registerGraph(graphUser()));
    const alone = make(other, 'b');
    done(other.core.setFilter(alone, 'filter', 'far_one_*'));
    done(other.core.register(alone));
    const { trampoline } = objectOf(other, alone);
    expect(target(other.bytes(), 'far_one_sum')).toBe(trampoline);
    const size = place(image, 'ftrace_caller_end') - place(image, 'ftrace_caller');
    expect(leads(other.bytes(), trampoline + size)).toBe(place(image, 'ftrace_return'));
    const found = run(other, { elftrace_graph_hook: nothing });
    // Every call comes by the hook, which asks the filter (C-FG-8); with a return in place of the
    // jump only those of the graph's own sites do.
    expect([found.counted(alone), found.entered.get('elftrace_graph_hook')]).toEqual([ONE, ONE + callsOf(/^core_/)]);
    const cut = run(other, { elftrace_graph_hook: nothing }, put(other.bytes(), trampoline + size, [0xc3]));
    expect([cut.counted(alone), cut.entered.get('elftrace_graph_hook')]).toEqual([ONE, callsOf(/^core_/)]);
  });
});

// ------------------------------------------------------------------------------ what is in a block

describe('what entries and trampolines do', () => {
  /** What the callee of an entry or a trampoline gets in a register, or finds on its stack. */
  function atCallee(session: Session, bytes: Uint8Array, look: (machine: Machine) => bigint): bigint[] {
    const found: bigint[] = [];
    try {
      run(session, { elftrace_counter: (machine) => found.push(look(machine)) }, bytes);
    } catch (error) {
      // It goes on with what it got, and may not get far.
      if (!String(error).includes('stopped: ')) throw error;
    }
    return found;
  }
  const traced = (variant: Variant, flags: readonly 'SAVE_REGS'[] = [], policy: SessionOptions['policy'] = {}) => {
    const session = open(imageOf(variant), { policy });
    const ops = make(session, 'a', { flags });
    done(session.core.register(ops));
    const bytes = session.bytes();
    const [entry, label] =
      flags.length > 0 ? ['ftrace_regs_caller', 'ftrace_regs_call'] : ['ftrace_caller', 'ftrace_call'];
    const start = ops.trampoline?.kind === 'private' ? objectOf(session, ops).trampoline : place(bytes, entry!);
    return { session, ops, bytes, start, call: start + place(bytes, label!) - place(bytes, entry!), entry: entry! };
  };

  test('T-X86-25: the plain entry of 2014 passes no registers; without that instruction it passes what was there', () => {
    for (const trampolines of ['2014', 'none'] as const) {
      const { session, bytes, call: at } = traced('2014', [], { trampolines });
      // mov $0, %rcx right in front of the call.
      expect([...slice(bytes, at - 7n, 7)]).toEqual([0x48, 0xc7, 0xc1, 0, 0, 0, 0]);
      const passed = atCallee(session, bytes, (machine) => machine.register('rcx'));
      expect([passed.length, passed.every((each) => each === 0n)]).toEqual([TOTAL, true]);
      const twin = put(bytes, at - 7n, [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90]);
      expect(atCallee(session, twin, (machine) => machine.register('rcx')).some((each) => each !== 0n)).toBe(true);
    }
    // The register entry passes a frame; today the plain one does, with 0 for cs, which says that
    // it is not complete.
    for (const [variant, flags, cs] of [
      ['2014', ['SAVE_REGS'], 0x33n],
      ['modern', [], 0n],
      ['modern', ['SAVE_REGS'], 0x33n],
    ] as const) {
      const { session, bytes } = traced(variant, [...flags]);
      const selectors = atCallee(session, bytes, (machine) => machine.readWord(machine.register('rcx') + 136n, 8)!);
      expect([variant, flags, new Set(selectors)]).toEqual([variant, flags, new Set([cs])]);
    }
  });

  test.each([
    ['2014', [], 168n, 8],
    ['2014', ['SAVE_REGS'], 168n, 8],
    ['modern', [], 168n, 8],
    ['modern', ['SAVE_REGS'], 176n, 0],
  ] as const)(
    'X-ENT-2 %s %j: the frame has %i bytes: at the call of the callback rsp is %i mod 16',
    (variant, flags, frame, rest) => {
      for (const trampolines of [variant, 'none'] as const) {
        const { session, bytes } = traced(variant, [...flags], { trampolines });
        // Functions of the core are entered with rsp 8 mod 16; modules are compiled for stacks of
        // 8.
        let aligned = 0;
        const found = atCallee(session, bytes, (machine) => {
          const rsp = machine.register('rsp') + 8n;
          expect(machine.readWord(rsp + frame, 8)).toBe(machine.register('rdi') + 5n);
          if (((rsp + frame) & 15n) !== 0n) return -1n;
          aligned++;
          return rsp & 15n;
        });
        expect([aligned > 20, new Set(found.filter((each) => each >= 0n))]).toEqual([true, new Set([BigInt(rest)])]);
      }
    },
  );

  test('X-ENT-6, X-ENT-9: return_to_handler: stack, slots, arguments, and nothing else changes', () => {
    for (const variant of both) {
      const bytes = imageOf(variant);
      const { image, arch } = openBytes(bytes);
      if (arch.emulation.kind !== 'ir') throw new Error('not executed');
      const { machine } = startProcess({ image, abi: arch.abi, emulation: arch.emulation });
      const q = (machine.register('rsp') & ~15n) - 0x1000n;
      const values = ['rax', 'rbx', 'rdx', 'rbp', 'r12', 'r13', 'r14', 'r15'].map(
        (name, i) => [name, 0x1111_0000n * BigInt(i + 1) + 7n] as const,
      );
      for (const [name, value] of values) machine.setRegister(name, value);
      machine.setRegister('rsp', q);
      machine.setRegister('pc', place(bytes, 'return_to_handler'));
      const handler = place(bytes, variant === '2014' ? 'elftrace_graph_return_2014' : 'elftrace_graph_return_regs');
      const end = place(bytes, 'core_leaf');
      machine.hook(handler, () => 'stop');
      machine.hook(end, () => 'stop');
      expect(machine.run({ budget: 100 }).kind).toBe('hook');
      expect(machine.register('pc')).toBe(handler);
      const rsp = machine.register('rsp') + 8n;
      const word = (at: bigint): bigint => machine.readWord(at, 8)!;
      const value = new Map(values);
      if (variant === '2014') {
        expect([q - rsp, rsp & 15n, word(rsp), word(rsp + 8n)]).toEqual([24n, 8n, value.get('rax'), value.get('rdx')]);
        expect(machine.register('rdi')).toBe(value.get('rbp'));
      } else {
        expect([q - rsp, rsp & 15n, machine.register('rdi')]).toEqual([176n, 0n, rsp]);
        expect([80n, 96n, 32n, 152n].map((slot) => word(rsp + slot))).toEqual([
          value.get('rax'),
          value.get('rdx'),
          value.get('rbp'),
          q,
        ]);
      }
      // The handler names where to go on.
      machine.setRegister('pc', word(rsp - 8n));
      machine.setRegister('rsp', rsp);
      machine.setRegister('rax', end);
      for (const name of ['rdx', 'rcx', 'rsi', 'rdi', 'r8']) machine.setRegister(name, 0xdeadn);
      expect(machine.run({ budget: 100 }).kind).toBe('hook');
      expect([machine.register('pc'), machine.register('rsp')]).toEqual([end, q]);
      expect(values.map(([name]) => [name, machine.register(name)])).toEqual(values);
    }
  });

  test('T-X86-27 X-TR-8: a short jump behind the register entry is not copied; the one of the copy is made, and leads home', () => {
    const image = imageOf('2014');
    const end = place(image, 'ftrace_regs_caller_end');
    expect(slice(image, end, 1)[0]).toBe(0xe9);
    const plain = open(image);
    done(plain.core.register(make(plain, 'a', { flags: ['SAVE_REGS'] })));
    // As an assembler with a nearer target would have made it.
    const short = open(put(image, end, [0xeb, 0x7e, 0x90, 0x90, 0x90]));
    const ops = make(short, 'a', { flags: ['SAVE_REGS'] });
    done(short.core.register(ops));
    const bytes = short.bytes();
    expect(code(bytes).room).toEqual(code(plain.bytes()).room);
    const { trampoline } = objectOf(short, ops);
    const at = trampoline + end - place(image, 'ftrace_regs_caller');
    expect([slice(bytes, at, 1)[0], leads(bytes, at)]).toEqual([0xe9, place(image, 'ftrace_return')]);
    // Through the copy all is well; the copied short jump would lead out of it.
    expect(run(short).counted(ops)).toBe(TOTAL);
    expect(() => run(short, {}, put(bytes, at, [0xeb, 0x7e]))).toThrow(/stopped/);
  });

  test('T-X86-38: a jump of five bytes from one address to another, executed where no graph tracer is', () => {
    const image = imageOf('none');
    const [from, to] = [place(image, 'core_idle'), place(image, 'core_leaf')];
    const jump = jumpBytes(from, to);
    if (!(jump instanceof Uint8Array)) throw new Error(jump.reason);
    expect([jump[0], [...jump]]).toEqual([0xe9, [...call(from, to, 0xe9)]]);
    const { arch } = openBytes(image);
    expect([...arch.branches.jump.encode(from, to)]).toEqual([...jump]);
    if (arch.emulation.kind !== 'ir') throw new Error('not executed');
    const { machine } = startProcess({
      image: readElf(put(image, from, jump)),
      abi: arch.abi,
      emulation: arch.emulation,
    });
    machine.setRegister('pc', from);
    machine.run({ budget: 1 });
    expect(machine.register('pc')).toBe(to);
    expect(jumpBytes(from, from + 5n + 0x8000_0000n)).toMatchObject({ code: 'out-of-reach' });
  });

  test.each(both)('T-X86-14 T-X86-39 %s: a copy whose load was not mended loads a wrong word', (variant) => {
    const { session, ops, bytes, start, entry } = traced(variant);
    const rdx = (from: Uint8Array): Set<bigint> =>
      new Set(atCallee(session, from, (machine) => machine.register('rdx')));
    expect(rdx(bytes)).toEqual(new Set([session.backend.addressOf(ops)]));
    const o = place(bytes, `${entry}_op_ptr`) - place(bytes, entry);
    // The displacement of the entry, at another place.
    const raw = slice(bytes, place(bytes, `${entry}_op_ptr`) + 3n, 4);
    const found = rdx(put(bytes, start + o + 3n, raw));
    expect(found.has(session.backend.addressOf(ops))).toBe(false);
    // The entry itself loads the global word, which names the same ops.
    const word = place(bytes, 'function_trace_op');
    expect(new ByteView(slice(bytes, word, 8), 'little').u64(0)).toBe(session.backend.addressOf(ops));
    const garbage = put(bytes, word, new Uint8Array(8).fill(0x5a));
    expect(rdx(garbage)).toEqual(new Set([session.backend.addressOf(ops)]));
  });

  test.each(both)(
    'T-X86-39 %s: a finished block moved by 0x100: its ops is right, call and jump are off by 0x100; it is not taken over',
    (variant) => {
      const image = imageOf(variant);
      const { sites, image: opened } = openBytes(image);
      const bytes = applyPlan(opened, planTracing(sites, { tracer: { kind: 'counter' }, others: 'nop' })).bytes;
      const word = place(bytes, 'elftrace_data') + BigInt(8 * OPS_WORDS.trampoline);
      const start = new ByteView(slice(bytes, word, 8), 'little').u64(0);
      const [s, c] = ['ftrace_caller_end', 'ftrace_call'].map(
        (name) => place(bytes, name) - place(bytes, 'ftrace_caller'),
      ) as [bigint, bigint];
      const size = Number(s) + (variant === '2014' ? 13 : 9);
      const there = start + 0x100n;
      const address = new Uint8Array(8);
      new ByteView(address, 'little').insertU64(0, there);
      let moved = put(put(bytes, there, slice(bytes, start, size)), word, address);
      moved = put(moved, start, new Uint8Array(size).fill(0xcc));
      const o = place(bytes, 'ftrace_caller_op_ptr') - place(bytes, 'ftrace_caller');
      const loads = there + o + 7n + BigInt(new ByteView(slice(moved, there + o + 3n, 4), 'little').u32(0) | 0);
      expect(slice(moved, loads, 8)).toEqual(slice(bytes, start + BigInt(size) - 8n, 8));
      expect(leads(moved, there + c) - leads(bytes, start + c)).toBe(0x100n);
      const again = (): unknown => planTracing(openBytes(moved).sites, { tracer: { kind: 'counter' }, others: 'nop' });
      if (variant === '2014') expect(leads(moved, there + s) - leads(bytes, start + s)).toBe(0x100n);
      expect(errorOf(again)).toMatchObject({ code: 'state-mismatch' });
    },
  );

  /** One ops on all functions of the core, and a second one that wants a function of them. */
  const twoOps = (variant: Variant): { session: Session; a: Ops; b: Ops } => {
    const session = open(imageOf(variant));
    const [a, b] = [make(session, 'a'), make(session, 'b')];
    done(session.core.setFilter(a, 'filter', 'core_*'));
    done(session.core.register(a));
    done(session.core.setFilter(b, 'filter', 'core_leaf'));
    return { session, a, b };
  };

  test.each(both)(
    'T-X86-40 C-TGT-3 %s: the second ops on a function expects the call of the first one’s trampoline there, and nothing else',
    (variant) => {
      // Rows 10, 17, 8 to 9 and 15 to 16 of the table.
      const { session, a, b } = twoOps(variant);
      const own = objectOf(session, a).trampoline;
      const caller = place(session.bytes(), 'ftrace_caller');
      const regs = place(session.bytes(), 'ftrace_regs_caller');
      const at = (): bigint | null => target(session.bytes(), 'core_leaf');
      expect(at()).toBe(own);
      done(session.core.register(b));
      expect([at(), target(session.bytes(), 'core_idle')]).toEqual([caller, own]);
      done(session.core.unregister(b));
      expect(at()).toBe(own);
      done(session.core.register(b));
      done(session.core.unregister(a));
      expect(at()).toBe(objectOf(session, b).trampoline);
      done(session.core.register(a));
      expect(at()).toBe(caller);
      // An ops without a trampoline (S, R) in place of b.
      done(session.core.unregister(b));
      for (const [flags, entry] of [
        [[], caller],
        [['SAVE_REGS'], regs],
      ] as const) {
        const s = make(session, `s${String(flags.length)}`, { flags });
        s.set('RECURSION');
        done(session.core.setFilter(s, 'filter', 'core_leaf'));
        done(session.core.register(s));
        expect(at()).toBe(entry);
        done(session.core.unregister(a));
        expect(at()).toBe(objectOf(session, s).trampoline === 0n ? entry : objectOf(session, s).trampoline);
        done(session.core.register(a));
        expect(at()).toBe(entry);
        done(session.core.unregister(s));
        expect(at()).toBe(own);
      }
    },
  );

  test.each(both)(
    'T-X86-40 %s: a site that calls something else is reported with the bytes of the trampoline’s call, and nothing is written',
    (variant) => {
      const spoilt = twoOps(variant);
      const own = objectOf(spoilt.session, spoilt.a).trampoline;
      const caller = place(spoilt.session.bytes(), 'ftrace_caller');
      const { image, sites } = openBytes(spoilt.session.bytes());
      const i = Array.from({ length: sites.count }, (_, k) => k).find(
        (k) => sites.program.symbolName(sites.functionSymbol(k)) === 'core_leaf',
      )!;
      const ip = sites.ip(i);
      spoilt.session.sites.program.image.bytes.set(call(ip, caller), image.fileOffsetOf(ip));
      const before = spoilt.session.bytes();
      const outcome = spoilt.session.core.register(spoilt.b);
      expect(outcome).toMatchObject({ kind: 'failed', errno: 'EINVAL' });
      if (outcome.kind === 'failed') {
        expect([...outcome.report.expected!]).toEqual([...call(ip, own)]);
        expect([...outcome.report.actual!]).toEqual([...call(ip, caller)]);
        expect(outcome.report.record?.trampolines).toContainEqual(
          expect.objectContaining({ address: own, ops: 'a', callback: counterOf(spoilt.session) }),
        );
      }
      expect(Buffer.compare(spoilt.session.bytes(), before)).toBe(0);
    },
  );

  test('X-MOD-2: every byte of every affected site is compared before the first is written; the report has the bytes expected', () => {
    const image = imageOf('modern');
    const { sites } = openBytes(image);
    const last = Array.from({ length: sites.count }, (_, i) => sites.ip(i))
      .filter((ip) => ip < 0x1800_0000n)
      .sort((a, b) => (a < b ? -1 : 1))
      .at(-1)!;
    for (let byte = 0; byte < 5; byte++) {
      for (const on of [false, true]) {
        const session = open(image);
        const ops = make(session, 'a');
        if (on) done(session.core.register(ops));
        const held = session.sites.program.image.bytes;
        const offset = readElf(image).fileOffsetOf(last);
        const expected = [...held.subarray(offset, offset + 5)];
        held[offset + byte]! ^= 0x40;
        const before = session.bytes();
        const outcome = on ? session.core.unregister(ops) : session.core.register(ops);
        expect(outcome).toMatchObject({ kind: 'failed', errno: 'EINVAL', report: { ip: last } });
        if (outcome.kind === 'failed') expect([...outcome.report.expected!]).toEqual(expected);
        expect([byte, Buffer.compare(session.bytes(), before)]).toEqual([byte, 0]);
        // C-UPD-4: and from now on nothing works.
        expect(errno(session.core.register(make(session, 'b')))).toBe('ENODEV');
      }
    }
  });

  test('X-MOD-1: only a call of the profiling entry is turned into a nop at start-up; what one record calls cannot be changed by itself', () => {
    const image = imageOf('modern');
    const { sites } = openBytes(image);
    const ip = sites.ip(0);
    // A call of something that is neither the profiling entry nor an entry of ours.
    const other = put(image, ip, call(ip, place(image, 'core_idle')));
    const error = errorOf(() => open(other));
    expect(error.message).toMatch(/wrong-target: the call leads to 0x\w+ \(core_idle\), which is no tracing entry/);
    // The core has operations on ops and filters only; each ends in one update run over all
    // records.
    const operations = Object.getOwnPropertyNames(Object.getPrototypeOf(open(image).core) as object);
    expect(operations.filter((name) => /nop|call|site|record/i.test(name)).sort()).toEqual(['records']);
  });
});
