/**
 * Direct calls on RISC-V as the thread of 2022 has them: statements T-RV-1 to T-RV-30, each shown
 * by running the sample whose exit status is 10 times the runs of the traced function's body, 100
 * times those of its replacement, and the runs of the direct caller. And what the entries leave of
 * the registers. What must not happen has a twin in which it does.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { REGISTER_NAMES } from '../src/arch-riscv/isa.js';
import { archOf } from '../src/arches.js';
import { readElf } from '../src/elf/read.js';
import { ElftraceError } from '../src/errors.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { GraphUser, type Ops, REC } from '../src/ftrace/index.js';
import { planDirect } from '../src/tracing/direct.js';
import { withRuntime } from '../src/tracing/inject.js';
import { planSites } from '../src/patch/plan-sites.js';
import { Session } from '../src/tracing/session.js';
import type { Sites } from '../src/sites/sites.js';
import { planTracing } from '../src/tracing/tracing.js';
import { watchRepeats } from '../src/trace/repeats.js';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, openBytes, readSample } from './support/pipeline.js';
import {
  both,
  callback,
  direct,
  done,
  exitOf,
  type Guest,
  imageOf,
  openDirect,
  passed,
  runsOf,
  start,
} from './support/riscv-direct.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-direct-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe('direct calls', () => {
  test('T-RV-1: offered where the register entry is, refused where it is not; RV32 is recognised and refused', () => {
    expect(openDirect('g2').core.state.backend.capabilities).toMatchObject({ regs: 'separate', direct: 'regs' });
    // The twin: the same image, whose register entry has lost its name.
    const bytes = imageOf('g2').slice();
    const image = readElf(bytes);
    const name = Buffer.from(bytes).indexOf('\0ftrace_regs_caller\0');
    bytes[name + 1] = 'x'.charCodeAt(0);
    expect(readElf(bytes).symbols.find('ftrace_regs_caller')).toBeLessThan(1);
    const session = Session.open(bytes, archOf(image.header));
    const ops = session.core.createOps({ name: 'd', func: 0n });
    done(session.core.setFilter(ops, 'filter', 'traced'));
    expect(session.core.registerDirect(ops, session.functionAddress('my_direct_caller')!)).toMatchObject({
      kind: 'refused',
      errno: 'ENODEV',
    });
    // The build without register support (R-ENT-8): the same, and nobody gets registers.
    const plain = openDirect('g2-plain');
    const d = plain.core.createOps({ name: 'd', func: 0n });
    done(plain.core.setFilter(d, 'filter', 'traced'));
    expect(plain.core.registerDirect(d, plain.functionAddress('my_direct_caller')!)).toMatchObject({ errno: 'ENODEV' });
    const regs = plain.core.createOps({ name: 'r', func: plain.functionAddress('callback')!, flags: ['SAVE_REGS'] });
    done(plain.core.setFilter(regs, 'filter', 'traced'));
    expect(plain.core.register(regs)).toMatchObject({ errno: 'EINVAL' });
    expect(plain.bytes()).toEqual(openDirect('g2-plain').bytes());
    for (const flavour of ['g0', 'g1'] as const) {
      const sample = flavour === 'g0' ? 'riscv64/program-mcount' : 'riscv64/program-patchable-8';
      const other = withRuntime(openBytes(readSample(sample)).sites, undefined, undefined, flavour);
      expect(Session.open(other.bytes, archOf(other.header)).backend.capabilities.direct).toBe('none');
    }
    const rv32 = { ...image.header, is64: false };
    expect(() => archOf(rv32)).toThrow(expect.objectContaining({ code: 'unsupported-machine' }));
    expect(() => archOf(rv32)).toThrow(/32-bit|RV32/);
  });

  test('T-RV-2: a direct caller for one function, and one for three', () => {
    const one = openDirect('g2');
    direct(one);
    expect(exitOf(one.bytes())).toBe(11);
    const three = openDirect('g2');
    direct(three, 'traced other third');
    expect(exitOf(three.bytes())).toBe(13);
    // The older form, by address.
    const older = openDirect('g2');
    done(older.core.registerDirectAt(older.functionAddress('traced')!, older.functionAddress('my_direct_caller')!));
    expect(exitOf(older.bytes())).toBe(11);
  });

  test('T-RV-3: modify, alone: call old, call the register entry, call new; never a nop. Beside others: the table only', () => {
    const session = openDirect('g2');
    const ops = direct(session);
    const outcome = done(session.core.modifyDirect(ops, session.functionAddress('my_direct_caller2')!));
    const sites = outcome.steps.flatMap((step) => (step.kind === 'site' ? [step] : []));
    expect(sites.map(({ before, after }) => [before.kind, after.kind])).toEqual([
      ['direct', 'regs-caller'],
      ['regs-caller', 'direct'],
    ]);
    expect(exitOf(session.bytes())).toBe(12);
    const shared = both('t1');
    const ops2 = shared.core.state.known.find(({ name }) => name === 'my_direct_caller')!;
    const later = done(shared.core.modifyDirect(ops2, shared.functionAddress('my_direct_caller2')!));
    expect(later.steps.filter(({ kind }) => kind === 'site')).toEqual([]);
    expect(later.steps.filter(({ kind }) => kind === 'direct-entry').length).toBe(1);
    expect(exitOf(shared.bytes())).toBe(12);
  });

  test('T-RV-4, T-RV-10: beside a tracer and a callback that wants registers: each of them once', () => {
    const session = openDirect('g2');
    direct(session);
    callback(session, 'callback');
    callback(session, 'elftrace_function_tracer');
    const probe = session.core.createOps({
      name: 'probe',
      func: session.functionAddress('elftrace_counter')!,
      flags: ['SAVE_REGS'],
    });
    done(session.core.setFilter(probe, 'filter', 'traced'));
    done(session.core.register(probe));
    const guest = start(session.bytes());
    const stop = guest.process.run({ budget: 1_000_000 });
    expect(stop).toMatchObject({ kind: 'exit', code: 11 });
    expect(runsOf(guest)).toMatchObject({ bodies: 1n, directs: 1n, callbacks: 1n });
    expect(guest.word('elftrace_count', 0, 8)).toBe(1n);
    expect(guest.process.machine.readWord(guest.address('elftrace_ring_memory') + 24n, 8)).toBe(1n);
  });

  test('T-RV-4, K-ADDR-7: beside a probe on the site: it sees the site as pc, the function goes on behind it, each runs once', () => {
    for (const tracers of [0, 1]) {
      const session = openDirect('g2');
      direct(session);
      if (tracers > 0) callback(session, 'callback');
      // What arms a probe on a site: an ops with SAVE_REGS; with a post-handler it also changes the
      // resume address.
      const probe = session.core.createOps({
        name: 'p',
        func: session.functionAddress('ftrace_stub')!,
        flags: ['SAVE_REGS'],
      });
      done(session.core.setFilter(probe, 'filter', 'traced'));
      done(session.core.register(probe));
      const post = session.core.createOps({
        name: 'post',
        func: session.functionAddress('ftrace_stub')!,
        flags: ['SAVE_REGS', 'IPMODIFY'],
      });
      done(session.core.setFilter(post, 'filter', 'traced'));
      expect(session.core.register(post)).toMatchObject({ kind: 'refused', errno: 'EBUSY' });
      const guest = start(session.bytes());
      const { machine } = guest.process;
      const site = guest.address('traced');
      const seen: bigint[] = [];
      machine.hook(guest.address('ftrace_stub'), () => {
        const regs = machine.register('a3');
        // The pre-handler is shown the site, and returns 0: on behind it, by its size.
        machine.writeWord(regs, 8, machine.register('a0'));
        seen.push(machine.readWord(regs, 8)!, machine.readWord(regs + 8n, 8)! - machine.register('a1'));
        machine.writeWord(regs, 8, machine.register('a0') + 8n);
        return 'continue';
      });
      expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 11 });
      expect(seen).toEqual([site, 0n]);
      expect(runsOf(guest)).toMatchObject({ bodies: 1n, directs: 1n, callbacks: BigInt(tracers) });
    }
  });

  test.each(['g2', 'g2-merged', 'g3', 'g3c'] as const)(
    'C-FG-1: function graph and a direct caller on one function: %s',
    (flavour) => {
      const session = openDirect(flavour);
      direct(session);
      callback(session, 'ftrace_graph_func', 'traced other');
      const guest = start(session.bytes());
      expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 11 });
      // An entry and a return of each.
      expect(guest.process.machine.readWord(guest.address('elftrace_ring_memory') + 24n, 8)).toBe(4n);
    },
  );

  test('T-RV-5, T-RV-13, R-DIR-1, R-DIR-7: the slot of t1 carries the address, whatever the order in the list', () => {
    for (const helperFirst of [true, false]) {
      const session = openDirect('g2');
      // What is registered later runs first.
      if (helperFirst) callback(session, 'callback');
      direct(session);
      if (!helperFirst) callback(session, 'callback');
      const bytes = session.bytes();
      const guest = start(bytes);
      expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 11 });
      expect(guest.word('seen', 2, 8)).toBe(helperFirst ? guest.address('my_direct_caller') : 0n);
      expect(guest.word('seen', 0, 8)).toBe(guest.word('seen', 1, 8));
      const order = passed(bytes, ['callback', 'ftrace_direct_func', 'my_direct_caller']);
      expect(order.at(-1)).toBe('my_direct_caller');
      expect(order.length).toBe(3);
    }
  });

  /** Stops at the call in the function's site, or somewhere else. */
  function runTo(guest: Guest, address: bigint): void {
    const remove = guest.process.machine.hook(address, () => 'stop');
    expect(guest.process.run({ budget: 1_000_000 }).kind).toBe('hook');
    remove();
  }

  test('T-RV-6: what a caller left in t1 is no direct caller, because the slot is cleared', () => {
    const session = openDirect('g2');
    callback(session, 'callback', 'traced', ['SAVE_REGS']);
    const bytes = session.bytes();
    const end = (image: Uint8Array): unknown => {
      const guest = start(image);
      runTo(guest, guest.address('traced'));
      guest.process.machine.setRegister('t1', 0xbadn);
      const stop = guest.process.run({ budget: 1_000_000 });
      return stop.kind === 'exit' ? stop.code : stop;
    };
    expect(end(bytes)).toBe(10);
    // The twin: an entry without the store.
    const without = bytes.slice();
    const { image, program } = openBytes(bytes);
    const entry = image.fileOffsetOf(program.definedAt(program.symbols.find('ftrace_regs_caller'))!);
    const view = new DataView(without.buffer);
    let at = entry;
    while (view.getUint32(at, true) !== 0x0201_3823) at += 4;
    expect(at - entry).toBeLessThan(200);
    view.setUint32(at, 0x13, true);
    expect(end(without)).toMatchObject({ kind: 'fault', access: 'execute' });
  });

  test('T-RV-7: the exit: bnez t1; jr t0; jr t1, both ways taken', () => {
    const bytes = both('t1').bytes();
    const { image, program } = openBytes(bytes);
    const end = image.fileOffsetOf(program.definedAt(program.symbols.find('ftrace_regs_caller_end'))!);
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    expect([0, 4, 8].map((at) => view.getUint32(end + at, true).toString(16))).toEqual(['31463', '28067', '30067']);
    const session = openDirect('g2');
    direct(session);
    callback(session, 'callback', 'traced other', ['SAVE_REGS']);
    const guest = start(session.bytes());
    const exit = guest.address('ftrace_regs_caller_end');
    const taken: string[] = [];
    guest.process.machine.hook(exit + 4n, () => (taken.push('jr t0'), 'continue'));
    guest.process.machine.hook(exit + 8n, () => (taken.push('jr t1'), 'continue'));
    expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 11 });
    expect(taken).toEqual(['jr t1', 'jr t0']);
  });

  test.each(['t0', 't0slot'] as const)(
    'T-RV-8: %s: the entry is left alone: no store to the slot of t1, no test of t1',
    (variant) => {
      const bytes = both(variant).bytes();
      const { image, program } = openBytes(bytes);
      const [entry, end] = ['ftrace_regs_caller', 'ftrace_regs_caller_end'].map((name) =>
        program.definedAt(program.symbols.find(name))!,
      ) as [bigint, bigint];
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      const words: number[] = [];
      for (let at = entry; at < end + 8n; at += 4n) words.push(view.getUint32(image.fileOffsetOf(at), true));
      // sd zero,48(sp) and bnez t1,+8 of the patch in the thread; jr t0 ends both entries.
      expect([words.includes(0x0201_3823), words.includes(0x0003_1463), words.at(-1)]).toEqual([
        false,
        false,
        0x0002_8067,
      ]);
      // So a caller's t1 comes through, which the patched entry loses (R-ENT-5).
      const session = openDirect('g2', { directVariant: variant });
      callback(session, 'ftrace_stub', 'traced', ['SAVE_REGS']);
      const guest = start(session.bytes());
      runTo(guest, guest.address('traced'));
      guest.process.machine.setRegister('t1', 0xbadn);
      runTo(guest, guest.address('traced') + 8n);
      expect(guest.process.machine.register('t1')).toBe(0xbadn);
      expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 10 });
    },
  );

  test('T-RV-8, T-RV-9, T-RV-10, R-DIR-3, F-9: through t0 the direct caller goes to itself for ever; through t1 it goes to the body', () => {
    const looped = start(both('t0').bytes());
    const repeats = watchRepeats(
      looped.process.machine,
      looped.address('my_direct_caller'),
      ['pc', 't0', 'sp', 'ra'],
      3,
    );
    expect(looped.process.run({ budget: 1_000_000 }).kind).toBe('hook');
    expect(repeats.repeated).toMatchObject({
      times: 3,
      state: { pc: looped.address('my_direct_caller'), t0: looped.address('my_direct_caller') },
    });
    expect(runsOf(looped)).toMatchObject({ bodies: 0n, directs: 2n });
    expect(exitOf(both('t0').bytes())).toBe('step-limit');
    const fine = start(both('t1').bytes());
    const none = watchRepeats(fine.process.machine, fine.address('my_direct_caller'), ['pc', 't0', 'sp', 'ra'], 3);
    expect(fine.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 11 });
    expect(none.repeated).toBeNull();
  });

  test('T-RV-22, R-DIR-4, F-9: what stands in the slot of t0 is loaded by nobody; 11, endless, 10 and 10', () => {
    expect(exitOf(both('t0slot').bytes())).toBe(10);
    const nobody = openDirect('g2');
    callback(nobody, 'callback', 'traced', ['SAVE_REGS']);
    const ends = [
      exitOf(both('t1').bytes()),
      exitOf(both('t0').bytes()),
      exitOf(both('t0slot').bytes()),
      exitOf(nobody.bytes()),
    ];
    expect(ends).toEqual([11, 'step-limit', 10, 10]);
    for (const flavour of ['g2-merged', 'g3', 'g3c'] as const) {
      expect(() => openDirect(flavour, { directVariant: 't0slot' })).toThrow(/no direct calls through t0slot/);
    }
    expect(() => openDirect('g3c', { directVariant: 't0' })).toThrow(/no direct calls through t0/);
    expect(exitOf(both('t1', 'g2-merged').bytes())).toBe(11);
    expect(exitOf(both('t0', 'g2-merged').bytes())).toBe('step-limit');
  });

  test('T-RV-11, R-DIR-1: only a function in the table is taken to a direct caller', () => {
    const session = openDirect('g2');
    direct(session);
    // The helper runs for another function, too, which the table does not name.
    callback(session, 'ftrace_direct_func', 'other', ['SAVE_REGS']);
    expect(exitOf(session.bytes())).toBe(11);
    expect(passed(session.bytes(), ['ftrace_direct_func', 'my_direct_caller'])).toEqual([
      'my_direct_caller',
      'ftrace_direct_func',
    ]);
  });

  test('T-RV-12: function, register entry, list, callbacks, direct caller, body', () => {
    const order = passed(both('t1').bytes(), [
      'traced', 'ftrace_regs_caller', 'ftrace_ops_list_func', 'callback', 'ftrace_direct_func', 'ftrace_regs_caller_end', 'my_direct_caller',
      'direct_count',
    ]); // prettier-ignore
    expect(order).toEqual([
      'traced', 'ftrace_regs_caller', 'ftrace_ops_list_func', 'callback', 'ftrace_direct_func', 'ftrace_regs_caller_end', 'my_direct_caller',
      'direct_count',
    ]); // prettier-ignore
  });

  test('T-RV-14: through t0, helper first: a tracer behind it leaves the resume address alone', () => {
    const session = openDirect('g2', { directVariant: 't0' });
    callback(session, 'callback');
    direct(session);
    const guest = start(session.bytes());
    expect(guest.process.run({ budget: 20_000 }).kind).toBe('step-limit');
    expect(guest.word('seen', 0, 8)).toBe(guest.address('my_direct_caller'));
  });

  describe('T-RV-15, T-RV-16: with a callback that changes the resume address', () => {
    const sharing = (variant: string, helperFirst: boolean): Session => {
      const session = openDirect('g2', { directVariant: variant });
      const patch = (): Ops => callback(session, 'livepatch', 'traced', ['IPMODIFY', 'SAVE_REGS']);
      if (helperFirst) patch();
      direct(session, 'traced', 'my_direct_caller', () => 0);
      if (!helperFirst) patch();
      return session;
    };

    test.each([true, false])('t1, helper first %p: the direct caller once, then the replacement', (helperFirst) => {
      const bytes = sharing('t1', helperFirst).bytes();
      expect(exitOf(bytes)).toBe(101);
      expect(passed(bytes, ['my_direct_caller', 'replacement'])).toEqual(['my_direct_caller', 'replacement']);
    });

    test('t0, helper first: the direct caller never runs', () => {
      expect(exitOf(sharing('t0', true).bytes())).toBe(100);
    });

    test('t0, helper last: the direct caller goes to itself and the replacement is never reached', () => {
      const guest = start(sharing('t0', false).bytes());
      const repeats = watchRepeats(
        guest.process.machine,
        guest.address('my_direct_caller'),
        ['pc', 't0', 'sp', 'ra'],
        3,
      );
      guest.process.run({ budget: 100_000 });
      expect(repeats.repeated?.times).toBe(3);
      expect(runsOf(guest)).toMatchObject({ bodies: 0n, replacements: 0n });
    });

    test('without a callback that negotiates: EBUSY, both ways round, and no byte changes', () => {
      const first = openDirect('g2');
      direct(first);
      const before = first.bytes();
      const ops = first.core.createOps({
        name: 'p',
        func: first.functionAddress('livepatch')!,
        flags: ['IPMODIFY', 'SAVE_REGS'],
      });
      done(first.core.setFilter(ops, 'filter', 'traced'));
      expect(first.core.register(ops)).toMatchObject({ kind: 'refused', errno: 'EBUSY' });
      expect(first.bytes()).toEqual(before);
      const second = openDirect('g2');
      callback(second, 'livepatch', 'traced', ['IPMODIFY', 'SAVE_REGS']);
      const late = second.core.createOps({ name: 'd', func: 0n });
      done(second.core.setFilter(late, 'filter', 'traced'));
      expect(second.core.registerDirect(late, second.functionAddress('my_direct_caller')!)).toMatchObject({
        errno: 'EBUSY',
      });
    });
  });

  test.each([
    ['g2', 8n, 0n],
    ['g2-merged', 8n, 0n],
    ['g3', 8n, 4n],
  ] as const)(
    'T-RV-17, R-SITE-4: %s: t0 at the entry is the body, and what callbacks are told is the site',
    (flavour, body, site) => {
      const session = openDirect(flavour);
      callback(session, 'callback', 'traced', ['SAVE_REGS']);
      const guest = start(session.bytes());
      runTo(guest, guest.address('ftrace_regs_caller'));
      expect(guest.process.machine.register('t0')).toBe(guest.address('traced') + body);
      runTo(guest, guest.address('callback'));
      expect(guest.process.machine.register('a0')).toBe(guest.address('traced') + site);
    },
  );

  test('T-RV-18, T-RV-19, C-DIR-1: the direct caller keeps t0, ra, sp and every argument', () => {
    const session = openDirect('g2');
    direct(session);
    const guest = start(session.bytes());
    const { machine } = guest.process;
    runTo(guest, guest.address('my_direct_caller'));
    const kept = ['t0', 'ra', 'sp', 's0', 'a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'] as const;
    const before = kept.map((name) => machine.register(name));
    expect(before[0]).toBe(guest.address('traced') + 8n);
    runTo(guest, guest.address('traced') + 8n);
    expect(kept.map((name) => machine.register(name))).toEqual(before);
  });

  test('T-RV-20, R-DIR-6: the register entry gives every register back; t1 is 0, or at a direct caller its address', () => {
    for (const withDirect of [false, true]) {
      const session = openDirect('g2');
      if (withDirect) direct(session);
      // No callback of the program: its code finds data by gp.
      callback(session, 'ftrace_stub', 'traced', ['SAVE_REGS']);
      const guest = start(session.bytes());
      const { machine } = guest.process;
      runTo(guest, guest.address('traced'));
      const poison = poisoned(guest);
      const to = withDirect ? guest.address('my_direct_caller') : guest.address('traced') + 8n;
      runTo(guest, to);
      const expected = { ...poison, t0: guest.address('traced') + 8n, t1: withDirect ? to : 0n };
      expect(Object.fromEntries(Object.keys(poison).map((name) => [name, machine.register(name)]))).toEqual(expected);
    }
  });

  /** Fills all registers but sp with a pattern. */
  function poisoned(guest: Guest): Record<string, bigint> {
    const { machine } = guest.process;
    const values: Record<string, bigint> = { sp: machine.register('sp') };
    REGISTER_NAMES.forEach((name, i) => {
      if (name === 'zero' || name === 'sp') return;
      values[name] = 0x1234_5600_7abc_0100n + BigInt(i) * 0x1_0000_0001n;
      machine.setRegister(name, values[name]);
    });
    return values;
  }

  test('T-RV-23, R-DIR-5: alone, the pair of the site names the direct caller itself', () => {
    const session = openDirect('g2');
    direct(session);
    const { sites, program } = openBytes(session.bytes());
    const target = program.definedAt(program.symbols.find('my_direct_caller'));
    const traced = program.definedAt(program.symbols.find('traced'));
    const index = Array.from({ length: sites.count }, (_, i) => i).find((i) => sites.ip(i) === traced)!;
    expect(sites.reading(index)!.target).toBe(target);
    expect(passed(session.bytes(), ['ftrace_regs_caller', 'ftrace_caller', 'my_direct_caller'])).toEqual([
      'my_direct_caller',
    ]);
    // With a word for its ops in front of the function the entry goes there at once, with nothing
    // saved and no helper.
    const called = openDirect('g3c');
    direct(called);
    expect(passed(called.bytes(), ['ftrace_caller', 'ftrace_direct_func', 'my_direct_caller'])).toEqual([
      'ftrace_caller', 'my_direct_caller',
    ]); // prettier-ignore
    expect(exitOf(called.bytes())).toBe(11);
    // A fixed auipc does not reach it: the entry does, by the helper.
    const fixed = openDirect('g3');
    direct(fixed);
    expect(passed(fixed.bytes(), ['ftrace_caller', 'ftrace_direct_func', 'my_direct_caller'])).toEqual([
      'ftrace_caller', 'ftrace_direct_func', 'my_direct_caller',
    ]); // prettier-ignore
    expect(exitOf(fixed.bytes())).toBe(11);
  });

  test('T-RV-24, R-MOD-2: a word behind a fixed auipc is never exchanged for a target that needs another auipc', () => {
    const session = openDirect('g3');
    const before = session.bytes();
    const { sites, program } = openBytes(before);
    const reading = sites.reading(0)!;
    const entry = program.definedAt(program.symbols.find('ftrace_caller'))!;
    const auipc = sites.anchor[0]!;
    const off = entry - auipc;
    // 0x1700 and 0x1900 of the rule, moved to where this entry is: the last place of its page of 4
    // KiB, and the next.
    const low = BigInt.asIntN(12, off);
    const last = entry - low + 0x7fen;
    const write = (target: bigint) =>
      reading.shape.write(reading, { kind: 'call', target, form: 'g3' }, sites.viewOf(0));
    expect(write(last)).toMatchObject({ stores: [{ delta: 4 }] });
    expect(write(last + 2n)).toMatchObject({ refused: 'out-of-range' });
    expect(write(entry - low - 0x800n)).toMatchObject({ stores: [{ delta: 4 }] });
    expect(write(entry - low - 0x802n)).toMatchObject({ refused: 'out-of-range' });
  });

  test('T-RV-25: a site that may not be written: EPERM, nothing written; by direct callers and sessions, too', () => {
    const bytes = imageOf('g2');
    const { sites, image } = openBytes(bytes);
    const at = sites.fileOffset(0);
    const plan = planTracing(sites, {
      tracer: { kind: 'function' },
      others: 'nop',
      readonlyRanges: [{ start: at, end: at + 8 }],
    });
    expect(plan.refusals).toMatchObject([{ errno: 'EPERM', site: 0 }]);
    expect(plan.steps.some(({ site }) => site === 0)).toBe(false);
    expect(planSites(sites, { to: { kind: 'init' } }).refusals).toEqual([]);
    expect(image.bytes).toEqual(bytes);
    const traced = Array.from({ length: sites.count }, (_, i) => i).find((i) => nameAt(sites, i) === 'traced')!;
    const place = sites.fileOffset(traced);
    const readonlyRanges = [{ start: place + 4, end: place + 6 }];
    const callers = [{ function: 'traced', caller: 'my_direct_caller' }];
    expect(() => planDirect(sites, { callers, tracer: null, variant: null, readonlyRanges })).toThrow(/EPERM/);
    const { session, output } = files('readonly');
    writeFileSync(session, 'version: 1\nsteps:\n  - direct: { function: traced, caller: my_direct_caller }\n');
    const original = join(builtSamples, 'riscv64/direct');
    const range = `0x${place.toString(16)}+8`;
    for (const request of [['--session', session], ['--direct', 'traced=my_direct_caller'], ['--enable'], ['--nop']]) {
      const { status, stderr } = elftrace(['patch', original, ...request, '--readonly', range, '-o', output]);
      const disabled = request[0] === '--nop';
      expect([request, status, disabled || stderr.includes('EPERM')]).toEqual([request, disabled ? status : 1, true]);
      expect(disabled || !existsSync(output)).toBe(true);
    }
  });

  const nameAt = (sites: Sites, index: number): string => sites.program.symbolName(sites.functionSymbol(index));
  const files = (name: string): { session: string; output: string } => ({
    session: join(folder, `${name}.yaml`),
    output: join(folder, `${name}.out`),
  });

  test('T-RV-25, H2: the plan carries the hazard, for a program to read: --enable, --direct, sessions; apply says it again', () => {
    const sample = join(builtSamples, 'riscv64/direct-rv64g');
    const { session, output } = files('hazard');
    writeFileSync(session, 'version: 1\nsteps:\n  - direct: { function: traced, caller: my_direct_caller }\n');
    interface Found {
      rule: string;
      sites: { function: string; section: string; address: string }[];
    }
    const hazards = (...args: string[]): [string, string[]][] => {
      const { status, stdout } = elftrace(['patch', sample, ...args, '--dry-run', '--json']);
      expect(status).toBe(0);
      const { hazards: found } = JSON.parse(stdout) as { hazards: Found[] };
      return found.map(({ rule, sites }) => [rule, sites.map((each) => each.function).sort()]);
    };
    const all: [string, string[]][] = [['H2', ['other', 'third', 'traced']]];
    const one: [string, string[]][] = [['H2', ['traced']]];
    const direct = ['--direct', 'traced=my_direct_caller'];
    const preempt = ['--preempt', 'full'];
    expect(hazards('--enable', ...preempt)).toEqual(all);
    expect(hazards('--enable', '-l', 'traced', ...preempt)).toEqual(one);
    expect(hazards(...direct, ...preempt)).toEqual(one);
    expect(hazards(...direct, '--riscv-direct', 't1', ...preempt)).toEqual(one);
    expect(hazards(...direct, '--enable', ...preempt)).toEqual(all);
    expect(hazards('--session', session, ...preempt)).toEqual(one);
    expect(hazards('--enable')).toEqual([]);
    expect(hazards(...direct, '--preempt', 'none')).toEqual([]);
    expect(hazards('--session', session, ...preempt, '--riscv-site', 'g3')).toEqual([]);
    expect(hazards('--nop', ...preempt)).toEqual([]);
    // Sites of -pg and of G1 are pairs, too.
    const plain = (name: string, ...args: string[]): number => {
      const { stdout } = elftrace([
        'patch',
        join(builtSamples, name),
        '--enable',
        '--dry-run',
        '--json',
        ...preempt,
        ...args,
      ]);
      return (JSON.parse(stdout) as { hazards: Found[] }).hazards[0]?.sites.length ?? 0;
    };
    expect(plain('riscv64/program-mcount')).toBeGreaterThan(5);
    expect(plain('riscv64/program-mcount-relaxed')).toBe(0);
    expect(plain('riscv64/program-patchable-8', '--riscv-site', 'g1')).toBeGreaterThan(5);
    const planned = elftrace(['plan', sample, ...direct, ...preempt]);
    const planFile = join(folder, 'hazard.plan');
    writeFileSync(planFile, planned.stdout);
    const applied = elftrace(['apply', sample, planFile, '-o', output]);
    expect([applied.status, applied.stderr]).toEqual([
      0,
      expect.stringMatching(/notice: H2, 1 site: sites of two words/),
    ]);
  });

  test('T-RV-25, H2: on a system that can be preempted a pair is a hazard, and said to be; a fixed auipc is none', () => {
    const sample = join(builtSamples, 'riscv64/direct-rv64g');
    const notices = (...args: string[]): string => {
      const { status, stderr } = elftrace(['patch', sample, '--enable', ...args, '-o', join(folder, 'preempt')]);
      expect(status).toBe(0);
      return stderr;
    };
    expect(notices('--preempt', 'full')).toMatch(/notice: H2, 3 sites: sites of two words/);
    expect(notices('--preempt', 'none')).toBe('');
    expect(notices()).toBe('');
    expect(notices('--preempt', 'full', '--riscv-site', 'g3')).toBe('');
  });

  test('T-RV-26, R-DIR-8: t0 and t1 lead to the direct caller alike, and differ behind it', () => {
    const way = (variant: string): { before: bigint[]; after: bigint[] } => {
      const guest = start(both(variant).bytes());
      const { machine } = guest.process;
      runTo(guest, guest.address('traced'));
      const last = guest.address('ftrace_regs_caller_end');
      const before: bigint[] = [];
      while (machine.register('pc') !== guest.address('my_direct_caller')) {
        // Behind the test of t1 one of two jumps is taken: the only difference of the entry.
        if (machine.register('pc') <= last || machine.register('pc') > last + 8n) before.push(machine.register('pc'));
        machine.run({ budget: 1 });
      }
      const after: bigint[] = [];
      for (let i = 0; i < 60; i++) {
        after.push(machine.register('pc'));
        machine.run({ budget: 1 });
      }
      return { before, after };
    };
    const [a, b] = [way('t1'), way('t0')];
    expect(a.before.length).toBeGreaterThan(100);
    expect(b.before).toEqual(a.before);
    const first = a.after.findIndex((pc, i) => pc !== b.after[i]);
    expect(first).toBeGreaterThan(20);
    const { program } = openBytes(both('t1').bytes());
    const [body, caller] = ['traced', 'my_direct_caller'].map((name) => program.definedAt(program.symbols.find(name))!);
    expect([a.after[first], b.after[first]]).toEqual([body! + 8n, caller]);
  });

  test('T-RV-27: two hits, the user gone in between: the second goes to the function', () => {
    const session = both('t1');
    const guest = start(session.bytes());
    const { machine } = guest.process;
    runTo(guest, guest.address('traced'));
    const state = machine.registerNames.map((name) => [name, machine.register(name)] as const);
    runTo(guest, guest.address('traced') + 8n);
    expect(runsOf(guest)).toMatchObject({ directs: 1n, callbacks: 1n });
    // What the caller passes is the same again; the table names nobody.
    for (const [name, value] of state) machine.setRegister(name, value);
    machine.setRegister('t1', guest.address('my_direct_caller'));
    machine.writeWord(guest.address('ftrace_direct_table'), 8, 0n);
    runTo(guest, guest.address('traced') + 8n);
    expect(machine.register('t1')).toBe(0n);
    expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 11 });
    expect(runsOf(guest)).toMatchObject({ directs: 1n, callbacks: 2n });
  });

  test('T-RV-28, R-DIR-9: the plain entry knows nothing of direct callers, hence their ops save registers', () => {
    const session = both('t1');
    const ops = session.core.state.known.find(({ name }) => name === 'my_direct_caller')!;
    expect([ops.has('SAVE_REGS'), ops.has('DIRECT')]).toEqual([true, true]);
    // Without: EINVAL, and no byte changes.
    const other = openDirect('g2');
    const before = other.bytes();
    const bare = other.core.createOps({
      name: 'bare',
      func: other.functionAddress('ftrace_direct_func')!,
      flags: ['DIRECT'],
    });
    done(other.core.setFilter(bare, 'filter', 'traced'));
    expect(other.core.register(bare)).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
    expect(other.bytes()).toEqual(before);
    // One that lost the wish afterwards is no direct caller to modify and unregister.
    const lost = direct(other);
    const registered = other.bytes();
    lost.clear('SAVE_REGS');
    const [caller, next] = ['my_direct_caller', 'my_direct_caller2'].map((name) => other.functionAddress(name)!);
    expect(other.core.modifyDirect(lost, next!)).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
    expect(other.core.unregisterDirect(lost, caller!)).toMatchObject({ kind: 'refused', errno: 'EINVAL' });
    expect(other.bytes()).toEqual(registered);
    lost.set('SAVE_REGS');
    done(other.core.unregisterDirect(lost, caller!));
    expect(exitOf(other.bytes())).toBe(10);
    const record = session.core.records.find(({ name }) => name === 'traced')!;
    expect(record.has(REC.REGS)).toBe(true);
    // Forced: the site calls the plain entry.
    const { sites, image, program } = openBytes(session.bytes());
    const index = Array.from({ length: sites.count }, (_, i) => i).find((i) => sites.ip(i) === record.ip)!;
    const reading = sites.reading(index)!;
    const target = program.definedAt(program.symbols.find('ftrace_caller'))!;
    const change = reading.shape.write(reading, { kind: 'call', target }, sites.viewOf(index));
    if ('refused' in change) throw new Error(change.reason);
    const forced = image.bytes.slice();
    for (const { delta, after } of change.stores) forced.set(after, sites.fileOffset(index) + delta);
    expect(exitOf(session.bytes())).toBe(11);
    expect(exitOf(forced)).toBe(10);
    expect(passed(forced, ['my_direct_caller'])).toEqual([]);
    // One entry that serves both does.
    expect(exitOf(both('t1', 'g2-merged').bytes())).toBe(11);
  });

  test('T-RV-29: an image with the register entry has direct calls without a further option; one without it has none', () => {
    const results = (['g2', 'g2-plain'] as const).map((flavour) => {
      const [path, out] = [join(folder, flavour), join(folder, `${flavour}-direct`)];
      writeFileSync(path, imageOf(flavour));
      const { program } = openBytes(imageOf(flavour));
      const hasEntry = program.symbols.find('ftrace_regs_caller') > 0;
      const { status, stderr } = elftrace(['patch', path, '--direct', 'traced=my_direct_caller', '-o', out]);
      return { hasEntry, status, stderr, made: existsSync(out) };
    });
    expect(results).toEqual([
      { hasEntry: true, status: 0, stderr: '', made: true },
      { hasEntry: false, status: 1, stderr: expect.stringMatching(/no direct calls \(ENODEV\)/), made: false },
    ]);
    expect(exitOf(new Uint8Array(readFileSync(join(folder, 'g2-direct'))))).toBe(11);
    // What is there besides direct calls works without the entry: nothing else keeps them from it.
    const plain = openDirect('g2-plain');
    callback(plain, 'elftrace_counter');
    const guest = start(plain.bytes());
    expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 10 });
    expect(guest.word('elftrace_count', 0, 8)).toBe(1n);
  });

  test('T-RV-30: the helper in a call without registers does nothing; one that does not test for them faults', () => {
    // The test is `beqz a3`, which becomes a nop.
    const original = both('t1').bytes();
    const untested = original.slice();
    const { image, program } = openBytes(original);
    const helper = program.definedAt(program.symbols.find('ftrace_direct_func'))!;
    const at = image.fileOffsetOf(helper);
    const view = new DataView(untested.buffer, untested.byteOffset);
    const tests = Array.from({ length: 12 }, (_, i) => at + 4 * i).filter(
      (place) => (view.getUint32(place, true) & 0x01ff_f07f) === 0x0006_8063,
    );
    expect(tests).toHaveLength(1);
    view.setUint32(tests[0]!, 0x13, true);
    const ends = ([original, untested] as const).map((bytes) =>
      [true, false].map((withRegisters) => {
        const guest = start(bytes);
        const { machine } = guest.process;
        runTo(guest, helper);
        expect(machine.register('a3')).not.toBe(0n);
        if (!withRegisters) machine.setRegister('a3', 0n);
        const stop = guest.process.run({ budget: 1_000_000 });
        return stop.kind === 'exit' ? stop.code : stop.kind;
      }),
    );
    expect(ends).toEqual([
      [11, 10],
      [11, 'fault'],
    ]);
    // Nobody gets there: an ops that is called without registers cannot have the helper (T-RV-28),
    // and an image without the entry does not have it.
    const plain = openDirect('g2-plain');
    expect(plain.functionAddress('ftrace_direct_func')).toBeNull();
  });

  test('C-DIR-2, C-OUT-1 rows 5, 11, 12, 18, 19, 20: the site follows who is there', () => {
    const session = openDirect('g2');
    const site = (): string => {
      const read = session.backend.read({
        kind: 'site',
        site: session.core.records.find(({ name }) => name === 'traced')!,
      });
      return read.kind === 'site' ? read.content.kind : read.kind;
    };
    const states = [site()];
    const d = direct(session);
    states.push(site());
    const s = callback(session, 'callback');
    states.push(site());
    done(session.core.unregister(s));
    states.push(site());
    done(session.core.register(s));
    done(session.core.unregisterDirect(d, session.functionAddress('my_direct_caller')!));
    states.push(site());
    done(session.core.unregister(s));
    states.push(site());
    expect(states).toEqual(['nop', 'direct', 'regs-caller', 'direct', 'caller', 'nop']);
    expect(exitOf(session.bytes())).toBe(10);
  });
});

test('R-ENT-8: without register support: a frame of 80 bytes, null for registers, the graph as a patched call', () => {
  const session = openDirect('g2-plain');
  const graph = new GraphUser('graph', { entry: 0n, return: 0n });
  callback(session, 'elftrace_function_tracer');
  done(session.core.setGraphFilter(graph, 'filter', 'traced other'));
  done(session.core.registerGraph(graph));
  const bytes = session.bytes();
  const guest = start(bytes);
  const { machine } = guest.process;
  let sp = 0n;
  const seen: bigint[] = [];
  machine.hook(guest.address('ftrace_caller'), () => {
    sp = machine.register('sp');
    return 'continue';
  });
  machine.hook(guest.address('ftrace_call'), () => {
    seen.push(sp - machine.register('sp'), machine.register('a3'));
    const frame = machine.register('sp');
    seen.push(
      machine.readWord(frame + 64n, 8)! - machine.register('a0'),
      machine.readWord(frame + 72n, 8)! - machine.register('a1'),
    );
    return 'continue';
  });
  expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 10 });
  // Two functions: the frame, no registers, pc slot = site + 8, ra slot = parent.
  expect(seen).toEqual([80n, 0n, 8n, 0n, 80n, 0n, 8n, 0n]);
  // One event of the function tracer, an entry and a return of each of two functions.
  expect(machine.readWord(guest.address('elftrace_ring_memory') + 24n, 8)).toBe(5n);
  done(session.core.unregisterGraph(graph));
  const { image, program } = openBytes(session.bytes());
  const at = image.fileOffsetOf(program.definedAt(program.symbols.find('ftrace_graph_call'))!);
  // R-MOD-5.
  expect(Buffer.from(session.bytes().subarray(at, at + 8)).toString('hex')).toBe('1300000013000000');
});

describe('registers at the body, with a callback that changes all that it may', () => {
  const clobbered = ['t0', 't1', 't2', 't3', 't4', 't5', 't6', 'a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'] as const;
  test.each([
    ['riscv64/direct', 'g2', 'traced', false],
    ['riscv64/direct', 'g2', 'traced', true],
    ['riscv64/direct', 'g2-merged', 'traced', false],
    ['riscv64/direct', 'g2-plain', 'traced', false],
    ['riscv64/direct-rv64g', 'g3', 'traced', false],
    ['riscv64/program-patchable-8', 'g1', 'leaf', false],
    ['riscv64/program-patchable-8', 'g1', 'leaf', true],
  ] as const)('R-ENT-0, R-ENT-5: %s as %s, %s, register entry %p', (sample, flavour, name, regs) => {
    const image = withRuntime(openBytes(readSample(sample)).sites, undefined, undefined, flavour);
    const session = Session.open(image.bytes, archOf(image.header));
    const ops = session.core.createOps({
      name: 'stub',
      func: session.functionAddress('ftrace_stub')!,
      flags: regs ? ['SAVE_REGS'] : [],
    });
    done(session.core.setFilter(ops, 'filter', name));
    done(session.core.register(ops));
    const guest = start(session.bytes());
    const { machine } = guest.process;
    const go = (to: bigint): void => {
      const remove = machine.hook(to, () => 'stop');
      expect(guest.process.run({ budget: 1_000_000 }).kind).toBe('hook');
      remove();
    };
    go(guest.address(name));
    const values: Record<string, bigint> = { sp: machine.register('sp') };
    REGISTER_NAMES.forEach((register, i) => {
      if (register === 'zero' || register === 'sp') return;
      values[register] = 0x1234_5600_7abc_0100n + BigInt(i) * 0x1_0000_0001n;
      machine.setRegister(register, values[register]);
    });
    let calls = 0;
    machine.hook(guest.address('ftrace_stub'), () => {
      calls++;
      for (const register of clobbered) machine.setRegister(register, 0xdead_0000n + BigInt(calls));
      return 'continue';
    });
    go(guest.address(name) + (flavour === 'g1' ? 16n : 8n));
    expect(calls).toBe(1);
    // Dead at a function's entry, and not kept by an entry that makes a small frame.
    const dead = regs ? ['t0', 't1'] : ['t0', 't1', 't3', 't4', 't5', 't6'];
    // As in kernels; the runtime's own callbacks do not touch it.
    if (flavour === 'g2-plain') dead.push('t2');
    const alive = Object.keys(values).filter((register) => !dead.includes(register));
    expect(Object.fromEntries(alive.map((register) => [register, machine.register(register)]))).toEqual(
      Object.fromEntries(alive.map((register) => [register, values[register]])),
    );
    if (flavour === 'g1' && regs)
      expect([machine.register('t0'), machine.register('t1')]).toEqual([values['t0'], values['t1']]);
  });
});

describe('R-ENT-7: frames as callbacks find them', () => {
  const A = ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'] as const;
  const S = ['s2', 's3', 's4', 's5', 's6', 's7', 's8', 's9', 's10', 's11'] as const;
  const at = (names: readonly string[], first: number): [string, number][] =>
    names.map((name, i) => [name, first + 8 * i]);
  const full: [string, number][] = [
    ...at(['ra', 'sp', 'gp', 'tp', 't0', 't1', 't2', 's0', 's1'], 8), ...at(A, 80), ...at(S, 144), ...at(['t3', 't4', 't5', 't6'], 224),
  ]; // prettier-ignore
  const merged: [string, number][] = [['ra', 8], ['sp', 16], ['s0', 24], ['t1', 32], ...at(A, 40)]; // prettier-ignore
  const partial: [string, number][] = [['ra', 8], ['s0', 64], ...at(A, 80)]; // prettier-ignore

  test.each([
    ['riscv64/direct', 'g2', true, 288, 0, 8n, full],
    ['riscv64/direct', 'g2', false, 288, 0, 8n, partial],
    ['riscv64/direct', 'g2-plain', false, 80, 64, 8n, [...at(A, 0), ['ra', 72]]],
    ['riscv64/direct', 'g2-merged', false, 112, 0, 8n, merged],
    ['riscv64/direct-rv64g', 'g3', false, 112, 0, 8n, merged],
    ['riscv64/direct-8-4-aligned', 'g3c', false, 112, 0, 8n, merged],
    // 72 of the rules, t2, and a word that aligns; behind it the word of the site.
    ['riscv64/program-patchable-8', 'g1', false, 96, 64, 12n, [...at(A, 0), ['ra', 88]]],
    ['riscv64/program-patchable-8', 'g1', true, 296, 0, 12n, full],
  ] as const)(
    'R-ENT-0, R-ENT-1: %s as %s, register entry %p: %i bytes',
    (sample, flavour, regs, size, epc, back, slots) => {
      const image = withRuntime(openBytes(readSample(sample)).sites, undefined, undefined, flavour);
      const session = Session.open(image.bytes, archOf(image.header));
      const name = flavour === 'g1' ? 'leaf' : 'traced';
      const ops = session.core.createOps({
        name: 'stub',
        func: session.functionAddress('ftrace_stub')!,
        flags: regs ? ['SAVE_REGS'] : [],
      });
      done(session.core.setFilter(ops, 'filter', name));
      done(session.core.register(ops));
      const guest = start(session.bytes());
      const { machine } = guest.process;
      const go = (to: bigint): void => {
        const remove = machine.hook(to, () => 'stop');
        expect(guest.process.run({ budget: 1_000_000 }).kind).toBe('hook');
        remove();
      };
      go(guest.address(name));
      const values: Record<string, bigint> = { sp: machine.register('sp') };
      REGISTER_NAMES.forEach((register, i) => {
        if (register === 'zero' || register === 'sp') return;
        values[register] = 0x1234_5600_7abc_0100n + BigInt(i) * 0x1_0000_0001n;
        machine.setRegister(register, values[register]);
      });
      go(guest.address('ftrace_stub'));
      const fixed = flavour === 'g3' || flavour === 'g3c';
      const site = guest.address(name) + (fixed ? 4n : 0n);
      // Registers of one entry for all are not asked for; they come with it.
      const frame = machine.register('sp');
      const body = guest.address(name) + back;
      expect(values['sp']! - frame).toBe(BigInt(size));
      expect(machine.readWord(frame + BigInt(epc), 8)).toBe(body);
      const passes = flavour !== 'g2-plain' && (flavour !== 'g1' || regs);
      // With a word for its ops in front of the function the register is the ops object itself.
      expect([machine.register('a0'), machine.register('a1'), machine.register('a3')]).toEqual([
        site,
        values['ra'],
        passes ? frame : 0n,
      ]);
      const dynamic = machine.register('a2');
      expect([machine.readWord(dynamic, 8), dynamic === 0n]).toEqual([guest.address('ftrace_stub'), false]);
      for (const [register, slot] of slots) {
        const expected =
        register === 't0' && regs && flavour === 'g2' ? body
        : register === 't1' && flavour !== 'g1' ? 0n
        : register === 'sp' && size >= 288 ? frame
        : values[register]!; // prettier-ignore
        expect([register, machine.readWord(frame + BigInt(slot), 8)]).toEqual([register, expected]);
      }
      // The word of the site below the stack pointer (R-ENT-0).
      if (flavour === 'g1') expect(machine.readWord(values['sp']! - 8n, 8)).toBe(values['ra']);
      expect(frame % 16n).toBe(flavour === 'g1' && regs ? 8n : 0n);
    },
  );
});

test('R-CO-1, C-TGT-1: the word in front of a function names nobody, its one ops, the list', () => {
  const image = withRuntime(
    openBytes(readSample('riscv64/program-patchable-8-4-aligned')).sites,
    undefined,
    undefined,
    'g3c',
  );
  const session = Session.open(image.bytes, archOf(image.header));
  const site = session.core.records.find(({ name }) => name === 'leaf')!;
  const literal = (): string => {
    const read = session.backend.read({ kind: 'literal', site });
    if (read.kind !== 'literal') return read.kind;
    return read.literal.kind === 'ops' ? read.literal.ops.name : read.literal.kind;
  };
  const counter = (name: string): Ops => {
    const ops = session.core.createOps({ name, func: session.functionAddress('elftrace_counter')! });
    done(session.core.setFilter(ops, 'filter', 'leaf'));
    return ops;
  };
  const hits = (ops: readonly Ops[]): number[] => {
    const guest = start(session.bytes());
    expect(guest.process.run({ budget: 1_000_000 })).toMatchObject({ kind: 'exit', code: 0 });
    return ops.map((each) => Number(guest.process.machine.readWord(session.backend.addressOf(each) + 24n, 8)));
  };
  const [a, b] = [counter('a'), counter('b')];
  const seen = [literal()];
  done(session.core.register(a));
  seen.push(literal());
  // leaf is called four times in a run: directly, by bump, classify and forward.
  expect(hits([a])).toEqual([4]);
  done(session.core.register(b));
  seen.push(literal());
  expect(hits([a, b])).toEqual([4, 4]);
  done(session.core.unregister(a));
  seen.push(literal());
  done(session.core.unregister(b));
  seen.push(literal());
  expect(seen).toEqual(['nop-ops', 'a', 'list-ops', 'b', 'nop-ops']);
});

describe('a file with direct callers', () => {
  test('planDirect: exactly the net edits change, and revert gives the original', () => {
    const original = readSample('riscv64/direct');
    const image = withRuntime(openBytes(original).sites, undefined, undefined, 'g2');
    const { sites } = openBytes(image.bytes);
    const callers = [{ function: 'traced', caller: 'my_direct_caller' }];
    const plan = planDirect(sites, { callers, tracer: { symbol: 'callback', filter: 'traced' }, variant: null });
    const { bytes } = applyPlan(image, plan, { injected: true });
    expect(exitOf(bytes)).toBe(11);
    expect(revert(readElf(bytes))).toEqual(original);
    const code = (make: () => unknown): string => {
      try {
        make();
        return '';
      } catch (error) {
        return error instanceof ElftraceError ? error.code : String(error);
      }
    };
    const ask = (name: string, caller: string): string =>
      code(() => planDirect(sites, { callers: [{ function: name, caller }], tracer: null, variant: null }));
    expect([ask('nobody', 'my_direct_caller'), ask('traced', 'nobody'), ask('direct_count', 'my_direct_caller')]).toEqual([
      'no-match', 'no-match', 'no-match',
    ]); // prettier-ignore
    const twice = [...callers, { function: 'traced', caller: 'my_direct_caller2' }];
    expect(() => planDirect(sites, { callers: twice, tracer: null, variant: null })).toThrow(/EBUSY/);
  });

  test('a file with direct callers is fine as it is: verify, explain, status; a site that calls another than its own is not', () => {
    const sample = join(builtSamples, 'riscv64/direct');
    const out = join(folder, 'judged');
    const verified = (path: string): number | null => elftrace(['verify', path]).status;
    const direct = ['--direct', 'traced=my_direct_caller'];
    expect(elftrace(['patch', sample, ...direct, '-o', out]).status).toBe(0);
    expect(verified(out)).toBe(0);
    expect(elftrace(['explain', out, 'traced']).stdout).toMatch(
      /target +0x[0-9a-f]+ +my_direct_caller +the direct caller of the function\n[^]*verdict +ok/,
    );
    expect(elftrace(['status', out]).stdout).toMatch(/^traced \(1\) R {3}D .*\n\tdirect-->my_direct_caller$/m);
    // The pair leads to the other direct caller, which the table does not name.
    const bytes = new Uint8Array(readFileSync(out));
    const { sites, program } = openBytes(bytes);
    const index = Array.from({ length: sites.count }, (_, i) => i).find((i) => sites.state(i) === 'call')!;
    const target = program.definedAt(program.symbols.find('my_direct_caller2'))!;
    const change = sites
      .reading(index)!
      .shape.write(sites.reading(index)!, { kind: 'call', target }, sites.viewOf(index));
    if ('refused' in change) throw new Error(change.reason);
    for (const { delta, after } of change.stores) bytes.set(after, sites.fileOffset(index) + delta);
    const wrong = join(folder, 'wrong');
    writeFileSync(wrong, bytes);
    const { status, stdout, stderr } = elftrace(['verify', wrong]);
    expect([status, `${stdout}${stderr}`]).toEqual([1, expect.stringMatching(/wrong-target/)]);
    // Beside a tracer: both are attached.
    expect(
      elftrace(['patch', sample, ...direct, '--enable', '--tracer', 'callback', '-l', 'traced', '-o', out]).status,
    ).toBe(0);
    expect(verified(out)).toBe(0);
    expect(exitOf(new Uint8Array(readFileSync(out)))).toBe(11);
    expect(elftrace(['status', out]).stdout).toMatch(
      /^traced \(2\) R {3}D .*ftrace_ops_list_func\n\tdirect-->my_direct_caller$/m,
    );
    // As one of the proposals: what the bytes say.
    expect(elftrace(['patch', sample, ...direct, '--riscv-direct', 't0', '-o', out]).status).toBe(0);
    expect(verified(out)).toBe(0);
    expect(elftrace(['status', out]).stdout).toMatch(/^traced .*ftrace_regs_caller\n\tdirect-->my_direct_caller$/m);
    const lonely = elftrace(['patch', sample, '--enable', '--riscv-direct', 't0', '-o', out]);
    expect([lonely.status, lonely.stderr]).toEqual([2, expect.stringMatching(/about --direct/)]);
  });

  test('patch --direct on the command line, with each variant', () => {
    const sample = join(builtSamples, 'riscv64/direct');
    const out = join(folder, 'out');
    const patched = (...args: string[]): number | string => {
      expect(elftrace(['patch', sample, '--direct', 'traced=my_direct_caller', ...args, '-o', out]).status).toBe(0);
      return exitOf(new Uint8Array(readFileSync(out)));
    };
    expect(patched()).toBe(11);
    expect(patched('--enable', '--tracer', 'callback', '-l', 'traced')).toBe(11);
    expect(patched('--riscv-direct', 't1')).toBe(11);
    expect(patched('--riscv-direct', 't0')).toBe('step-limit');
    expect(patched('--riscv-direct', 't0slot')).toBe(10);
    expect(patched('--riscv-site', 'g2-merged')).toBe(11);
    expect(elftrace(['patch', sample, '--direct', 'traced', '-o', out]).status).toBe(2);
    const ppc = join(builtSamples, 'ppc64-elfv2-le/program-mprofile');
    const refused = elftrace(['patch', ppc, '--direct', 'leaf=program', '-o', out]);
    expect([refused.status, refused.stderr]).toEqual([1, expect.stringMatching(/ENODEV/)]);
  });
});
