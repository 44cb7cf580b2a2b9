/** The state machine of today on text that is really written (x86-64 bytes). */
import { describe, expect, test } from '@jest/globals';
import { FLAGS, Kprobe, type KprobeFaults, type KprobeHandlers } from '../src/kprobes/objects.js';
import { KprobesModern, type OptionsModern } from '../src/kprobes/state-modern.js';
import type { DetourPart } from '../src/kprobes/text-machine.js';
import {
  functionAt,
  outcome,
  registers,
  type Setup as ProbeSetup,
  setupOf,
  world,
  type WorldOptions,
} from './support/probe-text.js';

const { GONE, DISABLED, OPTIMIZED, FTRACE } = FLAGS;
const A = functionAt(0);
const B = functionAt(1);
const hexOf = (address: bigint): string => address.toString(16);

type Setup = ProbeSetup<KprobesModern<DetourPart>>;

function setup(options: Partial<OptionsModern> = {}, text: WorldOptions = {}): Setup {
  const made = world(text);
  const core = new KprobesModern(made.machine, { optimization: true, onEvent: made.onEvent, ...options });
  return setupOf(made, core, 0);
}

/** The optimizer runs once, if it is due. */
function settle(core: KprobesModern<DetourPart>): void {
  core.tick(5);
  core.quiescence();
}

const stateOf = (s: Setup, address: bigint): string => {
  const found = s.core.states().find((each) => each.address === address);
  if (!found) return 'none';
  const { text, list, flags } = found;
  return `${text} ${list}${(flags & OPTIMIZED) !== 0 ? ' optimized' : ''}`;
};

const POST: KprobeHandlers = { post: () => undefined };

describe('optimising', () => {
  test('T-KP-4: 4 is what the core has done, and only DISABLED is the user’s', () => {
    const s = setup({ optimization: false });
    expect(s.add(A, 0xff).flags).toBe(DISABLED);
    expect(s.isOriginal).toBe(true);
  });

  test('K-OPT-1, K-OPT-2, T-KP-7: every fresh probe is tried; queued and optimised are told by the flag', () => {
    const s = setup();
    s.add(A);
    expect(stateOf(s, A)).toBe('breakpoint optimizing optimized');
    expect(s.core.isOptimized(A)).toBe(true);
    s.core.tick(5);
    expect(s.bytes(A, 5)).toBe('cc40018b0d');
    s.core.quiescence();
    expect(stateOf(s, A)).toBe('jump none optimized');
    // ret cannot: silently a plain probe.
    s.add(B + 28n);
    settle(s.core);
    expect(stateOf(s, B + 28n)).toBe('breakpoint none');
  });

  test('T-KP-2: without the option there is no jump', () => {
    const s = setup({ optimization: false });
    s.add(A);
    settle(s.core);
    expect(stateOf(s, A)).toBe('breakpoint none');
  });

  test('T-KP-14: one run 5 ticks after the first', () => {
    const s = setup();
    s.add(A);
    s.core.tick(3);
    s.add(B);
    s.core.tick(1);
    expect(s.events).not.toContain('optimizer-waits');
    s.core.tick(1);
    s.core.quiescence();
    expect(s.events.filter((each) => each === 'scheduled')).toHaveLength(1);
    expect([stateOf(s, A), stateOf(s, B)]).toEqual(['jump none optimized', 'jump none optimized']);
  });

  test('T-KP-34: the queue is first in, first out', () => {
    const s = setup();
    s.add(A);
    s.add(B);
    settle(s.core);
    expect(s.events.filter((each) => each.startsWith('optimized'))).toEqual([
      `optimized ${hexOf(A)}`,
      `optimized ${hexOf(B)}`,
    ]);
  });

  test('T-KP-12, K-OPT-3: undo, wait, optimise, free', () => {
    const s = setup();
    const a = s.add(A);
    settle(s.core);
    s.core.unregister(a);
    s.add(B);
    const before = s.events.length;
    s.core.tick(5);
    s.core.quiescence();
    expect(s.events.slice(before)).toEqual([
      `unoptimized ${hexOf(A)}`, `disarmed ${hexOf(A)}`, 'optimizer-waits', 'optimizer-walks', `optimized ${hexOf(B)}`,
      `freed ${hexOf(A)}`, 'optimizer-done',
    ]); // prettier-ignore
  });

  test('T-KP-15: a post-handler keeps the breakpoint, a break handler does not exist any more', () => {
    const s = setup();
    s.add(A, 0, POST);
    settle(s.core);
    expect(stateOf(s, A)).toBe('breakpoint none');
    expect(s.core.reason(A)?.code).toBe('post-handler');
  });

  test('T-KP-16, T-KP-17: without memory it is a plain probe', () => {
    const s = setup({ faults: { allocate: () => false } });
    s.add(A);
    settle(s.core);
    expect(stateOf(s, A)).toBe('breakpoint none');
    expect(s.core.states()[0]?.kind).toBe('probe');
  });

  test('T-KP-11, T-KP-26: a second probe joins without undoing', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    s.add(A);
    expect(stateOf(s, A)).toBe('jump none optimized');
    expect(s.core.states()[0]?.probes).toHaveLength(2);
  });

  test('T-KP-6: on the optimised path results are ignored and every child is called; on the breakpoint path the first ends it', () => {
    const s = setup();
    const seen: string[] = [];
    s.add(A, 0, { pre: () => seen.push('one') * 0 });
    s.add(A, 0, { pre: () => seen.push('two') });
    s.core.detour(A, registers());
    expect(seen.splice(0)).toEqual(['two', 'one']);
    expect(s.core.hit(A, registers())).toBe(1);
    expect(seen).toEqual(['two']);
  });

  test('T-KP-33, X-8: a breakpoint hit on a queued probe goes on in the buffer', () => {
    const s = setup();
    s.add(A);
    expect(s.core.hit(A, registers())).toBe('resume-in-buffer');
    const plain = setup({ optimization: false });
    plain.add(A);
    expect(plain.core.hit(A, registers())).toBe(0);
  });
});

test('T-KP-12: who is queued while the optimizer waits goes to the next run', () => {
  const s = setup();
  s.add(A);
  s.core.tick(5);
  s.add(B);
  s.core.quiescence();
  expect([stateOf(s, A), stateOf(s, B)]).toEqual(['jump none optimized', 'breakpoint optimizing optimized']);
  settle(s.core);
  expect(stateOf(s, B)).toBe('jump none optimized');
});

describe('undoing', () => {
  test('K-OPT-6, T-KP-10, T-KP-39: a post-handler forces the undo instead of EEXIST, and its removal makes the probe eligible again', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    const post = s.add(A, 0, POST);
    expect(stateOf(s, A)).toBe('breakpoint none');
    settle(s.core);
    expect(stateOf(s, A)).toBe('breakpoint none');
    s.core.unregister(post);
    expect(stateOf(s, A)).toBe('breakpoint optimizing optimized');
    settle(s.core);
    expect(stateOf(s, A)).toBe('jump none optimized');
  });

  test('K-OPT-4, T-KP-20, T-KP-21: a breakpoint in the range undoes first; from the end of the range on it does not', () => {
    for (const [offset, undone] of [
      [3n, true],
      [9n, false],
      [11n, false],
      [19n, false],
    ] as const) {
      // prettier-ignore
      const s = setup();
      s.add(A);
      settle(s.core);
      const before = s.stores.length;
      s.add(A + offset);
      expect(stateOf(s, A)).toBe(undone ? 'breakpoint none' : 'jump none optimized');
      if (undone) {
        expect(s.stores.slice(before)).toEqual([
          `${hexOf(A)} cc`,
          `${hexOf(A + 1n)} 40018b0d`,
          `${hexOf(A + offset)} cc`,
        ]);
        expect(s.core.reason(A)?.code).toBe('other-probe');
      }
    }
  });

  test('K-OPT-4: when the probe in the range goes, the jump comes back', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    const inside = s.add(A + 3n, 0, POST);
    s.core.unregister(inside);
    expect(stateOf(s, A)).toBe('breakpoint optimizing optimized');
    settle(s.core);
    expect(s.bytes(A, 1)).toBe('e9');
  });

  test('T-KP-22: who fails before arming undoes nothing', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    for (const size of [0x400, 0x100, 0x10]) {
      while (s.slots.allocate(size, 16, A, s.machine.support.slots.reach) !== null) continue;
    }
    expect(outcome(s.core.register(new Kprobe(A + 3n)))).toBe('ENOMEM no-memory');
    expect(stateOf(s, A)).toBe('jump none optimized');
  });

  test('K-OPT-5, T-KP-19: queued: only dequeued; optimised: lazily, and revoked when it is wanted again', () => {
    const s = setup();
    const a = s.add(A);
    s.core.disable(a);
    expect(s.events).toContain(`dequeued ${hexOf(A)}`);
    expect(s.isOriginal).toBe(true);
    s.core.enable(a);
    settle(s.core);
    expect(stateOf(s, A)).toBe('jump none optimized');
    s.core.disable(a);
    expect(stateOf(s, A)).toBe('jump unoptimizing optimized');
    const stores = s.stores.length;
    s.core.enable(a);
    expect(stateOf(s, A)).toBe('jump none optimized');
    settle(s.core);
    expect(s.stores).toHaveLength(stores);
  });

  test('K-OPT-9, T-KP-38: disabled, the jump becomes a breakpoint and then the original, all by the optimizer', () => {
    const s = setup();
    const a = s.add(A);
    settle(s.core);
    s.core.disable(a);
    expect(s.bytes(A, 1)).toBe('e9');
    s.core.tick(5);
    expect(s.isOriginal).toBe(true);
    s.core.quiescence();
    expect(stateOf(s, A)).toBe('original none');
    s.core.enable(a);
    settle(s.core);
    expect(stateOf(s, A)).toBe('jump none optimized');
  });

  test('T-KP-38: the global switch undoes at once', () => {
    const s = setup();
    s.add(A);
    s.add(B, DISABLED);
    settle(s.core);
    s.core.disarmAll();
    expect(s.isOriginal).toBe(true);
    s.core.armAll();
    settle(s.core);
    expect(stateOf(s, A)).toBe('jump none optimized');
    expect(stateOf(s, B)).toBe('original none');
  });

  test('the switch of optimisation undoes lazily and queues anew', () => {
    const s = setup();
    s.add(A);
    settle(s.core);
    s.core.forbidOptimization();
    expect(stateOf(s, A)).toBe('jump unoptimizing optimized');
    settle(s.core);
    expect(stateOf(s, A)).toBe('breakpoint none');
    s.add(B);
    settle(s.core);
    expect(stateOf(s, B)).toBe('breakpoint none');
    s.core.allowOptimization();
    settle(s.core);
    expect([stateOf(s, A), stateOf(s, B)]).toEqual(['jump none optimized', 'jump none optimized']);
  });

  test('T-KP-27, T-KP-28, T-KP-36: removing is lazy, everything is freed behind the grace period', () => {
    const s = setup();
    const a = s.add(A);
    settle(s.core);
    s.core.unregister(a);
    expect(stateOf(s, A)).toBe('jump unoptimizing optimized');
    s.core.tick(5);
    expect(s.isOriginal).toBe(true);
    expect(s.slots.count).toBe(2);
    s.core.quiescence();
    expect(s.slots.count).toBe(0);
    expect(s.core.states()).toEqual([]);
  });

  test('T-KP-37: a disabled probe removed while it is being undone leaves nothing behind', () => {
    for (const ticks of [0, 5]) {
      const s = setup();
      const a = s.add(A);
      settle(s.core);
      s.core.disable(a);
      s.core.tick(ticks);
      s.core.unregister(a);
      settle(s.core);
      settle(s.core);
      expect(s.isOriginal).toBe(true);
      expect(s.slots.count).toBe(0);
      expect(s.core.states()).toEqual([]);
    }
  });

  test('K-OPT-7: a probe at an address on its way out revives it', () => {
    for (const ticks of [0, 5]) {
      const s = setup();
      const a = s.add(A);
      settle(s.core);
      s.core.unregister(a);
      s.core.tick(ticks);
      s.add(A);
      s.core.quiescence();
      settle(s.core);
      settle(s.core);
      expect(stateOf(s, A)).toBe('jump none optimized');
      expect(s.slots.count).toBe(2);
    }
  });

  test('K-OPT-8: gone text is never written; a new probe there has a new slot', () => {
    const s = setup();
    const a = s.add(A);
    settle(s.core);
    const stores = s.stores.length;
    s.core.kill(A, A + 0x40n);
    expect(a.flags & GONE).toBe(GONE);
    expect(s.slots.count).toBe(0);
    expect(outcome(s.core.enable(a))).toBe('EINVAL gone');
    settle(s.core);
    expect(s.stores).toHaveLength(stores);
    s.reload();
    const calls: string[] = [];
    const b = s.add(A, DISABLED, { pre: () => calls.push('b') && 0 });
    expect(s.slots.count).toBe(2);
    // GONE is cleared, and DISABLED set until it is armed.
    expect(s.core.states().map(({ flags }) => flags)).toEqual([DISABLED]);
    expect([s.isOriginal, a.flags & GONE, b.flags & GONE]).toEqual([true, GONE, 0]);
    expect(s.core.enable(b)).toBe('done');
    settle(s.core);
    expect(stateOf(s, A)).toBe('jump none optimized');
    // Of the two only the new one has text.
    s.core.detour(A, registers());
    expect([calls, outcome(s.core.enable(a))]).toEqual([['b'], 'EINVAL gone']);
    expect([s.core.unregister(a), s.core.unregister(b)]).toEqual(['done', 'done']);
    settle(s.core);
    s.core.quiescence();
    expect([s.isOriginal, s.slots.count, s.core.states()]).toEqual([true, 0, []]);
  });

  test('K-OPT-8: a probe that is gone is missed by nobody: not armed with the others, not counted as in the way, not found by a trap', () => {
    const s = setup();
    // At A + 3, in the window of a later probe at A.
    const inside = s.add(A + 3n);
    const other = s.add(B);
    settle(s.core);
    s.core.kill(A, A + 0x40n);
    s.reload();
    expect(s.core.hit(A + 3n, registers())).toBeNull();
    s.core.disarmAll();
    s.core.armAll();
    settle(s.core);
    expect([s.bytes(A, 11), stateOf(s, B)]).toEqual(['8d40018b0d0010000011c8', 'jump none optimized']);
    s.add(A);
    settle(s.core);
    expect(stateOf(s, A)).toBe('jump none optimized');
    expect([inside.flags & GONE, other.flags & GONE]).toEqual([GONE, 0]);
  });

  test('K-OPT-8: the init text of a module is freed before the rest of it', () => {
    const s = setup();
    const [init, rest] = [s.add(A), s.add(B)];
    settle(s.core);
    const before = s.bytes(A, 0x80);
    s.core.kill(A, A + 0x40n);
    settle(s.core);
    expect([init.flags & GONE, rest.flags & GONE, s.bytes(A, 0x80)]).toEqual([GONE, 0, before]);
    s.core.kill(A, B + 0x40n);
    expect([rest.flags & GONE, s.bytes(A, 0x80), s.slots.count]).toEqual([GONE, before, 0]);
  });

  test('K-OPT-9: when arming fails the flags are as before', () => {
    let fails = false;
    const faults: KprobeFaults = { arm: () => (fails ? 'ENOMEM' : null) };
    const s = setup({ faults });
    const a = s.add(A, DISABLED);
    fails = true;
    expect(outcome(s.core.enable(a))).toBe('ENOMEM');
    expect(a.flags).toBe(DISABLED);
    expect(outcome(s.core.register(new Kprobe(B)))).toBe('ENOMEM');
    expect(s.slots.count).toBe(2);
    expect(s.isOriginal).toBe(true);
  });
});

test('K-ADDR-7: a probe on an ftrace site has no breakpoint, no slot and no jump', () => {
  const s = setup({}, { ftrace: [A] });
  const a = s.add(A);
  expect(a.flags).toBe(FTRACE);
  settle(s.core);
  expect(stateOf(s, A)).toBe('ftrace none');
  expect(s.isOriginal).toBe(true);
  expect(s.slots.count).toBe(0);
  // K-OPT-8: the filter of the ops forgets what is gone; text that comes again may have no site
  // there.
  s.core.kill(A, B);
  expect(s.disarmed).toEqual([A]);
  expect([a.flags & GONE, stateOf(s, A)]).toEqual([GONE, 'original none']);
  const again = s.add(A);
  expect([again.flags, s.armed, s.slots.count]).toEqual([FTRACE, [A, A], 0]);
  for (const each of [a, again]) s.core.unregister(each);
  s.core.quiescence();
  expect(s.core.states()).toEqual([]);
});
