/**
 * The state machine of 2009 on text that is really written (x86-64 bytes). Expectations are the
 * instruction bytes of the manual and the order of events that the patch of 2009 has; each test
 * names the sentence it shows.
 */
import { describe, expect, test } from '@jest/globals';
import { refuse } from '../src/machine/probes.js';
import { FLAGS_2009, Kprobe, type KprobeFaults, type KprobeHandlers } from '../src/kprobes/objects.js';
import { Kprobes2009, type Options2009 } from '../src/kprobes/state-2009.js';
import { KprobesModern } from '../src/kprobes/state-modern.js';
import type { DetourPart } from '../src/kprobes/text-machine.js';
import {
  functionAt,
  outcome,
  registers,
  type Setup as ProbeSetup,
  setupOf,
  WINDOW,
  world,
  type WorldOptions,
} from './support/probe-text.js';

const { GONE, DISABLED, OPTIMIZE } = FLAGS_2009;
const A = functionAt(0);
const B = functionAt(1);

type Setup = ProbeSetup<Kprobes2009<DetourPart>>;

function setup(options: Partial<Options2009> = {}, text: WorldOptions = {}): Setup {
  const made = world({ isFile: options.literal !== true, ...text });
  const core = new Kprobes2009(made.machine, { optimization: true, onEvent: made.onEvent, ...options });
  return setupOf(made, core, OPTIMIZE);
}

/** Time and quiescence until the optimizer is done. */
function settle(core: Kprobes2009<DetourPart>): void {
  core.tick(10);
  core.quiescence();
}

const textOf = ({ core }: Setup, address: bigint): string | undefined =>
  core.states().find((each) => each.address === address)?.text;

describe('flags and objects', () => {
  test('T-1, T-KP-4: of what the user passes only DISABLED and OPTIMIZE count', () => {
    const s = setup();
    expect(s.add(A, GONE | OPTIMIZE | 0x40).flags).toBe(OPTIMIZE);
    expect(s.add(B, GONE | DISABLED).flags).toBe(DISABLED);
    expect(s.bytes(B, 1)).toBe('8d');
  });

  test('T-KP-5, T-KP-18: an optimised object has the probe as child, and its arch part while queued and as a jump', () => {
    const s = setup();
    const probe = s.add(A);
    const queued = s.core.states()[0]!;
    expect(queued).toMatchObject({
      address: A,
      kind: 'optimized',
      list: 'optimizing',
      text: 'breakpoint',
      flags: OPTIMIZE,
    });
    expect(queued.probes).toEqual([probe]);
    settle(s.core);
    const jump = s.core.states()[0]!;
    expect(jump).toMatchObject({ kind: 'optimized', list: 'none', text: 'jump' });
    for (const { part } of [queued, jump]) {
      expect(part?.length).toBe(WINDOW);
      expect(part?.slot).toBeGreaterThan(0n);
      expect(part?.saved).toHaveLength(WINDOW);
    }
  });

  test('T-KP-7: it counts as optimised from queueing on, also after a fall back; two plain probes do not', () => {
    const s = setup();
    s.add(A);
    expect(s.core.isOptimized(A)).toBe(true);
    settle(s.core);
    s.add(A + 3n, 0);
    expect(s.bytes(A, 1)).toBe('cc');
    expect(s.core.isOptimized(A)).toBe(true);
    s.add(B, 0);
    s.add(B, 0);
    expect(s.core.states().find(({ address }) => address === B)?.kind).toBe('aggregate');
    expect(s.core.isOptimized(B)).toBe(false);
  });

  test('K-ADDR-6: the same probe twice is refused', () => {
    const s = setup();
    expect(outcome(s.core.register(s.add(A)))).toBe('EINVAL registered-twice');
  });
});

describe('hits', () => {
  test('T-KP-6, T-KP-11: the detour calls all children in order, up to the first that takes over', () => {
    const s = setup();
    const seen: string[] = [];
    const handler = (name: string, result = 0): KprobeHandlers => ({
      pre: () => {
        seen.push(name);
        return result;
      },
    });
    s.add(A, OPTIMIZE, handler('first'));
    settle(s.core);
    const before = s.bytes(A, 5);
    s.add(A, 0, handler('second'));
    // The jump stays.
    expect(s.bytes(A, 5)).toBe(before);
    expect(before.startsWith('e9')).toBe(true);
    s.core.detour(A, registers());
    expect(seen.splice(0)).toEqual(['second', 'first']);
    s.add(A, 0, handler('third', 1));
    s.core.detour(A, registers());
    expect(seen).toEqual(['third']);
  });

  test('T-9, T-KP-8, T-KP-9: a hit while a handler runs is missed by every child', () => {
    const s = setup();
    const inner: unknown[] = [];
    const one = s.add(A, OPTIMIZE, {
      pre: () => {
        inner.push(s.core.hit(A, registers()));
        s.core.detour(A, registers());
        return 0;
      },
    });
    settle(s.core);
    const two = s.add(A, 0);
    s.core.detour(A, registers());
    expect(inner).toEqual([0]);
    expect([one.nmissed, two.nmissed]).toEqual([2, 2]);
  });

  test('T-KP-33: a breakpoint hit on a queued or fallen-back object runs the detour, once, with the result of a plain probe', () => {
    for (const state of ['queued', 'fallen-back', 'plain'] as const) {
      const s = setup();
      const seen: bigint[] = [];
      let result = 7;
      s.add(A, state === 'plain' ? 0 : OPTIMIZE, {
        pre: (_probe, regs) => {
          seen.push(regs.register('pc'));
          return result;
        },
      });
      if (state === 'fallen-back') {
        settle(s.core);
        s.add(A + 3n, 0);
      }
      const regs = registers();
      regs.setRegister('pc', A + 1n);
      expect(s.core.hit(A, regs)).toBe(7);
      expect(seen).toEqual([A + 1n]);
      result = 0;
      // Nobody comes back into a window that is about to change.
      expect(s.core.hit(A, regs)).toBe(state === 'queued' ? 'resume-in-buffer' : 0);
    }
  });

  test('a disabled child is skipped', () => {
    const s = setup();
    const seen: string[] = [];
    const one = s.add(A, 0, { pre: () => seen.push('one') * 0 });
    s.add(A, 0, { pre: () => seen.push('two') * 0 });
    s.core.disable(one);
    s.core.hit(A, registers());
    expect(seen).toEqual(['two']);
  });
});

describe('optimising', () => {
  test('T-5, T-KP-12: the optimizer takes the lock, waits once, then walks; who comes meanwhile goes to the next run', () => {
    const s = setup();
    s.add(A);
    s.core.tick(10);
    s.add(B);
    expect(s.core.states().map(({ list }) => list)).toEqual(['optimizing', 'none']);
    s.core.quiescence();
    expect(s.events).toEqual([
      `armed ${A.toString(16)}`, `adopted ${A.toString(16)}`, `replaced ${A.toString(16)}`, `queued ${A.toString(16)}`,
      'scheduled', 'optimizer-waits',
      `armed ${B.toString(16)}`, `adopted ${B.toString(16)}`, `replaced ${B.toString(16)}`,
      'optimizer-walks', `optimized ${A.toString(16)}`, `dequeued ${A.toString(16)}`, 'optimizer-done',
      `queued ${B.toString(16)}`, 'scheduled',
    ]); // prettier-ignore
    expect([textOf(s, A), textOf(s, B)]).toEqual(['jump', 'breakpoint']);
    settle(s.core);
    expect(textOf(s, B)).toBe('jump');
  });

  test('T-KP-12: nothing is written before every CPU has been scheduled', () => {
    const s = setup();
    s.add(A);
    s.core.tick(1000);
    expect(s.bytes(A, 5)).toBe('cc40018b0d');
    s.core.quiescence();
    expect(s.bytes(A, 1)).toBe('e9');
  });

  test('T-KP-13: what the machine refuses stays queued, and nobody schedules the optimizer for it', () => {
    let refuses = true;
    const faults: KprobeFaults = {
      optimize: (address) =>
        refuses && address === A ? refuse('EINVAL', 'arch-refused', 'T-5', 'asked for by a test') : null,
    };
    const s = setup({ faults });
    s.add(A);
    settle(s.core);
    s.core.tick(100);
    s.core.quiescence();
    expect(textOf(s, A)).toBe('breakpoint');
    expect(s.core.states()[0]?.list).toBe('optimizing');
    refuses = false;
    s.core.tick(100);
    s.core.quiescence();
    expect(textOf(s, A)).toBe('breakpoint');
    s.add(B);
    s.core.tick(9);
    s.core.quiescence();
    expect([textOf(s, A), textOf(s, B)]).toEqual(['breakpoint', 'breakpoint']);
    s.core.tick(1);
    s.core.quiescence();
    expect([textOf(s, A), textOf(s, B)]).toEqual(['jump', 'jump']);
  });

  test('T-KP-14: probes at 0 and 5 share the run at 10', () => {
    const s = setup();
    s.add(A);
    s.core.tick(5);
    s.add(B);
    s.core.tick(4);
    expect(s.events).not.toContain('optimizer-waits');
    s.core.tick(1);
    s.core.quiescence();
    expect(s.events.filter((each) => each === 'optimizer-waits')).toHaveLength(1);
    expect([textOf(s, A), textOf(s, B)]).toEqual(['jump', 'jump']);
  });

  test('T-4, T-KP-15, T-KP-24: a post or break handler: no jump, OPTIMIZE is cleared, the breakpoint works', () => {
    for (const handlers of [{ post: () => undefined }, { breakpoint: () => 0 }] satisfies KprobeHandlers[]) {
      const s = setup();
      const probe = s.add(A, OPTIMIZE, handlers);
      expect(probe.flags & OPTIMIZE).toBe(0);
      settle(s.core);
      expect(s.bytes(A, 5)).toBe('cc40018b0d');
      expect(s.core.hit(A, registers())).toBe(0);
    }
  });

  test('T-KP-16: without memory it stays a breakpoint', () => {
    const s = setup({ faults: { allocate: () => false } });
    expect(s.add(A).flags & OPTIMIZE).toBe(0);
    expect(s.bytes(A, 1)).toBe('cc');
    // No room for the buffer either.
    const full = setup({}, { room: 0x20n });
    expect(full.add(A).flags & OPTIMIZE).toBe(0);
    expect(full.slots.count).toBe(1);
  });

  test('T-KP-17: an instruction that cannot be optimised is probed by a breakpoint', () => {
    const s = setup();
    // ret: not boostable, and the function ends behind it.
    const probe = s.add(A + 28n);
    expect(probe.flags & OPTIMIZE).toBe(0);
    settle(s.core);
    expect(s.bytes(A + 28n, 1)).toBe('cc');
  });

  test('T-3, T-KP-23: the breakpoint is there before the attempt', () => {
    const s = setup();
    s.add(A);
    const order = ['armed', 'adopted', 'replaced', 'queued'].map((what) => `${what} ${A.toString(16)}`);
    expect(s.events.slice(0, 4)).toEqual(order);
  });

  test('T-KP-25: a disabled probe is queued all the same, and its jump is written when it is enabled', () => {
    const s = setup();
    const probe = s.add(A, DISABLED | OPTIMIZE);
    expect(s.core.states()[0]).toMatchObject({ list: 'optimizing', text: 'original' });
    settle(s.core);
    expect(s.isOriginal).toBe(true);
    s.core.enable(probe);
    expect(s.bytes(A, 1)).toBe('cc');
    settle(s.core);
    expect(textOf(s, A)).toBe('jump');
    // Literally, the jump comes over the original.
    const literal = setup({ literal: true });
    literal.add(A, DISABLED | OPTIMIZE);
    settle(literal.core);
    expect(literal.bytes(A, 1)).toBe('e9');
  });

  test('T-2, T-KP-26: a second probe at an address is not optimised for its own sake and keeps its flag', () => {
    const s = setup();
    s.add(A, 0);
    const second = s.add(A, OPTIMIZE);
    settle(s.core);
    expect(s.bytes(A, 1)).toBe('cc');
    expect(second.flags).toBe(OPTIMIZE);
    expect(s.core.isOptimized(A)).toBe(false);
  });

  test('T-KP-2, T-KP-29: without support OPTIMIZE is cleared (ENOSYS) and neighbours cause no undo', () => {
    const s = setup({ optimization: false });
    expect(s.add(A).flags & OPTIMIZE).toBe(0);
    s.add(A + 3n);
    settle(s.core);
    expect(s.bytes(A, 4)).toBe('cc4001cc');
    expect(s.events.some((each) => each.startsWith('unoptimized'))).toBe(false);
    // An image without the callback has no jumps either, and a refused prepare leaves no slot
    // (T-KP-32).
    const bare = setup({}, { callees: null });
    expect(bare.add(A).flags & OPTIMIZE).toBe(0);
    expect(bare.slots.count).toBe(1);
  });

  test('T-KP-34: the queue is last in, first out', () => {
    const s = setup();
    s.add(A);
    s.add(B);
    settle(s.core);
    expect(s.events.filter((each) => each.startsWith('optimized'))).toEqual([
      `optimized ${B.toString(16)}`,
      `optimized ${A.toString(16)}`,
    ]);
  });
});

describe('undoing', () => {
  test('T-6, T-KP-10: a probe with post or break handler at an optimised one is refused, and nothing changes', () => {
    for (const handlers of [{ post: () => undefined }, { breakpoint: () => 0 }] satisfies KprobeHandlers[]) {
      const s = setup();
      s.add(A);
      settle(s.core);
      const before = s.bytes(A, 16);
      const stores = s.stores.length;
      expect(outcome(s.core.register(new Kprobe(A, handlers)))).toMatch(/^EEXIST /);
      expect(s.bytes(A, 16)).toBe(before);
      expect(s.stores).toHaveLength(stores);
      expect(s.core.states()[0]?.probes).toHaveLength(1);
    }
  });

  test('T-KP-39: it is refused after the jump was undone, too', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    s.add(A + 3n, 0);
    expect(textOf(s, A)).toBe('breakpoint');
    expect(outcome(s.core.register(new Kprobe(A, { post: () => undefined })))).toBe('EEXIST post-handler');
  });

  test('T-KP-40: two probes with a break handler at one address', () => {
    const s = setup();
    s.add(A, 0, { breakpoint: () => 0 });
    expect(outcome(s.core.register(new Kprobe(A, { breakpoint: () => 0 })))).toBe('EEXIST break-handler');
    s.add(A, 0, { post: () => undefined });
  });

  test('T-KP-19: undoing a queued probe writes nothing; a jump is replaced by the breakpoint', () => {
    const s = setup();
    s.add(A);
    const stores = s.stores.length;
    s.add(A + 3n, 0);
    expect(s.stores.slice(stores)).toEqual([`${(A + 3n).toString(16)} cc`]);
    expect(s.events).toContain(`dequeued ${A.toString(16)}`);

    const j = setup();
    j.add(A);
    settle(j.core);
    const jumped = j.stores.length;
    j.add(A + 3n, 0);
    expect(j.stores.slice(jumped)).toEqual([
      `${A.toString(16)} cc`,
      `${(A + 1n).toString(16)} 40018b0d`,
      `${(A + 3n).toString(16)} cc`,
    ]);
  });

  test('a probe that is in the window already: the machine refuses the jump, and it stays queued', () => {
    const s = setup();
    const inside = s.add(A + 3n, 0);
    s.add(A);
    settle(s.core);
    expect(textOf(s, A)).toBe('breakpoint');
    expect(s.core.states()[0]?.list).toBe('optimizing');
    expect(s.core.hit(A, registers())).toBe(0);
    s.core.unregister(inside);
    s.add(B);
    settle(s.core);
    expect(textOf(s, A)).toBe('jump');
  });

  test('T-1, T-KP-21: a probe inside the range makes the other fall back to its breakpoint, for ever', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    const other = s.add(A + 3n, 0);
    expect(s.bytes(A, 4)).toBe('cc4001cc');
    s.core.unregister(other);
    settle(s.core);
    expect(s.bytes(A, 4)).toBe('cc40018b');
  });

  test('T-KP-20: as written every boundary up to +19 finds it; asking about the address itself, those of the range', () => {
    // Boundaries of the body: 3, 9, then every byte from 11 to 28.
    const boundaries = [3, 9, ...Array.from({ length: 18 }, (_, i) => 11 + i)];
    for (const lookup of ['as-written', 'covering'] as const) {
      const undone = boundaries.filter((offset) => {
        const s = setup({ lookup });
        s.add(A);
        settle(s.core);
        s.add(A + BigInt(offset), 0);
        return textOf(s, A) === 'breakpoint';
      });
      const limit = lookup === 'as-written' ? 20 : WINDOW;
      expect(undone).toEqual(boundaries.filter((offset) => offset < limit));
    }
  });

  test('T-KP-22: the other stays undone when the registration then fails', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    for (const size of [0x400, 0x100, 0x10]) {
      while (s.slots.allocate(size, 16, A, s.machine.support.slots.reach) !== null) continue;
    }
    expect(outcome(s.core.register(new Kprobe(A + 3n)))).toBe('ENOMEM no-memory');
    expect(textOf(s, A)).toBe('breakpoint');
  });

  test('T-8, T-KP-27, T-KP-28: removing the only child undoes first, then restores; buffer and copy go after the grace period', () => {
    const s = setup();
    const probe = s.add(A);
    settle(s.core);
    expect(s.slots.count).toBe(2);
    const before = s.stores.length;
    expect(s.core.unregister(probe)).toBe('done');
    expect(s.stores.slice(before)).toEqual([
      `${A.toString(16)} cc`,
      `${(A + 1n).toString(16)} 40018b0d`,
      `${A.toString(16)} 8d`,
    ]);
    expect(s.isOriginal).toBe(true);
    expect(s.slots.count).toBe(2);
    s.core.quiescence();
    expect(s.slots.count).toBe(0);
    expect(s.events.at(-1)).toBe(`freed ${A.toString(16)}`);
  });

  test('T-KP-44: the last of two disarms the object: a probe whose name means another address than it was asked at, first or last', () => {
    // A landing pad, which is stepped over: its address stands for A.
    const pad = A - 4n;
    const left = (order: 'pad-first' | 'pad-last', version: '2009' | 'modern', atAsked: boolean): string => {
      const made = world();
      let leaving = 0n;
      const machine = Object.assign(Object.create(made.machine) as typeof made.machine, {
        check: (address: bigint) => made.machine.check(address === pad ? A : address),
        // Twin: what the probe that leaves was asked for.
        disarm: (address: bigint) => {
          made.machine.disarm(atAsked ? leaving : address);
        },
      });
      const core =
        version === '2009'
          ? new Kprobes2009(machine, { optimization: true })
          : new KprobesModern(machine, { optimization: true, faults: { allocate: () => false } });
      const probes = [pad, A].map((address) => new Kprobe(address));
      for (const probe of probes) expect(core.register(probe)).toBe('done');
      const stores = made.stores.length;
      for (const probe of order === 'pad-first' ? probes : probes.reverse()) {
        expect(made.bytes(A, 1)).toBe('cc');
        leaving = probe.asked;
        expect(core.unregister(probe)).toBe('done');
      }
      core.tick(20);
      core.quiescence();
      return [...made.stores.slice(stores), made.isOriginal ? 'original' : 'damaged'].join(', ');
    };
    for (const version of ['2009', 'modern'] as const) {
      const restored = `${A.toString(16)} 8d, original`;
      expect([version, left('pad-first', version, false), left('pad-last', version, false)]).toEqual([
        version,
        restored,
        restored,
      ]);
      expect([version, left('pad-first', version, true), left('pad-last', version, true)]).toEqual([
        version,
        restored,
        'damaged',
      ]);
    }
  });

  test('of several probes only the last takes the breakpoint away', () => {
    const s = setup();
    const one = s.add(A);
    const two = s.add(A, 0);
    settle(s.core);
    s.core.unregister(one);
    expect(textOf(s, A)).toBe('jump');
    s.core.unregister(two);
    expect(s.isOriginal).toBe(true);
  });
});

describe('the gaps of the patch, closed; and as it was written, on text that is no file', () => {
  test('T-KP-35: undo between the jump and its entry leaving the queue', () => {
    const s = setup();
    const probe = s.add(A);
    s.core.tick(10);
    s.core.quiescence({ stepwise: true });
    s.core.step();
    expect(textOf(s, A)).toBe('jump');
    // The queue's lock is held: it waits.
    expect(s.core.unregister(probe)).toBe('waiting');
    while (s.core.step()) continue;
    expect(s.isOriginal).toBe(true);

    const literal = setup({ literal: true });
    const lost = literal.add(A);
    literal.core.tick(10);
    literal.core.quiescence({ stepwise: true });
    literal.core.step();
    const tail = literal.bytes(A + 1n, 4);
    literal.core.unregister(lost);
    // The first original byte over a live jump.
    expect(literal.bytes(A, 5)).toBe(`8d${tail}`);
    expect(literal.isOriginal).toBe(false);
  });

  test('T-KP-36: the next undo of an object that fell back', () => {
    for (const literal of [false, true]) {
      const s = setup({ literal });
      const a = s.add(A);
      settle(s.core);
      s.add(A + 3n, 0);
      s.core.unregister(a);
      // The other's breakpoint survives only where undo looks first.
      expect(s.bytes(A, 4)).toBe(literal ? '8d40018b' : '8d4001cc');
    }
  });

  test('T-KP-37: removing a disabled object with its jump, or its place in the queue, still there', () => {
    for (const literal of [false, true]) {
      const s = setup({ literal });
      const probe = s.add(A, DISABLED | OPTIMIZE);
      settle(s.core);
      s.core.unregister(probe);
      expect(s.bytes(A, 1)).toBe(literal ? 'e9' : '8d');

      const q = setup({ literal });
      const queued = q.add(A, DISABLED | OPTIMIZE);
      q.core.unregister(queued);
      q.core.quiescence();
      settle(q.core);
      expect(q.events.includes(`use-after-free ${A.toString(16)}`)).toBe(literal);
    }
  });

  test('T-KP-38: disabling and the global switch undo first', () => {
    for (const literal of [false, true]) {
      for (const how of ['disable', 'all'] as const) {
        const s = setup({ literal });
        const probe = s.add(A);
        settle(s.core);
        const jump = s.bytes(A, 5);
        if (how === 'disable') s.core.disable(probe);
        else s.core.disarmAll();
        expect(s.bytes(A, 5)).toBe(literal ? `8d${jump.slice(2)}` : '8d40018b0d');
      }
    }
  });

  test('files are never given to it as it was written', () => {
    const { machine } = world({ isFile: true });
    expect(() => new Kprobes2009(machine, { optimization: true, literal: true })).toThrow('running machines only');
  });

  test('K-OPT-8: text that is gone is not written any more', () => {
    const s = setup();
    const probe = s.add(A);
    settle(s.core);
    const stores = s.stores.length;
    s.core.kill(A, A + 1n);
    expect(probe.flags & GONE).toBe(GONE);
    expect(outcome(s.core.enable(probe))).toBe('EINVAL gone');
    expect(s.core.unregister(probe)).toBe('done');
    s.core.quiescence();
    expect(s.stores).toHaveLength(stores);
    expect(s.slots.count).toBe(0);
  });

  test('K-OPT-8: a new probe where one is gone has a new copy, and is armed; the object keeps its kind (T-KP-39) and gets no jump again', () => {
    const s = setup();
    const calls: string[] = [];
    const old = s.add(A, OPTIMIZE, { pre: () => calls.push('old') && 0 });
    settle(s.core);
    s.core.kill(A, A + 0x40n);
    s.reload();
    expect(s.core.hit(A, registers())).toBeNull();
    const probe = s.add(A, DISABLED, { pre: () => calls.push('new') && 0 });
    expect(s.core.states().map(({ flags, text }) => [flags & (GONE | DISABLED), text])).toEqual([
      [DISABLED, 'original'],
    ]);
    expect(s.core.enable(probe)).toBe('done');
    settle(s.core);
    expect([textOf(s, A), s.slots.count]).toEqual(['breakpoint', 1]);
    expect([s.core.hit(A, registers()), calls]).toEqual([0, ['new']]);
    expect(outcome(s.core.register(new Kprobe(A, { post: () => undefined })))).toBe('EEXIST post-handler');
    expect([s.core.unregister(probe), s.isOriginal]).toEqual(['done', true]);
    expect(s.core.unregister(old)).toBe('done');
    s.core.quiescence();
    expect([s.isOriginal, s.slots.count, s.core.states()]).toEqual([true, 0, []]);
  });
});
